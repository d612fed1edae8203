"""How close does the training loop come to its network? Self-play and learning, interleaved in one run.

    python -m experiments.benchmarks.selfplay            # about ten minutes; keeps its tables
    python -m experiments.benchmarks.selfplay --quick    # a smoke test; keeps nothing

Self-play is compared with its network alone, called as often on as many positions, and with the loop of pgx's
AlphaZero example, made anew from its description: games begin together, run for a fixed number of steps with
auto-reset under mctx's own search, and what is unfinished in the end has no outcome and is thrown away. A useful
position is one with an outcome; its share is counted in one long iteration of that loop, and a step of it is timed
in short ones. Learning (sampling, symmetries, losses, optimiser) is compared with the bare forward
and backward passes of the network on a batch at hand. All rates are per CPU-second of one core.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from unittest import mock

import jax
import jax.numpy as jnp
import mctx
import tyro
from pgx.experimental import auto_reset

from azjax import theses, training
from azjax.envs import Env
from azjax.nn import convolution
from azjax.nn.networks import Params, make_network
from azjax.training import selfplay
from azjax.training.config import TrainConfig
from azjax.training.openings import make_openings
from azjax.training.profiling import network_calls, update_calls
from experiments.benchmarks.convolution import xla
from experiments.benchmarks.search import mctx_search
from experiments.benchmarks.timing import cpu_seconds, report, use_one_core


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    presets: tuple[str, ...] = ("hex5", "hex6", "chinese-checkers-4x4", "dots-3x3")
    rounds: int = 7


def own_loop(config: TrainConfig) -> tuple[Callable[[], object], training.TrainState]:
    """The self-play of one iteration, and a state with enough positions to learn from.

    Every position it stores has its outcome, and none is lost.
    """
    game = config.game
    openings = make_openings(game, config.selfplay.openings, config.selfplay.opening_share)
    state = training.make_trainer(config, training.make_mesh(1)).init(jax.random.key(0))

    @jax.jit
    def play(params, lanes, ring):
        return selfplay.play(
            game,
            training.make_search(config, game),
            training.make_action_choice(config),
            training.make_value_targets(config),
            openings,
            params,
            lanes,
            ring,
            config.selfplay.plies,
        )

    while int(state.ring.written.sum()) < config.replay.warm_up:  # by then games of all ages run side by side
        lanes, ring, _ = play(state.params, state.lanes, state.ring)
        state = state._replace(lanes=lanes, ring=ring)
    return functools.partial(play, state.params, state.lanes, state.ring), state


def pgx_loop(config: TrainConfig, steps: int) -> Callable[[], tuple]:
    """One iteration of the example's self-play; gives, among others, how many positions have an outcome."""
    env = Env(config.game)
    network = make_network(config.network, config.game)
    params = jax.jit(network.init)(jax.random.key(0))
    frames = jnp.asarray(config.game.action_frames)

    def evaluate(params, key, states):
        logits, value = network.apply(params, jax.vmap(env.game.observe)(states))
        return jnp.take_along_axis(logits, frames[states.current_player], axis=-1), value

    search = mctx_search(env.game, evaluate, mctx.gumbel_muzero_policy, config.search.simulations)
    step_and_reset = jax.vmap(auto_reset(env.step, env.init))
    lanes = config.selfplay.lanes

    @jax.jit
    def play(params, key):
        def step(states, key):
            search_key, reset_key = jax.random.split(key)
            action, weights = search(params, search_key, states._x)
            after = step_and_reset(states, action, jax.random.split(reset_key, lanes))
            return after, (states.observation, weights, after.rewards, after.terminated)

        init_key, key = jax.random.split(key)
        states = jax.vmap(env.init)(jax.random.split(init_key, lanes))
        _, (observation, weights, rewards, over) = jax.lax.scan(step, states, jax.random.split(key, steps))
        has_outcome = jnp.cumsum(over[::-1], axis=0)[::-1] > 0
        return observation, weights, rewards, jnp.sum(has_outcome)

    return functools.partial(play, params, jax.random.key(0))


def useful_share(config: TrainConfig) -> float:
    """The share of the example's positions that have an outcome, in an iteration of twice the longest game."""
    steps = min(256, 2 * config.game.max_plies)  # 256 is what the example uses
    return float(pgx_loop(config, steps)()[-1]) / (steps * config.selfplay.lanes)


def bare_passes(config: TrainConfig) -> Callable[[], object]:
    """As many forward and backward passes as an iteration has updates, with plain losses, on one batch."""
    params = jax.jit(make_network(config.network, config.game).init)(jax.random.key(0))
    observation = jnp.zeros((config.replay.batch_size, *config.game.observation_shape))
    return functools.partial(jax.jit(functools.partial(passes, config)), params, observation)


def passes(config: TrainConfig, params: Params, observation: jax.Array) -> Params:
    """The weights after the updates of an iteration, all on the same observations [batch, ...]."""
    network = make_network(config.network, config.game)

    def loss(weights, observation):
        outputs, _ = network.train(params._replace(weights=weights), observation)
        logits = jax.nn.log_softmax(outputs.logits)
        return -jnp.mean(logits) + jnp.mean(outputs.value**2)

    def one(weights, _):
        gradient = jax.grad(loss)(weights, observation)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradient), None

    return jax.lax.scan(one, params.weights, None, config.updates)[0]


def with_xla_convolutions() -> contextlib.AbstractContextManager:
    """Inside, networks use XLA's own convolution on CPUs too, as pgx's example does, in the layout it is fastest in."""

    def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jnp.moveaxis(xla(jnp.moveaxis(x, 2, 0), kernel), 0, 2)

    return mock.patch.object(convolution, "_convolve_on_cpu", convolve)


def rows_of(name: str, config: TrainConfig, rounds: int) -> tuple[dict, dict]:
    """A line about self-play and a line about learning."""
    plies, lanes = config.selfplay.plies, config.selfplay.lanes
    calls = plies * (config.search.simulations + 1)
    ours, state = own_loop(config)
    runs = {
        "network": network_calls(config, calls),
        "ours": ours,
        "pgx": pgx_loop(config, plies),
        "learning": update_calls(config, state),
        "passes": bare_passes(config),
    }
    with with_xla_convolutions():
        runs["pgx, XLA"] = pgx_loop(config, plies)
        jax.block_until_ready(runs["pgx, XLA"]())  # traced here, while the convolution is exchanged
    seconds = cpu_seconds(runs, rounds)
    useful = useful_share(config)
    rate = plies * lanes / seconds["ours"]
    selfplay_row = {
        "preset": name,
        "positions/s": rate,
        "share of network alone": seconds["network"] / seconds["ours"],
        "pgx loop: useful share": useful,
        "times pgx loop": seconds["pgx, XLA"] / (seconds["ours"] * useful),
        "times, with our convolution": seconds["pgx"] / (seconds["ours"] * useful),
    }
    learning_row = {
        "preset": name,
        "examples/s": config.updates * config.replay.batch_size / seconds["learning"],
        "share of bare passes": seconds["passes"] / seconds["learning"],
    }
    return selfplay_row, learning_row


def main(config: Config) -> None:
    """Measures everything and prints two tables."""
    use_one_core()
    rows = []
    for name in ("hex3",) if config.quick else config.presets:
        preset = theses.preset(name)
        if config.quick:
            preset = dataclasses.replace(
                preset, selfplay=dataclasses.replace(preset.selfplay, lanes=8, plies=2)
            )
        rows.append(rows_of(name, preset, 1 if config.quick else config.rounds))
    keep = not config.quick
    report("selfplay", "Self-play beside its network alone and pgx's loop", [row for row, _ in rows], keep)
    report("learning", "Learning beside bare passes", [row for _, row in rows], keep)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
