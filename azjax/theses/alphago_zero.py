"""The anatomy of AlphaGo Zero, from which four of the theses start, and the rivals of it that Peters 2018 describes."""

from dataclasses import replace
from typing import Literal

from azjax.nn.networks import NetworkConfig

ALPHAGO_ZERO = NetworkConfig(
    blocks=19,
    channels=256,
    block="original",
    normalisation="batch",
    bias=False,
    global_pooling=False,
    heads="dense",
    policy_channels=2,
    value_channels=1,
    value_hidden=256,
)
KERAS = {"bias": True, "norm_momentum": 0.99, "norm_epsilon": 1e-3}  # what that library does unless told


def variant(
    name: Literal["dual-res", "sep-res", "dual-conv", "sep-conv"] = "dual-res", blocks: int | None = None
) -> NetworkConfig:
    """AlphaGo Zero's anatomy and its three rivals: one tower or two, of residual blocks or of convolutions.

    Args:
      blocks: residual blocks (19 unless given) or convolutions (12).
    """
    towers, kind = name.split("-")
    tower = {"res": "resnet", "conv": "conv"}[kind]
    blocks = blocks or (19 if tower == "resnet" else 12)
    return replace(ALPHAGO_ZERO, tower=tower, blocks=blocks, separate_towers=towers == "sep")
