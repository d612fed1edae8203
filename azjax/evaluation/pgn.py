"""Results of games in PGN, as rating programs take them: who was White and moved first, who Black, and who won.

A file may be printed matter that was turned into text again, as appendix D of Jacobsen 2019 is. Then lines are broken
anywhere, brackets are misread, code fences and blank lines stand in between, and where a page ended, the tails of some
records stand behind later records. A tail belongs to the oldest record that still lacks one.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from azjax.evaluation.ratings import Score

OUTCOMES = {"1-0": (1, 0, 0), "1/2-1/2": (0, 1, 0), "0-1": (0, 0, 1)}  # of White: wins, draws, losses
UNKNOWN = "*"


class PgnError(ValueError):
    """A text whose games lack a player or a result; the message names the line."""


class PgnGame(NamedTuple):
    """A game's players and result."""

    white: str  # who moved first
    black: str
    result: str  # of OUTCOMES, or UNKNOWN
    date: str = ""


def read(text: str) -> list[PgnGame]:
    """The games of a text, in its order; moves and other tags are ignored.

    Raises:
      PgnError: a result that is none, or a game without players or result.
    """
    return [_game(number, _tags(record)) for number, record in _records(text)]


def write(games: Iterable[PgnGame]) -> str:
    """One line per game, as Jacobsen 2019 prints them; no moves."""
    lines = []
    for game in games:
        tags = {"Date": game.date} if game.date else {}
        tags |= {"White": game.white, "Black": game.black, "Result": game.result}
        # A quotation mark would end the tag's value, and rating programs know no way to write one.
        words = (
            f'[{name} "{" ".join(value.replace(chr(34), chr(39)).split())}"]' for name, value in tags.items()
        )
        lines.append(" ".join(words) + " .\n")
    return "".join(lines)


def scores(games: Iterable[PgnGame]) -> list[Score]:
    """The games as the ratings take them; those without a result are left out."""
    return [
        Score(game.white, game.black, *OUTCOMES[game.result]) for game in games if game.result in OUTCOMES
    ]


def of_scores(scores: Iterable[Score]) -> list[PgnGame]:
    """A game for each that the scores count."""
    games = []
    for score in scores:
        for result, count in zip(OUTCOMES, (score.wins, score.draws, score.losses)):
            games += [PgnGame(score.first, score.second, result)] * int(count)
    return games


_TAG = re.compile(r'\[\s*(Date|White|Black|Result)\s+"([^"]*)"')
_BEGINNING = re.compile(r"\[\s*(?:Date|White)\b")


def _records(text: str) -> list[tuple[int, str]]:
    """The text of each game behind the number of the line where it begins."""
    records: list[tuple[int, str]] = []
    oldest = 0  # all before it are complete

    def append(place: int, piece: str) -> None:
        records[place] = records[place][0], f"{records[place][1]} {piece}"

    for number, piece in _pieces(text):
        while oldest < len(records) and _is_complete(records[oldest][1]):
            oldest += 1
        if not _BEGINNING.match(piece):
            if oldest < len(records):  # else these are moves, or tags of no use here
                append(oldest, piece)
        elif records and _goes_on(records[-1][1], piece):
            append(-1, piece)
        else:
            if records and _is_shadow(records[-1][1], piece):
                records.pop()
            records.append((number, piece))
    return records


def _pieces(text: str) -> list[tuple[int, str]]:
    """The lines with their numbers, each cut before what may begin a game; without blank ones and fences."""
    return [
        (number, piece.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if not line.startswith("```")
        for piece in re.split(rf"(?={_BEGINNING.pattern})", line)
        if piece.strip()
    ]


def _tags(record: str) -> dict[str, str]:
    """A record's tags, the last of each name; names that were broken over lines are whole again."""
    return {name: " ".join(value.split()) for name, value in _TAG.findall(record)}


def _is_complete(record: str) -> bool:
    return {"White", "Black", "Result"} <= _tags(record).keys()


def _goes_on(record: str, piece: str) -> bool:
    """Whether a date or White is that of the newest record, and does not begin another."""
    return not _is_complete(record) and not _tags(record).keys() & _tags(piece).keys()


def _is_shadow(record: str, piece: str) -> bool:
    """Whether a record stops before Black, and the next begins with the same date: it was printed twice."""
    tags = _tags(record)
    return (
        tags.keys() == {"Date", "White"}
        and "[Black" not in record
        and tags["Date"] == _tags(piece).get("Date")
    )


def _game(line: int, tags: dict[str, str]) -> PgnGame:
    missing = [name for name in ("White", "Black", "Result") if name not in tags]
    if missing:
        raise PgnError(f"line {line}: a game lacks {' and '.join(missing)}; it has {tags}")
    game = PgnGame(tags["White"], tags["Black"], tags["Result"], tags.get("Date", ""))
    if game.result not in (*OUTCOMES, UNKNOWN):
        expected = ", ".join((*OUTCOMES, UNKNOWN))
        raise PgnError(f"line {line}: {game.result!r} is no result: expected one of {expected}")
    return game
