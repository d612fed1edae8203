"""The loop around a learner: sessions side by side, judged at every point, saved, and resumed to the same bits.

A point is `every` steps of the learner and an evaluation as in Kromann and Bennetsen 2019: games against a random
player, and games against the agent of the point before. Both rates are noted for the point alone and over all games
so far. All of it is one compiled function from a `SessionState` to the next.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common import memory
from azjax.common.agent import NOT_FINITE, random_act
from azjax.common.checked import at_least
from azjax.common.keys import root
from azjax.common.remembered import remembered
from azjax.learners.core import Learner, LearnerConfig, MakeOpponent
from azjax.learners.es import ESConfig, make_es
from azjax.learners.games import match, play
from azjax.learners.td import TDConfig, make_td
from azjax.nn.layers import Params
from azjax.training import checkpoint, loop

OPPONENTS = ("random", "previous")
# What every line of metrics.jsonl has, for whoever draws it.
FIELDS: dict[str, Any] = {"steps": Annotated[int, at_least(0)], "games": Annotated[int, at_least(0)]}
FIELDS |= {f"{opponent}{part}": tuple[float, ...] for opponent in OPPONENTS for part in ("", "_total")}


class SessionState(NamedTuple):
    """All there is of a run; every part but the last has one row per session."""

    learned: Any  # the learner's states
    previous: Params  # the agents of the last point
    best: Params  # the agents of the best point against random
    best_score: jax.Array  # [sessions] what they scored there
    points: jax.Array  # [sessions, 2] of all games so far against random and previous: 1 a win, 1/2 a draw
    key: jax.Array  # [sessions]
    iteration: jax.Array  # [] int32, points so far


class Measured(NamedTuple):
    """What a point reports, one row per session."""

    scores: jax.Array  # [sessions, 2] of this point's games against random and previous
    totals: jax.Array  # [sessions, 2] of all games so far
    report: dict[str, jax.Array]  # [sessions] each, the learner's own numbers, averaged over the steps
    example: jax.Array  # [sessions, max_plies] int32, a game of the agent against itself


class Sessions(NamedTuple):
    """A run as functions."""

    learner: Learner
    init: Callable[[jax.Array], SessionState]  # from a key
    iteration: Callable[[SessionState], tuple[SessionState, Measured]]


def make_learner(config: LearnerConfig, make_opponent: MakeOpponent | None = None) -> Learner:
    """The learner that a configuration is for; for `make_opponent` see `train`."""
    return {TDConfig: make_td, ESConfig: make_es}[type(config)](config, make_opponent)


def make_sessions(config: LearnerConfig, make_opponent: MakeOpponent | None = None) -> Sessions:
    """Makes the functions of a run; nothing is compiled or allocated yet. For `make_opponent` see `train`."""
    # These change nothing in the program.
    kind = dataclasses.replace(config, iterations=1, save_every=1, seed=0)
    # Any other opponent may be an agent of a file, which may be another one tomorrow.
    meets_itself = config.opponent in ("self", "previous")
    sessions = _remembered_sessions(kind) if meets_itself else _sessions(kind, make_opponent)
    _check_memory(config, sessions.learner)
    return sessions


def _sessions(config: LearnerConfig, make_opponent: MakeOpponent | None = None) -> Sessions:
    learner, game = make_learner(config, make_opponent), config.game

    def start(key: jax.Array):
        init_key, key = jax.random.split(key)
        learned = learner.init(init_key)
        return learned, learner.params(learned), key

    def init(key: jax.Array) -> SessionState:
        learned, params, keys = jax.vmap(start)(jax.random.split(key, config.sessions))
        return SessionState(
            learned=learned,
            previous=params,
            best=params,
            best_score=jnp.full(config.sessions, -1.0),
            points=jnp.zeros((config.sessions, 2)),
            key=keys,
            iteration=jnp.int32(0),
        )

    def point(learned: Any, previous: Params, key: jax.Array):
        key, step_key, *match_keys, example_key = jax.random.split(key, 5)
        learned, reports = jax.lax.scan(
            lambda learned, key: learner.step(learned, previous, key),
            learned,
            jax.random.split(step_key, config.every),
        )
        params = learner.params(learned)
        opponents = (random_act(game), None), (learner.act, previous)
        results = [
            match(game, learner.act, opponent, params, its_params, match_key, config.evaluation_games)
            for (opponent, its_params), match_key in zip(opponents, match_keys)
        ]
        _, example = play(game, lambda key, states: learner.act(params, key, states), example_key, 1)
        report = jax.tree.map(jnp.mean, reports)
        return (
            learned,
            params,
            key,
            jnp.stack([jnp.sum(result) for result in results]),
            report,
            example.actions[:, 0],
        )

    def iteration(state: SessionState) -> tuple[SessionState, Measured]:
        learned, params, keys, points, report, example = jax.vmap(point)(
            state.learned, state.previous, state.key
        )
        scores = points / config.evaluation_games
        better = scores[:, 0] > state.best_score
        state = SessionState(
            learned=learned,
            previous=params,
            best=jax.vmap(lambda new, a, b: jax.tree.map(lambda x, y: jnp.where(new, x, y), a, b))(
                better, params, state.best
            ),
            best_score=jnp.maximum(state.best_score, scores[:, 0]),
            points=state.points + points,
            key=keys,
            iteration=state.iteration + 1,
        )
        totals = state.points / (config.evaluation_games * state.iteration)
        return state, Measured(scores, totals, report, example)

    return Sessions(learner, init, jax.jit(iteration))


_remembered_sessions = remembered(_sessions)


def _check_memory(config: LearnerConfig, learner: Learner) -> None:
    """Raises TooMuchMemoryError unless the games that are played side by side fit into memory."""
    state = jax.eval_shape(config.game.init, jax.random.key(0))
    position = memory.size_of(state)
    if isinstance(config, TDConfig):  # which learns from all positions of the games
        position = config.game.max_plies * (position + 4 * math.prod(config.game.observation_shape))
    games = config.sessions * max(learner.games_per_step, config.evaluation_games)
    memory.check(games * position, f"{games:,} games side by side")


def train(
    config: LearnerConfig,
    out: str | os.PathLike,
    *,
    resume: bool = False,
    resume_from: int | None = None,
    make_opponent: MakeOpponent | None = None,
    watch: Callable[[dict[str, Any]], None] = lambda row: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Learns until `config.iterations` points are made, or until interrupted; either way everything is saved.

    Besides what `azjax.training.checkpoint` keeps there are agent.npz, of the session that has won most against random,
    and best.npz, of the best point of any session.

    Args:
      config: a TDConfig or an ESConfig.
      out: the run's folder.
      resume: continue what is there, from the newest checkpoint that is whole.
      resume_from: continue from this checkpoint instead.
      make_opponent: makes the agent that `config.opponent` names, such as `azjax.agents.make_agent`; None where it
        names none.
      watch: called with the row of every point.
      say: receives lines for people.
    """
    return loop.train(
        lambda own: make_learning(own, make_opponent),
        config,
        out,
        resume=resume,
        resume_from=resume_from,
        watch=watch,
        say=say,
    )


class Shown(NamedTuple):
    """What is kept of a state as agents."""

    newest: Params  # [sessions, ...]
    points: np.ndarray  # [sessions, opponents]
    best: Params  # [sessions, ...]
    best_score: np.ndarray  # [sessions]


def make_learning(config: LearnerConfig, make_opponent: MakeOpponent | None = None) -> loop.Learning:
    """The run as the loop sees it; nothing is compiled or allocated yet. For `make_opponent` see `train`."""
    sessions = make_sessions(config, make_opponent)

    def iterate(compiled: Callable, state: SessionState, count: int) -> tuple[SessionState, Any]:
        state, measured = compiled(state)
        return state, (state.iteration, measured)

    def rows(counted: tuple[np.ndarray, Measured], count: int) -> list[dict[str, Any]]:
        row = point_row(config, sessions.learner, int(counted[0]), counted[1])
        if row["iteration"] % config.save_every and row["iteration"] < config.iterations:
            del row["example"]
        return [row]

    def export(run: checkpoint.Run, iteration: int, shown: Shown) -> None:
        _export(run, "agent", shown.newest, shown.points[:, 0])
        _export(run, "best", shown.best, shown.best_score)

    return loop.Learning(
        unit="point",
        init=lambda: sessions.init(root(config.seed, "training")),
        compile=lambda state: (
            functools.partial(iterate, sessions.iteration.lower(state).compile()),
            "compiled",
        ),
        rows=rows,
        shown=lambda state: Shown(state.previous, state.points, state.best, state.best_score),
        judge=lambda state, row: {},
        weights=lambda shown: (shown.newest, shown.best),
        export=export,
        counted="games_per_point",
        rate="games_per_second",
        remedy="a lower rate of learning",
    )


def point_row(config: LearnerConfig, learner: Learner, iteration: int, measured: Measured) -> dict[str, Any]:
    """One line of metrics.jsonl: lists have one number per session."""
    games = config.every * learner.games_per_step
    row = {
        "iteration": iteration,
        "steps": iteration * config.every,
        "games": iteration * games,  # in training, of each session
        "games_per_point": config.sessions * games,
    }
    for column, opponent in enumerate(OPPONENTS):
        row[opponent] = measured.scores[:, column].tolist()
        row[f"{opponent}_total"] = measured.totals[:, column].tolist()
    row |= {name: np.asarray(numbers).tolist() for name, numbers in measured.report.items()}
    row["example"] = game_text(config.game, measured.example[0])
    return row


def game_text(game: Any, actions: np.ndarray) -> list[str]:
    """The moves of a game from its start, as far as it went."""
    x, moves, step = game.init(jax.random.key(0)), [], jax.jit(game.step)
    for action in actions:
        if bool(game.is_terminal(x)) or action == NOT_FINITE:
            break
        moves.append(game.action_to_text(int(action)))
        x = step(x, int(action))
    return moves


def _export(run: checkpoint.Run, name: str, params: Params, scores: np.ndarray) -> None:
    """Writes the agent of the session with the highest score."""
    session = int(np.argmax(scores))
    strongest = jax.tree.map(lambda leaf: leaf[session], params)
    checkpoint.export_agent(run.path / f"{name}.npz", run.config, strongest)
