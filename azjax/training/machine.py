"""What the machine has, what a run asks of it, and what to change where that does not fit."""

import dataclasses
import functools
import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from azjax import training
from azjax.common import memory
from azjax.nn.networks import make_network
from azjax.training import boards
from azjax.training.config import TrainConfig

PACKAGES = ("azjax", "jax", "jaxlib", "flax", "optax", "mctx", "pgx", "orbax-checkpoint", "numpy")
# Published peaks of one chip in bfloat16, dense, in operations per second; the first name that a device's kind
# begins with. In float32 a TPU reaches a sixth of it at most: as many products in bfloat16 make one, see `azjax.nn`.
PEAKS = {
    "TPU v6 lite": 918e12,
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
    "TPU v4": 275e12,
    "NVIDIA H100": 989e12,
    "NVIDIA A100": 312e12,
    "NVIDIA L4": 121e12,
}
_FORWARD_AND_BACKWARD = (
    3  # times the operations of an evaluation: outputs, gradients of inputs and of weights
)


def describe() -> dict[str, Any]:
    """Versions, devices and memory, as plain data."""
    devices = jax.devices()
    kinds = [device.device_kind for device in devices]
    there_is, _ = memory.available(len(devices))
    return {
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES}
        | {"Python": platform.python_version()},
        "backend": jax.default_backend(),
        "devices": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        "processes": jax.process_count(),
        "memory": there_is,
    }


def peak(dtype: str = "float32") -> tuple[float, str]:
    """Operations per second of one device at best, and where that is from: published, or a product measured here."""
    kind = jax.devices()[0].device_kind
    for name, operations in PEAKS.items():
        if kind.startswith(name):
            return operations, "published for bfloat16"
    size = 1024
    matrix = jnp.ones((size, size), dtype)
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / least_seconds(
        functools.partial(product, matrix)
    ), f"a product of matrices in {dtype}"


def least_seconds(function: Callable[[], Any], rounds: int = 5) -> float:
    """The least time of several calls, after one that compiles."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(function())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def evaluation_operations(config: TrainConfig) -> float:
    """Operations of one evaluation of one position, as XLA counts them in the program of this platform."""
    network = make_network(config.network, config.game)
    params = jax.eval_shape(network.init, jax.random.key(0))
    batch = 8
    observation = jax.ShapeDtypeStruct((batch, *config.game.observation_shape), jnp.float32)
    return float(jax.jit(network.apply).lower(params, observation).cost_analysis()["flops"]) / batch


def iteration_operations(config: TrainConfig) -> float:
    """Operations of the network in one iteration on all devices; trees and rules have hardly any."""
    evaluations = evaluations_of(config)
    learned = config.updates * config.replay.batch_size
    return evaluation_operations(config) * (evaluations + _FORWARD_AND_BACKWARD * learned)


def evaluations_of(config: TrainConfig) -> int:
    """Positions that the searches of one iteration ask the network about."""
    return config.selfplay.lanes * config.most_plies * config.search.evaluations


def estimate(config: TrainConfig, devices: int) -> dict[str, float]:
    """Positions per second that this machine could make at most, from its network alone.

    The network is timed on one device's share of the lanes and of a batch; trees, rules and what devices tell each
    other are left out, and devices are taken to work side by side without hindrance. So a run makes somewhat less.

    Returns:
      positions_per_second, and the seconds of an iteration of which they are made: evaluating and learning. With
      several boards, of an iteration that plays all of them.
    """
    times = [_seconds_of_board(boards.alone(config, board.game), devices) for board in config.played]
    evaluating, learning = map(sum, zip(*times))
    made = config.selfplay.lanes * config.most_plies * len(times)
    return {
        "positions_per_second": made / (evaluating + learning),
        "evaluating_seconds": evaluating,
        "learning_seconds": learning,
    }


def _seconds_of_board(config: TrainConfig, devices: int) -> tuple[float, float]:
    """Of an iteration: evaluating and learning."""
    network, playing = (
        make_network(look, config.game) for look in (config.network, training.playing_config(config))
    )
    params = jax.jit(network.init)(jax.random.key(0))
    playing_params = training.playing_copy(config, params)

    def observations(number: int) -> jax.Array:
        return jnp.zeros((max(1, number // devices), *config.game.observation_shape))

    def loss(weights: Any, observation: jax.Array) -> jax.Array:
        outputs, _ = network.train(params._replace(weights=weights), observation)
        return jnp.mean(jax.nn.log_softmax(outputs.logits)) + jnp.mean(outputs.value)

    evaluation = functools.partial(
        jax.jit(playing.apply), playing_params, observations(config.selfplay.lanes)
    )
    update = functools.partial(
        jax.jit(jax.grad(loss)), params.weights, observations(config.replay.batch_size)
    )
    evaluating = least_seconds(evaluation) * evaluations_of(config) / config.selfplay.lanes
    learning = least_seconds(update) * config.updates
    return evaluating, learning


def why_not(config: TrainConfig) -> str | None:
    """Why a run does not fit into memory, or None if it does; nothing is compiled or allocated."""
    try:
        training.make_trainer(
            config,
            training.make_mesh(None, config.replay.groups),
            openings="none",  # which need no time to be made
        )
    except memory.TooMuchMemoryError as error:
        return str(error)
    return None


def that_fits(config: TrainConfig, fits: Callable[[TrainConfig], bool]) -> dict[str, int] | None:
    """The options to change so that a run fits, with their new values; None if nothing found is small enough.

    Args:
      config: a run that does not fit.
      fits: whether a run does.
    """
    for smaller, changed in smaller_runs(config):
        if fits(smaller):
            return changed
    return None


def smaller_runs(config: TrainConfig) -> Iterator[tuple[TrainConfig, dict[str, int]]]:
    """Runs with ever less: the replay first, which costs the least strength, then lanes, then simulations."""
    changed: dict[str, int] = {}
    least = config.replay.groups * max(1, *(board.game.max_plies for board in config.played))
    for option, lowest in (
        ("replay.capacity", max(least, config.replay.warm_up, 2 * config.replay.batch_size)),
        ("selfplay.lanes", config.replay.groups),
        ("search.simulations", 8),
    ):
        part, field = option.split(".")
        while (half := getattr(getattr(config, part), field) // 2) >= lowest:
            try:
                smaller = dataclasses.replace(
                    config, **{part: dataclasses.replace(getattr(config, part), **{field: half})}
                )
            except ValueError:  # half of it is no multiple of the groups
                break
            config, changed = smaller, changed | {option: half}
            yield config, changed
