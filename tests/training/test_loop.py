"""The life of a run: started, stopped, damaged, locked out, out of room, and never losing what was saved."""

import dataclasses
import errno
import gc
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.common import beside
from azjax.training import checkpoint, loop
from azjax.training.checkpoint import RunError
from tests.loop_cases import SIX, Walk, make_walk, walk

ROOT = pathlib.Path(__file__).parents[2]
LIKE = Walk(jnp.zeros(1000), jnp.int32(0))


def content(folder):
    """All files of a folder with their bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def start_process(folder, *options):
    command = [sys.executable, "-m", "tests.loop_cases", str(folder), *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def until_first_iteration(process):
    while (line := process.stdout.readline().strip()) != "x":
        assert process.poll() is None, line + process.stderr.read()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six iterations with checkpoints 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    walk(folder)
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "copied"))


def largest_data(folder):
    return max((folder / "state").rglob("d/*"), key=lambda path: path.stat().st_size)


def flip(folder):
    path = largest_data(folder)
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 4
    path.write_bytes(data)


def cut(folder):
    path = largest_data(folder)
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES = {
    "a bit flipped": flip,
    "a byte cut off": cut,
    "a file removed": lambda folder: largest_data(folder).unlink(),
    "a file emptied": lambda folder: largest_data(folder).write_bytes(b""),
    "the list emptied": lambda folder: (folder / "manifest.json").write_bytes(b""),
    "the list removed": lambda folder: (folder / "manifest.json").unlink(),
    "the list of another kind": lambda folder: (folder / "manifest.json").write_text("[1, null]"),
    "everything removed": lambda folder: [shutil.rmtree(folder), folder.mkdir()],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_checkpoint_is_set_aside_and_saved_anew(copied, whole, damage, capfd):
    """Checked on disk: the walk takes the same way again, so that equal weights alone would not show it."""
    damage(copied / "checkpoints" / "6")
    run, said = walk(copied, resume=True)
    assert any(line.startswith("checkpoint 6 is damaged (") and "set-aside/6-1" in line for line in said)
    assert f"continuing {copied} after iteration 4" in said
    assert (copied / "set-aside" / "6-1").is_dir()
    assert run.iterations == [2, 4, 6] and run.damage(6) is None
    again = checkpoint.open_run(copied).restore(LIKE)
    np.testing.assert_array_equal(again.weights, checkpoint.open_run(whole).restore(LIKE).weights)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_left_as_it_is(copied):
    for step in ("2", "4", "6"):
        flip(copied / "checkpoints" / step)
    before = content(copied)
    with pytest.raises(
        RunError, match=r"none of its checkpoints is whole \(6: state/.* changed .*; 4: .*; 2: "
    ):
        walk(copied, resume=True)
    assert content(copied) == before


def test_going_on_from_an_earlier_checkpoint_sets_the_later_ones_aside(copied):
    """Else a run that is stopped on its second way would go on from the first way's newest."""
    walk(copied, dataclasses.replace(SIX, iterations=5), resume_from=2)
    assert checkpoint.open_run(copied).iterations == [2, 4, 5]
    assert sorted(path.name for path in (copied / "set-aside").iterdir()) == ["4-1", "6-1"]
    flip(copied / "checkpoints" / "2")
    with pytest.raises(RunError, match=r"checkpoint 2 of .* is damaged .*leave out --resume-from"):
        walk(copied, resume_from=2)


def test_a_changed_configuration_is_noticed_by_its_copies(copied):
    path = copied / "config.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(RunError, match=r"changed since checkpoint 6 .*seed: 0 then, 1 now"):
        walk(copied, dataclasses.replace(SIX, seed=1), resume=True)
    path.write_text("{")
    with pytest.raises(
        RunError, match=r"config\.json of .* is damaged .*put the copy .*checkpoints/6/config\.json"
    ):
        walk(copied, resume=True)


def test_a_run_whose_checkpoints_are_gone_is_refused_and_left_as_it_is(copied):
    shutil.rmtree(copied / "checkpoints")
    before = content(copied)
    with pytest.raises(RunError, match=r"checkpoints are gone; .* metrics of 6 iterations and .*agent\.npz"):
        walk(copied, resume=True)
    assert content(copied) == before


def test_a_run_killed_before_its_first_checkpoint_begins_anew(copied, whole):
    for name in ("checkpoints", "agents"):
        shutil.rmtree(copied / name)
    (copied / "agent.npz").unlink()
    run, said = walk(copied, resume=True)
    assert f"{copied} had saved nothing: it begins anew" in said
    assert [row["iteration"] for row in run.read_metrics()] == [1, 2, 3, 4, 5, 6]


def test_a_finished_run_says_so_and_stays_as_it_is(copied):
    before = content(copied)
    _, said = walk(copied, resume=True)
    advice = f"make it longer with: azjax resume {copied} --iterations N"
    assert said == [f"{copied} has made all its 6 iterations; {advice}"]
    assert content(copied) == before


def test_a_damaged_line_of_the_metrics_costs_no_other(copied):
    path = copied / "metrics.jsonl"
    lines = path.read_bytes().splitlines()
    lines[1], lines[3] = b'{"iteration": 2, \xff', b"[" * 100_000
    path.write_bytes(b"\n".join(lines) + b"\n")
    run, said = walk(copied, dataclasses.replace(SIX, iterations=7), resume=True)
    assert [row["iteration"] for row in run.read_metrics()] == [1, 3, 5, 6, 7]
    assert (copied / "metrics.damaged").read_bytes().splitlines() == [lines[1], lines[3]]
    assert any("2 lines that cannot be read" in line for line in said)
    assert any("no rows of 2 of the 6 iterations" in line for line in said)


def test_seconds_go_on_over_resumes(copied):
    longer = dataclasses.replace(SIX, iterations=8)
    path = copied / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"seconds": 100 * row["iteration"]}) + "\n" for row in rows))
    run, _ = walk(copied, longer, resume=True)
    seconds = [row["seconds"] for row in run.read_metrics()]
    assert seconds[5] == 600 and seconds == sorted(seconds) and len(seconds) == 8


def fail_to_compile(config):
    def compile(state):
        raise RuntimeError("out of memory")

    return make_walk(config)._replace(compile=compile)


def fail_to_begin(config):
    raise ValueError("replay.groups must be a multiple of the number of devices")


def fail_while_compiling(config):
    def compile(state):
        signal.raise_signal(signal.SIGTERM)

    return make_walk(config)._replace(compile=compile)


def fail_before_the_first_save(config):
    learning = make_walk(config)

    def rows(measured, count):
        if measured[0] == 2:
            raise KeyboardInterrupt
        return learning.rows(measured, count)

    return learning._replace(rows=rows)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (fail_to_begin, ValueError),
        (fail_to_compile, RuntimeError),
        (fail_while_compiling, KeyboardInterrupt),
        (fail_before_the_first_save, KeyboardInterrupt),
    ],
)
def test_a_start_that_failed_leaves_nothing_behind(tmp_path, make, error, exists):
    folder = tmp_path / "runs" / "new"
    if exists:
        folder.mkdir(parents=True)
    with pytest.raises(error):
        walk(folder, make=make)
    assert list(tmp_path.rglob("*")) == ([folder.parent, folder] if exists else [])
    walk(folder, dataclasses.replace(SIX, iterations=1))  # a retry works


NAN = float("nan")


@pytest.mark.parametrize(
    ("spoilt", "what"),
    [
        ({"loss": {"policy": NAN, "value": 1.0}}, "loss.policy"),
        ({"loss": [1.0, float("-inf")]}, "loss.1"),
        ({"skipped_in_a_row": 10}, "gradients of 10 updates in a row"),
    ],
)
def test_numbers_that_are_not_finite_stop_the_run(tmp_path, spoilt, what):
    seen = []
    with pytest.raises(loop.DivergedError) as caught:
        walk(tmp_path, make=lambda config: make_walk(config, {5: spoilt}), watch=seen.append)
    assert str(caught.value) == (
        f"stopped at iteration 5, because these are not finite: {what}; the last good checkpoint is 4 in {tmp_path};"
        " try shorter steps in another folder"
    )
    run = checkpoint.open_run(tmp_path)
    assert run.iterations == [2, 4] and len(seen) == 4
    assert [row["iteration"] for row in run.read_metrics()] == [1, 2, 3, 4, 5]
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text


def test_nine_skipped_updates_in_a_row_do_not_stop_a_run(tmp_path):
    run, _ = walk(tmp_path, make=lambda config: make_walk(config, {5: {"skipped_in_a_row": 9}}))
    assert run.iterations[-1] == 6


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    spoilt = {4: {"weights": jnp.full(1000, jnp.inf), "loss": {"total": 1.0}}}
    with pytest.raises(
        loop.DivergedError, match="stopped at iteration 4, because these are not finite: weights"
    ):
        walk(tmp_path, make=lambda config: make_walk(config, spoilt))
    run = checkpoint.open_run(tmp_path)
    assert run.iterations == [2] and run.snapshots == [2]
    with np.load(tmp_path / "agent.npz") as agent:
        assert np.isfinite(agent["array:['walk']"]).all()


def test_a_run_that_diverges_before_its_first_save_keeps_its_metrics(tmp_path):
    with pytest.raises(loop.DivergedError, match="nothing had been saved yet"):
        walk(tmp_path, make=lambda config: make_walk(config, {1: {"loss": NAN}}))
    assert checkpoint.open_run(tmp_path).read_metrics()[0]["loss"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_iteration_with_everything_saved(tmp_path, number):
    def watch(row):
        if row["iteration"] == 3:
            signal.raise_signal(number)

    before = signal.getsignal(number)
    run, said = walk(tmp_path, watch=watch)
    assert run.interrupted and run.iterations == [2, 4]  # the fourth was under way when the third was told of
    assert run.preempted is (number == signal.SIGTERM)
    assert said[-1] == f"interrupted and saved; continue with: azjax resume {tmp_path}"
    assert signal.getsignal(number) is before
    run, _ = walk(tmp_path, resume=True)
    assert not run.interrupted and [row["iteration"] for row in run.read_metrics()] == [1, 2, 3, 4, 5, 6]


def test_a_second_signal_stops_at_once(tmp_path):
    def watch(row):
        if row["iteration"] == 3:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path, watch=watch)
    assert checkpoint.open_run(tmp_path).iterations == [2]


def test_two_commands_in_one_folder_refuse_each_other(tmp_path):
    """Also after SIGKILL, when nobody could tidy up, the folder is free again."""
    folder = tmp_path / "run"
    with start_process(folder, "--hold") as process:
        until_first_iteration(process)
        with pytest.raises(RunError, match=f"is in use by process {process.pid} on "):
            walk(folder, resume=True)
        process.send_signal(signal.SIGTERM)
        process.stdin.write("\n\n")  # for the iteration it tells of, and the one under way
        process.stdin.flush()
        output = process.stdout.read()
        assert process.wait(timeout=60) == 130, process.stderr.read()
        assert f"interrupted and saved; continue with: azjax resume {folder}" in output
        assert not (folder / ".lock").exists()
    with start_process(folder, "--resume", "--hold") as process:
        until_first_iteration(process)
        process.kill()
        process.wait(timeout=60)
    assert (folder / ".lock").exists()
    run, _ = walk(folder, resume=True)
    assert run.iterations[-1] == 6


def test_two_new_runs_in_one_folder_refuse_each_other(tmp_path):
    def second(config):
        with pytest.raises(RunError, match=f"is in use by process {os.getpid()} on "):
            walk(tmp_path)
        return make_walk(config)

    walk(tmp_path, make=second)


def test_a_folder_that_cannot_be_locked_says_so(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(checkpoint.fcntl, "flock", refuse)
    run, said = walk(tmp_path)
    assert any("cannot be locked" in line and "No locks available" in line for line in said)
    assert run.iterations[-1] == 6


def no_room(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("function", ["os.replace", "os.rename", "os.fsync", "shutil.copyfile"])
def test_a_full_disk_is_one_sentence_and_costs_nothing_that_was_saved(copied, monkeypatch, function):
    longer = dataclasses.replace(SIX, iterations=8)

    def watch(row):
        if row["iteration"] == 7:
            monkeypatch.setattr(function, no_room)

    with pytest.raises(
        RunError, match=r"of .* could not be written \(.*No space left on device\); checkpoint 6 and"
    ):
        walk(copied, longer, resume=True, watch=watch)
    monkeypatch.undo()
    opened = checkpoint.open_run(copied)
    assert opened.damage(6) is None and opened.iterations[-1] in (6, 8)
    run, _ = walk(copied, longer, resume=True)
    assert run.iterations[-1] == 8 and run.damage(8) is None
    assert not [path for path in copied.rglob("*") if ".partial" in path.name]


@pytest.mark.parametrize("iteration", [2, 6])
def test_a_save_counts_once_its_agents_are_there(tmp_path, iteration):
    """The run ends with iteration 6, so that nobody would export its agents later."""

    def make(config):
        learning = make_walk(config)

        def export(run, number, state):
            if number == iteration:
                raise OSError(errno.ENOSPC, "No space left on device")
            learning.export(run, number, state)

        return learning._replace(export=export)

    with pytest.raises(RunError, match=f"checkpoint {iteration} of .*No space left on device"):
        walk(tmp_path, make=make)
    if iteration == 2:
        assert list(tmp_path.iterdir()) == []
        return
    run, _ = walk(tmp_path, resume=True)
    assert run.iterations == run.snapshots == [2, 4, 6]
    assert (tmp_path / "agent.npz").read_bytes() == (tmp_path / "agents" / "6.npz").read_bytes()


def test_a_run_killed_during_its_first_save_begins_anew(copied):
    """Its agents were written, and the checkpoint was about to count."""
    for step in (4, 6):
        shutil.rmtree(copied / "checkpoints" / str(step))
        (copied / "agents" / f"{step}.npz").unlink()
    (copied / "checkpoints" / "2").rename(copied / "checkpoints" / "2.partial")
    run, said = walk(copied, resume=True)
    assert f"{copied} had saved nothing: it begins anew" in said
    assert run.iterations == run.snapshots == [2, 4, 6]


def test_a_folder_that_orbax_could_not_read_is_refused(tmp_path):
    with pytest.raises(RunError, match="has a bracket in its name"):
        walk(tmp_path / "run[1]")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_grow_is_one_sentence_without_tracebacks(copied, capfd):
    """The operating system refuses, so that orbax fails inside, and reports it in its own ways."""
    longer = dataclasses.replace(SIX, iterations=8)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def watch(row):
        if row["iteration"] == 7:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2500, hard))  # bytes: a row fits, the weights do not

    try:
        with pytest.raises(RunError, match=r"checkpoint 8 of .* could not be written \(.*[Ff]ile too large"):
            walk(copied, longer, resume=True, watch=watch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    gc.collect()  # asyncio reports failures that nobody asked about when they are collected
    assert "Traceback" not in "".join(capfd.readouterr())
    run, _ = walk(copied, longer, resume=True)
    assert run.iterations[-1] == 8 and run.damage(8) is None


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path, monkeypatch):
    def refuse(path, *arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(
        RunError, match=r"new cannot be written to \(.*Read-only file system.*choose another --out"
    ):
        walk(tmp_path / "new")


def test_a_start_that_was_killed_can_be_made_again(tmp_path):
    """A process can die before its folder is a run: its lock, or a part of its first file, is all there is."""
    (tmp_path / ".lock").write_text("process 1 on nowhere\n")
    (tmp_path / ".config.1-00ff.partial.json").write_text("{")
    run, _ = walk(tmp_path)
    assert run.iterations[-1] == 6
    assert not list(tmp_path.glob(".*partial*"))


def wait_for(event):
    assert event.wait(60)
    return {"judged": True}


def test_a_run_goes_on_while_it_is_judged_and_its_lines_stay_in_order(tmp_path):
    """The judgement of iteration 2 ends when iteration 4 is made: had the run waited for it, neither would."""
    fourth, told = threading.Event(), []

    def make(config):
        learning = make_walk(config)

        def rows(measured, count):
            if measured[0] == 4:
                fourth.set()
            return learning.rows(measured, count)

        return learning._replace(rows=rows, judge=lambda state, row: wait_for(fourth), judge_every=2)

    run, _ = walk(tmp_path, make=make, watch=told.append)
    rows = run.read_metrics()
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["iteration"] for row in rows if "judged" in row] == [2, 4, 6]
    assert told == rows


def test_a_checkpoint_is_saved_when_all_lines_up_to_it_are_written(tmp_path):
    """Else a run killed in between would have lost them."""
    lines = []

    def make(config):
        learning = make_walk(config)

        def export(run, iteration, state):
            lines.append((iteration, [row["iteration"] for row in run.read_metrics()][:iteration]))

        slow = {"judge": lambda state, row: time.sleep(0.05) or {}, "judge_every": 2}
        return learning._replace(export=export, **slow)

    walk(tmp_path, make=make)
    assert lines == [(number, list(range(1, number + 1))) for number in (2, 4, 6)]


def test_an_error_of_a_judge_stops_the_run_and_keeps_what_was_saved(tmp_path):
    def judge(state, row):
        if row["iteration"] == 4:
            raise ValueError("the solver has no table")
        return {}

    with pytest.raises(ValueError, match="the solver has no table"):
        walk(tmp_path, make=lambda config: make_walk(config)._replace(judge=judge, judge_every=1))
    run = checkpoint.open_run(tmp_path)
    assert run.iterations == [2] and len(run.read_metrics()) == 3


def test_a_preempted_run_waits_for_its_judge_only_so_long(tmp_path, monkeypatch):
    """Whoever sends SIGTERM takes the machine soon; what is saved can be judged later."""
    monkeypatch.setattr(loop, "PATIENCE", 0.1)
    released = threading.Event()

    def make(config):
        learning = make_walk(config)

        def rows(measured, count):
            if measured[0] == 3:
                signal.raise_signal(signal.SIGTERM)
            return learning.rows(measured, count)

        return learning._replace(rows=rows, judge=lambda state, row: wait_for(released), judge_every=3)

    try:
        run, _ = walk(tmp_path, make=make)
        assert run.preempted and run.iterations == [2, 4] and run.damage(4) is None
        assert beside.is_busy()
        assert [row["iteration"] for row in run.read_metrics()] == [1, 2, 3, 4]
        assert not any("judged" in row for row in run.read_metrics())
    finally:
        released.set()


def consume(state, kept):
    """What a donated state is afterwards, unless a part of it lives on in the next one."""
    for leaf in jax.tree.leaves(state):
        if not any(leaf is other for other in jax.tree.leaves(kept)):
            leaf.delete()


def make_consuming(config, most=1, counts=None):
    """A walk whose iterations consume the state they are given, several at once."""
    learning = make_walk(config)
    (one, _), counts = learning.compile(learning.init()), [] if counts is None else counts

    def iterate(state, count):
        counts.append(count)
        measured, before = [], state
        for _ in range(count):
            state, row = one(state, 1)
            measured.append(jax.tree.map(jnp.copy, row))  # a compiled program has outputs of its own
        consume(before, state)
        return state, measured

    def rows(measured, count):
        return [learning.rows(row, 1)[0] for row in measured]

    return learning._replace(compile=lambda state: (iterate, "compiled"), rows=rows, most=most)


def test_iterations_that_are_made_at_once_and_consume_their_state_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "TOGETHER_SECONDS", 1e9)  # the longest are short
    config = dataclasses.replace(SIX, iterations=14, save_every=6)
    counts = []
    run, _ = walk(tmp_path / "many", config, make=lambda config: make_consuming(config, 4, counts))
    assert counts == [1, 1, 4, 4, 2, 2]  # at first nobody knows how long they are; 6, 12 and 14 are saved
    assert run.iterations == [6, 12, 14]
    assert [row["iteration"] for row in run.read_metrics()] == list(range(1, 15))
    single, _ = walk(tmp_path / "single", config)
    np.testing.assert_array_equal(run.restore(LIKE).weights, single.restore(LIKE).weights)


@pytest.mark.parametrize("iteration", [3, 4])
def test_what_follows_a_number_that_is_not_finite_is_never_saved(tmp_path, iteration):
    """By the time it is seen, the next iteration runs."""
    spoilt = {iteration: {"loss": {"policy": NAN}}}
    with pytest.raises(loop.DivergedError, match=f"stopped at iteration {iteration}"):
        walk(tmp_path, make=lambda config: make_walk(config, spoilt))
    run = checkpoint.open_run(tmp_path)
    assert run.iterations == run.snapshots == [2]
