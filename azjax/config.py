"""A run's configuration: frozen dataclasses that check themselves when built."""

import dataclasses
import typing
from typing import Any, Literal

import optax

from azjax import openings
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, PgxGame, make
from azjax.networks import NetworkConfig

AnyGame = Hex | ChineseCheckers | DotsAndBoxes | PgxGame


class ConfigError(ValueError):
    """A setting that makes no sense; the message names the field and what is allowed."""


def check(condition: bool, field: str, allowed: str, value: Any) -> None:
    """Raises ConfigError, which names the field, unless the condition holds."""
    if not condition:
        raise ConfigError(f"{field} must be {allowed}, got {value!r}")


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """How self-play looks ahead."""

    kind: Literal["gumbel", "puct"] = "gumbel"
    simulations: int = 16
    quick_simulations: int = 0  # playout cap: the simulations of most moves; 0 searches all moves in full
    full_share: float = 1.0  # playout cap: how often a full search is made
    considered_actions: int = 16  # gumbel: root actions that enter the sequential halving
    c: float = 1.25  # puct: the exploration constant
    c_base: float | None = None  # puct: the scale on which c grows; None keeps it constant
    formula: Literal["alphazero", "sqrt_ratio"] = "alphazero"  # puct: see `azjax.search.reusing_puct`
    dirichlet_alpha: float | None = None  # puct: root noise; None for 1 / number of legal moves
    dirichlet_fraction: float = 0.25  # puct: its share of the prior
    evaluate_terminals_with_network: bool = False  # puct: category A of Jacobsen 2019

    def __post_init__(self):
        check(self.simulations >= 1, "search.simulations", "at least 1", self.simulations)
        check(self.quick_simulations >= 0, "search.quick_simulations", "at least 0", self.quick_simulations)
        check(0 <= self.full_share <= 1, "search.full_share", "between 0 and 1", self.full_share)
        check(
            self.considered_actions >= 1, "search.considered_actions", "at least 1", self.considered_actions
        )
        check(
            0 <= self.dirichlet_fraction <= 1,
            "search.dirichlet_fraction",
            "between 0 and 1",
            self.dirichlet_fraction,
        )
        check(
            self.full_share == 1 or self.quick_simulations > 0,
            "search.quick_simulations",
            "above 0 where full_share is below 1",
            self.quick_simulations,
        )
        check(
            self.kind == "puct" or not self.evaluate_terminals_with_network,
            "search.evaluate_terminals_with_network",
            "False unless kind is 'puct'",
            self.evaluate_terminals_with_network,
        )


@dataclasses.dataclass(frozen=True)
class SelfplayConfig:
    """How games are played and what is learned from them."""

    lanes: int = 128  # games side by side
    plies: int = 16  # moves in each lane an iteration
    temperature: float = 1.0  # of the visits, in the first moves of a game (puct; gumbel explores by itself)
    temperature_drop: int = 8  # how many moves those are; then the best move is played
    flattened_opening: bool = False  # sample the first moves from softmax(1.5 * visits) as Jacobsen 2019
    # Forced: A1, A2, A3 or A123 (all legal 1 to 3 moves, Daliri 2022), R8 (up to 8 random moves), U (any position there
    # is), or a position file, NAME.jsonl, such as the winning openings of `azjax openings`.
    openings: str = "none"
    opening_share: float = 1.0  # of games that begin so; the others begin as usual
    value_target: Literal["outcome", "root", "mixture", "td_lambda"] = "outcome"  # what a value learns
    value_share: float = 0.5  # mixture: of the search's value; td_lambda: lambda

    def __post_init__(self):
        check(self.lanes >= 1, "selfplay.lanes", "at least 1", self.lanes)
        check(self.plies >= 1, "selfplay.plies", "at least 1", self.plies)
        check(openings.is_kind(self.openings), "selfplay.openings", openings.KINDS, self.openings)
        check(self.temperature >= 0, "selfplay.temperature", "at least 0", self.temperature)
        check(
            0 < self.opening_share <= 1,
            "selfplay.opening_share",
            "above 0 and at most 1",
            self.opening_share,
        )
        check(0 <= self.value_share <= 1, "selfplay.value_share", "between 0 and 1", self.value_share)


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """What the learner draws from."""

    capacity: int = 65536  # positions
    window_games: int | None = None  # draw from so many of the newest games; None: from all positions
    by_game: bool = False  # draw a game first, then a position in it
    overwrite: float = 1.0  # the chance that a position replaces an old one in a full ring (Karki 2024)
    batch_size: int = 256
    reuse: float = 4.0  # how often a position is learned from, on average
    warm_up: int = 2048  # positions stored before learning starts
    groups: int = 8  # independent parts of games and replay; a device works on one or several

    def __post_init__(self):
        check(self.capacity >= 1, "replay.capacity", "at least 1", self.capacity)
        check(self.batch_size >= 1, "replay.batch_size", "at least 1", self.batch_size)
        check(self.reuse > 0, "replay.reuse", "above 0", self.reuse)
        check(self.warm_up >= 1, "replay.warm_up", "at least 1", self.warm_up)
        check(self.groups >= 1, "replay.groups", "at least 1", self.groups)
        check(0 < self.overwrite <= 1, "replay.overwrite", "above 0 and at most 1", self.overwrite)
        check(
            self.overwrite == 1 or self.window_games is None,
            "replay.overwrite",
            "1 with window_games: what stays would be counted as new",
            self.overwrite,
        )
        for field in ("capacity", "batch_size"):
            value = getattr(self, field)
            check(value % self.groups == 0, f"replay.{field}", f"a multiple of groups ({self.groups})", value)
        check(
            not self.by_game or self.window_games is not None,
            "replay.window_games",
            "given with by_game",
            None,
        )


@dataclasses.dataclass(frozen=True)
class OptimiserConfig:
    """How the network learns."""

    name: Literal["sgd", "adam", "adamw"] = "adamw"
    learning_rate: float = 2e-3
    decay: Literal["constant", "cosine", "steps"] = "constant"
    warm_up_steps: int = 0  # linear rise from 0
    decay_steps: int = 0  # cosine: until the rate is 0; steps: every so many the rate falls by `step_factor`
    step_factor: float = 0.1
    momentum: float = 0.9  # adam: b1
    second_momentum: float = 0.999  # adam: b2
    weight_decay: float = 1e-4  # of kernels alone
    clip_norm: float | None = 1.0  # gradients longer than this are shortened
    value_weight: float = 1.0
    ownership_weight: float = 0.0
    margin_weight: float = 0.0
    symmetries: bool = True  # show each position turned by a random symmetry of the board
    ema: float = 0.0  # decay of the averaged weights used for evaluation; 0 uses the newest

    def __post_init__(self):
        check(self.learning_rate > 0, "optimiser.learning_rate", "above 0", self.learning_rate)
        check(0 <= self.momentum < 1, "optimiser.momentum", "at least 0 and below 1", self.momentum)
        check(0 <= self.ema < 1, "optimiser.ema", "at least 0 and below 1", self.ema)
        check(self.weight_decay >= 0, "optimiser.weight_decay", "at least 0", self.weight_decay)
        check(
            self.decay == "constant" or self.decay_steps > 0,
            "optimiser.decay_steps",
            f"above 0 with decay {self.decay!r}",
            self.decay_steps,
        )

    def schedule(self) -> optax.Schedule:
        """The learning rate over the updates."""
        if self.decay == "cosine":
            after = optax.cosine_decay_schedule(self.learning_rate, self.decay_steps)
        elif self.decay == "steps":
            after = optax.exponential_decay(
                self.learning_rate, self.decay_steps, self.step_factor, staircase=True
            )
        else:
            after = optax.constant_schedule(self.learning_rate)
        if self.warm_up_steps == 0:
            return after
        rise = optax.linear_schedule(0.0, self.learning_rate, self.warm_up_steps)
        return optax.join_schedules([rise, after], [self.warm_up_steps])


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
    """How a run is judged while it goes on; it changes nothing in the run."""

    every: int = 20  # iterations between two judgements
    pairs: int = 32  # openings a match, each played with both colours
    random_plies: int = 2  # moves of an opening, drawn at random
    simulations: int = 64  # of the agent
    uct_simulations: int = 200  # of the UCT opponent
    truth: bool = True  # also compare with exact solutions, where a solver fits the board

    def __post_init__(self):
        for field in ("every", "pairs", "simulations", "uct_simulations"):
            check(getattr(self, field) >= 1, f"evaluation.{field}", "at least 1", getattr(self, field))
        check(self.random_plies >= 0, "evaluation.random_plies", "at least 0", self.random_plies)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    game: AnyGame
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    search: SearchConfig = SearchConfig()
    selfplay: SelfplayConfig = SelfplayConfig()
    replay: ReplayConfig = ReplayConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    selfplay_dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # of the copy that plays
    iterations: int = 100  # how long the run goes on
    save_every: int = 20  # iterations between two checkpoints
    seed: int = 0

    def __post_init__(self):
        groups = self.replay.groups
        check(
            self.selfplay.lanes % groups == 0,
            "selfplay.lanes",
            f"a multiple of replay.groups ({groups})",
            self.selfplay.lanes,
        )
        check(self.iterations >= 1, "iterations", "at least 1", self.iterations)
        check(self.save_every >= 1, "save_every", "at least 1", self.save_every)
        longest = self.game.max_plies
        check(
            self.replay.capacity // groups >= longest,
            "replay.capacity",
            f"at least replay.groups times the longest game ({groups * longest})",
            self.replay.capacity,
        )
        for head, answer in (("ownership", "ownership"), ("margin", "final_margin")):
            check(
                not getattr(self.network, head) or hasattr(self.game, answer),
                f"network.{head}",
                f"False for {self.game.name}, which knows nothing to teach it",
                getattr(self.network, head),
            )
        if self.search.evaluate_terminals_with_network:
            check(
                self.selfplay.value_target == "outcome",
                "selfplay.value_target",
                "'outcome' where the network evaluates terminals: nothing else would bring in the truth",
                self.selfplay.value_target,
            )

    @property
    def updates(self) -> int:
        """Steps of the optimiser an iteration."""
        played = self.selfplay.lanes * self.selfplay.plies
        return max(1, round(self.replay.reuse * played / self.replay.batch_size))


def config_to_dict(config: Any) -> dict[str, Any]:
    """A configuration with a field `game`, such as TrainConfig, as plain data for JSON."""
    fields = {
        field.name: dataclasses.asdict(getattr(config, field.name))
        if dataclasses.is_dataclass(getattr(config, field.name))
        else getattr(config, field.name)
        for field in dataclasses.fields(config)
    }
    fields["game"] = {"name": config.game.name} | fields["game"]
    return fields


def config_from_dict(fields: dict[str, Any], kind: type = TrainConfig) -> Any:
    """The configuration of class `kind` that `config_to_dict` described."""
    hints = typing.get_type_hints(kind)
    built = {}
    for name, value in fields.items():
        if name == "game":
            options = dict(value)
            built[name] = make(options.pop("name"), **options).game
        elif dataclasses.is_dataclass(hints[name]):
            built[name] = hints[name](**value)
        else:
            built[name] = tuple(value) if isinstance(value, list) else value  # JSON knows no tuples
    return kind(**built)
