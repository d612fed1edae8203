"""`azjax openings GAME`: all legal or winning openings of one to three moves, as a database or to train from."""

import dataclasses
import json
import pathlib
from typing import Annotated, ClassVar, Generic, TypeVar

import tyro

from azjax.cli import options, progress, screen
from azjax.common import files
from azjax.evaluation import truth as ground_truth
from azjax.positions import openings_database

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class OpeningsCommand(Generic[G]):
    """Write all openings to an SQLite database in the form of Daliri 2022, or to a position file to train from."""

    EXAMPLES: ClassVar = (
        "azjax openings hex --size 5 --winning --out winning.jsonl",
        "azjax openings hex --size 6 --lengths 1 2 --out openings.db",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    # NAME.db, or NAME.jsonl, for `azjax train PRESET --selfplay.openings NAME.db`; the latter leaves out openings that
    # end the game, from which nobody can play on.
    out: pathlib.Path = pathlib.Path("openings.db")
    winning: bool = False  # only those whose last move wins, proven by the solver
    lengths: tuple[int, ...] = (1, 2, 3)  # moves
    json: bool = False  # print the counts as JSON


def run(arguments: list[str]) -> None:
    """Writes the file and prints how many openings of each length there are."""
    command = options.of_game(OpeningsCommand, arguments, "azjax openings")
    game = command.game
    if command.out.suffix not in (".db", ".jsonl"):
        raise ValueError(
            f"--out must be NAME.db, an SQLite database, or NAME.jsonl, a position file, got {command.out}"
        )
    files.writable_path(command.out)
    if command.winning:
        solver = ground_truth.solver_for(game)
        if solver is None:
            raise ValueError(f"no solver fits {game}; take all legal openings, or a smaller board")
        with progress.bar() as bar:
            openings = openings_database.winning_openings(
                game, solver, command.lengths, lambda done, total: bar("solving", done, total)
            )
    else:
        openings = openings_database.legal_openings(game, command.lengths)
    if command.out.suffix == ".jsonl":
        openings = openings_database.unfinished(game, openings)
        openings_database.write_position_file(command.out, game, openings)
    else:
        openings_database.write(command.out, game, openings)
    counts = {
        length: sum(len(moves) == length for moves in openings) for length in sorted(set(command.lengths))
    }
    if command.json:
        print(json.dumps({"out": str(command.out), "winning": command.winning, "openings": counts}))
        return
    for length, count in counts.items():
        screen.console().print(
            f"{count:,} {'winning' if command.winning else 'legal'} openings of {length} moves"
        )
