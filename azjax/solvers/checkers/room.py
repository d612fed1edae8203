"""What is known about solving Chinese Checkers; see `azjax.solvers.core.Room`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.checkers_ranking import ranking_of
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import GameState
from azjax.solvers.checkers.retrograde import PER_WORD
from azjax.solvers.checkers.solver import (
    CheckersSolver,
    codes_at,
    estimate,
    load_solver,
    locate_children,
    make_solver,
)
from azjax.solvers.core import SearchingSolver, TooLargeError, Wishes
from azjax.solvers.tables import Tables, Truth, kept

__all__ = ["METHODS", "estimate", "load_solver", "make_solver"]

METHODS = ("auto",)

_TABLE_SECONDS = 120.0
_LONGEST = 1000  # more than any distance to the end


def options(wishes: Wishes) -> dict[str, Any]:
    """As `make_solver` takes them."""
    limit = {} if wishes.seconds is None else {"max_seconds": wishes.seconds}
    return {"max_bytes": wishes.memory, "path": wishes.path, "progress": wishes.progress} | limit


def load_options(wishes: Wishes) -> dict[str, Any]:
    """None: the file is a whole table."""
    del wishes
    return {}


def quick_solver(game: ChineseCheckers) -> CheckersSolver:
    """A table without distances, if that takes two minutes at most."""
    return make_solver(game, distances=False, max_seconds=_TABLE_SECONDS)


def searching_solver(game: ChineseCheckers, seconds: float | None) -> SearchingSolver:
    """There is none."""
    raise TooLargeError(f"nobody searches single positions of {game.name}; there are tables alone")


def seconds_ahead(game: ChineseCheckers) -> float:
    """None: the table is solved when it is made."""
    del game
    return 0.0


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
    """Values are wins and draws; merits tell quick wins from slow ones."""
    light = dataclasses.replace(game, repetitions=None)
    solved = dataclasses.replace(light, forward_only=game.forward_only and not all_moves)

    def solve() -> dict[str, np.ndarray]:
        table = make_solver(solved, progress=progress).table
        return {"codes": table.codes, "distances": table.distances}

    def shapes() -> dict:
        ranking = ranking_of(solved)
        return {
            "codes": ((ranking.rows, -(-ranking.columns // PER_WORD)), np.uint32),
            "distances": ((ranking.rows, ranking.columns), np.uint8),
        }

    options = {"size": game.size, "pieces": game.pieces, "forward_only": solved.forward_only}
    tables = kept(game, options, shapes, solve)
    of_code = np.array([0.0, 1.0, -1.0, -np.inf])  # for who moved there: OPEN, LOSS, WIN, ILLEGAL

    def look_up(tables: Tables, x: GameState) -> tuple[jax.Array, jax.Array]:
        # Values and distances to the end after each action.
        legal = light.legal_action_mask(x)
        row, column = locate_children(light, x)
        row, column = jnp.where(legal, row, 0), jnp.where(legal, column, 0)
        value = jnp.asarray(of_code, jnp.float32)[codes_at(tables["codes"], row, column)]
        return jnp.where(legal, value, -jnp.inf), tables["distances"][row, column].astype(jnp.float32)

    def values(tables: Tables, x: GameState) -> jax.Array:
        return look_up(tables, x)[0]

    def merits(tables: Tables, x: GameState) -> jax.Array:
        value, distance = look_up(tables, x)
        return jnp.where(value == 0, 0.0, value * (_LONGEST - distance))

    def wins_at_once(tables: Tables, x: GameState) -> jax.Array:
        value, distance = look_up(tables, x)
        return (value == 1) & (distance == 0)

    return Truth(light, lambda states: states._replace(history=None), tables, values, merits, wins_at_once)
