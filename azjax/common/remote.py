"""Folders and files in buckets, as gs://BUCKET/PATH, by way of copies on this machine.

Buckets know neither locks nor appending nor renaming, all of which a run needs; so the work is done in a folder here,
and what has changed is sent after every save. What is read is fetched first. `etils.epath` speaks to the bucket, by
tensorflow or gcsfs, whichever is installed.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from etils import epath

from azjax.common import cache

_REMOTE = re.compile(r"(gs|s3|az):/+(.+)")  # pathlib makes one slash of two
_LAST = "manifest.json"  # of a checkpoint: while it is missing, the checkpoint counts as damaged
_SENT = ".sent"  # beside a copy: what the bucket holds of it
_UNSENT = (".lock", ".partial", _SENT)


class RemoteError(ValueError):
    """A bucket that cannot be read or written; the message says why."""


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path leads to a bucket."""
    return _REMOTE.fullmatch(os.fspath(path)) is not None


def address(path: str | os.PathLike) -> str:
    """The path as people type it, also if it has gone through pathlib."""
    found = _REMOTE.fullmatch(os.fspath(path))
    return os.fspath(path) if found is None else f"{found[1]}://{found[2].rstrip('/')}"


def local(path: str | os.PathLike, use: str = "work") -> pathlib.Path:
    """Where the copy of a remote path lies on this machine, apart for `work` and to `read`; any other path as it is."""
    found = _REMOTE.fullmatch(os.fspath(path))
    if found is None:
        return pathlib.Path(path)
    return cache.folder() / "remote" / use / found[1] / found[2].rstrip("/")


class Mirror(NamedTuple):
    """A folder in a bucket and its copy here."""

    remote: epath.Path
    here: pathlib.Path

    def fetch(self, without: str | None = None) -> None:
        """Makes the copy equal to what the bucket holds, `without` a folder in it.

        If the bucket is as it was left from here, the copy stays as it is: it may hold what could not be sent.
        """
        with _sentences(self.remote, "read"):
            there = dict(_files(self.remote, without))
            known = self._known()
            if there and known == {name: _stamp(path) for name, path in there.items()} and self.here.exists():
                return
            for name in self._files_here():
                if name not in there:
                    (self.here / name).unlink()
            for folder in sorted(self.here.rglob("*/"), reverse=True):  # the deepest first
                with contextlib.suppress(OSError):  # it is not empty
                    folder.rmdir()
            for name, path in there.items():
                stamp = _stamp(path)
                here = self.here / name
                if known.get(name) != stamp or not here.exists():
                    here.parent.mkdir(parents=True, exist_ok=True)
                    here.write_bytes(path.read_bytes())
                    known[name] = stamp
            self._remember({name: known[name] for name in there})

    def send(self) -> None:
        """Makes the bucket equal to the copy: new files first, and of a checkpoint its list of checksums last."""
        with _sentences(self.remote, "written"):
            known, sent = self._known(), self._sizes()
            here = {name: _local_stamp(self.here / name) for name in self._files_here()}
            for name in sorted(here, key=lambda name: (pathlib.PurePath(name).name == _LAST, name)):
                if sent.get(name) != here[name]:
                    target = self.remote / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes((self.here / name).read_bytes())
                    known[name], sent[name] = _stamp(target), here[name]
            for name in sorted(
                known.keys() - here.keys(), key=lambda name: pathlib.PurePath(name).name != _LAST
            ):
                (self.remote / name).unlink(missing_ok=True)
            self._remember({name: known[name] for name in here})

    @property
    def _memory(self) -> pathlib.Path:
        return self.here.with_name(f"{self.here.name}{_SENT}")

    def _files_here(self) -> list[str]:
        return [
            path.relative_to(self.here).as_posix()
            for path in sorted(self.here.rglob("*"))
            if path.is_file() and not any(part in str(path.relative_to(self.here)) for part in _UNSENT)
        ]

    def _remembered(self) -> dict[str, list]:
        try:
            return json.loads(self._memory.read_text())
        except (OSError, ValueError):
            return {}

    def _known(self) -> dict[str, list]:
        """What the bucket held of every file when it was last fetched or sent."""
        return {name: stamps[0] for name, stamps in self._remembered().items()}

    def _sizes(self) -> dict[str, list]:
        """The same for the copy."""
        return {name: stamps[1] for name, stamps in self._remembered().items()}

    def _remember(self, known: dict[str, list]) -> None:
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        both = {name: [stamp, _local_stamp(self.here / name)] for name, stamp in known.items()}
        self._memory.write_text(json.dumps(both))


def mirror(path: str | os.PathLike) -> Mirror:
    """The folder of a bucket and its copy for work; nothing is fetched yet."""
    return Mirror(epath.Path(address(path)), local(path))


def fetched(path: str | os.PathLike) -> pathlib.Path:
    """A local path that holds what a remote file or folder does; any other path as it is.

    Of a run's folder all but its checkpoints is fetched, and what was fetched before only if it has changed.
    """
    if not is_remote(path):
        return pathlib.Path(path)
    remote, here = epath.Path(address(path)), local(path, "read")
    with _sentences(remote, "read"):
        if remote.is_dir():
            Mirror(remote, here).fetch(without="checkpoints")
        elif remote.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            here.write_bytes(remote.read_bytes())
        elif here.is_dir():
            shutil.rmtree(here)
        else:
            here.unlink(missing_ok=True)
    return here


def send_file(here: pathlib.Path, path: str | os.PathLike) -> None:
    """Writes a local file to a bucket, where it appears whole or not at all."""
    remote = epath.Path(address(path))
    with _sentences(remote, "written"):
        remote.write_bytes(here.read_bytes())


def _files(folder: epath.Path, without: str | None = None) -> Iterator[tuple[str, epath.Path]]:
    """All files below a folder, by their names from there, `without` those of one folder in it."""
    waiting = [folder] if folder.is_dir() else []
    while waiting:
        for path in waiting.pop().iterdir():
            if path.is_dir():
                waiting += [path] if path != folder / (without or "") else []
            else:
                yield path.relative_to(folder).as_posix(), path


def _stamp(path: epath.Path) -> list:
    found = path.stat()
    return [found.length, found.mtime]


def _local_stamp(path: pathlib.Path) -> list:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


@contextlib.contextmanager
def _sentences(path: epath.Path, done: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise RemoteError(f"{path} needs another package: pip install 'azjax[gcs]' ({error})") from error
    except Exception as error:  # each library of each bucket has its own
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RemoteError(f"{path} could not be {done} ({line})") from error
