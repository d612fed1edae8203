"""The formulas of selection and exploration, against the numbers of the papers and hand calculation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.search import exploration, puct_scores, ucb1_scores
from azjax.search.tree import Rows

KEY = jax.random.key(0)
LEGAL_TEN = np.tile(np.arange(122) % 12 == 5, (4000, 1))  # 10 of 122 actions; one shape, compiled once


def rows(node_visits, prior, visits, qvalues) -> Rows:
    """One node, with the numbers of its moves."""
    return Rows(
        node_visits=jnp.array([node_visits]),
        raw_value=jnp.zeros(1),
        node_value=jnp.zeros(1),
        prior=jnp.array([prior]),
        visits=jnp.array([visits]),
        qvalues=jnp.array([qvalues], jnp.float32),
        outcomes=None,
    )


def puct(node, c=1.27, c_base=None, formula="alphazero", normalise=False):
    return np.asarray(puct_scores(node, c=c, c_base=c_base, formula=formula, normalise=normalise))[0]


# Jacobsen 2019, with c = 1.27: a child of value 3 in 10 visits, prior 0.25, whose parent has 100 visits; and
# an unvisited child with prior 0.02 below 200 visits, where both forms agree.
def test_puct_as_jacobsen_2019_prints_it():
    # 3 / 10 + 1.27 * .25 * sqrt(100 / 11) = 1.2572985
    node = rows(100, [0.25], [10], [0.3])
    np.testing.assert_allclose(puct(node, formula="sqrt_ratio"), [1.2572985], atol=1e-6)


def test_puct_as_alphazero_has_it():
    # 3 / 10 + 1.27 * .25 * sqrt(100) / 11 = 0.5886364
    node = rows(100, [0.25], [10], [0.3])
    np.testing.assert_allclose(puct(node), [0.5886364], atol=1e-6)


@pytest.mark.parametrize("formula", ["alphazero", "sqrt_ratio"])
def test_both_forms_of_puct_agree_on_a_move_not_yet_visited(formula):
    # 1.27 * .02 * sqrt(200) = 0.3592102, with Q = 0
    np.testing.assert_allclose(puct(rows(200, [0.02], [0], [0.0]), formula=formula), [0.3592102], atol=1e-6)


@pytest.mark.parametrize("visits, c", [(200, 1.2601760), (800, 1.2899505)])
def test_the_growing_constant_of_alphazero(visits, c):
    # ln((1 + N + 19652) / 19652) + 1.25, times the prior 1 and sqrt(N) / (1 + 0)
    score = puct(rows(visits, [1.0], [0], [0.0]), c=1.25, c_base=19652)
    np.testing.assert_allclose(score / math.sqrt(visits), [c], atol=1e-6)


def test_normalised_values_span_the_unit_interval_among_parent_and_siblings():
    # Values -.5 and .7, and the parent's 0: .7 is 1, -.5 is 0, and an unvisited move is the least, 0.
    node = rows(9, [0.0, 0.0, 0.0], [4, 4, 0], [-0.5, 0.7, 0.0])
    np.testing.assert_allclose(puct(node, normalise=True), [0, 1, 0], atol=1e-6)


def test_ucb1():
    # Daliri 2022, equation 2.1: .3 + 2 sqrt(ln 50 / 8) and -.1 + 2 sqrt(ln 50 / 41), ln 50 = 3.912023.
    words = jax.random.bits(KEY, (1, 1), jnp.uint32)
    scores = ucb1_scores(words, rows(50, [True, True], [8, 41], [0.3, -0.1]), c=2.0)
    np.testing.assert_allclose(scores, [[0.3 + 1.3985748, -0.1 + 0.6177864]], atol=1e-6)


def test_ucb1_visits_every_move_once_in_a_random_order_first():
    words = jax.random.bits(KEY, (20_000, 1), jnp.uint32)
    visits = jnp.tile(jnp.array([0, 7, 0, 0, 0]), (20_000, 1))
    some = rows(8, [True] * 5, [0] * 5, [0.0] * 5)
    many = Rows(
        *(None if leaf is None else jnp.tile(leaf, (20_000, *(1,) * (leaf.ndim - 1))) for leaf in some)
    )._replace(visits=visits, qvalues=jnp.ones((20_000, 5)))
    first = np.argmax(ucb1_scores(words, many, c=1.4), -1)
    share = np.bincount(first, minlength=5) / 20_000
    np.testing.assert_allclose(share, [0.25, 0, 0.25, 0.25, 0.25], atol=0.02)


def noise_over_ten(alpha: float | None) -> np.ndarray:
    """[4000, 10] pure noise on the legal actions."""
    mixed = exploration.dirichlet_mix(KEY, jnp.zeros(LEGAL_TEN.shape), LEGAL_TEN, alpha, 1.0)
    return np.asarray(mixed)[LEGAL_TEN].reshape(4000, 10)


def test_dirichlet_noise_never_reaches_illegal_actions_and_keeps_its_share():
    prior = jnp.where(LEGAL_TEN, 0.1, 0.0)
    mixed = np.asarray(exploration.dirichlet_mix(KEY, prior, LEGAL_TEN, 0.3, 0.25))
    assert np.all(mixed[~LEGAL_TEN] == 0)
    # Drawn over all 122 actions, and then masked, only 10 / 122 of the quarter would remain on average.
    np.testing.assert_allclose(np.sum(mixed, -1), 1, atol=1e-5)
    assert np.all(mixed[LEGAL_TEN] >= 0.075 - 1e-6)  # three quarters of the prior are untouched


@pytest.mark.parametrize("alpha, concentration", [(0.3, 0.3), (None, 0.1)])
def test_dirichlet_noise_has_the_moments_of_its_concentration(alpha, concentration):
    # Over k = 10 actions the mean is 1/k and the variance (k - 1) / (k^2 (k alpha + 1)); None is 1 / k.
    noise = noise_over_ten(alpha)
    np.testing.assert_allclose(noise.mean(0), 0.1, atol=0.015)
    np.testing.assert_allclose(noise.var(0).mean(), 9 / (100 * (10 * concentration + 1)), rtol=0.03)


def test_dirichlet_noise_of_a_tiny_concentration_is_nearly_one_move_and_never_nan():
    noise = noise_over_ten(1e-3)
    np.testing.assert_allclose(noise.sum(-1), 1, atol=1e-5)
    assert np.mean(noise.max(-1) > 0.99) > 0.9


def test_no_noise_leaves_the_prior_alone():
    prior = jax.random.uniform(KEY, (3, 9))
    assert exploration.dirichlet_mix(KEY, prior, jnp.ones((3, 9), bool), 0.3, 0.0) is prior


def test_without_legal_actions_nothing_becomes_nan():
    none, visits = np.zeros_like(LEGAL_TEN), jnp.zeros(LEGAL_TEN.shape, jnp.int32)
    prior = exploration.dirichlet_mix(KEY, jnp.zeros(LEGAL_TEN.shape), none, None, 0.25)
    assert np.all(np.asarray(prior) == 0)
    assert np.all(np.asarray(exploration.sample_visits(KEY, visits, 1.0)) == 0)
    assert np.isfinite(exploration.flattened_logits(visits, none)).all()


def frequencies(actions, count):
    return np.bincount(np.asarray(actions), minlength=count) / len(actions)


@pytest.mark.parametrize(
    "temperature, expected",
    [(1.0, [0.1, 0.2, 0.0, 0.7]), (0.5, [1 / 54, 4 / 54, 0.0, 49 / 54]), (0.0, [0.0, 0.0, 0.0, 1.0])],
)
def test_moves_are_drawn_by_visits_to_the_power_of_one_over_the_temperature(temperature, expected):
    visits = jnp.tile(jnp.array([10, 20, 0, 70]), (20_000, 1))
    drawn = exploration.sample_visits(KEY, visits, temperature)
    assert drawn.dtype == jnp.int32
    np.testing.assert_allclose(frequencies(drawn, 4), expected, atol=0.012)


def test_every_lane_may_have_its_own_temperature():
    visits = jnp.tile(jnp.array([1, 2, 1]), (4000, 1))
    temperature = jnp.where(jnp.arange(4000) < 2000, 0.0, 1.0)
    drawn = np.asarray(exploration.sample_visits(KEY, visits, temperature))
    assert np.all(drawn[:2000] == 1)
    np.testing.assert_allclose(frequencies(drawn[2000:], 3), [0.25, 0.5, 0.25], atol=0.04)


def test_the_temperature_drops_to_zero_after_its_moves():
    assert exploration.drop_temperature(jnp.arange(5), 1.0, 3).tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("cells, most, others", [(49, 0.0854, 0.01905), (81, 0.0530, 0.01184)])
def test_the_opening_moves_of_jacobsen_2019_are_drawn_from_a_flat_curve(cells, most, others):
    # softmax(1.5 v) with all visits on one move: e^1.5 = 4.4817 times as likely as any other.
    visits = jnp.zeros((1, cells), jnp.int32).at[0, 3].set(200)
    logits = exploration.flattened_logits(visits, jnp.ones((1, cells), bool))
    probabilities = np.asarray(jax.nn.softmax(logits))[0]
    np.testing.assert_allclose(probabilities[3], most, atol=5e-5)
    np.testing.assert_allclose(np.delete(probabilities, 3), others, atol=5e-6)
    np.testing.assert_allclose(probabilities[3] / probabilities[0], 4.4817, atol=1e-4)


def test_opening_moves_are_drawn_from_that_curve_and_are_legal():
    visits = jnp.tile(jnp.array([30, 0, 10, 0]), (20_000, 1))
    legal = jnp.tile(jnp.array([True, True, True, False]), (20_000, 1))
    drawn = jax.random.categorical(KEY, exploration.flattened_logits(visits, legal))
    weights = np.exp([1.5 * 0.75, 0, 1.5 * 0.25, -np.inf])
    np.testing.assert_allclose(frequencies(drawn, 4), weights / weights.sum(), atol=0.012)
