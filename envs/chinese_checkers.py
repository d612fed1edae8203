"""Chinese Checkers for two, on the diamond in the middle of the star: `size` x `size` cells.

The game of Karki 2024, "Evaluating AlphaZero in a Strongly Solved Game", after Sturtevant's rules.
`ChineseCheckers()` is the thesis's small game, 4x4 with three pieces, as it is played there;
`ChineseCheckers(5, 6)` is its large one.

Board. Cells are numbered row by row from the top tip, left to right; the bottom tip is the last one:

         0            Cell (x, y) lies in row x + y; within a row x grows to the right. Its neighbours are
        1 2           (x+-1, y), (x, y+-1), (x+1, y-1) and (x-1, y+1). Arrays in image layout hold
       3 4 5          cell (x, y) at [y, x].
      6 7 8 9
      10 11 12        The first player, `a`, starts at the top and moves down, the second, `b`, starts at the
       13 14          bottom and moves up. A home is the first (last) `pieces` cells; four pieces make a
        15            rhombus, 0 1 2 4. Each player's goal is the other's home.

Moves. A turn moves one piece: a step to an empty neighbour, or a chain of hops, each straight over one
  piece of either colour into the empty cell behind it. Nothing is captured. A move is its two ends:
  different chains between them are one move. With `forward_only` (the default, and how every game of the
  thesis is played) a move must not end in a row behind the one it began in; sideways is allowed, and so is
  a chain that goes back in between. A player who has no such move may make any move.
Illegal positions, into which nobody may move. (1) The player to move has already won: so a player may not
  fill up the own home around a piece of the opponent. (2) With six pieces: the tip of a home is empty and
  the four other cells on its two edges are held by the pieces at home there, so that nobody else can get in.
Termination. The player who has just moved wins if the goal is full, with pieces of either colour, at least
  one of them the own. A player who cannot move at all has lost, as soon as that position is on the board.
  Otherwise the game is drawn when the board (whoever is to move) has been there before more than
  `repetitions` times, the start included, and after `max_plies` plies. `repetitions=6` is the thesis's
  training, `repetitions=0` its solver's rule that any repetition draws, and `repetitions=None` is no such
  rule: then no history is kept, and the state is a few words small.
Rewards. +1 for the winner and -1 for the loser at the end, 0 in a draw and until then.

State. One bit per cell and player, the player to move, the ply, the outcome: 17 bytes up to 5x5. With the
  repetition rule also the pieces of whoever moved, for each ply: 2 bytes per ply on 4x4, 4 on 5x5.
Action. One number for each pair (from, to) that a step or hops can ever join, neighbours or cells that differ
  by even steps in x and in y, sorted by from, then to: 114 of them on 4x4, 256 on 5x5. `moves` lists
  them. The thesis numbers all size^4 pairs instead; `to_thesis_action` and `from_thesis_action` translate.
Observation. [size, size, 2] bool in image layout: plane 0 the pieces of the player who looks, plane 1 the
  other's; turned by 180 degrees for the second player, so that the player who looks always moves down.
Notation. A move is `from-to`, as in `0-3`. A position is its rows from the top tip, `a` and `b` for pieces
  and digits for runs of empty cells, then the player to move: 4x4 starts as `a/aa/3/4/3/bb/b a`. What came
  before is not part of it: a position that is read starts a new count of plies (at 0 or 1, so that its
  parity is the player to move) and a new history.

Versions. 1.0.0: the first.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs import checkers_ranking, drawing
from azjax.envs.core import GameError, MoveError, PositionError, Symmetries

ONGOING, FIRST_WON, SECOND_WON, DRAWN = range(4)  # State.outcome

# The first player's home for each number of pieces; the second player's is this one turned.
_HOMES = {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 2, 4), 6: tuple(range(6)), 10: tuple(range(10))}
_TIP, _EDGES = (0,), (1, 2, 3, 5)  # of a home of six: with its edges held, the tip cannot be entered
_HOME_CORNERS = {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 4, 2), 6: (0, 3, 5), 10: (0, 6, 9)}
_MOST_ARROWS, _FAINTEST_ARROW = 6, 0.1  # of heat in a drawing: how many, and from which share on
_LONGEST = 1_000_000  # plies of a game
_LARGEST_SIZE = 9  # hops shift bits by 2 * size, which must stay below the 32 of a word
_DIRECTIONS = ((1, 0), (0, 1), (1, -1), (-1, 1), (0, -1), (-1, 0))  # (dx, dy)


class State(NamedTuple):
    """A position. Cell (x, y) is bit `i % 32` of word `i // 32` for `i = y * size + x`."""

    bits: jax.Array  # [2, words] uint32, the cells of the first and of the second player's pieces
    current_player: jax.Array  # [] int32, ply % 2
    ply: jax.Array  # [] int32, moves made
    outcome: jax.Array  # [] int8, one of ONGOING, FIRST_WON, SECOND_WON, DRAWN
    # [max_plies, words] or None. Row `ply` holds the pieces of the player to move, row `ply + 1` those of
    # the other: even rows are the first player's, odd rows the second's, and each two rows in sequence are
    # one board of the game. Rows not yet written are zero.
    history: jax.Array | None


@dataclasses.dataclass(frozen=True)
class ChineseCheckers:
    """The rules of the module's docstring, as an `azjax.envs.core.Game`.

    Attributes:
      size: cells on a side of the diamond, 2 to 9.
      pieces: pieces per player, one of 1, 2, 3, 4, 6, 10, as many as fit.
      forward_only: whether moves that end behind their start are forbidden (unless there is no other).
      repetitions: how often a board may come back before the next time is a draw; None for any number.
      max_plies: the game is drawn after so many.
    """

    size: int = 4
    pieces: int = 3
    forward_only: bool = True
    repetitions: int | None = 6
    max_plies: int = 100

    name: ClassVar[str] = "chinese_checkers"
    version: ClassVar[str] = "1.0.0"

    def __post_init__(self):
        for option in ("size", "pieces", "max_plies", "repetitions"):
            value = getattr(self, option)
            if type(value) is not int and not (option == "repetitions" and value is None):
                raise GameError(f"{option} must be a whole number, got {value!r}")
        if not isinstance(self.forward_only, bool):
            raise GameError(f"forward_only must be True or False, got {self.forward_only!r}")
        if not 2 <= self.size <= _LARGEST_SIZE:
            raise GameError(f"size must be between 2 and {_LARGEST_SIZE}, got {self.size}")
        fitting = [k for k in _HOMES if _homes_fit(self.size, k)]
        if self.pieces not in fitting:
            raise GameError(
                f"pieces must be one of {', '.join(map(str, fitting))} on a {self.size}x{self.size} board "
                f"(two home areas of that size, apart, and an empty cell), got {self.pieces}"
            )
        if self.repetitions is not None and not 0 <= self.repetitions <= _LONGEST:
            raise GameError(
                f"repetitions must be None (no such rule) or from 0 (any repetition draws) to {_LONGEST:,}, "
                f"got {self.repetitions}"
            )
        if not 1 <= self.max_plies <= _LONGEST:
            raise GameError(f"max_plies must be at least 1 and at most {_LONGEST:,}, got {self.max_plies}")

    @property
    def num_cells(self) -> int:
        """Cells of the board."""
        return self.size**2

    @property
    def num_actions(self) -> int:
        """How many pairs of cells a move can ever join."""
        return len(self.moves)

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Rows, columns, planes."""
        return (self.size, self.size, 2)

    @property
    def moves(self) -> np.ndarray:
        """[num_actions, 2] int32, the cells (from, to) of every action."""
        return _geometry(self.size).moves

    @property
    def image_index(self) -> np.ndarray:
        """[num_cells] int32, the place y * size + x of every cell in a flat image."""
        return _geometry(self.size).image_index

    @property
    def homes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cells where the first and the second player's pieces start."""
        return _both_ends(self.size, _HOMES[self.pieces])

    @functools.cached_property
    def to_thesis_action(self) -> np.ndarray:
        """[num_actions] int32, the number image_index[from] * size^2 + image_index[to] of every action."""
        start, end = self.image_index[self.moves].T
        return _frozen(start * self.num_cells + end)

    @functools.cached_property
    def from_thesis_action(self) -> np.ndarray:
        """[size^4] int32, the action of every such number; -1 where no move can join the two cells."""
        actions = np.full(self.num_cells**2, -1, np.int32)
        actions[self.to_thesis_action] = np.arange(self.num_actions)
        return _frozen(actions)

    @functools.cached_property
    def action_cells(self) -> np.ndarray:
        """[num_actions, 2, 2] int32: row and column in the observation of the cells from and to."""
        return _frozen(np.stack(np.divmod(self.image_index[self.moves], self.size), -1))

    @functools.cached_property
    def action_frames(self) -> np.ndarray:
        """[2, num_actions] int32: an action seen from the first and from the second player's side."""
        turned = self.num_cells - 1 - np.arange(self.num_cells)
        return _frozen(np.stack([np.arange(self.num_actions, dtype=np.int32), self._moved_actions(turned)]))

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The identity and the left-right mirror; the identity alone for the lopsided home of two pieces."""
        place = np.arange(2 * self.num_cells, dtype=np.int32).reshape(self.observation_shape)
        observation, action = place.ravel(), np.arange(self.num_actions, dtype=np.int32)
        mirror = _geometry(self.size).mirror
        if {int(mirror[cell]) for cell in self.homes[0]} != set(self.homes[0]):
            return Symmetries(_frozen(observation[None]), _frozen(action[None]))
        return Symmetries(
            observation=_frozen(np.stack([observation, place.transpose(1, 0, 2).ravel()])),
            action=_frozen(np.stack([action, self._moved_actions(mirror)])),
        )

    def init(self, key: jax.Array) -> State:
        """The starting position; always the same."""
        del key
        bits = jnp.array([home.words for home in self._masks.homes], jnp.uint32)
        return State(
            bits=bits,
            current_player=jnp.int32(0),
            ply=jnp.int32(0),
            outcome=jnp.int8(ONGOING),
            history=self._first_history(bits, jnp.int32(0)),
        )

    def from_board(self, board: jax.Array, current_player: jax.Array) -> State:
        """The position with these pieces and no past; whether it is legal is not checked.

        Args:
          board: [num_cells] integers by cell number: 0 empty, 1 the first player's, 2 the second's.
          current_player: [] integer.
        """
        cells = self._masks.cells  # words of [num_cells]
        bits = jnp.array(
            [
                [jnp.sum(jnp.where(board == side, word, 0), dtype=jnp.uint32) for word in cells.words]
                for side in (1, 2)
            ]
        )
        ply = jnp.asarray(current_player, jnp.int32)
        return State(
            bits=bits,
            current_player=ply,
            ply=ply,
            outcome=self._outcome(_sides(bits), ply, ply, repeated=jnp.bool_(False)),
            history=self._first_history(bits, ply),
        )

    def board(self, x: State) -> jax.Array:
        """[num_cells] int8 by cell number: 0 empty, 1 the first player's piece, 2 the second's."""
        first, second = (side.at(jnp.asarray(self.image_index)) for side in _sides(x.bits))
        return first.astype(jnp.int8) + 2 * second.astype(jnp.int8)

    def lead(self, x: State) -> jax.Array:
        """[] how far the player to move leads in the race, from -1 to 1.

        The opponent's distance to its goal minus the own one, plus 1 for being on move, divided by the most that
        this can be. A distance is the sum over a player's pieces of the rows between them and the goal's tip.
        """
        row = self.image_index // self.size + self.image_index % self.size  # [cells], 0 at the top
        # A piece in row r has last - r rows to go down, or r to go up. So the difference of the distances, as the
        # first player sees it, is the sum of all pieces' rows, less `last` for each of its own.
        own_rows = self.pieces * 2 * (self.size - 1)
        most = int(np.sum(np.sort(row)[-2 * self.pieces :])) - own_rows + 1
        difference = jnp.sum(jnp.where(self.board(x) != 0, row, 0)) - own_rows
        return (jnp.where(x.current_player == 0, difference, -difference) + 1) / most

    def step(self, x: State, action: jax.Array) -> State:
        """The position after a legal action; a terminal position stays as it is."""
        over, player, ply = self.is_terminal(x), x.current_player, x.ply + 1
        flipped = jnp.where(over, 0, jnp.asarray(self._masks.moves)[action])
        bits = x.bits ^ jnp.where(jnp.arange(2)[:, None] == player, flipped, 0)
        sides = _sides(bits)
        outcome = self._outcome(sides, 1 - player, ply, self._is_repeated(sides, x.history))
        return State(
            bits=bits,
            current_player=jnp.where(over, player, 1 - player),
            ply=jnp.where(over, x.ply, ply),
            outcome=jnp.where(over, x.outcome, outcome),
            history=self._next_history(
                x.history, jnp.where(player == 0, bits[0], bits[1]), jnp.where(over, self.max_plies, ply + 1)
            ),
        )

    def legal_action_mask(self, x: State) -> jax.Array:
        """[num_actions] bool; all False once the game is over."""
        spots, *_, legal = self._destinations(x)
        return self._as_mask(spots, legal)

    def observe(self, x: State, player: jax.Array | None = None) -> jax.Array:
        """[size, size, 2] bool, seen from the side of `player` (default: the player to move)."""
        first = (x.current_player if player is None else player) == 0
        index = jnp.arange(self.num_cells).reshape(self.size, self.size)
        index = jnp.where(first, index, self.num_cells - 1 - index)
        return jnp.stack([side.at(index) for side in _own_first(_sides(x.bits), first)], axis=-1)

    def is_terminal(self, x: State) -> jax.Array:
        """[] bool."""
        return x.outcome != ONGOING

    def rewards(self, x: State) -> jax.Array:
        """[2] float32."""
        won = x.outcome == jnp.array([FIRST_WON, SECOND_WON])
        return won.astype(jnp.float32) - won[::-1]

    def is_illegal(self, x: State) -> jax.Array:
        """[] bool, whether this is a position into which nobody may move."""
        return self._is_won_on_move(x) | self._has_closed_tip(x)

    def random_states(self, key: jax.Array, number: int) -> State:
        """Uniform draws from all placements of the pieces, either player to move; the illegal ones are left out."""
        states = checkers_ranking.random_states(self, key, number)
        legal = ~np.asarray(_are_illegal(self, states))
        return jax.tree.map(lambda leaf: np.asarray(leaf)[legal], states)

    def without_past(self) -> ChineseCheckers:
        """The game without draws by repetition or by the number of plies."""
        return dataclasses.replace(self, repetitions=None, max_plies=_LONGEST)

    def with_mover(self, x: State, player: jax.Array) -> tuple[State, jax.Array]:
        """The same board without a past and with this player to move, and whether the rules allow that."""
        turned = self.from_board(self.board(x), player)
        return turned, ~self.is_illegal(turned)

    def action_to_text(self, action: int) -> str:
        """The move as `from-to`."""
        start, end = self.moves[action]
        return f"{start}-{end}"

    def text_to_action(self, text: str, x: State | None = None) -> int:
        """The action of a move `from-to`; raises MoveError if it is none or, given a position, illegal."""
        match = re.fullmatch(r"(\d{1,3})-(\d{1,3})", text.strip(), re.ASCII)
        if not match:
            raise MoveError(f"{text!r} is not a move; write two cell numbers, as in '0-3'")
        start, end = int(match[1]), int(match[2])
        if max(start, end) >= self.num_cells:
            raise MoveError(f"{text!r} leaves the board, whose cells are 0 to {self.num_cells - 1}")
        action = int(_geometry(self.size).action[start, end])
        reason = None if x is None else self._why_illegal(start, end, action, x)
        if reason is None and action < 0:
            reason = f"neither a step nor hops ever lead from {start} to {end}"
        if reason is not None:
            raise MoveError(f"{text!r} is not legal: {reason}")
        return action

    def to_notation(self, x: State) -> str:
        """The position on one line: rows from the top tip, then the player to move."""
        board = np.asarray(self.board(x))
        rows = "/".join("".join(".ab"[board[cell]] for cell in row) for row in _geometry(self.size).rows)
        return re.sub(r"\.+", lambda run: str(len(run[0])), rows) + " " + "ab"[int(x.current_player)]

    def from_notation(self, text: str) -> State:
        """The position of a line as `to_notation` writes it; raises PositionError."""
        match = re.fullmatch(r"(\S+)\s+([ab])", text.strip())
        if not match:
            raise PositionError(
                f"{text!r} is not a position; write its rows, a space, and a or b for the player to move"
            )
        board = self._read_rows(match[1])
        for side, letter in ((1, "a"), (2, "b")):
            if (count := int(np.sum(board == side))) != self.pieces:
                raise PositionError(f"{text!r} has {count} pieces {letter}; each player has {self.pieces}")
        x, is_won_on_move, has_closed_tip = _inspect(self, board, "ab".index(match[2]))
        if is_won_on_move:
            raise PositionError(f"{text!r} is illegal: {match[2]} is to move but has already won")
        if has_closed_tip:
            raise PositionError(f"{text!r} is illegal: the pieces at home close the empty tip to the others")
        return x

    def to_text(self, x: State) -> str:
        """The board beside its cell numbers, and below them whose turn it is."""
        board, lines = np.asarray(self.board(x)), []
        for row in _geometry(self.size).rows:
            pieces = " ".join(".ab"[board[cell]] for cell in row).center(2 * self.size - 1)
            numbers = "".join(f"{cell:>4d}" for cell in row)
            lines.append(pieces + "  " * (self.size - len(row)) + numbers)
        return "\n".join([*lines, self._status(x)])

    def draw(
        self,
        x: State,
        *,
        last_action: int | None = None,
        heat: np.ndarray | None = None,
        marks: Mapping[int, str] | None = None,
        theme: str = "light",
        scale: float = 1.0,
    ) -> drawing.Svg:
        """The board as a picture; see `Game.draw`.

        A cell is as warm as the hottest move into it, and arrows show the few hottest moves. Marks stand
        in the cell where their move ends.
        """
        canvas = _Canvas(self.size, drawing.theme_named(theme))
        board, outcome = np.asarray(self.board(x)), int(x.outcome)
        shares, labels = {}, {}
        if heat is not None:
            shares = drawing.heat_shares(np.asarray(heat), np.asarray(_staged_masks(self, x)[-1]))
        for action, label in (marks or {}).items():
            labels.setdefault(int(self.moves[action][1]), []).append(label)
        canvas.add_board(_both_ends(self.size, _HOME_CORNERS[self.pieces]))
        canvas.add_cells(board, self._warmth(shares), labels)
        for action in sorted(shares, key=shares.get)[-_MOST_ARROWS:]:
            if shares[action] >= _FAINTEST_ARROW:
                canvas.add_arrow(*self.moves[action], canvas.theme.heat, shares[action])
        if last_action is not None:
            canvas.add_ring(self.moves[last_action][1], canvas.theme.accent)
            canvas.add_arrow(*self.moves[last_action], canvas.theme.accent, 0.5)
        canvas.add_labels(board, labels)
        canvas.add_status(self._status(x), (int(x.current_player), 0, 1, None)[outcome])
        return canvas.picture(scale)

    @functools.cached_property
    def _masks(self) -> _Masks:
        return _masks(self.size, self.pieces)

    def _moved_actions(self, cell_map: np.ndarray) -> np.ndarray:
        """[num_actions] int32, the action between the images of every action's two cells."""
        return _geometry(self.size).action[tuple(cell_map[self.moves].T)]

    def _destinations(self, x: State) -> tuple[list[_Bits], ...]:
        """Where the mover's pieces are and what each can reach, of that what the rules allow, and is legal.

        Every piece is followed by itself, as a handful of scalars: for a batch each is one long vector, and
        that is several times faster than arrays over the cells.

        Returns:
          Four lists of `pieces` sets: spots, reachable, allowed, legal; empty sets once the game is over.
        """
        first = x.current_player == 0
        mine, theirs = _own_first(_sides(x.bits), first)
        spots = mine.only_if(~self.is_terminal(x)).separated(self.pieces)
        reachable = self._reachable(spots, mine | theirs)
        target, origins = self._forbidden(mine, theirs, first)
        allowed = [ends & ~target.only_if((spot & origins).any()) for spot, ends in zip(spots, reachable)]
        legal = self._forward_if_possible(spots, allowed, first) if self.forward_only else allowed
        return spots, reachable, allowed, legal

    def _as_mask(self, spots: list[_Bits], destinations: list[_Bits]) -> jax.Array:
        """[num_actions] bool, whether the start is one of the spots and the end a destination of it."""
        starts, ends = self._masks.starts, self._masks.ends  # words of [num_actions]
        from_start = _union(to.only_if((spot & starts).any()) for spot, to in zip(spots, destinations))
        return (from_start & ends).any()

    def _reachable(self, spots: list[_Bits], occupied: _Bits) -> list[_Bits]:
        """The cells that a piece on each spot can reach by one step or by any number of hops."""
        masks = self._masks
        empty = masks.board & ~occupied
        hops = masks.hop_origins(occupied)

        def hop_once_more(_, reached):
            return [cells | masks.after_hop(cells, hops) for cells in reached]

        reached = jax.lax.fori_loop(0, self._longest_chain, hop_once_more, spots)
        return [(cells | masks.after_step(spot)) & empty for spot, cells in zip(spots, reached)]

    @property
    def _longest_chain(self) -> int:
        # A chain stays among cells that differ by even steps, and each such cell is worth one visit. Any
        # other piece can be hopped over between one pair of them only, so each piece also serves once.
        return min(math.ceil(self.size / 2) ** 2 - 1, 2 * self.pieces - 1)

    def _forbidden(self, mine: _Bits, theirs: _Bits, first: jax.Array) -> tuple[_Bits, _Bits]:
        """The cell (there is at most one) that the player to move must not enter, and from where not.

        It lies in the own home: entering it would make an illegal position.
        """
        home = _select(first, *self._masks.homes)
        gap = home & ~(mine | theirs)
        fills_home = (gap.number() == 1) & (theirs & home).any()
        target, origins = gap.only_if(fills_home), (~home).only_if(fills_home)
        if self.pieces == 6:
            tip, edges = _select(first, *self._masks.tips), _select(first, *self._masks.edges)
            gap = edges & ~mine
            closes_tip = (gap.number() == 1) & ~((gap | tip) & theirs).any()
            # If the own piece on the tip fills the gap, the tip becomes empty and is closed as well.
            others = _select((tip & mine).any(), tip, ~edges)
            target, origins = target | gap.only_if(closes_tip), origins | others.only_if(closes_tip)
        return target, origins

    def _forward_if_possible(
        self, spots: list[_Bits], destinations: list[_Bits], first: jax.Array
    ) -> list[_Bits]:
        """The destinations that are not behind their spots; all of them if no piece has any such."""
        ahead = [_select(first, *regions) for regions in zip(*self._masks.ahead)]
        forward = [
            to & _union(region.only_if((spot & row).any()) for row, region in zip(self._masks.rows, ahead))
            for spot, to in zip(spots, destinations)
        ]
        possible = _union(forward).any()
        return [_select(possible, *pair) for pair in zip(forward, destinations)]

    def _can_move(self, mine: _Bits, theirs: _Bits, first: jax.Array) -> jax.Array:
        """[] bool, whether there is any legal move; far cheaper than finding them all."""
        empty = self._masks.board & ~(mine | theirs)
        hops = self._masks.hop_origins(mine | theirs)
        target, origins = self._forbidden(mine, theirs, first)

        def ends_of(cells):
            return self._masks.after_step(cells) & empty | self._masks.after_hop(cells, hops)

        # One step or hop decides; a chain that only passes through the forbidden cell need not be sought. If
        # the cell would fill the home, both ends of such a chain lie outside of it, two apart, and the piece
        # can step or hop from one towards the other. If it would close the tip, a piece there can move.
        return (ends_of(mine) & ~target | ends_of(mine & ~origins)).any()

    def _has_won(self, own: _Bits, other: _Bits, first: jax.Array) -> jax.Array:
        """[] bool, whether one player (the first?) has won: the goal is full, and an own piece is there."""
        goal = _select(first, *self._masks.homes[::-1])
        return ~(goal & ~(own | other)).any() & (goal & own).any()

    def _is_won_on_move(self, x: State) -> jax.Array:
        first = x.current_player == 0
        return self._has_won(*_own_first(_sides(x.bits), first), first)

    def _has_closed_tip(self, x: State) -> jax.Array:
        if self.pieces != 6:
            return jnp.bool_(False)
        sides, masks = _sides(x.bits), self._masks
        closed = [
            ~(tip & (sides[0] | sides[1])).any() & ~(edges & ~owner).any()
            for tip, edges, owner in zip(masks.tips, masks.edges, sides)
        ]
        return closed[0] | closed[1]

    def _outcome(
        self, sides: tuple[_Bits, _Bits], player: jax.Array, ply: jax.Array, repeated: jax.Array
    ) -> jax.Array:
        """[] int8, the outcome of a position in which `player` is to move."""
        first = player == 0
        mine, theirs = _own_first(sides, first)
        lost = self._has_won(theirs, mine, ~first) | ~self._can_move(mine, theirs, first)
        drawn = repeated | (ply >= self.max_plies)
        undecided = jnp.where(drawn, DRAWN, ONGOING)
        return jnp.where(lost, jnp.where(first, SECOND_WON, FIRST_WON), undecided).astype(jnp.int8)

    @property
    def _history_type(self):
        return jnp.uint16 if self.num_cells <= 16 else jnp.uint32

    def _first_history(self, bits: jax.Array, ply: jax.Array) -> jax.Array | None:
        """The history of a position without a past, which consists of this board."""
        if self.repetitions is None:
            return None
        row = jnp.arange(self.max_plies)[:, None]
        sides = jnp.where(row % 2 == 0, bits[0], bits[1])
        return jnp.where((row == ply) | (row == ply + 1), sides, 0).astype(self._history_type)

    def _next_history(self, history: jax.Array | None, moved: jax.Array, row: jax.Array) -> jax.Array | None:
        """The history with the pieces [words] of the player who moved in this row, if there is such a row."""
        if history is None:
            return None
        return jnp.where(jnp.arange(self.max_plies)[:, None] == row, moved.astype(history.dtype), history)

    def _is_repeated(self, sides: tuple[_Bits, _Bits], history: jax.Array | None) -> jax.Array:
        """[] bool, whether the board has been there before too often."""
        if history is None:
            return jnp.bool_(False)
        even = jnp.arange(self.max_plies) % 2 == 0
        same = functools.reduce(
            operator.and_,
            (
                history[:, i] == jnp.where(even, first, second).astype(history.dtype)
                for i, (first, second) in enumerate(zip(sides[0].words, sides[1].words))
            ),
        )
        return jnp.sum(same[1:] & same[:-1], dtype=jnp.int32) > self.repetitions

    def _why_illegal(self, start: int, end: int, action: int, x: State) -> str | None:
        """What forbids a move in this position, if anything does."""
        board, player = np.asarray(self.board(x)), int(x.current_player)
        own, other = "ab"[player], "ab"[1 - player]
        if bool(self.is_terminal(x)):
            return "the game is over"
        if board[start] != player + 1:
            return f"{own} is to move and has no piece on {start}"
        if board[end] != 0:
            return f"{end} is not empty"
        reachable, allowed, legal = (action >= 0 and bool(mask[action]) for mask in _staged_masks(self, x))
        if not reachable:
            return f"neither a step nor hops lead from {start} to {end} here"
        if not allowed and all(board[cell] or cell == end for cell in self.homes[player]):
            return f"it would fill {own}'s home around a piece of {other}'s"
        if not allowed:
            return f"it would close the empty tip of {own}'s home to {other}"
        return None if legal else f"{own} must not move backward while there are other moves"

    def _read_rows(self, text: str) -> np.ndarray:
        """[num_cells] int8 by cell number, from the rows of a notation."""
        rows = text.split("/")
        if len(rows) != 2 * self.size - 1:
            raise PositionError(
                f"{text!r} has {len(rows)} rows; a board of size {self.size} has {2 * self.size - 1}"
            )
        cells = []
        for number, (row, expected) in enumerate(zip(rows, _geometry(self.size).rows), start=1):
            if not re.fullmatch(r"[ab1-9]+", row):
                raise PositionError(f"row {number}, {row!r}, may hold a, b, and digits for empty cells")
            values = [".ab".index(c) for c in re.sub(r"\d", lambda run: "." * int(run[0]), row)]
            if len(values) != len(expected):
                raise PositionError(f"row {number}, {row!r}, has {len(values)} cells, not {len(expected)}")
            cells += values
        return np.array(cells, np.int8)

    def _status(self, x: State) -> str:
        return (f"{'ab'[int(x.current_player)]} to move", "a has won", "b has won", "draw")[int(x.outcome)]

    def _warmth(self, shares: Mapping[int, float]) -> dict[int, float]:
        """The hottest share among the moves into each cell."""
        warmth = {}
        for action, share in shares.items():
            end = int(self.moves[action][1])
            warmth[end] = max(share, warmth.get(end, 0.0))
        return warmth


class _Bits(NamedTuple):
    """A set of cells, a bit each as in `State`; or, with words of shape [n], n such sets.

    The words stand apart rather than in one array, so that a batch of sets is a few long vectors.
    """

    words: tuple[jax.Array, ...]

    def __and__(self, other: _Bits) -> _Bits:
        return _Bits(tuple(a & b for a, b in zip(self.words, other.words)))

    def __or__(self, other: _Bits) -> _Bits:
        return _Bits(tuple(a | b for a, b in zip(self.words, other.words)))

    def __invert__(self) -> _Bits:
        return _Bits(tuple(~word for word in self.words))

    def any(self) -> jax.Array:
        """[] bool, whether there is any cell in the set."""
        return functools.reduce(operator.or_, self.words) != 0

    def number(self) -> jax.Array:
        """[] how many cells the set has."""
        return sum(jax.lax.population_count(word) for word in self.words)

    def only_if(self, condition: jax.Array) -> _Bits:
        """The set, or none where the condition fails."""
        return _Bits(tuple(jnp.where(condition, word, np.uint32(0)) for word in self.words))

    def shifted(self, by: int) -> _Bits:
        """Every cell moved by so many bits, up or (negative) down; at most 31."""
        if by < 0:
            above = (*self.words[1:], None)
            return _Bits(
                tuple(w >> -by if a is None else w >> -by | a << 32 + by for w, a in zip(self.words, above))
            )
        below = (None, *self.words[:-1])
        return _Bits(
            tuple(w << by if b is None else w << by | b >> 32 - by for w, b in zip(self.words, below))
        )

    def at(self, index: jax.Array) -> jax.Array:
        """[...] bool, whether the cells with these bit numbers [...] are in the set."""
        word = self.words[0]
        for i, other in enumerate(self.words[1:], start=1):
            word = jnp.where(index // 32 == i, other, word)
        return (word >> (index % 32).astype(jnp.uint32)) & 1 != 0

    def separated(self, number: int) -> list[_Bits]:
        """The lowest `number` cells as sets of their own; empty sets if there are fewer."""
        cells, rest = [], self
        for _ in range(number):
            lowest, found = [], False
            for word in rest.words:
                lowest.append(jnp.where(found, np.uint32(0), word & -word))
                found = found | (word != 0)
            cells.append(_Bits(tuple(lowest)))
            rest = rest & ~cells[-1]
        return cells


def _union(sets: Iterable[_Bits]) -> _Bits:
    return functools.reduce(operator.or_, sets)


def _select(condition: jax.Array, yes: _Bits, no: _Bits) -> _Bits:
    return _Bits(tuple(jnp.where(condition, a, b) for a, b in zip(yes.words, no.words)))


def _sides(bits: jax.Array) -> tuple[_Bits, _Bits]:
    """The two players' pieces, from `State.bits`."""
    first, second = (_Bits(tuple(bits[player, i] for i in range(bits.shape[1]))) for player in range(2))
    return first, second


def _own_first(sides: tuple[_Bits, _Bits], first: jax.Array) -> tuple[_Bits, _Bits]:
    """The first player's pieces and the second's, or the other way round unless `first`."""
    return _select(first, *sides), _select(first, *sides[::-1])


class _Direction(NamedTuple):
    offset: int  # from a bit to the neighbour's bit
    step_from: _Bits  # the cells that have such a neighbour
    hop_from: _Bits  # the cells that have another one behind it


class _Masks(NamedTuple):
    """The board as constant sets of cells."""

    board: _Bits
    homes: tuple[_Bits, _Bits]
    tips: tuple[_Bits, _Bits]  # with `edges`, of homes of six
    edges: tuple[_Bits, _Bits]
    rows: list[_Bits]
    ahead: tuple[list[_Bits], list[_Bits]]  # for each player and row, that row and those ahead of it
    directions: list[_Direction]
    cells: _Bits  # words of [num_cells], each cell by its number
    starts: _Bits  # words of [num_actions], where each action starts
    ends: _Bits  # and where it ends
    moves: np.ndarray  # [num_actions, words] uint32, both: the bits that a move flips

    def hop_origins(self, occupied: _Bits) -> list[_Bits]:
        """For each direction, the cells from which there is a hop over a piece into an empty cell."""
        empty = self.board & ~occupied
        return [
            occupied.shifted(-d.offset) & empty.shifted(-2 * d.offset) & d.hop_from for d in self.directions
        ]

    def after_hop(self, cells: _Bits, hop_origins: list[_Bits]) -> _Bits:
        """Where one hop leads from any of the cells."""
        return _union((cells & hop).shifted(2 * d.offset) for hop, d in zip(hop_origins, self.directions))

    def after_step(self, cells: _Bits) -> _Bits:
        """The neighbours of all the cells, empty or not."""
        return _union((cells & d.step_from).shifted(d.offset) for d in self.directions)


@functools.cache
def _masks(size: int, pieces: int) -> _Masks:
    geometry = _geometry(size)
    column, line = geometry.column, geometry.line

    def cells_at(cells: np.ndarray) -> _Bits:
        """Sets of one cell each, given by number: words of the shape of `cells`."""
        index = geometry.image_index[cells]
        bit = np.uint32(1) << (index % 32).astype(np.uint32)
        return _Bits(tuple(np.where(index // 32 == i, bit, np.uint32(0)) for i in range(-(-(size**2) // 32))))

    def together(cells: Sequence[int] | np.ndarray) -> _Bits:
        words = cells_at(np.asarray(cells, np.int32)).words
        return _Bits(tuple(np.bitwise_or.reduce(word, initial=np.uint32(0)) for word in words))

    def where(condition: np.ndarray) -> _Bits:
        return together(np.flatnonzero(condition))

    def is_inside(steps: int, dx: int, dy: int) -> np.ndarray:
        x, y = column + steps * dx, line + steps * dy
        return (x >= 0) & (x < size) & (y >= 0) & (y < size)

    def at_both_ends(cells: Sequence[int]) -> tuple[_Bits, _Bits]:
        top, bottom = _both_ends(size, cells)
        return together(top), together(bottom)

    starts, ends = (cells_at(cells) for cells in geometry.moves.T)
    row, row_numbers = column + line, range(2 * size - 1)
    return _Masks(
        board=where(row >= 0),
        homes=at_both_ends(_HOMES[pieces]),
        tips=at_both_ends(_TIP),
        edges=at_both_ends(_EDGES if pieces == 6 else ()),
        rows=[where(row == r) for r in row_numbers],
        ahead=([where(row >= r) for r in row_numbers], [where(row <= r) for r in row_numbers]),
        directions=[
            _Direction(dy * size + dx, where(is_inside(1, dx, dy)), where(is_inside(2, dx, dy)))
            for dx, dy in _DIRECTIONS
        ],
        cells=cells_at(np.arange(size**2)),
        starts=starts,
        ends=ends,
        moves=_frozen(np.stack((starts | ends).words, axis=-1)),
    )


class _Geometry(NamedTuple):
    """A board by its cell numbers."""

    column: np.ndarray  # [num_cells] x
    line: np.ndarray  # [num_cells] y
    rows: list[list[int]]  # the cells of every row, from the top tip
    image_index: np.ndarray  # [num_cells] int32
    mirror: np.ndarray  # [num_cells] int32, the cell that each becomes when left and right are swapped
    moves: np.ndarray  # [num_actions, 2] int32
    action: np.ndarray  # [num_cells, num_cells] int32, the action of (from, to) or -1


@functools.cache
def _geometry(size: int) -> _Geometry:
    places = sorted(((x, y) for x in range(size) for y in range(size)), key=lambda place: (sum(place), place))
    number = {place: cell for cell, place in enumerate(places)}
    moves = [
        (number[x, y], number[u, v])
        for x, y in places
        for u, v in places
        if (u - x, v - y) in _DIRECTIONS or ((u, v) != (x, y) and (u - x) % 2 == 0 and (v - y) % 2 == 0)
    ]
    action = np.full((size**2, size**2), -1, np.int32)
    action[tuple(np.transpose(moves))] = np.arange(len(moves))
    column, line = np.transpose(places)
    return _Geometry(
        column=_frozen(column),
        line=_frozen(line),
        rows=[np.flatnonzero(column + line == row).tolist() for row in range(2 * size - 1)],
        image_index=_frozen((line * size + column).astype(np.int32)),
        mirror=_frozen(np.array([number[y, x] for x, y in places], np.int32)),
        moves=_frozen(np.array(moves, np.int32)),
        action=_frozen(action),
    )


def _both_ends(size: int, cells: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cells at the top, and the same cells of the board turned by 180 degrees."""
    return tuple(cells), tuple(sorted(size**2 - 1 - cell for cell in cells))


def _homes_fit(size: int, pieces: int) -> bool:
    top, bottom = _both_ends(size, _HOMES[pieces])
    return 2 * pieces < size**2 and not set(top) & set(bottom)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


@functools.partial(jax.jit, static_argnums=0)
def _staged_masks(game: ChineseCheckers, x: State) -> list[jax.Array]:
    """[num_actions] bool, three times: the moves that reach their end, the allowed ones, the legal ones."""
    spots, *stages = game._destinations(x)
    return [game._as_mask(spots, destinations) for destinations in stages]


@functools.partial(jax.jit, static_argnums=0)
def _are_illegal(game: ChineseCheckers, states: State) -> jax.Array:
    return jax.vmap(game.is_illegal)(states)


@functools.partial(jax.jit, static_argnums=0)
def _inspect(
    game: ChineseCheckers, board: jax.Array, player: jax.Array
) -> tuple[State, jax.Array, jax.Array]:
    x = game.from_board(board, player)
    return x, game._is_won_on_move(x), game._has_closed_tip(x)


class _Canvas:
    """A picture of the board in the making, from the bottom layer up."""

    pitch, margin, rim, hole, piece = 72.0, 76.0, 52.0, 20.0, 26.0  # pixels; the last three are radii

    def __init__(self, size: int, theme: drawing.Theme):
        geometry = _geometry(size)
        row_pitch = self.pitch * math.sqrt(3) / 2
        self.theme = theme
        self.width = (size - 1) * self.pitch + 2 * self.margin
        self.height = (2 * size - 2) * row_pitch + 2 * self.margin + 16  # room for the status
        self.x = self.width / 2 + (geometry.column - geometry.line) * self.pitch / 2
        self.y = self.margin + (geometry.column + geometry.line) * row_pitch
        self.rows = geometry.rows
        self.neighbours = [
            (a, b)
            for a, b in geometry.moves
            if a < b and math.hypot(self.x[a] - self.x[b], self.y[a] - self.y[b]) < 1.1 * self.pitch
        ]
        self.parts: list[str] = []

    def add_board(self, home_corners: Sequence[Sequence[int]]) -> None:
        """The diamond, the two homes, and the lines along which pieces move."""
        theme = self.theme
        widest = self.rows[len(self.rows) // 2]
        outline = (0, widest[-1], self.rows[-1][0], widest[0])
        self._add_area(outline, theme.grid, self.rim + 1.5)
        self._add_area(outline, theme.board, self.rim)
        for corners, colour in zip(home_corners, (theme.first, theme.second)):
            self._add_area(corners, drawing.mix(theme.board, colour, 0.16), self.hole + 15)
        lines = " ".join(
            f"M{self.x[a]:.1f} {self.y[a]:.1f}L{self.x[b]:.1f} {self.y[b]:.1f}" for a, b in self.neighbours
        )
        self.parts.append(f'<path d="{lines}" stroke="{theme.grid}" stroke-width="1.2" opacity="0.55"/>')

    def add_cells(self, board: np.ndarray, warmth: Mapping[int, float], labels: Mapping[int, object]) -> None:
        """Holes and pieces with their numbers, but for the cells with labels."""
        theme = self.theme
        empty = drawing.mix(theme.board, theme.background, 0.55)
        for cell, side in enumerate(board):
            if side:
                colour = (theme.first, theme.second)[side - 1]
                self._add_disc(cell, self.piece, colour, drawing.mix(colour, theme.grid, 0.5), 1.5)
                self.parts.append(
                    f'<circle cx="{self.x[cell] - 7:.1f}" cy="{self.y[cell] - 9:.1f}" r="9" fill="#ffffff" '
                    'opacity="0.13"/>'  # a little light on the marble
                )
                number = drawing.mix(colour, theme.background, 0.6)
            else:
                colour = drawing.mix(empty, theme.heat, warmth.get(cell, 0.0))
                self._add_disc(cell, self.hole, colour, theme.grid, 1.2)
                number = drawing.mix(colour, theme.text, 0.5)
            if cell not in labels:
                self.parts.append(drawing.text(self.x[cell], self.y[cell], str(cell), number, 13))

    def add_ring(self, cell: int, colour: str) -> None:
        """A ring around a piece."""
        self._add_disc(cell, self.piece, "none", colour, 3)

    def add_arrow(self, start: int, end: int, colour: str, strength: float) -> None:
        """An arrow for a move, straight for a step and bent for hops; strength 0 to 1 is its width."""
        x0, y0, x1, y1 = self.x[start], self.y[start], self.x[end], self.y[end]
        length = math.hypot(x1 - x0, y1 - y0)
        bend = 0.0 if length < 1.1 * self.pitch else 0.2
        xc, yc = (x0 + x1) / 2 + bend * (y1 - y0), (y0 + y1) / 2 - bend * (x1 - x0)
        x0, y0 = _towards(x0, y0, xc, yc, self.hole)
        x1, y1 = _towards(x1, y1, xc, yc, self.hole - 8)
        width = 2 + 5 * strength
        head = 8 + 1.5 * width
        xn, yn = _towards(x1, y1, xc, yc, head)  # the neck, where the line ends and the head begins
        xs, ys = (yn - y1) * 0.5, (x1 - xn) * 0.5
        self.parts.append(
            f'<g opacity="{0.55 + 0.4 * strength:.2f}"><path d="M{x0:.1f} {y0:.1f}Q{xc:.1f} {yc:.1f} '
            f'{xn:.1f} {yn:.1f}" fill="none" stroke="{colour}" stroke-width="{width:.1f}" '
            f'stroke-linecap="round"/><path d="M{x1:.1f} {y1:.1f}L{xn + xs:.1f} {yn + ys:.1f}'
            f'L{xn - xs:.1f} {yn - ys:.1f}Z" fill="{colour}"/></g>'
        )

    def add_labels(self, board: np.ndarray, labels: Mapping[int, Sequence[str]]) -> None:
        """Texts in cells; several of one cell stand behind each other."""
        for cell, texts in labels.items():
            colour = self.theme.background if board[cell] else self.theme.text
            self.parts.append(drawing.text(self.x[cell], self.y[cell], " ".join(texts), colour, 15))

    def add_status(self, status: str, player: int | None) -> None:
        """A line in the corner below, with a piece of the player it speaks of."""
        x, y = 20.0, self.height - 18
        if player is not None:
            colour = (self.theme.first, self.theme.second)[player]
            self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="8" fill="{colour}"/>')
        self.parts.append(
            f'<text x="{x + 16:g}" y="{y:g}" fill="{self.theme.text}" font-size="15" '
            f'dy="0.35em">{status}</text>'
        )

    def picture(self, scale: float) -> drawing.Svg:
        """What has been drawn."""
        return drawing.picture(self.width, self.height, self.parts, self.theme, scale)

    def _add_area(self, corners: Sequence[int], colour: str, radius: float) -> None:
        """All that is within a radius of the polygon between these cells."""
        points = "L".join(f"{self.x[cell]:.1f} {self.y[cell]:.1f}" for cell in corners)
        self.parts.append(
            f'<path d="M{points}Z" fill="{colour}" stroke="{colour}" stroke-width="{2 * radius:g}" '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )

    def _add_disc(self, cell: int, radius: float, fill: str, stroke: str, width: float) -> None:
        self.parts.append(
            f'<circle cx="{self.x[cell]:.1f}" cy="{self.y[cell]:.1f}" r="{radius:g}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{width:g}"/>'
        )


def _towards(x: float, y: float, to_x: float, to_y: float, distance: float) -> tuple[float, float]:
    """The point so far from (x, y) on the way to another."""
    share = distance / math.hypot(to_x - x, to_y - y)
    return x + share * (to_x - x), y + share * (to_y - y)
