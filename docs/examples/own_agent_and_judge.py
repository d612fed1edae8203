"""An agent that likes the centre, and a judge that asks how sure the network is of its first move.

To run it: `python docs/examples/own_agent_and_judge.py runs/own-judge`.
"""

import dataclasses
import sys

import jax
import jax.numpy as jnp

import azjax


def make_central(game, noise=0.0):
    """Plays the legal cell nearest to the centre, more or less."""
    row, column = jnp.divmod(jnp.arange(game.num_actions), game.size)
    far = jnp.hypot(row - (game.size - 1) / 2, column - (game.size - 1) / 2)  # [actions]

    def act(params, key, states):
        legal = jax.vmap(game.legal_action_mask)(states)  # [batch, actions]
        score = noise * jax.random.normal(key, legal.shape) - far
        return jnp.argmax(jnp.where(legal, score, -jnp.inf), axis=1)

    return azjax.Agent("central", act)


def make_entropy(context, argument):
    """Made once per run; then called with one checkpoint after the other."""
    game = context.config.game
    network = azjax.nn.make_network(context.config.network, game)
    start = game.observe(game.init(jax.random.key(0)))[None]

    @jax.jit
    def entropy(params):
        logits, _ = network.apply(params, start)
        return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits))

    return lambda point: {"entropy": float(entropy(point.params))}


azjax.register_agent(
    "central", make_central, about="plays near the centre", options={"noise": float}, games=["hex"]
)
azjax.register_judge(
    "entropy", azjax.JudgeKind("entropy of the first move's policy", make_entropy, settings=())
)

if __name__ == "__main__":
    folder = sys.argv[1]
    config = dataclasses.replace(azjax.preset("hex3"), iterations=4, save_every=2)
    azjax.train(config, folder, judge=None)  # judging would take longer than these few iterations
    print(azjax.match(f"az:{folder}?sims=16", "central?noise=0.5", config.game))
    print(azjax.evaluate(folder, "entropy", "match:central?noise=0.5??pairs=10")["entropy"])
