"""Players made of a trained run: the network alone, or a search on it."""

import dataclasses
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from azjax import checkpoint
from azjax.agents.core import Act, Agent, AgentError
from azjax.config import TrainConfig
from azjax.envs.core import Game, GameState, random_action
from azjax.networks import Params, make_evaluator, make_network
from azjax.search import Search, gumbel, puct
from azjax.tree import Evaluator

SIMULATIONS = 64

# What an observation looks like is the network's affair; everything else about the game is the match's.
_VIEW_OPTIONS = ("planes", "observation")


def network_agent(
    game: Game,
    run: str | os.PathLike,
    name: str = "net",
    *,
    sampled: bool = False,
    symmetries: bool = False,
    step: int | None = None,
) -> Agent:
    """The network's policy without any search.

    Args:
      game: what is played; may have another board than the run's if the network has convolutional heads.
      run: its folder, or an `agent.npz`.
      name: of the agent.
      sampled: draw from the policy; else its best move, equals drawn at random.
      symmetries: average the network over the symmetric views of a position.
      step: the checkpoint of that iteration; None for the newest weights.
    """
    config, params = load_weights(run, step)
    evaluate = make_evaluation(config, params, game, symmetries)

    def act(params: Params, key: jax.Array, states: GameState) -> jax.Array:
        evaluate_key, key = jax.random.split(key)
        logits, _ = evaluate(params, evaluate_key, states)
        if sampled:
            return jax.random.categorical(key, logits).astype(jnp.int32)
        return random_action(key, logits == jnp.max(logits, axis=-1, keepdims=True))

    return Agent(name, act, params)


def search_agent(
    game: Game,
    run: str | os.PathLike,
    name: str = "az",
    *,
    sims: int = SIMULATIONS,
    search: str | None = None,
    c: float | None = None,
    temperature: float = 0.0,
    symmetries: bool = False,
    solve: bool = False,
    step: int | None = None,
) -> Agent:
    """A search on the network, without noise.

    Args:
      game: what is played; may have another board than the run's if the network has convolutional heads.
      run: its folder, or an `agent.npz`.
      name: of the agent.
      sims: simulations a move.
      search: "gumbel" or "puct"; None for what the run itself uses.
      c: PUCT's exploration constant; None for the run's own.
      temperature: draw moves in proportion to the search's policy to the power of 1 / temperature; 0 for the best.
      symmetries: average the network over the symmetric views of a position.
      solve: back up proven results (PUCT).
      step: the checkpoint of that iteration; None for the newest weights.
    """
    config, params = load_weights(run, step)
    evaluate = make_evaluation(config, params, game, symmetries)
    find = make_search(config, game, evaluate, simulations=sims, kind=search, c=c, solve=solve)
    return Agent(name, search_act(find, temperature), params)


def search_act(search: Search, temperature: float = 0.0) -> Act:
    """A player that moves as a search says; see `search_agent` for the temperature."""

    def act(params: Params, key: jax.Array, states: GameState) -> jax.Array:
        if temperature == 0:
            return search(params, key, states).action
        key, draw_key = jax.random.split(key)
        policy = search(params, key, states).policy
        return jax.random.categorical(draw_key, jnp.log(policy) / temperature).astype(jnp.int32)

    return act


def make_search(
    config: TrainConfig,
    game: Game,
    evaluate: Evaluator,
    *,
    simulations: int,
    kind: str | None = None,
    c: float | None = None,
    solve: bool = False,
) -> Search:
    """The search for play: as the run's own, but without noise; for the options see `search_agent`."""
    options = config.search
    kind = kind or ("puct" if solve or c is not None else options.kind)
    if kind == "puct":
        return puct(
            game,
            evaluate,
            simulations=simulations,
            c=options.c if c is None else c,
            c_base=options.c_base,
            formula=options.formula,
            solve=solve,
            evaluate_terminals_with_network=options.evaluate_terminals_with_network and not solve,
        )
    if solve or c is not None:
        raise AgentError("solve and c belong to search=puct: Gumbel search knows neither")
    return gumbel(game, evaluate, simulations=simulations, max_considered_actions=options.considered_actions)


def load_weights(run: str | os.PathLike, step: int | None = None) -> tuple[TrainConfig, Params]:
    """The configuration and the averaged weights of a run: of its newest, or of the checkpoint of an iteration."""
    path = pathlib.Path(run)
    try:
        if step is None:
            config, params = checkpoint.load_agent(path)
        else:
            config, params = _load_snapshot(path, step)
    except checkpoint.RunError as error:
        raise AgentError(str(error)) from error
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
        raise AgentError(f"the weights of {path} are not all finite numbers, so that they cannot play")
    return config, params


def make_evaluation(config: TrainConfig, params: Params, game: Game, symmetries: bool = False) -> Evaluator:
    """The run's network as an evaluator of a game; raises AgentError if it cannot play it."""
    trained_on = config.game
    if trained_on.name != game.name:
        raise AgentError(
            f"the run was trained on {trained_on.name} and cannot play {game.name}; give a run of {game.name}"
        )
    view = {option: getattr(trained_on, option) for option in _VIEW_OPTIONS if hasattr(game, option)}
    game = dataclasses.replace(game, **view)
    network = make_network(config.network, game)
    expected = jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(network.init, jax.random.key(0)))
    if expected != jax.tree.map(lambda leaf: leaf.shape, params):
        raise AgentError(
            f"the run was trained on {trained_on} and cannot play {game}: its network has dense heads, made for one "
            "board; play on that one, or give a run with convolutional heads, which play on any"
        )
    return make_evaluator(game, network, symmetry_averaged=symmetries)


def _load_snapshot(path: pathlib.Path, step: int) -> tuple[TrainConfig, Params]:
    if path.is_file():
        raise AgentError(
            f"step={step} asks for a checkpoint, but {path} is a file; give the folder of the run"
        )
    run = checkpoint.open_run(path)
    try:
        return run.config, run.load_agent(step)
    finally:
        run.close()
