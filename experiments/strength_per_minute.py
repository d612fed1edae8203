"""What buys strength per minute? Variants of a preset at equal wall-clock, judged by solved positions.

    python -m experiments.strength_per_minute                            # Hex 5x5, two minutes and two seeds a variant
    taskset -c 0 python -m experiments.strength_per_minute --seeds 0     # the first seed on one core
    python -m experiments.strength_per_minute --only baseline wide       # some variants
    python -m experiments.strength_per_minute --preset hex6 --minutes 15 --simulations 64 1000 \\
        --only "openings none" "openings A1" "openings A3" "openings A123" baseline    # the openings of Daliri 2022
    taskset -c 0 python -m experiments.strength_per_minute --only baseline "no search" --clock cpu --minutes 1.5

Each variant trains from nothing for the same time on this machine: its speed is measured first, and the number of
iterations and the decay of the learning rate follow from it. Variants that cost the same, such as openings, are better
given equal --iterations. Compiling is not counted. With --clock cpu minutes are those of the processor, of all cores
together, which is fair where something else runs beside. Then each answers the package's suite of solved positions, by
search and by its raw policy, and says who wins after each opening. The table grows in
experiments/results/strength_per_minute/; what is there already is not made again, and processes on cores of their own
(`taskset`) may make different seeds at once.
"""

import collections
import dataclasses
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from azjax import theses, training
from azjax.agents import make_agent
from azjax.cli import progress
from azjax.common import atomic
from azjax.evaluation import suites
from azjax.positions import PositionLine
from azjax.positions import sets as position_sets
from azjax.training import alphazero, checkpoint, distributed, presets
from azjax.training.config import TrainConfig
from experiments.strength import first_move_values

RESULTS = pathlib.Path(__file__).parent / "results" / "strength_per_minute"
RAW = "raw policy"
Right = dict[str, list[list[int]]]  # what was asked -> (right, of how many) for each colour


def changed(**parts) -> Callable[[TrainConfig], TrainConfig]:
    """Replaces fields of the parts of a configuration."""

    def change(config: TrainConfig) -> TrainConfig:
        new = {part: dataclasses.replace(getattr(config, part), **fields) for part, fields in parts.items()}
        return dataclasses.replace(config, **new)

    return change


def searchless(**parts) -> Callable[[TrainConfig], TrainConfig]:
    """The preset without search in self-play, with other fields of its parts."""
    change = changed(**parts)
    return lambda config: change(presets.searchless(config))


VARIANTS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "baseline": changed(),
    "constant rate": changed(optimiser={"decay": "constant"}),
    "8 simulations": changed(search={"simulations": 8}),
    "32 simulations": changed(search={"simulations": 32}),
    "reuse 2": changed(replay={"reuse": 2.0}),
    "reuse 8": changed(replay={"reuse": 8.0}),
    "playout cap": changed(search={"simulations": 32, "quick_simulations": 6, "full_share": 0.25}),
    "half root value": changed(selfplay={"value_target": "mixture", "value_share": 0.5}),
    "no averaging": changed(optimiser={"ema": 0.0}),
    "wide": changed(network={"blocks": 2, "channels": 64}),
    "deep": changed(network={"blocks": 8, "channels": 32}),
    "mlp": changed(network={"tower": "mlp", "channels": 256, "heads": "dense", "global_pooling": False}),
    "no symmetries": changed(optimiser={"symmetries": False}),
    "32 games": changed(selfplay={"lanes": 32, "plies": 32}),
    "512 games": changed(selfplay={"lanes": 512, "plies": 2}),
    "ownership": changed(network={"ownership": True}, optimiser={"ownership_weight": 0.2}),
    "no search": searchless(),
    "no search, reuse 2": searchless(replay={"reuse": 2.0}),
    "no search, outcomes": searchless(selfplay={"value_target": "outcome"}),
    "no search, 128 games": searchless(selfplay={"lanes": 128}, replay={"capacity": 1024, "warm_up": 512}),
} | {f"openings {kind}": changed(selfplay={"openings": kind}) for kind in ("none", "A1", "A3", "A123")}


@dataclasses.dataclass(frozen=True)
class Config:
    """What to compare."""

    preset: str = "hex5"
    minutes: float = 2.0
    iterations: int | None = None  # of every variant; default what its own speed allows
    seeds: tuple[int, ...] = (0, 1)
    only: tuple[str, ...] = tuple(VARIANTS)
    simulations: tuple[int, ...] = (64,)  # when judged
    # By which these pass: on the wall, or of this process; what the latter says goes to a table of its own.
    clock: Literal["wall", "cpu"] = "wall"


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Started:
    """A run in memory, compiled and ready."""

    def __init__(self, config: TrainConfig, clock: str):
        self._now = CLOCKS[clock]
        trainer = training.make_trainer(config, training.make_mesh())
        self.state = trainer.init(jax.random.key(config.seed))
        self._iteration, _ = alphazero.compile_iteration(trainer, self.state)

    def advance(self, iterations: int, watch: Callable[[int], None] = lambda done: None) -> float:
        """Trains on; returns the seconds it took."""
        start = self._now()
        for number in range(iterations):
            self.state, _ = self._iteration(self.state)
            jax.block_until_ready(self.state.iteration)
            watch(number + 1)
        return self._now() - start


def seconds_per_iteration(config: TrainConfig, clock: str) -> float:
    """Of iterations that learn, compiling aside."""
    started = Started(config, clock)
    while int(started.state.updates) == 0:
        started.advance(1)
    return started.advance(10) / 10


def scheduled(config: TrainConfig, iterations: int, seed: int) -> TrainConfig:
    """The same run with so many iterations; a decay of the learning rate ends with them."""
    optimiser = config.optimiser
    if optimiser.decay == "cosine":
        optimiser = dataclasses.replace(optimiser, decay_steps=iterations * config.updates)
    return dataclasses.replace(config, iterations=iterations, optimiser=optimiser, seed=seed)


def train(config: TrainConfig, agent: pathlib.Path, title: str, clock: str) -> float:
    """Trains to the end and leaves the agent in a file; returns the seconds it took."""
    started = Started(config, clock)
    with progress.bar() as bar:
        seconds = started.advance(config.iterations, lambda done: bar(title, done, config.iterations))
    checkpoint.export_agent(agent, config, jax.device_get(started.state.average))
    return seconds


def judge(agent: pathlib.Path, simulations: tuple[int, ...], suite: Sequence[PositionLine]) -> Right:
    """The positions answered with a winning move, by search and raw, and the openings whose value has its sign."""
    agents = {f"{count} simulations": f"az:{agent}?sims={count}" for count in simulations}
    right = {}
    for name, text in (agents | {RAW: f"net:{agent}"}).items():
        result = suites.run(lambda game, text=text: make_agent(text, game), suite, jax.random.key(0))
        right[name] = [[score.correct, score.positions] for score in result.by_player]
    config, params = checkpoint.load_agent(agent)
    first_moves = position_sets.successors(config.game, position_sets.start_of(config.game)).states
    values, truth = first_move_values(config.game, config, params, first_moves)
    right["opening signs"] = [[int((np.sign(values) == truth).sum()), len(truth)]]
    return right


def main(config: Config) -> None:
    """Makes what is missing of the table, and prints it."""
    unknown = set(config.only) - set(VARIANTS)
    if unknown:
        raise SystemExit(f"unknown variant {min(unknown)!r}; there are {', '.join(VARIANTS)}")
    console = Console()
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / (
        f"{config.preset}.jsonl" if config.clock == "wall" else f"{config.preset}-{config.clock}.jsonl"
    )
    suite = suites.read_suite(config.preset)
    budget = {"minutes": config.minutes, "cores": len(jax.devices())}
    if config.clock == "cpu":
        budget["clock"] = "cpu"
    for name in config.only:
        for seed in config.seeds:
            key = {"variant": name, "seed": seed} | budget
            if any(key.items() <= row.items() for row in read_rows(path)):
                continue
            variant = VARIANTS[name](theses.preset(config.preset))
            iterations = config.iterations or max(
                1, round(60 * config.minutes / seconds_per_iteration(variant, config.clock))
            )
            title = f"{name}, seed {seed}, {iterations} iterations"
            with tempfile.TemporaryDirectory() as folder:
                agent = pathlib.Path(folder) / "agent.npz"
                seconds = train(scheduled(variant, iterations, seed), agent, title, config.clock)
                right = judge(agent, config.simulations, suite)
            console.print(f"{title}, {seconds:.0f} s")
            row = key | {"iterations": iterations, "seconds": round(seconds), "right": right}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    table = tabulate(read_rows(path))
    console.print(table)
    with atomic.writing(path.with_suffix(".md")) as file:
        Console(file=file, width=200).print(table)


def read_rows(path: pathlib.Path) -> list[dict]:
    """What has been measured."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tabulate(rows: list[dict]) -> Table:
    """A table with the strongest variant first; shares are means over the seeds, with the range of these."""
    asked = list(rows[0]["right"]) if rows else []
    table = Table("variant", "minutes", "cores", "seeds", "iterations", *asked, box=box.MARKDOWN)

    def shares(of: list[dict], name: str) -> np.ndarray:
        return np.array([np.divide(*np.sum(row["right"][name], axis=0)) for row in of])

    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["variant"], row["minutes"], row["cores"]].append(row)
    for (name, minutes, cores), of in sorted(groups.items(), key=lambda item: -shares(item[1], RAW).mean()):
        found = (shares(of, column) for column in asked)
        cells = [f"{share.mean():.1%} ({share.min():.1%} to {share.max():.1%})" for share in found]
        iterations = f"{np.mean([row['iterations'] for row in of]):.0f}"
        table.add_row(name, f"{minutes:g}", str(cores), str(len(of)), iterations, *cells)
    return table


if __name__ == "__main__":
    distributed.make_cores_devices()
    main(tyro.cli(Config, description=__doc__))
