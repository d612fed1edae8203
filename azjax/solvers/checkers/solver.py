"""The exact value of every Chinese Checkers position, by retrograde analysis.

`make_solver(game)` finds, for all placements of the pieces and either player to move, who wins, and in how
many plies if the winner hurries and the loser delays. A position in which neither can force a win is a draw.
The value of a position knows nothing of what came before: draws by repetition or by the number of plies are
not in it.

The analysis goes in passes over a table of two bits per position. At first the illegal positions are known, and
those that are lost because the opponent has just won. Pass 0 adds those in which the player to move is stuck,
pass 1 the wins in one ply, pass 2 the losses in two, and so on: an odd pass marks as won whatever can be moved
into a lost position, an even pass marks as lost whatever can only be moved into won ones. Every pass reads the
table of the one before. So the number of the pass is the distance to the end, and the result does not depend on
the order of the work, the number of devices, or interruptions. When a pass finds nothing, all that is still
open is a draw. `checkers_ranking` numbers the positions, `checkers_retrograde` is one pass.
"""

import dataclasses
import functools
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.progress import Progress
from azjax.envs.checkers_ranking import locate, pieces_of, ranking_of
from azjax.envs.chinese_checkers import DRAWN, ChineseCheckers, State
from azjax.solvers import files
from azjax.solvers.checkers.retrograde import (
    ILLEGAL,
    LOSS,
    OPEN,
    PER_WORD,
    WIN,
    Plan,
    boards_of,
    first_rows,
    make_plan,
    next_rows,
)
from azjax.solvers.core import Solution, TooLargeError

NO_DISTANCE = 255  # of draws and illegal positions, in `Table.distances`

_FILE = {
    "game": ChineseCheckers.name,
    "game_version": ChineseCheckers.version,
    "holds": "values of all positions",
    "version": 1,
}
# And device: enough to hide the cost of a call, and so few that what a call works with, 24 bytes each, stays below the
# 32 MB from which on glibc asks the system for new pages every time: with twice as many a third of the time goes there.
_POSITIONS_PER_CALL = 5 * 2**18
_LANES = (
    16  # rows are the innermost axis: with 38 instead of 48 of them a position takes nearly twice as long
)
_CALLS_IN_LINE = 1  # so that no device waits for Python
_LOOK_UPS_PER_CALL, _FEW_LOOK_UPS = 1024, 32  # two sizes, so that few programs are compiled
_VALUES = np.array([0, -1, 1, np.nan], np.float32)  # of OPEN, LOSS, WIN, ILLEGAL
_OUTCOMES = np.array([2, 3, 1, -1])  # for who moved there, the higher, the better; -1 of what is not legal
_NANOSECONDS = 24.0  # a position and pass, on one core: so 5x5 with four pieces took
_WORKING_BYTES = 0.4e9  # the interpreter, and what the calls in line need


class PositionCounts(NamedTuple):
    """How many positions have which value, with the player to move counted as the first one.

    On the whole board, with either player to move, there are twice as many positions, draws and illegal ones, and
    each player wins `wins + losses`.
    """

    positions: int
    wins: int  # of the player to move
    losses: int
    draws: int
    illegal: int
    win_distances: dict[int, int]  # distance -> positions
    loss_distances: dict[int, int]


@dataclasses.dataclass
class Table:
    """What is known of a game after some passes."""

    codes: np.ndarray  # [rows, words] uint32, two bits per column; ILLEGAL beyond the last column
    distances: np.ndarray | None  # [rows, columns] uint8
    terminal: int  # positions lost from the beginning
    illegal: int
    found: list[int]  # positions decided by each pass so far
    finished: bool
    cpu_seconds: float = 0.0  # that the passes have taken, of all cores and sittings


class CheckersSolver:
    """Looks up values in a finished table; made by `make_solver` or `load_solver`."""

    def __init__(self, game: ChineseCheckers, stuck_loses: bool, table: Table):
        self.game = game
        self.stuck_loses = stuck_loses
        self.table = table
        # For `codes_at`. A table that lies on disk is used there, where the device shares the memory of the machine.
        self.codes = jax.device_put(table.codes, may_alias=True)

    def solve(self, states: State) -> Solution:
        """Values and all value-preserving moves of positions [batch, ...]; NaN for illegal ones."""
        begin = time.perf_counter()
        own, children, _ = self._look_up(_codes_with_children, states)
        optimal = _best_moves(own, children)
        return Solution(
            value=_VALUES[own],
            optimal=optimal,
            proven=own != ILLEGAL,
            seconds=np.full(len(own), (time.perf_counter() - begin) / max(1, len(own)), np.float32),
            nodes=np.zeros(len(own), np.int64),
        )

    def value(self, states: State) -> np.ndarray:
        """[batch] float32: 1, 0 or -1 for the player to move; NaN for illegal positions."""
        own, _ = self._look_up(_codes, states)
        return _VALUES[own]

    def optimal_actions(self, states: State) -> np.ndarray:
        """[batch, actions] bool, all legal moves that keep the value; none once the game is over."""
        return self.solve(states).optimal

    def distance(self, states: State) -> np.ndarray:
        """[batch] int32, plies to the end if the winner hurries and the loser delays; -1 without a winner."""
        own, places = self._look_up(_codes, states)
        has_winner = (own == WIN) | (own == LOSS)
        return np.where(has_winner, self._distances[places].astype(np.int32), -1)

    def best_actions(self, states: State) -> np.ndarray:
        """[batch, actions] bool, of the optimal moves those that win soonest or lose latest."""
        own, children, places = self._look_up(_codes_with_children, states)
        optimal = _best_moves(own, children)
        distance = self._distances[places].astype(np.int32)
        sign = np.select([own == WIN, own == LOSS], [1, -1], 0)  # in a draw no optimal move is better
        cost = np.where(optimal, sign[:, None] * distance, NO_DISTANCE + 1)
        return optimal & (cost == cost.min(axis=1, keepdims=True))

    def counts(self) -> PositionCounts:
        """How many positions of the board have which value."""
        wins = {layer: number for layer, number in enumerate(self.table.found) if layer % 2 == 1 and number}
        losses = {layer: number for layer, number in enumerate(self.table.found) if layer % 2 == 0 and number}
        losses[0] = losses.get(0, 0) + self.table.terminal
        positions, illegal = ranking_of(self.game).positions, self.table.illegal
        won, lost = sum(wins.values()), sum(losses.values())
        return PositionCounts(positions, won, lost, positions - won - lost - illegal, illegal, wins, losses)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the table to a file that `load_solver` reads."""
        _write(path, self.game, self.stuck_loses, self.table)

    @property
    def _distances(self) -> np.ndarray:
        if self.table.distances is None:
            raise ValueError("this table has no distances; solve the game with distances=True to have them")
        return self.table.distances

    def _look_up(self, question: Callable, states: State) -> tuple:
        """What `_codes` or `_codes_with_children` says about positions [batch, ...], as numpy arrays."""
        states = jax.tree.map(np.asarray, states._replace(history=None))
        starts = range(0, max(1, len(states.ply)), _LOOK_UPS_PER_CALL)
        answers = [self._ask(question, states, slice(start, start + _LOOK_UPS_PER_CALL)) for start in starts]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *answers)

    def _ask(self, question: Callable, states: State, which: slice) -> tuple:
        number = len(states.ply[which])
        padded = _FEW_LOOK_UPS if number <= _FEW_LOOK_UPS else _LOOK_UPS_PER_CALL
        part = jax.tree.map(lambda leaf: np.resize(leaf[which], (padded, *leaf.shape[1:])), states)
        answer = question(self.game, self.codes, part)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:number], answer)


def make_solver(
    game: ChineseCheckers,
    *,
    distances: bool = True,
    stuck_loses: bool = False,
    as_published: bool = False,
    path: str | os.PathLike | None = None,
    save_every: float = 60.0,
    progress: Progress | None = None,
    devices: Sequence[jax.Device] | None = None,
    max_bytes: float = 6e9,
    max_seconds: float = 900.0,
) -> CheckersSolver:
    """Solves a game, or finishes or loads what a file holds of it.

    Args:
      game: the board, and whether only forward moves count; the rules on repetitions and plies play no part.
      distances: whether to keep the distance to the end too, a byte per position.
      stuck_loses: in a forward-only game, whether a player without a forward move has lost; by the game's own
        rule such a player may make any move.
      as_published: call positions ordinary in which the player to move has no piece in either home, also where the
        rules call them illegal. So the program behind Table 1 of Sturtevant 2019 must have done, to judge by its
        counts of illegal positions; it makes a difference from 5x5 with six pieces on.
      path: a file for the table. If it exists, the work goes on from there. It is written between passes, when
        `save_every` seconds have gone by, and at the end.
      save_every: see `path`.
      progress: called with the number of positions decided so far and of all positions.
      devices: default all of this process. Each holds the whole table and does its share of every pass.
      max_bytes: a game that needs more memory is refused.
      max_seconds: a game that needs more time is refused.

    Raises:
      TooLargeError: the game is refused.
      ValueError: the file is damaged or about another game.
    """
    table = None
    if path is not None and os.path.exists(path):
        *_, table = _read(path, _identity(game, stuck_loses, as_published))
        if distances and table.distances is None:
            raise ValueError(f"{path} has no distances; ask for distances=False, or name another file")
    if table is None or not table.finished:
        _check_size(game, distances, max_bytes, max_seconds)
        analysis = _Analysis(game, stuck_loses, as_published, devices, progress or (lambda done, total: None))
        table = table or analysis.first_table(distances)
        saved = time.monotonic()
        while not table.finished:
            analysis.run_pass(table)
            if path is not None and (table.finished or time.monotonic() - saved >= save_every):
                _write(path, game, stuck_loses, table, as_published)
                saved = time.monotonic()
    return CheckersSolver(game, stuck_loses, table)


def load_solver(
    path: str | os.PathLike, game: ChineseCheckers | None = None, *, stuck_loses: bool = False
) -> CheckersSolver:
    """The solver that was saved; raises ValueError if the file is damaged, unfinished or about another game.

    The table stays on disk, where it is read as it is used.

    Args:
      path: the file.
      game: what it must be about; default whatever it is about.
      stuck_loses: likewise, if a game is given.
    """
    expected = {} if game is None else _identity(game, stuck_loses)
    saved, stuck_loses, table = _read(path, expected, mapped=True)
    if not table.finished:
        raise ValueError(
            f"{path} is not finished: {len(table.found)} passes are done; "
            "give it to make_solver(game, path=...), which goes on from there"
        )
    return CheckersSolver(game or saved, stuck_loses, table)


def estimate(game: ChineseCheckers, distances: bool = True) -> tuple[float, float]:
    """The bytes of memory, and the seconds on two CPU cores, that it takes to solve a game."""
    cells, pieces = game.num_cells, game.pieces
    positions = math.comb(cells, pieces) * math.comb(cells - pieces, pieces)
    stored = positions / len(game.symmetries.action)
    passes = game.size * (3 + 2 * pieces) - 4 * pieces  # within 4 for the boards of up to 7x7 solved so far
    # Two bits per position: before the pass, here and on each of two devices, and after it.
    bytes_ = _WORKING_BYTES + stored * (1 + distances)
    return bytes_, 10 + stored * passes * _NANOSECONDS / 2 * 1e-9


def locate_state(game: ChineseCheckers, x: State) -> tuple[jax.Array, jax.Array]:
    """Row and column, [] int32, of one position in the table."""
    return locate(ranking_of(game), *pieces_of(game, x))


def locate_children(game: ChineseCheckers, x: State) -> tuple[jax.Array, jax.Array]:
    """Rows and columns, [actions] int32, of the positions after each action; without meaning if it is illegal."""
    mine, theirs = pieces_of(game, x)
    ends = game.image_index[game.moves]  # [actions, 2]
    flips = (np.arange(game.num_cells) == ends[..., None]).any(axis=1)  # [actions, cells]
    moved = mine ^ jnp.where(x.current_player == 0, flips, flips[:, ::-1])
    theirs = jnp.broadcast_to(theirs, moved.shape)
    return locate(ranking_of(game), theirs[:, ::-1], moved[:, ::-1])  # turned: the opponent is to move


def codes_at(codes: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """[...] int32, the values OPEN, LOSS, WIN or ILLEGAL at places [...] of a table [rows, words]."""
    word = codes[row, column // PER_WORD]
    return (word >> (2 * (column % PER_WORD)).astype(jnp.uint32) & 3).astype(jnp.int32)


@functools.partial(jax.jit, static_argnums=0)
def _codes(game: ChineseCheckers, codes: jax.Array, states: State) -> tuple:
    """Codes [batch] and places, rows and columns [batch]; OPEN where the game is drawn already."""
    place = jax.vmap(functools.partial(locate_state, game))(states)
    return jnp.where(states.outcome == DRAWN, OPEN, codes_at(codes, *place)), place


@functools.partial(jax.jit, static_argnums=0)
def _codes_with_children(game: ChineseCheckers, codes: jax.Array, states: State) -> tuple:
    """Codes [batch]; codes and places [batch, actions] after each move, ILLEGAL and (0, 0) if it is not legal."""
    legal = jax.vmap(game.legal_action_mask)(states)
    row, column = jax.vmap(functools.partial(locate_children, game))(states)
    row, column = jnp.where(legal, row, 0), jnp.where(legal, column, 0)
    own, _ = _codes(game, codes, states)
    return own, jnp.where(legal, codes_at(codes, row, column), ILLEGAL), (row, column)


def _best_moves(own: np.ndarray, children: np.ndarray) -> np.ndarray:
    """[batch, actions] bool, from the codes [batch] of positions and [batch, actions] after each action.

    The moves with the best outcome there is, which keep the value; unless a player who may move forward alone is judged
    by the table of all moves, where a won position may have no winning move.
    """
    outcome = _OUTCOMES[children]
    best = outcome.max(axis=1, keepdims=True)
    return (outcome == best) & (best >= 0) & (own != ILLEGAL)[:, None]


class _Analysis:
    """Runs passes over a table, on some devices."""

    def __init__(
        self,
        game: ChineseCheckers,
        stuck_loses: bool,
        as_published: bool,
        devices: Sequence[jax.Device] | None,
        progress: Progress,
    ):
        self.game = game
        self.ranking = ranking_of(game)
        self.progress = progress
        devices = tuple(devices or jax.local_devices())
        most = max(1, _POSITIONS_PER_CALL // self.ranking.columns)
        rows_per_device = min(most - most % _LANES or most, -(-self.ranking.rows // len(devices)))
        self._rows_per_call = rows_per_device * len(devices)
        self._programs = _compile(game, stuck_loses, as_published, devices)

    def first_table(self, distances: bool) -> Table:
        """The table before the first pass."""
        ranking = self.ranking
        codes = np.empty((ranking.rows, -(-ranking.columns // PER_WORD)), np.uint32)
        terminal = illegal = 0
        for rows, part in self._in_line(self._programs.first_rows):
            codes[rows] = part
            is_odd = part & 0x55555555  # LOSS or ILLEGAL
            illegal += self._number(rows, is_odd & part >> 1)
            terminal += self._number(rows, is_odd & ~(part >> 1))
            self.progress(terminal, ranking.positions)
        illegal -= ranking.ranks * (codes.shape[1] * PER_WORD - ranking.columns)  # the padding
        table = Table(codes, None, terminal, illegal, found=[], finished=False)
        if distances:
            table.distances = np.full((ranking.rows, ranking.columns), NO_DISTANCE, np.uint8)
            _set_distances(table.distances, codes & ~(codes >> 1) & 0x55555555, 0)
        return table

    def run_pass(self, table: Table) -> None:
        """The next pass. The table changes at its end, so that an interrupted pass leaves it as it was."""
        layer, began = len(table.found), time.process_time()
        if layer >= NO_DISTANCE:
            raise TooLargeError(f"some positions take {layer} plies or more, which a byte cannot hold")
        programs = self._programs
        before = jax.device_put(table.codes, programs.everywhere)
        after = np.empty_like(table.codes)
        decided, found = table.terminal + table.illegal + sum(table.found), 0

        def call(rows: np.ndarray) -> jax.Array:
            boards = boards_of(self.game, rows)
            return programs.next_rows(programs.plan, before, boards, table.codes[rows], np.int32(layer))

        for rows, part in self._in_line(call):
            after[rows] = part
            found += self._number(rows, part ^ table.codes[rows])
            self.progress(decided + found, self.ranking.positions)
        if table.distances is not None and found:
            _set_distances(table.distances, after ^ table.codes, layer)
        table.codes = after
        table.found.append(found)
        table.finished = layer > 0 and found == 0
        table.cpu_seconds += time.process_time() - began
        if table.finished:
            self.progress(self.ranking.positions, self.ranking.positions)

    def _in_line(self, call: Callable[[np.ndarray], jax.Array]) -> Iterator[tuple[slice, np.ndarray]]:
        """Calls a function with the numbers of all rows, some at a time; yields which, and the results."""
        waiting = deque()
        for start in range(0, self.ranking.rows, self._rows_per_call):
            rows = slice(start, min(start + self._rows_per_call, self.ranking.rows))
            numbers = np.minimum(np.arange(start, start + self._rows_per_call), self.ranking.rows - 1)
            waiting.append((rows, call(numbers.astype(np.int32))))
            if len(waiting) > _CALLS_IN_LINE:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())

    def _number(self, rows: slice, flags: np.ndarray) -> int:
        """How many positions of the whole board the bits that are set in some rows [rows, words] stand for."""
        by_row = np.bitwise_count(flags).sum(axis=1, dtype=np.int64)
        return int(by_row @ self.ranking.weight[rows])


class _Programs(NamedTuple):
    """What runs on the devices."""

    everywhere: jax.sharding.NamedSharding  # of the table
    plan: Plan
    first_rows: Callable
    next_rows: Callable


@functools.cache
def _compile(
    game: ChineseCheckers, stuck_loses: bool, as_published: bool, devices: tuple[jax.Device, ...]
) -> _Programs:
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    everywhere, by_row = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("devices")
    boards = jax.tree.map(  # the rows are their last axis
        lambda leaf: jax.sharding.PartitionSpec(*(None,) * (leaf.ndim - 1), "devices"),
        boards_of(game, np.arange(1)),
    )

    def sharded(function: Callable, *in_specs) -> Callable:
        # Nothing is exchanged between the devices, so there is nothing for check_vma to check.
        return jax.jit(
            jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=by_row, check_vma=False)
        )

    next_rows_of_game = functools.partial(next_rows, game, stuck_loses)
    sharding = jax.sharding.NamedSharding(mesh, everywhere)
    return _Programs(
        everywhere=sharding,
        plan=jax.device_put(make_plan(ranking_of(game)), sharding),
        first_rows=sharded(functools.partial(first_rows, game, as_published), by_row),
        next_rows=sharded(next_rows_of_game, everywhere, everywhere, boards, by_row, everywhere),
    )


def _finished(rows: slice, result: jax.Array) -> tuple[slice, np.ndarray]:
    return rows, np.asarray(result)[: rows.stop - rows.start]


def _set_distances(distances: np.ndarray, changed: np.ndarray, layer: int) -> None:
    """Writes a distance for the positions that have a bit set in `changed` [rows, words]."""
    for start in range(0, len(changed), 256):  # a few rows at a time take little memory
        words = changed[start : start + 256]
        bits = np.unpackbits((words | words >> 1).astype("<u4").view(np.uint8), axis=1, bitorder="little")
        np.putmask(
            distances[start : start + 256],
            bits[:, ::2][:, : distances.shape[1]].astype(bool),
            np.uint8(layer),
        )


def _check_size(game: ChineseCheckers, distances: bool, max_bytes: float, max_seconds: float) -> None:
    bytes_, seconds = estimate(game, distances)
    if bytes_ > max_bytes or seconds > max_seconds:
        hours = "" if math.isinf(max_seconds) else f" and {max_seconds / 3600:.2g} hours"
        raise TooLargeError(
            f"{game.size}x{game.size} with {game.pieces} pieces would take about {bytes_ / 1e9:.1f} GB and "
            f"{seconds / 3600:.1f} hours on two cores, more than the {max_bytes / 1e9:.1f} GB{hours} allowed; raise "
            "max_bytes and max_seconds (--gigabytes and --seconds of azjax solve; and give a path, by --save, so that "
            "the work can be interrupted), leave out the distances, or take a smaller board"
        )


def _identity(game: ChineseCheckers, stuck_loses: bool, as_published: bool = False) -> files.Header:
    """What a file must be about to be of use."""
    return {
        "size": game.size,
        "pieces": game.pieces,
        "forward_only": game.forward_only,
        "stuck_loses": stuck_loses,
        "holds": f"{_FILE['holds']} as published" if as_published else _FILE["holds"],
    }


def _write(
    path: str | os.PathLike,
    game: ChineseCheckers,
    stuck_loses: bool,
    table: Table,
    as_published: bool = False,
) -> None:
    header = {
        **_FILE,
        **_identity(game, stuck_loses, as_published),
        "terminal": table.terminal,
        "illegal": table.illegal,
        "found": table.found,
        "finished": table.finished,
        "cpu_seconds": table.cpu_seconds,
    }
    arrays = {"codes": table.codes}
    if table.distances is not None:
        arrays["distances"] = table.distances
    files.write(path, header, arrays)


def _read(
    path: str | os.PathLike, expected: files.Header, *, mapped: bool = False
) -> tuple[ChineseCheckers, bool, Table]:
    """The game, its stuck rule and the table of a file; raises ValueError unless they are as expected."""
    numbers = ["size", "pieces", "forward_only", "stuck_loses", "terminal", "illegal", "finished"]
    header, arrays = files.read(path, _FILE | expected, numbers, mapped=mapped)
    found, cpu_seconds = header.get("found"), header.get("cpu_seconds", math.nan)  # unknown of older files
    if not isinstance(found, list) or not all(isinstance(number, int) for number in found):
        raise ValueError(f"{path} is damaged: found in its header must be a list of numbers")
    if not isinstance(cpu_seconds, float):
        raise ValueError(f"{path} is damaged: cpu_seconds in its header must be a number")
    game = ChineseCheckers(header["size"], header["pieces"], header["forward_only"])
    ranking = ranking_of(game)
    shapes = {"codes": ((ranking.rows, -(-ranking.columns // PER_WORD)), np.uint32)}
    if "distances" in arrays:
        shapes["distances"] = (ranking.rows, ranking.columns), np.uint8
    files.check_arrays(path, arrays, shapes)
    table = Table(
        arrays["codes"],
        arrays.get("distances"),
        header["terminal"],
        header["illegal"],
        found,
        header["finished"],
        cpu_seconds,
    )
    return game, header["stuck_loses"], table
