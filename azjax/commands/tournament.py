"""`azjax tournament GAME A B C ...`: everybody against everybody, or a ladder, and ratings."""

import dataclasses
import json
import pathlib
import zlib
from typing import Annotated, Generic, Literal, TypeVar

import jax
import tyro
from rich.console import Console
from rich.table import Table

from azjax.commands import options, players
from azjax.evaluation import records, tournament
from azjax.evaluation.arena import make_match
from azjax.evaluation.ratings import Rating, bayesian_elo, maximum_likelihood
from azjax.positions import read_positions

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class TournamentCommand(Generic[G]):
    """Play a tournament; a results file that is there already is continued, with newcomers if there are any."""

    game: Annotated[G, tyro.conf.arg(name="")]
    players: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B ...")] = tyro.MISSING
    """Agents, such as random, uct:200 or az:runs/hex5?sims=64."""
    out: pathlib.Path = pathlib.Path("tournament.jsonl")  # the results; pictures and tables go beside it
    kind: Literal["round-robin", "ladder"] = "round-robin"
    pairs: int = 20  # openings of a match, each played with both colours
    random_plies: int = 2  # moves of an opening that are drawn at random
    openings: pathlib.Path | None = None  # a position file; its positions are used in turn
    rating: Literal["likelihood", "bayesian"] = "likelihood"
    prior: float = 1.0  # likelihood: virtual games a player, half won; 0 for none
    anchor: str | None = None  # likelihood: the player whose rating is known; default the mean is 0
    anchor_elo: float = 0.0
    records: pathlib.Path | None = None  # add the games to this file: .sgf for Hex, else the plain notation
    seed: int = 0
    json: bool = False  # print JSON instead of tables


def run(arguments: list[str]) -> None:
    """Plays what is missing, and prints cross table and ratings."""
    command = options.of_game(TournamentCommand, arguments, "azjax tournament")
    if len(set(command.players)) < max(2, len(command.players)):
        raise ValueError(f"a tournament needs two or more different players, got {' '.join(command.players)}")
    settings = {
        "pairs": command.pairs,
        "random_plies": command.random_plies,
        "openings": None if command.openings is None else str(command.openings),
        "seed": command.seed,
    }
    results = tournament.Results(command.out, command.game, settings)
    play(command, results)
    ratings = rate(command, results)
    order = [rating.name for rating in ratings]
    table = tournament.cross_table(results, order)
    command.out.with_suffix(".csv").write_text(tournament.cross_csv(table, ratings), encoding="utf-8")
    tournament.cross_svg(table).save(command.out.with_suffix(".svg"))
    if command.json:
        print(json.dumps(_as_json(command, results, ratings)))
        return
    console = Console()
    console.print(tournament.cross_text(table), markup=False, highlight=False)
    console.print()
    console.print(_rating_table(ratings))
    if command.kind == "ladder":
        standing = tournament.ladder_standing(command.players, results.played)
        console.print("Ladder from the top: " + ", ".join(standing), markup=False, highlight=False)
    console.print(f"Results in {command.out}; cross table beside it as .csv and .svg.")


def play(command: TournamentCommand, results: tournament.Results) -> None:
    """Plays all matches that the results do not have."""
    openings = read_positions(command.openings, command.game) if command.openings else ()
    schedule = tournament.SCHEDULES[command.kind]
    # Everybody is made first: a name that means nothing should not be found out after an hour.
    with players.seated(command.game, command.players) as (agents, show):
        made = dict(zip(command.players, agents))
        while (pairing := schedule(command.players, results.played)) is not None:
            player, opponent = pairing
            match = make_match(
                command.game,
                made[player],
                made[opponent],
                pairs=command.pairs,
                random_plies=command.random_plies,
                openings=openings,
            )
            what = f"match {len(results.matches) + 1}: {player} against {opponent}"
            result = match(
                None,
                None,
                _match_key(command.seed, player, opponent),
                progress=lambda done, games, what=what: show(what, done, games),
            )
            if command.records is not None:
                games = records.of_match(command.game, player, opponent, result)
                records.write_records(command.records, games, append=True)
            results.add(tournament.of_result(player, opponent, result))


def rate(command: TournamentCommand, results: tournament.Results) -> list[Rating]:
    """The players' ratings, the best first."""
    if command.rating == "bayesian":
        return bayesian_elo(results.scores())
    return maximum_likelihood(
        results.scores(), anchor=command.anchor, anchor_elo=command.anchor_elo, prior=command.prior
    )


def _match_key(seed: int, player: str, opponent: str) -> jax.Array:
    """The same for a match whenever it is played, so that a tournament that was stopped ends as it would have."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(f"{player}\n{opponent}".encode()))


def _rating_table(ratings: list[Rating]) -> Table:
    table = Table(
        "player", "Elo", "+", "-", "games", "score", "draws", "opponents", title="Ratings, 95 % intervals"
    )
    for rating in ratings:
        elo, plus, minus, opponents = (
            f"{number:.0f}" for number in (rating.elo, rating.plus, rating.minus, rating.opponents)
        )
        shares = f"{100 * rating.score:.1f} %", f"{100 * rating.draws:.1f} %"
        table.add_row(rating.name, elo, plus, minus, f"{rating.games:,}", *shares, opponents)
    return table


def _as_json(command: TournamentCommand, results: tournament.Results, ratings: list[Rating]) -> dict:
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
