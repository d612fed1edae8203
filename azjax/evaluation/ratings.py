"""Ratings from results: Bayesian Elo as Jacobsen 2019 used it, and maximum likelihood with draws.

Both take `Score`s, results between a player who moves first and one who moves second, in any order and
number, and give a `Rating` a player, best first, on the Elo scale: 400 points are odds of 10 to 1.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from azjax.common import tables

ELO = 400 / math.log(10)  # Elo points a natural logarithm of strength


class RatingError(ValueError):
    """The results do not determine the ratings asked for; the message says why and what to do."""


class Score(NamedTuple):
    """Games between two players, the first of whom moved first in all of them."""

    first: str
    second: str
    wins: float  # of the first
    draws: float = 0
    losses: float = 0


class Rating(NamedTuple):
    """What the results say about a player."""

    name: str
    elo: float
    plus: float  # the 95 % interval goes from elo - minus
    minus: float  # to elo + plus
    games: int
    score: float  # wins and half the draws, as a share of the games
    draws: float  # share of the games
    opponents: float  # mean rating of the opponents, over the games


class Ratings(tuple[Rating, ...]):
    """The ratings of all players, the best first."""

    def grid(self) -> tables.Grid:
        """The ratings as a table."""
        rows = [
            (
                rating.name,
                *(f"{number:z.0f}" for number in (rating.elo, rating.plus, rating.minus)),
                f"{rating.games:,}",
                tables.percent(rating.score),
                tables.percent(rating.draws),
                f"{rating.opponents:.0f}",
            )
            for rating in self
        ]
        columns = ("player", "Elo", "+", "-", "games", "score", "draws", "opponents")
        return tables.Grid(columns, rows, title="Ratings, 95 % intervals")

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


class ScoreTable(NamedTuple):
    """The results as arrays."""

    players: list[str]
    wins: np.ndarray  # [players, players] of the row, moving first, against the column
    draws: np.ndarray
    losses: np.ndarray

    @property
    def games(self) -> np.ndarray:
        """[players, players] between row and column, whoever moved first; symmetric."""
        ordered = self.wins + self.draws + self.losses
        return ordered + ordered.T


def tabulate(scores: Sequence[Score]) -> ScoreTable:
    """Sums the scores by who met whom; players stand in the order of their first appearance."""
    players = list(dict.fromkeys(name for score in scores for name in (score.first, score.second)))
    if not players:
        raise RatingError("there are no results to rate; play some games first")
    number = {name: index for index, name in enumerate(players)}
    wins, draws, losses = np.zeros((3, len(players), len(players)))
    for score in scores:
        if score.first == score.second:
            raise RatingError(f"{score.first} has played against itself, which says nothing about its rating")
        place = number[score.first], number[score.second]
        wins[place] += score.wins
        draws[place] += score.draws
        losses[place] += score.losses
    return ScoreTable(players, wins, draws, losses)


def bayesian_elo(
    scores: Sequence[Score],
    *,
    advantage: float = 32.8,
    draw_elo: float = 97.3,
    prior: float = 2.0,
    tolerance: float = 1e-5,
) -> Ratings:
    """Coulom's Bayesian Elo; the defaults are those of his program, with which Jacobsen 2019 rated Hex players.

    With d the difference of two ratings, first minus second, the first player wins with probability
    1 / (1 + 10^((draw_elo - d - advantage) / 400)), the second with 1 / (1 + 10^((draw_elo + d + advantage) / 400)).
    The mean rating is 0, and everything is scaled so that near equality a difference means what it means in
    Elo's own model without draws.

    Args:
      scores: the results.
      advantage: of moving first, in Elo.
      draw_elo: how likely draws are, in Elo; more than 0.
      prior: virtual draws of each player, spread over its opponents as its games are.
      tolerance: stop when no strength changes by a larger share in a sweep.
    """
    table = tabulate(scores)
    played = table.games
    # Each player brings prior / 2 draws moving first and as many moving second, so a pair hears of it from both.
    share = prior * 0.25 * played / np.maximum(played.sum(1, keepdims=True), 1)
    virtual = share + share.T
    with_prior = table._replace(draws=table.draws + virtual)
    first, draw = 10 ** (advantage / 400), 10 ** (draw_elo / 400)
    gamma = _minorise_maximise(with_prior, first, draw, tolerance)
    elo = 400 * np.log10(gamma)
    elo -= elo.mean()
    scale = 4 / draw / (1 + 1 / draw) ** 2
    lower, upper = _profile_intervals(with_prior, elo, advantage, draw_elo)
    return _ratings(table, scale * elo, scale * (upper - elo), scale * (elo - lower))


def maximum_likelihood(
    scores: Sequence[Score],
    *,
    anchor: str | None = None,
    anchor_elo: float = 0.0,
    prior: float = 0.0,
    advantage: bool = False,
) -> Ratings:
    """The most likely ratings in Bradley and Terry's model, with draws as in Davidson (1970).

    Strengths g, h meet: the first wins with a chance in proportion to g, the second to h, a draw to
    v sqrt(g h), where v is estimated along. Intervals are Wald's, from the information in the results; they are those
    of the difference to the anchor, whose own interval is 0.

    Args:
      scores: the results.
      anchor: whose rating is known; None puts the mean at 0.
      anchor_elo: the anchor's rating.
      prior: virtual games of each player, half won and half lost, spread over its opponents as its games are. With
        0 a player who has won all its games has no finite rating.
      advantage: estimate the advantage of moving first too.

    Raises:
      RatingError: unknown anchor, or no finite answer without a prior.
    """
    table = tabulate(scores)
    if anchor is not None and anchor not in table.players:
        raise RatingError(f"{anchor!r} has played no game; anchor to one of {', '.join(table.players)}")
    played = table.games
    share = prior / 4 * played / np.maximum(played.sum(1, keepdims=True), 1)
    virtual = share + share.T
    with_prior = table._replace(wins=table.wins + virtual, losses=table.losses + virtual)
    _check_finite(with_prior)
    strength, covariance = _newton(with_prior, advantage)
    count = len(table.players)
    # Both are under "mean 0"; seen from the anchor they are differences.
    centre = np.full(count, 1 / count) if anchor is None else np.eye(count)[table.players.index(anchor)]
    seen = np.eye(count) - centre
    elo = ELO * seen @ strength + (0 if anchor is None else anchor_elo)
    spread = 1.959964 * ELO * np.sqrt(np.maximum(np.diag(seen @ covariance @ seen.T), 0))
    return _ratings(table, elo, spread, spread)


def _minorise_maximise(table: ScoreTable, first: float, draw: float, tolerance: float) -> np.ndarray:
    """[players] strengths; each sweep improves one player after the other, the last player first.

    With g for the one who moves first and h for the other, a game is won with chance f g / (f g + D h) and lost
    with h / (h + D f g), where f is the first mover's advantage and D the odds of `draw_elo`.
    """
    won = table.wins + table.draws  # a draw counts as half of each, squared: both denominators appear
    lost = table.losses + table.draws
    numerator = won.sum(1) + lost.sum(0)
    gamma = np.ones(len(table.players))
    while True:
        before = gamma.copy()
        for i in reversed(range(len(gamma))):
            mine = gamma[i]
            denominator = (
                won[i] * first / (first * mine + draw * gamma)
                + lost[i] * draw * first / (gamma + draw * first * mine)
                + won[:, i] * draw / (first * gamma + draw * mine)
                + lost[:, i] / (mine + draw * first * gamma)
            )
            gamma[i] = numerator[i] / denominator.sum()
        if np.max(np.abs(gamma - before) / (gamma + before)) < tolerance:
            return gamma


def _profile_intervals(
    table: ScoreTable, elo: np.ndarray, advantage: float, draw_elo: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of 95 % intervals [players], unscaled.

    A player is moved along a grid while all others move the other way by equal parts; the likelihood along
    the grid, normalised, is the distribution whose tails of 2.5 % are cut off.
    """
    count = len(elo)
    grid = np.linspace(-1500, 1500, 1001)
    lower, upper = np.zeros((2, count))
    for player in range(count):
        moved = elo - (grid[:, None] - elo[player]) / max(count - 1, 1)
        moved[:, player] = grid
        difference = moved[:, :, None] - moved[:, None, :]
        win = -np.logaddexp(0, (draw_elo - difference - advantage) / ELO)
        loss = -np.logaddexp(0, (draw_elo + difference + advantage) / ELO)
        draw = np.log(-np.expm1(np.logaddexp(win, loss)))
        likelihood = np.einsum("gij,ij->g", win, table.wins)
        likelihood += np.einsum("gij,ij->g", draw, table.draws)
        likelihood += np.einsum("gij,ij->g", loss, table.losses)
        density = np.exp(likelihood - likelihood.max())
        mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        lower[player], upper[player] = np.interp([0.025, 0.975], mass / mass[-1], grid)
    return lower, upper


def _newton(table: ScoreTable, advantage: bool) -> tuple[np.ndarray, np.ndarray]:
    """Log strengths [players] of mean 0, and their covariance; Davidson's likelihood is concave in all of them."""
    count = len(table.players)
    any_draws = table.draws.sum() > 0
    # Parameters: strengths, log of v, advantage. A result's logit is linear in them.
    i, j = np.nonzero(table.wins + table.draws + table.losses)
    rows = np.zeros((3, len(i), count + 2))
    pair = np.arange(len(i))
    rows[0, pair, i] = rows[2, pair, j] = 1
    rows[0, :, count + 1] = 1
    rows[1] = (rows[0] + rows[2]) / 2
    rows[1, :, count] = 1
    observed = np.stack([table.wins[i, j], table.draws[i, j], table.losses[i, j]])
    possible = [0, 1, 2] if any_draws else [0, 2]
    free = np.array([True] * count + [any_draws, advantage])
    rows, observed = rows[possible][:, :, free], observed[possible]
    games = observed.sum(0)

    def chances(parameters: np.ndarray) -> tuple[np.ndarray, float]:
        logits = rows @ parameters
        top = logits.max(0)
        log_total = top + np.log(np.exp(logits - top).sum(0))
        return np.exp(logits - log_total), float((observed * (logits - log_total)).sum())

    parameters = np.zeros(free.sum())
    for _ in range(200):
        chance, likelihood = chances(parameters)
        gradient = np.einsum("rg,rgp->p", observed - chance * games, rows)
        mean = np.einsum("rg,rgp->gp", chance, rows)
        information = np.einsum("rg,rgp,rgq->pq", chance * games, rows, rows)
        information -= np.einsum("gp,gq->pq", mean * games[:, None], mean)
        inverse = np.linalg.pinv(information, hermitian=True)  # adding to all ratings alike changes nothing
        step = inverse @ gradient
        while chances(parameters + step)[1] < likelihood - 1e-9:
            step /= 2
        parameters = parameters + step
        if np.max(np.abs(step)) < 1e-10:
            break
    # Where the likelihood has no maximum, Newton runs until the information about some direction is used up.
    eigenvalues = np.linalg.eigvalsh(information)
    if np.sum(eigenvalues > 1e-10 * eigenvalues[-1]) < free.sum() - 1:
        raise RatingError(
            "no finite ratings fit: the results leave some difference open, such as a player who has drawn and won "
            "but never lost. Play more games, or give a prior such as 1"
        )
    strength = parameters[:count]
    return strength - strength.mean(), inverse[:count, :count]


def _check_finite(table: ScoreTable) -> None:
    """Raises unless every player has scored, over others, against every other (Ford 1957)."""
    beats = (table.wins + table.draws + table.losses.T + table.draws.T) > 0
    count = len(table.players)
    reach = beats | np.eye(count, dtype=bool)
    for middle in range(count):
        reach |= reach[:, middle, None] & reach[None, middle]
    for i in range(count):
        for j in range(count):
            if not reach[i, j]:
                raise RatingError(
                    f"no finite ratings fit: {table.players[i]} has never scored, not even over others, "
                    f"against {table.players[j]}. Play more games, or give a prior such as 1"
                )


def _ratings(table: ScoreTable, elo: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> Ratings:
    played = table.games
    games = played.sum(1)
    points = (table.wins + table.draws / 2).sum(1) + (table.losses + table.draws / 2).sum(0)
    draws = table.draws.sum(1) + table.draws.sum(0)
    opponents = played @ elo / games
    ratings = []
    for i, name in enumerate(table.players):
        numbers = elo[i], plus[i], minus[i], games[i], points[i] / games[i], draws[i] / games[i], opponents[i]
        rating = Rating(name, *map(float, numbers))
        ratings.append(rating._replace(games=round(rating.games)))
    return Ratings(sorted(ratings, key=lambda rating: -rating.elo))
