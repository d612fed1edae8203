"""What judges find over checkpoints: measured once, and kept in a file.

The file has JSON lines, one per checkpoint, and grows: what has been measured is not measured again.
"""

import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from azjax.common import atomic, files
from azjax.common.checked import shown
from azjax.common.rows import number_in

Row = dict[str, Any]


class Curve:
    """The results of a judge over checkpoints, in a file."""

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)

    def rows(self) -> list[Row]:
        """What has been measured, in order of iterations; a last line cut short by a crash is left out.

        Raises:
          FileError: another line is damaged, or says nothing of an iteration.
        """
        found = {}
        if not self.path.exists():
            return []
        for number, row in files.read_objects(self.path, "file of a judge's results", may_be_cut=True):
            iteration = row.get("iteration")
            if not isinstance(iteration, int) or isinstance(iteration, bool):
                raise files.FileError(
                    f'{self.path}, line {number}: expected the number of an "iteration", got {shown(iteration)}; '
                    "move the file away to measure again"
                )
            found[iteration] = row
        return [found[iteration] for iteration in sorted(found)]

    def measure(
        self,
        iterations: Sequence[int],
        judge: Callable[[int], Mapping[str, Any]],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Row]:
        """Adds the iterations that are missing; returns all rows.

        Args:
          iterations: of the checkpoints to measure.
          judge: (iteration) -> results.
          progress: called with the number of iterations that are done, and of all.
        """
        rows = self.rows()
        done = {row["iteration"] for row in rows}
        missing = [iteration for iteration in iterations if iteration not in done]
        if missing:  # before the work; but a judge that refuses leaves no empty file
            files.writable_folder(self.path.parent)
            if self.path.exists():
                # Whole lines only: what a crash cut short goes away.
                atomic.write_text(self.path, "".join(json.dumps(row) + "\n" for row in rows))
        for number, iteration in enumerate(missing):
            progress(len(iterations) - len(missing) + number, len(iterations))
            row = {"iteration": iteration, **judge(iteration)}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic.append(self.path, json.dumps(row) + "\n")
        return self.rows()


def series(rows: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Iterations and values of one number in the rows that have it; see `azjax.common.rows.number_in`."""
    points = [(row["iteration"], number_in(row, name)) for row in rows]
    points = [point for point in points if not math.isnan(point[1])]
    x, y = zip(*points) if points else ((), ())
    return np.array(x, float), np.array(y, float)


def numbers_in(
    row: Mapping[str, Any], names: Sequence[str] = ("share", "score", "total", "mistakes", "left_out")
) -> list[str]:
    """Paths of the numbers worth showing in a row: shares, scores, counts of mistakes and openings, plain numbers."""
    found = []
    for field, value in row.items():
        if isinstance(value, Mapping):
            found += [f"{field}.{path}" for path in numbers_in(value, names) if path.split(".")[-1] in names]
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and field != "iteration":
            found.append(field)
    return found


def spread_out(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many rows, evenly spaced, the first and the last among them."""
    numbers = np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)
    return [rows[number] for number in numbers]
