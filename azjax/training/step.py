"""The run: one pytree, `TrainState`, and one compiled step from it to the next.

An iteration plays some moves in every lane, stores the games that ended, and learns from the stored ones.
It is one program over a mesh of devices: games and replay are divided among them, parameters are the same on
all, and gradients are averaged. Whoever holds the state holds the run.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from azjax.common import memory
from azjax.common.remembered import remembered
from azjax.envs.core import Game
from azjax.nn import OwnNetwork, as_network, make_action_evaluator, make_evaluator, networks
from azjax.nn.networks import Network, Params
from azjax.search import Evaluator, Search, exploration, klent, search_from_config, tree
from azjax.search.tree import split_key
from azjax.training import boards, replay, selfplay, targets
from azjax.training import loss as objective
from azjax.training.config import ConfigError, EvaluationConfig, TrainConfig
from azjax.training.openings import make_openings

DEVICES = "devices"

SearchFactory = Callable[[Game, Evaluator], Search]
"""(game, evaluate) -> search."""

Schedule = Callable[[jax.Array], jax.Array]
"""Steps of the optimiser so far [] -> learning rate []."""


class Count(NamedTuple):
    """A whole number that never overflows, in two words; `int(count)` reads it."""

    high: jax.Array  # [] uint32
    low: jax.Array  # [] uint32

    def plus(self, number: jax.Array | int) -> "Count":
        """The count and a number, from 0 and below 2^32."""
        low = self.low + jnp.asarray(number).astype(jnp.uint32)
        return Count(self.high + (low < self.low), low)

    def clipped(self) -> jax.Array:
        """[] int32, the count, or the largest such number."""
        most = jnp.uint32(2**31 - 1)
        return jnp.where(self.high > 0, most, jnp.minimum(self.low, most)).astype(jnp.int32)

    def __int__(self) -> int:
        return (int(self.high) << 32) + int(self.low)


class Played(NamedTuple):
    """What a run holds of one board; divided among the devices."""

    lanes: selfplay.Lanes
    ring: replay.Ring
    key: jax.Array  # [groups] of the learner's draws


class TrainState(NamedTuple):
    """All there is of a run."""

    params: Params
    average: Params  # of the parameters over time, for evaluation
    opt_state: optax.OptState
    lanes: selfplay.Lanes  # divided among the devices
    ring: replay.Ring  # divided among the devices
    key: jax.Array  # [groups] of the learner's draws, divided among the devices
    iteration: jax.Array  # [] int32
    positions: Count  # moves searched so far
    games: Count  # games finished so far
    updates: Count  # steps of the optimiser so far
    others: tuple[Played, ...] = ()  # of the boards behind the first, where there are several

    @property
    def played(self) -> tuple[Played, ...]:
        """Of all boards, in the order of `TrainConfig.played`."""
        return (Played(self.lanes, self.ring, self.key), *self.others)

    def with_played(self, played: Sequence[Played]) -> "TrainState":
        """The same with something else for all boards."""
        first, *others = played
        return self._replace(lanes=first.lanes, ring=first.ring, key=first.key, others=tuple(others))


class BoardMetrics(NamedTuple):
    """What an iteration reports of one board."""

    losses: objective.Losses  # means over the updates; zero while nothing is learned of it
    counts: selfplay.Counts  # of this iteration
    stored: jax.Array  # [] int32, positions in the ring


class Metrics(NamedTuple):
    """What an iteration reports, of all boards together."""

    losses: objective.Losses  # means over the updates; zero while warming up
    counts: selfplay.Counts  # of this iteration
    stored: jax.Array  # [] int32, positions in the ring
    skipped_updates: jax.Array  # [] int32, so far, for gradients that were not finite
    learning_rate: jax.Array  # [] of the last update
    boards: tuple[BoardMetrics, ...] = ()  # of each of several, in the order of `TrainConfig.played`


class Trainer(NamedTuple):
    """A run as functions; all are to be called with states of the same configuration and mesh."""

    init: Callable[[jax.Array], TrainState]  # from a key
    iteration: Callable[
        [TrainState], tuple[TrainState, Metrics]
    ]  # on a mesh it consumes (donates) its argument
    network: Network  # for evaluation, in float32


def make_mesh(devices: int | None = None, groups: int | None = None) -> Mesh:
    """A mesh of devices, as many of each process.

    Args:
      devices: how many; None for all of them, or as many as can share the groups alike.
      groups: of the run's games and replay.
    """
    processes, available = jax.process_count(), len(jax.devices())
    counts = range(processes, available + 1, processes)
    if devices is None:
        fitting = [count for count in counts if groups is None or groups % count == 0]
        if not fitting:
            raise ValueError(
                f"replay.groups must be a multiple of the number of processes ({processes}), got {groups}"
            )
        devices = fitting[-1]
    if devices not in counts:
        whole = f", and a multiple of the {processes} processes" if processes > 1 else ""
        raise ValueError(f"devices must be between 1 and {available}{whole}, got {devices}")
    of_each = devices // processes
    chosen = {one for process in range(processes) for one in jax.local_devices(process)[:of_each]}
    return Mesh([one for one in jax.devices() if one in chosen], (DEVICES,))


def make_trainer(
    config: TrainConfig,
    mesh: Mesh | None = None,
    *,
    network: OwnNetwork | None = None,
    search: SearchFactory | None = None,
    loss: objective.LossFactory | None = None,
    openings: selfplay.Openings | str | None = None,
    value_targets: targets.ValueTargets | None = None,
    schedule: Schedule | None = None,
    optimiser: objective.OptimiserFactory | None = None,
    own_targets: selfplay.OwnTargets | None = None,
) -> Trainer:
    """Makes the functions of a run; nothing is compiled or allocated yet.

    Whatever is given replaces what the configuration would make.

    Args:
      config: the run.
      mesh: the devices, see `make_mesh`. Without one, `init` and `iteration` are pure functions that are neither
        compiled nor placed, to be used under `jax.jit` and `jax.vmap`; see `azjax.train_many`.
      network: a flax module or a pair of functions; see `azjax.nn.as_network`.
      search: (game, evaluate) -> the search of self-play, such as
        `functools.partial(azjax.search.puct, simulations=50)`.
      loss: (game, network) -> a function of parameters, keys [groups] and positions [batch, ...] that returns
        `Losses` and the new statistics. It sees one device's share of the batch; gradients are averaged afterwards.
      openings: where games start, or the name of a kind such as R8; with several boards a name.
      value_targets: what the value head learns; see `azjax.training.targets`.
      schedule: steps made so far -> learning rate.
      optimiser: (schedule) -> the steps of an optax optimiser, such as `optax.contrib.muon`; gradients are clipped
        before it, and those that are not finite skipped, as the configuration has it.
      own_targets: (moments [plies, ...] of one finished game, its end, how many plies count) -> a tree of arrays
        [plies, ...], stored with the game's positions; an own loss finds it in `batch.own`.
    """
    devices = 1 if mesh is None else mesh.size
    config = with_groups_for(config, devices)
    own = (network, search, loss, value_targets, schedule, optimiser, own_targets)
    # What runs of one kind have in common is traced and compiled once, whatever their seeds, lengths and judges.
    registered = config.network.tower in networks.OWN
    make = _functions if registered or any(part is not None for part in own) else _remembered_functions
    program = make(_of_the_program(config), mesh, *own)
    check_memory(config, program.shapes, devices)  # before the openings are made, which may take a while
    if openings is None or isinstance(openings, str):
        kind = config.selfplay.openings if openings is None else openings
        share = config.selfplay.opening_share
        begin_with = tuple(make_openings(board.game, kind, share) for board in config.played)
    elif config.boards:
        raise ConfigError(
            "openings must be the name of a kind with boards, such as R8: positions are of one board"
        )
    else:
        begin_with = (openings,)
    if mesh is None:
        init, iterate = (functools.partial(part, begin_with) for part in (program.init, program.iterate))
        return Trainer(init, iterate, program.network)
    given = _Given(begin_with, NamedSharding(mesh, PartitionSpec()))
    return Trainer(_Bound(program.init, given), _Bound(program.iterate, given), program.network)


BeginWith = tuple[selfplay.Openings, ...]
"""Where games start, one per board."""


class _Program(NamedTuple):
    """The functions of a run, which are given the openings; on a mesh they are jitted and placed."""

    init: Callable[[BeginWith, jax.Array], TrainState]
    iterate: Callable[[BeginWith, TrainState], tuple[TrainState, Metrics]]
    network: Network
    shapes: TrainState  # of the state


def _of_the_program(config: TrainConfig) -> TrainConfig:
    """The configuration without what changes nothing in the program of a run."""
    return dataclasses.replace(
        config,
        selfplay=dataclasses.replace(config.selfplay, openings="none", opening_share=1.0),
        evaluation=EvaluationConfig(),
        iterations=1,
        save_every=1,
        seed=0,
    )


def _functions(
    config: TrainConfig,
    mesh: Mesh | None,
    network: OwnNetwork | None,
    search: SearchFactory | None,
    loss: objective.LossFactory | None,
    value_targets: targets.ValueTargets | None,
    schedule: Schedule | None,
    own_optimiser: objective.OptimiserFactory | None,
    own_targets: selfplay.OwnTargets | None,
) -> _Program:
    """The program of a run; see `make_trainer`."""
    axis_name = None if mesh is None else DEVICES
    parts = [
        _part_of_board(board, config, axis_name, network, search, loss, value_targets, own_targets)
        for board in config.played
    ]
    learned = parts[0].network
    if len(parts) > 1:
        every = [jax.eval_shape(part.network.init, jax.random.key(0)) for part in parts]
        boards.check_one_network(every, config.played)
    rate = schedule or config.optimiser.schedule()
    optimiser = objective.make_optimiser(config.optimiser, rate, own_optimiser)

    def over_devices(reduce: Callable, what: Any) -> Any:
        return what if axis_name is None else reduce(what, axis_name)

    def start(begin_with: BeginWith, key: jax.Array) -> TrainState:
        network_key, *played_keys = jax.random.split(key, 1 + 2 * len(parts))
        nothing = Count(jnp.uint32(0), jnp.uint32(0))
        params = learned.init(network_key)
        own, *others = (
            part.start(*given) for part, *given in zip(parts, begin_with, played_keys[::2], played_keys[1::2])
        )
        return TrainState(
            params=params,
            average=jax.tree.map(jnp.copy, params),
            opt_state=optimiser.init(params.weights),
            lanes=own.lanes,
            ring=own.ring,
            key=own.key,
            iteration=jnp.int32(0),
            positions=nothing,
            games=nothing,
            updates=nothing,
            others=tuple(others),
        )

    # Whatever the openings are, the shapes are the same.
    usual = tuple(selfplay.standard_opening(board.game) for board in config.played)
    shapes = jax.eval_shape(lambda key: start(usual, key), jax.random.key(0))

    @jax.named_scope("learning")
    def learn(state: TrainState, are_ready: Sequence[jax.Array]) -> tuple[TrainState, objective.OverBoards]:
        loss_of = objective.over_boards([part.loss for part in parts], are_ready)

        def one_update(state: TrainState, places: Sequence[jax.Array] | None):
            state, sample_keys, loss_keys = _with_split_keys(state, 3)
            batches = [
                _drawn(config, of_board.ring, sample_key, None if places is None else places[number])
                for number, (of_board, sample_key) in enumerate(zip(state.played, sample_keys))
            ]
            params, opt_state, losses = objective.update(
                loss_of, optimiser, state.params, state.opt_state, loss_keys, batches, axis_name
            )
            average = optax.incremental_update(params, state.average, 1.0 - config.optimiser.ema)
            state = state._replace(params=params, average=average, opt_state=opt_state)
            return state._replace(updates=state.updates.plus(1)), losses

        places = None
        if config.replay.distinct:
            state, order_keys = _with_split_keys(state, 2)
            places = [_places(config, of_board.ring, key) for of_board, key in zip(state.played, order_keys)]
        state, losses = jax.lax.scan(one_update, state, places, config.updates)
        return state, jax.tree.map(jnp.mean, losses)

    def warm_up(state: TrainState, are_ready: Any) -> tuple[TrainState, objective.OverBoards]:
        nothing = objective.nothing_learned()
        return state, objective.OverBoards(nothing, (nothing,) * (len(parts) if len(parts) > 1 else 0))

    def iterate(begin_with: BeginWith, state: TrainState) -> tuple[TrainState, Metrics]:
        iteration = state.iteration + 1
        params = playing_copy(config, state.params)
        played, counts = zip(
            *(
                part.play(openings, params, of_board, iteration)
                for part, openings, of_board in zip(parts, begin_with, state.played)
            )
        )
        counts = over_devices(jax.lax.psum, counts)
        every_count = jax.tree.map(lambda *numbers: sum(numbers[1:], numbers[0]), *counts)
        state = state.with_played(played)._replace(
            iteration=iteration,
            positions=state.positions.plus(every_count.positions),
            games=state.games.plus(every_count.games),
        )
        stored, are_ready = [], []
        for part, of_board in zip(parts, played):
            ring = of_board.ring
            stored.append(over_devices(jax.lax.psum, jnp.sum(jnp.minimum(ring.written, ring.capacity))))
            # A group without any position cannot be drawn from, so every one must have some.
            fewest = over_devices(jax.lax.pmin, jnp.min(ring.written))
            is_ready = (stored[-1] >= config.replay.warm_up) & (fewest > 0)
            are_ready.append(is_ready & part.board.is_played_in(iteration))
        is_any_ready = functools.reduce(operator.or_, are_ready)
        state, losses = jax.lax.cond(is_any_ready, learn, warm_up, state, are_ready)
        skipped = objective.skipped_updates(state.opt_state)
        learning_rate = rate(state.updates.clipped()) * objective.plateau_factor(state.opt_state)
        of_boards = tuple(map(BoardMetrics, losses.boards, counts, stored)) if len(parts) > 1 else ()
        return state, Metrics(losses.mean, every_count, sum(stored), skipped, learning_rate, of_boards)

    if mesh is None:
        return _Program(start, iterate, learned, shapes)
    divided = state_partition(PartitionSpec(DEVICES), PartitionSpec())
    step = jax.shard_map(
        iterate,
        mesh=mesh,
        in_specs=(PartitionSpec(), divided),
        out_specs=(divided, PartitionSpec()),
        check_vma=False,
    )
    everywhere = NamedSharding(mesh, PartitionSpec())
    placement = state_partition(NamedSharding(mesh, PartitionSpec(DEVICES)), everywhere)
    init = jax.jit(start, out_shardings=_prefix_to_tree(placement, shapes))
    return _Program(init, jax.jit(step, donate_argnums=1), learned, shapes)


_remembered_functions = remembered(_functions)


class _PartOfBoard(NamedTuple):
    """What a program does with one board."""

    board: boards.Board
    network: Network  # that learns
    loss: Callable  # see `objective.make_loss`
    # (openings, key of the lanes, key of the learner) -> a first state
    start: Callable[[selfplay.Openings, jax.Array, jax.Array], Played]
    # (openings, parameters that play, what there is of the board, iteration) -> the same afterwards, and what happened
    play: Callable[[selfplay.Openings, Any, Played, jax.Array], tuple[Played, selfplay.Counts]]


def _part_of_board(
    board: boards.Board,
    config: TrainConfig,
    axis_name: str | None,
    network: OwnNetwork | None,
    search: SearchFactory | None,
    loss: objective.LossFactory | None,
    value_targets: targets.ValueTargets | None,
    own_targets: selfplay.OwnTargets | None,
) -> _PartOfBoard:
    game = board.game
    if network is None:
        learned = networks.make_network(config.network, game, axis_name=axis_name)
        played = networks.make_network(playing_config(config), game)
    else:
        learned, played = as_network(network, game, axis_name=axis_name), as_network(network, game)
    explore = (
        make_exploring_search(boards.alone(config, game), played)
        if search is None
        else search(game, make_evaluator(game, played))
    )
    choose_action = make_action_choice(config)
    teach = value_targets or make_value_targets(config)
    if loss is None:
        loss_of = objective.make_loss(game, learned, config.optimiser, axis_name)
    else:
        loss_of = loss(game, learned)

    def start(begin_with: selfplay.Openings, lane_key: jax.Array, learner_key: jax.Array) -> Played:
        lane_keys = jax.random.split(lane_key, config.selfplay.lanes)
        policy_dtype = jnp.dtype(config.replay.policy_dtype)
        lanes = selfplay.start(game, begin_with, lane_keys, policy_dtype, config.network.action_values)
        ring = replay.empty(
            _position_like(config, lanes, own_targets),
            config.replay.groups,
            config.replay.capacity // config.replay.groups,
            _games_per_group(config),
            _ended_per_group(config),
        )
        return Played(lanes, ring, jax.random.split(learner_key, config.replay.groups))

    def play(
        begin_with: selfplay.Openings, params: Params, of_board: Played, iteration: jax.Array
    ) -> tuple[Played, selfplay.Counts]:
        def now(of_board: Played) -> tuple[Played, selfplay.Counts]:
            lanes, ring, counts = selfplay.play(
                game,
                explore,
                choose_action,
                teach,
                begin_with,
                params,
                of_board.lanes,
                of_board.ring,
                config.selfplay.plies,
                config.replay.overwrite,
                own_targets,
            )
            return of_board._replace(lanes=lanes, ring=ring), counts

        if board.is_always_played:
            return now(of_board)
        return jax.lax.cond(
            board.is_played_in(iteration), now, lambda of_board: (of_board, selfplay.no_counts()), of_board
        )

    return _PartOfBoard(board, learned, loss_of, start, play)


def _with_split_keys(state: TrainState, number: int) -> tuple[Any, ...]:
    """The state with new keys of the learner, and `number` - 1 times others for each board."""
    keys, *others = zip(*(split_key(of_board.key, number) for of_board in state.played))
    return state.with_played([one._replace(key=key) for one, key in zip(state.played, keys)]), *others


def _drawn(
    config: TrainConfig, ring: replay.Ring, keys: jax.Array, places: jax.Array | None
) -> replay.AnyPosition:
    """A batch of one board, at these places [groups, count] if they are given."""
    if places is not None:
        return replay.take(ring, places)
    window = config.replay.window_games
    window = None if window is None else max(1, window // config.replay.groups)
    count = config.replay.batch_size // config.replay.groups
    return replay.sample(ring, keys, count, window, config.replay.by_game)


def _places(config: TrainConfig, ring: replay.Ring, keys: jax.Array) -> jax.Array:
    """[updates, groups, count] where the batches of an iteration stand, none twice while there are others."""
    count = config.replay.batch_size // config.replay.groups
    places = replay.shuffled(ring, keys, config.updates * count)  # [groups, ...]
    return jnp.moveaxis(places.reshape(len(places), config.updates, count), 1, 0)


class _Given:
    """What is given to a compiled program beside its state: put on the devices when it is first needed."""

    def __init__(self, value: Any, place: NamedSharding):
        self.value, self.place, self.is_there = value, place, False

    def shapes(self) -> Any:
        """For compiling, which may be for devices that are not there."""
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.asarray(leaf).dtype, sharding=self.place),
            self.value,
        )

    def arrays(self) -> Any:
        """For running."""
        if not self.is_there:
            self.value = jax.jit(_unchanged, out_shardings=self.place)(self.value)
            self.is_there = True
        return self.value


def _unchanged(value: Any) -> Any:
    return value


class _Bound:
    """A jitted, lowered or compiled function whose first argument is given.

    So the openings, which may be many megabytes, are an argument of the program and no constant in it.
    """

    def __init__(self, function: Any, given: _Given):
        self._function, self._given = function, given

    def __call__(self, *rest: Any) -> Any:
        return self._function(self._given.arrays(), *rest)

    def used_by(self, make: Callable[[Callable], Callable]) -> "_Bound":
        """A jitted function that uses this one and is given the same; it consumes its first argument, the state.

        Args:
          make: makes the function of this one, which it calls without what is given.
        """

        return _Bound(_using(self._function, make), self._given)

    def eval_shape(self, *rest: Any) -> Any:
        """As of what `jax.jit` makes."""
        return self._function.eval_shape(self._given.shapes(), *rest)

    def lower(self, *rest: Any) -> "_Bound":
        """As of what `jax.jit` makes."""
        return _Bound(self._function.lower(self._given.shapes(), *rest), self._given)

    def compile(self) -> "_Bound":
        """As of what `jax.jit` makes and was lowered."""
        return _Bound(self._function.compile(), self._given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


@remembered
def _using(used: Callable, make: Callable[[Callable], Callable]) -> Callable:
    """See `_Bound.used_by`."""

    def function(given: Any, *rest: Any) -> Any:
        return make(functools.partial(used, given))(*rest)

    return jax.jit(function, donate_argnums=1)


def with_groups_for(config: TrainConfig, devices: int) -> TrainConfig:
    """The configuration with as many groups as so many devices can share alike: its own number, or the next multiple.

    What is computed depends on the number of groups, and only to rounding on that of devices: a run that shall move
    from few devices to many has groups for the many from the beginning.

    Raises:
      ConfigError: lanes, replay and batches cannot be divided into so many groups.
    """
    groups = math.lcm(config.replay.groups, devices)
    if groups == config.replay.groups:
        return config
    return dataclasses.replace(config, replay=dataclasses.replace(config.replay, groups=groups))


def state_partition(divided: Any, replicated: Any) -> TrainState:
    """A TrainState-shaped prefix that says of each part whether it is divided among the devices."""
    return TrainState(
        params=replicated,
        average=replicated,
        opt_state=replicated,
        lanes=divided,
        ring=divided,
        key=divided,
        iteration=replicated,
        positions=replicated,
        games=replicated,
        updates=replicated,
        others=divided,
    )


def playing_copy(config: TrainConfig, params: Params) -> Params:
    """The parameters that self-play uses: the newest, in its precision."""
    if config.selfplay_dtype == "float32":
        return params
    return networks.half_copy(params, jnp.dtype(config.selfplay_dtype))


def playing_config(config: TrainConfig) -> networks.NetworkConfig:
    """The network of self-play, in its precision."""
    return dataclasses.replace(config.network, compute_dtype=config.selfplay_dtype)


def make_exploring_search(config: TrainConfig, network: Network) -> Search:
    """The search of self-play, with its noise, that asks a network of the run's game."""
    game, options = config.game, config.search
    if options.kind == "klent":
        weights = {"alpha": options.entropy_weight, "beta": options.kl_weight}
        return klent(game, make_action_evaluator(game, network), **weights)
    return search_from_config(options, game, make_evaluator(game, network), explore=True)


def make_action_choice(config: TrainConfig) -> selfplay.ChooseAction:
    """What self-play plays of what the search found."""
    options = config.selfplay

    def choose(keys, output, ply, legal):
        early = ply < options.temperature_drop
        if options.flattened_opening:
            logits = exploration.flattened_logits(output.visits, legal)
            sampled = jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)
            return jnp.where(early, sampled, output.action)
        if config.search.kind != "puct":
            return output.action  # its noise has explored already
        temperature = exploration.drop_temperature(ply, options.temperature, options.temperature_drop)
        sampled = jax.vmap(lambda k, v, t: exploration.sample_visits(k, v[None], t)[0])
        return jnp.where(early, sampled(keys, output.visits, temperature), output.action)

    return choose


def make_value_targets(config: TrainConfig) -> targets.ValueTargets:
    """What the value head learns."""
    return {
        "outcome": targets.outcome,
        "root": targets.root_value,
        "mixture": targets.mixture(config.selfplay.value_share),
        "td_lambda": targets.td_lambda(config.selfplay.value_share),
    }[config.selfplay.value_target]


def check_memory(config: TrainConfig, state: TrainState, devices: int, runs: int = 1) -> None:
    """Raises TooMuchMemoryError, which names all parts, unless so many runs of this state fit into memory."""
    nodes = config.search.evaluations  # of PUCT too, which keeps the root alone
    learned = state.params, state.average, state.opt_state
    lanes, capacity, several = config.selfplay.lanes, config.replay.capacity, len(state.played)
    under_way, rings, _ = zip(*state.played)
    trees = [
        tree.size(board.game.num_actions, lanes, nodes, False, memory.size_of(of_board.lanes.state) // lanes)
        for board, of_board in zip(config.played, state.played)
    ]
    of_each = f" for each of {several} boards" if several > 1 else ""
    parts = {
        f"search trees of {lanes:,} lanes with {nodes:,} nodes": max(trees),  # one board after the other
        f"the unfinished games of {lanes:,} lanes{of_each}": memory.size_of(under_way),
        f"a replay of {capacity:,} positions{of_each}": memory.size_of(rings),
        "the network and its optimiser": memory.size_of(learned) * devices,
    }
    listed = ", ".join(f"{name} {memory.size_text(size)}" for name, size in parts.items())
    what = "this run" if runs == 1 else f"each of {runs:,} runs"
    memory.check(sum(parts.values()) * runs, f"{what} ({listed})", devices)


def _games_per_group(config: TrainConfig) -> int:
    # One more than the window: the beginning of the oldest game must outlive it.
    return 1 if config.replay.window_games is None else config.replay.window_games // config.replay.groups + 1


def _ended_per_group(config: TrainConfig) -> int:
    """How many positions of games that end in an iteration there can be: those carried over, and those played."""
    if not config.selfplay.log:
        return 0
    return config.selfplay.lanes // config.replay.groups * (config.most_plies + config.game.max_plies)


def _position_like(
    config: TrainConfig, lanes: selfplay.Lanes, own_targets: selfplay.OwnTargets | None
) -> replay.AnyPosition:
    """One empty position, for the shapes of the ring."""
    moment = jax.tree.map(lambda column: column[0, 0], lanes.moments)
    own = None
    if own_targets is not None:
        game = jax.tree.map(lambda column: column[0], (lanes.moments, lanes.state, lanes.length))
        shapes = jax.eval_shape(own_targets, *game)
        own = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), shapes)
    needs_final = config.network.ownership or config.network.margin
    position = replay.StoredPosition(
        state=moment.state,
        policy=moment.policy,
        policy_weight=jnp.float32(0),
        value=jnp.float32(0),
        outcome=jnp.float32(0),
        final=moment.state if needs_final else None,
    )
    return replay.extended(position, getattr(moment, "action", None), own)


def _prefix_to_tree(prefix: TrainState, tree: TrainState) -> TrainState:
    return jax.tree.map(lambda one, part: jax.tree.map(lambda _: one, part), prefix, tree)
