"""What every agent is: a name, a function that picks moves, and the parameters it needs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from azjax.envs.core import GameState

Act = Callable[[Any, jax.Array, GameState], jax.Array]
"""(params, key, states [batch, ...]) -> actions [batch]; whatever it says where the game is over does not matter."""

Progress = Callable[[int, int], None]
"""Called with the work done and the work in all."""

RESIGN = -1  # the answer of an agent that gives a game up
FORFEIT = -2  # the answer of an agent that cannot go on: its engine has crashed, or plays no legal move


class Agent(NamedTuple):
    """Whatever picks a move.

    A device agent's `act` is pure and can be compiled. A host agent's `act` has the same shape, but is called with
    concrete arrays between compiled steps: a human, an external engine, a solver that searches. Instead of an action an
    agent may answer RESIGN or FORFEIT, and has lost.
    """

    name: str  # the text that names it, such as "uct:200"
    act: Act
    params: Any = ()
    on_host: bool = False
    close: Callable[[], None] = lambda: None  # ends what the agent has started, such as an engine's process


class AgentError(ValueError):
    """A text that names no agent, or one that cannot play this game; the message says what would."""
