"""Compiled programs as XLA prints them: instructions, the computations they stand in, and where they come from."""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"([a-z][\w\-]*)\(")
_CALLED = re.compile(r"\b(calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONSTANT = re.compile(r"constant\((-?\d+)\)")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_ARRAY = re.compile(r"\b(pred|bf16|[suf]\d+)\[([\d,]*)\](\{[^}]*\})?")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a program."""

    name: str
    shape: str  # with its layout
    opcode: str
    called: tuple[tuple[str, str], ...]  # (as what, computation)
    cycles: int | None  # as XLA estimates them
    trips: int | None  # of a loop, where XLA says them or its condition does
    op_name: str  # the path of jax's functions and named scopes
    function: str  # of the source
    operands: tuple[str, ...]
    text: str

    def calls(self, *kinds: str) -> list[str]:
        """The computations that it calls as one of these."""
        return [name for kind, name in self.called if kind in kinds]


@dataclasses.dataclass(frozen=True)
class Module:
    """Computations by name."""

    computations: dict[str, list[Instruction]]
    entry: str

    def instructions(self) -> Iterator[Instruction]:
        """All of them, those inside of kernels included."""
        for computation in self.computations.values():
            yield from computation

    def count(self, *opcodes: str) -> int:
        """How many instructions have one of these opcodes; of a pair of start and done, the start alone counts."""
        names = {name for opcode in opcodes for name in (opcode, f"{opcode}-start")}
        return sum(it.opcode in names for it in self.instructions())


def parse(text: str) -> Module:
    """Reads the text of an optimised module."""
    functions = _functions(text)
    computations, entry, current = {}, "", None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current.append(_instruction(found[2], found[3], functions))
    for body in computations.values():
        body[:] = [
            dataclasses.replace(it, trips=_counted_to(computations[it.calls("condition")[0]]))
            if it.opcode == "while" and it.trips is None
            else it
            for it in body
        ]
    return Module(computations, entry)


def _counted_to(condition: list[Instruction]) -> int | None:
    """The constant that a loop counts to, if it counts: jax's counters begin with 0 and grow by 1."""
    by_name = {it.name: it for it in condition}
    *_, last = condition
    first, second = ([by_name.get(name) for name in last.operands] + [None, None])[:2]
    counts = last.opcode == "compare" and "direction=LT" in last.text and first is not None
    if not counts or first.opcode != "get-tuple-element" or second is None or second.opcode != "constant":
        return None
    return int(_CONSTANT.search(second.text)[1])


def _instruction(name: str, text: str, functions: dict[int, str]) -> Instruction:
    shape, opcode, rest = _split(text)
    called = _CALLED.findall(rest)
    if branches := _BRANCHES.search(rest):
        called += [("branch", branch.strip().lstrip("%")) for branch in branches[1].split(",")]
    called = [
        ("branch" if kind.endswith("e_computation") else kind, computation) for kind, computation in called
    ]
    cycles, trips, op_name = _CYCLES.search(rest), _TRIPS.search(rest), _OP_NAME.search(rest)
    frame = _FRAME.search(rest)
    return Instruction(
        name=name,
        shape=shape,
        opcode=opcode,
        called=tuple(called),
        cycles=int(cycles[1]) if cycles else None,
        trips=int(trips[1]) if trips else None,
        op_name=op_name[1] if op_name else "",
        function=functions.get(int(frame[1]), "") if frame else "",
        operands=tuple(re.findall(r"%([\w.\-]+)", rest.split("), ")[0])),
        text=f"{name} = {text}",
    )


def _split(text: str) -> tuple[str, str, str]:
    """Shape, opcode and the rest; a shape may be a tuple with parentheses of its own."""
    depth, end = 0, len(text)
    for place, letter in enumerate(text):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == " " and depth == 0:
            end = place
            break
    shape, rest = text[:end], text[end + 1 :]
    opcode = _OPCODE.match(rest)
    return shape, opcode[1] if opcode else "?", rest


def _functions(text: str) -> dict[int, str]:
    """Source places stand in tables at the head of a module: frame -> `function file:line`."""
    tables = {}
    for name in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
        block = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, re.M)
        tables[name] = dict(line.split(" ", 1) for line in block[1].splitlines()) if block else {}

    def named(table: str, number: str) -> str:
        return tables[table].get(number, "").strip('"')

    places = {}
    for number, line in tables["FileLocations"].items():
        fields = dict(re.findall(r"(\w+)=(\d+)", line))
        file = "/".join(named("FileNames", fields.get("file_name_id", "")).split("/")[-2:])
        function = named("FunctionNames", fields.get("function_name_id", ""))
        places[number] = f"{function} {file}:{fields.get('line', '?')}"
    frames = {}
    for number, line in tables["StackFrames"].items():
        fields = dict(re.findall(r"(\w+)=(\d+)", line))
        frames[int(number)] = places.get(fields.get("file_location_id", ""), "")
    return frames


def arrays(shape: str) -> list[tuple[str, tuple[int, ...], str]]:
    """(type, dimensions, layout) of the arrays in a shape."""
    return [
        (kind, tuple(int(size) for size in sizes.split(",") if size), layout)
        for kind, sizes, layout in _ARRAY.findall(shape)
    ]


@functools.cache
def main_memory_bytes(shape: str) -> int:
    """Bytes of the arrays of a shape that are not in a memory of the core (those are marked S)."""
    total = 0
    for kind, sizes, layout in arrays(shape):
        if "S(" not in layout:
            bits = {"pred": 8, "bf16": 16}.get(kind) or int(kind[1:])
            total += math.prod(sizes) * bits // 8
    return total
