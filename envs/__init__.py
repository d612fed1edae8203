"""The rules of the games; `azjax.envs.core` says what a game is, `make` builds one by name."""

import dataclasses

from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Env, Game, GameError, GameState, MoveError, PositionError, Symmetries
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.envs.pgx_game import BOARD_GAMES, PgxGame

__all__ = [
    "ChineseCheckers",
    "DotsAndBoxes",
    "Env",
    "Game",
    "GameError",
    "GameState",
    "Hex",
    "MoveError",
    "PgxGame",
    "PositionError",
    "Symmetries",
    "available_games",
    "game_class",
    "make",
]

_OWN_GAMES = {"hex": Hex, "chinese_checkers": ChineseCheckers, "dots_and_boxes": DotsAndBoxes}


def available_games() -> tuple[str, ...]:
    """The names that `make` knows."""
    return (*_OWN_GAMES, *BOARD_GAMES)


def game_class(name: str) -> type:
    """The class of the game of that name; `-` may be written for `_`.

    Raises:
      GameError: for an unknown name, listing those there are.
    """
    name = name.replace("-", "_")
    if name in BOARD_GAMES:
        return PgxGame
    if name not in _OWN_GAMES:
        raise GameError(f"unknown game {name!r}; there are {', '.join(available_games())}")
    return _OWN_GAMES[name]


def make(name: str, **options) -> Env:
    """Builds a game by name, as a pgx environment; `make(...).game` is the game itself.

    >>> make("hex", size=6).game
    Hex(size=6, swap=False, planes=2)

    Args:
      name: one of `available_games()`.
      **options: the game's own fields, such as `size` (the board games of pgx have none).

    Raises:
      GameError: for an unknown name or option, listing those there are.
    """
    kind = game_class(name)
    if kind is PgxGame:
        if options:
            raise GameError(f"{name} comes from pgx and takes no options, got {', '.join(options)}")
        return Env(PgxGame(name.replace("-", "_")))
    known = {field.name: field.default for field in dataclasses.fields(kind)}
    if unknown := [option for option in options if option not in known]:
        listed = ", ".join(f"{option}={default!r}" for option, default in known.items())
        raise GameError(f"{name} has no option {', '.join(unknown)}; its options and defaults are {listed}")
    return Env(kind(**options))
