"""Pieces of SVG that all boards share: the picture itself, two colour themes, a heat scale."""

import html
import math
import pathlib
from typing import NamedTuple


class Svg(str):
    """A picture as SVG text; notebooks show it, `save` writes it."""

    def _repr_html_(self) -> str:
        return str(self)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the picture to a file."""
        pathlib.Path(path).write_text(self, encoding="utf-8")


class Theme(NamedTuple):
    """The colours of a board."""

    background: str
    board: str  # empty cells
    grid: str  # outlines
    text: str
    first: str  # stones, pieces and sides of player 0
    second: str  # and of player 1
    accent: str  # the last move
    heat: str  # full heat; no heat is `board`


THEMES = {
    "light": Theme("#ffffff", "#f4efe4", "#8a8376", "#33302b", "#2f2b28", "#c8463c", "#e0a400", "#2f7fc1"),
    "dark": Theme("#1c1b1a", "#35322e", "#6f6a61", "#d9d4ca", "#e8e2d4", "#e0685d", "#f0bd3a", "#4da3e8"),
}


def theme_named(name: str) -> Theme:
    """The theme of that name; raises ValueError listing the names there are."""
    if name not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}, got {name!r}")
    return THEMES[name]


def mix(low: str, high: str, share: float) -> str:
    """The colour a share (0 to 1) of the way from `low` to `high`, both '#rrggbb'."""
    parts = (
        round(int(low[i : i + 2], 16) * (1 - share) + int(high[i : i + 2], 16) * share) for i in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def heat_shares(heat, shown) -> dict[int, float]:
    """Scales the heat of the shown actions to 0..1; NaN is left out.

    Args:
      heat: [num_actions] numbers; all non-negative scales from 0, else from the smallest.
      shown: [num_actions] bool, which actions may carry heat (the legal ones).
    """
    values = {a: float(h) for a, (h, show) in enumerate(zip(heat, shown)) if show and not math.isnan(h)}
    if not values:
        return {}
    low, high = min(0.0, *values.values()), max(values.values())
    return {a: (value - low) / (high - low) if high > low else 0.0 for a, value in values.items()}


def picture(width: float, height: float, parts: list[str], theme: Theme, scale: float) -> Svg:
    """Frames the parts, drawn in a `width` x `height` coordinate system, as one picture."""
    body = "\n".join(parts)
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width * scale:g}" height="{height * scale:g}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="{theme.background}"/>\n{body}\n</svg>\n'
    )


def text(x: float, y: float, content: str, colour: str, size: float) -> str:
    """A text centred on a point."""
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size:g}" text-anchor="middle" '
        f'dy="0.35em">{html.escape(content)}</text>'
    )


def text_picture(content: str, theme: str, scale: float) -> Svg:
    """Lines of text in a fixed-width face."""
    colours = theme_named(theme)
    lines = content.splitlines()
    width = 24 + 8.5 * max((len(line) for line in lines), default=0)
    parts = [
        f'<text x="12" y="{24 + 18 * row}" fill="{colours.text}" font-family="monospace" font-size="14" '
        f'xml:space="preserve">{html.escape(line)}</text>'
        for row, line in enumerate(lines)
    ]
    return picture(width, 24 + 18 * len(lines), parts, colours, scale)
