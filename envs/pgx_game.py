"""Any two-player board game of pgx as a game of azjax.

pgx draws lots for who moves first and keeps an observation in every state. Here player 0 always moves
first, and the position holds no observation: it is computed when asked for, as in our own games.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pgx

from azjax.envs.core import GameError, PlainGame, Symmetries
from azjax.envs.drawing import Svg

# Ids of pgx with two players, perfect information and no dice. Its Hex is left out: ours has every size.
BOARD_GAMES = (
    "animal_shogi",
    "chess",
    "connect_four",
    "gardner_chess",
    "go_9x9",
    "go_19x19",
    "othello",
    "shogi",
    "tic_tac_toe",
)

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
        """The starting position."""
        inner = jax.tree.map(jnp.asarray, self.env.init(key))  # Othello's holds a plain number
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


def _view(array: np.ndarray, swap: bool, down: int, across: int) -> np.ndarray:
    return (array.swapaxes(0, 1) if swap else array)[::down, ::across]


def _seated(inner: pgx.State, seat: jax.Array) -> PgxGameState:
    return PgxGameState(
        current_player=(inner.current_player ^ seat).astype(jnp.int32),
        result=inner.rewards[jnp.arange(2) ^ seat],
        seat=seat,
        inner=inner.replace(observation=jnp.bool_(False)),  # computed when asked for
    )
