"""Several boards in one run: their texts, what each plays and learns, and growing from small to large."""

import dataclasses
import functools
import json
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import agents, cli, theses, training
from azjax.envs import DotsAndBoxes, Hex, make_game
from azjax.evaluation import judges, live
from azjax.evaluation.opened import openings_of
from azjax.nn import networks
from azjax.training import alphazero, boards, checkpoint, many
from azjax.training.boards import Board
from azjax.training.config import ConfigError, NetworkConfig, TrainConfig
from tests import processes
from tests.training_cases import DOTS, HEXES, SMALL, digest, play, timeless

ROOT = pathlib.Path(__file__).parents[2]


def test_a_board_is_named_by_its_sizes_and_has_the_other_rules_of_the_game():
    assert boards.read("6", Hex(9, swap=True)) == Board(Hex(6, swap=True))
    assert boards.read("2x3@10", DotsAndBoxes(4, 4, reward="margin")) == Board(
        DotsAndBoxes(2, 3, reward="margin"), 10
    )
    assert boards.read("5x6@1-300", make_game("chinese_checkers")).game == make_game(
        "chinese_checkers", size=5, pieces=6
    )
    assert boards.name_of(Hex(6)) == "6" and boards.name_of(DotsAndBoxes(2, 3)) == "2x3"


def test_a_board_is_played_from_its_first_iteration_to_its_last():
    board = boards.read("5@3-5", Hex())
    assert [number for number in range(1, 9) if board.is_played_in(number)] == [3, 4, 5]
    assert np.array_equal(board.is_played_in(jnp.arange(1, 9)), np.isin(np.arange(1, 9), [3, 4, 5]))


def test_the_games_own_board_comes_first_and_is_played_always_unless_a_text_says_otherwise():
    assert boards.in_order((), Hex(5)) == (Board(Hex(5)),)
    assert boards.in_order(("4", "6@9"), Hex(5)) == (Board(Hex(5)), Board(Hex(4)), Board(Hex(6), 9))
    assert boards.in_order(("4", "5@9"), Hex(5)) == (Board(Hex(5), 9), Board(Hex(4)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boards": ("4x4",)}, r"boards: a board of hex is size, such as 3, 3@100 .*, got '4x4'"),
        ({"boards": ("4@0",)}, "iterations are counted from 1, .* got '4@0'"),
        ({"boards": ("4@7-6",)}, "the first before the last, got '4@7-6'"),
        ({"boards": ("99",)}, "size must be a whole number from 1 to 19, got 99"),
        ({"boards": ("4", "2", "4@9")}, "each board is named once"),
        ({"boards": ("3@5", "4@1-3")}, "no board is played in iteration 4; let one go on until then"),
        ({"boards": ("3@1-9",)}, "no board is played in iteration 10"),
        (
            {"game": DotsAndBoxes(2, 2)},
            "a board of dots_and_boxes is rows x columns, such as 3x3, .* got '2@2'",
        ),
        ({"game": make_game("tic_tac_toe")}, "tic_tac_toe has one board only; leave boards out"),
        ({"network": SMALL.network}, "network.heads must be 'convolutional' with boards: dense heads are"),
        (
            {"selfplay": dataclasses.replace(SMALL.selfplay, openings="x.jsonl")},
            "a file has positions of one",
        ),
        (
            {"selfplay": dataclasses.replace(SMALL.selfplay, log=True)},
            "selfplay.log must be False with boards",
        ),
        ({"boards": ("2", "19")}, r"at least replay.groups times the longest game \(2888\)"),
    ],
)
def test_boards_that_cannot_be_learned_together_are_refused_with_a_sentence(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(HEXES, **changes)


def test_a_network_with_other_weights_on_another_board_is_refused():
    def dense(config, game, axis_name):
        return networks.make_network(dataclasses.replace(SMALL.network), game, axis_name=axis_name)

    networks.OWN["dense-of-boards"] = dense
    try:
        config = dataclasses.replace(HEXES, network=NetworkConfig(tower="dense-of-boards"))
        with pytest.raises(ValueError, match=r"other weights on board 2 than on 3, .* that fits any size"):
            training.make_trainer(config)
    finally:
        del networks.OWN["dense-of-boards"]


def test_what_is_for_one_board_says_so():
    with pytest.raises(ConfigError, match="train_many is for runs with one board, and this one has 2@2"):
        many.train_many(HEXES, 2)
    with pytest.raises(ConfigError, match="openings must be the name of a kind with boards"):
        training.make_trainer(HEXES, openings=training.make_openings(Hex(3), "A1"))


@functools.cache
def trainer_of(config: TrainConfig):
    """A run with its iteration compiled."""
    trainer = training.make_trainer(config, training.make_mesh(1))
    state = trainer.init(jax.random.key(0))
    compiled, _ = alphazero.compile_iterations(trainer, state)

    def iteration(state):
        state, measured = compiled(state, 1)
        return state, jax.tree.map(lambda leaf: leaf[0], measured[1])

    return trainer._replace(iteration=iteration)


def games_of(state) -> list[str]:
    """Fingerprints of what is played on each board, and of what is kept of it."""
    return [digest(jax.device_get((played.lanes, played.ring))) for played in state.played]


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_a_board_plays_as_it_would_alone_and_the_weights_learn_the_mean():
    """Both alone begin with the games, replays, keys and weights of the run that has both.

    What is played then must be equal to the bit. One step of plain descent with the mean of two gradients g and h,
    w - r (g + h) / 2, is the mean of the steps w - r g and w - r h.
    """
    together = trainer_of(HEXES)
    alone = [trainer_of(boards.alone(HEXES, Hex(size))) for size in (3, 2)]
    state = together.init(jax.random.key(0))
    learned = 0
    for number in range(1, 5):
        before = jax.tree.map(jnp.copy, state)
        singles = []
        for trainer, played in zip(alone, before.played):
            single = trainer.init(jax.random.key(1)).with_played([played])
            singles.append(single._replace(params=before.params, iteration=before.iteration))
        state, metrics = together.iteration(state)
        after, of_each = zip(
            *(trainer.iteration(jax.tree.map(jnp.copy, single)) for trainer, single in zip(alone, singles))
        )
        own, other = games_of(state)
        assert own == games_of(after[0])[0]
        if number == 1:  # 2x2 is played from the second iteration on
            assert other == games_of(before)[1] and int(metrics.boards[1].counts.positions) == 0
            assert float(metrics.boards[1].losses.total) == 0
            continue
        assert other == games_of(after[1])[0]
        for board, one in zip(metrics.boards, of_each):
            assert (board.stored, *board.counts) == (one.stored, *one.counts)
        if all(int(single.updates) == 1 for single in after):
            learned += 1
            for weight, one, other in zip(*(jax.tree.leaves(run.params.weights) for run in (state, *after))):
                np.testing.assert_allclose(weight, (one + other) / 2, rtol=1e-5, atol=1e-7)
            mean = np.mean([one.losses.total for one in of_each])
            np.testing.assert_allclose(metrics.losses.total, mean, rtol=1e-5)
    assert learned > 0


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_the_replay_of_a_board_holds_its_own_positions_and_moves():
    state = trainer_of(HEXES).init(jax.random.key(0))
    for _ in range(6):
        state, _ = trainer_of(HEXES).iteration(state)
    for board, played in zip(HEXES.played, jax.device_get(state.played)):
        game, rows = board.game, played.ring.rows
        assert rows.state.board.shape[-1] == game.size**2 and rows.policy.shape[-1] == game.num_actions
        filled = np.arange(played.ring.capacity) < played.ring.written[:, None]
        assert filled.any(1).all()
        stones = np.sum(rows.state.board[filled] != 0, -1)
        assert np.array_equal(stones % 2, rows.state.current_player[filled])  # Black moves first, no swap
        assert not np.any(rows.policy[filled][rows.state.board[filled] != 0])
        np.testing.assert_allclose(rows.policy[filled].sum(-1), 1, rtol=1e-5)
        assert set(np.unique(rows.outcome[filled])) <= {-1.0, 1.0}


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_several_boards_are_the_same_on_one_device_and_on_two():
    """To the bit until weights, which are equal up to rounding, tell: see `tests.training.test_step`."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.training_cases", "devices", "2", "boards"],
        cwd=ROOT,
        env=processes.environment(devices=2),
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    one, two = play(trainer_of(HEXES), 6), json.loads(answer.stdout)
    assert two["devices"] == 2
    assert one["played"] == two["played"] and len(one["played"]) > 1
    assert one["updates"] == two["updates"] > 0
    np.testing.assert_allclose(one["weights"], two["weights"], atol=2e-5)


def test_dots_and_boxes_on_several_boards_gives_back_what_it_took():
    """The program is made, but not compiled: of 2x2 and 2x3 with their 12 and 17 lines."""
    trainer = training.make_trainer(DOTS)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    after, metrics = jax.eval_shape(trainer.iteration, state)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )
    assert [played.ring.rows.policy.shape[-1] for played in state.played] == [12, 17]
    assert [played.lanes.state.lines.shape for played in state.played] == [(16, 12), (16, 17)]
    assert len(metrics.boards) == 2


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A run that was stopped before it grew, continued; and one that was not."""
    folder = tmp_path_factory.mktemp("grown")

    def train(name, **options):
        config = dataclasses.replace(HEXES, iterations=options.pop("iterations"))
        return alphazero.train(config, folder / name, say=lambda line: None, **options)

    whole = train("whole", iterations=4)
    train("parts", iterations=1)
    return whole, train("parts", iterations=4, resume=True)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_a_run_that_grows_resumes_to_the_same_bits(grown):
    whole, resumed = grown
    like = trainer_of(HEXES).init(jax.random.key(0))
    assert digest(whole.restore(like, 4)) == digest(resumed.restore(like, 4))
    rows, same = ([timeless(row) for row in run.read_metrics()] for run in grown)
    assert rows == same
    assert [list(row["boards"]) for row in rows] == [["3"]] + [["3", "2"]] * 3
    for row in rows:
        assert row["positions_played"] == sum(of["positions_played"] for of in row["boards"].values())
        assert row["stored"] >= max(of["stored"] for of in row["boards"].values())
    with pytest.raises(checkpoint.RunError, match=r"boards: \('2@2',\) there, \('2',\) asked"):
        checkpoint.open_run(whole.path, dataclasses.replace(HEXES, boards=("2",)))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_the_saved_agent_plays_on_the_other_boards(grown):
    game = Hex(2)
    agent = agents.make_agent(f"net:{grown[0].path}", game)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], game.init(jax.random.key(0)))
    (action,) = np.asarray(agent.act(agent.params, jax.random.key(0), start))
    assert 0 <= action < 4


def test_a_judge_is_told_the_board_and_reads_the_games_of_that_one(grown):
    run, _ = grown
    asked = judges.JudgeOptions(board="4")
    assert judges.on_board("match:random", HEXES, asked) == boards.alone(HEXES, Hex(4))
    assert judges.on_board("match:random", HEXES, judges.JudgeOptions()) is HEXES
    assert judges.on_board("suite:hex5", HEXES, asked) is HEXES  # the suite says which
    assert "board=4" in judges.file_name("match:random", asked, 6)
    for size in (3, 2):
        states = judges.checkpoint_reader(run, Hex(size))(4).played().states
        assert states.board.shape[-1] == size**2
    with pytest.raises(checkpoint.RunError, match=r"has never played Hex\(size=5"):
        judges.checkpoint_reader(run, Hex(5))(4).played()


def test_while_it_trains_a_run_is_judged_on_the_boards_that_are_played_and_says_on_which(monkeypatch):
    def judge_of_board(config):
        assert config.boards == ()
        found = {"score": config.game.size}
        return lambda params, iteration: {"evaluation": {"random": found}, "truth": {"sign": 0.5}}

    monkeypatch.setattr(live, "_judge_of_board", judge_of_board)
    judge = live.make_judge(HEXES)
    assert judge(None, 2) == {
        "evaluation": {"random, board 3": {"score": 3}, "random, board 2": {"score": 2}},
        "truth": {"sign, board 3": 0.5, "sign, board 2": 0.5},
    }
    assert list(judge(None, 1)["evaluation"]) == ["random, board 3"]
    assert live.make_judge(SMALL)(None, 1)["evaluation"] == {"random": {"score": 3}}


def test_no_judge_asks_about_what_was_opened_on_any_of_the_boards():
    """A1: after the first move on either board; on 5x5 the run plays nothing."""
    opened = openings_of(HEXES)
    for size in (3, 2):
        game = Hex(size)
        after_one = game.step(game.init(jax.random.key(0)), jnp.int32(1))
        after_two = game.step(after_one, jnp.int32(2))
        states = jax.tree.map(lambda *leaves: np.stack(leaves), after_one, after_two)
        assert opened.has(game, states).tolist() == [True, False]
    start = jax.tree.map(lambda leaf: np.asarray(leaf)[None], Hex(5).init(jax.random.key(0)))
    assert opened.has(Hex(5), start).tolist() == [False]


def test_the_grown_preset_follows_the_size_of_its_last_board():
    assert theses.preset("hex9-grown").boards == ("5@1", "6@151", "7@301", "8@451", "9@601")
    assert theses.preset("hex9-grown", Hex(7)).boards == ("5@1", "6@151", "7@301")
    assert theses.preset("hex9-grown", Hex(4)).boards == ()


def test_the_command_line_refuses_boards_for_a_dense_network(tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["train", "hex3", "--boards", "4", "5@9", "--out", str(out)]) == 2
    assert "network.heads must be 'convolutional' with boards" in capsys.readouterr().err
    assert not out.exists()
