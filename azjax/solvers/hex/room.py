"""What is known about solving Hex; see `azjax.solvers.core.Room`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.core import GameState
from azjax.envs.hex import Hex
from azjax.solvers.core import Wishes
from azjax.solvers.hex import tables as hex_tables
from azjax.solvers.hex.solver import HexSolver, estimate, load_solver, make_solver
from azjax.solvers.tables import Tables, Truth, by_stepping, kept

__all__ = ["METHODS", "estimate", "load_solver", "make_solver"]

METHODS = ("auto",)

_SEARCHED_SIZE = 7  # from this size on, Hex is solved only where that is quick
_SEARCH_SECONDS = 0.5


def options(wishes: Wishes) -> dict[str, Any]:
    """As `make_solver` takes them."""
    return {
        "nodes": wishes.nodes,
        "seconds": wishes.seconds,
        "processes": wishes.processes,
        "progress": wishes.progress,
    }


def load_options(wishes: Wishes) -> dict[str, Any]:
    """The same: what is not in the file is searched."""
    return options(wishes)


def quick_solver(game: Hex, all_moves: bool = False) -> HexSolver:
    """With half a second for each position of large boards."""
    del all_moves
    return make_solver(game, seconds=_SEARCH_SECONDS if game.size >= _SEARCHED_SIZE else None)


def searching_solver(game: Hex, seconds: float | None) -> HexSolver:
    """For boards beyond the tables."""
    return make_solver(game, seconds=seconds)


def seconds_ahead(game: Hex) -> float:
    """As estimated: the solver starts to work with the first question."""
    return estimate(game)[1]


def first_quick_ply(game: Hex) -> int:
    """When a third of a large board is full."""
    return game.size**2 // 3 if game.size >= _SEARCHED_SIZE else 0


def solves_openings(game: Hex) -> bool:
    """On boards that are solved whole, if there is more than one first move."""
    return 1 < game.size < _SEARCHED_SIZE


def finest(game: Hex) -> Hex:
    """The game itself: somebody wins."""
    return game


def has_table(game: Hex) -> bool:
    """Up to 4x4."""
    return game.size <= hex_tables.MAX_SIZE


def truth_of(game: Hex, all_moves: bool, progress: Progress | None) -> Truth:
    """Values are wins; merits tell quick wins from slow ones."""
    del all_moves
    tables = kept(
        game,
        {"size": game.size},
        lambda: {"scores": ((hex_tables.table_size(game.size),), np.int8)},
        lambda: {"scores": hex_tables.solve_tables(game.size, progress)},
    )

    def merits(tables: Tables, x: GameState) -> jax.Array:
        batch = jax.tree.map(lambda leaf: leaf[None], x)
        answer = hex_tables.look_up(
            game.size, tables["scores"], jnp.sign(batch.board), batch.current_player, batch.over
        )
        scores = answer.scores[0]
        if game.swap:
            # Whoever takes the first stone over has the position of who placed it. So a first stone that would win
            # loses to the swap, a ply later; unless it ends the game, as on 1x1.
            first = ~jnp.any(x.board != 0) & (game.size > 1)
            scores = jnp.where(first & (scores > 0), hex_tables.before(scores), scores)
            scores = jnp.append(scores, hex_tables.before(answer.score[0]))
        return jnp.where(game.legal_action_mask(x), scores.astype(jnp.float32), -jnp.inf)

    def values(tables: Tables, x: GameState) -> jax.Array:
        scores = merits(tables, x)
        return jnp.where(jnp.isinf(scores), scores, jnp.sign(scores))

    def plies(merits: np.ndarray) -> np.ndarray:
        return hex_tables.SOONEST - np.abs(merits)

    return Truth(game, lambda states: states, tables, values, merits, by_stepping(game), plies=plies)
