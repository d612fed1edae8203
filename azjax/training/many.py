"""Several runs in one compiled program: seeds, or learning rates, side by side.

The pure iteration of `make_trainer` without a mesh is vmapped over whole runs, and the runs are divided among the
devices, which need not talk to each other. Small boards leave most of an accelerator idle; eight runs fill it better
than one.
"""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from azjax.common import keys, tables
from azjax.nn.networks import Params
from azjax.training import boards, checkpoint
from azjax.training.alphazero import counters, metrics_rows
from azjax.training.config import ConfigError, TrainConfig
from azjax.training.openings import make_openings
from azjax.training.selfplay import Openings
from azjax.training.step import Metrics, TrainState, check_memory, make_trainer

RUNS = "runs"


@dataclasses.dataclass(frozen=True, repr=False)
class TrainedRuns:
    """What `train_many` made: one entry per run in each field."""

    configs: tuple[TrainConfig, ...]  # each as the run alone would have had it
    params: tuple[Params, ...]  # the averaged weights, on the host
    rows: tuple[tuple[dict[str, Any], ...], ...]  # [runs][iterations], as in metrics.jsonl
    # the averaged weights [runs] after each iteration that was asked for
    snapshots: dict[int, tuple[Params, ...]] = dataclasses.field(default_factory=dict)

    def export(self, folder: str | os.PathLike) -> list[pathlib.Path]:
        """Writes each run's agent into a folder, as NAME.npz, which plays like any other.

        Returns:
          The files, in the order of the runs.
        """
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.npz" for name in self.names]
        for path, config, params in zip(paths, self.configs, self.params):
            checkpoint.export_agent(path, config, params)
        return paths

    @property
    def names(self) -> list[str]:
        """What tells the runs apart, such as `seed-3`, or `seed-3-rate-0.002`."""
        rates = {config.optimiser.learning_rate for config in self.configs}
        tell_rate = len(rates) > 1
        return [
            f"seed-{config.seed}" + (f"-rate-{config.optimiser.learning_rate:g}" if tell_rate else "")
            for config in self.configs
        ]

    def grid(self) -> tables.Grid:
        """The last iteration of each run, and in HTML how its loss went."""
        return tables.Grid(
            columns=("run", "iterations", "games", "policy loss", "value loss"),
            rows=[
                (
                    name,
                    f"{rows[-1]['iteration']:,}",
                    f"{rows[-1]['games']:,}",
                    f"{rows[-1]['loss']['policy']:.3f}",
                    f"{rows[-1]['loss']['value']:.3f}",
                )
                for name, rows in zip(self.names, self.rows)
            ],
            title=f"{len(self.configs)} runs of {self.configs[0].game}",
            pictures=[tables.sparkline([row["loss"]["total"] for row in rows]) for rows in self.rows],
        )

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def train_many(
    config: TrainConfig,
    seeds: int | Sequence[int] = 8,
    *,
    learning_rates: Sequence[float] | None = None,
    devices: int | None = None,
    snapshots: Collection[int] = (),
    watch: Callable[[int, list[dict[str, Any]]], None] = lambda iteration, rows: None,
    **parts: Any,
) -> TrainedRuns:
    """Trains several runs at once, in one compiled program.

    Each run plays the games and makes the updates of `azjax.train` with its seed and learning rate alone. What is equal
    to that run to the bit: all draws, and so every game until a rounding tells two moves apart. Weights agree up to
    rounding, because a matrix product of several runs may be summed in another order than that of one. A run whose
    gradients are no numbers learns nothing from them, and its rows say so (`skipped_updates`); the others go on.

    Args:
      config: of every run; its seed is not used.
      seeds: how many runs, with seeds from 0, or the seeds.
      learning_rates: as many as seeds, or any number with one seed; None for the configuration's.
      devices: over how many the runs are divided; None for as many of this process's as can share them alike.
      snapshots: iterations after which the averaged weights are kept too; 0 for those that the runs begin with.
      watch: called with every iteration's number and the rows of all runs.
      **parts: own parts, see `make_trainer`.

    Raises:
      ConfigError: the numbers of seeds and learning rates do not fit together, the runs have several boards, or a
        snapshot is of an iteration that there will not be.
    """
    boards.require_one(config, "train_many")
    configs = _configs(config, seeds, learning_rates)
    if beyond := sorted(set(snapshots) - set(range(config.iterations + 1))):
        raise ConfigError(f"snapshots must be between 0 and {config.iterations} iterations, got {beyond[0]}")
    mesh = _mesh(len(configs), devices)
    kind = parts.pop("openings", None)
    if kind is None or isinstance(kind, str):
        kind = make_openings(
            config.game, config.selfplay.openings if kind is None else kind, config.selfplay.opening_share
        )

    def trainer_of(openings: Openings, rate: jax.Array):
        schedule = parts.get("schedule") or config.optimiser.schedule(rate)
        return make_trainer(config, **parts | {"openings": openings, "schedule": schedule})

    def init(openings: Openings, rate: jax.Array, key: jax.Array) -> TrainState:
        return trainer_of(openings, rate).init(key)

    def iteration(openings: Openings, rate: jax.Array, state: TrainState) -> tuple[TrainState, Metrics]:
        return trainer_of(openings, rate).iteration(state)

    def on_all(function: Callable, **options) -> Callable:
        divided = PartitionSpec(RUNS)
        mapped = jax.shard_map(
            jax.vmap(function, (None, 0, 0)),
            mesh=mesh,
            in_specs=(PartitionSpec(), divided, divided),
            out_specs=divided,
            check_vma=False,
        )
        return functools.partial(jax.jit(mapped, **options), openings)

    first = jax.eval_shape(init, kind, jnp.float32(0), jax.random.key(0))
    check_memory(config, first, mesh.size, runs=len(configs))
    place = NamedSharding(mesh, PartitionSpec(RUNS))
    openings = jax.device_put(kind, NamedSharding(mesh, PartitionSpec()))
    rates = jax.device_put(jnp.asarray([one.optimiser.learning_rate for one in configs], jnp.float32), place)
    # Put together by NumPy: a program that stacks many keys takes minutes to compile.
    words = np.stack([jax.random.key_data(keys.root(one.seed, "training")) for one in configs])
    starts = jax.device_put(jax.random.wrap_key_data(words), place)
    states = on_all(init)(rates, starts)
    step = on_all(iteration, donate_argnums=2)
    history: list[list[dict[str, Any]]] = []
    kept = {0: _weights_of_each(states, len(configs))} if 0 in snapshots else {}
    while len(history) < config.iterations:
        states, metrics = step(rates, states)
        history.append(metrics_rows(jax.device_get((counters(states), metrics)), len(configs)))
        if len(history) in snapshots:
            kept[len(history)] = _weights_of_each(states, len(configs))
        watch(len(history), history[-1])
    return TrainedRuns(configs, _weights_of_each(states, len(configs)), tuple(zip(*history)), kept)


def _weights_of_each(states: TrainState, runs: int) -> tuple[Params, ...]:
    """The averaged weights of each run on the host: copies, for the next iteration writes over its argument."""
    averages = jax.device_get(states.average)
    return tuple(jax.tree.map(lambda leaf, run=run: np.array(leaf[run]), averages) for run in range(runs))


def _configs(
    config: TrainConfig, seeds: int | Sequence[int], learning_rates: Sequence[float] | None
) -> tuple[TrainConfig, ...]:
    """The runs' own configurations, which check every seed and learning rate."""
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    rates = [config.optimiser.learning_rate] if learning_rates is None else list(learning_rates)
    if not numbers or not rates:
        raise ConfigError(
            f"train_many needs a seed and a learning rate, got seeds={seeds!r}, {learning_rates=!r}"
        )
    if len(rates) == 1:
        rates = rates * len(numbers)
    if len(numbers) == 1:
        numbers = numbers * len(rates)
    if len(numbers) != len(rates):
        raise ConfigError(
            f"give as many learning rates as seeds, or one of either, got {len(numbers)} seeds and {len(rates)} rates"
        )
    return tuple(
        dataclasses.replace(
            config, seed=seed, optimiser=dataclasses.replace(config.optimiser, learning_rate=rate)
        )
        for seed, rate in zip(numbers, rates)
    )


def _mesh(runs: int, devices: int | None) -> Mesh:
    local = jax.local_devices()
    fitting = [count for count in range(1, len(local) + 1) if runs % count == 0]
    if devices is None:
        devices = fitting[-1]
    if devices not in fitting:
        raise ConfigError(f"{runs} runs can be divided among {fitting} devices here, got {devices}")
    return Mesh(local[:devices], (RUNS,))
