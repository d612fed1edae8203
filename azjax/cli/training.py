"""What a person sees of a training: how far it is, how it was judged, and what to do with the agent."""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console

from azjax.cli import progress
from azjax.cli.interrupts import EXIT_CODE
from azjax.evaluation.arena import SCALE
from azjax.training import checkpoint, loop

Row = dict[str, Any]


class Watch(NamedTuple):
    """What a training calls while it goes on."""

    row: Callable[[Row], None]  # after an iteration, with its line of metrics.jsonl
    stage: Callable[[str], None]  # before something that takes a while


@contextlib.contextmanager
def watching(console: Console, iterations: int) -> Iterator[Watch]:
    """Yields what shows a training of so many iterations."""
    with progress.bar(console) as show:
        done, is_first = 0, True
        show("training", done, iterations, note="preparing")

        def stage(what: str) -> None:
            show("training", done, iterations, note=what)
            if not console.is_terminal and not done:
                console.print(what, soft_wrap=True)  # before the first iteration nothing else would be said

        def row(row: Row) -> None:
            nonlocal done, is_first
            done = row["iteration"]
            show("training", done, iterations, note=progress_line(row))
            for line in judgement_lines(row):
                console.print(line)
                if is_first:
                    console.print(
                        f"{SCALE} In brackets stand the 95 % interval, the games, and how many of them differ."
                    )
                is_first = False

        yield Watch(row, stage)


def progress_line(row: Row) -> str:
    """How things stand after an iteration."""
    loss = row["loss"]
    learned = f"loss: policy {loss['policy']:.2f}, value {loss['value']:.2f}"
    boards = f"boards {' '.join(row['boards'])}; " if "boards" in row else ""
    return (
        f"{boards}{row['games']:,} games, {row['positions_per_second']:,.0f} positions/s;"
        f" {learned if loss['total'] else 'filling the replay before learning'};"
        f" first player scores {100 * row['first_player_score']:.0f} %"
    )


def judgement_lines(row: Row) -> Iterator[str]:
    """What the judges found after an iteration; nothing after most."""
    for opponent, result in row.get("evaluation", {}).items():
        low, high = result["interval"]
        yield (
            f"iteration {row['iteration']}: scores {100 * result['score']:.0f} % against {opponent}"
            f" ({100 * low:.0f} to {100 * high:.0f}; {result['games']} games, {result['distinct_games']} different)"
        )
    if "truth" in row:
        shares = [
            f"{name.replace('_', ' ')} {100 * share:.0f} %"
            for name, share in row["truth"].items()
            if share is not None  # there was nothing to judge
        ]
        if shares:
            yield f"iteration {row['iteration']}: right by the solver: {', '.join(shares)}"


def exit_code(run: checkpoint.Run) -> int:
    """0 of a run that is done, 130 if it was interrupted, as shells have it, or 75 if SIGTERM asks to resume it."""
    if run.preempted:
        return loop.RESUME_ME
    return EXIT_CODE if run.interrupted else 0


def say_next(console: Console, commands: Sequence[Sequence[str | os.PathLike]]) -> None:
    """Names what can be done with an agent, as commands that can be typed."""
    console.print("Next:")
    for command in commands:
        # Not broken into lines, which could not be copied.
        console.print("  " + shlex.join(map(os.fspath, ["azjax", *command])), soft_wrap=True)
