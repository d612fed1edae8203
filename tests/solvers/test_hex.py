"""The exact solver of Hex against brute force, published openings, and itself: tables and search, symmetries."""

import functools
import itertools
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.envs.hex import Hex
from azjax.solvers.core import TooLargeError
from azjax.solvers.hex import inferior as hex_inferior
from azjax.solvers.hex import search as hex_search
from azjax.solvers.hex import tables as hex_tables
from azjax.solvers.hex.connections import neighbour_cells
from azjax.solvers.hex.search import LOSS, UNKNOWN, WIN, Limits, Position
from azjax.solvers.hex.solver import estimate, make_solver
from tests import processes
from tests.reference import exhaustive

NO_LIMIT = Limits()

# Winning first moves of Black. 1 to 4 are known from full enumerations, 5 and 6 from independent solvers.
OPENINGS = {
    1: "a1",
    2: "b1 a2",
    3: "c1 a2 b2 c2 a3",
    4: "d1 c2 b3 a4",
    5: "e1 b2 c2 d2 e2 b3 c3 d3 a4 b4 c4 d4 a5",
    6: "f1 b2 c2 d2 e2 f2 a3 b3 c3 d3 e3 f3 a4 b4 c4 d4 e4 f4 a5 b5 c5 d5 e5 a6",
}


@functools.cache
def solver_of(size, swap=False):
    return make_solver(Hex(size, swap))


@functools.cache
def searcher_of(size):
    return hex_search.Searcher(size)


def position_after(game, moves=""):
    x = game.init(jax.random.key(0))
    for move in moves.split():
        x = game.step(x, game.text_to_action(move, x))
    return x


def stacked(states):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def moves_with(game, result, moves):
    return {game.action_to_text(action) for action in np.flatnonzero(moves.result == result)}


def joined(stones, size, player):
    """Whether a set of cells holds a chain between the two sides of the player, by flood fill."""
    line = (lambda cell: cell // size) if player == 0 else (lambda cell: cell % size)
    cells = {cell for cell in range(size * size) if stones >> cell & 1}
    front = {cell for cell in cells if line(cell) == 0}
    seen = set(front)
    while front:
        row, column = divmod(front.pop(), size)
        for down, right in ((0, 1), (1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1)):
            cell = (row + down) * size + column + right
            if 0 <= column + right < size and cell in cells - seen:
                seen.add(cell)
                front.add(cell)
    return any(line(cell) == size - 1 for cell in seen)


def random_positions(size, stones, count, seed):
    """Unfinished positions of so many stones (from, to), put down at random."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        cells = rng.permutation(size * size)[: rng.integers(*stones, endpoint=True)]
        black, white = (sum(1 << int(cell) for cell in cells[colour::2]) for colour in (0, 1))
        if not joined(black, size, 0) and not joined(white, size, 1):
            found.append(Position(black, white, len(cells) % 2))
    return found


def as_states(size, positions):
    """The positions as the game's states, read from their notation."""
    game = Hex(size)
    states = []
    for black, white, player in positions:
        letters = ["b" if black >> cell & 1 else "w" if white >> cell & 1 else "." for cell in range(size**2)]
        rows = "/".join("".join(letters[first : first + size]) for first in range(0, size**2, size))
        board = re.sub(r"\.+", lambda run: str(len(run.group())), rows)
        states.append(game.from_notation(f"{board} {'bw'[player]}"))
    return stacked(states)


def results(searcher, position):
    return searcher.classify(position, NO_LIMIT).result


@pytest.mark.parametrize(("size", "positions", "black_wins"), [(3, 5514, 3410), (4, 9386235, 5327831)])
def test_the_table_holds_every_reachable_position_and_its_winner(size, positions, black_wins):
    # The counts are those of an independent enumeration of all games.
    table = np.asarray(solver_of(size)._solved_table())
    layers = np.split(table, hex_tables.layer_offsets(size)[1:-1])
    assert np.count_nonzero(table) == positions
    assert (
        sum(np.count_nonzero(np.sign(layer) == (1, -1)[i % 2]) for i, layer in enumerate(layers))
        == black_wins
    )


def test_the_table_has_the_right_number_of_positions_in_every_layer_of_4x4():
    table = np.asarray(solver_of(4)._solved_table())
    layers = np.split(table, hex_tables.layer_offsets(4)[1:-1])
    assert [np.count_nonzero(layer) for layer in layers] == [
        *(1, 16, 240, 1680, 10920, 43680, 160160, 400400, 891000, 1425600, 1912680, 1912680, 1438500, 822000),
        *(288720, 71596, 6362),
    ]


@pytest.mark.parametrize(("size", "swap"), [(1, False), (2, False), (3, False), (1, True), (3, True)])
def test_values_and_optimal_moves_are_those_of_brute_force(size, swap):
    game = Hex(size, swap)
    truth = exhaustive.solve(game, stacked([game.init(jax.random.key(0))]))
    solution = solver_of(size, swap).solve(jax.tree.map(jnp.asarray, truth.states))
    np.testing.assert_array_equal(solution.value, truth.values)
    np.testing.assert_array_equal(solution.optimal, truth.action_values == truth.values[:, None])
    assert np.all(solution.proven)
    assert not np.any(solution.nodes)


def test_of_a_position_and_its_half_turn_one_is_searched_and_both_are_answered(monkeypatch):
    searched = []
    classify = hex_search.Searcher.classify

    def counted(self, position, *rest, **options):
        searched.append(position)
        return classify(self, position, *rest, **options)

    monkeypatch.setattr(hex_search.Searcher, "classify", counted)
    positions = random_positions(5, (5, 9), 4, seed=0)
    turned = [
        Position(*(hex_search.half_turn(stones, 25) for stones in position[:2]), position.player)
        for position in positions
    ]
    with make_solver(Hex(5)) as solver:
        together = solver.solve(as_states(5, [*positions, *turned]))
        assert len(searched) == 4
        solver.solve(as_states(5, [turned[0]]))
        assert len(searched) == 4
    for number, position in enumerate([*positions, *turned]):
        with make_solver(Hex(5)) as solver:
            alone = solver.solve(as_states(5, [position]))
        assert alone.proven[0] and together.proven[number]
        assert alone.value[0] == together.value[number]
        np.testing.assert_array_equal(alone.optimal[0], together.optimal[number])


def test_a_look_up_tells_the_optimal_moves_of_lost_positions_too():
    game = Hex(3)
    truth = exhaustive.solve(game, stacked([game.init(jax.random.key(0))]))
    x = jax.tree.map(jnp.asarray, truth.states)
    table = solver_of(3)._solved_table()
    answer = hex_tables.look_up(3, table, jnp.sign(x.board), x.current_player, x.over)
    np.testing.assert_array_equal(answer.value, truth.values)
    np.testing.assert_array_equal(answer.optimal, truth.action_values == truth.values[:, None])


def test_two_devices_solve_the_same_table():
    program = """
import jax, numpy as np
from azjax.solvers.hex import tables as hex_tables
assert jax.device_count() == 2
print(hex_tables.solve_tables(3).tobytes().hex())
"""
    environment = processes.environment(devices=2)
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    table = np.frombuffer(bytes.fromhex(run.stdout.strip()), np.int8)
    np.testing.assert_array_equal(table, np.asarray(solver_of(3)._solved_table()))


def test_search_finds_the_moves_of_the_table_on_4x4():
    positions = random_positions(4, (0, 13), 500, seed=1)
    answer = solver_of(4).solve(as_states(4, positions))
    found = np.stack([results(searcher_of(4), position) for position in positions])
    empty = np.array([[not (p.black | p.white) >> cell & 1 for cell in range(16)] for p in positions])
    wins = answer.optimal & (answer.value == 1)[:, None]
    np.testing.assert_array_equal(found, np.where(wins, WIN, np.where(empty, LOSS, UNKNOWN)))


def test_search_finds_the_winner_of_the_table_on_4x4():
    positions = random_positions(4, (0, 13), 500, seed=2)
    fresh = hex_search.Searcher(4)
    found = [fresh.prove(position, NO_LIMIT).result for position in positions]
    np.testing.assert_array_equal(found, solver_of(4).value(as_states(4, positions)))


def test_the_winner_needs_no_cell_outside_the_carrier_of_the_proof():
    checked = 0
    for position in random_positions(4, (2, 9), 300, seed=3):
        proof = searcher_of(4).prove(position, NO_LIMIT)
        if proof.carrier.bit_count() > 8:
            continue  # too many for brute force
        winner = position.player if proof.result == WIN else 1 - position.player
        stones = [position.black, position.white]
        stones[1 - winner] |= 0xFFFF & ~(position.black | position.white | proof.carrier)
        assert wins_by_brute_force(tuple(stones), position.player, 4) == (winner == position.player)
        checked += 1
    assert checked > 200


def wins_by_brute_force(stones, player, size):
    """Whether the player to move wins, on any board of black and white stones."""
    return _wins(*stones, player, size)


@functools.cache
def _wins(black, white, player, size):
    for owner, own in ((0, black), (1, white)):
        if joined(own, size, owner):
            return owner == player
    return bool(winning_cells(black, white, player, size))


def winning_cells(black, white, player, size):
    """The moves that win, as a set of cells."""
    found = 0
    for cell in range(size * size):
        if not (black | white) >> cell & 1:
            after = (black | 1 << cell, white) if player == 0 else (black, white | 1 << cell)
            found |= (not _wins(*after, 1 - player, size)) << cell
    return found


def boards_of_3x3():
    """All black and white stones on 3x3 that join nothing, in whatever numbers."""
    for colours in itertools.product((0, 1, 2), repeat=9):
        black, white = (sum(1 << cell for cell in range(9) if colours[cell] == c) for c in (1, 2))
        if not joined(black, 3, 0) and not joined(white, 3, 1):
            yield black, white


def test_every_3x3_board_is_proven_with_a_carrier_that_suffices():
    searcher = searcher_of(3)  # one for all, so that most of them are met again in its table
    for black, white in boards_of_3x3():
        for player in (0, 1):
            proof = searcher.prove(Position(black, white, player), NO_LIMIT)
            winner = player if proof.result == WIN else 1 - player
            assert wins_by_brute_force((black, white), player, 3) == (winner == player)
            stones = [black, white]
            stones[1 - winner] |= 0x1FF & ~(black | white | proof.carrier)
            assert wins_by_brute_force(tuple(stones), player, 3) == (winner == player)


def test_filling_in_changes_no_winner_of_any_3x3_board():
    work, filled = searcher_of(3)._work, 0
    for black, white in boards_of_3x3():
        after = tuple(map(int, hex_inferior.fill_in(work, np.uint64(black), np.uint64(white))[:2]))
        filled += after != (black, white)
        for player in (0, 1):
            assert wins_by_brute_force(after, player, 3) == wins_by_brute_force((black, white), player, 3)
    assert filled > 1000


def test_who_captures_a_pair_is_found_by_laying_the_stones():
    work, rng, neighbours = searcher_of(4)._work, np.random.default_rng(7), neighbour_cells(4)
    captured = 0

    def is_dead(black, white, cell):
        around = hex_inferior._surroundings(work, np.uint64(black), np.uint64(white), cell)
        return bool(work["is_dead"][around])

    for _ in range(300):
        colours = rng.choice(3, 16, p=[0.5, 0.25, 0.25])
        black, white = (sum(1 << cell for cell in range(16) if colours[cell] == c) for c in (1, 2))
        for cell, place in zip(*np.nonzero(neighbours >= 0)):
            other = int(neighbours[cell, place])
            if colours[cell] or colours[other]:
                continue
            captor = -1
            for player in (1, 0):
                one, two = (
                    (bit if player == 0 else 0, bit if player == 1 else 0) for bit in (1 << cell, 1 << other)
                )
                after_other = is_dead(black | two[0], white | two[1], cell)
                if after_other and is_dead(black | one[0], white | one[1], other):
                    captor = player
            around = [
                hex_inferior._surroundings(work, np.uint64(black), np.uint64(white), c) for c in (cell, other)
            ]
            assert hex_inferior._captor(work, *around, place) == captor
            captured += captor >= 0
    assert captured > 100


def test_beyond_each_side_lie_stones_of_its_owner():
    # a1 is the first cell; Black's sides are above and below, White's to the left and right.
    owners = [
        {int(work >> 2 * place) & 3 for place in np.flatnonzero(neighbour_cells(4)[cell] < 0)}
        for cell, work in enumerate(searcher_of(4)._work["beyond"][:16])
    ]
    assert [owners[cell] for cell in (1, 2, 13, 14)] == [{1}] * 4
    assert [owners[cell] for cell in (4, 8, 7, 11)] == [{2}] * 4
    assert [owners[cell] for cell in (0, 3, 12, 15)] == [{1, 2}] * 4
    assert all(owners[cell] == set() for cell in (5, 6, 9, 10))


def test_of_the_winning_moves_on_any_3x3_board_one_is_not_dominated():
    work, struck_out = searcher_of(3)._work, 0
    for black, white in boards_of_3x3():
        empty = 0x1FF & ~(black | white)
        for player in (0, 1):
            stones = np.uint64(black), np.uint64(white)
            left = int(hex_inferior.undominated(work, *stones, player, np.uint64(empty)))
            struck_out += left != empty
            winning = winning_cells(black, white, player, 3)
            assert not winning or winning & left
    assert struck_out > 1000


def test_the_colour_of_a_dead_cell_never_matters():
    # All full 3x3 boards: the cell in the middle touches the six others that are not a1 and c3.
    ring = (5, 7, 6, 3, 1, 2)
    black_wins = np.array([joined(stones, 3, 0) for stones in range(512)])
    work = searcher_of(4)._work
    dead = 0
    for pattern in range(4**6):
        colours = [(pattern >> 2 * place) & 3 for place in range(6)]
        if 3 in colours or not work["is_dead"][pattern]:
            continue
        full = [
            s
            for s in range(512)
            if all(c == 0 or (s >> cell & 1) == (c == 1) for c, cell in zip(colours, ring))
        ]
        assert all(black_wins[stones] == black_wins[stones ^ (1 << 4)] for stones in full)
        dead += 1
    assert dead > 100


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_winning_openings_are_the_known_ones(size):
    game = Hex(size)
    moves = solver_of(size).winning_moves(position_after(game))
    assert moves_with(game, WIN, moves) == set(OPENINGS[size].split())
    assert moves_with(game, UNKNOWN, moves) == set()


@pytest.mark.parametrize(
    ("opening", "replies"),
    [("a2", "d3"), ("d1", "c2 d2 e2 c3 d3 c4 d4 d5 b6"), ("a1", "b2 d2 e2 c3 d3 c4 d5"), ("d6", "")],
)
def test_winning_replies_on_6x6_are_the_known_ones(opening, replies):
    # d6 is c1 turned round, whose replies are d2 e2 c3 d3 c4 d5.
    replies = replies or "c5 b5 d4 c4 d3 c2"
    game = Hex(6)
    moves = solver_of(6).winning_moves(position_after(game, opening))
    assert moves_with(game, WIN, moves) == set(replies.split())


def test_the_number_of_winning_replies_on_6x6_is_known():
    # By an independent solver: 72 replies to all first moves, and 213 and 225 third moves after a1 and b1.
    def winning_moves_after_one_more(black, white, player):
        empty = [cell for cell in range(36) if not (black | white) >> cell & 1]
        return sum(
            np.sum(results(searcher_of(6), Position(black, white, player).after(cell)) == WIN)
            for cell in empty
        )

    assert winning_moves_after_one_more(0, 0, 0) == 72
    assert winning_moves_after_one_more(1 << 0, 0, 1) == 213
    assert winning_moves_after_one_more(1 << 1, 0, 1) == 225


@pytest.mark.parametrize(("size", "counts"), [(3, (5, 4, 224)), (4, (4, 26, 1344))])
def test_the_number_of_winning_moves_after_every_one_and_two_stones_is_known(size, counts):
    # Sequences of moves whose last one wins for its mover, counted by an independent program.
    game = Hex(size)
    states = stacked([position_after(game)])
    step = jax.jit(jax.vmap(game.step))
    found = []
    for _ in counts:
        solution = solver_of(size).solve(states)
        found.append(int(np.sum(solution.optimal[solution.value == 1])))
        legal = np.asarray(jax.vmap(game.legal_action_mask)(states))
        source, action = np.nonzero(legal)
        states = step(jax.tree.map(lambda leaf, i=source: leaf[i], states), jnp.asarray(action))
    assert tuple(found) == counts


@pytest.mark.parametrize(("size", "stones"), [(5, (2, 10)), (6, (4, 16)), (7, (14, 26))])
def test_symmetric_positions_have_symmetric_moves(size, stones):
    cells = size * size
    transposed = np.arange(cells).reshape(size, size).T.ravel()
    for position in random_positions(size, stones, 4, seed=size):
        expected = results(searcher_of(size), position)
        turned = Position(*(mapped(own, range(cells)[::-1]) for own in position[:2]), position.player)
        np.testing.assert_array_equal(results(searcher_of(size), turned), expected[::-1])
        swapped = Position(*(mapped(own, transposed) for own in position[1::-1]), 1 - position.player)
        np.testing.assert_array_equal(results(searcher_of(size), swapped), expected[transposed])


def mapped(stones, target):
    return sum(1 << int(target[cell]) for cell in range(len(target)) if stones >> cell & 1)


@pytest.mark.parametrize(("size", "stones"), [(6, (4, 14)), (7, (14, 24)), (8, (24, 34))])
def test_a_won_position_has_a_move_to_a_lost_one_and_a_lost_one_has_none(size, stones):
    # The moves are classified with what the searcher learns along the way; each is proven again from nothing.
    for position in random_positions(size, stones, 3, seed=10 + size):
        found = results(searcher_of(size), position)
        winner = hex_search.Searcher(size).prove(position, NO_LIMIT).result
        assert winner == (WIN if np.any(found == WIN) else LOSS)
        for cell in np.flatnonzero(found)[::5]:
            again = hex_search.Searcher(size).prove(position.after(int(cell)), NO_LIMIT)
            assert again.result == -found[cell]


def test_beyond_a_limit_of_nodes_nothing_is_claimed():
    states = stacked([position_after(Hex(6)), position_after(Hex(6), "a1")])
    solution = make_solver(Hex(6), nodes=20).solve(states)
    assert np.all(np.isnan(solution.value))
    assert not np.any(solution.proven)
    assert not np.any(solution.optimal)
    assert np.all(solution.nodes <= 20 + 36)  # at most all moves of the last position are looked at beyond it


def test_beyond_a_limit_of_time_nothing_is_claimed():
    solver = make_solver(Hex(7), seconds=0.0)
    x = position_after(Hex(7))
    assert solver.winner(x) is None
    assert np.isnan(solver.value(stacked([x]))[0])
    assert not np.any(solver.winning_moves(x).result)


def test_what_a_limit_stopped_is_proven_when_there_is_more_time():
    x = position_after(Hex(6), "a1")
    limited = make_solver(Hex(6), nodes=5)
    assert limited.winner(x) is None
    assert solver_of(6).winner(x) == 1


@pytest.mark.parametrize("stones", [4, 10])
def test_with_limits_the_winner_comes_first_and_the_moves_are_the_same(stones):
    searcher, found = hex_search.Searcher(5), set()
    for position in random_positions(5, (stones, stones), 12, seed=stones):
        expected = searcher_of(5).classify(position, NO_LIMIT).result
        limited = searcher.classify(position, Limits(nodes=100_000)).result
        assert np.array_equal(limited, expected)
        searcher.forget()
        some = searcher.classify(position, Limits(nodes=100_000), any_win=True).result
        if WIN in expected:  # one move is enough
            assert WIN in some and np.all(expected[some == WIN] == WIN)
        else:
            assert np.array_equal(some, expected)
        proof = searcher.prove(position, NO_LIMIT)
        assert proof.move < 0 or expected[proof.move] == WIN
        found.add((proof.result, proof.move >= 0))
    assert {result for result, _ in found} == {WIN, LOSS}


def test_the_effort_of_a_move_does_not_depend_on_what_was_proven_before():
    game, solver = Hex(5), make_solver(Hex(5))
    x = position_after(game, "a1")
    wins = np.flatnonzero(solver.winning_moves(x).result == WIN).tolist()
    alone = [hex_search.Searcher(5).prove(Position(1, 1 << win, 0), NO_LIMIT).nodes for win in wins]
    assert solver.effort(x, wins) == solver.effort(x, wins) == alone
    assert max(alone) > 0
    assert solver_of(3).effort(position_after(Hex(3)), [4, 2]) == [0, 0]  # by the table


def test_winner_and_value_agree_with_the_moves():
    game = Hex(5)
    states = [position_after(game, moves) for moves in ("", "a1", "c3", "c3 b2", "a1 b4 e5 b2 a3")]
    solution = make_solver(game).solve(stacked(states))
    fresh = make_solver(game)
    np.testing.assert_array_equal(fresh.value(stacked(states)), solution.value)
    for x, value in zip(states, solution.value):
        player = int(x.current_player)
        assert fresh.winner(x) == (player if value > 0 else 1 - player)


@pytest.mark.parametrize("size", [3, 5])
def test_a_finished_game_is_lost_for_the_player_to_move_and_has_no_moves(size):
    game = Hex(size)
    moves = " ".join(f"a{row} b{row}" for row in range(1, size + 1)).rsplit(" ", 1)[0]
    solution = solver_of(size).solve(stacked([position_after(game, moves)]))
    assert solution.value[0] == -1
    assert solution.proven[0]
    assert not np.any(solution.optimal)


@pytest.mark.parametrize(("moves", "swap_wins"), [("c3", True), ("a1", False)])
def test_the_swap_wins_exactly_after_a_winning_opening(moves, swap_wins):
    game = Hex(5, swap=True)
    found = solver_of(5, swap=True).winning_moves(position_after(game, moves))
    assert found.result[game.text_to_action("swap-pieces")] == (WIN if swap_wins else LOSS)
    assert solver_of(5, swap=True).winner(position_after(game, moves)) == 1


def test_every_opening_loses_under_the_swap_rule():
    game = Hex(5, swap=True)
    solution = solver_of(5, swap=True).solve(stacked([position_after(game)]))
    assert solution.value[0] == -1
    assert np.array_equal(solution.optimal[0], np.arange(26) < 25)
    assert solver_of(5, swap=True).winner(position_after(game)) == 1


def test_a_position_after_a_swap_is_the_mirror_image_of_one_without():
    # Black's d1, swapped, is White's a4 with Black to move: as if Black had a4 transposed, d1, with White to move.
    with_swap, without = Hex(5, swap=True), Hex(5)
    swapped = solver_of(5, swap=True).winning_moves(position_after(with_swap, "d1 swap-pieces")).result[:25]
    plain = solver_of(5).winning_moves(position_after(without, "d1")).result
    np.testing.assert_array_equal(swapped, plain.reshape(5, 5).T.ravel())


@pytest.mark.parametrize("size", [3, 5])
def test_solutions_can_be_saved_and_loaded(tmp_path, size):
    game = Hex(size)
    x = stacked([position_after(game)])
    before = solver_of(size).solve(x)
    solver_of(size).save(tmp_path / "hex.npz")
    loaded = make_solver(game, nodes=0)
    loaded.load(tmp_path / "hex.npz")
    after = loaded.solve(x)
    np.testing.assert_array_equal(after.value, before.value)
    np.testing.assert_array_equal(after.optimal, before.optimal)
    np.testing.assert_array_equal(after.nodes, before.nodes)


def test_a_file_about_another_board_is_refused(tmp_path):
    solver_of(3).save(tmp_path / "hex.npz")
    with pytest.raises(ValueError, match="size is 3, not 2"):
        make_solver(Hex(2)).load(tmp_path / "hex.npz")


@pytest.mark.parametrize("damage", [lambda data: data[:-200], lambda data: b"", lambda data: b"no solutions"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    solver_of(3).save(tmp_path / "hex.npz")
    (tmp_path / "hex.npz").write_bytes(damage((tmp_path / "hex.npz").read_bytes()))
    with pytest.raises(ValueError, match="damaged"):
        make_solver(Hex(3)).load(tmp_path / "hex.npz")


def test_a_flipped_bit_in_a_file_is_noticed(tmp_path):
    solver_of(3).save(tmp_path / "hex.npz")
    data = bytearray((tmp_path / "hex.npz").read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / "hex.npz").write_bytes(bytes(data))
    with pytest.raises(ValueError, match="damaged"):
        make_solver(Hex(3)).load(tmp_path / "hex.npz")


def test_two_processes_prove_the_same_as_one():
    game = Hex(5)
    states = stacked([position_after(game, moves) for moves in ("", "a1", "c3", "a1 c3")])
    expected = solver_of(5).solve(states)
    with make_solver(game, processes=2) as solver:
        alone = solver.winning_moves(position_after(game))
        together = solver.solve(states)
        values = solver.value(states)
    np.testing.assert_array_equal(alone.result == WIN, expected.optimal[0])
    np.testing.assert_array_equal(together.optimal, expected.optimal)
    np.testing.assert_array_equal(values, expected.value)


@pytest.mark.parametrize(("size", "total"), [(3, 10), (5, 25)])
def test_progress_is_reported_to_the_end(size, total):
    calls = []
    solver = make_solver(Hex(size), progress=lambda done, total: calls.append((done, total)))
    solver.winning_moves(position_after(Hex(size)))
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)


def test_a_board_larger_than_8x8_is_refused_with_an_estimate():
    with pytest.raises(TooLargeError, match=r"9x9.*days.*MB"):
        make_solver(Hex(9))


def test_the_estimate_grows_with_the_board():
    seconds = [estimate(Hex(size))[1] for size in range(5, 12)]
    assert seconds == sorted(seconds)
    assert estimate(Hex(4))[0] == 10165779
