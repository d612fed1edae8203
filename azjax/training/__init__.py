"""Training: from a configuration to a compiled iteration, and the loop around it."""

from azjax.training.config import (
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)
from azjax.training.loss import Losses
from azjax.training.openings import make_openings
from azjax.training.selfplay import Openings
from azjax.training.step import (
    Count,
    Metrics,
    Trainer,
    TrainState,
    make_action_choice,
    make_exploring_search,
    make_mesh,
    make_trainer,
    make_value_targets,
    playing_config,
    playing_copy,
    state_partition,
)

__all__ = [
    "Count",
    "EvaluationConfig",
    "Losses",
    "Metrics",
    "Openings",
    "OptimiserConfig",
    "ReplayConfig",
    "SearchConfig",
    "SelfplayConfig",
    "TrainConfig",
    "TrainState",
    "Trainer",
    "make_action_choice",
    "make_exploring_search",
    "make_mesh",
    "make_openings",
    "make_trainer",
    "make_value_targets",
    "playing_config",
    "playing_copy",
    "state_partition",
]
