"""Rows of numbers as training and judges write them: dictionaries, some of whose values are dictionaries again."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from azjax.common.checked import is_finite

Row = Mapping[str, Any]


def number_in(row: Row, name: str | Sequence[str]) -> float:
    """One number of a row; NaN if it is not there or not finite.

    Args:
      row: the row.
      name: a path such as `summary.all.share`; or its parts, where one of them may have a dot of its own.
    """
    value: Any = row
    for part in name.split(".") if isinstance(name, str) else name:
        value = value.get(part) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and is_finite(value) else math.nan


def with_updates(rows: Iterable[Row]) -> list[Row]:
    """The lines of iterations with updates: while the replay fills there are none, and the loss is 0."""
    return [row for row in rows if number_in(row, "loss.total") != 0]


def names_in(rows: Iterable[Row], part: str) -> list[str]:
    """The names of what any of the rows tell of in a part, such as the opponents of `evaluation`, in their order."""
    told = (row.get(part) for row in rows)
    return list(dict.fromkeys(name for found in told if isinstance(found, Mapping) for name in found))
