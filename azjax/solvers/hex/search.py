"""Search for the winner of a Hex position: depth-first proof-number search on virtual connections.

Each position visited brings the connections of both players up to date (`hex_connections`), after dead and captured
cells have been filled in (`hex_inferior`). If the opponent has half connections between the sides, only their
common cells can save the player to move: the must-play region. Every proof comes with its carrier, the empty cells
the winner needs: all others may be the loser's. So a move that loses to a proof takes along all moves that are not in
the proof's carrier, which shrinks the region further.

Only numpy and numba are imported, so that a worker process starts quickly.
"""

import concurrent.futures
import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numba
import numpy as np

from azjax.solvers.bits import bit_of, count_bits, lowest_bit
from azjax.solvers.hex import connections as hex_connections
from azjax.solvers.hex import inferior as hex_inferior
from azjax.solvers.hex.connections import FULL, MAX_CELLS

WIN, LOSS, UNKNOWN = 1, -1, 0  # for the player to move

TABLE_BITS = 20  # of the number of positions the table remembers
_BUCKET = 4  # places of the table where a position may be
_NEVER = 1 << 30  # a proof number
_SLICE = 500  # positions searched between looks at the clock
_DEPTHS = MAX_CELLS + 1
_ONE = np.uint64(1)
_NONE = np.uint64(0)

WORKSPACE = np.dtype(
    [
        *hex_connections.FIELDS,
        *hex_inferior.FIELDS,
        ("depth", np.int64),  # of the position the search is at; its connections: slots 2 * depth + player
        ("player", np.int64),  # to move there
        ("result", np.int64),  # there, so far
        ("winning", np.int64),  # a move that wins the position at depth 0; -1 if none is known
        ("nodes", np.int64),  # positions whose connections were worked out
        ("stones", np.uint64, (_DEPTHS, 2)),
        ("proof", np.uint64, (_DEPTHS,)),  # the carrier of the result
        ("must_play", np.uint64, (_DEPTHS,)),  # the moves not yet refuted
        ("refutation", np.uint64, (_DEPTHS,)),  # the carriers of all refutations together
        ("first_node", np.int64, (_DEPTHS,)),
        ("win_limit", np.int64, (_DEPTHS,)),  # proof numbers at which to turn back
        ("loss_limit", np.int64, (_DEPTHS,)),
        ("num_moves", np.int64, (_DEPTHS,)),
        ("current", np.int64, (_DEPTHS,)),  # which move is being searched
        ("move", np.int64, (_DEPTHS, MAX_CELLS)),
        ("to_win", np.int64, (_DEPTHS, MAX_CELLS)),  # after the move: for the opponent, who then moves
        ("to_lose", np.int64, (_DEPTHS, MAX_CELLS)),
        ("after", np.uint64, (_DEPTHS, MAX_CELLS, 2)),  # the stones after the move, filled in
        ("captured", np.uint64, (_DEPTHS, MAX_CELLS, 2)),  # those which the filling captured
    ],
    align=True,
)

ENTRY = np.dtype(
    [
        ("black", np.uint64),  # with the player to move, the whole position: no two are ever taken for one
        ("white", np.uint64),
        ("carrier", np.uint64),  # of the proof
        ("to_win", np.int32),  # proof numbers for the player to move
        ("to_lose", np.int32),
        ("work", np.int32),  # nodes spent below; what took least is overwritten first
        ("player", np.int8),
        ("result", np.int8),
        ("used", np.int8),
    ],
    align=True,
)


class Position(NamedTuple):
    """The stones as sets of cells, cell i the bit 1 << i, and the player to move."""

    black: int
    white: int
    player: int

    def after(self, cell: int) -> "Position":
        """The position after a stone."""
        if self.player == 0:
            return Position(self.black | 1 << cell, self.white, 1)
        return Position(self.black, self.white | 1 << cell, 0)


class Limits(NamedTuple):
    """When to give up on a position."""

    nodes: int | None = None
    seconds: float | None = None


class Proof(NamedTuple):
    """Who wins, and what it took to find out."""

    result: int  # for the player to move; UNKNOWN if a limit was reached
    carrier: int  # the winner wins even if all empty cells but these are the loser's
    nodes: int
    seconds: float
    move: int = -1  # one that wins; -1 where the player loses, or wins by his connections as they stand


class MoveResults(NamedTuple):
    """What becomes of every move."""

    result: np.ndarray  # [cells] int8: WIN, LOSS or UNKNOWN, for who plays it; UNKNOWN where there is a stone
    nodes: np.ndarray  # [cells] int64; 0 if the move was decided along with another one
    seconds: np.ndarray  # [cells] float64


class Searcher:
    """Solves positions of one board size; what it finds out about one helps with the next."""

    def __init__(self, size: int):
        self.size = size
        self._work = np.zeros(1, WORKSPACE)[0]
        self._table = np.zeros(1 << TABLE_BITS, ENTRY)
        hex_connections.prepare(self._work, size)
        hex_inferior.prepare(self._work, size)
        # Compiles everything now, so that no position is charged for it.
        self.must_play(Position(0, 0, 0))
        self.prove(Position(0, 0, 0), Limits(nodes=1))

    def prove(self, position: Position, limits: Limits) -> Proof:
        """Finds the winner of a position in which neither player has joined the sides."""
        begin = time.perf_counter()
        deadline = np.inf if limits.seconds is None else begin + limits.seconds
        node_limit = np.iinfo(np.int64).max if limits.nodes is None else limits.nodes
        work, player = self._work, position.player
        captured = _begin(work, np.uint64(position.black), np.uint64(position.white), player)
        finished = False
        while not finished and work["nodes"] < node_limit and time.perf_counter() < deadline:
            finished = _search(work, self._table, min(node_limit, work["nodes"] + _SLICE))
        result = int(work["result"]) if finished else UNKNOWN
        winner = player if result == WIN else 1 - player
        carrier = int(work["proof"][0] | captured[winner]) if finished else 0
        move = int(work["winning"]) if result == WIN else -1
        return Proof(result, carrier, int(work["nodes"]), time.perf_counter() - begin, move)

    def forget(self) -> None:
        """Begins anew, without what it has found out so far."""
        self._table[:] = 0

    def must_play(self, position: Position) -> int:
        """The moves that the opponent's connections alone do not refute; all others lose."""
        black, white = np.uint64(position.black), np.uint64(position.white)
        return int(_must_play(self._work, black, white, position.player))

    def submit(self, position: Position, limits: Limits) -> concurrent.futures.Future:
        """Proves at once, as a pool of workers would do later."""
        future = concurrent.futures.Future()
        future.set_result(self.prove(position, limits))
        return future

    def classify(
        self,
        position: Position,
        limits: Limits,
        workers: "Workers | None" = None,
        progress: Callable[[int, int], None] | None = None,
        *,
        any_win: bool = False,
    ) -> MoveResults:
        """The result of every move. The limits hold for all moves together.

        With limits, half of what they allow goes to the winner of the position: if no move wins, one proof tells so.

        Args:
          position: where the moves are made.
          limits: when to give up.
          workers: who proves; this process if None.
          progress: called with the moves decided and the moves in all.
          any_win: stop at the first move that is proven to win, and leave the others open.
        """
        begin = time.perf_counter()
        cells = self.size * self.size
        found = MoveResults(np.zeros(cells, np.int8), np.zeros(cells, np.int64), np.zeros(cells))
        empty = ((1 << cells) - 1) & ~(position.black | position.white)
        is_symmetric = all(half_turn(stones, cells) == stones for stones in position[:2])
        undecided = empty

        def decide(moves: int, result: int) -> None:
            nonlocal undecided
            if is_symmetric:
                moves |= half_turn(moves, cells)
            found.result[[cell for cell in range(cells) if (moves & undecided) >> cell & 1]] = result
            undecided &= ~moves
            if progress is not None:
                progress((empty & ~undecided).bit_count(), empty.bit_count())

        decide(empty & ~self.must_play(position), LOSS)
        spent = 0
        if undecided and limits != Limits():
            half = Limits(limits.nodes and limits.nodes // 2, limits.seconds and limits.seconds / 2)
            whole = (workers or self).submit(position, half).result()
            if whole.result == LOSS:
                found.nodes[undecided.bit_length() - 1] = whole.nodes
                decide(undecided, LOSS)
            elif whole.move >= 0:
                found.nodes[whole.move] = whole.nodes
                decide(1 << whole.move, WIN)
            else:
                spent = whole.nodes
        running: dict[concurrent.futures.Future, int] = {}
        tried = 0
        while (undecided & ~tried or running) and not (any_win and WIN in found.result):
            while undecided & ~tried and len(running) < (workers.count if workers else 1):
                move = (undecided & ~tried).bit_length() - 1
                tried |= 1 << move | (half_turn(1 << move, cells) if is_symmetric else 0)
                left = Limits(
                    None if limits.nodes is None else limits.nodes - spent - int(found.nodes.sum()),
                    None if limits.seconds is None else limits.seconds - (time.perf_counter() - begin),
                )
                running[(workers or self).submit(position.after(move), left)] = move
            for future in concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done:
                move, proof = running.pop(future), future.result()
                found.nodes[move], found.seconds[move] = proof.nodes, proof.seconds
                if proof.result == LOSS:
                    decide(1 << move, WIN)
                elif proof.result == WIN:
                    # What the opponent wins after this move, he wins after every move outside the proof.
                    decide(undecided & ~proof.carrier, LOSS)
        return found


class Workers:
    """Processes that solve positions side by side, each with a `Searcher` of its own."""

    def __init__(self, size: int, count: int):
        self.count = count
        self._pool = concurrent.futures.ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(size,)
        )

    def submit(self, position: Position, limits: Limits) -> concurrent.futures.Future:
        """A future `Proof`."""
        with _interrupts_blocked():
            return self._pool.submit(_prove_in_worker, position, limits)

    def submit_classify(
        self, position: Position, limits: Limits, any_win: bool = False
    ) -> concurrent.futures.Future:
        """Future `MoveResults`, all by the same worker."""
        with _interrupts_blocked():
            return self._pool.submit(_classify_in_worker, position, limits, any_win)

    def close(self) -> None:
        """Ends the processes."""
        self._pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes begun inside never hear Ctrl-C, which a terminal sends to all: whoever began them ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker_searcher: Searcher | None = None  # in a worker process, its own


def _start_worker(size: int) -> None:
    global _worker_searcher
    _worker_searcher = Searcher(size)


def _prove_in_worker(position: Position, limits: Limits) -> Proof:
    return _worker_searcher.prove(position, limits)


def _classify_in_worker(position: Position, limits: Limits, any_win: bool) -> MoveResults:
    return _worker_searcher.classify(position, limits, any_win=any_win)


def half_turn(stones: int, cells: int) -> int:
    """A set of the board's cells after the board was turned by half: both players still join their own edges."""
    return int(f"{stones:0{cells}b}"[::-1], 2)


@numba.njit(cache=True)
def _must_play(work, black, white, player):
    own, other = (black, white) if player == 0 else (white, black)
    opponent = 1 - player
    hex_connections.connect(work, opponent, opponent, other, own)
    if hex_connections.joined(work, opponent, FULL):
        return _NONE
    return work.common[opponent] & work.board & ~(black | white)


@numba.njit(cache=True)
def _begin(work, black, white, player):
    """Sets the search up for a position; returns the cells that each player captures at the start."""
    black, white, captured_black, captured_white = hex_inferior.fill_in(work, black, white)
    work.stones[0, 0] = black
    work.stones[0, 1] = white
    for side in range(2):
        hex_connections.connect(work, side, side, work.stones[0, side], work.stones[0, 1 - side])
    work.depth = -1
    work.winning = -1
    work.player = player
    work.nodes = 0
    return captured_black, captured_white


@numba.njit(cache=True)
def _search(work, table, node_limit):
    """Searches on until the result is known (True) or so many nodes have been searched (False).

    The proof numbers of a position are estimates of what it takes to prove that the player to move wins, which
    needs one move that does, and that he loses, for which all moves must be refuted. The search goes on with the
    move that seems nearest to a win, as long as it does.
    """
    if work.depth < 0:
        work.depth = 0
        work.win_limit[0] = _NEVER
        work.loss_limit[0] = _NEVER
        place = _find(table, work.stones[0, 0], work.stones[0, 1], work.player)
        if place >= 0 and table[place].result != UNKNOWN:
            work.result = table[place].result
            work.proof[0] = table[place].carrier
            return True
        _expand(work, table)
    while work.nodes < node_limit:
        depth = work.depth
        best, to_win, to_lose, second = _proof_numbers(work)
        if work.result == UNKNOWN and best < 0:
            work.result = LOSS
            work.proof[depth] = work.refutation[depth]
        if work.result == UNKNOWN and to_win < work.win_limit[depth] and to_lose < work.loss_limit[depth]:
            # The limits of the move: until another one seems better, by a quarter at least, for changing costs.
            work.win_limit[depth + 1] = work.loss_limit[depth] - to_lose + work.to_win[depth, best]
            work.loss_limit[depth + 1] = min(work.win_limit[depth], second + second // 4 + 1)
            _descend(work, best)
            _expand(work, table)
            continue
        spent = work.nodes - work.first_node[depth]
        black, white = work.stones[depth, 0], work.stones[depth, 1]
        _store(table, black, white, work.player, work.result, work.proof[depth], to_win, to_lose, spent)
        if depth == 0:
            return True
        _return_to_parent(work, to_win, to_lose)
    return False


@numba.njit(cache=True)
def _proof_numbers(work):
    """The best move, the proof numbers of the position, and the least `to_lose` of the other moves."""
    depth = work.depth
    best, second = -1, _NEVER
    to_win, to_lose = _NEVER, np.int64(0)
    if work.result != UNKNOWN:
        return best, np.int64(0), np.int64(0), second
    for i in range(work.num_moves[depth]):
        if not work.must_play[depth] & bit_of(work.move[depth, i]):
            continue
        to_lose += work.to_win[depth, i]
        opponent_loses = work.to_lose[depth, i]
        if opponent_loses < to_win:
            best, to_win, second = i, opponent_loses, to_win
        elif opponent_loses < second:
            second = opponent_loses
    return best, to_win, min(to_lose, _NEVER - 1), second


@numba.njit(cache=True)
def _descend(work, index):
    """Goes to the position after a move, bringing both players' connections up to date."""
    depth = work.depth
    work.current[depth] = index
    for side in range(2):
        work.stones[depth + 1, side] = work.after[depth, index, side]
    for side in range(2):
        own = work.stones[depth + 1, side] & ~work.stones[depth, side]
        other = work.stones[depth + 1, 1 - side] & ~work.stones[depth, 1 - side]
        hex_connections.update(work, 2 * depth + side, 2 * depth + 2 + side, side, own, other)
    work.nodes += 1
    work.depth = depth + 1
    work.player = 1 - work.player


@numba.njit(cache=True)
def _return_to_parent(work, to_win, to_lose):
    """Goes back to the position before the last move with what was found out about it."""
    depth = work.depth - 1
    player = 1 - work.player
    index = work.current[depth]
    carrier = work.proof[depth + 1]
    if work.result == LOSS:
        work.proof[depth] = bit_of(work.move[depth, index]) | carrier | work.captured[depth, index, player]
        work.result = WIN
        if depth == 0:
            work.winning = work.move[depth, index]
    elif work.result == WIN:
        _refute(work, depth, carrier | work.captured[depth, index, 1 - player])
        work.result = UNKNOWN
    else:
        work.to_win[depth, index] = to_win
        work.to_lose[depth, index] = to_lose
    work.depth = depth
    work.player = player


@numba.njit(cache=True)
def _refute(work, depth, carrier):
    """Strikes out all moves outside the carrier of a proof for the opponent."""
    work.must_play[depth] &= carrier
    work.refutation[depth] |= carrier


@numba.njit(cache=True)
def _expand(work, table):
    """Decides the position by its connections, or lists the moves that may win, each with its proof numbers."""
    depth, player = work.depth, work.player
    mine, theirs = 2 * depth + player, 2 * depth + 1 - player
    black, white = work.stones[depth, 0], work.stones[depth, 1]
    work.first_node[depth] = work.nodes
    work.num_moves[depth] = 0
    work.result = UNKNOWN
    if hex_connections.joined(work, theirs, FULL):
        work.proof[depth] = hex_connections.smallest_carrier(work, theirs, FULL)
        work.result = LOSS
        return
    for kind in range(2):
        if hex_connections.joined(work, mine, kind):
            work.proof[depth] = hex_connections.smallest_carrier(work, mine, kind)
            work.result = WIN
            return
    work.must_play[depth] = work.common[theirs] & work.board & ~(black | white)
    work.refutation[depth] = work.needed[theirs]
    moves = hex_inferior.undominated(work, black, white, player, work.must_play[depth])
    while moves and work.result == UNKNOWN:
        move = lowest_bit(moves)
        moves &= moves - _ONE
        if work.must_play[depth] & bit_of(move):
            _look_at_move(work, table, move)


@numba.njit(cache=True)
def _look_at_move(work, table, move):
    """Adds a move to the list, unless the table or the mover's connections after it decide."""
    depth, player = work.depth, work.player
    bit = bit_of(move)
    black = work.stones[depth, 0] | (bit if player == 0 else _NONE)
    white = work.stones[depth, 1] | (bit if player == 1 else _NONE)
    black, white, captured_black, captured_white = hex_inferior.fill_in(work, black, white)
    captured_mine = captured_black if player == 0 else captured_white
    captured_theirs = captured_white if player == 0 else captured_black
    place = _find(table, black, white, 1 - player)
    if place < 0:
        carrier, to_win, to_lose = _first_estimate(work, black, white)
        result = LOSS if to_lose == 0 else UNKNOWN
        _store(table, black, white, 1 - player, result, carrier, to_win, to_lose, 1)
    else:
        entry = table[place]
        result, carrier = np.int64(entry.result), entry.carrier
        to_win, to_lose = np.int64(entry.to_win), np.int64(entry.to_lose)
    if result == LOSS:
        work.proof[depth] = bit | carrier | captured_mine
        work.result = WIN
        if depth == 0:
            work.winning = move
    elif result == WIN:
        _refute(work, depth, carrier | captured_theirs)
    else:
        index = work.num_moves[depth]
        work.num_moves[depth] = index + 1
        work.move[depth, index] = move
        work.to_win[depth, index] = to_win
        work.to_lose[depth, index] = to_lose
        work.after[depth, index, 0] = black
        work.after[depth, index, 1] = white
        work.captured[depth, index, 0] = captured_black
        work.captured[depth, index, 1] = captured_white


@numba.njit(cache=True)
def _first_estimate(work, black, white):
    """The proof numbers of a position after a move: for the opponent to lose, all his must-play moves have to.

    Returns:
      A carrier, `to_win` and `to_lose`. If the mover has joined his sides, the carrier of that, _NEVER and 0.
    """
    depth, player = work.depth, work.player
    spare = work.head.shape[0] - 1
    added_black, added_white = black & ~work.stones[depth, 0], white & ~work.stones[depth, 1]
    own, other = (added_black, added_white) if player == 0 else (added_white, added_black)
    hex_connections.update(work, 2 * depth + player, spare, player, own, other)
    work.nodes += 1
    if hex_connections.joined(work, spare, FULL):
        return hex_connections.smallest_carrier(work, spare, FULL), _NEVER, 0
    region = work.common[spare] & work.board & ~(black | white)
    return _NONE, 1, max(1, count_bits(region))


@numba.njit(cache=True)
def _bucket(table, black, white, player):
    mixed = black * np.uint64(0x9E3779B97F4A7C15) ^ (white + np.uint64(player)) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(len(table) - _BUCKET))


@numba.njit(cache=True)
def _find(table, black, white, player):
    """Where the table has the position, or -1."""
    first = _bucket(table, black, white, player)
    for place in range(first, first + _BUCKET):
        entry = table[place]
        if entry.used and entry.black == black and entry.white == white and entry.player == player:
            return place
    return -1


@numba.njit(cache=True)
def _store(table, black, white, player, result, carrier, to_win, to_lose, spent):
    """Writes what is known about a position into the table, over what it knew before or what took least work."""
    place = _find(table, black, white, player)
    if place >= 0:
        spent += table[place].work
    else:
        first = _bucket(table, black, white, player)
        place = first
        for other in range(first, first + _BUCKET):
            if table[other].work < table[place].work:
                place = other
    entry = table[place]
    entry.black = black
    entry.white = white
    entry.player = player
    entry.result = result
    entry.carrier = carrier
    entry.to_win = to_win
    entry.to_lose = to_lose
    entry.work = min(spent, _NEVER)
    entry.used = 1
