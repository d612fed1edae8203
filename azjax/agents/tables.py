"""What solved games know, in tables that compiled programs can look up.

A table is solved once and kept on disk: in the folder that the environment variable AZJAX_CACHE names, else in
`azjax` below XDG_CACHE_HOME or ~/.cache. A file that is damaged or out of date is solved again.
"""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.agents.core import Progress
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.solvers import chinese_checkers, dots_and_boxes, files, hex_tables
from azjax.solvers.checkers_ranking import ranking_of
from azjax.solvers.checkers_retrograde import PER_WORD

Tables = dict[str, jax.Array]

_FORMAT = 1  # changes whenever the content of the cached files does
_LONGEST = 1000  # more than any distance to the end


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


def has_table(game: Game) -> bool:
    """Whether the whole game can be solved in little time and memory."""
    if isinstance(game, Hex):
        return game.size <= hex_tables.MAX_SIZE
    if isinstance(game, DotsAndBoxes):
        return game.num_actions <= dots_and_boxes.AUTO_LINES
    return isinstance(game, ChineseCheckers)  # there is no other solver, so this one says what is too large


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
    if isinstance(game, Hex):
        return _hex(game, progress)
    if isinstance(game, DotsAndBoxes):
        return _dots_and_boxes(game, progress)
    return _chinese_checkers(game, all_moves, progress)


def cache_folder() -> pathlib.Path:
    """Where solved tables are kept."""
    if folder := os.environ.get("AZJAX_CACHE"):
        return pathlib.Path(folder)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "azjax"


def _kept(
    game: Game, options: dict[str, Any], shapes: Callable[[], dict], solve: Callable[[], dict]
) -> Tables:
    """The arrays of these shapes and types, from the cache; if they are not there, solved and put there."""
    header = {"format": _FORMAT, "game": game.name, "version": game.version, **options}
    name = "-".join([game.name, *(f"{option}_{value}" for option, value in options.items())])
    path = cache_folder() / f"{name}.npz"
    with contextlib.suppress(OSError, ValueError):
        _, arrays = files.read(path, header)
        if {name: (array.shape, array.dtype) for name, array in arrays.items()} == shapes():
            return {name: jnp.asarray(array) for name, array in arrays.items()}
    arrays = {name: np.asarray(array) for name, array in solve().items()}
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, header, arrays)
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def _hex(game: Hex, progress: Progress | None) -> Truth:
    tables = _kept(
        game,
        {"size": game.size},
        lambda: {"values": ((hex_tables.table_size(game.size),), np.int8)},
        lambda: {"values": hex_tables.solve_tables(game.size, progress)},
    )
    cells = game.size**2

    def values(tables: Tables, x: GameState) -> jax.Array:
        legal = game.legal_action_mask(x)
        batch = jax.tree.map(lambda leaf: leaf[None], x)
        answer = hex_tables.look_up(
            game.size, tables["values"], jnp.sign(batch.board), batch.current_player, batch.over
        )
        wins = answer.optimal[0] & (answer.value[0] > 0)  # by stones
        if game.swap:
            # The swap wins exactly if no stone does. So on an empty board whatever Black does loses, unless the
            # first stone ends the game.
            wins = jnp.append(wins & (jnp.any(x.board != 0) | (cells == 1)), ~jnp.any(wins))
        return jnp.where(legal, jnp.where(wins, 1.0, -1.0), -jnp.inf)

    return Truth(game, lambda states: states, tables, values, values, _by_stepping(game))


def _dots_and_boxes(game: DotsAndBoxes, progress: Progress | None) -> Truth:
    tables = _kept(
        game,
        {"rows": game.rows, "columns": game.columns},
        lambda: {"margins": ((2**game.num_actions,), np.int8)},
        lambda: {"margins": dots_and_boxes.solve_table(game, progress=progress).ravel()},
    )
    bits = 1 << np.arange(game.num_actions)  # a set of lines is a number, and its place in the table

    def margin(tables: Tables, x: GameState) -> jax.Array:
        # The final margin for the player to move.
        return game.margin(x) + tables["margins"][jnp.sum(jnp.where(x.lines, bits, 0))]

    def merits(tables: Tables, x: GameState) -> jax.Array:
        after = _after(game, x)
        margins = jax.vmap(margin, (None, 0))(tables, after)
        margins = jnp.where(after.current_player == x.current_player, margins, -margins)
        return jnp.where(x.lines, -jnp.inf, margins.astype(jnp.float32))

    def values(tables: Tables, x: GameState) -> jax.Array:
        if game.reward == "margin":
            return merits(tables, x) / game.num_boxes
        outcome = jnp.sign(merits(tables, x))
        return jnp.where(x.lines, -jnp.inf, outcome)

    return Truth(game, lambda states: states, tables, values, merits, _by_stepping(game))


def _chinese_checkers(game: ChineseCheckers, all_moves: bool, progress: Progress | None) -> Truth:
    light = dataclasses.replace(game, repetitions=None)
    solved = dataclasses.replace(light, forward_only=game.forward_only and not all_moves)

    def solve() -> dict[str, np.ndarray]:
        table = chinese_checkers.make_solver(solved, progress=progress).table
        return {"codes": table.codes, "distances": table.distances}

    def shapes() -> dict:
        ranking = ranking_of(solved)
        return {
            "codes": ((ranking.rows, -(-ranking.columns // PER_WORD)), np.uint32),
            "distances": ((ranking.rows, ranking.columns), np.uint8),
        }

    options = {"size": game.size, "pieces": game.pieces, "forward_only": solved.forward_only}
    tables = _kept(game, options, shapes, solve)
    of_code = np.array([0.0, 1.0, -1.0, -np.inf])  # for who moved there: OPEN, LOSS, WIN, ILLEGAL

    def look_up(tables: Tables, x: GameState) -> tuple[jax.Array, jax.Array]:
        # Values and distances to the end after each action.
        legal = light.legal_action_mask(x)
        row, column = chinese_checkers.locate_children(light, x)
        row, column = jnp.where(legal, row, 0), jnp.where(legal, column, 0)
        value = jnp.asarray(of_code, jnp.float32)[chinese_checkers.codes_at(tables["codes"], row, column)]
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


def _after(game: Game, x: GameState) -> GameState:
    # The positions [actions, ...] after each action; without meaning where it is illegal.
    return jax.vmap(game.step, (None, 0))(x, jnp.arange(game.num_actions))


def _by_stepping(game: Game) -> Callable[[Tables, GameState], jax.Array]:
    def wins_at_once(tables: Tables, x: GameState) -> jax.Array:
        del tables
        after = _after(game, x)
        won = jax.vmap(game.rewards)(after)[:, x.current_player] > 0
        return won & jax.vmap(game.is_terminal)(after) & game.legal_action_mask(x)

    return wins_at_once
