"""An external engine that speaks Hex GTP, such as MoHex, as a host agent.

The engine is a process. It is shown every position move by move, so it can play many games at once. If it crashes,
hangs, prints without end or plays no legal move, it forfeits that game with a message, and is started again for the
next; after some such games in a row it is given up.
"""

import atexit
import collections
import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from azjax.common.agent import FORFEIT, RESIGN, Agent, AgentError
from azjax.envs.core import Game, MoveError
from azjax.envs.hex import SWAP_TEXT, Hex, HexState

MOVE_SECONDS = 600.0  # for a move, if nothing else is said
OTHER_SECONDS = 60.0  # for any other answer
FAILURES = 3  # in a row, until an engine is given up
MOST_BYTES = 1 << 24  # printed until an answer is complete
POLL_SECONDS = 0.2  # until it is looked whether an engine has ended
REMEMBERED = 1 << 16  # positions whose moves are remembered in order

# Whatever an engine calls the swap: who owns the first stone changes, and no more than that.
_SWAP_TEXTS = (SWAP_TEXT, "swap-sides", "swap")


class EngineError(Exception):
    """The engine has crashed, does not answer or refuses a command; the message says which."""


class Refusal(EngineError):
    """The engine has answered a command with `?`."""


def make(
    game: Game,
    command: str,
    *,
    timeout: float | None = None,
    commands: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
) -> Agent:
    """An engine as an agent; it is started at once.

    Args:
      game: Hex, of any size the engine plays.
      command: the command line, such as "mohex --quiet".
      timeout: seconds it may take for an answer; default ten minutes for a move, and one for anything else.
      commands: what it is told after each start, such as "param_mohex max_time 5".
      say: receives a message whenever the engine forfeits a game; default stderr.

    Raises:
      AgentError: not Hex, or the engine does not start or does not play this board.
    """
    if not isinstance(game, Hex):
        raise AgentError(f"gtp:{command} plays Hex alone, not {game.name}")
    say = say or (lambda message: print(message, file=sys.stderr, flush=True))
    engine = Engine(game, command, timeout, commands)
    try:
        engine.start()
    except EngineError as error:
        raise AgentError(f"gtp:{command} cannot play: {error}") from error
    failures = 0  # since it last moved

    def act(params: Any, key: jax.Array, states: HexState) -> np.ndarray:
        nonlocal failures
        del params, key
        states = jax.tree.map(np.asarray, states)
        actions = []
        for lane in range(len(states.current_player)):
            if states.over[lane] or failures == FAILURES:
                actions.append(FORFEIT)
                continue
            x = jax.tree.map(lambda leaf, lane=lane: leaf[lane], states)
            try:
                actions.append(engine.move(x))
                failures = 0
            except EngineError as error:
                engine.stop()
                failures += 1
                next_time = (
                    "It is started again for its next move"
                    if failures < FAILURES
                    else f"After {FAILURES} failures in a row it is given up and forfeits all games"
                )
                say(f"gtp:{command} forfeits its game: {error}. {next_time}.")
                actions.append(FORFEIT)
        return np.array(actions, np.int32)

    return Agent(f"gtp:{command}", act, on_host=True, close=engine.close)


class Engine:
    """The engine's process and what stands on its board."""

    def __init__(self, game: Hex, command: str, timeout: float | None = None, commands: Sequence[str] = ()):
        """Prepares an engine that is started later; for the arguments see `make`."""
        self.timeout = timeout
        self._game = game
        self._command = command
        self._commands = commands
        self._process: subprocess.Popen | None = None
        self._moves: list[tuple[int, int]] | None = None  # (cell, player) on its board; None if unknown
        self._orders = collections.OrderedDict[bytes, list[tuple[int, int]]]()  # stones -> in which order

    def start(self) -> None:
        """Starts the process and gives it an empty board; ends it again if it cannot play."""
        try:
            arguments = shlex.split(self._command)
            if not arguments:
                raise EngineError("the command is empty")
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # so that it can be ended together with whatever it starts
            )
        except (OSError, ValueError) as error:
            raise EngineError(f"it does not start ({error})") from error
        atexit.register(self.stop)
        self._unread = bytearray()
        self._last_words = b""
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        self._moves = None
        try:
            self._prepare()
        except EngineError:
            self.stop()
            raise

    def move(self, x: HexState) -> int:
        """The engine's action in a position, or RESIGN."""
        if self._process is None:
            self.start()
        stones = np.sign(x.board).astype(np.int8)
        player = int(x.current_player)
        moves = self._in_order(stones, player)
        self._set_up(moves)
        answer = self.ask(f"genmove {_colour(player)}", MOVE_SECONDS).strip().lower()
        self._moves = None  # as long as it is not known that the answer is a legal move
        if answer == "resign":
            return RESIGN
        try:
            action = self._game.text_to_action(SWAP_TEXT if answer in _SWAP_TEXTS else answer[:60], x)
        except MoveError as error:
            raise EngineError(f"it answered with an illegal move: {error}") from error
        if action < stones.size:
            stones[action] = (1, -1)[player]
            self._moves = [*moves, (action, player)]
            self._orders[stones.tobytes()] = self._moves
            if len(self._orders) > REMEMBERED:
                self._orders.popitem(last=False)
        return action

    def ask(self, command: str, seconds: float = OTHER_SECONDS) -> str:
        """Sends a command; returns the text of its answer.

        Args:
          command: the line.
          seconds: how long the answer may take, unless the engine has a time limit of its own.
        """
        seconds = seconds if self.timeout is None else self.timeout
        deadline = time.monotonic() + seconds
        try:
            self._process.stdin.write(f"{command}\n".encode())
        except OSError as error:
            raise EngineError(self._obituary(command)) from error
        answer: list[str] = []
        left = MOST_BYTES
        while True:
            line = self._read_line(deadline, left)
            if line is None:
                why = f"did not answer {command!r} within {seconds:g} seconds"
                if time.monotonic() < deadline:
                    why = f"printed {MOST_BYTES:,} bytes without an answer to {command!r}"
                raise EngineError(f"it {why}")
            if not line:
                raise EngineError(self._obituary(command))
            left -= len(line)
            line = line.rstrip("\r\n")
            if (
                answer and not line
            ):  # a line of blanks does not end an answer: MoHex writes them within boards
                break
            if answer or re.match(r"[=?]\d*(\s|$)", line):  # what stands before is a banner, or for a GUI
                answer.append(line)
        text = "\n".join([re.sub(r"^[=?]\d*", "", answer[0]), *answer[1:]]).strip()
        if answer[0][0] == "?":
            raise Refusal(f"it refused {command!r}: {' '.join(text.split())[:200]}")
        return text

    def stop(self) -> None:
        """Ends the process and all that it has started, whatever they do."""
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.stop)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended already
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        self._listener.join(timeout=1)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not process.stderr or not self._listener.is_alive():
                stream.close()

    def close(self) -> None:
        """Asks the engine to quit, and ends it."""
        if self._process is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it is ended anyway
                self._process.stdin.write(b"quit\n")
                self._process.wait(timeout=2)
            self.stop()

    def _prepare(self) -> None:
        try:
            known = self.ask("list_commands").split()
        except Refusal:
            known = []
        for command in self._commands:
            self.ask(command)
        if "param_game" in known:
            self.ask(f"param_game allow_swap {int(self._game.swap)}")
        self.ask(f"boardsize {self._game.size}")

    def _set_up(self, moves: list[tuple[int, int]]) -> None:
        """Plays these moves on the engine's board; only what is new, if they follow from the last."""
        if self._moves is None or self._moves != moves[: len(self._moves)]:
            self.ask("clear_board")
            self._moves = []
        for cell, player in moves[len(self._moves) :]:
            self.ask(f"play {_colour(player)} {self._game.action_to_text(cell)}")
        self._moves = moves

    def _in_order(self, stones: np.ndarray, player: int) -> list[tuple[int, int]]:
        """The stones as they were played, as far as the game has been seen here; else in turn.

        Args:
          stones: [cells] int8, 1 for Black and -1 for White.
          player: who is to move.
        """
        theirs = np.flatnonzero(stones == (-1, 1)[player])
        for cell in theirs:
            before = stones.copy()
            before[cell] = 0
            if before.tobytes() in self._orders:
                return [*self._orders[before.tobytes()], (int(cell), 1 - player)]
        waiting = {player: list(np.flatnonzero(stones == (1, -1)[player])), 1 - player: list(theirs)}
        backwards, mover = [], 1 - player
        while waiting[0] or waiting[1]:
            mover = mover if waiting[mover] else 1 - mover
            backwards.append((int(waiting[mover].pop()), mover))
            mover = 1 - mover
        return backwards[::-1]

    def _read_line(self, deadline: float, most: int) -> str | None:
        """A line of the engine's; None if none is complete in time, nothing if there will be no more."""
        searched = 0
        output = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while (end := self._unread.find(b"\n", searched)) < 0:
                searched = len(self._unread)
                seconds = deadline - time.monotonic()
                if searched >= most or seconds <= 0:
                    return None
                # What an engine has started may hold its output open when it has ended itself.
                has_ended = self._process.poll() is not None
                if not selector.select(0 if has_ended else min(seconds, POLL_SECONDS)):
                    if has_ended:
                        return ""
                    continue
                piece = os.read(output.fileno(), 1 << 16)
                if not piece:
                    return ""
                self._unread += piece
        line = bytes(self._unread[: end + 1])
        del self._unread[: end + 1]
        return line.decode(errors="replace")

    def _obituary(self, command: str) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return f"it closed its output at {command!r} without an answer"
        self._listener.join(timeout=1)
        lines = [line.strip() for line in self._last_words.decode(errors="replace").splitlines()]
        words = " / ".join([line[:200] for line in lines if line][-3:])
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return f"it ended with {how} at {command!r}" + (f", saying: {words}" if words else "")

    def _listen(self, process: subprocess.Popen) -> None:
        """Keeps the end of what the engine says on stderr."""
        while piece := os.read(process.stderr.fileno(), 1 << 12):
            self._last_words = (self._last_words + piece)[-(1 << 12) :]


def _colour(player: int) -> str:
    return ("black", "white")[player]
