"""Policy and value networks: what they look like, and how they are made.

A `Network` is three pure functions, and its parameters are plain trees of arrays. The one to play with is
`apply(params, observation) -> (logits, value)`, batch first, seen by the player to move. The modules (flax
NNX, in `layers`) are taken apart when the network is made; nothing but arrays passes through jit.
`evaluator.make_evaluator` joins a network to a game.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from azjax.common.checked import Checked, Count, Decay, FromZero, at_least, at_most, check
from azjax.common.remembered import remembered
from azjax.nn import layers
from azjax.nn.convolution import LARGEST_KERNEL
from azjax.nn.layers import Params

Units = Annotated[int, at_least(0), at_most(2**16)]

TOWERS = ("resnet", "conv", "mlp")
OWN: dict[str, Callable[..., "Network"]] = {}
"""(configuration, game, axis_name) -> the network, by the name that `azjax.nn.register_network` was given."""


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Checked):
    """What a network looks like; a field with a wrong value is refused when the configuration is made."""

    tower: str = "resnet"  # or conv, or mlp, or the name of a registered network
    blocks: Annotated[int, at_least(0), at_most(1000)] = 4  # residual blocks, convolutions or dense layers
    # planes between blocks, units between dense layers
    channels: Annotated[int, at_least(1), at_most(2**16)] = 32
    kernel_size: Count = 3  # of hidden convolutions, odd
    block: Literal["original", "preactivation"] = "preactivation"  # of a resnet: He 2015, or He 2016
    normalisation: Literal["none", "layer", "rms", "batch"] = "none"  # after hidden convolutions
    norm_momentum: Decay = 0.9  # the share of the old running statistics that a batch leaves in place
    norm_epsilon: FromZero = 1e-5  # added to the variance that is divided by
    activation: Literal["relu", "silu", "gelu", "tanh"] = "relu"  # between layers
    bias: bool = True  # of hidden convolutions
    global_pooling: bool = True  # every cell hears of the whole board, in blocks and in convolutional heads
    first_activation_before_norm: bool = False  # in the first layer, as in Peters 2018
    separate_towers: bool = False  # one tower for the policy and one for the value
    heads: Literal["convolutional", "dense"] = "convolutional"  # for any board size, or for one
    head_kernel_size: Count = 1  # of the last convolutions of convolutional heads
    policy_channels: Units = 32  # filters of the policy head's own layer, 0 for no such layer
    policy_hidden: Units = 0  # units of a dense policy head's hidden layer, 0 for none
    value_channels: Units = 0  # the same of the value head
    value_hidden: Units = 64  # units of its hidden layer
    value: Literal["scalar", "wdl"] = "scalar"  # one tanh, or the logits of win, draw and loss
    ownership: bool = False  # also predict who will own each cell
    margin: bool = False  # also predict the final score difference
    action_values: bool = False  # also predict the value of each action, for search.kind klent
    compute_dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # parameters are float32 always

    def __post_init__(self):
        super().__post_init__()
        if self.tower in OWN:
            return  # it reads what it likes of the rest
        check(
            self.tower in TOWERS,
            "tower",
            f"one of {', '.join(TOWERS)}, or a network registered with azjax.register_network (on the command line"
            " --import the module that does it)",
            self.tower,
        )
        for name in ("kernel_size", "head_kernel_size"):
            value = getattr(self, name)
            allowed = f"an odd number up to {LARGEST_KERNEL}"
            check(value % 2 == 1 and value <= LARGEST_KERNEL, name, allowed, value)
        least = 0 if self.tower == "resnet" else 1
        check(self.blocks >= least, "blocks", f"at least 1 for tower={self.tower!r}", self.blocks)
        if self.tower == "mlp":
            for name, allowed in (("heads", "dense"), ("ownership", False)):
                value = getattr(self, name)
                reason = f"{allowed!r} for tower='mlp', as dense layers know no cells"
                check(value == allowed, name, reason, value)


class Outputs(NamedTuple):
    """All that a network says of a batch of positions, seen by the player to move."""

    logits: jax.Array  # [batch, actions]
    value: jax.Array  # [batch] expected result in -1..1
    value_logits: jax.Array | None = None  # [batch, 3] of a win, a draw and a loss
    ownership: jax.Array | None = None  # [batch, height, width] in -1..1, who will own each cell
    margin: jax.Array | None = None  # [batch] expected final score difference, on the learner's scale
    action_values: jax.Array | None = None  # [batch, actions] expected result after each, in -1..1


class Network(NamedTuple):
    """A network as pure functions; jit them, or call them from what is jitted."""

    init: Callable[[jax.Array], Params]  # from a key
    # apply(params, observation, mask=None) -> (logits [batch, actions], value [batch]), to play with
    apply: Callable[..., tuple[jax.Array, jax.Array]]
    # train(params, observation, mask=None) -> (Outputs, new statistics), to learn with
    train: Callable[..., tuple[Outputs, Any]]
    # outputs(params, observation, mask=None) -> Outputs, all that `apply` knows; None where that is just what it says
    outputs: Callable[..., Outputs] | None = None


def make_network(config: NetworkConfig, game: Any, *, axis_name: str | None = None) -> Network:
    """Makes the network for a game.

    Convolutional heads ask the game for one more table, `game.action_cells` [actions, 1 or 2, 2]: for each
    action, as the mover sees it, (row, column) in the observation of the one cell it is about, or of the two
    it goes from and to; -1 throughout for an action without a place, such as a pass. The parameters then do
    not depend on the board's size: those of one game fit the same game on any other board.

    Both `apply` and `train` take observations [batch, *game.observation_shape] and, with convolutional
    heads, a mask [height, width] or [batch, height, width] of the cells that exist, for small boards that
    stand in larger arrays: what lies outside does not change the answers.

    Args:
      config: what the network looks like.
      game: anything with `observation_shape`, `num_actions` and, for convolutional heads, `action_cells`.
      axis_name: the mapped axis (of `shard_map` or `vmap`) that batches are divided over; `train` averages
        batch statistics over it. With a sharded batch under plain jit they are global without it.
    """
    if config.tower in OWN:
        return OWN[config.tower](config, game, axis_name)
    shape = tuple(game.observation_shape)
    if config.tower != "mlp" and len(shape) != 3:
        raise ValueError(
            f"tower={config.tower!r} needs observations [height, width, planes], this game's have shape"
            f" {shape}; use tower='mlp' and heads='dense'"
        )
    action_cells = _checked_action_cells(game) if config.heads == "convolutional" else None
    cells = (
        None if action_cells is None else _Table(action_cells.shape, action_cells.astype(np.int32).tobytes())
    )
    return _network_of(config, shape, game.num_actions, cells, axis_name)


class _Table(NamedTuple):
    """A table of int32 that can be looked up by what it holds."""

    shape: tuple[int, ...]
    content: bytes


@remembered
def _network_of(
    config: NetworkConfig,
    shape: tuple[int, ...],
    num_actions: int,
    cells: _Table | None,
    axis_name: str | None,
) -> Network:
    """The network of all games that look alike to it."""
    action_cells = None if cells is None else np.frombuffer(cells.content, np.int32).reshape(cells.shape)

    def build(rngs: nnx.Rngs) -> _Net:
        return _Net(layers.Plan(config, rngs, axis_name), shape, num_actions, action_cells)

    init, run = layers.take_apart(build)

    def outputs(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        return run(params, layers.Pass(_board_mask(config, mask)), observation)[0]

    def apply(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        answers = outputs(params, observation, mask)
        return answers.logits, answers.value

    def train(params: Params, observation: jax.Array, mask: jax.Array | None = None):
        return run(params, layers.Pass(_board_mask(config, mask), train=True), observation)

    return Network(init, _in_full_precision(apply), _in_full_precision(train), _in_full_precision(outputs))


def _in_full_precision(run: Callable) -> Callable:
    """The same, with float32 numbers multiplied as such: by default TPUs round them to bfloat16 and GPUs to TF32.

    Half precisions are not concerned, nor are CPUs.
    """

    @functools.wraps(run)
    def precise(*arguments: Any, **options: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return run(*arguments, **options)

    return precise


def half_copy(params: Params, dtype: Any) -> Params:
    """The parameters in `dtype`, a half precision, except normalisation: Jacobsen's (2019) copy for self-play.

    Play it with a network whose `compute_dtype` is the same; the master copy goes on learning in float32.
    """

    def cast(path, leaf):
        in_norm = any(getattr(key, "key", None) == "norm" for key in path)
        return leaf if in_norm else leaf.astype(dtype)

    return params._replace(weights=jax.tree_util.tree_map_with_path(cast, params.weights))


class ParameterCount(NamedTuple):
    """How many numbers a network holds."""

    trained: int
    statistics: int  # running statistics, which some programs count as parameters too


def count_parameters(network: Network) -> ParameterCount:
    """Counts without allocating anything."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    return ParameterCount(*(sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree)) for tree in shapes))


class _Net(nnx.Module):
    """Tower and heads."""

    def __init__(self, plan: layers.Plan, shape: tuple[int, ...], num_actions: int, action_cells):
        config, channels = plan.config, plan.config.channels
        self.config = config
        self.tower = layers.make_tower(plan, shape)
        self.value_tower = layers.make_tower(plan, shape) if config.separate_towers else None
        answers = (3 if config.value == "wdl" else 1) + config.margin
        value_sizes = (config.value_channels, config.value_hidden, answers)
        if config.heads == "convolutional":
            make_actions = functools.partial(layers.CellsHead, plan, channels, shape[:2], action_cells)
            self.policy = make_actions()
            self.value = layers.PooledHead(plan, channels, *value_sizes)
        else:
            tower_shape = (channels,) if config.tower == "mlp" else (*shape[:2], channels)
            policy_sizes = (config.policy_channels, config.policy_hidden, num_actions)
            make_actions = functools.partial(layers.DenseHead, plan, tower_shape, *policy_sizes)
            self.policy = make_actions()
            self.value = layers.DenseHead(plan, tower_shape, *value_sizes)
        self.ownership = plan.last_conv(channels, 1) if config.ownership else None
        self.action_values = make_actions() if config.action_values else None

    def __call__(self, observation: jax.Array, now: layers.Pass) -> Outputs:
        config = self.config
        if config.tower == "mlp":
            x = observation.reshape(observation.shape[0], -1)  # len() of a symbolic batch fails
        else:
            x = jnp.transpose(observation, (1, 2, 0, 3))
        x = x.astype(config.compute_dtype)
        trunk = self.tower(x, now)
        value_trunk = trunk if self.value_tower is None else self.value_tower(x, now)

        answers = self.value(value_trunk, now)
        value_logits = answers[:, :3] if config.value == "wdl" else None
        if value_logits is None:
            value = jnp.tanh(answers[:, 0])
        else:
            chances = jax.nn.softmax(value_logits)
            value = chances[:, 0] - chances[:, 2]
        ownership = None
        if self.ownership is not None:
            ownership = jnp.tanh(jnp.moveaxis(self.ownership(value_trunk, now)[..., 0], 2, 0))
        margin = answers[:, -1] if config.margin else None
        action_values = None
        if self.action_values is not None:
            action_values = jnp.tanh(self.action_values(value_trunk, now))
        return Outputs(self.policy(trunk, now), value, value_logits, ownership, margin, action_values)


def _board_mask(config: NetworkConfig, mask: jax.Array | None) -> jax.Array | None:
    """From [height, width] or [batch, height, width] to [height, width, batch or 1, 1]."""
    if mask is None:
        return None
    if config.heads != "convolutional":
        raise ValueError("a mask of cells needs heads='convolutional': dense heads are made for one board")
    mask = jnp.asarray(mask, bool)
    return jnp.moveaxis(mask, 0, -1)[..., None] if mask.ndim == 3 else mask[..., None, None]


def _checked_action_cells(game: Any) -> np.ndarray:
    """The game's table, or a ValueError that says what is wrong with it."""
    if not hasattr(game, "action_cells"):
        raise ValueError(
            "heads='convolutional' needs a game with action_cells [actions, 1 or 2, 2], the (row, column) of"
            f" each action; {game!r} has none: use heads='dense'"
        )
    cells = np.asarray(game.action_cells)
    if (
        cells.ndim != 3
        or cells.shape[0] != game.num_actions
        or cells.shape[1] not in (1, 2)
        or cells.shape[2] != 2
    ):
        raise ValueError(f"action_cells must have shape ({game.num_actions}, 1 or 2, 2), got {cells.shape}")
    placeless = (cells == -1).all((1, 2))
    inside = ((cells >= 0) & (cells < np.array(game.observation_shape[:2]))).all((1, 2))
    if not (placeless | inside).all():
        action = int(np.argmin(placeless | inside))
        raise ValueError(
            f"action_cells[{action}] = {cells[action].tolist()} lies outside the observation"
            f" {tuple(game.observation_shape)}; actions without a place have -1 throughout"
        )
    return cells
