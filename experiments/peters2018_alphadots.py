"""AlphaDots: Dots and Boxes by deep networks and tree search. The experiments of Peters 2018.

    python -m experiments.peters2018_alphadots                     # all, with networks small enough for two cores
    python -m experiments.peters2018_alphadots --only rules        # one of them, a stage below
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
hard does where it has proven nothing.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from azjax.agents import dots_data, dots_games, make_agent
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.evaluation import dots_judges, gated_dots, match_openings
from azjax.evaluation.arena import make_match
from azjax.learners import gated, supervised
from azjax.nn.networks import NetworkConfig
from azjax.plots import style
from azjax.positions import labelled
from azjax.theses import peters2018
from azjax.training import checkpoint
from azjax.training.config import TrainConfig
from experiments import study

RULES = ("easy", "medium", "hard")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes of everything. The thesis's samples are in millions, its networks have 8 blocks of 256 channels."""

    blocks: int = 4
    channels: int = 32
    samples: int = 200_000  # that a network is taught
    epochs: int = 3
    learning_rate: float = 1e-3
    batch_size: int = 128
    augmented: bool = True  # show each sample turned by a random symmetry
    games: int = 200  # of a match
    final_games: int = 400  # of the matches after self-play
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
    seconds: float = 1.0  # per move in the competition; theirs had 10
    strategies_board: int = 3
    strategies_samples: int = 400_000
    strategies_iterations: int = 20
    competition_iterations: int = 8
    selfplay_samples: int = 512
    selfplay_epochs: int = 5
    selfplay_simulations: int = 200
    gate_games: int = 1000
    competition_games: int = 20
    # Of the competition, each with and without search: taught, self-play by turns, self-play by lines.
    variants: tuple[str, ...] = ("taught", "self-play by turns", "self-play by lines")


QUICK = Settings()
FULL = Settings(
    blocks=8,
    channels=256,
    samples=2_000_000,
    epochs=1,
    games=1000,
    final_games=10_000,
    sizes=tuple(range(3, 16)),
    simulations=1500,
    seconds=10.0,
    strategies_samples=4_000_000,
    competition_iterations=32,
    selfplay_simulations=1000,
    competition_games=100,
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

    def cell(first: str, second: str) -> float:
        return work.once(
            f"rules {first} {second} {board.rows}x{board.columns}",
            lambda: share_of_wins(board, first, second, games),
            games=games,
            board=board.rows,
        )

    rows = {
        one: {
            f"against {other}": study.Beside(theirs, 100 * cell(one, other))
            for other, theirs in zip(RULES, T2[one])
        }
        for one in RULES
    }
    work.table(
        "rules",
        f"Wins in percent, {games:,} games, {board.rows}x{board.columns}",
        rows,
        digits=2,
        notes=(
            "The thesis does not say on which board; 5x5 fits best. From the empty board, half of the games each.",
        ),
    )


def share_of_wins(board: DotsAndBoxes, one: str, other: str, games: int) -> float:
    """How often a level beats another, if each begins half of the games; draws are no wins."""
    half = games // 2
    starts = np.zeros((half, board.num_actions), bool)
    wins = 0
    for first, second, seeds, sign in (
        (one, other, np.arange(half), 1),
        (other, one, np.arange(half, 2 * half), -1),
    ):
        records = dots_games.play(board, first, starts, seeds, second=second)
        margin = dots_games.cut(board, starts, records, np.zeros(half, np.int64)).margin
        wins += int(np.sum(sign * margin > 0))
    return wins / (2 * half)


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
    kinds = {
        "first-try": "first-try",
        "basic-strategy": "basic-strategy",
        "stage-one": "stage-one",
        "AlphaZeroV1": "stage-one",
        "AlphaZeroV5": "stage-two",
        "AlphaZeroV7": "stage-three",
    }
    rows = {}
    for name, kind in kinds.items():
        is_pixels = name in ("first-try", "basic-strategy", "stage-one")
        path = taught(
            work, f"preliminary {name}", dots_data.Recipe(kind), work.settings.small, is_pixels=is_pixels
        )
        rows[name] = against_rules(work, f"net:{path}", f"preliminary {name}", work.settings.board, T3[name])
    work.table(
        "preliminary",
        f"Wins in percent without search, {work.settings.board}x{work.settings.board}",
        rows,
        notes=(
            "All are taught as many samples; theirs differed. first-try, basic-strategy and stage-one are seven plain"
            " convolutions, here with one softmax over all lines.",
        ),
    )


def boards(work: study.Work[Settings]) -> None:
    """BoardPerformance: one network, taught on a small board, on growing boards (table 4)."""
    path = main_network(work)
    sizes = [size for size in work.settings.sizes if size in T4] or list(work.settings.sizes)
    rows = {
        f"{size}x{size}": against_rules(work, f"net:{path}", "main", size, T4.get(size)) for size in sizes
    }
    rows_of, columns = work.settings.small
    work.table("boards", f"Wins in percent without search, taught on {rows_of}x{columns}", rows)


def berlekamp(work: study.Work[Settings]) -> None:
    """Berlekamp's 13 problems, S where a winning line is chosen, and the confusion board, with and without search."""
    path, simulations = main_network(work), work.settings.simulations
    variants = {"raw": f"net:{path}", "search": f"az:{path}?sims={simulations}&search=puct"}
    variants["search over turns"] = f"{variants['search']}&turns=1"
    rows = {}
    for name, text in variants.items():
        found = work.once(f"berlekamp main {name}", functools.partial(solved, text), simulations=simulations)
        theirs = T6.get(name)
        rows[name] = {
            "solved": study.Beside(theirs and theirs[1], found["solved"]),
            "which": study.Beside(theirs and theirs[0], found["which"]),
            "confusion board": "right" if found["not confused"] else "confused",
        }
    work.table("berlekamp", "Berlekamp's problems (theirs: AlphaZeroV7, 1,500 simulations)", rows)


def solved(text: str) -> dict[str, Any]:
    """What an agent makes of Berlekamp's problems and of the confusion board."""
    make = functools.partial(make_agent, text)
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
        path = taught(work, f"large {name}", dots_data.Recipe("stage-four"), shape)
        rows = {
            f"{size}x{size}": against_rules(
                work, f"net:{path}", f"large {name}", size, thesis[name].get(size)
            )
            for size in work.settings.sizes
        }
        title = f"Network {name}, taught on {shape[0]}x{shape[1]}: wins in percent without search"
        work.table(f"large_{name}", title, rows)


def new_strategies(work: study.Work[Settings]) -> None:
    """NewStrategies: from a teacher who never double-deals to networks that do (tables 9 and 10)."""
    settings, size = work.settings, work.settings.strategies_board
    recipe = dots_data.Recipe("stage-four", teacher="medium")
    before = taught(work, "strategies before", recipe, (size, size), samples=settings.strategies_samples)
    after = selfplay(
        work, "strategies after", before, (size, size), "medium", settings.strategies_iterations, turns=False
    )
    rows = {}
    for board in dict.fromkeys((size, *(other for other in (5, 15) if other in settings.sizes))):
        for name, path in (("before", before), ("after", after)):
            theirs = T10.get((name, board))
            label = f"strategies {name}"
            rows[f"{name}, {board}x{board}"] = against_rules(
                work, f"net:{path}", label, board, theirs, games=settings.final_games, count_deals=True
            )
    work.table(
        "new_strategies",
        "Wins in percent without search, and double deals in all games of a row",
        rows,
        notes=(f"Theirs: 10,000 games against each; ours {settings.final_games:,}.",),
    )


def competition(work: study.Work[Settings]) -> None:
    """Competition: six variants on 5x5 against all opponents, with a clock (table 11)."""
    settings = work.settings
    first = taught(work, "competition", dots_data.Recipe("stage-four"), settings.small)
    seconds = settings.seconds
    rows = {}
    for name in settings.variants:
        turns = int(name == "self-play by turns")
        path = first
        if name != "taught":
            path = selfplay(
                work,
                f"competition {name}",
                first,
                settings.small,
                "hard",
                settings.competition_iterations,
                turns=bool(turns),
            )
        texts = {name: f"net:{path}", f"{name}, search": f"az:{path}?seconds={seconds}&turns={turns}&reuse=1"}
        for label, text in texts.items():
            rows[label] = against(
                work,
                text,
                f"competition {label}",
                settings.board,
                {
                    **{rule: rule for rule in RULES},
                    "alpha-beta": f"alphabeta?seconds={seconds}",
                    "solver (for Dabble and QDab)": f"perfect?seconds={seconds}",
                },
                T11[label],
                games=settings.competition_games,
            )
    work.table(
        "competition",
        f"Wins in percent, {settings.board}x{settings.board}, {seconds:g} s per move",
        rows,
        notes=("Theirs had 10 s; Dabble and QDab won every game against all six.",),
    )


def square(size: int) -> DotsAndBoxes:
    """A square board; what its end is worth does not change who wins."""
    return DotsAndBoxes(size, size)


def network_of(settings: Settings) -> NetworkConfig:
    """The thesis's tower, in the size of the settings."""
    return peters2018.network(settings.blocks, settings.channels, 3)


def game_of(shape: Sequence[int]) -> DotsAndBoxes:
    """The board as networks learn it: margins, and the thesis's picture with the mover's own boxes."""
    rows, columns = shape
    return DotsAndBoxes(rows, columns, reward="margin", observation="image")


def teaching(
    settings: Settings, shape: Sequence[int], samples: int, is_pixels: bool
) -> supervised.SupervisedConfig:
    """How a network is taught; an iteration goes through a tenth of the samples."""
    part = max(settings.batch_size, samples // 10)
    game, network = game_of(shape), network_of(settings)
    if is_pixels:
        game = dataclasses.replace(game, observation="grey")
        network = dataclasses.replace(network, tower="peters2018-pixels")
    return supervised.SupervisedConfig(
        game=game,
        network=network,
        optimiser=optimiser_of(settings),
        data="samples",
        positions=part,
        batch_size=settings.batch_size,
        held_out=0.0,
        iterations=max(1, settings.epochs * samples // part),
        save_every=10,
    )


def optimiser_of(settings: Settings):
    """Adam and the weight decay of the thesis."""
    base = peters2018.config(3, 3, 1).optimiser
    return dataclasses.replace(base, learning_rate=settings.learning_rate, symmetries=settings.augmented)


def taught(
    work: study.Work[Settings],
    name: str,
    recipe: dots_data.Recipe,
    shape: Sequence[int],
    *,
    samples: int | None = None,
    is_pixels: bool = False,
) -> pathlib.Path:
    """The folder of a network that has been taught by a recipe."""
    samples = work.settings.samples if samples is None else samples
    config = teaching(work.settings, shape, samples, is_pixels)
    made = dataclasses.asdict(recipe) | {"samples": samples}

    def learn(folder: pathlib.Path, resume: bool) -> checkpoint.Run:
        known = dots_data.make_samples(
            config.game,
            recipe,
            samples,
            make_agent,
            lambda done, total: work.progress(f"samples of {name}", done, total),
        )
        labelled.write(folder.with_name(f"{folder.name}.npz"), config.game, known, made)
        return supervised.train(
            config,
            folder,
            supervised.from_positions(config, known),
            resume=resume,
            watch=lambda row: work.progress(f"teaching {name}", row["iteration"], config.iterations),
            say=lambda line: None,
        )

    return finished(work, name, config, learn)


def selfplay(
    work: study.Work[Settings],
    name: str,
    origin: pathlib.Path,
    shape: Sequence[int],
    teacher: str,
    iterations: int,
    *,
    turns: bool,
) -> pathlib.Path:
    """The folder of a network after gated self-play from another's weights."""
    settings = work.settings
    thesis = gated.of_peters2018(
        *shape, teacher=teacher, turns=turns, simulations=settings.selfplay_simulations, iterations=iterations
    )
    config = dataclasses.replace(
        thesis,
        network=network_of(settings),
        samples=settings.selfplay_samples,
        window=settings.selfplay_samples,
        epochs=settings.selfplay_epochs,
        gate_games=settings.gate_games,
    )

    def learn(folder: pathlib.Path, resume: bool) -> checkpoint.Run:
        return gated.train(
            config,
            folder,
            *gated_dots.make_parts(config),
            init_from=None if resume else origin,
            resume=resume,
            watch=lambda row: work.progress(f"self-play of {name}", row["iteration"], iterations),
            say=lambda line: None,
        )

    return finished(work, name, config, learn)


def finished(work: study.Work[Settings], name: str, config: Any, learn) -> pathlib.Path:
    """The folder of a run, which `learn` (folder, resume) begins or goes on with unless it is at its end."""
    folder = work.out / name.replace(" ", "-")
    begun = (folder / "config.json").exists()
    if begun:
        run = checkpoint.open_run(folder, config)
        if max(run.iterations, default=0) >= run.config.iterations:
            return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    if learn(folder, begun).interrupted:
        raise study.Stopped
    return folder


def main_network(work: study.Work[Settings]) -> pathlib.Path:
    """The network of several stages: ours for AlphaZeroV7, taught by stage-four on the small board."""
    return taught(work, "main", dots_data.Recipe("stage-four"), work.settings.small)


def against_rules(
    work: study.Work[Settings],
    text: str,
    label: str,
    size: int,
    theirs: Sequence[float] | None,
    *,
    games: int | None = None,
    count_deals: bool = False,
) -> dict[str, Any]:
    """A row of a table: an agent against easy, medium and hard, and if asked for its double deals."""
    opponents = {rule: rule for rule in RULES}
    return against(work, text, label, size, opponents, theirs, games=games, count_deals=count_deals)


def against(
    work: study.Work[Settings],
    text: str,
    label: str,
    size: int,
    opponents: Mapping[str, str],
    theirs: Sequence[float] | None,
    *,
    games: int | None = None,
    count_deals: bool = False,
) -> dict[str, Any]:
    """A row of a table: an agent's wins against some opponents in percent, theirs beside ours."""
    games = work.settings.games if games is None else games
    row: dict[str, Any] = {}
    deals = 0
    for number, (name, opponent) in enumerate(opponents.items()):
        found = work.once(
            f"{label} against {name} {size}x{size}",
            functools.partial(match, work, text, opponent, size, games, label),
            games=games,
            opponent=opponent,
        )
        row[f"against {name}"] = study.Beside(theirs and theirs[number], 100 * found["wins"] / found["games"])
        deals += found["double_deals"]
    if count_deals:
        row["double deals"] = study.Beside(theirs and theirs[-1], deals)
    return row


def match(
    work: study.Work[Settings], text: str, opponent: str, size: int, games: int, label: str
) -> dict[str, Any]:
    """A match from safe fills, half of the games with each colour; and how often the agent has double-dealt."""
    board = square(size)
    agent, other = player(text, board), player(opponent, board)
    pairs = math.ceil(games / 2)
    openings = match_openings.safe_openings(board, pairs, seed=1)
    result = make_match(board, agent, other, pairs=pairs, openings=openings)(
        None,
        None,
        jax.random.key(1),
        progress=lambda done, total: work.progress(f"{label} against {opponent} {size}x{size}", done, total),
    )
    played = result.played
    deals = dots_judges.count_double_deals(board, played.record, played.starts).by_player
    return {
        "wins": result.total.wins,
        "games": result.games,
        "distinct": result.distinct_games,
        "double_deals": int(np.where(played.agent_first, deals[:, 0], deals[:, 1]).sum()),
    }


# Whoever is made once is compiled once, whomever it meets.
player = functools.lru_cache(maxsize=16)(make_agent)


def costs(settings: Settings) -> list[study.Cost]:
    """What the parts ask of a machine: learning from a position counts as three evaluations of it."""
    large = TrainConfig(game=game_of(settings.small), network=network_of(settings))
    lessons = 3.0 * settings.epochs * settings.samples
    tower_runs = 3 + 1 + len(settings.trained_on) + 1
    searches = settings.selfplay_samples * (settings.selfplay_simulations + 1)
    learned = 3.0 * settings.selfplay_samples * settings.selfplay_epochs
    plies = 2 * settings.board * (settings.board + 1)
    gate = settings.gate_games * plies
    per_iteration = searches + learned + gate
    clocked = 3 * 5 * settings.competition_games * plies / 2 * settings.seconds / 3600
    return [
        study.Cost("networks taught", large, tower_runs * lessons),
        study.Cost(
            "new strategies",
            large,
            3.0 * settings.epochs * settings.strategies_samples
            + settings.strategies_iterations * per_iteration,
        ),
        study.Cost(
            "competition", large, 2 * settings.competition_iterations * per_iteration, hours=2 * clocked
        ),
        study.Cost(
            "matches without search",
            large,
            3.0
            * settings.games
            * sum(size * (size + 1) for size in settings.sizes)
            * (1 + len(settings.trained_on)),
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
        "preliminary": preliminary,
        "boards": boards,
        "berlekamp": berlekamp,
        "large_boards": large_boards,
        "new_strategies": new_strategies,
        "competition": competition,
    },
    costs=costs,
)

if __name__ == "__main__":
    STUDY.main()
