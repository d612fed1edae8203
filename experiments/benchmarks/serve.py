"""How long does whoever sits at the board in the browser wait?

    python -m experiments.benchmarks.serve runs/hex5      # some seconds; keeps its table
    python -m experiments.benchmarks.serve --quick        # a smoke test; keeps nothing

Starts `azjax serve` as people do, and asks it over HTTP: from the command to the first page; the first search, which
compiles; searches of 64 simulations in positions that nobody has asked about before, one after the other; and twenty
such positions in one question.
"""

import dataclasses
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

import jax
import numpy as np
import tyro

from azjax.agents.trained import load_weights
from azjax.envs import Game
from azjax.positions import describe_game
from experiments.benchmarks.timing import report


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    run: tyro.conf.Positional[pathlib.Path | None] = (
        None  # a run's folder; default a network that comes with azjax
    )
    quick: bool = False  # few questions, nothing kept
    simulations: int = 64
    questions: int = 50


def rows(config: Config) -> list[dict[str, float | str]]:
    """Milliseconds until the answers of a server that is started for it."""
    folders = [] if config.run is None else [str(config.run)]
    agent = "az:hex5" if config.run is None else f"az:{config.run.name}"
    game = load_weights(config.run or "hex5")[0].game
    about = describe_game(game)
    begin = time.perf_counter()
    command = [sys.executable, "-m", "azjax.cli", "serve", *folders, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            address = line[line.index("http://") :].split()[0].rstrip("/")
            urllib.request.urlopen(f"{address}/").read()
            waits = {"command to first page": [time.perf_counter() - begin]}

            def seconds(question: dict) -> float:
                asked = time.perf_counter()
                content = json.dumps(about | {"agent": agent, "maxVisits": config.simulations} | question)
                request = urllib.request.Request(
                    f"{address}/api/analyse", content.encode(), {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request).read()
                return time.perf_counter() - asked

            waits["first search, which compiles"] = [seconds({"moves": []})]
            waits["search of one position"] = [
                seconds({"moves": moves}) for moves in lines_of(game, 3, config.questions)
            ]
            first, *others = (
                {"moves": moves, "analyzeTurns": list(range(20))} for moves in lines_of(game, 19, 6)
            )
            waits["the first twenty positions at once, which compile"] = [seconds(first)]
            waits["twenty positions at once"] = [seconds(question) for question in others]
        finally:
            server.terminate()
    return [
        {
            "what": what,
            "median ms": 1000 * statistics.median(found),
            "longest ms": 1000 * max(found),
            "asked": len(found),
        }
        for what, found in waits.items()
    ]


def lines_of(game: Game, plies: int, number: int) -> list[list[str]]:
    """Different random lines of so many moves, after which the game goes on."""
    step, over = jax.jit(game.step), jax.jit(game.is_terminal)
    draw, found = random.Random(0), {}
    while len(found) < number:
        x, moves = game.init(jax.random.key(0)), []
        while len(moves) < plies and not over(x):
            moves.append(draw.choice(np.flatnonzero(game.legal_action_mask(x)).tolist()))
            x = step(x, moves[-1])
        if not over(x):
            found[tuple(moves)] = [game.action_to_text(move) for move in moves]
    return list(found.values())


def main(config: Config) -> None:
    """Measures and prints the table."""
    if config.quick:
        config = dataclasses.replace(config, simulations=4, questions=2)
    report("serve", f"waiting for {config.simulations} simulations", rows(config), not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
