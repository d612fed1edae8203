"""Tournaments: schedules, the results file, the cross table."""

import csv
import io
import itertools
import json
import xml.etree.ElementTree as ElementTree

import pytest

from azjax.agents.plain import random_agent
from azjax.envs import Hex
from azjax.evaluation import pgn, tournament
from azjax.evaluation.arena import Outcomes
from azjax.evaluation.ratings import bayesian_elo
from azjax.evaluation.tournament import Match, Results, TournamentError

HEX = Hex(size=3)
SETTINGS = {"pairs": 2}


def match(player: str, opponent: str, wins: int, losses: int) -> Match:
    """A match of `wins` + `losses` games: all wins moving first, all losses moving second."""
    return Match(player, opponent, Outcomes(wins, 0, 0), Outcomes(0, 0, losses), wins + losses)


def play_out(schedule, players, strength, known=()) -> list[tuple[str, str]]:
    """Plays a schedule where the stronger always wins, until it is over; returns the matches."""
    results = {frozenset((m.player, m.opponent)): m for m in known}

    def played(player, opponent):
        found = results.get(frozenset((player, opponent)))
        return found if found is None or found.player == player else found.turned()

    order = []
    while (pairing := schedule(players, played)) is not None:
        assert frozenset(pairing) not in results, "a match is played twice"
        a, b = pairing
        results[frozenset(pairing)] = match(a, b, 2, 0) if strength[a] > strength[b] else match(a, b, 0, 2)
        order.append(pairing)
    return (
        order if schedule is tournament.round_robin else [*order, tournament.ladder_standing(players, played)]
    )


def test_in_a_round_robin_every_pair_meets_once():
    players = ["a", "b", "c", "d"]
    order = play_out(tournament.round_robin, players, dict(zip(players, range(4))))
    assert sorted(map(sorted, order)) == sorted(map(list, itertools.combinations(players, 2)))


def test_a_newcomer_adds_its_matches_alone():
    known = [match("a", "b", 2, 0)]
    assert play_out(tournament.round_robin, ["a", "b", "c"], {"a": 2, "b": 1, "c": 0}, known) == [
        ("a", "c"),
        ("b", "c"),
    ]


@pytest.mark.parametrize("players", list(itertools.permutations("abcd")))
def test_a_ladder_ends_with_the_players_in_order_of_strength(players):
    *_, standing = play_out(tournament.ladder, players, {"a": 4, "b": 3, "c": 2, "d": 1})
    assert standing == ["a", "b", "c", "d"]


def test_a_ladder_in_rising_order_needs_every_step_and_in_falling_order_only_neighbours():
    strength = {"a": 4, "b": 3, "c": 2, "d": 1}
    assert len(play_out(tournament.ladder, "abcd", strength)) == 3 + 1
    assert len(play_out(tournament.ladder, "dcba", strength)) == 6 + 1


def test_half_the_points_are_not_enough_to_climb():
    even = Match("b", "a", Outcomes(1, 0, 1), Outcomes(1, 0, 1), 4)
    assert tournament.ladder_standing(["a", "b"], lambda player, opponent: even) == ["a", "b"]


def test_a_results_file_is_continued(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path, HEX, SETTINGS).add(match("a", "b", 3, 1))
    again = Results(path, HEX, SETTINGS)
    again.add(match("b", "a", 2, 2))
    assert Results(path, HEX, SETTINGS).matches == [match("a", "b", 3, 1), match("b", "a", 2, 2)]


def test_matches_between_two_players_add_up_from_either_side(tmp_path):
    results = Results(tmp_path / "r", HEX, SETTINGS)
    results.add(match("a", "b", 3, 1))
    results.add(match("b", "a", 2, 2))
    # a: 3 wins moving first, 1 loss moving second; then 2 losses moving second, 2 wins moving first.
    both = results.played("a", "b")
    assert (both.first, both.second) == (Outcomes(5, 0, 0), Outcomes(0, 0, 3))
    assert results.played("b", "a") == both.turned() and results.played("a", "c") is None


def test_a_line_cut_off_in_the_middle_is_dropped(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path, HEX, SETTINGS).add(match("a", "b", 3, 1))
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[-1][:30])
    assert len(Results(path, HEX, SETTINGS).matches) == 1
    assert path.read_text() == whole


def test_another_game_or_other_settings_do_not_mix(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path, HEX, SETTINGS)
    for game, settings in ((Hex(size=4), SETTINGS), (HEX, {"pairs": 3})):
        with pytest.raises(TournamentError, match="another tournament"):
            Results(path, game, settings)


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    Results(path, HEX, SETTINGS)
    for line in ("nonsense\n", '{"player": "a"}\n', "[]\n"):
        broken = tmp_path / "broken.jsonl"
        broken.write_text(path.read_text() + line)
        with pytest.raises(TournamentError, match="line 2"):
            Results(broken, HEX, SETTINGS)


def test_the_header_names_the_game_and_how_it_was_played(tmp_path):
    Results(tmp_path / "r", HEX, SETTINGS)
    header = json.loads((tmp_path / "r").read_text())
    assert header == {"format": 1, "game": "hex", "size": 3, "settings": {"pairs": 2}}


@pytest.fixture
def finished(tmp_path) -> Results:
    results = Results(tmp_path / "finished", HEX, SETTINGS)
    results.add(Match("b", "a", Outcomes(1, 1, 0), Outcomes(0, 0, 2), 4))
    results.add(match("a", "c", 2, 0))
    return results


def test_the_cross_table_is_sorted_by_score(finished):
    # a: 2.5 of 4 and 2 of 2; b: 1.5 of 4; c: 0 of 2.
    table = tournament.cross_table(finished)
    assert table.players == ["a", "b", "c"] and table.scores == [4.5 / 6, 1.5 / 4, 0]
    assert table.cells[1][2] is None and table.cells[0][1].score == 2.5 / 4


def test_the_cross_table_as_text_shows_points_and_games(finished):
    assert tournament.cross_text(tournament.cross_table(finished)).splitlines() == [
        "   player      1      2    3   score  games",
        "1  a           -  2.5/4  2/2  75.0 %      6",
        "2  b       1.5/4      -       37.5 %      4",
        "3  c         0/2           -   0.0 %      2",
    ]


def test_the_cross_table_as_csv_can_be_read_by_machines(finished):
    table = tournament.cross_table(finished)
    rows = list(csv.DictReader(io.StringIO(tournament.cross_csv(table))))
    assert rows[0] == {"player": "a", "a": "", "b": "2/1/1", "c": "2/0/0", "score": "0.7500", "games": "6"}
    rated = tournament.cross_csv(table, bayesian_elo(finished.scores()))
    assert float(next(csv.DictReader(io.StringIO(rated)))["elo"]) > 0


def test_the_cross_table_as_svg_is_well_formed_and_complete(finished):
    picture = tournament.cross_svg(tournament.cross_table(finished))
    texts = [element.text for element in ElementTree.fromstring(picture).iter() if element.text]
    assert {"1 a", "2.5/4", "1.5/4", "75.0 %"} <= set(texts)


def test_scores_for_ratings_tell_who_moved_first(finished):
    scores = {(s.first, s.second): tuple(s[2:]) for s in finished.scores()}
    assert scores == {("b", "a"): (1, 1, 0), ("a", "b"): (2, 0, 0), ("a", "c"): (2, 0, 0)}


def test_results_can_be_given_to_other_rating_programs(finished):
    lines = tournament.to_pgn(finished).splitlines()
    assert len(lines) == 6 and lines[0] == '[White "b"] [Black "a"] [Result "1-0"] .'


def test_results_come_back_from_pgn_as_they_were(finished):
    again = pgn.scores(pgn.read(tournament.to_pgn(finished)))
    assert bayesian_elo(again) == bayesian_elo(finished.scores())


LEARNED = [f"{run} {updates}" for run in ("H1", "H2") for updates in range(0, 1201, 200)]
PLAYERS_OF_2019 = [*LEARNED, "MCTS", "Hexy"]


def test_the_tournament_of_jacobsen_2019_has_352_games_and_two_more():
    meetings = tournament.read_meetings(1, ["MCTS=5", "MCTS vs Hexy=1"], PLAYERS_OF_2019)
    pairs = [meetings(a, b) for a, b in itertools.combinations(PLAYERS_OF_2019, 2)]
    assert 2 * sum(pairs) == 352
    assert meetings("H2 0", "MCTS") == meetings("MCTS", "H2 0") == 5 and meetings("Hexy", "MCTS") == 1
    late = ["MCTS=5", "MCTS vs Hexy=1", "H2 2400=0", "Hexy vs H2 2400=1"]
    meetings = tournament.read_meetings(1, late, [*PLAYERS_OF_2019, "H2 2400"])
    assert [name for name in PLAYERS_OF_2019 if meetings(name, "H2 2400")] == ["Hexy"]


def test_matches_have_the_games_they_are_said_to_have_and_none_if_none(tmp_path):
    agents = {name: random_agent(HEX)._replace(name=name) for name in "abc"}
    meetings = tournament.read_meetings(2, ["b=1", "b vs c=0"], list(agents))
    results = Results(tmp_path / "r", HEX, SETTINGS)
    tournament.play(results, HEX, agents, pairs=meetings)
    games = {(m.player, m.opponent): m.first.games + m.second.games for m in results.matches}
    assert games == {("a", "b"): 2, ("a", "c"): 4}


@pytest.mark.parametrize("text", ["a", "a=", "a=-1", "d=2", "a vs d=2", "a vs a=2", "a vs b vs c=2"])
def test_what_does_not_say_how_many_games_a_match_has_is_refused(text):
    with pytest.raises(TournamentError, match="does not say how many pairs"):
        tournament.read_meetings(1, [text], ["a", "b", "c"])


def test_an_empty_tournament_has_no_cross_table(tmp_path):
    with pytest.raises(TournamentError, match="no match"):
        tournament.cross_table(Results(tmp_path / "r", HEX, SETTINGS))
