"""Whole games of the rule-based players, against the slow description of what each may draw."""

import numpy as np
import pytest

from azjax.agents import dots_games
from azjax.envs.dots_and_boxes import DotsAndBoxes, box_sides
from tests.agents.test_dots_rules import Board, reference_choices
from tests.reference.dots_and_boxes import DotsAndBoxes as SlowGame
from tests.reference.dots_and_boxes import all_lines

BOARDS = [DotsAndBoxes(3, 2), DotsAndBoxes(2, 5), DotsAndBoxes(4, 4)]


def games_with_a_wild_move(game, level, number):
    """Records of games in which a move anywhere is drawn at random, so that chains of all kinds come up."""
    wild = np.arange(number) % game.num_actions
    starts = np.zeros((number, game.num_actions), bool)
    return dots_games.play(game, level, starts, np.arange(number), wild), wild


@pytest.mark.parametrize("game", BOARDS, ids=["3x2", "2x5", "4x4"])
@pytest.mark.parametrize("level", dots_games.LEVELS)
def test_every_move_is_one_that_the_description_allows(game, level):
    records, wild = games_with_a_wild_move(game, level, 30)
    for number, record in enumerate(records.tolist()):
        assert sorted(record) == list(range(game.num_actions))
        for ply, line in enumerate(record):
            if ply != wild[number]:
                assert line in reference_choices(game, record[:ply], level), (record[:ply], line)


@pytest.mark.parametrize("level", dots_games.LEVELS)
def test_a_level_chooses_from_all_that_the_description_allows(level):
    game = DotsAndBoxes(4, 4)
    records, _ = games_with_a_wild_move(game, "easy", 60)
    for number, record in enumerate(records.tolist()):
        drawn = record[: 12 + number % 28]
        lines = np.isin(np.arange(game.num_actions), drawn)
        chosen = np.flatnonzero(dots_games.choices_of(game, level, lines)).tolist()
        assert set(chosen) == reference_choices(game, drawn, level), drawn


def test_a_game_depends_on_its_seed_and_start_alone():
    game = DotsAndBoxes(3, 3)
    starts = dots_games.safe_fills(game, 8, np.arange(20))
    together = dots_games.play(game, "hard", starts, np.arange(20))
    for number in (0, 7, 19):
        alone = dots_games.play(game, "hard", starts[number : number + 1], np.array([number]))
        np.testing.assert_array_equal(alone[0], together[number])
    assert len(np.unique(together, axis=0)) == 20


def test_each_player_plays_its_own_level():
    game = DotsAndBoxes(3, 3)
    starts = np.zeros((40, game.num_actions), bool)
    records = dots_games.play(game, "easy", starts, np.arange(40), second="hard")
    strict = 0
    for record in records.tolist():
        engine = SlowGame(3, 3)
        for ply, line in enumerate(record):
            level = ("easy", "hard")[engine.mover]
            allowed = reference_choices(game, record[:ply], level)
            assert line in allowed
            strict += line not in reference_choices(game, record[:ply], "hard")
            engine.draw(all_lines(3, 3)[line])
    assert strict > 10  # easy has drawn what hard would not


def test_equally_good_lines_are_drawn_equally_often():
    game = DotsAndBoxes(2, 2)
    starts = np.zeros((24_000, game.num_actions), bool)
    records = dots_games.play(game, "easy", starts, np.arange(24_000))
    first = np.bincount(records[:, 0], minlength=12)  # all twelve lines are safe: 2,000 each
    assert np.abs(first - 2000).max() < 5 * np.sqrt(2000)
    # The middle cross of safe lines is exhausted at the fourth move at the earliest; the last moves are captures.
    last = np.bincount(records[:, -1], minlength=12)
    assert last.min() > 0


def test_a_safe_fill_gives_nothing_away_and_is_full_before_lines_are_taken_away():
    game = DotsAndBoxes(4, 5)
    sides = box_sides(4, 5)
    full = dots_games.safe_fills(game, 0, np.arange(50))
    for lines in full:
        assert not Board(game, np.flatnonzero(lines).tolist()).safe()
    assert full[:, sides].sum(axis=2).max() == 2  # nobody can capture
    assert len(np.unique(full, axis=0)) == 50
    thinned = dots_games.safe_fills(game, 17, np.arange(50))
    np.testing.assert_array_equal(thinned.sum(axis=1), full.sum(axis=1) - 17)
    assert not (thinned & ~full).any()  # the same seeds: the same lines, fewer of them


def test_cut_positions_and_margins_are_those_of_another_engine():
    game = DotsAndBoxes(3, 2)
    starts = dots_games.safe_fills(game, 5, np.arange(40))
    records = dots_games.play(game, "medium", starts, np.arange(40))
    lengths = (records >= 0).sum(axis=1)
    plies = np.arange(40) % lengths
    cuts = dots_games.cut(game, starts, records, plies)
    names = all_lines(3, 2)
    for number in range(40):
        moves = records[number, : lengths[number]].tolist()
        engine = SlowGame(3, 2)
        engine.drawn = {names[line] for line in np.flatnonzero(starts[number])}
        for line in moves[: plies[number]]:
            engine.draw(names[line])
        mover = engine.mover
        assert cuts.player[number] == mover
        assert {names[line] for line in np.flatnonzero(cuts.lines[number])} == engine.drawn
        owned = [{None: 0, 0: 1, 1: -1}[engine.owner.get(box)] for box in engine.boxes()]
        assert cuts.owners[number].tolist() == owned
        assert cuts.line[number] == moves[plies[number]]
        for line in moves[plies[number] :]:
            engine.draw(names[line])
        assert engine.is_over()
        assert cuts.margin[number] == engine.score(mover) - engine.score(1 - mover)
