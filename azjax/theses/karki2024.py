"""Karki 2024: Chinese Checkers 4x4 and 5x5."""

import functools
from dataclasses import replace

from azjax.envs import ChineseCheckers
from azjax.nn.networks import NetworkConfig
from azjax.theses.alphago_zero import ALPHAGO_ZERO
from azjax.training.config import (
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)


def network(blocks: int = 18, channels: int = 256) -> NetworkConfig:
    """Karki's tower for Chinese Checkers; the value comes straight from the flattened tower."""
    return replace(ALPHAGO_ZERO, blocks=blocks, channels=channels, policy_channels=256, value_channels=0)


def config(size: int, pieces: int, games: int, buffer: int, batch: int) -> TrainConfig:
    """Table A.1 of Karki 2024."""
    return TrainConfig(
        game=ChineseCheckers(size=size, pieces=pieces),
        network=network(),
        search=SearchConfig(
            kind="puct", simulations=128, c=1.0, dirichlet_alpha=None, dirichlet_fraction=0.25
        ),
        selfplay=SelfplayConfig(lanes=games, plies=64, temperature=1.0, temperature_drop=10),
        replay=ReplayConfig(capacity=buffer, batch_size=batch, reuse=1.0, warm_up=batch, groups=1),
        optimiser=OptimiserConfig(
            name="adamw", learning_rate=1e-5, weight_decay=1e-4, clip_norm=None, symmetries=False
        ),
        iterations=1000,
    )


PRESETS = {
    "karki2024/4x4": functools.partial(config, 4, 3, 6, 1000, 64),
    "karki2024/5x5": functools.partial(config, 5, 6, 28, 10000, 128),
}
