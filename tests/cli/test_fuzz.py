"""Whatever a file or a text holds, reading it gives a result or one sentence: no other exception, no hang.

Each test takes something valid and spoils it in ways that hypothesis chooses and shrinks. `make soak` runs the same
tests with many times the inputs.
"""

import io
import json
import zipfile

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import example, given
from rich.console import Console

from azjax import agents, positions
from azjax.agents.plain import random_agent
from azjax.cli import gtp_server as gtp
from azjax.common.agent import AgentError
from azjax.envs import ChineseCheckers, DotsAndBoxes, GameError, Hex
from azjax.evaluation import curve as curve_files
from azjax.evaluation import judges, pgn, records, suites, tournament
from azjax.nn.networks import make_network
from azjax.plots import report, style
from azjax.positions import openings_database
from azjax.serve import runs
from azjax.training import checkpoint
from azjax.training.config import ConfigError, TrainConfig, config_to_dict
from tests.training_cases import JUDGED, SMALL

GAMES = (
    Hex(size=3),
    Hex(size=4, swap=True),
    ChineseCheckers(size=3, pieces=3),
    DotsAndBoxes(rows=2, columns=2),
)
# What parsers trip over: signs of the formats, numbers at limits, words that mean something.
WORDS = """null NaN -1 1e999 99999999999999999999 true "" {} [] \\ a1 z99 swap-pieces resign hex size=0 .. / ? & = : ;
( ) [ ] " ' { } , 0 1 - + . # %s [bold] [/]""".split()
WORDS += ["\0", "\n", "\r\n", "\t", " ", "é", "\u2028"]


@st.composite
def spoiled_text(draw, *samples: str) -> str:
    """A sample with up to six edits, or any text at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.text(max_size=60))
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(text)))
        end = draw(st.integers(begin, min(len(text), begin + draw(st.sampled_from([0, 1, 3, 1000])))))
        piece = draw(
            st.one_of(st.just(""), st.sampled_from(WORDS), st.just(text[begin:end] * 2), st.text(max_size=3))
        )
        text = text[:begin] + piece + text[end:]
    return text


@st.composite
def spoiled_bytes(draw, sample: bytes) -> bytes:
    """A file with bytes changed, cut off, taken out or put in; sometimes none of it is left."""
    content = bytearray(sample)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.sampled_from(["change", "cut", "remove", "insert", "empty"])):
            case "change" if content:
                content[place] = draw(st.integers(0, 255))
            case "cut":
                del content[place:]
            case "remove":
                del content[place : place + draw(st.integers(1, 64))]
            case "insert":
                content[place:place] = draw(st.binary(max_size=16))
            case "empty":
                content.clear()
    return bytes(content)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spoiled_json(draw, sample):
    """Plain data with values replaced, removed, added or renamed at any depth."""
    data = json.loads(json.dumps(sample))
    for _ in range(draw(st.integers(1, 3))):
        data = draw(_spoil(data))
    return data


@st.composite
def _spoil(draw, data):
    if isinstance(data, dict) and data and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(data)))
        match draw(st.sampled_from(["deeper", "deeper", "deeper", "remove", "rename", "add"])):
            case "deeper":
                return data | {name: draw(_spoil(data[name]))}
            case "remove":
                return {key: value for key, value in data.items() if key != name}
            case "rename":
                return {
                    draw(st.text(max_size=6)) if key == name else key: value for key, value in data.items()
                }
            case "add":
                return data | {draw(st.text(max_size=6)): draw(ANY_JSON)}
    if isinstance(data, list) and data and draw(st.booleans()):
        place = draw(st.integers(0, len(data) - 1))
        return [*data[:place], draw(_spoil(data[place])), *data[place + 1 :]]
    return draw(ANY_JSON)


def result_or_sentence(call, *errors):
    """What a call gives, or None if it raised one of these errors with something to read."""
    try:
        return call()
    except errors as error:
        message = str(error)
        assert message.strip() and "Traceback" not in message
        return None


def game_after(game, moves: int):
    """The position after some first legal moves, on the host."""
    state = jax.device_get(game.init(jax.random.key(0)))
    for _ in range(moves):
        action = int(np.flatnonzero(np.asarray(game.legal_action_mask(state)))[0])
        state = jax.device_get(positions.files._step(game)(state, action))
    return state


NOTATIONS = {game: [game.to_notation(game_after(game, moves)) for moves in (0, 2)] for game in GAMES}


def test_a_count_of_cells_with_many_digits_is_refused():
    with pytest.raises(GameError, match="expected only b, w and counts"):
        GAMES[0].from_notation("99999999999999999999/3/3 b")


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.name}-{game.max_plies}")
@given(data=st.data())
def test_notations_are_read_or_refused(game, data):
    text = data.draw(spoiled_text(*NOTATIONS[game]))
    state = result_or_sentence(lambda: game.from_notation(text), GameError)
    if state is not None:  # then it is a position, which reads back to itself
        again = game.from_notation(game.to_notation(state))
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(again)))


LINES = [
    {"game": "hex", "size": 3, "moves": ["a1", "b2"], "optimal": ["c1"], "value": 1},
    {"game": "dots_and_boxes", "rows": 2, "columns": 2, "position": NOTATIONS[GAMES[3]][1]},
    {"game": "chinese_checkers", "size": 3, "pieces": 3, "moves": [0, 1]},
]


@given(st.sampled_from(LINES).flatmap(spoiled_json))
@example({"game": "hex", "size": 3, "moves": None})
@example({"game": "hex", "size": 10**9})
def test_lines_of_position_files_are_read_or_refused(tmp_path_factory, fields):
    path = tmp_path_factory.getbasetemp() / "positions.jsonl"
    path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    result_or_sentence(lambda: positions.read_positions(path), GameError)
    result_or_sentence(lambda: suites.read_suite(path), ValueError)


@given(spoiled_bytes("".join(json.dumps(line) + "\n" for line in LINES).encode()))
def test_position_files_of_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "positions.jsonl"
    path.write_bytes(content)
    result_or_sentence(lambda: positions.read_positions(path), GameError)


SGF = "(;FF[4]GM[11]SZ[3]PB[uct:2]PW[a \\] b]RE[B+]AB[a1]AW[b2]PL[B];B[c3];W[a2](;B[b1])(;B[c1]))"
PLAIN = '[Game "hex size=3 swap=True planes=2"]\n[First "a\\"b"]\n[Second "b"]\n[Result "1-0"]\n1. a1 2. b2 3. a2\n'
PGN = '[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1-0\n\n[White "B"]\n[Black "A"]\n[Result "1/2-1/2"]\n\n1/2-1/2\n'


@given(spoiled_text(SGF))
def test_sgf_is_read_or_refused(text):
    for record in result_or_sentence(lambda: records.from_sgf(text), ValueError) or ():
        result_or_sentence(lambda record=record: records.replay(record), records.RecordError)


@given(spoiled_text(PLAIN))
def test_the_plain_notation_is_read_or_refused(text):
    for record in result_or_sentence(lambda: records.from_plain(text), records.RecordError) or ():
        result_or_sentence(lambda record=record: records.replay(record), records.RecordError)


@given(spoiled_text(PGN))
def test_pgn_results_are_read_or_refused(text):
    result_or_sentence(lambda: pgn.scores(pgn.read(text)), ValueError)


AGENT_TEXTS = (
    "random",
    "uct:20?c=1.5&playouts=2",
    "az:runs/none?sims=20&search=puct",
    "net:runs/none",
    "human",
)


@given(spoiled_text(*AGENT_TEXTS))
@example("uct:" + "9" * 5000)
@example("uct:²")
@example("az:\0?sims=1")
def test_agent_texts_name_an_agent_or_are_refused(text):
    if text.startswith("gtp"):  # would start whatever stands behind the colon
        return
    made = result_or_sentence(lambda: agents.make_agent(text, GAMES[0]), AgentError)
    if made is not None:
        made.close()


JUDGE_TEXTS = (
    "suite:hex5",
    "truth",
    "accuracy",
    "match:uct:20?c=2",
    "double-deals:hard",
    "boards:easy",
    "whole",
)


@given(spoiled_text(*JUDGE_TEXTS))
def test_judge_texts_name_a_judge_or_are_refused(text):
    if "gtp" in text:
        return
    context = judges.Context(
        SMALL, judges.JudgeOptions(), lambda: pytest.fail("nothing to judge"), lambda *_: None
    )
    name, _, _ = text.partition(":")
    if name in ("truth", "accuracy", "whole", "exploitability", "mistakes", "labels"):
        return  # these take no argument: there is nothing to read
    result_or_sentence(lambda: judges.file_name(text, context.options, 3), ValueError)
    if name == "suite":
        result_or_sentence(lambda: suites.read_suite(text.partition(":")[2]), ValueError, OSError)


@given(spoiled_json({"format": checkpoint.FORMAT, "kind": "TrainConfig", "config": config_to_dict(SMALL)}))
def test_configuration_files_are_read_or_refused(tmp_path_factory, about):
    folder = tmp_path_factory.getbasetemp() / "run"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    config = result_or_sentence(
        lambda: checkpoint.read_config(folder), checkpoint.RunError, ConfigError, GameError
    )
    assert config is None or isinstance(config, TrainConfig)


@given(spoiled_bytes(json.dumps(checkpoint._about(SMALL)).encode()))
@example(b"[" * 100_000)
def test_configuration_files_of_any_bytes_are_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "run"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(content)
    result_or_sentence(lambda: checkpoint.read_config(folder), checkpoint.RunError, ConfigError, GameError)


@pytest.fixture(scope="module")
def agent_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("agent") / "agent.npz"
    params = make_network(SMALL.network, SMALL.game).init(jax.random.key(0))
    checkpoint.export_agent(path, SMALL, jax.device_get(params))
    return path.read_bytes()


@given(data=st.data())
def test_agent_files_are_read_or_refused(agent_file, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "agent.npz"
    path.write_bytes(data.draw(spoiled_bytes(agent_file)))
    result_or_sentence(lambda: checkpoint.load_agent(path), checkpoint.RunError, ConfigError, GameError)


@given(data=st.data())
def test_members_of_agent_files_are_read_or_refused(agent_file, tmp_path_factory, data):
    """The archive is whole; what lies in it is not: headers, sizes, names."""
    with zipfile.ZipFile(io.BytesIO(agent_file)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = data.draw(st.sampled_from(sorted(members)))
    match data.draw(st.sampled_from(["bytes", "remove", "rename", "huge"])):
        case "bytes":
            members[name] = data.draw(spoiled_bytes(members[name]))
        case "remove":
            del members[name]
        case "rename":
            members[data.draw(st.text(max_size=8)) + ".npy"] = members.pop(name)
        case "huge":
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
            members[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path_factory.getbasetemp() / "agent.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    result_or_sentence(lambda: checkpoint.load_agent(path), checkpoint.RunError, ConfigError, GameError)


ROWS = [
    {"iteration": n, "seconds": 2.5 * n, "loss": {"total": 1.0}, "share": {"share": 0.5}} for n in (1, 2, 3)
]


@given(spoiled_bytes("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
def test_judge_files_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "judge.jsonl"
    path.write_bytes(content)
    result_or_sentence(lambda: curve_files.Curve(path).rows(), ValueError)


@given(st.lists(st.sampled_from(ROWS).flatmap(spoiled_json), min_size=1, max_size=3))
def test_rows_of_judge_files_are_read_or_refused(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "judge.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read = result_or_sentence(lambda: curve_files.Curve(path).rows(), ValueError)
    assert read is None or all(isinstance(row["iteration"], int) for row in read)


@given(st.lists(st.sampled_from(ROWS).flatmap(spoiled_json), min_size=1, max_size=3), st.data())
def test_metrics_are_read_or_refused_and_good_rows_survive(tmp_path_factory, rows, data):
    folder = tmp_path_factory.getbasetemp() / "metrics"
    folder.mkdir(exist_ok=True)
    path = folder / "metrics.jsonl"
    content = "".join(json.dumps(row) + "\n" for row in [ROWS[0], *rows, ROWS[2]])
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(spoiled_bytes(content.encode())))
        result_or_sentence(lambda: checkpoint.Run(folder, SMALL).read_metrics(), checkpoint.RunError)
    else:
        path.write_text(content, encoding="utf-8")
        read = result_or_sentence(lambda: checkpoint.Run(folder, SMALL).read_metrics(), checkpoint.RunError)
        assert read is None or {1, 3} <= {row["iteration"] for row in read}


@given(st.lists(st.just(JUDGED) | spoiled_json(JUDGED), min_size=1, max_size=3))
@example([JUDGED | {"iteration": 1, "seconds": "x"}, JUDGED])
@example([JUDGED, JUDGED | {"truth": None}])
@example([JUDGED, JUDGED | {"evaluation": {"random": "x"}}])
def test_pages_about_metrics_are_drawn_or_refused(tmp_path_factory, rows):
    run = checkpoint.Run(tmp_path_factory.getbasetemp() / "pages", SMALL)
    if not run.path.exists():
        run.begin()
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    console = Console(file=io.StringIO(), width=80)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "has_matplotlib", lambda: False)  # which takes long, and reads the same rows
        result_or_sentence(lambda: report.write(run), checkpoint.RunError)
    result_or_sentence(lambda: report.summarise(run, console), checkpoint.RunError)
    assert json.dumps(runs.curves(run.path), allow_nan=False)
    assert json.dumps(runs.Folders([run.path]).listed(), allow_nan=False)
    run.begin(1)  # as resuming does
    assert all(row["iteration"] == 1 for row in run.read_metrics())


@given(st.lists(spoiled_text("play b a1", "genmove w", "3 boardsize 4", "undo", "showboard", "final_score",
                             "param_game allow_swap 1", "all_legal_moves", "dfpn-solve-state", "known_command x"),
                max_size=6))  # fmt: skip
def test_gtp_answers_every_line_once(lines):
    server = gtp.Server(random_agent, Hex(size=3))
    for line in lines:
        if "boardsize" in line and any(word.isdigit() and int(word) > 4 for word in line.split()):
            continue  # would compile for a large board
        for part in line.splitlines():
            answer = server.answer(part)
            assert answer == "" or (
                answer[0] in "=?" and answer.endswith("\n\n") and answer.count("\n\n") == 1
            )


@given(spoiled_bytes(b"x"), st.data())
def test_tournament_results_are_read_or_refused(tmp_path_factory, noise, data):
    path = tmp_path_factory.getbasetemp() / "results.jsonl"
    path.unlink(missing_ok=True)
    results = tournament.Results(path, GAMES[0], {"pairs": 2})
    results.add(tournament.Match("a", "b", tournament.Outcomes(1, 0, 1), tournament.Outcomes(0, 0, 2), 3))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(lines) - 1))
        lines[place] = data.draw(spoiled_json(lines[place]))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    else:
        path.write_bytes(data.draw(spoiled_bytes(path.read_bytes())) + noise)
    result_or_sentence(
        lambda: tournament.Results(path, GAMES[0], {"pairs": 2}).scores(), tournament.TournamentError
    )


@given(data=st.data())
def test_opening_databases_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "openings.csv"
    openings_database.write(path, GAMES[0], openings_database.legal_openings(GAMES[0], (1,)))
    path.write_bytes(data.draw(spoiled_bytes(path.read_bytes())))
    result_or_sentence(lambda: openings_database.read(path, GAMES[0]), ValueError)
