"""How many games per second do the learners play? Against the loop of Kromann and Bennetsen 2019, re-created here.

    python -m experiments.benchmarks.learners            # a few minutes; keeps its table
    python -m experiments.benchmarks.learners --quick    # a smoke test; keeps nothing

Their loop plays one game at a time and looks at one candidate move at a time, then updates the weights (TD)
or goes on to the next pair of individuals (ES). It is written here as plainly as they describe it, in numpy,
with the same rules and networks; rates are training games per CPU-second of one core, interleaved in one run.
"""

import dataclasses
import itertools
from collections.abc import Callable

import jax
import numpy as np
import tyro

from azjax.envs import Hex
from azjax.learners.es import ESConfig
from azjax.learners.session import make_learner
from azjax.learners.strategies import population_size
from azjax.learners.td import TDConfig
from experiments.benchmarks.timing import cpu_seconds, report

NEIGHBOURS = ((0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1))


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    size: int = 5
    rounds: int = 5
    loop_games: int = 40  # of the loop, a round
    steps: int = 5  # of the learners, a round


class Board:
    """Hex one stone at a time, with groups that know the sides they touch, as in the thesis."""

    def __init__(self, size: int):
        self.size = size
        self.stones = np.zeros((size, size), np.int8)  # 1 for the first player, who joins top and bottom, -1
        self.parent: dict[tuple[int, int], tuple[int, int]] = {}
        self.sides: dict[tuple[int, int], int] = {}  # of a group's root: 1 its first side, 2 its second
        self.mover = 1

    def place(self, cell: tuple[int, int]) -> bool:
        """Puts the mover's stone; True if it wins."""
        along = cell[0] if self.mover == 1 else cell[1]
        self.stones[cell] = self.mover
        self.parent[cell], self.sides[cell] = cell, (along == 0) + 2 * (along == self.size - 1)
        for down, right in NEIGHBOURS:
            near = cell[0] + down, cell[1] + right
            if min(near) >= 0 and max(near) < self.size and self.stones[near] == self.mover:
                one, other = self._root(near), self._root(cell)
                self.parent[other] = one
                self.sides[one] |= self.sides[other]
        self.mover = -self.mover
        return self.sides[self._root(cell)] == 3

    def _root(self, cell: tuple[int, int]) -> tuple[int, int]:
        while self.parent[cell] != cell:
            cell = self.parent[cell]
        return cell


def seen(stones: np.ndarray, player: int) -> np.ndarray:
    """The board as a player sees it, flat: own stones 1, the opponent's -1."""
    return (stones if player == 1 else -stones.T).ravel().astype(np.float32)


def forward(weights: list[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """The activations of every layer; the last is not activated."""
    layers = [x]
    for number, matrix in enumerate(weights):
        x = x @ matrix
        layers.append(np.maximum(x, 0) if number < len(weights) - 1 else x)
    return layers


def start_weights(units: tuple[int, ...], rng: np.random.Generator) -> list[np.ndarray]:
    """Normal, with variance one over the number of weights."""
    shapes = list(itertools.pairwise(units))
    scale = sum(a * b for a, b in shapes) ** -0.5
    return [scale * rng.normal(size=shape).astype(np.float32) for shape in shapes]


def td_loop(size: int, games: int) -> Callable[[], list[np.ndarray]]:
    """One game, one candidate after the other, one update."""
    rng = np.random.default_rng(0)
    weights = start_weights((size * size, 80, 40, 1), rng)

    def chance(x: np.ndarray) -> float:
        return 1 / (1 + np.exp(-forward(weights, x)[-1][0]))

    def choose(board: Board) -> tuple[int, int]:
        empty = [tuple(cell) for cell in np.argwhere(board.stones == 0)]
        if rng.random() < 0.1:
            return empty[rng.integers(len(empty))]
        best, chosen = 2.0, empty[0]
        for cell in empty:
            board.stones[cell] = board.mover
            value = chance(seen(board.stones, -board.mover))
            board.stones[cell] = 0
            if value < best:
                best, chosen = value, cell
        return chosen

    def one_game() -> None:
        board, states, over = Board(size), [], False
        while not over:
            states.append(seen(board.stones, board.mover))
            over = board.place(choose(board))
        layers = forward(weights, np.array(states))
        values = 1 / (1 + np.exp(-layers[-1][:, 0]))
        errors = np.append(1 - values[1:], 1) - values
        delta = (errors * values * (1 - values))[:, None].astype(np.float32)
        for number in reversed(range(len(weights))):
            gradient = layers[number].T @ delta
            delta = (delta @ weights[number].T) * (layers[number] > 0)
            weights[number] += 0.1 * gradient

    def run() -> list[np.ndarray]:
        for _ in range(games):
            one_game()
        return weights

    return run


def es_loop(size: int, games: int) -> Callable[[], int]:
    """One game of two policies after the other."""
    rng = np.random.default_rng(0)
    population = [
        start_weights((size * size, 80, 40, size * size), rng) for _ in range(population_size(6200))
    ]

    def choose(board: Board, weights: list[np.ndarray]) -> tuple[int, int]:
        logits = np.maximum(forward(weights, seen(board.stones, board.mover))[-1], 0).reshape(size, size)
        logits = logits if board.mover == 1 else logits.T
        odds = np.where(board.stones == 0, np.exp(logits - logits.max()), 0).ravel()
        return divmod(int(np.searchsorted(np.cumsum(odds), rng.random() * odds.sum(), "right")), size)

    def run() -> int:
        wins = 0
        for number in range(games):
            pair = population[number % len(population)], population[(number + 1) % len(population)]
            board, over = Board(size), False
            while not over:
                over = board.place(choose(board, pair[0] if board.mover == 1 else pair[1]))
            wins += board.mover == -1
        return wins

    return run


def learner_run(config: TDConfig | ESConfig, steps: int) -> tuple[Callable[[], object], int]:
    """Some steps of all sessions, and how many games that is."""
    learner = make_learner(config)
    keys = jax.random.split(jax.random.key(0), config.sessions)
    state = jax.jit(jax.vmap(learner.init))(keys)

    def one(state, key):
        previous = learner.params(state)
        return jax.lax.scan(lambda s, k: learner.step(s, previous, k), state, jax.random.split(key, steps))[0]

    run = jax.jit(jax.vmap(one))
    return lambda: run(state, keys), steps * learner.games_per_step * config.sessions


def main(config: Config) -> None:
    """Measures and reports."""
    loop_games, steps, rounds = (
        (4, 1, 1) if config.quick else (config.loop_games, config.steps, config.rounds)
    )
    game = Hex(config.size)
    runs = {
        "td": {
            "loop of the thesis": (td_loop(config.size, loop_games), loop_games),
            "one game a step": learner_run(
                TDConfig(game, games=1, optimiser="sgd", learning_rate=0.1), 20 * steps
            ),
            "one game a step, 5 sessions": learner_run(
                TDConfig(game, games=1, optimiser="sgd", learning_rate=0.1, sessions=5), 20 * steps
            ),
            "256 games a step": learner_run(TDConfig(game), steps),
        },
        "es": {
            "loop of the thesis": (es_loop(config.size, loop_games), loop_games),
            "60 games a generation": learner_run(ESConfig(game, games=1), 10 * steps),
            "480 games a generation": learner_run(ESConfig(game), 2 * steps),
        },
    }
    rows = []
    for method, contenders in runs.items():
        seconds = cpu_seconds({name: run for name, (run, _) in contenders.items()}, rounds)
        rates = {name: games / seconds[name] for name, (_, games) in contenders.items()}
        rows += [
            {
                "method": method,
                "how": name,
                "games per CPU-second": rate,
                "speed-up": rate / rates["loop of the thesis"],
            }
            for name, rate in rates.items()
        ]
    title = f"training games on {config.size}x{config.size} Hex, 80-40"
    report("learners", title, rows, keep=not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config))
