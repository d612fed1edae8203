"""The gated loop: what it accepts, what it learns from, and that it resumes to the same bits."""

import dataclasses

import jax
import numpy as np
import pytest

from azjax.agents import make_agent
from azjax.common.checked import ConfigError
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState
from azjax.evaluation import gated_dots
from azjax.learners import gated
from azjax.learners.gated import GatedConfig
from azjax.nn.networks import NetworkConfig
from azjax.positions.labelled import Labelled
from azjax.search.config import SearchConfig
from azjax.training.config import OptimiserConfig

GAME = DotsAndBoxes(1, 2, reward="margin")
SMALL = GatedConfig(
    game=GAME,
    network=NetworkConfig(
        tower="conv", blocks=1, channels=4, heads="convolutional", policy_channels=2, value_hidden=4
    ),
    optimiser=OptimiserConfig(learning_rate=0.01),
    search=SearchConfig(kind="puct", simulations=4),
    samples=16,
    window=16,
    epochs=2,
    batch_size=8,
    gate_games=4,
    iterations=4,
)


@pytest.fixture(autouse=True)
def quick(quickly_compiled):
    """Programs run for less time than it takes to optimise them."""


def numbered(key, number=16):
    """Samples of the empty board with one good line, which tells them apart."""
    line = int(jax.random.randint(key, (), 0, GAME.num_actions))
    policy = np.zeros((number, GAME.num_actions), np.float32)
    policy[:, line] = 1
    lines, owners = np.zeros((number, GAME.num_actions), bool), np.zeros((number, GAME.num_boxes), np.int8)
    return Labelled(
        DotsAndBoxesState(lines, owners, np.zeros(number, np.int32)), np.zeros(number, np.float32), policy
    )


class Scripted:
    """Samples and matches that note what they are asked; the matches end as they are told to."""

    def __init__(self, wins):
        self.wins, self.best, self.met = list(wins), [], []

    def generate(self, params, key):
        self.best.append(params)
        return numbered(key)

    def gate(self, contender, best, key):
        self.met.append((contender, best))
        return self.wins[len(self.met) - 1], 4


def run(config, script, folder, **options):
    return gated.train(config, folder, script.generate, script.gate, say=lambda line: None, **options)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run whose second and fourth contender win too few games."""
    script = Scripted([2, 1, 4, 1])
    folder = tmp_path_factory.mktemp("gated") / "whole"
    return script, run(SMALL, script, folder)


def test_a_contender_with_half_of_the_wins_becomes_the_best_and_one_with_fewer_does_not(whole):
    script, made = whole
    rows = made.read_metrics()
    assert [row["accepted"] for row in rows] == [True, False, True, False]
    assert [row["accepted_so_far"] for row in rows] == [1, 1, 2, 2]
    contenders = [contender for contender, _ in script.met]
    # Samples are made by, and contenders meet, the best so far.
    for number, best in enumerate((None, 0, 0, 2)):
        if best is not None:
            assert same(script.best[number], contenders[best]) and same(
                script.met[number][1], contenders[best]
            )
    assert not same(contenders[0], contenders[1])


def test_the_saved_agent_is_the_best_and_not_the_last(whole):
    script, made = whole
    agent = make_agent(f"net:{made.path}", GAME)
    assert same(agent.params, script.met[2][0]) and not same(agent.params, script.met[3][0])


def test_a_run_that_was_stopped_ends_in_the_same_bits(whole, tmp_path):
    script, made = whole
    begun = run(dataclasses.replace(SMALL, iterations=2), Scripted([2, 1]), tmp_path / "run")
    assert begun.iterations == [1, 2]
    rest = Scripted([4, 1])
    run(SMALL, rest, tmp_path / "run", resume=True)
    assert same(rest.met, script.met[2:]) and same(rest.best, script.best[2:])
    rows = [
        [
            {name: value for name, value in row.items() if "second" not in name}
            for row in folder.read_metrics()
        ]
        for folder in (made, gated.checkpoint.open_run(tmp_path / "run", SMALL))
    ]
    assert rows[0] == rows[1]


def test_without_a_match_every_contender_is_accepted(tmp_path):
    script = Scripted([])
    made = run(dataclasses.replace(SMALL, gate_games=0, iterations=2), script, tmp_path / "run")
    assert [row["accepted"] for row in made.read_metrics()] == [True, True] and not script.met


def test_the_learner_begins_anew_from_the_best_if_asked_to(tmp_path):
    # Twice the same samples: a learner that goes on from the refused network ends elsewhere.
    found = {}
    for origin in ("best", "last"):
        script = Scripted([0, 0])
        script.generate = lambda params, key: numbered(jax.random.key(0))
        config = dataclasses.replace(SMALL, go_on_from=origin, iterations=2, epochs=1)
        run(config, script, tmp_path / origin)
        found[origin] = [contender for contender, _ in script.met]
    assert same(found["best"][0], found["last"][0]) and not same(found["best"][1], found["last"][1])


def test_samples_add_up_in_a_window_that_is_longer_than_an_iteration(tmp_path):
    config = dataclasses.replace(SMALL, window=32, iterations=3)
    made = run(config, Scripted([4, 4, 4]), tmp_path / "run")
    assert [row["positions_learned"] for row in made.read_metrics()] == [2 * 16, 2 * 32, 2 * 32]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 24}, "window must be a multiple of samples"),
        ({"gate_games": 3}, "gate_games must be an even number"),
        ({"value_target": "outcome"}, "value_target must be 'root' or 'move'"),
        ({"batch_size": 12}, "batch_size must be a multiple of 8"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(SMALL, **changes)


def test_the_runs_of_peters_2018_have_his_numbers():
    runs = {name: make() for name, make in gated.PETERS2018.items()}
    new, sp, spv2 = (runs[name] for name in ("new-strategies", "competition-sp", "competition-spv2"))
    for config in runs.values():
        assert (config.samples, config.epochs, config.gate_games, config.accept) == (512, 5, 1000, 0.5)
        assert (config.network.blocks, config.network.channels, config.network.kernel_size) == (8, 256, 3)
        assert (config.optimiser.weight_decay, config.optimiser.name) == (1e-4, "adam")
        assert (config.search.dirichlet_alpha, config.search.dirichlet_fraction) == (0.03, 0.5)
        assert (config.go_on_from, config.optimiser.symmetries, config.batch_size) == ("last", True, 16)
        assert (config.mean, config.spread, config.policy_target) == (0.5, 0.125, "move")
    assert (new.iterations, new.search.simulations, new.turns, new.teacher) == (20, 1000, False, "medium")
    assert (sp.iterations, sp.search.simulations, sp.turns, sp.teacher) == (32, 1500, True, "hard")
    assert (spv2.iterations, spv2.search.simulations, spv2.turns, spv2.teacher) == (32, 1000, False, "hard")
    assert (new.game.rows, new.game.columns, new.iterations * new.samples) == (3, 3, 10_240)
    assert sp.iterations * sp.samples == 16_384


@pytest.mark.parametrize("generate", ["positions", "games"])
def test_samples_of_dots_and_boxes_are_searched_positions(generate):
    config = dataclasses.replace(
        SMALL, generate=generate, policy_target="visits", turns=generate == "positions"
    )
    make, gate = gated_dots.make_parts(config)
    params = gated.make_learning(config, make, gate).init().best
    found = make(params, jax.random.key(0))
    assert found.size == 16
    np.testing.assert_allclose(found.policy.sum(axis=1), 1, atol=1e-5)
    assert not (found.policy[np.asarray(found.states.lines)] > 0).any()
    assert (np.abs(found.value) <= 1).all()
    again = make(params, jax.random.key(0))
    assert same(found, again) and not same(found, make(params, jax.random.key(1)))


def test_a_match_of_a_network_with_itself_is_half_won():
    _, gate = gated_dots.make_parts(
        dataclasses.replace(SMALL, game=DotsAndBoxes(1, 3, reward="margin"), gate_games=20)
    )
    config = dataclasses.replace(SMALL, game=DotsAndBoxes(1, 3, reward="margin"))
    params = gated.make_learning(config, None, None).init().best
    wins, games = gate(params, params, jax.random.key(0))
    # Three boxes are never shared; each opening is played with both colours by the same network.
    assert (wins, games) == (10, 20)
