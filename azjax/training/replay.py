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


class ExtendedPosition(NamedTuple):
    """The same with what few runs learn from; apart, so that the checkpoints of all others have no such fields."""

    state: Any
    policy: jax.Array  # [actions]
    policy_weight: jax.Array  # []
    value: jax.Array  # []
    outcome: jax.Array  # []
    final: Any
    action: jax.Array | None  # [] int32, the move played; None unless the network says what moves are worth
    own: Any  # what own targets made of its game, for an own loss; None without them


AnyPosition = StoredPosition | ExtendedPosition


def extended(position: StoredPosition, action: jax.Array | None, own: Any) -> AnyPosition:
    """The position with these, if there is either."""
    if action is None and own is None:
        return position
    return ExtendedPosition(*position, action=action, own=own)


class Ended(NamedTuple):
    """The positions of the games that ended in this iteration, for whoever writes down all of them."""

    states: Any  # [groups, room, ...] without their past
    outcome: jax.Array  # [groups, room] how the game ended, for the player to move
    number: jax.Array  # [groups] int32, how many there are


class Ring(NamedTuple):
    """Rows in order of arrival, oldest overwritten first; several independent rings, one per group of lanes."""

    rows: AnyPosition  # [groups, capacity, ...]
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


def empty(row: AnyPosition, groups: int, capacity: int, games: int, ended: int = 0) -> Ring:
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


def append_games(ring: Ring, rows: AnyPosition, length: jax.Array, replaces: jax.Array | bool = True) -> Ring:
    """Writes games one behind the other, those of the first lanes first, each into the ring of its lane's group.

    Args:
      rows: [lanes, max length, ...]; every group has an equal share of the lanes, in order.
      length: [lanes] int32, how many of its rows each game has; one without rows leaves no trace.
      replaces: [lanes, max length] bool, which rows take the place of an older one; the others are lost where they meet
        one, and the write head moves on all the same (Karki 2024).
    """
    (groups, kept), lanes = ring.starts.shape, length.shape[0]
    group = jnp.arange(lanes) // (lanes // groups)
    written, start = _behind_each_other(ring.written, length)
    games, number = _behind_each_other(ring.games, (length > 0).astype(jnp.int32))
    # Of more games than are remembered the last ones count; what is sent out of range is not written.
    remembered = (length > 0) & (number >= games[group] - kept)
    starts = ring.starts.at[group, jnp.where(remembered, number % kept, kept)].set(start, mode="drop")
    replaces = jnp.broadcast_to(replaces, rows.value.shape)

    ended = ring.ended
    if ended is not None:
        ended_number, ended_start = _behind_each_other(ended.number, length)

    # All rows in order; as many at once as seldom leave any over, and no place of a ring twice.
    end = jnp.cumsum(length)
    at_once = min(ring.capacity, rows.value.size, max(2 * lanes, rows.value.shape[1]))

    def write_some(carry):
        done, old_rows, handed_out = carry
        order = done + jnp.arange(at_once)
        lane = jnp.searchsorted(end, order, side="right", method="compare_all")
        lane = jnp.minimum(lane, lanes - 1)
        row = order - (end - length)[lane]
        place = start[lane] + row
        is_written = (order < end[-1]) & (replaces[lane, row] | (place < ring.capacity))
        place = jnp.where(is_written, place % ring.capacity, ring.capacity)

        def write(old, new, place):
            return old.at[group[lane], place].set(new[lane, row], mode="drop")

        if ended is not None:  # here all are kept, whatever the ring does with them
            room = ended.outcome.shape[1]
            kept_at = jnp.where(order < end[-1], ended_start[lane] + row, room)
            news = forget(rows.state), rows.outcome
            handed_out = jax.tree.map(lambda old, new: write(old, new, kept_at), handed_out, news)
        return (
            done + at_once,
            jax.tree.map(lambda old, new: write(old, new, place), old_rows, rows),
            handed_out,
        )

    handed_out = None if ended is None else (ended.states, ended.outcome)
    start_of_loop = (jnp.int32(0), ring.rows, handed_out)
    _, all_rows, handed_out = jax.lax.while_loop(lambda carry: carry[0] < end[-1], write_some, start_of_loop)
    if ended is not None:
        ended = Ended(*handed_out, ended_number)
    return Ring(all_rows, written, games, starts, ended)


def sample(
    ring: Ring, keys: jax.Array, count: int, window_games: int | None = None, by_game: bool = False
) -> AnyPosition:
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


def take(ring: Ring, places: jax.Array) -> AnyPosition:
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


def _behind_each_other(heads: jax.Array, sizes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """New heads [groups], and [lanes] where each lane's things begin, if so many [lanes] are put behind the heads."""
    sizes = sizes.reshape(heads.shape[0], -1)
    ends = heads[:, None] + jnp.cumsum(sizes, axis=1)
    return ends[:, -1], (ends - sizes).reshape(-1)


def _surplus(count: jax.Array, period: int) -> jax.Array:
    """What to take from a counter so that it stays the same modulo a period, and at least as large as that."""
    return jnp.where(count >= _LARGE, (count // period - 1) * period, 0)
