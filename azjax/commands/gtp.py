"""`azjax gtp AGENT`: serve an agent over Hex GTP, for HexGui and other programs."""

import dataclasses
import sys
from typing import Annotated

import tyro

from azjax import agents
from azjax.envs import Hex
from azjax.gtp import Server, serve


@dataclasses.dataclass(frozen=True)
class GtpCommand:
    """Serve an agent over Hex GTP on standard input and output; `list_commands` lists what it understands."""

    agent: Annotated[str, tyro.conf.Positional]  # such as random, uct:2000, az:runs/hex6?sims=200
    size: int = 11  # the board to begin with; `boardsize` changes it
    swap: bool = False  # whether White may swap; `param_game allow_swap` changes it
    seed: int = 0  # for agents that draw


def run(arguments: list[str]) -> None:
    """Serves until `quit` or the end of the input."""
    command = tyro.cli(GtpCommand, args=arguments, prog="azjax gtp")
    server = Server(
        lambda game: agents.make_agent(command.agent, game),
        Hex(size=command.size, swap=command.swap),
        seed=command.seed,
    )
    sys.stdin.reconfigure(errors="replace")  # bytes that are no text are an unknown command, no crash
    serve(server, sys.stdin, sys.stdout)
