"""`azjax supervised GAME`: teach a network what a solver or a file knows."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import tyro

from azjax.cli import options, progress, screen, training
from azjax.common.checked import Count, Number
from azjax.common.tables import percent
from azjax.evaluation import supervision
from azjax.learners.supervised import SupervisedConfig


@dataclasses.dataclass(frozen=True)
class SupervisedCommand:
    """Teach a network positions whose values and good moves are known.

    Its agent is one like that of a run of `azjax train`, which can also begin with its weights (--init-from).
    """

    EXAMPLES: ClassVar = (
        "azjax supervised chinese-checkers",
        "azjax supervised chinese-checkers --data positions.npz --teach values",
        "azjax supervised hex --size 4 --positions 2000 --out runs/taught",
    )

    config: Annotated[SupervisedConfig, tyro.conf.arg(name="")]
    out: pathlib.Path | None = None  # the run's folder; default runs/supervised-GAME
    resume: bool = False  # continue the run in that folder
    # Begin with the weights of another run, or of an agent.npz.
    init_from: pathlib.Path | None = None
    resume_from: Number | None = None  # continue from this checkpoint rather than the newest
    devices: Count | None = None  # how many to use; default all
    json: bool = False  # print one JSON object a line instead of a progress bar


def run(arguments: list[str]) -> int:
    """Learns, watched by a progress bar or as JSON lines."""
    name, command = options.of_supervised(SupervisedCommand, SupervisedConfig, arguments, "azjax supervised")
    out = command.out or pathlib.Path("runs") / f"supervised-{name}"
    learn = functools.partial(
        supervision.train, command.config, out, resume=command.resume, init_from=command.init_from
    )
    return watched(learn, out, command.config, command)


def watched(learn: Callable, out: pathlib.Path, config: SupervisedConfig, command: Any) -> int:
    """Runs `learn`, which is `supervision.train` with all but `resume_from`, `devices`, `watch` and `say`.

    Returns:
      The exit code; see `azjax.cli.training.exit_code`.
    """
    console = screen.console(stderr=command.json)
    say = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    say(f"{config.game}, taught by {config.data}; folder {out}")
    with progress.bar(console) as bar:
        progress.begin(console, bar, "labelling and compiling", config.iterations)

        def watch(row: dict[str, Any]) -> None:
            bar("learning", row["iteration"], config.iterations, note=progress_line(row))
            if command.json:
                print(json.dumps(row), flush=True)
            elif "held_out" in row:
                say(f"iteration {row['iteration']}: {judgement(row)}")

        run = learn(resume_from=command.resume_from, devices=command.devices, watch=watch, say=say)
    if run.interrupted:
        return training.exit_code(run)
    say(f"The agent is {out}.")
    training.say_next(console, [["match", str(out), "random"], ["resume", str(out)]])
    return 0


def progress_line(row: dict[str, Any]) -> str:
    """How things stand after an iteration."""
    loss = row["loss"]
    return f"{row['positions']:,} positions; loss: policy {loss['policy']:.3f}, value {loss['value']:.3f}"


def judgement(row: dict[str, Any]) -> str:
    """What the network knows of the positions that were held out."""
    found = row["held_out"]
    shares = [f"{name} {percent(share)}" for name, share in found.items() if name != "of"]
    return f"right in {found['of']:,} positions held out: {', '.join(shares)}"
