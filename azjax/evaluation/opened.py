"""What a run opened games with: the positions that no judge asks it about.

A run searches and learns its openings in every game that begins there. Judged by them it would look stronger than it
is, so every judge that asks about positions leaves them out, and says how many there were. Judges of whole games do
not, nor does the exact best response, which has to meet the agent wherever it goes.
"""

import dataclasses
import functools
import hashlib

import jax
import numpy as np

from azjax.envs.core import Game, GameState, PositionError, seen_as
from azjax.positions import sets as position_sets
from azjax.training.config import TrainConfig
from azjax.training.openings import make_openings


@dataclasses.dataclass(frozen=True, eq=False)
class Opened:
    """The positions that a run opens games with, as its network sees them; made by `openings_of`.

    Two positions are the same here if the network is shown the same: sides do not count where it always sees itself as
    the first player, and where training turns positions by the board's symmetries, these do not count either.
    """

    game: Game
    symmetries: bool  # whether training shows positions turned
    views: np.ndarray  # [distinct] bytes, sorted
    others: tuple["Opened", ...] = ()  # of a run with several boards, those of the others

    def has(self, game: Game, states: GameState) -> np.ndarray:
        """[batch] bool: which positions of a game are among them; none of a board that the run does not play."""
        own = next((one for one in (self, *self.others) if _same_board(game, one.game)), None)
        if own is None or not position_sets.size_of(states):
            return np.zeros(position_sets.size_of(states), bool)
        return np.isin(position_sets.views_of(own.game, states, own.symmetries), own.views)

    @property
    def fingerprint(self) -> str:
        """A short text that is another one for other positions."""
        every = b"".join(one.views.tobytes() for one in (self, *self.others))
        return hashlib.sha256(every).hexdigest()[:16]


def openings_of(config: TrainConfig) -> Opened:
    """What a run opens games with: the positions that no judge may ask it about.

    A run without openings opens at the game's start, and so does one with a share of them below 1.
    """
    options = config.selfplay
    try:
        own, *others = (
            _opened(board.game, options.openings, options.opening_share, config.optimiser.symmetries)
            for board in config.played
        )
        return dataclasses.replace(own, others=tuple(others)) if others else own
    except (OSError, PositionError) as error:
        raise ValueError(
            f"the run opened games with the positions of {options.openings}, which cannot be read ({error});"
            " put the file back, so that they can be left out"
        ) from error


def leave_out(game: Game, states: GameState, opened: Opened | None) -> tuple[GameState, int]:
    """The positions that a run did not open games with, and how many others there were; None opened with none."""
    if opened is None:
        return states, 0
    known = opened.has(game, states)
    return position_sets.rows(states, ~known), int(known.sum())


@functools.lru_cache(maxsize=8)
def _opened(game: Game, kind: str, share: float, symmetries: bool) -> Opened:
    states = jax.tree.map(np.asarray, make_openings(game, kind, share).states)
    return Opened(game, symmetries, np.unique(position_sets.views_of(game, states, symmetries)))


def _same_board(game: Game, other: Game) -> bool:
    """Whether positions of one game are positions of the other; what a network is shown and when it ends may differ."""
    return game.name == other.name and seen_as(game, other).observation_shape == other.observation_shape
