"""Chinese Checkers against a slow reference, published counts and hand-made positions.

The counts (move sequences, illegal and terminal positions, mean branching, reachable positions) come from
programs written apart from this one.
"""

import functools
import itertools
import math
import types
import xml.etree.ElementTree

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

from azjax.envs import chinese_checkers, core
from azjax.envs.chinese_checkers import DRAWN, FIRST_WON, ONGOING, SECOND_WON, ChineseCheckers
from azjax.envs.pgx_bridge import Env
from tests.reference import chinese_checkers as reference

pytestmark = pytest.mark.usefixtures("optimised")

CHUNK = 4096  # positions per compiled call; one size, so that each function compiles once


@functools.cache
def compiled(game):
    """The game's functions over a batch, shared by all tests so that each compiles once."""

    def look(x):
        return {
            "mask": game.legal_action_mask(x),
            "board": game.board(x),
            "observation": game.observe(x),
            "rewards": game.rewards(x),
            "illegal": game.is_illegal(x),
        }

    def act(x, action):
        x = game.step(x, action)
        return x, look(x)

    return types.SimpleNamespace(
        start=lambda count: jax.vmap(lambda _: game.init(None))(jnp.arange(count)),
        place=jax.jit(jax.vmap(game.from_board)),
        look=jax.jit(jax.vmap(look)),
        step_one=jax.jit(game.step),
        mask_one=jax.jit(game.legal_action_mask),
        step=jax.jit(jax.vmap(game.step)),
        act=jax.jit(jax.vmap(act)),
        mask=jax.jit(jax.vmap(game.legal_action_mask)),
        illegal=jax.jit(jax.vmap(game.is_illegal)),
        stages=jax.jit(jax.vmap(functools.partial(chinese_checkers._staged_masks, game))),
    )


def rows(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def in_chunks(function, *arrays):
    """function(*arrays) for any number of rows, in calls of CHUNK rows; pytrees of numpy arrays."""
    count = len(jax.tree.leaves(arrays)[0])
    results = []
    for start in range(0, count, CHUNK):
        index = np.minimum(np.arange(start, start + CHUNK), count - 1)
        results.append(jax.device_get(function(*rows(arrays, index))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def letters(board):
    return tuple(".ab"[cell] for cell in np.asarray(board))


def legal_texts(game, x):
    return {game.action_to_text(action) for action in np.flatnonzero(compiled(game).mask_one(x))}


def play(game, texts, x=None):
    x = game.init(None) if x is None else x
    for text in texts:
        x = compiled(game).step_one(x, game.text_to_action(text, x))
    return x


# size, pieces, forward_only, repetitions, max_plies, games
RANDOM_GAMES = [
    (3, 1, False, 1, 100, 100),
    (3, 2, True, 0, 100, 100),
    (3, 3, True, 2, 100, 300),
    (3, 3, False, 6, 60, 150),
    (4, 2, False, 2, 40, 150),
    (4, 3, True, 6, 100, 300),
    (4, 3, False, 1, 50, 150),
    (4, 4, True, 0, 100, 150),
    (4, 4, False, None, 40, 100),
    (4, 6, True, 1, 100, 150),
    (4, 6, False, 6, 50, 100),
    (5, 3, True, 2, 100, 100),
    (5, 6, True, 6, 100, 80),
    (5, 6, False, 2, 40, 60),
    (5, 10, False, 6, 40, 40),
    (6, 6, True, 6, 100, 20),
    (7, 6, False, 1, 40, 20),
    (9, 10, True, 6, 30, 5),
]


@pytest.mark.parametrize("size,pieces,forward_only,repetitions,max_plies,games", RANDOM_GAMES)
def test_random_games_agree_with_the_reference_move_by_move(
    size, pieces, forward_only, repetitions, max_plies, games
):
    game = ChineseCheckers(size, pieces, forward_only, repetitions, max_plies)
    rules = reference.Rules(size, pieces, forward_only)
    matches = [reference.Match(rules, repetitions, max_plies) for _ in range(games)]
    rng = np.random.default_rng(size * 100 + pieces)
    number = {tuple(move): action for action, move in enumerate(game.moves.tolist())}
    functions = compiled(game)
    x = functions.start(games)
    last_moves = [{} for _ in matches]
    for _ in range(max_plies):
        actions = np.zeros(games, np.int32)
        for i, match in enumerate(matches):
            if match.result is None:
                move = choose(rng, match.moves, last_moves[i].get(match.player), i)
                last_moves[i][match.player] = move
                actions[i] = number[move]
                match.play(*move)
        x, seen = functions.act(x, actions)
        check_positions(game, *jax.device_get((x, seen)), matches)
    assert all(match.result is not None for match in matches)


def choose(rng, moves, last, game):
    """A random move; in every second game often the last one taken back, so that boards come again."""
    if last is not None and last[::-1] in moves and game % 2 and rng.random() < 0.8:
        return last[::-1]
    return moves[rng.integers(len(moves))]


def check_positions(game, x, seen, matches):
    outcomes = {None: ONGOING, "a": FIRST_WON, "b": SECOND_WON, "draw": DRAWN}
    rewards = {None: (0, 0), "a": (1, -1), "b": (-1, 1), "draw": (0, 0)}
    for i, match in enumerate(matches):
        assert letters(seen["board"][i]) == match.board
        assert x.outcome[i] == outcomes[match.result], match.board
        assert x.current_player[i] == "ab".index(match.player)
        assert x.ply[i] == len(match.earlier_boards)
        assert tuple(seen["rewards"][i]) == rewards[match.result]
        assert not seen["illegal"][i]
        moves = [tuple(move) for move in game.moves[seen["mask"][i]].tolist()]
        assert moves == ([] if match.result else match.moves), match.board


def perft(game, depth):
    """Sequences, distinct boards and winning sequences for every number of plies up to `depth`."""
    functions = compiled(game)
    x, ways = jax.device_get(functions.start(1)), np.ones(1, np.int64)
    counts, distinct, wins = [], [], []
    for _ in range(depth):
        position, action = np.nonzero(in_chunks(functions.mask, x))
        x = in_chunks(functions.step, rows(x, position), action)
        ways = ways[position]
        _, first, inverse = np.unique(
            x.bits.reshape(len(ways), -1), axis=0, return_index=True, return_inverse=True
        )
        x = rows(x, first)
        ways = np.bincount(inverse.ravel(), weights=ways).astype(np.int64)
        counts.append(ways.sum())
        distinct.append(len(ways))
        wins.append(ways[x.outcome != ONGOING].sum())
    return counts, distinct, wins


PERFT = {
    (3, 3, False): (
        [6, 28, 150, 804, 3702, 16542, 79120],
        [6, 28, 82, 216, 412, 660, 992],
        [0, 4, 22, 74, 418, 2316, 11140],
    ),
    (3, 3, True): (
        [6, 28, 110, 372, 1144, 3328, 10026],
        [6, 28, 72, 157, 332, 592, 910],
        [0, 4, 22, 58, 240, 640, 2130],
    ),
    (4, 3, False): (
        [6, 36, 376, 3936, 40132, 410860, 4533370],
        [6, 36, 202, 1145, 3856, 13225, 32978],
        [0, 0, 4, 12, 166, 2382, 31990],
    ),
    (4, 3, True): (
        [6, 36, 316, 2794, 23706, 200526, 1702970],
        [6, 36, 196, 1080, 3642, 12437, 31222],
        [0, 0, 4, 10, 140, 1124, 12338],
    ),
    (5, 6, False): (
        [10, 100, 1666, 28220, 514722],
        [10, 100, 906, 8597, 61595],
        [0, 0, 26, 116, 2206],
    ),
    (5, 6, True): (
        [10, 100, 1486, 22630, 365700],
        [10, 100, 896, 8422, 60158],
        [0, 0, 26, 106, 1888],
    ),
}


def plain(size, pieces, forward_only=False):
    """The game without draws, for counting positions."""
    return ChineseCheckers(size, pieces, forward_only, repetitions=None, max_plies=10_000)


@pytest.mark.parametrize("size,pieces,forward_only", PERFT)
def test_the_numbers_of_move_sequences_are_the_known_ones(size, pieces, forward_only):
    counts, distinct, wins = PERFT[size, pieces, forward_only]
    assert perft(plain(size, pieces, forward_only), len(counts)) == (counts, distinct, wins)


def test_the_first_moves_are_the_known_ones():
    small, large = plain(4, 3), plain(5, 6)
    assert legal_texts(small, small.init(None)) == set("0-3 0-5 1-3 1-4 2-4 2-5".split())
    assert legal_texts(large, large.init(None)) == set(
        "1-6 1-8 2-7 2-9 3-6 3-7 4-7 4-8 5-8 5-9".split()
    )  # six steps and four hops


@functools.cache
def all_boards(size, pieces):
    """[C(N, k) * C(N-k, k), N] int8, every way to place the pieces."""
    cells = size**2
    sets = np.array(list(itertools.combinations(range(cells), pieces)))
    rest_sets = np.array(list(itertools.combinations(range(cells - pieces), pieces)))
    boards = np.zeros((len(sets), len(rest_sets), cells), np.int8)
    for row, taken in zip(boards, sets):
        rest = np.setdiff1d(np.arange(cells), taken)
        row[:, taken] = 1
        np.put_along_axis(row, rest[rest_sets], 2, axis=1)
    return boards.reshape(-1, cells)


def place_all(game, boards, player=0):
    return in_chunks(compiled(game).place, boards, np.full(len(boards), player, np.int32))


@pytest.mark.parametrize(
    "size,pieces,positions,illegal,terminal",
    [
        (3, 1, 72, 8, 7),
        (3, 3, 1_680, 380, 361),
        (4, 1, 240, 15, 14),
        (4, 2, 10_920, 455, 450),
        (4, 3, 160_160, 5_434, 5_415),
        (4, 4, 900_900, 34_155, 34_086),
        (4, 6, 1_681_680, 202_710, 192_637),
    ],
)
def test_as_many_boards_are_illegal_and_terminal_as_known(size, pieces, positions, illegal, terminal):
    game = plain(size, pieces)
    boards = all_boards(size, pieces)
    x = place_all(game, boards)
    is_illegal = in_chunks(compiled(game).illegal, x)
    assert len(boards) == positions
    assert is_illegal.sum() == illegal
    assert (x.outcome[~is_illegal] == SECOND_WON).sum() == terminal  # the first player is to move
    assert not np.isin(x.outcome, [FIRST_WON, DRAWN]).any()


@pytest.mark.parametrize("size,pieces,canonical", [(7, 3, 288_420), (6, 6, 989_725_125), (5, 6, 32_086_509)])
def test_the_share_of_illegal_boards_is_the_known_one(size, pieces, canonical):
    # Too many to enumerate: a sample, and four standard deviations.
    game = plain(size, pieces)
    rng = np.random.default_rng(1)
    count = 1 << 18
    pieces_first = np.zeros((count, size**2), np.int8)
    pieces_first[:, :pieces], pieces_first[:, pieces : 2 * pieces] = 1, 2
    x = place_all(game, rng.permuted(pieces_first, axis=1))
    share = canonical / (math.comb(size**2, pieces) * math.comb(size**2 - pieces, pieces))
    found = in_chunks(compiled(game).illegal, x).sum()
    assert abs(found - count * share) < 4 * math.sqrt(count * share)


@functools.cache
def legal_undecided(size, pieces):
    game = plain(size, pieces)
    boards = all_boards(size, pieces)
    x = place_all(game, boards)
    return boards[~in_chunks(compiled(game).illegal, x) & (x.outcome == ONGOING)]


def is_forward(game):
    """[num_actions] bool, for the first player."""
    row = np.array(reference.Rules(game.size, game.pieces).row)[game.moves]
    return row[:, 1] >= row[:, 0]


def test_all_positions_of_4x4_with_three_pieces_have_the_known_number_of_moves():
    game = plain(4, 3)
    boards = legal_undecided(4, 3)
    moves = in_chunks(compiled(game).mask, place_all(game, boards)).sum()
    assert moves == 1_592_518
    assert round(moves / len(boards), 4) == 10.6658


def test_all_positions_of_4x4_with_three_pieces_have_the_known_number_of_forward_moves():
    game = plain(4, 3, forward_only=True)
    boards = legal_undecided(4, 3)
    masks = in_chunks(compiled(game).mask, place_all(game, boards))
    # The known mean takes the one position without a forward move to have none; here it has all moves.
    assert round(masks[:, is_forward(game)].sum() / len(boards), 4) == 6.7885
    assert masks[:, ~is_forward(game)].any(axis=1).sum() == 1


def test_as_many_moves_into_illegal_positions_are_dropped_as_known():
    game = plain(4, 3)
    reachable, allowed, legal = in_chunks(compiled(game).stages, place_all(game, legal_undecided(4, 3)))
    assert reachable.sum() - allowed.sum() == 15_228
    np.testing.assert_array_equal(allowed, legal)


@pytest.mark.parametrize("size,pieces,stuck", [(3, 3, 1), (4, 3, 1), (4, 4, 17), (4, 6, 29)])
def test_as_many_positions_without_a_forward_move_exist_as_known(size, pieces, stuck):
    forward, free = plain(size, pieces, forward_only=True), plain(size, pieces)
    boards = legal_undecided(size, pieces)
    masks = in_chunks(compiled(forward).mask, place_all(forward, boards))
    without = ~masks[:, is_forward(forward)].any(axis=1)
    assert without.sum() == stuck
    # There, and only there, all moves may be made.
    every_move = in_chunks(compiled(free).mask, place_all(free, boards[without]))
    np.testing.assert_array_equal(masks[without], every_move)
    assert every_move.any(axis=1).all()


@pytest.mark.parametrize("forward_only,reachable", [(False, (154_693, 154_693)), (True, (154_029, 154_034))])
def test_as_many_positions_can_be_reached_on_4x4_with_three_pieces_as_known(forward_only, reachable):
    game = plain(4, 3, forward_only)
    functions = compiled(game)
    x = jax.device_get(functions.start(1))
    seen = [np.zeros(0, np.uint32), np.zeros(0, np.uint32)]  # boards of 32 bits, by the player to move
    player = 0
    # Every move passes the turn, so the positions after a number of plies all have the same player to move.
    while True:
        key = x.bits[:, 0, 0] | x.bits[:, 1, 0] << np.uint32(16)
        _, first = np.unique(key, return_index=True)
        first = first[~np.isin(key[first], seen[player])]
        seen[player] = np.concatenate([seen[player], key[first]])
        x = rows(x, first)
        if not len(first):
            break
        position, action = np.nonzero(in_chunks(functions.mask, x))
        x = in_chunks(functions.step, rows(x, position), action)
        player = 1 - player
    assert (len(seen[0]), len(seen[1])) == reachable


def test_random_forward_play_on_4x4_with_three_pieces_has_the_known_statistics():
    # Elsewhere, in 4,000 games: 2,095 won by the first player, 33.2 plies on average, no draw.
    game = ChineseCheckers()
    count = 8_192
    functions = compiled(game)

    def ply(carry):
        x, key = carry
        key, subkey = jax.random.split(key)
        return functions.step(x, core.random_action(subkey, functions.mask(x))), key

    x, _ = jax.jit(
        lambda x, key: jax.lax.while_loop(lambda carry: (carry[0].outcome == ONGOING).any(), ply, (x, key))
    )(functions.start(count), jax.random.key(0))
    x = jax.device_get(x)
    first_wins = (x.outcome == FIRST_WON).mean()
    deviation = math.sqrt(0.25 / 4_000 + 0.25 / count)
    assert abs(first_wins - 2_095 / 4_000) < 4 * deviation
    assert abs(x.ply.mean() - 33.2) < 4 * x.ply.std() * math.sqrt(1 / 4_000 + 1 / count) + 0.05
    assert not (x.outcome == DRAWN).any()


def test_cells_lie_in_images_where_the_thesis_puts_them():
    assert ChineseCheckers(4, 3).image_index.tolist() == [
        0,
        4,
        1,
        8,
        5,
        2,
        12,
        9,
        6,
        3,
        13,
        10,
        7,
        14,
        11,
        15,
    ]
    assert ChineseCheckers(5, 6).image_index.tolist() == (
        [0, 5, 1, 10, 6, 2, 15, 11, 7, 3, 20, 16, 12, 8, 4, 21, 17, 13, 9, 22, 18, 14, 23, 19, 24]
    )


@pytest.mark.parametrize(
    "size,pieces,home,other_home",
    [
        (4, 1, {0}, {15}),
        (4, 2, {0, 1}, {14, 15}),
        (4, 3, {0, 1, 2}, {13, 14, 15}),
        (4, 4, {0, 1, 2, 4}, {11, 13, 14, 15}),  # a rhombus
        (4, 6, set(range(6)), set(range(10, 16))),
        (9, 10, set(range(10)), set(range(71, 81))),
    ],
)
def test_pieces_start_in_the_two_homes(size, pieces, home, other_home):
    game = ChineseCheckers(size, pieces)
    board = np.asarray(game.board(game.init(None)))
    assert set(np.flatnonzero(board == 1)) == home == set(game.homes[0])
    assert set(np.flatnonzero(board == 2)) == other_home == set(game.homes[1])


@pytest.mark.parametrize("size,pieces", [(2, 1), (3, 1), (3, 2), (3, 3), (4, 4), (4, 6), (5, 10), (9, 10)])
def test_no_game_is_over_before_it_begins(size, pieces):
    game = ChineseCheckers(size, pieces)
    x = game.init(None)
    jax.tree.map(np.testing.assert_array_equal, x, game.from_notation(game.to_notation(x)))


def test_the_thesis_example_is_the_start_of_4x4():
    game = ChineseCheckers()
    assert game.board(game.init(None)).tolist() == [1, 1, 1] + [0] * 10 + [2, 2, 2]


@pytest.mark.parametrize("size,count", [(4, 114), (5, 256)])
def test_actions_are_the_pairs_that_a_move_can_join_in_order(size, count):
    game = ChineseCheckers(size, 3)
    places = reference.Rules(size, 3).place
    expected = []
    for start, (x, y) in enumerate(places):
        for end, (u, v) in enumerate(places):
            even = (u - x) % 2 == 0 and (v - y) % 2 == 0
            if start != end and ((u - x, v - y) in reference.HEXAGON or even):
                expected.append([start, end])
    assert game.moves.tolist() == expected
    assert game.num_actions == count


@pytest.mark.parametrize("size,pieces,numbers", [(4, 3, 256), (5, 6, 625)])
def test_thesis_actions_translate_there_and_back(size, pieces, numbers):
    game = ChineseCheckers(size, pieces)
    assert len(game.from_thesis_action) == numbers
    np.testing.assert_array_equal(game.from_thesis_action[game.to_thesis_action], np.arange(game.num_actions))
    assert (game.from_thesis_action >= 0).sum() == game.num_actions


def test_a_thesis_action_is_the_image_places_of_both_cells():
    game = ChineseCheckers(4, 3)
    # Cell 1 is at image place 4, cell 3 at place 8: 4 * 16 + 8 = 72.
    assert game.to_thesis_action[game.text_to_action("1-3")] == 72


def test_the_observation_shows_the_first_player_the_board_as_it_is():
    game = ChineseCheckers(4, 3)
    x = play(
        game, ["1-3", "14-12"]
    )  # cell 1 is (x, y) = (0, 1), cell 3 is (0, 2); 14 is (3, 2), 12 is (3, 1)
    own, other = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    for column, line in ((0, 0), (1, 0), (0, 2)):
        own[line, column] = True
    for column, line in ((3, 3), (2, 3), (3, 1)):
        other[line, column] = True
    np.testing.assert_array_equal(game.observe(x), np.stack([own, other], axis=-1))


def test_the_observation_is_turned_for_the_second_player():
    game = ChineseCheckers(4, 3)
    x = play(game, ["1-3"])
    seen = np.asarray(game.observe(x))  # the second player is to move
    board = np.asarray(game.observe(x, jnp.int32(0)))
    np.testing.assert_array_equal(seen[..., 0], board[::-1, ::-1, 1])
    np.testing.assert_array_equal(seen[..., 1], board[::-1, ::-1, 0])


def random_positions(game, count, seed=0):
    """Boards and players to move from random games, all of them undecided."""
    functions = compiled(game)
    x, key = functions.start(CHUNK), jax.random.key(seed)
    boards, players = [], []
    for _ in range(12):
        key, subkey = jax.random.split(key)
        seen = functions.look(x)
        undecided = np.asarray(x.outcome) == ONGOING
        boards.append(np.asarray(seen["board"])[undecided])
        players.append(np.asarray(x.current_player)[undecided])
        x = functions.step(x, core.random_action(subkey, seen["mask"]))
    boards, players = np.concatenate(boards), np.concatenate(players)
    pick = np.random.default_rng(seed).choice(len(boards), count, replace=False)
    return boards[pick], players[pick]


SYMMETRIC = [(4, 3, True), (4, 2, False), (4, 6, False), (5, 6, True)]


@pytest.mark.parametrize("size,pieces,forward_only", SYMMETRIC)
def test_turning_the_board_and_swapping_the_players_changes_nothing(size, pieces, forward_only):
    game = plain(size, pieces, forward_only)
    functions = compiled(game)
    boards, players = random_positions(game, CHUNK)
    turned = np.array([0, 2, 1], np.int8)[boards[:, ::-1]]
    x, y = functions.place(boards, players), functions.place(turned, 1 - players)
    seen, seen_turned = functions.look(x), functions.look(y)
    np.testing.assert_array_equal(seen["observation"], seen_turned["observation"])
    np.testing.assert_array_equal(seen["mask"], np.asarray(seen_turned["mask"])[:, game.action_frames[1]])
    action = core.random_action(jax.random.key(1), seen["mask"])
    x, y = functions.step(x, action), functions.step(y, game.action_frames[1][action])
    np.testing.assert_array_equal(functions.look(x)["observation"], functions.look(y)["observation"])
    np.testing.assert_array_equal(functions.look(x)["rewards"], functions.look(y)["rewards"][:, ::-1])


@pytest.mark.parametrize("size,pieces,forward_only", [s for s in SYMMETRIC if s[1] != 2])
def test_mirroring_the_board_changes_nothing(size, pieces, forward_only):
    game = plain(size, pieces, forward_only)
    functions = compiled(game)
    places = reference.Rules(size, pieces).place
    mirror = [places.index((y, x)) for x, y in places]
    boards, players = random_positions(game, CHUNK)
    x, y = functions.place(boards, players), functions.place(boards[:, mirror], players)
    observation, action = game.symmetries.observation[1], game.symmetries.action[1]
    seen, mirrored = functions.look(x), functions.look(y)
    flat = np.asarray(seen["observation"]).reshape(CHUNK, -1)
    np.testing.assert_array_equal(
        flat[:, observation], np.asarray(mirrored["observation"]).reshape(CHUNK, -1)
    )
    np.testing.assert_array_equal(np.asarray(seen["mask"])[:, action], mirrored["mask"])


def test_two_pieces_have_no_mirror_symmetry():
    assert [len(ChineseCheckers(5, k).symmetries.action) for k in (1, 2, 3, 4, 6, 10)] == [2, 1, 2, 2, 2, 2]


def test_a_player_may_not_fill_the_own_home_around_an_opponent():
    game = plain(4, 3)
    # b sits on the top tip, a on 1 and 4; a piece of a on 2 would complete b's goal.
    x = game.from_notation("b/a1/1a1/4/a2/b1/b a")
    with pytest.raises(core.MoveError, match="fill a's home around a piece of b's"):
        game.text_to_action("4-2", x)
    assert "1-2" in legal_texts(game, x)  # this leaves 1 empty


def test_a_player_may_fill_the_own_home_alone():
    game = plain(4, 3)
    x = game.from_notation("a/a1/1a1/4/b2/b1/b a")
    x = play(game, ["4-2"], x)
    assert int(x.outcome) == ONGOING


@pytest.mark.parametrize(
    "text,move",
    [
        ("a/1a/a1a/aa2/5/4/bbb/bb/b a", "0-1"),  # the tip itself moves to the last place on the edges
        ("1/1a/aaa/aa2/5/4/bbb/bb/b a", "4-1"),  # from within the home
        ("1/1a/aaa/a2a/5/4/bbb/bb/b a", "6-1"),  # hopping in
        ("a/aa/aaa/4/5/2bb/bbb/b1/1 b", "20-23"),  # the same at the other end: tip 24, edges 19, 21, 22, 23
    ],
)
def test_six_pieces_must_not_close_the_empty_tip_of_their_home(text, move):
    game = plain(5, 6)
    with pytest.raises(core.MoveError, match="close the empty tip"):
        game.text_to_action(move, game.from_notation(text))


def test_a_chain_may_pass_through_the_cell_that_it_must_not_stop_on():
    game = plain(5, 6)
    x = game.from_notation("1/1a/aaa/a2a/5/4/bbb/bb/b a")
    legal = legal_texts(game, x)
    # 6-1 would close the tip; from 1 the hop over 4 leads on to 8, and nothing else leads from 6 to 8.
    assert "6-1" not in legal
    assert "6-8" in legal


def test_a_piece_of_the_edges_may_take_the_last_place_as_it_leaves_another():
    game = plain(5, 6)
    x = game.from_notation("1/1a/aaa/aa2/5/4/bbb/bb/b a")
    assert {"2-1", "3-1"} <= legal_texts(game, x)


def test_six_pieces_may_take_the_edges_around_their_own_piece_on_the_tip():
    game = plain(5, 6)
    assert "4-1" in legal_texts(game, game.from_notation("a/1a/aaa/a3/5/4/bbb/bb/b a"))


def test_five_or_fewer_pieces_may_stand_around_an_empty_tip():
    game = plain(4, 4)
    x = game.from_notation("1/aa/a1a/4/1b1/bb/b a")
    assert int(x.outcome) == ONGOING


def test_only_the_player_who_has_just_moved_wins():
    game = plain(4, 3)
    # a on 13, 14 and b on 15: a's goal is full, and two of the pieces are a's.
    x = game.from_notation("1/2/a2/4/b1b/aa/b b")
    assert int(x.outcome) == FIRST_WON
    assert game.rewards(x).tolist() == [1, -1]
    assert not legal_texts(game, x)
    with pytest.raises(core.PositionError, match="a is to move but has already won"):
        game.from_notation(game.to_notation(x)[:-1] + "a")


def test_a_goal_full_of_its_owners_pieces_is_no_win():
    game = plain(4, 3)
    assert int(game.from_notation("1/2/a1a/a3/3/bb/b b").outcome) == ONGOING


# Ten pieces on 5x5 leave five empty cells. Here b holds both rows in front of a: no step and no hop is left.
STUCK = "a/aa/aaa/aaaa/bbbbb/bbbb/1b1/2/1 a"


def test_a_player_who_cannot_move_has_lost():
    game = plain(5, 10)
    x = game.from_notation(STUCK)
    assert int(x.outcome) == SECOND_WON
    assert game.rewards(x).tolist() == [-1, 1]
    assert not legal_texts(game, x)


def test_the_game_ends_with_the_move_that_leaves_the_opponent_without_one():
    game = plain(5, 10)
    before = game.from_notation("a/aa/aaa/aaaa/bbbbb/bbbb/b2/2/1 b")
    assert int(before.outcome) == ONGOING
    assert int(play(game, ["19-20"], before).outcome) == SECOND_WON


# Here a's only moves are six steps into the hole in the own home, from within it; none from outside would do.
ALMOST_STUCK = "b/aa/a1a/aaaa/abbba/bbbb/b1b/2/1 a"


def test_a_player_who_can_only_move_within_the_home_has_not_lost():
    game = plain(5, 10)
    x = game.from_notation(ALMOST_STUCK)
    assert legal_texts(game, x) == {"1-4", "2-4", "3-4", "5-4", "7-4", "8-4"}
    assert int(x.outcome) == ONGOING


@pytest.mark.parametrize("base", [STUCK, ALMOST_STUCK])
def test_whether_there_is_a_move_agrees_with_the_reference_on_crowded_boards(base):
    game, rules = plain(5, 10), reference.Rules(5, 10)
    rng = np.random.default_rng(5)
    boards = np.tile(np.asarray(game.board(game.from_notation(base))), (1500, 1))
    for board in boards:
        for _ in range(rng.integers(1, 4)):
            i, j = rng.choice(25, 2, replace=False)
            board[[i, j]] = board[[j, i]]
    players = rng.integers(0, 2, len(boards)).astype(np.int32)
    x = in_chunks(compiled(game).place, boards, players)
    stuck_boards = 0
    for board, player, outcome in zip(boards, players, x.outcome):
        mover, other = ("a", "b") if player == 0 else ("b", "a")
        stuck = not rules.legal_moves(letters(board), mover)
        stuck_boards += stuck
        over = stuck or rules.has_won(letters(board), other)
        assert over == (outcome != ONGOING), letters(board)
    assert 0 < stuck_boards < len(boards)


SHUFFLE = ["0-3", "15-12", "3-0", "12-15"]  # back to the start


@pytest.mark.parametrize("repetitions,plies", [(0, 4), (1, 8), (2, 12), (6, 28)])
def test_shuffling_is_drawn_when_the_board_comes_back_once_too_often(repetitions, plies):
    # The start returns after every fourth ply; the others return later. So the one that returns for the
    # (repetitions + 1)-th time is at ply 4 * (repetitions + 1).
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=repetitions)
    moves = list(itertools.islice(itertools.cycle(SHUFFLE), plies))
    before = play(game, moves[:-1])
    assert int(before.outcome) == ONGOING
    after = play(game, moves[-1:], before)
    assert int(after.outcome) == DRAWN
    assert game.rewards(after).tolist() == [0, 0]


def test_without_the_repetition_rule_shuffling_goes_on_to_the_last_ply():
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=None)
    moves = list(itertools.islice(itertools.cycle(SHUFFLE), 100))
    before = play(game, moves[:-1])
    assert int(before.outcome) == ONGOING
    assert int(play(game, moves[-1:], before).outcome) == DRAWN
    assert before.history is None


def test_a_board_repeats_even_if_the_other_player_is_to_move():
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=0)
    # a goes round a triangle in three moves, b there and back in two.
    x = play(game, ["2-4", "15-12", "4-5", "12-15"])
    assert int(x.outcome) == ONGOING
    x = play(game, ["5-2"], x)
    assert game.to_notation(x) == "a/aa/3/4/3/bb/b b"
    assert int(x.outcome) == DRAWN


def test_a_board_of_the_second_player_repeats_too_with_the_other_player_to_move():
    # The same the other way round, after a move of a's: b goes round the triangle, a there and back.
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=0)
    x = play(game, ["1-4", "13-11", "0-3", "11-10", "3-0"])
    assert int(x.outcome) == ONGOING
    x = play(game, ["10-13"], x)
    assert int(x.outcome) == DRAWN


def test_the_last_ply_can_still_win():
    # One of the four shortest games: a hops into the hole that b has left in a full goal.
    moves = ["0-3", "13-10", "1-13"]
    assert int(play(ChineseCheckers(4, 3, max_plies=3), moves).outcome) == FIRST_WON
    assert int(play(ChineseCheckers(4, 3, max_plies=2), moves[:2]).outcome) == DRAWN


def test_a_terminal_position_stays_as_it_is():
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=0)
    x = play(game, SHUFFLE)
    y = compiled(game).step_one(x, game.text_to_action("0-3"))
    jax.tree.map(np.testing.assert_array_equal, x, y)


def test_forward_play_allows_sideways_and_forbids_backward_moves():
    game = ChineseCheckers(4, 3)
    x = play(game, ["1-4", "14-12"])
    legal = legal_texts(game, x)
    assert {"4-3", "4-5", "4-7"} <= legal
    with pytest.raises(core.MoveError, match="must not move backward"):
        game.text_to_action("4-1", x)


@pytest.mark.parametrize(
    "text,reason",
    [
        ("hello", "is not a move"),
        ("3", "is not a move"),
        ("0-16", "leaves the board"),
        ("3-6", "a is to move and has no piece on 3"),
        ("14-12", "a is to move and has no piece on 14"),
        ("0-1", "1 is not empty"),
        ("0-0", "0 is not empty"),
        ("1-6", "neither a step nor hops lead from 1 to 6 here"),
        ("1-7", "neither a step nor hops lead from 1 to 7 here"),
    ],
)
def test_an_impossible_move_is_refused_with_its_reason(text, reason):
    game = ChineseCheckers()
    with pytest.raises(core.MoveError, match=reason):
        game.text_to_action(text, game.init(None))


def test_a_move_that_no_board_allows_is_refused_without_a_position():
    with pytest.raises(core.MoveError, match="neither a step nor hops ever lead from 1 to 7"):
        ChineseCheckers().text_to_action("1-7")


def test_a_move_after_the_end_is_refused():
    game = ChineseCheckers(4, 3, forward_only=False, repetitions=0)
    with pytest.raises(core.MoveError, match="the game is over"):
        game.text_to_action("0-3", play(game, SHUFFLE))


@pytest.mark.parametrize(
    "text,reason",
    [
        ("a/aa/3/4/3/bb/b", "is not a position"),
        ("a/aa/3/4/3/bb/b c", "is not a position"),
        ("a/aa/3/4/3/bbb a", "has 6 rows; a board of size 4 has 7"),
        ("a/aa/4/4/3/bb/b a", "row 3, '4', has 4 cells, not 3"),
        ("a/ax/3/4/3/bb/b a", "row 2, 'ax', may hold"),
        ("a/aa/3/4/3//b a", "row 6, '', may hold"),
        ("a/aa/a2/4/3/bb/b a", "has 4 pieces a; each player has 3"),
        ("a/aa/3/4/3/b1/b b", "has 2 pieces b"),
        ("1/2/a2/4/b1b/aa/b a", "a is to move but has already won"),
    ],
)
def test_an_impossible_position_is_refused_with_its_reason(text, reason):
    with pytest.raises(core.PositionError, match=reason):
        ChineseCheckers().from_notation(text)


@pytest.mark.parametrize("player", "ab")
@pytest.mark.parametrize("rows", ["1/aa/a1a/a1a1/5/4/bbb/bb/b", "a/aa/aaa/4/5/b1b1/b1b/bb/1"])
def test_a_position_with_a_closed_tip_is_refused_whoever_is_to_move(rows, player):
    with pytest.raises(core.PositionError, match="close the empty tip"):
        ChineseCheckers(5, 6).from_notation(f"{rows} {player}")


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(order=st.permutations([1] * 6 + [2] * 6 + [0] * 13), player=st.sampled_from([0, 1]))
def test_positions_survive_their_notation(order, player):
    game = ChineseCheckers(5, 6)
    x = compiled(game).place(np.array([order], np.int8), np.array([player], np.int32))
    hypothesis.assume(not compiled(game).look(x)["illegal"][0])
    x = rows(x, 0)
    jax.tree.map(np.testing.assert_array_equal, x, game.from_notation(game.to_notation(x)))


def test_moves_survive_their_notation():
    game = ChineseCheckers(5, 6)
    assert [game.text_to_action(game.action_to_text(a)) for a in range(256)] == list(range(256))


def test_the_start_reads_and_prints_as_documented():
    game = ChineseCheckers()
    x = game.from_notation("a/aa/3/4/3/bb/b a")
    jax.tree.map(np.testing.assert_array_equal, x, game.init(None))
    assert game.to_text(x).splitlines() == [
        "   a            0",
        "  a a         1   2",
        " . . .      3   4   5",
        ". . . .   6   7   8   9",
        " . . .     10  11  12",
        "  b b        13  14",
        "   b           15",
        "a to move",
    ]


@pytest.mark.parametrize(
    "options,reason",
    [
        (dict(size=1), "size must be between 2 and 9, got 1"),
        (dict(size=10), "size must be between 2 and 9, got 10"),
        (dict(size=4, pieces=5), "pieces must be one of 1, 2, 3, 4, 6 on a 4x4 board"),
        (dict(size=3, pieces=4), "pieces must be one of 1, 2, 3 on a 3x3 board"),  # the rhombi meet
        (dict(size=2, pieces=2), "pieces must be one of 1 on a 2x2 board"),  # no empty cell
        (dict(repetitions=-1), "repetitions must be None"),
        (dict(max_plies=0), "max_plies must be at least 1"),
    ],
)
def test_a_game_that_cannot_be_is_refused(options, reason):
    with pytest.raises(core.GameError, match=reason):
        ChineseCheckers(**options)


@pytest.mark.parametrize(
    "game,size",
    [
        (ChineseCheckers(4, 3, repetitions=None), 17),  # two words of 4 bytes, player 4, ply 4, outcome 1
        (ChineseCheckers(4, 3), 217),  # and 100 rows of 2 bytes
        (ChineseCheckers(5, 6, repetitions=None), 17),
        (ChineseCheckers(5, 6), 417),  # 100 rows of 4 bytes
        (ChineseCheckers(9, 10, repetitions=None), 33),  # six words
    ],
)
def test_a_state_is_small(game, size):
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(game.init(None))) == size


def test_nothing_is_traced_twice_in_the_course_of_a_game():
    game = ChineseCheckers(4, 3)

    @jax.jit
    @chex.assert_max_traces(n=1)
    def turn(x, action):
        x = game.step(x, action)
        return x, game.legal_action_mask(x)

    x, mask = turn(game.init(None), np.int32(game.text_to_action("0-3")))
    while mask.any():
        x, mask = turn(x, np.int32(np.flatnonzero(mask)[0]))
    turn(game.from_notation("a/aa/3/4/3/bb/b b"), np.int32(0))


def test_tables_cannot_be_changed_by_accident():
    game = ChineseCheckers()
    for table in (game.moves, game.image_index, game.to_thesis_action, game.from_thesis_action):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 1


def test_the_game_passes_the_pgx_test():
    pgx.api_test(Env(ChineseCheckers(4, 3)), 3)


def circles(picture):
    root = xml.etree.ElementTree.fromstring(picture)
    return [element.attrib for element in root.iter() if element.tag.endswith("circle")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_drawing_shows_every_piece_and_hole_once(theme):
    game = ChineseCheckers(5, 6)
    colours = chinese_checkers.drawing.THEMES[theme]
    found = circles(game.draw(game.init(None), theme=theme))
    on_board = [circle for circle in found if circle["r"] in ("26", "20")]
    assert len({(circle["cx"], circle["cy"]) for circle in on_board}) == 25
    assert sum(circle["fill"] == colours.first for circle in on_board) == 6
    assert sum(circle["fill"] == colours.second for circle in on_board) == 6


def test_a_drawing_warms_the_ends_of_the_hot_legal_moves_alone():
    game = ChineseCheckers(4, 3)
    heat = np.zeros(game.num_actions)
    heat[game.text_to_action("1-3")], heat[game.text_to_action("1-6")] = 0.5, 1.0  # the second is not legal
    warm = circles(game.draw(game.init(None), heat=heat))
    assert sum(circle["fill"] == chinese_checkers.drawing.THEMES["light"].heat for circle in warm) == 1


def test_a_drawing_writes_marks_and_escapes_them():
    game = ChineseCheckers(4, 3)
    actions = {game.text_to_action("1-3"): "<", game.text_to_action("0-3"): "!"}
    assert ">&lt; !<" in game.draw(game.init(None), marks=actions)


def test_a_drawing_says_who_has_won():
    game = plain(4, 3)
    assert "a has won" in game.draw(game.from_notation("1/2/a2/4/b1b/aa/b b"))
