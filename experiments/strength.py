"""How strong is a run? What it knows of a solved game, and games that it should win.

    azjax train hex5
    python -m experiments.strength runs/hex5          # some minutes; keeps experiments/results/strength/hex5

Hex: the openings whose value has the right sign; the winning moves found in the package's suite of solved positions,
by search and by the raw policy; games against UCT from every opening, in which the run takes the side that the solver
says wins. Chinese Checkers: in how many positions drawn from the whole game the value is kept and its sign is right
(positions that the run may have opened games with are left out); games against UCT with a distance evaluation and
against the perfect player. Dots and Boxes: the same of such positions; games of the network alone, and averaged over
the board's symmetries, against the rule-based `hard`; Berlekamp's problems. Games of pgx: games against UCT. Every
share comes with its number of positions or games. The run's configuration and curves are kept beside them.
"""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from azjax import checkpoint, solvers
from azjax.agents import make_agent
from azjax.commands import progress
from azjax.config import TrainConfig, config_to_dict
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, PgxGame
from azjax.evaluation import dots_judges, drawn_positions, ground_truth, position_sets, suites
from azjax.evaluation.arena import Counts, make_match
from azjax.networks import Params, make_evaluator, make_network
from azjax.openings import make_openings
from azjax.positions import parse_position

RESULTS = pathlib.Path(__file__).parent / "results" / "strength"
Rows = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    run: tyro.conf.Positional[pathlib.Path]  # the run's folder
    # Of the searches that are asked about positions, the first also plays; default 64 (Chinese Checkers 128).
    simulations: tuple[int, ...] | None = None
    search: tuple[Literal["gumbel", "puct"], ...] = ("gumbel",)  # the first also plays
    uct: int = 2000  # simulations of the opponent
    games: int = 200  # against it
    positions: int = 5000  # drawn from the whole game
    name: str | None = None  # of the results; default the folder's


class Judged:
    """A run, and what all measurements ask of it."""

    def __init__(self, config: Config):
        self.run = config.run
        self.config, self.params = checkpoint.load_agent(config.run)
        self.game = self.config.game
        default = 128 if isinstance(self.game, ChineseCheckers) else 64
        self.searches = {
            f"{count} simulations ({kind})": f"az:{config.run}?sims={count}&search={kind}"
            for kind in config.search
            for count in config.simulations or (default,)
        }

    def agents(self) -> dict[str, str]:
        """What each way to play is called -> the agent's text."""
        return self.searches | {"raw policy": f"net:{self.run}"}

    def player(self) -> str:
        """The agent that plays games."""
        return next(iter(self.searches.values()))


def hex_rows(config: Config, judged: Judged) -> Rows:
    """Openings, suite, and games from won openings."""
    game = judged.game
    values, truth = opening_values(game, judged.config, judged.params)
    right = int((np.sign(values) == truth).sum())
    rows = {"openings whose value has the right sign": f"{right} of {len(truth)}"}
    suite = suites.read_suite(f"hex{game.size}")
    for how, text in judged.agents().items():
        result = suites.run(lambda game, text=text: make_agent(text, game), suite, jax.random.key(0))
        colours = ", ".join(f"{score.correct} of {score.positions}" for score in result.by_player)
        low, high = result.all.interval
        rows[f"winning moves in the suite, {how}"] = (
            f"{result.all.share:.1%} ({low:.1%} to {high:.1%}); by colour {colours}"
        )
    agent, opponent = make_agent(judged.player(), game), make_agent(f"uct:{config.uct}", game)
    counts = won_games(game, agent, opponent, truth, config.games)
    rows[f"games against uct:{config.uct} from won openings"] = f"{counts.wins} of {counts.games} won"
    return rows


def opening_values(game: Hex, config: TrainConfig, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """[actions] the network's value of each opening and the true one, both for the first player."""
    start = game.init(jax.random.key(0))
    after = jax.vmap(lambda action: game.step(start, action))(jnp.arange(game.num_actions))
    evaluate = jax.jit(make_evaluator(game, make_network(config.network, game)))
    _, value = evaluate(params, jax.random.key(0), after)
    with solvers.make_solver(game) as solver:
        return -np.asarray(value), -solver.value(after)


def won_games(game: Hex, agent, opponent, truth: np.ndarray, games: int) -> Counts:
    """Games from every opening in turn, in which the agent takes the side that wins with perfect play."""
    each = -(-games // len(truth))
    counts = Counts(0, 0, 0)
    for wins, side in ((truth > 0, "first"), (truth < 0, "second")):
        openings = [
            parse_position({"game": "hex", "size": game.size, "moves": [int(action)]})
            for action in np.flatnonzero(wins)
        ]
        # Both sides are played, so that one half of the games has the agent on the lost side: those do not count.
        match = make_match(game, agent, opponent, pairs=each * len(openings), openings=openings)
        result = match(None, None, jax.random.key(int(wins.sum())))
        counts = Counts(*(a + b for a, b in zip(counts, getattr(result, side))))
    return counts


def whole_game_rows(config: Config, judged: Judged) -> Rows:
    """How well the run knows positions drawn from all there are, but for those it may have opened games with."""
    rows = {}
    solver = solvers.make_solver(judged.game)
    game = ground_truth.without_past(solver.game)
    states = drawn_positions.random_positions(game, jax.random.key(1), config.positions)
    openings = make_openings(judged.game, judged.config.selfplay.openings).states
    states = position_sets.rows(states, ~position_sets.is_in(states, openings))
    known = ground_truth.label(solver, states)
    decisions = ground_truth.some(known, known.is_decision)
    for how, text in judged.agents().items():
        agent = make_agent(text, game)
        kept = ground_truth.policy_accuracy(
            lambda states, agent=agent: suites.ask(agent, jax.random.key(0), states), decisions
        )
        rows[f"positions where the move matters and keeps the value, {how}"] = shares(kept)
    evaluate = make_evaluator(game, make_network(judged.config.network, game))
    values = ground_truth.values_of(evaluate, judged.params)
    rows["positions whose value has the right sign"] = shares(ground_truth.value_accuracy(values, known))
    rows["the same, where the move matters"] = shares(ground_truth.value_accuracy(values, decisions))
    return rows


def shares(found: dict[str, ground_truth.Share]) -> str:
    """All positions, then those of each player."""
    parts = [f"{share.correct} of {share.total} ({share.share:.1%})" for share in found.values()]
    return "; by player ".join([parts[0], ", ".join(parts[1:])])


def checkers_rows(config: Config, judged: Judged) -> Rows:
    """Positions of the whole game, and games from its start."""
    rows = whole_game_rows(config, judged)
    for name in (f"uct-distance:{config.uct}", "perfect"):
        rows |= games_row(judged, judged.player(), name, config.games // 2)
    return rows


def dots_rows(config: Config, judged: Judged) -> Rows:
    """Positions of the whole game, games of the network alone, and Berlekamp's problems."""
    rows = whole_game_rows(config, judged)
    rows |= games_row(judged, f"net:{judged.run}", "hard", 5000)
    rows |= games_row(judged, f"net:{judged.run}?symmetries=1", "hard", 5000)
    result = dots_judges.berlekamp(
        lambda game: make_agent(f"az:{judged.run}?sims=1000", game), jax.random.key(0)
    )
    boxes = judged.game.rows * judged.game.columns
    games = [position.game for position in suites.read_suite("berlekamp")]
    small = [a.correct for a, game in zip(result.answers, games) if game.rows * game.columns <= boxes]
    rows["Berlekamp's problems with 1,000 simulations"] = (
        f"{result.all.correct} of {result.all.positions};"
        f" {sum(small)} of {len(small)} on boards no larger than the run's"
    )
    return rows


def plain_rows(config: Config, judged: Judged) -> Rows:
    """Games from the start, for games that have no solver here."""
    return games_row(judged, judged.player(), f"uct:{config.uct}", config.games // 2)


def games_row(judged: Judged, agent: str, opponent: str, pairs: int) -> Rows:
    """One match from the start of the game."""
    match = make_match(
        judged.game, make_agent(agent, judged.game), make_agent(opponent, judged.game), pairs=pairs
    )
    with progress.bar() as bar:
        result = match(
            None,
            None,
            jax.random.key(0),
            progress=lambda done, games: bar(f"against {opponent}", done, games),
        )
    sides = [f"{c.wins} won, {c.draws} drawn of {c.games}" for c in (result.first, result.second)]
    how = agent.replace(str(judged.run), "RUN")
    return {
        f"{how} against {opponent}": f"{result.score:.1%} ({result.interval[0]:.1%} to {result.interval[1]:.1%});"
        f" as first {sides[0]}, as second {sides[1]}; {result.distinct_games} different games"
    }


MEASURES: dict[type, Callable[[Config, Judged], Rows]] = {
    Hex: hex_rows,
    ChineseCheckers: checkers_rows,
    DotsAndBoxes: dots_rows,
    PgxGame: plain_rows,
}


def main(config: Config) -> None:
    """Measures a run and keeps what was found, with its configuration and curve."""
    judged = Judged(config)
    rows = MEASURES[type(judged.game)](config, judged)
    table = Table("what", "measured", title=str(config.run))
    for row in rows.items():
        table.add_row(*row)
    Console().print(table)
    folder = RESULTS / (config.name or config.run.name)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {"measured": rows, "config": config_to_dict(judged.config)}
    (folder / "strength.json").write_text(json.dumps(kept, indent=1) + "\n")
    lines = (config.run / "metrics.jsonl").read_text().splitlines(keepends=True)
    few = [line for number, line in enumerate(lines, 1) if number % 10 == 0 or '"evaluation"' in line]
    (folder / "metrics.jsonl").write_text("".join(few))
    shutil.copy(config.run / "curves.png", folder / "curves.png")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
