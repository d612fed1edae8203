"""Studies from end to end, with little to learn and few games; what their tables say is counted again."""

import dataclasses
import importlib
import itertools
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
    ticks = itertools.count()  # three seconds pass from one look at the clock to the next
    monkeypatch.setitem(study.CLOCKS, "cpu", lambda: 3.0 * next(ticks))
    agents = []

    def kept(path, config, params, export=study.checkpoint.export_agent):
        export(path, config, params)
        agents.append((config, shutil.copy(path, tmp_path / f"{len(agents)}.npz")))

    monkeypatch.setattr(study.checkpoint, "export_agent", kept)
    command = study.Config(
        "hex3", minutes=10 / 60, clock="cpu", seeds=(0, 7), only=("8 simulations",), simulations=(2,)
    )
    study.main(command)

    rows = study.read_rows(tmp_path / "results" / "hex3-cpu.jsonl")
    assert [row["seed"] for row in rows] == [0, 7]
    # The iteration that has begun before the time was over is made to its end.
    assert [(row["iterations"], row["seconds"], row["clock"]) for row in rows] == [(4, 12.0, "cpu")] * 2
    assert {config.search.simulations for config, _ in agents} == {8}
    for row, (_, agent) in zip(rows, agents):
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
    table = (tmp_path / "results" / "hex3-cpu.md").read_text()
    shares = [sum(right for right, _ in row["right"]["raw policy"]) / 3 for row in rows]
    line = cells(table, ["8 simulations", "0.166667"])
    assert line[3] == "2"
    assert line[6] == f"{np.mean(shares):.1%} ({min(shares):.1%} to {max(shares):.1%})"

    monkeypatch.setattr(study, "train", None)  # nothing is left to be trained
    study.main(command)
    assert study.read_rows(tmp_path / "results" / "hex3-cpu.jsonl") == rows


@pytest.mark.parametrize("study", ["kromann2019_learn_to_hex"], indirect=True)
def test_learn_to_hex_shows_ours_beside_theirs_and_runs_nothing_twice(study, tmp_path, monkeypatch):
    def tiny(*setting, config_of=study.config_of):
        changes = {"game": Hex(2), "every": 2, "iterations": 3, "hidden": (4,), "games": 1}
        return dataclasses.replace(config_of(*setting), **changes)

    monkeypatch.setattr(study, "config_of", tiny)
    chosen = {name: study.experiments()[name] for name in ("sessions", "fast")}
    chosen["fast"] = chosen["fast"][:1]
    monkeypatch.setattr(study, "experiments", lambda: chosen)
    settings = study.Settings(pairs=5, baseline_games=1000)
    places = {"out": tmp_path / "runs", "results": tmp_path / "results"}
    only = ("baseline", "sessions", "fast")
    study.STUDY.run(settings, **places, only=only)

    def table(name):
        return json.loads((tmp_path / "results" / f"{name}.json").read_text())

    row = table("baseline")["rows"]["random"]
    low, high = scipy.stats.binom.interval(1 - 1e-5, 1000, 0.5)
    assert low <= 10 * row["% won"]["ours"] <= high and row["% won"]["theirs"] == 50.02
    kept = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "results" / "points").iterdir()}
    assert set(kept) == {
        "baseline",
        "td-plain",
        "es-plain",
        "td-azjax-s-settings",
        "td-azjax-s-settings-games",
    }
    for method, theirs in (("td", [72.06, None, 85.41]), ("es", [67, None, None])):
        points = kept[f"{method}-plain"]["found"]["points"]
        random, previous = (100 * np.array(points[name]) for name in ("random", "previous"))
        assert random.shape == previous.shape == (3, 5)
        line = table("sessions")["rows"][f"{method.upper()} five sessions"]
        cells = [line[name] for name in ("vs random, all games", "last tenth", "vs previous, all games")]
        assert [cell["theirs"] for cell in cells] == theirs
        for cell, numbers in zip(cells, (random, random[-1:], previous)):
            ours = numbers.mean(axis=0)
            assert cell["ours"]["mean"] == pytest.approx(ours.mean())
            assert cell["ours"]["spread"] == pytest.approx(ours.std(ddof=1))
        assert line["steps"] == 6 and line["sessions"] == 5 and line["best point"] == random.max()
        assert line["best session"] == pytest.approx(random.mean(0).max())
        assert (tmp_path / "results" / f"sessions-{method}.png").read_bytes().startswith(b"\x89PNG")
    fast = kept["td-azjax-s-settings-games"]["found"]
    assert {name: score["games"] for name, score in fast.items()} == {"uct:200": 10, "random": 10}
    (note,) = [note for note in table("fast")["notes"] if "against random" in note]
    assert note.startswith(f"TD: {100 * fast['random']['score']:.1f} % (")

    monkeypatch.setattr(study.study.session, "train", None)  # nothing is left to be learned
    before = table("sessions")
    study.STUDY.run(settings, **places, only=only)
    assert table("sessions") == before
