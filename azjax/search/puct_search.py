"""AlphaZero's search, with or without the tree kept between moves."""

import jax
import jax.numpy as jnp
import mctx

from azjax.common.remembered import remembered
from azjax.envs import indexing
from azjax.envs.core import Game, GameState
from azjax.search import tree as trees
from azjax.search.core import (
    ILLEGAL_PRIOR,
    ReusingSearch,
    Search,
    SearchOutput,
    as_mctx,
    check_positive,
    check_share,
    evaluator_with_logits,
    forgetful,
    make_advance,
    most_visited,
    open_scores,
    simulate,
)
from azjax.search.exploration import dirichlet_mix
from azjax.search.tree import AnyParams, Draws, Evaluator, Rows, Tree, first_max, max_of_row


@remembered
def puct(game: Game, evaluate: Evaluator, **options) -> Search:
    """AlphaZero's search. For the options see `reusing_puct`; this one forgets its tree.

    With `c=1.25, c_base=19652, normalise=True` it grows the same trees as `mctx.muzero_policy`.
    The policy is the share of visits; the action is the most visited one.
    """
    return forgetful(reusing_puct(game, evaluate, kept=1, **options))


def reusing_puct(
    game: Game,
    evaluate: Evaluator,
    *,
    simulations: int,
    kept: int | None = None,
    c: float = 1.25,
    c_base: float | None = None,
    formula: str = "alphazero",
    normalise: bool = False,
    dirichlet_alpha: float | None = None,
    dirichlet_fraction: float = 0.0,
    max_depth: int | None = None,
    solve: bool = False,
    max_reward: float = 1.0,
    evaluate_terminals_with_network: bool = False,
) -> ReusingSearch:
    """AlphaZero's search, with the tree kept between moves.

    Args:
      game: the rules.
      evaluate: returns the prior logits and the value of positions.
      simulations: new nodes per search.
      kept: how many nodes survive a move; default as many as there are simulations.
      c: the exploration constant.
      c_base: None, or the scale on which c grows: c + ln((visits + c_base + 1) / c_base).
      formula: "alphazero" Q + c P sqrt(N) / (1 + n), or "sqrt_ratio" Q + c P sqrt(N / (1 + n)), as Jacobsen
        2019 prints it.
      normalise: rescale Q by its range among parent and siblings, as MuZero does; else Q of an unvisited
        move is 0.
      dirichlet_alpha: of the root noise over the legal moves; None for 1 / their number, as Karki 2024.
      dirichlet_fraction: the share of the noise in the root's prior.
      max_depth: no node deeper than this many moves.
      solve: back up proven results (MCTS-Solver) and search proven moves no more.
      max_reward: the best result of the game, where `solve` may stop comparing.
      evaluate_terminals_with_network: ask the network even where the game is over. This is Jacobsen 2019's
        category A, which learns badly for it; nothing else should use it.
    """
    check_positive(simulations=simulations, kept=kept, max_depth=max_depth)
    check_share(dirichlet_fraction=dirichlet_fraction)
    if dirichlet_alpha is not None and dirichlet_alpha <= 0:
        raise ValueError(f"dirichlet_alpha must be above 0, or None, got {dirichlet_alpha}")
    if formula not in ("alphazero", "sqrt_ratio"):
        raise ValueError(f"formula must be 'alphazero' or 'sqrt_ratio', got {formula!r}")
    if solve and evaluate_terminals_with_network:
        raise ValueError("solve needs true results: it excludes evaluate_terminals_with_network")
    kept = simulations if kept is None else kept
    trees.check_room(game.num_actions, 1, kept + simulations, solve)
    logits_and_value = evaluator_with_logits(game, evaluate)

    def evaluate_node(params, key, states):
        logits, value, legal = logits_and_value(params, key, states)
        return jnp.where(legal, jax.nn.softmax(logits), ILLEGAL_PRIOR), value, legal

    def rule(draws: Draws, rows: Rows) -> jax.Array:
        scores = puct_scores(rows, c=c, c_base=c_base, formula=formula, normalise=normalise)
        return _break_ties(draws, open_scores(scores, rows))

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
        _, noise_key, key = trees.split_key(key, 3)  # as mctx splits it, so that the trees agree
        clean = tree.prior[:, trees.ROOT]
        noisy = dirichlet_mix(noise_key, clean, clean != ILLEGAL_PRIOR, dirichlet_alpha, dirichlet_fraction)
        noisy = jnp.where(clean != ILLEGAL_PRIOR, noisy, ILLEGAL_PRIOR)

        def root_rule(draws: Draws, rows: Rows) -> jax.Array:
            return rule(draws, rows._replace(prior=noisy))

        tree, rows = simulate(
            tree,
            params,
            key,
            game,
            evaluate_node,
            root_rule,
            rule,
            slot,
            simulations if fewer is None else jnp.minimum(fewer, simulations),
            max_depth,
            evaluate_terminals_with_network,
            max_reward,
            new,
        )
        return most_visited(game, tree, rows, max_reward), tree

    def search(
        params: AnyParams, key: jax.Array, tree: Tree, new: bool = False, fewer: jax.Array | None = None
    ) -> tuple[SearchOutput, Tree]:
        return search_on(params, key, tree, kept, new, fewer)

    return ReusingSearch(start, search, make_advance(start, kept), search_on)


def puct_scores(rows: Rows, *, c: float, c_base: float | None, formula: str, normalise: bool) -> jax.Array:
    """[batch, actions] of Q + U, where the prior holds probabilities; for the options see `reusing_puct`."""
    parent_visits = rows.node_visits[:, None]
    if c_base is not None:
        c = c + jnp.log((parent_visits + c_base + 1.0) / c_base)
    if formula == "alphazero":
        exploration = jnp.sqrt(parent_visits) * c * rows.prior / (rows.visits + 1)
    else:
        exploration = c * rows.prior * jnp.sqrt(parent_visits / (rows.visits + 1))
    if normalise:
        qvalues = jax.vmap(mctx.qtransform_by_parent_and_siblings, (0, None))(as_mctx(rows), 0)
    else:
        qvalues = rows.qvalues
    return qvalues + exploration


def _break_ties(draws: Draws, scores: jax.Array) -> jax.Array:
    """[batch] the best action; mctx's noise of 1e-7 decides between equals, drawn only where there are any."""
    best = first_max(scores)
    number = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    top = max_of_row(scores)
    runner_up = max_of_row(jnp.where(number == best[:, None], -jnp.inf, scores))
    # What the noise and the rounding of its sum can make up for, and a little more.
    close = top - runner_up <= 1.1e-7 + 2.4e-7 * jnp.abs(top)

    def with_noise(draws: Draws, scores: jax.Array) -> jax.Array:
        noise = jax.vmap(lambda key: jax.random.uniform(key, scores.shape[-1:]))(draws.keys())
        return first_max(scores + 1e-7 * noise)

    def lane_by_lane() -> jax.Array:
        def settle_one(carry):
            best, close = carry
            lane = jnp.argmax(close, keepdims=True)
            choice = with_noise(Draws(draws.base[lane], draws.depth), scores[lane])
            return best.at[lane].set(choice), close.at[lane].set(False)

        best_now, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[1]), settle_one, (best, close))
        return best_now

    def all_lanes() -> jax.Array:
        return with_noise(draws, scores)

    # On a CPU, noise for all costs more than the rest of a descent; a trained network seldom leaves more than a lane
    # or two.
    return indexing.by_platform(
        cpu=lambda: jax.lax.cond(jnp.sum(close) > 8, all_lanes, lane_by_lane),
        accelerator=lambda: jax.lax.cond(jnp.any(close), all_lanes, lambda: best),
    )
