"""Exact search of Dots and Boxes: alpha-beta with a transposition table and chain analysis, on any board.

The search runs on Strings and Coins, the dual game: boxes are coins, open lines are strings between two
coins or a coin and the ground. A position is the set of its strings, 64 bits; coins without strings do not
matter, so that any board is searched once at most 64 of its lines are open. All margins are future ones:
what the player to move gains from here on.

A position is quiet if no box can be captured. Captures are not searched; `_settle` takes all that one
turn can take, `taken` boxes, and knows what the turn is worth from the margin v of the quiet rest. Say a
heap is what captures take of one component, a tree of coins.
  - A capture that makes no further box capturable is always right. Repeated, it leaves heaps in which the
    next box is always capturable after the first.
  - With a heap that has an exit (to the ground or to a coin that stays), the player takes all and moves on,
    or takes all but two boxes and cuts the exit: the other takes these two at a stroke and has to move.
    The better is worth  taken - 2 + |v + 2|.
  - With no such heap, but one of four boxes in a row without exit, the same costs four boxes, left as two
    pairs:  taken - 4 + |v + 4|.
  - Otherwise it is  taken + v.
Whoever draws a line in a quiet position therefore either draws a safe one, and then the margin is -v, or
opens a chain, and then it is minus what the settling turn is worth. All lines of a chain lead to the same
rest; of two boxes the middle line gives away no choice, so that it is the only one to look at, and in any
other chain all lines are worth the same. Strings from one coin to the ground are alike: the last open one stands
for all. These rules have been compared with complete tables (the tests do it again): there is no exception
among all positions of 3x3 and 2x5 boxes, nor in a seventh of those of 3x4.

`_search` asks whether a quiet position's margin is at least some bound, and answers with a margin that is
proven to be reached or proven not to be exceeded. The table keeps both for every position.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, strings_and_coins
from azjax.solvers.bits import bit_of, count_bits, highest_bit, lowest_bit
from azjax.solvers.core import MoveOutcomes, Solution, TooLargeError

MAX_OPEN_LINES = 64
# Up to here a position takes seconds, or minutes if most of the board is empty.
COMFORTABLE_LINES = 35

# Beyond it takes a day or so; refused unless there is a limit of time.
_MOST_WITHOUT_LIMIT = 44
# The transposition table: 16 bytes an entry. Small boards need no more entries than they have positions.
_MAX_ENTRIES = 2**24
# Between two looks at the clock.
_NODES_PER_SLICE = 2**20
_ONE = np.uint64(1)
_NO_LINE = 64
_GROUND = -1
_CLOSED = -2
# What the counters count.
_NODES, _NODE_LIMIT, _STOPPED = range(3)
# The rows of a table of moves: position after it, boxes given away, `give` of the reply (see `_settle`), the
# string, how early to try it; and the symmetric images of the position itself.
_AFTER, _TAKEN, _GIVE, _STRING, _SCORE, _IMAGES = range(6)
_INFINITE = 10**6


class SearchSolver:
    """Solves positions one by one; a `Solver`.

    Positions of a board of at most 64 lines share what has been found out about their common successors.
    """

    def __init__(
        self,
        game: DotsAndBoxes,
        *,
        seconds: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self.game = game
        self.seconds = seconds
        self._progress = progress or (lambda done, total: None)
        self._whole_board = None
        _compile_everything()
        if game.num_actions <= MAX_OPEN_LINES:
            self._whole_board = _Search(game, np.arange(game.num_actions))

    def solve(self, states: DotsAndBoxesState, reward: str | None = None) -> Solution:
        """Values and all optimal moves of positions [batch, ...]; NaN and none where time ran out.

        Args:
          states: the positions.
          reward: the objective, "outcome" or "margin"; default that of the game.
        """
        now = current_margins(states)
        answers = []
        for lines, margin in zip(np.asarray(states.lines), now.tolist()):
            answers.append(self._solve_one(lines, margin, reward or self.game.reward))
            self._progress(len(answers), len(now))
        value, optimal, seconds, nodes = zip(*answers) if answers else ((), (), (), ())
        value = np.array(value, np.float32)
        return Solution(
            value=value,
            optimal=np.array(optimal, bool).reshape(-1, self.game.num_actions),
            proven=~np.isnan(value),
            seconds=np.array(seconds, np.float32),
            nodes=np.array(nodes, np.int64),
        )

    def value(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch] float32: the final margin or the outcome, for the player to move; NaN where unknown."""
        return self.solve(states).value

    def optimal_actions(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch, lines] bool: all moves that reach the value."""
        return self.solve(states).optimal

    def move_margins(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch, lines] float32: the final margin after each move, for who makes it; NaN where drawn.

        Costs more than `solve`, which need not know how bad a bad move is. NaN also where time ran out.
        """
        now = current_margins(states)
        margins = np.full(states.lines.shape, np.nan, np.float32)
        for row, lines in enumerate(np.asarray(states.lines)):
            search, position = self._search_of(lines)
            with contextlib.suppress(_OutOfTimeError):
                for line, string in search.open_strings(position):
                    margins[row, line] = now[row] + search.move_margin(position, string)
        return margins

    def move_outcomes(self, states: DotsAndBoxesState) -> MoveOutcomes:
        """What is proven of every move, also where time ran out before others were."""
        low, high = (np.full(states.lines.shape, np.nan, np.float32) for _ in range(2))
        for row, (lines, now) in enumerate(zip(np.asarray(states.lines), current_margins(states).tolist())):
            search, position = self._search_of(lines)
            with contextlib.suppress(_OutOfTimeError):
                _bound_outcomes(search, position, now, low[row], high[row])
        return MoveOutcomes(low, high)

    def _solve_one(self, lines: np.ndarray, now: int, reward: str) -> tuple[float, np.ndarray, float, int]:
        start = time.perf_counter()
        search, position = self._search_of(lines)
        nodes_before = search.nodes
        optimal = np.zeros(self.game.num_actions, bool)
        try:
            if reward == "outcome":
                low, high = (np.full(self.game.num_actions, np.nan, np.float32) for _ in range(2))
                value = _bound_outcomes(search, position, now, low, high)
                optimal = low == value
            else:
                future = search.margin(position)
                value = now + future
                for line, string in search.open_strings(position):
                    optimal[line] = search.move_reaches(position, string, future)
        except _OutOfTimeError:
            value = np.nan
            optimal[:] = False
        return value, optimal, time.perf_counter() - start, search.nodes - nodes_before

    def _search_of(self, lines: np.ndarray) -> tuple["_Search", int]:
        search = self._whole_board
        if self.seconds is None and np.sum(~lines) > _MOST_WITHOUT_LIMIT:
            raise _too_large(int(np.sum(~lines)), ", or give a limit of seconds to try all the same")
        if search is None:
            open_lines = np.flatnonzero(~lines)
            if len(open_lines) > MAX_OPEN_LINES:
                raise _too_large(len(open_lines), f"; at most {MAX_OPEN_LINES} can be searched at all")
            search = _Search(self.game, open_lines)
        search.deadline = None if self.seconds is None else time.perf_counter() + self.seconds
        return search, search.position(lines)


def _bound_outcomes(search: "_Search", position: int, now: int, low: np.ndarray, high: np.ndarray) -> int:
    """The outcome of a position, and meanwhile what is known of its moves, in `low` and `high` [lines].

    Args:
      now: the margin so far.
      low, high: filled in for open lines as in `MoveOutcomes`, as far as one gets until time runs out.
    """
    moves = search.open_strings(position)
    lines = [line for line, _ in moves]
    low[lines], high[lines] = -1, 1
    for outcome in (1, 0):
        enough = outcome - now  # what has to be gained to win, or not to lose
        if not search.reaches(position, enough):
            high[lines] = outcome - 1
            continue
        for line, string in moves:
            if search.move_reaches(position, string, enough):
                low[line] = outcome
            else:
                high[line] = outcome - 1
        return outcome
    return -1


def current_margins(states: DotsAndBoxesState) -> np.ndarray:
    """[batch] int32: boxes of the player to move minus boxes of the other, so far."""
    sign = 1 - 2 * np.asarray(states.current_player, np.int32)
    return np.sum(np.asarray(states.owners), axis=1, dtype=np.int32) * sign


def estimate_seconds(open_lines: int) -> float:
    """At most about so long takes a position; this is an empty board, and much less if chains have formed."""
    return 6.0 * 2.0 ** (open_lines - 31)  # 3x4 takes 6 s, and each line doubles it


def _too_large(open_lines: int, advice: str) -> TooLargeError:
    return TooLargeError(
        f"{open_lines} lines are open, whose search may take {estimate_seconds(open_lines) / 3600:.2g} hours and "
        f"{16 * _MAX_ENTRIES / 1e9:.1f} GB; up to about {COMFORTABLE_LINES} take a few minutes. Ask again later in the "
        f"game{advice}"
    )


@functools.cache
def _compile_everything() -> None:
    """Has the search compiled, so that no position is charged for it."""
    _Search(DotsAndBoxes(1, 1), np.arange(4)).margin(0b1111)


class _OutOfTimeError(Exception):
    pass


class _Graph(NamedTuple):
    ends: np.ndarray  # [strings, 2] int64: the coins a string joins, the ground (-1) second
    coins: np.ndarray  # [coins] uint64: the strings of each
    kin: np.ndarray  # [strings] uint64: the strings that do the same, itself among them
    groups: np.ndarray  # [groups] uint64: the different kin of two and more
    images: np.ndarray  # [symmetries, strings] int64: where each symmetry takes a string
    byte_images: np.ndarray  # [symmetries, 8, 256] uint64: the same for sets, a byte of them at a time


class _Search:
    """The positions within one set of lines, and what is known about them."""

    def __init__(self, game: DotsAndBoxes, lines: np.ndarray):
        self.lines = lines
        self.graph = _make_graph(game, lines)
        self.table = _aligned_zeros(min(_MAX_ENTRIES, 2 ** max(10, len(lines))))
        self.children = np.zeros((MAX_OPEN_LINES + 1, 6, MAX_OPEN_LINES), np.int64)
        self.counters = np.zeros(3, np.int64)
        self.deadline = None

    @property
    def nodes(self) -> int:
        """Positions expanded so far."""
        return int(self.counters[_NODES])

    def position(self, drawn: np.ndarray) -> int:
        """The open ones among the lines, as a set of strings."""
        return sum(1 << int(string) for string in np.flatnonzero(~drawn[self.lines]))

    def open_strings(self, position: int) -> list[tuple[int, int]]:
        """Line and string, for all that are open."""
        return [(line, string) for string, line in enumerate(self.lines.tolist()) if position >> string & 1]

    def margin(self, position: int) -> int:
        """The future margin of any position."""
        rest, taken, give = self._settle(position)
        v = self._quiet_margin(rest)
        return taken + v if give == 0 else taken - give + abs(v + give)

    def move_margin(self, position: int, string: int) -> int:
        """The future margin of a move for who makes it."""
        completed, after = self._cut(position, string)
        return completed + self.margin(after) if completed else -self.margin(after)

    def move_reaches(self, position: int, string: int, bound: int) -> bool:
        """Whether the future margin of a move is at least a bound."""
        completed, after = self._cut(position, string)
        if completed:
            return self.reaches(after, bound - completed)
        return not self.reaches(after, 1 - bound)

    def _cut(self, position: int, string: int) -> tuple[int, int]:
        after = position & ~(1 << string)
        coins = self.graph.ends[string]
        return sum(coin != _GROUND and not int(self.graph.coins[coin]) & after for coin in coins), after

    def _settle(self, position: int) -> tuple[int, int, int]:
        rest, taken, give = _settle(self.graph, np.uint64(position))
        return int(_representative(self.graph, np.uint64(rest))), taken, give

    def reaches(self, position: int, bound: int) -> bool:
        """Whether the future margin of any position is at least a bound."""
        rest, taken, give = self._settle(position)
        if give == 0:
            return self._quiet_reaches(rest, bound - taken)
        distance = bound - taken + give  # needed of |v + give|
        return (
            distance <= 0
            or self._quiet_reaches(rest, distance - give)
            or not self._quiet_reaches(rest, 1 - distance - give)
        )

    def _quiet_reaches(self, rest: int, bound: int) -> bool:
        return self._proven(rest, bound) >= bound

    def _quiet_margin(self, rest: int) -> int:
        # Steps of two, since a margin is as even as the number of boxes it is about.
        boxes = sum(1 for coin in self.graph.coins if int(coin) & rest)
        low, high = -boxes, boxes
        bound = boxes % 2
        while low < high:
            proven = self._proven(rest, bound)
            if proven >= bound:
                low = bound = max(low, proven + (proven + boxes) % 2)
                bound += 2
            else:
                high = bound = min(high, proven - (proven + boxes) % 2)
        return low

    def _proven(self, rest: int, bound: int) -> int:
        # In slices, for the clock and for the user's interrupt; the table keeps what a slice has found.
        while True:
            if self.deadline is not None and time.perf_counter() > self.deadline:
                raise _OutOfTimeError
            self.counters[_NODE_LIMIT] = self.counters[_NODES] + _NODES_PER_SLICE
            self.counters[_STOPPED] = 0
            proven = _search(self.graph, self.table, self.children, self.counters, np.uint64(rest), 0, bound)
            if not self.counters[_STOPPED]:
                return int(proven)


def _make_graph(game: DotsAndBoxes, lines: np.ndarray) -> _Graph:
    ground = game.num_boxes
    ends = strings_and_coins(game.rows, game.columns)[lines].astype(np.int64)
    ends = np.sort(ends, axis=1)  # the ground has the greatest number
    number = {int(coin): i for i, coin in enumerate(np.setdiff1d(ends, ground))}
    number[ground] = _GROUND
    ends = np.vectorize(number.__getitem__, otypes=[np.int64])(ends).reshape(-1, 2)
    bits = _ONE << np.arange(len(lines), dtype=np.uint64)
    coins = np.array([bits[(ends == coin).any(axis=1)].sum() for coin in range(len(number) - 1)], np.uint64)
    to_ground = ends[:, 1] == _GROUND
    kin = [
        bits[to_ground & (ends[:, 0] == ends[string, 0])].sum() if to_ground[string] else bits[string]
        for string in range(len(lines))
    ]
    # A symmetry of the board is one of the graph if the graph has all the board's lines.
    views = game.symmetries.action if len(lines) == game.num_actions else np.arange(len(lines))[None]
    images = np.argsort(views, axis=1).astype(np.int64)
    groups = sorted({int(group) for group in kin if group & (group - _ONE)})
    return _Graph(
        ends, coins, np.array(kin, np.uint64), np.array(groups, np.uint64), images, _byte_images(images)
    )


def _byte_images(images: np.ndarray) -> np.ndarray:
    # [symmetries, 8, 256] uint64.
    symmetries, strings = images.shape
    padded = np.zeros((symmetries, 64), np.uint64)
    padded[:, :strings] = _ONE << images.astype(np.uint64)
    is_in = (np.arange(256)[:, None] >> np.arange(8)) & 1  # [256, 8]
    return np.einsum("skb,vb->skv", padded.reshape(symmetries, 8, 8), is_in.astype(np.uint64))


def _aligned_zeros(entries: int) -> np.ndarray:
    # [entries, 2] uint64. Four entries fill a cache line, so that a probe touches one.
    memory = np.zeros(2 * entries + 8, np.uint64)
    start = -memory.ctypes.data % 64 // 8
    return memory[start : start + 2 * entries].reshape(entries, 2)


_compiled = functools.partial(numba.njit, cache=True)


@_compiled
def _beyond(graph, string, coin):
    # The other end of a string.
    return graph.ends[string, 0] + graph.ends[string, 1] - coin


@_compiled
def _degree(graph, position, coin):
    # The open strings of a coin; the ground has none.
    return 0 if coin == _GROUND else count_bits(position & graph.coins[coin])


@_compiled
def _take_from(graph, position, coin):
    """Takes a coin with one string, and the next one as long as it has one string left.

    Returns the position, the coins taken, and where it ends: a coin, the ground, or `_CLOSED` if the last
    string took two coins.
    """
    taken = 0
    while True:
        string = lowest_bit(position & graph.coins[coin])
        position ^= bit_of(string)
        taken += 1
        coin = _beyond(graph, string, coin)
        if coin == _GROUND:
            return position, taken, coin
        degree = _degree(graph, position, coin)
        if degree == 0:
            return position, taken + 1, _CLOSED
        if degree > 1:
            return position, taken, coin


@_compiled
def _settle(graph, position):
    """All captures of one turn: the quiet rest, the coins taken, and how many have to be left to pass.

    With (rest, taken, give), the margin is taken + v if give is 0, else taken - give + |v + give|, v being
    the margin of the rest.
    """
    taken = 0
    for coin in range(graph.coins.shape[0]):
        if _degree(graph, position, coin) == 1:
            string = lowest_bit(position & graph.coins[coin])
            degree = _degree(graph, position, _beyond(graph, string, coin))
            if degree != 2:
                position ^= bit_of(string)
                taken += 2 if degree == 1 else 1
    has_exit = closed = False
    ends = np.zeros(graph.coins.shape[0], np.bool_)
    for coin in range(graph.coins.shape[0]):
        if _degree(graph, position, coin) == 1:
            position, heap, end = _take_from(graph, position, coin)
            taken += heap
            if end == _GROUND:
                has_exit = True
            elif end == _CLOSED:
                closed = closed or heap >= 4
            else:
                ends[end] = True
    for coin in range(graph.coins.shape[0]):
        # A coin taken later was no exit.
        has_exit = has_exit or (ends[coin] and _degree(graph, position, coin) > 0)
    return position, taken, 2 if has_exit else 4 if closed else 0


@_compiled
def _settle_after(graph, position, string):
    """`_settle` after cutting a string of a quiet position, where captures can only start at its ends."""
    position ^= bit_of(string)
    taken = give = 0
    for end in range(2):
        coin = graph.ends[string, end]
        if _degree(graph, position, coin) == 1:
            position, heap, last = _take_from(graph, position, coin)
            taken += heap
            if last == _CLOSED:
                give = 4 if heap >= 4 else 0
            elif heap >= 2:
                give = 2
    return position, taken, give


@_compiled
def _chain_through(graph, position, string):
    """The strings of the chain that a string belongs to, and one of them to open it at.

    The string must have an end of degree two. In a chain of two boxes the string to open is the middle one.
    """
    chain = bit_of(string)
    opening = string
    for end in range(2):
        coin = graph.ends[string, end]
        last = string
        while _degree(graph, position, coin) == 2:
            last = lowest_bit(position & graph.coins[coin] & ~bit_of(last))
            if chain & bit_of(last):
                return chain, opening  # round a loop
            chain |= bit_of(last)
            coin = _beyond(graph, last, coin)
            if _degree(graph, position, coin) == 2:
                opening = last
    both = graph.ends[string]
    if _degree(graph, position, both[0]) == 2 and _degree(graph, position, both[1]) == 2:
        opening = string
    return chain, opening


@_compiled
def _image(graph, symmetry, position):
    # Where a symmetry takes a position.
    image = np.uint64(0)
    byte = 0
    while position:
        image |= graph.byte_images[symmetry, byte, np.int64(position & np.uint64(255))]
        position >>= np.uint64(8)
        byte += 1
    return image


@_compiled
def _representative(graph, position):
    # Among strings that do the same, the lowest are the open ones.
    for group in graph.groups:
        closed = count_bits(group & ~position)
        if 0 < closed < count_bits(group):
            position |= group
            for _ in range(closed):
                position ^= bit_of(highest_bit(position & group))
    return position


@_compiled
def _canonical(graph, position):
    # The least of all symmetric images.
    least = _representative(graph, position)
    for symmetry in range(1, graph.images.shape[0]):
        least = min(least, _representative(graph, _image(graph, symmetry, position)))
    return least


@_compiled
def _slot(table, position):
    # Where the four entries start that may hold a position: mixed bits, so that similar sets spread.
    mixed = position * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(table.shape[0] - 4))


@_compiled
def _find(table, position):
    # The bounds of the margin and the move to try first; or (1, -1, _NO_LINE).
    slot = _slot(table, position)
    for entry in range(slot, slot + 4):
        if table[entry, 0] == position:
            data = np.int64(table[entry, 1])
            return (data & 255) - 128, (data >> 8 & 255) - 128, data >> 16 & 255
    return 1, -1, _NO_LINE


@_compiled
def _store(table, position, lower, upper, first, work):
    # In the place of the position itself, or of what was the least work.
    slot = _slot(table, position)
    place = slot
    least = np.int64(2**62)
    for entry in range(slot, slot + 4):
        if table[entry, 0] == position or table[entry, 0] == 0:
            place = entry
            break
        its_work = np.int64(table[entry, 1]) >> 24
        if its_work < least:
            place, least = entry, its_work
    table[place, 0] = position
    table[place, 1] = np.uint64((lower + 128) | (upper + 128) << 8 | first << 16 | work << 24)


@_compiled
def _expand(graph, position, two, rows):
    """Writes the moves that matter to `rows`, best guesses with the highest scores, and returns their number.

    Safe moves come first, those that leave the fewest safe moves before others: their subtrees are the
    smallest. Then openings, the cheapest first.
    """
    symmetries = 1
    if 2 * count_bits(position) > graph.ends.shape[0]:
        symmetries = graph.images.shape[0]
    for symmetry in range(1, symmetries):
        rows[_IMAGES, symmetry] = np.int64(_representative(graph, _image(graph, symmetry, position)))
    count = 0
    safe = position & ~two
    left = safe
    while left:
        string = lowest_bit(left)
        left &= left - _ONE
        if position & graph.kin[string] & ~(bit_of(string) | (bit_of(string) - _ONE)):
            continue  # the last of its kin stands for it
        remaining = safe ^ bit_of(string)
        for end in range(2):
            coin = graph.ends[string, end]
            if _degree(graph, position, coin) == 3:
                remaining &= ~graph.coins[coin]
        after = position ^ bit_of(string)
        for symmetry in range(1, symmetries):
            image = np.uint64(rows[_IMAGES, symmetry])
            cut = highest_bit(image & graph.kin[graph.images[symmetry, string]])
            after = min(after, image ^ bit_of(cut))
        rows[_AFTER, count] = np.int64(after)
        rows[_TAKEN, count] = 0
        rows[_GIVE, count] = 0
        rows[_STRING, count] = string
        rows[_SCORE, count] = -count_bits(remaining)
        count += 1
    left = position & two
    while left:
        chain, string = _chain_through(graph, position, lowest_bit(left))
        left &= ~chain
        after, taken, give = _settle_after(graph, position, string)
        if symmetries > 1:
            after = _canonical(graph, after)
        rows[_AFTER, count] = np.int64(after)
        rows[_TAKEN, count] = taken
        rows[_GIVE, count] = give
        rows[_STRING, count] = string
        rows[_SCORE, count] = -100 * taken
        count += 1
    return count


@_compiled
def _look_up(table, rows, count, boxes, first, bound):
    """Looks all moves up: the greatest margin proven to be reached, and the greatest not proven impossible.

    Of the second, only moves count that cannot reach the bound; they need no search and are scored so.
    """
    reached = excluded = np.int64(-_INFINITE)
    touched = np.uint64(0)
    for move in range(count):
        # Loads that wait for nothing, so that the memory serves them all at once.
        touched |= table[_slot(table, np.uint64(rows[_AFTER, move])), 0]
    for move in range(count):
        taken, give = rows[_TAKEN, move], rows[_GIVE, move]
        if rows[_STRING, move] == first:
            rows[_SCORE, move] = _INFINITE
        if rows[_AFTER, move] == 0:
            lower = upper = np.int64(0)
        else:
            lower, upper, _ = _find(table, np.uint64(rows[_AFTER, move]))
            if lower > upper:
                upper = boxes - taken
                lower = -upper
        if give == 0:
            least, most = -taken - upper, -taken - lower
        else:
            least = give - taken - max(abs(lower + give), abs(upper + give))
            most = give - taken - max(lower + give, -(upper + give), 0)
        reached = max(reached, least)
        if most < bound:
            rows[_SCORE, move] = -_INFINITE
            excluded = max(excluded, most)
    return reached, excluded, touched


@_compiled
def _search(graph, table, children, counters, position, ply, bound):
    """A margin of a quiet position: at least the bound and reached, or below it and not exceeded.

    Meaningless once the counters say that the search was stopped.
    """
    if position == 0:
        return np.int64(0)
    boxes = np.int64(0)
    two = np.uint64(0)  # the strings of coins of degree two
    for strings in graph.coins:
        degree = count_bits(position & strings)
        boxes += degree > 0
        if degree == 2:
            two |= strings
    lower, upper, first = _find(table, position)
    if lower > upper:
        lower, upper = -boxes, boxes
    if lower >= bound:
        return lower
    if upper < bound:
        return upper
    counters[_NODES] += 1
    before = counters[_NODES]
    if before > counters[_NODE_LIMIT]:
        counters[_STOPPED] = 1
        return np.int64(0)
    rows = children[ply]
    count = _expand(graph, position, two, rows)
    best, excluded, _ = _look_up(table, rows, count, boxes, first, bound)
    if best < bound:
        best = excluded
        for turn in range(count):
            move = turn
            for other in range(turn + 1, count):
                if rows[_SCORE, other] > rows[_SCORE, move]:
                    move = other
            if rows[_SCORE, move] == -_INFINITE:
                break
            after, taken, give = np.uint64(rows[_AFTER, move]), rows[_TAKEN, move], rows[_GIVE, move]
            string = rows[_STRING, move]
            for row in range(5):
                rows[row, move] = rows[row, turn]
            if give == 0:
                margin = -taken - _search(graph, table, children, counters, after, ply + 1, 1 - taken - bound)
            else:
                # |v + give| must be at most `distance`.
                distance = give - taken - bound
                v = _search(graph, table, children, counters, after, ply + 1, -give - distance)
                margin = give - taken + v + give
                if v >= -give - distance:
                    low = v
                    v = _search(graph, table, children, counters, after, ply + 1, 1 + distance - give)
                    margin = give - taken - v - give
                    if v <= distance - give:
                        margin = give - taken - max(abs(low + give), abs(v + give))
            if counters[_STOPPED]:
                return np.int64(0)
            if margin > best:
                best = margin
            if best >= bound:
                first = string
                break
    if best >= bound:
        lower = max(lower, best)
    else:
        upper = min(upper, best)
        best = upper
    work = counters[_NODES] - before
    size = np.int64(0)
    while work > 0:
        work >>= 1
        size += 1
    _store(table, position, lower, upper, first, size)
    return best
