"""What every solver answers, and the errors it answers with."""

from typing import NamedTuple, Protocol

import numpy as np

from azjax.envs.core import Game, GameState


class Solution(NamedTuple):
    """The truth about a batch of positions, each seen by its player to move."""

    value: np.ndarray  # [batch] float32: -1, 0 or 1, or a margin in boxes; NaN where not proven
    optimal: np.ndarray  # [batch, actions] bool: all moves that reach the value; none if not proven, or over
    proven: np.ndarray  # [batch] bool
    seconds: np.ndarray  # [batch] float32, what each position took
    nodes: np.ndarray  # [batch] int64, positions searched for it; 0 for a look-up


class Solver(Protocol):
    """An exact solver of one game."""

    game: Game

    def solve(self, states: GameState) -> Solution:
        """Values and all optimal moves of positions [batch, ...]."""

    def value(self, states: GameState) -> np.ndarray:
        """[batch] float32, as in `Solution`."""

    def optimal_actions(self, states: GameState) -> np.ndarray:
        """[batch, actions] bool, as in `Solution`."""


class TooLargeError(ValueError):
    """The board does not fit; the message estimates the memory and the time it would take."""
