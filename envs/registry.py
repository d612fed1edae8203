"""All games by name: our own, the board games of pgx, and whatever is registered.

A registered game is as good as a built-in one wherever a game is named: in `make`, in position files, in the folders of
runs, on the command line. Nothing that is read from a file is imported to find a game.
"""

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameError, why_no_game
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.envs.pgx_names import BOARD_GAMES

if TYPE_CHECKING:
    from azjax.envs.pgx_bridge import Env

_games: dict[str, type] = {kind.name: kind for kind in (Hex, ChineseCheckers, DotsAndBoxes)}

# What stands beside the options of a game in position files and in the folders of runs.
_TAKEN_FIELDS = ("name", "game", "moves", "position", "optimal", "value")


def available_games() -> tuple[str, ...]:
    """The names that `make` knows."""
    return (*_games, *BOARD_GAMES)


def game_class(name: str) -> type:
    """The class of the game of that name; `-` may be written for `_`.

    Raises:
      GameError: for an unknown name, listing those there are.
    """
    name = name.replace("-", "_")
    if name in BOARD_GAMES:
        from azjax.envs.pgx_bridge import PgxGame

        return PgxGame
    if name not in _games:
        raise GameError(
            f"unknown game {name!r}; there are {', '.join(available_games())}, and an own game must be registered"
            " first: with azjax.register_game in Python, or with --import MODULE on the command line"
        )
    return _games[name]


def make_game(name: str, **options: Any) -> Game:
    """Builds a game by name.

    >>> make_game("hex", size=6)
    Hex(size=6, swap=False, planes=2)

    Args:
      name: one of `available_games()`.
      **options: the game's own fields, such as `size` (the board games of pgx have none). A list, which is what a
        tuple becomes in a file, is taken for a tuple.

    Raises:
      GameError: for an unknown name or option, listing those there are; or for a value that the game refuses.
    """
    kind = game_class(name)
    if name.replace("-", "_") in BOARD_GAMES:
        if options:
            raise GameError(f"{name} comes from pgx and takes no options, got {', '.join(options)}")
        return kind(name.replace("-", "_"))
    known = {field.name: field.default for field in dataclasses.fields(kind)}
    if unknown := [option for option in options if option not in known]:
        listed = ", ".join(f"{option}={default!r}" for option, default in known.items()) or "none"
        raise GameError(f"{name} has no option {', '.join(unknown)}; its options and defaults are {listed}")
    try:
        return kind(**{option: _as_tuple(value) for option, value in options.items()})
    except (TypeError, ValueError) as error:
        raise (
            error if isinstance(error, GameError) else GameError(f"{name} refuses {options}: {error}")
        ) from None


def make(name: str, **options: Any) -> "Env":
    """Builds a game by name, as a pgx environment; `make(...).game` is the game itself.

    >>> make("hex", size=6).game
    Hex(size=6, swap=False, planes=2)

    For the arguments and errors see `make_game`, which does without pgx.
    """
    game = make_game(name, **options)
    from azjax.envs.pgx_bridge import Env

    return Env(game)


def register_game(name: str, kind: type) -> type:
    """Makes a game known by name, everywhere.

    The same class defined anew, as when a cell of a notebook is run again, takes the place of the one before.

    Args:
      name: small letters, digits and underscores; also the class's attribute `name`.
      kind: a frozen dataclass with the members of `azjax.envs.core.Game`, whose fields are the game's options: numbers,
        texts, flags, None or tuples of them, each with a default.

    Returns:
      The class.

    Raises:
      GameError: says why this is no game, or why it cannot have this name.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise GameError(f"the name of a game is of small letters, digits and underscores, got {name!r}")
    if not isinstance(kind, type):
        raise GameError(f"register_game takes the class of {name}, got {kind!r}")
    there = _games.get(name)
    is_anew = there is not None and _place(there) == _place(kind)
    if name in available_games() and not is_anew:
        raise GameError(f"there is a game called {name} already; take another name")
    if (reason := why_no_game(kind)) is not None:
        raise GameError(f"{kind.__name__} {reason}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if taken := [field for field in fields if field in _TAKEN_FIELDS]:
        raise GameError(
            f"a field of {kind.__name__} is called {taken[0]}, which means something else in files; rename it, or make"
            " it a ClassVar if it is no option"
        )
    if kind.name != name:
        raise GameError(f"the attribute name of {kind.__name__} is {kind.name!r}; it must be {name!r}")
    for field in fields.values():
        if not _is_plain(field.default):
            raise GameError(
                f"the field {field.name} of {kind.__name__} needs a default that is a number, a text, a flag, None or a"
                " tuple of these: it is an option, and is written to files"
            )
    _games[name] = kind
    return kind


def _place(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
