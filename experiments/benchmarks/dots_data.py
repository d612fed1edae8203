"""How many samples a core makes for networks to learn Dots and Boxes from, beside the thesis's generator.

    python -m experiments.benchmarks.dots_data

Peters 2018 needed 0.6 ms for a sample of StageFour on 5x4 and 28 ms on 10x10, by the player hard. Here a sample is a
game played to its end by the same rules, the position cut out of it, and its policy and value; one core does it all.
Times are CPU time, the least of several tries, without compiling.
"""

import dataclasses
import json
import time

import tyro

from azjax.agents import dots_data, make_agent
from azjax.envs.dots_and_boxes import DotsAndBoxes

THEIRS = {(4, 5): 600.0, (10, 10): 28_000.0}  # microseconds


@dataclasses.dataclass(frozen=True)
class Config:
    """What is measured."""

    teachers: tuple[str, ...] = ("easy", "medium", "hard")
    kind: dots_data.Kind = "stage-four"
    tries: int = 5


def microseconds(board: DotsAndBoxes, recipe: dots_data.Recipe, tries: int) -> float:
    """Of CPU time for a sample."""
    endless = dots_data.chunks(board, recipe, make_agent)
    next(endless)  # compiles
    times = []
    for _ in range(tries):
        begun = time.process_time()
        found = next(endless)
        times.append((time.process_time() - begun) / found.size)
    return 1e6 * min(times)


def main(config: Config) -> None:
    """Prints a line of JSON for each board and teacher."""
    for shape, theirs in THEIRS.items():
        for teacher in config.teachers:
            ours = microseconds(
                DotsAndBoxes(*shape), dots_data.Recipe(config.kind, teacher=teacher), config.tries
            )
            row = {"board": f"{shape[0]}x{shape[1]}", "teacher": teacher, "microseconds": round(ours, 2)}
            if teacher == "hard" and config.kind == "stage-four":
                row |= {"thesis": theirs, "times as fast": round(theirs / ours, 1)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(tyro.cli(Config))
