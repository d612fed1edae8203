"""The loop around any learner's compiled iteration: it reports, judges, saves and resumes, and changes nothing.

Devices never wait for the host: what an iteration measured is read while the next one runs, and judging and saving go
on beside, on copies. What people read is in order all the same: a line of metrics.jsonl waits for its judgement, and a
checkpoint is begun when the lines up to it are written.

With `jax.distributed` every process runs the same loop; the first alone judges, and writes what people read. All save
at the same point of the program, which therefore waits until that is done.
"""

import collections
import concurrent.futures
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

from azjax.common import remote
from azjax.common.beside import Beside
from azjax.nn.networks import Params
from azjax.training import checkpoint, distributed

# Batches are drawn at random, so that an unlucky one is followed by others: ten in a row are the weights' fault.
SKIPPED_IN_A_ROW = 10
TOGETHER_SECONDS = 0.1  # iterations that are shorter are made several at a time
PATIENCE = (
    10.0  # seconds that a judgement may still take once the run is to stop; who preempts grants about thirty
)
SHARED_SECONDS = 60.0  # for the folder of the first process to be seen by the others
RESUME_ME = 75  # the exit code after SIGTERM: EX_TEMPFAIL of sysexits.h, "try the same again"
_CTRL_C, _TERMINATED = 1, 2  # what stops a run; of several processes the greatest counts


class DivergedError(checkpoint.RunError):
    """A run whose numbers are not finite any more; the message says what to try."""


class Learning(NamedTuple):
    """A way to learn, as the loop sees it. A state has a field `iteration`."""

    unit: str  # what people call an iteration
    init: Callable[[], Any]  # -> the first state
    # state -> (iterate, a line about it). iterate(state, count) -> (state after so many iterations, what they measured)
    compile: Callable[[Any], tuple[Callable[[Any, int], tuple[Any, Any]], str]]
    rows: Callable[[Any, int], list[dict[str, Any]]]  # (what was measured, count) -> lines of metrics.jsonl
    # What the next three look at of a state, as NumPy arrays: the next iteration may consume the state.
    shown: Callable[[Any], Any]
    judge: Callable[[Any, dict[str, Any]], dict[str, Any]]  # (shown, row) -> more of the line
    weights: Callable[[Any], Params]  # of what is shown: what must be finite to be saved
    export: Callable[[checkpoint.Run, int, Any], None]  # (run, iteration, shown): writes the agents
    counted: str  # the field of a row that is also reported per second ...
    rate: str  # ... under this name
    remedy: str  # what to try where the numbers are not finite
    judge_every: int | None = None  # iterations between two judgements; the last is judged too
    most: int = 1  # iterations that `iterate` can make at once
    warm_start: Callable[[Any], Any] = lambda state: (
        state
    )  # the first state -> the one that a new run begins with

    def is_judged(self, iteration: int, last: int) -> bool:
        """Whether an iteration of a run that ends with the `last` is judged."""
        return self.judge_every is not None and (iteration % self.judge_every == 0 or iteration == last)


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
    given = {"resume_from": resume_from, "begun_with": begun_with, "watch": watch, "say": say}
    resume = resume or resume_from is not None
    if remote.is_remote(out):
        return _train_on_copy(make, config, remote.mirror(out), resume, given)
    return _train_in_folder(make, config, pathlib.Path(out), resume, **given)


def _train_on_copy(
    make: Callable[[Any], Learning], config: Any, bucket: remote.Mirror, resume: bool, given: dict[str, Any]
) -> checkpoint.Run:
    """Trains in the copy of a bucket's folder; what is said names the bucket."""
    if jax.process_count() > 1:
        raise checkpoint.RunError(
            f"{bucket.remote} is for runs of one process: several need a folder that all of them see, such as the"
            " bucket mounted by gcsfuse"
        )

    def named(text: str) -> str:
        return text.replace(str(bucket.here), str(bucket.remote))

    say = given["say"]
    try:
        with checkpoint.take_lock(bucket.here.with_name(f"{bucket.here.name}.in-use"), say):
            bucket.fetch()
            given = given | {"say": lambda line: say(named(line)), "bucket": bucket}
            return _train_in_folder(make, config, bucket.here, resume, **given)
    except checkpoint.RunError as error:
        raise type(error)(named(str(error))) from error


def _train_in_folder(
    make: Callable[[Any], Learning],
    config: Any,
    out: pathlib.Path,
    resume: bool,
    *,
    resume_from: int | None,
    begun_with: dict[str, Any] | None,
    watch: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
    bucket: remote.Mirror | None = None,
) -> checkpoint.Run:
    def look() -> checkpoint.Run:
        return checkpoint.open_run(out, config) if resume else checkpoint.new_run(out, config, begun_with)

    run = look()  # before the lock, so that a folder that is refused stays as it is
    run.bucket = bucket
    is_first = jax.process_index() == 0
    with Interruption() as interruption, contextlib.ExitStack() as stack:

        def claim() -> tuple[int, dict[str, str], str]:
            stack.enter_context(checkpoint.take_lock(out, say))
            look()  # again: another command may have worked here until now
            after, damaged = run.newest_whole(resume_from) if resume else (0, {})
            return after, {str(step): wrong for step, wrong in damaged.items()}, checkpoint.lock_holder(out)

        after, damaged, holder = distributed.decided_by_first(claim)
        if jax.process_count() > 1 and distributed.ask(lambda: not _is_seen(out, holder))():
            raise checkpoint.RunError(
                f"{out} is not the same folder for all processes: each saves its share there; name one that all of them"
                " see, such as a disk that all machines share, or a bucket mounted by gcsfuse"
            )
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
        _iterate(run, learning, iterate, state, after, interruption, watch)
        if run.interrupted:
            say(f"interrupted and saved; continue with: {run.resume_command}")
    return run


def _is_seen(out: pathlib.Path, holder: str) -> bool:
    """Whether this process sees who has locked the folder, soon: machines remember for a while what was not there."""
    end = time.monotonic() + SHARED_SECONDS
    while checkpoint.lock_holder(out) != holder:
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def _iterate(
    run: checkpoint.Run,
    learning: Learning,
    iterate: Callable[[Any, int], tuple[Any, Any]],
    state: Any,
    number: int,
    interruption: "Interruption",
    watch: Callable[[dict[str, Any]], None],
) -> None:
    """From a state after `number` iterations to the last one."""
    last = run.config.iterations
    together = jax.process_count() == 1  # else all would have to agree how many
    with _Log(run, learning, watch) as log:
        before, asked, stop = None, distributed.ask(interruption.asked), 0
        while number < last and not stop:
            count = _how_many(learning, run.config, number, log.pace) if together else 1
            state, measured = iterate(state, count)
            number += count
            asked, earlier = distributed.ask(interruption.asked), asked
            if before is not None:
                log.read(before)
            stop = 0 if number == last else earlier()
            run.interrupted, run.preempted = stop > 0, stop == _TERMINATED
            is_saved = number % run.config.save_every == 0 or number == last or bool(stop)
            shown = kept = None
            if is_saved or learning.is_judged(number, last):
                shown = checkpoint.copied(learning.shown(state))
            if is_saved:
                kept = checkpoint.copied(state) if together and number < last and not stop else state
            before = _Part(number, count, measured, shown, kept)
            if is_saved and not together:
                log.read(before)
                log.settle()
                before = None
        if before is not None:
            log.read(before)


def _how_many(learning: Learning, config: Any, number: int, pace: float | None) -> int:
    """How many iterations to make at once after `number`: up to what is saved or judged, if they are short.

    The bits do not depend on it: see `Learning.compile`.
    """
    if learning.most == 1 or pace is None:
        return 1
    ends = [config.iterations - number]
    ends += [every - number % every for every in (config.save_every, learning.judge_every) if every]
    return max(1, min(*ends, learning.most, int(TOGETHER_SECONDS / max(pace, 1e-6))))


class _Part(NamedTuple):
    """Iterations that were begun together."""

    iteration: int  # the last of them
    count: int
    measured: Any
    shown: Any  # if the last one is judged or saved
    kept: Any  # a state to save


class _Entry(NamedTuple):
    """A line of metrics.jsonl that waits for its turn."""

    row: dict[str, Any]
    judging: concurrent.futures.Future | None
    part: _Part | None  # to be saved after the line


class _Log:
    """What becomes of iterations on the host: lines, judgements, checkpoints."""

    def __init__(self, run: checkpoint.Run, learning: Learning, watch: Callable[[dict[str, Any]], None]):
        self.pace: float | None = None  # seconds per iteration, of those read last
        self._run = run
        self._learning = learning
        self._watch = watch
        self._is_first = jax.process_index() == 0
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._saving: concurrent.futures.Future | None = None
        self._deadline: float | None = None  # of judgements, once the run is to stop
        self._seconds = max((row.get("seconds") or 0.0 for row in run.read_metrics()), default=0.0)
        self._read_at = time.perf_counter()

    def __enter__(self) -> "_Log":
        self._beside = Beside()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        patience = 0.0 if kind is None and self._run.interrupted else None
        try:
            if kind is None:
                self.settle()
        except KeyboardInterrupt:
            kind = KeyboardInterrupt
            raise
        finally:
            # Who asks to stop at once does not wait for a judgement; a save may end, and is not left half made.
            self._beside.end(2.0 if kind is KeyboardInterrupt else patience)

    def read(self, part: _Part) -> None:
        """Waits for what iterations measured, checks it, and lets the last of them be judged if it is due."""
        rows = self._learning.rows(jax.device_get(part.measured), part.count)
        part = part._replace(shown=jax.tree.map(_on_host, part.shown))
        now = time.perf_counter()
        self.pace = (now - self._read_at) / part.count
        self._read_at = now
        for row in rows:
            self._seconds += self.pace
            row["seconds"] = self._seconds
            row[self._learning.rate] = row[self._learning.counted] / self.pace
            if row.get("games_finished"):
                row["seconds_per_game"] = self.pace / row["games_finished"]
            is_last_of_them = row["iteration"] == part.iteration
            judging = None
            if wrong := _not_finite(row):
                self.settle()
                self._append(row)
                _check(self._run, self._learning, row["iteration"], wrong)
            elif is_last_of_them and self._is_first:
                judging = self._begin_judging(row, part.shown)
            is_saved = is_last_of_them and part.kept is not None
            self._waiting.append(_Entry(row, judging, part if is_saved else None))
        if part.kept is not None:
            weights = jax.tree.leaves(jax.device_get(self._learning.weights(part.shown)))
            if not all(np.isfinite(leaf).all() for leaf in weights):
                self._waiting[-1] = self._waiting[-1]._replace(part=None)
                self.settle()
                _check(self._run, self._learning, part.iteration, ["weights"])
        # Of the copies of a state one may wait here, and one be written.
        self.write(wait=sum(entry.part is not None for entry in self._waiting) > 1)

    def write(self, wait: bool = False) -> None:
        """Writes the lines whose turn it is, and begins to save what follows them; with `wait`, all of them."""
        if self._run.interrupted and self._deadline is None:
            self._deadline = time.monotonic() + PATIENCE
        while self._waiting:
            row, judging, part = self._waiting[0]
            if judging is not None:
                if not (wait or judging.done()):
                    break
                row |= self._judgement(judging)
            self._waiting.popleft()
            self._append(row)
            if self._is_first:
                self._watch(checkpoint.finite_or_none(row))
            if part is not None:
                self._save(part)
        if self._saving is not None and self._saving.done():
            self._finish_saving()

    def settle(self) -> None:
        """Waits until all that was read is judged, written and saved."""
        self.write(wait=True)
        self._finish_saving()

    def _begin_judging(self, row: dict[str, Any], shown: Any) -> concurrent.futures.Future | None:
        if not self._learning.is_judged(row["iteration"], self._run.config.iterations):
            return None
        if any(entry.judging for entry in self._waiting):
            self.write(wait=True)  # so that no more than one lags behind
        return self._beside.begin(self._learning.judge, shown, dict(row))

    def _judgement(self, judging: concurrent.futures.Future) -> dict[str, Any]:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        done, _ = concurrent.futures.wait([judging], left)
        return judging.result() if done else {}  # then only the judgement is missing

    def _append(self, row: dict[str, Any]) -> None:
        if self._is_first:
            self._run.append_metrics(row)

    def _save(self, part: _Part) -> None:
        self._finish_saving()
        if jax.process_count() > 1 or self._run.interrupted:  # a judgement may keep the other thread busy
            self._write_checkpoint(part)
        else:
            self._saving = self._beside.begin(self._write_checkpoint, part)

    def _write_checkpoint(self, part: _Part) -> None:
        self._run.save(part.kept, lambda: self._learning.export(self._run, part.iteration, part.shown))
        if self._is_first:
            self._run.publish()

    def _finish_saving(self) -> None:
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.result()


def _on_host(leaf: Any) -> Any:
    """The array in NumPy, because programs take none of another memory; as it is if others hold parts of it."""
    return jax.device_get(leaf) if leaf.is_fully_addressable or leaf.is_fully_replicated else leaf


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


class Preempted(KeyboardInterrupt):
    """SIGTERM before a run has begun, or a second one."""

    exit_code = RESUME_ME


class Interruption:
    """Ctrl-C or SIGTERM: before `wait` it stops at once, then between two iterations; a second one stops at once."""

    def __enter__(self) -> "Interruption":
        self._requested = 0
        self._at_once = True
        self._before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # not in the main thread, where no signal arrives
                self._before[number] = signal.signal(number, self._ask)
        return self

    def wait(self) -> None:
        """From now on the first signal is only noted."""
        self._at_once = False

    def asked(self) -> int:
        """0, or by what the run was asked to stop."""
        return self._requested

    def _ask(self, number: int, frame: Any) -> None:
        if self._at_once or self._requested:
            raise Preempted if number == signal.SIGTERM else KeyboardInterrupt
        self._requested = _TERMINATED if number == signal.SIGTERM else _CTRL_C

    def __exit__(self, *exception) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
