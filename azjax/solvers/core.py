"""What every solver answers, what is known about solving a game, and the errors it answers with."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from azjax.common import tables
from azjax.common.memory import TooLargeError
from azjax.envs.core import Game, GameState

if TYPE_CHECKING:
    from azjax.solvers.tables import Truth

__all__ = [
    "HurryingSolver",
    "MoveOutcomes",
    "Room",
    "SearchingSolver",
    "Solution",
    "Solver",
    "TooLargeError",
    "Wishes",
]

_SHOWN = 10  # positions in the table of a solution


class Solution(NamedTuple):
    """The truth about a batch of positions, each seen by its player to move."""

    value: np.ndarray  # [batch] float32: -1, 0 or 1, or a margin in boxes; NaN where not proven
    optimal: np.ndarray  # [batch, actions] bool: all moves that reach the value; none if not proven, or over
    proven: np.ndarray  # [batch] bool
    seconds: np.ndarray  # [batch] float32, what each position took
    nodes: np.ndarray  # [batch] int64, positions searched for it; 0 for a look-up

    def grid(self, game: Game | None = None) -> tables.Grid:
        """The first positions as a table; moves are numbers unless the game is given, which knows their texts."""
        rows = []
        for number in range(min(_SHOWN, len(self.value))):
            actions = np.flatnonzero(self.optimal[number]).tolist()
            moves = [str(action) if game is None else game.action_to_text(action) for action in actions]
            value = f"{self.value[number]:+g}" if self.proven[number] else "unknown"
            effort = f"{self.seconds[number]:.3g}", f"{int(self.nodes[number]):,}"
            rows.append((str(number), " ".join(moves), value, *effort))
        more = len(self.value) - len(rows)
        return tables.Grid(
            ("position", "optimal moves", "value", "seconds", "nodes"),
            rows,
            words=2,
            notes=(f"... and {more:,} more positions",) if more else (),
        )

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


class Solver(Protocol):
    """An exact solver of one game."""

    game: Game

    def solve(self, states: GameState) -> Solution:
        """Values and all optimal moves of positions [batch, ...]."""

    def value(self, states: GameState) -> np.ndarray:
        """[batch] float32, as in `Solution`."""

    def optimal_actions(self, states: GameState) -> np.ndarray:
        """[batch, actions] bool, as in `Solution`."""


class SearchingSolver(Solver, Protocol):
    """A solver that works position by position, and may know some moves of a position but not all."""

    def move_outcomes(self, states: GameState) -> "MoveOutcomes":
        """What is proven of every move."""


class HurryingSolver(SearchingSolver, Protocol):
    """A solver that also knows how soon games end."""

    def quickest_actions(self, states: GameState) -> np.ndarray:
        """[batch, actions] bool: the moves that win soonest, else draw, else lose latest; none if unknown or over."""

    def move_plies(self, states: GameState) -> np.ndarray:
        """[batch, actions] float32: plies from before each move to the end, if the winner hurries and the loser delays.

        NaN for draws, illegal moves, and what is not proven.
        """


class MoveOutcomes(NamedTuple):
    """Proven bounds of what each move leads to, for who makes it: -1 a loss, 0 a draw, 1 a win; NaN where illegal.

    A move of which nothing is known has -1 and 1. How far a move falls short of the position's value need not be known.
    """

    low: np.ndarray  # [batch, actions] float32
    high: np.ndarray  # [batch, actions] float32


class Wishes(NamedTuple):
    """What people ask of a solver, whatever the game; a game's room takes what concerns it."""

    seconds: float | None = None  # how long a position, or a table, may take
    memory: float = 6e9  # bytes that a table may take
    method: str = "auto"
    processes: int = 1
    path: str | os.PathLike | None = None  # where the solution is kept
    progress: Callable[[int, int], None] | None = None  # called with the work done and the work in all
    distances: bool = True  # whether to know how far positions are from the end, too, where that is an option
    nodes: int | None = None  # positions that may be searched for one, where that can be limited


class Room(Protocol):
    """What is known about solving one game: the functions of the module `room` in its folder."""

    METHODS: tuple[str, ...]  # ways to solve that can be chosen from
    make_solver: Callable[..., Solver]  # (game, **options)
    load_solver: Callable[..., Solver]  # (path, game, **options)
    estimate: Callable[[Game], tuple[float, float]]  # bytes and seconds for the whole board

    def options(self, wishes: Wishes) -> dict[str, Any]:
        """The options of `make_solver` that meet these wishes."""

    def load_options(self, wishes: Wishes) -> dict[str, Any]:
        """The same for `load_solver`."""

    def quick_solver(self, game: Game, all_moves: bool = False) -> Solver:
        """A solver that is there within a minute or two, and may leave positions unproven that would take long.

        For `all_moves` see `azjax.solvers.tables.truth_of`. Raises TooLargeError if there is none.
        """

    def searching_solver(self, game: Game, seconds: float | None) -> SearchingSolver:
        """A solver of single positions, for boards without a table."""

    def seconds_ahead(self, game: Game) -> float:
        """The seconds that a new solver still takes for all openings; 0 if it has taken them when it is there."""

    def first_quick_ply(self, game: Game) -> int:
        """The ply from which on positions of random play are solved quickly; 0 if all are."""

    def solves_openings(self, game: Game) -> bool:
        """Whether the quick solver decides all first moves, one by one, in little time."""

    def finest(self, game: Game) -> Game:
        """The same rules with values that tell the most, such as margins rather than outcomes."""

    def has_table(self, game: Game) -> bool:
        """Whether the whole game can be solved in little time and memory."""

    def truth_of(self, game: Game, all_moves: bool, progress: Callable[[int, int], None] | None) -> "Truth":
        """The truth about a game that has a table; see `azjax.solvers.tables.truth_of`."""
