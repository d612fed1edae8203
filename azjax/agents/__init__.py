"""Whatever picks a move, and the one text form that names any of them.

A text is a name, for some followed by `:` and an argument, and by options: `NAME[:ARGUMENT][?OPTION=VALUE&...]`, as in
`az:runs/hex6?sims=200&search=puct`; see `azjax.common.texts`. `make_agent` reads it; `agent_forms` lists all there are,
and `register_agent` adds one's own. The folder of a run or a file saved in it names the run's agent too, and so does
the name of a ready network, such as `hex3`, unless there is a run of that name.

The argument of `gtp` is a command line, which may contain question marks of its own: only the last one before
`timeout=` or `commands=` begins its options, as in `gtp:mohex --quiet?timeout=30&commands=param_mohex max_time 5`.
Several commands are separated by semicolons.
"""

import dataclasses
import importlib
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from azjax.agents import plain, ready, trained
from azjax.agents.ready import ready_networks
from azjax.common import remote, texts
from azjax.common.agent import Act, Agent, AgentError
from azjax.common.progress import Progress
from azjax.envs.core import Game, unwrapped
from azjax.nn.networks import make_network
from azjax.training import checkpoint
from azjax.training.config import TrainConfig

if TYPE_CHECKING:
    from azjax.envs import Env

__all__ = [
    "Act",
    "Agent",
    "AgentError",
    "agent_forms",
    "check_text",
    "make_agent",
    "ready_networks",
    "register_agent",
    "run_of",
    "trained_agent",
]


def make_agent(text: str, game: "Game | Env", *, progress: Progress | None = None) -> Agent:
    """The agent that a text names, ready to play a game.

    Args:
      text: see `agent_forms`.
      game: what it is to play.
      progress: called with the work done and the work in all while a table is solved, for agents that need one
        that is not on disk yet.

    Raises:
      AgentError: the text names no agent, or one that cannot play this game. The message says what would work.
    """
    game = unwrapped(game)
    text = trained_agent(text)[0] if _is_run(text) else text
    name, argument, options = _parse(text)
    form = _FORMS[name]
    if form.games is not None and game.name not in form.games:
        raise AgentError(
            f"{name} plays {' and '.join(form.games)} alone, not {game.name}. {texts.there_are(_FORMS)}"
        )
    if form.solves:
        options["progress"] = progress
    try:
        made = form.make(game, *([argument] if form.argument else []), **options)
    except AgentError:
        raise
    except ValueError as error:
        raise AgentError(str(error)) from error
    if not isinstance(made, Agent):
        raise AgentError(f"what makes {name} must return an Agent, it returned {type(made).__name__}")
    return made._replace(name=text)


def register_agent(
    name: str,
    make: Callable[..., Agent],
    *,
    about: str,
    argument: str = "",
    options: Mapping[str, type | texts.Reader] | None = None,
    games: Sequence[str] | None = None,
) -> None:
    """Makes an agent known by name, as good as a built-in one wherever a text names an agent.

        register_agent("corner", make_corner, about="begins in a corner", options={"depth": int})
        make_agent("corner?depth=3", game)

    Args:
      name: letters, digits, - and _.
      make: (game, **options) -> Agent; (game, argument, **options) if there is an argument. It may raise AgentError,
        or any ValueError, whose message is then shown.
      about: what it does, in a line, for `azjax help agents`.
      argument: what is expected behind the colon, such as "FILE", for people; empty if nothing is.
      options: how each option is read from its text: int, float, bool (0 or 1), str, or a function that raises
        ValueError with what it must be. They reach `make` as keywords, those that are given.
      games: the names of those it plays; None for any.

    Raises:
      ValueError: the name is taken, or cannot stand in a text.
    """
    readers = {option: texts.reader_of(kind) for option, kind in (options or {}).items()}
    form = _Form(about, make, argument, readers, None if games is None else tuple(games))
    texts.register(_FORMS, name, form, "agent")


def check_text(text: str) -> None:
    """Raises AgentError unless a text names an agent; whether that can be made is seen when it is."""
    if not _is_run(text):
        _parse(text)


def read_text(text: str) -> texts.Text:
    """The parts of a text that names an agent, the folder of a run taken for the run's agent; raises AgentError."""
    return _parse(trained_agent(text)[0] if _is_run(text) else text)


def agent_forms() -> str:
    """All forms, for --help."""

    def line(name: str) -> str:
        form = _FORMS[name]
        only = f" ({', '.join(form.games)})" if form.games else ""
        return texts.manual(name, form, form.about + only)

    return "\n".join(line(name) for name in _FORMS)


def run_of(text: str) -> str | None:
    """The run (a folder or an agent.npz) of an agent `az:RUN` or `net:RUN`; None of all others."""
    text = trained_agent(text)[0] if _is_run(text) else text
    name, argument = _name_and_argument(text)
    return argument if name in ("az", "net") else None


def trained_agent(text: str) -> tuple[str, Game | None]:
    """The agent of a run, and what the run has learned to play.

    Args:
      text: of an agent; or the folder of a run, a file saved in it, such as an agent.npz, or a ready network's name.

    Returns:
      The agent's text, which for the run `runs/hex5` is `az:runs/hex5`, and the game of its run; None for an agent
      that needs no run, or for a text that names no agent.
    """
    if _is_run(text):
        for name in ("az", "td", "es"):
            try:
                return f"{name}:{text}", _game_of_run(name, text)
            except checkpoint.KindError:
                continue  # of another learner
        raise AgentError(f"{text} belongs to a run of no learner that is known here")
    name, argument = _name_and_argument(text)
    return text, _game_of_run(name, argument) if name in _OF_RUNS and argument else None


def _is_run(text: str) -> bool:
    # An empty text would be the folder that one is in.
    if not text or texts.name_of(text) in _FORMS:
        return False
    return text in ready_networks() or remote.is_remote(text) or pathlib.Path(text).exists()


def _parse(text: str) -> texts.Text:
    try:
        return texts.parse(text, _FORMS, "agent")
    except texts.TextError as error:
        raise AgentError(str(error)) from error


def _name_and_argument(text: str) -> tuple[str, str]:
    """Of any text, whether it names an agent or not."""
    name, _, argument = text.partition("?")[0].partition(":")
    return name, argument


def _game_of_run(name: str, path: str) -> Game:
    kind, network_of = _OF_RUNS[name]()
    try:
        return checkpoint.load_agent(ready.find(path), kind, network_of)[0].game
    except checkpoint.KindError:
        raise
    except checkpoint.RunError as error:
        raise AgentError(str(error)) from error


def _td_run() -> tuple[type, Callable]:
    from azjax.learners import td

    return td.TDConfig, td.value_network


def _es_run() -> tuple[type, Callable]:
    from azjax.learners import es

    return es.ESConfig, es.policy_network


def _az_run() -> tuple[type, Callable]:
    return TrainConfig, lambda config: make_network(config.network, config.game)


# What a run of each kind is read with; imported when it is needed.
_OF_RUNS = {"az": _az_run, "net": _az_run, "td": _td_run, "es": _es_run}


@dataclasses.dataclass(frozen=True)
class _Form:
    about: str
    make: Callable[..., Agent]  # (game, **options), or (game, argument, **options)
    argument: str = ""  # what stands behind the colon, such as "N"; empty if there is none
    options: Mapping[str, texts.Reader] = dataclasses.field(default_factory=dict)
    games: tuple[str, ...] | None = None  # the names of those it plays; None for any
    separator: str = ""  # see `azjax.common.texts`
    solves: bool = False  # whether making it may take a while, of which a keyword `progress` is told


def _temperature(text: str) -> float:
    number = texts.number_from_0(text)
    if 0 < number < 1e-3:  # powers of 1000 of a policy are nothing but its best move
        raise ValueError("must be 0, or at least 0.001")
    return number


def _lines(text: str) -> tuple[str, ...]:
    lines = tuple(line.strip() for line in text.split(";") if line.strip())
    if not lines or not text.isprintable():
        raise ValueError("must be commands, separated by semicolons")
    return lines


def _uct(make: Callable[..., Agent]) -> Callable[..., Agent]:
    def of(game: Game, argument: str, **options) -> Agent:
        try:
            simulations = None if argument == "any" and "seconds" in options else texts.count(argument)
        except ValueError as error:
            raise AgentError(
                f"the number of simulations {error}, or any where seconds= is given, got {argument!r}"
            ) from error
        return make(game, simulations, **options)

    return of


def _from(module: str, maker: str = "make", **given) -> Callable[..., Agent]:
    # A maker of a module that is imported only when it is needed: solvers and compilers take a while.
    def of(game: Game, *argument: str, **options) -> Agent:
        make = getattr(importlib.import_module(f"azjax.agents.{module}"), maker)
        return make(game, *argument, **given, **options)

    return of


def _learned(loader: str) -> Callable[..., Agent]:
    def of(game: Game, path: str) -> Agent:
        from azjax.agents import learned as agents

        if not os.path.exists(path):
            raise AgentError(f"there is no run at {path}")
        return getattr(agents, loader)(path, game)

    return of


_CLOCK = {"seconds": texts.seconds, "reuse": texts.flag}
_TURNS = {"turns": texts.flag}
_NETWORK_OPTIONS = {"symmetries": texts.flag, "step": texts.count}
_FORMS = {
    "random": _Form("moves at random", plain.random_agent),
    "uct": _Form(
        "Monte-Carlo tree search with N simulations (any, with seconds=), each a random game, or one by rules (by=)",
        _uct(plain.uct_agent),
        "N",
        {
            "c": texts.number_from_0,
            "playouts": texts.count,
            "solve": texts.flag,
            **_CLOCK,
            **_TURNS,
            "by": texts.one_of("easy", "medium", "hard"),
        },
    ),
    "uct-distance": _Form(
        "the same with the lead in the race instead of random games",
        _uct(plain.uct_distance_agent),
        "N",
        {"c": texts.number_from_0, "solve": texts.flag, **_CLOCK},
        games=("chinese_checkers",),
    ),
    "az": _Form(
        "a search on the network of a run (a folder, an agent.npz, or a name that `azjax models` lists)",
        trained.search_agent,
        "RUN",
        {
            "sims": texts.count,
            "search": texts.one_of("gumbel", "puct"),
            "c": texts.number_from_0,
            "temperature": _temperature,
            "solve": texts.flag,
            **_CLOCK,
            **_TURNS,
            **_NETWORK_OPTIONS,
        },
    ),
    "net": _Form(
        "the network of a run alone: its best move, or a sample of its policy",
        trained.network_agent,
        "RUN",
        {"sampled": texts.flag, **_NETWORK_OPTIONS},
    ),
    "perfect": _Form(
        "any move that keeps the value, by a solver, and resists when lost; all_moves=1 as in Karki 2024",
        _from("solved", "perfect"),
        options={"seconds": texts.number_from_0, "all_moves": texts.flag},
        solves=True,
    ),
    "optimal": _Form(
        "wins fastest (Chinese Checkers, Hex up to 4x4), or takes the best margin (Dots and Boxes)",
        _from("solved", "optimal"),
        options={"seconds": texts.number_from_0},
        solves=True,
    ),
    "adversary": _Form(
        "knows the truth and sets traps two plies deep, as in Karki 2024",
        _from("solved", "adversary"),
        options={
            "epsilon": texts.number_from_0,
            "by": texts.one_of("count", "share"),
            "all_moves": texts.flag,
        },
        solves=True,
    ),
    "easy": _Form(
        "rule-based: captures, draws safe lines, then opens any chain",
        _from("dots_rules", "make_agent", level="easy"),
        games=("dots_and_boxes",),
    ),
    "medium": _Form(
        "the same, but opens the cheapest chain",
        _from("dots_rules", "make_agent", level="medium"),
        games=("dots_and_boxes",),
    ),
    "hard": _Form(
        "the same, and double-deals",
        _from("dots_rules", "make_agent", level="hard"),
        games=("dots_and_boxes",),
    ),
    "alphabeta": _Form(
        "alpha-beta search over whole turns with a heuristic, of Peters 2018",
        _from("alphabeta"),
        options={"depth": texts.count, "seconds": texts.number_from_0},
        games=("dots_and_boxes",),
    ),
    "hexy": _Form(
        "alpha-beta over electrical resistance with virtual connections, after Hexy;"
        " depth, width, and seconds per move",
        _from("hexy"),
        options={"depth": texts.count, "width": texts.count, "seconds": texts.number_from_0},
        games=("hex",),
    ),
    "gtp": _Form(
        "any engine that speaks Hex GTP, such as mohex; with the seconds an answer may take, and what it is told first",
        _from("gtp"),
        "COMMAND",
        {"timeout": texts.seconds, "commands": _lines},
        games=("hex",),
        separator="?",
    ),
    "td": _Form("a player learned by temporal differences", _learned("load_td"), "RUN"),
    "es": _Form("a player learned by evolution strategies", _learned("load_es"), "RUN"),
    "human": _Form("you, at the terminal", _from("human")),
}
