"""Long-lived processes under load for hours, with their memory watched: `python -m tests.soak --hours 2`.

Two processes that people leave running are kept busy side by side: a training that judges and saves often, and a
Hex GTP server that is asked for one game after the other. Their resident memory is sampled; it is flat if its median
over the last quarter of the time is at most 3 % and 16 MiB above that over the second quarter (the first is for caches
to fill). Both must have been at work until the end: iterations and games are counted with every sample. The samples and
the verdict are printed as JSON and written to --out as they come.
"""

import dataclasses
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import tyro

SLACK = 1.03, 16.0  # of the medians: times this, plus so many MiB


@dataclasses.dataclass(frozen=True)
class Config:
    """How long to watch."""

    hours: float = 2.0
    seconds: float = 30.0  # between two samples
    out: pathlib.Path | None = None  # where the result is written; default nowhere


def resident_mebibytes(process: int) -> float:
    """The memory of a process that is in use now."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {process} has ended")


def is_flat(samples: list[float]) -> bool:
    """Whether the last quarter of the samples is hardly above the second."""
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    return statistics.median(last) <= statistics.median(second) * SLACK[0] + SLACK[1]


def is_busy(counts: list[int]) -> bool:
    """Whether more was done in every quarter of the time but the first, for starting: the idle need no memory."""
    quarter = len(counts) // 4
    ends = *(counts[number * quarter - 1] for number in (1, 2, 3)), counts[-1]
    return all(before < after for before, after in itertools.pairwise(ends))


def start_training(folder: str) -> subprocess.Popen:
    """A small run that never ends by itself, judged and saved every ten iterations."""
    options = ["--iterations", "100000000", "--save-every", "10", "--evaluation.every", "10"]
    command = [
        sys.executable,
        "-m",
        "azjax.cli",
        "train",
        "hex3",
        "--out",
        f"{folder}/run",
        "--json",
        *options,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_server() -> subprocess.Popen:
    """A GTP server; `keep_playing` keeps it busy."""
    command = [sys.executable, "-m", "azjax.cli", "gtp", "uct:50", "--size", "5"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def keep_playing(server: subprocess.Popen, counts: dict[str, int]) -> None:
    """Asks for whole games until the server goes away."""

    def ask(line: str) -> str:
        server.stdin.write(line + "\n")
        server.stdin.flush()
        lines = [server.stdout.readline()]
        while lines[-1].strip():
            lines.append(server.stdout.readline())
        if not lines[0].startswith("="):  # the games then stand still
            raise ValueError(f"{line} was answered by {lines[0]!r}")
        return "".join(lines)

    try:
        while server.poll() is None:
            ask("clear_board")
            for ply in range(25):
                ask(f"genmove {'bw'[ply % 2]}")
                if ask("final_score")[:3] in ("= B", "= W"):
                    break
            counts["games"] += 1
    except (BrokenPipeError, ValueError):
        pass  # the server was ended, or fails: then no more games are counted


def main(config: Config) -> int:
    """Watches; returns 0 if every process lived, worked and stayed flat."""
    counts = {"games": 0}
    with tempfile.TemporaryDirectory() as folder:
        processes = {"train": start_training(folder), "gtp": start_server()}
        threading.Thread(target=keep_playing, args=(processes["gtp"], counts), daemon=True).start()
        samples: dict[str, list[float]] = {name: [] for name in processes}
        done: dict[str, list[int]] = {name: [] for name in processes}
        end = time.monotonic() + 3600 * config.hours
        result: dict = {}
        try:
            while time.monotonic() < end:
                time.sleep(config.seconds)
                for name, process in processes.items():
                    if process.poll() is not None:
                        print(f"{name} ended with code {process.returncode}", file=sys.stderr)
                        return 1
                    samples[name].append(round(resident_mebibytes(process.pid), 1))
                metrics = pathlib.Path(folder, "run", "metrics.jsonl")
                iterations = len(metrics.read_text().splitlines()) if metrics.exists() else 0
                for name, number in {"train": iterations, "gtp": counts["games"]}.items():
                    done[name].append(number)
                result = {
                    "hours": round(len(samples["train"]) * config.seconds / 3600, 3),
                    "iterations": iterations,
                    **counts,
                    "mebibytes": samples,
                    "flat": {name: len(row) >= 8 and is_flat(row) for name, row in samples.items()},
                    "busy": {name: len(row) >= 8 and is_busy(row) for name, row in done.items()},
                }
                if config.out is not None:
                    config.out.write_text(json.dumps(result) + "\n")
        finally:
            for process in processes.values():
                process.terminate()
                process.wait()
    print(json.dumps(result))
    return 0 if result and all((*result["flat"].values(), *result["busy"].values())) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Config)))
