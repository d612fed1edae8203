"""Game records: written as text, read again, replayed and drawn.

Hex is written in SGF, as HexGui reads it: there a swap leaves the stone in its place and changes the players' sides, so
that White moves twice and all that follows is a mirror image of our game.

Every game can be written in a plain notation, one that a person can type: tags in brackets, of which only the first
is needed, then the moves with or without their numbers.

    [Game "dots_and_boxes rows=2 columns=2"]
    [First "uct:200"]
    [Second "random"]
    [Result "0-1"]
    1. a1-b1 2. b1-b2 3. a1-a2 4. a2-b2 5. a3-b3 ...

A file holds any number of games; `.sgf` is SGF, everything else the plain notation.
"""

import dataclasses
import functools
import importlib.metadata
import os
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from azjax import positions
from azjax.common import atomic, files
from azjax.common.agent import FORFEIT, RESIGN
from azjax.envs.core import Game, GameError, GameState, move_marks
from azjax.envs.drawing import Svg
from azjax.envs.hex import SWAP_TEXT, Hex
from azjax.evaluation.arena import MatchResult

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1", None: "*"}
ENDINGS = {0: "", RESIGN: "resignation", FORFEIT: "forfeit"}


class RecordError(ValueError):
    """A record that cannot be read or replayed; the message says where and why."""


@dataclasses.dataclass(frozen=True)
class GameRecord:
    """One game, from its start to where it ended or was broken off."""

    game: Game
    moves: tuple[int, ...]  # actions
    players: tuple[str, str] = ("", "")  # the first and the second
    result: int | None = None  # of the first player: 1, 0 or -1; None if unknown
    ending: str = ""  # "resignation" or "forfeit" if the loser gave up
    start: str | None = None  # a position in the game's notation; None for the game's own start
    opening_plies: int = 0  # moves that were not the players' own

    @property
    def result_text(self) -> str:
        """`1-0`, `0-1`, `1/2-1/2`, or `*` if unknown."""
        return RESULTS[self.result]

    def _repr_html_(self) -> str:
        return str(draw(self))


def of_match(game: Game, agent: str, opponent: str, result: MatchResult) -> list[GameRecord]:
    """The games of a match, under the agents' names."""
    played = result.played
    return [
        GameRecord(
            game,
            tuple(int(action) for action in played.record[row, : played.plies[row]]),
            (agent, opponent) if played.agent_first[row] else (opponent, agent),
            int(played.result[row]),
            ENDINGS[int(played.given_up[row])],
            played.starts[row],
            int(played.opening_plies[row]),
        )
        for row in range(len(played.plies))
    ]


def replay(record: GameRecord) -> list[GameState]:
    """All positions of the game, the start first.

    Raises:
      RecordError: a move is illegal, or the result is not that of the last position.
    """
    game = record.game
    try:
        x = game.init(jax.random.key(0)) if record.start is None else game.from_notation(record.start)
    except GameError as error:
        raise RecordError(f"the game cannot be replayed: {error}") from error
    states = [x]
    for ply, action in enumerate(record.moves, start=1):
        try:
            x = _step(game)(x, positions.action_of(game, x, action))
        except GameError as error:
            raise RecordError(f"move {ply} cannot be replayed: {error}") from error
        states.append(x)
    if bool(game.is_terminal(x)):
        outcome = int(np.sign(np.asarray(game.rewards(x))[0]))
        if record.result not in (None, outcome) and not record.ending:
            raise RecordError(f"the game ended {RESULTS[outcome]}, but the record says {record.result_text}")
    elif record.result is not None and not record.ending:
        raise RecordError(
            f"the record says {record.result_text}, but the game is not over after its last move"
        )
    return states


def draw(record: GameRecord, ply: int | None = None, *, theme: str = "light", scale: float = 1.0) -> Svg:
    """The board after `ply` moves (default all), with the numbers of the moves on what they put there."""
    states = replay(record)
    ply = len(record.moves) if ply is None else ply
    if not 0 <= ply <= len(record.moves):
        raise RecordError(f"the game has moves 0 to {len(record.moves)}, not {ply}")
    moves = record.moves[:ply]
    last, marks = moves[-1] if moves else None, move_marks(record.game, moves)
    return record.game.draw(states[ply], last_action=last, marks=marks, theme=theme, scale=scale)


def write_records(path: str | os.PathLike, records: Iterable[GameRecord], *, append: bool = False) -> None:
    """Writes games to a file, as SGF if its name ends in `.sgf`."""
    to_text = to_sgf if _is_sgf(path) else to_plain
    text = "".join(to_text(record) + "\n" for record in records)
    (atomic.append if append else atomic.write_text)(path, text)


def check_path(path: str | os.PathLike, game: Game, *others: str | os.PathLike | None) -> None:
    """Raises unless games of this kind can be written to a file; to be asked before they are played.

    Args:
      path: the file.
      game: what will be played.
      others: files that must not be overwritten by it; None are skipped.
    """
    if _is_sgf(path) and game.name != Hex.name:
        raise RecordError(f"SGF is for Hex alone; give {os.fspath(path)} another ending to write {game.name}")
    files.writable_path(path, *others)


def read_records(path: str | os.PathLike) -> list[GameRecord]:
    """The games of a file that `write_records` or another program has written.

    Raises:
      RecordError: names the file and what is wrong.
      FileError: the file cannot be read, or is no text.
    """
    text = files.read_text(path, "game record")
    try:
        return from_sgf(text) if _is_sgf(path) else from_plain(text)
    except ValueError as error:
        raise RecordError(f"{os.fspath(path)}: {error}") from error


def to_sgf(record: GameRecord) -> str:
    """A game of Hex in SGF (FF[4], GM[11]), on one line."""
    game = record.game
    if game.name != Hex.name:
        raise RecordError(f"SGF is for Hex alone; write {game.name} in the plain notation")
    version = importlib.metadata.version("azjax")
    root = [("AP", f"azjax:{version}"), ("FF", "4"), ("GM", "11"), ("SZ", str(game.size))]
    root += [("PB", record.players[0]), ("PW", record.players[1])] if any(record.players) else []
    if record.result is not None:
        why = {"resignation": "R", "forfeit": "F"}.get(record.ending, "")
        root.append(("RE", f"{'B' if record.result > 0 else 'W'}+{why}"))
    if game.swap:
        root.append(("RU", "swap"))
    if record.opening_plies:
        root.append(("C", f"opening {record.opening_plies}"))
    text = "(;" + "".join(f"{name}[{_escaped(value)}]" for name, value in root)
    player = 0
    if record.start is not None:
        setup, player = _setup(game, record.start)
        text += setup
    mirrored = 0  # 1 after a swap
    for action in record.moves:
        text += f";{'BW'[player ^ mirrored]}[{game.action_to_text(game.action_frames[mirrored][action])}]"
        player = 1 - player
        mirrored = mirrored or int(action == game.size**2)
    return text + ")"


def from_sgf(text: str) -> list[GameRecord]:
    """The games of Hex in an SGF text; of variations only the main line is read.

    Raises:
      RecordError: says what is wrong.
    """
    return [_sgf_game(nodes) for nodes in _sgf_trees(text)]


def to_plain(record: GameRecord) -> str:
    """A game in the plain notation; ends with a newline, so that games stand apart."""
    options = positions.game_options(record.game)
    words = [record.game.name, *(f"{name}={value}" for name, value in options.items())]
    tags = [("Game", " ".join(words)), ("First", record.players[0]), ("Second", record.players[1])]
    tags += [("Start", record.start)] if record.start is not None else []
    tags += [("Opening", str(record.opening_plies))] if record.opening_plies else []
    tags += [("Result", record.result_text)]
    tags += [("Ending", record.ending)] if record.ending else []
    lines = [f'[{name} "{_quoted(value)}"]' for name, value in tags]
    for ply, action in enumerate(record.moves, start=1):
        move = f"{ply}. {record.game.action_to_text(action)}"
        if lines[-1].startswith("[") or len(lines[-1]) + len(move) >= 100:
            lines.append(move)
        else:
            lines[-1] += " " + move
    return "\n".join(lines) + "\n"


def from_plain(text: str) -> list[GameRecord]:
    """The games of a text in the plain notation.

    Raises:
      RecordError: names the game's first line and what is wrong.
    """
    games: list[tuple[int, dict[str, str], list[str]]] = []  # line, tags, moves
    for number, line in enumerate(text.splitlines(), start=1):
        tag = re.fullmatch(r'\s*\[(\w+)\s+"((?:[^"\\]|\\.)*)"\]\s*', line)
        if tag and tag[1] == "Game":
            games.append((number, {}, []))
        elif line.strip() and not games:
            raise RecordError(f'line {number}: a game begins with a tag such as [Game "hex size=6"]')
        if tag:
            games[-1][1][tag[1]] = re.sub(r"\\(.)", r"\1", tag[2])
        elif line.strip():
            games[-1][2].extend(re.sub(r"\b\d+\.(?=\s|$)", " ", line).split())
    records = []
    for number, tags, moves in games:
        try:
            records.append(_plain_game(tags, moves))
        except ValueError as error:
            raise RecordError(f"the game that begins in line {number}: {error}") from error
    return records


@functools.cache
def _step(game: Game):
    return jax.jit(game.step)


def _is_sgf(path: str | os.PathLike) -> bool:
    return os.fspath(path).lower().endswith(".sgf")


def _escaped(value: str) -> str:
    return re.sub(r"([\]\\])", r"\\\1", value)


def _quoted(value: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", value.replace("\n", " "))


def _setup(game: Hex, start: str) -> tuple[str, int]:
    """The stones of a position as SGF properties, and who is to move."""
    x = game.from_notation(start)
    board, player = np.asarray(x.board), int(x.current_player)
    text = ""
    for name, stones in (("AB", board > 0), ("AW", board < 0)):
        if stones.any():
            text += name + "".join(f"[{game.action_to_text(cell)}]" for cell in np.flatnonzero(stones))
    return f"{text}PL[{'BW'[player]}]", player


Node = dict[str, list[str]]


def _sgf_trees(text: str) -> list[list[Node]]:
    """The main lines of all game trees, each a list of nodes (property -> values)."""
    token = re.compile(r"\s*(?:([();])|([A-Za-z]+)\s*((?:\[(?:[^\]\\]|\\.)*\]\s*)+))", re.DOTALL)
    trees, place, depth, reading, name_end = [], 0, 0, True, len(text.rstrip())
    while place < name_end:
        match = token.match(text, place)
        if match is None:
            around = text[place : place + 20].strip()
            raise RecordError(f"this is no SGF from {around!r} on: expected '(', ')', ';' or a property")
        place = match.end()
        if match[1] == "(":
            if depth == 0:
                trees.append([])
                reading = True
            depth += 1
        elif match[1] == ")":
            depth -= 1
            reading = False  # what comes after the first closed line is a variation
            if depth < 0:
                raise RecordError("this is no SGF: a ')' closes nothing")
        elif depth == 0:
            raise RecordError("this is no SGF: a game begins with '('")
        elif not reading:
            continue
        elif match[1] == ";":
            trees[-1].append({})
        elif not trees[-1]:
            raise RecordError("this is no SGF: a property stands before the first ';'")
        else:
            values = re.findall(r"\[((?:[^\]\\]|\\.)*)\]", match[3], re.DOTALL)
            unescaped = [re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) for value in values]
            trees[-1][-1].setdefault(match[2].upper(), []).extend(unescaped)
    if depth:
        raise RecordError("this is no SGF: its end is missing, a '(' is not closed")
    return trees


def _sgf_game(nodes: list[Node]) -> GameRecord:
    root = nodes[0] if nodes else {}

    def value(name: str, default: str) -> str:
        return root.get(name, [default])[0].strip()

    if value("GM", "11") != "11":
        raise RecordError(f"GM[{value('GM', '')}] is another game; Hex is GM[11]")
    size = re.fullmatch(r"(\d+)(?::\1)?", value("SZ", "11"))
    if size is None:
        raise RecordError(
            f"SZ[{value('SZ', '')}] is no size of a Hex board: expected a number such as SZ[11]"
        )
    played = [(name, text) for node in nodes for name in ("B", "W") for text in node.get(name, ())]
    swaps = any(text.strip().lower() in ("swap", SWAP_TEXT) for _, text in played)
    game = Hex(size=int(size[1]), swap=swaps or "swap" in value("RU", "").lower())
    start, player = _sgf_start(game, nodes)
    moves, ending, mirrored, swap = [], "", 0, game.size**2
    for name, text in played:
        word = text.strip().lower()
        if word == "resign":
            ending = "resignation"
            break
        if moves[-1:] == [swap]:
            # Whose turn it is tells what the swap was: HexGui's players change sides, elsewhere the stone does.
            mirrored = int(name == "W")
        if name != "BW"[player ^ mirrored]:
            raise RecordError(
                f"{name}[{text}] comes out of turn: {('Black', 'White')[player ^ mirrored]} is to move"
            )
        action = game.text_to_action(SWAP_TEXT if word == "swap" else text)
        moves.append(int(game.action_frames[mirrored][action]))
        player = 1 - player
    result = re.match(r"([BW])\+(\w*)", value("RE", ""), re.IGNORECASE)
    if result:
        ending = {"r": "resignation", "f": "forfeit"}.get(result[2][:1].lower(), ending)
    outcome = (1 if result[1].upper() == "B" else -1) if result else None
    if outcome is None and ending:
        outcome = -1 if player == 0 else 1
    opening = re.search(r"opening (\d+)", value("C", ""))
    return GameRecord(
        game,
        tuple(moves),
        (value("PB", ""), value("PW", "")),
        outcome,
        ending,
        start,
        int(opening[1]) if opening else 0,
    )


def _sgf_start(game: Hex, nodes: list[Node]) -> tuple[str | None, int]:
    """The position that AB, AW and PL set up before the first move, and who is to move in it."""
    stones: dict[int, str] = {}
    player = None
    for node in nodes:
        for name, stone in (("AB", "b"), ("AW", "w")):
            stones |= {game.text_to_action(cell): stone for cell in node.get(name, ())}
        if "PL" in node:
            player = 0 if node["PL"][0].strip().upper().startswith("B") else 1
        if "B" in node or "W" in node:
            if player is None and stones:
                player = 0 if "B" in node else 1
            break
    if not stones and player in (None, 0):
        return None, 0
    if player is None:
        player = sum(1 if stone == "b" else -1 for stone in stones.values()) > 0
    rows = [
        "".join(stones.get(row * game.size + c, ".") for c in range(game.size)) for row in range(game.size)
    ]
    notation = "/".join(re.sub(r"\.+", lambda run: str(len(run[0])), row) for row in rows)
    notation = f"{notation} {'bw'[player]}"
    game.from_notation(notation)
    return notation, int(player)


def _plain_game(tags: dict[str, str], moves: list[str]) -> GameRecord:
    result = tags.get("Result", RESULTS[None])
    if result not in RESULTS.values():
        raise RecordError(f"{result!r} is no result: expected one of {', '.join(RESULTS.values())}")
    opening = tags.get("Opening", "0")
    if not opening.isdecimal():
        raise RecordError(f"{opening!r} is no number of opening moves")
    name, *options = tags["Game"].split() or [""]
    fields: dict[str, Any] = {"game": name}
    for option in options:
        key, _, value = option.partition("=")
        fields[key] = {"True": True, "False": False, "None": None}.get(value, value)
        if re.fullmatch(r"-?\d+", value):
            fields[key] = int(value)
    game = positions.game_of(fields)
    outcome = next(value for value, text in RESULTS.items() if text == result)
    return GameRecord(
        game,
        tuple(game.text_to_action(move) for move in moves),
        (tags.get("First", ""), tags.get("Second", "")),
        outcome,
        tags.get("Ending", ""),
        tags.get("Start"),
        int(opening),
    )
