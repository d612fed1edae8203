"""Exact solvers of Dots and Boxes: a table of all positions of a small board, or a search on any board.

What a position is worth depends on the drawn lines alone, not on who owns the finished boxes. Its future
margin is what the player to move will gain from now on, boxes won minus boxes lost:

    margin(drawn) = max over open lines e of  c + margin(drawn + e)  if e completes c > 0 boxes,
                                              -margin(drawn + e)     if it completes none,

and 0 when every line is drawn. `solve_table` computes it for all 2 ** lines sets of lines, a byte each.

The table is an array [2 ** (lines - 8), 256]: a row for each set of the higher lines, a column for each set
of the eight lowest. Rows whose sets are equally large do not depend on each other, so that rows are solved
layer by layer, from the full set down, thousands at a time: first the higher lines, which lead to whole rows
of the layer before, then the lowest ones, which lead to columns further right in the same row. Devices
share the columns for the first part and the rows for the second, so that each holds its share of the table.

`Solution.value` follows the game's `reward`: the final margin in boxes (captured so far and still to come)
under "margin", its sign under "outcome". Optimal moves are all that reach it.
"""

import functools
import math
import os
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, box_sides
from azjax.solvers import files
from azjax.solvers.core import Solution, Solver, TooLargeError
from azjax.solvers.dots import search as dots_search

METHODS = ("auto", "table", "search")
MEMORY = 6 * 10**9
# Line sets are numbered in 32 bits.
MAX_LINES = 32
# A table of at most so many lines is made in seconds; "auto" searches beyond.
AUTO_LINES = 24

_COLUMN_LINES = 8
_ROWS_PER_STEP = 2048
_STEPS_PER_REPORT = 16
_ILLEGAL = -128
# What a file must be about to be read.
_IDENTITY = {
    "game": DotsAndBoxes.name,
    "game_version": DotsAndBoxes.version,
    "holds": "future margins of all sets of lines",
    "version": 1,
}


def make_solver(
    game: DotsAndBoxes,
    *,
    method: str = "auto",
    memory: int = MEMORY,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Solver:
    """A solver of this board.

    Args:
      game: the board, and by its `reward` the objective.
      method: "table" solves the whole board now and looks positions up; "search" solves each position when
        it is asked for; "auto" takes a table for boards of at most 24 lines.
      memory: bytes that a table may take; raises TooLargeError if it would take more.
      seconds: how long the search may take for a position; without it, as long as it takes.
      progress: called now and then with the work done and the work in all: rows of the table, or positions of
        a batch.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "search" or (method == "auto" and game.num_actions > AUTO_LINES):
        return dots_search.SearchSolver(game, seconds=seconds, progress=progress)
    size, time_needed = estimate(game)
    if game.num_actions > MAX_LINES or size > memory:
        raise TooLargeError(
            f"a table of {game.rows} x {game.columns} boxes has 2^{game.num_actions} positions and would take "
            f"about {size / 1e9:.3g} GB and {_duration(time_needed)}, more than the {memory / 1e9:.3g} GB allowed "
            f'or the {MAX_LINES} lines that can be numbered; use method="search" (--method search), which solves '
            f"single positions of up to about {dots_search.COMFORTABLE_LINES} open lines"
        )
    return TableSolver(game, solve_table(game, progress=progress))


def estimate(game: DotsAndBoxes) -> tuple[int, float]:
    """Bytes of memory at the peak and seconds on one CPU core that a table takes."""
    positions = 2**game.num_actions
    return positions + 4 * 10**8, 3 + 1e-9 * game.num_actions * positions


def solve_table(
    game: DotsAndBoxes,
    *,
    devices: Sequence[jax.Device] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> jax.Array:
    """[2 ** (lines - 8), 256] int8, the future margins of all sets of drawn lines.

    The set of lines numbered `s` in binary stands at row `s // 256`, column `s % 256`; a board of fewer than
    eight lines has one row. Sharded by columns over the devices (as many as the greatest power of two); default all
    of this process, but one CPU: its threads share the work anyway, and CPU devices that exchange columns can wait for
    each other without end when they have no more threads than devices.
    """
    rows, columns = _table_shape(game)
    rows_per_step = min(_ROWS_PER_STEP, rows)
    devices = list(devices or jax.local_devices()[: 1 if jax.default_backend() == "cpu" else None])
    devices = devices[: 2 ** int(math.log2(min(len(devices), rows_per_step, columns)))]
    solve_rows = _rows_solver(game.rows, game.columns, rows_per_step, tuple(devices))
    sharding = NamedSharding(Mesh(np.array(devices), "device"), PartitionSpec(None, "device"))
    table = jnp.zeros((rows, columns), jnp.int8, device=sharding)
    done = steps = 0
    for some_rows in _rows_in_order(rows, rows_per_step):
        table = solve_rows(table, np.pad(some_rows, (0, rows_per_step - len(some_rows)), mode="edge"))
        done, steps = done + len(some_rows), steps + 1
        if progress is not None and (steps % _STEPS_PER_REPORT == 0 or done == rows):
            jax.block_until_ready(table)
            progress(done, rows)
    return jax.block_until_ready(table)


class TableSolver:
    """Looks positions up in a table; a `Solver`."""

    def __init__(self, game: DotsAndBoxes, table: jax.Array):
        self.game = game
        self.table = table

    def solve(self, states: DotsAndBoxesState) -> Solution:
        """Values and all optimal moves of positions [batch, ...]."""
        start = time.perf_counter()
        margins = self.move_margins(states)  # NaN where drawn
        over = np.all(np.isnan(margins), axis=1)
        now = dots_search.current_margins(states)
        best = np.where(over, now, np.max(np.nan_to_num(margins, nan=-np.inf), axis=1))
        objective = np.sign if self.game.reward == "outcome" else np.asarray
        value = objective(best).astype(np.float32)
        batch = len(value)
        return Solution(
            value=value,
            optimal=objective(margins) == value[:, None],
            proven=np.ones(batch, bool),
            seconds=np.full(batch, (time.perf_counter() - start) / max(batch, 1), np.float32),
            nodes=np.zeros(batch, np.int64),
        )

    def value(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch] float32: the final margin or the outcome, for the player to move."""
        return self.solve(states).value

    def optimal_actions(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch, lines] bool: all moves that reach the value."""
        return self.solve(states).optimal

    def move_margins(self, states: DotsAndBoxesState) -> np.ndarray:
        """[batch, lines] float32: the final margin after each move, for who makes it; NaN where drawn."""
        future = np.asarray(_move_margins(self.game.rows, self.game.columns, self.table, states.lines))
        margins = future + dots_search.current_margins(states)[:, None]
        return np.where(future == _ILLEGAL, np.nan, margins).astype(np.float32)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the table to one file, which `load_solver` reads."""
        board = {"rows": self.game.rows, "columns": self.game.columns, "positions": self.table.size}
        files.write(path, _IDENTITY | board, {"table": np.asarray(self.table)})


def load_solver(path: str | os.PathLike, game: DotsAndBoxes | None = None) -> TableSolver:
    """The solver whose table `TableSolver.save` wrote; raises ValueError if it is not one.

    Args:
      path: the file.
      game: the board to solve, with its objective; default: the file's board, and outcomes.
    """
    board = {} if game is None else {"rows": game.rows, "columns": game.columns}
    header, arrays = files.read(path, _IDENTITY | board, ["rows", "columns"])
    game = game or DotsAndBoxes(header["rows"], header["columns"])
    files.check_arrays(path, arrays, {"table": (_table_shape(game), np.int8)})
    return TableSolver(game, jnp.asarray(arrays["table"]))


def _table_shape(game: DotsAndBoxes) -> tuple[int, int]:
    column_lines = min(_COLUMN_LINES, game.num_actions)
    return 2 ** (game.num_actions - column_lines), 2**column_lines


@functools.cache
def _completing_sets(rows: int, columns: int) -> np.ndarray:
    # [lines, 2] uint32: for each box beside a line, the set of its three other sides. A line at the border
    # has itself as its second set, which is never drawn when the line is open.
    lines = DotsAndBoxes(rows, columns).num_actions
    sets = [[1 << line, 1 << line] for line in range(lines)]
    seen = [0] * lines
    for sides in box_sides(rows, columns).tolist():
        for line in sides:
            sets[line][seen[line]] = sum(1 << other for other in sides if other != line)
            seen[line] += 1
    return np.array(sets, np.uint32)


def _value_of_drawing(drawn: jax.Array, line: jax.Array, sets: jax.Array, after: jax.Array) -> jax.Array:
    # int8: what drawing a line is worth in the positions `drawn` (uint32), `after` being the future margins
    # once it is drawn, and `sets` [2] its completing sets. -128 where it is drawn already.
    completed = sum(((drawn & other_sides) == other_sides).astype(jnp.int8) for other_sides in sets)
    value = jnp.where(completed > 0, completed + after, -after)
    is_drawn = (drawn >> jnp.uint32(line)) & 1 == 1
    return jnp.where(is_drawn, jnp.int8(_ILLEGAL), value)


def _rows_in_order(rows: int, rows_per_step: int):
    # Yields arrays of at most rows_per_step row numbers, all of one layer, the largest sets first.
    numbers = np.arange(rows, dtype=np.uint32)
    sizes = np.bitwise_count(numbers)
    for size in range(int(sizes[-1]), -1, -1):
        layer = numbers[sizes == size]
        for start in range(0, len(layer), rows_per_step):
            yield layer[start : start + rows_per_step]


@functools.cache
def _rows_solver(rows: int, columns: int, rows_per_step: int, devices: tuple[jax.Device, ...]):
    # The compiled step: (table, row numbers [rows_per_step] uint32) -> table with these rows filled in.
    all_sets = _completing_sets(rows, columns)
    lines = len(all_sets)
    column_lines = min(_COLUMN_LINES, lines)
    width = 2**column_lines
    width_per_device, rows_per_device = width // len(devices), rows_per_step // len(devices)

    def over_row_lines(table, heads):
        # [rows_per_step, width_per_device]: the best of the higher lines, for this device's columns.
        first = jax.lax.axis_index("device") * width_per_device
        tails = (first + jnp.arange(width_per_device)).astype(jnp.uint32)
        drawn = (heads[:, None] << column_lines) | tails

        def one_line(line, best):
            after = table[heads | jnp.uint32(1) << (line - column_lines).astype(jnp.uint32)]
            return jnp.maximum(best, _value_of_drawing(drawn, line, jnp.asarray(all_sets)[line], after))

        start = jnp.full(drawn.shape, _ILLEGAL, jnp.int8)
        return jax.lax.fori_loop(column_lines, lines, one_line, start)

    def over_column_lines(values, heads):
        # [width, rows]: with the lowest lines too, from the full set of them down.
        def one_column(i, values):
            tail = width - 1 - i
            drawn = (heads << column_lines) | tail.astype(jnp.uint32)
            best = values[tail]
            for line in range(column_lines):
                after = values[tail | 1 << line]
                best = jnp.maximum(best, _value_of_drawing(drawn, line, all_sets[line], after))
            over = drawn == jnp.uint32(2**lines - 1)
            return values.at[tail].set(jnp.where(over, jnp.int8(0), best))

        return jax.lax.fori_loop(0, width, one_column, values)

    def solve_rows(table, heads):
        values = over_row_lines(table, heads)
        values = jax.lax.all_to_all(values, "device", split_axis=0, concat_axis=1, tiled=True)
        first = jax.lax.axis_index("device") * rows_per_device
        own_heads = jax.lax.dynamic_slice(heads, (first,), (rows_per_device,))
        # Transposed, so that rows, which are independent of each other, lie next to each other.
        values = over_column_lines(values.T, own_heads).T
        values = jax.lax.all_to_all(values, "device", split_axis=1, concat_axis=0, tiled=True)
        return table.at[heads].set(values)

    by_columns, whole = PartitionSpec(None, "device"), PartitionSpec()
    sharded = jax.shard_map(
        solve_rows,
        mesh=Mesh(np.array(devices), "device"),
        in_specs=(by_columns, whole),
        out_specs=by_columns,
        check_vma=False,
    )
    return jax.jit(sharded, donate_argnums=0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _move_margins(rows: int, columns: int, table: jax.Array, lines: jax.Array) -> jax.Array:
    # [batch, lines] int8: the future margin of each move for who makes it; -128 where it is drawn.
    sets = jnp.asarray(_completing_sets(rows, columns))
    bits = jnp.uint32(1) << jnp.arange(len(sets), dtype=jnp.uint32)
    drawn = jnp.sum(jnp.where(lines, bits, 0), axis=1, dtype=jnp.uint32)[:, None]
    next_set = drawn | bits
    width = jnp.uint32(table.shape[1])
    after = table[next_set // width, next_set % width]
    return _value_of_drawing(drawn, jnp.arange(len(sets)), (sets[:, 0], sets[:, 1]), after)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} seconds"
