"""Players that need neither training nor knowledge: at random, and by UCT."""

import functools

from azjax.agents import dots_rules
from azjax.agents.thinking import thinking_agent
from azjax.agents.trained import search_act, turns_board
from azjax.common.agent import Agent, random_act
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game
from azjax.search import distance_value, reusing_uct, uct
from azjax.solvers.dots.turns import Turns, by_lines, first_lines


def random_agent(game: Game, name: str = "random") -> Agent:
    """Moves uniformly at random."""
    return Agent(name, random_act(game))


def uct_agent(
    game: Game,
    simulations: int | None,
    name: str = "uct",
    *,
    seconds: float | None = None,
    reuse: bool = False,
    turns: bool = False,
    by: str | None = None,
    **options,
) -> Agent:
    """Monte-Carlo tree search with random games at the leaves.

    Args:
      game: the rules.
      simulations: per move; None with a time limit.
      name: of the agent.
      seconds: think so long about a move at most, about one position at a time.
      reuse: go on with the tree of the move before.
      turns: Dots and Boxes: search whole turns, see `azjax.solvers.dots.turns`.
      by: Dots and Boxes: a level of `azjax.agents.dots_rules` that plays the games at the leaves, as in the players A,
        B and C of Peters 2018; None for random moves.
      options: see `azjax.search.reusing_uct`.
    """
    played = Turns(turns_board(game)) if turns else game
    if by is not None:
        options["playout"] = dots_rules.make_playout(turns_board(game), by)
    elif turns:
        options["playout"] = game.random_playout
    if seconds is None and not reuse:
        search = uct(played, simulations=simulations, **options)
        return Agent(name, search_act(by_lines(game, search) if turns else search))

    def make(simulations: int, kept: int):
        return reusing_uct(played, simulations=simulations, kept=kept, **options)

    limits = {"seconds": seconds, "simulations": simulations, "reuse": reuse}
    first_action = functools.partial(first_lines, game) if turns else None
    return thinking_agent(played, make, name, first_action=first_action, **limits)


def uct_distance_agent(
    game: ChineseCheckers, simulations: int, name: str = "uct-distance", **options
) -> Agent:
    """The same with the lead in the race as the value of a leaf: the player D of Karki 2024."""
    return uct_agent(game, simulations, name, leaf_value=distance_value(game), **options)
