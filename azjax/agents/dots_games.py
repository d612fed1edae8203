"""Whole games of the rule-based players of Dots and Boxes, many times faster than move by move.

The players are those of `azjax.agents.dots_rules`, and the tests hold the two together move by move; here a game is one
compiled loop over small arrays, for data that takes millions of games. What makes it quick: a line that is not safe
never becomes safe again while nothing can be captured, so that all safe lines are drawn in one random order; and what
opening a chain would cost is only asked where the answer decides.
"""

import functools
from typing import NamedTuple

import numba
import numpy as np

from azjax.envs.dots_and_boxes import DotsAndBoxes, box_sides, strings_and_coins

LEVELS = ("easy", "medium", "hard")
_EASY, _MEDIUM, _HARD = range(3)
_NOTHING = 10**6  # more than any number of lines
_GROUND = 1000  # open sides of the ground, which nobody can capture


# What is known of a board while it is played on: the rows of one array, because numba counts the references to every
# array at every call, which would take most of the time.
(
    _DRAWN,  # of a line: whether it is
    _DEGREE,  # of a box: its open sides
    _ORDER,  # the lines in a random order
    _CHOICE,  # lines to choose from
    _LOG,  # lines drawn in thought
    _STACK,  # boxes to look at
    _MARK,  # of a box: the name of its open chain, from 1; else 0
    _COST,  # of such a name: the lines that opening the chain gives away
    _OWN,  # of a box: the name of its chain if it can be captured, -1 before there is one; else 0
    _SIZE,  # of such a name: the lines it takes to capture the chain
) = range(10)


class _Board(NamedTuple):
    ends: np.ndarray  # [lines, 2] int64: the boxes beside a line; the ground is number boxes
    sides: np.ndarray  # [boxes, 4] int64


class Cuts(NamedTuple):
    """A position out of each of some games, and what came of it."""

    lines: np.ndarray  # [games, lines] bool, drawn by then
    owners: np.ndarray  # [games, boxes] int8
    player: np.ndarray  # [games] int32, to move
    line: np.ndarray  # [games] int32, which was drawn next
    margin: np.ndarray  # [games] int32, at the end of the game: boxes of the player to move minus the other's


def play(
    game: DotsAndBoxes,
    level: str,
    starts: np.ndarray,
    seeds: np.ndarray,
    wild: np.ndarray | None = None,
    *,
    second: str | None = None,
) -> np.ndarray:
    """Games of one level against another, to their ends.

    Args:
      game: the board.
      level: one of `LEVELS`, of the first player.
      starts: [games, lines] bool, the lines drawn before; no box may be complete.
      seeds: [games] uint64; a game depends on nothing but its seed and its start.
      wild: [games] the number of the move, from 0, for which any open line is drawn instead; negative for none.
      second: the level of the second player; None for the same.

    Returns:
      [games, lines] int32, the lines in the order they were drawn, -1 after the end.
    """
    records = np.full(starts.shape, -1, np.int32)
    wild = np.full(len(starts), -1, np.int64) if wild is None else wild.astype(np.int64)
    levels = LEVELS.index(level), LEVELS.index(second or level)
    _play_all(_board(game), levels, starts, seeds.astype(np.uint64), wild, records)
    return records


def safe_fills(game: DotsAndBoxes, removed: int, seeds: np.ndarray) -> np.ndarray:
    """[boards, lines] bool: random safe lines until there are none, of which so many are taken away again.

    Nothing can be captured on such a board, and play goes on in the middle of the first phase. Peters 2018 begins
    matches so ("quick start"), because its networks hardly vary their play.
    """
    filled = np.zeros((len(seeds), game.num_actions), bool)
    _fill_all(_board(game), removed, seeds.astype(np.uint64), filled)
    return filled


def cut(game: DotsAndBoxes, starts: np.ndarray, records: np.ndarray, plies: np.ndarray) -> Cuts:
    """The positions of games after some of their moves.

    Args:
      game: the board.
      starts: [games, lines] bool, the lines drawn before the first move.
      records: [games, lines] int32 as from `play`.
      plies: [games] moves before the position; at least one must follow.
    """
    number = len(records)
    cuts = Cuts(
        starts.copy(),
        np.zeros((number, game.num_boxes), np.int8),
        np.zeros(number, np.int32),
        np.zeros(number, np.int32),
        np.zeros(number, np.int32),
    )
    _cut_all(_board(game), records, plies.astype(np.int64), cuts)
    return cuts


@functools.cache
def _board(game: DotsAndBoxes) -> _Board:
    ends = strings_and_coins(game.rows, game.columns).astype(np.int64)
    return _Board(ends, box_sides(game.rows, game.columns).astype(np.int64))


_compiled = functools.partial(numba.njit, cache=True)
_inlined = functools.partial(
    numba.njit, cache=True, forceinline=True
)  # a call counts references to all its arrays


@_inlined
def _next(state):
    # One more step of splitmix64 (Steele et al. 2014).
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@_inlined
def _below(state, number):
    # A random number from 0 to number - 1; off by less than one part in 2^31 for our small numbers.
    return np.int64(((_next(state) >> np.uint64(32)) * np.uint64(number)) >> np.uint64(32))


@_inlined
def _shuffle(state, s, row, number):
    for place in range(number - 1, 0, -1):
        other = _below(state, place + 1)
        s[row, place], s[row, other] = s[row, other], s[row, place]


@_inlined
def _order_lines(board, s, state):
    for line in range(board.ends.shape[0]):
        s[_ORDER, line] = line
    _shuffle(state, s, _ORDER, board.ends.shape[0])


@_compiled
def _new_scratch(board):
    return np.zeros((10, max(board.ends.shape[0], board.sides.shape[0] + 1)), np.int64)


@_inlined
def _set_up(board, s, start):
    boxes = board.sides.shape[0]
    for box in range(boxes):
        s[_DEGREE, box] = 4
    s[_DEGREE, boxes] = _GROUND
    for line in range(start.shape[0]):
        s[_DRAWN, line] = start[line]
        if start[line]:
            s[_DEGREE, board.ends[line, 0]] -= 1
            s[_DEGREE, board.ends[line, 1]] -= 1


@_inlined
def _draw(board, s, line):
    s[_DRAWN, line] = 1
    s[_DEGREE, board.ends[line, 0]] -= 1
    s[_DEGREE, board.ends[line, 1]] -= 1


@_inlined
def _take_back(board, s, line):
    s[_DRAWN, line] = 0
    s[_DEGREE, board.ends[line, 0]] += 1
    s[_DEGREE, board.ends[line, 1]] += 1


@_inlined
def _is_safe(board, s, line):
    return (
        not s[_DRAWN, line] and s[_DEGREE, board.ends[line, 0]] != 2 and s[_DEGREE, board.ends[line, 1]] != 2
    )


@_inlined
def _open_side(board, s, box):
    for number in range(4):
        side = board.sides[box, number]
        if not s[_DRAWN, side]:
            return side
    return -1


@_inlined
def _other_end(board, line, box):
    return board.ends[line, 0] + board.ends[line, 1] - box


@_inlined
def _capture_from(board, s, box, count):
    """Captures, in thought, a box that has one open side and all that follows; returns the lines in the log."""
    while box < board.sides.shape[0] and s[_DEGREE, box] == 1:
        line = _open_side(board, s, box)
        _draw(board, s, line)
        s[_LOG, count] = line
        count += 1
        box = _other_end(board, line, box)
    return count


@_inlined
def _undo(board, s, count, until):
    for place in range(count - 1, until - 1, -1):
        _take_back(board, s, s[_LOG, place])


@_inlined
def _name_chains(board, s, noted):
    """Names the chains of boxes with two open sides, from 1, and finds what opening each gives away; how many.

    Args:
      noted: the lines that stand in the log.
    """
    boxes = board.sides.shape[0]
    for box in range(boxes + 1):
        s[_MARK, box] = 0
    chains = 0
    for first in range(boxes):
        if s[_DEGREE, first] != 2 or s[_MARK, first] > 0:
            continue
        chains += 1
        s[_MARK, first] = chains
        s[_STACK, 0] = first
        waiting = 1
        while waiting > 0:
            waiting -= 1
            box = s[_STACK, waiting]
            for number_of_side in range(4):
                side = board.sides[box, number_of_side]
                beyond = _other_end(board, side, box)
                if not s[_DRAWN, side] and s[_DEGREE, beyond] == 2 and s[_MARK, beyond] == 0:
                    s[_MARK, beyond] = chains
                    s[_STACK, waiting] = beyond
                    waiting += 1
        # Opened at one line, it is taken from both of its sides.
        line = _open_side(board, s, first)
        _draw(board, s, line)
        count = _capture_from(board, s, board.ends[line, 0], noted)
        count = _capture_from(board, s, board.ends[line, 1], count)
        _undo(board, s, count, noted)
        _take_back(board, s, line)
        s[_COST, chains] = count - noted
    return chains


@_inlined
def _cost_of(board, s, line):
    # What drawing an open line gives away, once the chains are named.
    chain = max(s[_MARK, board.ends[line, 0]], s[_MARK, board.ends[line, 1]])
    return s[_COST, chain] if chain > 0 else 0


@_inlined
def _choose_opening(board, s, level):
    """Lists the lines with which a level opens a chain; how many there are."""
    lines = board.ends.shape[0]
    if level != _EASY:
        _name_chains(board, s, 0)
    least = _NOTHING
    number = 0
    for line in range(lines):
        if s[_DRAWN, line]:
            continue
        cost = 0 if level == _EASY else _cost_of(board, s, line)
        if cost < least:
            least, number = cost, 0
        if cost == least:
            s[_CHOICE, number] = line
            number += 1
    if level != _HARD or least != 2:
        return number
    middle = 0
    for place in range(number):
        line = s[_CHOICE, place]
        if s[_DEGREE, board.ends[line, 0]] == 2 and s[_DEGREE, board.ends[line, 1]] == 2:
            s[_CHOICE, middle] = line
            middle += 1
    return middle if middle > 0 else number


@_inlined
def _capturing(board, s, size):
    """Lists the lines that capture a box now, of own chains of this size; 0 for all. How many there are."""
    number = 0
    for box in range(board.sides.shape[0]):
        if s[_DEGREE, box] != 1 or (size > 0 and s[_SIZE, s[_OWN, box]] != size):
            continue
        line = _open_side(board, s, box)
        beyond = _other_end(board, line, box)
        if s[_DEGREE, beyond] == 1 and beyond < box:
            continue  # one line captures both, and is listed
        s[_CHOICE, number] = line
        number += 1
    return number


@_inlined
def _choose_capture_of_hard(board, s, ready):
    """Lists the captures, or double deals, that the level hard chooses from; how many there are.

    Args:
      ready: the boxes that can be captured at once.
    """
    boxes = board.sides.shape[0]
    count = 0
    for box in range(boxes):
        if s[_DEGREE, box] == 1:
            count = _capture_from(board, s, box, count)
    # What is captured, and so marked for now, has no open side left in thought.
    own_boxes = 0
    for box in range(boxes + 1):
        s[_OWN, box] = 0
    for place in range(count):
        for end in range(2):
            box = board.ends[s[_LOG, place], end]
            if box < boxes and s[_DEGREE, box] == 0 and s[_OWN, box] == 0:
                s[_OWN, box] = -1
                own_boxes += 1
    can_deal = count == 2 or (count == 3 and own_boxes == 4)
    if can_deal:
        least = _NOTHING
        _name_chains(board, s, count)
        for line in range(board.ends.shape[0]):
            if not s[_DRAWN, line]:
                least = min(least, _cost_of(board, s, line))
        can_deal = 3 <= least < _NOTHING
    _undo(board, s, count, 0)
    if ready == 1 and not can_deal:
        s[_CHOICE, 0] = _only_capture(board, s)
        return 1

    # Of all chains the shortest, with the name 1; the others get names below.
    chains, shortest = 0, _NOTHING
    for first in range(boxes):
        if s[_OWN, first] != -1:
            continue
        chains += 1
        s[_OWN, first] = chains
        s[_STACK, 0] = first
        waiting, size, is_closed = 1, 0, 1
        while waiting > 0:
            waiting -= 1
            box = s[_STACK, waiting]
            size += 1
            for number_of_side in range(4):
                side = board.sides[box, number_of_side]
                if s[_DRAWN, side]:
                    continue
                beyond = _other_end(board, side, box)
                if s[_OWN, beyond] == -1:
                    s[_OWN, beyond] = chains
                    s[_STACK, waiting] = beyond
                    waiting += 1
                elif s[_OWN, beyond] == 0:
                    is_closed = 0
        s[_SIZE, chains] = size - is_closed
        shortest = min(shortest, size - is_closed)
    if can_deal:
        number = 0
        for box in range(boxes):
            if s[_DEGREE, box] != 2:
                continue
            for number_of_side in range(4):
                side = board.sides[box, number_of_side]
                if s[_DRAWN, side] or not _leaves_a_pair(board, s, box, side):
                    continue
                beyond = _other_end(board, side, box)
                own = (s[_OWN, box] > 0 and s[_SIZE, s[_OWN, box]] == shortest) or (
                    s[_OWN, beyond] > 0 and s[_SIZE, s[_OWN, beyond]] == shortest
                )
                listed = False
                for place in range(number):
                    listed = listed or s[_CHOICE, place] == side
                if own and not listed:
                    s[_CHOICE, number] = side
                    number += 1
        if number > 0:
            return number
    return _capturing(board, s, shortest)


@_inlined
def _only_capture(board, s):
    for box in range(board.sides.shape[0]):
        if s[_DEGREE, box] == 1:
            return _open_side(board, s, box)
    return -1


@_inlined
def _leaves_a_pair(board, s, box, side):
    # Whether the other open side of a box with two leads to a box that has just this one.
    for number in range(4):
        other = board.sides[box, number]
        if other != side and not s[_DRAWN, other]:
            return s[_DEGREE, _other_end(board, other, box)] == 1
    return False


@_inlined
def _choices(board, s, level, ready, safe_from):
    """Lists the lines that a level chooses from, where no line before `safe_from` of the order is safe."""
    if ready > 0:
        return _choose_capture_of_hard(board, s, ready) if level == _HARD else _capturing(board, s, 0)
    for place in range(safe_from, board.ends.shape[0]):
        if _is_safe(board, s, s[_ORDER, place]):
            s[_CHOICE, 0] = s[_ORDER, place]
            return 1
    return _choose_opening(board, s, level)


@_inlined
def _any_open(board, s, state):
    number = 0
    for line in range(board.ends.shape[0]):
        if not s[_DRAWN, line]:
            s[_CHOICE, number] = line
            number += 1
    return s[_CHOICE, _below(state, number)]


@_compiled
def _play_all(board, levels, starts, seeds, wild, records):
    lines, boxes = board.ends.shape[0], board.sides.shape[0]
    s = _new_scratch(board)
    state = np.zeros(1, np.uint64)
    for game in range(starts.shape[0]):
        state[0] = seeds[game]
        _set_up(board, s, starts[game])
        _order_lines(board, s, state)
        left = safe_from = ready = player = 0
        for line in range(lines):
            left += s[_DRAWN, line] == 0
        for box in range(boxes):
            ready += s[_DEGREE, box] == 1
        for ply in range(left):
            if ply == wild[game]:
                line = _any_open(board, s, state)
            else:
                if ready == 0:
                    while safe_from < lines and not _is_safe(board, s, s[_ORDER, safe_from]):
                        safe_from += 1
                number = _choices(board, s, levels[player], ready, safe_from)
                line = s[_CHOICE, 0] if number == 1 else s[_CHOICE, _below(state, number)]
            captures = False
            for end in range(2):
                degree = s[_DEGREE, board.ends[line, end]]
                ready += (degree == 2) - (degree == 1)
                captures = captures or degree == 1
            if not captures:
                player = 1 - player
            _draw(board, s, line)
            records[game, ply] = line


@_compiled
def _fill_all(board, removed, seeds, filled):
    s = _new_scratch(board)
    state = np.zeros(1, np.uint64)
    for row in range(seeds.shape[0]):
        state[0] = seeds[row]
        _set_up(board, s, filled[row])
        _order_lines(board, s, state)
        number = 0
        for place in range(board.ends.shape[0]):
            line = s[_ORDER, place]
            if _is_safe(board, s, line):
                _draw(board, s, line)
                s[_LOG, number] = line
                number += 1
        _shuffle(state, s, _LOG, number)
        for place in range(min(removed, number), number):
            filled[row, s[_LOG, place]] = True


@_compiled
def _cut_all(board, records, plies, cuts):
    s = _new_scratch(board)
    boxes = board.sides.shape[0]
    for game in range(records.shape[0]):
        _set_up(board, s, cuts.lines[game])
        player, margin = 0, 0
        for ply in range(records.shape[1]):
            line = records[game, ply]
            if line < 0:
                break
            is_before = ply < plies[game]
            if ply == plies[game]:
                cuts.player[game], cuts.line[game] = player, line
            _draw(board, s, line)
            if is_before:
                cuts.lines[game, line] = True
            captured = 0
            for end in range(2):
                box = board.ends[line, end]
                if box < boxes and s[_DEGREE, box] == 0:
                    captured += 1
                    if is_before:
                        cuts.owners[game, box] = 1 - 2 * player
            margin += captured * (1 - 2 * player)
            if captured == 0:
                player = 1 - player
        cuts.margin[game] = margin * (1 - 2 * cuts.player[game])


def choices_of(game: DotsAndBoxes, level: str, lines: np.ndarray) -> np.ndarray:
    """[lines] bool: the lines that a level chooses from after the drawn ones, [lines] bool, as the games play.

    Of safe lines, which are drawn in an order that is made once, all are named.
    """
    board, chosen = _board(game), np.zeros(game.num_actions, bool)
    s = _new_scratch(board)
    _set_up(board, s, lines)
    ready = int(np.sum(s[_DEGREE, : game.num_boxes] == 1))
    safe = np.array([_is_safe(board, s, line) for line in range(game.num_actions)])
    if ready == 0 and safe.any():
        return safe
    number = _choices(board, s, LEVELS.index(level), ready, game.num_actions)
    chosen[s[_CHOICE, :number]] = True
    return chosen
