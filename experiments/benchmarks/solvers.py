"""How long does the truth take? Every solver on every board it promises, with memory, and the answers checked.

    python -m experiments.benchmarks.solvers                        # what is not measured yet; an hour or two
    python -m experiments.benchmarks.solvers --only "hex 7x7"       # the cases whose names hold one of these
    python -m experiments.benchmarks.solvers --again                # measure all anew
    python -m experiments.benchmarks.solvers --quick                # a smoke test; keeps nothing

Every case has a process of its own, so that its peak memory is its own; its row is kept as soon as it is there.
Seconds are those of the clock and those of all cores together (CPU), which a busy machine hardly changes; a target
counts as met if one core alone would have been fast enough, that is by CPU seconds. `result` is the answer, which the
case compares with known values. The full 5x5 game with six pieces is not solved here: some calls of a pass over a
table of its real size tell the rate, and the time of all passes follows from that.
"""

import concurrent.futures
import dataclasses
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import tyro
from rich.console import Console

from azjax.common import atomic
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, make_game
from azjax.evaluation.suites import ready_suites
from azjax.positions import PositionLine, read_positions, stack
from azjax.positions import sets as position_sets
from azjax.solvers.checkers import solver as chinese_checkers
from azjax.solvers.connect_four import solver as connect_four
from azjax.solvers.dots import search as dots_search
from azjax.solvers.dots import solver as dots_and_boxes
from azjax.solvers.hex import search as hex_search
from azjax.solvers.hex import solver as hex_solver
from experiments.benchmarks.timing import RESULTS, report

NAME = "solvers"
# The margins of empty boards, rows x columns, as published or found by other programs.
MARGINS = {
    **{(1, n): -(n % 2) for n in range(1, 10)},
    **{(2, 2): 2, (2, 3): -2, (2, 4): 2, (2, 5): -2, (3, 3): -3, (3, 4): 0},
}
# Positions won by either player, draws and illegal ones, both players to move counted.
CHECKERS = {
    (4, 3): (154_726, 0, 10_868),
    (4, 6): (1_436_159, 85_622, 405_420),
    (5, 3): (3_499_722, 26_036, 58_520),
}
OPENINGS = {5: 13, 6: 24}  # winning ones
# Scores of the first moves of Connect Four, by Pascal Pons's solver (connect4.gamesolver.org).
FIRST_COLUMNS = (-2, -1, 0, 1, 0, -1, -2)
CHECKERS_PASSES = 51  # of 5x5 with six pieces, by the formula that fits the smaller boards within 4


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    only: tuple[str, ...] = ()  # cases whose names hold one of these; default all
    again: bool = False  # measure even what is kept
    quick: bool = False  # tiny boards only, nothing kept


class Measured(NamedTuple):
    """What a case found out."""

    result: str
    work: int  # positions of a table, or nodes of a search
    limit_seconds: float  # what was to be within the target; the CPU seconds of the whole case if 0


class Case(NamedTuple):
    """One row of the table."""

    name: str
    target: str
    seconds: float  # the target
    run: Callable[..., Measured]
    arguments: tuple = ()


def dots_tables(*boards: tuple[int, int]) -> Measured:
    """Tables of some boards, one after the other."""
    values, work = {}, 0
    for board in boards:
        game = DotsAndBoxes(*board)
        values[board] = int(dots_and_boxes.solve_table(game)[0, 0])
        work += 2**game.num_actions
    _expect(values, {board: MARGINS[board] for board in boards})
    margins = ", ".join(f"{rows}x{columns} {margin:+d}" for (rows, columns), margin in values.items())
    return Measured(margins, work, 0)


def dots_empty_board(*board: int) -> Measured:
    """The margin of an empty board by search."""
    solver = dots_search.SearchSolver(DotsAndBoxes(*board, reward="margin"))
    solution = solver.solve(stack([solver.game.init()]))
    _expect(int(solution.value[0]), MARGINS[board])
    return Measured(f"{int(solution.value[0]):+d}, every first line", int(solution.nodes[0]), 0)


def berlekamp() -> Measured:
    """The 13 problems of Berlekamp's book: all lines that win, and no other."""
    positions = read_positions(ready_suites()["berlekamp"])
    right = nodes = 0
    for position in positions:
        solution = dots_search.SearchSolver(position.game).solve(stack([position.state]))
        nodes += int(solution.nodes[0])
        moves = {position.game.action_to_text(action) for action in np.flatnonzero(solution.optimal[0])}
        right += moves == set(position.fields["optimal"])
    _expect(right, 13)
    return Measured(f"{right} of {len(positions)} exactly", nodes, 0)


def checkers_board(size: int, pieces: int) -> Measured:
    """All positions of a board, with distances."""
    counts = chinese_checkers.make_solver(ChineseCheckers(size, pieces, forward_only=False)).counts()
    found = (counts.wins + counts.losses, 2 * counts.draws, 2 * counts.illegal)
    _expect(found, CHECKERS.get((size, pieces), found))
    return Measured(f"wins {found[0]:,}, draws {found[1]:,}, illegal {found[2]:,}", 2 * counts.positions, 0)


def checkers_slice(calls: int) -> Measured:
    """Some calls of a pass over a table of the size of the 5x5 game with six pieces."""
    game = ChineseCheckers(5, 6, forward_only=False)
    analysis = chinese_checkers._Analysis(game, False, False, None, lambda done, total: None)
    ranking, programs = analysis.ranking, analysis._programs
    words = -(-ranking.columns // chinese_checkers.PER_WORD)
    # Any table will do: a pass takes the same steps whatever it holds.
    table = np.random.default_rng(0).integers(0, 2**32, (ranking.rows, words), np.uint32)
    on_devices = jax.device_put(table, programs.everywhere)
    spent = np.inf
    for call in range(-1, calls):  # the first one compiles
        first = (call + 1) * (ranking.rows - analysis._rows_per_call) // calls
        rows = np.arange(first, first + analysis._rows_per_call, dtype=np.int32)
        start = time.process_time()
        boards = chinese_checkers.boards_of(game, rows)
        jax.block_until_ready(programs.next_rows(programs.plan, on_devices, boards, table[rows], np.int32(1)))
        if call >= 0:
            spent = min(spent, time.process_time() - start)
    a_pass = spent * ranking.rows / analysis._rows_per_call
    whole = CHECKERS_PASSES * a_pass / 2
    text = f"{a_pass:.0f} CPU s a pass, {CHECKERS_PASSES} passes: {whole / 3600:.1f} h on two cores"
    return Measured(text, calls * analysis._rows_per_call * ranking.columns, whole)


def hex_openings(size: int, processes: int) -> Measured:
    """Every first move."""
    game = Hex(size)
    with hex_solver.make_solver(game, processes=processes) as solver:
        moves = solver.winning_moves(game.init(jax.random.key(0)))
    winning = [game.action_to_text(action) for action in np.flatnonzero(moves.result == hex_search.WIN)]
    _expect(len(winning), OPENINGS.get(size, len(winning)))
    _expect(np.count_nonzero(moves.result), size**2)
    return Measured(f"{len(winning)} win: {' '.join(winning)}", int(moves.nodes.sum()), 0)


def hex_suite(size: int, stones: int) -> Measured:
    """Positions of the suite with so many stones or more, all moves classified, each from nothing."""
    positions = [p for p in read_positions(ready_suites()[f"hex{size}"]) if _stones(p) >= stones]
    return _hex_positions(size, positions, "suite")


def hex_random(size: int, stones: int, count: int) -> Measured:
    """Positions of random play with that many stones or up to half the board."""
    rng, game = np.random.default_rng(0), Hex(size)
    step, positions = jax.jit(game.step), []
    while len(positions) < count:
        x = game.init(jax.random.key(0))
        for cell in rng.permutation(size**2)[: rng.integers(stones, size**2 // 2)]:
            x = step(x, cell)
        if not x.over:
            positions.append(PositionLine(game, x, {}))
    return _hex_positions(size, positions, "random positions")


def connect_four_random(stones: int, count: int) -> Measured:
    """Positions of random play with so many stones: the score of each and the best moves, by value and by score.

    Every position is solved from nothing.
    """
    game = make_game("connect_four")
    states, going = position_sets.random_games(game, jax.random.key(0), 8 * count)
    states = jax.tree.map(lambda leaf: leaf[going[:, stones], stones][:count], states)
    values, scores, nodes = [], [], 0
    for row in range(count):
        state = position_sets.rows(states, [row])
        solver = connect_four.make_solver(game)
        solver.value(position_sets.rows(states, slice(0, 0)))  # has everything compiled
        start = time.process_time()
        solution = solver.solve(state)
        values.append(time.process_time() - start)
        score, quickest = solver.best_scores(state)
        scores.append(time.process_time() - start)
        _expect(np.sign(score).tolist(), solution.value.tolist())
        _expect(bool(np.any(quickest & ~solution.optimal)), False)
        nodes += solver.nodes
    text = (
        f"{count} random positions: values and their moves median {np.median(values):.3f} CPU s, most"
        f" {max(values):.1f} s; scores and theirs too median {np.median(scores):.3f}, most {max(scores):.1f} s"
    )
    return Measured(text, nodes, float(np.median(scores)))


def connect_four_openings() -> Measured:
    """The scores of all first moves."""
    game = make_game("connect_four")
    solver = connect_four.make_solver(game)
    scores = tuple(int(score) for score in solver.move_scores(position_sets.start_of(game))[0])
    _expect(scores, FIRST_COLUMNS)
    return Measured(" ".join(f"{score:+d}" for score in scores), solver.nodes, 0)


def _hex_positions(size: int, positions: list[PositionLine], source: str) -> Measured:
    seconds, nodes = [], 0
    for position in positions:
        with hex_solver.make_solver(Hex(size)) as solver:
            solver.value(stack([position.state._replace(over=np.bool_(True))]))  # has everything compiled
            solver._own_searcher()
            start = time.process_time()
            solution = solver.solve(stack([position.state]))
            seconds.append(time.process_time() - start)
        nodes += int(solution.nodes[0])
        if "optimal" in position.fields:
            moves = {position.game.action_to_text(action) for action in np.flatnonzero(solution.optimal[0])}
            _expect(moves, set(position.fields["optimal"]))
    median, most = float(np.median(seconds)), max(seconds)
    text = f"{len(positions)} {source}: median {median:.2f} CPU s, most {most:.1f} s"
    return Measured(text, nodes, median)


CASES = [
    Case(
        "dots and boxes, tables of all boards of up to 24 lines",
        "3x3 in 1 min",
        60,
        dots_tables,
        ((1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (2, 2), (2, 3), (2, 4), (3, 3)),
    ),
    Case("dots and boxes, table of 3x3", "1 min", 60, dots_tables, ((3, 3),)),
    Case("dots and boxes, tables of 1x8, 1x9, 2x5", "-", np.inf, dots_tables, ((1, 8), (1, 9), (2, 5))),
    Case("dots and boxes, table of 3x4", "1 h, 6 GB", 3600, dots_tables, ((3, 4),)),
    Case("dots and boxes, search of 3x4", "-", np.inf, dots_empty_board, (3, 4)),
    Case("dots and boxes, Berlekamp's 13 problems by search", "all 13", np.inf, berlekamp),
    Case("chinese checkers 4x4/3", "20 s", 20, checkers_board, (4, 3)),
    Case("chinese checkers 4x4/6", "-", np.inf, checkers_board, (4, 6)),
    Case("chinese checkers 5x5/3", "5 min", 300, checkers_board, (5, 3)),
    Case("chinese checkers 5x5/6, a slice", "hours, 6 GB", 36000, checkers_slice, (6,)),
    Case("hex 5x5, all openings", "seconds", 10, hex_openings, (5, 1)),
    Case("hex 6x6, all openings", "5 min", 300, hex_openings, (6, 1)),
    Case("hex 6x6, suite positions of 4 and more stones", "median 2 s", 2, hex_suite, (6, 4)),
    Case("hex 6x6, random positions of 4 to 17 stones", "median 2 s", 2, hex_random, (6, 4, 40)),
    Case("hex 8x8, suite positions of 20 and more stones", "median 10 s", 10, hex_suite, (8, 20)),
    Case("hex 8x8, random positions of 20 to 31 stones", "median 10 s", 10, hex_random, (8, 20, 30)),
    Case("hex 7x7, all openings, two processes", "hours", 4 * 3600, hex_openings, (7, 2)),
    *(
        Case(f"connect four, {stones} stones", "median 1 s", 1, connect_four_random, (stones, 40))
        for stones in (8, 10, 12, 16, 20, 24, 28)
    ),
    Case("connect four, all first moves", "-", np.inf, connect_four_openings),
]
QUICK_CASES = [
    Case("dots and boxes, tables of 1x1 and 2x2", "-", np.inf, dots_tables, ((1, 1), (2, 2))),
    Case("hex 5x5, all openings", "seconds", 10, hex_openings, (5, 1)),
    Case("connect four, 28 stones", "median 1 s", 1, connect_four_random, (28, 4)),
]


def measure(case: Case) -> dict[str, object]:
    """A row of the table; in a process that has done nothing else."""
    clock, cpu = time.perf_counter(), _cpu_seconds()
    measured = case.run(*case.arguments)
    clock, cpu = time.perf_counter() - clock, _cpu_seconds() - cpu
    of_target = measured.limit_seconds or cpu
    return {
        "case": case.name,
        "target": case.target,
        "met": "-" if np.isinf(case.seconds) else "yes" if of_target <= case.seconds else "no",
        "seconds": clock,
        "CPU seconds": cpu,
        "positions or nodes": measured.work,
        "a CPU second": measured.work / cpu,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "result": measured.result,
    }


def main(config: Config) -> None:
    """Measures what is asked for and not kept yet, and prints the table."""
    kept = {} if config.quick else _kept_rows()
    cases = QUICK_CASES if config.quick else CASES
    for case in cases:
        is_asked_for = not config.only or any(part in case.name for part in config.only)
        if is_asked_for and (config.again or case.name not in kept):
            Console(stderr=True).print(f"measuring {case.name}")
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(1, context) as process:
                kept[case.name] = process.submit(measure, case).result()
            rows = [kept[case.name] for case in cases if case.name in kept]
            report(NAME, "Exact solvers", rows, keep=not config.quick)
            if not config.quick:
                atomic.write_text(RESULTS / f"{NAME}.md", _as_markdown(rows))


def _kept_rows() -> dict[str, dict]:
    path = RESULTS / f"{NAME}.json"
    return {row["case"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}


def _as_markdown(rows: list[dict]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for row in rows:
        cells = [
            f"{cell:,.3g}" if isinstance(cell, float) and cell < 1000 else _whole(cell)
            for cell in row.values()
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _whole(cell: object) -> str:
    return f"{cell:,.0f}" if isinstance(cell, int | float) else str(cell)


def _cpu_seconds() -> float:
    """Of this process and of those it has started and ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def _stones(position: PositionLine) -> int:
    return int(np.count_nonzero(position.state.board))


def _expect(found: object, known: object) -> None:
    if found != known:
        raise AssertionError(f"the solver says {found}, but it is known to be {known}")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
