"""Where the games of a match begin, by one text: at the start, at the positions of a file, or in a safe fill.

A safe fill is for Dots and Boxes: random safe lines, so many that play goes on in the middle of the first phase. Peters
2018 begins its matches so, because networks hardly vary their play and would repeat one game.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.core import Game, PositionError
from azjax.envs.dots_and_boxes import board_of
from azjax.positions import PositionLine, describe_game, read_positions

KINDS = "none, safe (Dots and Boxes), or a position file, NAME.jsonl"
REMOVED = 0.35  # of all lines, which Peters 2018 takes away again where no safe line is left


def make(text: str | os.PathLike | None, game: Game, number: int, seed: int = 0) -> list[PositionLine]:
    """The positions that games begin at, to be used in turn; none for the game's own start.

    Args:
      text: one of `KINDS`.
      game: of the match.
      number: how many are wanted; a file may have more or fewer.
      seed: of those that are drawn.

    Raises:
      ValueError: the text is none of these, so that there is no such file, or the game has no such openings.
    """
    text = "none" if text is None else os.fspath(text)
    if text == "none":
        return []
    if text == "safe":
        return safe_openings(game, number, seed)
    try:
        return read_positions(text, game)
    except PositionError as error:
        if text.endswith(".jsonl"):
            raise
        raise PositionError(f"{error}; openings of a match are {KINDS}") from error


def safe_openings(game: Game, number: int, seed: int = 0, removed: float = REMOVED) -> list[PositionLine]:
    """Positions of Dots and Boxes after random safe lines; the first player is to move.

    Args:
      game: the board.
      number: how many.
      seed: the same seed draws the same positions.
      removed: how many lines are taken away from a board without safe lines, as a share of all lines.
    """
    game = board_of(game, "safe openings are for dots_and_boxes (give a position file)")
    from azjax.agents import dots_games  # here, because its compiler takes a while to import

    seeds = np.random.default_rng(seed).integers(2**64, size=number, dtype=np.uint64)
    filled = dots_games.safe_fills(game, int(removed * game.num_actions), seeds)
    start = game.init(jax.random.key(0))
    about = describe_game(game)
    return [
        PositionLine(game, state, about | {"position": game.to_notation(state)})
        for state in (start._replace(lines=jnp.asarray(lines)) for lines in filled)
    ]
