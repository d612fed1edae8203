"""Supervised learning: a network is taught positions whose values, good moves, or both are known.

The same loop as any training, with its checkpoints, resuming and progress; what comes out is an agent like that of a
run of self-play, to be played with, judged, or gone on from (`--init-from`: the supervised start of Karki 2024).

What is taught comes either from a fixed set of labelled positions, of which an iteration takes the next ones in a
shuffled order, or from whoever can label any position, such as a solver: then every iteration draws new ones at random.
Both are functions of the seed and the iteration alone, so that a run that was killed resumes to the same bits. A share
of all positions is held out: judged by, and never learned from.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from azjax.common import keys, memory
from azjax.common.checked import Checked, Count, Decay, Seed, at_least, check
from azjax.common.remembered import remembered
from azjax.envs.core import Game, without_past
from azjax.nn import make_evaluator, make_network
from azjax.nn.networks import OWN, NetworkConfig, Params
from azjax.positions import labelled as labels
from azjax.positions import sets
from azjax.positions.drawn import random_positions
from azjax.positions.labelled import Label, Labelled
from azjax.search.tree import split_key
from azjax.training import alphazero, checkpoint, loop, make_mesh
from azjax.training import loss as objective
from azjax.training.config import AnyGame, OptimiserConfig, SearchConfig, TrainConfig
from azjax.training.replay import StoredPosition
from azjax.training.step import DEVICES
from azjax.training.step import Count as Counter

GROUPS = 8  # parts of a batch with keys of their own, so that it does not matter how many devices share it
_MOST_DRAWS = 1000  # for one set of positions


@dataclasses.dataclass(frozen=True)
class SupervisedConfig(Checked):
    """A supervised run."""

    game: Annotated[AnyGame, tyro.conf.arg(name="")]
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    optimiser: OptimiserConfig = dataclasses.field(default_factory=OptimiserConfig)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)  # with which its agent plays
    # solver: random positions, labelled anew for every iteration; or a file of labelled positions (.npz, .jsonl), or
    # the folder of a run, whose positions of self-play the solver labels.
    data: str = "solver"
    all_moves: bool = False  # Chinese Checkers: values of the game with all moves, as Karki 2024
    teach: Literal["both", "values", "policies"] = "both"  # what is learned; the other head stays untaught
    positions: Count = 10_000  # learned from in an iteration (Karki 2024)
    batch_size: Annotated[Count, at_least(GROUPS)] = 128  # positions per update
    held_out: Decay = 0.1  # the share of positions that are not learned from
    judged: Count = 10_000  # how many of these the network is judged by, at most
    evaluate_every: Count = 10  # iterations between two judgements
    iterations: Count = 100  # how long the run goes on
    save_every: Count = 20  # iterations between two checkpoints
    seed: Seed = 0  # of all draws

    def __post_init__(self):
        super().__post_init__()
        check(self.batch_size % GROUPS == 0, "batch_size", f"a multiple of {GROUPS}", self.batch_size)
        check(
            self.batch_size <= self.positions,
            "batch_size",
            f"at most the positions of an iteration ({self.positions:,})",
            self.batch_size,
        )
        for head in ("ownership", "margin", "action_values"):
            check(
                not getattr(self.network, head), f"network.{head}", "False: there are no labels for it", True
            )

    @property
    def updates(self) -> int:
        """Steps of the optimiser in an iteration; positions that fill no batch are left out."""
        return self.positions // self.batch_size


class Data(NamedTuple):
    """What a run learns from and is judged by; made by `from_positions` or `from_labels`."""

    draw: Callable[[int], Labelled]  # (iteration, from 0) -> the `positions` rows that it learns from
    held_out: Labelled | None
    fingerprint: str = ""  # of fixed data, so that nobody resumes with other data


class SupervisedState(NamedTuple):
    """All there is of a run."""

    params: Params
    average: Params  # of the parameters over time, for evaluation
    opt_state: optax.OptState
    key: jax.Array  # [GROUPS] of the symmetries, divided among the devices
    iteration: jax.Array  # [] int32
    positions: Counter  # learned from so far
    updates: Counter  # steps of the optimiser so far


class Measured(NamedTuple):
    """What an iteration reports."""

    iteration: jax.Array  # [] int32
    positions: Counter  # learned from so far
    updates: Counter  # steps of the optimiser so far
    losses: objective.Losses  # means over the updates
    skipped_updates: jax.Array  # [] int32, so far, for gradients that were not finite
    skipped_in_a_row: jax.Array  # [] int32
    learning_rate: jax.Array  # [] of the last update


def check_memory(config: SupervisedConfig) -> None:
    """Raises TooMuchMemoryError unless the network and the positions of an iteration fit into memory."""
    game = without_past(config.game)
    network, optimiser = make_network(config.network, config.game), objective.make_optimiser(config.optimiser)
    params = jax.eval_shape(network.init, jax.random.key(0))
    learned = params, params, jax.eval_shape(optimiser.init, params.weights)
    labelled = memory.size_of(jax.eval_shape(game.init, jax.random.key(0))) + 4 + game.num_actions
    drawn = config.positions
    if config.data == "solver":  # what is held out is drawn too, and left out
        drawn = _drawn(config.positions, 1 - config.held_out)
        if config.held_out:
            drawn = max(drawn, _drawn(config.judged, config.held_out))
    parts = {
        f"{drawn:,} labelled positions": drawn * labelled,
        f"{config.positions:,} of them as they are learned": config.positions
        * (labelled + 4 * game.num_actions),
        "the network and its optimiser": memory.size_of(learned),
    }
    listed = ", ".join(f"{name} {memory.size_text(size)}" for name, size in parts.items())
    memory.check(sum(parts.values()), f"this run ({listed})")


def _drawn(number: int, share: float) -> int:
    """How many positions to draw where a share of them is wanted, with some to spare."""
    return int(1.1 * number / share) + 16


def from_positions(config: SupervisedConfig, known: Labelled) -> Data:
    """A fixed set of positions, learned from in a new random order each time all of them have been seen."""
    game = without_past(config.game)
    apart = labels.is_held_out(game, known.states, config.held_out)
    learned, judged = np.flatnonzero(~apart), np.flatnonzero(apart)
    if not len(learned):
        raise ValueError(f"all {known.size} positions are held out; lower held_out, or give more positions")
    order_key = keys.stream(keys.root(config.seed, "training"), "order of positions")

    def draw(iteration: int) -> Labelled:
        numbers = np.arange(iteration * config.positions, (iteration + 1) * config.positions)
        rounds = np.unique(numbers // len(learned))  # through all positions
        orders = np.concatenate([_permutation(order_key, turn, len(learned)) for turn in rounds.tolist()])
        return labels.rows(known, learned[orders[numbers - rounds[0] * len(learned)]])

    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(known):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    held_out = labels.rows(known, judged[: config.judged]) if len(judged) else None
    return Data(draw, held_out, digest.hexdigest()[:16])


def from_labels(config: SupervisedConfig, label: Label) -> Data:
    """Positions drawn uniformly from the whole game, anew for every iteration, with what `label` knows of them."""
    game = without_past(config.game)

    def positions(key: jax.Array, number: int, apart: bool) -> Labelled:
        share = config.held_out if apart else 1 - config.held_out
        parts, found = [], 0
        drawn = _drawn(number, share)  # always as many: another number would be another program
        for attempt in range(_MOST_DRAWS):
            states = random_positions(game, jax.random.fold_in(key, attempt), drawn)
            states = sets.rows(states, labels.is_held_out(game, states, config.held_out) == apart)
            parts.append(label(states))
            found += parts[-1].size
            if found >= number:
                return labels.rows(labels.concatenate(parts), slice(0, number))
        raise ValueError(f"only {found} of {number} positions could be labelled; ask for fewer")

    learned = keys.stream(keys.root(config.seed, "training"), "positions")
    held_out = None
    if config.held_out:
        held_out = positions(keys.stream(keys.root(config.seed, "judge"), "held out"), config.judged, True)
    return Data(
        lambda iteration: positions(jax.random.fold_in(learned, iteration), config.positions, False), held_out
    )


def train(
    config: SupervisedConfig,
    out: str | os.PathLike,
    data: Data,
    *,
    resume: bool = False,
    resume_from: int | None = None,
    devices: int | None = None,
    init_from: str | os.PathLike | None = None,
    watch: Callable[[dict[str, Any]], None] = lambda row: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Learns until `config.iterations` are done, or until interrupted; either way everything is saved.

    Args:
      config: the run.
      out: its folder; see `azjax.training.checkpoint`. Its agents are those of a `TrainConfig`, see `as_trained`.
      data: what is learned.
      resume: continue what is there, from the newest checkpoint that is whole.
      resume_from: continue from this checkpoint instead.
      devices: how many to use; None for all.
      init_from: a run's folder or an agent.npz whose weights a new run begins with.
      watch: called with the row of every iteration.
      say: receives lines for people.
    """
    begun_with = {"fingerprint": data.fingerprint}
    if init_from is not None:
        begun_with["init_from"] = str(init_from)
    if resume or resume_from is not None:
        begun_with = checkpoint.read_about(out)
        if begun_with.get("fingerprint", "") != data.fingerprint:
            raise checkpoint.RunError(
                f"{config.data} holds other positions than when {out} was begun; bring those back, or choose another"
                " folder"
            )
    return loop.train(
        lambda own: make_learning(own, data, devices, begun_with.get("init_from")),
        config,
        out,
        resume=resume,
        resume_from=resume_from,
        begun_with=begun_with,
        watch=watch,
        say=say,
    )


def make_learning(
    config: SupervisedConfig,
    data: Data,
    devices: int | None = None,
    init_from: str | os.PathLike | None = None,
) -> loop.Learning:
    """The run as the loop sees it; nothing is compiled or allocated yet. For the arguments see `train`."""
    check_memory(config)
    mesh = make_mesh(devices, GROUPS)
    by_batch = PartitionSpec(None, DEVICES)
    make = _functions if config.network.tower in OWN else _remembered_functions
    init, step, placement = make(_of_the_program(config), _losses_of(config, data), mesh)
    batch_placement = NamedSharding(mesh, by_batch)

    def batches_of(iteration: int) -> StoredPosition:
        rows = as_stored(config, data.draw(iteration))
        shape = config.updates, config.batch_size
        rows = jax.tree.map(
            lambda leaf: leaf[: config.updates * config.batch_size].reshape(*shape, *leaf.shape[1:]), rows
        )
        return jax.device_put(rows, batch_placement)

    def compile_on_mesh(state: SupervisedState) -> tuple[Callable, str]:
        numbers = itertools.count(int(state.iteration))
        compiled = step.lower(state, batches_of(0)).compile()
        alphazero.check_carried(state, compiled)

        def iterate(state: SupervisedState, count: int) -> tuple[SupervisedState, Measured]:
            del count  # always one: see `Learning.most`
            return compiled(state, batches_of(next(numbers)))

        return iterate, "compiled"

    def start() -> SupervisedState:
        key = keys.root(config.seed, "training")
        shapes = jax.eval_shape(init, key)
        places = jax.tree.map(
            lambda place, part: jax.tree.map(lambda _: place, part),
            placement,
            shapes,
            is_leaf=lambda node: isinstance(node, NamedSharding),
        )
        return jax.jit(init, out_shardings=places)(key)

    judge = functools.partial(accuracy, config.game, config.network)

    def judgement(average: Params) -> dict[str, Any]:
        if data.held_out is None:
            return {}
        return {
            "held_out": judge(jax.tree.map(np.asarray, average), data.held_out) | {"of": data.held_out.size}
        }

    def export(run: checkpoint.Run, iteration: int, shown: alphazero.Shown) -> None:
        agent = checkpoint.Run(run.path, as_trained(run.config))
        agent.save_agent(iteration, shown.average)

    return loop.Learning(
        unit="iteration",
        init=start,
        compile=compile_on_mesh,
        rows=lambda measured, count: [metrics_row(measured)],
        shown=lambda state: alphazero.Shown(state.params, state.average),
        judge=lambda shown, row: judgement(shown.average),
        weights=lambda shown: shown,
        export=export,
        counted="positions_learned",
        rate="positions_per_second",
        remedy="a lower --optimiser.learning-rate",
        judge_every=config.evaluate_every,
        warm_start=lambda state: state if init_from is None else alphazero.begin_from(state, init_from),
    )


def _of_the_program(config: SupervisedConfig) -> SupervisedConfig:
    """The configuration without what changes nothing in the program of a run."""
    changes = {"data": "solver", "all_moves": False, "held_out": 0.0, "search": SearchConfig(), "seed": 0}
    return dataclasses.replace(
        config, **changes, **dict.fromkeys(("judged", "evaluate_every", "iterations", "save_every"), 1)
    )


def _functions(
    config: SupervisedConfig, taught: OptimiserConfig, mesh: Mesh
) -> tuple[Callable[[jax.Array], SupervisedState], Callable, SupervisedState]:
    """The program of a run: its first state, from a key; an iteration, (state, batches) -> (state, Measured), jitted;
    and where the parts of a state lie.

    Args:
      config: the run.
      taught: what is minimised, see `_losses_of`.
      mesh: the devices.
    """
    game = without_past(config.game)
    divided, everywhere = PartitionSpec(DEVICES), PartitionSpec()
    by_batch = PartitionSpec(None, DEVICES)
    network = make_network(config.network, config.game, axis_name=DEVICES)
    optimiser = objective.make_optimiser(config.optimiser)
    rate = config.optimiser.schedule()
    loss_of = objective.make_loss(game, network, taught, DEVICES)

    def init(key: jax.Array) -> SupervisedState:
        network_key, key = jax.random.split(key)
        params = network.init(network_key)
        nothing = Counter(jnp.uint32(0), jnp.uint32(0))
        return SupervisedState(
            params=params,
            average=jax.tree.map(jnp.copy, params),
            opt_state=optimiser.init(params.weights),
            key=jax.random.split(key, GROUPS),
            iteration=jnp.int32(0),
            positions=nothing,
            updates=nothing,
        )

    def one_update(state: SupervisedState, batch: StoredPosition) -> tuple[SupervisedState, objective.Losses]:
        key, loss_keys = split_key(state.key, 2)
        params, opt_state, losses = objective.update(
            loss_of, optimiser, state.params, state.opt_state, loss_keys, batch, DEVICES
        )
        average = optax.incremental_update(params, state.average, 1.0 - config.optimiser.ema)
        state = state._replace(params=params, average=average, opt_state=opt_state, key=key)
        return state._replace(updates=state.updates.plus(1)), losses

    def learn(state: SupervisedState, batches: StoredPosition) -> tuple[SupervisedState, Measured]:
        state, losses = jax.lax.scan(one_update, state, batches)
        state = state._replace(
            iteration=state.iteration + 1,
            positions=state.positions.plus(config.updates * config.batch_size),
        )
        measured = Measured(
            iteration=state.iteration,
            positions=state.positions,
            updates=state.updates,
            losses=jax.tree.map(jnp.mean, losses),
            skipped_updates=objective.skipped_updates(state.opt_state),
            skipped_in_a_row=objective.skipped_in_a_row(state.opt_state),
            learning_rate=rate(state.updates.clipped()),
        )
        return state, measured

    partition = SupervisedState(
        *(divided if name == "key" else everywhere for name in SupervisedState._fields)
    )
    step = jax.shard_map(
        learn, mesh=mesh, in_specs=(partition, by_batch), out_specs=(partition, everywhere), check_vma=False
    )
    placement = SupervisedState(*(NamedSharding(mesh, part) for part in partition))
    return init, jax.jit(step, donate_argnums=0), placement


_remembered_functions = remembered(_functions)


def as_trained(config: SupervisedConfig) -> TrainConfig:
    """The configuration under which the agents of a supervised run are saved: what playing and judging ask for."""
    return TrainConfig(
        game=config.game,
        network=config.network,
        search=config.search,
        optimiser=config.optimiser,
        iterations=config.iterations,
        save_every=config.save_every,
        seed=config.seed,
    )


def as_stored(config: SupervisedConfig, known: Labelled) -> StoredPosition:
    """Labelled positions as the loss takes them; what is not taught has no weight, see `_losses_of`."""
    number = known.size
    policy = np.zeros((number, config.game.num_actions), np.float32)
    if known.policy is not None and config.teach != "values":
        policy = known.policy.astype(np.float32)
    total = policy.sum(axis=1)
    value = np.zeros(number, np.float32) if known.value is None else known.value
    return StoredPosition(
        state=known.states,
        policy=policy / np.maximum(total, np.finfo(np.float32).tiny)[:, None],
        policy_weight=(total > 0).astype(np.float32),
        value=value,
        outcome=value,
        final=None,
    )


def accuracy(game: Game, network: NetworkConfig, params: Params, known: Labelled) -> dict[str, float]:
    """How often a network is right about positions, of what is known of them.

    Returns:
      "value": the share whose value has the right sign (above 0 a win, 0 a draw, below 0 a loss); "policy": the share
      whose preferred move is one of the best.
    """
    logits, value = sets.in_parts(functools.partial(_answers(game, network), params), known.states)
    found = {}
    if known.value is not None:
        found["value"] = float(np.mean(np.sign(value) == np.sign(known.value)))
    if known.policy is not None:
        best = known.policy == known.policy.max(axis=1, keepdims=True)
        found["policy"] = float(np.mean(best[np.arange(known.size), logits.argmax(axis=1)]))
    return found


def metrics_row(measured: Measured) -> dict[str, Any]:
    """One line of metrics.jsonl; the same for the same run, whenever it is made."""
    iteration, positions = int(measured.iteration), int(measured.positions)
    return {
        "iteration": iteration,
        "positions": positions,
        "positions_learned": positions // iteration,
        "updates": int(measured.updates),
        "loss": {name: float(value) for name, value in measured.losses._asdict().items()},
        "skipped_updates": int(measured.skipped_updates),
        "skipped_in_a_row": int(measured.skipped_in_a_row),
        "learning_rate": float(measured.learning_rate),
    }


def _losses_of(config: SupervisedConfig, data: Data) -> OptimiserConfig:
    """The optimiser's settings, without the loss of what is not taught or not known."""
    example = data.held_out if data.held_out is not None else data.draw(0)
    for name, column in (("values", example.value), ("policies", example.policy)):
        check(
            config.teach != name or column is not None, "teach", f"something that {config.data} knows", name
        )
    if config.teach == "policies" or example.value is None:
        return dataclasses.replace(config.optimiser, value_weight=0.0)
    return config.optimiser


def _permutation(key: jax.Array, number: int, size: int) -> np.ndarray:
    return np.random.default_rng(int(jax.random.bits(jax.random.fold_in(key, number)))).permutation(size)


@functools.lru_cache(maxsize=8)
def _answers(game: Game, network: NetworkConfig) -> Callable:
    game = without_past(game)
    evaluate = make_evaluator(game, make_network(network, game))
    return jax.jit(lambda params, states: evaluate(params, jax.random.key(0), states))
