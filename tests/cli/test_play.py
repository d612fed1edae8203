"""The commands people use: play, match and tournament."""

import io
import json

import jax
import numpy as np
import pytest
from rich.console import Console

from azjax import cli
from azjax.agents import human
from azjax.cli.play import Session
from azjax.common.agent import FORFEIT, RESIGN, Agent
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.evaluation import records

HEX = Hex(size=3)


def lowest(game) -> Agent:
    def act(params, key, states):
        return np.argmax(np.asarray(jax.vmap(game.legal_action_mask)(states)), 1)

    return Agent("lowest", act, on_host=True)


def constant(answer: int) -> Agent:
    return Agent("constant", lambda params, key, x: np.array([answer]), on_host=True)


def script(*lines: str):
    """Reads the lines one by one, then reports the end of the input."""
    waiting = list(lines)

    def read(prompt: str = "") -> str:
        if not waiting:
            raise EOFError
        return waiting.pop(0)

    return read


def played(*lines: str, game=HEX, agent=None, adviser=None, side=0) -> tuple[records.GameRecord, str]:
    """The record and all that was shown."""
    out = io.StringIO()
    agent = agent or lowest(game)
    session = Session(game, agent, adviser or agent, side, Console(file=out, width=100))
    return session.play(script(*lines)), out.getvalue()


def texts(record: records.GameRecord) -> list[str]:
    return [record.game.action_to_text(action) for action in record.moves]


def test_a_game_is_played_to_its_end_and_recorded():
    record, shown = played("b2", "b1", "b3")
    # The agent takes a1, then c1; b1, b2, b3 join top and bottom.
    assert texts(record) == ["b2", "a1", "b1", "c1", "b3"]
    assert (record.result, record.players) == (1, ("you", "lowest"))
    assert "You have won." in shown and "lowest plays a1" in shown
    records.replay(record)


def test_the_agent_begins_if_you_are_second():
    record, shown = played("b2", "resign", side=1)
    assert texts(record)[0] == "a1" and record.players == ("lowest", "you")
    assert (record.result, record.ending) == (1, "resignation") and "You have lost." in shown


def test_undo_takes_back_your_move_and_the_answer():
    record, _ = played("b2", "undo", "c3", "quit")
    assert texts(record) == ["c3", "a1"] and record.result is None


def test_undo_before_your_first_move_changes_nothing():
    record, shown = played("undo", side=1)
    assert texts(record) == ["a1"] and "no move of yours" in shown


def test_undo_after_two_moves_in_a_row_takes_back_one():
    # You a2-b2, the agent a1-b1, you a1-a2, the agent b1-c1; with b1-b2 you have a box and are to move again.
    record, _ = played("a2-b2", "a1-a2", "b1-b2", "undo", "quit", game=DotsAndBoxes(1, 2))
    assert texts(record) == ["a2-b2", "a1-b1", "a1-a2", "b1-c1"]


def test_a_hint_comes_from_the_adviser_and_plays_nothing():
    record, shown = played("hint", "quit", adviser=constant(8))
    assert "hint: c3" in shown and record.moves == ()
    assert "would resign" in played("hint", adviser=constant(RESIGN))[1]


def test_wrong_moves_are_explained_and_asked_again():
    record, shown = played("b2", "a1", "z9", "nonsense", "b1", "b3")
    assert "'a1' is occupied" in shown and "'z9' is outside" in shown and "'nonsense' is not a cell" in shown
    assert record.result == 1


def test_help_moves_and_board_are_shown_on_request():
    _, shown = played("help", "moves", "board", "quit")
    assert "take back" in shown and "a1 b1 c1 a2" in shown and shown.count("Black to move") == 2


@pytest.mark.parametrize("answer, said", [(RESIGN, "constant resigns"), (FORFEIT, "forfeits")])
def test_an_agent_that_gives_up_has_lost(answer, said):
    record, shown = played("b2", agent=constant(answer))
    assert record.result == 1 and said in shown and "You have won." in shown


def test_the_end_of_the_input_stops_the_game():
    record, shown = played("b2")
    assert record.result is None and "Stopped" in shown


def test_pieces_have_their_players_colours_and_the_last_move_stands_out():
    before = HEX.step(HEX.init(jax.random.key(0)), 4)
    text = human.board_text(HEX, HEX.step(before, 0), before)
    styled = {(text.plain[span.start : span.end], span.style) for span in text.spans}
    assert styled == {
        ("B", human.PLAYER_STYLES[0]),
        ("W", human.PLAYER_STYLES[1]),
        ("W", human.CHANGED_STYLE),
    }


@pytest.mark.parametrize("game", [DotsAndBoxes(2, 2), ChineseCheckers(size=3, pieces=1)])
def test_every_game_has_a_coloured_board_with_its_own_text(game):
    x = game.init(jax.random.key(0))
    after = jax.jit(game.step)(x, int(np.argmax(jax.jit(game.legal_action_mask)(x))))
    text = human.board_text(game, after, x)
    assert text.plain == game.to_text(after)
    assert any(span.style == human.CHANGED_STYLE for span in text.spans)


def test_a_person_as_an_agent_is_asked_until_the_move_is_legal():
    out = io.StringIO()
    agent = human.make(HEX, console=Console(file=out), read=script("z9", "b2", "resign"))
    x = jax.tree.map(lambda leaf: np.stack([leaf] * 3), HEX.init(jax.random.key(0)))
    # Three games: a move after a mistake, a resignation, and the end of the input.
    assert agent.act((), None, x).tolist() == [4, RESIGN, RESIGN]
    assert agent.on_host and "outside" in out.getvalue()


def run(capsys, *arguments: str) -> str:
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_the_play_command_keeps_the_game(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("builtins.input", script("b2", "resign"))
    record, picture = tmp_path / "game.sgf", tmp_path / "board.svg"
    out = run(
        capsys,
        "play",
        "hex",
        "random",
        "--size",
        "3",
        "--record",
        str(record),
        "--draw",
        str(picture),
        "--json",
    )
    assert json.loads(out)["moves"][0] == "b2" and json.loads(out)["result"] == "0-1"
    assert records.read_records(record)[0].ending == "resignation"
    assert picture.read_text().startswith("<svg")


def test_the_match_command_counts_with_intervals_and_keeps_the_games(capsys, tmp_path):
    games = tmp_path / "games.sgf"
    match = ["match", "hex", "random", "random", "--size", "3", "--pairs", "4", "--random-plies", "1"]
    out = json.loads(run(capsys, *match, "--json", "--records", str(games)))
    assert out["games"] == 8 == out["wins"] + out["losses"] and out["size"] == 3
    assert out["interval"][0] <= out["score"] <= out["interval"][1]
    wins = sum(r.result == 1 for r in records.read_records(games))
    assert wins == out["first"]["wins"] + out["second"]["losses"]
    assert "95 % interval" in run(capsys, *match)


@pytest.fixture
def all_play_lowest(monkeypatch):
    """Whatever the name, the agent plays the lowest legal action."""
    monkeypatch.setattr(
        "azjax.agents.make_agent", lambda text, game, **options: lowest(game)._replace(name=text)
    )


def test_the_match_command_reports_repeated_games(capsys, all_play_lowest):
    out = run(capsys, "match", "hex", "a", "b", "--size", "3", "--pairs", "4")
    assert "6 of 8 games repeat others" in out


def test_a_tournament_is_played_rated_and_continued(capsys, tmp_path, all_play_lowest):
    out = tmp_path / "results.jsonl"
    begin = ["tournament", "hex", "--size", "3", "--pairs", "4", "--out", str(out), "--json"]
    first = json.loads(run(capsys, *begin, "a", "b"))
    again = json.loads(run(capsys, *begin, "a", "b"))
    assert len(first["matches"]) == 1 and again == first, "nothing is played twice"
    more = json.loads(run(capsys, *begin, "a", "b", "c", "--anchor", "b", "--anchor-elo", "1000"))
    assert more["matches"][0] == first["matches"][0] and len(more["matches"]) == 3
    assert next(rating for rating in more["ratings"] if rating["name"] == "b")["elo"] == 1000
    assert out.with_suffix(".csv").read_text().startswith("player,")
    assert out.with_suffix(".svg").read_text().startswith("<svg")
    table = run(capsys, *begin[:-1], "a", "b", "c", "--rating", "bayesian")
    assert "Ratings" in table and "4/8" in table


def test_a_ladder_prints_its_standing(capsys, tmp_path):
    out = run(
        capsys,
        "tournament", "hex", "random", "uct:2", "--size", "3", "--pairs", "4", "--kind", "ladder",
        "--out", str(tmp_path / "ladder.jsonl"),
    )  # fmt: skip
    assert "Ladder from the top: " in out


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("match", "hex", "nobody", "random"), "nobody"),
        (("match", "hex", "random", "random", "--pairs", "0"), "pairs must be at least 1, got 0"),
        (("tournament", "hex", "random", "random"), "different players"),
        (("play", "hexagon", "random"), "unknown game"),
    ],
)
def test_what_a_user_got_wrong_is_one_line(capsys, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert cli.main(list(arguments)) == 2
    error = capsys.readouterr().err
    assert complaint in error and len(error.strip().splitlines()) == 1


def test_two_agents_play_and_take_turns_at_moving_first(tmp_path, capsys):
    kept, drawn = tmp_path / "games.txt", tmp_path / "last.svg"
    command = ["play", "hex", "random", "hexy?depth=1", "--size", "3", "--games", "3", "--vis", "--json"]
    assert cli.main([*command, "--record", str(kept), "--draw", str(drawn)]) == 0
    printed = capsys.readouterr()
    games = records.read_records(kept)
    assert [game.players[0] for game in games] == ["random", "hexy?depth=1", "random"]
    assert all(records.replay(game) for game in games)
    said = [json.loads(line) for line in printed.out.splitlines()]
    assert [game["moves"] for game in said] == [texts(game) for game in games]
    assert [game["result"] for game in said] == [game.result_text for game in games]
    # Every move is shown, and the points are those of the results: Black has won where 1-0 stands.
    assert printed.err.count(" plays ") == sum(len(game.moves) for game in games)
    won = sum((game.result == 1) == (game.players[0] == "random") for game in games)
    assert f"random {won}, hexy?depth=1 {3 - won}" in printed.err
    assert drawn.read_text().startswith("<svg")


@pytest.mark.parametrize(
    "options, wrong",
    [
        (["random", "--games", "2"], "--games and --vis are for two agents"),
        (["random", "--vis"], "--games and --vis are for two agents"),
        (["random", "random", "--side", "second"], "are for a person who plays"),
    ],
)
def test_what_two_agents_do_not_need_is_refused(capsys, options, wrong):
    assert cli.main(["play", "hex", *options, "--size", "3"]) == 2
    assert wrong in capsys.readouterr().err
