"""What networks are built of: towers that read a board, heads that answer from it (flax NNX modules).

`networks.make_network` puts them together and hands out pure functions. Inside, a board is
[height, width, batch, channels] (see `convolution`). Modules are built from a `Plan` and called with a
`Pass`, which says what kind of pass this is and which cells exist.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from azjax.nn.convolution import convolve

ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}
NORMALISATIONS = {"none": None, "layer": nnx.LayerNorm, "rms": nnx.RMSNorm, "batch": nnx.BatchNorm}


def _kernel_of_variance(gain: float) -> Callable:
    """An initialiser that fills a kernel with the standard deviation its numbers shall have.

    `take_apart` multiplies all kernels by random numbers drawn at once: to draw them one by one costs XLA half
    a second of compilation a kernel.
    """
    return lambda key, shape, dtype: jnp.full(shape, math.sqrt(gain / math.prod(shape[:-1])), dtype)


_HE = _kernel_of_variance(2.0)
LECUN = _kernel_of_variance(1.0)
_ZERO = _kernel_of_variance(0.0)
# Last layers start a tenth as large as usual, so that an untrained network hardly prefers any move.
_SMALL = _kernel_of_variance(0.01)


class Pass(NamedTuple):
    """What every module is told beside its input."""

    mask: jax.Array | None = None  # [height, width, batch or 1, 1] bool, which cells exist; None if all do
    train: bool = False  # batch normalisation uses the batch's statistics and updates the running ones


class Params(NamedTuple):
    """The parameters of a network: two trees of arrays, float32, under the names of its layers."""

    weights: Any  # what learning changes
    statistics: Any  # running means and variances of batch normalisation; empty without it


def take_apart(build: Callable[[nnx.Rngs], nnx.Module]) -> tuple[Callable, Callable]:
    """Turns a module into pure functions, so that no module ever passes through jit.

    Returns:
      init(key) -> Params, and run(params, now, *inputs) -> (what the module returns, new statistics).
    """

    def make() -> nnx.Module:
        return build(nnx.Rngs(params=0))  # draws nothing, see `_kernel_of_variance`

    def init(key: jax.Array) -> Params:
        weights, statistics = _arrays(make())
        return Params(_randomised(weights, key), statistics)

    abstract = nnx.eval_shape(make)
    graph, expected = nnx.graphdef(abstract), _arrays(abstract)

    def run(params: Params, now: Pass, *inputs: jax.Array) -> tuple[Any, Any]:
        _check_params(params, expected)
        module = nnx.merge(graph, params.weights, params.statistics)
        return module(*inputs, now), _arrays(module).statistics

    return init, run


def _arrays(module: nnx.Module) -> Params:
    return Params(*(nnx.to_pure_dict(nnx.state(module, kind)) for kind in (nnx.Param, nnx.BatchStat)))


def _randomised(weights: Any, key: jax.Array) -> Any:
    """Multiplies every kernel by normal random numbers, all from one draw."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(weights)
    sizes = [leaf.size if path[-1].key == "kernel" else 0 for path, leaf in leaves]
    draws = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return tree.unflatten(
        leaf * draw.reshape(leaf.shape) if size else leaf
        for (_, leaf), draw, size in zip(leaves, draws, sizes)
    )


def _check_params(params: Params, expected: Params) -> None:
    """Raises ValueError if the parameters are those of another network; costs nothing under jit."""
    there, wanted = (
        {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (params, expected)
    )
    for name in sorted(there.keys() | wanted.keys()):
        if there.get(name) != wanted.get(name):
            raise ValueError(
                f"these parameters belong to another network: {name} has shape {there.get(name)}, expected"
                f" {wanted.get(name)}; only heads='convolutional' lets parameters move between board sizes"
            )


class Plan(NamedTuple):
    """What modules are built from; its methods make the layers that the configuration asks for."""

    config: Any  # a `networks.NetworkConfig`
    rngs: nnx.Rngs
    axis_name: str | None  # the mapped axis over which batch statistics are averaged

    def conv(self, channels: int, filters: int, size: int, kernel_init=_HE) -> "Conv":
        """A hidden convolution."""
        dtype = jnp.dtype(self.config.compute_dtype)
        return Conv(channels, filters, size, self.rngs, dtype, self.config.bias, kernel_init)

    def last_conv(self, channels: int, filters: int, kernel_init=_SMALL) -> "Conv":
        """A convolution whose results are answers: in float32 and with a bias."""
        size = self.config.head_kernel_size
        return Conv(channels, filters, size, self.rngs, jnp.float32, True, kernel_init)

    def dense(self, features: int, units: int, kernel_init=_HE) -> nnx.Linear:
        """A hidden dense layer."""
        dtype = jnp.dtype(self.config.compute_dtype)
        return nnx.Linear(features, units, dtype=dtype, kernel_init=kernel_init, rngs=self.rngs)

    def last_dense(self, features: int, units: int) -> nnx.Linear:
        """A dense layer whose results are answers: in float32."""
        return nnx.Linear(features, units, dtype=jnp.float32, kernel_init=_SMALL, rngs=self.rngs)

    @property
    def activation(self):
        """The chosen activation function."""
        return ACTIVATIONS[self.config.activation]


class Conv(nnx.Module):
    """A convolution computed in `dtype`; cells that do not exist count as zeros."""

    def __init__(self, channels, filters, size, rngs, dtype, bias, kernel_init):
        self.kernel = nnx.Param(kernel_init(rngs.params(), (size, size, channels, filters), jnp.float32))
        self.bias = nnx.Param(jnp.zeros(filters)) if bias else None
        self.dtype = dtype

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> [height, width, batch, filters]."""
        x = x.astype(self.dtype)
        if now.mask is not None:
            x = jnp.where(now.mask, x, 0)
        y = convolve(x, self.kernel[...].astype(self.dtype))
        return y if self.bias is None else y + self.bias[...].astype(self.dtype)


class Norm(nnx.Module):
    """The chosen normalisation over the channels, always in float32; "none" changes nothing."""

    def __init__(self, plan: Plan, features: int):
        config = plan.config
        kind = NORMALISATIONS[config.normalisation]
        options = {"epsilon": config.norm_epsilon, "dtype": jnp.float32, "rngs": plan.rngs}
        if kind is nnx.BatchNorm:
            options |= {"momentum": config.norm_momentum, "axis_name": plan.axis_name}
        self.layer = None if kind is None else kind(features, **options)

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[..., features] -> the same."""
        if self.layer is None:
            return x
        if isinstance(self.layer, nnx.BatchNorm):
            return self.layer(x, use_running_average=not now.train, mask=now.mask).astype(x.dtype)
        return self.layer(x).astype(x.dtype)


class GlobalPooling(nnx.Module):
    """Tells every cell the means and the maxima over the board; starts by telling nothing."""

    def __init__(self, plan: Plan, channels: int):
        self.dense = plan.dense(2 * channels, channels, kernel_init=_ZERO)
        self.activation = plan.activation

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> the same."""
        return x + self.dense(pool(self.activation(x), now, with_maxima=True)).astype(x.dtype)


def pool(x: jax.Array, now: Pass, *, with_maxima: bool) -> jax.Array:
    """[batch, channels] means over the cells that exist, in float32, with the maxima behind them if asked."""
    x = x.astype(jnp.float32)
    if now.mask is None:
        means, maxima = jnp.mean(x, (0, 1)), jnp.max(x, (0, 1))
    else:
        means = jnp.sum(jnp.where(now.mask, x, 0), (0, 1)) / jnp.sum(now.mask, (0, 1))
        maxima = jnp.max(jnp.where(now.mask, x, -jnp.inf), (0, 1))
    return jnp.concatenate([means, maxima], -1) if with_maxima else means


class ConvLayer(nnx.Module):
    """Convolution, global pooling if asked, normalisation, activation (the last two exchanged if asked)."""

    def __init__(self, plan: Plan, channels, filters, size, *, pooling=False, activation_first=False):
        self.conv, self.norm = plan.conv(channels, filters, size), Norm(plan, filters)
        self.pooling = GlobalPooling(plan, filters) if pooling else None
        self.activation, self.activation_first = plan.activation, activation_first

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> [height, width, batch, filters]."""
        x = self.conv(x, now)
        if self.pooling is not None:
            x = self.pooling(x, now)
        if self.activation_first:
            return self.norm(self.activation(x), now)
        return self.activation(self.norm(x, now))


class DenseLayer(nnx.Module):
    """Dense layer, normalisation, activation."""

    def __init__(self, plan: Plan, features: int, units: int):
        self.dense, self.norm = plan.dense(features, units), Norm(plan, units)
        self.activation = plan.activation

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[batch, features] -> [batch, units]."""
        return self.activation(self.norm(self.dense(x), now))


class NormLayer(nnx.Module):
    """Normalisation, activation."""

    def __init__(self, plan: Plan, features: int):
        self.norm, self.activation = Norm(plan, features), plan.activation

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[..., features] -> the same."""
        return self.activation(self.norm(x, now))


class ResidualBlock(nnx.Module):
    """Two convolutions, and the input beside them unchanged.

    Original: activation(x + norm(conv(layer(x)))) with layer = convolution, normalisation, activation.
    Full pre-activation (He et al. 2016): x + conv(layer(activation(norm(x)))).
    """

    def __init__(self, plan: Plan):
        config = plan.config
        channels, size = config.channels, config.kernel_size
        # Without normalisation the variance stays fixed over any depth by starting blocks as the identity.
        init = _ZERO if config.normalisation == "none" else _HE
        self.layer = ConvLayer(plan, channels, channels, size, pooling=config.global_pooling)
        self.conv, self.norm = plan.conv(channels, channels, size, kernel_init=init), Norm(plan, channels)
        self.activation, self.preactivation = plan.activation, config.block == "preactivation"

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> the same."""
        if self.preactivation:
            return x + self.conv(self.layer(self.activation(self.norm(x, now)), now), now)
        return self.activation(x + self.norm(self.conv(self.layer(x, now), now), now))


class Chain(nnx.Module):
    """Modules one after the other, named layer_0, layer_1 and so on in the parameters."""

    def __init__(self, modules: list[nnx.Module]):
        self.length = len(modules)
        for number, module in enumerate(modules):
            setattr(self, f"layer_{number}", module)

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """What the last module makes of it."""
        for number in range(self.length):
            x = getattr(self, f"layer_{number}")(x, now)
        return x


def make_tower(plan: Plan, observation_shape: tuple[int, ...]) -> Chain:
    """What reads a position.

    From [height, width, batch, planes] to [height, width, batch, channels]; a tower of dense layers goes from
    [batch, features] to [batch, channels].
    """
    config = plan.config
    planes, channels, size = observation_shape[-1], config.channels, config.kernel_size
    if config.tower == "mlp":
        inputs = [math.prod(observation_shape)] + [channels] * (config.blocks - 1)
        return Chain([DenseLayer(plan, features, channels) for features in inputs])
    if config.tower == "conv":
        inputs = [planes] + [channels] * (config.blocks - 1)
        return Chain([ConvLayer(plan, filters, channels, size) for filters in inputs])
    blocks = [ResidualBlock(plan) for _ in range(config.blocks)]
    if config.block == "preactivation":
        return Chain([plan.conv(planes, channels, size), *blocks, NormLayer(plan, channels)])
    first = ConvLayer(plan, planes, channels, size, activation_first=config.first_activation_before_norm)
    return Chain([first, *blocks])


class DenseHead(nnx.Module):
    """[batch, answers] for one board size: 1x1 convolution and hidden layer (both optional), dense layer."""

    def __init__(self, plan: Plan, tower_shape: tuple[int, ...], filters: int, hidden: int, answers: int):
        *board, channels = tower_shape
        self.layer = ConvLayer(plan, channels, filters, 1) if board and filters else None
        features = math.prod(board) * (channels if self.layer is None else filters)
        self.hidden = plan.dense(features, hidden) if hidden else None
        self.last = plan.last_dense(hidden or features, answers)
        self.activation = plan.activation

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] or [batch, features] -> [batch, answers]."""
        if self.layer is not None:
            x = self.layer(x, now)
        if x.ndim == 4:
            x = jnp.transpose(x, (2, 0, 1, 3)).reshape(x.shape[2], -1)
        if self.hidden is not None:
            x = self.activation(self.hidden(x))
        return self.last(x)


class PooledHead(nnx.Module):
    """[batch, answers] for boards of any size, pooled over the cells.

    With a hidden layer, the pooled channels go through it. Without, every cell answers for itself and the
    mean counts, as in Peters 2018.
    """

    def __init__(self, plan: Plan, channels: int, filters: int, hidden: int, answers: int):
        self.layer = ConvLayer(plan, channels, filters, 1) if filters else None
        self.with_maxima, self.activation = plan.config.global_pooling, plan.activation
        features = filters or channels
        self.hidden = plan.dense(features * (1 + self.with_maxima), hidden) if hidden else None
        self.last = plan.last_dense(hidden, answers) if hidden else plan.last_conv(features, answers)

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> [batch, answers]."""
        if self.layer is not None:
            x = self.layer(x, now)
        if self.hidden is None:
            return pool(self.last(x, now), now, with_maxima=False)
        return self.last(self.activation(self.hidden(pool(x, now, with_maxima=self.with_maxima))))


class CellsHead(nnx.Module):
    """Logits [batch, actions] for boards of any size, from the cells that the actions name.

    An action on one cell has that cell's score. An action from one cell to another has the inner product of
    two vectors, what the first cell seeks and what the second one offers. An action without a cell (a pass,
    a swap) is scored from the pooled board.
    """

    def __init__(self, plan: Plan, channels: int, board_shape: tuple[int, int], action_cells: np.ndarray):
        config = plan.config
        features = config.policy_channels or channels
        layer_options = {"pooling": config.global_pooling}
        self.layer = (
            ConvLayer(plan, channels, features, 1, **layer_options) if config.policy_channels else None
        )
        self.in_pairs = action_cells.shape[1] == 2
        self.score = plan.last_conv(features, features if self.in_pairs else 1)
        self.seek = plan.last_conv(features, features, kernel_init=LECUN) if self.in_pairs else None
        self.places, num_placeless = _action_places(board_shape, action_cells)
        self.with_maxima = config.global_pooling
        pooled = channels * (1 + self.with_maxima)
        self.placeless = plan.last_dense(pooled, num_placeless) if num_placeless else None

    def __call__(self, x: jax.Array, now: Pass) -> jax.Array:
        """[height, width, batch, channels] -> [batch, actions]."""
        cells = x if self.layer is None else self.layer(x, now)
        scores = _by_position(self.score(cells, now))  # [batch, cells, 1 or features]
        if self.in_pairs:
            seek = _by_position(self.seek(cells, now))
            scores = jnp.einsum("bsf,bef->bse", seek, scores) / math.sqrt(scores.shape[-1])
        scores = scores.reshape(scores.shape[0], -1)
        if self.placeless is not None:
            pooled = pool(x, now, with_maxima=self.with_maxima)
            scores = jnp.concatenate([scores, self.placeless(pooled)], -1)
        return scores[:, np.array(self.places)]


def _by_position(x: jax.Array) -> jax.Array:
    """From [height, width, batch, features] to [batch, cells, features]."""
    height, width, batch, features = x.shape
    return jnp.moveaxis(x.reshape(height * width, batch, features), 1, 0)


def _action_places(board_shape: tuple[int, int], action_cells: np.ndarray) -> tuple[tuple[int, ...], int]:
    """Where each action's score stands (at a cell, at a pair of cells, or behind) and how many are behind."""
    num_cells = math.prod(board_shape)
    cells = action_cells[..., 0] * board_shape[1] + action_cells[..., 1]  # [actions, 1 or 2]
    places = cells[:, 0] if cells.shape[1] == 1 else cells[:, 0] * num_cells + cells[:, 1]
    placeless = (action_cells < 0).any((1, 2))
    behind = num_cells ** cells.shape[1] + np.cumsum(placeless) - 1
    return tuple(np.where(placeless, behind, places).tolist()), int(placeless.sum())
