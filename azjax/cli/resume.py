"""`azjax resume RUN`: go on with a run of `azjax train`, `supervised`, `td` or `es` as it was begun."""

import dataclasses
import functools
import pathlib
from typing import Annotated, ClassVar

import tyro

from azjax.agents import make_agent
from azjax.cli import learner, parsing, supervised, train
from azjax.common.checked import Count, Number
from azjax.evaluation import live, supervision
from azjax.learners import session
from azjax.learners.es import ESConfig
from azjax.learners.supervised import SupervisedConfig
from azjax.learners.td import TDConfig
from azjax.training import alphazero, boards, checkpoint
from azjax.training.config import TrainConfig

KINDS = {TrainConfig: "train", SupervisedConfig: "supervised", TDConfig: "td", ESConfig: "es"}


@dataclasses.dataclass(frozen=True)
class ResumeCommand:
    """Continue a run from its newest whole checkpoint; all its settings are those it was begun with."""

    EXAMPLES: ClassVar = (
        "azjax resume runs/hex5",
        "azjax resume runs/hex5 --iterations 2000",
    )

    run: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # the run's folder
    iterations: Count | None = None  # how long the run goes on in all; default as before
    resume_from: Number | None = None  # continue from this checkpoint rather than the newest
    devices: Count | None = None  # how many to use; default all
    # One of several processes: auto on a TPU pod, or HOST:PORT,PROCESSES,NUMBER.
    distributed: str | None = None
    tensorboard: bool = False  # also write events for TensorBoard into the run's folder
    json: bool = False  # print one JSON object a line instead of a progress bar


def run(arguments: list[str]) -> int:
    """Continues a run, and tells of it as the command that began it does."""
    command = parsing.parse(ResumeCommand, arguments, "azjax resume", about=parsing.explained(ResumeCommand))
    config = checkpoint.read_config(command.run, *KINDS)
    if command.iterations is not None:
        config = dataclasses.replace(config, iterations=command.iterations)
    method, out = KINDS[type(config)], command.run
    if method == "train":
        resume = functools.partial(alphazero.train, config, out, resume=True, judge=live.make_judge)
        return train.watched(resume, f"{boards.title(config)}, folder {out}", out, config.iterations, command)
    for option in ("distributed", "tensorboard", "devices")[: 2 if method == "supervised" else 3]:
        if getattr(command, option):
            raise ValueError(f"--{option} is for runs of azjax train, and {out} is one of azjax {method}")
    if method == "supervised":
        learn = functools.partial(supervision.train, config, out, resume=True)
        return supervised.watched(learn, out, config, command)
    learn = functools.partial(
        session.train,
        config,
        out,
        resume=True,
        resume_from=command.resume_from,
        make_opponent=make_agent,
    )
    return learner.watched(learn, method, config, out, as_json=command.json)
