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
import hashlib
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from azjax.agents import learned as agents
from azjax.agents import make_agent
from azjax.common import atomic
from azjax.common.agent import random_act
from azjax.envs import Hex
from azjax.evaluation.arena import make_match, wilson_interval
from azjax.learners import session
from azjax.learners.core import LearnerConfig
from azjax.learners.es import ESConfig
from azjax.learners.games import match
from azjax.learners.td import TDConfig
from azjax.plots import learners as curves
from azjax.training.config import config_to_dict

RESULTS = pathlib.Path(__file__).parent / "results" / "kromann2019"
KINDS = {"td": TDConfig, "es": ESConfig}
DRAWN = ("sessions", "marathon", "fast")  # the experiments whose curves are kept


@dataclasses.dataclass(frozen=True)
class Config:
    """What to run."""

    full: bool = False  # the thesis's lengths: 50,000 steps a setting, overnight for the marathon
    only: tuple[str, ...] = ()  # names of experiments; default all
    runs: pathlib.Path = pathlib.Path("runs/kromann2019")  # where runs keep what they need to go on
    results: pathlib.Path = RESULTS


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


def config_of(setting: Setting, experiment: str, full: bool) -> LearnerConfig:
    """The run of a setting: 50,000 steps in the thesis, fewer on two cores."""
    options = dict(setting.options)
    fast = options.pop("fast", False)
    if fast:
        points = {"td": 100 if full else 15, "es": 200 if full else 50}[setting.method]
        lengths = {"sessions": 3, "iterations": points, "evaluation_games": 200}
    else:
        lengths = {"every": 100, "iterations": _points(setting.method, experiment, full)}
        lengths |= {"sessions": 5 if full or not options else 3}
        lengths |= {"games": 1}
        lengths |= {"optimiser": "sgd", "learning_rate": 0.1} if setting.method == "td" else {}
    return KINDS[setting.method](**({"game": Hex(5), "save_every": 5} | lengths | options))


def _points(method: str, experiment: str, full: bool) -> int:
    if experiment == "marathon":
        return {"td": 14_201 if full else 100, "es": 4_500 if full else 60}[method]
    return 500 if full else {"td": 30, "es": 15}[method]


def run_setting(config: LearnerConfig, command: Config, progress: Progress, title: str) -> dict[str, Any]:
    """Runs a setting, or goes on with it; the points of all its sessions, and what it cost."""
    # Named by what it is, so that experiments share the settings they have in common.
    name = hashlib.sha256(json.dumps(config_to_dict(config), sort_keys=True).encode()).hexdigest()[:12]
    kept = command.results / "points" / f"{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    task = progress.add_task(title, total=config.iterations)
    started = time.process_time()
    folder = command.runs / name
    resume = (folder / "config.json").exists()
    run = session.train(
        config,
        folder,
        resume=resume,
        watch=lambda row: progress.update(task, completed=row["iteration"]),
        say=lambda line: None,
    )
    rows = run.read_metrics()
    if len(rows) < config.iterations:
        raise KeyboardInterrupt
    columns = [name for name in (*session.OPPONENTS, "sigma", "rate", "loss", "plies") if name in rows[0]]
    finished = {
        "config": config_to_dict(config),
        "minutes": round(rows[-1]["seconds"] / 60, 1),
        "cpu_minutes": round((time.process_time() - started) / 60, 1),
        "games": rows[-1]["games"],
        "example": rows[-1]["example"],
        "points": {name: np.round([row[name] for row in rows], 4).tolist() for name in columns},
    }
    if config.evaluation_games == 200:
        finished["uct"] = against_uct(run, config)
    kept.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(kept, json.dumps(finished) + "\n")
    progress.remove_task(task)
    return finished


def against_uct(run: Any, config: LearnerConfig) -> dict[str, Any]:
    """Games of the run's agent against `uct:200` and `random` in the arena, from openings of one random move."""
    load = {TDConfig: agents.load_td, ESConfig: agents.load_es}[type(config)]
    agent, scores = load(run.path, config.game), {}
    for name in ("uct:200", "random"):
        played = make_match(config.game, agent, make_agent(name, config.game), pairs=100, random_plies=1)
        result = played(None, None, jax.random.key(0))
        scores[name] = {"score": result.score, "interval": result.interval, "games": result.games}
    return scores


def table_rows(setting: Setting, run: dict[str, Any]) -> list[str]:
    """A line of a table: theirs and ours in turn."""
    theirs = setting.theirs
    random, previous = (100 * np.array(run["points"][name]) for name in session.OPPONENTS)
    last = random[-max(1, len(random) // 10) :]
    steps = run["config"]["every"] * len(random)
    return [
        setting.method.upper(),
        setting.label,
        f"{steps:,}",
        _number(theirs.total),
        _spread(random.mean(0)),
        _number(theirs.last),
        _spread(last.mean(0)),
        _number(theirs.previous),
        _spread(previous.mean(0)),
        f"{random.max():.0f}",
    ]


COLUMNS = (
    "method",
    "setting",
    "steps",
    "vs random, thesis",
    "ours",
    "last tenth, thesis",
    "ours",
    "vs previous, thesis",
    "ours",
    "best point",
)


def baseline(games: int = 50_000) -> tuple[float, tuple[float, float]]:
    """Random against random on 5x5, with its interval; exactly 50 % by symmetry, 50.02 % in the thesis's log."""
    game = Hex(5)
    play = jax.jit(lambda key: match(game, random_act(game), random_act(game), None, None, key, games))
    wins = int(np.sum(play(jax.random.key(0))))
    return wins / games, wilson_interval(wins, games)


def show(name: str, rows: Sequence[Sequence[str]], notes: Sequence[str], console: Console) -> str:
    """Prints a table and returns it as Markdown."""
    table = Table(*COLUMNS, title=f"{name} (percent of games won, mean ± spread over sessions)")
    for row in rows:
        table.add_row(*row)
    console.print(table, *notes, sep="\n")
    lines = [f"## {name}", "", " | ".join(("", *COLUMNS, "")).strip(), "|---" * len(COLUMNS) + "|"]
    lines += [" | ".join(("", *row, "")).strip() for row in rows]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes)])


def main(command: Config) -> None:
    """Runs the experiments and prints their tables beside the thesis's."""
    known = {"baseline": None} | experiments()
    unknown = set(command.only) - set(known)
    if unknown:
        raise SystemExit(f"unknown experiment {', '.join(unknown)}; there are {', '.join(known)}")
    command = dataclasses.replace(command, results=command.results / ("full" if command.full else "quick"))
    console = Console(width=170)
    for name in command.only or known:
        with Progress(
            *Progress.get_default_columns()[:-1], TimeRemainingColumn(), console=console
        ) as progress:
            if name == "baseline":
                share, (low, high) = baseline()
                note = f"random against random, 5x5, 50,000 games: {100 * share:.2f} % ({100 * low:.2f} to"
                text = f"## baseline\n\n{note} {100 * high:.2f}); thesis 50.02 %.\n"
                console.print(text)
            else:
                text = _run_experiment(name, known[name], command, progress, console)
        command.results.mkdir(parents=True, exist_ok=True)
        atomic.write_text(command.results / f"{name}.md", text)


def _run_experiment(name: str, settings: list[Setting], command: Config, progress, console: Console) -> str:
    rows, notes = [], []
    for setting in settings:
        config = config_of(setting, name, command.full)
        run = run_setting(config, command, progress, f"{name}: {setting.method} {setting.label}")
        rows.append(table_rows(setting, run))
        method = setting.method.upper()
        if name in DRAWN:
            picture = curves.draw(_as_rows(run), f"{method}, {setting.label}")
            if picture is not None:
                atomic.write_bytes(command.results / f"{name}-{setting.method}.png", picture)
        for opponent, result in run.get("uct", {}).items():
            low, high = (100 * end for end in result["interval"])
            notes.append(
                f"{method}: {100 * result['score']:.1f} % ({low:.1f} to {high:.1f}) against {opponent},"
                f" {result['games']} games; learned in {run['cpu_minutes']:.1f} CPU minutes,"
                f" {run['games']:,} games a session."
            )
    return show(name, rows, notes, console)


def _as_rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The kept points as rows of metrics.jsonl."""
    points, every = run["points"], run["config"]["every"]
    totals = {}
    for name in session.OPPONENTS:
        scores = np.array(points[name])
        totals[f"{name}_total"] = np.cumsum(scores, 0) / np.arange(1, len(scores) + 1)[:, None]
    columns = points | totals
    return [
        {"steps": (number + 1) * every} | {name: columns[name][number] for name in columns}
        for number in range(len(points["random"]))
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _spread(scores: np.ndarray) -> str:
    return f"{scores.mean():.1f}" + (f" ± {scores.std(ddof=1):.1f}" if len(scores) > 1 else "")


if __name__ == "__main__":
    main(tyro.cli(Config))
