"""`azjax evaluate RUN --judge ...`: measure every checkpoint of a run, and draw the curves."""

import dataclasses
import functools
import json
import pathlib
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from azjax import checkpoint
from azjax.commands import progress
from azjax.evaluation import curves, judges


@dataclasses.dataclass(frozen=True)
class EvaluateCommand:
    """Measure every checkpoint of a run. What has been measured is not measured again."""

    run: Annotated[pathlib.Path, tyro.conf.Positional]  # the run's folder
    judge: tuple[str, ...]  # one or several; see below
    options: Annotated[judges.JudgeOptions, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=judges.JudgeOptions
    )
    plot: bool = True  # draw the curves (needs matplotlib)
    json: bool = False  # print all rows as one JSON object


def run(arguments: list[str]) -> None:
    """Judges a run's checkpoints; results and pictures go to its folder `judges`."""
    command = tyro.cli(
        EvaluateCommand,
        args=arguments,
        prog="azjax evaluate",
        description="Measure every checkpoint of a run. What has been measured is not measured again.\n\nJudges:\n"
        + judges.describe(),
    )
    if command.plot:
        curves.require_matplotlib()  # better to say it before the work than after
    run_folder = checkpoint.open_run(command.run)
    try:
        results = _measure(run_folder, command)
    finally:
        run_folder.close()
    if command.json:
        print(json.dumps(results))
        return
    for text, rows in results.items():
        shown = curves.spread_out(rows, 6)
        table = Table(text, *(str(row["iteration"]) for row in shown))
        for name in curves.numbers_in(rows[-1]):
            values = [curves.series([row], name)[1] for row in shown]
            table.add_row(
                name.removesuffix(".share"), *(f"{value[0]:.3g}" if len(value) else "" for value in values)
            )
        Console().print(table)


def _measure(run_folder: checkpoint.Run, command: EvaluateCommand) -> dict[str, list[curves.Row]]:
    newest = max(run_folder.snapshots, default=None)
    if newest is None:
        raise ValueError(f"{command.run} has no checkpoint yet; train it first")
    read = judges.checkpoint_reader(run_folder)
    results = {}
    with progress.bar() as bar:
        context = judges.Context(run_folder.config, command.options, lambda: read(newest), bar)
        for text in command.judge:
            path = run_folder.path / "judges" / judges.file_name(text, command.options, newest)
            curve = curves.Curve(path.with_name(path.name + ".jsonl"))
            # Made when the first checkpoint is to be judged; perhaps all have been.
            make = functools.cache(lambda text=text: judges.make_judge(text, context))
            results[text] = curve.measure(
                judges.iterations_to_judge(text, run_folder),
                lambda iteration, make=make: make()(read(iteration)),
                lambda done, total, text=text: bar(f"checkpoints, {text}", done, total),
            )
            if command.plot:
                names = curves.numbers_in(results[text][-1])
                lines = {name: curves.series(results[text], name) for name in names}
                curves.plot(path.with_name(path.name + ".png"), lines, title=text)
    return results
