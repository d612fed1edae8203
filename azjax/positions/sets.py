"""Batches of positions as sets: which are the same, what follows them, all that a game can reach.

Positions here are numpy pytrees [batch, ...]. Two positions are the same if what can still happen is the same: how
many plies it took to get there, and which boards came before, does not count.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from azjax.common.memory import TooLargeError
from azjax.envs import core
from azjax.envs.core import Game, GameState

_ROWS_PER_CALL = 4096
_SIZES = (64, 1024)
_NO_EDGES = (np.zeros(0, np.int32),) * 3


class Graph(NamedTuple):
    """Positions and the moves between them; position 0 is the start."""

    states: GameState  # [positions, ...]
    parent: np.ndarray  # [edges] int32, sorted
    action: np.ndarray  # [edges] int32
    child: np.ndarray  # [edges] int32


class Successors(NamedTuple):
    """Positions one move away."""

    states: GameState  # [edges, ...]
    parent: np.ndarray  # [edges] int32, the row of the position before; sorted
    action: np.ndarray  # [edges] int32


def size_of(states: GameState) -> int:
    """How many positions a batch holds."""
    return len(states.current_player)


def rows(states: GameState, which: np.ndarray | slice) -> GameState:
    """Some positions of a batch, by number or by mask."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[which], states)


def concatenate(batches: Sequence[GameState]) -> GameState:
    """Batches behind each other."""
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *batches)


def start_of(game: Game) -> GameState:
    """The starting position, as a batch of one."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], game.init(jax.random.key(0)))


def keys_of(states: GameState) -> np.ndarray:
    """[batch] bytes, equal exactly where the positions are the same."""
    columns = [
        np.ascontiguousarray(leaf)
        for field in states._fields
        if field not in ("ply", "history")
        for leaf in jax.tree.leaves(getattr(states, field))  # one, but for the games of pgx
    ]
    columns = [column.reshape(len(column), math.prod(column.shape[1:])).view(np.uint8) for column in columns]
    wide = np.concatenate(columns, axis=1)
    return np.ascontiguousarray(wide).view(f"S{wide.shape[1]}").ravel()


def views_of(game: Game, states: GameState, symmetries: bool = True) -> np.ndarray:
    """[batch] bytes: what a network is shown of each position; of all symmetric views the one that sorts first.

    Without `symmetries`, the position as it stands.
    """
    tables = game.symmetries.observation[: None if symmetries else 1]
    observe, parts, size = _observe(game), [np.zeros(0, "S1")], _ROWS_PER_CALL
    for begin in range(0, size_of(states), size):
        seen = in_parts(observe, rows(states, slice(begin, begin + size)))
        seen[seen == 0] = 0  # a negative zero looks the same
        turned = np.ascontiguousarray(seen.reshape(len(seen), -1)[:, tables]).view(np.uint8)
        parts.append(np.sort(turned.view(f"S{turned.shape[-1]}")[..., 0], axis=1)[:, 0])
    return np.concatenate(parts)


def first_of_each(states: GameState) -> np.ndarray:
    """[distinct] int: the row where each distinct position occurs first, in order."""
    _, first = np.unique(keys_of(states), return_index=True)
    return np.sort(first)


def is_in(states: GameState, others: GameState) -> np.ndarray:
    """[batch] bool: which positions also occur in another batch."""
    return np.isin(keys_of(states), keys_of(others))


def in_parts(
    function: Callable, states: GameState, *arguments: np.ndarray, rows_per_call: int = _ROWS_PER_CALL
):
    """What a compiled function says of positions [batch, ...], asked some at a time.

    Args:
      function: (states [n, ...], *arguments [n, ...]) -> a pytree of [n, ...].
      states: the positions.
      arguments: what else it takes, a row per position.
      rows_per_call: how many at a time. Batches are padded to one of few sizes, so that few programs are compiled.
    """
    number = size_of(states)
    if number == 0:
        one_row = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype), (states, *arguments))
        shapes = jax.eval_shape(function, *one_row)
        return jax.tree.map(lambda shape: np.zeros((0, *shape.shape[1:]), shape.dtype), shapes)
    size = min([rows_per_call, *(size for size in _SIZES if size >= number)])
    answers = []
    for begin in range(0, number, size):
        which = np.minimum(np.arange(begin, begin + size), number - 1)
        answer = function(rows(states, which), *(np.asarray(argument)[which] for argument in arguments))
        answers.append(jax.tree.map(lambda leaf, begin=begin: np.asarray(leaf)[: number - begin], answer))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *answers)


def legal_moves(game: Game, states: GameState) -> np.ndarray:
    """[batch, actions] bool."""
    return in_parts(_legal(game), states)


def is_over(game: Game, states: GameState) -> np.ndarray:
    """[batch] bool."""
    return in_parts(_over(game), states)


def step(game: Game, states: GameState, actions: np.ndarray) -> GameState:
    """The positions after one move in each."""
    return in_parts(_step(game), states, np.asarray(actions, np.int32))


def successors(game: Game, states: GameState, moves: np.ndarray | None = None) -> Successors:
    """The positions after every legal move, or after those that a mask [batch, actions] allows."""
    moves = legal_moves(game, states) if moves is None else moves
    parent, action = (index.astype(np.int32) for index in np.nonzero(moves))
    return Successors(step(game, rows(states, parent), action), parent, action)


def explore(
    game: Game,
    choose: Callable[[GameState], np.ndarray] | None = None,
    *,
    with_moves: bool = True,
    limit: int = 2_000_000,
    progress: Callable[[int], None] = lambda found: None,
) -> Graph:
    """Everything that can be reached from the start.

    Args:
      game: the rules.
      choose: (states [n, ...]) -> [n, actions] bool, the moves to follow; default all legal ones.
      with_moves: whether to keep the moves between the positions, too; else the graph has none.
      limit: raises TooLargeError beyond so many positions.
      progress: called with the number of positions found so far.
    """
    layer = start_of(game)
    layers, edges, count = [layer], [_NO_EDGES], 1
    known, numbers = keys_of(layer), np.zeros(1, np.int64)  # sorted keys, and the number of each position
    while size_of(layer):
        first = count - size_of(layer)
        after = successors(game, layer, legal_moves(game, layer) if choose is None else choose(layer))
        keys, row, which = np.unique(keys_of(after.states), return_index=True, return_inverse=True)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        is_new = known[place] != keys
        number = numbers[place]
        number[is_new] = count + np.arange(np.sum(is_new))
        if with_moves:
            edges.append((first + after.parent, after.action, number[which]))
        layer = rows(after.states, row[is_new])
        layers.append(layer)
        count += size_of(layer)
        progress(count)
        if count > limit:
            raise TooLargeError(
                f"more than {limit:,} positions can be reached; take a smaller board, or a sample of positions"
            )
        at = np.searchsorted(known, keys[is_new])
        known, numbers = np.insert(known, at, keys[is_new]), np.insert(numbers, at, number[is_new])
    parent, action, child = (np.concatenate(column).astype(np.int32) for column in zip(*edges))
    return Graph(concatenate(layers), parent, action, child)


def random_games(game: Game, key: jax.Array, games: int) -> tuple[GameState, np.ndarray]:
    """Positions [games, max_plies, ...] of random play, and [games, max_plies] bool: the game is not over there."""
    states = core.random_games(game, key, games)
    states = jax.tree.map(lambda leaf: np.swapaxes(np.asarray(leaf), 0, 1), states)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
    return states, ~is_over(game, flat).reshape(games, -1)


@functools.cache
def _observe(game: Game) -> Callable:
    return jax.jit(jax.vmap(game.observe))


@functools.cache
def _legal(game: Game) -> Callable:
    return jax.jit(jax.vmap(game.legal_action_mask))


@functools.cache
def _over(game: Game) -> Callable:
    return jax.jit(jax.vmap(game.is_terminal))


@functools.cache
def _step(game: Game) -> Callable:
    return jax.jit(jax.vmap(game.step))
