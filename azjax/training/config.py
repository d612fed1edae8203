"""A run's configuration: frozen dataclasses that check themselves when built."""

import dataclasses
from typing import Annotated, Any, Literal

import optax

from azjax.common import checked
from azjax.common.checked import (
    Checked,
    ConfigError,
    Count,
    Decay,
    FromZero,
    Number,
    Positive,
    Rule,
    Seed,
    Share,
    SomeShare,
    above,
    at_least,
    at_most,
    check,
)
from azjax.envs import GameError, make_game
from azjax.envs.core import Game, is_game
from azjax.nn import networks
from azjax.nn.networks import NetworkConfig
from azjax.search.config import SearchConfig
from azjax.training import boards, openings
from azjax.training.boards import Board

__all__ = [
    "AnyGame",
    "ConfigError",
    "EvaluationConfig",
    "NetworkConfig",
    "OptimiserConfig",
    "ReplayConfig",
    "SearchConfig",
    "SelfplayConfig",
    "TrainConfig",
    "config_from_dict",
    "config_to_dict",
]

# Of any class, own ones included; on the command line its options are those of the default's class.
AnyGame = Annotated[Any, Rule("a game, such as azjax.make_game('hex', size=5)", is_game)]


@dataclasses.dataclass(frozen=True)
class SelfplayConfig(Checked, part="selfplay"):
    """How games are played and what is learned from them."""

    lanes: Count = 128  # games side by side
    # Moves in each lane per iteration; None: one game in each lane, to its end (Jacobsen 2019), and `replay.updates`.
    plies: Annotated[int, at_least(1), at_most(1_000_000)] | None = 16
    # of the visits, in the first moves of a game (puct; gumbel explores by itself)
    temperature: FromZero = 1.0
    temperature_drop: Number = 8  # how many moves those are; then the best move is played
    flattened_opening: bool = False  # sample the first moves from softmax(1.5 * visits) as Jacobsen 2019
    # Forced: A1, A2, A3 or A123 (all legal 1 to 3 moves, Daliri 2022), R8 (up to 8 random moves), U (any position there
    # is), a position file, NAME.jsonl, or an openings database, NAME.db, such as the winning ones of `azjax openings`.
    openings: str = "none"
    opening_share: SomeShare = 1.0  # of games that begin so; the others begin as usual
    value_target: Literal["outcome", "root", "mixture", "td_lambda"] = "outcome"  # what a value learns
    value_share: Share = 0.5  # mixture: of the search's value; td_lambda: lambda
    log: bool = False  # write down every position that is played, with its outcome, in the run's folder

    def __post_init__(self):
        super().__post_init__()
        check(openings.is_kind(self.openings), "selfplay.openings", openings.KINDS, self.openings)


@dataclasses.dataclass(frozen=True)
class ReplayConfig(Checked, part="replay"):
    """What the learner draws from."""

    capacity: Count = 65536  # positions
    window_games: Count | None = None  # draw from so many of the newest games; None: from all positions
    by_game: bool = False  # draw a game first, then a position in it
    distinct: bool = False  # an iteration draws no position again before all have come (Karki 2024)
    overwrite: SomeShare = 1.0  # the chance that a position replaces an old one in a full ring (Karki 2024)
    batch_size: Count = 256  # positions per update, over all groups
    reuse: Annotated[float, above(0), at_most(1000)] = 4.0  # how often a position is learned from, on average
    updates: Count | None = None  # steps of the optimiser per iteration; None: as many as `reuse` asks for
    warm_up: Count = 2048  # positions stored before learning starts
    # Independent parts of games and replay; a device works on one or several, and more devices make more of them.
    groups: Count = 8
    # of the policies kept; half takes half the memory
    policy_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self):
        super().__post_init__()
        check(
            self.warm_up <= self.capacity,
            "replay.warm_up",
            f"at most replay.capacity ({self.capacity:,}), or learning would never start",
            self.warm_up,
        )
        check(
            self.overwrite == 1 or self.window_games is None,
            "replay.overwrite",
            "1 with window_games: what stays would be counted as new",
            self.overwrite,
        )
        check(
            not self.distinct or self.window_games is None,
            "replay.distinct",
            "False with window_games: it draws from all positions",
            self.distinct,
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
class OptimiserConfig(Checked, part="optimiser"):
    """How the network learns."""

    name: Literal["sgd", "adam", "adamw"] = "adamw"  # of optax
    learning_rate: Positive = 2e-3  # at its highest
    decay: Literal["constant", "cosine", "steps", "boundaries", "plateau"] = "constant"  # how the rate falls
    warm_up_steps: Number = 0  # linear rise from 0
    # cosine: until the rate is 0; steps: every so many the rate falls by `step_factor`
    decay_steps: Number = 0
    boundaries: tuple[Count, ...] = ()  # boundaries: after so many steps the rate falls by `step_factor`
    plateau_steps: Count = 50  # plateau: losses are compared as means of so many steps
    # plateau: the rate falls after so many means in a row that are no new least one
    plateau_patience: Count = 5
    step_factor: FromZero = 0.1  # steps, boundaries, plateau: what the rate is multiplied by
    momentum: Decay = 0.9  # adam: b1
    second_momentum: Decay = 0.999  # adam: b2
    weight_decay: FromZero = 1e-4  # of kernels alone
    clip_norm: Positive | None = 1.0  # gradients longer than this are shortened
    # Float16: losses are multiplied by this before gradients are taken, which are divided by it in float32, or small
    # ones would be 0. Gradients that are not finite halve it, and 200 finite ones in a row double it.
    loss_scale: Positive | None = None
    value_weight: FromZero = 1.0  # of the value's loss; the policy's is 1
    ownership_weight: FromZero = 0.0  # of the ownership head's loss
    margin_weight: FromZero = 0.0  # of the margin head's loss
    action_value_weight: FromZero = 1.0  # of the loss of the head of action values
    symmetries: bool = True  # show each position turned by a random symmetry of the board
    ema: Decay = 0.0  # decay of the averaged weights used for evaluation; 0 uses the newest

    def __post_init__(self):
        super().__post_init__()
        check(
            self.decay not in ("cosine", "steps") or self.decay_steps > 0,
            "optimiser.decay_steps",
            f"above 0 with decay {self.decay!r}",
            self.decay_steps,
        )
        rising = all(one < other for one, other in zip(self.boundaries, self.boundaries[1:]))
        check(
            rising and bool(self.boundaries) == (self.decay == "boundaries"),
            "optimiser.boundaries",
            "rising numbers of steps with decay 'boundaries', and empty otherwise",
            self.boundaries,
        )

    def schedule(self, learning_rate: Any = None) -> optax.Schedule:
        """The learning rate over the updates; `learning_rate` [] may replace the configuration's."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        if self.decay == "cosine":
            after = optax.cosine_decay_schedule(rate, self.decay_steps)
        elif self.decay == "steps":
            after = optax.exponential_decay(rate, self.decay_steps, self.step_factor, staircase=True)
        elif self.decay == "boundaries":
            after = optax.piecewise_constant_schedule(rate, dict.fromkeys(self.boundaries, self.step_factor))
        else:
            after = optax.constant_schedule(rate)  # a plateau is met on the way
        if self.warm_up_steps == 0:
            return after
        rise = optax.linear_schedule(0.0, rate, self.warm_up_steps)
        return optax.join_schedules([rise, after], [self.warm_up_steps])


@dataclasses.dataclass(frozen=True)
class EvaluationConfig(Checked, part="evaluation"):
    """How a run is judged while it goes on; it changes nothing in the run."""

    every: Count = 20  # iterations between two judgements
    pairs: Count = 32  # openings per match, each played with both colours
    random_plies: Number = 2  # moves of an opening, drawn at random
    simulations: Count = 64  # of the agent
    uct_simulations: Count = 200  # of the UCT opponent
    truth: bool = True  # also compare with exact solutions, where a solver fits the board


@dataclasses.dataclass(frozen=True)
class TrainConfig(Checked):
    """A whole run."""

    game: AnyGame  # the rules and the board
    # Other boards that the same weights learn, by their sizes, such as 5 6@100 (from iteration 100) or 2x3@1-300 (until
    # iteration 300), and the game's own to say when it is played. Lanes, replay and batches are those of each board.
    boards: tuple[str, ...] = ()
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)  # what it looks like
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)  # of self-play
    selfplay: SelfplayConfig = SelfplayConfig()  # how games are played
    replay: ReplayConfig = ReplayConfig()  # what is learned from
    optimiser: OptimiserConfig = OptimiserConfig()  # how it is learned
    evaluation: EvaluationConfig = EvaluationConfig()  # how it is judged meanwhile
    selfplay_dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # of the copy that plays
    iterations: Count = 100  # how long the run goes on
    save_every: Count = 20  # iterations between two checkpoints
    seed: Seed = 0  # of all draws

    def __post_init__(self):
        super().__post_init__()
        groups = self.replay.groups
        check(
            self.selfplay.lanes % groups == 0,
            "selfplay.lanes",
            f"a multiple of replay.groups ({groups})",
            self.selfplay.lanes,
        )
        check(
            self.selfplay.plies is not None or self.replay.updates is not None,
            "replay.updates",
            "given where selfplay.plies is None: nobody knows how long games will be",
            None,
        )
        self._check_boards()
        longest = max(board.game.max_plies for board in self.played)
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
        if self.search.kind == "klent":
            check(
                self.network.action_values,
                "network.action_values",
                "True with search.kind 'klent', which improves the policy by them",
                self.network.action_values,
            )
            check(
                self.selfplay.value_target in ("outcome", "td_lambda"),
                "selfplay.value_target",
                "'td_lambda' or 'outcome' with search.kind 'klent': nothing else would bring in the truth",
                self.selfplay.value_target,
            )
            check(
                not self.selfplay.flattened_opening,
                "selfplay.flattened_opening",
                "False with search.kind 'klent', which has no visits",
                True,
            )

    def _check_boards(self) -> None:
        if not self.boards:
            return
        try:
            boards.in_order(self.boards, self.game)
        except ValueError as error:
            raise ConfigError(f"boards: {error}") from error
        dense = self.network.tower in networks.TOWERS and self.network.heads == "dense"
        check(
            not dense,
            "network.heads",
            "'convolutional' with boards: dense heads are made for one board",
            self.network.heads,
        )
        check(
            openings.parse_kind(self.selfplay.openings).name != "file",
            "selfplay.openings",
            "none, A1 to A123, R8 or U with boards: a file has positions of one board",
            self.selfplay.openings,
        )
        check(not self.selfplay.log, "selfplay.log", "False with boards: the log is of one board", True)

    @property
    def played(self) -> tuple[Board, ...]:
        """The boards and when they are played, the game's own first."""
        return boards.in_order(self.boards, self.game)

    @property
    def most_plies(self) -> int:
        """Moves in each lane per iteration; where games are played to their ends, the most there can be."""
        return self.game.max_plies if self.selfplay.plies is None else self.selfplay.plies

    @property
    def updates(self) -> int:
        """Steps of the optimiser per iteration."""
        if self.replay.updates is not None:
            return self.replay.updates
        played = self.selfplay.lanes * self.most_plies
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


def config_from_dict(fields: Any, kind: type = TrainConfig) -> Any:
    """The configuration of class `kind` that `config_to_dict` described.

    Raises:
      ConfigError: names the field that is unknown, missing or wrong.
    """
    return checked.build(kind, fields, "the configuration", {"game": _game_from_dict})


def _game_from_dict(fields: Any) -> Game:
    check(
        isinstance(fields, dict) and isinstance(fields.get("name"), str),
        "game",
        "an object with a name",
        fields,
    )
    try:
        return make_game(**fields)
    except GameError as error:
        raise ConfigError(f"game: {error}") from error
