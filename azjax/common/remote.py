"""Folders and files in buckets, as gs://BUCKET/PATH, by way of copies on this machine.

Buckets know neither locks nor appending nor renaming, all of which a run needs; so the work is done in a folder here,
and what has changed is sent after every save. What is read is fetched first. `etils.epath` speaks to the bucket, by
tensorflow or gcsfs, whichever is installed.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from etils import epath

from azjax.common import cache, whole

_REMOTE = re.compile(r"(gs|s3|az):/+(.+)")  # pathlib makes one slash of two
_LIST = ".contents.json"  # in the bucket: its files and their checksums, as its times are not to be relied on
_LAST = "manifest.json"  # of a checkpoint: while it is missing, the checkpoint counts as damaged
_SENT = ".sent"  # beside a copy: what the bucket holds of it
_UNSENT = (".lock", ".partial", _SENT, _LIST)


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
            there = {name: known for name, known in self._listed().items() if name.split("/")[0] != without}
            if there and there == self._remembered() and self.here.exists():
                return
            for name in self._names():
                if name not in there:
                    (self.here / name).unlink()
            for folder in sorted(self.here.rglob("*/"), reverse=True):  # the deepest first
                with contextlib.suppress(OSError):  # it is not empty
                    folder.rmdir()
            for name, known in there.items():
                here = self.here / name
                if known is None or not here.exists() or checksum(here) != known:
                    with contextlib.suppress(FileNotFoundError):  # who reads the folder says what that means
                        content = (self.remote / name).read_bytes()
                        _write_whole(here, content)
            self._remember(there)

    def send(self) -> None:
        """Makes the bucket equal to the copy: of a checkpoint its checksums after the rest, and the list at the end."""
        with _sentences(self.remote, "written"):
            known = self._remembered()
            here = {name: checksum(self.here / name) for name in self._names()}
            for name in sorted(here, key=lambda name: (pathlib.PurePath(name).name == _LAST, name)):
                if known.get(name) != here[name]:
                    target = self.remote / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes((self.here / name).read_bytes())
            (self.remote / _LIST).write_text(json.dumps(here))
            self._remember(here)
            for name in known.keys() - here.keys():
                (self.remote / name).unlink(missing_ok=True)

    @property
    def _memory(self) -> pathlib.Path:
        return self.here.with_name(f"{self.here.name}{_SENT}")

    def _names(self) -> list[str]:
        """The files of the copy."""
        names = [path.relative_to(self.here) for path in sorted(self.here.rglob("*")) if path.is_file()]
        return [name.as_posix() for name in names if not any(part in str(name) for part in _UNSENT)]

    def _listed(self) -> dict[str, str | None]:
        """The files of the bucket with their checksums, None where it was filled by other means."""
        try:
            return json.loads((self.remote / _LIST).read_text())
        except FileNotFoundError:
            return dict.fromkeys(_files(self.remote))

    def _remembered(self) -> dict[str, str | None]:
        """What the bucket held when it was last fetched or sent."""
        try:
            return json.loads(self._memory.read_text())
        except (OSError, ValueError):
            return {}

    def _remember(self, listed: dict[str, str | None]) -> None:
        _write_whole(self._memory, json.dumps(listed).encode())


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
            _write_whole(here, remote.read_bytes())
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


def _write_whole(here: pathlib.Path, content: bytes) -> None:
    """Writes a copy, which other commands may read or write meanwhile, whole or not at all."""
    here.parent.mkdir(parents=True, exist_ok=True)
    with whole.replacing(here) as partial:
        partial.write_bytes(content)


def _files(folder: epath.Path) -> Iterator[str]:
    """All files below a folder, by their names from there."""
    waiting = [folder] if folder.is_dir() else []
    while waiting:
        for path in waiting.pop().iterdir():
            if path.is_dir():
                waiting.append(path)
            else:
                yield path.relative_to(folder).as_posix()


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _sentences(path: epath.Path, done: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise RemoteError(f"{path} needs another package: pip install 'azjax[gcs]' ({error})") from error
    except Exception as error:  # each library of each bucket has its own
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RemoteError(f"{path} could not be {done} ({line})") from error
