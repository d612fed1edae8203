"""Networks: convolution, layers, towers and heads, and where a network meets a game."""

from azjax.nn.evaluator import make_evaluator
from azjax.nn.layers import Params
from azjax.nn.networks import (
    Network,
    NetworkConfig,
    Outputs,
    ParameterCount,
    count_parameters,
    half_copy,
    make_network,
)

__all__ = [
    "Network",
    "NetworkConfig",
    "Outputs",
    "ParameterCount",
    "Params",
    "count_parameters",
    "half_copy",
    "make_evaluator",
    "make_network",
]
