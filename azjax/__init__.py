"""azjax: an AlphaZero laboratory in JAX.

    import azjax

    azjax.train("hex3", "runs/hex3")
    azjax.match("runs/hex3", "uct:200")
    azjax.solve("hex", size=4)

These names are all there is to know; whatever else is needed is in the modules named here.
"""

from azjax.common import interrupted as _interrupted  # noqa: F401  first: the other imports take seconds

# isort: split
from typing import TYPE_CHECKING, Any

from azjax import agents, envs, evaluation, nn, plots, search, solvers, training
from azjax.agents import AgentError, make_agent, register_agent
from azjax.api import Solved, Tournament, load_agent, match, play, resume, solve, suite, tournament, train
from azjax.common.agent import Agent
from azjax.envs import (
    Game,
    GameError,
    MoveError,
    PositionError,
    available_games,
    make,
    make_game,
    register_game,
)
from azjax.evaluation.evaluate import Evaluation, evaluate
from azjax.evaluation.judges import JudgeKind, JudgeOptions, register_judge
from azjax.evaluation.supervision import train as train_supervised
from azjax.learners.supervised import SupervisedConfig
from azjax.nn import Network, NetworkConfig, register_network
from azjax.solvers import TooLargeError, make_solver
from azjax.theses import preset, register_preset
from azjax.theses import preset_names as presets
from azjax.training import (
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
    make_mesh,
    make_trainer,
)
from azjax.training.checkpoint import Run, RunError
from azjax.training.config import ConfigError
from azjax.training.many import TrainedRuns, train_many

if TYPE_CHECKING:
    from azjax.envs import Env
    from azjax.serve.widget import Board as Board

__all__ = [
    "Agent",
    "AgentError",
    "ConfigError",
    "Env",
    "Evaluation",
    "EvaluationConfig",
    "Game",
    "GameError",
    "JudgeKind",
    "JudgeOptions",
    "MoveError",
    "Network",
    "NetworkConfig",
    "OptimiserConfig",
    "PositionError",
    "ReplayConfig",
    "Run",
    "RunError",
    "SearchConfig",
    "SelfplayConfig",
    "Solved",
    "SupervisedConfig",
    "TooLargeError",
    "Tournament",
    "TrainConfig",
    "TrainedRuns",
    "agents",
    "available_games",
    "envs",
    "evaluate",
    "evaluation",
    "load_agent",
    "make",
    "make_agent",
    "make_game",
    "make_mesh",
    "make_solver",
    "make_trainer",
    "match",
    "nn",
    "play",
    "plots",
    "preset",
    "presets",
    "register_agent",
    "register_game",
    "register_judge",
    "register_network",
    "register_preset",
    "resume",
    "search",
    "solve",
    "solvers",
    "suite",
    "tournament",
    "train",
    "train_many",
    "train_supervised",
    "training",
]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name == "Env":  # looked up when first used: importing pgx starts JAX's backend
        return envs.Env
    if name == "Board":  # not in __all__: it needs the extra `serve`
        from azjax.serve.widget import Board

        return Board
    raise AttributeError(f"module 'azjax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "Board"})
