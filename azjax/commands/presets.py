"""`azjax presets`: what can be trained, by name."""

import json

from rich.console import Console
from rich.table import Table

from azjax import presets


def run(arguments: list[str]) -> None:
    """Lists the presets, with --json as one object."""
    if arguments == ["--json"]:
        print(json.dumps({name: presets.describe(name) for name in presets.preset_names()}))
        return
    table = Table("preset", "what it is")
    for name in presets.preset_names():
        table.add_row(name, presets.describe(name))
    Console().print(table)
