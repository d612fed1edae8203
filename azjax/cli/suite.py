"""`azjax suite`: make a suite of solved positions, or ask an agent about one."""

import dataclasses
import functools
import importlib.metadata
import json
import pathlib
from typing import Annotated, ClassVar, Generic, TypeVar

import numpy as np
import tyro
from rich.console import Console

from azjax import theses
from azjax.agents.human import board_text
from azjax.cli import options, parsing, progress, screen
from azjax.common import atomic, files
from azjax.common.checked import Count, Number, Seed
from azjax.evaluation import suite_building, suites
from azjax.positions import PositionLine, describe_game, write_positions

G = TypeVar("G")
_BINS = 5  # of the number of moves played
_USAGE = """usage: azjax suite build GAME [options]
           make a suite of solved positions
       azjax suite run AGENT SUITE [options]
           ask an agent about every position

SUITE is a position file with "optimal", or one of those that come with azjax: {names}.

Examples:
  azjax suite run uct:200 hex5
  azjax suite build hex --size 4 --out hex4.jsonl

`azjax suite build --help` and `azjax suite run --help` explain the options."""


@dataclasses.dataclass(frozen=True)
class BuildCommand(Generic[G]):
    """Make a suite: play games, take their positions, solve them, choose."""

    EXAMPLES: ClassVar = ("azjax suite build hex --size 4 --out hex4.jsonl",)

    game: Annotated[G, tyro.conf.arg(name="")]
    out: pathlib.Path = pathlib.Path("suite.jsonl")  # the suite; its recipe goes beside it
    recipe: Annotated[suite_building.Recipe, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=suite_building.Recipe
    )
    processes: Count = 1  # that solve side by side, where the solver can
    # keeps what is proven, so that the same command goes on where it was stopped
    proofs: pathlib.Path | None = None
    json: bool = False  # print the counts as JSON


@dataclasses.dataclass(frozen=True)
class RunCommand:
    """Ask an agent about every position of a suite."""

    EXAMPLES: ClassVar = (
        "azjax suite run uct:200 hex5",
        "azjax suite run az:runs/hex5?sims=64 hex5 --json",
    )

    agent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")]
    """Such as random, uct:200, perfect or az:runs/hex5?sims=64."""
    suite: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE")]
    """A position file with "optimal", or the name of a ready suite."""
    seed: Seed = 0  # for agents that draw
    openings_too: bool = False  # ask az: and net: also about positions that their run opened games with
    unopened: bool = False  # ask nobody about positions that any preset opens games with
    wrong: Number = 10  # how many wrong answers to show, with their boards
    json: bool = False  # print every answer and the summary as one JSON object


def run(arguments: list[str]) -> None:
    """Builds or runs a suite."""
    which, *rest = arguments or ["--help"]
    if which == "build":
        build(options.of_game(BuildCommand, rest, "azjax suite build"), rest)
    elif which == "run":
        ready = f"Ready suites: {', '.join(suites.ready_suites())}."
        about = parsing.explained(RunCommand, ready, parsing.AGENTS_HELP)
        run_suite(parsing.parse(RunCommand, rest, "azjax suite run", about=about))
    elif which in ("-h", "--help"):
        print(screen.wrapped(_USAGE.format(names=", ".join(suites.ready_suites()))))
    else:
        raise ValueError(f"unknown {which!r}; say azjax suite build or azjax suite run")


def build(command: BuildCommand, arguments: list[str]) -> None:
    """Makes a suite and writes it, with its recipe beside it."""
    from azjax.solvers import make_solver, room_of
    from azjax.solvers.core import Wishes

    recipe, game = command.recipe, command.game
    beside = command.out.with_suffix(".recipe.json")
    files.writable_path(command.out, *recipe.records)
    files.writable_path(beside, command.out, *recipe.records)
    if command.proofs is not None:
        files.writable_path(command.proofs, command.out, beside, *recipe.records)
    wishes = Wishes(recipe.seconds, processes=command.processes, nodes=recipe.nodes)
    options = room_of(game).options(wishes)
    presets = {name: theses.preset(name) for name in theses.preset_names()}
    with progress.bar() as bar:
        built = suite_building.build(
            game,
            functools.partial(make_solver, game, **options),
            recipe,
            bar,
            presets=presets,
            proofs=command.proofs,
        )
    write_positions(command.out, built.lines)
    about = {
        "command": " ".join(["azjax suite build", *arguments]),
        "azjax": importlib.metadata.version("azjax"),
        **describe_game(game),
        "recipe": dataclasses.asdict(recipe),
        "counts": built.counts,
    }
    atomic.write_text(beside, json.dumps(about, indent=1) + "\n")
    if command.json:
        print(json.dumps(about))
        return
    table = screen.table("stage", "number", title=f"{command.out}, recipe in {beside.name}", numbers=1)
    for name, count in built.counts.items():
        table.add_row(name.replace("_", " "), str(count))
    screen.console().print(table)


def run_suite(command: RunCommand) -> None:
    """Prints the wrong answers, and the score in all positions, by colour and by the number of moves played."""
    with progress.bar() as bar:
        numbers, suite, left_out, result = suites.run_suite(
            command.agent,
            command.suite,
            seed=command.seed,
            openings_too=command.openings_too,
            unopened=command.unopened,
            progress=bar,
        )
    if command.json:
        about = {"agent": command.agent, "suite": command.suite, "left_out": left_out}
        about["positions"] = [number + 1 for number in numbers]
        parts = {name: score._asdict() for name, score in parts_of(suite, result).items()}
        optimal = [{"optimal": position.fields["optimal"]} for position in suite]
        found = suites.as_dict(result)
        answers = [answer | best for answer, best in zip(found["answers"], optimal)]
        print(json.dumps(about | found | {"parts": parts, "answers": answers}))
        return
    console = screen.console()
    wrong = [number for number, answer in enumerate(result.answers) if not answer.correct]
    for row in wrong[: command.wrong]:
        _show_wrong(console, numbers[row] + 1, suite[row], result.answers[row])
    if len(wrong) > command.wrong:
        console.print(
            f"... and {len(wrong) - command.wrong} more wrong answers; --wrong {len(wrong)} shows all."
        )
    console.print(screen.of_grid(suites.grid_of_scores(parts_of(suite, result))))
    if left_out:
        console.print(
            f"{left_out} of {left_out + len(suite)} positions were left out: games were opened with them"
            + ("" if command.unopened else " (--openings-too asks about them all the same)")
        )


def parts_of(suite: list[PositionLine], result: suites.SuiteResult) -> dict[str, suites.SuiteScore]:
    """The scores of all positions, of each colour, and of positions with about as many moves played."""
    scores = result.parts()
    plies = [len(position.fields["moves"]) if "moves" in position.fields else None for position in suite]
    known = [number for number in plies if number is not None]
    if known and max(known) > min(known):
        edges = np.unique(
            np.linspace(min(known), max(known) + 1, min(_BINS, max(known) - min(known) + 1) + 1).round()
        )
        for low, high in zip(edges[:-1].astype(int), edges[1:].astype(int)):
            inside = [
                a for a, number in zip(result.answers, plies) if number is not None and low <= number < high
            ]
            label = f"{low} to {high - 1}" if high - low > 1 else f"{low}"
            if inside:
                scores[f"after {label} moves"] = suites.score(inside)
    return scores


def _show_wrong(console: Console, number: int, position: PositionLine, answer: suites.Answer) -> None:
    moves = " ".join(map(str, position.fields.get("moves", [])))
    optimal = " ".join(map(str, position.fields["optimal"]))
    console.print(f"position {number}" + (f", after {moves}" if moves else ""), style="bold")
    console.print(board_text(position.game, position.state))
    console.print(f"played {answer.move or f'{answer.action} (not legal)'}; right: {optimal}\n")
