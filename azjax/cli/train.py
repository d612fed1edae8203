"""`azjax train PRESET`: train from nothing, or go on with --resume."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import jax
import tyro

from azjax import theses
from azjax.cli import options, screen, training
from azjax.common import remote
from azjax.common.checked import Count, Number
from azjax.evaluation import live
from azjax.plots import report
from azjax.training import alphazero, checkpoint
from azjax.training.config import ConfigError, TrainConfig

Watcher = Callable[[alphazero.IterationReport], None]


@dataclasses.dataclass(frozen=True)
class TrainCommand:
    """Train an agent; every setting of the preset can be changed."""

    EXAMPLES: ClassVar = (
        "azjax train hex3",
        "azjax train hex5 --iterations 1000 --out runs/longer",
        "azjax train hex5 --search.simulations 32 --seed 1 --out runs/hex5-b",
        "azjax train hex6 --init-from runs/hex5",
        "azjax train hex6 --boards 5 7@400",
        "azjax train hex6 --out runs/hex6 --resume auto",
    )

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    out: pathlib.Path | None = None  # the run's folder; default runs/PRESET
    # Continue the run in that folder; auto: if there is one, else begin a new one. Without a word behind it: yes.
    resume: Literal["no", "yes", "auto"] = "no"
    # Begin with the weights of another run, or of an agent.npz.
    init_from: pathlib.Path | None = None
    resume_from: Number | None = None  # continue from this checkpoint rather than the newest
    devices: Count | None = None  # how many to use; default all
    # One of several processes: auto on a TPU pod, or HOST:PORT,PROCESSES,NUMBER.
    distributed: str | None = None
    tensorboard: bool = False  # also write events for TensorBoard into the run's folder
    json: bool = False  # print one JSON object a line instead of a progress bar


def run(arguments: list[str]) -> int:
    """Trains, watched by a progress bar or as JSON lines, and writes the report."""
    name, command = options.of_preset(TrainCommand, _with_word(arguments), "azjax train")
    out = command.out or pathlib.Path("runs") / name.replace("/", "-")
    train = functools.partial(
        alphazero.train,
        command.config,
        out,
        resume={"no": False, "yes": True, "auto": "auto"}[command.resume],
        judge=live.make_judge,
        init_from=command.init_from,
    )
    title = f"{name}: {theses.describe(name)}; folder {out}"
    return watched(train, title, out, command.config.iterations, command)


def _with_word(arguments: list[str]) -> list[str]:
    """`--resume` alone as `--resume yes`, and `--no-resume` as `--resume no`."""
    words = []
    for argument, following in zip(arguments, [*arguments[1:], ""]):
        words += {"--no-resume": ["--resume", "no"]}.get(argument, [argument])
        if argument == "--resume" and following not in ("no", "yes", "auto"):
            words.append("yes")
    return words


def watched(train: Callable, title: str, out: pathlib.Path, iterations: int, command: Any) -> int:
    """Runs a training as the command's options say, and tells people about it.

    Args:
      train: `azjax.training.alphazero.train` with all but `resume_from`, `devices`, `watch`, `say` and `stage`.
      title: the first line.
      out: the run's folder.
      iterations: how long the run goes on.
      command: has the fields `resume_from`, `devices`, `tensorboard` and `json`.

    Returns:
      The exit code; see `azjax.cli.training.exit_code`.
    """
    watchers = (
        [_tensorboard_watcher(remote.local(out))] if command.tensorboard and jax.process_index() == 0 else []
    )
    train = functools.partial(train, resume_from=command.resume_from, devices=command.devices)
    console = screen.console(stderr=command.json)
    # As they are: what looks like markup may be a path, and a command that was broken in two cannot be copied.
    say = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    if command.json:
        watchers.append(lambda progress: print(json.dumps(progress.row), flush=True))
        finished = train(watch=_all_of(watchers), say=say)
    else:
        say(title)
        with training.watching(console, iterations) as shown:
            watchers.append(lambda progress: shown.row(progress.row))
            finished = train(watch=_all_of(watchers), say=say, stage=shown.stage)
    if finished.interrupted:
        return training.exit_code(finished)  # at once: who sends a signal does not wait for pictures
    if jax.process_index() == 0:
        page = report.write(finished)
        if not command.json:
            report.summarise(finished, console)
        finished.publish()
        console.print(f"The report is in {page}; the agent in {finished.address}/agent.npz.")
        training.say_next(console, next_commands(finished))
    return 0


def next_commands(finished: checkpoint.Run) -> list[list[str]]:
    """What can be done with a finished run."""
    out, config = finished.address, finished.config
    opponent = f"uct:{config.evaluation.uct_simulations}"
    return [
        ["play", out],
        ["match", out, opponent, "--random-plies", str(config.evaluation.random_plies)],
        ["resume", out, "--iterations", str(2 * config.iterations)],
    ]


def _tensorboard_watcher(out: pathlib.Path) -> Watcher:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError("--tensorboard needs another package: pip install 'azjax[tensorboard]'") from None
    writer = None

    def watch(progress: alphazero.IterationReport) -> None:
        nonlocal writer
        writer = writer or SummaryWriter(
            str(out / "tensorboard")
        )  # the folder is there once the run has begun
        for path, value in jax.tree_util.tree_leaves_with_path(progress.row):
            if all(isinstance(part, jax.tree_util.DictKey) for part in path):  # intervals are lists
                name = "/".join(part.key for part in path)
                writer.add_scalar(name, value, progress.row["iteration"])
        writer.flush()

    return watch


def _all_of(watchers: list[Watcher]) -> Watcher:
    def watch(progress: alphazero.IterationReport) -> None:
        for watcher in watchers:
            watcher(progress)

    return watch
