"""Many runs in one program: each is the run that its seed and learning rate make alone."""

import dataclasses
import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import azjax
from azjax import training
from azjax.common import keys
from azjax.common.memory import TooMuchMemoryError
from azjax.training import alphazero, targets
from tests.processes import environment
from tests.training_cases import SMALL

CONFIG = dataclasses.replace(SMALL, iterations=5)
PLAYED = ("positions", "games", "updates", "mean_plies", "first_player_score", "draws", "stored")


def alone(config):
    """The rows and averaged weights of one run."""
    trainer = training.make_trainer(config, training.make_mesh(1))
    state, rows = trainer.init(keys.root(config.seed, "training")), []
    for _ in range(config.iterations):
        state, metrics = trainer.iteration(state)
        rows.append(alphazero.metrics_row(state, metrics))
    return rows, jax.device_get(state.average)


@pytest.fixture(scope="module")
def three():
    return azjax.train_many(CONFIG, seeds=[0, 7, 7], learning_rates=[1e-3, 1e-3, 1e-2], snapshots=[0, 4, 5])


def test_each_run_is_the_run_alone(three):
    for config, rows, params in zip(three.configs, three.rows, three.params):
        expected_rows, expected = alone(config)
        assert [[row[name] for name in PLAYED] for row in rows] == [
            [row[name] for name in PLAYED] for row in expected_rows
        ]
        assert rows[-1]["updates"] > 0
        np.testing.assert_allclose(rows[-1]["loss"]["total"], expected_rows[-1]["loss"]["total"], rtol=1e-4)
        jax.tree.map(lambda got, wanted: np.testing.assert_allclose(got, wanted, atol=1e-5), params, expected)


def test_snapshots_are_the_weights_of_their_iterations(three):
    assert list(three.snapshots) == [0, 4, 5]
    config = three.configs[0]
    trainer = training.make_trainer(config, training.make_mesh(1))
    start = jax.device_get(trainer.init(keys.root(config.seed, "training")).average)
    _, before_the_last = alone(dataclasses.replace(config, iterations=4))
    for iteration, wanted in ((0, start), (4, before_the_last), (5, three.params[0])):
        jax.tree.map(
            lambda got, wanted: np.testing.assert_allclose(got, wanted, atol=1e-5),
            three.snapshots[iteration][0],
            wanted,
        )


def test_seeds_and_learning_rates_make_different_runs(three):
    first = [rows[0] for rows in three.rows]
    assert first[1]["mean_plies"] == first[2]["mean_plies"]  # one seed
    assert three.rows[0] != three.rows[1]
    weights = [np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(params)]) for params in three.params]
    assert np.abs(weights[1] - weights[2]).max() > 1e-3  # two learning rates
    assert three.names == ["seed-0-rate-0.001", "seed-7-rate-0.001", "seed-7-rate-0.01"]


def test_results_show_themselves_and_play(three, tmp_path):
    shown = repr(three)
    assert "3 runs of Hex" in shown and "seed-7-rate-0.01" in shown
    assert "<svg" in three._repr_html_()
    paths = three.export(tmp_path / "agents")
    assert [path.name for path in paths] == [f"{name}.npz" for name in three.names]
    assert azjax.match(f"net:{paths[0]}", f"net:{paths[2]}", pairs=2).games == 4


def test_own_parts_reach_every_run():
    seen = []

    def constant(outcomes, root_values, players, length):
        seen.append(outcomes.shape)
        return targets.outcome(outcomes, root_values, players, length)

    runs = azjax.train_many(
        dataclasses.replace(CONFIG, iterations=3),
        seeds=2,
        value_targets=constant,
        schedule=lambda step: 0.125,
        openings="R2",
    )
    assert seen
    assert [rows[-1]["learning_rate"] for rows in runs.rows] == [0.125, 0.125]
    assert runs.names == ["seed-0", "seed-1"]


def test_whoever_watches_sees_all_rows():
    told = []
    azjax.train_many(
        dataclasses.replace(CONFIG, iterations=2), seeds=2, watch=lambda *what: told.append(what)
    )
    assert [(iteration, len(rows)) for iteration, rows in told] == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"seeds": 0}, "needs a seed"),
        ({"seeds": 2, "learning_rates": []}, "needs a seed and a learning rate"),
        ({"seeds": 2, "learning_rates": [1e-3] * 3}, "got 2 seeds and 3 rates"),
        ({"seeds": [-1]}, "seed must be"),
        ({"seeds": 1, "learning_rates": [-1.0]}, "learning_rate must be"),
        ({"seeds": 3, "devices": 2}, "3 runs can be divided among"),
        ({"seeds": 1, "snapshots": [3, 6]}, "between 0 and 5 iterations, got 6"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(azjax.ConfigError, match=message):
        azjax.train_many(CONFIG, **arguments)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_made():
    large = dataclasses.replace(CONFIG, replay=dataclasses.replace(CONFIG.replay, capacity=2**22))
    with pytest.raises(TooMuchMemoryError, match="each of 10,000 runs"):
        azjax.train_many(large, seeds=10_000)


def tell_on_devices() -> None:
    """Prints the rows of four runs on one device and on four; for the test below."""
    config = dataclasses.replace(CONFIG, iterations=4)
    rows = [azjax.train_many(config, seeds=4, devices=count).rows for count in (1, 4)]
    print(json.dumps([[[[row[name] for name in PLAYED] for row in run] for run in runs] for runs in rows]))


def test_runs_are_divided_among_devices():
    program = "from tests.training import test_many; test_many.tell_on_devices()"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment(4), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    one, four = json.loads(ran.stdout.splitlines()[-1])
    assert one == four
