"""One of several processes of a run that hardly computes anything, through the loop that all learners share.

python -m tests.process_cases FOLDER PLACE [SAVE_EVERY [solve] [resume]]     # PLACE as after --distributed

It prints a JSON line for each iteration; with `solve`, the first process judges the first one by solving small games.
"""

import dataclasses
import json
import sys
from typing import Any

from azjax.training import distributed


def main(folder: str, place: str, save_every: str = "1000000000", *options: str) -> None:
    """Trains until it is stopped."""
    distributed.join_processes(place)
    with distributed.stopping_together():
        code = train(folder, int(save_every), "solve" in options, "resume" in options)
    sys.exit(code)


def solved_values() -> list[float]:
    """What small games are worth at their starts, each by its own solver, solved anew."""
    from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex  # not above: it starts JAX's backend
    from azjax.evaluation.truth import solver_for
    from azjax.positions.sets import start_of

    games = Hex(size=2), ChineseCheckers(size=3, pieces=1), DotsAndBoxes(1, 2)
    return [float(solver_for(game).value(start_of(game))[0]) for game in games]


def train(folder: str, save_every: int, solve: bool, resume: bool) -> int:
    """A run without end; returns the exit code."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from azjax import training
    from azjax.cli.training import exit_code
    from azjax.training import loop
    from azjax.training.step import DEVICES
    from tests.loop_cases import SIX, Walk, make_walk

    loop.SHARED_SECONDS = 2.0  # one disk shows at once what is there
    mesh = training.make_mesh()
    divided, same = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((DEVICES,), ()))
    places = Walk(divided, same)

    @jax.jit
    def step(state: Walk) -> tuple[Walk, Any]:
        weights, number = state.weights + 1, state.iteration + 1
        return Walk(weights, number), (number, jnp.max(weights))  # over all processes

    def judge(state: Walk, row: dict[str, Any]) -> dict[str, Any]:
        return {"values": solved_values()} if solve and row["iteration"] == 1 else {}

    def make(config: Any) -> loop.Learning:
        start = jax.jit(lambda: Walk(jnp.zeros(1000), jnp.int32(0)), out_shardings=places)
        return make_walk(config)._replace(
            init=start,
            compile=lambda state: (lambda state, count: step(state), "compiled"),
            judge=judge,
            judge_every=1,
            weights=lambda state: state.iteration,  # the others are not all here
            export=lambda run, iteration, state: None,
        )

    config = dataclasses.replace(SIX, iterations=10**9, save_every=save_every)
    run = loop.train(
        *(make, config, folder),
        resume=resume,
        watch=lambda row: print(json.dumps(row), flush=True),
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    return exit_code(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
