"""Positions out of teachers' games: what a recipe asks for is what is in them, by slow and other means."""

import dataclasses
import json

import numpy as np
import pytest

from azjax import cli
from azjax.agents import dots_data, make_agent
from azjax.agents.dots_data import Recipe, make_samples
from azjax.common.checked import ConfigError
from azjax.envs.dots_and_boxes import DotsAndBoxes, peters_numbers
from azjax.positions import labelled
from tests.agents.test_dots_rules import Board, reference_choices
from tests.reference.dots_and_boxes import DotsAndBoxes as SlowGame
from tests.reference.dots_and_boxes import all_lines

GAME = DotsAndBoxes(3, 2)


def samples(kind, number=120, game=GAME, **options):
    return make_samples(game, Recipe(kind, **options), number, make_agent)


def rows_of(found):
    """(drawn lines, owners, player, good lines, value) of each sample, as plain Python."""
    for number in range(found.size):
        lines, owners, player = (np.asarray(leaf[number]) for leaf in found.states)
        value = None if found.value is None else float(found.value[number])
        good = set(np.flatnonzero(found.policy[number]).tolist())
        yield np.flatnonzero(lines).tolist(), owners.tolist(), int(player), good, value


@pytest.mark.parametrize("kind", ["first-try", "stage-one", "stage-three", "stage-four"])
@pytest.mark.parametrize("teacher", ["medium", "hard"])
def test_the_good_line_is_one_that_the_teacher_may_draw(kind, teacher):
    for drawn, owners, _, good, _ in rows_of(samples(kind, teacher=teacher)):
        board = Board(GAME, drawn)
        assert len(good) == 1 and good <= reference_choices(GAME, drawn, teacher)
        assert [owner != 0 for owner in owners] == [
            not board.sides_left(box) for box in range(GAME.num_boxes)
        ]


def test_basic_strategy_knows_all_safe_lines_and_else_the_teachers():
    safe = others = 0
    for drawn, _, _, good, _ in rows_of(samples("basic-strategy", 300)):
        board = Board(GAME, drawn)
        if board.safe() and not board.capturing():
            assert good == board.safe()
            safe += 1
        else:
            assert len(good) == 1 and good <= reference_choices(GAME, drawn, "hard")
            others += 1
    assert min(safe, others) > 20


@pytest.mark.parametrize(("kind", "divisor"), [("stage-three", 0.8), ("stage-four", 1.0)])
def test_a_value_is_what_the_teachers_make_of_the_rest_of_the_game(kind, divisor):
    # Played on by the slow rules of the same teacher, until every line is drawn: whichever of its moves are drawn, the
    # margin lies between the worst and the best of them.
    def margins(drawn, mine, margin):
        board = Board(GAME, drawn)
        if not board.open:
            return {margin}
        found = set()
        for line in reference_choices(GAME, drawn, "hard"):
            boxes = board.completed_by(line)
            after = margin + boxes * (1 if mine else -1)
            found |= margins([*drawn, line], mine == (boxes > 0), after)
        return found

    checked = 0
    for drawn, owners, player, _, value in rows_of(samples(kind)):
        if GAME.num_actions - len(drawn) <= 6:
            margin = sum(owners) * (1 - 2 * player)
            possible = {np.clip(one / (divisor * 6), -1, 1) for one in margins(drawn, True, margin)}
            assert any(abs(value - one) < 1e-6 for one in possible)
            checked += 1
    assert checked > 10


def test_values_are_margins_of_whole_games_by_the_share_of_boxes():
    # With nothing drawn, all of the margin is still to come: odd on 3 x 3, a ninth each.
    game = DotsAndBoxes(3, 3)
    found = make_samples(game, Recipe("stage-four", divisor=2.0), 200, make_agent)
    np.testing.assert_allclose(found.value * 18, np.rint(found.value * 18), atol=1e-5)
    assert (np.rint(found.value * 18) % 2 == 1).all()


@pytest.mark.parametrize(
    ("spread", "mean", "average", "deviation"), [(0.125, 0.5, 10.5, 2.76), (0.2, 0.6, 12.49, 4.09)]
)
def test_lines_are_left_as_stage_four_draws_them(spread, mean, average, deviation):
    # Mean and deviation on 3 x 3, computed elsewhere.
    left = dots_data.moves_left(DotsAndBoxes(3, 3), mean, spread, 40_000, np.random.default_rng(0))
    assert left.min() >= 1 and left.max() <= 21
    assert abs(left.mean() - average) < 0.1 and abs(left.std() - deviation) < 0.08
    found = make_samples(DotsAndBoxes(3, 3), Recipe(mean=mean, spread=spread), 4000, make_agent)
    assert abs((~found.states.lines).sum(axis=1).mean() - average) < 0.3


def test_one_position_in_ten_of_stage_one_follows_a_random_move():
    # A move after which something can be captured, though there were safe lines, was none of the teacher's.
    found = samples("stage-one", 4000, DotsAndBoxes(4, 4), random_share=0.5)
    honest = samples("stage-one", 4000, DotsAndBoxes(4, 4), random_share=0.0)

    def gifts(found):
        boards = [
            Board(DotsAndBoxes(4, 4), drawn) for drawn, *_ in rows_of(labelled.rows(found, slice(0, 800)))
        ]
        return sum(bool(board.capturing() and board.safe() - board.capturing()) for board in boards)

    assert gifts(honest) == 0 < 20 < gifts(found)


def test_a_sequence_is_a_game_line_by_line():
    found = samples("sequence", 20)
    assert found.size == 20 * GAME.num_actions
    names = all_lines(3, 2)
    for game in range(20):
        engine = SlowGame(3, 2)
        for ply in range(GAME.num_actions):
            row = game * GAME.num_actions + ply
            assert {names[line] for line in np.flatnonzero(found.states.lines[row])} == engine.drawn
            (line,) = np.flatnonzero(found.policy[row])
            engine.draw(names[line])
    every = samples("training-sequence", 20)
    np.testing.assert_array_equal(every.states.lines, found.states.lines)
    assert (every.policy | ~found.policy).all() and every.policy.sum() > found.policy.sum()


def test_any_agent_can_be_the_teacher():
    game = DotsAndBoxes(1, 2)
    found = make_samples(game, Recipe("stage-three", teacher="random", divisor=1.0), 400, make_agent)
    assert len(np.unique(found.states.lines, axis=0)) > 30
    # Of equals the first mover gains on average as the second loses: margins are those of complete games.
    assert set(np.unique(np.rint(found.value * 2))) <= {-2.0, 0.0, 2.0}


def test_samples_depend_on_the_seed_and_their_number_alone():
    few, many = samples("stage-four", 50), samples("stage-four", 90)
    np.testing.assert_array_equal(few.states.lines, many.states.lines[:50])
    other = samples("stage-four", 50, seed=1)
    assert (few.states.lines != other.states.lines).any()


def test_the_command_writes_a_file_that_says_what_it_is(tmp_path, capsys):
    out = tmp_path / "few.npz"
    call = ["data", "dots-and-boxes", "--rows", "3", "--columns", "2", "--samples", "30", "--out", str(out)]
    assert cli.main([*call, "--teacher", "medium", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["positions"] == 30 and said["teacher"] == "medium" and said["kind"] == "stage-four"
    found = labelled.read(out, dataclasses.replace(GAME, reward="margin"))
    expected = samples("stage-four", 30, teacher="medium")
    np.testing.assert_array_equal(found.states.lines, expected.states.lines)
    np.testing.assert_array_equal(found.value, expected.value)
    made = json.loads(str(np.load(out)["about"]))["made"]
    assert made["teacher"] == "medium" and made["samples"] == 30

    assert cli.main([*call, "--teacher", "medium", "--pictures"]) == 0
    drawn = np.load(out)
    assert drawn["input"].shape == (30, 9, 7) and drawn["input"].dtype == np.uint8
    assert drawn["value"].shape == (30, 1)
    number = int(np.argmax(drawn["policy"][0]))
    assert peters_numbers(3, 2)[np.argmax(expected.policy[0])] == number
    # Its numbers count line pixels from left to right and top to bottom.
    is_line = (np.arange(9)[:, None] + np.arange(7)) % 2 == 1
    is_line[[0, -1]] = is_line[:, [0, -1]] = False
    white = drawn["input"][0][is_line] == 255
    np.testing.assert_array_equal(white, expected.states.lines[0][np.argsort(peters_numbers(3, 2))])


def test_what_makes_no_sense_is_refused(tmp_path, capsys):
    with pytest.raises(ConfigError, match="mean must be above 0"):
        Recipe(mean=0.0)
    assert cli.main(["data", "hex", "--out", str(tmp_path / "a.npz")]) == 2
    assert "dots_and_boxes alone" in capsys.readouterr().err
