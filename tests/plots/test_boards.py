"""Sheets of boards and trees of tiny games."""

import re

import jax
import pytest

from azjax.envs import Hex
from azjax.plots import boards, style


def test_the_tree_of_hex_2x2_has_the_nodes_that_enumeration_counts():
    nodes = boards.tree_nodes(Hex(2))
    # By brute force: 53 histories, 24 of them games, of which each player wins 12.
    results = [result for _, _, result in nodes if result is not None]
    assert (len(nodes), len(results), results.count(1), results.count(-1)) == (53, 24, 12, 12)
    movers = {len(moves): mover for moves, mover, _ in nodes if moves}
    assert movers == {1: 0, 2: 1, 3: 0, 4: 1}


def test_the_tree_is_drawn_and_one_too_large_refused(tmp_path):
    style.save(boards.game_tree(Hex(2)), tmp_path / "tree.png")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="more than 400 nodes"):
        boards.game_tree(Hex(3))


def test_a_sheet_has_its_boards_in_rows_that_do_not_overlap():
    game = Hex(2)
    board = game.draw(game.init(jax.random.key(0)), marks={1: "●"})
    sheet = boards.sheet([board] * 3, ["one", "two", "three"], columns=2)
    assert sheet.count("<svg") == 4 and sheet.count("●") == 3
    places = [tuple(map(float, found)) for found in re.findall(r'<svg x="([\d.]+)" y="([\d.]+)"', sheet)]
    width, height = (float(size) for size in re.search(r'width="([\d.]+)" height="([\d.]+)"', board).groups())
    assert places[0] == (0, 0) and places[1][0] >= width and places[1][1] == 0
    assert places[2][0] == 0 and places[2][1] >= height
