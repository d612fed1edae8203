"""What the searches answer: the truth where it can be known, and clean answers everywhere else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import search
from azjax.envs import Env
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import random_action
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.search import puct_search
from tests.reference import exhaustive
from tests.search_cases import (
    TableGame,
    example,
    hash_evaluator,
    opinion,
    quick_jit,
    random_positions,
    random_table,
    stacked,
    table,
    table_evaluator,
)

KEY = jax.random.key(0)
LANES = 128
NO_IDEA = opinion(0, logits=0.0, values=0.0)
traces = []  # of the evaluator of `searches`


@functools.cache
def solved(game) -> exhaustive.Solved:
    return exhaustive.solve(game, jax.tree.map(lambda leaf: leaf[None], game.init(KEY)))


def search_all(find, params, states):
    """Searches any number of positions, LANES at a time; the last ones are searched several times."""
    count = len(jax.tree.leaves(states)[0])
    answers = []
    for start in range(0, count, LANES):
        index = np.minimum(np.arange(start, start + LANES), count - 1)
        key = jax.random.fold_in(KEY, start)
        answers.append(jax.device_get(find(params, key, exhaustive.at(states, index))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *answers)


def assert_proven(answer, truth: exhaustive.Solved, which):
    """All these positions are proven, with their exact values and moves that reach them."""
    assert answer.proven.all()
    np.testing.assert_allclose(answer.value, truth.values[which], atol=1e-6)
    np.testing.assert_allclose(truth.action_values[which, answer.action], truth.values[which], atol=1e-6)


def best_moves(answer, truth: exhaustive.Solved, which) -> np.ndarray:
    """[n] bool, whether the move is as good as any."""
    return np.isclose(truth.action_values[which, answer.action], truth.values[which], atol=1e-6)


@functools.cache
def hex_solver(simulations: int):
    return quick_jit(search.puct(Hex(3), hash_evaluator(Hex(3)), simulations=simulations, solve=True))


@pytest.mark.parametrize("params", [opinion(1), opinion(2, logits=4.0)], ids=["mild", "stubborn"])
@pytest.mark.parametrize("empty, count, simulations", [(range(1, 7), 4438, 400), (range(7, 10), 82, 6000)])
def test_every_position_of_hex_3x3_is_proven_whatever_the_network_says(empty, count, simulations, params):
    truth = solved(Hex(3))
    which = np.flatnonzero(~truth.over & np.isin(np.sum(truth.states.board == 0, -1), empty))
    assert len(which) == count
    answer = search_all(hex_solver(simulations), params, exhaustive.at(truth.states, which))
    assert_proven(answer, truth, which)


def symmetric_representatives(game: DotsAndBoxes, truth: exhaustive.Solved) -> np.ndarray:
    """One position of each kind, up to the symmetries of the board and the names of the players."""
    lines, owners = truth.states.lines, truth.states.owners
    owners = owners * np.where(truth.states.current_player == 0, 1, -1)[:, None].astype(np.int8)
    views = [
        np.concatenate([lines[:, on_lines].astype(np.int8), owners[:, on_boxes]], 1)
        for on_lines, on_boxes in zip(game.symmetries.action, game.box_symmetries)
    ]
    least = [min(view[i].tobytes() for view in views) for i in range(len(lines))]
    _, first = np.unique(least, return_index=True)
    return first


def test_every_late_position_of_dots_and_boxes_2x2_is_proven_with_its_exact_margin():
    game = DotsAndBoxes(2, 2, reward="margin")
    truth = solved(game)
    assert truth.values[0] == 0.5  # the first player wins by 3 to 1
    open_lines = np.sum(~truth.states.lines, -1)
    which = symmetric_representatives(game, truth)
    which = which[(open_lines[which] <= 6) & ~truth.over[which]]
    which = which[np.argsort(open_lines[which])]
    assert len(which) == 502
    # With n open lines a tree has n + n (n-1) + ... + n! nodes, 1956 for n = 6, and each simulation makes a
    # new one: nothing that a network says can keep the search from the truth.
    find = jax.jit(search.puct(game, hash_evaluator(game), simulations=1956, solve=True))
    assert_proven(search_all(find, opinion(3, logits=4.0), exhaustive.at(truth.states, which)), truth, which)


def test_dots_and_boxes_1x2_is_proven_from_its_first_move():
    game = DotsAndBoxes(1, 2, reward="margin")
    truth = solved(game)
    assert truth.action_values[0].tolist() == [
        -1,
        -1,
        -1,
        -1,
        -1,
        0,
        -1,
    ]  # only the inner line holds the draw
    which = np.flatnonzero(np.sum(~truth.states.lines, -1) >= 6)  # the empty board and all its next ones
    find = quick_jit(search.puct(game, hash_evaluator(game), simulations=13699, solve=True))
    answer = jax.device_get(find(opinion(4), KEY, exhaustive.at(truth.states, which)))
    assert_proven(answer, truth, which)


def test_late_positions_of_hex_4x4_are_proven():
    game = Hex(4)
    states = jax.device_get(random_positions(game, 1500, 8, KEY))
    half_full = np.flatnonzero((np.sum(states.board == 0, -1) == 8) & ~states.over)
    states = exhaustive.at(states, half_full[:LANES])
    truth = exhaustive.solve(game, states)
    find = quick_jit(search.puct(game, hash_evaluator(game), simulations=4000, solve=True))
    which = np.arange(LANES)
    assert_proven(jax.device_get(find(opinion(5), KEY, states)), truth, which)
    assert 0.2 < np.mean(truth.values[which] == 1) < 0.9  # not all alike


@functools.cache
def some_of_hex() -> np.ndarray:
    """LANES positions of Hex 3x3 with at most 5 empty cells, in which some moves lose and some win."""
    truth = solved(Hex(3))
    mixed = np.any(truth.action_values == 1, -1) & np.any(truth.action_values == -1, -1)
    candidates = np.flatnonzero(mixed & (np.sum(truth.states.board == 0, -1) <= 5))
    return np.random.default_rng(0).choice(candidates, LANES, replace=False)


@functools.cache
def searches() -> dict:
    """A search of each kind on Hex 3x3, without a solver."""
    game = Hex(3)
    evaluate = hash_evaluator(game)

    def counted(params, key, states):
        traces.append(game)
        return evaluate(params, key, states)

    return {
        "gumbel": quick_jit(search.gumbel(game, counted, simulations=400)),
        "puct": quick_jit(search.puct(game, counted, simulations=400)),
        "uct": quick_jit(search.uct(game, simulations=400, playouts=8)),
    }


@pytest.mark.parametrize("kind, params", [("gumbel", NO_IDEA), ("puct", opinion(1)), ("uct", None)])
def test_enough_simulations_find_a_winning_move_without_a_proof(kind, params):
    truth, which = solved(Hex(3)), some_of_hex()
    answer = jax.device_get(searches()[kind](params or NO_IDEA, KEY, exhaustive.at(truth.states, which)))
    assert best_moves(answer, truth, which).all()


@functools.cache
def tables():
    """LANES random small games in which the players move in any order."""
    rng = np.random.default_rng(0)
    return stacked([random_table(rng) for _ in range(LANES)])


def value_in_table(x):
    return table_evaluator(None, None, x)[1]


@functools.cache
def table_searches() -> dict:
    game = TableGame()
    return {
        "gumbel": quick_jit(search.gumbel(game, table_evaluator, simulations=64)),
        "puct": quick_jit(search.puct(game, table_evaluator, simulations=64, solve=True)),
        "uct": quick_jit(search.uct(game, simulations=64, leaf_value=value_in_table, solve=True)),
    }


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_the_result_of_any_small_game_is_proven_in_whatever_order_the_players_move(kind):
    truth = exhaustive.solve(TableGame(), tables())
    which = np.arange(LANES)
    assert set(truth.values[which]) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    assert_proven(jax.device_get(table_searches()[kind](None, KEY, tables())), truth, which)


@pytest.mark.parametrize("kind", ["gumbel", "puct", "uct"])
def test_a_player_who_moves_twice_in_a_row_is_not_taken_for_the_opponent(kind):
    # The players move in the order 0, 0, 1, 1. Move 0 wins if player 0 goes on with move 1; after move 1
    # every way loses. Who takes the second move for the opponent's sees it the other way round.
    rhythm = table(
        {
            0: {"player": 0, "moves": {0: 1, 1: 2}, "prior": {0: 0.3, 1: 0.7}},
            1: {"player": 0, "moves": {0: 3, 1: 4}, "prior": {0: 0.7, 1: 0.3}},
            2: {"player": 0, "moves": {0: 5, 1: 6}},
            3: {"player": 1, "moves": {0: 7, 1: 8}},
            4: {"player": 1, "moves": {0: 9}},
            5: {"player": 1, "moves": {0: 10}},
            6: {"player": 1, "moves": {0: 11}},
            **{node: {"player": 1, "result": 1.0 if node == 9 else -1.0} for node in range(7, 12)},
        }
    )
    answer = jax.device_get(table_searches()[kind](None, KEY, stacked([rhythm] * LANES)))
    assert answer.action.tolist() == [0] * LANES


@pytest.mark.parametrize("player", ["A", "B"])
def test_three_boxes_in_a_row_are_taken_where_nothing_else_wins(player):
    # The box at the left lacks one line. Whoever takes it goes on with the next, and the next, and wins 3 to
    # 0; any other line, now or in between, hands the rest of the row to the opponent, who then wins.
    game = DotsAndBoxes(1, 3)
    find = three_in_a_row()
    board = "+---+---+---+\n|            \n+---+---+---+\n"
    x = game.from_text(f"{board}{player} to move")
    for line in ("b1-b2", "c1-c2", "d1-d2"):
        answer = jax.device_get(find(opinion(6), KEY, jax.tree.map(lambda leaf: leaf[None], x)))
        assert game.action_to_text(int(answer.action[0])) == line
        assert "AB"[int(x.current_player)] == player
        x = game.step(x, answer.action[0])
    assert game.is_terminal(x)
    assert game.rewards(x)["AB".index(player)] == 1


@functools.cache
def three_in_a_row():
    game = DotsAndBoxes(1, 3)
    return quick_jit(search.puct(game, hash_evaluator(game), simulations=48))


def test_a_search_gives_the_same_answer_for_the_same_key():
    states = exhaustive.at(solved(Hex(3)).states, some_of_hex())
    for find in searches().values():
        twice = [jax.device_get(find(opinion(1), jax.random.key(7), states)) for _ in range(2)]
        assert all(np.array_equal(a, b) for a, b in zip(*twice))


@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_nothing_is_random_unless_asked_for(kind):
    states = exhaustive.at(solved(Hex(3)).states, some_of_hex())
    one, other = (
        jax.device_get(searches()[kind](opinion(1), jax.random.key(seed), states)) for seed in (1, 2)
    )
    assert np.array_equal(one.action, other.action)
    assert np.array_equal(one.visits, other.visits)


@pytest.mark.parametrize("kind", ["gumbel", "puct", "uct"])
def test_games_that_are_over_come_back_clean_among_others(kind):
    truth = solved(Hex(3))
    which = some_of_hex().copy()
    ended = np.arange(LANES) % 3 == 0
    which[ended] = np.flatnonzero(truth.over)[: ended.sum()]
    answer = jax.device_get(searches()[kind](opinion(1), KEY, exhaustive.at(truth.states, which)))
    assert not any(np.isnan(leaf).any() for leaf in answer)
    assert np.array_equal(answer.action[ended], np.zeros(ended.sum()))
    assert not answer.policy[ended].any() and not answer.visits[ended].any()
    assert np.array_equal(answer.value[ended], truth.values[which][ended])  # the player to move has lost
    assert np.array_equal(answer.proven, ended)
    np.testing.assert_allclose(answer.policy[~ended].sum(-1), 1, atol=1e-5)
    assert np.array_equal(answer.visits[~ended].sum(-1), np.full((~ended).sum(), 400))


@pytest.mark.parametrize("kind", ["gumbel", "puct", "uct"])
def test_a_batch_of_games_that_are_all_over_comes_back_clean(kind):
    truth = solved(Hex(3))
    which = np.flatnonzero(truth.over)[:LANES]
    answer = jax.device_get(searches()[kind](opinion(1), KEY, exhaustive.at(truth.states, which)))
    assert not any(np.isnan(leaf).any() for leaf in answer)
    assert np.array_equal(answer.value, truth.values[which])
    assert answer.proven.all() and not answer.policy.any()


@pytest.mark.parametrize("kind", ["gumbel", "puct", "uct"])
def test_illegal_moves_are_never_visited(kind):
    truth, which = solved(Hex(3)), some_of_hex()
    answer = jax.device_get(searches()[kind](opinion(1), KEY, exhaustive.at(truth.states, which)))
    illegal = np.isnan(truth.action_values[which])
    assert not answer.visits[illegal].any() and not answer.policy[illegal].any()


def test_an_environment_is_not_searched_from_its_end():
    # A finished environment calls every move legal, as pgx has it.
    game = Hex(2)
    env, evaluate = Env(game), hash_evaluator(game)

    @quick_jit
    def play(states, key):
        return jax.vmap(env.step)(states, random_action(key, jax.vmap(game.legal_action_mask)(states._x)))

    states = jax.vmap(env.init)(jax.random.split(KEY, 32))
    for key in jax.random.split(jax.random.key(3), 3):
        states = play(states, key)
    over = np.asarray(states.terminated)
    assert 0 < over.sum() < 32 and np.all(states.legal_action_mask[over])
    find = search.puct(env, lambda params, key, x: evaluate(params, key, x._x), simulations=16)
    answer = jax.device_get(quick_jit(find)(opinion(1), KEY, states))
    assert np.array_equal(answer.proven, over)
    assert np.array_equal(answer.value[over], np.full(over.sum(), -1))  # the player to move has lost
    assert np.array_equal(answer.visits.sum(-1), np.where(over, 0, 16))


@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_a_search_is_traced_once_for_all_keys_parameters_and_positions(kind):
    find, truth = searches()[kind], solved(Hex(3))
    find(opinion(1), KEY, exhaustive.at(truth.states, some_of_hex()))
    before = len(traces)
    find(opinion(2), jax.random.key(1), exhaustive.at(truth.states, np.arange(LANES)))
    assert len(traces) == before > 0


@functools.cache
def example_search(**options):
    keeping = search.reusing_puct(TableGame(), table_evaluator, simulations=6, **options)
    return quick_jit(lambda key, states: keeping.search(None, key, keeping.start(None, key, states)))


# With the formula as Jacobsen 2019 prints it, Q + 1.27 P sqrt(N / (1 + n)), by hand:
# 1. move 0: .762; move 1: .508. Node 1, Q = -.2.
# 2. move 0: -.2 + .762 = .562; move 1: .508 * 1.414214 = .718420. Node 2, Q = .3.
# 3. move 0: -.2 + .762 * 1.224745 = .733256; move 1: .3 + .508 * 1.224745 = .922170. Node 5 below node 2,
#    move 1: Q = (.3 - .5) / 2 = -.1.
# 4. move 0: -.2 + .762 * 1.414214 = .877631; move 1: -.1 + .508 * 1.154701 = .486588. Node 3, Q = -.3.
# 5. move 0: -.3 + .762 * 1.290994 = .683738; move 1: -.1 + .508 * 1.290994 = .555825 (in AlphaZero's form
#    .259 and .273). Through node 1, where move 0 has .4 + .889 against .538815, and node 3 to a draw:
#    Q = -(.6 + 0) / 3 = -.2.
# 6. move 0: -.2 + .762 * 1.224745 = .733256; move 1: -.1 + .508 * 1.414214 = .618420.
def test_the_printed_form_of_puct_grows_another_tree():
    output, _ = jax.device_get(
        example_search(kept=1, c=1.27, formula="sqrt_ratio")(KEY, stacked([example()]))
    )
    assert output.visits.tolist() == [[4, 2, 0]]
    assert output.action.tolist() == [0]


def test_the_end_of_a_game_is_worth_its_result_unless_the_network_is_asked():
    """Category A of Jacobsen 2019: the network says of the won node 6 that its player to move wins, 0.9."""
    _, tree = jax.device_get(
        example_search(kept=1, c=1.25, evaluate_terminals_with_network=True)(KEY, stacked([example()]))
    )
    slot = tree.states.node[0].tolist().index(6)
    assert tree.terminal[0, slot]
    assert tree.rewards[0, slot] == 0 and tree.discounts[0, slot] == -1
    np.testing.assert_allclose(tree.qvalues[0, tree.parents[0, slot], 1], -0.9, atol=1e-6)
    assert tree.children[0, slot].tolist() == [-1, -1, -1]


def test_a_proven_loss_is_searched_once_and_not_played_even_if_nothing_is_proven():
    # Move 0 loses at once, though the network loves it. Of move 1 six simulations prove nothing.
    deep = {node: {"player": node % 2, "moves": {0: node + 1}, "value": -0.5} for node in range(2, 30)}
    x = table(
        {
            0: {"player": 0, "moves": {0: 1, 1: 2}, "prior": {0: 0.99, 1: 0.01}},
            1: {"player": 1, "result": -1.0},
            **deep,
            30: {"player": 0},
        }
    )
    output, _ = jax.device_get(example_search(kept=1, solve=True)(KEY, stacked([x])))
    assert output.visits.tolist() == [[1, 5, 0]]
    assert output.action.tolist() == [1]
    assert output.proven.tolist() == [False]


def test_a_proven_loss_is_not_played_though_it_was_visited_most():
    # Four simulations follow move 0, which the network loves, to its end, a loss; two are left for move 1.
    deep = {node: {"player": node % 2, "moves": {0: node + 1}, "value": 0.0} for node in range(5, 30)}
    x = table(
        {
            0: {"player": 0, "moves": {0: 1, 1: 5}, "prior": {0: 0.99, 1: 0.01}},
            1: {"player": 1, "moves": {0: 2}, "value": -0.9},
            2: {"player": 0, "moves": {0: 3}, "value": 0.9},
            3: {"player": 1, "moves": {0: 4}, "value": -0.9},
            4: {"player": 0, "result": -1.0},
            **deep,
            30: {"player": 0},
        }
    )
    output, tree = jax.device_get(example_search(kept=1, solve=True)(KEY, stacked([x])))
    assert output.visits.tolist() == [[4, 2, 0]]
    assert output.action.tolist() == [1]
    assert tree.qvalues[0, 0, 0] == -1  # what is proven, not the mean of what was guessed on the way there


def test_a_proven_win_is_played_and_said_though_seldom_visited():
    # Move 2 wins, but it is looked at last; then the search stops.
    x = table(
        {
            0: {"player": 0, "moves": {0: 1, 1: 2, 2: 3}, "prior": {0: 0.6, 1: 0.3, 2: 0.1}, "value": 0.9},
            1: {"player": 1, "moves": {0: 4}, "value": 0.4},
            2: {"player": 1, "moves": {0: 4}, "value": 0.5},
            3: {"player": 1, "result": 1.0},
            4: {"player": 0, "moves": {0: 5}, "value": -0.5},
            5: {"player": 0, "moves": {0: 6}, "value": -0.5},
            6: {"player": 0},
        }
    )
    output, _ = jax.device_get(example_search(kept=1, solve=True)(KEY, stacked([x])))
    assert output.proven.tolist() == [True]
    assert output.value.tolist() == [1.0]
    assert output.action.tolist() == [2]
    assert output.policy.tolist() == [[0, 0, 1]]
    assert output.visits[0, 2] == 1 and output.visits[0].sum() < 6


@functools.cache
def noisy_search():
    game = Hex(3)
    keeping = search.reusing_puct(
        game, hash_evaluator(game), simulations=32, kept=1, dirichlet_alpha=0.3, dirichlet_fraction=0.25
    )
    return quick_jit(
        lambda key, states: keeping.search(opinion(1), key, keeping.start(opinion(1), key, states))
    )


def test_noise_on_the_root_changes_the_search_with_every_key():
    states = exhaustive.at(solved(Hex(3)).states, some_of_hex())
    one, other = (jax.device_get(noisy_search()(jax.random.key(seed), states)[0]) for seed in (1, 2))
    assert np.mean(np.any(one.visits != other.visits, -1)) > 0.5
    assert len(np.unique(np.concatenate([one.visits, other.visits]), axis=0)) > LANES


def test_noise_stays_out_of_the_tree_and_off_illegal_moves():
    truth, which = solved(Hex(3)), some_of_hex()
    output, tree = jax.device_get(noisy_search()(KEY, exhaustive.at(truth.states, which)))
    legal = ~np.isnan(truth.action_values[which])
    logits, _ = hash_evaluator(Hex(3))(opinion(1), KEY, exhaustive.at(truth.states, which))
    clean = np.asarray(jax.nn.softmax(jnp.where(legal, logits, -jnp.inf)))
    np.testing.assert_allclose(tree.prior[:, 0][legal], clean[legal], atol=1e-6)
    assert not output.visits[~legal].any()


def test_the_noise_of_a_search_is_drawn_over_its_legal_moves_alone(monkeypatch):
    masks = []

    def spy(key, prior, legal, alpha, fraction):
        jax.debug.callback(lambda mask: masks.append(mask.tolist()), legal)
        return prior

    monkeypatch.setattr(puct_search, "dirichlet_mix", spy)
    keeping = search.reusing_puct(TableGame(), table_evaluator, simulations=1, kept=1)
    quick_jit(lambda states: keeping.search(None, KEY, keeping.start(None, KEY, states)))(
        stacked([example()])
    )
    jax.effects_barrier()
    assert masks == [[[True, True, False]]]  # the moves of the example are 0 and 1


@pytest.mark.parametrize("key_seed", [1, 2])
def test_a_lane_with_its_own_key_finds_the_same_in_any_company(key_seed):
    states = exhaustive.at(solved(Hex(3)).states, some_of_hex())
    keys = jax.random.split(jax.random.key(key_seed), LANES)
    shuffled = np.random.default_rng(0).permutation(LANES)
    answer, _ = jax.device_get(noisy_search()(keys, states))
    elsewhere, _ = jax.device_get(noisy_search()(keys[shuffled], exhaustive.at(states, shuffled)))
    assert all(np.array_equal(a[shuffled], b) for a, b in zip(answer, elsewhere))


def simulating(simulations: int) -> search.Search:
    """Stands for a search of two positions."""
    answer = search.SearchOutput(
        action=jnp.zeros(2, jnp.int32),
        policy=jnp.zeros((2, 3)),
        value=jnp.zeros(2),
        visits=jnp.full((2, 3), simulations),
        qvalues=jnp.zeros((2, 3)),
        proven=jnp.zeros(2, bool),
        complete=jnp.ones(2, bool),
    )
    return lambda params, key, states: answer


@pytest.mark.parametrize("full_share", [0.0, 0.25, 1.0])
def test_a_capped_search_is_full_as_often_as_asked_and_says_so(full_share):
    find = search.playout_cap(simulating(100), simulating(20), full_share)
    answer = jax.jit(lambda keys: jax.lax.map(lambda key: find(None, key, None), keys))(
        jax.random.split(KEY, 1000)
    )
    assert np.array_equal(answer.complete[:, 0], answer.complete[:, 1])  # a batch moves in step
    assert np.mean(answer.complete) == pytest.approx(full_share, abs=0.045)
    assert np.array_equal(answer.visits[:, 0, 0], np.where(answer.complete[:, 0], 100, 20))


@pytest.mark.parametrize("playouts", [1, 8])
def test_a_leaf_is_worth_the_mean_of_its_random_playouts(playouts):
    # On 2x2 each player has two of the four cells in the end, and 3 of the 6 ways to choose two of them join
    # top and bottom: a result has mean 0 and variance 1.
    game = Hex(2)
    start = quick_jit(search.reusing_uct(game, simulations=1, playouts=playouts).start)
    values = np.asarray(start(None, KEY, jax.vmap(game.init)(jax.random.split(KEY, 4000))).raw_values[:, 0])
    assert set(values) == set(np.linspace(-1, 1, playouts + 1))
    assert values.mean() == pytest.approx(0, abs=4 / np.sqrt(4000 * playouts))
    assert values.var() == pytest.approx(1 / playouts, rel=0.08)


def test_a_playout_is_seen_by_the_player_to_move():
    ends = [
        table({0: {"player": player, "moves": {1: 1}}, 1: {"player": 0, "result": result}})
        for player in (0, 1)
        for result in (1.0, -0.5)
    ]
    tree = quick_jit(search.reusing_uct(TableGame(), simulations=1).start)(None, KEY, stacked(ends))
    assert tree.raw_values[:, 0].tolist() == [1.0, -0.5, -1.0, 0.5]


def test_several_playouts_of_a_leaf_are_all_its_own():
    ends = [
        table({0: {"player": 0, "moves": {1: 1}}, 1: {"player": 0, "result": result}})
        for result in (1.0, -0.5, 0.0, 0.5)
    ]
    tree = quick_jit(search.reusing_uct(TableGame(), simulations=1, playouts=3).start)(
        None, KEY, stacked(ends)
    )
    assert tree.raw_values[:, 0].tolist() == [1.0, -0.5, 0.0, 0.5]


def step_distances(game: ChineseCheckers, tip: int) -> np.ndarray:
    """[cells] how many steps a lone piece is from a tip, by breadth-first search."""
    place = {(int(i) % game.size, int(i) // game.size): cell for cell, i in enumerate(game.image_index)}
    position = {cell: xy for xy, cell in place.items()}
    distance, waiting = {tip: 0}, [tip]
    while waiting:
        cell = waiting.pop(0)
        x, y = position[cell]
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)):
            neighbour = place.get((x + dx, y + dy))
            if neighbour is not None and neighbour not in distance:
                distance[neighbour] = distance[cell] + 1
                waiting.append(neighbour)
    return np.array([distance[cell] for cell in range(game.num_cells)])


def test_the_distance_evaluation_of_chinese_checkers():
    # Karki 2024: the opponent's steps to the goal's tip minus the own, plus 1 on move. On 4x4 with three
    # pieces it is at most 11: all six pieces in the last rows 6, 5, 5, 4, 4, 4, that is 28 - 3 * 6 + 1.
    game, rng = ChineseCheckers(repetitions=None), np.random.default_rng(0)
    boards = rng.permuted(np.tile([1, 1, 1, 2, 2, 2] + [0] * 10, (200, 1)), axis=1)
    boards[0, :] = [0] * 10 + [1, 2, 1, 2, 1, 2]
    players = np.arange(200) % 2
    states = quick_jit(jax.vmap(game.from_board))(boards, players)
    values = np.asarray(quick_jit(search.distance_value(game))(states))
    assert values[0] == 1
    to_goal = step_distances(game, 15), step_distances(game, 0)
    for board, mover, value in zip(boards, players, values):
        own, other = (np.sum(to_goal[side][board == side + 1]) for side in (mover, 1 - mover))
        assert value == pytest.approx((other - own + 1) / 11, abs=1e-6)


def test_uct_with_the_distance_evaluation_wins_a_race_in_one_move():
    # a's piece on 12 (row 4) has the last free cell of its goal beside it.
    game = ChineseCheckers(repetitions=None)
    x = game.from_notation("b/bb/3/4/2a/1a/a a")
    find = quick_jit(search.uct(game, simulations=64, leaf_value=search.distance_value(game)))
    answer = jax.device_get(find(None, KEY, jax.tree.map(lambda leaf: leaf[None], x)))
    assert game.is_terminal(game.step(x, answer.action[0]))


@pytest.mark.parametrize(
    "field, make",
    [
        ("simulations", lambda: search.gumbel(TableGame(), table_evaluator, simulations=0)),
        ("simulations", lambda: search.puct(TableGame(), table_evaluator, simulations=0)),
        ("simulations", lambda: search.uct(TableGame(), simulations=0)),
        (
            "max_considered_actions",
            lambda: search.gumbel(TableGame(), table_evaluator, simulations=4, max_considered_actions=0),
        ),
        ("max_depth", lambda: search.gumbel(TableGame(), table_evaluator, simulations=4, max_depth=0)),
        ("max_depth", lambda: search.puct(TableGame(), table_evaluator, simulations=4, max_depth=0)),
        ("kept", lambda: search.reusing_puct(TableGame(), table_evaluator, simulations=4, kept=0)),
        ("kept", lambda: search.reusing_uct(TableGame(), simulations=4, kept=0)),
        ("playouts", lambda: search.uct(TableGame(), simulations=4, playouts=0)),
        ("formula", lambda: search.puct(TableGame(), table_evaluator, simulations=4, formula="ucb")),
        (
            "dirichlet_fraction",
            lambda: search.puct(TableGame(), table_evaluator, simulations=4, dirichlet_fraction=1.5),
        ),
        (
            "dirichlet_alpha",
            lambda: search.puct(TableGame(), table_evaluator, simulations=4, dirichlet_alpha=0.0),
        ),
        (
            "evaluate_terminals_with_network",
            lambda: search.puct(
                TableGame(), table_evaluator, simulations=4, solve=True, evaluate_terminals_with_network=True
            ),
        ),
        ("full_share", lambda: search.playout_cap(None, None, 1.01)),
    ],
)
def test_a_senseless_option_is_refused_by_name(field, make):
    with pytest.raises(ValueError, match=field):
        make()


def test_an_evaluator_of_another_shape_is_refused():
    game, states = Hex(3), stacked([Hex(3).init(KEY)] * 2)

    def answers(logits, value):
        return lambda params, key, states: (jnp.zeros(logits), jnp.zeros(value))

    for make in (search.gumbel, search.puct):
        with pytest.raises(AssertionError, match=r"the evaluator must return logits \[batch, actions\]"):
            make(game, answers((2, 4), (2,)), simulations=2)(None, KEY, states)
        with pytest.raises(AssertionError, match="the evaluator must return one value per position"):
            make(game, answers((2, 9), (2, 1)), simulations=2)(None, KEY, states)
    with pytest.raises(AssertionError, match="leaf_value must return one value per position"):
        search.uct(game, simulations=2, leaf_value=lambda states: jnp.zeros((2, 1)))(None, KEY, states)


def test_only_a_race_has_a_distance():
    with pytest.raises(ValueError, match="hex is no race: distance_value needs a game with a method lead"):
        search.distance_value(Hex(3))
