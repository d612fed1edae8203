"""The check of what is compiled for accelerators: every promise can be broken, and where compilers are, none is."""

import dataclasses
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

from experiments.accelerator import check, estimate, hlo, schedule
from experiments.accelerator.program import Program

ROOT = pathlib.Path(__file__).parents[2]

# A program as XLA prints it, cut down to what the promises look at; 64 lanes, 9 nodes, 25 actions.
GOOD = pathlib.Path(__file__).with_name("good.hlo.txt").read_text()
SPOILED = {
    check.compiles_silently: {"warnings": ("something was donated in vain",)},
    check.stays_on_the_device: ("ROOT %sum", "%out = token[] outfeed(%seen)\n  ROOT %sum"),
    check.talks_only_to_average: ("ROOT %sum", "%all = f32[64,9]{1,0} all-gather(%lanes)\n  ROOT %sum"),
    check.updates_in_place: {"state_bytes": 1001},
    check.leaves_the_state_in_its_place: {"moved": (".ring.rows.value",)},
    check.fits: {"state_bytes": 0, "argument_size_in_bytes": check.MOST_BYTES},
    check.convolves_by_itself: ("size=3x3", "size=1x1"),
    check.reads_edges_off_nodes: ("ROOT %sum", "%flat = f32[1800]{0} reshape(%lanes)\n  ROOT %sum"),
    check.is_given_its_openings: ("s32[16]{0} constant", "s32[32768,25]{1,0} constant"),
}


def program(text: str = GOOD, **changes) -> Program:
    """The good program with 8 chips, or a spoiled one."""
    memory = {
        "argument_size_in_bytes": 1000,
        "output_size_in_bytes": 1000,
        "alias_size_in_bytes": 1000,
        "temp_size_in_bytes": 10,
        "generated_code_size_in_bytes": 10,
    }
    memory |= {name: changes.pop(name) for name in list(changes) if name in memory}
    whole = Program(
        config=check.SMALL,
        kind="v5e",
        chips=8,
        text=text,
        module=hlo.parse(text),
        warnings=(),
        moved=(),
        state_bytes=1000,
        memory=types.SimpleNamespace(**memory),
        seconds=1.0,
        cpu_seconds=1.0,
        process_bytes=1,
    )
    return dataclasses.replace(whole, **changes)


def test_a_program_as_it_should_be_keeps_every_promise():
    assert check.broken(program()) == []


@pytest.mark.parametrize("promise", check.PROMISES, ids=lambda promise: promise.__name__)
def test_every_promise_can_be_broken_by_itself(promise):
    spoiled = SPOILED[promise]
    if isinstance(spoiled, dict):
        found = check.broken(program(**spoiled))
    else:
        assert GOOD.count(spoiled[0]) == 1
        found = check.broken(program(GOOD.replace(*spoiled)))
    assert [line.partition(":")[0] for line in found] == [promise.__name__]


@pytest.mark.parametrize(
    "spoiled, said",
    [
        (("ROOT %sum", "%s = f32[8,9] custom-call(%seen), custom_call_target=\"a_callback\"\n  ROOT %sum"),
         "stays_on_the_device: goes to the host: a_callback"),
        (("all-reduce(", "negate("), "talks_only_to_average: expected all-reduce alone, found {}"),
        (("jit(step)/learning/psum", "while/body/shard_map/while/body/psum"),
         "talks_only_to_average: sums while games are played: sum"),
        (("conv\" stack", "_convolve_on_cpu\" stack"), "convolves_by_itself: runs the convolution for CPUs"),
        (("fusion(%old), kind=kLoop, calls=%inner", "scatter(%old, %old, %old), to_apply=%inner"),
         "reads_edges_off_nodes: scatters into trees: kept"),
    ],
)  # fmt: skip
def test_a_promise_is_broken_in_every_way_it_speaks_of(spoiled, said):
    assert check.broken(program(GOOD.replace(*spoiled))) == [said]


def test_cycles_are_added_up_over_loops_and_charged_to_the_parts_of_the_program():
    module = hlo.parse(GOOD)
    cost = schedule.estimate(module, lambda it: 4.0, {}, bytes_per_cycle=100.0)
    # The loop's kernel four times by XLA's estimate; all-reduce has none.
    assert cost.by_part == {"network": 1000, "backup": 4 * 50}
    # By libtpu's listing instead: 30 cycles; but to write 8 * 9 numbers to the main memory takes 288 bytes / 4.
    cost = schedule.estimate(module, lambda it: 4.0, {"kept": 30.0, "seen": 900.0}, bytes_per_cycle=4.0)
    assert cost.by_part["backup"] == 4 * 8 * 9
    assert [(it.name, it.function) for _, it in schedule.loops(module)] == [
        ("loop", "backup search/tree.py:300")
    ]


@pytest.mark.parametrize(
    ("condition", "trips"),
    [
        ("pred[] compare(%n, %to), direction=LT", 16),
        ("pred[] compare(%n, %n), direction=LT", None),
        ("pred[] compare(%n, %to), direction=NE", None),
        ("pred[] fusion(%n), kind=kLoop, calls=%inner", None),
    ],
)
def test_a_loop_turns_as_often_as_its_condition_counts_and_else_as_is_assumed(condition, trips):
    """Libtpu says nowhere else how long a loop is."""
    counting = "%n = s32[] get-tuple-element(%p), index=0\n  %to = s32[]{:T(128)} constant(16)\n  ROOT %m = "
    counting += condition
    module = hlo.parse(GOOD.replace("ROOT %more = pred[] parameter(0)", counting))
    ((_, loop),) = schedule.loops(module)
    assert loop.trips == trips
    assert schedule.assumed_trips(loop) == (trips or schedule.DEPTHS["backup"])


def test_bundles_count_once_per_trip_of_the_loops_around_them():
    listing = """
    0x0   :  { %s1 = smov 0 }
    0x1 LB: > { %s2 = sphi 0 } /* Start region 3 */
    0x2   : > { %p4 = scmp.lt.s32.totalorder %s2, 16 }
    0x3   : > { sbr.rel (%p4) target = $region3 }
    0x4   :  { vnop }
    """
    assert schedule.bundle_cycles(listing) == 2 + 3 * 16


def test_the_cycles_of_each_part_are_kept_and_the_next_program_finds_no_kernels_of_this_one(tmp_path):
    (tmp_path / "12-kept-34-final_bundles.txt").write_text("0x0   :  { vnop }\n" * 700)
    facts = check.figures(program(), tmp_path)
    # The loop around the kernel turns as often as a backup is assumed to have levels; of the convolution XLA knows.
    assert facts["cycles_by_part"] == {"backup": schedule.DEPTHS["backup"] * 700, "network": 1000}
    assert facts["cycles"] == sum(facts["cycles_by_part"].values())
    assert not list(tmp_path.iterdir())
    gpu = {"program": "puct"} | check.figures(program(kind="h100", chips=1), tmp_path)
    head, _, tpu_line, gpu_line = check.table([{"program": "gumbel"} | facts, gpu]).splitlines()
    assert head.endswith(
        "| scatters | kernels, simulate | kernels, descend | kernels, backup | backup | network |"
    )
    assert tpu_line.startswith("| gumbel, 8 x v5e | 1.0 |") and tpu_line.endswith("| 0 |  |  | 1 | 4 | 1 |")
    assert gpu_line.startswith("| puct, 1 x h100 |") and gpu_line.endswith("| 0 |  |  | 1 |  |  |")


def test_of_presets_that_were_not_compiled_the_table_tells_the_roofline(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "network_operations", lambda config: 1e6)
    monkeypatch.setattr(estimate, "accelerator_presets", lambda: ["accelerator/hex11"])
    compiled = {"preset": "accelerator/hex11", "kind": "v5e", "chips": 1, "device_mib": 512.0}
    compiled |= {"roofline_positions_per_second": 2558442, "schedule_positions_per_second": 10, "cycles": 100}
    compiled |= {"schedule_seconds": 2.0, "cycles_by_part": {"network": 60, "learning": 15, "descent": 25}}
    (tmp_path / "accelerator-hex11.v5e.1.json").write_text(json.dumps(compiled))
    _, _, h100, one, eight = estimate.table(tmp_path).splitlines()
    assert one == "| accelerator/hex11 | 1 x v5e | 0.50 GiB | 2,558,442 | 10 | 2 | 60% | 15% | 25% |"
    # A position is searched with 64 simulations and the root, and learned from 4 times at 3 evaluations each.
    assert h100 == f"| accelerator/hex11 | 1 x h100 |  | {round(989e12 / 77e6):,} |  |  |  |  |  |"
    assert eight == f"| accelerator/hex11 | 8 x v5e |  | {round(8 * 197e12 / 77e6):,} |  |  |  |  |  |"


def compilers() -> str | None:
    """The Python that has libtpu: this one, or that of `make check-tpu`."""
    own = ROOT / ".venv-tpu" / "bin" / "python"
    return sys.executable if importlib.util.find_spec("libtpu") else str(own) if own.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(compilers() is None, reason="no libtpu here: `make check-tpu` brings it")
def test_the_training_iteration_compiled_for_eight_tpus_keeps_every_promise():
    command = [compilers(), "-m", "experiments.accelerator.check", "--programs", "1"]
    quiet = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    answer = subprocess.run(
        command, cwd=ROOT, env=os.environ | quiet, capture_output=True, text=True, timeout=1800
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
