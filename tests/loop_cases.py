"""A learner that hardly computes anything, for what the loop does around it; also a script, to be killed or refused.

python -m tests.loop_cases FOLDER [--resume] [--hold]     # --hold: an iteration, then a line on stdin, and so on
"""

import dataclasses
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.training import checkpoint, loop
from tests.training_cases import SMALL

SIX = dataclasses.replace(SMALL, iterations=6, save_every=2)


class Walk(NamedTuple):
    """A random walk."""

    weights: jax.Array  # [1000]
    iteration: jax.Array  # [] int32


def make_walk(config: Any, spoil: dict[int, dict[str, Any]] | None = None) -> loop.Learning:
    """The learner; `spoil` replaces parts of the rows of some iterations, or their weights."""
    spoil = spoil or {}

    def iterate(state: Walk, count: int) -> tuple[Walk, Any]:
        number = state.iteration + 1
        key = jax.random.fold_in(jax.random.key(config.seed), number)
        weights = state.weights + jax.random.normal(key, state.weights.shape)
        weights = spoil.get(int(number), {}).get("weights", weights)
        return Walk(jnp.asarray(weights), number), (number, jnp.abs(weights).max())

    def rows(measured: tuple[np.ndarray, np.ndarray], count: int) -> list[dict[str, Any]]:
        number = int(measured[0])
        row = {
            "iteration": number,
            "positions": number,
            "games": number,
            "updates": number,
            "positions_played": 1,
            "first_player_score": 0.5,
            "loss": dict.fromkeys(("total", "policy", "value"), float(measured[1])),
            "skipped_in_a_row": 0,
        }
        return [row | {name: value for name, value in spoil.get(number, {}).items() if name != "weights"}]

    return loop.Learning(
        unit="iteration",
        init=lambda: Walk(jnp.zeros(1000), jnp.int32(0)),
        compile=lambda state: (iterate, "compiled"),
        rows=rows,
        shown=lambda state: state,
        judge=lambda state, row: {},
        weights=lambda state: state.weights,
        export=lambda run, iteration, state: run.save_agent(iteration, {"walk": np.asarray(state.weights)}),
        counted="positions_played",
        rate="positions_per_second",
        remedy="shorter steps",
    )


def walk(
    folder: Any, config: Any = SIX, make: Any = make_walk, **options: Any
) -> tuple[checkpoint.Run, list[str]]:
    """Trains in a folder; the run, and what was said."""
    said: list[str] = []
    return loop.train(make, config, folder, **{"say": said.append} | options), said


def main(arguments: list[str]) -> None:
    """Trains until it is stopped."""

    def watch(row: dict[str, Any]) -> None:
        print("x", flush=True)
        if "--hold" in arguments:
            sys.stdin.readline()

    config = dataclasses.replace(SIX, iterations=10**9)
    run = loop.train(make_walk, config, arguments[0], resume="--resume" in arguments, watch=watch)
    sys.exit(130 if run.interrupted else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
