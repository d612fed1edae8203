"""`azjax solve`: what it prints, saves, loads and refuses."""

import json

import pytest

from azjax.cli import main
from azjax.envs import Hex
from azjax.solvers import estimate, make_solver

# Known values: winning openings of Hex by full enumeration, margins of Dots and Boxes by published tables.
OPENINGS_4X4 = {"d1", "c2", "b3", "a4"}
OPENINGS_5X5 = "e1 b2 c2 d2 e2 b3 c3 d3 a4 b4 c4 d4 a5".split()


def printed(capsys, *arguments):
    """The lines that a successful command prints on stdout."""
    assert main(["solve", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def answers(capsys, *arguments):
    return [json.loads(line) for line in printed(capsys, *arguments, "--json")]


def refusal(capsys, *arguments):
    """The one line that a refused command prints on stderr."""
    assert main(["solve", *map(str, arguments)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def write_lines(path, *lines):
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


def test_a_position_file_is_answered_line_by_line_in_its_order(tmp_path, capsys):
    path = write_lines(
        tmp_path / "positions.jsonl",
        {"game": "hex", "size": 3, "moves": ["a1", "b2"]},
        {"game": "hex", "size": 5},
        {"size": 3, "position": "3/1b1/3 w"},
        {
            "size": 3,
            "moves": [0, 4, 8],
            "optimal": ["b1"],
            "comment": "whatever else stands there is no matter",
        },
    )
    lost, start, centre, _ = answers(capsys, "hex", "--positions", path)
    for answer in (lost, start, centre):
        assert list(answer) == ["value", "optimal", "optimal_actions", "seconds", "proven"]
        assert answer["proven"] is True and answer["seconds"] >= 0
    assert start["value"] == 1 and start["optimal"] == OPENINGS_5X5
    assert start["optimal_actions"] == [
        5 * (int(move[1]) - 1) + ord(move[0]) - ord("a") for move in OPENINGS_5X5
    ]
    # Whoever has the centre of 3x3 wins: all moves of the other are equally bad.
    assert lost["value"] == -1 and len(lost["optimal"]) == 7
    assert centre["value"] == -1 and len(centre["optimal"]) == 8


def test_positions_of_the_other_games_are_answered_too(tmp_path, capsys):
    path = write_lines(
        tmp_path / "dots.jsonl",
        {"game": "dots_and_boxes", "rows": 1, "columns": 2},
        {"rows": 2, "columns": 2},
        {"rows": 1, "columns": 1, "moves": ["a1-b1", "a1-a2", "a2-b2"]},
        {"rows": 1, "columns": 1, "moves": ["a1-b1", "a1-a2", "a2-b2", "b1-b2"]},
    )
    middle, square, last, over = answers(capsys, "dots_and_boxes", "--positions", path)
    assert (middle["value"], middle["optimal"]) == (0, ["b1-b2"])
    assert (square["value"], len(square["optimal"])) == (2, 8)
    assert (last["value"], last["optimal"]) == (1, ["b1-b2"])
    assert (over["value"], over["optimal"], over["proven"]) == (1, [], True)  # the winner would move on
    path = write_lines(tmp_path / "checkers.jsonl", {"game": "chinese_checkers", "size": 3, "pieces": 3})
    (start,) = answers(capsys, "chinese-checkers", "--positions", path)
    assert start["value"] == 1 and start["optimal"] == ["1-3", "2-5"]


def test_how_soon_games_end_is_told_where_the_solver_knows(tmp_path, capsys):
    # Scores 15 and -10 (Pons, see the tests of the solver): a win with the seventh stone, of which five lie there; a
    # loss to the twelfth, of which seven do.
    path = write_lines(
        tmp_path / "positions.jsonl", {"position": "74642572132"}, {"moves": list("51756773145177")}
    )
    won, lost = answers(capsys, "connect-four", "--positions", path)
    assert won["value"] == 1 and dict(zip(won["optimal"], won["plies"]))["3"] == min(won["plies"]) == 3
    assert lost["value"] == -1 and dict(zip(lost["optimal"], lost["plies"]))["2"] == max(lost["plies"]) == 10
    (plain, _) = answers(capsys, "connect-four", "--positions", path, "--no-distances")
    assert "plies" not in plain and plain["optimal"] == won["optimal"]
    assert "3 (in 3)" in " ".join(printed(capsys, "connect-four", "--positions", path))


def test_what_is_not_proven_in_time_is_null(tmp_path, capsys):
    path = write_lines(tmp_path / "positions.jsonl", {"game": "hex", "size": 8}, {"game": "hex", "size": 1})
    unknown, trivial = answers(capsys, "hex", "--positions", path, "--seconds", 0.0)
    assert unknown["value"] is None and unknown["proven"] is False
    assert unknown["optimal"] == unknown["optimal_actions"] == []
    assert trivial["value"] == 1


def test_openings_are_all_classified(capsys):
    (answer,) = answers(capsys, "hex", "--size", 4, "--openings")
    values = {opening["move"]: opening["value"] for opening in answer["openings"]}
    assert len(values) == 16 and {move for move, value in values.items() if value == 1} == OPENINGS_4X4
    assert set(values.values()) == {1, -1}
    (answer,) = answers(capsys, "dots_and_boxes", "--rows", 2, "--columns", 2, "--openings")
    assert sorted(opening["value"] for opening in answer["openings"]) == [0] * 4 + [2] * 8
    (answer,) = answers(
        capsys, "dots_and_boxes", "--rows", 2, "--columns", 2, "--openings", "--reward", "outcome"
    )
    assert sorted(opening["value"] for opening in answer["openings"]) == [0] * 4 + [1] * 8
    (answer,) = answers(capsys, "chinese_checkers", "--size", 3, "--pieces", 3, "--openings")
    assert sorted(opening["value"] for opening in answer["openings"]) == [-1] * 4 + [1] * 2


def test_openings_are_drawn_for_people(capsys):
    board = printed(capsys, "hex", "--size", 4, "--openings")
    assert [line.split() for line in board[2:6]] == [
        ["1", "-", "-", "-", "+"],
        ["2", "-", "-", "+", "-"],
        ["3", "-", "+", "-", "-"],
        ["4", "+", "-", "-", "-"],
    ]
    table = "\n".join(printed(capsys, "dots_and_boxes", "--rows", 1, "--columns", 2, "--openings"))
    assert "b1-b2" in table and "-2" in table


def test_the_start_is_solved_if_nothing_else_is_asked_for(capsys):
    (answer,) = answers(capsys, "chinese_checkers", "--size", 3, "--pieces", 3, "--no-forward-only")
    assert answer["value"] == 1 and len(answer["optimal"]) == 2
    assert {name: answer["counts"][name] for name in ("positions", "wins", "losses", "illegal")} == {
        "positions": 1680,
        "wins": 720,
        "losses": 580,
        "illegal": 380,
    }
    assert "+2" in printed(capsys, "dots_and_boxes", "--rows", 2, "--columns", 2)[0]


@pytest.mark.parametrize(
    "board",
    [
        ["hex", "--size", "3"],
        ["hex", "--size", "5"],
        ["dots_and_boxes", "--rows", "1", "--columns", "3"],
        ["chinese_checkers", "--size", "3", "--pieces", "1"],
    ],
)
def test_what_was_saved_is_loaded(tmp_path, capsys, board):
    path = tmp_path / "solved.npz"
    (saved,) = answers(capsys, *board, "--save", path)
    assert path.exists()
    (loaded,) = answers(capsys, *board, "--load", path)
    assert loaded | {"seconds": 0} == saved | {"seconds": 0}


def test_a_file_about_another_board_is_refused(tmp_path, capsys):
    path = tmp_path / "solved.npz"
    printed(capsys, "hex", "--size", 2, "--save", path)
    assert "size is 2, not 3" in refusal(capsys, "hex", "--size", 3, "--load", path)


def test_what_does_not_fit_is_refused_with_an_estimate(capsys):
    assert "days" in refusal(capsys, "hex", "--size", 9)
    assert "GB" in refusal(capsys, "chinese_checkers", "--size", 6, "--pieces", 6)
    assert "GB" in refusal(capsys, "dots_and_boxes", "--rows", 3, "--columns", 5, "--method", "table")
    assert "lines are open" in refusal(capsys, "dots_and_boxes", "--rows", 6, "--columns", 6)


def test_requests_that_make_no_sense_are_refused_in_one_line(tmp_path, capsys):
    assert "not both" in refusal(capsys, "hex", "--openings", "--positions", "x")
    assert "Dots and Boxes" in refusal(capsys, "hex", "--size", 3, "--method", "table")
    assert "no exact solver" in refusal(capsys, "tic_tac_toe")
    board = ("dots_and_boxes", "--rows", "1", "--columns", "1")
    assert "nothing to save" in refusal(capsys, *board, "--method", "search", "--save", tmp_path / "x")
    path = write_lines(tmp_path / "bad.jsonl", {"game": "hex", "size": 3, "moves": ["z9"]})
    assert "line 1" in refusal(capsys, "hex", "--positions", path)
    path = write_lines(tmp_path / "two.jsonl", {"game": "hex", "size": 2}, {"game": "hex", "size": 3})
    assert "one board" in refusal(capsys, "hex", "--positions", path, "--save", tmp_path / "x")


def test_any_solved_game_has_a_solver_and_an_estimate():
    solver = make_solver(Hex(5), nodes=10)
    assert solver.game == Hex(5)
    memory, seconds = estimate(Hex(7))
    assert memory > 1e6 and seconds > 1
