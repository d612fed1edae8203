"""An external engine that speaks Hex GTP, such as MoHex, as a host agent.

The engine is a process. It is shown every position by its stones, so it can play many games at once. If it crashes,
hangs or plays no legal move, it forfeits that game with a message, and is started again for the next.
"""

import collections
import queue
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from azjax.agents.core import FORFEIT, RESIGN, Agent, AgentError
from azjax.envs.core import Game, MoveError
from azjax.envs.hex import SWAP_TEXT, Hex, HexState


class EngineError(Exception):
    """The engine has crashed, does not answer or refuses a command; the message says which."""


def make(
    game: Game, command: str, *, timeout: float = 600.0, say: Callable[[str], None] | None = None
) -> Agent:
    """An engine as an agent; it is started at once.

    Args:
      game: Hex, of any size the engine plays.
      command: the command line, such as "mohex --quiet".
      timeout: seconds it may take for an answer.
      say: receives a message whenever the engine forfeits a game; default stderr.

    Raises:
      AgentError: not Hex, or the engine does not start or does not play this board.
    """
    if not isinstance(game, Hex):
        raise AgentError(f"gtp:{command} plays Hex alone, not {game.name}")
    say = say or (lambda message: print(message, file=sys.stderr, flush=True))
    engine = Engine(game, command, timeout)
    try:
        engine.start()
    except EngineError as error:
        engine.stop()
        raise AgentError(f"gtp:{command} cannot play: {error}") from error

    def act(params: Any, key: jax.Array, states: HexState) -> np.ndarray:
        del params, key
        states = jax.tree.map(np.asarray, states)
        actions = []
        for lane in range(len(states.current_player)):
            x = jax.tree.map(lambda leaf, lane=lane: leaf[lane], states)
            try:
                actions.append(engine.move(x))
            except EngineError as error:
                say(f"gtp:{command} forfeits its game: {error}. It is started again for its next move.")
                engine.stop()
                actions.append(FORFEIT)
        return np.array(actions, np.int32)

    return Agent(f"gtp:{command}", act, on_host=True, close=engine.close)


class Engine:
    """The engine's process and what stands on its board."""

    def __init__(self, game: Hex, command: str, timeout: float):
        self._game = game
        self._command = command
        self.timeout = timeout  # seconds an answer may take
        self._process: subprocess.Popen | None = None
        self._stones: dict[int, int] | None = None  # cell -> player; None if unknown

    def start(self) -> None:
        """Starts the process and gives it an empty board."""
        try:
            arguments = shlex.split(self._command)
            if not arguments:
                raise EngineError("the command is empty")
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError) as error:
            raise EngineError(f"it does not start ({error})") from error
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._last_words: collections.deque[str] = collections.deque(maxlen=3)
        self._readers = [
            threading.Thread(target=self._read_answers, args=(self._process,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        known = self.ask("list_commands").split()
        if "param_game" in known:
            self.ask(f"param_game allow_swap {int(self._game.swap)}")
        self.ask(f"boardsize {self._game.size}")
        self._stones = None

    def move(self, x: HexState) -> int:
        """The engine's action in a position, or RESIGN."""
        if self._process is None:
            self.start()
        self._set_up(x)
        answer = self.ask(f"genmove {_colour(int(x.current_player))}").strip().lower()
        if answer == "resign":
            self._stones = None
            return RESIGN
        try:
            action = self._game.text_to_action(answer, x)
        except MoveError as error:
            raise EngineError(f"it answered with an illegal move: {error}") from error
        if answer == SWAP_TEXT:
            self._stones = None
        else:
            self._stones[action] = int(x.current_player)
        return action

    def ask(self, command: str) -> str:
        """Sends a command; returns the text of its answer."""
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise EngineError(self._obituary(command)) from error
        answer: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=self.timeout)
            except queue.Empty:
                raise EngineError(f"it did not answer {command!r} within {self.timeout:g} seconds") from None
            if line is None:
                raise EngineError(self._obituary(command))
            if answer and not line.strip():
                break
            if answer or line[:1] in ("=", "?"):
                answer.append(line.rstrip("\n"))
        text = "\n".join([answer[0][1:].strip(), *answer[1:]])
        if answer[0][0] == "?":
            raise EngineError(f"it refused {command!r}: {text}")
        return text

    def stop(self) -> None:
        """Ends the process, whatever it does."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for reader in self._readers if hasattr(self, "_readers") else ():
            reader.join(timeout=5)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                stream.close()
            except OSError:
                pass  # what was still to be written has nowhere to go
        self._process = None

    def close(self) -> None:
        """Asks the engine to quit, and ends it."""
        if self._process is not None:
            try:
                self._process.stdin.write("quit\n")
                self._process.stdin.flush()
                self._process.wait(timeout=2)
            except (OSError, subprocess.TimeoutExpired):
                pass  # it is ended anyway
            self.stop()

    def _set_up(self, x: HexState) -> None:
        """Puts the position's stones on the engine's board; only what is new, if it follows from the last."""
        wanted = {int(cell): int(x.board[cell] < 0) for cell in np.flatnonzero(x.board)}
        if self._stones is None or not self._stones.items() <= wanted.items():
            self.ask("clear_board")
            self._stones = {}
        new = {cell: player for cell, player in wanted.items() if cell not in self._stones}
        for cell, player in _in_turn(new):
            self.ask(f"play {_colour(player)} {self._game.action_to_text(cell)}")
            self._stones[cell] = player

    def _obituary(self, command: str) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f"it closed its output at {command!r} without an answer"
        self._readers[1].join(timeout=5)
        words = " / ".join(self._last_words)
        return f"it ended with exit code {code} at {command!r}" + (f", saying: {words}" if words else "")

    def _read_answers(self, process: subprocess.Popen) -> None:
        lines = self._lines
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def _read_errors(self, process: subprocess.Popen) -> None:
        words = self._last_words
        for line in process.stderr:
            if line.strip():
                words.append(line.strip())


def _colour(player: int) -> str:
    return ("black", "white")[player]


def _in_turn(stones: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The stones, black and white in turn as long as there are both."""
    waiting = [[cell for cell, owner in stones.items() if owner == player] for player in (0, 1)]
    player = 0 if len(waiting[0]) >= len(waiting[1]) else 1
    while waiting[0] or waiting[1]:
        if not waiting[player]:
            player = 1 - player
        yield waiting[player].pop(0), player
        player = 1 - player
