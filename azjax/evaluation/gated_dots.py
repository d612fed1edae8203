"""Samples and matches of the gated loop for Dots and Boxes, as Peters 2018 has them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from azjax.agents import dots_data, make_agent
from azjax.agents.trained import by_turns
from azjax.common import keys
from azjax.common.agent import Agent, AgentError
from azjax.envs.dots_and_boxes import DotsAndBoxes, DotsAndBoxesState, board_of
from azjax.evaluation import match_openings, truth
from azjax.evaluation.arena import make_match
from azjax.learners.gated import Gate, GatedConfig, Generate
from azjax.nn import Params, make_evaluator, make_network
from azjax.positions.labelled import Labelled
from azjax.search import SearchOutput, search_from_config
from azjax.search.exploration import sample_visits

WIDTH = 64  # positions that are searched side by side


def make_parts(config: GatedConfig) -> tuple[Generate, Gate]:
    """What makes the samples of a run, and what plays its matches."""
    board_of(config.game, "samples are made for dots_and_boxes alone")
    return make_generate(config), make_gate(config)


def make_generate(
    config: GatedConfig, make_teacher: Callable[[str, DotsAndBoxes], Agent] = make_agent
) -> Generate:
    """What makes samples: positions of a teacher that are searched, or games of the search."""
    game = config.game
    evaluate = make_evaluator(game, make_network(config.network, game))
    search = by_turns(
        game, evaluate, config.turns, lambda *given: search_from_config(config.search, *given, explore=True)
    )
    find = jax.jit(search)

    def searched(params: Params, key: jax.Array, states: DotsAndBoxesState) -> SearchOutput:
        number = len(states.lines)
        parts = []
        for begin in range(0, number, WIDTH):
            which = np.minimum(np.arange(begin, begin + WIDTH), number - 1)
            part = jax.tree.map(lambda leaf, which=which: np.asarray(leaf)[which], states)
            parts.append(jax.device_get(find(params, jax.random.fold_in(key, begin), part)))
        found = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *parts)
        if not np.isfinite(found.value).all():
            raise AgentError(
                "the network answers with numbers that are not finite; take a lower learning rate"
            )
        return found

    def from_positions(params: Params, key: jax.Array) -> Labelled:
        position_key, key = jax.random.split(key)
        recipe = dots_data.Recipe(
            teacher=config.teacher,
            mean=config.mean,
            spread=config.spread,
            seed=int(jax.random.bits(position_key)),
        )
        states = dots_data.make_samples(game, recipe, config.samples, make_teacher).states
        return _as_samples(config, states, searched(params, key, states), None)

    def from_games(params: Params, key: jax.Array) -> Labelled:
        games = -(-config.samples // game.num_actions)
        states = jax.vmap(game.init)(jax.random.split(keys.stream(key, "starts"), games))
        step = jax.jit(jax.vmap(game.step))
        rows = []
        for ply in range(game.num_actions):
            search_key, draw_key = jax.random.split(jax.random.fold_in(key, ply))
            found = searched(params, search_key, states)
            rows.append((jax.device_get(states), found))
            action = sample_visits(draw_key, jnp.asarray(found.visits), 1.0)
            states = step(states, action)
        positions, found = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *rows)  # game by game
        margins = np.asarray(jax.vmap(game.rewards)(states))[:, 0][:, None] * np.ones(game.num_actions)
        outcome = np.where(positions.current_player == 0, margins, -margins)
        flat = [
            jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[: config.samples], part)
            for part in (positions, found, outcome)
        ]
        return _as_samples(config, *flat)

    return from_positions if config.generate == "positions" else from_games


def make_gate(config: GatedConfig) -> Gate:
    """What plays matches between two networks without search, from safe fills, half of the games with each colour."""
    game = config.game
    evaluate = make_evaluator(game, make_network(config.network, game))
    act = truth.network_act(evaluate, game)

    def gate(contender: Params, best: Params, key: jax.Array) -> tuple[int, int]:
        opening_key, key = jax.random.split(key)
        pairs = config.gate_games // 2
        openings = match_openings.safe_openings(game, pairs, int(jax.random.bits(opening_key)))
        match = make_match(game, Agent("contender", act), Agent("best", act), pairs=pairs, openings=openings)
        result = match(contender, best, key)
        return result.total.wins, result.games

    return gate


def _as_samples(
    config: GatedConfig, states: DotsAndBoxesState, found: SearchOutput, outcome: np.ndarray | None
) -> Labelled:
    number = len(found.action)
    policy = found.policy
    if config.policy_target == "move":
        policy = np.arange(policy.shape[1]) == found.action[:, None]
    values = {
        "root": found.value,
        "move": found.qvalues[np.arange(number), found.action],
        "outcome": outcome,
    }
    value = np.clip(values[config.value_target], -1, 1).astype(np.float32)
    return Labelled(states, value, policy.astype(np.float32))
