"""Networks for other programs: the weights as safetensors, and the whole network as ONNX.

An exported network is the function that searches ask, on the mover's side of the board: `observation`
[batch, *game.observation_shape] in, `logits` [batch, actions] and `value` [batch] out. Masking illegal moves and
turning actions back to the board (`game.action_frames`) is left to whoever uses it.
"""

import contextlib
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common import atomic, remote
from azjax.nn import Params, make_network
from azjax.nn.convolution import plain_convolutions
from azjax.training.checkpoint import named_weights
from azjax.training.config import TrainConfig, config_to_dict

OPSET = 21  # of ONNX
TOLERANCE = (
    1e-3  # of logits and values: two programs sum in other orders, and CPUs here convolve by Cook-Toom
)
_TALKATIVE = ("jax2onnx", "onnx_ir")


def to_safetensors(path: str | os.PathLike, config: TrainConfig, params: Params) -> None:
    """Writes weights and statistics as safetensors, named by their place in the tree; the configuration as metadata.

    Raises:
      ValueError: safetensors is not installed.
    """
    _require("safetensors")
    import safetensors.numpy

    arrays = {
        name.removeprefix("array:"): np.ascontiguousarray(array)
        for name, array in named_weights(params).items()
    }
    about = {"config": json.dumps(config_to_dict(config))}
    with atomic.writing(path, "wb") as file:
        file.write(safetensors.numpy.save(arrays, metadata=about))


def to_onnx(path: str | os.PathLike, config: TrainConfig, params: Params) -> None:
    """Writes the network as ONNX, for a batch of any size.

    Raises:
      ValueError: jax2onnx is not installed.
    """
    _require("jax2onnx")
    network = make_network(config.network, config.game)
    params = jax.tree.map(jnp.asarray, params)

    def answer(observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        return network.apply(params, observation)

    with plain_convolutions(), _quiet(), _jax_numpy_as_it_was():
        import jax2onnx  # not above: it is optional, and takes a while

        model = jax2onnx.to_onnx(
            answer,
            inputs=[("batch", *config.game.observation_shape)],
            model_name=config.game.name,
            opset=OPSET,
            input_names=["observation"],
            output_names=["logits", "value"],
        )
    with atomic.writing(path, "wb") as file:
        file.write(model.SerializeToString())


def _require(package: str) -> None:
    """Raises ValueError unless a package of the extra `export` is installed."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} is not installed: pip install 'azjax[export]'")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what jax2onnx and its helpers say of parts of jax that no network here uses."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)


@contextlib.contextmanager
def _jax_numpy_as_it_was() -> Iterator[None]:
    """jax2onnx replaces functions of jax.numpy when it is imported, by some that take less; this takes them back."""
    before = dict(vars(jnp))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(jnp, name, function)


def onnx_disagreement(
    path: str | os.PathLike, config: TrainConfig, params: Params, observations: Any
) -> float:
    """The largest difference between what onnxruntime and jax answer, of all logits and values.

    Args:
      path: of the ONNX file.
      config: of the run.
      params: its weights.
      observations: [batch, *game.observation_shape].
    """
    _require("onnxruntime")
    import onnxruntime

    session = onnxruntime.InferenceSession(
        os.fspath(remote.fetched(path)), providers=["CPUExecutionProvider"]
    )
    theirs = session.run(["logits", "value"], {"observation": np.asarray(observations, np.float32)})
    ours = jax.jit(make_network(config.network, config.game).apply)(
        params, jnp.asarray(observations, jnp.float32)
    )
    return max(float(np.abs(np.asarray(a) - b).max()) for a, b in zip(ours, theirs))
