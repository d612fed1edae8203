"""Positions as requests name them: read with care, looked at, and described as plain data.

A request names a position as a position file does: the game and its options, a `start` in the game's notation (none for
the game's own), and the `moves` from there, as texts or numbers.
"""

import collections
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import positions
from azjax.common.checked import shown
from azjax.envs.core import Game, GameError, GameState, PositionError
from azjax.evaluation import records
from azjax.serve.layouts import layout_of

MOST_PLIES = 2000  # of a game that is served, and of a request
MOST_ACTIONS = 20_000
LONGEST_TEXT = 100_000  # of a start, or of what is pasted
_KEPT = 20_000  # positions


class RequestError(ValueError):
    """A request that makes no sense; the message is shown to who made it, and `field` says where it is wrong."""

    def __init__(self, message: str, field: str | None = None, status: int = 400):
        super().__init__(message)
        self.field = field
        self.status = status


class Line(NamedTuple):
    """A game from its start to a position."""

    game: Game
    start: str | None
    moves: tuple[int, ...]


class Looked(NamedTuple):
    """What the rules say of a position."""

    legal: np.ndarray  # [actions] bool
    over: np.ndarray  # [] bool
    rewards: np.ndarray  # [2]


def read_line(fields: Mapping[str, Any]) -> Line:
    """The line that a request names; raises RequestError unless every move in it is legal."""
    try:
        game = positions.game_of(fields)
        check_size(game)
        start = fields.get("start", fields.get("position"))
        if start is not None and (not isinstance(start, str) or len(start) > LONGEST_TEXT):
            raise RequestError("start must be a position in the game's notation, as a text", "start")
        moves = fields.get("moves", [])
        if not isinstance(moves, list) or len(moves) > MOST_PLIES:
            raise RequestError(f"moves must be a list of at most {MOST_PLIES:,} moves", "moves")
    except GameError as error:
        raise RequestError(str(error), "game") from error
    line = Line(game, start or None, ())
    try:
        state_of(line)
    except GameError as error:
        raise RequestError(str(error), "start") from error
    for number, move in enumerate(moves, start=1):
        line = line._replace(moves=(*line.moves, _action(line, move, number)))
    return line


def _action(line: Line, move: Any, number: int) -> int:
    if isinstance(move, list):  # KataGo's ["B", "c4"]
        if len(move) != 2 or move[0] not in ("B", "W", "b", "w"):
            raise RequestError(
                f'move {number} must be a text, a number, or a pair such as ["B", "c4"]', "moves"
            )
        player, move = "BW".index(move[0].upper()), move[1]
        if player != int(state_of(line).current_player):
            raise RequestError(
                f"move {number} comes out of turn: {shown(move)} is of the other player", "moves"
            )
    try:
        return positions.action_of(line.game, state_of(line), move)
    except GameError as error:
        raise RequestError(f"move {number}: {error}", "moves") from error


def check_size(game: Game) -> None:
    """Raises RequestError for games too large to be served."""
    if game.max_plies > MOST_PLIES or game.num_actions > MOST_ACTIONS:
        raise RequestError(
            f"{game} is too large to be served: at most {MOST_PLIES:,} plies and {MOST_ACTIONS:,} actions",
            "game",
        )


_states: collections.OrderedDict[Line, GameState] = collections.OrderedDict()
_lock = threading.Lock()


def state_of(line: Line) -> GameState:
    """The position at the end of a line of legal moves, as arrays of numpy."""
    known, state = len(line.moves), None
    with _lock:
        while known >= 0 and (state := _states.get(line._replace(moves=line.moves[:known]))) is None:
            known -= 1
    if state is None:
        start = {} if line.start is None else {"position": line.start}
        state, known = jax.device_get(positions.parse_position(start, line.game).state), 0
        _keep(line._replace(moves=()), state)
    for ply in range(known, len(line.moves)):
        state = jax.device_get(_step(line.game)(state, line.moves[ply]))
        _keep(line._replace(moves=line.moves[: ply + 1]), state)
    return state


def _keep(line: Line, state: GameState) -> None:
    with _lock:
        _states[line] = state
        while len(_states) > _KEPT:
            _states.popitem(last=False)


def look(game: Game, state: GameState) -> Looked:
    """What the rules say of a position."""
    return Looked(*jax.device_get(_look(game)(state)))


@functools.lru_cache(maxsize=32)
def _step(game: Game):
    return jax.jit(game.step)


@functools.lru_cache(maxsize=32)
def _look(game: Game):
    return jax.jit(lambda x: (game.legal_action_mask(x), game.is_terminal(x), game.rewards(x)))


def describe(line: Line) -> dict[str, Any]:
    """All that the page shows of a position without anybody thinking."""
    before = state_of(line._replace(moves=line.moves[:-1])) if line.moves else None
    last = line.moves[-1] if line.moves else None
    told = describe_state(line.game, state_of(line), last, before)
    return {"line": line_fields(line), "actions": list(line.moves)} | told


def describe_state(
    game: Game, state: GameState, last: int | None = None, before: GameState | None = None
) -> dict[str, Any]:
    """The same of a position alone; `last` is the move that led to it, from the position `before`."""
    looked, layout = look(game, state), layout_of(game)
    legal = np.flatnonzero(looked.legal).tolist()
    on_device = jax.tree.map(jnp.asarray, state)  # pgx cannot show arrays of numpy
    told: dict[str, Any] = {
        "player": int(state.current_player),
        "over": bool(looked.over),
        "rewards": looked.rewards.tolist(),
        "legal": [{"action": action, "move": game.action_to_text(action)} for action in legal],
        "last": last,
        "notation": _notation(game, state),
        "text": game.to_text(on_device),
    }
    if layout is None:
        themes = ("light", "dark")
        told["pictures"] = {
            theme: str(game.draw(on_device, last_action=last, theme=theme)) for theme in themes
        }
        return told
    contents = layout.contents(on_device)
    told |= {"pieces": contents.pieces, "tints": contents.tints, "scores": contents.scores}
    if layout.paths is not None:
        told["paths"] = layout.paths(state, legal)
        if last is not None and before is not None:  # how the last move came to where it ended
            told["last_path"] = layout.paths(before, [last]).get(last)
    return told


def line_fields(line: Line) -> dict[str, Any]:
    """A line as `read_line` reads it."""
    moves = move_texts(line)
    start = {} if line.start is None else {"start": line.start}
    return positions.describe_game(line.game) | start | {"moves": moves}


def move_texts(line: Line) -> list[str]:
    """The moves in the game's notation."""
    return [line.game.action_to_text(action) for action in line.moves]


def _notation(game: Game, state: GameState) -> str | None:
    try:
        return game.to_notation(state)
    except PositionError:
        return None


def read_pasted(text: Any, game: Game) -> Line:
    """What somebody has pasted: SGF, a game in the plain notation, a position, or moves of the game at hand.

    Raises:
      RequestError: says what it was taken for and what is wrong with it.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_TEXT:
        raise RequestError(f"paste a text of at most {LONGEST_TEXT:,} characters", "text")
    text = text.strip()
    if text.startswith(("(", "[")):
        return _record_line(text)
    try:
        game.from_notation(text)
    except GameError as not_a_position:
        words = [word for word in text.replace(",", " ").split() if not word.rstrip(".").isdecimal()]
        words = words or text.split()  # moves may be numbers
        try:
            return read_line(positions.describe_game(game) | {"moves": words})
        except RequestError as error:
            raise RequestError(
                f"this is no position ({not_a_position}), and no list of moves either ({error})", "text"
            ) from error
    return Line(game, text, ())


def _record_line(text: str) -> Line:
    try:
        found = records.from_sgf(text) if text.startswith("(") else records.from_plain(text)
        if not found:
            raise RequestError("there is no game in this text", "text")
        record = found[0]
        check_size(record.game)
        records.replay(record)
    except RequestError:
        raise
    except ValueError as error:
        raise RequestError(str(error), "text") from error
    return Line(record.game, record.start, tuple(int(action) for action in record.moves))


def written(line: Line, players: Sequence[str] = ("", "")) -> dict[str, str]:
    """The game as texts to take away: the plain notation, and SGF where there is one."""
    record = records.GameRecord(line.game, line.moves, (str(players[0]), str(players[1])), start=line.start)
    texts = {"plain": records.to_plain(record)}
    try:
        texts["sgf"] = records.to_sgf(record)
    except records.RecordError:
        pass  # for other games than Hex
    return texts
