"""Positions: files of them, sets of them, and positions drawn at random."""

from azjax.positions.files import (
    PositionLine,
    action_of,
    describe_game,
    game_of,
    game_options,
    moves_of,
    parse_position,
    read_positions,
    stack,
    starts,
    write_positions,
)

__all__ = [
    "PositionLine",
    "action_of",
    "describe_game",
    "game_of",
    "game_options",
    "moves_of",
    "parse_position",
    "read_positions",
    "stack",
    "starts",
    "write_positions",
]
