"""`azjax match GAME A B`: many games between two agents, both colours."""

import dataclasses
import json
import pathlib
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import jax
import tyro
from rich.table import Table

from azjax.cli import options, players, screen
from azjax.common.checked import Count, Number, Seed
from azjax.evaluation import match_openings, records
from azjax.evaluation.arena import SCALE, MatchResult, Outcomes, make_match
from azjax.positions import describe_game

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class MatchCommand(Generic[G]):
    """Play many games between two agents; each opening with both colours, so that equal players score 50 %."""

    EXAMPLES: ClassVar = (
        "azjax match hex uct:400 uct:100 --size 5 --random-plies 2",
        "azjax match hex5 uct:200 --random-plies 2",
        "azjax match runs/hex5 hex5",
        "azjax match hex az:runs/hex5?sims=200 perfect --records games.sgf",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    agent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """Whose side the result takes, such as random, uct:200 or az:runs/hex5?sims=64."""
    opponent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """The other agent."""
    pairs: Count = 50  # openings; there are twice as many games
    random_plies: Number = 0  # moves of an opening that are drawn at random
    # safe (Dots and Boxes: random safe lines, as in Peters 2018), or a position file, whose positions are used in turn.
    openings: pathlib.Path | None = None
    width: Count | None = None  # games that are searched side by side; default by device
    records: pathlib.Path | None = None  # write the games to this file: .sgf for Hex, else the plain notation
    seed: Seed = 0  # of openings, and for agents that draw
    json: bool = False  # print JSON instead of a table


def run(arguments: list[str]) -> None:
    """Plays the match, watched by a progress bar, and prints the result."""
    command = options.of_game(MatchCommand, arguments, "azjax match", plays=True)
    if command.records is not None:
        records.check_path(command.records, command.game, command.openings)
    openings = match_openings.make(command.openings, command.game, command.pairs, command.seed)
    with players.seated(command.game, [command.agent, command.opponent]) as ((agent, opponent), show):
        match = make_match(
            command.game,
            agent,
            opponent,
            pairs=command.pairs,
            random_plies=command.random_plies,
            openings=openings,
            width=command.width,
        )
        result = match(
            None,
            None,
            jax.random.key(command.seed),
            progress=lambda done, games: show("games finished", done, games),
        )
    if command.records is not None:
        games = records.of_match(command.game, command.agent, command.opponent, result)
        records.write_records(command.records, games)
    if command.json:
        about = describe_game(command.game) | {"agent": command.agent, "opponent": command.opponent}
        print(json.dumps(about | to_json(result)))
        return
    console = screen.console()
    console.print(to_table(command.agent, command.opponent, result))
    for line in remarks(command.agent, command.opponent, result):
        console.print(line)
    if command.records is not None:
        console.print(f"The games are in {command.records}.")


def to_json(result: MatchResult) -> dict[str, Any]:
    """All that is counted, with the intervals of all rates."""
    return {
        **_counts_json(result.total),
        "first": _counts_json(result.first),
        "second": _counts_json(result.second),
        "distinct": _counts_json(result.distinct),
        "mean_plies": result.mean_plies,
        "forfeits": result.forfeits,
        "opponent_forfeits": result.opponent_forfeits,
    }


def to_table(agent: str, opponent: str, result: MatchResult) -> Table:
    """The counts with their intervals."""
    return screen.of_grid(result._replace(players=(agent, opponent)).grid())


def remarks(agent: str, opponent: str, result: MatchResult) -> list[str]:
    """What a reader of the table should know."""
    lines = [
        SCALE,
        f"{result.distinct_games:,} of the {result.games:,} games are different. A game took"
        f" {result.mean_plies:.1f} plies.",
    ]
    if repeated := result.games - result.distinct_games:
        lines.append(
            f"{repeated:,} of {result.games:,} games repeat others move for move: they say nothing new. "
            "More --random-plies or other --openings would make them differ."
        )
    for name, count in ((agent, result.forfeits), (opponent, result.opponent_forfeits)):
        if count:
            lines.append(f"{name} has forfeited {count:,} of its games.")
    return lines


def _counts_json(counts: Outcomes) -> dict[str, Any]:
    win, draw = counts.rate(counts.wins), counts.rate(counts.draws)
    return counts._asdict() | {
        "games": counts.games,
        "score": counts.score,
        "interval": counts.interval,
        "win_rate": win[0],
        "win_interval": win[1:],
        "draw_rate": draw[0],
        "draw_interval": draw[1:],
    }
