"""Training: from a configuration to a compiled iteration, and the loop around it."""

from azjax.training.config import (
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)
from azjax.training.step import (
    Count,
    Metrics,
    Trainer,
    TrainState,
    make_action_choice,
    make_mesh,
    make_search,
    make_trainer,
    make_value_targets,
    playing_copy,
    state_partition,
)

__all__ = [
    "Count",
    "EvaluationConfig",
    "Metrics",
    "OptimiserConfig",
    "ReplayConfig",
    "SearchConfig",
    "SelfplayConfig",
    "TrainConfig",
    "TrainState",
    "Trainer",
    "make_action_choice",
    "make_mesh",
    "make_search",
    "make_trainer",
    "make_value_targets",
    "playing_copy",
    "state_partition",
]
