"""Networks that users bring: their forms, what is refused, and that runs with them live like any other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import azjax
from azjax import agents
from azjax.envs import Hex
from azjax.nn import Params, as_network
from azjax.nn.networks import OWN, Outputs
from azjax.training import checkpoint
from tests.training_cases import SMALL, digest

GAME = Hex(size=3)


class LinenNet(linen.Module):
    actions: int
    normalised: bool = False

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.Dense(16)(x.reshape(len(x), -1))
        if self.normalised:
            x = linen.BatchNorm(use_running_average=not train, momentum=0.5)(x)
        x = linen.relu(x)
        return linen.Dense(self.actions)(x), jnp.tanh(linen.Dense(1)(x))


class NnxNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, actions: int = GAME.num_actions, dropout: bool = False):
        size = int(np.prod(GAME.observation_shape))
        self.body, self.norm = nnx.Linear(size, 16, rngs=rngs), nnx.BatchNorm(16, momentum=0.5, rngs=rngs)
        self.policy, self.value = nnx.Linear(16, actions, rngs=rngs), nnx.Linear(16, 1, rngs=rngs)
        if dropout:
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.body(x.reshape(len(x), -1))))
        return self.policy(x), jnp.tanh(self.value(x)[:, 0])


def linear_init(key):
    size = int(np.prod(GAME.observation_shape))
    return {"policy": jax.random.normal(key, (size, GAME.num_actions)) * 0.1, "value": jnp.zeros(size)}


def linear_apply(weights, observation):
    flat = observation.reshape(len(observation), -1)
    return flat @ weights["policy"], jnp.tanh(flat @ weights["value"])


FORMS = {
    "linen": lambda: LinenNet(GAME.num_actions),
    "linen-normalised": lambda: LinenNet(GAME.num_actions, normalised=True),
    "nnx": lambda: NnxNet,
    "functions": lambda: (linear_init, linear_apply),
}


@pytest.fixture
def registered():
    """Names networks for one test."""
    before = dict(OWN)
    yield azjax.register_network
    OWN.clear()
    OWN.update(before)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_becomes_a_network(form):
    network = as_network(FORMS[form](), GAME)
    observation = jax.random.normal(jax.random.key(1), (5, *GAME.observation_shape))
    params = jax.jit(network.init)(jax.random.key(0))
    assert isinstance(params, Params)
    logits, value = jax.jit(network.apply)(params, observation)
    assert (logits.shape, value.shape) == ((5, GAME.num_actions), (5,))
    assert logits.dtype == value.dtype == jnp.float32
    outputs, statistics = jax.jit(network.train)(params, observation)
    assert isinstance(outputs, Outputs)
    assert jax.tree.structure(statistics) == jax.tree.structure(params.statistics)
    # Other keys draw other weights.
    assert digest(params) != digest(network.init(jax.random.key(1)))


@pytest.mark.parametrize("form", ["linen-normalised", "nnx"])
def test_running_statistics_are_learned_and_used(form):
    network = as_network(FORMS[form](), GAME)
    observation = 3 + jax.random.normal(jax.random.key(1), (64, *GAME.observation_shape))
    params = network.init(jax.random.key(0))
    fresh, _ = network.apply(params, observation)
    for _ in range(20):
        outputs, statistics = network.train(params, observation)
        params = params._replace(statistics=statistics)
    # What is played with the statistics of a batch is what was learned from with that batch itself.
    played, _ = network.apply(params, observation)
    np.testing.assert_allclose(played, outputs.logits, atol=0.1)
    assert np.abs(np.asarray(played - fresh)).max() > 0.5


def test_a_network_passes_as_it_is():
    network = as_network((linear_init, linear_apply), GAME)
    assert as_network(network, GAME) is network


@pytest.mark.parametrize(
    "own, error, message",
    [
        (LinenNet(4), ValueError, r"logits \[2, 9\] and values \[2\], got \[2, 4\] and \[2\]"),
        (lambda rngs: NnxNet(rngs, dropout=True), ValueError, r"neither Param nor BatchStat .*dropout"),
        (NnxNet(nnx.Rngs(0)), TypeError, "rather than a module with weights"),
        (lambda rngs: 3, TypeError, r"must make an NNX module of nnx\.Rngs, got int"),
        (7, TypeError, r"a network is an azjax\.nn\.Network.*got 7"),
        ((linear_init, lambda weights, x: (x, x, x, x, x, x, x, x, x, x)), TypeError, "logits and values"),
    ],
    ids=["shapes", "dropout", "with weights", "no module", "no network", "too many answers"],
)
def test_what_is_no_network_of_this_game_is_refused_with_a_reason(own, error, message):
    with pytest.raises(error, match=message):
        as_network(own, GAME)


def test_masks_are_refused():
    network = as_network((linear_init, linear_apply), GAME)
    with pytest.raises(ValueError, match="convolutional"):
        network.apply(
            network.init(jax.random.key(0)), jnp.zeros((1, *GAME.observation_shape)), jnp.ones((1,))
        )


@pytest.mark.parametrize("name, message", [("mlp", "taken"), ("taken", "taken"), ("a b", "letters")])
def test_names_that_cannot_be_given(registered, name, message):
    registered("taken", lambda config, game: (linear_init, linear_apply))
    with pytest.raises(ValueError, match=message):
        registered(name, lambda config, game: (linear_init, linear_apply))


def test_a_run_with_an_own_network_is_trained_saved_resumed_played_and_judged(registered, tmp_path):
    registered("mine", lambda config, game: LinenNet(game.num_actions, normalised=True))
    config = dataclasses.replace(SMALL, network=azjax.NetworkConfig(tower="mine"), iterations=4)
    whole = azjax.train(config, tmp_path / "whole", judge=None, say=lambda line: None)
    azjax.train(
        dataclasses.replace(config, iterations=2), tmp_path / "parts", judge=None, say=lambda line: None
    )
    parts = azjax.resume(tmp_path / "parts", iterations=4, judge=None, say=lambda line: None)
    (config_1, params_1), (_, params_2) = (checkpoint.load_agent(run.path) for run in (whole, parts))
    assert digest(params_1) == digest(params_2)
    assert config_1.network.tower == "mine"
    assert azjax.match(whole.path, "random", pairs=2).games == 4
    judged = azjax.evaluate(whole.path, "match:random??pairs=2")
    assert len(judged["match:random??pairs=2"].rows) == 2

    # Where the name is not registered, one sentence says what to do.
    del OWN["mine"]
    with pytest.raises((agents.AgentError, azjax.ConfigError), match=r"register_network.*got .mine"):
        azjax.match(whole.path, "random", pairs=1)
    with pytest.raises(azjax.RunError, match=r"register_network.*got .mine"):
        azjax.resume(tmp_path / "parts", iterations=6, say=lambda line: None)
