"""Inferior cells of Hex: stones that may be added for free, and moves that another move makes needless.

All of it follows from the six cells around a cell, where the cells beyond a side count as its owner's stones:

- a cell is dead if no chain of either player ever needs it, so that its colour does not matter;
- two neighbouring cells are captured by a player if a stone of the player on either one makes the other dead: any
  stone of the opponent on one is answered on the other, so both are as good as the player's already;
- a move is dominated by another one that makes its cell dead, for the other one does all that it does.

The functions work on a record with these `FIELDS` and those of `hex_connections`.
"""

import numba
import numpy as np

from azjax.solvers.bits import bit_of, lowest_bit
from azjax.solvers.hex.connections import MAX_CELLS, neighbour_cells

# The surroundings of a cell are a pattern of two bits a neighbour, clockwise: 1 Black, 2 White.
FIELDS = [
    ("board", np.uint64),  # all cells
    ("beyond", np.int32, (MAX_CELLS,)),  # the pattern of the neighbours off the board
    ("is_dead", np.uint8, (4**6,)),  # whether a cell with these surroundings is
]

_ONE = np.uint64(1)
_NONE = np.uint64(0)


def prepare(work: np.void, size: int) -> None:
    """Writes the tables of a board into a record."""
    cells = size * size
    off_board = neighbour_cells(size) < 0
    row = np.arange(cells) // size
    # Of the three neighbours above and below a cell, those off the board lie beyond Black's sides.
    beyond_black = off_board & np.stack(
        [0 * row, row == size - 1, row == size - 1, 0 * row, row == 0, row == 0], 1
    )
    owner = np.where(beyond_black, 1, np.where(off_board, 2, 0))
    work["beyond"][:cells] = np.sum(owner << 2 * np.arange(6), axis=1)
    work["board"] = np.uint64((1 << cells) - 1)
    work["is_dead"] = [_is_dead(pattern) for pattern in range(4**6)]


@numba.njit(cache=True)
def fill_in(work, black, white):
    """Fills dead and captured cells until there are none left.

    Returns:
      The black and the white stones after it, and the cells captured by Black and by White. Dead cells become
      black, and are not counted as captured.
    """
    captured_black, captured_white = _NONE, _NONE
    changed = True
    while changed:
        changed = False
        empty = work.board & ~(black | white)
        while empty:
            cell = lowest_bit(empty)
            empty &= empty - _ONE
            surroundings = _surroundings(work, black, white, cell)
            if work.is_dead[surroundings]:
                black |= bit_of(cell)
                changed = True
                continue
            for place in range(6):
                other = work.neighbours[cell, place]
                if other <= cell or (black | white) & bit_of(other):
                    continue
                both = bit_of(cell) | bit_of(other)
                captor = _captor(work, surroundings, _surroundings(work, black, white, other), place)
                if captor == 0:
                    black |= both
                    captured_black |= both
                elif captor == 1:
                    white |= both
                    captured_white |= both
                else:
                    continue
                empty &= ~both
                changed = True
                break
    return black, white, captured_black, captured_white


@numba.njit(cache=True)
def undominated(work, black, white, player, moves):
    """The moves left once those are struck out that one still standing, or one not among `moves`, dominates."""
    standing = work.board & ~(black | white)
    remaining = moves
    while remaining:
        cell = lowest_bit(remaining)
        remaining &= remaining - _ONE
        surroundings = _surroundings(work, black, white, cell)
        for place in range(6):
            other = work.neighbours[cell, place]
            if other >= 0 and standing & bit_of(other) and work.is_dead[surroundings | _stone(player, place)]:
                standing &= ~bit_of(cell)
                break
    return moves & standing


@numba.njit(cache=True)
def _captor(work, surroundings, other_surroundings, place):
    """Who captures a cell and its neighbour at `place`: 0 Black, 1 White, -1 nobody."""
    for player in range(2):
        if (
            work.is_dead[surroundings | _stone(player, place)]
            and work.is_dead[other_surroundings | _stone(player, (place + 3) % 6)]
        ):
            return player
    return -1


@numba.njit(cache=True)
def _stone(player, place):
    return (1 + player) << 2 * place


@numba.njit(cache=True)
def _surroundings(work, black, white, cell):
    pattern = np.int64(work.beyond[cell])
    for place in range(6):
        neighbour = work.neighbours[cell, place]
        if neighbour >= 0:
            if black & bit_of(neighbour):
                pattern |= _stone(0, place)
            elif white & bit_of(neighbour):
                pattern |= _stone(1, place)
    return pattern


def _is_dead(pattern: int) -> bool:
    """Whether one player's chains, and so also the other's cuts, never need the cell in the middle."""
    ring = [(pattern >> 2 * place) & 3 for place in range(6)]
    return 3 not in ring and any(_chains_can_go_round(ring, stone) for stone in (1, 2))


def _chains_can_go_round(ring: list[int], stone: int) -> bool:
    """Whether any two cells that a chain may use around the middle are joined without it."""
    usable = [place for place in range(6) if ring[place] in (0, stone)]
    return all(_are_joined(ring, stone, a, b) for a in usable for b in usable)


def _are_joined(ring: list[int], stone: int, a: int, b: int) -> bool:
    """Whether nothing but the player's stones lies between the two cells on one of the ways round."""
    between = ([(a + way * i) % 6 for i in range(1, way * (b - a) % 6)] for way in (1, -1))
    return a == b or any(all(ring[place] == stone for place in places) for places in between)
