"""What judges are made of, those of the training loop and those of checkpoints: a run's player, scores, the truth."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from azjax.agents.trained import make_search, search_act
from azjax.common.agent import NOT_FINITE, Act, check_finite
from azjax.envs.core import Game
from azjax.evaluation import truth
from azjax.evaluation.arena import MatchResult
from azjax.evaluation.opened import openings_of
from azjax.nn import Params, make_evaluator, make_network
from azjax.search.tree import Evaluator
from azjax.training.config import TrainConfig


def own_evaluator(config: TrainConfig) -> Evaluator:
    """The run's network on the run's own board."""
    return make_evaluator(config.game, make_network(config.network, config.game))


def player_of(
    config: TrainConfig,
    simulations: int,
    *,
    game: Game | None = None,
    evaluate: Evaluator | None = None,
    c: float | None = None,
    solve: bool = False,
) -> Act:
    """A run as it plays when it is judged, without noise; its parameters are the run's.

    Args:
      config: of the run.
      simulations: of the run's kind of search; 0 for the network alone.
      game: what is played; None for the run's own board.
      evaluate: the run's network on that board; None for its own.
      c: PUCT's exploration constant, see `azjax.agents.trained.make_search`; None for the run's own search.
      solve: back up proven results, by PUCT.
    """
    game = config.game if game is None else game
    evaluate = own_evaluator(config) if evaluate is None else evaluate
    if simulations == 0:
        return truth.network_act(evaluate, game)
    return search_act(make_search(config, game, evaluate, simulations=simulations, c=c, solve=solve))


def score_row(result: MatchResult) -> dict[str, Any]:
    """What is kept of a match, as plain data."""
    return {
        "score": result.score,
        "interval": list(result.interval),
        "games": result.games,
        "distinct_games": result.distinct_games,
    }


def make_truth(
    config: TrainConfig, evaluate: Evaluator, **options
) -> tuple[Callable[[Params], dict[str, float]], int] | None:
    """(params) -> the shares of solved positions that a run gets right; and how many it opened games with.

    None if no solver fits; for the options see `azjax.evaluation.truth.truth_judge`. The function raises AgentError for
    a network whose answers are not finite.
    """
    judge = truth.truth_judge(config.game, opened=openings_of(config), **options)
    if judge is None:
        return None
    compiled = jax.jit(lambda params: judge(evaluate, params))

    def shares(params: Params) -> dict[str, float]:
        found = {name: float(share) for name, share in compiled(params).items()}
        check_finite(np.where(np.isnan([*found.values()]), NOT_FINITE, 0), "the run")
        return found

    return shares, judge.left_out
