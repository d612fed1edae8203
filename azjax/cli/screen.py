"""The terminal as every command uses it."""

import re
import shutil
import textwrap

from rich import box
from rich.console import Console
from rich.table import Table

from azjax.common.tables import Grid


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # `azjax.cli` ends quietly; rich would choose an exit code of its own


def console(*, stderr: bool = False) -> Console:
    """Where tables and sentences go; colours only on a terminal, and not if NO_COLOR is set.

    Text is shown as it is: brackets in the name of a file or an agent are no instructions. Styles are given as such.
    """
    return _Console(stderr=stderr, markup=False, highlight=False, soft_wrap=False)


def table(*names: str, title: str | None = None, numbers: int = 0) -> Table:
    """An empty table whose cells are broken into lines where the terminal is narrow, and never cut.

    Args:
      *names: of the columns.
      title: above it.
      numbers: how many columns at the end hold numbers.
    """
    is_narrow = width() < 60
    made = Table(
        title=title, box=box.SIMPLE if is_narrow else box.HEAVY_HEAD, padding=(0, 0 if is_narrow else 1)
    )
    for number, name in enumerate(names):
        made.add_column(name, overflow="fold", justify="right" if number >= len(names) - numbers else "left")
    return made


def of_grid(grid: Grid) -> Table:
    """A result's own table on the terminal; its notes are not part of it."""
    made = table(*grid.columns, title=grid.title or None, numbers=len(grid.columns) - grid.words)
    for row in grid.rows:
        made.add_row(*row)
    return made


def width() -> int:
    """Columns of the terminal, or of COLUMNS; not more than can be read well."""
    return max(20, min(shutil.get_terminal_size().columns, 100))


def wrapped(text: str) -> str:
    """The text in lines that fit the terminal; what was indented, or stood in a second column, stays so."""
    lines = []
    for line in text.splitlines():
        column = re.match(r" +\S+ {2,}", line) or re.match(" *", line)
        indent = " " * (column.end() if column.end() < width() / 2 else 6)
        options = {"subsequent_indent": indent, "break_on_hyphens": False, "break_long_words": False}
        lines += textwrap.wrap(line, width(), **options) or [""]
    return "\n".join(lines)
