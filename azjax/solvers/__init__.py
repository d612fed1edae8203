"""Exact solvers: the truth about positions small enough to know it.

    solver = make_solver(azjax.envs.Hex(size=6))
    solution = solver.solve(states)  # values and all optimal moves of positions [batch, ...]

Each game that can be solved has a room of its own, whose module `room` answers the questions of `core.Room`; see there.
Rooms are imported when they are needed.
"""

import importlib
import os
from typing import Any

from azjax.envs.core import Game
from azjax.solvers.core import Room, Solution, Solver, TooLargeError

__all__ = [
    "Solution",
    "Solver",
    "TooLargeError",
    "estimate",
    "has_solver",
    "load_solver",
    "make_solver",
    "room_of",
    "solved_games",
]

_ROOMS = {
    "hex": "hex",
    "chinese_checkers": "checkers",
    "dots_and_boxes": "dots",
    "connect_four": "connect_four",
}  # of the games that have a solver


def solved_games() -> tuple[str, ...]:
    """The names of the games that have a solver."""
    return tuple(_ROOMS)


def has_solver(game: Game) -> bool:
    """Whether there is a solver for this game, if perhaps not for this board."""
    return game.name in _ROOMS


def room_of(game: Game) -> Room:
    """What is known about solving this game; raises ValueError if there is no solver for it."""
    if not has_solver(game):
        raise ValueError(
            f"there is no exact solver for {game.name}; there are solvers for {', '.join(solved_games())}"
        )
    return importlib.import_module(f"azjax.solvers.{_ROOMS[game.name]}.room")


def make_solver(game: Game, **options: Any) -> Solver:
    """A solver of this game, with the options of `make_solver` in the game's module.

    Raises:
      TooLargeError: the board does not fit; the message says what it would take.
      ValueError: there is no solver for this game.
    """
    return room_of(game).make_solver(game, **options)


def load_solver(path: str | os.PathLike, game: Game, **options: Any) -> Solver:
    """The solver that was saved to a file; raises ValueError if that is damaged or about another game."""
    return room_of(game).load_solver(path, game, **options)


def estimate(game: Game) -> tuple[float, float]:
    """Bytes of memory and seconds that it takes to solve the whole board."""
    return room_of(game).estimate(game)
