"""What a learner is, and the settings that all learners share."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import tyro

from azjax.agents import make_agent
from azjax.agents.core import Act
from azjax.config import AnyGame, check
from azjax.envs import Hex
from azjax.layers import Params
from azjax.learners.games import ViewName
from azjax.networks import Network, NetworkConfig, make_network


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """What TD and ES runs have in common; the shape of the protocol is that of Kromann and Bennetsen 2019."""

    game: Annotated[AnyGame, tyro.conf.arg(name="")]
    network: Literal["dense", "tower"] = "dense"  # theirs, for Hex alone, or a tower of azjax
    hidden: tuple[int, ...] = (80, 40)  # dense: units of the hidden layers
    activation: Literal["relu", "tanh", "linear"] = "relu"  # dense
    bias: bool = False  # dense: theirs had none
    tower: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    view: ViewName = "transpose"  # rotation is no symmetry, and theirs
    opponent: str = "self"  # in training: self, previous (of the last point), or an agent such as uct:50
    sessions: int = 1  # independent runs side by side, each from its own start
    iterations: int = 100  # points; each is `every` steps and an evaluation
    every: int = 20  # steps between two points; theirs were 100
    evaluation_games: int = 100  # against random, and as many against the previous point
    save_every: int = 10  # points between two checkpoints
    seed: int = 0

    def __post_init__(self):
        for field in ("sessions", "iterations", "every", "evaluation_games", "save_every"):
            check(getattr(self, field) >= 1, field, "at least 1", getattr(self, field))
        check(
            len(self.hidden) > 0 and min(self.hidden) > 0, "hidden", "positive numbers of units", self.hidden
        )
        if self.network == "dense":
            check(isinstance(self.game, Hex), "network", "'tower' for games other than Hex", self.network)


class Learner(NamedTuple):
    """One session of a method as pure functions."""

    init: Callable[[jax.Array], Any]  # key -> state
    # (state, previous point's parameters, key) -> (state, named numbers to report)
    step: Callable[[Any, Params, jax.Array], tuple[Any, dict[str, jax.Array]]]
    params: Callable[[Any], Params]  # of the agent that a state has learned
    act: Act  # that agent, as it is judged and as it plays
    games_a_step: int


def network_of(config: LearnerConfig, dense: Callable[..., Network]) -> Network:
    """The network of a run: `dense` (one of `thesis_networks`) or a tower."""
    if config.network == "tower":
        return make_network(config.tower, config.game)
    return dense(config.game, config.hidden, config.activation, config.bias)


def training_opponent(config: LearnerConfig, agent: Act) -> Callable[[Params], Act] | None:
    """Whom the learner meets in training, given the previous point's parameters; None for itself."""
    if config.opponent == "self":
        return None
    if config.opponent == "previous":
        return lambda previous: lambda params, key, states: agent(previous, key, states)
    fixed = make_agent(config.opponent, config.game)
    if fixed.on_host:
        raise ValueError(
            f"opponent must be an agent that can be compiled, {config.opponent} plays on the host"
        )
    return lambda previous: lambda params, key, states: fixed.act(fixed.params, key, states)
