"""Every position of a Chinese Checkers board as a pair of numbers, and back.

Positions are seen by the player to move, who moves down the board, as in `game.observe`: the two planes,
flattened, are `mine` and `theirs`, [..., cells] bool. So the player to move is always the first one, and of two
positions that differ only by turning the board and swapping the players just one is counted.

A position is (rank, column): `rank` numbers the sets of cells that the opponent can hold, as the opponent sees
them, and `column` numbers the sets of the player to move among the cells that this leaves free. Both are
combinatorial ranks: sets are sorted by their largest cell, then by the second largest, and so on. The pairs are
in bijection with the positions, and `rank * columns + column` is one number without gaps.

A mirrored board has the same value, so a table keeps one row of columns for each two mirrored ranks; `row`
numbers these. A rank that is its own mirror image keeps a whole row, which holds some positions twice.
"""

import functools
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from azjax.envs.chinese_checkers import ChineseCheckers, State


class Ranking(NamedTuple):
    """The numbering of one board; made by `ranking_of`."""

    cells: int
    pieces: int
    columns: int  # how many sets the player to move can have, whatever the opponent has
    sets: np.ndarray  # [ranks, pieces] int32, the cells of every set in ascending order
    mirror: np.ndarray  # [cells] int32, the cell that each becomes; the identity if the homes are lopsided
    row_code: np.ndarray  # [ranks] int32, twice the row, plus 1 if the row is that of the mirror image
    stored: np.ndarray  # [rows] int32, the rank that each row stands for
    weight: np.ndarray  # [rows] int64, 2 for rows that stand for a mirror image too

    @property
    def ranks(self) -> int:
        """How many sets the opponent can have."""
        return len(self.sets)

    @property
    def rows(self) -> int:
        """How many rows a table has."""
        return len(self.stored)

    @property
    def positions(self) -> int:
        """All positions with one player to move."""
        return self.ranks * self.columns


def ranking_of(game: "ChineseCheckers") -> Ranking:
    """The numbering of the positions of a game; its rules beyond board and pieces do not matter."""
    return _ranking(game.size, game.pieces, len(game.symmetries.action) == 2)


def rank(ranking: Ranking, mine: jax.Array, theirs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Numbers positions.

    Args:
      mine: [..., cells] bool, the pieces of the player to move, who moves towards the last cell.
      theirs: [..., cells] bool.

    Returns:
      rank, column: [...] int32.
    """
    place = jnp.arange(ranking.cells) - _number_below(theirs)  # among the cells that are free of `theirs`
    return _rank_set(ranking, theirs[..., ::-1]), _rank_set(ranking, mine, place)


def unrank(ranking: Ranking, rank: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The position `mine`, `theirs`, [..., cells] bool each, of a pair of numbers [...]; inverse of `rank`."""
    theirs = _unrank_set(ranking, rank, ranking.cells)[..., ::-1]
    place = jnp.arange(ranking.cells) - _number_below(theirs)
    chosen = _unrank_set(ranking, column, ranking.cells - ranking.pieces)
    place = jnp.minimum(place, ranking.cells - ranking.pieces - 1)  # the last cells may all be theirs
    return jnp.take_along_axis(chosen, place, axis=-1) & ~theirs, theirs


def locate(ranking: Ranking, mine: jax.Array, theirs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where a table keeps positions: row, column, [...] int32, of the position or of its mirror image."""
    rank_, column = rank(ranking, mine, theirs)
    _, mirror_column = rank(ranking, mine[..., ranking.mirror], theirs[..., ranking.mirror])
    code = jnp.asarray(ranking.row_code)[rank_]
    return code >> 1, jnp.where(code & 1, mirror_column, column)


def pieces_of(game: "ChineseCheckers", x: "State") -> tuple[jax.Array, jax.Array]:
    """`mine` and `theirs`, [cells] bool, of one position of the game."""
    planes = game.observe(x).reshape(game.num_cells, 2)
    return planes[:, 0], planes[:, 1]


def state_of(game: "ChineseCheckers", mine: jax.Array, theirs: jax.Array, player: jax.Array) -> "State":
    """The position, without a past, in which `player` [] is to move with the pieces `mine` [cells].

    It may be an illegal one: see `game.is_illegal`.
    """
    first = player == 0
    tops = jnp.where(first, mine, theirs[::-1])
    bottoms = jnp.where(first, theirs, mine[::-1])
    board = tops.astype(jnp.int8) + 2 * bottoms.astype(jnp.int8)
    return game.from_board(board[game.image_index], player)


@functools.partial(jax.jit, static_argnums=(0, 2))
def random_states(game: "ChineseCheckers", key: jax.Array, number: int) -> "State":
    """Uniformly random placements of the pieces and players to move, [number, ...]; illegal ones included."""
    ranking = ranking_of(game)
    keys = jax.random.split(key, 3)
    rank_ = jax.random.randint(keys[0], (number,), 0, ranking.ranks)
    column = jax.random.randint(keys[1], (number,), 0, ranking.columns)
    player = jax.random.randint(keys[2], (number,), 0, 2)
    return jax.vmap(functools.partial(state_of, game))(*unrank(ranking, rank_, column), player)


def sets_in_order(things: int, chosen: int) -> np.ndarray:
    """[number of sets, chosen] int32, all sets of so many things, by rank; each in ascending order."""
    number = math.comb(things, chosen)
    sets = np.array(list(itertools.combinations(range(things), chosen)), np.int32).reshape(number, chosen)
    return sets[np.lexsort(sets.T)] if chosen else sets


def ranks_of_sets(sets: np.ndarray) -> np.ndarray:
    """[...] int32, the ranks of sets [..., chosen] in ascending order."""
    chosen = sets.shape[-1]
    table = binomials(int(sets.max(initial=0)) + 1, chosen + 1)
    return sum((table[sets[..., i], i + 1] for i in range(chosen)), np.zeros(sets.shape[:-1], np.int32))


@functools.cache
def _ranking(size: int, pieces: int, symmetric: bool) -> Ranking:
    cells = size**2
    sets = sets_in_order(cells, pieces)
    mirror = np.arange(cells, dtype=np.int32)
    if symmetric:
        mirror = np.ascontiguousarray(mirror.reshape(size, size).T).ravel()
    own = np.arange(len(sets), dtype=np.int32)
    image = ranks_of_sets(np.sort(mirror[sets], axis=1))
    is_stored = own <= image
    row = np.cumsum(is_stored, dtype=np.int32) - 1
    return Ranking(
        cells=cells,
        pieces=pieces,
        columns=math.comb(cells - pieces, pieces),
        sets=sets,
        mirror=mirror,
        row_code=np.where(is_stored, 2 * row, 2 * row[image] + 1).astype(np.int32),
        stored=own[is_stored],
        weight=np.where(own < image, 2, 1)[is_stored],
    )


def binomials(things: int, chosen: int) -> np.ndarray:
    """[things, chosen] int32, how many ways there are to choose; only for numbers below 2^31."""
    return np.array([[math.comb(n, r) for r in range(chosen)] for n in range(things)], np.int32)


def _number_below(chosen: jax.Array) -> jax.Array:
    """[..., things] int32, how many of the things before each are chosen."""
    return jnp.cumsum(chosen, axis=-1, dtype=jnp.int32) - chosen


def _rank_set(ranking: Ranking, chosen: jax.Array, place: jax.Array | None = None) -> jax.Array:
    """[...] int32, the rank of sets [..., cells] bool; cells may be counted by another `place` [..., cells]."""
    if place is None:
        place = jnp.arange(ranking.cells)
    order = jnp.minimum(_number_below(chosen) + 1, ranking.pieces)  # cells beyond the last piece do not count
    ways = jnp.asarray(binomials(ranking.cells, ranking.pieces + 1))
    return jnp.sum(jnp.where(chosen, ways[place, order], 0), axis=-1, dtype=jnp.int32)


def _unrank_set(ranking: Ranking, rank: jax.Array, things: int) -> jax.Array:
    """[..., things] bool, the set of `pieces` things with this rank [...]."""
    ways = jnp.asarray(binomials(things, ranking.pieces + 1))
    chosen = jnp.zeros((*rank.shape, things), bool)
    for number in range(ranking.pieces, 0, -1):
        # The largest thing of the remaining set: the last one below which there are not too many sets.
        largest = jnp.sum(ways[:, number] <= rank[..., None], axis=-1) - 1
        chosen |= jnp.arange(things) == largest[..., None]
        rank = rank - ways[largest, number]
    return chosen
