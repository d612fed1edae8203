"""The rules of the games; `azjax.envs.core` says what a game is, `make` builds one by name."""

from typing import TYPE_CHECKING, Any

from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameError, GameState, MoveError, PlainGame, PositionError, Symmetries
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.envs.registry import available_games, game_class, make, make_game, register_game

if TYPE_CHECKING:
    from azjax.envs.pgx_bridge import Env, PgxGame

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
    "PlainGame",
    "PositionError",
    "Symmetries",
    "available_games",
    "game_class",
    "make",
    "make_game",
    "register_game",
]


def __getattr__(name: str) -> Any:
    # Looked up when first used: importing pgx takes a second and starts JAX's backend.
    if name not in ("Env", "PgxGame"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from azjax.envs import pgx_bridge

    return getattr(pgx_bridge, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
