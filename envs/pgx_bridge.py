"""Between azjax and pgx: `Env` is any game as a pgx environment, `PgxGame` any board game of pgx as a game.

Nothing else imports pgx, whose import takes a second and starts JAX's backend. pgx draws lots for who moves first and
keeps an observation in every state. Here player 0 always moves first, and the position holds no observation: it is
computed when asked for, as in our own games.
"""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pgx._src.api_test

from azjax.envs.core import (
    Game,
    GameError,
    MoveError,
    PlainGame,
    PositionError,
    Symmetries,
    check_move,
    random_action,
)
from azjax.envs.drawing import Svg
from azjax.envs.pgx_names import BOARD_GAMES
from azjax.envs.pgx_notation import NOTATIONS

# Draws by length as pgx has them (`max_termination_steps` and its like), or the number of cells.
_MAX_PLIES = {
    "animal_shogi": 256,
    "chess": 512,
    "connect_four": 42,
    "gardner_chess": 256,
    "go_9x9": 162,
    "go_19x19": 722,
    "othello": 120,
    "shogi": 512,
    "tic_tac_toe": 9,
}


# Views of the board that keep the rules and the start, as (transposed?, rows, columns); the identity comes first.
_ALL_VIEWS = tuple((swap, down, across) for swap in (False, True) for down in (1, -1) for across in (1, -1))
_VIEWS = {
    "connect_four": ((False, 1, 1), (False, 1, -1)),
    "go_9x9": _ALL_VIEWS,
    "go_19x19": _ALL_VIEWS,
    "othello": ((False, 1, 1), (False, -1, -1), (True, 1, 1), (True, -1, -1)),
    "tic_tac_toe": _ALL_VIEWS,
}


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


class PgxGameState(NamedTuple):
    """A pgx state, without its observation, and who moves first in it."""

    current_player: jax.Array  # [] int32, 0 moved first
    result: jax.Array  # [2] float32, the rewards of the last ply
    seat: jax.Array  # [] int32, pgx's number for our player 0
    inner: Any  # the pgx state; its observation is a single False


@dataclasses.dataclass(frozen=True)
class PgxGame(PlainGame):
    """A board game of pgx, by its id."""

    name: str

    def __post_init__(self):
        if self.name not in BOARD_GAMES:
            raise GameError(f"unknown board game of pgx {self.name!r}; there are {', '.join(BOARD_GAMES)}")
        # Imported here and now: pgx makes arrays at import, which must not happen while tracing.
        object.__setattr__(self, "_env", pgx.make(self.name))

    @property
    def env(self) -> pgx.Env:
        """The pgx environment itself, untouched."""
        return self._env

    @property
    def version(self) -> str:
        """As pgx counts."""
        return self.env.version

    @functools.cached_property
    def num_actions(self) -> int:
        """How many actions there are, legal or not."""
        return self.env.num_actions

    @functools.cached_property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.env.observation_shape

    @property
    def max_plies(self) -> int:
        """No game is longer."""
        return _MAX_PLIES[self.name]

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """Those of the board, where pieces have no direction: tic-tac-toe, connect four, go and Othello."""
        if self.name not in _VIEWS:
            return super().symmetries
        cells = np.arange(np.prod(self.observation_shape), dtype=np.int32).reshape(self.observation_shape)
        height, width, _ = self.observation_shape
        # An action is a column or a cell; one more, where there is one, is the pass.
        places = np.arange(self.num_actions, dtype=np.int32)
        by_column = self.num_actions == width
        board = places[None] if by_column else places[: height * width].reshape(height, width)
        views = [
            (_view(cells, *view).ravel(), np.append(_view(board, *view), places[board.size :]))
            for view in _VIEWS[self.name]
        ]
        return Symmetries(*(np.stack(tables).astype(np.int32) for tables in zip(*views)))

    def init(self, key: jax.Array) -> PgxGameState:
        """The starting position, always the same: that pgx draws lots would make two of each position."""
        del key
        inner = jax.tree.map(jnp.asarray, self.env.init(jax.random.key(0)))  # Othello's holds a plain number
        return _seated(inner, seat=inner.current_player)

    def step(self, x: PgxGameState, action: jax.Array) -> PgxGameState:
        """The position after an action; a terminal position stays as it is."""
        blank = jnp.zeros(self.observation_shape, bool)  # never read: step overwrites it
        inner = self.env.step(x.inner.replace(observation=blank), action, jax.random.key(0))
        over = self.is_terminal(x)
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), x, _seated(inner, x.seat))

    def legal_action_mask(self, x: PgxGameState) -> jax.Array:
        """[num_actions] bool; all False once the game is over."""
        return x.inner.legal_action_mask & ~self.is_terminal(x)

    def observe(self, x: PgxGameState, player: jax.Array | None = None) -> jax.Array:
        """[*observation_shape], as pgx shows it to the player (default: the player to move)."""
        pgx_player = x.inner.current_player if player is None else player ^ x.seat
        return self.env._observe(x.inner, pgx_player)

    def is_terminal(self, x: PgxGameState) -> jax.Array:
        """[] bool."""
        return x.inner.terminated | x.inner.truncated

    def rewards(self, x: PgxGameState) -> jax.Array:
        """[2] float32."""
        return x.result

    def action_to_text(self, action: int) -> str:
        """The move in the game's notation, or its number."""
        if self.name not in NOTATIONS:
            return super().action_to_text(action)
        return NOTATIONS[self.name].moves[int(action)]

    def text_to_action(self, text: str, x: PgxGameState | None = None) -> int:
        """The action a text names; raises MoveError if malformed or, given a position, illegal there."""
        if self.name not in NOTATIONS:
            return super().text_to_action(text, x)
        notation, move = NOTATIONS[self.name], text.strip()
        if move not in notation.moves:
            raise MoveError(f"{text!r} is not a move: give {notation.describe}")
        return check_move(self, x, notation.moves.index(move), text)

    def to_notation(self, x: PgxGameState) -> str:
        """Moves that lead to the position, one character each; raises PositionError where there is no notation."""
        if self.name not in NOTATIONS:
            return super().to_notation(x)
        notation = NOTATIONS[self.name]
        moves = notation.order(np.asarray(self.observe(x, jnp.int32(0))).astype(bool))
        if moves is None:
            raise PositionError(f"no moves of {self.name} lead to this position")
        return "".join(notation.moves[action] for action in moves)

    def from_notation(self, text: str) -> PgxGameState:
        """The position after these moves; raises PositionError if they are malformed or against the rules."""
        if self.name not in NOTATIONS:
            return super().from_notation(text)
        notation = NOTATIONS[self.name]
        if unknown := sorted(set(text) - set(notation.moves)):
            raise PositionError(
                f"{text!r} is not a position: {unknown[0]!r} is not {notation.describe}; write all moves from the"
                " start, one behind the other"
            )
        if len(text) > self.max_plies:
            raise PositionError(f"{text!r} has more than the {self.max_plies} moves of the longest game")
        moves = np.full(self.max_plies, -1, np.int32)
        moves[: len(text)] = [notation.moves.index(move) for move in text]
        x, legal = jax.device_get(_replay(self, moves))
        if not legal.all():
            number = int(np.argmin(legal))
            raise PositionError(
                f"{text!r} is not a position: move {number + 1}, {text[number]}, is not legal there"
            )
        return x

    def to_text(self, x: PgxGameState) -> str:
        """The mover's observation, plane by plane ('#' set, '.' not), and who is to move."""
        planes = np.moveaxis(np.asarray(self.observe(x)).astype(bool), -1, 0)[:2]
        boards = [
            "\n".join(" ".join("#" if cell else "." for cell in row) for row in plane) for plane in planes
        ]
        mover = int(x.current_player)
        return f"player {mover} to move; pieces of the mover, then of the other\n" + "\n\n".join(boards)

    def draw(
        self,
        x: PgxGameState,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> Svg:
        """pgx's own picture; it knows nothing of last moves, heat and marks."""
        del last_action, heat, marks
        return Svg(x.inner.to_svg(color_theme=theme, scale=scale))


@functools.partial(jax.jit, static_argnums=0)
def _replay(game: PgxGame, moves: jax.Array) -> tuple[PgxGameState, jax.Array]:
    """The position after moves [plies], -1 behind the last, and whether each of them was legal, [plies] bool."""

    def ply(x: PgxGameState, move: jax.Array) -> tuple[PgxGameState, jax.Array]:
        goes_on = move >= 0
        after = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), game.step(x, move), x)
        return after, ~goes_on | game.legal_action_mask(x)[move]

    return jax.lax.scan(ply, game.init(jax.random.key(0)), moves)


def _view(array: np.ndarray, swap: bool, down: int, across: int) -> np.ndarray:
    return (array.swapaxes(0, 1) if swap else array)[::down, ::across]


def _seated(inner: pgx.State, seat: jax.Array) -> PgxGameState:
    return PgxGameState(
        current_player=(inner.current_player ^ seat).astype(jnp.int32),
        result=inner.rewards[jnp.arange(2) ^ seat],
        seat=seat,
        inner=inner.replace(observation=jnp.bool_(False)),  # computed when asked for
    )


@functools.cache
def _introduce_to_pgx(name: str) -> None:
    # pgx.api_test turns away every id outside its own list; there is no other way to join that list. And
    # its sampler fails for all games, pgx's own too, since jax 0.10.1 (sotetsuk/pgx#1314): ours replaces it.
    conformance = pgx._src.api_test
    conformance.act_randomly = jax.jit(random_action)
    known = typing.get_args(conformance.EnvId)
    if name not in known:
        conformance.EnvId = typing.Literal.__getitem__((*known, name))  # no type to a checker, but a value
