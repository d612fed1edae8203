"""Position suites: solved positions that an agent is asked about, instead of many games (Daliri 2022).

Building one goes the thesis's way. Source games are played; every position is taken from them, each once; the solver
proves all moves, positions with most stones first, so that what it has found out helps with earlier ones; positions
with few winning moves remain; they are sorted into bins by the number of moves made, and the bins give their hardest
position in turn, for each colour by itself. How hard a position is, is the median effort over its winning moves.

Any position file with `optimal` is a suite. An agent's score is its winning-move selection ratio (WMSR): the share of
positions in which it plays one of the optimal moves.
"""

import dataclasses
import functools
import importlib.resources
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import agents, positions
from azjax.agents.trained import load_weights
from azjax.common import tables
from azjax.common.agent import Agent, check_finite
from azjax.common.checked import Checked, ConfigError, Count, Number, Positive, Seed, at_least, at_most
from azjax.common.progress import StagedProgress
from azjax.envs.core import Game, GameError, GameState, PositionError, random_action
from azjax.evaluation.arena import wilson_interval
from azjax.evaluation.opened import Opened, openings_of
from azjax.positions import PositionLine
from azjax.positions import sets as position_sets
from azjax.search import uct

MOST_PER_COLOUR = 250  # Daliri's limit
_LANES, _FEW_LANES = 128, 16  # positions an agent is asked about at once
_SOLVED_AT_ONCE = 16
_RANDOM_OPENING = 1  # first moves drawn at random, as strong players repeat themselves


@dataclasses.dataclass(frozen=True)
class Recipe(Checked):
    """How a suite is made; with the same recipe, the same suite comes out."""

    games: Annotated[int, at_least(1), at_most(1_000_000)] = 300  # source games of each kind
    sources: tuple[str, ...] = ("strong",)  # of "random", "mixed" (half of the moves random), "strong" (UCT)
    simulations: Count = 400  # of the UCT players
    fewest_moves: Number = 0  # positions with fewer moves made are left out before they are solved
    most_candidates: Count | None = None  # solve no more positions than this, drawn at random
    min_winning: Count = 1
    max_winning: Count = 5
    a_colour: Count | None = None  # positions; default half of the rarer colour's, at most 250
    hardest_first: bool = True  # within a bin; else in random order
    nodes: Count | None = None  # the solver gives up a position after so many nodes
    seconds: Positive | None = None  # or after this time; then the suite depends on the machine
    seed: Seed = 0

    def __post_init__(self):
        super().__post_init__()
        unknown = set(self.sources) - _SOURCES.keys()
        if unknown or not self.sources:
            raise ConfigError(f"sources must be some of {', '.join(_SOURCES)}, got {self.sources!r}")
        if not 1 <= self.min_winning <= self.max_winning:
            raise ConfigError(
                f"min_winning must be from 1 to max_winning ({self.max_winning}), got {self.min_winning}"
            )


class Candidates(NamedTuple):
    """Positions of source games, each once."""

    states: GameState  # [positions, ...]
    moves: np.ndarray  # [positions, max_plies] int32, how the first game came there; -1 after the last
    plies: np.ndarray  # [positions] int32, moves made


class Truth(NamedTuple):
    """What the solver found out about candidates."""

    winning: np.ndarray  # [positions, actions] bool, all moves that win; none in positions that are not won
    proven: np.ndarray  # [positions] bool
    nodes: np.ndarray  # [positions] int64, what it took; 0 for a look-up


class Built(NamedTuple):
    """A suite, and how it came about."""

    lines: list[dict[str, Any]]  # of a position file
    counts: dict[str, Any]  # how many games, positions and moves there were at every stage


class Answer(NamedTuple):
    """What an agent plays in one position of a suite."""

    player: int  # who is to move
    action: int
    move: str | None  # None if the move is not legal
    correct: bool
    chance: float  # of a random mover to be correct


class SuiteScore(NamedTuple):
    """A winning-move selection ratio."""

    correct: int
    positions: int
    share: float
    interval: tuple[float, float]  # Wilson's, 95 %
    chance: float  # what a random mover would reach


class SuiteResult(NamedTuple):
    """How an agent did."""

    answers: list[Answer]  # in the order of the file
    all: SuiteScore
    by_player: tuple[SuiteScore | None, SuiteScore | None]  # None if the suite has no position of that colour

    def grid(self) -> tables.Grid:
        """The scores as a table."""
        return grid_of_scores(self.parts())

    def parts(self) -> dict[str, SuiteScore]:
        """The scores in all positions and in those of each player, by name."""
        named = {
            "all": self.all,
            "player 0 to move": self.by_player[0],
            "player 1 to move": self.by_player[1],
        }
        return {name: score for name, score in named.items() if score is not None}

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def build(
    game: Game,
    make_solver: Callable[[], Any],
    recipe: Recipe,
    progress: StagedProgress = lambda what, done, total: None,
) -> Built:
    """Makes a suite.

    Args:
      game: the rules.
      make_solver: makes a solver of this game that knows nothing yet; what it gives up is left out.
      recipe: what to make.
      progress: called now and then.
    """
    solver = make_solver()  # first of all: a game that cannot be solved need not be played
    game_key, draw_key = jax.random.split(jax.random.key(recipe.seed))
    records = source_games(game, recipe, game_key, progress)
    candidates = extract_positions(game, records)
    counts = {
        "games": len(records),
        "distinct_games": len(np.unique(records, axis=0)),
        "positions": len(candidates.plies),
    }
    candidates = _worth_solving(game, candidates, recipe, np.random.default_rng(recipe.seed))
    truth = prove(solver, candidates, progress)
    player = np.asarray(candidates.states.current_player)
    number = truth.winning.sum(axis=1)
    legal = position_sets.legal_moves(game, candidates.states).sum(axis=1)
    eligible = (recipe.min_winning <= number) & (number <= recipe.max_winning) & (number < legal)
    a_colour = suite_size([int(np.sum((number > 0) & (player == colour))) for colour in (0, 1)])
    a_colour = recipe.a_colour or a_colour
    hardness = -number / np.maximum(legal, 1)  # all that tells positions apart which are looked up in a table
    measured = recipe.hardest_first and bool(truth.nodes.any())
    if measured:
        hardness[eligible] = effort(
            make_solver, _some(candidates, eligible), truth.winning[eligible], progress
        )
    if not recipe.hardest_first:
        hardness = np.zeros(len(number))
    chosen = []
    order = np.asarray(jax.random.permutation(draw_key, len(number)))  # decides between equals
    for colour in (0, 1):
        members = order[(eligible & (player == colour))[order]]
        chosen.append(members[select(candidates.plies[members], hardness[members], a_colour)])
    counts |= {
        "solved_or_tried": len(number),
        "not_proven": int(np.sum(~truth.proven)),
        "won_by_player": [int(np.sum((number > 0) & (player == colour))) for colour in (0, 1)],
        "lost": int(np.sum(truth.proven & (number == 0))),
        "moves": int(legal[truth.proven].sum()),
        "winning_moves": int(number.sum()),
        "eligible_by_player": [int(np.sum(eligible & (player == colour))) for colour in (0, 1)],
        "chosen_by_player": [len(part) for part in chosen],
    }
    lines = [
        _line(game, candidates, truth, row) | ({"nodes": round(hardness[row])} if measured else {})
        for part in chosen
        for row in sorted(part.tolist(), key=lambda row: (candidates.plies[row], row))
    ]
    return Built(lines, counts)


def source_games(
    game: Game, recipe: Recipe, key: jax.Array, progress: StagedProgress = lambda what, done, total: None
) -> np.ndarray:
    """[games, max_plies] int32, the actions of source games of all kinds; -1 after the end.

    The first move is always random, so that strong players do not repeat themselves.
    """
    records = []
    for kind, kind_key in zip(recipe.sources, jax.random.split(key, len(recipe.sources))):
        share = _SOURCES[kind]
        play = _player(game, 0 if share == 1 else recipe.simulations, share)
        keys = jax.random.split(kind_key, -(-recipe.games // _LANES))
        for done, part_key in zip(range(0, recipe.games, _LANES), keys):
            progress(f"playing {kind} games", done, recipe.games)
            records.append(np.asarray(play(part_key))[: recipe.games - done])
    return np.concatenate(records)


def extract_positions(game: Game, records: np.ndarray) -> Candidates:
    """Every position of the games, the start and the ends included, each once.

    Args:
      game: the rules.
      records: [games, plies] int32, actions; -1 after the end.
    """
    states = position_sets.start_of(game)
    states = jax.tree.map(lambda leaf: np.repeat(leaf, len(records), axis=0), states)
    batches, moves, plies = [states], [np.full_like(records, -1)], [np.zeros(len(records), np.int32)]
    for ply in range(records.shape[1]):
        going = records[:, ply] >= 0
        if not going.any():
            break
        states = position_sets.step(game, states, np.where(going, records[:, ply], 0))
        batches.append(position_sets.rows(states, going))
        so_far = np.where(np.arange(records.shape[1]) <= ply, records, -1)
        moves.append(so_far[going])
        plies.append(np.full(going.sum(), ply + 1, np.int32))
    everything = Candidates(position_sets.concatenate(batches), np.concatenate(moves), np.concatenate(plies))
    return _some(everything, position_sets.first_of_each(everything.states))


def prove(
    solver: Any, candidates: Candidates, progress: StagedProgress = lambda what, done, total: None
) -> Truth:
    """All winning moves of every candidate, those with most moves made first."""
    order = np.argsort(-candidates.plies, kind="stable")
    parts = []
    for begin in range(0, len(order), _SOLVED_AT_ONCE):
        progress("solving", begin, len(order))
        solution = solver.solve(position_sets.rows(candidates.states, order[begin : begin + _SOLVED_AT_ONCE]))
        won = solution.proven & (np.nan_to_num(solution.value) > 0)
        parts.append(Truth(solution.optimal & won[:, None], solution.proven, solution.nodes))
    back = np.argsort(order)
    return Truth(*(np.concatenate(column)[back] for column in zip(*parts)))


def effort(
    make_solver: Callable[[], Any],
    candidates: Candidates,
    winning: np.ndarray,
    progress: StagedProgress = lambda what, done, total: None,
) -> np.ndarray:
    """[positions] float64: the median number of nodes that it takes to prove a winning move.

    Each position is proven by a solver that knows nothing yet: otherwise what was solved last would look easy.
    Losing moves do not count, for many are refuted at a glance. A solver that does not tell the moves apart is asked
    about the position as a whole.
    """
    nodes = np.zeros(len(winning))
    for row in range(len(winning)):
        progress("measuring", row, len(winning))
        state, solver = position_sets.rows(candidates.states, [row]), make_solver()
        if hasattr(solver, "winning_moves"):
            found = solver.winning_moves(jax.tree.map(lambda leaf: leaf[0], state)).nodes[winning[row]]
            # Of two moves that mirror each other, one takes no nodes at all.
            nodes[row] = np.median(found[found > 0]) if np.any(found) else 0
        else:
            nodes[row] = solver.solve(state).nodes[0]
    return nodes


def suite_size(won: Sequence[int]) -> int:
    """Positions a colour, for so many won positions of each: half of the rarer colour's, at most 250."""
    return min(MOST_PER_COLOUR, min(won) // 2)


def select(bins: np.ndarray, hardness: np.ndarray, size: int) -> np.ndarray:
    """Takes the hardest position of each bin in turn, until there are enough or no more.

    Args:
      bins: [candidates] int, such as the number of stones.
      hardness: [candidates]; of equally hard ones the first goes first.
      size: how many to take.

    Returns:
      [at most size] int, which candidates.
    """
    order = np.lexsort((-hardness, bins))
    _, rank_in_bin = _ranks(bins[order])
    turn = np.lexsort((bins[order], rank_in_bin))  # all first choices, then all second ones
    return order[turn][:size]


def read_suite(text: str | os.PathLike) -> list[PositionLine]:
    """The positions of a suite: a file, or the name of one in the package such as `hex6`."""
    path = find_suite(text)
    suite = positions.read_positions(path)
    for number, position in enumerate(suite, start=1):
        try:
            if not _optimal_actions(position):
                raise PositionError('a suite needs "optimal", a list of moves')
        except GameError as error:
            raise PositionError(f"{path}, position {number}: {error}") from error
    return suite


def without_openings(suite: Sequence[PositionLine], opened: Opened) -> list[int]:
    """The numbers, from 0, of the positions that a run did not open games with; raises ValueError if none is left."""
    kept = [
        number
        for number, position in enumerate(suite)
        if not opened.has(position.game, positions.stack([position.state]))[0]
    ]
    if not kept:
        raise ValueError(
            f"the run opened games with all {len(suite)} positions of the suite, so that they tell nothing about it;"
            " give it another suite"
        )
    return kept


def find_suite(text: str | os.PathLike) -> pathlib.Path:
    """Where a suite is. A name of the package's own comes before a file of that name; ./NAME is the file."""
    ready = ready_suites()
    if str(text) in ready:
        return ready[str(text)]
    path = pathlib.Path(text)
    if path.exists():
        return path
    raise ValueError(f"there is no suite {text}; give a file, or one of {', '.join(ready)}")


def ready_suites() -> dict[str, pathlib.Path]:
    """The suites that come with azjax, by name."""
    folder = pathlib.Path(str(importlib.resources.files("azjax") / "data"))
    return {path.stem: path for path in sorted(folder.glob("*.jsonl"))}


def run(
    make_agent: Callable[[Game], Agent],
    suite: Sequence[PositionLine],
    key: jax.Array,
    progress: StagedProgress = lambda what, done, total: None,
) -> SuiteResult:
    """Asks an agent about every position.

    Args:
      make_agent: the agent for a game; called once for each game of the suite.
      suite: positions with `optimal`.
      key: for agents that draw.
      progress: called now and then.
    """
    answers: dict[int, Answer] = {}
    games = list(dict.fromkeys(position.game for position in suite))
    for game, game_key in zip(games, jax.random.split(key, len(games))):
        numbers = [number for number, position in enumerate(suite) if position.game == game]
        states = positions.stack(suite[number].state for number in numbers)
        legal = position_sets.legal_moves(game, states)
        agent = make_agent(game)
        try:
            actions = ask(agent, game_key, states, lambda done: progress("asking", done, len(suite)))
        finally:
            agent.close()
        for number, action, mask in zip(numbers, actions.tolist(), legal):
            answers[number] = _answer(suite[number], action, mask)
    ordered = [answers[number] for number in range(len(suite))]
    by_player = tuple(score([answer for answer in ordered if answer.player == player]) for player in (0, 1))
    return SuiteResult(ordered, score(ordered), by_player)


class AskedSuite(NamedTuple):
    """What an agent was asked, and how it did."""

    numbers: list[int]  # which positions of the suite, from 0
    positions: list[PositionLine]
    left_out: int  # positions that its own run opened games with
    result: SuiteResult


def run_suite(
    agent: Agent | str,
    suite: str | os.PathLike,
    *,
    seed: int = 0,
    openings_too: bool = False,
    progress: StagedProgress = lambda what, done, total: None,
) -> AskedSuite:
    """Asks an agent about the positions of a suite, without those that its own run opened games with.

    Args:
      agent: an agent, or its text.
      suite: a position file with `optimal`, or the name of a ready suite.
      seed: for agents that draw.
      openings_too: leave nothing out.
      progress: called now and then.
    """
    lines = read_suite(suite)
    numbers = list(range(len(lines)))
    text = agent.name if isinstance(agent, Agent) else agent
    trained = agents.run_of(text) if text else None
    if trained and not openings_too:
        numbers = without_openings(lines, openings_of(load_weights(trained)[0]))
    asked = [lines[number] for number in numbers]
    make = functools.partial(agents.make_agent, agent) if isinstance(agent, str) else lambda game: agent
    result = run(make, asked, jax.random.key(seed), progress)
    return AskedSuite(numbers, asked, len(lines) - len(numbers), result)


def score(answers: Sequence[Answer]) -> SuiteScore | None:
    """The winning-move selection ratio; None of no answers."""
    if not answers:
        return None
    correct = sum(answer.correct for answer in answers)
    chance = float(np.mean([answer.chance for answer in answers]))
    share = correct / len(answers)
    return SuiteScore(correct, len(answers), share, wilson_interval(correct, len(answers)), chance)


def grid_of_scores(scores: Mapping[str, SuiteScore]) -> tables.Grid:
    """Scores by what they are of, as a table."""
    rows = [
        (
            name,
            str(score.correct),
            str(score.positions),
            tables.percent(score.share),
            tables.percents(score.interval),
            tables.percent(score.chance),
        )
        for name, score in scores.items()
    ]
    return tables.Grid(("positions", "right", "of", "share", "95 % interval", "random mover"), rows)


def as_dict(result: SuiteResult) -> dict[str, Any]:
    """The result as plain data, for JSON."""
    by_player = [None if part is None else part._asdict() for part in result.by_player]
    answers = [answer._asdict() for answer in result.answers]
    return {"summary": {"all": result.all._asdict(), "by_player": by_player}, "answers": answers}


def ask(
    agent: Agent, key: jax.Array, states: GameState, progress: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """[batch] int32, the moves of an agent in positions [batch, ...]."""
    number = position_sets.size_of(states)
    act = agent.act if agent.on_host else _compiled(agent.act)
    size = _LANES if number > _FEW_LANES else _FEW_LANES  # few sizes, so that few programs are compiled
    actions = [np.zeros(0, np.int32)]
    for begin in range(0, number, size):
        progress(begin)
        key, part_key = jax.random.split(key)
        which = np.minimum(np.arange(begin, begin + size), number - 1)
        which = np.unique(which) if agent.on_host else which
        part = np.asarray(act(agent.params, part_key, position_sets.rows(states, which)))
        actions.append(check_finite(part, agent.name)[: number - begin])
    return np.concatenate(actions).astype(np.int32)


_SOURCES = {"random": 1.0, "mixed": 0.5, "strong": 0.0}  # the share of random moves


@functools.lru_cache(maxsize=32)
def _compiled(act: Callable) -> Callable:
    return jax.jit(act)


@functools.cache
def _player(game: Game, simulations: int, random_share: float) -> Callable[[jax.Array], jax.Array]:
    """A compiled (key) -> records [_LANES, max_plies] of UCT against itself, with a share of random moves."""
    search = uct(game, simulations=simulations, solve=True) if simulations else None

    def ply(carry, number_and_key):
        states, record = carry
        number, key = number_and_key
        coin_key, random_key, search_key = jax.random.split(key, 3)
        action = random_action(random_key, jax.vmap(game.legal_action_mask)(states))
        if search is not None:
            is_random = jax.random.bernoulli(coin_key, random_share, (_LANES,)) | (number < _RANDOM_OPENING)
            action = jnp.where(is_random, action, search(None, search_key, states).action)
        over = jax.vmap(game.is_terminal)(states)
        record = record.at[:, number].set(jnp.where(over, -1, action))
        return (jax.vmap(game.step)(states, action), record), None

    @jax.jit
    def play(key: jax.Array) -> jax.Array:
        init_key, key = jax.random.split(key)
        start = jax.vmap(game.init)(jax.random.split(init_key, _LANES))
        record = jnp.full((_LANES, game.max_plies), -1, jnp.int32)
        steps = (jnp.arange(game.max_plies), jax.random.split(key, game.max_plies))
        return jax.lax.scan(ply, (start, record), steps)[0][1]

    return play


def _some(candidates: Candidates, which: np.ndarray) -> Candidates:
    return Candidates(
        position_sets.rows(candidates.states, which), candidates.moves[which], candidates.plies[which]
    )


def _worth_solving(
    game: Game, candidates: Candidates, recipe: Recipe, draw: np.random.Generator
) -> Candidates:
    """Without finished games and very early positions; of too many, a random part."""
    over = position_sets.is_over(game, candidates.states)
    which = np.flatnonzero(~over & (candidates.plies >= recipe.fewest_moves))
    if recipe.most_candidates is not None and len(which) > recipe.most_candidates:
        which = np.sort(draw.choice(which, recipe.most_candidates, replace=False))
    return _some(candidates, which)


def _ranks(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of sorted groups [n]: where each begins, and each member's place in its group [n]."""
    begins = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, int)
    lengths = np.diff(np.r_[begins, len(groups)])
    return begins, np.arange(len(groups)) - np.repeat(begins, lengths)


def _line(game: Game, candidates: Candidates, truth: Truth, row: int) -> dict[str, Any]:
    moves = candidates.moves[row][: candidates.plies[row]]
    return positions.describe_game(game) | {
        "moves": [game.action_to_text(action) for action in moves.tolist()],
        "optimal": [game.action_to_text(action) for action in np.flatnonzero(truth.winning[row])],
        "value": 1,
    }


def _optimal_actions(position: PositionLine) -> set[int]:
    moves = positions.moves_of(position.fields, "optimal")
    return {positions.action_of(position.game, position.state, move) for move in moves}


def _answer(position: PositionLine, action: int, legal: np.ndarray) -> Answer:
    game = position.game
    optimal = _optimal_actions(position)
    is_legal = 0 <= action < game.num_actions and bool(legal[action])
    return Answer(
        player=int(position.state.current_player),
        action=action,
        move=game.action_to_text(action) if is_legal else None,
        correct=action in optimal,
        chance=len(optimal) / int(legal.sum()),
    )
