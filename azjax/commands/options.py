"""Command lines that begin with a preset or with a game."""

from typing import Any

import tyro

from azjax import presets
from azjax.envs import Hex, available_games, game_class
from azjax.envs.pgx_game import PgxGame


def of_preset(command: type, arguments: list[str], program: str) -> tuple[str, Any]:
    """Parses the options of a command that begins with a preset's name.

    Args:
      command: a dataclass with a field `config`, a TrainConfig.
      arguments: what follows the name of the command.
      program: what the help calls the command.

    Returns:
      The preset's name and the command.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:32}{presets.describe(name)}" for name in presets.preset_names())
        print(f"usage: {program} PRESET [options]; {program} PRESET --help lists them\n\n{names}")
        raise SystemExit(0)
    name, *options = arguments
    default = command(config=presets.preset(name))
    parsed = tyro.cli(
        tyro.conf.AvoidSubcommands[command], default=default, args=options, prog=f"{program} {name}"
    )
    return name, parsed


def of_game(command: type, arguments: list[str], program: str) -> Any:
    """Parses the options of a command that begins with a game's name, such as `hex --size 6`.

    Args:
      command: a dataclass, generic in the class of its field `game`; see `azjax.commands.solve`.
      arguments: what follows the name of the command.
      program: what the help calls the command.
    """
    name, game, options = _game_first(arguments, program)
    return tyro.cli(command[type(game)], default=command(game=game), args=options, prog=f"{program} {name}")


def of_learner(command: type, config: type, arguments: list[str], program: str) -> tuple[str, Any]:
    """The same for a command with a field `config`, one of the configurations of `azjax.learners`.

    Returns:
      The game's name and the command.
    """
    name, game, options = _game_first(arguments, program)
    network = "dense" if isinstance(game, Hex) else "tower"
    parsed = tyro.cli(
        tyro.conf.AvoidSubcommands[command],
        default=command(config=config(game=game, network=network)),
        args=options,
        prog=f"{program} {name}",
    )
    return name, parsed


def _game_first(arguments: list[str], program: str) -> tuple[str, Any, list[str]]:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: {program} GAME [options]; {program} GAME --help lists them\n")
        print(f"GAME is one of {', '.join(available_games())}")
        raise SystemExit(0)
    name, *options = arguments
    kind = game_class(name)
    return name, PgxGame(name.replace("-", "_")) if kind is PgxGame else kind(), options
