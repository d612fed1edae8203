"""Hex on any board from 1x1 to 19x19, with or without the swap rule.

Rules: the board is a rhombus of hexagons. Black (player 0) and White (player 1) put one stone a turn on
an empty cell, Black first. Black wins by an unbroken chain from the top row to the bottom row, White by
one from the left column to the right column. There is no draw: a full board joins exactly one pair of
sides. The neighbours of cell (r, c) are (r, c-1), (r, c+1), (r-1, c), (r+1, c), (r-1, c+1), (r+1, c-1).

Action: `row * size + column` for a stone, written as column letter and row number, `a1` at the top left.
With `swap=True` one more action, `size * size` or `swap-pieces`, is legal as White's first move alone: the
black stone gives way to a white one on the transposed cell, and Black moves again.

State: `HexState`. The board holds a signed label for every stone, the same throughout a group, so that a move
learns from its six neighbours which groups it joins and which sides they reach. The labels depend on the
position alone, never on the order of the moves: the same position is the same bits.

Observation: [size, size, 2] bool, the stones of the viewing player and those of the opponent; for White
the board is transposed, so that each player sees itself joining top and bottom. `planes=6` adds the own
stones connected to the top and to the bottom, and the opponent's connected to the left and to the right
(all as the viewing player sees them).

Rewards: +1 for the winner, -1 for the loser, at the end.

Termination: with the first chain between a player's two sides, after size^2 stones at the latest.

Versions: 1, the first.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs import core, drawing, indexing

MAX_SIZE = 19
SWAP_TEXT = "swap-pieces"
PLAYER_NAMES = ("Black", "White")

# Around a cell, clockwise: each neighbour touches the one before and the one after it.
_RING = ((0, 1), (1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1))


class HexState(NamedTuple):
    """A position.

    A black group's label is the number of its first cell, counted row by row from 1. If it reaches the
    bottom row, but not the top, it is that of its last cell; if it joins both, it is size^2 + 1. So no two
    groups share a label, labels up to `size` reach the top, and those above `size * (size - 1)` the bottom.
    A white group's label is minus that of the same group in black on the transposed board.
    """

    board: jax.Array  # [size * size] int8 (int16 from size 12): 0 empty, > 0 Black's groups, < 0 White's
    current_player: jax.Array  # [] int32, 0 Black or 1 White; at the end the loser
    over: jax.Array  # [] bool


@dataclasses.dataclass(frozen=True)
class Hex:
    """The game of Hex; see the module for its rules, and `core.Game` for what each method does."""

    size: int = 11  # cells on a side
    swap: bool = False  # whether White may take the first stone over instead of moving
    planes: int = 2  # of the observation; 6 add the stones connected to each side

    name: ClassVar[str] = "hex"
    version: ClassVar[str] = "1"
    view_options: ClassVar[tuple[str, ...]] = ("planes",)
    has_stone_planes: ClassVar[bool] = True

    def __post_init__(self):
        if type(self.size) is not int or not 1 <= self.size <= MAX_SIZE:
            raise core.GameError(f"size must be a whole number from 1 to {MAX_SIZE}, got {self.size!r}")
        if not isinstance(self.swap, bool):
            raise core.GameError(f"swap must be True or False, got {self.swap!r}")
        if type(self.planes) is not int or self.planes not in (2, 6):
            raise core.GameError(f"planes must be 2 (stones) or 6 (stones and sides), got {self.planes!r}")

    @property
    def num_actions(self) -> int:
        """One for each cell, and one for the swap if the rule is on."""
        return self._cells + self.swap

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """[size, size, planes]."""
        return (self.size, self.size, self.planes)

    @property
    def max_plies(self) -> int:
        """Every cell, and the swap."""
        return self._cells + self.swap

    @functools.cached_property
    def symmetries(self) -> core.Symmetries:
        """The identity and the half turn."""
        cell = np.arange(self._cells)
        # A half turn exchanges the two sides of each player.
        plane = np.array([0, 1] if self.planes == 2 else [0, 1, 3, 2, 5, 4])
        turned = cell[::-1, None] * self.planes + plane
        action = np.arange(self.num_actions)
        turned_action = np.concatenate([cell[::-1], action[self._cells :]])
        return core.Symmetries(
            observation=np.stack([np.arange(turned.size), turned.ravel()]).astype(np.int32),
            action=np.stack([action, turned_action]).astype(np.int32),
        )

    @functools.cached_property
    def action_cells(self) -> np.ndarray:
        """[num_actions, 1, 2] int32: row and column of each cell; -1 for the swap."""
        row, column = np.divmod(np.arange(self._cells), self.size)
        cells = np.stack([row, column], -1)[:, None].astype(np.int32)
        return np.concatenate([cells, np.full((self.num_actions - self._cells, 1, 2), -1, np.int32)])

    @functools.cached_property
    def action_frames(self) -> np.ndarray:
        """Black's frame is the board's, White's its transpose."""
        action = np.arange(self.num_actions)
        transposed = np.concatenate([self._transposed(action[: self._cells]), action[self._cells :]])
        return np.stack([action, transposed]).astype(np.int32)

    def init(self, key: jax.Array) -> HexState:
        """The empty board."""
        del key
        return HexState(jnp.zeros(self._cells, self._label_dtype), jnp.int32(0), jnp.bool_(False))

    def step(self, x: HexState, action: jax.Array) -> HexState:
        """The position after a stone or a swap; a finished game stays as it is."""
        if not self.swap:
            return self._place(x, action)
        mirrored = HexState(-self._transposed(x.board), jnp.int32(0), jnp.bool_(False))
        swaps = (action == self._cells) & ~x.over
        placed = self._place(x, jnp.minimum(action, self._cells - 1))
        return jax.tree.map(lambda a, b: jnp.where(swaps, a, b), mirrored, placed)

    def legal_action_mask(self, x: HexState) -> jax.Array:
        """[num_actions] bool: the empty cells, and the swap where it may be chosen."""
        empty = (x.board == 0) & ~x.over
        if not self.swap:
            return empty
        first_reply = (x.current_player == 1) & (jnp.sum(x.board != 0) == 1) & ~x.over
        return jnp.append(empty, first_reply)

    def observe(self, x: HexState, player: jax.Array | None = None) -> jax.Array:
        """[size, size, planes] bool, from the side of `player` (default: the player to move)."""
        player = x.current_player if player is None else player
        board = x.board.reshape(self.size, self.size)
        # Labels mirror exactly: seen so, every player owns the positive ones and joins top and bottom.
        board = jnp.where(player == 0, board, -board.T)
        planes = [board > 0, board < 0]
        if self.planes == 6:
            for labels in (board, -board):
                reaches_top = (labels > 0) & (labels <= self.size) | (labels == self._cells + 1)
                planes += [reaches_top, labels > self._cells - self.size]
        return jnp.stack(planes, axis=-1)

    def is_terminal(self, x: HexState) -> jax.Array:
        """[] bool: somebody has joined both sides."""
        return x.over

    def rewards(self, x: HexState) -> jax.Array:
        """[2] float32: the last mover wins, so the player to move at the end has lost."""
        lost = jnp.arange(2) == x.current_player
        return jnp.where(x.over, jnp.where(lost, jnp.float32(-1), jnp.float32(1)), jnp.float32(0))

    def ownership(self, x: HexState, player: jax.Array) -> jax.Array:
        """[size, size] float32 of a finished game, as `player` sees it: 1 own stones, -1 the other's, 0 empty."""
        stones = self.observe(x, player)
        return stones[..., 0].astype(jnp.float32) - stones[..., 1]

    def random_playout(self, x: HexState, key: jax.Array) -> jax.Array:
        """[batch, 2] rewards of uniformly random play to the end, for positions `x` [batch, ...].

        Stones laid after the end cannot undo a chain, so the board may as well be filled: of the empty
        cells a random half (the larger one if they are odd) goes to the player to move, and whoever is
        joined on the full board has won.
        """
        opening_key, fill_key = jax.random.split(key)
        if self.swap:
            x = self._play_until_no_swap_can_come(x, opening_key)
        empty, black = pack(x.board == 0, self.size), pack(x.board > 0, self.size)
        black_gets = (_count(empty) + 1 - x.current_player) // 2
        black = black | _random_subset(empty, black_gets, fill_key)
        black_wins = joins_top_and_bottom(black, self.size)
        winner = jnp.where(x.over, 1 - x.current_player, jnp.where(black_wins, 0, 1))
        return jnp.where(jnp.arange(2) == winner[:, None], jnp.float32(1), jnp.float32(-1))

    def action_to_text(self, action: int) -> str:
        """A cell as `c4`, or `swap-pieces`."""
        action = int(action)
        if not 0 <= action < self.num_actions:
            raise core.MoveError(f"an action is a number from 0 to {self.num_actions - 1}, got {action}")
        return SWAP_TEXT if action == self._cells else self._cell_text(action)

    def text_to_action(self, text: str, x: HexState | None = None) -> int:
        """The action of a cell (`c4` or `C4`) or of `swap-pieces`; raises MoveError with the reason."""
        word = text.strip().lower()
        if word == SWAP_TEXT:
            self._check_swap(text, x)
            return core.check_move(self, x, self._cells, text)
        match = re.fullmatch(r"([a-z])([1-9][0-9]{0,3})", word)
        if match is None:
            raise core.MoveError(f"{text!r} is not a cell: expected a letter and a number, such as a1")
        row, column = int(match[2]) - 1, ord(match[1]) - ord("a")
        if max(row, column) >= self.size:
            last = self._cell_text(self._cells - 1)
            raise core.MoveError(f"{text!r} is outside the board: its cells go from a1 to {last}")
        action = row * self.size + column
        if x is not None and not x.over and x.board[action] != 0:
            owner = PLAYER_NAMES[int(x.board[action] < 0)]
            raise core.MoveError(f"{text!r} is occupied: {owner} has a stone there")
        return core.check_move(self, x, action, text)

    def to_notation(self, x: HexState) -> str:
        """Rows from the top, stones as b and w, runs of empty cells counted, the mover: `3/1b1/2w b`."""
        rows = ["".join(".bw"[stone] for stone in row) for row in self._stones(x)]
        rows = [re.sub(r"\.+", lambda run: str(len(run[0])), row) for row in rows]
        return f"{'/'.join(rows)} {'bw'[int(x.current_player)]}"

    def from_notation(self, text: str) -> HexState:
        """The position a line describes; raises PositionError unless some game leads to it."""
        stones, player = self._parse(text)
        self._check_stone_counts(text, stones, player)
        labels = self._labels(stones)
        joined = self._cells + 1
        if np.any(labels == (joined, -joined)[player]):
            raise core.PositionError(
                f"{PLAYER_NAMES[player]} is to move in {text!r}, but has joined both sides already"
            )
        over = bool(np.any(abs(labels) == joined))
        if over and not self._some_stone_completes_the_chain(stones, 1 - player):
            raise core.PositionError(
                f"the game went on after its end in {text!r}: {PLAYER_NAMES[1 - player]} would have "
                "joined both sides without any one of these stones"
            )
        return HexState(jnp.asarray(labels, self._label_dtype), jnp.int32(player), jnp.bool_(over))

    def to_text(self, x: HexState) -> str:
        """The board in letters, each row shifted to the right, and who moves or has won."""
        letters = " ".join(_letter(column) for column in range(self.size))
        lines = ["  " + letters]
        for row, stones in enumerate(self._stones(x)):
            cells = " ".join(".BW"[stone] for stone in stones)
            lines.append(f"{'':{row}}{row + 1:2} {cells} {row + 1}")
        lines.append(f"{'':{self.size + 3}}{letters}")
        player = int(x.current_player)
        lines.append(f"{PLAYER_NAMES[1 - player]} has won" if x.over else f"{PLAYER_NAMES[player]} to move")
        return "\n".join(lines)

    def draw(
        self,
        x: HexState,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> drawing.Svg:
        """The board as a picture; a chain that joins both sides stands on a tinted ground."""
        colours = drawing.theme_named(theme)
        marks = dict(marks or {})
        stones = self._stones(x).ravel()
        chain = np.abs(np.asarray(x.board)) == self._cells + 1
        legal = np.asarray(self.legal_action_mask(x))
        shares = {} if heat is None else drawing.heat_shares(np.asarray(heat), legal)
        picture = _Picture(self.size, colours, room_for_swap=self.swap)
        picture.draw_frame()
        for cell in range(self._cells):
            stone_colour = (None, colours.first, colours.second)[stones[cell]]
            ground = drawing.mix(colours.board, colours.heat, shares.get(cell, 0.0))
            if chain[cell]:
                ground = drawing.mix(colours.board, stone_colour, 0.35)
            picture.draw_cell(cell, ground, stone_colour, marks.get(cell))
        if self.swap and (legal[self._cells] or self._cells in marks):
            ground = drawing.mix(colours.board, colours.heat, shares.get(self._cells, 0.0))
            picture.draw_swap(ground, marks.get(self._cells))
        if last_action is not None:
            swapped = int(last_action) == self._cells
            picture.draw_last_move(int(np.argmax(stones > 0)) if swapped else int(last_action))
        return drawing.picture(picture.width, picture.height, picture.parts, colours, scale)

    def random_states(self, key: jax.Array, number: int) -> HexState:
        """Uniform draws from all placements of equally many stones, or one more of Black's."""
        # So many placements there are for each number of stones.
        weight = np.array(
            [
                math.comb(self._cells, stones) * math.comb(stones, stones // 2)
                for stones in range(self._cells)
            ],
            float,
        )
        draw_key, key = jax.random.split(key)
        draw = np.random.default_rng(int(jax.random.bits(draw_key)))
        stones = draw.choice(self._cells, number, p=weight / weight.sum())
        game, batches = dataclasses.replace(self, swap=False), []
        # All orders of laying the same stones are equally likely, so random play until then is a uniform draw.
        for begin, part_key in zip(range(0, number, 4096), jax.random.split(key, -(-number // 4096))):
            some_stones = stones[begin : begin + 4096]
            states = core.random_games(game, part_key, len(some_stones))
            lanes = np.arange(len(some_stones))
            batches.append(jax.tree.map(lambda leaf, at=(some_stones, lanes): np.asarray(leaf)[at], states))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *batches)

    def numbered(self, moves: Sequence[int]) -> dict[int, str]:
        """The numbers of moves on the stones they put there; a swap is the stone that it leaves."""
        marks = {action: str(number) for number, action in enumerate(moves, start=1)}
        if self._cells not in moves:
            return marks
        marks = {action: mark for action, mark in marks.items() if action not in (self._cells, moves[0])}
        row, column = divmod(moves[0], self.size)
        return {column * self.size + row: "2"} | marks

    @property
    def quarter_turn(self) -> tuple[Callable[..., jax.Array], np.ndarray] | None:
        """The view of Kromann and Bennetsen 2019: White sees the board turned; of two planes alone.

        A quarter turn exchanges the players' sides but mirrors the neighbourhood of every cell: White sees another
        game than Hex.
        """
        if self.planes != 2:
            return None

        def observe(x: HexState, player: jax.Array | None = None) -> jax.Array:
            player = x.current_player if player is None else player
            board = self.observe(x, jnp.int32(0))
            return jnp.where(player == 0, board, jnp.rot90(board[..., ::-1]))

        cells = np.arange(self._cells)
        # The board's cell at each cell that is seen.
        turned = np.rot90(cells.reshape(self.size, self.size)).ravel()
        frames = self.action_frames.copy()
        frames[1, : len(cells)] = np.argsort(turned)
        return observe, frames

    @property
    def _cells(self) -> int:
        return self.size * self.size

    @property
    def _label_dtype(self) -> type:
        return np.int8 if self._cells + 1 <= np.iinfo(np.int8).max else np.int16

    @functools.cached_property
    def _neighbours(self) -> np.ndarray:
        """[cells, 6] int32, clockwise; off the board stands the cell itself, which is empty before a move."""
        around = [self._beside(np.arange(self._cells), *step) for step in _RING]
        return np.stack(around, axis=1).astype(np.int32)

    def _beside(self, cell, down: int, right: int):
        """The cells, numpy's or jax's, so many rows down and columns to the right; off the board the cell itself."""
        r, c = cell // self.size + down, cell % self.size + right
        inside = (0 <= r) & (r < self.size) & (0 <= c) & (c < self.size)
        return cell + inside * (down * self.size + right)

    def _transposed(self, cells):
        return cells.reshape(self.size, self.size).T.reshape(self._cells)

    def _place(self, x: HexState, action: jax.Array) -> HexState:
        dtype = self._label_dtype
        sign = jnp.where(x.current_player == 0, 1, -1).astype(dtype)
        transposed = action % self.size * self.size + action // self.size
        mover_cell = jnp.where(x.current_player == 0, action, transposed)
        stone = (mover_cell + 1).astype(dtype)
        around = sign * indexing.by_platform(
            x.board,
            action,
            cpu=lambda board, action: board[jnp.asarray(self._neighbours)[action]],
            accelerator=self._around_by_mask,
        )
        # Two neighbours beside each other are one group if both are the mover's: three pairs tell all.
        # The new stone's own label stands in where there is none, for no group on the board has it.
        pairs = [jnp.where(around[i] > 0, around[i], around[i + 1]) for i in (0, 2, 4)]
        groups = [jnp.where(label > 0, label, stone) for label in pairs]
        first = functools.reduce(jnp.minimum, groups, stone)
        last = functools.reduce(jnp.maximum, groups, stone)
        reaches_bottom = last > self._cells - self.size
        wins = (first <= self.size) & reaches_bottom
        label = jnp.where(wins, dtype(self._cells + 1), jnp.where(reaches_bottom, last, first))
        joined = functools.reduce(jnp.logical_or, [x.board == group * sign for group in groups])
        board = jnp.where(joined & ~x.over, label * sign, x.board)
        # The scatter of a CPU makes XLA write the board down. Were every cell compared with the action, XLA would
        # fuse the step into an observation that follows and repeat it for each number there: measured on
        # 11x11, random play through `core.Env` is then six times slower.
        board = indexing.put(board, action, jnp.where(x.over, indexing.take(board, action), label * sign))
        return HexState(
            board=board,
            current_player=jnp.where(x.over, x.current_player, 1 - x.current_player),
            over=x.over | wins,
        )

    def _around_by_mask(self, board: jax.Array, action: jax.Array) -> jax.Array:
        """[6] what stands on the `_neighbours` of a cell, without a table to look them up in."""
        return jnp.stack([indexing.take_by_mask(board, self._beside(action, *step)) for step in _RING])

    def _play_until_no_swap_can_come(self, x: HexState, key: jax.Array) -> HexState:
        for subkey in jax.random.split(key):
            stones = jnp.sum(x.board != 0, axis=-1)
            swap_may_come = stones <= x.current_player
            action = core.random_action(subkey, jax.vmap(self.legal_action_mask)(x))
            played = jax.vmap(self.step)(x, action)
            x = jax.vmap(lambda go, new, old: jax.tree.map(functools.partial(jnp.where, go), new, old))(
                swap_may_come, played, x
            )
        return x

    def _stones(self, x: HexState) -> np.ndarray:
        """[size, size] int: 0 empty, 1 Black, 2 White."""
        return np.choose(np.sign(np.asarray(x.board)) + 1, (2, 0, 1)).reshape(self.size, self.size)

    def _cell_text(self, cell: int) -> str:
        row, column = divmod(cell, self.size)
        return f"{_letter(column)}{row + 1}"

    def _check_swap(self, text: str, x: HexState | None) -> None:
        if not self.swap:
            raise core.MoveError(f"{text!r} is not available: this game is played without the swap rule")
        if x is not None and not x.over and not self.legal_action_mask(x)[self._cells]:
            raise core.MoveError(f"{text!r} is not available: it can only be White's first move")

    def _parse(self, text: str) -> tuple[np.ndarray, int]:
        """Reads a notation into stones, as `_stones` has them, and the player to move."""
        match = re.fullmatch(r"([^ ]+) ([bw])", text.strip())
        if match is None:
            raise core.PositionError(
                f"{text!r} is not a position: expected the rows, a space, and b or w for the player to move"
            )
        rows = match[1].split("/")
        if len(rows) != self.size:
            raise core.PositionError(f"{text!r} has {len(rows)} rows, but the board has {self.size}")
        stones = []
        for number, row in enumerate(rows, start=1):
            if not re.fullmatch(r"(b|w|(?<![0-9])[1-9][0-9]?)+", row):  # counts of two digits at most
                raise core.PositionError(
                    f"row {number} of {text!r} is {row!r}: expected only b, w and counts of empty cells"
                )
            line = re.sub(r"[0-9]+", lambda count: "." * int(count[0]), row)
            if len(line) != self.size:
                raise core.PositionError(
                    f"row {number} of {text!r} has {len(line)} cells, but the board has {self.size}"
                )
            stones.append([".bw".index(cell) for cell in line])
        return np.array(stones), "bw".index(match[2])

    def _check_stone_counts(self, text: str, stones: np.ndarray, player: int) -> None:
        black, white = int(np.sum(stones == 1)), int(np.sum(stones == 2))
        # Black leads by one stone while White is to move. A swap makes Black's first stone White's.
        lead = black - white
        if lead != player and not (self.swap and lead == player - 1 and white > 0):
            raise core.PositionError(
                f"{text!r} has {black} black and {white} white stones with {PLAYER_NAMES[player]} to move: "
                f"Black must have {('as many as', 'one more than')[player]} White"
                + (", or one fewer than that after a swap" if self.swap else "")
            )

    def _labels(self, stones: np.ndarray) -> np.ndarray:
        """[cells] int: the labels of `HexState`, by flood fill."""
        labels = np.zeros(self._cells, int)
        colours = stones.ravel()
        for start in np.flatnonzero(colours):
            if labels[start]:
                continue
            group, queue = {start}, [start]
            while queue:
                near = {
                    int(cell) for cell in self._neighbours[queue.pop()] if colours[cell] == colours[start]
                }
                queue += near - group
                group |= near
            mover_cells = self.action_frames[colours[start] - 1][sorted(group)]
            first, last = mover_cells.min() + 1, mover_cells.max() + 1
            reaches_bottom = last > self._cells - self.size
            label = last if reaches_bottom else first
            if reaches_bottom and first <= self.size:
                label = self._cells + 1
            labels[sorted(group)] = label if colours[start] == 1 else -label
        return labels

    def _some_stone_completes_the_chain(self, stones: np.ndarray, winner: int) -> bool:
        for cell in np.argwhere(stones == winner + 1):
            fewer = stones.copy()
            fewer[tuple(cell)] = 0
            if np.all(abs(self._labels(fewer)) <= self._cells):
                return True
        return False


def pack(cells: jax.Array, size: int) -> jax.Array:
    """Boards as bits, the batch last, so that bit operations work on many boards at once.

    Args:
      cells: [batch, size * size] bool.

    Returns:
      [words, batch] uint32. A word holds as many whole rows as fit, the first in the lowest bits.
    """
    rows, words = _packing(size)
    cells = jnp.pad(cells, ((0, 0), (0, (words * rows - size) * size)))
    cells = cells.reshape(-1, words, rows * size)
    weights = jnp.uint32(1) << jnp.arange(rows * size, dtype=jnp.uint32)
    return jnp.sum(jnp.where(cells, weights, jnp.uint32(0)), axis=-1, dtype=jnp.uint32).T


def joins_top_and_bottom(stones: jax.Array, size: int) -> jax.Array:
    """[batch] bool: whether the stones, packed as [words, batch], hold a chain from top to bottom.

    The reduction known from the game of Y: put on every cell the majority of the triangle (r, c), (r, c+1),
    (r+1, c), counting all below the board as stones and all to the right of it as none. A chain of stones
    from top to bottom survives each such round, and so does one of gaps from left to right. After
    2 * size - 2 rounds cell (0, 0) has heard of every other cell, and what stands on it is the answer.
    """
    rows, words = _packing(size)
    inside = (1 << rows * size) - 1
    not_last_column = jnp.uint32(inside - sum(1 << (row * size + size - 1) for row in range(rows)))
    last_rows = size - (words - 1) * rows
    below_board = np.zeros((words, 1), np.uint32)
    below_board[-1] = inside - ((1 << last_rows * size) - 1)

    def majority(_, board):
        right = (board >> 1) & not_last_column
        next_word = jnp.concatenate([board[1:], jnp.full_like(board[:1], inside)])
        below = (next_word << (rows - 1) * size) & jnp.uint32(inside)
        if rows > 1:
            below = below | (board >> size)
        return (board & right) | (below & (board | right))

    board = jax.lax.fori_loop(0, 2 * size - 2, majority, stones | below_board)
    return (board[0] & 1).astype(bool)


def _packing(size: int) -> tuple[int, int]:
    """Rows per word, and words per board."""
    rows = 32 // size
    return rows, math.ceil(size / rows)


def _count(packed: jax.Array) -> jax.Array:
    """[batch] int32, the ones in [words, batch]."""
    return jnp.sum(jax.lax.population_count(packed), axis=0).astype(jnp.int32)


def _random_subset(candidates: jax.Array, wanted: jax.Array, key: jax.Array) -> jax.Array:
    """As many of the candidates as wanted, every such subset equally likely.

    Each round tosses a coin for every candidate left. If no more show heads than are wanted, those are taken
    and the others remain candidates; otherwise the others are out. A round halves the candidates.

    Args:
      candidates: [words, batch] uint32.
      wanted: [batch] int32, from none to all of them.
    """

    def undecided(carry):
        _, _, wanted, left, _ = carry
        return jnp.any((wanted > 0) & (wanted < left))

    def toss(carry):
        taken, candidates, wanted, left, word = carry
        word = word + jnp.uint32(0x9E3779B9)
        heads = candidates & core.scramble(word)
        shown = _count(heads)
        take = shown <= wanted
        return (
            jnp.where(take, taken | heads, taken),
            jnp.where(take, candidates & ~heads, heads),
            jnp.where(take, wanted - shown, wanted),
            jnp.where(take, left - shown, shown),
            word,
        )

    word = jax.random.bits(key, candidates.shape, jnp.uint32)
    start = (jnp.zeros_like(candidates), candidates, wanted, _count(candidates), word)
    taken, candidates, wanted, _, _ = jax.lax.while_loop(undecided, toss, start)
    return taken | jnp.where(wanted > 0, candidates, jnp.uint32(0))


def _letter(column: int) -> str:
    return chr(ord("a") + column)


class _Picture:
    """The SVG parts of one board: hexagons standing on a corner, rows shifted right by half a cell."""

    CELL = 46.0  # width of a hexagon
    RADIUS = CELL / math.sqrt(3)  # centre to corner
    MARGIN = 36.0
    CORNERS = ((0, -1), (0.5, -0.5), (0.5, 0.5), (0, 1), (-0.5, 0.5), (-0.5, -0.5))  # in CELL, RADIUS

    def __init__(self, size: int, colours: drawing.Theme, room_for_swap: bool):
        self.size = size
        self.colours = colours
        self.parts: list[str] = []
        self.width = 2 * self.MARGIN + (1.5 * size - 0.5) * self.CELL
        self.board_height = 2 * self.MARGIN + (1.5 * size + 0.5) * self.RADIUS
        self.height = self.board_height + (0.8 * self.CELL if room_for_swap else 0)

    def draw_frame(self) -> None:
        """The four sides in their players' colours, and the names of columns and rows."""
        top, left = [], []
        for i in range(self.size):
            top += [self._point(0, i, -0.5, -0.5), self._point(0, i, 0, -1)]
            left += [self._point(i, 0, -0.5, -0.5), self._point(i, 0, -0.5, 0.5)]
        # The free edge of a blunt corner belongs to both players, half and half.
        top.append(self._point(0, self.size - 1, 0.25, -0.75))
        left.append(self._point(self.size - 1, 0, -0.25, 0.75))
        for path, colour in ((top, self.colours.first), (left, self.colours.second)):
            opposite = [(self.width - x, self.board_height - y) for x, y in path]
            self.parts += [_line(path, colour), _line(opposite, colour)]
        for i in range(self.size):
            self._write(self._point(0, i, -0.42, -1.5), _letter(i), self.colours.text, 14)
            self._write(self._point(i, 0, -0.92, 0), str(i + 1), self.colours.text, 14)

    def draw_cell(self, cell: int, ground: str, stone: str | None, mark: str | None) -> None:
        """A hexagon, with a stone of that colour and a text on it where they are given."""
        corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in (self._at(cell, *c) for c in self.CORNERS))
        self.parts.append(
            f'<polygon points="{corners}" fill="{ground}" stroke="{self.colours.grid}" stroke-width="1"/>'
        )
        if stone is not None:
            x, y = self._at(cell)
            edge = drawing.mix(stone, self.colours.grid, 0.5)
            self.parts.append(
                f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{0.37 * self.CELL:g}" fill="{stone}" '
                f'stroke="{edge}" stroke-width="1.5"/>'
            )
        if mark is not None:
            colour = self.colours.text if stone is None else self.colours.background
            self._write(self._at(cell), mark, colour, 15 if len(mark) < 3 else 12)

    def draw_swap(self, ground: str, mark: str | None) -> None:
        """A button under the board for the swap."""
        x, y = self.width / 2, self.board_height + 0.2 * self.CELL
        label = "swap" if mark is None else f"swap {mark}"
        width = 30 + 9 * len(label)
        self.parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - 14:g}" width="{width:g}" height="28" rx="14" '
            f'fill="{ground}" stroke="{self.colours.grid}" stroke-width="1"/>'
        )
        self._write((x, y), label, self.colours.text, 15)

    def draw_last_move(self, cell: int) -> None:
        """A ring around the stone."""
        x, y = self._at(cell)
        self.parts.append(
            f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{0.37 * self.CELL:g}" fill="none" '
            f'stroke="{self.colours.accent}" stroke-width="4"/>'
        )

    def _at(self, cell: int, right: float = 0, down: float = 0) -> tuple[float, float]:
        return self._point(*divmod(cell, self.size), right, down)

    def _point(self, row: int, column: int, right: float, down: float) -> tuple[float, float]:
        """A point beside the centre of a cell, `right` counted in CELL and `down` in RADIUS."""
        return (
            self.MARGIN + (column + 0.5 * row + 0.5 + right) * self.CELL,
            self.MARGIN + (1.5 * row + 1 + down) * self.RADIUS,
        )

    def _write(self, point: tuple[float, float], content: str, colour: str, size: float) -> None:
        self.parts.append(drawing.text(*point, content, colour, size))


def _line(points: list[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="11" stroke-linejoin="round"/>'
    )
