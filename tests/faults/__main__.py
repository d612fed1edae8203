"""Measures the tests: puts one fault at a time into a copy of the project and runs the tests that should notice.

    python -m tests.faults [NAME ...] [--room ROOM ...] [--resume] [--workers N]

The checkout is never touched. Every test is first run without a fault in the same set-up, for a test that fails
anyway notices nothing. Results are written to `results.json` after each fault; `--resume` leaves out what is there
already and has not changed since. A test that hangs has noticed.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any

from tests.faults.core import ROOMS, ROOT, Fault, changed, load

RESULTS = pathlib.Path(__file__).with_name("results.json")
NOTICED, SURVIVED, HUNG, BROKEN = "noticed", "survived", "hung", "broken"
# Imported once, before the children are forked. None of them starts JAX's backend, which must not be forked.
WARM = (
    *(
        "jax",
        "jax.numpy",
        "numpy",
        "scipy.stats",
        "numba",
        "optax",
        "flax",
        "chex",
        "mctx",
        "orbax.checkpoint",
    ),
    *("choix", "pyspiel", "hypothesis.internal.conjecture.engine", "rich", "tyro", "pytest"),
)
_AT_ONCE = 20  # selections of tests that one child runs without a fault
COPIED = ("azjax", "envs", "tests", "pyproject.toml")


class Recorder:
    """A pytest plugin that writes down how far it came, what failed first, and the seconds of every test."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.report: dict[str, Any] = {"seconds": {}, "failed": []}

    def pytest_runtest_logstart(self, nodeid):
        """Written before each test, for those that hang."""
        self.report["running"] = nodeid
        self.write()

    def pytest_collectreport(self, report):
        """A module that cannot even be imported is no plausible fault."""
        if report.failed:
            self._note(BROKEN, report)

    def pytest_runtest_logreport(self, report):
        """Any phase of a test may fail."""
        seconds = self.report["seconds"]
        seconds[report.nodeid] = round(seconds.get(report.nodeid, 0) + report.duration, 2)
        if report.failed:
            self._note(NOTICED, report)

    def write(self) -> None:
        """Writes the report, whole or not at all."""
        partial = self.path.with_suffix(".new")
        partial.write_text(json.dumps(self.report))
        os.replace(partial, self.path)

    def _note(self, outcome: str, report) -> None:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
        reason = lines[0][1:].strip() if lines else ""
        self.report["failed"].append({"outcome": outcome, "by": report.nodeid, "reason": reason[:160]})


class Scratch:
    """A copy of the project in a temporary folder, in which one child at a time runs."""

    def __init__(self, root: pathlib.Path):
        self.path = root
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            options = {"ignore": shutil.ignore_patterns("__pycache__")} if source.is_dir() else {}
            copy(source, root / name, **options)
        # Found before what an editable install maps to the checkout.
        (root / "azjax" / "envs").symlink_to("../envs")
        self.fault: Fault | None = None

    def start(self, tests: tuple[str, ...], fault: Fault | None) -> int:
        """Forks a child that runs the tests, with the fault in its copy; returns its process id."""
        self.restore()
        if fault is not None:
            path = self.path / fault.file
            self.original = path, path.read_bytes(), path.stat().st_mtime_ns
            path.write_text(changed(fault, self.path), encoding="utf-8")
            self.fault = fault
        (self.path / "report.json").unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of any fork; its backend has not started
            process = os.fork()
        if process == 0:
            try:
                self._run(tests, fault)
            except BaseException:
                traceback.print_exc()
            os._exit(0)  # none of the parent's own endings, such as removing the copies
        return process

    def report(self) -> dict[str, Any]:
        """What the child wrote before it ended."""
        path = self.path / "report.json"
        return json.loads(path.read_text()) if path.exists() else {"seconds": {}, "failed": []}

    def restore(self) -> None:
        """Takes the fault out again, with the old time, so that compiled modules stay valid."""
        if self.fault is not None:
            path, content, time_changed = self.original
            path.write_bytes(content)
            os.utime(path, ns=(time_changed, time_changed))
            self.fault = None

    def _run(self, tests: tuple[str, ...], fault: Fault | None) -> None:
        os.setsid()
        output = os.open(self.path / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self.path)
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "azjax")]:
            del sys.modules[name]
        sys.path[:] = [str(self.path), *(p for p in sys.path if pathlib.Path(p).resolve() != ROOT)]
        os.environ["PYTHONPATH"] = str(self.path)
        sys.dont_write_bytecode = False  # what is compiled once serves all that follow
        # Compiled code of numba knows nothing of changes in what it calls: after such a change nothing is taken over.
        compiled = self.path / "numba"
        if fault is not None and "import numba" in (ROOT / fault.file).read_text(encoding="utf-8"):
            compiled = self.path / "numba_faulty"
            shutil.rmtree(compiled, ignore_errors=True)
        import numba

        numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(compiled)
        import jax
        import pytest

        import azjax

        jax.config.update("jax_disable_most_optimizations", True)  # a faulty program is compiled for one run

        if not azjax.__file__.startswith(str(self.path)):
            raise RuntimeError(f"azjax comes from {azjax.__file__}, not from the copy")
        recorder = Recorder(self.path / "report.json")
        fail_fast = [] if fault is None else ["-x"]
        # hypothesis is there already, which pytest would rather have imported itself.
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            *fail_fast,
        ]
        recorder.report["code"] = int(
            pytest.main([*options, *(f"tests/{test}" for test in tests)], [recorder])
        )
        recorder.write()


def main(arguments: list[str] | None = None) -> int:
    """Runs the faults asked for; returns 0 if all of them were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="faults to run; default all")
    parser.add_argument("--room", action="append", choices=ROOMS, help="only the faults of this room")
    parser.add_argument("--resume", action="store_true", help="leave out what results.json has already")
    parser.add_argument(
        "--baseline",
        choices=("first", "last", "skip", "only"),
        default="first",
        help="when to run the tests without a fault that are not known to pass; 'only' runs nothing else",
    )
    parser.add_argument("--workers", type=int, default=1, help="how many run side by side")
    options = parser.parse_args(arguments)
    faults = load(tuple(options.room or ROOMS))
    if unknown := set(options.names) - {fault.name for fault in faults}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    faults = [fault for fault in faults if not options.names or fault.name in options.names]
    results = _load()
    if options.resume:
        faults = [f for f in faults if results["faults"].get(f.name, {}).get("digest") != _digest(f)]
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    for name in WARM:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        scratches = []
        for number in range(options.workers):
            (path := pathlib.Path(folder).resolve() / str(number)).mkdir()
            scratches.append(Scratch(path))
        if options.baseline in ("first", "only") and not _run_baseline(scratches[0], faults, results):
            return 2
        if options.baseline == "only":
            return 0
        _run_faults(scratches, faults, results)
        if options.baseline == "last" and not _run_baseline(scratches[0], faults, results):
            return 2
    results = _load()
    outcomes = {fault.name: results["faults"][fault.name]["outcome"] for fault in faults}
    missed = [name for name, outcome in outcomes.items() if outcome not in (NOTICED, HUNG)]
    print(table(results))
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} noticed; not: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def _run_baseline(scratch: Scratch, faults: list[Fault], results: dict) -> bool:
    """Runs every test once without a fault; False if one fails. What passes is written down now and then."""
    known = results["baseline"]
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    new = [test for test in tests if test not in known]
    for start in range(0, len(new), _AT_ONCE):
        some = tuple(new[start : start + _AT_ONCE])
        print(f"{start} of {len(new)} selections of tests run without a fault ...", flush=True)
        os.waitpid(scratch.start(some, None), 0)
        report = scratch.report()
        if "code" not in report or not report["seconds"]:
            print("the run without a fault broke off:", (scratch.path / "output.txt").read_text()[-2000:])
            return False
        for failure in report["failed"]:
            print(f"{failure['by']} fails without a fault: {failure['reason']}")
        bad = {failure["by"] for failure in report["failed"]}
        for test in some:
            seconds = {name: took for name, took in report["seconds"].items() if _belongs(name, test)}
            if seconds and not bad & seconds.keys():
                known[test] = round(sum(seconds.values()), 2)
                _update("baseline", test, known[test])
    return all(test in known for test in new)


def _belongs(name: str, test: str) -> bool:
    """Whether a test, by its full name, is one of those that a fault names."""
    name = name.removeprefix("tests/")
    return name == test or name.startswith((f"{test}[", f"{test}::"))


def _run_faults(scratches: list[Scratch], faults: list[Fault], results: dict) -> None:
    waiting, running = list(faults), {}
    try:
        while waiting or running:
            for scratch in scratches:
                if waiting and scratch not in running:
                    fault = waiting.pop(0)
                    usual = sum(results["baseline"].get(test, 30) for test in fault.tests)
                    # Generous, for other programs may keep the machine busy.
                    running[scratch] = scratch.start(fault.tests, fault), time.monotonic() + 300 + 20 * usual
            time.sleep(0.1)
            for scratch, (process, deadline) in list(running.items()):
                hung = time.monotonic() > deadline
                if hung:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process, signal.SIGKILL)
                ended, _, usage = os.wait4(process, 0 if hung else os.WNOHANG)
                if ended:
                    del running[scratch]
                    _note(scratch, hung, usage.ru_utime + usage.ru_stime)
    finally:
        for process, _ in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)


def _note(scratch: Scratch, hung: bool, seconds: float) -> None:
    """Adds what became of a fault to the results; what the first run said stays."""
    fault, report = scratch.fault, scratch.report()
    if report["failed"]:
        found = report["failed"][0]
    elif report.get("code") == 0:
        found = {"outcome": SURVIVED}
    elif hung:
        found = {"outcome": HUNG, "by": report.get("running", "")}
    elif "code" in report:
        found = {"outcome": BROKEN, "by": f"pytest ended with {report['code']}"}
    else:  # the process is gone: a crash of the interpreter is noticed by whoever runs the tests
        found = {"outcome": NOTICED, "by": report.get("running", ""), "reason": "the process died"}
    first = _load()["faults"].get(fault.name, {}).get("first", found["outcome"])
    row = {
        "room": fault.room,
        "first": first,
        **found,
        "seconds": round(seconds, 1),
        "digest": _digest(fault),
    }
    _update("faults", fault.name, row)
    print(f"{found['outcome']:9}{seconds:7.1f} s  {fault.name}  {found.get('by', '')}", flush=True)


def table(results: dict[str, dict]) -> str:
    """What became of the faults of each room, as README.md shows it."""
    faults = {fault.name for fault in load()}
    rows = [row for name, row in results["faults"].items() if name in faults]
    lines = [
        "| room | faults run | noticed at first | noticed now | CPU minutes |",
        "|---|---|---|---|---|",
    ]
    for room in (*ROOMS, "all"):
        some = [row for row in rows if room in (row["room"], "all")]
        first, now = (sum(row[when] in (NOTICED, HUNG) for row in some) for when in ("first", "outcome"))
        minutes = sum(row["seconds"] for row in some) / 60
        counts = [str(len(some)), str(first), str(now)]
        if room == "all":
            counts[1:] = [f"{count} ({100 * count / len(some):.1f} %)" for count in (first, now)]
        lines.append(f"| {room} | {' | '.join(counts)} | {minutes:.1f} |")
    return "\n".join(lines)


def _load() -> dict[str, dict]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"baseline": {}, "faults": {}}


def _update(part: str, name: str, value: Any) -> None:
    """Writes one result; others that are written meanwhile stay."""
    with open(RESULTS.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = _load()
        results[part][name] = value
        partial = RESULTS.with_suffix(".new")
        partial.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        os.replace(partial, RESULTS)


def _digest(fault: Fault) -> str:
    """Changes with the fault and with the choice of its tests."""
    content = "\0".join((fault.file, fault.old, fault.new, *fault.tests))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
