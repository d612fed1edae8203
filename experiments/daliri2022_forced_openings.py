"""Do games that begin with forced moves make a stronger player? Daliri 2022, "Experiments with Hex in OpenSpiel".

    python -m experiments.daliri2022_forced_openings                      # every stage, scaled for two cores
    python -m experiments.daliri2022_forced_openings --only agents curves # some of them
    python -m experiments.daliri2022_forced_openings --sizes 6            # every stage, on one board
    python -m experiments.daliri2022_forced_openings --full               # the thesis's settings, for an accelerator

He trained five agents on Hex 6x6 and 8x8 that differ in one thing: whether every game of self-play begins with one, two
or three forced moves drawn from all legal ones (A1, A2, A3), any of those (A123), or none (baseline). Each checkpoint
was asked about a suite of solved positions with winning moves, and scored by the share it answers with one (WMSR). All
forced agents beat the baseline: at the best checkpoint 100 % against 85 % (6x6, Black), 72.8 % against 48.4 % (8x8).

Here the same is asked again, on suites built by his pipeline: source games of an agent against a solver player, every
position once, all moves proven backwards from the end, the hardest of every number of stones. Positions that any preset
opens games with are left out, so that nobody is asked what he was shown. Ours are other suites and, with the quick
settings, another network, search and budget than his: shares are comparable among our agents, not with his. A sixth
agent opens with winning moves alone, which he proposes; on 8x8 one begins with the weights of 6x6.

Stages go on where they were stopped. Runs lie below --out; tables, figures, suites, and whatever later stages need, in
experiments/results/daliri2022/quick or full: when the runs are gone, no finished run or stage is done again. So every
agent is asked about the suite as soon as it is trained, and its last weights are kept in half precision; of the agent
that the suite is made with those of all checkpoints, for it is asked later and meets the solver player with each.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from azjax import make_agent, positions, theses
from azjax.agents.trained import load_weights
from azjax.common import atomic
from azjax.envs import Hex
from azjax.evaluation import ladder, statistics, suite_building, suites
from azjax.evaluation.arena import make_match
from azjax.evaluation.curve import series
from azjax.plots import boards, curves, report
from azjax.positions import openings_database
from azjax.solvers import make_solver
from azjax.training.config import TrainConfig
from experiments import study

FORCED = ("A1", "A2", "A3", "A123")
COLOURS = {"Black to play": "first_player", "White to play": "second_player"}


@dataclasses.dataclass(frozen=True)
class Board:
    """What is done on one board."""

    size: int
    agents: tuple[str, ...] = (
        "baseline",
        *FORCED,
    )  # and "winning", and "grown" from the weights of the smaller board
    seeds: tuple[int, ...] = (0,)
    repeated: tuple[str, ...] = ()  # agents that are trained with more seeds:
    more_seeds: tuple[int, ...] = (1,)
    iterations: int = 100
    checkpoints: int = 20  # kept and judged, besides the start
    source_pairs: int = 500  # games of the source agent against the solver player, with each colour
    fewest_moves: int = 0  # of positions of the suite
    most_moves: int | None = None
    min_winning: int = 1
    max_winning: int = 5
    per_colour: int | None = None  # positions of the suite; as the thesis has it if None
    most_candidates: int | None = None  # of the positions proven for the suite, drawn at random; all if None
    solver_seconds: float | None = None  # of the solver player for a move; as long as it takes if None
    solver_nodes: int | None = None  # after so many a position counts as not proven
    validity_pairs: int = 50  # games of each of some checkpoints against the solver player


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much of everything."""

    small: Board
    large: Board
    # Without agents: the small board's are asked about a suite from their games there. No board if no game is played.
    between: Board = Board(7, agents=(), source_pairs=0)
    sizes: tuple[int, ...] = ()  # the boards to work on now; all if empty
    preset: str = ""  # whose network, search and replay all agents have; "" for Table 5.1 of the thesis
    source: str = "A3"  # the agent whose games the suites are made of
    source_simulations: int = 200
    simulations: int = 1000  # of the evaluation search, the evaluation of the root included (Table 7.2)
    c: float = 2.0
    solve: bool = True
    uct: tuple[int, ...] = (1000, 10_000)  # other players that are asked about the suites
    raw_simulations: tuple[int, ...] = (64,)  # the last checkpoints are asked with these, too
    match_pairs: int = 500  # the best agent against the baseline, both colours
    validity_checkpoints: int = 8  # that meet the solver player
    processes: int = 2  # that prove positions side by side
    laddered: tuple[str, ...] = ("A3",)  # agents that climb the ladder of UCT players while they train
    ladder_pairs: int = 5
    ladder_levels: int = 5
    ladder_simulations: int = 150

    @property
    def boards(self) -> tuple[Board, ...]:
        """Those with agents on which there is anything to do."""
        return tuple(board for board in (self.small, self.large) if board.agents and self._is_wanted(board))

    @property
    def boards_with_suites(self) -> tuple[Board, ...]:
        """Those, and the one between."""
        is_there = self.between.source_pairs > 0 and self._is_wanted(self.between)
        return (*self.boards, self.between) if is_there else self.boards

    def _is_wanted(self, board: Board) -> bool:
        return not self.sizes or board.size in self.sizes


QUICK = Settings(
    small=Board(
        6,
        agents=("baseline", *FORCED, "winning"),
        repeated=("baseline", "A1", "A3"),
        iterations=600,
        checkpoints=20,
        fewest_moves=4,  # all earlier positions are openings of A1, A2 or A3
        most_moves=16,
        per_colour=100,
        validity_pairs=63,  # with eight checkpoints a thousand games, as in Table 7.1
    ),
    large=Board(
        8,
        agents=("baseline", "A1", "A3", "A123", "grown"),
        iterations=1600,
        checkpoints=10,
        fewest_moves=7,
        most_moves=22,
        min_winning=2,
        max_winning=4,
        per_colour=250,
        solver_seconds=0.5,
        validity_pairs=25,
    ),
    between=Board(7, agents=(), fewest_moves=5, most_moves=19, per_colour=100, solver_seconds=0.5),
    preset="hex6",
)
FULL = Settings(
    small=Board(
        6,
        agents=("baseline", *FORCED, "winning"),
        seeds=(0, 1, 2),
        checkpoints=100,
        fewest_moves=4,  # all earlier positions are openings of A1, A2 or A3
        most_moves=16,
        per_colour=100,
    ),
    large=Board(
        8,
        seeds=(0, 1, 2),
        iterations=200,
        checkpoints=200,
        fewest_moves=7,
        most_moves=22,
        min_winning=2,
        max_winning=4,
        per_colour=250,
        solver_seconds=5.0,
    ),
    between=Board(7, agents=(), fewest_moves=5, most_moves=19, per_colour=100, solver_seconds=0.5),
)


# Section 7.2: the first global maximum in percent, its step, and the share after the last step (None: not reported).
PEAKS = {
    (6, "Black to play"): {
        "baseline": (85.0, 28, 77),
        "A1": (96.0, 27, 96),
        "A2": (96.0, 67, 90),
        "A3": (100.0, 97, 100),
        "A123": (99.0, 90, 90),
    },
    (6, "White to play"): {
        "baseline": (89.0, 22, 80),
        "A1": (99.0, 62, 95),
        "A2": (95.0, 35, 90),
        "A3": (100.0, 93, 99),
        "A123": (100.0, 88, 99),
    },
    (8, "Black to play"): {
        "baseline": (48.4, 62, 42),
        "A1": (72.8, 188, None),
        "A2": (54.8, 199, None),
        "A3": (72.0, 186, None),
        "A123": (70.8, 196, None),
    },
    (8, "White to play"): {
        "baseline": (52.0, 128, 43),
        "A1": (75.6, 179, None),
        "A2": (60.8, 167, 45.5),
        "A3": (74.4, 200, 74.4),
        "A123": (70.8, 199, None),
    },
}
# Tables 7.3 to 7.6: the gain over the baseline in the first and the second half of training, in points. All other cells
# follow from these, for a difference of averages is the average of differences.
GAINS = {
    (6, "Black to play"): {
        "A123": (7.72, 17.588),
        "A1": (10.62, 15.549),
        "A2": (4.88, 12.902),
        "A3": (7.78, 17.098),
    },
    (6, "White to play"): {
        "A123": (6.74, 14.843),
        "A1": (6.94, 14.902),
        "A2": (7.58, 9.412),
        "A3": (6.74, 15.588),
    },
    (8, "Black to play"): {
        "A123": (10.68, 24.03),
        "A1": (8.98, 25.14),
        "A2": (4.03, 7.8),
        "A3": (10.01, 26.8),
    },
    (8, "White to play"): {"A123": (8.27, 19.76), "A1": (7.45, 20.9), "A2": (5.6, 8.27), "A3": (7.69, 23.72)},
}
# Table 5.4. That of the winning openings is not the number there is: 24, 72 and 18,560, see `openings_database`.
OPENINGS = {6: ((36, 1260, 42840), (9, 58, 474)), 8: ((64, 4032, 249984), (None, None, None))}
# Tables 6.1 and 6.2.
SUITES = {
    6: {
        "games of the source": 1000,
        "different, as Black": 36,
        "different, as White": 39,
        "positions": 1344,
        "won for who is to move": 653,
        "lost": 691,
        "won by Black to move": 443,
        "won by White to move": 210,
        "moves solved": 33752,
        "winning": 5246,
        "losing": 28506,
        "chosen for each colour": 100,
    },
    8: {
        "games of the source": 1000,
        "different, as Black": 249,
        "different, as White": 219,
        "positions": 10547,
        "won for who is to move": 5285,
        "lost": 5262,
        "won by Black to move": 2650,
        "won by White to move": 2635,
        "moves solved": 495854,
        "looked up": 1971,
        "winning": 100550,
        "losing": 395304,
        "chosen for each colour": 250,
    },
}
COSTS = {
    6: (30.0, 5.0, 30),
    8: (120.0, 12.0, 20),
}  # Table 7.1: seconds of a game and of a position, the factor


def config_of(settings: Settings, board: Board, agent: str, seed: int, winning: str = "") -> TrainConfig:
    """The training of an agent; they differ in their openings alone.

    Args:
      settings: of the study.
      board: which.
      agent: its name.
      seed: of the run.
      winning: the database of winning openings.
    """
    kinds = {"baseline": "none", "winning": winning, "grown": "A3"}
    if settings.preset:
        config = dataclasses.replace(theses.preset(settings.preset), game=Hex(board.size))
    else:
        config = theses.preset(f"daliri2022/hex{board.size}-baseline")
    optimiser = config.optimiser
    if optimiser.decay == "cosine":  # which ends with the run
        optimiser = dataclasses.replace(optimiser, decay_steps=board.iterations * config.updates)
    every = max(1, board.iterations // board.checkpoints)
    return dataclasses.replace(
        config,
        selfplay=dataclasses.replace(config.selfplay, openings=kinds.get(agent, agent), opening_share=1.0),
        optimiser=optimiser,
        evaluation=dataclasses.replace(config.evaluation, every=every),
        iterations=board.iterations,
        save_every=every,
        seed=seed,
    )


def run_of(work: study.Work[Settings], board: Board, agent: str, seed: int) -> study.StudyRun:
    """The run of an agent; the games of the ladder are played while it trains."""
    settings = work.settings
    winning = winning_openings(work, board) if agent == "winning" else ""
    config = config_of(settings, board, agent, seed, winning)
    options: dict[str, Any] = {}
    if agent in settings.laddered and seed == board.seeds[0]:
        options["judge"] = functools.partial(
            ladder.make_judge,
            simulations=settings.ladder_simulations,
            levels=settings.ladder_levels,
            pairs=settings.ladder_pairs,
        )
    begun_from = (
        run_of(work, settings.small, settings.source, settings.small.seeds[0]) if agent == "grown" else None
    )
    return work.run(f"hex{board.size}/{agent}-{seed}", config, begun_from=begun_from, **options)


def runs_of(work: study.Work[Settings], board: Board) -> dict[str, dict[int, study.StudyRun]]:
    """All runs on a board: agent -> seed -> run."""
    return {
        agent: {
            seed: run_of(work, board, agent, seed)
            for seed in (*board.seeds, *(board.more_seeds if agent in board.repeated else ()))
        }
        for agent in board.agents
    }


def source_run(work: study.Work[Settings], board: Board) -> study.StudyRun:
    """The run whose games the suite of a board is made of."""
    board = board if board.agents else work.settings.small
    return run_of(work, board, work.settings.source, board.seeds[0])


def winning_openings(work: study.Work[Settings], board: Board) -> str:
    """The openings database of all openings whose last move wins; they are solved once."""
    path, game = work.out / f"hex{board.size}" / "winning.db", Hex(board.size)
    if not path.exists():

        def solve() -> list[str]:
            told = functools.partial(work.progress, f"winning openings of {board.size}x{board.size}")
            with make_solver(game) as solver:
                found = openings_database.winning_openings(game, solver, progress=told)
            return [" ".join(game.action_to_text(action) for action in moves) for moves in found]

        kept = work.once(f"hex{board.size}/winning openings", solve)
        openings = [tuple(game.text_to_action(move) for move in text.split()) for text in kept]
        path.parent.mkdir(parents=True, exist_ok=True)
        openings_database.write(path, game, openings)
    return str(path)


def show_openings(work: study.Work[Settings]) -> None:
    """Counts the openings: all legal ones, and those that win (Table 5.4)."""
    rows: dict[str, dict[str, Any]] = {}
    for board in work.settings.boards:
        game = Hex(board.size)
        legal, winning = OPENINGS.get(board.size, ((None,) * 3, (None,) * 3))
        solved = "winning" in board.agents
        found = work.once(
            f"hex{board.size}/openings",
            functools.partial(_count_openings, work, board, solved),
            solved=solved,
        )
        for length in (1, 2, 3):
            row = rows.setdefault(f"{length} moves", {})
            row[f"{game.size}x{game.size}, legal"] = study.Beside(
                legal[length - 1], found["legal"][length - 1]
            )
            if solved:
                row["winning"] = study.Beside(winning[length - 1], found["winning"][length - 1])
    work.table("openings", "Openings (Table 5.4)", rows, notes=("Sequences of moves, not positions.",))


def _count_openings(work: study.Work[Settings], board: Board, solved: bool) -> dict[str, list[int]]:
    game = Hex(board.size)
    found = {"legal": openings_database.legal_openings(game)}
    if solved:
        found["winning"] = openings_database.read(winning_openings(work, board), game)
    return {
        kind: [sum(len(moves) == length for moves in some) for length in (1, 2, 3)]
        for kind, some in found.items()
    }


def train_agents(work: study.Work[Settings]) -> None:
    """Trains all agents, asks each about the suite of its board at once, and says what they cost."""
    rows = {}
    for board in work.settings.boards:
        runs = runs_of(work, board)
        # The suite comes first, and one seed of each before more: so what is there can be compared at any time.
        finish(work, board, source_run(work, board))
        seeded = [pair for by_seed in runs.values() for pair in by_seed.items()]
        for _, run in sorted(seeded, key=lambda pair: pair[0]):
            finish(work, board, run)
        for agent, by_seed in runs.items():
            costs = [work.cost_of(run) for run in by_seed.values()]
            rows[f"{board.size}x{board.size} {agent}"] = {
                "runs": len(costs),
                "minutes": statistics.mean([cost["minutes"] for cost in costs]),
                "games": costs[0]["games"],
                "positions": costs[0]["positions"],
            }
    work.table("agents", "The agents and what they cost", rows)


def finish(work: study.Work[Settings], board: Board, run: study.StudyRun) -> None:
    """Trains a run, asks all its checkpoints about the suite, and keeps what later stages need of it."""
    work.cost_of(run)
    run.keep()
    if run.name == source_run(work, board).name:
        run.keep(*run.checkpoints)  # for building the suite may take longer than the machine is there
    if run.name in [laddered.name for laddered in laddered_runs(work, board).values()]:
        climbed(work, run)
    sweep_of(work, board, run)


def solver_player(board: Board) -> str:
    """The text of the solver player."""
    return "perfect" if board.solver_seconds is None else f"perfect?seconds={board.solver_seconds:g}"


def source_games(work: study.Work[Settings], board: Board) -> dict[str, Any]:
    """The games that a suite is made of, as moves, and their counts; played once."""
    settings, game, run = work.settings, Hex(board.size), source_run(work, board)

    def play() -> dict[str, Any]:
        players = (f"az:{run.agent()}?sims={settings.source_simulations}", solver_player(board))
        recipe = suite_building.Recipe(sources=(), players=players, games=board.source_pairs)
        records, counts = suite_building.play_games(game, recipe, work.progress)
        moves = [[game.action_to_text(action) for action in row if action >= 0] for row in records.tolist()]
        return {"games": [" ".join(texts) for texts in moves], "counts": counts}

    return work.once(
        f"hex{board.size}/source games",
        play,
        config=run.config,
        agent=run.name,
        simulations=settings.source_simulations,
        opponent=solver_player(board),
        pairs=board.source_pairs,
    )


def suite_of(work: study.Work[Settings], board: Board) -> dict[str, Any]:
    """The suite of a board, with its recipe and counts; made when it is not kept."""
    settings, game = work.settings, Hex(board.size)
    run, perfect = source_run(work, board), solver_player(board)
    options = {
        "games": board.source_pairs,
        "fewest_moves": board.fewest_moves,
        "most_moves": board.most_moves,
        "min_winning": board.min_winning,
        "max_winning": board.max_winning,
        "most_candidates": board.most_candidates,
        "a_colour": board.per_colour,
        "nodes": board.solver_nodes,
    }

    # Beside the tables until the suite is there: proving it may take longer than the machine is there.
    proofs = work.results / "unfinished" / f"hex{board.size}.npz"

    def build() -> dict[str, Any]:
        games = source_games(work, board)
        records = np.full((len(games["games"]), game.max_plies), -1, np.int32)
        for row, text in enumerate(games["games"]):
            moves = [game.text_to_action(move) for move in text.split()]
            records[row, : len(moves)] = moves
        proofs.parent.mkdir(parents=True, exist_ok=True)
        with make_solver(game, nodes=board.solver_nodes, processes=settings.processes) as solver:
            built = suite_building.build(
                game,
                lambda: solver,
                suite_building.Recipe(sources=(), players=(run.name, perfect), **options),
                work.progress,
                presets={name: theses.preset(name) for name in theses.preset_names()},
                proofs=proofs,
                games=(records, games["counts"]),
            )
        return {"lines": built.lines, "counts": built.counts}

    source = {"agent": run.name, "simulations": settings.source_simulations, "opponent": perfect}
    found = work.once(f"hex{board.size}/suite", build, config=run.config, source=source, recipe=options)
    for path in (proofs, proofs.with_suffix(".effort.jsonl")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another suite's may be there, or none at all
        proofs.parent.rmdir()
    positions.write_positions(work.results / f"hex{board.size}.jsonl", found["lines"])
    about = {"study": "daliri2022", "source": source, "recipe": options, "counts": found["counts"]}
    atomic.write_text(work.results / f"hex{board.size}.recipe.json", json.dumps(about, indent=1) + "\n")
    return found


def suite_file(work: study.Work[Settings], board: Board) -> tuple[pathlib.Path, str]:
    """The suite as a file whose name tells its content, so that judges never take one for another; and that name."""
    text = "".join(json.dumps(line) + "\n" for line in suite_of(work, board)["lines"])
    name = f"hex{board.size}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    path = work.out / f"hex{board.size}" / f"{name}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, text)
    return path, name


def build_suites(work: study.Work[Settings]) -> None:
    """Builds the suites, shows how they came about, and draws them (Tables 6.1 and 6.2, Figures 6.5 to 6.12)."""
    rows: dict[str, dict[str, Any]] = {}
    for board in work.settings.boards_with_suites:
        found = suite_of(work, board)
        for label, number in _suite_numbers(found["counts"]).items():
            cell = study.Beside(SUITES.get(board.size, {}).get(label), number)
            rows.setdefault(label, {})[f"{board.size}x{board.size}"] = cell
        _draw_suite(work, board, found)
    work.table("suites", "How the suites came about (Tables 6.1 and 6.2)", rows)
    work.figure("tree-2x2", boards.game_tree(Hex(2)))


def _suite_numbers(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of Tables 6.1 and 6.2, and those that say how far the solver came."""
    won = counts["won_by_player"]
    return {
        "games of the source": counts["games"],
        "different, as Black": counts["distinct_games_by_colour"][0],
        "different, as White": counts["distinct_games_by_colour"][1],
        "positions": counts["positions"],
        "asked of the solver": counts["solved_or_tried"],
        "not proven": counts["not_proven"],
        "won for who is to move": sum(won),
        "lost": counts["lost"],
        "won by Black to move": won[0],
        "won by White to move": won[1],
        "moves solved": counts["moves"],
        "looked up": counts["looked_up"],
        "winning": counts["winning_moves"],
        "losing": counts["moves"] - counts["winning_moves"],
        "chosen for each colour": min(counts["chosen_by_player"]),
    }


def _draw_suite(work: study.Work[Settings], board: Board, found: Mapping[str, Any]) -> None:
    lines, counts, size = found["lines"], found["counts"], board.size
    played = {
        "positions": np.repeat(
            np.arange(len(counts["positions_by_moves_made"])), counts["positions_by_moves_made"]
        )
    }
    number = {
        colour: np.repeat(
            [int(n) for n in counts["winning_moves_of_won"]],
            [c[i] for c in counts["winning_moves_of_won"].values()],
        )
        for i, colour in enumerate(COLOURS)
    }
    chosen = {
        colour: [len(line["moves"]) for line in lines if len(line["moves"]) % 2 == player]
        for player, colour in enumerate(COLOURS)
    }
    panels = {
        "stones, all candidates": played,
        "winning moves, won candidates": number,
        "stones, the suite": chosen,
    }
    work.figure(f"hex{size}-histograms", curves.histograms(panels))
    if lines and "nodes" in lines[0]:
        effort = {
            colour: [np.log10(1 + line["nodes"]) for line in lines if len(line["moves"]) % 2 == player]
            for player, colour in enumerate(COLOURS)
        }
        panels = {"effort of a winning move, the suite": effort}
        work.figure(f"hex{size}-effort", curves.histograms(panels, x_label="log10 of nodes", whole=False))
    for player, colour in enumerate(COLOURS):
        hardest = sorted(
            (line for line in lines if len(line["moves"]) % 2 == player),
            key=lambda line: -line.get("nodes", 0),
        )[:12]
        read = [positions.parse_position(line) for line in hardest]
        pictures = []
        for position in read:
            dots = {position.game.text_to_action(move): "\u25cf" for move in position.fields["optimal"]}
            pictures.append(position.game.draw(position.state, marks=dots, scale=0.5))
        captions = [f"{len(line['moves'])} stones, {line.get('nodes', 0):,} nodes" for line in hardest]
        name = f"hex{size}-hardest-{colour.split()[0].lower()}"
        work.drawing(name, boards.sheet(pictures, captions))


def judge_suites(work: study.Work[Settings]) -> None:
    """Asks a random mover, UCT and the strongest agent about the suites: do they tell players apart?"""
    settings = work.settings
    for board in settings.boards_with_suites:
        path, name = suite_file(work, board)
        best = best_run(work, board if board.agents else settings.small)
        players = {"random": "random", **{f"uct:{n}": f"uct:{n}" for n in settings.uct}}
        players |= {f"{best.name}, {n} simulations": f"az:{{run}}?sims={n}" for n in settings.raw_simulations}
        players |= {f"{best.name}, {settings.simulations} simulations": f"az:{{run}}?{_search(settings)}"}
        rows = {}
        for label, text in players.items():
            ask = functools.partial(_asked, path, text, best)
            # Who needs no network answers the same whichever agent is best by now.
            config = best.config if "{run}" in text else None
            rows[label] = work.once(
                f"hex{board.size}/asked {label}", ask, config=config, suite=name, player=text
            )
        title = f"Right answers on the suite of {board.size}x{board.size}, %, without anybody's openings"
        work.table(f"hex{board.size}-players", title, rows)


def _search(settings: Settings) -> str:
    """The thesis's evaluation search, as options of an agent."""
    return f"sims={settings.simulations - 1}&search=puct&c={settings.c:g}&solve={int(settings.solve)}"


def _asked(path: pathlib.Path, text: str, best: study.StudyRun) -> dict[str, Any]:
    """The shares of right answers: of each colour, and of the easier and harder half of the positions."""
    asked = suites.run_suite(text.format(run=best.agent()) if "{run}" in text else text, path, unopened=True)
    nodes = np.array([position.fields.get("nodes", 0) for position in asked.positions])
    hard = np.argsort(np.argsort(nodes, kind="stable")) >= len(nodes) // 2
    parts = {
        "all": asked.result.answers,
        "Black to play": [answer for answer in asked.result.answers if answer.player == 0],
        "White to play": [answer for answer in asked.result.answers if answer.player == 1],
        "easier half": list(itertools.compress(asked.result.answers, ~hard)),
        "harder half": list(itertools.compress(asked.result.answers, hard)),
    }
    scores = {name: suites.score(answers) for name, answers in parts.items()}
    found = {name: 100 * score.share for name, score in scores.items() if score is not None}
    low, high = scores["all"].interval
    return {
        "positions": scores["all"].positions,
        **found,
        "95 % interval": f"{100 * low:.1f} to {100 * high:.1f}",
    }


def sweep_of(work: study.Work[Settings], board: Board, run: study.StudyRun) -> list[dict[str, Any]]:
    """The answers of every checkpoint of a run, with the thesis's evaluation search (Table 7.2)."""
    settings = work.settings
    path, suite = suite_file(work, board)
    # The thesis counts the root's evaluation as one of the simulations.
    search = f"simulations={settings.simulations - 1}&c={settings.c:g}&solve={int(settings.solve)}"
    return work.sweep(run, f"suite:{path}?{search}&unopened=1", name=f"wmsr {search}", suite=suite)


def curve_of(rows: Sequence[Mapping[str, Any]], field: str) -> tuple[np.ndarray, np.ndarray]:
    """Iterations and percents of one colour over a sweep."""
    x, y = series(rows, f"{field}.share")
    return x, 100 * y


def best_run(work: study.Work[Settings], board: Board) -> study.StudyRun:
    """The run with the most right answers at its end."""
    runs = [run for by_seed in runs_of(work, board).values() for run in by_seed.values()]
    return max(runs, key=lambda run: sweep_of(work, board, run)[-1]["all"]["share"])


def draw_curves(work: study.Work[Settings]) -> None:
    """Asks all checkpoints about the suites: curves, peaks, differences (Figures 7.1 to 7.8, Tables 7.3 to 7.6)."""
    gains = {}
    for board in work.settings.boards:
        sweeps = {
            agent: {seed: sweep_of(work, board, run) for seed, run in runs.items()}
            for agent, runs in runs_of(work, board).items()
        }
        first = {agent: next(iter(by_seed.values())) for agent, by_seed in sweeps.items()}
        panels = {
            f"{board.size}x{board.size}, {colour}": {
                agent: curve_of(rows, field) for agent, rows in first.items()
            }
            for colour, field in COLOURS.items()
        }
        for name, smooth in (("raw", False), ("smooth", True)):
            work.figure(f"hex{board.size}-{name}", curves.compare(panels, smooth=smooth, x_label="iteration"))
        by_colour = []
        for colour, field in COLOURS.items():
            by_agent = {
                agent: {seed: curve_of(rows, field) for seed, rows in by_seed.items()}
                for agent, by_seed in sweeps.items()
            }
            _peak_table(work, board, colour, by_agent)
            _difference_tables(
                work, board, colour, {agent: curve_of(rows, field)[1] for agent, rows in first.items()}
            )
            by_colour.append(gains_of(by_agent))
            _gain_table(work, board, colour, by_colour[-1])
        both = {agent: np.mean([found[agent] for found in by_colour], axis=0) for agent in by_colour[0]}
        theirs = _their_gains(board, COLOURS)
        gains |= {f"{board.size}x{board.size}, {who}": row for who, row in _group_rows(both, theirs).items()}
    if gains:
        title = (
            "Points of WMSR that forced openings gain over the baseline: mean of agents, colours and halves"
        )
        work.table("gains", title, gains, digits=2, notes=(_GAIN_NOTE,))


Curves = Mapping[str, Mapping[int, tuple[np.ndarray, np.ndarray]]]
"""agent -> seed -> (iterations, percents)."""


def _name_of(board: Board, colour: str, what: str) -> str:
    return f"hex{board.size}-{colour.split()[0].lower()}-{what}"


def _peak_table(work: study.Work[Settings], board: Board, colour: str, by_agent: Curves) -> None:
    theirs, rows = PEAKS.get((board.size, colour), {}), {}
    for agent, by_seed in by_agent.items():
        peak, step, final = theirs.get(agent, (None, None, None))
        maxima = [curves.first_maximum(x, y) for x, y in by_seed.values()]
        rows[agent] = {
            "peak %": study.Beside(peak, statistics.mean([y for _, y in maxima])),
            "at step": study.Beside(step, ", ".join(f"{x:.0f}" for x, _ in maxima)),
            "at the end %": study.Beside(final, statistics.mean([float(y[-1]) for _, y in by_seed.values()])),
        }
    title = f"{board.size}x{board.size}, {colour}: the first highest WMSR, and the last"
    notes = (
        "Other suites and budgets than the thesis's.",
        f"The suite is made of games of {source_run(work, board).name}, as the thesis's of its best agent's.",
    )
    work.table(_name_of(board, colour, "peaks"), title, rows, notes=notes)


def _difference_tables(
    work: study.Work[Settings], board: Board, colour: str, by_agent: Mapping[str, np.ndarray]
) -> None:
    """Every agent against every other: the row minus the column, in points, by halves of training."""
    half = len(next(iter(by_agent.values()))) // 2
    theirs = GAINS.get((board.size, colour), {}) | {"baseline": (0.0, 0.0)}
    for number, (name, part) in enumerate((("first", slice(half)), ("second", slice(half, None)))):
        table = curves.aod_table({agent: values[part] for agent, values in by_agent.items()})
        rows = {
            row: {
                column: study.Beside(_their_difference(theirs, row, column, number), value)
                for column, value in cells.items()
            }
            for row, cells in table.items()
        }
        title = f"{board.size}x{board.size}, {colour}, {name} half: average of differences, row minus column, points"
        note = "Of the first seed of each agent; the thesis has one run each."
        work.table(_name_of(board, colour, f"aod-{name}"), title, rows, digits=2, notes=(note,))


def _their_difference(
    theirs: Mapping[str, tuple[float, float]], row: str, column: str, half: int
) -> float | None:
    if row not in theirs or column not in theirs or len(theirs) == 1:
        return None
    return theirs[row][half] - theirs[column][half]


Gains = Mapping[str, np.ndarray]
"""agent -> [seeds, 2] what it gains over the baseline of the same seed in the first and the second half, in points."""

_GAIN_NOTE = (
    "Means over seeds with Student's 95 % interval; of one seed there is none. The thesis has one run each; its mean is"
    " that of the same agents."
)


def gains_of(by_agent: Curves) -> Gains:
    """What every agent gains over the baseline, averaged over the checkpoints of a half."""
    base, gains = by_agent.get("baseline", {}), {}
    for agent, by_seed in by_agent.items():
        shared = [seed for seed in by_seed if seed in base]
        if agent != "baseline" and shared:
            gains[agent] = np.array([curves.aod_by_half(base[seed][1], by_seed[seed][1]) for seed in shared])
    return gains


def _gain_table(work: study.Work[Settings], board: Board, colour: str, gains: Gains) -> None:
    theirs = _their_gains(board, (colour,))
    rows = {
        agent: {
            f"{name} half": study.Beside(
                theirs[agent][half] if agent in theirs else None, statistics.mean(found[:, half])
            )
            for half, name in enumerate(("first", "second"))
        }
        for agent, found in gains.items()
    }
    rows |= _group_rows(gains, theirs)
    if rows:
        title = (
            f"{board.size}x{board.size}, {colour}: points of WMSR gained over the baseline of the same seed"
        )
        work.table(_name_of(board, colour, "gains"), title, rows, digits=2, notes=(_GAIN_NOTE,))


def _their_gains(board: Board, colours: Iterable[str]) -> dict[str, np.ndarray]:
    """agent -> [2], the thesis's gains in both halves, averaged over colours."""
    printed = [GAINS.get((board.size, colour), {}) for colour in colours]
    return {agent: np.mean([found[agent] for found in printed], axis=0) for agent in printed[0]}


def _group_rows(gains: Gains, theirs: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Rows of the mean gain of all agents with forced moves, and of those of them that have more seeds."""
    forced = {agent: gains[agent] for agent in FORCED if agent in gains}
    if not forced:
        return {}
    counts = {agent: len(found) for agent, found in forced.items()}
    groups = {"all with forced moves": list(forced)}
    if min(counts.values()) < max(counts.values()):
        most = [agent for agent in forced if counts[agent] == max(counts.values())]
        groups[f"of them {', '.join(most)}"] = most
    rows = {}
    for label, agents in groups.items():
        seeds = min(counts[agent] for agent in agents)
        ours = statistics.mean(np.mean([forced[agent][:seeds].mean(1) for agent in agents], axis=0))
        known = [theirs[agent] for agent in agents if agent in theirs]
        rows[label] = {"both": study.Beside(float(np.mean(known)) if known else None, ours)}
    return rows


def play_baseline(work: study.Work[Settings]) -> None:
    """Plays the best agent against the baseline, both colours."""
    rows = {}
    for board in work.settings.boards:
        best, base = best_run(work, board), run_of(work, board, "baseline", board.seeds[0])
        rows[f"{best.name} against {base.name}"] = work.once(
            f"{best.name} against {base.name}",
            functools.partial(_match, work, best, base),
            config=best.config,
            pairs=work.settings.match_pairs,
            simulations=work.settings.source_simulations,
        )
    notes = (
        "Players without chance repeat themselves: where it says different, games with the same moves count once; the"
        " interval is of those.",
    )
    work.table("matches", "The best agent against the baseline, from one random move", rows, notes=notes)


def _match(work: study.Work[Settings], best: study.StudyRun, base: study.StudyRun) -> dict[str, Any]:
    game, settings = best.config.game, work.settings
    agents = [
        make_agent(f"az:{run.agent()}?sims={settings.source_simulations}", game) for run in (best, base)
    ]
    match = make_match(game, *agents, pairs=settings.match_pairs, random_plies=1)
    told = functools.partial(work.progress, "best against baseline")
    found = match(None, None, jax.random.key(0), progress=told)
    played = found.played
    won = np.where(played.agent_first, played.result, -played.result) > 0
    games = np.column_stack([played.agent_first, played.record])
    once = np.isin(np.arange(len(games)), np.unique(games, axis=0, return_index=True)[1])
    low, high = found.distinct.interval
    return {
        "games": found.games,
        "won as Black": found.first.wins,
        "won as White": found.second.wins,
        "score %": 100 * found.score,
        "different": found.distinct_games,
        "different, as Black": int(np.sum(once & played.agent_first)),
        "different, won as Black": int(np.sum(once & won & played.agent_first)),
        "different, as White": int(np.sum(once & ~played.agent_first)),
        "different, won as White": int(np.sum(once & won & ~played.agent_first)),
        "score of different %": 100 * found.distinct.score,
        "95 % interval": f"{100 * low:.1f} to {100 * high:.1f}",
    }


def check_validity(work: study.Work[Settings]) -> None:
    """Does the suite measure strength, and how much cheaper is it? Games against the solver player over checkpoints."""
    settings, costs = work.settings, {}
    for board in settings.boards:
        run = source_run(work, board)
        shares = {row["iteration"]: 100 * row["all"]["share"] for row in sweep_of(work, board, run)}
        chosen = [
            list(shares)[n]
            for n in np.linspace(0, len(shares) - 1, settings.validity_checkpoints).round().astype(int)
        ]
        _, suite = suite_file(work, board)
        steps = list(dict.fromkeys(chosen))
        found = work.once(
            f"hex{board.size}/validity",
            functools.partial(_meet_solver, work, board, run, steps),
            config=run.config,
            suite=suite,
            steps=steps,
            pairs=board.validity_pairs,
            search=_search(settings),
            seconds=board.solver_seconds,
        )
        wins = [100 * score for score in found["scores"]]
        right = [shares[step] for step in steps]
        points = {f"{board.size}x{board.size}": (right, wins)}
        title = "The suite and games against the solver player"
        figure = curves.scatter(points, title=title, x_label="WMSR, %", y_label="games won, %")
        work.figure(f"hex{board.size}-validity", figure)
        together = statistics.correlation(right, wins) if len(steps) > 1 else None
        game, position = found["seconds_per_game"], found["seconds_per_position"]
        their_game, their_position, their_factor = COSTS.get(board.size, (None, None, None))
        count = len(suite_of(work, board)["lines"])
        costs[f"{board.size}x{board.size}"] = {
            "seconds a game": study.Beside(their_game, game),
            "seconds a position": study.Beside(their_position, position),
            "1,000 games / the suite": study.Beside(their_factor, 1000 * game / (count * position)),
            "correlation": None if together is None else together.pearson,
            "its 95 % interval": ""
            if together is None
            else f"{together.interval[0]:.2f} to {together.interval[1]:.2f}",
            "of ranks": None if together is None else together.spearman,
            "checkpoints": len(steps),
        }
    notes = (
        "Seconds of this machine, where other work may have been going on; the thesis's machine had 16 cores.",
    )
    work.table(
        "validity",
        "What the suite costs and whether it measures strength (Table 7.1)",
        costs,
        digits=2,
        notes=notes,
    )


def _meet_solver(
    work: study.Work[Settings], board: Board, run: study.StudyRun, steps: Sequence[int]
) -> dict[str, Any]:
    """Scores of checkpoints in games against the solver player; seconds of a game, and of a position of the suite."""
    settings, game = work.settings, run.config.game
    agent = make_agent(f"az:{run.agent()}?{_search(settings)}", game)
    opponent = make_agent(solver_player(board), game)
    match = make_match(game, agent, opponent, pairs=board.validity_pairs, random_plies=1)
    scores, seconds = [], []
    for step in steps:
        told = functools.partial(work.progress, f"checkpoint {step} against the solver player")
        started = time.perf_counter()
        found = match(load_weights(run.agent(step))[1], None, jax.random.key(step), progress=told)
        seconds.append((time.perf_counter() - started) / found.games)
        scores.append(found.score)
    opponent.close()
    lines = suites.read_suite(suite_file(work, board)[0])
    for _ in range(2):  # the first time compiles
        started = time.perf_counter()
        suites.run(lambda game: agent, lines, jax.random.key(0))
    return {
        "scores": scores,
        "seconds_per_game": float(np.median(seconds)),  # the first match compiles
        "seconds_per_position": (time.perf_counter() - started) / len(lines),
    }


def laddered_runs(work: study.Work[Settings], board: Board) -> dict[str, study.StudyRun]:
    """The runs on a board that climb the ladder, by agent."""
    agents = [agent for agent in work.settings.laddered if agent in board.agents]
    return {agent: run_of(work, board, agent, board.seeds[0]) for agent in agents}


def climbed(work: study.Work[Settings], run: study.StudyRun) -> dict[str, Any]:
    """What a run won on the ladder, which stands in its report too."""

    def collect() -> dict[str, Any]:
        report.write(run.trained)
        judged = [row for row in run.metrics() if "evaluation" in row]
        return {
            "iterations": [row["iteration"] for row in judged],
            "rows": [row["evaluation"] for row in judged],
        }

    return work.once(f"{run.name} ladder", collect, config=run.config)


def show_ladder(work: study.Work[Settings]) -> None:
    """The ladder of UCT players that some agents climbed while they trained, in the runs' reports."""
    for board in work.settings.boards:
        for agent, run in laddered_runs(work, board).items():
            found = climbed(work, run)
            last = found["rows"][-1]
            rows = {
                level: {
                    "score %": 100 * score["score"],
                    "95 % interval": f"{100 * score['interval'][0]:.1f} to {100 * score['interval'][1]:.1f}",
                    "games": score["games"],
                }
                for level, score in last.items()
            }
            work.table(f"hex{board.size}-{agent}-ladder", f"{run.name} against UCT, the newest games", rows)
            lines = {
                level: (found["iterations"], [100 * row[level]["score"] for row in found["rows"]])
                for level in last
            }
            figure = curves.compare({run.name: lines}, x_label="iteration", y_label="score, %")
            work.figure(f"hex{board.size}-{agent}-ladder", figure)


def costs_of(settings: Settings) -> Iterator[study.Cost]:
    """What training and the sweeps take; suites, games and solvers come on top."""
    for board in settings.boards:
        config = config_of(settings, board, "baseline", 0)
        runs = sum(
            len(board.seeds) + (len(board.more_seeds) if a in board.repeated else 0) for a in board.agents
        )
        size = f"{board.size}x{board.size}"
        yield study.training_cost(f"{size}: training, {runs} runs", config, runs)
        asked = 2 * (board.per_colour or suite_building.MOST_PER_COLOUR) * runs
        checkpoints = board.checkpoints + 1
        yield study.judging_cost(f"{size}: sweeps", config, asked, settings.simulations, checkpoints)
        moves = board.size**2 / 2
        games = board.validity_pairs * 2 * settings.validity_checkpoints
        yield study.judging_cost(f"{size}: validity", config, int(games * moves), settings.simulations)
        games = 2 * (board.source_pairs + 2 * settings.match_pairs)
        yield study.judging_cost(
            f"{size}: source games and match", config, int(games * moves), settings.source_simulations
        )
    for board in settings.boards_with_suites:
        if board.solver_seconds is not None:
            games = 2 * board.source_pairs
            games += 2 * board.validity_pairs * settings.validity_checkpoints if board.agents else 0
            moves = board.size**2 / 4  # the solver's half of those of a game, if games fill half of the board
            hours = games * moves * board.solver_seconds / 3600
            yield study.Cost(f"{board.size}x{board.size}: the solver player, about", hours=hours)


STUDY = study.Study(
    "daliri2022",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={
        "openings": show_openings,
        "agents": train_agents,
        "suites": build_suites,
        "curves": draw_curves,
        "players": judge_suites,
        "ladder": show_ladder,
        "matches": play_baseline,
        "validity": check_validity,
    },
    costs=lambda settings: list(costs_of(settings)),
)

if __name__ == "__main__":
    STUDY.main()
