"""Whatever is wrong with what a user gives, a command says so in one line, before any work, and writes nothing."""

import dataclasses
import io
import json
import math
import os
import pathlib
import random
import re
import shlex
import sqlite3
import zipfile

import jax
import numpy as np
import pytest

from azjax import cli, theses, training
from azjax.common import files, memory
from azjax.envs import ChineseCheckers, GameError, Hex, PositionError
from azjax.evaluation import curve as curve_files
from azjax.evaluation import suite_building, suites, tournament
from azjax.evaluation.arena import Outcomes
from azjax.evaluation.judges import JudgeOptions
from azjax.learners.es import ESConfig
from azjax.learners.td import TDConfig
from azjax.nn.networks import make_network
from azjax.positions import openings_database, read_positions
from azjax.search import tree
from azjax.solvers import files as solution_files
from azjax.solvers import load_solver
from azjax.training import checkpoint
from azjax.training.checkpoint import RunError
from azjax.training.config import (
    ConfigError,
    EvaluationConfig,
    NetworkConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
    config_from_dict,
    config_to_dict,
)
from tests.training_cases import JUDGED, create_run

CONFIG = TrainConfig(
    game=Hex(3), network=NetworkConfig(blocks=1, channels=4, policy_channels=4, value_hidden=4)
)


def weights_of(config=CONFIG):
    """The arrays of an agent, all zero: nothing is compiled."""
    like = jax.eval_shape(make_network(config.network, config.game).init, jax.random.key(0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)


def about(**changes):
    return {"format": checkpoint.FORMAT, "kind": "TrainConfig", "config": config_to_dict(CONFIG)} | changes


def write_arrays(path, said, /, **changes):
    """An agent file whose parts may be wrong; a change to None leaves an array out."""
    checkpoint.export_agent(path, CONFIG, weights_of())
    with np.load(path) as file:
        arrays = dict(file)
    arrays["about"] = np.array(said if isinstance(said, str) else json.dumps(said))
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def npy_header(shape, descr="<f4"):
    buffer = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def a_weight():
    leaves = jax.tree_util.tree_leaves_with_path(weights_of())
    path, array = max(leaves, key=lambda leaf: leaf[1].size)
    return f"array:{jax.tree_util.keystr(path)}", array


DEEP = "[" * 200_000
LINES = {  # of position files of Hex 3x3, none of which is a position
    "null": "null",
    "list": "[1, 2]",
    "number": "7",
    "nonsense": "nonsense",
    "cut": '{"game": "hex", "si',
    "deep": DEEP,
    "deep-object": '{"a":' * 200_000,
    "many-digits": '{"game": "hex", "size": ' + "1" * 5000 + "}",
    "no-game": '{"moves": ["a1"]}',
    "game-number": '{"game": 5}',
    "game-null": '{"game": null}',
    "game-unknown": '{"game": "ludo"}',
    "game-option": '{"game": "go_9x9", "moves": ["nowhere"]}',
    "size-text": '{"game": "hex", "size": "3"}',
    "size-flag": '{"game": "hex", "size": true}',
    "size-null": '{"game": "hex", "size": null}',
    "size-list": '{"game": "hex", "size": [3]}',
    "size-float": '{"game": "hex", "size": 3.0}',
    "size-huge": '{"game": "hex", "size": 1000000}',
    "size-nan": '{"game": "hex", "size": NaN}',
    "swap-text": '{"game": "hex", "size": 3, "swap": "no"}',
    "moves-null": '{"game": "hex", "size": 3, "moves": null}',
    "moves-text": '{"game": "hex", "size": 3, "moves": "a1"}',
    "moves-number": '{"game": "hex", "size": 3, "moves": 3}',
    "moves-object": '{"game": "hex", "size": 3, "moves": {"a": 1}}',
    "move-null": '{"game": "hex", "size": 3, "moves": [null]}',
    "move-float": '{"game": "hex", "size": 3, "moves": [1.5]}',
    "move-flag": '{"game": "hex", "size": 3, "moves": [true]}',
    "move-list": '{"game": "hex", "size": 3, "moves": [["a1"]]}',
    "move-unknown": '{"game": "hex", "size": 3, "moves": ["z9"]}',
    "move-huge": '{"game": "hex", "size": 3, "moves": [99999999999999999999]}',
    "move-negative": '{"game": "hex", "size": 3, "moves": [-1]}',
    "move-twice": '{"game": "hex", "size": 3, "moves": ["a1", "a1"]}',
    "position-number": '{"game": "hex", "size": 3, "position": 12}',
    "position-null": '{"game": "hex", "size": 3, "position": null}',
    "position-nonsense": '{"game": "hex", "size": 3, "position": "x/y/z"}',
    "both": '{"game": "hex", "size": 3, "moves": [], "position": "3/3/3 b"}',
}
SUITE_LINES = {  # positions, but not of a suite
    "no-optimal": '{"game": "hex", "size": 3}',
    "optimal-null": '{"game": "hex", "size": 3, "optimal": null}',
    "optimal-empty": '{"game": "hex", "size": 3, "optimal": []}',
    "optimal-text": '{"game": "hex", "size": 3, "optimal": "a1"}',
    "optimal-number": '{"game": "hex", "size": 3, "optimal": [99]}',
    "optimal-illegal": '{"game": "hex", "size": 3, "moves": ["a1"], "optimal": ["a1"]}',
    "optimal-object": '{"game": "hex", "size": 3, "optimal": [{}]}',
}


def changed(**changes):
    """The configuration of an agent with changes; None takes a field away, names with _ reach into a part."""
    fields = config_to_dict(CONFIG)
    for name, value in changes.items():
        part, _, inner = name.partition("__")
        target, key = (fields[part], inner) if inner else (fields, name)
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return about(config=fields)


ABOUTS = {  # what an agent, or a run's config.json, may wrongly say of itself
    "null": "null",
    "list": "[]",
    "text": "hello",
    "deep": DEEP,
    "no-format": json.dumps({}),
    "format-text": json.dumps(about(format="two")),
    "kind-null": json.dumps(about(kind=None)),
    "kind-list": json.dumps(about(kind=[1])),
    "no-config": json.dumps({"format": checkpoint.FORMAT, "kind": "TrainConfig"}),
    "config-null": json.dumps(about(config=None)),
    "config-list": json.dumps(about(config=[1, 2])),
    "config-empty": json.dumps(about(config={})),
    "unknown-field": json.dumps(changed(serach={})),
    "unknown-setting": json.dumps(changed(search__simulation=5)),
    "part-null": json.dumps(changed(search=None)),
    "part-number": json.dumps(changed(replay=3)),
    "game-missing": json.dumps(changed(game=...)),
    "game-null": json.dumps(changed(game=None)),
    "game-text": json.dumps(changed(game="hex")),
    "game-nameless": json.dumps(changed(game__name=...)),
    "game-unknown": json.dumps(changed(game__name="ludo")),
    "game-name-list": json.dumps(changed(game__name=["hex"])),
    "game-option": json.dumps(changed(game__colour="red")),
    "game-size-text": json.dumps(changed(game__size="3")),
    "game-size-huge": json.dumps(changed(game__size=10**9)),
    "kind-of-search": json.dumps(changed(search__kind="gumble")),
    "simulations-text": json.dumps(changed(search__simulations="16")),
    "simulations-float": json.dumps(changed(search__simulations=16.0)),
    "simulations-flag": json.dumps(changed(search__simulations=True)),
    "simulations-null": json.dumps(changed(search__simulations=None)),
    "rate-nan": json.dumps(changed(optimiser__learning_rate=math.nan)),
    "rate-infinite": json.dumps(changed(optimiser__learning_rate=math.inf)),
    "rate-text": json.dumps(changed(optimiser__learning_rate="1e-3")),
    "optimiser": json.dumps(changed(optimiser__name="rmsprop")),
    "flag-number": json.dumps(changed(optimiser__symmetries=1)),
    "channels-huge": json.dumps(changed(network__channels=10**9)),
    "seed-huge": json.dumps(changed(seed=10**20)),
    "seed-digits": json.dumps(about(config="SEED")).replace('"SEED"', '{"seed": ' + "1" * 5000 + "}"),
    "openings-list": json.dumps(changed(selfplay__openings=["A1"])),
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    """A folder full of files that are wrong in all kinds of ways."""
    folder = tmp_path_factory.mktemp("bad")
    noise = random.Random(0).randbytes(4000)
    (folder / "empty").touch()
    (folder / "empty.jsonl").touch()
    (folder / "blank").write_text("\n \n\n")
    (folder / "noise").write_bytes(noise)
    (folder / "latin").write_bytes('{"game": "hex", "who": "Jürgen"}\n'.encode("latin-1"))
    (folder / "zeros").write_bytes(bytes(10_000))
    (folder / "folder" / "inside").mkdir(parents=True)
    for name, line in (LINES | SUITE_LINES).items():
        (folder / f"{name}.jsonl").write_text(
            '{"game": "hex", "size": 3, "optimal": ["a1"]}\n\n' + line + "\n"
        )
    (folder / "over.jsonl").write_text(
        '{"game": "hex", "size": 3, "moves": ["a1", "b1", "a2", "b2", "a3"]}\n'
    )
    (folder / "size4.jsonl").write_text('{"game": "hex", "size": 4, "moves": ["a1"]}\n')
    (folder / "dots.jsonl").write_text('{"game": "dots_and_boxes"}\n')
    (folder / "good.jsonl").write_text('{"game": "hex", "size": 3, "moves": ["a1"]}\n')
    checkpoint.export_agent(folder / "good.npz", CONFIG, weights_of())
    for name, text in ABOUTS.items():
        write_arrays(folder / f"about-{name}.npz", text)
        (folder / f"run-{name}").mkdir()
        (folder / f"run-{name}" / "config.json").write_text(text)
    create_run(folder / "run-kept", CONFIG).save_agent(1, weights_of())
    for name, field in {"own-parts": {"own_parts": 5}, "init-from": {"init_from": 7}}.items():
        (folder / f"run-{name}").mkdir()
        (folder / f"run-{name}" / "config.json").write_text(json.dumps(about(**field)))
    (folder / "run-latin").mkdir()
    (folder / "run-latin" / "config.json").write_bytes(b'{"format": "\xff"}')
    (folder / "run-empty").mkdir()
    (folder / "run-empty" / "config.json").touch()
    (folder / "run-folder" / "config.json").mkdir(parents=True)
    (folder / "run-good" / "checkpoints").mkdir(parents=True)
    (folder / "run-good" / "config.json").write_text(json.dumps(about()))
    weight, array = a_weight()
    write_arrays(folder / "w-shape.npz", about(), **{weight: array[..., :-1]})
    write_arrays(folder / "w-scalar.npz", about(), **{weight: np.float32(1)})
    write_arrays(folder / "w-dtype.npz", about(), **{weight: array.astype(np.float64)})
    write_arrays(folder / "w-text.npz", about(), **{weight: np.full(array.shape, "x")})
    write_arrays(folder / "w-nan.npz", about(), **{weight: array + np.nan})
    write_arrays(folder / "w-inf.npz", about(), **{weight: array - np.inf})
    write_arrays(folder / "w-missing.npz", about(), **{weight: None})
    write_arrays(folder / "w-extra.npz", about(), **{"array:more": array})
    write_arrays(folder / "no-about.npz", about(), about=None)
    write_arrays(folder / "about-array.npz", about(), about=np.zeros((3, 3)))
    whole = (folder / "good.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "flipped.npz").write_bytes(whole[:200] + bytes(64) + whole[264:])
    np.save(folder / "array.npy", np.zeros(3))
    np.savez_compressed(folder / "compressed.npz", about=np.array(json.dumps(about())))
    for name, head in {
        "huge": npy_header((10**6, 10**6)),  # 3.6 TiB
        "overflow": npy_header((2**40, 2**40)),
        "negative": npy_header((-5,)),
        "object": npy_header((1,), "|O"),
        "nonsense": b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((",
    }.items():
        with zipfile.ZipFile(folder / f"header-{name}.npz", "w") as archive:
            archive.writestr("about.npy", head + bytes(100))
            archive.writestr("header.npy", head + bytes(100))
    solution_files.write(folder / "about-other.npz", {"game": "chess"}, {"table": np.zeros(3)})
    (folder / "results.jsonl").write_text('{"format": 1}\n{"player": "a"}\n')
    os.mkfifo(folder / "pipe.svg")
    (folder / "notes.txt").write_text("my notes\nwithout a last line break")
    return folder


ROW = JUDGED | {"iteration": 7, "truth": {"policy_accuracy": None}}
RESULT = ROW["evaluation"]["random"]
WRONG_ROWS = [
    ({"games": ...}, "games is missing"),
    ({"positions": "many"}, "positions must be a whole number, got 'many'"),
    ({"updates": 10**30}, "updates must be between 0 and"),
    ({"seconds": None}, "seconds must be a number, got None"),
    ({"loss": [1]}, "loss must be an object with named fields"),
    ({"truth": 0.5}, "truth must be an object with named fields, got 0.5"),
    ({"truth": {"policy_accuracy": "x"}}, "truth.policy_accuracy must be a number, got 'x'"),
    ({"evaluation": {"random": 0.5}}, "evaluation.random must be an object with named fields, got 0.5"),
    ({"evaluation": {"random": {"score": 0.5}}}, "evaluation.random.interval is missing"),
    (
        {"evaluation": {"random": RESULT | {"interval": [0.5]}}},
        "evaluation.random.interval must be two numbers",
    ),
    ({"evaluation": {"random": RESULT | {"distinct_games": "x"}}}, "distinct_games must be a whole number"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_ROWS)
def test_a_line_of_the_metrics_that_cannot_be_shown_is_named_with_its_field(tmp_path, capsys, wrong, message):
    run = create_run(tmp_path / "run", CONFIG)
    row = {name: value for name, value in (ROW | wrong).items() if value is not ...}
    (run.path / "metrics.jsonl").write_text(f"{json.dumps(ROW | {'iteration': 6})}\n{json.dumps(row)}\n")
    assert cli.main(["report", str(run.path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"azjax: {run.path}/metrics.jsonl, the line of iteration 7: ") and message in said
    assert said.count("\n") == 1


def listing(folder):
    return {
        path.relative_to(folder): None if path.is_dir() else path.stat().st_size for path in folder.rglob("*")
    }


@pytest.fixture
def refused(bad_files, monkeypatch, capsys):
    """(command line) -> the one line that it says, after having done and written nothing."""
    monkeypatch.chdir(bad_files)
    monkeypatch.setenv("COLUMNS", "200")

    def run(line: str) -> str:
        before = listing(bad_files)
        by_tyro = False
        try:
            code = cli.main(shlex.split(line))
        except SystemExit as stop:
            code, by_tyro = stop.code, True
        said = capsys.readouterr()
        assert code == 2, f"{line}: exit code {code}, said {said.out}{said.err}"
        assert "Traceback" not in said.err
        if not by_tyro:  # which draws a box
            assert re.fullmatch(r"azjax: [^\n]+\n", said.err), said.err
        assert listing(bad_files) == before
        return said.err

    return run


TABLE = """
hello                                                        | unknown command 'hello'
train                 ludo                                   | ludo
train hex3 --out run-good/x --seed 1e20                      | seed
train hex3 --out x --seed 100000000000000000000              | seed must be between 0 and 4,294,967,295
train hex3 --out x --seed -1                                 | seed must be between
train hex3 --out x --search.simulations 0                    | search.simulations must be at least 1
train hex3 --out x --search.simulations 10000000000          | search.simulations must be at most
train hex3 --out x --search.kind gumble                      | gumbel
train hex3 --out x --search.c nan                            | search.c must be a finite number
train hex3 --out x --search.dirichlet-alpha -1               | search.dirichlet_alpha must be above 0
train hex3 --out x --replay.reuse inf                        | replay.reuse must be a finite number
train hex3 --out x --replay.reuse 1e9                        | replay.reuse must be at most 1,000
train hex3 --out x --replay.capacity 1000000000000           | replay.capacity must be at most
train hex3 --out x --replay.capacity 0                       | replay.capacity
train hex3 --out x --replay.warm-up 10000000                 | replay.warm_up must be at most replay.capacity
train hex3 --out x --optimiser.learning-rate nan             | optimiser.learning_rate must be a finite number
train hex3 --out x --optimiser.learning-rate inf             | optimiser.learning_rate must be a finite number
train hex3 --out x --optimiser.name rmsprop                  | adam
train hex3 --out x --optimiser.second-momentum 1             | second_momentum must be at least 0 and below 1
train hex3 --out x --network.channels 1000000000             | channels must be at most 65,536
train hex3 --out x --network.blocks 1000000                  | blocks must be at most 1,000
train hex3 --out x --network.kernel-size 4                   | kernel_size must be an odd number
train hex3 --out x --selfplay.temperature nan                | selfplay.temperature must be a finite number
train hex3 --out x --selfplay.plies 2000000000               | selfplay.plies must be at most 1,000,000
train hex3 --out x --selfplay.openings Q5                    | selfplay.openings must be one of
train hex3 --out x --iterations 0                            | iterations must be at least 1
train hex3 --out x --iterations 99999999999                  | iterations must be at most
train hex3 --out x --devices 0                               | devices must be at least 1
train hex3 --out x --evaluation.pairs 0                      | evaluation.pairs must be at least 1
train hex3 --out x --game.size 25                            | size must be a whole number from 1 to 19
train hex3 --out x --search.simulations 999999999            | for a search tree of 1,000,000,000 nodes
train hex3 --out x --selfplay.lanes 1000000000               | the unfinished games of 1,000,000,000 lanes
train hex3 --out x --evaluation.simulations 999999999        | search trees of 1,000,000,000 nodes each
train hex3 --out x --evaluation.uct-simulations 999999999    | search trees of 1,000,000,000 nodes each
train hex3 --out x --evaluation.pairs 1000000000             | for the table of 2,000,000,000 games
train hex3 --out x --evaluation.random-plies 99999           | random_plies must be between 0 and 10,000
train hex3 --out x --selfplay.openings R99999999             | a game of hex has at most 9 moves
train hex3 --out x --selfplay.openings missing.jsonl         | there is no position file missing.jsonl
train hex3 --out x --selfplay.openings empty.jsonl           | empty.jsonl holds no position
train hex3 --out x --selfplay.openings over.jsonl            | is the end of a game
train hex3 --out x --selfplay.openings moves-null.jsonl      | moves-null.jsonl, line 3
train hex3 --out x --init-from missing                       | there is no agent at missing
train hex3 --out run-null --resume                           | JSON object
train hex3 --out run-deep --resume                           | nested too deeply
train hex3 --out run-good --resume-from -5                   | resume_from must be at least 0
profile hex3 --selfplay.lanes 0                              | selfplay.lanes must be at least 1
profile hex3 --search.full-share 1.5                         | search.full_share must be between 0 and 1
profile hex3 --search.simulations 999999999                  | for a search tree of 1,000,000,000 nodes
profile nothing                                              | nothing
td ludo                                                      | unknown game 'ludo'
td hex --out x --size 3 --learning-rate nan                  | learning_rate must be a finite number
td hex --out x --size 3 --learning-rate -1                   | learning_rate must be above 0
td hex --out x --size 3 --hidden 10 0                        | hidden[1] must be between 1 and 65,536
td hex --out x --size 3 --hidden 1000000000                  | hidden[0] must be between 1 and 65,536
td hex --out x --size 3 --games 0                            | games must be at least 1
td hex --out x --size 3 --games 1000000000                   | for 1,000,000,000 games side by side
td hex --out x --size 3 --evaluation-games 1000000000        | for 1,000,000,000 games side by side
td hex --out x --size 3 --sessions 1000000000                | for the networks of 1,000,000,000 sessions
td hex --out x --size 3 --opponent nobody                    | 'nobody' names no agent
td hex --out run-null --resume                               | expected a JSON object
td hex --out run-good --resume                               | expected one with a TDConfig
td hex --out x --size 3 --seed 4294967296                    | seed must be between
td hex --out x --size 3 --network tour                       | tower
td dots-and-boxes --out x --network dense                    | network must be 'tower' for dots_and_boxes
es hex --out x --size 3 --sigma inf                          | sigma must be a finite number
es hex --out x --size 3 --population 2                       | population must be at least 6
es hex --out x --size 3 --temperature -1                     | temperature must be at least 0
es hex --out x --size 3 --hidden 65536 65536 --sessions 100  | for the networks of 100 sessions
es hex --out x --size 3 --strategy nothing                   | strategy must be csa
es hex --out x --size 3 --every 0                            | every must be at least 1
es hex --out x --size 99                                     | size must be a whole number
solve ludo                                                   | unknown game 'ludo'
solve hex --size 0                                           | size must be a whole number
solve go_9x9                                                 | there is no exact solver for go_9x9
solve hex --size 3 --seconds nan                             | seconds must be a finite number
solve hex --size 3 --seconds -1                              | seconds must be at least 0
solve hex --size 3 --gigabytes inf                           | gigabytes must be a finite number
solve hex --size 3 --processes 0                             | processes must be between 1 and 1,024
solve hex --size 3 --processes 100000                        | processes must be between 1 and 1,024
solve hex --size 3 --method table                            | --method is for Dots and Boxes
solve hex --size 3 --save nowhere/x.npz                      | there is no folder nowhere
solve hex --size 3 --save folder                             | folder is a folder; name a file
solve hex --size 3 --save empty/x.npz                        | empty is no folder
solve hex --size 3 --save notes.txt                          | no file of solutions; name another
solve hex --size 3 --save good.npz                           | no file of solutions; name another
solve hex --size 3 --positions good.jsonl --save good.jsonl  | would be overwritten
solve hex --size 3 --positions missing                       | there is no position file missing
solve hex --size 3 --positions folder                        | folder is a folder, expected a position file
solve hex --size 3 --positions empty                         | empty holds no position
solve hex --size 3 --positions blank                         | blank holds no position
solve hex --size 3 --positions noise                         | expected text in UTF-8
solve hex --size 3 --positions latin                         | latin, line 1: expected text in UTF-8
solve hex --size 3 --positions zeros                         | zeros, line 1: not a JSON object
solve hex --size 3 --positions dots.jsonl                    | the line is about dots_and_boxes, but hex was asked for
solve hex --size 3 --positions /dev/zero                     | is a device
solve hex --size 3 --positions good.jsonl --openings         | not both
solve hex --size 3 --load missing                            | missing
solve hex --size 3 --load folder                             | folder is a folder
solve hex --size 3 --load empty                              | damaged or no file of solutions
solve hex --size 3 --load noise                              | damaged or no file of solutions
solve hex --size 3 --load array.npy                          | damaged or no file of solutions
solve hex --size 3 --load good.npz                           | damaged or no file of solutions
solve hex --size 3 --load header-huge.npz                    | claims an array [1000000, 1000000]
solve hex --size 3 --load header-object.npz                  | of object
solve hex --size 3 --load about-other.npz                    | is about something else
solve chinese-checkers --size 4 --save about-other.npz       | is about something else
solve dots-and-boxes --rows 0                                | rows must be a whole number of boxes
solve chinese-checkers --pieces 5                            | pieces must be one of
solve chinese-checkers --max-plies 99999999999               | max_plies must be at least 1 and at most
data hex                                                     | for dots_and_boxes alone
data dots-and-boxes --out x.txt                              | --out must be NAME.npz
data dots-and-boxes --out nowhere/x.npz                      | there is no folder nowhere
data dots-and-boxes --samples 2147483647                     | for 2,147,483,647 samples
data dots-and-boxes --teacher nobody                         | names no agent
supervised ludo                                              | unknown game 'ludo'
supervised hex --size 3 --out x --data missing.npz           | there is no file of labelled positions missing.npz
supervised hex --size 3 --out x --data good.npz              | good.npz is about
supervised hex --size 3 --out x --init-from missing          | there is no agent at missing
supervised hex --size 3 --out notes.txt                      | notes.txt is a file
supervised hex --size 3 --out run-good                       | already holds a run
supervised hex --size 3 --out x --positions 2000000000       | labelled positions
supervised hex --size 3 --out x --held-out 1e-12             | labelled positions
supervised hex --size 3 --out x --network.channels 65536     | the network and its optimiser
suite run random hex5 --wrong -5                             | wrong must be at least 0
suite build hex --size 3 --records good.jsonl --out good.jsonl | would be overwritten
suite build hex --size 3 --out x.jsonl --proofs x.jsonl      | would be overwritten
profile hex3 --trace notes.txt                               | notes.txt is a file, expected a folder
profile hex3 --trace notes.txt/deeper                        | notes.txt is a file, expected a folder
models nothing                                               | there is no ready network
models pack run-good ../x --judges truth                     | names of networks consist of
models pack run-good x --judges truth                        | there is no agent at run-good
export missing --onnx x.onnx                                 | there is no agent at missing
export good.npz                                              | say what to write
export good.npz --onnx nowhere/x --safetensors x             | there is no folder nowhere
export good.npz --onnx x --safetensors x                     | would be overwritten
export good.npz --safetensors good.npz                       | would be overwritten
export good.npz --onnx good.npz                              | would be overwritten
export run-good --safetensors run-good/config.json           | would be overwritten
evaluate run-kept --judge match:uct:0                        | must be a whole number from 1
evaluate run-kept --judge match:uct:999999999                | for a search tree of 1,000,000,000 nodes
evaluate run-kept --judge boards:hard                        | is for runs of dots_and_boxes
evaluate run-good --judge truth --beside missing             | missing holds no run
evaluate run-kept --judge truth --beside run-good            | run-good has no results of truth with these options
evaluate run-kept --judge nonsense --beside run-good         | nonsense
resume missing                                               | missing holds no run
resume run-own-parts                                         | own_parts must be a tuple, got 5
resume run-init-from                                         | init_from must be a text, got 7
resume run-good --devices 0                                  | devices must be at least 1
resume run-good --resume-from -5                             | resume_from must be at least 0
resume empty                                                 | empty holds no run
resume run-empty                                             | config.json of run-empty is damaged
resume run-unknown-field                                     | unknown field 'serach'
resume run-good --iterations 0                               | iterations must be at least 1
report missing                                               | missing holds no run
report empty                                                 | empty holds no run
report folder                                                | folder holds no run
report run-empty                                             | config.json of run-empty is damaged
report run-latin                                             | expected text in UTF-8
report run-folder                                            | is a folder, expected a configuration
evaluate missing --judge truth                               | missing holds no run
evaluate run-good --judge truth                              | has no checkpoint yet
evaluate run-null --judge truth                              | expected a JSON object
evaluate run-good --judge truth --simulations -1             | simulations must be at least 0
evaluate run-good --judge truth --seed 99999999999           | seed must be between
evaluate run-good --judge truth --positions 0                | positions must be at least 1
evaluate run-good --judge truth --pairs 99999999999          | pairs must be at most
suite                 hello                                  | unknown 'hello'
suite build ludo                                             | unknown game 'ludo'
suite build go_9x9                                           | there is no exact solver for go_9x9
suite build tic_tac_toe                                      | there is no exact solver for tic_tac_toe
suite build hex --size 3 --out nowhere/x.jsonl               | there is no folder nowhere
suite build hex --size 3 --out folder                        | folder is a folder
suite build hex --size 3 --games 0                           | games must be at least 1
suite build hex --size 3 --games 99999999999                 | games must be at most 1,000,000
suite build hex --size 3 --sources wild                      | sources must be some of
suite build hex --size 3 --min-winning 9                     | min_winning must be from 1 to max_winning
suite build hex --size 3 --seconds inf                       | seconds must be a finite number
suite build hex --size 3 --seed -3                           | seed must be between
suite run random missing                                     | there is no suite missing
suite run random folder                                      | folder is a folder
suite run random empty                                       | empty holds no position
suite run random noise                                       | expected text in UTF-8
suite run random good.npz                                    | expected text in UTF-8
suite run rnadom hex5                                        | did you mean random
suite run uct:0 hex5                                         | must be a whole number from 1
suite run random hex5 --seed -1                              | seed must be between
openings ludo                                                | unknown game 'ludo'
openings hex --size 3 --out x.txt                            | --out must be NAME.db
openings hex --size 3 --out nowhere/x.db                     | there is no folder nowhere
openings hex --size 3 --out empty/x.db                       | empty is no folder
openings hex --size 3 --lengths 0                            | openings have 1 to 3 moves
openings hex --size 3 --lengths 4                            | openings have 1 to 3 moves
openings go_9x9 --winning                                    | no solver fits
match ludo random random                                     | unknown game 'ludo'
match hex random nobody --size 3                             | 'nobody' names no agent
match hex random uct --size 3                                | incomplete
match hex random uct:many --size 3                           | must be a whole number from 1
match hex random uct:-5 --size 3                             | must be a whole number from 1
match hex random uct:0 --size 3                              | must be a whole number from 1
match hex random uct:1000000000000 --size 3                  | for a search tree of
match hex random uct:999999999 --size 11                     | TiB for a search tree of
match hex random 'uct:10?playouts=999999999999' --size 3     | playouts
match hex random 'uct:10?c=nan' --size 3                     | c of uct must be a number from 0
match hex random 'uct:10?c=1e300' --size 3                   | c of uct must be a number from 0
match hex random 'uct:10?d=1' --size 3                       | uct has no option 'd'
match hex random az:missing --size 3                         | there is no agent at missing
match hex random az:folder --size 3                          | there is no agent at folder
match hex random az:empty --size 3                           | is not an agent of azjax, or damaged
match hex random az:pipe.svg --size 3                        | pipe.svg is a pipe
solve hex --size 3 --load pipe.svg                           | pipe.svg is a pipe
match hex random az:noise --size 3                           | is not an agent of azjax, or damaged
match hex random az:array.npy --size 3                       | is not an agent of azjax, or damaged
match hex random az:cut.npz --size 3                         | is not an agent of azjax, or damaged
match hex random az:flipped.npz --size 3                     | flipped.npz
match hex random az:compressed.npz --size 3                  | compressed
match hex random az:no-about.npz --size 3                    | is not an agent of azjax, or damaged
match hex random az:about-array.npz --size 3                 | is not an agent of azjax, or damaged
match hex random az:header-huge.npz --size 3                 | claims an array [1000000, 1000000] of float32
match hex random az:header-overflow.npz --size 3             | claims an array
match hex random az:header-negative.npz --size 3             | header-negative.npz
match hex random az:header-object.npz --size 3               | of object
match hex random az:header-nonsense.npz --size 3             | header-nonsense.npz
match hex random az:about-other.npz --size 3                 | is not an agent of azjax, or damaged
match hex random az:w-shape.npz --size 3                     | expected [
match hex random az:w-scalar.npz --size 3                    | expected [
match hex random az:w-dtype.npz --size 3                     | float64, expected
match hex random az:w-text.npz --size 3                      | <U1, expected
match hex random az:w-nan.npz --size 3                       | numbers that are not finite
match hex random az:w-inf.npz --size 3                       | numbers that are not finite
match hex random az:w-missing.npz --size 3                   | is missing
match hex random az:w-extra.npz --size 3                     | array:more is not part of it
match hex random 'az:good.npz?sims=999999999' --size 3       | for a search tree of 1,000,000,000 nodes
match hex random 'az:good.npz?sims=0' --size 3               | sims of az must be a whole number from 1
match hex random 'az:good.npz?sims=1e9' --size 3             | sims of az must be a whole number from 1
match hex random 'az:good.npz?temperature=inf' --size 3      | temperature of az must be a number from 0
match hex random 'az:good.npz?temperature=1e-30' --size 3    | temperature of az must be 0, or at least 0.001
match hex random 'az:good.npz?step=5' --size 3               | step=5 asks for a checkpoint
match hex random 'az:run-good?step=5' --size 3               | has no weights of iteration 5
match hex random td:good.npz --size 3                        | expected one with a TDConfig
match hex random es:noise --size 3                           | is not an agent of azjax, or damaged
match dots-and-boxes random az:good.npz                      | trained on hex and cannot play dots_and_boxes
match hex random easy --size 3                               | easy plays dots_and_boxes alone
match go_9x9 random perfect                                  | perfect
match hex random random --size 3 --pairs 0                   | pairs must be at least 1
match hex random random --size 3 --pairs 1000000000          | for the table of 2,000,000,000 games
match hex random random --size 3 --random-plies 1000000000   | random_plies must be between 0 and 10,000
match hex random random --size 3 --width 0                   | width must be at least 1
match hex random random --size 3 --seed -1                   | seed must be between
match hex random random --size 3 --openings missing          | there is no position file missing
match hex random random --size 3 --openings empty            | empty holds no position
match hex random random --size 3 --openings over.jsonl       | an opening is over already
match hex random random --size 3 --openings size4.jsonl      | an opening is of
match hex random random --size 3 --records nowhere/x.sgf     | there is no folder nowhere
match hex random random --size 3 --records folder            | folder is a folder
match hex random random --size 3 --openings good.jsonl --records good.jsonl | would be overwritten
match dots-and-boxes random random --records x.sgf           | SGF is for Hex alone
tournament ludo random uct:2                                 | unknown game 'ludo'
tournament hex random --size 3                               | two or more different players
tournament hex random random --size 3                        | two or more different players
tournament hex random nobody --size 3                        | names no agent
tournament hex random uct:1000000000000 --size 3             | for a search tree of
tournament hex random uct:2 --size 3 --out x.csv             | would be overwritten
tournament hex random uct:2 --size 3 --out x.svg             | would be overwritten
tournament hex random uct:2 --size 3 --out folder            | folder is a folder
tournament hex random uct:2 --size 3 --out nowhere/x         | there is no folder nowhere
tournament hex random uct:2 --size 3 --out notes.txt         | notes.txt, line 1: not a JSON object
tournament hex random uct:2 --size 3 --out noise             | expected text in UTF-8
tournament hex random uct:2 --size 3 --out results.jsonl     | holds another tournament
tournament hex random uct:2 --size 3 --out x --records x     | would be overwritten
tournament hex random uct:2 --size 3 --anchor nobody         | --anchor must be one of the players
tournament hex random uct:2 --size 3 --anchor-elo nan        | anchor_elo must be a finite number
tournament hex random uct:2 --size 3 --prior -1              | prior must be at least 0
tournament hex random uct:2 --size 3 --prior inf             | prior must be a finite number
tournament hex random uct:2 --size 3 --pairs 1000000000      | for the table of 2,000,000,000 games
tournament hex random uct:2 --size 3 --pairs-with random=x   | does not say how many pairs
tournament hex random uct:2 --size 3 --kind ladder --pairs-with random=2 | a ladder has the same number of games
ratings nowhere.pgn                                          | nowhere.pgn
ratings blank                                                | there are no results to rate
tournament hex random uct:2 --size 3 --openings blank        | blank holds no position
play ludo random                                             | unknown game 'ludo'
play hex nobody --size 3                                     | names no agent
play hex uct:999999999 --size 11                             | TiB for a search tree of
play hex random --size 99                                    | size must be a whole number
play hex random --size 3 --hints nobody                      | names no agent
play hex random --size 3 --record nowhere/x.sgf              | there is no folder nowhere
play hex random --size 3 --draw folder                       | folder is a folder
play hex random --size 3 --record x --draw x                 | would be overwritten
play hex random --size 3 --draw pipe.svg                     | pipe.svg is a device or a pipe
play hex random random --size 3 --record pipe.svg            | pipe.svg is a device or a pipe
solve hex --size 3 --save pipe.svg                           | pipe.svg is a device or a pipe
tournament hex random uct:2 --size 3 --out pipe.x            | pipe.svg is a device or a pipe
train hex3 --out pipe.svg                                    | pipe.svg is a file, expected a folder
play dots-and-boxes random --record x.sgf                    | SGF is for Hex alone
play hex random --size 3 --seed 99999999999                  | seed must be between
analyse nobody                                               | names no agent
gtp nobody                                                   | names no agent
gtp az:missing                                               | there is no agent at missing
gtp uct:999999999 --size 11                                  | TiB for a search tree of
gtp random --size 0                                          | size must be a whole number
gtp random --seed -1                                         | seed must be between
"""
CASES = [tuple(part.strip() for part in line.split("|", 1)) for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("line", "message"), CASES, ids=[re.sub(r"\s+", " ", line) for line, _ in CASES])
def test_a_command_refuses_what_is_wrong_in_one_line(refused, line, message):
    said = " ".join(refused(line).replace("│", " ").split())
    assert any(part in said for part in message.split("|")), said


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_line_of_a_position_file_is_named(refused, name):
    command = "suite run random" if name == "no-game" else "match hex random random --size 3 --openings"
    assert f"{name}.jsonl, line 3: " in refused(f"{command} {name}.jsonl")


@pytest.mark.parametrize("name", SUITE_LINES)
def test_a_suite_without_optimal_moves_is_refused_and_the_position_named(refused, name):
    assert f"{name}.jsonl, position 2: " in refused(f"suite run random {name}.jsonl")


@pytest.mark.parametrize("name", ABOUTS)
def test_what_is_wrong_with_the_configuration_of_an_agent_is_said_with_its_file(refused, name):
    assert f"about-{name}.npz" in refused(f"match hex random az:about-{name}.npz --size 3")


@pytest.mark.parametrize("name", ABOUTS)
def test_what_is_wrong_with_the_configuration_of_a_run_is_said_with_its_file(refused, name):
    said = refused(f"report run-{name}")
    assert f"run-{name}" in said and "config.json" in said


WRONG_SETTINGS = [
    (
        SearchConfig,
        {"kind": "gumble"},
        "search.kind must be one of 'gumbel', 'puct', 'klent' (did you mean gumbel?)",
    ),
    (SearchConfig, {"kind": None}, "search.kind must be one of"),
    (SearchConfig, {"simulations": 2.0}, "search.simulations must be a whole number, got 2.0"),
    (SearchConfig, {"simulations": True}, "search.simulations must be a whole number, got True"),
    (SearchConfig, {"simulations": "16"}, "search.simulations must be a whole number, got '16'"),
    (SearchConfig, {"simulations": 2**31}, "search.simulations must be at most 2,147,483,647"),
    (SearchConfig, {"simulations": 10**5000}, "got a number of more than 60 digits"),
    (SearchConfig, {"c": math.nan}, "search.c must be a finite number, got nan"),
    (SearchConfig, {"c": "1"}, "search.c must be a number, got '1'"),
    (SearchConfig, {"c_base": 0}, "search.c_base must be above 0"),
    (SearchConfig, {"evaluate_terminals_with_network": 1}, "must be True or False, got 1"),
    (SelfplayConfig, {"openings": 3}, "selfplay.openings must be a text, got 3"),
    (SelfplayConfig, {"value_target": "outcom"}, "did you mean outcome?"),
    (SelfplayConfig, {"lanes": [8]}, "selfplay.lanes must be a whole number, got [8]"),
    (ReplayConfig, {"warm_up": 70_000}, "replay.warm_up must be at most replay.capacity (65,536)"),
    (ReplayConfig, {"window_games": 0}, "replay.window_games must be at least 1"),
    (ReplayConfig, {"reuse": math.inf}, "replay.reuse must be a finite number"),
    (ReplayConfig, {"reuse": 10**400}, "replay.reuse must be a finite number"),
    (
        OptimiserConfig,
        {"name": "rmsprop"},
        "optimiser.name must be one of 'sgd', 'adam', 'adamw', got 'rmsprop'",
    ),
    (OptimiserConfig, {"clip_norm": -math.inf}, "optimiser.clip_norm must be a finite number"),
    (EvaluationConfig, {"every": 0}, "evaluation.every must be at least 1"),
    (NetworkConfig, {"channels": 10**9}, "channels must be at most 65,536"),
    (NetworkConfig, {"norm_epsilon": math.nan}, "norm_epsilon must be a finite number"),
    (NetworkConfig, {"activation": "sine"}, "activation must be one of"),
    (
        TrainConfig,
        {"game": "hex"},
        "game must be a game, such as azjax.make_game('hex', size=5), got 'hex'",
    ),
    (TrainConfig, {"game": Hex(3), "network": {}}, "network must be a NetworkConfig, got {}"),
    (TrainConfig, {"game": Hex(3), "seed": -1}, "seed must be between 0 and 4,294,967,295"),
    (TrainConfig, {"game": Hex(3), "selfplay_dtype": "float64"}, "selfplay_dtype must be one of"),
    (TDConfig, {"game": Hex(3), "hidden": [80]}, "hidden must be a tuple, got [80]"),
    (TDConfig, {"game": Hex(3), "hidden": (80, "40")}, "hidden[1] must be a whole number, got '40'"),
    (TDConfig, {"game": Hex(3), "optimiser": "sdg"}, "did you mean sgd?"),
    (TDConfig, {"game": Hex(3), "evaluation_temperature": -1}, "evaluation_temperature must be at least 0"),
    (ESConfig, {"game": Hex(3), "sigma": math.nan}, "sigma must be a finite number"),
    (ESConfig, {"game": Hex(3), "population": 8.0}, "population must be a whole number"),
    (JudgeOptions, {"policy_simulations": (32, 0)}, "policy_simulations[1] must be at least 1"),
    (JudgeOptions, {"seed": 2**32}, "seed must be between"),
    (suite_building.Recipe, {"games": "many"}, "games must be a whole number"),
    (suite_building.Recipe, {"sources": "strong"}, "sources must be a tuple"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), WRONG_SETTINGS)
def test_a_wrong_setting_is_refused_when_it_is_made(kind, fields, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        kind(**fields)


@pytest.mark.parametrize(
    "options",
    [{"size": 4.0}, {"pieces": "3"}, {"forward_only": 1}, {"repetitions": 1.5}, {"max_plies": True}],
)
def test_options_of_a_game_have_their_types(options):
    with pytest.raises(GameError, match=next(iter(options))):
        ChineseCheckers(**options)


def test_all_presets_and_whole_numbers_for_floats_are_accepted():
    for name in theses.preset_names():
        theses.preset(name)
    assert OptimiserConfig(learning_rate=1, clip_norm=None).learning_rate == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "unknown-field",
            "unknown field 'serach' (did you mean search?); there are game, boards, network, search",
        ),
        ("unknown-setting", "search has an unknown field 'simulation' (did you mean simulations?)"),
        ("game-missing", "the configuration lacks the field game"),
        ("part-null", "search must be an object with named fields, got None"),
        ("game-size-text", "game: size must be a whole number from 1 to 19, got '3'"),
        ("rate-nan", "optimiser.learning_rate must be a finite number, got nan"),
    ],
)
def test_a_configuration_from_a_file_names_the_field(name, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        config_from_dict(json.loads(ABOUTS[name])["config"])


def test_weights_that_do_not_fit_are_refused_and_the_array_is_named(bad_files):
    weight, _ = a_weight()
    for name in ("shape", "dtype", "nan", "missing"):
        with pytest.raises(RunError, match=re.escape(weight)):
            checkpoint.load_agent(bad_files / f"w-{name}.npz")
    config, params = checkpoint.load_agent(bad_files / "good.npz")
    assert config == CONFIG
    jax.tree.map(np.testing.assert_array_equal, params, weights_of())


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        (
            "search",
            {"simulations": 999_999_999},
            "for a search tree of 1,000,000,000 nodes; this machine has",
        ),
        ("selfplay", {"lanes": 10**9}, "the unfinished games of 1,000,000,000 lanes"),
        ("replay", {"capacity": 2**31 - 8}, "a replay of 2,147,483,640 positions"),
        ("network", {"blocks": 20, "channels": 2**16}, "the network and its optimiser"),
    ],
)
def test_a_run_that_does_not_fit_is_refused_with_the_memory_it_takes(part, fields, message):
    config = dataclasses.replace(CONFIG, **{part: dataclasses.replace(getattr(CONFIG, part), **fields)})
    with pytest.raises(
        memory.TooMuchMemoryError, match=r"^about [\d.,]+ [TGP]iB for .*; this machine has"
    ) as caught:
        training.make_trainer(config, training.make_mesh(1))
    assert message in str(caught.value)


def test_what_fits_depends_on_the_memory_there_is(monkeypatch):
    mesh = training.make_mesh(1)
    state = jax.eval_shape(training.make_trainer(CONFIG, mesh).init, jax.random.key(0))
    learned = memory.size_of((state.params, state.average, state.opt_state))
    position = memory.size_of(jax.eval_shape(CONFIG.game.init, jax.random.key(0)))
    lanes, nodes = CONFIG.selfplay.lanes, CONFIG.search.simulations + 1
    trees = tree.size(CONFIG.game.num_actions, lanes, nodes, False, position)
    needed = learned + trees + memory.size_of((state.lanes, state.ring))
    monkeypatch.setattr(memory, "_machine", lambda: needed)
    training.make_trainer(CONFIG, mesh)
    monkeypatch.setattr(memory, "_machine", lambda: needed - 1)
    with pytest.raises(memory.TooMuchMemoryError):
        training.make_trainer(CONFIG, mesh)


@pytest.mark.parametrize("solve", [False, True])
@pytest.mark.parametrize("game", [Hex(3), ChineseCheckers()])
def test_the_size_of_trees_is_that_of_the_trees(game, solve):
    states = jax.eval_shape(lambda: jax.vmap(game.init)(jax.random.split(jax.random.key(0), 3)))
    row = jax.ShapeDtypeStruct((3, game.num_actions), np.float32)
    value, legal = jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct(row.shape, bool)
    planted = jax.eval_shape(lambda *roots: tree.plant(game, *roots, 7, solve), states, row, value, legal)
    assert memory.size_of(planted) == tree.size(game.num_actions, 3, 7, solve, memory.size_of(states) // 3)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1.02e+03 bytes"), (3 * 2**30, "3 GiB"), (4e12, "3.64 TiB")]
)
def test_bytes_are_written_as_people_read_them(size, text):
    assert memory.size_text(size) == text


def test_a_header_that_claims_too_much_is_refused_without_making_room(bad_files, monkeypatch):
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("room was made"))
    for name in ("huge", "overflow", "negative", "object"):
        with pytest.raises(files.FileError, match=f"header-{name}.npz"):
            files.read_arrays(bad_files / f"header-{name}.npz")


def test_a_judges_file_drops_only_a_last_line_that_was_cut(tmp_path):
    path = tmp_path / "judge.jsonl"
    rows = [{"iteration": number, "score": 0.5} for number in (10, 20, 30)]
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines[:2]) + "\n" + lines[2][:-5])
    assert curve_files.Curve(path).rows() == rows[:2]
    for bad, said in (
        ("nonsense", "not a JSON object"),
        ("{}", "iteration"),
        ('{"iteration": null}', "got None"),
    ):
        path.write_text("\n".join([lines[0], bad, lines[2]]) + "\n")
        before = path.read_text()
        with pytest.raises(files.FileError, match=f"judge.jsonl, line 2: .*{said}"):
            curve_files.Curve(path).measure([10, 20, 30, 40], lambda iteration: {"score": 1.0})
        assert path.read_text() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": None},
        {"first": {"wins": 1}},
        {"first": {"wins": 1, "draws": 0, "losses": "0"}},
        {"second": {"wins": -1, "draws": 0, "losses": 0}},
        {"distinct_games": 1.5},
        {"forfeits": [0]},
        {"forfeits": None},
        {"player": 3},
        {"opponent": "a"},
        {"more": 1},
    ],
)
def test_a_wrong_result_in_a_tournament_is_refused_with_its_line(tmp_path, wrong):
    path = tmp_path / "results.jsonl"
    match = tournament.Match("a", "b", Outcomes(1, 0, 0), Outcomes(0, 0, 1), 2)
    results = tournament.Results(path, Hex(3), {})
    results.add(match)
    results.add(match)
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | wrong)
    path.write_text("\n".join(lines))  # without the last line break, too
    before = path.read_text()
    with pytest.raises(tournament.TournamentError, match=r"results\.jsonl, line 2 is no result of a match: "):
        tournament.Results(path, Hex(3), {})
    assert path.read_text() == before


@pytest.mark.parametrize(
    "rows",
    [
        [(1, None, 1, None, None)],
        [(1, b"a1", 1, None, None)],
        [(1, "a1", "white", None, None)],
        [(1, "a1", 1, "x", None)],
        [(1, "z9", 1, None, None)],
        [(1, "a1", 0, None, None)],
        [(1, "b1", 0, 7, None)],
        [],
    ],
)
def test_a_wrong_row_of_an_openings_database_is_refused(tmp_path, rows):
    path = tmp_path / "openings.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE positions (id INTEGER PRIMARY KEY, move, player, first_move, second_move)")
    database.executemany("INSERT INTO positions VALUES (?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    with pytest.raises(GameError, match=r"openings\.db"):
        openings_database.read(path, Hex(3))


@pytest.mark.parametrize("name", ["empty", "noise", "folder", "missing", "good.npz"])
def test_what_is_no_openings_database_is_said(bad_files, name):
    with pytest.raises(GameError, match=name):
        openings_database.read(bad_files / name, Hex(3))


def test_a_database_with_an_odd_name_is_found(tmp_path):
    path = tmp_path / "a b?c#d%.db"  # signs that mean something in an address
    openings_database.write(path, Hex(2), [(0,), (1,)])
    assert openings_database.read(path, Hex(2)) == [(0,), (1,)]


def test_too_many_openings_are_refused_before_they_are_made():
    with pytest.raises(GameError, match="46,655,640 openings of 3 moves are too many"):
        openings_database.legal_openings(Hex(19), [3])


def solutions(game):
    """A whole file of solutions of Hex: header, arrays."""
    header = {"game": "hex", "game_version": game.version, "size": game.size}
    return header | {"holds": "moves of positions", "version": 1, "positions": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"positions": None},
        {"positions": "1"},
        {"positions": 2},
        {"size": 7},
        {"kind": None},
        {"version": "1"},
    ],
)
def test_a_wrong_header_of_solutions_is_refused(tmp_path, wrong):
    game, path = Hex(6), tmp_path / "solved.npz"
    arrays = {"stones": np.zeros((1, 2), np.uint64), "player": np.zeros(1, np.int8)}
    arrays |= {"result": np.zeros((1, 36), np.int8), "nodes": np.zeros((1, 36), np.int64)}
    arrays["seconds"] = np.zeros((1, 36))
    solution_files.write(path, solutions(game), arrays)
    load_solver(path, game)
    solution_files.write(path, solutions(game) | wrong, arrays)
    with pytest.raises(ValueError, match=r"solved.npz"):
        load_solver(path, game)
    for name, other in (("stones", np.zeros(1)), ("result", np.zeros((1, 9), np.int8)), ("player", None)):
        changed = {key: array for key, array in (arrays | {name: other}).items() if array is not None}
        solution_files.write(path, solutions(game), changed)
        with pytest.raises(ValueError, match=f"does not hold what its header describes .*{name}"):
            load_solver(path, game)


def test_a_folder_or_file_of_the_same_name_does_not_hide_a_suite_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("hex5").mkdir()
    pathlib.Path("hex6").write_text("notes")
    for name in ("hex5", "hex6"):
        assert suites.find_suite(name) == suites.ready_suites()[name]
        assert suites.find_suite(f"./{name}") == pathlib.Path(name)


def test_a_path_can_be_written_where_a_file_can(tmp_path):
    assert files.writable_path(tmp_path / "new.txt") == tmp_path / "new.txt"
    (tmp_path / "old.txt").write_text("old")
    files.writable_path(tmp_path / "old.txt", tmp_path / "new.txt", None)
    assert (tmp_path / "old.txt").read_text() == "old" and not (tmp_path / "new.txt").exists()
    with pytest.raises(files.FileError, match="would be overwritten"):
        files.writable_path(tmp_path / "old.txt", tmp_path / "." / "old.txt")
    with pytest.raises(files.FileError, match="name too long"):
        files.writable_path(tmp_path / f"{'x' * 240}.txt")  # fits, but not what is written before it
    with pytest.raises(files.FileError, match="make it first"):
        files.writable_path(tmp_path / "nowhere" / "x")


def test_files_without_permission_are_refused_in_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "secret.jsonl"
    path.write_text("{}")

    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "open", forbidden, raising=False)  # root may read everything
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PositionError, match=r"secret\.jsonl cannot be read: Permission denied"):
        read_positions(path)
    with pytest.raises(files.FileError, match="permission denied"):
        files.writable_path(path)
