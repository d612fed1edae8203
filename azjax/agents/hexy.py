"""A player of Hex after Hexy (Anshelevich 2002): alpha-beta over electrical resistance, with virtual connections.

The program that Jacobsen 2019 met cannot be had, so this one follows its description. Each player is a circuit between
the own two sides: points are empty cells and groups of stones, and wires join those that are virtually connected, as
the solver's H-search (`azjax.solvers.hex.connections`) finds out. A position is worth log(R_opponent / R_mover), the
resistances of both circuits. Where H-search joins a player's sides, the game is decided. Where the opponent threatens
to join them, only cells that all threats share are tried; of these, the ones through which most current flows.

H-search keeps sets of 64 cells. On larger boards each player's search sees the own stones, and of the empty cells those
through which most current flows; what it finds there holds on the whole board.
"""

import math
import time
from typing import NamedTuple

import jax
import numba
import numpy as np

from azjax.common.agent import Agent, AgentError
from azjax.envs.core import GameState
from azjax.envs.hex import Hex
from azjax.solvers.bits import bit_of, count_bits
from azjax.solvers.hex import connections
from azjax.solvers.hex.connections import FULL, HALF, MAX_CELLS

DEPTH = 3  # moves that are looked ahead
WIDTH = 12  # moves that are tried in a position

_MOST_DEPTH = 10
_FULL_LIMIT, _HALF_LIMIT = 4, 8  # connections kept for a pair of points: the solver's are three times as many
_LARGEST = 13
_WIN = 1000.0
_GROUP = 0.01  # the resistance of a group of stones, when that of an empty cell is 1
_OPEN = 1e-6  # the conductance of a circuit that is open everywhere
_NONE = np.uint64(0)
_ALL = ~np.uint64(0)
_POINTS = MAX_CELLS + 2
_RECORD = np.dtype(connections.fields(_MOST_DEPTH + 2, _FULL_LIMIT, _HALF_LIMIT), align=True)


class Answer(NamedTuple):
    """What the search says about a position."""

    move: int  # cell
    value: float  # for the player to move; beyond 900 either way the game is decided
    depth: int  # to which all moves tried were searched
    nodes: int  # positions whose connections were found


class _View(NamedTuple):
    """The position as both players' H-searches see it."""

    works: np.ndarray  # [2] records of connections; slot i is the position after i moves
    place: np.ndarray  # [2, cells] int64, where a player's search knows a cell; -1 where it does not
    board: np.ndarray  # [cells] int64: 0 empty, 1 the first player's, -1 the second's
    nodes: np.ndarray  # [1] int64


def make(game: Hex, *, depth: int = DEPTH, width: int = WIDTH, seconds: float | None = None) -> Agent:
    """The agent; it draws nothing at random.

    Args:
      game: Hex up to 13x13; it never swaps.
      depth: moves that are looked ahead, 1 to 10.
      width: moves that are tried in each position, those with the most current.
      seconds: searches one move deep, then two, and so on, and stops where this is over; None for no limit.
    """
    if game.size > _LARGEST:
        raise AgentError(f"hexy plays Hex up to {_LARGEST}x{_LARGEST}, not {game.size}x{game.size}")
    if depth > _MOST_DEPTH:
        raise AgentError(f"hexy looks at most {_MOST_DEPTH} moves ahead, got depth {depth}")
    searcher = Searcher(game.size)

    def act(params, key: jax.Array, states: GameState) -> np.ndarray:
        del params, key
        boards, players = np.sign(np.asarray(states.board)), np.asarray(states.current_player)
        answers = (
            searcher.search(board, int(player), depth, width, seconds) if (board == 0).any() else None
            for board, player in zip(boards.reshape(len(boards), -1), players)
        )
        return np.array([0 if answer is None else answer.move for answer in answers], np.int32)

    return Agent("hexy", act, on_host=True)


class Searcher:
    """Searches positions of one board size."""

    def __init__(self, size: int):
        self.size = size
        self._works = np.zeros(2, _RECORD)

    def search(
        self,
        board: np.ndarray,
        player: int,
        depth: int = DEPTH,
        width: int = WIDTH,
        seconds: float | None = None,
    ) -> Answer:
        """The best move of a position in which somebody can move.

        Args:
          board: [cells] 0 empty, 1 the first player's, -1 the second's.
          player: to move.
          depth, width, seconds: see `make`.
        """
        begin = time.perf_counter()
        view = self._view(board)
        if (known := _known_win(view, player)) >= 0:
            return Answer(known, _WIN, 1, int(view.nodes[0]))
        if connections.joined(view.works[1 - player], 0, FULL):
            return Answer(_stoutest(board, self.size), -_WIN, 1, int(view.nodes[0]))
        moves = _candidates(view, 0, player, width)
        best, reached = Answer(int(moves[0]), math.nan, 0, 0), 0
        for deeper in range(1, depth + 1):
            values, highest = [], -np.inf
            for move in moves:
                if deeper > 1 and seconds is not None and time.perf_counter() - begin >= seconds:
                    break
                _play(view, 0, player, move)
                values.append(-_value(view, 1, 1 - player, deeper - 1, width, -np.inf, -highest))
                view.board[move] = 0
                highest = max(highest, values[-1])
            if len(values) < len(moves):
                break  # the moves that were not tried might be better
            order = np.argsort(-np.array(values), kind="stable")
            reached = deeper
            best = Answer(int(moves[order[0]]), float(values[order[0]]), reached, int(view.nodes[0]))
            moves = moves[order]
            if abs(best.value) > _WIN - 100:
                break
        return best._replace(nodes=int(view.nodes[0]))

    def _view(self, board: np.ndarray) -> _View:
        cells = self.size * self.size
        place = np.full((2, cells), -1)
        stones = np.array([1, -1])
        for player in range(2):
            own = np.flatnonzero(board == stones[player])
            empty = np.flatnonzero(board == 0)
            busiest = empty[
                np.argsort(-_flow(board * stones[player], self.size, player)[empty], kind="stable")
            ]
            chosen = np.concatenate([own, busiest[: max(0, MAX_CELLS - len(own))]])[:MAX_CELLS]
            place[player, chosen] = np.arange(len(chosen))
            work = self._works[player]
            connections.prepare(work, self.size, chosen)
            owned = sum(1 << i for i in range(min(len(own), MAX_CELLS)))
            connections.connect(work, 0, player, np.uint64(owned), _NONE)
        return _View(self._works, place, board.astype(np.int64), np.array([1]))


def _flow(board: np.ndarray, size: int, player: int) -> np.ndarray:
    """[cells] the current between the player's sides through each cell, if only neighbours are connected.

    Args:
      board: [cells] 1 the player's stones, -1 the opponent's.
    """
    cells = size * size
    resistance = np.where(board == 0, 1.0, np.where(board > 0, _GROUP, np.inf))
    neighbours = connections.neighbour_cells(size)
    cell, way = np.nonzero(neighbours >= 0)
    wires = np.zeros((cells, cells + 2))  # the last two are the sides
    wires[cell, neighbours[cell, way]] = 1 / (resistance[cell] + resistance[neighbours[cell, way]])
    line = np.arange(cells) // size if player == 0 else np.arange(cells) % size
    for side, end in enumerate((0, size - 1)):
        wires[:, cells + side] = np.where(line == end, 1 / (resistance + _GROUP), 0.0)
    matrix = np.diag(wires.sum(1) + _OPEN) - wires[:, :cells]
    voltage = np.append(np.linalg.solve(matrix, wires[:, cells]), (1.0, 0.0))
    return (wires * np.abs(voltage[:cells, None] - voltage)).sum(1)


def _stoutest(board: np.ndarray, size: int) -> int:
    """A move where the game is lost: the cell with the most current, for H-search has stopped at the proof."""
    flows = [_flow(board * (1 - 2 * player), size, player) for player in range(2)]
    flow = sum(flow / max(flow.max(), _OPEN) for flow in flows)
    return int(np.argmax(np.where(board == 0, flow, -1.0)))


@numba.njit(cache=True)
def _known_win(view, player):
    """A move that wins by a connection of the two sides, the one that leaves the least to do; -1 if none is known."""
    work = view.works[player]
    kind = FULL if connections.joined(work, 0, FULL) else HALF
    if not connections.joined(work, 0, kind):
        return -1
    carrier = connections.smallest_carrier(work, 0, kind)
    best, fewest = -1, MAX_CELLS + 1
    for cell in range(len(view.board)):
        known = view.place[player, cell]
        if view.board[cell] != 0 or known < 0 or not carrier & bit_of(known):
            continue
        connections.update(work, 0, 1, player, bit_of(known), _NONE)
        view.nodes[0] += 1
        if connections.joined(work, 1, FULL):
            left = count_bits(connections.smallest_carrier(work, 1, FULL))
            if left < fewest:
                best, fewest = cell, left
    return best


@numba.njit(cache=True)
def _play(view, slot, player, move):
    """Puts a stone on the board, and finds both players' connections after it in the next slot."""
    view.board[move] = 1 - 2 * player
    for side in range(2):
        known = view.place[side, move]
        bit = bit_of(known) if known >= 0 else _NONE
        own, other = (bit, _NONE) if side == player else (_NONE, bit)
        connections.update(view.works[side], slot, slot + 1, side, own, other)
    view.nodes[0] += 1


@numba.njit(cache=True)
def _value(view, slot, player, depth, width, alpha, beta):
    """The value of a position for the player to move, between alpha and beta; a bound outside."""
    if connections.joined(view.works[1 - player], slot, FULL):
        return slot - _WIN
    mine = view.works[player]
    if connections.joined(mine, slot, FULL) or connections.joined(mine, slot, HALF):
        return _WIN - slot
    if depth == 0:
        current = np.zeros(_POINTS)
        theirs = _conductance(view.works[1 - player], slot, current)
        return math.log(_conductance(mine, slot, current) / theirs)
    best = -np.inf
    for move in _candidates(view, slot, player, width):
        _play(view, slot, player, move)
        value = -_value(view, slot + 1, 1 - player, depth - 1, width, -beta, -max(alpha, best))
        view.board[move] = 0
        best = max(best, value)
        if best >= beta:
            break
    return best


@numba.njit(cache=True)
def _candidates(view, slot, player, width):
    """The cells to try, the most promising first: where most current flows in both circuits together.

    A cell outside the opponent's must-play region loses; where there is no cell in it, any is as good.
    """
    flow = np.full(len(view.board), -1.0)
    current = np.zeros(_POINTS)
    for side in range(2):
        total = _conductance(view.works[side], slot, current)
        for cell in range(len(view.board)):
            if view.board[cell] == 0:
                known = view.place[side, cell]
                flow[cell] = max(flow[cell], 0.0) + (current[known] / total if known >= 0 else 0.0)
    region = view.works[1 - player].common[slot]
    if region != _ALL and not connections.joined(view.works[1 - player], slot, FULL):
        for cell in range(len(view.board)):
            known = view.place[1 - player, cell]
            if known < 0 or not region & bit_of(known):
                flow[cell] = -1.0
    order = np.argsort(-flow)
    count = 0
    while count < min(width, len(order)) and flow[order[count]] >= 0:
        count += 1
    return order[:count]


@numba.njit(cache=True)
def _conductance(work, slot, current):
    """Of a player's circuit between the sides; writes the current through each point at a voltage of 1."""
    cells = work.cells
    points = np.empty(_POINTS, np.int64)
    count = 0
    for point in range(cells):
        if work.head[slot, point] == point:
            points[count] = point
            count += 1
    points[count], points[count + 1] = cells, cells + 1
    wires = np.zeros((count + 2, count + 2))
    for i in range(count + 2):
        for j in range(i):
            if work.count[slot, FULL, work.pair[points[i], points[j]]] > 0:
                wires[i, j] = wires[j, i] = 1.0 / (
                    _of_point(work, slot, points[i]) + _of_point(work, slot, points[j])
                )
    # Kirchhoff: what flows into an inner point flows out again; the sides have voltages 1 and 0.
    matrix = -wires[:count, :count]
    for i in range(count):
        matrix[i, i] = wires[i].sum() + _OPEN
    voltage = np.zeros(count + 2)
    voltage[:count] = np.linalg.solve(matrix, wires[:count, count])
    voltage[count] = 1.0
    current[:] = 0.0
    for i in range(count):
        for j in range(count + 2):
            current[points[i]] += wires[i, j] * abs(voltage[i] - voltage[j]) / 2
    total = _OPEN
    for j in range(count + 2):
        total += wires[count, j] * (1.0 - voltage[j])
    return total


@numba.njit(cache=True)
def _of_point(work, slot, point):
    """Half the resistance that a way over a point meets there."""
    if point >= work.cells or work.owned[slot] & bit_of(point):
        return _GROUP
    return 1.0
