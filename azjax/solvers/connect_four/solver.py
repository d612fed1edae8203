"""The exact solver of Connect Four: who wins a position, how soon, and with which moves.

Positions are searched one by one (`search`), within limits of nodes and seconds if any are given; what is then not
proven is answered with "unknown". Of every move the solver keeps bounds of its score, see there, and asks the search
no more than it has to: the value of a position and the moves that keep it need a few questions, scores some more.

Whatever has been proven can be saved, and is there at once when it is loaded again.
"""

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from azjax.envs.core import Game, GameState
from azjax.positions import sets as position_sets
from azjax.solvers import files
from azjax.solvers.connect_four.search import (
    CELLS,
    HEIGHT,
    NO,
    TABLE_BITS,
    UNKNOWN,
    WIDTH,
    YES,
    Budget,
    Position,
    Searcher,
)
from azjax.solvers.core import MoveOutcomes, Solution

_FILE_VERSION = 1  # changes whenever the content of the files does
_OPENING_SECONDS = 900.0  # until all first moves are known, on one core; a guess: more than 200
_EFFORT_TABLE_BITS = 20  # a small table is soon emptied


def estimate(game: Game) -> tuple[int, float]:
    """Bytes of memory for the solver, and seconds on one core until all openings are known."""
    del game
    return np.dtype(np.uint64).itemsize << TABLE_BITS, _OPENING_SECONDS


def make_solver(
    game: Game,
    *,
    nodes: int | None = None,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> "ConnectFourSolver":
    """A solver. It starts to work with the first question.

    Args:
      game: the rules.
      nodes: give up on a position after visiting so many; no limit if None.
      seconds: likewise, for the time.
      progress: called with the positions of a batch that are done, and all of them.
    """
    return ConnectFourSolver(game, nodes, seconds, progress)


def load_solver(path: str | os.PathLike, game: Game, **options) -> "ConnectFourSolver":
    """A solver made with the options of `make_solver` that knows what another one has saved."""
    solver = make_solver(game, **options)
    solver.load(path)
    return solver


class ConnectFourSolver:
    """Exact answers about positions; a `SearchingSolver` that also knows how soon the game ends."""

    def __init__(
        self,
        game: Game,
        nodes: int | None,
        seconds: float | None,
        progress: Callable[[int, int], None] | None,
    ):
        self.game = game
        self._nodes, self._seconds = nodes, seconds
        self._progress = progress or (lambda done, total: None)
        self._known: dict[Position, np.ndarray] = {}  # [2, columns + 1], see `_bounds_at_first`

    def solve(self, states: GameState) -> Solution:
        """Values and all optimal moves of positions [batch, ...]: 1 a win, 0 a draw, -1 a loss."""
        rows = [self._solve_one(position) for position in self._each(states)]
        value, optimal, seconds, nodes = zip(*rows) if rows else ((), (), (), ())
        value = np.array(value, np.float32)
        return Solution(
            value=value,
            optimal=np.array(optimal, bool).reshape(-1, WIDTH),
            proven=~np.isnan(value),
            seconds=np.array(seconds, np.float32),
            nodes=np.array(nodes, np.int64),
        )

    def value(self, states: GameState) -> np.ndarray:
        """[batch] float32, as in `Solution`; faster, because it need not look at every move."""
        values = []
        for position in self._each(states):
            value = _value_if_over(position)
            if value is None:
                value = self._find_value(position, self._bounds(position), self._budget())
            values.append(np.nan if value is None else value)
        return np.array(values, np.float32)

    def optimal_actions(self, states: GameState) -> np.ndarray:
        """[batch, columns] bool, as in `Solution`."""
        return self.solve(states).optimal

    def move_outcomes(self, states: GameState) -> MoveOutcomes:
        """What is proven of every move, also where the limits left other moves open."""
        return MoveOutcomes(*np.sign(self._all_bounds(states, scores=False)))

    def quickest_actions(self, states: GameState) -> np.ndarray:
        """[batch, columns] bool: the moves that win soonest, else draw, else lose latest; none if unknown or over."""
        return self.best_scores(states)[1]

    def best_scores(self, states: GameState) -> tuple[np.ndarray, np.ndarray]:
        """[batch] float32 the scores of positions, NaN if not proven; [batch, columns] bool the moves that reach them.

        Takes less than `move_scores`, for how bad the other moves are need not be known. Finished games have no score.
        """
        scores, moves = [np.zeros(0, np.float32)], [np.zeros((0, WIDTH), bool)]
        for position in self._each(states):
            score, best = self._find_best(position)
            scores.append(np.array([score], np.float32))
            moves.append(best[None])
        return np.concatenate(scores), np.concatenate(moves)

    def move_scores(self, states: GameState) -> np.ndarray:
        """[batch, columns] float32: the score of each move for who makes it; NaN where unknown or not legal.

        A win counts the stones that the winner has not played when he wins, and one more; a loss counts them negative.
        """
        low, high = self._all_bounds(states, scores=True)
        return np.where(low == high, low, np.nan).astype(np.float32)

    def move_plies(self, states: GameState) -> np.ndarray:
        """[batch, columns] float32: plies from before each move to the end, if the winner hurries and the loser delays.

        NaN for moves that draw, are not legal, or were not decided within the limits.
        """
        scores = self.move_scores(states)
        stones = np.array([position.stones for position in _positions(self.game, states)])[:, None]
        played = np.where(scores > 0, stones // 2, stones - stones // 2)  # by who is going to win
        more = CELLS // 2 + 1 - np.abs(scores) - played  # stones that he still needs
        return np.where(scores == 0, np.nan, np.where(scores > 0, 2 * more - 1, 2 * more)).astype(np.float32)

    @property
    def nodes(self) -> int:
        """Positions visited so far, for all questions."""
        return self._searcher.nodes

    def effort(self, state: GameState, actions: Sequence[int]) -> list[int]:
        """[actions] the nodes it takes to prove whether each move wins, by a search that knows nothing of the others.

        Searches stop at the limit of nodes.
        """
        (position,) = _positions(self.game, jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
        nodes = []
        for action in actions:
            self._measuring.forget()
            before = self._measuring.nodes
            bounds = _bounds_at_first(position)
            if bounds[0, action] < 1 <= bounds[1, action]:
                self._measuring.ask(position.after(action), 0, Budget(self._nodes))
            nodes.append(self._measuring.nodes - before)
        return nodes

    def save(self, path: str | os.PathLike) -> None:
        """Writes what has been proven of the moves of positions to a file."""
        stones = np.array([*self._known], np.uint64).reshape(-1, 2)
        bounds = np.array([*self._known.values()], np.float32).reshape(-1, 2, WIDTH + 1)
        files.write(path, self._identity() | {"positions": len(stones)}, {"stones": stones, "bounds": bounds})

    def load(self, path: str | os.PathLike) -> None:
        """Reads what `save` wrote; raises ValueError if the file is damaged or about something else."""
        header, arrays = files.read(path, self._identity(), ["positions"])
        number = header["positions"]
        shapes = {"stones": ((number, 2), np.uint64), "bounds": ((number, 2, WIDTH + 1), np.float32)}
        files.check_arrays(path, arrays, shapes)
        for (mine, taken), bounds in zip(arrays["stones"].tolist(), arrays["bounds"]):
            self._known[Position(mine, taken)] = bounds.copy()

    def _identity(self) -> dict:
        """What a file must be about to be of use here."""
        return {
            "game": self.game.name,
            "game_version": self.game.version,
            "holds": "bounds of the scores of moves",
            "version": _FILE_VERSION,
        }

    def _each(self, states: GameState):
        """The positions of a batch; tells how many are done."""
        positions = _positions(self.game, states)
        _ = self._searcher  # compiles, if need be, before the clock of the first position runs
        for number, position in enumerate(positions):
            yield position
            self._progress(number + 1, len(positions))

    @functools.cached_property
    def _searcher(self) -> Searcher:
        return Searcher()

    @functools.cached_property
    def _measuring(self) -> Searcher:
        """Another one, which knows nothing of what that has proven."""
        return Searcher(_EFFORT_TABLE_BITS)

    def _budget(self) -> Budget:
        return Budget(self._nodes, self._seconds)

    def _bounds(self, position: Position) -> np.ndarray:
        if position not in self._known:
            self._known[position] = _bounds_at_first(position)
        return self._known[position]

    def _solve_one(self, position: Position) -> tuple[float, np.ndarray, float, int]:
        before, begin = self.nodes, time.perf_counter()
        optimal = np.zeros(WIDTH, bool)
        value = _value_if_over(position)
        if value is None:
            bounds, budget = self._bounds(position), self._budget()
            value = self._find_value(position, bounds, budget)
            if value is not None:
                least = -CELLS if value < 0 else value  # all moves of a lost position lose
                for column in np.flatnonzero(_legal(bounds)):
                    self._decide(position, bounds, column, least, budget)
                low, high = bounds[:, :WIDTH]
                if np.all((low >= least) | (high < least)):
                    optimal = low >= least
                else:
                    value = None
        value = np.nan if value is None else value
        return value, optimal, time.perf_counter() - begin, self.nodes - before

    def _find_best(self, position: Position) -> tuple[float, np.ndarray]:
        if _value_if_over(position) is not None:
            return np.nan, np.zeros(WIDTH, bool)
        bounds, budget = self._bounds(position), self._budget()
        self._find_value(position, bounds, budget)
        low, high = _of_position(bounds)
        while low < high and self._ask_whole(position, bounds, math.ceil((low + high) / 2), budget):
            low, high = _of_position(bounds)
        columns = np.flatnonzero(_legal(bounds))
        if low < high or not all([self._decide(position, bounds, column, low, budget) for column in columns]):
            return np.nan, np.zeros(WIDTH, bool)
        return low, bounds[0, :WIDTH] >= low

    def _all_bounds(self, states: GameState, scores: bool) -> np.ndarray:
        """[2, batch, columns] bounds of moves: first the signs of all are decided, then perhaps their scores."""
        rows = []
        for position in self._each(states):
            if _value_if_over(position) is not None:
                rows.append(np.full((2, WIDTH), np.nan, np.float32))
                continue
            bounds, budget = self._bounds(position), self._budget()
            self._find_value(position, bounds, budget)
            columns = np.flatnonzero(_legal(bounds))
            for column, least in itertools.product(columns, (1, 0)):
                self._decide(position, bounds, column, least, budget)
            for column in columns if scores else ():
                self._find_score(position, bounds, column, budget)
            rows.append(np.where(_legal(bounds), bounds[:, :WIDTH], np.nan))
        return np.stack(rows, axis=1) if rows else np.zeros((2, 0, WIDTH), np.float32)

    def _find_value(self, position: Position, bounds: np.ndarray, budget: Budget) -> int | None:
        """The sign of the score. Asks about the position as a whole: the search soon finds a good move."""
        for least in (1, 0):
            low, high = _of_position(bounds)
            if low < least <= high:
                self._ask_whole(position, bounds, least, budget)
        low, high = np.sign(_of_position(bounds))
        return int(low) if low == high else None

    def _ask_whole(self, position: Position, bounds: np.ndarray, least: int, budget: Budget) -> bool:
        """Asks whether the score of a position is at least some number; whether that is known now."""
        answer = self._searcher.ask(position, least, budget)
        if answer == YES:
            bounds[0, WIDTH] = least
        elif answer == NO:
            bounds[1] = np.minimum(bounds[1], least - 1)
        return answer != UNKNOWN

    def _decide(
        self, position: Position, bounds: np.ndarray, column: int, least: int, budget: Budget
    ) -> bool:
        """Asks whether a move's score is at least some number, unless that is known; whether it is known now."""
        low, high = bounds[:, column]
        if not low < least <= high:
            return True
        answer = self._searcher.ask(
            position.after(column), 1 - least, budget
        )  # the opponent's score has the other sign
        if answer == NO:
            bounds[0, column] = least
        elif answer == YES:
            bounds[1, column] = least - 1
        return answer != UNKNOWN

    def _find_score(self, position: Position, bounds: np.ndarray, column: int, budget: Budget) -> None:
        """Halves what is open of a move's score, until nothing is."""
        known = True
        while known and bounds[0, column] < bounds[1, column]:
            known = self._decide(position, bounds, column, math.ceil(bounds[:, column].mean()), budget)


def _positions(game: Game, states: GameState) -> list[Position]:
    """Positions [batch, ...] of the game as sets of bits."""
    seen = position_sets.in_parts(_observe(game), states).astype(bool)
    cells = np.moveaxis(seen[:, ::-1], 1, 2)  # [batch, columns, rows from the bottom, 2]
    bits = np.pad(cells, ((0, 0), (0, 0), (0, 1), (0, 0))).reshape(len(seen), WIDTH * (HEIGHT + 1), 2)
    mine, theirs = ((1 << np.arange(bits.shape[1])) @ bits).T.tolist()
    return [Position(own, own | other) for own, other in zip(mine, theirs)]


@functools.cache
def _observe(game: Game) -> Callable:
    return jax.jit(jax.vmap(game.observe))


def _value_if_over(position: Position) -> int | None:
    """The value of a finished game for who would be to move; None if it goes on."""
    return -1 if position.is_lost else 0 if position.stones == CELLS else None


def _bounds_at_first(position: Position) -> np.ndarray:
    """[2, columns + 1] float32: bounds of the score of each move, and of the position as a whole; -inf if not legal."""
    stones = position.stones
    bounds = np.full((2, WIDTH + 1), -np.inf, np.float32)
    for column in range(WIDTH):
        after = position.after(column)
        if after is None:
            continue
        if after.is_lost:
            bounds[:, column] = (CELLS + 1 - stones) // 2
        elif after.stones == CELLS:
            bounds[:, column] = 0
        elif after.wins_at_once:
            bounds[:, column] = -((CELLS - stones) // 2)
        else:
            bounds[:, column] = -((CELLS - 2 - stones) // 2), (CELLS - 1 - stones) // 2
    bounds[1, WIDTH] = np.inf
    return bounds


def _legal(bounds: np.ndarray) -> np.ndarray:
    """[columns] bool."""
    return bounds[0, :WIDTH] > -np.inf


def _of_position(bounds: np.ndarray) -> tuple[float, float]:
    """Bounds of the score of the position: by its moves, and by what is known of it as a whole."""
    return bounds[0].max(), min(bounds[1, :WIDTH].max(), bounds[1, WIDTH])
