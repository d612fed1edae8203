"""`azjax gtp AGENT`: serve an agent over Hex GTP, for HexGui and other programs."""

import dataclasses
import signal
import sys
from typing import Annotated, ClassVar

import tyro

from azjax import agents
from azjax.cli import options, parsing
from azjax.cli.gtp_server import Server, serve
from azjax.common.checked import Seed
from azjax.envs import Hex


@dataclasses.dataclass(frozen=True)
class GtpCommand:
    """Serve an agent over Hex GTP on standard input and output; `list_commands` lists what it understands."""

    EXAMPLES: ClassVar = (
        "azjax gtp uct:2000 --size 7",
        "azjax gtp az:runs/hex5?sims=200",
        "azjax gtp runs/hex5",
    )

    agent: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")
    ]  # such as random, uct:2000, az:runs/hex6?sims=200, or a run
    size: int = 11  # the board to begin with, that of the agent's run if it has one; `boardsize` changes it
    swap: bool = False  # whether White may swap, as in the run; `param_game allow_swap` changes it
    seed: Seed = 0  # for agents that draw


def run(arguments: list[str]) -> None:
    """Serves until `quit` or the end of the input."""
    if sys.stdin is None or sys.stdout is None:
        raise ValueError(
            "gtp reads commands from standard input and answers on standard output; one is closed"
        )
    server = make_server(arguments)
    # Bytes that are no text are an unknown command, and must not end the session, nor may their echo.
    sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the server is closed
    serve(server, sys.stdin, sys.stdout)


def make_server(arguments: list[str]) -> Server:
    """The server that a command line asks for, on the board of the agent's run unless it says otherwise."""
    game = options.game_of_runs("hex", arguments)
    command = parsing.parse(
        GtpCommand,
        arguments,
        "azjax gtp",
        about=parsing.explained(GtpCommand, parsing.AGENTS_HELP),
        default=GtpCommand(tyro.MISSING, size=game.size, swap=game.swap),
    )
    return Server(
        lambda game: agents.make_agent(command.agent, game),
        Hex(size=command.size, swap=command.swap),
        seed=command.seed,
    )
