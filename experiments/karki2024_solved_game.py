"""How close does AlphaZero come to the truth of a strongly solved game? The experiments of Karki 2024.

    python -m experiments.karki2024_solved_game                   # every stage, scaled for two cores
    python -m experiments.karki2024_solved_game --only opponents naive small small-truth
    python -m experiments.karki2024_solved_game --full --plan     # what the thesis's own settings would cost

The games are Chinese Checkers 4x4 with three pieces and 5x5 with six. The thesis trained on forward moves and compared
with the values of the game with all moves, and so do we. It reports, of 100 games each from the starting position:

- 4x4, after 50 iterations: as first player 98 of 100 against UCT with 2,000 playouts, 86 against UCT with a distance
  evaluation, 66 to 88 against a perfect player; as second player 94, 55 and 0. 78.4 % of its labels were true.
- 5x5, after 70 hours: 100, 99, and 96 to 100; as second player 95, 92 and 0. 74 % of its labels were true.
- Values and moves were right more often in positions it had seen than beside them, and there than in random ones.
- An adversary that knows the truth and sets traps still won 56, 41, 45, 12, 14, 7 and 7 of 100 games when the agent
  searched with 32, 64, ... 2,048 samples; a supervised start changed that to 24, 26, 9, 12, 10, 7 and 10.
- A network taught 36.67 million solved positions had the right value in 94 % of the positions seen in self-play.

The quick settings differ from the thesis's in the network, the learning rate, the number of games at a time and the
length; what the tables say of us is about those. Tables and figures are kept in experiments/results/karki2024.

Whatever is found is kept there as soon as it is found, and so are the weights that later stages need. What a run has
seen in self-play is not: stages that ask for it, `small-truth`, `large-truth`, `adversary`, `capacity` and
`supervised-start`, train their run again if its folder is gone before they have all their numbers. Those of the large
board need its table, which `solved` makes, or finishes, in the cache.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
import resource
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from azjax import theses
from azjax.agents import make_agent
from azjax.agents.trained import load_weights
from azjax.common import atomic, keys
from azjax.common.agent import Agent
from azjax.common.progress import StagedProgress
from azjax.envs import ChineseCheckers
from azjax.envs.core import without_past
from azjax.evaluation import parts, supervision, truth
from azjax.evaluation.arena import make_match, wilson_interval
from azjax.evaluation.evaluate import evaluate
from azjax.learners import supervised
from azjax.learners.supervised import SupervisedConfig
from azjax.nn.networks import NetworkConfig
from azjax.plots import style
from azjax.positions import labelled
from azjax.search.config import SearchConfig
from azjax.solvers import estimate
from azjax.solvers.checkers.room import make_solver, place_of
from azjax.solvers.checkers.solver import make_solver as make_table
from azjax.training.config import OptimiserConfig, TrainConfig
from experiments import study

PERFECT = "perfect?all_moves=1"  # the thesis's perfect player
SETS = ("seen", "neighbouring", "random")
SIDES = ("first_player", "second_player")

# Table 1 of Sturtevant 2019, which the thesis's ground truth follows: positions with either player to move that one
# player wins, drawn ones, illegal ones. Its first pass did not look for closed tips where a player has no piece in
# either home: that makes 312,312 illegal positions of 5x5 with six pieces ordinary ones.
PUBLISHED = {(5, 6): (4_749_618_788, 47_056_118, 63_860_706)}
# Counted by the rules as they are written: 4x4 by a program of other make, 5x5 as a public solver on GitHub counts.
BY_RULES = {(4, 3): (154_726, 0, 10_868), (5, 6): (4_749_512_556, 46_956_270, 64_173_018)}

NAIVE = {  # figures 4.1 and 4.2: wins of 100 after iterations 1 and 10
    ("random", "first"): (80, 100),
    ("uct:100", "first"): (4, 98),
    ("random", "second"): (81, 100),
    ("uct:100", "second"): (6, 88),
}
OPPONENTS = ("uct:100", "uct:200", "uct:1000", "uct:2000", "uct-distance:1000", "uct-distance:2000")
# Tables 4.1 to 4.4: iteration, then wins of 100 against OPPONENTS, and against the perfect player with 128, 512, 2,048.
SMALL_FIRST = """
1 31 27 10 8 2 0 27 32 30
5 96 90 76 64 44 28 60 65 59
10 97 97 89 82 55 42 58 61 69
15 99 98 94 95 64 63 65 68 69
20 99 100 99 96 73 61 61 67 59
25 99 100 96 96 77 79 62 63 92
30 98 98 99 98 84 82 68 61 68
35 100 99 97 96 88 78 65 70 68
40 100 98 95 88 69 65 54 59 65
45 98 98 98 97 86 83 63 62 71
50 100 99 99 98 91 86 66 69 88
"""
SMALL_SECOND = """
1 31 21 7 8 1 0 0
5 89 80 59 55 12 10 0
10 93 94 74 72 28 17 0
15 99 96 92 87 27 37 0
20 100 92 90 86 37 41 0
25 94 97 92 77 56 49 0
30 97 99 93 84 51 38 0
35 99 96 86 84 57 45 0
40 77 81 73 69 48 33 0
45 99 98 88 94 66 50 0
50 99 98 91 94 71 55 0
"""
# Tables 4.5 to 4.8, after the last hour: the single agent, OPPONENTS, the perfect player.
LARGE_FIRST = (100, 100, 100, 100, 100, 100, 99, 96, 100, 99)
LARGE_SECOND = (100, 100, 100, 97, 95, 98, 92, 0)
# Tables 4.9 to 4.11, by samples of the search: wins, losses, draws; states per game: all, seen, neighbouring, other,
# other where a mistake is possible; mistakes: all, distinct, seen, neighbouring, other.
ADVERSARY = {
    32: (44, 56, 0, 16.82, 5.41, 5.57, 5.84, 4.69, 56, 13, 4, 44, 8),
    64: (58, 41, 1, 16.91, 5.73, 5.17, 6.01, 4.86, 41, 11, 4, 28, 9),
    128: (54, 45, 1, 16.82, 5.34, 5.56, 5.92, 4.58, 45, 11, 0, 35, 10),
    256: (88, 12, 0, 16.83, 5.32, 5.31, 6.20, 4.63, 12, 6, 5, 0, 7),
    512: (86, 14, 0, 16.53, 5.96, 3.80, 6.77, 5.45, 14, 7, 0, 3, 11),
    1024: (90, 7, 3, 17.57, 5.89, 4.61, 7.07, 4.92, 7, 6, 1, 1, 5),
    2048: (93, 7, 0, 16.40, 5.10, 4.98, 6.32, 4.22, 7, 4, 3, 0, 4),
}
AGAINST_UCT = (100, 0, 0, 14.14, 2.6, 1.44, 12.1, None, 6, 4, 3, 0, 3)  # table 4.12; its parts do not add up
SUPERVISED_START = {  # table 4.13: wins, losses; 1,024 is printed as 70 and must be 7
    32: (73, 24),
    64: (71, 26),
    128: (91, 9),
    256: (86, 12),
    512: (87, 10),
    1024: (88, 7),
    2048: (87, 10),
}
LABELS = {"small": 78.4, "large": 74.0}  # percent of the labels that are true
CAPACITY = 94.0  # percent


@dataclasses.dataclass(frozen=True)
class Settings:
    """Boards, lengths and thoroughness; `published` takes networks and training from table A.1."""

    published: bool = False
    small_size: int = 4
    small_pieces: int = 3
    large_size: int = 5
    large_pieces: int = 6
    transfer_size: int = 6  # the larger board to which the weights of `large` are taken
    blocks: int = 4
    channels: int = 48
    learning_rate: float = 1e-3
    lanes: int = 64  # games at a time
    samples: int = 64  # of the search in self-play, the root included
    small_buffer: int = 16_384
    large_buffer: int = 32_768
    batch_size: int = 128
    small_iterations: int = 50
    large_iterations: int = 100
    single_iterations: int = 3  # as many as fit into the time of `large`: 10 of 301 in the thesis
    naive_iterations: int = 10
    naive_positions: int = 9_000  # per iteration: 300 games of about 30 plies
    naive_lanes: int = 30  # 1 in the thesis
    small_save_every: int = 5
    large_save_every: int = 20
    taught_save_every: int = 20
    pairs: int = 100  # of games in a match at the end: as many as first and as second player
    sweep_pairs: int = 25  # in a match of every checkpoint
    sweep_opponents: tuple[str, ...] = ("uct:100", "uct:2000", "uct-distance:2000")
    sweep_perfect_samples: tuple[int, ...] = (128,)
    match_samples: int = 128
    opponents: tuple[str, ...] = OPPONENTS
    perfect_samples: tuple[int, ...] = (128, 512, 2048)
    positions: int = 10_000  # of each set, for values
    searched_positions: int = 1_000  # of these, for moves
    policy_samples: tuple[int, ...] = (32, 64, 128, 256, 512)
    sweep_searched_positions: int = 200  # of every checkpoint
    sweep_policy_samples: tuple[int, ...] = (32, 128, 512)
    adversary_samples: tuple[int, ...] = tuple(ADVERSARY)
    adversary_uct: int = 2048
    supervised_iterations: int = 100
    capacity_iterations: int = 400
    capacity_positions: int = 10_000  # labelled per iteration
    transfer_iterations: int = 5


def quick() -> Settings:
    """For two cores."""
    return Settings()


def full() -> Settings:
    """As the thesis, for accelerators."""
    return Settings(
        published=True,
        samples=128,
        small_iterations=50,
        large_iterations=301,
        single_iterations=10,
        naive_lanes=1,
        sweep_pairs=100,
        sweep_opponents=OPPONENTS,
        sweep_perfect_samples=(128, 512, 2048),
        policy_samples=(32, 64, 128, 256, 512, 1024),
        sweep_searched_positions=1_000,
        sweep_policy_samples=(32, 64, 128, 256, 512, 1024),
        capacity_iterations=3_667,
        transfer_iterations=100,
    )


def game_of(settings: Settings, board: str) -> ChineseCheckers:
    """The board `small` or `large`."""
    return ChineseCheckers(getattr(settings, f"{board}_size"), getattr(settings, f"{board}_pieces"))


def config_of(settings: Settings, board: str, **changes: Any) -> TrainConfig:
    """The run of parallel self-play on a board: table A.1, or the same with what two cores can do."""
    config = theses.preset({"small": "karki2024/4x4", "large": "karki2024/5x5"}[board])
    game = game_of(settings, board)
    lengths = {name: getattr(settings, f"{board}_{name}") for name in ("iterations", "save_every")}
    if settings.published:
        return dataclasses.replace(config, game=game, **lengths | changes)
    buffer, batch, lanes = getattr(settings, f"{board}_buffer"), settings.batch_size, settings.lanes
    new = config.selfplay.lanes * config.selfplay.plies / config.replay.capacity  # the table's "s in %"
    plies = max(1, round(new * buffer / lanes))
    scaled = dataclasses.replace(
        config,
        game=game,
        network=NetworkConfig(blocks=settings.blocks, channels=settings.channels),
        search=dataclasses.replace(config.search, simulations=settings.samples - 1),
        selfplay=dataclasses.replace(config.selfplay, lanes=lanes, plies=plies),
        replay=dataclasses.replace(
            config.replay,
            capacity=buffer,
            batch_size=batch,
            reuse=(buffer // batch) * batch / (plies * lanes),
            warm_up=batch,
            groups=2,
        ),
        optimiser=dataclasses.replace(config.optimiser, learning_rate=settings.learning_rate),
        **lengths,
    )
    return dataclasses.replace(scaled, **changes)


def alone(config: TrainConfig, lanes: int, positions: int) -> TrainConfig:
    """The same with few games at a time, whose positions are learned from once and forgotten."""
    groups = next(groups for groups in (2, 1) if lanes % groups == 0)
    batch = config.replay.batch_size
    plies = max(1, round(positions / lanes))
    capacity = max(plies * lanes, groups * config.game.max_plies)
    replay = dataclasses.replace(
        config.replay,
        capacity=-(-capacity // groups) * groups,
        reuse=1.0,
        overwrite=1.0,
        warm_up=batch,
        groups=groups,
    )
    return dataclasses.replace(
        config, selfplay=dataclasses.replace(config.selfplay, lanes=lanes, plies=plies), replay=replay
    )


def parallel(work: study.Work[Settings], board: str, whole: bool = False) -> study.StudyRun:
    """The run of parallel self-play; whole, if what it has seen or what it took is asked for too."""
    return work.run(board, config_of(work.settings, board), whole=whole)


def single(work: study.Work[Settings], board: str) -> study.StudyRun:
    """The run with one game at a time, for as long as the parallel one took."""
    config = config_of(work.settings, board)
    played = config.selfplay.lanes * config.selfplay.plies
    config = dataclasses.replace(
        alone(config, 1, played), iterations=work.settings.single_iterations, save_every=1
    )
    return work.run(f"{board}-single", config)


def in_full(opponent: str) -> str:
    """An opponent with the thesis's exploration constant, which stands in the author's code: 1."""
    return f"{opponent}?c=1" if opponent.startswith("uct") else opponent


def match_text(pairs: int, opponent: str, samples: int) -> str:
    """A match from the starting position as a judge's text."""
    return f"match:{in_full(opponent)}??simulations={samples - 1}&pairs={pairs}&random_plies=0"


def player(run: study.StudyRun, samples: int, iteration: int | None = None) -> str:
    """The text of a run's agent, which needs its weights alone; None for the last iteration."""
    return f"az:{run.agent(iteration)}?sims={samples - 1}"


def about(run: study.StudyRun) -> dict[str, Any]:
    """What a result of a run depends on, as `Work.once` takes it."""
    return run.identity | {"config": run.config}


def at_the_end(work: study.Work[Settings], run: study.StudyRun, judge: str) -> dict[str, Any]:
    """What a judge finds in the last checkpoint of a run."""
    return work.once(
        f"{run.name} {judge} at the end",
        lambda: evaluate(run.trained, judge, newest_only=True, progress=work.progress)[judge].rows[-1],
        **about(run),
        judge=judge,
    )


def final_match(
    work: study.Work[Settings], run: study.StudyRun, opponent: str, samples: int, random_plies: int = 0
) -> dict[str, Any]:
    """A match of the last weights of a run; from the starting position unless moves are drawn."""
    pairs = work.settings.pairs
    return work.once(
        f"{run.name} with {samples} samples against {opponent} after {random_plies} random moves",
        lambda: meeting(run.config.game, player(run, samples), opponent, pairs, random_plies, work.progress),
        **about(run),
        opponent=opponent,
        samples=samples,
        pairs=pairs,
        random_plies=random_plies,
    )


def wins(row: Mapping[str, Any], side: str) -> float:
    """Percent of games won as `first` or `second` player."""
    counts = row[f"as_{side}"]
    return 100 * counts["wins"] / max(1, sum(counts.values()))


def solved(work: study.Work[Settings]) -> None:
    """Solves both boards by the rules, and counts which positions have which value."""
    table_of_counts(work, {(board, False): count_of(work, board, False) for board in ("small", "large")})


def as_published(work: study.Work[Settings]) -> None:
    """The same of the large board as the published counts have it, where a table takes as long once more."""
    kinds = [("small", False), ("large", False), ("large", True)]
    table_of_counts(
        work, {(board, published): count_of(work, board, published) for board, published in kinds}
    )


def count_of(work: study.Work[Settings], board: str, published: bool) -> dict[str, Any]:
    """What the table of a board holds, with either player to move."""
    game = dataclasses.replace(game_of(work.settings, board), forward_only=False)
    name = f"{game.size}x{game.size}, {game.pieces} pieces{', as published' if published else ''}"
    return work.once(f"solved {name}", lambda: {"name": name} | count(game, published, work.progress))


def table_of_counts(work: study.Work[Settings], found: Mapping[tuple[str, bool], Mapping[str, Any]]) -> None:
    """The counts of tables, by board and whether they are as published, beside what others counted."""
    rows = {}
    for (board, published), counts in found.items():
        game = game_of(work.settings, board)
        known = (PUBLISHED if published else BY_RULES).get((game.size, game.pieces), (None,) * 3)
        rows[counts["name"]] = {
            "positions": counts["positions"],
            "won by one player": study.Beside(known[0], counts["won"]),
            "drawn": study.Beside(known[1], counts["drawn"]),
            "illegal": study.Beside(known[2], counts["illegal"]),
            "longest win": counts["longest"],
            "start": counts["start"],
            "passes": counts["passes"],
            "CPU minutes": counts["cpu_minutes"],
            "gigabytes": counts["gigabytes"],
            "sha256 of the table": counts["sha256"][:16],
        }
    note = (
        "The published counts (Sturtevant 2019, table 1) call 312,312 positions of 5x5 with six pieces ordinary that"
        " the rules call illegal: a tip is closed, and the player to move has no piece in either home. Counted as the"
        " rules have it, 63,860,706 + 312,312 = 64,173,018 are illegal. A table as published is one in which these are"
        " ordinary; beside tables by the rules stand the counts of other programs."
    )
    work.table("solved", "Solved boards", rows, notes=(note,))


def count(game: ChineseCheckers, published: bool, progress: StagedProgress) -> dict[str, Any]:
    """Solves a game, or goes on with it, or finds it in the cache; and counts. It may take an hour."""
    limits = {"distances": False, "max_seconds": math.inf, "max_bytes": math.inf}
    limits["progress"] = functools.partial(progress, f"solving {game.size}x{game.size}/{game.pieces}")
    if published:
        place = place_of(game, distances=False, as_published=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        solver = make_table(game, as_published=True, path=place, **limits)
    else:
        solver = make_solver(game, **limits)
    counts = solver.counts()
    start = jax.tree.map(lambda leaf: np.asarray(leaf)[None], without_past(game).init(jax.random.key(0)))
    return {
        "positions": 2 * counts.positions,
        "won": counts.wins + counts.losses,
        "drawn": 2 * counts.draws,
        "illegal": 2 * counts.illegal,
        "longest": max(counts.win_distances, default=0),
        "start": {1: "won", 0: "drawn", -1: "lost"}[int(solver.value(start)[0])],
        "win_distances": counts.win_distances,
        "loss_distances": counts.loss_distances,
        "passes": len(solver.table.found),
        "cpu_minutes": solver.table.cpu_seconds / 60,
        # The most that this process ever held, which is the solver's if it has solved a large board.
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "sha256": hashlib.sha256(np.ascontiguousarray(solver.table.codes)).hexdigest(),
    }


def naive(work: study.Work[Settings]) -> None:
    """Single self-play without a buffer on the small board (figures 4.1 and 4.2)."""
    settings = work.settings
    config = alone(config_of(settings, "small"), settings.naive_lanes, settings.naive_positions)
    config = dataclasses.replace(config, iterations=settings.naive_iterations, save_every=1)
    run = work.run("naive", config)
    opponents = list(dict.fromkeys(opponent for opponent, _ in NAIVE))
    sweeps = {
        opponent: work.sweep(run, match_text(settings.pairs, opponent, settings.match_samples))
        for opponent in opponents
    }
    after = {opponent: {row["iteration"]: row for row in sweep} for opponent, sweep in sweeps.items()}
    last, rows = settings.naive_iterations, {}
    for opponent, side in itertools.product(opponents, ("first", "second")):
        theirs = NAIVE[opponent, side]
        rows[f"{opponent}, as {side}"] = {
            "iteration 1 %": study.Beside(theirs[0], wins(after[opponent][1], side)),
            f"iteration {last} %": study.Beside(theirs[1], wins(after[opponent][last], side)),
            "different games at the end": after[opponent][last]["distinct_games"],
        }
    work.table("naive", "Naive self-play: wins of 100 (figures 4.1 and 4.2)", rows)
    figure, panels = style.panels(1, 2, title="Naive self-play", sharey=True)
    for axes, side in zip(panels, ("first", "second")):
        for opponent in opponents:
            draw_wins(axes, sweeps[opponent], side, opponent)
        axes.set(title=f"as {side} player", xlabel="iteration", ylabel="% won", ylim=(0, 101))
        axes.legend()
    work.figure("naive", figure)


def small(work: study.Work[Settings]) -> None:
    """Parallel self-play on the small board (tables 4.1 to 4.4, figures 4.3 to 4.6)."""
    run = parallel(work, "small", whole=True)
    run.keep()
    training_figure(work, run)
    first, second = (published(text) for text in (SMALL_FIRST, SMALL_SECOND))
    matches(work, run, {"first": first, "second": second}, "4.1 to 4.4")


def small_truth(work: study.Work[Settings]) -> None:
    """What that run knows of seen, neighbouring and random positions (figures 4.7 to 4.11), and how true its labels."""
    generalisation(work, "small")


def large(work: study.Work[Settings]) -> None:
    """Parallel self-play on the large board (figure 4.12); what it knows (4.13 to 4.17), and how true its labels."""
    need_table(game_of(work.settings, "large"))
    run = parallel(work, "large", whole=True)
    work.cost_of(run)
    run.keep(*run.checkpoints)
    training_figure(work, run)
    generalisation(work, "large")


def large_matches(work: study.Work[Settings]) -> None:
    """The matches of that run (tables 4.5 to 4.8)."""
    run = parallel(work, "large")
    last = run.config.iterations
    theirs = {}
    for side, numbers in (("first", LARGE_FIRST[1:]), ("second", LARGE_SECOND[1:])):
        theirs[side] = {last: dict(zip(columns_of(OPPONENTS, (128, 512, 2048)), numbers))}
    matches(work, run, theirs, "4.5 to 4.8, after 70 hours")


def need_table(game: ChineseCheckers) -> None:
    """Raises, before the work, where nobody could judge a run of the game later."""
    if truth.solver_for(game, all_moves=True) is None:
        raise ValueError(
            f"the table of {game.size}x{game.size} with {game.pieces} pieces is not in the cache; make it first, or"
            " finish it, with --only solved"
        )


def equal_time(work: study.Work[Settings]) -> None:
    """The agent of one game at a time against that of many (tables 4.5 and 4.7, first column): its last weights, and
    those which it had after as much time as the other was trained for.
    """
    settings, run, other = work.settings, parallel(work, "large", whole=True), single(work, "large")
    costs = {name: work.cost_of(one) for name, one in (("parallel", run), ("single", other))}
    other.keep()
    minutes = {0: 0.0} | {row["iteration"]: row["seconds"] / 60 for row in training_rows(work, run)}
    nearest = min(run.checkpoints, key=lambda iteration: abs(minutes[iteration] - costs["single"]["minutes"]))
    after = {"parallel": run.config.iterations, "parallel, after as long": nearest}
    rows = {"minutes": {name: minutes[iteration] for name, iteration in after.items()}}
    rows["minutes"]["single"] = costs["single"]["minutes"]
    rows["iterations"] = after | {"single": other.config.iterations}
    rows["games"] = {"parallel": costs["parallel"]["games"], "single": costs["single"]["games"]}
    work.table("equal-time", "One game at a time, and many (thesis: 10 and 301 iterations in a week)", rows)
    won = {}
    for (name, iteration), random_plies in itertools.product(after.items(), (0, 2)):

        def play(iteration: int = iteration, random_plies: int = random_plies) -> dict[str, Any]:
            agents = (player(run, settings.match_samples, iteration), player(other, settings.match_samples))
            return meeting(run.config.game, *agents, settings.pairs, random_plies, work.progress)

        row = work.once(
            f"large after {iteration} against large-single after {random_plies} random moves",
            play,
            **about(run),
            single=other.identity,
            iteration=iteration,
            random_plies=random_plies,
            samples=settings.match_samples,
            pairs=settings.pairs,
        )
        for side, theirs in (("first", LARGE_FIRST[0]), ("second", LARGE_SECOND[0])):
            opened = " from openings of two random moves" if random_plies else ""
            won[f"{name}, as {side} player{opened}"] = {
                "% won": study.Beside(None if random_plies else theirs, wins(row, side)),
                "different games": row["distinct_games"],
            }
    work.table("equal-time-match", "The parallel agent against the single one", won)


def columns_of(opponents: Sequence[str], perfect_samples: Sequence[int]) -> list[str]:
    """Names of the columns of match tables."""
    return [*opponents, *(f"perfect, {samples} samples" for samples in perfect_samples)]


def published(text: str) -> dict[int, dict[str, int]]:
    """A table of the thesis: iteration -> column -> wins."""
    lines = [[int(number) for number in line.split()] for line in text.split("\n") if line]
    return {line[0]: dict(zip(columns_of(OPPONENTS, (128, 512, 2048)), line[1:])) for line in lines}


def matches(
    work: study.Work[Settings],
    run: study.StudyRun,
    theirs: Mapping[str, Mapping[int, Mapping[str, int]]],
    tables: str,
) -> None:
    """Matches of the last weights against everybody, and of every checkpoint against some."""
    settings = work.settings
    samples, last = settings.match_samples, run.config.iterations
    played = {opponent: (opponent, samples) for opponent in settings.opponents}
    perfect = zip(columns_of((), settings.perfect_samples), settings.perfect_samples)
    played |= {column: (PERFECT, searched) for column, searched in perfect}
    often = columns_of(settings.sweep_opponents, settings.sweep_perfect_samples)
    sweeps = {
        column: work.sweep(run, match_text(settings.sweep_pairs, *played[column]))
        for column in often
        if column in played
    }
    finals = {column: final_match(work, run, *about) for column, about in played.items()}
    opened = {column: final_match(work, run, *played[column], random_plies=2) for column in sweeps}
    for side in ("first", "second"):
        rows: dict[str, dict[str, Any]] = {}
        for column, sweep in sweeps.items():
            for row in sweep:
                if row["iteration"] != last:
                    known = theirs[side].get(row["iteration"], {}).get(column)
                    cells = rows.setdefault(f"iteration {row['iteration']}", {})
                    cells[column] = study.Beside(known, wins(row, side))
        for column, final in finals.items():
            known = theirs[side].get(last, {}).get(column)
            cells = rows.setdefault(f"iteration {last}", {})
            cells[column] = study.Beside(known, wins(final, side))
            low, high = _interval(final, side)
            rows.setdefault("95 % interval of the last", {})[column] = f"{low:.0f} to {high:.0f}"
            rows.setdefault("different games in the last", {})[column] = final["distinct_games"]
        rows["the last from openings of two random moves"] = {
            column: wins(row, side) for column, row in opened.items()
        }
        work.table(
            f"{run.name}-as-{side}",
            f"{run.name}: % won as {side} player (tables {tables})",
            rows,
            notes=(
                f"From the starting position, {settings.pairs} games as {side} player at the end, before"
                f" {settings.sweep_pairs}; of the different games both colours are counted.",
            ),
        )
    figure, panels = style.panels(1, 2, title=f"{run.name}: matches", sharey=True)
    for axes, side in zip(panels, ("first", "second")):
        for column, sweep in sweeps.items():
            draw_wins(axes, sweep, side, column)
        axes.set(title=f"as {side} player", xlabel="iteration", ylabel="% won", ylim=(0, 101))
    panels[-1].legend(fontsize="x-small")
    work.figure(f"{run.name}-matches", figure)


def _interval(row: Mapping[str, Any], side: str) -> tuple[float, float]:
    counts = row[f"as_{side}"]
    low, high = wilson_interval(counts["wins"], sum(counts.values()))
    return 100 * low, 100 * high


def draw_wins(axes: Any, sweep: Sequence[Mapping[str, Any]], side: str, label: str) -> None:
    """A curve of wins over iterations, with Wilson's 95 % band."""
    iterations = [row["iteration"] for row in sweep]
    low, high = zip(*(_interval(row, side) for row in sweep))
    (line,) = axes.plot(iterations, [wins(row, side) for row in sweep], marker=".", label=label)
    axes.fill_between(iterations, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def training_rows(work: study.Work[Settings], run: study.StudyRun) -> list[dict[str, Any]]:
    """Of every iteration of a run: seconds so far, and what its games were like."""
    columns = ("seconds", "seconds_per_game", "games_finished", "mean_plies", "first_player_score", "draws")
    return work.once(
        f"{run.name} training",
        lambda: [{"iteration": row["iteration"]} | {c: row.get(c) for c in columns} for row in run.metrics()],
        **about(run),
    )


def training_figure(work: study.Work[Settings], run: study.StudyRun) -> None:
    """Seconds per game, games per iteration, states per game and results over iterations (figures 4.3 to 4.6, 4.12)."""
    rows, name = training_rows(work, run), run.name
    figure, (time_, games, plies, results) = style.panels(1, 4, size=(3.6, 3.0), title=f"{name}: self-play")
    x = [row["iteration"] for row in rows]
    for axes, column, label in (
        (time_, "seconds_per_game", "seconds per game"),
        (games, "games_finished", "games per iteration"),
        (plies, "mean_plies", "states per game"),
    ):
        axes.plot(x, [row[column] for row in rows])
        axes.set(xlabel="iteration", title=label, ylim=(0, None))
    results.plot(x, [100 * row["first_player_score"] for row in rows], label="first player scores")
    draws = [100 * row["draws"] / max(1, row["games_finished"]) for row in rows]
    results.plot(x, draws, label="draws")
    results.set(xlabel="iteration", title="% of games", ylim=(0, 100))
    results.legend()
    work.figure(f"{name}-training", figure)


def generalisation(work: study.Work[Settings], board: str) -> None:
    """Seen, neighbouring and random positions, and how true the labels are."""
    settings, run = work.settings, parallel(work, board, whole=True)
    labels = work.sweep(run, "labels?all_moves=1")
    sweep = work.sweep(
        run, accuracy_text(settings, settings.sweep_searched_positions, settings.sweep_policy_samples)
    )
    end = at_the_end(work, run, accuracy_text(settings, settings.searched_positions, settings.policy_samples))
    draw_values(work, board, sweep, labels)
    draw_policies(work, board, sweep)
    rows: dict[str, dict[str, Any]] = {}
    for name in SETS:
        values, moves = end[name]["value_where_it_matters"], end[name]["policy"]
        rows[f"values, {name}"] = _cells(values["all"], values)
        rows[f"moves, {name}"] = _cells(moves["all"], moves)
        for samples in settings.policy_samples:
            found = end[name][f"policy_{samples - 1}"]
            rows[f"moves, {name}, {samples} samples"] = _cells(found["all"], found)
    told = labels[-1]
    rows["labels"] = _cells(told["all"], told) | {
        "% right": study.Beside(LABELS[board], _percent(told["all"]))
    }
    work.table(
        f"{board}-truth",
        f"{board}: right by the solver, where it matters which move is made; and all labels",
        rows,
    )


def accuracy_text(settings: Settings, searched: int, samples: Sequence[int]) -> str:
    """The judge of seen, neighbouring and random positions as a text."""
    simulations = ",".join(str(number - 1) for number in samples)
    return (
        f"accuracy?positions={settings.positions}&searched_positions={searched}"
        f"&policy_simulations={simulations}&all_moves=1"
    )


def _cells(share: Mapping[str, Any], by_player: Mapping[str, Any]) -> dict[str, Any]:
    """A share with its interval, and for either player to move."""
    low, high = (100 * end for end in share["interval"])
    return {
        "% right": _percent(share),
        "95 % interval": f"{low:.1f} to {high:.1f}",
        "of": share["of"],
        "first to move": _percent(by_player["first_player"]),
        "second to move": _percent(by_player["second_player"]),
    }


def _percent(share: Mapping[str, Any]) -> float | None:
    return None if share["share"] is None else 100 * share["share"]


def draw_values(work: study.Work[Settings], board: str, sweep: Sequence, labels: Sequence) -> None:
    """Accuracy of values over iterations for either player to move, with that of the labels."""
    figure, panels = style.panels(1, 2, title=f"{board}: values", sharey=True)
    for axes, side in zip(panels, SIDES):
        for name in SETS:
            _draw_shares(axes, sweep, (name, f"value_if_{side}_moves"), name)
        iterations = [row["iteration"] for row in labels]
        axes.plot(iterations, [_percent(row["all"]) for row in labels], "--", label="labels so far")
        axes.axhline(_percent(labels[-1]["all"]), color="#D55E00", linestyle=":", label="all labels")
        axes.set(title=f"{side.replace('_', ' ')} to move", xlabel="iteration", ylabel="% right")
    panels[-1].legend(fontsize="small")
    work.figure(f"{board}-values", figure)


def draw_policies(work: study.Work[Settings], board: str, sweep: Sequence) -> None:
    """Accuracy of moves over iterations, raw (dashed) and with search, on each set, for each player."""
    figure, grid = style.panels(2, 3, title=f"{board}: moves", sharey=True)
    for line, side in zip(grid, SIDES):
        for axes, name in zip(line, SETS):
            _draw_shares(axes, sweep, (name, "policy", side), "network", "--")
            for samples in work.settings.sweep_policy_samples:
                _draw_shares(axes, sweep, (name, f"policy_{samples - 1}", side), f"{samples} samples")
            axes.set(title=f"{name}, {side.replace('_', ' ')}", xlabel="iteration", ylabel="% right")
    grid[0][0].legend(fontsize="x-small")
    work.figure(f"{board}-moves", figure)


def _draw_shares(axes: Any, sweep: Sequence, path: Sequence[str], label: str, style_: str = "-") -> None:
    shares = [functools.reduce(lambda tree, part: tree[part], path, row) for row in sweep]
    known = [(row["iteration"], share) for row, share in zip(sweep, shares) if share["of"]]
    if not known:
        return
    x = [iteration for iteration, _ in known]
    (line,) = axes.plot(x, [_percent(share) for _, share in known], style_, label=label)
    low, high = zip(*((100 * end for end in share["interval"]) for _, share in known))
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def adversary(work: study.Work[Settings]) -> None:
    """The adversary against the agent of the large board (tables 4.9 to 4.12), and one of its mistakes (A.5, A.6)."""
    settings, run = work.settings, parallel(work, "large", whole=True)
    need_table(run.config.game)
    found = {
        samples: at_the_end(work, run, mistakes_text(settings, "mistakes?", samples))
        for samples in settings.adversary_samples
    }
    uct = f"uct:{settings.adversary_uct}"
    text = mistakes_text(settings, f"mistakes-against:{in_full(uct)}??", settings.match_samples)
    lines = {f"{n} samples": (row, ADVERSARY.get(n)) for n, row in found.items()}
    lines[f"against {uct}"] = at_the_end(work, run, text), AGAINST_UCT
    for name, title, cells, note in (
        ("", "wins of 100 as first player (table 4.9)", result_cells, "From the starting position."),
        (
            "-states",
            "states per game (table 4.10)",
            state_cells,
            "NW: not all moves win, so that one can err.",
        ),
        ("-mistakes", "mistakes (table 4.11)", mistake_cells, "From a won position to a lost one."),
    ):
        rows = {label: cells(*line) for label, line in lines.items()}
        seen_note = "Ours: seen is all that the run has ever played; the starting position is in no kind."
        work.table(
            f"adversary{name}", f"Against the adversary: {title}", rows, digits=2, notes=(note, seen_note)
        )
    one = work.once(
        "a mistake",
        lambda: first_mistake(run, settings.adversary_samples[0], settings.pairs),
        **about(run),
        samples=settings.adversary_samples[0],
        pairs=settings.pairs,
    )
    if one is None:
        work.say("no mistake was made in these games")
        return
    draw_mistake(work, run.config.game, one)


def mistakes_text(settings: Settings, judge: str, samples: int) -> str:
    """The judge of mistakes as a text."""
    return f"{judge}simulations={samples - 1}&pairs={settings.pairs}&random_plies=0&all_moves=1"


def beside(theirs: Sequence | None, number: int, ours: Any) -> study.Beside:
    """A number of `ADVERSARY` and ours."""
    return study.Beside(None if theirs is None else theirs[number], ours)


def result_cells(row: Mapping[str, Any], theirs: Sequence | None) -> dict[str, Any]:
    """A line of table 4.9."""
    played = row["as_first"]
    games = sum(played.values())
    low, high = _interval(row, "first")
    return {
        "% won": beside(theirs, 0, 100 * played["wins"] / games),
        "95 % interval": f"{low:.0f} to {high:.0f}",
        "% lost": beside(theirs, 1, 100 * played["losses"] / games),
        "% drawn": beside(theirs, 2, 100 * played["draws"] / games),
        "different games": row["distinct_games"],
    }


def state_cells(row: Mapping[str, Any], theirs: Sequence | None) -> dict[str, Any]:
    """A line of table 4.10."""
    counts, games = row["of_first_player"], sum(row["as_first"].values())
    return {
        "all": beside(theirs, 3, counts["all"]["states_per_game"]),
        **{
            name: beside(theirs, number, counts[name]["states_per_game"])
            for number, name in ((4, "seen"), (5, "neighbouring"), (6, "other"))
        },
        "other, NW": beside(theirs, 7, counts["other"]["can_err"] / games),
        "all, NW": counts["all"]["can_err"] / games,
    }


def mistake_cells(row: Mapping[str, Any], theirs: Sequence | None) -> dict[str, Any]:
    """A line of table 4.11."""
    counts = row["of_first_player"]
    return {
        "all": beside(theirs, 8, counts["all"]["mistakes"]),
        "different": beside(theirs, 9, counts["all"]["distinct_mistakes"]),
        **{
            name: beside(theirs, number, counts[name]["mistakes"])
            for number, name in ((10, "seen"), (11, "neighbouring"), (12, "other"))
        },
        "a win drawn, or a draw lost": counts["all"]["slips"],
    }


def first_mistake(run: study.StudyRun, samples: int, pairs: int) -> dict[str, Any] | None:
    """A mistake of the agent as the first player against the adversary, with its alternatives and their values."""
    config = run.config
    act = parts.player_of(config, samples - 1)
    match = make_match(
        config.game,
        Agent("run", act),
        make_agent("adversary?all_moves=1", config.game),
        pairs=pairs,
        random_plies=0,
    )
    params = load_weights(run.agent())[1]
    played = match(params, None, keys.root(0, "judge")).played
    solver = truth.solver_for(config.game, all_moves=True)
    found = truth.find_mistakes(
        solver, played.record[played.agent_first], np.zeros(int(played.agent_first.sum()), int)
    )
    if not found:
        return None
    one = found[0]
    return {
        "position": config.game.to_notation(one.state),
        "move": config.game.action_to_text(one.action),
        "values": {config.game.action_to_text(action): value for action, value in one.outcomes.items()},
    }


def draw_mistake(work: study.Work[Settings], game: ChineseCheckers, one: Mapping[str, Any]) -> None:
    """The position of a mistake as a picture with the value of every move, and as a table."""
    light = without_past(game)
    state = light.from_notation(one["position"])
    signs = {1: "+", 0: "=", -1: "-"}
    marks = {light.text_to_action(move): signs[int(value)] for move, value in one["values"].items()}
    picture = light.draw(state, last_action=light.text_to_action(one["move"]), marks=marks)
    atomic.write_text(work.results / "mistake.svg", str(picture))
    rows = {
        move: {"value for the agent": int(value), "played": "yes" if move == one["move"] else ""}
        for move, value in sorted(one["values"].items(), key=lambda item: -item[1])
    }
    work.table("mistake", f"A mistake in {one['position']}: what each move leads to", rows)


def supervised_start(work: study.Work[Settings]) -> None:
    """Taught the truth about the seen positions, then self-play, then the adversary again (table 4.13)."""
    settings, run = work.settings, parallel(work, "large", whole=True)
    need_table(run.config.game)
    config = taught_config(settings, run, settings.supervised_iterations, str(work.out / run.name))
    taught = work.run("large-taught", config)
    if not taught.is_kept():
        run.path  # noqa: B018  # what it has seen is asked for, so that it is trained again if that is gone
        taught.keep()
    begun = work.run("large-from-taught", run.config, begun_from=taught)
    begun.keep()
    rows = {}
    for samples in settings.adversary_samples:
        text = mistakes_text(settings, "mistakes?", samples)
        row, before = at_the_end(work, begun, text), at_the_end(work, run, text)
        theirs = SUPERVISED_START.get(samples, (None, None))
        rows[f"{samples} samples"] = {
            "% won": study.Beside(theirs[0], wins(row, "first")),
            "% lost": study.Beside(
                theirs[1], 100 * row["as_first"]["losses"] / sum(row["as_first"].values())
            ),
            "% won without": study.Beside(ADVERSARY.get(samples, (None,))[0], wins(before, "first")),
            "different games": row["distinct_games"],
        }
    work.table("supervised-start", "Against the adversary after a supervised start (table 4.13)", rows)


def taught_config(settings: Settings, run: study.StudyRun, iterations: int, data: str) -> SupervisedConfig:
    """A supervised run with the network of a run of self-play."""
    return SupervisedConfig(
        run.config.game,
        network=run.config.network,
        optimiser=OptimiserConfig(learning_rate=run.config.optimiser.learning_rate, symmetries=False),
        search=SearchConfig(**dataclasses.asdict(run.config.search)),
        data=data,
        all_moves=True,
        positions=settings.capacity_positions,
        batch_size=settings.batch_size,
        judged=settings.positions,
        evaluate_every=settings.taught_save_every,
        iterations=iterations,
        save_every=settings.taught_save_every,
    )


def capacity(work: study.Work[Settings]) -> None:
    """Can the network hold the truth? Taught random positions, asked about those seen in self-play (section 4.3)."""
    settings, run = work.settings, parallel(work, "large", whole=True)
    need_table(run.config.game)
    taught = work.run("large-capacity", taught_config(settings, run, settings.capacity_iterations, "solver"))
    found = work.once(
        "capacity",
        lambda: accuracy_on_seen(taught, run, settings.positions),
        **about(taught),
        seen=run.identity,
    )
    enough = next((row["labels"] for row in found if 100 * row["seen"] >= CAPACITY), None)
    rows = {
        "at the end": {
            "labels": study.Beside(36_670_000, found[-1]["labels"]),
            "value in seen states %": study.Beside(CAPACITY, 100 * found[-1]["seen"]),
            "value in random states %": 100 * found[-1]["random"],
            f"labels until {CAPACITY:.0f} %": enough,
        }
    }
    work.table("capacity", "A network taught random solved positions (section 4.3)", rows)
    figure, axes = style.panels(title="Capacity")
    for name in ("seen", "random"):
        axes.plot(
            [row["labels"] for row in found], [100 * row[name] for row in found], label=f"{name} states"
        )
    axes.axhline(CAPACITY, linestyle=":", color="#D55E00", label="thesis")
    axes.set(xlabel="labels", ylabel="% of values right")
    axes.legend()
    work.figure("capacity", figure)


def accuracy_on_seen(taught: study.StudyRun, run: study.StudyRun, most: int) -> list[dict[str, Any]]:
    """How often the values of each checkpoint are right in states of self-play, and in random ones held out."""
    config = taught.config
    solver = truth.solver_for(config.game, config.all_moves)
    known = supervision.label_seen(solver, run.path)
    order = np.random.default_rng(0).permutation(known.size)[:most]
    known = labelled.rows(known, order)
    held_out = {row["iteration"]: row["held_out"] for row in taught.metrics() if "held_out" in row}
    folder, rows = taught.trained, []
    for iteration in folder.snapshots:
        params = folder.load_agent(iteration)
        right = supervised.accuracy(config.game, config.network, params, known)
        labels = iteration * config.updates * config.batch_size
        rows.append({"labels": labels, "seen": right["value"], "random": held_out[iteration]["value"]})
    return rows


def transfer(work: study.Work[Settings]) -> None:
    """The weights of the large board on a still larger one, against a run that begins from nothing."""
    settings, large_run = work.settings, parallel(work, "large")
    if settings.published:
        work.say("the thesis's network has dense heads, made for one board: nothing to transfer")
        return
    game = dataclasses.replace(large_run.config.game, size=settings.transfer_size)
    config = dataclasses.replace(
        large_run.config, game=game, iterations=settings.transfer_iterations, save_every=1
    )
    cold = work.run("transfer-cold", config)
    warm = work.run("transfer-warm", config, begun_from=large_run)
    for run in (cold, warm):
        run.keep()
    agents = [player(run, settings.match_samples) for run in (warm, cold)]
    row = work.once(
        "transfer-warm against transfer-cold",
        lambda: meeting(game, *agents, settings.pairs, 2, work.progress),
        **about(warm),
        samples=settings.match_samples,
        pairs=settings.pairs,
    )
    rows = {
        f"as {side} player": {"% won": wins(row, side), "different games": row["distinct_games"]}
        for side in ("first", "second")
    }
    size = f"{game.size}x{game.size}"
    work.table(
        "transfer",
        f"{size}: begun with the weights of {large_run.config.game.size}x{large_run.config.game.size}, against begun"
        " from nothing",
        rows,
    )


def opponents(work: study.Work[Settings]) -> None:
    """Are the opponents in order? With a distance evaluation UCT is stronger, and with more playouts."""
    settings, game = work.settings, game_of(work.settings, "small")
    rows = {}
    for one, other in (
        ("uct-distance:200", "uct:200"),
        ("uct:200", "uct:20"),
        ("uct-distance:200", "uct-distance:20"),
    ):
        found = work.once(
            f"{one} against {other}",
            functools.partial(meeting, game, one, other, settings.pairs, 2, work.progress),
            game=str(game),
            pairs=settings.pairs,
        )
        low, high = (100 * end for end in found["interval"])
        rows[f"{one} against {other}"] = {
            "score %": 100 * found["score"],
            "95 % interval": f"{low:.0f} to {high:.0f}",
            "different games": found["distinct_games"],
        }
    work.table("opponents", "The opponents among themselves", rows)


def meeting(
    game: ChineseCheckers,
    one: str,
    other: str,
    pairs: int,
    random_plies: int = 2,
    progress: StagedProgress = lambda what, done, total: None,
) -> dict[str, Any]:
    """A match between two agents, from openings of so many random moves."""
    agents = (make_agent(in_full(text), game) for text in (one, other))
    match = make_match(game, *agents, pairs=pairs, random_plies=random_plies)
    result = match(
        None,
        None,
        keys.root(0, "judge"),
        progress=lambda done, games: progress(f"playing {other}", done, games),
    )
    sides = {"as_first": result.first._asdict(), "as_second": result.second._asdict()}
    return parts.score_row(result) | sides


def costs(settings: Settings) -> list[study.Cost]:
    """What each part asks of a machine."""
    runs = {board: config_of(settings, board) for board in ("small", "large")}
    found = [study.training_cost(f"self-play, {board}", config) for board, config in runs.items()]
    found.append(study.training_cost("self-play after a supervised start", runs["large"]))
    table = dataclasses.replace(game_of(settings, "large"), forward_only=False)
    found.append(
        study.Cost(
            "two tables of the large board, unless they are there", hours=4 * estimate(table)[1] / 3600
        )
    )
    searched = {  # samples per move of all matches of one checkpoint
        "last": settings.match_samples * len(settings.opponents) + sum(settings.perfect_samples),
        "each": settings.match_samples * len(settings.sweep_opponents) + sum(settings.sweep_perfect_samples),
    }
    for (board, config), moves in zip(runs.items(), (9, 17)):  # of the agent in a game
        points = config.iterations // config.save_every + 1
        for samples, pairs, often in (
            (searched["last"], settings.pairs, 1),
            (searched["each"], settings.pairs, 1),  # from other openings
            (searched["each"], settings.sweep_pairs, points),
        ):
            found.append(study.judging_cost(f"matches, {board}", config, 2 * pairs * moves, samples, often))
        for samples, asked, often in (
            (settings.policy_samples, settings.searched_positions, 1),
            (settings.sweep_policy_samples, settings.sweep_searched_positions, points),
        ):
            found.append(study.judging_cost(f"judging, {board}", config, 3 * asked, sum(samples), often))
    games = 2 * 2 * settings.pairs * 17  # before and after the supervised start
    found.append(study.judging_cost("the adversary", runs["large"], games, sum(settings.adversary_samples)))
    iterations = settings.supervised_iterations + settings.capacity_iterations
    learned = 3.0 * iterations * settings.capacity_positions
    found.append(study.Cost("supervised learning", runs["large"], learned))
    return found


STUDY = study.Study(
    "karki2024",
    __doc__,
    quick=quick(),
    full=full(),
    stages={  # the cheapest and most telling first; what needs the large table together
        "opponents": opponents,
        "naive": naive,
        "small": small,
        "small-truth": small_truth,
        "solved": solved,
        "large": large,
        "adversary": adversary,
        "capacity": capacity,
        "supervised-start": supervised_start,
        "large-matches": large_matches,
        "equal-time": equal_time,
        "transfer": transfer,
        "as-published": as_published,
    },
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
