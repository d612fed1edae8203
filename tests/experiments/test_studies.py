"""Studies from end to end, with little to learn and few games; what their tables say is counted again."""

import dataclasses
import functools
import importlib
import json
import shutil

import jax
import numpy as np
import pytest
import scipy.stats

from azjax.envs import Hex
from azjax.evaluation import suites
from azjax.positions import write_positions
from tests.training_cases import SMALL


@pytest.fixture
def study(request, quickly_compiled):
    """The module of a study; imported late, for it may ask JAX for more devices unless JAX has begun."""
    jax.devices()
    return importlib.import_module(f"experiments.{request.param}")


def cells(table, first):
    """The cells of the one line of a Markdown table that begins with these."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    (found,) = [line for line in lines if line[: len(first)] == first]
    return found


@pytest.mark.parametrize("study", ["strength_per_minute"], indirect=True)
def test_strength_per_minute_trains_as_long_as_it_says_and_adds_a_row_once(study, tmp_path, monkeypatch):
    lines = [
        {"game": "hex", "size": 3, "moves": moves.split(), "optimal": optimal.split()}
        for moves, optimal in (("a1", "b2 a2 a3 c1"), ("b2 a1", "a3 c1"), ("c1", "b2"))
    ]
    write_positions(tmp_path / "suite.jsonl", lines)
    suite = suites.read_suite(tmp_path / "suite.jsonl")
    monkeypatch.setattr(suites, "read_suite", {"hex3": suite}.__getitem__)
    monkeypatch.setattr(study.theses, "preset", {"hex3": SMALL}.__getitem__)
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    speeds, trained, agents = [], [], []

    def measured(config, measure=study.seconds_per_iteration):
        speeds.append(measure(config))
        return speeds[-1]

    def noted(config, agent, title, train=study.train):
        seconds = train(config, agent, title)
        trained.append(config)
        agents.append(shutil.copy(agent, tmp_path / f"{len(agents)}.npz"))
        return seconds

    monkeypatch.setattr(study, "seconds_per_iteration", measured)
    monkeypatch.setattr(study, "train", noted)
    command = study.Config("hex3", minutes=0.002, seeds=(0, 7), only=("8 simulations",), simulations=(2,))
    study.main(command)

    rows = study.read_rows(tmp_path / "results" / "hex3.jsonl")
    assert [row["seed"] for row in rows] == [config.seed for config in trained] == [0, 7]
    assert [row["iterations"] for row in rows] == [max(1, round(60 * 0.002 / speed)) for speed in speeds]
    assert [config.iterations for config in trained] == [row["iterations"] for row in rows]
    assert {config.search.simulations for config in trained} == {8}
    for row, agent in zip(rows, agents):
        raw = [
            suites.run(
                lambda game, path=agent: study.make_agent(f"net:{path}", game), [one], jax.random.key(0)
            )
            for one in suite
        ]
        second, first = ([raw[number].all.correct for number in which] for which in ((0, 2), (1,)))
        assert row["right"]["raw policy"] == [[sum(first), 1], [sum(second), 2]]
        assert [of for _, of in row["right"]["2 simulations"]] == [1, 2]
        ((_, of),) = row["right"]["opening signs"]
        assert of == 9
    table = (tmp_path / "results" / "hex3.md").read_text()
    shares = [sum(right for right, _ in row["right"]["raw policy"]) / 3 for row in rows]
    line = cells(table, ["8 simulations", "0.002"])
    assert line[3] == "2"
    assert line[6] == f"{np.mean(shares):.1%} ({min(shares):.1%} to {max(shares):.1%})"

    monkeypatch.setattr(study, "train", None)  # nothing is left to be trained
    study.main(command)
    assert study.read_rows(tmp_path / "results" / "hex3.jsonl") == rows


@pytest.mark.parametrize("study", ["kromann2019_learn_to_hex"], indirect=True)
def test_learn_to_hex_shows_ours_beside_theirs_and_runs_nothing_twice(study, tmp_path, monkeypatch):
    def tiny(*setting, config_of=study.config_of):
        changes = {"game": Hex(2), "every": 2, "iterations": 3, "hidden": (4,), "games": 1}
        return dataclasses.replace(config_of(*setting), **changes)

    def few(*given, make_match=study.make_match, **options):
        return make_match(*given, **options | {"pairs": 5})

    monkeypatch.setattr(study, "config_of", tiny)
    monkeypatch.setattr(study, "make_match", few)
    monkeypatch.setattr(study, "baseline", functools.partial(study.baseline, games=1000))
    chosen = {name: study.experiments()[name] for name in ("sessions", "fast")}
    chosen["fast"] = chosen["fast"][:1]
    monkeypatch.setattr(study, "experiments", lambda: chosen)
    command = study.Config(runs=tmp_path / "runs", results=tmp_path / "results")
    study.main(command)

    results = tmp_path / "results" / "quick"
    share = float((results / "baseline.md").read_text().split("games: ")[1].split()[0]) / 100
    low, high = scipy.stats.binom.interval(1 - 1e-5, 1000, 0.5)
    assert low <= 1000 * share <= high
    table = (results / "sessions.md").read_text()
    points = [json.loads(path.read_text()) for path in (results / "points").iterdir()]
    assert len(points) == 3
    for method, theirs in (("TD", ["72.06", "", "85.41"]), ("ES", ["67", "", ""])):
        (ours,) = [
            one
            for one in points
            if one["config"]["sessions"] == 5 and ("trace" in one["config"]) == (method == "TD")
        ]
        random, previous = (100 * np.array(ours["points"][name]) for name in ("random", "previous"))
        assert random.shape == previous.shape == (3, 5)
        means = [numbers.mean(axis=0) for numbers in (random, random[-1:], previous)]
        shown = [f"{mean.mean():.1f} ± {mean.std(ddof=1):.1f}" for mean in means]
        line = cells(table, [method, "five sessions"])
        assert line[2] == "6" and line[3:9:2] == theirs and line[4:9:2] == shown
        assert line[9] == f"{random.max():.0f}"
        assert (results / f"sessions-{method.lower()}.png").read_bytes().startswith(b"\x89PNG")
    (fast,) = [one for one in points if one["config"]["sessions"] == 3]
    assert {name: score["games"] for name, score in fast["uct"].items()} == {"uct:200": 10, "random": 10}
    notes = (results / "fast.md").read_text()
    assert (
        f"TD: {100 * fast['uct']['random']['score']:.1f} % (" in notes
        and "against uct:200, 10 games" in notes
    )

    monkeypatch.setattr(study.session, "train", None)  # nothing is left to be learned
    study.main(command)
    assert (results / "sessions.md").read_text() == table
