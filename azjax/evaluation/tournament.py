"""Tournaments: who meets whom, a results file that can be continued, and the cross table.

A results file is JSON lines. The first names the game and how matches are played; every other line is one match, from
the side of `player`. A match is written as soon as it is over, so whoever stops a tournament loses at most one.
Playing on means asking the schedule for the next match that the file does not have.
"""

import csv
import dataclasses
import functools
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import positions
from azjax.common import atomic, checked, files, keys, tables
from azjax.common.agent import Agent
from azjax.common.checked import Checked, ConfigError, Number, check
from azjax.common.progress import StagedProgress
from azjax.envs import drawing
from azjax.envs.core import Game
from azjax.evaluation import pgn
from azjax.evaluation.arena import MatchResult, Outcomes, make_match
from azjax.evaluation.ratings import Rating, Score

FORMAT = 1  # changes whenever the content of the files does


class TournamentError(ValueError):
    """A results file or a list of players that cannot be used; the message says why and what to do."""


class Match(NamedTuple):
    """The result of a match, from one player's side."""

    player: str
    opponent: str
    first: Outcomes  # the player as the first player
    second: Outcomes  # the player as the second player
    distinct_games: int
    forfeits: tuple[int, int] = (0, 0)  # of the player, and of the opponent

    @property
    def score(self) -> float:
        """Wins, and half the draws, as a share of the games."""
        return Outcomes(*(a + b for a, b in zip(self.first, self.second))).score

    def turned(self) -> "Match":
        """The same match from the opponent's side."""
        first, second = (Outcomes(c.losses, c.draws, c.wins) for c in (self.second, self.first))
        return Match(self.opponent, self.player, first, second, self.distinct_games, self.forfeits[::-1])


def of_result(player: str, opponent: str, result: MatchResult) -> Match:
    """What a results file keeps of a match."""
    forfeits = result.forfeits, result.opponent_forfeits
    return Match(player, opponent, result.first, result.second, result.distinct_games, forfeits)


FindMatch = Callable[[str, str], Match | None]
"""(player, opponent) -> their match from the player's side, or None if it is still to be played."""
Schedule = Callable[[Sequence[str], FindMatch], tuple[str, str] | None]
"""(players, played) -> the next match, or None if the tournament is over."""


def round_robin(players: Sequence[str], played: FindMatch) -> tuple[str, str] | None:
    """Everybody meets everybody; the newest player's matches come last."""
    for number, opponent in enumerate(players):
        for player in players[:number]:
            if played(player, opponent) is None:
                return player, opponent
    return None


def ladder(players: Sequence[str], played: FindMatch) -> tuple[str, str] | None:
    """Players enter at the bottom, in order, and climb while they score more than half against the next above."""
    return _climb(players, played)[1]


def ladder_standing(players: Sequence[str], played: FindMatch) -> list[str]:
    """The players of a ladder from top to bottom, as far as it has been played."""
    return _climb(players, played)[0]


SCHEDULES: dict[str, Schedule] = {"round-robin": round_robin, "ladder": ladder}


class Results:
    """The matches of a tournament, which a file may keep."""

    def __init__(self, path: str | os.PathLike | None, game: Game, settings: Mapping[str, Any]):
        """Opens the file, or begins it.

        Args:
          path: the file; None to keep nothing.
          game: what is played.
          settings: how matches are played (pairs, openings); a file is only continued with the same ones.

        Raises:
          TournamentError: the file is of another game, of other settings, or broken.
        """
        self.path = None if path is None else os.fspath(path)
        self.matches: list[Match] = []
        header = {"format": FORMAT} | positions.describe_game(game) | {"settings": dict(settings)}
        if path is not None and os.path.exists(path) and os.path.getsize(path):
            self._read(header)
        else:
            self._write(header)

    def add(self, match: Match) -> None:
        """Keeps a match."""
        self.matches.append(match)
        row = match._asdict() | {"first": match.first._asdict(), "second": match.second._asdict()}
        self._write(row)

    def played(self, player: str, opponent: str) -> Match | None:
        """All matches between two players as one, from the first-named one's side; None if there is none."""
        sides = [
            m if m.player == player else m.turned() for m in self.matches if {*m[:2]} == {player, opponent}
        ]
        if not sides:
            return None
        first, second = (
            Outcomes(*(sum(column) for column in zip(*counts)))
            for counts in ([m.first for m in sides], [m.second for m in sides])
        )
        forfeits = tuple(sum(column) for column in zip(*(m.forfeits for m in sides)))
        return Match(player, opponent, first, second, sum(m.distinct_games for m in sides), forfeits)

    def scores(self) -> list[Score]:
        """For `azjax.evaluation.ratings`."""
        scores = []
        for match in self.matches:
            scores.append(Score(match.player, match.opponent, *match.first))
            scores.append(Score(match.opponent, match.player, *match.turned().first))
        return [score for score in scores if score.wins + score.draws + score.losses]

    def _write(self, row: Mapping[str, Any]) -> None:
        if self.path is not None:
            atomic.append(self.path, json.dumps(row) + "\n")

    def _read(self, header: dict[str, Any]) -> None:
        try:
            rows = files.read_objects(self.path, "results of a tournament", may_be_cut=True)
        except files.FileError as error:
            raise TournamentError(str(error)) from error
        if not rows:
            raise TournamentError(f"{self.path} is there, but holds no tournament; name a new file")
        if rows[0][1] != json.loads(json.dumps(header)):
            raise TournamentError(
                f"{self.path} holds another tournament, {json.dumps(rows[0][1])}, not {json.dumps(header)}; "
                "repeat its settings to go on with it, or name a new file"
            )
        for number, row in rows[1:]:
            try:
                self.matches.append(_match(row))
            except ConfigError as error:
                raise TournamentError(
                    f"{self.path}, line {number} is no result of a match: {error}"
                ) from error
        if not files.read_text(self.path).endswith("\n"):  # stopped while writing its last line
            atomic.write_text(self.path, "".join(json.dumps(row) + "\n" for _, row in rows))


def play(
    results: Results,
    game: Game,
    agents: Mapping[str, Agent],
    *,
    kind: str = "round-robin",
    pairs: int | Callable[[str, str], int],
    random_plies: int = 0,
    openings: Sequence[positions.PositionLine] = (),
    seed: int = 0,
    progress: StagedProgress = lambda what, done, total: None,
    finished: Callable[[str, str, MatchResult], None] = lambda player, opponent, result: None,
) -> None:
    """Plays all matches of a schedule that the results do not have yet, and adds them.

    Args:
      results: what has been played; matches are added one by one.
      game: the rules.
      agents: the players by name, in the order of the schedule.
      kind: one of `SCHEDULES`.
      pairs: openings of each match; or (player, opponent) -> those of theirs, 0 if they are not to meet.
      random_plies, openings: of each match, see `make_match`.
      seed: of all draws. A match has its own, so that a tournament that was stopped ends as it would have.
      progress: called now and then.
      finished: called with the names and the result of each match before it is added.
    """
    pairs_of = pairs if callable(pairs) else lambda player, opponent: pairs

    def found(player: str, opponent: str) -> Match | None:
        match = results.played(player, opponent)
        return _no_match(player, opponent) if match is None and not pairs_of(player, opponent) else match

    while (pairing := SCHEDULES[kind](list(agents), found)) is not None:
        player, opponent = pairing
        match = make_match(
            game,
            agents[player],
            agents[opponent],
            pairs=pairs_of(player, opponent),
            random_plies=random_plies,
            openings=openings,
        )
        what = f"match {len(results.matches) + 1}: {player} against {opponent}"
        key = keys.stream(jax.random.key(seed), f"{player}\n{opponent}")
        result = match(None, None, key, progress=functools.partial(progress, what))
        finished(player, opponent, result)
        results.add(of_result(player, opponent, result))


class Meetings(NamedTuple):
    """How many pairs of games who plays against whom."""

    usual: int
    others: Sequence[
        tuple[frozenset[str], int]
    ] = ()  # of a player's matches, or of one match; the last one counts

    def __call__(self, player: str, opponent: str) -> int:
        """The pairs of games between two players."""
        fitting = [pairs for names, pairs in self.others if names <= {player, opponent}]
        return fitting[-1] if fitting else self.usual


def read_meetings(usual: int, texts: Sequence[str], players: Sequence[str]) -> Meetings:
    """Reads texts such as `uct:10000=5`, for all matches of a player, and `uct:10000 vs hexy=1`, for one match.

    With one pair as usual, these two make the tournament of Jacobsen 2019.

    Args:
      usual: pairs of all other matches.
      texts: `NAME=PAIRS` or `NAME vs NAME=PAIRS`, 0 if they are not to meet; of several that fit the last one counts.
      players: the names there are.

    Raises:
      TournamentError: a text that says something else, or names nobody.
    """
    others = []
    for text in texts:
        names, _, pairs = text.rpartition("=")
        who = names.split(" vs ")
        if not pairs.isdecimal() or not set(who) <= set(players) or len(who) != len(set(who)) or len(who) > 2:
            raise TournamentError(
                f"{text!r} does not say how many pairs a match has: expected NAME=PAIRS or NAME vs NAME=PAIRS, with"
                f" names of {', '.join(players)}"
            )
        others.append((frozenset(who), int(pairs)))
    return Meetings(usual, others)


class CrossTable(NamedTuple):
    """Everybody's results against everybody."""

    players: list[str]  # the best first
    cells: list[list[Match | None]]  # [players, players] from the row's side; None if they have not met
    scores: list[float]  # [players] over all games; NaN without any

    def grid(self) -> tables.Grid:
        """A row's points against each column, its score, its games, as a table."""
        columns, *rows = _printed(self)
        return tables.Grid(columns, rows, words=2)

    __repr__ = tables.as_text

    def _repr_html_(self) -> str:
        return str(cross_svg(self))


def cross_table(results: Results, order: Sequence[str] | None = None) -> CrossTable:
    """The cross table, in the given order or by score."""
    players = list(
        dict.fromkeys(name for match in results.matches for name in (match.player, match.opponent))
    )
    if not players and not order:
        raise TournamentError("no match has been played yet")
    points, games = dict.fromkeys(players, 0.0), dict.fromkeys(players, 0)
    for match in results.matches:
        for side in (match, match.turned()):
            count = side.first.games + side.second.games
            points[side.player] += side.score * count
            games[side.player] += count
    score = {name: points[name] / games[name] for name in players}
    players = sorted(players, key=lambda name: -score[name]) if order is None else list(order)
    cells = [[None if a == b else results.played(a, b) for b in players] for a in players]
    return CrossTable(players, cells, [score.get(name, float("nan")) for name in players])


def cross_text(table: CrossTable) -> str:
    """The table in fixed-width text: a row's points against each column, its score, its games."""
    return table.grid().text(width=None)


def cross_csv(table: CrossTable, ratings: Sequence[Rating] = ()) -> str:
    """The table as CSV: wins/draws/losses of the row against each column, score, games and, if given, ratings."""
    rated = {rating.name: rating for rating in ratings}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    extra = ["elo", "plus", "minus"] if rated else []
    writer.writerow(["player", *table.players, "score", "games", *extra])
    for name, row, score in zip(table.players, table.cells, table.scores):
        cells = ["" if m is None else "/".join(str(a + b) for a, b in zip(m.first, m.second)) for m in row]
        numbers = [f"{rated[name][i]:.1f}" for i in (1, 2, 3)] if name in rated else [""] * len(extra)
        writer.writerow([name, *cells, f"{score:.4f}", _games(row), *numbers])
    return out.getvalue()


def cross_svg(table: CrossTable, *, theme: str = "light", scale: float = 1.0) -> drawing.Svg:
    """The table as a picture; a cell is as warm as the row's score in it."""
    colours = drawing.theme_named(theme)
    side, top = 64.0, 40.0
    left = 40 + 8.0 * max(len(name) for name in table.players)
    count = len(table.players)
    parts = []
    for row, name in enumerate(table.players):
        y = top + (row + 0.5) * side / 2
        parts.append(drawing.text(left / 2, y, f"{row + 1} {name}", colours.text, 13))
        parts.append(drawing.text(left + (row + 0.5) * side, top / 2, str(row + 1), colours.text, 13))
        for column, match in enumerate(table.cells[row]):
            ground = colours.grid if row == column else colours.background
            if match is not None:
                ground = drawing.mix(colours.board, colours.heat, match.score)
            parts.append(
                f'<rect x="{left + column * side:g}" y="{top + row * side / 2:g}" width="{side:g}" '
                f'height="{side / 2:g}" fill="{ground}" stroke="{colours.grid}"/>'
            )
            if match is not None:
                place = left + (column + 0.5) * side
                parts.append(drawing.text(place, y, _points(match), colours.text, 13))
        summary = f"{100 * table.scores[row]:.1f} %"
        parts.append(drawing.text(left + (count + 0.5) * side, y, summary, colours.text, 13))
    parts.append(drawing.text(left + (count + 0.5) * side, top / 2, "score", colours.text, 13))
    width, height = left + (count + 1) * side + 8, top + count * side / 2 + 8
    return drawing.picture(width, height, parts, colours, scale)


def to_pgn(results: Results) -> str:
    """One line per game for other rating programs: White is who moved first, as in Jacobsen 2019; no moves."""
    return pgn.write(pgn.of_scores(results.scores()))


def _no_match(player: str, opponent: str) -> Match:
    """Of two who are not to meet."""
    return Match(player, opponent, Outcomes(0, 0, 0), Outcomes(0, 0, 0), 0)


def _climb(players: Sequence[str], played: FindMatch) -> tuple[list[str], tuple[str, str] | None]:
    """The standing from top to bottom, and the next match."""
    standing: list[str] = []
    for player in players:
        standing.append(player)
        place = len(standing) - 1
        while place > 0:
            match = played(player, standing[place - 1])
            if match is None:
                return standing, (player, standing[place - 1])
            if match.score <= 0.5:
                break
            standing[place - 1 : place + 1] = standing[place], standing[place - 1]
            place -= 1
    return standing, None


def _match(row: dict[str, Any]) -> Match:
    row = checked.build(_Row, row, "the line")
    first, second = (
        Outcomes(*(getattr(side, name) for name in Outcomes._fields)) for side in (row.first, row.second)
    )
    return Match(row.player, row.opponent, first, second, row.distinct_games, row.forfeits)


@dataclasses.dataclass(frozen=True)
class _Side(Checked):
    """How a file says what `Outcomes` are."""

    wins: Number
    draws: Number
    losses: Number


@dataclasses.dataclass(frozen=True)
class _Row(Checked):
    """How a file says what a `Match` is."""

    player: str
    opponent: str
    first: _Side
    second: _Side
    distinct_games: Number
    forfeits: tuple[Number, ...] = (0, 0)

    def __post_init__(self):
        super().__post_init__()
        check(len(self.forfeits) == 2, "forfeits", "two numbers", self.forfeits)
        check(self.player != self.opponent, "opponent", "another player", self.opponent)


def _printed(table: CrossTable) -> list[list[str]]:
    rows = [["", "player", *(str(number + 1) for number in range(len(table.players))), "score", "games"]]
    for number, (name, row, score) in enumerate(zip(table.players, table.cells, table.scores)):
        cells = ["-" if column == number else "" if m is None else _points(m) for column, m in enumerate(row)]
        summary = "" if np.isnan(score) else f"{100 * score:.1f} %"
        rows.append([str(number + 1), name, *cells, summary, str(_games(row))])
    return rows


def _points(match: Match) -> str:
    games = match.first.games + match.second.games
    return f"{match.score * games:g}/{games}"


def _games(row: Sequence[Match | None]) -> int:
    return sum(match.first.games + match.second.games for match in row if match is not None)
