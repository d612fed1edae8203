"""An alpha-beta player of Dots and Boxes that looks some turns ahead, after the one in Peters 2018.

A move of its tree is a whole turn. All that can be captured is captured, and then one line is drawn: a safe one, or one
that opens a chain (all lines of a long chain or a loop are alike, a chain of two boxes is opened in the middle, and of
several border lines of a box one stands for all). Or else the turn ends in a double deal, which leaves the last two
boxes of a chain, or the last four of a loop.

Beyond its depth it judges by the mean of three numbers: what can be captured, and the margin, both as a share of all
boxes; and the long chain rule, once there are no safe lines: 1 if the opponent has just given a double deal away, else
1 or -1 as dots and long chains together are even, as the first player wants it, or odd.

It searches one turn deep, then two, and so on until the time is over. A depth at which not even a tenth of the first
moves could be searched does not count; so at the very least it compares the judgements of the positions after each.
"""

import functools
import time
from typing import NamedTuple

import jax
import numba
import numpy as np

from azjax.common.agent import Agent
from azjax.envs.core import GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes, box_sides, strings_and_coins

SECONDS = 5.0  # a move

_ENTRIES = 2**18  # of the transposition table
_FIRST_SLICE = 2**14  # nodes before the first look at the clock
_FEW = 0.1  # of the first moves
_DOUBLE_DEAL = -1  # in the place of the line that ends a turn
_NONE = -2
_EXACT, _LOWER, _UPPER = range(3)
_NODES, _LIMIT, _STOPPED = range(3)
_INFINITE = 1e9


class _Board(NamedTuple):
    ends: np.ndarray  # [lines, 2] int64: the boxes beside a line; the ground is number boxes
    sides: np.ndarray  # [boxes, 4] int64
    keys: np.ndarray  # [lines] uint64, for the numbers of positions
    dots: int


class _Position(NamedTuple):
    drawn: np.ndarray  # [lines] bool
    degree: np.ndarray  # [boxes + 1] int64: open sides; many for the ground


class _Work(NamedTuple):
    full: np.ndarray  # [plies, lines] int64: lines that capture all there is
    deal: np.ndarray  # [plies, lines] int64: lines that capture less and end in a double deal
    options: np.ndarray  # [plies, lines] int64: lines that may end a turn after capturing all


class _Table(NamedTuple):
    keys: np.ndarray  # [entries] uint64
    values: np.ndarray  # [entries] float64
    depths: np.ndarray  # [entries] int64
    bounds: np.ndarray  # [entries] int64: _EXACT, _LOWER or _UPPER
    moves: np.ndarray  # [entries] int64


class _Turn(NamedTuple):
    captures: int  # lines in `full`
    gain: int  # boxes they capture
    deal: int  # lines in `deal`; 0 if there is no double deal
    deal_gain: int
    options: int  # lines in `options`; 0 if the game is over after the captures
    safe: int  # how many of them, the first ones, are safe
    long_chains: int  # open ones, after the captures
    is_loony: bool  # whether a double deal is on offer


def make(
    game: DotsAndBoxes, name: str = "alphabeta", *, depth: int | None = None, seconds: float = SECONDS
) -> Agent:
    """The player.

    Args:
      game: the board.
      name: of the agent.
      depth: turns to look ahead at most; None for as many as the time allows.
      seconds: for a move.
    """
    search = _Search(game, depth, seconds)

    def act(params, key: jax.Array, states: GameState) -> np.ndarray:
        del params
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        lanes = zip(np.asarray(states.lines), np.asarray(states.current_player).tolist())
        return np.array([search.choose(lines, player, random) for lines, player in lanes], np.int32)

    return Agent(name, act, on_host=True)


class _Search:
    def __init__(self, game: DotsAndBoxes, depth: int | None, seconds: float):
        self.game = game
        self.depth = min(depth or game.num_actions, game.num_actions)
        self.seconds = seconds
        keys = np.random.default_rng(0).integers(2**64, size=game.num_actions, dtype=np.uint64)
        self.board = _Board(
            strings_and_coins(game.rows, game.columns).astype(np.int64),
            box_sides(game.rows, game.columns).astype(np.int64),
            keys,
            (game.rows + 1) * (game.columns + 1),
        )
        shape = (self.depth + 1, game.num_actions + 1)
        self.work = _Work(*(np.zeros(shape, np.int64) for _ in _Work._fields))

    def choose(self, lines: np.ndarray, player: int, random: np.random.Generator) -> int:
        """The line to draw; 0 if the game is over."""
        if lines.all():
            return 0
        position = _Position(lines.copy(), _degrees(self.board, lines))
        turn = _Turn(*_capture_all(self.board, position, *self._rows(0)))
        full, deal = self.work.full[0, : turn.captures].copy(), self.work.deal[0, : turn.deal].copy()
        if turn.captures and (turn.deal == 0 or turn.options == 0 or deal[0] == full[0]):
            return int(full[0])  # however the turn ends, it begins with this line
        ends = random.permutation(self.work.options[0, : turn.options])
        if turn.deal:
            ends = np.append(_DOUBLE_DEAL, ends)
        _draw(self.board, position, full, -1)
        moves = [
            (deal, turn.deal_gain) if end == _DOUBLE_DEAL else (np.append(full, end), turn.gain)
            for end in ends
        ]
        best = self._best(position, player, moves)
        return int(moves[best][0][0])

    def _best(self, position: _Position, player: int, moves: list[tuple[np.ndarray, int]]) -> int:
        """The number of the best of some turns, each given by its lines and the boxes they capture."""
        deadline = time.perf_counter() + self.seconds
        open_lines = np.count_nonzero(~position.drawn)
        table = _empty_table()
        order = list(range(len(moves)))
        for depth in range(1, min(self.depth, open_lines) + 1):
            values = self._values(table, position, player, [moves[move] for move in order], depth, deadline)
            if len(values) <= _FEW * len(moves):
                break
            best = order[int(np.argmax(values))]
            order = [best, *(move for move in order if move != best)]
            if len(values) < len(moves):
                break
        return order[0]

    def _values(
        self,
        table: _Table,
        position: _Position,
        player: int,
        moves: list[tuple[np.ndarray, int]],
        depth: int,
        deadline: float,
    ) -> list[float]:
        """The values of as many turns as the time allows; exact for the best, the first of them if there are more."""
        weight = 1 / (3 * self.game.num_boxes)
        values = []
        for lines, gain in moves:
            _draw(self.board, position, lines, 1)
            beta = gain * weight - max(values, default=-_INFINITE)
            value = self._search(table, position, 1 - player, depth - 1, beta, deadline)
            _draw(self.board, position, lines, -1)
            if value is None:
                break
            values.append(gain * weight - value)
        return values

    def _search(
        self, table: _Table, position: _Position, player: int, depth: int, beta: float, deadline: float
    ) -> float | None:
        """The value of a position if it is below beta, else some number from beta; None if the time is over."""
        counters = np.zeros(3, np.int64)
        limit = _FIRST_SLICE
        key = np.bitwise_xor.reduce(self.board.keys[position.drawn], initial=np.uint64(player))
        while True:
            counters[_LIMIT], counters[_STOPPED] = counters[_NODES] + limit, 0
            given = (self.board, table, self.work, counters, position, key, player)
            value = _search(*given, 0, depth, -_INFINITE, beta)
            if not counters[_STOPPED]:
                return value
            if depth > 0 and time.perf_counter() > deadline:
                return None
            limit *= 2  # the table remembers what a slice has found, and this one gets further

    def _rows(self, ply: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.work.full[ply], self.work.deal[ply], self.work.options[ply]


def _empty_table() -> _Table:
    return _Table(
        np.zeros(_ENTRIES, np.uint64),
        np.zeros(_ENTRIES),
        np.full(_ENTRIES, -1),
        np.zeros(_ENTRIES, np.int64),
        np.zeros(_ENTRIES, np.int64),
    )


def _degrees(board: _Board, lines: np.ndarray) -> np.ndarray:
    return np.append(np.sum(~lines[board.sides], axis=1), 99).astype(np.int64)


_compiled = functools.partial(numba.njit, cache=True)


@_compiled
def _draw(board, position, lines, step):
    # Draws lines (step 1) or takes them back (-1).
    for line in lines:
        position.drawn[line] = step == 1
        for end in range(2):
            box = board.ends[line, end]
            if box < board.sides.shape[0]:
                position.degree[box] -= step


@_compiled
def _open_side(board, position, box, but):
    # An open side of a box, other than one; -1 if there is none.
    for side in board.sides[box]:
        if side != but and not position.drawn[side]:
            return side
    return -1


@_compiled
def _capture_all(board, position, full, deal, options):
    """Captures all there is and finds the ways to end the turn; returns the fields of a `_Turn`.

    The captures, `full[: captures]`, stay drawn.
    """
    boxes = board.sides.shape[0]
    start = np.zeros(boxes + 1, np.int64)  # where each chain's lines begin
    size = np.zeros(boxes, np.int64)  # boxes of the chain
    end = np.zeros(boxes, np.int64)  # where it leads: a box, the ground, or -1 if nowhere
    chains = captures = gain = 0
    for first in range(boxes):
        if position.degree[first] != 1:
            continue
        start[chains] = captures
        box, taken = first, 0
        while True:
            line = _open_side(board, position, box, -1)
            full[captures] = line
            _draw(board, position, full[captures : captures + 1], 1)
            captures += 1
            taken += 1
            box = board.ends[line, 0] + board.ends[line, 1] - box
            if box == boxes or position.degree[box] > 1:
                break
            if position.degree[box] == 0:
                taken += 1
                box = -1
                break
        size[chains], end[chains] = taken, box
        gain += taken
        chains += 1
    start[chains] = captures

    # The chain to double-deal with: a long one, or one of two boxes, or the largest loop.
    dealt, best = -1, 0
    for chain in range(chains):
        lines = start[chain + 1] - start[chain]
        is_open = end[chain] == boxes or (end[chain] >= 0 and position.degree[end[chain]] > 0)
        rank = 0
        if is_open and lines >= 3:
            rank = 1000
        elif is_open and lines == 2:
            rank = 900
        elif end[chain] == -1 and lines >= 3:
            rank = min(lines, 800)
        if rank > best:
            dealt, best = chain, rank

    count = deal_gain = 0
    if dealt >= 0:
        # Its lines last, so that both ways to play the turn begin alike.
        chain = full[start[dealt] : start[dealt + 1]].copy()
        behind = captures - start[dealt + 1]
        full[start[dealt] : start[dealt] + behind] = full[start[dealt + 1] : captures].copy()
        full[captures - len(chain) : captures] = chain
        keep = 2 if best >= 900 else 4
        shared = captures - keep + (1 if keep == 4 else 0)  # a loop has one line less than boxes
        deal[:shared] = full[:shared]
        deal[shared] = full[shared + 1]
        count, deal_gain = shared + 1, gain - keep

    found, safe, long_chains = _find_options(board, position, options)
    if found == 0:
        count = 0
    return captures, gain, count, deal_gain, found, safe, long_chains, dealt >= 0


@_compiled
def _find_options(board, position, options):
    # The lines that matter where nothing can be captured: safe ones, then one a chain, short chains first.
    boxes = board.sides.shape[0]
    count = 0
    for line in range(board.ends.shape[0]):
        a, b = board.ends[line, 0], board.ends[line, 1]
        if position.drawn[line] or position.degree[a] == 2 or position.degree[b] == 2:
            continue
        alike = False
        if a == boxes or b == boxes:
            for side in board.sides[min(a, b)]:
                at_border = max(board.ends[side, 0], board.ends[side, 1]) == boxes
                alike = alike or (side < line and at_border and not position.drawn[side])
        if not alike:
            options[count] = line
            count += 1
    safe = count
    long_chains = 0
    seen = np.zeros(boxes + 1, np.bool_)
    cost = np.zeros(boxes, np.int64)
    for first in range(boxes):
        if position.degree[first] != 2 or seen[first]:
            continue
        seen[first] = True
        size = 1
        closed = False
        one = _open_side(board, position, first, -1)
        opening = one
        for line in (one, _open_side(board, position, first, one)):
            box = first
            while not closed:
                box = board.ends[line, 0] + board.ends[line, 1] - box
                if position.degree[box] != 2:
                    break
                if box == first:
                    closed = True
                    break
                opening = line
                seen[box] = True
                size += 1
                line = _open_side(board, position, box, line)
        long_chains += size >= 3 and not closed
        place = count
        while place > safe and cost[place - 1 - safe] > size:
            options[place], cost[place - safe] = options[place - 1], cost[place - 1 - safe]
            place -= 1
        options[place], cost[place - safe] = opening, size
        count += 1
    return count, safe, long_chains


@_compiled
def _judgement(board, player, gain, options, safe, long_chains, is_loony):
    # The judgement of a position for its player to move, but for the margin so far.
    boxes = board.sides.shape[0]
    rule = 0.0
    if options > 0 and safe == 0:
        is_even = (board.dots + long_chains) % 2 == 0
        rule = 1.0 if is_loony or is_even == (player == 0) else -1.0
    return (gain / boxes + rule) / 3


@_compiled
def _key_of(board, lines):
    key = np.uint64(0)
    for line in lines:
        key ^= board.keys[line]
    return key


@_compiled
def _search(board, table, work, counters, position, key, player, ply, depth, alpha, beta):
    """Negamax over turns: the value for the player to move, exact between alpha and beta, else a bound.

    Without meaning once the counters say that it was stopped. Values count boxes from here on, not the margin so far.
    """
    counters[_NODES] += 1
    if counters[_NODES] > counters[_LIMIT]:
        counters[_STOPPED] = 1
        return 0.0
    slot = np.int64(key % np.uint64(table.keys.shape[0]))
    first = _NONE
    if table.keys[slot] == key and table.depths[slot] >= 0:
        first = table.moves[slot]
        if table.depths[slot] == depth:
            value, bound = table.values[slot], table.bounds[slot]
            if bound == _EXACT or (bound == _LOWER and value >= beta) or (bound == _UPPER and value <= alpha):
                return value
    full, deal, options = work.full[ply], work.deal[ply], work.options[ply]
    captures, gain, deals, deal_gain, found, safe, long_chains, is_loony = _capture_all(
        board, position, full, deal, options
    )
    weight = 1 / (3 * board.sides.shape[0])
    if found == 0 or depth == 0:
        _draw(board, position, full[:captures], -1)
        return _judgement(board, player, gain, found, safe, long_chains, is_loony)
    key_full = key ^ _key_of(board, full[:captures]) ^ np.uint64(1)
    best, best_move = -_INFINITE, _NONE
    lowest = alpha
    for turn in range(-2, found):
        # The table's move, the double deal, then the options in order.
        if turn == -2:
            if first == _NONE:
                continue
            move = first
        elif turn == -1:
            if deals == 0 or first == _DOUBLE_DEAL:
                continue
            move = _DOUBLE_DEAL
        else:
            move = options[turn]
            if move == first:
                continue
        if move == _DOUBLE_DEAL:
            _draw(board, position, full[:captures], -1)
            _draw(board, position, deal[:deals], 1)
            after, won = key ^ _key_of(board, deal[:deals]) ^ np.uint64(1), deal_gain * weight
        else:
            full[captures] = move
            _draw(board, position, full[captures : captures + 1], 1)
            after, won = key_full ^ board.keys[move], gain * weight
        beyond = (1 - player, ply + 1, depth - 1, won - beta, won - lowest)
        value = won - _search(board, table, work, counters, position, after, *beyond)
        if move == _DOUBLE_DEAL:
            _draw(board, position, deal[:deals], -1)
            _draw(board, position, full[:captures], 1)
        else:
            _draw(board, position, full[captures : captures + 1], -1)
        if counters[_STOPPED]:
            break
        if value > best:
            best, best_move = value, move
        lowest = max(lowest, best)
        if best >= beta:
            break
    _draw(board, position, full[:captures], -1)
    if counters[_STOPPED]:
        return 0.0
    table.keys[slot], table.values[slot], table.depths[slot], table.moves[slot] = key, best, depth, best_move
    table.bounds[slot] = _LOWER if best >= beta else _UPPER if best <= alpha else _EXACT
    return best
