"""Temporal-difference learning of a value by self-play, without any search (after Tesauro 1995).

A network estimates the mover's chance of winning. Moves are chosen by looking one ply ahead at all legal moves at
once, epsilon-greedily; after a batch of whole games every position is moved towards what the rest of its game says,
by TD(lambda). With one game a batch and plain gradient descent this is the learner of Kromann and Bennetsen 2019,
without its mistakes: the opponent gets the position that is worst for it, and the winner's last target is 1.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from azjax.common.checked import Count, FromZero, Positive, Share
from azjax.common.keys import stream
from azjax.envs.core import Game, GameState
from azjax.learners.core import Learner, LearnerConfig, MakeOpponent, network_of, training_opponent
from azjax.learners.games import View, choose_action, make_view, play, result_of
from azjax.nn.layers import Params
from azjax.nn.networks import Network
from azjax.theses import kromann2019
from azjax.training import targets


@dataclasses.dataclass(frozen=True)
class TDConfig(LearnerConfig):
    """A TD run. One game, "sgd" and 0.1 are the settings of Kromann and Bennetsen 2019."""

    # learned of positions before the mover's move, or after it
    values: Literal["state", "afterstate"] = "state"
    trace: Share = 0.0  # lambda: 0 learns from the next position, 1 from the result alone
    epsilon: Share = 0.1  # how often a training move is random
    games: Count = 256  # side by side in a step; the weights change once per step
    optimiser: Literal["sgd", "momentum", "adam"] = "adam"  # how gradients change the weights
    learning_rate: Positive = 1e-3  # of the optimiser; theirs was 0.1
    evaluation_epsilon: Share = 0.0  # how often a move of the agent is random
    # 0 plays the best move, otherwise drawn from a softmax of the chances
    evaluation_temperature: FromZero = 0.0


class TDState(NamedTuple):
    """What a session has learned."""

    params: Params
    opt_state: optax.OptState


class Games(NamedTuple):
    """A batch of finished games, as the value sees them."""

    observations: jax.Array  # [plies, games, ...] of the positions that are learned
    players: jax.Array  # [plies, games] int32, whose chance it is: the mover
    going: jax.Array  # [plies, games] bool; False after the end
    outcomes: jax.Array  # [plies, games] the game's result for that player, -1..1


def value_network(config: TDConfig) -> Network:
    """The network of a run."""
    return network_of(config, kromann2019.value_network)


def make_td(config: TDConfig, make_opponent: MakeOpponent | None = None) -> Learner:
    """One session of TD learning; see `azjax.learners.session` for the loop around it, `training_opponent` for whom it
    meets."""
    game, network = config.game, value_network(config)
    view = make_view(game, config.view)
    chances_of = move_chances(game, network, view, config.values)
    optimiser = _OPTIMISERS[config.optimiser](config.learning_rate)

    def player(temperature: float, epsilon: float):
        def act(params, key, states):
            legal = jax.vmap(game.legal_action_mask)(states)
            return choose_action(key, chances_of(params, states), legal, temperature, epsilon)

        return act

    judged = player(config.evaluation_temperature, config.evaluation_epsilon)
    explorer = player(0.0, config.epsilon)
    opponent_of = training_opponent(config, judged, make_opponent)

    def init(key: jax.Array) -> TDState:
        params = network.init(key)
        return TDState(params, optimiser.init(params.weights))

    def step(state: TDState, previous: Params, key: jax.Array) -> tuple[TDState, dict[str, jax.Array]]:
        opponent = learner = None
        if opponent_of is not None:
            opponent = opponent_of(previous)
            # The learner moves first in every other game; in which of them, a coin says, for there may be but one.
            key, coin_key = jax.random.split(key)
            learner = (jnp.arange(config.games) + jax.random.bernoulli(coin_key)) % 2

        def act(key, states):
            action = explorer(state.params, key, states)
            if opponent is None:
                return action
            reply = opponent(None, stream(key, "opponent"), states)
            return jnp.where(states.current_player == learner, action, reply)

        games = play_games(game, view, config.values, act, key, config.games)
        goals = td_targets(network, state.params, games, config.trace)
        (loss, statistics), gradient = jax.value_and_grad(td_loss, has_aux=True)(
            state.params.weights, network, state.params.statistics, games, goals
        )
        updates, opt_state = optimiser.update(gradient, state.opt_state, state.params.weights)
        params = Params(optax.apply_updates(state.params.weights, updates), statistics)
        plies = jnp.sum(games.going, 0)
        report = {"loss": loss, "plies": jnp.mean(plies)}
        return TDState(params, opt_state), report

    return Learner(init, step, lambda state: state.params, judged, config.games)


def move_chances(
    game: Game, network: Network, view: View, values: str
) -> Callable[[Params, GameState], jax.Array]:
    """(params, states [batch, ...]) -> [batch, actions], the mover's chance of winning after each move.

    A move that ends the game has its result for a chance; what is said of illegal moves means nothing.
    """
    step = jax.vmap(jax.vmap(game.step, (None, 0)), (0, None))

    def chances(params: Params, states: GameState) -> jax.Array:
        after = step(states, jnp.arange(game.num_actions))
        mover = jnp.broadcast_to(states.current_player[:, None], after.current_player.shape)
        seen_by = after.current_player if values == "state" else mover
        observations = _each(view.observe)(after, seen_by)
        batch, actions = mover.shape
        chance = chance_of(network, params, observations.reshape(batch * actions, *observations.shape[2:]))
        chance = chance.reshape(batch, actions)
        chance = jnp.where(seen_by == mover, chance, 1 - chance)
        return jnp.where(_each(game.is_terminal)(after), result_of(game, after, mover), chance)

    return chances


def chance_of(network: Network, params: Params, observations: jax.Array) -> jax.Array:
    """[batch] chances of winning, 0..1."""
    _, value = network.apply(params, observations)
    return (1 + value) / 2


def play_games(game: Game, view: View, values: str, act: Callable, key: jax.Array, games: int) -> Games:
    """Plays whole games and notes what the value is to learn from."""
    final, history = play(game, act, key, games)
    movers = history.states.current_player
    positions = history.states
    if values == "afterstate":
        positions = jax.tree.map(lambda now, end: jnp.concatenate([now[1:], end[None]]), positions, final)
    rewards = jnp.broadcast_to(jax.vmap(game.rewards)(final), (*movers.shape, 2))
    return Games(
        observations=_each(view.observe)(positions, movers),
        players=movers,
        going=~_each(game.is_terminal)(history.states),
        outcomes=jnp.sign(jnp.take_along_axis(rewards, movers[..., None], -1)[..., 0]),
    )


def td_targets(network: Network, params: Params, games: Games, trace: float) -> jax.Array:
    """[plies, games] what each chance should have been, 0..1: the lambda-returns of the game.

    The weights stand still during a game, so that moving v towards the lambda-return is the same as the sum over
    the game of (v_(t+1) - v_t) times the decaying trace of gradients.
    """
    flat = games.observations.reshape(-1, *games.observations.shape[2:])
    values = 2 * chance_of(network, params, flat).reshape(games.going.shape) - 1
    returns = jax.vmap(targets.td_lambda(trace), in_axes=(1, 1, 1, 0), out_axes=1)
    return (1 + returns(games.outcomes, values, games.players, jnp.sum(games.going, 0))) / 2


def td_loss(weights: Any, network: Network, statistics: Any, games: Games, goals: jax.Array):
    """Half the squared error, summed over the positions of a game as in the thesis, averaged over games.

    Returns:
      The loss [], and the network's new statistics.
    """
    params = Params(weights, statistics)
    outputs, statistics = network.train(params, games.observations.reshape(-1, *games.observations.shape[2:]))
    chance = (1 + outputs.value.reshape(games.going.shape)) / 2
    errors = jnp.where(games.going, jnp.square(goals - chance), 0)
    return jnp.sum(errors) / 2 / games.going.shape[1], statistics


_OPTIMISERS = {
    "sgd": optax.sgd,
    "momentum": lambda rate: optax.sgd(rate, momentum=0.9),
    "adam": optax.adam,
}


def _each(function: Callable) -> Callable:
    """The function over the two leading axes."""
    return jax.vmap(jax.vmap(function))
