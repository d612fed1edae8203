"""Runs without search: what they remember and learn, how they are saved and gone on from, and that they do learn."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import azjax
from azjax import training
from azjax.common.checked import ConfigError
from azjax.envs import Hex
from azjax.nn import make_action_evaluator, make_network
from azjax.nn.networks import Network, Outputs, Params
from azjax.search import SearchConfig
from azjax.training import alphazero, checkpoint, selfplay
from azjax.training import loss as objective
from azjax.training.config import OptimiserConfig, ReplayConfig, SelfplayConfig
from azjax.training.replay import ExtendedPosition
from tests.training_cases import SMALL, digest

quiet = functools.partial(azjax.train, judge=None, say=lambda line: None)
KLENT = dataclasses.replace(
    SMALL,
    network=dataclasses.replace(SMALL.network, action_values=True),
    search=SearchConfig(kind="klent"),
    selfplay=SelfplayConfig(lanes=64, plies=8, openings="R4", value_target="td_lambda", value_share=0.88),
    replay=ReplayConfig(capacity=512, batch_size=64, reuse=1.0, distinct=True, warm_up=100),
    optimiser=OptimiserConfig(learning_rate=1e-2, ema=0.9),
    iterations=4,
    save_every=2,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return quiet(KLENT, tmp_path_factory.mktemp("klent") / "run")


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(run, tmp_path):
    quiet(dataclasses.replace(KLENT, iterations=2), tmp_path / "run")
    resumed = azjax.resume(tmp_path / "run", iterations=4, judge=None, say=lambda line: None)
    assert digest(checkpoint.load_agent(resumed.path)[1]) == digest(checkpoint.load_agent(run.path)[1])
    assert resumed.read_metrics()[-1]["loss"]["action_value"] > 0


def test_a_run_with_search_begins_with_its_weights_and_leaves_the_action_values_out(run):
    searching = dataclasses.replace(SMALL, iterations=1)
    learning = alphazero.make_learning(searching, init_from=run.path)
    state = learning.warm_start(learning.init())
    _, params = checkpoint.load_agent(run.path)
    shared = {name: part for name, part in params.weights.items() if name != "action_values"}
    assert "action_values" in params.weights
    assert digest(state.params) == digest(params._replace(weights=shared))


def test_runs_of_several_seeds_can_be_one_program():
    trainer = training.make_trainer(KLENT)

    def two_runs(keys):
        return jax.vmap(trainer.iteration)(jax.vmap(trainer.init)(keys))

    _, metrics = jax.eval_shape(two_runs, jax.random.split(jax.random.key(0), 2))
    assert metrics.losses.action_value.shape == (2,)


def test_the_raw_policy_learns_to_beat_random_play(tmp_path):
    config = dataclasses.replace(KLENT, iterations=120, save_every=120)
    learned = quiet(config, tmp_path / "run")
    result = azjax.match(f"net:{learned.path}", "random", game=config.game, pairs=100, random_plies=1)
    assert result.score > 0.9  # random play has half


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"network": SMALL.network}, "network.action_values must be True with search.kind 'klent'"),
        (
            {"selfplay": dataclasses.replace(KLENT.selfplay, value_target="root")},
            "selfplay.value_target must be 'td_lambda' or 'outcome'",
        ),
        (
            {"selfplay": dataclasses.replace(KLENT.selfplay, flattened_opening=True)},
            "selfplay.flattened_opening must be False",
        ),
    ],
)
def test_what_cannot_be_done_without_search_is_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        dataclasses.replace(KLENT, **changes)


def test_a_playout_cap_and_weights_of_nothing_are_refused():
    with pytest.raises(ConfigError, match=r"search\.full_share must be 1 with kind 'klent'"):
        SearchConfig(kind="klent", quick_simulations=2, full_share=0.5)
    with pytest.raises(ConfigError, match=r"search\.entropy_weight must be above 0 where kl_weight is 0"):
        SearchConfig(kind="klent", entropy_weight=0.0, kl_weight=0.0)


def test_a_network_without_action_values_is_refused():
    with pytest.raises(
        ValueError, match=r"does not answer values of actions; give it network\.action_values=True"
    ):
        make_action_evaluator(Hex(3), make_network(SMALL.network, Hex(3)))


def test_action_values_are_those_of_the_board_for_both_players():
    # As the mover sees it the second player's board of Hex is turned, so that its answers must be turned back.
    game = Hex(3)
    network = make_network(KLENT.network, game)
    params = jax.jit(network.init)(jax.random.key(0))
    evaluate = jax.jit(make_action_evaluator(game, network))
    first = game.step(game.step(game.init(jax.random.key(0)), 1), 5)  # Black to move
    second = game.step(game.init(jax.random.key(0)), 1)  # White to move
    for x in (first, second):
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
        seen = network.outputs(params, jax.vmap(game.observe)(x)).action_values[0]
        frame = np.asarray(game.action_frames)[int(x.current_player[0])]
        _, values = evaluate(params, None, x)
        np.testing.assert_allclose(values[0], np.asarray(seen)[frame], rtol=1e-5)
        assert np.abs(values).max() <= 1


def test_the_move_that_is_stored_is_the_one_that_was_played(run):
    trainer = training.make_trainer(KLENT, training.make_mesh(groups=KLENT.replay.groups))
    rows = jax.device_get(run.restore(trainer.init(jax.random.key(0))).ring.rows)
    game, plies = KLENT.game, np.count_nonzero(rows.state.board[0], axis=-1)
    checked = 0
    for i in np.flatnonzero(plies[1:] > plies[:-1]):  # the next position is of the same game
        now, following = (jax.tree.map(lambda leaf, at=at: leaf[0, at], rows.state) for at in (i, i + 1))
        after = game.step(now, rows.action[0, i])
        assert all(map(np.array_equal, jax.tree.leaves(after), jax.tree.leaves(following)))
        checked += 1
    assert checked > 20


def test_nothing_is_remembered_of_moves_where_nobody_learns_their_values():
    state = jax.eval_shape(training.make_trainer(SMALL).init, jax.random.key(0))
    assert not hasattr(state.lanes.moments, "action") and not hasattr(state.ring.rows, "action")


def test_the_value_of_the_move_played_learns_the_target_by_its_squared_error():
    game = Hex(2)
    x = game.step(game.init(jax.random.key(0)), 0)
    row = ExtendedPosition(
        state=x,
        policy=jnp.array([0.0, 1.0, 0.0, 0.0]),
        policy_weight=jnp.float32(1),
        value=jnp.float32(-0.5),
        outcome=jnp.float32(-1),
        final=None,
        own=None,
        action=jnp.int32(1),
    )
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], row)
    # White's board is turned: what White sees at b1's place stands at a2's number, as `game.action_frames` has it.
    place = int(np.asarray(game.action_frames)[1][1])
    answers = jnp.zeros((1, 4)).at[0, place].set(0.3)

    def train(params, observation, mask=None):
        return Outputs(jnp.zeros((1, 4)), jnp.zeros(1), action_values=answers), {}

    config = OptimiserConfig(symmetries=False, action_value_weight=2.0)
    loss = objective.make_loss(game, Network(init=None, apply=None, train=train), config)
    losses, _ = loss(Params({}, {}), jax.random.split(jax.random.key(0), 1), batch)
    assert losses.action_value == pytest.approx(0.64)  # (0.3 + 0.5)^2
    assert losses.total == pytest.approx(float(losses.policy + losses.value) + 2 * 0.64)


def test_lanes_remember_moves_if_asked_to():
    keys = jax.random.split(jax.random.key(0), 2)
    lanes = selfplay.start(Hex(2), selfplay.standard_opening(Hex(2)), keys, with_actions=True)
    assert lanes.moments.action.shape == (2, 4)
