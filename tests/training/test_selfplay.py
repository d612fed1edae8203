"""Self-play and the replay ring: every position played is stored once, with its game's true outcome."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.envs import ChineseCheckers, DotsAndBoxes, GameError, Hex, PgxGame
from azjax.envs.core import random_action
from azjax.positions import sets as position_sets
from azjax.search import SearchOutput
from azjax.training import replay, selfplay, targets
from azjax.training.config import ConfigError, SelfplayConfig
from azjax.training.openings import make_openings, opening_positions
from tests.training_cases import append_game, at_the_limit


def random_search(game):
    """A search that plays at random and says in its policy what it played."""

    def search(params, keys, states):
        legal = jax.vmap(game.legal_action_mask)(states)
        action = jax.vmap(random_action)(keys, legal)
        lanes = action.shape[0]
        return SearchOutput(
            action=action,
            policy=jax.nn.one_hot(action, game.num_actions),
            value=jnp.full(lanes, 0.25),
            visits=jnp.zeros(legal.shape, jnp.int32),
            qvalues=jnp.zeros(legal.shape),
            proven=jnp.zeros(lanes, bool),
            complete=jnp.ones(lanes, bool),
        )

    return search


def play_the_found_move(keys, output, ply, legal):
    return output.action


@functools.cache
def player(game, openings_kind="none", plies=13, value_targets=targets.outcome):
    openings = make_openings(game, openings_kind)

    @jax.jit
    def play(lanes, ring):
        return selfplay.play(
            game, random_search(game), play_the_found_move, value_targets, openings, None, lanes, ring, plies
        )

    return openings, play


def new_run(game, openings, lanes=6, groups=2, capacity=600, games=64):
    state = selfplay.start(game, openings, jax.random.split(jax.random.key(0), lanes))
    row = replay.StoredPosition(
        jax.tree.map(lambda s: s[0], state.state),
        jnp.zeros(game.num_actions),
        jnp.float32(0),
        jnp.float32(0),
        jnp.float32(0),
        jax.tree.map(lambda s: s[0], state.state),
    )
    return state, replay.empty(row, groups, capacity, games)


def ring_games(ring, group):
    """The games of one ring that has not wrapped around, as lists of rows."""
    starts = [*np.asarray(ring.starts[group])[: int(ring.games[group])].tolist(), int(ring.written[group])]
    rows = jax.tree.map(lambda column: np.asarray(column[group]), ring.rows)
    return [
        [jax.tree.map(lambda column, i=i: column[i], rows) for i in range(begin, end)]
        for begin, end in itertools.pairwise(starts)
    ]


@pytest.mark.parametrize("game", [Hex(size=3), DotsAndBoxes(1, 2)], ids=repr)
def test_positions_stored_are_exactly_the_positions_of_finished_games(game):
    openings, play = player(game)
    lanes, ring = new_run(game, openings)
    played = finished = 0
    for _ in range(5):
        lanes, ring, counts = play(lanes, ring)
        played += int(counts.positions)
        finished += int(counts.game_plies)
        under_way = int(lanes.length.sum())
        assert int(ring.written.sum()) == played - under_way == finished
        assert int(ring.games.sum()) > 0


@pytest.mark.parametrize("game", [Hex(size=3), DotsAndBoxes(1, 2)], ids=repr)
def test_stored_games_replay_move_by_move_to_their_stored_outcome(game):
    openings, play = player(game)
    lanes, ring = new_run(game, openings)
    for _ in range(3):
        lanes, ring, _ = play(lanes, ring)
    step, rewards = jax.jit(game.step), jax.jit(game.rewards)
    checked = 0
    for group in range(2):
        for rows in ring_games(ring, group):
            x = jax.tree.map(jnp.asarray, rows[0].state)
            first = game.init(jax.random.key(0))
            assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(first)))
            for row in rows:
                assert all(
                    np.array_equal(a, b) for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(row.state))
                )
                x = step(x, int(np.argmax(row.policy)))
            assert game.is_terminal(x)
            for row in rows:
                assert row.outcome == row.value == rewards(x)[int(row.state.current_player)]
                final = zip(jax.tree.leaves(row.final), jax.tree.leaves(x))
                assert all(np.array_equal(a, b) for a, b in final)
            checked += 1
    assert checked > 5


def search_by_stones(game):
    """Plays at random, finds a tenth of the stones on the board as value, and is complete where they are even."""
    play_at_random = random_search(game)

    def search(params, keys, states):
        stones = jnp.sum(states.board != 0, -1)
        return play_at_random(params, keys, states)._replace(value=stones / 10, complete=stones % 2 == 0)

    return search


def test_the_value_and_the_weight_of_a_position_are_those_of_its_search():
    game = Hex(size=3)
    openings = make_openings(game, "A2")
    lanes, ring = new_run(game, openings)
    lanes, ring, _ = jax.jit(
        lambda lanes, ring: selfplay.play(
            game,
            search_by_stones(game),
            play_the_found_move,
            targets.root_value,
            openings,
            None,
            lanes,
            ring,
            plies=13,
        )
    )(lanes, ring)
    rows = [row for group in range(2) for game_rows in ring_games(ring, group) for row in game_rows]
    stones = np.array([(row.state.board != 0).sum() for row in rows])
    assert {2, 3, 4} <= set(stones.tolist())
    np.testing.assert_allclose([row.value for row in rows], stones / 10, rtol=1e-6)
    np.testing.assert_array_equal([row.policy_weight for row in rows], stones % 2 == 0)
    # The two forced moves count: rules for the first moves of a game ask for the ply.
    np.testing.assert_array_equal(lanes.ply, (lanes.state.board != 0).sum(-1))


def test_games_are_counted_with_their_results():
    game = DotsAndBoxes(1, 2)
    openings, play = player(game)
    lanes, ring = new_run(game, openings)
    games = draws = score = 0
    for _ in range(3):
        lanes, ring, counts = play(lanes, ring)
        games, draws = games + int(counts.games), draws + int(counts.draws)
        score += float(counts.first_player_score)
    stored = [rows[-1].final for group in range(2) for rows in ring_games(ring, group)]
    margins = [int(final.owners.sum()) for final in stored]
    assert games == len(stored)
    assert draws == margins.count(0) > 0
    assert score == sum(1 if margin > 0 else 0.5 if margin == 0 else 0 for margin in margins)


def test_a_group_stores_the_games_of_its_own_lanes():
    game = Hex(size=3)
    openings, play = player(game)
    lanes, ring = new_run(game, openings)
    alone = jax.tree.map(lambda leaf: leaf[:3], lanes), jax.tree.map(lambda leaf: leaf[:1], ring)
    _, ring, _ = play(lanes, ring)
    _, expected, _ = play(*alone)  # every lane has its own keys, so that it plays the same games
    first_group = jax.tree.map(lambda leaf: leaf[:1], ring)
    assert int(expected.written[0]) > 0
    pairs = zip(jax.tree.leaves(first_group), jax.tree.leaves(expected))
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_no_lane_is_idle():
    game = Hex(size=3)
    openings, play = player(game)
    lanes, ring = new_run(game, openings)
    for _ in range(3):
        lanes, ring, counts = play(lanes, ring)
        assert int(counts.positions) == 6 * 13
        assert not jax.vmap(game.is_terminal)(lanes.state).any()


def test_random_openings_are_unfinished_and_of_all_lengths():
    game = Hex(size=3)
    openings = make_openings(game, "R4")
    stones = np.asarray((openings.states.board != 0).sum(-1))
    np.testing.assert_array_equal(stones, openings.plies)
    assert not np.asarray(openings.states.over).any()
    # Fewer than four moves cannot end a game here, so that each length has about a fifth of the openings.
    shares = np.bincount(stones, minlength=5) / len(stones)
    np.testing.assert_allclose(shares, 0.2, atol=0.01)
    assert len({row.tobytes() for row in np.asarray(openings.states.board)[stones == 2]}) == 72


def test_a_position_file_can_open_the_games(tmp_path):
    game = Hex(size=3)
    path = tmp_path / "openings.jsonl"
    path.write_text('{"game": "hex", "size": 3, "moves": ["b2"]}\n{"moves": ["a1", "c3"]}\n')
    openings = make_openings(game, str(path))
    assert openings.plies.tolist() == [1, 2]
    assert [game.to_notation(jax.tree.map(lambda s, i=i: s[i], openings.states)) for i in range(2)] == [
        "3/1b1/3 w",
        "b2/3/2w b",
    ]
    path.write_text('{"game": "hex", "size": 4, "moves": []}\n')
    with pytest.raises(GameError, match=r"position 1 of .* is of Hex"):
        make_openings(game, str(path))
    path.write_text('{"position": "bw1/bw1/b2 w"}\n')
    with pytest.raises(GameError, match="is the end of a game"):
        make_openings(game, str(path))


def test_forced_openings_begin_every_game_and_leave_no_training_data():
    game = Hex(size=3)
    openings, play = player(game, "A2")
    lanes, ring = new_run(game, openings)
    for _ in range(4):
        lanes, ring, _ = play(lanes, ring)
    for group in range(2):
        for rows in ring_games(ring, group):
            assert int((rows[0].state.board != 0).sum()) == 2


@pytest.mark.parametrize(("size", "counts"), [(6, (36, 1260, 42840)), (3, (9, 72, 504))])
def test_openings_are_all_ordered_move_sequences(size, counts):
    # Daliri 2022, table 5.4: 36, 36 * 35 and 36 * 35 * 34 rows on 6x6.
    game = Hex(size=size)
    assert tuple(len(opening_positions(game, n).plies) for n in (1, 2, 3)) == counts
    assert len(make_openings(game, "A123").plies) == sum(counts)


def test_openings_are_drawn_uniformly():
    game = Hex(size=3)
    openings = make_openings(game, "A1")
    lanes = selfplay.start(game, openings, jax.random.split(jax.random.key(3), 9000))
    counts = np.asarray((lanes.state.board != 0).sum(0))
    assert counts.sum() == 9000
    assert (((counts - 1000) ** 2) / 1000).sum() < 26.1  # chi-square, 8 degrees of freedom, 99.9 %


@pytest.mark.parametrize("share", [0.3, 0.75])
def test_a_share_of_games_begins_with_an_opening_and_all_of_these_equally_often(share):
    game = Hex(size=3)
    openings = make_openings(game, "A1", share)
    lanes = selfplay.start(game, openings, jax.random.split(jax.random.key(3), 9000))
    cell = np.where(lanes.ply == 1, (lanes.state.board != 0).argmax(-1), 9)
    counts, expected = (
        np.bincount(cell, minlength=10),
        np.append(np.full(9, 1000 * share), 9000 * (1 - share)),
    )
    assert (((counts - expected) ** 2) / expected).sum() < 27.9  # chi-square, 9 degrees of freedom, 99.9 %


@pytest.mark.parametrize(
    "game",
    [Hex(size=3), ChineseCheckers(size=3, pieces=1), DotsAndBoxes(2, 1), PgxGame("tic_tac_toe")],
    ids=repr,
)
def test_uniform_openings_are_many_unfinished_positions(game):
    openings = make_openings(game, "U")
    over = np.asarray(jax.jit(jax.vmap(game.is_terminal))(openings.states))
    assert not over.any()
    keys = position_sets.keys_of(jax.tree.map(np.asarray, openings.states))
    assert len(set(keys.tolist())) > 50


def test_an_unknown_kind_of_opening_lists_those_there_are():
    message = (
        "openings must be one of none, A1, A2, A3, A123, U, R and a number of random moves, a position file"
    )
    for kind in ("B7", "R", "R0", "R2x", "R²", "openings.txt"):
        with pytest.raises(GameError, match=message):
            make_openings(Hex(size=3), kind)
        with pytest.raises(ConfigError, match=f"selfplay.{message}"):
            SelfplayConfig(openings=kind)
    with pytest.raises(GameError, match=r"there is no openings database at openings\.db"):
        make_openings(Hex(size=3), "openings.db")


@pytest.mark.parametrize("kind", ["openings.db", "openings.jsonl"])
def test_a_file_of_openings_that_is_not_there_is_named(kind, tmp_path):
    with pytest.raises((GameError, FileNotFoundError), match=f"{tmp_path}.*{kind}"):
        make_openings(Hex(size=3), str(tmp_path / kind))


def numbered_rows(first, count):
    return replay.StoredPosition(
        state=None,
        policy=jnp.zeros((count, 1)),
        policy_weight=jnp.ones(count),
        value=jnp.arange(first, first + count, dtype=jnp.float32),
        outcome=jnp.zeros(count),
        final=None,
    )


def numbered_ring(lengths, capacity=10, games=4):
    row = jax.tree.map(lambda column: column[0], numbered_rows(0, 1))
    ring = replay.empty(row, 1, capacity, games)
    first = 0
    for length in lengths:
        ring = append_game(ring, 0, numbered_rows(first, 6), length)
        first += length
    return ring


def drawn(ring, **options):
    rows = replay.sample(ring, jax.random.split(jax.random.key(0), 1), 4000, **options)
    return np.bincount(np.asarray(rows.value).astype(int))


@pytest.mark.parametrize(
    "capacity", [7, 40]
)  # of a group; in the small one games overwrite each other at once
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_games_that_end_together_are_stored_as_if_one_after_the_other(capacity, share):
    groups, lanes, longest, kept = 2, 12, 6, 3
    row = jax.tree.map(lambda column: column[0], numbered_rows(0, 1))
    ring = replay.empty(row, groups, capacity, kept)
    append = jax.jit(replay.append_games)
    # The same by hand: lists, and one position at a time.
    cells, written = np.zeros((groups, capacity)), [0] * groups
    games, starts = [0] * groups, np.zeros((groups, kept), int)
    rng = np.random.default_rng(0)
    for _ in range(8):
        length = rng.integers(0, longest + 1, lanes) * (rng.random(lanes) < 0.6)
        value = rng.random((lanes, longest)).astype(np.float32)
        replaces = rng.random((lanes, longest)) < share
        rows = jax.vmap(lambda v: numbered_rows(0, longest)._replace(value=v))(value)
        ring = append(ring, rows, jnp.asarray(length, jnp.int32), jnp.asarray(replaces))
        for lane in range(lanes):
            group = lane // (lanes // groups)
            if length[lane]:
                starts[group, games[group] % kept] = written[group]
                games[group] += 1
            for number in range(length[lane]):
                if replaces[lane, number] or written[group] < capacity:
                    cells[group, written[group] % capacity] = value[lane, number]
                written[group] += 1
        assert np.array_equal(ring.rows.value, cells.astype(np.float32))
        assert ring.written.tolist() == written and ring.games.tolist() == games
        assert np.array_equal(ring.starts, starts)
    assert min(written) > 3 * capacity // 2  # every ring has gone round


def test_the_ring_overwrites_the_oldest_positions_first():
    ring = numbered_ring([4, 5, 3])  # 12 positions in room for 10: 0 and 1 are gone
    assert int(ring.written[0]) == 12
    counts = drawn(ring)
    assert (counts[:2] == 0).all() and (counts[2:] > 0).all()
    assert abs(counts[2:] - 400).max() < 4 * (4000 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize("replaces, newest", [(True, [10, 11, 12]), (False, [0, 1, 12])])
def test_new_positions_may_leave_old_ones_in_their_place(replaces, newest):
    ring = numbered_ring([6, 4])  # full
    ring = append_game(ring, 0, numbered_rows(10, 3), 2, jnp.full(3, replaces))
    ring = append_game(ring, 0, numbered_rows(12, 1), 1, jnp.ones(1, bool))
    assert int(ring.written[0]) == 13  # the write head moves on in any case
    assert ring.rows.value[0, :3].tolist() == newest
    assert ring.rows.value[0, 3:].tolist() == list(range(3, 10))


@functools.cache
def overwritten():
    """A ring full of old positions (value 9) after self-play that overwrites them with a chance of 0.3."""
    game = DotsAndBoxes(1, 2)
    openings = make_openings(game)
    lanes, ring = new_run(game, openings, lanes=64, groups=1, capacity=1024, games=256)
    full = ring._replace(rows=ring.rows._replace(value=jnp.full((1, 1024), 9.0)), written=jnp.array([1024]))
    _, ring, counts = jax.jit(
        lambda lanes, ring: selfplay.play(
            game,
            random_search(game),
            play_the_found_move,
            targets.outcome,
            openings,
            None,
            lanes,
            ring,
            plies=13,
            overwrite=0.3,
        )
    )(lanes, full)
    return ring, np.asarray(ring.rows.value[0] != 9.0), counts


def test_self_play_overwrites_with_the_chance_it_is_given():
    _, is_new, counts = overwritten()
    stored, offered = int(is_new.sum()), int(counts.game_plies)
    assert 300 < offered <= 1024
    assert abs(stored - 0.3 * offered) < 4 * (offered * 0.3 * 0.7) ** 0.5


def test_every_position_of_a_game_has_a_chance_of_its_own():
    ring, is_new, _ = overwritten()
    starts = np.asarray(ring.starts[0])[: int(ring.games[0])] - 1024
    shares = [is_new[start : start + 7].mean() for start in starts]  # every game draws seven lines
    # A game that is stored whole or not at all has a chance of 0.3^7 + 0.7^7 = 0.083.
    assert len(shares) > 50 and np.mean([0 < share < 1 for share in shares]) > 0.75


def test_rows_that_replace_nothing_still_fill_an_empty_ring():
    ring = append_game(numbered_ring([]), 0, numbered_rows(1, 3), 3, jnp.zeros(3, bool))
    assert ring.rows.value[0, :4].tolist() == [1, 2, 3, 0]


def test_a_window_that_is_longer_than_the_ring_weighs_all_positions_alike():
    counts = drawn(numbered_ring([6, 6, 6]), window_games=3)  # positions 8 to 17 are left
    assert (counts[:8] == 0).all()
    assert abs(counts[8:] - 400).max() < 4 * (4000 * 0.1 * 0.9) ** 0.5


def test_of_a_game_half_overwritten_only_the_rest_is_drawn():
    counts = drawn(numbered_ring([6, 6], capacity=8), window_games=2, by_game=True)  # 0 to 3 are gone
    assert (counts[:4] == 0).all()
    assert abs(counts[4:6] - 1000).max() < 4 * (4000 * 0.25 * 0.75) ** 0.5
    assert abs(counts[6:] - 2000 / 6).max() < 4 * (4000 / 12) ** 0.5


def test_each_group_is_drawn_from_by_itself():
    row = jax.tree.map(lambda column: column[0], numbered_rows(0, 1))
    ring = replay.empty(row, 2, 10, 4)
    for group, first in enumerate((10, 20)):
        ring = append_game(ring, group, numbered_rows(first, 6), 5)
    rows = replay.sample(ring, jax.random.split(jax.random.key(0), 2), 500)
    assert set(rows.value[:500].tolist()) == set(range(10, 15))
    assert set(rows.value[500:].tolist()) == set(range(20, 25))


def test_a_window_in_games_leaves_out_older_games():
    counts = drawn(numbered_ring([2, 3, 2]), window_games=2)
    assert (counts[:2] == 0).all() and (counts[2:] > 0).all()


def test_drawing_by_game_weighs_short_and_long_games_alike():
    counts = drawn(numbered_ring([1, 5]), window_games=4, by_game=True)
    assert abs(counts[0] - 2000) < 4 * 1000**0.5
    assert abs(counts[1:].sum() - 2000) < 4 * 1000**0.5


@pytest.mark.parametrize("options", [{}, {"window_games": 3}, {"window_games": 3, "by_game": True}], ids=str)
def test_a_ring_goes_on_past_the_largest_number(options):
    few = numbered_ring([4, 5, 3], games=4)
    many = at_the_limit(few)
    for _ in range(8):  # 48 positions, where less than 10 are missing to 2^31
        rows = numbered_rows(100, 6)
        few = append_game(few, 0, rows, 6)
        many = append_game(replay.rebase(many), 0, rows, 6)
        assert (many.written >= many.capacity).all() and (many.games >= 4).all()
        assert np.array_equal(many.rows.value, few.rows.value)
        assert np.array_equal(drawn(many, **options), drawn(few, **options))


def test_a_ring_that_is_not_full_is_left_alone():
    ring = numbered_ring([2, 3])
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(replay.rebase(ring)), jax.tree.leaves(ring))
    )


def test_beginnings_of_long_ago_stay_in_range():
    ring = numbered_ring([4, 5, 3])
    for _ in range(5):  # each round makes the counters as large as they get
        ring = replay.rebase(ring._replace(written=ring.written + 2**30))
    assert (ring.starts < ring.written[:, None]).all()


def test_self_play_goes_on_past_the_largest_number():
    game = Hex(size=3)
    openings, play = player(game)
    lanes, ring = new_run(game, openings, capacity=60, games=8)
    for _ in range(8):
        lanes, ring, _ = play(lanes, ring)
    assert (ring.written > ring.capacity).all()
    _, few, _ = play(lanes, ring)
    _, many, _ = play(lanes, at_the_limit(ring))
    assert np.array_equal(many.rows.value, few.rows.value)
    assert (many.written % 60 == few.written % 60).all() and (many.written > 0).all()


def test_a_game_without_positions_leaves_no_trace():
    ring = numbered_ring([3, 0, 2])
    assert (int(ring.written[0]), int(ring.games[0])) == (5, 2)


def test_value_targets_by_hand():
    # Three plies by players 0, 1, 1; player 1 wins. Root values are what a search might have found.
    z = jnp.array([-1.0, 1.0, 1.0])
    v = jnp.array([0.2, 0.4, 0.6])
    players = jnp.array([0, 1, 1])
    three = jnp.int32(3)
    np.testing.assert_allclose(targets.outcome(z, v, players, three), z)
    np.testing.assert_allclose(targets.root_value(z, v, players, three), v)
    np.testing.assert_allclose(targets.mixture(0.25)(z, v, players, three), 0.25 * v + 0.75 * z)
    # lambda 0.5: G2 = z = 1. G1 = 0.5 * 0.6 + 0.5 * 1 = 0.8 (the same player moves). G0: the other player's
    # 0.5 * 0.4 + 0.5 * 0.8 = 0.6, so -0.6.
    np.testing.assert_allclose(targets.td_lambda(0.5)(z, v, players, three), [-0.6, 0.8, 1.0], rtol=1e-6)
    np.testing.assert_allclose(targets.td_lambda(1.0)(z, v, players, three), z)
    np.testing.assert_allclose(targets.td_lambda(0.0)(z, v, players, three), [-0.4, 0.6, 1.0], rtol=1e-6)


def test_td_lambda_ignores_what_lies_behind_the_end():
    z, v, players = jnp.array([1.0, -1.0, 9.0]), jnp.array([0.5, 0.5, 9.0]), jnp.array([0, 1, 0])
    result = targets.td_lambda(0.5)(z, v, players, jnp.int32(2))
    # G1 = z = -1; G0 = -(0.5 * 0.5 + 0.5 * -1) = 0.25.
    np.testing.assert_allclose(result[:2], [0.25, -1.0])
