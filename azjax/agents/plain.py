"""Players that need neither training nor knowledge: at random, and by UCT."""

from azjax.agents.trained import search_act
from azjax.common.agent import Agent, random_act
from azjax.envs.chinese_checkers import ChineseCheckers
from azjax.envs.core import Game
from azjax.search import distance_value, uct


def random_agent(game: Game, name: str = "random") -> Agent:
    """Moves uniformly at random."""
    return Agent(name, random_act(game))


def uct_agent(game: Game, simulations: int, name: str = "uct", **options) -> Agent:
    """Monte-Carlo tree search with random games at the leaves; for the options see `azjax.search.reusing_uct`."""
    return Agent(name, search_act(uct(game, simulations=simulations, **options)))


def uct_distance_agent(
    game: ChineseCheckers, simulations: int, name: str = "uct-distance", **options
) -> Agent:
    """The same with the lead in the race as the value of a leaf: the player D of Karki 2024."""
    return uct_agent(game, simulations, name, leaf_value=distance_value(game), **options)
