"""Full Gumbel AlphaZero (Danihelka et al. 2022): sequential halving at the root."""

import functools

import jax
import jax.numpy as jnp
import mctx

from azjax.common.legality import mask_logits
from azjax.common.remembered import remembered
from azjax.envs.core import Game, GameState
from azjax.search import tree as trees
from azjax.search.core import (
    Search,
    SearchOutput,
    as_mctx,
    check_positive,
    collect_output,
    evaluator_with_logits,
    simulate,
)
from azjax.search.exploration import draw
from azjax.search.tree import AnyParams, Evaluator, Rows, first_max

# What mctx raises the score of a considered action to at least; not a mask, and needed to choose as mctx does.
_LOWEST_SCORE = -1e9


@remembered
def gumbel(
    game: Game,
    evaluate: Evaluator,
    *,
    simulations: int,
    max_considered_actions: int = 16,
    gumbel_scale: float = 0.0,
    max_depth: int | None = None,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
) -> Search:
    """Full Gumbel AlphaZero (Danihelka et al. 2022): sequential halving at the root.

    Grows the same trees as `mctx.gumbel_muzero_policy`. The policy is softmax(logits + completed Q).

    Args:
      game: the rules.
      evaluate: returns the prior logits and the value of positions.
      simulations: new nodes per search.
      max_considered_actions: how many root actions enter the sequential halving.
      gumbel_scale: 1 in self-play, 0 for the best move.
      max_depth: no node deeper than this many moves.
      value_scale: weight of Q against the logits.
      maxvisit_init: added to the highest visit count in that weight.
    """
    check_positive(
        simulations=simulations, max_considered_actions=max_considered_actions, max_depth=max_depth
    )
    trees.check_room(game.num_actions, 1, simulations + 1, solve=False)
    qtransform = functools.partial(
        mctx.qtransform_completed_by_mix_value, value_scale=value_scale, maxvisit_init=maxvisit_init
    )
    evaluate_node = evaluator_with_logits(game, evaluate)

    def search(params: AnyParams, key: jax.Array, states: GameState) -> SearchOutput:
        root_key, key = trees.split_key(key, 2)
        key, gumbel_key = trees.split_key(key, 2)  # as mctx splits it, so that the trees agree
        prior, value, legal = evaluate_node(params, root_key, states)
        prior = mask_logits(prior - jnp.max(prior, -1, keepdims=True), legal)
        noise = gumbel_scale * draw(jax.random.gumbel, gumbel_key, prior.shape)
        root_select = functools.partial(
            mctx.gumbel_muzero_root_action_selection,
            None,
            node_index=0,
            num_simulations=simulations,
            max_num_considered_actions=max_considered_actions,
            qtransform=qtransform,
        )

        def root_rule(_, rows: Rows) -> jax.Array:
            return jax.vmap(root_select)(as_mctx(rows, legal, noise))

        def rule(_, rows: Rows) -> jax.Array:
            one_node = as_mctx(rows)
            completed = jax.vmap(qtransform, (0, None))(one_node, 0)
            improved = jax.nn.softmax(rows.prior + completed)
            return first_max(improved - rows.visits / (1 + jnp.sum(rows.visits, -1, keepdims=True)))

        tree = trees.plant(game, states, prior, value, legal, simulations + 1, solve=False)
        tree, rows = simulate(
            tree,
            params,
            key,
            game,
            evaluate_node,
            root_rule,
            rule,
            1,
            simulations,
            max_depth,
            evaluate_terminals_with_network=False,
            new=True,
        )
        completed = jax.vmap(qtransform, (0, None))(as_mctx(rows), 0)
        visited_most = rows.visits == jnp.max(rows.visits, -1, keepdims=True)
        score = jnp.maximum(_LOWEST_SCORE, noise + prior + completed)
        action = first_max(jnp.where(visited_most & legal, score, -jnp.inf))
        improved = prior + completed
        improved = improved - jnp.max(improved, -1, keepdims=True)
        policy = jax.nn.softmax(mask_logits(improved, legal))
        return collect_output(game, states, tree, rows, action, policy)

    return search
