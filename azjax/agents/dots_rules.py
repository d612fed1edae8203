"""Rule-based players of Dots and Boxes: the three levels of KSquares, as Peters 2018 describes them.

All capture what they can, and draw a safe line, one that gives no box away, while there is one. They differ in
the endgame, where every line opens a chain:

    easy     opens any
    medium   opens one that gives away the fewest lines
    hard     does so too, but opens a chain of two boxes in the middle, so that the opponent cannot double-deal; and
             double-deals itself: once all that is left to capture is the last two boxes of a chain (four of a
             loop) and only long chains and loops remain, it leaves these to the opponent, who then has to open

A player is a set of equally good lines, one of which is drawn at random. Everything here is a pure function of
the drawn lines, [lines] bool.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common.agent import Act, Agent
from azjax.envs.core import GameState, random_action
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, box_sides, strings_and_coins
from azjax.solvers.dots import chains

LEVELS = ("easy", "medium", "hard")

_BITS = 32
_NOTHING = 10**6  # more than any number of lines


def make_agent(game: DotsAndBoxes, level: str) -> Agent:
    """The player of a level, one of `LEVELS`."""
    return Agent(level, make_act(game, level))


def make_act(game: DotsAndBoxes, level: str) -> Act:
    """How the player of a level moves; needs no parameters."""
    choices = make_choices(game, level)

    def act(params, key: jax.Array, states: GameState) -> jax.Array:
        del params
        return random_action(key, jax.vmap(choices)(states.lines))

    return act


def make_playout(game: DotsAndBoxes, level: str) -> Callable[[DotsAndBoxesState, jax.Array], jax.Array]:
    """(positions [batch, ...], key) -> [batch, 2] rewards of games that a level plays to their ends."""
    act = make_act(game, level)

    def unfinished(carry):
        return ~jnp.all(carry[0].lines)

    def ply(carry):
        states, key = carry
        key, move_key = jax.random.split(key)
        return jax.vmap(game.step)(states, act((), move_key, states)), key

    def playout(states: DotsAndBoxesState, key: jax.Array) -> jax.Array:
        return jax.vmap(game.rewards)(jax.lax.while_loop(unfinished, ply, (states, key))[0])

    return playout


def make_choices(game: DotsAndBoxes, level: str) -> Callable[[jax.Array], jax.Array]:
    """The function from the drawn lines [lines] bool to those that the level may draw next, [lines] bool."""
    of_level = {"easy": _easy, "medium": _medium, "hard": _hard}[level]
    return lambda lines: of_level(game, lines)


def damage(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    """[lines] int32: how many lines the opponent can draw in one go of captures after each line is drawn.

    For positions in which nothing can be captured yet; 0 for safe lines, without meaning for drawn ones. Every line
    of a chain gives all of it away, and perhaps a box at which both its ends meet and what lies beyond. So all
    chains are opened at once, each on its own copy of the board: a copy is one bit of a word.
    """
    name = chains.open_chains(game, lines).chain
    words = -(-game.num_boxes // _BITS)
    place = jnp.arange(words * _BITS).reshape(words, _BITS)
    bit = jnp.uint32(1) << jnp.arange(_BITS, dtype=jnp.uint32)
    copies = jnp.sum(
        jnp.where(name[:, None, None] == place, bit, 0), axis=-1, dtype=jnp.uint32
    )  # [boxes, words]
    ends = strings_and_coins(game.rows, game.columns)
    with_ground = jnp.concatenate([copies, jnp.zeros((1, words), jnp.uint32)])
    opened = with_ground[ends[:, 0]] | with_ground[ends[:, 1]]
    drawn = jnp.where(lines[:, None], ~jnp.uint32(0), opened)
    drawn = _capture_all_copies(game, drawn)
    number = jnp.sum((drawn[..., None] >> jnp.arange(_BITS, dtype=jnp.uint32)) & 1, axis=0, dtype=jnp.int32)
    given = number.reshape(-1) - jnp.sum(lines, dtype=jnp.int32) - 1  # by the chain's name
    chain = jnp.max(jnp.append(name, -1)[ends], axis=1)
    return jnp.where(chain >= 0, given[chain], 0)


def _easy(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    return _first_possible(chains.capturing_lines(game, lines), chains.safe_lines(game, lines), ~lines)


def _medium(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    capturing = chains.capturing_lines(game, lines)
    return _first_possible(capturing, chains.safe_lines(game, lines), _cheapest(~lines, damage(game, lines)))


def _hard(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    position = chains.analyse(game, lines)
    taken = position.capturable.chain >= 0
    own_boxes = jnp.sum(taken)
    own_lines = jnp.sum(position.after) - jnp.sum(lines)
    # Of all that can be captured, the shortest chain first: what is left last should be worth a double deal.
    length = jnp.where(
        position.capturable.size > 0, position.capturable.size - position.capturable.closed, _NOTHING
    )
    shortest = taken & (length[position.capturable.chain] == jnp.min(length))
    in_shortest = ~lines & _beside(game, shortest)

    cost = damage(
        game, position.after
    )  # a chain costs at least 3 if it is long or a loop, a safe line nothing
    least = jnp.min(jnp.where(position.after, _NOTHING, cost))
    only_long_chains_left = (least >= 3) & (least < _NOTHING)
    end_of_chain = (own_lines == 2) | ((own_lines == 3) & (own_boxes == 4))
    deal = in_shortest & _leaves_a_pair(game, lines) & only_long_chains_left & end_of_chain
    degree = chains.degrees(game, lines)
    middle = ~lines & (cost == 2) & (least == 2) & ~_beside(game, degree != 2, ground=True)
    return _first_possible(
        deal, position.capturing & in_shortest, position.safe, middle, _cheapest(~lines, cost)
    )


def _first_possible(*choices: jax.Array) -> jax.Array:
    # The first of some sets of lines that is not empty; the last one otherwise.
    chosen = choices[-1]
    for choice in reversed(choices[:-1]):
        chosen = jnp.where(jnp.any(choice), choice, chosen)
    return chosen


def _cheapest(candidates: jax.Array, cost: jax.Array) -> jax.Array:
    return candidates & (cost == jnp.min(jnp.where(candidates, cost, _NOTHING)))


def _beside(game: DotsAndBoxes, boxes: jax.Array, ground: bool = False) -> jax.Array:
    # [lines] bool: is one of these boxes beside the line, or (if so asked) the ground?
    return jnp.any(jnp.append(boxes, ground)[strings_and_coins(game.rows, game.columns)], axis=1)


def _leaves_a_pair(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    # [lines] bool: beside the line is a box with one other open side, towards a box that has just this one. Once
    # the line is drawn, that side completes both.
    sides = box_sides(game.rows, game.columns)
    ends = strings_and_coins(game.rows, game.columns)
    neighbour = (
        ends[sides].sum(axis=2) - np.arange(game.num_boxes)[:, None]
    )  # [boxes, 4]; the ground is the last
    degree = chains.degrees(game, lines)
    to_last_side = ~lines[sides] & (jnp.append(degree, 0)[neighbour] == 1)
    others = jnp.sum(to_last_side, axis=1, keepdims=True) - to_last_side
    leaves = (degree == 2)[:, None] & ~lines[sides] & (others > 0)
    return jnp.zeros_like(lines).at[sides.ravel()].max(leaves.ravel())


def _capture_all_copies(game: DotsAndBoxes, drawn: jax.Array) -> jax.Array:
    """All captures of one turn, on many boards at once.

    Args:
      drawn: [lines, words] uint32: a bit is a board, and tells whether the line is drawn there.
    """
    rows, columns, words = game.rows, game.columns, drawn.shape[-1]
    split = (rows + 1) * columns

    def spread(carry):
        drawn, _ = carry
        horizontal = drawn[:split].reshape(rows + 1, columns, words)
        vertical = drawn[split:].reshape(rows, columns + 1, words)
        a, b, c, d = horizontal[:-1], horizontal[1:], vertical[:, :-1], vertical[:, 1:]
        one_open = (a & b & (c ^ d)) | ((a ^ b) & c & d)
        above_below = jnp.pad(one_open, ((1, 1), (0, 0), (0, 0)))
        left_right = jnp.pad(one_open, ((0, 0), (1, 1), (0, 0)))
        horizontal = horizontal | above_below[:-1] | above_below[1:]
        vertical = vertical | left_right[:, :-1] | left_right[:, 1:]
        drawn = jnp.concatenate([horizontal.reshape(split, words), vertical.reshape(-1, words)])
        return drawn, jnp.any(one_open != 0)

    drawn, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (drawn, jnp.bool_(True)))
    return drawn
