"""What every game is, and the pgx environment around it.

A game is a frozen dataclass (board size and options are its fields) whose methods are pure
functions on a `GameState`, a small NamedTuple of arrays. All of azjax runs on this layer. `Env`
wraps any game as a `pgx.Env`, so whatever is written for pgx runs on it too.
"""

import functools
import math
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pgx._src.api_test

from azjax.envs.drawing import Svg, text_picture


class GameError(ValueError):
    """What was asked of a game makes no sense; the message says why and what would."""


class MoveError(GameError):
    """A move that cannot be read, or that the rules forbid in this position."""


class PositionError(GameError):
    """A position that cannot be read, or that the rules do not allow."""


class Symmetries(NamedTuple):
    """The symmetries of a game that keep both players' roles; row 0 is the identity.

    Both tables gather: the symmetric view of an array `v` is `v[table[s]]`. They hold in the board's
    frame and in the mover's frame alike.
    """

    observation: np.ndarray  # [symmetries, observation_size] int32, over the flattened observation
    action: np.ndarray  # [symmetries, num_actions] int32, over masks, logits and policies


class GameState(Protocol):
    """A position: a NamedTuple of arrays, with no observation in it."""

    current_player: jax.Array  # [] int32, 0 for the player who moves first, 1 for the other


class Game(Protocol):
    """The rules of a two-player zero-sum game of perfect information, as pure functions.

    Every function takes one position; use `jax.vmap` for many. Actions are absolute: the same number
    means the same move for both players.
    """

    name: str  # as in `azjax.make(name)`
    version: str  # changes whenever the behaviour does
    num_actions: int
    observation_shape: tuple[int, ...]
    max_plies: int  # no game is longer
    symmetries: Symmetries
    action_frames: np.ndarray  # [2, num_actions] int32; board_logits = mover_logits[action_frames[player]]

    def init(self, key: jax.Array) -> GameState:
        """The starting position. The key is for games that start at random; ours do not."""

    def step(self, x: GameState, action: jax.Array) -> GameState:
        """The position after a legal action; a terminal position stays as it is."""

    def legal_action_mask(self, x: GameState) -> jax.Array:
        """[num_actions] bool; all False once the game is over."""

    def observe(self, x: GameState, player: jax.Array | None = None) -> jax.Array:
        """[*observation_shape], seen from the side of `player` (default: the player to move)."""

    def is_terminal(self, x: GameState) -> jax.Array:
        """[] bool."""

    def rewards(self, x: GameState) -> jax.Array:
        """[2] float32, the result for each player: zero until the end, and always zero in sum."""

    def action_to_text(self, action: int) -> str:
        """The move in the game's notation."""

    def text_to_action(self, text: str, x: GameState | None = None) -> int:
        """The action a text names; raises MoveError if malformed or, given a position, illegal there."""

    def to_notation(self, x: GameState) -> str:
        """The position on one line."""

    def from_notation(self, text: str) -> GameState:
        """The position a line describes; raises PositionError."""

    def to_text(self, x: GameState) -> str:
        """The board for a terminal, several lines."""

    def draw(
        self,
        x: GameState,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> Svg:
        """The board as a picture; notebooks show it by themselves.

        Args:
          last_action: the move to point out.
          heat: [num_actions] numbers (a policy, visit counts, values); NaN and illegal actions stay bare.
          marks: action -> short text written on it.
          theme: "light" or "dark".
          scale: 1 makes a small board about 400 pixels wide.
        """


class PlainGame:
    """What a game needs beyond its rules, in the plainest form: inherit, and override what you can do better.

    No symmetries, actions that mean the same to both players, moves written as action numbers, no position
    notation, and a picture of the text board. Needs `name`, `num_actions` and `observation_shape`.
    """

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The identity alone."""
        size = math.prod(self.observation_shape)
        return Symmetries(
            np.arange(size, dtype=np.int32)[None], np.arange(self.num_actions, dtype=np.int32)[None]
        )

    @functools.cached_property
    def action_frames(self) -> np.ndarray:
        """[2, num_actions], identities."""
        return np.tile(np.arange(self.num_actions, dtype=np.int32), (2, 1))

    def action_to_text(self, action: int) -> str:
        """The action's number."""
        return str(int(action))

    def text_to_action(self, text: str, x: GameState | None = None) -> int:
        """The action a number names; raises MoveError."""
        if not text.strip().isdecimal() or int(text) >= self.num_actions:
            raise MoveError(f"{text!r} is not a move: give an action number from 0 to {self.num_actions - 1}")
        return check_move(self, x, int(text), text)

    def to_notation(self, x: GameState) -> str:
        """Raises PositionError: there is no notation."""
        raise PositionError(f"{self.name} has no position notation; write down its moves instead")

    def from_notation(self, text: str) -> GameState:
        """Raises PositionError: there is no notation."""
        raise PositionError(f"{self.name} has no position notation; give a list of moves instead")

    def to_text(self, x: GameState) -> str:
        """The state's fields, a line each."""
        return "\n".join(f"{field}: {np.asarray(value)}" for field, value in x._asdict().items())

    def draw(
        self,
        x: GameState,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> Svg:
        """The text board as a picture; last move, heat and marks are left out."""
        del last_action, heat, marks
        return text_picture(self.to_text(x), theme, scale)


def random_action(key: jax.Array, mask: jax.Array) -> jax.Array:
    """One action, uniform over those the mask allows; 0 if it allows none.

    One random word a row is spread over the actions by an integer hash, and the largest masked hash
    wins. The action number sits in the low bits, so that a plain maximum (which vectorises, as
    arg-max does not) finds it. About twenty times cheaper than `jax.random.categorical`.

    Args:
      key: one key, also for a batch.
      mask: [..., num_actions] bool.

    Returns:
      [...] int32.
    """
    num_actions = mask.shape[-1]
    index_bits = max(1, (num_actions - 1).bit_length())
    word = jax.random.bits(key, (*mask.shape[:-1], 1), jnp.uint32)
    action = jnp.arange(num_actions, dtype=jnp.uint32)
    hashed = scramble(word + (action + 1) * jnp.uint32(0x9E3779B9))
    keyed = ((hashed >> index_bits) << index_bits) | action
    best = jnp.max(jnp.where(mask, keyed, 0), axis=-1)
    return (best & jnp.uint32((1 << index_bits) - 1)).astype(jnp.int32)


def scramble(word: jax.Array) -> jax.Array:
    """A bijection of 32-bit words in which every bit of the result depends on every bit of the word."""
    # Two rounds of multiply and shift, with the constants of Wellons's lowbias32 (public domain).
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def renew(game: Game, x: GameState, key: jax.Array) -> GameState:
    """A new game where `x` has ended, `x` itself where it goes on.

    The new position is clean: it is not terminal and owes nothing to the finished game, so a search
    may start from it at once.
    """
    over = game.is_terminal(x)
    return jax.tree.map(lambda new, old: jnp.where(over, new, old), game.init(key), x)


def random_playout(game: Game, x: GameState, key: jax.Array) -> jax.Array:
    """[batch, 2] rewards of uniformly random play to the end, for positions `x` [batch, ...].

    Games that know a shortcut bring their own `random_playout(x, key)`, which is used instead.
    """
    if hasattr(game, "random_playout"):
        return game.random_playout(x, key)

    def unfinished(carry):
        x, _ = carry
        return ~jnp.all(jax.vmap(game.is_terminal)(x))

    def ply(carry):
        x, key = carry
        key, subkey = jax.random.split(key)
        action = random_action(subkey, jax.vmap(game.legal_action_mask)(x))
        return jax.vmap(game.step)(x, action), key

    x, _ = jax.lax.while_loop(unfinished, ply, (x, key))
    return jax.vmap(game.rewards)(x)


def check_move(game: Game, x: GameState | None, action: int, text: str) -> int:
    """The action, or a MoveError if the game is over in `x` or the rules forbid it there.

    For `text_to_action`: games raise their own, more telling error before they come here.
    """
    if x is not None:
        if bool(game.is_terminal(x)):
            raise MoveError(f"{text!r} comes too late: the game is over")
        if not bool(game.legal_action_mask(x)[action]):
            raise MoveError(f"{text!r} is not legal in this position")
    return action


@flax.struct.dataclass
class State(pgx.State):
    """A pgx state around a game's own: what pgx wants precomputed, and the position `_x`."""

    current_player: jax.Array  # [] int32, the colour: 0 moved first
    observation: jax.Array
    rewards: jax.Array  # [2] float32, of the last step alone, as pgx has it
    terminated: jax.Array  # [] bool
    truncated: jax.Array  # [] bool, never
    legal_action_mask: jax.Array  # [num_actions] bool; all True at the end, as pgx has it
    _step_count: jax.Array  # [] int32
    _last_action: jax.Array  # [] int32, -1 at the start
    _x: Any  # the game's own state
    _game: Any = flax.struct.field(pytree_node=False)

    @property
    def env_id(self) -> str:
        """The game's name."""
        return self._game.name

    def to_svg(self, *, color_theme: str | None = None, scale: float | None = None) -> Svg:
        """The board with the last move marked; of a batch, the first board."""
        first = jax.tree.map(lambda leaf: leaf[(0,) * self._step_count.ndim], self)
        last_action = int(first._last_action)
        return self._game.draw(
            first._x,
            last_action=None if last_action < 0 else last_action,
            theme=color_theme or "light",
            scale=scale or 1.0,
        )

    def save_svg(self, filename: str, *, color_theme: str | None = None, scale: float | None = None) -> None:
        """Writes `to_svg` to a file."""
        self.to_svg(color_theme=color_theme, scale=scale).save(filename)


class Env(pgx.Env):
    """Any game as a pgx environment.

    `env.game` is the game itself, on its compact state: what search and training use. The environment
    answers the same questions on pgx states, so that whatever takes a game takes an environment too.
    """

    def __init__(self, game: Game):
        super().__init__()
        self.game = game
        _introduce_to_pgx(game.name)

    def _init(self, key: jax.Array) -> State:
        x = self.game.init(key)
        return State(
            current_player=x.current_player.astype(jnp.int32),
            observation=self.game.observe(x),
            rewards=jnp.zeros(2, jnp.float32),
            terminated=self.game.is_terminal(x),
            truncated=jnp.bool_(False),
            legal_action_mask=self.game.legal_action_mask(x),
            _step_count=jnp.int32(0),
            _last_action=jnp.int32(-1),
            _x=x,
            _game=self.game,
        )

    def _step(self, state: State, action: jax.Array, key: jax.Array | None) -> State:
        del key
        x = self.game.step(state._x, action)
        return state.replace(
            current_player=x.current_player.astype(jnp.int32),
            rewards=self.game.rewards(x),
            terminated=self.game.is_terminal(x),
            legal_action_mask=self.game.legal_action_mask(x),
            _last_action=jnp.int32(action),
            _x=x,
        )

    def _observe(self, state: State, player_id: jax.Array) -> jax.Array:
        return self.game.observe(state._x, player_id)

    def observe(self, state: State, player_id: jax.Array | None = None) -> jax.Array:
        """[*observation_shape], seen from the side of a player (default: the player to move)."""
        return self.game.observe(state._x, player_id)

    def legal_action_mask(self, state: State) -> jax.Array:
        """[num_actions] bool."""
        return state.legal_action_mask

    def is_terminal(self, state: State) -> jax.Array:
        """[] bool."""
        return state.terminated

    def rewards(self, state: State) -> jax.Array:
        """[2] float32, of the last step."""
        return state.rewards

    @property
    def id(self) -> str:
        """The game's name."""
        return self.game.name

    @property
    def version(self) -> str:
        """The game's version."""
        return self.game.version

    @property
    def num_players(self) -> int:
        """Always two."""
        return 2

    @property
    def num_actions(self) -> int:
        """How many actions there are, legal or not."""
        return self.game.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.game.observation_shape

    def __repr__(self) -> str:
        return f"Env({self.game!r})"


@functools.cache
def _introduce_to_pgx(name: str) -> None:
    # pgx.api_test turns away every id outside its own list; there is no other way to join that list. And
    # its sampler fails for all games, pgx's own too, since jax 0.10.1 (sotetsuk/pgx#1314): ours replaces it.
    conformance = pgx._src.api_test
    conformance.act_randomly = jax.jit(random_action)
    known = typing.get_args(conformance.EnvId)
    if name not in known:
        conformance.EnvId = typing.Literal[(*known, name)]
