"""How a run is judged while it trains: matches with fixed opponents, and the truth where a solver knows it."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from azjax.agents.plain import random_agent, uct_agent
from azjax.common import keys
from azjax.evaluation import parts
from azjax.evaluation.arena import make_match, width_of
from azjax.search import tree
from azjax.training.boards import alone, name_of
from azjax.training.config import TrainConfig


def make_judge(config: TrainConfig) -> Callable[[Any, int], dict[str, Any]]:
    """(params, iteration) -> `evaluation`, the scores against fixed opponents with their intervals, and `truth`,
    the shares of solved positions that the agent gets right, where a solver fits, without those that the run opens
    games with (`truth_left_out` of them).

    A run with several boards is judged on each that is played in the iteration; every name then says on which.
    """
    if not config.boards:
        return _judge_of_board(config)
    judges = {board: _judge_of_board(alone(config, board.game)) for board in config.played}

    def judge(params: Any, iteration: int) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for board, judge_board in judges.items():
            if not board.is_played_in(iteration):
                continue
            found = judge_board(params, iteration)
            for part in ("evaluation", "truth"):
                named = {
                    f"{name}, board {name_of(board.game)}": it for name, it in found.get(part, {}).items()
                }
                if named:
                    row[part] = row.get(part, {}) | named
            if "truth_left_out" in found:
                row["truth_left_out"] = row.get("truth_left_out", 0) + found["truth_left_out"]
        return row

    return judge


def _judge_of_board(config: TrainConfig) -> Callable[[Any, int], dict[str, Any]]:
    """See `make_judge`; of a run with one board."""
    options = config.evaluation
    for simulations in (options.simulations, options.uct_simulations):  # now, not when the first match begins
        tree.check_room(config.game.num_actions, width_of(2 * options.pairs), simulations + 1, solve=False)
    agent = parts.player_of(config, options.simulations)
    opponents = {
        "random": random_agent(config.game).act,
        f"uct:{options.uct_simulations}": uct_agent(config.game, options.uct_simulations).act,
    }
    matches = {
        name: make_match(config.game, agent, opponent, pairs=options.pairs, random_plies=options.random_plies)
        for name, opponent in opponents.items()
    }

    @functools.cache
    def truth() -> tuple[Callable, int] | None:
        # Made when first wanted, so that a run's first metrics need not wait for the solver.
        if not options.truth:
            return None
        return parts.make_truth(config, parts.own_evaluator(config), simulations=options.simulations)

    def judge(params: Any, iteration: int) -> dict[str, Any]:
        params = jax.tree.map(np.asarray, params)  # off the mesh: a match runs on one device
        key = jax.random.fold_in(keys.root(config.seed, "evaluation"), iteration)
        scores = {
            name: parts.score_row(match(params, None, keys.stream(key, name)))
            for name, match in matches.items()
        }
        row: dict[str, Any] = {"evaluation": scores}
        if truth() is not None:
            shares, row["truth_left_out"] = truth()
            row["truth"] = shares(params)
        return row

    return judge
