"""Players made of a trained run: the network alone, or a search on it."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp

from azjax.agents import ready
from azjax.agents.thinking import thinking_agent
from azjax.common.agent import Act, Agent, AgentError, mark_not_finite
from azjax.common.checked import ConfigError
from azjax.common.remembered import remembered
from azjax.envs.core import Game, GameError, GameState, random_action, seen_as, worth_as
from azjax.envs.dots_and_boxes import DotsAndBoxes, board_of
from azjax.nn import Params, make_evaluator, make_network
from azjax.search import Evaluator, ReusingSearch, Search, reusing_from_config, search_from_config
from azjax.solvers.dots.turns import Turns, by_lines, first_lines, turn_evaluator
from azjax.training import checkpoint
from azjax.training.config import TrainConfig

SIMULATIONS = 64


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
            action = jax.random.categorical(key, logits).astype(jnp.int32)
        else:
            action = random_action(key, logits == jnp.max(logits, axis=-1, keepdims=True))
        return mark_not_finite(action, jnp.all(jnp.isfinite(logits), axis=-1))

    return Agent(name, act, params)


def search_agent(
    game: Game,
    run: str | os.PathLike,
    name: str = "az",
    *,
    sims: int | None = None,
    seconds: float | None = None,
    reuse: bool = False,
    turns: bool = False,
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
      sims: simulations per move; None for 64, or with a time limit for as many as there is time for.
      seconds: think so long about a move at most, by PUCT and about one position at a time.
      reuse: go on with the tree of the move before, by PUCT.
      turns: Dots and Boxes: search whole turns, see `azjax.solvers.dots.turns`.
      search: "gumbel" or "puct"; None for what the run itself uses.
      c: PUCT's exploration constant; None for the run's own.
      temperature: draw moves in proportion to the search's policy to the power of 1 / temperature; 0 for the best.
      symmetries: average the network over the symmetric views of a position.
      solve: back up proven results (PUCT).
      step: the checkpoint of that iteration; None for the newest weights.
    """
    config, params = load_weights(run, step)
    evaluate = make_evaluation(config, params, game, symmetries)
    if seconds is None and not reuse:
        simulations = SIMULATIONS if sims is None else sims
        options = {"kind": search, "c": c, "solve": solve, "turns": turns}
        find = make_search(config, game, evaluate, simulations=simulations, **options)
        return Agent(name, search_act(find, temperature), params)
    if search == "gumbel" or temperature:
        raise AgentError(
            "seconds and reuse belong to search=puct, which then plays its best move; leave the others out"
        )
    played, evaluate, first_action = searched(worth_as(game, config.game), evaluate, turns)

    def make(simulations: int, kept: int) -> ReusingSearch:
        return reusing_from_config(
            config.search, played, evaluate, simulations=simulations, kept=kept, c=c, solve=solve
        )

    simulations = SIMULATIONS if sims is None and seconds is None else sims
    limits = {"seconds": seconds, "simulations": simulations, "reuse": reuse}
    return thinking_agent(played, make, name, params, first_action=first_action, **limits)


def searched(
    game: Game, evaluate: Evaluator, turns: bool
) -> tuple[Game, Evaluator, Callable[[GameState, jax.Array], jax.Array] | None]:
    """What a search plays, whom it asks, and which move each of its answers begins with (None for the same).

    Args:
      game: the rules.
      evaluate: of the game's own moves.
      turns: whether a move of the search is a whole turn of Dots and Boxes.
    """
    if not turns:
        return game, evaluate, None
    board = turns_board(game)
    return Turns(board), turn_evaluator(board, evaluate), functools.partial(first_lines, board)


def by_turns(
    game: Game, evaluate: Evaluator, turns: bool, make: Callable[[Game, Evaluator], Search]
) -> Search:
    """A search over the game's own moves, which looks at whole turns of Dots and Boxes if asked to.

    Args:
      game: the rules.
      evaluate: of the game's own moves.
      turns: whether a move of the search is a whole turn.
      make: (game, evaluate) -> the search.
    """
    played, evaluate, _ = searched(game, evaluate, turns)
    found = make(played, evaluate)
    return by_lines(turns_board(game), found) if turns else found


def turns_board(game: Game) -> DotsAndBoxes:
    """The game, if whole turns of it can be searched; raises AgentError otherwise."""
    try:
        return board_of(game, "turns=1 is for dots_and_boxes, where a player may draw several lines")
    except GameError as error:
        raise AgentError(str(error)) from error


@remembered
def search_act(search: Search, temperature: float = 0.0) -> Act:
    """A player that moves as a search says; see `search_agent` for the temperature."""

    def act(params: Params, key: jax.Array, states: GameState) -> jax.Array:
        if temperature == 0:
            found = search(params, key, states)
            return mark_not_finite(found.action, jnp.isfinite(found.value))
        key, draw_key = jax.random.split(key)
        found = search(params, key, states)
        action = jax.random.categorical(draw_key, jnp.log(found.policy) / temperature).astype(jnp.int32)
        return mark_not_finite(action, jnp.isfinite(found.value))

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
    turns: bool = False,
) -> Search:
    """The search for play: as the run's own, but without noise; for the options see `search_agent`.

    Whatever the rewards of the match, the search counts a finished game as training did, for it mixes the network's
    values with the rewards of finished games.
    """
    game = worth_as(game, config.game)
    options = {"explore": False, "simulations": simulations, "kind": kind, "c": c, "solve": solve}
    try:
        return by_turns(
            game, evaluate, turns, lambda *given: search_from_config(config.search, *given, **options)
        )
    except ConfigError as error:
        raise AgentError(str(error)) from error


def load_weights(run: str | os.PathLike, step: int | None = None) -> tuple[TrainConfig, Params]:
    """The configuration and the averaged weights of a run: of its newest, or of the checkpoint of an iteration.

    A run may be a folder, a file saved in it, or the name of a ready network.
    """
    path = ready.find(run)
    try:
        if step is None:
            config, params = checkpoint.load_agent(path)
        else:
            config, params = _load_snapshot(path, step)
    except checkpoint.RunError as error:
        raise AgentError(str(error)) from error
    return config, params


def make_evaluation(config: TrainConfig, params: Params, game: Game, symmetries: bool = False) -> Evaluator:
    """The run's network as an evaluator of a game; raises AgentError if it cannot play it."""
    trained_on = config.game
    if trained_on.name != game.name:
        raise AgentError(
            f"the run was trained on {trained_on.name} and cannot play {game.name}; give a run of {game.name}"
        )
    game = seen_as(game, trained_on)
    network = make_network(config.network, game)
    if not _fits(config, game, params):
        raise AgentError(_why_not(config, params, game))
    return make_evaluator(game, network, symmetry_averaged=symmetries)


def _fits(config: TrainConfig, game: Game, params: Params) -> bool:
    """Whether a game's network has weights of these shapes."""
    expected = jax.eval_shape(make_network(config.network, game).init, jax.random.key(0))
    return jax.tree.map(lambda leaf: leaf.shape, expected) == jax.tree.map(lambda leaf: leaf.shape, params)


def _why_not(config: TrainConfig, params: Params, game: Game) -> str:
    """Why a run cannot play its own game on this board or with these rules."""
    trained_on = config.game
    swap = getattr(trained_on, "swap", None)
    if swap is not None and swap != game.swap and _fits(config, dataclasses.replace(game, swap=swap), params):
        have = ("without", "with")[swap]
        return (
            f"the run was trained {have} the swap rule, and its network has {('no', 'one')[swap]} move for it; play "
            f"{have} swap, or give a run that was trained {('with', 'without')[swap]} it"
        )
    return (
        f"the run was trained on {trained_on} and cannot play {game}: its network has dense heads, made for one "
        "board; play on that one, or give a run with convolutional heads, which play on any"
    )


def _load_snapshot(path: pathlib.Path, step: int) -> tuple[TrainConfig, Params]:
    if path.is_file():
        raise AgentError(
            f"step={step} asks for a checkpoint, but {path} is a file; give the folder of the run"
        )
    run = checkpoint.open_run(path)
    return run.config, run.load_agent(step)
