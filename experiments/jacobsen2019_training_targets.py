"""Which targets teach a small AlphaZero Hex? Jacobsen 2019, "Generality of Deep Reinforcement Learning ...".

    python -m experiments.jacobsen2019_training_targets                      # every stage, scaled for two cores
    python -m experiments.jacobsen2019_training_targets --only thesis small  # some of them
    python -m experiments.jacobsen2019_training_targets --full --plan        # what the thesis's own settings cost
    python -m experiments.jacobsen2019_training_targets --full

He trained four kinds of agents, with 6,000 games and 1,200 updates each: A (7x7) and E (9x9) are scaled down AlphaZero,
which asks the network even about finished games; B and F take their true results; C and G learn the search's mean
value instead of the result; D and H have pre-activated blocks, too. Against UCT with 2,000 simulations (7x7, 20 games a
point) and 10,000 (9x9, 10 games) A and E hardly learned, and each step helped, pre-activation on 9x9 alone: H1 won 10
of 10 after 1,200 updates. In a tournament rated by Bayesian Elo the program Hexy beat all of them, and drew 1:1 with H2
after 2,400 updates.

Here the number of games and updates, the simulations, the search and all targets are his. With the quick settings the
networks are small ones that two cores hold, the same for every category of a board, and all computes in single
precision; Hexy cannot be had, and `hexy` is a player after its description. So win rates are comparable among ours.

Stages go on where they were stopped. Runs lie below --out; tables, figures, games and whatever later stages need in
experiments/results/jacobsen2019/quick or full: when the runs are gone, no finished run or stage is done again. So every
run is judged as soon as it is trained, and its last weights are kept in half precision; of those that the tournament
needs, the weights after every 200 updates. There are tables of all that is finished after every run.

With the quick settings a run takes about 10 minutes of two cores on 7x7 and up to 32 on 9x9, its games with UCT
included, and all stages four hours: estimates from first iterations. `again` brings the second seeds of 7x7.
"""

import dataclasses
import functools
import math
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import make_agent, theses
from azjax.agents.trained import load_weights
from azjax.common import atomic
from azjax.common.agent import Agent
from azjax.common.keys import root, stream
from azjax.envs import Hex
from azjax.evaluation import parts, pgn, records, tournament
from azjax.evaluation.arena import make_match, make_mover, wilson_interval
from azjax.evaluation.ratings import Ratings, Score, bayesian_elo
from azjax.nn import half_copy, make_evaluator, make_network
from azjax.plots import style
from azjax.positions.drawn import random_play_positions
from azjax.theses import jacobsen2019
from azjax.training.config import TrainConfig
from experiments import study

APPENDIX_D = pathlib.Path(__file__).parents[1] / "tests" / "data" / "jacobsen2019_appendix_d.txt"
HEXY, MCTS = "Hexy (expert)", "baseline MCTS (10000)"  # in the thesis's tournament
# The two games of the best agent, which appendix D leaves out: each side won as the first player.
TWO_MORE = (Score("H2 2400", HEXY, 1), Score(HEXY, "H2 2400", 1))

# Tables 5.1 and 5.2: hours that the thesis's runs took, on one RTX 2060, for 6,000 games.
HOURS = {
    **{"A1": 9 + 20 / 60, "A2": 8 + 19 / 60, "B1": 7 + 49 / 60, "B2": 6 + 45 / 60, "C1": 6 + 21 / 60},
    **{"C2": 6 + 16 / 60, "D1": 8 + 3 / 60, "D2": 6 + 29 / 60, "D3": 12 + 12 / 60, "E1": 21 + 38 / 60},
    **{
        "F1": 19 + 56 / 60,
        "G1": 15 + 58 / 60,
        "H1": 14 + 41 / 60,
        "H2": 25 + 17 / 60,
        "H2-2400": 46 + 10 / 60,
    },
}
# Figure 5.4 at 1,200 updates, and where half the games were won first, from appendix D, which has every 200 updates; of
# E1 the text says that it won one game in all. The other curves are lost.
FINAL = {"H1": 100.0, "H2": 80.0}
HALF = {"H1": 800, "H2": 1200}
IN_ALL = {"E1": 100 / 250}
STEPS = {"A": "utility", "B": "mean value", "C": "pre-activation"} | {
    "E": "utility",
    "F": "mean value",
    "G": "pre-activation",
}  # what the next category has besides
SAID = {
    7: "The thesis says: C and D beat the baseline reliably from about 500 updates on, B before A, A2 never; the loss"
    " ends below 2.5 with B1 and B2, above with A2.",
    9: "The thesis says: E1 lost all games but one, F1 rose at the very end, H1 was above G1; the loss of H fell deeper"
    " and earlier than that of G.",
}


@dataclasses.dataclass(frozen=True)
class Board:
    """What is done on one board."""

    size: int
    names: tuple[str, ...]  # of the thesis's experiments
    baseline: int  # simulations of the UCT player
    pairs: int  # of games with it, for a point of the curves
    seeds: tuple[int, ...] = (0,)
    repeated: tuple[str, ...] = ()  # experiments that are trained with more seeds:
    more_seeds: tuple[int, ...] = (1,)
    updates: int = 0  # 0: as the thesis
    save_every: int = 5  # trainings of 10 updates
    simulations: int = 200
    blocks: int = 0  # 0: the thesis's tower
    channels: int = 256
    batch_size: int = 512


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much of everything."""

    small: Board
    large: Board
    precision: str = "single"  # of all runs but those of the precision study; "" for the thesis's own
    compared: str = "D2"  # the experiment that is trained in each precision
    compared_positions: int = 2000
    compared_pairs: int = 50
    rated_every: int = 200  # updates between two players of the tournament
    hexy: str = "hexy"
    stronger: int = 100_000  # simulations of a stronger UCT player, for the best agent
    target_pairs: int = 5


QUICK = Settings(
    small=Board(
        7, ("A2", "B2", "C2", "D2"), 2000, 10, repeated=("A2", "B2", "C2", "D2"), blocks=2, channels=16
    ),
    large=Board(9, ("E1", "F1", "G1", "H1"), 10_000, 5, blocks=2, channels=16),
)
FULL = Settings(
    small=Board(7, ("A1", "A2", "B1", "B2", "C1", "C2", "D1", "D2", "D3"), 2000, 10),
    large=Board(9, ("E1", "F1", "G1", "H1", "H2", "H2-2400"), 10_000, 5),
    precision="",
)
PRECISIONS = ("single", "mixed", "half")
PRECISION_NOTES = (
    "The thesis: H1 in mixed precision was 1.7 times as fast as H2 in single, and no weaker; half became NaN on 9x9.",
    "Games with the run in single precision begin with two random moves, each opening with both colours.",
)


class Experiment(NamedTuple):
    """What was found of one of the thesis's experiments with a seed."""

    points: list[dict[str, Any]]  # of the win rate, one per save
    rows: list[dict[str, Any]]  # of the training: what is drawn of its metrics


def config_of(settings: Settings, board: Board, name: str, seed: int = 0, precision: str = "") -> TrainConfig:
    """One of the thesis's experiments, with what the settings change of it."""
    config = theses.preset(f"jacobsen2019/{name}", Hex(size=board.size))
    precision = precision or settings.precision
    network, optimiser, dtype = config.network, config.optimiser, config.selfplay_dtype
    if precision:
        compute, dtype, scale = jacobsen2019.PRECISIONS[precision]
        network = dataclasses.replace(network, compute_dtype=compute)
        optimiser = dataclasses.replace(optimiser, loss_scale=scale)
    if board.blocks:
        network = dataclasses.replace(network, blocks=board.blocks, channels=board.channels)
    return dataclasses.replace(
        config,
        network=network,
        optimiser=optimiser,
        selfplay_dtype=dtype,
        search=dataclasses.replace(config.search, simulations=board.simulations),
        replay=dataclasses.replace(config.replay, batch_size=board.batch_size),
        iterations=board.updates // jacobsen2019.UPDATES if board.updates else config.iterations,
        save_every=board.save_every,
        seed=seed,
    )


def thesis(work: study.Work[Settings]) -> None:
    """The thesis's own tournament, rated again from its printed results: tables C.1 and C.2, figure 5.5."""
    games = pgn.scores(pgn.read(APPENDIX_D.read_text(encoding="utf-8")))
    for name, title, scores in (
        ("thesis-c1", "Table C.1: 352 games", games),
        ("thesis-c2", "Table C.2: two games more", [*games, *TWO_MORE]),
    ):
        work.table(name, title, rating_rows(bayesian_elo(scores)), digits=0)
    rated = bayesian_elo([*games, *TWO_MORE])
    work.figure("thesis-elo", elo_figure(rated, static=(HEXY, MCTS)))


def small(work: study.Work[Settings]) -> None:
    """Trains the categories on the small board: win rates, losses, running times, and what each step brings."""
    board = work.settings.small
    categories(work, board, [(name, seed) for seed in board.seeds for name in board.names])


def large(work: study.Work[Settings]) -> None:
    """The same on the large board."""
    board = work.settings.large
    categories(work, board, [(name, seed) for seed in board.seeds for name in board.names])


def again(work: study.Work[Settings]) -> None:
    """Trains some categories with more seeds, and makes the tables of their board anew."""
    for board in (work.settings.small, work.settings.large):
        wanted = [(name, seed) for seed in board.more_seeds for name in board.repeated]
        if wanted:
            categories(work, board, wanted)


def categories(work: study.Work[Settings], board: Board, wanted: Sequence[tuple[str, int]]) -> None:
    """Trains and judges one experiment after the other, and after each shows all that there are on the board.

    Args:
      work: the study.
      board: which.
      wanted: names and seeds.
    """

    def kept() -> dict[tuple[str, int], study.StudyRun]:
        runs = {(name, seed): run_of(work, board, name, seed) for name, seed in experiments_of(board)}
        return {place: run for place, run in runs.items() if is_finished(work, board, run)}

    for name, seed in wanted:
        if (name, seed) not in kept():
            trained(work, board, name, seed)
            show(work, board, kept())
    show(work, board, kept())


def run_of(
    work: study.Work[Settings], board: Board, name: str, seed: int, precision: str = ""
) -> study.StudyRun:
    """The run of an experiment; a precision that it has anyway makes no other run of it."""
    config = config_of(work.settings, board, name, seed, precision)
    plain = config == config_of(work.settings, board, name, seed)
    return work.run(f"{board.size}x{board.size}-{name}-{seed if plain else precision}", config)


def trained(work: study.Work[Settings], board: Board, name: str, seed: int) -> study.StudyRun:
    """The run of an experiment, trained and judged, with the weights kept that the tournament needs."""
    run = run_of(work, board, name, seed)
    if not is_finished(work, board, run):
        finish(work, board, run, rated_steps(work.settings, board, name, seed))
    return run


def finish(work: study.Work[Settings], board: Board, run: study.StudyRun, steps: Sequence[int] = ()) -> None:
    """Trains a run, keeps what later stages need of it, and plays the baseline at every save, the start included.

    The games come last: whoever finds them kept knows that all else is.

    Args:
      work: the study.
      board: of the run.
      run: the run.
      steps: trainings after which it is a player of the tournament.
    """
    work.cost_of(run)
    losses(work, run)
    run.keep(*steps, run.config.iterations)
    if run.name == single_run(work).name:
        answers(work)
    win_rates(work, board, run)


def is_finished(work: study.Work[Settings], board: Board, run: study.StudyRun) -> bool:
    """Whether a run needs to be neither trained nor judged."""
    return work.has(f"{run.name} {judge_of(board)}")


def show(work: study.Work[Settings], board: Board, runs: Mapping[tuple[str, int], study.StudyRun]) -> None:
    """Figures 5.1 to 5.4, the running times of tables 5.1 and 5.2, and the order of the categories.

    Args:
      work: the study.
      board: which.
      runs: those that are finished, by name and seed.
    """
    found = {place: Experiment(win_rates(work, board, run), losses(work, run)) for place, run in runs.items()}
    names = [name for name in board.names if any(place[0] == name for place in found)]
    mine = {name: [one for place, one in found.items() if place[0] == name] for name in names}
    rows = {}
    for name in names:
        costs = [work.cost_of(run) for place, run in runs.items() if place[0] == name]
        minutes = [cost["minutes"] for cost in costs]
        ends, points = ends_of(mine[name]), points_of(mine[name])
        halves = [first_half(one.points) for one in mine[name]]
        rows[name] = {
            "runs": len(costs),
            "games": costs[0]["games"],
            "updates": costs[0]["updates"],
            "won at the end %": beside(FINAL.get(name), 100 * share_of(ends)),
            "95 %": percents(wilson_interval(*wins_of(ends))),
            "won in all %": beside(IN_ALL.get(name), 100 * share_of(points)),
            "different games": f"{sum(point['different'] for point in points)} of {wins_of(points)[1]}",
            "half won after": beside(HALF.get(name), ", ".join(str(half or "never") for half in halves)),
            "loss": sum(one.rows[-1]["value"] for one in mine[name]) / len(mine[name]),
            "minutes": beside(60 * HOURS[name], sum(minutes) / len(minutes)),
            "games/hour": beside(
                5 * updates_of(name) / HOURS[name],
                60 * sum(cost["games"] for cost in costs) / max(sum(minutes), 1e-9),
            ),
        }
    size = f"{board.size}x{board.size}"
    network = config_of(work.settings, board, board.names[0]).network
    notes = (
        "The thesis: towers of 13 or 19 blocks with 256 channels on one RTX 2060, half or mixed precision, except H2."
        f" Ours: {network.blocks} blocks with {network.channels} channels, the machine of manifest.json.",
        *((SAID[board.size],) if board.size in SAID else ()),
    )
    work.table(f"categories-{size}", f"Hex {size} against uct:{board.baseline}", rows, notes=notes)
    steps = {}
    for one, other, what in steps_of(names):
        steps[f"{one} to {other}: {what}"] = gains(
            "all", points_of(mine[one]), points_of(mine[other])
        ) | gains("at the end", ends_of(mine[one]), ends_of(mine[other]))
    note = "Newcombe's intervals, as if all games were independent: those of one run share its seed."
    if steps:
        title = f"What each step brings on {size}, points of the win rate"
        work.table(f"steps-{size}", title, steps, notes=(note,))
    curves = {f"{name}" if seed == 0 else f"{name}, seed {seed}": one for (name, seed), one in found.items()}
    work.figure(f"win-rate-{size}", curve_figure(curves, "points", "won against the baseline %"))
    work.figure(f"loss-{size}", curve_figure(curves, "rows", "combined loss"))


def gains(which: str, less: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What some points of the curves have won over others, with its interval, as cells of a table."""
    gain, interval = difference(wins_of(less), wins_of(more))
    return {which: 100 * gain, f"{which}, 95 %": percents(interval)}


def beside(theirs: float | None, ours: Any) -> Any:
    """A cell with the thesis's number, where it is known."""
    return ours if theirs is None else study.Beside(theirs, ours)


def judge_of(board: Board) -> str:
    """The games with the baseline at a save: half with each colour, from the empty board."""
    return f"match:uct:{board.baseline}??pairs={board.pairs}&random_plies=0&simulations={board.simulations}"


def win_rates(work: study.Work[Settings], board: Board, run: study.StudyRun) -> list[dict[str, Any]]:
    """Wins against the baseline at each save."""
    return [
        {
            "updates": jacobsen2019.UPDATES * row["iteration"],
            "wins": row["as_first"]["wins"] + row["as_second"]["wins"],
            "games": row["games"],
            "different": row["distinct_games"],
            "value": 100 * row["score"],
        }
        for row in work.sweep(run, judge_of(board))
    ]


def losses(work: study.Work[Settings], run: study.StudyRun) -> list[dict[str, float]]:
    """The combined loss over the updates, one row per training."""

    def read() -> list[dict[str, float]]:
        rows = run.metrics()
        return [{"updates": row["updates"], "value": row["loss"]["total"]} for row in rows]

    return work.once(f"{run.name} losses", read, config=run.config)


def precision(work: study.Work[Settings]) -> None:
    """Half, mixed and single precision: loss, speed, win rate; what the half copy of a network answers differently."""
    settings, board, rows = work.settings, work.settings.small, {}
    for kind in PRECISIONS:
        run = run_of(work, board, settings.compared, 0, kind)
        finish(work, board, run)
        points, cost = win_rates(work, board, run), work.cost_of(run)
        rows[kind] = {
            "loss": losses(work, run)[-1]["value"],
            "won at the end %": points[-1]["value"],
            "won in all %": 100 * share_of(points),
            "games/hour": 60 * cost["games"] / max(cost["minutes"], 1e-9),
        }
        if kind != "single":
            played = work.once(
                f"precision {kind} against single",
                functools.partial(head_to_head, run, single_run(work), settings),
                config=run.config,
                pairs=settings.compared_pairs,
            )
            rows[kind]["against single %"] = 100 * played["score"]
            rows[kind]["95 %"] = percents(played["interval"])
            rows[kind]["different games"] = f"{played['distinct_games']} of {played['games']}"
        work.table(
            "precision", f"{settings.compared} in three precisions", rows, digits=2, notes=PRECISION_NOTES
        )
    work.table(
        "precision-answers",
        "The same network in single precision and as its copy in half",
        answers(work),
        digits=5,
    )


def single_run(work: study.Work[Settings]) -> study.StudyRun:
    """The run in single precision that the others are compared with."""
    return run_of(work, work.settings.small, work.settings.compared, 0, "single")


def answers(work: study.Work[Settings]) -> dict[str, dict[str, float]]:
    """What copies of the network of `single_run` answer differently; asked as soon as it is trained.

    What is kept of the run is in half precision, and would hardly differ from its copy.
    """
    run, number = single_run(work), work.settings.compared_positions
    return work.once(
        "precision answers",
        lambda: answer_differences(run, number),
        config=run.config,
        positions=number,
    )


def head_to_head(one: study.StudyRun, other: study.StudyRun, settings: Settings) -> dict[str, Any]:
    """Games between two runs from openings of two random moves."""
    game = one.config.game
    agents = [
        make_agent(f"az:{run.agent()}?sims={run.config.search.simulations}", game) for run in (one, other)
    ]
    match = make_match(game, *agents, pairs=settings.compared_pairs, random_plies=2)
    return parts.score_row(match(None, None, stream(root(0, "judging"), "precision")))


def answer_differences(run: study.StudyRun, number: int) -> dict[str, dict[str, float]]:
    """How a trained network in float32 and its copies differ on positions of random play."""
    config, params = load_weights(run.path)
    game = config.game
    states = random_play_positions(game, stream(root(0, "judging"), "precision"), number)

    def answers(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        network = make_network(dataclasses.replace(config.network, compute_dtype=dtype), game)
        weights = params if dtype == "float32" else half_copy(params, dtype)
        logits, value = jax.jit(make_evaluator(game, network))(weights, jax.random.key(0), states)
        legal = np.asarray(jax.vmap(game.legal_action_mask)(states))
        logits = np.where(legal, np.asarray(logits, np.float32), -np.inf)
        return logits, np.asarray(jax.nn.softmax(logits)), np.asarray(value, np.float32)

    logits, policy, value = answers("float32")
    rows = {}
    for dtype in ("float16", "bfloat16"):
        other_logits, other_policy, other_value = answers(dtype)
        rows[dtype] = {
            "value, mean difference": float(np.abs(value - other_value).mean()),
            "value, largest": float(np.abs(value - other_value).max()),
            "policy, mean total variation": float(np.abs(policy - other_policy).sum(-1).mean() / 2),
            "same best move %": 100 * float((logits.argmax(-1) == other_logits.argmax(-1)).mean()),
        }
    return rows


def rated(work: study.Work[Settings]) -> None:
    """The tournament of the large board: agents after every 200 updates, the baseline, the Hexy-like player.

    The agents of one run after the other enter it, and there are tables after each.
    """
    settings, board = work.settings, work.settings.large
    game, baseline = Hex(size=board.size), f"uct:{board.baseline}"
    players = {name: make_agent(name, game) for name in (baseline, settings.hexy)}
    runs = {name: trained(work, board, name, board.seeds[0]) for name in board.names}
    work.results.mkdir(parents=True, exist_ok=True)
    games = work.results / "tournament-games.txt"
    told = {
        "simulations": board.simulations,
        "pairs": board.pairs,
        "runs": [description(run) for run in runs.values()],
    }
    results = tournament.Results(work.results / "tournament.jsonl", game, told)

    def keep(player: str, opponent: str, result: Any) -> None:
        records.write_records(games, records.of_match(game, player, opponent, result), append=True)

    # Everybody meets everybody with both colours; ten games of each agent with the baseline.
    # Whoever has learned for longer meets the Hexy-like player alone.
    numbers = [f"{baseline}={board.pairs}", f"{baseline} vs {settings.hexy}=1"]
    for name, run in runs.items():
        players |= players_of(work, board, name, run)
        if "-" in name:
            late = label_of(name, run.config)
            numbers += [f"{late}=0", f"{late} vs {settings.hexy}=1"]
        meetings = tournament.read_meetings(1, numbers, list(players))
        tournament.play(results, game, players, pairs=meetings, seed=0, progress=work.progress, finished=keep)
        ratings = show_ratings(work, board, results)
    best = [rating.name for rating in ratings if rating.name not in (settings.hexy, baseline)][:3]
    draw_games(work, records.read_records(games), [*best, baseline], settings.hexy)


def show_ratings(work: study.Work[Settings], board: Board, results: tournament.Results) -> Ratings:
    """The tables of appendix C, figure 5.5 and appendix D, of what has been played."""
    baseline, hexy = f"uct:{board.baseline}", work.settings.hexy
    ratings = bayesian_elo(results.scores())
    played, different = (
        sum(match.first.games + match.second.games for match in results.matches),
        sum(match.distinct_games for match in results.matches),
    )
    notes = (
        f"{played} games; repetitions within a match left out, {different}.",
        "Runs of one seed with blocks of one kind begin with the same weights: their players after 0 updates are the"
        " same but for how they see finished games.",
    )
    title = f"Bayesian Elo on {board.size}x{board.size}"
    work.table("tournament", title, rating_rows(ratings), digits=0, notes=notes)
    atomic.write_text(work.results / "tournament.pgn", tournament.to_pgn(results))
    work.figure("elo", elo_figure(ratings, static=(hexy, baseline)))
    return ratings


def description(run: study.StudyRun) -> str:
    """What tells players of runs of one name apart."""
    config = run.config
    size, updates = (
        f"{config.network.blocks}x{config.network.channels}",
        config.iterations * jacobsen2019.UPDATES,
    )
    return f"{run.name}, {size}, {updates} updates of {config.replay.batch_size}, plays in {config.selfplay_dtype}"


def players_of(work: study.Work[Settings], board: Board, name: str, run: study.StudyRun) -> dict[str, Agent]:
    """The agents of a run after every so many updates, which share one compiled search."""
    agent = make_agent(f"az:{run.agent()}?sims={board.simulations}", run.config.game)
    labels = {
        step: label_of(name, run.config, step)
        for step in rated_steps(work.settings, board, name, board.seeds[0])
    }
    return {
        label: agent._replace(name=label, params=load_weights(run.agent(step))[1])
        for step, label in labels.items()
    }


def rated_steps(settings: Settings, board: Board, name: str, seed: int) -> list[int]:
    """The trainings after which a run is a player of the tournament; none of the small board, nor of more seeds."""
    if board != settings.large or seed != board.seeds[0]:
        return []
    iterations = config_of(settings, board, name).iterations
    # H2-2400 is H2 gone on with: of that, the end alone.
    return (
        [iterations]
        if "-" in name
        else [*range(0, iterations + 1, settings.rated_every // jacobsen2019.UPDATES)]
    )


def label_of(name: str, config: TrainConfig, step: int | None = None) -> str:
    """What a player is called: the run, and its updates after a training, the last by default."""
    return f"{name.split('-')[0]} {jacobsen2019.UPDATES * (config.iterations if step is None else step)}"


def draw_games(
    work: study.Work[Settings], games: Sequence[records.GameRecord], names: Sequence[str], hexy: str
) -> None:
    """Figures B.1 to B.8: each player as the first and as the second against the Hexy-like one, moves numbered."""
    number = 0
    for name in names:
        for pair in ((name, hexy), (hexy, name)):
            found = [record for record in games if record.players == pair]
            if found:
                number += 1
                work.drawing(
                    f"game-{number}-{' against '.join(pair)}".replace(":", ""), records.draw(found[-1])
                )


def targets(work: study.Work[Settings]) -> None:
    """The best agent of the large board against the baseline, a stronger one, and the Hexy-like player."""
    settings, board = work.settings, work.settings.large
    runs = {name: trained(work, board, name, board.seeds[0]) for name in board.names}
    points = {name: win_rates(work, board, run) for name, run in runs.items()}
    best = max(points, key=lambda name: (points[name][-1]["value"], share_of(points[name])))
    run, rows = runs[best], {}
    theirs = {f"uct:{board.baseline}": 100.0, settings.hexy: 0.0}
    note = (
        "The thesis: H1 after 1,200 updates; against Hexy itself, which ours is not. Seconds: one move after the"
        " other, the median of a game's; other work may have been going on."
    )
    for opponent in (settings.hexy, f"uct:{board.baseline}", f"uct:{settings.stronger}"):
        # Two players who draw nothing would repeat their two games.
        pairs = 1 if opponent == settings.hexy else settings.target_pairs
        found = work.once(
            f"target {opponent}",
            functools.partial(meet, run, opponent, pairs, board.simulations),
            config=run.config,
            pairs=pairs,
        )
        rows[f"{best} against {opponent}"] = {
            "won %": study.Beside(theirs.get(opponent), 100 * found["score"]),
            "as first": f"{found['first']} of {pairs}",
            "as second": f"{found['second']} of {pairs}",
            "95 %": percents(found["interval"]),
            "different games": found["distinct_games"],
            "seconds per move of the opponent": found["seconds"],
        }
        work.table("targets", f"The best agent on {board.size}x{board.size}", rows, digits=2, notes=(note,))


def meet(run: study.StudyRun, opponent: str, pairs: int, simulations: int) -> dict[str, Any]:
    """What the last agent of a run wins against a player, and how long that one takes for a move."""
    game = run.config.game
    agents = [make_agent(f"az:{run.agent()}?sims={simulations}", game), make_agent(opponent, game)]
    result = make_match(game, *agents, pairs=pairs)(None, None, stream(root(1, "judging"), opponent))
    sides = {"first": result.first.wins, "second": result.second.wins}
    record = result.played.record[0]
    seconds = seconds_per_move(game, agents[1], record[record >= 0])
    return parts.score_row(result) | sides | {"seconds": seconds}


def seconds_per_move(game: Hex, agent: Agent, moves: np.ndarray) -> float:
    """The median of what an agent takes for every fourth position of a game, after a first one that may compile."""
    move, step, x, seconds = make_mover(agent), jax.jit(game.step), game.init(jax.random.key(0)), []
    move(jax.random.key(0), x)
    for ply, action in enumerate(moves):
        if ply % 4 == 0:
            started = time.perf_counter()
            move(jax.random.key(ply), x)
            seconds.append(time.perf_counter() - started)
        x = step(x, action)
    return float(np.median(seconds))


def seeds_of(board: Board, name: str) -> tuple[int, ...]:
    """The seeds that an experiment is trained with."""
    return (*board.seeds, *(board.more_seeds if name in board.repeated else ()))


def experiments_of(board: Board) -> list[tuple[str, int]]:
    """The names of all experiments on a board, with their seeds."""
    return [(name, seed) for name in board.names for seed in seeds_of(board, name)]


def steps_of(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Two experiments that differ in one thing, and that thing: A1 and B1, but not A1 and B2."""
    pairs = ((name, chr(ord(name[0]) + 1) + name[1:]) for name in names if name[0] in STEPS)
    return [(one, other, STEPS[one[0]]) for one, other in pairs if other in names]


def points_of(runs: Sequence[Experiment]) -> list[dict[str, Any]]:
    """All points of the curves of some runs."""
    return [point for one in runs for point in one.points]


def ends_of(runs: Sequence[Experiment]) -> list[dict[str, Any]]:
    """The last points of the curves of some runs."""
    return [one.points[-1] for one in runs]


def updates_of(name: str) -> int:
    """Of the thesis's run."""
    return 2400 if name == "H2-2400" else 1200


def wins_of(points: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Wins and games of points of the curves together."""
    return sum(point["wins"] for point in points), sum(point["games"] for point in points)


def share_of(points: Sequence[Mapping[str, Any]]) -> float:
    """Wins as a share of the games."""
    wins, games = wins_of(points)
    return wins / games


def first_half(points: Sequence[Mapping[str, Any]]) -> int | None:
    """Updates after which half the games were won for the first time; None if they never were."""
    return next((point["updates"] for point in points if 2 * point["wins"] >= point["games"]), None)


def difference(less: tuple[int, int], more: tuple[int, int]) -> tuple[float, tuple[float, float]]:
    """The gain in the share of wins from one to another, and Newcombe's (1998) 95 % interval of it.

    Args:
      less: wins and games.
      more: of the other.
    """
    p, q = less[0] / less[1], more[0] / more[1]
    (p_low, p_high), (q_low, q_high) = wilson_interval(*less), wilson_interval(*more)
    low = q - p - math.hypot(q - q_low, p_high - p)
    high = q - p + math.hypot(q_high - q, p - p_low)
    return q - p, (low, high)


def percents(interval: Sequence[float]) -> str:
    """An interval of shares in percent."""
    return f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f}"


def rating_rows(ratings: Ratings) -> dict[str, dict[str, Any]]:
    """Appendix C: the rows of a table, the best player first."""
    return {
        rating.name: {
            "Elo": rating.elo,
            "+": rating.plus,
            "-": rating.minus,
            "games": rating.games,
            "score %": 100 * rating.score,
            "opponents": rating.opponents,
        }
        for rating in ratings
    }


def elo_figure(ratings: Ratings, static: Sequence[str]) -> Any:
    """Figure 5.5: Elo over updates of players named `RUN UPDATES`, and players that do not learn as lines."""
    figure, axes = style.panels(title="Bayesian Elo")
    by_run: dict[str, list[tuple[int, Any]]] = {}
    for rating in ratings:
        if rating.name not in static:
            run, updates = rating.name.rsplit(" ", 1)
            by_run.setdefault(run, []).append((int(updates), rating))
    for run in sorted(by_run):
        updates, rated_ = zip(*sorted(by_run[run], key=lambda point: point[0]))
        reach = [[one.minus for one in rated_], [one.plus for one in rated_]]
        axes.errorbar(updates, [one.elo for one in rated_], reach, label=run, marker="o", capsize=2)
    for rating, line in zip((one for one in ratings if one.name in static), ("--", ":")):
        axes.axhline(rating.elo, linestyle=line, color="black", label=rating.name)
    axes.set(xlabel="updates", ylabel="Elo")
    axes.legend(loc="upper left")  # looking for the best place can take seconds, with a warning
    return figure


def curve_figure(found: Mapping[str, Experiment], what: str, label: str) -> Any:
    """Figures 5.1 to 5.4: one line per run over the updates."""
    figure, axes = style.panels()
    for name, one in found.items():
        rows = getattr(one, what)
        axes.plot([row["updates"] for row in rows], [row["value"] for row in rows], label=name)
    axes.set(xlabel="updates", ylabel=label)
    axes.legend(loc="upper left" if what == "points" else "upper right")
    return figure


def costs(settings: Settings) -> list[study.Cost]:
    """Trainings with their points, the study of precision, the tournament; of the games with UCT, its playouts too."""
    found = []
    for board in (settings.small, settings.large):
        for name in board.names:
            found.append(run_cost(name, config_of(settings, board, name), board, len(seeds_of(board, name))))
    plain = config_of(settings, settings.small, settings.compared)
    for kind in PRECISIONS:
        config = config_of(settings, settings.small, settings.compared, 0, kind)
        if config != plain:
            found.append(run_cost(f"{settings.compared} in {kind} precision", config, settings.small, 1))
    board = settings.large
    players = sum(len(rated_steps(settings, board, name, board.seeds[0])) for name in board.names)
    games, asked = 2 * board.pairs * players, players * (players - 1) + players
    hours = playout_hours(games, board.size, board.baseline)
    evaluations = (asked + games / 2) * game_length(board.size) * (board.simulations + 1)
    config = config_of(settings, board, board.names[-1])
    return [*found, study.Cost(f"tournament of {players + 2} players", config, evaluations, hours)]


def run_cost(what: str, config: TrainConfig, board: Board, runs: int) -> study.Cost:
    """What training takes, and the games at every save."""
    length = game_length(board.size)
    positions = config.iterations * config.selfplay.lanes * length
    learned = 3 * config.iterations * config.updates * config.replay.batch_size
    games = 2 * board.pairs * (config.iterations // config.save_every + 1)
    asked = (positions + games * length / 2) * (board.simulations + 1) + learned
    hours = playout_hours(games, board.size, board.baseline)
    label = f"{board.size}x{board.size} {what}" + (f", {runs} runs" if runs > 1 else "")
    return study.Cost(label, config, runs * asked, runs * hours)


def game_length(size: int) -> float:
    """The usual moves of a game."""
    return 0.55 * size**2


def playout_hours(games: int, size: int, simulations: int) -> float:
    """Hours that UCT takes for its half of the moves of some games, on one core."""
    seconds = 9e-9 * size**3  # of a simulation, in the batches of these games: 3.1 us on 7x7, 6.5 on 9x9
    return games * game_length(size) / 2 * simulations * seconds / 3600


STUDY = study.Study(
    "jacobsen2019",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={
        "thesis": thesis,
        "small": small,
        "large": large,
        "targets": targets,
        "tournament": rated,
        "again": again,
        "precision": precision,
    },
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
