"""Ratings against the tables of Jacobsen 2019, against choix, and against hand calculations."""

import functools
import math
import pathlib

import choix
import numpy as np
import pytest

from azjax.evaluation import pgn
from azjax.evaluation.ratings import RatingError, Score, bayesian_elo, maximum_likelihood, tabulate

APPENDIX_D = pathlib.Path(__file__).parents[1] / "data" / "jacobsen2019_appendix_d.txt"
HEXY, MCTS = "Hexy (expert)", "baseline MCTS (10000)"
# Jacobsen 2019, appendix D: one game for each ordered pair of learned agents. A row moves first against
# H1 0, 200 ... 1200, then H2 0, 200 ... 1200; 1 where the row won.
LEARNED = {
    "H1 0": "-0000001100000",
    "H1 200": "1-000001000000",
    "H1 400": "11-00001000000",
    "H1 600": "111-0001111000",
    "H1 800": "1111-001111100",
    "H1 1000": "11111-01111110",
    "H1 1200": "111111-1111110",
    "H2 0": "0000000-000000",
    "H2 200": "10000001-00000",
    "H2 400": "111000011-0000",
    "H2 600": "1110000111-000",
    "H2 800": "11101001111-00",
    "H2 1000": "111110011111-0",
    "H2 1200": "1111111111111-",
}
# Wins of five games moving first, and of five moving second, against UCT with 10,000 simulations; others won none.
AGAINST_MCTS = {
    "H1 800": (4, 1),
    "H1 1000": (4, 4),
    "H1 1200": (5, 5),
    "H2 1000": (2, 1),
    "H2 1200": (3, 5),
}
# Appendix C: Elo, +, -, games, score in per cent, mean rating of the opponents.
TABLE_1 = """
Hexy (expert),888,343,212,30,100,-59
H2 1200,659,183,150,38,89,30
H1 1200,644,179,143,38,89,31
H1 1000,478,145,132,38,79,40
baseline MCTS (10000),307,79,76,142,75,-72
H2 1000,225,129,130,38,61,53
H1 800,190,131,133,38,58,55
H2 800,-19,131,140,38,42,66
H1 600,-56,132,141,38,39,68
H2 600,-177,138,146,38,32,74
H2 400,-263,143,150,38,26,79
H1 400,-400,150,164,38,18,86
H1 200,-504,158,178,38,13,91
H2 200,-505,161,182,38,13,91
H1 0,-620,167,203,38,8,97
H2 0,-848,199,339,38,0,109
"""
TABLE_2 = """
Hexy (expert),843,229,181,32,97,-53
H2 2400,843,335,342,2,50,843
H2 1200,607,184,151,38,89,-23
H1 1200,593,180,144,38,89,-22
H1 1000,426,146,132,38,79,-13
baseline MCTS (10000),254,79,76,142,75,-125
H2 1000,172,130,131,38,61,0
H1 800,137,132,134,38,58,2
H2 800,-73,132,141,38,42,13
H1 600,-109,132,142,38,39,15
H2 600,-230,139,147,38,32,21
H2 400,-317,143,151,38,26,26
H1 400,-453,151,165,38,18,33
H1 200,-558,158,179,38,13,39
H2 200,-559,161,183,38,13,39
H1 0,-675,168,204,38,8,45
H2 0,-903,200,333,38,0,57
"""


@functools.cache
def tournament_of_2019() -> list[Score]:
    """The games of appendix D, as it was printed."""
    return pgn.scores(pgn.read(APPENDIX_D.read_text(encoding="utf-8")))


def typed_by_hand() -> list[Score]:
    """The same games from the tables above."""
    scores = []
    for first, row in LEARNED.items():
        for second, cell in zip(LEARNED, row):
            if cell != "-":
                scores.append(Score(first, second, int(cell), 0, 1 - int(cell)))
    for name in LEARNED:
        first, second = AGAINST_MCTS.get(name, (0, 0))
        scores += [Score(name, MCTS, first, 0, 5 - first), Score(MCTS, name, 5 - second, 0, second)]
    for name in [*LEARNED, MCTS]:
        scores += [Score(name, HEXY, 0, 0, 1), Score(HEXY, name, 1)]
    return scores


def printed(number: float) -> int:
    """Rounded half away from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def assert_reproduces(scores: list[Score], table: str) -> None:
    expected = {}
    for line in table.split("\n")[1:-1]:
        name, *numbers = line.split(",")
        expected[name] = tuple(map(int, numbers))
    found = {
        r.name: (
            *map(printed, (r.elo, r.plus, r.minus)),
            r.games,
            printed(100 * r.score),
            printed(r.opponents),
        )
        for r in bayesian_elo(scores)
    }
    assert found == expected


def test_the_file_holds_the_352_games_that_were_typed_by_hand():
    by_hand = [score for score in typed_by_hand() for _ in range(int(score.wins + score.losses))]
    assert len(by_hand) == len(tournament_of_2019()) == 352

    def counted(scores):
        table = tabulate(scores)
        order = np.argsort(table.players)
        return sorted(table.players), *(part[np.ix_(order, order)].tolist() for part in table[1:])

    assert counted(typed_by_hand()) == counted(tournament_of_2019())


def test_bayesian_elo_prints_the_first_table_of_jacobsen():
    assert_reproduces(tournament_of_2019(), TABLE_1)


def test_bayesian_elo_prints_the_second_table_of_jacobsen():
    more = [Score("H2 2400", HEXY, 1), Score(HEXY, "H2 2400", 1)]
    assert_reproduces(tournament_of_2019() + more, TABLE_2)


def test_bayesian_elo_does_not_depend_on_the_order_of_the_results():
    scores = tournament_of_2019()
    order = np.random.default_rng(0).permutation(len(scores))
    assert_reproduces([scores[i] for i in order], TABLE_1)


def test_the_best_rating_comes_first():
    elos = [rating.elo for rating in bayesian_elo(tournament_of_2019())]
    assert elos == sorted(elos, reverse=True)


@pytest.mark.parametrize("wins, difference", [(1, 82.607), (2, 138.969), (3, 181.246), (5, 242.832)])
def test_bayesian_elo_of_two_players_matches_the_solved_equation(wins, difference):
    # One player always moves first and wins all; solved to twelve digits, then scaled by 0.92549659.
    best, worst = bayesian_elo([Score("a", "b", wins)], tolerance=1e-12)
    assert best.elo - worst.elo == pytest.approx(difference, abs=5e-4)


def test_one_win_each_moving_first_leaves_two_players_equal():
    assert [r.elo for r in bayesian_elo([Score("a", "b", 1), Score("b", "a", 1)])] == pytest.approx([0, 0])


def random_scores(players: int, draws: bool) -> list[Score]:
    random = np.random.default_rng(players)
    names = [f"p{i}" for i in range(players)]
    return [
        Score(a, b, *(float(n) for n in random.integers(1, 9, 3) * (1, draws, 1)))
        for a in names
        for b in names
        if a != b
    ]


def choix_elo(scores: list[Score]) -> dict[str, float]:
    names = sorted({s.first for s in scores})
    wins = np.zeros((len(names), len(names)))
    for s in scores:
        wins[names.index(s.first), names.index(s.second)] += s.wins
        wins[names.index(s.second), names.index(s.first)] += s.losses
    strengths = choix.ilsr_pairwise_dense(wins, tol=1e-12)
    return dict(zip(names, 400 / math.log(10) * (strengths - strengths.mean())))


def test_maximum_likelihood_without_draws_agrees_with_choix():
    scores = random_scores(6, draws=False)
    ours = {r.name: r.elo for r in maximum_likelihood(scores)}
    assert ours == pytest.approx(choix_elo(scores), abs=1e-5)


def test_an_anchor_keeps_its_rating_and_all_differences():
    scores = random_scores(5, draws=True)
    free = {r.name: r.elo for r in maximum_likelihood(scores)}
    anchored = {r.name: r.elo for r in maximum_likelihood(scores, anchor="p2", anchor_elo=1500)}
    assert anchored == pytest.approx({name: elo - free["p2"] + 1500 for name, elo in free.items()})


def test_the_interval_of_two_players_is_the_binomial_one():
    # 30 of 40: the log odds have variance 1/30 + 1/10, and the anchor none.
    best, anchor = maximum_likelihood([Score("a", "b", 15, 0, 5), Score("b", "a", 5, 0, 15)], anchor="b")
    assert best.elo == pytest.approx(400 * math.log10(3))
    assert best.plus == pytest.approx(1.959964 * 400 / math.log(10) * math.sqrt(1 / 30 + 1 / 10))
    assert (anchor.elo, anchor.plus, anchor.minus) == (0, 0, 0)


def test_the_model_with_draws_reproduces_every_players_points():
    # In Davidson's model the fitted expectation of points, and of draws, equals what was observed.
    scores = random_scores(5, draws=True)
    strength = {r.name: 10 ** (r.elo / 400) for r in maximum_likelihood(scores)}
    games = [s.wins + s.draws + s.losses for s in scores]

    def expected(v: float) -> tuple[float, dict[str, float]]:
        draws, points = 0.0, dict.fromkeys(strength, 0.0)
        for s, n in zip(scores, games):
            g, h = strength[s.first], strength[s.second]
            middle = v * math.sqrt(g * h)
            draws += n * middle / (g + h + middle)
            points[s.first] += n * (g + middle / 2) / (g + h + middle)
            points[s.second] += n * (h + middle / 2) / (g + h + middle)
        return draws, points

    low, high = 1e-6, 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expected(middle)[0] < sum(s.draws for s in scores) else (low, middle)
    observed = dict.fromkeys(strength, 0.0)
    for s in scores:
        observed[s.first] += s.wins + s.draws / 2
        observed[s.second] += s.losses + s.draws / 2
    assert expected(low)[1] == pytest.approx(observed, rel=1e-6)


def test_an_advantage_of_moving_first_is_found():
    # 3 to 1 for whoever moves first, and nothing else: equal players.
    scores = [Score("a", "b", 30, 0, 10), Score("b", "a", 30, 0, 10)]
    assert [r.elo for r in maximum_likelihood(scores, advantage=True)] == pytest.approx([0, 0])
    lopsided = [Score("a", "b", 30, 0, 10), Score("b", "a", 3, 0, 1)]
    with_it = maximum_likelihood(lopsided, advantage=True)[0].elo
    assert with_it == pytest.approx(0, abs=1e-6)
    # Without it, a has simply won 31 of 44.
    assert maximum_likelihood(lopsided)[0].elo == pytest.approx(200 * math.log10(31 / 13))


def test_results_of_the_same_two_players_add_up_whoever_moved_first():
    # b has won one of four games, and has never moved first: the odds are 3 to 1.
    in_parts = [Score("a", "b", 2), Score("a", "b", 1), Score("a", "b", 0, 0, 1)]
    best, worst = maximum_likelihood(in_parts)
    assert best.elo - worst.elo == pytest.approx(400 * math.log10(3))
    assert [best.games, best.score] == [4, 0.75]


def test_draws_alone_can_join_players():
    # c beats a and a beats b, three times each, while b and c draw twice. Seen from the other end it is the same, so
    # that a stands in the middle, with c at x and b at -x; the likelihood of x and of the draws, v, by brute force:
    x, v = np.meshgrid(np.linspace(0, 4, 2001), np.linspace(0.01, 4, 2000), indexing="ij")
    won = -np.log1p(np.exp(-x) + v * np.exp(-x / 2))
    drawn = np.log(v) - np.log(np.exp(x) + np.exp(-x) + v)
    likelihood = 6 * won + 2 * drawn
    expected = 400 / math.log(10) * x.flat[likelihood.argmax()]
    ratings = maximum_likelihood([Score("a", "b", 3), Score("c", "a", 3), Score("b", "c", 0, 2)])
    assert [r.name for r in ratings] == ["c", "a", "b"]
    # A step of the grid is 0.3 Elo.
    assert [r.elo for r in ratings] == pytest.approx([expected, 0, -expected], abs=1)


def test_a_draw_is_half_a_point():
    best, worst = bayesian_elo([Score("a", "b", 3, 2, 1), Score("b", "a", 0, 2, 0)])
    assert (best.name, best.games, best.score, best.draws) == ("a", 8, 5 / 8, 4 / 8)
    assert (worst.name, worst.games, worst.score, worst.draws) == ("b", 8, 3 / 8, 4 / 8)


def test_a_player_who_wins_everything_needs_a_prior():
    scores = [Score("a", "b", 10), Score("b", "a", 0, 0, 10)]
    with pytest.raises(RatingError, match="prior"):
        maximum_likelihood(scores)
    # Each player brings one virtual game, half won: 21 to 1 in all.
    best, worst = maximum_likelihood(scores, prior=1)
    assert best.elo - worst.elo == pytest.approx(400 * math.log10(21))


def test_wins_and_draws_without_a_loss_need_a_prior_too():
    # Davidson's draws may be made ever likelier, and the winner ever stronger: there is no best fit.
    scores = [Score("a", "b", 3, 2, 0)]
    with pytest.raises(RatingError, match="prior"):
        maximum_likelihood(scores)
    best, worst = maximum_likelihood(scores, prior=1)
    assert 0 < best.elo - worst.elo < 1000


def test_groups_that_never_met_cannot_be_rated_together():
    scores = [Score("a", "b", 1, 0, 1), Score("c", "d", 1, 0, 1)]
    with pytest.raises(RatingError, match="never scored"):
        maximum_likelihood(scores, prior=1)


def test_an_unknown_anchor_is_refused_with_the_names_there_are():
    with pytest.raises(RatingError, match="a, b"):
        maximum_likelihood([Score("a", "b", 1, 0, 1)], anchor="c")


def test_no_results_and_games_against_oneself_are_refused():
    with pytest.raises(RatingError, match="no results"):
        bayesian_elo([])
    with pytest.raises(RatingError, match="itself"):
        bayesian_elo([Score("a", "a", 1)])
