"""Boards as plain data: where their places are, what stands on them, and which places an action is about.

`static/board.js` draws any board from these and knows no game. A game of one's own is given a layout by
`register_layout`; games without one are shown by the picture that they draw themselves, with their moves as buttons.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes, line_anchors
from azjax.envs.hex import Hex

NEUTRAL = 2  # whose a drawn line is: nobody's

Pieces = list[tuple[int, int]]
"""(place, owner) pairs; the owner is a player, or NEUTRAL."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a position puts on a board."""

    pieces: Pieces
    tints: Pieces = dataclasses.field(default_factory=list)  # places that belong to a player: a chain, a box
    scores: tuple[int, int] | None = None  # points, in games that count them


@dataclasses.dataclass(frozen=True)
class Layout:
    """A board without its pieces, in units of which a place is about 40 wide."""

    width: float
    height: float
    places: list[dict[str, Any]]  # x, y, r (of a piece), and points (a polygon) or line [x1, y1, x2, y2]
    actions: list[list[int]]  # the places of each action: one, or from and to; none for what needs a button
    contents: Callable[[GameState], Contents]
    names: tuple[str, str] = ("First", "Second")  # of the players
    edges: list[dict[str, Any]] = dataclasses.field(
        default_factory=list
    )  # lines around the board: points, owner
    dots: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    labels: list[tuple[float, float, str]] = dataclasses.field(default_factory=list)
    pixels: np.ndarray | None = None
    """[2, places, 2] row and column of each place in the observation of either player, -1 for none; for ownership."""
    paths: Callable[[GameState, Sequence[int]], dict[int, list[int]]] | None = None
    """(position, actions) -> the places that an action passes, both ends included, for actions by way of others."""

    def as_dict(self) -> dict[str, Any]:
        """What the page is told once."""
        told = ("width", "height", "places", "actions", "names", "edges", "dots", "labels")
        return {name: getattr(self, name) for name in told}


MakeLayout = Callable[[Any], Layout]
_layouts: dict[str, MakeLayout] = {}


def register_layout(name: str, make: MakeLayout) -> None:
    """Gives the games of a name a board that can be clicked.

    Args:
      name: of the game, as in `azjax.register_game`.
      make: (game) -> its layout.
    """
    _layouts[name] = make
    layout_of.cache_clear()


@functools.lru_cache(maxsize=64)
def layout_of(game: Game) -> Layout | None:
    """The layout of a game; None for games that draw themselves."""
    make = _layouts.get(game.name)
    return None if make is None else make(game)


def _hex(game: Hex) -> Layout:
    size, wide = game.size, 40.0
    radius, margin = wide / math.sqrt(3), 34.0
    corners = ((0, -1), (0.5, -0.5), (0.5, 0.5), (0, 1), (-0.5, 0.5), (-0.5, -0.5))
    number = size * size

    def point(row: int, column: int, dx: float = 0.0, dy: float = 0.0) -> tuple[float, float]:
        x = margin + (column + row / 2 + 0.5 + dx) * wide
        return round(x, 2), round(margin + (1.5 * row + 1 + dy) * radius, 2)

    places = []
    for cell in range(number):
        row, column = divmod(cell, size)
        x, y = point(row, column)
        points = [point(row, column, *corner) for corner in corners]
        places.append({"x": x, "y": y, "r": 0.36 * wide, "points": points})
    width, height = 2 * margin + (1.5 * size - 0.5) * wide, 2 * margin + (1.5 * size + 0.5) * radius
    top = [point(0, c, *corner) for c in range(size) for corner in ((-0.5, -0.5), (0, -1))]
    left = [point(r, 0, *corner) for r in range(size) for corner in ((-0.5, -0.5), (-0.5, 0.5))]
    # The free edge of a blunt corner belongs to both players, half and half.
    top.append(point(0, size - 1, 0.25, -0.75))
    left.append(point(size - 1, 0, -0.25, 0.75))
    edges = []
    for owner, line in ((0, top), (1, left)):
        edges += [{"points": line, "owner": owner}]
        edges += [{"points": [(width - x, height - y) for x, y in line], "owner": owner}]
    labels = [(*point(0, c, -0.4, -1.55), game.action_to_text(c)[0]) for c in range(size)]
    labels += [(*point(r, 0, -0.95, 0), str(r + 1)) for r in range(size)]

    def contents(x: GameState) -> Contents:
        board = np.asarray(x.board).astype(int)
        pieces = [(int(cell), int(board[cell] < 0)) for cell in np.flatnonzero(board)]
        chain = [(cell, owner) for cell, owner in pieces if abs(board[cell]) == number + 1]
        return Contents(pieces, chain)

    return Layout(
        width,
        height,
        places,
        [[cell] for cell in range(number)] + [[]] * (game.num_actions - number),
        contents,
        names=("Black", "White"),
        edges=edges,
        labels=labels,
        pixels=game.action_cells[:, 0][game.action_frames[:, :number]],
    )


def _chinese_checkers(game: ChineseCheckers) -> Layout:
    apart, margin = 46.0, 36.0
    row_apart = apart * math.sqrt(3) / 2
    column, line = _checkers_cells(game.size)
    row = column + line
    middle = margin + (game.size - 0.5) * apart
    places = [
        {
            "x": round(middle + (column[cell] - line[cell]) * apart / 2, 2),
            "y": round(margin + (row[cell] + 0.5) * row_apart, 2),
            "r": 0.38 * apart,
            "round": 0.44 * apart,
        }
        for cell in range(game.num_cells)
    ]
    for owner, home in enumerate(game.homes):
        for cell in home:
            places[cell]["home"] = owner
    cell_at = {(int(column[cell]), int(line[cell])): cell for cell in range(game.num_cells)}

    def contents(x: GameState) -> Contents:
        board = np.asarray(game.board(x))
        return Contents([(int(cell), int(board[cell]) - 1) for cell in np.flatnonzero(board)])

    def paths(x: GameState, actions: Sequence[int]) -> dict[int, list[int]]:
        occupied = set(np.flatnonzero(np.asarray(game.board(x))).tolist())
        chains = {
            start: _hops(start, occupied, cell_at) for start in {int(game.moves[a][0]) for a in actions}
        }
        found = {a: chains[int(game.moves[a][0])].get(int(game.moves[a][1])) for a in actions}
        return {action: chain for action, chain in found.items() if chain}

    pixels = np.stack(np.divmod(game.image_index, game.size), -1)
    return Layout(
        2 * margin + (2 * game.size - 1) * apart,
        2 * margin + 2 * game.size * row_apart,
        places,
        game.moves.tolist(),
        contents,
        names=("a", "b"),
        labels=[(place["x"], place["y"] + 0.62 * row_apart, str(i)) for i, place in enumerate(places)],
        pixels=np.stack([pixels, game.size - 1 - pixels]),
        paths=paths,
    )


def _checkers_cells(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Column x and line y of each cell, numbered row by row from the top tip."""
    cells = [(x, row - x) for row in range(2 * size - 1) for x in range(size) if 0 <= row - x < size]
    # Within a row x grows to the right.
    column, line = np.array(cells).T
    return column, line


def _hops(start: int, occupied: set[int], cell_at: dict[tuple[int, int], int]) -> dict[int, list[int]]:
    """The shortest chain of hops from a cell to every cell that hops reach, as cells from start to end."""
    place_of = {cell: place for place, cell in cell_at.items()}
    occupied = occupied - {start}  # whoever hops is no longer there
    chains, frontier = {start: [start]}, [start]
    while frontier:
        reached = []
        for cell in frontier:
            x, y = place_of[cell]
            for dx, dy in ((1, 0), (0, 1), (1, -1), (-1, 1), (0, -1), (-1, 0)):
                over, behind = cell_at.get((x + dx, y + dy)), cell_at.get((x + 2 * dx, y + 2 * dy))
                if over in occupied and behind is not None and behind not in occupied | chains.keys():
                    chains[behind] = [*chains[cell], behind]
                    reached.append(behind)
        frontier = reached
    return {end: chain for end, chain in chains.items() if len(chain) > 1}


def _dots_and_boxes(game: DotsAndBoxes) -> Layout:
    apart, margin = 56.0, 40.0

    def at(row: float, column: float) -> tuple[float, float]:
        return margin + column * apart, margin + row * apart

    places = []
    for row, column, vertical in line_anchors(game.rows, game.columns).tolist():
        (x1, y1), (x2, y2) = at(row, column), at(row + vertical, column + 1 - vertical)
        places.append({"x": (x1 + x2) / 2, "y": (y1 + y2) / 2, "r": 10.0, "line": [x1, y1, x2, y2]})
    lines = len(places)
    for box in range(game.num_boxes):
        row, column = divmod(box, game.columns)
        x, y = at(row + 0.5, column + 0.5)
        points = [at(row, column), at(row, column + 1), at(row + 1, column + 1), at(row + 1, column)]
        places.append({"x": x, "y": y, "r": 0.3 * apart, "points": points, "idle": True})

    def contents(x: GameState) -> Contents:
        owners = np.asarray(x.owners)
        drawn = [(int(line), NEUTRAL) for line in np.flatnonzero(np.asarray(x.lines))]
        taken = [(lines + int(box), int(owners[box] < 0)) for box in np.flatnonzero(owners)]
        first, second = (int(score) for score in game.scores(x))
        return Contents(drawn, taken, (first, second))

    labels = [(at(0, c)[0], margin - 22, chr(ord("a") + c)) for c in range(game.columns + 1)]
    labels += [(margin - 22, at(r, 0)[1], str(r + 1)) for r in range(game.rows + 1)]
    row, column = np.divmod(np.arange(game.num_boxes), game.columns)
    boxes = np.stack([row, column], -1)
    boxes = boxes if game.observation == "compact" else 2 * boxes + 2
    pixels = np.concatenate([np.full((lines, 2), -1), boxes])
    return Layout(
        2 * margin + game.columns * apart,
        2 * margin + game.rows * apart,
        places,
        [[line] for line in range(lines)],
        contents,
        names=("A", "B"),
        dots=[at(r, c) for r in range(game.rows + 1) for c in range(game.columns + 1)],
        labels=labels,
        pixels=np.stack([pixels, pixels]),
    )


def _stones_on_a_grid(game: Any) -> Layout:
    """Of the board games of pgx whose first two planes are the stones of who looks and of the other."""
    rows, columns, _ = game.observation_shape
    apart, margin = 44.0, 30.0
    by_column = game.num_actions == columns
    places = []
    for cell in range(rows * columns):
        row, column = divmod(cell, columns)
        x, y, half = margin + (column + 0.5) * apart, margin + (row + 0.5) * apart, apart / 2
        points = [(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)]
        places.append({"x": x, "y": y, "r": 0.4 * apart, "points": points})
        if by_column:
            places[-1]["stands_for"] = column  # any cell of a column is as good as its topmost
    number = columns if by_column else rows * columns

    def contents(x: GameState) -> Contents:
        own, other = np.moveaxis(np.asarray(game.observe(x, jnp.int32(0))), -1, 0)[:2].astype(bool)
        stones = [(int(cell), 0) for cell in np.flatnonzero(own)]
        return Contents(stones + [(int(cell), 1) for cell in np.flatnonzero(other)])

    # A move is a column, or a number there: the sum of those beside its row and above its column.
    labels = [(places[c]["x"], margin - 14, game.action_to_text(c)) for c in range(columns)]
    if not by_column:
        labels += [(margin - 14, places[r * columns]["y"], str(r * columns)) for r in range(1, rows)]
    return Layout(
        2 * margin + columns * apart,
        2 * margin + rows * apart,
        places,
        [[place] for place in range(number)] + [[]] * (game.num_actions - number),
        contents,
        labels=labels,
    )


for _name, _make in (
    (Hex.name, _hex),
    (ChineseCheckers.name, _chinese_checkers),
    (DotsAndBoxes.name, _dots_and_boxes),
    *((name, _stones_on_a_grid) for name in ("tic_tac_toe", "connect_four", "othello", "go_9x9", "go_19x19")),
):
    register_layout(_name, _make)
