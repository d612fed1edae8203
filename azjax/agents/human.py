"""A person at the terminal as a host agent, and the coloured board that people see."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.text import Text

from azjax.common.agent import RESIGN, Agent
from azjax.envs.core import Game, GameState, MoveError

PLAYER_STYLES = ("bold blue", "bold red")
CHANGED_STYLE = "reverse"  # what the last move has changed
# What stands for a piece of each player in a game's text.
_PIECES = {"hex": "BW", "dots_and_boxes": "AB", "chinese_checkers": "ab"}


def make(game: Game, *, console: Console | None = None, read: Callable[[str], str] = input) -> Agent:
    """A person who is shown every position and types a move, or `resign`.

    Args:
      game: what is played.
      console: where the board appears; default the terminal.
      read: (prompt) -> a line; raises EOFError when there are no more, which resigns.
    """
    console = console or Console()

    def act(params: Any, key: jax.Array, states: GameState) -> np.ndarray:
        del params, key
        states = jax.tree.map(np.asarray, states)
        lanes = range(len(states.current_player))
        return np.array(
            [ask(game, jax.tree.map(lambda leaf, i=i: leaf[i], states), console, read) for i in lanes],
            np.int32,
        )

    return Agent("human", act, on_host=True)


def ask(game: Game, x: GameState, console: Console, read: Callable[[str], str]) -> int:
    """Shows a position and asks until a legal move, or `resign`, is typed."""
    console.print(board_text(game, x))
    while True:
        try:
            line = read("your move (or resign): ").strip()
        except EOFError:
            return RESIGN
        if line.lower() == "resign":
            return RESIGN
        try:
            return game.text_to_action(line, x)
        except MoveError as error:
            console.print(f"{error}.", style="yellow", markup=False, highlight=False)


def board_text(game: Game, x: GameState, before: GameState | None = None) -> Text:
    """The board with the players' pieces in their colours.

    Args:
      game: what is played.
      x: the position.
      before: an earlier one; what is different now stands out.
    """
    content = game.to_text(x)
    text = Text(content)
    # The last line is a sentence, which may hold the same letters.
    board = content.rpartition("\n")[0]
    for piece, style in zip(_PIECES.get(game.name, ""), PLAYER_STYLES):
        for match in re.finditer(rf"(?<!\S){piece}(?!\S)", board):
            text.stylize(style, *match.span())
    if before is not None:
        old = game.to_text(before)
        for place, (was, now) in enumerate(zip(old, board)):
            if was != now:
                text.stylize(CHANGED_STYLE, place, place + 1)
    return text
