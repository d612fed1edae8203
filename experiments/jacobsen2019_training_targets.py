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

Stages go on where they were stopped. Runs lie below --out; tables, figures and games in
experiments/results/jacobsen2019/quick or full.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax import make_agent, theses
from azjax.agents.trained import load_weights
from azjax.common.agent import Agent
from azjax.common.keys import root, stream
from azjax.envs import Hex
from azjax.evaluation import parts, pgn, records, tournament
from azjax.evaluation.arena import make_match, wilson_interval
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
# Figure 5.4 at 1,200 updates, from appendix D, in percent; the other curves are lost.
FINAL = {"H1": 100.0, "H2": 80.0}
STEPS = {("A", "B"): "utility", ("B", "C"): "mean value", ("C", "D"): "pre-activation"} | {
    ("E", "F"): "utility",
    ("F", "G"): "mean value",
    ("G", "H"): "pre-activation",
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


class Experiment(NamedTuple):
    """One of the thesis's experiments with a seed, trained and judged."""

    run: study.StudyRun
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
    categories(work, work.settings.small)


def large(work: study.Work[Settings]) -> None:
    """The same on the large board."""
    categories(work, work.settings.large)


def categories(work: study.Work[Settings], board: Board) -> None:
    """Figures 5.1 to 5.4, the running times of tables 5.1 and 5.2, and the order of the categories."""
    found = {
        (name, seed): experiment(work, board, name, seed)
        for name in board.names
        for seed in seeds_of(board, name)
    }
    rows = {}
    for name in board.names:
        mine = [found[name, seed] for seed in seeds_of(board, name)]
        costs = [work.cost_of(one.run) for one in mine]
        minutes = [cost["minutes"] for cost in costs]
        wins, games = wins_of([one.points[-1] for one in mine])
        rows[name] = {
            "games": costs[0]["games"],
            "updates": costs[0]["updates"],
            "won at the end %": study.Beside(FINAL.get(name), 100 * wins / games),
            "95 %": percents(wilson_interval(wins, games)),
            "won in all %": 100 * share_of([point for one in mine for point in one.points]),
            "half won after": study.Beside(None, first_half(mine[0].points)),
            "loss": sum(one.rows[-1]["value"] for one in mine) / len(mine),
            "minutes": study.Beside(60 * HOURS[name] if name in HOURS else None, sum(minutes) / len(minutes)),
            "games/hour": study.Beside(
                5 * updates_of(name) / HOURS[name] if name in HOURS else None,
                60 * sum(cost["games"] for cost in costs) / max(sum(minutes), 1e-9),
            ),
        }
    size = f"{board.size}x{board.size}"
    note = "The thesis: towers of 13 or 19 blocks with 256 channels on one RTX 2060; ours: see manifest.json."
    work.table(f"categories-{size}", f"Hex {size} against uct:{board.baseline}", rows, notes=(note,))
    steps = {}
    for one, other in zip(board.names, board.names[1:]):
        if (what := STEPS.get((one[0], other[0]))) is None:
            continue
        less, more = (
            wins_of([p for s in seeds_of(board, name) for p in found[name, s].points])
            for name in (one, other)
        )
        gain, interval = difference(less, more)
        steps[f"{one} to {other}: {what}"] = {"gain in points": 100 * gain, "95 %": percents(interval)}
    work.table(
        f"steps-{size}",
        f"What each step brings on {size}: wins in all points of the curves",
        steps,
        notes=("Newcombe's intervals, as if all games were independent: those of one run share its seed.",),
    )
    curves = {f"{name}" if seed == 0 else f"{name}, seed {seed}": one for (name, seed), one in found.items()}
    work.figure(f"win-rate-{size}", curve_figure(curves, "points", "won against the baseline %"))
    work.figure(f"loss-{size}", curve_figure(curves, "rows", "combined loss"))


def experiment(work: study.Work[Settings], board: Board, name: str, seed: int) -> Experiment:
    """Trains an experiment, and plays the baseline at every save, the start included."""
    config = config_of(work.settings, board, name, seed)
    run = work.run(f"{board.size}x{board.size}-{name}-{seed}", config)
    points = win_rates(work, board, run)
    return Experiment(run, points, losses(work, run))


def win_rates(work: study.Work[Settings], board: Board, run: study.StudyRun) -> list[dict[str, Any]]:
    """Wins against the baseline at each save, of half the games with each colour, from the empty board."""
    judge = f"match:uct:{board.baseline}??pairs={board.pairs}&random_plies=0&simulations={board.simulations}"
    return [
        {
            "updates": jacobsen2019.UPDATES * row["iteration"],
            "wins": row["as_first"]["wins"] + row["as_second"]["wins"],
            "games": row["games"],
            "value": 100 * row["score"],
        }
        for row in work.sweep(run, judge)
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
    runs = {}
    for kind in PRECISIONS:
        config = config_of(settings, board, settings.compared, 0, kind)
        runs[kind] = work.run(f"{board.size}x{board.size}-{settings.compared}-{kind}", config)
        points = win_rates(work, board, runs[kind])
        cost = work.cost_of(runs[kind])
        rows[kind] = {
            "loss": losses(work, runs[kind])[-1]["value"],
            "won at the end %": points[-1]["value"],
            "won in all %": 100 * share_of(points),
            "games/hour": 60 * cost["games"] / max(cost["minutes"], 1e-9),
        }
        if kind != "single":
            played = work.once(
                f"precision {kind} against single",
                functools.partial(head_to_head, runs[kind], runs["single"], settings),
                config=runs[kind].config,
                pairs=settings.compared_pairs,
            )
            rows[kind]["against single %"] = 100 * played["score"]
            rows[kind]["95 %"] = percents(played["interval"])
    work.table("precision", f"{settings.compared} in three precisions", rows, digits=2)
    answers = work.once(
        "precision answers",
        lambda: answer_differences(runs["single"], settings.compared_positions),
        config=runs["single"].config,
        positions=settings.compared_positions,
    )
    work.table(
        "precision-answers", "The same network in single precision and as its copy in half", answers, digits=5
    )


def head_to_head(one: study.StudyRun, other: study.StudyRun, settings: Settings) -> dict[str, Any]:
    """Games between two runs from openings of two random moves."""
    game = one.config.game
    agents = [make_agent(f"az:{run.path}?sims={run.config.search.simulations}", game) for run in (one, other)]
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
    """The tournament of the large board: agents after every 200 updates, the baseline, the Hexy-like player."""
    settings, board = work.settings, work.settings.large
    game, players = Hex(size=board.size), players_of(work, board)
    learned = list(players)
    baseline = f"uct:{board.baseline}"
    players |= {name: make_agent(name, game) for name in (baseline, settings.hexy)}
    # Everybody meets everybody with both colours; ten games of each agent with the baseline.
    # Whoever has learned for longer meets the Hexy-like player alone.
    numbers = [f"{baseline}={board.pairs}", f"{baseline} vs {settings.hexy}=1"]
    for late in (label_of(name, config_of(settings, board, name)) for name in board.names if "-" in name):
        numbers += [f"{late}=0", f"{late} vs {settings.hexy}=1"]
    meetings = tournament.read_meetings(1, numbers, list(players))
    work.results.mkdir(parents=True, exist_ok=True)
    games = work.results / "tournament-games.txt"

    def keep(player: str, opponent: str, result: Any) -> None:
        records.write_records(games, records.of_match(game, player, opponent, result), append=True)

    results = tournament.Results(
        work.results / "tournament.jsonl", game, {"simulations": board.simulations, "pairs": board.pairs}
    )
    tournament.play(results, game, players, pairs=meetings, seed=0, progress=work.progress, finished=keep)
    ratings = bayesian_elo(results.scores())
    work.table("tournament", f"Bayesian Elo on {board.size}x{board.size}", rating_rows(ratings), digits=0)
    (work.results / "tournament.pgn").write_text(tournament.to_pgn(results), encoding="utf-8")
    work.figure("elo", elo_figure(ratings, static=(settings.hexy, baseline)))
    best = [rating.name for rating in ratings if rating.name in learned][:3]
    draw_games(work, records.read_records(games), [*best, baseline], settings.hexy)


def players_of(work: study.Work[Settings], board: Board) -> dict[str, Agent]:
    """The agents of all runs after every so many updates; those of one run share one compiled search."""
    players, every = {}, work.settings.rated_every // jacobsen2019.UPDATES
    for name in board.names:
        config = config_of(work.settings, board, name)
        run = work.run(f"{board.size}x{board.size}-{name}-0", config)
        text = f"az:{run.path}?sims={board.simulations}"
        agent = make_agent(text, config.game)
        # H2-2400 is H2 gone on with: of that, the end alone.
        steps = [config.iterations] if "-" in name else range(0, config.iterations + 1, every)
        for step in steps:
            label = label_of(name, config, step)
            players[label] = agent._replace(name=label, params=load_weights(run.path, step)[1])
    return players


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
    ends = {name: experiment(work, board, name, 0) for name in board.names}
    best = max(ends, key=lambda name: (ends[name].points[-1]["value"], share_of(ends[name].points)))
    run, game, rows = ends[best].run, Hex(size=board.size), {}
    theirs = {f"uct:{board.baseline}": 100.0, settings.hexy: 0.0}
    for opponent in (f"uct:{board.baseline}", f"uct:{settings.stronger}", settings.hexy):
        # Two players who draw nothing would repeat their two games.
        pairs = 1 if opponent == settings.hexy else settings.target_pairs

        def play(opponent: str = opponent, pairs: int = pairs) -> dict[str, Any]:
            agents = [make_agent(f"az:{run.path}?sims={board.simulations}", game), make_agent(opponent, game)]
            result = make_match(game, *agents, pairs=pairs)(None, None, stream(root(1, "judging"), opponent))
            return parts.score_row(result) | {"first": result.first.wins, "second": result.second.wins}

        found = work.once(f"target {opponent}", play, config=run.config, pairs=pairs)
        rows[f"{best} against {opponent}"] = {
            "won %": study.Beside(theirs.get(opponent), 100 * found["score"]),
            "as first": f"{found['first']} of {pairs}",
            "as second": f"{found['second']} of {pairs}",
            "95 %": percents(found["interval"]),
        }
    note = "The thesis: H1 after 1,200 updates; against Hexy itself, which ours is not."
    work.table("targets", f"The best agent on {board.size}x{board.size}", rows, notes=(note,))


def seeds_of(board: Board, name: str) -> tuple[int, ...]:
    """The seeds that an experiment is trained with."""
    return (*board.seeds, *(board.more_seeds if name in board.repeated else ()))


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
    axes.legend()
    return figure


def curve_figure(found: Mapping[str, Experiment], what: str, label: str) -> Any:
    """Figures 5.1 to 5.4: one line per run over the updates."""
    figure, axes = style.panels()
    for name, one in found.items():
        rows = getattr(one, what)
        axes.plot([row["updates"] for row in rows], [row["value"] for row in rows], label=name)
    axes.set(xlabel="updates", ylabel=label)
    axes.legend()
    return figure


def costs(settings: Settings) -> list[study.Cost]:
    """Trainings and their points; playouts of the baseline come on top, which need no network."""
    found = []
    for board in (settings.small, settings.large):
        for name in board.names:
            config, runs = config_of(settings, board, name), len(seeds_of(board, name))
            positions = (
                config.iterations * config.selfplay.lanes * 0.55 * board.size**2
            )  # a game's usual length
            learned = 3 * config.iterations * config.updates * config.replay.batch_size
            saves = config.iterations // config.save_every + 1
            judged = saves * board.pairs * 0.55 * board.size**2  # half the moves of twice the games
            asked = (positions + judged) * (board.simulations + 1) + learned
            found.append(study.Cost(f"{board.size}x{board.size} {name}, {runs} runs", config, runs * asked))
    return found


STUDY = study.Study(
    "jacobsen2019",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={
        "thesis": thesis,
        "small": small,
        "large": large,
        "tournament": rated,
        "precision": precision,
        "targets": targets,
    },
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
