"""Where an iteration's time goes: network, trees, rules, learning; its memory, its compile time, a trace of it."""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from azjax import training
from azjax.common import keys, remote
from azjax.envs.core import random_action
from azjax.nn.networks import Network, Params, make_network
from azjax.search.tree import split_key
from azjax.training import alphazero, boards, machine, replay
from azjax.training import loss as objective
from azjax.training.config import TrainConfig


def profile(
    config: TrainConfig, rounds: int = 3, *, skip: int = 0, trace: str | os.PathLike | None = None
) -> dict[str, Any]:
    """Times an iteration and its parts, each compiled alone on one device.

    Args:
      config: the run, with one board.
      rounds: iterations that are timed, and kept in the trace.
      skip: iterations to leave out first, beside those that fill the replay.
      trace: a folder, here or in a bucket, for a trace of `rounds` more iterations, as xprof and TensorBoard show it;
        None for none.

    The network is timed as often as the searches call it, on as many positions; the rules likewise; learning
    as the updates of one iteration. What remains of a whole self-play iteration is the trees' share.
    """
    boards.require_one(config, "a profile")
    mesh = training.make_mesh(1)
    trainer = training.make_trainer(config, mesh)
    state = trainer.init(keys.root(config.seed, "training"))
    start = time.perf_counter()
    compiled, _ = alphazero.compile_iteration(trainer, state)
    compile_seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()
    # Fill the replay first, so that the timed iterations learn.
    for _ in range(200):
        state, metrics = compiled(state)
        if float(metrics.losses.total) > 0:
            break
    for _ in range(skip):
        state, metrics = compiled(state)
    jax.block_until_ready(metrics)
    start = time.perf_counter()
    for _ in range(rounds):
        state, metrics = compiled(state)
    jax.block_until_ready(metrics)
    whole = (time.perf_counter() - start) / rounds
    if trace is not None:  # after the clock has stopped: tracing takes time itself
        with tracing(trace):
            for number in range(rounds):
                with jax.profiler.StepTraceAnnotation("iteration", step_num=number):
                    state, metrics = compiled(state)
                    jax.block_until_ready(metrics)

    evaluations = config.search.evaluations
    calls = config.most_plies * evaluations
    network = _time(network_calls(config, calls), rounds)
    rules = _time(_rules_calls(config, calls), rounds)
    learning = _time(update_calls(config, state), rounds)
    trees = max(0.0, whole - network - rules - learning)
    best, known_from = machine.peak(config.selfplay_dtype)
    parts = {"network": network, "rules": rules, "trees and bookkeeping": trees, "learning": learning}
    return {
        "parts": [
            {"part": part, "seconds": seconds, "share": seconds / whole} for part, seconds in parts.items()
        ]
        + [{"part": "whole iteration", "seconds": whole, "share": 1.0}],
        "compile_seconds": compile_seconds,
        "megabytes": (memory.argument_size_in_bytes + memory.temp_size_in_bytes) / 2**20,
        "positions_per_second": config.selfplay.lanes * config.most_plies / whole,
        "share_of_peak": machine.iteration_operations(config) / whole / best,
        "peak": best,
        "peak_from": known_from,
    }


@contextlib.contextmanager
def tracing(folder: str | os.PathLike) -> Iterator[None]:
    """Keeps a trace of what runs in the block in a folder, here or in a bucket."""
    with jax.profiler.trace(remote.local(folder)):
        yield
    if remote.is_remote(folder):
        remote.mirror(folder).send()


def _time(function: Callable[[], Any], rounds: int) -> float:
    jax.block_until_ready(function())
    start = time.perf_counter()
    for _ in range(rounds):
        jax.block_until_ready(function())
    return (time.perf_counter() - start) / rounds


def network_calls(config: TrainConfig, calls: int) -> Callable[[], Any]:
    """A function that runs the network of self-play `calls` times on all lanes, one call after the other."""
    network = make_network(training.playing_config(config), config.game)
    params = training.playing_copy(config, jax.jit(network.init)(keys.root(0, "profile network")))
    observation = jnp.zeros((config.selfplay.lanes, *config.game.observation_shape))
    evaluate = jax.jit(functools.partial(repeated_evaluation, network, calls=calls))
    return lambda: evaluate(params, observation)


def repeated_evaluation(network: Network, params: Params, observation: jax.Array, calls: int) -> Any:
    """The network `calls` times on the same observations, in a loop that XLA cannot shorten."""

    def again(observation, _):
        logits, value = network.apply(params, observation)
        # What XLA cannot see is that nothing changes: 0 * value might be NaN. The logits count too.
        return observation + 0 * value.reshape(-1, *(1,) * (observation.ndim - 1)), logits

    return jax.lax.scan(again, observation, None, calls)


def _rules_calls(config: TrainConfig, calls: int) -> Callable[[], Any]:
    game = config.game
    start_key, move_key = jax.random.split(keys.root(0, "profile rules"))
    states = jax.vmap(game.init)(jax.random.split(start_key, config.selfplay.lanes))

    @jax.jit
    def play(states):
        def ply(states, key):
            action = random_action(key, jax.vmap(game.legal_action_mask)(states))
            seen = jax.vmap(game.observe)(states)
            return jax.vmap(game.step)(states, action), jnp.sum(seen.astype(jnp.float32))

        return jax.lax.scan(ply, states, jax.random.split(move_key, calls))

    return lambda: play(states)


def update_calls(config: TrainConfig, state: training.TrainState) -> Callable[[], Any]:
    """A function that makes the updates of one iteration, on one device."""
    network = make_network(config.network, config.game)
    loss = objective.make_loss(config.game, network, config.optimiser, None)
    optimiser = objective.make_optimiser(config.optimiser)
    count = config.replay.batch_size // config.replay.groups

    @jax.jit
    def learn(params, opt_state, ring, update_keys):
        def one_update(carry, key):
            params, opt_state = carry
            sample_keys, loss_keys = split_key(jax.random.split(key, config.replay.groups), 2)
            batch = replay.sample(ring, sample_keys, count)
            params, opt_state, losses = objective.update(
                loss, optimiser, params, opt_state, loss_keys, batch, None
            )
            return (params, opt_state), losses.total

        return jax.lax.scan(one_update, (params, opt_state), update_keys)

    update_keys = jax.random.split(keys.root(0, "profile learning"), config.updates)
    return lambda: learn(state.params, state.opt_state, state.ring, update_keys)
