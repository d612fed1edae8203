"""The solvers of Dots and Boxes against published values, brute force and each other."""

import functools
import itertools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from azjax.envs.dots_and_boxes import (
    DotsAndBoxes,
    DotsAndBoxesState,
    box_sides,
    peters_lines,
    peters_numbers,
)
from azjax.solvers.bits import count_bits
from azjax.solvers.core import TooLargeError
from azjax.solvers.dots import chains
from azjax.solvers.dots import search as dots_search
from azjax.solvers.dots.search import SearchSolver
from azjax.solvers.dots.solver import TableSolver, estimate, load_solver, make_solver, solve_table
from tests import processes
from tests.envs.test_dots_and_boxes import BERLEKAMP
from tests.reference import dots_and_boxes as reference

pytestmark = pytest.mark.usefixtures("optimised")

# Margin of the first player on the empty board, and Peters's numbers of the optimal first lines; None: all.
EMPTY_BOARDS = {
    (1, 1): (-1, None),
    (1, 2): (0, [3]),
    (1, 3): (-1, None),
    (1, 4): (0, [6]),
    (1, 5): (-1, None),
    (2, 2): (2, [0, 1, 2, 4, 7, 9, 10, 11]),
    (2, 3): (-2, None),
    (2, 4): (2, sorted(set(range(22)) - {6, 10, 11, 15})),
    (3, 3): (-3, None),
}
LARGER_EMPTY_BOARDS = {
    (1, 6): (0, [9]),
    (1, 7): (-1, None),
    (1, 8): (0, [12]),
    (2, 5): (-2, None),
}
LARGEST_EMPTY_BOARDS = {(1, 9): (-1, None), (3, 4): (0, [6, 15, 24])}  # too large for tables in a test
# Berlekamp's problems: winning lines with their future margins, and the margin of the best other line.
BERLEKAMP_SOLUTIONS = [
    ({16: 3}, -1),
    ({17: 5, 21: 5}, -7),
    ({7: 3}, -3),
    ({12: 1, 22: 1, 23: 1}, -1),
    ({0: 3}, -3),
    ({7: 1, 10: 1, 19: 1, 22: 1}, -1),
    ({9: 3}, -1),
    ({0: 2}, -2),
    ({0: 6}, -6),
    ({11: 10}, -6),
    ({2: 11, 20: 9, 21: 9}, -15),
    ({15: 9}, -9),
    ({17: 5}, -5),
]


@functools.cache
def table_of(rows: int, columns: int) -> jax.Array:
    return solve_table(DotsAndBoxes(rows, columns))


def table_solver(rows: int, columns: int, reward: str = "margin") -> TableSolver:
    return TableSolver(DotsAndBoxes(rows, columns, reward=reward), table_of(rows, columns))


@functools.cache
def search_solver(rows: int, columns: int, reward: str = "margin") -> SearchSolver:
    return SearchSolver(DotsAndBoxes(rows, columns, reward=reward))


def states_of(game: DotsAndBoxes, lines, seed: int = 0) -> DotsAndBoxesState:
    """Positions with these lines [batch, lines] drawn, random owners of finished boxes, random movers."""
    rng = np.random.default_rng(seed)
    lines = np.asarray(lines, bool)
    complete = lines[:, box_sides(game.rows, game.columns)].all(axis=2)
    owners = np.where(complete, rng.choice([-1, 1], complete.shape), 0).astype(np.int8)
    players = rng.integers(0, 2, len(lines)).astype(np.int32)
    return DotsAndBoxesState(jnp.asarray(lines), jnp.asarray(owners), jnp.asarray(players))


def random_states(game: DotsAndBoxes, count: int, seed: int = 0, most_open: int | None = None):
    """Positions with each number of open lines equally likely."""
    rng = np.random.default_rng(seed)
    open_lines = rng.integers(0, (most_open or game.num_actions) + 1, count)
    order = np.argsort(rng.random((count, game.num_actions)), axis=1)
    return states_of(game, order >= open_lines[:, None], seed)


def numbered(game: DotsAndBoxes, numbers) -> np.ndarray:
    """[lines] bool, the lines of these numbers of Peters's."""
    drawn = np.zeros(game.num_actions, bool)
    drawn[peters_lines(game.rows, game.columns)[list(numbers)]] = True
    return drawn


def berlekamp_states(problem: int) -> tuple[DotsAndBoxes, DotsAndBoxesState]:
    """A problem with nobody's boxes counted, so that final margins are future ones."""
    width, height, drawn, _ = BERLEKAMP[problem]
    game = DotsAndBoxes(height, width, reward="margin")
    lines = numbered(game, [int(number) for number in drawn.split(",")])
    owners = np.zeros(game.num_boxes, np.int8)
    return game, DotsAndBoxesState(
        jnp.asarray(lines)[None], jnp.asarray(owners)[None], jnp.zeros(1, jnp.int32)
    )


def by_peters_number(game: DotsAndBoxes, values: np.ndarray) -> dict[int, int]:
    """Peters's number -> value, for the open lines."""
    numbers = peters_numbers(game.rows, game.columns)
    return {int(numbers[line]): int(v) for line, v in enumerate(values) if not np.isnan(v)}


def slow_margin(rows: int, columns: int, drawn: np.ndarray) -> int:
    """The future margin by plain recursion over the reference's lines."""
    game = reference.DotsAndBoxes(rows, columns)
    lines = game.lines()

    @functools.cache
    def margin(now: frozenset) -> int:
        best = None
        for line in lines:
            if line in now:
                continue
            after = now | {line}
            gain = sum(line in game.sides(b) and after.issuperset(game.sides(b)) for b in game.boxes())
            value = gain + margin(after) if gain else -margin(after)
            best = value if best is None else max(best, value)
        return best or 0

    return margin(frozenset(lines[i] for i in np.flatnonzero(drawn)))


def all_line_sets(lines: int) -> np.ndarray:
    return (np.arange(2**lines)[:, None] >> np.arange(lines)) & 1 == 1


def check_empty_board(solver, value: int, optimal: list[int] | None):
    game = solver.game
    solution = solver.solve(jax.tree.map(lambda leaf: leaf[None], game.init()))
    assert solution.value[0] == value
    expected = range(game.num_actions) if optimal is None else optimal
    np.testing.assert_array_equal(solution.optimal[0], numbered(game, expected))
    assert solution.proven[0]


@pytest.mark.parametrize("shape", EMPTY_BOARDS)
def test_tables_give_the_known_values_and_first_lines_of_empty_boards(shape):
    check_empty_board(table_solver(*shape), *EMPTY_BOARDS[shape])


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGER_EMPTY_BOARDS)
def test_tables_give_the_known_values_and_first_lines_of_larger_empty_boards(shape):
    game = DotsAndBoxes(*shape, reward="margin")
    check_empty_board(TableSolver(game, solve_table(game)), *LARGER_EMPTY_BOARDS[shape])


@pytest.mark.parametrize("shape", EMPTY_BOARDS | LARGER_EMPTY_BOARDS)
def test_the_search_gives_the_known_values_and_first_lines_of_empty_boards(shape):
    check_empty_board(search_solver(*shape), *(EMPTY_BOARDS | LARGER_EMPTY_BOARDS)[shape])


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGEST_EMPTY_BOARDS)
def test_the_search_gives_the_known_values_and_first_lines_of_the_largest_empty_boards(shape):
    solver = SearchSolver(DotsAndBoxes(*shape, reward="margin"))
    check_empty_board(solver, *LARGEST_EMPTY_BOARDS[shape])


def test_tall_boards_are_worth_what_wide_ones_are():
    wide, tall = table_solver(1, 4), table_solver(4, 1)
    assert wide.table[0, 0] == tall.table[0, 0] == 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 3), (2, 2)])
def test_the_whole_table_agrees_with_plain_recursion(shape):
    game = DotsAndBoxes(*shape)
    sets = all_line_sets(game.num_actions)
    table = np.asarray(table_of(*shape)).reshape(-1)
    some = range(0, len(sets), max(1, len(sets) // 300))
    assert [slow_margin(*shape, sets[i]) for i in some] == table[list(some)].tolist()


def test_a_value_is_the_best_value_after_a_move_of_the_rules():
    solver = table_solver(3, 3)
    game = solver.game
    states = random_states(game, 400)
    values, margins = solver.value(states), solver.move_margins(states)
    # Stepping every position by every line; illegal steps change nothing and are left out below.
    lines = jnp.arange(game.num_actions)
    after = jax.vmap(lambda x: jax.vmap(lambda line: game.step(x, line))(lines))(states)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), after)
    same_player = np.asarray(after.current_player) == np.asarray(states.current_player)[:, None]
    expected = solver.value(flat).reshape(margins.shape) * np.where(same_player, 1, -1)
    is_open = ~np.asarray(states.lines)
    np.testing.assert_array_equal(margins[is_open], expected[is_open])
    assert np.isnan(margins[~is_open]).all()
    unfinished = is_open.any(axis=1)
    np.testing.assert_array_equal(values[unfinished], np.nanmax(margins[unfinished], axis=1))


@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_values_and_optimal_lines_turn_with_the_board(shape):
    solver = table_solver(*shape)
    game = solver.game
    states = random_states(game, 200)
    solution = solver.solve(states)
    for line_table, box_table in zip(game.symmetries.action, game.box_symmetries):
        turned = states._replace(lines=states.lines[:, line_table], owners=states.owners[:, box_table])
        there = solver.solve(turned)
        np.testing.assert_array_equal(there.value, solution.value)
        np.testing.assert_array_equal(there.optimal, solution.optimal[:, line_table])


@pytest.mark.parametrize("make", [table_solver, search_solver])
def test_finished_games_are_worth_their_margin_and_have_no_moves(make):
    solver = make(1, 2)
    owners = jnp.array([[1, 1], [1, -1], [-1, -1]], jnp.int8)
    states = DotsAndBoxesState(jnp.ones((3, 7), bool), owners, jnp.array([0, 0, 0], jnp.int32))
    solution = solver.solve(states)
    assert solution.value.tolist() == [2, 0, -2]
    assert not solution.optimal.any()
    assert solution.proven.all()


@pytest.mark.parametrize("make", [table_solver, search_solver])
def test_captured_boxes_count_for_who_captured_them(make):
    # The last line of two boxes side by side is the right end; the left box belongs to the second player.
    lines = jnp.array([[True, True, True, True, True, True, False]])
    owners = jnp.array([[-1, 0]], jnp.int8)
    solver = make(1, 2)
    for player, margin in ((0, 0), (1, 2)):
        states = DotsAndBoxesState(lines, owners, jnp.array([player], jnp.int32))
        assert solver.value(states).tolist() == [margin]


@pytest.mark.parametrize("make", [table_solver, search_solver])
def test_under_outcomes_every_move_that_keeps_the_outcome_is_optimal(make):
    for_margin, for_outcome = table_solver(2, 3), make(2, 3, reward="outcome")
    states = random_states(for_margin.game, 300)
    margins = for_margin.move_margins(states)
    solution = for_outcome.solve(states)
    value = np.sign(for_margin.value(states))
    np.testing.assert_array_equal(solution.value, value)
    np.testing.assert_array_equal(solution.optimal, np.sign(margins) == value[:, None])


def test_an_empty_batch_is_solved_to_nothing():
    for make in (table_solver, search_solver):
        solution = make(2, 2).solve(random_states(DotsAndBoxes(2, 2), 0))
        assert solution.value.shape == (0,) and solution.optimal.shape == (0, 12)


def test_progress_ends_with_all_rows():
    reports = []
    solve_table(DotsAndBoxes(2, 3), progress=lambda done, total: reports.append((done, total)))
    assert reports[-1] == (2**9, 2**9)
    assert reports == sorted(reports)


def test_two_devices_make_the_same_table():
    program = """
import jax, numpy as np
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.solvers.dots.solver import TableSolver, solve_table
assert len(jax.devices()) == 2
assert len(solve_table(DotsAndBoxes(1, 2)).devices()) == 1  # unless asked for
table = solve_table(DotsAndBoxes(2, 3), devices=jax.devices())
shards = [shard.data.shape for shard in table.addressable_shards]
solver = TableSolver(DotsAndBoxes(2, 3), table)
value = solver.value(jax.tree.map(lambda leaf: leaf[None], solver.game.init()))
print(shards, value.tolist(), np.asarray(table).tobytes().hex())
"""
    environment = processes.environment(devices=2)
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    expected = np.asarray(table_of(2, 3)).tobytes().hex()
    assert run.stdout.strip() == f"[(512, 128), (512, 128)] [-1.0] {expected}"


def test_a_saved_table_is_loaded_as_it_was(tmp_path):
    path = tmp_path / "two_by_three.npz"
    table_solver(2, 3).save(path)
    loaded = load_solver(path)
    assert loaded.game == DotsAndBoxes(2, 3)
    np.testing.assert_array_equal(loaded.table, table_of(2, 3))
    assert load_solver(path, DotsAndBoxes(2, 3, reward="margin")).game.reward == "margin"


def test_a_file_says_what_it_is(tmp_path):
    path = tmp_path / "table.npz"
    table_solver(2, 2).save(path)
    header = json.loads(str(np.load(path)["header"]))
    assert header["game"] == "dots_and_boxes"
    assert (header["rows"], header["columns"], header["positions"]) == (2, 2, 4096)


def test_bad_files_are_refused(tmp_path):
    good = tmp_path / "good.npz"
    table_solver(2, 3).save(good)
    content = good.read_bytes()
    bad = tmp_path / "bad.npz"
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for damaged in (b"", b"nonsense", content[: len(content) // 2], flipped):
        bad.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            load_solver(bad)
    np.savez(bad, header=np.array('{"kind": "a recipe", "version": 1}'))
    with pytest.raises(ValueError, match="kind is 'a recipe', not"):
        load_solver(bad)
    with pytest.raises(ValueError, match="rows is 2, not 3"):
        load_solver(good, DotsAndBoxes(3, 3))
    with pytest.raises(FileNotFoundError):
        load_solver(tmp_path / "missing.npz")


def test_a_board_that_does_not_fit_is_refused_with_an_estimate():
    with pytest.raises(TooLargeError, match=r"2\^38 positions .* 275 GB .* hours.*search"):
        make_solver(DotsAndBoxes(3, 5), method="table")
    with pytest.raises(TooLargeError, match=r"2\.55 GB"):
        make_solver(DotsAndBoxes(3, 4), method="table", memory=10**9)
    size, seconds = estimate(DotsAndBoxes(3, 4))
    assert size < 6e9 and seconds < 3600


def test_the_solver_is_made_by_method_and_size():
    assert isinstance(make_solver(DotsAndBoxes(1, 2)), TableSolver)
    assert isinstance(make_solver(DotsAndBoxes(1, 2), method="search"), SearchSolver)
    assert isinstance(make_solver(DotsAndBoxes(5, 5)), SearchSolver)
    with pytest.raises(ValueError, match="method must be one of"):
        make_solver(DotsAndBoxes(1, 2), method="guess")


@pytest.mark.parametrize("problem", range(13))
def test_berlekamps_problems_have_exactly_the_stated_solutions(problem):
    game, states = berlekamp_states(problem)
    solutions, next_best = BERLEKAMP_SOLUTIONS[problem]
    solver = search_solver(game.rows, game.columns)
    values = by_peters_number(game, solver.move_margins(states)[0])
    assert {number: value for number, value in values.items() if value > 0} == solutions
    assert max(value for value in values.values() if value <= 0) == next_best
    solution = solver.solve(states)
    best = max(solutions.values())
    assert solution.value[0] == best
    optimal = numbered(game, [number for number, value in solutions.items() if value == best])
    np.testing.assert_array_equal(solution.optimal[0], optimal)


@pytest.mark.parametrize("problem", range(7))
def test_tables_solve_berlekamps_small_problems_too(problem):
    game, states = berlekamp_states(problem)
    values = by_peters_number(game, table_solver(3, 3).move_margins(states)[0])
    assert {number: value for number, value in values.items() if value > 0} == BERLEKAMP_SOLUTIONS[problem][0]


@pytest.mark.parametrize("make", [table_solver, search_solver])
def test_all_move_values_of_berlekamps_third_problem(make):
    game, states = berlekamp_states(2)
    expected = {7: 3}
    expected |= dict.fromkeys([3, 5, 8, 9, 14, 15, 16, 22], -3)
    expected |= dict.fromkeys([17, 20, 21, 23], -5)
    assert by_peters_number(game, make(3, 3).move_margins(states)[0]) == expected


@pytest.mark.parametrize("make", [table_solver, search_solver])
def test_only_capturing_the_opened_chain_wins_on_the_confusion_board(make):
    solver = make(3, 3)
    drawn = numbered(solver.game, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 21])
    values = by_peters_number(solver.game, solver.move_margins(states_of(solver.game, [drawn]))[0])
    assert values.pop(14) == 7
    assert max(values.values()) <= -5


@pytest.mark.parametrize("shape, count", [((1, 5), 500), ((2, 3), 1000), ((2, 4), 1000), ((3, 3), 2000)])
def test_search_and_table_agree_on_values_and_optimal_lines(shape, count):
    table, search = table_solver(*shape), search_solver(*shape)
    states = random_states(table.game, count, seed=1)
    expected, solution = table.solve(states), search.solve(states)
    np.testing.assert_array_equal(solution.value, expected.value)
    np.testing.assert_array_equal(solution.optimal, expected.optimal)
    assert solution.proven.all()


def test_search_and_table_agree_on_the_value_of_every_move():
    table, search = table_solver(3, 3), search_solver(3, 3)
    states = random_states(table.game, 300, seed=2)
    np.testing.assert_array_equal(search.move_margins(states), table.move_margins(states))


@pytest.mark.parametrize("shape", [(5, 5), (6, 7), (20, 20)])
def test_the_search_agrees_with_plain_recursion_on_large_boards(shape):
    # Six boxes in a corner, with 9 of their lines open and everything else drawn.
    solver = search_solver(*shape)
    game = solver.game
    rng = np.random.default_rng(3)
    corner = np.unique(box_sides(*shape)[[0, 1, 2, shape[1], shape[1] + 1, shape[1] + 2]])
    for seed in range(5):
        drawn = np.ones(game.num_actions, bool)
        drawn[rng.choice(corner, 9, replace=False)] = False
        states = states_of(game, [drawn], seed)
        expected = int(game.margin(jax.tree.map(lambda leaf: leaf[0], states)))
        expected += small_slow_margin(shape, drawn)
        assert solver.value(states)[0] == expected


def small_slow_margin(shape: tuple[int, int], drawn: np.ndarray) -> int:
    """`slow_margin` of the upper left 3 x 4 boxes, all that is open on the board."""
    whole = {line: bool(is_drawn) for line, is_drawn in zip(reference.all_lines(*shape), drawn)}
    return slow_margin(3, 4, np.array([whole[line] for line in reference.all_lines(3, 4)]))


@numba.njit
def count_exceptions(graph, table, first, last):
    """Positions whose margin in the table is not what settling and the moves looked at say it is."""
    everything = np.uint64(len(table) - 1)
    rows = np.zeros((6, 64), np.int64)
    exceptions = 0
    for drawn in range(first, last):
        position = dots_search._representative(graph, everything & ~np.uint64(drawn))
        rest, taken, give = dots_search._settle(graph, position)
        margin = np.int64(table[drawn])
        if taken > 0:
            v = np.int64(table[np.int64(everything & ~rest)])
            exceptions += margin != (taken + v if give == 0 else taken - give + abs(v + give))
        elif position:
            two = np.uint64(0)
            for strings in graph.coins:
                if count_bits(position & strings) == 2:
                    two |= strings
            best = -100
            for move in range(dots_search._expand(graph, position, two, rows)):
                v = np.int64(table[np.int64(everything & ~np.uint64(rows[0, move]))])
                taken, give = rows[1, move], rows[2, move]
                best = max(best, -taken - v if give == 0 else give - taken - abs(v + give))
            exceptions += margin != best
    return exceptions


@pytest.mark.parametrize(
    "shape", [(1, 5), (2, 3), (2, 4), pytest.param((3, 3), marks=pytest.mark.slow)], ids=str
)
def test_the_reductions_of_the_search_hold_in_every_position_of_small_boards(shape):
    graph = dots_search._make_graph(DotsAndBoxes(*shape), np.arange(DotsAndBoxes(*shape).num_actions))
    table = np.asarray(table_of(*shape)).reshape(-1)
    assert count_exceptions(graph, table, 0, len(table)) == 0


def test_a_search_that_runs_out_of_time_says_so():
    solver = SearchSolver(DotsAndBoxes(5, 5), seconds=0.05)
    states = jax.tree.map(lambda leaf: leaf[None], solver.game.init())
    solution = solver.solve(states)
    assert np.isnan(solution.value[0])
    assert not solution.proven[0]
    assert not solution.optimal.any()
    assert np.isnan(solver.move_margins(states)).all()


def test_too_many_open_lines_are_refused():
    game = DotsAndBoxes(6, 6)
    start = jax.tree.map(lambda leaf: leaf[None], game.init())
    with pytest.raises(TooLargeError, match="84 lines are open"):
        SearchSolver(game, seconds=1.0).solve(start)


def test_a_search_that_would_take_days_is_refused_unless_it_has_a_limit():
    game = DotsAndBoxes(5, 5)
    with pytest.raises(TooLargeError, match=r"60 lines are open.* hours and .* GB.* limit of seconds"):
        SearchSolver(game).solve(jax.tree.map(lambda leaf: leaf[None], game.init()))


def endgame_board(chain_lengths, loop_lengths) -> tuple[DotsAndBoxes, np.ndarray]:
    """A loony endgame: chains along the top row, loops of two rows below; everything else is drawn."""
    game = DotsAndBoxes(3, 20, reward="margin")
    top, _, right, bottom = box_sides(3, 20).T
    drawn = np.ones(game.num_actions, bool)
    box = 0
    for n in chain_lengths:
        drawn[top[[box, box + n - 1]]] = False
        drawn[right[box : box + n - 1]] = False
        box += n
    box = 20
    for n in loop_lengths:
        half = n // 2
        drawn[right[box : box + half - 1]] = False
        drawn[right[box + 20 : box + 20 + half - 1]] = False
        drawn[bottom[[box, box + half - 1]]] = False
        box += half
    return game, drawn


@pytest.mark.parametrize(
    "chain_lengths, loop_lengths, value",
    [
        ((), (), 0),
        ((3,), (), 3),
        ((3, 3), (), 2),
        ((3, 3, 3), (), 1),
        ((3, 3, 3, 3), (), 2),
        ((4, 4), (), 4),
        ((5, 3), (), 4),
        ((), (4,), 4),
        ((), (4, 4), 0),
        ((3,), (4,), 1),
        ((3, 3), (4,), 2),
        ((4,), (4,), 0),
        ((5, 5), (4,), 2),
        ((3, 4, 5), (4, 6), 2),
    ],
)
def test_loony_endgames_have_the_known_values(chain_lengths, loop_lengths, value):
    assert chains.loony_value(chain_lengths, loop_lengths) == value


def loony_endgames(most_chains: int, most_loops: int):
    for chain_count, loop_count in itertools.product(range(most_chains + 1), range(most_loops + 1)):
        yield from itertools.product(
            itertools.combinations_with_replacement(range(3, 8), chain_count),
            itertools.combinations_with_replacement((4, 6, 8), loop_count),
        )


def test_the_search_agrees_with_the_loony_recursion():
    endgames = [e for e in loony_endgames(4, 2) if sum(e[0]) <= 18][::7]
    boards = [endgame_board(*endgame) for endgame in endgames]
    game = boards[0][0]
    zeros = jnp.zeros((len(boards), game.num_boxes), jnp.int8)
    states = DotsAndBoxesState(jnp.array([b for _, b in boards]), zeros, jnp.zeros(len(boards), jnp.int32))
    assert len(boards) > 100
    expected = [-chains.loony_value(*endgame) for endgame in endgames]
    assert SearchSolver(game).value(states).tolist() == expected


def test_the_controlled_value_is_the_value_if_it_is_at_least_two():
    checked = 0
    for endgame in loony_endgames(6, 4):
        controlled = chains.controlled_value(*endgame)
        if controlled >= 2:
            assert chains.loony_value(*endgame) == controlled
            checked += 1
    assert checked > 5000


@functools.cache
def analyser(game: DotsAndBoxes):
    return jax.jit(functools.partial(chains.analyse, game))


def test_berlekamps_third_problem_has_a_long_and_a_short_chain_and_no_capture():
    game, states = berlekamp_states(2)
    analysis = analyser(game)(states.lines[0])
    assert not analysis.capturing.any()
    assert (analysis.capturable.chain == -1).all()
    assert [int(n) for n in chains.count_chains(analysis.open)] == [1, 1, 0]


def test_chains_of_a_loony_endgame_are_found_with_their_lengths():
    game, drawn = endgame_board((3, 2, 5), (4, 8))
    analysis = analyser(game)(drawn)
    found = {int(box): int(analysis.open.size[box]) for box in np.flatnonzero(analysis.open.size)}
    # The loops start in the second row, at boxes 20 and 22.
    assert found == {0: 3, 3: 2, 5: 5, 20: 4, 22: 8}
    assert np.flatnonzero(analysis.open.closed).tolist() == [20, 22]
    assert [int(n) for n in chains.count_chains(analysis.open)] == [1, 2, 2]
    assert not analysis.safe.any()


def test_opened_chains_and_loops_are_capturable_and_the_others_stay_open():
    game, drawn = endgame_board((3, 4), (4, 6))
    right = box_sides(3, 20)[:, 2]
    drawn[right[4]] = True  # the middle of the chain of boxes 3 to 6
    drawn[right[20]] = True  # a line of the loop of boxes 20, 21, 40, 41
    analysis = analyser(game)(drawn)
    found = {int(box): int(analysis.capturable.size[box]) for box in np.flatnonzero(analysis.capturable.size)}
    assert found == {3: 2, 5: 2, 20: 4}
    names = analysis.capturable.chain[jnp.array([3, 4, 5, 6, 20, 21, 40, 41])]
    assert names.tolist() == [3, 3, 5, 5, 20, 20, 20, 20]
    assert np.flatnonzero(analysis.capturable.closed).tolist() == [20]
    assert [int(n) for n in chains.count_chains(analysis.open)] == [0, 1, 1]


def slow_analysis(rows: int, columns: int, drawn: np.ndarray) -> tuple[list[int], list[int], set]:
    """Safe lines, capturing lines and the boxes that greedy captures take, by the definitions."""
    game = reference.DotsAndBoxes(rows, columns)
    lines = game.lines()
    now = {lines[i] for i in np.flatnonzero(drawn)}

    def sides_drawn(box, at):
        return sum(side in at for side in game.sides(box))

    open_lines = [line for line in lines if line not in now]
    safe = [
        line
        for line in open_lines
        if not any(line in game.sides(box) and sides_drawn(box, now) == 2 for box in game.boxes())
    ]
    capturing = [
        line
        for line in open_lines
        if any(line in game.sides(box) and sides_drawn(box, now) == 3 for box in game.boxes())
    ]
    after = set(now)
    while any(sides_drawn(box, after) == 3 for box in game.boxes()):
        box = next(box for box in game.boxes() if sides_drawn(box, after) == 3)
        after |= set(game.sides(box))
    return (
        [lines.index(x) for x in safe],
        [lines.index(x) for x in capturing],
        {lines.index(x) for x in after},
    )


@pytest.mark.parametrize("shape", [(1, 4), (3, 3), (4, 5)])
def test_safe_and_capturing_lines_and_captures_agree_with_their_definitions(shape):
    game = DotsAndBoxes(*shape)
    states = random_states(game, 60, seed=4)
    analysis = jax.device_get(jax.vmap(analyser(game))(states.lines))
    for row, drawn in enumerate(np.asarray(states.lines)):
        safe, capturing, after = slow_analysis(*shape, drawn)
        assert np.flatnonzero(analysis.safe[row]).tolist() == safe
        assert np.flatnonzero(analysis.capturing[row]).tolist() == capturing
        assert set(np.flatnonzero(analysis.after[row]).tolist()) == after
