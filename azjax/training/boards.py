"""Several boards in one run: which of them are played when, by their texts.

A board is named by its sizes, `6` for Hex or `2x3` for Dots and Boxes; all other rules are those of the run's game. It
is played from the first iteration, or as its text says: `6@100` from iteration 100, `5@1-300` until iteration 300. So a
run can learn several sizes at once with one set of weights, or grow from small boards to large ones.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from azjax.common.checked import ConfigError
from azjax.envs.core import Game, GameError


class Board(NamedTuple):
    """A board, and the iterations in which it is played; the first iteration is 1."""

    game: Game
    first: int = 1
    last: int | None = None  # None: to the end

    @property
    def is_always_played(self) -> bool:
        """Whether no iteration leaves it out."""
        return self.first == 1 and self.last is None

    def is_played_in(self, iteration: Any) -> Any:
        """Whether it is played in an iteration, a number or an array of one."""
        until = True if self.last is None else iteration <= self.last
        return (iteration >= self.first) & until


def read(text: str, game: Game) -> Board:
    """The board that a text names.

    Args:
      text: such as `6`, `2x3`, `6@100` or `5@1-300`.
      game: what it has in common with the run's own board.

    Raises:
      GameError: the text names no board of this game.
    """
    sizes = _size_options(game)
    if not sizes:
        raise GameError(f"{game.name} has one board only; leave boards out")
    example = "x".join("3" for _ in sizes)
    found = re.fullmatch(r"([0-9]{1,4}(?:x[0-9]{1,4})*)(?:@([0-9]{1,9})(?:-([0-9]{1,9}))?)?", text)
    if not found or len(found[1].split("x")) != len(sizes):
        raise GameError(
            f"a board of {game.name} is {' x '.join(sizes)}, such as {example}, {example}@100 (played from iteration"
            f" 100) or {example}@1-300 (until iteration 300), got {text!r}"
        )
    first, last = int(found[2] or 1), int(found[3]) if found[3] else None
    if first < 1 or (last is not None and last < first):
        raise GameError(f"iterations are counted from 1, the first before the last, got {text!r}")
    numbers = dict(zip(sizes, map(int, found[1].split("x"))))
    return Board(dataclasses.replace(game, **numbers), first, last)


def name_of(game: Game) -> str:
    """What a board is called among those of its run, such as `6` or `2x3`."""
    return "x".join(str(getattr(game, size)) for size in _size_options(game))


def in_order(texts: Sequence[str], game: Game) -> tuple[Board, ...]:
    """The boards of a run, its own first, which is played in all iterations unless a text says otherwise.

    Args:
      texts: name the others, and perhaps the run's own.
      game: on the run's own board.

    Raises:
      GameError: a text names no board, they name one twice, or there is an iteration in which nothing is played.
    """
    boards = [read(text, game) for text in texts]
    own = [board for board in boards if board.game == game] or [Board(game)]
    others = [board for board in boards if board.game != game]
    if len({board.game for board in boards}) < len(boards):
        raise GameError("each board is named once")
    played_until = 0.0
    for board in sorted((*own, *others), key=lambda board: board.first):
        if board.first > played_until + 1:
            break
        played_until = max(played_until, math.inf if board.last is None else board.last)
    if played_until < math.inf:
        raise GameError(f"no board is played in iteration {played_until + 1:.0f}; let one go on until then")
    return (*own, *others)


def title(config: Any) -> str:
    """What a run of any learner plays, in a line: its game and, if it has several, its boards."""
    several = getattr(config, "boards", ())
    return f"{config.game}, boards {' '.join(several)}" if several else str(config.game)


def alone(config: Any, game: Game) -> Any:
    """A run's configuration as if it had a single board, this one."""
    return dataclasses.replace(config, game=game, boards=())


def require_one(config: Any, who: str) -> None:
    """Raises ConfigError if a run has several boards; `who` is for one alone."""
    if config.boards:
        raise ConfigError(
            f"{who} is for runs with one board, and this one has {' '.join(config.boards)}: leave boards empty"
        )


def check_one_network(shapes: Sequence[Any], boards: Sequence[Board]) -> None:
    """Raises GameError unless the parameters of the boards' networks, given as shapes, are alike."""
    first, *others = (jax.tree.map(lambda leaf: leaf.shape, one) for one in shapes)
    for other, board in zip(others, boards[1:]):
        if other != first:
            raise GameError(
                f"the network has other weights on board {name_of(board.game)} than on {name_of(boards[0].game)}, but"
                " a run with several boards has one set for all: it needs a network that fits any size"
            )


def _size_options(game: Game) -> list[str]:
    """The game's first options that are whole numbers: what makes a board larger or smaller."""
    sizes = []
    for field in dataclasses.fields(game) if dataclasses.is_dataclass(game) else ():
        if type(field.default) is not int:
            break
        sizes.append(field.name)
    return sizes
