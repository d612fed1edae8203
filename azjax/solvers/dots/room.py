"""What is known about solving Dots and Boxes; see `azjax.solvers.core.Room`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.core import GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.solvers.core import SearchingSolver, Solver, Wishes
from azjax.solvers.dots import solver as dots_solver
from azjax.solvers.dots.solver import AUTO_LINES, METHODS, estimate, load_solver, make_solver
from azjax.solvers.tables import Tables, Truth, after_each, by_stepping, kept

__all__ = ["METHODS", "estimate", "load_solver", "make_solver"]

_SEARCH_SECONDS = 0.5
_OPEN_LINES = 24  # that are searched quickly


def options(wishes: Wishes) -> dict[str, Any]:
    """As `make_solver` takes them."""
    return {
        "seconds": wishes.seconds,
        "method": wishes.method,
        "memory": int(wishes.memory),
        "progress": wishes.progress,
    }


def load_options(wishes: Wishes) -> dict[str, Any]:
    """None: the file is a whole table."""
    del wishes
    return {}


def quick_solver(game: DotsAndBoxes, all_moves: bool = False) -> Solver:
    """With half a second for each position of boards without a table."""
    del all_moves
    return make_solver(game, seconds=_SEARCH_SECONDS)


def searching_solver(game: DotsAndBoxes, seconds: float | None) -> SearchingSolver:
    """For boards beyond the tables."""
    return make_solver(game, method="search", seconds=seconds)


def seconds_ahead(game: DotsAndBoxes) -> float:
    """None: a table is solved when it is made, and what a search takes nobody knows before."""
    del game
    return 0.0


def first_quick_ply(game: DotsAndBoxes) -> int:
    """When few lines are open."""
    return max(0, game.num_actions - _OPEN_LINES)


def solves_openings(game: DotsAndBoxes) -> bool:
    """No: first moves hardly differ."""
    del game
    return False


def finest(game: DotsAndBoxes) -> DotsAndBoxes:
    """With margins in boxes for values."""
    return dataclasses.replace(game, reward="margin")


def has_table(game: DotsAndBoxes) -> bool:
    """Up to 24 lines."""
    return game.num_actions <= AUTO_LINES


def truth_of(game: DotsAndBoxes, all_moves: bool, progress: Progress | None) -> Truth:
    """Values follow the game's reward; merits are margins."""
    del all_moves
    tables = kept(
        game,
        {"rows": game.rows, "columns": game.columns},
        lambda: {"margins": ((2**game.num_actions,), np.int8)},
        lambda: {"margins": dots_solver.solve_table(game, progress=progress).ravel()},
    )
    bits = 1 << np.arange(game.num_actions)  # a set of lines is a number, and its place in the table

    def margin(tables: Tables, x: GameState) -> jax.Array:
        # The final margin for the player to move.
        return game.margin(x) + tables["margins"][jnp.sum(jnp.where(x.lines, bits, 0))]

    def merits(tables: Tables, x: GameState) -> jax.Array:
        after = after_each(game, x)
        margins = jax.vmap(margin, (None, 0))(tables, after)
        margins = jnp.where(after.current_player == x.current_player, margins, -margins)
        return jnp.where(x.lines, -jnp.inf, margins.astype(jnp.float32))

    def values(tables: Tables, x: GameState) -> jax.Array:
        if game.reward == "margin":
            return merits(tables, x) / game.num_boxes
        outcome = jnp.sign(merits(tables, x))
        return jnp.where(x.lines, -jnp.inf, outcome)

    return Truth(game, lambda states: states, tables, values, merits, by_stepping(game))
