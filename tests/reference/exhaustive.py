"""Exact values by brute force: every position that can come of the given ones, and minimax over all of them.

Trusts the rules of the game and nothing else. Positions are told apart by their bytes.
"""

from typing import NamedTuple

import jax
import numpy as np

CHUNK = 4096  # positions per call: one compilation for every number of positions


class Solved(NamedTuple):
    states: tuple  # [positions, ...] all positions, ply by ply; the first one is the first given
    over: np.ndarray  # [positions] bool
    values: np.ndarray  # [positions] the exact result for the player to move
    action_values: (
        np.ndarray
    )  # [positions, actions] after each move, for the player who makes it; NaN if illegal


def solve(game, roots) -> Solved:
    """Solves all positions that can be reached from `roots` [n, ...]."""
    step, legal, over, rewards = (
        jax.jit(jax.vmap(f)) for f in (game.step, game.legal_action_mask, game.is_terminal, game.rewards)
    )
    levels, children = [jax.device_get(roots)], []
    while True:
        mask = _in_chunks(legal, levels[-1])
        source, action = np.nonzero(mask)
        if len(source) == 0:
            break
        after = _in_chunks(step, at(levels[-1], source), action.astype(np.int32))
        first, place = _distinct(after)
        below = np.full(mask.shape, -1)
        below[source, action] = place
        levels.append(at(after, first))
        children.append(below)

    solved = []
    for depth in reversed(range(len(levels))):
        states = levels[depth]
        player = np.asarray(states.current_player)
        values = _in_chunks(rewards, states)[np.arange(len(player)), player]
        action_values = np.full((len(player), game.num_actions), np.nan, np.float32)
        if depth < len(children):
            below, next_level = children[depth], solved[-1]
            same_player = np.asarray(next_level.states.current_player)[below] == player[:, None]
            signed = next_level.values[below] * np.where(same_player, 1, -1)
            action_values = np.where(below >= 0, signed, np.nan).astype(np.float32)
            has_moves = (below >= 0).any(1)
            values[has_moves] = np.nanmax(action_values[has_moves], 1)
        solved.append(Solved(states, _in_chunks(over, states), values, action_values))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *reversed(solved))


def at(states, index):
    """The positions with these numbers."""
    return jax.tree.map(lambda leaf: leaf[index], states)


def find(solved: Solved, states) -> np.ndarray:
    """[n] where these positions [n, ...] stand among the solved ones."""
    number = {key: i for i, key in enumerate(_keys(solved.states).tolist())}
    return np.array([number[key] for key in _keys(jax.device_get(states)).tolist()])


def _in_chunks(function, *arguments):
    count = len(jax.tree.leaves(arguments[0])[0])
    results = []
    for start in range(0, count, CHUNK):
        index = np.minimum(np.arange(start, start + CHUNK), count - 1)  # the last one fills up
        results.append(jax.device_get(function(*at(arguments, index))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def _distinct(states):
    """Where each distinct position stands first, and for every position which of the distinct ones it is."""
    _, first, place = np.unique(_keys(states), return_index=True, return_inverse=True)
    return first, place


def _keys(states) -> np.ndarray:
    """[n] the bytes of every position."""
    count = len(jax.tree.leaves(states)[0])
    rows = [np.ascontiguousarray(leaf).reshape(count, -1).view(np.uint8) for leaf in jax.tree.leaves(states)]
    rows = np.ascontiguousarray(np.concatenate(rows, axis=1))
    return rows.view(np.dtype((np.void, rows.shape[1]))).ravel()
