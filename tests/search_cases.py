"""What the tests of the search share: games from a table, evaluators that know nothing, random positions."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.core import random_action

# Half the time to compile, for programs that run for less than they take to compile.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

TABLE_NODES, TABLE_ACTIONS = 40, 3


class TableState(NamedTuple):
    """A position in a game tree that is written down, with the whole of that tree."""

    node: jax.Array  # [] int32
    current_player: jax.Array  # [] int32
    children: jax.Array  # [nodes, actions] int32, -1 where a move is illegal; a node without moves is an end
    players: jax.Array  # [nodes] int32
    results: jax.Array  # [nodes] float32 for player 0, at the ends
    logits: jax.Array  # [nodes, actions] what `table_evaluator` says
    values: jax.Array  # [nodes] likewise, for the player to move


class TableGame:
    """Any small game: the state brings its own tree, so that one compiled search serves all of them."""

    num_actions = TABLE_ACTIONS

    def init(self, key):
        """A tree without moves: searches ask how large a position is."""
        del key
        return table({0: {"player": 0}})

    def step(self, x, action):
        child = x.children[x.node, action]
        node = jnp.where(child < 0, x.node, child)
        return x._replace(node=node, current_player=x.players[node])

    def legal_action_mask(self, x):
        return x.children[x.node] >= 0

    def is_terminal(self, x):
        return ~jnp.any(x.children[x.node] >= 0)

    def rewards(self, x):
        result = jnp.where(self.is_terminal(x), x.results[x.node], 0.0)
        return jnp.stack([result, -result])


def table_evaluator(params, key, states):
    del params, key
    lane = jnp.arange(states.node.shape[0])
    return states.logits[lane, states.node], states.values[lane, states.node]


def table(nodes: dict[int, dict]) -> TableState:
    """A game tree: {node: {player, moves {action: node}, prior {action: share}, value, result}}."""
    x = TableState(
        node=np.int32(0),
        current_player=np.int32(nodes[0]["player"]),
        children=np.full((TABLE_NODES, TABLE_ACTIONS), -1, np.int32),
        players=np.zeros(TABLE_NODES, np.int32),
        results=np.zeros(TABLE_NODES, np.float32),
        logits=np.zeros((TABLE_NODES, TABLE_ACTIONS), np.float32),
        values=np.zeros(TABLE_NODES, np.float32),
    )
    for node, what in nodes.items():
        x.players[node] = what["player"]
        x.results[node] = what.get("result", 0.0)
        x.values[node] = what.get("value", 0.0)
        for action, child in what.get("moves", {}).items():
            x.children[node, action] = child
        for action, share in what.get("prior", {}).items():
            x.logits[node, action] = np.log(share)
    return x


def example() -> TableState:
    """Player 0 moves, and after move 1 once more; there move 1 wins, but the network calls that end lost."""
    return table(
        {
            0: {"player": 0, "value": 0.1, "moves": {0: 1, 1: 2}, "prior": {0: 0.6, 1: 0.4, 2: 9.0}},
            1: {"player": 1, "value": 0.2, "moves": {0: 3, 1: 4}, "prior": {0: 0.7, 1: 0.3}},
            2: {"player": 0, "value": 0.3, "moves": {0: 5, 1: 6}, "prior": {0: 0.8, 1: 0.2}},
            3: {"player": 0, "value": -0.4, "moves": {0: 7}},
            4: {"player": 0, "result": 0.0},
            5: {"player": 1, "value": 0.5, "moves": {0: 8}},
            6: {"player": 1, "result": 1.0, "value": 0.9},
            7: {"player": 0, "result": 0.0},
            8: {"player": 0, "result": 0.0},
        }
    )


def random_table(rng: np.random.Generator) -> TableState:
    """A random game: the players move in any order, and some positions have only one or two moves."""
    nodes, open_nodes = {0: {"player": int(rng.integers(2)), "moves": {}}}, [0]
    while open_nodes and len(nodes) + TABLE_ACTIONS <= TABLE_NODES:
        node = open_nodes.pop(0)
        actions = rng.choice(TABLE_ACTIONS, rng.integers(1, TABLE_ACTIONS + 1), replace=False)
        for action in actions:
            child = len(nodes)
            nodes[node]["moves"][int(action)] = child
            nodes[child] = {"player": int(rng.integers(2)), "moves": {}}
            if rng.random() < 0.8:
                open_nodes.append(child)
    for what in nodes.values():
        what["value"] = rng.uniform(-1, 1)
        what["result"] = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0])
        what["prior"] = dict(enumerate(rng.uniform(0.05, 1, TABLE_ACTIONS)))
    return table(nodes)


def stacked(states: list) -> tuple:
    """Many positions as one batch."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


class Opinion(NamedTuple):
    """The parameters of `hash_evaluator`: which opinion, and how strong."""

    seed: jax.Array | int
    logits: jax.Array | float = 1.0  # logits lie between minus this and this
    values: jax.Array | float = 1.0


def opinion(seed: int, logits: float = 1.0, values: float = 1.0) -> Opinion:
    return Opinion(jnp.uint32(seed), jnp.float32(logits), jnp.float32(values))


def hash_evaluator(game):
    """An evaluator without a clue: logits and value are hashes of what the player to move sees."""
    weights = np.random.default_rng(0).integers(2**32, size=game.observation_shape, dtype=np.uint32)

    def evaluate(params: Opinion, key, states):
        del key
        seen = jax.vmap(game.observe)(states) != 0
        position = jnp.sum(jnp.where(seen, weights, 0), axis=range(1, seen.ndim), dtype=jnp.uint32)
        number = jnp.arange(game.num_actions + 1, dtype=jnp.uint32)
        bits = (position + params.seed)[:, None] + (number + 1) * jnp.uint32(0x9E3779B9)
        bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
        bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
        noise = ((bits ^ (bits >> 16)) >> 8).astype(jnp.float32) / 2**23 - 1
        return params.logits * noise[:, 1:], params.values * noise[:, 0]

    return evaluate


def random_positions(game, batch: int, most_plies: int, key):
    """[batch, ...] positions after 0 to `most_plies` random moves; some of these games are over."""
    start_key, length_key, key = jax.random.split(key, 3)
    x = jax.vmap(game.init)(jax.random.split(start_key, batch))
    length = jax.random.randint(length_key, (batch,), 0, most_plies + 1)

    def ply(carry, number):
        x, key = carry
        key, subkey = jax.random.split(key)
        after = jax.vmap(game.step)(x, random_action(subkey, jax.vmap(game.legal_action_mask)(x)))

        def choose(old, new):
            return jnp.where((number < length).reshape(-1, *(1,) * (old.ndim - 1)), new, old)

        return (jax.tree.map(choose, x, after), key), None

    (x, _), _ = quick_jit(lambda x, key: jax.lax.scan(ply, (x, key), jnp.arange(most_plies)))(x, key)
    return x
