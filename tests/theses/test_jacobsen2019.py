"""The presets of Jacobsen 2019 against the tables of the thesis, typed by hand, and the loop that they ask for."""

import dataclasses

import jax
import numpy as np
import pytest

from azjax import theses
from azjax.cli.options import of_preset
from azjax.cli.train import TrainCommand
from azjax.common.checked import ConfigError
from azjax.envs import Hex
from azjax.nn import NetworkConfig
from azjax.training import make_trainer
from azjax.training.config import OptimiserConfig

# Tables 5.1 and 5.2: board, window, blocks, precision, utility in evaluate, value target, pre-activated; updates.
TABLES = """
A1 7 500 19 half no utility no 1200
A2 7 1000 13 mixed no utility no 1200
B1 7 500 19 half yes utility no 1200
B2 7 1000 13 mixed yes utility no 1200
C1 7 500 19 half yes mean no 1200
C2 7 1000 13 mixed yes mean no 1200
D1 7 500 19 half yes mean yes 1200
D2 7 1000 13 mixed yes mean yes 1200
D3 7 1000 19 mixed yes mean yes 1200
E1 9 1000 19 mixed no utility no 1200
F1 9 1000 19 mixed yes utility no 1200
G1 9 1000 19 mixed yes mean no 1200
H1 9 1000 19 mixed yes mean yes 1200
H2 9 1000 19 single yes mean yes 1200
H2-2400 9 1000 19 single yes mean yes 2400
"""
ROWS = [line.split() for line in TABLES.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_presets_have_every_number_of_the_tables(row):
    name, size, window, blocks, precision, utility, target, preactivated, updates = row
    config = theses.preset(f"jacobsen2019/{name}")
    assert config.game == Hex(size=int(size))
    assert config.replay.window_games == int(window) and config.replay.by_game
    assert (config.network.blocks, config.network.channels) == (int(blocks), 256)
    assert config.network.block == ("preactivation" if preactivated == "yes" else "original")
    assert config.search.evaluate_terminals_with_network == (utility == "no")
    assert config.selfplay.value_target == {"utility": "outcome", "mean": "root"}[target]
    played, learned = {
        "half": ("float16", "float16"),
        "mixed": ("float16", "float32"),
        "single": ("float32",) * 2,
    }[precision]
    assert (config.selfplay_dtype, config.network.compute_dtype) == (played, learned)
    assert (config.optimiser.loss_scale is not None) == (precision == "half")
    # Section 2.1 of the note on it: what all experiments share.
    assert (config.search.kind, config.search.simulations, config.search.c) == ("puct", 200, 1.27)
    assert config.search.formula == "sqrt_ratio" and config.search.dirichlet_fraction == 0.25
    assert config.search.dirichlet_alpha == pytest.approx({"7": 0.2915452, "9": 0.1763668}[size])
    assert config.selfplay.flattened_opening and config.selfplay.temperature_drop == {"7": 5, "9": 9}[size]
    optimiser = config.optimiser
    assert (optimiser.name, optimiser.learning_rate, optimiser.decay) == ("sgd", 0.05, "constant")
    assert (optimiser.momentum, optimiser.weight_decay, optimiser.symmetries) == (0.9, 1e-4, False)
    assert config.replay.batch_size == 512 and config.replay.capacity >= int(window) * int(size) ** 2
    # The budget: 1,200 updates, 6,000 games, a save every 50 updates.
    assert config.iterations * config.updates == int(updates)
    assert config.iterations * config.selfplay.lanes == 5 * int(updates)
    assert config.selfplay.plies is None
    assert config.save_every * config.updates == 50 and config.save_every * config.selfplay.lanes == 250


@pytest.mark.parametrize("size, alpha, moves", [(5, 10 / 17.5, 3), (11, 10 / 84.7, 13)])
def test_another_board_changes_noise_opening_and_room_with_it(size, alpha, moves):
    config = theses.preset("jacobsen2019/D2", Hex(size=size))
    assert config.game.size == size
    assert config.search.dirichlet_alpha == pytest.approx(alpha)
    assert config.selfplay.temperature_drop == moves
    assert config.replay.capacity == 1000 * size * size
    with pytest.raises(ConfigError, match="is for hex, not for"):
        theses.preset("jacobsen2019/D2", theses.preset("dots-2x2").game)


def test_the_board_of_the_command_line_does_too():
    options = ["jacobsen2019/D2", "--game.size", "5", "--search.simulations", "7"]
    _, command = of_preset(TrainCommand, options, "azjax train")
    wanted = theses.preset("jacobsen2019/D2", Hex(size=5))
    assert command.config == dataclasses.replace(
        wanted, search=dataclasses.replace(wanted.search, simulations=7)
    )


def tiny(precision: str = "single"):
    """The thesis's loop on 3x3, with fewer of everything else."""
    config = theses.jacobsen2019.config(3, 40, 1, precision, "fpa", updates=30)
    return dataclasses.replace(
        config,
        network=NetworkConfig(
            blocks=1, channels=4, block="preactivation", compute_dtype=config.network.compute_dtype
        ),
        search=dataclasses.replace(config.search, simulations=4),
        replay=dataclasses.replace(config.replay, batch_size=32),
    )


@pytest.fixture(scope="module")
def three_iterations():
    config = tiny("half")
    trainer = make_trainer(config)
    state = jax.jit(trainer.init)(jax.random.key(0))
    iterate, rows = jax.jit(trainer.iteration), []
    for _ in range(config.iterations):
        state, metrics = iterate(state)
        rows.append(jax.device_get(metrics))
    return config, jax.device_get(state), rows


def test_every_iteration_plays_fifty_games_to_their_ends_and_learns_ten_times(three_iterations):
    _, state, rows = three_iterations
    assert [int(row.counts.games) for row in rows] == [50, 50, 50]
    assert int(state.games) == 150 and int(state.updates) == 30
    # Nothing is unfinished, so every position that was searched belongs to a game that ended, and is counted there.
    assert [int(row.counts.positions) for row in rows] == [int(row.counts.game_plies) for row in rows]
    assert int(state.positions) == sum(int(row.counts.game_plies) for row in rows)
    assert (state.lanes.ply == 0).all() and (state.lanes.length == 0).all()


def test_what_is_stored_are_whole_games(three_iterations):
    config, state, _ = three_iterations
    ring = state.ring
    assert ring.games.sum() == 150 and ring.written.sum() == int(state.positions)
    for group in range(config.replay.groups):
        rows = min(int(ring.written[group]), ring.capacity)
        stones = np.count_nonzero(ring.rows.state.board[group, :rows], axis=-1)
        if int(ring.written[group]) > ring.capacity:  # the oldest first; of the first game the rest is left
            stones = np.roll(stones, -(int(ring.written[group]) % ring.capacity))
        begins = np.flatnonzero(stones == 0)
        # A game's positions stand in order: 0, 1, 2, ... stones; the shortest game of Hex 3x3 has 5 moves.
        lengths = np.diff(np.append(begins, rows))
        assert all((stones[b : b + n] == np.arange(n)).all() for b, n in zip(begins, lengths))
        assert lengths.min() >= 5 and lengths.max() <= 9


def test_half_precision_learns_finitely_with_its_loss_scale(three_iterations):
    _, state, rows = three_iterations
    assert all(np.isfinite(row.losses.total) for row in rows)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
    assert state.opt_state.loss_scale >= 1 and int(rows[-1].skipped_updates) < 5


def test_games_to_their_ends_need_a_number_of_updates():
    config = tiny()
    with pytest.raises(ConfigError, match=r"replay.updates.*given where selfplay.plies is None"):
        dataclasses.replace(config, replay=dataclasses.replace(config.replay, updates=None))


def test_the_rate_falls_at_chosen_boundaries():
    rate = OptimiserConfig(
        learning_rate=0.4, decay="boundaries", boundaries=(3, 5), step_factor=0.5
    ).schedule()
    found = [float(rate(step)) for step in range(7)]
    assert found == pytest.approx([0.4, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1])  # three steps at 0.4, two at 0.2
    with pytest.raises(ConfigError, match="rising numbers"):
        OptimiserConfig(decay="boundaries", boundaries=(5, 3))
    with pytest.raises(ConfigError, match="rising numbers"):
        OptimiserConfig(boundaries=(5,))
