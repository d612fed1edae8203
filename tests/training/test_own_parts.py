"""Runs with parts of the user's own: each is used, saved runs remember them, and weights can come from another run."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import azjax
from azjax import cli, search, training
from azjax.envs import Hex
from azjax.nn import NetworkConfig
from azjax.nn.networks import make_network
from azjax.search.config import search_from_config
from azjax.training import alphazero, checkpoint, targets
from azjax.training import loss as objective
from tests.training_cases import SMALL, digest

CONVOLUTIONAL = NetworkConfig(blocks=1, channels=8)
quiet = functools.partial(azjax.train, judge=None, say=lambda line: None)


def after_iterations(config, count, mesh=None, **parts):
    """The state and metrics after some iterations."""
    trainer = training.make_trainer(config, mesh, **parts)
    iteration = trainer.iteration if mesh is not None else jax.jit(trainer.iteration)
    state, metrics = trainer.init(jax.random.key(0)), None
    for _ in range(count):
        state, metrics = iteration(state)
    return jax.device_get((state, metrics))


@pytest.fixture(scope="module")
def usual():
    return after_iterations(SMALL, 4)


def test_without_a_mesh_a_trainer_is_pure_and_makes_the_same_run(usual):
    meshed, _ = after_iterations(SMALL, 4, training.make_mesh(1))
    assert digest(meshed) == digest(usual[0])
    assert int(meshed.updates) > 0


def same_parts():
    """What the configuration would make, made by hand."""
    return {
        "search": lambda game, evaluate: search_from_config(SMALL.search, game, evaluate, explore=True),
        "loss": lambda game, network: objective.make_loss(game, network, SMALL.optimiser),
        "openings": training.make_openings(SMALL.game, "A1", 0.5),
        "value_targets": targets.outcome,
        "schedule": SMALL.optimiser.schedule(),
        "optimiser": lambda rate: optax.chain(
            optax.scale_by_adam(b1=0.9, b2=0.999),
            optax.masked(
                optax.add_decayed_weights(1e-4), lambda tree: jax.tree.map(lambda w: w.ndim > 1, tree)
            ),
            optax.scale_by_learning_rate(rate),
        ),
        "network": make_network(SMALL.network, SMALL.game),
    }


@pytest.mark.parametrize("name", same_parts())
def test_a_part_that_does_what_the_configuration_says_changes_nothing(name, usual):
    state, _ = after_iterations(SMALL, 4, **{name: same_parts()[name]})
    assert digest(state.params) == digest(usual[0].params)
    assert digest(state.lanes) == digest(usual[0].lanes)


def test_an_own_search_moves_the_games(usual):
    def shorter(game, evaluate):
        return search.puct(game, evaluate, simulations=2)

    state, _ = after_iterations(SMALL, 4, search=shorter)
    assert digest(state.lanes) != digest(usual[0].lanes)


def test_an_own_loss_is_what_is_minimised():
    def weights_alone(game, network):
        def loss(params, keys, batch):
            none = jnp.float32(0)
            size = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params.weights))
            return objective.Losses(size, none, none, none, none, none), params.statistics

        return loss

    state, metrics = after_iterations(SMALL, 6, loss=weights_alone)
    first = training.make_trainer(SMALL).init(jax.random.key(0))

    def size(params):
        return sum(float(np.sum(np.square(leaf))) for leaf in jax.tree.leaves(params.weights))

    assert size(state.params) < size(first.params)
    assert float(metrics.losses.policy) == 0.0


def test_an_own_opening_starts_every_game():
    game = SMALL.game
    centre = game.step(game.init(jax.random.key(0)), 4)
    openings = training.Openings(
        jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], centre), jnp.ones(1, jnp.int32)
    )
    state = training.make_trainer(SMALL, openings=openings).init(jax.random.key(0))
    starts = [jax.tree.map(lambda leaf, lane=lane: leaf[lane], state.lanes.state) for lane in range(4)]
    assert {game.to_notation(start) for start in starts} == {game.to_notation(centre)}


def test_own_value_targets_are_what_is_stored():
    def constant(outcomes, root_values, players, length):
        return jnp.full_like(outcomes, 0.25)

    state, _ = after_iterations(SMALL, 3, value_targets=constant)
    stored = state.ring.rows.value[0, : int(state.ring.written[0])]
    assert stored.size > 0 and np.all(stored == 0.25)


def test_own_targets_are_stored_with_the_positions_of_their_game():
    def lasts(moments, end, length):
        board = jnp.broadcast_to(end.board, (len(moments.policy), *end.board.shape))
        return {"policy": moments.policy, "length": jnp.full(len(moments.policy), length), "end": board}

    state, _ = after_iterations(SMALL, 3, own_targets=lasts)
    rows, written = jax.tree.map(lambda leaf: leaf[0], (state.ring.rows, state.ring.written))
    stones = np.sum(rows.state.board != 0, -1)[:written]
    assert written > 0
    np.testing.assert_array_equal(rows.own["policy"][:written], rows.policy[:written])
    # A game's rows stand behind each other, with a stone more each time, and all know the same end of it.
    length = rows.own["length"][:written]
    first = np.flatnonzero(np.diff(stones, prepend=99) != 1)
    np.testing.assert_array_equal(np.repeat(np.diff(first, append=written), length[first]), length)
    same = np.all(rows.own["end"][:written] == np.repeat(rows.own["end"][first], length[first], 0), -1)
    assert same.all()
    held = rows.state.board[:written] != 0
    ended = rows.own["end"][:written] != 0
    assert (ended | ~held).all() and (ended.sum(-1) > held.sum(-1)).all()


def test_an_own_schedule_is_the_learning_rate():
    _, metrics = after_iterations(SMALL, 4, schedule=lambda step: 0.5 / (1 + step))
    updates = SMALL.updates * 4
    assert 0 < float(metrics.learning_rate) < 0.5
    assert float(metrics.learning_rate) >= 0.5 / (1 + updates)


def test_saved_runs_remember_which_parts_were_the_users_own(tmp_path):
    parts = {"value_targets": targets.root_value, "schedule": lambda step: 1e-3}
    whole = quiet(dataclasses.replace(SMALL, iterations=4), tmp_path / "whole", **parts)
    quiet(dataclasses.replace(SMALL, iterations=2), tmp_path / "parts", **parts)
    with pytest.raises(azjax.RunError, match="its own schedule, value_targets; resume it with"):
        azjax.resume(tmp_path / "parts", iterations=4)
    with pytest.raises(azjax.RunError, match="its own schedule;"):
        azjax.resume(tmp_path / "parts", iterations=4, value_targets=targets.root_value)
    assert cli.main(["resume", str(tmp_path / "parts")]) != 0
    run = azjax.resume(tmp_path / "parts", iterations=4, judge=None, say=lambda line: None, **parts)
    assert digest(checkpoint.load_agent(run.path)[1]) == digest(checkpoint.load_agent(whole.path)[1])

    quiet(dataclasses.replace(SMALL, iterations=2), tmp_path / "usual")
    with pytest.raises(azjax.RunError, match="begun without an own schedule"):
        azjax.resume(tmp_path / "usual", iterations=4, schedule=lambda step: 1e-3)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    config = dataclasses.replace(SMALL, network=CONVOLUTIONAL, iterations=3)
    return quiet(config, tmp_path_factory.mktemp("first") / "run")


@pytest.mark.parametrize("size", [3, 4])
def test_a_run_begins_from_the_weights_of_another_on_any_board(first_run, tmp_path, size):
    config = dataclasses.replace(SMALL, game=Hex(size=size), network=CONVOLUTIONAL, iterations=1)
    learning = alphazero.make_learning(config, init_from=first_run.path)
    first = learning.init()
    state = learning.warm_start(first)
    _, params = checkpoint.load_agent(first_run.path)
    assert digest(state.params) == digest(state.average) == digest(params)
    assert digest(first.lanes) == digest(state.lanes)
    assert not np.any(jax.tree.leaves(state.opt_state)[0])  # nothing of the other run's optimiser


def test_resuming_a_warm_start_needs_nothing_of_the_first_run(first_run, tmp_path):
    config = dataclasses.replace(SMALL, network=CONVOLUTIONAL, iterations=2)
    copy = tmp_path / "first.npz"
    copy.write_bytes((first_run.path / "agent.npz").read_bytes())
    quiet(config, tmp_path / "run", init_from=copy)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["init_from"] == str(copy)
    longer = dataclasses.replace(config, iterations=4)
    whole = quiet(longer, tmp_path / "whole", init_from=copy)
    copy.unlink()
    with pytest.raises(azjax.RunError, match=r"has begun from .*first\.npz already"):
        quiet(longer, tmp_path / "run", resume=True, init_from=first_run.path)
    run = quiet(longer, tmp_path / "run", resume=True)
    assert digest(checkpoint.load_agent(run.path)[1]) == digest(checkpoint.load_agent(whole.path)[1])
    cold = quiet(longer, tmp_path / "cold")
    assert digest(checkpoint.load_agent(run.path)[1]) != digest(checkpoint.load_agent(cold.path)[1])


def test_weights_that_do_not_fit_are_named_and_nothing_is_left_behind(first_run, tmp_path, capsys):
    wider = dataclasses.replace(SMALL, network=NetworkConfig(blocks=1, channels=16))
    with pytest.raises(azjax.RunError, match=r"there, \[.*16.*\] here.*and \d+ more.*same --network"):
        quiet(wider, tmp_path / "wider", init_from=first_run.path)
    assert not (tmp_path / "wider").exists()
    code = cli.main(
        ["train", "hex3", "--init-from", str(tmp_path / "nothing"), "--out", str(tmp_path / "none")]
    )
    assert code != 0
    assert "nothing" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
