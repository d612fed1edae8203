"""What is learned from a batch of positions: losses, and the optimiser's step.

The learner rebuilds observations and masks from the stored positions, turns each by a random symmetry if asked to, and
compares the network's answers with the targets in the board's own frame.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib

from azjax.common.legality import mask_logits
from azjax.envs import indexing
from azjax.envs.core import Game
from azjax.nn.networks import Network, Outputs, Params
from azjax.training.config import OptimiserConfig
from azjax.training.replay import AnyPosition, ExtendedPosition


class View(NamedTuple):
    """Positions as the learner shows them: seen by their mover, each turned by a symmetry of its own."""

    observation: jax.Array  # [batch, *observation_shape]
    to_board: Callable[
        [jax.Array], jax.Array
    ]  # logits [batch, actions] of what is shown -> in the board's frame
    turn_cells: Callable[
        [jax.Array], jax.Array
    ]  # cells [batch, cells] as the mover sees them -> as they are shown


class Losses(NamedTuple):
    """The terms of the loss, each a mean over the batch before its weight."""

    total: jax.Array  # [] what is minimised
    policy: jax.Array  # [] cross-entropy, over the positions that teach a policy
    value: jax.Array  # [] squared error, or cross-entropy of win, draw and loss
    ownership: jax.Array  # [] squared error; 0 without that head
    margin: jax.Array  # [] squared error; 0 without that head
    policy_entropy: jax.Array  # [] of the targets: what the cross-entropy cannot go below
    action_value: jax.Array | float = 0.0  # [] squared error of the move played; 0 without that head


LossFactory = Callable[[Game, Network], Callable[[Params, jax.Array, AnyPosition], tuple[Losses, Any]]]
"""(game, network) -> loss; see `make_loss`, which makes the usual one."""

OptimiserFactory = Callable[[Callable[[jax.Array], jax.Array]], optax.GradientTransformation]
"""(steps made so far -> learning rate) -> the optimiser's steps, the rate among them; see `make_optimiser`."""


def make_view(game: Game, symmetries: bool) -> Callable[[jax.Array, Any], View]:
    """(keys [groups], states [batch, ...]) -> their view; the keys draw for equal shares of the batch, in order.

    Args:
      game: the rules.
      symmetries: whether positions are turned by random symmetries of the board.
    """
    # Of the symmetries the first leaves everything in its place.
    drawn = len(game.symmetries.action) if symmetries else 1
    observation_tables = np.asarray(game.symmetries.observation)[:drawn]
    back_tables = np.argsort(game.symmetries.action, axis=1)[:drawn]
    frames = np.asarray(game.action_frames)

    def permuted(x: jax.Array, tables: np.ndarray, row: jax.Array) -> jax.Array:
        return jax.vmap(lambda one, row: indexing.permuted(one, tables, row))(x, row)

    def view(keys: jax.Array, states: Any) -> View:
        size = states.current_player.shape[0]
        draw = functools.partial(jax.random.randint, shape=(size // len(keys),), minval=0, maxval=drawn)
        symmetry = jax.vmap(draw)(keys).reshape(size)
        seen = jax.vmap(game.observe)(states)
        turned = permuted(seen.reshape(size, -1), observation_tables, symmetry)

        def to_board(logits: jax.Array) -> jax.Array:
            return permuted(permuted(logits, back_tables, symmetry), frames, states.current_player)

        turn_cells = functools.partial(_turned_cells, permuted, observation_tables, symmetry)
        return View(turned.reshape(seen.shape), to_board, turn_cells)

    return view


def make_loss(
    game: Game, network: Network, config: OptimiserConfig, axis_name: str | None = None
) -> Callable:
    """(params, keys [groups], batch [batch, ...]) -> (Losses, new statistics).

    The keys draw the symmetries of equal shares of the batch, in order.
    """
    view_of = make_view(game, config.symmetries)

    def loss(params: Params, keys: jax.Array, batch: AnyPosition) -> tuple[Losses, Any]:
        view = view_of(keys, batch.state)
        outputs, statistics = network.train(params, view.observation)
        legal = jax.vmap(game.legal_action_mask)(batch.state)
        policy, entropy = _policy_loss(view.to_board(outputs.logits), legal, batch, axis_name)
        value = _value_loss(outputs, batch.value)
        action_value = jnp.float32(0)
        if outputs.action_values is not None and isinstance(batch, ExtendedPosition):
            answers = jax.vmap(indexing.take)(view.to_board(outputs.action_values), batch.action)
            action_value = jnp.mean((answers - batch.value) ** 2)
        ownership, margin = _auxiliary_losses(game, outputs, batch, view.turn_cells)
        total = (
            policy
            + config.value_weight * value
            + config.ownership_weight * ownership
            + config.margin_weight * margin
            + config.action_value_weight * action_value
        )
        return Losses(total, policy, value, ownership, margin, entropy, action_value), statistics

    return loss


class OverBoards(NamedTuple):
    """The losses of a run."""

    mean: Losses  # over the boards that are learned
    boards: tuple[Losses, ...] = ()  # of each of several; 0 of one that is not learned

    @property
    def total(self) -> jax.Array:
        """[] what is minimised."""
        return self.mean.total


def nothing_learned() -> Losses:
    """The losses of an iteration without any update."""
    return Losses(*(jnp.float32(0) for _ in Losses._fields))


def over_boards(losses: Sequence[Callable], are_learned: Sequence[jax.Array]) -> Callable:
    """(params, keys [boards][groups], batches [boards][batch, ...]) -> (OverBoards, new statistics).

    All boards that are learned have the same share; of the others nothing is computed.

    Args:
      losses: one per board, see `make_loss`.
      are_learned: [] bool for each board, one of them at least.
    """
    if len(losses) == 1:

        def loss(params: Params, keys: Sequence[jax.Array], batches: Sequence[AnyPosition]):
            found, statistics = losses[0](params, keys[0], batches[0])
            return OverBoards(found), statistics

        return loss

    def mean_loss(params: Params, keys: Sequence[jax.Array], batches: Sequence[AnyPosition]):
        def left_out(params: Params, keys: jax.Array, batch: AnyPosition) -> tuple[Losses, Any]:
            return nothing_learned(), params.statistics

        found, statistics = zip(
            *(
                jax.lax.cond(is_learned, loss, left_out, params, *given)
                for loss, is_learned, *given in zip(losses, are_learned, keys, batches)
            )
        )
        shares = jnp.stack(are_learned) / jnp.sum(jnp.stack(are_learned))

        def mean(*parts: jax.Array) -> jax.Array:
            return sum(share * part for share, part in zip(shares, parts))

        return OverBoards(jax.tree.map(mean, *found), found), jax.tree.map(mean, *statistics)

    return mean_loss


def make_optimiser(
    config: OptimiserConfig,
    rate: Callable[[jax.Array], jax.Array] | None = None,
    own: OptimiserFactory | None = None,
) -> optax.GradientTransformationExtraArgs:
    """The optimiser; steps with gradients that are not finite are skipped and counted.

    It wants the loss as the keyword `value`, for plateaus.

    Args:
      config: its settings.
      rate: steps made so far -> learning rate; None for the configuration's.
      own: instead of the optimiser that the configuration names; its clipping and its plateaus are kept.
    """
    rate = rate or config.schedule()
    # Weight decay is for kernels: biases and scales have one axis.
    kernels = optax.masked(
        optax.add_decayed_weights(config.weight_decay), lambda tree: jax.tree.map(lambda w: w.ndim > 1, tree)
    )
    descent = optax.scale_by_learning_rate(rate)
    if own is not None:
        steps = [own(rate)]
    elif config.name == "sgd":
        steps = [kernels, optax.trace(config.momentum), descent]
    elif config.name == "adam":
        steps = [kernels, optax.scale_by_adam(b1=config.momentum, b2=config.second_momentum), descent]
    else:
        steps = [optax.scale_by_adam(b1=config.momentum, b2=config.second_momentum), kernels, descent]
    if config.clip_norm is not None:
        steps = [optax.clip_by_global_norm(config.clip_norm), *steps]
    if config.decay == "plateau":
        steps.append(
            optax.contrib.reduce_on_plateau(
                config.step_factor,
                config.plateau_patience,
                accumulation_size=config.plateau_steps,
            )
        )
    finite = optax.apply_if_finite(optax.chain(*steps), max_consecutive_errors=np.iinfo(np.int32).max)
    checked = optax.with_extra_args_support(finite)
    return checked if config.loss_scale is None else _scaled(checked, config.loss_scale)


class ScaledState(NamedTuple):
    """The optimiser's state where losses are scaled."""

    loss_scale: jax.Array  # [] by which the next loss is multiplied
    finite_in_a_row: jax.Array  # [] int32, since the scale has changed
    checked: Any  # the state of the optimiser within, which skips and counts what is not finite


def _scaled(
    checked: optax.GradientTransformationExtraArgs, scale: float
) -> optax.GradientTransformationExtraArgs:
    """An optimiser for the gradients of scaled losses (Micikevicius et al. 2018), with a scale that adapts."""

    def init(params) -> ScaledState:
        return ScaledState(jnp.float32(scale), jnp.int32(0), checked.init(params))

    def update(gradients, state: ScaledState, params=None, **more):
        gradients = jax.tree.map(lambda g: g.astype(jnp.float32) / state.loss_scale, gradients)
        updates, inner = checked.update(gradients, state.checked, params, **more)
        row = jnp.where(inner.last_finite, state.finite_in_a_row + 1, 0)
        grows = row == _FINITE_STEPS
        factor = jnp.where(inner.last_finite, jnp.where(grows, 2.0, 1.0), 0.5)
        after = jnp.clip(state.loss_scale * factor, 1.0, _LARGEST_SCALE)
        return updates, ScaledState(after, jnp.where(grows, 0, row), inner)

    return optax.GradientTransformationExtraArgs(init, update)


_FINITE_STEPS = 200  # until the scale is doubled
_LARGEST_SCALE = 2.0**24


def update(
    loss: Callable,
    optimiser: optax.GradientTransformationExtraArgs,
    params: Params,
    opt_state: optax.OptState,
    keys: Any,
    batch: Any,
    axis_name: str | None,
) -> tuple[Params, optax.OptState, Any]:
    """One step of the optimiser; gradients and losses are averaged over the devices of `axis_name`.

    Args:
      loss: (params, keys, batch) -> (losses with a `total`, new statistics), as `make_loss` or `over_boards` makes it.
      optimiser: see `make_optimiser`.
      params: before the step.
      opt_state: the optimiser's.
      keys: of the loss's draws.
      batch: what the loss is of.
      axis_name: of the devices; None for one.

    Returns:
      The new parameters, the optimiser's state, and the losses before the step.
    """

    scale = opt_state.loss_scale if isinstance(opt_state, ScaledState) else 1.0

    def weighted(weights):
        losses, statistics = loss(params._replace(weights=weights), keys, batch)
        return losses.total * scale, (losses, statistics)

    gradients, (losses, statistics) = jax.grad(weighted, has_aux=True)(params.weights)
    if axis_name is not None:
        gradients, losses = jax.lax.pmean((gradients, losses), axis_name)
    updates, opt_state = optimiser.update(gradients, opt_state, params.weights, value=losses.total)
    finite = _checked(opt_state).last_finite
    statistics = jax.tree.map(lambda new, old: jnp.where(finite, new, old), statistics, params.statistics)
    return Params(optax.apply_updates(params.weights, updates), statistics), opt_state, losses


def skipped_updates(opt_state: optax.OptState) -> jax.Array:
    """[] int32, how many steps had gradients that were not finite."""
    return _checked(opt_state).total_notfinite


def skipped_in_a_row(opt_state: optax.OptState) -> jax.Array:
    """[] int32, how many of the last steps had such gradients, back to the last that had not."""
    return _checked(opt_state).notfinite_count


def counters(opt_state: optax.OptState) -> optax.OptState:
    """Of an optimiser's state what counts skipped steps, for the two above."""
    return _checked(opt_state)._replace(inner_state=None)


def plateau_factor(opt_state: optax.OptState) -> jax.Array | float:
    """By what the learning rate has fallen on plateaus so far; 1 without that decay."""
    chained = _checked(opt_state).inner_state
    states = [part for part in chained if isinstance(part, optax.contrib.ReduceLROnPlateauState)]
    return states[0].scale if states else 1.0


def _checked(opt_state: optax.OptState) -> optax.ApplyIfFiniteState:
    return opt_state.checked if isinstance(opt_state, ScaledState) else opt_state


def _policy_loss(logits, legal, batch: AnyPosition, axis_name) -> tuple[jax.Array, jax.Array]:
    log_probability = jax.nn.log_softmax(mask_logits(logits, legal))
    target = batch.policy.astype(jnp.float32)
    cross_entropy = -jnp.sum(jnp.where(target > 0, target * log_probability, 0.0), -1)
    entropy = -jnp.sum(target * jnp.log(jnp.where(target > 0, target, 1.0)), -1)
    mean_weight = jnp.mean(batch.policy_weight)
    if axis_name is not None:
        mean_weight = jax.lax.pmean(mean_weight, axis_name)
    weight = batch.policy_weight / jnp.maximum(mean_weight, 1e-6)
    return jnp.mean(weight * cross_entropy), jnp.mean(weight * entropy)


def _value_loss(outputs: Outputs, target: jax.Array) -> jax.Array:
    if outputs.value_logits is None:
        return jnp.mean((outputs.value - target) ** 2)
    win, loss = jnp.maximum(target, 0.0), jnp.maximum(-target, 0.0)
    chances = jnp.stack([win, 1.0 - win - loss, loss], -1)
    return jnp.mean(optax.softmax_cross_entropy(outputs.value_logits, chances))


def _auxiliary_losses(game, outputs: Outputs, batch: AnyPosition, turn: Callable):
    ownership = margin = jnp.float32(0)
    mover = batch.state.current_player
    if outputs.ownership is not None:
        cells = jax.vmap(game.ownership)(batch.final, mover)  # [batch, height, width], as the mover sees it
        size = cells.shape[0]
        turned = turn(cells.reshape(size, -1))
        ownership = jnp.mean((outputs.ownership.reshape(size, -1) - turned) ** 2)
    if outputs.margin is not None:
        margin = jnp.mean((outputs.margin - jax.vmap(game.final_margin)(batch.final, mover)) ** 2)
    return ownership, margin


def _turned_cells(permuted: Callable, tables: np.ndarray, symmetry: jax.Array, cells: jax.Array) -> jax.Array:
    """Cells [batch, cells] turned like the observation."""
    planes = tables.shape[1] // cells.shape[1]
    # The board part of the table, read off its last plane (in Dots and Boxes that of the boxes, while lines change
    # planes).
    return permuted(cells, tables.reshape(len(tables), -1, planes)[..., -1] // planes, symmetry)
