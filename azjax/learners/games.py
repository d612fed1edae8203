"""What both learners need of a game: how the mover sees it, how a move is chosen, and whole games at once.

A learner plays both sides by always seeing itself as the first player. `make_view` says how; `choose_action` picks
a move from scores; `play` and `match` play thousands of games side by side, to the end of the longest.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.agent import NOT_FINITE, Act, mark_not_finite
from azjax.common.legality import mask_logits
from azjax.envs.core import Game, GameState, random_action

ViewName = Literal["transpose", "rotation"]


class View(NamedTuple):
    """How a player sees the board, and where the moves it prefers there lie on the real one."""

    observe: Callable[..., jax.Array]  # (x, player=None) -> observation of one position
    action_frames: np.ndarray  # [2, actions]; board_scores = seen_scores[action_frames[player]]


class History(NamedTuple):
    """Games side by side, ply by ply; after its end a game stands still."""

    states: GameState  # [plies, batch, ...] before each move
    actions: jax.Array  # [plies, batch] int32


def make_view(game: Game, name: ViewName = "transpose") -> View:
    """The mover's view: an exact symmetry of the game, or the quarter turn of Kromann and Bennetsen 2019.

    The quarter turn, a hook of the game, is no symmetry of Hex. It is here to reproduce, not to use.
    """
    if name == "transpose":
        return View(game.observe, game.action_frames)
    if name != "rotation":
        raise ValueError(f"view must be 'transpose' or 'rotation', got {name!r}")
    turned = getattr(game, "quarter_turn", None)
    if turned is None:
        raise ValueError(f"view='rotation' is for Hex with two planes, this is {game!r}: use 'transpose'")
    return View(*turned)


def has_stone_planes(game: Game) -> bool:
    """Whether the dense networks of Kromann and Bennetsen 2019 can see the game: stones of two colours, as in Hex."""
    return getattr(game, "has_stone_planes", False)


def choose_action(
    key: jax.Array, scores: jax.Array, legal: jax.Array, temperature: float, epsilon: float = 0.0
) -> jax.Array:
    """Picks one legal action a row.

    Args:
      key: one key for all rows.
      scores: [..., actions] the higher, the better.
      legal: [..., actions] bool.
      temperature: 0 takes the best (of equals the first), otherwise drawn from the softmax of scores / temperature.
      epsilon: how often a uniformly random legal move is made instead.

    Returns:
      [...] int32; NOT_FINITE where a score of a legal action is not finite.
    """
    finite = jnp.all(jnp.isfinite(mask_logits(scores, legal)), -1)
    scores = mask_logits(scores if temperature == 0 else scores / temperature, legal)
    draw_key, whether_key, random_key = jax.random.split(key, 3)
    action = jnp.argmax(scores, -1) if temperature == 0 else _draw(draw_key, scores)
    action = action.astype(jnp.int32)
    if epsilon != 0:
        explores = jax.random.bernoulli(whether_key, epsilon, action.shape)
        action = jnp.where(explores, random_action(random_key, legal), action)
    return mark_not_finite(action, finite)


def play(
    game: Game, act: Callable[[jax.Array, GameState], jax.Array], key: jax.Array, games: int
) -> tuple[GameState, History]:
    """Plays games from the start to the end.

    Args:
      act: (key, states [games, ...]) -> actions [games].

    Returns:
      The final positions [games, ...] and the way there.
    """
    init_key, play_key = jax.random.split(key)

    def ply(states, key):
        action = act(key, states)
        return jax.vmap(game.step)(states, action), History(states, action)

    start = jax.vmap(game.init)(jax.random.split(init_key, games))
    return jax.lax.scan(ply, start, jax.random.split(play_key, game.max_plies))


def match(
    game: Game, agent: Act, opponent: Act, params: Any, opponent_params: Any, key: jax.Array, games: int
) -> jax.Array:
    """[games] results in 0..1 for the agent; a coin decides in each game who moves first.

    NaN where a move could not be chosen, because a network's answer was not finite; this stops the run around it.
    This is the protocol of Kromann and Bennetsen 2019, as one compiled function that can be mapped over sessions;
    `azjax.evaluation.arena` is for fairer comparisons.
    """
    coin_key, play_key = jax.random.split(key)
    seat = jax.random.bernoulli(coin_key, 0.5, (games,)).astype(jnp.int32)  # the agent's player number

    def act(key, states):
        agent_key, opponent_key = jax.random.split(key)
        return jnp.where(
            states.current_player == seat,
            agent(params, agent_key, states),
            opponent(opponent_params, opponent_key, states),
        )

    final, history = play(game, act, play_key, games)
    broken = jnp.any(history.actions == NOT_FINITE, axis=0)
    return jnp.where(broken, jnp.nan, result_of(game, final, seat))


def result_of(game: Game, final: GameState, player: jax.Array) -> jax.Array:
    """[...] results in 0..1 of finished games [...] for a player each: 1 a win, 1/2 a draw, 0 a loss."""
    rewards = game.rewards
    for _ in range(player.ndim):
        rewards = jax.vmap(rewards)
    mine = jnp.take_along_axis(rewards(final), player[..., None], -1)[..., 0]
    return (1 + jnp.sign(mine)) / 2


def _draw(key: jax.Array, logits: jax.Array) -> jax.Array:
    """[...] drawn from the softmax of logits [..., actions] with one random number a row.

    Several times faster than `jax.random.categorical`, which draws one for every action.
    """
    heap = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
    # A little below 1, so that rounding never points behind the last action that has a chance.
    mark = (1 - 1e-6) * jax.random.uniform(key, (*logits.shape[:-1], 1)) * heap[..., -1:]
    return jnp.argmax(heap > mark, -1)
