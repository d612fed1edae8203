"""Line charts as SVG for pages: they follow the page's colours, light or dark, and need no other package.

Figures that are files are drawn by matplotlib, see `azjax.plots.style`, from which the colours are.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from azjax.plots.style import COLOURS

STYLE = """
svg.chart { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
.chart .axis { stroke: var(--line); stroke-width: 1; }
.chart .grid { stroke: var(--line); stroke-width: 1; opacity: .45; }
.chart text { fill: var(--soft); }
.chart .title { fill: var(--ink); font-size: 13px; font-weight: 600; }
"""  # the page says what --ink, --soft and --line are
_COLOURS = COLOURS[:6]  # black would be lost on a dark page
_WIDTH, _HEIGHT = 420, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 30, 34


class Line(NamedTuple):
    """A curve; points that are not numbers are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None  # of an interval around it
    high: Sequence[float] | None = None
    dashed: bool = False


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x_name: str,
    percent: bool = False,
    from_zero: bool = True,
) -> str:
    """A chart of curves, with a legend below; empty if there is nothing to draw.

    Args:
      title: above it.
      lines: the curves.
      x_name: below the axis.
      percent: y goes from 0 to 1, and is written in percent.
      from_zero: y begins at 0, however high the curves lie.
    """
    lines = [_without_gaps(line) for line in lines]
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return ""
    x_low, x_high = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    lowest = min(np.min(line.y if line.low is None else line.low) for line in lines)
    if percent:
        y_ticks = [0.5, 0.6, 0.7, 0.8, 0.9, 1] if lowest >= 0.5 and not from_zero else [0, 0.25, 0.5, 0.75, 1]
    else:
        y_ticks = ticks(0.0 if from_zero else lowest, max(max(line.y) for line in lines))
    x_ticks = [tick for tick in ticks(x_low, x_high) if x_low <= tick <= x_high * (1 + 1e-9)]

    def place_x(x: float) -> float:
        return _LEFT + (x - x_low) / ((x_high - x_low) or 1) * (_WIDTH - _LEFT - _RIGHT)

    def place_y(y: float) -> float:
        share = (y - y_ticks[0]) / ((y_ticks[-1] - y_ticks[0]) or 1)
        return _HEIGHT - _BOTTOM - min(max(share, 0), 1) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text class="title" x="{_LEFT}" y="16">{html.escape(title)}</text>']
    for tick in y_ticks:
        y, label = place_y(tick), f"{tick:.0%}" if percent else short(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y:.1f}" text-anchor="end" dy=".35em">{label}</text>')
    floor = _HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{floor}" y2="{floor}"/>')
    for tick in x_ticks:
        parts.append(
            f'<text x="{place_x(tick):.1f}" y="{floor + 14}" text-anchor="middle">{short(tick)}</text>'
        )
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">'
        f"{html.escape(x_name)}</text>"
    )
    for line, colour in zip(lines, _COLOURS * len(lines)):
        parts += _drawn(line, colour, place_x, place_y)
    picture = f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'
    return f"<figure>{picture}{_legend(lines) if len(lines) > 1 else ''}</figure>"


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from at most `low` to at least `high`: steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0, 9)
    [0.0, 5.0, 10.0]
    """
    if high <= low:
        high = low + 1
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 12) for number in range(first, last + 1)]


def short(number: float) -> str:
    """A number in few characters: 1500 is 1.5k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _without_gaps(line: Line) -> Line:
    x, y = np.asarray(line.x, float), np.asarray(line.y, float)
    there = np.isfinite(x) & np.isfinite(y)
    low, high = (None if side is None else np.asarray(side, float)[there] for side in (line.low, line.high))
    return line._replace(x=x[there], y=y[there], low=low, high=high)


def _drawn(line: Line, colour: str, place_x, place_y) -> list[str]:
    """A curve, the interval around it, and discs where there are few points."""

    def points(values) -> list[str]:
        return [f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in zip(line.x, values)]

    parts = []
    if line.low is not None and line.high is not None:
        around = " ".join([*points(line.high), *reversed(points(line.low))])
        parts.append(f'<polygon points="{around}" fill="{colour}" opacity=".16"/>')
    dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
    parts.append(
        f'<polyline points="{" ".join(points(line.y))}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    )
    if len(line.x) <= 25:
        parts += [
            f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="2.6" fill="{colour}"/>'
            for x, y in zip(line.x, line.y)
        ]
    return parts


def _legend(lines: Sequence[Line]) -> str:
    names = "".join(
        f'<span><i style="border-top: 3px {"dashed" if line.dashed else "solid"} {colour}"></i>'
        f"{html.escape(line.name)}</span>"
        for line, colour in zip(lines, _COLOURS * len(lines))
    )
    return f'<figcaption class="legend">{names}</figcaption>'
