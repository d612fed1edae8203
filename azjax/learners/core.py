"""What a learner is, and the settings that all learners share."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import tyro

from azjax.common import memory
from azjax.common.agent import Act, Agent
from azjax.common.checked import Checked, Count, Seed, between, check
from azjax.envs.core import Game
from azjax.learners.games import ViewName, has_stone_planes
from azjax.nn.layers import Params
from azjax.nn.networks import Network, NetworkConfig, make_network
from azjax.training.config import AnyGame

MakeOpponent = Callable[[str, Game], Agent]
"""(text, game) -> the agent that the text names, such as `azjax.agents.make_agent`."""


@dataclasses.dataclass(frozen=True)
class LearnerConfig(Checked):
    """What TD and ES runs have in common; the shape of the protocol is that of Kromann and Bennetsen 2019."""

    game: Annotated[AnyGame, tyro.conf.arg(name="")]
    network: Literal["dense", "tower"] = "dense"  # theirs, for stones as in Hex, or a tower of azjax
    # dense: units of the hidden layers
    hidden: tuple[Annotated[int, between(1, 2**16)], ...] = (80, 40)
    activation: Literal["relu", "tanh", "linear"] = "relu"  # dense
    bias: bool = False  # dense: theirs had none
    tower: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    view: ViewName = "transpose"  # rotation is no symmetry, and theirs
    opponent: str = "self"  # in training: self, previous (of the last point), or an agent such as uct:50
    sessions: Count = 1  # independent runs side by side, each from its own start
    iterations: Count = 100  # points; each is `every` steps and an evaluation
    every: Count = 20  # steps between two points; theirs were 100
    evaluation_games: Count = 100  # against random, and as many against the previous point
    save_every: Count = 10  # points between two checkpoints
    seed: Seed = 0  # of all draws

    def __post_init__(self):
        super().__post_init__()
        check(
            1 <= len(self.hidden) <= 100,
            "hidden",
            "positive numbers of units of up to 100 layers",
            self.hidden,
        )
        if self.network == "dense":
            check(
                has_stone_planes(self.game),
                "network",
                f"'tower' for {self.game.name}, which has no planes of stones as Hex has",
                self.network,
            )


class Learner(NamedTuple):
    """One session of a method as pure functions."""

    init: Callable[[jax.Array], Any]  # key -> state
    # (state, previous point's parameters, key) -> (state, named numbers to report)
    step: Callable[[Any, Params, jax.Array], tuple[Any, dict[str, jax.Array]]]
    params: Callable[[Any], Params]  # of the agent that a state has learned
    act: Act  # that agent, as it is judged and as it plays
    games_per_step: int


def network_of(config: LearnerConfig, dense: Callable[..., Network]) -> Network:
    """The network of a run: `dense` (one of `azjax.theses.kromann2019`) or a tower."""
    if config.network == "tower":
        network = make_network(config.tower, config.game)
    else:
        network = dense(config.game, config.hidden, config.activation, config.bias)
    weights = memory.size_of(jax.eval_shape(network.init, jax.random.key(0)))
    memory.check(config.sessions * weights, f"the networks of {config.sessions:,} sessions")
    return network


def training_opponent(
    config: LearnerConfig, agent: Act, make_opponent: MakeOpponent | None
) -> Callable[[Params], Act] | None:
    """Whom the learner meets in training, given the previous point's parameters; None for itself.

    Args:
      config: names the opponent.
      agent: how the learner plays when it is judged.
      make_opponent: makes an opponent that is another agent; only needed for those.
    """
    if config.opponent == "self":
        return None
    if config.opponent == "previous":
        return lambda previous: lambda params, key, states: agent(previous, key, states)
    if make_opponent is None:
        raise ValueError(
            f"opponent {config.opponent} is an agent, and nothing was given to make it with; give make_opponent,"
            " such as azjax.agents.make_agent"
        )
    fixed = make_opponent(config.opponent, config.game)
    if fixed.on_host:
        raise ValueError(
            f"opponent must be an agent that can be compiled, {config.opponent} plays on the host"
        )
    return lambda previous: lambda params, key, states: fixed.act(fixed.params, key, states)
