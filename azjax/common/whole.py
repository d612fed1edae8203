"""Whole files on this machine, for `atomic`, which everybody else uses, and for copies of what lies in buckets."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator

PARTIAL = ".partial"


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the name of a new file beside `path`, which takes its place at the end, or goes away on failure."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}{path.suffix}")
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())  # the content before the name, also when the machine loses its power
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
