"""Whatever picks a move, and the one text form that names any of them.

A text is a name, for some followed by `:` and an argument, and by options: `NAME[:ARGUMENT][?OPTION=VALUE&...]`, as in
`az:runs/hex6?sims=200&search=puct`. `make_agent` reads it; `AGENT_FORMS` lists all there are.
"""

import dataclasses
import difflib
import importlib
import math
import os
from collections.abc import Callable
from typing import Any

from azjax.agents import plain, trained
from azjax.agents.core import Act, Agent, AgentError, Progress
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.envs.core import Env, Game

__all__ = ["AGENT_FORMS", "Act", "Agent", "AgentError", "make_agent"]


def make_agent(text: str, game: Game | Env, *, progress: Progress | None = None) -> Agent:
    """The agent that a text names, ready to play a game.

    Args:
      text: see `AGENT_FORMS`.
      game: what it is to play.
      progress: called with the work done and the work in all while a table is solved, for agents that need one
        that is not on disk yet.

    Raises:
      AgentError: the text names no agent, or one that cannot play this game. The message says what would work.
    """
    game = game.game if isinstance(game, Env) else game
    name, colon, argument = text.partition(":")
    options_text = ""
    if name not in _RAW:
        whole, _, options_text = text.partition("?")
        name, colon, argument = whole.partition(":")
    form = _FORMS.get(name)
    if form is None:
        raise AgentError(f"{text!r} names no agent{_similar(name, _FORMS)}. {_all_forms()}")
    if bool(form.argument) != bool(argument) or (colon and not argument):
        wanted = f"{name}:{form.argument}" if form.argument else name
        raise AgentError(f"{text!r} is incomplete or has too much: write {wanted}. {_all_forms()}")
    if form.game is not None and not isinstance(game, form.game):
        raise AgentError(f"{name} plays {form.game.name} alone, not {game.name}. {_all_forms()}")
    options = _parse_options(name, form, options_text)
    if name in _SOLVING:
        options["progress"] = progress
    return form.make(game, argument, **options)._replace(name=text)


@dataclasses.dataclass(frozen=True)
class _Form:
    about: str
    make: Callable[..., Agent]  # (game, argument, **options)
    argument: str = ""  # what stands behind the colon, such as "N"; empty if there is none
    options: dict[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    game: type | None = None  # the only one it plays


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("must be a whole number from 1")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("must be a number from 0")
    return number


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 0 or 1")
    return text == "1"


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _uct(make: Callable[..., Agent]) -> Callable[..., Agent]:
    def of(game: Game, argument: str, **options) -> Agent:
        try:
            simulations = _count(argument)
        except ValueError as error:
            raise AgentError(f"the number of simulations {error}, got {argument!r}") from error
        return make(game, simulations, **options)

    return of


def _from(module: str, maker: str = "make", takes_argument: bool = False) -> Callable[..., Agent]:
    # A maker of a module that is imported only when it is needed: solvers and compilers take a while.
    def of(game: Game, argument: str, **options) -> Agent:
        make = getattr(importlib.import_module(f"azjax.agents.{module}"), maker)
        return make(game, argument, **options) if takes_argument else make(game, **options)

    return of


def _level(level: str) -> _Form:
    abouts = {
        "easy": "rule-based: captures, draws safe lines, then opens any chain",
        "medium": "the same, but opens the cheapest chain",
        "hard": "the same, and double-deals",
    }
    make = _from("dots_rules", "make_agent", takes_argument=True)
    return _Form(abouts[level], lambda game, argument: make(game, level), game=DotsAndBoxes)


def _learned(loader: str) -> Callable[..., Agent]:
    def of(game: Game, path: str) -> Agent:
        from azjax.learners import agents

        if not os.path.exists(path):
            raise AgentError(f"there is no run at {path}")
        try:
            return getattr(agents, loader)(path, game)
        except AgentError:
            raise
        except ValueError as error:
            raise AgentError(str(error)) from error

    return of


_NETWORK_OPTIONS = {"symmetries": _flag, "step": _count}
_FORMS = {
    "random": _Form("moves at random", lambda game, argument: plain.random_agent(game)),
    "uct": _Form(
        "Monte-Carlo tree search with N simulations, each a random game",
        _uct(plain.uct_agent),
        "N",
        {"c": _number, "playouts": _count, "solve": _flag},
    ),
    "uct-distance": _Form(
        "the same with the lead in the race instead of random games",
        _uct(plain.uct_distance_agent),
        "N",
        {"c": _number, "solve": _flag},
        game=ChineseCheckers,
    ),
    "az": _Form(
        "a search on the network of a run (a folder or an agent.npz)",
        trained.search_agent,
        "RUN",
        {
            "sims": _count,
            "search": _one_of("gumbel", "puct"),
            "c": _number,
            "temperature": _number,
            "solve": _flag,
            **_NETWORK_OPTIONS,
        },
    ),
    "net": _Form(
        "the network of a run alone: its best move, or a sample of its policy",
        trained.network_agent,
        "RUN",
        {"sampled": _flag, **_NETWORK_OPTIONS},
    ),
    "perfect": _Form(
        "any move that keeps the value, by a solver; all_moves=1 as in Karki 2024",
        _from("solved", "perfect"),
        options={"seconds": _number, "all_moves": _flag},
    ),
    "optimal": _Form(
        "wins fastest (Chinese Checkers), takes the best margin (Dots and Boxes), wins anyhow (Hex)",
        _from("solved", "optimal"),
        options={"seconds": _number},
    ),
    "adversary": _Form(
        "knows the truth and sets traps two plies deep, as in Karki 2024",
        _from("solved", "adversary"),
        options={"epsilon": _number, "by": _one_of("count", "share")},
    ),
    "easy": _level("easy"),
    "medium": _level("medium"),
    "hard": _level("hard"),
    "alphabeta": _Form(
        "alpha-beta search over whole turns with a heuristic, of Peters 2018",
        _from("alphabeta"),
        options={"depth": _count, "seconds": _number},
        game=DotsAndBoxes,
    ),
    "gtp": _Form(
        "any engine that speaks Hex GTP, such as mohex",
        _from("gtp", takes_argument=True),
        "COMMAND",
        game=Hex,
    ),
    "td": _Form("a player learned by temporal differences", _learned("load_td"), "RUN"),
    "es": _Form("a player learned by evolution strategies", _learned("load_es"), "RUN"),
    "human": _Form("you, at the terminal", _from("human")),
}
_RAW = {"gtp"}  # a question mark may be part of its argument
_SOLVING = {"perfect", "optimal", "adversary"}


def _parse_options(name: str, form: _Form, text: str) -> dict[str, Any]:
    options = {}
    for part in text.split("&") if text else ():
        option, _, value = part.partition("=")
        if option not in form.options:
            there_are = f"its options are {', '.join(form.options)}" if form.options else "it has none"
            raise AgentError(f"{name} has no option {option!r}{_similar(option, form.options)}; {there_are}")
        try:
            options[option] = form.options[option](value)
        except ValueError as error:
            raise AgentError(f"{option} of {name} {error}, got {value!r}") from error
    return options


def _similar(name: str, known) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _usage(name: str) -> str:
    form = _FORMS[name]
    argument = f":{form.argument}" if form.argument else ""
    options = "&".join(f"{option}=.." for option in form.options)
    return f"{name}{argument}" + (f"[?{options}]" if options else "")


def _all_forms() -> str:
    return f"There are {', '.join(f'{n}:{f.argument}' if f.argument else n for n, f in _FORMS.items())}"


def _forms_text() -> str:
    def line(name: str) -> str:
        form = _FORMS[name]
        only = f" ({form.game.name})" if form.game else ""
        return f"  {_usage(name)}\n      {form.about}{only}"

    return "\n".join(line(name) for name in _FORMS)


AGENT_FORMS = _forms_text()
"""All forms, for --help."""
