"""Agents that are shared by all who ask: each is made once, at a desk with one clerk, and requests queue there.

A clerk works through what waits, and takes together what one program can search at once.
"""

import collections
import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

from azjax import agents
from azjax.common.agent import Agent
from azjax.envs.core import Game, GameState
from azjax.evaluation.arena import make_mover
from azjax.serve.boards import RequestError
from azjax.serve.thinking import WIDTHS, Found, Thinker, capacity
from azjax.serve.truth import Oracle

MOST_WAITING = 2000  # requests at a desk
_KEPT_DESKS, _KEPT_FOUND = 12, 4000


class Desk:
    """One agent for one game, and whoever waits for it."""

    def __init__(self, game: Game, text: str, shown: str):
        self.game, self.text, self.shown = game, text, shown
        self.state = "idle"  # for people: idle, thinking, compiling, preparing
        self._waiting: collections.deque[tuple[Any, Callable, concurrent.futures.Future]] = (
            collections.deque()
        )
        self._wake = threading.Condition()
        self._closed = False
        self._found: collections.OrderedDict[Any, Found] = collections.OrderedDict()
        self._agent: Agent | None = None
        self._moved = False
        self._clerk = threading.Thread(target=self._work, name=f"azjax {text}", daemon=True)
        self._clerk.start()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @functools.cached_property
    def thinker(self) -> Thinker:
        """The agent's network and search; made by the clerk. Raises AgentError if there are none."""
        return Thinker(self.game, self.text)

    def submit(self, work: Callable[[], Any]) -> concurrent.futures.Future:
        """Has the clerk call a function; raises RequestError if too many wait already."""
        return self._queue(None, work)

    def search(
        self, state: GameState, line: Any, simulations: int, step: int | None
    ) -> concurrent.futures.Future:
        """A search of a position, together with others of the same length that wait."""
        known = (line, simulations, step)
        if (found := self._found.get(known)) is not None:
            done: concurrent.futures.Future = concurrent.futures.Future()
            done.set_result(found)
            return done
        return self._queue((simulations, step, known), lambda: state)

    def move(self, state: GameState, seed: int) -> int:
        """The agent's own move, as in a match; called by the clerk."""
        if self._agent is None:
            self.state = "preparing"
            self._agent = agents.make_agent(self.text, self.game, progress=self._tell)
            self._mover = make_mover(self._agent)
        self.state = "thinking" if self._moved else "compiling"
        action = self._mover(jax.random.key(seed), state)
        self._moved = True
        return action

    def close(self) -> None:
        """Sends whoever waits away, and closes the agent."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _tell(self, done: int, total: int) -> None:
        self.state = f"preparing, {100 * done // max(total, 1)} %"

    def _queue(self, kind: Any, work: Callable) -> concurrent.futures.Future:
        task: concurrent.futures.Future = concurrent.futures.Future()
        with self._wake:
            if self._closed or len(self._waiting) >= MOST_WAITING:
                raise RequestError(f"too many wait for {self.shown}; ask again later", None, 503)
            self._waiting.append((kind, work, task))
            self._wake.notify()
        return task

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._closed:
                    self._wake.wait()
                if self._closed:
                    break
                jobs = [self._waiting.popleft()]
                if jobs[0][0] is not None and jobs[0][0][0] <= capacity(self.game, WIDTHS[-1]):
                    alike = [job for job in self._waiting if job[0] and job[0][:2] == jobs[0][0][:2]]
                    for job in alike[: WIDTHS[-1] - 1]:
                        self._waiting.remove(job)
                        jobs.append(job)
            self._do(jobs)
            self.state = "idle"
        for _, _, task in self._waiting:
            task.cancel()
        if self._agent is not None:
            self._agent.close()

    def _do(self, jobs: list[tuple[Any, Callable, concurrent.futures.Future]]) -> None:
        jobs = [job for job in jobs if job[2].set_running_or_notify_cancel()]
        if not jobs:
            return
        try:
            kind = jobs[0][0]
            if kind is None:
                self.state = "thinking"
                jobs[0][2].set_result(jobs[0][1]())
                return
            width = WIDTHS[0] if len(jobs) == 1 else WIDTHS[-1]
            self.state = (
                "compiling"
                if "thinker" not in vars(self) or width not in self.thinker.compiled
                else "thinking"
            )
            found = self.thinker.search([work() for _, work, _ in jobs], kind[0], step=kind[1])
            for (kind, _, task), one in zip(jobs, found):
                self._found[kind[2]] = one
                while len(self._found) > _KEPT_FOUND:
                    self._found.popitem(last=False)
                task.set_result(one)
        except BaseException as error:
            for _, _, task in jobs:
                if not task.done():
                    task.set_exception(error)


class Office:
    """All desks and oracles of a server."""

    def __init__(self, allowed: Callable[[str], str] = lambda text: text):
        """Opens none yet.

        Args:
          allowed: (an agent's text) -> the text to make it by; raises RequestError for one that must not be made.
        """
        self._allowed = allowed
        self._desks: collections.OrderedDict[tuple[Game, str], Desk] = collections.OrderedDict()
        self._oracles: dict[Game, Oracle] = {}
        self._lock = threading.Lock()
        self.began = time.time()

    def desk(self, game: Game, text: Any) -> Desk:
        """The desk of an agent; of those that were not asked for long, idle ones are closed for it."""
        if not isinstance(text, str) or len(text) > 500:
            raise RequestError("agent must be a text such as uct:200", "agent")
        shown, text = text, self._allowed(text)
        with self._lock:
            desk = self._desks.get((game, text))
            if desk is None:
                self._make_room()
                desk = self._desks[game, text] = Desk(game, text, shown)
            self._desks.move_to_end((game, text))
            return desk

    def oracle(self, game: Game) -> Oracle:
        """The truth about a game."""
        with self._lock:
            if game not in self._oracles:
                if len(self._oracles) >= _KEPT_DESKS:
                    self._oracles.pop(next(iter(self._oracles))).close()
                self._oracles[game] = Oracle(game)
            return self._oracles[game]

    def status(self) -> list[dict[str, Any]]:
        """What everybody is doing."""
        return [
            {"agent": desk.shown, "state": desk.state, "waiting": desk.waiting}
            for desk in list(self._desks.values())
        ]

    def close(self) -> None:
        """Closes everything."""
        for desk in self._desks.values():
            desk.close()
        for oracle in self._oracles.values():
            oracle.close()

    def _make_room(self) -> None:
        idle = [key for key, desk in self._desks.items() if desk.state == "idle" and not desk.waiting]
        while len(self._desks) >= _KEPT_DESKS:
            if not idle:
                raise RequestError("too many agents are at work; ask again later", None, 503)
            self._desks.pop(idle.pop(0)).close()
