"""Command lines that begin with a preset, with a game, or with a run, whose game it then is."""

import contextlib
import dataclasses
from typing import Any

import tyro

from azjax import theses
from azjax.agents import AgentError, trained_agent
from azjax.cli import parsing
from azjax.envs import GameError, Hex, available_games, make_game
from azjax.envs.core import seen_as
from azjax.learners.games import has_stone_planes


def of_preset(command: type, arguments: list[str], program: str) -> tuple[str, Any]:
    """Parses the options of a command that begins with a preset's name.

    Args:
      command: a dataclass with a field `config`, a TrainConfig.
      arguments: what follows the name of the command.
      program: what the help calls the command.

    Returns:
      The preset's name and the command.
    """
    help_wanted = not arguments or arguments[0] in ("-h", "--help")
    name, *options = [_EXAMPLE_PRESET, "--help"] if help_wanted else arguments
    about = parsing.explained(
        command,
        f"PRESET is one of {', '.join(theses.preset_names())}; `azjax presets` says what they are. The name of a game"
        f" stands for plain settings. The defaults below are those of {name}.",
    )

    def parsed(config: Any) -> Any:
        return parsing.parse(
            tyro.conf.AvoidSubcommands[command],
            options,
            f"{program} {'PRESET' if help_wanted else name}",
            about=about,
            default=command(config=config),
        )

    usual = theses.preset(name)
    found = parsed(usual)
    if found.config.game != usual.game:  # read again, for what else depends on the board
        found = parsed(theses.preset(name, found.config.game))
    return name, found


def of_game(command: type, arguments: list[str], program: str, *, plays: bool = False) -> Any:
    """Parses the options of a command that begins with a game's name, such as `hex --size 6`, or with a run.

    The board is what the options say; what they leave open is as in the run of an agent among the arguments, and only
    without any run the game's default.

    Args:
      command: a dataclass, generic in the class of its field `game`; see `azjax.cli.solve`.
      arguments: what follows the name of the command.
      program: what the help calls the command.
      plays: whether a run in the game's place is also the command's first agent.
    """
    shown, game, options = _game_first(arguments, plays)
    about = parsing.explained(command, _about_games(game, plays), *([parsing.AGENTS_HELP] if plays else []))
    return parsing.parse(
        command[type(game)], options, f"{program} {shown}", about=about, default=command(game=game)
    )


def of_learner(command: type, config: type, arguments: list[str], program: str) -> tuple[str, Any]:
    """The same for a command with a field `config`, one of the configurations of `azjax.learners`.

    Returns:
      The game's name and the command.
    """
    shown, game, options = _game_first(arguments)
    network = "dense" if has_stone_planes(game) else "tower"
    parsed = parsing.parse(
        tyro.conf.AvoidSubcommands[command],
        options,
        f"{program} {shown}",
        about=parsing.explained(command, _about_games(game)),
        default=command(config=config(game=game, network=network)),
    )
    return game.name, parsed


def of_supervised(command: type, config: type, arguments: list[str], program: str) -> tuple[str, Any]:
    """The same for a command with a field `config` that needs nothing but the game."""
    shown, game, options = _game_first(arguments)
    parsed = parsing.parse(
        tyro.conf.AvoidSubcommands[command],
        options,
        f"{program} {shown}",
        about=parsing.explained(command, _about_games(game)),
        default=command(config=config(game=game)),
    )
    return game.name, parsed


_EXAMPLE_PRESET = "hex5"


def _about_games(game: Any, plays: bool = False) -> str:
    run = "a run (its folder, an agent.npz in it, or a network that `azjax models` lists)"
    taken = (
        f"With {run} in the game's place, it is the first agent" if plays else f"{run.capitalize()} may stand"
    )
    end = ", on its own board" if plays else " in the game's place, for its own board"
    return (
        f"GAME is one of {', '.join(available_games())}. {taken}{end}. The options of the board below are those of"
        f" {game.name}."
    )


def _game_first(arguments: list[str], plays: bool = False) -> tuple[str, Any, list[str]]:
    """What the help calls the first argument, the game before its options are read, and the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        return "GAME", Hex(), ["--help"]
    first, *options = arguments
    if first.replace("-", "_") not in available_games():
        agent, game = trained_agent(first)
        if game is not None:
            return first, seen_as(game), [agent, *options] if plays else options
        if "/" in first or ":" in first:
            raise GameError(
                f"{first!r} is neither a game nor a run; the games are {', '.join(available_games())}, and a run is"
                " the folder of a training, or a file saved in it"
            )
    return first, game_of_runs(first, options), options


def game_of_runs(name: str, arguments: list[str]) -> Any:
    """The game of that name: as in the runs of the agents among the arguments, or with its default board."""
    default = make_game(name)
    learned = {}
    for argument in arguments:
        with contextlib.suppress(AgentError):  # said when the agent is made, if it is one
            game = trained_agent(argument)[1]
            if game is not None and game.name == default.name:
                learned[argument] = seen_as(game)
    fields = {field.name.replace("_", "-") for field in dataclasses.fields(default)}
    is_chosen = any(
        argument.split("=")[0].removeprefix("--").removeprefix("no-") in fields for argument in arguments
    )
    if len(set(learned.values())) > 1 and not is_chosen:
        listed = "; ".join(f"{agent} {game}" for agent, game in learned.items())
        raise GameError(
            f"the runs have learned different boards ({listed}); choose one with options such as --size"
        )
    return next(iter(learned.values()), default)
