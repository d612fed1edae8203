"""What every agent is: a name, a function that picks moves, and the parameters it needs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.remembered import remembered
from azjax.envs.core import Game, GameState, random_action

Act = Callable[[Any, jax.Array, GameState], jax.Array]
"""(params, key, states [batch, ...]) -> actions [batch]; whatever it says where the game is over does not matter."""

RESIGN = -1  # the answer of an agent that gives a game up
FORFEIT = -2  # the answer of an agent that cannot go on: its engine has crashed, or plays no legal move
NOT_FINITE = (
    -3
)  # the answer of an agent whose network says something that is no number; nobody plays on with it


class Agent(NamedTuple):
    """Whatever picks a move.

    A device agent's `act` is pure and can be compiled. A host agent's `act` has the same shape, but is called with
    concrete arrays between compiled steps: a human, an external engine, a solver that searches. Instead of an action an
    agent may answer RESIGN or FORFEIT, and has lost. Whoever asks it outside compiled programs looks at the answer with
    `check_finite`.
    """

    name: str  # the text that names it, such as "uct:200"
    act: Act
    params: Any = ()
    on_host: bool = False
    close: Callable[[], None] = lambda: None  # ends what the agent has started, such as an engine's process

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


class AgentError(ValueError):
    """A text that names no agent, or one that cannot play this game; the message says what would."""


@remembered
def random_act(game: Game) -> Act:
    """Moves uniformly at random; needs no parameters."""

    def act(params, key: jax.Array, states: GameState) -> jax.Array:
        del params
        return random_action(key, jax.vmap(game.legal_action_mask)(states))

    return act


def mark_not_finite(actions: jax.Array, finite: jax.Array) -> jax.Array:
    """The actions [batch], and NOT_FINITE where what they were chosen by is not finite; `finite` is [batch] bool."""
    return jnp.where(finite, actions, NOT_FINITE)


def check_finite(actions: np.ndarray, name: str) -> np.ndarray:
    """The answers of an agent, if its network gave numbers for all of them; raises AgentError otherwise."""
    if np.any(np.asarray(actions) == NOT_FINITE):
        raise AgentError(
            f"the network of {name} answers with numbers that are not finite, so that it cannot choose a move; take "
            "weights of an earlier iteration, or train with a lower learning rate"
        )
    return actions
