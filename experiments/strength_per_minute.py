"""What buys strength per minute? Variants of a preset at equal wall-clock, judged by solved positions.

    python -m experiments.strength_per_minute                       # Hex 5x5, two minutes and two seeds a variant
    python -m experiments.strength_per_minute --only baseline wide  # some variants

Each variant trains from nothing for the same time on this machine: its speed is measured first, and the number of
iterations and the decay of the learning rate follow from it. Compiling is not counted. Then it answers the package's
suite of solved positions, by search and by its raw policy. The table grows in experiments/results/strength_per_minute/;
what is there already is not made again.
"""

import dataclasses
import json
import pathlib
import tempfile
import time
from collections.abc import Callable

from azjax import distributed

distributed.make_cores_devices()

import jax  # noqa: E402
import tyro  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from azjax import presets, run, training  # noqa: E402
from azjax.agents import make_agent  # noqa: E402
from azjax.config import TrainConfig  # noqa: E402
from azjax.evaluation import suites  # noqa: E402

RESULTS = pathlib.Path(__file__).parent / "results" / "strength_per_minute"


def changed(**parts) -> Callable[[TrainConfig], TrainConfig]:
    """Replaces fields of the parts of a configuration."""

    def change(config: TrainConfig) -> TrainConfig:
        new = {part: dataclasses.replace(getattr(config, part), **fields) for part, fields in parts.items()}
        return dataclasses.replace(config, **new)

    return change


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
    "ownership": changed(network={"ownership": True}, optimiser={"ownership_weight": 0.2}),
    "openings A1": changed(selfplay={"openings": "A1", "random_opening_share": 0.0}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """What to compare."""

    preset: str = "hex5"
    minutes: float = 2.0
    seeds: tuple[int, ...] = (0, 1)
    only: tuple[str, ...] = tuple(VARIANTS)
    simulations: int = 64  # when judged


def seconds_an_iteration(config: TrainConfig) -> float:
    """Of iterations that learn, compiling aside."""
    trainer = training.make_trainer(config, training.make_mesh())
    state = trainer.init(jax.random.key(0))
    iteration, _ = run.compile_iteration(trainer, state)
    while int(state.updates) == 0:
        state, _ = iteration(state)
    start = time.perf_counter()
    for _ in range(5):
        state, _ = iteration(state)
    jax.block_until_ready(state)
    return (time.perf_counter() - start) / 5


def train_for(config: TrainConfig, minutes: float, seed: int, folder: str) -> TrainConfig:
    """Trains for so long; gives the configuration that was used."""
    iterations = max(1, round(60 * minutes / seconds_an_iteration(config)))
    optimiser = config.optimiser
    if optimiser.decay == "cosine":
        optimiser = dataclasses.replace(optimiser, decay_steps=iterations * config.updates)
    evaluation = dataclasses.replace(config.evaluation, every=10 * iterations, pairs=1, truth=False)
    config = dataclasses.replace(
        config,
        iterations=iterations,
        optimiser=optimiser,
        evaluation=evaluation,
        seed=seed,
        save_every=10 * iterations,
    )
    run.train(config, folder, say=lambda line: None)
    return config


def main(config: Config) -> None:
    """Makes what is missing of the table, and prints it."""
    console = Console()
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{config.preset}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    suite = suites.read_suite(config.preset)
    for name in config.only:
        if name not in VARIANTS:
            raise SystemExit(f"unknown variant {name!r}; there are {', '.join(VARIANTS)}")
        for seed in config.seeds:
            key = {"variant": name, "seed": seed, "minutes": config.minutes}
            if any(key.items() <= row.items() for row in rows):
                continue
            console.print(f"{name}, seed {seed}")
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                used = train_for(VARIANTS[name](presets.preset(config.preset)), config.minutes, seed, folder)
                row = key | {"iterations": used.iterations, "seconds": time.perf_counter() - start}
                for column, text in (
                    ("search", f"az:{folder}?sims={config.simulations}"),
                    ("policy", f"net:{folder}"),
                ):
                    result = suites.run(
                        lambda game, text=text: make_agent(text, game), suite, jax.random.key(0)
                    )
                    row[column] = result.all.share
            rows.append(row)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    table = Table(
        "variant",
        "seeds",
        "iterations",
        "search",
        "raw policy",
        title=f"{config.preset}, {config.minutes} min",
    )
    for name in VARIANTS:
        of = [row for row in rows if row["variant"] == name and row["minutes"] == config.minutes]
        if of:
            means = [sum(row[c] for row in of) / len(of) for c in ("iterations", "search", "policy")]
            table.add_row(name, str(len(of)), f"{means[0]:.0f}", f"{means[1]:.1%}", f"{means[2]:.1%}")
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
