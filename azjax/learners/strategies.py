"""Evolution strategies: optimisers that only ask how good a vector is, never for a gradient.

A `Strategy` is asked for a population and told how it fared; fitness is to be minimised, and comes as two estimates
of every individual, made apart, so that a strategy can tell skill from luck. `csa` is the noise-resilient strategy
with cumulative step-size adaptation that Kromann and Bennetsen 2019 used (after Krause 2019), `classical_csa` has
the constants of Hansen's tutorial (2016), and `from_evosax` lends any strategy of the evosax library.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# As small as the learning rate of `csa` gets: at zero it would never learn again that there is something to learn.
SMALLEST_RATE = 1e-3


class Strategy(NamedTuple):
    """An evolution strategy as pure functions."""

    population: int
    init: Callable[[jax.Array], Any]  # mean [dimensions] -> state
    ask: Callable[[Any, jax.Array], tuple[jax.Array, Any]]  # (state, key) -> [population, dimensions], state
    # (state, individuals, first estimates [population], second estimates [population]) -> state
    tell: Callable[[Any, jax.Array, jax.Array, jax.Array], Any]
    mean: Callable[[Any], jax.Array]  # state -> [dimensions], what has been learned
    report: Callable[[Any], dict[str, jax.Array]]  # state -> named numbers


class CSAState(NamedTuple):
    """The search distribution N(mean, sigma^2 I) and the memory that adapts it."""

    mean: jax.Array  # [dimensions]
    sigma: jax.Array  # []
    path: jax.Array  # [dimensions] the evolution path p
    path_weight: jax.Array  # [] gamma: the squared length that a random path would have, over the dimensions
    mu_eff: jax.Array  # [] smoothed number of individuals that count; 0 before the first generation
    rate: jax.Array  # [] the learning rate
    fitness_variance: jax.Array  # [] F
    noise_variance: jax.Array  # [] S


def csa(
    dimensions: int, population: int | None = None, sigma: float = 1.0, as_published: bool = False
) -> Strategy:
    """The noise-resilient CSA-ES: the learning rate follows how much of the fitness is skill.

    Args:
      dimensions: how many numbers an individual has.
      population: how many individuals; None for `population_size(dimensions)`.
      sigma: the first step size.
      as_published: estimate the noise as the program of 2019 did, which lacks a bracket: (f1 - f2 / 2)^2 instead of
        ((f1 - f2) / 2)^2. It counts the mean fitness as noise, and the learning rate goes to zero whatever there is
        to learn. Nor has the publication the floor `SMALLEST_RATE`: at zero nothing changes any more.
    """
    size = population_size(dimensions) if population is None else population

    def init(mean: jax.Array) -> CSAState:
        number = jnp.float32
        return CSAState(
            mean, number(sigma), jnp.zeros_like(mean), number(0), number(0), number(1), number(10), number(1)
        )

    def ask(state: CSAState, key: jax.Array) -> tuple[jax.Array, CSAState]:
        return state.mean + state.sigma * jax.random.normal(key, (size, dimensions)), state

    def tell(state: CSAState, individuals: jax.Array, first: jax.Array, second: jax.Array) -> CSAState:
        state = _adapt_rate(state, first, second, as_published)
        weights = proportional_weights((first + second) / 2)
        mu_eff_now = 1 / jnp.sum(jnp.square(weights))
        starting = state.mu_eff == 0
        c = jnp.minimum(state.rate * 2 * (state.mu_eff + 2) / (dimensions + state.mu_eff + 5), 1)
        damping = 2 * state.rate * jnp.sqrt(c / (2 - c))  # c / sqrt(c (2 - c)), also where c is 0
        mu_eff = jnp.where(starting, mu_eff_now, state.mu_eff)
        step = weights @ ((individuals - state.mean) / state.sigma)
        path = (1 - c) * state.path + jnp.sqrt(c * (2 - c) * mu_eff) * step
        path_weight = (1 - c) ** 2 * state.path_weight + c * (2 - c)
        lengthening = jnp.linalg.norm(path) / math.sqrt(dimensions) - jnp.sqrt(path_weight)
        return state._replace(
            mean=state.mean + state.rate * (weights - 1 / size) @ individuals,
            sigma=state.sigma * jnp.exp(damping * lengthening),
            path=path,
            path_weight=path_weight,
            mu_eff=jnp.where(starting, mu_eff_now, 0.99 * mu_eff + 0.01 * mu_eff_now),
        )

    return Strategy(size, init, ask, tell, lambda state: state.mean, _report)


def classical_csa(dimensions: int, population: int | None = None, sigma: float = 1.0) -> Strategy:
    """CSA-ES with rank-based weights and the constants of Hansen (2016); knows nothing of noise."""
    size = population_size(dimensions) if population is None else population
    ranked = rank_weights(size)
    mu_eff = float(1 / jnp.sum(jnp.square(ranked)))
    c = (mu_eff + 2) / (dimensions + mu_eff + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((mu_eff - 1) / (dimensions + 1)) - 1) + c

    def init(mean: jax.Array) -> CSAState:
        number = jnp.float32
        return CSAState(
            mean,
            number(sigma),
            jnp.zeros_like(mean),
            number(0),
            number(mu_eff),
            number(1),
            number(0),
            number(0),
        )

    def ask(state: CSAState, key: jax.Array) -> tuple[jax.Array, CSAState]:
        return state.mean + state.sigma * jax.random.normal(key, (size, dimensions)), state

    def tell(state: CSAState, individuals: jax.Array, first: jax.Array, second: jax.Array) -> CSAState:
        weights = jnp.zeros(size).at[jnp.argsort(first + second)].set(ranked)
        step = weights @ ((individuals - state.mean) / state.sigma)
        path = (1 - c) * state.path + math.sqrt(c * (2 - c) * mu_eff) * step
        lengthening = jnp.linalg.norm(path) / expected_norm(dimensions) - 1
        return state._replace(
            mean=state.mean + state.sigma * step,
            sigma=state.sigma * jnp.exp(c / damping * lengthening),
            path=path,
        )

    return Strategy(size, init, ask, tell, lambda state: state.mean, _report)


def from_evosax(name: str, dimensions: int, population: int | None = None, sigma: float = 1.0) -> Strategy:
    """A distribution-based strategy of the evosax library, such as CMA_ES, Sep_CMA_ES or SNES."""
    try:
        from evosax import algorithms
    except ImportError:
        raise ValueError(
            f"evosax:{name} needs evosax, which is not installed; install azjax[evosax]"
        ) from None
    if not hasattr(algorithms, name):
        raise ValueError(f"evosax has no strategy {name!r}; such as CMA_ES, Sep_CMA_ES or SNES are there")
    size = population_size(dimensions) if population is None else population
    strategy = getattr(algorithms, name)(population_size=size, solution=jnp.zeros(dimensions))
    params = strategy.default_params
    if hasattr(params, "std_init"):
        params = params.replace(std_init=jnp.float32(sigma))
    unused = jax.random.key(0)  # evosax hands a key to functions that draw nothing

    def init(mean: jax.Array) -> Any:
        return strategy.init(unused, mean, params)

    def ask(state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        return strategy.ask(key, state, params)

    def tell(state: Any, individuals: jax.Array, first: jax.Array, second: jax.Array) -> Any:
        state, _ = strategy.tell(unused, individuals, (first + second) / 2, state, params)
        return state

    return Strategy(size, init, ask, tell, strategy.get_mean, lambda state: {"sigma": jnp.mean(state.std)})


def population_size(dimensions: int) -> int:
    """4 + floor(3 ln d), made even upwards."""
    size = 4 + math.floor(3 * math.log(dimensions))
    return size + size % 2


def expected_norm(dimensions: int) -> float:
    """The mean length of a standard normal vector, to third order in 1 / d."""
    return math.sqrt(dimensions) * (1 - 1 / (4 * dimensions) + 1 / (21 * dimensions**2))


def proportional_weights(fitness: jax.Array) -> jax.Array:
    """[population] how far each is better than the worst, to a sum of 1; all equal if all are equally good."""
    gaps = jnp.max(fitness) - fitness
    total = jnp.sum(gaps)
    return jnp.where(total > 0, gaps / jnp.where(total > 0, total, 1), 1 / len(fitness))


def rank_weights(population: int) -> jax.Array:
    """[population] of the best first: ln((n + 1) / 2) - ln(rank) where that is positive, to a sum of 1."""
    weights = jnp.maximum(0, math.log((population + 1) / 2) - jnp.log(jnp.arange(1, population + 1)))
    return weights / jnp.sum(weights)


def _adapt_rate(state: CSAState, first: jax.Array, second: jax.Array, as_published: bool) -> CSAState:
    """Smooths the variance of the fitness and of its noise, and learns the faster the less of it is noise."""
    noise = jnp.mean(jnp.square(first - second / 2 if as_published else (first - second) / 2))
    c = state.rate**1.5 / 100
    fitness_variance = (1 - c) * state.fitness_variance + c * jnp.var((first + second) / 2, ddof=1)
    noise_variance = (1 - c) * state.noise_variance + c * noise
    # A fitness without any noise leaves nothing to divide by: learn at the full rate.
    zeta = fitness_variance / jnp.maximum(noise_variance, 1e-30) / 2 + 1 / 2
    rate = jnp.clip((zeta - 1) / zeta, 0 if as_published else SMALLEST_RATE, 1)
    return state._replace(rate=rate, fitness_variance=fitness_variance, noise_variance=noise_variance)


def _report(state: CSAState) -> dict[str, jax.Array]:
    return {
        "sigma": state.sigma,
        "rate": state.rate,
        "mu_eff": state.mu_eff,
        "path_length": jnp.linalg.norm(state.path),
        "mean_length": jnp.linalg.norm(state.mean),
    }
