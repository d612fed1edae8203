"""How self-play explores: noise on the root's prior, and how moves are drawn from the visits."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from azjax.common.legality import mask_logits


def dirichlet_mix(
    key: jax.Array, prior: jax.Array, legal: jax.Array, alpha: float | None, fraction: float
) -> jax.Array:
    """(1 - fraction) * prior + fraction * Dirichlet(alpha), the noise drawn over the legal actions alone.

    Noise over all actions that is masked afterwards would lose almost all of its weight late in a game.

    Args:
      prior: [batch, actions] probabilities; entries of illegal actions come back as they are, scaled.
      legal: [batch, actions] bool.
      alpha: concentration; None for 1 / number of legal actions.
      fraction: 0 leaves the prior alone and draws nothing.
    """
    if fraction == 0.0:
        return prior
    count = jnp.maximum(jnp.sum(legal, -1, keepdims=True), 1)
    concentration = 1.0 / count if alpha is None else jnp.full(count.shape, alpha)
    # In logarithms: gamma variates of a small alpha underflow.
    log_gamma = draw(jax.random.loggamma, key, jnp.broadcast_to(concentration, prior.shape))
    noise = jax.nn.softmax(mask_logits(log_gamma, legal))
    return (1.0 - fraction) * prior + fraction * jnp.where(legal, noise, 0.0)


def draw(sampler: Callable, key: jax.Array, argument: jax.Array | tuple[int, ...]) -> jax.Array:
    """`sampler(key, argument)`; with [batch] keys each row has its own.

    Args:
      sampler: of `jax.random`.
      key: one, or [batch].
      argument: what the sampler wants next: a shape (batch, ...), or an array [batch, ...].
    """
    if key.ndim == 0:
        return sampler(key, argument)
    if isinstance(argument, tuple):
        return jax.vmap(lambda one: sampler(one, argument[1:]))(key)
    return jax.vmap(sampler)(key, argument)


def sample_visits(key: jax.Array, visits: jax.Array, temperature: jax.Array | float) -> jax.Array:
    """[batch] an action, drawn in proportion to visits^(1 / temperature); 0 takes the most visited.

    Args:
      visits: [batch, actions] int32.
      temperature: [] or [batch].
    """
    temperature = jnp.broadcast_to(jnp.asarray(temperature, jnp.float32), visits.shape[:1])[:, None]
    logits = jnp.where(visits > 0, jnp.log(jnp.maximum(visits, 1).astype(jnp.float32)), -jnp.inf)
    sampled = jax.random.categorical(key, logits / jnp.where(temperature > 0, temperature, 1.0))
    return jnp.where(temperature[:, 0] > 0, sampled, jnp.argmax(visits, -1)).astype(jnp.int32)


def drop_temperature(ply: jax.Array, temperature: float, drop: int) -> jax.Array:
    """The temperature in the first `drop` moves of a game, 0 from then on."""
    return jnp.where(ply < drop, temperature, 0.0)


def flattened_logits(visits: jax.Array, legal: jax.Array, multiplier: float = 1.5) -> jax.Array:
    """[batch, actions] logits multiplier * share of visits: of the opening moves of Jacobsen 2019.

    Flatter than any usual temperature: the likeliest move is at most e^multiplier times the least likely.

    Args:
      visits: [batch, actions] int32.
      legal: [batch, actions] bool.
      multiplier: 1.5 in the thesis.
    """
    share = visits / jnp.maximum(jnp.sum(visits, -1, keepdims=True), 1)
    return mask_logits(multiplier * share, legal)
