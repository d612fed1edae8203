"""What every game is, and what it may know beyond its rules.

A game is a frozen dataclass (board size and options are its fields) whose methods are pure
functions on a `GameState`, a small NamedTuple of arrays. All of azjax runs on this layer, and asks no
game for its class: what only some games know are hooks, listed at `Game`, and the functions here that
use them have an answer for games without.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

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

    Optional knowledge. A game may have any of these; without them the plain way is taken.
      action_cells: [num_actions, places, 2] int32, row and column of each action in the observation (-1 for an action
        that has no place): convolutional policy heads, on every board size.
      ownership(x, player): [cells] int, who holds which part of a finished board: an auxiliary head.
      final_margin(x, player): [] float32, by how much a finished game was won: an auxiliary head.
      random_playout(x, key): see the function `random_playout`.
      random_states(key, number): numpy positions [at most number, ...] drawn uniformly from all there are, finished
        ones included; else positions of random play are taken.
      without_past(): see the function `without_past`.
      with_mover(x, player): (the same board with this player to move, whether the rules allow that).
      view_options: names of fields that only change what networks see; see `seen_as`.
      worth_options: names of fields that only change what the end of a game is worth; see `worth_as`.
      numbered(moves): see the function `move_marks`.
      has_stone_planes: True if the first two planes of an observation are the own and the opponent's stones, and
        they are all there is: the small dense networks of Kromann and Bennetsen 2019.
      quarter_turn: (observe, action_frames) of their other view of the board, or None.
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
        number = text.strip()
        if not number.isdecimal() or len(number) > 9 or int(number) >= self.num_actions:
            raise MoveError(f"{text!r} is not a move: give an action number from 0 to {self.num_actions - 1}")
        return check_move(self, x, int(number), text)

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

    One random word per row is spread over the actions by an integer hash, and the largest masked hash
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


@functools.partial(jax.jit, static_argnums=(0, 2))
def random_games(game: Game, key: jax.Array, games: int) -> GameState:
    """Positions [max_plies, games, ...] of random play, before each move; after its end a game stands still."""
    init_key, key = jax.random.split(key)
    start = jax.vmap(game.init)(jax.random.split(init_key, games))

    def ply(states, key):
        action = random_action(key, jax.vmap(game.legal_action_mask)(states))
        return jax.vmap(game.step)(states, action), states

    return jax.lax.scan(ply, start, jax.random.split(key, game.max_plies))[1]


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


def why_no_game(kind: type) -> str | None:
    """What a class lacks to be a game, as the end of a sentence; None if it lacks nothing."""
    if not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen or kind.__hash__ is None:
        return "is no frozen dataclass: write @dataclasses.dataclass(frozen=True) above it"
    members = [*Game.__annotations__, *(name for name in vars(Game) if not name.startswith("_"))]
    fields = {field.name for field in dataclasses.fields(kind)}
    if lacking := [member for member in members if member not in fields and not hasattr(kind, member)]:
        return f"lacks {', '.join(lacking)}: azjax.envs.core.Game says what each is, PlainGame has the plainest form"
    return None


def is_game(thing: Any) -> bool:
    """Whether a thing is a game, rather than its name, its class or an environment around it."""
    return not isinstance(thing, type) and why_no_game(type(thing)) is None


def unwrapped(game: Any) -> Game:
    """The game itself, also of an environment around it."""
    return game if hasattr(game, "max_plies") else game.game  # environments of pgx know no longest game


def without_past(game: Game) -> Game:
    """The game as a solver sees it: without draws by repetition or by the number of plies."""
    return game.without_past() if hasattr(game, "without_past") else game


def seen_as(game: Game, other: Game | None = None) -> Game:
    """The game with networks shown what they see of another one of its kind; None for the default view.

    So `seen_as(a) == seen_as(b)` for games that differ only in what networks see of them.
    """
    return _with_options_of(game, other, getattr(game, "view_options", ()))


def worth_as(game: Game, other: Game) -> Game:
    """The game with the end of a game worth what it is in another one of its kind."""
    return _with_options_of(game, other, getattr(game, "worth_options", ()))


def move_marks(game: Game, moves: Sequence[int]) -> dict[int, str] | None:
    """The numbers of moves, by the action on whose place each has left something for good; None if none does so."""
    return game.numbered(moves) if hasattr(game, "numbered") else None


def _with_options_of(game: Game, other: Game | None, options: Sequence[str]) -> Game:
    defaults = {field.name: field.default for field in dataclasses.fields(game)}
    values = {name: defaults[name] if other is None else getattr(other, name) for name in options}
    return dataclasses.replace(game, **values) if values else game
