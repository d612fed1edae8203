"""Tricks that may buy strength per minute, built from the open seams of `make_trainer`: none is an option of azjax.

`strength_per_minute` measures each at equal time; docs/results.md says what came of it. A trick is a `Variant`: a
changed configuration, own parts made for it, where games begin given all that has been played, what is done to a run
between two iterations, and how the learning rate falls. Sources: KataGo (Wu 2019, and the notes on its methods that
came later), Muon (Jordan 2024, Liu et al. 2025), pre-activation residual networks (He et al. 2016).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import nnx

from azjax import register_network
from azjax.common.keys import stream
from azjax.common.legality import mask_logits
from azjax.envs import Hex
from azjax.envs.core import Game
from azjax.envs.hex import HexState
from azjax.nn import NetworkConfig, layers, make_evaluator, make_network
from azjax.nn.networks import Network, Outputs, Params
from azjax.search.config import search_from_config
from azjax.training import Losses, Openings, TrainState, replay, targets
from azjax.training import loss as objective
from azjax.training.config import TrainConfig
from azjax.training.replay import AnyPosition
from azjax.training.selfplay import Moment

Change = Callable[[TrainConfig], TrainConfig]
OpeningsOf = Callable[[Openings, TrainState], Openings]
"""(the configuration's openings, the run so far) -> where the games of the next iteration begin."""


def changed(**parts) -> Change:
    """Replaces fields of the parts of a configuration."""

    def change(config: TrainConfig) -> TrainConfig:
        new = {part: dataclasses.replace(getattr(config, part), **fields) for part, fields in parts.items()}
        return dataclasses.replace(config, **new)

    return change


def cosine(share: jax.Array) -> jax.Array:
    """The usual decay: from 1 to 0 along half a cosine."""
    return 0.5 * (1 + jnp.cos(jnp.pi * share))


def warm_up_and_linear(share: jax.Array, rising: float = 0.05) -> jax.Array:
    """From 0 to 1 in the first `rising` of the time, then straight to 0."""
    return jnp.minimum(share / rising, (1 - share) / (1 - rising))


class Variant(NamedTuple):
    """What one run does otherwise than its preset; functions of the changed configuration make the parts."""

    change: Change = changed()
    parts: Callable[[TrainConfig], dict[str, Any]] = lambda config: {}  # of `make_trainer`
    openings: Callable[[TrainConfig], OpeningsOf] | None = None
    after: Callable[[TrainConfig], Callable[[TrainState], TrainState]] | None = None  # every iteration
    decay: Callable[[jax.Array], jax.Array] = cosine  # share of the time -> factor of the learning rate
    later: Change | None = (
        None  # for the second half of the time: another network, which has all weights of the first
    )


def carried_over(old: Any, fresh: Any) -> Any:
    """A tree like `fresh`, with the leaves of `old` wherever that has one of the same name and shape.

    New residual blocks begin by adding nothing, so that a deeper network says what the one before it said.
    """
    there = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(old)}

    def carried(path: Any, leaf: jax.Array) -> jax.Array:
        kept = there.get(jax.tree_util.keystr(path))
        return leaf if kept is None or kept.shape != leaf.shape else kept

    return jax.tree_util.tree_map_with_path(carried, fresh)


def surprise(game: Game, config: TrainConfig) -> Callable[[Params, AnyPosition], jax.Array]:
    """(params, rows [n] that keep the search's value) -> [n] by how much they surprised, from 0.

    The divergence of the network's policy from the search's, in nats, and half of how far the value that the search had
    found is from the outcome.
    """
    evaluate = make_evaluator(game, make_network(config.network, game))

    def of(params: Params, rows: AnyPosition) -> jax.Array:
        logits, _ = evaluate(params, jax.random.key(0), rows.state)  # a network draws nothing
        return divergence(rows.policy, logits) + jnp.abs(rows.value - rows.outcome) / 2

    return of


def divergence(policy: jax.Array, logits: jax.Array) -> jax.Array:
    """[batch] of softmax(logits) from policies [batch, actions], in nats."""
    cross_entropy, entropy = policy_terms(logits, policy)
    return cross_entropy - entropy


def policy_terms(logits: jax.Array, policy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[batch] the cross-entropy of logits [batch, actions] and policies, and the entropy of these."""
    policy = policy.astype(jnp.float32)
    log_probability = jax.nn.log_softmax(logits)
    cross_entropy = -jnp.sum(jnp.where(policy > 0, policy * log_probability, 0.0), -1)
    entropy = -jnp.sum(policy * jnp.log(jnp.where(policy > 0, policy, 1.0)), -1)
    return cross_entropy, entropy


def drawn_by_weight(key: jax.Array, weight: jax.Array, count: int) -> jax.Array:
    """[count] different rows, drawn one after the other in proportion to their weights [n] (Gumbel's top k)."""
    scores = jnp.log(weight) + jax.random.gumbel(key, weight.shape)
    return jax.lax.top_k(scores, count)[1]


def archive(weighted: bool, candidates: int = 1024, kept: int = 256) -> Callable[[TrainConfig], OpeningsOf]:
    """Half of the games begin in positions met before, the others as usual.

    In every iteration some positions are drawn from the replay, which holds most of a short run, and `kept` of these
    by their surprise to the network as it is now: positions that teach nothing any more hardly come again.

    Args:
      weighted: by surprise, for which rows must keep the search's value; else all alike.
      candidates: how many are drawn.
      kept: how many of them games may begin in.
    """

    def make(config: TrainConfig) -> OpeningsOf:
        game, groups = config.game, config.replay.groups
        surprise_of = surprise(game, config)

        def openings(usual: Openings, state: TrainState) -> Openings:
            keys = stream(state.key, "archive")
            choose_key, first_key, second_key = jax.random.split(stream(state.key[0], "openings"), 3)
            ring = state.ring
            filled = jnp.all(ring.written > 0)
            ring = ring._replace(written=jnp.maximum(ring.written, 1))
            rows = replay.sample(ring, keys, candidates // groups)
            weight = surprise_of(state.params, rows) if weighted else jnp.ones(candidates)
            chosen = drawn_by_weight(choose_key, jnp.maximum(weight, 1e-6), kept)
            met = jax.tree.map(lambda leaf: leaf[chosen], rows.state)
            first, first_plies = drawn_openings(usual, first_key, kept)
            second, plies = drawn_openings(usual, second_key, kept)
            second = jax.tree.map(lambda old, new: jnp.where(filled, old, new), met, second)
            states = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)
            plies = jnp.where(filled, 0, plies)  # of positions met nobody knows how many moves led there
            return Openings(states, jnp.concatenate([first_plies, plies]))

        return openings

    return make


def drawn_openings(openings: Openings, key: jax.Array, count: int) -> tuple[Any, jax.Array]:
    """States [count, ...] and plies [count] of openings, drawn as self-play draws them."""
    more = openings.first_weight - 1
    row = jax.random.randint(key, (count,), 0, openings.plies.shape[0] + more)
    row = jnp.maximum(row - more, 0)
    return jax.tree.map(lambda leaf: leaf[row], openings.states), openings.plies[row]


def keep_found_values(config: TrainConfig) -> dict[str, Any]:
    """Parts with which rows keep the search's value, while the network goes on to learn outcomes."""

    def loss(game: Game, network: Network) -> Callable:
        usual = objective.make_loss(game, network, config.optimiser)
        return lambda params, keys, batch: usual(params, keys, batch._replace(value=batch.outcome))

    return {"value_targets": targets.root_value, "loss": loss}


def reanalysis(positions: int) -> Callable[[TrainConfig], Callable[[TrainState], TrainState]]:
    """After every iteration so many positions of the replay are searched again, by the newest weights.

    Their policies are replaced; the value that is learned stays the outcome.
    """

    def make(config: TrainConfig) -> Callable[[TrainState], TrainState]:
        game, groups = config.game, config.replay.groups
        evaluate = make_evaluator(game, make_network(config.network, game))
        search = search_from_config(config.search, game, evaluate, explore=False)

        def renew(state: TrainState) -> TrainState:
            ring = state.ring
            keys = stream(state.key, "reanalysis")
            most = jnp.minimum(ring.written, ring.capacity)

            def draw(key: jax.Array, most: jax.Array) -> jax.Array:
                return jax.random.randint(key, (positions // groups,), 0, most)

            places = jax.vmap(draw)(keys, most)  # [groups, positions / groups]
            rows = replay.take(ring, places)
            found = search(state.params, stream(state.key[0], "search"), rows.state).policy
            found = found.reshape(*places.shape, -1).astype(ring.rows.policy.dtype)
            policy = ring.rows.policy.at[jnp.arange(groups)[:, None], places].set(found)
            return state._replace(ring=ring._replace(rows=ring.rows._replace(policy=policy)))

        def after(state: TrainState) -> TrainState:
            return jax.lax.cond(jnp.all(state.ring.written > 0), renew, lambda state: state, state)

        return after

    return make


class Answers(NamedTuple):
    """What a network with more policy heads says when it learns."""

    outputs: Outputs
    more: tuple[jax.Array, ...]  # [batch, actions] each, logits of the other heads


class MorePolicies(NamedTuple):
    """What another policy head learns."""

    weight: float  # of its loss
    target: Callable[[AnyPosition], jax.Array]  # of a batch -> [batch, actions]


def softened(policy: jax.Array, power: float = 0.25) -> jax.Array:
    """policy^power, normalised: KataGo's soft target, which tells the good moves apart that are hardly played."""
    raised = jnp.where(policy > 0, policy.astype(jnp.float32), 0.0) ** power
    return raised / jnp.sum(raised, -1, keepdims=True)


def own_loss(*more: MorePolicies, by_surprise: bool = False) -> Callable[[TrainConfig], dict[str, Any]]:
    """A loss with other policy heads beside the usual terms.

    Args:
      *more: what they learn, one for each of the network's other heads.
      by_surprise: half of the policy's weight is shared out by how far the network is from the target, as a constant.
    """

    def parts(config: TrainConfig) -> dict[str, Any]:
        def factory(game: Game, network: Network) -> Callable:
            view_of = objective.make_view(game, config.optimiser.symmetries)

            def loss(params: Params, keys: jax.Array, batch: AnyPosition) -> tuple[Losses, Any]:
                view = view_of(keys, batch.state)
                answers, statistics = network.train(params, view.observation)
                if not isinstance(answers, Answers):
                    answers = Answers(answers, ())
                legal = jax.vmap(game.legal_action_mask)(batch.state)

                def terms(logits: jax.Array, policy: jax.Array) -> tuple[jax.Array, jax.Array]:
                    return policy_terms(mask_logits(view.to_board(logits), legal), policy)

                taught = batch.policy_weight / jnp.maximum(jnp.mean(batch.policy_weight), 1e-6)
                cross_entropy, entropy = terms(answers.outputs.logits, batch.policy)
                weight = taught
                if by_surprise:
                    weight = weighted_by_surprise(cross_entropy - entropy, taught)
                policy = jnp.mean(weight * cross_entropy)
                value = jnp.mean((answers.outputs.value - batch.value) ** 2)
                total = policy + config.optimiser.value_weight * value
                for head, logits in zip(more, answers.more, strict=True):
                    total += head.weight * jnp.mean(taught * terms(logits, head.target(batch))[0])
                none = jnp.float32(0)
                return Losses(total, policy, value, none, none, jnp.mean(taught * entropy)), statistics

            return loss

        return {"loss": factory}

    return parts


def weighted_by_surprise(surprise: jax.Array, taught: jax.Array) -> jax.Array:
    """[batch] weights with the mean of `taught` [batch]: half as they are, half in proportion to surprise [batch]."""
    surprise = jax.lax.stop_gradient(jnp.maximum(surprise, 0.0)) * taught
    scale = jnp.mean(taught) / jnp.maximum(jnp.mean(surprise), 1e-6)
    return 0.5 * taught + 0.5 * scale * surprise


def muon(rate: float, like_adam: float = 0.2) -> Variant:
    """Muon for kernels, Adam for all else, at a learning rate on AdamW's scale (Liu et al. 2025)."""

    def parts(config: TrainConfig) -> dict[str, Any]:
        def optimiser(schedule: Callable) -> optax.GradientTransformation:
            return optax.contrib.muon(
                schedule,
                weight_decay=config.optimiser.weight_decay,
                consistent_rms=like_adam,
                muon_weight_dimension_numbers=matrices,
            )

        return {"optimiser": optimiser}

    return Variant(changed(optimiser={"learning_rate": rate}), parts)


def matrices(weights: Any) -> Any:
    """Which of the weights Muon takes as matrices: kernels, all that goes in against all that comes out."""

    def matrix(weight: jax.Array) -> optax.contrib.MuonDimensionNumbers | None:
        inputs = weight.size // weight.shape[-1]
        if weight.ndim < 2 or min(inputs, weight.shape[-1]) < 2:
            return None
        last = weight.ndim - 1
        return optax.contrib.MuonDimensionNumbers(reduction_axis=tuple(range(last)), output_axis=(last,))

    return jax.tree.map(matrix, weights)


@dataclasses.dataclass(frozen=True)
class AdjudicatedHex(Hex):
    """Hex that is over once the player to move can join both sides at once, or must lose to two such threats.

    Both are exact. Such positions are never searched, nor learned from.
    """

    def step(self, x: HexState, action: jax.Array) -> HexState:
        """The position after a move; if it is decided, the loser is on move, as at every end."""
        x = super().step(x, action)
        threats = jnp.stack([jnp.sum(joining_cells(self, x, player)) for player in range(2)])
        mover = x.current_player
        wins, loses = threats[mover] > 0, threats[1 - mover] > 1
        decided = ~x.over & (wins | loses)
        return x._replace(
            current_player=jnp.where(decided & wins, 1 - mover, mover).astype(mover.dtype),
            over=x.over | decided,
        )


def joining_cells(game: Hex, x: HexState, player: int) -> jax.Array:
    """[size, size] bool, as `player` sees it: where one more stone would join both sides."""
    own, other, top, bottom = jnp.moveaxis(Hex(game.size, planes=6).observe(x, jnp.int32(player)), -1, 0)[:4]

    def next_to(cells: jax.Array) -> jax.Array:
        around = jnp.pad(cells, 1)
        size = game.size
        shifts = ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1))
        return functools.reduce(
            jnp.logical_or,
            (around[1 + down : 1 + down + size, 1 + right : 1 + right + size] for down, right in shifts),
        )

    from_top = next_to(top).at[0].set(True)
    from_bottom = next_to(bottom).at[-1].set(True)
    return ~own & ~other & from_top & from_bottom


def adjudicated(config: TrainConfig) -> TrainConfig:
    """The same on the board where decided games are over."""
    return dataclasses.replace(config, game=AdjudicatedHex(**dataclasses.asdict(config.game)))


class Attention(nnx.Module):
    """Every cell asks all others, in several heads; begins by adding nothing."""

    heads = 4

    def __init__(self, plan: layers.Plan):
        channels = plan.config.channels
        self.ask = plan.dense(channels, 3 * channels, kernel_init=layers.LECUN)
        self.answer = plan.dense(channels, channels, kernel_init=_zeros)

    def __call__(self, x: jax.Array, now: layers.Pass) -> jax.Array:
        """[height, width, batch, channels] -> the same."""
        height, width, batch, channels = x.shape
        asked = self.ask(x).reshape(height * width, batch, 3, self.heads, -1)
        query, key, value = (asked[:, :, part] for part in range(3))  # [cells, batch, heads, features]
        scores = jnp.einsum("qbhf,kbhf->bhqk", query, key) / jnp.sqrt(query.shape[-1])
        heard = jnp.einsum("bhqk,kbhf->qbhf", jax.nn.softmax(scores), value)
        return x + self.answer(heard.reshape(height, width, batch, channels))


class NestedBottleneck(nnx.Module):
    """KataGo's: into half of the channels, two residual blocks there, and back; begins by adding nothing."""

    def __init__(self, plan: layers.Plan):
        channels = plan.config.channels
        inner = plan._replace(config=dataclasses.replace(plan.config, channels=channels // 2))
        self.first = plan.conv(channels, channels // 2, 1)
        self.blocks = layers.Chain([layers.ResidualBlock(inner) for _ in range(2)])
        self.last = plan.conv(channels // 2, channels, 1, kernel_init=_zeros)
        self.activation = plan.activation

    def __call__(self, x: jax.Array, now: layers.Pass) -> jax.Array:
        """[height, width, batch, channels] -> the same."""
        inside = self.blocks(self.first(self.activation(x), now), now)
        return x + self.last(self.activation(inside), now)


def _zeros(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    return jnp.zeros(shape, dtype)


def attentive(plan: layers.Plan) -> list[nnx.Module]:
    """Residual blocks with attention behind every second."""
    blocks = []
    for number in range(plan.config.blocks):
        blocks.append(layers.ResidualBlock(plan))
        if number % 2 == 1:
            blocks.append(Attention(plan))
    return blocks


def nested(plan: layers.Plan) -> list[nnx.Module]:
    """Nested bottlenecks; each holds two residual blocks."""
    return [NestedBottleneck(plan) for _ in range(plan.config.blocks)]


def residual(plan: layers.Plan) -> list[nnx.Module]:
    """The usual blocks."""
    return [layers.ResidualBlock(plan) for _ in range(plan.config.blocks)]


class _Net(nnx.Module):
    """Tower and convolutional heads, as many for policies as are asked for."""

    def __init__(self, plan: layers.Plan, game: Game, blocks: Callable, more: int):
        config, shape = plan.config, game.observation_shape
        first = plan.conv(shape[-1], config.channels, config.kernel_size)
        self.tower = layers.Chain([first, *blocks(plan), layers.NormLayer(plan, config.channels)])

        def policy() -> layers.CellsHead:
            return layers.CellsHead(plan, config.channels, shape[:2], game.action_cells)

        self.policy = policy()
        self.value = layers.PooledHead(plan, config.channels, config.value_channels, config.value_hidden, 1)
        self.count = more
        for number in range(more):
            setattr(self, f"more_{number}", policy())

    def __call__(self, observation: jax.Array, now: layers.Pass) -> Answers:
        x = jnp.transpose(observation, (1, 2, 0, 3)).astype(jnp.float32)
        trunk = self.tower(x, now)
        value = jnp.tanh(self.value(trunk, now)[:, 0])
        more = tuple(getattr(self, f"more_{number}")(trunk, now) for number in range(self.count))
        return Answers(Outputs(self.policy(trunk, now), value), more)


def make_own_network(blocks: Callable[[layers.Plan], list[nnx.Module]], more: int = 0) -> Callable:
    """(configuration, game) -> a network of other blocks, or with more policy heads that are only learned with."""

    def make(config: NetworkConfig, game: Game) -> Network:
        init, run = layers.take_apart(lambda rngs: _Net(layers.Plan(config, rngs, None), game, blocks, more))

        def apply(params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = run(params, layers.Pass(), observation)[0].outputs
            return outputs.logits, outputs.value

        def train(params: Params, observation: jax.Array) -> tuple[Any, Any]:
            answers, statistics = run(params, layers.Pass(train=True), observation)
            return (answers if more else answers.outputs), statistics

        return Network(init, apply, train)

    return make


register_network("trick-nested", make_own_network(nested))
register_network("trick-attention", make_own_network(attentive))
register_network("trick-two-policies", make_own_network(residual, more=1))


def keep_replies(config: TrainConfig) -> dict[str, Any]:
    """Parts with which rows keep the next position's policy, [actions] zero behind the last, for another head."""

    def replies(moments: Moment, end: Any, length: jax.Array) -> jax.Array:
        following = jnp.roll(moments.policy, -1, axis=0)
        weight = jnp.roll(moments.policy_weight, -1) * (jnp.arange(len(following)) < length - 1)
        return following * weight[:, None].astype(following.dtype)

    return own_loss(reply_head)(config) | {"own_targets": replies}


two_policies = changed(network={"tower": "trick-two-policies"})
soft_head = MorePolicies(8.0, lambda batch: softened(batch.policy))  # KataGo's weight
reply_head = MorePolicies(0.15, lambda batch: batch.own)  # as in Wu 2019

TRICKS: dict[str, Variant] = {
    "archive by surprise": Variant(parts=keep_found_values, openings=archive(weighted=True)),
    "archive, all alike": Variant(openings=archive(weighted=False)),
    "soft policy head": Variant(two_policies, own_loss(soft_head)),
    "reply head": Variant(two_policies, keep_replies),
    "policy by surprise": Variant(parts=own_loss(by_surprise=True)),
    "lambda returns 0.9": Variant(changed(selfplay={"value_target": "td_lambda", "value_share": 0.9})),
    "reanalysis": Variant(after=reanalysis(256)),
    "adamw 1e-3": Variant(changed(optimiser={"learning_rate": 1e-3})),
    "adamw 4e-3": Variant(changed(optimiser={"learning_rate": 4e-3})),
    "muon 2e-3": muon(2e-3),
    "muon 5e-3": muon(5e-3),
    "warm-up and linear": Variant(decay=warm_up_and_linear),
    "nested bottlenecks": Variant(changed(network={"tower": "trick-nested", "blocks": 2, "channels": 64})),
    "deep late": Variant(changed(network={"blocks": 2}), later=changed(network={"blocks": 4})),
    "adjudicated": Variant(adjudicated),  # for Hex alone
    "attention": Variant(changed(network={"tower": "trick-attention"})),
}
