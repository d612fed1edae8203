"""How long a compiled TPU program will take, by its own schedule: cycles by part of the program. An estimate.

A TPU core issues one bundle of instructions per cycle, so the bundles of a kernel, each times the trips of the loops
around it, are the cycles it takes while nothing waits for memory. The price of a kernel is that, or the time that
its operands in main memory take to move, whichever is longer; where libtpu lists no bundles, XLA's own estimate,
which knows nothing of gathers and scatters. Prices are added up over the call graph, times the trips of the loops, and
charged to the parts that the source names by `jax.named_scope`. Nothing of this has been timed on a TPU. For
convolutions the bundles agree with XLA's own estimate within 1 %; for kernels with loops of unknown length they are
lower bounds.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Callable
from typing import Any

from experiments.accelerator.hlo import Instruction, Module, main_memory_bytes

# Loops whose length depends on the data, by function: mean levels per simulation, of the deepest lane; see the docs.
DEPTHS = {"descend": 4.0, "backup": 5.0}
PARTS = ("network", "descent", "growth", "backup", "rules", "answer", "storing", "learning")
OTHER = "other"

# Instructions that only name what is there.
_FREE = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id iota".split()
)

_LINE = re.compile(r"^\s*(?:0x[0-9a-f]+|\d+)\s+(\w\w)?:[\s>]*\{")
_REGION = re.compile(r"Start(?:/End empty)? region (\d+)")
_BRANCH = re.compile(r"sbr\.rel \(!?%(\w+)\) target = \$region(\d+)")
_TEST = re.compile(r"%(\w+) = scmp\.\w+\.[su]32\.totalorder %\w+, (\d+)")
_LISTING = re.compile(r"^\d+-(.+)-\d+-final_bundles\.txt$")


def listing_flags(folder: pathlib.Path) -> str:
    """What LIBTPU_INIT_ARGS must be before libtpu is loaded, so that it lists its kernels (undocumented)."""
    return (
        f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        " --xla_jf_dump_llo_pass_label_regex=final_bundles"
    )


def read_listings(folder: pathlib.Path) -> dict[str, float]:
    """Cycles by the instruction's name."""
    found = {}
    for file in sorted(folder.iterdir()):
        if name := _LISTING.match(file.name):
            found[name[1]] = bundle_cycles(file.read_text(errors="replace"))
    return found


def bundle_cycles(text: str) -> float:
    """Bundles times trips; loops that hide their number of trips count once."""
    place, starts, tests, loops = 0, {}, {}, []
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        if found[1] == "LB":
            starts |= {region: place for region in _REGION.findall(line)}
        tests |= {name: int(number) for name, number in _TEST.findall(line)}
        for name, region in _BRANCH.findall(line):
            if region in starts:  # a branch back
                loops.append((starts[region], place, tests.get(name)))
        place += 1
    weights = [1.0] * place
    for first, last, trips in loops:
        for inside in range(first, last + 1):
            weights[inside] *= trips or 1
    return sum(weights)


@dataclasses.dataclass
class Cost:
    """Where cycles go."""

    total: float = 0.0
    by_part: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    by_source: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, other: "Cost", times: float) -> None:
        """Adds something that runs so many times."""
        self.total += times * other.total
        for mine, others in ((self.by_part, other.by_part), (self.by_source, other.by_source)):
            for key, value in others.items():
                mine[key] += times * value


def part_of(it: Instruction) -> str:
    """The part of the program that an instruction belongs to: learning, else the innermost scope with such a name."""
    scopes = [re.sub(r"^\w+\((.*)\)$", r"\1", scope) for scope in it.op_name.split("/")]
    named = [scope for scope in scopes if scope in PARTS]
    return OTHER if not named else "learning" if "learning" in named else named[-1]


def estimate(
    module: Module,
    trips_of: Callable[[Instruction], float],
    bundles: dict[str, float],
    bytes_per_cycle: float,
) -> Cost:
    """The cost of one run of a program.

    Args:
      module: the program.
      trips_of: how often a loop turns.
      bundles: cycles by instruction, see `read_listings`; without them XLA's own estimates count.
      bytes_per_cycle: of the main memory.
    """
    bundles = _with_twins(module, bundles)
    known: dict[str, Cost] = {}

    def cost(name: str) -> Cost:
        if name not in known:
            total = Cost()
            shapes = {it.name: it.shape for it in module.computations[name]}
            for it in module.computations[name]:
                charge(total, it, shapes)
            known[name] = total
        return known[name]

    def charge(total: Cost, it: Instruction, shapes: dict[str, str]) -> None:
        if it.opcode == "while":
            for inside in it.calls("body", "condition"):
                total.add(cost(inside), trips_of(it))
        elif it.opcode == "conditional":
            total.add(max(map(cost, it.calls("branch")), key=lambda c: c.total), 1)
        elif it.opcode in ("call", "async-start") and it.cycles is None:
            for inside in it.calls("to_apply", "calls"):
                total.add(cost(inside), 1)
        elif it.cycles is not None or it.name in bundles:
            cycles = price(it, shapes)
            one = Cost(cycles)
            one.by_part[part_of(it)] = cycles
            one.by_source[f"{part_of(it)} | {it.function} | {it.opcode} {it.shape[:48]}"] = cycles
            total.add(one, 1)

    def price(it: Instruction, shapes: dict[str, str]) -> float:
        if it.name not in bundles:
            return it.cycles or 0
        read = [main_memory_bytes(shapes.get(name, "")) for name in it.operands]
        written = main_memory_bytes(it.shape)
        body = " ".join(line.opcode for part in it.calls("calls") for line in module.computations[part])
        if re.search("gather|scatter|slice", f"{body} {it.opcode}"):  # touches parts of its operands only
            in_place = re.search("scatter|dynamic.update", it.text.split("metadata")[0] + it.op_name)
            read, written = ([], 0) if in_place else ([min(one, written) for one in read], written)
        return max(bundles[it.name], (sum(read) + written) / bytes_per_cycle)

    return cost(module.entry)


def assumed_trips(it: Instruction) -> float:
    """How often a loop turns: as XLA knows, else as `DEPTHS` assumes, else once."""
    if it.trips is not None:
        return it.trips
    return DEPTHS.get(it.function.split(" ")[0].split(".")[-1], 1.0)


def figures(cost: Cost) -> dict[str, Any]:
    """What the tables tell: cycles, and those of each part."""
    parts = {part: round(cycles) for part, cycles in cost.by_part.most_common()}
    return {"assumed_depths": DEPTHS, "cycles": round(cost.total), "cycles_by_part": parts}


def _with_twins(module: Module, bundles: dict[str, float]) -> dict[str, float]:
    """Adds the kernels that libtpu did not list because an equal one was there already."""

    def kind(it: Instruction) -> str:
        inside = [line.text for part in it.calls("calls") for line in module.computations.get(part, [])]
        text = "\n".join([it.opcode, it.shape, *inside])
        return re.sub(r", (metadata|backend_config)=.*|%?[\w.\-]+ = |%[\w.\-]+", "", text)

    if not bundles:
        return {}
    everything = [it for it in module.instructions() if it.opcode not in _FREE]
    kinds = {it.name: kind(it) for it in everything}
    by_kind = {kinds[it.name]: bundles[it.name] for it in everything if it.name in bundles}
    return {it.name: by_kind[kinds[it.name]] for it in everything if kinds[it.name] in by_kind} | bundles


def loops(module: Module) -> list[tuple[int, Instruction]]:
    """(depth, instruction) of all loops that the entry reaches, outermost first."""
    found, seen = [], set()

    def visit(name: str, depth: int) -> None:
        if (name, depth) in seen:
            return
        seen.add((name, depth))
        for it in module.computations.get(name, []):
            if it.opcode == "while":
                found.append((depth, it))
            if it.opcode in ("while", "conditional", "call", "async-start"):
                for kind, inside in it.called:
                    visit(inside, depth + (kind == "body"))

    visit(module.entry, 0)
    return found
