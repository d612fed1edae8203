"""The command line: `azjax train PRESET`, `azjax profile PRESET`, `azjax presets`."""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from azjax import checkpoint, presets, profiling, report, run
from azjax.config import ConfigError, TrainConfig
from azjax.envs.core import GameError

USAGE = """azjax: an AlphaZero laboratory in JAX

  azjax presets                    what can be trained, by name
  azjax train PRESET [options]     train from nothing, or go on with --resume
  azjax profile PRESET [options]   where an iteration's time goes
  azjax report RUN                 draw a run's curves, a game and the opening heat map again

Add --help to a command for its options."""


@dataclasses.dataclass(frozen=True)
class TrainCommand:
    """Train an agent; every setting of the preset can be changed."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    out: pathlib.Path | None = None  # the run's folder; default runs/PRESET
    resume: bool = False  # continue the run in that folder
    resume_from: int | None = None  # continue from this checkpoint rather than the newest
    devices: int | None = None  # how many to use; default all
    json: bool = False  # print one JSON object a line instead of a progress bar


@dataclasses.dataclass(frozen=True)
class ProfileCommand:
    """Measure where an iteration's time goes."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    json: bool = False  # print JSON instead of a table


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code. What a user got wrong is one line, not a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[[list[str]], None]] = {
        "presets": _presets,
        "train": _train,
        "profile": _profile,
        "report": _report,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    try:
        if arguments[0] not in commands:
            raise ConfigError(f"unknown command {arguments[0]!r}; there are {', '.join(commands)}")
        commands[arguments[0]](arguments[1:])
    except (ConfigError, GameError, checkpoint.RunError, ValueError) as error:
        print(f"azjax: {error}", file=sys.stderr)
        return 2
    return 0


def _presets(arguments: list[str]) -> None:
    as_json = arguments == ["--json"]
    if as_json:
        print(json.dumps({name: presets.describe(name) for name in presets.preset_names()}))
        return
    table = Table("preset", "what it is")
    for name in presets.preset_names():
        table.add_row(name, presets.describe(name))
    Console().print(table)


def _of_preset(command: type, arguments: list[str], program: str):
    """Parses the options of a command that begins with a preset's name."""
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:32}{presets.describe(name)}" for name in presets.preset_names())
        print(f"usage: {program} PRESET [options]; {program} PRESET --help lists them\n\n{names}")
        raise SystemExit(0)
    name, *options = arguments
    default = command(config=presets.preset(name))
    parsed = tyro.cli(
        tyro.conf.AvoidSubcommands[command], default=default, args=options, prog=f"{program} {name}"
    )
    return name, parsed


def _train(arguments: list[str]) -> None:
    name, command = _of_preset(TrainCommand, arguments, "azjax train")
    out = command.out or pathlib.Path("runs") / name.replace("/", "-")
    console = Console()
    options = {"resume": command.resume, "resume_from": command.resume_from, "devices": command.devices}
    if command.json:
        finished = run.train(
            command.config,
            out,
            watch=lambda progress: print(json.dumps(progress.row), flush=True),
            say=lambda line: print(line, file=sys.stderr, flush=True),
            **options,
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

        def watch(progress: run.Progress) -> None:
            row = progress.row
            bar.update(task, completed=row["iteration"], description=_progress_line(row))
            for opponent, result in row.get("evaluation", {}).items():
                low, high = result["interval"]
                console.print(
                    f"iteration {row['iteration']}: scores {100 * result['score']:.0f} % against {opponent}"
                    f" ({100 * low:.0f} to {100 * high:.0f}, {result['games']} games)"
                )

        finished = run.train(command.config, out, watch=watch, say=console.print, **options)
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


def _profile(arguments: list[str]) -> None:
    name, command = _of_preset(ProfileCommand, arguments, "azjax profile")
    rows = profiling.profile(command.config)
    if command.json:
        print(json.dumps(rows))
        return
    table = Table("part", "seconds", "share", title=f"{name}: one iteration")
    for row in rows["parts"]:
        table.add_row(row["part"], f"{row['seconds']:.3f}", f"{100 * row['share']:.0f} %")
    console = Console()
    console.print(table)
    console.print(
        f"compile {rows['compile_seconds']:.0f} s; memory {rows['megabytes']:.0f} MiB a device;"
        f" {rows['positions_per_second']:,.0f} positions/s"
    )


def _report(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: azjax report RUN, where RUN is the folder of a run")
        return
    finished = checkpoint.open_run(arguments[0])
    page = report.write(finished)
    console = Console()
    report.summarise(finished, console)
    console.print(f"The report is in {page}.")


if __name__ == "__main__":
    sys.exit(main())
