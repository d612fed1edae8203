"""The trees: equal to mctx's bit for bit, worked out by hand, sound inside, and kept from move to move."""

import functools
import re
from unittest import mock

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from azjax import search
from azjax.envs import indexing
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.envs.pgx_bridge import PgxGame
from azjax.search import gumbel_search
from azjax.search import tree as trees
from tests.reference import exhaustive
from tests.search_cases import (
    TableGame,
    example,
    hash_evaluator,
    opinion,
    quick_jit,
    random_positions,
    random_table,
    stacked,
    table,
    table_evaluator,
)

KEY = jax.random.key(0)
OPINIONS = (
    opinion(1),
    opinion(2, logits=6.0),
    opinion(3, logits=0.0, values=0.0),
)  # the last one has ties only

# Against mctx: game, random moves before the search, batch, simulations, depth limit.
CASES = {
    "hex 3x3": (Hex(3), 8, 64, 100, None),
    "hex 5x5": (Hex(5), 22, 7, 8, None),
    "tic-tac-toe, two moves deep": (PgxGame("tic_tac_toe"), 4, 1, 32, 2),
    "dots and boxes 2x2": (DotsAndBoxes(2, 2), 11, 64, 32, None),
}


@functools.cache
def positions(case: str, number: int):
    """[batch, ...] positions of all stages, some of them terminal."""
    game, plies, batch, *_ = CASES[case]
    return random_positions(game, batch, plies, jax.random.key(number))


@functools.cache
def our_puct(case: str):
    """The search with the options of MuZero: (params, key, states) -> tree, action, policy."""
    game, _, _, simulations, max_depth = CASES[case]
    options = {"c": 1.25, "c_base": 19652, "normalise": True, "max_depth": max_depth}
    keeping = search.reusing_puct(game, hash_evaluator(game), simulations=simulations, kept=1, **options)

    def run(params, key, states):
        start_key, search_key = jax.random.split(key)
        output, tree = keeping.search(params, search_key, keeping.start(params, start_key, states))
        return tree, output.action, output.policy

    return quick_jit(run)


@functools.cache
def our_gumbel(case: str):
    game, _, _, simulations, max_depth = CASES[case]
    run = search.gumbel(
        game, hash_evaluator(game), simulations=simulations, max_depth=max_depth, gumbel_scale=1.0
    )

    def run_and_keep_tree(params, key, states):
        with mock.patch.object(
            gumbel_search, "collect_output", lambda game, states, tree, rows, *answer: (tree, *answer)
        ):
            return run(params, key, states)

    return quick_jit(run_and_keep_tree)


@functools.cache
def their_policy(case: str, policy, **options):
    """mctx on the same game; the sign of every edge by who moves, nothing from beyond the end."""
    game, _, _, simulations, max_depth = CASES[case]
    evaluate = hash_evaluator(game)

    def masked(params, key, states):
        legal = jax.vmap(game.legal_action_mask)(states)
        logits, value = evaluate(params, key, states)
        return jnp.where(legal, logits, jnp.finfo(jnp.float32).min), value, legal

    def recurrent(params, key, action, states):
        after = jax.vmap(game.step)(states, action)
        mover, over = states.current_player, jax.vmap(game.is_terminal)(after)
        logits, value, _ = masked(params, key, after)
        sign = jnp.where(after.current_player == mover, 1.0, -1.0)
        already_over = jax.vmap(game.is_terminal)(states)
        rewards = jax.vmap(game.rewards)(after)[jnp.arange(len(mover)), mover]
        step = mctx.RecurrentFnOutput(
            reward=jnp.where(already_over, 0.0, rewards),
            discount=jnp.where(over, 0.0, sign),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return step, after

    def run(params, key, states):
        _, key = jax.random.split(key)  # as our searches split theirs
        logits, value, legal = masked(params, key, states)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        limits = {"num_simulations": simulations, "max_depth": max_depth}
        return policy(params, key, root, recurrent, invalid_actions=~legal, **limits, **options)

    return quick_jit(run)


def assert_same_tree(ours: trees.Tree, theirs: mctx.Tree):
    """Same nodes in the same slots with the same bits, but for what mctx grows below the end of a game."""
    batch, slots = ours.node_visits.shape
    lane = np.arange(batch)
    beyond = np.zeros((batch, slots), bool)
    beyond[:, 0] = ours.terminal[:, 0]
    for slot in range(1, slots):
        parent = theirs.parents[:, slot]
        beyond[:, slot] = (parent >= 0) & (ours.terminal[lane, parent] | beyond[lane, parent])
    nodes = ~beyond
    assert np.array_equal(ours.node_visits[nodes], theirs.node_visits[nodes])
    assert np.array_equal(ours.parents[nodes], theirs.parents[nodes])
    assert np.array_equal(ours.actions[nodes], theirs.action_from_parent[nodes])
    used = nodes & (ours.node_visits > 0)
    assert np.array_equal(ours.raw_values[used], theirs.raw_values[used])
    assert np.array_equal(ours.node_values[used], theirs.node_values[used])
    inner = used & ~ours.terminal
    assert np.array_equal(ours.children[inner], theirs.children_index[inner])
    assert np.array_equal(ours.visits[inner], theirs.children_visits[inner])
    their_qvalues = theirs.children_rewards + theirs.children_discounts * theirs.children_values
    assert np.array_equal(ours.qvalues[inner], their_qvalues[inner])
    assert inner.sum() > 2 * batch  # else there was nothing to compare


@pytest.mark.parametrize("case", ["hex 3x3", "tic-tac-toe, two moves deep", "dots and boxes 2x2"])
def test_puct_grows_the_trees_of_muzero_bit_for_bit(case):
    theirs_run = their_policy(case, mctx.muzero_policy, dirichlet_fraction=0.0)
    for number, params in enumerate(OPINIONS):
        arguments = params, jax.random.key(number), positions(case, number)
        tree, _, policy = jax.device_get(our_puct(case)(*arguments))
        theirs = jax.device_get(theirs_run(*arguments))
        assert_same_tree(tree, theirs.search_tree)
        playing = ~tree.terminal[:, 0]
        assert np.array_equal(policy[playing], theirs.action_weights[playing])


@pytest.mark.parametrize("case", ["hex 3x3", "hex 5x5", "dots and boxes 2x2"])
def test_gumbel_grows_the_trees_of_mctx_bit_for_bit_and_answers_the_same(case):
    theirs_run = their_policy(case, mctx.gumbel_muzero_policy)
    for number, params in enumerate(OPINIONS):
        arguments = params, jax.random.key(number), positions(case, number)
        tree, action, policy = jax.device_get(our_gumbel(case)(*arguments))
        theirs = jax.device_get(theirs_run(*arguments))
        assert_same_tree(tree, theirs.search_tree)
        playing = ~tree.terminal[:, 0]
        assert np.array_equal(policy[playing], theirs.action_weights[playing])
        assert np.array_equal(action[playing], theirs.action[playing])


@functools.cache
def golden_puct():
    """Six simulations with c = 1.25 on the `example`."""
    keeping = search.reusing_puct(TableGame(), table_evaluator, simulations=6, kept=1, c=1.25)
    return jax.device_get(
        quick_jit(lambda states: keeping.search(None, KEY, keeping.start(None, KEY, states)))(
            stacked([example()])
        )
    )


# PUCT by hand: score = Q + 1.25 P sqrt(N) / (1 + n), N counts the node's own evaluation. r is the root, whose
# player 0 moves again in node 2, while in node 1 it is player 1's turn. Values are for the player to move.
#
# 1. r: N = 1. move 0: 0 + .75 sqrt(1) / 1 = .75; move 1: 0 + .5 = .5. New node 1, value .2 for player 1.
#    r: N = 2, V = (.1 - .2) / 2 = -.05; move 0: n = 1, Q = -.2.
# 2. r: move 0: -.2 + .75 * 1.414214 / 2 = .330330; move 1: .5 * 1.414214 = .707107. New node 2, .3 for
#    player 0.
#    r: N = 3, V = (-.05 * 2 + .3) / 3 = .066667; move 1: n = 1, Q = +.3, since the player stays.
# 3. r: move 0: -.2 + .75 * 1.732051 / 2 = .449519; move 1: .3 + .5 * 1.732051 / 2 = .733013.
#    node 2: N = 1. move 0: 1.25 * .8 = 1; move 1: .25. New node 5, .5 for player 1.
#    node 2: N = 2, V = (.3 - .5) / 2 = -.1; move 0: Q = -.5.
#    r: N = 4, V = (.2 - .5) / 4 = -.075; move 1: n = 2, Q = -.1.
# 4. r: move 0: -.2 + .75 * 2 / 2 = .55; move 1: -.1 + .5 * 2 / 3 = .233333.
#    node 1: N = 1. move 0: .875; move 1: .375. New node 3, -.4 for player 0.
#    node 1: N = 2, V = (.2 + .4) / 2 = .3; move 0: Q = .4.
#    r: N = 5, V = (-.3 - .4) / 5 = -.14; move 0: n = 2, Q = -.3.
# 5. r: move 0: -.3 + .75 * 2.236068 / 3 = .259017; move 1: -.1 + .5 * 2.236068 / 3 = .272678
#    (without the square root .95 and .733333).
#    node 2: N = 2. move 0: -.5 + 1.414214 / 2 = .207107; move 1: .25 * 1.414214 = .353553. New node 6, the
#    end, won.
#    node 2: N = 3, V = (-.2 + 1) / 3 = .266667; move 1: Q = 1.
#    r: N = 6, V = (-.7 + 1) / 6 = .05; move 1: n = 3, Q = .266667.
# 6. r: move 0: -.3 + .75 * 2.449490 / 3 = .312372; move 1: .266667 + .5 * 2.449490 / 4 = .572853.
#    node 2: N = 3. move 0: -.5 + 1.732051 / 2 = .366025; move 1: 1 + .25 * 1.732051 / 2 = 1.216506. The end
#    again.
#    node 2: N = 4, V = (.8 + 1) / 4 = .45.
#    r: N = 7, V = (.3 + 1) / 7 = .185714; move 1: n = 4, Q = .45.


def test_a_puct_tree_worked_out_by_hand():
    _, tree = golden_puct()
    # Slots 1 to 5 are nodes 1, 2, 5, 3, 6; the sixth simulation made none.
    assert tree.states.node[0, :6].tolist() == [0, 1, 2, 5, 3, 6]
    assert tree.node_visits[0].tolist() == [7, 2, 4, 1, 1, 2, 0]
    assert tree.parents[0].tolist() == [-1, 0, 0, 2, 1, 2, -1]
    assert tree.visits[0, :3].tolist() == [[2, 4, 0], [1, 0, 0], [1, 2, 0]]
    assert tree.discounts[0, 1:6].tolist() == [-1, 1, -1, -1, 0]
    np.testing.assert_allclose(tree.node_values[0, :5], [0.1857143, 0.3, 0.45, 0.5, -0.4], atol=1e-6)
    np.testing.assert_allclose(tree.qvalues[0, :3], [[-0.3, 0.45, 0], [0.4, 0, 0], [-0.5, 1, 0]], atol=1e-6)


def test_the_answer_of_the_puct_tree_worked_out_by_hand():
    output, _ = golden_puct()
    assert output.action.tolist() == [1]
    assert output.visits.tolist() == [[2, 4, 0]]
    np.testing.assert_allclose(output.policy, [[1 / 3, 2 / 3, 0]], atol=1e-6)
    np.testing.assert_allclose(output.value, [0.1857143], atol=1e-6)


# UCB1 by hand: score = Q + sqrt(ln N / n), c = 1. Below the root there is one move everywhere, so that the
# random order of first visits decides nothing.
#
# 1, 2. Nodes 1 (.2 for player 1) and 2 (.3 for player 0, who stays).
#    r: N = 3, V = (.1 - .2 + .3) / 3 = .066667; Q = -.2 and .3.
# 3. ln 3 = 1.098612. move 0: -.2 + 1.048147 = .848147; move 1: .3 + 1.048147. New node 5, -.1 for player 1.
#    node 2: N = 2, V = (.3 + .1) / 2 = .2.  r: N = 4, V = (.2 + .1) / 4 = .075; move 1: n = 2, Q = .2.
# 4. ln 4 = 1.386294. move 0: -.2 + 1.177410 = .977410; move 1: .2 + .832555 = 1.032555 (without
#    the square root 1.186294 and .893147). Through nodes 2 and 5 to node 6, the end, which player 1 wins.
#    node 5: N = 2, V = (-.1 + 1) / 2 = .45.  node 2: N = 3, V = (.4 - 1) / 3 = -.2.
#    r: N = 5, V = (.3 - 1) / 5 = -.14; move 1: n = 3, Q = -.2.
# 5. ln 5 = 1.609438. move 0: -.2 + 1.268636 = 1.068636; move 1: -.2 + .732447 = .532447. New node 3, -.4 for
#    player 0.
#    node 1: N = 2, V = (.2 + .4) / 2 = .3.  r: N = 6, V = (-.7 - .4) / 6 = -.183333; move 0: n = 2, Q = -.3.
# 6. ln 6 = 1.791759. move 0: -.3 + .946509 = .646509; move 1: -.2 + .772822 = .572822. New node 7, .6 for
#    player 1.
#    node 3: N = 2, V = (-.4 - .6) / 2 = -.5.  node 1: N = 3, V = (.6 + .6) / 3 = .4.
#    r: N = 7, V = (-1.1 - .6) / 7 = -.242857; move 0: n = 3, Q = -.4. Both moves have 3 visits;
#    move 1 has the better Q.


def test_a_ucb1_tree_worked_out_by_hand():
    example = table(
        {
            0: {"player": 0, "value": 0.1, "moves": {0: 1, 1: 2}},
            1: {"player": 1, "value": 0.2, "moves": {0: 3}},
            2: {"player": 0, "value": 0.3, "moves": {0: 5}},
            3: {"player": 0, "value": -0.4, "moves": {1: 7}},
            5: {"player": 1, "value": -0.1, "moves": {2: 6}},
            6: {"player": 1, "result": -1.0, "value": 0.7},
            7: {"player": 1, "value": 0.6, "moves": {0: 8}},
            8: {"player": 0, "result": 0.0},
        }
    )
    keeping = search.reusing_uct(
        TableGame(), simulations=6, kept=1, c=1.0, leaf_value=lambda x: table_evaluator(None, None, x)[1]
    )
    output, tree = jax.device_get(
        quick_jit(lambda states: keeping.search(None, KEY, keeping.start(None, KEY, states)))(
            stacked([example])
        )
    )
    assert tree.states.node[0, 3:].tolist() == [5, 6, 3, 7]
    visits = dict(zip(tree.states.node[0].tolist(), tree.node_visits[0].tolist()))
    values = dict(zip(tree.states.node[0].tolist(), tree.node_values[0].tolist()))
    assert visits == {0: 7, 1: 3, 2: 3, 5: 2, 6: 1, 3: 2, 7: 1}
    expected = {0: -0.2428571, 1: 0.4, 2: -0.2, 5: 0.45, 6: 0, 3: -0.5, 7: 0.6}
    assert values == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(output.qvalues, [[-0.4, -0.2, 0]], atol=1e-6)
    assert output.action.tolist() == [1]


@functools.cache
def grown(case: str) -> trees.Tree:
    """Finished trees."""
    tree, _, _ = our_puct(case)(OPINIONS[0], KEY, positions(case, 0))
    return jax.device_get(tree)


def below(tree: trees.Tree, lane: int, root: int = 0) -> dict[tuple, int]:
    """Every node below one, the path of moves to it -> its slot."""
    nodes, waiting = {(): root}, [()]
    while waiting:
        path = waiting.pop()
        for action, child in enumerate(tree.children[lane, nodes[path]].tolist()):
            if child >= 0:
                nodes[(*path, action)] = child
                waiting.append((*path, action))
    return nodes


def assert_sound(game, tree: trees.Tree):
    """What must hold in every tree, however it grew."""
    tree = jax.device_get(tree)
    lane, parent, action = np.nonzero(tree.children >= 0)
    child = tree.children[lane, parent, action]
    assert np.all(child > parent)
    assert np.array_equal(tree.parents[lane, child], parent)
    assert np.array_equal(tree.actions[lane, child], action)
    used_lane, used = np.nonzero(tree.node_visits > 0)
    assert len(used) == len(child) + len(tree.node_visits)  # all nodes but the roots hang on an edge

    states = jax.tree.map(lambda leaf: leaf[lane, parent], tree.states)
    after = jax.tree.map(lambda leaf: leaf[lane, child], tree.states)
    mover = states.current_player
    expected = jax.device_get(jax.vmap(game.step)(states, action))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(expected)))
    over = np.asarray(jax.vmap(game.is_terminal)(after))
    assert np.array_equal(tree.terminal[lane, child], over)
    assert np.all(tree.children[tree.terminal & (tree.node_visits > 0)] == -1)
    sign = np.where(after.current_player == mover, 1, -1)
    assert np.array_equal(tree.discounts[lane, child], np.where(over, 0, sign))
    rewards = np.asarray(jax.vmap(game.rewards)(after))[np.arange(len(mover)), mover]
    assert np.array_equal(tree.rewards[lane, child], np.where(over, rewards, 0))

    everywhere = jax.tree.map(lambda leaf: leaf[used_lane, used], tree.states)
    legal = np.asarray(jax.vmap(game.legal_action_mask)(everywhere))
    assert np.all(tree.visits[used_lane, used][~legal] == 0)

    # An edge tells what its node tells; a node's mean is that of its own evaluation and of its edges.
    edge_visits, edge_values = tree.visits[lane, parent, action], tree.qvalues[lane, parent, action]
    assert np.array_equal(edge_visits, tree.node_visits[lane, child])
    seen_from_above = tree.rewards[lane, child] + tree.discounts[lane, child] * tree.node_values[lane, child]
    assert np.array_equal(edge_values, seen_from_above)
    total = tree.raw_values + np.sum(tree.visits * tree.qvalues, -1)
    whole = (tree.node_visits == 1 + tree.visits.sum(-1)) & ~tree.terminal
    np.testing.assert_allclose((tree.node_values * tree.node_visits)[whole], total[whole], atol=1e-4)
    return whole


@pytest.mark.parametrize("case", ["hex 3x3", "dots and boxes 2x2"])
def test_every_edge_and_every_mean_of_a_tree_is_sound(case):
    whole = assert_sound(CASES[case][0], grown(case))
    tree = grown(case)
    assert np.array_equal(whole, (tree.node_visits > 0) & ~tree.terminal)  # no visit is lost anywhere


def test_no_node_is_deeper_than_the_depth_limit():
    tree = grown("tic-tac-toe, two moves deep")
    assert {len(path) for path in below(tree, lane=0)} == {0, 1, 2}
    assert tree.visits[0, 0].sum() == 32  # and yet every simulation counts


def test_a_leaf_at_the_depth_limit_averages_what_the_evaluator_says_each_time():
    def moody(params, key, states):
        return jnp.zeros((len(states.node), 3)), jax.random.uniform(key, states.node.shape)

    only_move = table(
        {0: {"player": 0, "moves": {0: 1}}, 1: {"player": 1, "moves": {0: 2}}, 2: {"player": 0}}
    )
    keeping = search.reusing_puct(TableGame(), moody, simulations=200, kept=1, max_depth=1)
    run = quick_jit(lambda states: keeping.search(None, KEY, keeping.start(None, KEY, states)))
    _, tree = jax.device_get(run(stacked([only_move] * 8)))
    assert np.array_equal(tree.visits[:, 0, 0], np.full(8, 200))
    # The mean of 200 uniform numbers is 0.5 within 0.1 but for one case in a million; one number is not.
    np.testing.assert_allclose(tree.qvalues[:, 0, 0], np.full(8, -0.5), atol=0.1)
    assert np.ptp(tree.raw_values[:, 1]) > 0.5


@functools.cache
def subtree(kept: int):
    return quick_jit(functools.partial(trees.subtree, kept=kept))


def most_visited(tree: trees.Tree) -> np.ndarray:
    return np.argmax(tree.visits[:, 0], -1).astype(np.int32)


def assert_kept(old: trees.Tree, new: trees.Tree, lane: int, slot: int, dropped: int = 0):
    """The new tree of a lane is what hung below a slot of the old one, but for the newest `dropped` nodes."""
    before, after = below(old, lane, slot), below(new, lane)
    assert set(after) <= set(before)
    assert len(after) == len(before) - dropped
    oldest = sorted(before.values())[: len(after)]
    assert sorted(before[path] for path in after) == oldest
    for path, new_slot in after.items():
        old_slot = before[path]
        for field in trees.Tree._fields:
            if field in ("parents", "children", "actions", "states", "outcomes"):
                continue  # numbers of slots, which `below` has followed; the moves are in the path
            a, b = getattr(old, field)[lane, old_slot], getattr(new, field)[lane, new_slot]
            assert np.array_equal(a, b), field
        states = zip(jax.tree.leaves(old.states), jax.tree.leaves(new.states))
        assert all(np.array_equal(a[lane, old_slot], b[lane, new_slot]) for a, b in states)


def test_a_kept_subtree_has_the_statistics_it_had():
    old = grown("hex 3x3")
    action = most_visited(old)
    new, found = jax.device_get(subtree(101)(old, action))
    lanes = np.flatnonzero(found)
    assert len(lanes) > 32
    for lane in lanes:
        assert_kept(old, new, lane, old.children[lane, 0, action[lane]])


def test_a_subtree_that_does_not_fit_loses_its_newest_nodes():
    old = grown("hex 3x3")
    action = most_visited(old)
    new, found = jax.device_get(subtree(10)(old, action))
    size = np.array(
        [
            len(below(old, lane, old.children[lane, 0, action[lane]])) if found[lane] else 0
            for lane in range(64)
        ]
    )
    assert np.sum(size > 10) > 8
    for lane in np.flatnonzero(size):
        assert_kept(old, new, lane, old.children[lane, 0, action[lane]], dropped=max(0, int(size[lane]) - 10))
    assert np.all(new.node_visits[:, 10:] == 0)


def test_a_move_that_was_never_expanded_has_no_subtree():
    old = grown("hex 3x3")
    action = np.argmin(old.visits[:, 0], -1).astype(np.int32)
    _, found = jax.device_get(subtree(101)(old, action))
    assert np.array_equal(found, old.visits[np.arange(64), 0, action] > 0)
    assert not found.all()


KEPT, SIMULATIONS, LANES = 12, 40, 256


@functools.cache
def reusing(kind: str) -> search.ReusingSearch:
    """A search on Hex 3x3 that keeps too few nodes for what it grows."""
    game, options = Hex(3), {"simulations": SIMULATIONS, "kept": KEPT}
    if kind == "puct":
        functions = search.reusing_puct(game, hash_evaluator(game), **options)
    else:
        functions = search.reusing_uct(game, **options)
    return search.ReusingSearch(*map(quick_jit, functions))


@functools.cache
def two_moves(kind: str):
    """A search, its move, and the next search with and without the kept tree; in some lanes a new game."""
    keeping, params = reusing(kind), OPINIONS[0]
    states = random_positions(Hex(3), LANES, 4, KEY)
    first_answer, first_tree = keeping.search(params, KEY, keeping.start(params, KEY, states))
    next_states = jax.vmap(Hex(3).step)(states, first_answer.action)
    # In the last lanes, another game begins.
    new = jax.vmap(Hex(3).init)(jax.random.split(KEY, LANES))
    renewed = np.arange(LANES) >= LANES - 32
    next_states = jax.tree.map(
        lambda a, b: jnp.where(renewed.reshape(-1, *(1,) * (a.ndim - 1)), a, b), new, next_states
    )
    kept = keeping.advance(params, KEY, first_tree, first_answer.action, next_states)
    answer, tree = keeping.search(params, KEY, kept)
    fresh = keeping.start(params, KEY, next_states)
    fresh_answer, _ = keeping.search(params, KEY, fresh)
    return jax.device_get(
        (first_answer, first_tree, renewed, next_states, kept, answer, tree, fresh, fresh_answer)
    )


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_the_tree_of_a_move_is_kept_up_to_its_capacity(kind):
    answer, old, renewed, _, kept, *_ = two_moves(kind)
    playing = ~renewed & ~old.terminal[:, 0]
    dropped_some = 0
    for lane in np.flatnonzero(playing):
        slot = old.children[lane, 0, answer.action[lane]]
        dropped = max(0, len(below(old, lane, slot)) - KEPT)
        assert_kept(old, kept, lane, slot, dropped)
        dropped_some += dropped > 0
    assert dropped_some > 16


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_a_lane_whose_game_began_anew_has_a_fresh_tree(kind):
    _, _, renewed, _, kept, _, _, fresh, _ = two_moves(kind)
    pairs = zip(jax.tree.leaves(kept), jax.tree.leaves(fresh))
    assert all(np.array_equal(a[renewed], b[renewed]) for a, b in pairs)


def test_a_move_that_was_never_looked_at_starts_a_fresh_tree():
    keeping, params = reusing("puct"), opinion(5, logits=9.0)  # such a prior leaves many moves alone
    states = random_positions(Hex(3), LANES, 2, KEY)
    answer, tree = keeping.search(params, KEY, keeping.start(params, KEY, states))
    legal = jax.vmap(Hex(3).legal_action_mask)(states)
    unseen = np.asarray(legal & (answer.visits == 0))
    action = np.argmax(unseen, -1).astype(np.int32)
    next_states = jax.vmap(Hex(3).step)(states, action)
    kept = keeping.advance(params, KEY, tree, action, next_states)
    fresh = keeping.start(params, KEY, next_states)
    lanes = unseen.any(-1)
    assert lanes.sum() > 16
    pairs = zip(jax.tree.leaves(kept), jax.tree.leaves(fresh))
    assert all(np.array_equal(a[lanes], b[lanes]) for a, b in pairs)


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_a_kept_tree_goes_on_growing_and_stays_sound(kind):
    *_, kept, answer, tree, _, _ = two_moves(kind)
    playing = ~kept.terminal[:, 0]
    carried = kept.visits[:, 0].sum(-1)
    assert np.array_equal(answer.visits.sum(-1), carried + SIMULATIONS * playing)
    assert carried.max() > SIMULATIONS / 2
    assert_sound(Hex(3), tree)
    # Some dropped nodes came back: they have more visits than their own evaluation and their moves explain.
    again = (tree.node_visits > 1 + tree.visits.sum(-1)) & ~tree.terminal
    assert again.sum() > 16


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_a_search_that_keeps_its_tree_plays_better(kind):
    _, _, _, states, kept, answer, _, _, fresh_answer = two_moves(kind)
    solved = exhaustive.solve(Hex(3), jax.tree.map(lambda leaf: leaf[None], Hex(3).init(KEY)))
    place = exhaustive.find(solved, states)
    won = (solved.values[place] == 1) & ~kept.terminal[:, 0]  # in lost positions all moves are alike
    mistakes = [
        np.sum(solved.action_values[place, found.action][won] != 1) for found in (answer, fresh_answer)
    ]
    assert mistakes[0] < mistakes[1]


def equations(jaxpr):
    """All equations of a program, also those inside of loops and calls."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def results_of_whole_trees(function, *arguments) -> set[str]:
    """Which operations in a function's loops make arrays as large as one number per node, or larger, on a CPU."""
    with indexing.forced(accelerator=False):
        program = jax.make_jaxpr(function)(*arguments)
    loops = [e for e in program.eqns if e.primitive.name == "while"]
    assert loops
    return {
        equation.primitive.name
        for loop in loops
        for equation in equations(loop.params["body_jaxpr"].jaxpr)
        if max(output.aval.size for output in equation.outvars) >= 5 * 60
    }


def test_a_level_of_a_descent_a_backup_or_a_proof_costs_the_same_in_trees_of_all_sizes():
    states = stacked([random_table(np.random.default_rng(0))] * 5)
    keeping = search.reusing_puct(TableGame(), table_evaluator, simulations=59, kept=1, solve=True)
    tree = jax.eval_shape(keeping.start, None, KEY, states)
    node, value = jnp.zeros(5, jnp.int32), jnp.zeros(5)
    in_place = {"scatter", "scatter-add"}
    assert results_of_whole_trees(trees.backup, tree, node, value) == in_place
    assert results_of_whole_trees(lambda *x: trees.prove(*x, 1.0), tree, node) == {"scatter"}

    def rule(keys, rows):
        return jnp.argmax(rows.prior, -1).astype(jnp.int32)

    assert results_of_whole_trees(lambda *x: trees.descend(*x, rule, rule, 60), tree, KEY) == set()


def test_the_compiled_search_copies_no_edges_of_a_tree():
    states = stacked([random_table(np.random.default_rng(0))] * 5)
    find = search.puct(TableGame(), table_evaluator, simulations=59, solve=True)
    program = quick_jit(find).lower(None, KEY, states).compile().as_text()
    assert re.search(r"\[5,60,3\]", program)
    before_the_main_program, _, _ = program.partition("\nENTRY ")  # that is, the loops
    assert re.findall(r"= \w+\[5,60,3\]\S* copy\(", before_the_main_program) == []


def test_the_first_of_equal_maxima_is_taken_as_argmax_does():
    for width in (1, 9, 33, 121):
        scores = np.random.default_rng(0).integers(0, width, (500, width)).astype(np.float32)
        scores[::7] = -np.inf
        assert np.array_equal(trees.first_max(jnp.asarray(scores)), np.argmax(scores, -1))


def test_the_words_of_a_descent_differ_from_lane_to_lane_and_from_level_to_level():
    keys = jax.random.split(KEY, 50)
    words = np.concatenate([trees.Draws(keys, depth).words() for depth in range(4)])
    assert len(np.unique(words)) == 200
