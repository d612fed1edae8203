"""Players that know the truth: perfect, optimal, and Karki's (2024) adversary.

Where the whole game is in a table (`azjax.agents.tables`) they are device agents, with the table as their parameters.
On larger boards of Hex and of Dots and Boxes the first two ask a solver for each position, on the host.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from azjax.agents.core import Agent, AgentError, Progress
from azjax.agents.dots_rules import make_act
from azjax.agents.tables import Tables, Truth, has_table, truth_of
from azjax.envs.core import Game, GameState, random_action
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.solvers import dots_and_boxes, hex
from azjax.solvers.core import Solver, TooLargeError


def perfect(
    game: Game,
    name: str = "perfect",
    *,
    all_moves: bool = False,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Agent:
    """Draws among all moves that keep the game's value, as the perfect player of Karki 2024 does.

    Args:
      game: the rules.
      name: of the agent.
      all_moves: Chinese Checkers: judge forward moves by the values of the game with all moves, as in the thesis. Such
        a player can lose a won game, for some positions are won by a backward move alone.
      seconds: how long a solver may take for a position, on boards without a table; in positions that take longer
        the agent plays `hard` in Dots and Boxes, and at random in Hex.
      progress: called while a table is solved.
    """
    if has_table(game):
        truth = _truth(game, all_moves, progress)
        return _best_by(truth, truth.values, name)
    return _by_solver(game, _solver(game, seconds), name)


def optimal(
    game: Game, name: str = "optimal", *, seconds: float | None = None, progress: Progress | None = None
) -> Agent:
    """Wins as fast and loses as slowly as can be (Chinese Checkers), or takes the best margin (Dots and Boxes).

    In Hex any winning move will do, so that it is `perfect` there. For the arguments see `perfect`.
    """
    if has_table(game):
        truth = _truth(game, False, progress)
        return _best_by(truth, truth.merits, name)
    if isinstance(game, DotsAndBoxes):
        game = dataclasses.replace(game, reward="margin")
    return _by_solver(game, _solver(game, seconds), name)


def adversary(
    game: Game,
    name: str = "adversary",
    *,
    epsilon: float = 0.1,
    by: str = "count",
    progress: Progress | None = None,
) -> Agent:
    """Wins if it can, else sets traps: Karki's (2024) adversary, who knows the table and hopes for mistakes.

    In a position that is not won it looks at each of its moves and at every reply. If possible, it avoids moves that
    allow the opponent to win at once. Of the others it takes one with the most losing replies; or, with probability
    epsilon, any. A draw it does not let go.

    Args:
      game: the rules; the game must have a table.
      name: of the agent.
      epsilon: how often a random move takes the place of the best trap.
      by: "count" for the most losing replies, "share" for the largest share of them. The thesis leaves it open.
      progress: called while a table is solved.
    """
    if not has_table(game):
        raise AgentError(
            "the adversary needs a table of the whole game: Chinese Checkers up to about 5x5 with 4 pieces, Dots and "
            "Boxes up to 3 x 3 boxes, Hex up to 4x4"
        )
    if not 0 <= epsilon <= 1:
        raise AgentError(f"epsilon must be between 0 and 1, got {epsilon}")
    truth = _truth(game, False, progress)

    def look_ahead(tables, x: GameState, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        # How promising a move is, and whether it allows a win at once.
        after = truth.game.step(x, action)
        legal = truth.game.legal_action_mask(after)
        outcome = jnp.sign(truth.values(tables, after))
        stays = after.current_player == x.current_player  # as in Dots and Boxes
        good = legal & (jnp.where(stays, outcome, -outcome) > 0)
        hope = jnp.sum(good, dtype=jnp.float32)
        if by == "share":
            hope /= jnp.maximum(jnp.sum(legal), 1)
        return hope, ~stays & jnp.any(truth.wins_at_once(tables, after))

    def look_ahead_everywhere(tables, states: GameState, legal: jax.Array) -> tuple[jax.Array, jax.Array]:
        # The same for all legal moves of positions [batch, ...]: the first of each, the second of each, and so on.
        lanes = jnp.arange(len(legal))
        legal_first = jnp.argsort(~legal, axis=1, stable=True)

        def one_move(number, found):
            action = legal_first[:, number]
            of_move = jax.vmap(look_ahead, (None, 0, 0))(tables, states, action)
            return jax.tree.map(lambda table, column: table.at[lanes, action].set(column), found, of_move)

        nothing = (jnp.zeros(legal.shape), jnp.zeros(legal.shape, bool))
        return jax.lax.fori_loop(0, jnp.max(jnp.sum(legal, axis=1)), one_move, nothing)

    def act(tables, key: jax.Array, states: GameState) -> jax.Array:
        coin_key, key = jax.random.split(key)
        states = truth.forget(states)
        legal = jax.vmap(truth.game.legal_action_mask)(states)
        outcome = jnp.sign(jax.vmap(truth.values, (None, 0))(tables, states))
        keeping = _best_of(legal, outcome)
        wins = jnp.any(keeping & (outcome > 0), axis=1, keepdims=True)

        hope, allows_a_win = look_ahead_everywhere(tables, states, legal)
        careful = keeping & ~allows_a_win
        careful = jnp.where(jnp.any(careful, axis=1, keepdims=True), careful, keeping)
        any_move = jax.random.bernoulli(coin_key, epsilon, wins.shape)
        traps = jnp.where(any_move, careful, _best_of(careful, hope))
        return random_action(key, jnp.where(wins, keeping, traps))

    return Agent(name, act, truth.tables)


def _truth(game: Game, all_moves: bool, progress: Progress | None) -> Truth:
    try:
        return truth_of(game, all_moves=all_moves, progress=progress)
    except TooLargeError as error:
        raise AgentError(f"this game is too large for a perfect player: {error}") from error


def _best_of(candidates: jax.Array, scores: jax.Array) -> jax.Array:
    # [batch, actions] bool: the candidates with the highest score.
    return candidates & (scores == jnp.max(jnp.where(candidates, scores, -jnp.inf), axis=1, keepdims=True))


def _best_by(truth: Truth, scores: Callable[[Tables, GameState], jax.Array], name: str) -> Agent:
    def act(tables: Tables, key: jax.Array, states: GameState) -> jax.Array:
        score = jax.vmap(scores, (None, 0))(tables, truth.forget(states))
        return random_action(key, _best_of(score > -jnp.inf, score))

    return Agent(name, act, truth.tables)


def _solver(game: Game, seconds: float | None) -> Solver:
    try:
        if isinstance(game, Hex):
            return hex.make_solver(game, seconds=seconds)
        if isinstance(game, DotsAndBoxes):
            return dots_and_boxes.make_solver(game, method="search", seconds=seconds)
    except TooLargeError as error:
        raise AgentError(f"this game is too large for a perfect player: {error}") from error
    raise AgentError(
        f"there is no solver for {game.name}, so nobody plays it perfectly; there are solvers for hex, "
        "chinese_checkers and dots_and_boxes"
    )


def _by_solver(game: Game, solver: Solver, name: str) -> Agent:
    legal_of = jax.jit(jax.vmap(game.legal_action_mask))
    choose = jax.jit(random_action)
    fallback = jax.jit(make_act(game, "hard")) if isinstance(game, DotsAndBoxes) else None

    def act(params, key: jax.Array, states: GameState) -> np.ndarray:
        del params
        key, fallback_key = jax.random.split(key)
        legal = np.array(legal_of(states))
        live = np.flatnonzero(legal.any(axis=1))
        masks = legal.copy()
        unproven = np.zeros(len(legal), bool)
        if len(live):
            solution = solver.solve(jax.tree.map(lambda leaf: np.asarray(leaf)[live], states))
            masks[live] = np.where(solution.proven[:, None], solution.optimal, legal[live])
            unproven[live] = ~solution.proven
        actions = np.asarray(choose(key, masks))
        if fallback is not None and unproven.any():
            actions = np.where(unproven, fallback((), fallback_key, states), actions)
        return actions

    close = getattr(solver, "close", lambda: None)
    return Agent(name, act, on_host=True, close=close)
