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


def config(
    size: int, pieces: int, games: int, buffer: int, new: float, batch: int, iterations: int, groups: int
) -> TrainConfig:
    """Table A.1 of Karki 2024, and what its text and code add.

    An iteration is one training, when `new` of the buffer's size has been played since the last one (the table's "s in
    %"); it goes through the whole buffer once, and a last batch that is not full is left out. The 128 samples of a
    search include the evaluation of the root. The chance that a new position replaces an old one in a full buffer is
    not printed; a demonstration in the author's code keeps 5 %. In 4x4 there are 6 games at a time, in 5x5 28 as the
    text has it: the table's 29 cannot be divided among devices.

    Args:
      size: of the board.
      pieces: per player.
      games: at a time.
      buffer: its positions.
      new: the share of the buffer that is new in each training.
      batch: positions in a step of the optimiser.
      iterations: as many as the thesis made.
      groups: among how many devices games and buffer can be divided.
    """
    plies = round(new * buffer / games)
    steps = buffer // batch
    return TrainConfig(
        game=ChineseCheckers(size=size, pieces=pieces),
        network=network(),
        search=SearchConfig(
            kind="puct", simulations=127, c=1.0, dirichlet_alpha=None, dirichlet_fraction=0.25
        ),
        selfplay=SelfplayConfig(lanes=games, plies=plies, temperature=1.0, temperature_drop=10, log=True),
        replay=ReplayConfig(
            capacity=buffer,
            batch_size=batch,
            reuse=steps * batch / (plies * games),
            warm_up=batch,
            overwrite=0.95,
            distinct=True,
            groups=groups,
        ),
        optimiser=OptimiserConfig(
            name="adamw",
            learning_rate=1e-5,
            momentum=0.9,
            weight_decay=1e-4,
            clip_norm=None,
            symmetries=False,
        ),
        iterations=iterations,
        save_every=5,
    )


PRESETS = {
    "karki2024/4x4": functools.partial(config, 4, 3, 6, 1000, 1.0, 64, 50, 2),
    "karki2024/5x5": functools.partial(config, 5, 6, 28, 10_000, 0.5, 128, 301, 4),
}
