"""Search for the score of a Connect Four position: alpha-beta with empty windows on bitboards.

A board is 49 bits, seven columns of seven: six cells from the bottom up and one that is always empty, so that lines
do not run from one column into the next. A position is `mine`, the stones of the player to move, and `taken`, all.

A score tells how soon the game ends. It counts the stones that the winner has not yet played when he wins, one of his
21 for each and one more: 1 is a win with the last one, 0 a draw, and what the player to move loses is negative. `ask`
answers whether a score is at least some number; every such question closes with "yes" as soon as one move leads to a
"no" for the opponent. Scores follow from several questions.

What makes the questions short:
  - A move below a cell where the opponent would win is never made, and one that stops a win is the only one.
  - If all columns have an even number of free cells, the opponent can always answer in the same column. A player who
    could not join four even with all cells that are then his does not win, and loses if the opponent then does.
  - The table keeps what is proven of each position and, early in the game, of its mirror image.
  - Moves that make most threats come first.

Only numpy and numba are imported, so that a worker process starts quickly.
"""

import time
from typing import NamedTuple

import numba
import numpy as np

from azjax.solvers.bits import count_bits

WIDTH, HEIGHT = 7, 6
CELLS = WIDTH * HEIGHT
YES, NO, UNKNOWN = 1, -1, 0

TABLE_BITS = 23  # of the number of entries in a table
_SLICE = 1 << 18  # positions visited between looks at the clock
_MIRRORED = 14  # with fewer stones a position is looked up together with its mirror image
_PROBED = 34  # with fewer stones the table is asked about all moves before one is searched

_COLUMN = HEIGHT + 1  # bits
_ONE, _NONE = np.uint64(1), np.uint64(0)
_BOTTOM = np.uint64(sum(1 << _COLUMN * column for column in range(WIDTH)))
_BOARD = np.uint64(int(_BOTTOM) * ((1 << HEIGHT) - 1))
_FIRST_ROWS = np.uint64(int(_BOTTOM) * 0b010101)  # of the pairs of rows that are filled one after the other
_SECOND_ROWS = np.uint64(int(_BOTTOM) * 0b101010)
_COLUMN_BITS = np.uint64((1 << _COLUMN) - 1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number whose products mix bits well
# Columns from the outside in, two bits of a column each: later ones are tried first.
_OUTSIDE_IN = np.array([0, 6, 1, 5, 2, 4, 3], np.uint64) * np.uint64(_COLUMN)
_UP, _ACROSS, _FALLING, _RISING = (np.uint64(step) for step in (1, _COLUMN, _COLUMN - 1, _COLUMN + 1))
_TWO, _THREE = np.uint64(2), np.uint64(3)
# An entry of the table: the position in the high bits, then work, and the bounds of its score.
_LOW, _HIGH, _WORK, _KEY = (np.uint64(shift) for shift in (0, 6, 12, 15))
_BOUND_BITS, _WORK_BITS = np.uint64(63), np.uint64(7)
_ZERO = 32  # how the bound 0 is written

WORKSPACE = np.dtype(
    [
        ("depth", np.int64),  # of the position the search is at
        ("nodes", np.int64),  # positions visited
        ("mine", np.uint64, (CELLS + 1,)),
        ("taken", np.uint64, (CELLS + 1,)),
        ("stones", np.int64, (CELLS + 1,)),
        ("least", np.int64, (CELLS + 1,)),  # is the score at least this?
        ("low", np.int64, (CELLS + 1,)),  # what the table knew of the score
        ("high", np.int64, (CELLS + 1,)),
        ("first_node", np.int64, (CELLS + 1,)),
        ("left", np.int64, (CELLS + 1,)),  # moves not yet searched
        ("moves", np.uint64, (CELLS + 1, WIDTH)),  # the best last
        ("threats", np.int64, (WIDTH,)),  # that these moves make, of the moves being listed
    ],
    align=True,
)


class Position(NamedTuple):
    """The stones of the player to move, and all stones, as sets of bits."""

    mine: int
    taken: int

    @property
    def stones(self) -> int:
        """How many there are."""
        return self.taken.bit_count()

    @property
    def is_lost(self) -> bool:
        """Whether the opponent has just joined four."""
        return bool(has_four(np.uint64(self.mine ^ self.taken)))

    @property
    def wins_at_once(self) -> bool:
        """Whether the player can join four with the next stone."""
        mine, taken = np.uint64(self.mine), np.uint64(self.taken)
        return bool(completing(mine, taken) & playable(taken))

    def after(self, column: int) -> "Position | None":
        """The position after a stone; None where the column is full."""
        bottom = 1 << _COLUMN * column
        move = (self.taken + bottom) & bottom * ((1 << HEIGHT) - 1)
        return Position(self.mine ^ self.taken, self.taken | move) if move else None


class Budget:
    """What may still be spent on a position."""

    def __init__(self, nodes: int | None = None, seconds: float | None = None):
        self.nodes = np.iinfo(np.int64).max if nodes is None else nodes
        self._deadline = np.inf if seconds is None else time.perf_counter() + seconds

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.nodes <= 0 or time.perf_counter() >= self._deadline


class Searcher:
    """Answers questions about scores; what it finds out for one helps with the next."""

    def __init__(self, table_bits: int = TABLE_BITS):
        self._work = np.zeros(1, WORKSPACE).view(np.recarray)[0]
        self._table = np.zeros(1 << table_bits, np.uint64)
        self.ask(Position(0, 0), 0, Budget(nodes=1))  # compiles now, so that no position is charged for it

    @property
    def nodes(self) -> int:
        """Positions visited so far."""
        return int(self._work["nodes"])

    def forget(self) -> None:
        """Begins anew, without what it has found out so far."""
        self._table[:] = 0

    def ask(self, position: Position, least: int, budget: Budget) -> int:
        """Whether the score of a position, in which no move wins at once, is at least this: YES, NO or UNKNOWN."""
        work = self._work
        start(work, np.uint64(position.mine), np.uint64(position.taken), least)
        answer = UNKNOWN
        while answer == UNKNOWN and not budget.is_spent:
            before = self.nodes
            answer = go_on(work, self._table, min(_SLICE, budget.nodes))
            budget.nodes -= self.nodes - before
        return int(answer)


@numba.njit(cache=True)
def completing(stones, taken):
    """The free cells that would join four of these stones."""
    cells = (stones << _UP) & (stones << _TWO) & (stones << _THREE)
    for step in (_ACROSS, _FALLING, _RISING):
        two, three = step + step, step + step + step
        before, after = stones << step, stones >> step
        pair = before & (stones << two)
        cells |= pair & ((stones << three) | after)
        pair = after & (stones >> two)
        cells |= pair & ((stones >> three) | before)
    return cells & (_BOARD ^ taken)


@numba.njit(cache=True)
def has_four(stones):
    """Whether four of these stones stand in a line."""
    for step in (_UP, _ACROSS, _FALLING, _RISING):
        pairs = stones & (stones >> step)
        if pairs & (pairs >> (step + step)):
            return True
    return False


@numba.njit(cache=True)
def playable(taken):
    """The cells where a stone comes to lie."""
    return (taken + _BOTTOM) & _BOARD


@numba.njit(cache=True)
def start(work, mine, taken, least):
    """Begins the question whether a position, in which no move wins at once, has at least this score."""
    work.depth = 0
    _enter(work, 0, mine, taken, count_bits(taken), least)


@numba.njit(cache=True)
def go_on(work, table, nodes):
    """The answer, or UNKNOWN after so many more positions; then it may be called again."""
    last = work.nodes + nodes
    while work.nodes < last:
        work.nodes += 1
        answer = _visit(work, table)
        while answer != UNKNOWN:
            if work.depth == 0:
                return answer
            work.depth -= 1
            depth = work.depth
            if answer == NO:
                _store(work, table, depth, work.least[depth], work.high[depth])
                answer = YES
            elif work.left[depth] == 0:
                _store(work, table, depth, work.low[depth], work.least[depth] - 1)
                answer = NO
            else:
                answer = UNKNOWN
        _descend(work)
    return UNKNOWN


@numba.njit(cache=True)
def _enter(work, depth, mine, taken, stones, least):
    work.mine[depth] = mine
    work.taken[depth] = taken
    work.stones[depth] = stones
    work.least[depth] = least


@numba.njit(cache=True)
def _descend(work):
    """Goes to the position after the best move that has not been searched."""
    depth = work.depth
    work.left[depth] -= 1
    move = work.moves[depth, work.left[depth]]
    taken = work.taken[depth]
    work.depth = depth + 1
    _enter(
        work, depth + 1, work.mine[depth] ^ taken, taken | move, work.stones[depth] + 1, 1 - work.least[depth]
    )


@numba.njit(cache=True)
def _visit(work, table):
    """The answer to the question about a position, or UNKNOWN if its moves, now listed, have to be searched."""
    depth = work.depth
    mine, taken = work.mine[depth], work.taken[depth]
    stones, least = work.stones[depth], work.least[depth]
    theirs = mine ^ taken
    their_wins = completing(theirs, taken)
    moves = playable(taken)
    forced = moves & their_wins
    if forced:
        moves = forced if forced & (forced - _ONE) == _NONE else _NONE
    moves &= ~(their_wins >> _UP)
    if moves == _NONE:  # the opponent wins with his next stone
        return YES if least <= -((CELLS - stones) // 2) else NO
    if stones >= CELLS - 2:
        return YES if least <= 0 else NO
    low, high = -((CELLS - 2 - stones) // 2), (CELLS - 1 - stones) // 2
    if least <= low:
        return YES
    if least > high:
        return NO
    if least >= 0 and playable(taken) & _SECOND_ROWS == _NONE:
        if not has_four(mine | (_FIRST_ROWS & ~taken)):
            if least > 0 or has_four(theirs | (_SECOND_ROWS & ~taken)):
                return NO
    found = _find(table, _key(mine, taken, stones))
    if found != _NONE:
        low = max(low, _bound(found, _LOW))
        high = min(high, _bound(found, _HIGH))
        if least <= low:
            return YES
        if least > high:
            return NO
    work.low[depth], work.high[depth] = low, high
    work.first_node[depth] = work.nodes
    return _list_moves(work, table, moves)


@numba.njit(cache=True)
def _list_moves(work, table, moves):
    """Sorts moves by the threats they make; the answer instead, if the table knows it by what they lead to."""
    depth = work.depth
    mine, taken, stones = work.mine[depth], work.taken[depth], work.stones[depth]
    number = 0
    for shift in _OUTSIDE_IN:
        move = moves & (_COLUMN_BITS << shift)
        if move == _NONE:
            continue
        if stones < _PROBED:
            found = _find(table, _key(mine ^ taken, taken | move, stones + 1))
            if found != _NONE:
                if _bound(found, _HIGH) <= -work.least[depth]:
                    return YES
                if _bound(found, _LOW) > -work.least[depth]:
                    continue
        made = count_bits(completing(mine | move, taken))
        place = number
        while place > 0 and work.threats[place - 1] > made:
            work.threats[place] = work.threats[place - 1]
            work.moves[depth, place] = work.moves[depth, place - 1]
            place -= 1
        work.threats[place] = made
        work.moves[depth, place] = move
        number += 1
    work.left[depth] = number
    if number == 0:
        return NO
    return UNKNOWN


@numba.njit(cache=True)
def _key(mine, taken, stones):
    """A number that no two positions share, but mirror images early in the game."""
    key = mine + taken
    if stones < _MIRRORED:
        mirrored, rest = _NONE, key
        for _ in range(WIDTH):
            mirrored = (mirrored << np.uint64(_COLUMN)) | (rest & _COLUMN_BITS)
            rest >>= np.uint64(_COLUMN)
        key = min(key, mirrored)
    return key


@numba.njit(cache=True)
def _bound(entry, shift):
    return np.int64((entry >> shift) & _BOUND_BITS) - _ZERO


@numba.njit(cache=True)
def _first_place(table, key):
    mixed = key * _SPREAD
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) - 2))


@numba.njit(cache=True)
def _find(table, key):
    """What the table has of a position, or 0."""
    place = _first_place(table, key)
    if table[place] >> _KEY == key:
        return table[place]
    if table[place + 1] >> _KEY == key:
        return table[place + 1]
    return _NONE


@numba.njit(cache=True)
def _store(work, table, depth, low, high):
    """Writes bounds of a score into the table: over the position itself, or over what took less work."""
    key = _key(work.mine[depth], work.taken[depth], work.stones[depth])
    spent, size = work.nodes - work.first_node[depth], np.int64(0)
    while spent > 4 and size < 7:
        spent >>= 3
        size += 1
    entry = (key << _KEY) | (np.uint64(size) << _WORK)
    entry |= (np.uint64(low + _ZERO) << _LOW) | (np.uint64(high + _ZERO) << _HIGH)
    place = _first_place(table, key)
    kept = table[place]
    if kept >> _KEY == key:
        table[place] = entry
        return
    if (kept >> _WORK) & _WORK_BITS <= np.uint64(size):
        table[place], table[place + 1] = entry, kept
    else:
        table[place + 1] = entry
