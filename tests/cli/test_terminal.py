"""What a person sees at the terminal: interruptions, help, narrow screens, logs, colours, the cache."""

import io
import json
import multiprocessing
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from rich.console import Console

from azjax import cli, positions
from azjax.agents import make_agent
from azjax.cli import (
    evaluate,
    interrupts,
    learner,
    match,
    parsing,
    progress,
    screen,
    supervised,
    tournament,
    training,
)
from azjax.common import cache, interrupted
from azjax.envs import Hex
from azjax.evaluation import suites
from azjax.evaluation.arena import SCALE, MatchResult, Outcomes
from azjax.evaluation.evaluate import Evaluation
from azjax.evaluation.ratings import Rating, Ratings
from azjax.evaluation.tournament import Match
from azjax.plots import report
from azjax.solvers.hex.search import Limits, Position, Workers


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of `azjax presets`."""

    def replace(run):
        monkeypatch.setitem(sys.modules, "azjax.cli.presets", types.SimpleNamespace(run=run))

    return replace


def interrupted_then(error):
    """A command that is interrupted in compiled code, which makes another error of it."""

    def run(arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    return run


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), RuntimeError("INTERNAL: CpuCallback error"), ValueError("half a file")]
)
def test_ctrl_c_is_one_line_and_exit_code_130_whatever_becomes_of_the_exception(command, capfd, error):
    command(interrupted_then(error))
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    assert cli.main(["presets"]) == 130
    assert capfd.readouterr().err == "azjax: interrupted\n"
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_an_interruption_may_say_more_in_its_line_and_other_errors_stay_what_they_are(command, capfd):
    def run(arguments):
        raise KeyboardInterrupt("interrupted and saved")

    command(run)
    assert cli.main(["presets"]) == 130 and capfd.readouterr().err == "azjax: interrupted and saved\n"
    command(lambda arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["presets"])


def test_devices_that_are_not_there_are_one_line(command, capfd):
    """As of a TPU that another process holds."""
    message = "Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed. (set JAX_PLATFORMS='')"

    def run(arguments):
        raise RuntimeError(message)

    command(run)
    assert cli.main(["presets"]) == 2
    said = capfd.readouterr().err
    assert said.startswith(
        "azjax: JAX has none of the devices that it is to use (Unable to initialize backend 'tpu'"
    )
    assert "JAX_PLATFORMS" in said and said.count("\n") == 1


def test_ctrl_c_at_a_prompt_ends_the_game(monkeypatch, capfd):
    monkeypatch.setattr("builtins.input", lambda *prompt: signal.raise_signal(signal.SIGINT))
    assert cli.main(["play", "hex", "random", "--size", "3"]) == 130
    assert capfd.readouterr().err == "azjax: interrupted\n"


def python(script, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def test_code_that_swallows_interruptions_is_ended_after_a_while():
    process = python(
        """
        import sys, time, types
        from azjax import cli
        from azjax.cli import interrupts

        def run(arguments):
            print("begun", flush=True)
            while True:
                try:
                    time.sleep(60)
                except KeyboardInterrupt:
                    pass

        interrupts.PATIENCE = 0.1
        sys.modules["azjax.cli.presets"] = types.SimpleNamespace(run=run)
        sys.exit(cli.main(["presets"]))
        """
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (interrupts.EXIT_CODE, "azjax: interrupted\n")


# One of the first, and one that the command itself imports.
@pytest.mark.parametrize("module", [r"\bnumpy$", r"azjax\.cli\.screen$"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module):
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "azjax.cli", "report", "nowhere"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stderr:  # a line when an import is done
            if re.search(module, line):
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr if not line.startswith("import time:")]
        assert process.wait(timeout=60) == 130 and said == ["azjax: interrupted\n"]


@pytest.mark.parametrize(
    ("script", "words", "is_one"),
    [
        (
            "/home/me/.venv/bin/azjax",
            ["/home/me/.venv/bin/python", "/home/me/.venv/bin/azjax", "train"],
            True,
        ),
        ("C:/bin/azjax.exe", ["python.exe"], True),
        ("-m", ["python", "-X", "dev", "-m", "azjax.cli", "train"], True),
        ("mine.py", ["python", "mine.py"], False),
        ("-m", ["python", "-m", "pytest", "azjax.cli"], False),
        ("", [], False),
        ("/home/me/.venv/bin/azjax", ["python", "-c", "spawn_main()", "--multiprocessing-fork"], False),
    ],
)
def test_other_programs_keep_their_own_way_with_ctrl_c(script, words, is_one):
    assert interrupted.is_command(script, words) == is_one


def test_worker_processes_do_not_hear_ctrl_c():
    workers = Workers(3, 1)
    try:
        empty = Position(np.uint64(0), np.uint64(0), 0)
        first = workers.submit(empty, Limits())
        (child,) = multiprocessing.active_children()
        os.kill(child.pid, signal.SIGINT)
        assert (
            first.result(timeout=120).result
            == workers.submit(empty, Limits()).result(timeout=120).result
            == 1
        )
    finally:
        workers.close()


def test_a_reader_that_has_seen_enough_is_no_error():
    process = python("import sys; from azjax import cli; sys.exit(cli.main(['presets']))")
    with process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141  # as of any program that SIGPIPE ends


def test_a_command_whose_output_is_closed_ends_as_ever(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert cli.main(["help"]) == 0
    assert cli.main(["hello"]) == 2
    with sys.stdin as stdin, sys.stdout, sys.stderr:  # in their place is what stays empty
        assert stdin.read() == ""


def test_the_version_names_devices(capsys):
    assert cli.main(["--version"]) == 0
    said = capsys.readouterr().out
    assert re.match(r"azjax \d+\.\d+\.\d+\njax \d+.*, jaxlib \d+.*, Python 3\..*\ndevices: \d x cpu\n", said)


def test_help_and_the_list_of_presets_start_no_backend():
    script = """
        from azjax import cli
        assert cli.main(["--help"]) == cli.main(["presets"]) == 0
        from jax._src import xla_bridge
        assert not xla_bridge._backends
    """
    process = python(script)
    said, errors = process.communicate(timeout=60)
    assert not process.returncode, errors
    assert "Exit codes: 0 done, 2" in said and "130 interrupted" in said


def test_an_unknown_command_names_the_closest(capsys):
    assert cli.main(["turnament"]) == 2
    assert "unknown command 'turnament' (did you mean tournament?)" in capsys.readouterr().err


def help_of(capsys, *command):
    with pytest.raises(SystemExit, match="0"):
        cli.main(list(command))
    return capsys.readouterr().out


ARGUMENTS = {
    "match": ["GAME", "A", "B"],
    "tournament": ["GAME", "A B ..."],
    "ratings": ["FILE"],
    "play": ["GAME", "AGENT"],
    "gtp": ["AGENT"],
    "serve": ["RUN"],
    "analyse": ["AGENT"],
    "evaluate": ["RUN", "--judge"],
    "report": ["RUN"],
    "resume": ["RUN"],
    "train": ["PRESET"],
    "profile": ["PRESET"],
    "doctor": ["PRESET"],
    "solve": ["GAME"],
    "openings": ["GAME"],
    "data": ["GAME"],
    "supervised": ["GAME"],
    "td": ["GAME"],
    "es": ["GAME"],
    "presets": [],
    "models": ["NAME"],
    "models pack": ["RUN", "NAME", "--judges"],
    "export": ["RUN"],
    "suite run": ["AGENT", "SUITE"],
    "suite build": ["GAME"],
}


def test_the_help_of_every_command_is_looked_at():
    assert {name.split()[0] for name in ARGUMENTS} == set(cli.COMMANDS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_help_names_the_arguments_teaches_by_example_and_fits_the_screen(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    said = help_of(capsys, *name.split(), "--help")
    usage = said.splitlines()[0]
    assert usage.startswith(f"usage: azjax {name}")
    assert all(argument in said for argument in ARGUMENTS[name])
    examples = re.findall(rf"^  azjax ({name}.*)", said, re.MULTILINE)
    assert examples and max(map(len, said.splitlines())) <= 80

    def parsed(*arguments, **settings):
        parse(*arguments, **settings)
        raise StopIteration  # read without complaint: that is all

    parse = parsing.parse
    monkeypatch.setattr(parsing, "parse", parsed)
    for example in examples:
        if "runs/" not in example:  # a run that is not there
            with pytest.raises(StopIteration):
                cli.main(shlex.split(example))


@pytest.mark.parametrize("name", ["match", "gtp", "evaluate"])
def test_help_fits_a_narrow_screen(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "40")
    said = help_of(capsys, "help", name)
    lines = [
        line for line in said.splitlines() if not re.match("usage:|  azjax", line)
    ]  # commands stay whole
    assert max(map(len, lines)) <= 40
    assert cli.main(["--help"]) == 0 and cli.main(["help", "agents"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "[?" not in line]
    assert max(map(len, lines)) <= 40


def test_no_color_is_for_help_too(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "__stdout__", Terminal())
    assert "\x1b[" in help_of(capsys, "presets", "--help")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in help_of(capsys, "presets", "--help")


def shown(renderable, width):
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(renderable)
    return out.getvalue()


def result(wins=60, losses=4, distinct=41):
    half = Outcomes(wins // 2, 0, losses // 2)
    return MatchResult(half, half, Outcomes(distinct, 0, 0), 12.5, 0, 0, None)


LONG = "az:runs/[bold]a-rather-long-name-of-a-run[/bold]?sims=1000"
JUDGED = {
    "iteration": 123450,
    "seconds": 86400.0,
    "positions": 123_456_789,
    "evaluation": {
        name: {"score": 0.9531, "interval": [0.91, 0.98], "games": 64, "distinct_games": 37}
        for name in ("random", "uct:1000")
    },
    "truth": {"value_sign_accuracy": 0.87, "policy_accuracy_where_it_matters": 0.76, "policy_accuracy": 0.65},
}


def tables():
    run = types.SimpleNamespace(
        read_rows=lambda *checks: [JUDGED | {"iteration": 123400 + i} for i in range(9)]
    )

    def strength(width):
        out = io.StringIO()
        report.summarise(run, Console(file=out, width=width, highlight=False))
        return out.getvalue()

    rated = Ratings([Rating(LONG, 1234.0, 56.0, 57.0, 2000, 0.987, 0.01, 345.0)])
    played = types.SimpleNamespace(
        matches=[Match(LONG, "uct:123", Outcomes(9, 0, 1), Outcomes(9, 0, 1), 17, (0, 0))]
    )
    point = {"games": 10, "random": [0.5, 0.6], "previous": [0.5, 0.5]}
    point |= {"random_total": [0.5, 0.6], "previous_total": [0.5, 0.5]}
    rows = [{"iteration": 100 * i, "score": 0.123, "distinct_games": 41, "seen.share": 0.5} for i in range(9)]
    found = Evaluation("match:uct:2", rows, pathlib.Path("match.jsonl"))
    return {
        "match": (lambda width: shown(match.to_table(LONG, "uct:1000", result()), width), ["93.8", "different", "41"]),
        "strength": (strength, ["123400", "123408", "1440.0", "123M", "against", "95", "37", "87", "76", "65"]),
        "ratings": (lambda width: shown(screen.of_grid(rated.grid()), width), ["1234", "56", "2,000", "98.7"]),
        "matches": (lambda width: shown(tournament._match_table(played), width), ["17", "20", "90.0"]),
        "td": (lambda width: shown(learner.summary([point]), width), ["55.0", "60"]),
        "evaluate": (lambda width: shown(evaluate.to_table(found, 2), width), ["0.123", "41", "800"]),
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("name", tables())
def test_tables_are_never_cut(monkeypatch, name, width):
    monkeypatch.setenv("COLUMNS", str(width))
    draw, expected = tables()[name]
    text = draw(width)
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for piece in expected:  # on a narrow screen cells are broken into lines, and their pieces stand apart
        assert piece in text if width == 80 else set(piece) <= set(text)


def test_the_final_table_has_a_row_per_judgement(monkeypatch):
    text = tables()["strength"][0](80)
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert len(rows) == 2 + 2 * 2 + 3 and SCALE in re.sub(r"\s+", " ", text)
    assert re.search(r"different of 64 games *│ +37 │", text)


def test_a_score_is_explained_and_different_games_are_counted():
    said = " ".join(match.remarks("a", "b", result()))
    assert "50 %" in said and "41 of the 64 games are different" in said
    line = next(training.judgement_lines(JUDGED))
    (unjudged,) = training.judgement_lines({"iteration": 1, "truth": {"value": None, "policy": 0.5}})
    assert unjudged == "iteration 1: right by the solver: policy 50 %"
    played = {"games": 5, "positions_per_second": 9.0, "first_player_score": 0.5}
    played["loss"] = {"total": 0, "policy": 0.0, "value": 0.0}
    assert training.progress_line(played | {"boards": {"5": {}, "2x3": {}}}).startswith(
        "boards 5 2x3; 5 games"
    )
    assert "scores 95 % against random" in line and "64 games, 37 different" in line and len(line) < 80


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return lambda width: Console(file=Terminal(), width=width, markup=False, highlight=False)


ROW = {
    "iteration": 120,
    "games": 12_345_678,
    "positions_per_second": 12_345.0,
    "loss": {"total": 2.0, "policy": 1.5, "value": 0.5},
    "first_player_score": 0.521,
}


@pytest.mark.parametrize("width", [80, 40])
def test_the_progress_of_a_training_keeps_count_and_time_left_and_explains_its_losses(terminal, width):
    console = terminal(width)
    with training.watching(console, 500) as watch:
        watch.stage("compiling (about half a minute the first time)")
    with training.watching(console, 500) as watch:
        watch.row(ROW)
        watch.stage("judging (what that needs is compiled the first time)")
    with training.watching(console, 500) as watch:
        watch.row(ROW)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    assert "compiling" in plain and "judging" in plain and "120/500" in plain and "--:--" in plain
    joined = " ".join(plain.split())
    assert "loss: policy 1.50, value 0.50" in joined and "12,345,678 games" in joined
    assert "…" not in plain and max(len(line.strip()) for line in re.split(r"[\r\n]", plain)) <= width


def learned(watched, row):
    """Runs what watches a learner other than self-play, which reports two iterations and is interrupted."""

    def learn(watch, say, **options):
        say("compiled")
        for iteration in (1, 2):
            watch(row | {"iteration": iteration})
        return types.SimpleNamespace(interrupted=True, preempted=False)

    return watched(learn)


@pytest.mark.parametrize("name", ["td", "supervised"])
def test_lines_of_a_learner_stand_above_its_bar(terminal, monkeypatch, tmp_path, name):
    screens = Terminal()  # of one terminal, which stdout and stderr share
    monkeypatch.setattr(
        screen, "console", lambda stderr=False: Console(file=screens, width=80, markup=False, highlight=False)
    )
    config = types.SimpleNamespace(game="hex", iterations=10, data="solver")
    if name == "td":
        point = {"games": 10, "random": [0.5], "previous": [0.5]}
        learned(lambda learn: learner.watched(learn, "td", config, tmp_path, as_json=False), point)
    else:
        command = types.SimpleNamespace(json=False, resume_from=None, devices=None)
        row = {"positions": 10, "loss": {"policy": 1.0, "value": 1.0}, "held_out": {"of": 5, "value": 0.5}}
        learned(lambda learn: supervised.watched(learn, tmp_path, config, command), row)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screens.getvalue())
    lines = re.split(r"[\r\n]+", plain)
    assert any(line.startswith(("point 1", "iteration 1")) for line in lines) and "compiled" in lines


def test_a_long_stage_leaves_room_for_count_and_time(terminal):
    console = terminal(40)
    with progress.bar(console) as show:
        show(f"match 12: {LONG} against uct:1000", 3, 200)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    assert "3/200" in plain and "--:--" in plain


def test_without_a_terminal_a_line_is_printed_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    console = Console(file=io.StringIO(), markup=False, highlight=False, width=40)
    with progress.bar(console) as show:
        for done in range(1000):
            now = float(done)
            show(
                "[bold]playing", done, 1000, note="a note that is longer than the forty columns of the screen"
            )
    lines = console.file.getvalue().splitlines()
    first = "[bold]playing: 10 of 1,000, about 16 min left"
    assert lines[0] == f"{first}; a note that is longer than the forty columns of the screen"
    assert 20 < len(lines) < 60, "not a line per second, and not silence"
    console, begun = Console(file=io.StringIO()), now
    with progress.bar(console) as show:
        for seconds, done in ((0, 0), (30, 1), (80, 26)):
            now = begun + seconds
            show("training", done, 200)
    first, second = console.file.getvalue().splitlines()
    assert first == "training: 1 of 200", "the first iteration also waited for the compiler"
    assert second == "training: 26 of 200, about 6 min left", "2 s each, 174 are left"
    console = Console(file=io.StringIO())
    with training.watching(console, 5) as watch:
        watch.stage("compiling")
    assert console.file.getvalue() == "compiling\n", "what takes long before the first line is said at once"
    console = Console(file=io.StringIO())
    with progress.bar(console) as show:
        progress.begin(console, show, "labelling", 5)
    assert console.file.getvalue() == "labelling\n"


def test_text_of_users_is_never_markup(terminal):
    console = screen.console()
    with console.capture() as captured:
        console.print("[bold]runs/x[/bold] [/nonsense]")
        table = screen.table("[red]name", title="[red]title")
        table.add_row("[link=x]cell")
        console.print(table)
    for text in ("[bold]runs/x[/bold] [/nonsense]", "[red]name", "[red]title", "[link=x]cell"):
        assert text in captured.get()
    console = terminal(80)
    with progress.bar(console) as show:
        show("[bold]x[/] [/y]", 1, 2, note="[/z]")
    assert "[bold]x[/] [/y]" in console.file.getvalue() and "[/z]" in console.file.getvalue()


@pytest.mark.parametrize("folder", ["{tmp}", "{tmp}/file/that/is/no/folder"])
def test_compiled_programs_are_kept_in_the_users_cache_and_a_cache_that_cannot_be_is_no_matter(
    tmp_path, folder
):
    (tmp_path / "file").write_text("")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "AZJAX_"))
    }
    environment["XDG_CACHE_HOME"] = folder.format(tmp=tmp_path)
    script = """
        from azjax.common import cache
        cache.keep_compiled_programs()
        import jax
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        print(jax.jit(lambda x: x + 1)(1.0))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("2.0\n", "")
    assert bool(list(tmp_path.glob("azjax/compiled/*/*"))) == (folder == "{tmp}")


def test_a_program_that_a_killed_process_half_wrote_is_kept_anew_without_a_word(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    script = """
        from azjax.common import cache
        cache.keep_compiled_programs()
        import jax
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        def add(x): return x + 1
        jax.jit(add)(1.0)
        (path,) = cache.folder().rglob("jit_add-*-cache")
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        jax.clear_caches()
        print(jax.jit(add)(1.0), len(path.read_bytes()) > len(whole) // 2)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment | {"AZJAX_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("2.0 True\n", "")


def test_tables_and_programs_share_a_folder_and_settings_of_jax_are_respected(monkeypatch, tmp_path):
    import jax

    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    assert cache.folder() == tmp_path
    before = jax.config.jax_compilation_cache_dir
    cache.keep_compiled_programs()  # the suite names a folder itself
    assert jax.config.jax_compilation_cache_dir == before


def test_a_suite_shows_its_wrong_answers_and_its_score_by_colour_and_by_moves(tmp_path, capsys, monkeypatch):
    lines = [
        {"game": "hex", "size": 2, "moves": [], "optimal": ["b1"]},
        {"game": "hex", "size": 2, "moves": ["a1"], "optimal": ["b1"]},
        {"game": "hex", "size": 2, "moves": ["b2"], "optimal": ["a1"]},
    ]
    positions.write_positions(tmp_path / "three.jsonl", lines)

    def lowest(text, game, **settings):
        def act(params, key, states):
            return np.argmax(np.asarray(states.board).reshape(len(states.board), -1) == 0, 1)

        return make_agent("random", game)._replace(act=act, on_host=True)

    monkeypatch.setattr("azjax.agents.make_agent", lowest)
    assert cli.main(["suite", "run", "lowest", str(tmp_path / "three.jsonl"), "--wrong", "1"]) == 0
    said = capsys.readouterr().out
    # It plays a1, b1, a1: wrong in the first position alone.
    assert "position 1\n" in said and "Black to move" in said and "played a1; right: b1" in said
    assert "position 2" not in said
    shares = dict(re.findall(r"│ (.*?) +│ +\d │ +\d │ +([\d.]+) %", said))
    assert shares == {"all": "66.7", "player 0 to move": "0.0", "player 1 to move": "100.0"} | {
        "after 0 moves": "0.0",
        "after 1 moves": "100.0",
    }
    assert cli.main(["suite", "run", "lowest", str(tmp_path / "three.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"]["after 0 moves"]["positions"] == 1 and found["answers"][0]["optimal"] == ["b1"]
    assert suites.SuiteResult([], None, (None, None)).parts() == {}
    assert suites.score([]) is None and Hex(2).num_actions == 4
