"""Dots and Boxes against the slow reference, OpenSpiel, published values and hand-made boards."""

import collections
import functools
import itertools
import xml.etree.ElementTree

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pyspiel
import pytest
import scipy.stats

from azjax.envs import core, dots_and_boxes
from azjax.envs.dots_and_boxes import (
    DotsAndBoxes,
    DotsAndBoxesState,
    box_sides,
    peters_lines,
    peters_numbers,
    strings_and_coins,
)
from azjax.envs.drawing import THEMES
from azjax.envs.pgx_bridge import Env
from tests.reference import dots_and_boxes as reference

# (rows, columns) -> how many random games
GAMES = {
    (1, 1): 50,
    (1, 2): 400,
    (2, 1): 400,
    (2, 2): 600,
    (2, 3): 500,
    (3, 2): 500,
    (3, 3): 400,
    (4, 3): 200,
    (5, 5): 60,
    (10, 9): 4,
}
SHAPES = list(GAMES)

# Berlekamp's problems in Peters's numbering, with width x height, drawn lines and how many boxes are taken.
BERLEKAMP = [
    (3, 3, "0,1,3,8,9,10,11,18,20,22", 0),
    (3, 3, "0,1,2,4,6,10,11,12,13,18,19,20", 0),
    (3, 3, "0,1,2,4,6,10,11,12,13,18,19", 0),
    (3, 3, "0,1,2,3,8,9,11,13,18,20,21", 0),
    (3, 3, "1,2,3,5,7,8,10,13,15,16,17,21", 0),
    (3, 3, "4,5,9,11,15,16,17,21", 0),
    (3, 3, "0,3,5,6,8,10,12,13,19", 0),
    (5, 3, "3,4,5,6,7,8,10,16,17,18,19,20,21,22,27,28,29,30,31,32,33", 1),
    (5, 3, "3,4,5,6,7,10,13,14,16,17,18,21,22,25,26,27,28,29,33,35,36,37", 1),
    (5, 3, "3,4,5,6,7,10,13,14,16,17,18,21,22,25,26,27,28,29,33,35,36", 1),
    (5, 5, "0,1,3,6,9,13,15,16,17,23,24,25,26,27,30,33,34,37,38,41,45,46,47,48,49,54,55,56,57,58", 0),
    (5, 5, "0,1,2,3,4,8,11,16,18,19,23,25,26,28,30,32,33,35,39,42,43,46,47,50,51,54,58,59", 0),
    (5, 5, "0,2,7,9,11,14,18,22,23,24,25,26,28,32,35,36,39,41,44,45,52,54", 0),
]


@functools.cache
def random_games(rows, columns):
    """Whole random games: states [plies + 1, games, ...] and actions [plies, games], as NumPy arrays."""
    game, number = DotsAndBoxes(rows, columns), GAMES[rows, columns]

    def ply(x, key):
        action = core.random_action(key, jax.vmap(game.legal_action_mask)(x))
        after = jax.vmap(game.step)(x, action)
        return after, (after, action)

    @jax.jit
    def play(key):
        start = jax.vmap(lambda _: game.init())(jnp.arange(number))
        _, (after, actions) = jax.lax.scan(ply, start, jax.random.split(key, game.num_actions))
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, after), actions

    return jax.tree.map(np.asarray, play(jax.random.key(rows * 100 + columns)))


@functools.cache
def asked_of_all(rows, columns, question):
    """The answer of a method of the game for every position of `random_games`."""
    states, _ = random_games(rows, columns)
    method = getattr(DotsAndBoxes(rows, columns), question)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(method)))(states))


def every_position(rows, columns):
    """The positions of `random_games` in one batch [positions, ...]."""
    states, _ = random_games(rows, columns)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)


def berlekamp_position(width, height, drawn, taken):
    game = DotsAndBoxes(rows=height, columns=width)
    lines = peters_lines(height, width)[[int(number) for number in drawn.split(",")]]
    complete = [box for box, sides in enumerate(box_sides(height, width)) if set(sides) <= set(lines)]
    assert len(complete) == taken
    return game, game.from_lines(lines, owners=dict.fromkeys(complete, 1))


def assert_same_position(one, other):
    for leaf, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(expected))
        assert leaf.dtype == expected.dtype


@pytest.mark.parametrize("shape", SHAPES)
def test_every_move_of_random_games_agrees_with_the_reference(shape):
    states, actions = random_games(*shape)
    masks = asked_of_all(*shape, "legal_action_mask")
    over = asked_of_all(*shape, "is_terminal")
    scores = asked_of_all(*shape, "scores")
    rewards = asked_of_all(*shape, "rewards")
    margins = asked_of_all(*shape, "margin")
    for number in range(GAMES[shape]):
        slow = reference.DotsAndBoxes(*shape)
        lines = slow.lines()
        for ply in range(len(lines) + 1):
            drawn = np.array([line in slow.drawn for line in lines])
            owners = [{None: 0, 0: 1, 1: -1}[slow.owner.get(box)] for box in slow.boxes()]
            np.testing.assert_array_equal(states.lines[ply, number], drawn)
            np.testing.assert_array_equal(masks[ply, number], ~drawn)
            np.testing.assert_array_equal(states.owners[ply, number], owners)
            assert states.current_player[ply, number] == slow.mover
            assert over[ply, number] == slow.is_over()
            assert tuple(scores[ply, number]) == (slow.score(0), slow.score(1))
            assert margins[ply, number] == slow.score(slow.mover) - slow.score(1 - slow.mover)
            difference = slow.score(0) - slow.score(1)
            outcome = (difference > 0) - (difference < 0) if slow.is_over() else 0
            assert tuple(rewards[ply, number]) == (outcome, -outcome)
            if ply < len(lines):
                slow.draw(lines[actions[ply, number]])


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (2, 3), (3, 2), (4, 3), (5, 5)])
def test_random_games_agree_with_open_spiel(shape):
    states, actions = random_games(*shape)
    rewards = asked_of_all(*shape, "rewards")
    first_margins = asked_of_all(*shape, "margin") * np.where(states.current_player == 0, 1, -1)
    rows, columns = shape
    sizes = f"num_rows={rows},num_cols={columns}"
    spiel = {
        margin: pyspiel.load_game(f"dots_and_boxes({sizes},utility_margin={margin})")
        for margin in ("false", "true")
    }
    for number in range(min(40, GAMES[shape])):
        by_outcome = spiel["false"].new_initial_state()
        by_margin = spiel["true"].new_initial_state()
        for ply, action in enumerate(actions[:, number].tolist()):
            assert by_outcome.current_player() == states.current_player[ply, number]
            np.testing.assert_array_equal(
                by_outcome.legal_actions(), np.flatnonzero(~states.lines[ply, number])
            )
            by_outcome.apply_action(action)
            by_margin.apply_action(action)
        assert by_outcome.is_terminal()
        np.testing.assert_array_equal(by_outcome.returns(), rewards[-1, number])
        assert by_margin.returns()[0] == first_margins[-1, number]


def test_lines_are_numbered_as_in_open_spiel():
    spiel = pyspiel.load_game("dots_and_boxes(num_rows=2,num_cols=3)")
    start, game = spiel.new_initial_state(), DotsAndBoxes(rows=2, columns=3)
    assert spiel.num_distinct_actions() == game.num_actions
    for action in range(game.num_actions):
        # OpenSpiel writes P1(h,0,2) or P1(v,1,3): direction, row and column of the upper left dot.
        direction, row, column = start.action_to_string(action)[3:-1].split(",")
        name = "abcd"[int(column)] + str(int(row) + 1)
        right, below = f"{'abcd~'[int(column) + 1]}{int(row) + 1}", f"{'abcd'[int(column)]}{int(row) + 2}"
        assert game.action_to_text(action) == f"{name}-{right if direction == 'h' else below}"


# Peters 2018, table 1: lines and average branching factor of square boards.
@pytest.mark.parametrize(
    "side, lines, branching",
    [
        *[(3, 24, 12.5), (4, 40, 20.5), (5, 60, 30.5), (6, 84, 42.5), (7, 112, 56.5), (8, 144, 72.5)],
        *[(9, 180, 90.5), (10, 220, 110.5), (11, 264, 132.5), (12, 312, 156.5), (13, 364, 182.5)],
        *[(14, 420, 210.5), (15, 480, 240.5)],
    ],
)
def test_square_boards_have_the_published_number_of_lines(side, lines, branching):
    assert DotsAndBoxes(side, side).num_actions == lines
    assert sum(range(1, lines + 1)) / lines == branching


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (3, 5), (7, 2), (20, 1), (20, 20)])
def test_lines_are_dots_and_boxes_minus_one(shape):
    rows, columns = shape
    game = DotsAndBoxes(rows, columns)
    assert game.num_actions == (rows + 1) * (columns + 1) + rows * columns - 1
    assert game.num_actions == 2 * rows * columns + rows + columns
    assert game.max_plies == game.num_actions


@pytest.mark.parametrize("shape", SHAPES)
def test_the_average_number_of_moves_is_half_of_lines_plus_one(shape):
    moves = asked_of_all(*shape, "legal_action_mask")[:-1].sum(-1)
    assert moves.mean() == (DotsAndBoxes(*shape).num_actions + 1) / 2


@pytest.mark.parametrize("shape", SHAPES)
def test_finished_games_have_as_many_turns_as_dots_and_double_crosses(shape):
    states, _ = random_games(*shape)
    movers = states.current_player[:-1]
    turns = 1 + (movers[1:] != movers[:-1]).sum(0)
    boxes = np.abs(states.owners).sum(-1)
    double_crosses = (np.diff(boxes, axis=0) == 2).sum(0)
    np.testing.assert_array_equal(turns, (shape[0] + 1) * (shape[1] + 1) + double_crosses)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mover_changes_exactly_when_no_box_is_completed(shape):
    states, _ = random_games(*shape)
    completed = np.diff(np.abs(states.owners).sum(-1), axis=0) > 0
    changed = states.current_player[1:] != states.current_player[:-1]
    np.testing.assert_array_equal(changed, ~completed)


@pytest.mark.parametrize("shape", SHAPES)
def test_at_the_end_all_boxes_are_shared_out(shape):
    assert (asked_of_all(*shape, "scores")[-1].sum(-1) == shape[0] * shape[1]).all()


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (2, 3), (3, 3)])
def test_games_are_drawn_only_if_the_number_of_boxes_is_even(shape):
    drawn = (asked_of_all(*shape, "rewards")[-1] == 0).all(-1)
    assert drawn.any() == (shape[0] * shape[1] % 2 == 0)


def test_one_line_that_completes_two_boxes_gives_one_more_move():
    game = DotsAndBoxes(rows=1, columns=2)
    x = game.from_text("""
        +---+---+
        |       |
        +---+---+
        B to move""")
    after = game.step(x, game.text_to_action("b1-b2", x))
    assert game.to_notation(after) == "--/|B|B|/-- B"
    np.testing.assert_array_equal(game.rewards(after), [-1, 1])


def test_a_finished_game_stays_as_it_is():
    game = DotsAndBoxes(2, 2)
    final = jax.tree.map(lambda leaf: leaf[-1], random_games(2, 2)[0])
    step = jax.jit(jax.vmap(game.step))
    for action in range(game.num_actions):
        again = step(final, jnp.full(GAMES[2, 2], action))
        assert_same_position(again, final)


def test_drawing_a_line_twice_changes_nothing():
    game = DotsAndBoxes(1, 2)
    once = game.step(game.init(), 3)
    assert_same_position(game.step(once, 3), once)


def test_margin_rewards_are_the_share_of_boxes():
    game = DotsAndBoxes(2, 2, reward="margin")
    x = game.from_notation("--/|A|A|/--/|A|B|/-- A")
    np.testing.assert_allclose(game.rewards(x), [0.5, -0.5])
    assert int(game.margin(x)) == 2
    assert int(game.margin(x, 1)) == -2
    unfinished = game.from_notation("--/|A|A|/--/|A|.|/-. B")
    np.testing.assert_array_equal(game.rewards(unfinished), [0, 0])
    assert int(game.margin(unfinished)) == -3


@pytest.mark.parametrize("fields", [{"rows": 0}, {"columns": 21}, {"rows": 2.0}, {"columns": True}])
def test_impossible_sizes_are_refused(fields):
    with pytest.raises(core.GameError, match="must be a whole number of boxes from 1 to 20"):
        DotsAndBoxes(**fields)


def test_unknown_options_are_refused():
    with pytest.raises(core.GameError, match="reward must be one of outcome, margin, got 'boxes'"):
        DotsAndBoxes(reward="boxes")
    with pytest.raises(core.GameError, match="observation must be one of compact, image"):
        DotsAndBoxes(observation="pixels")


@functools.cache
def solved(rows, columns):
    """Margins to come for the mover: [2 ** lines] best, and [2 ** lines, lines] of every open line."""
    game = DotsAndBoxes(rows, columns)
    lines = game.num_actions
    sets = np.arange(2**lines)
    drawn = (sets[:, None] >> np.arange(lines)) & 1 == 1
    complete = drawn[:, box_sides(rows, columns)].all(-1)
    # The table is about boxes to come, so all boxes that are complete belong to one player.
    x = DotsAndBoxesState(drawn, complete.astype(np.int8), np.zeros(len(sets), np.int32))
    step = jax.jit(jax.vmap(game.step, in_axes=(0, None)))
    values = np.full((len(sets), lines), -np.inf, np.float32)
    gain, stays = np.zeros(values.shape, np.int8), np.zeros(values.shape, bool)
    for action in range(lines):
        after = step(x, jnp.int32(action))
        gain[:, action] = np.asarray(after.owners).sum(-1) - complete.sum(-1)
        stays[:, action] = np.asarray(after.current_player) == 0
    best = np.zeros(len(sets), np.float32)
    for size in reversed(range(lines)):
        rows_ = np.flatnonzero(drawn.sum(-1) == size)
        for action in range(lines):
            open_ = rows_[~drawn[rows_, action]]
            later = best[open_ | (1 << action)]
            values[open_, action] = gain[open_, action] + np.where(stays[open_, action], later, -later)
        best[rows_] = values[rows_].max(-1)
    return best, values


# Values for the first player and optimal first lines in Peters's numbering; None means all of them.
@pytest.mark.parametrize(
    "rows, columns, value, optimal",
    [
        (1, 1, -1, None),
        (1, 2, 0, [3]),
        (2, 1, 0, [3]),
        (1, 3, -1, None),
        (1, 4, 0, [6]),
        (2, 2, 2, [0, 1, 2, 4, 7, 9, 10, 11]),
        (2, 3, -2, None),
    ],
)
def test_minimax_over_all_line_sets_gives_the_known_values(rows, columns, value, optimal):
    best, values = solved(rows, columns)
    assert best[0] == value
    lines = DotsAndBoxes(rows, columns).num_actions
    expected = range(lines) if optimal is None else peters_lines(rows, columns)[optimal]
    assert set(np.flatnonzero(values[0] == value)) == set(expected)


def test_inner_lines_of_the_two_by_two_board_only_draw():
    _, values = solved(2, 2)
    inner = peters_lines(2, 2)[[3, 5, 6, 8]]
    np.testing.assert_array_equal(values[0][inner], 0)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_values_do_not_depend_on_which_outer_line_of_a_corner_is_drawn(shape):
    best, _ = solved(*shape)
    top, left = box_sides(*shape)[0][:2]
    sets = np.arange(len(best))
    only_top = sets[(sets >> top & 1 == 1) & (sets >> left & 1 == 0)]
    np.testing.assert_array_equal(best[only_top], best[only_top ^ (1 << top) ^ (1 << left)])


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_values_do_not_depend_on_the_side_from_which_one_looks(shape):
    best, _ = solved(*shape)
    game = DotsAndBoxes(*shape)
    drawn = (np.arange(len(best))[:, None] >> np.arange(game.num_actions)) & 1
    for table in game.symmetries.action:
        np.testing.assert_array_equal(best[drawn[:, table] @ (1 << np.arange(game.num_actions))], best)


@pytest.mark.parametrize("rows, columns, plies", [(1, 2, 5), (2, 2, 4)])
def test_perft_agrees_with_the_reference(rows, columns, plies):
    game = DotsAndBoxes(rows, columns)
    sequences = np.array(list(itertools.permutations(range(game.num_actions), plies)))
    play = jax.jit(
        jax.vmap(lambda actions: jax.lax.scan(lambda x, a: (game.step(x, a), None), game.init(), actions)[0])
    )
    x = play(sequences)
    leaves = zip(x.current_player.tolist(), *np.asarray(jax.vmap(game.scores)(x)).T.tolist())
    assert collections.Counter(leaves) == reference.perft(reference.DotsAndBoxes(rows, columns), plies)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 3), (4, 3), (5, 5)])
def test_play_in_a_given_order_ends_as_the_same_game_move_by_move(shape):
    states, actions = random_games(*shape)
    game = DotsAndBoxes(*shape)
    order = np.argsort(actions, axis=0).T.astype(np.int32)  # [games, lines], the ply of every line
    expected = states.owners[-1].sum(-1)
    play = jax.jit(game.margin_in_order)
    for ply in (0, game.num_actions // 3, game.num_actions - 2, game.num_actions):
        x = jax.tree.map(lambda leaf, ply=ply: leaf[ply], states)
        np.testing.assert_array_equal(play(x, order), expected)


def chi_square_probability(margins, exact):
    """How likely counts at least as uneven as these are, if margins have the exact distribution."""
    values = sorted(exact)
    assert set(margins.tolist()) <= set(values)
    counts = [(margins == value).sum() for value in values]
    return scipy.stats.chisquare(counts, [exact[value] * len(margins) for value in values]).pvalue


@functools.cache
def played_out(rows, columns, notation, number=100_000):
    """The final margins for the player to move of many random playouts from a position."""
    game = DotsAndBoxes(rows, columns, reward="margin")
    x = game.from_notation(notation)
    batch = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (number, *leaf.shape)), x)
    rewards = jax.jit(functools.partial(core.random_playout, game))(batch, jax.random.key(7))
    np.testing.assert_array_equal(rewards.sum(-1), 0)
    return np.rint(np.asarray(rewards[:, int(x.current_player)]) * game.num_boxes).astype(int)


def test_random_playouts_have_the_exact_distribution_of_random_play():
    margins = played_out(2, 2, "../...../../...../.. A")
    assert chi_square_probability(margins, reference.random_margins(2, 2)) > 1e-3


def test_random_playouts_from_a_position_have_the_exact_distribution():
    notation = "--/|B|../-./..|../.. B"
    game = DotsAndBoxes(2, 2)
    lines = reference.DotsAndBoxes(2, 2).lines()
    drawn = frozenset(lines[action] for action in np.flatnonzero(game.from_notation(notation).lines))
    # B has a box already: one more than what is still to come.
    exact = {margin + 1: share for margin, share in reference.random_margins(2, 2, drawn).items()}
    assert chi_square_probability(played_out(2, 2, notation), exact) > 1e-3


def test_random_play_move_by_move_has_the_exact_distribution():
    margins = random_games(2, 2)[0].owners[-1].sum(-1)
    assert chi_square_probability(margins, reference.random_margins(2, 2)) > 1e-3


def test_playouts_of_finished_games_return_their_result():
    final = jax.tree.map(lambda leaf: leaf[-1], random_games(3, 3)[0])
    rewards = jax.jit(DotsAndBoxes(3, 3).random_playout)(final, jax.random.key(0))
    np.testing.assert_array_equal(rewards, asked_of_all(3, 3, "rewards")[-1])


def observed(x, *, player=None, **fields):
    game = DotsAndBoxes(**fields)
    image = np.asarray(game.observe(x, player))
    assert image.shape == game.observation_shape
    assert image.dtype == np.float32
    return image


def painted(slow, observation, mover):
    """The image of a reference game, painted pixel by pixel by Peters's formulas."""
    image = np.zeros((2 * slow.rows + 3, 2 * slow.columns + 3, 5))
    image[:, :, 0] = 1

    def paint(column, row, plane):
        image[row, column] = np.eye(5)[plane]

    for x, y in itertools.product(range(slow.columns + 1), range(slow.rows + 1)):
        paint(2 * x + 1, 2 * y + 1, 4)
        if reference.line((y, x), (y, x + 1)) in slow.drawn:
            paint(2 * x + 2, 2 * y + 1, 1)
        if reference.line((y, x), (y + 1, x)) in slow.drawn:
            paint(2 * x + 1, 2 * y + 2, 1)
        owner = slow.owner.get((y, x))
        if owner is not None:
            first_plane_is_of = 0 if observation == "image-absolute" else mover
            paint(2 * x + 2, 2 * y + 2, 2 if owner == first_plane_is_of else 3)
    return image


@pytest.mark.parametrize("observation", ["image", "image-absolute"])
def test_images_are_painted_by_the_published_formulas(observation):
    game = DotsAndBoxes(rows=4, columns=3, observation=observation)
    states, actions = random_games(4, 3)
    images = np.asarray(jax.jit(jax.vmap(jax.vmap(game.observe)))(states))
    for number in range(3):
        slow = reference.DotsAndBoxes(4, 3)
        for ply in range(game.num_actions + 1):
            np.testing.assert_array_equal(images[ply, number], painted(slow, observation, slow.mover))
            if ply < game.num_actions:
                slow.draw(slow.lines()[actions[ply, number]])
    np.testing.assert_array_equal(images.sum(-1), 1)


def test_the_image_of_five_by_four_boxes_is_thirteen_pixels_wide_and_eleven_high():
    game = DotsAndBoxes(rows=4, columns=5, observation="image")
    assert game.observation_shape == (11, 13, 5)
    assert game.num_actions == 49
    x = game.from_lines(["a1-b1", "f4-f5"])
    image = observed(x, rows=4, columns=5, observation="image")
    # 30 dots, 2 lines, and the rest of 143 pixels is background.
    np.testing.assert_array_equal(image.sum((0, 1)), [111, 2, 0, 0, 30])
    np.testing.assert_array_equal(np.argwhere(image[:, :, 1]), [[1, 2], [8, 11]])


def test_the_grey_image_has_the_published_shades():
    game = DotsAndBoxes(rows=1, columns=2, observation="grey")
    x = game.from_notation("--/|A|B|/-- B")
    image = observed(x, rows=1, columns=2, observation="grey")
    expected = [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 215, 255, 215, 255, 215, 0],
        [0, 255, 65, 255, 150, 255, 0],
        [0, 215, 255, 215, 255, 215, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(image[:, :, 0] * 255, expected, rtol=1e-6)


def test_the_compact_observation_of_a_small_board():
    x = DotsAndBoxes(1, 2).from_text("""
        +---+   +
        | A |
        +---+---+
        B to move""")
    planes = np.moveaxis(observed(x, rows=1, columns=2), -1, 0)
    expected = [
        [[1, 0, 0], [1, 1, 0]],  # horizontal lines drawn; none starts in the last column
        [[1, 1, 0], [0, 0, 0]],  # vertical lines drawn; none starts in the last row
        [[0, 1, 0], [0, 0, 0]],  # horizontal lines open
        [[0, 0, 1], [0, 0, 0]],  # vertical lines open
        [[0, 0, 0], [0, 0, 0]],  # boxes of B, who is to move
        [[1, 0, 0], [0, 0, 0]],  # boxes of A
    ]
    np.testing.assert_array_equal(planes, expected)


@pytest.mark.parametrize("observation, own, other", [("compact", 4, 5), ("image", 2, 3)])
def test_the_other_player_sees_own_and_opponent_boxes_swapped(observation, own, other):
    game = DotsAndBoxes(4, 3, observation=observation)
    x = every_position(4, 3)
    observe = jax.jit(jax.vmap(game.observe))
    mine, theirs = np.array(observe(x, x.current_player)), np.array(observe(x, 1 - x.current_player))
    np.testing.assert_array_equal(mine, observe(x))
    assert mine[..., own].any() and mine[..., other].any()
    theirs[..., [own, other]] = theirs[..., [other, own]]
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("observation", ["image-absolute", "grey"])
def test_absolute_images_are_the_same_for_both_players(observation):
    x = DotsAndBoxes(1, 2).from_notation("-./|A|../-- B")
    for player in (0, 1):
        image = observed(x, player=player, rows=1, columns=2, observation=observation)
        np.testing.assert_array_equal(image, observed(x, rows=1, columns=2, observation=observation))


@pytest.mark.parametrize("observation, drawn_plane", [("compact", 0), ("image", 1)])
def test_line_pixels_point_at_the_lines_of_the_observation(observation, drawn_plane):
    game = DotsAndBoxes(4, 3, observation=observation)
    x = every_position(4, 3)
    images = np.asarray(jax.jit(jax.vmap(game.observe))(x))
    row, column, channel = game.line_pixels.T
    np.testing.assert_array_equal(images[:, row, column, drawn_plane + channel], x.lines)


def geometric_line_tables(rows, columns):
    """The tables of lines under all symmetries, by moving dots."""
    lines = reference.DotsAndBoxes(rows, columns).lines()
    moves = [lambda r, c: (r, c), lambda r, c: (rows - r, c), lambda r, c: (r, columns - c)]
    moves.append(lambda r, c: (rows - r, columns - c))
    if rows == columns:
        moves += [lambda r, c, move=move: move(c, r) for move in moves]
    return {
        tuple(lines.index(reference.line(*(move(*dot) for dot in sorted(line)))) for line in lines)
        for move in moves
    }


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 2), (3, 3)])
def test_the_symmetries_are_those_of_the_rectangle_or_the_square(shape):
    table = DotsAndBoxes(*shape).symmetries.action
    assert len(table) == (8 if shape[0] == shape[1] else 4)
    assert {tuple(row) for row in table.tolist()} == geometric_line_tables(*shape)
    np.testing.assert_array_equal(table[0], np.arange(table.shape[1]))


@pytest.mark.parametrize("observation", ["compact", "image", "image-absolute", "grey"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_symmetries_are_exact_permutations_of_observations(shape, observation):
    game = DotsAndBoxes(*shape, observation=observation)
    x = every_position(*shape)
    observe = jax.jit(jax.vmap(game.observe))
    flat = np.asarray(observe(x)).reshape(len(x.lines), -1)
    for gather, lines, boxes in zip(*game.symmetries, game.box_symmetries, strict=True):
        np.testing.assert_array_equal(np.sort(gather), np.arange(flat.shape[1]))
        seen = x._replace(lines=x.lines[:, lines], owners=x.owners[:, boxes])
        np.testing.assert_array_equal(np.asarray(observe(seen)).reshape(flat.shape), flat[:, gather])


@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_symmetries_commute_with_play(shape):
    game = DotsAndBoxes(*shape)
    states, actions = random_games(*shape)
    before, after = (jax.tree.map(lambda leaf, cut=cut: leaf[cut], states) for cut in (np.s_[:-1], np.s_[1:]))
    step = jax.jit(jax.vmap(jax.vmap(game.step)))
    for lines, boxes in zip(game.symmetries.action, game.box_symmetries, strict=True):
        seen = before._replace(lines=before.lines[..., lines], owners=before.owners[..., boxes])
        expected = after._replace(lines=after.lines[..., lines], owners=after.owners[..., boxes])
        assert_same_position(step(seen, np.argsort(lines)[actions]), expected)


@pytest.mark.parametrize("shape", [(1, 2), (3, 2)])
def test_the_cells_of_a_line_are_its_two_dots(shape):
    game = DotsAndBoxes(*shape)
    for line, cells in enumerate(game.action_cells.tolist()):
        dots = game.action_to_text(line).split("-")
        assert cells == [[int(dot[1:]) - 1, ord(dot[0]) - ord("a")] for dot in dots]


def test_both_players_see_actions_in_the_same_frame():
    game = DotsAndBoxes(2, 3)
    np.testing.assert_array_equal(game.action_frames, [np.arange(17), np.arange(17)])


@pytest.mark.parametrize("shape", SHAPES)
def test_both_numberings_of_lines_translate_back_and_forth(shape):
    to, back = peters_numbers(*shape), peters_lines(*shape)
    np.testing.assert_array_equal(back[to], np.arange(DotsAndBoxes(*shape).num_actions))
    np.testing.assert_array_equal(to[back], np.arange(DotsAndBoxes(*shape).num_actions))


@pytest.mark.parametrize("shape", SHAPES)
def test_peters_numbers_of_the_sides_of_every_box(shape):
    _, width = shape
    for box, sides in enumerate(peters_numbers(*shape)[box_sides(*shape)]):
        y, x = divmod(box, width)
        top = y * (2 * width + 1) + x
        assert sides.tolist() == [top, top + width, top + width + 1, top + 2 * width + 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_sides_of_boxes_agree_with_the_reference(shape):
    slow = reference.DotsAndBoxes(*shape)
    lines = slow.lines()
    for box, sides in zip(slow.boxes(), box_sides(*shape), strict=True):
        assert {lines[side] for side in sides} == set(slow.sides(box))


def test_the_dual_of_a_domino():
    # Coins 0 and 1, ground 2; strings in the order of the lines: two above, two below, then left to right.
    expected = [[2, 0], [2, 1], [0, 2], [1, 2], [2, 0], [0, 1], [1, 2]]
    np.testing.assert_array_equal(strings_and_coins(1, 2), expected)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 2), (4, 3), (5, 5)])
def test_cutting_strings_gives_the_same_scores(shape):
    states, actions = random_games(*shape)
    strings, coins = strings_and_coins(*shape).tolist(), shape[0] * shape[1]
    for number in range(min(50, GAMES[shape])):
        uncut = collections.Counter(coin for string in strings for coin in string)
        assert all(uncut[coin] == 4 for coin in range(coins))
        mover, scores = 0, [0, 0]
        for action in actions[:, number].tolist():
            ends = strings[action]
            uncut.subtract(ends)
            freed = sum(uncut[coin] == 0 for coin in ends if coin != coins)
            scores[mover] += freed
            mover = mover if freed else 1 - mover
        assert scores == asked_of_all(*shape, "scores")[-1, number].tolist()
        assert mover == states.current_player[-1, number]


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (20, 20)])
def test_move_texts_translate_back_and_forth(shape):
    game = DotsAndBoxes(*shape)
    texts = [game.action_to_text(action) for action in range(game.num_actions)]
    assert [game.text_to_action(text) for text in texts] == list(range(game.num_actions))
    assert texts[0] == "a1-b1"


@pytest.mark.parametrize("text", ["b1-c1", "c1-b1", "C1-B1", " b1 - c1 "])
def test_a_move_may_name_its_dots_in_either_order_and_case(text):
    assert DotsAndBoxes(2, 3).text_to_action(text) == 1


@pytest.mark.parametrize(
    "text, reason",
    [
        ("b1", "'b1' is no line: expected two neighbouring dots such as a1-b1"),
        ("", "expected two neighbouring dots"),
        ("a1-b1-c1", "expected two neighbouring dots"),
        ("a1-é1", "expected two neighbouring dots"),
        ("d1-e1", "e1 is not a dot of this board, which runs from a1 to d3"),
        ("a0-a1", "a0 is not a dot"),
        ("a3-a4", "a4 is not a dot"),
        ("a1-c1", "a1 and c1 are not neighbours"),
        ("b2-a1", "a1 and b2 are not neighbours"),
        ("a1-a1", "a1 and a1 are not neighbours"),
        ("b1-a1", "'b1-a1' is drawn already"),
    ],
)
def test_bad_moves_are_refused_with_the_reason(text, reason):
    game = DotsAndBoxes(2, 3)
    with pytest.raises(core.MoveError, match=reason):
        game.text_to_action(text, game.from_lines(["a1-b1"]))


def test_moves_after_the_end_are_refused():
    game = DotsAndBoxes(1, 1)
    with pytest.raises(core.MoveError, match="the game is over"):
        game.text_to_action("a1-b1", game.from_notation("-/|B|/- B"))


def test_action_numbers_off_the_board_have_no_text():
    with pytest.raises(core.MoveError, match="a line has a number from 0 to 16, got 17"):
        DotsAndBoxes(2, 3).action_to_text(17)


HAND_MADE = """\
  a   b   c   d
1 +---+---+   +
  | A |
2 +---+---+---+
      | B |   |
3 +   +---+   +
A 1, B 1; B to move"""


def test_a_hand_made_board_is_printed_as_it_was_drawn():
    game = DotsAndBoxes(rows=2, columns=3)
    x = game.from_text(HAND_MADE)
    assert game.to_text(x) == HAND_MADE
    assert game.to_notation(x) == "--./|A|..../---/..|B|.|/.-. B"
    assert game.drawn_lines(x) == (
        "a1-b1 b1-c1 a2-b2 b2-c2 c2-d2 b3-c3 a1-a2 b1-b2 b2-b3 c2-c3 d2-d3".split()
    )
    assert_same_position(game.from_lines(game.drawn_lines(x), {0: 0, 4: 1}, current_player=1), x)


def test_the_notation_explained_in_the_documentation():
    game = DotsAndBoxes(2, 2)
    notation = "--/|A|.|/-./|..../.. B"
    assert notation in dots_and_boxes.__doc__
    x = game.from_notation(notation)
    assert game.drawn_lines(x) == "a1-b1 b1-c1 a2-b2 a1-a2 b1-b2 c1-c2 a2-a3".split()
    assert (x.owners.tolist(), int(x.current_player)) == ([1, 0, 0, 0], 1)


def test_a_board_needs_neither_coordinates_nor_score():
    bare = "\n".join(row[2:] for row in HAND_MADE.splitlines()[1:-1]) + "\nB to move"
    game = DotsAndBoxes(rows=2, columns=3)
    assert_same_position(game.from_text(bare), game.from_text(HAND_MADE))


@st.composite
def positions(draw):
    """Any line set with any owners of its complete boxes, reachable or not."""
    rows, columns = draw(st.sampled_from([(1, 1), (1, 3), (3, 2), (9, 10)]))
    game = DotsAndBoxes(rows, columns)
    share = draw(st.sampled_from([1, 2, 9, 1000]))  # of drawn to open lines, so that boxes get complete
    chosen = st.integers(0, share)
    lines = draw(st.lists(chosen, min_size=game.num_actions, max_size=game.num_actions))
    drawn = {action for action, number in enumerate(lines) if number}
    complete = [box for box, sides in enumerate(box_sides(rows, columns)) if drawn.issuperset(sides)]
    owners = {box: draw(st.integers(0, 1)) for box in complete}
    return game, game.from_lines(sorted(drawn), owners, draw(st.integers(0, 1)))


@hypothesis.settings(max_examples=150, deadline=None, derandomize=True)
@hypothesis.given(positions())
def test_any_position_survives_notation_and_ascii(position):
    game, x = position
    hypothesis.note(game.to_text(x))
    assert_same_position(game.from_notation(game.to_notation(x)), x)
    assert_same_position(game.from_text(game.to_text(x)), x)
    owners = {box: int(owner < 0) for box, owner in enumerate(x.owners.tolist()) if owner}
    assert_same_position(game.from_lines(game.drawn_lines(x), owners, int(x.current_player)), x)


@pytest.mark.parametrize("width, height, drawn, taken", BERLEKAMP)
def test_berlekamps_problems_survive_notation_and_ascii(width, height, drawn, taken):
    game, x = berlekamp_position(width, height, drawn, taken)
    assert int(x.lines.sum()) == drawn.count(",") + 1
    assert int(abs(x.owners).sum()) == taken
    assert_same_position(game.from_text(game.to_text(x)), x)
    assert_same_position(game.from_notation(game.to_notation(x)), x)


def test_berlekamps_third_problem_is_drawn_where_its_numbers_say():
    # A row of 3 horizontal lines and a row of 4 vertical ones take 7 numbers: 0 1 2 | 3 4 5 6 | 7 8 9 | ...
    # Drawn: 0 1 2, then 4 and 6, then 10 to 13, then 18 and 19.
    game, x = berlekamp_position(*BERLEKAMP[2])
    assert game.to_notation(x) == "---/..|...|/.../|.|.|.|/.../..|.|../... A"


@pytest.mark.parametrize(
    "notation, reason",
    [
        ("", "expected rows separated by '/', a space and A or B to move"),
        ("../...../../...../..", "A or B to move"),
        ("../...../../...../.. C", "A or B to move"),
        ("../...../.. A", "has 5 rows of lines separated by '/', got 3"),
        (".../...../../...../.. A", "row 1, '...', must have 2 characters, has 3"),
        ("../..../../...../.. A", "row 2, '....', must have 5 characters, has 4"),
        ("|./...../../...../.. A", "the line a1-b1 must be '-' or left open, got '|'"),
        ("../....-/../...../.. A", "the line c1-c2 must be '|' or left open, got '-'"),
        ("--/|X|.|/--/...../.. A", "the box to the lower right of a1 must belong to A, B or nobody, got 'X'"),
        ("--/|.|.|/-./...../.. A", "the box to the lower right of a1 has all four sides drawn"),
        ("--/|.|A|/.-/|B.../.. A", "the box to the lower right of a2 has an owner but not all"),
    ],
)
def test_bad_notation_is_refused_with_the_reason(notation, reason):
    with pytest.raises(core.PositionError, match=reason.replace("|", r"\|").replace(".", r"\.")):
        DotsAndBoxes(2, 2).from_notation(notation)


@pytest.mark.parametrize(
    "board, reason",
    [
        ("nothing here", "the board has no dots"),
        ("+   +\n\n+   +", "must say 'A to move' or 'B to move'"),
        ("+   +\n\n+   +\n\n+   +\nA to move", "is 3 lines of text from its first dots to its last, got 5"),
        ("+   +   +\n\n+   +   +\nA to move", "line 1 of the board, .*, is longer than 1 boxes"),
        ("+  +\n\n+  +\nA to move", "line 1 of the board, .*, needs a dot"),
        ("+ - +\n\n+   +\nA to move", "line 1 of the board has ' - ' between dots"),
        ("+---+\n|A  |\n+---+\nA to move", "line 2 of the board has 'A  ' in a box"),
        ("+---+\n! A |\n+---+\nA to move", "the line a1-a2 must be .* or left open, got '!'"),
        ("+---+\n|   |\n+---+\nA to move", "needs an owner"),
    ],
)
def test_bad_boards_are_refused_with_the_reason(board, reason):
    with pytest.raises(core.PositionError, match=reason):
        DotsAndBoxes(1, 1).from_text(board)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ({"lines": [0, "b1-a1"]}, "the line a1-b1 is listed twice"),
        ({"lines": [0, 1, 2, 3]}, "needs an owner"),
        ({"lines": [0], "owners": {0: 0}}, "has an owner but"),
        ({"lines": [], "owners": {1: 0}}, "owners must give boxes 0 to 0 to players 0 or 1, got 1: 0"),
        ({"lines": [], "owners": {0: 2}}, "to players 0 or 1, got 0: 2"),
        ({"lines": [], "current_player": 2}, "current_player must be 0 or 1, got 2"),
        ({"lines": [4]}, "a line has a number from 0 to 3, got 4"),
    ],
)
def test_bad_lists_of_lines_are_refused_with_the_reason(arguments, reason):
    with pytest.raises(core.GameError, match=reason):
        DotsAndBoxes(1, 1).from_lines(**arguments)


def drawn_elements(svg, tag):
    return xml.etree.ElementTree.fromstring(svg).findall(f"{{http://www.w3.org/2000/svg}}{tag}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_every_line_and_dot(theme):
    game = DotsAndBoxes(2, 3)
    svg = game.draw(game.from_text(HAND_MADE), theme=theme)
    assert len(drawn_elements(svg, "line")) == game.num_actions
    dashed = [line for line in drawn_elements(svg, "line") if "stroke-dasharray" in line.attrib]
    assert len(dashed) == 6  # 17 lines, 11 of them drawn
    texts = [text.text for text in drawn_elements(svg, "text")]
    assert texts.count("A") == texts.count("B") == 2  # one box and the score of each


def test_the_picture_points_out_the_last_line_heat_and_marks():
    game = DotsAndBoxes(2, 3)
    x = game.from_text(HAND_MADE)
    heat = np.full(game.num_actions, np.nan)
    open_line, drawn_line = game.text_to_action("c1-d1"), game.text_to_action("a1-b1")
    heat[[open_line, drawn_line]] = 0.5, 1.0
    svg = game.draw(x, last_action=drawn_line, heat=heat, marks={open_line: "<1>"})
    colours = [line.attrib["stroke"] for line in drawn_elements(svg, "line")]
    assert colours.count(THEMES["light"].accent) == 1
    assert colours.count(THEMES["light"].heat) == 1  # the open line; a drawn one carries no heat
    assert "<1>" in [text.text for text in drawn_elements(svg, "text")]


def test_the_picture_refuses_what_does_not_fit_the_board():
    game = DotsAndBoxes(1, 1)
    with pytest.raises(core.GameError, match=r"heat must have shape \(4,\)"):
        game.draw(game.init(), heat=np.zeros(5))
    with pytest.raises(core.MoveError, match="a line has a number from 0 to 3, got -1"):
        game.draw(game.init(), last_action=-1)
    with pytest.raises(core.MoveError, match="got 9"):
        game.draw(game.init(), marks={9: "x"})


def test_a_state_takes_one_byte_a_line_and_box_and_four_for_the_player():
    x = DotsAndBoxes(5, 5).init()
    assert sum(leaf.nbytes for leaf in x) == 60 + 25 + 4


def test_playing_on_compiles_once():
    game = DotsAndBoxes(2, 2)

    @jax.jit
    @chex.assert_max_traces(n=1)
    def ply(x, key):
        x = core.renew(game, x, key)
        return game.step(x, core.random_action(key, game.legal_action_mask(x)))

    x = game.init()
    for key in jax.random.split(jax.random.key(0), 30):
        x = ply(x, key)


def test_the_environment_passes_the_tests_of_pgx():
    pgx.api_test(Env(DotsAndBoxes(rows=2, columns=3)), 3)


def test_the_final_margin_is_that_of_the_player_asked_about_whoever_is_to_move():
    game = DotsAndBoxes(rows=1, columns=3)
    owners = jnp.array([1, 1, -1], jnp.int8)  # two boxes of player 0, one of player 1
    for mover in (0, 1):
        x = DotsAndBoxesState(jnp.ones(game.num_actions, bool), owners, jnp.int32(mover))
        margins = [float(game.final_margin(x, jnp.int32(player))) for player in (0, 1)]
        assert margins == pytest.approx([1 / 3, -1 / 3])
