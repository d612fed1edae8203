"""Virtual connections of Hex by H-search (Anshelevich 2002), kept up to date stone by stone.

Two points of a player, each a group of stones, a side of the board or an empty cell, are fully connected if the
player can join them even when the opponent moves first, and half connected if the player has to move first. The
cells this needs are the carrier. Two rules build connections from connections:

- and: connections that meet in a point and share no cell join its two ends; fully if the player owns the point,
  half if it is an empty cell (which becomes part of the carrier);
- or: half connections of the same two points with no cell common to all carriers are together a full connection.

A stone of the player only adds connections, and one of the opponent only removes those it lies in, so both
updates find what a search from nothing would, up to the limits on the lists, which never make an answer wrong.

All functions here work on a record with these `FIELDS`. Its slots hold the connections of one player in one
position each; a set of cells is a uint64 with a bit for each. (numba hands a record on as one pointer and knows
its shapes, which makes this four times faster than arrays.)
"""

import numba
import numpy as np

from azjax.solvers.bits import bit_of, count_bits, lowest_bit

MAX_SIZE = 8
MAX_CELLS = MAX_SIZE * MAX_SIZE
SLOTS = 2 * (MAX_CELLS + 1) + 1
FULL, HALF = 0, 1
FULL_LIMIT = 12  # connections kept for a pair of points, the smallest ones
HALF_LIMIT = 24  # others may keep fewer, see `fields`

_POINTS = MAX_CELLS + 2
_PAIRS = _POINTS * (_POINTS - 1) // 2
_QUEUE_LIMIT = 1 << 16
_ONE = np.uint64(1)
_NONE = np.uint64(0)
_ALL = ~np.uint64(0)
_RING = ((0, 1), (1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1))


def fields(slots: int = SLOTS, full_limit: int = FULL_LIMIT, half_limit: int = HALF_LIMIT) -> list[tuple]:
    """The fields of a record with so many slots; with lower limits less is found, in less time."""
    return [
        ("cells", np.int64),  # the points are the cells, then the two sides
        ("pair", np.int32, (_POINTS, _POINTS)),  # the number of a pair of points
        ("neighbours", np.int32, (MAX_CELLS, 6)),  # clockwise; -1 off the board
        ("sides", np.uint64, (2, 2)),  # of each player, the cells on the first and on the second side
        ("owned", np.uint64, (slots,)),  # the player's stones
        ("head", np.int32, (slots, _POINTS)),  # the point that stands for the group; -1 the opponent's stones
        ("count", np.uint8, (slots, 2, _PAIRS)),  # full and half connections
        (
            "carrier",
            np.uint64,
            (slots, _PAIRS, full_limit + half_limit),
        ),  # first the full, then the half ones
        ("common", np.uint64, (slots,)),  # the cells in every half connection seen between the two sides
        ("needed", np.uint64, (slots,)),  # the cells in any of those that leave no more than this in common
        ("queue_ends", np.int32, (_QUEUE_LIMIT, 2)),  # new full connections, to be tried with all others
        ("queue_carrier", np.uint64, (_QUEUE_LIMIT,)),
        ("queue_next", np.int64),
        ("queue_end", np.int64),
        ("or_queue", np.int32, (_PAIRS, 2)),  # pairs with new half connections
        ("in_or_queue", np.uint8, (_PAIRS,)),
        ("or_queue_end", np.int64),
        ("points", np.int32, (_POINTS,)),  # room for the list of the heads
        ("halves", np.uint64, (half_limit,)),  # room for the half connections of a pair
    ]


FIELDS = fields()


def prepare(work: np.void, size: int, chosen: np.ndarray | None = None) -> None:
    """Writes the tables of a board into a record.

    Args:
      work: the record, zeros or one that was prepared before.
      size: of the board.
      chosen: [n] the cells that are looked at, at most MAX_CELLS, and known by their place in this list; what needs
        others is not found. None for all of a board up to 8x8.
    """
    chosen = np.arange(size * size) if chosen is None else chosen
    cells = len(chosen)
    low, high = np.tril_indices(cells + 2, -1)[::-1]
    work["cells"] = cells
    work["pair"][low, high] = work["pair"][high, low] = np.arange(len(low))
    place = np.full(size * size + 1, -1)  # the last is off the board
    place[chosen] = np.arange(cells)
    work["neighbours"][:cells] = place[neighbour_cells(size)[chosen]]
    row, column = np.divmod(chosen, size)
    bit = np.uint64(1) << np.arange(cells, dtype=np.uint64)
    for player, line in enumerate((row, column)):
        for side, end in enumerate((0, size - 1)):
            work["sides"][player, side] = np.bitwise_or.reduce(bit[line == end], initial=np.uint64(0))


def neighbour_cells(size: int) -> np.ndarray:
    """[cells, 6] int32, clockwise around each cell; -1 off the board."""
    row, column = np.divmod(np.arange(size * size), size)
    around = []
    for down, right in _RING:
        r, c = row + down, column + right
        inside = (0 <= r) & (r < size) & (0 <= c) & (c < size)
        around.append(np.where(inside, r * size + c, -1))
    return np.stack(around, axis=1).astype(np.int32)


@numba.njit(cache=True)
def _full_limit(work):
    """How many full connections a pair has room for; behind them stand the half ones."""
    return work.carrier.shape[2] - len(work.halves)


@numba.njit(cache=True)
def connect(work, slot, player, own, other):
    """Finds a player's connections on a board of `own` and `other` stones."""
    cells = work.cells
    for kind in range(2):
        for pair in range(_PAIRS):
            work.count[slot, kind, pair] = 0
    work.owned[slot] = _NONE
    work.common[slot] = _ALL
    work.needed[slot] = _NONE
    for point in range(cells + 2):
        work.head[slot, point] = -1 if point < cells and other & bit_of(point) else point
    for cell in range(cells):
        if work.head[slot, cell] < 0:
            continue
        for place in range(8):
            if place < 6:
                end = np.int64(work.neighbours[cell, place])
                touches = end > cell and work.head[slot, end] >= 0
            else:
                end = cells + place - 6
                touches = work.sides[player, place - 6] & bit_of(cell) != 0
            if touches:
                _add(work, slot, FULL, cell, end, _NONE)
    _add_stones(work, slot, player, own)


@numba.njit(cache=True)
def update(work, source, target, player, own, other):
    """The connections of slot `source` once the player also has the stones `own` and the opponent `other`."""
    _copy_without(work, source, target, other)
    _add_stones(work, target, player, own)


@numba.njit(cache=True)
def joined(work, slot, kind):
    """Whether a connection of the two sides is known: full, or half."""
    return work.count[slot, kind, work.pair[work.cells, work.cells + 1]] > 0


@numba.njit(cache=True)
def smallest_carrier(work, slot, kind):
    """Of the connections of the two sides, of which there must be one."""
    pair = work.pair[work.cells, work.cells + 1]
    first = kind * _full_limit(work)
    best = work.carrier[slot, pair, first]
    for i in range(first + 1, first + work.count[slot, kind, pair]):
        if count_bits(work.carrier[slot, pair, i]) < count_bits(best):
            best = work.carrier[slot, pair, i]
    return best


@numba.njit(cache=True)
def _list_heads(work, slot):
    """Lists the empty cells and the groups in `points`; returns how many."""
    count = 0
    for point in range(work.cells + 2):
        if work.head[slot, point] == point:
            work.points[count] = point
            count += 1
    return count


@numba.njit(cache=True)
def _copy_without(work, source, target, lost):
    """Copies a slot, leaving out the connections that need one of the `lost` cells."""
    for kind in range(2):
        for pair in range(_PAIRS):
            work.count[target, kind, pair] = 0
    for point in range(work.cells + 2):
        gone = point < work.cells and lost & bit_of(point)
        work.head[target, point] = -1 if gone else work.head[source, point]
    work.owned[target] = work.owned[source]
    heads = _list_heads(work, target)
    for i in range(1, heads):
        for j in range(i):
            pair = work.pair[work.points[i], work.points[j]]
            for kind in range(2):
                first = kind * _full_limit(work)
                kept = first
                for k in range(first, first + work.count[source, kind, pair]):
                    carrier = work.carrier[source, pair, k]
                    if carrier & lost == 0:
                        work.carrier[target, pair, kept] = carrier
                        kept += 1
                work.count[target, kind, pair] = kept - first
    _recount_common(work, target)


@numba.njit(cache=True)
def _recount_common(work, slot):
    pair = work.pair[work.cells, work.cells + 1]
    work.common[slot] = _ALL
    work.needed[slot] = _NONE
    for i in range(work.count[slot, HALF, pair]):
        _note_half(work, slot, work.carrier[slot, pair, _full_limit(work) + i])


@numba.njit(cache=True)
def _note_half(work, slot, carrier):
    """Takes a half connection of the two sides into account for what they have in common."""
    common = work.common[slot]
    if common & carrier != common:
        work.common[slot] = common & carrier
        work.needed[slot] |= carrier


@numba.njit(cache=True)
def _add_stones(work, slot, player, own):
    """Gives empty cells to the player and finds all connections that come of it."""
    cells = work.cells
    while own:
        cell = lowest_bit(own)
        own &= own - _ONE
        group = _group_of_new_stone(work, slot, player, cell)
        work.owned[slot] |= bit_of(cell)
        _take_out_of_carriers(work, slot, bit_of(cell))
        _merge(work, slot, cell, group)
        for place in range(6):
            neighbour = work.neighbours[cell, place]
            if neighbour >= 0 and work.owned[slot] & bit_of(neighbour):
                _merge(work, slot, np.int64(work.head[slot, neighbour]), group)
        if group == cell:
            # What met in the empty cell was half connected, and now is fully.
            for point in range(cells + 2):
                if work.head[slot, point] == point and point != cell:
                    pair = work.pair[cell, point]
                    for i in range(work.count[slot, FULL, pair]):
                        _enqueue(work, cell, point, work.carrier[slot, pair, i])
    _close(work, slot)


@numba.njit(cache=True)
def _group_of_new_stone(work, slot, player, cell):
    """The head of the group it joins: a side if it can be, itself if there is none."""
    group = cell
    for place in range(6):
        neighbour = work.neighbours[cell, place]
        if group < work.cells and neighbour >= 0 and work.owned[slot] & bit_of(neighbour):
            group = np.int64(work.head[slot, neighbour])
    for side in range(2):
        if work.sides[player, side] & bit_of(cell):
            group = work.cells + side
    return group


@numba.njit(cache=True)
def _take_out_of_carriers(work, slot, bit):
    """A cell that has become the player's is no longer needed by any connection."""
    heads = _list_heads(work, slot)
    for i in range(1, heads):
        for j in range(i):
            x, y = np.int64(work.points[i]), np.int64(work.points[j])
            pair = work.pair[x, y]
            for kind in range(2):
                k = kind * _full_limit(work)
                while k < kind * _full_limit(work) + work.count[slot, kind, pair]:
                    carrier = work.carrier[slot, pair, k]
                    if carrier & bit:
                        work.count[slot, kind, pair] -= 1
                        last = kind * _full_limit(work) + work.count[slot, kind, pair]
                        work.carrier[slot, pair, k] = work.carrier[slot, pair, last]
                        _add(work, slot, kind, x, y, carrier & ~bit)
                    else:
                        k += 1
    _recount_common(work, slot)


@numba.njit(cache=True)
def _merge(work, slot, point, group):
    """Makes the group known by `point` part of another one."""
    cells = work.cells
    if point == group:
        return
    if point >= cells:
        _add(work, slot, FULL, point, group, _NONE)  # one side and the other: the game is won
        return
    for other in range(cells + 2):
        if work.head[slot, other] == point and other != point:
            work.head[slot, other] = group
        if work.head[slot, other] != other or other == point:
            continue
        pair = work.pair[point, other]
        for kind in range(2):
            if other != group:
                for i in range(work.count[slot, kind, pair]):
                    _add(
                        work, slot, kind, group, other, work.carrier[slot, pair, kind * _full_limit(work) + i]
                    )
            work.count[slot, kind, pair] = 0
    work.head[slot, point] = group


@numba.njit(cache=True)
def _add(work, slot, kind, x, y, carrier):
    """Adds a connection, unless a better one is known; those that it betters go."""
    pair = work.pair[x, y]
    for known in range(kind + 1):
        for i in range(known * _full_limit(work), known * _full_limit(work) + work.count[slot, known, pair]):
            if work.carrier[slot, pair, i] & ~carrier == 0:
                return
    if kind == HALF and x >= work.cells and y >= work.cells:
        _note_half(work, slot, carrier)
    for worse in range(kind, 2):
        end = worse * _full_limit(work) + np.int64(work.count[slot, worse, pair])
        i = worse * _full_limit(work)
        while i < end:
            if carrier & ~work.carrier[slot, pair, i] == 0:
                end -= 1
                work.carrier[slot, pair, i] = work.carrier[slot, pair, end]
            else:
                i += 1
        work.count[slot, worse, pair] = end - worse * _full_limit(work)
    first = kind * _full_limit(work)
    end = first + np.int64(work.count[slot, kind, pair])
    if end - first == (_full_limit(work) if kind == FULL else len(work.halves)):
        largest, most = first, np.int64(0)
        for i in range(first, end):
            cells = count_bits(work.carrier[slot, pair, i])
            if cells > most:
                largest, most = i, cells
        if most <= count_bits(carrier):
            return
        end -= 1
        work.carrier[slot, pair, largest] = work.carrier[slot, pair, end]
    work.carrier[slot, pair, end] = carrier
    work.count[slot, kind, pair] = end + 1 - first
    if kind == FULL:
        _enqueue(work, x, y, carrier)
    elif not work.in_or_queue[pair]:
        work.or_queue[work.or_queue_end, 0] = x
        work.or_queue[work.or_queue_end, 1] = y
        work.in_or_queue[pair] = 1
        work.or_queue_end += 1


@numba.njit(cache=True)
def _enqueue(work, x, y, carrier):
    end = work.queue_end
    if end < _QUEUE_LIMIT:
        work.queue_ends[end, 0] = x
        work.queue_ends[end, 1] = y
        work.queue_carrier[end] = carrier
        work.queue_end = end + 1


@numba.njit(cache=True)
def _close(work, slot):
    """Applies both rules until nothing new comes of them, or the two sides are joined."""
    cells = work.cells
    heads = _list_heads(work, slot)
    while not joined(work, slot, FULL):
        if work.queue_next < work.queue_end:
            i = work.queue_next
            work.queue_next = i + 1
            x, y = np.int64(work.queue_ends[i, 0]), np.int64(work.queue_ends[i, 1])
            carrier = work.queue_carrier[i]
            if _is_known(work, slot, x, y, carrier):
                for _ in range(2):
                    _apply_and(work, slot, x, y, carrier, heads)
                    x, y = y, x
        elif work.or_queue_end > 0:
            end = work.or_queue_end - 1
            work.or_queue_end = end
            x, y = np.int64(work.or_queue[end, 0]), np.int64(work.or_queue[end, 1])
            work.in_or_queue[work.pair[x, y]] = 0
            _apply_or(work, slot, x, y)
        else:
            break
        if work.common[slot] == 0:
            _add(work, slot, FULL, cells, cells + 1, work.needed[slot])
    for i in range(work.or_queue_end):
        work.in_or_queue[work.pair[work.or_queue[i, 0], work.or_queue[i, 1]]] = 0
    work.or_queue_end = 0
    work.queue_next = 0
    work.queue_end = 0


@numba.njit(cache=True)
def _is_known(work, slot, x, y, carrier):
    """Whether a connection that was put into the queue still stands."""
    pair = work.pair[x, y]
    for i in range(work.count[slot, FULL, pair]):
        if work.carrier[slot, pair, i] == carrier:
            return True
    return False


@numba.njit(cache=True)
def _apply_and(work, slot, end, middle, carrier, heads):
    """Joins the full connection from `end` to `middle` with every other one from `middle` on."""
    cells = work.cells
    if middle >= cells:
        return  # what leads over a side and on to the other side could have begun at that side
    owned = work.owned[slot] & bit_of(middle) != 0
    kind = FULL if owned else HALF
    key = _NONE if owned else bit_of(middle)
    blocked = carrier | (bit_of(end) if end < cells else _NONE)
    for i in range(heads):
        point = np.int64(work.points[i])
        pair = work.pair[middle, point]
        if point == end or point == middle or work.count[slot, FULL, pair] == 0:
            continue
        if point < cells and carrier & bit_of(point):
            continue
        for j in range(work.count[slot, FULL, pair]):
            onward = work.carrier[slot, pair, j]
            if onward & blocked == 0:
                _add(work, slot, kind, end, point, carrier | onward | key)


@numba.njit(cache=True)
def _apply_or(work, slot, x, y):
    """Joins two, three or four half connections of a pair that have no cell in common."""
    pair = work.pair[x, y]
    count = np.int64(work.count[slot, HALF, pair])
    common = _ALL
    half = work.halves  # a copy, for what is added below drops half connections from the list
    for i in range(count):
        half[i] = work.carrier[slot, pair, _full_limit(work) + i]
        common &= half[i]
    if common:
        return
    for i in range(count):
        for j in range(i):
            two = half[i] & half[j]
            if two == 0:
                _add(work, slot, FULL, x, y, half[i] | half[j])
                continue
            for k in range(j):
                three = two & half[k]
                if three == 0:
                    _add(work, slot, FULL, x, y, half[i] | half[j] | half[k])
                    continue
                if three == two:
                    continue
                for l in range(k):
                    if three & half[l] == 0:
                        _add(work, slot, FULL, x, y, half[i] | half[j] | half[k] | half[l])
