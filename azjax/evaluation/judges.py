"""Judges by name, for every checkpoint of a run: `azjax evaluate` runs them.

A judge is made once for a run, so that it compiles once, and is then asked about one checkpoint after the other. Its
results are plain data; shares come with their intervals.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import checkpoint, replay, training
from azjax.agents import make_agent
from azjax.agents.core import Act, Agent
from azjax.agents.trained import make_evaluation, make_search, search_act
from azjax.config import TrainConfig
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game, GameState
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.evaluation import dots_judges, ground_truth, suites
from azjax.evaluation.arena import MatchResult, make_match
from azjax.networks import Params
from azjax.solvers.core import Solver
from azjax.tree import Evaluator

Progress = Callable[[str, int, int], None]
"""(what is being done, done, in all)."""


@dataclasses.dataclass(frozen=True)
class JudgeOptions:
    """How thoroughly to judge."""

    simulations: int = 64  # of the agent's search; 0 for the network alone
    policy_simulations: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)  # accuracy: of the searches
    positions: int = 1000  # accuracy: of each set
    most_positions: int = 500_000  # whole: of a game with more, so many are drawn
    pairs: int = 50  # games against an opponent, both colours each
    random_plies: int = 2  # moves of an opening in them
    sizes: tuple[int, ...] = (3, 4, 5)  # boards: rows and columns of boxes
    seed: int = 0


class Checkpoint(NamedTuple):
    """What there is to judge after an iteration."""

    iteration: int
    params: Params  # the averaged weights
    ring: Callable[[], replay.Ring]  # raises RunError where only the weights have been kept


Judge = Callable[[Checkpoint], dict[str, Any]]


class Context(NamedTuple):
    """What judges are made of."""

    config: TrainConfig
    options: JudgeOptions
    newest: Callable[[], Checkpoint]
    progress: Progress


class JudgeKind(NamedTuple):
    """A judge that can be asked for by name."""

    about: str
    make: Callable[[Context, str], Judge]  # (context, what stands behind the colon)
    settings: tuple[str, ...]  # the options that change its results
    argument: str = ""  # what is expected behind the colon; empty if nothing
    from_newest: bool = False  # whether its results depend on the newest checkpoint
    needs_replay: bool = False  # of old checkpoints the weights are kept, the replay is not


def make_judge(text: str, context: Context) -> Judge:
    """The judge that a text names, such as `suite:hex5`."""
    name, _, argument = text.partition(":")
    kind = _kind(text)
    if bool(kind.argument) != bool(argument):
        wanted = f"{name}:{kind.argument}" if kind.argument else name
        raise ValueError(f"{text!r} is incomplete or has too much: write {wanted}")
    return kind.make(context, argument)


def file_name(text: str, options: JudgeOptions, newest: int) -> str:
    """What to call the results, so that those with other settings have another name."""
    kind = _kind(text)
    settings = {name: getattr(options, name) for name in kind.settings}
    settings |= {"seen": newest} if kind.from_newest else {}
    parts = [text, *(f"{name}={_plain(value)}" for name, value in settings.items())]
    return "_".join("".join(c if c.isalnum() or c in "=-." else "-" for c in part) for part in parts)


def iterations_to_judge(text: str, run: checkpoint.Run) -> list[int]:
    """The iterations of which the judge that a text names can say something."""
    return run.iterations if _kind(text).needs_replay else run.snapshots


def checkpoint_reader(run: checkpoint.Run) -> Callable[[int], Checkpoint]:
    """(iteration) -> what a run has kept of it: the weights, and the replay where it is still there."""

    @functools.lru_cache(maxsize=1)
    def ring(iteration: int) -> replay.Ring:
        # A checkpoint is read whole, so that room for all of it is needed.
        like = training.make_trainer(run.config, training.make_mesh(1)).init(jax.random.key(0))
        return jax.device_get(run.restore(like, iteration).ring)

    return lambda iteration: Checkpoint(
        iteration, run.load_agent(iteration), functools.partial(ring, iteration)
    )


def describe() -> str:
    """All judges, a line each."""
    named = {f"{name}:{kind.argument}" if kind.argument else name: kind for name, kind in JUDGES.items()}
    return "\n".join(f"  {name:20}{kind.about}" for name, kind in named.items())


def _kind(text: str) -> JudgeKind:
    name = text.partition(":")[0]
    if name not in JUDGES:
        raise ValueError(f"there is no judge {name!r}; there are\n{describe()}")
    return JUDGES[name]


def _plain(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _shares(shares: dict[str, Any]) -> dict[str, Any]:
    """Shares anywhere in a tree of dictionaries and lists, as plain data."""
    if isinstance(shares, ground_truth.Share):
        return shares.as_dict()
    if isinstance(shares, dict):
        return {name: _shares(value) for name, value in shares.items()}
    return [_shares(value) for value in shares] if isinstance(shares, list) else shares


def _key(context: Context) -> jax.Array:
    return jax.random.key(context.options.seed)


def _evaluator(context: Context, game: Game) -> Evaluator:
    return make_evaluation(context.config, context.newest().params, game)


def _act(context: Context, game: Game, simulations: int | None = None) -> Act:
    """The agent's moves on a board, with the run's kind of search or with none."""
    simulations = context.options.simulations if simulations is None else simulations
    evaluate = _evaluator(context, game)
    if simulations == 0:
        return ground_truth.network_act(evaluate, game)
    return search_act(make_search(context.config, game, evaluate, simulations=simulations))


def _moves(
    context: Context, game: Game, simulations: int | None = None
) -> Callable[[Checkpoint], Callable[[GameState], np.ndarray]]:
    """(checkpoint) -> (boards [n, ...]) -> [n], what its agent plays on each."""
    act = _act(context, game, simulations)
    return lambda point: functools.partial(suites.ask, Agent("run", act, point.params), _key(context))


def _cached_act(context: Context) -> Callable[[Game], Act]:
    return functools.cache(functools.partial(_act, context))


def _solver(context: Context) -> Solver:
    solver = ground_truth.solver_for(context.config.game)
    if solver is None:
        raise ValueError(
            f"no solver fits {context.config.game}; choose a judge that needs none, such as match:uct:200"
        )
    return solver


def _suite(context: Context, name: str) -> Judge:
    suite = suites.read_suite(name)
    act_on = _cached_act(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        def agent(game: Game) -> Agent:
            return Agent("run", act_on(game), point.params)

        result = suites.run(agent, suite, _key(context), context.progress)
        scores = zip(("all", "first_player", "second_player"), (result.all, *result.by_player))
        return {name: score._asdict() for name, score in scores if score is not None}

    return judge


def _truth(context: Context, _: str) -> Judge:
    judge = ground_truth.truth_judge(context.config.game)
    if judge is None:
        _solver(context)
    evaluate = _evaluator(context, context.config.game)
    compiled = jax.jit(lambda params: judge(evaluate, params))
    return lambda point: {name: float(share) for name, share in compiled(point.params).items()}


def _accuracy(context: Context, _: str) -> Judge:
    game, solver = context.config.game, _solver(context)
    played = ground_truth.read_self_play(context.newest().ring())
    if not len(played.outcome):
        raise ValueError("the newest checkpoint has no finished game in its replay; train longer")
    options = (solver, played.states, _key(context), context.options.positions)
    hard = ground_truth.make_datasets(*options)
    everything = ground_truth.make_datasets(*options, decisions_only=False)
    sides = {}
    if isinstance(game, ChineseCheckers):
        sides = {
            name: [ground_truth.either_side(solver, part, player) for player in (0, 1)]
            for name, part in hard.items()
        }
    evaluate = _evaluator(context, game)
    searches = {f"policy_{number}": number for number in context.options.policy_simulations}
    moves = {name: _moves(context, game, number) for name, number in ({"policy": 0} | searches).items()}

    def judge(point: Checkpoint) -> dict[str, Any]:
        results = {}
        for name in hard:
            context.progress(f"judging {name} positions", 0, 1)
            values = ground_truth.values_of(evaluate, point.params)
            row = {
                "value": ground_truth.value_accuracy(values, everything[name]),
                "value_where_it_matters": ground_truth.value_accuracy(values, hard[name]),
            }
            for player, part in zip(("first_player", "second_player"), sides.get(name, ())):
                row[f"value_if_{player}_moves"] = ground_truth.value_accuracy(values, part)["all"]
            for label, moves_of in moves.items():
                row[label] = ground_truth.policy_accuracy(moves_of(point), hard[name])
            results[name] = _shares(row)
        return results

    return judge


def _labels(context: Context, _: str) -> Judge:
    solver = _solver(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        return _shares(ground_truth.label_accuracy(solver, ground_truth.read_self_play(point.ring())))

    return judge


def _match(context: Context, game: Game, opponent: Agent) -> Callable[[Params], MatchResult]:
    options = context.options
    match = make_match(
        game,
        Agent("run", _act(context, game)),
        opponent,
        pairs=options.pairs,
        random_plies=options.random_plies,
    )
    return lambda params: match(
        params, None, _key(context), progress=lambda done, games: context.progress("playing", done, games)
    )


def _score(result: MatchResult) -> dict[str, Any]:
    return {
        "score": result.score,
        "interval": list(result.interval),
        "as_first": result.first._asdict(),
        "as_second": result.second._asdict(),
        "distinct_games": result.distinct_games,
    }


def _matches(context: Context, opponent: str) -> Judge:
    game = context.config.game
    play = _match(context, game, make_agent(opponent, game))
    return lambda point: _score(play(point.params))


def _mistakes(context: Context, _: str) -> Judge:
    game, solver = context.config.game, _solver(context)
    play = _match(context, game, make_agent("adversary", game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        result = play(point.params)
        counts = ground_truth.count_mistakes(
            solver,
            result.played.record,
            np.where(result.played.agent_first, 0, 1),
            ground_truth.read_self_play(context.newest().ring()).states,
            skip=result.played.opening_plies,
        )
        return _score(result) | {name: count._asdict() for name, count in counts.items()}

    return judge


def _whole(context: Context, _: str) -> Judge:
    solver = _solver(context)
    moves_of = _moves(context, ground_truth.without_past(solver.game))
    options = {"limit": context.options.most_positions, "key": _key(context)}
    return lambda point: _shares(ground_truth.whole_game(solver, moves_of(point), **options))


def _exploitability(context: Context, _: str) -> Judge:
    solver = _solver(context)
    moves_of = _moves(context, ground_truth.without_past(solver.game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        found = ground_truth.exploitability(solver, moves_of(point))
        return {"total": found.total, **found._asdict()}

    return judge


def _dots_only(context: Context, name: str) -> DotsAndBoxes:
    if not isinstance(context.config.game, DotsAndBoxes):
        raise ValueError(
            f"the judge {name} is for runs of dots_and_boxes, this one is of {context.config.game.name}"
        )
    return context.config.game


def _double_deals(context: Context, opponent: str) -> Judge:
    game = _dots_only(context, "double-deals")
    play = _match(context, game, make_agent(opponent, game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        result = play(point.params)
        deals = dots_judges.count_double_deals(game, result.played.record).by_player
        mine = np.where(result.played.agent_first, deals[:, 0], deals[:, 1])
        return _score(result) | {
            "double_deals": int(mine.sum()),
            "opponents_double_deals": int((deals.sum(1) - mine).sum()),
        }

    return judge


def _boards(context: Context, opponent: str) -> Judge:
    _dots_only(context, "boards")
    act_on = _cached_act(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        results = dots_judges.over_board_sizes(
            lambda game: Agent("run", act_on(game), point.params),
            functools.partial(make_agent, opponent),
            context.options.sizes,
            pairs=context.options.pairs,
            key=_key(context),
            random_plies=context.options.random_plies,
            progress=context.progress,
        )
        return {
            f"{size}x{size}": _score(result) | dots_judges.as_row(result) for size, result in results.items()
        }

    return judge


_PLAYED = ("simulations", "pairs", "random_plies", "seed")
JUDGES = {
    "suite": JudgeKind(
        "share of winning moves (WMSR) in a suite, by colour", _suite, ("simulations", "seed"), "NAME"
    ),
    "truth": JudgeKind("quick: values and moves in random positions of a solved game", _truth, ()),
    "accuracy": JudgeKind(
        "values and moves in seen, neighbouring and random positions (Karki 2024)",
        _accuracy,
        ("positions", "policy_simulations", "seed"),
        from_newest=True,
    ),
    "labels": JudgeKind("how true the outcomes of self-play are", _labels, (), needs_replay=True),
    "mistakes": JudgeKind(
        "mistakes against the adversary, by kind of position (Karki 2024)",
        _mistakes,
        _PLAYED,
        from_newest=True,
    ),
    "whole": JudgeKind(
        "in how many positions of the whole game its value is kept",
        _whole,
        ("simulations", "most_positions", "seed"),
    ),
    "exploitability": JudgeKind(
        "what a best response takes, exactly", _exploitability, ("simulations", "seed")
    ),
    "match": JudgeKind("games against an opponent", _matches, _PLAYED, "AGENT"),
    "double-deals": JudgeKind(
        "double deals in games against an opponent (Peters 2018)", _double_deals, _PLAYED, "AGENT"
    ),
    "boards": JudgeKind(
        "games on boards of other sizes (Peters 2018)", _boards, (*_PLAYED, "sizes"), "AGENT"
    ),
}
