"""What solved games know, in tables that compiled programs can look up.

A table is solved once and kept on disk, in the folder of `azjax.common.cache`. A file that is damaged or out of date is
solved again. Which tables there are is known in the rooms of the games.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.core import Game, GameState
from azjax.solvers import cache, files, has_solver, room_of

Tables = dict[str, jax.Array]

_FORMAT = 2  # changes whenever the content of the cached files does


class Truth(NamedTuple):
    """Who wins where, for one position at a time. Values are seen by the player to move; -inf for illegal actions."""

    game: Game  # the same rules without memory of what came before
    forget: Callable[[GameState], GameState]
    """Positions of the game as it is played, as positions of `game`."""
    tables: Tables
    values: Callable[[Tables, GameState], jax.Array]
    """(tables, position) -> [actions] what each move leads to, counted as the game's rewards are."""
    merits: Callable[[Tables, GameState], jax.Array]
    """Likewise, but telling quick wins from slow ones and large margins from small ones where the table does."""
    wins_at_once: Callable[[Tables, GameState], jax.Array]
    """(tables, position) -> [actions] bool, the moves that end the game with a win."""
    knows_speed: bool = True  # whether `merits` tell quick wins from slow ones
    plies: Callable[[np.ndarray], np.ndarray] | None = None
    """(merits) -> plies from before a move to the end, if the winner hurries and the loser delays; NaN for draws.
    None where merits are margins, or tell nothing of it."""


def has_table(game: Game) -> bool:
    """Whether the whole game can be solved in little time and memory."""
    return has_solver(game) and room_of(game).has_table(game)


def truth_of(game: Game, *, all_moves: bool = False, progress: Progress | None = None) -> Truth:
    """The truth about a game that `has_table`.

    Args:
      game: the rules.
      all_moves: in Chinese Checkers, whether to take the values of the game with moves in all directions although
        only forward ones are played, as Karki 2024 does.
      progress: called while a table is solved.

    Raises:
      TooLargeError: the game takes too much time or memory; the message says how much.
    """
    return room_of(game).truth_of(game, all_moves, progress)


def kept(
    game: Game, options: dict[str, Any], shapes: Callable[[], dict], solve: Callable[[], dict]
) -> Tables:
    """The arrays of these shapes and types, from the cache; if they are not there, solved and put there."""
    header = {"format": _FORMAT, "game": game.name, "version": game.version, **options}
    path = cache.path_of(game, options)
    with contextlib.suppress(OSError, ValueError):
        _, arrays = files.read(path, header)
        if {name: (array.shape, array.dtype) for name, array in arrays.items()} == shapes():
            return {name: jnp.asarray(array) for name, array in arrays.items()}
    arrays = {name: np.asarray(array) for name, array in solve().items()}
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, header, arrays)
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def after_each(game: Game, x: GameState) -> GameState:
    """The positions [actions, ...] after each action; without meaning where it is illegal."""
    return jax.vmap(game.step, (None, 0))(x, jnp.arange(game.num_actions))


def by_stepping(game: Game) -> Callable[[Tables, GameState], jax.Array]:
    """`Truth.wins_at_once` of a game, found by making every move."""

    def wins_at_once(tables: Tables, x: GameState) -> jax.Array:
        del tables
        after = after_each(game, x)
        won = jax.vmap(game.rewards)(after)[:, x.current_player] > 0
        return won & jax.vmap(game.is_terminal)(after) & game.legal_action_mask(x)

    return wins_at_once
