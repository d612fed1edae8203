"""The gated loop of Peters 2018: make samples, learn from them, and keep the new network only if it holds its own.

An iteration has three parts. The best network so far makes samples, with a search each. The learner goes through the
newest samples some times. Then the contender meets the best in a match, and takes its place if it wins enough games;
without games it always does. It is what AlphaGo Zero did, one part after the other.

The learner is the supervised one (`azjax.learners.supervised`) and the loop around it the one of all learners. How
samples are made and matches are played is handed in: `azjax.evaluation.gated_dots` has both for Dots and Boxes. Both
are asked with a key that depends on the seed and the iteration alone, so that a run that was killed resumes to the
same bits.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from azjax.common import keys
from azjax.common.checked import Checked, Count, Number, Seed, Share, at_least, check
from azjax.envs.core import GameState
from azjax.learners import supervised
from azjax.learners.supervised import GROUPS, SupervisedConfig, SupervisedState
from azjax.nn.networks import NetworkConfig, Params
from azjax.positions import labelled as labels
from azjax.positions.labelled import Labelled
from azjax.theses import peters2018
from azjax.training import checkpoint, loop
from azjax.training.config import AnyGame, OptimiserConfig, SearchConfig


@dataclasses.dataclass(frozen=True)
class GatedConfig(Checked):
    """A gated run; the defaults are those of Peters 2018, "New Strategies"."""

    game: Annotated[AnyGame, tyro.conf.arg(name="")]
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    optimiser: OptimiserConfig = dataclasses.field(default_factory=OptimiserConfig)
    search: SearchConfig = dataclasses.field(
        default_factory=lambda: SearchConfig(kind="puct", simulations=1000)
    )
    # positions: one search in each of so many positions out of a teacher's games; games: games of the search itself.
    generate: Literal["positions", "games"] = "positions"
    teacher: str = "medium"  # positions: whose games; hard, or any other agent
    mean: Share = 0.5  # positions: of the lines that are left; see `azjax.agents.dots_data`
    spread: Share = 0.125  # positions: their standard deviation
    turns: bool = False  # the search looks at whole turns; see `azjax.solvers.dots.turns`
    # what a policy learns: the search's move, or all its visits
    policy_target: Literal["move", "visits"] = "move"
    # What a value learns: the search's value of the position (root) or of its move (move), or how the game ended.
    value_target: Literal["root", "move", "outcome"] = "move"
    samples: Count = 512  # made in an iteration
    window: Count = 512  # the newest samples, which are learned from; more than `samples`: they add up
    epochs: Count = 5  # how often an iteration goes through them
    batch_size: Annotated[Count, at_least(GROUPS)] = 16
    # what the learner changes: the best network, or its own last one
    go_on_from: Literal["best", "last"] = "last"
    gate_games: Number = 1000  # of a match between contender and best; 0 accepts every contender
    accept: Share = 0.5  # the share of games that a contender must win; draws are not won
    iterations: Count = 20
    save_every: Count = 1  # iterations between two checkpoints
    seed: Seed = 0

    def __post_init__(self):
        super().__post_init__()
        check(
            self.window % self.samples == 0, "window", f"a multiple of samples ({self.samples})", self.window
        )
        check(self.gate_games % 2 == 0, "gate_games", "an even number, half for each colour", self.gate_games)
        check(
            self.value_target != "outcome" or self.generate == "games",
            "value_target",
            "'root' or 'move' where no game is played to its end",
            self.value_target,
        )
        self.learning  # noqa: B018  checks the rest

    @property
    def learning(self) -> SupervisedConfig:
        """The learner's own configuration: an iteration of it goes through as many samples as one of ours makes."""
        return SupervisedConfig(
            game=self.game,
            network=self.network,
            optimiser=self.optimiser,
            search=self.search,
            data="samples",
            positions=self.samples,
            batch_size=self.batch_size,
            held_out=0.0,
            iterations=self.iterations,
            save_every=self.save_every,
            seed=self.seed,
        )


Generate = Callable[[Params, jax.Array], Labelled]
"""(the best network, key) -> `samples` positions with values, and policies as float32."""

Gate = Callable[[Params, Params, jax.Array], tuple[int, int]]
"""(contender, best, key) -> games that the contender won, and games in all."""


class GatedState(NamedTuple):
    """All there is of a run."""

    best: Params
    learner: SupervisedState  # with the contender
    states: GameState  # [window, ...] positions, the newest at the end
    value: jax.Array  # [window]
    policy: jax.Array  # [window, actions]
    filled: jax.Array  # [] int32, how many of them there are, at the end
    accepted: jax.Array  # [] int32, contenders that became the best
    iteration: jax.Array  # [] int32


class Measured(NamedTuple):
    """What an iteration reports."""

    iteration: int
    losses: Any  # means over the last part of the last epoch
    wins: int
    games: int
    accepted: bool
    accepted_so_far: int
    learned: int  # positions, every time they were learned from


def train(
    config: GatedConfig,
    out: str | os.PathLike,
    generate: Generate,
    gate: Gate,
    *,
    init_from: str | os.PathLike | None = None,
    resume: bool = False,
    watch: Callable[[dict[str, Any]], None] = lambda row: None,
    say: Callable[[str], None] = print,
) -> checkpoint.Run:
    """Goes on until `config.iterations` are done, or until interrupted; either way everything is saved.

    Args:
      config: the run.
      out: its folder; see `azjax.training.checkpoint`. Its agents are the best network of each save.
      generate: makes samples.
      gate: plays the match; not asked where `gate_games` is 0.
      init_from: a run's folder or an agent.npz whose weights a new run begins with, such as a supervised one.
      resume: continue what is there, from the newest checkpoint that is whole.
      watch: called with the row of every iteration.
      say: receives lines for people.
    """
    begun_with = {} if init_from is None else {"init_from": str(init_from)}
    return loop.train(
        lambda own: make_learning(own, generate, gate, init_from),
        config,
        out,
        resume=resume,
        begun_with=checkpoint.read_about(out) if resume else begun_with,
        watch=watch,
        say=say,
    )


def make_learning(
    config: GatedConfig, generate: Generate, gate: Gate, init_from: str | os.PathLike | None = None
) -> loop.Learning:
    """The run as the loop sees it; nothing is compiled or allocated yet. For the arguments see `train`."""
    shown = [_nothing(config, config.samples)]  # what the learner is shown next
    inner = supervised.make_learning(
        config.learning, supervised.Data(lambda iteration: shown[0], None), None, init_from
    )
    root = keys.root(config.seed, "training")
    streams = {name: keys.stream(root, name) for name in ("samples", "order", "gate")}

    def init() -> GatedState:
        learner = inner.init()
        empty = _nothing(config, config.window)
        zero = jnp.int32(0)
        return GatedState(
            best=jax.tree.map(jnp.copy, learner.params),
            learner=learner,
            states=jax.tree.map(jnp.asarray, empty.states),
            value=jnp.asarray(empty.value),
            policy=jnp.asarray(empty.policy),
            filled=zero,
            accepted=zero,
            iteration=zero,
        )

    def warm_start(state: GatedState) -> GatedState:
        learner = inner.warm_start(state.learner)
        return state._replace(learner=learner, best=jax.tree.map(jnp.copy, learner.params))

    def compile_learner(state: GatedState) -> tuple[Callable, str]:
        learn, about = inner.compile(state.learner)
        fresh = inner.init().opt_state

        def iterate(state: GatedState, count: int) -> tuple[GatedState, Measured]:
            del count  # always one: see `Learning.most`
            number = int(state.iteration)
            key = {name: jax.random.fold_in(stream, number) for name, stream in streams.items()}
            best = jax.device_get(state.best)
            state = _remember(state, generate(best, key["samples"]))
            learner = state.learner
            if config.go_on_from == "best":
                learner = learner._replace(
                    params=jax.tree.map(jnp.copy, state.best), opt_state=jax.tree.map(jnp.copy, fresh)
                )
            known = _known(state)
            losses, learned = None, 0
            for numbers in _orders(config, known.size, key["order"]):
                shown[0] = labels.rows(known, numbers)
                learner, measured = learn(learner, 1)
                losses, learned = measured.losses, learned + len(numbers)
            contender = jax.device_get(learner.params)
            wins, games = gate(contender, best, key["gate"]) if config.gate_games else (0, 0)
            accepted = wins >= config.accept * games
            state = state._replace(
                best=jax.tree.map(jnp.copy, learner.params) if accepted else state.best,
                learner=learner,
                accepted=state.accepted + accepted,
                iteration=state.iteration + 1,
            )
            so_far = int(state.accepted)
            return state, Measured(number + 1, losses, wins, games, accepted, so_far, learned)

        return iterate, about

    def export(run: checkpoint.Run, iteration: int, shown: tuple[Params, Params]) -> None:
        agents = checkpoint.Run(run.path, supervised.as_trained(config.learning))
        agents.save_agent(iteration, shown[0])

    return loop.Learning(
        unit="iteration",
        init=init,
        compile=compile_learner,
        rows=lambda measured, count: [metrics_row(config, measured)],
        shown=lambda state: (state.best, state.learner.params),
        judge=lambda shown, row: {},
        weights=lambda shown: shown,
        export=export,
        counted="positions_learned",
        rate="positions_per_second",
        remedy="a lower --optimiser.learning-rate",
        warm_start=warm_start,
    )


def metrics_row(config: GatedConfig, measured: Measured) -> dict[str, Any]:
    """One line of metrics.jsonl."""
    return {
        "iteration": int(measured.iteration),
        "samples": int(measured.iteration) * config.samples,
        "positions_learned": int(measured.learned),
        "loss": {name: float(value) for name, value in measured.losses._asdict().items()},
        "gate_wins": int(measured.wins),
        "gate_games": int(measured.games),
        "accepted": bool(measured.accepted),
        "accepted_so_far": int(measured.accepted_so_far),
    }


def _nothing(config: GatedConfig, number: int) -> Labelled:
    like = jax.eval_shape(config.game.init, jax.random.key(0))
    states = jax.tree.map(lambda leaf: np.zeros((number, *leaf.shape), leaf.dtype), like)
    policy = np.zeros((number, config.game.num_actions), np.float32)
    return Labelled(states, np.zeros(number, np.float32), policy)


def _remember(state: GatedState, new: Labelled) -> GatedState:
    """The state with new samples in the place of the oldest."""

    def shifted(old: jax.Array, added: np.ndarray) -> jax.Array:
        return jnp.concatenate([old[len(added) :], jnp.asarray(added, old.dtype)])

    return state._replace(
        states=jax.tree.map(shifted, state.states, new.states),
        value=shifted(state.value, new.value),
        policy=shifted(state.policy, new.policy),
        filled=jnp.minimum(state.filled + new.size, len(state.value)),
    )


def _known(state: GatedState) -> Labelled:
    known = jax.device_get(Labelled(state.states, state.value, state.policy))
    return labels.rows(known, slice(len(known.value) - int(state.filled), None))


def _orders(config: GatedConfig, number: int, key: jax.Array) -> list[np.ndarray]:
    """The rows to learn from, `samples` at a time: all of them, in another order in each epoch."""
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    epochs = [random.permutation(number) for _ in range(config.epochs)]
    return [part for epoch in epochs for part in np.split(epoch, number // config.samples)]


def of_peters2018(
    rows: int, columns: int, *, teacher: str, turns: bool, simulations: int, iterations: int
) -> GatedConfig:
    """The self-play of Peters 2018: 512 samples per iteration, one search each, from the last contender on."""
    thesis = peters2018.config(rows, columns, iterations)
    return GatedConfig(
        game=thesis.game,
        network=thesis.network,
        optimiser=thesis.optimiser,
        search=dataclasses.replace(thesis.search, simulations=simulations),
        teacher=teacher,
        turns=turns,
        iterations=iterations,
    )


PETERS2018 = {
    "new-strategies": functools.partial(
        of_peters2018, 3, 3, teacher="medium", turns=False, simulations=1000, iterations=20
    ),
    "competition-sp": functools.partial(
        of_peters2018, 4, 5, teacher="hard", turns=True, simulations=1500, iterations=32
    ),
    "competition-spv2": functools.partial(
        of_peters2018, 4, 5, teacher="hard", turns=False, simulations=1000, iterations=32
    ),
}
"""The runs of Peters 2018, by name; the thesis leaves the board of the last two open."""
