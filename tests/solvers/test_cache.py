"""One cache and one look-up: solved tables are found by agents, judges and solvers, used where they lie on disk."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.agents import make_agent
from azjax.common import files
from azjax.common.agent import AgentError
from azjax.envs import ChineseCheckers
from azjax.envs.checkers_ranking import locate, ranking_of
from azjax.evaluation import truth
from azjax.positions import sets
from azjax.positions.drawn import random_positions
from azjax.solvers import make_solver
from azjax.solvers.checkers import retrograde, room, solver
from azjax.solvers.core import TooLargeError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

GAME = ChineseCheckers(3, 3, repetitions=None)
EVERY_MOVE = dataclasses.replace(GAME, forward_only=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of all moves without distances, in a file that `azjax solve --save` has written; and the cache."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("AZJAX_CACHE", str(cache))
        path = tmp_path_factory.mktemp("elsewhere") / "table.npz"
        board = ["--size", "3", "--pieces", "3", "--no-forward-only", "--no-distances"]
        assert cli.main(["solve", "chinese-checkers", *board, "--save", str(path), "--json"]) == 0
        yield path, cache


@pytest.fixture
def unsolvable(table, monkeypatch):
    """No board can be solved any more: what is not found is refused."""

    def refuse(*given, **options):
        raise TooLargeError("it would take years")

    monkeypatch.setenv("AZJAX_CACHE", str(table[1]))
    monkeypatch.setattr(room, "make_table", refuse)
    return table[0]


def positions():
    """Positions of the game that are not over."""
    states = random_positions(GAME, jax.random.key(0), 300)
    return sets.rows(states, sets.first_of_each(states))


def test_a_table_that_was_saved_elsewhere_is_found_by_everybody(unsolvable):
    assert (
        make_solver(EVERY_MOVE, distances=False).counts().wins == 720
    )  # as in tests/solvers/test_checkers.py
    assert truth.solver_for(EVERY_MOVE).counts() == solver.load_solver(unsolvable).counts()
    judged = truth.solver_for(GAME, all_moves=True)
    states = positions()
    for text in ("perfect?all_moves=1", "adversary?all_moves=1&epsilon=0"):
        agent = make_agent(text, GAME)
        actions = np.asarray(agent.act(agent.params, jax.random.key(0), states))
        kept = judged.optimal_actions(states)[np.arange(len(actions)), actions]
        assert kept.all() if text.startswith("perfect") else kept[judged.value(states) > 0].all()


def test_what_is_in_no_cache_is_refused(unsolvable):
    assert truth.solver_for(GAME) is None  # forward moves are another table
    with pytest.raises(AgentError, match="it would take years"):
        make_agent("perfect", GAME)
    with pytest.raises(TooLargeError):
        make_solver(EVERY_MOVE)  # the table has no distances
    with pytest.raises(AgentError, match="has no distances"):
        make_agent("optimal", EVERY_MOVE)
    unsolvable.rename(unsolvable.with_name("moved.npz"))
    try:
        assert truth.solver_for(EVERY_MOVE) is None  # the link leads nowhere
    finally:
        unsolvable.with_name("moved.npz").rename(unsolvable)


def test_traps_are_the_same_without_distances(unsolvable, tmp_path, monkeypatch):
    states = positions()
    without = make_agent("adversary?epsilon=0", EVERY_MOVE)
    assert "distances" not in without.params
    moves = np.asarray(without.act(without.params, jax.random.key(1), states))
    monkeypatch.undo()
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    known = make_agent("adversary?epsilon=0", EVERY_MOVE)
    assert "distances" in known.params
    assert (np.asarray(known.act(known.params, jax.random.key(1), states)) == moves).all()


def test_moves_are_judged_by_their_best_outcome_where_the_table_is_of_another_game(unsolvable):
    judged = truth.solver_for(GAME, all_moves=True)
    states = positions()
    found = judged.solve(states)
    for row in range(40):
        state = sets.rows(states, [row])
        after = sets.successors(GAME, state)
        outcomes = dict(zip(after.action.tolist(), (-judged.value(after.states)).tolist()))
        best = [action for action, value in outcomes.items() if value == max(outcomes.values())]
        assert np.flatnonzero(found.optimal[row]).tolist() == sorted(best)


def test_a_loaded_table_stays_on_disk_and_is_used_there(tmp_path):
    game = dataclasses.replace(EVERY_MOVE, pieces=2, size=4)
    made = solver.make_solver(game, distances=False)
    words = np.resize(made.table.codes, (300, 100))  # large enough to be worth mapping
    with open(tmp_path / "large.npz", "wb") as file:
        files.write_arrays(file, {"small": np.arange(3), "codes": words, "name": np.array("text")})
    read = files.read_arrays(tmp_path / "large.npz", mapped=True)
    assert isinstance(read["codes"], np.memmap) and not isinstance(read["small"], np.memmap)
    assert read["codes"].ctypes.data % files.ALIGNMENT == 0
    on_device = jax.device_put(read["codes"], may_alias=True)
    assert on_device.unsafe_buffer_pointer() == read["codes"].ctypes.data  # no copy
    with np.load(tmp_path / "large.npz") as plain:  # numpy reads it as any other
        for name, array in (("codes", words), ("small", np.arange(3))):
            np.testing.assert_array_equal(plain[name], array)
            np.testing.assert_array_equal(read[name], array)
        assert str(plain["name"]) == "text"
    np.savez(tmp_path / "numpys.npz", codes=words)  # not aligned: read, not mapped
    np.testing.assert_array_equal(files.read_arrays(tmp_path / "numpys.npz", mapped=True)["codes"], words)


def test_positions_are_ordinary_as_published_where_their_player_is_in_no_home():
    # Of one row of the smallest board on which that makes a difference. The opponent holds the four cells around the
    # tip of its home, 19, 21, 22 and 23, and two in the middle, 6 and 7; the tip, 24, is free.
    game = ChineseCheckers(5, 6, forward_only=False, repetitions=None)
    ranking = ranking_of(game)
    theirs = np.isin(np.arange(25), game.image_index[[6, 7, 19, 21, 22, 23]])
    mine = np.isin(np.arange(25), game.image_index[[8, 9, 10, 11, 12, 13]])
    row, column = (int(number) for number in locate(ranking, mine, theirs))
    rows = np.array([row], np.int32)
    codes = []
    for as_published in (False, True):
        words = np.asarray(retrograde.first_rows(game, as_published, rows))
        bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 2)
        codes.append((bits[:, 0] + 2 * bits[:, 1])[: ranking.columns])
    assert codes[0][column] == retrograde.ILLEGAL and codes[1][column] == retrograde.OPEN
    # All six of the player among the 11 free cells of the middle: neither 0 to 5 nor 19 to 24.
    assert ((codes[0] == retrograde.ILLEGAL) & (codes[1] == retrograde.OPEN)).sum() == math.comb(11, 6)
    assert (codes[0] != codes[1]).sum() == math.comb(11, 6)
