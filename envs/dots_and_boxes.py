"""Dots and Boxes on rows x columns boxes, with images, symmetries, notation, drawing and its dual game.

Rules: two players in turn draw one unit line between neighbouring dots of a grid. Whoever draws the
fourth side of a box owns it and must draw again (once, even if the line completed two boxes). No capture
is compulsory. The game ends when every line is drawn; the player with more boxes wins, and an even number
of boxes can be shared equally. An illegal step (a line that is drawn already) changes nothing, so a
finished game stays as it is.

State: which lines are drawn, who owns each box, who moves. `lines + boxes + 4` bytes.

Actions: one per line, absolute, numbered as in OpenSpiel: horizontal lines row by row, then vertical lines
row by row. Peters 2018 (AlphaDots) numbers rows of horizontal and vertical lines alternately; `peters_lines`
and `peters_numbers` translate.

Observations (float32, `observation=`), seen by the player to move unless another is named:
  "compact": [rows + 1, columns + 1, 6], a pixel a dot. The lines right of and below the dot, and the box
    to its lower right, belong to its pixel. Planes: horizontal line drawn, vertical line drawn, horizontal
    line open, vertical line open, own box, opponent's box. A line off the board is neither drawn nor open,
    so that a convolution sees where the board ends, whatever its size. The cheapest for a network: a
    quarter of the image's pixels.
  "image": [2 rows + 3, 2 columns + 3, 5], the picture of Peters 2018: a pixel each for dots, lines and boxes,
    and a border. Planes: background, lines, own boxes, opponent's boxes, dots; exactly one of them is 1 at
    every pixel. What is not drawn or not owned yet is background.
  "image-absolute": the same with boxes of the first player (A) and of the second (B), as in the thesis.
    It does not tell the network who is to move.
  "grey": [2 rows + 3, 2 columns + 3, 1], the absolute image in the thesis's shades of grey, black 0, white 1.

Rewards, at the end of the game (`reward=`): "outcome" is +1, 0 or -1; "margin" is the difference in boxes
divided by the number of boxes. `margin` gives the difference itself, at any time.

Notation: a move is its two dots, `a1-b1`: letter for the column, number for the row, a1 at the top left.
A position is one line of rows separated by slashes, then the player to move (A moves first):
`--/|A|.|/-./|..../.. B` on 2x2. Rows of horizontal lines (`-` or `.`) alternate with rows of vertical lines
(`|` or `.`) that have the boxes between them (owner `A` or `B`, or `.`). Owners are always given: a box
has one exactly if its four sides are drawn. Whether play can lead to the position is not asked, since
problems are often set up by hand.

Version history: "1" is the first.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs import drawing
from azjax.envs.core import Game, GameError, MoveError, PositionError, Symmetries, check_move

MAX_SIDE = 20
OBSERVATIONS = ("compact", "image", "image-absolute", "grey")
REWARDS = ("outcome", "margin")
PLAYERS = "AB"
# Peters's shades for background, lines, boxes of A, boxes of B and dots.
GREY_LEVELS = np.array([0, 255, 65, 150, 215], np.float32) / 255


class DotsAndBoxesState(NamedTuple):
    """A position."""

    lines: jax.Array  # [lines] bool, which are drawn
    owners: jax.Array  # [boxes] int8: 1 for the first player, -1 for the second, 0 for nobody yet
    current_player: jax.Array  # [] int32; at the end, who drew the last line


@dataclasses.dataclass(frozen=True)
class DotsAndBoxes:
    """The rules; a `Game`. Sizes count boxes; see the head of the module for the options."""

    rows: int = 3  # of boxes
    columns: int = 3  # of boxes
    reward: str = "outcome"  # or margin, the difference in boxes divided by their number
    observation: str = "compact"  # or image, image-absolute, grey

    name: ClassVar[str] = "dots_and_boxes"
    version: ClassVar[str] = "1"
    view_options: ClassVar[tuple[str, ...]] = ("observation",)
    worth_options: ClassVar[tuple[str, ...]] = ("reward",)

    def __post_init__(self):
        for side in ("rows", "columns"):
            value = getattr(self, side)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIDE:
                raise GameError(f"{side} must be a whole number of boxes from 1 to {MAX_SIDE}, got {value!r}")
        for option, choices in (("reward", REWARDS), ("observation", OBSERVATIONS)):
            value = getattr(self, option)
            if value not in choices:
                raise GameError(f"{option} must be one of {', '.join(choices)}, got {value!r}")

    @property
    def num_boxes(self) -> int:
        """How many boxes there are."""
        return self.rows * self.columns

    @property
    def num_actions(self) -> int:
        """How many lines there are."""
        return self._num_horizontal + self.rows * (self.columns + 1)

    @property
    def max_plies(self) -> int:
        """Every game draws every line."""
        return self.num_actions

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """[height, width, planes] of the chosen observation."""
        if self.observation == "compact":
            return (self.rows + 1, self.columns + 1, 6)
        return (*self._image_size, 1 if self.observation == "grey" else 5)

    @functools.cached_property
    def action_cells(self) -> np.ndarray:
        """[lines, places, 2] int32, where a line stands in the observation.

        In an image it is a pixel, one place; in the compact observation the two dots that it joins.
        """
        if self.observation != "compact":
            return self.line_pixels[:, None, :2]
        row, column, vertical = line_anchors(self.rows, self.columns).T
        ends = [row, column, row + vertical, column + 1 - vertical]
        return np.stack(ends, -1).reshape(-1, 2, 2).astype(np.int32)

    @functools.cached_property
    def action_frames(self) -> np.ndarray:
        """[2, lines]: both players see the same lines."""
        return np.tile(np.arange(self.num_actions, dtype=np.int32), (2, 1))

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The four flips, and on square boards also their transposes."""
        lines = self._line_symmetries
        if self.observation == "compact":
            observation = [self._compact_view(*tables) for tables in zip(lines, self.box_symmetries)]
        else:
            index = np.arange(np.prod(self.observation_shape)).reshape(self.observation_shape)
            observation = [view(index).ravel() for view in self._views]
        return Symmetries(np.stack(observation).astype(np.int32), lines)

    @functools.cached_property
    def box_symmetries(self) -> np.ndarray:
        """[symmetries, boxes] int32: the symmetric view of `owners` is `owners[box_symmetries[s]]`."""
        index = np.arange(self.num_boxes, dtype=np.int32).reshape(self.rows, self.columns)
        return np.stack([view(index).ravel() for view in self._views])

    @functools.cached_property
    def line_pixels(self) -> np.ndarray:
        """[lines, 3] int32: where a line stands in a policy map of the observation's height and width.

        Row, column and channel. The compact map has two channels, for horizontal and vertical lines;
        images have one. A fully convolutional policy head is `map[..., row, column, channel]`.
        """
        anchors = line_anchors(self.rows, self.columns)
        if self.observation == "compact":
            return anchors
        row, column, vertical = anchors.T
        return np.stack([2 * row + 1 + vertical, 2 * column + 2 - vertical, 0 * row], axis=1)

    def init(self, key: jax.Array | None = None) -> DotsAndBoxesState:
        """No line drawn, the first player to move."""
        del key
        return DotsAndBoxesState(
            lines=jnp.zeros(self.num_actions, bool),
            owners=jnp.zeros(self.num_boxes, jnp.int8),
            current_player=jnp.int32(0),
        )

    def step(self, x: DotsAndBoxesState, action: jax.Array) -> DotsAndBoxesState:
        """The position after drawing a line; drawing it again changes nothing."""
        new_line = (jnp.arange(self.num_actions) == action) & ~x.lines
        lines = x.lines | new_line
        captured = self._is_complete(lines) & (x.owners == 0)
        turn_over = jnp.any(new_line) & ~jnp.any(captured)
        return DotsAndBoxesState(
            lines=lines,
            owners=jnp.where(captured, _sign(x.current_player), x.owners),
            current_player=x.current_player ^ turn_over.astype(jnp.int32),
        )

    def legal_action_mask(self, x: DotsAndBoxesState) -> jax.Array:
        """[lines] bool: the lines not drawn yet."""
        return ~x.lines

    def is_terminal(self, x: DotsAndBoxesState) -> jax.Array:
        """[] bool: every line is drawn."""
        return jnp.all(x.lines)

    def scores(self, x: DotsAndBoxesState) -> jax.Array:
        """[2] int32: the boxes of each player so far."""
        return jnp.stack([jnp.sum(x.owners == 1), jnp.sum(x.owners == -1)]).astype(jnp.int32)

    def margin(self, x: DotsAndBoxesState, player: jax.Array | None = None) -> jax.Array:
        """[] int32: boxes of `player` (default: the player to move) minus boxes of the other, so far."""
        player = x.current_player if player is None else player
        return jnp.sum(x.owners, dtype=jnp.int32) * _sign(player)

    def rewards(self, x: DotsAndBoxesState) -> jax.Array:
        """[2] float32: the result for each player once the game is over."""
        return jnp.where(self.is_terminal(x), self._result(self.margin(x, 0)), 0.0)

    def ownership(self, x: DotsAndBoxesState, player: jax.Array) -> jax.Array:
        """[height, width] float32 as in the observation: 1 the boxes of `player`, -1 the other's, 0 elsewhere."""
        own, other = self._boxes_of(x, player)
        boxes = own.astype(jnp.float32) - other
        if self.observation != "compact":
            return self._spread(boxes, 2, 2)
        height, width, _ = self.observation_shape
        return jnp.pad(boxes, ((0, height - self.rows), (0, width - self.columns)))

    def final_margin(self, x: DotsAndBoxesState, player: jax.Array) -> jax.Array:
        """[] float32 from -1 to 1: the margin of `player` as a share of all boxes."""
        return self.margin(x, player) / self.num_boxes

    def random_playout(self, x: DotsAndBoxesState, key: jax.Array) -> jax.Array:
        """[batch, 2] rewards of uniformly random play to the end, for positions `x` [batch, ...].

        Random play draws the open lines in random order. Two of the 31-bit numbers that stand for the order
        agree in less than one game in a million on 5x5, too seldom to be seen in any statistics.
        """
        bits = jax.random.bits(key, x.lines.shape[::-1], jnp.uint32).T
        return self._result(self.margin_in_order(x, (bits >> 1).astype(jnp.int32))[:, None])

    def margin_in_order(self, x: DotsAndBoxesState, order: jax.Array) -> jax.Array:
        """[batch] int32, boxes of the first player minus the second's if the open lines are drawn in order.

        A box is completed at the largest number among its sides. A line that is not the last side of a box
        ends a turn. So the owner of a box follows from the parity of the turns that end before it is
        completed: there is neither stepping nor sorting, and all work runs along the batch.

        Args:
          x: positions [batch, ...].
          order: [batch, lines] int32, not negative: the open line with the least number is drawn first.
        """
        drawn = x.lines.T  # [lines, batch], as everything below
        number = jnp.where(drawn, -1, order.T)
        completion = functools.reduce(jnp.maximum, self._sides(number))  # [rows, columns, batch]
        never = jnp.iinfo(jnp.int32).max
        turn_end = jnp.where(drawn | self._ends_a_box(number, completion), never, number)
        completion = completion.reshape(self.num_boxes, -1)

        def pass_line(mover, turn_end_of_line):
            return mover ^ (turn_end_of_line < completion).astype(jnp.int32), None

        mover = jnp.broadcast_to(x.current_player, completion.shape)
        mover, _ = jax.lax.scan(pass_line, mover, turn_end)
        owners = jnp.where(x.owners.T == 0, _sign(mover), x.owners.T)
        return jnp.sum(owners, axis=0, dtype=jnp.int32)

    def observe(self, x: DotsAndBoxesState, player: jax.Array | None = None) -> jax.Array:
        """[*observation_shape] float32, from the side of `player` (default: the player to move)."""
        if self.observation == "compact":
            return self._compact(x, player)
        if self.observation == "image":
            return self._image(x, player)
        image = self._image(x, 0)
        if self.observation == "grey":
            # Exactly one plane is 1, so the maximum picks its shade.
            return jnp.max(image * GREY_LEVELS, axis=-1, keepdims=True)
        return image

    def random_states(self, key: jax.Array, number: int) -> DotsAndBoxesState:
        """Uniform draws from all sets of lines; owners of the finished boxes and a player to move are drawn too."""
        draw = np.random.default_rng(int(jax.random.bits(key)))
        lines = draw.random((number, self.num_actions)) < 0.5
        done = lines[:, box_sides(self.rows, self.columns)].all(axis=2)
        owners = np.where(done, draw.choice([-1, 1], done.shape), 0).astype(np.int8)
        return DotsAndBoxesState(lines, owners, draw.integers(0, 2, number).astype(np.int32))

    def numbered(self, moves: Sequence[int]) -> dict[int, str]:
        """The numbers of moves on the lines they drew."""
        return {action: str(number) for number, action in enumerate(moves, start=1)}

    def action_to_text(self, action: int) -> str:
        """The two dots of the line, the upper or left one first: `a1-b1`."""
        self._check_line(action)
        row, column, vertical = line_anchors(self.rows, self.columns)[action]
        return f"{_dot_name(row, column)}-{_dot_name(row + vertical, column + 1 - vertical)}"

    def text_to_action(self, text: str, x: DotsAndBoxesState | None = None) -> int:
        """The line between two dots, named in either order; raises MoveError."""
        match = re.fullmatch(r"\s*([a-z])(\d{1,4})\s*-\s*([a-z])(\d{1,4})\s*", text.lower(), re.ASCII)
        if match is None:
            raise MoveError(f"{text!r} is no line: expected two neighbouring dots such as a1-b1")
        first, second = sorted((self._dot(*match.groups()[:2]), self._dot(*match.groups()[2:])))
        step = (second[0] - first[0], second[1] - first[1])
        if step not in ((0, 1), (1, 0)):
            raise MoveError(
                f"{text!r} is no line: {_dot_name(*first)} and {_dot_name(*second)} are not neighbours"
            )
        action = self._line_numbers[(*first, step[0])]
        if x is not None and bool(x.lines[action]) and not bool(self.is_terminal(x)):
            raise MoveError(f"{text!r} is drawn already")
        return check_move(self, x, action, text)

    def to_notation(self, x: DotsAndBoxesState) -> str:
        """The position on one line; see the head of the module."""
        rows = ["".join(row[1::2] if i % 2 == 0 else row) for i, row in enumerate(self._characters(x))]
        return f"{'/'.join(rows).replace(' ', '.')} {PLAYERS[int(x.current_player)]}"

    def from_notation(self, text: str) -> DotsAndBoxesState:
        """The position of one line; raises PositionError."""
        parts = text.split()
        if len(parts) != 2 or parts[1] not in tuple(PLAYERS):
            raise PositionError(f"expected rows separated by '/', a space and A or B to move, got {text!r}")
        rows = parts[0].split("/")
        if len(rows) != 2 * self.rows + 1:
            raise PositionError(
                f"a board of {self.rows} x {self.columns} boxes has {2 * self.rows + 1} rows of lines "
                f"separated by '/', got {len(rows)}"
            )
        for number, row in enumerate(rows):
            expected = self.columns if number % 2 == 0 else 2 * self.columns + 1
            if len(row) != expected:
                raise PositionError(
                    f"row {number + 1}, {row!r}, must have {expected} characters, has {len(row)}"
                )
        grid = [" " + " ".join(row) + " " if i % 2 == 0 else row for i, row in enumerate(rows)]
        return self._from_characters([row.replace(".", " ") for row in grid], PLAYERS.index(parts[1]))

    def to_text(self, x: DotsAndBoxesState) -> str:
        """The board in ASCII with its coordinates, the score and the player to move."""
        width = len(str(self.rows + 1))
        header = " " * (width + 1) + "   ".join(_column_name(column) for column in range(self.columns + 1))
        board = [header]
        for i, row in enumerate(self._characters(x)):
            wide = (
                cell if j % 2 == 0 else (cell * 3 if i % 2 == 0 else f" {cell} ")
                for j, cell in enumerate(row)
            )
            label = str(i // 2 + 1) if i % 2 == 0 else ""
            board.append(f"{label:>{width}} {''.join(wide)}".rstrip())
        first, second = (int(score) for score in self.scores(x))
        turn = "moved last" if bool(self.is_terminal(x)) else "to move"
        board.append(f"A {first}, B {second}; {PLAYERS[int(x.current_player)]} {turn}")
        return "\n".join(board)

    def from_text(self, text: str) -> DotsAndBoxesState:
        """The position of an ASCII board as `to_text` prints it; raises PositionError.

        Coordinates and the score may be left out, so that boards can be drawn by hand: dots `+` four
        characters apart, lines `---` and `|`, owners `A` and `B`, and below `A to move` or `B to move`.
        """
        rows = text.splitlines()
        top = next((i for i, row in enumerate(rows) if "+" in row), None)
        if top is None:
            raise PositionError("the board has no dots: draw each as '+', four characters apart")
        bottom = max(i for i, row in enumerate(rows) if "+" in row)
        height = 2 * self.rows + 1
        if bottom - top + 1 != height:
            raise PositionError(
                f"a board with {self.rows} rows of boxes is {height} lines of text from its first dots "
                f"to its last, got {bottom - top + 1}"
            )
        turn = re.search(r"\b([AB]) (?:to move|moved last)", "\n".join(rows[bottom + 1 :]))
        if turn is None:
            raise PositionError("the line below the board must say 'A to move' or 'B to move'")
        left = rows[top].index("+")
        board = (row[left:].rstrip().ljust(4 * self.columns + 1) for row in rows[top : bottom + 1])
        grid = [self._narrow(number, row) for number, row in enumerate(board)]
        return self._from_characters(grid, PLAYERS.index(turn[1]))

    def drawn_lines(self, x: DotsAndBoxesState) -> list[str]:
        """The drawn lines as pairs of dots, in order of their numbers."""
        return [self.action_to_text(action) for action in np.flatnonzero(np.asarray(x.lines))]

    def from_lines(
        self, lines: Iterable[int | str], owners: Mapping[int, int] | None = None, current_player: int = 0
    ) -> DotsAndBoxesState:
        """The position with these lines drawn; raises MoveError or PositionError.

        Args:
          lines: numbers or pairs of dots (`"a1-b1"`), in any order.
          owners: box number -> player (0 or 1), for every box whose four sides are drawn.
          current_player: who is to move.
        """
        drawn = np.zeros(self.num_actions, bool)
        for line in lines:
            action = self.text_to_action(line) if isinstance(line, str) else int(line)
            name = self.action_to_text(action)
            if drawn[action]:
                raise PositionError(f"the line {name} is listed twice")
            drawn[action] = True
        signs = np.zeros(self.num_boxes, np.int8)
        for box, player in (owners or {}).items():
            if not 0 <= box < self.num_boxes or player not in (0, 1):
                raise PositionError(
                    f"owners must give boxes 0 to {self.num_boxes - 1} to players 0 or 1, got {box}: {player}"
                )
            signs[box] = 1 - 2 * player
        if current_player not in (0, 1):
            raise PositionError(f"current_player must be 0 or 1, got {current_player!r}")
        return self._checked_position(drawn, signs, current_player)

    def draw(
        self,
        x: DotsAndBoxesState,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> drawing.Svg:
        """The board as a picture; see `Game.draw`."""
        if heat is not None and np.shape(heat) != (self.num_actions,):
            raise GameError(
                f"heat must have shape ({self.num_actions},), a number a line, got {np.shape(heat)}"
            )
        marks = marks or {}
        for action in (*marks, last_action):
            if action is not None:
                self._check_line(action)
        return _Picture(self, drawing.theme_named(theme)).draw(x, last_action, heat, marks, scale)

    def _check_line(self, action: int) -> None:
        if not 0 <= action < self.num_actions:
            raise MoveError(f"a line has a number from 0 to {self.num_actions - 1}, got {action}")

    @property
    def _num_horizontal(self) -> int:
        return (self.rows + 1) * self.columns

    @property
    def _image_size(self) -> tuple[int, int]:
        return (2 * self.rows + 3, 2 * self.columns + 3)

    def _grids(self, values: jax.Array) -> tuple[jax.Array, jax.Array]:
        # One value a line, [lines, ...], as [rows + 1, columns, ...] and [rows, columns + 1, ...].
        horizontal, vertical = values[: self._num_horizontal], values[self._num_horizontal :]
        return (
            horizontal.reshape(self.rows + 1, self.columns, *values.shape[1:]),
            vertical.reshape(self.rows, self.columns + 1, *values.shape[1:]),
        )

    def _sides(self, values: jax.Array) -> tuple[jax.Array, ...]:
        # One value a line as the values at the top, bottom, left and right of every box [rows, columns, ...].
        horizontal, vertical = self._grids(values)
        return horizontal[:-1], horizontal[1:], vertical[:, :-1], vertical[:, 1:]

    def _is_complete(self, lines: jax.Array) -> jax.Array:
        # [boxes] bool.
        top, bottom, left, right = self._sides(lines)
        return (top & bottom & left & right).reshape(-1)

    def _ends_a_box(self, number: jax.Array, completion: jax.Array) -> jax.Array:
        # [lines, batch] bool: is the line's number the one at which a box beside it is completed?
        horizontal, vertical = self._grids(number)
        edge = ((1, 1), (0, 0), (0, 0))
        rows = jnp.pad(completion, edge, constant_values=-2)
        columns = jnp.pad(completion.swapaxes(0, 1), edge, constant_values=-2).swapaxes(0, 1)
        horizontal = (horizontal == rows[:-1]) | (horizontal == rows[1:])
        vertical = (vertical == columns[:, :-1]) | (vertical == columns[:, 1:])
        batch = number.shape[1]
        return jnp.concatenate([horizontal.reshape(-1, batch), vertical.reshape(-1, batch)])

    def _result(self, margin: jax.Array) -> jax.Array:
        # The first player's final margin [..., 1] or [] as rewards [..., 2].
        margins = margin * jnp.array([1, -1])  # in integers, so that a draw is 0.0 for both, never -0.0
        scaled = jnp.sign(margins) if self.reward == "outcome" else margins / self.num_boxes
        return scaled.astype(jnp.float32)

    def _boxes_of(self, x: DotsAndBoxesState, player: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        # [rows, columns] bool each: the boxes of the player and of the other.
        sign = _sign(x.current_player if player is None else player)
        owners = x.owners.reshape(self.rows, self.columns)
        return owners == sign, owners == -sign

    def _compact(self, x: DotsAndBoxesState, player: jax.Array | None) -> jax.Array:
        planes = (*self._grids(x.lines), *self._grids(~x.lines), *self._boxes_of(x, player))
        height, width, _ = self.observation_shape
        padded = [jnp.pad(p, ((0, height - p.shape[0]), (0, width - p.shape[1]))) for p in planes]
        return jnp.stack(padded, axis=-1).astype(jnp.float32)

    def _image(self, x: DotsAndBoxesState, player: jax.Array | None) -> jax.Array:
        horizontal, vertical = self._grids(x.lines)
        lines = self._spread(horizontal, 1, 2) + self._spread(vertical, 2, 1)
        boxes = [self._spread(boxes, 2, 2) for boxes in self._boxes_of(x, player)]
        dots = self._spread(jnp.ones((self.rows + 1, self.columns + 1)), 1, 1)
        background = 1 - lines - boxes[0] - boxes[1] - dots
        return jnp.stack([background, lines, *boxes, dots], axis=-1)

    def _spread(self, values: jax.Array, row: int, column: int) -> jax.Array:
        # Puts values [n, m] on every second pixel of an empty image, the first at (row, column).
        padding = [
            (start, size - start - (2 * count - 1), 1)
            for start, size, count in zip((row, column), self._image_size, values.shape)
        ]
        return jax.lax.pad(values.astype(jnp.float32), jnp.float32(0), padding)

    @property
    def _views(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        # The symmetric views of an array whose first two axes are the board's, the identity first.
        def flipped(down: int, across: int, swap: bool):
            return lambda array: (array.swapaxes(0, 1) if swap else array)[::down, ::across]

        swaps = (False, True) if self.rows == self.columns else (False,)
        return [flipped(down, across, swap) for swap in swaps for down in (1, -1) for across in (1, -1)]

    @functools.cached_property
    def _line_symmetries(self) -> np.ndarray:
        # [symmetries, lines]: number the lines' pixels on a borderless image, and look at it from all sides.
        row, column, vertical = line_anchors(self.rows, self.columns).T
        place = (2 * row + vertical, 2 * column + 1 - vertical)
        image = np.zeros((2 * self.rows + 1, 2 * self.columns + 1), np.int32)
        image[place] = np.arange(self.num_actions)
        return np.stack([view(image)[place] for view in self._views])

    def _compact_view(self, line_table: np.ndarray, box_table: np.ndarray) -> np.ndarray:
        # Lines and boxes change places, planes and all; the pixels of lines off the board stay.
        index = np.arange(np.prod(self.observation_shape)).reshape(self.observation_shape)
        view = index.copy()
        row, column, vertical = line_anchors(self.rows, self.columns).T
        for state in (0, 2):  # drawn, open
            numbers = index[row, column, state + vertical]
            view[row, column, state + vertical] = numbers[line_table]
        for plane in (4, 5):
            numbers = index[: self.rows, : self.columns, plane].ravel()
            view[: self.rows, : self.columns, plane] = numbers[box_table].reshape(self.rows, self.columns)
        return view.ravel()

    @functools.cached_property
    def _line_numbers(self) -> dict[tuple[int, int, int], int]:
        anchors = line_anchors(self.rows, self.columns)
        return {tuple(anchor): action for action, anchor in enumerate(anchors.tolist())}

    def _dot(self, letter: str, number: str) -> tuple[int, int]:
        row, column = int(number) - 1, ord(letter) - ord("a")
        if not (0 <= row <= self.rows and 0 <= column <= self.columns):
            last = _dot_name(self.rows, self.columns)
            raise MoveError(f"{letter}{number} is not a dot of this board, which runs from a1 to {last}")
        return row, column

    def _characters(self, x: DotsAndBoxesState) -> list[list[str]]:
        # The borderless image as characters: '+', '-', '|', 'A', 'B' and blanks.
        grid = [[" "] * (2 * self.columns + 1) for _ in range(2 * self.rows + 1)]
        for row in range(self.rows + 1):
            grid[2 * row][::2] = "+" * (self.columns + 1)
        anchors = line_anchors(self.rows, self.columns)
        for row, column, vertical in anchors[np.asarray(x.lines)]:
            grid[2 * row + vertical][2 * column + 1 - vertical] = "|" if vertical else "-"
        for box, owner in enumerate(np.asarray(x.owners)):
            row, column = divmod(box, self.columns)
            grid[2 * row + 1][2 * column + 1] = {0: " ", 1: "A", -1: "B"}[int(owner)]
        return grid

    def _narrow(self, number: int, row: str) -> str:
        # One line of an ASCII board as a row of `_characters`.
        if len(row) != 4 * self.columns + 1:
            raise PositionError(
                f"line {number + 1} of the board, {row!r}, is longer than {self.columns} boxes"
            )
        if number % 2 == 0 and set(row[::4]) != {"+"}:
            raise PositionError(
                f"line {number + 1} of the board, {row!r}, needs a dot '+' at every fourth character"
            )
        narrow = row[0]
        for start in range(1, len(row), 4):
            middle = row[start : start + 3]
            if number % 2 == 0 and middle not in ("---", "   "):
                raise PositionError(
                    f"line {number + 1} of the board has {middle!r} between dots, not '---' or blanks"
                )
            if number % 2 == 1 and (middle[0] != " " or middle[2] != " "):
                raise PositionError(
                    f"line {number + 1} of the board has {middle!r} in a box, not one centred A or B"
                )
            narrow += middle[1] + row[start + 3]
        return narrow

    def _from_characters(self, grid: list[str], player: int) -> DotsAndBoxesState:
        lines = np.zeros(self.num_actions, bool)
        for action, (row, column, vertical) in enumerate(line_anchors(self.rows, self.columns)):
            character = grid[2 * row + vertical][2 * column + 1 - vertical]
            expected = "|" if vertical else "-"
            if character not in (expected, " "):
                raise PositionError(
                    f"the line {self.action_to_text(action)} must be {expected!r} or left open, "
                    f"got {character!r}"
                )
            lines[action] = character != " "
        owners = np.zeros(self.num_boxes, np.int8)
        for box in range(self.num_boxes):
            row, column = divmod(box, self.columns)
            character = grid[2 * row + 1][2 * column + 1]
            if character not in (" ", *PLAYERS):
                raise PositionError(f"{self._box_name(box)} must belong to A, B or nobody, got {character!r}")
            owners[box] = {" ": 0, "A": 1, "B": -1}[character]
        return self._checked_position(lines, owners, player)

    def _checked_position(self, lines: np.ndarray, owners: np.ndarray, player: int) -> DotsAndBoxesState:
        complete = self._is_complete(lines)
        for box in range(self.num_boxes):
            if complete[box] and not owners[box]:
                raise PositionError(f"{self._box_name(box)} has all four sides drawn and so needs an owner")
            if owners[box] and not complete[box]:
                raise PositionError(
                    f"{self._box_name(box)} has an owner but not all of its four sides are drawn"
                )
        return DotsAndBoxesState(jnp.asarray(lines), jnp.asarray(owners, jnp.int8), jnp.int32(player))

    def _box_name(self, box: int) -> str:
        return f"the box to the lower right of {_dot_name(*divmod(box, self.columns))}"


@functools.cache
def line_anchors(rows: int, columns: int) -> np.ndarray:
    """[lines, 3] int32: row and column of a line's upper or left dot, and 1 if the line is vertical."""
    horizontal = [(row, column, 0) for row in range(rows + 1) for column in range(columns)]
    vertical = [(row, column, 1) for row in range(rows) for column in range(columns + 1)]
    anchors = np.array(horizontal + vertical, np.int32)
    anchors.flags.writeable = False  # the cache hands out one array to all
    return anchors


def box_sides(rows: int, columns: int) -> np.ndarray:
    """[boxes, 4] int32: the lines at the top, left, right and bottom of every box, row by row."""
    row, column = np.divmod(np.arange(rows * columns, dtype=np.int32), columns)
    top = row * columns + column
    left = (rows + 1) * columns + row * (columns + 1) + column
    return np.stack([top, left, left + 1, top + columns], axis=1)


def peters_numbers(rows: int, columns: int) -> np.ndarray:
    """[lines] int32: the number that Peters 2018 gives each line.

    Rows of horizontal lines and rows of vertical lines alternate, all from left to right.
    """
    row, column, vertical = line_anchors(rows, columns).T
    return row * (2 * columns + 1) + column + columns * vertical


def peters_lines(rows: int, columns: int) -> np.ndarray:
    """[lines] int32: our line for each of Peters's numbers; the inverse of `peters_numbers`."""
    return np.argsort(peters_numbers(rows, columns)).astype(np.int32)


def strings_and_coins(rows: int, columns: int) -> np.ndarray:
    """[lines, 2] int32: the dual game, a multigraph whose edge `l` is the string that line `l` cuts.

    Its nodes are the coins (boxes, row by row) and the ground, numbered `rows * columns`, where the
    strings of the border end. A coin belongs to whoever cuts the last of its four strings.
    """
    ground = rows * columns
    coins = np.full((rows + 2, columns + 2), ground, np.int32)
    coins[1:-1, 1:-1] = np.arange(ground).reshape(rows, columns)
    row, column, vertical = line_anchors(rows, columns).T
    return np.stack([coins[row + vertical, column + 1 - vertical], coins[row + 1, column + 1]], axis=1)


class _Picture:
    """Draws one board in one theme."""

    def __init__(self, game: DotsAndBoxes, theme: drawing.Theme):
        self.game = game
        self.theme = theme
        # Small boards get large boxes, so that all boards up to 8 x 8 are about 400 wide.
        self.box = min(100.0, max(40.0, 320 / max(game.rows, game.columns)))
        self.pen = min(5.0, 1.2 + 0.042 * self.box)
        self.margin = 44.0
        self.footer = 26.0

    def draw(self, x, last_action, heat, marks, scale) -> drawing.Svg:
        game, theme = self.game, self.theme
        drawn = np.asarray(x.lines)
        shares = {} if heat is None else drawing.heat_shares(np.asarray(heat), ~drawn)
        width = game.columns * self.box + 2 * self.margin
        height = game.rows * self.box + 2 * self.margin + self.footer
        inset = 0.42 * self.margin
        parts = [
            f'<rect x="{inset:g}" y="{inset:g}" width="{width - 2 * inset:g}" '
            f'height="{height - self.footer - 2 * inset:g}" rx="12" fill="{theme.board}"/>'
        ]
        parts += self._labels()
        parts += [self._owned_box(box, owner) for box, owner in enumerate(np.asarray(x.owners)) if owner]
        faint = drawing.mix(theme.board, theme.grid, 0.35)
        for action in np.flatnonzero(~drawn):
            parts.append(self._line(action, faint, max(1.3, 0.4 * self.pen), dashes="1 6"))
        # Hottest last, so that it covers its cooler neighbours at their common dots.
        for action, share in sorted(shares.items(), key=lambda item: item[1]):
            if share > 0:
                colour = drawing.mix(theme.board, theme.heat, 0.25 + 0.75 * share)
                parts.append(self._line(action, colour, (0.5 + 1.7 * share) * self.pen))
        for action in np.flatnonzero(drawn):
            if action != last_action:
                parts.append(self._line(action, theme.text, self.pen))
        if last_action is not None:
            parts.append(self._line(last_action, theme.accent, 1.5 * self.pen))
        parts += self._dots()
        parts += [self._mark(action, content) for action, content in marks.items()]
        parts += self._score(x, width, height)
        return drawing.picture(width, height, parts, theme, scale)

    def _at(self, row: float, column: float) -> tuple[float, float]:
        return self.margin + column * self.box, self.margin + row * self.box

    def _line(self, action: int, colour: str, width: float, dashes: str = "") -> str:
        row, column, vertical = line_anchors(self.game.rows, self.game.columns)[action]
        (x1, y1), (x2, y2) = self._at(row, column), self._at(row + vertical, column + 1 - vertical)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        return (
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="{width:g}" stroke-linecap="round"{dashed}/>'
        )

    def _player_colour(self, player: int, share: float) -> str:
        return drawing.mix(self.theme.board, (self.theme.first, self.theme.second)[player], share)

    def _owned_box(self, box: int, owner: int) -> str:
        row, column = divmod(box, self.game.columns)
        player = 0 if owner > 0 else 1
        x, y = self._at(row, column)
        centre = self._at(row + 0.5, column + 0.5)
        size = f'width="{self.box:g}" height="{self.box:g}"'
        tint = f'<rect x="{x:g}" y="{y:g}" {size} fill="{self._player_colour(player, 0.3)}"/>'
        letter = drawing.text(*centre, PLAYERS[player], self._player_colour(player, 0.85), 0.36 * self.box)
        return tint + letter

    def _dots(self) -> list[str]:
        places = [self._at(r, c) for r in range(self.game.rows + 1) for c in range(self.game.columns + 1)]
        look = f'r="{1.2 * self.pen:g}" fill="{self.theme.text}"'
        return [f'<circle cx="{x:g}" cy="{y:g}" {look}/>' for x, y in places]

    def _labels(self) -> list[str]:
        outside, colour, size = 0.24 * self.margin, self.theme.grid, 12
        columns = [(self._at(0, c)[0], outside, _column_name(c)) for c in range(self.game.columns + 1)]
        rows = [(outside, self._at(r, 0)[1], str(r + 1)) for r in range(self.game.rows + 1)]
        return [drawing.text(x, y, label, colour, size) for x, y, label in columns + rows]

    def _mark(self, action: int, content: str) -> str:
        row, column, vertical = line_anchors(self.game.rows, self.game.columns)[action]
        x, y = self._at(row + 0.5 * vertical, column + 0.5 * (1 - vertical))
        size = 13
        width = 0.62 * size * len(content) + 8
        plate = (
            f'<rect x="{x - width / 2:g}" y="{y - 9:g}" width="{width:g}" height="18" rx="9" '
            f'fill="{self.theme.background}" stroke="{self.theme.grid}" stroke-width="1"/>'
        )
        return plate + drawing.text(x, y, content, self.theme.text, size)

    def _score(self, x, width: float, height: float) -> list[str]:
        # A disc in each player's colour with the boxes taken beside it; a ring marks the player to move.
        parts = []
        y = height - self.footer
        for player, score in enumerate(np.asarray(self.game.scores(x))):
            centre = width / 2 + (-34 if player == 0 else 20)
            fill = self._player_colour(player, 0.85)
            if int(x.current_player) == player and not bool(self.game.is_terminal(x)):
                ring = f'stroke="{self.theme.accent}" stroke-width="2.5"'
                parts.append(f'<circle cx="{centre:g}" cy="{y:g}" r="13" fill="none" {ring}/>')
            parts.append(f'<circle cx="{centre:g}" cy="{y:g}" r="9.5" fill="{fill}"/>')
            parts.append(drawing.text(centre, y, PLAYERS[player], self.theme.board, 11))
            parts.append(drawing.text(centre + 24, y, str(score), self.theme.text, 15))
        return parts


def _sign(player: jax.Array) -> jax.Array:
    # How `owners` writes a player.
    return (1 - 2 * jnp.asarray(player)).astype(jnp.int8)


def _column_name(column: int) -> str:
    return chr(ord("a") + column)


def _dot_name(row: int, column: int) -> str:
    return f"{_column_name(column)}{row + 1}"


def board_of(game: Game, asking: str) -> DotsAndBoxes:
    """The game, if it is Dots and Boxes.

    Args:
      game: any.
      asking: who needs that it is, as the beginning of a sentence.

    Raises:
      GameError: it is not.
    """
    if not isinstance(game, DotsAndBoxes):
        raise GameError(f"{asking}, not {game.name}")
    return game
