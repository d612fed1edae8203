"""The presets: named, described, valid, and with the numbers of the theses' tables."""

import pytest

from azjax import theses
from azjax.common.checked import ConfigError
from azjax.common.preset_list import DESCRIPTIONS
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
    daliri = theses.preset("daliri2022/hex6-A3")
    assert (daliri.search.c, daliri.search.dirichlet_alpha, daliri.selfplay.temperature_drop) == (
        1.5,
        0.310,
        8,
    )
    assert (daliri.network.blocks, daliri.network.channels, daliri.replay.capacity) == (7, 128, 2**17)
    assert daliri.selfplay.lanes * daliri.selfplay.plies == 65_536 and daliri.updates == 256
    assert (daliri.selfplay.openings, daliri.iterations) == ("A3", 100)
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
