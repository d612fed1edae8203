"""Small tables, as text and as HTML: how results look in a terminal and in a notebook.

A result has a method `grid`, and two lines that make it shown:

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html
"""

import dataclasses
import html
import textwrap
from collections.abc import Sequence

WIDTH = 80  # columns of text
_GAP, _CUT = "  ", "…"
_NARROWEST = 4  # columns of a cell that is cut


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table whose cells are texts already."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: int = 1  # so many columns hold words, and begin on the left; the others, after them, hold numbers
    notes: Sequence[str] = ()  # lines below it
    pictures: Sequence[str] = ()  # one per row, as SVG; in HTML alone, in a column at the end

    def text(self, width: int | None = WIDTH) -> str:
        """In lines of at most `width` columns.

        Titles and notes go on in the next line; long words are cut, and columns that do not fit are left out.
        """
        lines = [list(self.columns), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        if width is not None:
            widths = _fitting(widths, width)
        shown = [self._line(line, widths) for line in lines]
        above = _wrapped([self.title] if self.title else [], width)
        below = _wrapped(self.notes, width)
        return "\n".join(
            [*above, *(shown if width is None else (_cut(line, width) for line in shown)), *below]
        )

    def html(self) -> str:
        """As an HTML table."""
        parts = [f"<caption>{html.escape(self.title)}</caption>"] if self.title else []
        last = [""] if self.pictures else []
        parts.append(self._html_row([*map(html.escape, self.columns), *last], "th"))
        for number, row in enumerate(self.rows):
            picture = [self.pictures[number]] if self.pictures else []
            parts.append(self._html_row([*map(html.escape, row), *picture], "td"))
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table>{''.join(parts)}</table>{notes}"

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        sides = ["<" if column < self.words else ">" for column in range(len(cells))]
        shown = [f"{_cut(cell, size):{side}{size}}" for cell, side, size in zip(cells, sides, widths)]
        return _GAP.join([*shown, *([_CUT] if len(widths) < len(cells) else [])]).rstrip()

    def _html_row(self, cells: Sequence[str], kind: str) -> str:
        sides = ["left" if column < self.words else "right" for column in range(len(cells))]
        made = (f'<{kind} style="text-align:{side}">{cell}</{kind}>' for cell, side in zip(cells, sides))
        return f"<tr>{''.join(made)}</tr>"


def _wrapped(lines: Sequence[str], width: int | None) -> list[str]:
    if width is None:
        return list(lines)
    return [part for line in lines for part in textwrap.wrap(line, width) or [""]]


def as_text(result) -> str:
    """The `__repr__` of a result with a `grid`."""
    return result.grid().text()


def as_html(result) -> str:
    """The `_repr_html_` of a result with a `grid`."""
    return result.grid().html()


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f} %"


def percents(interval: Sequence[float]) -> str:
    """An interval of shares as people read it."""
    low, high = interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def sparkline(values: Sequence[float], *, width: int = 120, height: int = 24) -> str:
    """A little curve of numbers as SVG, from their smallest to their largest; empty for fewer than two."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    points = " ".join(
        f"{2 + number * (width - 4) / (len(values) - 1):.1f},{2 + (high - value) / spread * (height - 4):.1f}"
        for number, value in enumerate(values)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<polyline points="{points}" fill="none" stroke="#2f7fc1" stroke-width="1.5"/></svg>'
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + _CUT


def _fitting(widths: Sequence[int], most: int) -> list[int]:
    """The widths of the columns, the widest made narrower; without the last ones if even that is too much."""
    widths = list(widths)
    while sum(widths) + len(_GAP) * (len(widths) - 1) > most and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    room = most - len(_GAP) - len(_CUT)
    if sum(widths) + len(_GAP) * (len(widths) - 1) > most:
        while sum(widths) + len(_GAP) * (len(widths) - 1) > room:
            widths.pop()
    return widths
