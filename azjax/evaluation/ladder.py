"""The ladder of UCT players that a run climbs while it trains: OpenSpiel's evaluator (Daliri 2022).

Level n plays S(n) = simulations * 10^(n / 2) simulations per move and backs up proven results. Games alternate colours,
and the score of a level is that of its newest games, up to a window of 100. It shows the progress of a run in
metrics.jsonl and in its report, and is no measure to compare runs by.

    azjax.train(config, "runs/hex6", judge=functools.partial(ladder.make_judge, simulations=150))
"""

import collections
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from azjax.agents.plain import uct_agent
from azjax.common import keys
from azjax.evaluation import parts
from azjax.evaluation.arena import make_match, wilson_interval
from azjax.training.config import TrainConfig


def simulations_of(level: int, simulations: int) -> int:
    """S(n): of 150 simulations 150, 474, 1,500, 4,743, 15,000 for the levels 0 to 4."""
    return int(simulations * 10 ** (level / 2))


def make_judge(
    config: TrainConfig,
    *,
    simulations: int | None = None,
    levels: int = 5,
    pairs: int = 5,
    window: int = 100,
) -> Callable[[Any, int], dict[str, Any]]:
    """(params, iteration) -> `evaluation`: the score against each level over its newest games.

    A run that is resumed begins its window anew.

    Args:
      config: of the run, which plays with `evaluation.simulations`.
      simulations: of level 0; None for as many as the run's own search has, the root's evaluation included.
      levels: how many.
      pairs: games of each level at a time, with both colours, from the game's start.
      window: games that count.
    """
    base = config.search.simulations + 1 if simulations is None else simulations
    agent = parts.player_of(config, config.evaluation.simulations)
    matches, newest = {}, {}
    for level in range(levels):
        name = f"uct:{simulations_of(level, base)}"
        opponent = uct_agent(config.game, simulations_of(level, base), solve=True)
        matches[name] = make_match(config.game, agent, opponent.act, pairs=pairs)
        newest[name] = collections.deque(maxlen=window)

    def judge(params: Any, iteration: int) -> dict[str, Any]:
        params = jax.tree.map(np.asarray, params)  # off the mesh: a match runs on one device
        key = jax.random.fold_in(keys.root(config.seed, "evaluation"), iteration)
        scores = {}
        for name, match in matches.items():
            played = match(params, None, keys.stream(key, name)).played
            results = np.where(played.agent_first, played.result, -played.result)
            newest[name].extend(((results + 1) / 2).tolist())
            total, games = sum(newest[name]), len(newest[name])
            scores[name] = {
                "score": total / games,
                "interval": list(wilson_interval(total, games)),
                "games": games,
            }
        return {"evaluation": scores}

    return judge
