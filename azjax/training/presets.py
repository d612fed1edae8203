"""Named configurations: the quick ones, for two CPU cores, and whatever else is registered.

`azjax.theses` registers the settings of the theses, and finds all names.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from azjax.common.preset_list import DESCRIPTIONS
from azjax.envs import ChineseCheckers, DotsAndBoxes, Game, Hex, available_games, make_game
from azjax.nn.networks import NetworkConfig
from azjax.training.config import (
    ConfigError,
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)


class Preset(NamedTuple):
    """A configuration that has a name."""

    about: str  # one line
    make: Callable[[], TrainConfig]  # called when it is asked for: the games of pgx take a while to import
    on_game: Callable[[Game], TrainConfig] | None = None  # the same on another board, if it depends on that


_PRESETS: dict[str, Preset] = {}


def register_preset(
    name: str,
    about: str,
    make: Callable[[], TrainConfig],
    *,
    on_game: Callable[[Game], TrainConfig] | None = None,
) -> None:
    """Gives a configuration a name; raises ConfigError if another has it.

    Args:
      name: what `azjax train NAME` and `preset` find it by.
      about: one line about it.
      make: returns the configuration.
      on_game: returns what it is on another board, where more depends on that than the game.
    """
    if name in _PRESETS:
        raise ConfigError(f"there is a preset {name!r} already; choose another name")
    _PRESETS[name] = Preset(about, make, on_game)


def preset_names() -> tuple[str, ...]:
    """All names."""
    return tuple(_PRESETS)


def describe(name: str) -> str:
    """One line about a preset, or about what `preset` makes of a game's name."""
    return _find(name).about


def preset(name: str, game: Game | None = None) -> TrainConfig:
    """The configuration of that name, or plain settings for the default board of the game of that name.

    Args:
      name: see `preset_names`.
      game: another board of the preset's game; what depends on the board, such as noise, follows it.

    Raises:
      ConfigError: there is neither such a preset nor such a game; the message lists the names there are.
    """
    found = _find(name)
    made = found.make()
    if game is None or game == made.game:
        return made
    if game.name != made.game.name:
        raise ConfigError(f"the preset {name!r} is for {made.game.name}, not for {game.name}")
    return dataclasses.replace(made if found.on_game is None else found.on_game(game), game=game)


def _find(name: str) -> Preset:
    if name in _PRESETS:
        return _PRESETS[name]
    if name.replace("-", "_") not in available_games():
        raise ConfigError(
            f"unknown preset {name!r}; there are {', '.join(_PRESETS)}, and for plain settings the games"
            f" {', '.join(available_games())}"
        )
    return Preset("the game's default board, with settings for any game", lambda: _of_game(make_game(name)))


def _of_game(game: Game) -> TrainConfig:
    """For games without a preset: what learns on most of them."""
    if len(game.observation_shape) != 3:  # no picture
        network = NetworkConfig(tower="mlp", blocks=2, channels=128, heads="dense", global_pooling=False)
    else:
        heads = "convolutional" if hasattr(game, "action_cells") else "dense"
        network = NetworkConfig(blocks=4, channels=32, heads=heads)
    return _quick(game, network=network, selfplay=SelfplayConfig(lanes=128, plies=8))


def _quick(game, **changes) -> TrainConfig:
    """What learns well on two cores; each game changes what it must."""
    config = TrainConfig(
        game=game,
        network=NetworkConfig(blocks=4, channels=32),
        search=SearchConfig(kind="gumbel", simulations=16),
        selfplay=SelfplayConfig(lanes=128, plies=8, openings="A1", opening_share=0.5),
        replay=ReplayConfig(capacity=65536, batch_size=256, reuse=4.0, warm_up=4096),
        optimiser=OptimiserConfig(name="adamw", learning_rate=2e-3, weight_decay=1e-4, ema=0.99),
        iterations=250,
    )
    return dataclasses.replace(config, **changes)


def _varied(openings: str, share: float = 1.0) -> dict:
    """Openings that visit more of the game than strong play does, and a longer search to make sense of them."""
    return {
        "selfplay": SelfplayConfig(lanes=128, plies=8, openings=openings, opening_share=share),
        "search": SearchConfig(kind="gumbel", simulations=32),
    }


def _decaying(config: TrainConfig) -> TrainConfig:
    """The same with a learning rate that falls to nothing by the end of the run."""
    steps = config.iterations * config.updates
    optimiser = dataclasses.replace(config.optimiser, decay="cosine", decay_steps=steps)
    evaluation = dataclasses.replace(config.evaluation, every=max(50, config.iterations // 20))
    return dataclasses.replace(config, optimiser=optimiser, evaluation=evaluation)


def searchless(config: TrainConfig, **changes) -> TrainConfig:
    """The same run without search, by KLENT with the weights and the horizon of its paper.

    Nearly on-policy: the replay holds the positions of about one iteration, each of which is learned from once.
    """
    played = 512 * config.selfplay.plies
    searchless = dataclasses.replace(
        config,
        network=dataclasses.replace(config.network, action_values=True),
        search=SearchConfig(kind="klent", entropy_weight=0.03, kl_weight=0.1),
        selfplay=dataclasses.replace(
            config.selfplay, lanes=512, value_target="td_lambda", value_share=math.exp(-1 / 8)
        ),
        replay=ReplayConfig(capacity=played, batch_size=256, reuse=1.0, distinct=True, warm_up=played // 2),
    )
    return _decaying(dataclasses.replace(searchless, **changes))


def _tiny(game, iterations: int, **changes) -> TrainConfig:
    """For boards on which a small dense network is enough."""
    return _decaying(
        _quick(
            game,
            network=NetworkConfig(tower="mlp", blocks=2, channels=128, heads="dense", global_pooling=False),
            iterations=iterations,
            **(
                {"selfplay": SelfplayConfig(lanes=128, plies=8, openings="R6"), "replay": _small_replay()}
                | changes
            ),
        )
    )


def _small_replay(capacity: int = 16384, reuse: float = 4.0) -> ReplayConfig:
    """A replay for runs that play a few hundred thousand positions."""
    return ReplayConfig(capacity=capacity, batch_size=256, reuse=reuse, warm_up=1024)


def _large(game, openings: str, **network) -> TrainConfig:
    """What fills an accelerator: half precision, and lanes and channels that are multiples of 128.

    Nobody has trained with these yet: see docs/accelerators.md for what has been computed about them.
    """
    return TrainConfig(
        game=game,
        network=NetworkConfig(blocks=6, channels=128, compute_dtype="bfloat16", **network),
        selfplay_dtype="bfloat16",
        search=SearchConfig(kind="gumbel", simulations=64),
        selfplay=SelfplayConfig(lanes=1024, plies=16, openings=openings, opening_share=0.5),
        # As many groups as most machines have devices, so that a run may move from one to the other.
        replay=ReplayConfig(
            capacity=2**19, batch_size=1024, reuse=4.0, warm_up=2**15, groups=64, policy_dtype="bfloat16"
        ),
        optimiser=OptimiserConfig(name="adamw", learning_rate=2e-3, weight_decay=1e-4, ema=0.99),
        evaluation=EvaluationConfig(every=50),
        iterations=2000,
    )


def _grown_hex(game: Hex) -> TrainConfig:
    """Hex from 5x5 on: every 150 iterations the next size joins, and the last has 1,000 iterations.

    Chosen by judgement and not measured yet: the network carries from 6x6 to 9x9 as it is, so that what is missing are
    games; small boards cost little beside large ones, and go on so as not to be forgotten.
    """
    sizes = range(5, game.size + 1)
    begins = [1 + 150 * number for number in range(max(1, len(sizes)))]
    config = _decaying(
        _quick(
            game,
            boards=tuple(f"{size}@{begin}" for size, begin in zip(sizes, begins)),
            network=NetworkConfig(blocks=6, channels=32),
            **_varied("R8"),
            iterations=begins[-1] - 1 + 1000,
        )
    )
    # Each judgement is of up to five boards.
    return dataclasses.replace(config, evaluation=EvaluationConfig(every=200, pairs=16))


_ACCELERATOR: dict[str, Callable[[], TrainConfig]] = {
    "accelerator/hex9": lambda: _large(Hex(size=9), "R8"),
    "accelerator/hex11": lambda: _large(Hex(size=11), "R8"),
    "accelerator/chinese-checkers-5x5": lambda: _large(ChineseCheckers(size=5, pieces=6), "R8"),
    "accelerator/connect-four": lambda: _large(make_game("connect_four"), "R8", heads="dense"),
    "accelerator/go9": lambda: _large(make_game("go_9x9"), "R8", heads="dense"),
    "accelerator/dots-5x5": lambda: _large(DotsAndBoxes(5, 5), "R8"),
}

_QUICK: dict[str, Callable[[], TrainConfig]] = {
    "tic-tac-toe": lambda: _tiny(make_game("tic_tac_toe"), 120),
    "hex3": lambda: _tiny(Hex(size=3), 60),
    "hex5": lambda: _decaying(
        _quick(Hex(size=5), selfplay=SelfplayConfig(lanes=128, plies=8, openings="R8"), iterations=500)
    ),
    "hex5-klent": lambda: searchless(_QUICK["hex5"](), iterations=800),
    "hex6": lambda: _decaying(_quick(Hex(size=6), **_varied("R12"), iterations=2000)),
    "hex9-grown": lambda: _grown_hex(Hex(size=9)),
    "chinese-checkers-4x4": lambda: _decaying(
        _quick(
            ChineseCheckers(size=4, pieces=3),
            network=NetworkConfig(blocks=4, channels=48),
            **_varied("U", 0.8),
            iterations=2000,
        )
    ),
    # half the replay, or half the updates, leaves one mistake in some seeds
    "dots-2x2": lambda: _tiny(
        DotsAndBoxes(2, 2), 300, replay=_small_replay(capacity=32768, reuse=8.0), **_varied("U", 0.7)
    ),
    "dots-3x3": lambda: _decaying(
        _quick(
            DotsAndBoxes(3, 3),
            network=NetworkConfig(blocks=4, channels=48),
            **_varied("U", 0.5),
            iterations=1600,
        )
    ),
    "connect-four": lambda: _decaying(
        _quick(
            make_game("connect_four"),
            network=NetworkConfig(blocks=4, channels=32, heads="dense"),
            evaluation=EvaluationConfig(uct_simulations=1000),
            **_varied("R8"),
            iterations=300,
        )
    ),
}

for _name, _make in (_QUICK | _ACCELERATOR).items():
    _on_game = _grown_hex if _name == "hex9-grown" else None
    register_preset(_name, DESCRIPTIONS[_name], _make, on_game=_on_game)
