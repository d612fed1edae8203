"""Daliri 2022: Hex 6x6 and 8x8 with forced openings, on OpenSpiel's AlphaZero."""

import functools
from dataclasses import replace
from typing import Literal

import numpy as np

from azjax.envs import Hex
from azjax.nn.networks import NetworkConfig
from azjax.theses.alphago_zero import ALPHAGO_ZERO, KERAS
from azjax.training.config import (
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)


def network(
    depth: int = 7, width: int = 128, model: Literal["resnet", "conv2d", "mlp"] = "resnet"
) -> NetworkConfig:
    """OpenSpiel's three models, of which Daliri used "resnet", one block deeper than the board is wide."""
    sizes = {"blocks": depth, "channels": width, "value_hidden": width}
    if model == "mlp":
        return replace(ALPHAGO_ZERO, **sizes, tower="mlp", normalisation="none", policy_hidden=width)
    return replace(ALPHAGO_ZERO, **sizes, **KERAS, tower={"resnet": "resnet", "conv2d": "conv"}[model])


def dirichlet_alpha(branching: float) -> float:
    """Alpha for a branching factor, through AlphaZero's (35, 0.3), (92, 0.15), (250, 0.03).

    The equations printed in the thesis have their coefficients reversed and no intercept; this is the fit
    that gives its table (0.310 and 0.303 for the n^2 / 2 of Hex 6x6 and 8x8).
    """
    return _minimum_norm_fit(branching, ((35, 0.3), (92, 0.15), (250, 0.03)), degree=4)


def temperature_drop(mean_length: float) -> int:
    """The move of the drop for a mean random game length, through (150, 30), (36, 10), (9, 4).

    Gives the thesis's 8 and 17 for the 31 and 56 moves of Hex 6x6 and 8x8.
    """
    return round(_minimum_norm_fit(mean_length, ((150, 30), (36, 10), (9, 4)), degree=3))


def config(size: int, openings: str, steps: int) -> TrainConfig:
    """Table 5.1 of Daliri 2022: one iteration is one of its training steps (65,536 new positions, then learning).

    Two things are not as there. A game is stored when it is over, so that in the first step about a tenth fewer
    positions are there to learn from; and that step makes 256 updates as all others do, where the thesis makes 128.
    """
    lanes, plies = 512, 128
    return TrainConfig(
        game=Hex(size=size),
        network=network(depth=size + 1),
        search=SearchConfig(
            kind="puct",
            simulations=149,  # the thesis counts the root's evaluation as one of 150
            c=1.5,
            dirichlet_alpha={6: 0.310, 8: 0.303}[size],
            dirichlet_fraction=0.25,
        ),
        selfplay=SelfplayConfig(
            lanes=lanes,
            plies=plies,
            temperature=1.0,
            temperature_drop={6: 8, 8: 17}[size],
            openings=openings,
        ),
        replay=ReplayConfig(capacity=2**17, batch_size=512, reuse=2.0, warm_up=2**15),
        optimiser=OptimiserConfig(
            name="adam", learning_rate=1e-3, weight_decay=1e-4, clip_norm=None, symmetries=False
        ),
        iterations=steps,
        save_every=1,
    )


PRESETS = {
    f"daliri2022/hex{size}-{openings}": functools.partial(
        config, size, "none" if openings == "baseline" else openings, steps
    )
    for size, steps in ((6, 100), (8, 200))
    for openings in ("baseline", "A1", "A2", "A3", "A123")
}


def _minimum_norm_fit(x: float, points: tuple[tuple[float, float], ...], degree: int) -> float:
    # More coefficients than points: of all polynomials through them, the one with the smallest coefficients
    # on centred powers, as a usual regression pipeline finds it.
    xs, ys = np.array(points, float).T
    powers = np.arange(1, degree + 1)
    features = xs[:, None] ** powers
    centre = features.mean(0)
    weights = np.linalg.lstsq(features - centre, ys - ys.mean(), rcond=None)[0]
    return float(ys.mean() + (float(x) ** powers - centre) @ weights)
