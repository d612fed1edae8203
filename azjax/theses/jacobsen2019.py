"""Jacobsen 2019: Hex 7x7 and 9x9, in half precision, with a printed search formula and flat opening moves of its own.

What self-play needs of it stands where self-play can reach it: `azjax.search.exploration.flattened_logits`, the formula
"sqrt_ratio" of `azjax.search.reusing_puct`, and `azjax.nn.half_copy`.
"""

import functools
import math
from dataclasses import replace
from typing import Literal

from azjax.envs import Hex
from azjax.nn.networks import NetworkConfig
from azjax.theses.alphago_zero import ALPHAGO_ZERO
from azjax.training.config import (
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)


def network(
    blocks: int = 19, channels: int = 256, block: Literal["original", "preactivation"] = "original"
) -> NetworkConfig:
    """Jacobsen's tower for Hex: 13 or 19 blocks, the original ones or (his best) pre-activated ones."""
    return replace(ALPHAGO_ZERO, blocks=blocks, channels=channels, block=block)


def opening_moves(size: int) -> int:
    """How many moves of a Hex game are drawn by `flattened_logits`: a tenth of the cells."""
    return math.ceil(size * size / 10)


def dirichlet_alpha(size: int) -> float:
    """10 / (estimated mean number of legal moves), which the thesis takes as 0.7 of the cells."""
    return 10 / (0.7 * size * size)


def config(
    size: int, window: int, blocks: int, precision: str, category: str, updates: int = 1200
) -> TrainConfig:
    """Tables 5.1 and 5.2 of Jacobsen 2019.

    The thesis plays 50 games to the end between two trainings of 10 updates; here games never wait, and the
    reuse is set so that as many positions are learned from for each one played.

    Args:
      size: of the board.
      window: games that are learned from.
      blocks: of the tower.
      precision: "single", "mixed" (plays in half precision, learns in single) or "half".
      category: "none" (the network evaluates finished games), "u" (their true results), "q" (and values are taught
        by the search) or "fpa" (and blocks are pre-activated).
      updates: steps of the optimiser in all.
    """
    mean_length = 0.4 * size * size  # the thesis's estimate
    plies = 16
    played = 50 * mean_length / 10  # positions between two updates
    lanes = 48
    return TrainConfig(
        game=Hex(size=size),
        network=replace(
            network(blocks, block="preactivation" if category == "fpa" else "original"),
            compute_dtype="float16" if precision == "half" else "float32",
        ),
        search=SearchConfig(
            kind="puct",
            simulations=200,
            c=1.27,
            formula="sqrt_ratio",
            dirichlet_alpha=dirichlet_alpha(size),
            dirichlet_fraction=0.25,
            evaluate_terminals_with_network=category == "none",
        ),
        selfplay=SelfplayConfig(
            lanes=lanes,
            plies=plies,
            temperature_drop=opening_moves(size),
            flattened_opening=True,
            value_target="root" if category in ("q", "fpa") else "outcome",
        ),
        replay=ReplayConfig(
            capacity=8 * -(-window * size * size // 8),
            window_games=window,
            by_game=True,
            batch_size=512,
            reuse=512 / played,
            warm_up=512,
        ),
        optimiser=OptimiserConfig(
            name="sgd", learning_rate=0.05, momentum=0.9, weight_decay=1e-4, clip_norm=None, symmetries=False
        ),
        selfplay_dtype="float32" if precision == "single" else "float16",
        iterations=round(updates * played / (lanes * plies)),
    )


_7X7 = {
    "A1": (500, 19, "half", "none"),
    "A2": (1000, 13, "mixed", "none"),
    "B1": (500, 19, "half", "u"),
    "B2": (1000, 13, "mixed", "u"),
    "C1": (500, 19, "half", "q"),
    "C2": (1000, 13, "mixed", "q"),
    "D1": (500, 19, "half", "fpa"),
    "D2": (1000, 13, "mixed", "fpa"),
    "D3": (1000, 19, "mixed", "fpa"),
}
_9X9 = {
    "E1": ("mixed", "none"),
    "F1": ("mixed", "u"),
    "G1": ("mixed", "q"),
    "H1": ("mixed", "fpa"),
    "H2": ("single", "fpa"),
}

PRESETS = {
    f"jacobsen2019/{name}": functools.partial(config, 7, *settings) for name, settings in _7X7.items()
} | {
    f"jacobsen2019/{name}": functools.partial(config, 9, 1000, 19, *settings)
    for name, settings in _9X9.items()
}
