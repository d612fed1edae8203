"""How strong is a Hex run? Opening values, a solved suite, and games that it should never lose.

    azjax train hex5
    python -m experiments.hex_strength runs/hex5      # about two minutes; keeps experiments/results/hex_strength/

Counts the openings whose value has the right sign; the winning moves found in the package's suite of solved
positions, by search and by the raw policy; and games against UCT from every opening, in which the run takes the side
that the solver says wins. Each comes with its number of positions or games.
"""

import dataclasses
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from azjax import checkpoint, solvers
from azjax.agents import make_agent
from azjax.config import config_to_dict
from azjax.evaluation import suites
from azjax.evaluation.arena import Counts, make_match
from azjax.networks import make_evaluator, make_network
from azjax.positions import Position, parse_position

RESULTS = pathlib.Path(__file__).parent / "results" / "hex_strength"


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    run: tyro.conf.Positional[pathlib.Path]  # the folder of a run of Hex 5x5 or 6x6
    simulations: tuple[int, ...] = (64,)  # of the searches that answer the suite
    uct: int = 2000  # of the opponent
    games: int = 200  # against it, shared among the openings
    name: str | None = None  # of the results; default the folder's


def opening_values(game, config, params) -> tuple[np.ndarray, np.ndarray]:
    """[actions] the network's value of each opening and the true one, both for the first player."""
    start = game.init(jax.random.key(0))
    after = jax.vmap(lambda action: game.step(start, action))(jnp.arange(game.num_actions))
    evaluate = jax.jit(make_evaluator(game, make_network(config.network, game)))
    _, value = evaluate(params, jax.random.key(0), after)
    with solvers.make_solver(game) as solver:
        return -np.asarray(value), -solver.value(after)


def won_games(game, agent, opponent, truth: np.ndarray, games: int) -> Counts:
    """Games from every opening in turn, in which the agent takes the side that wins with perfect play."""
    each = -(-games // len(truth))
    counts = Counts(0, 0, 0)
    for wins, side in ((truth > 0, "first"), (truth < 0, "second")):
        openings: list[Position] = [
            parse_position({"game": "hex", "size": game.size, "moves": [int(action)]})
            for action in np.flatnonzero(wins)
        ]
        # Both sides are played, so that one half of the games has the agent on the lost side: those do not count.
        match = make_match(game, agent, opponent, pairs=each * len(openings), openings=openings)
        result = match(None, None, jax.random.key(int(wins.sum())))
        counts = Counts(*(a + b for a, b in zip(counts, getattr(result, side))))
    return counts


def main(config: Config) -> None:
    """Measures a run and keeps what was found, with its configuration and curve."""
    console = Console()
    run_config, params = checkpoint.load_agent(config.run)
    game = run_config.game
    rows = {}
    value, truth = opening_values(game, run_config, params)
    right = int((np.sign(value) == truth).sum())
    rows["openings whose value has the right sign"] = f"{right} of {len(truth)}"
    suite = suites.read_suite(f"hex{game.size}")
    texts = {f"{n} simulations": f"az:{config.run}?sims={n}" for n in config.simulations}
    for how, text in (texts | {"raw policy": f"net:{config.run}"}).items():
        result = suites.run(lambda game, text=text: make_agent(text, game), suite, jax.random.key(0))
        colours = ", ".join(f"{score.correct} of {score.positions}" for score in result.by_player)
        low, high = result.all.interval
        rows[f"winning moves in the suite, {how}"] = (
            f"{result.all.share:.1%} ({low:.1%} to {high:.1%}); by colour {colours}"
        )
    agent = make_agent(f"az:{config.run}?sims={max(config.simulations)}", game)
    counts = won_games(game, agent, make_agent(f"uct:{config.uct}", game), truth, config.games)
    rows[f"games against uct:{config.uct} from won openings"] = f"{counts.wins} of {counts.games} won"
    table = Table("what", "measured", title=str(config.run))
    for row in rows.items():
        table.add_row(*row)
    console.print(table)
    folder = RESULTS / (config.name or config.run.name)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {"measured": rows, "config": config_to_dict(run_config), "opening_values": value.round(3).tolist()}
    (folder / "strength.json").write_text(json.dumps(kept, indent=1) + "\n")
    shutil.copy(config.run / "metrics.jsonl", folder / "metrics.jsonl")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
