"""Self-play: many games side by side, none of them ever waiting.

Each lane of the batch plays its own game. When that ends, its positions go to the replay ring with their true
outcome, and a new game starts in the lane at once; what is unfinished carries over to the next call. So every
position played is stored exactly once, and every stored position belongs to a finished game. Or else every lane plays
one game to its end, and waits for the others, as Jacobsen (2019) has it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from azjax.envs import indexing
from azjax.envs.core import Game, GameState
from azjax.search import Search, SearchOutput
from azjax.search.tree import AnyParams, split_key
from azjax.training import replay

ChooseAction = Callable[[jax.Array, SearchOutput, jax.Array, jax.Array], jax.Array]
"""(keys [lanes], search output, ply [lanes], legal [lanes, actions]) -> action [lanes]."""


class Openings(NamedTuple):
    """Positions to start games from, drawn uniformly but for the first."""

    states: Any  # [openings, ...]
    plies: jax.Array  # [openings] int32, how many moves led there
    first_weight: int = 1  # how many times as often as any other the first is drawn


class Moment(NamedTuple):
    """What self-play remembers of a position until its game is over."""

    state: Any
    policy: jax.Array  # [actions]
    policy_weight: jax.Array  # []
    root_value: jax.Array  # [] what the search found, for the player to move


class PlayedMoment(NamedTuple):
    """The same with the move that was played, where something is to be learned of it."""

    state: Any
    policy: jax.Array  # [actions]
    policy_weight: jax.Array  # []
    root_value: jax.Array  # []
    action: jax.Array  # [] int32


class Lanes(NamedTuple):
    """The games under way."""

    state: Any  # [lanes, ...]
    ply: jax.Array  # [lanes] int32, moves made in the game, forced ones included
    length: jax.Array  # [lanes] int32, moments remembered of it
    moments: Moment | PlayedMoment  # [lanes, max_plies, ...]
    key: jax.Array  # [lanes] each lane has its own stream, so that it does not matter which device runs it


OwnTargets = Callable[[Moment, GameState, jax.Array], Any]
"""(moments [plies, ...] of one finished game, its end, how many plies count) -> a tree of arrays [plies, ...]."""


class Counts(NamedTuple):
    """What happened; sums over lanes and plies."""

    positions: jax.Array  # [] int32, moves searched
    games: jax.Array  # [] int32, games finished
    game_plies: jax.Array  # [] int32, the lengths of those
    first_player_score: jax.Array  # [] float32, 1 a win of player 0, half a draw
    draws: jax.Array  # [] int32


def no_counts() -> Counts:
    """Of an iteration in which nothing happens."""
    return Counts(jnp.int32(0), jnp.int32(0), jnp.int32(0), jnp.float32(0), jnp.int32(0))


def standard_opening(game: Game) -> Openings:
    """The starting position alone."""
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 1))
    return Openings(start, jnp.zeros(1, jnp.int32))


def start(
    game: Game,
    openings: Openings,
    keys: jax.Array,
    policy_dtype: Any = jnp.float32,
    with_actions: bool = False,
) -> Lanes:
    """New games in all lanes.

    Args:
      game: the rules.
      openings: where they start.
      keys: [lanes].
      policy_dtype: in which policies are remembered.
      with_actions: whether the moves played are remembered too.
    """
    keys, opening_keys = split_key(keys, 2)
    state, ply = _new_games(openings, opening_keys)
    lanes = keys.shape[0]
    moment = Moment(
        state=jax.tree.map(lambda s: s[0], state),
        policy=jnp.zeros(game.num_actions, policy_dtype),
        policy_weight=jnp.float32(0),
        root_value=jnp.float32(0),
    )
    if with_actions:
        moment = PlayedMoment(*moment, action=jnp.int32(0))
    moments = jax.tree.map(lambda leaf: jnp.zeros((lanes, game.max_plies, *leaf.shape), leaf.dtype), moment)
    return Lanes(state, ply, jnp.zeros(lanes, jnp.int32), moments, keys)


def play(
    game: Game,
    search: Search,
    choose_action: ChooseAction,
    value_targets: Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array],
    openings: Openings,
    params: AnyParams,
    lanes: Lanes,
    ring: replay.Ring,
    plies: int | None,
    overwrite: float = 1.0,
    own_targets: OwnTargets | None = None,
) -> tuple[Lanes, replay.Ring, Counts]:
    """Plays `plies` moves in every lane, or one game in every lane.

    Args:
      game: the rules.
      search: what moves; it is given one key per lane.
      choose_action: what is played of it, such as a sample of the visits early in a game.
      value_targets: for one game, (outcomes [plies], root values [plies], players [plies], length) ->
        targets [plies]; see `azjax.training.targets`.
      openings: where new games start.
      params: of the search's network.
      lanes: the games under way.
      ring: receives the finished ones; each of its groups serves an equal share of the lanes, in order.
      plies: how many moves; None for the game that stands in the lane, to its end.
      overwrite: the chance that a position takes an old one's place in a full ring.
      own_targets: what else to store of a finished game, for an own loss.
    """

    def is_over(lanes: Lanes) -> jax.Array:
        return jax.vmap(game.is_terminal)(lanes.state)

    def ply(carry, _):
        before, ring, counts = carry
        key, search_key, action_key, opening_key, overwrite_key = split_key(before.key, 5)
        output = search(params, search_key, before.state)
        legal = jax.vmap(game.legal_action_mask)(before.state)
        action = choose_action(action_key, output, before.ply, legal)
        lanes = _remember(before, output, action)
        with jax.named_scope("rules"):
            state = jax.vmap(game.step)(lanes.state, action)
            over = jax.vmap(game.is_terminal)(state)
        lanes = lanes._replace(state=state, ply=lanes.ply + 1, key=key)
        if plies is None:  # what has ended before waits, and what it remembers behind its end is never read
            waits = is_over(before)
            over &= ~waits
            lanes = _where(waits, before, lanes)
            counts = counts._replace(positions=counts.positions - jnp.sum(waits))
        ring = _store_finished(game, value_targets, own_targets, lanes, over, ring, overwrite, overwrite_key)
        counts = _count(counts, lanes, over, jax.vmap(game.rewards)(lanes.state)[:, 0])
        if plies is not None:
            lanes = _renewed(openings, lanes, over, opening_key)
        return (lanes, ring, counts), None

    carry = (lanes, replay.begin_iteration(ring), no_counts())
    if plies is not None:
        (lanes, ring, counts), _ = jax.lax.scan(ply, carry, None, plies)
        return lanes, ring, counts
    lanes, ring, counts = jax.lax.while_loop(
        lambda carry: ~jnp.all(is_over(carry[0])), lambda carry: ply(carry, None)[0], carry
    )
    key, opening_key = split_key(lanes.key, 2)
    everywhere = jnp.ones(lanes.ply.shape, bool)
    return _renewed(openings, lanes._replace(key=key), everywhere, opening_key), ring, counts


def _renewed(openings: Openings, lanes: Lanes, over: jax.Array, keys: jax.Array) -> Lanes:
    """The lanes with new games where `over` [lanes]."""
    state, ply = _new_games(openings, keys)
    return _where(over, lanes._replace(state=state, ply=ply, length=jnp.zeros_like(lanes.length)), lanes)


def _where(chosen: jax.Array, these: Lanes, others: Lanes) -> Lanes:
    """The games of `these` lanes where `chosen` [lanes], else the others'; moments and keys are the others'."""

    def choose(this, other):
        return jnp.where(chosen.reshape(-1, *(1,) * (other.ndim - 1)), this, other)

    return others._replace(
        state=jax.tree.map(choose, these.state, others.state),
        ply=choose(these.ply, others.ply),
        length=choose(these.length, others.length),
    )


def _new_games(openings: Openings, keys: jax.Array) -> tuple[GameState, jax.Array]:
    more = openings.first_weight - 1
    count = openings.plies.shape[0] + more
    row = jnp.maximum(jax.vmap(lambda key: jax.random.randint(key, (), 0, count))(keys) - more, 0)
    return jax.tree.map(lambda s: s[row], openings.states), openings.plies[row]


@jax.named_scope("storing")
def _remember(lanes: Lanes, output: SearchOutput, action: jax.Array) -> Lanes:
    lane = jnp.arange(lanes.ply.shape[0])
    policy = output.policy.astype(lanes.moments.policy.dtype)
    moment = Moment(lanes.state, policy, output.complete.astype(jnp.float32), output.value)
    if isinstance(lanes.moments, PlayedMoment):
        moment = PlayedMoment(*moment, action=action)

    def put(column, new):
        if new.ndim == 1:  # single numbers; the others are rows
            return jax.vmap(indexing.put)(column, lanes.length, new)
        return column.at[lane, lanes.length].set(new)

    return lanes._replace(moments=jax.tree.map(put, lanes.moments, moment), length=lanes.length + 1)


@jax.named_scope("storing")
def _store_finished(
    game,
    value_targets,
    own_targets: OwnTargets | None,
    lanes: Lanes,
    over: jax.Array,
    ring: replay.Ring,
    overwrite: float,
    keys: jax.Array,
) -> replay.Ring:
    """Appends the games of the lanes that are over, one after the other; `keys` [lanes] say what they overwrite."""
    rows = jax.vmap(
        lambda lane, length: _finished_game(
            game, value_targets, own_targets, lane, length, ring.rows.final is not None
        )
    )((lanes.moments, lanes.state), lanes.length)
    replaces = True
    if overwrite < 1:
        plies = rows.value.shape[1:]
        replaces = jax.vmap(lambda key: jax.random.bernoulli(key, overwrite, plies))(keys)
    return replay.append_games(ring, rows, jnp.where(over, lanes.length, 0), replaces)


def _finished_game(
    game,
    value_targets,
    own_targets: OwnTargets | None,
    lane: tuple[Moment | PlayedMoment, GameState],
    length: jax.Array,
    with_final: bool,
) -> replay.AnyPosition:
    """The positions [max_plies, ...] of the game that has just ended in a lane, of its moments and its end."""
    moments, final = lane
    players = moments.state.current_player
    rewards = game.rewards(final)
    outcomes = jnp.where(players == 0, rewards[0], rewards[1])
    plies = players.shape[0]
    position = replay.StoredPosition(
        state=moments.state,
        policy=moments.policy,
        policy_weight=moments.policy_weight,
        value=value_targets(outcomes, moments.root_value, players, length),
        outcome=outcomes,
        final=jax.tree.map(lambda s: jnp.broadcast_to(s, (plies, *s.shape)), final) if with_final else None,
    )
    own = None if own_targets is None else own_targets(moments, final, length)
    return replay.extended(position, getattr(moments, "action", None), own)


def _count(counts: Counts, lanes: Lanes, over: jax.Array, result: jax.Array) -> Counts:
    return Counts(
        positions=counts.positions + over.shape[0],
        games=counts.games + jnp.sum(over),
        game_plies=counts.game_plies + jnp.sum(jnp.where(over, lanes.ply, 0)),
        first_player_score=counts.first_player_score
        + jnp.sum(jnp.where(over, (jnp.sign(result) + 1) / 2, 0.0)),
        draws=counts.draws + jnp.sum(over & (result == 0)),
    )
