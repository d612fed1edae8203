"""Position suites: solved positions that an agent is asked about, instead of many games (Daliri 2022).

Any position file with `optimal` is a suite; `azjax.evaluation.suite_building` makes them. An agent's score is its
winning-move selection ratio (WMSR): the share of positions in which it plays one of the optimal moves.

Nobody is asked about a position that its own run opened games with. A suite whose lines say which presets open games
with their positions (`opened_by`) can be cut down to those that are nobody's opening, so that several agents are asked
the same.
"""

import functools
import importlib.resources
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import agents, positions
from azjax.agents.trained import load_weights
from azjax.common import tables
from azjax.common.agent import Agent, check_finite
from azjax.common.progress import StagedProgress
from azjax.envs.core import Game, GameError, GameState, PositionError
from azjax.evaluation.arena import wilson_interval
from azjax.evaluation.opened import Opened, openings_of
from azjax.positions import PositionLine
from azjax.positions import sets as position_sets

_LANES, _FEW_LANES = 128, 16  # positions an agent is asked about at once


class Answer(NamedTuple):
    """What an agent plays in one position of a suite."""

    player: int  # who is to move
    action: int
    move: str | None  # None if the move is not legal
    correct: bool
    chance: float  # of a random mover to be correct


class SuiteScore(NamedTuple):
    """A winning-move selection ratio."""

    correct: int
    positions: int
    share: float
    interval: tuple[float, float]  # Wilson's, 95 %
    chance: float  # what a random mover would reach


class SuiteResult(NamedTuple):
    """How an agent did."""

    answers: list[Answer]  # in the order of the file
    all: SuiteScore
    by_player: tuple[SuiteScore | None, SuiteScore | None]  # None if the suite has no position of that colour

    def grid(self) -> tables.Grid:
        """The scores as a table."""
        return grid_of_scores(self.parts())

    def parts(self) -> dict[str, SuiteScore]:
        """The scores in all positions and in those of each player, by name."""
        named = {
            "all": self.all,
            "player 0 to move": self.by_player[0],
            "player 1 to move": self.by_player[1],
        }
        return {name: score for name, score in named.items() if score is not None}

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def read_suite(text: str | os.PathLike) -> list[PositionLine]:
    """The positions of a suite: a file, or the name of one in the package such as `hex6`."""
    path = find_suite(text)
    suite = positions.read_positions(path)
    for number, position in enumerate(suite, start=1):
        try:
            if not _optimal_actions(position):
                raise PositionError('a suite needs "optimal", a list of moves')
        except GameError as error:
            raise PositionError(f"{path}, position {number}: {error}") from error
    return suite


def without_openings(suite: Sequence[PositionLine], opened: Opened) -> list[int]:
    """The numbers, from 0, of the positions that a run did not open games with; raises ValueError if none is left."""
    kept = [
        number
        for number, position in enumerate(suite)
        if not opened.has(position.game, positions.stack([position.state]))[0]
    ]
    if not kept:
        raise ValueError(
            f"the run opened games with all {len(suite)} positions of the suite, so that they tell nothing about it;"
            " give it another suite"
        )
    return kept


def nobodys_openings(suite: Sequence[PositionLine]) -> list[int]:
    """The numbers, from 0, of the positions that no preset opens games with, as the suite itself says.

    Raises:
      ValueError: it does not say so of every position, or none is left.
    """
    if not all(isinstance(position.fields.get("opened_by"), list) for position in suite):
        raise ValueError(
            'the suite does not say which of its positions are openings ("opened_by"); make it with azjax suite build'
        )
    kept = [number for number, position in enumerate(suite) if not position.fields["opened_by"]]
    if not kept:
        raise ValueError(
            f"all {len(suite)} positions of the suite are openings of some preset; give another suite"
        )
    return kept


def find_suite(text: str | os.PathLike) -> pathlib.Path:
    """Where a suite is. A name of the package's own comes before a file of that name; ./NAME is the file."""
    ready = ready_suites()
    if str(text) in ready:
        return ready[str(text)]
    path = pathlib.Path(text)
    if path.exists():
        return path
    raise ValueError(f"there is no suite {text}; give a file, or one of {', '.join(ready)}")


def ready_suites() -> dict[str, pathlib.Path]:
    """The suites that come with azjax, by name."""
    folder = pathlib.Path(str(importlib.resources.files("azjax") / "data"))
    return {path.stem: path for path in sorted(folder.glob("*.jsonl"))}


def run(
    make_agent: Callable[[Game], Agent],
    suite: Sequence[PositionLine],
    key: jax.Array,
    progress: StagedProgress = lambda what, done, total: None,
) -> SuiteResult:
    """Asks an agent about every position.

    Args:
      make_agent: the agent for a game; called once for each game of the suite.
      suite: positions with `optimal`.
      key: for agents that draw.
      progress: called now and then.
    """
    answers: dict[int, Answer] = {}
    games = list(dict.fromkeys(position.game for position in suite))
    for game, game_key in zip(games, jax.random.split(key, len(games))):
        numbers = [number for number, position in enumerate(suite) if position.game == game]
        states = positions.stack(suite[number].state for number in numbers)
        legal = position_sets.legal_moves(game, states)
        agent = make_agent(game)
        try:
            actions = ask(agent, game_key, states, lambda done: progress("asking", done, len(suite)))
        finally:
            agent.close()
        for number, action, mask in zip(numbers, actions.tolist(), legal):
            answers[number] = _answer(suite[number], action, mask)
    ordered = [answers[number] for number in range(len(suite))]
    by_player = tuple(score([answer for answer in ordered if answer.player == player]) for player in (0, 1))
    return SuiteResult(ordered, score(ordered), by_player)


class AskedSuite(NamedTuple):
    """What an agent was asked, and how it did."""

    numbers: list[int]  # which positions of the suite, from 0
    positions: list[PositionLine]
    left_out: int  # positions that its own run opened games with
    result: SuiteResult


def run_suite(
    agent: Agent | str,
    suite: str | os.PathLike,
    *,
    seed: int = 0,
    openings_too: bool = False,
    unopened: bool = False,
    progress: StagedProgress = lambda what, done, total: None,
) -> AskedSuite:
    """Asks an agent about the positions of a suite, without those that its own run opened games with.

    Args:
      agent: an agent, or its text.
      suite: a position file with `optimal`, or the name of a ready suite.
      seed: for agents that draw.
      openings_too: leave nothing out that the agent's own run opened games with.
      unopened: leave out whatever any preset opens games with, see `nobodys_openings`.
      progress: called now and then.
    """
    lines = read_suite(suite)
    numbers = nobodys_openings(lines) if unopened else list(range(len(lines)))
    text = agent.name if isinstance(agent, Agent) else agent
    trained = agents.run_of(text) if text else None
    if trained and not openings_too:
        own = set(without_openings(lines, openings_of(load_weights(trained)[0])))
        numbers = [number for number in numbers if number in own]
    asked = [lines[number] for number in numbers]
    make = functools.partial(agents.make_agent, agent) if isinstance(agent, str) else lambda game: agent
    result = run(make, asked, jax.random.key(seed), progress)
    return AskedSuite(numbers, asked, len(lines) - len(numbers), result)


def score(answers: Sequence[Answer]) -> SuiteScore | None:
    """The winning-move selection ratio; None of no answers."""
    if not answers:
        return None
    correct = sum(answer.correct for answer in answers)
    chance = float(np.mean([answer.chance for answer in answers]))
    share = correct / len(answers)
    return SuiteScore(correct, len(answers), share, wilson_interval(correct, len(answers)), chance)


def grid_of_scores(scores: Mapping[str, SuiteScore]) -> tables.Grid:
    """Scores by what they are of, as a table."""
    rows = [
        (
            name,
            str(score.correct),
            str(score.positions),
            tables.percent(score.share),
            tables.percents(score.interval),
            tables.percent(score.chance),
        )
        for name, score in scores.items()
    ]
    return tables.Grid(("positions", "right", "of", "share", "95 % interval", "random mover"), rows)


def as_dict(result: SuiteResult) -> dict[str, Any]:
    """The result as plain data, for JSON."""
    by_player = [None if part is None else part._asdict() for part in result.by_player]
    answers = [answer._asdict() for answer in result.answers]
    return {"summary": {"all": result.all._asdict(), "by_player": by_player}, "answers": answers}


def ask(
    agent: Agent, key: jax.Array, states: GameState, progress: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """[batch] int32, the moves of an agent in positions [batch, ...]."""
    number = position_sets.size_of(states)
    act = agent.act if agent.on_host else _compiled(agent.act)
    size = _LANES if number > _FEW_LANES else _FEW_LANES  # few sizes, so that few programs are compiled
    actions = [np.zeros(0, np.int32)]
    for begin in range(0, number, size):
        progress(begin)
        key, part_key = jax.random.split(key)
        which = np.minimum(np.arange(begin, begin + size), number - 1)
        which = np.unique(which) if agent.on_host else which
        part = np.asarray(act(agent.params, part_key, position_sets.rows(states, which)))
        actions.append(check_finite(part, agent.name)[: number - begin])
    return np.concatenate(actions).astype(np.int32)


@functools.lru_cache(maxsize=32)
def _compiled(act: Callable) -> Callable:
    return jax.jit(act)


def _optimal_actions(position: PositionLine) -> set[int]:
    moves = positions.moves_of(position.fields, "optimal")
    return {positions.action_of(position.game, position.state, move) for move in moves}


def _answer(position: PositionLine, action: int, legal: np.ndarray) -> Answer:
    game = position.game
    optimal = _optimal_actions(position)
    is_legal = 0 <= action < game.num_actions and bool(legal[action])
    return Answer(
        player=int(position.state.current_player),
        action=action,
        move=game.action_to_text(action) if is_legal else None,
        correct=action in optimal,
        chance=len(optimal) / int(legal.sum()),
    )
