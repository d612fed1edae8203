"""`azjax ratings FILE ...`: the players of PGN files, rated."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import tyro

from azjax.cli import parsing, screen
from azjax.common import atomic, files
from azjax.common.checked import FromZero
from azjax.evaluation import pgn
from azjax.evaluation.ratings import Ratings, Score, bayesian_elo, maximum_likelihood


@dataclasses.dataclass(frozen=True, kw_only=True)
class RatingOptions:
    """How players are rated."""

    # by maximum likelihood, or by Bayesian Elo as in Jacobsen 2019
    rating: Literal["likelihood", "bayesian"] = "likelihood"
    prior: FromZero = 1.0  # likelihood: virtual games per player, half won; 0 for none
    anchor: str | None = None  # likelihood: the player whose rating is known; default the mean is 0
    anchor_elo: float = 0.0  # likelihood: the rating of the anchor


@dataclasses.dataclass(frozen=True)
class RatingsCommand(RatingOptions):
    """Rate the players of files with the results of games, in PGN; White is who moved first.

    Texts that came out of a printed page are read too, as appendix D of Jacobsen 2019: lines may be broken.
    """

    EXAMPLES: ClassVar = (
        "azjax ratings tournament.pgn",
        "azjax ratings tests/data/jacobsen2019_appendix_d.txt --rating bayesian",
    )

    files: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = (
        tyro.MISSING
    )
    """All their games count together."""
    pgn: pathlib.Path | None = None  # also write the games here, one per line
    json: bool = False  # print JSON instead of a table


def run(arguments: list[str]) -> None:
    """Prints the ratings of all players in the files."""
    command = parsing.parse(
        RatingsCommand, arguments, "azjax ratings", about=parsing.explained(RatingsCommand)
    )
    if command.pgn is not None:
        files.writable_path(command.pgn, *command.files)
    games = [game for path in command.files for game in read(path)]
    ratings = rate(command, pgn.scores(games))
    if command.pgn is not None:
        atomic.write_text(command.pgn, pgn.write(games))
    if command.json:
        print(json.dumps({"games": len(games), "ratings": [rating._asdict() for rating in ratings]}))
        return
    screen.console().print(screen.of_grid(ratings.grid()))


def read(path: pathlib.Path) -> list[pgn.PgnGame]:
    """The games of a file; raises PgnError, which names it."""
    text = files.read_text(path, "PGN file")
    try:
        return pgn.read(text)
    except pgn.PgnError as error:
        raise pgn.PgnError(f"{path}, {error}") from error


def rate(options: RatingOptions, scores: Sequence[Score]) -> Ratings:
    """The players' ratings, the best first."""
    if options.rating == "bayesian":
        return bayesian_elo(scores)
    return maximum_likelihood(
        scores, anchor=options.anchor, anchor_elo=options.anchor_elo, prior=options.prior
    )
