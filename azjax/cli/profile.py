"""`azjax profile PRESET`: where an iteration's time goes."""

import dataclasses
import json
import pathlib
from typing import Annotated, ClassVar

import tyro

from azjax.cli import options, screen
from azjax.common import files, remote
from azjax.common.checked import Count, Number
from azjax.training import profiling
from azjax.training.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class ProfileCommand:
    """Measure where an iteration's time goes."""

    EXAMPLES: ClassVar = (
        "azjax profile hex5",
        "azjax profile hex5 --search.simulations 64 --json",
        "azjax profile hex5 --trace traces/hex5 --skip 10 --keep 2",
    )

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    trace: pathlib.Path | None = None  # a folder for a trace, to be looked at with xprof or TensorBoard
    skip: Number = 0  # iterations to leave out first
    keep: Count = 3  # iterations to time, and to keep in the trace
    json: bool = False  # print JSON instead of a table


def run(arguments: list[str]) -> None:
    """Prints the parts of an iteration, as a table or with --json."""
    name, command = options.of_preset(ProfileCommand, arguments, "azjax profile")
    if command.trace is not None:
        files.writable_folder(command.trace)
    rows = profiling.profile(command.config, command.keep, skip=command.skip, trace=command.trace)
    if command.json:
        print(json.dumps(rows))
        return
    table = screen.table("part", "seconds", "share", title=f"{name}: one iteration", numbers=2)
    for row in rows["parts"]:
        table.add_row(row["part"], f"{row['seconds']:.3f}", f"{100 * row['share']:.0f} %")
    console = screen.console()
    console.print(table)
    console.print(
        f"compile {rows['compile_seconds']:.0f} s; memory {rows['megabytes']:.0f} MiB a device;"
        f" {rows['positions_per_second']:,.0f} positions/s"
    )
    console.print(
        f"The network reaches {100 * rows['share_of_peak']:.1f} % of {rows['peak'] / 1e12:.3g} T operations/s"
        f" ({rows['peak_from']})."
    )
    if command.trace is not None:
        trace = remote.address(command.trace)
        console.print(f"The trace is in {trace}; see it with: xprof {trace}", soft_wrap=True)
