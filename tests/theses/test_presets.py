"""The presets: named, described, valid, and with the numbers of the theses' tables."""

import pytest

from azjax import theses
from azjax.common.checked import ConfigError
from azjax.common.preset_list import DESCRIPTIONS
from azjax.envs import Hex
from azjax.nn import NetworkConfig
from azjax.training import presets
from tests.training_cases import SMALL


def test_every_preset_is_named_described_and_valid():
    assert len(theses.preset_names()) >= 30
    assert theses.preset_names() == tuple(DESCRIPTIONS), "the list and what is made are the same"
    for name in theses.preset_names():
        config = theses.preset(name)
        assert theses.describe(name)
        assert isinstance(config.network, NetworkConfig)
        assert config.updates >= 1


def test_presets_of_the_theses_have_the_numbers_of_their_tables():
    jacobsen = theses.preset("jacobsen2019/D2")
    assert (jacobsen.network.blocks, jacobsen.network.block) == (13, "preactivation")
    assert (jacobsen.search.simulations, jacobsen.search.c, jacobsen.search.formula) == (
        200,
        1.27,
        "sqrt_ratio",
    )
    assert (jacobsen.selfplay.value_target, jacobsen.replay.window_games) == ("root", 1000)
    assert jacobsen.selfplay_dtype == "float16" and jacobsen.network.compute_dtype == "float32"
    assert theses.preset("jacobsen2019/A1").search.evaluate_terminals_with_network
    assert theses.preset("jacobsen2019/H2").selfplay_dtype == "float32"


@pytest.mark.parametrize(
    "name, games, buffer, new, batch, iterations",
    [("karki2024/4x4", 6, 1000, 1.0, 64, 50), ("karki2024/5x5", 28, 10_000, 0.5, 128, 301)],
)
def test_karkis_presets_have_the_numbers_of_table_a1(name, games, buffer, new, batch, iterations):
    karki = theses.preset(name)
    assert karki.search.simulations + 1 == 128  # the root is one of them
    assert (karki.selfplay.lanes, karki.replay.capacity, karki.replay.batch_size) == (games, buffer, batch)
    assert karki.selfplay.lanes * karki.selfplay.plies == pytest.approx(new * buffer, rel=0.005)
    assert karki.updates == buffer // batch and karki.replay.distinct  # once through the buffer
    assert (karki.optimiser.learning_rate, karki.optimiser.momentum, karki.optimiser.weight_decay) == (
        1e-5,
        0.9,
        1e-4,
    )
    assert (karki.iterations, karki.game.repetitions, karki.selfplay.log) == (iterations, 6, True)


@pytest.mark.parametrize("openings", ["baseline", "A1", "A2", "A3", "A123"])
@pytest.mark.parametrize(
    ("size", "alpha", "drop", "depth", "steps"), [(6, 0.310, 8, 7, 100), (8, 0.303, 17, 9, 200)]
)
def test_presets_of_daliri_are_table_5_1(size, alpha, drop, depth, steps, openings):
    config = theses.preset(f"daliri2022/hex{size}-{openings}")
    search, selfplay, replay, optimiser = config.search, config.selfplay, config.replay, config.optimiser
    assert config.game == Hex(size)
    assert (search.kind, search.c, search.formula) == ("puct", 1.5, "alphazero")
    assert search.simulations + 1 == 150  # the thesis counts the root's evaluation
    assert (search.dirichlet_fraction, search.dirichlet_alpha) == (0.25, alpha)
    assert (selfplay.temperature, selfplay.temperature_drop) == (1, drop)
    assert selfplay.openings == ("none" if openings == "baseline" else openings)
    assert (selfplay.opening_share, selfplay.value_target) == (1, "outcome")
    assert (replay.capacity, replay.batch_size, replay.reuse, replay.overwrite) == (2**17, 512, 2, 1)
    assert selfplay.lanes * selfplay.plies == 2**17 / 2 and config.updates == 256
    assert (optimiser.name, optimiser.learning_rate, optimiser.decay) == ("adam", 1e-3, "constant")
    assert (optimiser.weight_decay, optimiser.warm_up_steps, optimiser.ema) == (1e-4, 0, 0)
    assert (config.network.tower, config.network.channels, config.network.blocks) == ("resnet", 128, depth)
    assert (config.iterations, config.save_every) == (
        steps,
        1,
    )  # with that of step 0, 101 and 201 checkpoints
    # The first step learns: even if every lane's last game were still going on and as long as can be, enough is stored.
    assert replay.warm_up <= selfplay.lanes * (selfplay.plies - config.game.max_plies + 1)


def test_the_preset_without_search_has_the_settings_of_its_paper():
    config = theses.preset("hex5-klent")
    assert (config.search.kind, config.search.entropy_weight, config.search.kl_weight) == ("klent", 0.03, 0.1)
    assert config.selfplay.value_share == pytest.approx(0.8825, abs=1e-4)  # exp(-1/8)
    played = config.selfplay.lanes * config.selfplay.plies
    assert (
        played == config.replay.capacity == config.updates * config.replay.batch_size
    )  # each is learned from once


def test_a_registered_preset_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(presets, "_PRESETS", dict(presets._PRESETS))
    presets.register_preset("mine", "a small one", lambda: SMALL)
    assert theses.preset("mine") is SMALL and theses.describe("mine") == "a small one"
    assert theses.preset_names()[-1] == "mine"


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ConfigError, match="there is a preset 'hex5' already; choose another name"):
        presets.register_preset("hex5", "another", lambda: SMALL)


def test_an_unknown_preset_is_told_which_there_are():
    with pytest.raises(ConfigError, match=r"unknown preset 'hex55'; there are tic-tac-toe, .*karki2024/4x4"):
        theses.preset("hex55")
