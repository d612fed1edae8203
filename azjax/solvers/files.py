"""Files of solutions: a header that says what they are about, and arrays, in numpy's npz format."""

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from azjax.common import atomic, files

KIND = "azjax solutions"

Header = dict[str, Any]


def write(path: str | os.PathLike, header: Header, arrays: dict[str, np.ndarray]) -> None:
    """Writes a file, whole or not at all."""
    with atomic.writing(path, "wb") as file:
        files.write_arrays(file, {"header": np.array(json.dumps({"kind": KIND} | header)), **arrays})


def read(
    path: str | os.PathLike, expected: Header, numbers: Sequence[str] = (), *, mapped: bool = False
) -> tuple[Header, dict[str, np.ndarray]]:
    """Reads what `write` wrote.

    Args:
      path: the file.
      expected: fields that the header must have.
      numbers: fields of the header that must be whole numbers or flags, whichever.
      mapped: leave large arrays on disk until they are used, see `azjax.common.files.read_arrays`.

    Raises:
      ValueError: the file is damaged, of another kind, or about something else.
      OSError: there is no such file, or it cannot be read.
    """
    try:
        arrays = files.read_arrays(path, "file of solutions", mapped=mapped)
        header = files.parse_object(str(arrays.pop("header")))
    except (files.FileError, KeyError) as error:
        if not os.path.exists(path):
            raise FileNotFoundError(str(error)) from error
        raise ValueError(
            f"{path} is damaged or no file of solutions ({error}); solve again and save anew"
        ) from error
    differences = [
        f"{name} is {header.get(name)!r}, not {value!r}"
        for name, value in ({"kind": KIND} | expected).items()
        if header.get(name) != value
    ]
    if differences:
        raise ValueError(f"{path} is about something else: {', '.join(differences)}; name another file")
    for name in numbers:
        if not isinstance(header.get(name), int):
            raise ValueError(
                f"{path} is damaged: {name} in its header must be a number, got {header.get(name)!r}"
            )
    return header, arrays


def may_be_written_over(path: str | os.PathLike) -> bool:
    """Whether a file looks like one of ours, whole or damaged, and not like something else that somebody needs."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def check_arrays(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[tuple, Any]]
) -> None:
    """Raises ValueError unless the arrays of a file have these names, shapes and types."""
    found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    wanted = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in expected.items()}
    if found != wanted:
        names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        raise ValueError(
            f"{path} does not hold what its header describes ({', '.join(names)}); solve again and save anew"
        )
