"""Files that people hand in, read with care, and files to be written, checked before the work.

Whatever stands in a file, reading it ends with data or with a `FileError`: one sentence that names the file, and the
line where there are lines. Nothing that a file says is executed, and no room is made for more than the file holds.
"""

import contextlib
import json
import math
import os
import pathlib
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from azjax.common import remote, whole

LONGEST_TEXT = 2**30  # bytes; beyond that a text file was not meant
ALIGNMENT = 64  # bytes, as JAX wants arrays that it uses where they are

_WORTH_MAPPING = 2**16  # bytes
_ZIP_HEADER, _ZIP64_FIELD = 30, 20  # bytes, of a member in a zip file
_FILLING = 0xD935  # the field of a zip file that aligns what follows, as Android's tools write it


class FileError(ValueError):
    """A file that cannot be read or written; the message names it and says why."""


def read_text(path: str | os.PathLike, what: str = "file") -> str:
    """The text of a file in UTF-8.

    Args:
      path: the file.
      what: names what was expected there, in messages.
    """
    with _opened(path, what) as file:
        content = file.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT:
        raise FileError(f"{os.fspath(path)} has more than {LONGEST_TEXT:,} bytes, too many for a {what}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(f"{os.fspath(path)}, line {line}: expected text in UTF-8, for a {what}") from error


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; raises FileError, whose message says what is wrong, without a file's name."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise FileError("not a JSON object: it is nested too deeply") from None
    except ValueError as error:  # also of numbers with too many digits
        raise FileError(f"not a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise FileError(f"expected a JSON object, {{...}}, got {_cut(text.strip())}")
    return found


def read_object(path: str | os.PathLike, what: str = "JSON file") -> dict[str, Any]:
    """The JSON object that a file holds."""
    text = read_text(path, what)
    try:
        return parse_object(text)
    except FileError as error:
        raise FileError(f"{os.fspath(path)} is no {what}: {error}") from error


def read_objects(
    path: str | os.PathLike, what: str = "file of JSON lines", *, may_be_cut: bool = False
) -> list[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, one per line, with the numbers of their lines; empty lines are skipped.

    Args:
      path: the file.
      what: names what was expected there, in messages.
      may_be_cut: leave out a last line without a line break that is no JSON, as a crash while writing leaves it.
    """
    lines = read_text(path, what).split("\n")  # not splitlines, which breaks texts at other signs too
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append((number, parse_object(line)))
        except FileError as error:
            if may_be_cut and number == len(lines):
                break
            raise FileError(f"{os.fspath(path)}, line {number}: {error}") from error
    return rows


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an npz file whose arrays begin where a mapped one must, see `read_arrays`."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            # The member's header, and the 20 bytes by which zipfile makes it ready for large files, are filled up by a
            # field that nobody reads; numpy's own header has a multiple of the alignment anyway.
            ahead = file.tell() + _ZIP_HEADER + len(member.filename) + _ZIP64_FIELD + 4
            filling = -ahead % ALIGNMENT
            member.extra = struct.pack(f"<HH{filling}x", _FILLING, filling)
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)


def read_arrays(
    path: str | os.PathLike, what: str = "npz file", *, mapped: bool = False
) -> dict[str, np.ndarray]:
    """The arrays of an npz file, by name; never of Python objects, and never larger than the file says it is.

    Args:
      path: the file.
      what: names what was expected there, in messages.
      mapped: leave large arrays on disk, where they are read as they are used and shared among processes; of files
        that `write_arrays` has written. They cannot be written to.
    """
    try:
        with _opened(path, what, from_anywhere=True) as file, zipfile.ZipFile(file) as archive:
            size = os.fstat(file.fileno()).st_size
            return {
                member.filename.removesuffix(".npy"): _array(archive, member, size, mapped)
                for member in archive.infolist()
            }
    except FileError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for damaged files
        reason = f" ({error})" if str(error) else ""
        raise FileError(f"{os.fspath(path)} is no {what}, or damaged{reason}") from error


def writable_path(path: str | os.PathLike, *others: str | os.PathLike | None) -> pathlib.Path:
    """The path, if a file can be written there; to be asked before the work whose results go there.

    Args:
      path: the file, which need not exist.
      others: files that must not be overwritten by it, such as what is read; None are skipped.

    Raises:
      FileError: says why not.
    """
    path = pathlib.Path(path)
    if remote.is_remote(path):
        return path  # whether it can be written is known when it is
    folder = path.parent
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    try:
        whole.check_is_a_file(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            whole.new_name(path).stat()  # its own name may just fit where that of its beginning does not
    except OSError as error:
        raise FileError(
            str(error) if error.filename is None else f"{path} cannot be written: {error.strerror}"
        ) from error
    if not folder.exists():
        raise FileError(f"there is no folder {folder} to write {path.name} to; make it first")
    if not folder.is_dir():
        raise FileError(f"{folder} is no folder, so that {path.name} cannot be written to it")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise FileError(f"{path} cannot be written: permission denied")
    for other in others:
        if other is not None and path.resolve() == pathlib.Path(other).resolve():
            raise FileError(f"{path} would be overwritten by what is written beside it; name another file")
    return path


def writable_folder(path: str | os.PathLike) -> pathlib.Path:
    """The path, if files can be written into a folder there, which need not exist; raises FileError, which says why."""
    path = pathlib.Path(path)
    if remote.is_remote(path):
        return path  # whether it can be written is known when it is
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise FileError(f"{there} is a file, expected a folder to write to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FileError(f"{there} cannot be written to: permission denied")
    return path


@contextlib.contextmanager
def _opened(path: str | os.PathLike, what: str, *, from_anywhere: bool = False) -> Iterator[BinaryIO]:
    """A file that is there; `from_anywhere`, of which any place can be read, as no pipe allows."""
    name = remote.address(path)
    try:
        path = remote.fetched(path)
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise FileError(f"{name} is a folder, expected a {what}")
        if stat.S_ISFIFO(mode) and from_anywhere:
            raise FileError(f"{name} is a pipe, expected a {what}")
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):  # others, such as /dev/zero, may never end
            raise FileError(f"{name} is a device, expected a {what}")
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise FileError(f"there is no {what} {name}") from error
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror or error}") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int, mapped: bool) -> np.ndarray:
    """One array of an npz file of `size` bytes: what its header claims must be there before room is made for it."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed, which azjax never does")
    if member.file_size > size:
        raise ValueError(f"{member.filename} claims {member.file_size:,} bytes in a file of {size:,}")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, by_column, dtype = np.lib.format.read_array_header_2_0(file)
        claimed = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or min(shape, default=0) < 0 or claimed + file.tell() != member.file_size:
            raise ValueError(
                f"{member.filename} claims an array {list(shape)} of {dtype}, {claimed:,} bytes, which it does not hold"
            )
        header = file.tell()
    begin = _begin(archive, member)
    if mapped and claimed >= _WORTH_MAPPING and not by_column and (begin + header) % ALIGNMENT == 0:
        found = np.memmap(archive.fp.name, np.uint8, "r", begin, (member.file_size,))
        if zlib.crc32(found) != member.CRC:  # reads all of it, a gigabyte in about a second
            raise ValueError(f"{member.filename} has changed since it was written")
        return found[header:].view(dtype).reshape(shape)
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _begin(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Where the content of a member that is not compressed begins in the file."""
    archive.fp.seek(member.header_offset)
    header = archive.fp.read(_ZIP_HEADER)
    name, extra = struct.unpack("<HH", header[26:30])
    return member.header_offset + _ZIP_HEADER + name + extra


def _cut(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}..."
