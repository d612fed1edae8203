"""The study of AlphaDots on a tiny board: every table through the same functions; what they say is counted again."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from azjax.agents import dots_games
from azjax.envs.dots_and_boxes import DotsAndBoxes
from tests.reference.dots_and_boxes import DotsAndBoxes as SlowGame
from tests.reference.dots_and_boxes import all_lines


@pytest.fixture(scope="module")
def alphadots():
    """The module of the study; imported late, for it may ask JAX for more devices unless JAX has begun."""
    jax.devices()
    from experiments import peters2018_alphadots

    return peters2018_alphadots


@pytest.fixture(autouse=True)
def quick(quickly_compiled):
    """Programs run for less time than it takes to optimise them."""


def tiny(study):
    return dataclasses.replace(
        study.QUICK,
        blocks=1,
        channels=4,
        samples=64,
        epochs=1,
        batch_size=16,
        games=4,
        final_games=4,
        rule_games=60,
        board=2,
        sizes=(2,),
        small=(1, 2),
        trained_on=((2, 2), (1, 2)),
        simulations=2,
        seconds=0.01,
        strategies_board=2,
        strategies_samples=64,
        strategies_iterations=1,
        competition_iterations=1,
        selfplay_samples=16,
        selfplay_simulations=2,
        selfplay_epochs=1,
        gate_games=2,
        competition_games=2,
        variants=("self-play by turns",),
    )


@pytest.fixture(scope="module")
def run(alphadots, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")

    def stages(*only):
        alphadots.STUDY.run(tiny(alphadots), out=folder / "runs", results=folder / "results", only=only)
        return folder / "results"

    return stages


def rows(results, name):
    return json.loads((results / f"{name}.json").read_text())["rows"]


def test_rules_are_counted_as_the_thesis_counts_them(alphadots, run):
    results = run("rules", "data")
    board, half = DotsAndBoxes(2, 2), 30
    wins = 0
    for first, second, seeds in (("hard", "easy", range(half)), ("easy", "hard", range(half, 2 * half))):
        starts = np.zeros((half, board.num_actions), bool)
        for record in dots_games.play(board, first, starts, np.array(seeds), second=second).tolist():
            game = SlowGame(2, 2)
            for line in record:
                game.draw(all_lines(2, 2)[line])
            hard = 0 if first == "hard" else 1
            wins += game.score(hard) > game.score(1 - hard)  # draws are no wins
    assert rows(results, "rules")["hard"]["against easy"] == {
        "theirs": 97.71,
        "ours": pytest.approx(100 * wins / 60),
    }
    assert (results / "data.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_networks_are_taught_searched_and_carried_to_other_boards(run):
    results = run("boards", "berlekamp")
    (board,) = rows(results, "boards").values()
    assert all(0 <= cell["ours"] <= 100 for cell in board.values())
    for row in rows(results, "berlekamp").values():
        assert row["which"]["ours"].count("S") == row["solved"]["ours"] and len(row["which"]["ours"]) == 13


@pytest.mark.slow
def test_new_strategies_and_competition_go_from_teaching_to_self_play(run):
    results = run("new_strategies", "competition")
    found = rows(results, "new_strategies")
    assert set(found) == {"before, 2x2", "after, 2x2"}
    assert all(row["double deals"]["ours"] >= 0 for row in found.values())
    found = rows(results, "competition")
    assert list(found) == ["self-play by turns", "self-play by turns, search"]
    assert all(len(row) == 5 for row in found.values())
    assert found["self-play by turns"]["against easy"]["theirs"] == 50


@pytest.mark.slow
def test_preliminary_networks_and_large_boards_have_their_tables(run):
    results = run("preliminary", "large_boards")
    assert list(rows(results, "preliminary")) == [
        "first-try", "basic-strategy", "stage-one", "AlphaZeroV1", "AlphaZeroV5", "AlphaZeroV7"
    ]  # fmt: skip
    assert rows(results, "large_A") and rows(results, "large_B")


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(alphadots, run, monkeypatch):
    run("boards")
    monkeypatch.setattr(alphadots.supervised, "train", None)
    monkeypatch.setattr(alphadots, "match", lambda *given: pytest.fail("played again"))
    run("boards")


def test_the_full_settings_are_those_of_the_thesis(alphadots):
    full = alphadots.FULL
    assert (full.blocks, full.channels, full.samples, full.strategies_samples) == (
        8,
        256,
        2_000_000,
        4_000_000,
    )
    assert (full.games, full.final_games, full.rule_games, full.competition_games) == (
        1000,
        10_000,
        10_000,
        100,
    )
    assert (full.strategies_iterations, full.selfplay_samples, full.selfplay_epochs) == (20, 512, 5)
    assert (full.seconds, full.gate_games, full.sizes) == (10.0, 1000, tuple(range(3, 16)))
