"""What the value of a position should have been, told by the rest of its game.

Every function takes one finished game: outcomes, root values and players, each [plies], and the number of
plies that count; all values are seen by the player to move at that ply. The search finds root values; the
outcome is the game's result.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

ValueTargets = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]


def outcome(outcomes: jax.Array, root_values: jax.Array, players: jax.Array, length: jax.Array) -> jax.Array:
    """The result z, as AlphaZero has it."""
    del root_values, players, length
    return outcomes


def root_value(
    outcomes: jax.Array, root_values: jax.Array, players: jax.Array, length: jax.Array
) -> jax.Array:
    """What the search found (Jacobsen 2019's mean value).

    Only sound where terminal positions in the tree take the game's result: nothing else brings the truth in.
    """
    del outcomes, players, length
    return root_values


def mixture(share: float) -> ValueTargets:
    """`share` of the search's value and the rest of the outcome."""

    def targets(outcomes, root_values, players, length):
        del players, length
        return share * root_values + (1 - share) * outcomes

    return targets


def td_lambda(lambda_: float) -> ValueTargets:
    """The lambda-return over search values: G_t = (1 - lambda) v_(t+1) + lambda G_(t+1), ending in z.

    lambda 1 is the outcome; lambda 0 the value found at the next position. Signs follow the players, who need
    not alternate.
    """

    def targets(outcomes, root_values, players, length):
        plies = outcomes.shape[0]
        number = jnp.arange(plies)

        def step(carry, row):
            next_return, next_value, next_player = carry  # as seen by player `next_player`
            z, value, player, ply = row
            sign = jnp.where(player == next_player, 1.0, -1.0)
            bootstrapped = sign * ((1 - lambda_) * next_value + lambda_ * next_return)
            result = jnp.where(ply >= length - 1, z, bootstrapped)
            return (result, value, player), result

        start = (jnp.float32(0), jnp.float32(0), players[0])
        _, returns = jax.lax.scan(step, start, (outcomes, root_values, players, number), reverse=True)
        return returns

    return targets
