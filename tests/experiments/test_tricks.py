"""The tricks of `strength_per_minute` against calculations by hand, and each in a short run on Hex 3x3."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from flax import nnx

from azjax.envs import Hex
from azjax.nn import NetworkConfig, layers, make_evaluator, make_network
from azjax.search.config import search_from_config
from azjax.training import loss as objective
from azjax.training import make_openings
from azjax.training.openings import random_openings
from azjax.training.replay import ExtendedPosition
from azjax.training.selfplay import Moment
from experiments import strength_per_minute as study
from experiments import tricks
from tests.training_cases import SMALL, digest

pytestmark = pytest.mark.usefixtures("quickly_compiled")

TINY = dataclasses.replace(
    SMALL,
    network=NetworkConfig(blocks=2, channels=8, policy_channels=8, value_hidden=8),
    search=dataclasses.replace(SMALL.search, simulations=2),
    optimiser=dataclasses.replace(SMALL.optimiser, decay="cosine", decay_steps=1),
)
LEARNING = (  # otherwise than the baseline, rather than from other games or at another rate
    *("archive by surprise", "soft policy head", "reply head", "policy by surprise", "muon 2e-3"),
    *("nested bottlenecks", "attention"),
)


@pytest.mark.parametrize("name", LEARNING)
def test_a_batch_is_learned_by_heart(name):
    variant = tricks.TRICKS[name]
    config = variant.change(TINY)
    parts, game = variant.parts(config), config.game
    network = make_network(config.network, game)
    loss = parts.get("loss", lambda game, network: objective.make_loss(game, network, config.optimiser))
    loss = loss(game, network)
    optimiser = objective.make_optimiser(config.optimiser, lambda step: 2e-3, parts.get("optimiser"))
    states = random_openings(game, 4, 8).states
    legal = jax.vmap(game.legal_action_mask)(states)
    policy = jax.nn.softmax(jnp.where(legal, jax.random.normal(jax.random.key(1), legal.shape), -jnp.inf))
    ones = jnp.ones(8)
    batch = ExtendedPosition(
        states, policy, ones, ones, -ones, None, action=None, own=policy[:, ::-1] * legal
    )
    params = network.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(2), 2)

    @jax.jit
    def step(params, opt_state):
        return objective.update(loss, optimiser, params, opt_state, keys, batch, None)

    opt_state, totals = optimiser.init(params.weights), []
    for _ in range(8):
        params, opt_state, losses = step(params, opt_state)
        totals.append(float(losses.total))
    assert np.isfinite(totals).all() and totals[-1] < totals[0]
    sign = -1 if name == "archive by surprise" else 1  # whose rows keep the search's value beside the outcome
    value = network.apply(params, jax.vmap(game.observe)(states))[1]
    assert float(sign * value.mean()) > 0


@functools.cache
def trained():
    """A program with what else there is besides, the state after five of its iterations, and the first weights."""
    variant = tricks.Variant(
        tricks.adjudicated,
        tricks.keep_found_values,
        tricks.archive(weighted=True, candidates=64, kept=32),
        tricks.reanalysis(16),
        tricks.warm_up_and_linear,
    )
    config = dataclasses.replace(TINY, replay=dataclasses.replace(TINY.replay, warm_up=60))
    program = study.compiled(config, variant)
    state = program.init(jax.random.key(0))
    before = digest(state.params)
    for share in (0.0, 0.2, 0.4, 0.6, 0.8):
        state = program.iterate(share, state)
    return program, jax.device_get(state), before


def test_a_run_with_other_openings_reanalysis_and_adjudication_learns():
    _, state, before = trained()
    assert int(state.updates) > 0
    assert digest(state.params) != before
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_half_of_the_openings_are_positions_met_before():
    program, state, _ = trained()
    config = dataclasses.replace(program.config, selfplay=dataclasses.replace(TINY.selfplay, openings="A1"))
    usual = make_openings(config.game, "A1")
    openings = jax.jit(tricks.archive(True, candidates=64, kept=32)(config))
    found = openings(usual, jax.tree.map(jnp.asarray, state))
    notations = [config.game.to_notation(one) for one in unstacked(found.states)]
    ring = state.ring
    met = {
        config.game.to_notation(one)
        for group, written in enumerate(ring.written)
        for one in unstacked(jax.tree.map(lambda leaf, group=group: leaf[group], ring.rows.state))[
            : int(written)
        ]
    }
    first_moves = {config.game.to_notation(one) for one in unstacked(usual.states)}
    assert set(notations[:32]) <= first_moves
    assert set(notations[32:]) <= met and len(set(notations[32:]) - first_moves) > 0


def unstacked(states):
    """Positions one by one, on the host."""
    states = jax.device_get(states)
    count = len(states.current_player)
    return [jax.tree.map(lambda leaf, row=row: leaf[row], states) for row in range(count)]


def test_reanalysis_replaces_policies_by_what_the_newest_weights_find():
    program, state, _ = trained()
    config = program.config
    keys = jax.random.split(jax.random.key(9), config.replay.groups)  # its own have chosen positions already
    state = jax.tree.map(jnp.asarray, state)._replace(key=keys)
    before, after = state.ring.rows, jax.jit(tricks.reanalysis(16)(config))(state).ring.rows
    changed = np.argwhere((np.asarray(before.policy) != np.asarray(after.policy)).any(-1))
    assert 0 < len(changed) <= 16
    assert digest(before._replace(policy=None)) == digest(after._replace(policy=None))
    evaluate = make_evaluator(config.game, make_network(config.network, config.game))
    search = search_from_config(config.search, config.game, evaluate, explore=False)
    places = tuple(changed.T)
    found = jax.jit(search)(
        state.params, jax.random.key(5), jax.tree.map(lambda leaf: leaf[places], before.state)
    )
    np.testing.assert_allclose(after.policy[places], found.policy, atol=1e-5)


def test_a_soft_target_of_16_to_1_is_2_to_1():
    found = tricks.softened(jnp.array([[16 / 17, 1 / 17, 0.0]]))
    np.testing.assert_allclose(found, [[2 / 3, 1 / 3, 0.0]], rtol=1e-6)


def test_the_divergence_is_that_of_the_textbook():
    logits = jnp.log(jnp.array([[0.25, 0.75, 1e-30]]))
    found = tricks.divergence(jnp.array([[0.5, 0.5, 0.0]]), logits)
    # 1/2 ln (1/2 : 1/4) + 1/2 ln (1/2 : 3/4) = ln(4/3) / 2
    np.testing.assert_allclose(found, [np.log(4 / 3) / 2], rtol=1e-5)


def test_half_of_the_weight_follows_surprise_and_what_teaches_no_policy_has_none():
    found = tricks.weighted_by_surprise(jnp.array([0.0, 1.0, 3.0, 9.0]), jnp.array([1.0, 1.0, 1.0, 0.0]))
    # The mean surprise of the four is 1, that of `taught` 3/4.
    np.testing.assert_allclose(found, [0.5, 0.875, 1.625, 0.0], rtol=1e-6)


def test_rows_are_drawn_in_proportion_to_their_weights():
    keys = jax.random.split(jax.random.key(0), 2000)
    draw = jax.vmap(lambda key: tricks.drawn_by_weight(key, jnp.array([1.0, 3.0, 1e-9]), 2))
    drawn = np.asarray(jax.jit(draw)(keys))
    low, high = scipy.stats.binom.interval(1 - 1e-5, len(keys), 3 / 4)
    assert low <= (drawn[:, 0] == 1).sum() <= high
    assert (np.sort(drawn) == [0, 1]).all()


def test_a_reply_is_the_next_policy_where_that_was_searched_in_full():
    policy = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.25, 0.75], [9.0, 9.0]])
    moments = Moment(None, policy, jnp.array([1.0, 0.0, 1.0, 1.0, 1.0]), None)
    replies = tricks.keep_replies(TINY)["own_targets"](moments, None, jnp.int32(4))
    np.testing.assert_array_equal(replies[:4], [[0, 0], [0.5, 0.5], [0.25, 0.75], [0, 0]])


def test_the_rate_rises_for_a_twentieth_of_the_time_and_falls_straight():
    shares = jnp.array([0.0, 0.025, 0.05, 0.525, 1.0])
    np.testing.assert_allclose(tricks.warm_up_and_linear(shares), [0.0, 0.5, 1.0, 0.5, 0.0], atol=1e-6)


def test_a_game_is_adjudicated_where_the_next_two_moves_decide_it():
    usual, early = Hex(3), tricks.AdjudicatedHex(3)
    step, judged_step = (jax.jit(jax.vmap(game.step, (None, 0))) for game in (usual, early))

    def after_all_moves(x):
        """What the usual rules make of each legal move."""
        return [one for cell, one in enumerate(unstacked(step(x, np.arange(9)))) if x.board[cell] == 0]

    results = []
    for before in unstacked(random_openings(usual, 6, 12).states):
        judged = unstacked(judged_step(before, np.arange(9)))
        for cell, x in enumerate(unstacked(step(before, np.arange(9)))):
            if before.board[cell] != 0 or x.over:
                continue
            nexts = after_all_moves(x)
            wins = any(one.over for one in nexts)
            loses = not wins and all(any(after.over for after in after_all_moves(one)) for one in nexts)
            assert bool(judged[cell].over) == (wins or loses)
            result = int(early.rewards(judged[cell])[int(x.current_player)])
            assert result == int(wins) - int(loses)
            results.append(result)
    assert {-1, 0, 1} == set(results)


def plan(**fields):
    return layers.Plan(dataclasses.replace(TINY.network, **fields), nnx.Rngs(params=0), None)


def test_attention_to_nothing_in_particular_adds_the_mean_of_the_board():
    attention = tricks.Attention(plan())
    x = jax.random.normal(jax.random.key(0), (3, 3, 2, 8))
    np.testing.assert_array_equal(attention(x, layers.Pass()), x)
    eye, none = jnp.eye(8), jnp.zeros((8, 8))
    attention.ask.kernel[...] = jnp.concatenate([none, none, eye], 1)
    attention.answer.kernel[...] = eye
    np.testing.assert_allclose(attention(x, layers.Pass()), x + x.mean((0, 1)), atol=1e-5)


def test_a_nested_bottleneck_begins_by_adding_nothing():
    x = jax.random.normal(jax.random.key(0), (3, 3, 2, 8))
    np.testing.assert_array_equal(tricks.NestedBottleneck(plan())(x, layers.Pass()), x)


def test_a_network_that_has_grown_deeper_says_what_it_said():
    small, large = (dataclasses.replace(TINY.network, blocks=blocks) for blocks in (1, 2))
    small, large = (make_network(config, TINY.game) for config in (small, large))
    old, fresh = small.init(jax.random.key(0)), large.init(jax.random.key(1))
    old = jax.tree.map(lambda leaf: leaf + 0.1, old)  # as if something had been learned
    seen = jax.random.normal(jax.random.key(2), (4, *TINY.game.observation_shape))
    grown = tricks.carried_over(old, fresh)
    assert len(jax.tree.leaves(grown)) > len(jax.tree.leaves(old))
    for one, other in zip(small.apply(old, seen), large.apply(grown, seen)):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_muon_moves_kernels_equally_far_in_all_directions_and_leaves_the_rest_to_adam():
    weights = {"kernel": jnp.zeros((1, 2, 2, 3)), "bias": jnp.zeros(3)}
    steep = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 3)))[0] * [1.0, 0.1, 0.05]
    gradients = {
        "kernel": jnp.asarray(steep.reshape(1, 2, 2, 3), jnp.float32),
        "bias": jnp.array([1.0, -5.0, 0.0]),
    }
    variant = tricks.muon(2e-3)
    config = variant.change(
        dataclasses.replace(TINY, optimiser=dataclasses.replace(TINY.optimiser, weight_decay=0))
    )
    optimiser = variant.parts(config)["optimiser"](optax.constant_schedule(2e-3))
    updates, _ = optimiser.update(gradients, optimiser.init(weights), weights)
    far = np.linalg.svd(np.asarray(updates["kernel"]).reshape(4, 3), compute_uv=False)
    # 0.2 sqrt(4) times the rate, to the accuracy of five steps of Newton and Schulz
    assert (far > 0.6 * 8e-4).all() and (far < 1.3 * 8e-4).all()
    # Adam's first step, looking ahead: (0.9 * 0.1 / (1 - 0.9^2) + 1) times the rate against the sign
    ahead = (0.09 / 0.19 + 1) * 2e-3
    np.testing.assert_allclose(updates["bias"], [-ahead, ahead, 0.0], rtol=1e-4, atol=1e-9)
