"""AlphaZero's training: the compiled iteration in the loop that all learners share."""

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from azjax import training
from azjax.common import keys, remote
from azjax.common.remembered import remembered
from azjax.nn import Params
from azjax.training import Metrics, TrainState, checkpoint, loop, seen
from azjax.training import loss as objective
from azjax.training.boards import name_of
from azjax.training.config import TrainConfig
from azjax.training.selfplay import Openings, OwnTargets
from azjax.training.step import BoardMetrics, Schedule, SearchFactory
from azjax.training.targets import ValueTargets

MOST = 16  # iterations at once, if they are short

Judge = Callable[[Params, int], dict[str, Any]]
"""(the averaged weights, iteration) -> what is added to the iteration's line of metrics.jsonl."""


class IterationReport(NamedTuple):
    """What the loop tells whoever watches it, once per iteration."""

    row: dict[str, Any]  # what goes to metrics.jsonl
    iterations: int  # how many there will be


def train(
    config: TrainConfig,
    out: str | os.PathLike,
    *,
    resume: bool | Literal["auto"] = False,
    resume_from: int | None = None,
    devices: int | None = None,
    init_from: str | os.PathLike | None = None,
    judge: Callable[[TrainConfig], Judge] | None = None,
    search: SearchFactory | None = None,
    loss: objective.LossFactory | None = None,
    openings: Openings | str | None = None,
    value_targets: ValueTargets | None = None,
    schedule: Schedule | None = None,
    optimiser: objective.OptimiserFactory | None = None,
    own_targets: OwnTargets | None = None,
    watch: Callable[[IterationReport], None] = lambda report: None,
    say: Callable[[str], None] = print,
    stage: Callable[[str], None] = lambda what: None,
) -> checkpoint.Run:
    """Trains until `config.iterations` are done, or until interrupted; either way everything is saved.

    Args:
      config: the run.
      out: its folder; see `azjax.training.checkpoint`.
      resume: continue what is there; "auto" continues it if there is a run, else begins from `init_from` if that is
        there, else anew: the same call then begins a run and continues it however often it is stopped.
      resume_from: continue from this checkpoint rather than the newest.
      devices: how many to use; None for all.
      init_from: a run's folder or an agent.npz whose weights a new run begins with; on another board too, where the
        heads are convolutional. Resuming does not need it.
      judge: makes what judges the run every `config.evaluation.every` iterations, such as
        `azjax.evaluation.live.make_judge`; None for no judging.
      search, loss, openings, value_targets, schedule, optimiser, own_targets: own parts, see `azjax.make_trainer`;
        config.json names those that were given, and resuming needs them again. An own network is registered: see
        `azjax.register_network`.
      watch: called once per iteration.
      say: receives lines for people.
      stage: told what is about to be done if that takes a while.
    """
    if resume == "auto":
        resume, init_from = _found(out, init_from, say)
    parts = {
        "search": search,
        "loss": loss,
        "openings": openings,
        "value_targets": value_targets,
        "schedule": schedule,
        "optimiser": optimiser,
        "own_targets": own_targets,
    }
    parts = {name: part for name, part in parts.items() if part is not None}
    begun_with = {"own_parts": sorted(parts)} if parts else {}
    if init_from is not None:
        begun_with["init_from"] = str(init_from)
    if not resume and resume_from is None and init_from is not None:
        checkpoint.load_agent(init_from)  # before anything is made: a wrong name is said at once
    if resume or resume_from is not None:
        _check_begun_with(out, begun_with)
        begun_with = checkpoint.read_about(out)
    return loop.train(
        lambda own: make_learning(
            own, devices, stage, judge, begun_with.get("init_from"), parts, remote.local(out)
        ),
        config,
        out,
        resume=resume,
        resume_from=resume_from,
        begun_with=begun_with,
        watch=lambda row: watch(IterationReport(row, config.iterations)),
        say=say,
    )


def _found(
    out: str | os.PathLike, init_from: str | os.PathLike | None, say: Callable[[str], None]
) -> tuple[bool, str | os.PathLike | None]:
    """Whether there is a run to continue, and from which weights to begin if there is none."""
    if (remote.fetched(out) / "config.json").exists():
        return True, None  # it knows where it began
    if init_from is not None and not remote.fetched(init_from).exists():
        say(f"there is neither a run in {out} nor anything in {init_from}: it begins anew")
        return False, None
    return False, init_from


class Shown(NamedTuple):
    """What is judged and kept of a state."""

    params: Params
    average: Params


def make_learning(
    config: TrainConfig,
    devices: int | None = None,
    stage: Callable[[str], None] = lambda what: None,
    judge: Callable[[TrainConfig], Judge] | None = None,
    init_from: str | os.PathLike | None = None,
    parts: dict[str, Any] | None = None,
    out: str | os.PathLike | None = None,
) -> loop.Learning:
    """The run as the loop sees it; nothing is compiled or allocated yet. For the arguments see `train`."""
    mesh = training.make_mesh(devices, config.replay.groups)
    trainer = training.make_trainer(config, mesh, **(parts or {}))
    judged = None if judge is None else judge(config)

    def compile_on_mesh(state: TrainState) -> tuple[Callable, str]:
        stage("compiling (about half a minute the first time)")
        compiled, about = compile_iterations(trainer, state)
        groups, there_are = config.replay.groups, jax.device_count()
        if devices is None and mesh.size < there_are:
            about += f"; it uses {mesh.size} of {there_are} devices, because replay.groups is {groups}"
        if config.selfplay.log and out is not None:
            return logged(compiled, seen.Log(out, config.game)), about
        return compiled, about

    def warm_start(state: TrainState) -> TrainState:
        return state if init_from is None else begin_from(state, init_from)

    def judgement(shown: Shown, row: dict[str, Any]) -> dict[str, Any]:
        stage("judging (what that needs is compiled the first time)")
        return {} if judged is None else judged(shown.average, row["iteration"])

    return loop.Learning(
        unit="iteration",
        init=lambda: trainer.init(keys.root(config.seed, "training")),
        compile=compile_on_mesh,
        rows=functools.partial(metrics_rows, boards=[name_of(board.game) for board in config.played]),
        shown=lambda state: Shown(state.params, state.average),
        judge=judgement,
        weights=lambda shown: shown,
        export=lambda run, iteration, shown: run.save_agent(iteration, shown.average),
        counted="positions_played",
        rate="positions_per_second",
        remedy="a lower --optimiser.learning-rate, or a lower --optimiser.clip-norm,",
        judge_every=None if judged is None else config.evaluation.every,
        most=1 if config.selfplay.log else MOST,
        warm_start=warm_start,
    )


def logged(iterate: Callable[[TrainState, int], tuple[TrainState, Any]], log: seen.Log) -> Callable:
    """The same for one iteration at a time, after which what has ended in it is written down."""

    def iterate_and_write(state: TrainState, count: int) -> tuple[TrainState, Any]:
        state, metrics = iterate(state, count)
        ended = state.ring.ended
        if jax.process_count() > 1:  # each process has some of the groups
            ended = multihost_utils.process_allgather(ended, tiled=True)
        if jax.process_index() == 0:
            log.append(int(state.iteration), jax.device_get(ended))
        return state, metrics

    return iterate_and_write


def begin_from(state: TrainState, path: str | os.PathLike) -> TrainState:
    """A first state with the averaged weights of another run.

    Its head of action values is left out where this run has none, so that a search can go on from a run without one.

    Args:
      state: of a new run.
      path: the other run's folder, or its agent.npz.

    Raises:
      RunError: the weights do not fit this run's network; it names those.
    """
    config, params = checkpoint.load_agent(path)
    wanted = dict(jax.tree_util.tree_leaves_with_path(state.params))
    given = {
        name: array
        for name, array in jax.tree_util.tree_leaves_with_path(params)
        if name in wanted or "action_values" not in _array_name(name).split(".")
    }
    wrong = [
        f"{_array_name(name)} is {_shape_text(given.get(name))} there, {_shape_text(wanted.get(name))} here"
        for name in dict.fromkeys((*wanted, *given))
        if name not in given or name not in wanted or given[name].shape != wanted[name].shape
    ]
    if wrong:
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise checkpoint.RunError(
            f"the weights of {path}, a network for {config.game}, do not fit this run's: {'; '.join(wrong[:3])}{more}."
            " Give this run the same --network; for another board its heads must be convolutional"
        )
    placed = jax.tree_util.tree_map_with_path(
        lambda name, old: jax.device_put(given[name], old.sharding), state.params
    )
    return state._replace(params=placed, average=jax.tree.map(jnp.copy, placed))


def _array_name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _shape_text(array: Any) -> str:
    return "missing" if array is None else f"{list(array.shape)}"


def _check_begun_with(out: str | os.PathLike, given: dict[str, Any]) -> None:
    """Raises RunError unless a run is resumed with the own parts, and from nowhere else than, it was begun with."""
    about = checkpoint.read_about(out)
    then, now = (set(one.get("own_parts", ())) for one in (about, given))
    if then != now:
        missing, extra = ", ".join(sorted(then - now)), ", ".join(sorted(now - then))
        raise checkpoint.RunError(
            f"{out} was begun in Python with its own {missing}; resume it with azjax.train and the same"
            if missing
            else f"{out} was begun without an own {extra}; leave that out, or choose another folder"
        )
    if given.get("init_from", about.get("init_from")) != about.get("init_from"):
        raise checkpoint.RunError(
            f"{out} has begun from {about.get('init_from', 'nothing')} already; leave init_from out, or choose"
            " another folder"
        )


def compile_iteration(trainer: training.Trainer, state: TrainState) -> tuple[Callable, str]:
    """Compiles the iteration and checks that it can follow itself.

    Returns:
      The compiled iteration, and a line about its memory and how long compiling took.
    """
    return _compile(trainer.iteration, state)


def several_iterations(trainer: training.Trainer, most: int = MOST) -> Any:
    """Up to `most` iterations at once as one jitted program, whose bits do not depend on how many they are.

    Returns:
      (state, count) -> (state after so many iterations, (counters, metrics) of each [most, ...], of which the first
      `count` count).
    """

    return trainer.iteration.used_by(_repeated(most))


@remembered
def _repeated(most: int) -> Callable[[Callable], Callable]:
    """(an iteration) -> up to `most` of them at once; see `several_iterations`."""

    def make(iteration: Callable[[TrainState], tuple[TrainState, Metrics]]) -> Callable:
        def iterations(state: TrainState, count: jax.Array) -> tuple[TrainState, tuple[TrainState, Metrics]]:
            def one(number: jax.Array, carry: tuple[TrainState, Any]) -> tuple[TrainState, Any]:
                state, measured = carry
                state, metrics = iteration(state)
                rows = jax.tree.map(
                    lambda all, row: all.at[number].set(row), measured, (counters(state), metrics)
                )
                return state, rows

            like = jax.eval_shape(iteration, state)
            measured = jax.tree.map(
                lambda leaf: jnp.zeros((most, *leaf.shape), leaf.dtype), (counters(like[0]), like[1])
            )
            return jax.lax.fori_loop(0, count, one, (state, measured))

        return iterations

    return make


def compile_iterations(
    trainer: training.Trainer, state: TrainState, most: int = MOST
) -> tuple[Callable, str]:
    """Compiles `several_iterations` and checks that they can follow themselves.

    Returns:
      The compiled program, and a line about its memory and how long compiling took.
    """
    compiled, about = _compile(several_iterations(trainer, most), state, np.int32(1))
    return lambda state, count: compiled(state, np.int32(count)), about


def _compile(function: Any, state: TrainState, *more: Any) -> tuple[Callable, str]:
    start = time.perf_counter()
    compiled = function.lower(state, *more).compile()
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


def counters(state: TrainState) -> TrainState:
    """The parts of a state of which `metrics_row` tells; the others are None."""
    counted = objective.counters(state.opt_state)
    return state._replace(
        params=None, average=None, lanes=None, ring=None, key=None, opt_state=counted, others=()
    )


def metrics_rows(
    measured: tuple[TrainState, Metrics], count: int, boards: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The first `count` of several lines; see `compile_iterations` and `metrics_row`."""
    return [
        metrics_row(*jax.tree.map(lambda leaf, row=row: leaf[row], measured), boards) for row in range(count)
    ]


def metrics_row(state: TrainState, metrics: Metrics, boards: Sequence[str] = ()) -> dict[str, Any]:
    """One line of metrics.jsonl; the same for the same state, whenever it is made.

    Args:
      state: after the iteration, or its `counters`.
      metrics: of the iteration.
      boards: what its boards are called. Of several, `boards` holds the numbers of each that was played.
    """
    row = {
        "iteration": int(state.iteration),
        "positions": int(state.positions),
        "games": int(state.games),
        "updates": int(state.updates),
        **_row_of(metrics),
        "skipped_updates": int(metrics.skipped_updates),
        "skipped_in_a_row": int(objective.skipped_in_a_row(state.opt_state)),
        "learning_rate": float(metrics.learning_rate),
    }
    if metrics.boards:
        row["boards"] = {
            name: _row_of(of_board)
            for name, of_board in zip(boards, metrics.boards)
            if int(of_board.counts.positions)
        }
    return row


def _row_of(metrics: Metrics | BoardMetrics) -> dict[str, Any]:
    """What a line tells of all boards together, and of each."""
    counts = metrics.counts
    games = max(1, int(counts.games))
    return {
        "positions_played": int(counts.positions),
        "games_finished": int(counts.games),
        "mean_plies": float(counts.game_plies) / games,
        "first_player_score": float(counts.first_player_score) / games,
        "draws": int(counts.draws),
        "loss": {name: float(value) for name, value in metrics.losses._asdict().items()},
        "stored": int(metrics.stored),
    }
