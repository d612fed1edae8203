"""Positions drawn at random: from random play, or from all that a game has."""

import jax
import numpy as np

from azjax.common.keys import stream
from azjax.envs.core import Game, GameState
from azjax.positions import sets as position_sets


def random_play_positions(game: Game, key: jax.Array, number: int, first_ply: int = 0) -> GameState:
    """Distinct positions of random play that are not over, at most so many, in random order.

    Args:
      game: the rules.
      key: for what is drawn.
      number: how many at most.
      first_ply: only positions after so many plies, as on boards where only late ones are solved quickly.
    """
    games = max(1, 2 * number // max(1, game.max_plies // 2))
    states, going = position_sets.random_games(game, stream(key, "games"), games)
    going &= np.arange(going.shape[1]) >= first_ply
    flat = jax.tree.map(lambda leaf: leaf[going], states)
    flat = position_sets.rows(flat, position_sets.first_of_each(flat))
    order_key = stream(key, "order")
    order = np.random.default_rng(int(jax.random.bits(order_key))).permutation(position_sets.size_of(flat))
    return position_sets.rows(flat, order[:number])


def random_positions(game: Game, key: jax.Array, number: int) -> GameState:
    """Positions drawn uniformly from the whole space, without finished and illegal ones: at most `number`.

    Games with a hook `random_states` draw them; of other games they are positions of random play.
    """
    if not hasattr(game, "random_states"):
        return random_play_positions(game, key, number)
    states = game.random_states(key, number)
    return position_sets.rows(states, ~position_sets.is_over(game, states))
