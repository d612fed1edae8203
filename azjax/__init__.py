"""azjax: an AlphaZero laboratory in JAX."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azjax.envs import (
        Env,
        Game,
        GameError,
        MoveError,
        PositionError,
        available_games,
        make,
        make_game,
        register_game,
    )

__all__ = [
    "Env",
    "Game",
    "GameError",
    "MoveError",
    "PositionError",
    "available_games",
    "make",
    "make_game",
    "register_game",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Looked up when first used, so that `azjax.envs` can import nothing of azjax.
    if name not in __all__:
        raise AttributeError(f"module 'azjax' has no attribute {name!r}")
    return getattr(importlib.import_module("azjax.envs"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
