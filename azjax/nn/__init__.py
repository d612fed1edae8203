"""Networks: convolution, layers, towers and heads, and where a network meets a game."""

from azjax.nn.evaluator import make_action_evaluator, make_evaluator
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
from azjax.nn.own import OwnNetwork, as_network, register_network

__all__ = [
    "Network",
    "NetworkConfig",
    "Outputs",
    "OwnNetwork",
    "ParameterCount",
    "Params",
    "as_network",
    "count_parameters",
    "half_copy",
    "make_action_evaluator",
    "make_evaluator",
    "make_network",
    "register_network",
]
