"""The solver of Connect Four against plain minimax, published scores and itself in the mirror."""

import functools
import random

import jax
import numpy as np
import pytest

from azjax import positions, solvers
from azjax.envs import make_game
from azjax.solvers.connect_four import search
from azjax.solvers.connect_four.search import NO, YES, Budget, Position, Searcher
from azjax.solvers.connect_four.solver import ConnectFourSolver, load_solver, make_solver
from tests.reference import connect_four as reference

GAME = make_game("connect_four")
# Of Pascal Pons, "Solving Connect 4", part 2 (blog.gamesolver.org): a position explained there, and lines of its
# test sets; the score and, where it has been published, the only best move.
PUBLISHED = {
    "44455554221": (-15, None),
    "2252576253462244111563365343671351441": (-1, None),
    "74642572132": (15, "3"),
    "51756773145177": (-10, "2"),
    "165746146225": (-11, "7"),
    "1562527227511": (13, "4"),
    "43745416472735": (-13, "6"),
    "74425337641465475671176741236615215533": (0, None),
    "34441157374153736716346556774311552222": (0, None),
    "7234472553": (10, None),
    "266674777": (4, None),
}
# Of Tromp's database of positions with eight stones (UCI, "Connect-4"): what the first player gets.
TROMP = {"44444433": 1, "44444435": 1, "44444423": 0}


@functools.cache
def solver() -> ConnectFourSolver:
    return make_solver(GAME)


def batch(*texts: str):
    return positions.stack([GAME.from_notation(text) for text in texts])


def long_games(number: int, stones: int, seed: int = 0) -> list[str]:
    """Random games of so many stones without four in a row."""
    draw, found = random.Random(seed), []
    while len(found) < number:
        moves: list[int] = []
        while len(moves) < stones:
            columns = reference.free(reference.play(moves))
            safe = [column for column in columns if not reference.has_four(reference.play([*moves, column]))]
            if not safe:
                break
            moves.append(draw.choice(safe))
        if len(moves) == stones:
            found.append("".join(str(column + 1) for column in moves))
    return found


@pytest.fixture(scope="module")
def late():
    """Positions with three to seven free cells, and what plain minimax finds of their moves."""
    texts = [text for stones in range(35, 40) for text in long_games(8, stones, seed=stones)]
    truth = [reference.move_plies(reference.play([int(move) - 1 for move in text])) for text in texts]
    return batch(*texts), truth


def by_column(truth, part: int) -> np.ndarray:
    rows = np.full((len(truth), reference.COLUMNS), np.nan)
    for row, moves in enumerate(truth):
        for column, result in moves.items():
            rows[row, column] = result[part]
    return rows


def test_values_and_optimal_moves_are_those_of_plain_minimax(late):
    states, truth = late
    outcomes = by_column(truth, 0)
    value = np.nanmax(outcomes, axis=1)
    assert set(value) == {-1.0, 0.0, 1.0}
    found = solver().solve(states)
    assert found.proven.all()
    np.testing.assert_array_equal(found.value, value)
    np.testing.assert_array_equal(found.optimal, outcomes == value[:, None])
    np.testing.assert_array_equal(solver().value(states), value)
    np.testing.assert_array_equal(make_solver(GAME).optimal_actions(states), outcomes == value[:, None])


def test_every_move_has_the_outcome_and_the_plies_of_plain_minimax(late):
    states, truth = late
    outcomes, plies = by_column(truth, 0), by_column(truth, 1)
    low, high = make_solver(GAME).move_outcomes(states)
    np.testing.assert_array_equal(low, outcomes)
    np.testing.assert_array_equal(high, outcomes)
    np.testing.assert_array_equal(solver().move_plies(states), np.where(outcomes == 0, np.nan, plies))


def test_the_quickest_moves_are_those_of_plain_minimax(late):
    states, truth = late
    merits = by_column(truth, 0) * (100 - by_column(truth, 1))
    scores, moves = make_solver(GAME).best_scores(states)
    np.testing.assert_array_equal(moves, merits == np.nanmax(merits, axis=1)[:, None])
    np.testing.assert_array_equal(scores, np.nanmax(solver().move_scores(states), axis=1))


@pytest.mark.parametrize("text", PUBLISHED)
def test_scores_are_the_published_ones(text):
    score, only = PUBLISHED[text]
    scores = solver().move_scores(batch(text))[0]
    assert np.nanmax(scores) == score
    if only is not None:
        assert [GAME.action_to_text(action) for action in np.flatnonzero(scores == score)] == [only]


def test_positions_with_eight_stones_have_the_values_of_tromps_database():
    assert solver().value(batch(*TROMP)).tolist() == [*TROMP.values()]


def test_a_position_and_its_mirror_image_are_worth_the_same():
    texts = long_games(6, 16)
    mirrored = ["".join(str(8 - int(move)) for move in text) for text in texts]
    here, there = (
        make_solver(GAME).move_scores(batch(*texts)),
        make_solver(GAME).move_scores(batch(*mirrored)),
    )
    np.testing.assert_array_equal(here, there[:, ::-1])


def test_a_position_is_found_in_the_table_by_its_mirror_image():
    searcher = Searcher(16)
    first = Position(0, 0)
    for move in "4455":
        first = first.after(int(move) - 1)
    mirror = Position(0, 0)
    for move in "4433":
        mirror = mirror.after(int(move) - 1)
    assert searcher.ask(first, 18, Budget()) == YES
    asked = searcher.nodes
    assert searcher.ask(mirror, 18, Budget()) == YES
    assert searcher.nodes == asked + 1


def test_what_is_not_proven_within_the_limits_is_unknown():
    limited = make_solver(GAME, nodes=1000)
    states = batch("", "12121", "121212")  # nothing, a move that has to be made, and a win at once
    found = limited.solve(states)
    assert not found.proven.any()  # of the last, other moves may win too
    assert np.isnan(found.value).all() and not found.optimal.any()
    np.testing.assert_array_equal(limited.value(states), [np.nan, np.nan, 1])
    low, high = limited.move_outcomes(states)
    assert low[0].tolist() == [-1.0] * 7 and high[0].tolist() == [1.0] * 7
    assert low[1, 1:].tolist() == high[1, 1:].tolist() == [-1.0] * 6  # the other wins in the first column
    assert np.isnan(limited.move_plies(states)[0]).all()
    assert not limited.quickest_actions(states)[0].any()
    assert found.nodes.max() < 4000


def test_a_search_that_was_stopped_goes_on_where_it_was():
    whole, pieces = Searcher(16), Searcher(16)
    position = Position(0, 0)
    for move in "7234472553":
        position = position.after(int(move) - 1)
    assert whole.ask(position, 11, Budget()) == NO
    search.start(pieces._work, np.uint64(position.mine), np.uint64(position.taken), 11)
    while (answer := search.go_on(pieces._work, pieces._table, 777)) == search.UNKNOWN:
        pass
    assert answer == NO
    assert pieces.nodes == whole.nodes


def test_finished_games_are_lost_or_drawn_and_have_no_moves():
    (drawn,) = long_games(1, 42)
    states = batch("1212121", "71212121", drawn)
    found = solver().solve(states)
    assert found.value.tolist() == [-1, -1, 0]
    assert not found.optimal.any()
    assert np.isnan(solver().move_scores(states)).all()
    assert not solver().quickest_actions(states).any()


def test_an_empty_batch_has_an_empty_solution():
    nothing = jax.tree.map(lambda leaf: leaf[:0], batch(""))
    assert solver().solve(nothing).optimal.shape == (0, 7)
    assert solver().value(nothing).shape == (0,)
    assert solver().move_scores(nothing).shape == solver().quickest_actions(nothing).shape == (0, 7)


def test_what_was_saved_is_known_at_once(tmp_path):
    texts = long_games(3, 20)
    first = make_solver(GAME)
    scores = first.move_scores(batch(*texts))
    first.save(tmp_path / "known.npz")
    again = load_solver(tmp_path / "known.npz", GAME, nodes=0)
    np.testing.assert_array_equal(again.move_scores(batch(*texts)), scores)
    assert again.solve(batch(*texts)).nodes.tolist() == [0, 0, 0]


def test_effort_is_measured_by_searches_that_know_nothing():
    state = GAME.from_notation("7234472553")
    moves = np.flatnonzero(solver().optimal_actions(positions.stack([state]))[0]).tolist()
    first, second = (solver().effort(state, moves) for _ in range(2))
    assert first == second
    assert min(first) > 10


def test_the_game_is_found_by_name_and_says_what_it_takes():
    assert solvers.has_solver(GAME)
    assert isinstance(solvers.make_solver(GAME, nodes=1), ConnectFourSolver)
    memory, seconds = solvers.estimate(GAME)
    assert memory == 2**26 and seconds > 10
    with pytest.raises(solvers.TooLargeError, match="too many positions"):
        solvers.room_of(GAME).truth_of(GAME, False, None)
