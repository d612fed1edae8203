"""`azjax analyse [AGENT]`: the analysis protocol on standard input and output."""

import collections
import concurrent.futures
import dataclasses
import io
import json
import queue
import sys
import threading
from typing import Annotated, Any, ClassVar, TextIO

import tyro

from azjax.agents import check_text, trained_agent
from azjax.cli import parsing
from azjax.common import files
from azjax.envs.core import GameError
from azjax.positions import describe_game


@dataclasses.dataclass(frozen=True)
class AnalyseCommand:
    """Analyse positions: a JSON object per line comes in on standard input, an answer per position goes out.

    The objects are those of KataGo's analysis engine, with a game: see docs/analysis.md.
    """

    EXAMPLES: ClassVar = (
        "azjax analyse runs/hex5 < questions.jsonl",
        """echo '{"id": "1", "moves": ["c3"], "maxVisits": 100}' | azjax analyse az:runs/hex5""",
        """echo '{"game": "hex", "size": 4, "moves": [], "agent": "uct:1", "includeTruth": true}' | azjax analyse""",
    )

    agent: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")] = None
    """Who analyses where a question names nobody, and whose game it is where it names none."""


def run(arguments: list[str]) -> None:
    """Answers until the input ends."""
    command = parsing.parse(
        AnalyseCommand,
        arguments,
        "azjax analyse",
        about=parsing.explained(AnalyseCommand, parsing.AGENTS_HELP),
    )
    defaults: dict[str, Any] = {}
    if command.agent is not None:
        check_text(command.agent)
        text, game = trained_agent(command.agent)
        defaults = {"agent": text} | ({} if game is None else describe_game(game))
    serve(sys.stdin, sys.stdout, defaults)


def serve(questions: TextIO, answers: TextIO, defaults: dict[str, Any]) -> None:
    """Answers the questions of a stream; those that came while others were searched are searched together.

    Args:
      questions: a JSON object per line.
      answers: where the answers go, a JSON object per line, each as soon as it is there.
      defaults: fields that a question need not give.
    """
    from azjax.serve import analysis, desks
    from azjax.serve.app import error_fields
    from azjax.serve.boards import RequestError

    office = desks.Office()
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(questions, lines), daemon=True).start()
    waiting: collections.deque[analysis.Pending] = collections.deque()

    def tell(told: dict[str, Any]) -> None:
        answers.write(json.dumps(told) + "\n")
        answers.flush()

    def begin(line: str) -> None:
        fields: dict[str, Any] = {}
        try:
            fields = defaults | files.parse_object(line)
            if "game" in fields and fields["game"] != defaults.get("game"):
                fields = {"agent": fields.get("agent")} | files.parse_object(line)
            special = analysis.special(fields, office)
            if special is not None:
                tell(special)
            else:
                waiting.append(analysis.Pending(analysis.Asked(fields), office))
        except (RequestError, GameError, files.FileError) as error:
            wrong = error if isinstance(error, RequestError) else RequestError(str(error))
            tell(error_fields(wrong, fields.get("id")))

    def finish(pending: analysis.Pending) -> None:
        try:
            for told, line in zip(pending.answers(), pending.asked.lines()):
                if pending.asked.truth:
                    analysis.add_truth(told, line, office.oracle(line.game).wait(line))
                tell(told)
        except (RequestError, ValueError) as error:
            tell(error_fields(RequestError(str(error), "agent"), pending.asked.id))

    try:
        line: str | None = ""
        while line is not None or waiting:
            # A file is read faster than it is answered: no more is begun than a desk has room for.
            while line is not None and (
                not waiting
                or (not lines.empty() and sum(len(one.tasks) for one in waiting) < desks.MOST_WAITING // 2)
            ):
                line = lines.get()
                if line is not None and line.strip():
                    begin(line)
            if waiting:
                concurrent.futures.wait(waiting[0].tasks)
                finish(waiting.popleft())
    finally:
        office.close()


def _read(questions: TextIO, lines: "queue.SimpleQueue[str | None]") -> None:
    if isinstance(questions, io.TextIOWrapper):
        questions.reconfigure(errors="replace")  # so that bytes that are no text spoil their own line alone
    for line in questions:
        lines.put(line)
    lines.put(None)
