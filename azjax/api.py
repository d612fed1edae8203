"""What the commands do, as functions of Python: `azjax.train`, `azjax.match`, `azjax.solve` and their like.

Agents, games, suites and judges may be named by the same texts as on the command line. Results are small objects that
show themselves as a table, a board or a curve.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import jax
import numpy as np

from azjax import agents, solvers, theses
from azjax import positions as position_files
from azjax.common import tables
from azjax.common.agent import Agent
from azjax.common.progress import StagedProgress
from azjax.envs.core import Game, GameState, unwrapped
from azjax.envs.registry import make_game
from azjax.evaluation import arena, live, ratings, records, suites
from azjax.evaluation import tournament as tournaments
from azjax.learners import session
from azjax.learners.es import ESConfig
from azjax.learners.td import TDConfig
from azjax.positions import PositionLine
from azjax.training import alphazero, checkpoint
from azjax.training.config import TrainConfig

AnyGame = Any
"""A game, an environment around one, or the name of one, such as `hex`."""


def train(config: TrainConfig | str, out: str | os.PathLike, **options: Any) -> checkpoint.Run:
    """Trains until `config.iterations` are done, or until interrupted; either way everything is saved.

    Args:
      config: the run, or the name of a preset.
      out: its folder.
      **options: of `azjax.training.alphazero.train`: `resume`, `init_from`, `devices`, own parts such as `search` and
        `loss`, `watch` and more. Unless `judge` is given, the run is judged as on the command line.
    """
    config = theses.preset(config) if isinstance(config, str) else config
    return alphazero.train(config, out, **({"judge": live.make_judge} | options))


def resume(run: str | os.PathLike, *, iterations: int | None = None, **options: Any) -> checkpoint.Run:
    """Continues a run of any learner from its newest whole checkpoint.

    Args:
      run: its folder.
      iterations: how long it goes on in all; None as before.
      **options: of `azjax.training.alphazero.train`, or of `azjax.learners.session.train` for TD and evolution.
    """
    config = checkpoint.read_config(run, TrainConfig, TDConfig, ESConfig)
    if iterations is not None:
        config = dataclasses.replace(config, iterations=iterations)
    if isinstance(config, TrainConfig):
        return train(config, run, resume=True, **options)
    return session.train(config, run, resume=True, make_opponent=agents.make_agent, **options)


def load_agent(run: str | os.PathLike, *, simulations: int | None = None) -> Agent:
    """The agent of a run of any learner, ready to play its game.

    Args:
      run: its folder, or a file of weights saved in it.
      simulations: of its search; None for those it was trained with. Only for runs of `azjax.train`.
    """
    text, game = agents.trained_agent(os.fspath(run))
    if game is None:
        raise checkpoint.RunError(
            f"there is no run at {run}; give the folder of one, or a file of weights saved in it"
        )
    return agents.make_agent(text if simulations is None else f"{text}?sims={simulations}", game)


def match(
    agent: Agent | str | os.PathLike,
    opponent: Agent | str | os.PathLike,
    game: AnyGame = None,
    *,
    pairs: int = 50,
    random_plies: int = 0,
    openings: str | os.PathLike | Sequence[PositionLine] = (),
    width: int | None = None,
    seed: int = 0,
    progress: StagedProgress = lambda what, done, total: None,
) -> arena.MatchResult:
    """Plays 2 * `pairs` games between two agents, each opening with both colours.

    Args:
      agent: whose side the result takes; an agent, or a text such as `uct:200` or `runs/hex5`.
      opponent: the other.
      game: what is played; None for what a trained agent among them has learned.
      pairs: openings.
      random_plies: how many moves of an opening are drawn at random, alike for both games of a pair.
      openings: positions to start from, used in turn, or a position file.
      width: games that are searched side by side; None to suit the device.
      seed: of all draws.
      progress: called now and then.
    """
    game = _game_of(game, agent, opponent)
    with _seated(game, (agent, opponent), progress) as (one, other):
        play_match = arena.make_match(
            game,
            one,
            other,
            pairs=pairs,
            random_plies=random_plies,
            openings=_openings_of(openings, game),
            width=width,
        )
        key = jax.random.key(seed)
        return play_match(None, None, key, progress=functools.partial(progress, "games finished"))


@dataclasses.dataclass(frozen=True, repr=False)
class Tournament:
    """The matches of a tournament, and what they tell."""

    results: tournaments.Results
    table: tournaments.CrossTable  # the best first
    ratings: ratings.Ratings  # the best first

    def __repr__(self) -> str:
        return f"{self.table!r}\n\n{self.ratings!r}"

    def _repr_html_(self) -> str:
        return self.table._repr_html_() + self.ratings._repr_html_()


def tournament(
    players: Sequence[str],
    game: AnyGame = None,
    *,
    out: str | os.PathLike | None = None,
    kind: Literal["round-robin", "ladder"] = "round-robin",
    pairs: int = 20,
    random_plies: int = 2,
    openings: str | os.PathLike | Sequence[PositionLine] = (),
    seed: int = 0,
    progress: StagedProgress = lambda what, done, total: None,
) -> Tournament:
    """Everybody against everybody, or a ladder, with ratings by maximum likelihood.

    Args:
      players: agents' texts, two or more different ones.
      game: what is played; None for what a trained agent among them has learned.
      out: a file that keeps the matches, so that a tournament that was stopped can go on; None keeps nothing.
      kind: who meets whom.
      pairs: openings of a match, each played with both colours.
      random_plies: how many moves of an opening are drawn at random.
      openings: positions to start from, used in turn, or a position file.
      seed: of all draws.
      progress: called now and then.
    """
    if len(set(players)) < max(2, len(players)):
        raise ValueError(f"a tournament needs two or more different players, got {' '.join(players)}")
    game = _game_of(game, *players)
    lines = _openings_of(openings, game)
    named = os.fspath(openings) if isinstance(openings, (str, os.PathLike)) else None
    settings = {"pairs": pairs, "random_plies": random_plies, "openings": named, "seed": seed}
    with _seated(game, players, progress) as seated:
        results = tournaments.Results(out, game, settings)
        tournaments.play(
            results,
            game,
            dict(zip(players, seated)),
            kind=kind,
            pairs=pairs,
            random_plies=random_plies,
            openings=lines,
            seed=seed,
            progress=progress,
        )
    rated = ratings.maximum_likelihood(results.scores())
    return Tournament(results, tournaments.cross_table(results, [rating.name for rating in rated]), rated)


@dataclasses.dataclass(frozen=True, repr=False)
class Solved:
    """Positions and the truth about them."""

    game: Game
    states: GameState  # [batch, ...]
    solution: solvers.Solution

    @property
    def value(self) -> np.ndarray:
        """[batch] float32, for the player to move; NaN where not proven."""
        return self.solution.value

    @property
    def optimal(self) -> list[list[str]]:
        """[batch] the optimal moves in the game's notation."""
        return [
            [self.game.action_to_text(action) for action in np.flatnonzero(row).tolist()]
            for row in self.solution.optimal
        ]

    def grid(self) -> tables.Grid:
        """The first positions as a table, with their boards."""
        grid = self.solution.grid(self.game)
        return dataclasses.replace(grid, pictures=[self._board(row) for row in range(len(grid.rows))])

    def _board(self, row: int) -> str:
        if not hasattr(self.game, "draw"):
            return ""
        return str(self.game.draw(jax.tree.map(lambda leaf: leaf[row], self.states), scale=0.5))

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def solve(
    game: AnyGame,
    positions: str | os.PathLike | Sequence[str] | GameState | None = None,
    **options: Any,
) -> Solved:
    """The exact values and all optimal moves of positions.

        azjax.solve("hex", size=4)
        azjax.solve(azjax.make_game("dots_and_boxes", rows=2, columns=3))

    Args:
      game: what is played; options of a game that is named, such as `size`, may follow.
      positions: a position file, texts in the game's notation, or states [batch, ...]; None for the start.
      **options: of the game if that is a name, else of `azjax.make_solver`.
    """
    if isinstance(game, str):
        game, options = make_game(game, **options), {}
    game = unwrapped(game)
    game = solvers.room_of(game).finest(game)
    if positions is None:
        states = position_files.stack([game.init(jax.random.key(0))])
    elif isinstance(positions, (str, os.PathLike)):
        lines = position_files.read_positions(positions, game)
        if foreign := next((line.game for line in lines if line.game != game), None):
            raise ValueError(f"{positions} has positions of {foreign}; solve them with that game")
        states = position_files.stack(line.state for line in lines)
    elif isinstance(positions, Sequence) and not hasattr(positions, "current_player"):
        states = position_files.stack([game.from_notation(text) for text in positions])
    else:
        states = positions
    solver = solvers.make_solver(game, **options)
    try:
        return Solved(game, states, solver.solve(states))
    finally:
        if hasattr(solver, "close"):
            solver.close()


def suite(
    agent: Agent | str | os.PathLike,
    suite: str | os.PathLike,
    *,
    seed: int = 0,
    openings_too: bool = False,
    progress: StagedProgress = lambda what, done, total: None,
) -> suites.SuiteResult:
    """Asks an agent about every position of a suite whose optimal moves are proven.

    Args:
      agent: an agent, or its text.
      suite: a position file with `optimal`, or the name of a ready suite such as `hex5`.
      seed: for agents that draw.
      openings_too: ask also about positions that the agent's own run opened games with.
      progress: called now and then.
    """
    text = agent if isinstance(agent, Agent) else os.fspath(agent)
    return suites.run_suite(text, suite, seed=seed, openings_too=openings_too, progress=progress).result


def play(
    agent: Agent | str | os.PathLike,
    game: AnyGame = None,
    *,
    side: Literal["first", "second"] = "first",
    seed: int = 0,
    read: Callable[[str], str] = input,
) -> records.GameRecord:
    """Plays a game in the terminal, or in a notebook, against an agent.

    Args:
      agent: an agent, or its text.
      game: what is played; None for what a trained agent has learned.
      side: the player you are.
      seed: for agents that draw.
      read: (prompt) -> a line; where your moves come from.

    Returns:
      The game, which shows its last board.
    """
    from azjax.cli import (
        play as playing,  # here: it needs packages for the terminal, which nothing else of this does
    )
    from azjax.cli import screen

    game = _game_of(game, agent)
    with _seated(game, (agent,), lambda what, done, total: None) as (opponent,):
        human = 0 if side == "first" else 1
        return playing.Session(game, opponent, opponent, human, screen.console(), seed=seed).play(read)


def _game_of(game: AnyGame, *players: Agent | str | os.PathLike) -> Game:
    """The game that was given or, where none was, that a trained agent has learned."""
    if isinstance(game, str):
        return make_game(game)
    if game is not None:
        return unwrapped(game)
    for player in players:
        if not isinstance(player, Agent):
            learned = agents.trained_agent(os.fspath(player))[1]
        else:
            learned = agents.trained_agent(player.name)[1] if player.name else None
        if learned is not None:
            return learned
    raise ValueError('say what is played, such as game="hex": none of these agents was trained on one game')


@contextlib.contextmanager
def _seated(
    game: Game, players: Sequence[Agent | str | os.PathLike], progress: StagedProgress
) -> Iterator[list[Agent]]:
    """The agents; those made here are closed at the end."""
    with contextlib.ExitStack() as stack:
        made = []
        for player in players:
            if not isinstance(player, Agent):
                tell = functools.partial(progress, f"preparing {player}")
                player = agents.make_agent(os.fspath(player), game, progress=tell)
                stack.callback(player.close)
            made.append(player)
        yield made


def _openings_of(openings: str | os.PathLike | Sequence[PositionLine], game: Game) -> Sequence[PositionLine]:
    if isinstance(openings, (str, os.PathLike)):
        return position_files.read_positions(pathlib.Path(openings), game)
    return openings
