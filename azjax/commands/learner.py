"""What `azjax td` and `azjax es` share: the run's options, the progress bar and the summary."""

import dataclasses
import json
import pathlib
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from azjax.commands import options, progress
from azjax.learners import curves, session
from azjax.learners.core import LearnerConfig


def run_learner(method: str, kind: type[LearnerConfig], about: str, arguments: list[str]) -> None:
    """Learns, watched by a progress bar or as JSON lines, and draws the curves."""

    @dataclasses.dataclass(frozen=True)
    class Command:
        config: Annotated[kind, tyro.conf.arg(name="")]
        out: pathlib.Path | None = None  # the run's folder; default runs/METHOD-GAME
        resume: bool = False  # continue the run in that folder
        json: bool = False  # print one JSON object a line instead of a progress bar

    Command.__doc__ = about
    name, command = options.of_learner(Command, kind, arguments, f"azjax {method}")
    out = command.out or pathlib.Path("runs") / f"{method}-{name}"
    console = Console(stderr=command.json)
    console.print(f"{about} Game {command.config.game}, folder {out}.")
    points = command.config.iterations
    with progress.bar() as bar:
        bar("compiling (a quarter of a minute)", 0, points)

        def watch(row: dict[str, Any]) -> None:
            bar("learning", row["iteration"], points)
            if command.json:
                print(json.dumps(row), flush=True)
            elif row["iteration"] % max(1, points // 10) == 0:
                console.print(progress_line(row))

        run = session.train(command.config, out, resume=command.resume, watch=watch, say=console.print)
    rows = run.read_metrics()
    picture = curves.draw(rows, f"{method}, {command.config.game}") if rows else None
    if picture is not None:
        (out / "curves.png").write_bytes(picture)
    if not command.json and rows:
        console.print(summary(rows))
    console.print(f"The agent is {method}:{out}; the best single point {method}:{out / 'best.npz'}.")


def progress_line(row: dict[str, Any]) -> str:
    """How things stand at a point."""
    scores = ", ".join(f"{_percent(row[opponent])} against {opponent}" for opponent in session.OPPONENTS)
    return f"point {row['iteration']}, {row['games']:,} games a session: wins {scores}"


def summary(rows: list[dict[str, Any]]) -> Table:
    """The thesis's figures of a run: current and cumulative rates, best point; means and spread over sessions."""
    columns = ("against", "last tenth of the points", "all games", "best point")
    table = Table(*columns, title="wins, mean ± spread of sessions")
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
