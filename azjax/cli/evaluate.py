"""`azjax evaluate RUN --judge ...`: measure every checkpoint of a run, and draw the curves."""

import dataclasses
import functools
import json
import pathlib
from typing import Annotated, ClassVar

import tyro
from rich.table import Table

from azjax.cli import parsing, progress, screen
from azjax.evaluation import curve, judges
from azjax.evaluation.arena import SCALE
from azjax.evaluation.evaluate import Evaluation, evaluate, open_judged
from azjax.plots import curves, report, style


@dataclasses.dataclass(frozen=True)
class EvaluateCommand:
    """Measure every checkpoint of a run. What has been measured is not measured again."""

    EXAMPLES: ClassVar = (
        "azjax evaluate runs/hex5 --judge match:uct:200",
        "azjax evaluate runs/hex5 --judge suite:hex5 truth --json",
        "azjax evaluate runs/hex5 --judge suite:hex5 --beside runs/hex5-seed1 runs/hex5-seed2",
    )

    run: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # the run's folder
    judge: tuple[str, ...]  # one or several; see above
    options: Annotated[judges.JudgeOptions, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=judges.JudgeOptions
    )
    plot: bool = True  # draw the curves (needs matplotlib)
    # other runs, judged before, whose curves are drawn into the same picture
    beside: tuple[pathlib.Path, ...] = ()
    json: bool = False  # print all rows as one JSON object


def run(arguments: list[str]) -> None:
    """Judges a run's checkpoints; results and pictures go to its folder `judges`."""
    command = parsing.parse(
        EvaluateCommand,
        arguments,
        "azjax evaluate",
        about=parsing.explained(EvaluateCommand, f"Judges:\n{judges.describe()}"),
    )
    if command.plot:
        style.require_matplotlib()  # better to say it before the work than after
    run_folder = open_judged(command.run)
    beside = _beside(command, max(run_folder.snapshots, default=0)) if command.plot else {}  # likewise
    with progress.bar() as bar:
        results = evaluate(run_folder, *command.judge, options=command.options, progress=bar)
    if command.plot:
        for text, found in results.items():
            names = [name for name in found.numbers() if not name.endswith("left_out")]  # the same all along
            lines = {name: curve.series(found.rows, name) for name in names}
            for other in command.beside:
                rows = beside[other, text]
                lines |= {f"{other.name}: {name}": curve.series(rows, name) for name in names}
            curves.plot(found.path.with_suffix(".png"), lines, title=text)
    if command.json:
        print(json.dumps({text: found.rows for text, found in results.items()}))
        return
    console = screen.console()
    for found in results.values():
        console.print(report.fitting(console, functools.partial(to_table, found), 6))
        if any("score" in name for name in found.numbers()):
            console.print(SCALE)
        for note in found.grid().notes:
            console.print(note)


def _beside(command: EvaluateCommand, newest: int) -> dict[tuple[pathlib.Path, str], list[curve.Row]]:
    """What each judge has found of each of the other runs, whose results are in files of the same names."""
    found = {}
    for other in command.beside:
        open_judged(other)
        for text in command.judge:
            name = f"{judges.file_name(text, command.options, newest)}.jsonl"
            found[other, text] = curve.Curve(other / "judges" / name).rows()
            if not found[other, text]:
                raise ValueError(f"{other} has no results of {text} with these options; judge it first")
    return found


def to_table(found: Evaluation, most: int = 6) -> Table:
    """What a judge found: a row per number, a column per iteration."""
    table = screen.of_grid(found.grid(most))
    for column in table.columns[1:]:
        column.no_wrap = True
    return table
