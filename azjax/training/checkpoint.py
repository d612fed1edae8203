"""Runs on disk: a folder that holds a run whole, so that it can go on where it stopped.

    runs/NAME/config.json     the configuration and the versions it began with
              metrics.jsonl   one line per iteration
              checkpoints/N/  everything after iteration N: state/ by orbax, a copy of config.json, and manifest.json
                              with the checksums of all of them; a save appears whole or not at all
              agents/N.npz    the averaged weights of every save
              seen/           with selfplay.log, all positions ever played, see `azjax.training.seen`
              agent.npz       the newest averaged weights and the configuration: all that play needs
              set-aside/      checkpoints that were damaged, or left behind by going on from an earlier one
              .lock           while a command works in the folder

A folder that holds a run is continued or refused, never erased.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import logging
import math
import os
import pathlib
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from azjax.common import atomic, files, remote, tables
from azjax.common.checked import ConfigError, check_value, is_finite, shown
from azjax.common.remote import checksum as _checksum
from azjax.common.rows import number_in, with_updates
from azjax.nn.networks import Network, Params, make_network
from azjax.training import boards
from azjax.training.config import TrainConfig, config_from_dict, config_to_dict

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT = 3  # changes whenever a field of the configurations, or what a run makes of it, changes its meaning
# What config.json may tell beside the configuration.
_ABOUT = {"own_parts?": tuple[str, ...], "init_from?": str, "versions?": dict}
KEPT = 3  # newest checkpoints of a run
# What a run shows of itself: the columns, and where their numbers lie in a line of metrics.jsonl.
_SHOWN = {
    "steps": "steps",
    "positions": "positions",
    "games": "games",
    "policy loss": "loss.policy",
    "value loss": "loss.value",
}
_PACKAGES = ("azjax", "jax", "flax", "optax", "mctx", "pgx", "orbax-checkpoint", "numpy")


class RunError(ValueError):
    """A run folder that cannot be used as asked; the message says what to do."""


class KindError(RunError):
    """A run of another learner than the one that was asked for."""


class Run:
    """One run's folder; its configuration is a TrainConfig or, of other learners, another with `iterations`."""

    def __init__(self, path: pathlib.Path, config: Any, begun_with: dict[str, Any] | None = None):
        self.path = path
        self.config = config
        self.begun_with = begun_with or {}  # what config.json tells of the beginning beside the configuration
        self.interrupted = False  # whether training was asked to stop before its end ...
        self.preempted = False  # ... by SIGTERM, by whoever needs the machine
        self.bucket: remote.Mirror | None = None  # where the folder is sent after every save

    @property
    def iterations(self) -> list[int]:
        """The iterations of which there is a checkpoint, oldest first; `damage` tells whether one is whole."""
        folder = self.path / "checkpoints"
        return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit() and path.is_dir())

    @property
    def snapshots(self) -> list[int]:
        """The iterations of which the weights are kept, oldest first: all that were ever saved."""
        return sorted(int(path.stem) for path in (self.path / "agents").glob("*.npz") if path.stem.isdigit())

    @property
    def resume_command(self) -> str:
        """What to type to continue the run."""
        return f"azjax resume {shlex.quote(self.address)}"

    @property
    def address(self) -> str:
        """Where people find it: its folder, or that of a bucket of which the folder is a copy."""
        return str(self.path if self.bucket is None else self.bucket.remote)

    def grid(self, most: int = 6) -> tables.Grid:
        """Some iterations as a table, the last one among them; in HTML with how the loss went."""
        rows = self.read_metrics()
        columns = [name for name, place in _SHOWN.items() if rows and _as_text(rows[-1], place)]
        chosen = sorted({round(at) for at in np.linspace(0, len(rows) - 1, min(most, len(rows)))})
        losses = [number_in(row, "loss.total") for row in with_updates(rows)]
        curve = tables.sparkline([loss for loss in losses if not math.isnan(loss)])
        played = boards.title(self.config)
        return tables.Grid(
            columns=("iteration", *columns),
            rows=[
                (str(rows[at].get("iteration")), *(_as_text(rows[at], _SHOWN[name]) for name in columns))
                for at in chosen
            ],
            title=f"{played}, {len(rows):,} of {self.config.iterations:,} iterations, {self.address}",
            pictures=[curve if at == chosen[-1] else "" for at in chosen] if curve else (),
        )

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html

    def publish(self) -> None:
        """Sends what has changed to the bucket, if there is one."""
        if self.bucket is not None:
            self.bucket.send()

    def save_agent(self, iteration: int, params: Params) -> None:
        """Keeps the weights of an iteration, also as the run's newest in agent.npz."""
        with self._writing(f"the agent of iteration {iteration}"):
            (self.path / "agents").mkdir(exist_ok=True)
            for name in (f"agents/{iteration}.npz", "agent.npz"):
                export_agent(self.path / name, self.config, params)

    def load_agent(self, iteration: int) -> Params:
        """The weights of an iteration."""
        if iteration not in self.snapshots:
            raise RunError(f"{self.path} has no weights of iteration {iteration}; there are {self.snapshots}")
        return load_agent(self.path / "agents" / f"{iteration}.npz")[1]

    def save(self, state: Any, export: Callable[[], None] = lambda: None) -> None:
        """Writes everything; returns when it is safely there. On several processes all must call it.

        Args:
          state: where the run is.
          export: writes its agents, on the first process. They are there before the checkpoint counts: a process that
            is killed in between makes both anew, while agents that came later would never be made.
        """
        step = int(state.iteration)
        final = self._checkpoint(step)
        if final.exists():
            return  # made by this run: what an earlier one left ahead of it was set aside when it began
        partial = final.with_name(f"{step}.partial")
        is_first = jax.process_index() == 0
        with self._writing(f"checkpoint {step}"), _quiet_orbax():
            if is_first:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
            multihost_utils.sync_global_devices(f"checkpoint {step} can be written")
            with contextlib.closing(ocp.Checkpointer(ocp.StandardCheckpointHandler())) as checkpointer:
                checkpointer.save((partial / "state").absolute(), args=ocp.args.StandardSave(_filled(state)))
            if is_first:
                shutil.copyfile(self.path / "config.json", partial / "config.json")
                _write_manifest(partial)
                export()
                os.rename(partial, final)
                for older in self.iterations[:-KEPT]:
                    shutil.rmtree(self._checkpoint(older))
        multihost_utils.sync_global_devices(f"checkpoint {step} is written")

    def damage(self, iteration: int) -> str | None:
        """What is wrong with the files of a checkpoint; None if all are as they were written."""
        return _damage(self._checkpoint(iteration))

    def newest_whole(self, iteration: int | None = None) -> tuple[int, dict[int, str]]:
        """Finds the checkpoint to go on from; nothing is changed.

        Args:
          iteration: this one, which must be whole; None for the newest that is.

        Returns:
          Its iteration, or 0 of a run that was stopped before it saved anything; and of every newer one what is wrong
          with it.
        """
        known = self.iterations
        if not known and iteration is None:
            self._check_nothing_is_lost()
            return 0, {}
        if iteration is not None and iteration not in known:
            raise RunError(f"{self.path} has no checkpoint {iteration}; there are {known}")
        damaged = {}
        for step in reversed(known) if iteration is None else [iteration]:
            wrong = self.damage(step)
            if wrong is None:
                self._check_same_configuration(step)
                return step, damaged
            damaged[step] = wrong
        listed = "; ".join(f"{step}: {wrong}" for step, wrong in damaged.items())
        if iteration is not None:
            raise RunError(
                f"checkpoint {iteration} of {self.path} is damaged ({listed}); leave out --resume-from"
            )
        raise RunError(
            f"{self.path} cannot be continued, because none of its checkpoints is whole ({listed}); nothing was"
            " changed: bring back a copy of one, or train anew with another --out"
        )

    def restore(self, like: Any, iteration: int | None = None) -> Any:
        """Reads a checkpoint, after its files were found to be whole.

        Args:
          like: a state, or its shapes with shardings: where the arrays shall go. The mesh need not be the one
            that saved.
          iteration: which; None for the newest whole one.
        """
        iteration, _ = self.newest_whole(iteration)
        if iteration == 0:
            raise RunError(f"{self.path} has no checkpoint yet; start it without resuming")
        folder = (self._checkpoint(iteration) / "state").absolute()
        try:
            with (
                _quiet_orbax(),
                contextlib.closing(ocp.Checkpointer(ocp.StandardCheckpointHandler())) as reader,
            ):
                found = reader.restore(folder, args=ocp.args.StandardRestore(_filled(like)))
                return like._replace(**found)
        except Exception as error:  # the files are as they were written, so that it is not they
            raise RunError(
                f"checkpoint {iteration} of {self.path} is whole, but cannot be read ({_reason(error)}); use the"
                " azjax that wrote it (the run's config.json names its version), or train anew with another --out"
            ) from error

    def begin(self, after: int = 0, damaged: dict[int, str] | None = None) -> list[str]:
        """Makes the folder ready for the iterations after one, and returns what people should know about that.

        Nothing is lost: checkpoints of later iterations are set aside, as are lines of metrics.jsonl that cannot be
        read; only the lines of iterations that will be made again are dropped.
        """
        with self._writing("the run's folder"):
            notes = [
                self._set_aside(step, (damaged or {}).get(step)) for step in self.iterations if step > after
            ]
            for leftover in (self.path / "checkpoints").glob("*.partial"):  # of a save that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            for folder in (self.path, self.path / "agents"):
                atomic.remove_partial(folder)
            agents = [self.path / "agent.npz", *(self.path / "agents").glob("*.npz")]
            for path in agents:
                if path.is_dir():  # which could not be written over
                    notes.append(
                        f"{path.name} was a folder and now lies in {self._move_aside(path, path.stem)}"
                    )
            if not (self.path / "config.json").exists():
                _write_about(self.path, self.config, self.begun_with)
            return notes + self._forget_metrics_after(after)

    def withdraw(self) -> None:
        """Removes what `begin` and the loop made of a new run that saved nothing."""
        for name in ("checkpoints", "agents", "tensorboard", "seen"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for path in (self.path / "metrics.jsonl", self.path / "config.json", *self.path.glob("*.npz")):
            path.unlink(missing_ok=True)

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl; numbers that are not finite are null there, because JSON has no others."""
        with self._writing("metrics.jsonl"):
            line = json.dumps(finite_or_none(row), allow_nan=False) + "\n"
            atomic.append(self.path / "metrics.jsonl", line)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl that can be read: a crash may have cut the last, and a disk damaged others."""
        return self._metrics()[0]

    def read_rows(
        self, fields: Mapping[str, Any], check: Callable[[dict[str, Any]], None] = lambda row: None
    ) -> list[dict[str, Any]]:
        """The same lines, for whoever needs more of them than the number of an iteration.

        Args:
          fields: names and types of what every line must have, see `azjax.common.checked.check_value`; with a `?`
            behind its name a field may be missing.
          check: raises ConfigError for what the types do not say.

        Raises:
          RunError: names the file, the iteration and the field.
        """
        rows = self.read_metrics()
        for row in rows:
            try:
                check_row(row, fields)
                check(row)
            except ConfigError as error:
                raise RunError(
                    f"{self.path / 'metrics.jsonl'}, the line of iteration {row['iteration']}: {error};"
                    " take that line out"
                ) from error
        return rows

    def _checkpoint(self, iteration: int) -> pathlib.Path:
        return self.path / "checkpoints" / str(iteration)

    def _metrics(self) -> tuple[list[dict[str, Any]], list[bytes]]:
        """The rows, and the lines that are none."""
        path = self.path / "metrics.jsonl"
        rows, others = [], []
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                row = json.loads(line, parse_constant=lambda name: None)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict) and _is_counted(row):
                rows.append(row)
            elif line.strip():
                others.append(line)
        return rows, others

    def _forget_metrics_after(self, iteration: int) -> list[str]:
        rows, others = self._metrics()
        kept = [row for row in rows if row["iteration"] <= iteration]
        path, aside, notes = self.path / "metrics.jsonl", self.path / "metrics.damaged", []
        if others:
            atomic.append(aside, b"".join(line + b"\n" for line in others))
            notes.append(
                f"metrics.jsonl had {len(others)} lines that cannot be read; they are now in {aside}"
            )
        missing = iteration - len({row["iteration"] for row in kept})
        if missing:
            notes.append(f"metrics.jsonl has no rows of {missing} of the {iteration} iterations so far")
        if path.exists():
            atomic.write_text(path, "".join(json.dumps(finite_or_none(row)) + "\n" for row in kept))
        return notes

    def _move_aside(self, path: pathlib.Path, name: str) -> pathlib.Path:
        folder = self.path / "set-aside"
        folder.mkdir(exist_ok=True)
        number = 1
        while (target := folder / f"{name}-{number}").exists():
            number += 1
        os.rename(path, target)
        return target

    def _set_aside(self, iteration: int, wrong: str | None) -> str:
        target = self._move_aside(self._checkpoint(iteration), str(iteration))
        reason = f"is damaged ({wrong})" if wrong else "is later than the one to go on from"
        return f"checkpoint {iteration} {reason} and now lies in {target}"

    def _check_nothing_is_lost(self) -> None:
        partial = [path.stem for path in (self.path / "checkpoints").glob("*.partial") if path.is_dir()]
        under_way = {int(step) for step in partial if step.isdigit()}
        if under_way and under_way.issuperset(self.snapshots):
            return  # killed during the first save: the agents are those of an iteration that is made again
        kept = [f"agents/{step}.npz" for step in self.snapshots]
        kept += [path.name for path in sorted(self.path.glob("*.npz"))]
        if kept:
            raise RunError(
                f"{self.path} cannot be continued, because its checkpoints are gone; there are still the metrics of"
                f" {len(self.read_metrics())} iterations and {', '.join(kept[-3:])}, which can be played with and"
                " judged; nothing was changed: bring checkpoints/ back, or train anew with another --out"
            )

    def _check_same_configuration(self, iteration: int) -> None:
        then = read_config(self._checkpoint(iteration), type(self.config))
        differences = _differences(config_to_dict(then), config_to_dict(self.config))
        differences.pop("iterations", None)
        if differences:
            listed = "; ".join(f"{field}: {a!r} then, {b!r} now" for field, (a, b) in differences.items())
            copy = self._checkpoint(iteration) / "config.json"
            raise RunError(
                f"config.json of {self.path} has changed since checkpoint {iteration} was saved ({listed});"
                f" put the copy {copy} in its place"
            )

    @contextlib.contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Turns whatever keeps a file from being written into one sentence."""
        try:
            yield
        except RunError:
            raise
        except Exception as error:  # OSError of our own files; orbax and tensorstore raise many kinds
            saved = f"checkpoint {self.iterations[-1]} and all" if self.iterations else "all"
            raise RunError(
                f"{what} of {self.path} could not be written ({_reason(error)}); {saved} that was saved before is"
                f" as it was: make room or see to its permissions, then continue with: {self.resume_command}"
            ) from error


def check_row(row: Mapping[str, Any], fields: Mapping[str, Any], prefix: str = "") -> None:
    """Raises ConfigError unless a line, or a part of one, has these fields; see `Run.read_rows`."""
    for field, kind in fields.items():
        name = field.removesuffix("?")
        if name in row:
            value = row[name]
            check_value(prefix + name, kind, tuple(value) if isinstance(value, list) else value)
        elif name == field:
            raise ConfigError(f"{prefix}{name} is missing")


def _is_counted(row: dict[str, Any]) -> bool:
    """Whether a line says of which iteration it is. When that was it may leave out, but not say wrongly."""
    iteration, seconds = row.get("iteration"), row.get("seconds")
    is_time = seconds is None or (type(seconds) in (int, float) and is_finite(seconds) and seconds >= 0)
    return type(iteration) is int and iteration > 0 and is_time


@contextlib.contextmanager
def take_lock(folder: str | os.PathLike, say: Callable[[str], None] = print) -> Iterator[None]:
    """Keeps all other commands from working in a folder, which is made if it is not there.

    The kernel lets go of the lock when the process dies, however that comes about. Folders that were made and are still
    empty at the end are removed again.

    Raises:
      RunError: another process has the folder; the message names it.
    """
    folder = pathlib.Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked(folder / ".lock", say)
    except OSError as error:
        _remove_empty(made)
        raise RunError(f"{folder} cannot be written to ({_reason(error)}); choose another --out") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(folder / ".lock")
        file.close()
        _remove_empty(made)


def lock_holder(folder: pathlib.Path) -> str:
    """Who works in a folder, or an empty text."""
    try:
        return (folder / ".lock").read_text(encoding="utf-8")
    except OSError:
        return ""


def _locked(path: pathlib.Path, say: Callable[[str], None]) -> Any:
    while True:
        file = open(path, "a+", encoding="utf-8")
        try:
            if fcntl is None:
                raise OSError("this system has no flock")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another command"
            file.close()
            raise RunError(
                f"{path.parent} is in use by {holder}; wait until it has ended, or choose another --out"
            ) from None
        except OSError as error:
            say(f"{path.parent} cannot be locked ({error}): see to it that no other command works in it")
        # Whoever had the lock before may have removed the file after we opened it.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            break
        file.close()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file


def _remove_empty(folders: list[pathlib.Path]) -> None:
    with contextlib.suppress(OSError):  # the first that is not empty ends it
        for folder in folders:
            folder.rmdir()


def new_run(path: str | os.PathLike, config: Any, begun_with: dict[str, Any] | None = None) -> Run:
    """A run in a folder that is still to be made, or empty; refuses one that is in use. Nothing is written yet."""
    path = pathlib.Path(path)
    if (path / "config.json").exists():
        raise RunError(f"{path} already holds a run; add --resume to continue it, or choose another --out")
    if "[" in str(path.absolute()):  # orbax would write there, but takes the name for a pattern when it reads
        raise RunError(
            f"{path.absolute()} has a bracket in its name, which orbax cannot read; choose another --out"
        )
    if path.exists() and not path.is_dir():  # a device or a pipe, too
        raise RunError(f"{path} is a file, expected a folder; choose another --out")
    # A start that was killed may have left its lock, or a part of its first file.
    if path.exists() and any(
        entry.name != ".lock" and not atomic.is_partial(entry) for entry in path.iterdir()
    ):
        raise RunError(f"{path} is not empty and holds no run; choose another --out")
    return Run(path, config, begun_with)


def _as_text(row: dict[str, Any], place: str) -> str:
    """A loss to three digits, a count as it is, nothing of what is not there or was not learned yet."""
    value, is_loss = number_in(row, place), place.startswith("loss.")
    if math.isnan(value) or (is_loss and not with_updates([row])):
        return ""
    return f"{value:.3f}" if is_loss else f"{value:,.0f}"


def _write_about(path: pathlib.Path, config: Any, begun_with: dict[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    about = _about(config) | begun_with | {"versions": versions}
    atomic.write_text(path / "config.json", json.dumps(about, indent=1) + "\n")


def copied(state: Any) -> Any:
    """A copy in the host's memory, with the same shards: it stays when the next iteration consumes the state.

    Nobody waits for it; on accelerators it costs no memory of the device.
    """
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, leaf.sharding.with_memory_kind("pinned_host")), state
    )


def _filled(state: Any) -> dict[str, Any]:
    """The fields of a state but empty ones, so that the runs of before there was such a field go on."""
    return {name: part for name, part in state._asdict().items() if type(part) is not tuple or part}


def finite_or_none(value: Any) -> Any:
    """Plain data with None for every number that is not finite: what JSON can say."""
    if isinstance(value, dict):
        return {name: finite_or_none(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_or_none(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_manifest(folder: pathlib.Path) -> None:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): _checksum(path) for path in found}
    atomic.write_text(folder / "manifest.json", json.dumps({"sha256": sums}, indent=1) + "\n")


def _damage(folder: pathlib.Path) -> str | None:
    # tensorstore notices damaged indices, but decompresses chunks of numbers with flipped bits in silence.
    try:
        sums = json.loads((folder / "manifest.json").read_bytes())["sha256"]
        wrong = [name for name, known in sums.items() if _checksum(folder / name) != known]
    except FileNotFoundError as error:
        return f"{pathlib.Path(error.filename).relative_to(folder)} is missing"
    except OSError as error:
        return _reason(error)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        return f"manifest.json is no list of checksums: {_reason(error)}"
    return f"{', '.join(wrong)} changed since it was written" if wrong else None


@contextlib.contextmanager
def _quiet_orbax() -> Iterator[None]:
    """Keeps orbax's own reports of failures, with tracebacks, off the terminal: we raise a sentence."""
    if not isinstance(sys.unraisablehook, _WithoutLateWrites):
        sys.unraisablehook = _WithoutLateWrites(sys.unraisablehook)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class _WithoutLateWrites:
    """Leaves out what tensorstore reports of writes that end after one beside them has failed.

    orbax closes its event loop at the first failure, and the other writes then find it closed, at any later moment
    and in threads of tensorstore: so this stays for the rest of the process.
    """

    def __init__(self, others: Callable[[Any], object]):
        self._others = others

    def __call__(self, report: Any) -> None:
        if not (isinstance(report.exc_value, RuntimeError) and "loop is closed" in str(report.exc_value)):
            self._others(report)


def _reason(error: BaseException) -> str:
    """An error in a few words; of the long ones of tensorstore the end, where the system's own words are."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(" [")[0]
    return line if len(line) <= 200 else f"... {line[-200:]}"


def open_run(path: str | os.PathLike, config: Any = None, kind: type = TrainConfig) -> Run:
    """Opens the folder of a run.

    Args:
      path: the folder.
      kind: the class of its configuration, where `config` does not tell.
      config: what it is to be continued with. May differ from the run's own in how long it goes on; anything
        else is refused, and the message lists the fields. None takes the run's own.
    """
    path = remote.fetched(path)
    own = read_config(path, kind if config is None else type(config))
    if config is None:
        return Run(path, own)
    differences = _differences(config_to_dict(own), config_to_dict(config))
    differences.pop("iterations", None)
    if differences:
        listed = "; ".join(
            f"{field}: {old!r} there, {new!r} asked" for field, (old, new) in differences.items()
        )
        raise RunError(
            f"{path} was begun with another configuration ({listed}); use its own, or another --out"
        )
    return Run(path, dataclasses.replace(own, iterations=config.iterations))


def read_config(path: str | os.PathLike, *kinds: type) -> Any:
    """The configuration of a run, which must be of one of the classes `kinds`; without any, of TrainConfig."""
    return _config_about(pathlib.Path(path) / "config.json", read_about(path), kinds or (TrainConfig,))


def read_about(path: str | os.PathLike) -> dict[str, Any]:
    """All that config.json tells of a run."""
    path = remote.fetched(path)
    about_path = path / "config.json"
    if not about_path.exists():
        raise RunError(f"{path} holds no run: there is no config.json in it")
    try:
        about = files.read_object(about_path, "configuration of a run")
        check_row(about, _ABOUT)
        return about
    except (files.FileError, ConfigError) as error:
        copies = sorted((path / "checkpoints").glob("*/config.json"))
        offer = f"put the copy {copies[-1]} in its place" if copies else "train anew with another --out"
        raise RunError(f"config.json of {path} is damaged ({error}); {offer}") from error


def export_agent(
    path: str | os.PathLike, config: Any, params: Params, *, half_precision: bool = False
) -> None:
    """Writes weights and configuration alone: all that play needs, loaded in a moment.

    Args:
      path: the file.
      config: of the run.
      params: its weights.
      half_precision: write float32 as float16, half as many bytes; `load_agent` returns float32 either way.
    """
    arrays = named_weights(params)
    if half_precision:
        arrays = {name: _halved(name, array) for name, array in arrays.items()}
    about = json.dumps(_about(config))
    with atomic.writing(path, "wb") as file:
        np.savez(file, about=np.array(about), **arrays)


def named_weights(params: Params) -> dict[str, np.ndarray]:
    """Every array of weights and statistics by its place in the tree, as in the file of an agent."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {f"array:{jax.tree_util.keystr(key)}": np.asarray(leaf) for key, leaf in leaves}


def _halved(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != np.float32:
        return array
    if np.abs(array).max(initial=0) > np.finfo(np.float16).max:
        raise RunError(f"{name} has numbers too large for half precision; keep the agent in single precision")
    return array.astype(np.float16)


def _tower(config: TrainConfig) -> Network:
    return make_network(config.network, config.game)


def load_agent(
    path: str | os.PathLike, kind: type = TrainConfig, network_of: Callable[[Any], Network] = _tower
) -> tuple[Any, Params]:
    """Reads what `export_agent` wrote, or the agent.npz of a run's folder.

    Args:
      path: the file or the folder.
      kind: the class of its configuration.
      network_of: makes the network of a configuration.
    """
    path = remote.fetched(path)
    path = path / "agent.npz" if path.is_dir() else path
    if not path.exists():
        raise RunError(f"there is no agent at {path}; a run writes it with its first checkpoint")
    try:
        arrays = files.read_arrays(path, "agent of azjax")
        about = files.parse_object(str(arrays.pop("about")))
    except (files.FileError, KeyError) as error:
        raise RunError(f"{path} is not an agent of azjax, or damaged ({error})") from error
    config = _config_about(path, about, (kind,))
    expected, structure = jax.tree_util.tree_flatten_with_path(
        jax.eval_shape(network_of(config).init, jax.random.key(0))
    )
    leaves = {f"array:{jax.tree_util.keystr(key)}": leaf for key, leaf in expected}
    arrays = {
        name: array.astype(np.float32)
        if array.dtype == np.float16 and name in leaves and leaves[name].dtype == np.float32
        else array
        for name, array in arrays.items()
    }
    _check_weights(path, arrays, leaves)
    return config, jax.tree_util.tree_unflatten(structure, [arrays[name] for name in leaves])


def _check_weights(path: pathlib.Path, arrays: dict[str, np.ndarray], expected: dict[str, Any]) -> None:
    """Raises RunError, which names an array, unless they are what the network of the configuration has."""
    if different := sorted(arrays.keys() ^ expected.keys()):
        raise RunError(
            f"{path} holds the weights of another network than its configuration says: {different[0]} is "
            + ("missing" if different[0] in expected else "not part of it")
        )
    for name, leaf in expected.items():
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise RunError(
                f"{path} holds the weights of another network than its configuration says: {name} is "
                f"{list(array.shape)} {array.dtype}, expected {list(leaf.shape)} {leaf.dtype}"
            )
        if not np.isfinite(array).all():
            raise RunError(f"{name} of {path} has numbers that are not finite, so that it cannot play")


def _about(config: Any) -> dict[str, Any]:
    return {"format": FORMAT, "kind": type(config).__name__, "config": config_to_dict(config)}


def _config_about(path: pathlib.Path, about: dict[str, Any], kinds: tuple[type, ...]) -> Any:
    if about.get("format") != FORMAT:
        raise RunError(
            f"{path} has format {shown(about.get('format'))}, this azjax reads {FORMAT}: use the azjax that"
            " wrote it (the run's config.json names its version), or train anew"
        )
    written = about.get("kind", TrainConfig.__name__)
    known = {kind.__name__: kind for kind in kinds}
    if not isinstance(written, str) or written not in known:
        expected = " or ".join(known)
        raise KindError(f"{path} belongs to a run with a {shown(written)}, expected one with a {expected}")
    try:
        return config_from_dict(about.get("config"), known[written])
    except ConfigError as error:
        raise RunError(f"{path}: {error}") from error


def _differences(old: dict, new: dict, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    found = {}
    for field in sorted(old.keys() | new.keys()):
        a, b = old.get(field), new.get(field)
        if isinstance(a, dict) and isinstance(b, dict):
            found |= _differences(a, b, f"{prefix}{field}.")
        elif a != b:
            found[prefix + field] = (a, b)
    return found
