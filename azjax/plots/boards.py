"""Pictures of positions: many boards on one sheet, and the whole tree of a tiny game."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from azjax.envs.core import Game, GameState
from azjax.envs.drawing import Svg
from azjax.plots import style

_GAP, _CAPTION = 12, 18  # pixels
_MOST_NODES = 400


def sheet(boards: Sequence[str], captions: Sequence[str] = (), *, columns: int = 4) -> Svg:
    """Boards beside and below each other as one picture.

    Args:
      boards: pictures as `Game.draw` makes them.
      captions: of the boards, below each; empty for none.
      columns: boards in a row.
    """
    sizes = [_size_of(board) for board in boards]
    width = max((size[0] for size in sizes), default=0) + _GAP
    height = max((size[1] for size in sizes), default=0) + _GAP + (_CAPTION if captions else 0)
    parts = []
    for number, board in enumerate(boards):
        row, column = divmod(number, columns)
        x, y = column * width, row * height
        parts.append(board.strip().replace("<svg ", f'<svg x="{x:g}" y="{y:g}" ', 1))
        if captions:
            middle, below = x + sizes[number][0] / 2, y + sizes[number][1] + _CAPTION - 4
            parts.append(
                f'<text x="{middle:g}" y="{below:g}" text-anchor="middle" font-size="13">{captions[number]}</text>'
            )
    rows = -(-len(boards) // columns)
    whole = f'width="{columns * width:g}" height="{rows * height:g}"'
    inside = "\n".join(parts)
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif">\n{inside}\n</svg>\n'
    )


def game_tree(game: Game) -> Any:
    """A figure of all games that can be played on a tiny board, as Figure 4.2 of Daliri 2022 has Hex 2x2.

    A node is a sequence of moves; an edge has the colour of who moves; a leaf the first player's result.

    Raises:
      ValueError: there are too many nodes to be seen.
    """
    nodes = tree_nodes(game)
    depth = max(len(moves) for moves, _, _ in nodes)
    leaves = [moves for moves, _, result in nodes if result is not None]
    places = {moves: float(number) for number, moves in enumerate(leaves)}
    for moves, _, result in sorted(nodes, key=lambda node: -len(node[0])):
        if result is None:  # above the middle of its children, which are placed already
            below = [
                places[other] for other, _, _ in nodes if other[:-1] == moves and len(other) == len(moves) + 1
            ]
            places[moves] = float(np.mean(below))
    figure, axes = style.panels(size=(max(6.0, 0.42 * len(leaves)), 1.3 * (depth + 1)))
    axes.grid(False)
    axes.axis("off")
    for moves, mover, result in nodes:
        x, y = places[moves], -len(moves)
        if moves:
            axes.plot([places[moves[:-1]], x], [y + 1, y], color=style.COLOURS[mover], linewidth=1, zorder=1)
            middle = (places[moves[:-1]] + 2 * x) / 3, y + 1 / 3
            axes.text(*middle, game.action_to_text(moves[-1]), fontsize=6, ha="center", va="center")
        axes.plot(
            [x], [y], marker="o", markersize=5, color="#444444" if result is None else "white", mec="#444444"
        )
        if result is not None:
            axes.text(x, y - 0.14, f"{result:+d}", fontsize=7, ha="center", va="top")
    axes.set_title(f"{len(nodes)} nodes, {len(leaves)} games; blue: the first player moves, red: the second")
    return figure


def tree_nodes(game: Game) -> list[tuple[tuple[int, ...], int, int | None]]:
    """All sequences of moves, in the order of a walk: the moves, who made the last, the first player's result."""
    step = jax.jit(game.step)
    nodes: list[tuple[tuple[int, ...], int, int | None]] = []

    def walk(x: GameState, moves: tuple[int, ...], mover: int) -> None:
        if len(nodes) >= _MOST_NODES:
            raise ValueError(f"the tree of {game} has more than {_MOST_NODES} nodes, too many to be seen")
        over = bool(game.is_terminal(x))
        nodes.append((moves, mover, int(np.asarray(game.rewards(x))[0]) if over else None))
        if not over:
            for action in np.flatnonzero(np.asarray(game.legal_action_mask(x))).tolist():
                walk(step(x, action), (*moves, action), int(x.current_player))

    walk(game.init(jax.random.key(0)), (), 0)
    return nodes


def _size_of(board: str) -> tuple[float, float]:
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', board)
    if found is None:
        raise ValueError("a board must be a picture as Game.draw makes it, with its width and height")
    return float(found[1]), float(found[2])
