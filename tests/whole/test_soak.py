"""What `make soak` calls flat memory and steady work, on numbers made up for it."""

import pytest

from tests import soak


@pytest.mark.parametrize(
    ("samples", "flat"),
    [
        ([100, 300, 400, 400, 401, 402, 405, 403], True),  # caches fill in the first quarter
        ([400, 410, 420, 430, 440, 450, 460, 470], False),  # from 425 to 465, and 453.75 were allowed
        ([2000, 2000, 2000, 2000, 2000, 2000, 2070, 2070], True),
        ([2000, 2000, 2000, 2000, 2000, 2000, 2080, 2080], False),
    ],
)
def test_memory_is_flat_if_the_last_quarter_is_hardly_above_the_second(samples, flat):
    assert soak.is_flat(samples) == flat


@pytest.mark.parametrize(
    ("counts", "busy"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], True),
        ([0, 0, 1, 2, 3, 4, 5, 6], True),  # nothing is counted while it starts
        ([0, 1, 2, 2, 2, 2, 6, 7], False),
        ([0, 1, 2, 3, 4, 5, 5, 5], False),
        ([0] * 8, False),
    ],
)
def test_whoever_stands_still_for_a_quarter_of_the_time_is_not_busy(counts, busy):
    assert soak.is_busy(counts) == busy
