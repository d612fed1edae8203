"""Results in PGN: appendix D of Jacobsen 2019, as it was printed, and files as programs write them."""

import collections
import pathlib

import pytest

from azjax.evaluation import pgn
from azjax.evaluation.pgn import PgnGame

APPENDIX_D = pathlib.Path(__file__).parents[1] / "data" / "jacobsen2019_appendix_d.txt"


@pytest.fixture(scope="module")
def games() -> list[PgnGame]:
    return pgn.read(APPENDIX_D.read_text(encoding="utf-8"))


def test_appendix_d_has_352_games_of_16_players(games):
    # Counted in the thesis: 353 lines with a date, one of them printed twice; no two games are the same one.
    assert len(games) == 352
    assert collections.Counter(game.result for game in games) == {"1-0": 177, "0-1": 175}
    assert len({game.white for game in games} | {game.black for game in games}) == 16
    assert all(game.date.startswith("2019-05-1") for game in games)


def test_tails_behind_the_next_record_find_their_own(games):
    # Where pages end, by hand: two records stand before the tails of both.
    of = collections.Counter((game.date, game.white, game.black, game.result) for game in games)
    baseline = "baseline MCTS (10000)"
    assert of["2019-05-11 00:37:53.840013", baseline, "H2 600", "1-0"] == 1
    assert of["2019-05-10 17:41:11.963739", baseline, "H1 600", "1-0"] == 2
    assert of["2019-05-10 16:47:57.958607", baseline, "H1 800", "1-0"] == 1


def test_the_record_that_was_printed_twice_counts_once(games):
    at_that_time = [game for game in games if game.date == "2019-05-10 16:44:57.916689"]
    assert [(game.white, game.black, game.result) for game in at_that_time] == [
        ("baseline MCTS (10000)", "H1 800", "0-1")
    ]


def test_what_was_read_can_be_written_and_read_again(games):
    text = pgn.write(games)
    assert pgn.read(text) == games
    assert text.splitlines()[0] == (
        '[Date "2019-05-13 01:40:16.182317"] [White "H1 0"] [Black "H1 1000"] [Result "0-1"] .'
    )


def test_games_with_moves_and_other_tags_are_read():
    text = """[Event "x"]
[White "a"]
[Black "b"]
[Date "2020.01.01"]
[Result "1/2-1/2"]

1. a1 b2 {so far [so good]} 1/2-1/2

[Event "y"]
[White "b"]
[Black "a"]
[Result "*"]
"""
    first, second = pgn.read(text)
    assert first == PgnGame("a", "b", "1/2-1/2", "2020.01.01")
    assert second == PgnGame("b", "a", "*")
    assert [tuple(score) for score in pgn.scores([first, second])] == [("a", "b", 0, 1, 0)]


def test_several_games_may_stand_in_one_line():
    one = '[White "a"] [Black "b"] [Result "1-0"] . '
    assert pgn.read(one * 3) == [PgnGame("a", "b", "1-0")] * 3


@pytest.mark.parametrize(
    "text",
    [
        '[White "a"] [Black "b"]',
        '[White "a"] [White "b"]',
        '[White "a"] [Black "b"] [Result "2-0"]',
        '[Date "1"] [White "a"]',
    ],
)
def test_games_without_players_or_result_are_refused(text):
    with pytest.raises(pgn.PgnError, match=r"line 1: .*(Result|result)"):
        pgn.read(text)


def test_a_quotation_mark_in_a_name_does_not_end_it():
    assert pgn.read(pgn.write([PgnGame('gtp:x "y"', "b", "1-0")])) == [PgnGame("gtp:x 'y'", "b", "1-0")]
