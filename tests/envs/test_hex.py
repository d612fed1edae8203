"""Hex against a slow reference engine, OpenSpiel, pgx, exact counts and recorded games."""

import fractions
import functools
import itertools
import math
import random
import types
import xml.etree.ElementTree as ElementTree

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pyspiel
import pytest

from azjax.envs import core, hex
from azjax.envs.hex import Hex, HexState
from azjax.envs.pgx_bridge import Env
from tests.reference.hex import BLACK, SWAP, WHITE, HexGame

SIDES = {BLACK: ("top", "bottom"), WHITE: ("left", "right")}


@functools.cache
def replayer(game):
    """Compiled: plays [games, plies] actions and returns what the game says before each and at the end."""

    def tell(x):
        return {
            "board": x.board,
            "current_player": x.current_player,
            "over": game.is_terminal(x),
            "mask": game.legal_action_mask(x),
            "rewards": game.rewards(x),
            "seen_by_black": game.observe(x, jnp.int32(0)),
            "seen_by_white": game.observe(x, jnp.int32(1)),
            "seen_by_mover": game.observe(x),
        }

    def replay(actions):
        def ply(x, action):
            return game.step(x, action), tell(x)

        x, told = jax.lax.scan(ply, game.init(jax.random.key(0)), actions)
        last = jax.tree.map(lambda value: value[None], tell(x))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), told, last)

    return jax.jit(jax.vmap(replay))


def replay(game, games):
    """What the game says of every ply of every list of actions; short ones go on with action 0, in vain."""
    actions = np.zeros((len(games), game.max_plies), np.int32)
    for row, moves in zip(actions, games):
        row[: len(moves)] = moves
    return types.SimpleNamespace(**jax.tree.map(np.asarray, replayer(game)(actions)))


@functools.cache
def step_of(game):
    return jax.jit(game.step)


def after(game, moves):
    """The position after moves given as text, each checked for legality."""
    x = game.init(jax.random.key(0))
    for text in moves.split():
        x = step_of(game)(x, jnp.int32(game.text_to_action(text, x)))
    return x


def batched(x, count):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), x)


def same_state(a, b):
    return all(bool(jnp.array_equal(one, other)) for one, other in zip(a, b))


def number_of(move, size):
    return size * size if move == SWAP else move[0] * size + move[1]


def reference_view(reference, connected, player):
    """[size, size, 6]: the observation, from the stones found connected to each side by flood fill."""
    planes = np.zeros((reference.size, reference.size, 6), bool)
    for cell, colour in reference.stones.items():
        planes[cell][0 if colour == player else 1] = True
    for plane, side in enumerate(SIDES[player] + SIDES[1 - player], start=2):
        for cell in connected[side]:
            planes[cell][plane] = True
    return planes if player == BLACK else planes.transpose(1, 0, 2)


def random_reference_game(size, swap, rng):
    """Every position of a random game, with its legal moves; under the swap rule every second game swaps."""
    game = HexGame(size, swap)
    record = []
    swaps = rng.random() < 0.5
    while moves := game.legal_moves():
        record.append((game.copy(), moves))
        game.play(SWAP if swaps and SWAP in moves else rng.choice(moves))
    return [*record, (game, [])]


def numbers(record, size):
    """The moves of a whole record as actions."""
    return [number_of(move, size) for move in record[-1][0].moves]


def assert_agrees_with_reference(game, told, row, record):
    for ply, (reference, moves) in enumerate(record):
        where = f"game {row}, ply {ply}: {reference.moves}"
        winner = reference.winner()
        rewards = [[1, -1], [-1, 1], [0, 0]][2 if winner is None else winner]
        assert np.flatnonzero(told.mask[row, ply]).tolist() == [number_of(m, game.size) for m in moves], where
        assert told.over[row, ply] == (winner is not None), where
        assert told.rewards[row, ply].tolist() == rewards, where
        assert told.current_player[row, ply] == reference.to_move, where
        connected = {side: reference.connected_to(side) for side in ("top", "bottom", "left", "right")}
        views = [reference_view(reference, connected, player) for player in (BLACK, WHITE)]
        assert (told.seen_by_black[row, ply] == views[BLACK]).all(), where
        assert (told.seen_by_white[row, ply] == views[WHITE]).all(), where
        assert (told.seen_by_mover[row, ply] == views[reference.to_move]).all(), where
    # A finished game ignores what comes after.
    for value in vars(told).values():
        assert (value[row, len(record) - 1 :] == value[row, -1]).all()


def assert_random_games_agree_with_reference(game, count):
    rng = random.Random(game.size)
    records = [random_reference_game(game.size, game.swap, rng) for _ in range(count)]
    told = replay(game, [numbers(record, game.size) for record in records])
    for row, record in enumerate(records):
        assert_agrees_with_reference(game, told, row, record)


@pytest.mark.parametrize(
    ("size", "count"),
    [(1, 2), (2, 100), (3, 500), (4, 400), (5, 200), (6, 100), (7, 60), (11, 8), (12, 4), (19, 1)],
)
def test_every_ply_of_random_games_agrees_with_the_reference(size, count):
    assert_random_games_agree_with_reference(Hex(size, planes=6), count)


@pytest.mark.parametrize(("size", "count"), [(1, 2), (2, 200), (3, 300), (5, 60)])
def test_every_ply_of_random_games_with_swaps_agrees_with_the_reference(size, count):
    assert_random_games_agree_with_reference(Hex(size, swap=True, planes=6), count)


def openspiel_games(parameters, swap_action, count, seed):
    """Random games: the actions; before each and at the end the player, the legal actions, the returns."""
    spiel = pyspiel.load_game(f"hex({parameters})")
    rng = random.Random(seed)
    games = []
    for _ in range(count):
        state, moves, told = spiel.new_initial_state(), [], []
        swaps = rng.random() < 0.5
        while True:
            told.append((state.current_player(), state.legal_actions(), state.returns()))
            if state.is_terminal():
                break
            legal = state.legal_actions()
            moves.append(swap_action if swaps and swap_action in legal else rng.choice(legal))
            state.apply_action(moves[-1])
        games.append((moves, told))
    return games


def assert_agrees_with_openspiel(game, games):
    told = replay(game, [moves for moves, _ in games])
    for row, (moves, theirs) in enumerate(games):
        for ply, (player, legal, returns) in enumerate(theirs):
            where = f"game {row}, ply {ply}: {moves}"
            over = player == pyspiel.PlayerId.TERMINAL
            assert told.over[row, ply] == over, where
            assert np.flatnonzero(told.mask[row, ply]).tolist() == legal, where
            assert told.rewards[row, ply].tolist() == returns, where
            assert over or told.current_player[row, ply] == player, where


@pytest.mark.parametrize(("size", "count"), [(3, 300), (5, 200), (6, 100), (8, 60), (11, 30)])
def test_every_ply_agrees_with_openspiel(size, count):
    games = openspiel_games(f"board_size={size}", None, count, seed=size)
    assert_agrees_with_openspiel(Hex(size), games)


@pytest.mark.parametrize(("size", "count"), [(3, 300), (5, 100)])
def test_every_ply_agrees_with_openspiel_under_its_swap_rule(size, count):
    # OpenSpiel has the same rule and the same number for it: the stone is transposed, action size^2.
    games = openspiel_games(f"board_size={size},swap=True", size * size, count, seed=size)
    assert any(moves[1] == size * size for moves, _ in games)
    assert_agrees_with_openspiel(Hex(size, swap=True), games)


def pgx_replay(games, actions):
    """What pgx says before each of [games, plies] actions and at the end."""
    env = pgx.make("hex")

    def tell(state):
        colour = state._x.color  # pgx draws by lot which player is Black
        black = jnp.where(colour == 0, state.current_player, 1 - state.current_player)
        return state.terminated, colour, state.legal_action_mask, state.rewards[black], state.observation

    def ply(state, action):
        state = jax.vmap(env.step)(state, action)
        return state, jax.vmap(tell)(state)

    @jax.jit
    def play(keys, actions):
        state = jax.vmap(env.init)(keys)
        _, told = jax.lax.scan(ply, state, actions.T)
        return jax.tree.map(lambda first, rest: jnp.vstack([first[None], rest]), jax.vmap(tell)(state), told)

    told = play(jax.random.split(jax.random.key(0), games), actions)
    return [np.asarray(leaf).swapaxes(0, 1) for leaf in told]


def test_every_ply_on_11x11_agrees_with_pgx():
    # pgx numbers cells and the swap as we do, and never transposes what is seen. Half of the games swap:
    # the black stone is then on the transposed cell, and the game goes on where that leaves room.
    games = 60
    rng = np.random.default_rng(7)
    actions = np.zeros((games, 122), np.int32)
    for number, row in enumerate(actions):
        cells = rng.permutation(121)
        if number % 2:
            moved = cells[0] % 11 * 11 + cells[0] // 11
            row[:] = [cells[0], 121, *(cell for cell in rng.permutation(121) if cell != moved)]
        else:
            row[:121] = cells
    ours = replay(Hex(11, swap=True), actions.tolist())
    over, colour, mask, black_reward, seen = pgx_replay(games, actions)
    seen = np.where((colour == 0)[:, :, None, None, None], seen, seen.transpose(0, 1, 3, 2, 4))[..., :2]
    lengths = over.argmax(axis=1)  # plies until the end
    assert over.any(axis=1).all() and ours.over.any(axis=1).all()
    for row, length in enumerate(lengths):
        played, all_plies = slice(0, length), slice(0, length + 1)
        assert (ours.over[row, all_plies] == over[row, all_plies]).all()
        assert (ours.current_player[row, all_plies] == colour[row, all_plies]).all()
        assert (ours.mask[row, played] == mask[row, played]).all()
        assert (ours.seen_by_mover[row, played] == seen[row, played]).all()
        assert ours.rewards[row, length, 0] == black_reward[row, length] != 0


def test_the_swap_rule_changes_nothing_where_nobody_swaps():
    rng = np.random.default_rng(0)
    games = [rng.permutation(25).tolist() for _ in range(50)]
    plain, ruled = replay(Hex(5), games), replay(Hex(5, swap=True), games)
    for name in ("board", "current_player", "over", "rewards", "seen_by_mover"):
        assert (getattr(plain, name) == getattr(ruled, name)[:, :26]).all()
    assert (plain.mask == ruled.mask[:, :26, :25]).all()


class Level(types.SimpleNamespace):
    """All different positions with as many stones: states, how many games lead to each, and their chances."""


@functools.cache
def levels(size):
    """Every reachable position, ply by ply, with the numbers of the positions that each move leads to."""
    game = Hex(size)
    width = {1: 1, 2: 12, 3: 1520}[size]
    every_step = jax.jit(jax.vmap(jax.vmap(game.step, in_axes=(None, 0)), in_axes=(0, None)))
    found = [
        Level(
            boards=np.zeros((1, game.num_actions), np.int8),
            players=np.zeros(1, np.int32),
            over=np.zeros(1, bool),
            histories=[1],
            chances=[fractions.Fraction(1)],
        )
    ]
    while not found[-1].over.all():
        level = found[-1]
        count = len(level.boards)
        padding = ((0, width - count),)
        x = HexState(
            np.pad(level.boards, (*padding, (0, 0))),
            np.pad(level.players, padding),
            np.pad(level.over, padding),
        )
        children = jax.tree.map(np.asarray, every_step(x, np.arange(game.num_actions)))
        known, level.child = {}, np.full((count, game.num_actions), -1)
        boards, players, over, histories, chances = [], [], [], [], []
        for i in np.flatnonzero(~level.over):
            legal = np.flatnonzero(level.boards[i] == 0)
            for action in legal:
                key = np.sign(children.board[i, action]).tobytes()
                number = known.setdefault(key, len(known))
                if number == len(boards):
                    boards.append(children.board[i, action])
                    players.append(children.current_player[i, action])
                    over.append(children.over[i, action])
                    histories.append(0)
                    chances.append(fractions.Fraction(0))
                assert (boards[number] == children.board[i, action]).all(), (
                    "labels depend on the order of moves"
                )
                assert over[number] == children.over[i, action]
                level.child[i, action] = number
                histories[number] += level.histories[i]
                chances[number] += level.chances[i] / len(legal)
        found.append(
            Level(
                boards=np.stack(boards),
                players=np.array(players),
                over=np.array(over),
                histories=histories,
                chances=chances,
            )
        )
    return found


# Perft of Kromann and Bennetsen's rules, by independent brute force: nodes, and finished games among them.
PERFT = {
    2: ([1, 4, 12, 24, 12], [0, 0, 0, 12, 12]),
    3: (
        [1, 9, 72, 504, 3024, 15120, 54720, 146880, 207360, 120960],
        [0, 0, 0, 0, 0, 1440, 5760, 43200, 86400, 120960],
    ),
}


@pytest.mark.parametrize("size", PERFT)
def test_perft(size):
    nodes, finished = PERFT[size]
    assert [sum(level.histories) for level in levels(size)] == nodes
    assert [
        sum(count for count, over in zip(level.histories, level.over) if over) for level in levels(size)
    ] == finished


@pytest.mark.parametrize(("size", "positions", "finished"), [(1, 2, 1), (2, 32, 9), (3, 5514, 994)])
def test_number_of_reachable_positions(size, positions, finished):
    assert sum(len(level.boards) for level in levels(size)) == positions
    assert sum(int(level.over.sum()) for level in levels(size)) == finished


def test_reachable_3x3_positions_by_number_of_stones():
    assert [len(level.boards) for level in levels(3)] == [1, 9, 72, 252, 756, 1260, 1520, 1140, 420, 84]
    assert [int(level.over.sum()) for level in levels(3)] == [0, 0, 0, 0, 0, 120, 160, 420, 210, 84]


def winning_openings(size):
    """Black's first moves that win, by minimax over every position."""
    below = None
    for level in reversed(levels(size)[1:]):
        values = np.full(len(level.boards), -1)  # at the end the player to move has lost
        for i in np.flatnonzero(~level.over):
            values[i] = max(-below[child] for child in level.child[i] if child >= 0)
        below = values
    return [action for action, child in enumerate(levels(size)[0].child[0]) if below[child] == -1]


@pytest.mark.parametrize(("size", "moves"), [(2, "b1 a2"), (3, "c1 a2 b2 c2 a3")])
def test_winning_openings(size, moves):
    assert " ".join(map(Hex(size).action_to_text, winning_openings(size))) == moves


@pytest.mark.parametrize(
    ("size", "chance"),
    [(1, fractions.Fraction(1)), (2, fractions.Fraction(1, 2)), (3, fractions.Fraction(2, 3))],
)
def test_chance_of_black_under_random_play_by_all_histories(size, chance):
    black_wins = sum(
        sum(
            c for c, over, player in zip(level.chances, level.over, level.players) if over and player == WHITE
        )
        for level in levels(size)
    )
    assert black_wins == chance


def winners_of_fillings(size, black_stones):
    """How many boards filled with that many black stones Black wins, and how many there are."""
    words = np.arange(1 << size * size, dtype=np.uint32)
    words = words[np.bitwise_count(words) == black_stones]
    wins = 0
    for chunk in np.array_split(words, math.ceil(len(words) / 2**20)):
        chunk = np.pad(chunk, (0, min(2**20, len(words)) - len(chunk)))  # empty boards are no wins
        wins += int(joins(size)(unpacked_rows(chunk, size)).sum())
    return wins, len(words)


@functools.cache
def joins(size):
    return jax.jit(functools.partial(hex.joins_top_and_bottom, size=size))


def unpacked_rows(words, size):
    """[words, boards] as `pack` has them, of boards of one word each with bit row * size + column."""
    rows = 32 // size
    return np.stack(
        [
            (words >> np.uint32(start * size)) & np.uint32((1 << min(rows, size - start) * size) - 1)
            for start in range(0, size, rows)
        ]
    )


@pytest.mark.parametrize(
    ("size", "wins", "boards"), [(1, 1, 1), (2, 3, 6), (3, 84, 126), (4, 6435, 12870), (5, 2981241, 5200300)]
)
def test_share_of_full_boards_that_black_wins(size, wins, boards):
    # Of all ways to fill the board, Black with the larger half: exactly Black's chance in random play.
    assert winners_of_fillings(size, (size * size + 1) // 2) == (wins, boards)


def filled(size, black):
    """A reference game on a full board, Black on the cells where `black` [cells] is True."""
    game = HexGame(size)
    game.stones = {cell: BLACK if black[number_of(cell, size)] else WHITE for cell in game.cells()}
    return game


def black_joins(size, black):
    """[boards] bool for [boards, cells] bool."""
    return np.asarray(joins(size)(hex.pack(jnp.asarray(black), size)))


@pytest.mark.parametrize(
    ("size", "count"),
    [(1, 2), (2, 16), (3, 512), (4, 2000), (6, 600), (8, 300), (11, 100), (16, 40), (19, 30)],
)
def test_the_majority_reduction_finds_the_winner_of_full_boards(size, count):
    if count == 2 ** (size * size):
        boards = np.array(list(itertools.product([False, True], repeat=size * size)))
    else:
        boards = np.random.default_rng(size).random((count, size * size)) < 0.5
    expected = [filled(size, board).winner() == BLACK for board in boards]
    assert black_joins(size, boards).tolist() == expected
    assert 0 < sum(expected) < count


@pytest.mark.parametrize("size", [3, 5, 11, 19])
def test_a_full_board_has_exactly_one_winner(size):
    boards = np.random.default_rng(size).random((2000, size, size)) < 0.5
    black = black_joins(size, boards.reshape(2000, -1))
    white = black_joins(size, ~boards.transpose(0, 2, 1).reshape(2000, -1))
    assert (black != white).all()


def test_a_quarter_turn_is_no_symmetry_of_hex():
    # With colours exchanged, transposing keeps the winner of all 512 full 3x3 boards; turning loses 92.
    boards = np.array(list(itertools.product([False, True], repeat=9))).reshape(-1, 3, 3)
    winner = black_joins(3, boards.reshape(-1, 9))
    transposed = black_joins(3, ~boards.transpose(0, 2, 1).reshape(-1, 9))
    turned = black_joins(3, ~np.rot90(boards, axes=(1, 2)).reshape(-1, 9))
    assert (winner == transposed).sum() == 0
    assert (winner == turned).sum() == 92


@functools.cache
def random_lengths(size, games):
    """Plies of random games played step by step, and who won them."""
    game = Hex(size)

    def ply(carry, key):
        x, length = carry
        length = length + ~x.over
        action = core.random_action(key, jax.vmap(game.legal_action_mask)(x))
        return (jax.vmap(game.step)(x, action), length), None

    @jax.jit
    def play(key):
        start = batched(game.init(key), games), jnp.zeros(games, jnp.int32)
        (x, length), _ = jax.lax.scan(ply, start, jax.random.split(key, game.max_plies))
        return length, jax.vmap(game.rewards)(x)[:, 0]

    return jax.tree.map(np.asarray, play(jax.random.key(size)))


@pytest.mark.parametrize(("size", "mean", "error"), [(6, 30.79, 0.03), (8, 55.68, 0.05)])
def test_mean_length_of_random_games(size, mean, error):
    # Daliri 2022 gives 31 and 56; the decimals are of an independent simulation of 20,000 games.
    lengths, _ = random_lengths(size, 20_000)
    own_error = lengths.std() / math.sqrt(len(lengths))
    assert abs(lengths.mean() - mean) < 3 * math.hypot(error, own_error)


def chance_by_fillings(reference):
    """Black's exact chance under random play, from every way to fill the empty cells."""
    empty = [cell for cell in reference.cells() if cell not in reference.stones]
    black_gets = (len(empty) + (reference.to_move == BLACK)) // 2
    wins = total = 0
    for chosen in itertools.combinations(empty, black_gets):
        full = reference.copy()
        full.stones.update({cell: WHITE for cell in empty} | {cell: BLACK for cell in chosen})
        wins += full.winner() == BLACK
        total += 1
    return wins / total


@functools.cache
def playout_of(game):
    return jax.jit(game.random_playout)


def playout_share(game, x, count, seed=0):
    """Black's share of wins in so many playouts of one position."""
    rewards = np.asarray(playout_of(game)(batched(x, count), jax.random.key(seed)))
    assert rewards.shape == (count, 2) and rewards.dtype == np.float32
    assert (np.abs(rewards[:, 0]) == 1).all() and (rewards.sum(axis=1) == 0).all()
    return (rewards[:, 0] == 1).mean()


def within(share, chance, count, errors=4.0):
    return abs(share - chance) <= errors * math.sqrt(chance * (1 - chance) / count)


@pytest.mark.parametrize("plies", range(9))
def test_playouts_win_as_often_as_all_fillings_of_the_position(plies):
    rng = random.Random(plies)
    game, count = Hex(4), 20_000
    for _ in range(2):
        reference, _ = random_reference_game(4, False, rng)[plies]
        x = game.init(jax.random.key(0))
        for move in reference.moves:
            x = step_of(game)(x, jnp.int32(number_of(move, 4)))
        chance = chance_by_fillings(reference)
        assert within(playout_share(game, x, count), chance, count), game.to_text(x)


def test_playouts_win_as_often_as_play_step_by_step():
    _, results = random_lengths(8, 20_000)
    stepwise = (results == 1).mean()
    share = playout_share(Hex(8), Hex(8).init(jax.random.key(0)), 20_000)
    assert abs(share - stepwise) < 4 * math.sqrt(2 * 0.25 / 20_000)


def test_playouts_of_5x5_win_with_the_exact_chance():
    count = 200_000
    share = playout_share(Hex(5), Hex(5).init(jax.random.key(0)), count)
    assert within(share, 2981241 / 5200300, count)


def test_a_playout_of_a_finished_game_is_its_result():
    game = Hex(3)
    black_won, white_won = after(game, "a1 b1 a2 b2 a3"), after(game, "a1 a3 a2 b3 c1 c3")
    assert bool(black_won.over) and bool(white_won.over)
    assert playout_share(game, black_won, 200) == 1
    assert playout_share(game, white_won, 200) == 0


def test_playouts_of_the_empty_board_swap_as_random_play_does():
    # 3x3: White swaps with chance 1/9, and then Black gets only 4 cells of 9, which turns 2/3 into 1/3.
    count = 100_000
    game = Hex(3, swap=True)
    chance = 8 / 9 * 2 / 3 + 1 / 9 * 1 / 3
    assert within(playout_share(game, game.init(jax.random.key(0)), count), chance, count)


def test_playouts_after_the_first_stone_swap_as_random_play_does():
    # 3x3, Black on a2: eight replies in nine are stones; the ninth puts a white stone on b1, Black to move.
    count = 100_000
    game, reference = Hex(3, swap=True), HexGame(3, swap=True)
    reference.play((1, 0))
    swapped = reference.copy()
    swapped.play(SWAP)
    chance = 8 / 9 * chance_by_fillings(reference) + 1 / 9 * chance_by_fillings(swapped)
    assert within(playout_share(game, after(game, "a2"), count), chance, count)


def test_playouts_after_a_swap_never_swap_again():
    count = 100_000
    game, reference = Hex(3, swap=True), HexGame(3, swap=True)
    reference.play((1, 0))
    reference.play(SWAP)
    share = playout_share(game, after(game, "a2 swap-pieces"), count)
    assert within(share, chance_by_fillings(reference), count)


def test_every_subset_is_drawn_equally_often():
    # Chi-square over the 126 ways to choose 5 of 9 cells: mean 125, standard deviation sqrt(2 * 125).
    draws = 126_000
    candidates = jnp.full((1, draws), 0b111111111, jnp.uint32)
    wanted = jnp.full(draws, 5, jnp.int32)
    subsets = np.asarray(jax.jit(hex._random_subset)(candidates, wanted, jax.random.key(3)))[0]
    assert (np.bitwise_count(subsets) == 5).all()
    _, counts = np.unique(subsets, return_counts=True)
    assert len(counts) == 126
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert abs(chi_square - 125) < 4 * math.sqrt(2 * 125)


def test_subsets_of_every_size_are_drawn_from_the_candidates_only():
    rng = np.random.default_rng(0)
    candidates = rng.integers(0, 2**22, (6, 4000), dtype=np.uint32)
    available = np.bitwise_count(candidates).sum(axis=0)
    wanted = rng.integers(0, available + 1)
    drawn = np.asarray(hex._random_subset(jnp.asarray(candidates), jnp.asarray(wanted), jax.random.key(0)))
    assert (drawn & ~candidates == 0).all()
    assert (np.bitwise_count(drawn).sum(axis=0) == wanted).all()


def test_the_recorded_game_of_kromann_and_bennetsen():
    # Their first player joins left and right, so the cells are transposed; the win comes with move 13.
    moves = [12, 11, 2, 5, 20, 16, 21, 22, 17, 13, 18, 14, 19]
    told = replay(Hex(5), [[move % 5 * 5 + move // 5 for move in moves]])
    assert told.over[0, :14].tolist() == [False] * 13 + [True]
    assert told.rewards[0, 13].tolist() == [1, -1]


def test_one_stone_joins_two_groups_and_both_sides():
    # The merge example of Kromann and Bennetsen 2019, transposed: a5 alone; d1, c2 and c3 together; then b4.
    game = Hex(5)
    x = game.from_notation("3bw/2b1w/2b1w/4w/b4 b")
    upper, lower = [game.text_to_action(text) for text in ("d1", "c2", "c3")], game.text_to_action("a5")
    board = np.asarray(x.board)
    assert len(set(board[upper])) == 1 and board[lower] not in board[upper]
    assert not x.over
    x = step_of(game)(x, jnp.int32(game.text_to_action("b4")))
    assert len(set(np.asarray(x.board)[[*upper, lower, game.text_to_action("b4")]])) == 1
    assert bool(x.over) and game.rewards(x).tolist() == [1, -1]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11])
def test_the_shortest_games(size):
    # Black walks down the first column while White plays in the second, and the other way round.
    game = Hex(size)
    column = [row * size for row in range(size)]
    beside = [row * size + 1 for row in range(size)]
    black_wins = [move for pair in zip(column, beside) for move in pair][: 2 * size - 1]
    told = replay(game, [black_wins])
    assert np.argmax(told.over[0]) == 2 * size - 1
    assert told.rewards[0, -1].tolist() == [1, -1]
    if size > 1:
        row, below = [column for column in range(size)], [size + column for column in range(size)]
        white_wins = [move for pair in zip(below, row) for move in pair]
        told = replay(game, [white_wins])
        assert np.argmax(told.over[0]) == 2 * size
        assert told.rewards[0, -1].tolist() == [-1, 1]


@pytest.mark.parametrize(("size", "groups"), [(5, 15), (11, 66)])
def test_alternating_stones_in_every_second_row_are_groups_of_one(size, groups):
    # The counts are those of Kromann and Bennetsen 2019.
    cells = [cell for row in range(0, size, 2) for cell in range(row * size, (row + 1) * size)]
    assert len(cells) == groups
    board = np.asarray(replay(Hex(size), [cells]).board[0, len(cells)])
    assert len(set(board[cells].tolist())) == groups


def test_seventeen_groups_on_5x5_get_seventeen_labels():
    # The most there can be: 9 black stones where (row - column) % 3 is 0, 8 white ones where it is 1.
    black, white = ([cell for cell in range(25) if (cell // 5 - cell % 5) % 3 == k] for k in (0, 1))
    moves = [move for pair in zip(black, [*white, None]) for move in pair][:-1]
    board = replay(Hex(5), [moves]).board[0, 17]
    assert len(moves) == 17 and len(set(board[moves].tolist())) == 17


@pytest.mark.parametrize("size", [1, 2, 3, 8, 11, 19])
def test_neighbours_are_mutual_and_number_as_on_a_rhombus(size):
    neighbours = Hex(size)._neighbours
    edges = {(cell, int(other)) for cell in range(size * size) for other in neighbours[cell] if other != cell}
    assert all((other, cell) in edges for cell, other in edges)
    assert len(edges) == 2 * (3 * size**2 - 4 * size + 1)
    assert all(len(set(row)) >= min(3, size) for row in neighbours.tolist())


def mirrored(x, size):
    """The same position with colours exchanged on the transposed board."""
    return HexState(-x.board.reshape(size, size).T.ravel(), 1 - x.current_player, x.over)


@pytest.mark.parametrize("size", [3, 5])
def test_transposing_and_exchanging_colours_commutes_with_every_move(size):
    game, rng = Hex(size), random.Random(size)
    for _ in range(10):
        x = game.init(jax.random.key(0))
        while not x.over:
            action = rng.choice(np.flatnonzero(game.legal_action_mask(x)).tolist())
            twin = step_of(game)(mirrored(x, size), jnp.int32(action % size * size + action // size))
            x = step_of(game)(x, jnp.int32(action))
            assert same_state(twin, mirrored(x, size)), game.to_text(x)
            assert game.rewards(twin).tolist() == game.rewards(x).tolist()[::-1]


@pytest.mark.parametrize("game", [Hex(4), Hex(5, planes=6), Hex(3, swap=True, planes=6)], ids=str)
def test_a_half_turn_turns_observations_and_masks_as_the_tables_say(game):
    rng = random.Random(0)
    games = [numbers(random_reference_game(game.size, game.swap, rng), game.size) for _ in range(20)]
    last = game.size**2 - 1
    told = replay(game, games)
    turned = replay(game, [[last - move if move <= last else move for move in moves] for moves in games])
    identity, half_turn = game.symmetries.observation
    identity_action, half_turn_action = game.symmetries.action
    assert identity.tolist() == list(range(math.prod(game.observation_shape)))
    assert identity_action.tolist() == list(range(game.num_actions))
    for row, moves in enumerate(games):
        plies = slice(0, len(moves) + 1)
        np.testing.assert_array_equal(turned.mask[row, plies], told.mask[row, plies][:, half_turn_action])
        np.testing.assert_array_equal(turned.over[row, plies], told.over[row, plies])
        for name in ("seen_by_black", "seen_by_white", "seen_by_mover"):
            seen, seen_turned = getattr(told, name)[row, plies], getattr(turned, name)[row, plies]
            flat = seen.reshape(len(seen), -1)[:, half_turn]
            np.testing.assert_array_equal(seen_turned.reshape(flat.shape), flat)


@pytest.mark.parametrize("game", [Hex(4), Hex(3, swap=True)], ids=str)
def test_action_frames_lead_from_what_the_mover_sees_to_the_board(game):
    # A cell looks empty to the mover exactly where it is legal on the board.
    moves = numbers(random_reference_game(game.size, game.swap, random.Random(0)), game.size)
    told = replay(game, [moves])
    for ply in range(len(moves)):
        looks_empty = ~told.seen_by_mover[0, ply].any(axis=-1).ravel()
        looks_empty = np.append(looks_empty, told.mask[0, ply, game.size**2 :])
        frame = game.action_frames[told.current_player[0, ply]]
        np.testing.assert_array_equal(looks_empty[frame], told.mask[0, ply])


@pytest.mark.parametrize("size", range(1, hex.MAX_SIZE + 1))
def test_a_board_of_any_size_plays_to_an_end(size):
    game = Hex(size)

    def ply(x, key):
        action = core.random_action(key, jax.vmap(game.legal_action_mask)(x))
        return jax.vmap(game.step)(x, action), None

    keys = jax.random.split(jax.random.key(size), game.max_plies)
    x, _ = jax.jit(lambda keys: jax.lax.scan(ply, batched(game.init(keys[0]), 3), keys))(keys)
    assert x.over.all()
    for row in range(3):
        final = HexState(*(leaf[row] for leaf in x))
        reference = HexGame(size)
        colours = np.sign(np.asarray(final.board))
        reference.stones = {
            cell: BLACK if colours[number_of(cell, size)] > 0 else WHITE
            for cell in reference.cells()
            if colours[number_of(cell, size)]
        }
        assert game.rewards(final)[reference.winner()] == 1, game.to_text(final)


def test_a_state_on_11x11_takes_126_bytes():
    x = Hex().init(jax.random.key(0))
    assert sum(leaf.nbytes for leaf in x) == 126


def test_playing_on_never_compiles_again():
    game = Hex(4)
    step = jax.jit(chex.assert_max_traces(game.step, 1))
    x = game.init(jax.random.key(0))
    for action in range(16):
        x = step(x, jnp.int32(action))
    assert bool(x.over)
    step(game.from_notation("4/1b2/4/2w1 b"), jnp.int32(0))


def test_games_of_equal_settings_are_equal_and_hash_alike():
    assert Hex(5) == Hex(5) and hash(Hex(5)) == hash(Hex(5))
    assert Hex(5) != Hex(5, swap=True) and Hex(5) != Hex(5, planes=6)


@pytest.mark.parametrize("swap", [False, True])
def test_the_environment_passes_the_api_test_of_pgx(swap):
    pgx.api_test(Env(Hex(5, swap=swap)), 3)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"size": 0}, "size must be a whole number from 1 to 19, got 0"),
        ({"size": 20}, "size must be a whole number from 1 to 19, got 20"),
        ({"size": 5.0}, "size must be a whole number from 1 to 19, got 5.0"),
        ({"size": True}, "size must be a whole number from 1 to 19, got True"),
        ({"swap": 1}, "swap must be True or False, got 1"),
        ({"planes": 2.0}, "planes must be 2 .*, got 2.0"),
        ({"planes": 4}, r"planes must be 2 \(stones\) or 6 \(stones and sides\), got 4"),
    ],
)
def test_senseless_settings_are_refused(settings, complaint):
    with pytest.raises(core.GameError, match=complaint):
        Hex(**settings)


def test_cells_are_named_by_column_letter_and_row_number():
    game = Hex(11)
    assert game.action_to_text(0) == "a1"
    assert game.action_to_text(10 * 11 + 2) == "c11"
    assert game.text_to_action("C11") == 10 * 11 + 2
    assert game.text_to_action(" a10 ") == 9 * 11


@pytest.mark.parametrize("game", [Hex(1), Hex(11), Hex(19, swap=True)], ids=str)
def test_every_action_is_read_back_from_its_text(game):
    texts = [game.action_to_text(action) for action in range(game.num_actions)]
    assert len(set(texts)) == game.num_actions
    assert [game.text_to_action(text) for text in texts] == list(range(game.num_actions))


@pytest.mark.parametrize(
    "text", ["", "a", "5", "a0", "a01", "1a", "aa1", "a1b", "a-1", "a1.0", "swap", "ä1", "a²"]
)
def test_a_text_that_names_no_cell_is_refused(text):
    with pytest.raises(core.MoveError, match="is not a cell: expected a letter and a number, such as a1"):
        Hex(5).text_to_action(text)


@pytest.mark.parametrize("text", ["f1", "a6", "z99", "a1000"])
def test_a_cell_outside_the_board_is_refused(text):
    with pytest.raises(core.MoveError, match="is outside the board: its cells go from a1 to e5"):
        Hex(5).text_to_action(text)


@pytest.mark.parametrize("action", [-1, 25])
def test_an_action_there_is_not_has_no_text(action):
    with pytest.raises(core.MoveError, match=f"an action is a number from 0 to 24, got {action}"):
        Hex(5).action_to_text(action)


def test_an_occupied_cell_is_refused_with_its_owner():
    x = after(Hex(3), "a1 b2")
    with pytest.raises(core.MoveError, match="'a1' is occupied: Black has a stone there"):
        Hex(3).text_to_action("a1", x)
    with pytest.raises(core.MoveError, match="'B2' is occupied: White has a stone there"):
        Hex(3).text_to_action("B2", x)


def test_a_move_after_the_end_is_refused():
    x = after(Hex(2, swap=True), "a1 b1 a2")
    for text in ("b2", "a1", "swap-pieces"):
        with pytest.raises(core.MoveError, match="comes too late: the game is over"):
            Hex(2, swap=True).text_to_action(text, x)


def test_a_swap_is_refused_without_the_rule():
    with pytest.raises(core.MoveError, match="not available: this game is played without the swap rule"):
        Hex(3).text_to_action("swap-pieces")


@pytest.mark.parametrize(
    "moves", ["", "a1 b1", "a2 swap-pieces", "a2 swap-pieces c3", "a2 swap-pieces c3 c2"]
)
def test_a_swap_is_refused_except_as_whites_first_move(moves):
    game = Hex(3, swap=True)
    with pytest.raises(core.MoveError, match="not available: it can only be White's first move"):
        game.text_to_action("swap-pieces", after(game, moves))


def test_a_swap_puts_a_white_stone_on_the_transposed_cell():
    game = Hex(4, swap=True)
    assert game.to_notation(after(game, "c1 swap-pieces")) == "4/4/w3/4 b"
    assert game.to_notation(after(game, "b2 swap-pieces")) == "4/1w2/4/4 b"


def test_notation_of_known_positions():
    assert Hex(5).to_notation(after(Hex(5), "b2 c4")) == "5/1b3/5/2w2/5 b"
    assert Hex(11).to_notation(after(Hex(11), "k1")) == "10b" + "/11" * 10 + " w"
    assert Hex(1).to_notation(after(Hex(1), "a1")) == "b w"


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.data())
def test_a_position_is_read_back_from_its_notation_bit_for_bit(data):
    game = Hex(data.draw(st.integers(1, 6), "size"), swap=data.draw(st.booleans(), "swap"))
    x = game.init(jax.random.key(0))
    plies = data.draw(st.integers(0, game.max_plies), "plies")
    choices = random.Random(data.draw(st.integers(0, 2**32), "seed"))
    for _ in range(plies):
        if legal := np.flatnonzero(game.legal_action_mask(x)).tolist():
            # Swaps are rare among uniform moves: prefer them.
            action = (
                legal[-1] if legal[-1] == game.size**2 and choices.random() < 0.5 else choices.choice(legal)
            )
            x = step_of(game)(x, jnp.int32(action))
    hypothesis.note(game.to_text(x))
    text = game.to_notation(x)
    again = game.from_notation(text)
    assert same_state(x, again)
    assert [leaf.dtype for leaf in x] == [leaf.dtype for leaf in again]
    assert game.to_notation(again) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a position: expected the rows, a space, and b or w"),
        ("3/3/3", "is not a position"),
        ("3/3/3 x", "is not a position"),
        ("3/3/3  b", "is not a position"),
        ("3/3/3 b b", "is not a position"),
        ("3/3 b", "has 2 rows, but the board has 3"),
        ("3/3/3/3 b", "has 4 rows, but the board has 3"),
        ("3/3/4 b", "row 3 of .* has 4 cells, but the board has 3"),
        ("3/b1/3 w", "row 2 of .* has 2 cells, but the board has 3"),
        ("3/12/3 b", "row 2 of .* has 12 cells, but the board has 3"),
        ("3/1x1/3 b", "row 2 of .* is '1x1': expected only b, w and counts of empty cells"),
        ("3/B2/3 w", "row 2 of .* is 'B2': expected only b, w"),
        ("3/0b2/3 w", "row 2 of .* is '0b2': expected only b, w"),
        ("3//3 b", "row 2 of .* is '': expected only b, w"),
        ("b2/3/3 b", "has 1 black and 0 white stones with Black to move: Black must have as many as White"),
        ("3/3/3 w", "0 black and 0 white stones with White to move: Black must have one more than White"),
        ("w2/3/3 b", "has 0 black and 1 white stones with Black to move"),
        ("b1w/b1w/b1w b", "Black is to move in .*, but has joined both sides already"),
        ("bbb/www/b2 w", "White is to move in .*, but has joined both sides already"),
    ],
)
def test_an_impossible_position_is_refused_with_the_reason(text, complaint):
    with pytest.raises(core.PositionError, match=complaint):
        Hex(3).from_notation(text)


def test_a_position_that_went_on_after_its_end_is_refused():
    # Black holds the first and the last column: whichever came last, the other had won before.
    with pytest.raises(core.PositionError, match="the game went on after its end"):
        Hex(4).from_notation("bwwb/bwwb/bwwb/bw1b w")
    # With a gap in the last column the first wins alone, and whichever stone of it came last ended the game.
    assert bool(Hex(4).from_notation("bwwb/bwwb/bw1b/b1w1 w").over)


@pytest.mark.parametrize("text", ["3/3/3 w", "w2/w2/3 b", "1w1/3/3 w", "bbw/3/3 b", "bw1/w2/3 w"])
def test_stone_counts_that_even_a_swap_does_not_explain_are_refused(text):
    with pytest.raises(core.PositionError, match="after a swap"):
        Hex(3, swap=True).from_notation(text)


@pytest.mark.parametrize("text", ["w2/3/3 b", "wb1/3/3 w", "wb1/w2/3 b"])
def test_stone_counts_after_a_swap_are_those_of_the_swap_rule_alone(text):
    assert Hex(3, swap=True).to_notation(Hex(3, swap=True).from_notation(text)) == text
    with pytest.raises(core.PositionError, match="Black must have"):
        Hex(3).from_notation(text)


def test_the_board_in_text():
    expected = """\
  a b c
 1 B . . 1
  2 . W . 2
   3 . . . 3
      a b c
Black to move"""
    assert Hex(3).to_text(after(Hex(3), "a1 b2")) == expected
    assert Hex(2).to_text(after(Hex(2), "a1 b1 a2")).endswith("Black has won")
    assert " 9 . . " in Hex(11).to_text(Hex(11).init(None)) and "11 . . " in Hex(11).to_text(
        Hex(11).init(None)
    )


def shapes(svg, tag):
    return [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}" + tag)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_drawing_has_a_hexagon_for_every_cell_and_a_circle_for_every_stone(theme):
    game = Hex(5)
    svg = game.draw(after(game, "a1 b2 c3"), theme=theme)
    assert len(shapes(svg, "polygon")) == 25
    assert len(shapes(svg, "circle")) == 3
    assert len(shapes(svg, "polyline")) == 4  # sides
    assert [e.text for e in shapes(svg, "text")] == ["a", "1", "b", "2", "c", "3", "d", "4", "e", "5"]


def test_a_drawing_rings_the_last_move():
    game = Hex(5)
    x = after(game, "a1 b2")
    plain, ringed = shapes(game.draw(x), "circle"), shapes(game.draw(x, last_action=6), "circle")
    assert len(ringed) == len(plain) + 1
    assert ringed[-1].get("cx") == plain[1].get("cx") and ringed[-1].get("cy") == plain[1].get("cy")


def test_a_drawing_of_a_swap_rings_the_stone_and_offers_it_before():
    game = Hex(4, swap=True)
    before, swapped = after(game, "b1"), after(game, "b1 swap-pieces")
    assert "swap" in [e.text for e in shapes(game.draw(before), "text")]
    assert "swap 0.9" in [e.text for e in shapes(game.draw(before, marks={16: "0.9"}), "text")]
    assert "swap" not in [e.text for e in shapes(game.draw(swapped), "text")]
    stone, ring = shapes(game.draw(swapped, last_action=16), "circle")
    assert (stone.get("cx"), stone.get("cy")) == (ring.get("cx"), ring.get("cy"))


def test_heat_colours_legal_cells_alone_and_leaves_nan_bare():
    game = Hex(2)
    x = after(game, "a1")
    fills = [e.get("fill") for e in shapes(game.draw(x, heat=np.array([9.0, 1.0, 0.5, np.nan])), "polygon")]
    bare = shapes(game.draw(x), "polygon")[0].get("fill")
    assert fills[0] == bare and fills[3] == bare
    assert len({fills[1], fills[2], bare}) == 3


def test_marks_are_written_and_escaped():
    svg = Hex(2).draw(Hex(2).init(None), marks={3: "<&"})
    assert "<&" in [e.text for e in shapes(svg, "text")]


def test_a_winning_chain_stands_on_tinted_ground():
    game = Hex(3)
    x = after(game, "a1 b1 a2 c1 c3 b2 a3")  # a1 a2 a3 join; c3 is Black's too, but alone
    grounds = [e.get("fill") for e in shapes(game.draw(x), "polygon")]
    assert grounds[0] == grounds[3] == grounds[6] != grounds[8] == grounds[1]


def test_an_unknown_theme_is_refused():
    with pytest.raises(ValueError, match="theme must be one of light, dark, got 'blue'"):
        Hex(2).draw(Hex(2).init(None), theme="blue")
