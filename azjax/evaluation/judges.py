"""Judges by name, for every checkpoint of a run: `azjax evaluate` runs them.

A judge is made once for a run, so that it compiles once, and is then asked about one checkpoint after the other. Its
results are plain data; shares come with their intervals. A text names it, see `azjax.common.texts`, and its options
win over those of the command: `suite:hex6?simulations=1000&c=2&solve=1`. Behind an agent they follow two question
marks, for one begins the agent's own: `match:uct:200?c=1??pairs=20`. `register_judge` adds one's own.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import agents, training
from azjax.agents import make_agent
from azjax.agents.trained import make_evaluation
from azjax.common import texts
from azjax.common.agent import Act, Agent, AgentError
from azjax.common.checked import Checked, Count, FromZero, Number, Seed, shown
from azjax.common.keys import root, stream
from azjax.common.progress import StagedProgress
from azjax.envs.core import Game, GameState
from azjax.evaluation import dots_judges, match_openings, parts, suites
from azjax.evaluation import truth as ground_truth
from azjax.evaluation.arena import MatchResult, make_match
from azjax.evaluation.opened import openings_of
from azjax.nn.networks import Params
from azjax.positions import PositionLine
from azjax.search.tree import Evaluator
from azjax.solvers.core import Solver
from azjax.training import boards, checkpoint, seen
from azjax.training.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class JudgeOptions(Checked):
    """How thoroughly to judge."""

    simulations: Number = 64  # of the agent's search; 0 for the network alone
    c: FromZero | None = None  # of the search by PUCT (Daliri 2022: 2); default the run's own search
    solve: bool = False  # back up proven results in the search, by PUCT (Daliri 2022)
    policy_simulations: tuple[Count, ...] = (32, 64, 128, 256, 512, 1024)  # accuracy: of the searches
    positions: Count = 1000  # accuracy: of each set
    searched_positions: Count = 1000  # accuracy: how many of these are asked for moves
    most_positions: Count = 500_000  # whole: of a game with more, so many are drawn
    pairs: Count = 50  # games against an opponent, both colours each
    random_plies: Number = 2  # moves of an opening in them
    openings: str = "none"  # where they begin: none, safe (Dots and Boxes, Peters 2018), or NAME.jsonl
    sizes: tuple[Count, ...] = (3, 4, 5)  # boards: rows and columns of boxes
    # Which board to judge on, by its sizes, such as 5 or 2x3; one that the run never played will do, if the network has
    # convolutional heads. Default the run's own.
    board: str | None = None
    # Chinese Checkers: judge forward moves by the values of the game with all moves, as Karki 2024.
    all_moves: bool = False
    unopened: bool = False  # suite: leave out what any preset opens games with, as the suite's file says
    seed: Seed = 0  # of the positions and games that are drawn


# How options are read from a judge's text; `JudgeOptions` checks their ranges.
_READERS = {
    "simulations": texts.whole_number,
    "c": texts.real_number,
    "solve": texts.flag,
    "policy_simulations": texts.several(texts.whole_number),
    "positions": texts.whole_number,
    "searched_positions": texts.whole_number,
    "most_positions": texts.whole_number,
    "pairs": texts.whole_number,
    "random_plies": texts.whole_number,
    "openings": str,
    "sizes": texts.several(texts.whole_number),
    "board": str,
    "all_moves": texts.flag,
    "unopened": texts.flag,
    "seed": texts.whole_number,
}
# Files of results were named without these before there was a choice.
_UNNAMED = {
    "c": None,
    "solve": False,
    "all_moves": False,
    "unopened": False,
    "searched_positions": 1000,
    "openings": "none",
    "board": None,
}
_AGENT = "AGENT"


class Checkpoint(NamedTuple):
    """What there is to judge after an iteration."""

    iteration: int
    params: Params  # the averaged weights
    # What the run had played until then, if it keeps a log, else what of it is in the replay; raises RunError where
    # neither has been kept.
    played: Callable[[], ground_truth.SelfPlay]


Judge = Callable[[Checkpoint], dict[str, Any]]


class Context(NamedTuple):
    """What judges are made of."""

    config: TrainConfig
    options: JudgeOptions
    newest: Callable[[], Checkpoint]
    progress: StagedProgress
    is_logged: bool = False  # whether the run keeps a log of all that it plays


class JudgeKind(NamedTuple):
    """A judge that can be asked for by name."""

    about: str
    make: Callable[[Context, str], Judge]  # (context, what stands behind the colon)
    settings: tuple[
        str, ...
    ]  # the fields of `JudgeOptions` that change its results, and may stand in its text
    argument: str = ""  # what is expected behind the colon; empty if nothing
    from_newest: bool = False  # whether its results depend on the newest checkpoint
    # Of old checkpoints the weights are kept, the replay is not: without a log, nobody knows what had been played.
    needs_replay: bool = False
    covers: str = ""  # without a log: what its results do not cover, though one might think so
    games: tuple[str, ...] | None = None  # the names of those whose runs it judges; None for any

    @property
    def options(self) -> Mapping[str, texts.Reader]:
        """How its options are read from its text."""
        return {name: _READERS[name] for name in self.settings}

    @property
    def separator(self) -> str:
        """What begins its options, see `azjax.common.texts`: an agent has question marks of its own."""
        return "??" if self.argument == _AGENT else ""


def make_judge(text: str, context: Context) -> Judge:
    """The judge that a text names, such as `suite:hex5`."""
    check_text(text)
    name, argument, _ = _parse(text)
    config = on_board(text, context.config, context.options)
    context = context._replace(options=options_of(text, context.options), config=config)
    kind, game = JUDGES[name], context.config.game
    if kind.games is not None and game.name not in kind.games:
        raise ValueError(
            f"the judge {name} is for runs of {' and '.join(kind.games)}, this one is of {game.name}"
        )
    judge = kind.make(context, argument)
    if not kind.covers or context.is_logged:
        return judge
    return lambda point: judge(point) | {"covers": kind.covers}


def register_judge(name: str, kind: JudgeKind) -> None:
    """Makes a judge known by name, as good as a built-in one for `azjax evaluate`.

        def make(context, argument):
            return lambda point: {"share": my_measure(context.config, point.params)}

        register_judge("mine", JudgeKind("what it measures, in a line", make, ("seed",)))

    Raises:
      ValueError: the name is taken or cannot stand in a text, or a setting is no field of `JudgeOptions`.
    """
    for setting in kind.settings:
        if setting not in _READERS:
            raise ValueError(
                f"the settings of a judge are some of {', '.join(_READERS)}, got {shown(setting)}"
            )
    texts.register(JUDGES, name, kind, "judge")


def check_text(text: str) -> None:
    """Raises ValueError unless a text names a judge; its suite must be there, its agent is made later."""
    name, argument, _ = _parse(text)
    options_of(text, JudgeOptions())
    if name == "suite":
        suites.find_suite(argument)
    if JUDGES[name].argument == _AGENT:
        try:
            agents.check_text(argument)
        except AgentError as error:
            raise ValueError(f"{error}. Options of the judge itself follow two question marks") from error


def options_of(text: str, options: JudgeOptions) -> JudgeOptions:
    """The options of the judge that a text names: its own win over those that are given."""
    return dataclasses.replace(options, **_parse(text).options)


def on_board(text: str, config: TrainConfig, options: JudgeOptions) -> TrainConfig:
    """The configuration of a run as if it had only the board that the judge of this text is to judge it on."""
    board = options_of(text, options).board if "board" in _kind(text).settings else None
    return config if board is None else boards.alone(config, boards.read(board, config.game).game)


def file_name(text: str, options: JudgeOptions, newest: int) -> str:
    """What to call the results, so that those with other settings have another name."""
    name, argument, _ = _parse(text)
    kind, options = JUDGES[name], options_of(text, options)
    settings = {setting: getattr(options, setting) for setting in kind.settings}
    settings = {
        name: value for name, value in settings.items() if name not in _UNNAMED or value != _UNNAMED[name]
    }
    settings |= {"seen": newest} if kind.from_newest else {}
    named = f"{name}:{argument}" if argument else name
    pieces = [named, *(f"{setting}={_plain(value)}" for setting, value in settings.items())]
    return "_".join("".join(c if c.isalnum() or c in "=-." else "-" for c in piece) for piece in pieces)


def iterations_to_judge(text: str, run: checkpoint.Run) -> list[int]:
    """The iterations of which the judge that a text names can say something."""
    return run.iterations if _kind(text).needs_replay and not seen.is_logged(run.path) else run.snapshots


def checkpoint_reader(run: checkpoint.Run, game: Game | None = None) -> Callable[[int], Checkpoint]:
    """(iteration) -> what a run has kept of it: the weights, and what had been played where that is still there.

    Args:
      run: the run.
      game: the board; None for the run's own.
    """
    games = [board.game for board in run.config.played]
    number = 0 if game is None else games.index(game) if game in games else None

    @functools.lru_cache(maxsize=1)
    def played(iteration: int) -> ground_truth.SelfPlay:
        if number is None:
            raise checkpoint.RunError(
                f"{run.path} has never played {game}; judge what needs its games on {games}"
            )
        if seen.is_logged(run.path):
            log = seen.read(run.path, run.config.game, iteration)
            return ground_truth.SelfPlay(log.states, log.outcome)
        # A checkpoint is read whole, so that room for all of it is needed.
        like = training.make_trainer(run.config, training.make_mesh(1)).init(jax.random.key(0))
        return ground_truth.read_self_play(jax.device_get(run.restore(like, iteration).played[number].ring))

    return lambda iteration: Checkpoint(
        iteration, run.load_agent(iteration), functools.partial(played, iteration)
    )


def describe() -> str:
    """All judges, with the options that may stand in their texts."""

    def manual(name: str, kind: JudgeKind) -> str:
        games = f" ({', '.join(kind.games)})" if kind.games else ""
        covers = f" ({kind.covers})" if kind.covers else ""
        return texts.manual(name, kind, kind.about + games + covers)

    return "\n".join(manual(name, kind) for name, kind in JUDGES.items())


def _parse(text: str) -> texts.Text:
    return texts.parse(text, JUDGES, "judge")


def _kind(text: str) -> JudgeKind:
    return JUDGES[_parse(text).name]


def _plain(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _shares(shares: dict[str, Any]) -> dict[str, Any]:
    """Shares anywhere in a tree of dictionaries and lists, as plain data."""
    if isinstance(shares, ground_truth.Share):
        return shares.as_dict()
    if isinstance(shares, dict):
        return {name: _shares(value) for name, value in shares.items()}
    return [_shares(value) for value in shares] if isinstance(shares, list) else shares


def _key(context: Context, purpose: str) -> jax.Array:
    return stream(root(context.options.seed, "judge"), purpose)


def _evaluator(context: Context, game: Game) -> Evaluator:
    return make_evaluation(context.config, context.newest().params, game)


def _act(context: Context, game: Game, simulations: int | None = None) -> Act:
    """The agent's moves on a board, with the run's kind of search or with none."""
    options = context.options
    return parts.player_of(
        context.config,
        options.simulations if simulations is None else simulations,
        game=game,
        evaluate=_evaluator(context, game),
        c=options.c,
        solve=options.solve,
    )


def _moves(
    context: Context, game: Game, simulations: int | None = None
) -> Callable[[Checkpoint], Callable[[GameState], np.ndarray]]:
    """(checkpoint) -> (boards [n, ...]) -> [n], what its agent plays on each."""
    act = _act(context, game, simulations)
    key = _key(context, f"moves with {simulations} simulations")

    def moves_of(point: Checkpoint) -> Callable[[GameState], np.ndarray]:
        agent, calls = Agent("run", act, point.params), itertools.count()
        # Every call draws anew, and every checkpoint as the others do.
        return lambda states: suites.ask(agent, jax.random.fold_in(key, next(calls)), states)

    return moves_of


def _cached_act(context: Context) -> Callable[[Game], Act]:
    return functools.cache(functools.partial(_act, context))


def _solver(context: Context) -> Solver:
    game = context.config.game
    solver = ground_truth.solver_for(game, context.options.all_moves)
    if solver is None:
        raise ValueError(
            f"no solver fits {game}; choose a judge that needs none, such as match:uct:200, or first solve the board"
            " with azjax solve, where that keeps a table"
        )
    return solver


def _suite(context: Context, name: str) -> Judge:
    suite = suites.read_suite(name)
    kept = suites.without_openings(suite, openings_of(context.config))
    if context.options.unopened:
        kept = sorted(set(kept) & set(suites.nobodys_openings(suite)))
    act_on = _cached_act(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        def agent(game: Game) -> Agent:
            return Agent("run", act_on(game), point.params)

        result = suites.run(
            agent, [suite[number] for number in kept], _key(context, "suite"), context.progress
        )
        scores = zip(("all", "first_player", "second_player"), (result.all, *result.by_player))
        found = {name: score._asdict() for name, score in scores if score is not None}
        return found | {"left_out": len(suite) - len(kept)}

    return judge


def _truth(context: Context, _: str) -> Judge:
    known = parts.make_truth(context.config, _evaluator(context, context.config.game))
    if known is None:
        _solver(context)  # raises
    shares, left_out = known
    return lambda point: shares(point.params) | {"left_out": left_out}


def _accuracy(context: Context, _: str) -> Judge:
    game, solver = context.config.game, _solver(context)
    played = context.newest().played()
    if not len(played.outcome):
        raise ValueError("the run has finished no game yet; train longer")
    make = functools.partial(
        ground_truth.make_datasets,
        solver,
        played.states,
        number=context.options.positions,
        opened=openings_of(context.config),
    )
    hard, left_out = make(key=_key(context, "positions where the move matters"))
    everything, also_left_out = make(key=_key(context, "any positions"), decisions_only=False)
    sides = {}
    if hasattr(game, "with_mover"):
        sides = {
            name: [ground_truth.either_side(solver, part, player) for player in (0, 1)]
            for name, part in hard.items()
        }
    evaluate = _evaluator(context, game)
    searches = {f"policy_{number}": number for number in context.options.policy_simulations}
    moves = {name: _moves(context, game, number) for name, number in ({"policy": 0} | searches).items()}

    def judge(point: Checkpoint) -> dict[str, Any]:
        results = {}
        moves_by = {label: moves_of(point) for label, moves_of in moves.items()}
        for name in hard:
            context.progress(f"judging {name} positions", 0, 1)
            values = ground_truth.values_of(evaluate, point.params)
            row = {
                "value": ground_truth.value_accuracy(values, everything[name]),
                "value_where_it_matters": ground_truth.value_accuracy(values, hard[name]),
            }
            for player, part in zip(("first_player", "second_player"), sides.get(name, ())):
                row[f"value_if_{player}_moves"] = ground_truth.value_accuracy(values, part)["all"]
            searched = ground_truth.some(hard[name], slice(0, context.options.searched_positions))
            for label, move in moves_by.items():
                row[label] = ground_truth.policy_accuracy(move, searched)
            results[name] = _shares(row) | {"left_out": left_out[name] + also_left_out[name]}
        return results

    return judge


def _labels(context: Context, _: str) -> Judge:
    solver = _solver(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        return _shares(ground_truth.label_accuracy(solver, point.played()))

    return judge


def _match(context: Context, game: Game, opponent: Agent) -> Callable[[Params], MatchResult]:
    options = context.options
    match = make_match(
        game,
        Agent("run", _act(context, game)),
        opponent,
        pairs=options.pairs,
        random_plies=options.random_plies,
        openings=_openings(context, game),
    )
    return lambda params: match(
        params,
        None,
        _key(context, "games"),
        progress=lambda done, games: context.progress("playing", done, games),
    )


def _openings(context: Context, game: Game) -> list[PositionLine]:
    options = context.options
    return match_openings.make(options.openings, game, options.pairs, options.seed)


def _score(result: MatchResult) -> dict[str, Any]:
    sides = {"as_first": result.first._asdict(), "as_second": result.second._asdict()}
    return parts.score_row(result) | sides


def _matches(context: Context, opponent: str) -> Judge:
    game = context.config.game
    play = _match(context, game, make_agent(opponent, game))
    return lambda point: _score(play(point.params))


def _mistakes(context: Context, opponent: str) -> Judge:
    game, solver = context.config.game, _solver(context)
    trap = "adversary?all_moves=1" if context.options.all_moves else "adversary"
    play = _match(context, game, make_agent(opponent or trap, game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        result = play(point.params)
        played, known = result.played, context.newest().played().states

        moves = ground_truth.judge_moves(
            solver,
            played.record,
            np.where(played.agent_first, 0, 1),
            known,
            skip=played.opening_plies,
            opened=openings_of(context.config),
            starts=played.starts,
        )

        def counts(which: np.ndarray) -> dict[str, Any]:
            found = ground_truth.count_mistakes(moves, which)
            return {name: count.as_dict(int(which.sum())) for name, count in found.items()}

        first = np.asarray(played.agent_first)
        sides = {"of_first_player": counts(first), "of_second_player": counts(~first)}
        return _score(result) | counts(np.full(len(first), True)) | sides

    return judge


def _whole(context: Context, _: str) -> Judge:
    solver = _solver(context)
    moves_of = _moves(context, ground_truth.without_past(solver.game))
    options = {
        "limit": context.options.most_positions,
        "key": _key(context, "positions"),
        "opened": openings_of(context.config),
    }
    return lambda point: _shares(ground_truth.whole_game(solver, moves_of(point), **options))


def _exploitability(context: Context, _: str) -> Judge:
    solver = _solver(context)
    moves_of = _moves(context, ground_truth.without_past(solver.game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        found = ground_truth.exploitability(solver, moves_of(point))
        return {"total": found.total, **found._asdict()}

    return judge


def _double_deals(context: Context, opponent: str) -> Judge:
    game = context.config.game
    play = _match(context, game, make_agent(opponent, game))

    def judge(point: Checkpoint) -> dict[str, Any]:
        result = play(point.params)
        played = result.played
        deals = dots_judges.count_double_deals(
            game, played.record, played.starts, played.opening_plies
        ).by_player
        mine = np.where(result.played.agent_first, deals[:, 0], deals[:, 1])
        return _score(result) | {
            "double_deals": int(mine.sum()),
            "opponents_double_deals": int((deals.sum(1) - mine).sum()),
        }

    return judge


def _boards(context: Context, opponent: str) -> Judge:
    act_on = _cached_act(context)

    def judge(point: Checkpoint) -> dict[str, Any]:
        results = dots_judges.over_board_sizes(
            lambda game: Agent("run", act_on(game), point.params),
            functools.partial(make_agent, opponent),
            context.options.sizes,
            pairs=context.options.pairs,
            key=_key(context, "games"),
            random_plies=context.options.random_plies,
            openings=functools.partial(_openings, context),
            progress=context.progress,
        )
        return {
            f"{size}x{size}": _score(result) | dots_judges.as_row(result) for size, result in results.items()
        }

    return judge


_BOARD = ("board",)
_TRUTH = ("all_moves", *_BOARD)
_SEEN = "seen: in the replay of the newest checkpoint; what the run played before is not known any more"
_SEARCHED = ("simulations", "c", "solve")
_MATCHED = (*_SEARCHED, "pairs", "random_plies", "openings", "seed")
_PLAYED = (*_MATCHED, *_BOARD)
_DOTS = ("dots_and_boxes",)
JUDGES = {
    "suite": JudgeKind(
        "share of winning moves (WMSR) in a suite, by colour",
        _suite,
        (*_SEARCHED, "unopened", "seed"),
        "NAME",
    ),
    "truth": JudgeKind("quick: values and moves in random positions of a solved game", _truth, _BOARD),
    "accuracy": JudgeKind(
        "values and moves in seen, neighbouring and random positions (Karki 2024)",
        _accuracy,
        ("positions", "searched_positions", "policy_simulations", "c", "solve", "seed", *_TRUTH),
        from_newest=True,
        covers=_SEEN,
    ),
    "labels": JudgeKind(
        "how true the outcomes of self-play are",
        _labels,
        _TRUTH,
        needs_replay=True,
        covers="only what is in the replay of the checkpoints that are kept whole, the newest three at most",
    ),
    "mistakes": JudgeKind(
        "mistakes against the adversary, by kind of position (Karki 2024)",
        _mistakes,
        (*_PLAYED, *_TRUTH),
        from_newest=True,
        covers=_SEEN,
    ),
    "mistakes-against": JudgeKind(
        "the same against another opponent",
        _mistakes,
        (*_PLAYED, *_TRUTH),
        _AGENT,
        from_newest=True,
        covers=_SEEN,
    ),
    "whole": JudgeKind(
        "in how many positions of the whole game its value is kept",
        _whole,
        (*_SEARCHED, "most_positions", "seed", *_TRUTH),
    ),
    "exploitability": JudgeKind(
        "what a best response takes, exactly", _exploitability, (*_SEARCHED, "seed", *_BOARD)
    ),
    "match": JudgeKind("games against an opponent", _matches, _PLAYED, _AGENT),
    "double-deals": JudgeKind(
        "double deals in games against an opponent (Peters 2018)", _double_deals, _PLAYED, _AGENT, games=_DOTS
    ),
    "boards": JudgeKind(
        "games on boards of other sizes (Peters 2018)", _boards, (*_MATCHED, "sizes"), _AGENT, games=_DOTS
    ),
}
