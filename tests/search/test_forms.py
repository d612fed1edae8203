"""The trees of a CPU and those of an accelerator, which reads edges off the nodes below them, are the same bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import search
from azjax.envs import indexing
from azjax.envs.hex import Hex
from tests.search_cases import (
    TableGame,
    hash_evaluator,
    opinion,
    quick_jit,
    random_positions,
    random_table,
    stacked,
    table_evaluator,
)

KEY = jax.random.key(0)
BATCH, MOVES = 500, 3
SEARCHES = {
    "puct": functools.partial(search.reusing_puct, evaluate=table_evaluator, dirichlet_fraction=0.25),
    "uct that proves": functools.partial(
        search.reusing_uct, leaf_value=lambda x: table_evaluator(None, None, x)[1], solve=True
    ),
}


def in_both_forms(function):
    """A function compiled in the form for CPUs, and in the one for accelerators."""
    for accelerator in (False, True):
        compiled = quick_jit(lambda *arguments: function(*arguments))

        def run(*arguments, compiled=compiled, accelerator=accelerator):
            with indexing.forced(accelerator=accelerator):
                return compiled(*arguments)

        yield run


def bits(tree) -> list[np.ndarray]:
    return [np.asarray(leaf).view(f"u{leaf.dtype.itemsize}") for leaf in jax.tree.leaves(tree)]


def used_part(tree):
    """The tree without what stands in unused slots, which nobody reads."""
    used = tree.node_visits > 0
    kept = (tree.node_visits, tree.parents, tree.actions, tree.children, tree.visits)
    kept += (tree.raw_values, tree.node_values, tree.rewards, tree.discounts, tree.terminal, tree.prior)
    kept += (tree.qvalues, tree.outcomes, *jax.tree.leaves(tree.states))
    return [column[used] for column in kept if column is not None]


@pytest.mark.parametrize("kind", SEARCHES)
def test_trees_that_are_kept_from_move_to_move_are_the_same_bits_in_both_forms(kind):
    game = TableGame()
    keeping = SEARCHES[kind](game, simulations=12, kept=5)  # far fewer than there are: some are dropped

    def turn(states, tree):
        output, grown = keeping.search(None, KEY, tree)
        states = jax.vmap(game.step)(states, output.action)
        return output, grown, states, keeping.advance(None, KEY, grown, output.action, states)

    rng = np.random.default_rng(0)
    start = stacked([random_table(rng) for _ in range(BATCH)])
    found = []
    for run in in_both_forms(turn):
        states, tree = start, keeping.start(None, KEY, start)
        found.append([])
        for _ in range(MOVES):
            output, grown, states, tree = run(states, tree)
            found[-1].append(jax.device_get((output, grown)))
    indexed, masked = found
    for (output, tree), (their_output, their_tree) in zip(indexed, masked, strict=True):
        assert all(map(np.array_equal, bits(output), bits(their_output)))
        assert np.array_equal(tree.node_visits, their_tree.node_visits)
        assert all(map(np.array_equal, bits(used_part(tree)), bits(used_part(their_tree))))
    assert np.any(indexed[1][1].visits[:, :5].sum(-1) > 1)  # the trees did grow
    assert np.any((indexed[1][1].visits > 0) & (indexed[1][1].children < 0))  # and lost nodes


@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_searches_from_anywhere_answer_the_same_bits_in_both_forms(kind):
    game = Hex(4)
    make = functools.partial(search.gumbel, gumbel_scale=1.0) if kind == "gumbel" else search.puct
    find = make(game, hash_evaluator(game), simulations=24)
    indexed, masked = in_both_forms(find)
    for number in range(4):
        key = jax.random.key(number)
        asked = opinion(number, logits=2.0 * number), key, random_positions(game, 256, 15, key)
        output = indexed(*asked)
        assert all(map(np.array_equal, bits(output), bits(masked(*asked))))
        assert len(np.unique(output.action)) > 4


def test_the_gradient_of_a_permutation_is_the_one_back_in_both_forms():
    rng = np.random.default_rng(0)
    tables = np.stack([np.arange(9), rng.permutation(9), rng.permutation(9)])
    x, weight, row = rng.normal(size=(30, 9)), rng.normal(size=(30, 9)), rng.integers(0, 3, 30)

    def weighed(x):
        moved = jax.vmap(lambda x, row: indexing.permuted(x, tables, row))(x, row)
        return jnp.sum(moved * weight.astype(np.float32))

    expected = np.zeros((30, 9), np.float32)
    np.put_along_axis(expected, tables[row], weight.astype(np.float32), 1)
    for run in in_both_forms(jax.grad(weighed)):
        assert np.array_equal(run(jnp.asarray(x, jnp.float32)), expected)


def test_numbers_are_read_and_written_alike_by_index_and_by_mask():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(40, 7)).astype(np.float32)
    numbers[:, 3], numbers[:, 4] = -0.0, np.nan
    place = rng.integers(0, 7, 40)
    tables = np.stack([np.arange(7), np.arange(7)[::-1], rng.permutation(7)])

    for kind in (np.float32, np.int32, np.uint32, np.int8, bool, np.float16):
        with np.errstate(invalid="ignore"):
            x = numbers.astype(kind)

        def read_and_write(x, place):
            return (
                jax.vmap(indexing.take)(x, place),
                jax.vmap(indexing.put)(x, place, x[::-1, 0]),
                jax.vmap(lambda x, row: indexing.permuted(x, tables, row))(x, place % 3),
            )

        lane = np.arange(40)
        written = x.copy()
        written[lane, place] = x[::-1, 0]
        expected = x[lane, place], written, np.take_along_axis(x, tables[place % 3], 1)
        for run in in_both_forms(read_and_write):
            answer = run(jnp.asarray(x), jnp.asarray(place))
            assert all(map(np.array_equal, bits(answer), bits(expected)))
