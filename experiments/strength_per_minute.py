"""What buys strength per minute? Variants of a preset at equal time, judged by solved positions.

    taskset -c 0 python -m experiments.strength_per_minute                 # Hex 5x5, two minutes, two seeds a variant
    taskset -c 0 python -m experiments.strength_per_minute --seeds 0       # the first seed
    taskset -c 0 python -m experiments.strength_per_minute --only baseline wide "muon 2e-3"    # some variants
    taskset -c 1 nice -n 19 python -m experiments.strength_per_minute --clock cpu              # on a busy machine
    taskset -c 0 python -m experiments.strength_per_minute --preset hex6 --minutes 15 --simulations 64 1000 \\
        --only "openings none" "openings A1" "openings A3" "openings A123" baseline    # the openings of Daliri 2022

Each variant trains from nothing on one device until its time is over, by the clock on the wall or by the time that this
process had of a processor: on a machine with other work beside, the latter is fairer, though shared caches still slow
everything down, so that runs of the baseline between the others show the drift. The learning rate falls with the share
of the time that has passed. Variants that cost the same, such as openings, are better given equal --iterations.
Compiling is not counted. Then each answers the package's suite of solved positions, by search and by its raw policy,
and says who wins after each opening. The table grows in experiments/results/strength_per_minute/; what is there already
is not made again, and processes on cores of their own (`taskset`) may make different seeds at once.

Some variants change the configuration alone; those of `experiments.tricks` bring parts of their own.
"""

import collections
import dataclasses
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from azjax import theses, training
from azjax.agents import make_agent
from azjax.cli import progress
from azjax.common import atomic, keys
from azjax.evaluation import suites
from azjax.positions import PositionLine
from azjax.positions import sets as position_sets
from azjax.training import TrainState, checkpoint, presets
from azjax.training.config import TrainConfig
from experiments.strength import first_move_values
from experiments.tricks import TRICKS, Variant, carried_over, changed

RESULTS = pathlib.Path(__file__).parent / "results" / "strength_per_minute"
RAW = "raw policy"
Right = dict[str, list[list[int]]]  # what was asked -> (right, of how many) for each colour
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def searchless(**parts) -> Callable[[TrainConfig], TrainConfig]:
    """The preset without search in self-play, with other fields of its parts."""
    change = changed(**parts)
    return lambda config: change(presets.searchless(config))


_CHANGES = {
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
    "shallow": changed(network={"blocks": 2, "channels": 32}),
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

VARIANTS: dict[str, Variant] = {name: Variant(change) for name, change in _CHANGES.items()} | TRICKS


@dataclasses.dataclass(frozen=True)
class Config:
    """What to compare."""

    preset: str = "hex5"
    minutes: float = 2.0
    # By which these pass: on the wall, or of this process; what the latter says goes to a table of its own.
    clock: Literal["wall", "cpu"] = "wall"
    iterations: int | None = None  # of every variant, instead of the minutes
    seeds: tuple[int, ...] = (0, 1)
    only: tuple[str, ...] = tuple(VARIANTS)
    simulations: tuple[int, ...] = (64,)  # when judged


class Program(NamedTuple):
    """A variant, compiled, for any seed."""

    config: TrainConfig
    init: Callable[[jax.Array], TrainState]  # from a key
    # From the share of the time that has passed, and a state.
    iterate: Callable[[float, TrainState], TrainState]
    later: "Program | None" = None  # that of the second half


def compiled(config: TrainConfig, variant: Variant) -> Program:
    """Compiles the iteration of a variant of a configuration, with all that it does beside."""
    config = variant.change(config)
    game, optimiser, parts = config.game, config.optimiser, variant.parts(config)
    usual = training.make_openings(game, config.selfplay.openings, config.selfplay.opening_share)
    openings_of = None if variant.openings is None else variant.openings(config)
    after = (lambda state: state) if variant.after is None else variant.after(config)

    def iterate(usual: training.Openings, share: jax.Array, state: TrainState) -> TrainState:
        own = dict(parts)
        if optimiser.decay == "cosine":  # the others do not depend on how long a run is
            own["schedule"] = lambda step: optimiser.learning_rate * variant.decay(share)
        openings = usual if openings_of is None else openings_of(usual, state)
        state, _ = training.make_trainer(config, openings=openings, **own).iteration(state)
        return after(state)

    init = jax.jit(lambda usual, key: training.make_trainer(config, openings=usual, **parts).init(key))
    state = jax.eval_shape(init, usual, jax.random.key(0))
    program = jax.jit(iterate, donate_argnums=2).lower(usual, jnp.float32(0), state).compile()
    later = None
    if variant.later is not None:
        later = compiled(config, variant._replace(change=variant.later, later=None))
    return Program(
        config,
        lambda key: init(usual, key),
        lambda share, state: program(usual, jnp.float32(share), state),
        later,
    )


def train(
    program: Program, seed: int, seconds: float, clock: Callable[[], float], title: str, most: int | None
) -> tuple[TrainState, float]:
    """Trains for so many seconds of a clock, or `most` iterations; returns the end, and the seconds it took."""
    key = keys.root(seed, "training")
    state, larger = jax.block_until_ready((program.init(key), program.later and program.later.init(key)))
    start, passed, done = clock(), 0.0, 0
    with progress.bar() as bar:
        while (share := passed / seconds if most is None else done / most) < 1:
            if program.later is not None and share >= 0.5:
                program, state = program.later, carried_over(state, larger)
            state = program.iterate(share, state)
            jax.block_until_ready(state.iteration)
            passed, done = clock() - start, done + 1
            bar(title, min(round(seconds), round(passed)), round(seconds))
    return state, passed


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
    preset, suite = theses.preset(config.preset), suites.read_suite(config.preset)
    budget = {"minutes": config.minutes, "cores": _cores(), "clock": config.clock}
    for name in config.only:
        program = None
        for seed in config.seeds:
            key = {"variant": name, "seed": seed} | budget
            if any(key.items() <= row.items() for row in read_rows(path)):
                continue
            program = program or compiled(preset, VARIANTS[name])
            title = f"{name}, seed {seed}"
            state, seconds = train(
                program, seed, 60 * config.minutes, CLOCKS[config.clock], title, config.iterations
            )
            with tempfile.TemporaryDirectory() as folder:
                agent = pathlib.Path(folder) / "agent.npz"
                as_judged = dataclasses.replace((program.later or program).config, game=preset.game)
                checkpoint.export_agent(agent, as_judged, jax.device_get(state.average))
                right = judge(agent, config.simulations, suite)
            iterations = int(state.iteration)
            console.print(f"{title}, {iterations} iterations, {seconds:.0f} s")
            row = key | {"iterations": iterations, "seconds": round(seconds, 1), "right": right}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    table = tabulate(read_rows(path))
    console.print(table)
    with atomic.writing(path.with_suffix(".md")) as file:
        Console(file=file, width=200).print(table)


def read_rows(path: pathlib.Path) -> list[dict]:
    """What has been measured; the oldest rows do not name their clock, which was that on the wall."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [{"clock": "wall"} | json.loads(line) for line in lines]


def _cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    main(tyro.cli(Config, description=__doc__))
