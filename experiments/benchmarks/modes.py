"""How much faster than the thesis's four ways of self-play is the compiled loop? Whole iterations, per core.

    python -m experiments.benchmarks.modes            # keeps its table
    python -m experiments.benchmarks.modes --quick    # a smoke test; keeps nothing

The four are those of Karki 2024, made anew in `azjax.learners.host`: trees in Python, one game at a time or several
threads, with the network asked position by position or from an inference queue. Rules, network, search, buffer and loss
are the same on both sides, and so is an iteration: as many new positions, then as many steps of the optimiser. All
rates are positions played per CPU-second of one core, learning included; the first iteration, which compiles, is not
counted.
"""

import dataclasses
import time

import jax
import tyro

from azjax import theses, training
from azjax.learners.host import MODES, Host, Mode
from azjax.nn.networks import NetworkConfig
from azjax.training.config import TrainConfig
from experiments.benchmarks.timing import report, use_one_core


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    blocks: int = 4
    channels: int = 48
    positions: int = 600  # per iteration on the host
    lanes: tuple[int, ...] = (
        6,
        128,
    )  # games at a time: the thesis's 6 on both sides, and more for the compiled loop


def config_of(options: Config, lanes: int, plies: int) -> TrainConfig:
    """The thesis's 4x4 run with a smaller network."""
    config = theses.preset("karki2024/4x4")
    played = lanes * plies
    batch = config.replay.batch_size
    return dataclasses.replace(
        config,
        network=NetworkConfig(blocks=options.blocks, channels=options.channels),
        search=dataclasses.replace(config.search, simulations=7 if options.quick else 127),
        selfplay=dataclasses.replace(config.selfplay, lanes=lanes, plies=plies, log=False),
        replay=dataclasses.replace(
            config.replay, capacity=max(1000, 2 * played), reuse=batch * max(1, played // batch) / played
        ),
    )


def on_the_host(config: TrainConfig, mode: Mode) -> dict[str, object]:
    """One way of the thesis, in its second iteration."""
    run = Host(config, mode)
    run.iterate()
    begin = time.process_time()
    found = run.iterate()
    seconds = time.process_time() - begin
    lanes = config.selfplay.lanes if mode in ("parallel", "queue") else 1
    mean_batch = sum(found.batches) / len(found.batches) if found.batches else 1.0
    return {
        "way": mode,
        "games at a time": lanes,
        "positions per batch": mean_batch,
        "positions/s": found.positions / seconds,
    }


def compiled(config: TrainConfig) -> dict[str, object]:
    """The compiled loop, in its second iteration."""
    trainer = training.make_trainer(config, training.make_mesh(1))
    state, _ = trainer.iteration(trainer.init(jax.random.key(0)))
    jax.block_until_ready(state)
    begin = time.process_time()
    state, metrics = trainer.iteration(state)
    jax.block_until_ready(state)
    rate = int(metrics.counts.positions) / (time.process_time() - begin)
    lanes = config.selfplay.lanes
    return {
        "way": "compiled loop",
        "games at a time": lanes,
        "positions per batch": float(lanes),
        "positions/s": rate,
    }


def main(options: Config) -> None:
    """Measures all of them and prints a table."""
    use_one_core()
    positions = 12 if options.quick else options.positions
    host = config_of(options, options.lanes[0], max(1, positions // options.lanes[0]))
    rows = [on_the_host(host, mode) for mode in MODES]
    for lanes in options.lanes[:1] if options.quick else options.lanes:
        plies = 2 if options.quick else max(16, positions // lanes)
        rows.append(compiled(config_of(options, lanes, plies)))
    slowest = {row["way"]: row["positions/s"] for row in rows}["queue"]
    rows = [row | {"times the queue": row["positions/s"] / slowest} for row in rows]
    report("modes", "Ways of self-play on Chinese Checkers 4x4, per core", rows, keep=not options.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
