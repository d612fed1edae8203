"""The commands around training, as they are typed."""

import dataclasses
import io
import json
import math
import pathlib
import re
import shlex
import sys
import threading
import types

import jax
import pytest
from rich.console import Console

from azjax import cli, theses
from azjax.cli import doctor, progress
from azjax.common import beside, memory
from azjax.plots import report
from azjax.training import machine

TINY = [
    *("--search.simulations", "2", "--selfplay.lanes", "8", "--selfplay.plies", "4"),
    *(
        "--network.blocks",
        "1",
        "--network.channels",
        "8",
        "--replay.warm-up",
        "16",
        "--replay.capacity",
        "128",
    ),
]


@pytest.mark.usefixtures("quickly_compiled")
def test_profile_says_where_the_time_goes_and_keeps_a_trace(capsys, tmp_path):
    wanted = ["--trace", str(tmp_path), "--skip", "1", "--keep", "2"]
    assert cli.main(["profile", "hex3", "--json", *wanted, *TINY]) == 0
    assert list(tmp_path.rglob("*.xplane.pb"))
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["share_of_peak"] < 1
    seconds = {row["part"]: row["seconds"] for row in found["parts"]}
    assert set(seconds) == {"network", "rules", "trees and bookkeeping", "learning", "whole iteration"}
    assert min(seconds[part] for part in ("network", "rules", "learning")) > 0
    assert found["positions_per_second"] == pytest.approx(8 * 4 / seconds["whole iteration"])
    assert found["megabytes"] > 0


@pytest.mark.usefixtures("quickly_compiled")
def test_training_judges_by_the_truth_writes_events_and_ends_with_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "cache"))
    judged = ["--evaluation.pairs", "2", "--evaluation.simulations", "2", "--evaluation.uct-simulations", "2"]
    out = tmp_path / "run"
    arguments = ["train", "hex3", "--out", str(out), "--iterations", "2", "--json", "--tensorboard"]
    assert cli.main([*arguments, *TINY, *judged]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2]
    assert set(rows[1]["evaluation"]) == {"random", "uct:2"}
    assert all(0 <= share <= 1 for share in rows[1]["truth"].values())
    assert {"value_sign_accuracy", "policy_accuracy"} <= set(rows[1]["truth"])
    (events,) = (out / "tensorboard").iterdir()
    assert b"loss/policy" in events.read_bytes()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 2 and '<svg class="chart"' in page
    # The end names three commands, and they work as they are printed.
    commands = re.findall(r"^  azjax (.*)", printed.err, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["play", "match", "resume"]
    monkeypatch.setattr("builtins.input", lambda *prompt: "quit")
    for command in commands:
        assert cli.main([*shlex.split(command), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["iteration"] == 4


def test_tensorboard_without_its_package_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert cli.main(["train", "hex3", "--out", str(tmp_path / "run"), "--tensorboard"]) == 2
    assert "pip install 'azjax[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_presets_are_listed_with_what_they_are(capsys):
    assert cli.main(["presets", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(theses.preset_names())


def test_the_ratings_of_a_printed_file_and_what_it_writes_are_those_of_the_thesis(tmp_path, capsys):
    printed = pathlib.Path(__file__).parents[1] / "data" / "jacobsen2019_appendix_d.txt"
    written = tmp_path / "again.pgn"
    assert cli.main(["ratings", str(printed), "--rating", "bayesian", "--pgn", str(written), "--json"]) == 0
    first = capsys.readouterr().out
    assert cli.main(["ratings", str(written), "--rating", "bayesian", "--json"]) == 0
    assert capsys.readouterr().out == first
    found = json.loads(first)
    # Table C.1 of Jacobsen 2019.
    best = [(player["name"], round(player["elo"]), player["games"]) for player in found["ratings"][:2]]
    assert found["games"] == 352 and best == [("Hexy (expert)", 888, 30), ("H2 1200", 659, 38)]


def test_every_command_of_the_help_exists(capsys):
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    folder = pathlib.Path(cli.__file__).parent
    for name in cli.COMMANDS:
        assert f"azjax {name}" in said
        assert (folder / f"{name}.py").exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stderr, shown", [(io.StringIO, False), (Terminal, True)])
def test_the_bar_prints_nothing_unless_stderr_is_a_terminal(monkeypatch, stderr, shown):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", stderr())
    with progress.bar() as show:
        show("counting", 1, 2)
        show("counting", 2, 2)
    assert ("counting" in sys.stderr.getvalue()) is shown
    assert bool(sys.stderr.getvalue()) is shown


@pytest.mark.parametrize("is_the_process", [True, False])
def test_only_the_command_of_a_process_ends_it_while_something_goes_on_beside(
    tmp_path, monkeypatch, capsys, is_the_process
):
    """A caller from Python lives on: the suite's worker once died here of a judgement that another test had left."""
    left, released = [], threading.Event()
    monkeypatch.setattr(cli.interrupts, "leave_at_once", left.append)
    words = ["resume", str(tmp_path / "nowhere")]
    monkeypatch.setattr(sys, "argv", ["azjax", *words])
    at_work = beside.Beside()
    at_work.begin(released.wait)
    try:
        assert cli.main(None if is_the_process else words) == 2
    finally:
        released.set()
        at_work.end()
    assert left == ([2] if is_the_process else [])


def test_a_malformed_place_among_processes_is_refused(capsys):
    assert cli.main(["train", "hex3", "--distributed", "here"]) == 2
    assert "HOST:PORT,PROCESSES,NUMBER" in capsys.readouterr().err


@pytest.mark.parametrize("number", [1, 8, 13, 14])
def test_the_report_shows_at_most_eight_rows_the_first_and_the_last_among_them(number, capsys):
    row = {"seconds": 60.0, "positions": 10, "evaluation": {"random": {"score": 0.5}}}
    rows = [row | {"iteration": 1000 + i} for i in range(number)]
    report.summarise(types.SimpleNamespace(read_rows=lambda *checks: rows), Console())
    shown = re.findall(r"\b10\d\d\b", capsys.readouterr().out)
    assert len(shown) == len(set(shown)) == min(8, number)
    assert (shown[0], shown[-1]) == ("1000", str(999 + number))


@pytest.fixture(scope="module")
def examined():
    """What the doctor finds about a tiny run."""
    config = theses.preset("hex3")
    config = dataclasses.replace(config, selfplay=dataclasses.replace(config.selfplay, lanes=8))
    return config, doctor.examine(config, compile=False)


def test_the_doctor_names_devices_versions_memory_and_an_estimate(examined):
    config, found = examined
    assert found["fits"] and found["machine"]["versions"]["jax"] == jax.__version__
    assert sum(found["machine"]["devices"].values()) == jax.device_count()
    made = found["estimate"]
    seconds = made["evaluating_seconds"] + made["learning_seconds"]
    assert made["positions_per_second"] == pytest.approx(8 * config.selfplay.plies / seconds)
    said = " ".join(doctor.sentences("hex3", found))
    assert "Memory: " in said and "positions/s" in said and f"jax {jax.__version__}" in said


def test_self_play_and_learning_are_timed_each_in_its_precision(monkeypatch):
    timed = []

    def noted(function):
        timed.append({str(leaf.dtype) for leaf in jax.tree.leaves(function.args[0])})  # of its parameters
        return 1.0

    monkeypatch.setattr(machine, "least_seconds", noted)
    machine.estimate(dataclasses.replace(theses.preset("hex3"), selfplay_dtype="bfloat16"), 1)
    assert timed == [{"bfloat16"}, {"float32"}]


def test_the_doctor_says_what_to_change_where_a_run_does_not_fit(monkeypatch, capsys):
    monkeypatch.setattr(memory, "_machine", lambda: 2 * 2**20)  # bytes
    assert cli.main(["doctor", "hex3", "--replay.capacity", "1048576", "--no-compile", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["fits"] and "a replay of 1,048,576 positions" in found["reason"]
    words = [word for option, value in found["change"].items() for word in (f"--{option}", str(value))]
    assert "--replay.capacity" in words
    assert cli.main(["doctor", "hex3", *words, "--no-compile"]) == 0
    monkeypatch.setattr(memory, "_machine", lambda: 10)
    assert cli.main(["doctor", "hex3", "--no-compile"]) == 1
    assert "Nothing smaller" in capsys.readouterr().out


def test_operations_of_a_network_are_those_of_its_products():
    """Dense layers of 2 * inputs * outputs each: the tower of hex3 has two of 128, and heads."""
    config = theses.preset("hex3")
    inputs = math.prod(config.game.observation_shape)
    tower = 2 * (inputs * 128 + 128 * 128)
    assert tower < machine.evaluation_operations(config) < 3 * tower
    at_once = machine.iteration_operations(config)
    more = dataclasses.replace(config.search, simulations=2 * config.search.simulations + 1)
    assert (
        1.3 * at_once < machine.iteration_operations(dataclasses.replace(config, search=more)) < 2 * at_once
    )
