"""Numbers in rows, wherever they stand, and whatever else stands there."""

import math

import pytest

from azjax.common.rows import names_in, number_in

ROW = {
    "seconds": 3,
    "loss": {"total": 0.5, "bad": None, "text": "1"},
    "evaluation": {"uct:20?c=1.5": {"score": 0.75}},
}


@pytest.mark.parametrize(
    "name,expected",
    [
        ("seconds", 3.0),
        ("loss.total", 0.5),
        (("loss", "total"), 0.5),
        (("evaluation", "uct:20?c=1.5", "score"), 0.75),
    ],
)
def test_a_number_is_found_by_its_path_or_by_its_parts(name, expected):
    assert number_in(ROW, name) == expected


@pytest.mark.parametrize(
    "name", ["", "loss", "loss.bad", "loss.text", "loss.total.more", "evaluation.uct:20?c=1.5.score"]
)
def test_what_is_no_number_is_not_there(name):
    assert math.isnan(number_in(ROW, name))


def test_names_come_from_all_rows_in_their_order():
    rows = [{"truth": {"b": 1}}, {"truth": None}, {}, {"truth": {"a": 1, "b": 2}}]
    assert names_in(rows, "truth") == ["b", "a"]
