"""Peters 2018: Dots and Boxes, from nets that go from picture to picture to a fully convolutional AlphaZero."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from azjax.common import texts
from azjax.envs import DotsAndBoxes
from azjax.nn import layers
from azjax.nn.layers import Params
from azjax.nn.networks import OWN, Network, NetworkConfig, Outputs
from azjax.theses.alphago_zero import ALPHAGO_ZERO, KERAS
from azjax.training.config import (
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)

_LSTM_FILTERS = 40


def network(blocks: int = 8, channels: int = 256, kernel_size: int = 3) -> NetworkConfig:
    """Peters's fully convolutional tower for Dots and Boxes; AlphaZeroV7 is (8, 128, 5)."""
    return replace(
        ALPHAGO_ZERO,
        **KERAS,
        blocks=blocks,
        channels=channels,
        kernel_size=kernel_size,
        first_activation_before_norm=True,
        heads="convolutional",
        head_kernel_size=kernel_size,
        policy_channels=0,
        value_channels=0,
        value_hidden=0,
    )


def config(rows: int, columns: int, iterations: int) -> TrainConfig:
    """Section 2.3 of Peters 2018: the network and search, learning from nothing."""
    return TrainConfig(
        game=DotsAndBoxes(rows=rows, columns=columns, reward="margin", observation="image"),
        network=network(),
        search=SearchConfig(
            kind="puct", simulations=1000, c=4.0, dirichlet_alpha=0.03, dirichlet_fraction=0.5
        ),
        selfplay=SelfplayConfig(
            lanes=32, plies=16, temperature=1.0, temperature_drop=1000, value_target="root"
        ),
        replay=ReplayConfig(capacity=16384, batch_size=16, reuse=5.0, warm_up=512),
        optimiser=OptimiserConfig(name="adam", learning_rate=1e-3, weight_decay=1e-4, clip_norm=None),
        iterations=iterations,
    )


PRESETS = {
    "peters2018/new-strategies": functools.partial(config, 3, 3, 400),
    "peters2018/competition": functools.partial(config, 4, 5, 400),
}


class ImageNetwork(NamedTuple):
    """A network from pictures to pictures, as pure functions."""

    init: Callable[[jax.Array], Params]  # from a key
    apply: Callable[[Params, jax.Array], jax.Array]  # pictures -> logits, with the running statistics
    train: Callable[[Params, jax.Array], tuple[jax.Array, Any]]  # pictures -> (logits, new statistics)


def pixel_network(kernel_size: int = 3, channels: int = 64) -> ImageNetwork:
    """Peters's first nets: seven convolutions from the board's picture to a class for every pixel.

    From [batch, height, width, 1] to the logits [batch, height, width, 2] of "no line" and "draw this line".
    """
    tower = network(channels=channels, kernel_size=kernel_size)
    return _image_network(lambda rngs: _PixelNet(layers.Plan(tower, rngs, None)))


def pixel_policy(config: NetworkConfig, game: DotsAndBoxes, axis_name: str | None = None) -> Network:
    """The same as a network that plays, and learns like any other; its value is always 0.

    A line's logit is that of its pixel being white. Known as `NetworkConfig(tower="peters2018-pixels")`, for pictures:
    it learns by one softmax over all lines, where Peters's had a softmax over two classes at every pixel.

    Args:
      config: whose `channels` and `kernel_size` it takes.
      game: with a picture as its observation, such as "grey".
      axis_name: of the devices over which running statistics are averaged.
    """
    pixels = pixel_network(config.kernel_size, config.channels)
    planes = game.observation_shape[-1]
    row, column, _ = game.line_pixels.T

    def outputs_of(classes: jax.Array) -> Outputs:
        logits = classes[:, row, column, 1] - classes[:, row, column, 0]
        return Outputs(logits, jnp.zeros(len(classes)))

    def apply(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        del mask
        outputs = outputs_of(pixels.apply(params, observation))
        return outputs.logits, outputs.value

    def train(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        del mask
        classes, statistics = pixels.train(params, observation)
        if axis_name is not None:
            statistics = jax.lax.pmean(statistics, axis_name)
        return outputs_of(classes), statistics

    if planes != 1:
        raise ValueError(
            f"peters2018-pixels sees a picture of one plane: observation='grey', not {game.observation!r}"
        )
    return Network(pixels.init, apply, train)


texts.register(OWN, "peters2018-pixels", pixel_policy, "network")


def sequence_network(causal: bool = False) -> ImageNetwork:
    """Peters's recurrent net: four convolutional LSTMs that read a game and guess the next picture each time.

    From [batch, time, height, width, 1] to the same shape, logits of every pixel being white in the next
    picture. The last layer joins three neighbouring times; as published it looks one picture ahead, at the
    very one it is to guess. With `causal=True` it looks at the last three; the parameters are the same.
    """
    return _image_network(lambda rngs: _SequenceNet(layers.Plan(network(), rngs, None), causal))


def _image_network(build: Callable[[nnx.Rngs], nnx.Module]) -> ImageNetwork:
    init, run = layers.take_apart(build)
    return ImageNetwork(
        init,
        lambda params, images: run(params, layers.Pass(), images)[0],
        lambda params, images: run(params, layers.Pass(train=True), images),
    )


class _PixelNet(nnx.Module):
    """Six layers (convolution, ReLU, batch normalisation) and a last convolution."""

    def __init__(self, plan: layers.Plan):
        channels, size = plan.config.channels, plan.config.kernel_size
        inputs = [1] + [channels] * 5
        self.layers = layers.Chain(
            [layers.ConvLayer(plan, planes, channels, size, activation_first=True) for planes in inputs]
        )
        self.last = plan.last_conv(channels, 2)

    def __call__(self, images: jax.Array, now: layers.Pass) -> jax.Array:
        x = jnp.transpose(images, (1, 2, 0, 3)).astype(jnp.float32)
        return jnp.transpose(self.last(self.layers(x, now), now), (2, 0, 1, 3))


class _SequenceNet(nnx.Module):
    """Four times (convolutional LSTM, batch normalisation), then a convolution over space and time."""

    def __init__(self, plan: layers.Plan, causal: bool):
        self.causal = causal
        inputs = [1] + [_LSTM_FILTERS] * 3
        self.lstms = layers.Chain([_ConvLSTM(plan, planes, _LSTM_FILTERS) for planes in inputs])
        self.last = plan.last_conv(3 * _LSTM_FILTERS, 1)

    def __call__(self, images: jax.Array, now: layers.Pass) -> jax.Array:
        batch, time, height, width, _ = images.shape
        x = jnp.transpose(images, (1, 2, 3, 0, 4)).astype(jnp.float32)  # [time, height, width, batch, 1]
        x = self.lstms(x, now)
        before, after = (2, 0) if self.causal else (1, 1)
        padded = jnp.pad(x, ((before, after), *[(0, 0)] * 4))
        x = jnp.concatenate([padded[shift : shift + time] for shift in range(3)], -1)
        y = _over_time(self.last, x, now)
        return jnp.transpose(y, (3, 0, 1, 2, 4)).reshape(batch, time, height, width, 1)


class _ConvLSTM(nnx.Module):
    """An LSTM in every cell of the board, which reads its neighbours too; then batch normalisation."""

    def __init__(self, plan: layers.Plan, planes: int, filters: int):
        self.read = plan.conv(planes, 4 * filters, 3)
        self.recall = layers.Conv(filters, 4 * filters, 3, plan.rngs, jnp.float32, False, layers.LECUN)
        self.norm = layers.Norm(plan, filters)
        forget = slice(filters, 2 * filters)
        self.read.bias[...] = self.read.bias[...].at[forget].set(1)  # remember, unless taught otherwise

    def __call__(self, x: jax.Array, now: layers.Pass) -> jax.Array:
        inputs = _over_time(self.read, x, now)

        def step(carry, read):
            memory, output = carry
            gates = jnp.split(read + self.recall(output, now), 4, axis=-1)
            enter, keep, leave = (_hard_sigmoid(gates[i]) for i in (0, 1, 3))
            memory = keep * memory + enter * jnp.tanh(gates[2])
            output = leave * jnp.tanh(memory)
            return (memory, output), output

        start = jnp.zeros((*inputs.shape[1:-1], inputs.shape[-1] // 4))
        _, outputs = jax.lax.scan(step, (start, start), inputs)
        return self.norm(outputs, now)


def _over_time(conv: layers.Conv, x: jax.Array, now: layers.Pass) -> jax.Array:
    """Convolves [time, height, width, batch, channels] at every time."""
    time, height, width, batch, channels = x.shape
    x = jnp.moveaxis(x, 0, 2).reshape(height, width, time * batch, channels)
    return jnp.moveaxis(conv(x, now).reshape(height, width, time, batch, -1), 2, 0)


def _hard_sigmoid(x: jax.Array) -> jax.Array:
    return jnp.clip(0.2 * x + 0.5, 0, 1)
