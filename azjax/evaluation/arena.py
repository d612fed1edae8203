"""Matches between agents: thousands of games side by side.

Every opening is played twice, once with each agent as the first player, so that neither colour nor luck of the
opening decides. Nothing explores here unless an agent does so by itself.

All games stand on one table on the device. Agents take turns at it: in a turn the agent moves in games that
wait for it, in chunks of equal width, those with the fewest moves first. So no agent ever thinks about a game where
the other is to move, finished games cost nothing, and it does not matter who moves how often. The host only says
whose turn it is; a program is compiled once for each agent, whomever it meets. Host agents take their turns
at the same table, with concrete arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import positions
from azjax.common import memory, tables
from azjax.common.agent import FORFEIT, NOT_FINITE, RESIGN, Act, Agent, check_finite
from azjax.envs.core import Game, GameState, random_action
from azjax.positions import PositionLine
from azjax.search.tree import AnyParams

_MOST_RANDOM_PLIES = 10_000  # more than any game has


class Outcomes(NamedTuple):
    """Games counted from one agent's side."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """How many were played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Wins, and half the draws, as a share of the games; NaN of no games."""
        return (self.wins + self.draws / 2) / self.games if self.games else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the score. Draws only make it wider than needed."""
        return wilson_interval(self.wins + self.draws / 2, self.games)

    def rate(self, count: int) -> tuple[float, float, float]:
        """A count (such as `wins` or `draws`) as a share of the games, and Wilson's interval."""
        return count / self.games if self.games else math.nan, *wilson_interval(count, self.games)


class Played(NamedTuple):
    """The games of a match, one per row."""

    record: np.ndarray  # [games, max_plies] int32 actions, the opening's included; -1 after the end
    plies: np.ndarray  # [games] int32, the opening's included
    opening_plies: np.ndarray  # [games] int32
    starts: list[str | None]  # [games] the position before all moves; None for the game's own start
    result: np.ndarray  # [games] float32, of the first player: 1, 0 or -1
    given_up: np.ndarray  # [games] int32: 0, or how the loser gave up, RESIGN or FORFEIT
    agent_first: np.ndarray  # [games] bool, whether the agent was the first player, and not its opponent


class MatchResult(NamedTuple):
    """A match from the first agent's side."""

    first: Outcomes  # as the first player
    second: Outcomes  # as the second player
    distinct: Outcomes  # games with different moves; the rest are repetitions
    mean_plies: float  # without the opening
    forfeits: int  # by the agent: illegal moves, crashes
    opponent_forfeits: int
    played: Played
    players: tuple[str, str] = ("agent", "opponent")  # their names

    @property
    def total(self) -> Outcomes:
        """All games."""
        return Outcomes(*(a + b for a, b in zip(self.first, self.second)))

    @property
    def games(self) -> int:
        """How many were played."""
        return self.total.games

    @property
    def distinct_games(self) -> int:
        """How many of them differ."""
        return self.distinct.games

    @property
    def score(self) -> float:
        """Wins, and half the draws, as a share of the games."""
        return self.total.score

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the score."""
        return self.total.interval

    def grid(self) -> tables.Grid:
        """The counts with their intervals as a table."""
        parts = {
            "all": self.total,
            "as first": self.first,
            "as second": self.second,
            "different": self.distinct,
        }
        rows = [
            (
                name,
                *(f"{number:,}" for number in (part.games, *part)),
                tables.percent(part.score),
                tables.percents(part.interval),
            )
            for name, part in parts.items()
        ]
        columns = ("", "games", "wins", "draws", "losses", "score", "95 % interval")
        return tables.Grid(columns, rows, title=" against ".join(self.players))

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


SCALE = "Equal players score 50 %: each opening is played with both colours."
"""For whoever reads a score."""


def wilson_interval(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's (1927) score interval of a proportion; of no trials everything is possible."""
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return max(0.0, centre - spread), min(1.0, centre + spread)


def make_mover(agent: Agent) -> Callable[[jax.Array, GameState], int]:
    """(key, state) -> action, for a single game; compiled if the agent is a device agent."""
    act = agent.act if agent.on_host else jax.jit(agent.act)

    def move(key: jax.Array, state: GameState) -> int:
        batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
        return int(check_finite(np.asarray(act(agent.params, key, batch)), agent.name)[0])

    return move


def make_match(
    game: Game,
    agent: Agent | Act,
    opponent: Agent | Act,
    *,
    pairs: int,
    random_plies: int = 0,
    openings: Sequence[PositionLine] = (),
    width: int | None = None,
) -> Callable[..., MatchResult]:
    """Prepares a match of 2 * `pairs` games.

    Args:
      game: the rules.
      agent: whose side the result takes; a bare function is a device agent.
      opponent: the other.
      pairs: openings, each played with both colours.
      random_plies: how many moves of an opening are drawn at random, a pair alike.
      openings: positions to start from, used in turn; default the game's start.
      width: games in a chunk. More keep an accelerator busy; fewer waste less when the last games end.

    Returns:
      match(params, opponent_params, key, progress=...) -> MatchResult. Parameters that are None are the agent's own;
      `progress` is called with the games finished and the games in all.
    """
    check_table(game, pairs, random_plies, openings)
    agent, opponent = _as_agent(agent), _as_agent(opponent)
    games = 2 * pairs
    width = width_of(games, width)
    turns = [
        functools.partial(_host_turn, game, a.act) if a.on_host else _device_turn(game, a.act, width)
        for a in (agent, opponent)
    ]
    starts, fresh = _lay_out(game, pairs, openings)
    agent_is = np.arange(games, dtype=np.int32) // pairs  # lane i and lane i + pairs share an opening
    opponent_is = 1 - agent_is

    def match(
        params: AnyParams,
        opponent_params: AnyParams,
        key: jax.Array,
        progress: Callable[[int, int], None] = lambda done, games: None,
    ) -> MatchResult:
        own = [agent.params if params is None else params]
        own.append(opponent.params if opponent_params is None else opponent_params)
        opening_key, key = jax.random.split(key)
        half = _random_opening(game, random_plies)(fresh, opening_key)
        table = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), half)
        opening_plies = np.asarray(table.plies)
        turn = side = 0
        while True:
            *waiting, broken = np.asarray(_waiting_counts(game, table, agent_is))
            check_finite(broken, (agent, opponent)[side].name)
            progress(games - int(sum(waiting)), games)
            if not any(waiting):
                break
            side = int(np.argmax(waiting))
            mine = (agent_is, opponent_is)[side]
            table = turns[side](own[side], jax.random.fold_in(key, turn), table, mine)
            turn += 1
        result = _result(game, table, opening_plies, starts + starts, agent_is == 0)
        return result._replace(players=(agent.name, opponent.name))

    return match


def width_of(games: int, width: int | None = None) -> int:
    """How many games of a match are searched side by side, if nothing else is asked for."""
    # Beyond this a CPU core gains nothing; see experiments/benchmarks/arena.py.
    return min(games, width or (64 if jax.default_backend() == "cpu" else 1024))


def check_table(game: Game, pairs: int, random_plies: int, openings: Sequence[PositionLine]) -> None:
    """Raises ValueError unless so many games can be played from these openings; see `make_match`."""
    if pairs < 1:
        raise ValueError(f"a match needs at least 1 pair of games, got {pairs}")
    if not 0 <= random_plies <= _MOST_RANDOM_PLIES:
        raise ValueError(f"random_plies must be between 0 and {_MOST_RANDOM_PLIES:,}, got {random_plies}")
    one = jax.eval_shape(game.init, jax.random.key(0)), jax.ShapeDtypeStruct((game.max_plies,), jnp.int32)
    memory.check(2 * pairs * memory.size_of(one), f"the table of {2 * pairs:,} games")
    for opening in openings:
        if opening.game != game:
            raise ValueError(f"an opening is of {opening.game}, but the match is of {game}")
        if bool(game.is_terminal(opening.state)):
            raise ValueError("an opening is over already; give positions where somebody is to move")


class GameTable(NamedTuple):
    """All games of a match."""

    states: GameState  # [games, ...]
    record: jax.Array  # [games, max_plies] int32 actions, -1 where none
    plies: jax.Array  # [games] int32
    given_up: jax.Array  # [games] int32: 0, or how the player to move gave up; NOT_FINITE ends the match


def _as_agent(agent: Agent | Act) -> Agent:
    return agent if isinstance(agent, Agent) else Agent("agent", agent)


def _lay_out(game: Game, pairs: int, openings: Sequence[PositionLine]) -> tuple[list[str | None], GameTable]:
    """The games before any random move, one per pair, and where they start."""
    record = np.full((pairs, game.max_plies), -1, np.int32)
    plies = np.zeros(pairs, np.int32)
    starts: list[str | None] = [None] * pairs
    if openings:
        moves = [_opening_moves(opening) for opening in openings]
        for pair in range(pairs):
            number = pair % len(openings)
            starts[pair] = openings[number].fields.get("position")
            plies[pair] = len(moves[number])
            record[pair, : plies[pair]] = moves[number]
        states = positions.stack([openings[pair % len(openings)].state for pair in range(pairs)])
    else:
        start = game.init(jax.random.key(0))
        states = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], pairs, axis=0), start)
    return starts, GameTable(states, record, plies, np.zeros(pairs, np.int32))


def _opening_moves(opening: PositionLine) -> list[int]:
    moves = opening.fields.get("moves", [])
    return [opening.game.text_to_action(move) if isinstance(move, str) else move for move in moves]


@functools.lru_cache(maxsize=64)
def _random_opening(game: Game, random_plies: int):
    """(table, key) -> the table after random moves."""

    def ply(table: GameTable, key: jax.Array):
        # A random move that would end the game is no opening: the position before it is kept.
        action = random_action(key, jax.vmap(game.legal_action_mask)(table.states))
        after = jax.vmap(game.step)(table.states, action)
        goes_on = ~jax.vmap(game.is_terminal)(after)
        return _move(game, table, jnp.arange(len(action)), goes_on, action), None

    return jax.jit(lambda table, key: jax.lax.scan(ply, table, jax.random.split(key, random_plies))[0])


def _waiting(game: Game, table: GameTable, mine: jax.Array) -> jax.Array:
    """[games] bool, where the game goes on and player `mine` [games] is to move."""
    over = jax.vmap(game.is_terminal)(table.states) | (table.given_up != 0)
    return ~over & (table.states.current_player == mine)


@functools.partial(jax.jit, static_argnums=0)
def _waiting_counts(game: Game, table: GameTable, mine: jax.Array) -> jax.Array:
    """[3] int32: how many games wait for the player `mine` [games], and for the other; and the worst way to give up."""
    counts = [jnp.sum(_waiting(game, table, player)) for player in (mine, 1 - mine)]
    return jnp.stack([*counts, jnp.min(table.given_up)])


def _move(game: Game, table: GameTable, lanes: jax.Array, real: jax.Array, action: jax.Array) -> GameTable:
    """Plays the actions in some of the games; whoever plays an illegal one gives up.

    Args:
      lanes: [n] which games.
      real: [n] bool; elsewhere nothing happens.
      action: [n] int32.
    """
    states = jax.tree.map(lambda leaf: leaf[lanes], table.states)
    inside = (action >= 0) & (action < game.num_actions)
    action = jnp.where(inside | (action == RESIGN) | (action == NOT_FINITE), action, FORFEIT)
    known = jnp.where(inside, action, 0)
    legal = inside & jax.vmap(game.legal_action_mask)(states)[jnp.arange(len(lanes)), known]
    after = jax.vmap(game.step)(states, known)
    nowhere = len(table.plies)  # out of range: dropped
    moved = jnp.where(real & legal, lanes, nowhere)
    gave_up = jnp.where(real & ~legal, lanes, nowhere)
    return GameTable(
        jax.tree.map(lambda old, new: old.at[moved].set(new, mode="drop"), table.states, after),
        table.record.at[moved, table.plies[lanes]].set(known, mode="drop"),
        table.plies.at[moved].add(1, mode="drop"),
        table.given_up.at[gave_up].set(jnp.where(inside, FORFEIT, action), mode="drop"),
    )


@functools.lru_cache(maxsize=64)
def _device_turn(game: Game, act: Act, width: int):
    """(params, key, table, mine) -> the table after a device agent's turn.

    It moves while whole chunks of games wait for it; what remains waits until more have come. Only if there
    is less than a chunk from the start does it move in those.
    """

    def busy(carry):
        table, mine, _, begun = carry
        waiting = jnp.sum(_waiting(game, table, mine))
        return (waiting >= width) | (~begun & (waiting > 0))

    def chunk(params, carry):
        table, mine, key, _ = carry
        key, subkey = jax.random.split(key)
        waiting = _waiting(game, table, mine)
        # The fewest moves first: all games then end at about the same time.
        urgency = jnp.where(waiting, -table.plies.astype(jnp.float32), -jnp.inf)
        _, lanes = jax.lax.top_k(urgency, width)
        action = act(params, subkey, jax.tree.map(lambda leaf: leaf[lanes], table.states))
        return _move(game, table, lanes, waiting[lanes], action), mine, key, jnp.bool_(True)

    @jax.jit
    def turn(params: AnyParams, key: jax.Array, table: GameTable, mine: jax.Array) -> GameTable:
        start = (table, jnp.asarray(mine), key, jnp.bool_(False))
        return jax.lax.while_loop(busy, functools.partial(chunk, params), start)[0]

    return turn


def _host_turn(
    game: Game, act: Act, params: AnyParams, key: jax.Array, table: GameTable, mine: np.ndarray
) -> GameTable:
    """The table after a host agent has moved once in every game that waits for it."""
    waiting = np.asarray(_jit_waiting(game, table, mine))
    lanes = np.flatnonzero(waiting)
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[lanes], table.states)
    action = np.full(len(waiting), FORFEIT, np.int32)
    action[lanes] = np.asarray(act(params, key, states))
    return _jit_move(game, table, np.arange(len(waiting)), waiting, action)


_jit_waiting = jax.jit(_waiting, static_argnums=0)
_jit_move = jax.jit(_move, static_argnums=0)
_jit_rewards = jax.jit(lambda game, states: jax.vmap(game.rewards)(states), static_argnums=0)


def _result(
    game: Game, table: GameTable, opening_plies: np.ndarray, starts: list[str | None], agent_first: np.ndarray
) -> MatchResult:
    result = np.array(_jit_rewards(game, table.states)[:, 0])
    record, plies, given_up = (np.asarray(leaf) for leaf in (table.record, table.plies, table.given_up))
    loser = np.asarray(table.states.current_player)
    result = np.where(given_up != 0, np.where(loser == 0, -1, 1), np.sign(result)).astype(np.float32)
    forfeited_by_first = (given_up == FORFEIT) & (loser == 0)
    forfeited_by_second = (given_up == FORFEIT) & (loser == 1)
    reward = np.where(agent_first, result, -result)
    number = {start: index for index, start in enumerate(dict.fromkeys(starts))}
    sides = np.stack([agent_first, given_up, [number[start] for start in starts]], axis=1)
    _, one_of_each = np.unique(np.concatenate([sides, record], axis=1), axis=0, return_index=True)
    return MatchResult(
        first=_count(reward[agent_first]),
        second=_count(reward[~agent_first]),
        distinct=_count(reward[one_of_each]),
        mean_plies=float((plies - opening_plies).mean()),
        forfeits=int(np.where(agent_first, forfeited_by_first, forfeited_by_second).sum()),
        opponent_forfeits=int(np.where(agent_first, forfeited_by_second, forfeited_by_first).sum()),
        played=Played(record, plies, opening_plies, starts, result, given_up, agent_first),
    )


def _count(reward: np.ndarray) -> Outcomes:
    return Outcomes(int((reward > 0).sum()), int((reward == 0).sum()), int((reward < 0).sum()))
