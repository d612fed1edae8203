"""Learning curves as Kromann and Bennetsen 2019 drew them: every point, the rate over all games so far, 50 %."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from azjax.learners.session import OPPONENTS

_OWN_NUMBERS = ("sigma", "rate", "loss", "plies")  # what learners report and a curve is worth


def draw(rows: Sequence[dict[str, Any]], title: str = "") -> bytes | None:
    """Draws the rows of a run's metrics.jsonl.

    Several sessions are dashed, their mean is solid.

    Returns:
      The picture as PNG; None without matplotlib, which comes with the extra `plots`.
    """
    try:
        import matplotlib.figure
    except ImportError:
        return None
    own = [name for name in _OWN_NUMBERS if name in rows[0]]
    figure = matplotlib.figure.Figure(figsize=(4.2 * (2 + len(own)), 3.2), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(1, 2 + len(own))
    steps = [row["steps"] for row in rows]
    for place, opponent in zip(axes, OPPONENTS):
        points, totals = (
            100 * np.array([row[name] for row in rows], float) for name in (opponent, f"{opponent}_total")
        )
        if points.shape[1] == 1:
            place.plot(steps, points[:, 0], color="C0", linewidth=0.6, label="this point")
        else:
            place.plot(steps, totals, color="C0", linewidth=0.8, linestyle="--")
        place.plot(steps, totals.mean(1), color="C1", linewidth=2, label="all games so far")
        place.axhline(50, color="C2", linewidth=1)
        place.set(title=f"wins against {opponent}", xlabel="steps", ylabel="%", ylim=(0, 101))
        place.legend(loc="lower right")
    for place, name in zip(axes[2:], own):
        place.plot(steps, np.array([row[name] for row in rows], float), color="C0", linewidth=0.8)
        place.set(title=name, xlabel="steps")
    for place in axes:
        place.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=70)
    return buffer.getvalue()
