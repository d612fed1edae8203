"""Named configurations: quick ones for two CPU cores, and the settings of the theses, by author and year."""

import dataclasses

from azjax import thesis_networks
from azjax.config import (
    ConfigError,
    EvaluationConfig,
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, PgxGame
from azjax.exploration import jacobsen2019_dirichlet_alpha, jacobsen2019_opening_moves
from azjax.networks import NetworkConfig


def preset_names() -> tuple[str, ...]:
    """All names."""
    return tuple(_PRESETS)


def describe(name: str) -> str:
    """One line about a preset."""
    return _preset(name)[0]


def preset(name: str) -> TrainConfig:
    """The configuration of that name; raises ConfigError listing the names there are."""
    return _preset(name)[1]


def _preset(name: str) -> tuple[str, TrainConfig]:
    if name not in _PRESETS:
        raise ConfigError(f"unknown preset {name!r}; there are {', '.join(_PRESETS)}")
    return _PRESETS[name]


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


def _tiny(game, iterations: int) -> TrainConfig:
    """For boards on which a small dense network is enough."""
    return _decaying(
        _quick(
            game,
            network=NetworkConfig(tower="mlp", blocks=2, channels=128, heads="dense", global_pooling=False),
            selfplay=SelfplayConfig(lanes=128, plies=8, openings="R6"),
            replay=ReplayConfig(capacity=16384, batch_size=256, reuse=4.0, warm_up=1024),
            iterations=iterations,
        )
    )


def _daliri2022(size: int, openings: str, steps: int) -> TrainConfig:
    """Table 5.1 of Daliri 2022: one iteration is one of its training steps (65,536 new positions)."""
    lanes, plies = 512, 128
    return TrainConfig(
        game=Hex(size=size),
        network=thesis_networks.daliri2022(depth=size + 1),
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
        replay=ReplayConfig(capacity=2**17, batch_size=512, reuse=2.0, warm_up=2**16),
        optimiser=OptimiserConfig(
            name="adam", learning_rate=1e-3, weight_decay=1e-4, clip_norm=None, symmetries=False
        ),
        iterations=steps,
        save_every=1,
    )


def _jacobsen2019(size: int, window: int, blocks: int, precision: str, category: str, updates: int = 1200):
    """Tables 5.1 and 5.2 of Jacobsen 2019.

    The thesis plays 50 games to the end between two trainings of 10 updates; here games never wait, and the
    reuse is set so that as many positions are learned from for each one played.
    """
    mean_length = 0.4 * size * size  # the thesis's estimate
    plies = 16
    played = 50 * mean_length / 10  # positions between two updates
    lanes = 48
    return TrainConfig(
        game=Hex(size=size),
        network=dataclasses.replace(
            thesis_networks.jacobsen2019(blocks, block="preactivation" if category == "fpa" else "original"),
            compute_dtype="float16" if precision == "half" else "float32",
        ),
        search=SearchConfig(
            kind="puct",
            simulations=200,
            c=1.27,
            formula="sqrt_ratio",
            dirichlet_alpha=jacobsen2019_dirichlet_alpha(size),
            dirichlet_fraction=0.25,
            evaluate_terminals_with_network=category == "none",
        ),
        selfplay=SelfplayConfig(
            lanes=lanes,
            plies=plies,
            temperature_drop=jacobsen2019_opening_moves(size),
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


def _karki2024(size: int, pieces: int, games: int, buffer: int, batch: int) -> TrainConfig:
    """Table A.1 of Karki 2024."""
    return TrainConfig(
        game=ChineseCheckers(size=size, pieces=pieces),
        network=thesis_networks.karki2024(),
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


def _peters2018(rows: int, columns: int, iterations: int) -> TrainConfig:
    """Section 2.3 of Peters 2018: the network and search, learning from nothing."""
    return TrainConfig(
        game=DotsAndBoxes(rows=rows, columns=columns, reward="margin", observation="image"),
        network=thesis_networks.peters2018(),
        search=SearchConfig(
            kind="puct", simulations=1000, c=4.0, dirichlet_alpha=0.03, dirichlet_fraction=0.5
        ),
        selfplay=SelfplayConfig(
            lanes=32, plies=16, temperature=1.0, temperature_drop=1000, value_target="root"
        ),
        replay=ReplayConfig(capacity=16384, batch_size=16, reuse=5.0, warm_up=512),
        optimiser=OptimiserConfig(name="adam", learning_rate=1e-3, weight_decay=1e-4, clip_norm=None),
        iterations=iterations,
    )


_JACOBSEN_7X7 = {
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
_JACOBSEN_9X9 = {
    "E1": ("mixed", "none"),
    "F1": ("mixed", "u"),
    "G1": ("mixed", "q"),
    "H1": ("mixed", "fpa"),
    "H2": ("single", "fpa"),
}

_PRESETS: dict[str, tuple[str, TrainConfig]] = (
    {
        "tic-tac-toe": (
            "tic-tac-toe from pgx; perfect with 400 simulations in about a minute",
            _tiny(PgxGame("tic_tac_toe"), 120),
        ),
        "hex3": ("Hex 3x3; perfect in about a minute", _tiny(Hex(size=3), 60)),
        "hex5": (
            "Hex 5x5, the main example; 99 % of a solved suite in about 10 minutes",
            _decaying(
                _quick(
                    Hex(size=5), selfplay=SelfplayConfig(lanes=128, plies=8, openings="R8"), iterations=500
                )
            ),
        ),
        "hex6": (
            "Hex 6x6; nearly perfect with search in about 40 minutes",
            _decaying(_quick(Hex(size=6), **_varied("R12"), iterations=2000)),
        ),
        "chinese-checkers-4x4": (
            "Chinese Checkers 4x4 with 3 pieces, forward moves; nearly perfect in about 35 minutes",
            _decaying(
                _quick(
                    ChineseCheckers(size=4, pieces=3),
                    network=NetworkConfig(blocks=4, channels=48),
                    **_varied("U", 0.8),
                    iterations=2000,
                )
            ),
        ),
        "dots-2x2": (
            "Dots and Boxes 2x2; perfect with 400 simulations in about a minute",
            _tiny(DotsAndBoxes(2, 2), 300),
        ),
        "dots-3x3": (
            "Dots and Boxes 3x3; nearly perfect with search in about 35 minutes",
            _decaying(
                _quick(
                    DotsAndBoxes(3, 3),
                    network=NetworkConfig(blocks=4, channels=48),
                    **_varied("U", 0.5),
                    iterations=1600,
                )
            ),
        ),
        "connect-four": (
            "Connect Four from pgx; beats UCT with 1,000 simulations after about 9 minutes",
            _decaying(
                _quick(
                    PgxGame("connect_four"),
                    network=NetworkConfig(blocks=4, channels=32, heads="dense"),
                    evaluation=EvaluationConfig(uct_simulations=1000),
                    **_varied("R8"),
                    iterations=300,
                )
            ),
        ),
    }
    | {
        f"daliri2022/hex{size}-{openings}": (
            f"Daliri 2022, Hex {size}x{size}, {described}",
            _daliri2022(size, "none" if openings == "baseline" else openings, steps),
        )
        for size, steps in ((6, 100), (8, 200))
        for openings, described in (
            ("baseline", "no forced openings"),
            ("A1", "forced one-move openings"),
            ("A2", "forced two-move openings"),
            ("A3", "forced three-move openings"),
            ("A123", "forced openings of one to three moves"),
        )
    }
    | {
        f"jacobsen2019/{name}": (f"Jacobsen 2019, Hex 7x7, experiment {name}", _jacobsen2019(7, *settings))
        for name, settings in _JACOBSEN_7X7.items()
    }
    | {
        f"jacobsen2019/{name}": (
            f"Jacobsen 2019, Hex 9x9, experiment {name}",
            _jacobsen2019(9, 1000, 19, *settings),
        )
        for name, settings in _JACOBSEN_9X9.items()
    }
    | {
        "karki2024/4x4": ("Karki 2024, Chinese Checkers 4x4 with 3 pieces", _karki2024(4, 3, 6, 1000, 64)),
        "karki2024/5x5": ("Karki 2024, Chinese Checkers 5x5 with 6 pieces", _karki2024(5, 6, 28, 10000, 128)),
        "peters2018/new-strategies": (
            "Peters 2018, Dots and Boxes 3x3, from nothing",
            _peters2018(3, 3, 400),
        ),
        "peters2018/competition": ("Peters 2018, Dots and Boxes 4x5, from nothing", _peters2018(4, 5, 400)),
    }
)
