"""The player after Hexy, against the solver, against published Hex lore, and in play."""

import jax
import numpy as np
import pytest

from azjax.agents import AgentError, hexy, make_agent
from azjax.envs import Hex
from azjax.evaluation.arena import make_match
from azjax.solvers.hex import connections
from azjax.solvers.hex.connections import FULL
from azjax.solvers.hex.search import LOSS, WIN, Limits, Position, Searcher

NO_LIMITS = Limits()


@pytest.fixture(scope="module")
def solver():
    return Searcher(4)


def position_of(board: np.ndarray, player: int) -> Position:
    black, white = (sum(1 << int(cell) for cell in np.flatnonzero(board == sign)) for sign in (1, -1))
    return Position(black, white, player)


def random_boards(size: int, count: int, seed: int = 0):
    """Positions with as many stones of each player, nobody's sides joined, the first player to move."""
    rng = np.random.default_rng(seed)
    reference = connections.neighbour_cells(size)
    while count:
        stones = rng.integers(1, size * size // 3)
        cells = rng.permutation(size * size)[: 2 * stones]
        board = np.zeros(size * size, int)
        board[cells[::2]], board[cells[1::2]] = 1, -1
        if not any(is_joined(board, reference, size, player) for player in range(2)):
            count -= 1
            yield board


def is_joined(board, neighbours, size, player) -> bool:
    """Whether a player's stones join the sides, by flood fill."""
    own = board == 1 - 2 * player
    line = np.arange(size * size) // size if player == 0 else np.arange(size * size) % size
    reached = own & (line == 0)
    while True:
        beside = (reached[neighbours] & (neighbours >= 0)).any(axis=1)
        grown = reached | (own & beside)
        if (grown == reached).all():
            return bool((reached & (line == size - 1)).any())
        reached = grown


def test_what_it_says_is_decided_the_solver_proves(solver):
    searcher, decided = hexy.Searcher(4), 0
    for board in random_boards(4, 150):
        answer = searcher.search(board, 0)
        assert board[answer.move] == 0
        if abs(answer.value) > 900:
            decided += 1
            proof = solver.prove(position_of(board, 0), NO_LIMITS)
            # A loss is only what its width has seen: here it has seen every move.
            assert proof.result == (WIN if answer.value > 0 else LOSS), board.reshape(4, 4)
    assert decided > 100  # or the test would say little


def test_a_won_position_stays_won_whoever_is_to_move(solver):
    searcher, kept = hexy.Searcher(4), 0
    for board in random_boards(4, 60, seed=1):
        for player in range(2):
            if solver.prove(position_of(board, player), NO_LIMITS).result != WIN:
                continue
            after = board.copy()
            after[searcher.search(board, player).move] = 1 - 2 * player
            if is_joined(after, connections.neighbour_cells(4), 4, player):
                kept += 1
                continue
            assert solver.prove(position_of(after, 1 - player), NO_LIMITS).result == LOSS
            kept += 1
    assert kept > 40


def test_of_some_cells_it_only_finds_connections_that_the_whole_board_has(solver):
    work = np.zeros(1, hexy._RECORD)[0]
    rng, found = np.random.default_rng(2), 0
    for board in random_boards(4, 200, seed=3):
        own, empty = np.flatnonzero(board == 1), np.flatnonzero(board == 0)
        chosen = np.concatenate([own, rng.permutation(empty)[2:]])
        connections.prepare(work, 4, chosen)
        connections.connect(work, 0, 0, np.uint64(2 ** len(own) - 1), np.uint64(0))
        if connections.joined(work, 0, FULL):
            found += 1
            assert solver.prove(position_of(board, 1), NO_LIMITS).result == LOSS
    assert found > 5  # of 200 boards, else the sample shows little


def test_an_intrusion_into_a_two_bridge_is_answered():
    # Jacobsen 2019, figure 2.2: a chain of two-bridges joins the sides; the owner answers in the other cell.
    size = 9
    board = np.zeros(size * size, int)
    chain = [(0, 5), (2, 4), (4, 3), (6, 2), (8, 1)]
    for row, column in chain:
        board[row * size + column] = 1
    searcher = hexy.Searcher(size)
    for row, column in chain[:-1]:
        for intruded, other in (((1, column), (1, column - 1)), ((1, column - 1), (1, column))):
            after = board.copy()
            after[(row + intruded[0]) * size + intruded[1]] = -1
            answer = searcher.search(after, 0)
            assert answer.move == (row + other[0]) * size + other[1] and answer.value > 900


def test_on_an_empty_board_it_opens_in_the_middle():
    move = hexy.Searcher(9).search(np.zeros(81, int), 0, 1).move
    assert 2 <= move // 9 <= 6 and 2 <= move % 9 <= 6


def test_no_time_still_gives_a_move_one_ply_deep():
    answer = hexy.Searcher(9).search(np.zeros(81, int), 0, 3, 6, seconds=0.0)
    assert answer.depth == 1 and np.isfinite(answer.value)


def test_it_wins_against_random_moves_from_both_sides():
    game = Hex(size=5)
    match = make_match(game, make_agent("hexy?depth=1", game), make_agent("random", game), pairs=5)
    result = match(None, None, jax.random.key(0))
    assert result.score == 1 and result.forfeits == 0


@pytest.mark.parametrize(
    "text, size, wrong", [("hexy", 14, "up to 13x13"), ("hexy?depth=11", 9, "at most 10 moves")]
)
def test_what_it_cannot_play_it_says(text, size, wrong):
    with pytest.raises(AgentError, match=wrong):
        make_agent(text, Hex(size=size))
