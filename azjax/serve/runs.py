"""The runs that a server was given: their curves while they grow, their checkpoints, and games they play now.

Only the folders given are read, and only as runs; a client names a run by the name listed here, never by a path.
"""

import functools
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from azjax.agents.trained import load_weights
from azjax.common.checked import is_finite
from azjax.common.rows import names_in, number_in, with_updates
from azjax.envs.core import Game, seen_as
from azjax.evaluation.curve import spread_out
from azjax.learners.es import ESConfig
from azjax.learners.td import TDConfig
from azjax.nn import make_network
from azjax.positions import describe_game, stack
from azjax.serve import boards
from azjax.serve.boards import Line, RequestError
from azjax.training import checkpoint
from azjax.training.config import TrainConfig
from azjax.training.step import make_action_choice, make_exploring_search

MOST_RUNS = 200
_MOST_POINTS = 400  # of a curve
_RECENT = 20  # iterations that tell how long the others will take
_LIVE_SECONDS = 120.0  # since the last line


class Folders:
    """The runs below some folders, by name."""

    def __init__(self, paths: Sequence[str | os.PathLike]):
        """Takes folders of runs, and folders that hold such; raises RunError for one that is neither."""
        self._paths = [pathlib.Path(path) for path in paths]
        for path in self._paths:
            if not path.is_dir():
                raise checkpoint.RunError(f"there is no folder {path}")
        if self._paths and not self.all():
            raise checkpoint.RunError(
                f"{self._paths[0]} holds no run: there is no config.json in it or below it"
            )

    def all(self) -> dict[str, pathlib.Path]:
        """Name -> folder; those that began since are there too."""
        found: dict[str, pathlib.Path] = {}
        for path in self._paths:
            inside = [path] if (path / "config.json").exists() else sorted(path.iterdir())
            for folder in inside:
                is_own = not folder.is_symlink() or folder == path  # a link may lead elsewhere
                if is_own and (folder / "config.json").is_file() and len(found) < MOST_RUNS:
                    name = folder.resolve().name
                    while name in found:
                        name += "'"
                    found[name] = folder
        return found

    def folder(self, name: Any) -> pathlib.Path:
        """The folder of a run; raises RequestError for a name that is not listed."""
        known = self.all()
        if not isinstance(name, str) or name not in known:
            raise RequestError(
                f"there is no run of that name; there are {', '.join(known) or 'none'}", "run", 404
            )
        return known[name]

    def listed(self) -> list[dict[str, Any]]:
        """What is told of every run."""
        return [_about(name, path) for name, path in self.all().items()]

    def of_game(self, game: Game) -> list[str]:
        """The runs that have learned this game, on this board."""
        wanted = seen_as(game)
        found = []
        for name, path in self.all().items():
            config = _config(path)
            if isinstance(config, TrainConfig) and any(
                seen_as(board.game) == wanted for board in config.played
            ):
                found.append(name)
        return found


def _config(path: pathlib.Path) -> Any:
    try:
        return checkpoint.read_config(path, TrainConfig, TDConfig, ESConfig)
    except checkpoint.RunError:
        return None


def _about(name: str, path: pathlib.Path) -> dict[str, Any]:
    config = _config(path)
    if config is None:
        return {"name": name, "damaged": True}
    rows = checkpoint.Run(path, config).read_metrics()
    last = rows[-1] if rows else {}
    iteration = int(last.get("iteration", 0))
    kind = {"TDConfig": "td", "ESConfig": "es"}.get(type(config).__name__, "az")
    told = {
        "name": name,
        "kind": kind,
        "game": describe_game(seen_as(config.game)),
        "iteration": iteration,
        "iterations": config.iterations,
        "positions": _number_or_none(last, "positions"),
        "games": _number_or_none(last, "games"),
        "seconds": _number_or_none(last, "seconds"),
        "left": _seconds_left(rows, config.iterations),
        "live": _is_live(path) and iteration < config.iterations,
        "snapshots": [_snapshot(rows, step) for step in checkpoint.Run(path, config).snapshots],
        "playable": (path / "agent.npz").exists(),
    }
    return checkpoint.finite_or_none(told)


def _snapshot(rows: Sequence[dict[str, Any]], step: int) -> dict[str, Any]:
    row = next((row for row in rows if row["iteration"] == step), {})
    return {"step": step} | {name: _number_or_none(row, name) for name in ("seconds", "positions")}


def _number_or_none(row: dict[str, Any], name: str) -> float | None:
    number = number_in(row, name)
    return number if np.isfinite(number) else None


def _is_live(path: pathlib.Path) -> bool:
    metrics = path / "metrics.jsonl"
    return metrics.exists() and time.time() - metrics.stat().st_mtime < _LIVE_SECONDS


def _seconds_left(rows: Sequence[dict[str, Any]], iterations: int) -> float | None:
    recent = [row for row in rows[-_RECENT:] if np.isfinite(number_in(row, "seconds"))]
    made = recent[-1]["iteration"] - recent[0]["iteration"] if recent else 0
    if made <= 0 or recent[-1]["iteration"] >= iterations:
        return None
    each = (recent[-1]["seconds"] - recent[0]["seconds"]) / made
    return max(0.0, each * (iterations - recent[-1]["iteration"]))


def curves(path: pathlib.Path) -> dict[str, list[list[float]]]:
    """Name -> points of a run's losses, strength and truth: seconds, positions, value and perhaps its interval."""
    config = _config(path)
    rows = [] if config is None else checkpoint.Run(path, config).read_metrics()
    rows = [row for row in rows if np.isfinite(number_in(row, "seconds"))]
    learned = with_updates(rows)
    found: dict[str, list[list[float]]] = {}
    for name in ("policy", "value"):
        found[f"loss/{name}"] = _points(learned, f"loss.{name}")
    found["speed/positions per second"] = _points(rows, "positions_per_second")
    judged = [row for row in rows if isinstance(row.get("evaluation"), dict)]
    for opponent in names_in(judged, "evaluation"):
        points = []
        for row in judged:
            result = row["evaluation"].get(opponent)
            if isinstance(result, dict) and np.isfinite(number_in(result, "score")):
                points.append([*_place(row), result["score"], *_interval(result)])
        found[f"strength/score against {opponent}"] = points
    for name in names_in(judged, "truth"):
        found[f"truth/{name.replace('_', ' ')}"] = _points(judged, ("truth", name))
    return {name: points for name, points in found.items() if points}


def _points(rows: Sequence[dict[str, Any]], name: str | tuple[str, ...]) -> list[list[float]]:
    rows = [row for row in rows if np.isfinite(number_in(row, name))]
    return [[*_place(row), number_in(row, name)] for row in spread_out(rows, _MOST_POINTS)]


def _place(row: dict[str, Any]) -> tuple[float, float]:
    return row["seconds"], _number_or_none(row, "positions") or 0


def _interval(result: dict[str, Any]) -> list[float]:
    ends = result.get("interval")
    ends = ends if isinstance(ends, list) else []
    return ends if all(isinstance(end, int | float) and is_finite(end) for end in ends) else []


def self_play(path: pathlib.Path, seed: int) -> Line:
    """A game that a run plays against itself now, with its newest weights, and the search and noise of its training.

    Without the special openings that training may begin games with.
    """
    config, params = load_weights(path)
    act = _self_player(config)
    line = Line(seen_as(config.game), None, ())
    state, key = boards.state_of(line), jax.random.key(seed)
    while not bool(boards.look(line.game, state).over):
        key, act_key = jax.random.split(key)
        action = int(act(params, act_key, stack([state]), np.array([len(line.moves)], np.int32))[0])
        line = line._replace(moves=(*line.moves, action))
        state = boards.state_of(line)
    return line


@functools.lru_cache(maxsize=8)
def _self_player(config: TrainConfig) -> Any:
    """A compiled (params, key, states [1, ...], plies [1]) -> actions [1]."""
    search = make_exploring_search(config, make_network(config.network, config.game))
    choose = make_action_choice(config)

    def act(params, key, states, plies):
        search_key, choose_key = jax.random.split(key)
        legal = jax.vmap(config.game.legal_action_mask)(states)
        return choose(choose_key[None], search(params, search_key, states), plies, legal)

    return jax.jit(act)
