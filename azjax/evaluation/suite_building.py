"""How suites of solved positions are made, the way of Daliri 2022.

Source games are played, or read from files of games; every position is taken from them, each once; the solver proves
all moves, positions with most moves made first, so that what it has found out helps with earlier ones; positions with
few winning moves remain; they are sorted into bins by the number of moves made, and the bins give their hardest
position in turn, for each colour by itself. How hard a position is, is the median effort over its winning moves, each
proven by a search that knows nothing yet.

Every line says which training presets open games with its position (`opened_by`), so that those can be left out.
"""

import dataclasses
import functools
import json
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import agents, positions
from azjax.common import atomic, files
from azjax.common.checked import Checked, ConfigError, Count, Number, Positive, Seed, at_least, at_most
from azjax.common.progress import StagedProgress
from azjax.envs.core import Game, GameError, GameState, random_action
from azjax.evaluation import records as game_records
from azjax.evaluation.arena import make_match
from azjax.evaluation.opened import openings_of
from azjax.positions import sets as position_sets
from azjax.search import uct
from azjax.training.config import TrainConfig

MOST_PER_COLOUR = 250  # Daliri's limit
_LANES = 128  # games of UCT side by side
_SOLVED_AT_ONCE = 16
_RANDOM_OPENING = 1  # first moves drawn at random, as strong players repeat themselves
_KEEP_EVERY = 120.0  # seconds between two writings of what has been proven


@dataclasses.dataclass(frozen=True)
class Recipe(Checked):
    """How a suite is made; with the same recipe, the same suite comes out."""

    games: Annotated[int, at_least(1), at_most(1_000_000)] = 300  # source games of each kind
    sources: tuple[str, ...] = ("strong",)  # of "random", "mixed" (half of the moves random), "strong" (UCT)
    players: tuple[str, ...] = ()  # two agents who play as many games with each colour: az:runs/hex6 perfect
    records: tuple[str, ...] = ()  # files of games, .sgf or the plain notation
    simulations: Count = 400  # of the UCT players
    fewest_moves: Number = 0  # positions with fewer moves made are left out before they are solved
    most_moves: Count | None = None  # likewise those with more
    most_candidates: Count | None = None  # solve no more positions than this, drawn at random
    min_winning: Count = 1  # positions with fewer winning moves are left out
    max_winning: Count = 5  # likewise those with more
    a_colour: Count | None = None  # positions; default half of the rarer colour's, at most 250
    hardest_first: bool = True  # within a bin; else in random order
    fewest_nodes: Number = 0  # leave out positions whose winning moves take less to prove, by the median
    nodes: Count | None = None  # the solver gives up a position after so many nodes
    seconds: Positive | None = None  # or after this time; then the suite depends on the machine
    seed: Seed = 0  # of the games and of what is drawn from them

    def __post_init__(self):
        super().__post_init__()
        if unknown := set(self.sources) - _SOURCES.keys():
            raise ConfigError(f"sources must be some of {', '.join(_SOURCES)}, got {min(unknown)!r}")
        if not (self.sources or self.players or self.records):
            raise ConfigError(
                f"sources must be some of {', '.join(_SOURCES)}, unless there are players or records"
            )
        if len(self.players) not in (0, 2):
            raise ConfigError(f"players must be two agents, such as uct:400 perfect, got {self.players!r}")
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
    looked_up: (
        np.ndarray
    )  # [positions, actions] int8: 1 wins, -1 loses, as a candidate proven before tells; else 0


class Built(NamedTuple):
    """A suite, and how it came about."""

    lines: list[dict[str, Any]]  # of a position file
    counts: dict[str, Any]  # how many games, positions and moves there were at every stage


def build(
    game: Game,
    make_solver: Callable[[], Any],
    recipe: Recipe,
    progress: StagedProgress = lambda what, done, total: None,
    *,
    presets: Mapping[str, TrainConfig] | None = None,
    proofs: str | os.PathLike | None = None,
    games: tuple[np.ndarray, dict[str, Any]] | None = None,
) -> Built:
    """Makes a suite.

    Args:
      game: the rules.
      make_solver: makes a solver of this game that knows nothing yet; what it gives up is left out.
      recipe: what to make.
      progress: called now and then.
      presets: trainings by name; every line says in `opened_by` which of them open games with its position.
      proofs: a file that keeps what has been proven and measured, so that building goes on where it was stopped.
      games: what `play_games` gave with this recipe; None to play.
    """
    solver = make_solver()  # first of all: a game that cannot be solved need not be played
    _, draw_key = _keys_of(recipe)
    records, counts = play_games(game, recipe, progress) if games is None else games
    candidates = extract_positions(game, records)
    counts = counts | {"positions": len(candidates.plies)}
    candidates = _worth_solving(game, candidates, recipe, np.random.default_rng(recipe.seed))
    truth = prove(solver, candidates, progress, proofs)
    player = np.asarray(candidates.states.current_player)
    number = truth.winning.sum(axis=1)
    legal = position_sets.legal_moves(game, candidates.states).sum(axis=1)
    eligible = (recipe.min_winning <= number) & (number <= recipe.max_winning) & (number < legal)
    a_colour = recipe.a_colour or suite_size(
        [int(np.sum((number > 0) & (player == colour))) for colour in (0, 1)]
    )
    hardness = -number / np.maximum(legal, 1)  # all that tells positions apart which are looked up in a table
    measured = recipe.hardest_first and bool(truth.nodes.any())
    if measured:
        hardness[eligible] = effort(
            solver, _some(candidates, eligible), truth.winning[eligible], progress, proofs
        )
        eligible &= hardness >= recipe.fewest_nodes
    if not recipe.hardest_first:
        hardness = np.zeros(len(number))
    chosen = []
    order = np.asarray(jax.random.permutation(draw_key, len(number)))  # decides between equals
    for colour in (0, 1):
        members = order[(eligible & (player == colour))[order]]
        chosen.append(members[select(candidates.plies[members], hardness[members], a_colour)])
    counts |= _counted(truth, player, legal, eligible) | {"chosen_by_player": [len(part) for part in chosen]}
    counts["positions_by_moves_made"] = np.bincount(candidates.plies).tolist()
    rows = [
        row for part in chosen for row in sorted(part.tolist(), key=lambda row: (candidates.plies[row], row))
    ]
    lines = [
        _line(game, candidates, truth, row) | ({"nodes": round(hardness[row])} if measured else {})
        for row in rows
    ]
    if presets is not None:
        marks = opened_by(game, position_sets.rows(candidates.states, np.array(rows, int)), presets)
        lines = [line | {"opened_by": names} for line, names in zip(lines, marks)]
    return Built(lines, counts)


def play_games(
    game: Game, recipe: Recipe, progress: StagedProgress = lambda what, done, total: None
) -> tuple[np.ndarray, dict[str, Any]]:
    """The source games of a recipe, as `build` plays them, and their counts."""
    return source_games(game, recipe, _keys_of(recipe)[0], progress)


def source_games(
    game: Game, recipe: Recipe, key: jax.Array, progress: StagedProgress = lambda what, done, total: None
) -> tuple[np.ndarray, dict[str, Any]]:
    """The source games of all kinds, and how many there are.

    The first move is always random, so that strong players do not repeat themselves.

    Returns:
      [games, max_plies] int32, actions, -1 after the end; and the counts, with those of the first of two players by
      the colour that he had.
    """
    parts, counts = [], {}
    for kind, kind_key in zip(recipe.sources, jax.random.split(key, max(1, len(recipe.sources)))):
        share = _SOURCES[kind]
        play = _player(game, 0 if share == 1 else recipe.simulations, share)
        keys = jax.random.split(kind_key, -(-recipe.games // _LANES))
        for done, part_key in zip(range(0, recipe.games, _LANES), keys):
            progress(f"playing {kind} games", done, recipe.games)
            parts.append(np.asarray(play(part_key))[: recipe.games - done])
    if recipe.players:
        played = _played(game, recipe, jax.random.fold_in(key, len(recipe.sources)), progress)
        parts.append(played.record)
        by_colour = [played.record[played.agent_first == first] for first in (True, False)]
        counts["distinct_games_by_colour"] = [_distinct(records) for records in by_colour]
        won = np.where(played.agent_first, played.result, -played.result) > 0
        counts["won_by_first_player_named"] = [
            int(won[played.agent_first == first].sum()) for first in (True, False)
        ]
    for path in recipe.records:
        parts.append(_read_games(game, path))
    records = np.concatenate(parts)
    return records, {"games": len(records), "distinct_games": _distinct(records), **counts}


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
    solver: Any,
    candidates: Candidates,
    progress: StagedProgress = lambda what, done, total: None,
    proofs: str | os.PathLike | None = None,
) -> Truth:
    """All winning moves of every candidate, those with most moves made first.

    A move to a candidate that was proven before is looked up; what the solver says must agree with it.

    Args:
      solver: of the game.
      candidates: the positions.
      progress: called now and then.
      proofs: a file that keeps what the solver has proven, if it can save that.
    """
    keeps = proofs is not None and hasattr(solver, "load")  # a table is as quickly made again
    if keeps and os.path.exists(proofs):
        solver.load(proofs)
    order = np.argsort(-candidates.plies, kind="stable")
    known: dict[bytes, float] = {}  # the values of positions proven so far, for who is to move there
    parts, kept_at = [], time.monotonic()
    for begin, end in _batches(candidates.plies[order]):
        progress("solving", begin, len(order))
        states = position_sets.rows(candidates.states, order[begin:end])
        looked_up = _look_up(solver.game, states, known)
        solution = solver.solve(states)
        won = solution.proven & (np.nan_to_num(solution.value) > 0)
        winning = solution.optimal & won[:, None]
        if np.any(((looked_up > 0) & ~winning | (looked_up < 0) & winning)[solution.proven]):
            raise RuntimeError("a position was proven twice, with different results: the solver is wrong")
        keys = position_sets.keys_of(states).tolist()
        known |= {key: float(v) for key, v, p in zip(keys, solution.value, solution.proven) if p}
        parts.append(Truth(winning, solution.proven, solution.nodes, looked_up))
        if keeps and time.monotonic() - kept_at > _KEEP_EVERY:
            solver.save(proofs)
            kept_at = time.monotonic()
    if keeps:
        solver.save(proofs)
    back = np.argsort(order)
    return Truth(*(np.concatenate(column)[back] for column in zip(*parts)))


def effort(
    solver: Any,
    candidates: Candidates,
    winning: np.ndarray,
    progress: StagedProgress = lambda what, done, total: None,
    proofs: str | os.PathLike | None = None,
) -> np.ndarray:
    """[positions] float64: the median number of nodes that it takes to prove a winning move.

    Each move is proven by a search that knows nothing yet: otherwise what was proven last would look easy. Losing moves
    do not count, for many are refuted at a glance. A solver that does not tell the moves apart is asked about the
    position as a whole.

    Args:
      solver: of the game; it has proven the positions.
      candidates: the positions.
      winning: [positions, actions] bool, their winning moves.
      progress: called now and then.
      proofs: what has been measured is kept in NAME.effort.jsonl beside this file.
    """
    nodes, game = np.zeros(len(winning)), solver.game
    path = None if proofs is None else pathlib.Path(proofs).with_suffix(".effort.jsonl")
    known = {} if path is None or not path.exists() else _read_effort(path)
    for row in range(len(winning)):
        progress("measuring", row, len(winning))
        state = jax.tree.map(lambda leaf, row=row: leaf[row], candidates.states)
        text = game.to_notation(state) if path is not None else ""
        if text in known:
            nodes[row] = known[text]
            continue
        if hasattr(solver, "effort"):
            nodes[row] = np.median(solver.effort(state, np.flatnonzero(winning[row]).tolist()))
        else:
            nodes[row] = solver.solve(position_sets.rows(candidates.states, [row])).nodes[0]
        if path is not None:
            atomic.append(path, json.dumps({"position": text, "nodes": nodes[row]}) + "\n")
    return nodes


def opened_by(game: Game, states: GameState, presets: Mapping[str, TrainConfig]) -> list[list[str]]:
    """[positions] the names of the trainings on this board that open games with a position."""
    names = [[] for _ in range(position_sets.size_of(states))]
    for name, config in presets.items():
        boards = {(board.game.name, board.game.num_actions) for board in config.played}
        if (game.name, game.num_actions) not in boards:
            continue
        for row in np.flatnonzero(openings_of(config).has(game, states)):
            names[row].append(name)
    return names


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
    rank_in_bin = _ranks(bins[order])
    turn = np.lexsort((bins[order], rank_in_bin))  # all first choices, then all second ones
    return order[turn][:size]


_SOURCES = {"random": 1.0, "mixed": 0.5, "strong": 0.0}  # the share of random moves


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


def _keys_of(recipe: Recipe) -> jax.Array:
    """[2] of the games, and of what is drawn from them."""
    return jax.random.split(jax.random.key(recipe.seed))


def _played(game: Game, recipe: Recipe, key: jax.Array, progress: StagedProgress) -> Any:
    """The games of the two players, each opening with both colours."""
    seated = [agents.make_agent(text, game) for text in recipe.players]
    try:
        match = make_match(game, *seated, pairs=recipe.games, random_plies=_RANDOM_OPENING)
        told = functools.partial(progress, f"playing {' against '.join(recipe.players)}")
        return match(None, None, key, progress=told).played
    finally:
        for agent in seated:
            agent.close()


def _read_games(game: Game, path: str) -> np.ndarray:
    """[games, max_plies] int32, the games of a file."""
    games = game_records.read_records(path)
    records = np.full((len(games), game.max_plies), -1, np.int32)
    for row, record in enumerate(games):
        if record.game != game or record.start is not None:
            raise GameError(
                f"game {row + 1} of {path} is not of {game} from its start, so that it is no source for it"
            )
        records[row, : len(record.moves)] = record.moves
    return records


def _distinct(records: np.ndarray) -> int:
    return len(np.unique(records, axis=0))


def _some(candidates: Candidates, which: np.ndarray) -> Candidates:
    return Candidates(
        position_sets.rows(candidates.states, which), candidates.moves[which], candidates.plies[which]
    )


def _worth_solving(
    game: Game, candidates: Candidates, recipe: Recipe, draw: np.random.Generator
) -> Candidates:
    """Without finished games, very early and very late positions; of too many, a random part."""
    over = position_sets.is_over(game, candidates.states)
    wanted = ~over & (candidates.plies >= recipe.fewest_moves)
    if recipe.most_moves is not None:
        wanted &= candidates.plies <= recipe.most_moves
    which = np.flatnonzero(wanted)
    if recipe.most_candidates is not None and len(which) > recipe.most_candidates:
        which = np.sort(draw.choice(which, recipe.most_candidates, replace=False))
    return _some(candidates, which)


def _batches(plies: np.ndarray) -> list[tuple[int, int]]:
    """Where batches of sorted positions begin and end: no position stands in one with those that may follow it."""
    borders = np.flatnonzero(np.diff(plies)) + 1
    starts = [0, *borders.tolist()] if len(plies) else []
    return [
        (begin, min(begin + _SOLVED_AT_ONCE, stop))
        for first, stop in zip(starts, [*starts[1:], len(plies)])
        for begin in range(first, stop, _SOLVED_AT_ONCE)
    ]


def _look_up(game: Game, states: GameState, known: Mapping[bytes, float]) -> np.ndarray:
    """[batch, actions] int8: what the positions proven so far tell of each move; see `Truth`."""
    after = position_sets.successors(game, states)
    mover = np.asarray(states.current_player)[after.parent]
    sides = np.where(np.asarray(after.states.current_player) == mover, 1, -1)
    found = np.zeros((position_sets.size_of(states), game.num_actions), np.int8)
    for parent, action, side, key in zip(
        after.parent, after.action, sides, position_sets.keys_of(after.states).tolist()
    ):
        if key in known:
            found[parent, action] = 1 if side * known[key] > 0 else -1
    return found


def _counted(truth: Truth, player: np.ndarray, legal: np.ndarray, eligible: np.ndarray) -> dict[str, Any]:
    """What the proofs of candidates come to, as Tables 6.1 and 6.2 of Daliri 2022 have it."""
    number = truth.winning.sum(axis=1)
    return {
        "solved_or_tried": len(number),
        "not_proven": int(np.sum(~truth.proven)),
        "won_by_player": [int(np.sum((number > 0) & (player == colour))) for colour in (0, 1)],
        "lost": int(np.sum(truth.proven & (number == 0))),
        "moves": int(legal[truth.proven].sum()),
        "winning_moves": int(number.sum()),
        "looked_up": int(np.sum(truth.looked_up != 0)),
        "looked_up_winning": int(np.sum(truth.looked_up > 0)),
        "nodes": int(truth.nodes.sum()),
        "eligible_by_player": [int(np.sum(eligible & (player == colour))) for colour in (0, 1)],
        "winning_moves_of_won": {
            str(count): [int(np.sum((number == count) & (player == colour))) for colour in (0, 1)]
            for count in np.unique(number[number > 0]).tolist()
        },
    }


def _read_effort(path: pathlib.Path) -> dict[str, float]:
    rows = files.read_objects(path, "file of measured effort", may_be_cut=True)
    return {row["position"]: float(row["nodes"]) for _, row in rows}


def _ranks(groups: np.ndarray) -> np.ndarray:
    """Of sorted groups [n]: each member's place in its group [n]."""
    begins = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, int)
    lengths = np.diff(np.r_[begins, len(groups)])
    return np.arange(len(groups)) - np.repeat(begins, lengths)


def _line(game: Game, candidates: Candidates, truth: Truth, row: int) -> dict[str, Any]:
    moves = candidates.moves[row][: candidates.plies[row]]
    return positions.describe_game(game) | {
        "moves": [game.action_to_text(action) for action in moves.tolist()],
        "optimal": [game.action_to_text(action) for action in np.flatnonzero(truth.winning[row])],
        "value": 1,
    }
