"""How self-play explores: noise on the root's prior, temperatures, and the theses' rules for both."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


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
    noise = jax.nn.softmax(jnp.where(legal, log_gamma, jnp.finfo(jnp.float32).min))
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


def sample_flattened_visits(
    key: jax.Array, visits: jax.Array, legal: jax.Array, multiplier: float = 1.5
) -> jax.Array:
    """[batch] an action from softmax(multiplier * share of visits): the opening moves of Jacobsen 2019.

    Flatter than any usual temperature: the likeliest move is at most e^multiplier times the least likely.

    Args:
      visits: [batch, actions] int32.
      legal: [batch, actions] bool.
      multiplier: 1.5 in the thesis.
    """
    return jax.random.categorical(key, flattened_logits(visits, legal, multiplier)).astype(jnp.int32)


def flattened_logits(visits: jax.Array, legal: jax.Array, multiplier: float = 1.5) -> jax.Array:
    """[batch, actions] the logits of `sample_flattened_visits`."""
    share = visits / jnp.maximum(jnp.sum(visits, -1, keepdims=True), 1)
    return jnp.where(legal, multiplier * share, -jnp.inf)


def jacobsen2019_opening_moves(size: int) -> int:
    """How many moves of a Hex game are sampled by `sample_flattened_visits`: a tenth of the cells."""
    return math.ceil(size * size / 10)


def jacobsen2019_dirichlet_alpha(size: int) -> float:
    """10 / (estimated mean number of legal moves), which the thesis takes as 0.7 of the cells."""
    return 10 / (0.7 * size * size)


def daliri2022_dirichlet_alpha(branching: float) -> float:
    """Alpha for a branching factor, through AlphaZero's (35, 0.3), (92, 0.15), (250, 0.03).

    The equations printed in the thesis have their coefficients reversed and no intercept; this is the fit
    that gives its table (0.310 and 0.303 for the n^2 / 2 of Hex 6x6 and 8x8).
    """
    return _minimum_norm_fit(branching, ((35, 0.3), (92, 0.15), (250, 0.03)), degree=4)


def daliri2022_temperature_drop(mean_length: float) -> int:
    """The move of the drop for a mean random game length, through (150, 30), (36, 10), (9, 4).

    Gives the thesis's 8 and 17 for the 31 and 56 moves of Hex 6x6 and 8x8.
    """
    return round(_minimum_norm_fit(mean_length, ((150, 30), (36, 10), (9, 4)), degree=3))


def _minimum_norm_fit(x: float, points: tuple[tuple[float, float], ...], degree: int) -> float:
    # More coefficients than points: of all polynomials through them, the one with the smallest coefficients
    # on centred powers, as a usual regression pipeline finds it.
    xs, ys = np.array(points, float).T
    powers = np.arange(1, degree + 1)
    features = xs[:, None] ** powers
    centre = features.mean(0)
    weights = np.linalg.lstsq(features - centre, ys - ys.mean(), rcond=None)[0]
    return float(ys.mean() + (float(x) ** powers - centre) @ weights)
