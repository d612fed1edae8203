"""The exact solver of Hex: who wins a position, and with which moves.

Boards up to 4x4 are complete tables, solved by a JAX program (`hex_tables`). Boards from 5x5 to 8x8 are searched
position by position (`hex_search`), within limits of nodes and seconds if any are given; what is then not proven is
answered with "unknown". Whatever has been proven can be saved, and is there at once when it is loaded again.

With the swap rule, White may answer the first stone by taking it over, which wins exactly if no stone does. So the
first player always loses, except on 1x1, where the first stone ends the game.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.hex import Hex, HexState
from azjax.solvers import files
from azjax.solvers.core import MoveOutcomes, Solution, TooLargeError
from azjax.solvers.hex import search as hex_search
from azjax.solvers.hex import tables as hex_tables
from azjax.solvers.hex.connections import MAX_SIZE
from azjax.solvers.hex.search import LOSS, UNKNOWN, WIN, Limits, MoveResults, Position

_FILE_VERSION = 1  # changes whenever the content of the files does

# Seconds until all openings are known, on one core. 8x8 is a guess: each size takes about 100 times the one before.
_OPENING_SECONDS = {1: 1.0, 2: 3.0, 3: 5.0, 4: 10.0, 5: 1.0, 6: 2.0, 7: 100.0, 8: 1e4}


def estimate(game: Hex) -> tuple[int, float]:
    """Bytes of memory for the solver, and seconds on one core until all openings are known."""
    if game.size <= hex_tables.MAX_SIZE:
        return hex_tables.table_size(game.size), _OPENING_SECONDS[game.size]
    seconds = _OPENING_SECONDS[min(game.size, MAX_SIZE)] * 100.0 ** max(0, game.size - MAX_SIZE)
    return hex_search.WORKSPACE.itemsize + (hex_search.ENTRY.itemsize << hex_search.TABLE_BITS), seconds


def make_solver(
    game: Hex,
    *,
    nodes: int | None = None,
    seconds: float | None = None,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> "HexSolver":
    """A solver of this board. It starts to work with the first question.

    Args:
      nodes: give up on a position after searching about so many; no limit if None.
      seconds: likewise, for the time.
      processes: how many search side by side, from 5x5 on. What is proven does not depend on it.
      progress: called with the work done and the work in all: layers of a table, moves of a single position, or
        positions of a batch.

    Raises:
      TooLargeError: the board is larger than 8x8.
    """
    if game.size > MAX_SIZE:
        memory, opening_seconds = estimate(game)
        raise TooLargeError(
            f"the solver knows Hex up to {MAX_SIZE}x{MAX_SIZE}, not {game.size}x{game.size}: the openings would "
            f"take about {opening_seconds / 86400:,.0f} days, and {memory / 2**20:.0f} MB. Choose a smaller board"
        )
    return HexSolver(game, Limits(nodes, seconds), processes, progress)


def load_solver(path: str | Path, game: Hex, **options) -> "HexSolver":
    """A solver made with the options of `make_solver` that knows what another one has saved."""
    solver = make_solver(game, **options)
    solver.load(path)
    return solver


class HexSolver:
    """Exact answers about the positions of one board; made by `make_solver`, ended by `close` or a `with` block."""

    def __init__(
        self, game: Hex, limits: Limits, processes: int, progress: Callable[[int, int], None] | None
    ):
        self.game = game
        self._cells = game.size**2
        self._limits = limits
        self._processes = processes
        self._progress = progress
        self._has_table = game.size <= hex_tables.MAX_SIZE
        self._table: jax.Array | None = None
        self._searcher: hex_search.Searcher | None = None
        self._measuring: hex_search.Searcher | None = None  # knows nothing of what the others have proven
        self._workers: hex_search.Workers | None = None
        self._proven: dict[Position, MoveResults] = {}

    def solve(self, states: HexState) -> Solution:
        """Values and all optimal moves of positions [batch, ...]; proven where every move is.

        Time and nodes are those it took when the position was solved, also if that is some time ago.
        """
        legal = np.asarray(jax.vmap(self.game.legal_action_mask)(states))
        moves = self._classify(states)
        result = np.stack([move.result for move in moves])
        proven = np.all((result != UNKNOWN) | ~legal, axis=1)
        value = np.where(
            np.any(result == WIN, axis=1), 1, -1
        )  # where there is no move, the game is over and lost
        return Solution(
            value=np.where(proven, value, np.nan).astype(np.float32),
            optimal=legal & proven[:, None] & (result == value[:, None]),
            proven=proven,
            seconds=np.array([np.sum(move.seconds) for move in moves], np.float32),
            nodes=np.array([np.sum(move.nodes) for move in moves], np.int64),
        )

    def value(self, states: HexState) -> np.ndarray:
        """[batch] float32, as in `Solution`; faster, because it need not look at every move."""
        if self._has_table:
            return self.solve(states).value
        rows = self._rows(states)
        prover = self._start_workers() or self._own_searcher()
        unclear = {row.position for row in rows if row.value == UNKNOWN} - self._proven.keys()
        proofs = {position: prover.submit(position, self._limits) for position in sorted(unclear)}
        values = []
        for row in rows:
            value = row.value
            if row.position in proofs:
                value = proofs[row.position].result().result
            elif value == UNKNOWN:
                value = WIN if np.any(self._proven[row.position].result == WIN) else LOSS
            values.append(np.nan if value == UNKNOWN else value)
        return np.array(values, np.float32)

    def optimal_actions(self, states: HexState) -> np.ndarray:
        """[batch, actions] bool, as in `Solution`."""
        return self.solve(states).optimal

    def move_outcomes(self, states: HexState) -> MoveOutcomes:
        """What is proven of every move, also where the limits left other moves open.

        With a limit of seconds the first move that is proven to win is enough, for whoever plays by the clock.
        """
        legal = np.asarray(jax.vmap(self.game.legal_action_mask)(states))
        moves = self._classify(states, any_win=self._limits.seconds is not None)
        result = np.stack([move.result for move in moves])
        low, high = np.where(result == WIN, 1, -1), np.where(result == LOSS, -1, 1)
        return MoveOutcomes(*(np.where(legal, bound, np.nan).astype(np.float32) for bound in (low, high)))

    def winner(self, state: HexState) -> int | None:
        """The player who wins the position; None if that was not proven within the limits."""
        value = self.value(_batch_of_one(state))[0]
        player = int(state.current_player)
        return None if np.isnan(value) else player if value > 0 else 1 - player

    def winning_moves(self, state: HexState) -> MoveResults:
        """What becomes of every action in a position: 1 it wins, -1 it loses, 0 unknown or not legal."""
        return self._classify(_batch_of_one(state))[0]

    def effort(self, state: HexState, actions: Sequence[int]) -> list[int]:
        """[actions] the nodes it takes to prove what each move leads to, by a search that knows nothing of the others.

        Where the solver has a table nothing is searched, and all are 0. Searches stop at the limit of nodes.
        """
        if self._has_table:
            return [0] * len(actions)
        if self._measuring is None:
            self._measuring = hex_search.Searcher(self.game.size)
        (position,) = _positions(_batch_of_one(state))
        nodes = []
        for action in actions:
            self._measuring.forget()
            nodes.append(
                self._measuring.prove(position.after(action), Limits(nodes=self._limits.nodes)).nodes
            )
        return nodes

    def save(self, path: str | Path) -> None:
        """Writes the table, or all positions whose moves have been proven, to a file."""
        arrays = {"table": np.asarray(self._solved_table())} if self._has_table else self._proven_arrays()
        files.write(path, self._identity() | {"positions": len(next(iter(arrays.values())))}, arrays)

    def load(self, path: str | Path) -> None:
        """Reads what `save` wrote; raises ValueError if the file is damaged or about something else."""
        header, arrays = files.read(path, self._identity(), ["positions"])
        number, cells = header["positions"], self.game.size**2
        if self._has_table:
            expected = {"table": ((hex_tables.table_size(self.game.size),), np.int8)}
        else:
            expected = {"stones": ((number, 2), np.uint64), "player": ((number,), np.int8)}
            kinds = {"result": np.int8, "nodes": np.int64, "seconds": np.float64}
            # An array of no positions was written without knowing how many cells there are.
            shape = (number, cells) if number else (0,)
            expected |= {
                field: (shape, kinds[field] if number else np.float64) for field in MoveResults._fields
            }
        files.check_arrays(path, arrays, expected)
        if self._has_table:
            self._table = jnp.asarray(arrays["table"])
            return
        for (black, white), player, *moves in zip(
            arrays["stones"], arrays["player"], *[arrays[field] for field in MoveResults._fields]
        ):
            self._proven[Position(int(black), int(white), int(player))] = MoveResults(*moves)

    def close(self) -> None:
        """Ends the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def __enter__(self) -> "HexSolver":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _identity(self) -> dict:
        """What a file must be about to be of use here."""
        return {
            "game": self.game.name,
            "game_version": self.game.version,
            "size": self.game.size,
            "holds": "scores of all positions" if self._has_table else "moves of positions",
            "version": _FILE_VERSION,
        }

    def _solved_table(self) -> jax.Array:
        if self._table is None:
            self._table = jnp.asarray(hex_tables.solve_tables(self.game.size, self._progress))
        return self._table

    def _own_searcher(self) -> hex_search.Searcher:
        if self._searcher is None:
            self._searcher = hex_search.Searcher(self.game.size)
        return self._searcher

    def _start_workers(self) -> hex_search.Workers | None:
        if self._workers is None and self._processes > 1:
            self._workers = hex_search.Workers(self.game.size, self._processes)
        return self._workers

    def _proven_arrays(self) -> dict[str, np.ndarray]:
        stones = np.array([position[:2] for position in self._proven], np.uint64)
        return {
            "stones": stones.reshape(-1, 2),
            "player": np.array([position.player for position in self._proven], np.int8),
            **{
                field: np.array([getattr(moves, field) for moves in self._proven.values()])
                for field in MoveResults._fields
            },
        }

    def _rows(self, states: HexState) -> list["_Row"]:
        legal = np.asarray(jax.vmap(self.game.legal_action_mask)(states))
        rows = []
        for position, over, row_legal in zip(_positions(states), np.asarray(states.over), legal):
            will_be_swapped = self.game.swap and self._cells > 1 and not position.black | position.white
            can_swap = self.game.swap and row_legal[-1]
            value = LOSS if over or will_be_swapped else WIN if can_swap else UNKNOWN
            rows.append(_Row(position, row_legal, value))
        return rows

    def _classify(self, states: HexState, any_win: bool = False) -> list[MoveResults]:
        """All moves of positions [batch, ...], by action."""
        rows = self._rows(states)
        if self._has_table:
            found = self._look_up(states)
        else:
            found = self._search({row.position for row in rows if row.value != LOSS}, any_win)
        return [self._by_action(row, found) for row in rows]

    def _by_action(self, row: "_Row", found: dict[Position, MoveResults]) -> MoveResults:
        """The moves of one position: those of the stones, and the swap, which follows from them."""
        if row.value == LOSS:
            actions = self.game.num_actions
            result = np.where(row.legal, LOSS, UNKNOWN).astype(np.int8)
            return MoveResults(result, np.zeros(actions, np.int64), np.zeros(actions))
        moves = found[row.position]
        if not self.game.swap:
            return moves
        swap = UNKNOWN
        if row.legal[-1] and np.any(moves.result == WIN):
            swap = LOSS
        elif row.legal[-1] and np.all(moves.result[row.legal[:-1]] == LOSS):
            swap = WIN
        return MoveResults(*(np.append(a, b).astype(a.dtype) for a, b in zip(moves, (swap, 0, 0))))

    def _look_up(self, states: HexState) -> dict[Position, MoveResults]:
        """The stones of positions [batch, ...], by the table."""
        board = jnp.sign(states.board)
        table = self._solved_table()
        answer = hex_tables.look_up(self.game.size, table, board, states.current_player, states.over)
        value, optimal = np.asarray(answer.value)[:, None], np.asarray(answer.optimal)
        result = np.where(optimal, value, np.where(np.asarray(board) == 0, LOSS, UNKNOWN)).astype(np.int8)
        nothing = (np.zeros(self._cells, np.int64), np.zeros(self._cells))
        return {position: MoveResults(row, *nothing) for position, row in zip(_positions(states), result)}

    def _search(self, positions: set[Position], any_win: bool = False) -> dict[Position, MoveResults]:
        """The stones of positions, by search; those with most stones first, for others may lead to them.

        Of a position and its half turn one is searched.
        """
        turned = {position: self._half_turn(position) for position in positions - self._proven.keys()}
        for position, other in turned.items():
            if other in self._proven:
                self._proven[position] = _backwards(self._proven[other])
        new = {min(position, other) for position, other in turned.items() if position not in self._proven}
        new = sorted(new, key=lambda p: (-(p.black | p.white).bit_count(), p))
        workers = self._start_workers() if new else None
        single = len(new) == 1
        if workers and not single:
            tasks = [workers.submit_classify(position, self._limits, any_win) for position in new]
            results = (task.result() for task in tasks)
        else:
            progress = self._progress if single else None
            searcher = self._own_searcher()
            results = (
                searcher.classify(position, self._limits, workers, progress, any_win=any_win)
                for position in new
            )
        found = {}
        for done, (position, moves) in enumerate(zip(new, results), start=1):
            both = {position: moves, self._half_turn(position): _backwards(moves)}
            both = {asked: moves for asked, moves in both.items() if asked in turned}
            found |= both
            stones = (position.black | position.white).bit_count()
            if np.count_nonzero(moves.result) == self._cells - stones:
                self._proven |= both
            if self._progress is not None and not single:
                self._progress(done, len(new))
        return self._proven | found

    def _half_turn(self, position: Position) -> Position:
        """The position after the board was turned by half, which has the same value."""
        black, white = (hex_search.half_turn(stones, self._cells) for stones in position[:2])
        return Position(black, white, position.player)


def _backwards(moves: MoveResults) -> MoveResults:
    """The moves of a position, by those of its half turn."""
    return MoveResults(*(column[::-1] for column in moves))


class _Row(NamedTuple):
    """One position of a batch."""

    position: Position
    legal: np.ndarray  # [actions] bool
    value: int  # UNKNOWN unless the end of the game or the swap rule decides it


def _positions(states: HexState) -> list[Position]:
    board = np.asarray(states.board)
    black, white = (_as_bits(stones) for stones in (board > 0, board < 0))
    return [Position(*row) for row in zip(black, white, np.asarray(states.current_player).tolist())]


def _as_bits(stones: np.ndarray) -> list[int]:
    """[batch, cells] bool as one number a row."""
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(stones, axis=1, bitorder="little")]


def _batch_of_one(state: HexState) -> HexState:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
