"""`azjax train PRESET`: train from nothing, or go on with --resume."""

import dataclasses
import json
import pathlib
import sys
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from azjax import presets, report
from azjax import run as training_run
from azjax.commands import options
from azjax.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class TrainCommand:
    """Train an agent; every setting of the preset can be changed."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    out: pathlib.Path | None = None  # the run's folder; default runs/PRESET
    resume: bool = False  # continue the run in that folder
    resume_from: int | None = None  # continue from this checkpoint rather than the newest
    devices: int | None = None  # how many to use; default all
    json: bool = False  # print one JSON object a line instead of a progress bar


def run(arguments: list[str]) -> None:
    """Trains, watched by a progress bar or as JSON lines, and writes the report."""
    name, command = options.of_preset(TrainCommand, arguments, "azjax train")
    out = command.out or pathlib.Path("runs") / name.replace("/", "-")
    console = Console()
    settings = {"resume": command.resume, "resume_from": command.resume_from, "devices": command.devices}
    if command.json:
        finished = training_run.train(
            command.config,
            out,
            watch=lambda progress: print(json.dumps(progress.row), flush=True),
            say=lambda line: print(line, file=sys.stderr, flush=True),
            **settings,
        )
        page = report.write(finished)
        print(f"report: {page}", file=sys.stderr)
        return
    console.print(f"[bold]{name}[/bold]: {presets.describe(name)}; folder {out}")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("compiling (about half a minute the first time)", total=command.config.iterations)

        def watch(progress: training_run.Progress) -> None:
            row = progress.row
            bar.update(task, completed=row["iteration"], description=_progress_line(row))
            for opponent, result in row.get("evaluation", {}).items():
                low, high = result["interval"]
                console.print(
                    f"iteration {row['iteration']}: scores {100 * result['score']:.0f} % against {opponent}"
                    f" ({100 * low:.0f} to {100 * high:.0f}, {result['games']} games)"
                )

        finished = training_run.train(command.config, out, watch=watch, say=console.print, **settings)
    page = report.write(finished)
    report.summarise(finished, console)
    console.print(f"The report is in {page}; the agent in {out / 'agent.npz'}.")


def _progress_line(row: dict) -> str:
    loss = row["loss"]
    learned = f"loss {loss['policy']:.2f} + {loss['value']:.2f}" if loss["total"] else "filling the replay"
    return (
        f"{row['games']:,} games, {row['positions_per_second']:,.0f} positions/s, {learned},"
        f" first player {100 * row['first_player_score']:.0f} %"
    )
