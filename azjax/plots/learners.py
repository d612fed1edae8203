"""Learning curves as Kromann and Bennetsen 2019 drew them: every point, the rate over all games so far, 50 %."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from azjax.learners.session import OPPONENTS
from azjax.plots import style

_OWN_NUMBERS = ("sigma", "rate", "loss", "plies")  # what learners report and a curve is worth


def compare(settings: Mapping[str, Sequence[dict[str, Any]]], title: str = "") -> Any:
    """A figure of several runs below each other: against random on the left, against its past on the right.

    Args:
      settings: name -> the rows of a run.
      title: above all.
    """
    figure, grid = style.panels(len(settings), len(OPPONENTS), size=(4.2, 2.4), title=title, sharey=True)
    grid = [grid] if len(settings) == 1 else grid
    for places, (name, rows) in zip(grid, settings.items()):
        for place, opponent in zip(places, OPPONENTS):
            _draw_wins(place, rows, opponent)
            place.set_title(f"{name}, against {opponent}", fontsize="medium")
    return figure


def draw(rows: Sequence[dict[str, Any]], title: str = "") -> Any:
    """A figure of the rows of a run's metrics.jsonl: several sessions are dashed, their mean is solid.

    Raises:
      ValueError: matplotlib, which comes with the extra `plots`, is not installed.
    """
    own = [name for name in _OWN_NUMBERS if name in rows[0]]
    figure, axes = style.panels(1, 2 + len(own), size=(4.2, 3.2), title=title)
    steps = [row["steps"] for row in rows]
    for place, opponent in zip(axes, OPPONENTS):
        _draw_wins(place, rows, opponent)
        place.set(title=f"wins against {opponent}", ylabel="%", ylim=(0, 101))
        place.legend(loc="lower right")
    for place, name in zip(axes[2:], own):
        place.plot(steps, np.array([row[name] for row in rows], float), color=style.COLOURS[0], linewidth=0.8)
        place.set(title=name, xlabel="steps")
    return figure


def _draw_wins(place: Any, rows: Sequence[dict[str, Any]], opponent: str) -> None:
    """Every point, the rate over all games so far, 50 %."""
    steps = [row["steps"] for row in rows]
    points, totals = (
        100 * np.array([row[name] for row in rows], float) for name in (opponent, f"{opponent}_total")
    )
    if points.shape[1] == 1:
        place.plot(steps, points[:, 0], color=style.COLOURS[0], linewidth=0.6, label="this point")
    else:
        place.plot(steps, totals, color=style.COLOURS[0], linewidth=0.8, linestyle="--")
    place.plot(steps, totals.mean(1), color=style.COLOURS[1], linewidth=2, label="all games so far")
    place.axhline(50, color=style.COLOURS[2], linewidth=1)
    place.set_xlabel("steps")
