"""The study of AlphaDots on a tiny board: every table through the same functions; what they say is counted again."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from azjax.agents import dots_games
from azjax.agents.trained import load_weights
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.evaluation.arena import wilson_interval
from azjax.learners import gated
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


def tiny(study, **changes):
    small = dict(
        blocks=1,
        channels=4,
        samples=64,
        epochs=1,
        batch_size=16,
        games=4,
        final_games=4,
        search_games=2,
        rule_games=60,
        board=2,
        sizes=(2,),
        small=(1, 2),
        trained_on=((2, 2), (1, 2)),
        simulations=2,
        problem_simulations=2,
        seconds=0.01,
        strong_samples=64,
        strong_iterations=1,
        nothing_iterations=1,
        strategies_board=2,
        strategies_samples=64,
        strategies_iterations=1,
        further_iterations=0,
        competition_samples=64,
        competition_iterations=1,
        selfplay_samples=16,
        selfplay_simulations=2,
        turns_simulations=2,
        selfplay_epochs=1,
        gate_games=2,
        clocked_games=2,
        variants=("self-play by turns",),
        clocked=("self-play by turns",),
    )
    return dataclasses.replace(study.QUICK, **small | changes)


@pytest.fixture(scope="module")
def run(alphadots, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")

    def stages(*only, **changes):
        alphadots.STUDY.run(
            tiny(alphadots, **changes), out=folder / "runs", results=folder / "results", only=only
        )
        return folder / "results"

    return stages


def rows(results, name):
    return json.loads((results / f"{name}.json").read_text())["rows"]


def test_rules_are_counted_as_the_thesis_counts_them(alphadots, run):
    results = run("rules", "data")
    board, half = DotsAndBoxes(2, 2), 30
    wins, records = 0, []
    for first, second, seeds in (("hard", "easy", range(half)), ("easy", "hard", range(half, 2 * half))):
        starts = np.zeros((half, board.num_actions), bool)
        for record in dots_games.play(board, first, starts, np.array(seeds), second=second).tolist():
            game = SlowGame(2, 2)
            for line in record:
                game.draw(all_lines(2, 2)[line])
            hard = 0 if first == "hard" else 1
            wins += game.score(hard) > game.score(1 - hard)  # draws are no wins
            records.append((first, *record))
    found = rows(results, "rules")["hard"]
    assert found["against easy"] == {"theirs": 97.71, "ours": pytest.approx(100 * wins / 60)}
    low, high = wilson_interval(wins, 60)
    assert found["95 %, easy"] == f"{100 * low:.1f} to {100 * high:.1f}" and found["games each"] == "60"
    kept = json.loads((results / "points" / "rules-hard-easy-2x2.json").read_text())["found"]
    assert kept == {"wins": wins, "games": 60, "distinct": len(set(records))}
    assert (results / "data.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_networks_are_taught_searched_and_carried_to_other_boards(run):
    results = run("boards")
    (board,) = rows(results, "boards").values()
    cells = [board[f"against {rule}"]["ours"] for rule in ("easy", "medium", "hard")]
    assert all(0 <= cell <= 100 for cell in cells) and board["games each"] == "4"


@pytest.mark.slow
def test_berlekamps_problems_are_counted_for_both_networks(alphadots, run, monkeypatch):
    # The strong network has a test of its own; here it is the other one, so that its answers are known.
    taught = alphadots.taught
    monkeypatch.setattr(
        alphadots, "strong_runs", lambda work: (None, taught(work, "stage-four", "hard", (1, 2)))
    )
    found = rows(run("berlekamp"), "berlekamp")
    ours = [
        {name: found[prefix + "search"][name]["ours"] for name in ("solved", "which")}
        for prefix in ("", "strong, ")
    ]
    assert ours[0] == ours[1] and found["strong, search"]["solved"]["theirs"] == 10
    assert len(found) == 6 and found["raw"]["solved"]["theirs"] == 6
    for row in found.values():
        assert row["which"]["ours"].count("S") == row["solved"]["ours"] and len(row["which"]["ours"]) == 13


@pytest.mark.slow
def test_the_strong_network_is_taught_first_and_meets_the_rule_based_players_with_and_without_search(run):
    results = run("strong")
    found = rows(results, "strong")
    assert [label for label in found if label.startswith("strong")] == ["strong, 2x2", "strong, search, 2x2"]
    assert found["strong, search, 2x2"]["games each"] == "2"
    assert found["strong, search, 2x2"]["against hard"]["theirs"] is None


@pytest.mark.slow
def test_new_strategies_and_competition_go_from_teaching_to_self_play(run):
    results = run("new_strategies", "competition")
    found = rows(results, "new_strategies")
    assert set(found) == {"before, 2x2", "after, 2x2"}
    assert all(row["double deals"]["ours"] >= 0 for row in found.values())
    found = rows(results, "competition")
    assert list(found) == ["self-play by turns", "self-play by turns, search"]
    assert all(len([name for name in row if name.startswith("against")]) == 5 for row in found.values())
    assert found["self-play by turns"]["against easy"]["theirs"] == 50


@pytest.mark.slow
def test_preliminary_networks_and_large_boards_have_their_tables(run):
    results = run("preliminary", "large_boards")
    assert list(rows(results, "preliminary")) == [
        "first-try", "basic-strategy", "stage-one", "AlphaZeroV1", "AlphaZeroV5", "AlphaZeroV7"
    ]  # fmt: skip
    assert rows(results, "large_A") and rows(results, "large_B")


@pytest.mark.slow
def test_with_the_runs_gone_nothing_is_trained_or_played_again_and_kept_weights_play(
    alphadots, run, tmp_path, monkeypatch
):
    results = run("boards", "new_strategies")
    there, gone = tmp_path / "results", tmp_path / "runs"
    shutil.copytree(results, there)
    before = (there / "new_strategies.json").read_bytes()
    for place in (alphadots.supervised, alphadots.gated):
        monkeypatch.setattr(place, "train", None)
    for path in (there / "points").glob("*1x2*against*"):
        path.unlink()
    asked = []
    monkeypatch.setattr(
        alphadots, "match", lambda work, player, *rest: asked.append(player.text) or dict.fromkeys(
            ("wins", "draws", "games", "distinct", "double_deals"), 1
        )
    )  # fmt: skip
    alphadots.STUDY.run(tiny(alphadots), out=gone, results=there, only=("boards", "new_strategies"))
    assert (there / "new_strategies.json").read_bytes() == before
    assert len(asked) == 3  # the matches that were missing, of the network taught on 1x2
    config, params = load_weights(asked[0].removeprefix("net:"))
    assert (config.game.rows, config.game.columns) == (1, 2) and np.isfinite(jax.tree.leaves(params)[0]).all()
    assert all(path.stat().st_size < 100_000 for path in (there / "agents").iterdir())


@pytest.mark.slow
def test_a_network_taught_otherwise_is_refused_and_not_taken_for_the_one_that_was_kept(run):
    run("boards")
    with pytest.raises(ValueError, match="found with other settings"):
        run("boards", blocks=0)


def test_the_full_settings_are_those_of_the_thesis(alphadots):
    full = alphadots.FULL
    assert (full.tower, full.blocks, full.channels) == ("thesis", 8, 256)
    taught = full.samples, full.strategies_samples, full.competition_samples
    assert taught == (2_000_000, 4_000_000, 4_000_000) and full.epochs == 1
    assert (full.games, full.final_games, full.rule_games) == (1000, 10_000, 10_000)
    assert (full.search_games, full.clocked_games, full.seconds) == (100, 100, 10.0)
    assert (full.strategies_iterations, full.competition_iterations) == (20, 32)
    assert (full.selfplay_samples, full.selfplay_epochs, full.gate_games) == (512, 5, 1000)
    assert (full.selfplay_simulations, full.turns_simulations) == (1000, 1500)
    assert (full.problem_simulations, full.sizes) == (1500, tuple(range(3, 16)))


def test_costs_count_lessons_searches_and_matches(alphadots):
    quick, full = (
        {cost.what: cost.evaluations for cost in alphadots.costs(settings)}
        for settings in (alphadots.QUICK, alphadots.FULL)
    )
    assert quick["large boards: A"] == 3 * 500_000 and full["large boards: A"] == 3 * 2_000_000
    # 20 times 512 searches of 1,000 simulations, 5 lessons each, and 1,000 games of 60 lines at most
    assert full["new strategies: gated"] == 20 * (512 * (1001 + 3 * 5) + 1000 * 60)
    assert {"strong: self-play", "from nothing", "competition"} <= quick.keys()


def test_with_the_full_settings_networks_learn_as_in_the_thesis(alphadots):
    thesis = gated.PETERS2018["new-strategies"]()
    config = alphadots.teaching(alphadots.FULL, (3, 3), 4_000_000, None)
    assert (config.game, config.network) == (thesis.game, thesis.network)
    assert config.optimiser == thesis.optimiser and config.search == dataclasses.replace(
        thesis.search, simulations=1500
    )
