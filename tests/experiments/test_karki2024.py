"""The study of Karki 2024 from end to end on tiny boards, through the same functions; some cells counted again."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from azjax.evaluation import truth
from azjax.positions import sets
from azjax.training import seen
from experiments import karki2024_solved_game as karki
from experiments import study

TINY = dataclasses.replace(
    karki.quick(),
    small_size=3,
    small_pieces=2,
    large_size=3,  # the same board, so that many programs are the same
    large_pieces=2,
    transfer_size=4,
    blocks=1,
    channels=4,
    lanes=4,
    samples=3,
    small_buffer=256,
    large_buffer=256,
    batch_size=16,
    small_iterations=2,
    large_iterations=2,
    single_iterations=1,
    naive_iterations=1,
    naive_positions=256,  # as many as an iteration of the other, and one game at a time: the program of its `single`
    naive_lanes=1,
    small_save_every=1,
    large_save_every=1,
    taught_save_every=1,
    pairs=2,
    sweep_pairs=1,
    sweep_opponents=("random",),
    sweep_perfect_samples=(2,),
    match_samples=2,
    opponents=("random",),
    perfect_samples=(2,),
    positions=50,
    searched_positions=40,
    policy_samples=(2,),
    sweep_searched_positions=20,
    sweep_policy_samples=(2,),
    adversary_samples=(2,),
    adversary_uct=2,
    supervised_iterations=1,
    capacity_iterations=2,
    capacity_positions=32,
    transfer_iterations=1,
)

NAIVE = {("random", side): (80, 100) for side in ("first", "second")}
STAGES = [stage for stage in karki.STUDY.stages if stage != "opponents"]  # see below


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The study with little of everything; its runs and results."""
    folder = tmp_path_factory.mktemp("study")
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZJAX_CACHE", str(folder / "cache"))
        patch.setattr(karki, "NAIVE", NAIVE)
        karki.STUDY.run(TINY, out=folder / "runs", results=folder / "results", only=STAGES)
        yield folder
    jax.config.update("jax_disable_most_optimizations", before)


def table(folder, name):
    return json.loads((folder / "results" / f"{name}.json").read_text())["rows"]


@pytest.mark.slow
def test_every_stage_writes_its_tables_and_figures(studied):
    tables = ("solved", "naive", "small-as-first", "small-as-second", "large-as-first", "large-as-second")
    tables += ("small-truth", "large-truth", "adversary", "supervised-start", "capacity")
    for name in (*tables, "equal-time", "equal-time-match", "transfer"):
        assert table(studied, name), name
        assert (studied / "results" / f"{name}.md").exists()
    figures = ("naive", "small-matches", "small-training", "small-values", "small-moves", "capacity")
    for name in figures:
        assert (studied / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name


@pytest.mark.slow
def test_the_counts_of_the_solved_boards_add_up_to_what_combinatorics_says(studied):
    row = table(studied, "solved")["3x3, 2 pieces"]
    # Two pieces of each player on nine cells, either to move. Illegal are those that the player to move has won: with
    # one own piece in the goal, 2 * 7 * 6 placements, and with both, 1 * 1 * 21.
    assert row["positions"] == 2 * 36 * 21 and row["illegal"]["ours"] == 2 * (84 + 21)
    assert 2 * row["won by one player"]["ours"] + row["drawn"]["ours"] + row["illegal"]["ours"] == 1512
    # Closed tips are of boards with six pieces alone.
    published = table(studied, "solved")["3x3, 2 pieces, as published"]
    assert ours(published)["illegal"] == ours(row)["illegal"]
    assert published["sha256 of the table"] == row["sha256 of the table"]


@pytest.mark.slow
def test_the_first_column_of_naive_self_play_is_of_the_first_iteration(studied):
    # Iteration 0, which every sweep begins with, is the network that has learned nothing.
    (point,) = (studied / "results" / "points").glob("naive-match-random*")
    rows = json.loads(point.read_text())["found"]
    assert [row["iteration"] for row in rows] == [0, 1]
    won = table(studied, "naive")["random, as first"]["iteration 1 %"]["ours"]
    assert won == 100 * rows[1]["as_first"]["wins"] / TINY.pairs


@pytest.mark.slow
def test_where_the_runs_are_gone_the_tables_are_made_again_and_nothing_is_trained(
    studied, tmp_path, monkeypatch
):
    shutil.copytree(studied / "results", tmp_path / "results")
    tables = {path.name: path.read_bytes() for path in (studied / "results").glob("*.md")}
    for path in (tmp_path / "results").glob("*.md"):
        path.unlink()
    # One match is missing; it needs weights alone, which were kept.
    (match,) = (tmp_path / "results" / "points").glob("small-with-2-samples-against-random-after-0*")
    match.unlink()
    monkeypatch.setenv("AZJAX_CACHE", str(studied / "cache"))
    monkeypatch.setattr(study.api, "train", None)
    monkeypatch.setattr(study.supervision, "train", None)
    monkeypatch.setattr(karki, "NAIVE", NAIVE)
    karki.STUDY.run(TINY, out=tmp_path / "runs", results=tmp_path / "results", only=STAGES)
    again = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*.md")}
    assert again.keys() == tables.keys()
    assert {name for name, text in again.items() if text != tables[name]} <= {
        "small-as-first.md",  # by weights in half precision
        "small-as-second.md",
    }
    kept = sorted(path.name for path in (tmp_path / "results" / "agents").iterdir())
    others = ("large-from-taught", "large-single", "large-taught", "small", "transfer-cold", "transfer-warm")
    last = {"large-single": 1, "large-taught": 1, "transfer-cold": 1, "transfer-warm": 1}
    expected = [f"{name}-{last.get(name, 2)}.npz" for name in others]
    assert kept == sorted([*expected, *(f"large-{iteration}.npz" for iteration in (0, 1, 2))])


@pytest.mark.slow
def test_the_table_of_labels_counts_all_that_was_seen(studied):
    game = karki.game_of(TINY, "small")
    solver = truth.solver_for(game, all_moves=True)
    log = seen.read(studied / "runs" / "small", game)
    right = np.sign(log.outcome) == solver.value(log.states)
    assert table(studied, "small-truth")["labels"]["% right"]["ours"] == pytest.approx(100 * right.mean())


def ours(row):
    return {name: cell["ours"] if isinstance(cell, dict) else cell for name, cell in row.items()}


@pytest.mark.slow
def test_the_parts_of_the_adversarys_tables_add_up(studied):
    won, states, mistakes = (
        ours(table(studied, f"adversary{part}")["2 samples"]) for part in ("", "-states", "-mistakes")
    )
    assert won["% won"] + won["% lost"] + won["% drawn"] == 100
    # But for the starting position, which the run opened its games with, every position is in one of these.
    kinds = ("seen", "neighbouring", "other")
    assert sum(states[kind] for kind in kinds) == pytest.approx(states["all"])
    assert sum(mistakes[kind] for kind in kinds) == mistakes["all"] >= mistakes["different"]
    assert 0 <= states["other, NW"] <= states["other"] and states["all, NW"] >= states["other, NW"]


@pytest.mark.slow
def test_the_capacity_is_measured_in_states_of_self_play(studied):
    row = table(studied, "capacity")["at the end"]
    assert row["labels"]["ours"] == 2 * 32
    points = json.loads((studied / "results" / "points" / "capacity.json").read_text())["found"]
    assert [point["labels"] for point in points] == [32, 64]
    log = seen.read(studied / "runs" / "large", karki.game_of(TINY, "large"))
    assert len(sets.first_of_each(log.states)) >= 10
    assert row["value in seen states %"]["ours"] == pytest.approx(100 * points[-1]["seen"])


def test_published_tables_are_read_as_they_are_printed():
    first, second = karki.published(karki.SMALL_FIRST), karki.published(karki.SMALL_SECOND)
    assert first[50]["uct:2000"] == 98 and first[50]["perfect, 2048 samples"] == 88
    assert first[25]["uct-distance:2000"] == 79 and second[40]["uct-distance:1000"] == 48
    assert len(first) == len(second) == 11 and second[50]["perfect, 128 samples"] == 0
    # A game that was won is lost by one mistake: lost games and mistakes are as many in the thesis.
    assert all(row[1] == row[8] for row in karki.ADVERSARY.values())
    for counts in (karki.PUBLISHED[5, 6], karki.BY_RULES[5, 6]):
        assert sum(counts[i] * (2, 1, 1)[i] for i in range(3)) == 9_610_154_400
    assert karki.BY_RULES[5, 6][2] - karki.PUBLISHED[5, 6][2] == 312_312
    assert sum(karki.BY_RULES[4, 3][i] * (2, 1, 1)[i] for i in range(3)) == 320_320


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_a_distance_evaluation_beats_playouts_and_more_of_them_beat_fewer():
    game = karki.game_of(karki.quick(), "small")
    for one, other in (
        ("uct-distance:40", "uct:40"),
        ("uct:40", "uct:4"),
        ("uct-distance:40", "uct-distance:4"),
    ):
        assert karki.meeting(game, one, other, 12)["interval"][0] > 0.5, (one, other)
