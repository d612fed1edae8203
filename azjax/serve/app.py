"""The server: requests in JSON, answers in JSON, and the files of the page.

Every question is answered from what it brings; agents and solvers work in threads and processes of their own, so that
the server always answers, if only that something is still being looked for.
"""

import asyncio
import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.resources
import logging
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from azjax import agents, envs
from azjax.agents.trained import load_weights
from azjax.common import files, texts
from azjax.common.agent import FORFEIT, RESIGN, AgentError
from azjax.envs.core import Game, GameError, seen_as
from azjax.evaluation import suites
from azjax.positions import describe_game
from azjax.serve import analysis, boards, truth
from azjax.serve.analysis import Asked, Pending, number, whole
from azjax.serve.boards import RequestError, describe, line_fields, move_texts, read_line, state_of
from azjax.serve.desks import Office
from azjax.serve.guard import Guard
from azjax.serve.ladder import Ladder
from azjax.serve.layouts import layout_of
from azjax.serve.runs import Folders, curves, self_play
from azjax.serve.thinking import capacity
from azjax.solvers import has_solver

STATIC = ("index.html", "page.js", "board.js", "board.css", "style.css", "icon.svg")
PATIENCE = 600.0  # seconds that an answer may take
MOST_TREE = 400  # simulations of a tree that is stepped through
_MOST_PLAYOUTS = 20_000
_MOST_WIDTH = 16  # moves that hexy tries in each position
_SOLVER_SECONDS = 5.0  # of an agent that searches until it is done, unless its text says less
_NAMED_FORMS = (
    "random",
    "uct",
    "uct-distance",
    "perfect",
    "optimal",
    "adversary",
    "easy",
    "medium",
    "hard",
    "alphabeta",
    "hexy",
)
_RUN_FORMS = ("az", "net", "td", "es")

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


@dataclasses.dataclass
class Server:
    """What the requests of one server share."""

    folders: Folders
    game: Game  # the page begins with it
    agents: tuple[str, ...] = ()  # texts that may be asked for beside the common ones
    suites: tuple[str, ...] = ()  # position files beside those that come with azjax

    def __post_init__(self):
        self.office = Office(self.resolve)
        self._ladders: dict[Game, Ladder] = {}
        self._suites: dict[tuple[str, str], dict[str, Any]] = {}

    def resolve(self, text: str) -> str:
        """The text to make an agent by, with a run's folder for its name; raises RequestError if it must not be made.

        Texts come from whoever reaches the server: they must neither start programs nor read other files.
        """
        if text in self.agents:
            return text
        if text in self.folders.all() or text in agents.ready_networks():
            return self._run_text("", text, "")
        try:
            name = texts.name_of(text)
            if name in _RUN_FORMS:
                argument, mark, options = text[len(name) + 1 :].partition("?")
                return _bounded(self._run_text(name, argument, mark + options))
            if name in _NAMED_FORMS:
                return _bounded(text)
        except AgentError as error:
            raise RequestError(str(error), "agent") from error
        known = [*_NAMED_FORMS, *(f"{form}:RUN" for form in _RUN_FORMS), *self.agents]
        raise RequestError(f"{text!r} is no agent of this server; there are {', '.join(known)}", "agent")

    def _run_text(self, form: str, run: str, options: str) -> str:
        ready = None if run in self.folders.all() else agents.ready_networks().get(run)
        path = ready or self.folders.folder(run)
        if not form:
            return agents.trained_agent(str(path))[0]
        return f"{form}:{path}{options}"

    def _players_of(self, game: Game) -> list[str]:
        """The runs that can play a game, and the networks that come with azjax and can; the runs first."""
        runs = self.folders.of_game(game)
        ready = [name for name in agents.ready_networks() if seen_as(_ready_game(name)) == seen_as(game)]
        return runs + [name for name in ready if name not in self.folders.all()]

    def ladder(self, game: Game) -> Ladder:
        """The ladder of a game."""
        if game not in self._ladders:
            if len(self._ladders) >= 32:
                raise RequestError("there are too many ladders already", None, 503)
            self._ladders[game] = Ladder(game, self._players_of(game), self.resolve)
        return self._ladders[game]

    def suite_path(self, name: Any) -> str:
        """Where a suite is; raises RequestError for a name that is not listed."""
        if isinstance(name, str) and (name in suites.ready_suites() or name in self.suites):
            return name
        raise RequestError(
            f"there is no suite of that name; there are {', '.join(self._suite_names())}", "suite", 404
        )

    def _suite_names(self) -> list[str]:
        return [*suites.ready_suites(), *self.suites]

    async def setup(self, fields: dict[str, Any]) -> Any:
        """What the page needs to begin."""
        del fields
        return {
            "version": importlib.metadata.version("azjax"),
            "game": describe_game(self.game),
            "games": [_about_game(name) for name in envs.available_games()],
            "runs": await run_in_threadpool(self.folders.listed),
            "agents": list(self.agents),
            "suites": self._suite_names(),
        }

    async def layout(self, fields: dict[str, Any]) -> Any:
        """A game's board, its bounds, and the runs that can play it."""
        game = read_line(fields).game
        layout = await run_in_threadpool(layout_of, game)
        return {
            "game": describe_game(game),
            "name": game.name,
            "layout": None if layout is None else layout.as_dict(),
            "actions": game.num_actions,
            "most": capacity(game, 1),
            "solver": has_solver(game),
            "runs": await run_in_threadpool(self._players_of, game),
            "rules": (type(game).__doc__ or "").strip().split("\n")[0],
        }

    async def position(self, fields: dict[str, Any]) -> Any:
        """What a position looks like."""
        return await run_in_threadpool(lambda: describe(read_line(fields)))

    async def move(self, fields: dict[str, Any]) -> Any:
        """The move of an agent: its own, or after so many simulations or seconds."""
        line = await run_in_threadpool(read_line, fields)
        desk = self.office.desk(line.game, fields.get("agent"))
        simulations = whole(fields, "simulations", None, 1, capacity(line.game, 1))
        seconds = number(fields, "seconds", None, 0.01, 60.0)
        seed = whole(fields, "seed", 0, 0, 2**31 - 1)
        state = state_of(line)
        if (await run_in_threadpool(boards.look, line.game, state)).over:
            raise RequestError("the game is over", "moves")

        def work() -> int:
            if simulations is None and seconds is None:
                return desk.move(state, seed)
            if seconds is not None:
                found = desk.thinker.search_for(state, seconds)
            else:
                found = desk.thinker.search([state], simulations)[0]
            analysis.check_value(found.value, desk.text)
            return found.action

        action = await self._done(desk.submit(work))
        if action < 0:
            return {"resigns": action == RESIGN, "forfeits": action == FORFEIT}
        return {"action": action, "move": line.game.action_to_text(action)}

    async def analyse(self, fields: dict[str, Any]) -> Any:
        """The analysis protocol; an answer for one position, a list of them for several."""
        if (told := analysis.special(fields, self.office)) is not None:
            return told
        asked = await run_in_threadpool(Asked, fields)
        pending = await run_in_threadpool(Pending, asked, self.office)
        for task in pending.tasks:
            await self._done(task)
        answers = await run_in_threadpool(lambda: list(pending.answers()))
        if asked.truth:
            oracle = await run_in_threadpool(self.office.oracle, asked.line.game)
            for told, line in zip(answers, asked.lines()):
                analysis.add_truth(told, line, await run_in_threadpool(oracle.ask, line))
        return answers[0] if "analyzeTurns" not in fields else answers

    async def truth(self, fields: dict[str, Any]) -> Any:
        """The solver's verdicts on the positions of a line, those that are known by now."""
        line = await run_in_threadpool(read_line, fields)
        seconds = number(fields, "seconds", truth.SECONDS, 0.1, truth.MOST_SECONDS)
        first = whole(fields, "from", len(line.moves), 0, len(line.moves))
        oracle = await run_in_threadpool(self.office.oracle, line.game)
        lines = [line._replace(moves=line.moves[:turn]) for turn in range(first, len(line.moves) + 1)]

        def ask_all() -> list[dict[str, Any]]:
            return [oracle.ask(one, seconds) | {"player": int(state_of(one).current_player)} for one in lines]

        return {"verdicts": await run_in_threadpool(ask_all)}

    async def graph(self, fields: dict[str, Any]) -> Any:
        """Of every position of a line the network's value and search's, as the first player sees them."""
        asked = await run_in_threadpool(Asked, {**fields, "analyzeTurns": [0]})
        lines = [
            asked.line._replace(moves=asked.line.moves[:turn]) for turn in range(len(asked.line.moves) + 1)
        ]
        lines = lines[: analysis.MOST_TURNS]
        desk, states = self.office.desk(asked.line.game, asked.agent), [state_of(line) for line in lines]
        signs = [1 - 2 * int(state.current_player) for state in states]
        network = await self._done(desk.submit(lambda: desk.thinker.values(states, step=asked.step)))
        results: list[float | None] = []
        for state in states:
            looked = await run_in_threadpool(boards.look, asked.line.game, state)
            results.append(float(looked.rewards[0]) if looked.over else None)
        told = [
            result if result is not None else None if value is None else sign * value
            for sign, value, result in zip(signs, network, results)
        ]
        return {"network": told, "results": results}

    async def tree(self, fields: dict[str, Any]) -> Any:
        """The search tree after so many simulations, and what the last of them did."""
        line = await run_in_threadpool(read_line, fields)
        simulations = whole(fields, "simulations", 1, 1, min(MOST_TREE, capacity(line.game, 1)))
        step = whole(fields, "step", None, 0, 10**9)
        desk, state = self.office.desk(line.game, fields.get("agent")), state_of(line)
        nodes, passed = await self._done(
            desk.submit(lambda: desk.thinker.tree(state, simulations, step=step))
        )
        names = {node.action: line.game.action_to_text(node.action) for node in nodes if node.action >= 0}
        rows = [node._asdict() | {"move": names.get(node.action)} for node in nodes]
        return {"nodes": rows, "passed": passed, "simulations": simulations}

    async def read(self, fields: dict[str, Any]) -> Any:
        """The line of what somebody has pasted."""
        game = (await run_in_threadpool(read_line, {**fields, "moves": [], "start": None})).game
        line = await run_in_threadpool(boards.read_pasted, fields.get("text"), game)
        return {"line": line_fields(line)}

    async def write(self, fields: dict[str, Any]) -> Any:
        """A line as texts to take away."""
        line = await run_in_threadpool(read_line, fields)
        players = fields.get("players", ["", ""])
        if (
            not isinstance(players, list)
            or len(players) != 2
            or any(len(str(name)) > 200 for name in players)
        ):
            raise RequestError("players must be two names", "players")
        told = await run_in_threadpool(boards.written, line, players)
        return told | {"moves": " ".join(move_texts(line))}

    async def status(self, fields: dict[str, Any]) -> Any:
        """What the agents are doing."""
        del fields
        return {"agents": self.office.status()}

    async def runs(self, fields: dict[str, Any]) -> Any:
        """All runs, as far as they are."""
        del fields
        return {"runs": await run_in_threadpool(self.folders.listed)}

    async def run(self, fields: dict[str, Any]) -> Any:
        """The curves of a run."""
        path = await run_in_threadpool(self.folders.folder, fields.get("run"))
        return {"curves": await run_in_threadpool(curves, path)}

    async def selfplay(self, fields: dict[str, Any]) -> Any:
        """A game that a run plays against itself now."""
        path = await run_in_threadpool(self.folders.folder, fields.get("run"))
        seed = whole(fields, "seed", 0, 0, 2**31 - 1)
        config = await run_in_threadpool(lambda: agents.trained_agent(str(path)))
        if not config[0].startswith("az:"):
            raise RequestError("only runs of `azjax train` play against themselves", "run")
        desk = self.office.desk(seen_as(config[1]), f"az:{fields['run']}")
        line = await self._done(desk.submit(lambda: self_play(path, seed)))
        return {"line": line_fields(line)}

    async def ladder_of(self, fields: dict[str, Any]) -> Any:
        """The opponents of a game by strength; begins to measure them if asked to."""
        game = (await run_in_threadpool(read_line, fields)).game
        ladder = await run_in_threadpool(self.ladder, game)
        if analysis.flag(fields, "calibrate"):
            ladder.calibrate()
        return await run_in_threadpool(ladder.told)

    async def suite(self, fields: dict[str, Any]) -> Any:
        """What an agent answers in the positions of a suite, as soon as it has been asked about all."""
        name, text = self.suite_path(fields.get("suite")), fields.get("agent")
        lines = await run_in_threadpool(suites.read_suite, name)
        desk = self.office.desk(lines[0].game, text)
        key = (name, desk.text)
        if key not in self._suites:
            if len(self._suites) >= 200:
                self._suites.pop(next(iter(self._suites)))
            told = self._suites[key] = {"status": "asking", "done": 0, "total": len(lines)}

            def tell(what: str, done: int, total: int) -> None:
                told.update(done=done, total=total)

            def work() -> None:
                try:
                    asked = suites.run_suite(desk.text, name, openings_too=True, progress=tell)
                    told.update(_answers(asked))
                except (ValueError, OSError) as error:
                    told.update(status="failed", why=str(error))

            desk.submit(work)
        return self._suites[key]

    def close(self) -> None:
        """Closes agents, solvers and ladders."""
        for ladder in self._ladders.values():
            ladder.close()
        self.office.close()

    async def _done(self, task: Any) -> Any:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(task), PATIENCE)
        except TimeoutError:
            raise RequestError(f"no answer within {PATIENCE:.0f} s; ask for less", None, 503) from None


@functools.cache
def _ready_game(name: str) -> Game:
    return load_weights(agents.ready_networks()[name])[0].game


def _answers(asked: suites.AskedSuite) -> dict[str, Any]:
    rows = []
    for number_, position, given in zip(asked.numbers, asked.positions, asked.result.answers):
        fields = position.fields
        kept = {name: fields[name] for name in ("moves", "position", "optimal", "value") if name in fields}
        line = describe_game(position.game) | kept
        rows.append({"number": number_ + 1, "line": line, "move": given.move, "correct": given.correct})
    whole_score = asked.result.all
    return {
        "status": "done",
        "share": whole_score.share,
        "interval": whole_score.interval,
        "correct": whole_score.correct,
        "chance": whole_score.chance,
        "answers": rows,
    }


def _bounded(text: str) -> str:
    """The text of an agent if it asks for no more work than a server should do; raises RequestError."""
    read = agents.read_text(text)
    options = read.options
    counts = {"sims": options.get("sims", 1), "playouts": options.get("playouts", 1)}
    if read.name in ("uct", "uct-distance") and read.argument.isdecimal():
        counts["playouts"] *= int(read.argument[:12])
    for name, most in (("sims", 4096), ("playouts", _MOST_PLAYOUTS)):
        if counts[name] > most:
            raise RequestError(f"an agent of this server makes at most {most:,} {name}", "agent")
    if options.get("depth", 0) > 8 or options.get("seconds", 0) > 60:
        raise RequestError("an agent of this server thinks at most 8 plies and 60 seconds ahead", "agent")
    if options.get("width", 0) > _MOST_WIDTH:
        raise RequestError(
            f"an agent of this server tries at most {_MOST_WIDTH} moves in a position", "agent"
        )
    if read.name in ("perfect", "optimal", "alphabeta", "hexy") and "seconds" not in options:
        text += ("&" if "?" in text else "?") + f"seconds={_SOLVER_SECONDS:g}"
    return text


def _about_game(name: str) -> dict[str, Any]:
    if name in envs.pgx_names.BOARD_GAMES:
        return {"name": name, "options": []}
    options = []
    kind = envs.game_class(name)
    for field in dataclasses.fields(kind):
        if field.name in (*getattr(kind, "view_options", ()), "max_plies"):
            continue
        options.append({"name": field.name, "default": field.default})
    return {"name": name, "options": options}


def make_app(server: Server, *, hosts: Sequence[str] = (), token: str | None = None) -> ASGIApp:
    """The application, guarded.

    Args:
      server: what it serves.
      hosts: see `Guard`.
      token: see `Guard`.
    """
    handlers = {
        "setup": server.setup,
        "layout": server.layout,
        "position": server.position,
        "move": server.move,
        "analyse": server.analyse,
        "truth": server.truth,
        "graph": server.graph,
        "tree": server.tree,
        "read": server.read,
        "write": server.write,
        "status": server.status,
        "runs": server.runs,
        "run": server.run,
        "selfplay": server.selfplay,
        "ladder": server.ladder_of,
        "suite": server.suite,
    }
    routes = [
        Route(f"/api/{name}", _answering(handler), methods=["POST"]) for name, handler in handlers.items()
    ]
    routes.append(Route("/", functools.partial(_file, name="index.html")))
    routes += [Route(f"/{name}", functools.partial(_file, name=name)) for name in STATIC]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.close()

    application = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error, Exception: _unexpected},
    )
    return Guard(application, hosts=hosts, token=token)


def static_text(name: str) -> str:
    """One of the page's files."""
    return (importlib.resources.files("azjax.serve") / "static" / name).read_text(encoding="utf-8")


async def _file(request: Request, name: str) -> Response:
    del request
    return Response(static_text(name), media_type=mimetypes.guess_type(name)[0])


def _answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        identity = None
        try:
            try:
                body = await request.body()
            except ClientDisconnect:
                raise RequestError("the body is too long, or was not sent whole", None, 413) from None
            try:
                fields = files.parse_object(body.decode("utf-8") or "{}")
            except (files.FileError, UnicodeDecodeError) as error:
                raise RequestError(str(error)) from error
            identity = fields.get("id") if isinstance(fields.get("id"), str | int) else None
            return _json(await handler(fields))
        except RequestError as error:
            return _json(error_fields(error, identity), error.status)
        except (GameError, AgentError, files.FileError, ValueError) as error:
            return _json(error_fields(RequestError(str(error)), identity), 400)

    return answer


def error_fields(error: RequestError, identity: Any = None) -> dict[str, Any]:
    """What is told of a request that makes no sense."""
    told: dict[str, Any] = {"error": str(error)}
    if error.field is not None:
        told["field"] = error.field
    if identity is not None:
        told["id"] = identity
    return told


def _json(told: Mapping[str, Any] | list[Any], status: int = 200) -> JSONResponse:
    return JSONResponse(told, status)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return _json(
        {"error": "there is nothing at this address" if error.status_code == 404 else error.detail},
        error.status_code,
    )


async def _unexpected(request: Request, error: Exception) -> Response:
    logging.getLogger("azjax.serve").error("%s failed", request.url.path, exc_info=error)
    return _json({"error": "the server has failed at this; its terminal says how"}, 500)
