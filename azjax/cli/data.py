"""`azjax data dots-and-boxes`: positions out of a teacher's games, to learn from (Peters 2018)."""

import dataclasses
import functools
import json
import pathlib
from typing import Annotated, ClassVar, Generic, TypeVar

import numpy as np
import tyro

from azjax.agents import make_agent
from azjax.agents.dots_data import Recipe, make_samples, pictures
from azjax.cli import options, progress, screen
from azjax.common import atomic, files
from azjax.common.checked import Count
from azjax.envs.dots_and_boxes import board_of
from azjax.positions import describe_game, labelled

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class DataCommand(Generic[G]):
    """Write positions out of a teacher's games, with its moves and results, to a file that networks learn from.

    Results are margins, so that whoever learns from them plays with --reward margin.
    """

    EXAMPLES: ClassVar = (
        "azjax data dots-and-boxes --rows 4 --columns 5 --samples 2000000",
        "azjax data dots-and-boxes --kind basic-strategy --pictures",
        "azjax data dots-and-boxes --teacher optimal --out optimal3x3.npz",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    recipe: Annotated[Recipe, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Recipe)
    samples: Count = 100_000  # positions; whole games with kind sequence and training-sequence
    out: pathlib.Path = pathlib.Path("samples.npz")  # the file that is written
    # write the arrays input, policy and value as Peters 2018 has them, for other programs
    pictures: bool = False
    json: bool = False  # print what was written as JSON


def run(arguments: list[str]) -> None:
    """Makes the samples, watched by a progress bar, and writes the file."""
    command = options.of_game(DataCommand, arguments, "azjax data")
    recipe = command.recipe
    game = board_of(command.game, "teachers' games are written down for dots_and_boxes alone")
    game = dataclasses.replace(game, reward="margin")
    if command.out.suffix != ".npz":
        raise ValueError(f"--out must be NAME.npz, got {command.out}")
    files.writable_path(command.out)
    make_teacher = functools.cache(make_agent)
    with progress.bar() as show:
        samples = make_samples(
            game, recipe, command.samples, make_teacher, lambda done, total: show("samples", done, total)
        )
    made = dataclasses.asdict(recipe) | {"samples": command.samples}
    if command.pictures:
        about = json.dumps({"game": describe_game(game), "made": made})
        with atomic.writing(command.out, "wb") as file:
            np.savez(file, about=np.array(about), **pictures(game, samples))
    else:
        labelled.write(command.out, game, samples, made)
    if command.json:
        print(json.dumps({"out": str(command.out), "positions": samples.size, **made}))
        return
    known = " and ".join(name for name in ("value", "policy") if getattr(samples, name) is not None)
    screen.console().print(
        f"{samples.size:,} positions, each with its {known}, are in {command.out}.", soft_wrap=True
    )
