"""Paths in buckets, on a file system in memory that stands for one."""

import dataclasses
import os
import pathlib

import jax
import numpy as np
import pytest

from azjax.common import atomic, files, remote
from azjax.envs import Hex
from azjax.positions import read_positions, write_positions
from azjax.training import checkpoint, profiling
from tests.buckets import Bucket
from tests.loop_cases import SIX, make_walk, walk

RUN = "gs://bucket/runs/walk"


def another_machine(monkeypatch, tmp_path):
    """From now on nothing that was copied is here any more."""
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "another"))


def test_an_address_survives_pathlib():
    assert remote.address(pathlib.Path(RUN)) == RUN
    assert remote.is_remote(pathlib.Path(RUN)) and not remote.is_remote("runs/gs/walk")


def test_a_run_in_a_bucket_is_resumed_on_another_machine_as_if_it_had_never_left(
    bucket, tmp_path, monkeypatch
):
    run, said = walk(RUN, dataclasses.replace(SIX, iterations=4))
    assert run.resume_command == f"azjax resume {RUN}"
    assert sorted(path.name for path in (bucket / "runs/walk/checkpoints").iterdir()) == ["2", "4"]
    another_machine(monkeypatch, tmp_path)
    run, said = walk(RUN, resume=True)
    assert f"continuing {RUN} after iteration 4" in said
    whole, _ = walk(tmp_path / "local")
    assert [row["iteration"] for row in run.read_metrics()] == [1, 2, 3, 4, 5, 6]
    for name in ("agents/6.npz", "agent.npz"):
        with np.load((bucket / "runs/walk" / name).open("rb")) as there, np.load(whole.path / name) as here:
            np.testing.assert_array_equal(there["array:['walk']"], here["array:['walk']"])


def test_a_checkpoint_that_was_half_sent_is_set_aside(bucket, tmp_path, monkeypatch):
    walk(RUN)
    (bucket / "runs/walk/checkpoints/6/manifest.json").unlink()  # which is sent last
    another_machine(monkeypatch, tmp_path)
    run, said = walk(RUN, resume=True)
    assert any(line.startswith("checkpoint 6 is damaged (manifest.json is missing)") for line in said)
    assert run.iterations == [2, 4, 6] and run.damage(6) is None
    assert (bucket / "runs/walk/checkpoints/6/manifest.json").exists()


def test_a_folder_of_a_bucket_that_holds_a_run_is_refused_and_only_three_checkpoints_are_kept(
    bucket, tmp_path, monkeypatch
):
    walk(RUN, dataclasses.replace(SIX, iterations=10))
    kept = {name.split("/")[0] for name in remote._files(bucket / "runs/walk/checkpoints")}
    assert kept == {"6", "8", "10"}  # here there may be empty folders besides, which buckets do not have
    another_machine(monkeypatch, tmp_path)
    with pytest.raises(checkpoint.RunError, match=f"{RUN} already holds a run"):
        walk(RUN)


def test_a_bucket_that_cannot_be_written_stops_the_run_with_a_sentence(bucket, monkeypatch):
    def refuse(self, *arguments, **options):
        raise PermissionError("403 Forbidden")

    def make(config):
        monkeypatch.setattr(Bucket, "_open", refuse)
        return make_walk(config)

    with pytest.raises(ValueError, match=r"gs://bucket/runs/walk could not be .*403 Forbidden"):
        walk(RUN, make=make)


def test_what_could_not_be_sent_is_sent_by_the_next_command(bucket, monkeypatch):
    walk(RUN, dataclasses.replace(SIX, iterations=2))
    with monkeypatch.context() as patch:
        patch.setattr(remote.Mirror, "send", lambda place: (_ for _ in ()).throw(OSError("no network")))
        with pytest.raises(OSError, match="no network"):
            walk(RUN, dataclasses.replace(SIX, iterations=4), resume=True)
    _, said = walk(RUN, resume=True)
    assert f"continuing {RUN} after iteration 4" in said
    kept = {name.split("/")[0] for name in remote._files(bucket / "runs/walk/checkpoints")}
    assert kept == {"2", "4", "6"}


def test_commands_that_fetch_the_same_file_never_show_each_other_half_of_it(bucket, tmp_path, monkeypatch):
    """They share the copy: whoever reads it has the old one or the new one, and two writers no name in common."""
    atomic.write_text("gs://bucket/notes.txt", "old")
    here = remote.fetched("gs://bucket/notes.txt")
    atomic.write_text("gs://bucket/notes.txt", "new")
    seen, replace = [], os.replace

    def noted(old, new):
        seen.append((pathlib.Path(old), here.read_text()))
        replace(old, new)

    monkeypatch.setattr(os, "replace", noted)
    for expected in ("old", "new"):
        assert remote.fetched("gs://bucket/notes.txt").read_text() == "new"
        assert seen[-1][1] == expected
    assert seen[0][0] != seen[1][0]


def test_agents_and_position_files_are_read_from_a_bucket_and_written_to_it(bucket, tmp_path, monkeypatch):
    walk(RUN)
    another_machine(monkeypatch, tmp_path)
    assert checkpoint.read_config(RUN) == SIX
    walk(RUN, dataclasses.replace(SIX, iterations=8), resume=True)  # agent.npz stays as large as it is
    assert checkpoint.read_config(RUN).iterations == 6
    assert (remote.fetched(RUN) / "agent.npz").read_bytes() == (bucket / "runs/walk/agent.npz").read_bytes()
    name = "gs://bucket/positions.jsonl"
    lines = [{"game": "hex", "size": 2, "moves": ["a1"]}]
    write_positions(name, lines)
    (line,) = read_positions(name)
    assert line.game == Hex(2) and line.fields["moves"] == ["a1"]
    atomic.write_text("gs://bucket/notes.txt", "two\n")
    assert files.read_text("gs://bucket/notes.txt") == "two\n"
    with pytest.raises(files.FileError, match="there is no file gs://bucket/nothing"):
        files.read_text("gs://bucket/nothing")


def test_a_trace_is_kept_in_a_bucket(bucket):
    with profiling.tracing(pathlib.Path("gs://bucket/traces/walk")):  # as the command line has it
        jax.block_until_ready(jax.numpy.ones(3))
    (trace,) = (bucket / "traces/walk/plugins/profile").glob("*/*.xplane.pb")
    assert trace.read_bytes()
