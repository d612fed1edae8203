"""Who knows the truth about Connect Four, against plain minimax."""

import jax
import numpy as np
import pytest

from azjax.agents import AgentError, make_agent
from tests.reference import connect_four as reference
from tests.solvers.test_connect_four import GAME, batch, by_column, long_games

TEXTS = [text for stones in (36, 37, 38) for text in long_games(8, stones, seed=stones)]


@pytest.fixture(scope="module")
def truth():
    """[positions, columns] outcomes, and plies to the end."""
    moves = [reference.move_plies(reference.play([int(move) - 1 for move in text])) for text in TEXTS]
    return by_column(moves, 0), by_column(moves, 1)


def played_by(name: str, seed: int) -> np.ndarray:
    agent = make_agent(name, GAME)
    return np.asarray(agent.act(agent.params, jax.random.key(seed), batch(*TEXTS)))


def at(values: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return values[np.arange(len(values)), actions]


def test_the_optimal_player_wins_soonest_and_loses_latest(truth):
    outcomes, plies = truth
    merits = outcomes * (100 - plies)
    actions = played_by("optimal", 0)
    np.testing.assert_array_equal(at(merits, actions), np.nanmax(merits, axis=1))
    assert {-1.0, 1.0} <= set(at(outcomes, actions))


def test_the_perfect_player_keeps_what_it_has_and_resists_longest(truth):
    outcomes, plies = truth
    best = np.nanmax(outcomes, axis=1)
    longest = np.nanmax(np.where(outcomes == -1, plies, 0), axis=1)
    assert (best < 0).any() and (best > 0).any()
    for seed in range(4):
        actions = played_by("perfect", seed)
        np.testing.assert_array_equal(at(outcomes, actions), best)
        np.testing.assert_array_equal(at(plies, actions)[best < 0], longest[best < 0])


def test_out_of_time_the_perfect_player_still_makes_a_legal_move():
    agent = make_agent("perfect?seconds=0", GAME)
    states = batch("", "444444", "12121")
    actions = np.asarray(agent.act(agent.params, jax.random.key(0), states))
    assert actions[1] != 3
    assert actions[2] == 0  # all others lose at once, which needs no search


def test_the_adversary_needs_a_table():
    with pytest.raises(AgentError, match="needs a table"):
        make_agent("adversary", GAME)
