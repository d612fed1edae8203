"""`azjax suite`: make a suite of solved positions, or ask an agent about one."""

import dataclasses
import functools
import importlib.metadata
import json
import pathlib
from typing import Annotated, Generic, TypeVar

import jax
import tyro
from rich.console import Console
from rich.table import Table

from azjax.commands import options, progress
from azjax.evaluation import suites
from azjax.positions import describe_game, write_positions

G = TypeVar("G")
_USAGE = """usage: azjax suite build GAME [options]    make a suite of solved positions
       azjax suite run AGENT SUITE [--json]  ask an agent about every position

SUITE is a position file with "optimal", or one of those that come with azjax: {names}."""


@dataclasses.dataclass(frozen=True)
class BuildCommand(Generic[G]):
    """Make a suite: play games, take their positions, solve them, choose."""

    game: Annotated[G, tyro.conf.arg(name="")]
    out: pathlib.Path = pathlib.Path("suite.jsonl")  # the suite; its recipe goes beside it
    recipe: Annotated[suites.Recipe, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=suites.Recipe
    )
    json: bool = False  # print the counts as JSON


@dataclasses.dataclass(frozen=True)
class RunCommand:
    """Ask an agent about every position of a suite."""

    agent: Annotated[str, tyro.conf.Positional]  # such as random, uct:200, perfect, az:runs/hex5?sims=64
    suite: Annotated[str, tyro.conf.Positional]  # a position file with "optimal", or a suite's name
    seed: int = 0  # for agents that draw
    json: bool = False  # print every answer and the summary as one JSON object


def run(arguments: list[str]) -> None:
    """Builds or runs a suite."""
    which, *rest = arguments or ["--help"]
    if which == "build":
        build(options.of_game(BuildCommand, rest, "azjax suite build"), rest)
    elif which == "run":
        run_suite(tyro.cli(RunCommand, args=rest, prog="azjax suite run"))
    elif which in ("-h", "--help"):
        print(_USAGE.format(names=", ".join(suites.ready_suites())))
    else:
        raise ValueError(f"unknown {which!r}; say azjax suite build or azjax suite run")


def build(command: BuildCommand, arguments: list[str]) -> None:
    """Makes a suite and writes it, with its recipe beside it."""
    from azjax.solvers import make_solver

    recipe, game = command.recipe, command.game
    # Only searches can be limited; a table is complete.
    limits = {"hex": ("nodes", "seconds"), "dots_and_boxes": ("seconds",)}.get(game.name, ())
    limits = {name: getattr(recipe, name) for name in limits}
    with progress.bar() as bar:
        built = suites.build(game, functools.partial(make_solver, game, **limits), recipe, bar)
    write_positions(command.out, built.lines)
    about = {
        "command": " ".join(["azjax suite build", *arguments]),
        "azjax": importlib.metadata.version("azjax"),
        **describe_game(game),
        "recipe": dataclasses.asdict(recipe),
        "counts": built.counts,
    }
    beside = command.out.with_suffix(".recipe.json")
    beside.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    if command.json:
        print(json.dumps(about))
        return
    table = Table("stage", "number", title=f"{command.out}, recipe in {beside.name}")
    for name, count in built.counts.items():
        table.add_row(name.replace("_", " "), str(count))
    Console().print(table)


def run_suite(command: RunCommand) -> None:
    """Prints the chosen move in every position, and the score by colour."""
    from azjax.agents import make_agent

    suite = suites.read_suite(command.suite)
    with progress.bar() as bar:
        result = suites.run(
            functools.partial(make_agent, command.agent), suite, jax.random.key(command.seed), bar
        )
    if command.json:
        print(json.dumps({"agent": command.agent, "suite": command.suite, **suites.as_dict(result)}))
        return
    console = Console()
    table = Table("position", "to move", "plays", "optimal", "")
    for number, (position, answer) in enumerate(zip(suite, result.answers), start=1):
        optimal = " ".join(map(str, position.fields["optimal"]))
        played = answer.move or f"{answer.action} (not legal)"
        table.add_row(
            str(number), str(answer.player), played, optimal, "right" if answer.correct else "wrong"
        )
    console.print(table)
    for name, score in zip(("all", "player 0", "player 1"), (result.all, *result.by_player)):
        if score is not None:
            low, high = score.interval
            console.print(
                f"{name}: {100 * score.share:.1f} % right ({score.correct} of {score.positions}, "
                f"95 % interval {100 * low:.1f} to {100 * high:.1f}); a random mover {100 * score.chance:.1f} %"
            )
