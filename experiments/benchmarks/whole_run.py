"""How close does a whole run, judging and saving included, come to its bare network?

    python -m experiments.benchmarks.whole_run            # about five minutes on two cores; keeps its table
    python -m experiments.benchmarks.whole_run --quick    # a smoke test; keeps nothing

The bare time of a run is what its network alone would need for the same number of evaluations in self-play, and of
forward and backward passes in learning, each at its own rate, on the same devices, with nothing between them: no trees,
no rules, no replay, no averaging over devices, no host. The rates are measured before and after the run. The clock of
the run begins when its iteration is compiled and stops when all is saved; the judges have been asked once before.
The share of CPU time says less than that of wall time, as it leaves out cores that wait, but holds on a busy machine.
"""

import dataclasses
import functools
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import tyro
from jax.sharding import PartitionSpec

from azjax import theses, training
from azjax.evaluation import live
from azjax.nn.networks import Params, make_network
from azjax.training import alphazero, checkpoint, distributed
from azjax.training.config import TrainConfig
from azjax.training.profiling import repeated_evaluation
from azjax.training.step import DEVICES
from experiments.benchmarks.selfplay import passes
from experiments.benchmarks.timing import report


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # a tiny run, nothing kept
    preset: str = "hex5"
    iterations: int = 100  # of the run that is judged and saved; half as many of the one that is not
    rounds: int = 3  # of the bare network, before and after


class Seconds(NamedTuple):
    """Of the clock on the wall, and of all cores together."""

    wall: float
    cpu: float


def measured(function: Callable[[], Any]) -> Seconds:
    """What a call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(function())
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def mean(seconds: list[Seconds]) -> Seconds:
    """The mean of several."""
    return Seconds(*(sum(column) / len(seconds) for column in zip(*seconds, strict=True)))


def bare_network(config: TrainConfig) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The evaluations, and the forward and backward passes, of an iteration, divided among all devices."""
    mesh = training.make_mesh(None, config.replay.groups)
    network = make_network(config.network, config.game)
    params = jax.jit(network.init)(jax.random.key(0))
    calls = config.selfplay.plies * (config.search.simulations + 1)

    def divided(function: Callable[[Params, jax.Array], jax.Array], batch: int) -> Callable[[], Any]:
        places = {"in_specs": (PartitionSpec(), PartitionSpec(DEVICES)), "out_specs": PartitionSpec(DEVICES)}
        compiled = jax.jit(jax.shard_map(function, mesh=mesh, check_vma=False, **places))
        return functools.partial(compiled, params, jnp.zeros((batch, *config.game.observation_shape)))

    def evaluate(params: Params, observation: jax.Array) -> jax.Array:
        carried, logits = repeated_evaluation(network, params, observation, calls)
        return jnp.sum(carried)[None] + jnp.sum(logits)[None]

    def learn(params: Params, observation: jax.Array) -> jax.Array:
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(passes(config, params, observation)))[None]

    return divided(evaluate, config.selfplay.lanes), divided(learn, config.replay.batch_size)


def run_seconds(
    config: TrainConfig, folder: pathlib.Path, judge: Callable | None
) -> tuple[Seconds, checkpoint.Run]:
    """What a run takes after its iteration is compiled, until everything is saved."""
    started: list[Seconds] = []

    def say(line: str) -> None:
        if line.startswith("compiled"):
            started.append(Seconds(time.perf_counter(), time.process_time()))

    make_judge = None if judge is None else lambda config: judge
    run = alphazero.train(config, folder, judge=make_judge, say=say)
    ended = Seconds(time.perf_counter(), time.process_time())
    return Seconds(ended.wall - started[0].wall, ended.cpu - started[0].cpu), run


def compare(name: str, config: TrainConfig, rounds: int, folder: pathlib.Path) -> dict[str, Any]:
    """A line about a preset."""
    evaluate, learn = bare_network(config)
    judge = live.make_judge(config)
    for warm_up in (evaluate, learn):
        jax.block_until_ready(warm_up())
    judge(jax.jit(make_network(config.network, config.game).init)(jax.random.key(0)), 0)

    bare: dict[str, list[Seconds]] = {"evaluate": [], "learn": []}

    def measure_bare() -> None:
        for _ in range(rounds):
            bare["evaluate"].append(measured(evaluate))
            bare["learn"].append(measured(learn))

    measure_bare()
    whole, run = run_seconds(config, folder / "whole", judge)
    half = max(1, config.iterations // 2)
    alone, unjudged = run_seconds(
        dataclasses.replace(config, iterations=half, save_every=half), folder / "alone", None
    )
    measure_bare()

    def bare_time(run: checkpoint.Run) -> Seconds:
        last = run.read_metrics()[-1]
        each = mean(bare["evaluate"]), mean(bare["learn"])
        learned = last["updates"] / config.updates  # iterations, without those that only filled the replay
        return Seconds(*(last["iteration"] * one + learned * other for one, other in zip(*each)))

    return {
        "preset": name,
        "iterations": config.iterations,
        "run, s": whole.wall,
        "bare network, s": bare_time(run).wall,
        "share": bare_time(run).wall / whole.wall,
        "share of CPU time": bare_time(run).cpu / whole.cpu,
        "without judging and saving": bare_time(unjudged).wall / alone.wall,
    }


def main(config: Config) -> None:
    """Measures and prints a table."""
    distributed.make_cores_devices()  # as `azjax train` does
    preset = dataclasses.replace(theses.preset(config.preset), iterations=config.iterations)
    if config.quick:
        preset = dataclasses.replace(
            theses.preset("hex3"),
            selfplay=training.SelfplayConfig(lanes=8, plies=2),
            replay=training.ReplayConfig(capacity=256, batch_size=16, warm_up=16),
            evaluation=training.EvaluationConfig(pairs=1, simulations=2, uct_simulations=2, truth=False),
            iterations=4,
        )
    name = "hex3" if config.quick else config.preset
    with tempfile.TemporaryDirectory() as folder:
        row = compare(name, preset, 1 if config.quick else config.rounds, pathlib.Path(folder))
    report("whole_run", "A whole run beside its bare network", [row], keep=not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
