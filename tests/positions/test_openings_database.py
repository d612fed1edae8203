"""Openings databases: counts of Daliri 2022 and of full enumerations, the table's form, round trips, errors."""

import collections
import contextlib
import functools
import json
import pathlib
import sqlite3

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.envs import Hex
from azjax.envs.core import GameError
from azjax.evaluation import truth as ground_truth
from azjax.positions import openings_database as database
from azjax.positions import sets as position_sets
from azjax.solvers.hex.solver import make_solver
from azjax.training.openings import make_openings

KEPT_6X6 = (
    pathlib.Path(__file__).parents[2]
    / "experiments/results/daliri2022/quick/points/hex6-winning-openings.json"
)


@functools.cache
def solver_of(size):
    return make_solver(Hex(size))


def counts(openings):
    return tuple(sum(len(moves) == length for moves in openings) for length in (1, 2, 3))


@pytest.mark.parametrize(
    ("size", "expected"),
    [(6, (36, 1_260, 42_840)), (8, (64, 4_032, 249_984))],  # Daliri 2022, Table 5.4
)
def test_all_legal_openings_are_as_many_as_the_thesis_counts(size, expected):
    game = Hex(size)
    lengths = (1, 2, 3) if size == 6 else (1, 2)  # a quarter of a million rows take a while
    assert counts(database.legal_openings(game, lengths))[: len(lengths)] == expected[: len(lengths)]


@pytest.mark.parametrize(
    ("size", "expected", "positions"),
    [(2, (2, 2, 12), 6), (3, (5, 4, 224), 112)],  # by full enumeration
)
def test_winning_openings_are_as_many_as_an_enumeration_finds(size, expected, positions):
    game = Hex(size)
    openings = database.winning_openings(game, solver_of(size))
    assert counts(openings) == expected
    three = database.after_moves(game, [moves for moves in openings if len(moves) == 3])
    assert len(position_sets.first_of_each(three)) == positions


def test_a_winning_opening_may_begin_with_a_losing_move():
    game = Hex(3)
    openings = database.winning_openings(game, solver_of(3), (2,))
    first = solver_of(3).winning_moves(game.init(jax.random.key(0))).result
    assert openings and all(first[moves[0]] == -1 for moves in openings)


def test_a_database_of_all_openings_is_read_as_it_was_written(tmp_path):
    game = Hex(3)
    openings = database.legal_openings(game)
    database.write(tmp_path / "all.db", game, openings)
    assert database.read(tmp_path / "all.db", game) == openings


def test_a_database_of_winning_openings_gives_back_those_alone(tmp_path):
    game = Hex(3)
    openings = database.winning_openings(game, solver_of(3))
    database.write(tmp_path / "won.db", game, openings)
    assert database.read(tmp_path / "won.db", game) == sorted(openings, key=lambda moves: (len(moves), moves))


def test_the_table_has_the_columns_of_the_thesis_and_points_to_earlier_positions(tmp_path):
    game = Hex(3)
    database.write(tmp_path / "one.db", game, [(0, 4, 8)])  # a1 b2 c3
    with contextlib.closing(sqlite3.connect(tmp_path / "one.db")) as opened:
        columns = [(row[1], row[2], row[3]) for row in opened.execute("PRAGMA table_info(positions)")]
        rows = opened.execute("SELECT * FROM positions").fetchall()
        chosen = opened.execute("SELECT * FROM openings").fetchall()
    assert columns == [
        ("id", "INTEGER", 0),
        ("move", "TEXT", 1),
        ("player", "INTEGER", 1),
        ("first_move", "INTEGER", 0),
        ("second_move", "INTEGER", 0),
    ]
    # White is to move after one stone, Black after two, White after three.
    assert rows == [(1, "a1", 1, None, None), (2, "b2", 0, 1, None), (3, "c3", 1, 1, 2)]
    assert chosen == [(3,)]


def test_a_database_of_the_thesis_without_a_list_of_openings_is_read_whole(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "thesis.db")) as opened, opened:
        opened.execute(database._POSITIONS)
        rows = [(1, "a1", 1, None, None), (2, "b2", 0, 1, None)]
        opened.executemany("INSERT INTO positions VALUES (?, ?, ?, ?, ?)", rows)
    assert database.read(tmp_path / "thesis.db", Hex(3)) == [(0,), (0, 4)]


def test_openings_start_self_play_where_their_moves_lead(tmp_path):
    game = Hex(3)
    database.write_position_file(tmp_path / "two.jsonl", game, [(0,), (4, 1, 3)])
    openings = make_openings(game, str(tmp_path / "two.jsonl"))
    expected = game.init(jax.random.key(0))
    for action in (4, 1, 3):
        expected = game.step(expected, action)
    assert openings.plies.tolist() == [1, 3]
    assert np.array_equal(openings.states.board[1], expected.board)


def test_winning_openings_start_self_play_with_their_last_mover_winning(tmp_path, capsys):
    game, path = Hex(3), tmp_path / "won.jsonl"
    assert cli.main(["openings", "hex", "--size", "3", "--winning", "--out", str(path), "--json"]) == 0
    openings = make_openings(game, str(path))
    assert json.loads(capsys.readouterr().out)["openings"] == {"1": 5, "2": 4, "3": 224}
    assert np.bincount(openings.plies).tolist() == [0, 5, 4, 224]
    assert (solver_of(3).value(openings.states) == -1).all()


def test_another_ending_is_refused_before_anything_is_solved(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ground_truth, "solver_for", None)  # nobody may ask for one
    assert cli.main(["openings", "hex", "--size", "3", "--winning", "--out", str(tmp_path / "won.csv")]) == 2
    assert "--out must be NAME.db" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_openings_that_end_the_game_start_nothing(tmp_path):
    game, path = Hex(2), tmp_path / "three.jsonl"
    openings = database.legal_openings(game, (3,))
    # Of the 24 sequences of three stones on 2x2, those end the game whose two black stones are joined: a1-a2, a1-b1
    # is one row, b1-a2 are neighbours. The columns a1-a2 and b1-b2 and the pair b1-a2 join top and bottom: 3 pairs
    # in 2 orders with 2 white stones in between each.
    assert len(openings) == 24
    assert cli.main(["openings", "hex", "--size", "2", "--lengths", "3", "--out", str(path)]) == 0
    assert len(make_openings(game, str(path)).plies) == 24 - 12
    # The winning ones end it, all of them.
    assert (
        cli.main(["openings", "hex", "--size", "2", "--winning", "--lengths", "3", "--out", str(path)]) == 2
    )


def test_the_solver_finds_the_winning_openings_of_6x6_that_were_kept():
    game, lengths = Hex(6), {1: 24, 2: 72, 3: 18_560}  # see the test of all of them
    kept = [
        [game.text_to_action(move) for move in line.split()]
        for line in json.loads(KEPT_6X6.read_text())["found"]
    ]
    assert collections.Counter(map(len, kept)) == lengths
    # Not 9 and 58 as the thesis prints: a half turn maps winning moves to winning moves, so that 9 cannot be.
    assert {tuple(moves) for moves in kept} == {tuple(35 - move for move in moves) for moves in kept}
    before = database.legal_openings(game, (2,))[::42]  # 30 of 1,260
    solved = solver_of(6).solve(database.after_moves(game, before))
    wins = solved.optimal & (solved.value > 0)[:, None]
    found = [(*moves, int(action)) for moves, row in zip(before, wins) for action in np.flatnonzero(row)]
    assert found == [tuple(moves) for moves in kept if tuple(moves[:-1]) in before]


@pytest.mark.long
def test_winning_openings_of_6x6_are_24_and_72_and_18560():
    # The first two are known from independent solvers, see tests/solvers/test_hex.py. The third counts, after each of
    # the 1,260 sequences of two stones, Black's winning moves; it is even, for a half turn takes none to itself.
    openings = database.winning_openings(Hex(6), make_solver(Hex(6)))
    assert [sum(len(moves) == length for moves in openings) for length in (1, 2, 3)] == [24, 72, 18_560]


def test_self_play_starts_from_a_database_as_from_a_position_file(tmp_path):
    game = Hex(3)
    openings = database.legal_openings(game, (1, 3))
    database.write(tmp_path / "some.db", game, openings)
    database.write_position_file(tmp_path / "some.jsonl", game, openings)
    from_database, from_file = (
        make_openings(game, str(tmp_path / name)) for name in ("some.db", "some.jsonl")
    )
    assert sorted(from_database.plies.tolist()) == [1] * 9 + [3] * (9 * 8 * 7)
    first, second = (sorted(np.asarray(part.states.board).tolist()) for part in (from_database, from_file))
    assert first == second
    database.write(tmp_path / "over.db", Hex(2), [(0, 1, 2)])
    with pytest.raises(GameError, match="no opening after which the game goes on"):
        make_openings(Hex(2), str(tmp_path / "over.db"))


def test_an_illegal_opening_is_refused(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "bad.db")) as opened, opened:
        opened.execute(database._POSITIONS)
        rows = [(1, "a1", 1, None, None), (2, "a1", 0, 1, None)]
        opened.executemany("INSERT INTO positions VALUES (?, ?, ?, ?, ?)", rows)
    with pytest.raises(GameError, match="the last move of a1 a1 is not legal"):
        database.read(tmp_path / "bad.db", Hex(3))


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "no.db").write_text("this is text")
    with pytest.raises(GameError, match="is no openings database"):
        database.read(tmp_path / "no.db", Hex(3))


def test_openings_of_four_moves_are_refused():
    with pytest.raises(GameError, match="1 to 3 moves"):
        database.legal_openings(Hex(3), (4,))
