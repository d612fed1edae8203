"""`azjax report RUN`: draw a run's curves, a game and the opening heat map again."""

import dataclasses
import pathlib
from typing import Annotated, ClassVar

import tyro

from azjax.cli import parsing, screen
from azjax.plots import report
from azjax.training import checkpoint


@dataclasses.dataclass(frozen=True)
class ReportCommand:
    """Draw a run's curves, a game and the opening heat map again, and print how strong the agent became."""

    EXAMPLES: ClassVar = ("azjax report runs/hex5",)

    run: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # the run's folder


def run(arguments: list[str]) -> None:
    """Draws the report of a run anew."""
    command = parsing.parse(ReportCommand, arguments, "azjax report", about=parsing.explained(ReportCommand))
    finished = checkpoint.open_run(command.run)
    page = report.write(finished)
    console = screen.console()
    report.summarise(finished, console)
    console.print(f"The report is in {page}.")
