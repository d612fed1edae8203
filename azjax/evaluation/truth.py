"""Agents against the truth, where a game is solved (after Karki 2024).

Positions come from a run's own self-play (seen), from one move beside it (neighbouring), or from the whole space
(random). On each set the sign of the network's value and the chosen move, with or without search, are compared with
the solver. The labels a run was trained on are measured the same way, and so are the games against an adversary. Of a
small game all positions are asked, and the best response to an agent tells exactly how much it can lose.

`truth_judge` is a small judge of this kind for the training loop.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import positions
from azjax.common.agent import NOT_FINITE, Act, mark_not_finite
from azjax.common.cache import folder as cache_folder
from azjax.common.keys import root, stream
from azjax.common.remembered import remembered
from azjax.envs.core import Game, GameState, without_past
from azjax.evaluation.arena import wilson_interval
from azjax.evaluation.opened import Opened, leave_out
from azjax.positions import describe_game
from azjax.positions import sets as position_sets
from azjax.positions.drawn import random_play_positions, random_positions
from azjax.search import gumbel
from azjax.search.tree import AnyParams, Evaluator
from azjax.solvers import Solver, TooLargeError, files, has_solver, room_of
from azjax.training import replay

SIMULATIONS = (32, 64, 128, 256, 512, 1024)  # with which Karki measures policies
CATEGORIES = ("seen", "neighbouring", "other")

_FORMAT = 2  # of the judges kept on disk; changes whenever their positions do
_ROWS_PER_CALL = 1024
_JUDGED = 256  # positions of a truth judge
_SEEN_PER_PART = 2**16


class Share(NamedTuple):
    """How many of some."""

    correct: int
    total: int

    @property
    def share(self) -> float:
        """As a number from 0 to 1; NaN of none."""
        return self.correct / self.total if self.total else math.nan

    def as_dict(self) -> dict[str, Any]:
        """With Wilson's 95 % interval, for JSON."""
        share = self.share if self.total else None
        return {"share": share, "of": self.total, "interval": list(wilson_interval(self.correct, self.total))}


class Dataset(NamedTuple):
    """Positions and the truth about them."""

    states: GameState  # [positions, ...]
    value: np.ndarray  # [positions] float32, for the player to move
    optimal: np.ndarray  # [positions, actions] bool
    legal: np.ndarray  # [positions, actions] bool

    @property
    def is_decision(self) -> np.ndarray:
        """[positions] bool: some moves keep the value, and others do not."""
        return np.any(self.optimal != self.legal, axis=1)

    @property
    def player(self) -> np.ndarray:
        """[positions] int32, who is to move."""
        return np.asarray(self.states.current_player)


class SelfPlay(NamedTuple):
    """What a run has played, or what of it is in its replay; oldest first."""

    states: GameState  # [positions, ...]
    outcome: np.ndarray  # [positions] float32, for the player to move


class JudgedMoves(NamedTuple):
    """An agent's moves in some games; made by `judge_moves`."""

    states: GameState  # [moves, ...] in which the agent was to move
    game: np.ndarray  # [moves] int, the number of the game
    category: np.ndarray  # [moves] one of `CATEGORIES`, or "left_out"
    can_err: np.ndarray  # [moves] bool, as in `MistakeCount`; so are the others
    mistake: np.ndarray
    slip: np.ndarray


class MistakeCount(NamedTuple):
    """An agent's moves from one category of positions."""

    states: int  # in which the agent was to move
    distinct_states: int
    can_err: int  # of the states: won, and not every move wins
    mistakes: int  # from won to lost
    distinct_mistakes: int
    slips: int  # from won to drawn, or from drawn to lost

    def as_dict(self, games: int) -> dict[str, Any]:
        """For JSON; of so many games."""
        return self._asdict() | {"states_per_game": self.states / games if games else None}


def solver_for(game: Game, all_moves: bool = False) -> Solver | None:
    """A solver that is there within a minute or two; None if there is none for this game.

    It may leave positions unproven that would take long. For `all_moves` see `azjax.solvers.tables.truth_of`.
    """
    if not has_solver(game):
        return None
    try:
        return room_of(game).quick_solver(game, all_moves)
    except TooLargeError:
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class TruthJudge:
    """A quick look at how much a network knows; made by `truth_judge`. Calling it is pure and can be compiled."""

    game: Game
    any_positions: Dataset  # of random play, for values
    decisions: Dataset  # of random play, for moves: some are optimal, some are not
    openings: (
        Dataset | None
    )  # the positions after each first move, for their values; None if they take too long
    simulations: int
    left_out: int = 0  # drawn positions and first moves that the run opens games with

    def __call__(self, evaluate: Evaluator, params: AnyParams) -> dict[str, jax.Array]:
        """Shares from 0 to 1, each a scalar.

        Args:
          evaluate: as `azjax.nn.make_evaluator` makes it.
          params: what it is called with.

        Returns:
          value_sign_accuracy: of the network's values in random positions.
          policy_accuracy: how often the network's favourite move is optimal, where not every move is.
          search_accuracy: how often that of a short search is.
          opening_sign_accuracy: of the network's values after each first move, where they are known.

          A share of no positions is not among them: a run may have opened games with all there are. Where an answer of
          the network is not finite, the share is NaN.
        """
        network_key, search_key = jax.random.split(root(0, "judge"))
        shares = {}
        if len(self.any_positions.value):
            shares["value_sign_accuracy"] = _sign_accuracy(evaluate, params, self.any_positions)
        if len(self.decisions.value):
            favourite = network_act(evaluate, self.game)(params, network_key, self.decisions.states)
            search = gumbel(self.game, evaluate, simulations=self.simulations)
            found = search(params, search_key, self.decisions.states)
            searched = mark_not_finite(found.action, jnp.isfinite(found.value))
            shares["policy_accuracy"] = _kept_share(self.decisions, favourite)
            shares["search_accuracy"] = _kept_share(self.decisions, searched)
        if self.openings is not None and len(self.openings.value):
            shares["opening_sign_accuracy"] = _sign_accuracy(evaluate, params, self.openings)
        return shares


@functools.cache
def truth_judge(
    game: Game,
    positions: int = _JUDGED,
    simulations: int = 32,
    seed: int = 0,
    opened: Opened | None = None,
) -> TruthJudge | None:
    """A judge for the training loop; None if no solver fits.

    It takes a minute or two to make, and a moment the next time: its positions are kept on disk, beside the tables
    of `azjax.solvers.tables`.

    Args:
      game: the rules.
      positions: how many are asked for values, and how many for moves.
      simulations: of the short search.
      seed: which positions.
      opened: what the judged run opens games with; none of these is asked.
    """
    header = describe_game(game) | {"format": _FORMAT, "version": game.version}
    header |= {"judge": "truth", "positions": positions, "seed": seed}
    header |= {"without": "nothing" if opened is None else opened.fingerprint}
    name = "-".join(f"{field}_{value}" for field, value in header.items())
    path = cache_folder() / f"{name}.npz"
    blank = Dataset(game.init(jax.random.key(0)), 0, 0, 0)
    has_openings = has_solver(game) and room_of(game).solves_openings(game)
    structure = jax.tree.structure((blank, blank, blank if has_openings else None, 0))
    with contextlib.suppress(OSError, ValueError):
        _, arrays = files.read(path, header)
        names = [f"leaf{i}" for i in range(structure.num_leaves)]
        if set(arrays) != set(names):
            raise ValueError(f"{path} holds other arrays than a set of judged positions")
        *datasets, left_out = jax.tree.unflatten(structure, [arrays[name] for name in names])
        return TruthJudge(game, *datasets, simulations, int(left_out))
    solver = solver_for(game)
    if solver is None:
        return None
    key = stream(root(seed, "judge"), "truth")
    *datasets, left_out = _judged_positions(solver, key, positions, opened)
    openings = None
    if has_openings:
        openings, more = _openings(game, solver, opened)
        left_out += more
    known = (*datasets, openings, left_out)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        leaves = jax.tree.leaves(known)
        files.write(path, header, {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)})
    return TruthJudge(game, *datasets, openings, simulations, left_out)


def label(solver: Solver, states: GameState) -> Dataset:
    """Positions with the truth about them; those the solver gave up are left out."""
    if not position_sets.size_of(states):  # solvers want something to solve
        nothing = np.zeros((0, solver.game.num_actions), bool)
        return Dataset(states, np.zeros(0, np.float32), nothing, nothing)
    solution = solver.solve(states)
    legal = position_sets.legal_moves(solver.game, states)
    everything = Dataset(states, solution.value, solution.optimal, legal)
    return some(everything, solution.proven)


def some(dataset: Dataset, which: np.ndarray | slice) -> Dataset:
    """Some rows of a dataset, by number or by mask."""
    return Dataset(position_sets.rows(dataset.states, which), *(column[which] for column in dataset[1:]))


def read_self_play(ring: replay.Ring) -> SelfPlay:
    """All positions in a run's replay, oldest first."""
    written = np.asarray(ring.written)
    capacity = ring.capacity
    group, slot, age = [], [], []
    for number, count in enumerate(written.tolist()):
        arrival = np.arange(max(0, count - capacity), count)
        group.append(np.full(len(arrival), number))
        slot.append(arrival % capacity)
        age.append(count - arrival)  # groups fill equally fast
    group, slot, age = (np.concatenate(column) for column in (group, slot, age))
    order = np.argsort(-age, kind="stable")
    group, slot = group[order], slot[order]
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[group, slot], ring.rows.state)
    return SelfPlay(states, np.asarray(ring.rows.outcome)[group, slot])


def make_datasets(
    solver: Solver,
    seen: GameState,
    key: jax.Array,
    number: int,
    decisions_only: bool = True,
    opened: Opened | None = None,
) -> tuple[dict[str, Dataset], dict[str, int]]:
    """The sets of Karki 2024: seen, neighbouring and random, disjoint, at most `number` positions each.

    Seen: distinct positions of self-play. Neighbouring: one legal move from them, and not seen. Random: of the whole
    space, in neither.

    Args:
      solver: of the game.
      seen: [positions, ...] of self-play, with repetitions.
      key: for what is drawn.
      number: how many of each.
      decisions_only: keep positions where some moves keep the value and others do not, as the thesis does; and of
        the random ones those that are won. Else all that are not over.
      opened: what the judged run opens games with; none of these is in any set.

    Returns:
      The sets, and how many positions of each were left out for having been openings.
    """
    game = solver.game
    seen = position_sets.rows(seen, position_sets.first_of_each(seen))
    draw = np.random.default_rng(int(jax.random.bits(stream(key, "order"))))
    beside = position_sets.successors(game, seen).states
    beside = position_sets.rows(beside, position_sets.first_of_each(beside))
    beside = position_sets.rows(
        beside, ~position_sets.is_in(beside, seen) & ~position_sets.is_over(game, beside)
    )
    far = random_positions(game, stream(key, "random positions"), 8 * number)
    far = position_sets.rows(far, position_sets.first_of_each(far))
    far = position_sets.rows(far, ~position_sets.is_in(far, seen) & ~position_sets.is_in(far, beside))
    sets, left_out = {}, {}
    for name, states in (("seen", seen), ("neighbouring", beside), ("random", far)):
        states, left_out[name] = leave_out(game, states, opened)
        order = draw.permutation(position_sets.size_of(states))
        parts, found = [], 0
        for begin in range(0, len(order), number):
            part = label(solver, position_sets.rows(states, order[begin : begin + number]))
            if decisions_only:
                part = some(part, part.is_decision & ((name != "random") | (part.value > 0)))
            parts.append(part)
            found += len(part.value)
            if found >= number:
                break
        parts = parts or [label(solver, states)]
        sets[name] = some(_join(parts), slice(0, number))
    return sets, left_out


def value_accuracy(values: Callable[[GameState], np.ndarray], dataset: Dataset) -> dict[str, Share]:
    """How often the sign of a value is right: above 0 a win, 0 a draw, below 0 a loss.

    Args:
      values: (states [n, ...]) -> [n] for the player to move.
      dataset: the truth.
    """
    right = np.sign(values(dataset.states)) == np.sign(dataset.value)
    return _by_player(right, dataset.player)


def policy_accuracy(actions: Callable[[GameState], np.ndarray], dataset: Dataset) -> dict[str, Share]:
    """How often a chosen move is optimal.

    Args:
      actions: (states [n, ...]) -> [n].
      dataset: the truth.
    """
    return _by_player(np.asarray(_at(dataset.optimal, actions(dataset.states))), dataset.player)


def either_side(solver: Solver, dataset: Dataset, player: int) -> Dataset:
    """The same boards with a given player to move, without illegal and finished ones; of games with `with_mover`.

    Karki 2024 measures values from both players' perspectives, presumably so. Where one has a decision to make, the
    outcome for the other says whether the network knows who is ahead, or only whose turn it is.
    """
    game = solver.game
    turn = jax.jit(jax.vmap(functools.partial(game.with_mover, player=player)))
    states, legal = position_sets.in_parts(turn, dataset.states)
    return label(solver, position_sets.rows(states, legal & ~position_sets.is_over(game, states)))


def label_accuracy(solver: Solver, played: SelfPlay, parts: int = 10) -> dict[str, Any]:
    """How often the outcome of a self-play game is the true value of its positions.

    Args:
      solver: of the game.
      played: positions, oldest first.
      parts: into how many the time is divided.

    Returns:
      "all" and by player, a Share each; "over_time" [parts] of them; "so_far" [parts], of all up to there.
    """
    first = position_sets.first_of_each(played.states)
    truth = dict(
        zip(
            position_sets.keys_of(position_sets.rows(played.states, first)).tolist(),
            _values(solver, played, first),
        )
    )
    value = np.array([truth[key] for key in position_sets.keys_of(played.states).tolist()])
    known = ~np.isnan(value)
    right = (np.sign(value) == np.sign(played.outcome))[known]
    pieces = np.array_split(right, parts)
    return _by_player(right, np.asarray(played.states.current_player)[known]) | {
        "over_time": [_share(piece) for piece in pieces],
        "so_far": [_share(np.concatenate(pieces[: number + 1])) for number in range(parts)],
    }


def judge_moves(
    solver: Solver,
    records: np.ndarray,
    agent_player: np.ndarray,
    seen: GameState | None = None,
    skip: int | np.ndarray = 0,
    opened: Opened | None = None,
    starts: Sequence[str | None] | None = None,
) -> JudgedMoves:
    """What an agent's moves in some games were worth, and from what positions it made them.

    Args:
      solver: of the game.
      records: [games, plies] int32, actions from there on; -1 after the end.
      agent_player: [games] int32, which player the agent was.
      seen: the positions of its self-play; without them everything is "other".
      skip: moves at the beginning that nobody chose; of all games, or of each, [games].
      opened: what the agent's run opens games with; these positions are counted apart.
      starts: [games] the position before all moves, None for the game's start; default the game's start for all.
    """
    game = solver.game
    starts = [None] * len(records) if starts is None else starts
    states, actions, number = _moves_of(game, positions.starts(game, starts), records, agent_player, skip)
    truth = solver.solve(states)
    value_after = _value_after(solver, states, actions)
    legal = position_sets.legal_moves(game, states)
    category = _category_of(game, states, seen)
    if opened is not None:
        category[opened.has(game, states)] = "left_out"
    # Where nothing is proven, comparisons with NaN are False, and no mistake is counted.
    return JudgedMoves(
        states=states,
        game=number,
        category=category,
        can_err=(truth.value > 0) & np.any(truth.optimal != legal, axis=1),
        mistake=(truth.value > 0) & (value_after < 0),
        slip=((truth.value > 0) & (value_after == 0)) | ((truth.value == 0) & (value_after < 0)),
    )


def count_mistakes(moves: JudgedMoves, games: np.ndarray | None = None) -> dict[str, MistakeCount]:
    """What an agent's games show of its mistakes, by category of the position it was in.

    Args:
      moves: of `judge_moves`.
      games: [games] bool, of which games; default all.

    Returns:
      By category, and "all"; positions that were openings are in none of these, but in "left_out".
    """
    asked = np.full(len(moves.game), True) if games is None else games[moves.game]
    counts = {}
    for name in ("all", *CATEGORIES, "left_out"):
        members = moves.category != "left_out" if name == "all" else moves.category == name
        members = members & asked
        counts[name] = MistakeCount(
            states=int(members.sum()),
            distinct_states=_distinct(moves.states, members),
            can_err=int((members & moves.can_err).sum()),
            mistakes=int((members & moves.mistake).sum()),
            distinct_mistakes=_distinct(moves.states, members & moves.mistake),
            slips=int((members & moves.slip).sum()),
        )
    return counts


def whole_game(
    solver: Solver,
    actions: Callable[[GameState], np.ndarray],
    *,
    limit: int = 500_000,
    key: jax.Array | None = None,
    opened: Opened | None = None,
) -> dict[str, Any]:
    """In how many of all positions the agent keeps the value of the game.

    Args:
      solver: of the game.
      actions: (states [n, ...]) -> [n], the agent's moves.
      limit: of a game with more positions, so many are drawn at random (`random_positions`).
      key: for that.
      opened: what the agent's run opens games with; it is not asked about these.

    Returns:
      "kept" and "kept_where_it_matters" (some moves do not keep it), by player; whether that is "every_position" but
      for the openings; and how many of these were "left_out".
    """
    game = solver.game
    try:
        states = position_sets.explore(without_past(game), with_moves=False, limit=limit).states
        whole = True
    except TooLargeError:
        key = root(0, "judge") if key is None else key
        states = random_positions(without_past(game), key, limit)
        whole = False
    states = position_sets.rows(states, ~position_sets.is_over(game, states))
    states, left_out = leave_out(game, states, opened)
    dataset = label(solver, states)
    kept = np.asarray(_at(dataset.optimal, actions(dataset.states)))
    matters = dataset.is_decision
    return {
        "every_position": whole,
        "left_out": left_out,
        "kept": _by_player(kept, dataset.player),
        "kept_where_it_matters": _by_player(kept[matters], dataset.player[matters]),
    }


class Mistake(NamedTuple):
    """A move from a won position to a lost one, with what else there was; for a picture see `azjax.envs.Game.draw`."""

    state: GameState  # one position
    action: int
    outcomes: dict[int, float]  # of every legal move, what it leads to, for who makes it


def find_mistakes(
    solver: Solver,
    records: np.ndarray,
    agent_player: np.ndarray,
    skip: int | np.ndarray = 0,
    starts: Sequence[str | None] | None = None,
) -> list[Mistake]:
    """The mistakes in an agent's games, each position once; for the arguments see `judge_moves`."""
    game = solver.game
    starts = [None] * len(records) if starts is None else starts
    states, actions, _ = _moves_of(game, positions.starts(game, starts), records, agent_player, skip)
    wrong = np.flatnonzero((solver.value(states) > 0) & (_value_after(solver, states, actions) < 0))
    wrong = wrong[position_sets.first_of_each(position_sets.rows(states, wrong))]
    found = []
    for row in wrong.tolist():
        legal = np.flatnonzero(position_sets.legal_moves(game, position_sets.rows(states, [row]))[0])
        outcomes = _value_after(solver, position_sets.rows(states, np.full(len(legal), row)), legal)
        state = jax.tree.map(lambda leaf, row=row: leaf[row], states)
        found.append(Mistake(state, int(actions[row]), dict(zip(legal.tolist(), outcomes.tolist()))))
    return found


class Exploitability(NamedTuple):
    """How much a perfect opponent takes from an agent."""

    game_value: float  # for the first player, if both are perfect
    as_first: float  # what the agent gets as the first player, against the best response
    as_second: float
    positions: tuple[int, int]  # that the best responses had to look at

    @property
    def total(self) -> float:
        """What it gives away, the mean of both sides: 0 for a perfect agent."""
        return (self.game_value - self.as_first + -self.game_value - self.as_second) / 2


def exploitability(
    solver: Solver, actions: Callable[[GameState], np.ndarray], *, limit: int = 2_000_000
) -> Exploitability:
    """Plays the best response against an agent, exactly.

    An agent that always moves alike in a position leaves few positions to look at: all of the opponent's moves, but
    only one of its own. Endless play counts as a draw. So an agent that draws its moves is judged by one draw a
    position: `perfect` may then walk in circles in Chinese Checkers, which costs it won games; `optimal` cannot.

    Args:
      solver: of the game, for its value.
      actions: (states [n, ...]) -> [n], the agent's moves; each position is asked once.
      limit: raises TooLargeError beyond so many positions.
    """
    game = without_past(solver.game)
    value = float(solver.value(position_sets.start_of(game))[0])
    results, sizes = [], []
    for player in (0, 1):
        graph = position_sets.explore(game, functools.partial(_replies, game, actions, player), limit=limit)
        results.append(-best_response(game, graph, 1 - player))
        sizes.append(position_sets.size_of(graph.states))
    return Exploitability(value, results[0], results[1], tuple(sizes))


def best_response(game: Game, graph: position_sets.Graph, player: int) -> float:
    """What a player can reach at the start, choosing among the moves of the graph; the other has one move each."""
    rewards = position_sets.in_parts(jax.jit(jax.vmap(game.rewards)), graph.states)
    value = rewards[:, player].astype(np.float64)
    parents, first = np.unique(graph.parent, return_index=True)
    while True:
        # From "everything is a draw", each round makes right what is one move further from the end.
        better = value.copy()
        better[parents] = np.maximum.reduceat(value[graph.child], first) if len(first) else value[parents]
        if np.array_equal(better, value):
            return float(value[0])
        value = better


def values_of(evaluate: Evaluator, params: AnyParams) -> Callable[[GameState], np.ndarray]:
    """(states [n, ...]) -> values [n] of an evaluator."""
    function = functools.partial(_compiled_values(evaluate), params)
    return lambda states: position_sets.in_parts(function, states, rows_per_call=_ROWS_PER_CALL)


@remembered
def network_act(evaluate: Evaluator, game: Game) -> Act:
    """The moves that an evaluator likes best, without search; a device agent's `act`."""

    def act(params: AnyParams, key: jax.Array, states: GameState) -> jax.Array:
        logits, _ = evaluate(params, key, states)
        legal = jax.vmap(game.legal_action_mask)(states)
        finite = jnp.all(jnp.isfinite(logits) | ~legal, -1)
        return mark_not_finite(jnp.argmax(jnp.where(legal, logits, -jnp.inf), -1), finite)

    return act


@functools.lru_cache(maxsize=8)
def _compiled_values(evaluate: Evaluator) -> Callable:
    return jax.jit(lambda params, states: evaluate(params, jax.random.key(0), states)[1])


def _at(mask, actions):
    """[n] bool: the entry of a mask [n, actions] at each action [n]."""
    return jnp.take_along_axis(jnp.asarray(mask), jnp.asarray(actions)[:, None], axis=1)[:, 0]


def _sign_accuracy(evaluate: Evaluator, params: AnyParams, dataset: Dataset) -> jax.Array:
    _, value = evaluate(params, jax.random.key(0), dataset.states)
    share = jnp.mean(jnp.sign(value) == jnp.sign(dataset.value))
    return jnp.where(jnp.all(jnp.isfinite(value)), share, jnp.nan)


def _kept_share(dataset: Dataset, actions: jax.Array) -> jax.Array:
    """[] the share of actions [n] that are optimal; NaN if a network had no answer."""
    share = jnp.mean(_at(dataset.optimal, jnp.maximum(actions, 0)))
    return jnp.where(jnp.any(actions == NOT_FINITE), jnp.nan, share)


def _share(right: np.ndarray) -> Share:
    return Share(int(np.sum(right)), len(right))


def _by_player(right: np.ndarray, player: np.ndarray) -> dict[str, Share]:
    return {
        "all": _share(right),
        "first_player": _share(right[player == 0]),
        "second_player": _share(right[player == 1]),
    }


def _join(parts: Sequence[Dataset]) -> Dataset:
    columns = zip(*(part[1:] for part in parts))
    return Dataset(
        position_sets.concatenate([part.states for part in parts]),
        *(np.concatenate(column) for column in columns),
    )


def _values(solver: Solver, played: SelfPlay, which: np.ndarray) -> list[float]:
    return solver.value(position_sets.rows(played.states, which)).tolist()


def _judged_positions(
    solver: Solver, key: jax.Array, number: int, opened: Opened | None
) -> tuple[Dataset, Dataset, int]:
    """Positions of random play, any and those where the move matters; and how many drawn ones were openings."""
    first_ply = room_of(solver.game).first_quick_ply(solver.game)
    drawn = random_play_positions(solver.game, key, 16 * number, first_ply)
    drawn, left_out = leave_out(solver.game, drawn, opened)
    parts, found = [], 0
    for begin in range(0, position_sets.size_of(drawn), number):
        parts.append(label(solver, position_sets.rows(drawn, slice(begin, begin + number))))
        found += int(parts[-1].is_decision.sum())
        if found >= number:
            break
    everything, first = _join(parts or [label(solver, drawn)]), slice(0, number)
    return some(everything, first), some(some(everything, everything.is_decision), first), left_out


def _openings(game: Game, solver: Solver, opened: Opened | None) -> tuple[Dataset, int]:
    """The positions after each first move, and how many of them the run opens games with."""
    states = position_sets.successors(game, position_sets.start_of(game)).states
    states, left_out = leave_out(game, states, opened)
    legal = position_sets.legal_moves(game, states)
    value = solver.value(states) if len(legal) else np.zeros(0, np.float32)
    return Dataset(states, value, np.zeros_like(legal), legal), left_out


def _replies(
    game: Game, actions: Callable[[GameState], np.ndarray], player: int, states: GameState
) -> np.ndarray:
    """[n, actions] bool: the agent's one move where it is to move, all legal ones elsewhere."""
    legal = position_sets.legal_moves(game, states)
    agents = (np.asarray(states.current_player) == player) & legal.any(axis=1)
    if agents.any():
        chosen = np.asarray(actions(position_sets.rows(states, agents)))
        one_move = np.arange(game.num_actions) == chosen[:, None]
        if not np.all(np.any(one_move & legal[agents], axis=1)):
            raise ValueError("the agent chose a move that is not legal")
        legal[agents] = one_move
    return legal


def _moves_of(
    game: Game, states: GameState, records: np.ndarray, agent_player: np.ndarray, skip: int | np.ndarray
) -> tuple[GameState, np.ndarray, np.ndarray]:
    """All positions in which the agent moved, its moves, and the numbers of the games."""
    batches, actions, numbers = [], [], []
    for ply in range(records.shape[1]):
        going = records[:, ply] >= 0
        mine = going & (np.asarray(states.current_player) == agent_player) & (ply >= skip)
        batches.append(position_sets.rows(states, mine))
        actions.append(records[mine, ply])
        numbers.append(np.flatnonzero(mine))
        states = position_sets.step(game, states, np.where(going, records[:, ply], 0))
    return position_sets.concatenate(batches), np.concatenate(actions), np.concatenate(numbers)


def _value_after(solver: Solver, states: GameState, actions: np.ndarray) -> np.ndarray:
    """[n] what moves lead to, for who makes them."""
    after = position_sets.step(solver.game, states, actions)
    sign = np.where(np.asarray(after.current_player) == np.asarray(states.current_player), 1, -1)
    return sign * solver.value(after)


def _category_of(game: Game, states: GameState, seen: GameState | None) -> np.ndarray:
    category = np.full(position_sets.size_of(states), "other", dtype="U12")
    if seen is None or not len(category):
        return category
    asked = np.unique(position_sets.keys_of(states))
    seen = position_sets.rows(seen, position_sets.first_of_each(seen))
    for begin in range(
        0, position_sets.size_of(seen), _SEEN_PER_PART
    ):  # all their successors take much memory
        part = position_sets.rows(seen, slice(begin, begin + _SEEN_PER_PART))
        beside = position_sets.keys_of(position_sets.successors(game, part).states)
        found = asked[np.minimum(np.searchsorted(asked, beside), len(asked) - 1)] == beside
        category[np.isin(position_sets.keys_of(states), beside[found])] = "neighbouring"
    category[position_sets.is_in(states, seen)] = "seen"
    return category


def _distinct(states: GameState, which: np.ndarray) -> int:
    return len(np.unique(position_sets.keys_of(states)[which]))
