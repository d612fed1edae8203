"""How strong is a run? What it knows of a solved game, and games that it should win.

    azjax train hex5
    python -m experiments.strength runs/hex5          # some minutes; keeps experiments/results/strength/hex5

Hex: the first moves whose value has the right sign; the winning moves found in the package's suite of solved positions,
by search and by the raw policy; games against UCT from every first move, in which the run takes the side that the
solver says wins. Chinese Checkers: in how many positions drawn from the whole game the value is kept and its sign is
right; games against UCT with a distance evaluation and against the perfect player. Dots and Boxes: the same of such
positions; games of the network alone, and averaged over the board's symmetries, against the rule-based `hard`;
Berlekamp's problems. Any other game: games against UCT.

Nobody is asked about a position that the run opened games with: those are left out, and counted. Every share comes with
its number of positions or games, every match with the number of different games. The run's agent, configuration and
curves are kept beside them.
"""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Literal

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from azjax import solvers
from azjax.agents import make_agent
from azjax.cli import progress
from azjax.common import atomic
from azjax.common.keys import root, stream
from azjax.envs import Hex
from azjax.envs.core import GameState
from azjax.evaluation import dots_judges, suites
from azjax.evaluation import truth as ground_truth
from azjax.evaluation.arena import Outcomes, make_match
from azjax.evaluation.opened import leave_out, openings_of
from azjax.nn import Params, make_evaluator, make_network
from azjax.positions import drawn as drawn_positions
from azjax.positions import parse_position
from azjax.positions import sets as position_sets
from azjax.training import checkpoint
from azjax.training.config import TrainConfig, config_to_dict

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
        self.opened = openings_of(self.config)
        default = 128 if self.game.name == "chinese_checkers" else 64
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
    first_moves = position_sets.successors(game, position_sets.start_of(game)).states
    values, truth = first_move_values(game, judged.config, judged.params, first_moves)
    right, asked = np.sign(values) == truth, ~judged.opened.has(game, first_moves)
    rows = {
        "first moves whose value has the right sign": f"{right[asked].sum()} of {asked.sum()}"
        + left_out(~asked)
    }
    if not asked.all():  # they are all there is: without the run's openings hardly any may remain
        rows["the same, the run's openings included"] = f"{right.sum()} of {len(right)}"
    suite = suites.read_suite(f"hex{game.size}")
    kept = suites.without_openings(suite, judged.opened)
    dropped = np.ones(len(suite) - len(kept), bool)
    suite = [suite[number] for number in kept]
    for how, text in judged.agents().items():
        result = suites.run(lambda game, text=text: make_agent(text, game), suite, key_of("suite"))
        colours = ", ".join(f"{score.correct} of {score.positions}" for score in result.by_player if score)
        low, high = result.all.interval
        rows[f"winning moves in the suite, {how}"] = (
            f"{result.all.share:.1%} ({low:.1%} to {high:.1%}); by colour {colours}" + left_out(dropped)
        )
    agent, opponent = make_agent(judged.player(), game), make_agent(f"uct:{config.uct}", game)
    counts, different = won_games(game, agent, opponent, truth, config.games)
    rows[f"games against uct:{config.uct} from won first moves"] = (
        f"{counts.wins} of {counts.games} won; {different} different games"
    )
    return rows


def left_out(which: np.ndarray) -> str:
    """What to say of positions that the run opened games with."""
    return f"; {which.sum()} more left out, as the run's openings" if which.any() else ""


def key_of(purpose: str) -> jax.Array:
    """The key of a measurement, which neither training nor its openings have drawn from."""
    return stream(root(0, "judge"), f"strength, {purpose}")


def first_move_values(
    game: Hex, config: TrainConfig, params: Params, after: GameState
) -> tuple[np.ndarray, np.ndarray]:
    """[actions] the network's value after each first move and the true one, both for the first player."""
    evaluate = make_evaluator(game, make_network(config.network, game))
    with solvers.make_solver(game) as solver:
        return -ground_truth.values_of(evaluate, params)(after), -solver.value(after)


def won_games(game: Hex, agent, opponent, truth: np.ndarray, games: int) -> tuple[Outcomes, int]:
    """Games from every first move in turn, in which the agent takes the side that wins with perfect play.

    Returns:
      The games, and how many of them differ.
    """
    each = -(-games // len(truth))
    counts, different = Outcomes(0, 0, 0), 0
    for wins, side in ((truth > 0, "first"), (truth < 0, "second")):
        openings = [
            parse_position({"game": "hex", "size": game.size, "moves": [int(action)]})
            for action in np.flatnonzero(wins)
        ]
        # Both sides are played, so that one half of the games has the agent on the lost side: those do not count.
        match = make_match(game, agent, opponent, pairs=each * len(openings), openings=openings)
        result = match(None, None, key_of(f"games as {side}"))
        counts = Outcomes(*(a + b for a, b in zip(counts, getattr(result, side))))
        mine = result.played.agent_first == (side == "first")
        different += len(np.unique(result.played.record[mine], axis=0))
    return counts, different


def whole_game_rows(config: Config, judged: Judged) -> Rows:
    """How well the run knows positions drawn from all there are, but for those it opened games with."""
    rows = {}
    solver = solvers.make_solver(judged.game)
    game = ground_truth.without_past(solver.game)
    states = drawn_positions.random_positions(game, key_of("positions"), config.positions)
    states, dropped = leave_out(game, states, judged.opened)
    rows["positions drawn and not asked, for the run opened games with them"] = str(dropped)
    known = ground_truth.label(solver, states)
    decisions = ground_truth.some(known, known.is_decision)
    for how, text in judged.agents().items():
        agent = make_agent(text, game)
        kept = ground_truth.policy_accuracy(
            lambda states, agent=agent: suites.ask(agent, key_of("moves"), states), decisions
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
        lambda game: make_agent(f"az:{judged.run}?sims=1000", game), key_of("Berlekamp")
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
            key_of(f"{agent} against {opponent}".replace(str(judged.run), "RUN")),
            progress=lambda done, games: bar(f"against {opponent}", done, games),
        )
    sides = [f"{c.wins} won, {c.draws} drawn of {c.games}" for c in (result.first, result.second)]
    how = agent.replace(str(judged.run), "RUN")
    return {
        f"{how} against {opponent}": f"{result.score:.1%} ({result.interval[0]:.1%} to {result.interval[1]:.1%});"
        f" as first {sides[0]}, as second {sides[1]}; {result.distinct_games} different games"
    }


# By the name of the game; of any other only games against UCT.
MEASURES: dict[str, Callable[[Config, Judged], Rows]] = {
    "hex": hex_rows,
    "chinese_checkers": checkers_rows,
    "dots_and_boxes": dots_rows,
}


def main(config: Config) -> None:
    """Measures a run and keeps what was found, with its configuration and curve."""
    judged = Judged(config)
    rows = MEASURES.get(judged.game.name, plain_rows)(config, judged)
    table = Table("what", "measured", title=str(config.run))
    for row in rows.items():
        table.add_row(*row)
    Console().print(table)
    folder = RESULTS / (config.name or config.run.name)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {"measured": rows, "config": config_to_dict(judged.config)}
    atomic.write_text(folder / "strength.json", json.dumps(kept, indent=1) + "\n")
    lines = (config.run / "metrics.jsonl").read_text().splitlines(keepends=True)
    few = [line for number, line in enumerate(lines, 1) if number % 10 == 0 or '"evaluation"' in line]
    atomic.write_text(folder / "metrics.jsonl", "".join(few))
    shutil.copy(config.run / "curves.png", folder / "curves.png")
    shutil.copy(config.run / "agent.npz", folder / "agent.npz")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
