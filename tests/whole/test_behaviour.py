"""From nothing to perfect play on games small enough to know every position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import theses
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


@pytest.mark.slow
@pytest.mark.parametrize("name, simulations", [("hex3", 128), ("dots-2x2", 400), ("tic-tac-toe", 400)])
def test_a_minute_of_training_plays_perfectly_in_every_position(name, simulations, tmp_path):
    config = theses.preset(name)
    alphazero.train(config, tmp_path / name, say=lambda line: None)
    _, params = checkpoint.load_agent(tmp_path / name)
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
