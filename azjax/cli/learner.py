"""What `azjax td` and `azjax es` share: the run's options, the progress bar and the summary."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table

from azjax.agents import make_agent
from azjax.cli import options, progress, screen, training
from azjax.learners import session
from azjax.learners.core import LearnerConfig
from azjax.plots import learners as curves
from azjax.plots import style

ABOUT = {"td": "Learn a value by temporal differences.", "es": "Evolve a policy by an evolution strategy."}


def run_learner(method: str, kind: type[LearnerConfig], arguments: list[str]) -> int:
    """Learns, watched by a progress bar or as JSON lines, and draws the curves."""

    @dataclasses.dataclass(frozen=True)
    class Command:
        config: Annotated[kind, tyro.conf.arg(name="")]
        out: pathlib.Path | None = None  # the run's folder; default runs/METHOD-GAME
        resume: bool = False  # continue the run in that folder
        json: bool = False  # print one JSON object a line instead of a progress bar

    Command.__doc__ = ABOUT[method]
    Command.EXAMPLES = (
        f"azjax {method} hex --size 3",
        f"azjax {method} dots-and-boxes --rows 2 --columns 2 --json",
    )
    name, command = options.of_learner(Command, kind, arguments, f"azjax {method}")
    out = command.out or pathlib.Path("runs") / f"{method}-{name}"
    learn = functools.partial(
        session.train, command.config, out, resume=command.resume, make_opponent=make_agent
    )
    return watched(learn, method, command.config, out, as_json=command.json)


def watched(learn: Callable, method: str, config: LearnerConfig, out: pathlib.Path, *, as_json: bool) -> int:
    """Runs `learn`, which is `session.train` with all but `watch` and `say`, tells people and draws the curves.

    Returns:
      The exit code; see `azjax.cli.training.exit_code`.
    """
    console = screen.console(stderr=as_json)
    console.print(f"{ABOUT[method]} Game {config.game}, folder {out}.")
    points = config.iterations
    with progress.bar(console) as bar:
        progress.begin(console, bar, "compiling (a quarter of a minute)", points)

        def watch(row: dict[str, Any]) -> None:
            bar("learning", row["iteration"], points)
            if as_json:
                print(json.dumps(row), flush=True)
            elif row["iteration"] % max(1, points // 10) == 0:
                console.print(progress_line(row))

        say = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
        run = learn(watch=watch, say=say)
    if run.interrupted:
        return training.exit_code(run)
    rows = run.read_rows(session.FIELDS)
    if rows and style.has_matplotlib():
        style.save(curves.draw(rows, f"{method}, {config.game}"), out / "curves.png")
    if not as_json and rows:
        console.print(summary(rows))
    console.print(f"The agent is {method}:{out}; the best single point {method}:{out / 'best.npz'}.")
    training.say_next(console, next_commands(out))
    return 0


def next_commands(out: pathlib.Path) -> list[list[str]]:
    """What can be done with a finished run."""
    return [["play", str(out)], ["match", str(out), "random"], ["match", str(out), str(out / "best.npz")]]


def progress_line(row: dict[str, Any]) -> str:
    """How things stand at a point."""
    scores = ", ".join(f"{_percent(row[opponent])} against {opponent}" for opponent in session.OPPONENTS)
    return f"point {row['iteration']}, {row['games']:,} games per session: wins {scores}"


def summary(rows: list[dict[str, Any]]) -> Table:
    """The thesis's figures of a run: current and cumulative rates, best point; means and spread over sessions."""
    columns = ("against", "last tenth of the points", "all games", "best point")
    table = screen.table(*columns, title="wins, mean ± spread of sessions")
    last = rows[-max(1, len(rows) // 10) :]
    for opponent in session.OPPONENTS:
        current = np.mean([row[opponent] for row in last], axis=0)
        best = np.max([row[opponent] for row in rows])
        table.add_row(
            opponent, _percent(current), _percent(rows[-1][f"{opponent}_total"]), f"{100 * best:.0f} %"
        )
    return table


def _percent(scores: Any) -> str:
    scores = 100 * np.asarray(scores)
    spread = f" ± {scores.std(ddof=1):.1f}" if len(scores) > 1 else ""
    return f"{scores.mean():.1f}{spread} %"
