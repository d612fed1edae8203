"""What is known about solving Chinese Checkers; see `azjax.solvers.core.Room`."""

import contextlib
import dataclasses
import math
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import GameState, without_past
from azjax.solvers import cache
from azjax.solvers.checkers.solver import (
    CheckersSolver,
    codes_at,
    estimate,
    load_solver,
    locate_children,
)
from azjax.solvers.checkers.solver import make_solver as make_table
from azjax.solvers.core import SearchingSolver, TooLargeError, Wishes
from azjax.solvers.tables import Tables, Truth, by_stepping

__all__ = ["METHODS", "estimate", "load_solver", "make_solver"]

METHODS = ("auto",)

_TABLE_SECONDS = 120.0
_WORTH_KEEPING = 20.0  # seconds
_LONGEST = 1000  # more than any distance to the end


def options(wishes: Wishes) -> dict[str, Any]:
    """As `make_solver` takes them."""
    return {
        "distances": wishes.distances,
        "max_bytes": wishes.memory,
        "max_seconds": math.inf if wishes.seconds is None else wishes.seconds,
        "path": wishes.path,
        "progress": wishes.progress,
    }


def load_options(wishes: Wishes) -> dict[str, Any]:
    """None: the file is a whole table."""
    del wishes
    return {}


def make_solver(
    game: ChineseCheckers,
    *,
    distances: bool = True,
    path: str | os.PathLike | None = None,
    **options: Any,
) -> CheckersSolver:
    """A solver by the table in the cache if there is one, else by a new table.

    A table that takes a while is kept, so that agents and judges find it: in the cache or, if a path is given, there.

    Args:
      game: the board, and whether only forward moves count.
      distances: whether the distance to the end is wanted too.
      path: a file that is to hold the table; one that is there already is taken rather than the cache's.
      **options: further ones of `azjax.solvers.checkers.solver.make_solver`, such as `max_seconds`.
    """
    if path is None and (found := find_solver(game, distances=distances)):
        return found
    if path is None and estimate(game, distances)[1] < _WORTH_KEEPING:
        return make_table(game, distances=distances, **options)
    return _kept_table(game, distances, path, **options)


def find_solver(game: ChineseCheckers, *, distances: bool = False) -> CheckersSolver | None:
    """A solver by the table in the cache, which stays on disk; None if there is none.

    Args:
      game: the board, and whether only forward moves count.
      distances: do with nothing that knows no distances.
    """
    light = without_past(game)
    for place in [place_of(game, True), *([] if distances else [place_of(game, False)])]:
        with contextlib.suppress(OSError, ValueError):
            return load_solver(place, light)
    return None


def place_of(game: ChineseCheckers, distances: bool, as_published: bool = False) -> pathlib.Path:
    """Where the cache keeps a table; for `as_published` see `azjax.solvers.checkers.solver.make_solver`."""
    options = {"size": game.size, "pieces": game.pieces, "forward_only": game.forward_only}
    published = {"as_published": True} if as_published else {}
    return cache.path_of(game, options | {"distances": distances} | published)


def quick_solver(game: ChineseCheckers, all_moves: bool = False) -> CheckersSolver:
    """The table in the cache, or one without distances, if that takes two minutes at most."""
    solved = _with_moves(game, all_moves)
    solver = find_solver(solved) or _kept_table(solved, False, max_seconds=_TABLE_SECONDS)
    return CheckersSolver(game, solver.stuck_loses, solver.table)


def searching_solver(game: ChineseCheckers, seconds: float | None) -> SearchingSolver:
    """There is none."""
    raise TooLargeError(f"nobody searches single positions of {game.name}; there are tables alone")


def seconds_ahead(game: ChineseCheckers) -> float:
    """As estimated, if there is no table yet."""
    return 0.0 if find_solver(game) else estimate(game)[1]


def first_quick_ply(game: ChineseCheckers) -> int:
    """The first: all are in the table."""
    del game
    return 0


def solves_openings(game: ChineseCheckers) -> bool:
    """No: first moves hardly differ."""
    del game
    return False


def finest(game: ChineseCheckers) -> ChineseCheckers:
    """The game itself: somebody wins, or nobody."""
    return game


def has_table(game: ChineseCheckers) -> bool:
    """Always: there is no other solver, so this one says what is too large."""
    del game
    return True


def truth_of(game: ChineseCheckers, all_moves: bool, progress: Progress | None) -> Truth:
    """Values are wins and draws; merits tell quick wins from slow ones, if the table knows distances."""
    light = dataclasses.replace(game, repetitions=None)
    solver = _best_solver(_with_moves(light, all_moves), progress)
    tables = {"codes": solver.codes}
    if solver.table.distances is not None:
        tables["distances"] = jax.device_put(solver.table.distances, may_alias=True)
    of_code = np.array([0.0, 1.0, -1.0, -np.inf])  # for who moved there: OPEN, LOSS, WIN, ILLEGAL

    def place_of(x: GameState) -> tuple[jax.Array, jax.Array]:
        legal = light.legal_action_mask(x)
        row, column = locate_children(light, x)
        return jnp.where(legal, row, 0), jnp.where(legal, column, 0)

    def values(tables: Tables, x: GameState) -> jax.Array:
        value = jnp.asarray(of_code, jnp.float32)[codes_at(tables["codes"], *place_of(x))]
        return jnp.where(light.legal_action_mask(x), value, -jnp.inf)

    def merits(tables: Tables, x: GameState) -> jax.Array:
        value = values(tables, x)
        distance = tables["distances"][place_of(x)].astype(jnp.float32)  # bytes would wrap around
        return jnp.where(value == 0, 0.0, value * (_LONGEST - distance))

    def wins_at_once(tables: Tables, x: GameState) -> jax.Array:
        return (values(tables, x) == 1) & (tables["distances"][place_of(x)] == 0)

    def forget(states: GameState) -> GameState:
        return states._replace(history=None)

    if "distances" not in tables:
        return Truth(light, forget, tables, values, values, by_stepping(light), knows_speed=False)

    def plies(merits: np.ndarray) -> np.ndarray:
        return np.where(merits == 0, np.nan, _LONGEST - np.abs(merits) + 1)

    return Truth(light, forget, tables, values, merits, wins_at_once, plies=plies)


def _with_moves(game: ChineseCheckers, all_moves: bool) -> ChineseCheckers:
    return dataclasses.replace(game, forward_only=game.forward_only and not all_moves)


def _best_solver(game: ChineseCheckers, progress: Progress | None) -> CheckersSolver:
    """By a table with distances, unless the board is too large to solve and there is one without."""
    if (found := find_solver(game, distances=True)) is not None:
        return found
    try:
        return _kept_table(game, True, progress=progress)
    except TooLargeError:
        if (found := find_solver(game)) is None:
            raise
        return found


def _kept_table(
    game: ChineseCheckers, distances: bool, path: str | os.PathLike | None = None, **options: Any
) -> CheckersSolver:
    """A new table, kept in a file: the cache's own, or one that the cache remembers."""
    place = place_of(game, distances)
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
    if path is None and not os.access(place.parent, os.W_OK):
        return make_table(game, distances=distances, **options)
    try:
        made = make_table(game, distances=distances, path=place if path is None else path, **options)
    except ValueError as error:
        if path is not None or isinstance(error, TooLargeError):
            raise
        place.unlink()  # damaged, or of another version
        made = make_table(game, distances=distances, path=place, **options)
    if path is not None:
        cache.remember(path, place)
    return made
