"""The loop around the compiled iteration: it reports, judges, saves and resumes, and changes nothing.

With `jax.distributed` every process runs the same loop; the first alone judges, and writes what people read.
"""

import functools
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import checkpoint, training
from azjax.agents.core import Act
from azjax.agents.plain import random_agent, uct_agent
from azjax.agents.trained import make_search, search_act
from azjax.config import TrainConfig
from azjax.evaluation.arena import make_match
from azjax.evaluation.ground_truth import truth_judge
from azjax.networks import make_evaluator, make_network
from azjax.training import Metrics, TrainState


class Progress(NamedTuple):
    """What the loop tells whoever watches it, once an iteration."""

    row: dict[str, Any]  # what goes to metrics.jsonl
    iterations: int  # how many there will be


def train(
    config: TrainConfig,
    out: str | os.PathLike,
    *,
    resume: bool = False,
    resume_from: int | None = None,
    devices: int | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Trains until `config.iterations` are done, or until interrupted; either way everything is saved.

    Args:
      config: the run.
      out: its folder; see `azjax.checkpoint`.
      resume: continue what is there.
      resume_from: continue from this checkpoint rather than the newest.
      devices: how many to use; None for all.
      watch: called once an iteration.
      say: receives lines for people.
    """
    resume = resume or resume_from is not None
    is_first = jax.process_index() == 0
    run = checkpoint.open_run(out, config) if resume else checkpoint.create_run(out, config)
    trainer = training.make_trainer(run.config, training.make_mesh(devices))
    state = trainer.init(jax.random.key(run.config.seed))
    if resume:
        # A run killed before its first checkpoint has metrics, but begins anew.
        state = run.restore(state, resume_from) if run.iterations else state
        if is_first:
            run.forget_metrics_after(int(state.iteration))
        say(f"continuing {out} after iteration {int(state.iteration)}")

    compiled, summary = compile_iteration(trainer, state)
    say(summary)
    judge = make_judge(run.config)
    started = time.perf_counter()
    with Interruption() as interruption:
        while int(state.iteration) < run.config.iterations and not interruption.requested:
            before = time.perf_counter()
            state, metrics = compiled(state)
            row = metrics_row(state, jax.device_get(metrics))
            done = row["iteration"] >= run.config.iterations
            if row["iteration"] % run.config.evaluation.every == 0 or done:
                row |= judge(state.average, row["iteration"]) if is_first else {}
            now = time.perf_counter()
            row["seconds"] = now - started
            row["positions_per_second"] = row["positions_played"] / (now - before)
            if is_first:
                run.append_metrics(row)
                watch(Progress(row, run.config.iterations))
            if row["iteration"] % run.config.save_every == 0 or done:
                _save(run, state)
        if interruption.requested:
            _save(run, state)
            say(f"interrupted and saved; continue with --out {out} --resume")
    return run


def compile_iteration(trainer: training.Trainer, state: TrainState) -> tuple[Callable, str]:
    """Compiles the iteration and checks that it can follow itself.

    Returns:
      The compiled iteration, and a line about its memory and how long compiling took.
    """
    start = time.perf_counter()
    compiled = trainer.iteration.lower(state).compile()
    seconds = time.perf_counter() - start
    check_carried(state, compiled)
    memory = compiled.memory_analysis()
    megabytes = (memory.argument_size_in_bytes + memory.temp_size_in_bytes) / 2**20
    return compiled, f"compiled in {seconds:.0f} s; an iteration needs {megabytes:.0f} MiB on each device"


def check_carried(state: TrainState, compiled: Any) -> None:
    """Raises unless an iteration gives back what it took: shapes, types and places."""
    given, _ = compiled.output_shardings
    taken = jax.tree.map(lambda leaf: leaf.sharding, state)
    shapes, _ = compiled.out_info
    for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(shapes)):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            name = jax.tree_util.keystr(path)
            raise TypeError(
                f"an iteration turns {name} from {old.shape} {old.dtype} into {new.shape} {new.dtype}"
            )
    for (path, old), new, leaf in zip(
        jax.tree_util.tree_leaves_with_path(taken), jax.tree.leaves(given), jax.tree.leaves(state)
    ):
        if not old.is_equivalent_to(new, leaf.ndim):
            raise TypeError(f"an iteration moves {jax.tree_util.keystr(path)} from {old} to {new}")


def metrics_row(state: TrainState, metrics: Metrics) -> dict[str, Any]:
    """One line of metrics.jsonl; the same for the same state, whenever it is made."""
    counts, losses = metrics.counts, metrics.losses
    games = max(1, int(counts.games))
    return {
        "iteration": int(state.iteration),
        "positions": int(state.positions),
        "games": int(state.games),
        "updates": int(state.updates),
        "positions_played": int(counts.positions),
        "games_finished": int(counts.games),
        "mean_plies": float(counts.game_plies) / games,
        "first_player_score": float(counts.first_player_score) / games,
        "draws": int(counts.draws),
        "loss": {name: float(value) for name, value in losses._asdict().items()},
        "stored": int(metrics.stored),
        "skipped_updates": int(metrics.skipped_updates),
        "learning_rate": float(metrics.learning_rate),
    }


def player_of(config: TrainConfig, simulations: int) -> Act:
    """The network behind the run's own search, without noise; its parameters are the run's."""
    evaluate = make_evaluator(config.game, make_network(config.network, config.game))
    return search_act(make_search(config, config.game, evaluate, simulations=simulations))


def make_judge(config: TrainConfig) -> Callable[[Any, int], dict[str, Any]]:
    """(params, iteration) -> `evaluation`, the scores against fixed opponents with their intervals, and `truth`,
    the shares of solved positions that the agent gets right, where a solver fits."""
    options = config.evaluation
    agent = player_of(config, options.simulations)
    opponents = {
        "random": random_agent(config.game).act,
        f"uct:{options.uct_simulations}": uct_agent(config.game, options.uct_simulations).act,
    }
    matches = {
        name: make_match(config.game, agent, opponent, pairs=options.pairs, random_plies=options.random_plies)
        for name, opponent in opponents.items()
    }

    @functools.cache
    def truth() -> Callable | None:
        # Made when first wanted, so that a run's first metrics need not wait for the solver.
        known = truth_judge(config.game, simulations=options.simulations) if options.truth else None
        if known is None:
            return None
        evaluate = make_evaluator(config.game, make_network(config.network, config.game))
        return jax.jit(lambda params: known(evaluate, params))

    def judge(params: Any, iteration: int) -> dict[str, Any]:
        params = jax.tree.map(np.asarray, params)  # off the mesh: a match runs on one device
        scores = {}
        for number, (name, match) in enumerate(matches.items()):
            key = jax.random.fold_in(jax.random.key(config.seed), 2 * iteration + number)
            result = match(params, None, key)
            scores[name] = {
                "score": result.score,
                "interval": list(result.interval),
                "games": result.games,
                "distinct_games": result.distinct_games,
            }
        row = {"evaluation": scores}
        if truth() is not None:
            row["truth"] = {name: float(share) for name, share in truth()(params).items()}
        return row

    return judge


def _save(run: checkpoint.Run, state: TrainState) -> None:
    run.save(state)
    if jax.process_index() == 0:
        run.save_agent(int(state.iteration), jax.device_get(state.average))


class Interruption:
    """Ctrl-C asks for a stop between two iterations; a second one stops at once."""

    def __enter__(self):
        self.requested = False
        self._before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._ask)
        except ValueError:
            self._before = None  # not in the main thread, where no signal arrives
        return self

    def _ask(self, number, frame):
        if self.requested:
            signal.signal(signal.SIGINT, self._before)
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *exception):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
