"""Run folders damaged, killed, filled up or made read-only: nothing saved is lost, and whoever resumes is told.

A resume after any damage either goes on to the very bits of a run that nobody disturbed, or says in one sentence what
to do. `make soak` runs the same with 200 damages and 50 kills.
"""

import dataclasses
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import types

import jax.numpy as jnp
import numpy as np
import pytest

from azjax.training import checkpoint
from tests.loop_cases import SIX, Walk, walk

ROOT = pathlib.Path(__file__).parents[2]
FOUR = dataclasses.replace(SIX, iterations=4, save_every=1)
WEIGHTS_SIZE = 4000  # bytes of the weights of a walk
LONGER = dataclasses.replace(SIX, iterations=6, save_every=1)


def weights_of(folder: pathlib.Path) -> bytes:
    """The newest saved weights, read from disk."""
    state = checkpoint.open_run(folder).restore(Walk(jnp.zeros(1000), jnp.int32(0)))
    return np.asarray(state.weights).tobytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a run of four iterations, all of them saved, and the weights that it has after six."""
    folder = tmp_path_factory.mktemp("chaos")
    walk(folder / "four", FOUR)
    walk(folder / "six", LONGER)
    return folder / "four", weights_of(folder / "six")


def damage(folder: pathlib.Path, rng: random.Random) -> str:
    """Spoils something at any depth; returns what."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    folders = sorted(path for path in folder.rglob("*") if path.is_dir())
    kind = rng.choice(["flip", "flip", "cut", "remove", "empty", "remove folder", "junk", "folder for file"])
    path = rng.choice(folders if kind == "remove folder" else files)
    content = path.read_bytes() if path.is_file() else b""
    match kind:
        case "flip" if content:
            place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        case "cut":
            path.write_bytes(content[: rng.randrange(len(content) + 1)])
        case "remove":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "remove folder":
            shutil.rmtree(path)
        case "junk":
            name = rng.choice(["99", "5", "state.orbax-checkpoint-tmp", ".x.partial"])
            path.with_name(name).write_bytes(b"junk")
        case "folder for file":
            path.unlink()
            path.mkdir()
    return f"{kind} {path.relative_to(folder)}"


def agents_in(folder: pathlib.Path) -> dict[str, bytes]:
    """The kept weights, by name; of files that are damaged, what is in them."""
    return {path.name: _weights_in(path) for path in (folder / "agents").glob("*.npz") if path.is_file()}


def _weights_in(path: pathlib.Path) -> bytes:
    try:  # beside the weights there is a configuration, which says how long the run was to be
        with np.load(path) as arrays:
            return arrays["array:['walk']"].tobytes()
    except Exception:
        return path.read_bytes()


def test_damaged_runs_go_on_to_the_same_bits_or_say_what_to_do(saved, tmp_path, soaking):
    whole, after_six = saved
    rng = random.Random(time.time_ns() if soaking else 11)
    continued = refused = 0
    for number in range(200 if soaking else 30):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        done = [damage(folder, rng) for _ in range(rng.choice([1, 1, 2, 3]))]
        before = agents_in(folder)
        try:
            walk(folder, LONGER, resume=True)
        except checkpoint.RunError as error:
            refused += 1
            assert str(error).strip() and "\n" not in str(error), done
            # Iterations after the checkpoint it went on from are made again, to the same weights.
            known = {name: content for name, content in before.items() if len(content) == WEIGHTS_SIZE}
            assert known.items() <= agents_in(folder).items() and before.keys() <= agents_in(folder).keys(), (
                done
            )
        else:
            continued += 1
            assert weights_of(folder) == after_six, done
            assert before.keys() <= agents_in(folder).keys(), done
        shutil.rmtree(folder)
    assert continued > refused > 0  # there are four saves, so that most damage leaves one whole


def test_folders_in_the_place_of_agents_are_set_aside(saved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved[0], folder)
    for name in ("agent.npz", "agents/2.npz"):
        (folder / name).unlink()
        (folder / name).mkdir()
    (folder / "agent.npz" / "mine").write_text("kept")
    _, said = walk(folder, LONGER, resume=True)
    assert sum("was a folder and now lies in" in line for line in said) == 2
    assert (folder / "set-aside" / "agent-1" / "mine").read_text() == "kept"
    assert weights_of(folder) == saved[1] and (folder / "agent.npz").is_file()


@pytest.mark.slow
def test_killed_runs_go_on_to_the_same_bits(tmp_path, soaking):
    """SIGKILL at a random moment of the start or of the iterations, also during a save; started again at once."""
    rng, folder = random.Random(3), tmp_path / "killed"
    for _ in range(50 if soaking else 4):
        more = ["--resume"] if (folder / "config.json").exists() else []
        words = [sys.executable, "-m", "tests.loop_cases", str(folder), *more]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line, until = process.stdout.readline(), rng.choice(["x", "x", "x", "compiled"])
        while line and line.strip() != until:
            line = process.stdout.readline()
        assert line, process.communicate()[1]
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert "Traceback" not in errors, errors
    reached = checkpoint.open_run(folder).read_metrics()[-1]["iteration"] + 3
    config = dataclasses.replace(SIX, iterations=reached)
    walk(folder, config, resume=True)
    walk(tmp_path / "undisturbed", config)
    assert weights_of(folder) == weights_of(tmp_path / "undisturbed")
    rows = checkpoint.open_run(folder).read_metrics()
    assert [row["iteration"] for row in rows] == list(range(1, reached + 1))


# A write past the limit fails as on a full disk, once the signal for it is ignored.
NO_FILE_MAY_GROW = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
"""
# The superuser may write anywhere, unless that is taken from it (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE).
OBEY_PERMISSIONS = """
import ctypes, os, sys
if os.environ.pop("AGAIN", "yes") == "yes":
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"AGAIN": "no"})
"""


def resume(folder: pathlib.Path, limits: str = "") -> subprocess.CompletedProcess:
    """Goes on with a run in a process of its own, which first does what `limits` says."""
    code = f"""{limits}
import sys
from azjax.training.checkpoint import RunError
from tests.training.test_chaos import LONGER, walk
try:
    walk({str(folder)!r}, LONGER, resume=True)
except RunError as error:
    sys.exit(f"azjax: {{error}}")
"""
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)


def files_in(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    """All files but the lock, with what is in them."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


@pytest.mark.slow
def test_a_full_disk_ends_in_a_sentence_and_loses_nothing(saved, tmp_path):
    folder = tmp_path / "full"
    shutil.copytree(saved[0], folder)
    before = files_in(folder)

    result = resume(folder, NO_FILE_MAY_GROW)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("azjax: ")
    kept = {path: content for path, content in before.items() if path.name != "metrics.jsonl"}
    assert kept.items() <= files_in(folder).items()
    assert resume(folder).returncode == 0
    assert weights_of(folder) == saved[1]


def test_writes_that_end_after_a_failed_save_are_not_reported_and_all_else_is(tmp_path, monkeypatch):
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", reports.append)
    walk(tmp_path / "run", FOUR)

    def report(error: Exception) -> types.SimpleNamespace:
        return types.SimpleNamespace(exc_type=type(error), exc_value=error)

    sys.unraisablehook(report(RuntimeError("Event loop is closed")))
    assert reports == []
    sys.unraisablehook(other := report(RuntimeError("something else")))
    assert reports == [other]


@pytest.mark.slow
def test_a_folder_that_may_not_be_written_says_so_and_stays_as_it_is(saved, tmp_path):
    folder = tmp_path / "read-only"
    shutil.copytree(saved[0], folder)
    before = files_in(folder)
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)

    try:
        result = resume(folder, OBEY_PERMISSIONS)
    finally:
        for path in folders:
            path.chmod(0o755)
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
    assert str(folder) in result.stderr.splitlines()[-1]
    assert files_in(folder) == before
