"""Openings databases (Daliri 2022): all legal or all winning openings of one, two and three moves.

`write` keeps them in SQLite as the thesis does, `write_position_file` as a position file; self-play starts from either
(see `azjax.training.openings`).

The thesis draws a row for every training game and plays its moves before the agents take over. Its table is

    positions(id INTEGER PRIMARY KEY, move TEXT NOT NULL, player INTEGER NOT NULL,
              first_move INTEGER REFERENCES positions, second_move INTEGER REFERENCES positions)

with one row per position. `move` is the last move. `player` is who is to move after it. `first_move` is the row of the
position after the first move, `second_move` that after the second one, both empty in a row of one move, the second
in a row of two. (The thesis leaves open which of the two is which.)

Rows count sequences of moves, not positions: on 6x6, 42,840 of three moves lead to 21,420 positions.

A winning opening is one whose last move wins for who makes it, whatever came before. For after a winning first move
no reply wins, so that winning moves alone would make no opening longer than one. The thesis prints 9, 58 and 474
winning openings for 6x6, probably because its solver lists only some winning moves; there are 24, 72 and 18,560.
A winning opening needs rows for the positions before it, which are not openings themselves: a second table,
openings(position INTEGER PRIMARY KEY REFERENCES positions), then lists those that are. Without it, all are.
"""

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from azjax import positions
from azjax.common import atomic
from azjax.envs.core import Game, GameError
from azjax.positions import sets as position_sets

LONGEST = 3
MOST_ROWS = 2_000_000  # as many as self-play opens with
_POSITIONS = """CREATE TABLE positions (
    id INTEGER PRIMARY KEY,
    move TEXT NOT NULL,
    player INTEGER NOT NULL,
    first_move INTEGER REFERENCES positions,
    second_move INTEGER REFERENCES positions
)"""
_OPENINGS = "CREATE TABLE openings (position INTEGER PRIMARY KEY REFERENCES positions)"

Moves = tuple[int, ...]


def legal_openings(game: Game, lengths: Iterable[int] = (1, 2, 3)) -> list[Moves]:
    """All sequences of legal moves of these lengths, shorter ones first."""
    lengths = _checked(lengths)
    openings, layer = [], [()]
    states = position_sets.start_of(game)
    for length in range(1, max(lengths) + 1):
        legal = position_sets.legal_moves(game, states)
        count = int(legal.sum())
        if count > MOST_ROWS:
            raise GameError(f"{count:,} openings of {length} moves are too many; {MOST_ROWS:,} is the limit")
        after = position_sets.successors(game, states, legal)
        layer = [(*layer[parent], action) for parent, action in zip(after.parent, after.action.tolist())]
        states = after.states
        openings += layer if length in lengths else []
    return openings


def winning_openings(
    game: Game,
    solver: Any,
    lengths: Iterable[int] = (1, 2, 3),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Moves]:
    """All sequences of legal moves whose last one wins.

    Args:
      game: the rules.
      solver: of this game, see `azjax.solvers`.
      lengths: of the sequences.
      progress: called with the positions solved and the positions in all.
    """
    lengths = _checked(lengths)
    before = [()] if 1 in lengths else []
    before += (
        legal_openings(game, [length - 1 for length in lengths if length > 1]) if max(lengths) > 1 else []
    )
    states = after_moves(game, before)
    first = position_sets.first_of_each(states)
    winning = {}
    for done in range(0, len(first), 16):
        progress(done, len(first))
        part = position_sets.rows(states, first[done : done + 16])
        solution = solver.solve(part)
        if not solution.proven.all():
            raise ValueError("the solver gave up a position; allow it more time, or make shorter openings")
        wins = solution.optimal & (solution.value > 0)[:, None]
        winning |= zip(position_sets.keys_of(part).tolist(), wins)
    return [
        (*moves, int(action))
        for moves, key in zip(before, position_sets.keys_of(states).tolist())
        for action in np.flatnonzero(winning[key])
    ]


def after_moves(game: Game, sequences: Sequence[Moves]) -> position_sets.GameState:
    """The positions [sequences, ...] after sequences of moves."""
    states = position_sets.start_of(game)
    states = jax.tree.map(lambda leaf: np.repeat(leaf, len(sequences), axis=0), states)
    for ply in range(max(map(len, sequences), default=0)):
        going = np.array([len(moves) > ply for moves in sequences])
        action = np.array([moves[ply] if len(moves) > ply else 0 for moves in sequences], np.int32)
        after = position_sets.step(game, states, action)
        states = jax.tree.map(
            lambda new, old, going=going: np.where(going.reshape(-1, *(1,) * (new.ndim - 1)), new, old),
            after,
            states,
        )
    return states


def write(path: str | os.PathLike, game: Game, openings: Sequence[Moves]) -> None:
    """Writes a database, whole or not at all; an existing file is replaced."""
    if not openings or not all(1 <= len(moves) <= LONGEST for moves in openings):
        raise GameError(f"a database holds openings of 1 to {LONGEST} moves, and at least one")
    sequences = sorted(
        {moves[:end] for moves in openings for end in range(1, len(moves) + 1)}, key=_by_length
    )
    identity = {moves: number for number, moves in enumerate(sequences, start=1)}
    players = np.asarray(after_moves(game, sequences).current_player).tolist()
    rows = [
        (
            identity[moves],
            game.action_to_text(moves[-1]),
            player,
            identity[moves[:1]] if len(moves) > 1 else None,
            identity[moves[:2]] if len(moves) > 2 else None,
        )
        for moves, player in zip(sequences, players)
    ]
    with (
        _refusals_of_the_disk(path),
        atomic.replacing(path) as partial,
        contextlib.closing(sqlite3.connect(partial)) as database,
        database,
    ):
        database.execute(_POSITIONS)
        database.executemany("INSERT INTO positions VALUES (?, ?, ?, ?, ?)", rows)
        if len(rows) != len(set(openings)):
            database.execute(_OPENINGS)
            chosen = sorted(identity[moves] for moves in set(openings))
            database.executemany("INSERT INTO openings VALUES (?)", [(number,) for number in chosen])


def read(path: str | os.PathLike, game: Game) -> list[Moves]:
    """The openings of a database, in the order of their rows; raises GameError if they do not fit the game."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise GameError(f"there is no openings database at {path}")
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            query = "SELECT id, move, player, first_move, second_move FROM positions ORDER BY id"
            rows = {row[0]: row[1:] for row in database.execute(query)}
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            has_list = ("openings",) in database.execute(query).fetchall()
            query = "SELECT position FROM openings ORDER BY position"
            chosen = [row[0] for row in database.execute(query)] if has_list else list(rows)
            _check_columns(rows)
    except (sqlite3.Error, GameError) as error:
        raise GameError(f"{os.fspath(path)} is no openings database: {error}") from error
    if not chosen:
        raise GameError(f"{os.fspath(path)} holds no opening")
    try:
        openings = [_moves_of(game, rows, number) for number in chosen]
    except KeyError as error:
        raise GameError(f"{os.fspath(path)} refers to row {error}, which is not there") from error
    except GameError as error:
        raise GameError(f"{os.fspath(path)}: {error}") from error
    _check_moves(path, game, openings, [rows[number][1] for number in chosen])
    return openings


def unfinished(game: Game, openings: Sequence[Moves]) -> list[Moves]:
    """Those after which there is something left to play."""
    over = position_sets.is_over(game, after_moves(game, openings))
    return [moves for moves, is_over in zip(openings, over) if not is_over]


def write_position_file(path: str | os.PathLike, game: Game, openings: Sequence[Moves]) -> None:
    """Writes a position file to start self-play from, a line per opening; see `azjax.positions`."""
    if not openings:
        raise GameError("there is no opening to write after which the game goes on; choose other lengths")
    about = positions.describe_game(game)
    lines = (about | {"moves": [game.action_to_text(action) for action in moves]} for moves in openings)
    positions.write_positions(path, lines)


@contextlib.contextmanager
def _refusals_of_the_disk(path: str | os.PathLike) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:  # such as a disk that is full; no OSError
        raise GameError(f"{os.fspath(path)} cannot be written: {error}") from error


def _checked(lengths: Iterable[int]) -> list[int]:
    lengths = sorted(set(lengths))
    if not lengths or lengths[0] < 1 or lengths[-1] > LONGEST:
        raise GameError(f"openings have 1 to {LONGEST} moves, got {lengths}")
    return lengths


def _check_columns(rows: dict[Any, tuple]) -> None:
    """SQLite lets anything stand in a column, whatever its type."""
    for identity, (move, player, *parents) in rows.items():
        fits = isinstance(move, str) and isinstance(player, int)
        if not fits or not all(parent is None or isinstance(parent, int) for parent in parents):
            raise GameError(
                f"row {identity} must be a move, a player and the rows of up to two moves before it"
            )


def _by_length(moves: Moves) -> tuple:
    return len(moves), moves


def _moves_of(game: Game, rows: dict[int, tuple], number: int) -> Moves:
    _, _, first, second = rows[number]
    path = [parent for parent in (first, second) if parent is not None]
    return tuple(game.text_to_action(rows[row][0]) for row in (*path, number))


def _check_moves(path: str | os.PathLike, game: Game, openings: Sequence[Moves], players: list[int]) -> None:
    for end in range(1, LONGEST + 1):
        so_far = sorted({moves[:end] for moves in openings if len(moves) >= end})
        if so_far:
            legal = position_sets.legal_moves(game, after_moves(game, [moves[:-1] for moves in so_far]))
            for moves, mask in zip(so_far, legal):
                if not mask[moves[-1]]:
                    names = " ".join(game.action_to_text(action) for action in moves)
                    raise GameError(f"{os.fspath(path)}: the last move of {names} is not legal")
    if np.asarray(after_moves(game, openings).current_player).tolist() != players:
        raise GameError(f"{os.fspath(path)} disagrees with the rules about who is to move after an opening")
