"""`azjax serve [RUN ...]`: the board in the browser."""

import asyncio
import contextlib
import dataclasses
import secrets
import socket
import sys
import webbrowser
from typing import Annotated, Any, ClassVar

import tyro

from azjax.agents import check_text
from azjax.cli import parsing
from azjax.common.checked import at_least, at_most
from azjax.envs import Hex, available_games, make_game
from azjax.envs.core import seen_as
from azjax.evaluation import suites

_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclasses.dataclass(frozen=True)
class ServeCommand:
    """Open a page in the browser: play, analyse with network, search and solver side by side, watch training.

    RUN is the folder of a run, or a folder of runs; others than these are never read. Without --host only this machine
    can reach the page; with it, whoever has the token in the address that is printed.
    """

    EXAMPLES: ClassVar = (
        "azjax serve runs",
        "azjax serve runs/hex5 --no-browser --port 8080",
        "azjax serve --game dots_and_boxes",
    )

    runs: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN")]] = ()
    """Folders of runs."""
    game: str | None = None  # what the page begins with; default the game of the first run, or Hex
    # texts of agents that may be played beside the common ones, such as gtp:mohex
    agents: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()  # position files with solved positions, beside those that come with azjax
    port: Annotated[int, at_least(0), at_most(65535)] = 8477  # 0 for any that is free
    host: str | None = None  # the address to listen at for other machines, such as 0.0.0.0; asks for a token
    names: tuple[str, ...] = ()  # with --host: further names by which this machine is asked for
    token: str | None = None  # with --host: the token; default a new one
    browser: bool = True  # open the page


def run(arguments: list[str]) -> None:
    """Serves until interrupted."""
    command = parsing.parse(
        ServeCommand,
        arguments,
        "azjax serve",
        about=parsing.explained(ServeCommand, parsing.AGENTS_HELP),
    )
    if command.host is None and (command.token is not None or command.names):
        raise ValueError(
            "--token and --names go with --host: without it only this machine can reach the page"
        )
    if command.token is not None and len(command.token) < 16:
        raise ValueError("--token must have at least 16 characters: whoever guesses it can use this machine")
    if command.game is not None and command.game.replace("-", "_") not in available_games():
        raise ValueError(f"--game must be one of {', '.join(available_games())}, got {command.game}")
    for text in command.agents:
        check_text(text)
    for path in command.suites:
        suites.read_suite(path)
    try:
        import uvicorn
    except ImportError:
        raise ValueError("the server needs starlette and uvicorn: pip install 'azjax[serve]'") from None
    from azjax.serve.app import Server, make_app
    from azjax.serve.runs import Folders

    folders = Folders(command.runs)
    server = Server(folders, _game(command, folders), command.agents, command.suites)
    host = command.host or "127.0.0.1"
    token = None if command.host is None else command.token or secrets.token_urlsafe(24)
    listening = _listen(host, command.port)
    address = _address(host, listening.getsockname()[1], token)
    app = make_app(server, hosts=_names(host, command), token=token)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        limit_concurrency=4000,
        backlog=4096,
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=65_536,
        server_header=False,
    )
    print(f"azjax serves at {address}  (Ctrl-C ends it)", flush=True)
    asyncio.run(_serve(uvicorn.Server(config), listening, address if command.browser else None))


async def _serve(server: Any, listening: socket.socket, address: str | None) -> None:
    if address is not None:
        asyncio.get_running_loop().call_later(0.5, _open, address)
    # Its own handlers would keep Ctrl-C from the rest of the command line.
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve(sockets=[listening])


def _open(address: str) -> None:
    with contextlib.suppress(Exception):  # whatever a desktop may raise: the address has been printed
        webbrowser.open(address)


def _game(command: ServeCommand, folders: Any) -> Any:
    if command.game is not None:
        return make_game(command.game)
    for about in folders.listed():
        if "game" in about:
            options = dict(about["game"])
            return seen_as(make_game(options.pop("game"), **options))
    return Hex(size=5)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    if sys.platform != "win32":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(
            f"cannot listen at {host}, port {port} ({error.strerror or error}); choose another with --port"
        ) from error
    listening.listen(4096)
    return listening


def _address(host: str, port: int, token: str | None) -> str:
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _names(host: str, command: ServeCommand) -> list[str]:
    if host in _LOCAL:
        return []
    own = [socket.gethostname(), socket.getfqdn()] if host in ("0.0.0.0", "::") else [host, f"[{host}]"]
    return [*own, *command.names]
