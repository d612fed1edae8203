"""Networks for other programs: onnxruntime answers as jax does, safetensors holds every number."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import cli
from azjax.agents.trained import load_weights
from azjax.envs import DotsAndBoxes, Hex
from azjax.nn import NetworkConfig, make_network
from azjax.nn.convolution import convolve, plain_convolutions
from azjax.positions import drawn
from azjax.training import export
from tests.training_cases import SMALL

NETWORKS = {
    "convolutions, pooling, cells": (
        Hex(size=4),
        NetworkConfig(blocks=1, channels=8, value_hidden=8, policy_channels=8),
    ),
    "batch norm, win-draw-loss, dense heads": (
        DotsAndBoxes(1, 2),
        NetworkConfig(blocks=1, channels=8, heads="dense", normalisation="batch", value="wdl"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case, file", list(zip(NETWORKS, ["{}/x.onnx", "gs://bucket/x.onnx"])))
@pytest.mark.usefixtures("bucket")
def test_onnxruntime_answers_as_jax_does_in_random_positions(case, file, tmp_path):
    game, network = NETWORKS[case]
    file = pathlib.Path(file.format(tmp_path))  # as the command line has it
    config = dataclasses.replace(SMALL, game=game, network=network)
    params = make_network(network, game).init(jax.random.key(0))
    functions = dict(vars(jnp))
    export.to_onnx(file, config, params)
    changed = [name for name, function in functions.items() if getattr(jnp, name) is not function]
    assert changed == []  # else whatever this process trains later meets functions of jax2onnx
    states = drawn.random_play_positions(game, jax.random.key(1), 20)
    seen = jax.vmap(lambda x: game.observe(x, x.current_player))(states)
    assert export.onnx_disagreement(file, config, params, seen) < 1e-4
    # Of other weights it must not say so: the difference is measured, not assumed.
    other = make_network(network, game).init(jax.random.key(2))
    assert export.onnx_disagreement(file, config, other, seen) > 1e-2


def test_convolutions_for_other_programs_are_the_same_convolutions():
    x = jax.random.normal(jax.random.key(0), (4, 5, 2, 3))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3, 4))
    with plain_convolutions():
        plain = convolve(x, kernel)
        assert "platform_index" not in str(jax.make_jaxpr(convolve)(x, kernel))
    np.testing.assert_allclose(plain, convolve(x, kernel), atol=1e-4)  # Cook-Toom loses a digit
    assert plain.dtype == jnp.float32


def test_safetensors_hold_every_number_and_the_configuration(tmp_path, capsys):
    safetensors = pytest.importorskip("safetensors", reason="comes with the extra `test`")
    assert cli.main(["export", "hex3", "--safetensors", str(tmp_path / "w.safetensors")]) == 0
    params = load_weights("hex3")[1]
    with safetensors.safe_open(tmp_path / "w.safetensors", "numpy") as file:
        held = {name: file.get_tensor(name) for name in file.keys()}
        about = json.loads(file.metadata()["config"])
    assert about["game"]["name"] == "hex" and about["game"]["size"] == 3
    expected = {jax.tree_util.keystr(key): leaf for key, leaf in jax.tree_util.tree_leaves_with_path(params)}
    assert held.keys() == expected.keys()
    for name, leaf in expected.items():
        np.testing.assert_array_equal(held[name], leaf)


def test_an_export_of_nothing_is_refused(capsys):
    assert cli.main(["export", "hex3"]) == 2
    assert "--onnx FILE, --safetensors FILE" in capsys.readouterr().err


@pytest.mark.parametrize("package, option", [("jax2onnx", "--onnx"), ("safetensors", "--safetensors")])
def test_without_its_package_an_export_says_what_to_install(package, option, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["export", "hex3", option, str(tmp_path / "file")]) == 2
    assert "pip install 'azjax[export]'" in capsys.readouterr().err
    assert not (tmp_path / "file").exists()
