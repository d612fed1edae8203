"""Whole files on this machine, for `atomic`, which everybody else uses, and for copies of what lies in buckets."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator

PARTIAL = ".partial"


class WriteError(OSError):
    """A file that cannot be written; the message names it and says why."""


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the name of a new file beside `path`, which takes its place at the end, or goes away on failure."""
    check_is_a_file(path)
    partial = new_name(path)
    try:
        with naming(path, partial):
            yield partial
            with open(partial, "rb") as file:
                os.fsync(file.fileno())  # the content before the name, also when the machine loses its power
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def append(path: pathlib.Path, content: bytes) -> None:
    """Adds to the end of a file all of the content or, where there is no room for it, nothing."""
    check_is_a_file(path)
    with naming(path), open(path, "ab", buffering=0) as file:
        size, left = file.tell(), content
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(size)
            raise


def check_is_a_file(path: pathlib.Path) -> None:
    """Raises WriteError for a device, a pipe or a socket.

    Who may write to the folder, as a superuser may to /dev, would put a file in the place of the device, for everybody.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise WriteError(f"{path} is a device or a pipe; name a file to write")


def new_name(path: pathlib.Path) -> pathlib.Path:
    """A name beside `path` that nobody else uses; it ends as `path` does."""
    return path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}{path.suffix}")


@contextlib.contextmanager
def naming(path: pathlib.Path, *others: pathlib.Path) -> Iterator[None]:
    """Makes errors of the system into a sentence about `path`, unless they are about files beside it and `others`."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        if error.filename not in (None, str(path), *map(str, others)):
            raise
        raise WriteError(f"{path} cannot be written: {error.strerror or error}") from error
