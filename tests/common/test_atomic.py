"""Files appear whole or not at all, also when several processes write the same one."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from azjax import positions
from azjax.common import atomic
from azjax.envs import Hex
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
