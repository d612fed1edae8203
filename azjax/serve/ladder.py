"""Opponents of every strength, from random play to the strongest agent, with ratings from games between them.

The rungs meet in a ladder of the tournament module; its results are kept, so that a calibration that was stopped goes
on where it was, and is there the next time. Ratings are Elo points above the weakest rung.
"""

import hashlib
import json
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from azjax import agents
from azjax.common import cache
from azjax.envs.core import Game
from azjax.evaluation import tournament
from azjax.evaluation.ratings import RatingError, bayesian_elo
from azjax.positions import describe_game
from azjax.solvers.tables import has_table

PAIRS = 16  # games with both colours in a match
RANDOM_PLIES = 2  # so that games differ
_PLAYOUTS = (4, 16, 64, 256)


class Ladder:
    """The rungs of one game, and what is known of their strength."""

    def __init__(self, game: Game, runs: Sequence[str], resolve: Callable[[str], str]):
        """Reads what an earlier calibration has found.

        Args:
          game: what is played.
          runs: the names of those that have learned it.
          resolve: (the text of an agent with a run's name) -> the text with its folder.
        """
        self.game = game
        # Expected to be stronger one after the other; what they are, the games tell.
        self.rungs = ["random", *(f"uct:{playouts}" for playouts in _PLAYOUTS)]
        for run in runs[:2]:
            self.rungs += [f"net:{run}?sampled=1", f"net:{run}", f"az:{run}?sims=16", f"az:{run}?sims=64"]
        if has_table(game):
            self.rungs.append("perfect")
        self._resolve = resolve
        self._settings = {"pairs": PAIRS, "random_plies": RANDOM_PLIES, "seed": 0}
        self._results: tournament.Results | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.progress, self.trouble = "", ""

    def told(self) -> dict[str, Any]:
        """The rungs, the weakest first, and how the calibration stands."""
        ratings = self._ratings()
        floor = min((rating["elo"] for rating in ratings.values()), default=0.0)
        rungs = [{"agent": text} | ratings.get(text, {}) for text in self.rungs]
        for rung in rungs:
            if "elo" in rung:
                rung["elo"] = round(rung["elo"] - floor)
        rungs.sort(key=lambda rung: rung.get("elo", float("inf")))
        running = self._thread is not None and self._thread.is_alive()
        return {"rungs": rungs, "calibrating": running, "progress": self.progress, "trouble": self.trouble}

    def calibrate(self) -> None:
        """Begins to play the games that are missing, aside."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self.trouble = ""
            self._thread = threading.Thread(target=self._play, name="azjax ladder", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends a calibration after what it is doing."""
        self._stop.set()

    def _open(self) -> tournament.Results:
        if self._results is None:
            self._results = tournament.Results(self._path(), self.game, self._settings)
        return self._results

    def _path(self) -> pathlib.Path:
        # Of the same name may be different runs: the folders are part of what is kept.
        about = [describe_game(self.game), [self._resolve(text) for text in self.rungs]]
        digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
        return cache.folder() / "ladders" / f"{self.game.name}-{digest}.jsonl"

    def _ratings(self) -> dict[str, dict[str, Any]]:
        try:
            if self._results is None and not self._path().exists():
                return {}
            rated = bayesian_elo(self._open().scores())
        except (RatingError, tournament.TournamentError, OSError):
            return {}
        return {
            rating.name: {
                "elo": rating.elo,
                "plus": round(rating.plus),
                "minus": round(rating.minus),
                "games": rating.games,
            }
            for rating in rated
        }

    def _play(self) -> None:
        made = {}
        try:
            for text in reversed(self.rungs):  # the strongest first: whoever comes then seldom climbs far
                self.progress = f"preparing {text}"
                made[text] = agents.make_agent(self._resolve(text), self.game)
            self._path().parent.mkdir(parents=True, exist_ok=True)
            tournament.play(
                self._open(),
                self.game,
                made,
                kind="ladder",
                pairs=PAIRS,
                random_plies=RANDOM_PLIES,
                seed=0,
                progress=self._tell,
            )
            self.progress = ""
        except _Stopped:
            pass
        except (ValueError, OSError) as error:
            self.trouble = str(error)
        finally:
            for agent in made.values():
                agent.close()

    def _tell(self, what: str, done: int, total: int) -> None:
        self.progress = f"{what}, {done} of {total}"
        if self._stop.is_set():
            raise _Stopped


class _Stopped(Exception):
    """The server is closed."""
