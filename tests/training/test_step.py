"""The compiled iteration: what it keeps, what it learns, and that devices make no difference."""

import dataclasses
import functools
import json
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import training
from azjax.envs import PgxGame
from azjax.search import SearchOutput
from azjax.search import config as search_config
from azjax.training import alphazero, step
from azjax.training.config import ConfigError, ReplayConfig, SearchConfig, SelfplayConfig
from azjax.training.openings import make_openings
from tests import processes
from tests.training_cases import SMALL, at_the_limit, digest

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def small_trainer():
    """The small run with its iteration compiled once for all tests."""
    trainer = training.make_trainer(SMALL, training.make_mesh(1))
    compiled, _ = alphazero.compile_iteration(trainer, trainer.init(jax.random.key(0)))
    return trainer._replace(iteration=compiled)


def test_an_iteration_gives_back_what_it_took():
    trainer = small_trainer()
    alphazero.check_carried(trainer.init(jax.random.key(0)), trainer.iteration)  # raises if it does not


def test_one_executable_serves_warm_up_and_learning():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    seen = set()
    for _ in range(4):
        state, metrics = trainer.iteration(state)  # an executable refuses what it was not compiled for
        seen.add(float(metrics.losses.total) > 0)
    assert seen == {False, True}


def test_the_program_of_a_run_is_given_its_openings():
    """Many megabytes on large boards: as constants they would stand in the program, and in every cache of it."""
    openings = make_openings(SMALL.game, "R4")
    positions = len(openings.plies)
    assert positions > 1000
    trainer = training.make_trainer(SMALL, training.make_mesh(1), openings=openings)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    program = alphazero.several_iterations(trainer).lower(state, np.int32(1)).as_text()
    constants = re.findall(r"constant dense<[^>]*> : tensor<([\dx]+)x\w+>", program)
    assert constants and not [sizes for sizes in constants if int(sizes.split("x")[0]) >= positions]


def test_nothing_is_learned_while_warming_up():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    before = digest(state.params)
    state, metrics = trainer.iteration(state)
    assert int(metrics.stored) < SMALL.replay.warm_up
    assert int(state.updates) == 0
    assert digest(state.params) == before


def test_learning_and_counting_go_on_past_the_largest_number():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    for _ in range(10):
        state, metrics = trainer.iteration(state)
    assert (state.ring.written > state.ring.capacity).all()
    ordinary = jax.tree.map(jnp.copy, state)
    # One each: an iteration consumes what it is given.
    positions, games, updates = (training.Count(jnp.uint32(0), jnp.uint32(2**32 - 10)) for _ in range(3))
    state = jax.device_put(
        state._replace(ring=at_the_limit(state.ring), positions=positions, games=games, updates=updates),
        jax.tree.map(lambda leaf: leaf.sharding, ordinary),
    )
    for _ in range(4):
        state, metrics = trainer.iteration(state)
        ordinary, expected = trainer.iteration(ordinary)
        row, same = alphazero.metrics_row(state, metrics), alphazero.metrics_row(ordinary, expected)
        assert row["loss"] == same["loss"] and row["loss"]["total"] > 0
        assert row["stored"] == same["stored"] == SMALL.replay.capacity
    assert digest(state.params) == digest(ordinary.params)
    assert row["positions"] == 2**32 - 10 + 4 * SMALL.selfplay.lanes * SMALL.selfplay.plies
    assert row["updates"] == 2**32 - 10 + 4 * SMALL.updates
    assert 2**32 - 10 < row["games"] < row["positions"]


def test_nothing_is_learned_before_enough_is_stored_though_every_group_has_some():
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    some = jax.device_put(jnp.ones_like(state.ring.written), state.ring.written.sharding)
    state, metrics = trainer.iteration(state._replace(ring=state.ring._replace(written=some)))
    assert SMALL.replay.groups <= int(metrics.stored) < SMALL.replay.warm_up
    assert int(state.updates) == 0


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
    # Of one update an iteration, so that the weights in between are known: 0.9 of the mean so far, the decay of the
    # small run, and 0.1 of the newest.
    config = dataclasses.replace(SMALL, replay=dataclasses.replace(SMALL.replay, updates=1))
    trainer = training.make_trainer(config, training.make_mesh(1))
    state = trainer.init(jax.random.key(0))
    while int(state.updates) < 3:
        before = jax.device_get((state.params, state.average))
        state, _ = trainer.iteration(state)
        moved = 0.0
        for old, mean, new, average in zip(*map(jax.tree.leaves, (*before, state.params, state.average))):
            np.testing.assert_allclose(average, 0.9 * mean + 0.1 * new, atol=1e-6)
            moved = max(moved, np.abs(new - old).max())
        assert int(state.updates) == 0 or moved > 1e-3  # else any mean would do


def test_the_weights_for_evaluation_follow_the_newest_by_the_decay():
    # Targets that are no numbers make every update a skipped one. The weights then stand still, and of what the
    # averaged ones are apart from them each update leaves 0.9, the decay of the small run.
    trainer = small_trainer()
    state = trainer.init(jax.random.key(0))
    while int(state.updates) == 0:
        state, _ = trainer.iteration(state)
    places = jax.tree.map(lambda leaf: leaf.sharding, state)
    rows = state.ring.rows._replace(value=jnp.full_like(state.ring.rows.value, jnp.nan))
    apart = jax.tree.map(lambda weight: weight + 1, state.params)
    state = jax.device_put(state._replace(ring=state.ring._replace(rows=rows), average=apart), places)
    before = digest(state.params)
    state, metrics = trainer.iteration(state)
    assert int(metrics.skipped_updates) == SMALL.updates
    assert digest(state.params) == before
    for newest, averaged in zip(jax.tree.leaves(state.params), jax.tree.leaves(state.average)):
        np.testing.assert_allclose(averaged - newest, 0.9**SMALL.updates, atol=1e-6)


@pytest.mark.parametrize("groups, devices, expected", [(8, 4, 8), (8, 16, 16), (8, 3, 24), (1, 256, 256)])
def test_groups_follow_the_devices(groups, devices, expected):
    replay = dataclasses.replace(SMALL.replay, groups=groups, capacity=3 * 2**14, batch_size=768)
    selfplay = dataclasses.replace(SMALL.selfplay, lanes=768)
    config = dataclasses.replace(SMALL, replay=replay, selfplay=selfplay)
    assert step.with_groups_for(config, devices).replay.groups == expected


def test_devices_that_cannot_share_the_lanes_are_refused():
    with pytest.raises(ConfigError, match=r"replay.capacity must be a multiple of groups \(24\), got 512"):
        step.with_groups_for(SMALL, 3)


@pytest.mark.usefixtures("quickly_compiled")
def test_games_are_the_same_on_any_number_of_devices():
    """Equal to the bit: every move, position, outcome and key. Equal up to rounding: policies and weights,
    because a matrix product may round differently for a batch of another size."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.training_cases", "devices", "1,2,4,8,16"],
        cwd=ROOT,
        env=processes.environment(devices=16),
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [row["devices"] for row in rows] == [1, 2, 4, 8, 16]
    for row in rows[1:]:
        assert row["played"] == rows[0]["played"]
        assert row["updates"] == rows[0]["updates"] > 0
        np.testing.assert_allclose(row["weights"], rows[0]["weights"], atol=2e-5)


@pytest.mark.parametrize(
    "kind, noise, amount", [("gumbel", "gumbel_scale", 1.0), ("puct", "dirichlet_fraction", 0.25)]
)
def test_only_full_searches_explore(kind, noise, amount, monkeypatch):
    made = []
    monkeypatch.setattr(search_config, kind, lambda game, evaluate, **options: made.append(options))
    monkeypatch.setattr(search_config, "playout_cap", lambda full, quick, share: share)
    options = SearchConfig(
        kind=kind, simulations=9, quick_simulations=3, full_share=0.5, dirichlet_fraction=0.25
    )
    assert search_config.search_from_config(options, SMALL.game, None, explore=True) == 0.5
    assert [(search["simulations"], search[noise]) for search in made] == [(9, amount), (3, 0.0)]


def test_only_the_first_moves_are_drawn_from_the_flattened_visits():
    selfplay_options = SelfplayConfig(lanes=16, flattened_opening=True, temperature_drop=4)
    choose = training.make_action_choice(dataclasses.replace(SMALL, selfplay=selfplay_options))
    lanes = 2000
    visits = jnp.tile(jnp.array([30, 10, 0]), (lanes, 1))
    legal = jnp.ones((lanes, 3), bool)
    best = jnp.zeros(lanes, jnp.int32)
    zeros = jnp.zeros(lanes)
    output = SearchOutput(best, zeros, zeros, visits, zeros, zeros, zeros)
    keys = jax.random.split(jax.random.key(0), lanes)
    assert not choose(keys, output, jnp.full(lanes, 4), legal).any()
    counts = np.bincount(choose(keys, output, jnp.full(lanes, 3), legal), minlength=3)
    # Jacobsen 2019: softmax(1.5 * share of visits), of the shares 3/4, 1/4 and 0.
    expected = lanes * np.exp([1.125, 0.375, 0.0]) / np.exp([1.125, 0.375, 0.0]).sum()
    assert (((counts - expected) ** 2) / expected).sum() < 13.8  # chi-square, 2 degrees of freedom, 99.9 %


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
def test_a_compact_replay_holds_the_same_games_and_teaches_their_policies_rounded():
    """The weights are equal until the first update, so that the games are; the losses of that iteration tell."""

    def until_it_learns(dtype):
        replay = dataclasses.replace(SMALL.replay, policy_dtype=dtype)
        trainer = training.make_trainer(dataclasses.replace(SMALL, replay=replay), training.make_mesh(1))
        state, updates = trainer.init(jax.random.key(0)), 0
        while not updates:
            state, metrics = trainer.iteration(state)
            updates = int(state.updates)
        return jax.device_get((state.ring.rows, state.lanes.moments.policy, metrics.losses))

    (whole, under_way, losses), (half, also, their_losses) = map(until_it_learns, ("float32", "bfloat16"))
    assert half.policy.nbytes * 2 == whole.policy.nbytes and also.nbytes * 2 == under_way.nbytes
    np.testing.assert_array_equal(half.policy, whole.policy.astype(half.policy.dtype))
    assert np.any(half.policy.astype(np.float32) != whole.policy)
    assert digest(half._replace(policy=None)) == digest(whole._replace(policy=None))
    # A cross-entropy is a sum of terms of one sign, each wrong by 2^-9 at most; updates between leave little.
    np.testing.assert_allclose(their_losses.policy, losses.policy, rtol=2**-8)
    np.testing.assert_allclose(their_losses.value, losses.value, rtol=2**-8)


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


def test_groups_that_the_processes_cannot_share_are_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    with pytest.raises(ValueError, match=r"replay.groups must be a multiple of .* processes \(3\), got 8"):
        training.make_mesh(groups=8)


def test_runs_that_differ_in_seed_length_openings_and_judges_share_their_program():
    mesh = training.make_mesh(1)

    def program(**changes):
        return training.make_trainer(dataclasses.replace(SMALL, **changes), mesh).iteration._function

    kind = program()
    opened = dataclasses.replace(SMALL.selfplay, openings="none", opening_share=1.0)
    judged = dataclasses.replace(SMALL.evaluation, every=7)
    assert program(seed=3, iterations=99, save_every=5, selfplay=opened, evaluation=judged) is kind
    others = {
        "selfplay": dataclasses.replace(SMALL.selfplay, temperature=0.5),
        "search": dataclasses.replace(SMALL.search, simulations=5),
        "replay": dataclasses.replace(SMALL.replay, warm_up=101),
        "optimiser": dataclasses.replace(SMALL.optimiser, ema=0.8),
        "network": dataclasses.replace(SMALL.network, channels=8),
        "selfplay_dtype": "bfloat16",
    }
    assert all(program(**{name: part}) is not kind for name, part in others.items())
