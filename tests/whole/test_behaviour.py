"""From nothing to perfect play on games small enough to know every position."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import theses
from azjax.envs import DotsAndBoxes
from azjax.evaluation.parts import player_of
from azjax.training import alphazero, checkpoint
from tests.reference import exhaustive

pytestmark = pytest.mark.usefixtures("optimised")

CHUNK = 1024


def chosen_actions(act, params, states):
    """The agent's moves in all positions, in equal chunks."""
    count = len(states.current_player)
    moves = []
    for start in range(0, count, CHUNK):
        index = np.minimum(np.arange(start, start + CHUNK), count - 1)
        chunk = jax.tree.map(jnp.asarray, exhaustive.at(states, index))
        moves.append(np.asarray(act(params, jax.random.key(start), chunk)))
    return np.concatenate(moves)[:count]


def check_perfection(config, simulations, folder):
    """Trains, and fails if the agent gives away anything in any position of the game."""
    alphazero.train(config, folder, say=lambda line: None)
    _, params = checkpoint.load_agent(folder)
    roots = jax.vmap(config.game.init)(jax.random.key(0)[None])
    solved = exhaustive.solve(config.game, roots)
    open_positions = np.flatnonzero(~solved.over)
    act = jax.jit(player_of(config, simulations))
    moves = chosen_actions(act, params, exhaustive.at(solved.states, open_positions))
    reached = solved.action_values[open_positions, moves]
    mistakes = open_positions[reached < solved.values[open_positions]]
    worst = exhaustive.at(solved.states, mistakes[0]) if len(mistakes) else None
    assert len(mistakes) == 0, (
        f"{len(mistakes)} mistakes in {len(open_positions)} positions, such as\n{config.game.to_text(worst)}"
    )


@pytest.mark.slow
def test_half_a_minute_of_training_plays_hex_3x3_perfectly_in_every_position(tmp_path):
    check_perfection(theses.preset("hex3"), 128, tmp_path / "run")


@pytest.mark.usefixtures("quickly_compiled")
def test_seconds_of_training_play_two_boxes_perfectly_in_every_position(tmp_path):
    """Where games are drawn too, and whoever takes a box moves again."""
    preset = theses.preset("dots-2x2")
    config = dataclasses.replace(
        preset,
        game=DotsAndBoxes(1, 2),
        network=dataclasses.replace(preset.network, channels=64),
        search=dataclasses.replace(preset.search, simulations=16),
        selfplay=dataclasses.replace(preset.selfplay, lanes=64),
        optimiser=dataclasses.replace(preset.optimiser, decay_steps=16 * 40),
        iterations=40,
    )
    assert config.updates == 16
    check_perfection(config, 64, tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize("name", ["dots-2x2", "tic-tac-toe"])
def test_a_minute_of_training_plays_perfectly_in_every_position(name, tmp_path):
    check_perfection(theses.preset(name), 400, tmp_path / "run")
