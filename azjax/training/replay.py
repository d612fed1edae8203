"""The replay ring: finished positions on device, oldest overwritten first.

Self-play appends whole games; the learner samples positions from the newest ones. Positions are stored as
compact game states; the learner rebuilds observations and masks from them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from azjax.positions.labelled import forget

_LARGE = 2**30  # counters from here on are made smaller before more is written


class StoredPosition(NamedTuple):
    """A position of a finished game, and what is to be learned about it; seen by its player to move."""

    state: Any  # the game's own state
    policy: jax.Array  # [actions] target over the board's actions
    policy_weight: jax.Array  # [] 0 where the search was too short to teach a policy, else 1
    value: jax.Array  # [] target
    outcome: jax.Array  # [] how the game ended
    final: Any  # the game's own state at the end, for auxiliary targets; None if nothing needs it


class Ended(NamedTuple):
    """The positions of the games that ended in this iteration, for whoever writes down all of them."""

    states: Any  # [groups, room, ...] without their past
    outcome: jax.Array  # [groups, room] how the game ended, for the player to move
    number: jax.Array  # [groups] int32, how many there are


class Ring(NamedTuple):
    """Rows in order of arrival, oldest overwritten first; several independent rings, one a group of lanes."""

    rows: StoredPosition  # [groups, capacity, ...]
    written: (
        jax.Array
    )  # [groups] int32, positions written, see `rebase`; the write head is written % capacity
    games: (
        jax.Array
    )  # [groups] int32, games written, see `rebase`; the write head of `starts` is games % its length
    starts: jax.Array  # [groups, games kept] int32, the value of `written` when each game began
    ended: Ended | None = None  # None where nobody asks for it

    @property
    def capacity(self) -> int:
        """How many positions a group holds."""
        return self.rows.value.shape[1]


def empty(row: StoredPosition, groups: int, capacity: int, games: int, ended: int = 0) -> Ring:
    """Rings without positions.

    Args:
      row: one position (arrays or shapes), for its shapes and types.
      groups: how many rings.
      capacity: how many positions each holds.
      games: how many games' beginnings each remembers: the largest window in games.
      ended: how many positions of games that end in an iteration each hands out; 0 for none.
    """

    def room(leaves: Any, number: int) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros((groups, number, *leaf.shape), leaf.dtype), leaves)

    handed_out = Ended(room(forget(row.state), ended), room(row.outcome, ended), jnp.zeros(groups, jnp.int32))
    return Ring(
        rows=room(row, capacity),
        written=jnp.zeros(groups, jnp.int32),
        games=jnp.zeros(groups, jnp.int32),
        starts=jnp.zeros((groups, games), jnp.int32),
        ended=handed_out if ended else None,
    )


def begin_iteration(ring: Ring) -> Ring:
    """The same ring before the first ply of an iteration: no game has ended in it."""
    ring = rebase(ring)
    if ring.ended is None:
        return ring
    return ring._replace(ended=ring.ended._replace(number=jnp.zeros_like(ring.ended.number)))


def rebase(ring: Ring) -> Ring:
    """The same ring with smaller counters, once they are large: they would overflow after 2^31 positions.

    A multiple of the capacity is taken away, so that every position keeps its place; what matters of the counters
    otherwise are their differences, and whether the ring is full.
    """
    kept = ring.starts.shape[1]
    fewer = _surplus(ring.written, ring.capacity)
    # A beginning so long ago that it would leave the numbers below, too, has been overwritten anyhow.
    starts = jnp.maximum(ring.starts, fewer[:, None] - _LARGE) - fewer[:, None]
    return ring._replace(
        written=ring.written - fewer, games=ring.games - _surplus(ring.games, kept), starts=starts
    )


def append_game(
    ring: Ring, group: jax.Array, rows: StoredPosition, length: jax.Array, replaces: jax.Array | bool = True
) -> Ring:
    """Writes one game: the first `length` of the rows, in order.

    Args:
      group: [] int32, whose ring.
      rows: [max length, ...].
      length: [] int32; a game without rows leaves no trace.
      replaces: [max length] bool, which rows take the place of an older one; the others are lost where they meet
        one, and the write head moves on all the same (Karki 2024).
    """
    written, games, kept = ring.written[group], ring.games[group], ring.starts.shape[1]
    number = jnp.arange(rows.value.shape[0])
    is_written = (number < length) & (replaces | (written + number < ring.capacity))
    # What is not to be written is sent out of range, where writes are dropped.
    place = jnp.where(is_written, (written + number) % ring.capacity, ring.capacity)
    start = jnp.where(length > 0, games % kept, kept)
    return Ring(
        rows=jax.tree.map(lambda old, new: old.at[group, place].set(new, mode="drop"), ring.rows, rows),
        written=ring.written.at[group].add(length),
        games=ring.games.at[group].add((length > 0).astype(jnp.int32)),
        starts=ring.starts.at[group, start].set(written, mode="drop"),
        ended=None if ring.ended is None else _hand_out(ring.ended, group, rows, length),
    )


def sample(
    ring: Ring, keys: jax.Array, count: int, window_games: int | None = None, by_game: bool = False
) -> StoredPosition:
    """Rows [groups * count, ...] drawn with replacement, `count` from each ring; none may be empty.

    Args:
      keys: [groups].
      window_games: how many of the newest games to draw from; None for all positions in the ring.
      by_game: draw a game, then a position in it, so that short games weigh as much as long ones
        (Jacobsen 2019); else all positions alike. Needs `window_games`.
    """

    def draw(key, written, games, starts):
        oldest = jnp.maximum(0, written - ring.capacity)
        if window_games is None:
            return jax.random.randint(key, (count,), oldest, written)
        first_game = jnp.maximum(0, games - window_games)
        if not by_game:
            first = jnp.maximum(oldest, starts[first_game % starts.shape[0]])
            return jax.random.randint(key, (count,), first, written)
        game_key, key = jax.random.split(key)
        game = jax.random.randint(game_key, (count,), first_game, games)
        end = jnp.where(game + 1 == games, written, starts[(game + 1) % starts.shape[0]])
        begin = jnp.clip(starts[game % starts.shape[0]], oldest, end - 1)
        return jax.random.randint(key, (count,), begin, end)

    return take(ring, jax.vmap(draw)(keys, ring.written, ring.games, ring.starts) % ring.capacity)


def take(ring: Ring, places: jax.Array) -> StoredPosition:
    """Rows [groups * count, ...] that stand at places [groups, count]."""
    group = jnp.arange(places.shape[0])[:, None]
    return jax.tree.map(
        lambda column: column[group, places].reshape(places.size, *column.shape[2:]), ring.rows
    )


def shuffled(ring: Ring, keys: jax.Array, count: int) -> jax.Array:
    """Places [groups, count] drawn without replacement: none comes again before all that are filled have come.

    Args:
      keys: [groups].
      count: of each group, none of which may be empty.
    """

    def draw(key, written):
        filled = jnp.minimum(written, ring.capacity)
        rank = jax.random.uniform(key, (ring.capacity,))
        order = jnp.argsort(jnp.where(jnp.arange(ring.capacity) < filled, rank, jnp.inf))
        return order[jnp.arange(count) % filled]

    return jax.vmap(draw)(keys, ring.written)


def _hand_out(ended: Ended, group: jax.Array, rows: StoredPosition, length: jax.Array) -> Ended:
    """With the first `length` of the rows; here all are kept, whatever the ring does with them."""
    number = jnp.arange(rows.value.shape[0])
    room = ended.outcome.shape[1]
    place = jnp.where(number < length, ended.number[group] + number, room)
    states, outcome = jax.tree.map(
        lambda old, new: old.at[group, place].set(new, mode="drop"),
        (ended.states, ended.outcome),
        (forget(rows.state), rows.outcome),
    )
    return Ended(states, outcome, ended.number.at[group].add(length))


def _surplus(count: jax.Array, period: int) -> jax.Array:
    """What to take from a counter so that it stays the same modulo a period, and at least as large as that."""
    return jnp.where(count >= _LARGE, (count // period - 1) * period, 0)
