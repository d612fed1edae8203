"""Monte-Carlo tree search without a network: UCB1, and random games or a given value at the leaves."""

import functools
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from azjax.common import memory
from azjax.common.remembered import remembered
from azjax.envs import indexing
from azjax.envs.core import Game, GameState, random_playout, scramble
from azjax.search import tree as trees
from azjax.search.core import (
    ReusingSearch,
    Search,
    SearchOutput,
    check_positive,
    forgetful,
    make_advance,
    most_visited,
    one_key,
    open_scores,
    simulate,
)
from azjax.search.tree import AnyParams, Draws, Rows, Tree, first_max


@remembered
def uct(game: Game, **options) -> Search:
    """Monte-Carlo tree search without a network; for the options see `reusing_uct`."""
    return forgetful(reusing_uct(game, kept=1, **options))


def reusing_uct(
    game: Game,
    *,
    simulations: int,
    kept: int | None = None,
    c: float = 2.0**0.5,
    playouts: int = 1,
    playout: Callable[[GameState, jax.Array], jax.Array] | None = None,
    leaf_value: Callable[[GameState], jax.Array] | None = None,
    solve: bool = False,
    max_reward: float = 1.0,
    max_depth: int | None = None,
) -> ReusingSearch:
    """Plain MCTS with UCB1, Q + c sqrt(ln N / n), unvisited moves first in random order; params are ignored.

    Args:
      game: the rules.
      simulations: new nodes per search.
      kept: how many nodes survive a move; default as many as there are simulations.
      c: the exploration constant.
      playouts: random games per leaf, averaged; more of them keep an accelerator busy when there are few
        positions.
      playout: (states [batch, ...], key) -> rewards [batch, 2] of games played to the end by whoever shall play them;
        None for random moves.
      leaf_value: states [batch, ...] -> value [batch] for the player to move, instead of playouts; such as
        `distance_value`.
      solve: back up proven results (MCTS-Solver) and search proven moves no more.
      max_reward: the best result of the game, where `solve` may stop comparing.
      max_depth: no node deeper than this many moves.
    """
    check_positive(simulations=simulations, kept=kept, playouts=playouts, max_depth=max_depth)
    kept = simulations if kept is None else kept
    trees.check_room(game.num_actions, 1, kept + simulations, solve)
    memory.check(
        playouts * memory.size_of(jax.eval_shape(game.init, jax.random.key(0))), f"{playouts:,} playouts"
    )

    play_out = functools.partial(random_playout, game) if playout is None else playout

    def evaluate_node(params, key, states):
        del params
        legal = jax.vmap(game.legal_action_mask)(states)
        if leaf_value is not None:
            value = leaf_value(states)
            chex.assert_shape(
                value, legal.shape[:1], custom_message="leaf_value must return one value per position"
            )
            return legal, value, legal
        repeated = jax.tree.map(lambda s: jnp.repeat(s, playouts, axis=0), states)
        rewards = play_out(repeated, one_key(key)).reshape(-1, playouts, 2).mean(1)
        return legal, jax.vmap(indexing.take)(rewards, states.current_player), legal

    def rule(draws: Draws, rows: Rows) -> jax.Array:
        return first_max(open_scores(ucb1_scores(draws.words(), rows, c), rows))

    def start(params: AnyParams, key: jax.Array, states: GameState) -> Tree:
        prior, value, legal = evaluate_node(params, key, states)
        return trees.plant(game, states, prior, value, legal, kept + simulations, solve)

    def search_on(
        params: AnyParams,
        key: jax.Array,
        tree: Tree,
        slot: jax.Array | int,
        new: bool = False,
        fewer: jax.Array | None = None,
    ) -> tuple[SearchOutput, Tree]:
        tree, rows = simulate(
            tree,
            params,
            key,
            game,
            evaluate_node,
            rule,
            rule,
            slot,
            simulations if fewer is None else jnp.minimum(fewer, simulations),
            max_depth,
            False,
            max_reward,
            new,
        )
        return most_visited(game, tree, rows, max_reward), tree

    def search(
        params: AnyParams, key: jax.Array, tree: Tree, new: bool = False, fewer: jax.Array | None = None
    ) -> tuple[SearchOutput, Tree]:
        return search_on(params, key, tree, kept, new, fewer)

    return ReusingSearch(start, search, make_advance(start, kept), search_on)


def ucb1_scores(words: jax.Array, rows: Rows, c: float) -> jax.Array:
    """[batch, actions] of UCB1; unvisited moves come before all others, in an order from `words` [batch, 1]."""
    visits = jnp.maximum(rows.visits, 1)
    bonus = c * jnp.sqrt(jnp.log(rows.node_visits.astype(jnp.float32))[:, None] / visits)
    action = jnp.arange(rows.visits.shape[-1], dtype=jnp.uint32)
    order = scramble(words + (action + 1) * jnp.uint32(0x9E3779B9)) >> 8
    first_visit = 1e6 + order.astype(jnp.float32)
    return jnp.where(rows.visits > 0, rows.qvalues + bonus, first_visit)


@remembered
def distance_value(game: Game) -> Callable[[GameState], jax.Array]:
    """A `leaf_value` for a race: how far the player to move leads, from -1 to 1, which is the game's own `lead`."""
    if not hasattr(game, "lead"):
        raise ValueError(f"{game.name} is no race: distance_value needs a game with a method lead(x)")
    return jax.vmap(game.lead)
