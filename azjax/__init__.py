"""azjax: an AlphaZero laboratory in JAX."""

from azjax.envs import Env, Game, GameError, MoveError, PositionError, available_games, make

__all__ = ["Env", "Game", "GameError", "MoveError", "PositionError", "available_games", "make"]
__version__ = "0.1.0"
