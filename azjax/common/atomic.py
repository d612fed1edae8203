"""Whole files: what is written appears complete or not at all, whoever else writes the same file meanwhile."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO

from azjax.common import remote, whole


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields the name of a new file beside `path`, which takes its place at the end, or goes away on failure.

    No two writers share that name: of two who write at the same time, one whole file remains. It ends as `path` does,
    because many writers of pictures and arrays go by the ending.
    """
    if remote.is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            partial = pathlib.Path(folder) / pathlib.PurePath(path).name
            yield partial
            remote.send_file(partial, path)
        return
    with whole.replacing(pathlib.Path(path)) as partial:
        yield partial


@contextlib.contextmanager
def writing(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Yields a file open for writing (text in UTF-8, or bytes with mode "wb") that becomes `path` at the end."""
    with replacing(path) as partial, open(partial, mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file, whole or not at all."""
    with writing(path) as file:
        file.write(text)


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file, whole or not at all."""
    with writing(path, "wb") as file:
        file.write(content)


def append(path: str | os.PathLike, content: str | bytes) -> None:
    """Adds text (in UTF-8) or bytes to the end of a local file, whole or not at all."""
    whole.append(pathlib.Path(path), content.encode() if isinstance(content, str) else content)


def is_partial(path: pathlib.Path) -> bool:
    """Whether a file is what a writer that is at work, or was killed, has written so far."""
    return path.name.startswith(".") and whole.PARTIAL in path.name


def remove_partial(folder: pathlib.Path) -> None:
    """Removes what writers that were killed left in a folder; only for one in which nobody else writes."""
    for path in folder.glob(".*"):
        if is_partial(path):
            path.unlink(missing_ok=True)
