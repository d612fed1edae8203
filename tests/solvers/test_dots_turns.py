"""Turns as moves: every turn is legal, and on small boards they reach the value of every position."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, box_sides
from azjax.solvers.dots import chains, turns
from azjax.solvers.dots.solver import make_solver

pytestmark = pytest.mark.usefixtures("optimised")


def all_positions(game: DotsAndBoxes) -> DotsAndBoxesState:
    """Every set of drawn lines, the first player to move, who owns all that is complete."""
    sets = np.arange(2**game.num_actions - 1)  # but the end
    lines = (sets[:, None] >> np.arange(game.num_actions) & 1).astype(bool)
    owners = lines[:, box_sides(game.rows, game.columns)].all(axis=2).astype(np.int8)
    return DotsAndBoxesState(lines, owners, np.zeros(len(sets), np.int32))


@functools.cache
def turns_of(game: DotsAndBoxes):
    """(states) -> the positions after each turn [batch, lines + 1, ...], and which there are."""
    by_turns = turns.Turns(game)
    every = jnp.arange(by_turns.num_actions)
    step = jax.vmap(jax.vmap(by_turns.step, (None, 0)), (0, None))
    return jax.jit(lambda x: (step(x, every), jax.vmap(by_turns.legal_action_mask)(x)))


@pytest.mark.parametrize("shape", [(2, 2), (1, 4), (2, 3)])
def test_the_best_turn_is_worth_as_much_as_the_best_line_in_every_position(shape):
    # By induction over the drawn lines, a search over turns and one over lines then find the same value.
    game = DotsAndBoxes(*shape, reward="margin")
    solver = make_solver(game, method="table")
    states = all_positions(game)
    after, legal = jax.tree.map(np.asarray, turns_of(game)(states))
    assert legal.any(axis=1).all()
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), after)
    values = np.asarray(solver.value(DotsAndBoxesState(*flat))).reshape(legal.shape)
    values = np.where(after.current_player == 0, values, -values)
    best = np.where(legal, values, -np.inf).max(axis=1)
    np.testing.assert_allclose(best, solver.value(states), atol=1e-6)


def test_played_line_by_line_a_turn_leads_where_it_should():
    game = DotsAndBoxes(2, 3)
    states = all_positions(game)
    chosen = np.random.default_rng(0).permutation(len(states.lines))[:3000]
    states = jax.tree.map(lambda leaf: leaf[chosen], states)
    after, legal = turns_of(game)(states)
    rows, actions = np.nonzero(np.asarray(legal))
    ends = jax.tree.map(lambda leaf: np.asarray(leaf)[rows, actions], after)

    @jax.jit
    @jax.vmap
    def line_by_line(x, action):
        # A double deal stays one, while captures come before its end; so does a line that ends the turn.
        def go_on(carry):
            return ~game.is_terminal(carry) & (carry.current_player == x.current_player)

        def draw(carry):
            way = turns.ways(game, carry.lines)
            return game.step(
                carry, turns.first_line(carry.lines, chains.capturing_lines(game, carry.lines), way, action)
            )

        return jax.lax.while_loop(go_on, draw, x)

    begin = jax.tree.map(lambda leaf: leaf[rows], states)
    played = line_by_line(begin, jnp.asarray(actions, jnp.int32))
    np.testing.assert_array_equal(played.current_player, ends.current_player)
    np.testing.assert_array_equal((played.owners != 0).sum(1), (ends.owners != 0).sum(1))
    # Lines differ only where a double deal may leave one chain or another.
    same = (np.asarray(played.lines) == ends.lines).all(axis=1)
    assert same[actions < game.num_actions].all() and same.mean() > 0.99


def test_a_position_in_the_first_phase_has_its_safe_lines_and_one_line_for_each_chain():
    game = DotsAndBoxes(3, 3)
    empty = game.init()
    assert bool(chains.safe_lines(game, empty.lines).any())
    legal = np.asarray(jax.jit(turns.Turns(game).legal_action_mask)(empty))
    # 24 lines, of which each of the four corner boxes has two alike.
    assert legal.sum() == 20 and not legal[24]


def test_phases_end_with_the_last_safe_line():
    # On one row of three boxes, the lying lines leave none that is safe.
    game = DotsAndBoxes(1, 3)
    lying = np.isin(np.arange(10), range(6))
    assert bool(chains.safe_lines(game, jnp.asarray(np.isin(np.arange(10), [0]))).any())
    assert not bool(chains.safe_lines(game, jnp.asarray(lying)).any())


def test_a_turn_is_as_likely_as_its_lines_are_on_average():
    # One row of three boxes, opened at its left end: lines 7, 8 and 9 are left, and each takes a box.
    game = DotsAndBoxes(1, 3)
    state = jax.device_get(game.from_lines([*map(game.action_to_text, [*range(6), 6])]))
    chances = np.array([0.2, 0.3, 0.5])

    def evaluate(params, key, states):
        logits = jnp.full((1, 10), -jnp.inf).at[0, 7:].set(jnp.log(chances))
        return logits, jnp.zeros(1)

    batch = jax.tree.map(lambda leaf: leaf[None], state)
    logits, _ = jax.jit(turns.turn_evaluator(game, evaluate))((), jax.random.key(0), batch)
    # Everything is taken and nothing is left to be drawn: one turn, of all three lines.
    legal = np.asarray(jax.jit(turns.Turns(game).legal_action_mask)(state))
    assert np.flatnonzero(legal).tolist() == [10]
    np.testing.assert_allclose(np.exp(logits[0, 10]), chances.mean(), rtol=1e-6)
