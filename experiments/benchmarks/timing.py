"""What all benchmarks share: interleaved timing per CPU-second, and the kept tables."""

import json
import os
import pathlib
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import jax
from jax.experimental.compilation_cache import compilation_cache
from rich.console import Console
from rich.progress import track
from rich.table import Table

from azjax.common import atomic

RESULTS = pathlib.Path(__file__).parent.parent / "results" / "benchmarks"


def use_one_core() -> None:
    """Keeps this process to one core; call it first thing in `main`.

    A second thread that waits for work spins, which counts as CPU time though nothing is done in it. JAX makes a thread
    a core when it starts, and importing pgx starts it; so the program begins anew with the one core that is left to it.
    """
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        return
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, {max(cores)})
        os.execv(sys.executable, sys.orig_argv)


def cpu_seconds(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least CPU time that each run took, over rounds in which every run has its turn.

    CPU time counts all threads, so a rate made from it is per core; taking turns lets a busy machine slow
    every contender alike. The first call of each run compiles and is not counted.
    """
    for run in track(runs.values(), description="compiling", transient=True):
        jax.block_until_ready(run())
    best = dict.fromkeys(runs, float("inf"))
    for _ in track(range(rounds), description="measuring", transient=True):
        for name, run in runs.items():
            start = time.process_time()
            jax.block_until_ready(run())
            best[name] = min(best[name], time.process_time() - start)
    return best


def compile_seconds(function: Callable, *arguments: object) -> tuple[float, float]:
    """Seconds to trace, lower and compile a function: from nothing, and with JAX's persistent cache."""
    before = jax.config.jax_compilation_cache_dir
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        compilation_cache.reset_cache()
        seconds = []
        for _ in range(2):
            jax.clear_caches()
            start = time.perf_counter()
            jax.jit(function).lower(*arguments).compile()
            seconds.append(time.perf_counter() - start)
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()
    return seconds[0], seconds[1]


def report(name: str, title: str, rows: Sequence[Mapping[str, object]], keep: bool = True) -> None:
    """Prints the rows as a table and keeps them as `experiments/results/benchmarks/<name>.json`."""
    table = Table(title=title)
    columns = list(rows[0])
    for column in columns:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(_readable(row[column]) for column in columns))
    Console(width=140).print(table)
    if keep:
        RESULTS.mkdir(parents=True, exist_ok=True)
        about = {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "backend": jax.default_backend(),
        }
        atomic.write_text(
            RESULTS / f"{name}.json", json.dumps({"about": about, "rows": rows}, indent=1) + "\n"
        )


def _readable(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
