"""What was learned, as agents: `td:RUN` and `es:RUN`, where RUN is a run's folder or a file saved in it."""

import dataclasses
import os
from typing import Any

from azjax.common.agent import Agent, AgentError
from azjax.envs.core import Game, seen_as
from azjax.learners.es import ESConfig, make_es, policy_network
from azjax.learners.td import TDConfig, make_td, value_network
from azjax.training import checkpoint


def load_td(path: str | os.PathLike, game: Game) -> Agent:
    """The agent of a TD run: one ply of look-ahead over all moves, and the value it learned."""
    config, params = _load(path, game, TDConfig, value_network)
    return Agent(f"td:{path}", make_td(config).act, params)


def load_es(path: str | os.PathLike, game: Game) -> Agent:
    """The agent of an ES run: moves as the mean of the search distribution likes them."""
    config, params = _load(path, game, ESConfig, policy_network)
    return Agent(f"es:{path}", make_es(config).act, params)


def _load(path: str | os.PathLike, game: Game, kind: type, network_of: Any) -> tuple[Any, Any]:
    try:
        config, params = checkpoint.load_agent(path, kind, network_of)
    except checkpoint.RunError as error:
        raise AgentError(str(error)) from error
    if seen_as(config.game) != seen_as(game):
        raise AgentError(f"{path} has learned {config.game}, and cannot play {game}")
    # Whoever was met in training does not matter any more, and may need what is not there.
    return dataclasses.replace(config, opponent="self"), params
