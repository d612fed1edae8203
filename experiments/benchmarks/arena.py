"""What a match costs beyond its searches: 1,000 games of Hex 6x6, `uct:200` against random.

    python -m experiments.benchmarks.arena            # a few minutes; keeps its table
    python -m experiments.benchmarks.arena --quick    # a smoke test; keeps nothing

The limit is the search alone: the same search over full batches of positions from the same games, as many batches as
the agent had moves in the match. A match in lock step, as the plainest arena plays it, lets both agents think about
every game until the last one is over; a quarter of the games is played so, and counted four times.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from azjax.common.agent import Agent
from azjax.envs import DotsAndBoxes, Game, Hex
from azjax.envs.core import random_action
from azjax.evaluation.arena import MatchResult, make_match
from azjax.search import uct
from experiments.benchmarks.timing import cpu_seconds, report


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    games: int = 1000
    simulations: int = 200
    rounds: int = 3


def uct_agent(game: Game, simulations: int) -> Agent:
    """UCT with random playouts."""
    search = uct(game, simulations=simulations)
    return Agent(f"uct:{simulations}", lambda params, key, states: search(params, key, states).action)


def random_agent(game: Game) -> Agent:
    """Moves at random."""
    return Agent(
        "random", lambda _, key, states: random_action(key, jax.vmap(game.legal_action_mask)(states))
    )


def moves_of_agent(game: Game, result: MatchResult) -> int:
    """How often the agent had to move."""
    played = result.played
    movers = jax.jit(jax.vmap(functools.partial(_movers, game)))(played.record)
    mine = np.where(played.agent_first, 0, 1)
    return int((np.asarray(movers) == mine[:, None]).sum())


def _movers(game: Game, record: jax.Array) -> jax.Array:
    """[plies] who made each move of a game; -1 after its end."""

    def ply(x, action):
        return game.step(x, jnp.maximum(action, 0)), jnp.where(action >= 0, x.current_player, -1)

    return jax.lax.scan(ply, game.init(jax.random.key(0)), record)[1]


def search_alone(
    game: Game, agent: Agent, result: MatchResult, width: int, moves: int
) -> Callable[[], object]:
    """The agent's searches of a match, in full batches of positions that occurred in it."""

    @functools.partial(jax.jit, static_argnums=1)
    def searches(record, chunks):
        def chunk(key, number):
            key, subkey = jax.random.split(key)
            lanes = (jnp.arange(width) + number * width) % len(record)
            plies = number % jnp.maximum(jnp.sum(record[lanes] >= 0, -1), 1)

            def replay(row, plies):
                def ply(i, x):
                    after = game.step(x, jnp.maximum(row[i], 0))
                    return jax.tree.map(lambda a, b: jnp.where(i < plies, a, b), after, x)

                return jax.lax.fori_loop(0, len(row), ply, game.init(jax.random.key(0)))

            states = jax.vmap(replay)(record[lanes], plies)
            return key, agent.act((), subkey, states).sum()

        return jax.lax.scan(chunk, jax.random.key(1), jnp.arange(chunks))[1]

    return lambda: searches(jnp.asarray(result.played.record), -(-moves // width))


def lock_step(game: Game, agent: Agent, opponent: Agent, games: int) -> Callable[[], object]:
    """All games move together, and both agents are asked about each of them until the last is over."""
    agent_is = jnp.arange(games) % 2

    def unfinished(carry):
        return ~jnp.all(jax.vmap(game.is_terminal)(carry[0]))

    def ply(carry):
        states, key = carry
        key, agent_key, opponent_key = jax.random.split(key, 3)
        mine = agent.act((), agent_key, states)
        action = jnp.where(states.current_player == agent_is, mine, opponent.act((), opponent_key, states))
        return jax.vmap(game.step)(states, action), key

    @jax.jit
    def play(key):
        states = jax.vmap(game.init)(jax.random.split(key, games))
        return jax.lax.while_loop(unfinished, ply, (states, key))[0]

    return lambda: play(jax.random.key(0))


def rows(config: Config) -> list[dict]:
    """A match, its searches alone and in lock step, game by game."""
    cases = [("hex 6x6", Hex(size=6)), ("dots and boxes 3x3", DotsAndBoxes(3, 3))]
    if config.quick:
        cases = [("hex 3x3", Hex(size=3))]
    found = []
    for name, game in cases:
        agent, opponent = uct_agent(game, config.simulations), random_agent(game)
        match = make_match(game, agent, opponent, pairs=config.games // 2)
        result = match(None, None, jax.random.key(0))
        moves = moves_of_agent(game, result)
        width = min(64, config.games)
        runs = {
            "match": lambda match=match: match(None, None, jax.random.key(0)).score,
            "search": search_alone(game, agent, result, width, moves),
            "lock step": lock_step(game, agent, opponent, config.games // 4),
        }
        seconds = cpu_seconds(runs, config.rounds)
        found.append(
            {
                "game": name,
                "games": config.games,
                "score": result.score,
                "moves searched": moves,
                "match, games/s": config.games / seconds["match"],
                "match, simulations/s": moves * config.simulations / seconds["match"],
                "search alone, simulations/s": moves * config.simulations / seconds["search"],
                "share of the search": seconds["search"] / seconds["match"],
                "times lock step": 4 * seconds["lock step"] / seconds["match"],
            }
        )
    return found


def main(config: Config) -> None:
    """Measures and prints the table."""
    if config.quick:
        config = dataclasses.replace(config, games=8, simulations=4, rounds=1)
    title = f"{config.games:,} games of uct:{config.simulations} against random"
    report("arena", title, rows(config), not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
