"""Batched search trees: walk down, add a leaf, carry its value up, keep a subtree.

The same trees as mctx grows, bit for bit, in loops that touch only the visited rows: mctx carries the
whole tree through a vmapped loop, so that each level of a backup costs as much as the tree is large.
Here a batch descends and backs up together, and lanes that are done write out of range, where writes
are dropped. A game's position knows who is to move, so every edge has its own sign.

On accelerators, where writing single numbers is slow (see `azjax.envs.indexing`), no edge is written while a tree
grows. What an edge knows is what the node below it knows, so `_edge_rows` reads it there. The tables of edges then say
what they said before the search, about nodes that `subtree` found no room for, and `with_tables` writes them when it
is over.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from azjax.common import memory
from azjax.envs import indexing
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
        """[batch] keys, as mctx splits them: once per level."""

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


def rows_at(tree: Tree, node: jax.Array, new: bool = False) -> Rows:
    """The rows of one node per lane.

    Args:
      node: [batch].
      new: the trees held just their roots when the search began.
    """
    visits, qvalues = _edge_rows(tree, node, new)
    return Rows(
        node_visits=_at(tree.node_visits, node),
        raw_value=_at(tree.raw_values, node),
        node_value=_at(tree.node_values, node),
        prior=_at(tree.prior, node),
        visits=visits,
        qvalues=qvalues,
        outcomes=None if tree.outcomes is None else _at(tree.outcomes, node),
    )


def root_rows(tree: Tree, new: bool = False) -> Rows:
    """The rows of the roots, without a gather; for `new` see `rows_at`."""

    def of_tables(tree):
        return tree.visits[:, ROOT], tree.qvalues[:, ROOT]

    def of_nodes(tree):
        return _edge_rows_of_nodes(tree, jnp.full(tree.parents.shape[0], ROOT), new)

    visits, qvalues = indexing.by_platform(tree, cpu=of_tables, accelerator=of_nodes)
    return Rows(
        node_visits=tree.node_visits[:, ROOT],
        raw_value=tree.raw_values[:, ROOT],
        node_value=tree.node_values[:, ROOT],
        prior=tree.prior[:, ROOT],
        visits=visits,
        qvalues=qvalues,
        outcomes=None if tree.outcomes is None else tree.outcomes[:, ROOT],
    )


@jax.named_scope("descent")
def descend(
    tree: Tree,
    key: jax.Array,
    root_rule: SelectionRule,
    rule: SelectionRule,
    max_depth: int,
    new: bool = False,
) -> Leaf:
    """Follows the rules from the root to an edge without a child, a terminal node, or `max_depth` edges.

    For `new` see `rows_at`.
    """
    batch = tree.node_visits.shape[0]

    def descending(leaf, depth):
        child = jnp.maximum(leaf.child, ROOT)
        return (leaf.child != NONE) & ~_at(tree.terminal, child) & (depth < max_depth)

    def any_descending(carry):
        _, _, going = carry
        return jnp.any(going)

    def one_level(carry):
        leaf, depth, going = carry
        node = jnp.where(going, leaf.child, leaf.parent)
        action = jnp.where(going, rule(Draws(keys, depth), rows_at(tree, node, new)), leaf.action)
        leaf = Leaf(node, action, _child(tree, node, action))
        return leaf, depth + 1, going & descending(leaf, depth + 1)

    keys = key if key.ndim else jax.random.split(key, batch)
    action = root_rule(Draws(keys, 0), root_rows(tree, new))
    root = jnp.full(batch, ROOT)
    leaf = Leaf(root, action, _child(tree, root, action))
    start = (leaf, jnp.int32(1), descending(leaf, 1))
    leaf, _, _ = jax.lax.while_loop(any_descending, one_level, start)
    return leaf


@jax.named_scope("growth")
def grow(
    tree: Tree,
    leaf: Leaf,
    slot: jax.Array,
    live: jax.Array,
    game: Game,
    evaluate: Callable[[GameState], tuple[jax.Array, jax.Array, jax.Array]],
    evaluate_terminals_with_network: bool,
    new: bool = False,
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
      new: see `rows_at`.

    Returns:
      The trees, [batch] the node to back up from (the root where there is nothing to do), and [batch] the
      value to back up.
    """
    before = jax.tree.map(lambda s: _at(s, leaf.parent), tree.states)
    with jax.named_scope("rules"):
        states = jax.vmap(game.step)(before, leaf.action)
        over = jax.vmap(game.is_terminal)(states)
    prior, value, legal = evaluate(states)
    mover = before.current_player
    sign = jnp.where(states.current_player == mover, 1.0, -1.0).astype(value.dtype)
    if evaluate_terminals_with_network:
        reward, discount = jnp.zeros_like(value), sign
    else:
        result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), mover)
        reward = jnp.where(over, result, 0.0).astype(value.dtype)
        discount = jnp.where(over, 0.0, sign)
        value = jnp.where(over, 0.0, value)

    # The edge's mean for the new player to move: a reward comes only with the end, where the discount is 0.
    visits, qvalue = _edge(tree, leaf, new)
    mean = discount * qvalue
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
        children=_put_edge(tree.children, jnp.where(is_new, leaf.parent, _beyond(tree)), leaf.action, slot),
        prior=put(tree.prior, prior),
        outcomes=None if tree.outcomes is None else put(tree.outcomes, _open_outcomes(legal)),
        states=jax.tree.map(put, tree.states, states),
    )
    revisited = jnp.where(live & ~is_new, leaf.child, _beyond(tree))
    tree = tree._replace(
        node_visits=_put(tree.node_visits, revisited, visits + 1),
        node_values=_put(tree.node_values, revisited, mean),
    )
    node = jnp.where(is_new, slot, jnp.where(live, leaf.child, ROOT))
    return tree, node, value


@jax.named_scope("backup")
def backup(tree: Tree, node: jax.Array, value: jax.Array) -> Tree:
    """Carries a new value of a node a lane up to the root; lanes whose node is the root do nothing.

    Args:
      node: [batch], whose own mean holds the value already.
      value: [batch] for the node's player to move.
    """

    def any_below_root(carry):
        node, *_ = carry
        return jnp.any(node != ROOT)

    def one_level(carry):
        node, value, mean, node_visits, node_values, visits, qvalues = carry
        below = node != ROOT
        parent = jnp.where(below, _at(tree.parents, node), ROOT)
        target = jnp.where(below, parent, _beyond(tree))
        action = _at(tree.actions, node)
        reward, discount = _at(tree.rewards, node), _at(tree.discounts, node)
        qvalue = reward + discount * mean
        value = reward + discount * value
        count = _at(node_visits, parent)
        mean = (_at(node_values, parent) * count + value) / (count + 1.0)
        return (
            parent,
            value,
            mean,
            _put(node_visits, target, count + 1),
            _put(node_values, target, mean),
            _count_edge(visits, target, action),
            _put_edge(qvalues, target, action, qvalue),
        )

    mean = _at(tree.node_values, node)
    carry = (node, value, mean, tree.node_visits, tree.node_values, tree.visits, tree.qvalues)
    *_, node_visits, node_values, visits, qvalues = jax.lax.while_loop(any_below_root, one_level, carry)
    return tree._replace(node_visits=node_visits, node_values=node_values, visits=visits, qvalues=qvalues)


@jax.named_scope("backup")
def prove(tree: Tree, node: jax.Array, max_reward: float) -> Tree:
    """MCTS-Solver: carries the result of a terminal node up as far as it decides anything.

    A position is decided when one move reaches the best reward there is, or when every legal move is
    decided. Lanes whose node is the root or not terminal do nothing.

    Args:
      node: [batch].
      max_reward: the best result the game can have; a move that reaches it needs no comparison.
    """

    def any_deciding(carry):
        _, _, deciding, _, _ = carry
        return jnp.any(deciding)

    def one_level(carry):
        node, result, deciding, outcomes, qvalues = carry  # result: for the player to move in `node`
        parent = jnp.where(deciding, _at(tree.parents, node), ROOT)
        target = jnp.where(deciding, parent, _beyond(tree))
        action = _at(tree.actions, node)
        result = _at(tree.rewards, node) + _at(tree.discounts, node) * result
        outcomes = _put_outcome(outcomes, target, action, result)
        qvalues = _put_edge(qvalues, target, action, result)
        siblings = _at(outcomes, parent)
        best = jnp.max(jnp.where(jnp.isnan(siblings), -jnp.inf, siblings), -1)
        decided = (best >= max_reward) | ~jnp.any(jnp.isnan(siblings), -1)
        return parent, best, deciding & decided & (parent != ROOT), outcomes, qvalues

    deciding = (node != ROOT) & _at(tree.terminal, node)
    carry = (node, jnp.zeros(node.shape), deciding, tree.outcomes, tree.qvalues)
    _, _, _, outcomes, qvalues = jax.lax.while_loop(any_deciding, one_level, carry)
    return tree._replace(outcomes=outcomes, qvalues=qvalues)


def with_tables(tree: Tree, new: bool = False) -> Tree:
    """The tree with all that its edges know in their tables; what nobody asks for is not computed.

    On a CPU it stands there already. For `new` see `rows_at`.
    """
    batch, slots = tree.parents.shape

    def of_nodes(tree):
        def one_node(number):
            node = jnp.full(batch, number)
            children = _over(tree, node, [jnp.broadcast_to(jnp.arange(slots), (batch, slots))])[0]
            return jnp.where(children > 0, children, NONE), *_edge_rows_of_nodes(tree, node, new)

        tables = jax.lax.map(one_node, jnp.arange(slots))
        return tuple(jnp.moveaxis(table, 0, 1) for table in tables)

    children, visits, qvalues = indexing.by_platform(
        tree, cpu=lambda tree: (tree.children, tree.visits, tree.qvalues), accelerator=of_nodes
    )
    return tree._replace(children=children, visits=visits, qvalues=qvalues)


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

    place = jnp.where(keep, jnp.cumsum(keep, axis=1) - 1, slots)  # [batch, slots] old slot -> new slot
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
    """[batch] int32, as `jnp.argmax(scores, -1)`, in two passes that vectorise everywhere."""
    number = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    is_best = scores == max_of_row(scores)[..., None]
    return -max_of_row(jnp.where(is_best, -number, 1 - scores.shape[-1]))


def max_of_row(x: jax.Array) -> jax.Array:
    """`jnp.max(x, -1)`, on a CPU folded to 16 columns first: XLA:CPU reduces rows of more than 32 one by one.

    For cheap elementwise rows only: what a slice does not need of anything else may be computed for each.
    """
    columns, width = x.shape[-1], 16

    def folded(x):
        starts = (min(start, columns - width) for start in range(0, columns, width))
        return jnp.max(functools.reduce(jnp.maximum, (x[..., start : start + width] for start in starts)), -1)

    if columns <= 2 * width:
        return jnp.max(x, -1)
    return indexing.by_platform(x, cpu=folded, accelerator=lambda x: jnp.max(x, -1))


def _at(column: jax.Array, node: jax.Array) -> jax.Array:
    """[batch, ...] what a column [batch, nodes, ...] says of one node per lane; rows are indexed everywhere."""

    def indexed(column, node):
        return column[jnp.arange(node.shape[0]), node]

    if column.ndim > 2 or jax.dtypes.issubdtype(column.dtype, jax.dtypes.extended):
        return indexed(column, node)
    return indexing.by_platform(column, node, cpu=indexed, accelerator=jax.vmap(indexing.take_by_mask))


def _put(column: jax.Array, node: jax.Array, new: jax.Array) -> jax.Array:
    """Writes [batch] numbers into a column [batch, nodes]; a node that is `_beyond` is no place."""
    return indexing.by_platform(
        column,
        node,
        new.astype(column.dtype),
        cpu=lambda column, node, new: column.at[jnp.arange(node.shape[0]), node].set(new, mode="drop"),
        accelerator=jax.vmap(indexing.put_by_mask),
    )


def _put_edge(table: jax.Array, node: jax.Array, action: jax.Array, new: jax.Array) -> jax.Array:
    """Writes one edge per lane into a table [batch, nodes, actions]; accelerators leave that to `with_tables`."""
    return indexing.by_platform(
        table,
        node,
        action,
        jnp.asarray(new, table.dtype),
        cpu=lambda table, node, action, new: table.at[jnp.arange(node.shape[0]), node, action].set(
            new, mode="drop"
        ),
        accelerator=lambda table, node, action, new: table,
    )


def _count_edge(visits: jax.Array, node: jax.Array, action: jax.Array) -> jax.Array:
    """One more visit to one edge per lane, like `_put_edge`."""
    return indexing.by_platform(
        visits,
        node,
        action,
        cpu=lambda visits, node, action: visits.at[jnp.arange(node.shape[0]), node, action].add(
            1, mode="drop"
        ),
        accelerator=lambda visits, node, action: visits,
    )


def _put_outcome(outcomes: jax.Array, node: jax.Array, action: jax.Array, result: jax.Array) -> jax.Array:
    """Writes the results of one edge per lane, which no node keeps; accelerators write the row."""
    lane = jnp.arange(node.shape[0])

    def by_row(outcomes, node, action, result):
        row = jax.vmap(indexing.put_by_mask)(outcomes.at[lane, node].get(mode="clip"), action, result)
        return outcomes.at[lane, node].set(row, mode="drop", unique_indices=True)

    return indexing.by_platform(
        outcomes,
        node,
        action,
        result,
        cpu=lambda outcomes, node, action, result: outcomes.at[lane, node, action].set(result, mode="drop"),
        accelerator=by_row,
    )


def _child(tree: Tree, node: jax.Array, action: jax.Array) -> jax.Array:
    """[batch] int32, where one edge per lane leads; NONE if nowhere yet."""

    def of_nodes(tree, node, action):
        is_it = (tree.parents == node[:, None]) & (tree.actions == action[:, None])
        return jnp.max(jnp.where(is_it, jnp.arange(is_it.shape[1], dtype=jnp.int32), NONE), 1)

    return indexing.by_platform(
        tree,
        node,
        action,
        cpu=lambda tree, node, action: tree.children[jnp.arange(node.shape[0]), node, action],
        accelerator=of_nodes,
    )


def _edge(tree: Tree, leaf: Leaf, new: bool) -> tuple[jax.Array, jax.Array]:
    """Visits and Q [batch] of one edge per lane; Q is seen from its parent."""

    def of_tables(tree, leaf):
        place = jnp.arange(leaf.parent.shape[0]), leaf.parent, leaf.action
        return tree.visits[place], tree.qvalues[place]

    def of_nodes(tree, leaf):
        leads_somewhere, child = leaf.child != NONE, jnp.maximum(leaf.child, ROOT)
        visits, qvalue = _at(tree.node_visits, child), _at(_seen_from_above(tree), child)
        before = jnp.zeros_like(visits), jnp.zeros_like(qvalue)
        if not new:
            rows = _at(tree.visits, leaf.parent), _at(tree.qvalues, leaf.parent)
            before = tuple(jax.vmap(indexing.take_by_mask)(row, leaf.action) for row in rows)
        return jnp.where(leads_somewhere, visits, before[0]), jnp.where(leads_somewhere, qvalue, before[1])

    return indexing.by_platform(tree, leaf, cpu=of_tables, accelerator=of_nodes)


def _edge_rows(tree: Tree, node: jax.Array, new: bool) -> tuple[jax.Array, jax.Array]:
    """Visits and Q [batch, actions] of the edges below one node per lane."""
    return indexing.by_platform(
        tree,
        node,
        cpu=lambda tree, node: (_at(tree.visits, node), _at(tree.qvalues, node)),
        accelerator=functools.partial(_edge_rows_of_nodes, new=new),
    )


def _edge_rows_of_nodes(tree: Tree, node: jax.Array, new: bool) -> tuple[jax.Array, jax.Array]:
    """`_edge_rows`, read off the nodes below; where there is none, off the tables."""
    visits, qvalues = _over(tree, node, [tree.node_visits, _seen_from_above(tree)])
    if not new:
        leads_somewhere = visits > 0
        visits = jnp.where(leads_somewhere, visits, _at(tree.visits, node))
        qvalues = jnp.where(leads_somewhere, qvalues, _at(tree.qvalues, node))
    if tree.outcomes is not None:  # a proven move has no mean but a result
        outcomes = _at(tree.outcomes, node)
        qvalues = jnp.where(jnp.isnan(outcomes) | (outcomes == -jnp.inf), qvalues, outcomes)
    return visits, qvalues


def _seen_from_above(tree: Tree) -> jax.Array:
    """[batch, nodes] the mean of each node, for the player who moved there."""
    return tree.rewards + tree.discounts * tree.node_values


def _over(tree: Tree, node: jax.Array, columns: list[jax.Array]) -> list[jax.Array]:
    """Each column [batch, nodes] spread over the edges [batch, actions] of one node per lane; 0 where none leads on.

    Every edge is the sum over all nodes, of which one at most stands below it. The lanes stand last: so the sums run
    over whole registers of a TPU, a fifth of the cycles.
    """
    move = jnp.where(tree.parents == node[:, None], tree.actions, NONE).T  # [nodes, batch]
    stands_below = move[:, None] == jnp.arange(tree.prior.shape[2], dtype=jnp.int32)[:, None]

    def spread(column):
        words = indexing.to_words(column)
        summed = jnp.sum(jnp.where(stands_below, words.T[:, None], 0), 0, words.dtype)
        return indexing.from_words(summed.T, column.dtype)

    return [spread(column) for column in columns]


def _open_outcomes(legal: jax.Array) -> jax.Array:
    return jnp.where(legal, jnp.nan, -jnp.inf)


def _beyond(tree: Tree) -> int:
    # An index that scatters with mode="drop" ignore.
    return tree.node_visits.shape[1]
