"""The analysis protocol: questions and answers as JSON objects, in the form that KataGo's users know.

A question names a position by game and moves, and how long to search; the answer lists moves with visits, winrate,
prior and variation. The same objects go over standard input (`azjax analyse`) and over HTTP; see docs/analysis.md.
"""

import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from azjax.common.agent import AgentError, check_finite
from azjax.serve import truth
from azjax.serve.boards import Line, RequestError, read_line, state_of
from azjax.serve.desks import Desk, Office
from azjax.serve.layouts import layout_of
from azjax.serve.thinking import Found, Opinion, capacity

MOST_TURNS = 400  # positions of one question
DEFAULT_VISITS = 64
_COLOURS = "BW"  # of the first and the second player, whatever the game calls them


def whole(fields: Mapping[str, Any], name: str, default: int | None, low: int, high: int) -> int | None:
    """A whole number of a request, between bounds."""
    value = fields.get(name, default)
    if value is None and default is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RequestError(f"{name} must be a whole number from {low} to {high:,}", name)
    return value


def number(
    fields: Mapping[str, Any], name: str, default: float | None, low: float, high: float
) -> float | None:
    """A number of a request, between bounds."""
    value = fields.get(name, default)
    if value is None and default is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RequestError(f"{name} must be a number from {low:g} to {high:g}", name)
    return float(value)


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """A flag of a request, False unless it is given."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise RequestError(f"{name} must be true or false", name)
    return value


class Asked:
    """A question of the protocol, checked."""

    def __init__(self, fields: Mapping[str, Any], default_agent: str | None = None):
        """Raises RequestError for what makes no sense."""
        identity = fields.get("id", "")
        if not isinstance(identity, str | int) or len(str(identity)) > 1000:
            raise RequestError("id must be a text", "id")
        self.id = identity
        self.line = read_line(fields)
        self.agent = fields.get("agent", default_agent)
        if self.agent is None:
            raise RequestError("agent is missing: name one, such as uct:200", "agent")
        self.visits = whole(fields, "maxVisits", DEFAULT_VISITS, 1, capacity(self.line.game, 1))
        self.step = whole(fields, "step", None, 0, 10**9)
        turns = fields.get("analyzeTurns", [len(self.line.moves)])
        if not isinstance(turns, list) or not 1 <= len(turns) <= MOST_TURNS:
            raise RequestError(f"analyzeTurns must be a list of 1 to {MOST_TURNS} numbers", "analyzeTurns")
        for turn in turns:
            if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn <= len(self.line.moves):
                raise RequestError(
                    f"analyzeTurns must be numbers from 0 to {len(self.line.moves)}, the moves given",
                    "analyzeTurns",
                )
        self.turns: list[int] = turns
        self.policy, self.ownership = flag(fields, "includePolicy"), flag(fields, "includeOwnership")
        self.all_moves, self.truth = flag(fields, "includeAllMoves"), flag(fields, "includeTruth")

    def lines(self) -> list[Line]:
        """The positions asked about."""
        return [self.line._replace(moves=self.line.moves[:turn]) for turn in self.turns]


class Pending:
    """A question whose searches have been queued."""

    def __init__(self, asked: Asked, office: Office):
        """Queues the searches of all its positions."""
        self.asked = asked
        self.desk = office.desk(asked.line.game, asked.agent)
        self.searches = [
            self.desk.search(state_of(line), line, asked.visits, asked.step) for line in asked.lines()
        ]
        self.opinions = [
            self.desk.submit(lambda line=line: _opinion(self.desk, line, asked.step))
            for line in asked.lines()
        ]

    @property
    def tasks(self) -> list[Any]:
        """All that is to be waited for."""
        return [*self.searches, *self.opinions]

    def answers(self) -> Iterator[dict[str, Any]]:
        """An answer per position, in the order of the question; waits where it must."""
        for turn, line, search, opinion in zip(
            self.asked.turns, self.asked.lines(), self.searches, self.opinions
        ):
            try:
                yield answer(self.asked, turn, line, search.result(), opinion.result())
            except AgentError as error:
                raise RequestError(str(error), "agent") from error


def _opinion(desk: Desk, line: Line, step: int | None) -> Opinion | None:
    return desk.thinker.opinion(state_of(line), step=step)


def answer(asked: Asked, turn: int, line: Line, found: Found, opinion: Opinion | None) -> dict[str, Any]:
    """What is told of one position; winrates and utilities are of the player to move in it."""
    game = line.game
    check_value(found.value, asked.agent)
    infos = []
    order = sorted(np.flatnonzero(found.legal).tolist(), key=lambda a: _rank(found, opinion, a))
    for place, action in enumerate(order):
        visits = int(found.visits[action])
        if not visits and not asked.all_moves:
            continue
        utility = float(found.qvalues[action]) if visits else None
        info = {
            "move": game.action_to_text(action),
            "action": action,
            "order": place,
            "visits": visits,
            "winrate": None if utility is None else (utility + 1) / 2,
            "utility": utility,
            "pv": [game.action_to_text(move) for move in found.variations.get(action, [action])],
        }
        if opinion is not None:
            info["prior"] = float(opinion.policy[action])
            after = float(opinion.after[action])
            info["rawUtilityAfter"] = after if np.isfinite(after) else None
        infos.append(info)
    told: dict[str, Any] = {
        "id": asked.id,
        "turnNumber": turn,
        "isDuringSearch": False,
        "moveInfos": infos,
        "rootInfo": {
            "currentPlayer": _COLOURS[int(state_of(line).current_player)],
            "visits": found.simulations,
            "winrate": (found.value + 1) / 2,
            "utility": found.value,
        },
    }
    if opinion is not None:
        told["rootInfo"] |= {"rawUtility": opinion.value, "rawWinrate": (opinion.value + 1) / 2}
        if asked.policy:
            told["policy"] = np.where(found.legal, opinion.policy, -1.0).astype(float).tolist()
        if asked.ownership and opinion.ownership is not None:
            told["ownership"] = ownership(line, opinion.ownership)
    return told


def check_value(value: float, agent: str) -> None:
    """Raises AgentError if a search has met numbers that are not finite."""
    if not np.isfinite(value):
        check_finite(np.array([-3]), agent)


def ownership(line: Line, seen: np.ndarray) -> list[float] | None:
    """Of each place of the layout, from -1 to 1 as the player to move has it; None if the layout tells no places."""
    layout = layout_of(line.game)
    if layout is None or layout.pixels is None:
        return None
    row, column = np.moveaxis(layout.pixels[int(state_of(line).current_player)], -1, 0)
    return np.where(row < 0, 0.0, seen[row, column]).astype(float).round(3).tolist()


def _rank(found: Found, opinion: Opinion | None, action: int) -> tuple:
    """The best first: the move to play, then visits, then what the network likes."""
    prior = 0.0 if opinion is None else float(opinion.policy[action])
    return action != found.action, -int(found.visits[action]), -prior


def special(fields: Mapping[str, Any], office: Office, version: str | None = None) -> dict[str, Any] | None:
    """The answer to a question that asks for an action instead of a position; None of others."""
    action = fields.get("action")
    if action is None:
        return None
    told = {"id": fields.get("id", ""), "action": action}
    if action == "query_version":
        return told | {"version": version or importlib.metadata.version("azjax"), "engine": "azjax"}
    if action == "query_models":
        return told | {"models": office.status()}
    raise RequestError('action must be "query_version" or "query_models"', "action")


def add_truth(told: dict[str, Any], line: Line, verdict: truth.Verdict) -> None:
    """Puts the solver's verdict into an answer: for the position, and at each of its moves."""
    told["truth"] = {"status": verdict["status"], "utility": verdict.get("value")}
    if "why" in verdict:
        told["truth"]["why"] = verdict["why"]
    for info in told["moveInfos"]:
        info["proven"] = verdict.get("moves", {}).get(info["action"])
