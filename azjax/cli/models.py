"""`azjax models`: the networks that come with azjax, their cards, and how another is made of a run."""

import dataclasses
import json
import pathlib
from typing import Annotated, ClassVar

import tyro

from azjax.agents import ready
from azjax.cli import parsing, progress, screen
from azjax.common import tables
from azjax.evaluation import cards

_NOTES = (
    "A name is an agent: azjax play hex3, azjax match hex3 uct:200, az:hex3?sims=200, net:hex3.",
    "`azjax models pack RUN NAME --judges JUDGE ...` makes another of a run; `azjax models pack --help` explains it.",
)


@dataclasses.dataclass(frozen=True)
class ModelsCommand:
    """List the networks that come with azjax, or show the card of one."""

    EXAMPLES: ClassVar = ("azjax models", "azjax models hex3", "azjax models --json")

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None
    """Of one; without it all are listed."""
    json: bool = False  # print the cards as JSON, one object per line


@dataclasses.dataclass(frozen=True)
class PackCommand:
    """Make a ready network of a run: its averaged weights in half precision, and a card with what judges find in them.

    It is written where wheels are built from, unless --out says otherwise, and then has a name like those that come
    with azjax.
    """

    EXAMPLES: ClassVar = (
        'azjax models pack runs/hex5 hex5 --judges suite:hex5 --limits "Knows 5x5 alone."',
        "azjax models pack runs/dots-3x3 dots-3x3 --judges whole match:hard --out elsewhere",
    )

    run: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]  # the run's folder
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]  # of the network
    judges: tuple[str, ...]  # texts as of `azjax evaluate --judge`; the first one's score is listed
    limits: str = "Knows the board it was trained on."  # what it cannot do, in a sentence
    out: pathlib.Path | None = None  # the folder; default the package's own
    json: bool = False  # print the card as JSON


def run(arguments: list[str]) -> None:
    """Lists networks, shows a card or packs a run."""
    if arguments[:1] == ["pack"]:
        _pack(arguments[1:])
        return
    about = parsing.explained(ModelsCommand, *_NOTES)
    command = parsing.parse(ModelsCommand, arguments, "azjax models", about=about)
    found = cards.cards() if command.name is None else [cards.read_card(command.name)]
    if command.json:
        for card in found:
            print(json.dumps(dataclasses.asdict(card)))
    elif command.name is None:
        screen.console().print(_list(found))
    else:
        _show(found[0])


def _pack(arguments: list[str]) -> None:
    command = parsing.parse(PackCommand, arguments, "azjax models pack", about=parsing.explained(PackCommand))
    with progress.bar() as bar:
        card = cards.pack(
            command.run,
            command.name,
            command.judges,
            limits=command.limits,
            out=command.out,
            progress=bar,
        )
    if command.json:
        print(json.dumps(dataclasses.asdict(card)))
    else:
        _show(card)


def _list(found: list[cards.Card]) -> screen.Table:
    table = screen.table("name", "game", "kB", "measured by", "score", numbers=0)
    for card in found:
        size = ready.ready_networks()[card.name].stat().st_size
        judge, share = card.headline
        game = card.game.partition("(")[0]  # the options stand on the card
        table.add_row(card.name, game, f"{size / 1000:.0f}", judge, tables.percent(share))
    return table


def _show(card: cards.Card) -> None:
    console = screen.console()
    console.print(screen.of_grid(card.grid()))
    trained = ", ".join(
        f"{card.trained[name]:,} {name}" for name in ("games", "positions", "updates") if name in card.trained
    )
    console.print(
        f"{card.parameters:,} parameters, trained for {card.trained['iteration']} iterations: {trained}."
    )
    console.print(card.limits)
