"""Game records: text and back, replayed by the rules, drawn."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azjax.common.agent import RESIGN, Agent
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, PgxGame
from azjax.evaluation import arena, records
from azjax.evaluation.records import GameRecord, RecordError

HEX = Hex(size=3)
# The first sample record of Daliri 2022: a win for Black in five moves.
SAMPLE = "(;AP[HexGui:0.9.GIT]FF[4]GM[11]SZ[3];B[b2];W[b1];B[c1];W[b3];B[a3])"


def random_record(game, seed: int) -> GameRecord:
    random, moves = np.random.default_rng(seed), []
    x = game.init(jax.random.key(0))
    while not bool(game.is_terminal(x)):
        moves.append(int(random.choice(np.flatnonzero(game.legal_action_mask(x)))))
        x = records._step(game)(x, moves[-1])
    return GameRecord(game, tuple(moves), ('uct:200?c=1 "x"', "b\\]"), int(np.sign(game.rewards(x)[0])))


def test_the_sample_game_of_daliri_is_a_win_for_black():
    (record,) = records.from_sgf(SAMPLE)
    final = records.replay(record)[-1]
    assert record.game == HEX and [HEX.action_to_text(m) for m in record.moves] == "b2 b1 c1 b3 a3".split()
    assert bool(final.over) and HEX.rewards(final)[0] == 1


def test_sgf_is_written_as_hexgui_writes_it():
    record = GameRecord(HEX, (4, 1), ("a", "b"), -1, "resignation")
    assert records.to_sgf(record).endswith("FF[4]GM[11]SZ[3]PB[a]PW[b]RE[W+R];B[b2];W[b1])")


@pytest.mark.parametrize("game", [HEX, Hex(size=2, swap=True)])
def test_a_game_of_hex_survives_sgf(game):
    for seed in range(4):
        record = dataclasses.replace(random_record(game, seed), opening_plies=seed)
        assert records.from_sgf(records.to_sgf(record)) == [record]


@pytest.mark.parametrize(
    "game", [HEX, DotsAndBoxes(2, 2), ChineseCheckers(size=3, pieces=1), PgxGame("tic_tac_toe")]
)
def test_any_game_survives_the_plain_notation(game):
    record = random_record(game, 1)
    again = records.from_plain(records.to_plain(record) + "\n" + records.to_plain(record))
    assert again == [record, record]
    assert records.replay(again[0])[-1]


def test_a_game_from_a_position_survives_both_notations():
    record = GameRecord(HEX, (0,), ("a", "b"), None, start="3/1b1/2w b")
    assert records.from_sgf(records.to_sgf(record)) == [record]
    assert "AB[b2]AW[c3]PL[B]" in records.to_sgf(record)
    assert records.from_plain(records.to_plain(record)) == [record]


def test_the_plain_notation_can_be_typed_by_hand():
    text = '[Game "dots_and_boxes rows=1 columns=1"]\n[Result "0-1"]\na1-b1 b1-b2\n3. a1-a2 4. a2-b2'
    (record,) = records.from_plain(text)
    assert record.game == DotsAndBoxes(1, 1) and len(record.moves) == 4
    records.replay(record)  # the second player completes the box


def test_only_the_main_line_of_variations_is_read():
    text = "(;GM[11]SZ[3];B[a1](;W[b1];B[c1])(;W[b2]))(;GM[11]SZ[2];B[a1])"
    first, second = records.from_sgf(text)
    assert [first.game.action_to_text(m) for m in first.moves] == ["a1", "b1", "c1"]
    assert second.game.size == 2


def test_a_swap_is_read_in_both_spellings():
    for word in ("swap", "swap-pieces"):
        (record,) = records.from_sgf(f"(;GM[11]SZ[3];B[a2];W[{word}];B[c3])")
        assert record.game.swap and record.moves == (3, 9, 8)
        # The black stone on a2 has become a white one on b1.
        assert HEX.to_notation(records.replay(record)[2]) == "1w1/3/3 b"


def test_a_resignation_as_last_move_decides():
    (record,) = records.from_sgf("(;GM[11]SZ[3];B[a1];W[resign])")
    assert (record.result, record.ending, record.moves) == (1, "resignation", (0,))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("hello", "no SGF"),
        ("(;GM[11]SZ[3];B[a1]", "end is missing"),
        ("(;GM[11]SZ[3]))", "closes nothing"),
        ("(;GM[1]SZ[3])", "another game"),
        ("(;GM[11]SZ[big])", "no size"),
        ("(;GM[11]SZ[3];B[a1];B[a2])", "out of turn"),
        ("(;GM[11]SZ[3];B[z9])", "outside"),
        ("(;GM[11]SZ[99];B[a1])", "size must be"),
        ("SZ[3]", "begins with"),
    ],
)
def test_what_is_no_sgf_of_hex_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        records.from_sgf(text)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("1. a1", "line 1.*begins with a tag"),
        ('[Game "hex size=3"]\n[Result "2-0"]\n1. a1', "'2-0' is no result"),
        ('\n[Game "hex size=3"]\n1. a9', "line 2.*outside"),
        ('[Game "chess960"]', "unknown game"),
        ('[Game ""]', "unknown game"),
        ('[Game "hex size=3"]\n[Opening "x"]\n1. a1', "opening moves"),
    ],
)
def test_what_is_no_plain_record_is_refused(text, complaint):
    with pytest.raises(RecordError, match=complaint):
        records.from_plain(text)


@given(st.text(alphabet="();BW[]a1\\ \nSZGMRE-+", max_size=40))
@settings(max_examples=200, deadline=None)
def test_reading_garbage_fails_only_with_a_clear_error(text):
    for read in (records.from_sgf, records.from_plain):
        try:
            read(text)
        except ValueError as error:
            assert str(error)


def test_a_replay_notices_illegal_moves_and_wrong_results():
    (record,) = records.from_sgf(SAMPLE)
    with pytest.raises(RecordError, match="move 2"):
        records.replay(dataclasses.replace(record, moves=(4, 4)))
    with pytest.raises(RecordError, match="ended 1-0"):
        records.replay(dataclasses.replace(record, result=-1))
    with pytest.raises(RecordError, match="not over"):
        records.replay(dataclasses.replace(record, moves=record.moves[:4], result=1))


@pytest.mark.parametrize("name", ["games.sgf", "games.txt"])
def test_files_hold_many_games_and_can_be_added_to(tmp_path, name):
    games = [random_record(HEX, seed) for seed in range(3)]
    records.write_records(tmp_path / name, games[:2])
    records.write_records(tmp_path / name, games[2:], append=True)
    assert records.read_records(tmp_path / name) == games


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "bad.sgf").write_text("nothing")
    with pytest.raises(RecordError, match=r"bad\.sgf"):
        records.read_records(tmp_path / "bad.sgf")


def test_sgf_is_refused_for_other_games():
    with pytest.raises(RecordError, match="plain notation"):
        records.to_sgf(GameRecord(DotsAndBoxes(1, 1), ()))


def test_a_picture_shows_the_number_of_every_stone():
    (record,) = records.from_sgf(SAMPLE)
    picture = records.draw(record)
    assert all(f">{number}</text>" in picture for number in range(1, 6))
    early = records.draw(record, 2)
    assert early.count("<circle") < picture.count("<circle")
    with pytest.raises(RecordError, match="0 to 5"):
        records.draw(record, 6)


def test_a_swap_is_written_as_hexgui_has_it_and_read_as_either_kind():
    # HexGui leaves the stone on a2 and lets White move twice; elsewhere the stone becomes a white one on b1.
    (mirrored,) = records.from_sgf("(;GM[11]SZ[3];B[a2];W[swap-pieces];W[c1];B[b3])")
    (moved,) = records.from_sgf("(;GM[11]SZ[3];B[a2];W[swap-pieces];B[a3];W[c2])")
    assert mirrored.moves == moved.moves == (3, 9, 6, 5)
    assert records.to_sgf(moved).endswith(";B[a2];W[swap-pieces];W[c1];B[b3])")
    with pytest.raises(records.RecordError, match=r"B\[c2\] comes out of turn: White is to move"):
        records.from_sgf("(;GM[11]SZ[3];B[a2];W[swap];B[a3];B[c2])")
    with pytest.raises(records.RecordError, match=r"W\[c2\] comes out of turn: Black is to move"):
        records.from_sgf("(;GM[11]SZ[3];B[a2];W[swap];W[a3];W[c2])")


def test_a_picture_after_a_swap_numbers_the_stone_where_it_stands_now():
    (record,) = records.from_sgf("(;GM[11]SZ[3];B[a2];W[swap];B[c3])")
    picture = records.draw(record)
    assert picture.count("<circle") >= 2 and ">2</text>" in picture


def test_every_game_can_be_drawn():
    for game in (DotsAndBoxes(2, 2), ChineseCheckers(size=3, pieces=1), PgxGame("tic_tac_toe")):
        assert records.draw(random_record(game, 0)).startswith("<svg")


def test_the_games_of_a_match_carry_names_results_and_endings():
    def act(params, key, states):
        stones = (states.board != 0).sum(1)
        return np.where(stones < 2, np.argmax(states.board == 0, 1), RESIGN)

    quitter = Agent("quitter", act, on_host=True)
    result = arena.make_match(HEX, quitter, quitter, pairs=1)(None, None, jax.random.key(0))
    first, second = records.of_match(HEX, "A", "B", result)
    assert (first.players, second.players) == (("A", "B"), ("B", "A"))
    assert (first.moves, first.result, first.ending) == ((0, 1), -1, "resignation")
    records.replay(first)
