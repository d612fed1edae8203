"""Every checkpoint of a run, measured by judges: what `azjax evaluate` does, from Python.

    evaluate("runs/hex6", "suite:hex6?simulations=1000&c=2&solve=1")

Results are kept in the run's folder `judges`; what has been measured is not measured again.
"""

import functools
import math
import os
import pathlib
from typing import NamedTuple

from azjax.common import tables
from azjax.common.progress import StagedProgress
from azjax.common.rows import number_in
from azjax.evaluation import curve, judges
from azjax.learners import supervised
from azjax.training import checkpoint, seen
from azjax.training.config import TrainConfig


class Evaluation(NamedTuple):
    """What a judge found."""

    judge: str  # the text that names it
    rows: list[
        curve.Row
    ]  # one per checkpoint, in order of iterations; what stands in them is the judge's affair
    path: pathlib.Path  # where they are kept, one JSON object a line

    def numbers(self) -> list[str]:
        """The paths of the numbers worth showing, such as `all.share`; for `azjax.evaluation.curve.series`."""
        return curve.numbers_in(self.rows[-1])

    def grid(self, most: int = 6) -> tables.Grid:
        """A row per number and a column per iteration, at most so many of them; in HTML with the curve of all."""
        shown = curve.spread_out(self.rows, most)
        rows, pictures = [], []
        for name in self.numbers():
            cells = [number_in(row, name) for row in shown]
            label = name.removesuffix(".share").replace("_", " ")
            rows.append((label, *(_shown(cell) for cell in cells)))
            pictures.append(tables.sparkline(curve.series(self.rows, name)[1].tolist()))
        columns = (self.judge, *(str(row["iteration"]) for row in shown))
        covers = self.rows[-1].get("covers")
        return tables.Grid(columns, rows, notes=(covers,) if covers else (), pictures=pictures)

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def _shown(number: float) -> str:
    """A number in a cell: counts as they are, others to three digits, nothing for NaN, which was not there."""
    if math.isnan(number):
        return ""
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e15 else f"{number:.3g}"


def evaluate(
    run: str | os.PathLike | checkpoint.Run,
    *texts: str,
    options: judges.JudgeOptions | None = None,
    newest_only: bool = False,
    progress: StagedProgress = lambda what, done, total: None,
) -> dict[str, Evaluation]:
    """Measures every checkpoint of a run.

    Args:
      run: its folder, or the run itself.
      *texts: name the judges, see `azjax.evaluation.judges`.
      options: of judges whose texts leave them open; None for the defaults.
      newest_only: leave out all but the newest checkpoint.
      progress: called now and then.

    Returns:
      What each judge found, by its text.

    Raises:
      ValueError: a text names no judge, or a run has nothing that it could judge.
    """
    run = run if isinstance(run, checkpoint.Run) else open_judged(run)
    options = judges.JudgeOptions() if options is None else options
    newest = max(run.snapshots, default=None)
    if newest is None:
        raise ValueError(f"{run.path} has no checkpoint yet; train it first")
    iterations = {}
    for text in texts:  # all of them before the work with the first
        judges.check_text(text)
        judges.on_board(text, run.config, options)
        iterations[text] = judges.iterations_to_judge(text, run)[-1 if newest_only else 0 :]
        if not iterations[text]:
            raise ValueError(f"{run.path} has kept no checkpoint that {text} could judge")
    readers = functools.cache(functools.partial(judges.checkpoint_reader, run))
    results = {}
    for text in texts:
        board = judges.on_board(text, run.config, options).game
        read = readers(board)
        context = judges.Context(
            run.config, options, functools.partial(read, newest), progress, seen.is_logged(run.path)
        )
        path = run.path / "judges" / f"{judges.file_name(text, options, newest)}.jsonl"
        # Made when the first checkpoint is to be judged; perhaps all have been.
        make = functools.cache(lambda text=text, context=context: judges.make_judge(text, context))
        rows = curve.Curve(path).measure(
            iterations[text],
            lambda iteration, make=make, read=read: make()(read(iteration)),
            lambda done, total, text=text: progress(f"checkpoints, {text}", done, total),
        )
        results[text] = Evaluation(text, rows, path)
    return results


def open_judged(path: str | os.PathLike) -> checkpoint.Run:
    """A run whose agents are judged: of self-play, or a supervised one as if it were one."""
    config = checkpoint.read_config(path, TrainConfig, supervised.SupervisedConfig)
    if isinstance(config, supervised.SupervisedConfig):
        config = supervised.as_trained(config)
    return checkpoint.Run(pathlib.Path(path), config)
