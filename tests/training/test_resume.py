"""Commands that begin and continue runs, as they are typed; the learning itself is a stand-in that computes little."""

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.agents import ready_networks
from azjax.cli import train
from azjax.nn.networks import make_network
from azjax.training import alphazero, checkpoint, loop
from azjax.training.config import OptimiserConfig
from tests.loop_cases import make_walk
from tests.training_cases import SMALL

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def quick_learning(monkeypatch):
    monkeypatch.setattr(alphazero, "make_learning", lambda config, *others: make_walk(config))


def stop_at(monkeypatch, iteration):
    """Sends SIGTERM while the row of an iteration is made."""

    def make(config, *others):
        learning = make_walk(config)

        def rows(measured, count):
            if measured[0] == iteration:
                signal.raise_signal(signal.SIGTERM)
            return learning.rows(measured, count)

        return learning._replace(rows=rows)

    monkeypatch.setattr(alphazero, "make_learning", make)


def iterations_of(folder):
    return [row["iteration"] for row in checkpoint.open_run(folder).read_metrics()]


@pytest.mark.usefixtures("quick_learning")
def test_the_advice_on_interruption_is_a_command_that_works(tmp_path, capsys, monkeypatch):
    folder = tmp_path / ("a long name with spaces " * 4).strip()
    arguments = [
        "train",
        "hex3",
        "--out",
        str(folder),
        "--iterations",
        "6",
        "--save-every",
        "2",
        "--seed",
        "7",
    ]
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert cli.main(arguments) == 75
    advice = [line for line in capsys.readouterr().out.splitlines() if "continue with: " in line]
    assert len(advice) == 1
    program, *words = shlex.split(advice[0].partition("continue with: ")[2])
    assert program == "azjax"
    assert cli.main(words) == 0
    assert iterations_of(folder) == [1, 2, 3, 4, 5, 6]
    assert checkpoint.open_run(folder).config.seed == 7


@pytest.mark.usefixtures("quick_learning")
def test_resume_makes_a_finished_run_longer_only_when_asked(tmp_path, capsys):
    folder = tmp_path / "run"
    assert cli.main(["train", "hex3", "--out", str(folder), "--iterations", "3", "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["resume", str(folder), "--json"]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "has made all its 3 iterations" in said.err
    assert cli.main(["resume", str(folder), "--json", "--iterations", "5"]) == 0
    assert [json.loads(line)["iteration"] for line in capsys.readouterr().out.splitlines()] == [4, 5]
    assert cli.main(["resume", str(folder), "--json", "--resume-from", "3", "--iterations", "4"]) == 0
    assert iterations_of(folder) == [1, 2, 3, 4]


@pytest.mark.usefixtures("quick_learning")
def test_resume_says_what_is_wrong(tmp_path, capsys):
    assert cli.main(["resume", str(tmp_path / "nowhere")]) == 2
    assert "holds no run: there is no config.json" in capsys.readouterr().err
    folder = tmp_path / "run"
    assert cli.main(["train", "hex3", "--out", str(folder), "--iterations", "2"]) == 0
    shutil.rmtree(folder / "checkpoints")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    for command in (
        ["resume", str(folder)],
        ["train", "hex3", "--out", str(folder), "--iterations", "9", "--resume"],
    ):
        assert cli.main(command) == 2
        assert "its checkpoints are gone" in capsys.readouterr().err
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before


def test_a_start_on_devices_that_are_not_there_can_be_tried_again(tmp_path, capsys):
    out = tmp_path / "runs" / "hex3"
    assert cli.main(["train", "hex3", "--out", str(out), "--devices", "1000"]) == 2
    assert "devices must be between 1 and" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("quickly_compiled")
def test_a_run_that_learns_too_fast_stops_with_a_sentence(tmp_path):
    fast = OptimiserConfig(name="sgd", learning_rate=1e30, clip_norm=None)
    config = dataclasses.replace(SMALL, optimiser=fast, iterations=50, save_every=1)
    with pytest.raises(loop.DivergedError, match=r"not finite: .*try a lower --optimiser\.learning-rate"):
        alphazero.train(config, tmp_path, say=lambda line: None)
    rows = checkpoint.open_run(tmp_path).read_metrics()
    assert len(rows) < 50
    _, params = checkpoint.load_agent(tmp_path)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def too_long(number, frame):
    raise TimeoutError("the report does not end")


@pytest.mark.usefixtures("quick_learning")
@pytest.mark.parametrize("finite", [True, False])
def test_a_report_of_numbers_that_are_not_finite_ends(tmp_path, capsys, finite):
    """With such weights every move is the first, and the sample game went on for ever."""
    assert cli.main(["train", "hex3", "--out", str(tmp_path / "run"), "--iterations", "4", "--json"]) == 0
    path = tmp_path / "run" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["loss"] = dict.fromkeys(rows[1]["loss"], None)
    rows[2]["loss"] = dict.fromkeys(rows[2]["loss"], float("inf"))  # as older versions wrote them
    if not finite:
        rows = [row | {"loss": dict.fromkeys(row["loss"], float("nan"))} for row in rows]
        config = checkpoint.open_run(tmp_path / "run").config
        params = make_network(config.network, config.game).init(jax.random.key(0))
        spoilt = jax.tree.map(lambda leaf: leaf * np.nan, params)
        checkpoint.export_agent(tmp_path / "run" / "agent.npz", config, spoilt)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(300)
    try:
        assert cli.main(["report", str(tmp_path / "run")]) == 0
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    page = (tmp_path / "run" / "report.html").read_text()
    assert '<svg class="chart"' in page
    assert ("has numbers that are not finite" in page) is not finite


def test_make_train_trains_continues_and_never_starts_over(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for needed in ("pyproject.toml", "constraints.txt"):
        (tmp_path / needed).touch()
    (tools / "azjax").write_text('#!/bin/sh\necho "azjax $*"\n')
    (tools / "azjax").chmod(0o755)
    (tools / "stamp").touch()

    def make_train():
        options = ["-s", "-f", str(ROOT / "Makefile"), f"BIN={tools}", f"STAMP={tools}/stamp", "train"]
        return subprocess.run(
            ["make", *options], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    assert make_train() == "azjax train hex5\n"
    (tmp_path / "runs" / "hex5").mkdir(parents=True)
    (tmp_path / "runs" / "hex5" / "config.json").touch()
    assert make_train() == "azjax resume runs/hex5\n"


@pytest.mark.usefixtures("quick_learning")
def test_resume_auto_takes_its_own_run_then_a_given_path_then_begins_anew(tmp_path, capsys, monkeypatch):
    folder, first = tmp_path / "run", tmp_path / "first"
    begun = []

    def make(config, devices, stage, judge, init_from, *others):
        begun.append(init_from)
        return make_walk(config)

    monkeypatch.setattr(alphazero, "make_learning", make)
    train = ["train", "hex3", "--iterations", "3", "--json", "--resume", "auto", "--init-from", str(first)]
    assert cli.main([*train, "--out", str(tmp_path / "anew")]) == 0
    assert f"nor anything in {first}: it begins anew" in capsys.readouterr().err
    first.mkdir()
    shutil.copyfile(ready_networks()["hex3"], first / "agent.npz")
    assert cli.main([*train, "--out", str(folder)]) == 0
    assert cli.main([*train, "--out", str(folder), "--iterations", "5"]) == 0
    assert begun == [None, str(first), str(first)]  # the third goes on with what the second began
    assert f"continuing {folder} after iteration 3" in capsys.readouterr().err
    assert iterations_of(folder) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--resume"], ["--resume", "yes"]),
        (["--resume", "--devices", "1"], ["--resume", "yes", "--devices", "1"]),
        (["--resume", "auto"], ["--resume", "auto"]),
        (["--no-resume"], ["--resume", "no"]),
        (["--resume-from", "3"], ["--resume-from", "3"]),
    ],
)
def test_resume_may_stand_alone(words, meant):
    assert train._with_word(words) == meant
