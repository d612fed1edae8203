"""`azjax doctor [PRESET]`: whether a training fits this machine, how fast it may be, and what to change."""

import dataclasses
import json
from typing import Annotated, Any, ClassVar

import jax
import tyro

from azjax import training
from azjax.cli import options, screen
from azjax.common import keys, memory
from azjax.training import alphazero, machine
from azjax.training.config import TrainConfig

_DEFAULT = "hex5"


@dataclasses.dataclass(frozen=True)
class DoctorCommand:
    """Look at this machine, and at what a training would make of it; nothing is trained.

    The exit code is 0 if the training fits and compiles, else 1.
    """

    EXAMPLES: ClassVar = (
        "azjax doctor",
        "azjax doctor hex6 --selfplay.lanes 1024",
        "azjax doctor daliri2022/hex6-A3 --json",
    )

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    compile: bool = True  # also compile the iteration, which takes about half a minute
    json: bool = False  # print JSON instead of sentences


def run(arguments: list[str]) -> int:
    """Prints what was found."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = [_DEFAULT, *arguments]
    name, command = options.of_preset(DoctorCommand, arguments, "azjax doctor")
    found = examine(command.config, command.compile)
    if command.json:
        print(json.dumps({"preset": name} | found))
    else:
        console = screen.console()
        for line in sentences(name, found):
            console.print(line)
    return 0 if found["fits"] and found["compiles"] is not False else 1


def examine(config: TrainConfig, compile: bool = True) -> dict[str, Any]:
    """What there is to say about a run on this machine, as plain data."""
    mesh = training.make_mesh(None, config.replay.groups)
    wrong = machine.why_not(config)
    found: dict[str, Any] = {
        "machine": machine.describe(),
        "devices_used": mesh.size,
        "fits": wrong is None,
        "reason": wrong,
        "compiles": None,
        "change": None,
        "estimate": None,
    }
    if wrong is None and compile:
        trainer = training.make_trainer(config, mesh)
        try:
            _, about = alphazero.compile_iterations(trainer, trainer.init(keys.root(config.seed, "training")))
            found |= {"compiles": True, "about": about}
        except jax.errors.JaxRuntimeError as error:  # such as RESOURCE_EXHAUSTED, which only compiling finds
            found |= {"compiles": False, "reason": str(error).splitlines()[0]}
    if wrong is not None:
        found["change"] = machine.that_fits(config, lambda smaller: machine.why_not(smaller) is None)
    elif found["compiles"] is False:
        found["change"] = next(machine.smaller_runs(config))[1]
    else:
        found["estimate"] = machine.estimate(config, mesh.size)
    return found


def sentences(name: str, found: dict[str, Any]) -> list[str]:
    """The same for people."""
    there = found["machine"]
    devices = ", ".join(f"{count} x {kind}" for kind, count in there["devices"].items())
    versions = ", ".join(f"{package} {version}" for package, version in there["versions"].items())
    lines = [
        f"Versions: {versions}.",
        f"Devices: {devices} ({there['backend']}), {there['processes']} process"
        f"{'es' if there['processes'] > 1 else ''}; {name} uses {found['devices_used']} of them.",
        f"Memory: {memory.size_text(there['memory'])} in all.",
    ]
    if not found["fits"]:
        lines.append(f"{name} does not fit: {found['reason']}.")
    elif found["compiles"] is False:
        lines.append(f"{name} cannot be compiled here: {found['reason']}.")
    else:
        lines.append(
            f"{name} fits" + (f": {found['about']}." if found["compiles"] else "; it was not compiled.")
        )
    if found["estimate"] is not None:
        made = found["estimate"]
        lines.append(
            f"Estimate, from its network alone: at most {made['positions_per_second']:,.0f} positions/s;"
            f" an iteration evaluates for {made['evaluating_seconds']:.3g} s and learns for"
            f" {made['learning_seconds']:.3g} s. Trees and rules come on top."
        )
    elif found["change"]:
        changes = " ".join(f"--{option} {value}" for option, value in found["change"].items())
        lines.append(f"{'Try' if found['fits'] else 'It fits with'}: {changes}")
    else:
        lines.append("Nothing smaller that still makes sense fits; choose a smaller board or network.")
    return lines
