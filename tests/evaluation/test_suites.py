"""Position suites: extraction, proofs, selection, scores, the ready-made ones, the command."""

import collections
import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import cli, positions, solvers
from azjax.common.agent import Agent
from azjax.envs import Hex, PositionError
from azjax.evaluation import suite_building, suites
from azjax.positions import sets as position_sets
from azjax.solvers.core import Solution
from azjax.solvers.hex.solver import make_solver
from tests.reference import exhaustive
from tests.training_cases import SMALL

RECIPE = suite_building.Recipe(games=40, sources=("random",), max_winning=3, a_colour=12)


@functools.cache
def solver_of(size):
    return make_solver(Hex(size))


@functools.cache
def small_suite():
    return suite_building.build(Hex(3), lambda: solver_of(3), RECIPE)


def record_of(game, *games):
    records = np.full((len(games), game.max_plies), -1, np.int32)
    for row, moves in enumerate(games):
        actions = [game.text_to_action(move) for move in moves.split()]
        records[row, : len(actions)] = actions
    return records


def first_legal_agent(game):
    def act(params, key, states):
        return jnp.argmax(jax.vmap(game.legal_action_mask)(states), -1)

    return Agent("first", act)


def line(moves, optimal, size=2):
    return positions.parse_position({"game": "hex", "size": size, "moves": moves, "optimal": optimal})


def test_two_games_with_common_positions_give_each_position_once():
    # Two games of five moves like those of Daliri 2022, Figure 6.1: six positions each with the empty board, which is
    # common to both, as is the one with black b2, c1 and white b1.
    game = Hex(3)
    found = suite_building.extract_positions(game, record_of(game, "b2 b1 c1 b3 a3", "c1 b1 b2 a1 b3"))
    assert len(found.plies) == 10
    assert collections.Counter(found.plies.tolist()) == {0: 1, 1: 2, 2: 2, 3: 1, 4: 2, 5: 2}


def test_extracted_moves_lead_to_their_position():
    game = Hex(3)
    found = suite_building.extract_positions(game, record_of(game, "b2 b1 c1 b3 a3", "c1 b1 b2 a1 b3"))
    for row in range(len(found.plies)):
        x = game.init(jax.random.key(0))
        for action in found.moves[row][: found.plies[row]]:
            x = game.step(x, action)
        assert np.array_equal(x.board, found.states.board[row])


def test_bins_give_their_hardest_position_in_turn():
    bins = np.array([4, 4, 4, 9, 9, 7])
    hardness = np.array([1.0, 3.0, 2.0, 5.0, 6.0, 0.5])
    # First the hardest of 4, 7 and 9 stones, then the second ones, and so on.
    assert suite_building.select(bins, hardness, 4).tolist() == [1, 5, 4, 2]
    assert suite_building.select(bins, hardness, 100).tolist() == [1, 5, 4, 2, 3, 0]
    assert suite_building.select(bins[:0], hardness[:0], 3).tolist() == []


def test_suite_sizes_are_those_of_the_thesis():
    assert suite_building.suite_size([443, 210]) == 105
    assert suite_building.suite_size([2650, 2635]) == 250


def test_every_position_of_a_suite_holds_what_the_recipe_asks_and_brute_force_confirms_it():
    game = Hex(3)
    truth = exhaustive.solve(game, position_sets.start_of(game))
    read = [positions.parse_position(fields) for fields in small_suite().lines]
    rows = exhaustive.find(truth, positions.stack(position.state for position in read))
    for position, row in zip(read, rows):
        winning = np.flatnonzero(np.nan_to_num(truth.action_values[row]) > 0)
        named = [game.text_to_action(move, position.state) for move in position.fields["optimal"]]
        assert sorted(named) == winning.tolist()
        assert 1 <= len(winning) <= 3
        assert len(winning) < np.sum(~np.isnan(truth.action_values[row]))


def test_a_suite_has_as_many_positions_of_each_colour_as_asked_and_none_twice():
    read = [positions.parse_position(fields) for fields in small_suite().lines]
    states = positions.stack(position.state for position in read)
    assert np.bincount(states.current_player).tolist() == [12, 12]
    assert len(position_sets.first_of_each(states)) == 24


def test_the_same_recipe_makes_the_same_suite():
    assert suite_building.build(Hex(3), lambda: solver_of(3), RECIPE).lines == small_suite().lines


def test_the_counts_of_the_stages_agree():
    counts = small_suite().counts
    assert counts["games"] == 40
    assert sum(counts["won_by_player"]) + counts["lost"] + counts["not_proven"] == counts["solved_or_tried"]


class StubSolver:
    """Proves every position but those of three stones; each of its moves takes as many nodes as its number, squared.

    Who moves wins with any move after an even number of stones, and loses after an odd one.
    """

    def __init__(self, game):
        self.game = game

    def solve(self, states):
        stones = np.sum(np.asarray(states.board) != 0, axis=1)
        legal = position_sets.legal_moves(self.game, states)
        value = np.where(stones == 3, np.nan, 1 - 2 * (stones % 2)).astype(np.float32)
        return Solution(value, legal & (stones != 3)[:, None], stones != 3, stones * 0.0, stones)

    def effort(self, state, actions):
        return [action**2 for action in actions]


def test_what_the_solver_gives_up_is_unknown_and_not_lost():
    game = Hex(3)
    candidates = suite_building.extract_positions(game, record_of(game, "b2 b1 c1 b3"))
    truth = suite_building.prove(StubSolver(game), candidates)
    assert dict(zip(candidates.plies.tolist(), truth.proven.tolist())) == {
        0: True,
        1: True,
        2: True,
        3: False,
        4: True,
    }
    assert not truth.winning[candidates.plies == 3].any()


def test_effort_is_the_median_over_winning_moves_alone():
    game = Hex(3)
    candidates = suite_building.extract_positions(game, record_of(game, "b2"))
    winning = np.zeros((2, 9), bool)
    winning[0, [2, 3, 8]] = True  # 4, 9 and 64 nodes
    winning[1, [0, 5]] = True  # 0 and 25
    assert suite_building.effort(StubSolver(game), candidates, winning).tolist() == [9, 12.5]


def test_moves_to_positions_proven_before_are_looked_up_and_agree_with_the_solver():
    game = Hex(3)
    candidates = suite_building.extract_positions(game, record_of(game, "b2 a1 c1 b1 a3", "c1 a1 b2"))
    truth = suite_building.prove(solver_of(3), candidates)
    # Both games share the start and the position after b2, a1 and c1. Moves between candidates: b2 and c1 from the
    # start, a1 after each, c1 after b2 a1 and b2 after c1 a1, then b1 and a3.
    looked = dict(zip(map(tuple, candidates.moves.tolist()), truth.looked_up))
    assert int(np.sum(truth.looked_up != 0)) == 8
    start = looked[(-1,) * 9]
    assert sorted(np.flatnonzero(start)) == [2, 4] and set(start[[2, 4]]) == {1}  # c1 and b2 win on 3x3


def test_a_solver_that_contradicts_itself_is_noticed():
    game = Hex(3)

    class Wrong(StubSolver):
        def solve(self, states):  # whoever moves wins with every move, also after a move that wins
            legal = position_sets.legal_moves(self.game, states)
            ones = np.ones(len(legal))
            return Solution(ones.astype(np.float32), legal, ones > 0, ones, ones.astype(int))

    with pytest.raises(RuntimeError, match="proven twice"):
        suite_building.prove(Wrong(game), suite_building.extract_positions(game, record_of(game, "b2 b1")))


def test_source_games_of_two_players_have_both_colours_and_a_random_first_move(tmp_path):
    game, lines = Hex(3), []
    recipe = suite_building.Recipe(games=6, sources=(), players=("random", "perfect"), a_colour=2)
    records, counts = suite_building.source_games(game, recipe, jax.random.key(0))
    assert counts["games"] == len(records) == 12
    assert np.all(np.bincount(records[:, 0]) % 2 == 0)  # every opening is played twice
    assert len(counts["distinct_games_by_colour"]) == 2
    for record in records:
        moves = ";".join(
            f"{'BW'[n % 2]}[{game.action_to_text(a)}]" for n, a in enumerate(record[record >= 0])
        )
        lines.append(f"(;FF[4]GM[11]SZ[3];{moves})")
    (tmp_path / "games.sgf").write_text("\n".join(lines))
    read = suite_building.Recipe(sources=(), records=(str(tmp_path / "games.sgf"),), a_colour=2)
    again, _ = suite_building.source_games(game, read, jax.random.key(1))
    assert np.array_equal(again, records)
    with pytest.raises(ValueError, match="is not of"):
        suite_building.source_games(Hex(4), read, jax.random.key(1))


def test_a_suite_says_whose_openings_its_positions_are_and_can_leave_them_out(tmp_path):
    game = Hex(3)
    states = positions.stack(
        line(moves, ["b2"], size=3).state for moves in ([], ["a1"], ["c3"], ["a1", "b1"])
    )
    presets = {"A1": SMALL, "all": dataclasses.replace(SMALL, game=Hex(4))}
    # SMALL opens half of its games with a first move, the others at the start; the other preset has another board.
    assert suite_building.opened_by(game, states, presets) == [["A1"], ["A1"], ["A1"], []]
    fields = [
        {"game": "hex", "size": 3, "moves": ["a1"], "optimal": ["b2"], "opened_by": ["A1"]},
        {"game": "hex", "size": 3, "moves": ["a1", "b1"], "optimal": ["b2"], "opened_by": []},
    ]
    positions.write_positions(tmp_path / "marked.jsonl", fields)
    asked = suites.run_suite("random", tmp_path / "marked.jsonl", unopened=True)
    assert asked.numbers == [1] and asked.left_out == 1
    positions.write_positions(tmp_path / "plain.jsonl", [fields[0] | {"opened_by": None}])
    with pytest.raises(ValueError, match="does not say which"):
        suites.run_suite("random", tmp_path / "plain.jsonl", unopened=True)


def test_building_goes_on_with_what_was_proven_and_measured_before(tmp_path, monkeypatch):
    game = Hex(5)
    recipe = suite_building.Recipe(games=2, sources=("random",), fewest_moves=14, most_moves=16, a_colour=1)
    built = suite_building.build(game, lambda: make_solver(game), recipe, proofs=tmp_path / "proofs")
    assert {len(fields["moves"]) for fields in built.lines} <= {14, 15, 16}

    solver = make_solver(game)
    monkeypatch.setattr(solver, "_own_searcher", lambda: None)  # nothing is left to be searched
    monkeypatch.setattr(solver, "effort", None)
    again = suite_building.build(game, lambda: solver, recipe, proofs=tmp_path / "proofs")
    assert again == built


def test_the_score_is_the_share_of_optimal_moves_by_colour():
    # The agent plays the first empty cell of a1, b1, a2, b2.
    suite = [
        line([], ["b1", "a2"]),  # Black plays a1: wrong; 2 of 4 moves are right
        line(["b2", "a1"], ["b1"]),  # Black plays b1: right; 1 of 2
        line(["a1"], ["a2"]),  # White plays b1: wrong; 1 of 3
        line(["a1", "a2", "b1"], ["b2"]),  # White plays b2: right; 1 of 1
    ]
    result = suites.run(first_legal_agent, suite, jax.random.key(0))
    assert [answer.move for answer in result.answers] == ["a1", "b1", "b1", "b2"]
    assert (result.all.correct, result.all.positions) == (2, 4)
    assert [score.correct for score in result.by_player] == [1, 1]
    assert result.all.chance == pytest.approx((2 / 4 + 1 / 2 + 1 / 3 + 1) / 4)


def test_an_agent_that_knows_the_solver_answers_everything():
    game = Hex(3)

    def act(params, key, states):
        return np.argmax(solver_of(3).optimal_actions(states), axis=1)

    suite = [positions.parse_position(fields) for fields in small_suite().lines]
    result = suites.run(lambda game: Agent("solver", act, on_host=True), suite, jax.random.key(0))
    assert result.all.share == 1
    assert game.num_actions == 9


def test_a_move_that_is_not_legal_is_wrong_and_has_no_name():
    def act(params, key, states):
        return np.zeros(len(states.current_player), np.int32)

    result = suites.run(
        lambda game: Agent("stubborn", act, on_host=True), [line(["a1"], ["b1"])], jax.random.key(0)
    )
    assert result.answers[0].move is None
    assert not result.answers[0].correct


def test_suites_of_several_boards_are_answered_in_the_order_of_the_file():
    suite = [line([], ["a1"], size=3), line(["a1"], ["a2"]), line(["a1"], ["b1"], size=3)]
    result = suites.run(first_legal_agent, suite, jax.random.key(0))
    assert [answer.correct for answer in result.answers] == [True, False, True]


@pytest.mark.parametrize(
    ("name", "size", "fewest", "bounds"),
    [("hex5", 5, 250, (1, 5)), ("hex6", 6, 100, (1, 5)), ("hex8", 8, 100, (2, 4))],
)
def test_ready_made_suites_are_what_their_recipe_says(name, size, fewest, bounds):
    lines = [json.loads(text) for text in suites.find_suite(name).read_text().splitlines()]
    recipe = json.loads(suites.find_suite(name).with_suffix(".recipe.json").read_text())
    assert {fields["size"] for fields in lines} == {size} == {recipe["size"]}
    to_move = collections.Counter(len(fields["moves"]) % 2 for fields in lines)
    assert [to_move[0], to_move[1]] == recipe["counts"]["chosen_by_player"]
    assert min(to_move.values()) >= fewest
    assert all(bounds[0] <= len(fields["optimal"]) <= bounds[1] for fields in lines)


def test_moves_of_a_ready_made_suite_are_proven_again():
    suite = suites.read_suite("hex5")[::50]
    optimal = solver_of(5).optimal_actions(positions.stack(position.state for position in suite))
    for position, mask in zip(suite, optimal):
        named = {position.game.action_to_text(action) for action in np.flatnonzero(mask)}
        assert named == set(position.fields["optimal"])


def test_the_suite_of_connect_four_is_nobodys_opening_and_proven_again():
    suite = suites.read_suite("connect4")
    recipe = json.loads(suites.find_suite("connect4").with_suffix(".recipe.json").read_text())
    assert recipe["counts"]["chosen_by_player"] == [100, 100]
    assert len(suites.nobodys_openings(suite)) == len(suite) == 200
    assert {len(position.fields["moves"]) for position in suite} >= set(range(9, 30))
    late = [position for position in suite if len(position.fields["moves"]) >= 16][::10]
    optimal = solvers.make_solver(late[0].game).optimal_actions(
        positions.stack(position.state for position in late)
    )
    for position, mask in zip(late, optimal):
        named = {position.game.action_to_text(action) for action in np.flatnonzero(mask)}
        assert named == set(position.fields["optimal"])


def test_a_suite_without_answers_is_refused(tmp_path):
    (tmp_path / "plain.jsonl").write_text('{"game": "hex", "size": 3}\n')
    with pytest.raises(PositionError, match='position 1: a suite needs "optimal"'):
        suites.read_suite(tmp_path / "plain.jsonl")


def test_an_unknown_suite_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"there is no suite hex99; give a file, or one of .*hex5"):
        suites.find_suite("hex99")


def test_a_recipe_of_unknown_games_is_refused():
    with pytest.raises(ValueError, match="sources must be some of random, mixed, strong"):
        suite_building.Recipe(sources=("weak",))


def test_the_command_prints_every_answer_and_the_summary(tmp_path, capsys):
    (tmp_path / "two.jsonl").write_text(
        '{"game": "hex", "size": 2, "moves": ["a1", "a2", "b1"], "optimal": ["b2"]}\n'
        '{"game": "hex", "size": 2, "moves": ["b2", "a1", "a2"], "optimal": [1]}\n'
    )
    assert cli.main(["suite", "run", "random", str(tmp_path / "two.jsonl"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    # One cell is left in each position: b2, which is action 3, and b1, which is action 1.
    assert [(answer["move"], answer["action"]) for answer in printed["answers"]] == [("b2", 3), ("b1", 1)]
    assert printed["summary"]["all"]["share"] == 1
    assert printed["summary"]["by_player"][0] is None


def test_the_command_builds_a_suite_with_its_recipe(tmp_path, capsys):
    out = tmp_path / "hex2.jsonl"
    arguments = ["--size", "2", "--sources", "random", "--games", "8", "--a-colour", "1", "--out", str(out)]
    assert cli.main(["suite", "build", "hex", *arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "hex2.recipe.json").read_text())
    assert len(suites.read_suite(out)) == 2
