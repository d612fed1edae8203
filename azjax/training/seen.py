"""Everything a run has ever played: a log on disk of (position, outcome, iteration), appended iteration by iteration.

    runs/NAME/seen/positions.bin    a fixed number of bytes per position: the game's state without its past, the outcome
                   index.jsonl      a line that says what they are, then one per iteration: how many it added

Asked for with `selfplay.log`. The compiled iteration hands out the positions of all games that ended in it (see
`azjax.training.replay.Ended`), whatever becomes of them in the replay. What a run appends for an iteration takes the
place of what stood there for it and for later ones: so the log of a run that was killed and resumed, from whichever
checkpoint, is that of a run that was not.
"""

import functools
import json
import os
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax.common import atomic, files
from azjax.envs.core import Game, GameState, without_past
from azjax.positions import describe_game
from azjax.positions.labelled import forget
from azjax.training.checkpoint import RunError
from azjax.training.replay import Ended

FOLDER = "seen"
_KIND = "azjax positions of self-play"


class Seen(NamedTuple):
    """Positions of self-play in the order in which their games ended."""

    states: GameState  # [positions, ...] of the game without a past
    outcome: np.ndarray  # [positions] float32, how the game ended, for the player to move
    iteration: np.ndarray  # [positions] int32, in which the game ended


class Log:
    """The log of a run, to be written; nothing is touched before the first `append`."""

    def __init__(self, run: str | os.PathLike, game: Game):
        self._folder = pathlib.Path(run) / FOLDER
        self._game = game
        self._last: int | None = None  # the iteration that was appended last, by this object

    def append(self, iteration: int, ended: Ended) -> None:
        """Writes what has ended in an iteration; what stands there of it and of later ones is dropped."""
        number = np.asarray(ended.number)
        group, row = np.nonzero(np.arange(ended.outcome.shape[1]) < number[:, None])
        record = _record_of(self._game)
        records = np.empty(len(group), record)
        for name, leaf in _leaves(ended.states):
            records[name] = np.asarray(leaf)[group, row]
        records["outcome"] = np.asarray(ended.outcome)[group, row]
        if self._last is None or iteration <= self._last:
            self._go_back_to(iteration - 1)
        atomic.append(self._folder / "positions.bin", records.tobytes())
        line = json.dumps({"iteration": iteration, "positions": len(records)}) + "\n"
        atomic.append(self._folder / "index.jsonl", line)
        self._last = iteration

    def _go_back_to(self, iteration: int) -> None:
        """Makes the log what it was after an iteration, or begins it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        counts = {i: n for i, n in _counts(self._folder, self._game) if i <= iteration}
        size = sum(counts.values()) * _record_of(self._game).itemsize
        data = self._folder / "positions.bin"
        with open(data, "ab") as file:
            if file.tell() < size:
                raise _damaged(self._folder, f"{data.name} is too short")
            file.truncate(size)
        lines = [_header(self._game), *({"iteration": i, "positions": n} for i, n in counts.items())]
        atomic.write_text(self._folder / "index.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def is_logged(run: str | os.PathLike) -> bool:
    """Whether there is a log of a run."""
    return (pathlib.Path(run) / FOLDER / "index.jsonl").exists()


def read(run: str | os.PathLike, game: Game, until: int | None = None) -> Seen:
    """Reads the log of a run.

    Args:
      run: its folder.
      game: what it plays.
      until: leave out what ended after this iteration; None for nothing.

    Raises:
      RunError: there is no log, or it is damaged.
    """
    folder = pathlib.Path(run) / FOLDER
    if not is_logged(run):
        raise RunError(f"{run} keeps no log of its positions; train with --selfplay.log to have one")
    counts = [(i, n) for i, n in _counts(folder, game) if until is None or i <= until]
    number = sum(n for _, n in counts)
    record = _record_of(game)
    data = folder / "positions.bin"
    if not data.exists() or data.stat().st_size < number * record.itemsize:
        raise _damaged(folder, f"{data.name} is too short")
    records = np.fromfile(data, record, number)
    like = _state_like(game)
    states = jax.tree.unflatten(jax.tree.structure(like), [records[name].copy() for name, _ in _leaves(like)])
    iteration = np.repeat(*np.array(counts, np.int32).reshape(-1, 2).T)
    return Seen(states, records["outcome"].copy(), iteration)


def _counts(folder: pathlib.Path, game: Game) -> list[tuple[int, int]]:
    """Iterations, ascending, and how many positions each has; none if there is no log yet."""
    index = folder / "index.jsonl"
    if not index.exists():
        return []
    try:
        (_, header), *lines = files.read_objects(index, "index of positions", may_be_cut=True)
    except (files.FileError, ValueError) as error:
        raise _damaged(folder, str(error)) from error
    if header != _header(game):
        raise RunError(f"{folder} holds positions of {header.get('game')}, not {_header(game)['game']}")
    counts = [(line.get("iteration"), line.get("positions")) for _, line in lines]
    iterations = [i for i, _ in counts]
    if not all(isinstance(n, int) for pair in counts for n in pair) or iterations != sorted(set(iterations)):
        raise _damaged(folder, f"{index.name} has lines that are no counts in order")
    return counts


def _damaged(folder: pathlib.Path, what: str) -> RunError:
    return RunError(f"the log {folder} is damaged ({what}); move it away to go on with a new one")


def _header(game: Game) -> dict:
    record = _record_of(game)
    about = {"kind": _KIND, "game": describe_game(without_past(game)), "record": str(record.descr)}
    return json.loads(json.dumps(about))


def _record_of(game: Game) -> np.dtype:
    """What is kept of a position."""
    fields = [(name, leaf.dtype, leaf.shape) for name, leaf in _leaves(_state_like(game))]
    return np.dtype([*fields, ("outcome", np.float32)])


@functools.cache
def _state_like(game: Game) -> GameState:
    return forget(jax.eval_shape(without_past(game).init, jax.random.key(0)))


def _leaves(states: GameState) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(forget(states))
    return [(f"state{jax.tree_util.keystr(key)}", leaf) for key, leaf in leaves]
