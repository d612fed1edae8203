"""Complete tables of Hex up to 4x4: who wins every position and how soon, as a JAX program.

A position with s stones is a pair of small sets: which s of the cells are taken, and which of those stones are
black. Numbering both among the sets of their size ranks the positions of a layer without a gap, 10.2 million on
4x4 in all. `solve_tables` fills the layers from the full board to the empty one; `look_up` answers for batches.

A score says who wins and in how many plies, if the winner hurries and the loser delays: a win in n plies is
`SOONEST` - n, a loss in n plies the opposite. So the player to move always wants the highest score.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs import hex as hex_game

MAX_SIZE = 4
SOONEST = 32  # more than the plies of any game


class Answer(NamedTuple):
    """What the table knows of a batch of positions."""

    value: jax.Array  # [batch] int8: 1 the player to move wins, -1 loses
    optimal: jax.Array  # [batch, cells] bool: the stones that reach the value; none if the game is over
    score: jax.Array  # [batch] int8, of the position, for the player to move
    scores: (
        jax.Array
    )  # [batch, cells] int8, of each stone, for who places it; without meaning where it is illegal


def table_size(size: int) -> int:
    """Positions of all layers, which is also the bytes of the table."""
    return layer_offsets(size)[-1]


@functools.cache
def layer_offsets(size: int) -> tuple[int, ...]:
    """Where the positions of each number of stones begin in the table, and where the last ones end."""
    cells = size * size
    sizes = [math.comb(cells, stones) * math.comb(stones, stones // 2) for stones in range(cells + 1)]
    return (0, *itertools.accumulate(sizes))


def solve_tables(size: int, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """Scores of all positions, layer by layer from the full board; rows are spread over the devices of this process.

    Args:
      progress: called with the layers done and the layers in all.

    Returns:
      [table_size] int8, scores for the player to move; 0 where no game leads.
    """
    cells = size * size
    mesh = jax.sharding.Mesh(jax.local_devices(), "rows")  # other processes may be busy with something else
    by_row = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    sets = jax.tree.map(jnp.asarray, _sets(size))
    layers = [jnp.zeros((1, 1), jnp.int8)]  # behind the full board; never looked at
    for stones in range(cells, -1, -1):
        taken = _sets_of_size(cells, stones)
        padding = -len(taken) % mesh.size
        rows = jax.device_put(np.concatenate([taken, np.repeat(taken[:1], padding)]), by_row)
        values = _solve_layer(size, stones, rows, layers[-1], sets)
        layers.append(jax.device_get(values)[: len(taken)])
        if progress is not None:
            progress(cells + 1 - stones, cells + 1)
    return np.concatenate([layer.ravel() for layer in reversed(layers[1:])])


@functools.partial(jax.jit, static_argnums=0)
def look_up(size: int, table: jax.Array, board: jax.Array, player: jax.Array, over: jax.Array) -> Answer:
    """Values, optimal moves and scores of positions.

    Args:
      table: of `solve_tables`.
      board: [batch, cells] int8, the sign of a stone is its colour: 1 Black, 0 none, -1 White.
      player: [batch] int32, who moves.
      over: [batch] bool.
    """
    cells = size * size
    # After a swap White has the stone that else is Black's: the mirror image with the colours exchanged is an
    # ordinary position again, and so is in the table.
    swapped = jnp.sum(board, axis=-1) != player
    given = board
    transposed = -board.reshape(-1, size, size).transpose(0, 2, 1).reshape(-1, cells)
    board = jnp.where(swapped[:, None], transposed, board)
    player = jnp.where(swapped, 1 - player, player)

    bits = jnp.int32(1) << jnp.arange(cells)
    black = jnp.sum(jnp.where(board > 0, bits, 0), axis=-1)
    white = jnp.sum(jnp.where(board < 0, bits, 0), axis=-1)
    score = table[_index(size, black, white)]
    value = jnp.sign(score)
    mover_is_black = (player == 0)[:, None]
    next_black = black[:, None] | jnp.where(mover_is_black, bits, 0)
    next_white = white[:, None] | jnp.where(mover_is_black, 0, bits)
    scores = before(table[_index(size, next_black, next_white)])
    mirrored = scores.reshape(-1, size, size).transpose(0, 2, 1).reshape(-1, cells)
    scores = jnp.where(swapped[:, None], mirrored, scores)
    legal = (given == 0) & ~over[:, None]
    return Answer(value, legal & (jnp.sign(scores) == value[:, None]), score, scores)


def before(score: jax.Array) -> jax.Array:
    """The scores of moves, for who makes them, from the scores of the positions that they lead to."""
    return jnp.sign(score) - score  # one ply more, seen from the other side


class _Sets(NamedTuple):
    """Facts about all sets of cells, each a number whose bits are its cells."""

    rank: np.ndarray  # [2^cells] int32, among the sets of its size
    joins: np.ndarray  # [2, 2^cells] bool, the two sides of this player
    ends: np.ndarray  # [2, 2^cells] bool, joins them, and some stone may have been the last to do so


@functools.cache
def _sets(size: int) -> _Sets:
    cells = size * size
    rank = np.zeros(1 << cells, np.int32)
    for count in range(cells + 1):
        members = _sets_of_size(cells, count)
        rank[members] = np.arange(len(members))
    every = np.arange(1 << cells)
    stones = (every[:, None] >> np.arange(cells)) & 1 == 1
    transposed = stones.reshape(-1, size, size).transpose(0, 2, 1).reshape(-1, cells)
    with jax.ensure_compile_time_eval():  # also where the first who asks is being compiled
        packed = [hex_game.pack(player_stones, size) for player_stones in (stones, transposed)]
        joins = np.stack([hex_game.joins_top_and_bottom(board, size) for board in packed])
    joins_without = [joins[:, every & ~(1 << cell)] for cell in range(cells)]
    return _Sets(rank, joins, joins & ~np.all(joins_without, axis=0))


@functools.cache
def _sets_of_size(elements: int, count: int) -> np.ndarray:
    chosen = itertools.combinations(range(elements), count)
    return np.sort(np.array([sum(1 << element for element in members) for members in chosen], np.int32))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _solve_layer(size: int, stones: int, taken: jax.Array, behind: jax.Array, sets: _Sets) -> jax.Array:
    """Scores of the positions with so many stones.

    Args:
      taken: [rows] int32, sets of `stones` cells.
      behind: [sets of one cell more, sets of black stones] int8, the layer with one stone more.

    Returns:
      [rows, sets of black stones] int8.
    """
    cells = size * size
    mover = stones % 2
    taken = taken[:, None]
    shades = jnp.asarray(_sets_of_size(stones, (stones + 1) // 2))
    black = _spread(shades, taken, cells)
    last_mover_stones = taken ^ black if mover == 0 else black

    def try_cell(best, cell):
        bit = jnp.int32(1) << cell
        first_above = jnp.int32(1) << jax.lax.population_count(taken & (bit - 1))
        above = shades & -first_above
        next_shades = shades + above + (first_above if mover == 0 else 0)
        score = before(behind[sets.rank[taken | bit], sets.rank[next_shades]])
        return jnp.where(taken & bit == 0, jnp.maximum(best, score), best), None

    best, _ = jax.lax.scan(try_cell, jnp.full(black.shape, -SOONEST, jnp.int8), jnp.arange(cells))
    over = sets.joins[0, black] | sets.joins[1, taken ^ black]
    lost = sets.ends[1 - mover, last_mover_stones]
    return jnp.where(lost, -SOONEST, jnp.where(over, 0, best)).astype(jnp.int8)


def _spread(shades: jax.Array, taken: jax.Array, cells: int) -> jax.Array:
    """The black stones: bit i of `shades` tells the colour of the i-th stone in `taken`."""

    def paint(cell, black):
        place = jax.lax.population_count(taken & ((1 << cell) - 1))
        return black | ((((shades >> place) & (taken >> cell)) & 1) << cell)

    nothing = jnp.zeros(jnp.broadcast_shapes(shades.shape, taken.shape), jnp.int32)
    return jax.lax.fori_loop(0, cells, paint, nothing)


def _gather(black: jax.Array, taken: jax.Array, cells: int) -> jax.Array:
    """The inverse of `_spread`: the colours of the stones in `taken`, side by side."""

    def note(cell, shades):
        place = jax.lax.population_count(taken & ((1 << cell) - 1))
        return shades | (((black >> cell) & 1) << place)

    return jax.lax.fori_loop(0, cells, note, jnp.zeros_like(black))


def _index(size: int, black: jax.Array, white: jax.Array) -> jax.Array:
    """Where the table has a position."""
    cells = size * size
    rank = jnp.asarray(_sets(size).rank)
    taken = black | white
    stones = jax.lax.population_count(taken)
    row_length = jnp.asarray([math.comb(s, s // 2) for s in range(cells + 1)])[stones]
    offset = jnp.asarray(layer_offsets(size)[:-1])[stones]
    return offset + rank[taken] * row_length + rank[_gather(black, taken, cells)]
