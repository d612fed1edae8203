"""The compiled iteration: what it keeps, what it learns, and that devices make no difference."""

import dataclasses
import functools
import json
import pathlib
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import checkpoint, presets, run, training
from azjax.config import ReplayConfig, SearchConfig, SelfplayConfig
from azjax.envs import PgxGame
from azjax.networks import NetworkConfig
from tests import processes
from tests.training_cases import SMALL, digest

ROOT = pathlib.Path(__file__).parent.parent


SHORT = [
    *("--iterations", "6", "--selfplay.lanes", "16", "--replay.warm-up", "100", "--replay.capacity", "512"),
    *(
        "--search.simulations",
        "4",
        "--save-every",
        "2",
        "--evaluation.pairs",
        "2",
        "--evaluation.simulations",
        "2",
    ),
    *("--evaluation.uct-simulations", "2", "--evaluation.no-truth"),
]


def with_devices(devices, module, *arguments):
    environment = processes.environment(devices)
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=600
    ).stdout


@functools.cache
def small_trainer():
    """The small run with its iteration compiled once for all tests."""
    trainer = training.make_trainer(SMALL, training.make_mesh(1))
    compiled, _ = run.compile_iteration(trainer, trainer.init(jax.random.key(0)))
    return trainer._replace(iteration=compiled)


def test_an_iteration_gives_back_what_it_took():
    trainer = small_trainer()
    run.check_carried(trainer.init(jax.random.key(0)), trainer.iteration)  # raises if it does not


def test_one_executable_serves_warm_up_and_learning():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    seen = set()
    for _ in range(4):
        state, metrics = trainer.iteration(state)  # an executable refuses what it was not compiled for
        seen.add(float(metrics.losses.total) > 0)
    assert seen == {False, True}


def test_nothing_is_learned_while_warming_up():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    before = digest(state.params)
    state, metrics = trainer.iteration(state)
    assert int(metrics.stored) < SMALL.replay.warm_up
    assert int(state.updates) == 0
    assert digest(state.params) == before


def test_self_play_uses_the_newest_weights():
    """A peer kept playing with the weights of the last evaluation."""
    trainer = small_trainer()
    results = []
    for shift in (0.0, 1.0):
        state = trainer.init(jax.random.key(0))
        weights = jax.tree.map(
            lambda w, shift=shift: w + shift * jnp.arange(w.size).reshape(w.shape), state.params.weights
        )
        state, _ = trainer.iteration(state._replace(params=state.params._replace(weights=weights)))
        results.append(digest(state.lanes.state))
    assert results[0] != results[1]


def test_the_same_key_gives_the_same_run_and_another_key_another():
    trainer = small_trainer()
    runs = []
    for seed in (0, 0, 1):
        state = trainer.init(jax.random.key(seed))
        for _ in range(3):
            state, _ = trainer.iteration(state)
        runs.append(digest(state))
    assert runs[0] == runs[1] != runs[2]


def test_evaluation_weights_are_the_running_mean():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    while int(state.updates) == 0:
        state, _ = trainer.iteration(state)
    gap = [
        float(jnp.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(state.average))
    ]
    assert max(gap) > 0


def test_games_are_the_same_on_any_number_of_devices():
    """Equal to the bit: every move, position, outcome and key. Equal up to rounding: policies and weights,
    because a matrix product may round differently for a batch of another size."""
    rows = [
        json.loads(line)
        for line in with_devices(8, "tests.training_cases", "devices", "1,2,4,8").splitlines()
    ]
    assert [row["devices"] for row in rows] == [1, 2, 4, 8]
    for row in rows[1:]:
        assert row["played"] == rows[0]["played"]
        assert row["updates"] == rows[0]["updates"] > 0
        np.testing.assert_allclose(row["weights"], rows[0]["weights"], atol=2e-5)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_two_processes_train_as_one_does_and_leave_a_run_that_one_can_continue(tmp_path):
    environment = processes.environment(devices=2)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "azjax.cli", "train", "hex3", "--out", str(tmp_path / "two"), *SHORT]
    workers = [
        subprocess.Popen(
            [*command, "--distributed", f"{address},2,{number}"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    said = [worker.communicate(timeout=600)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(said)
    with_devices(4, "azjax.cli", "train", "hex3", "--out", str(tmp_path / "one"), *SHORT)

    two, one = (checkpoint.open_run(tmp_path / name) for name in ("two", "one"))
    assert len(two.read_metrics()) == 6  # one process writes, not both
    exact = ("iteration", "positions", "games", "updates", "mean_plies", "first_player_score", "stored")
    for row, expected in zip(two.read_metrics()[:4], one.read_metrics()):  # later games see the rounding
        assert {field: row[field] for field in exact} == {field: expected[field] for field in exact}
    assert two.iterations == one.iterations
    more = [*SHORT, "--iterations", "8", "--resume"]
    with_devices(1, "azjax.cli", "train", "hex3", "--out", str(tmp_path / "two"), *more)
    assert [row["iteration"] for row in two.read_metrics()] == list(range(1, 9))


@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_self_play_stays_finite(dtype):
    config = dataclasses.replace(SMALL, selfplay_dtype=dtype)
    trainer = training.make_trainer(config, training.make_mesh(1))
    state = trainer.init(jax.random.key(0))
    for _ in range(4):
        state, metrics = trainer.iteration(state)
    assert float(metrics.losses.total) > 0
    assert int(metrics.skipped_updates) == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(state.params)))
    assert np.isfinite(jax.device_get(state.ring.rows.value)).all()


@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize(
    "changes",
    [
        {"search": SearchConfig(kind="puct", simulations=4, dirichlet_alpha=0.3)},
        {
            "search": SearchConfig(simulations=6, quick_simulations=2, full_share=0.5),
            "network": dataclasses.replace(SMALL.network, value="wdl", normalisation="batch"),
        },
        {
            "search": SearchConfig(kind="puct", simulations=4, evaluate_terminals_with_network=True),
            "selfplay": SelfplayConfig(lanes=16, plies=6, flattened_opening=True),
        },
        {
            "selfplay": SelfplayConfig(lanes=16, plies=6, openings="A1", value_target="td_lambda"),
            "replay": dataclasses.replace(SMALL.replay, window_games=64, by_game=True),
        },
    ],
    ids=["puct", "playout cap, win-draw-loss, batch norm", "category A", "openings and a window in games"],
)
def test_every_way_of_playing_and_learning_runs(changes):
    trainer = training.make_trainer(dataclasses.replace(SMALL, **changes), training.make_mesh(1))
    state = trainer.init(jax.random.key(0))
    for _ in range(4):
        state, metrics = trainer.iteration(state)
    assert float(metrics.losses.total) > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(state.params)))


@pytest.mark.usefixtures("quickly_compiled")
def test_a_game_of_pgx_trains_through_the_same_function():
    config = dataclasses.replace(
        SMALL, game=PgxGame("connect_four"), replay=ReplayConfig(capacity=1024, batch_size=32, warm_up=64)
    )
    trainer = training.make_trainer(config, training.make_mesh(1))
    state = trainer.init(jax.random.key(0))
    for _ in range(10):
        state, metrics = trainer.iteration(state)
    assert float(metrics.losses.total) > 0


def test_more_devices_than_there_are_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="devices must be between 1 and"):
        training.make_mesh(1000)


def test_every_preset_is_named_described_and_valid():
    assert len(presets.preset_names()) >= 30
    for name in presets.preset_names():
        config = presets.preset(name)
        assert presets.describe(name)
        assert isinstance(config.network, NetworkConfig)
        assert config.updates >= 1


def test_presets_of_the_theses_have_the_numbers_of_their_tables():
    daliri = presets.preset("daliri2022/hex6-A3")
    assert (daliri.search.c, daliri.search.dirichlet_alpha, daliri.selfplay.temperature_drop) == (
        1.5,
        0.310,
        8,
    )
    assert (daliri.network.blocks, daliri.network.channels, daliri.replay.capacity) == (7, 128, 2**17)
    assert daliri.selfplay.lanes * daliri.selfplay.plies == 65_536 and daliri.updates == 256
    assert (daliri.selfplay.openings, daliri.iterations) == ("A3", 100)
    jacobsen = presets.preset("jacobsen2019/D2")
    assert (jacobsen.network.blocks, jacobsen.network.block) == (13, "preactivation")
    assert (jacobsen.search.simulations, jacobsen.search.c, jacobsen.search.formula) == (
        200,
        1.27,
        "sqrt_ratio",
    )
    assert (jacobsen.selfplay.value_target, jacobsen.replay.window_games) == ("root", 1000)
    assert jacobsen.selfplay_dtype == "float16" and jacobsen.network.compute_dtype == "float32"
    assert presets.preset("jacobsen2019/A1").search.evaluate_terminals_with_network
    assert presets.preset("jacobsen2019/H2").selfplay_dtype == "float32"
    karki = presets.preset("karki2024/5x5")
    assert (karki.search.simulations, karki.replay.capacity, karki.replay.batch_size) == (128, 10_000, 128)
    assert karki.optimiser.learning_rate == 1e-5
