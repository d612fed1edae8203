"""The networks of five theses: configurations of `networks`, and the few that are something else.

Jacobsen 2019, Daliri 2022, Karki 2024 and Peters 2018 used residual towers, which are values of
`NetworkConfig`; so are the variants of AlphaGo Zero that Peters describes. Kromann and Bennetsen 2019 used
small dense nets with one answer each, and Peters's first nets went from picture to picture.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from azjax import layers
from azjax.layers import Params
from azjax.networks import Network, NetworkConfig, Outputs

_ALPHAGO_ZERO = NetworkConfig(
    blocks=19,
    channels=256,
    block="original",
    normalisation="batch",
    bias=False,
    global_pooling=False,
    heads="dense",
    policy_channels=2,
    value_channels=1,
    value_hidden=256,
)
_KERAS = {"bias": True, "norm_momentum": 0.99, "norm_epsilon": 1e-3}  # what that library does unless told
_KROMANN_ACTIVATIONS = {"linear": lambda x: x, "tanh": jnp.tanh, "relu": jax.nn.relu}
_LSTM_FILTERS = 40


def alphago_zero(
    variant: Literal["dual-res", "sep-res", "dual-conv", "sep-conv"] = "dual-res", blocks: int | None = None
) -> NetworkConfig:
    """AlphaGo Zero's anatomy and its three rivals: one tower or two, of residual blocks or of convolutions.

    Args:
      blocks: residual blocks (19 unless given) or convolutions (12).
    """
    towers, kind = variant.split("-")
    tower = {"res": "resnet", "conv": "conv"}[kind]
    blocks = blocks or (19 if tower == "resnet" else 12)
    return replace(_ALPHAGO_ZERO, tower=tower, blocks=blocks, separate_towers=towers == "sep")


def jacobsen2019(
    blocks: int = 19, channels: int = 256, block: Literal["original", "preactivation"] = "original"
) -> NetworkConfig:
    """Jacobsen's tower for Hex: 13 or 19 blocks, the original ones or (his best) pre-activated ones."""
    return replace(_ALPHAGO_ZERO, blocks=blocks, channels=channels, block=block)


def daliri2022(
    depth: int = 7, width: int = 128, model: Literal["resnet", "conv2d", "mlp"] = "resnet"
) -> NetworkConfig:
    """OpenSpiel's three models, of which Daliri used "resnet", one block deeper than the board is wide."""
    sizes = {"blocks": depth, "channels": width, "value_hidden": width}
    if model == "mlp":
        return replace(_ALPHAGO_ZERO, **sizes, tower="mlp", normalisation="none", policy_hidden=width)
    return replace(_ALPHAGO_ZERO, **sizes, **_KERAS, tower={"resnet": "resnet", "conv2d": "conv"}[model])


def karki2024(blocks: int = 18, channels: int = 256) -> NetworkConfig:
    """Karki's tower for Chinese Checkers; the value comes straight from the flattened tower."""
    return replace(_ALPHAGO_ZERO, blocks=blocks, channels=channels, policy_channels=256, value_channels=0)


def peters2018(blocks: int = 8, channels: int = 256, kernel_size: int = 3) -> NetworkConfig:
    """Peters's fully convolutional tower for Dots and Boxes; AlphaZeroV7 is (8, 128, 5)."""
    return replace(
        _ALPHAGO_ZERO,
        **_KERAS,
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


def kromann2019_value(
    game: Any, hidden: Sequence[int] = (80, 40), activation: str = "relu", bias: bool = False
) -> Network:
    """The TD net of Kromann and Bennetsen: dense layers (theirs without biases), one logistic answer.

    As a `Network` it has no preference between moves, and value = 2 * chance of winning - 1.
    """

    def answer(x: jax.Array) -> Outputs:
        return Outputs(jnp.zeros((len(x), game.num_actions)), 2 * jax.nn.sigmoid(x[:, 0]) - 1)

    return _kromann2019(game, (*hidden, 1), activation, bias, answer)


def kromann2019_policy(
    game: Any, hidden: Sequence[int] = (80, 40), activation: str = "relu", bias: bool = False
) -> Network:
    """The policy net of Kromann and Bennetsen, for evolution: its logits are activated too, its value 0."""

    def answer(x: jax.Array) -> Outputs:
        return Outputs(_KROMANN_ACTIVATIONS[activation](x), jnp.zeros(len(x)))

    return _kromann2019(game, (*hidden, game.num_actions), activation, bias, answer)


def _kromann2019(game: Any, units: Sequence[int], activation: str, bias: bool, answer: Callable) -> Network:
    if activation not in _KROMANN_ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(_KROMANN_ACTIVATIONS)}, got {activation!r}")
    height, width, _ = game.observation_shape
    shapes = list(zip((height * width, *units), units))
    scale = 1 / math.sqrt(sum(map(math.prod, shapes)))

    def init(key: jax.Array) -> Params:
        keys = jax.random.split(key, len(shapes))
        layers = {f"layer_{i}": scale * jax.random.normal(keys[i], shape) for i, shape in enumerate(shapes)}
        biases = {f"bias_{i}": jnp.zeros(shape[1]) for i, shape in enumerate(shapes)} if bias else {}
        return Params(layers | biases, {})

    def train(params: Params, observation: jax.Array) -> tuple[Outputs, Any]:
        # Own stones are +1, the opponent's -1.
        x = observation[..., 0].astype(jnp.float32) - observation[..., 1].astype(jnp.float32)
        x = x.reshape(len(x), -1)
        for number in range(len(shapes)):
            x = x @ params.weights[f"layer_{number}"]
            if bias:
                x = x + params.weights[f"bias_{number}"]
            if number < len(shapes) - 1:
                x = _KROMANN_ACTIVATIONS[activation](x)
        return answer(x), {}

    def apply(params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs, _ = train(params, observation)
        return outputs.logits, outputs.value

    return Network(init, apply, train)


class ImageNetwork(NamedTuple):
    """A network from pictures to pictures, as pure functions."""

    init: Callable[[jax.Array], Params]  # from a key
    apply: Callable[[Params, jax.Array], jax.Array]  # pictures -> logits, with the running statistics
    train: Callable[[Params, jax.Array], tuple[jax.Array, Any]]  # pictures -> (logits, new statistics)


def peters2018_pixels(kernel_size: int = 3) -> ImageNetwork:
    """Peters's first nets: seven convolutions from the board's picture to a class for every pixel.

    From [batch, height, width, 1] to the logits [batch, height, width, 2] of "no line" and "draw this line".
    """
    config = peters2018(channels=64, kernel_size=kernel_size)
    return _image_network(lambda rngs: _PixelNet(layers.Plan(config, rngs, None)))


def peters2018_sequence(causal: bool = False) -> ImageNetwork:
    """Peters's recurrent net: four convolutional LSTMs that read a game and guess the next picture each time.

    From [batch, time, height, width, 1] to the same shape, logits of every pixel being white in the next
    picture. The last layer joins three neighbouring times; as published it looks one picture ahead, at the
    very one it is to guess. With `causal=True` it looks at the last three; the parameters are the same.
    """
    return _image_network(lambda rngs: _SequenceNet(layers.Plan(peters2018(), rngs, None), causal))


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
