"""Matches between agents, all games side by side on the device.

Every opening is played twice, once with each agent moving first, so that neither colour nor luck of the
opening decides. Nothing explores here unless an agent does so by itself.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.core import Game, GameState, random_action
from azjax.tree import Params

Act = Callable[[Params, jax.Array, GameState], jax.Array]
"""An agent: (params, key, states [batch, ...]) -> actions [batch]."""


class MatchResult(NamedTuple):
    """A match from the first agent's side."""

    wins: int
    draws: int
    losses: int
    wins_moving_first: int  # of half of the games
    distinct_games: int  # games with different moves; the rest are repetitions
    mean_plies: float

    @property
    def games(self) -> int:
        """How many were played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Wins, and half the draws, as a share of the games."""
        return (self.wins + self.draws / 2) / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the score."""
        return wilson_interval(self.wins + self.draws / 2, self.games)


def wilson_interval(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's (1927) score interval of a proportion."""
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return centre - spread, centre + spread


def random_agent(game: Game) -> Act:
    """Moves uniformly at random; needs no parameters."""

    def act(params: Params, key: jax.Array, states: GameState) -> jax.Array:
        del params
        return random_action(key, jax.vmap(game.legal_action_mask)(states))

    return act


def make_match(
    game: Game, agent: Act, opponent: Act, *, pairs: int, random_plies: int = 0
) -> Callable[[Params, Params, jax.Array], MatchResult]:
    """Prepares a match of 2 * `pairs` games; call it with both agents' parameters and a key.

    Args:
      game: the rules.
      agent: whose side the result takes.
      opponent: the other.
      pairs: openings, each played with both colours.
      random_plies: how many moves of an opening are drawn at random.
    """
    lanes = 2 * pairs
    agent_first = jnp.arange(lanes) < pairs  # lane i and lane i + pairs share an opening

    def opening(key: jax.Array) -> GameState:
        init_key, key = jax.random.split(key)
        states = jax.vmap(game.init)(jax.random.split(init_key, pairs))

        def ply(states, key):
            # A random move that would end the game is no opening: the position before it is kept.
            action = random_action(key, jax.vmap(game.legal_action_mask)(states))
            after = jax.vmap(game.step)(states, action)
            over = jax.vmap(game.is_terminal)(after)
            return jax.tree.map(
                lambda old, new: jnp.where(over.reshape(-1, *(1,) * (old.ndim - 1)), old, new), states, after
            ), None

        states, _ = jax.lax.scan(ply, states, jax.random.split(key, random_plies))
        return jax.tree.map(lambda s: jnp.concatenate([s, s]), states)

    @jax.jit
    def play(params: Params, opponent_params: Params, key: jax.Array):
        opening_key, key = jax.random.split(key)

        def unfinished(carry):
            states, *_ = carry
            return ~jnp.all(jax.vmap(game.is_terminal)(states))

        def ply(carry):
            states, record, plies, key = carry
            key, agent_key, opponent_key = jax.random.split(key, 3)
            agents_turn = agent_first == (states.current_player == 0)
            action = jnp.where(
                agents_turn,
                agent(params, agent_key, states),
                opponent(opponent_params, opponent_key, states),
            )
            going = ~jax.vmap(game.is_terminal)(states)
            record = record.at[:, plies.max()].set(jnp.where(going, action, -1))
            return jax.vmap(game.step)(states, action), record, plies + going, key

        states = opening(opening_key)
        record = jnp.full((lanes, game.max_plies), -1, jnp.int32)
        start = (states, record, jnp.zeros(lanes, jnp.int32), key)
        final, record, plies, _ = jax.lax.while_loop(unfinished, ply, start)
        rewards = jax.vmap(game.rewards)(final)
        return jnp.where(agent_first, rewards[:, 0], rewards[:, 1]), record, plies, states

    def match(params: Params, opponent_params: Params, key: jax.Array) -> MatchResult:
        reward, record, plies, openings = map(jax.device_get, play(params, opponent_params, key))
        sides = np.asarray(agent_first)[:, None]
        columns = [np.asarray(leaf).reshape(lanes, -1).astype(np.int64) for leaf in jax.tree.leaves(openings)]
        games = np.concatenate([sides, *columns, record], axis=1)
        return MatchResult(
            wins=int((reward > 0).sum()),
            draws=int((reward == 0).sum()),
            losses=int((reward < 0).sum()),
            wins_moving_first=int((reward > 0)[:pairs].sum()),
            distinct_games=len(np.unique(games, axis=0)),
            mean_plies=float(plies.mean()),
        )

    return match
