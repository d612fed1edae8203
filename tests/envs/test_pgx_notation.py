"""How Connect Four is written, against the slow engine."""

import random

import jax
import numpy as np
import pytest

from azjax.envs import make_game
from azjax.envs.core import MoveError, PositionError
from azjax.envs.pgx_notation import order_of_columns
from tests.reference import connect_four as reference

GAME = make_game("connect_four")


def stones_of(columns) -> np.ndarray:
    stones = np.zeros((reference.ROWS, reference.COLUMNS, 2), bool)
    for column, stack in enumerate(columns):
        for row, player in enumerate(stack):
            stones[reference.ROWS - 1 - row, column, player] = True
    return stones


def test_the_moves_written_lead_to_the_position_and_end_no_game_before():
    draw = random.Random(0)
    finished = 0
    for _ in range(60):
        moves: list[int] = []
        longest = draw.randrange(1, 60)
        while len(moves) < longest and not reference.has_four(reference.play(moves)):
            free = reference.free(reference.play(moves))
            if not free:
                break
            moves.append(draw.choice(free))
        order = order_of_columns(stones_of(reference.play(moves)))
        assert order is not None
        assert reference.play(order) == reference.play(moves)
        assert not reference.has_four(reference.play(order[:-1]))
        finished += reference.has_four(reference.play(moves))
    assert finished > 5


def test_stones_that_no_moves_lead_to_have_no_order():
    floating = stones_of([[0]])
    floating[4, 0, 1] = floating[3, 0, 0] = True  # three in the first column, and then none below
    floating[5, 0] = floating[4, 0] = False
    assert order_of_columns(floating) is None
    assert order_of_columns(stones_of([[0, 0]])) is None  # one player twice


def test_a_position_is_the_same_however_it_came_about():
    here, there = GAME.from_notation("4455"), GAME.from_notation("5544")
    assert GAME.to_notation(here) == GAME.to_notation(there)
    again = GAME.from_notation(GAME.to_notation(here))
    jax.tree.map(np.testing.assert_array_equal, again, here)


def test_a_position_is_the_one_after_its_moves():
    step, x = jax.jit(GAME.step), GAME.init(jax.random.key(0))
    for move in "44535":
        x = step(x, GAME.text_to_action(move, x))
    jax.tree.map(np.testing.assert_array_equal, GAME.from_notation("44535"), x)
    jax.tree.map(np.testing.assert_array_equal, GAME.from_notation(""), GAME.init(jax.random.key(0)))


@pytest.mark.parametrize(
    "text, why",
    [
        ("448", "'8' is not a column from 1 to 7"),
        ("4 4", "' ' is not a column"),
        ("4444444", "move 7, 4, is not legal"),
        ("12121213", "move 8, 3, is not legal"),
        ("1" * 43, "more than the 42 moves"),
    ],
)
def test_what_is_no_position_is_refused(text, why):
    with pytest.raises(PositionError, match=why):
        GAME.from_notation(text)


def test_columns_are_counted_from_1():
    assert [GAME.action_to_text(action) for action in range(7)] == list("1234567")
    assert GAME.text_to_action(" 7 ") == 6
    for text in ("0", "8", "", "44"):
        with pytest.raises(MoveError, match="a column from 1 to 7"):
            GAME.text_to_action(text)
    with pytest.raises(MoveError, match="not legal"):
        GAME.text_to_action("4", GAME.from_notation("444444"))


def test_a_game_of_pgx_begins_with_the_same_position_whatever_the_key():
    # pgx draws lots; were they kept, each position would be two in sets of positions
    starts = jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), 8))
    for leaf in jax.tree.leaves(starts):
        assert (np.asarray(leaf) == np.asarray(leaf)[:1]).all()
