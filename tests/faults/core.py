"""What a seeded fault is, and where all of them are found."""

import importlib
import pathlib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
ROOMS = ("rules", "search", "learning", "ratings", "solvers", "checkpoint")


class Fault(NamedTuple):
    """One change that somebody might have made by mistake, and the tests that should notice it."""

    name: str
    file: str  # from the root of the project
    old: str  # occurs exactly once in the file
    new: str
    tests: tuple[str, ...]  # files or ids of tests in `tests/`, the cheapest likely noticer first
    room: str = ""


def load(rooms: tuple[str, ...] = ROOMS) -> list[Fault]:
    """The faults of some rooms."""
    return [
        fault._replace(room=room)
        for room in rooms
        for fault in importlib.import_module(f"tests.faults.{room}").FAULTS
    ]


def changed(fault: Fault, root: pathlib.Path = ROOT) -> str:
    """The file with the fault in it; raises ValueError unless the old text occurs exactly once."""
    text = (root / fault.file).read_text(encoding="utf-8")
    if (times := text.count(fault.old)) != 1:
        raise ValueError(f"the old text of {fault.name} occurs {times} times in {fault.file}, expected once")
    return text.replace(fault.old, fault.new)
