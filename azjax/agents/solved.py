"""Players that know the truth: perfect, optimal, and Karki's (2024) adversary.

Where the whole game is in a table (`azjax.solvers.tables`) they are device agents, with the table as their parameters.
In other games that have a solver the first two ask it for each position, on the host.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from azjax.agents.dots_rules import make_choices
from azjax.common.agent import Agent, AgentError
from azjax.common.progress import Progress
from azjax.envs.core import Game, GameState, random_action
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.solvers import has_solver, room_of, solved_games
from azjax.solvers.core import HurryingSolver, SearchingSolver, Solution, TooLargeError
from azjax.solvers.tables import Tables, Truth, has_table, truth_of

Narrow = Callable[[GameState, np.ndarray, np.ndarray], np.ndarray]
"""(positions, their moves to choose from, their values or NaN) -> which moves to prefer, [n, actions] bool."""


class _Preference(NamedTuple):
    """What to choose among moves that are equally good as far as proofs go."""

    narrow: Narrow
    everywhere: bool = False  # also in positions that are not lost


_NEVER = 1000  # more stones than a board has cells


def perfect(
    game: Game,
    name: str = "perfect",
    *,
    all_moves: bool = False,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Agent:
    """Draws among all moves that keep the game's value; in lost positions, among those that resist longest.

    Where there is a table, or a solver that knows how soon games end, that is the most plies (unless a table was solved
    without distances), or the best margin in Dots and Boxes, which is known on larger boards too. On larger boards of
    Hex it is a move after which the winner still needs the most stones.

    Args:
      game: the rules.
      name: of the agent.
      all_moves: Chinese Checkers: the perfect player of Karki 2024, who judges forward moves by the values of the game
        with all moves, and moves at random in lost positions. Such a player can lose a won game, for some positions are
        won by a backward move alone.
      seconds: how long a solver may take for a question about a position, on boards without a table; there are one or
        two of them. Where it is not enough, the agent plays a move that is proven to win, else to draw; else, among
        moves not proven to lose, as `hard` in Dots and Boxes, as in lost positions in Hex, and any in other games.
      progress: called while a table is solved.
    """
    if has_table(game):
        truth = _truth(game, all_moves, progress)
        return _best_by(truth, truth.values if all_moves else _value_then_resistance(truth), name)
    return _by_solver(game, _solver(game, seconds), name)


def optimal(
    game: Game, name: str = "optimal", *, seconds: float | None = None, progress: Progress | None = None
) -> Agent:
    """Wins as fast and loses as slowly as can be, or takes the best margin (Dots and Boxes).

    Where Hex has no table, nobody knows how fast a win is, and it is `perfect`. For the arguments see there.
    """
    if has_table(game):
        truth = _truth(game, False, progress)
        if not truth.knows_speed:
            raise AgentError(
                "the table of this board has no distances, so nobody knows how fast a win is; solve it with distances,"
                " or take perfect"
            )
        return _best_by(truth, truth.merits, name)
    if has_solver(game):
        game = room_of(game).finest(game)
    return _by_solver(game, _solver(game, seconds), name, hurries=True)


def adversary(
    game: Game,
    name: str = "adversary",
    *,
    epsilon: float = 0.1,
    by: str = "count",
    all_moves: bool = False,
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
      all_moves: Chinese Checkers: judge forward moves by the values of the game with all moves, as the thesis does.
      progress: called while a table is solved.
    """
    if not has_table(game):
        raise AgentError(
            "the adversary needs a table of the whole game: Chinese Checkers up to about 5x5 with 4 pieces, Dots and "
            "Boxes up to 3 x 3 boxes, Hex up to 4x4"
        )
    if not 0 <= epsilon <= 1:
        raise AgentError(f"epsilon must be between 0 and 1, got {epsilon}")
    truth = _truth(game, all_moves, progress)

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


def _value_then_resistance(truth: Truth) -> Callable[[Tables, GameState], jax.Array]:
    def scores(tables: Tables, x: GameState) -> jax.Array:
        values = truth.values(tables, x)
        return jnp.where(jnp.max(values) < 0, truth.merits(tables, x), values)

    return scores


def _solver(game: Game, seconds: float | None) -> SearchingSolver:
    if not has_solver(game):
        raise AgentError(
            f"there is no solver for {game.name}, so nobody plays it perfectly; there are solvers for "
            + ", ".join(solved_games())
        )
    try:
        return room_of(game).searching_solver(game, seconds)
    except TooLargeError as error:
        raise AgentError(f"this game is too large for a perfect player: {error}") from error


def _by_solver(game: Game, solver: SearchingSolver, name: str, hurries: bool = False) -> Agent:
    if game.name in _PREFERENCES:
        preference = _PREFERENCES[game.name](game, solver)
    else:
        preference = _Preference(functools.partial(_by_speed, solver), everywhere=hurries)
    legal_of, choose = jax.jit(jax.vmap(game.legal_action_mask)), jax.jit(random_action)

    def moves_of(states: GameState) -> np.ndarray:
        moves, value = _best_outcomes(solver, states)
        rows = np.flatnonzero(~(value >= 0) | preference.everywhere)
        if len(rows):
            narrowed = moves[rows] & preference.narrow(_rows(states, rows), moves[rows], value[rows])
            moves[rows] = np.where(narrowed.any(axis=1, keepdims=True), narrowed, moves[rows])
        return moves

    def act(params, key: jax.Array, states: GameState) -> np.ndarray:
        del params
        masks = np.array(legal_of(states))
        live = np.flatnonzero(masks.any(axis=1))
        if len(live):
            masks[live] = moves_of(_rows(states, live))
        return np.asarray(choose(key, masks))

    close = getattr(solver, "close", lambda: None)
    return Agent(name, act, on_host=True, close=close)


def _rows(states: GameState, rows: np.ndarray) -> GameState:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], states)


def _best_outcomes(solver: SearchingSolver, states: GameState) -> tuple[np.ndarray, np.ndarray]:
    """The moves with the best proven outcome, and of these those that may still turn out best, [n, actions] bool.

    Also the value [n] of the positions; NaN where a move may be better than what is proven.
    """
    low, high = (np.nan_to_num(bound, nan=-np.inf) for bound in solver.move_outcomes(states))
    value = low.max(axis=1)
    hopes = np.where(low == value[:, None], high, -np.inf)
    best = hopes == hopes.max(axis=1, keepdims=True)
    return best, np.where(value == high.max(axis=1), value, np.nan)


def _by_speed(solver: HurryingSolver, states: GameState, moves: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The moves that win soonest, or lose latest; all where nothing is proven."""
    found = solver.quickest_actions(states)
    return found | ~(np.abs(value[:, None]) > 0)


class _MarginSolver(SearchingSolver, Protocol):
    """A solver that can be asked for margins where the game is about outcomes, as that of Dots and Boxes."""

    def solve(self, states: GameState, reward: str | None = None) -> Solution:
        """As in `Solver`; by default with the game's own reward."""


def _margin_or_hard(game: DotsAndBoxes, solver: _MarginSolver) -> _Preference:
    """The best margin of lost positions, and of all if the game is about it; what time does not allow, as `hard`."""
    hard = jax.jit(jax.vmap(make_choices(game, "hard")))

    def narrow(states: GameState, moves: np.ndarray, value: np.ndarray) -> np.ndarray:
        wanted = np.array(hard(states.lines))
        rows = np.flatnonzero((value < 0) | (game.reward == "margin"))
        if len(rows):
            solution = solver.solve(_rows(states, rows), reward="margin")
            wanted[rows] = np.where(solution.proven[:, None], solution.optimal, wanted[rows])
        return wanted

    return _Preference(narrow, everywhere=game.reward == "margin")


def _resist(game: Hex, solver: SearchingSolver) -> _Preference:
    """Of the moves those after which the opponent needs the most stones to win, and then the player the fewest."""

    def stones_needed(board: jax.Array, player: jax.Array) -> jax.Array:
        side = jnp.where(player == 0, board, -board).reshape(game.size, game.size)
        side = jnp.where(player == 0, side, side.T)
        cost = jnp.where(side > 0, 0, jnp.where(side == 0, 1, _NEVER))

        def spread(carry):
            reached, _ = carry
            around = jnp.pad(reached, 1, constant_values=_NEVER)
            shifts = ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1))
            beside = [jnp.roll(around, shift, (0, 1))[1:-1, 1:-1] for shift in shifts]
            nearer = jnp.minimum(reached, cost + jnp.min(jnp.stack(beside), axis=0))
            return nearer, jnp.any(nearer < reached)

        first_row = jnp.full_like(cost, _NEVER).at[0].set(cost[0])
        reached, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (first_row, jnp.bool_(True)))
        return jnp.min(reached[-1])

    def resistance(x: GameState) -> jax.Array:
        def after(action):
            board = jnp.sign(game.step(x, action).board)
            return _NEVER * stones_needed(board, 1 - x.current_player) - stones_needed(
                board, x.current_player
            )

        return jax.vmap(after)(jnp.arange(game.num_actions))

    compiled = jax.jit(lambda states, moves: _best_of(moves, jax.vmap(resistance)(states)))
    return _Preference(lambda states, moves, value: np.asarray(compiled(states, moves)))


_PREFERENCES: dict[str, Callable[..., _Preference]] = {
    Hex.name: _resist,
    DotsAndBoxes.name: _margin_or_hard,
}  # of games without a table on some boards, whose solvers do not tell how soon games end
