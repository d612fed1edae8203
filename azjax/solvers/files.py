"""Files of solutions: a header that says what they are about, and arrays, in numpy's npz format."""

import json
import os
import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np

KIND = "azjax solutions"

Header = dict[str, Any]


def write(path: str | os.PathLike, header: Header, arrays: dict[str, np.ndarray]) -> None:
    """Writes a file, whole or not at all."""
    path = pathlib.Path(path)
    beside = path.with_name(path.name + ".new")  # moved at the end, so that there is always a whole file
    with open(beside, "wb") as file:
        np.savez(file, header=np.array(json.dumps({"kind": KIND} | header)), **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def read(path: str | os.PathLike, expected: Header) -> tuple[Header, dict[str, np.ndarray]]:
    """Reads what `write` wrote.

    Args:
      path: the file.
      expected: fields that the header must have.

    Raises:
      ValueError: the file is damaged, of another kind, or about something else.
      OSError: there is no such file, or it cannot be read.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            header = json.loads(str(arrays["header"]))
            _check(path, header, {"kind": KIND} | expected)
            return header, {name: arrays[name] for name in arrays.files if name != "header"}
    except _DoesNotFitError:
        raise
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no file of solutions; solve again and save anew") from error


class _DoesNotFitError(ValueError):
    pass


def _check(path: str | os.PathLike, header: Header, expected: Header) -> None:
    differences = [
        f"{name} is {header.get(name)!r}, not {value!r}"
        for name, value in expected.items()
        if header.get(name) != value
    ]
    if differences:
        raise _DoesNotFitError(f"{path} is about something else: {', '.join(differences)}; name another file")
