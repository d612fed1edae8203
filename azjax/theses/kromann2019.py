"""Kromann and Bennetsen 2019: small dense nets with one answer each, for TD learning and for evolution on Hex."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from azjax.nn.layers import Params
from azjax.nn.networks import Network, Outputs

_ACTIVATIONS = {"linear": lambda x: x, "tanh": jnp.tanh, "relu": jax.nn.relu}


def value_network(
    game: Any, hidden: Sequence[int] = (80, 40), activation: str = "relu", bias: bool = False
) -> Network:
    """The TD net of Kromann and Bennetsen: dense layers (theirs without biases), one logistic answer.

    As a `Network` it has no preference between moves, and value = 2 * chance of winning - 1.
    """

    def answer(x: jax.Array) -> Outputs:
        return Outputs(jnp.zeros((len(x), game.num_actions)), 2 * jax.nn.sigmoid(x[:, 0]) - 1)

    return _dense_network(game, (*hidden, 1), activation, bias, answer)


def policy_network(
    game: Any, hidden: Sequence[int] = (80, 40), activation: str = "relu", bias: bool = False
) -> Network:
    """The policy net of Kromann and Bennetsen, for evolution: its logits are activated too, its value 0."""

    def answer(x: jax.Array) -> Outputs:
        return Outputs(_ACTIVATIONS[activation](x), jnp.zeros(len(x)))

    return _dense_network(game, (*hidden, game.num_actions), activation, bias, answer)


def _dense_network(game: Any, units: Sequence[int], activation: str, bias: bool, answer: Callable) -> Network:
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}, got {activation!r}")
    height, width, _ = game.observation_shape
    shapes = list(zip((height * width, *units), units))
    scale = 1 / math.sqrt(sum(map(math.prod, shapes)))

    def init(key: jax.Array) -> Params:
        keys = jax.random.split(key, len(shapes))
        layers = {f"layer_{i}": scale * jax.random.normal(keys[i], shape) for i, shape in enumerate(shapes)}
        biases = {f"bias_{i}": jnp.zeros(shape[1]) for i, shape in enumerate(shapes)} if bias else {}
        return Params(layers | biases, {})

    def train(params: Params, observation: jax.Array) -> tuple[Outputs, Any]:
        # Own stones are +1, the opponent's -1.
        x = observation[..., 0].astype(jnp.float32) - observation[..., 1].astype(jnp.float32)
        x = x.reshape(len(x), -1)
        for number in range(len(shapes)):
            x = x @ params.weights[f"layer_{number}"]
            if bias:
                x = x + params.weights[f"bias_{number}"]
            if number < len(shapes) - 1:
                x = _ACTIVATIONS[activation](x)
        return answer(x), {}

    def apply(params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs, _ = train(params, observation)
        return outputs.logits, outputs.value

    return Network(init, apply, train)
