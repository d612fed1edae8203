"""The ladder of UCT players: its levels, its window."""

import jax

from azjax.evaluation import ladder
from azjax.nn import make_network
from tests.training_cases import SMALL


def test_levels_have_the_simulations_of_openspiel():
    found = [ladder.simulations_of(level, 150) for level in range(5)]
    assert found == [150, 474, 1500, 4743, 15000]


def test_a_score_is_of_the_newest_games_up_to_the_window():
    judge = ladder.make_judge(SMALL, simulations=2, levels=1, pairs=2, window=6)
    params = make_network(SMALL.network, SMALL.game).init(jax.random.key(0))
    rows = [judge(params, iteration)["evaluation"]["uct:2"] for iteration in (1, 2, 3)]
    assert [row["games"] for row in rows] == [4, 6, 6]
    assert all(0 <= row["interval"][0] <= row["score"] <= row["interval"][1] <= 1 for row in rows)
