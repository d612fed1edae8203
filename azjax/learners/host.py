"""AlphaZero on the host, in the four ways of Karki 2024: a peer to compare the compiled loop with.

A game is a thread, its search tree lives in Python, and the network is asked from there:

- `discard`: one game after the other; all that was played since the last training is learned from once, and forgotten.
- `buffer`: one game after the other, into a buffer; when enough of it is new, a sample is learned from.
- `parallel`: several games at once into one buffer; each asks the network by itself.
- `queue`: the same, but positions wait in one queue until every game waits, or a time limit has passed; then the
  network is asked about all of them together, and each answer goes back to its game.

The rules, the network and the loss are those of the compiled loop, and so is what an iteration is: one training. Nobody
should train with this; `experiments/benchmarks/modes.py` measures how much it loses.
"""

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from azjax.envs.core import Game, GameState
from azjax.nn import make_evaluator, make_network
from azjax.nn.networks import Params
from azjax.training import boards
from azjax.training import loss as objective
from azjax.training.config import TrainConfig
from azjax.training.replay import StoredPosition

Mode = Literal["discard", "buffer", "parallel", "queue"]
MODES: tuple[Mode, ...] = ("discard", "buffer", "parallel", "queue")

Evaluate = Callable[[Sequence[GameState]], tuple[np.ndarray, np.ndarray]]
"""(positions) -> logits [positions, actions], values [positions] for the player to move."""

Ask = Callable[[GameState], tuple[np.ndarray, float]]
"""(position) -> logits [actions], value; how a game asks the network."""


class InferenceQueue:
    """Where games wait for the network. Use it as a context; games that have ended say so with `leave`."""

    def __init__(self, evaluate: Evaluate, games: int, seconds: float = 0.1):
        """A queue; nothing runs before it is entered.

        Args:
          evaluate: the network.
          games: how many there are, with numbers from 0: the queue is emptied as soon as so many wait.
          seconds: how long the first of them waits at most.
        """
        self._evaluate, self._games, self._seconds = evaluate, games, seconds
        self._changed = threading.Condition()
        self._waiting: dict[int, GameState] = {}
        self._answers: dict[int, Any] = {}
        self._first_came = 0.0
        self._is_open = True
        self.sizes: list[int] = []  # of the batches that were asked

    def __enter__(self) -> "InferenceQueue":
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()
        return self

    def __exit__(self, *exception) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._server.join()

    def ask(self, game: int, state: GameState) -> tuple[np.ndarray, float]:
        """What the network says of a position of a game; waits for it."""
        with self._changed:
            if not self._waiting:
                self._first_came = time.monotonic()
            self._waiting[game] = state
            self._changed.notify_all()
            self._changed.wait_for(lambda: game in self._answers)
            answer = self._answers.pop(game)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self) -> None:
        """One game fewer will ask."""
        with self._changed:
            self._games -= 1
            self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._is_open)
                if not self._waiting:
                    return
                left = self._first_came + self._seconds - time.monotonic()
                self._changed.wait_for(lambda: len(self._waiting) >= self._games, max(0.0, left))
                batch, self._waiting = self._waiting, {}
            try:
                logits, values = self._evaluate(list(batch.values()))
                answers = dict(zip(batch, zip(logits, values.tolist())))
            except Exception as error:  # whoever waits must hear of it
                answers = dict.fromkeys(batch, error)
            with self._changed:
                self.sizes.append(len(batch))
                self._answers |= answers
                self._changed.notify_all()


class Buffer:
    """Positions in order of arrival; a full one overwrites the oldest place, or leaves it as it is."""

    def __init__(self, capacity: int, overwrite: float, draw: np.random.Generator):
        """An empty buffer.

        Args:
          capacity: how many positions it holds.
          overwrite: the chance that a position takes the place of an older one; otherwise it is lost.
          draw: for chance.
        """
        self._capacity, self._overwrite, self._draw = capacity, overwrite, draw
        self._rows: list[Any] = []
        self._head = 0
        self.new = 0  # positions that came since the last `sample`

    def push(self, rows: Sequence[Any]) -> None:
        """Adds positions."""
        for row in rows:
            if len(self._rows) < self._capacity:
                self._rows.append(row)
            elif self._draw.random() < self._overwrite:
                self._rows[self._head] = row
            self._head = (self._head + 1) % self._capacity
        self.new += len(rows)

    def sample(self, number: int) -> list[Any]:
        """So many positions, none twice, in random order; all of them if there are fewer."""
        self.new = 0
        chosen = self._draw.permutation(len(self._rows))[:number]
        return [self._rows[place] for place in chosen.tolist()]

    def clear(self) -> None:
        """Forgets everything."""
        self._rows, self._head, self.new = [], 0, 0


class Iteration(NamedTuple):
    """What was done until a training, and in it."""

    games: int
    positions: int
    seconds: float  # of play
    seconds_per_game: float  # from the beginning of a game to its end, on average
    updates: int
    loss: float
    batches: tuple[int, ...]  # queue: how many positions were asked about together


class Host:
    """A run in one of the modes; in the process's own threads."""

    def __init__(self, config: TrainConfig, mode: Mode, *, seconds: float = 0.1, seed: int = 0):
        """A new run.

        Args:
          config: as for the compiled loop. An iteration begins to learn when `selfplay.lanes * selfplay.plies` new
            positions have come; only searches by PUCT of games without a replay window are meant.
          mode: see the module's docstring; the first two play one game at a time, the others `selfplay.lanes`.
          seconds: how long a position waits in the queue at most.
          seed: of everything.
        """
        boards.require_one(config, "a run in the host's threads")
        self.config, self.mode, self._seconds = config, mode, seconds
        self._new = config.selfplay.lanes * config.most_plies
        capacity = self._new + config.game.max_plies if mode == "discard" else config.replay.capacity
        self._draw = np.random.default_rng(seed)
        self._buffer = Buffer(capacity, 1.0 if mode == "discard" else config.replay.overwrite, self._draw)
        self._rules = _rules(config.game)
        network = make_network(config.network, config.game)
        evaluate = make_evaluator(config.game, network)
        self._ask_network = jax.jit(lambda params, states: evaluate(params, jax.random.key(0), states))
        self._optimiser = objective.make_optimiser(config.optimiser)
        self._loss = objective.make_loss(config.game, network, config.optimiser)
        self.params = network.init(jax.random.key(seed))
        self._opt_state = self._optimiser.init(self.params.weights)

    def iterate(self) -> Iteration:
        """Plays until enough is new, then learns."""
        started, seconds, games, positions = time.perf_counter(), [], 0, 0
        number = self.config.selfplay.lanes if self.mode in ("parallel", "queue") else 1
        lock, failed = threading.Lock(), []

        def play(ask: Ask, draw: np.random.Generator) -> None:
            nonlocal games, positions
            while not failed:
                begin = time.perf_counter()
                rows = play_game(self._rules, self.config, ask, draw)
                with lock:
                    self._buffer.push(rows)
                    seconds.append(time.perf_counter() - begin)
                    games, positions = games + 1, positions + len(rows)
                    if self._buffer.new >= self._new:
                        return

        with contextlib.ExitStack() as stack:
            queue = None
            if self.mode == "queue":
                queue = stack.enter_context(InferenceQueue(self._evaluate, number, self._seconds))

            def work(game: int, draw: np.random.Generator) -> None:
                try:
                    play(self._ask_alone if queue is None else functools.partial(queue.ask, game), draw)
                except Exception as error:
                    failed.append(error)
                finally:
                    if queue is not None:
                        queue.leave()

            threads = [
                threading.Thread(target=work, args=(game, draw))
                for game, draw in enumerate(self._draw.spawn(number))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        played = time.perf_counter() - started
        updates, loss = self._learn()
        batches = () if queue is None else tuple(queue.sizes)
        return Iteration(games, positions, played, float(np.mean(seconds)), updates, loss, batches)

    def _learn(self) -> tuple[int, float]:
        size = self.config.replay.batch_size
        forgets = self.mode == "discard"
        rows = self._buffer.sample(self._buffer.new if forgets else self.config.updates * size)
        if forgets:
            self._buffer.clear()
        losses = []
        for begin in range(0, len(rows) - size + 1, size):  # a last batch that is not full is left out
            batch = jax.tree.map(lambda *leaves: np.stack(leaves), *rows[begin : begin + size])
            keys = jax.random.split(jax.random.key(int(self._draw.integers(2**31))), 1)
            self.params, self._opt_state, found = self._update(self.params, self._opt_state, keys, batch)
            losses.append(float(found.total))
        return len(losses), float(np.mean(losses)) if losses else 0.0

    @functools.cached_property
    def _update(self) -> Callable:
        def update(params: Params, opt_state: optax.OptState, keys: jax.Array, batch: StoredPosition):
            return objective.update(self._loss, self._optimiser, params, opt_state, keys, batch, None)

        return jax.jit(update)

    def _evaluate(self, states: Sequence[GameState]) -> tuple[np.ndarray, np.ndarray]:
        # Always as many, so that one program serves all.
        number = self.config.selfplay.lanes if self.mode == "queue" else 1
        padded = [*states, *[states[0]] * (number - len(states))]
        batch = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
        logits, values = self._ask_network(self.params, batch)
        return np.asarray(logits)[: len(states)], np.asarray(values)[: len(states)]

    def _ask_alone(self, state: GameState) -> tuple[np.ndarray, float]:
        logits, values = self._evaluate([state])
        return logits[0], float(values[0])


class _Seen(NamedTuple):
    """A position and what the rules say of it."""

    state: GameState
    legal: np.ndarray  # [actions] bool
    player: int
    over: bool
    rewards: np.ndarray  # [2]


@dataclasses.dataclass
class _Node:
    """A position in a search tree."""

    seen: _Seen
    prior: np.ndarray  # [actions]; 0 where illegal
    visits: np.ndarray  # [actions]
    values: np.ndarray  # [actions] means, for the player to move
    children: dict[int, "_Node"]


class _Rules(NamedTuple):
    start: Callable[[], _Seen]
    after: Callable[[_Seen, int], _Seen]


@functools.cache
def _rules(game: Game) -> _Rules:
    def facts(x):
        return game.legal_action_mask(x), x.current_player, game.is_terminal(x), game.rewards(x)

    @jax.jit
    def step(x, action):
        x = game.step(x, action)
        return x, facts(x)

    def seen(x, found) -> _Seen:
        legal, player, over, rewards = jax.device_get(found)
        return _Seen(jax.device_get(x), legal, int(player), bool(over), rewards)

    def start() -> _Seen:
        x = game.init(jax.random.key(0))
        return seen(x, jax.jit(facts)(x))

    return _Rules(start, lambda before, action: seen(*step(before.state, jnp.int32(action))))


def play_game(
    rules: _Rules, config: TrainConfig, ask: Ask, draw: np.random.Generator
) -> list[StoredPosition]:
    """One game of self-play; its positions with the search's policy and the game's outcome."""
    options = config.selfplay
    seen, moments = rules.start(), []
    while not seen.over:
        visits = search(rules, config, ask, seen, draw)
        policy = visits / visits.sum()
        early = len(moments) < options.temperature_drop
        action = int(draw.choice(len(policy), p=policy) if early else visits.argmax())
        moments.append((seen.state, policy.astype(np.float32), seen.player))
        seen = rules.after(seen, action)
    outcomes = seen.rewards.astype(np.float32)
    return [
        StoredPosition(state, policy, np.float32(1), outcomes[player], outcomes[player], None)
        for state, policy, player in moments
    ]


def search(
    rules: _Rules, config: TrainConfig, ask: Ask, seen: _Seen, draw: np.random.Generator
) -> np.ndarray:
    """[actions] visits of a search by PUCT (equations 3.1 to 3.3 of the thesis), with noise at the root."""
    options = config.search
    root, _ = _expand(seen, ask)
    count = int(seen.legal.sum())
    alpha = 1 / count if options.dirichlet_alpha is None else options.dirichlet_alpha
    noise = np.zeros_like(root.prior)
    noise[seen.legal] = draw.dirichlet(np.full(count, alpha))
    root.prior = (1 - options.dirichlet_fraction) * root.prior + options.dirichlet_fraction * noise
    for _ in range(options.simulations):
        node, path = root, []
        while True:
            spread = np.sqrt(node.visits.sum()) / (1 + node.visits)
            score = node.values + options.c * node.prior * spread
            action = int(np.where(node.seen.legal, score, -np.inf).argmax())
            path.append((node, action))
            if action not in node.children:
                break
            node = node.children[action]
            if node.seen.over:
                break
        if action not in path[-1][0].children and not path[-1][0].seen.over:
            child, value = _expand(rules.after(path[-1][0].seen, action), ask)
            path[-1][0].children[action] = child
            node = child
        else:
            value = float(node.seen.rewards[node.seen.player])
        for parent, action in path:
            sign = 1 if parent.seen.player == node.seen.player else -1
            parent.visits[action] += 1
            parent.values[action] += (sign * value - parent.values[action]) / parent.visits[action]
    return root.visits


def _expand(seen: _Seen, ask: Ask) -> tuple[_Node, float]:
    """A new node, and what its position is worth for the player to move there."""
    actions = len(seen.legal)
    prior, value = np.zeros(actions), float(seen.rewards[seen.player])
    if not seen.over:
        logits, value = ask(seen.state)
        weights = np.exp(logits[seen.legal] - logits[seen.legal].max())
        prior[seen.legal] = weights / weights.sum()
    return _Node(seen, prior, np.zeros(actions), np.zeros(actions), {}), value
