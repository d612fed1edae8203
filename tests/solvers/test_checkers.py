"""The exact solver of Chinese Checkers against known counts, brute force, the rules and itself."""

import dataclasses
import functools
import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.envs import checkers_ranking as numbering
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import random_action
from azjax.solvers.checkers.solver import (
    NO_DISTANCE,
    CheckersSolver,
    codes_at,
    estimate,
    load_solver,
    locate_children,
    locate_state,
    make_solver,
)
from azjax.solvers.core import TooLargeError
from tests import processes
from tests.reference.chinese_checkers import Rules

pytestmark = pytest.mark.usefixtures("optimised")

# size, pieces: to-move wins, to-move losses, draws, illegal, finished games, distance of the start, winning first
# moves, all of the game with moves in all directions. Computed by another program (a numpy solver); its 7x7 rows
# equal Table 1 of Sturtevant, "On Strongly Solving Chinese Checkers", 2019.
ALL_MOVES = {
    (3, 1): (38, 26, 0, 8, 7, 9, 2),
    (3, 3): (720, 580, 0, 380, 361, 7, 2),
    (4, 1): (130, 95, 0, 15, 14, 13, 2),
    (4, 2): (6_323, 4_142, 0, 455, 450, 15, 3),
    (4, 3): (96_875, 57_851, 0, 5_434, 5_415, 21, 4),
    (4, 4): (552_491, 310_743, 3_511, 34_155, 34_086, 19, 4),
    (4, 6): (877_249, 558_910, 42_811, 202_710, 192_637, 33, 2),
    (5, 1): (325, 251, 0, 24, 23, 17, 2),
    (5, 2): (43_728, 30_907, 0, 1_265, 1_260, 21, 4),
    (5, 3): (2_105_590, 1_394_132, 13_018, 29_260, 29_241, 29, 2),
    (6, 1): (679, 546, 0, 35, 34, 21, 2),
    (6, 2): (200_397, 150_228, 0, 2_805, 2_800, 27, 4),
    (7, 1): (1_260, 1_044, 0, 48, 47, 25, 2),
    (7, 2): (710_665, 555_186, 0, 5_405, 5_400, 33, 4),
}
FAST = {(3, 1), (3, 3), (4, 3)}
LONG = {(5, 3), (6, 2), (7, 2)}  # (4, 4) and (4, 6) have draws and closed tips too, (7, 1) is as wide

# The same program on the forward-only game in which a player without a forward move has lost: to-move wins,
# losses, draws, distance of the start, positions without a forward move.
FORWARD = {
    (3, 3): (719, 581, 0, 7, 1),
    (4, 3): (96_936, 57_790, 0, 19, 1),
    (4, 4): (553_491, 310_409, 2_845, 19, 17),
    (4, 6): (894_658, 575_095, 9_217, 33, 29),
    (5, 3): (2_112_422, 1_399_710, 608, 25, 1),
}

# Wins on 4x4/3 in 1, 3, ... 21 plies, losses in 0, 2, ... 22.
WIN_DISTANCES = [14868, 7675, 14483, 16951, 15506, 12375, 8185, 4543, 1755, 466, 68]
LOSS_DISTANCES = [5415, 1792, 5407, 9310, 10079, 9565, 7892, 4813, 2448, 918, 198, 14]


def by_length(boards):
    marks = {board: [pytest.mark.long] if board in LONG else [pytest.mark.slow] for board in boards}
    return [pytest.param(board, marks=[] if board in FAST else marks[board]) for board in boards]


@functools.cache
def solver_of(size, pieces, forward_only=False, stuck_loses=False) -> CheckersSolver:
    return make_solver(ChineseCheckers(size, pieces, forward_only), stuck_loses=stuck_loses)


def batched(*states):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def start_of(game):
    return batched(game.init(jax.random.key(0)))


def moves_of(game, mask):
    return {tuple(move) for move in game.moves[np.flatnonzero(mask)].tolist()}


@functools.cache
def unrank_all(size, pieces):
    """Every position in order: rank, column, mine, theirs."""
    ranking = numbering.ranking_of(ChineseCheckers(size, pieces))
    rank, column = (a.ravel() for a in np.indices((ranking.ranks, ranking.columns), dtype=np.int32))
    return ranking, rank, column, *jax.jit(functools.partial(numbering.unrank, ranking))(rank, column)


@functools.cache
def all_codes(size, pieces, *options):
    """[positions] value and distance of every position, mirror images too, in the order of `unrank_all`."""
    ranking, _, _, mine, theirs = unrank_all(size, pieces)
    solver = solver_of(size, pieces, *options)
    row, column = jax.jit(functools.partial(numbering.locate, ranking))(mine, theirs)
    return np.asarray(codes_at(solver.codes, row, column)), solver.table.distances[row, column]


BIJECTIVE = [(2, 1), (3, 3), (4, 2), (4, 3), (5, 2)]


@pytest.mark.parametrize("board", BIJECTIVE)
def test_ranking_undoes_unranking_over_the_whole_range(board):
    ranking, rank, column, mine, theirs = unrank_all(*board)
    again = jax.jit(functools.partial(numbering.rank, ranking))(mine, theirs)
    np.testing.assert_array_equal(again[0], rank)
    np.testing.assert_array_equal(again[1], column)


@pytest.mark.parametrize("board", BIJECTIVE)
def test_unranking_gives_every_placement_once(board):
    size, pieces = board
    _, rank, _, mine, theirs = unrank_all(*board)
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert (mine.sum(1) == pieces).all() and (theirs.sum(1) == pieces).all() and not (mine & theirs).any()
    assert len(rank) == math.comb(size**2, pieces) * math.comb(size**2 - pieces, pieces)
    assert len(np.unique(np.packbits(np.concatenate([mine, theirs], 1), axis=1), axis=0)) == len(rank)


@pytest.mark.parametrize("board", [(3, 3), (4, 2), (4, 3)])
def test_a_mirrored_position_is_stored_at_the_same_place_if_the_homes_are_symmetric(board):
    ranking, _, _, mine, theirs = unrank_all(*board)
    size = board[0]
    mirror = np.arange(size**2).reshape(size, size).T.ravel()
    locate = jax.jit(functools.partial(numbering.locate, ranking))
    here, there = np.stack(locate(mine, theirs)), np.stack(locate(mine[:, mirror], theirs[:, mirror]))
    own_image = np.isin(ranking.stored[here[0]], ranking.stored[ranking.weight == 1])
    same = (here == there).all(axis=0)
    if board[1] == 2:
        assert same.mean() < 0.1  # only positions that are their own mirror image
    else:
        assert same[~own_image].all()


@pytest.mark.parametrize("player", [0, 1])
def test_a_position_and_its_turned_and_recoloured_twin_have_one_number(player):
    game = ChineseCheckers(4, 3)
    ranking, rank, column, mine, theirs = unrank_all(4, 3)
    some = np.random.default_rng(0).choice(len(rank), 200)
    state_of = jax.jit(jax.vmap(functools.partial(numbering.state_of, game), (0, 0, None)))
    states = state_of(mine[some], theirs[some], player)
    assert (np.asarray(states.current_player) == player).all()
    again = jax.jit(jax.vmap(lambda x: numbering.rank(ranking, *numbering.pieces_of(game, x))))(states)
    np.testing.assert_array_equal(again[0], rank[some])
    np.testing.assert_array_equal(again[1], column[some])


@pytest.mark.parametrize(
    "board, positions",
    [
        ((4, 3), 320_320),
        ((4, 4), 1_801_800),
        ((5, 3), 7_084_000),
        ((5, 4), 151_420_500),
        ((5, 6), 9_610_154_400),
        ((6, 3), 77_911_680),
        ((7, 2), 2_542_512),
        ((7, 3), 559_352_640),
    ],
)
def test_there_are_as_many_positions_as_known(board, positions):
    assert 2 * numbering.ranking_of(ChineseCheckers(*board)).positions == positions


def test_random_states_have_all_pieces_and_both_players_to_move():
    game = ChineseCheckers(4, 3)
    states = numbering.random_states(game, jax.random.key(1), 500)
    boards = np.asarray(jax.jit(jax.vmap(game.board))(states))
    assert (np.sum(boards == 1, 1) == 3).all() and (np.sum(boards == 2, 1) == 3).all()
    assert len(np.unique(boards, axis=0)) > 490  # of 160160: 500 draws have less than one pair in common
    assert 200 < np.asarray(states.current_player).sum() < 300


@pytest.mark.parametrize("board", by_length(ALL_MOVES))
def test_the_counts_of_a_solved_board_are_the_known_ones(board):
    wins, losses, draws, illegal, terminal, distance, first_moves = ALL_MOVES[board]
    solver = solver_of(*board)
    counts = solver.counts()
    assert counts[:5] == (wins + losses + draws + illegal, wins, losses, draws, illegal)
    assert counts.loss_distances[0] == terminal  # nobody is ever stuck on these boards
    start = start_of(solver.game)
    solution = solver.solve(start)
    assert solution.value == 1 and solution.optimal.sum() == first_moves
    assert solver.distance(start) == distance


@pytest.mark.parametrize("board", by_length(FORWARD))
def test_the_counts_of_a_forward_only_board_are_the_known_ones(board):
    wins, losses, draws, distance, stuck = FORWARD[board]
    solver = solver_of(*board, forward_only=True, stuck_loses=True)
    counts = solver.counts()
    assert (counts.wins, counts.losses, counts.draws) == (wins, losses, draws)
    assert solver.table.found[0] == stuck
    assert solver.distance(start_of(solver.game)) == distance


@pytest.mark.parametrize("board", [(3, 1), (3, 3), (4, 3)])
def test_the_illegal_positions_are_as_many_as_the_closed_form_says(board):
    # j of my pieces are in the goal, and theirs fill it up; with six pieces there are closed tips besides.
    size, k = board
    cells = size**2
    closed_form = sum(
        math.comb(k, j) * math.comb(cells - k, k - j) * math.comb(cells - 2 * k + j, j)
        for j in range(1, k + 1)
    )
    assert solver_of(*board).counts().illegal == closed_form


def test_the_distances_of_the_small_game_are_distributed_as_known():
    counts = solver_of(4, 3).counts()
    assert counts.win_distances == dict(zip(range(1, 22, 2), WIN_DISTANCES))
    assert counts.loss_distances == dict(zip(range(0, 23, 2), LOSS_DISTANCES))


def test_the_distance_table_agrees_with_the_counts():
    _, distances = all_codes(4, 3)
    histogram = np.bincount(distances, minlength=256)
    assert histogram[1:23:2].tolist() == WIN_DISTANCES and histogram[0:24:2].tolist() == LOSS_DISTANCES
    assert histogram[NO_DISTANCE] == 5434 and histogram.sum() == 160160


def test_the_first_moves_of_the_small_game_are_classified_as_known():
    solver = solver_of(4, 3)
    start = start_of(solver.game)
    winning = {(0, 3), (0, 5), (1, 4), (2, 4)}
    assert moves_of(solver.game, solver.optimal_actions(start)[0]) == winning
    assert moves_of(solver.game, solver.best_actions(start)[0]) == winning  # each leads to a loss in 20
    after = batched(
        *(
            solver.game.step(solver.game.init(None), solver.game.text_to_action(f"{a}-{b}"))
            for a, b in winning
        )
    )
    assert solver.distance(after).tolist() == [20] * 4
    assert solver_of(4, 3, True, True).distance(after).tolist() == [18] * 4  # by forward moves alone


def test_forward_only_and_free_values_differ_as_known():
    loss, win = 1, 2
    free, forward = all_codes(4, 3)[0], all_codes(4, 3, True, True)[0]
    assert np.sum((free == loss) & (forward == win)) == 589  # both numbers by the other program
    assert np.sum((free == win) & (forward == loss)) == 528


@pytest.mark.slow
@pytest.mark.parametrize(
    "forward_only, moves, decisions, without", [(False, 1_592_518, 79_735, 0), (True, 1_013_610, 58_675, 52)]
)
def test_the_moves_of_the_small_game_are_as_many_as_known(forward_only, moves, decisions, without):
    # All moves, or forward ones, judged by the game with all moves, as Karki 2024 does: the won positions in which
    # some moves win and some do not, and those in which none does. The other program counts 53 of the last, for
    # it includes the one position that has no forward move, in which we allow any. It finds 10.6658 moves and
    # 6.7885 forward ones on average in 149,311 positions, without the moves of that one.
    solver = CheckersSolver(ChineseCheckers(4, 3, forward_only), False, solver_of(4, 3).table)
    ranking, rank, _, mine, theirs = unrank_all(4, 3)
    # Of mirror images, which have mirrored moves (see below), one is asked and counted twice.
    times = np.zeros(ranking.ranks, int)
    times[ranking.stored] = ranking.weight
    times = times[rank]
    assert times.sum() == len(rank)
    mine, theirs, times = np.asarray(mine)[times > 0], np.asarray(theirs)[times > 0], times[times > 0]
    state_of = jax.jit(jax.vmap(functools.partial(numbering.state_of, solver.game), (0, 0, None)))
    states = state_of(mine, theirs, 0)
    answer = solver.solve(states)
    mask_all = jax.jit(lambda x: jax.lax.map(solver.game.legal_action_mask, x, batch_size=1024))
    legal = (np.asarray(mask_all(states)) & answer.proven[:, None]).sum(axis=1)
    optimal, won = answer.optimal.sum(axis=1), answer.value == 1
    assert legal @ times == moves
    assert (won & (optimal > 0) & (optimal < legal)) @ times == decisions
    # Where none wins, the best of the others are optimal: the opponent has not lost after them.
    after = jax.jit(jax.vmap(solver.game.step))(states, answer.optimal.argmax(axis=1).astype(np.int32))
    assert (won & (np.asarray(solver.value(after)) != -1)) @ times == without


@functools.cache
def brute_force(size, pieces, forward_only):
    """Values and distances of all legal positions, by plain iteration over the reference engine's moves."""
    rules = Rules(size, pieces, forward_only)
    _, _, _, mine, theirs = unrank_all(size, pieces)
    cells = [y * size + x for x, y in rules.place]  # the reference numbers cells by rows of the diamond
    letters = np.array([".", "a", "b"])[np.asarray(mine)[:, cells] + 2 * np.asarray(theirs)[:, cells]]
    boards = [tuple(row) for row in letters.tolist()]
    turned = {"a": "b", "b": "a", ".": "."}

    def opposite(board):
        return tuple(turned[piece] for piece in reversed(board))

    children, result = {}, {}
    for board in boards:
        if rules.is_illegal(board, "a"):
            continue
        won = rules.has_won(board, "b")
        moves = [] if won else rules.legal_moves(board, "a")
        children[board] = [opposite(rules.moved(board, *move)) for move in moves]
        if not moves:
            result[board] = (-1, 0)
    for layer in range(1, 100):
        found = {}
        for board, nexts in children.items():
            if board in result:
                continue
            values = [result.get(child, (0, 0))[0] for child in nexts]
            if layer % 2 and -1 in values:
                found[board] = (1, layer)
            elif layer % 2 == 0 and all(value == 1 for value in values):
                found[board] = (-1, layer)
        result |= found
        if not found:
            break
    return [(None if board not in children else result.get(board, (0, -1))) for board in boards]


@pytest.mark.parametrize("forward_only", [False, True])
def test_every_value_and_distance_on_3x3_is_that_of_brute_force(forward_only):
    solver = solver_of(3, 3, forward_only)
    _, _, _, mine, theirs = unrank_all(3, 3)
    expected = brute_force(3, 3, forward_only)
    legal = np.array([answer is not None for answer in expected])
    state_of = jax.jit(jax.vmap(functools.partial(numbering.state_of, solver.game), (0, 0, None)))
    states = state_of(mine, theirs, 1)
    answer = solver.solve(states)
    np.testing.assert_array_equal(answer.proven, legal)
    assert np.isnan(answer.value[~legal]).all() and not answer.optimal[~legal].any()
    assert answer.value[legal].tolist() == [answer[0] for answer in expected if answer]
    assert solver.distance(states)[legal].tolist() == [answer[1] for answer in expected if answer]


@pytest.mark.parametrize("forward_only", [False, True])
def test_values_follow_from_the_values_after_each_move(forward_only):
    # All moves are the game's own, stepped by the game: the solver's move generator has no part in it.
    solver = solver_of(4, 3, forward_only)
    game = solver.game
    states = numbering.random_states(game, jax.random.key(2), 512)
    own = solver.value(states)
    legal = np.asarray(jax.jit(jax.vmap(game.legal_action_mask))(states))
    which, actions = np.nonzero(legal & ~np.isnan(own)[:, None])
    parents = jax.tree.map(lambda leaf: leaf[which], states._replace(history=None))
    free_of_history = dataclasses.replace(game, repetitions=None)
    after = solver.value(jax.jit(jax.vmap(free_of_history.step))(parents, actions))
    assert not np.isnan(after).any()  # nobody moves into an illegal position
    best = np.full(len(own), -1.0)
    np.maximum.at(best, which, -after)
    has_moves = np.isin(np.arange(len(own)), which)
    np.testing.assert_array_equal(own[has_moves], best[has_moves])
    keeps = np.zeros_like(legal)
    keeps[which, actions] = -after == own[which]
    np.testing.assert_array_equal(solver.optimal_actions(states), keeps)


def test_positions_without_moves_are_lost_in_no_plies():
    solver = solver_of(4, 3)
    states = numbering.random_states(solver.game, jax.random.key(3), 1024)
    over = np.asarray(jax.vmap(solver.game.is_terminal)(states)) & ~np.isnan(solver.value(states))
    assert over.sum() > 20
    assert (solver.value(states)[over] == -1).all() and (solver.distance(states)[over] == 0).all()
    assert not solver.optimal_actions(states)[over].any()


def test_a_mirrored_position_has_the_same_value_and_mirrored_moves():
    solver = solver_of(4, 3)
    game = solver.game
    cells = game.image_index
    mirror = np.argsort(cells)[np.arange(16).reshape(4, 4).T.ravel()[cells]]
    states = numbering.random_states(game, jax.random.key(4), 400)
    boards = jax.jit(jax.vmap(game.board))(states)
    images = jax.jit(jax.vmap(game.from_board))(boards[:, mirror], states.current_player)
    np.testing.assert_array_equal(solver.value(images), solver.value(states))
    np.testing.assert_array_equal(solver.distance(images), solver.distance(states))
    permuted = solver.best_actions(states)[:, game.symmetries.action[1]]
    np.testing.assert_array_equal(solver.best_actions(images), permuted)


def test_a_turned_position_with_swapped_players_has_the_same_value():
    solver = solver_of(4, 3)
    game = solver.game
    states = numbering.random_states(game, jax.random.key(5), 400)
    boards = np.asarray(jax.jit(jax.vmap(game.board))(states))[:, ::-1]
    twins = jax.jit(jax.vmap(game.from_board))(
        jnp.asarray(np.array([0, 2, 1])[boards]), 1 - states.current_player
    )
    np.testing.assert_array_equal(solver.value(twins), solver.value(states))
    np.testing.assert_array_equal(
        solver.best_actions(twins)[:, game.action_frames[1]], solver.best_actions(states)
    )


@pytest.mark.parametrize("forward_only", [False, True])
def test_best_play_ends_after_exactly_the_distance(forward_only):
    solver = solver_of(4, 3, forward_only)
    game = dataclasses.replace(solver.game, repetitions=None, max_plies=200)
    states = start_of(game)
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, 8, axis=0), states)
    step = jax.jit(jax.vmap(game.step))
    for left in range(int(solver.distance(states)[0]), 0, -1):
        assert (solver.distance(states) == left).all()
        assert not np.asarray(jax.vmap(game.is_terminal)(states)).any()
        states = step(states, random_action(jax.random.key(left), jnp.asarray(solver.best_actions(states))))
    assert (np.asarray(states.outcome) == 1).all()  # the first player has won


def test_a_random_game_changes_value_only_by_moves_that_are_not_optimal():
    solver = solver_of(4, 3, True)
    game = solver.game
    step, mask = jax.jit(jax.vmap(game.step)), jax.jit(jax.vmap(game.legal_action_mask))
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, 32, axis=0), start_of(game))
    mistakes = 0
    for ply in range(30):
        running = ~np.asarray(jax.vmap(game.is_terminal)(states))
        before, optimal = solver.value(states), solver.optimal_actions(states)
        assert optimal[running].any(axis=1).all() and not (optimal & ~np.asarray(mask(states))).any()
        action = random_action(jax.random.key(ply), mask(states))
        states = step(states, action)
        kept = optimal[np.arange(32), np.asarray(action)]
        np.testing.assert_array_equal((solver.value(states) == -before)[running], kept[running])
        mistakes += np.sum(~kept & running)
    assert mistakes > 50


def test_a_game_that_is_drawn_by_the_rules_is_a_draw():
    game = ChineseCheckers(4, 3, forward_only=False, max_plies=1)
    solver = CheckersSolver(game, False, solver_of(4, 3).table)
    drawn = batched(jax.jit(game.step)(game.init(None), game.text_to_action("0-3")))
    assert game.is_terminal(jax.tree.map(lambda leaf: leaf[0], drawn))
    assert (
        solver.value(drawn) == 0 and not solver.optimal_actions(drawn).any() and solver.distance(drawn) == -1
    )


def test_no_positions_get_no_answers():
    solver = solver_of(3, 3)
    none = jax.tree.map(lambda leaf: leaf[:0], start_of(solver.game))
    assert solver.value(none).shape == (0,) and solver.optimal_actions(none).shape == (
        0,
        solver.game.num_actions,
    )
    assert solver.distance(none).shape == (0,)


def test_look_ups_can_be_compiled_into_other_programs():
    solver = solver_of(4, 3)
    game = solver.game

    @jax.jit
    def codes(table, x):
        return codes_at(table, *locate_state(game, x)), codes_at(table, *locate_children(game, x))

    own, children = codes(solver.codes, game.init(jax.random.key(0)))
    start = start_of(game)
    legal = np.asarray(game.legal_action_mask(game.init(jax.random.key(0))))
    assert own == 2  # a win
    np.testing.assert_array_equal((np.asarray(children) == 1) & legal, solver.optimal_actions(start)[0])


class Stopped(Exception):
    pass


def same_table(one, other):
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.distances, other.distances)
    assert (one.found, one.terminal, one.illegal) == (other.found, other.terminal, other.illegal)
    return True


@pytest.mark.parametrize("calls", [1, 9, 24])
def test_interrupted_work_goes_on_to_the_same_table(tmp_path, calls):
    path, made = tmp_path / "table.npz", 0

    def interrupt(done, total):
        nonlocal made
        made += 1
        if made == calls:
            raise Stopped

    game = ChineseCheckers(4, 3, forward_only=False)
    with pytest.raises(Stopped):
        make_solver(game, path=path, save_every=0, progress=interrupt)
    assert path.exists() == (calls > 2)  # the first call reports the first table, the second one pass 0
    resumed = make_solver(game, path=path, save_every=0)
    assert same_table(resumed.table, solver_of(4, 3).table)
    assert resumed.table.cpu_seconds > 0
    assert load_solver(path, game).table.cpu_seconds == resumed.table.cpu_seconds


def test_an_unfinished_file_is_continued_not_begun_again(tmp_path):
    path = tmp_path / "table.npz"
    reports = []

    def interrupt(done, total):
        reports.append(done)
        if len(reports) == 12:
            raise Stopped

    game = ChineseCheckers(4, 3, forward_only=False)
    with pytest.raises(Stopped):
        make_solver(game, path=path, save_every=0, progress=interrupt)
    again = []
    make_solver(game, path=path, progress=lambda done, total: again.append(done))
    assert again[0] == reports[-1]  # the pass that was interrupted is the first one


def test_progress_never_goes_back_and_ends_at_the_end():
    reports = []
    make_solver(ChineseCheckers(3, 3, False), progress=lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports) and {total for _, total in reports} == {1680} and reports[-1][0] == 1680


def test_a_saved_table_is_loaded_as_it_was(tmp_path):
    solver = solver_of(4, 3)
    solver.save(tmp_path / "table.npz")
    loaded = load_solver(tmp_path / "table.npz")
    assert same_table(loaded.table, solver.table) and loaded.counts() == solver.counts()
    assert (loaded.game.size, loaded.game.pieces, loaded.game.forward_only) == (4, 3, False)


@pytest.mark.parametrize(
    "other, difference",
    [
        (ChineseCheckers(4, 2, False), "pieces is 3, not 2"),
        (ChineseCheckers(3, 3, False), "size is 4, not 3"),
        (ChineseCheckers(4, 3, True), "forward_only is False, not True"),
    ],
)
def test_a_file_about_another_game_is_refused(tmp_path, other, difference):
    solver_of(4, 3).save(tmp_path / "table.npz")
    with pytest.raises(ValueError, match=difference):
        load_solver(tmp_path / "table.npz", other)
    with pytest.raises(ValueError, match=difference):
        make_solver(other, path=tmp_path / "table.npz")


@pytest.mark.parametrize("damage", ["shortened", "changed", "text", "empty"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "table.npz"
    solver_of(4, 3).save(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "shortened": whole[:middle],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "text": b"not a table",
            "empty": b"",
        }[damage]
    )
    with pytest.raises(ValueError, match="damaged"):
        load_solver(path)


def test_a_file_of_other_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "table.npz", weights=np.zeros(3))
    with pytest.raises(ValueError, match="damaged or no"):
        load_solver(tmp_path / "table.npz")


def test_an_unfinished_file_is_not_loaded_as_a_solution(tmp_path):
    def interrupt(done, total):
        if done > 1000:
            raise Stopped

    with pytest.raises(Stopped):
        make_solver(ChineseCheckers(3, 3, False), path=tmp_path / "t.npz", save_every=0, progress=interrupt)
    with pytest.raises(ValueError, match="not finished"):
        load_solver(tmp_path / "t.npz")


def test_without_distances_the_values_are_the_same_and_distances_are_refused():
    bare = make_solver(ChineseCheckers(3, 3, False), distances=False)
    np.testing.assert_array_equal(bare.table.codes, solver_of(3, 3).table.codes)
    with pytest.raises(ValueError, match="distances=True"):
        bare.distance(start_of(bare.game))


def test_two_devices_make_the_same_table_as_one(tmp_path):
    program = (
        "import jax\n"
        "from azjax.envs.chinese_checkers import ChineseCheckers\n"
        "from azjax.solvers.checkers.solver import make_solver\n"
        "assert len(jax.devices()) == 2\n"
        f"make_solver(ChineseCheckers(4, 3, False)).save({str(tmp_path / 'table.npz')!r})\n"
    )
    subprocess.run([sys.executable, "-c", program], env=processes.environment(devices=2), check=True)
    assert same_table(load_solver(tmp_path / "table.npz").table, solver_of(4, 3).table)


@pytest.mark.parametrize("board", [(6, 6), (9, 10)])
def test_a_board_that_does_not_fit_is_refused_with_an_estimate(board):
    with pytest.raises(TooLargeError, match=r"would take about .* GB and .* hours"):
        make_solver(ChineseCheckers(*board))


def test_the_thesis_large_game_fits_into_six_gigabytes_but_takes_longer_than_a_quarter_of_an_hour():
    bytes_, seconds = estimate(ChineseCheckers(5, 6))
    assert 2.4e9 < bytes_ < 6e9 and seconds > 900
    with pytest.raises(TooLargeError, match="path"):
        make_solver(ChineseCheckers(5, 6))
