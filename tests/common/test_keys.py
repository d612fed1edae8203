"""Streams of random numbers: none is used twice, and training, openings and judges have nothing in common."""

import dataclasses
import pathlib
import re

import jax
import numpy as np
import pytest

import azjax
from azjax import training
from azjax.agents import make_agent
from azjax.common import keys
from azjax.envs import DotsAndBoxes, Hex
from azjax.evaluation import judges
from azjax.evaluation import truth as ground_truth
from azjax.evaluation.gated_dots import make_generate
from azjax.learners.es import ESConfig
from azjax.learners.gated import GatedConfig
from azjax.learners.session import make_learner
from azjax.learners.td import TDConfig
from azjax.nn.networks import make_network
from azjax.positions import drawn as drawn_positions
from azjax.positions import sets as position_sets
from azjax.solvers.hex.solver import make_solver
from azjax.training.openings import make_openings
from tests.key_recorder import recorded
from tests.training_cases import SMALL


def data(key):
    return np.asarray(jax.random.key_data(key)).tolist()


def small(kind, **replay):
    """A run of which an iteration does everything in few steps."""
    return dataclasses.replace(
        SMALL,
        game=Hex(2),
        search=dataclasses.replace(SMALL.search, kind=kind, simulations=2, dirichlet_fraction=0.25),
        selfplay=dataclasses.replace(SMALL.selfplay, lanes=2, plies=4, temperature_drop=2),
        replay=dataclasses.replace(
            SMALL.replay, groups=2, capacity=16, warm_up=2, batch_size=4, reuse=1.0, **replay
        ),
    )


def test_a_number_folded_into_a_key_is_one_of_its_parts():
    # The trap that `stream` avoids; should JAX ever change, this says so.
    key = jax.random.key(3)
    assert data(jax.random.fold_in(key, 1)) == data(jax.random.split(key, 4)[1])


def test_a_stream_is_no_part_of_a_key_and_differs_by_purpose():
    key = jax.random.key(3)
    streams = [data(keys.stream(key, purpose)) for purpose in ("a", "b", "openings")]
    parts = data(jax.random.split(key, 1000))
    assert len({*map(tuple, streams)}) == 3
    assert not [one for one in streams if one in parts]
    assert data(keys.stream(key, "a")) == streams[0]


def test_each_key_of_a_batch_has_its_own_stream():
    batch = jax.random.split(jax.random.key(0), (2, 3))
    found = data(keys.stream(batch, "a"))
    assert found[1][2] == data(keys.stream(batch[1, 2], "a"))


def test_no_two_purposes_of_the_program_share_a_stream():
    text = "".join(path.read_text() for path in pathlib.Path(azjax.__file__).parent.rglob("*.py"))
    purposes = {*re.findall(r'(?:stream|root|_key)\([^"()]*(?:\([^()]*\))?[^"()]*"([^"]+)"\)', text)}
    assert {"training", "openings", "judge", "evaluation", "opponent"} <= purposes
    one = jax.random.key(0)
    assert len({tuple(data(keys.stream(one, purpose))) for purpose in purposes}) == len(purposes)


@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_no_key_is_used_twice_in_training(kind, monkeypatch, quickly_compiled):
    config = small(kind, overwrite=0.5) if kind == "gumbel" else small(kind, window_games=2, by_game=True)
    with recorded(monkeypatch) as found:
        trainer = training.make_trainer(config, training.make_mesh(1))
        state = trainer.init(keys.root(0, "training"))
        for _ in range(3):
            state, metrics = trainer.iteration(state)
        assert int(state.updates) > 0
        jax.block_until_ready((state, metrics))
    assert found.draws > 50
    assert not found.twice
    assert not found.split_too
    assert not found.parts_again


@pytest.mark.parametrize(
    "config",
    [
        TDConfig(game=Hex(2), games=2, opponent="random", epsilon=0.5),
        ESConfig(game=Hex(2), games=1, population=6, opponent="random"),
    ],
    ids=["td", "es"],
)
def test_no_key_is_used_twice_by_a_step_of_a_learner(config, monkeypatch, quickly_compiled):
    with recorded(monkeypatch) as found:
        learner = make_learner(config, make_agent)

        @jax.jit
        def two_steps(key):
            init_key, *step_keys = jax.random.split(key, 3)
            state = learner.init(init_key)
            for step_key in step_keys:
                state, report = learner.step(state, learner.params(state), step_key)
            return state, report

        jax.block_until_ready(two_steps(keys.root(0, "training")))
    assert found.draws > 8
    assert not found.twice
    assert not found.split_too
    assert not found.parts_again


def test_no_key_is_used_twice_in_drawing_judged_positions(monkeypatch, quickly_compiled):
    solver, seen = make_solver(Hex(2)), position_sets.start_of(Hex(2))
    with recorded(monkeypatch) as found:
        drawn_positions.random_play_positions(Hex(2), jax.random.key(0), 10)
        ground_truth.make_datasets(solver, seen, jax.random.key(1), 4)
    assert found.draws > 4
    assert not found.twice
    assert not found.split_too
    assert not found.parts_again


@pytest.mark.parametrize(
    "name", ["accuracy", "exploitability", "truth", "match:random", "match:uct:2?reuse=1"]
)
def test_no_key_is_used_twice_by_a_judge(name, monkeypatch, tmp_path, quickly_compiled):
    config = small("puct")
    seen = position_sets.explore(Hex(2), with_moves=False).states
    seen = position_sets.rows(seen, ~position_sets.is_over(Hex(2), seen))
    played = ground_truth.SelfPlay(position_sets.rows(seen, slice(0, 10)), np.ones(10))
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    params = jax.jit(make_network(config.network, config.game).init)(jax.random.key(0))
    options = judges.JudgeOptions(simulations=2, policy_simulations=(2,), positions=4, pairs=2)
    point = judges.Checkpoint(1, params, lambda: played)
    with recorded(monkeypatch) as found:
        asked = judges.Context(config, options, lambda: point, lambda *progress: None)
        judges.make_judge(name, asked)(point)
    assert found.draws > 0
    assert not found.twice
    assert not found.split_too
    assert not found.parts_again


def test_no_key_is_used_twice_in_making_samples_of_searched_games(monkeypatch, quickly_compiled):
    config = GatedConfig(
        game=DotsAndBoxes(1, 2),
        network=dataclasses.replace(SMALL.network, ownership=False),
        search=dataclasses.replace(SMALL.search, simulations=2),
        generate="games",
        samples=16,
        window=16,
    )
    params = jax.jit(make_network(config.network, config.game).init)(jax.random.key(0))
    with recorded(monkeypatch) as found:
        make_generate(config)(params, jax.random.key(1))
    assert found.draws > 7
    assert not found.twice
    assert not found.split_too
    assert not found.parts_again


def test_judges_do_not_draw_the_openings_of_training():
    # Among 3 ** 36 boards two independent draws of some thousands have few in common: with five stones at most.
    game = Hex(6)
    openings = make_openings(game, "U").states
    for purpose in ("judge", "training", "evaluation"):
        drawn = drawn_positions.random_positions(game, keys.root(0, purpose), 4096)
        assert position_sets.is_in(drawn, openings).mean() < 0.01
    again = drawn_positions.random_positions(game, keys.root(0, "openings"), 4096)
    assert position_sets.is_in(again, openings).mean() > 0.9


def test_openings_do_not_depend_on_who_asks():
    one, other = (make_openings(Hex(3), "R4").states for _ in range(2))
    assert np.array_equal(one.board, other.board)
