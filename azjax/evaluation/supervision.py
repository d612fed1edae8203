"""Where the labels of supervised learning come from: a solver, or a file. See `azjax.learners.supervised`."""

import os
from collections.abc import Callable
from typing import Any

from azjax.common import remote
from azjax.envs.core import GameState, without_past
from azjax.evaluation import truth
from azjax.learners import supervised
from azjax.learners.supervised import Data, SupervisedConfig
from azjax.positions import labelled, sets
from azjax.positions.labelled import Label, Labelled
from azjax.solvers import Solver
from azjax.training import checkpoint, seen

SOLVER = "solver"


def label_with(solver: Solver) -> Label:
    """What a solver proves of positions: values as the game's rewards are counted, and all optimal moves."""
    boxes = getattr(solver.game, "num_boxes", 1) if getattr(solver.game, "reward", None) == "margin" else 1

    def label(states: GameState) -> Labelled:
        known = truth.label(solver, states)
        return Labelled(known.states, known.value / boxes, known.optimal)

    return label


def make_data(config: SupervisedConfig) -> Data:
    """What a run learns from and is judged by, as `config.data` says.

    Raises:
      ValueError: there is no such file, or no solver for the board.
    """
    game = without_past(config.game)
    is_run = os.path.isdir(config.data)
    if config.data != SOLVER and not is_run:
        return supervised.from_positions(config, labelled.read(config.data, game))
    solver = truth.solver_for(game, config.all_moves)
    if solver is None:
        raise ValueError(f"no solver fits {game}; give a file of labelled positions with --data")
    if is_run:
        return supervised.from_positions(config, label_seen(solver, config.data))
    return supervised.from_labels(config, label_with(solver))


def label_seen(solver: Solver, run: str | os.PathLike) -> Labelled:
    """The distinct positions that a run has played, with the truth about them; of runs that keep a log."""
    states = seen.read(run, solver.game).states
    return label_with(solver)(sets.rows(states, sets.first_of_each(states)))


def train(
    config: SupervisedConfig,
    out: str | os.PathLike,
    *,
    resume: bool = False,
    resume_from: int | None = None,
    devices: int | None = None,
    init_from: str | os.PathLike | None = None,
    watch: Callable[[dict[str, Any]], None] = lambda row: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Teaches a network what `config.data` knows; for the arguments see `azjax.learners.supervised.train`."""
    supervised.check_memory(config)
    if not remote.is_remote(out):  # before the labels, which take a while
        if resume or resume_from is not None:
            checkpoint.open_run(out, config)
        else:
            checkpoint.new_run(out, config)
    if init_from is not None:
        checkpoint.load_agent(init_from)
    return supervised.train(
        config,
        out,
        make_data(config),
        resume=resume,
        resume_from=resume_from,
        devices=devices,
        init_from=init_from,
        watch=watch,
        say=say,
    )
