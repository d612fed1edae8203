"""Data to learn Dots and Boxes from: positions out of games of a teacher, with its moves and results (Peters 2018).

A recipe says how; there is one for each generator of the thesis:

    first-try        a position after a random number of the teacher's moves, and its next move
    stage-one        the same, on boards that begin with a safe fill; one in ten of the positions follows a random move
    stage-two        as stage-one (the thesis only stores it in another way)
    stage-three      as first-try, with the result from there on
    stage-four       the same, where the lines that are left are drawn from a normal distribution
    basic-strategy   on safe fills, half of them with one random move instead of the teacher's; while there are safe
                     lines and nothing can be captured, all safe lines are good
    sequence         whole games, a row per move
    training-sequence  whole games, with the good lines of basic-strategy

A value is the margin at the end, own boxes minus the other's, divided by a share of all boxes and cut off at -1 and 1.

A teacher is any agent. Rule-based players play in compiled loops (`azjax.agents.dots_games`); others, such as
`optimal`, move by move. Samples come in chunks that depend on the recipe's seed and their number alone.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.agents import dots_games
from azjax.common import keys, memory
from azjax.common.agent import Agent
from azjax.common.checked import Checked, Positive, Seed, Share, between, check
from azjax.envs.core import random_action
from azjax.envs.dots_and_boxes import (
    DotsAndBoxes,
    DotsAndBoxesState,
    box_sides,
    peters_lines,
    strings_and_coins,
)
from azjax.positions.labelled import Labelled, concatenate, rows

CHUNK = 8192  # samples made at a time
_WITH_VALUES = ("stage-three", "stage-four")
_FILLED = ("stage-one", "stage-two", "basic-strategy")
_WHOLE = ("sequence", "training-sequence")
_ALL_SAFE = ("basic-strategy", "training-sequence")

Kind = Literal[
    "first-try",
    "stage-one",
    "stage-two",
    "stage-three",
    "stage-four",
    "basic-strategy",
    "sequence",
    "training-sequence",
]


@dataclasses.dataclass(frozen=True)
class Recipe(Checked):
    """How samples are made; the defaults are those of Peters 2018."""

    kind: Kind = "stage-four"  # how the positions come about, as in Peters 2018
    teacher: str = "hard"  # whose games: easy, medium, hard, or any other agent
    mean: Share = 0.5  # stage-four: of the lines that are left, as a share of all but two
    spread: Annotated[float, between(0, 10)] = 0.125  # stage-four: their standard deviation, likewise
    # The result is the margin divided by this share of all boxes; None for 0.8 with stage-three, because even good play
    # gives some boxes away, and 1 with stage-four.
    divisor: Positive | None = None
    random_share: Share = 0.1  # stage-one, stage-two: of the positions that follow a random move
    removed: Share = 0.35  # safe fills: the lines taken away again, as a share of all lines
    seed: Seed = 0  # of all draws

    def __post_init__(self):
        super().__post_init__()
        check(
            self.kind != "stage-four" or 0 < self.mean < 1,
            "mean",
            "above 0 and below 1",
            self.mean,
        )

    @property
    def value_divisor(self) -> float:
        """What margins are divided by, as a share of all boxes."""
        return self.divisor if self.divisor is not None else {"stage-three": 0.8}.get(self.kind, 1.0)


class _Plan(NamedTuple):
    """Games to be played, and where they are to be cut."""

    starts: np.ndarray  # [games, lines] bool
    plies: np.ndarray  # [games] moves before the position
    wild: np.ndarray  # [games] the move that is drawn at random; -1 for none


PlayGames = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(starts [games, lines] bool, seeds [games] uint64, wild [games]) -> records [games, lines] int32."""


def make_samples(
    game: DotsAndBoxes,
    recipe: Recipe,
    number: int,
    make_teacher: Callable[[str, DotsAndBoxes], Agent],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Labelled:
    """Samples, with policies that say which lines are good, and values where the recipe has them.

    Args:
      game: the board.
      recipe: how they are made.
      number: of samples; of whole games where the recipe takes those, one row per move then.
      make_teacher: makes a teacher that is no rule-based player, such as `azjax.agents.make_agent`.
      progress: called with the samples made and the samples in all.
    """
    of_one = game.num_actions if recipe.kind in _WHOLE else 1
    parts, done, endless = [], 0, chunks(game, recipe, make_teacher)
    while done < number:
        chunk = next(endless)
        of_each = memory.size_of(tuple(chunk)) / chunk.size * of_one
        memory.check(int(2 * of_each * number), f"{number:,} samples, while they are put together")
        parts.append(rows(chunk, slice(0, (number - done) * of_one)))
        done += parts[-1].size // of_one
        progress(done, number)
    return concatenate(parts)


def chunks(
    game: DotsAndBoxes, recipe: Recipe, make_teacher: Callable[[str, DotsAndBoxes], Agent]
) -> Iterator[Labelled]:
    """The samples of a recipe without end, `CHUNK` at a time."""
    play = player_of(game, recipe.teacher, make_teacher)
    seeds = _numbers(recipe.seed, "samples")
    while True:
        yield _chunk(game, recipe, play, np.random.default_rng(seeds.integers(2**63, size=4)))


def player_of(
    game: DotsAndBoxes, teacher: str, make_teacher: Callable[[str, DotsAndBoxes], Agent]
) -> PlayGames:
    """What plays a teacher's games."""
    if teacher in dots_games.LEVELS:
        return lambda starts, seeds, wild: dots_games.play(game, teacher, starts, seeds, wild)
    return _by_moves(game, make_teacher(teacher, game))


def safe_or(game: DotsAndBoxes, lines: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """[positions, lines] bool: all safe lines where there are some and nothing can be captured; else the others given.

    Args:
      game: the board.
      lines: [positions, lines] bool, drawn.
      otherwise: [positions, lines] bool.
    """
    degree = np.pad(
        4 - lines[:, box_sides(game.rows, game.columns)].sum(axis=2), ((0, 0), (0, 1)), constant_values=4
    )
    safe = ~lines & (degree[:, strings_and_coins(game.rows, game.columns)] != 2).all(axis=2)
    forming = safe.any(axis=1) & (degree != 1).all(axis=1)
    return np.where(forming[:, None], safe, otherwise)


def moves_left(
    game: DotsAndBoxes, mean: float, spread: float, number: int, random: np.random.Generator
) -> np.ndarray:
    """[number] int: lines that are left, as StageFour draws them: cut down to whole numbers, none and all refused."""
    most = game.num_actions - 2
    found = np.zeros(0, np.int64)
    while len(found) < number:
        drawn = np.trunc(random.normal(mean * most, spread * most, 2 * number + 16)).astype(np.int64)
        found = np.concatenate([found, drawn[(drawn > 0) & (drawn < most)]])
    return found[:number]


def _chunk(game: DotsAndBoxes, recipe: Recipe, play: PlayGames, random: np.random.Generator) -> Labelled:
    plan = _plan(game, recipe, random)
    seeds = random.integers(2**64, size=len(plan.starts), dtype=np.uint64)
    records = play(plan.starts, seeds, plan.wild)
    starts, plies = plan.starts, plan.plies
    if recipe.kind in _WHOLE:
        starts, records = (np.repeat(column, game.num_actions, axis=0) for column in (starts, records))
        plies = np.tile(np.arange(game.num_actions), len(plan.starts))
    cuts = dots_games.cut(game, starts, records, plies)
    policy = np.arange(game.num_actions) == cuts.line[:, None]
    if recipe.kind in _ALL_SAFE:
        policy = safe_or(game, cuts.lines, policy)
    value = None
    if recipe.kind in _WITH_VALUES:
        value = np.clip(cuts.margin / (recipe.value_divisor * game.num_boxes), -1, 1).astype(np.float32)
    return Labelled(DotsAndBoxesState(cuts.lines, cuts.owners, cuts.player), value, policy)


def _plan(game: DotsAndBoxes, recipe: Recipe, random: np.random.Generator) -> _Plan:
    lines = game.num_actions
    number = max(1, CHUNK // lines) if recipe.kind in _WHOLE else CHUNK
    starts = np.zeros((number, lines), bool)
    if recipe.kind in _FILLED:
        seeds = random.integers(2**64, size=number, dtype=np.uint64)
        starts = dots_games.safe_fills(game, int(recipe.removed * lines), seeds)
    left = lines - starts.sum(axis=1)
    plies = random.integers(0, left)
    wild = np.full(number, -1)
    if recipe.kind == "stage-four":
        plies = lines - moves_left(game, recipe.mean, recipe.spread, number, random)
    elif recipe.kind in ("stage-one", "stage-two"):
        wild = np.where(random.random(number) < recipe.random_share, plies - 1, -1)
    elif recipe.kind == "basic-strategy":
        is_wild = (random.random(number) < 0.5) & (left > 1)
        plies, wild = np.where(is_wild, 1, plies), np.where(is_wild, 0, -1)
    return _Plan(starts, plies, wild)


def _by_moves(game: DotsAndBoxes, agent: Agent) -> PlayGames:
    """Games of any agent against itself, side by side."""

    def ply(states: DotsAndBoxesState, actions: jax.Array, wild: jax.Array, key: jax.Array):
        actions = jnp.where(wild, random_action(key, ~states.lines), actions)
        over = jnp.all(states.lines, axis=1)
        return jax.vmap(game.step)(states, actions), jnp.where(over, -1, actions).astype(jnp.int32)

    step = jax.jit(ply)
    act = agent.act if agent.on_host else jax.jit(agent.act)

    def play(starts: np.ndarray, seeds: np.ndarray, wild: np.ndarray) -> np.ndarray:
        number = len(starts)
        owners = np.zeros((number, game.num_boxes), np.int8)
        states = DotsAndBoxesState(starts, owners, np.zeros(number, np.int32))
        key = jax.random.key(int(seeds[0] >> np.uint64(33)))
        record = []
        for number in range(int(game.num_actions - starts.sum(axis=1).min())):
            act_key, wild_key = jax.random.split(jax.random.fold_in(key, number))
            actions = act(agent.params, act_key, states)
            states, drawn = step(states, actions, wild == number, wild_key)
            record.append(np.asarray(drawn))
        missing = game.num_actions - len(record)
        return np.pad(np.stack(record, axis=1), ((0, 0), (0, missing)), constant_values=-1)

    return play


def _numbers(seed: int, purpose: str) -> np.random.Generator:
    key = keys.stream(keys.root(seed, "data"), purpose)
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def pictures(game: DotsAndBoxes, samples: Labelled) -> dict[str, np.ndarray]:
    """Samples as the thesis stores them: `input` uint8 pictures [n, height, width], `policy` over its numbers of lines,
    and `value` float64 [n, 1] where there are any."""
    grey = dataclasses.replace(game, observation="grey")
    observe = _observe(grey)
    size = 4096
    parts = []
    for begin in range(0, samples.size, size):
        states = jax.tree.map(lambda leaf, b=begin: leaf[b : b + size], samples.states)
        parts.append(np.rint(255 * np.asarray(observe(states))[..., 0]).astype(np.uint8))
    found: dict[str, Any] = {"input": np.concatenate(parts)}
    if samples.policy is not None:
        policy = samples.policy[:, peters_lines(game.rows, game.columns)].astype(np.float64)
        found["policy"] = policy / policy.sum(axis=1, keepdims=True)
    if samples.value is not None:
        found["value"] = samples.value.astype(np.float64)[:, None]
    return found


@functools.cache
def _observe(game: DotsAndBoxes) -> Callable:
    return jax.jit(jax.vmap(game.observe))
