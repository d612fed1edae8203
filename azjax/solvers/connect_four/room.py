"""What is known about solving Connect Four; see `azjax.solvers.core.Room`."""

from typing import Any, NoReturn

from azjax.common.progress import Progress
from azjax.envs.core import Game
from azjax.solvers.connect_four.solver import ConnectFourSolver, estimate, load_solver, make_solver
from azjax.solvers.core import TooLargeError, Wishes

__all__ = ["METHODS", "estimate", "load_solver", "make_solver"]

METHODS = ("auto",)

_SEARCH_SECONDS = 0.5
_QUICK_STONES = 8  # from here on, half of the positions of random play take less than half a second


def options(wishes: Wishes) -> dict[str, Any]:
    """As `make_solver` takes them."""
    return {"nodes": wishes.nodes, "seconds": wishes.seconds, "progress": wishes.progress}


def load_options(wishes: Wishes) -> dict[str, Any]:
    """The same: what is not in the file is searched."""
    return options(wishes)


def quick_solver(game: Game, all_moves: bool = False) -> ConnectFourSolver:
    """With half a second for each position."""
    del all_moves
    return make_solver(game, seconds=_SEARCH_SECONDS)


def searching_solver(game: Game, seconds: float | None) -> ConnectFourSolver:
    """The only kind."""
    return make_solver(game, seconds=seconds)


def seconds_ahead(game: Game) -> float:
    """As estimated: the solver starts to work with the first question."""
    return estimate(game)[1]


def first_quick_ply(game: Game) -> int:
    """When a few stones lie."""
    del game
    return _QUICK_STONES


def solves_openings(game: Game) -> bool:
    """No: they take minutes."""
    del game
    return False


def finest(game: Game) -> Game:
    """The game itself: somebody wins, or nobody."""
    return game


def has_table(game: Game) -> bool:
    """No: there are 4,531,985,219,092 positions."""
    del game
    return False


def truth_of(game: Game, all_moves: bool, progress: Progress | None) -> NoReturn:
    """There is none."""
    del all_moves, progress
    raise TooLargeError(
        f"{game.name} has no table, for it has too many positions; a solver searches single ones"
    )
