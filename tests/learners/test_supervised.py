"""Supervised learning: what is learned and what is held out, that it learns, and that a killed run goes on alike."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.agents import make_agent
from azjax.envs import ChineseCheckers, Hex, PositionError
from azjax.evaluation import supervision, truth
from azjax.learners import supervised
from azjax.learners.supervised import SupervisedConfig
from azjax.nn.networks import NetworkConfig
from azjax.positions import labelled, sets, write_positions
from azjax.positions.drawn import random_positions
from azjax.positions.labelled import Labelled
from azjax.training import OptimiserConfig, alphazero, checkpoint
from tests.training_cases import SMALL, digest

pytestmark = pytest.mark.usefixtures("quickly_compiled")

GAME = Hex(size=3)
DENSE = NetworkConfig(tower="mlp", blocks=2, channels=32, heads="dense", global_pooling=False)
TINY = SupervisedConfig(
    GAME,
    network=DENSE,
    optimiser=OptimiserConfig(learning_rate=1e-2, ema=0.0),
    positions=64,
    batch_size=32,
    held_out=0.2,
    judged=50,
    evaluate_every=1,
    iterations=4,
    save_every=2,
)
SILENT = {"say": lambda line: None}


def by_rule(states):
    """Labels that anybody can check: who holds the centre wins; it is the good move, or any once it is taken."""
    board = np.asarray(states.board)
    own = np.where(np.asarray(states.current_player) == 0, 1, -1)
    policy = board == 0
    policy[policy[:, 4]] = np.arange(9) == 4
    return Labelled(states, np.where(np.sign(board[:, 4]) == own, 1, -1).astype(np.float32), policy)


@pytest.fixture(scope="module")
def known():
    """Distinct positions with the labels of the rule."""
    states = random_positions(GAME, jax.random.key(1), 400)
    return by_rule(sets.rows(states, sets.first_of_each(states)))


def views(states):
    """What a network is shown of each position, in any symmetric view, as a set of boards."""
    seen = np.asarray(jax.vmap(GAME.observe)(states)).reshape(sets.size_of(states), -1)
    return [frozenset(row[table].tobytes() for table in GAME.symmetries.observation) for row in seen]


def test_every_position_is_learned_once_before_any_is_learned_twice_and_those_held_out_never(known):
    config = dataclasses.replace(TINY, positions=32)
    data = supervised.from_positions(config, known)
    held_out = {view for position in views(data.held_out.states) for view in position}
    learned = known.size - int(labelled.is_held_out(GAME, known.states, config.held_out).sum())
    keys = np.concatenate([sets.keys_of(data.draw(number).states) for number in range(12)])
    for first in range(0, len(keys) - learned, learned):
        assert len(set(keys[first : first + learned].tolist())) == learned
    shown = {
        view for number in range(12) for position in views(data.draw(number).states) for view in position
    }
    assert not shown & held_out


def test_held_out_positions_are_about_the_share_that_was_asked_for_and_drawn_ones_keep_apart(known):
    share = labelled.is_held_out(GAME, known.states, 0.2).mean()
    assert 0.1 < share < 0.3  # of 300 positions: four standard deviations
    data = supervised.from_labels(TINY, by_rule)
    assert data.held_out.size == TINY.judged
    assert data.draw(0).size == TINY.positions
    held_out = {view for position in views(data.held_out.states) for view in position}
    shown = {view for number in range(4) for position in views(data.draw(number).states) for view in position}
    assert not shown & held_out
    assert (
        digest(data.draw(3)) == digest(supervised.from_labels(TINY, by_rule).draw(3)) != digest(data.draw(2))
    )


def test_labels_become_targets_and_what_is_not_taught_has_no_weight(known):
    few = labelled.rows(known, slice(0, 3))
    split = few._replace(policy=np.array([[0, 2, 0, 0, 0, 0, 0, 6, 0], [0] * 9, [1] + [0] * 8], np.float32))
    rows = supervised.as_stored(TINY, split)
    np.testing.assert_allclose(rows.policy[0], [0, 0.25, 0, 0, 0, 0, 0, 0.75, 0])
    assert rows.policy_weight.tolist() == [1, 0, 1]  # nothing is known of the moves of the second
    assert rows.value.tolist() == few.value.tolist()
    values_only = supervised.as_stored(dataclasses.replace(TINY, teach="values"), few)
    assert not values_only.policy_weight.any()


@pytest.fixture(scope="module")
def finished(known, tmp_path_factory):
    """A run of four iterations, and its rows."""
    out, rows = tmp_path_factory.mktemp("supervised") / "run", []
    supervised.train(TINY, out, supervised.from_positions(TINY, known), watch=rows.append, **SILENT)
    return out, rows


def test_a_run_learns_the_rule_and_says_how_well(known, tmp_path):
    config = dataclasses.replace(TINY, iterations=40, evaluate_every=40, save_every=40)
    data = supervised.from_positions(config, known)
    run = supervised.train(config, tmp_path / "run", data, **SILENT)
    first, last = run.read_metrics()[0], run.read_metrics()[-1]
    assert last["loss"]["value"] < first["loss"]["value"] / 3
    assert last["positions"] == 40 * 64 and last["updates"] == 40 * 2
    _, params = checkpoint.load_agent(tmp_path / "run")
    # Counted again with the network alone.
    act = make_agent(f"net:{tmp_path / 'run'}", GAME)
    moves = np.asarray(act.act(act.params, jax.random.key(0), data.held_out.states))
    right = data.held_out.policy[np.arange(data.held_out.size), moves]
    assert last["held_out"]["of"] == data.held_out.size
    assert last["held_out"]["policy"] == pytest.approx(right.mean())
    assert last["held_out"]["policy"] > 0.9 and last["held_out"]["value"] > 0.8
    assert supervised.accuracy(GAME, DENSE, params, data.held_out)["policy"] == last["held_out"]["policy"]


def test_a_run_that_was_stopped_ends_with_the_same_bits(known, finished, tmp_path):
    data = supervised.from_positions(TINY, known)
    half = dataclasses.replace(TINY, iterations=2)
    supervised.train(half, tmp_path / "run", data, **SILENT)
    supervised.train(TINY, tmp_path / "run", data, resume=True, **SILENT)
    weights = [digest(checkpoint.load_agent(folder)[1]) for folder in (tmp_path / "run", finished[0])]
    assert weights[0] == weights[1]
    other = supervised.from_positions(TINY, labelled.rows(known, slice(0, 200)))
    with pytest.raises(checkpoint.RunError, match="other positions than when"):
        supervised.train(TINY, tmp_path / "run", other, resume=True, **SILENT)


def test_self_play_begins_with_the_weights_of_a_supervised_run(finished):
    config = dataclasses.replace(SMALL, network=DENSE)
    learning = alphazero.make_learning(config, devices=1, init_from=finished[0])
    state = learning.warm_start(learning.init())
    assert digest(state.params) == digest(checkpoint.load_agent(finished[0])[1])


def test_a_run_may_begin_with_the_weights_of_another(known, finished, tmp_path):
    data = supervised.from_positions(TINY, known)
    learning = supervised.make_learning(TINY, data, devices=1, init_from=finished[0])
    assert digest(learning.warm_start(learning.init()).average) == digest(
        checkpoint.load_agent(finished[0])[1]
    )


def test_files_keep_positions_and_what_is_known_of_them(known, tmp_path):
    path = tmp_path / "known.npz"
    for part in (known, known._replace(value=None), known._replace(policy=known.policy.astype(np.float32))):
        labelled.write(path, GAME, part)
        assert digest(labelled.read(path, GAME)) == digest(part)
    labelled.write(path, GAME, known)
    with pytest.raises(PositionError, match="is about"):
        labelled.read(path, Hex(size=4))
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(tmp_path / "short.npz", **(arrays | {"value": arrays["value"][:-1]}))
    with pytest.raises(PositionError, match="value"):
        labelled.read(tmp_path / "short.npz", GAME)
    np.savez(tmp_path / "large.npz", **(arrays | {"value": 2 * arrays["value"]}))
    with pytest.raises(PositionError, match="from -1 to 1"):
        labelled.read(tmp_path / "large.npz", GAME)
    labelled.write(path, GAME, Labelled(known.states))
    with pytest.raises(PositionError, match="nothing to learn"):
        labelled.read(path, GAME)


def test_position_files_serve_as_data(tmp_path):
    lines = [
        {"game": "hex", "size": 3, "moves": ["b2"], "value": -1, "optimal": ["a1", "c3"]},
        {"game": "hex", "size": 3, "moves": ["a1"], "value": 1, "optimal": ["b2"]},
    ]
    write_positions(tmp_path / "lines.jsonl", lines)
    found = labelled.read(tmp_path / "lines.jsonl", GAME)
    assert found.value.tolist() == [-1, 1]
    assert [np.flatnonzero(row).tolist() for row in found.policy] == [[0, 8], [4]]


def test_the_command_teaches_what_the_solver_knows_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "cache"))
    game = ChineseCheckers(3, 1, repetitions=None)
    board = ["--size", "3", "--pieces", "1", "--repetitions", "None"]
    network = ["--network.tower", "mlp", "--network.heads", "dense", "--network.no-global-pooling"]
    amounts = ["--positions", "64", "--batch-size", "32", "--judged", "20", "--iterations", "2"]
    out = tmp_path / "run"
    arguments = ["supervised", "chinese-checkers", *board, *network, *amounts, "--held-out", "0.3"]
    assert cli.main([*arguments, "--out", str(out), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2] and set(rows[-1]["held_out"]) == {
        "value",
        "policy",
        "of",
    }
    assert cli.main(["resume", str(out), "--iterations", "3"]) == 0
    assert "positions held out" in capsys.readouterr().out
    # What it was taught is the truth.
    solver = truth.solver_for(game)
    label = supervision.label_with(solver)
    taught = label(random_positions(game, jax.random.key(0), 40))
    assert (taught.value == solver.value(taught.states)).all()
    assert (taught.policy == solver.optimal_actions(taught.states)).all()
