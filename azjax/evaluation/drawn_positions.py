"""Positions drawn at random: from random play, or from all that a game has."""

import dataclasses
import math

import jax
import numpy as np

from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, box_sides
from azjax.envs.hex import Hex
from azjax.evaluation import position_sets
from azjax.solvers.checkers_ranking import random_states

SEARCHED_SIZE = 7  # from this size on, Hex is solved only where that is quick
_OPEN_LINES = 24  # of Dots and Boxes on boards too large for a table


def random_play_positions(game: Game, key: jax.Array, number: int) -> GameState:
    """Distinct positions of random play that are not over, at most so many, in random order.

    From boards too large to be solved whole, only those late enough to be solved quickly.
    """
    games = max(1, 2 * number // max(1, game.max_plies // 2))
    states, going = position_sets.random_games(game, key, games)
    going &= _late_enough(game, np.arange(going.shape[1]))
    flat = jax.tree.map(lambda leaf: leaf[going], states)
    flat = position_sets.rows(flat, position_sets.first_of_each(flat))
    order = np.random.default_rng(int(jax.random.bits(key))).permutation(position_sets.size_of(flat))
    return position_sets.rows(flat, order[:number])


def random_positions(game: Game, key: jax.Array, number: int) -> GameState:
    """Positions drawn uniformly from the whole space, without finished and illegal ones: at most `number`.

    Hex: all placements of equally many stones, or one more of Black's. Chinese Checkers: all placements of the
    pieces, either player to move. Dots and Boxes: all sets of lines, with owners of the finished boxes and a player to
    move drawn too. Other games: positions of random play.
    """
    if isinstance(game, Hex):
        states = _random_hex(game, key, number)
    elif isinstance(game, ChineseCheckers):
        states = jax.tree.map(np.asarray, random_states(game, key, number))
        illegal = position_sets.in_parts(jax.jit(jax.vmap(game.is_illegal)), states)
        states = position_sets.rows(states, ~illegal)
    elif isinstance(game, DotsAndBoxes):
        states = _random_lines(game, key, number)
    else:
        return random_play_positions(game, key, number)
    return position_sets.rows(states, ~position_sets.is_over(game, states))


def _late_enough(game: Game, plies: np.ndarray) -> np.ndarray:
    if isinstance(game, Hex) and game.size >= SEARCHED_SIZE:
        return plies >= game.size**2 // 3
    if isinstance(game, DotsAndBoxes):
        return game.num_actions - plies <= _OPEN_LINES
    return np.ones(len(plies), bool)


def _random_hex(game: Hex, key: jax.Array, number: int) -> GameState:
    cells = game.size**2
    # So many placements there are for each number of stones.
    weight = np.array(
        [math.comb(cells, stones) * math.comb(stones, stones // 2) for stones in range(cells)], float
    )
    draw_key, key = jax.random.split(key)
    draw = np.random.default_rng(int(jax.random.bits(draw_key)))
    stones = draw.choice(cells, number, p=weight / weight.sum())
    batches = []
    # All orders of laying the same stones are equally likely, so random play until then is a uniform draw.
    for begin, part_key in zip(range(0, number, 4096), jax.random.split(key, -(-number // 4096))):
        some_stones = stones[begin : begin + 4096]
        states, _ = position_sets.random_games(
            dataclasses.replace(game, swap=False), part_key, len(some_stones)
        )
        batches.append(position_sets.rows(states, (np.arange(len(some_stones)), some_stones)))
    return position_sets.concatenate(batches)


def _random_lines(game: DotsAndBoxes, key: jax.Array, number: int) -> GameState:
    draw = np.random.default_rng(int(jax.random.bits(key)))
    lines = draw.random((number, game.num_actions)) < 0.5
    done = lines[:, box_sides(game.rows, game.columns)].all(axis=2)
    owners = np.where(done, draw.choice([-1, 1], done.shape), 0).astype(np.int8)
    return DotsAndBoxesState(lines, owners, draw.integers(0, 2, number).astype(np.int32))
