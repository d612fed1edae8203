"""Search trees as pictures: a disc per position that a search looked at, its size by visits, its colour by value."""

import math

import numpy as np

from azjax.envs.core import Game
from azjax.envs.drawing import Svg, mix, picture, text, theme_named
from azjax.plots.style import COLOURS
from azjax.search.tree import Tree

GOOD, BAD = COLOURS[:2]  # for the player to move at the root
EVEN = "#dddddd"
_ACROSS, _DOWN, _EDGE = 26, 62, 30


def draw_tree(tree: Tree, game: Game, *, lane: int = 0, theme: str = "light", scale: float = 1.0) -> Svg:
    """A tree with all its nodes; the line of most visits carries its moves.

    Args:
      tree: as a reusing search returns it, of a batch of positions.
      game: whose moves are written.
      lane: which tree of the batch.
      theme: "light" or "dark".
      scale: of the picture.
    """
    parents, moves, visits, values, discounts = (
        np.asarray(field[lane])
        for field in (tree.parents, tree.actions, tree.node_visits, tree.node_values, tree.discounts)
    )
    nodes = np.flatnonzero(visits > 0)
    children: dict[int, list[int]] = {node: [] for node in nodes.tolist()}
    sign, depth = {0: 1.0}, {0: 0}
    for node in nodes[1:].tolist():  # parents stand in lower slots
        parent = int(parents[node])
        children[parent].append(node)
        # A discount of -1: the other player moves there. At a game's end there is no value but the reward's.
        sign[node] = sign[parent] * (-1.0 if discounts[node] < 0 else 1.0)
        depth[node] = depth[parent] + 1
    across = _columns(children)
    colours = theme_named(theme)
    best = _most_visited_line(children, visits)

    def place(node: int) -> tuple[float, float]:
        return _EDGE + across[node] * _ACROSS, _EDGE + depth[node] * _DOWN

    parts, discs, labels = [], [], []
    for node in nodes.tolist():
        x, y = place(node)
        if node:
            a, b = place(int(parents[node]))
            wide = 3 if node in best else 1
            parts.append(
                f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="{colours.grid}" '
                f'stroke-width="{wide}"/>'
            )
        worth = float(np.clip(sign[node] * _worth(tree, lane, node, values), -1, 1))
        colour = mix(EVEN, GOOD if worth > 0 else BAD, abs(worth))
        radius = 4 + 9 * math.sqrt(visits[node] / visits[0])
        discs.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" stroke="{colours.grid}"/>'
        )
        if node in best and node:
            labels.append(text(x + 20, y - 12, game.action_to_text(int(moves[node])), colours.text, 13))
    width = 2 * _EDGE + max(across.values()) * _ACROSS + 20
    height = 2 * _EDGE + max(depth.values()) * _DOWN
    return picture(width, height, parts + discs + labels, colours, scale)


def _worth(tree: Tree, lane: int, node: int, values: np.ndarray) -> float:
    """What a node is worth to its player to move; a finished game, to the player who ended it, whose sign it has."""
    return float(tree.rewards[lane, node] if tree.terminal[lane, node] else values[node])


def _columns(children: dict[int, list[int]]) -> dict[int, float]:
    """Leaves side by side, parents above the middle of their children."""
    across: dict[int, float] = {}
    leaves = 0
    waiting = [(0, False)]
    while waiting:
        node, is_done = waiting.pop()
        if not children[node]:
            across[node] = leaves
            leaves += 1
        elif is_done:
            across[node] = (across[children[node][0]] + across[children[node][-1]]) / 2
        else:
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(children[node])]
    return across


def _most_visited_line(children: dict[int, list[int]], visits: np.ndarray) -> set[int]:
    line, node = {0}, 0
    while children[node]:
        node = max(children[node], key=lambda child: visits[child])
        line.add(node)
    return line
