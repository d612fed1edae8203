"""Position files: what can be written in a line, what is kept, and what is refused."""

import json

import jax
import numpy as np
import pytest

from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.envs.core import GameError, PositionError
from azjax.positions import (
    action_of,
    describe_game,
    game_of,
    game_options,
    parse_position,
    read_positions,
    stack,
    write_positions,
)


def notation(position):
    return position.game.to_notation(position.state)


def test_moves_lead_to_the_position_by_text_or_by_number():
    by_text = parse_position({"game": "hex", "size": 3, "moves": ["a1", "c3", "b2"]})
    by_number = parse_position({"game": "hex", "size": 3, "moves": [0, 8, 4]})
    assert notation(by_text) == notation(by_number) == "b2/1b1/2w w"
    assert by_text.game == Hex(3)


def test_a_position_is_read_in_the_games_notation():
    position = parse_position({"game": "hex", "size": 3, "position": "b2/1b1/2w w"})
    assert np.sign(position.state.board).tolist() == [1, 0, 0, 0, 1, 0, 0, 0, -1]
    assert position.state.current_player == 1


def test_without_moves_or_position_it_is_the_start():
    position = parse_position({"game": "chinese_checkers", "size": 4, "pieces": 3})
    assert position.game == ChineseCheckers(4, 3)
    assert notation(position) == "a/aa/3/4/3/bb/b a"


def test_everything_in_a_line_is_kept():
    fields = {
        "game": "dots-and-boxes",
        "rows": 1,
        "columns": 2,
        "optimal": ["b1-b2"],
        "value": 0,
        "comment": "x",
    }
    position = parse_position(fields)
    assert position.fields == fields
    assert position.game == DotsAndBoxes(1, 2)


def test_a_default_gives_what_the_line_leaves_open():
    default = DotsAndBoxes(4, 5, reward="margin")
    assert game_of({}, default) == default
    assert game_of({"rows": 2}, default) == DotsAndBoxes(2, 5, reward="margin")
    assert game_of({"game": "dots_and_boxes", "columns": 2}, default) == DotsAndBoxes(4, 2, reward="margin")


def test_a_game_is_described_by_what_is_not_the_default():
    assert describe_game(Hex(11)) == {"game": "hex"}
    assert describe_game(Hex(6, swap=True)) == {"game": "hex", "size": 6, "swap": True}
    assert game_options(Hex(6)) == {"size": 6, "swap": False, "planes": 2}
    for game in (Hex(6, swap=True), ChineseCheckers(5, 6, forward_only=False), DotsAndBoxes(2, 7)):
        assert game_of(describe_game(game)) == game


def test_written_lines_are_read_as_they_were_and_empty_ones_skipped(tmp_path):
    path = tmp_path / "positions.jsonl"
    lines = [{"game": "hex", "size": 4, "moves": ["d1"], "value": -1}, {"game": "hex", "size": 2}]
    write_positions(path, lines)
    path.write_text(path.read_text() + "\n  \n")
    assert [position.fields for position in read_positions(path)] == lines
    assert [file.name for file in tmp_path.iterdir()] == ["positions.jsonl"]


def test_a_file_is_not_touched_if_writing_fails(tmp_path):
    path = tmp_path / "positions.jsonl"
    path.write_text("as it was")
    with pytest.raises(TypeError):
        write_positions(path, [{"game": "hex"}, {"game": object()}])
    assert path.read_text() == "as it was"


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("nonsense", "not a JSON object"),
        ("[1, 2]", "expected a JSON object"),
        ('{"size": 3}', "no game is given"),
        ('{"game": 7}', "must be a name"),
        ('{"game": "chess-960"}', "chess_960"),
        ('{"game": "hex", "size": 99}', "size must be"),
        ('{"game": "hex", "size": 3, "moves": ["a1"], "position": "3/3/3 b"}', "not both"),
        ('{"game": "hex", "size": 3, "moves": ["a1", "a1"]}', "a1"),
        ('{"game": "hex", "size": 3, "moves": [9]}', "0 to 8"),
        ('{"game": "hex", "size": 3, "moves": [true]}', "its text or its number"),
        ('{"game": "hex", "size": 3, "position": "bb1/3/3 b"}', "bb1"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(tmp_path, line, complaint):
    path = tmp_path / "positions.jsonl"
    path.write_text(json.dumps({"game": "hex", "size": 3}) + "\n" + line + "\n")
    with pytest.raises(PositionError, match=f"positions.jsonl, line 2: .*{complaint}"):
        read_positions(path)


def test_a_line_about_another_game_than_asked_for_is_refused():
    with pytest.raises(PositionError, match="about hex, but chinese_checkers"):
        parse_position({"game": "hex"}, ChineseCheckers(4, 3))


def test_moves_are_checked_against_the_position():
    game = Hex(3)
    x = game.step(game.init(jax.random.key(0)), 4)
    assert action_of(game, x, "a1") == action_of(game, x, 0) == 0
    for move in ("b2", 4, 9, -1, 1.0, None):
        with pytest.raises(GameError):
            action_of(game, x, move)


def test_positions_of_one_game_are_stacked_to_a_batch():
    positions = [parse_position({"game": "hex", "size": 3, "moves": moves}) for moves in ([], ["a1"], ["c3"])]
    states = stack(position.state for position in positions)
    assert states.board.shape == (3, 9)
    assert np.sign(states.board).sum(axis=1).tolist() == [0, 1, 1]
