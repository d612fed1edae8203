"""A network of one's own, as a Linen module, as an NNX module and as two functions.

To run it: `python docs/examples/own_network.py runs/own-network`.
"""

import dataclasses
import sys

import jax
import jax.numpy as jnp
from flax import linen, nnx

import azjax


class Dense(linen.Module):
    """One hidden layer, in Linen."""

    actions: int
    units: int

    @linen.compact
    def __call__(self, observation):  # [batch, size, size, planes]
        hidden = linen.relu(linen.Dense(self.units)(observation.reshape(len(observation), -1)))
        return linen.Dense(self.actions)(hidden), jnp.tanh(linen.Dense(1)(hidden))


class DenseNNX(nnx.Module):
    """The same in NNX."""

    def __init__(self, inputs: int, actions: int, units: int, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(inputs, units, rngs=rngs)
        self.policy = nnx.Linear(units, actions, rngs=rngs)
        self.value = nnx.Linear(units, 1, rngs=rngs)

    def __call__(self, observation):
        hidden = nnx.relu(self.hidden(observation.reshape(len(observation), -1)))
        return self.policy(hidden), jnp.tanh(self.value(hidden))


def make_nnx(config, game):
    """A function of nnx.Rngs, so that every run draws its own weights."""
    inputs = int(jnp.prod(jnp.array(game.observation_shape)))
    return lambda rngs: DenseNNX(inputs, game.num_actions, config.channels, rngs)


def make_linear(config, game):
    """No hidden layer, in plain JAX."""
    inputs = int(jnp.prod(jnp.array(game.observation_shape)))

    def init(key):
        return {"kernel": 0.01 * jax.random.normal(key, (inputs, game.num_actions + 1))}

    def apply(weights, observation):
        answers = observation.reshape(len(observation), -1) @ weights["kernel"]
        return answers[:, :-1], jnp.tanh(answers[:, -1])

    return init, apply


azjax.register_network("dense-linen", lambda config, game: Dense(game.num_actions, config.channels))
azjax.register_network("dense-nnx", make_nnx)
azjax.register_network("linear", make_linear)

if __name__ == "__main__":
    folder = sys.argv[1]
    for name in ("dense-linen", "dense-nnx", "linear"):
        network = azjax.NetworkConfig(tower=name, channels=64)
        config = dataclasses.replace(azjax.preset("hex3"), network=network, iterations=2)
        azjax.train(config, f"{folder}/{name}", judge=None)  # judging would take longer than two iterations
        print(azjax.match(f"az:{folder}/{name}?sims=16", "random", config.game))
