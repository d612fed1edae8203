"""The loop around any learner's compiled iteration: it reports, judges, saves and resumes, and changes nothing.

With `jax.distributed` every process runs the same loop; the first alone judges, and writes what people read.
"""

import contextlib
import math
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax.nn.networks import Params
from azjax.training import checkpoint, distributed

# Batches are drawn at random, so that an unlucky one is followed by others: ten in a row are the weights' fault.
SKIPPED_IN_A_ROW = 10


class DivergedError(checkpoint.RunError):
    """A run whose numbers are not finite any more; the message says what to try."""


class Learning(NamedTuple):
    """A way to learn, as the loop sees it. A state has a field `iteration`."""

    unit: str  # what people call an iteration
    init: Callable[[], Any]  # -> the first state
    compile: Callable[
        [Any], tuple[Callable[[Any], tuple[Any, Any]], str]
    ]  # state -> iteration, a line about it
    row: Callable[
        [Any, Any], dict[str, Any]
    ]  # (state, what the iteration measured) -> a line of metrics.jsonl
    judge: Callable[
        [Any, dict[str, Any], bool], dict[str, Any]
    ]  # (state, row, is it the last) -> more of the line
    weights: Callable[[Any], Params]  # of a state: what must be finite to be saved
    export: Callable[[checkpoint.Run, Any], None]  # (run, state): writes the agents
    counted: str  # the field of a row that is also reported per second ...
    rate: str  # ... under this name
    remedy: str  # what to try where the numbers are not finite
    warm_start: Callable[[Any], Any] = lambda state: (
        state
    )  # the first state -> the one that a new run begins with


def train(
    make: Callable[[Any], Learning],
    config: Any,
    out: str | os.PathLike,
    *,
    resume: bool = False,
    resume_from: int | None = None,
    begun_with: dict[str, Any] | None = None,
    watch: Callable[[dict[str, Any]], None] = lambda row: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Learns until `config.iterations` are done, or until interrupted; either way everything is saved.

    What fails or is interrupted before a new run has saved anything leaves nothing behind, so that the same command
    can be tried again.

    Args:
      make: makes the learning of a configuration.
      config: the run.
      out: its folder; see `azjax.training.checkpoint`.
      resume: continue what is there, from the newest checkpoint that is whole.
      resume_from: continue from this checkpoint instead.
      begun_with: what config.json of a new run shall tell beside the configuration.
      watch: called with the row of every iteration, on the first process.
      say: receives lines for people.
    """
    out = pathlib.Path(out)
    resume = resume or resume_from is not None

    def look() -> checkpoint.Run:
        return checkpoint.open_run(out, config) if resume else checkpoint.new_run(out, config, begun_with)

    run = look()  # before the lock, so that a folder that is refused stays as it is
    is_first = jax.process_index() == 0
    with Interruption() as interruption, contextlib.ExitStack() as stack:

        def claim() -> tuple[int, dict[str, str]]:
            stack.enter_context(checkpoint.take_lock(out, say))
            look()  # again: another command may have worked here until now
            after, damaged = run.newest_whole(resume_from) if resume else (0, {})
            return after, {str(step): wrong for step, wrong in damaged.items()}

        after, damaged = distributed.decided_by_first(claim)
        learning = make(run.config)
        if after >= run.config.iterations:
            say(
                f"{out} has made all its {after} {learning.unit}s;"
                f" make it longer with: {run.resume_command} --iterations N"
            )
            return run
        state = learning.init()
        state = run.restore(state, after) if after else learning.warm_start(state)
        iterate, about = learning.compile(state)
        say(about)
        if not resume and is_first:
            stack.enter_context(_withdrawn_unless_saved(run))
        stack.enter_context(distributed.last_words(lambda: _what_is_saved(run, is_new=not resume)))
        damaged = {int(step): wrong for step, wrong in damaged.items()}
        for note in distributed.decided_by_first(lambda: run.begin(after, damaged)):
            say(note)
        if resume:
            say(
                f"continuing {out} after {learning.unit} {after}"
                if after
                else f"{out} had saved nothing: it begins anew"
            )
        interruption.wait()
        _iterate(run, learning, iterate, state, interruption, watch)
        if run.interrupted:
            say(f"interrupted and saved; continue with: {run.resume_command}")
    return run


def _iterate(
    run: checkpoint.Run,
    learning: Learning,
    iterate: Callable[[Any], tuple[Any, Any]],
    state: Any,
    interruption: "Interruption",
    watch: Callable[[dict[str, Any]], None],
) -> None:
    is_first = jax.process_index() == 0
    earlier = max((row.get("seconds") or 0.0 for row in run.read_metrics()), default=0.0)
    started = time.perf_counter()
    done = False
    while not (done or run.interrupted):
        before = time.perf_counter()
        state, measured = iterate(state)
        row = learning.row(state, jax.device_get(measured))
        done = row["iteration"] >= run.config.iterations
        wrong = _not_finite(row)
        if is_first and not wrong:
            row |= learning.judge(state, row, done)
        now = time.perf_counter()
        row["seconds"] = earlier + now - started
        row[learning.rate] = row[learning.counted] / (now - before)
        if row.get("games_finished"):
            row["seconds_per_game"] = (now - before) / row["games_finished"]
        if is_first:
            run.append_metrics(row)
        _check(run, learning, row["iteration"], wrong)
        if is_first:
            watch(checkpoint.finite_or_none(row))
        run.interrupted = distributed.anyone(interruption.requested) and not done
        if row["iteration"] % run.config.save_every == 0 or done or run.interrupted:
            weights = jax.tree.leaves(jax.device_get(learning.weights(state)))
            finite = all(np.isfinite(leaf).all() for leaf in weights)
            _check(run, learning, row["iteration"], [] if finite else ["weights"])
            run.save(state)
            if is_first:
                learning.export(run, state)


def _not_finite(row: dict[str, Any]) -> list[str]:
    """What stops a run: the numbers of a row that are not finite, and updates skipped for gradients that are not."""
    wrong = [
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, number in jax.tree_util.tree_leaves_with_path(row)
        if isinstance(number, float) and not math.isfinite(number)
    ]
    skipped = row.get("skipped_in_a_row", 0)
    if skipped >= SKIPPED_IN_A_ROW:
        wrong.append(f"gradients of {skipped} updates in a row")
    return wrong


def _check(run: checkpoint.Run, learning: Learning, iteration: int, wrong: list[str]) -> None:
    if not wrong:
        return
    known = run.iterations
    last = f"the last good checkpoint is {known[-1]} in {run.path}" if known else "nothing had been saved yet"
    raise DivergedError(
        f"stopped at {learning.unit} {iteration}, because these are not finite: {', '.join(wrong)}; {last};"
        f" try {learning.remedy} in another folder"
    )


@contextlib.contextmanager
def _withdrawn_unless_saved(run: checkpoint.Run) -> Iterator[None]:
    try:
        yield
    except DivergedError:
        raise  # its metrics show how it came about
    except BaseException:
        if not run.iterations:
            run.withdraw()
        raise


def _what_is_saved(run: checkpoint.Run, is_new: bool) -> str:
    """What to say when another process was lost; this one may hang, so that no `finally` will be reached."""
    if run.iterations:
        return f"iteration {run.iterations[-1]} is saved; continue with: {run.resume_command}"
    if is_new and jax.process_index() == 0:
        run.withdraw()
    return "nothing had been saved yet: start again"


class Interruption:
    """Ctrl-C or SIGTERM: before `wait` it stops at once, then between two iterations; a second one stops at once."""

    def __enter__(self) -> "Interruption":
        self.requested = False
        self._at_once = True
        self._before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # not in the main thread, where no signal arrives
                self._before[number] = signal.signal(number, self._ask)
        return self

    def wait(self) -> None:
        """From now on the first signal is only noted in `requested`."""
        self._at_once = False

    def _ask(self, number, frame) -> None:
        if self._at_once or self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *exception) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
