"""Exact solvers: the truth about positions small enough to know it.

    solver = make_solver(azjax.envs.Hex(size=6))
    solution = solver.solve(states)  # values and all optimal moves of positions [batch, ...]

Each game has a module with `make_solver`, whose options differ, `load_solver` and `estimate`; see there. They are
imported when they are needed.
"""

import importlib
import os
import types

from azjax.envs.core import Game
from azjax.solvers.core import Solution, Solver, TooLargeError

__all__ = ["Solution", "Solver", "TooLargeError", "estimate", "load_solver", "make_solver"]

_SOLVED = ("hex", "chinese_checkers", "dots_and_boxes")


def make_solver(game: Game, **options) -> Solver:
    """A solver of this game, with the options of `make_solver` in the game's module.

    Raises:
      TooLargeError: the board does not fit; the message says what it would take.
      ValueError: there is no solver for this game.
    """
    return _module_of(game).make_solver(game, **options)


def load_solver(path: str | os.PathLike, game: Game, **options) -> Solver:
    """The solver that was saved to a file; raises ValueError if that is damaged or about another game."""
    return _module_of(game).load_solver(path, game, **options)


def estimate(game: Game) -> tuple[float, float]:
    """Bytes of memory and seconds that it takes to solve the whole board."""
    return _module_of(game).estimate(game)


def _module_of(game: Game) -> types.ModuleType:
    if game.name not in _SOLVED:
        raise ValueError(
            f"there is no exact solver for {game.name}; there are solvers for {', '.join(_SOLVED)}"
        )
    return importlib.import_module(f"azjax.solvers.{game.name}")
