"""Batched search trees: walk down, add a leaf, carry its value up, keep a subtree.

The same trees as mctx grows, bit for bit, in loops that touch only the visited rows: mctx carries the
whole tree through a vmapped loop, so that each level of a backup costs as much as the tree is large.
Here a batch descends and backs up together, and lanes that are done write out of range, where writes
are dropped. A game's position knows who is to move, so every edge has its own sign.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from azjax.common import memory
from azjax.envs.core import Game, GameState, scramble

AnyParams = Any
"""Whatever the evaluator takes; those of a network are `azjax.nn.Params`."""

Evaluator = Callable[[AnyParams, jax.Array, GameState], tuple[jax.Array, jax.Array]]
"""(params, key, states [batch, ...]) -> logits [batch, actions] over the board's actions (what it says of
illegal ones is ignored), and value [batch] for the player to move."""

NONE = -1  # no node
ROOT = 0


class Tree(NamedTuple):
    """One tree a lane. Slot 0 is the root; parents stand in lower slots than their children."""

    node_visits: jax.Array  # [batch, nodes] int32; 0 in unused slots
    raw_values: jax.Array  # [batch, nodes] what the evaluator said, for the node's player to move
    node_values: jax.Array  # [batch, nodes] mean over all visits, for the node's player to move
    parents: jax.Array  # [batch, nodes] int32
    actions: jax.Array  # [batch, nodes] int32, the move from the parent
    rewards: jax.Array  # [batch, nodes] of that move, for the player who made it
    discounts: jax.Array  # [batch, nodes] of that move: +1 the same player stays on move, -1 not, 0 the end
    terminal: jax.Array  # [batch, nodes] bool, never to be expanded
    children: jax.Array  # [batch, nodes, actions] int32
    prior: jax.Array  # [batch, nodes, actions] in the form that the selection rule wants
    visits: jax.Array  # [batch, nodes, actions] int32
    qvalues: jax.Array  # [batch, nodes, actions] reward + discount * value of the child; 0 if unvisited
    outcomes: jax.Array | None  # [batch, nodes, actions] proven results, NaN if open, -inf if illegal
    states: Any  # [batch, nodes, ...] positions


class Rows(NamedTuple):
    """What a selection rule sees: one node in each tree."""

    node_visits: jax.Array  # [batch] int32
    raw_value: jax.Array  # [batch]
    node_value: jax.Array  # [batch]
    prior: jax.Array  # [batch, actions]
    visits: jax.Array  # [batch, actions] int32
    qvalues: jax.Array  # [batch, actions]
    outcomes: jax.Array | None  # [batch, actions]


class Draws(NamedTuple):
    """The random numbers of one level of a descent; those that nobody asks for cost nothing."""

    base: jax.Array  # [batch] keys of the whole descent
    depth: jax.Array | int  # [] int32, of the node in question

    def keys(self) -> jax.Array:
        """[batch] keys, as mctx splits them: once a level."""

        def next_level(_, keys):
            return split_key(keys, 2)[0]

        return split_key(jax.lax.fori_loop(0, self.depth, next_level, self.base), 2)[1]

    def words(self) -> jax.Array:
        """[batch, 1] uint32, cheaper than keys."""
        words = jax.vmap(lambda key: jax.random.bits(key, (1,), jnp.uint32))(self.base)
        return scramble(words + jnp.asarray(self.depth, jnp.uint32))


SelectionRule = Callable[[Draws, Rows], jax.Array]
"""(draws, rows) -> action [batch] int32."""


class Leaf(NamedTuple):
    """Where a descent ended: at the edge (parent, action), and at `child` if that edge leads somewhere."""

    parent: jax.Array  # [batch] int32
    action: jax.Array  # [batch] int32
    child: jax.Array  # [batch] int32, NONE if the node is yet to be made


def plant(
    game: Game,
    states: GameState,
    prior: jax.Array,
    value: jax.Array,
    legal: jax.Array,
    slots: int,
    solve: bool,
) -> Tree:
    """Trees that hold just their roots.

    Args:
      game: the rules.
      states: [batch, ...] root positions.
      prior: [batch, actions] of the roots.
      value: [batch] of the roots.
      legal: [batch, actions] bool.
      slots: room for nodes, the root included.
      solve: whether to keep proven outcomes.

    Raises:
      TooMuchMemoryError: there is no room for so many nodes.
    """
    batch, num_actions = prior.shape
    check_room(num_actions, batch, slots, solve, memory.size_of(states) // batch)
    over = jax.vmap(game.is_terminal)(states) | ~jnp.any(legal, -1)

    def nodes(fill, dtype, root=None):
        column = jnp.full((batch, slots), fill, dtype)
        return column if root is None else column.at[:, ROOT].set(root)

    def edges(fill, dtype):
        return jnp.full((batch, slots, num_actions), fill, dtype)

    return Tree(
        node_visits=nodes(0, jnp.int32, 1),
        raw_values=nodes(0, value.dtype, value),
        node_values=nodes(0, value.dtype, value),
        parents=nodes(NONE, jnp.int32),
        actions=nodes(NONE, jnp.int32),
        rewards=nodes(0, value.dtype),
        discounts=nodes(0, value.dtype),
        terminal=nodes(False, bool, over),
        children=edges(NONE, jnp.int32),
        prior=edges(0, prior.dtype).at[:, ROOT].set(prior),
        visits=edges(0, jnp.int32),
        qvalues=edges(0, value.dtype),
        outcomes=edges(jnp.nan, value.dtype).at[:, ROOT].set(_open_outcomes(legal)) if solve else None,
        states=jax.tree.map(
            lambda s: jnp.zeros((batch, slots, *s.shape[1:]), s.dtype).at[:, ROOT].set(s), states
        ),
    )


def check_room(num_actions: int, batch: int, slots: int, solve: bool, state_bytes: int = 0) -> None:
    """Raises TooMuchMemoryError unless so many trees of so many nodes fit into memory; see `size`."""
    trees = (
        f"a search tree of {slots:,} nodes"
        if batch == 1
        else f"{batch:,} search trees of {slots:,} nodes each"
    )
    memory.check(size(num_actions, batch, slots, solve, state_bytes), trees)


def size(num_actions: int, batch: int, slots: int, solve: bool, state_bytes: int) -> int:
    """The bytes of trees as `plant` makes them, of positions that take `state_bytes` each."""
    numbers = (7 + (5 if solve else 4) * num_actions) * 4  # of a node, and of its edges
    return batch * slots * (numbers + 1 + state_bytes)


def rows_at(tree: Tree, node: jax.Array) -> Rows:
    """The rows of one node a lane; `node` is [batch]."""
    lane = jnp.arange(node.shape[0])
    return Rows(
        node_visits=tree.node_visits[lane, node],
        raw_value=tree.raw_values[lane, node],
        node_value=tree.node_values[lane, node],
        prior=tree.prior[lane, node],
        visits=tree.visits[lane, node],
        qvalues=tree.qvalues[lane, node],
        outcomes=None if tree.outcomes is None else tree.outcomes[lane, node],
    )


def root_rows(tree: Tree) -> Rows:
    """The rows of the roots, without a gather."""
    return Rows(
        node_visits=tree.node_visits[:, ROOT],
        raw_value=tree.raw_values[:, ROOT],
        node_value=tree.node_values[:, ROOT],
        prior=tree.prior[:, ROOT],
        visits=tree.visits[:, ROOT],
        qvalues=tree.qvalues[:, ROOT],
        outcomes=None if tree.outcomes is None else tree.outcomes[:, ROOT],
    )


def descend(
    tree: Tree, key: jax.Array, root_rule: SelectionRule, rule: SelectionRule, max_depth: int
) -> Leaf:
    """Follows the rules from the root to an edge without a child, a terminal node, or `max_depth` edges."""
    batch = tree.node_visits.shape[0]
    lane = jnp.arange(batch)

    def descending(leaf, depth):
        child = jnp.maximum(leaf.child, ROOT)
        return (leaf.child != NONE) & ~tree.terminal[lane, child] & (depth < max_depth)

    def any_descending(carry):
        _, _, going = carry
        return jnp.any(going)

    def one_level(carry):
        leaf, depth, going = carry
        node = jnp.where(going, leaf.child, leaf.parent)
        action = jnp.where(going, rule(Draws(keys, depth), rows_at(tree, node)), leaf.action)
        leaf = Leaf(node, action, tree.children[lane, node, action])
        return leaf, depth + 1, going & descending(leaf, depth + 1)

    keys = key if key.ndim else jax.random.split(key, batch)
    action = root_rule(Draws(keys, 0), root_rows(tree))
    leaf = Leaf(jnp.full(batch, ROOT), action, tree.children[lane, ROOT, action])
    start = (leaf, jnp.int32(1), descending(leaf, 1))
    leaf, _, _ = jax.lax.while_loop(any_descending, one_level, start)
    return leaf


def grow(
    tree: Tree,
    leaf: Leaf,
    slot: jax.Array,
    live: jax.Array,
    game: Game,
    evaluate: Callable[[GameState], tuple[jax.Array, jax.Array, jax.Array]],
    evaluate_terminals_with_network: bool,
) -> tuple[Tree, jax.Array, jax.Array]:
    """Plays the leaf's move, evaluates the position, and stores it in `slot` where it is new.

    A position that the edge has led to before (a leaf at the depth limit, or one that `subtree` dropped) goes
    on from the edge's mean, so that fresh playouts there are averaged. If the evaluator always says the same
    that changes nothing, not even a bit.

    Args:
      leaf: from `descend`.
      slot: [] int32, the same free slot in every tree.
      live: [batch] bool; the trees of other lanes stay as they are.
      game: the rules.
      evaluate: states -> (prior, value, legal action mask).
      evaluate_terminals_with_network: see `azjax.search.puct`.

    Returns:
      The trees, [batch] the node to back up from (the root where there is nothing to do), and [batch] the
      value to back up.
    """
    lane = jnp.arange(live.shape[0])
    before = jax.tree.map(lambda s: s[lane, leaf.parent], tree.states)
    states = jax.vmap(game.step)(before, leaf.action)
    over = jax.vmap(game.is_terminal)(states)
    prior, value, legal = evaluate(states)
    mover = before.current_player
    sign = jnp.where(states.current_player == mover, 1.0, -1.0).astype(value.dtype)
    if evaluate_terminals_with_network:
        reward, discount = jnp.zeros_like(value), sign
    else:
        reward = jnp.where(over, jax.vmap(game.rewards)(states)[lane, mover], 0.0).astype(value.dtype)
        discount = jnp.where(over, 0.0, sign)
        value = jnp.where(over, 0.0, value)

    # The edge's mean for the new player to move: a reward comes only with the end, where the discount is 0.
    mean = discount * tree.qvalues[lane, leaf.parent, leaf.action]
    visits = tree.visits[lane, leaf.parent, leaf.action]
    mean = mean + (value - mean) / (visits + 1.0)
    is_new = live & (leaf.child == NONE)

    def put(column, new):
        return jax.lax.dynamic_update_index_in_dim(column, new.astype(column.dtype), slot, axis=1)

    # A slot whose lane made no node is written as well (that is far cheaper than a scatter), but it stays
    # unvisited, and no child index points at it.
    tree = tree._replace(
        node_visits=put(tree.node_visits, jnp.where(is_new, visits + 1, 0)),
        raw_values=put(tree.raw_values, value),
        node_values=put(tree.node_values, mean),
        parents=put(tree.parents, jnp.where(is_new, leaf.parent, NONE)),
        actions=put(tree.actions, jnp.where(is_new, leaf.action, NONE)),
        rewards=put(tree.rewards, reward),
        discounts=put(tree.discounts, discount),
        terminal=put(tree.terminal, over),
        children=tree.children.at[lane, jnp.where(is_new, leaf.parent, _beyond(tree)), leaf.action].set(
            slot, mode="drop"
        ),
        prior=put(tree.prior, prior),
        outcomes=None if tree.outcomes is None else put(tree.outcomes, _open_outcomes(legal)),
        states=jax.tree.map(put, tree.states, states),
    )
    revisited = jnp.where(live & ~is_new, leaf.child, _beyond(tree))
    tree = tree._replace(
        node_visits=tree.node_visits.at[lane, revisited].set(visits + 1, mode="drop"),
        node_values=tree.node_values.at[lane, revisited].set(mean, mode="drop"),
    )
    node = jnp.where(is_new, slot, jnp.where(live, leaf.child, ROOT))
    return tree, node, value


def backup(tree: Tree, node: jax.Array, value: jax.Array) -> Tree:
    """Carries a new value of a node a lane up to the root; lanes whose node is the root do nothing.

    Args:
      node: [batch], whose own mean holds the value already.
      value: [batch] for the node's player to move.
    """
    lane = jnp.arange(node.shape[0])

    def any_below_root(carry):
        node, *_ = carry
        return jnp.any(node != ROOT)

    def one_level(carry):
        node, value, mean, node_visits, node_values, visits, qvalues = carry
        below = node != ROOT
        parent = jnp.where(below, tree.parents[lane, node], ROOT)
        target = jnp.where(below, parent, _beyond(tree))
        action = tree.actions[lane, node]
        reward, discount = tree.rewards[lane, node], tree.discounts[lane, node]
        qvalue = reward + discount * mean
        value = reward + discount * value
        count = node_visits[lane, parent]
        mean = (node_values[lane, parent] * count + value) / (count + 1.0)
        return (
            parent,
            value,
            mean,
            node_visits.at[lane, target].set(count + 1, mode="drop"),
            node_values.at[lane, target].set(mean, mode="drop"),
            visits.at[lane, target, action].add(1, mode="drop"),
            qvalues.at[lane, target, action].set(qvalue, mode="drop"),
        )

    mean = tree.node_values[lane, node]
    carry = (node, value, mean, tree.node_visits, tree.node_values, tree.visits, tree.qvalues)
    *_, node_visits, node_values, visits, qvalues = jax.lax.while_loop(any_below_root, one_level, carry)
    return tree._replace(node_visits=node_visits, node_values=node_values, visits=visits, qvalues=qvalues)


def prove(tree: Tree, node: jax.Array, max_reward: float) -> Tree:
    """MCTS-Solver: carries the result of a terminal node up as far as it decides anything.

    A position is decided when one move reaches the best reward there is, or when every legal move is
    decided. Lanes whose node is the root or not terminal do nothing.

    Args:
      node: [batch].
      max_reward: the best result the game can have; a move that reaches it needs no comparison.
    """
    lane = jnp.arange(node.shape[0])

    def any_deciding(carry):
        _, _, deciding, _, _ = carry
        return jnp.any(deciding)

    def one_level(carry):
        node, result, deciding, outcomes, qvalues = carry  # result: for the player to move in `node`
        parent = jnp.where(deciding, tree.parents[lane, node], ROOT)
        target = jnp.where(deciding, parent, _beyond(tree))
        action = tree.actions[lane, node]
        result = tree.rewards[lane, node] + tree.discounts[lane, node] * result
        outcomes = outcomes.at[lane, target, action].set(result, mode="drop")
        qvalues = qvalues.at[lane, target, action].set(result, mode="drop")
        siblings = outcomes[lane, parent]
        best = jnp.max(jnp.where(jnp.isnan(siblings), -jnp.inf, siblings), -1)
        decided = (best >= max_reward) | ~jnp.any(jnp.isnan(siblings), -1)
        return parent, best, deciding & decided & (parent != ROOT), outcomes, qvalues

    deciding = (node != ROOT) & tree.terminal[lane, node]
    carry = (node, jnp.zeros(node.shape), deciding, tree.outcomes, tree.qvalues)
    _, _, _, outcomes, qvalues = jax.lax.while_loop(any_deciding, one_level, carry)
    return tree._replace(outcomes=outcomes, qvalues=qvalues)


def root_outcome(tree: Tree, max_reward: float) -> tuple[jax.Array, jax.Array]:
    """Whether each root is proven, and its best proven result: [batch] bool, [batch]."""
    outcomes = tree.outcomes[:, ROOT]
    best = jnp.max(jnp.where(jnp.isnan(outcomes), -jnp.inf, outcomes), -1)
    return (best >= max_reward) | ~jnp.any(jnp.isnan(outcomes), -1), best


def subtree(tree: Tree, action: jax.Array, kept: int) -> tuple[Tree, jax.Array]:
    """The trees below a root move, moved to the first `kept` slots; the rest is empty.

    Nodes that find no room are dropped, newest first, so parents always stay; the edge into a dropped
    node keeps its statistics, and the node is made anew when it is next visited.

    Args:
      action: [batch] the move played at the root.
      kept: slots for old nodes, the new root included.

    Returns:
      The trees, and [batch] bool: whether the move had been expanded. Other lanes hold nonsense.
    """
    batch, slots = tree.node_visits.shape
    lane = jnp.arange(batch)[:, None]
    child = tree.children[jnp.arange(batch), ROOT, action]
    found = child != NONE
    own = jnp.arange(slots)[None]

    # Pointer doubling: after k rounds `top` is 2^k parents up, or the new root if that came first.
    new_root = jnp.maximum(child, ROOT)[:, None]
    top = jnp.where((own == new_root) | (tree.parents == NONE), own, tree.parents)
    for _ in range(max(1, (slots - 1).bit_length())):
        top = top[lane, top]
    keep = (top == new_root) & (tree.node_visits > 0)

    place = jnp.where(keep, jnp.cumsum(keep, 1) - 1, slots)  # [batch, slots] old slot -> new slot
    place = jnp.where(place < kept, place, slots)
    source = (
        jnp.full((batch, kept), slots).at[lane, place].set(jnp.broadcast_to(own, place.shape), mode="drop")
    )
    used = source < slots
    moved_to = jnp.concatenate([jnp.where(place < slots, place, NONE), jnp.full((batch, 1), NONE)], 1)

    def compact(column, empty):
        rows = column[lane, jnp.minimum(source, slots - 1)]
        rows = jnp.where(used.reshape(used.shape + (1,) * (rows.ndim - 2)), rows, empty).astype(column.dtype)
        rest = jnp.full((batch, slots - kept, *column.shape[2:]), empty, column.dtype)
        return jnp.concatenate([rows, rest], 1)

    def renumber(indices):  # -1 looks up the last column, which is NONE
        flat = indices.reshape(batch, -1)
        return moved_to[lane, flat].reshape(indices.shape).astype(jnp.int32)

    return tree._replace(
        node_visits=compact(tree.node_visits, 0),
        raw_values=compact(tree.raw_values, 0),
        node_values=compact(tree.node_values, 0),
        parents=renumber(compact(tree.parents, NONE)).at[:, ROOT].set(NONE),
        actions=compact(tree.actions, NONE).at[:, ROOT].set(NONE),
        rewards=compact(tree.rewards, 0),
        discounts=compact(tree.discounts, 0),
        terminal=compact(tree.terminal, False),
        children=renumber(compact(tree.children, NONE)),
        prior=compact(tree.prior, 0),
        visits=compact(tree.visits, 0),
        qvalues=compact(tree.qvalues, 0),
        outcomes=None if tree.outcomes is None else compact(tree.outcomes, jnp.nan),
        states=jax.tree.map(lambda s: compact(s, 0), tree.states),
    ), found


def split_key(key: jax.Array, parts: int) -> tuple[jax.Array, ...]:
    """Splits one key, or each key of a batch."""
    if key.ndim == 0:
        return tuple(jax.random.split(key, parts))
    split = jax.vmap(lambda one: jax.random.split(one, parts))(key)
    return tuple(split[:, part] for part in range(parts))


def first_max(scores: jax.Array) -> jax.Array:
    """[batch] int32, as `jnp.argmax(scores, -1)`, in two passes that vectorise on a CPU."""
    number = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    is_best = scores == max_of_row(scores)[..., None]
    return -max_of_row(jnp.where(is_best, -number, 1 - scores.shape[-1]))


def max_of_row(x: jax.Array) -> jax.Array:
    """`jnp.max(x, -1)`, folded to 16 columns first: XLA:CPU reduces rows of more than 32 one by one.

    For cheap elementwise rows only: what a slice does not need of anything else may be computed for each.
    """
    columns, width = x.shape[-1], 16
    if columns > 2 * width:
        starts = (min(start, columns - width) for start in range(0, columns, width))
        x = functools.reduce(jnp.maximum, (x[..., start : start + width] for start in starts))
    return jnp.max(x, -1)


def _open_outcomes(legal: jax.Array) -> jax.Array:
    return jnp.where(legal, jnp.nan, -jnp.inf)


def _beyond(tree: Tree) -> int:
    # An index that scatters with mode="drop" ignore.
    return tree.node_visits.shape[1]
