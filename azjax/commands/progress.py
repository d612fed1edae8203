"""A progress bar for work that goes through several stages; on stderr, so that --json stays clean."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


def columns() -> tuple[ProgressColumn, ...]:
    """What a bar shows; new ones each time, because a column remembers what it drew."""
    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()


@contextlib.contextmanager
def bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yields (what is being done, done, in all) -> None; where stderr is no terminal, it prints nothing."""
    console = Console(stderr=True)
    with Progress(*columns(), console=console, transient=True, disable=not console.is_terminal) as shown:
        tasks = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    shown.update(task, visible=False)
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done, total=total)

        yield show
