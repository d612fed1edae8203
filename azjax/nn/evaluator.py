"""Where a network meets a game: positions in, logits of legal moves in the board's frame and values out."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.legality import mask_logits
from azjax.common.remembered import remembered
from azjax.envs import indexing
from azjax.envs.core import Game, GameState
from azjax.nn.networks import Network
from azjax.search.tree import Evaluator


@remembered
def make_evaluator(game: Game, network: Network, *, symmetry_averaged: bool = False) -> Evaluator:
    """The one place where a network meets a game.

    Logits come back in the board's frame masked by `mask_logits`, values seen by the player
    to move; both are the network's opinion in terminal positions too, where every action is illegal.

    Args:
      symmetry_averaged: ask for every symmetric view of a position and average the values and the logits.
        The mean of logits is, normalised, the geometric mean of the policies: a move that one view rules out
        stays ruled out, and illegal actions have no say.
    """
    observation_tables, action_tables = game.symmetries
    back_tables = np.argsort(action_tables, axis=1)

    def averaged(params, observation):
        batch, views = len(observation), len(observation_tables)
        flat = observation.reshape(batch, -1)[:, observation_tables]  # [batch, views, observation_size]
        logits, value = network.apply(params, flat.reshape(batch * views, *observation.shape[1:]))
        logits = jnp.take_along_axis(logits.reshape(batch, views, -1), back_tables[None], axis=-1)
        return jnp.mean(logits, 1), jnp.mean(value.reshape(batch, views), 1)

    def evaluate(params, key, x):
        del key  # for evaluators that draw; a network always says the same
        observation = _observed(game, x)
        with jax.named_scope("network"):
            logits, value = (averaged if symmetry_averaged else network.apply)(params, observation)
        legal = jax.vmap(game.legal_action_mask)(x)
        chex.assert_shape(
            logits,
            legal.shape,
            custom_message="the network must return logits [batch, actions]; is it this game's?",
        )
        chex.assert_shape(
            value, legal.shape[:1], custom_message="the network must return one value per position"
        )
        return mask_logits(_on_the_board(game, logits, x), legal), value

    return evaluate


@remembered
def make_action_evaluator(game: Game, network: Network) -> Evaluator:
    """The same with, instead of one value, those of all actions [batch, actions], of illegal ones without meaning.

    Raises:
      ValueError: the network does not answer them.
    """
    observation = jax.ShapeDtypeStruct((1, *game.observation_shape), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0))
    answers = network.outputs and jax.eval_shape(network.outputs, params, observation)
    if answers is None or answers.action_values is None:
        raise ValueError("this network does not answer values of actions; give it network.action_values=True")

    def evaluate(params, key, x):
        del key
        observation = _observed(game, x)
        with jax.named_scope("network"):
            answers = network.outputs(params, observation)
        legal = jax.vmap(game.legal_action_mask)(x)
        chex.assert_equal_shape(
            (answers.logits, answers.action_values, legal),
            custom_message="the network must return logits and action values [batch, actions]; is it this game's?",
        )
        logits, values = (_on_the_board(game, one, x) for one in (answers.logits, answers.action_values))
        return mask_logits(logits, legal), values

    return evaluate


def _observed(game: Game, x: GameState) -> jax.Array:
    """[batch, ...] what the players to move see."""
    # Else XLA:CPU computes the observation anew for each tap of the first convolution.
    return jax.lax.optimization_barrier(jax.vmap(game.observe)(x))


def _on_the_board(game: Game, numbers: jax.Array, x: GameState) -> jax.Array:
    """[batch, actions] numbers of actions in the board's frame, of those in the frame of the player to move."""
    frames = np.asarray(game.action_frames)
    return jax.vmap(lambda one, player: indexing.permuted(one, frames, player))(numbers, x.current_player)
