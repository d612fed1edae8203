"""Chains of Dots and Boxes: what can be captured, which chains are open, which lines are safe.

Everything but the loony endgames is a pure JAX function of one set of drawn lines, [lines] bool; use
`jax.vmap` for many. A box's degree is the number of its open sides.

A chain is a set of boxes joined by open lines. A capturable chain is one that the player to move can take
box by box; an open chain is made of boxes with two open sides. A chain is closed if no open line leads out
of it: an open chain is then a loop, a capturable one an opened loop or a domino.

Loony endgames consist of independent long chains and loops alone. `loony_value` is their exact value by the
recursion of Berlekamp's theory, `controlled_value` the formula of Buzzard and Ciere 2014 that equals it
wherever it is at least 2.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.dots_and_boxes import DotsAndBoxes, box_sides, strings_and_coins


class Chains(NamedTuple):
    """A partition of some of the boxes into chains. A chain is named by its lowest box."""

    chain: jax.Array  # [boxes] int32: the name of the box's chain, or -1 if it is in none
    size: jax.Array  # [boxes] int32: boxes of the chain of that name; 0 if there is none
    closed: jax.Array  # [boxes] bool: there is a chain of that name, and no open line leads out of it


class Analysis(NamedTuple):
    """What a player knows at a glance about a position."""

    safe: jax.Array  # [lines] bool: open, and drawing it leaves no box with one open side that had two
    capturing: jax.Array  # [lines] bool: drawing it completes a box
    capturable: Chains  # what the player to move can take, now or later in the same turn
    after: jax.Array  # [lines] bool: the drawn lines after all those captures
    open: Chains  # what is left to open after them


def analyse(game: DotsAndBoxes, lines: jax.Array) -> Analysis:
    """Captures, the chains that remain after them, and safe lines."""
    after = capture_all(game, lines)
    taken = (degrees(game, lines) > 0) & (degrees(game, after) == 0)
    return Analysis(
        safe=safe_lines(game, lines),
        capturing=capturing_lines(game, lines),
        capturable=_chains_of(game, lines, taken),
        after=after,
        open=open_chains(game, after),
    )


def count_chains(chains: Chains) -> tuple[jax.Array, jax.Array, jax.Array]:
    """[] int32 each: short chains (one or two boxes), long chains, and closed ones."""
    path = (chains.size > 0) & ~chains.closed
    return (
        jnp.sum(path & (chains.size <= 2), dtype=jnp.int32),
        jnp.sum(path & (chains.size >= 3), dtype=jnp.int32),
        jnp.sum(chains.closed, dtype=jnp.int32),
    )


def degrees(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    """[boxes] int32: the open sides of every box."""
    return jnp.sum(~lines[box_sides(game.rows, game.columns)], axis=1, dtype=jnp.int32)


def capturing_lines(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    """[lines] bool: the open lines that complete a box."""
    return ~lines & _beside(game, degrees(game, lines) == 1)


def safe_lines(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    """[lines] bool: the open lines beside no box with exactly two sides drawn; with none left, chains are opened."""
    return ~lines & ~_beside(game, degrees(game, lines) == 2)


def capture_all(game: DotsAndBoxes, lines: jax.Array) -> jax.Array:
    """[lines] bool: the drawn lines after every capture that one turn can make."""

    def any_capture(lines):
        return jnp.any(degrees(game, lines) == 1)

    return jax.lax.while_loop(any_capture, lambda lines: lines | capturing_lines(game, lines), lines)


def open_chains(game: DotsAndBoxes, lines: jax.Array) -> Chains:
    """The chains of boxes with two open sides. Capture first, or opened chains are among them."""
    return _chains_of(game, lines, degrees(game, lines) == 2)


def loony_value(chains: tuple[int, ...], loops: tuple[int, ...] = ()) -> int:
    """What the player who need not open gains in a loony endgame.

    Whoever is given a component takes all of it and moves on, or leaves the last two boxes of a chain (four
    of a loop), so that the other takes those and moves on. The opener chooses the component.

    Args:
      chains: the lengths of the chains, at least 3 each.
      loops: the lengths of the loops, at least 4 each.
    """
    return _loony_value(tuple(sorted(chains)), tuple(sorted(loops)))


def controlled_value(chains: tuple[int, ...], loops: tuple[int, ...] = ()) -> int:
    """What the player who need not open gains by leaving boxes every time but the last."""
    if not chains and not loops:
        return 0
    if not chains:
        last = 8
    elif loops and max(chains) == 3:
        last = 6
    else:
        last = 4
    return sum(n - 4 for n in chains) + sum(n - 8 for n in loops) + last


@functools.cache
def _loony_value(chains: tuple[int, ...], loops: tuple[int, ...]) -> int:
    if not chains and not loops:
        return 0
    options = []
    for i, n in enumerate(chains):
        options.append(n - 2 + abs(_loony_value(chains[:i] + chains[i + 1 :], loops) - 2))
    for i, n in enumerate(loops):
        options.append(n - 4 + abs(_loony_value(chains, loops[:i] + loops[i + 1 :]) - 4))
    return min(options)


def _beside(game: DotsAndBoxes, boxes: jax.Array) -> jax.Array:
    # [lines] bool: is one of these boxes beside the line?
    with_ground = jnp.append(boxes, False)
    return jnp.any(with_ground[strings_and_coins(game.rows, game.columns)], axis=1)


@functools.cache
def neighbours(rows: int, columns: int) -> np.ndarray:
    """[boxes, 4]: the box beyond each side, in the order of `box_sides`; the ground is number boxes."""
    ends = strings_and_coins(rows, columns)[box_sides(rows, columns)]  # [boxes, 4, 2]
    return ends.sum(axis=2) - np.arange(rows * columns)[:, None]


def _chains_of(game: DotsAndBoxes, lines: jax.Array, members: jax.Array) -> Chains:
    # The components of the member boxes, joined by open lines.
    beyond = neighbours(game.rows, game.columns)
    is_open = ~lines[box_sides(game.rows, game.columns)]
    joined = is_open & members[:, None] & jnp.append(members, False)[beyond]

    def spread(carry):
        # The least name among a box and its neighbours; then the name of that box, to double the reach.
        name, _ = carry
        around = jnp.where(joined, jnp.append(name, game.num_boxes)[beyond], game.num_boxes)
        new = jnp.minimum(name, jnp.min(around, axis=1))
        new = new[new]
        return new, jnp.any(new != name)

    own = jnp.arange(game.num_boxes, dtype=jnp.int32)
    name, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (own, jnp.bool_(True)))
    size = jnp.zeros_like(own).at[name].add(members)
    exits = jnp.zeros_like(own).at[name].add(members * jnp.sum(is_open & ~joined, axis=1, dtype=jnp.int32))
    return Chains(chain=jnp.where(members, name, -1), size=size, closed=(size > 0) & (exits == 0))
