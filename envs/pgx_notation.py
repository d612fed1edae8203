"""How moves and positions of the board games of pgx are written; of games without an entry here, by numbers alone.

Where stones neither move nor vanish, a position is written as moves that lead to it, one character each. Many orders of
the same moves do; the one that is written depends on the position alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Notation(NamedTuple):
    """How one game is written."""

    moves: tuple[str, ...]  # the text of each action, a character
    describe: str  # what a move is, for whoever wrote something else
    order: Callable[[np.ndarray], list[int] | None]
    """([rows, columns, 2] bool, the stones of both players) -> actions that lead there; None if none do."""


def order_of_columns(stones: np.ndarray) -> list[int] | None:
    """Moves that lead to stones which have been dropped into columns, by turns, without four in a row before the last.

    Stones are taken off again from the tallest column that will do.
    """
    owner = np.where(stones.any(-1), stones.argmax(-1), -1)[::-1]  # [rows from the bottom, columns]
    heights = (owner >= 0).sum(0)
    if any((owner[:height, column] < 0).any() for column, height in enumerate(heights)):
        return None
    dead: set[tuple[int, ...]] = set()  # heights from which the start is not reached

    def take_off(heights: tuple[int, ...]) -> list[int] | None:
        number = sum(heights)
        if number == 0:
            return []
        if heights in dead:
            return None
        for column in sorted(range(len(heights)), key=lambda column: (-heights[column], column)):
            top = heights[column] - 1
            if top < 0 or owner[top, column] != (number - 1) % 2:
                continue
            below = (*heights[:column], top, *heights[column + 1 :])
            if number == heights_at_end and _has_four(_cut(owner, below)):
                continue
            if (before := take_off(below)) is not None:
                return [*before, column]
        dead.add(heights)
        return None

    heights_at_end = int(heights.sum())
    return take_off(tuple(heights.tolist()))


def _cut(owner: np.ndarray, heights: tuple[int, ...]) -> np.ndarray:
    """The columns up to these heights."""
    return np.where(np.arange(len(owner))[:, None] < np.array(heights), owner, -1)


def _has_four(owner: np.ndarray) -> bool:
    """Whether four stones of one player, [rows, columns] -1 where there is none, stand in a line."""
    stones = {(row, column): owner[row, column] for row, column in np.argwhere(owner >= 0).tolist()}
    return any(
        all(stones.get((row + i * up, column + i * across)) == player for i in range(4))
        for (row, column), player in stones.items()
        for up, across in ((0, 1), (1, 0), (1, 1), (1, -1))
    )


NOTATIONS = {"connect_four": Notation(tuple("1234567"), "a column from 1 to 7", order_of_columns)}
