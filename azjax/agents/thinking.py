"""Searches that think for some seconds, or go on with the tree of the move before: host agents around any of them.

A position is thought about alone, as at a board, and as the solvers and the alpha-beta player do. The tree grows by a
few simulations at a time until the time or their number is used up, or the tree is full.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common import memory
from azjax.common.agent import Agent, AgentError, mark_not_finite
from azjax.common.keys import stream
from azjax.envs.core import Game, GameState
from azjax.search import ReusingSearch
from azjax.search import tree as trees
from azjax.search.tree import AnyParams, Tree

SLICE = 32  # simulations between two looks at the clock
_TREE_BYTES = (
    2**28
)  # what the tree of one position may take, where nobody says how many simulations there shall be
_MOST_NODES = 2**17
_ALL_BYTES = 2**30  # what all trees that are kept may take

MakeSearch = Callable[[int, int], ReusingSearch]
"""(simulations, nodes that survive a move) -> the search."""


class Thought(NamedTuple):
    """A tree that has grown, and how many of its slots are used."""

    tree: Tree  # of one position
    used: int


class _Compiled(NamedTuple):
    start: Callable
    search_on: Callable
    advance: Callable
    legal: Callable
    locate: Callable


def thinking_agent(
    game: Game,
    make: MakeSearch,
    name: str,
    params: AnyParams = (),
    *,
    seconds: float | None = None,
    simulations: int | None = None,
    reuse: bool = False,
    first_action: Callable[[GameState, jax.Array], jax.Array] | None = None,
) -> Agent:
    """An agent that searches on the host's clock.

    Args:
      game: what the search plays, the rules or `azjax.solvers.dots.turns.Turns` of them.
      make: makes the search.
      name: of the agent.
      params: of the search's evaluator.
      seconds: for a move, at most; whoever has no choice does not think. None for no limit.
      simulations: for a move, at most (with a time limit in steps of 32); None for no limit but that of the tree, about
        100,000 nodes.
      reuse: keep the tree of each position, and go on with what a new position inherits of it.
      first_action: (state, the search's action) -> the action to answer with; None for the same.
    """
    if seconds is None and simulations is None:
        raise AgentError("a search needs an end: give seconds, a number of simulations, or both")
    most = simulations if simulations is not None else _most_nodes(game)
    size = min(SLICE, most) if seconds is not None else most
    # With a number of simulations, room for as many again beside those of the tree before.
    kept = most if simulations is None else 2 * most - size
    slots = kept + size
    search = make(size, kept)
    answer = jax.jit(first_action or (lambda state, action: action))
    compiled = _compile(game, search)
    thoughts: list[Thought] = []
    outgrown: set[int] = set()  # numbers of those whose games have gone on
    room = max(1, _ALL_BYTES // trees.size(game.num_actions, 1, slots, False, _state_bytes(game)))

    def inherited(params: AnyParams, key: jax.Array, state: GameState) -> Thought | None:
        for number, thought in enumerate(thoughts):
            node = int(compiled.locate(thought.tree, state))
            if node != trees.NONE:
                outgrown.add(number)
                return _reroot(compiled, params, key, thought, node)
        return None

    def think(params: AnyParams, key: jax.Array, state: GameState, new: list[Thought]) -> np.ndarray:
        deadline = None if seconds is None else time.perf_counter() + seconds
        start_key, key = jax.random.split(key)
        thought = inherited(params, stream(key, "inherited tree"), state) if reuse else None
        if thought is None or thought.used + size > slots:
            thought = Thought(compiled.start(params, start_key, state), 1)
        tree, used = thought
        done, found, longest = 0, None, 0.0
        while found is None or (done < most and used + size <= slots):
            began = time.perf_counter()
            if found is not None and deadline is not None and began + longest > deadline:
                break
            key, slice_key = jax.random.split(key)
            found, tree = compiled.search_on(params, slice_key, tree, jnp.int32(used))
            used, done = used + size, done + size
            jax.block_until_ready(found)
            longest = max(longest, time.perf_counter() - began)
        if reuse:
            new.append(Thought(tree, used))
        action = answer(state, found.action)
        return np.asarray(mark_not_finite(action, jnp.isfinite(found.value)))[0]

    def try_out(params: AnyParams, key: jax.Array, state: GameState) -> None:
        start_key, search_key, advance_key = jax.random.split(key, 3)
        tree = compiled.start(params, start_key, state)
        found, tree = jax.block_until_ready(compiled.search_on(params, search_key, tree, jnp.int32(1)))
        if reuse:
            jax.block_until_ready(compiled.advance(params, advance_key, tree, found.action, state))

    is_ready = []

    def act(params: AnyParams, key: jax.Array, states: GameState) -> np.ndarray:
        legal = np.asarray(compiled.legal(states))
        answers = np.zeros(len(legal), np.int32)
        new: list[Thought] = []
        for lane, row in enumerate(legal):
            state = jax.tree.map(lambda leaf, lane=lane: jnp.asarray(leaf)[lane : lane + 1], states)
            lane_key = jax.random.fold_in(key, lane)
            if not row.any():
                continue
            if row.sum() == 1:
                answers[lane] = int(np.asarray(answer(state, jnp.argmax(row)[None].astype(jnp.int32)))[0])
                continue
            if not is_ready:  # compiling is no thinking
                try_out(params, stream(lane_key, "compiling"), state)
                is_ready.append(True)
            answers[lane] = think(params, lane_key, state, new)
        thoughts[:] = [thought for number, thought in enumerate(thoughts) if number not in outgrown] + new
        outgrown.clear()
        del thoughts[:-room]
        return answers

    return Agent(name, act, params, on_host=True)


def _compile(game: Game, search: ReusingSearch) -> _Compiled:
    return _Compiled(
        jax.jit(search.start),
        jax.jit(search.search_on, donate_argnums=2),
        jax.jit(search.advance),
        jax.jit(jax.vmap(game.legal_action_mask)),
        jax.jit(_locate),
    )


def _locate(tree: Tree, state: GameState) -> jax.Array:
    """[] int32: a node of a tree that stands for a position; NONE if there is none. Both are batches of one."""
    same = tree.node_visits[0] > 0
    for known, wanted in zip(jax.tree.leaves(tree.states), jax.tree.leaves(state)):
        equal = known[0] == wanted[0]
        same &= equal.reshape(len(equal), -1).all(axis=1)
    return jnp.where(jnp.any(same), jnp.argmax(same), trees.NONE)


def _reroot(compiled: _Compiled, params: AnyParams, key: jax.Array, thought: Thought, node: int) -> Thought:
    """The tree below a node: the moves to it, one after the other."""
    parents, actions = (np.asarray(column)[0] for column in (thought.tree.parents, thought.tree.actions))
    path = []
    while node != trees.ROOT:
        path.append(actions[node])
        node = parents[node]
    tree = thought.tree
    if not path:
        return Thought(jax.tree.map(jnp.copy, tree), thought.used)  # the search takes what it is given
    for number, action in enumerate(reversed(path)):
        child = int(tree.children[0, trees.ROOT, action])
        state = jax.tree.map(lambda leaf, child=child: leaf[:, child], tree.states)
        tree = compiled.advance(
            params, jax.random.fold_in(key, number), tree, jnp.asarray([action], jnp.int32), state
        )
    return Thought(tree, int(jnp.sum(tree.node_visits > 0)))


def _state_bytes(game: Game) -> int:
    return memory.size_of(jax.eval_shape(game.init, jax.random.key(0)))


def _most_nodes(game: Game) -> int:
    node = trees.size(game.num_actions, 1, 1, False, _state_bytes(game))
    return int(min(_MOST_NODES, _TREE_BYTES // node)) // SLICE * SLICE
