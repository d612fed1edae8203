"""How strength grows with compute on boards of Hex: Jones 2021, "Scaling Scaling Laws with Board Games".

    python -m experiments.jones2021_scaling                          # every stage, scaled for two cores
    python -m experiments.jones2021_scaling --sizes 3 --only runs strength
    python -m experiments.jones2021_scaling --full --plan            # what an accelerator would have to do
    python -m experiments.jones2021_scaling --full

He trained AlphaZero with dense networks of many widths and depths on Hex 3x3 to 9x9, rated snapshots of all runs by
their games with each other, with perfect play as 0 Elo, and took the best rating at each training compute: the frontier
of a board. Frontiers follow one law: Elo stays at random play, then rises by so much per tenfold of compute, until play
is perfect; both corners move with the board. The text says: the rise is 500 Elo per tenfold; perfect play needs 7 times
the compute on a board that is larger by one, the first improvement over random play 4 times, and random play is 500 Elo
further from perfect play. Its table III has the fit: max(510 log10(compute) - 430 size - 4400, 570 - 270 size), at most
0, by which take-off moves by a factor of 2, and random play by 270 Elo; the two do not agree. On 9x9, tenfold training
saves 15 times the compute of a move: log10(test) = -1.2 log10(train) + 0.004 Elo + 29 (figure 9).

Where these numbers are from: the paper itself (arXiv 2104.03113) could not be opened here. Its claims are as gwern.net
quotes them, table III and the formula of figure 9 as notes of others do, and how he computed as his code does
(github.com/andyljones/boardlaw, analysis/data.py). There, an operation is a multiplication with its addition, and only
evaluations of self-play are counted; here XLA's operations of evaluations and of learning
(`machine.iteration_operations`). That changes compute by a constant factor, so slopes and factors are compared, and
offsets are not.

What differs besides: Gumbel search instead of his regularised one; dense layers without residual connections; half the
games of self-play begin with any first move; games of a match begin with two random moves, each opening with both
colours, so that players who draw nothing play different games; perfect play is a solver (beyond 5x5 with a limit on its
time) and not MoHex.

Runs of one network with several seeds are trained as one program (`azjax.train_many`), on a CPU too: two seeds on one
core took 0.77 to 0.97 of the time of one after the other, and the 15 s of compiling are spent once. A program that is
stopped begins again. Runs lie below --out; all games, match by match, in
experiments/results/jones2021/quick or full: when the runs are gone, no game is played and no finished stage done again.
"""

import dataclasses
import functools
import itertools
import math
import pathlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.optimize

from azjax import make_agent, train_many
from azjax.agents.trained import load_weights
from azjax.common.agent import Agent
from azjax.common.keys import root, stream
from azjax.envs import Hex
from azjax.evaluation import statistics, suites, tournament, truth
from azjax.evaluation.arena import make_match
from azjax.evaluation.ratings import Rating, maximum_likelihood
from azjax.nn.networks import NetworkConfig, make_network
from azjax.plots import style
from azjax.positions.drawn import random_play_positions
from azjax.training import checkpoint, machine
from azjax.training.config import (
    OptimiserConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
    config_to_dict,
)
from experiments import study

PERFECT, RANDOM = "perfect", "random"  # the players that do not learn
SHORT_OF_PERFECT = 50.0  # Elo below perfect play at which his code calls play perfect
RANDOM_PLIES = 2  # of each opening of a match
# Virtual games of each player, half of them won: without, who has won all its games has no finite rating.
PRIOR = 1.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much of everything."""

    sizes: tuple[int, ...] = (3, 4, 5, 6, 7)
    networks: tuple[tuple[int, int], ...] = ((8, 1), (32, 1), (64, 2), (128, 2))  # units, layers
    seeds: tuple[int, ...] = (0, 1)
    together: int | None = None  # seeds in one program; None for all, which pays on a CPU too
    iterations: int = 512  # of a run on 3x3
    growth: int = 2  # how many times longer a run is on a board that is larger by one
    snapshots: int = 9  # of a run, each after half as many iterations as the next; and the start
    lanes: int = 64
    plies: int = 8
    simulations: int = 16  # in self-play and in the matches of `strength`
    capacity: int = 16384
    batch_size: int = 256
    pairs: int = 16  # of games of a match, each opening with both colours
    solved_to: int = 5  # boards up to this size have positions asked, and a perfect player without a clock
    solved_positions: int = 256
    solver_seconds: float = 0.2  # for a question about a position of a larger board
    resamples: int = 200  # of the runs, for the intervals
    test_size: int = 5  # the board on which training is traded for search
    test_simulations: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    test_pairs: int = 8
    test_levels: tuple[int, ...] = (-1250, -1000, -750, -500, -250, -100)  # Elo


QUICK = Settings()
FULL = Settings(
    networks=((8, 1), (16, 1), (32, 1), (64, 2), (128, 2), (256, 4), (512, 4)),
    seeds=(0, 1, 2, 3),
    growth=3,
    iterations=256,
    lanes=1024,
    simulations=64,
    capacity=2**19,
    batch_size=1024,
    pairs=128,
    solved_positions=1024,
    solver_seconds=1.0,
    test_size=7,
    test_simulations=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    test_pairs=64,
)


class Law(NamedTuple):
    """Elo of the best player at a training compute on a board, with perfect play as 0: Jones's change-point model."""

    slope: float  # of the incline, per tenfold of compute
    slope_size: float  # per larger board
    offset: float
    plateau_size: float  # of random play, per larger board
    plateau_offset: float

    def __call__(self, log_compute: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Elo [...] at log10 of computes [...] on boards [...]."""
        incline = self.slope * log_compute + self.slope_size * size + self.offset
        return np.minimum(np.maximum(incline, self.plateau_size * size + self.plateau_offset), 0.0)

    @property
    def perfect_factor(self) -> float:
        """How many times the compute perfect play takes on a board that is larger by one."""
        return _ten_to(-self.slope_size / self.slope)

    @property
    def takeoff_factor(self) -> float:
        """The same of the first improvement over random play."""
        return _ten_to((self.plateau_size - self.slope_size) / self.slope)

    def perfect_at(self, size: int) -> float:
        """The log10 of the compute at which play is `SHORT_OF_PERFECT`."""
        return (-SHORT_OF_PERFECT - self.offset - self.slope_size * size) / self.slope


THEIRS = Law(slope=510, slope_size=-430, offset=-4400, plateau_size=-270, plateau_offset=570)  # table III
SAID = {"slope": 500, "perfect": 7, "takeoff": 4, "random": -500}  # sections IV-A1 to IV-A4
TEST_PER_TRAIN, TEST_PER_ELO = -1.2, 0.004  # figure 9


class Curve(NamedTuple):
    """The snapshots of a run, in the order of their compute."""

    size: int
    compute: np.ndarray  # [snapshots] operations of training
    elo: np.ndarray  # [snapshots]


class Frontier(NamedTuple):
    """The best rating at each compute, over the runs of each board."""

    log_compute: np.ndarray  # [points]
    size: np.ndarray  # [points]
    elo: np.ndarray  # [points]


def frontier(curves: Iterable[Curve], points: int = 101) -> Frontier:
    """The best of all runs of a board at as many computes: between its snapshots, a run is where the line is.

    As in Jones's code; a run counts from its first snapshot to its last.
    """
    by_size: dict[int, list[Curve]] = {}
    for curve in curves:
        by_size.setdefault(curve.size, []).append(curve)
    parts = []
    for size, runs in sorted(by_size.items()):
        logs = [np.log10(run.compute) for run in runs]
        at = np.linspace(min(log[0] for log in logs), max(log[-1] for log in logs), points)
        elos = [
            np.interp(at, log, run.elo, left=-np.inf, right=-np.inf)
            for log, run in zip(logs, runs, strict=True)
        ]
        best = np.max(elos, axis=0)
        known = np.isfinite(best)  # between the end of one run and the start of the next there may be nothing
        parts.append((at[known], np.full(known.sum(), float(size)), best[known]))
    return Frontier(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def fit_law(found: Frontier, start: Law | None = None) -> Law:
    """The law with the least squares, from several starts, or from one.

    Of a single board nobody knows what a larger one would change: what is per board is then 0.

    Args:
      found: what to fit.
      start: a law nearby; None to begin with inclines of several slopes through the middle of the points.
    """
    # About their means, so that no parameter does another's work.
    log_mean, size_mean = found.log_compute.mean(), found.size.mean()
    x, s = found.log_compute - log_mean, found.size - size_mean

    def residuals(parameters: np.ndarray) -> np.ndarray:
        return Law(*parameters)(x, s) - found.elo

    if start is None:
        low, high = found.elo.min(), found.elo.max()
        plateaus = [found.elo[found.size == size].min() for size in np.unique(found.size)]
        per_size = np.polyfit(np.unique(s), plateaus, 1) if len(plateaus) > 1 else (0.0, plateaus[0])
        starts = [
            (slope, -ratio * slope * (len(plateaus) > 1), (low + high) / 2, *per_size)
            for slope, ratio in itertools.product((125.0, 250.0, 500.0, 1000.0), (0.0, 0.4, 0.8, 1.2))
        ]
    else:
        starts = [
            (
                start.slope,
                start.slope_size,
                start.offset + start.slope * log_mean + start.slope_size * size_mean,
                start.plateau_size,
                start.plateau_offset + start.plateau_size * size_mean,
            )
        ]
    best = min((scipy.optimize.least_squares(residuals, one) for one in starts), key=lambda fit: fit.cost)
    slope, slope_size, offset, plateau_size, plateau_offset = map(float, best.x)
    return Law(
        slope,
        slope_size,
        offset - slope * log_mean - slope_size * size_mean,
        plateau_size,
        plateau_offset - plateau_size * size_mean,
    )


def resampled_laws(curves: Sequence[Curve], law: Law, number: int, seed: int = 0) -> list[Law]:
    """The laws of other draws of as many runs of each board, with replacement: how much hangs on single runs."""
    draw = np.random.default_rng(seed)
    by_size = [[curve for curve in curves if curve.size == size] for size in sorted({c.size for c in curves})]
    found = []
    for _ in range(number):
        drawn = [runs[i] for runs in by_size for i in draw.integers(len(runs), size=len(runs))]
        found.append(fit_law(frontier(drawn), law))
    return found


class Corner(NamedTuple):
    """Where a line of equal strength bends: with so much training, so much for a move is enough."""

    elo: float
    log_train: float
    log_test: float


def corners(
    log_train: np.ndarray, log_test: np.ndarray, elo: np.ndarray, levels: Sequence[float]
) -> list[Corner]:
    """The cheapest players of some strengths: nobody as strong has less of both training and search.

    Args:
      log_train: [players] log10 of the compute of training.
      log_test: [players] of a move.
      elo: [players]
      levels: the strengths.
    """
    found = []
    order = np.lexsort((log_test, log_train))
    for level in levels:
        least = math.inf
        for player in order[elo[order] >= level]:
            if log_test[player] < least:
                least = float(log_test[player])
                found.append(Corner(float(level), float(log_train[player]), least))
    return found


def exchange(found: Sequence[Corner]) -> tuple[float, float, float] | None:
    """The plane log10(test) = a log10(train) + b Elo + c of least squares; None if the corners do not tell."""
    if not found:
        return None
    elo, log_train, log_test = np.array(found).T
    design = np.stack([log_train, elo, np.ones_like(elo)], axis=1)
    plane, _, rank, _ = np.linalg.lstsq(design, log_test, rcond=None)
    return tuple(map(float, plane)) if rank == 3 and len(found) > 3 else None


class Player(NamedTuple):
    """A snapshot of a run."""

    network: tuple[int, int]
    seed: int
    iteration: int

    @property
    def name(self) -> str:
        """Such as `64x2 seed 0 after 32`."""
        return f"{_shape(self.network)} seed {self.seed} after {self.iteration}"


def config_of(settings: Settings, size: int, network: tuple[int, int], seed: int = 0) -> TrainConfig:
    """A run."""
    units, layers = network
    return TrainConfig(
        game=Hex(size=size),
        network=NetworkConfig(
            tower="mlp", blocks=layers, channels=units, heads="dense", global_pooling=False, value_hidden=0
        ),
        search=SearchConfig(kind="gumbel", simulations=settings.simulations),
        selfplay=SelfplayConfig(lanes=settings.lanes, plies=settings.plies, openings="A1", opening_share=0.5),
        # Learning begins at once, so that every iteration takes the operations that are counted.
        replay=ReplayConfig(
            capacity=settings.capacity, batch_size=settings.batch_size, reuse=4.0, warm_up=settings.lanes
        ),
        optimiser=OptimiserConfig(name="adamw", learning_rate=2e-3, weight_decay=1e-4, ema=0.9),
        iterations=max(2, round(settings.iterations * settings.growth ** (size - 3))),
        seed=seed,
    )


def snapshots_of(settings: Settings, size: int) -> list[int]:
    """After which iterations a run has a snapshot: 0, the last one, and before it always half as many."""
    last = config_of(settings, size, settings.networks[0]).iterations
    return sorted({0, *(math.ceil(last / 2**halvings) for halvings in range(settings.snapshots))})


def seeds_beside(settings: Settings, seed: int) -> tuple[int, ...]:
    """The seeds that are trained in one program with this one, itself included."""
    width = settings.together or len(settings.seeds)
    begin = settings.seeds.index(seed) // width * width
    return settings.seeds[begin : begin + width]


def run_of(work: study.Work[Settings], size: int, network: tuple[int, int], seed: int) -> study.StudyRun:
    """A run; whoever first needs one trains all that are in its program."""
    settings = work.settings
    config = config_of(settings, size, network, seed)
    kept = snapshots_of(settings, size)

    def learn(
        folder: pathlib.Path, resume: bool, start: pathlib.Path | None, progress: Callable[[int, int], None]
    ) -> checkpoint.Run:
        del resume, start  # what was not finished begins again
        folders = {
            other: folder.parent / _run_name(size, network, other) for other in seeds_beside(settings, seed)
        }
        missing = [other for other, path in folders.items() if not _is_whole(path, config)]
        train_together(config, missing, [folders[other] for other in missing], kept, progress)
        return checkpoint.open_run(folder)

    lesson = study.Lesson(learn, {"snapshots": kept})
    return work.run(_run_name(size, network, seed), config, lesson=lesson)


def train_together(
    config: TrainConfig,
    seeds: Sequence[int],
    folders: Sequence[pathlib.Path],
    snapshots: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Trains runs in one program, and writes their snapshots and metrics into a folder each when they are done.

    Args:
      config: of all of them, but for the seed.
      seeds: of the runs.
      folders: where they go; what is there of a run that was cut short is removed.
      snapshots: iterations; the last one is among them.
      progress: called with every iteration's number and how many there are.
    """
    begun, seconds = time.perf_counter(), []

    def watch(iteration: int, rows: Any) -> None:
        seconds.append(time.perf_counter() - begun)
        progress(iteration, config.iterations)

    found = train_many(config, list(seeds), snapshots=snapshots, watch=watch)
    for number, (own, folder) in enumerate(zip(found.configs, folders, strict=True)):
        shutil.rmtree(folder, ignore_errors=True)
        run = checkpoint.new_run(folder, own)
        run.begin()
        for row, when in zip(found.rows[number], seconds, strict=True):
            run.append_metrics(row | {"seconds": when})
        for iteration in snapshots:  # the last one at last: then the run is whole
            run.save_agent(iteration, found.snapshots[iteration][number])


def parameters_of(config: TrainConfig) -> int:
    """How many numbers a network has."""
    shapes = jax.eval_shape(make_network(config.network, config.game).init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def train_compute(config: TrainConfig, iterations: int) -> float:
    """Operations of the network in so many iterations: what the searches ask, and learning."""
    return iterations * _operations(config)[0]


def test_compute(config: TrainConfig, simulations: int) -> float:
    """Operations of the network for a move."""
    return (simulations + 1) * _operations(config)[1]


def players_of(settings: Settings, size: int) -> list[Player]:
    """All snapshots of a board, in the order of their compute; those of the start are alike but for their weights."""
    found = [
        Player(network, seed, iteration)
        for network in settings.networks
        for seed in settings.seeds
        for iteration in snapshots_of(settings, size)
    ]
    return sorted(found, key=lambda one: (_compute_of(settings, size, one), *one))


def agents_of(
    work: study.Work[Settings], size: int, players: Sequence[Player], simulations: int
) -> dict[Player, Agent]:
    """The players; those of one network share a compiled search."""
    found, searching = {}, {}
    for player in players:
        path = run_of(work, size, player.network, player.seed).agent(player.iteration)
        if player.network not in searching:
            searching[player.network] = make_agent(f"az:{path}?sims={simulations}", Hex(size=size))
        found[player] = searching[player.network]._replace(name=player.name, params=load_weights(path)[1])
    return found


def pairings(names: Sequence[str]) -> list[tuple[str, str]]:
    """Who meets whom: everybody those 1, 2, 4, 8, ... places further on; one half random play, the other perfect.

    So the games of a player grow with the logarithm of how many there are, and any two are few steps apart.

    Args:
      names: of those who learn, in an order in which neighbours are about as strong.
    """
    steps = [2**power for power in range(max(1, len(names) - 1).bit_length())]
    found = [
        (one, names[at + step]) for at, one in enumerate(names) for step in steps if at + step < len(names)
    ]
    ends = [(one, RANDOM if 2 * at < len(names) else PERFECT) for at, one in enumerate(names)]
    return [*found, *ends, (RANDOM, PERFECT)]


def rate(
    work: study.Work[Settings],
    what: str,
    size: int,
    names: Sequence[str],
    make: Callable[[], Mapping[str, Agent]],
    pairs: int,
    told: Mapping[str, Any],
) -> dict[str, Rating]:
    """Ratings with perfect play as 0, from games that are played where the file of them does not have them yet.

    Args:
      work: the study.
      what: the name of the file.
      size: of the board.
      names: of those who learn, see `pairings`.
      make: returns the players by name; called if there is anything to play.
      pairs: of games of a match.
      told: what the games depend on, as plain data: a file with other games is refused.
    """
    settings, game = work.settings, Hex(size=size)
    anchor = PERFECT if size <= settings.solved_to else f"{PERFECT}?seconds={settings.solver_seconds:g}"
    told = {"pairs": pairs, "random_plies": RANDOM_PLIES, "perfect": anchor, **told}
    work.results.mkdir(parents=True, exist_ok=True)
    results = tournament.Results(work.results / f"{what}.jsonl", game, told)
    played = {match[:2] for match in results.matches}
    wanted = pairings(names)
    if missing := [pairing for pairing in wanted if pairing not in played]:
        agents = {RANDOM: make_agent(RANDOM, game), PERFECT: make_agent(anchor, game), **make()}
        begun, cpu = time.perf_counter(), time.process_time()
        for player, opponent in missing:
            match = make_match(game, agents[player], agents[opponent], pairs=pairs, random_plies=RANDOM_PLIES)
            result = match(None, None, stream(root(0, "judge"), f"{player}\n{opponent}"))
            results.add(tournament.of_result(player, opponent, result))
            work.progress(f"matches of {what}", len(results.matches), len(wanted))
        agents[PERFECT].close()
        work.note_cost(what, time.perf_counter() - begun, time.process_time() - cpu)
    ratings = maximum_likelihood(results.scores(), anchor=PERFECT, prior=PRIOR)
    return {rating.name: rating for rating in ratings}


def board_ratings(work: study.Work[Settings], size: int) -> dict[str, Rating]:
    """The ratings of all snapshots of a board, and of random and perfect play."""
    settings = work.settings
    players = players_of(settings, size)
    return rate(
        work,
        f"games-{size}x{size}",
        size,
        [player.name for player in players],
        lambda: {
            player.name: agent
            for player, agent in agents_of(work, size, players, settings.simulations).items()
        },
        settings.pairs,
        {"runs": _told(settings, size, settings.seeds)},
    )


def shares_right(work: study.Work[Settings], size: int) -> dict[str, float]:
    """In how many solved positions, where the move matters, each snapshot of a board keeps the value."""
    settings = work.settings

    def ask() -> dict[str, float]:
        game = Hex(size=size)
        key = root(0, "judge")
        states = random_play_positions(game, stream(key, "solved"), 4 * settings.solved_positions, 2)
        known = truth.label(truth.solver_for(game), states)
        known = truth.some(truth.some(known, known.is_decision), slice(0, settings.solved_positions))
        found = {}
        for player, agent in agents_of(work, size, players_of(settings, size), settings.simulations).items():
            moves = suites.ask(agent, key, known.states)
            found[player.name] = float(np.mean(known.optimal[np.arange(len(moves)), moves]))
        return found

    return work.once(
        f"solved {size}x{size}",
        ask,
        runs=_told(settings, size, settings.seeds),
        positions=settings.solved_positions,
    )


def curves_of(work: study.Work[Settings], size: int) -> dict[tuple[tuple[int, int], int], Curve]:
    """The ratings of the snapshots of each run of a board over its compute; the start, which has none, is left out."""
    settings, ratings = work.settings, board_ratings(work, size)
    found = {}
    for network in settings.networks:
        for seed in settings.seeds:
            players = [Player(network, seed, iteration) for iteration in snapshots_of(settings, size)[1:]]
            computes = [_compute_of(settings, size, player) for player in players]
            elos = [ratings[player.name].elo for player in players]
            found[network, seed] = Curve(size, np.array(computes), np.array(elos))
    return found


def runs(work: study.Work[Settings]) -> None:
    """Trains every network on every board, and says what it took."""
    settings, rows = work.settings, {}
    for size in settings.sizes:
        for network in settings.networks:
            made = [run_of(work, size, network, seed) for seed in settings.seeds]
            costs = [work.cost_of(run) for run in made]
            if size == settings.test_size:
                made[0].keep(*snapshots_of(settings, size))
            config = made[0].config
            rows[f"{size}x{size}, {_label(network)}"] = {
                "parameters": parameters_of(config),
                "operations per evaluation": _operations(config)[1],
                "iterations": config.iterations,
                "positions": costs[0]["positions"],
                "operations of training": f"{train_compute(config, config.iterations):.2e}",
                "runs": len(made),
                "minutes": statistics.mean([cost["minutes"] for cost in costs]),
            }
            work.table(
                "runs",
                "What was trained",
                rows,
                notes=("Minutes: of the program of one to several runs, compiling included.",),
            )


def strength(work: study.Work[Settings]) -> None:
    """Rates all snapshots of each board by their games, and asks them about solved positions where there are any."""
    settings = work.settings
    for size in settings.sizes:
        ratings, curves = board_ratings(work, size), curves_of(work, size)
        right = shares_right(work, size) if size <= settings.solved_to else {}
        rows = {}
        for network in settings.networks:
            ends = [Player(network, seed, snapshots_of(settings, size)[-1]).name for seed in settings.seeds]
            best = max((curves[network, seed] for seed in settings.seeds), key=lambda curve: curve.elo.max())
            rows[_label(network)] = {
                "operations of training": f"{best.compute[-1]:.2e}",
                "Elo at the end": statistics.mean([ratings[name].elo for name in ends]),
                "95 % of one": f"± {max(ratings[name].plus for name in ends):.0f}",
                "best Elo": float(best.elo.max()),
                "solved positions right %": statistics.mean([100 * right[name] for name in ends])
                if right
                else None,
            }
        rows["random play"] = {
            "Elo at the end": ratings[RANDOM].elo,
            "95 % of one": f"± {ratings[RANDOM].plus:.0f}",
        }
        notes = [
            "Elo by Bradley and Terry, perfect play is 0; means over seeds with Student's 95 % intervals, which leave"
            " out what a rating owes to its games: that of one rating stands beside.",
            f"{len(ratings)} players, {sum(rating.games for rating in ratings.values()) // 2} games; a player's own"
            f" search has {settings.simulations} simulations.",
        ]
        if size > settings.solved_to:
            notes.append(
                f"The perfect player has {settings.solver_seconds:g} s for a question; where it proves nothing in that"
                " time, it may be wrong."
            )
        work.table(f"strength-{size}x{size}", f"Hex {size}x{size}", rows, digits=0, notes=notes)


def laws(work: study.Work[Settings]) -> None:
    """The frontier of each board, Jones's law of all of them, and his numbers beside ours."""
    settings = work.settings
    by_board = {size: list(curves_of(work, size).values()) for size in settings.sizes}
    distances = {size: board_ratings(work, size)[RANDOM].elo for size in settings.sizes}
    curves = [curve for some in by_board.values() for curve in some]
    found = frontier(curves)
    law = fit_law(found)
    others = resampled_laws(curves, law, settings.resamples)
    work.table(
        "law",
        f"Jones's law on Hex {settings.sizes[0]}x{settings.sizes[0]} to {settings.sizes[-1]}x{settings.sizes[-1]}",
        law_rows(law, others, distances),
        notes=law_notes(law, found),
    )
    rows = {}
    for size, some in by_board.items():
        points = frontier(some)
        own = fit_law(points)
        risen = own.slope if points.elo.max() > own.plateau_offset + 1 else math.nan
        rows[f"{size}x{size}"] = {
            "random play": distances[size],
            "best": float(points.elo.max()),
            "Elo per tenfold, this board alone": risen,
            "by the law": law.slope,
            "perfect at log10 of compute, by the law": f"{law.perfect_at(size):.2f}",
            "reached": f"{points.log_compute[np.argmax(points.elo)]:.2f}",
        }
    note = f"Perfect: {SHORT_OF_PERFECT:g} Elo below perfect play, as in Jones's code. Reached: where the best is."
    work.table("boards", "The frontier of each board", rows, digits=0, notes=(note,))
    work.figure("frontier", frontier_figure(by_board, law))


def law_rows(law: Law, others: Sequence[Law], distances: Mapping[int, float]) -> dict[str, dict[str, Any]]:
    """The lines of the table of the law.

    Args:
      law: the fit.
      others: of other draws of the runs.
      distances: the rating of random play on each board.
    """
    rows = {"Elo per tenfold of compute": _cells(SAID["slope"], lambda one: one.slope, law, others)}
    if len(distances) == 1:
        return rows
    random = float(np.polyfit(list(distances), list(distances.values()), 1)[0])
    return rows | {
        "times the compute of perfect play, per larger board": _cells(
            SAID["perfect"], lambda one: one.perfect_factor, law, others
        ),
        "times the compute of take-off, per larger board": _cells(
            SAID["takeoff"], lambda one: one.takeoff_factor, law, others
        ),
        "Elo of random play per larger board, by the law": _cells(
            SAID["random"], lambda one: one.plateau_size, law, others
        ),
        "the same, by games of the random player": {"Jones, text": SAID["random"], "ours": random},
    }


def law_notes(law: Law, found: Frontier) -> list[str]:
    """What stands below the table of the law."""
    left = np.sqrt(np.mean((law(found.log_compute, found.size) - found.elo) ** 2))
    return [
        "Jones: what his text says and what his table III gives; on take-off and random play they do not agree.",
        "Intervals: 95 % of the laws of other draws of our runs, with replacement.",
        f"Ours: max({law.slope:.0f} log10(compute) {law.slope_size:+.0f} size {law.offset:+.0f},"
        f" {law.plateau_size:+.0f} size {law.plateau_offset:+.0f}), at most 0; the frontier lies {left:.0f} Elo from it"
        " (root of the mean square). Compute is counted otherwise than his, by a constant factor: offsets do not"
        " compare.",
    ]


def test_time(work: study.Work[Settings]) -> None:
    """Training against search on one board: how much of the one buys how much of the other."""
    settings, size = work.settings, work.settings.test_size
    seed = settings.seeds[0]
    # Every second snapshot, the last one among them; each with every number of simulations.
    players = [
        Player(network, seed, iteration)
        for network in settings.networks
        for iteration in snapshots_of(settings, size)[:0:-2]
    ]

    def costs_of(player: Player, simulations: int) -> tuple[float, float]:
        config = config_of(settings, size, player.network, seed)
        return train_compute(config, player.iteration), test_compute(config, simulations)

    entrants = {
        f"{player.name}, {simulations} simulations": costs_of(player, simulations)
        for player in players
        for simulations in settings.test_simulations
    }
    # Neighbours are about as strong, if training and search are worth about the same.
    names = sorted(entrants, key=lambda name: math.prod(entrants[name]))

    def make() -> dict[str, Agent]:
        return {
            f"{player.name}, {simulations} simulations": agent
            for simulations in settings.test_simulations
            for player, agent in agents_of(work, size, players, simulations).items()
        }

    ratings = rate(
        work,
        f"test-time-{size}x{size}",
        size,
        names,
        make,
        settings.test_pairs,
        {"runs": _told(settings, size, (seed,)), "simulations": list(settings.test_simulations)},
    )
    train, test = np.log10([entrants[name] for name in names]).T
    elo = np.array([ratings[name].elo for name in names])
    found = corners(train, test, elo, settings.test_levels)
    plane = exchange(found)
    ours = (None, None) if plane is None else plane[:2]
    rows = {
        "log10 of a move's compute per tenfold of training": {
            "Jones, figure 9": TEST_PER_TRAIN,
            "ours": ours[0],
        },
        "times the compute of a move that tenfold training saves": {
            "Jones, figure 9": _ten_to(-TEST_PER_TRAIN),
            "ours": None if ours[0] is None else _ten_to(-ours[0]),
        },
        "log10 of a move's compute per 100 Elo": {
            "Jones, figure 9": 100 * TEST_PER_ELO,
            "ours": None if ours[1] is None else 100 * ours[1],
        },
    }
    notes = [
        f"Jones: 9x9, 1 to 512 nodes; ours: {size}x{size}, {min(settings.test_simulations)} to"
        f" {max(settings.test_simulations)} simulations, {len(names)} players, {len(found)} corners of the lines of"
        f" {', '.join(map(str, settings.test_levels))} Elo.",
    ]
    if plane is None:
        notes.append("Too few players bend the lines: stronger, longer or more runs would tell.")
    work.table("test-time", f"Training against search on Hex {size}x{size}", rows, digits=2, notes=notes)
    curves = {
        player: [
            (
                test_compute(config_of(settings, size, player.network), s),
                ratings[f"{player.name}, {s} simulations"].elo,
            )
            for s in settings.test_simulations
        ]
        for player in players
    }
    work.figure("test-time", test_time_figure(curves, found, plane))


def frontier_figure(by_board: Mapping[int, Sequence[Curve]], law: Law) -> Any:
    """Figures 5 and 6: every run, the best of each board, and the law."""
    figure, axes = style.panels(title="Elo over training compute")
    for size, runs_ in by_board.items():
        points, colour = frontier(runs_), style.COLOURS[(size - 2) % len(style.COLOURS)]
        for curve in runs_:
            axes.plot(curve.compute, curve.elo, color=colour, alpha=0.25, linewidth=0.8)
        at = 10**points.log_compute
        axes.plot(at, points.elo, color=colour, linewidth=2, label=f"{size}x{size}")
        axes.plot(at, law(points.log_compute, points.size), color=colour, linestyle=":")
    axes.set(xscale="log", xlabel="operations of the network in training", ylabel="Elo, perfect play is 0")
    axes.legend(loc="lower right")
    return figure


def test_time_figure(
    curves: Mapping[Player, Sequence[tuple[float, float]]],
    found: Sequence[Corner],
    plane: tuple[float, float, float] | None,
) -> Any:
    """Figures 8 and 9: Elo over the compute of a move for each snapshot, and the lines of equal strength."""
    figure, (left, right) = style.panels(1, 2)
    networks = list(dict.fromkeys(player.network for player in curves))
    for player, points in curves.items():
        colour = style.COLOURS[networks.index(player.network) % len(style.COLOURS)]
        first = player == next(one for one in curves if one.network == player.network)
        left.plot(*zip(*points), color=colour, marker=".", label=_label(player.network) if first else None)
    left.set(xscale="log", xlabel="operations of the network for a move", ylabel="Elo, perfect play is 0")
    left.legend(loc="lower right")
    for number, level in enumerate(dict.fromkeys(corner.elo for corner in found)):
        own = [corner for corner in found if corner.elo == level]
        train = np.array([corner.log_train for corner in own])
        colour = style.COLOURS[number % len(style.COLOURS)]
        right.step(
            10**train,
            [10**corner.log_test for corner in own],
            where="post",
            color=colour,
            label=f"{level:.0f}",
        )
        if plane is not None:
            right.plot(10**train, 10 ** (plane[0] * train + plane[1] * level + plane[2]), ":", color=colour)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="operations of the network in training",
        ylabel="operations for a move",
    )
    if found:
        right.legend(loc="upper right", title="Elo")
    return figure


def costs(settings: Settings) -> list[study.Cost]:
    """Trainings, and the games of both stages that rate."""
    found = []
    for size in settings.sizes:
        config = config_of(settings, size, settings.networks[-1])
        for network in settings.networks:
            own = config_of(settings, size, network)
            label = f"{size}x{size}, {_label(network)}"
            cost = study.training_cost(label, own, len(settings.seeds))
            searched = len(settings.seeds) * own.iterations * settings.lanes * settings.plies
            programs = math.ceil(len(settings.seeds) / (settings.together or len(settings.seeds)))
            found.append(cost._replace(hours=other_hours(size, searched, settings.simulations, programs)))
        moves = len(pairings([player.name for player in players_of(settings, size)]))
        moves *= 2 * settings.pairs * game_length(size)
        cost = study.judging_cost(f"{size}x{size}, ratings", config, round(moves), settings.simulations)
        hours = other_hours(size, moves, settings.simulations, len(settings.networks))
        against_perfect = len(players_of(settings, size)) // 2 * 2 * settings.pairs
        found.append(cost._replace(hours=hours + perfect_hours(size, settings, against_perfect)))
    size, longest = settings.test_size, settings.test_simulations
    snapshots = len(snapshots_of(settings, size)[:0:-2]) * len(settings.networks)
    moves = len(pairings([str(number) for number in range(snapshots * len(longest))]))
    moves *= 2 * settings.test_pairs * game_length(size)
    simulations = round(statistics.mean([float(number) for number in longest]).mean)
    cost = study.judging_cost(
        "training against search", config_of(settings, size, settings.networks[-1]), round(moves), simulations
    )
    hours = other_hours(size, moves, simulations, len(settings.networks) * len(longest))
    against_perfect = snapshots * len(longest) // 2 * 2 * settings.test_pairs
    return [*found, cost._replace(hours=hours + perfect_hours(size, settings, against_perfect))]


def game_length(size: int) -> float:
    """The usual moves of a game."""
    return 0.6 * size**2


def other_hours(size: int, searches: float, simulations: int, programs: int) -> float:
    """Hours of one core that networks do not take: trees and rules, of small networks the most, and compiling."""
    return (searches * (simulations + 1) * (0.8e-6 + 4.5e-8 * size**2) + 15 * programs) / 3600


def _ten_to(exponent: float) -> float:
    """Infinite where no float holds it: the law of a few points may have hardly any slope."""
    return 10**exponent if exponent < 300 else math.inf


def perfect_hours(size: int, settings: Settings, games: int) -> float:
    """Hours of one core of the perfect player, who needs no search where there is a table."""
    a_game = 0.0 if size <= 4 else 0.5
    return games * min(a_game, game_length(size) * settings.solver_seconds) / 3600


@functools.lru_cache(maxsize=256)
def _operations(config: TrainConfig) -> tuple[float, float]:
    """Operations of an iteration, and of one evaluation."""
    return machine.iteration_operations(config), machine.evaluation_operations(config)


def _cells(said: float, of: Callable[[Law], float], law: Law, others: Sequence[Law]) -> dict[str, Any]:
    cells = {"Jones, text": said, "Jones, table III": of(THEIRS), "ours": of(law)}
    if others:
        low, high = np.percentile([of(one) for one in others], (2.5, 97.5))
        cells["95 %"] = f"{low:.1f} to {high:.1f}"
    return cells


def _compute_of(settings: Settings, size: int, player: Player) -> float:
    return train_compute(config_of(settings, size, player.network), player.iteration)


def _told(settings: Settings, size: int, seeds: Sequence[int]) -> dict[str, Any]:
    """What the ratings of a board depend on besides their games."""
    configs = {
        _shape(network): config_to_dict(config_of(settings, size, network)) for network in settings.networks
    }
    return {"configs": configs, "seeds": list(seeds), "snapshots": snapshots_of(settings, size)}


def _is_whole(folder: pathlib.Path, config: TrainConfig) -> bool:
    if not (folder / "config.json").exists():
        return False
    return max(checkpoint.open_run(folder).snapshots, default=-1) >= config.iterations


def _run_name(size: int, network: tuple[int, int], seed: int) -> str:
    return f"{size}x{size}-{_shape(network)}-{seed}"


def _shape(network: tuple[int, int]) -> str:
    return f"{network[0]}x{network[1]}"


def _label(network: tuple[int, int]) -> str:
    units, layers = network
    return f"{units} units x {layers} layer" + "s" * (layers > 1)


STUDY = study.Study(
    "jones2021",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={"runs": runs, "strength": strength, "frontier": laws, "test-time": test_time},
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
