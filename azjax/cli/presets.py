"""`azjax presets`: what can be trained, by name."""

import dataclasses
import json
from typing import ClassVar

from azjax.cli import parsing, screen
from azjax.common.preset_list import DESCRIPTIONS


@dataclasses.dataclass(frozen=True)
class PresetsCommand:
    """List what can be trained by name."""

    EXAMPLES: ClassVar = ("azjax presets", "azjax presets --json")

    json: bool = False  # print one JSON object, names and descriptions


def run(arguments: list[str]) -> None:
    """Lists the presets, with --json as one object."""
    command = parsing.parse(
        PresetsCommand, arguments, "azjax presets", about=parsing.explained(PresetsCommand)
    )
    if command.json:
        print(json.dumps(DESCRIPTIONS))
        return
    table = screen.table("preset", "what it is")
    for name, about in DESCRIPTIONS.items():
        table.add_row(name, about)
    screen.console().print(table)
