"""Chomp: eat a square of chocolate and all that lies below and right of it; whoever eats the last one loses.

To run it: `python docs/examples/own_game.py runs/chomp`.
"""

import dataclasses
import sys
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

import azjax
from azjax.envs import PlainGame
from azjax.testing import check_game


class ChompState(NamedTuple):
    left: jax.Array  # [rows, columns] bool, what has not been eaten
    current_player: jax.Array  # [] int32, 0 moves first; at the end the winner


@dataclasses.dataclass(frozen=True)
class Chomp(PlainGame):
    rows: int = 3
    columns: int = 3

    name: ClassVar[str] = "chomp"
    version: ClassVar[str] = "1"

    @property
    def num_actions(self) -> int:  # action = row * columns + column
        return self.rows * self.columns

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns, 1)

    @property
    def max_plies(self) -> int:
        return self.num_actions

    def init(self, key: jax.Array) -> ChompState:
        return ChompState(jnp.ones((self.rows, self.columns), bool), jnp.int32(0))

    def step(self, x: ChompState, action: jax.Array) -> ChompState:
        row, column = action // self.columns, action % self.columns
        above, before = jnp.arange(self.rows) < row, jnp.arange(self.columns) < column
        after = ChompState(x.left & (above[:, None] | before), 1 - x.current_player)
        return jax.tree.map(lambda old, new: jnp.where(self.is_terminal(x), old, new), x, after)

    def legal_action_mask(self, x: ChompState) -> jax.Array:
        return x.left.reshape(-1)

    def observe(self, x: ChompState, player: jax.Array | None = None) -> jax.Array:
        return x.left[:, :, None]  # the same for both players

    def is_terminal(self, x: ChompState) -> jax.Array:
        return ~x.left.any()

    def rewards(self, x: ChompState) -> jax.Array:
        winner = jax.nn.one_hot(x.current_player, 2)
        return jnp.where(self.is_terminal(x), 2 * winner - 1, 0.0)


azjax.register_game("chomp", Chomp)

if __name__ == "__main__":
    folder = sys.argv[1]
    check_game(Chomp())
    config = dataclasses.replace(azjax.preset("chomp"), iterations=8)
    azjax.train(config, folder, judge=None)  # judging would take longer than these few iterations
    print(azjax.match(f"az:{folder}?sims=32", "random", Chomp()))
