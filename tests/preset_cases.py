"""Every preset with all of its structure, but as small as it gets; also a script, for a process of its own.

python -m tests.preset_cases FOLDER hex3 hex5     # trains these on one device, and on all there are
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable

import jax
import numpy as np

from azjax import theses
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.training import alphazero
from azjax.training.config import TrainConfig

ITERATIONS = 2


def shrunk(config: TrainConfig) -> TrainConfig:
    """The same kinds of game, network, search, opening, target, optimiser and replay, with small numbers.

    In an iteration every lane finishes a game, so that the first already learns.
    """
    replace, groups = dataclasses.replace, config.replay.groups
    game = config.game
    if isinstance(game, Hex):
        game = replace(game, size=3)
    elif isinstance(game, DotsAndBoxes):
        game = replace(game, rows=1, columns=2)
    elif isinstance(game, ChineseCheckers):
        game = replace(game, size=3, pieces=1, max_plies=8)
    widths = ("channels", "policy_channels", "policy_hidden", "value_channels", "value_hidden")
    small = {name: min(4, getattr(config.network, name)) for name in widths}
    window, alpha = config.replay.window_games, config.search.dirichlet_alpha
    drop, openings = config.selfplay.temperature_drop, config.selfplay.openings
    return replace(
        config,
        game=game,
        boards=("2", "3@2") if config.boards else (),
        network=replace(config.network, blocks=1, **small),
        search=replace(
            config.search,
            simulations=2,
            quick_simulations=min(1, config.search.quick_simulations),
            dirichlet_alpha=None if alpha is None else 0.3,
        ),
        selfplay=replace(
            config.selfplay,
            lanes=2 * groups,
            plies=config.selfplay.plies and game.max_plies,  # None: to the end of the game
            openings="R4" if openings.startswith("R") else openings,
            temperature_drop=3 if drop < config.game.max_plies else drop,  # later, or never
        ),
        replay=replace(
            config.replay,
            capacity=groups * game.max_plies,
            window_games=None if window is None else groups,
            batch_size=2 * groups,
            reuse=1.0,
            updates=config.replay.updates and 2,
            warm_up=1,
        ),
        iterations=ITERATIONS,
        save_every=ITERATIONS,
    )


def programs(names: Iterable[str]) -> dict[TrainConfig, list[str]]:
    """The names of presets by what they shrink to: some differ in sizes alone."""
    found = {}
    for name in names:
        found.setdefault(shrunk(theses.preset(name)), []).append(name)
    return found


def main(folder: pathlib.Path, names: list[str]) -> None:
    """Trains presets, and prints a JSON line for each training.

    The judges, which are the same for all and tested elsewhere, have the time off.
    """
    for number, (config, alike) in enumerate(programs(names).items()):
        for devices in (1, None):  # None is what a user gets who asks for nothing
            said = []
            finished = alphazero.train(
                config, folder / f"{number}-{devices}", devices=devices, say=said.append
            )
            rows = finished.read_metrics()
            weights = finished.load_agent(finished.snapshots[-1])
            answer = {
                "presets": alike,
                "devices": devices or jax.device_count(),
                "groups": config.replay.groups,
                "iterations": [row["iteration"] for row in rows],
                "updates": rows[-1]["updates"],
                "losses": [row["loss"]["total"] for row in rows],
                "finite": all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(weights)),
                "said": " ".join(said),
            }
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
