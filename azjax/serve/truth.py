"""The solver beside the board: verdicts on every move, found aside and within a time, unknown until then.

Where the whole game is in a table, a verdict is a look-up. Elsewhere positions are searched by a process of its own, so
that a hard one keeps nobody waiting: it is asked once, answers when it can, and says of the rest that it is unknown.
"""

import collections
import concurrent.futures
import functools
import multiprocessing
import os
import threading
from typing import Any

import jax
import numpy as np

from azjax import positions
from azjax.envs.core import Game, GameState, without_past
from azjax.serve import boards
from azjax.serve.boards import Line
from azjax.solvers import TooLargeError, has_solver, room_of
from azjax.solvers.tables import Truth, has_table, truth_of

SECONDS = 5.0  # that a position may take, unless asked for otherwise
MOST_SECONDS = 120.0
_KEPT = 5000  # verdicts
_MOST_WAITING = 200  # questions

Verdict = dict[str, Any]
"""status: "known" (every move that matters is proven), "partly", "pending", or "none" (there is no solver, `why` says
so); value: of the position for the player to move, or None; moves: by action, `low` and `high`, equal where proven, and
`plies` to the end or the final `margin` where known."""


class Oracle:
    """The truth about the positions of one game."""

    def __init__(self, game: Game):
        self.game = game
        self.why: str | None = None  # why there is no truth
        self.progress = ""  # of a table that is being solved
        self._verdicts: collections.OrderedDict[tuple[Line, float], Verdict] = collections.OrderedDict()
        self._waiting: dict[tuple[Line, float], concurrent.futures.Future] = {}
        self._lock = threading.Lock()
        self._truth: Truth | None = None
        self._look_up = None
        self._pool: concurrent.futures.Executor | None = None
        if not has_solver(game):
            self.why = f"there is no solver for {game.name}"
            return
        try:
            if has_table(game):
                self._pool = concurrent.futures.ThreadPoolExecutor(1, "azjax-truth")
                room_of(game).estimate(game)
            else:
                room_of(game).searching_solver(game, SECONDS)  # says whether the board is too large
                self._pool = concurrent.futures.ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), initializer=_be_nice
                )
        except TooLargeError as error:
            self.why = str(error)

    def ask(self, line: Line, seconds: float = SECONDS) -> Verdict:
        """The verdict on a position if it is known by now; else it is being looked for."""
        if self.why is not None or self._pool is None:
            return {"status": "none", "why": self.why}
        known = (line, seconds)
        with self._lock:
            if known in self._verdicts:
                return self._verdicts[known]
            task = self._waiting.get(known)
            if task is None:
                if len(self._waiting) >= _MOST_WAITING:
                    raise boards.RequestError(
                        "too many positions wait for the solver; ask again later", None, 503
                    )
                state = boards.state_of(line)
                if has_table(self.game):
                    task = self._pool.submit(self._by_table, state)
                else:
                    task = self._pool.submit(_by_search, self.game, state, seconds)
                self._waiting[known] = task
        if not task.done():
            return {"status": "pending", "progress": self.progress}
        with self._lock:
            self._waiting.pop(known, None)
        try:
            verdict = task.result()
        except TooLargeError as error:
            self.why = str(error)
            return {"status": "none", "why": self.why}
        with self._lock:
            self._verdicts[known] = verdict
            while len(self._verdicts) > _KEPT:
                self._verdicts.popitem(last=False)
        return verdict

    def wait(self, line: Line, seconds: float = SECONDS) -> Verdict:
        """The verdict, however long it takes; for the protocol on standard input."""
        while (verdict := self.ask(line, seconds))["status"] == "pending":
            task = self._waiting.get((line, seconds))
            if task is not None:
                concurrent.futures.wait([task])
        return verdict

    def close(self) -> None:
        """Ends what looks for verdicts, also in the middle of one."""
        if isinstance(self._pool, concurrent.futures.ProcessPoolExecutor):
            for process in list((self._pool._processes or {}).values()):  # a search is not to be waited for
                process.terminate()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _by_table(self, state: GameState) -> Verdict:
        if self._truth is None:
            self._truth = truth_of(self.game, progress=self._tell)
            truth = self._truth
            self._look_up = jax.jit(
                lambda tables, x: (
                    truth.values(tables, truth.forget(x)),
                    truth.merits(tables, truth.forget(x)),
                )
            )
            self.progress = ""
        values, merits = jax.device_get(self._look_up(self._truth.tables, state))
        legal = boards.look(self.game, state).legal
        plies = self._truth.plies(merits) if self._truth.plies is not None else None
        moves = {}
        for action in np.flatnonzero(legal).tolist():
            value = float(values[action])
            moves[action] = {"low": value, "high": value}
            if plies is not None and np.isfinite(plies[action]):
                moves[action]["plies"] = int(plies[action])
            elif plies is None and self._truth.knows_speed:
                moves[action]["margin"] = int(merits[action])
        return _verdict(moves)

    def _tell(self, done: int, total: int) -> None:
        self.progress = f"solving the game: {100 * done // max(total, 1)} %"


def _verdict(moves: dict[int, dict[str, Any]]) -> Verdict:
    """What follows for the position from what is known of its moves."""
    if not moves:
        return {"status": "known", "value": None, "moves": {}}
    low, high = (max(move[bound] for move in moves.values()) for bound in ("low", "high"))
    status = "known" if all(move["low"] == move["high"] for move in moves.values()) else "partly"
    return {"status": status, "value": low if low == high else None, "moves": moves}


def _be_nice() -> None:
    os.nice(5)  # whoever plays comes first


@functools.lru_cache(maxsize=4)
def _solver(game: Game, seconds: float) -> Any:
    return room_of(game).searching_solver(game, seconds)


def _by_search(game: Game, state: GameState, seconds: float) -> Verdict:
    # In a process of its own: compiled searches hold on to the interpreter.
    solver, states = _solver(without_past(game), seconds), positions.stack([state])
    low, high = solver.move_outcomes(states)
    legal = np.flatnonzero(np.isfinite(low[0])).tolist()
    moves = {action: {"low": float(low[0][action]), "high": float(high[0][action])} for action in legal}
    if hasattr(solver, "move_plies") and np.array_equal(low, high, equal_nan=True):  # else no time is left
        plies = solver.move_plies(states)[0]
        for action in np.flatnonzero(np.isfinite(plies)).tolist():
            moves[action]["plies"] = int(plies[action])
    return _verdict(moves)
