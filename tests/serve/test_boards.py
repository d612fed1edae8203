"""Positions as plain data, and the layouts that the board is drawn from."""

import jax
import numpy as np
import pytest

from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, make_game
from azjax.serve import boards
from azjax.serve.boards import Line, RequestError, read_line
from azjax.serve.layouts import layout_of

GAMES = (Hex(size=4, swap=True), ChineseCheckers(4, 3), DotsAndBoxes(2, 3), make_game("connect_four"))


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_every_action_is_about_places_that_no_other_action_has(game):
    layout = layout_of(game)
    assert len(layout.actions) == game.num_actions
    told = [tuple(places) for places in layout.actions if places]
    assert len(set(told)) == len(told)
    assert all(0 <= place < len(layout.places) for places in told for place in places)
    without = [action for action, places in enumerate(layout.actions) if not places]
    assert without == ([16] if game.name == "hex" else [])  # the swap is a button


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_places_stand_apart_and_inside_the_picture(game):
    layout = layout_of(game)
    points = np.array([(place["x"], place["y"]) for place in layout.places])
    distance = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
    assert np.min(distance + 1e9 * np.eye(len(points))) > 25
    assert np.all(points > 0) and np.all(points < (layout.width, layout.height))


def test_hex_cells_that_are_neighbours_are_the_nearest():
    game = Hex(size=4)
    layout = layout_of(game)
    points = np.array([(place["x"], place["y"]) for place in layout.places])
    distance = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
    # The rule as README and DESIGN state it: (r, c±1), (r±1, c), (r-1, c+1), (r+1, c-1).
    around = {(0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1)}
    for a in range(16):
        for b in range(16):
            step = (b // 4 - a // 4, b % 4 - a % 4)
            assert (abs(distance[a, b] - 40) < 0.1) == (step in around)


def test_pieces_of_chinese_checkers_stand_where_the_rules_have_them():
    told = boards.describe(read_line({"game": "chinese_checkers", "moves": ["0-5"]}))
    assert dict(told["pieces"]) == {1: 0, 2: 0, 5: 0, 13: 1, 14: 1, 15: 1}


def test_a_chain_of_hops_is_shown_cell_by_cell():
    # Cells of 4x4 by (x, y): 0 is (0, 0), 2 is (1, 0), 5 is (2, 0), 8 is (2, 1), 11 is (2, 2). So a piece on 0 hops
    # over 2 to 5, and from there over 8 to 11.
    game = ChineseCheckers(4, 3)
    board = np.zeros(16, np.int8)
    board[[0, 2, 8]] = 1
    board[[13, 14, 15]] = 2
    x = jax.device_get(game.from_board(jax.numpy.asarray(board), 0))
    action = game.text_to_action("0-11", x)
    path = layout_of(game).paths(x, [action])[action]
    assert path == [0, 5, 11]


def test_a_game_without_a_layout_is_a_picture_with_moves():
    told = boards.describe(read_line({"game": "gardner_chess"}))
    assert layout_of(make_game("gardner_chess")) is None
    assert (
        told["pictures"]["dark"].startswith("<") and len(told["legal"]) == 7
    )  # five pawns and two of the knight


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "game", "no game is given"),
        ({"game": "chequers"}, "game", "unknown game"),
        ({"game": 3}, "game", "name such as"),
        ({"game": "hex", "size": 99}, "game", "from 1 to 19"),
        ({"game": "hex", "size": 3, "moves": "a1"}, "moves", "list"),
        ({"game": "hex", "size": 3, "moves": ["a1", "a1"]}, "moves", "move 2: 'a1' is occupied"),
        ({"game": "hex", "size": 3, "moves": [["W", "a1"]]}, "moves", "out of turn"),
        ({"game": "hex", "size": 3, "moves": [["B"]]}, "moves", "pair"),
        ({"game": "hex", "size": 3, "moves": [10**9]}, "moves", "not one of the actions"),
        ({"game": "hex", "size": 3, "moves": [None]}, "moves", "text or its number"),
        ({"game": "hex", "size": 3, "start": "nonsense"}, "start", "not a position"),
        ({"game": "hex", "size": 3, "start": 7}, "start", "as a text"),
        ({"game": "hex", "size": 3, "moves": ["a1"] * 3000}, "moves", "at most"),
        ({"game": "chinese_checkers", "max_plies": 10**6}, "game", "too large to be served"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(fields, field, words):
    with pytest.raises(RequestError, match=words) as refused:
        read_line(fields)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("(;GM[11]SZ[3];B[a1];W[b2])", ("a1", "b2")),
        ('[Game "hex size=3"]\n1. a1 2. b2', ("a1", "b2")),
        ("a1 b2", ("a1", "b2")),
        ("1. a1 2. b2", ("a1", "b2")),
    ],
)
def test_games_are_read_from_what_is_pasted(text, moves):
    line = boards.read_pasted(text, Hex(size=3))
    assert boards.move_texts(line) == list(moves) and line.game == Hex(size=3)


def test_a_pasted_position_begins_a_game_and_what_is_written_is_read_again():
    line = boards.read_pasted("b2/1w1/3 b", Hex(size=3))
    assert line == Line(Hex(size=3), "b2/1w1/3 b", ())
    line = line._replace(moves=(8,))
    for text in boards.written(line).values():
        assert boards.read_pasted(text, Hex(size=5)) == line
    with pytest.raises(RequestError, match=r"no position .* no list of moves"):
        boards.read_pasted("what is this", Hex(size=3))
