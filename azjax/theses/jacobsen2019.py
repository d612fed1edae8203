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


GAMES = 50  # played to their ends between two trainings
UPDATES = 10  # of each training
SAVE_EVERY = 5  # trainings: every 50 updates
# What the network computes in, what the copy that plays computes in, and the loss scale.
PRECISIONS = {
    "single": ("float32", "float32", None),
    "mixed": ("float32", "float16", None),
    "half": ("float16", "float16", 2.0**15),
}


def config(
    size: int, window: int, blocks: int, precision: str, category: str, updates: int = 1200
) -> TrainConfig:
    """Tables 5.1 and 5.2 of Jacobsen 2019: 50 games to their ends, 10 updates, and so on.

    Everything that depends on the board follows from its size: the noise, the sampled opening moves, and the room for
    the positions of `window` games.

    Args:
      size: of the board.
      window: games that are learned from.
      blocks: of the tower.
      precision: "single", "mixed" (plays in half precision, learns in single) or "half", which the thesis could not
        keep finite on 9x9: here with a loss scale and weights in float32, as Micikevicius et al. (2018) have it.
      category: "none" (the network evaluates finished games), "u" (their true results), "q" (and values are taught
        by the search) or "fpa" (and blocks are pre-activated).
      updates: steps of the optimiser in all, a multiple of 10; five games are played for each.
    """
    groups = 2  # what divides 50 games and 512 positions
    compute_dtype, selfplay_dtype, loss_scale = PRECISIONS[precision]
    return TrainConfig(
        game=Hex(size=size),
        network=replace(
            network(blocks, block="preactivation" if category == "fpa" else "original"),
            compute_dtype=compute_dtype,
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
            lanes=GAMES,
            plies=None,
            temperature_drop=opening_moves(size),
            flattened_opening=True,
            value_target="root" if category in ("q", "fpa") else "outcome",
        ),
        replay=ReplayConfig(
            capacity=groups * -(-window * size * size // groups),
            window_games=window,
            by_game=True,
            batch_size=512,
            updates=UPDATES,
            warm_up=1,
            groups=groups,
        ),
        optimiser=OptimiserConfig(
            name="sgd",
            learning_rate=0.05,
            momentum=0.9,
            weight_decay=1e-4,
            clip_norm=None,
            symmetries=False,
            loss_scale=loss_scale,
        ),
        selfplay_dtype=selfplay_dtype,
        iterations=updates // UPDATES,
        save_every=SAVE_EVERY,
    )


# Window, blocks, precision, category.
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
    "E1": (1000, 19, "mixed", "none"),
    "F1": (1000, 19, "mixed", "u"),
    "G1": (1000, 19, "mixed", "q"),
    "H1": (1000, 19, "mixed", "fpa"),
    "H2": (1000, 19, "single", "fpa"),
    "H2-2400": (1000, 19, "single", "fpa", 2400),
}

ON_BOARDS = {
    f"jacobsen2019/{name}": functools.partial(lambda settings, size: config(size, *settings), settings)
    for name, settings in (_7X7 | _9X9).items()
}  # name -> size -> configuration

PRESETS = {
    f"jacobsen2019/{name}": functools.partial(ON_BOARDS[f"jacobsen2019/{name}"], size)
    for size, names in ((7, _7X7), (9, _9X9))
    for name in names
}
