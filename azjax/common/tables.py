"""Small tables, as text and as HTML: how results look in a terminal and in a notebook.

A result has a method `grid`, and two lines that make it shown:

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html
"""

import dataclasses
import html
import itertools
import textwrap
from collections.abc import Sequence

WIDTH = 80  # columns of text
_GAP = "  "
_NARROWEST = 12  # columns of names that are broken


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
        """In lines of at most `width` columns, and nothing is lost.

        What is too long goes on in the next line, broken between words if it has any; numbers that do not fit beside
        each other stand in further tables below, with the words repeated.
        """
        tables = ["\n".join(self._lines(group, width)) for group in self._groups(width)]
        above = _wrapped([self.title] if self.title else [], width)
        below = _wrapped(self.notes, width)
        return "\n".join([*above, "\n\n".join(tables), *below])

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

    def _cells(self) -> list[list[str]]:
        return [list(self.columns), *map(list, self.rows)]

    def _groups(self, width: int | None) -> list[list[int]]:
        """The numbers of the columns that stand beside each other, table by table."""
        everything = list(range(len(self.columns)))
        if width is None:
            return [everything]
        words, rest = everything[: self.words], everything[self.words :]
        groups = [words]
        for column in rest:
            fits = sum(self._least([*groups[-1], column])) + len(_GAP) * len(groups[-1]) <= width
            if fits or groups[-1] == words:
                groups[-1] = [*groups[-1], column]
            else:
                groups.append([*words, column])
        return groups

    def _least(self, group: Sequence[int]) -> list[int]:
        """The least width of each column: of names that may be broken, of others their longest word."""
        longest = [
            max((len(word) for row in self._cells() for word in row[column].split()), default=0)
            for column in group
        ]
        return [
            min(size, _NARROWEST) if column < self.words else size for column, size in zip(group, longest)
        ]

    def _widths(self, group: Sequence[int], width: int | None) -> list[int]:
        """What each column gets: all it wants, but for the widest where that is too much."""
        widths = [max(len(row[column]) for row in self._cells()) for column in group]
        least = self._least(group)
        while width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
            spare = [size if size > low else 0 for size, low in zip(widths, least)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1
        return widths

    def _lines(self, group: Sequence[int], width: int | None) -> list[str]:
        widths = self._widths(group, width)
        lines = []
        for row in self._cells():
            broken = [
                textwrap.wrap(row[column], size, break_on_hyphens=False) or [""] if size else [""]
                for column, size in zip(group, widths)
            ]
            for cells in itertools.zip_longest(*broken, fillvalue=""):
                shown = [
                    f"{cell:{'<' if column < self.words else '>'}{size}}"
                    for column, cell, size in zip(group, cells, widths)
                ]
                lines.append(_GAP.join(shown).rstrip())
        return lines

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
