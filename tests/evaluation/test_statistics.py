"""Means and correlations of few runs, against published tables and scipy."""

import math

import numpy as np
import pytest
import scipy.stats

from azjax.evaluation import statistics


def test_the_interval_of_a_mean_is_students():
    # t(0.975, 4) = 2.776 in any table; the standard error of 1 to 5 is sqrt(2.5 / 5).
    found = statistics.mean([1, 2, 3, 4, 5])
    assert found.mean == 3 and found.count == 5 and found.spread == pytest.approx(math.sqrt(2.5))
    assert found.interval == pytest.approx((3 - 2.776 * math.sqrt(0.5), 3 + 2.776 * math.sqrt(0.5)), abs=1e-3)


def test_of_one_run_everything_is_possible():
    assert statistics.mean([7.0]).interval == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="at least one number"):
        statistics.mean([])


def test_a_correlation_has_its_interval_by_fishers_transformation():
    x = np.arange(20.0)
    y = x + 5 * np.sin(x)
    found = statistics.correlation(x, y)
    expected = scipy.stats.pearsonr(x, y)
    assert found.pearson == pytest.approx(expected.statistic)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert statistics.correlation(x, x**3).spearman == pytest.approx(1)


def test_what_never_changes_correlates_with_nothing():
    found = statistics.correlation([1, 1, 1], [1, 2, 3])
    assert math.isnan(found.pearson) and found.interval == (-1, 1)
