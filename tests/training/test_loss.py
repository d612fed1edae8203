"""Losses and optimiser against hand calculations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from azjax.envs import DotsAndBoxes, Hex
from azjax.nn.networks import Network, NetworkConfig, Outputs, Params, make_network
from azjax.training import loss as objective
from azjax.training.config import (
    ConfigError,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)
from azjax.training.replay import StoredPosition

GAME = Hex(size=2)


def batch_of(moves, policy, value, weight=1.0):
    """The position after some moves on 2x2, with targets."""
    x = GAME.init(jax.random.key(0))
    for move in moves:
        x = GAME.step(x, move)
    position = StoredPosition(
        x, jnp.array(policy), jnp.float32(weight), jnp.float32(value), jnp.float32(value), None
    )
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)


def constant_network(logits, value, value_logits=None):
    """A network that always says the same, in the mover's frame."""

    def train(params, observation, mask=None):
        batch = len(observation)
        outputs = Outputs(
            jnp.tile(jnp.array(logits, jnp.float32), (batch, 1)),
            jnp.full(batch, value),
            None if value_logits is None else jnp.tile(jnp.array(value_logits, jnp.float32), (batch, 1)),
        )
        return outputs, {}

    return Network(init=None, apply=None, train=train)


def losses_of(network, batch, seed=0, config=None):
    loss = jax.jit(objective.make_loss(GAME, network, config or OptimiserConfig(), None))
    return loss(Params({}, {}), jax.random.split(jax.random.key(seed), 1), batch)[0]


def test_uniform_logits_cost_the_logarithm_of_the_number_of_legal_moves():
    batch = batch_of([], [0.25] * 4, 0.0)
    assert losses_of(constant_network([0.0] * 4, 0.0), batch).policy == pytest.approx(np.log(4))
    batch = batch_of([0], [0.0, 1.0, 0.0, 0.0], 0.0)  # a1 is taken: three moves are left
    assert losses_of(constant_network([0.0] * 4, 0.0), batch).policy == pytest.approx(np.log(3))


def test_the_value_loss_is_the_squared_error():
    batch = batch_of([], [0.25] * 4, 1.0)
    losses = losses_of(constant_network([0.0] * 4, 0.4), batch)
    assert losses.value == pytest.approx(0.36)
    assert losses.total == pytest.approx(0.36 + np.log(4))


def test_win_draw_loss_is_learned_by_cross_entropy():
    # Softmax of (log 2, 0, 0) is (1/2, 1/4, 1/4); the target 0.5 is half a win and half a draw.
    batch = batch_of([], [0.25] * 4, 0.5)
    losses = losses_of(constant_network([0.0] * 4, 0.0, [np.log(2), 0.0, 0.0]), batch)
    assert losses.value == pytest.approx(-(0.5 * np.log(0.5) + 0.5 * np.log(0.25)))


def test_a_lost_game_is_learned_as_lost():
    # Softmax of (0, 0, log 2) is (1/4, 1/4, 1/2); the target -0.5 is half a draw and half a loss.
    batch = batch_of([], [0.25] * 4, -0.5)
    losses = losses_of(constant_network([0.0] * 4, 0.0, [0.0, 0.0, np.log(2)]), batch)
    assert losses.value == pytest.approx(-(0.5 * np.log(0.25) + 0.5 * np.log(0.5)))


@pytest.mark.parametrize("game", [Hex(size=3), DotsAndBoxes(2, 2)], ids=str)
def test_a_network_that_turns_with_the_board_has_the_same_policy_loss_under_every_symmetry(game):
    # The quarter turns of a board are not their own inverses, unlike its flips.
    before, _ = finished(game, jax.random.key(3))
    policy = jax.nn.softmax(jnp.where(game.legal_action_mask(before), jnp.arange(game.num_actions), -99.0))
    position = StoredPosition(before, policy, *map(jnp.float32, (1.0, 0.0, 0.0)), None)
    batch = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], 64, axis=0), position)
    views = game.observe(before).ravel()[game.symmetries.observation]  # [symmetries, ...]
    logits = jnp.sin(jnp.arange(game.num_actions))[game.symmetries.action]
    seen = set()

    def train(params, observation, mask=None):
        view = jnp.argmax(jnp.all(observation.reshape(64, 1, -1) == views, -1), -1)
        seen.update(view.tolist())
        return Outputs(logits[view], jnp.zeros(64)), {}

    network = Network(init=None, apply=None, train=train)
    keys = jax.random.split(jax.random.key(0), 1)
    turned, still = (
        objective.make_loss(game, network, OptimiserConfig(symmetries=on), None)(Params({}, {}), keys, batch)[
            0
        ]
        for on in (True, False)
    )
    assert turned.policy == pytest.approx(float(still.policy))
    assert len(seen) == len(np.unique(views, axis=0)) > 1


def test_the_total_is_the_weighted_sum_of_all_losses():
    game = DotsAndBoxes(1, 2)
    before, end = finished(game, jax.random.key(3))
    policy = jnp.zeros(game.num_actions).at[jnp.argmax(game.legal_action_mask(before))].set(1.0)
    position = StoredPosition(before, policy, *map(jnp.float32, (1.0, 0.5, 0.5)), end)
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)

    def train(params, observation, mask=None):
        cells = jnp.full((1, *game.observation_shape[:2]), 0.3)
        return Outputs(jnp.zeros((1, game.num_actions)), jnp.zeros(1), None, cells, jnp.full(1, 0.3)), {}

    config = OptimiserConfig(value_weight=2.0, ownership_weight=3.0, margin_weight=5.0)
    loss = objective.make_loss(game, Network(init=None, apply=None, train=train), config, None)
    losses, _ = loss(Params({}, {}), jax.random.split(jax.random.key(0), 1), batch)
    parts = losses.policy, losses.value, losses.ownership, losses.margin
    assert all(part > 0 for part in parts)
    assert losses.total == pytest.approx(float(np.dot([1, 2, 3, 5], parts)))


def test_the_entropy_of_quick_searches_is_left_out():
    good, quick = batch_of([], [0.5, 0.5, 0.0, 0.0], 0.0), batch_of([], [0.25] * 4, 0.0, weight=0.0)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), good, quick)
    assert losses_of(constant_network([0.0] * 4, 0.0), both).policy_entropy == pytest.approx(np.log(2))


def test_policies_of_the_second_player_are_compared_in_the_boards_frame():
    # White sees the board transposed: a logit on its cell 1 means cell 2 (a2) of the board.
    batch = batch_of([0], [0.0, 0.0, 1.0, 0.0], 0.0)
    logits = [-30.0, 30.0, -30.0, -30.0]
    losses = [losses_of(constant_network(logits, 0.0), batch, seed).policy for seed in range(20)]
    # Turned by 180 degrees cell 1 is cell 2, so half of the symmetries agree and half do not.
    assert sorted({round(float(loss)) for loss in losses}) == [0, 60]


def test_positions_stay_in_their_place_without_symmetries():
    batch = batch_of([0], [0.0, 0.0, 1.0, 0.0], 0.0)
    network, config = constant_network([-30.0, 30.0, -30.0, -30.0], 0.0), OptimiserConfig(symmetries=False)
    losses = [losses_of(network, batch, seed, config).policy for seed in range(20)]
    assert {round(float(loss)) for loss in losses} == {0}


def test_positions_of_quick_searches_teach_no_policy():
    good, quick = batch_of([], [1.0, 0.0, 0.0, 0.0], 0.0), batch_of([], [0.0, 1.0, 0.0, 0.0], 0.0, weight=0.0)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), good, quick)
    network = constant_network([1.0, 2.0, 2.0, 1.0], 0.0)  # the same under the board's symmetry
    assert losses_of(network, both).policy == pytest.approx(float(losses_of(network, good).policy))


def test_the_entropy_of_the_targets_is_reported():
    batch = batch_of([], [0.5, 0.5, 0.0, 0.0], 0.0)
    assert losses_of(constant_network([0.0] * 4, 0.0), batch).policy_entropy == pytest.approx(np.log(2))


def small_network():
    config = NetworkConfig(blocks=1, channels=4, value_hidden=4, policy_channels=4)
    network = make_network(config, GAME)
    return network, network.init(jax.random.key(0))


def test_a_fixed_batch_can_be_learned_by_heart():
    network, params = small_network()
    config = OptimiserConfig(learning_rate=1e-2, weight_decay=0.0)
    loss, optimiser = objective.make_loss(GAME, network, config, None), objective.make_optimiser(config)
    batch = batch_of([0], [0.0, 0.0, 1.0, 0.0], -1.0)

    @jax.jit
    def learn(params, opt_state, key):
        return objective.update(loss, optimiser, params, opt_state, jax.random.split(key, 1), batch, None)

    opt_state = optimiser.init(params.weights)
    for step in range(150):
        params, opt_state, losses = learn(params, opt_state, jax.random.key(step))
    assert losses.total < 0.05


def test_sgd_with_momentum_and_weight_decay_follows_its_formula():
    # Jacobsen 2019: learning rate 0.05, momentum 0.9, weight decay 1e-4.
    config = OptimiserConfig(name="sgd", learning_rate=0.05, momentum=0.9, weight_decay=1e-4, clip_norm=None)
    optimiser = objective.make_optimiser(config)
    kernel, gradient = jnp.full((1, 1), 2.0), jnp.full((1, 1), 0.3)
    state = optimiser.init({"kernel": kernel})
    velocity, expected = 0.0, 2.0
    for _ in range(3):
        updates, state = optimiser.update({"kernel": gradient}, state, {"kernel": kernel})
        kernel = optax.apply_updates({"kernel": kernel}, updates)["kernel"]
        velocity = 0.9 * velocity + 0.3 + 1e-4 * expected
        expected -= 0.05 * velocity
        assert kernel[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_and_adamw_follow_their_formulas(name):
    # Kingma and Ba 2015, algorithm 1; the decay is part of the gradient, or of the step (Loshchilov and Hutter 2019).
    config = OptimiserConfig(
        name=name, learning_rate=0.1, momentum=0.8, second_momentum=0.95, weight_decay=0.3, clip_norm=None
    )
    optimiser = objective.make_optimiser(config)
    kernel, expected, m, v = jnp.full((1, 1), 2.0), 2.0, 0.0, 0.0
    state = optimiser.init({"kernel": kernel})
    for t, gradient in enumerate((0.3, -1.0, 2.0), start=1):
        updates, state = optimiser.update({"kernel": jnp.full((1, 1), gradient)}, state, {"kernel": kernel})
        kernel = optax.apply_updates({"kernel": kernel}, updates)["kernel"]
        g = gradient + 0.3 * expected * (name == "adam")
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        step = m / (1 - 0.8**t) / ((v / (1 - 0.95**t)) ** 0.5 + 1e-8)
        expected -= 0.1 * (step + 0.3 * expected * (name == "adamw"))
        assert kernel[0, 0] == pytest.approx(expected, rel=1e-5)


def test_long_gradients_are_shortened():
    config = OptimiserConfig(name="sgd", learning_rate=1.0, momentum=0.0, weight_decay=0.0, clip_norm=2.0)
    optimiser, weights = objective.make_optimiser(config), {"kernel": jnp.zeros((1, 2))}
    for gradient, update in (([3.0, 4.0], [-1.2, -1.6]), ([0.3, 0.4], [-0.3, -0.4])):
        updates, _ = optimiser.update({"kernel": jnp.array([gradient])}, optimiser.init(weights), weights)
        np.testing.assert_allclose(updates["kernel"], [update], rtol=1e-6)


@pytest.mark.parametrize("factor, statistics", [(1.0, 7.0), (jnp.nan, 5.0)])
def test_a_skipped_step_leaves_weights_and_statistics_alone(factor, statistics):
    def loss(params, keys, batch):
        zero = jnp.float32(0)
        total = factor * params.weights["kernel"].sum()
        return objective.Losses(total, zero, zero, zero, zero, zero), {"mean": jnp.float32(7.0)}

    optimiser = objective.make_optimiser(OptimiserConfig(name="sgd", weight_decay=0.0))
    params = Params({"kernel": jnp.ones((1, 1))}, {"mean": jnp.float32(5.0)})
    after, _, _ = objective.update(loss, optimiser, params, optimiser.init(params.weights), None, None, None)
    assert after.statistics["mean"] == statistics
    assert (after.weights["kernel"][0, 0] == 1.0) == (statistics == 5.0)


def test_weight_decay_leaves_biases_alone():
    optimiser = objective.make_optimiser(OptimiserConfig(weight_decay=0.1, learning_rate=1.0))
    weights = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    zero = jax.tree.map(jnp.zeros_like, weights)
    updates, _ = optimiser.update(zero, optimiser.init(weights), weights)
    assert (updates["bias"] == 0).all()
    np.testing.assert_allclose(updates["kernel"], -0.1)


def test_gradients_that_are_not_finite_are_skipped_and_counted():
    optimiser = objective.make_optimiser(OptimiserConfig(weight_decay=0.0))
    weights = {"kernel": jnp.ones((2, 2))}
    state = optimiser.init(weights)
    for bad in (jnp.nan, jnp.inf):
        updates, state = optimiser.update({"kernel": jnp.full((2, 2), bad)}, state, weights)
        assert (updates["kernel"] == 0).all()
    assert objective.skipped_updates(state) == 2 and objective.skipped_in_a_row(state) == 2
    updates, state = optimiser.update({"kernel": jnp.ones((2, 2))}, state, weights)
    assert (updates["kernel"] != 0).all()
    assert objective.skipped_updates(state) == 2 and objective.skipped_in_a_row(state) == 0


def test_schedules_have_the_stated_values():
    steps = OptimiserConfig(learning_rate=0.2, decay="steps", decay_steps=100, step_factor=0.1).schedule()
    assert [float(steps(step)) for step in (0, 99, 100, 250)] == pytest.approx([0.2, 0.2, 0.02, 0.002])
    cosine = OptimiserConfig(learning_rate=0.2, decay="cosine", decay_steps=100, warm_up_steps=10).schedule()
    assert [float(cosine(step)) for step in (0, 5, 10, 60, 110)] == pytest.approx(
        [0, 0.1, 0.2, 0.1, 0], abs=1e-7
    )


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        (SearchConfig, {"simulations": 0}, "search.simulations must be at least 1, got 0"),
        (SearchConfig, {"full_share": 0.5}, "search.quick_simulations must be above 0"),
        (
            SelfplayConfig,
            {"opening_share": 2.0},
            "selfplay.opening_share must be above 0 and at most 1",
        ),
        (ReplayConfig, {"batch_size": 100}, r"replay.batch_size must be a multiple of groups \(8\), got 100"),
        (ReplayConfig, {"by_game": True}, "replay.window_games must be given with by_game"),
        (OptimiserConfig, {"learning_rate": 0.0}, "optimiser.learning_rate must be above 0"),
        (OptimiserConfig, {"decay": "cosine"}, "optimiser.decay_steps must be above 0 with decay 'cosine'"),
    ],
)
def test_a_wrong_setting_names_its_field_and_what_is_allowed(part, fields, message):
    with pytest.raises(ConfigError, match=message):
        part(**fields)


def test_mean_value_targets_need_true_results_at_terminals():
    search = SearchConfig(kind="puct", evaluate_terminals_with_network=True)
    TrainConfig(game=GAME, search=search)
    with pytest.raises(ConfigError, match=r"selfplay\.value_target must be 'outcome'"):
        TrainConfig(game=GAME, search=search, selfplay=SelfplayConfig(value_target="root"))


def test_the_number_of_updates_follows_the_reuse():
    config = TrainConfig(game=GAME, selfplay=SelfplayConfig(lanes=64, plies=8))
    assert config.updates == 4 * 64 * 8 // 256
    doubled = dataclasses.replace(config, replay=ReplayConfig(reuse=8.0))
    assert doubled.updates == 2 * config.updates


def finished(game, key):
    """A random game's end, and the position three plies before it."""
    states = [game.init(key)]
    step, legal = jax.jit(game.step), jax.jit(game.legal_action_mask)
    while not bool(game.is_terminal(states[-1])):
        key, now = jax.random.split(key)
        move = jax.random.choice(now, game.num_actions, p=legal(states[-1]) / legal(states[-1]).sum())
        states.append(step(states[-1], move))
    return states[-4], states[-1]


@pytest.mark.parametrize(
    "game", [Hex(size=3), DotsAndBoxes(2, 2), DotsAndBoxes(2, 2, observation="image")], ids=str
)
def test_heads_that_see_the_end_have_no_loss_under_any_symmetry(game):
    before, end = finished(game, jax.random.key(3))
    mover = before.current_player
    position = StoredPosition(
        before, jnp.zeros(game.num_actions).at[0].set(1.0), *map(jnp.float32, (1.0, 0.0, 0.0)), end
    )
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)
    observed, known = game.observe(before, mover), game.ownership(end, mover)
    seen = set()

    def train(params, observation, mask=None):
        # Which way the board is turned shows in the observation; the ownership must have been turned alike.
        turned = [
            known.ravel()[np.asarray(table).reshape(known.size, -1)[:, -1] // observed.shape[-1]]
            for table in game.symmetries.observation
        ]
        same = [
            jnp.all(observed.ravel()[table] == observation[0].ravel())
            for table in game.symmetries.observation
        ]
        view = jnp.argmax(jnp.stack(same))
        seen.add(int(view))
        margin = jnp.asarray(game.final_margin(end, mover)) if hasattr(game, "final_margin") else None
        return Outputs(
            jnp.zeros((1, game.num_actions)),
            jnp.zeros(1),
            None,
            jnp.stack(turned)[view].reshape(1, *known.shape),
            None if margin is None else margin[None],
        ), {}

    loss = objective.make_loss(game, Network(init=None, apply=None, train=train), OptimiserConfig(), None)
    for seed in range(12):
        losses, _ = loss(Params({}, {}), jax.random.split(jax.random.key(seed), 1), batch)
        assert losses.ownership == 0
        assert losses.margin == 0
    assert len(seen) > 1


def test_ownership_is_seen_by_the_player_asked():
    game = DotsAndBoxes(1, 2)
    _, end = finished(game, jax.random.key(0))
    scores = game.scores(end)
    assert game.ownership(end, 0).sum() == scores[0] - scores[1]
    np.testing.assert_array_equal(game.ownership(end, 1), -game.ownership(end, 0))
    assert game.final_margin(end, 0) == (scores[0] - scores[1]) / 2
    x = Hex(size=2).from_notation("bw/b1 w")  # Black has joined top and bottom
    np.testing.assert_array_equal(Hex(size=2).ownership(x, 0), [[1, -1], [1, 0]])
    np.testing.assert_array_equal(
        Hex(size=2).ownership(x, 1), [[-1, -1], [1, 0]]
    )  # transposed, colours swapped


def test_a_head_that_the_game_cannot_teach_is_refused():
    network = NetworkConfig(blocks=1, channels=8, margin=True)
    with pytest.raises(ConfigError, match=r"network.margin must be False for hex"):
        TrainConfig(game=Hex(size=3), network=network)


WEIGHTS = {"w": jnp.ones((2, 2))}


def steps_of(optimiser, gradients, losses) -> tuple[list[float], list]:
    """The changes of one weight, and the states after each step."""
    state, changes, states = optimiser.init(WEIGHTS), [], []
    for gradient, loss in zip(gradients, losses):
        change, state = optimiser.update(
            {"w": jnp.full((2, 2), gradient)}, state, WEIGHTS, value=jnp.float32(loss)
        )
        changes.append(float(change["w"][0, 0]))
        states.append(state)
    return changes, states


PLAIN = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.0, "weight_decay": 0.0, "clip_norm": None}


def test_the_rate_falls_where_the_loss_stands_still():
    config = OptimiserConfig(**PLAIN, decay="plateau", plateau_steps=2, plateau_patience=2, step_factor=0.5)
    # Means of two: 4, 3, 3, 3 (two that are no better: the rate falls), 1, 2, 2 (and again).
    losses = [5, 3, 3, 3, 2, 4, 3, 3, 1, 1, 2, 2, 2, 2, 2]
    changes, states = steps_of(objective.make_optimiser(config), [1.0] * len(losses), losses)
    assert changes == [-1.0] * 7 + [-0.5] * 6 + [-0.25] * 2
    assert [float(objective.plateau_factor(state)) for state in states] == [-change for change in changes]
    assert objective.plateau_factor(objective.make_optimiser(OptimiserConfig(**PLAIN)).init(WEIGHTS)) == 1


def test_a_loss_scale_is_taken_out_again_halved_by_overflow_and_doubled_after_200_steps():
    optimiser = objective.make_optimiser(OptimiserConfig(**PLAIN, loss_scale=1024.0))
    gradients = [1024.0 * 3, float("inf"), float("nan"), 256.0]
    changes, states = steps_of(optimiser, gradients, [0.0] * 4)
    assert changes == [-3.0, 0.0, 0.0, -1.0]  # 1024 twice halved is 256
    assert [float(state.loss_scale) for state in states] == [1024, 512, 256, 256]
    assert [int(objective.skipped_in_a_row(state)) for state in states] == [0, 1, 2, 0]
    assert int(objective.skipped_updates(states[-1])) == 2
    _, states = steps_of(optimiser, [1.0] * 200, [0.0] * 200)
    assert [float(state.loss_scale) for state in states[-2:]] == [1024, 2048]


def test_small_gradients_of_half_precision_survive_with_a_loss_scale():
    def loss(params, keys, batch):
        # What comes back through float16 is 2^-26, smaller than its smallest number, 2^-24.
        half = params.weights["w"].astype(jnp.float16)
        total = jnp.sum(half.astype(jnp.float32)) * 2.0**-26
        return objective.Losses(total, *[jnp.float32(0)] * 5), {}

    for scale, expected in ((None, 0.0), (2.0**15, -(2.0**-26))):
        optimiser = objective.make_optimiser(OptimiserConfig(**PLAIN, loss_scale=scale))
        params = Params({"w": jnp.zeros((2, 2))}, {})
        state = optimiser.init(params.weights)
        after, _, losses = objective.update(loss, optimiser, params, state, None, None, None)
        assert float(after.weights["w"][0, 0]) == expected
        assert float(losses.total) == 0  # of weights that are 0; what is reported is not scaled
