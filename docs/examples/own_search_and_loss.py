"""A run with a search, a loss, openings, value targets and a schedule of one's own.

To run it: `python docs/examples/own_search_and_loss.py runs/own-parts`.
"""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import optax

import azjax
from azjax.search import SearchOutput
from azjax.training import Losses


def look_one_ply_ahead(game, evaluate):
    """A search without a tree: the network's policy, sharpened by its values of all next positions."""
    actions = jnp.arange(game.num_actions)

    def value_after(params, key, states, action):
        after = jax.vmap(game.step, (0, None))(states, action)
        _, value = evaluate(params, key, after)  # [batch], of who moves then
        value = jnp.where(after.current_player == states.current_player, value, -value)
        rewards = jax.vmap(game.rewards)(after)  # [batch, 2], of terminal positions the truth
        reward = jnp.take_along_axis(rewards, states.current_player[:, None], axis=1)[:, 0]
        return jnp.where(jax.vmap(game.is_terminal)(after), reward, value)

    def search(params, key, states):
        logits, _ = evaluate(params, key, states)
        legal = jax.vmap(game.legal_action_mask)(states)
        all_values = jax.lax.map(lambda action: value_after(params, key, states, action), actions)
        qvalues = jnp.where(legal, all_values.T, 0.0)
        policy = jax.nn.softmax(jnp.where(legal, logits + 4 * qvalues, -1e9)) * legal
        return SearchOutput(
            action=jnp.argmax(policy, axis=1).astype(jnp.int32),
            policy=policy,
            value=jnp.sum(policy * qvalues, axis=1),
            visits=legal.astype(jnp.int32),
            qvalues=qvalues,
            proven=jnp.zeros(len(legal), bool),
            complete=jnp.ones(len(legal), bool),
        )

    return search


def huber_loss(game, network):
    """The usual loss of the policy, and Huber's of the value; positions are not turned."""
    frames = jnp.asarray(game.action_frames)

    def loss(params, keys, batch):
        outputs, statistics = network.train(params, jax.vmap(game.observe)(batch.state))
        # The network sees and answers from the mover's side; targets are on the board.
        logits = jnp.take_along_axis(outputs.logits, frames[batch.state.current_player], axis=1)
        legal = jax.vmap(game.legal_action_mask)(batch.state)
        policy = jnp.mean(optax.softmax_cross_entropy(jnp.where(legal, logits, -1e9), batch.policy))
        value = jnp.mean(optax.huber_loss(outputs.value, batch.value))
        none = jnp.float32(0)
        return Losses(
            policy + value, policy, value, ownership=none, margin=none, policy_entropy=none
        ), statistics

    return loss


def discounted(outcomes, root_values, players, length):
    """The outcome, and less of it the further away it is: [plies], of one game."""
    return outcomes * 0.98 ** jnp.maximum(length - 1 - jnp.arange(len(outcomes)), 0)


folder = sys.argv[1]
config = dataclasses.replace(azjax.preset("hex3"), iterations=2)
parts = {
    "search": look_one_ply_ahead,
    "loss": huber_loss,
    "openings": "A1",
    "value_targets": discounted,
    "schedule": optax.warmup_cosine_decay_schedule(0.0, 2e-3, 50, 500),
}
azjax.train(config, folder, **parts, judge=None)  # judging would take longer than two iterations
# A function cannot be saved: whoever goes on with the run hands them in again.
azjax.train(dataclasses.replace(config, iterations=4), folder, resume=True, **parts, judge=None)
print(azjax.match(f"az:{folder}?sims=16", "random", config.game))
