"""An agent behind Hex GTP, the text protocol of HexGui and MoHex.

A command is a line, `[id] name [arguments]`; the answer is `=[id] text` or `?[id] what is wrong`, ended by an
empty line. Stones may be put down for either colour at any time, as the protocol has it.
"""

import functools
import math
import re
import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from azjax import __version__
from azjax.agents.core import RESIGN, Agent
from azjax.envs.core import GameError, MoveError
from azjax.envs.hex import SWAP_TEXT, Hex, HexState
from azjax.evaluation.arena import make_mover
from azjax.solvers import hex as hex_solver

COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}
COLOUR_NAMES = ("black", "white")


class GtpError(Exception):
    """What a command answers with `?`."""


class Position(NamedTuple):
    """The board, and who has resigned on it."""

    x: HexState
    resigned: int | None = None  # a player

    @property
    def winner(self) -> int | None:
        """A player, or None while the game goes on."""
        if self.resigned is not None:
            return 1 - self.resigned
        return 1 - int(self.x.current_player) if bool(self.x.over) else None


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
        self._change_game(game)

    def answer(self, line: str) -> str:
        """The whole answer to a line, its closing empty line included; nothing for an empty line or a comment."""
        words = _words(line)
        if not words:
            return ""
        number = words.pop(0) if words[0].isdecimal() else ""
        try:
            text, sign = self._run(words), "="
        except GtpError as error:
            text, sign = str(error), "?"
        except Exception as error:  # one failed command must not end the session
            traceback.print_exc(file=sys.stderr)
            text, sign = f"internal error: {error}", "?"
        text = re.sub(r"\n\s*\n", "\n", text.strip("\n"))  # an empty line would end the answer
        return f"{sign}{number} {text}\n\n" if text else f"{sign}{number}\n\n"

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
            raise GtpError(f"unknown command: {name}")
        command = COMMANDS[name]
        if not command.least <= len(arguments) <= command.most:
            raise GtpError(f"syntax error: usage is {name} {command.usage}".rstrip())
        return command.run(self, *arguments) or ""

    @property
    def _now(self) -> Position:
        return self._positions[-1]

    def _change_game(self, game: Hex) -> None:
        agent = self._make_agent(game)
        self.close()
        self._solver = None
        self.game, self._agent, self._mover = game, agent, make_mover(agent)
        self._clear()

    def _clear(self) -> None:
        self._positions = [Position(self.game.init(jax.random.key(0)))]

    def boardsize(self, width: str, height: str | None = None) -> None:
        """Sets the size and removes all stones."""
        if not width.isdecimal() or (height or width) != width:
            raise GtpError("syntax error: boardsize takes a number, or the same number twice")
        if int(width) == self.game.size:
            self._clear()
            return
        try:
            self._change_game(Hex(size=int(width), swap=self.game.swap))
        except ValueError as error:
            raise GtpError(f"unacceptable size: {error}") from error

    def clear_board(self) -> None:
        """Removes all stones."""
        self._clear()

    def showboard(self) -> str:
        """The position on one line, and the board below it."""
        size, x = self.game.size, self._now.x
        stones = np.sign(np.asarray(x.board)).reshape(size, size)
        letters = "  ".join(chr(ord("a") + column) for column in range(size))
        lines = [self.game.to_notation(x), f"  {letters}"]
        for row in range(size):
            cells = "  ".join(".BW"[stone] for stone in stones[row])
            lines.append(f"{'':{row}}{row + 1}\\{cells}\\{row + 1}")
        return "\n" + "\n".join([*lines, f"{'':{size + 2}}{letters}"])

    def play(self, colour: str, move: str) -> None:
        """Plays a move."""
        player = _player(colour)
        if self._now.winner is not None:
            raise GtpError("illegal move: the game is over")
        x = self._now.x._replace(current_player=jnp.int32(player))
        if move.lower() == "resign":
            self._positions.append(Position(x, resigned=player))
            return
        try:
            action = self.game.text_to_action(move, x)
        except MoveError as error:
            raise GtpError(f"illegal move: {error}") from error
        self._positions.append(Position(_step(self.game)(x, action)))

    def genmove(self, colour: str) -> str:
        """Chooses a move and plays it."""
        move = self.reg_genmove(colour)
        self.play(colour, move)
        return move

    def reg_genmove(self, colour: str) -> str:
        """Chooses a move without playing it."""
        player = _player(colour)
        if self._now.winner is not None:
            raise GtpError("cannot generate a move: the game is over")
        x = self._now.x._replace(current_player=jnp.int32(player))
        proven = self._winning_moves(x) if self._solve_before_moving else []
        if proven:
            return proven[0]
        self._key, key = jax.random.split(self._key)
        action = self._mover(key, x)
        if action == RESIGN:
            return "resign"
        if action < 0:
            raise GtpError("cannot generate a move: the agent has failed")
        return self.game.action_to_text(action)

    def undo(self) -> None:
        """Takes the last move back."""
        if len(self._positions) == 1:
            raise GtpError("cannot undo: no move has been played")
        self._positions.pop()

    def all_legal_moves(self) -> str:
        """All legal moves."""
        if self._now.winner is not None:
            return ""
        legal = np.flatnonzero(self.game.legal_action_mask(self._now.x))
        texts = [self.game.action_to_text(action) for action in legal]
        return " ".join(["resign", *sorted(texts, key=lambda text: text != SWAP_TEXT)])

    def final_score(self) -> str:
        """Who has won."""
        winner = self._now.winner
        if winner is None:
            raise GtpError("cannot score: the game is not over")
        return f"{'BW'[winner]}+"

    def name(self) -> str:
        """The server's name."""
        return f"azjax {self._agent.name}"

    def version(self) -> str:
        """The server's version."""
        return __version__

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
                "plist/All Legal Moves/all_legal_moves",
                "string/Solve Position/dfpn-solve-state",
                "plist/Winning Moves/dfpn-solver-find-winning %c",
            ]
        )

    def quit(self) -> None:
        """Ends the session."""
        self.finished = True

    def param_game(self, key: str, value: str) -> None:
        """`allow_swap 0` or `1`, on an empty board."""
        if key != "allow_swap":
            raise GtpError(f"unknown parameter: {key}; there is allow_swap")
        swap = _flag(key, value)
        if len(self._positions) > 1:
            raise GtpError("cannot change the rules during a game; clear the board first")
        if swap == self.game.swap:
            return
        try:
            self._change_game(Hex(size=self.game.size, swap=swap))
        except ValueError as error:
            raise GtpError(f"unacceptable rules: {error}") from error

    def param_mohex(self, key: str, value: str) -> None:
        """`use_parallel_solver 1` plays proven winning moves, where the solver finds one in time."""
        if key != "use_parallel_solver":
            raise GtpError(f"unknown parameter: {key}; there is use_parallel_solver")
        self._solve_before_moving = _flag(key, value)

    def param_dfpn(self, key: str, value: str) -> None:
        """`threads k` and `timelimit seconds` of the solver."""
        if key not in self._solver_settings:
            raise GtpError(f"unknown parameter: {key}; there are {', '.join(self._solver_settings)}")
        try:
            number = int(value) if key == "threads" else float(value)
        except ValueError as error:
            raise GtpError(f"syntax error: {key} is a number, not {value}") from error
        if not 0 < number < math.inf:
            raise GtpError(f"syntax error: {key} must be above 0, not {value}")
        self._solver_settings[key] = number
        if self._solver is not None:
            self._solver.close()
            self._solver = None

    def solve_state(self) -> str:
        """Who wins the position."""
        winner = self._now.winner
        if winner is None:
            winner = self._solve(lambda solver, x: solver.winner(x), self._now.x)
        return "unknown" if winner is None else COLOUR_NAMES[winner]

    def find_winning(self, colour: str) -> str:
        """All winning moves of a player."""
        if self._now.winner is not None:
            return ""
        return " ".join(self._winning_moves(self._now.x._replace(current_player=jnp.int32(_player(colour)))))

    def _winning_moves(self, x: HexState) -> list[str]:
        result = self._solve(lambda solver, x: solver.winning_moves(x), x).result
        return [self.game.action_to_text(action) for action in np.flatnonzero(result > 0)]

    def _solve(self, question: Callable, x: HexState):
        try:
            self.game.from_notation(self.game.to_notation(x))  # the solver assumes that turns alternate
            if self._solver is None:
                threads, seconds = self._solver_settings.values()
                self._solver = hex_solver.make_solver(self.game, processes=threads, seconds=seconds)
        except (GameError, ValueError) as error:
            raise GtpError(f"cannot solve: {error}") from error
        return question(self._solver, x)


class Command(NamedTuple):
    """How a command is called."""

    run: Callable[..., str | None]
    usage: str = ""
    least: int = 0  # arguments
    most: int = 0


COMMANDS = {
    "boardsize": Command(Server.boardsize, "n", 1, 2),
    "clear_board": Command(Server.clear_board),
    "showboard": Command(Server.showboard),
    "play": Command(Server.play, "player move", 2, 2),
    "genmove": Command(Server.genmove, "player", 1, 1),
    "reg_genmove": Command(Server.reg_genmove, "player", 1, 1),
    "undo": Command(Server.undo),
    "all_legal_moves": Command(Server.all_legal_moves),
    "final_score": Command(Server.final_score),
    "name": Command(Server.name),
    "version": Command(Server.version),
    "protocol_version": Command(Server.protocol_version),
    "list_commands": Command(Server.list_commands),
    "known_command": Command(Server.known_command, "name", 1, 1),
    "hexgui-analyze_commands": Command(Server.analyze_commands),
    "quit": Command(Server.quit),
    "param_game": Command(Server.param_game, "key value", 2, 2),
    "param_mohex": Command(Server.param_mohex, "key value", 2, 2),
    "param_dfpn": Command(Server.param_dfpn, "key value", 2, 2),
    "dfpn-solve-state": Command(Server.solve_state),
    "dfpn-solver-find-winning": Command(Server.find_winning, "player", 1, 1),
}


def serve(server: Server, commands: TextIO, answers: TextIO) -> None:
    """Answers line by line until `quit` or the end of the commands."""
    try:
        for line in commands:
            answers.write(server.answer(line))
            answers.flush()
            if server.finished:
                break
    except BrokenPipeError:
        pass  # whoever asked has gone
    finally:
        server.close()


@functools.cache
def _step(game: Hex):
    return jax.jit(game.step)


def _words(line: str) -> list[str]:
    """The words of a line without comment and control characters, as the protocol wants it."""
    line = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", line.replace("\t", " "))
    return line.partition("#")[0].split()


def _player(colour: str) -> int:
    if colour.lower() not in COLOURS:
        raise GtpError(f"syntax error: {colour} is no player; write black or white")
    return COLOURS[colour.lower()]


def _flag(key: str, value: str) -> bool:
    if value not in ("0", "1"):
        raise GtpError(f"syntax error: {key} is 0 or 1, not {value}")
    return value == "1"
