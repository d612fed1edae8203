"""Tree search over batches of positions: Gumbel, PUCT and UCT.

Each maker here returns a `Search`, a pure function (params, key, states) -> SearchOutput. Positions of
any rhythm are welcome (a player may move twice in a row), lanes whose game is over come back clean, and
nothing explores unless asked to: noise is for self-play, so it is off by default.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import mctx
import numpy as np

from azjax import tree as trees
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameState, random_playout, scramble
from azjax.exploration import dirichlet_mix, draw
from azjax.tree import Draws, Evaluator, Params, Rows, Tree, first_max, max_of_row


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

    def __call__(self, params: Params, key: jax.Array, states: GameState) -> SearchOutput:
        """Searches positions [batch, ...].

        One key serves the batch; or give [batch] keys, and (UCT and `playout_cap` apart) each lane draws from its
        own, so that it finds the same in any company.
        """


class ReusingSearch(NamedTuple):
    """A search that keeps its tree from move to move."""

    start: Callable[[Params, jax.Array, GameState], Tree]
    """(params, key, states) -> trees that hold just their roots."""
    search: Callable[[Params, jax.Array, Tree], tuple[SearchOutput, Tree]]
    """(params, key, trees) -> what was found, and the grown trees. Give it what `start` or `advance` gave: a
    tree that has grown already has no room left."""
    advance: Callable[[Params, jax.Array, Tree, jax.Array, GameState], Tree]
    """(params, key, trees, actions, next states) -> the subtrees of the moves played; a lane whose move was
    never looked at, or whose next state is not the move's (a new game), starts anew."""


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
      evaluate: says the prior logits and the value of positions.
      simulations: new nodes a search.
      max_considered_actions: how many root actions enter the sequential halving.
      gumbel_scale: 1 in self-play, 0 for the best move.
      max_depth: no node deeper than this many moves.
      value_scale: weight of Q against the logits.
      maxvisit_init: added to the highest visit count in that weight.
    """
    _check_positive(
        simulations=simulations, max_considered_actions=max_considered_actions, max_depth=max_depth
    )
    qtransform = functools.partial(
        mctx.qtransform_completed_by_mix_value, value_scale=value_scale, maxvisit_init=maxvisit_init
    )
    evaluate_node = _evaluator_with_logits(game, evaluate)

    def search(params: Params, key: jax.Array, states: GameState) -> SearchOutput:
        root_key, key = trees.split_key(key, 2)
        key, gumbel_key = trees.split_key(key, 2)  # as mctx splits it, so that the trees agree
        prior, value, legal = evaluate_node(params, root_key, states)
        prior = jnp.where(legal, prior - jnp.max(prior, -1, keepdims=True), _MASKED_LOGIT)
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
            return jax.vmap(root_select)(_as_mctx(rows, legal, noise))

        def rule(_, rows: Rows) -> jax.Array:
            one_node = _as_mctx(rows)
            completed = jax.vmap(qtransform, (0, None))(one_node, 0)
            improved = jax.nn.softmax(rows.prior + completed)
            return first_max(improved - rows.visits / (1 + jnp.sum(rows.visits, -1, keepdims=True)))

        tree = trees.plant(game, states, prior, value, legal, simulations + 1, solve=False)
        tree = _simulate(
            tree, params, key, game, evaluate_node, root_rule, rule, 1, simulations, max_depth, False
        )

        rows = trees.root_rows(tree)
        completed = jax.vmap(qtransform, (0, None))(_as_mctx(rows), 0)
        visited_most = rows.visits == jnp.max(rows.visits, -1, keepdims=True)
        score = jnp.maximum(_LOW_LOGIT, noise + prior + completed)
        action = first_max(jnp.where(visited_most & legal, score, -jnp.inf))
        improved = prior + completed
        improved = improved - jnp.max(improved, -1, keepdims=True)
        policy = jax.nn.softmax(jnp.where(legal, improved, _MASKED_LOGIT))
        return _output(game, states, tree, action, policy)

    return search


def puct(game: Game, evaluate: Evaluator, **options) -> Search:
    """AlphaZero's search. For the options see `reusing_puct`; this one forgets its tree.

    With `c=1.25, c_base=19652, normalise=True` it grows the same trees as `mctx.muzero_policy`.
    The policy is the share of visits; the action is the most visited one.
    """
    return _forgetful(reusing_puct(game, evaluate, kept=1, **options))


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
      evaluate: says the prior logits and the value of positions.
      simulations: new nodes a search.
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
    _check_positive(simulations=simulations, kept=kept, max_depth=max_depth)
    _check_share(dirichlet_fraction=dirichlet_fraction)
    if dirichlet_alpha is not None and dirichlet_alpha <= 0:
        raise ValueError(f"dirichlet_alpha must be above 0, or None, got {dirichlet_alpha}")
    if formula not in ("alphazero", "sqrt_ratio"):
        raise ValueError(f"formula must be 'alphazero' or 'sqrt_ratio', got {formula!r}")
    if solve and evaluate_terminals_with_network:
        raise ValueError("solve needs true results: it excludes evaluate_terminals_with_network")
    kept = simulations if kept is None else kept
    logits_and_value = _evaluator_with_logits(game, evaluate)

    def evaluate_node(params, key, states):
        logits, value, legal = logits_and_value(params, key, states)
        return jnp.where(legal, jax.nn.softmax(logits), _ILLEGAL), value, legal

    def rule(draws: Draws, rows: Rows) -> jax.Array:
        scores = puct_scores(rows, c=c, c_base=c_base, formula=formula, normalise=normalise)
        return _break_ties(draws, _masked(scores, rows))

    def start(params: Params, key: jax.Array, states: GameState) -> Tree:
        prior, value, legal = evaluate_node(params, key, states)
        return trees.plant(game, states, prior, value, legal, kept + simulations, solve)

    def search(params: Params, key: jax.Array, tree: Tree) -> tuple[SearchOutput, Tree]:
        _, noise_key, key = trees.split_key(key, 3)  # as mctx splits it, so that the trees agree
        clean = tree.prior[:, trees.ROOT]
        noisy = dirichlet_mix(noise_key, clean, clean != _ILLEGAL, dirichlet_alpha, dirichlet_fraction)
        noisy = jnp.where(clean != _ILLEGAL, noisy, _ILLEGAL)

        def root_rule(draws: Draws, rows: Rows) -> jax.Array:
            return rule(draws, rows._replace(prior=noisy))

        tree = _simulate(
            tree,
            params,
            key,
            game,
            evaluate_node,
            root_rule,
            rule,
            kept,
            simulations,
            max_depth,
            evaluate_terminals_with_network,
            max_reward,
        )
        return _most_visited(game, tree, max_reward), tree

    return ReusingSearch(start, search, _advance(start, kept))


def uct(game: Game, **options) -> Search:
    """Monte-Carlo tree search without a network; for the options see `reusing_uct`."""
    return _forgetful(reusing_uct(game, kept=1, **options))


def reusing_uct(
    game: Game,
    *,
    simulations: int,
    kept: int | None = None,
    c: float = 2.0**0.5,
    playouts: int = 1,
    leaf_value: Callable[[GameState], jax.Array] | None = None,
    solve: bool = False,
    max_reward: float = 1.0,
    max_depth: int | None = None,
) -> ReusingSearch:
    """Plain MCTS with UCB1, Q + c sqrt(ln N / n), unvisited moves first in random order; params are ignored.

    Args:
      game: the rules.
      simulations: new nodes a search.
      kept: how many nodes survive a move; default as many as there are simulations.
      c: the exploration constant.
      playouts: random games a leaf, averaged; more of them keep an accelerator busy when there are few
        positions.
      leaf_value: states [batch, ...] -> value [batch] for the player to move, instead of playouts; such as
        `distance_value`.
      solve: back up proven results (MCTS-Solver) and search proven moves no more.
      max_reward: the best result of the game, where `solve` may stop comparing.
      max_depth: no node deeper than this many moves.
    """
    _check_positive(simulations=simulations, kept=kept, playouts=playouts, max_depth=max_depth)
    kept = simulations if kept is None else kept

    def evaluate_node(params, key, states):
        del params
        legal = jax.vmap(game.legal_action_mask)(states)
        if leaf_value is not None:
            return legal, leaf_value(states), legal
        repeated = jax.tree.map(lambda s: jnp.repeat(s, playouts, axis=0), states)
        rewards = random_playout(game, repeated, _one(key)).reshape(-1, playouts, 2).mean(1)
        return legal, rewards[jnp.arange(len(rewards)), states.current_player], legal

    def rule(draws: Draws, rows: Rows) -> jax.Array:
        return first_max(_masked(ucb1_scores(draws.words(), rows, c), rows))

    def start(params: Params, key: jax.Array, states: GameState) -> Tree:
        prior, value, legal = evaluate_node(params, key, states)
        return trees.plant(game, states, prior, value, legal, kept + simulations, solve)

    def search(params: Params, key: jax.Array, tree: Tree) -> tuple[SearchOutput, Tree]:
        tree = _simulate(
            tree,
            params,
            key,
            game,
            evaluate_node,
            rule,
            rule,
            kept,
            simulations,
            max_depth,
            False,
            max_reward,
        )
        return _most_visited(game, tree, max_reward), tree

    return ReusingSearch(start, search, _advance(start, kept))


def playout_cap(full: Search, quick: Search, full_share: float) -> Search:
    """Playout-cap randomisation (Wu 2019): most moves get a quick search, some a full one.

    A batch moves in step, so one draw decides for the whole batch. `complete` tells the two apart: only full
    searches make good policy targets.

    Args:
      full: the search worth learning from.
      quick: the cheaper one; give it no noise.
      full_share: how often the full one is used, 0 to 1.
    """
    _check_share(full_share=full_share)

    def search(params: Params, key: jax.Array, states: GameState) -> SearchOutput:
        key, coin_key = trees.split_key(key, 2)
        is_full = jax.random.bernoulli(_one(coin_key), full_share)
        output = jax.lax.cond(is_full, full, quick, params, key, states)
        return output._replace(complete=output.complete & is_full)

    return search


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
        qvalues = jax.vmap(mctx.qtransform_by_parent_and_siblings, (0, None))(_as_mctx(rows), 0)
    else:
        qvalues = rows.qvalues
    return qvalues + exploration


def ucb1_scores(words: jax.Array, rows: Rows, c: float) -> jax.Array:
    """[batch, actions] of UCB1; unvisited moves come before all others, in an order from `words` [batch, 1]."""
    visits = jnp.maximum(rows.visits, 1)
    bonus = c * jnp.sqrt(jnp.log(rows.node_visits.astype(jnp.float32))[:, None] / visits)
    action = jnp.arange(rows.visits.shape[-1], dtype=jnp.uint32)
    order = scramble(words + (action + 1) * jnp.uint32(0x9E3779B9)) >> 8
    first_visit = 1e6 + order.astype(jnp.float32)
    return jnp.where(rows.visits > 0, rows.qvalues + bonus, first_visit)


def distance_value(game: ChineseCheckers) -> Callable[[GameState], jax.Array]:
    """A `leaf_value` for Chinese Checkers: how far the player to move leads in the race, from -1 to 1.

    The opponent's distance to its goal minus the own one, plus 1 for being on move, divided by the most that
    this can be. A distance is the sum over a player's pieces of the rows between them and the goal's tip.
    """
    row = game.image_index // game.size + game.image_index % game.size  # [cells], 0 at the top
    # A piece in row r has last - r rows to go down, or r to go up. So the difference of the distances, as the
    # first player sees it, is the sum of all pieces' rows, less `last` for each of its own.
    own_rows = game.pieces * 2 * (game.size - 1)
    most = int(np.sum(np.sort(row)[-2 * game.pieces :])) - own_rows + 1

    def lead(x: GameState) -> jax.Array:
        difference = jnp.sum(jnp.where(game.board(x) != 0, row, 0)) - own_rows
        return (jnp.where(x.current_player == 0, difference, -difference) + 1) / most

    return jax.vmap(lead)


_LOW_LOGIT = -1e9  # mctx's floor for the score of a considered action
_MASKED_LOGIT = jnp.finfo(jnp.float32).min
_ILLEGAL = -1.0  # as a probability: unlike 0 it cannot come from rounding


def _simulate(
    tree: Tree,
    params: Params,
    key: jax.Array,
    game: Game,
    evaluate_node: Callable,
    root_rule: trees.SelectionRule,
    rule: trees.SelectionRule,
    first_slot: int,
    simulations: int,
    max_depth: int | None,
    evaluate_terminals_with_network: bool,
    max_reward: float = 1.0,
) -> Tree:
    """Runs the simulations; the node of simulation i goes to slot `first_slot` + i."""
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

    def simulate(carry):
        simulation, key, live, tree = carry
        key, descend_key, evaluate_key = trees.split_key(key, 3)
        leaf = trees.descend(tree, descend_key, root_rule, rule, depth)
        tree, node, value = trees.grow(
            tree,
            leaf,
            first_slot + simulation,
            live,
            game,
            functools.partial(evaluate_node, params, evaluate_key),
            evaluate_terminals_with_network,
        )
        tree = trees.backup(tree, node, value)
        if solve:
            tree = trees.prove(tree, node, max_reward)
        return simulation + 1, key, live_lanes(tree), tree

    start = (jnp.int32(0), key, live_lanes(tree), tree)
    *_, tree = jax.lax.while_loop(unfinished, simulate, start)
    return tree


def _evaluator_with_logits(game: Game, evaluate: Evaluator) -> Callable:
    """(params, key, states) -> logits with illegal actions masked, value, legal mask."""

    def evaluate_node(params, key, states):
        legal = jax.vmap(game.legal_action_mask)(states)
        logits, value = evaluate(params, key, states)
        logits = logits.astype(jnp.float32)
        return jnp.where(legal, logits, _MASKED_LOGIT), value.astype(jnp.float32), legal

    return evaluate_node


def _one(key: jax.Array) -> jax.Array:
    return key if key.ndim == 0 else key[0]


def _legal(rows: Rows) -> jax.Array:
    return rows.prior if rows.prior.dtype == bool else rows.prior != _ILLEGAL


def _masked(scores: jax.Array, rows: Rows) -> jax.Array:
    """The scores of the legal moves that are not yet proven, -inf for all others."""
    open_moves = _legal(rows) if rows.outcomes is None else _legal(rows) & jnp.isnan(rows.outcomes)
    return jnp.where(open_moves, scores, -jnp.inf)


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

    # Noise for all costs more than the rest of a descent; a trained network seldom leaves more than a lane or two.
    return jax.lax.cond(jnp.sum(close) > 8, lambda: with_noise(draws, scores), lane_by_lane)


def _as_mctx(rows: Rows, legal: jax.Array | None = None, root_gumbel: jax.Array | None = None) -> mctx.Tree:
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


def _most_visited(game: Game, tree: Tree, max_reward: float) -> SearchOutput:
    """The answer of PUCT and UCT: proven wins first, proven losses last, then visits, then Q."""
    rows = trees.root_rows(tree)
    states = jax.tree.map(lambda s: s[:, trees.ROOT], tree.states)
    candidates = _legal(rows)
    if tree.outcomes is not None:
        known = jnp.where(jnp.isnan(rows.outcomes), 0.0, rows.outcomes)
        candidates = _keep_best(candidates, known)
    candidates = _keep_best(candidates, rows.visits.astype(jnp.float32))
    action = first_max(jnp.where(candidates, rows.qvalues, -jnp.inf))
    total = jnp.sum(rows.visits, -1, keepdims=True)
    policy = rows.visits / jnp.maximum(total, 1)
    output = _output(game, states, tree, action, policy)
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


def _keep_best(candidates: jax.Array, scores: jax.Array) -> jax.Array:
    best = jnp.max(jnp.where(candidates, scores, -jnp.inf), -1, keepdims=True)
    return candidates & (scores == best)


def _output(game: Game, states: GameState, tree: Tree, action: jax.Array, policy: jax.Array) -> SearchOutput:
    """Collects the answer; where the game is over, it is the result and no move."""
    over = tree.terminal[:, trees.ROOT]
    result = jax.vmap(game.rewards)(states)[jnp.arange(len(over)), states.current_player]
    return SearchOutput(
        action=jnp.where(over, 0, action),
        policy=jnp.where(over[:, None], 0.0, policy),
        value=jnp.where(over, result, tree.node_values[:, trees.ROOT]),
        visits=tree.visits[:, trees.ROOT],
        qvalues=tree.qvalues[:, trees.ROOT],
        proven=over,
        complete=jnp.ones_like(over),
    )


def _forgetful(search: ReusingSearch) -> Search:
    def forgetful(params: Params, key: jax.Array, states: GameState) -> SearchOutput:
        start_key, search_key = trees.split_key(key, 2)
        output, _ = search.search(params, search_key, search.start(params, start_key, states))
        return output

    return forgetful


def _advance(start: Callable, kept: int) -> Callable:
    def advance(params: Params, key: jax.Array, tree: Tree, action: jax.Array, states: GameState) -> Tree:
        fresh = start(params, key, states)
        below, found = trees.subtree(tree, action, kept)
        for old, new in zip(jax.tree.leaves(below.states), jax.tree.leaves(states)):
            same = old[:, trees.ROOT] == new
            found &= same.reshape(same.shape[0], -1).all(-1)

        def choose(old, new):
            return jnp.where(found.reshape(-1, *(1,) * (old.ndim - 1)), old, new)

        return jax.tree.map(choose, below, fresh)

    return advance


def _check_positive(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")


def _check_share(**shares: float) -> None:
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must be between 0 and 1, got {share}")
