"""How far work is, on stderr, so that --json stays clean: a bar on a terminal, elsewhere a plain line now and then."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from azjax.cli import screen

Show = Callable[..., None]
"""(what is being done, done, in all, note="") -> None; the note stands below the bar."""

_FIRST_LINE = 10.0  # seconds until the first plain line: what is quicker needs none
_SPACING = 0.1  # of the time that has passed, until the next
_MANY = 50  # the first of so many says nothing about the others: what it needed has been compiled, too


@contextlib.contextmanager
def bar(console: Console | None = None) -> Iterator[Show]:
    """Yields what shows progress; see `Show`.

    Args:
      console: where; default stderr. Lines printed to it appear above the bar.
    """
    console = screen.console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield _Lines(console).show
        return
    with _Bar(console) as shown:
        yield shown.show


def begin(console: Console, show: Show, what: str, total: int) -> None:
    """Says at once what will take a while before anything is done, in a log too."""
    show(what, 0, total)
    if not console.is_terminal:
        console.print(what, soft_wrap=True)


class _Bar(Progress):
    """One bar, for the stage that work is in, which keeps its count and its time left however narrow it is."""

    def __init__(self, console: Console):
        self._note = ""
        self._stage = None
        room = max(8, console.width // 2)
        what = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(max_width=room, no_wrap=True, overflow="ellipsis"),
        )
        line = BarColumn(bar_width=None, table_column=Column(ratio=1))
        columns = what, line, MofNCompleteColumn(), TimeRemainingColumn(compact=True)
        super().__init__(*columns, console=console, transient=True, expand=True)

    def show(self, what: str, done: int, total: int, note: str = "") -> None:
        self._note = note
        if what != self._stage:
            for task in self.tasks:
                self.update(task.id, visible=False)
            known = [task.id for task in self.tasks if task.description == what]
            self._stage = what
            self._task = known[0] if known else self.add_task(what, total=total)
        self.update(self._task, completed=done, total=total, visible=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self._note:
            yield Text(self._note, style="dim")


class _Lines:
    """The same for a log."""

    def __init__(self, console: Console):
        self._console = console
        self._begun = time.monotonic()
        self._due = self._begun + _FIRST_LINE
        self._stages: dict[str, tuple[float, int]] = {}  # when each began, and what was done by then

    def show(self, what: str, done: int, total: int, note: str = "") -> None:
        now = time.monotonic()
        began, before = self._stages.setdefault(what, (now, done))
        if before == 0 < done and total > _MANY:
            self._stages[what] = began, before = now, done
        if now < self._due:
            return
        self._due = now + max(_FIRST_LINE, _SPACING * (now - self._begun))
        line = f"{what}: {done:,} of {total:,}"
        if done > before:
            line += f", {_duration((now - began) / (done - before) * (total - done))} left"
        # Not broken into lines: a log has no width.
        self._console.print(f"{line}; {note}" if note else line, soft_wrap=True)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 100 * 60 else f"about {seconds / 3600:.1f} h"
