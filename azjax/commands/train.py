"""`azjax train PRESET`: train from nothing, or go on with --resume."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Annotated

import jax
import tyro
from rich.console import Console
from rich.progress import Progress

from azjax import presets, report
from azjax import run as training_run
from azjax.commands import options
from azjax.commands.progress import columns
from azjax.config import ConfigError, TrainConfig

Watcher = Callable[[training_run.Progress], None]


@dataclasses.dataclass(frozen=True)
class TrainCommand:
    """Train an agent; every setting of the preset can be changed."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    out: pathlib.Path | None = None  # the run's folder; default runs/PRESET
    resume: bool = False  # continue the run in that folder
    resume_from: int | None = None  # continue from this checkpoint rather than the newest
    devices: int | None = None  # how many to use; default all
    # One of several processes: auto on a TPU pod, or HOST:PORT,PROCESSES,NUMBER.
    distributed: str | None = None
    tensorboard: bool = False  # also write events for TensorBoard into the run's folder
    json: bool = False  # print one JSON object a line instead of a progress bar


def run(arguments: list[str]) -> None:
    """Trains, watched by a progress bar or as JSON lines, and writes the report."""
    name, command = options.of_preset(TrainCommand, arguments, "azjax train")
    out = command.out or pathlib.Path("runs") / name.replace("/", "-")
    watchers = [_tensorboard_watcher(out)] if command.tensorboard and jax.process_index() == 0 else []
    train = functools.partial(
        training_run.train,
        command.config,
        out,
        resume=command.resume,
        resume_from=command.resume_from,
        devices=command.devices,
    )
    console = Console(stderr=command.json)
    if command.json:
        watchers.append(lambda progress: print(json.dumps(progress.row), flush=True))
        finished = train(watch=_all_of(watchers), say=console.print)
    else:
        console.print(f"[bold]{name}[/bold]: {presets.describe(name)}; folder {out}")
        with Progress(*columns(), console=console) as bar:
            watchers.append(_bar_watcher(bar, console, command.config.iterations))
            finished = train(watch=_all_of(watchers), say=console.print)
    if jax.process_index() == 0:
        page = report.write(finished)
        if not command.json:
            report.summarise(finished, console)
        console.print(f"The report is in {page}; the agent in {out / 'agent.npz'}.")


def _bar_watcher(bar: Progress, console: Console, iterations: int) -> Watcher:
    task = bar.add_task("compiling (about half a minute the first time)", total=iterations)

    def watch(progress: training_run.Progress) -> None:
        row = progress.row
        bar.update(task, completed=row["iteration"], description=_progress_line(row))
        for opponent, result in row.get("evaluation", {}).items():
            low, high = result["interval"]
            console.print(
                f"iteration {row['iteration']}: scores {100 * result['score']:.0f} % against {opponent}"
                f" ({100 * low:.0f} to {100 * high:.0f}, {result['games']} games)"
            )
        if "truth" in row:
            shares = (f"{name.replace('_', ' ')} {100 * share:.0f} %" for name, share in row["truth"].items())
            console.print(f"iteration {row['iteration']}: against the solver, {', '.join(shares)}")

    return watch


def _tensorboard_watcher(out: pathlib.Path) -> Watcher:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError("--tensorboard needs another package: pip install 'azjax[tensorboard]'") from None
    writer = None

    def watch(progress: training_run.Progress) -> None:
        nonlocal writer
        writer = writer or SummaryWriter(
            str(out / "tensorboard")
        )  # the folder is there once the run has begun
        for path, value in jax.tree_util.tree_leaves_with_path(progress.row):
            if all(isinstance(part, jax.tree_util.DictKey) for part in path):  # intervals are lists
                name = "/".join(part.key for part in path)
                writer.add_scalar(name, value, progress.row["iteration"])
        writer.flush()

    return watch


def _all_of(watchers: list[Watcher]) -> Watcher:
    def watch(progress: training_run.Progress) -> None:
        for watcher in watchers:
            watcher(progress)

    return watch


def _progress_line(row: dict) -> str:
    loss = row["loss"]
    learned = f"loss {loss['policy']:.2f} + {loss['value']:.2f}" if loss["total"] else "filling the replay"
    return (
        f"{row['games']:,} games, {row['positions_per_second']:,.0f} positions/s, {learned},"
        f" first player {100 * row['first_player_score']:.0f} %"
    )
