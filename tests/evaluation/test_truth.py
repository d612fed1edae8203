"""Agents against the truth: sets of positions, accuracies, labels, mistakes, whole games, exploitability."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.agents import make_agent
from azjax.common.agent import Agent, AgentError
from azjax.envs import ChineseCheckers, Hex, PgxGame
from azjax.evaluation import parts, suites
from azjax.evaluation import truth as ground_truth
from azjax.positions import drawn as drawn_positions
from azjax.positions import sets as position_sets
from azjax.solvers.core import TooLargeError
from azjax.solvers.hex import tables as hex_tables
from azjax.solvers.hex.solver import make_solver
from azjax.training import replay
from tests.reference import exhaustive
from tests.training_cases import SMALL, append_game

pytestmark = pytest.mark.usefixtures("optimised")


@functools.cache
def solver_of(size):
    return make_solver(Hex(size))


@functools.cache
def brute_force(size):
    return exhaustive.solve(Hex(size), position_sets.start_of(Hex(size)))


def first_legal(game):
    return lambda states: np.argmax(position_sets.legal_moves(game, states), axis=1)


def perfect(solver):
    return lambda states: np.argmax(solver.optimal_actions(states), axis=1)


def played(game, *games):
    """Positions after some moves each."""
    states = []
    for moves in games:
        x = game.init(jax.random.key(0))
        for move in moves.split():
            x = game.step(x, game.text_to_action(move, x))
        states.append(x)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


@pytest.mark.parametrize(("size", "positions", "over"), [(2, 32, 9), (3, 5514, 994)])  # by full enumeration
def test_everything_that_can_be_reached_is_found_once(size, positions, over):
    graph = position_sets.explore(Hex(size))
    assert position_sets.size_of(graph.states) == positions
    assert position_sets.is_over(Hex(size), graph.states).sum() == over


def test_edges_join_positions_with_what_follows_them():
    game = Hex(2)
    graph = position_sets.explore(game)
    after = position_sets.step(game, position_sets.rows(graph.states, graph.parent), graph.action)
    assert np.array_equal(
        position_sets.keys_of(after), position_sets.keys_of(position_sets.rows(graph.states, graph.child))
    )


def test_a_game_that_is_too_large_is_not_explored():
    with pytest.raises(TooLargeError, match="more than 100 positions"):
        position_sets.explore(Hex(3), limit=100)


def test_random_positions_are_uniform_over_the_space():
    game = Hex(2)  # 32 positions, of which 9 are over
    states = drawn_positions.random_positions(game, jax.random.key(0), 8000)
    _, counts = np.unique(position_sets.keys_of(states), return_counts=True)
    assert len(counts) == 23
    # Chi-square with 22 degrees of freedom: above 48.3 with probability 0.001.
    expected = counts.sum() / 23
    assert np.sum((counts - expected) ** 2 / expected) < 48.3


def test_value_accuracy_compares_signs_by_player():
    game = Hex(2)
    # b1 wins for Black, so that White to move has lost; after a1, White has won. The start is won for Black.
    dataset = ground_truth.label(solver_of(2), played(game, "", "b1", "a1"))
    assert dataset.value.tolist() == [1, -1, 1]
    found = ground_truth.value_accuracy(lambda states: np.array([0.1, -0.7, -0.2]), dataset)
    assert found["all"] == (2, 3)
    assert found["first_player"] == (1, 1)
    assert found["second_player"] == (1, 2)


def test_a_value_of_zero_is_neither_a_win_nor_a_loss():
    dataset = ground_truth.label(solver_of(2), played(Hex(2), "", "b1"))
    assert ground_truth.value_accuracy(lambda states: np.zeros(2), dataset)["all"] == (0, 2)


def test_policy_accuracy_counts_moves_that_keep_the_value():
    game = Hex(2)
    dataset = ground_truth.label(solver_of(2), played(game, "", "a1", "b2 a1"))
    # a1 loses at the start, where b1 and a2 win. After a1 White's b1 loses, for only a2 wins. After b2 a1, b1 wins.
    found = ground_truth.policy_accuracy(first_legal(game), dataset)
    assert found == {"all": (1, 3), "first_player": (1, 2), "second_player": (0, 1)}


def test_the_three_sets_are_disjoint_and_hold_what_they_say():
    game, solver = Hex(3), solver_of(3)
    seen = played(game, "b2", "b2 a1", "b2", "a1 b2", "a1", "c3 b1")
    sets, _ = ground_truth.make_datasets(solver, seen, jax.random.key(0), 40, decisions_only=False)
    keys = {name: set(position_sets.keys_of(part.states).tolist()) for name, part in sets.items()}
    beside = position_sets.successors(game, seen).states
    assert keys["seen"] == set(position_sets.keys_of(seen).tolist())
    assert keys["neighbouring"] <= set(position_sets.keys_of(beside).tolist())
    # Of the 8 positions after b2 and after a1 one each was seen; each of the three with two stones has 7 more.
    assert len(keys["neighbouring"]) == 7 + 7 + 3 * 7
    assert not keys["seen"] & keys["neighbouring"]
    assert not keys["random"] & (keys["seen"] | keys["neighbouring"])


def test_hard_sets_hold_decisions_alone_and_random_ones_are_won():
    sets, _ = ground_truth.make_datasets(
        solver_of(3), played(Hex(3), "b2", "a1", "a1 b2"), jax.random.key(0), 20
    )
    # After b2 White has lost whatever is played, and so has Black after a1 b2: there is nothing to decide.
    assert position_sets.keys_of(sets["seen"].states) == position_sets.keys_of(played(Hex(3), "a1"))
    for part in sets.values():
        assert np.all(np.any(part.optimal, axis=1) & np.any(part.legal & ~part.optimal, axis=1))
    assert len(sets["random"].value) == 20
    assert np.all(sets["random"].value == 1)


def test_self_play_is_read_oldest_first_from_a_ring_that_has_wrapped():
    game = Hex(2)
    state = game.init(jax.random.key(0))
    row = replay.StoredPosition(state, jnp.zeros(4), jnp.float32(1), jnp.float32(0), jnp.float32(0), None)
    ring = replay.empty(row, groups=1, capacity=4, games=4)
    for number in range(3):  # games of two positions each, told apart by their outcome
        rows = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), row)
        rows = rows._replace(outcome=jnp.array([number, number + 0.5]))
        ring = append_game(ring, 0, rows, 2)
    assert ground_truth.read_self_play(ring).outcome.tolist() == [1, 1.5, 2, 2.5]


def test_label_accuracy_compares_outcomes_with_the_truth_over_time():
    # Won for Black, lost for White, won for White, and the start again.
    states = played(Hex(2), "", "b1", "a1", "")
    labels = ground_truth.SelfPlay(states, np.array([1, 1, 1, -1], np.float32))
    found = ground_truth.label_accuracy(solver_of(2), labels, parts=2)
    assert found["all"] == (2, 4)
    assert found["first_player"] == (1, 2)
    assert found["over_time"] == [(1, 2), (1, 2)]
    assert found["so_far"] == [(1, 2), (2, 4)]


def test_mistakes_are_counted_by_category():
    game = Hex(2)
    # Black throws the won start away with a1; White takes a2, and Black has lost. In the second game Black wins by b1
    # and, whatever White does, by a2 or b2.
    records = np.array([[0, 2, 1, 3], [1, 2, 3, -1]], np.int32)
    moves = ground_truth.judge_moves(solver_of(2), records, np.array([0, 0]), seen=played(game, ""))
    found = ground_truth.count_mistakes(moves)
    # In each game Black moves twice: at the start, which was seen, and with two stones on the board.
    assert found["seen"] == ground_truth.MistakeCount(2, 1, 2, 1, 1, 0)
    assert found["neighbouring"].states == 0
    # After b1 a2, only b2 wins, and a1 does not.
    assert found["other"] == ground_truth.MistakeCount(2, 2, 1, 0, 0, 0)
    assert found["all"].mistakes == 1
    second = ground_truth.count_mistakes(moves, np.array([False, True]))
    assert second["all"] == ground_truth.MistakeCount(2, 2, 2, 0, 0, 0)


def test_mistakes_of_the_second_player_and_openings_nobody_chose():
    # a1 gives the game away; White answers b2, and gives it back: Black then joins a1 and a2.
    records = np.array([[0, 3, 2, -1]], np.int32)
    for player, skip, mistakes in ((1, 0, 1), (0, 1, 0)):
        moves = ground_truth.judge_moves(solver_of(2), records, np.array([player]), skip=skip)
        assert ground_truth.count_mistakes(moves)["all"].mistakes == mistakes


def test_a_perfect_agent_keeps_the_value_in_every_position():
    found = ground_truth.whole_game(solver_of(3), perfect(solver_of(3)))
    assert found["every_position"]
    assert found["kept"]["all"] == (4520, 4520)  # 5514 positions, 994 of them over


def test_the_share_of_kept_values_is_that_of_brute_force():
    game, truth = Hex(3), brute_force(3)
    going = ~truth.over
    chosen = np.argmax(~np.isnan(truth.action_values[going]), axis=1)
    right = truth.action_values[going][np.arange(going.sum()), chosen] == truth.values[going]
    matters = np.nanmin(truth.action_values[going], 1) < truth.values[going]
    found = ground_truth.whole_game(solver_of(3), first_legal(game))
    assert found["kept"]["all"] == (right.sum(), going.sum())
    assert found["kept_where_it_matters"]["all"] == (right[matters].sum(), matters.sum())


def test_of_a_larger_game_positions_are_drawn():
    found = ground_truth.whole_game(solver_of(3), perfect(solver_of(3)), limit=1000)
    assert not found["every_position"]
    assert found["kept"]["all"].share == 1


def test_nothing_can_be_taken_from_a_perfect_agent():
    found = ground_truth.exploitability(solver_of(3), perfect(solver_of(3)))
    assert found.total == 0
    assert (found.game_value, found.as_first, found.as_second) == (1, 1, -1)


def test_the_best_response_beats_an_agent_that_opens_with_a_losing_move():
    # On 2x2, a1 loses to White's a2; as second player everybody loses against the best play.
    found = ground_truth.exploitability(solver_of(2), first_legal(Hex(2)))
    assert (found.as_first, found.as_second) == (-1, -1)
    assert found.total == 1  # it gives away 2 as the first player and nothing as the second


@pytest.mark.parametrize(
    "game",
    [Hex(3), pytest.param(ChineseCheckers(size=4, pieces=3), marks=pytest.mark.slow)],
    ids=["hex", "checkers"],
)
def test_the_optimal_agent_gives_nothing_away_and_a_random_one_does(game):
    # Not `perfect`: it draws among the moves that keep a win, and one draw a position may lead in circles.
    solver = ground_truth.solver_for(game)
    whole, exploited = {}, {}
    for name in ("optimal", "random"):
        agent = make_agent(name, ground_truth.without_past(game))
        moves = functools.partial(suites.ask, agent, jax.random.key(0))
        whole[name] = ground_truth.whole_game(solver, moves, limit=6000)  # all of Hex, a sample of the other
        exploited[name] = ground_truth.exploitability(solver, moves).total
    assert whole["optimal"]["kept"]["all"].share == 1
    assert exploited["optimal"] == 0
    assert whole["random"]["kept_where_it_matters"]["all"].share < 0.9
    assert exploited["random"] > 0


def test_endless_play_is_a_draw_for_the_best_response():
    # Two positions that lead to each other, and one that wins for player 1: the responder prefers to win, but if only
    # the circle is there, nobody does.
    game = Hex(2)
    states = played(game, "", "a1", "a1 a2 b2 b1")  # the last one is over, won by White
    circle = np.array([0, 1, 1], np.int32), np.zeros(3, np.int32), np.array([1, 0, 2], np.int32)
    assert ground_truth.best_response(game, position_sets.Graph(states, *circle), 1) == 1
    closed = np.array([0, 1], np.int32), np.zeros(2, np.int32), np.array([1, 0], np.int32)
    assert ground_truth.best_response(game, position_sets.Graph(states, *closed), 1) == 0


def test_an_agent_that_breaks_the_rules_is_named():
    with pytest.raises(ValueError, match="not legal"):
        ground_truth.exploitability(solver_of(2), lambda states: np.zeros(len(states.board), int))


def test_games_without_a_solver_have_no_truth_judge():
    assert ground_truth.truth_judge(Hex(9)) is None
    assert ground_truth.truth_judge(PgxGame("tic_tac_toe")) is None
    assert ground_truth.truth_judge(ChineseCheckers(5, 6)) is None


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A judge of Hex 3x3, and an evaluator that reads the truth from a table, times its parameter."""
    game, table = Hex(3), jnp.asarray(hex_tables.solve_tables(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        judge = ground_truth.truth_judge(game, positions=64, simulations=4)
        ground_truth.truth_judge.cache_clear()
        again = ground_truth.truth_judge(game, positions=64, simulations=4)

    def evaluate(params, key, states):
        answer = hex_tables.look_up(3, table, jnp.sign(states.board), states.current_player, states.over)
        return 8.0 * params * answer.optimal, params * answer.value.astype(jnp.float32)

    return judge, again, jax.jit(lambda params: judge(evaluate, params))


def test_an_evaluator_that_knows_the_truth_is_right_about_everything(judged):
    _, _, compiled = judged
    assert {name: float(share) for name, share in compiled(jnp.float32(1)).items()} == {
        "value_sign_accuracy": 1,
        "policy_accuracy": 1,
        "search_accuracy": 1,
        "opening_sign_accuracy": 1,
    }


def test_an_evaluator_that_says_the_opposite_is_right_about_nothing(judged):
    _, _, compiled = judged
    shares = compiled(jnp.float32(-1))
    assert shares["value_sign_accuracy"] == shares["policy_accuracy"] == shares["opening_sign_accuracy"] == 0


def test_an_evaluator_whose_answers_are_no_numbers_has_no_share(judged):
    # Wrong values count as wrong, and a move that nobody chose might even be optimal.
    _, _, compiled = judged
    assert {name: math.isnan(share) for name, share in compiled(jnp.float32("nan")).items()} == {
        "value_sign_accuracy": True,
        "policy_accuracy": True,
        "search_accuracy": True,
        "opening_sign_accuracy": True,
    }


def test_the_judgement_of_a_network_without_answers_is_a_sentence(monkeypatch):
    class Judge:
        left_out = 0

        def __call__(self, evaluate, params):
            return {"value_sign_accuracy": jnp.float32(0.5), "policy_accuracy": params}

    monkeypatch.setattr(ground_truth, "truth_judge", lambda game, **options: Judge())
    shares, _ = parts.make_truth(SMALL, evaluate=None)
    assert shares(jnp.float32(0.25)) == {"value_sign_accuracy": 0.5, "policy_accuracy": 0.25}
    with pytest.raises(AgentError, match="the network of the run answers with numbers that are not finite"):
        shares(jnp.float32("nan"))


def test_a_judge_from_disk_is_the_judge_that_was_made(judged):
    judge, again, _ = judged
    assert again is not judge
    jax.tree.map(np.testing.assert_array_equal, judge.decisions, again.decisions)
    jax.tree.map(np.testing.assert_array_equal, judge.openings, again.openings)
    assert len(judge.decisions.value) == 64
    assert judge.decisions.is_decision.all()


def test_device_agents_are_asked_in_parts_of_equal_size():
    game = Hex(3)
    agent = Agent("first", lambda params, key, states: jnp.argmax(states.board == 0, -1))
    states = position_sets.explore(game).states
    states = position_sets.rows(states, slice(0, 150))
    assert np.array_equal(suites.ask(agent, jax.random.key(0), states), first_legal(game)(states))


def test_boards_of_chinese_checkers_are_seen_from_either_side():
    game = ChineseCheckers(3, 1, repetitions=None)
    solver = ground_truth.solver_for(game)
    start = ground_truth.label(solver, position_sets.start_of(game))
    # The start is won for whoever moves first: the board is the same from both sides.
    for player in (0, 1):
        turned = ground_truth.either_side(solver, start, player)
        assert turned.player.tolist() == [player]
        assert turned.value.tolist() == [1]
