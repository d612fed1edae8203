"""An agent behind Hex GTP, the text protocol of HexGui and MoHex.

A command is a line, `[id] name [arguments]`; the answer is `=[id] text` or `?[id] what is wrong`, ended by an
empty line. Stones may be put down for either colour at any time, as the protocol has it.

After `swap-pieces` the stone stays where it is, and it is White's turn again: for HexGui, MoHex and the referees of
their matches the players change sides. For the game of `azjax.envs` the stone changes its colour and is transposed,
and Black is to move. One is the mirror image of the other: the agent plays on its own side of the mirror.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import math
import os
import pathlib
import re
import sys
import time
import traceback
from collections.abc import Callable, Container
from typing import NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.agent import RESIGN, Agent
from azjax.envs.core import GameError, MoveError
from azjax.envs.hex import SWAP_TEXT, Hex, HexState
from azjax.evaluation import records
from azjax.evaluation.arena import make_mover
from azjax.solvers.hex import solver as hex_solver

COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}
COLOUR_NAMES = ("black", "white")
GAME_SECONDS = 1800.0  # of each player, as in MoHex
LONGEST_LINE = 1 << 20  # characters of a command
LARGEST_FILE = 1 << 24  # bytes of a game record
MOST_THREADS = 1024  # of the solver, as of `azjax solve`


class GtpError(Exception):
    """What a command answers with `?`."""


class SeenBoard(NamedTuple):
    """The board as the agent sees it, and on which side of the mirror that is."""

    x: HexState
    mirrored: bool = False  # after a swap: colours exchanged and cells transposed

    @property
    def winner(self) -> int | None:
        """A colour, or None while the game goes on."""
        return self.colour(1 - int(self.x.current_player)) if bool(self.x.over) else None

    def colour(self, player: int) -> int:
        """The colour that a player of `x` has in the protocol; likewise the other way round."""
        return 1 - player if self.mirrored else player

    def to_move(self, colour: int) -> "SeenBoard":
        """The same board with that colour to move."""
        return self._replace(x=self.x._replace(current_player=jnp.int32(self.colour(colour))))


class Server:
    """Answers commands; holds the game as it stands."""

    def __init__(self, make_agent: Callable[[Hex], Agent], game: Hex, *, seed: int = 0):
        """Prepares a game on an empty board.

        Args:
          make_agent: the agent for a board; raises ValueError for boards that it does not play.
          game: the board to begin with.
          seed: of the agent's random choices.
        """
        self.finished = False  # after `quit`
        self._make_agent = make_agent
        self._key = jax.random.key(seed)
        self._agent: Agent | None = None
        self._solver: hex_solver.HexSolver | None = None
        self._solve_before_moving = False
        self._solver_settings = {"threads": 1, "timelimit": 300.0}
        self._game_seconds = GAME_SECONDS
        self._change_game(game)

    def answer(self, line: str) -> str:
        """The whole answer to a line, its closing empty line included; nothing for an empty line or a comment."""
        words = _words(line)
        if not words:
            return ""
        number = words.pop(0) if words[0].isdecimal() else ""
        try:
            if len(line) >= LONGEST_LINE:
                raise GtpError(f"syntax error: a line has fewer than {LONGEST_LINE:,} characters")
            text, sign = self._run(words), "="
        except GtpError as error:
            text, sign = str(error), "?"
        except Exception as error:  # one failed command must not end the session
            traceback.print_exc(file=sys.stderr)
            text, sign = f"internal error: {error}", "?"
        text = re.sub(r"\n\s*\n", "\n", text.rstrip("\n"))  # an empty line would end the answer
        return f"{sign}{number} {text}\n\n"  # HexGui wants the blank even before nothing

    def close(self) -> None:
        """Ends what the agent and the solver have started."""
        if self._agent is not None:
            self._agent.close()
        if self._solver is not None:
            self._solver.close()

    def _run(self, words: list[str]) -> str:
        if not words:
            raise GtpError("syntax error: an id without a command")
        name, *arguments = words
        if name not in COMMANDS:
            raise GtpError(f"unknown command: {_short(name)}")
        command = COMMANDS[name]
        if len(arguments) not in command.counts:
            raise GtpError(f"syntax error: usage is {name} {command.usage}".rstrip())
        return command.run(self, *arguments) or ""

    @property
    def _now(self) -> SeenBoard:
        return self._positions[-1]

    def _change_game(self, game: Hex) -> None:
        agent = self._make_agent(game)
        self.close()
        self._solver = None
        self.game, self._agent, self._mover = game, agent, make_mover(agent)
        self._clear()

    def _clear(self) -> None:
        self._set_positions([SeenBoard(self.game.init(jax.random.key(0)))])
        self._seconds_left = [self._game_seconds, self._game_seconds]

    def _set_positions(self, positions: list[SeenBoard]) -> None:
        # A resignation is no move: whoever plays on or takes a move back after it has forgotten it.
        self._positions, self._resigned = positions, None

    @property
    def _winner(self) -> int | None:
        """A colour, or None while the game goes on."""
        by_resignation = None if self._resigned is None else 1 - self._resigned
        return by_resignation if self._now.winner is None else self._now.winner

    def boardsize(self, width: str, height: str | None = None) -> None:
        """Sets the size and removes all stones."""
        if height not in (None, width):
            raise GtpError("syntax error: boardsize takes a number, or the same number twice")
        self._become(_whole_number("the size", width), self.game.swap)
        self._clear()

    def _become(self, size: int, swap: bool) -> None:
        """Changes to another board or rule, if that is what is asked."""
        if (size, swap) == (self.game.size, self.game.swap):
            return
        try:
            self._change_game(Hex(size=size, swap=swap))
        except ValueError as error:
            what = "size" if size != self.game.size else "rules"
            raise GtpError(f"unacceptable {what}: {error}") from error

    def clear_board(self) -> None:
        """Removes all stones."""
        self._clear()

    def showboard(self) -> str:
        """The position on one line, and the board below it."""
        size, x = self.game.size, self._shown(self._now)
        stones = np.sign(np.asarray(x.board)).reshape(size, size)
        letters = "  ".join(chr(ord("a") + column) for column in range(size))
        lines = [self.game.to_notation(x), f"  {letters}"]
        for row in range(size):
            cells = "  ".join(".BW"[stone] for stone in stones[row])
            lines.append(f"{'':{row}}{row + 1}\\{cells}\\{row + 1}")
        return "\n".join([*lines, f"{'':{size + 2}}{letters}"])

    def play(self, colour: str, move: str) -> None:
        """Plays a move."""
        wanted = _colour(colour)
        if move.lower() == "resign":
            self._resigned = wanted
            return
        if self._now.winner is not None:
            raise GtpError("illegal move: the game is over")
        self._set_positions([*self._positions, self._after(self._now, wanted, move)])

    def play_game(self, *moves: str) -> None:
        """Plays moves from the empty board on, Black first; after a swap White moves again, as in HexGui."""
        positions, colour = [SeenBoard(self.game.init(jax.random.key(0)))], 0
        for move in moves:
            if positions[-1].winner is not None:
                raise GtpError(f"illegal move: the game is over before {_short(move)}")
            positions.append(self._after(positions[-1], colour, move))
            if positions[-1].mirrored == positions[-2].mirrored:
                colour = 1 - colour
        self._clear()
        self._set_positions(positions)

    def load_sgf(self, path: str, number: str | None = None) -> None:
        """Takes a game of a file over, or its first moves."""
        moves = None if number is None else _whole_number("the number of moves", number)
        record = _read_game(path)
        swap = record.game.size**2
        game = dataclasses.replace(self.game, size=record.game.size)
        # What the record says of the result does not matter here, it may have been won on time.
        record = dataclasses.replace(record, game=game, moves=record.moves[:moves], result=None)
        if swap in record.moves and not game.swap:
            raise GtpError("illegal move: the record has a swap; `param_game allow_swap 1` allows it")
        try:
            states = records.replay(record)
        except records.RecordError as error:
            raise GtpError(f"cannot load: {error}") from error
        self._become(game.size, game.swap)
        self._clear()
        mirrored = [swap in record.moves[:ply] for ply in range(len(states))]
        self._set_positions([SeenBoard(*pair) for pair in zip(states, mirrored)])

    def genmove(self, colour: str) -> str:
        """Chooses a move and plays it; after the end it resigns, as referees expect it."""
        began = time.monotonic()
        move = self.reg_genmove(colour)
        self._seconds_left[_colour(colour)] -= time.monotonic() - began
        self.play(colour, move)
        return move

    def reg_genmove(self, colour: str) -> str:
        """Chooses a move without playing it."""
        position = self._now.to_move(_colour(colour))
        if position.winner is not None:
            return "resign"
        proven = []
        if self._solve_before_moving:
            with contextlib.suppress(GtpError):  # what cannot be solved is played without
                proven = self._winning_moves(position)
        if proven:
            return proven[0]
        self._key, key = jax.random.split(self._key)
        action = self._mover(key, position.x)
        if action == RESIGN:
            return "resign"
        if action < 0 or not self.game.legal_action_mask(position.x)[action]:
            raise GtpError("cannot generate a move: the agent has failed")
        return self._text(position, action)

    def undo(self) -> None:
        """Takes the last move back."""
        if len(self._positions) == 1:
            raise GtpError("cannot undo: no move has been played")
        self._set_positions(self._positions[:-1])

    def all_legal_moves(self, colour: str | None = None) -> str:
        """All legal moves, of whoever is to move or of a player."""
        position = self._now if colour is None else self._now.to_move(_colour(colour))
        if position.winner is not None:
            return ""
        return " ".join(["resign", *self._texts(position, self.game.legal_action_mask(position.x))])

    def time_left(self, colour: str | None = None, seconds: str | None = None, stones: str = "0") -> str:
        """Shows or sets a player's clock; it runs during `genmove`, but agents do not play by it."""
        _whole_number("the number of stones", stones)  # the protocol has them for Go's overtime
        if colour is None:
            black, white = self._seconds_left
            return f"Black: {black:g}, White: {white:g}"
        if seconds is None:
            return f"{self._seconds_left[_colour(colour)]:g}"
        self._seconds_left[_colour(colour)] = _seconds("the time", seconds)
        return ""

    def final_score(self) -> str:
        """Who has won."""
        winner = self._winner
        return "cannot score" if winner is None else f"{'BW'[winner]}+"

    def name(self) -> str:
        """The server's name."""
        return f"azjax {self._agent.name}"

    def version(self) -> str:
        """The server's version."""
        return importlib.metadata.version("azjax")

    def protocol_version(self) -> str:
        """The protocol's version."""
        return "2"

    def list_commands(self) -> str:
        """All commands."""
        return "\n".join(COMMANDS)

    def known_command(self, name: str) -> str:
        """Whether there is such a command."""
        return "true" if name in COMMANDS else "false"

    def analyze_commands(self) -> str:
        """The commands that HexGui offers in its menu."""
        return "\n".join(
            [
                "string/Show Board/showboard",
                "string/Final Score/final_score",
                "plist/All Legal Moves/all_legal_moves %c",
                "string/Solve Position/dfpn-solve-state %c",
                "plist/Winning Moves/dfpn-solver-find-winning %c",
                "param/Rules and Clock/param_game",
                "param/Solver in Play/param_mohex",
                "param/Solver/param_dfpn",
            ]
        )

    def quit(self) -> None:
        """Ends the session."""
        self.finished = True

    def param_game(self, key: str | None = None, value: str = "") -> str:
        """`allow_swap 0` or `1` and `game_time seconds`, on an empty board."""
        settings = {"allow_swap": self.game.swap, "game_time": self._game_seconds}
        if key is None:
            return _parameters(settings)
        _known(key, settings)
        if len(self._positions) > 1 or self._now.x.board.any():
            raise GtpError("cannot change the rules during a game; clear the board first")
        if key == "game_time":
            self._game_seconds = _seconds(key, value)
            self._clear()
        else:
            self._become(self.game.size, _flag(key, value))
        return ""

    def param_mohex(self, key: str | None = None, value: str = "") -> str:
        """`use_parallel_solver 1` plays proven winning moves, where the solver finds one in time."""
        settings = {"use_parallel_solver": self._solve_before_moving}
        if key is None:
            return _parameters(settings)
        _known(key, settings)
        self._solve_before_moving = _flag(key, value)
        return ""

    def param_dfpn(self, key: str | None = None, value: str = "") -> str:
        """`threads k` and `timelimit seconds` of the solver."""
        if key is None:
            return _parameters(self._solver_settings)
        _known(key, self._solver_settings)
        number = _whole_number(key, value) if key == "threads" else _seconds(key, value)
        if number == 0:
            raise GtpError(f"syntax error: {key} must be above 0, not {_short(value)}")
        if key == "threads" and number > MOST_THREADS:
            raise GtpError(f"syntax error: threads must be at most {MOST_THREADS:,}, not {_short(value)}")
        self._solver_settings[key] = number
        if self._solver is not None:
            self._solver.close()
            self._solver = None
        return ""

    def solve_state(self, colour: str | None = None) -> str:
        """Who wins the position, if it is that player's turn."""
        position = self._now if colour is None else self._now.to_move(_colour(colour))
        winner = self._winner
        if winner is None:
            player = self._solve(lambda solver, x: solver.winner(x), position.x)
            winner = None if player is None else position.colour(player)
        return "unknown" if winner is None else COLOUR_NAMES[winner]

    def find_winning(self, colour: str) -> str:
        """All winning moves of a player."""
        position = self._now.to_move(_colour(colour))
        return "" if position.winner is not None else " ".join(self._winning_moves(position))

    def _winning_moves(self, position: SeenBoard) -> list[str]:
        moves = self._solve(lambda solver, x: solver.winning_moves(x), position.x)
        return self._texts(position, moves.result > 0)

    def _solve(self, question: Callable, x: HexState):
        try:
            self.game.from_notation(self.game.to_notation(x))  # the solver assumes that turns alternate
            if self._solver is None:
                threads, seconds = self._solver_settings.values()
                self._solver = hex_solver.make_solver(self.game, processes=threads, seconds=seconds)
        except (GameError, ValueError) as error:
            raise GtpError(f"cannot solve: {error}") from error
        return question(self._solver, x)

    def _shown(self, position: SeenBoard) -> HexState:
        """The board as the protocol has it."""
        x = position.x
        if not position.mirrored:
            return x
        return HexState(
            -x.board[self.game.action_frames[1][: self.game.size**2]], 1 - x.current_player, x.over
        )

    def _after(self, position: SeenBoard, colour: int, move: str) -> SeenBoard:
        """The position after a move; raises GtpError if it is illegal."""
        position = position.to_move(colour)
        try:
            if position.mirrored and move.lower() == SWAP_TEXT:
                raise MoveError("White has swapped already")
            action = self.game.text_to_action(_short(move), self._shown(position))
        except MoveError as error:
            raise GtpError(f"illegal move: {error}") from error
        x = _step(self.game)(position.x, self.game.action_frames[int(position.mirrored)][action])
        return SeenBoard(x, position.mirrored or action == self.game.size**2)

    def _text(self, position: SeenBoard, action: int) -> str:
        return self.game.action_to_text(self.game.action_frames[int(position.mirrored)][action])

    def _texts(self, position: SeenBoard, mask: np.ndarray) -> list[str]:
        """The moves where the mask is True: the swap, then the cells row by row."""
        shown = np.flatnonzero(np.asarray(mask)[self.game.action_frames[int(position.mirrored)]])
        return sorted(map(self.game.action_to_text, shown), key=lambda text: text != SWAP_TEXT)


class Command(NamedTuple):
    """How a command is called."""

    run: Callable[..., str | None]
    usage: str = ""
    counts: Container[int] = (0,)  # how many arguments there may be


COMMANDS = {
    "boardsize": Command(Server.boardsize, "n", (1, 2)),
    "clear_board": Command(Server.clear_board),
    "showboard": Command(Server.showboard),
    "play": Command(Server.play, "player move", (2,)),
    "play-game": Command(Server.play_game, "[move ...]", range(1000)),
    "genmove": Command(Server.genmove, "player", (1,)),
    "reg_genmove": Command(Server.reg_genmove, "player", (1,)),
    "undo": Command(Server.undo),
    "loadsgf": Command(Server.load_sgf, "file [moves]", (1, 2)),
    "all_legal_moves": Command(Server.all_legal_moves, "[player]", (0, 1)),
    "time_left": Command(Server.time_left, "[player [seconds [stones]]]", (0, 1, 2, 3)),
    "final_score": Command(Server.final_score),
    "name": Command(Server.name),
    "version": Command(Server.version),
    "protocol_version": Command(Server.protocol_version),
    "list_commands": Command(Server.list_commands),
    "known_command": Command(Server.known_command, "name", (1,)),
    "hexgui-analyze_commands": Command(Server.analyze_commands),
    "quit": Command(Server.quit),
    "param_game": Command(Server.param_game, "[key value]", (0, 2)),
    "param_mohex": Command(Server.param_mohex, "[key value]", (0, 2)),
    "param_dfpn": Command(Server.param_dfpn, "[key value]", (0, 2)),
    "dfpn-solve-state": Command(Server.solve_state, "[player]", (0, 1)),
    "dfpn-solver-find-winning": Command(Server.find_winning, "player", (1,)),
}


def serve(server: Server, commands: TextIO, answers: TextIO) -> None:
    """Answers line by line until `quit` or the end of the commands, and closes the server."""
    try:
        while not server.finished and (line := commands.readline(LONGEST_LINE)):
            rest = line
            while len(rest) == LONGEST_LINE and not rest.endswith(
                "\n"
            ):  # the end of too long a line is not kept
                rest = commands.readline(LONGEST_LINE)
            answers.write(server.answer(line))
            answers.flush()
    finally:
        server.close()


@functools.cache
def _step(game: Hex):
    return jax.jit(game.step)


def _words(line: str) -> list[str]:
    """The words of a line without comment and control characters; quotation marks hold a word together."""
    line = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", line.replace("\t", " "))
    words = re.findall(r'"[^"]*"|\S+', line.partition("#")[0])
    return [word[1:-1] if re.fullmatch('".*"', word) else word for word in words]


def _short(word: str) -> str:
    """A word as a sentence can repeat it."""
    return word if len(word) <= 60 else word[:60] + "..."


def _read_game(path: str) -> records.GameRecord:
    """The first game of an SGF file."""
    try:
        if not os.path.isfile(path):
            raise GtpError(f"cannot load: there is no file {_short(path)}")
        if os.path.getsize(path) > LARGEST_FILE:
            raise GtpError(f"cannot load: {_short(path)} has more than {LARGEST_FILE:,} bytes")
        games = records.from_sgf(pathlib.Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        raise GtpError(f"cannot load {_short(path)}: {error}") from error
    if not games:
        raise GtpError(f"cannot load: there is no game in {_short(path)}")
    return games[0]


def _parameters(settings: dict[str, bool | float]) -> str:
    """Settings as HexGui can edit them."""
    kinds = ((f"[{'bool' if isinstance(value, bool) else 'string'}]", value) for value in settings.values())
    return "".join(f"\n{kind} {name} {value:g}" for name, (kind, value) in zip(settings, kinds))


def _known(key: str, settings: dict[str, bool | float]) -> None:
    if key not in settings:
        raise GtpError(f"unknown parameter: {_short(key)}; expected {' or '.join(settings)}")


def _colour(text: str) -> int:
    if text.lower() not in COLOURS:
        raise GtpError(f"syntax error: {_short(text)} is no player; write black or white")
    return COLOURS[text.lower()]


def _flag(key: str, value: str) -> bool:
    if value not in ("0", "1"):
        raise GtpError(f"syntax error: {key} is 0 or 1, not {_short(value)}")
    return value == "1"


def _whole_number(what: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise GtpError(f"syntax error: {what} is a whole number from 0 to 999999999, not {_short(text)}")
    return int(text)


def _seconds(what: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise GtpError(f"syntax error: {what} is a number of seconds from 0 on, not {_short(text)}")
    return number
