"""Curves over checkpoints, see `azjax.evaluation.curve`: compared, smoothed and drawn (after Daliri 2022).

Two curves are compared by their average of differences (AOD), in each half of training by itself; noisy ones are
smoothed by LOWESS (Cleveland 1979).
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from azjax.plots import style


def aod(a: Sequence[float], b: Sequence[float]) -> float:
    """The average of differences b - a over checkpoints: above 0 if b is better."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape or not len(a):
        raise ValueError(f"two curves need the same checkpoints, at least one; got {len(a)} and {len(b)}")
    return float(np.mean(b - a))


def aod_by_half(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """`aod` of the first and of the second half of training; of an odd number, the second has one more."""
    half = len(a) // 2
    if half == 0:
        raise ValueError(f"curves need at least two checkpoints to have halves, got {len(a)}")
    return aod(a[:half], b[:half]), aod(a[half:], b[half:])


def aod_table(curves: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Every curve against every other: [row][column] is the row minus the column, as the thesis prints it."""
    return {row: {column: aod(curves[column], curves[row]) for column in curves} for row in curves}


def first_maximum(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Where a curve is highest for the first time, and how high."""
    best = int(np.argmax(y))
    return float(x[best]), float(y[best])


def lowess(x: Sequence[float], y: Sequence[float], fraction: float = 0.1, rounds: int = 3) -> np.ndarray:
    """[n] LOWESS: a line fitted around each point, near points and well-behaved ones counting more (Cleveland 1979).

    Args:
      x: [n] in any order.
      y: [n].
      fraction: of the points that count in each fit, at least 2.
      rounds: of robust fits after the first, which give points far from the curve less weight.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise ValueError(f"x and y must be equally long and not empty, got {x.shape} and {y.shape}")
    near = max(min(2, len(x)), min(len(x), int(fraction * len(x) + 1e-7)))
    robustness = np.ones(len(x))
    smooth = np.array([_local_fit(x, y, at, near, robustness) for at in x])
    for _ in range(rounds):
        residual = np.abs(y - smooth)
        scale = 6 * np.median(residual)
        if scale < 1e-7 * np.mean(residual) or scale == 0:
            break
        robustness = _bump(residual / scale, power=2, exponent=2)
        smooth = np.array([_local_fit(x, y, at, near, robustness) for at in x])
    return smooth


def plot(
    path: str | os.PathLike,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str = "",
    fraction: float = 0.1,
) -> None:
    """Draws curves, raw and smoothed, with the first maximum of each.

    Args:
      path: the picture; its ending says which kind.
      curves: name -> (iterations, values).
      title: above it.
      fraction: of LOWESS.
    """
    crowded = len(curves) > 8  # then the legend stands beside the curves, and needs the height
    size = (14, max(4.5, 0.22 * len(curves))) if crowded else (8, 4.5)
    figure, axes = style.panels(size=size)
    for number, (name, (x, y)) in enumerate(curves.items()):
        if not len(x):
            continue
        colour = style.COLOURS[number % len(style.COLOURS)]
        best_x, best_y = first_maximum(x, y)
        axes.plot(x, y, color=colour, alpha=0.35, linewidth=1, marker="." if len(x) < 30 else None)
        label = f"{name} (best {best_y:.3g} at {best_x:.0f})"
        # A neighbourhood of less than three points smooths nothing.
        smooth = lowess(x, y, max(fraction, min(1.0, 3 / len(x)))) if len(x) > 3 else y
        axes.plot(x, smooth, color=colour, linewidth=2, label=label)
        axes.plot([best_x], [best_y], color=colour, marker="o")
    axes.set_xlabel("iteration")
    axes.set_title(title)
    if axes.lines and crowded:
        figure.legend(fontsize="small", loc="outside right center")
    elif axes.lines:
        axes.legend(fontsize="small")
    style.save(figure, path)


def compare(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    *,
    smooth: bool = False,
    fraction: float = 0.1,
    x_label: str = "step",
    y_label: str = "WMSR, %",
) -> Any:
    """A figure of curves side by side, as Figures 7.1 to 7.8 of Daliri 2022: the first maximum of each is marked.

    Args:
      panels: title -> name -> (x, y); a name has the same colour in all of them.
      smooth: by LOWESS; the maxima are always those of the raw curves.
      fraction: of LOWESS.
      x_label: below.
      y_label: beside.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    colours = {name: style.COLOURS[number % len(style.COLOURS)] for number, name in enumerate(names)}
    figure, places = style.panels(1, len(panels), size=(6.4, 4.4), sharey=True)
    for axes, (title, curves) in zip([places] if len(panels) == 1 else places, panels.items()):
        for name, (x, y) in curves.items():
            best_x, best_y = first_maximum(x, y)
            shown = lowess(x, y, max(fraction, min(1.0, 3 / len(x)))) if smooth and len(x) > 3 else y
            label = f"{name} ({best_y:.1f} at {best_x:.0f})"
            axes.plot(x, shown, color=colours[name], linewidth=1.4, label=label)
            axes.plot([best_x], [best_y], color=colours[name], marker="o", markersize=5, linestyle="none")
        axes.set(title=title, xlabel=x_label)
        axes.legend(fontsize="small", loc="lower right")
    (places if len(panels) == 1 else places[0]).set_ylabel(y_label)
    return figure


def histograms(
    panels: Mapping[str, Mapping[str, Sequence[float]]], *, x_label: str = "", whole: bool = True
) -> Any:
    """A figure of histograms side by side: of whole numbers one bar a number, of others twenty bars.

    Args:
      panels: title -> name -> numbers; several names stand beside each other.
      x_label: below.
      whole: whether the numbers are whole.
    """
    figure, places = style.panels(1, len(panels), size=(5.4, 3.4))
    for axes, (title, groups) in zip([places] if len(panels) == 1 else places, panels.items()):
        everything = np.concatenate([np.asarray(numbers, float) for numbers in groups.values()])
        if whole and len(everything):
            bins = np.arange(everything.min() - 0.5, everything.max() + 1)
        else:
            bins = 20
        colours = style.COLOURS[: len(groups)]
        axes.hist(list(groups.values()), bins=bins, label=list(groups), color=colours)
        axes.set(title=title, xlabel=x_label, ylabel="positions")
        if len(groups) > 1:
            axes.legend(fontsize="small")
    return figure


def scatter(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x_label: str, y_label: str
) -> Any:
    """A figure of points, a colour for each name."""
    figure, axes = style.panels(title=title)
    for name, (x, y) in points.items():
        axes.plot(x, y, marker="o", linestyle="none", markersize=4, label=name)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.legend(fontsize="small")
    return figure


def _local_fit(x: np.ndarray, y: np.ndarray, at: float, near: int, robustness: np.ndarray) -> float:
    distance = np.abs(x - at)
    reach = np.partition(distance, near - 1)[near - 1]
    weight = robustness * (_bump(distance / reach, power=3, exponent=3) if reach > 0 else distance == 0)
    if weight.sum() <= 0:
        return float(y[np.argmin(distance)])
    weight = weight / weight.sum()
    centre = weight @ x
    spread = weight @ (x - centre) ** 2
    # Where all x are nearly the same, a slope would be arbitrary.
    if math.sqrt(spread) > 1e-3 * np.ptp(x):
        weight = weight * (1 + (at - centre) * (x - centre) / spread)
    return float(weight @ y)


def _bump(u: np.ndarray, power: int, exponent: int) -> np.ndarray:
    """(1 - u^power)^exponent below 1, flat at the very top and cut off at 0.999 as in Cleveland's program."""
    inside = (1 - np.minimum(u, 1) ** power) ** exponent
    return np.where(u <= 1e-3, 1.0, np.where(u <= 0.999, inside, 0.0))
