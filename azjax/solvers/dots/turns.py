"""Dots and Boxes with whole turns as moves, so that a search looks a turn ahead where it looked a line ahead.

Whoever can capture takes everything and then draws one more line; or, if a chain or a loop allows it, takes all but the
last two boxes of a chain (four of a loop) and ends the turn with the line that closes these off: the double deal. That
these two ways are enough, and which lines need not be looked at, are the results of Berlekamp and of Barker and Korf
2012 that Peters 2018 builds its move sequences on; on boards small enough for tables the tests try every position.

A move is the number of the line that ends the turn, after all captures; the one number beyond the lines stands for the
double deal, or for capturing all that there is where nothing is left to be drawn then.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from azjax.envs.core import PlainGame
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, box_sides, strings_and_coins
from azjax.solvers.dots import chains


class Ways(NamedTuple):
    """How a turn can be played out of a position."""

    after: jax.Array  # [lines] bool, drawn after all captures
    last: jax.Array  # [lines] bool, lines that may end the turn then
    deal: jax.Array  # [lines] bool, drawn after a double deal; as before the turn if there is none
    has_deal: jax.Array  # [] bool


@dataclasses.dataclass(frozen=True)
class Turns(PlainGame):
    """The rules of a board, a turn a move; positions are those of the board."""

    board: DotsAndBoxes

    name: ClassVar[str] = "dots_and_boxes_turns"
    version: ClassVar[str] = "1"

    @property
    def num_actions(self) -> int:
        """The lines, and one for what is no single line."""
        return self.board.num_actions + 1

    @property
    def max_plies(self) -> int:
        """A turn draws a line at least."""
        return self.board.max_plies

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """As the board has it."""
        return self.board.observation_shape

    def init(self, key: jax.Array | None = None) -> DotsAndBoxesState:
        """The empty board."""
        return self.board.init(key)

    def step(self, x: DotsAndBoxesState, action: jax.Array) -> DotsAndBoxesState:
        """The position after a turn; a finished game stays as it is."""
        return play_turn(self.board, x, ways(self.board, x.lines), action)

    def legal_action_mask(self, x: DotsAndBoxesState) -> jax.Array:
        """[lines + 1] bool."""
        return turn_mask(x.lines, ways(self.board, x.lines))

    def observe(self, x: DotsAndBoxesState, player: jax.Array | None = None) -> jax.Array:
        """As the board shows it."""
        return self.board.observe(x, player)

    def is_terminal(self, x: DotsAndBoxesState) -> jax.Array:
        """[] bool: every line is drawn."""
        return self.board.is_terminal(x)

    def rewards(self, x: DotsAndBoxesState) -> jax.Array:
        """[2] float32, as on the board."""
        return self.board.rewards(x)

    def to_text(self, x: DotsAndBoxesState) -> str:
        """The board."""
        return self.board.to_text(x)


def ways(board: DotsAndBoxes, lines: jax.Array) -> Ways:
    """The ways to play a turn after the drawn lines, [lines] bool."""
    after = chains.capture_all(board, lines)
    last = _last_lines(board, after)
    leave = _lines_to_leave(board, lines, after)
    has_deal = jnp.any(leave) & jnp.any(last)
    return Ways(after, last, jnp.where(has_deal, after & ~leave, lines), has_deal)


def turn_mask(lines: jax.Array, way: Ways) -> jax.Array:
    """[lines + 1] bool: the turns that a position has."""
    takes_the_rest = jnp.all(way.after) & ~jnp.all(lines)
    return jnp.append(way.last, way.has_deal | takes_the_rest)


def play_turn(board: DotsAndBoxes, x: DotsAndBoxesState, way: Ways, action: jax.Array) -> DotsAndBoxesState:
    """The position after a turn, of those that the mask allows."""
    number = jnp.arange(board.num_actions)
    everything = jnp.all(way.after)
    drawn = jnp.where(action < board.num_actions, way.after | (number == action), way.deal)
    drawn = jnp.where(everything, way.after, drawn)
    complete = jnp.all(drawn[box_sides(board.rows, board.columns)], axis=1)
    owner = (1 - 2 * x.current_player).astype(jnp.int8)
    return DotsAndBoxesState(
        drawn,
        jnp.where(complete & (x.owners == 0), owner, x.owners),
        jnp.where(everything, x.current_player, 1 - x.current_player),
    )


def first_line(lines: jax.Array, capturing: jax.Array, way: Ways, action: jax.Array) -> jax.Array:
    """[] int32: the line that a turn begins with, so that a double deal stays possible as long as can be.

    Args:
      lines: [lines] bool, drawn before it.
      capturing: [lines] bool, those that complete a box.
      way: of the position.
      action: the turn.
    """
    number = len(lines)
    in_both = capturing & way.deal
    deals = way.has_deal & (action == number)
    closing = way.deal & ~lines  # without captures in it, this is the line that ends a double deal
    captures = jnp.where(jnp.any(in_both), in_both, jnp.where(deals, closing, capturing))
    return jnp.where(jnp.any(capturing), jnp.argmax(captures), jnp.minimum(action, number - 1)).astype(
        jnp.int32
    )


def turn_evaluator(board: DotsAndBoxes, evaluate: Callable) -> Callable:
    """An evaluator of lines as one of turns: a turn is as likely as its lines are on average (Peters 2018).

    Args:
      board: the rules.
      evaluate: (params, key, states) -> logits [batch, lines], value [batch].
    """

    def likelihood(x: DotsAndBoxesState, chances: jax.Array) -> jax.Array:
        way = ways(board, x.lines)
        captured = way.after & ~x.lines
        number, mass = jnp.sum(captured), jnp.sum(chances * captured)
        dealt = jnp.where(way.has_deal, way.deal & ~x.lines, captured)
        rest = jnp.sum(chances * dealt) / jnp.maximum(jnp.sum(dealt), 1)
        return jnp.append((mass + chances) / (number + 1), rest)

    def of_turns(params: Any, key: jax.Array, states: DotsAndBoxesState) -> tuple[jax.Array, jax.Array]:
        logits, value = evaluate(params, key, states)
        chances = jax.vmap(likelihood)(states, jax.nn.softmax(logits))
        return jnp.log(jnp.maximum(chances, 1e-30)), value

    return of_turns


def first_lines(board: DotsAndBoxes, states: DotsAndBoxesState, actions: jax.Array) -> jax.Array:
    """[batch] int32: the lines that turns begin with; 0 where the game is over."""

    def first(x: DotsAndBoxesState, action: jax.Array) -> jax.Array:
        return first_line(x.lines, chains.capturing_lines(board, x.lines), ways(board, x.lines), action)

    return jnp.where(jnp.all(states.lines, axis=1), 0, jax.vmap(first)(states, actions))


def by_lines(board: DotsAndBoxes, search: Callable) -> Callable:
    """A search over turns as one over lines: what it says of a turn it says of the line that this begins with.

    Args:
      board: the rules.
      search: (params, key, states) -> a NamedTuple as `azjax.search.SearchOutput`, over the moves of `Turns`.
    """
    every = jnp.arange(board.num_actions + 1, dtype=jnp.int32)

    def of_lines(params: Any, key: jax.Array, states: DotsAndBoxesState) -> Any:
        found = search(params, key, states)
        each = jax.vmap(
            lambda x: first_lines(board, jax.tree.map(lambda leaf: jnp.stack([leaf] * len(every)), x), every)
        )
        begins = jnp.where(
            found.visits + found.policy > 0, each(states), board.num_actions
        )  # others are dropped
        lane = jnp.arange(len(begins))[:, None]

        def summed(column: jax.Array) -> jax.Array:
            empty = jnp.zeros((len(begins), board.num_actions), column.dtype)
            return empty.at[lane, begins].add(column, mode="drop")

        best = (
            jnp.full((len(begins), board.num_actions), -jnp.inf)
            .at[lane, begins]
            .max(found.qvalues, mode="drop")
        )
        visits = summed(found.visits)
        return found._replace(
            action=first_lines(board, states, found.action),
            policy=summed(found.policy),
            visits=visits,
            qvalues=jnp.where(visits > 0, best, 0.0),
        )

    return of_lines


def _lines_to_leave(board: DotsAndBoxes, lines: jax.Array, after: jax.Array) -> jax.Array:
    """[lines] bool: what a double deal leaves of all captures: one line of a chain, else two of a loop, or none.

    Whichever chain it is, after the opponent has taken the boxes that are left the board is the same.
    """
    sides = jnp.asarray(box_sides(board.rows, board.columns))
    beyond = jnp.asarray(chains.neighbours(board.rows, board.columns))
    taken = (chains.degrees(board, lines) > 0) & (chains.degrees(board, after) == 0)
    is_open = ~lines[sides] & taken[:, None]  # [boxes, 4], as below
    joined = is_open & jnp.append(taken, False)[beyond]
    leads_out = jnp.any(is_open & ~joined, axis=1)

    # A chain: the box where it leads on, and one that is joined to it.
    of_chain = leads_out[:, None] & joined
    # A loop: two joined boxes, each of them joined to one more.
    inner = jnp.append(jnp.sum(joined, axis=1) >= 2, False)
    of_loop = joined & inner[:-1, None] & inner[beyond]

    number = jnp.arange(len(lines))
    box, side = jnp.divmod(jnp.argmax(of_chain), 4)
    one = number == sides[box, side]
    box, side = jnp.divmod(jnp.argmax(of_loop), 4)
    other = beyond[box, side]
    near = jnp.argmax(joined[box] & (jnp.arange(4) != side))
    far = jnp.argmax(joined[other] & (sides[other] != sides[box, side]))
    two = (number == sides[box, near]) | (number == sides[other, far])
    return jnp.where(jnp.any(of_chain), one, jnp.any(of_loop) & two)


def _last_lines(board: DotsAndBoxes, after: jax.Array) -> jax.Array:
    """[lines] bool: the lines that matter where nothing can be captured: safe ones, and one for each chain.

    All lines of a chain are alike, but in the middle a chain of two cannot be double-dealt. So the first inner line
    stands for it. Of several lines of a box at the border, one stands for all.
    """
    ends = strings_and_coins(board.rows, board.columns)
    ground = board.num_boxes
    number = jnp.arange(len(after), dtype=jnp.int32)
    none = len(after)

    def first_of(names: jax.Array, members: jax.Array) -> jax.Array:
        # [boxes + 1] int32: the first of the member lines of each name.
        return jnp.full(ground + 1, none, jnp.int32).at[names].min(jnp.where(members, number, none))

    at_border = jnp.asarray(ends.max(axis=1) == ground) & ~after
    box = jnp.asarray(ends.min(axis=1))
    is_alike = at_border & (first_of(box, at_border)[box] < number)
    safe = chains.safe_lines(board, after) & ~is_alike

    name = jnp.append(chains.open_chains(board, after).chain, -1)[ends]  # [lines, 2]
    chain = jnp.max(name, axis=1)
    opens = ~after & (chain >= 0)
    inner = opens & (name[:, 0] == name[:, 1])
    place = jnp.where(opens, chain, ground)
    first_inner, first = first_of(place, inner)[place], first_of(place, opens)[place]
    return safe | (opens & (number == jnp.where(first_inner < none, first_inner, first)))
