"""What a few runs say about all there might be: means, differences and correlations with their intervals.

Intervals over seeds are Student's, for the spread of few runs is not known well either. Shares of games and positions
have Wilson's, see `azjax.evaluation.arena.wilson_interval`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats


class Mean(NamedTuple):
    """A mean of some numbers, and where the mean of all numbers like them is likely to be."""

    mean: float
    interval: tuple[float, float]  # Student's, 95 %; of one number everything is possible
    count: int
    spread: float  # the standard deviation of the sample; NaN of one number


class Correlation(NamedTuple):
    """How far two measures go together."""

    pearson: float  # of the numbers
    interval: tuple[float, float]  # of it, by Fisher's transformation, 95 %
    spearman: float  # of their ranks
    count: int


def mean(values: Sequence[float], confidence: float = 0.95) -> Mean:
    """The mean of independent numbers; the numbers may be differences of pairs."""
    numbers = np.asarray(values, float)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"a mean needs at least one number, got {values!r}")
    middle = float(numbers.mean())
    if len(numbers) == 1:
        return Mean(middle, (-math.inf, math.inf), 1, math.nan)
    spread = float(numbers.std(ddof=1))
    reach = (
        float(scipy.stats.t.ppf((1 + confidence) / 2, len(numbers) - 1)) * spread / math.sqrt(len(numbers))
    )
    return Mean(middle, (middle - reach, middle + reach), len(numbers), spread)


def correlation(x: Sequence[float], y: Sequence[float], confidence: float = 0.95) -> Correlation:
    """How two measures of the same things go together; NaN where one of them never changes."""
    first, second = np.asarray(x, float), np.asarray(y, float)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError(
            f"a correlation needs two equally long lists of numbers, got {first.shape} and {second.shape}"
        )
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return Correlation(math.nan, (-1.0, 1.0), math.nan, len(first))
    pearson = float(np.corrcoef(first, second)[0, 1])
    spearman = float(scipy.stats.spearmanr(first, second).statistic)
    if len(first) < 4 or abs(pearson) >= 1:
        return Correlation(
            pearson, (-1.0, 1.0) if len(first) < 4 else (pearson, pearson), spearman, len(first)
        )
    reach = float(scipy.stats.norm.ppf((1 + confidence) / 2)) / math.sqrt(len(first) - 3)
    centre = math.atanh(pearson)
    return Correlation(pearson, (math.tanh(centre - reach), math.tanh(centre + reach)), spearman, len(first))
