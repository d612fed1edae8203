"""KLENT's improved policy: by hand, as the best there is, in its limits, and as what self-play moves by."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.search import improved_logits, klent
from azjax.training import targets
from tests.search_cases import TableGame, random_table, stacked, table

ALL = np.ones(3, bool)


def improved(prior, qvalues, legal=ALL, **weights):
    logits = np.log(np.maximum(prior, 1e-30))
    return np.asarray(
        jax.nn.softmax(improved_logits(logits, np.asarray(qvalues), np.asarray(legal), **weights))
    )


def test_the_improved_policy_by_hand():
    # exp((Q + 0.5 log p) / (0.5 + 0.5)) = exp(Q) sqrt(p): 1 * 0.8 and 2 * 0.6, which is 2 to 3.
    found = improved([0.64, 0.36, 0.0], [0.0, np.log(2), 9.0], [True, True, False], alpha=0.5, beta=0.5)
    np.testing.assert_allclose(found, [0.4, 0.6, 0.0], atol=1e-6)


def test_no_other_policy_has_more_of_value_and_entropy_less_divergence():
    prior, qvalues, alpha, beta = np.array([0.6, 0.3, 0.1]), np.array([-0.2, 0.1, 0.4]), 0.1, 0.3

    def objective(policy):  # equation 2
        entropy = -np.sum(policy * np.log(policy))
        return policy @ qvalues - beta * np.sum(policy * np.log(policy / prior)) + alpha * entropy

    best = improved(prior, qvalues, alpha=alpha, beta=beta)
    grid = [
        np.array([a, b, 100 - a - b]) / 100
        for a, b in itertools.product(range(1, 99), repeat=2)
        if a + b < 100
    ]
    others = np.array([objective(policy) for policy in grid])
    assert others.max() <= objective(best) < others.max() + 1e-3
    assert np.abs(grid[int(others.argmax())] - best).max() < 0.02


def test_without_a_divergence_it_is_the_softmax_of_the_values_whatever_the_prior():
    found = improved([0.98, 0.01, 0.01], [0.0, 0.1 * np.log(2), 0.1 * np.log(5)], alpha=0.1, beta=0.0)
    np.testing.assert_allclose(found, [1 / 8, 2 / 8, 5 / 8], rtol=1e-5)


def test_a_large_weight_of_the_divergence_leaves_the_prior_as_it_is():
    prior = [0.5, 0.3, 0.2]
    np.testing.assert_allclose(improved(prior, [1.0, -1.0, 1.0], alpha=0.03, beta=1e6), prior, atol=1e-5)


def test_without_entropy_a_prior_that_rules_out_a_move_is_followed_and_otherwise_the_best_move_wins():
    nearly_greedy = improved([0.6, 0.3, 0.1], [0.0, 0.5, 0.4], alpha=0.0, beta=1e-3)
    np.testing.assert_allclose(nearly_greedy, [0.0, 1.0, 0.0], atol=1e-6)
    kept_out = improved([0.6, 0.4, 0.0], [0.0, 0.0, 1.0], alpha=0.0, beta=0.1)
    np.testing.assert_allclose(kept_out, [0.6, 0.4, 0.0], atol=1e-6)


def test_improved_again_and_again_it_converges_to_the_softmax_of_the_values():
    qvalues, policy = 0.03 * np.log([1.0, 2.0, 5.0]), np.array([0.9, 0.09, 0.01])
    for _ in range(80):  # each takes away a share of 0.03 / 0.13 of what is missing
        policy = improved(policy, qvalues, alpha=0.03, beta=0.1)
    np.testing.assert_allclose(policy, [1 / 8, 2 / 8, 5 / 8], rtol=1e-4)


def test_adding_a_number_to_all_logits_or_all_values_changes_nothing():
    one = improved([0.5, 0.3, 0.2], [0.1, 0.2, 0.3], alpha=0.1, beta=0.2)
    logits = 7 + np.log([0.5, 0.3, 0.2])
    other = jax.nn.softmax(improved_logits(logits, np.array([1.1, 1.2, 1.3]), ALL, alpha=0.1, beta=0.2))
    np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize("alpha, beta", [(0.0, 0.0), (-0.1, 0.2), (0.1, -0.05)])
def test_weights_that_make_no_policy_are_refused(alpha, beta):
    with pytest.raises(ValueError, match="alpha and beta must be at least 0, and one above it"):
        klent(TableGame(), None, alpha=alpha, beta=beta)


def evaluate(params, key, states):
    """Logits of the table, and the same values of actions everywhere."""
    lane = jnp.arange(states.node.shape[0])
    return states.logits[lane, states.node], jnp.broadcast_to(params, (len(lane), 3))


def test_moves_are_drawn_from_the_improved_policy_and_its_mean_value_is_found():
    find = jax.jit(klent(TableGame(), evaluate, alpha=0.5, beta=0.5))
    start = table(
        {
            0: {"player": 1, "moves": {0: 1, 2: 2}, "prior": {0: 0.64, 1: 5.0, 2: 0.36}},
            1: {"player": 0},
            2: {"player": 0},
        }
    )
    lanes = 4000
    states = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (lanes, *np.shape(leaf))), start)
    qvalues = jnp.array([0.0, -9.0, np.log(2)])
    for key in (jax.random.key(0), jax.random.split(jax.random.key(1), lanes)):  # one for all, or one each
        output = find(qvalues, key, states)
        np.testing.assert_allclose(output.policy[0], [0.4, 0.0, 0.6], atol=1e-6)
        np.testing.assert_allclose(output.value, 0.6 * np.log(2), rtol=1e-5)
        shares = np.bincount(output.action, minlength=3) / lanes
        assert shares[1] == 0 and abs(shares[0] - 0.4) < 4 * np.sqrt(0.24 / lanes)
    assert not output.proven.any() and output.complete.all()


def test_finished_games_have_their_results_and_no_policy():
    rng = np.random.default_rng(0)
    games = [random_table(rng) for _ in range(20)]
    states = stacked([game._replace(node=np.int32(node)) for game in games for node in range(40)])
    states = states._replace(current_player=states.players[np.arange(800), states.node])
    output = jax.jit(klent(TableGame(), evaluate))(jnp.array([0.1, 0.2, 0.3]), jax.random.key(0), states)
    over = ~(states.children[np.arange(800), states.node] >= 0).any(-1)
    result = states.results[np.arange(800), states.node] * np.where(states.current_player == 0, 1, -1)
    np.testing.assert_array_equal(output.value[over], result[over])
    assert not output.policy[over].any() and not output.action[over].any()
    np.testing.assert_array_equal(output.proven, over)
    np.testing.assert_allclose(output.policy[~over].sum(-1), 1, rtol=1e-5)


def test_a_network_that_answers_with_no_numbers_is_seen_in_the_value():
    states = stacked([table({0: {"player": 0, "moves": {0: 1}}, 1: {"player": 1}})])
    states.logits[:] = np.nan
    assert np.isnan(klent(TableGame(), evaluate)(jnp.zeros(3), jax.random.key(0), states).value).all()


def test_lambda_returns_are_weighted_means_of_what_every_later_position_says():
    rng, plies, trace = np.random.default_rng(0), 12, 0.8
    returns = jax.jit(targets.td_lambda(trace))
    for _ in range(30):
        length, players = int(rng.integers(1, plies + 1)), rng.integers(0, 2, plies)  # often twice in a row
        values, first_wins = rng.uniform(-1, 1, plies).astype(np.float32), rng.choice([-1, 0, 1])
        outcomes = np.where(players == 0, first_wins, -first_wins).astype(np.float32)
        expected = []
        for t in range(length):
            # The n-step returns: the value found n moves later, as the player of now sees it, or the outcome.
            later = [values[u] * (1 if players[u] == players[t] else -1) for u in range(t + 1, length)]
            weights = [(1 - trace) * trace**n for n in range(len(later))] + [trace ** len(later)]
            assert sum(weights) == pytest.approx(1)
            expected.append(np.dot(weights, [*later, outcomes[t]]))
        found = returns(outcomes, values, players.astype(np.int32), jnp.int32(length))
        np.testing.assert_allclose(found[:length], expected, atol=1e-5)
