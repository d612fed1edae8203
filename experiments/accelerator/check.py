"""The training iteration compiles for accelerators, and stays the program it should be. Needs compilers, no devices.

    make check-tpu                                          # in an environment of its own
    python -m experiments.accelerator.check --programs 1    # the first of them alone

Prints a line per program with the promises that it breaks, and exits with 1 if there are any; with --keep the figures
go to `experiments/results/accelerator/check.json`, of TPUs with the cycles of each part of the program, see `schedule`.
Half a minute of one core per program.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from experiments.accelerator import devices, program, schedule  # devices first, see there

# isort: split
from azjax.envs import Hex
from azjax.nn import NetworkConfig
from azjax.training.config import ReplayConfig, SearchConfig, SelfplayConfig, TrainConfig

RESULTS = pathlib.Path(__file__).parent.parent / "results" / "accelerator"

SMALL = TrainConfig(
    game=Hex(size=5),
    network=NetworkConfig(blocks=1, channels=16),
    search=SearchConfig(kind="gumbel", simulations=8),
    selfplay=SelfplayConfig(lanes=64, plies=4, openings="R4"),
    replay=ReplayConfig(capacity=4096, batch_size=64, warm_up=256),
)
PUCT = dataclasses.replace(SMALL, search=SearchConfig(kind="puct", simulations=8))
POD = dataclasses.replace(  # 32 machines of eight chips, with some lanes, and a group, for each chip
    SMALL,
    selfplay=dataclasses.replace(SMALL.selfplay, lanes=1024),
    replay=ReplayConfig(capacity=2**15, batch_size=1024, warm_up=2**12),
)
PROGRAMS = (
    ("gumbel", SMALL, "v5e", 8),
    ("puct", PUCT, "v5e", 1),
    ("gumbel", SMALL, "h100", 1),
    ("gumbel", POD, "v5e", 256),
)
SEARCH_LOOPS = ("simulate", "descend", "backup")
MOST_BYTES = 24 * 2**20  # of the small program on one device

Promise = Callable[[program.Program], str | None]
"""program -> None if it keeps the promise, else what is wrong."""


def compiles_silently(p: program.Program) -> str | None:
    """No warnings."""
    return None if not p.warnings else f"the compiler says: {p.warnings[0][:200]}"


def stays_on_the_device(p: program.Program) -> str | None:
    """No host transfers or callbacks."""
    found = program.host_transfers(p)
    return None if not found else f"goes to the host: {', '.join(found[:3])}"


def talks_only_to_average(p: program.Program) -> str | None:
    """Gradients and counts are summed over the devices, if there are several; nothing else moves between them."""
    found = {op: p.module.count(op) for op in program.COLLECTIVES if p.module.count(op)}
    if p.chips == 1:  # a GPU's program says all-reduce even so; alone, it copies
        others = {op for op in found if op != "all-reduce"}
        return None if not others else f"one device moves data: {sorted(others)}"
    if found.keys() != {"all-reduce"}:
        return f"expected all-reduce alone, found {found}"
    # Counts are summed once per iteration, gradients once per update; in no other loop one device waits for another.
    sums = [it for it in p.module.instructions() if it.opcode.removesuffix("-start") == "all-reduce"]
    scopes = {it.name: it.op_name.rpartition("shard_map/")[2].split("/") for it in sums}
    waiting = [name for name, path in scopes.items() if "while" in path and "learning" not in path]
    return None if not waiting else f"sums while games are played: {', '.join(waiting[:3])}"


def updates_in_place(p: program.Program) -> str | None:
    """Donated state is aliased: nothing of it is there twice."""
    missing = p.state_bytes - p.memory.alias_size_in_bytes
    # Small arrays are padded on a device, so that more than all may be aliased.
    return None if missing <= 0 else f"{missing:,} bytes of the state are copied"


def leaves_the_state_in_its_place(p: program.Program) -> str | None:
    """Every part of the state comes back where it was, in its shape and type."""
    return None if not p.moved else f"moves or changes {', '.join(p.moved[:3])}"


def fits(p: program.Program) -> str | None:
    """The memory that is stated is enough."""
    return None if p.bytes_on_device <= MOST_BYTES else f"needs {p.bytes_on_device:,} bytes of {MOST_BYTES:,}"


def convolves_by_itself(p: program.Program) -> str | None:
    """The accelerator's own convolution is in it, the one for CPUs is not."""
    if "_convolve_on_cpu" in p.text:
        return "runs the convolution for CPUs"
    own = re.search(r"convolution\([^\n]*size=3x3|__cudnn\$conv", p.text)
    return None if own else "has no convolution of 3x3"


def reads_edges_off_nodes(p: program.Program) -> str | None:
    """Trees are searched without scatters, and no table of edges is flattened."""
    flattened = program.flattened_edge_tables(p)
    if flattened:
        return f"flattens edge tables: {', '.join(flattened[:3])}"
    parts = ("descent", "growth", "backup")
    scatters = [
        it.name
        for it in p.module.instructions()
        if it.opcode == "scatter" and any(part in it.op_name.split("/") for part in parts)
    ]
    return None if not scatters else f"scatters into trees: {', '.join(scatters[:3])}"


def is_given_its_openings(p: program.Program) -> str | None:
    """No large constant is in the program."""
    largest = 0
    for it in p.module.instructions():
        if it.opcode == "constant":
            largest = max([largest, *(_size(sizes) for _, sizes, _ in program.hlo.arrays(it.shape))])
    return None if largest < 2**14 else f"holds a constant of {largest:,} numbers"


PROMISES: tuple[Promise, ...] = (
    compiles_silently,
    stays_on_the_device,
    talks_only_to_average,
    updates_in_place,
    leaves_the_state_in_its_place,
    fits,
    convolves_by_itself,
    reads_edges_off_nodes,
    is_given_its_openings,
)


def broken(p: program.Program) -> list[str]:
    """What is wrong with a program, in sentences."""
    return [f"{promise.__name__}: {fault}" for promise in PROMISES if (fault := promise(p)) is not None]


def _size(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def figures(p: program.Program, listings: pathlib.Path) -> dict[str, Any]:
    """What is kept of a program; the folder then is empty for the next one's kernels."""
    facts = p.facts()
    if p.kind == "h100":  # no compiler lists its instructions
        return facts
    chip = devices.CHIPS[p.kind]
    cost = schedule.estimate(
        p.module,
        schedule.assumed_trips,
        schedule.read_listings(listings),
        chip.bandwidth / chip.clock,
    )
    for file in listings.iterdir():
        file.unlink()
    return facts | schedule.figures(cost)


def table(rows: list[dict[str, Any]]) -> str:
    """The figures that are kept, a line per program, in Markdown; cycles in thousands."""
    columns = {
        "CPU seconds to compile": "compile_cpu_seconds",
        "MiB on a device": "device_mib",
        **{name: name for name in ("instructions", "kernels", "loops", "gathers", "scatters")},
    }
    return program.markdown(
        [
            {"program": f"{row['program']}, {row['chips']} x {row['kind']}"}
            | {title: f"{row[name]:,}" for title, name in columns.items()}
            | {f"kernels, {loop}": str(row["kernels_per_turn"].get(loop, "")) for loop in SEARCH_LOOPS}
            | {part: f"{cycles / 1000:,.0f}" for part, cycles in row.get("cycles_by_part", {}).items()}
            for row in rows
        ]
    )


def main() -> int:
    """Checks the programs whose compilers are here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=len(PROGRAMS), help="how many of them")
    parser.add_argument("--keep", action="store_true", help="keep the figures")
    arguments = parser.parse_args()
    rows, checked, failed = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        listings = pathlib.Path(folder)
        if arguments.keep:
            os.environ["LIBTPU_INIT_ARGS"] = schedule.listing_flags(listings)  # libtpu is not loaded yet
        for name, config, kind, chips in PROGRAMS[: arguments.programs]:
            if not devices.can_compile_for(kind):
                print(f"skipped {name} for {kind}: its compiler is not installed", flush=True)
                continue
            compiled = program.compile_iteration(config, kind, chips)
            faults = broken(compiled)
            checked, failed = checked + 1, failed + len(faults)
            print(
                f"{name}, {chips} x {kind}, {compiled.seconds:.0f} s: {'; '.join(faults) or 'ok'}", flush=True
            )
            if arguments.keep:
                rows.append({"program": name} | figures(compiled, listings))
    if arguments.keep:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "check.json").write_text(json.dumps(rows, indent=1) + "\n")
        (RESULTS / "check.md").write_text(table(rows))
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
