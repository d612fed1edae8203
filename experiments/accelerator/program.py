"""The training iteration, compiled for devices that are not there, and what there is to know of the program."""

import dataclasses
import re
import resource
import time
import warnings
from typing import Any

from experiments.accelerator import devices, hlo, schedule  # devices first, see there

# isort: split
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from azjax import training
from azjax.training import alphazero
from azjax.training.config import TrainConfig
from azjax.training.step import DEVICES

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "ragged-all-to-all",
)
KERNELS = ("fusion", "custom-call", "convolution", "copy", "scatter", "gather")
TO_THE_HOST = ("infeed", "outfeed", "send", "recv")


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled iteration."""

    config: TrainConfig
    kind: str
    chips: int
    text: str  # as XLA prints it
    module: hlo.Module
    warnings: tuple[str, ...]  # what was said while it was compiled
    moved: tuple[str, ...]  # parts of the state that an iteration gives back in another place, shape or type
    state_bytes: int  # of the carried state, on one device
    memory: Any  # XLA's account of one device's memory
    seconds: float
    cpu_seconds: float
    process_bytes: int  # the most memory that compiling took

    @property
    def bytes_on_device(self) -> int:
        """What the program needs on each device: its arguments, what it adds to them, and its code."""
        memory = self.memory
        added = memory.output_size_in_bytes - memory.alias_size_in_bytes
        return (
            memory.argument_size_in_bytes
            + added
            + memory.temp_size_in_bytes
            + memory.generated_code_size_in_bytes
        )

    def facts(self) -> dict[str, Any]:
        """What the tables tell."""
        count = self.module.count
        return {
            "kind": self.kind,
            "chips": self.chips,
            "compile_seconds": round(self.seconds, 1),
            "compile_cpu_seconds": round(self.cpu_seconds, 1),
            "compile_gib": round(self.process_bytes / 2**30, 2),
            "state_mib": round(self.state_bytes / 2**20, 1),
            "device_mib": round(self.bytes_on_device / 2**20, 1),
            "instructions": sum(1 for _ in self.module.instructions()),
            "kernels": count(*KERNELS),
            "kernels_per_turn": kernels_per_turn(self.module),
            "loops": count("while"),
            "convolutions": count("convolution"),
            "gathers": count("gather"),
            "scatters": count("scatter"),
            "collectives": {op: count(op) for op in COLLECTIVES if count(op)},
        }


def compile_iteration(config: TrainConfig, kind: str, chips: int) -> Program:
    """Compiles what a run compiles for so many chips of a kind; see `devices.make_mesh`.

    That is a loop of iterations whose length is an argument; the figures are those of one.
    """
    mesh = devices.make_mesh(kind, chips)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = training.make_trainer(config, mesh)
        state = _abstract_state(trainer, mesh)
        start, cpu_start = time.perf_counter(), time.process_time()
        compiled = alphazero.several_iterations(trainer).lower(state, np.int32(1)).compile()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    text = compiled.as_text()
    return Program(
        config=config,
        kind=kind,
        chips=chips,
        text=text,
        module=hlo.parse(text),
        warnings=tuple(str(warning.message) for warning in caught),
        moved=tuple(_moved(state, compiled)),
        state_bytes=sum(_bytes_on_device(leaf) for leaf in jax.tree.leaves(state)),
        memory=compiled.memory_analysis(),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        process_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _abstract_state(trainer: training.Trainer, mesh: Any) -> training.TrainState:
    """Shapes and places of a run's state; nothing is allocated."""
    shapes = trainer.init.eval_shape(jax.random.key(0))
    places = training.state_partition(PartitionSpec(DEVICES), PartitionSpec())

    def placed(spec: PartitionSpec, part: Any) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sharding), part)

    return jax.tree.map(placed, places, shapes, is_leaf=lambda x: isinstance(x, PartitionSpec))


def _moved(state: training.TrainState, compiled: Any) -> list[str]:
    (given, _), (shapes, _) = compiled.output_shardings, compiled.out_info
    leaves = jax.tree_util.tree_leaves_with_path(state)
    news = zip(jax.tree.leaves(given), jax.tree.leaves(shapes), strict=True)
    return [
        jax.tree_util.keystr(path)
        for (path, old), (place, new) in zip(leaves, news, strict=True)
        if (old.shape, old.dtype) != (new.shape, new.dtype)
        or not old.sharding.is_equivalent_to(place, len(old.shape))
    ]


def _bytes_on_device(leaf: jax.ShapeDtypeStruct) -> int:
    shape = leaf.sharding.shard_shape(leaf.shape)
    size = 8 if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize
    total = size
    for length in shape:
        total *= length
    return total


def kernels_per_turn(module: hlo.Module) -> dict[str, int]:
    """How many kernels are started each time that a loop turns, by the function that it stands in.

    Those of the loops inside are left out. A GPU takes some microseconds to start one.
    """

    def started(name: str) -> int:
        total = 0
        for it in module.computations.get(name, []):
            if it.opcode.removesuffix("-start") in KERNELS:
                total += 1
            elif it.opcode == "conditional":
                total += max(map(started, it.calls("branch")))
            elif it.opcode == "call":
                total += sum(map(started, it.calls("to_apply")))
        return total

    turns = {}
    for _, loop in schedule.loops(module):
        name = loop.function.split(" ")[0].split(".")[-1]
        turns[name] = turns.get(name, 0) + sum(map(started, loop.calls("body")))
    return turns


def flattened_edge_tables(program: Program) -> list[str]:
    """Arrays of the program that hold all edges of all trees in one row, which is how XLA scatters into large ones."""
    config = program.config
    lanes = config.selfplay.lanes // program.chips
    edges = lanes * (config.search.simulations + 1) * config.game.num_actions
    return [
        it.name
        for it in program.module.instructions()
        for _, sizes, _ in hlo.arrays(it.shape)
        if len(sizes) == 1 and sizes[0] == edges
    ]


def host_transfers(program: Program) -> list[str]:
    """What goes to the host or waits for it."""
    sends = [it.name for it in program.module.instructions() if it.opcode in TO_THE_HOST]
    return sends + re.findall(r'custom_call_target="([^"]*callback[^"]*)"', program.text)


def markdown(rows: list[dict[str, str]]) -> str:
    """A table of rows, the columns in the order in which they first come; where a row has none, nothing stands."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns), *([row.get(name, "") for name in columns] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
