"""Judges of Dots and Boxes (after Peters 2018): double-dealing, Berlekamp's problems, confusion, board sizes.

Berlekamp's 13 problems and the confusion board are suites that come with azjax, `berlekamp` and `confusion`: positions
from his book The Dots and Boxes Game, chapter 3, with all moves that win, and the turn that the thesis asks for,
position by position, with the moves of the best margin.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import positions
from azjax.common.agent import Agent
from azjax.envs.core import Game
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState
from azjax.evaluation import suites
from azjax.evaluation.arena import MatchResult, make_match
from azjax.positions import PositionLine
from azjax.solvers.dots import chains

PETERS_BOARDS = (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)  # of the thesis's table of growing boards


class DoubleDeals(NamedTuple):
    """How often the players of some games declined the last boxes to keep control."""

    by_player: np.ndarray  # [games, 2] int32
    games: int

    @property
    def total(self) -> int:
        """By both players, in all games."""
        return int(self.by_player.sum())


def count_double_deals(
    game: DotsAndBoxes,
    records: np.ndarray,
    starts: Sequence[str | None] | None = None,
    skip: int | np.ndarray = 0,
) -> DoubleDeals:
    """Counts the double deals in games.

    Args:
      game: the rules.
      records: [games, plies] int32, the lines in the order they were drawn; -1 after the end.
      starts: [games] the position before all moves, None for the empty board; default the empty board for all.
      skip: moves at the beginning that nobody chose; of all games, or of each, [games].
    """
    begin = positions.starts(game, [None] * len(records) if starts is None else starts)
    skip = np.broadcast_to(np.asarray(skip, np.int32), len(records))
    return DoubleDeals(np.asarray(_double_deals(game, begin, jnp.asarray(records), skip)), len(records))


def is_double_deal(game: DotsAndBoxes, before: DotsAndBoxesState, after: DotsAndBoxesState) -> jax.Array:
    """[] bool: the move between two positions left dominoes to the opponent, and nothing else that can be captured.

    A domino is two boxes that one line completes at once. One is left of a chain, two of a loop. Peters 2018 counts
    so: the mover has changed, and all that is capturable is one domino or two. A chain of just two boxes
    counts, too.
    """
    capturable = chains.analyse(game, after.lines).capturable
    exists = capturable.size > 0
    dominoes = jnp.sum(exists & capturable.closed & (capturable.size == 2))
    nothing_else = dominoes == jnp.sum(exists)
    changed = before.current_player != after.current_player
    return changed & nothing_else & ((dominoes == 1) | (dominoes == 2))


def berlekamp(make_agent: Callable[[Game], Agent], key: jax.Array) -> suites.SuiteResult:
    """Asks an agent about Berlekamp's 13 problems, on boards of 3x3, 3x5 and 5x5 boxes.

    Args:
      make_agent: the agent for a board.
      key: for agents that draw.
    """
    return suites.run(make_agent, suites.read_suite("berlekamp"), key)


def confusion(make_agent: Callable[[Game], Agent], key: jax.Array) -> bool:
    """Whether an agent takes the whole chain that a weak opponent has opened too early, on the thesis's board.

    A network that has only seen good play can be confused by such a gift: one of the thesis opens a short chain at
    once, another takes two boxes before it does. Taking all five wins by seven. Asked are the five positions of that
    turn, in each of which one line goes on.
    """
    result = suites.run(make_agent, suites.read_suite("confusion"), key).all
    return result.correct == result.positions


def over_board_sizes(
    make_agent: Callable[[Game], Agent],
    make_opponent: Callable[[Game], Agent],
    sizes: Sequence[int] = PETERS_BOARDS,
    *,
    pairs: int,
    key: jax.Array,
    random_plies: int = 2,
    openings: Callable[[Game], Sequence[PositionLine]] = lambda game: (),
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[int, MatchResult]:
    """Matches on square boards of several sizes: does what was learned on a small board hold on a large one?

    Args:
      make_agent: the agent for a board; a network needs convolutional heads to play on all.
      make_opponent: its opponent.
      sizes: rows and columns of boxes.
      pairs: of games per board, each opening with both colours.
      key: for the openings and for agents that draw.
      random_plies: moves of an opening, drawn at random.
      openings: the positions to start from on a board, used in turn; none for the empty board.
      progress: called now and then.
    """
    results = {}
    for size, size_key in zip(sizes, jax.random.split(key, len(sizes))):
        game = DotsAndBoxes(size, size)
        agent, opponent = make_agent(game), make_opponent(game)
        match = make_match(
            game, agent, opponent, pairs=pairs, random_plies=random_plies, openings=openings(game)
        )
        what = f"playing on {size}x{size}"
        results[size] = match(
            None, None, size_key, progress=lambda done, games, what=what: progress(what, done, games)
        )
    return results


def as_row(result: MatchResult) -> dict[str, Any]:
    """A match as Peters counts it, for JSON: draws are not wins."""
    share, low, high = result.total.rate(result.total.wins)
    return {"wins": share, "interval": [low, high], "draws": result.total.draws, "games": result.games}


@functools.partial(jax.jit, static_argnums=0)
def _double_deals(
    game: DotsAndBoxes, starts: DotsAndBoxesState, records: jax.Array, skip: jax.Array
) -> jax.Array:
    """[games, 2] int32."""

    def one_game(game_and_record):
        start, record, skip = game_and_record

        def ply(carry, number_and_line):
            x, counts = carry
            number, line = number_and_line
            after = game.step(x, jnp.maximum(line, 0))
            deal = (line >= 0) & (number >= skip) & is_double_deal(game, x, after)
            counts = counts + deal * (jnp.arange(2) == x.current_player)
            x = jax.tree.map(lambda new, old: jnp.where(line >= 0, new, old), after, x)
            return (x, counts), None

        numbered = jnp.arange(len(record)), record
        return jax.lax.scan(ply, (start, jnp.zeros(2, jnp.int32)), numbered)[0][1]

    return jax.lax.map(one_game, (starts, records, skip), batch_size=256)
