"""AlphaDots: Dots and Boxes by deep networks and tree search. The experiments of Peters 2018.

    python -m experiments.peters2018_alphadots                     # all, with networks small enough for two cores
    python -m experiments.peters2018_alphadots --only rules strong # some of them, stages below
    python -m experiments.peters2018_alphadots --full --plan       # what the thesis's own sizes cost

The thesis asks whether AlphaGo Zero can be had for one graphics card and three days; how well one convolutional network
plays on boards of all sizes; whether self-play finds a strategy that no teacher has shown, double dealing; and how
strong the programs become. Its answers: a network taught on 5x4 boards plays 15x15 better than one taught on 10x10
(55.7, 52.6 and 2.9 % against easy, medium and hard, to 7.6, 46.4 and 4.4 %); from a teacher who never double-deals,
10,240 samples of self-play lead from 0 to 7,853 double deals and from 21 to 47 % against hard; search solves 12 of
Berlekamp's 13 problems; and on 5x5 the best of six variants win 95, 89, 66, 18, 0 and 0 % against easy, medium, hard,
alpha-beta, Dabble and QDab.

What is ours and not theirs: networks see own and opponent's boxes (theirs, of the first and the second player, so that
they do not know who is to move); matches of networks begin in safe fills, and draws are no wins, as there. Dabble and
QDab are closed programs of others: in their place stands our solver with some seconds for a move, which then plays as
hard does where it has proven nothing. With the quick settings a network sees a pixel per dot instead of the thesis's
picture (a fifth of the work, and each convolution reaches twice as far), learns who wins instead of by how much, and
its searches are Gumbel's: with PUCT's constant of 4, after 200 simulations a line with a prior of 0.1 and ten visits
still has a bonus of 4 * 0.1 * 14 / 11 = 0.5, where a box on 5x5 is worth 0.04.
The stages `strong` and `from_nothing`, and the rows named "further", are ours alone: they take the loop that learned
3x3 from nothing to 5x5, and begin its games anywhere.

Everything that is finished is kept beside the tables, weights in half precision: the folder of runs may go at any time,
and only the run that was being trained begins anew.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from azjax.agents import dots_data, dots_games, make_agent
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.evaluation import dots_judges, gated_dots, match_openings
from azjax.evaluation.arena import make_match, wilson_interval
from azjax.learners import gated, supervised
from azjax.nn.networks import NetworkConfig
from azjax.plots import style
from azjax.theses import peters2018
from azjax.training import checkpoint, presets
from azjax.training.config import OptimiserConfig, SearchConfig, TrainConfig
from experiments import study

RULES = ("easy", "medium", "hard")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes of everything. The thesis's samples are in millions, its networks have 8 blocks of 256 channels."""

    tower: Literal["ours", "thesis"] = "ours"  # with what it sees, learns and searches
    blocks: int = 4
    channels: int = 40
    samples: int = 500_000  # that a network is taught
    epochs: int = 1
    batch_size: int = 256
    augmented: bool = True  # show each sample turned by a random symmetry
    games: int = 400  # of a match without search
    final_games: int = 1000  # of the matches after self-play
    search_games: int = 200  # of a match with search
    rule_games: int = 10_000  # of rule-based players
    board: int = 5  # of the matches without another size
    sizes: tuple[int, ...] = (3, 5, 7, 10, 15)  # square boards that networks are carried to
    small: tuple[int, int] = (4, 5)  # rows and columns of the board that networks are taught on
    trained_on: tuple[tuple[int, int], ...] = (
        (10, 10),
        (4, 5),
        (8, 8),
        (5, 5),
    )  # large boards: A, B, C and D
    simulations: int = 200  # of a search where there is no clock
    large_simulations: int = 32  # of one on boards larger than `large_from`
    large_from: int = 10
    problem_simulations: int = 1500  # of one for Berlekamp's problems
    seconds: float = 1.0  # per move against alpha-beta and the solver; theirs had 10
    strong_samples: int = 2_000_000  # that the strong network is taught
    strong_iterations: int = 1600  # of its self-play, each of 1,024 positions
    nothing_iterations: int = 1200  # of self-play from nothing
    strategies_board: int = 3
    strategies_samples: int = 1_000_000
    strategies_iterations: int = 20
    further_iterations: int = 1200  # of self-play by the loop of ours, from the same teacher
    competition_samples: int = 500_000
    competition_iterations: int = 32
    selfplay_samples: int = 512
    selfplay_epochs: int = 5
    selfplay_simulations: int = 100
    turns_simulations: int = 100  # the same where it searches whole turns
    gate_games: int = 1000
    clocked_games: int = 10
    # Of the competition, each with and without search: taught, self-play by turns, self-play by lines, and ours.
    variants: tuple[str, ...] = ("taught", "self-play by turns", "self-play by lines", "strong")
    clocked: tuple[str, ...] = ("taught", "strong")  # which of them meet alpha-beta and the solver


QUICK = Settings()
FULL = Settings(
    tower="thesis",
    blocks=8,
    channels=256,
    samples=2_000_000,
    batch_size=128,
    games=1000,
    final_games=10_000,
    search_games=100,
    sizes=tuple(range(3, 16)),
    simulations=1500,
    large_simulations=1500,
    seconds=10.0,
    strong_samples=4_000_000,
    strategies_samples=4_000_000,
    competition_samples=4_000_000,
    selfplay_simulations=1000,
    turns_simulations=1500,
    clocked_games=100,
    clocked=("taught", "self-play by turns", "self-play by lines", "strong"),
)

# Tables 2, 3, 4, 6, 7, 8, 9, 10 and 11 of the thesis, in percent of wins against easy, medium and hard.
T2 = {"easy": (50.36, 9.43, 2.64), "medium": (90.82, 49.72, 8.93), "hard": (97.71, 91.11, 49.50)}
T3 = {
    "first-try": (0.2, 0.2, 0.1),
    "basic-strategy": (57.9, 24.3, 5.0),
    "stage-one": (0.9, 0.4, 0.3),
    "AlphaZeroV1": (80.0, 72.4, 37.9),
    "AlphaZeroV5": (89.6, 84.0, 48.7),
    "AlphaZeroV7": (94.6, 85.9, 46.3),
}
T4 = {
    5: (95.2, 86.2, 46.7),
    6: (94.3, 68.1, 32.9),
    7: (92.3, 51.2, 19.4),
    8: (88.1, 33.9, 9.6),
    9: (84.8, 24.5, 5.2),
    10: (80.8, 13.4, 1.5),
    11: (73.9, 8.3, 0.5),
    12: (67.1, 3.8, 0.2),
    13: (62.3, 1.8, 0.9),
    14: (49.2, 0.9, 0.0),
    15: (43.0, 0.3, 0.0),
}
T6 = {"raw": ("FSFFFSFSSSSFF", 6), "search": ("SSSSSSSSSSSSF", 12)}
T6_SELFPLAY = {"raw": ("FSFFSSFSSFSFF", 6), "search": ("SSSSSSFFSSSSF", 10)}
T7 = {  # network A, taught on 10x10, and B, on 5x4
    "A": {
        3: (36.3, 28.3, 27.7), 4: (34.3, 32.2, 27.5), 5: (40.5, 44.0, 32.1), 6: (31.4, 46.0, 26.3),
        7: (32.3, 44.6, 27.4), 8: (23.8, 46.6, 18.9), 9: (23.0, 47.6, 19.5), 10: (17.8, 45.7, 15.2),
        11: (17.7, 48.3, 15.0), 12: (12.6, 48.6, 9.3), 13: (11.0, 45.5, 8.2), 14: (8.7, 45.2, 4.8),
        15: (7.6, 46.4, 4.4),
    },
    "B": {
        3: (37.0, 29.1, 28.3), 4: (52.0, 49.1, 31.9), 5: (61.5, 63.7, 38.9), 6: (57.8, 63.0, 30.5),
        7: (57.9, 63.0, 27.6), 8: (59.9, 59.2, 22.8), 9: (56.8, 60.6, 16.8), 10: (61.1, 60.5, 12.1),
        11: (55.7, 57.3, 9.5), 12: (51.5, 57.3, 6.6), 13: (59.8, 55.4, 4.7), 14: (55.9, 57.1, 3.7),
        15: (55.7, 52.6, 2.9),
    },
}  # fmt: skip
T8 = {  # C, taught on 8x8, and D, on 5x5
    "C": {
        3: (36.6, 25.9, 32.2), 4: (34.0, 33.8, 26.3), 5: (47.1, 43.2, 30.3), 6: (42.8, 42.2, 25.5),
        7: (48.1, 47.5, 24.0), 8: (42.4, 45.5, 19.1), 9: (42.7, 50.6, 16.5), 10: (39.7, 46.2, 13.9),
    },
    "D": {
        3: (41.6, 29.4, 31.8), 4: (42.0, 36.9, 24.0), 5: (56.3, 55.7, 34.7), 6: (54.7, 54.6, 27.9),
        7: (49.8, 56.2, 24.3), 8: (50.1, 51.0, 20.6), 9: (52.3, 56.2, 18.3), 10: (49.3, 53.9, 14.0),
    },
}  # fmt: skip
T10 = {  # and the double deals in all games of a row; the thesis says 47.21 in the table and 46.21 in the text
    ("before", 3): (75.89, 50.59, 21.17, 0),
    ("after", 3): (76.54, 72.62, 47.21, 7853),
    ("before", 5): (82.12, 27.71, 5.17, 76),
    ("after", 5): (71.33, 37.52, 8.45, 6908),
    ("before", 15): (9.76, 0.0, 0.0, 779),
    ("after", 15): (5.96, 0.02, 0.0, 4669),
}
STRONGEST = (95, 89, 66)  # of table 11, the best of six
T11 = {  # against easy, medium, hard, alpha-beta, and Dabble and QDab
    "taught": (69, 68, 39, 18, 0),
    "taught, search": (95, 83, 66, 10, 0),
    "self-play by turns": (50, 60, 31, 12, 0),
    "self-play by turns, search": (94, 89, 58, 9, 0),
    "self-play by lines": (36, 58, 33, 12, 0),
    "self-play by lines, search": (95, 85, 52, 16, 0),
}


def rules(work: study.Work[Settings]) -> None:
    """EasyMediumHard: the rule-based players against each other (table 2)."""
    board, games = square(work.settings.board), work.settings.rule_games

    def cell(first: str, second: str) -> dict[str, int]:
        return work.once(
            f"rules {first} {second} {board.rows}x{board.columns}",
            lambda: rule_match(board, first, second, games),
            games=games,
            board=board.rows,
        )

    rows = {}
    for one in RULES:
        found = {f"against {other}": cell(one, other) for other in RULES}
        rows[one] = in_percent(found, T2[one])
    work.table(
        "rules",
        f"Wins in percent, {games:,} games, {board.rows}x{board.columns}",
        rows,
        digits=2,
        notes=(
            "The thesis does not say on which board; 5x5 fits best. From the empty board, half of the games each.",
        ),
    )


def rule_match(board: DotsAndBoxes, one: str, other: str, games: int) -> dict[str, int]:
    """How often a level beats another, if each begins half of the games; draws are no wins."""
    half = games // 2
    starts = np.zeros((half, board.num_actions), bool)
    wins, records = 0, []
    for first, second, seeds, sign in (
        (one, other, np.arange(half), 1),
        (other, one, np.arange(half, 2 * half), -1),
    ):
        record = dots_games.play(board, first, starts, seeds, second=second)
        margin = dots_games.cut(board, starts, record, np.zeros(half, np.int64)).margin
        wins += int(np.sum(sign * margin > 0))
        records.append(record)
    return {
        "wins": wins,
        "games": 2 * half,
        "distinct": sum(len(np.unique(record, axis=0)) for record in records),
    }


def data(work: study.Work[Settings]) -> None:
    """DataFigures: what each generator teaches, a board before and the lines that are good there (figures 13 to 20)."""
    board = DotsAndBoxes(*work.settings.small, observation="grey")
    kinds = ("first-try", "basic-strategy", "stage-one", "stage-three", "stage-four", "sequence")
    figure, axes = style.panels(2, len(kinds), size=(2.0, 2.2))
    for column, kind in enumerate(kinds):
        found = dots_data.make_samples(board, dots_data.Recipe(kind, seed=1), 30, make_agent)
        row = 20
        state = jax.tree.map(lambda leaf, row=row: leaf[row], found.states)
        image = np.asarray(board.observe(state))[..., 0]
        target = np.zeros_like(image)
        pixels = board.line_pixels[found.policy[row]]
        target[pixels[:, 0], pixels[:, 1]] = 1
        value = "" if found.value is None else f", value {found.value[row]:+.2f}"
        for panel, picture, title in (
            (axes[0][column], image, kind + value),
            (axes[1][column], target, "good lines"),
        ):
            panel.imshow(picture, cmap="gray", vmin=0, vmax=1)
            panel.set_title(title, fontsize=8)
            panel.grid(False)
            panel.set_xticks([])
            panel.set_yticks([])
    work.figure("data", figure)


def preliminary(work: study.Work[Settings]) -> None:
    """PreliminaryModelEvaluation: networks taught by each generator, without search (table 3)."""
    kinds = {  # and the kernel of the nets that go from picture to picture
        "first-try": ("first-try", 3),
        "basic-strategy": ("basic-strategy", 3),
        "stage-one": ("stage-one", 5),
        "AlphaZeroV1": ("stage-one", None),
        "AlphaZeroV5": ("stage-two", None),
        "AlphaZeroV7": ("stage-three", None),
    }
    rows = {}
    for name, (kind, pixels) in kinds.items():
        run = taught(work, kind, "hard", work.settings.small, pixels=pixels)
        rows[name] = against_rules(work, Player(run), work.settings.board, T3[name])
    work.table(
        "preliminary",
        f"Wins in percent without search, {work.settings.board}x{work.settings.board}",
        rows,
        notes=(
            "All are taught as many samples; theirs differed. first-try, basic-strategy and stage-one are seven plain"
            " convolutions, here with one softmax over all lines.",
            DIFFERENT,
        ),
    )


def boards(work: study.Work[Settings]) -> None:
    """BoardPerformance: one network, taught on a small board, on growing boards (table 4)."""
    run = taught(work, "stage-four", "hard", work.settings.small)
    sizes = [size for size in work.settings.sizes if size in T4] or list(work.settings.sizes)
    rows = {f"{size}x{size}": against_rules(work, Player(run), size, T4.get(size)) for size in sizes}
    rows_of, columns = work.settings.small
    title = f"Wins in percent without search, taught on {rows_of}x{columns}"
    work.table("boards", title, rows, notes=(DIFFERENT,))


def strong(work: study.Work[Settings]) -> None:
    """Ours: taught on one board, then self-play there; with and without search, also on the largest board."""
    before, run = strong_runs(work)
    rows = {}
    for name, player, size, theirs in (
        ("taught", Player(before), work.settings.board, T11["taught"]),
        ("strong", Player(run), work.settings.board, T11["taught"]),
        ("strong, search", searching(work, run, work.settings.board), work.settings.board, STRONGEST),
        ("strong", Player(run), max(work.settings.sizes), T7["B"].get(max(work.settings.sizes))),
        ("strong, search", searching(work, run, max(work.settings.sizes)), max(work.settings.sizes), None),
    ):
        games = work.settings.search_games if player.search else work.settings.games
        rows[f"{name}, {size}x{size}"] = against_rules(work, player, size, theirs, games=games)
    work.table(
        "strong",
        f"A network of {work.settings.board}x{work.settings.board}: wins in percent",
        rows,
        notes=(
            "Theirs: table 11 on 5x5 (with search the best of its six variants), table 7 on 15x15 (network B).",
            f"Searches of {work.settings.simulations} simulations, on boards above {work.settings.large_from}"
            f" {work.settings.large_simulations}.",
        ),
    )


def from_nothing(work: study.Work[Settings]) -> None:
    """Ours: the same self-play without any teacher."""
    settings, shape = work.settings, (work.settings.board, work.settings.board)
    run = finished(work, work.run("from nothing", loop_of(settings, shape, settings.nothing_iterations)))
    rows = {
        "from nothing": against_rules(work, Player(run), settings.board, None),
        "from nothing, search": against_rules(
            work, searching(work, run, settings.board), settings.board, None, games=settings.search_games
        ),
    }
    title = f"Learned from nothing, {settings.board}x{settings.board}: wins in percent"
    work.table("from_nothing", title, rows, notes=("The thesis wished for it, and had no machine for it.",))


def berlekamp(work: study.Work[Settings]) -> None:
    """Berlekamp's 13 problems, S where a winning line is chosen, and the confusion board, with and without search."""
    simulations = work.settings.problem_simulations
    rows = {}
    for prefix, thesis, run in (
        ("", T6, taught(work, "stage-four", "hard", work.settings.small)),
        ("strong, ", T6_SELFPLAY, strong_runs(work)[1]),
    ):
        for name, search in (
            ("raw", ""),
            ("search", f"sims={simulations}"),
            ("search over turns", f"sims={simulations}&turns=1"),
        ):
            player = Player(run, search)
            found = player.once(work, "berlekamp", functools.partial(solved, player))
            theirs = thesis.get(name)
            rows[prefix + name] = {
                "solved": study.Beside(theirs and theirs[1], found["solved"]),
                "which": study.Beside(theirs and theirs[0], found["which"]),
                "confusion board": "right" if found["not confused"] else "confused",
            }
    work.table(
        "berlekamp",
        f"Berlekamp's problems, {simulations:,} simulations",
        rows,
        notes=(
            "Theirs: AlphaZeroV7, taught on boards up to 5x4, and beside the strong network Comp-SP, after self-play;"
            " both with 1,500 simulations.",
        ),
    )


def solved(player: "Player") -> dict[str, Any]:
    """What an agent makes of Berlekamp's problems and of the confusion board."""
    make = functools.partial(make_agent, player.text)
    answers = dots_judges.berlekamp(make, jax.random.key(0)).answers
    which = "".join("S" if answer else "F" for answer in answers)
    return {
        "solved": which.count("S"),
        "which": which,
        "not confused": bool(dots_judges.confusion(make, jax.random.key(0))),
    }


def large_boards(work: study.Work[Settings]) -> None:
    """LargeBoards: is it better to teach on the large board or on a small one? (tables 7 and 8)"""
    thesis = T7 | T8
    for name, shape in zip("ABCD", work.settings.trained_on):
        run = taught(work, "stage-four", "hard", shape)
        rows = {
            f"{size}x{size}": against_rules(work, Player(run), size, thesis[name].get(size))
            for size in work.settings.sizes
        }
        title = f"Network {name}, taught on {shape[0]}x{shape[1]}: wins in percent without search"
        work.table(f"large_{name}", title, rows, notes=(DIFFERENT,))


def new_strategies(work: study.Work[Settings]) -> None:
    """NewStrategies: from a teacher who never double-deals to networks that do (tables 9 and 10)."""
    settings, shape = work.settings, (work.settings.strategies_board,) * 2
    before = taught(work, "stage-four", "medium", shape, samples=settings.strategies_samples)
    after = selfplay(work, "strategies after", before, shape, "medium", settings.strategies_iterations)
    runs = {"before": before, "after": after}
    if settings.further_iterations:
        loop = loop_of(settings, shape, settings.further_iterations)
        runs["further"] = finished(work, work.run("strategies further", loop, begun_from=before))
    sizes = dict.fromkeys((*shape, *(other for other in (5, 15) if other in settings.sizes)))
    rows = {}
    for size in sizes:
        for name, run in runs.items():
            theirs, games = T10.get((name, size)), settings.final_games
            label = f"{name}, {size}x{size}"
            rows[label] = against_rules(work, Player(run), size, theirs, games=games, count_deals=True)
    work.table(
        "new_strategies",
        "Wins in percent without search, and how often the network double-deals in 1,000 games of a row",
        rows,
        notes=(
            f"Theirs: 10,000 games against each, all of which we take their double deals to be counted in; ours"
            f" {settings.final_games:,}.",
            f"after: {settings.strategies_iterations} times {settings.selfplay_samples} samples, as theirs. further:"
            " the loop of ours from the same weights, whose games begin anywhere.",
            DIFFERENT,
        ),
    )


def competition(work: study.Work[Settings]) -> None:
    """Competition: variants with and without search on 5x5 against all opponents, some with a clock (table 11)."""
    settings, seconds = work.settings, work.settings.seconds
    first = taught(work, "stage-four", "hard", settings.small, samples=settings.competition_samples)
    clocks = {
        "alpha-beta": f"alphabeta?seconds={seconds}",
        "solver (for Dabble and QDab)": f"perfect?seconds={seconds}",
    }
    rows = {}
    for name in settings.variants:
        by_turns = name == "self-play by turns"
        if name == "taught":
            run = first
        elif name == "strong":
            run = strong_runs(work)[1]
        else:
            run = selfplay(
                work,
                f"competition {name}",
                first,
                settings.small,
                "hard",
                settings.competition_iterations,
                turns=by_turns,
            )
        turns = "&turns=1" if by_turns else ""
        for label, quiet, timed, games in (
            (name, "", "", settings.games),
            (
                f"{name}, search",
                f"sims={settings.simulations}{turns}",
                f"seconds={seconds}{turns}&reuse=1",
                settings.search_games,
            ),
        ):
            theirs = T11.get(label, (None,) * 5)
            rules = {rule: rule for rule in RULES}
            cells = played(work, Player(run, quiet), settings.board, rules, games)
            if name in settings.clocked:
                cells |= played(work, Player(run, timed), settings.board, clocks, settings.clocked_games)
            rows[label] = in_percent({f"against {other}": found for other, found in cells.items()}, theirs)
    work.table(
        "competition",
        f"Wins in percent, {settings.board}x{settings.board}",
        rows,
        notes=(
            f"Searches have {settings.simulations} simulations against easy, medium and hard, and {seconds:g} s per"
            f" move against the others, as these ({settings.clocked_games} games); theirs had 10 s. Dabble and QDab won"
            " every game against all six.",
            DIFFERENT,
        ),
    )


DIFFERENT = (
    "Smaller networks than theirs, see the settings in manifest.json; intervals are Wilson's, of 95 %."
)


class Player(NamedTuple):
    """A run that plays: by its network alone, or with a search."""

    run: study.StudyRun
    search: str = ""  # its options; empty for none

    @property
    def text(self) -> str:
        """The agent's text; the run is trained if need be."""
        path = self.run.agent()
        return f"az:{path}?{self.search}" if self.search else f"net:{path}"

    def once(self, work: study.Work[Settings], what: str, make: Callable[[], Any], **settings: Any) -> Any:
        """A result about this player, see `Work.once`."""
        about = {name: part for name, part in self.run.identity.items() if name != "config"}
        name = f"{self.run.name} {self.search} {what}".replace("  ", " ")
        return work.once(name, make, config=self.run.config, search=self.search, **about, **settings)


def searching(work: study.Work[Settings], run: study.StudyRun, size: int) -> Player:
    """A run with the search for a board of that size."""
    settings = work.settings
    simulations = settings.large_simulations if size > settings.large_from else settings.simulations
    return Player(run, f"sims={simulations}")


def square(size: int) -> DotsAndBoxes:
    """A square board; what its end is worth does not change who wins."""
    return DotsAndBoxes(size, size)


def network_of(settings: Settings) -> NetworkConfig:
    """The tower in the size of the settings."""
    if settings.tower == "thesis":
        return peters2018.network(settings.blocks, settings.channels, 3)
    return NetworkConfig(blocks=settings.blocks, channels=settings.channels)


def game_of(settings: Settings, shape: Sequence[int]) -> DotsAndBoxes:
    """The board as networks learn it: the thesis's picture with the mover's own boxes, and margins; or ours."""
    rows, columns = shape
    if settings.tower == "thesis":
        return DotsAndBoxes(rows, columns, reward="margin", observation="image")
    return DotsAndBoxes(rows, columns)


def search_of(settings: Settings, simulations: int) -> SearchConfig:
    """The search of self-play, and of the agents that come of it."""
    if settings.tower == "thesis":
        return dataclasses.replace(peters2018.config(3, 3, 1).search, simulations=simulations)
    return SearchConfig(kind="gumbel", simulations=simulations)


def optimiser_of(settings: Settings, updates: int) -> OptimiserConfig:
    """Adam and the weight decay of the thesis; or a rate that falls to nothing."""
    if settings.tower == "thesis":
        base = peters2018.config(3, 3, 1).optimiser
        return dataclasses.replace(base, symmetries=settings.augmented)
    return OptimiserConfig(
        decay="cosine",
        decay_steps=updates,
        ema=0.99 if updates > 1000 else 0.9,
        symmetries=settings.augmented,
    )


def teaching(
    settings: Settings, shape: Sequence[int], samples: int, pixels: int | None
) -> supervised.SupervisedConfig:
    """How a network is taught; an iteration goes through a tenth of the samples."""
    part = max(settings.batch_size, samples // 10)
    game, network = game_of(settings, shape), network_of(settings)
    if pixels is not None:
        game = dataclasses.replace(game, observation="grey")
        network = NetworkConfig(tower="peters2018-pixels", channels=settings.channels, kernel_size=pixels)
    iterations = max(1, settings.epochs * samples // part)
    return supervised.SupervisedConfig(
        game=game,
        network=network,
        optimiser=optimiser_of(settings, iterations * (part // settings.batch_size)),
        search=search_of(settings, settings.simulations),
        data="samples",
        positions=part,
        batch_size=settings.batch_size,
        held_out=0.0,
        iterations=iterations,
        save_every=10,
    )


def taught(
    work: study.Work[Settings],
    kind: str,
    teacher: str,
    shape: Sequence[int],
    *,
    samples: int | None = None,
    pixels: int | None = None,
) -> study.StudyRun:
    """A network that has been taught by a generator; stages that ask for the same get the same run.

    Args:
      work: of the study.
      kind: of the generator.
      teacher: whose games.
      shape: rows and columns.
      samples: how many; default those of the settings.
      pixels: the kernel of the thesis's first networks, from picture to picture; None for the tower.
    """
    samples = work.settings.samples if samples is None else samples
    config = teaching(work.settings, shape, samples, pixels)
    divisor = None if work.settings.tower == "thesis" else 1 / config.game.num_boxes  # who wins, and no more
    recipe = dots_data.Recipe(kind, teacher=teacher, divisor=divisor)

    def learn(
        folder: pathlib.Path, resume: bool, start: pathlib.Path | None, progress: Callable[[int, int], None]
    ) -> checkpoint.Run:
        told = functools.partial(work.progress, f"samples of {name}")
        known = dots_data.make_samples(config.game, recipe, samples, make_agent, told)
        return supervised.train(
            config,
            folder,
            supervised.from_positions(config, known),
            resume=resume,
            init_from=start,
            watch=lambda row: progress(row["iteration"], config.iterations),
            say=lambda line: None,
        )

    drawn = "" if pixels is None else f"-pixels{pixels}"
    name = f"{kind}-{teacher}-{shape[0]}x{shape[1]}-{samples}{drawn}"
    about = {"recipe": dataclasses.asdict(recipe), "samples": samples}
    return finished(work, work.run(name, config, lesson=study.Lesson(learn, about)))


def selfplay(
    work: study.Work[Settings],
    name: str,
    origin: study.StudyRun,
    shape: Sequence[int],
    teacher: str,
    iterations: int,
    *,
    turns: bool = False,
) -> study.StudyRun:
    """A network after gated self-play from another's weights."""
    settings = work.settings
    simulations = settings.turns_simulations if turns else settings.selfplay_simulations
    config = dataclasses.replace(
        gated.of_peters2018(
            *shape, teacher=teacher, turns=turns, simulations=simulations, iterations=iterations
        ),
        game=game_of(settings, shape),
        network=network_of(settings),
        samples=settings.selfplay_samples,
        window=settings.selfplay_samples,
        epochs=settings.selfplay_epochs,
        gate_games=settings.gate_games,
    )
    if settings.tower == "ours":  # the improved policy tells more than the move, of so few samples
        config = dataclasses.replace(
            config,
            search=search_of(settings, simulations),
            policy_target="visits",
            optimiser=OptimiserConfig(learning_rate=5e-4, symmetries=settings.augmented),
        )

    def learn(
        folder: pathlib.Path, resume: bool, start: pathlib.Path | None, progress: Callable[[int, int], None]
    ) -> checkpoint.Run:
        return gated.train(
            config,
            folder,
            *gated_dots.make_parts(config),
            init_from=start,
            resume=resume,
            watch=lambda row: progress(row["iteration"], iterations),
            say=lambda line: None,
        )

    return finished(work, work.run(name, config, begun_from=origin, lesson=study.Lesson(learn, {})))


def loop_of(settings: Settings, shape: Sequence[int], iterations: int) -> TrainConfig:
    """The self-play that learned 3x3 from nothing (preset dots-3x3), on any board: half its games begin anywhere."""
    config = presets.preset("dots-3x3", game_of(settings, shape))
    return dataclasses.replace(
        config,
        network=network_of(settings),
        optimiser=dataclasses.replace(config.optimiser, decay_steps=iterations * config.updates),
        iterations=iterations,
        save_every=max(1, iterations // 12),
    )


def strong_runs(work: study.Work[Settings]) -> tuple[study.StudyRun, study.StudyRun]:
    """The strong network as it was taught, and after self-play."""
    settings = work.settings
    shape = settings.board, settings.board
    before = taught(work, "stage-three", "hard", shape, samples=settings.strong_samples)
    loop = loop_of(settings, shape, settings.strong_iterations)
    return before, finished(work, work.run("strong", loop, begun_from=before))


def finished(work: study.Work[Settings], run: study.StudyRun) -> study.StudyRun:
    """The run, trained to its end; its weights are kept, so that its folder may go."""
    work.cost_of(run)
    run.keep()
    return run


def against_rules(
    work: study.Work[Settings],
    player: Player,
    size: int,
    theirs: Sequence[float] | None,
    *,
    games: int | None = None,
    count_deals: bool = False,
) -> dict[str, Any]:
    """A row of a table: a player against easy, medium and hard, and if asked for its double deals in 1,000 games."""
    games = work.settings.games if games is None else games
    found = played(work, player, size, {rule: rule for rule in RULES}, games)
    row = in_percent({f"against {rule}": match for rule, match in found.items()}, theirs or (None,) * 3)
    if count_deals:
        deals = 1000 * sum(match["double_deals"] for match in found.values()) / (len(RULES) * games)
        row["double deals"] = study.Beside(theirs and theirs[-1] / 30, deals)  # theirs: in 3 x 10,000 games
    return row


def played(
    work: study.Work[Settings], player: Player, size: int, opponents: Mapping[str, str], games: int
) -> dict[str, dict[str, int]]:
    """Matches of a player against some opponents, by their names."""
    return {
        name: player.once(
            work,
            f"against {name} {size}x{size}",
            functools.partial(match, work, player, opponent, size, games),
            games=games,
            opponent=opponent,
        )
        for name, opponent in opponents.items()
    }


def in_percent(matches: Mapping[str, Mapping[str, int]], theirs: Sequence[float | None]) -> dict[str, Any]:
    """Cells of a table: wins in percent beside theirs with intervals, and how many games there were."""
    row: dict[str, Any] = {}
    for (name, found), other in zip(matches.items(), theirs):
        low, high = wilson_interval(found["wins"], found["games"])
        row[name] = study.Beside(other, 100 * found["wins"] / found["games"])
        row[f"95 %, {name.removeprefix('against ')}"] = f"{100 * low:.1f} to {100 * high:.1f}"
    row["games each"] = ", ".join(str(games) for games in dict.fromkeys(m["games"] for m in matches.values()))
    different, games = (sum(found[of] for found in matches.values()) for of in ("distinct", "games"))
    row["different games"] = f"{different:,} of {games:,}"
    return row


def match(work: study.Work[Settings], player: Player, opponent: str, size: int, games: int) -> dict[str, int]:
    """A match from safe fills, each played with both colours; and how often the player has double-dealt."""
    board = square(size)
    title = f"{player.run.name} {player.search} against {opponent} {size}x{size}"
    pairs = math.ceil(games / 2)
    openings = match_openings.safe_openings(board, pairs, seed=1)
    result = make_match(
        board, agent_of(player.text, board), agent_of(opponent, board), pairs=pairs, openings=openings
    )(None, None, jax.random.key(1), progress=functools.partial(work.progress, title))
    record, starts = result.played.record, result.played.starts
    deals = dots_judges.count_double_deals(board, record, starts).by_player
    return {
        "wins": result.total.wins,
        "draws": result.total.draws,
        "games": result.games,
        "distinct": result.distinct_games,
        "double_deals": int(np.where(result.played.agent_first, deals[:, 0], deals[:, 1]).sum()),
    }


# Whoever is made once is compiled once, whomever it meets.
agent_of = functools.lru_cache(maxsize=16)(make_agent)


def costs(settings: Settings) -> list[study.Cost]:
    """What the parts ask of a machine: learning from a position counts as three evaluations of it."""

    def on(shape: Sequence[int]) -> TrainConfig:
        return TrainConfig(game=game_of(settings, shape), network=network_of(settings))

    small, board = on(settings.small), (settings.board,) * 2
    tiny = on((settings.strategies_board,) * 2)
    plies = 2 * settings.board * (settings.board + 1)

    def gated_cost(iterations: int, simulations: int) -> float:
        searches = settings.selfplay_samples * (simulations + 1 + 3 * settings.selfplay_epochs)
        return iterations * (searches + settings.gate_games * plies)

    lesson = 3.0 * settings.epochs
    strong_loop, nothing = (
        loop_of(settings, board, iterations)
        for iterations in (settings.strong_iterations, settings.nothing_iterations)
    )
    further = loop_of(settings, (settings.strategies_board,) * 2, max(1, settings.further_iterations))
    searched = 3 * settings.search_games * plies / 2 * (settings.simulations + 1)
    moves = len(settings.clocked) * settings.clocked_games * plies / 2 * settings.seconds / 3600
    return [
        study.Cost("strong: taught", on(board), lesson * settings.strong_samples),
        study.training_cost("strong: self-play", strong_loop),
        study.Cost("strong: matches", on(board), 2 * searched),
        study.Cost("new strategies: taught", tiny, lesson * settings.strategies_samples),
        study.Cost(
            "new strategies: gated",
            tiny,
            gated_cost(settings.strategies_iterations, settings.selfplay_simulations),
        ),
        study.training_cost("new strategies: further", further),
        *(
            study.Cost(f"large boards: {name}", on(shape), lesson * settings.samples)
            for name, shape in zip("ABCD", settings.trained_on)
        ),
        study.Cost("preliminary", small, 5 * lesson * settings.samples),
        study.Cost(
            "competition",
            small,
            gated_cost(settings.competition_iterations, settings.selfplay_simulations)
            + gated_cost(settings.competition_iterations, settings.turns_simulations)
            + len(settings.variants) * searched,
            hours=6 * moves,  # two opponents think, and in half of the games the player does too
        ),
        study.training_cost("from nothing", nothing),
        *(
            study.Cost(
                f"matches without search, {size}x{size}",
                on((size, size)),
                3.0 * settings.games * size * (size + 1) * (1 + len(settings.trained_on)),
            )
            for size in settings.sizes
        ),
    ]


STUDY = study.Study(
    "peters2018",
    __doc__,
    quick=QUICK,
    full=FULL,
    stages={
        "rules": rules,
        "data": data,
        "strong": strong,
        "berlekamp": berlekamp,
        "new_strategies": new_strategies,
        "boards": boards,
        "large_boards": large_boards,
        "competition": competition,
        "preliminary": preliminary,
        "from_nothing": from_nothing,
    },
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
