"""`azjax tournament GAME A B C ...`: everybody against everybody, or a ladder, and ratings."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

import tyro
from rich.table import Table

from azjax.cli import options, players, screen
from azjax.cli.ratings import RatingOptions, rate
from azjax.common import atomic, files
from azjax.common.checked import Count, Number, Seed
from azjax.evaluation import match_openings, records, tournament
from azjax.evaluation.arena import SCALE, MatchResult, check_table
from azjax.evaluation.ratings import Ratings

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class TournamentCommand(RatingOptions, Generic[G]):
    """Play a tournament; a results file that is there already is continued, with newcomers if there are any."""

    EXAMPLES: ClassVar = (
        "azjax tournament hex random uct:100 uct:400 --size 5",
        "azjax tournament runs/hex5 uct:200 perfect --out hex5.jsonl",
        "azjax tournament hex random uct:100 uct:400 --size 5 --pairs 1 --pairs-with uct:400=5 --pgn games.pgn",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    players: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B ...")] = tyro.MISSING
    """Agents, such as random, uct:200 or az:runs/hex5?sims=64."""
    out: pathlib.Path = pathlib.Path("tournament.jsonl")  # the results; pictures and tables go beside it
    # everybody meets everybody, or players climb while they score more than half against the next above
    kind: Literal["round-robin", "ladder"] = "round-robin"
    pairs: Count = 20  # openings of a match, each played with both colours
    # Other numbers of pairs: NAME=N in all matches of a player, NAME vs NAME=N in one, 0 in none; the last that fits.
    pairs_with: tuple[str, ...] = ()
    random_plies: Number = 2  # moves of an opening that are drawn at random
    # safe (Dots and Boxes: random safe lines, as in Peters 2018), or a position file, whose positions are used in turn.
    openings: pathlib.Path | None = None
    records: pathlib.Path | None = None  # add the games to this file: .sgf for Hex, else the plain notation
    pgn: pathlib.Path | None = None  # the results for other rating programs, and for `azjax ratings`
    seed: Seed = 0  # of openings, and for agents that draw
    json: bool = False  # print JSON instead of tables


def run(arguments: list[str]) -> None:
    """Plays what is missing, and prints cross table and ratings."""
    command = options.of_game(TournamentCommand, arguments, "azjax tournament", plays=True)
    if len(set(command.players)) < max(2, len(command.players)):
        raise ValueError(f"a tournament needs two or more different players, got {' '.join(command.players)}")
    _check_paths(command)
    pairs_of = tournament.read_meetings(command.pairs, command.pairs_with, command.players)
    if command.kind == "ladder" and command.pairs_with:
        raise ValueError("a ladder has the same number of games in all matches; leave --pairs-with out")
    settings = {
        "pairs": command.pairs,
        "random_plies": command.random_plies,
        "openings": None if command.openings is None else str(command.openings),
        "seed": command.seed,
    }
    opened = functools.partial(tournament.Results, command.out, command.game, settings)
    known = set(command.players)
    if command.out.exists():
        known |= {name for match in opened().matches for name in match[:2]}
    if command.anchor is not None and command.anchor not in known:
        raise ValueError(
            f"--anchor must be one of the players, {', '.join(sorted(known))}, got {command.anchor}"
        )
    results = play(command, opened, pairs_of)
    ratings = rate(command, results.scores())
    order = [rating.name for rating in ratings]
    table = tournament.cross_table(results, order)
    atomic.write_text(command.out.with_suffix(".csv"), tournament.cross_csv(table, ratings))
    with atomic.replacing(command.out.with_suffix(".svg")) as partial:
        tournament.cross_svg(table).save(partial)
    if command.pgn is not None:
        atomic.write_text(command.pgn, tournament.to_pgn(results))
    if command.json:
        print(json.dumps(_as_json(command, results, ratings)))
        return
    console = screen.console()
    cross = tournament.cross_text(table)
    if max(map(len, cross.splitlines())) <= console.width:  # a wider one is in the files
        console.print(cross + "\n")
    console.print(_match_table(results))
    console.print(SCALE)
    console.print(screen.of_grid(ratings.grid()))
    if command.kind == "ladder":
        standing = tournament.ladder_standing(command.players, results.played)
        console.print("Ladder from the top: " + ", ".join(standing))
    console.print(f"Results in {command.out}; cross table beside it as .csv and .svg.")


def _check_paths(command: TournamentCommand) -> None:
    """Raises unless all that the command writes can be written, each to a file of its own."""
    written = [files.writable_path(command.out, command.openings)]
    for suffix in (".csv", ".svg"):
        written.append(files.writable_path(command.out.with_suffix(suffix), *written, command.openings))
    if command.pgn is not None:
        written.append(files.writable_path(command.pgn, *written, command.openings))
    if command.records is not None:
        records.check_path(command.records, command.game, *written, command.openings)


def play(
    command: TournamentCommand,
    opened: Callable[[], tournament.Results],
    pairs_of: Callable[[str, str], int],
) -> tournament.Results:
    """Plays all matches that the results do not have; `opened` opens or begins them when everybody is there."""
    openings = match_openings.make(command.openings, command.game, command.pairs, command.seed)
    check_table(command.game, command.pairs, command.random_plies, openings)

    def keep(player: str, opponent: str, result: MatchResult) -> None:
        if command.records is not None:
            games = records.of_match(command.game, player, opponent, result)
            records.write_records(command.records, games, append=True)

    # Everybody is made first: a name that means nothing should not be found out after an hour.
    with players.seated(command.game, command.players) as (agents, show):
        results = opened()
        tournament.play(
            results,
            command.game,
            dict(zip(command.players, agents)),
            kind=command.kind,
            pairs=pairs_of,
            random_plies=command.random_plies,
            openings=openings,
            seed=command.seed,
            progress=show,
            finished=keep,
        )
    return results


def _match_table(results: tournament.Results) -> Table:
    table = screen.table("player", "opponent", "games", "different", "score", title="Matches", numbers=3)
    for match in results.matches:
        games = match.first.games + match.second.games
        counts = f"{games:,}", f"{match.distinct_games:,}"
        table.add_row(match.player, match.opponent, *counts, f"{100 * match.score:.1f} %")
    return table


def _as_json(command: TournamentCommand, results: tournament.Results, ratings: Ratings) -> dict:
    matches = [
        {
            "player": match.player,
            "opponent": match.opponent,
            "score": match.score,
            "first": match.first._asdict(),
            "second": match.second._asdict(),
            "distinct_games": match.distinct_games,
            "forfeits": match.forfeits,
        }
        for match in results.matches
    ]
    standing = {}
    if command.kind == "ladder":
        standing["ladder"] = tournament.ladder_standing(command.players, results.played)
    return {"matches": matches, "ratings": [rating._asdict() for rating in ratings]} | standing
