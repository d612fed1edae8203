"""What every search is, and what they share: the loop of simulations, masks, and how an answer is read off a tree.

A `Search` is a pure function (params, key, states) -> SearchOutput. Positions of any rhythm are welcome (a player may
move twice in a row), lanes whose game is over come back clean, and nothing explores unless asked to: noise is for
self-play, so it is off by default.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx

from azjax.common.legality import mask_logits
from azjax.common.remembered import remembered
from azjax.envs import indexing
from azjax.envs.core import Game, GameState
from azjax.search import tree as trees
from azjax.search.tree import AnyParams, Evaluator, Rows, Tree, first_max

ILLEGAL_PRIOR = -1.0  # a probability, not a logit: unlike 0 it cannot come from rounding


class SearchOutput(NamedTuple):
    """What a search found in each position, seen by the player to move there."""

    action: jax.Array  # [batch] int32, the move to play; 0 where the game is over
    policy: jax.Array  # [batch, actions] the improved policy; all zero where the game is over
    value: jax.Array  # [batch] of the position; its result where the game is over
    visits: jax.Array  # [batch, actions] int32
    qvalues: jax.Array  # [batch, actions]; 0 where unvisited
    proven: jax.Array  # [batch] bool, whether `value` is exact
    complete: jax.Array  # [batch] bool, False for the quick searches of `playout_cap`


class Search(Protocol):
    """A search over a batch of positions."""

    def __call__(self, params: AnyParams, key: jax.Array, states: GameState) -> SearchOutput:
        """Searches positions [batch, ...].

        One key serves the batch; or give [batch] keys, and (UCT and `playout_cap` apart) each lane draws from its
        own, so that it finds the same in any company.
        """


class ReusingSearch(NamedTuple):
    """A search that keeps its tree from move to move."""

    start: Callable[[AnyParams, jax.Array, GameState], Tree]
    """(params, key, states) -> trees that hold just their roots."""
    search: Callable[..., tuple[SearchOutput, Tree]]
    """(params, key, trees, new=False, fewer=None) -> what was found, and the grown trees. Give it what `start` or
    `advance` gave: a tree that has grown already has no room left. `new=True` says that `start` gave them, which saves
    an accelerator some work. `fewer` may be a traced number of simulations, so that one program makes searches of any
    length up to its own."""
    advance: Callable[[AnyParams, jax.Array, Tree, jax.Array, GameState], Tree]
    """(params, key, trees, actions, next states) -> the subtrees of the moves played; a lane whose move was
    never looked at, or whose next state is not the move's (a new game), starts anew."""
    search_on: Callable[[AnyParams, jax.Array, Tree, jax.Array], tuple[SearchOutput, Tree]]
    """(params, key, trees, slot) -> as `search`, but the new nodes go to the slots from `slot` [] int32 on, which must
    be free: so a tree that has grown already grows on, until its slots are used up."""


@remembered
def playout_cap(full: Search, quick: Search, full_share: float) -> Search:
    """Playout-cap randomisation (Wu 2019): most moves get a quick search, some a full one.

    A batch moves in step, so one draw decides for the whole batch. `complete` tells the two apart: only full
    searches make good policy targets.

    Args:
      full: the search worth learning from.
      quick: the cheaper one; give it no noise.
      full_share: how often the full one is used, 0 to 1.
    """
    check_share(full_share=full_share)

    def search(params: AnyParams, key: jax.Array, states: GameState) -> SearchOutput:
        key, coin_key = trees.split_key(key, 2)
        is_full = jax.random.bernoulli(one_key(coin_key), full_share)
        output = jax.lax.cond(is_full, full, quick, params, key, states)
        return output._replace(complete=output.complete & is_full)

    return search


def simulate(
    tree: Tree,
    params: AnyParams,
    key: jax.Array,
    game: Game,
    evaluate_node: Callable,
    root_rule: trees.SelectionRule,
    rule: trees.SelectionRule,
    first_slot: jax.Array | int,
    simulations: int | jax.Array,
    max_depth: int | None,
    evaluate_terminals_with_network: bool,
    max_reward: float = 1.0,
    new: bool = False,
) -> tuple[Tree, Rows]:
    """Runs the simulations; the node of simulation i goes to slot `first_slot` + i.

    Returns:
      The trees, and what is known of their roots: ask this rather than the trees' tables, which accelerators have to
      make first. For `new` see `trees.rows_at`.
    """
    depth = tree.node_visits.shape[1] if max_depth is None else max_depth
    solve = tree.outcomes is not None
    playable = ~tree.terminal[:, trees.ROOT]

    def live_lanes(tree):
        if not solve:
            return playable
        proven, _ = trees.root_outcome(tree, max_reward)
        return playable & ~proven

    def unfinished(carry):
        simulation, _, live, _ = carry
        return (simulation < simulations) & jnp.any(live)

    def one_simulation(carry):
        simulation, key, live, tree = carry
        key, descend_key, evaluate_key = trees.split_key(key, 3)
        leaf = trees.descend(tree, descend_key, root_rule, rule, depth, new)
        tree, node, value = trees.grow(
            tree,
            leaf,
            first_slot + simulation,
            live,
            game,
            functools.partial(evaluate_node, params, evaluate_key),
            evaluate_terminals_with_network,
            new,
        )
        tree = trees.backup(tree, node, value)
        if solve:
            tree = trees.prove(tree, node, max_reward)
        return simulation + 1, key, live_lanes(tree), tree

    start = (jnp.int32(0), key, live_lanes(tree), tree)
    if solve:
        *_, tree = jax.lax.while_loop(unfinished, one_simulation, start)
    else:  # accelerators do better when they know how long a loop is
        *_, tree = jax.lax.fori_loop(0, simulations, lambda _, carry: one_simulation(carry), start)
    return trees.with_tables(tree, new), trees.root_rows(tree, new)


def evaluator_with_logits(game: Game, evaluate: Evaluator) -> Callable:
    """(params, key, states) -> logits with illegal actions masked, value, legal mask.

    Where a logit of a legal action is not finite, the value is NaN: the whole search then shows it in the value of its
    root, for no mean forgets a NaN.
    """

    def evaluate_node(params, key, states):
        legal = jax.vmap(game.legal_action_mask)(states)
        logits, value = evaluate(params, key, states)
        chex.assert_shape(
            logits, legal.shape, custom_message="the evaluator must return logits [batch, actions]"
        )
        chex.assert_shape(
            value, legal.shape[:1], custom_message="the evaluator must return one value per position"
        )
        logits = mask_logits(logits, legal)
        value = jnp.where(jnp.all(jnp.isfinite(logits), -1), value.astype(jnp.float32), jnp.nan)
        return logits, value, legal

    return evaluate_node


@jax.named_scope("answer")
def most_visited(game: Game, tree: Tree, rows: Rows, max_reward: float) -> SearchOutput:
    """The answer of PUCT and UCT, of the root's rows: proven wins first, proven losses last, then visits, then Q."""
    states = jax.tree.map(lambda s: s[:, trees.ROOT], tree.states)
    candidates = _legal(rows)
    if tree.outcomes is not None:
        known = jnp.where(jnp.isnan(rows.outcomes), 0.0, rows.outcomes)
        candidates = _keep_best(candidates, known)
    candidates = _keep_best(candidates, rows.visits.astype(jnp.float32))
    action = first_max(jnp.where(candidates, rows.qvalues, -jnp.inf))
    total = jnp.sum(rows.visits, -1, keepdims=True)
    policy = rows.visits / jnp.maximum(total, 1)
    output = collect_output(game, states, tree, rows, action, policy)
    if tree.outcomes is None:
        return output
    proven, result = trees.root_outcome(tree, max_reward)
    over = tree.terminal[:, trees.ROOT]
    # A proven position needs no more visits, so they say nothing: the policy is the decided move.
    decided = jax.nn.one_hot(action, policy.shape[-1])
    return output._replace(
        value=jnp.where(proven & ~over, result, output.value),
        policy=jnp.where((proven & ~over)[:, None], decided, output.policy),
        proven=proven | over,
    )


@jax.named_scope("answer")
def collect_output(
    game: Game, states: GameState, tree: Tree, rows: Rows, action: jax.Array, policy: jax.Array
) -> SearchOutput:
    """Collects the answer; where the game is over, it is the result and no move."""
    over = tree.terminal[:, trees.ROOT]
    result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), states.current_player)
    return SearchOutput(
        action=jnp.where(over, 0, action),
        policy=jnp.where(over[:, None], 0.0, policy),
        value=jnp.where(over, result, rows.node_value),
        visits=rows.visits,
        qvalues=rows.qvalues,
        proven=over,
        complete=jnp.ones_like(over),
    )


def forgetful(reusing: ReusingSearch) -> Search:
    """The same search from a new tree each time."""

    def search_anew(params: AnyParams, key: jax.Array, states: GameState) -> SearchOutput:
        start_key, search_key = trees.split_key(key, 2)
        output, _ = reusing.search(params, search_key, reusing.start(params, start_key, states), new=True)
        return output

    return search_anew


def make_advance(start: Callable, kept: int) -> Callable:
    """The `advance` of a `ReusingSearch`, from its `start` and the nodes that a move leaves in place."""

    def advance(params: AnyParams, key: jax.Array, tree: Tree, action: jax.Array, states: GameState) -> Tree:
        fresh = start(params, key, states)
        below, found = trees.subtree(tree, action, kept)
        for old, new in zip(jax.tree.leaves(below.states), jax.tree.leaves(states)):
            same = old[:, trees.ROOT] == new
            found &= same.reshape(same.shape[0], -1).all(-1)

        def choose(old, new):
            return jnp.where(found.reshape(-1, *(1,) * (old.ndim - 1)), old, new)

        return jax.tree.map(choose, below, fresh)

    return advance


def open_scores(scores: jax.Array, rows: Rows) -> jax.Array:
    """The scores of the legal moves that are not yet proven, -inf for all others."""
    open_moves = _legal(rows) if rows.outcomes is None else _legal(rows) & jnp.isnan(rows.outcomes)
    return jnp.where(open_moves, scores, -jnp.inf)


def as_mctx(rows: Rows, legal: jax.Array | None = None, root_gumbel: jax.Array | None = None) -> mctx.Tree:
    """The rows as mctx trees of one node, for its selection rules and Q-transforms (to be vmapped)."""
    one = functools.partial(jnp.expand_dims, axis=1)
    qvalues = one(rows.qvalues)
    return mctx.Tree(
        node_visits=one(rows.node_visits),
        raw_values=one(rows.raw_value),
        node_values=one(rows.node_value),
        parents=None,
        action_from_parent=None,
        children_index=None,
        children_prior_logits=one(rows.prior),
        children_visits=one(rows.visits),
        children_rewards=jnp.zeros_like(qvalues),
        children_discounts=jnp.ones_like(qvalues),
        children_values=qvalues,
        embeddings=None,
        root_invalid_actions=None if legal is None else (~legal).astype(jnp.float32),
        extra_data=None if root_gumbel is None else mctx.GumbelMuZeroExtraData(root_gumbel=root_gumbel),
    )


def one_key(key: jax.Array) -> jax.Array:
    """The key, or the first of a batch."""
    return key if key.ndim == 0 else key[0]


def check_positive(**numbers: int | None) -> None:
    """Raises ValueError by name for a number below 1; None is no number."""
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")


def check_share(**shares: float) -> None:
    """Raises ValueError by name for a share outside 0 to 1."""
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must be between 0 and 1, got {share}")


def _legal(rows: Rows) -> jax.Array:
    return rows.prior if rows.prior.dtype == bool else rows.prior != ILLEGAL_PRIOR


def _keep_best(candidates: jax.Array, scores: jax.Array) -> jax.Array:
    best = jnp.max(jnp.where(candidates, scores, -jnp.inf), -1, keepdims=True)
    return candidates & (scores == best)
