"""What a run opened games with, and that no judge asks it about that."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from azjax.cli import suite as suite_command
from azjax.envs import ChineseCheckers, Hex
from azjax.evaluation import judges
from azjax.evaluation import truth as ground_truth
from azjax.evaluation.opened import leave_out, openings_of
from azjax.nn.networks import make_network
from azjax.positions import drawn as drawn_positions
from azjax.positions import parse_position, write_positions
from azjax.positions import sets as position_sets
from azjax.solvers.hex.solver import make_solver
from azjax.training import checkpoint
from azjax.training.openings import make_openings
from tests.training_cases import SMALL


def with_openings(kind, share=1.0, game=None, symmetries=True):
    return dataclasses.replace(
        SMALL,
        game=game or SMALL.game,
        replay=dataclasses.replace(SMALL.replay, capacity=4096),
        selfplay=dataclasses.replace(SMALL.selfplay, openings=kind, opening_share=share),
        optimiser=dataclasses.replace(SMALL.optimiser, symmetries=symmetries),
    )


def position(moves, optimal=("a1",)):
    return parse_position({"game": "hex", "size": 3, "moves": moves.split(), "optimal": [*optimal]})


def states(*games):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(position(moves).state for moves in games))


def has(config, *games):
    return openings_of(config).has(Hex(3), states(*games)).tolist()


def test_a_run_without_openings_opens_at_the_start():
    assert has(with_openings("none"), "", "b2", "a1 b2") == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("A1", [0, 1, 0, 0]), ("A2", [0, 0, 1, 0]), ("A3", [0, 0, 0, 1]), ("A123", [0, 1, 1, 1])],
)
def test_forced_openings_are_known_by_their_length(kind, expected):
    assert has(with_openings(kind), "", "b2", "a1 b2", "c1 b3 a2") == [bool(one) for one in expected]


def test_a_share_of_openings_opens_at_the_start_too():
    assert has(with_openings("A1", 0.5), "", "b2", "a1 b2") == [True, True, False]


def test_random_openings_are_known():
    # 32768 draws of at most 2 moves reach all 1 + 9 + 72 positions; none has three stones.
    assert has(with_openings("R2"), "", "b2", "c3 a2", "c1 b3 a2") == [True, True, True, False]


def test_uniform_openings_are_known():
    config = with_openings("U", game=Hex(6))
    drawn = drawn_positions.random_positions(Hex(6), jax.random.key(5), 200)
    own = make_openings(Hex(6), "U").states
    assert openings_of(config).has(Hex(6), position_sets.rows(own, slice(0, 200))).all()
    assert openings_of(config).has(Hex(6), drawn).mean() < 0.05


def test_the_openings_of_a_file_are_known(tmp_path):
    path = tmp_path / "openings.jsonl"
    write_positions(path, [{"game": "hex", "size": 3, "moves": ["a1"]}])
    config = with_openings(str(path))
    assert has(config, "", "a1", "b2") == [False, True, False]


def test_symmetric_positions_are_the_same_where_training_turns_them(tmp_path):
    path = tmp_path / "openings.jsonl"
    write_positions(path, [{"game": "hex", "size": 3, "moves": ["a1"]}])
    # A half turn takes a1 to c3. After c1, White sees the mirrored board of no first move of Black's.
    assert has(with_openings(str(path)), "c3", "c1") == [True, False]
    assert has(with_openings(str(path), symmetries=False), "a1", "c3") == [True, False]


def test_a_missing_file_of_openings_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="put the file back"):
        openings_of(with_openings(str(tmp_path / "gone.jsonl")))


def test_positions_of_another_board_are_no_openings():
    opened = openings_of(with_openings("none"))
    assert not opened.has(Hex(4), position_sets.start_of(Hex(4))).any()
    assert opened.has(Hex(3, swap=True), position_sets.start_of(Hex(3, swap=True))).all()


def test_rules_of_ending_do_not_make_another_opening():
    game = ChineseCheckers(4, 3)
    opened = openings_of(with_openings("none", game=game))
    endless = ground_truth.without_past(game)
    assert opened.has(endless, position_sets.start_of(endless)).all()


def test_what_is_left_out_is_counted():
    opened = openings_of(with_openings("A1"))
    kept, left_out = leave_out(Hex(3), states("", "b2", "a1", "a1 b2"), opened)
    assert left_out == 2
    assert np.count_nonzero(kept.board, axis=1).tolist() == [0, 2]
    assert leave_out(Hex(3), states("b2"), None)[1] == 0


def context(config, params, **options):
    options = judges.JudgeOptions(simulations=0, positions=20, policy_simulations=(), pairs=2, **options)
    point = judges.Checkpoint(1, params, lambda: None)
    return judges.Context(config, options, lambda: point, lambda *progress: None), point


@pytest.fixture(scope="module")
def params():
    return jax.jit(make_network(SMALL.network, SMALL.game).init)(jax.random.key(0))


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [("none", 1), ("A1", 1), ("A2", 1), ("A3", 1), ("A123", 3), ("R8", 4), ("U", 4), ("file", 2)],
)
def test_the_suite_judge_leaves_openings_out(kind, left_out, params, tmp_path, quickly_compiled):
    # One position of each length, and one that only random openings reach.
    moves = ["", "b2", "a1 b2", "c1 b3 a2", "a1 a2 b1 b2 c1 c3"]
    path = tmp_path / "suite.jsonl"
    lines = [{"game": "hex", "size": 3, "moves": m.split(), "optimal": ["c2"]} for m in moves]
    write_positions(path, lines)
    write_positions(tmp_path / "file.jsonl", lines[:2])
    config = with_openings(str(tmp_path / "file.jsonl") if kind == "file" else kind)
    asked, point = context(config, params)
    expected = openings_of(config).has(Hex(3), states(*moves)).sum()
    if expected == len(moves):
        with pytest.raises(ValueError, match="all 5 positions"):
            judges.make_judge(f"suite:{path}", asked)
        return
    found = judges.make_judge(f"suite:{path}", asked)(point)
    assert found["left_out"] == expected
    assert found["all"]["positions"] == len(moves) - expected
    assert kind in ("R8", "U") or expected == left_out


def test_no_judge_asks_about_openings(params, monkeypatch, tmp_path, quickly_compiled):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))  # where another test may have left a judge
    config = with_openings("A1", 0.5)
    opened = openings_of(config)
    solver = make_solver(Hex(3))
    seen = states("", "b2", "a1 b2", "a1", "c1 b3 a2")
    asked, point = context(config, params)
    point = point._replace(played=lambda: ground_truth.SelfPlay(seen, np.ones(5)))
    asked = asked._replace(newest=lambda: point)
    labelled = []
    monkeypatch.setattr(ground_truth, "solver_for", lambda game, all_moves=False: solver)
    plain = ground_truth.label

    def label(solver, states):
        labelled.append(states)
        return plain(solver, states)

    monkeypatch.setattr(ground_truth, "label", label)
    found = {
        name: judges.make_judge(name, asked)(point) for name in ("accuracy", "whole", "truth", "mistakes")
    }
    assert labelled and not any(opened.has(Hex(3), part).any() for part in labelled)
    # The start and all nine first moves are openings. Beside the seen positions, which the start is one of, lie the
    # first moves that were not seen; all of them are openings, so that no half turn brings in a new one.
    assert found["whole"]["left_out"] == 10
    assert found["whole"]["kept"]["all"]["of"] == 4520 - 10
    assert found["accuracy"]["seen"]["left_out"] == 2 * 3
    assert found["accuracy"]["neighbouring"]["left_out"] == 2 * 7
    assert found["truth"]["left_out"] >= 9 and "opening_sign_accuracy" not in found["truth"]
    # Two random moves begin each game, so that the agent never stood in an opening.
    assert found["mistakes"]["left_out"]["states"] == 0


def test_moves_from_openings_are_counted_apart():
    records = np.array(
        [[0, 2, 1, 3], [1, 2, 3, -1]], np.int32
    )  # two games on 2x2, in which Black moves twice each
    opened = openings_of(with_openings("none", game=Hex(2)))
    moves = ground_truth.judge_moves(make_solver(Hex(2)), records, np.array([0, 0]), opened=opened)
    counts = ground_truth.count_mistakes(moves)
    assert counts["left_out"].states == 2 and counts["left_out"].mistakes == 1
    assert counts["all"].states == 2 and counts["all"].mistakes == 0


def test_a_judge_of_which_nothing_is_left_says_so(params, monkeypatch, tmp_path, quickly_compiled):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    # Of the 4520 unfinished positions, 2^17 uniform draws leave hardly one.
    solver = make_solver(Hex(3))
    monkeypatch.setattr(ground_truth, "solver_for", lambda game: solver)
    asked, point = context(with_openings("U"), params)
    found = judges.make_judge("truth", asked)(point)
    assert set(found) == {"left_out"} and found["left_out"] > 1000


@pytest.mark.parametrize("how", ["az", "net"])
def test_suite_run_leaves_openings_out_unless_asked(how, params, tmp_path, capsys, quickly_compiled):
    checkpoint.export_agent(tmp_path / "agent.npz", with_openings("A1"), params)
    suite = tmp_path / "suite.jsonl"
    moves = ["", "b2", "a1 b2"]
    write_positions(suite, [{"game": "hex", "size": 3, "moves": m.split(), "optimal": ["c2"]} for m in moves])
    text = f"{how}:{tmp_path / 'agent.npz'}" + ("?sims=2" if how == "az" else "")
    suite_command.run(["run", text, str(suite), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["left_out"], found["positions"]) == (1, [1, 3])
    assert found["summary"]["all"]["positions"] == 2
    suite_command.run(["run", text, str(suite), "--json", "--openings-too"])
    found = json.loads(capsys.readouterr().out)
    assert (found["left_out"], found["summary"]["all"]["positions"]) == (0, 3)
    suite_command.run(["run", text, str(suite)])
    assert "1 of 3 positions were left out: games were opened with them" in " ".join(
        capsys.readouterr().out.split()
    )
