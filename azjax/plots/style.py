"""The house style of figures: panels that look alike, whoever draws in them.

    figure, (left, right) = style.panels(1, 2)
    left.plot(x, y)
    style.save(figure, "curves.png")

Nothing here touches matplotlib's global state, so that whoever uses azjax keeps their own style.
"""

import functools
import io
import os
from typing import Any

from azjax.common import atomic

# Okabe and Ito's, which colour-blind readers tell apart; yellow is left out, for it is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
PLAYERS = ("#222222", "#D55E00")  # the first and the second, such as Black and White
DOTS_PER_INCH = 110


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    try:
        require_matplotlib()
    except ValueError:
        return False
    return True


def require_matplotlib() -> Any:
    """matplotlib with its figures; raises ValueError if it is not installed."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ValueError("plots need matplotlib: install it with pip install 'azjax[plots]'") from error
    return matplotlib


def panels(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (5.4, 3.6), title: str = "", **shared: Any
) -> tuple[Any, Any]:
    """An empty figure and its axes.

    Args:
      rows: of panels.
      columns: of panels.
      size: inches of one panel.
      title: above all of them.
      **shared: `sharex` and `sharey` of matplotlib's `subplots`.

    Returns:
      The figure; and the axes: one, a list of them where there is one row or one column, else a list of rows.
    """
    figure = _figure_class()(
        figsize=(columns * size[0], rows * size[1]), dpi=DOTS_PER_INCH, layout="constrained"
    )
    if title:
        figure.suptitle(title)
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    for axes in grid.flat:
        axes.set_prop_cycle(color=COLOURS)
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if rows == columns == 1:
        return figure, grid[0, 0]
    return figure, list(grid.flat) if 1 in (rows, columns) else [list(row) for row in grid]


@functools.cache
def _figure_class() -> type:
    """matplotlib's figure, which notebooks show by itself only after pyplot was imported."""

    class Shown(require_matplotlib().figure.Figure):
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return Shown


def save(figure: Any, path: str | os.PathLike) -> None:
    """Writes a figure, whole or not at all; the ending of the name says which kind of picture."""
    with atomic.replacing(path) as partial:
        figure.savefig(partial)
