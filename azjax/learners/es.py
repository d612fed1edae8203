"""Evolution of a policy by self-play: no values, no gradients, no search.

An individual is the weights of a policy network. A generation's individuals meet each other in games whose moves are
drawn from their policies; those who win more pull the mean of the search distribution towards them. The agent that
has been learned is that mean. With one game a meeting this is the learner of Kromann and Bennetsen 2019, with
its noise estimate put right.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from azjax.common.agent import Act
from azjax.common.checked import Count, FromZero, Positive, Share, at_least, at_most
from azjax.envs.core import GameState
from azjax.learners.core import Learner, LearnerConfig, MakeOpponent, network_of, training_opponent
from azjax.learners.games import choose_action, make_view, play, result_of
from azjax.learners.strategies import Strategy, classical_csa, csa, from_evosax
from azjax.nn.layers import Params
from azjax.nn.networks import Network, count_parameters
from azjax.theses import kromann2019


@dataclasses.dataclass(frozen=True)
class ESConfig(LearnerConfig):
    """An ES run; a step is a generation."""

    strategy: str = "csa"  # csa, csa-as-published, csa-classical, or one of evosax: evosax:Sep_CMA_ES
    # individuals; None: 4 + floor(3 ln d) for d weights, made even
    population: Annotated[int, at_least(6), at_most(2**20)] | None = None
    sigma: Positive = 1.0  # the first step size
    games: Count = 8  # that two individuals play when they meet; theirs played one
    temperature: FromZero = 1.0  # of the policies in training
    evaluation_temperature: FromZero = 1.0  # of the agent; 0 plays its best move
    evaluation_epsilon: Share = 0.0  # how often a move of the agent is random


def policy_network(config: ESConfig) -> Network:
    """The network of a run."""
    return network_of(config, kromann2019.policy_network)


def make_strategy(config: ESConfig, dimensions: int) -> Strategy:
    """The strategy that a configuration names."""
    kind, _, name = config.strategy.partition(":")
    if kind == "evosax" and name:
        return from_evosax(name, dimensions, config.population, config.sigma)
    own = {
        "csa": lambda: csa(dimensions, config.population, config.sigma),
        "csa-as-published": lambda: csa(dimensions, config.population, config.sigma, as_published=True),
        "csa-classical": lambda: classical_csa(dimensions, config.population, config.sigma),
    }
    if config.strategy not in own:
        raise ValueError(f"strategy must be {', '.join(own)} or evosax:NAME, got {config.strategy!r}")
    return own[config.strategy]()


def make_es(config: ESConfig, make_opponent: MakeOpponent | None = None) -> Learner:
    """One session of evolution; see `azjax.learners.session` for the loop around it, `training_opponent` for whom it
    meets."""
    network = policy_network(config)
    strategy = make_strategy(config, count_parameters(network).trained)
    like = jax.eval_shape(network.init, jax.random.key(0))
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like.weights))

    def params_of(vector: jax.Array) -> Params:
        return Params(unravel(vector), {})

    scores_of = move_scores(config, network)

    def act(params: Params, key: jax.Array, states: GameState) -> jax.Array:
        legal = jax.vmap(config.game.legal_action_mask)(states)
        choice = config.evaluation_temperature, config.evaluation_epsilon
        return choose_action(key, scores_of(params, states), legal, *choice)

    fitness = make_fitness(config, network, act, make_opponent)

    def init(key: jax.Array):
        return strategy.init(ravel_pytree(network.init(key).weights)[0])

    def step(state, previous: Params, key: jax.Array):
        population_key, game_key = jax.random.split(key)
        individuals, state = strategy.ask(state, population_key)
        losses = fitness(jax.vmap(params_of)(individuals), previous, game_key)
        state = strategy.tell(state, individuals, *losses)
        return state, strategy.report(state)

    games = 4 * strategy.population if config.opponent != "self" else 2 * strategy.population
    return Learner(init, step, lambda state: params_of(strategy.mean(state)), act, games * config.games)


def move_scores(config: ESConfig, network: Network) -> Callable[[Params, GameState], jax.Array]:
    """(params, states [batch, ...]) -> [batch, actions], how much the policy likes each move on the board."""
    view = make_view(config.game, config.view)

    def scores(params: Params, states: GameState) -> jax.Array:
        logits, _ = network.apply(params, jax.vmap(view.observe)(states))
        return jnp.take_along_axis(logits, jnp.asarray(view.action_frames)[states.current_player], -1)

    return scores


def make_fitness(
    config: ESConfig, network: Network, judged: Act, make_opponent: MakeOpponent | None = None
) -> Callable[..., jax.Array]:
    """(population's params, previous params, key) -> [2, population], two estimates of each one's share of losses.

    In self-play individual i meets i + 1 for the first estimate and i + 2 for the second, counted around the
    circle: everybody has two opponents in each, moves first against one and second against the other, and never
    meets itself or anyone twice. Against another opponent everybody plays as many games, half of them as first.
    """
    game = config.game
    scores_of = move_scores(config, network)
    opponent_of = training_opponent(config, judged, make_opponent)

    def scores_of_all(params: Params, states: GameState) -> jax.Array:
        """[games, actions] where the first few games are the first individual's, and so on."""
        size = len(jax.tree.leaves(params)[0])
        grouped = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), states)
        return jax.vmap(scores_of)(params, grouped).reshape(-1, game.num_actions)

    def choose(key: jax.Array, scores: jax.Array, states: GameState) -> jax.Array:
        return choose_action(key, scores, jax.vmap(game.legal_action_mask)(states), config.temperature)

    def against_each_other(params: Params, key: jax.Array) -> jax.Array:
        size = len(jax.tree.leaves(params)[0])
        black, white = pairings(size, config.games)
        by_black, by_white = (np.argsort(side, kind="stable") for side in (black, white))

        def act(key, states):
            def scores(order):
                return scores_of_all(params, jax.tree.map(lambda leaf: leaf[order], states))[
                    np.argsort(order)
                ]

            # Both players are asked about every position: that costs less than handing weights around.
            is_black = states.current_player == 0
            return choose(key, jnp.where(is_black[:, None], scores(by_black), scores(by_white)), states)

        final, _ = play(game, act, key, len(black))
        black_lost = 1 - result_of(game, final, jnp.zeros(len(black), jnp.int32))
        halves = zip(np.split(black, 2), np.split(white, 2), jnp.split(black_lost, 2))
        losses = [jnp.zeros(size).at[b].add(lost).at[w].add(1 - lost) for b, w, lost in halves]
        return jnp.stack(losses) / (2 * config.games)

    def against(opponent: Act, params: Params, key: jax.Array) -> jax.Array:
        size = len(jax.tree.leaves(params)[0])
        seat = jnp.tile(jnp.arange(4 * config.games) % 2, size)

        def act(key, states):
            own_key, other_key = jax.random.split(key)
            own = choose(own_key, scores_of_all(params, states), states)
            return jnp.where(states.current_player == seat, own, opponent(None, other_key, states))

        final, _ = play(game, act, key, len(seat))
        return 1 - jnp.mean(result_of(game, final, seat).reshape(size, 2, -1), -1).T

    def fitness(params: Params, previous: Params, key: jax.Array) -> jax.Array:
        if opponent_of is None:
            return against_each_other(params, key)
        return against(opponent_of(previous), params, key)

    return fitness


def pairings(population: int, games: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Who has Black and who has White in each game, [2 * population * games] each; two halves of equal length."""
    everyone = np.arange(population)
    black = np.concatenate([np.tile(everyone, games)] * 2)
    white = np.concatenate([np.tile((everyone + shift) % population, games) for shift in (1, 2)])
    return black, white
