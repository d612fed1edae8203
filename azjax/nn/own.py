"""A user's own network: a flax module or a pair of functions, made into a `Network`.

    azjax.register_network("mine", lambda config, game: MyModule(game.num_actions, config.channels))
    config = dataclasses.replace(azjax.preset("hex3"), network=azjax.NetworkConfig(tower="mine", channels=64))
    azjax.train(config, "runs/mine")

Whatever it is, it takes observations [batch, *game.observation_shape] and returns logits [batch, actions] and values
[batch], as the player to move sees them, or `Outputs`, which have room for the other heads.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx

from azjax.common import texts
from azjax.nn.layers import Params
from azjax.nn.networks import OWN, TOWERS, Network, NetworkConfig, Outputs

OwnNetwork = Any
"""A `Network`; a Linen module; what makes an NNX module of `nnx.Rngs`, such as its class; or a pair of functions,
`init(key) -> weights` and `apply(weights, observation) -> (logits, value)`."""


def register_network(name: str, make: Callable[[NetworkConfig, Any], OwnNetwork]) -> None:
    """Lets configurations name an own network, `NetworkConfig(tower=name)`; its other fields are there to be used.

    A run with such a network trains, is saved, resumed, judged and played like any other, wherever the name has been
    registered; on the command line `--import MODULE` does that.

    Args:
      name: letters, digits, - and _.
      make: (configuration, game) -> the network, in one of the forms of `OwnNetwork`.

    Raises:
      ValueError: the name is taken, or cannot stand on a command line.
    """
    if name in TOWERS:
        raise ValueError(f"the name {name} is taken among networks; choose another")

    def made(config: NetworkConfig, game: Any, axis_name: str | None) -> Network:
        return as_network(make(config, game), game, axis_name=axis_name)

    texts.register(OWN, name, made, "network")


def as_network(own: OwnNetwork, game: Any, *, axis_name: str | None = None) -> Network:
    """The network that an own module or pair of functions stands for.

    Running statistics, such as those of batch normalisation, are averaged over the devices of `axis_name`.

    Raises:
      TypeError: it is none of the forms of `OwnNetwork`.
      ValueError: its answers have other shapes than the game's, or it keeps state that a run could not save.
    """
    if isinstance(own, Network):
        return own
    if isinstance(own, linen.Module):
        init, run = _of_linen(own, game)
    elif isinstance(own, nnx.Module):
        raise TypeError(
            f"give what makes the NNX module of nnx.Rngs, such as {type(own).__name__} itself or a lambda, rather than"
            " a module with weights, so that every run draws its own"
        )
    elif isinstance(own, tuple) and len(own) == 2 and all(map(callable, own)):
        init, run = _of_functions(*own)
    elif callable(own):
        init, run = _of_nnx(own)
    else:
        raise TypeError(
            "a network is an azjax.nn.Network, a Linen module, what makes an NNX module of nnx.Rngs, or a pair of"
            f" functions (init, apply), got {own!r}"
        )

    def outputs(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        _refuse_mask(mask)
        return _as_outputs(run(params, observation, False)[0])

    def apply(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        answers = outputs(params, observation, mask)
        return answers.logits, answers.value

    def train(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        _refuse_mask(mask)
        answers, statistics = run(params, observation, True)
        if axis_name is not None:
            statistics = jax.lax.pmean(statistics, axis_name)
        return _as_outputs(answers), statistics

    network = Network(init, apply, train, outputs)
    _check_shapes(network, game)
    return network


def _of_linen(module: linen.Module, game: Any) -> tuple[Callable, Callable]:
    takes_train = "train" in inspect.signature(module.__call__).parameters

    def mode(train: bool) -> dict[str, bool]:
        return {"train": train} if takes_train else {}

    def init(key: jax.Array) -> Params:
        example = jnp.zeros((1, *game.observation_shape))
        variables = dict(module.init(key, example, **mode(False)))
        return Params(variables.pop("params", {}), variables)

    def run(params: Params, observation: jax.Array, train: bool):
        variables = {"params": params.weights, **params.statistics}
        if not train:
            return module.apply(variables, observation, **mode(train)), params.statistics
        return module.apply(variables, observation, **mode(train), mutable=list(params.statistics))

    return init, run


def _of_nnx(build: Callable[[nnx.Rngs], nnx.Module]) -> tuple[Callable, Callable]:
    def checked(rngs: nnx.Rngs) -> nnx.Module:
        if not isinstance(module := build(rngs), nnx.Module):
            raise TypeError(f"{build!r} must make an NNX module of nnx.Rngs, got {type(module).__name__}")
        return module

    abstract = nnx.eval_shape(lambda: checked(nnx.Rngs(0)))
    graph, *_, other = nnx.split(abstract, nnx.Param, nnx.BatchStat, ...)
    if left := sorted({type(leaf).__name__ for _, leaf in nnx.to_flat_state(other)}):
        raise ValueError(
            f"the module keeps state that is neither Param nor BatchStat ({', '.join(left)}), such as the keys of"
            " dropout, which a run could not save; leave those layers out"
        )

    def init(key: jax.Array) -> Params:
        _, weights, statistics = nnx.split(build(nnx.Rngs(key)), nnx.Param, nnx.BatchStat)
        return Params(nnx.to_pure_dict(weights), nnx.to_pure_dict(statistics))

    def run(params: Params, observation: jax.Array, train: bool):
        module = nnx.merge(graph, params.weights, params.statistics)
        module.train() if train else module.eval()
        return module(observation), nnx.to_pure_dict(nnx.state(module, nnx.BatchStat))

    return init, run


def _of_functions(init_weights: Callable, apply: Callable) -> tuple[Callable, Callable]:
    return (
        lambda key: Params(init_weights(key), {}),
        lambda params, observation, train: (apply(params.weights, observation), params.statistics),
    )


def _as_outputs(answers: Any) -> Outputs:
    """What any of the forms returned, in float32; values [batch, 1] are taken as [batch]."""
    if not isinstance(answers, tuple) or len(answers) < 2 or len(answers) > len(Outputs._fields):
        raise TypeError(
            f"a network must return logits and values, or azjax.nn.Outputs, got {type(answers).__name__}"
        )
    outputs = answers if isinstance(answers, Outputs) else Outputs(*answers)
    outputs = jax.tree.map(lambda array: array.astype(jnp.float32), outputs)
    value = outputs.value
    return outputs._replace(value=value[:, 0] if value.ndim == 2 and value.shape[1] == 1 else value)


def _check_shapes(network: Network, game: Any) -> None:
    """Raises ValueError unless the answers are those that this game needs; nothing is computed."""
    two = jax.ShapeDtypeStruct((2, *game.observation_shape), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0))
    logits, value = jax.eval_shape(network.apply, params, two)
    expected = (2, game.num_actions), (2,)
    if (logits.shape, value.shape) != expected:
        raise ValueError(
            f"for observations {list(two.shape)} the network must return logits {list(expected[0])} and values"
            f" {list(expected[1])}, got {list(logits.shape)} and {list(value.shape)}"
        )


def _refuse_mask(mask: jax.Array | None) -> None:
    if mask is not None:
        raise ValueError("a mask of cells needs a network of azjax with heads='convolutional'")
