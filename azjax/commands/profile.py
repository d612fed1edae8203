"""`azjax profile PRESET`: where an iteration's time goes."""

import dataclasses
import json
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from azjax import profiling
from azjax.commands import options
from azjax.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class ProfileCommand:
    """Measure where an iteration's time goes."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    json: bool = False  # print JSON instead of a table


def run(arguments: list[str]) -> None:
    """Prints the parts of an iteration, as a table or with --json."""
    name, command = options.of_preset(ProfileCommand, arguments, "azjax profile")
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
