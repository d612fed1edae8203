"""Position files: JSON lines that feed the solvers, the suites and the viewers.

A line is an object such as `{"game": "hex", "size": 6, "moves": ["a4", "e2"]}`. The game's options stand beside
its name; the position is given by `moves` from the start, or by `position` in the game's notation, or is the start.
A move is its text or its action number. Whatever else stands there (`optimal`, `value`, a comment) is kept.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax.common import atomic, checked, files
from azjax.envs import game_class, make_game
from azjax.envs.core import Game, GameError, GameState, MoveError, PositionError, check_move


class PositionLine(NamedTuple):
    """A line of a position file."""

    game: Game
    state: GameState
    fields: dict[str, Any]  # the whole line as it was read


def read_positions(path: str | os.PathLike, default: Game | None = None) -> list[PositionLine]:
    """Reads a position file.

    Args:
      path: the file; empty lines are skipped.
      default: the game of lines that name none, and the options of lines that name it without any.

    Raises:
      PositionError: names the line and what is wrong with it; or there is no line, or no such file.
    """
    try:
        lines = files.read_objects(path, "position file")
    except files.FileError as error:
        raise PositionError(str(error)) from error
    positions = []
    for number, fields in lines:
        try:
            positions.append(parse_position(fields, default))
        except GameError as error:
            raise PositionError(f"{os.fspath(path)}, line {number}: {error}") from error
    if not positions:
        raise PositionError(f"{os.fspath(path)} holds no position; a line is one, as a JSON object")
    return positions


def parse_position(fields: Mapping[str, Any], default: Game | None = None) -> PositionLine:
    """The position that the fields of a line describe."""
    game = game_of(fields, default)
    if "moves" in fields and "position" in fields:
        raise PositionError("a line has either moves or a position, not both")
    if "position" in fields:
        if not isinstance(fields["position"], str):
            raise PositionError(f'"position" must be a text, got {checked.shown(fields["position"])}')
        state = game.from_notation(fields["position"])
    else:
        state = _start(game)
        for move in moves_of(fields, "moves"):
            # In numpy, so that checking a move is not a handful of small programs on the device.
            state = jax.device_get(_step(game)(state, action_of(game, state, move)))
    return PositionLine(game, state, dict(fields))


def moves_of(fields: Mapping[str, Any], name: str) -> list[Any]:
    """The list of moves under a name in a line; empty if there is none."""
    moves = fields.get(name, [])
    if not isinstance(moves, list):
        raise PositionError(f'"{name}" must be a list of moves, got {checked.shown(moves)}')
    return moves


def game_of(fields: Mapping[str, Any], default: Game | None = None) -> Game:
    """The game that the fields of a line name; what they leave open is as in `default`."""
    if "game" not in fields:
        if default is None:
            raise PositionError('no game is given: write for example "game": "hex", "size": 6')
        name = default.name
    else:
        name = fields["game"]
    if not isinstance(name, str):
        raise PositionError(f'"game" must be a name such as "hex", got {checked.shown(name)}')
    name = name.replace("-", "_")
    if default is not None and name != default.name:
        raise PositionError(f"the line is about {name}, but {default.name} was asked for")
    options = {} if default is None else game_options(default)
    known = {field.name for field in dataclasses.fields(game_class(name))} - {"name"}
    options |= {option: value for option, value in fields.items() if option in known}
    return make_game(name, **options)


def game_options(game: Game) -> dict[str, Any]:
    """The options of a game, by name."""
    return {
        field.name: getattr(game, field.name) for field in dataclasses.fields(game) if field.name != "name"
    }


def describe_game(game: Game) -> dict[str, Any]:
    """The fields that name the game in a line: `game` and the options that are not the default."""
    defaults = {field.name: field.default for field in dataclasses.fields(game)}
    options = {name: value for name, value in game_options(game).items() if value != defaults[name]}
    return {"game": game.name} | options


def action_of(game: Game, state: GameState, move: str | int) -> int:
    """The number of a move given as text or number; raises MoveError if it is malformed or illegal."""
    if isinstance(move, str):
        return game.text_to_action(move, state)
    if isinstance(move, bool) or not isinstance(move, int):
        raise PositionError(f"a move is its text or its number, got {checked.shown(move)}")
    if not 0 <= move < game.num_actions:
        raise MoveError(f"move {move} is not one of the actions 0 to {game.num_actions - 1}")
    return check_move(game, state, move, str(move))


def write_positions(path: str | os.PathLike, lines: Iterable[Mapping[str, Any]]) -> None:
    """Writes a position file, whole or not at all."""
    with atomic.writing(path) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def stack(states: Iterable[GameState]) -> GameState:
    """Positions of one game as a batch [batch, ...]."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *states)


def starts(game: Game, texts: Sequence[str | None]) -> GameState:
    """Where games began, [games, ...]: positions in the game's notation, or None for its own start."""
    return stack([_start(game) if text is None else game.from_notation(text) for text in texts])


@functools.cache
def _start(game: Game) -> GameState:
    return jax.device_get(game.init(jax.random.key(0)))


@functools.cache
def _step(game: Game):
    return jax.jit(game.step)
