"""Can Hex be learned by self-play without search? The experiments of Kromann and Bennetsen 2019, "Learn to Hex".

    python -m experiments.kromann2019_learn_to_hex                    # all of them, scaled for two cores
    python -m experiments.kromann2019_learn_to_hex --only activation  # one of them
    python -m experiments.kromann2019_learn_to_hex --full             # with the lengths of the thesis

They compared TD(0), one game and one update a step, with a CSA evolution strategy, one generation a step: on boards
of 3x3, 5x5 and 7x7, with three activations, three shapes of the network, in five sessions, and overnight. Every 100
steps the agent played 100 games against a random player and 100 against itself of 100 steps before. On 5x5 theirs won
about 72 % (TD) and 67 % (CSA, 81 % at best) of all games against random. Here every setting runs in several sessions
side by side, with the mistakes of the original put right: the second player sees the board transposed and not turned
by a quarter, moves are chosen for the worst of the opponent, the last target is 1, and noise is what it says.

Two experiments are ours: `traps` turns two of the mistakes on again, `fast` uses azjax's own settings (many games an
update; eight games a meeting) and measures the agents against UCT too.

What is finished is not run again; a run that was stopped goes on. Tables and curves are kept in
experiments/results/kromann2019.
"""

import dataclasses
import functools
import time
from typing import Any

import jax
import numpy as np

from azjax.agents import learned as agents
from azjax.agents import make_agent
from azjax.common.agent import random_act
from azjax.envs import Hex
from azjax.evaluation import statistics, suites, truth
from azjax.evaluation.arena import make_match, wilson_interval
from azjax.learners import session
from azjax.learners.core import LearnerConfig
from azjax.learners.es import ESConfig
from azjax.learners.games import match
from azjax.learners.td import TDConfig
from azjax.plots import learners as curves
from azjax.solvers import make_solver
from experiments import study

KINDS = {"td": TDConfig, "es": ESConfig}
LOADERS = {"td": agents.load_td, "es": agents.load_es}
DRAWN = ("sessions", "marathon", "fast")  # the experiments whose curves are kept


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long everything goes on; a point is 100 steps and an evaluation."""

    td_points: int = 30  # of every setting
    es_points: int = 15
    td_overnight: int = 100  # of the marathon
    es_overnight: int = 60
    td_fast: int = 15  # with azjax's settings
    es_fast: int = 50
    sessions: int = 3  # side by side; the plain setting has five
    pairs: int = 100  # of games against UCT, each played with both colours
    baseline_games: int = 50_000
    perfect_positions: int = 20_000  # that the agents are asked about on 4x4; 3x3 has fewer


QUICK = Settings()
FULL = Settings(
    td_points=500,
    es_points=500,
    td_overnight=14_201,
    es_overnight=4_500,
    td_fast=100,
    es_fast=200,
    sessions=5,
)


@dataclasses.dataclass(frozen=True)
class Theirs:
    """What the thesis and its logs report, in percent; None where they do not say."""

    total: float | None = None  # of all games against random
    last: float | None = None  # of the last tenth of them
    previous: float | None = None  # of all games against the previous model


@dataclasses.dataclass(frozen=True)
class Setting:
    """One line of a table: a learner, and what the thesis has for it."""

    method: str
    label: str
    options: dict[str, Any]
    theirs: Theirs = dataclasses.field(default_factory=Theirs)


def experiments() -> dict[str, list[Setting]]:
    """Every experiment with its settings; the numbers are those of the thesis's text and of its public logs."""

    def both(label: str, options: dict[str, Any], td: Theirs, es: Theirs) -> list[Setting]:
        return [Setting("td", label, options, td), Setting("es", label, options, es)]

    return {
        "board-size": [
            *both("3x3", {"game": Hex(3)}, Theirs(55.75, 52.8, 43.29), Theirs(70.10, 71.0, 87.64)),
            *both("5x5", {}, Theirs(70.84, 75.0, 87.74), Theirs(60.05, 60.1, 89.34)),
            *both("7x7", {"game": Hex(7)}, Theirs(73.10, 66.3, 51.62), Theirs(68.84, 66.9, 48.07)),
        ],
        "activation": [
            *both("linear", {"activation": "linear"}, Theirs(61.43, 64.4, 69.69), Theirs(81.07, 82.2, 64.74)),
            *both("tanh", {"activation": "tanh"}, Theirs(60.45, 59.7, 61.35), Theirs(52.16, 52.7, 55.76)),
            *both("rectifier", {}, Theirs(71.78, 72.1, 90.25), Theirs(63.67, 64.0, 75.93)),
        ],
        "shape": [
            *both("20-10", {"hidden": (20, 10)}, Theirs(71.18, 70.2, 88.90), Theirs(62.97, 63.3, 89.08)),
            *both("80-40", {}, Theirs(72.81, 74.6, 84.31), Theirs(75.27, 75.0, 89.35)),
            *both("160-80", {"hidden": (160, 80)}, Theirs(72.03, 75.9, 86.83), Theirs(71.34, 71.2, 97.99)),
        ],
        "sessions": both("five sessions", {}, Theirs(72.06, None, 85.41), Theirs(67, None, None)),
        "marathon": both("overnight", {"sessions": 1}, Theirs(65.21, 70.5, 61.16), Theirs()),
        "traps": [
            Setting("td", "quarter turn", {"view": "rotation"}),
            Setting("es", "quarter turn", {"view": "rotation"}),
            Setting("es", "noise as published", {"strategy": "csa-as-published"}),
        ],
        "fast": both("azjax's settings", {"fast": True}, Theirs(), Theirs()),
    }


def config_of(setting: Setting, experiment: str, settings: Settings) -> LearnerConfig:
    """The run of a setting: 50,000 steps in the thesis, fewer on two cores."""
    options = dict(setting.options)
    if options.pop("fast", False):
        lengths = {
            "sessions": 3,
            "iterations": getattr(settings, f"{setting.method}_fast"),
            "evaluation_games": 200,
        }
    else:
        points = f"{setting.method}_{'overnight' if experiment == 'marathon' else 'points'}"
        lengths = {"every": 100, "iterations": getattr(settings, points), "games": 1}
        lengths |= {"sessions": settings.sessions if options else 5}
        lengths |= {"optimiser": "sgd", "learning_rate": 0.1} if setting.method == "td" else {}
    return KINDS[setting.method](**({"game": Hex(5), "save_every": 5} | lengths | options))


def run_of(work: study.Work[Settings], setting: Setting, experiment: str) -> study.StudyRun:
    """A setting's run; experiments share the settings they have in common."""
    name = f"{setting.method} {setting.label if setting.options else 'plain'}"
    return work.run(name, config_of(setting, experiment, work.settings))


def points_of(work: study.Work[Settings], run: study.StudyRun) -> dict[str, Any]:
    """The points of all its sessions, and what it cost."""

    def collect() -> dict[str, Any]:
        started = time.process_time()
        rows = run.metrics()
        columns = [name for name in (*session.OPPONENTS, "sigma", "rate", "loss", "plies") if name in rows[0]]
        return {
            "minutes": round(rows[-1]["seconds"] / 60, 1),
            "cpu_minutes": round((time.process_time() - started) / 60, 1),
            "games": rows[-1]["games"],
            "example": rows[-1]["example"],
            "points": {name: np.round([row[name] for row in rows], 4).tolist() for name in columns},
        }

    return work.once(run.name, collect, config=run.config)


def against_uct(run: study.StudyRun, method: str, pairs: int) -> dict[str, Any]:
    """Games of the run's agent against `uct:200` and `random` in the arena, from openings of one random move."""
    game, scores = run.config.game, {}
    agent = LOADERS[method](run.path, game)
    for name in ("uct:200", "random"):
        played = make_match(game, agent, make_agent(name, game), pairs=pairs, random_plies=1)
        result = played(None, None, jax.random.key(0))
        scores[name] = {"score": result.score, "interval": result.interval, "games": result.games}
    return scores


def cells(setting: Setting, run: study.StudyRun, found: dict[str, Any]) -> dict[str, Any]:
    """A line of a table, in percent of games won: over all games of training, as the thesis counts, and at the end."""
    theirs = setting.theirs
    random, previous = (100 * np.array(found["points"][name]) for name in session.OPPONENTS)
    last = random[-max(1, len(random) // 10) :]
    return {
        "steps": run.config.every * len(random),
        "sessions": random.shape[1],
        "vs random, all games": study.Beside(theirs.total, statistics.mean(random.mean(0))),
        "best session": float(random.mean(0).max()),
        "last tenth": study.Beside(theirs.last, statistics.mean(last.mean(0))),
        "vs previous, all games": study.Beside(theirs.previous, statistics.mean(previous.mean(0))),
        "best point": float(random.max()),
    }


def baseline(games: int) -> dict[str, Any]:
    """Random against random on 5x5, with its interval; exactly 50 % by symmetry, 50.02 % in the thesis's log."""
    game = Hex(5)
    play = jax.jit(lambda key: match(game, random_act(game), random_act(game), None, None, key, games))
    wins = int(np.sum(play(jax.random.key(0))))
    return {"share": wins / games, "interval": wilson_interval(wins, games)}


def run_baseline(work: study.Work[Settings]) -> None:
    """Random against random: what a table without learning would show."""
    games = work.settings.baseline_games
    found = work.once("baseline", lambda: baseline(games), games=games)
    low, high = (100 * end for end in found["interval"])
    cell = study.Beside(50.02, 100 * found["share"])
    row = {"games": games, "% won": cell, "95 % interval": f"{low:.2f} to {high:.2f}"}
    work.table("baseline", "Random against random, 5x5", {"random": row}, digits=2)


def run_experiment(work: study.Work[Settings], name: str) -> None:
    """Runs the settings of an experiment and compares them with the thesis."""
    rows, drawn = {}, {}
    notes = ["Percent of games won; means over sessions with Student's 95 % intervals."]
    for setting in experiments()[name]:
        run = run_of(work, setting, name)
        found = points_of(work, run)
        method = setting.method.upper()
        rows[f"{method} {setting.label}"] = cells(setting, run, found)
        drawn[f"{method} {setting.label}"] = as_rows(run.config, found)
        if name in DRAWN:
            picture = curves.draw(as_rows(run.config, found), f"{method}, {setting.label}")
            work.figure(f"{name}-{setting.method}", picture)
        if setting.options.get("fast"):
            pairs = work.settings.pairs
            games = work.once(
                f"{run.name} games",
                functools.partial(against_uct, run, setting.method, pairs),
                config=run.config,
                pairs=pairs,
            )
            notes += [_note(method, opponent, found, result) for opponent, result in games.items()]
    work.table(name, name, rows, notes=notes)
    work.figure(name, curves.compare(drawn, title=name))


def run_perfect_play(work: study.Work[Settings]) -> None:
    """In how many positions of 3x3 and 4x4 the agents keep the value of the game, by the solver."""
    rows, limit = {}, work.settings.perfect_positions
    for size in (3, 4):
        for method in KINDS:
            run = run_of(work, Setting(method, f"{size}x{size}", {"game": Hex(size)}), "board-size")
            rows[f"{method.upper()} {size}x{size}"] = work.once(
                f"{run.name} perfect play",
                functools.partial(perfect_play, run, method, limit),
                config=run.config,
                positions=limit,
            )
    title = "Perfect play: positions in which the value of the game is kept, %"
    note = "The session with most wins. Where it matters: some moves do not keep it. Random: a random mover."
    work.table("perfect-play", title, rows, notes=(note,))


def perfect_play(run: study.StudyRun, method: str, limit: int) -> dict[str, Any]:
    """The share of positions, of all or of so many drawn, in which an agent plays an optimal move; by who moves."""
    game = run.config.game
    agent, solver = LOADERS[method](run.path, game), make_solver(game)

    def kept(actions: Any) -> dict[str, Any]:
        return truth.whole_game(solver, actions, limit=limit)

    key = jax.random.key(0)
    ours, random = (
        kept(functools.partial(suites.ask, player, key)) for player in (agent, make_agent("random", game))
    )
    matters = ours["kept_where_it_matters"]
    return {
        "positions": matters["all"].total,
        "every one": ours["every_position"],
        "where it matters": 100 * matters["all"].share,
        "random": 100 * random["kept_where_it_matters"]["all"].share,
        "Black": 100 * matters["first_player"].share,
        "White": 100 * matters["second_player"].share,
        "all": 100 * ours["kept"]["all"].share,
    }


def as_rows(config: LearnerConfig, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The kept points as rows of metrics.jsonl."""
    points, totals = found["points"], {}
    for name in session.OPPONENTS:
        scores = np.array(points[name])
        totals[f"{name}_total"] = np.cumsum(scores, 0) / np.arange(1, len(scores) + 1)[:, None]
    columns = points | totals
    return [
        {"steps": (number + 1) * config.every} | {name: columns[name][number] for name in columns}
        for number in range(len(points["random"]))
    ]


def _note(method: str, opponent: str, found: dict[str, Any], result: dict[str, Any]) -> str:
    low, high = (100 * end for end in result["interval"])
    return (
        f"{method}: {100 * result['score']:.1f} % ({low:.1f} to {high:.1f}) against {opponent},"
        f" {result['games']} games; learned in {found['cpu_minutes']:.1f} CPU minutes,"
        f" {found['games']:,} games per session."
    )


def _stage(name: str, about: str):
    def stage(work: study.Work[Settings]) -> None:
        run_experiment(work, name)

    stage.__doc__ = about
    return stage


STUDY = study.Study(
    "kromann2019",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={"baseline": run_baseline}
    | {
        name: _stage(name, about)
        for name, about in {
            "board-size": "3x3, 5x5 and 7x7.",
            "activation": "Linear, tanh and rectifier.",
            "shape": "Three shapes of the network.",
            "sessions": "Five sessions of the plain setting.",
            "marathon": "One session overnight.",
            "traps": "Two mistakes of the original turned on again.",
            "fast": "azjax's own settings, and games against UCT.",
        }.items()
    }
    | {"perfect-play": run_perfect_play},
    costs=lambda settings: [],
)

if __name__ == "__main__":
    STUDY.main()
