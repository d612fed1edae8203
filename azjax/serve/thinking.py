"""What an agent thinks of positions: its network, and a search whose length may be chosen freely.

A `Thinker` is made once per agent and game. Its search is PUCT on the agent's network (with the run's own constants),
or UCT for agents that play out random games: of these, unlike Gumbel search, visits mean something after any number
of simulations, and one compiled program serves every number. All that is told of a move is read off the tree.
"""

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax import agents, positions
from azjax.agents.trained import load_weights, make_evaluation
from azjax.common.agent import AgentError
from azjax.envs.core import Game, GameState, seen_as, worth_as
from azjax.nn import make_network
from azjax.search import reusing_puct, reusing_uct
from azjax.search.tree import NONE, ROOT, Tree

WIDTHS = (1, 32)  # positions that are searched at once: two programs, not one for every number
MOST_SIMULATIONS = 4096
_BYTES = 2.5e8  # that the trees of a batch may take
_KEPT_WEIGHTS = 8  # checkpoints of a run in memory
_FIRST_SIMULATIONS = 16  # of a search by time, to see how fast it is
_MOST_AFTER = 600  # actions of games whose every next position is shown to the network


class Found(NamedTuple):
    """A search of one position, as arrays of numpy; values are of the player to move unless it says otherwise."""

    legal: np.ndarray  # [actions] bool
    visits: np.ndarray  # [actions]
    qvalues: np.ndarray  # [actions]; 0 where unvisited
    action: int  # to play
    value: float  # of the position, by search
    simulations: int
    variations: dict[int, list[int]]  # of every visited move, itself first


class Opinion(NamedTuple):
    """What a network says of one position without any search."""

    policy: np.ndarray  # [actions] probabilities; 0 where illegal
    value: float
    after: np.ndarray  # [actions] its value of the position after each move; NaN where illegal or not asked
    ownership: np.ndarray | None  # [height, width] as the player to move sees the board


class Node(NamedTuple):
    """A node of a small tree."""

    parent: int  # its number; -1 of the root
    action: int  # the move that leads to it; -1 of the root
    visits: int
    value: float  # mean over the visits, for who moves there
    raw: float  # what the network, or the played-out games, said when it was made
    prior: float | None  # of the move that leads to it
    player: int  # who moves there


class Thinker:
    """An agent's network and search for one game; not to be called by two threads at once."""

    def __init__(self, game: Game, text: str):
        """Loads what the text names; nothing is compiled yet. Raises AgentError if it has no search tree to show."""
        named = agents.read_text(text)
        self.game = game
        self.run: str | None = None
        self._weights: dict[int | None, Any] = {}
        self._evaluate = self._outputs = None
        if named.name in ("az", "net"):
            self.run = named.argument
            config, params = load_weights(self.run, named.options.get("step"))
            self._own_step = named.options.get("step")
            self._weights[self._own_step] = jax.tree.map(jnp.asarray, params)
            seen = seen_as(game, config.game)
            self._evaluate = make_evaluation(config, params, game, named.options.get("symmetries", False))
            self._outputs = make_network(config.network, seen).outputs if config.network.ownership else None
            self._seen = seen
            c = named.options.get("c")
            options = {
                "c": config.search.c if c is None else c,
                "c_base": config.search.c_base,
                "formula": config.search.formula,
                "solve": named.options.get("solve", False),
            }
            rules = worth_as(game, config.game)
            self._searches = {
                width: reusing_puct(
                    rules, self._evaluate, simulations=capacity(game, width), kept=1, **options
                )
                for width in WIDTHS
            }
        elif named.name == "uct":
            self._own_step = None
            self._weights[None] = None
            self._searches = {
                width: reusing_uct(game, simulations=capacity(game, width), kept=1, **named.options)
                for width in WIDTHS
            }
        else:
            raise AgentError(f"{text} has no search tree to show; ask az:RUN, net:RUN or uct:N")
        self._programs = {width: self._compile_later(width) for width in WIDTHS}
        self._opine = jax.jit(self._opinions) if self._evaluate is not None else None
        self._rate: float | None = None  # simulations per second of a single position
        self.compiled: set[Any] = set()

    def params(self, step: int | None = None) -> Any:
        """The weights of a checkpoint; None for the agent's own."""
        step = self._own_step if step is None else step
        if step not in self._weights:
            if self.run is None:
                raise AgentError("only the agent of a run has checkpoints")
            self._weights[step] = jax.tree.map(jnp.asarray, load_weights(self.run, step)[1])
            others = [known for known in self._weights if known not in (step, self._own_step)]
            for known in others[: max(0, len(others) - _KEPT_WEIGHTS)]:
                del self._weights[known]
        return self._weights[step]

    def together(self, simulations: int) -> int:
        """How many positions one program takes for searches of this length."""
        return WIDTHS[-1] if simulations <= capacity(self.game, WIDTHS[-1]) else WIDTHS[0]

    def search(
        self, states: Sequence[GameState], simulations: int, *, step: int | None = None, seed: int = 0
    ) -> list[Found]:
        """Searches positions, as many at once as fit a program."""
        found = []
        while len(found) < len(states):
            part = states[len(found) : len(found) + self.together(simulations)]
            output, tree, legal = self._grow(part, simulations, step, seed)
            found += [_found(output, tree, legal, lane, simulations) for lane in range(len(part))]
        return found

    def search_for(self, state: GameState, seconds: float, **options: Any) -> Found:
        """Searches one position for about so long."""
        if self._rate is None:
            self.search([state], _FIRST_SIMULATIONS, **options)  # compiles
            begun = time.perf_counter()
            self.search([state], _FIRST_SIMULATIONS, **options)
            self._rate = _FIRST_SIMULATIONS / (time.perf_counter() - begun)
        simulations = int(min(max(1, self._rate * seconds), capacity(self.game, 1)))
        begun = time.perf_counter()
        found = self.search([state], simulations, **options)[0]
        self._rate = simulations / (time.perf_counter() - begun)
        return found

    def tree(
        self, state: GameState, simulations: int, *, step: int | None = None
    ) -> tuple[list[Node], list[int]]:
        """The tree after so many simulations, and the nodes that the last of them passed, from the root on.

        A search with the same draws finds the same tree, so that its steps can be looked at one by one.
        """
        _, tree, _ = self._grow([state], simulations, step, 0)
        visits = np.asarray(tree.node_visits[0])
        before = np.zeros_like(visits)
        if simulations > 1:
            _, earlier, _ = self._grow([state], simulations - 1, step, 0)
            before = np.asarray(earlier.node_visits[0])
        slots = np.flatnonzero(visits)
        number = {int(slot): i for i, slot in enumerate(slots)}
        parents, actions = np.asarray(tree.parents[0]), np.asarray(tree.actions[0])
        prior = np.asarray(tree.prior[0])
        values, raw = np.asarray(tree.node_values[0]), np.asarray(tree.raw_values[0])
        players = np.asarray(tree.states.current_player[0])
        nodes = []
        for slot in slots.tolist():
            parent, action = int(parents[slot]), int(actions[slot])
            has_prior = parent != NONE and prior.dtype != bool
            nodes.append(
                Node(
                    number.get(parent, -1),
                    action,
                    int(visits[slot]),
                    float(values[slot]),
                    float(raw[slot]),
                    float(prior[parent, action]) if has_prior else None,
                    int(players[slot]),
                )
            )
        passed = [number[int(slot)] for slot in slots if visits[slot] > before[slot]]
        return nodes, passed

    def opinion(self, state: GameState, *, step: int | None = None) -> Opinion | None:
        """What the network says; None of an agent without one."""
        if self._opine is None:
            return None
        policy, value, after, ownership = jax.device_get(self._opine(self.params(step), _batch([state])))
        self.compiled.add("opinion")
        return Opinion(policy, float(value), after, ownership)

    def values(self, states: Sequence[GameState], *, step: int | None = None) -> list[float | None]:
        """The network's values of positions for the player to move, by batches of the largest width."""
        if self._evaluate is None:
            return [None] * len(states)
        found: list[float | None] = []
        width = WIDTHS[1]
        for begin in range(0, len(states), width):
            part = list(states[begin : begin + width])
            padded = part + part[:1] * (width - len(part))
            _, value = self._evaluate_batch(self.params(step), jax.random.key(0), _batch(padded))
            found += np.asarray(value)[: len(part)].astype(float).tolist()
        return found

    @functools.cached_property
    def _evaluate_batch(self) -> Any:
        return jax.jit(self._evaluate)

    def _grow(
        self, states: Sequence[GameState], simulations: int, step: int | None, seed: int
    ) -> tuple[Any, Tree, np.ndarray]:
        width = WIDTHS[0] if len(states) == 1 else WIDTHS[1]
        padded = list(states) + list(states[:1]) * (width - len(states))
        fewer = jnp.int32(min(simulations, capacity(self.game, width)))
        answer = self._programs[width](self.params(step), jax.random.key(seed), _batch(padded), fewer)
        answer = jax.block_until_ready(answer)
        self.compiled.add(width)
        return answer

    def _compile_later(self, width: int) -> Any:
        reusing = self._searches[width]

        def run(params, key, states, fewer):
            start_key, search_key = jax.random.split(key)
            planted = reusing.start(params, start_key, states)
            output, tree = reusing.search(params, search_key, planted, fewer=fewer)
            return output, tree, jax.vmap(self.game.legal_action_mask)(states)

        return jax.jit(run)

    def _opinions(self, params, states):
        """Of a batch of one: policy, value, values after each move, ownership."""
        game, key = self.game, jax.random.key(0)
        x = jax.tree.map(lambda leaf: leaf[0], states)
        legal = game.legal_action_mask(x)
        logits, value = self._evaluate(params, key, states)
        policy = jnp.where(legal, jax.nn.softmax(logits[0]), 0.0)
        after = jnp.full(game.num_actions, jnp.nan)
        if game.num_actions <= _MOST_AFTER:
            next_ones = jax.vmap(game.step, (None, 0))(x, jnp.arange(game.num_actions))
            _, values = self._evaluate(params, key, next_ones)
            values = jnp.where(next_ones.current_player == x.current_player, values, -values)
            result = jax.vmap(game.rewards)(next_ones)[:, x.current_player]
            after = jnp.where(jax.vmap(game.is_terminal)(next_ones), result, values)
            after = jnp.where(legal, after, jnp.nan)
        ownership = None
        if self._outputs is not None:
            observation = jax.vmap(self._seen.observe)(states)
            ownership = self._outputs(params, observation).ownership[0]
        return policy, value[0], after, ownership


def capacity(game: Game, width: int) -> int:
    """The most simulations of a search of so many positions at once."""
    room = int(_BYTES / (width * game.num_actions * 20))
    return max(16, min(MOST_SIMULATIONS if width == 1 else MOST_SIMULATIONS // 8, room))


def _batch(states: Sequence[GameState]) -> GameState:
    return positions.stack(states)


def _found(output: Any, tree: Tree, legal: Any, lane: int, simulations: int) -> Found:
    children, visits = np.asarray(tree.children[lane]), np.asarray(tree.visits[lane])
    root = visits[ROOT]
    return Found(
        np.asarray(legal[lane]),
        root,
        np.asarray(output.qvalues[lane]),
        int(output.action[lane]),
        float(output.value[lane]),
        simulations,
        {int(action): _variation(children, visits, int(action)) for action in np.flatnonzero(root)},
    )


def _variation(children: np.ndarray, visits: np.ndarray, action: int) -> list[int]:
    """The most visited moves from the root's child on."""
    moves, node = [action], int(children[ROOT, action])
    while node != NONE and visits[node].any():
        action = int(np.argmax(visits[node]))
        moves.append(action)
        node = int(children[node, action])
    return moves
