"""Files appear whole or not at all, also when several processes write the same one."""

import errno
import os
import pathlib
import re
import resource
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from azjax import positions
from azjax.common import atomic, whole
from azjax.envs import GameError, Hex
from azjax.positions import openings_database
from azjax.solvers import files

ROOT = pathlib.Path(__file__).parents[2]


def test_two_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    """With one temporary name the second would write into what the first is about to rename."""
    path = tmp_path / "table.json"
    with atomic.writing(path) as first, atomic.writing(path) as second:
        first.write("first " * 1000)
        second.write("second " * 1000)
    assert path.read_text() == "first " * 1000  # the second ended before
    assert os.listdir(tmp_path) == ["table.json"]


def test_processes_that_write_one_file_again_and_again_never_leave_half_of_it(tmp_path):
    code = """
import sys
from azjax.common import atomic
for _ in range(100):
    atomic.write_text(sys.argv[1], sys.argv[2] * 100_000)
"""
    path = tmp_path / "table.txt"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), letter], cwd=ROOT, stderr=subprocess.PIPE)
        for letter in "ab"
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            text = path.read_text()
            assert len(text) == 100_000
            seen.update(text)
    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert seen <= {"a", "b"} and seen
    assert os.listdir(tmp_path) == ["table.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.json"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="on the way"), atomic.writing(path) as file:
        file.write("new")
        raise RuntimeError("on the way")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["table.json"]


def test_a_full_disk_is_a_sentence_that_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "table.json"
    monkeypatch.setattr(os, "fsync", refuse_for_want_of_room)
    with pytest.raises(
        whole.WriteError, match=re.escape(f"{path} cannot be written: No space left on device")
    ):
        atomic.write_text(path, "new")
    assert os.listdir(tmp_path) == []


def refuse_for_want_of_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_errors_about_other_files_are_left_as_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"other\.txt"), atomic.writing(tmp_path / "table.json"):
        (tmp_path / "other.txt").read_text()


def test_what_does_not_fit_behind_a_file_is_not_added_in_part(tmp_path):
    path = tmp_path / "lines.jsonl"
    atomic.append(path, "one\n")
    _, largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails, as on a full disk
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, largest))
        with pytest.raises(whole.WriteError, match=r"lines\.jsonl cannot be written: File too large"):
            atomic.append(path, b"two and three\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "one\n"
    atomic.append(path, "four\n")
    assert path.read_text() == "one\nfour\n"


@pytest.mark.parametrize("write", [atomic.write_text, atomic.append])
def test_a_device_or_a_pipe_is_never_replaced(tmp_path, write):
    """The superuser may write to /dev: a file in the place of /dev/null would be everybody's."""
    os.mkfifo(path := tmp_path / "pipe")
    (link := tmp_path / "link").symlink_to(path)
    for name in (path, link):
        with pytest.raises(whole.WriteError, match="is a device or a pipe; name a file to write"):
            write(name, "text")
    assert path.is_fifo() and link.is_symlink()


def test_an_openings_database_on_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    connect = sqlite3.connect

    def without_room(path):
        database = connect(path)
        database.execute("PRAGMA max_page_count = 1")
        return database

    monkeypatch.setattr(sqlite3, "connect", without_room)
    with pytest.raises(GameError, match=r"x\.db cannot be written: database or disk is full"):
        openings_database.write(tmp_path / "x.db", Hex(size=3), [(0,), (1, 2)])
    assert os.listdir(tmp_path) == []


WRITERS = {
    "solutions": lambda path: files.write(path, {"game": "hex"}, {"values": np.zeros(3)}),
    "positions": lambda path: positions.write_positions(path, [{"game": "hex", "size": 3}]),
    "openings": lambda path: openings_database.write(path, Hex(size=3), [(0,), (1, 2)]),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_caches_and_exports_share_no_temporary_name(tmp_path, write, monkeypatch):
    """What another writer has under way beside the file is not touched."""
    used = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: used.append(str(old)) or replace(old, new))
    for _ in range(2):
        write(tmp_path / "shared.npz")
    assert len(set(used)) == 2
    assert os.listdir(tmp_path) == ["shared.npz"]
