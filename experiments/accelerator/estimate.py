"""What the accelerator presets would make of TPUs and a GPU: memory as compiled, speed as estimated. Nothing is timed.

    python -m experiments.accelerator.estimate                         # what is missing; two minutes of a core for each
    python -m experiments.accelerator.estimate accelerator/hex11 --chips 1 --kind v5e    # this one, anew

By roofline: what the network's own operations take at the chip's published peak, which no program can beat. By schedule
(TPU alone): the cycles of the compiled program, see `schedule`; how often the loops of a search turn that depend on the
data is assumed, and said there. Results go to `experiments/results/accelerator/`, a file per program and a table.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

from experiments.accelerator import devices, program, schedule  # devices first, see there

# isort: split
import jax

from azjax import theses
from azjax.envs import Hex
from azjax.nn import make_network
from azjax.training.config import ReplayConfig, SelfplayConfig, TrainConfig
from azjax.training.presets import preset

RESULTS = pathlib.Path(__file__).parent.parent / "results" / "accelerator"
TARGETS = (("v5e", 1), ("v5e", 8), ("h100", 1))


def config_of(name: str) -> TrainConfig:
    """A preset, or `large11`, which was estimated first.

    With `-bfloat16` behind the name in half precision, with `-2048-lanes` with so many.
    """
    if in_lanes := re.fullmatch(r"(.+)-(\d+)-lanes", name):
        whole = config_of(in_lanes[1])
        selfplay = dataclasses.replace(whole.selfplay, lanes=int(in_lanes[2]))
        return dataclasses.replace(whole, selfplay=selfplay)
    if name.endswith("-bfloat16"):
        whole = config_of(name.removesuffix("-bfloat16"))
        network = dataclasses.replace(whole.network, compute_dtype="bfloat16")
        return dataclasses.replace(whole, network=network, selfplay_dtype="bfloat16")
    if name != "large11":
        return theses.preset(name)
    large = preset("accelerator/hex11")
    replay = ReplayConfig(capacity=2**19, batch_size=1024, reuse=4.0, warm_up=2**14)
    return dataclasses.replace(
        large, game=Hex(size=11), selfplay=SelfplayConfig(lanes=1024, plies=16), replay=replay
    )


def accelerator_presets() -> list[str]:
    """The presets that are meant for these chips."""
    return [name for name in theses.preset_names() if name.startswith("accelerator/")]


@functools.cache
def network_operations(config: TrainConfig, batch: int = 8) -> float:
    """Multiplications and additions to evaluate one position, as XLA counts them."""
    network = make_network(config.network, config.game)
    params = jax.eval_shape(network.init, jax.random.key(0))
    seen = jax.ShapeDtypeStruct((batch, *config.game.observation_shape), bool)
    # As an accelerator would: a CPU's convolution counts otherwise.
    lowered = jax.jit(network.apply).trace(params, seen).lower(lowering_platforms=("tpu",))
    return lowered.cost_analysis()["flops"] / batch


def roofline(config: TrainConfig, kind: str, chips: int) -> dict[str, float]:
    """What evaluations and updates of one iteration take at the chips' peak, if nothing else took any time."""
    played = config.selfplay.lanes * config.selfplay.plies
    learned = config.updates * config.replay.batch_size
    evaluated = played * (config.search.simulations + 1) + 3 * learned  # backwards is twice forwards
    seconds = network_operations(config) * evaluated / devices.CHIPS[kind].peak / chips
    return {"roofline_seconds": round(seconds, 4), "roofline_positions_per_second": round(played / seconds)}


def estimate(name: str, kind: str, chips: int, listings: pathlib.Path | None) -> dict[str, Any]:
    """Compiles one program and says what there is to say of it."""
    config = config_of(name)
    compiled = program.compile_iteration(config, kind, chips)
    row = {"preset": name} | compiled.facts() | roofline(config, kind, chips)
    if kind == "h100" or listings is None:
        return row

    chip = devices.CHIPS[kind]
    cost = schedule.estimate(
        compiled.module,
        schedule.assumed_trips,
        schedule.read_listings(listings),
        chip.bandwidth / chip.clock,
    )
    row |= schedule.figures(cost)
    played = config.selfplay.lanes * config.selfplay.plies
    return row | {
        "schedule_seconds": round(cost.total / chip.clock, 4),
        "schedule_positions_per_second": round(played * chip.clock / cost.total),
        "largest": [
            [source, round(cycles / cost.total, 4)] for source, cycles in cost.by_source.most_common(30)
        ],
    }


def table(folder: pathlib.Path) -> str:
    """What the folder's files say, a line per program, in Markdown; of presets that have none, the roofline alone."""
    rows = [json.loads(file.read_text()) for file in folder.glob("*.*.*.json")]
    there = {(row["preset"], row["kind"], row["chips"]) for row in rows}
    for name in accelerator_presets():
        for kind, chips in TARGETS:
            if (name, kind, chips) not in there:
                rows.append(
                    {"preset": name, "kind": kind, "chips": chips} | roofline(config_of(name), kind, chips)
                )
    return program.markdown([_line(row) for row in sorted(rows, key=_place)])


def _place(row: dict[str, Any]) -> tuple:
    return row["preset"], row["kind"], row["chips"]


def _line(row: dict[str, Any]) -> dict[str, str]:
    line = {
        "preset": row["preset"],
        "chips": f"{row['chips']} x {row['kind']}",
        "memory per chip": "" if "device_mib" not in row else f"{row['device_mib'] / 1024:.2f} GiB",
        "roofline, positions/s": f"{row['roofline_positions_per_second']:,}",
    }
    return line if "cycles" not in row else line | _by_schedule(row)


def _by_schedule(row: dict[str, Any]) -> dict[str, str]:
    """The columns that TPUs alone have."""
    parts = row["cycles_by_part"]
    network, learning = parts.get("network", 0) / row["cycles"], parts.get("learning", 0) / row["cycles"]
    return {
        "schedule, positions/s": f"{row['schedule_positions_per_second']:,}",
        "s per iteration": f"{row['schedule_seconds']:.3g}",
        "network": f"{network:.0%}",
        "learning": f"{learning:.0%}",
        "all else": f"{1 - network - learning:.0%}",
    }


def _in_a_process_of_its_own(name: str, kind: str, chips: int, out: pathlib.Path) -> None:
    """Libtpu reads its flags once, and lists the kernels of all that it compiles in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        flags = schedule.listing_flags(pathlib.Path(folder))
        command = [sys.executable, "-m", "experiments.accelerator.estimate", name, "--kind", kind]
        command += ["--chips", str(chips), "--listings", folder, "--out", str(out)]
        environment = os.environ | ({} if kind == "h100" else {"LIBTPU_INIT_ARGS": flags})
        subprocess.run(command, env=environment, check=True)


def main() -> None:
    """Estimates what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", help="if none is named, what is missing of the accelerator's")
    parser.add_argument("--kind", choices=list(devices.CHIPS))
    parser.add_argument("--chips", type=int)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--listings", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.listings:
        (name,) = arguments.presets
        row = estimate(name, arguments.kind, arguments.chips, arguments.listings)
        arguments.out.mkdir(parents=True, exist_ok=True)
        _file(arguments.out, name, arguments.kind, arguments.chips).write_text(
            json.dumps(row, indent=1) + "\n"
        )
        print({key: value for key, value in row.items() if key != "largest"}, flush=True)
        return
    for name in arguments.presets or accelerator_presets():
        for kind, chips in TARGETS:
            wanted = arguments.kind in (None, kind) and arguments.chips in (None, chips)
            if wanted and (arguments.presets or not _file(arguments.out, name, kind, chips).exists()):
                _in_a_process_of_its_own(name, kind, chips, arguments.out)
                (arguments.out / "estimates.md").write_text(table(arguments.out))


def _file(folder: pathlib.Path, name: str, kind: str, chips: int) -> pathlib.Path:
    return folder / f"{name.replace('/', '-')}.{kind}.{chips}.json"


if __name__ == "__main__":
    main()
