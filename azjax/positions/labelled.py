"""Positions with what is known about them, values or moves or both: the data of supervised learning.

A file (.npz, not compressed) holds the arrays of the game's state, `state.FIELD` [positions, ...], and `value`,
`policy` or both; and `about`, which says in JSON what the game is. A position file whose lines have "value" or
"optimal" serves as well.
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from azjax.common import atomic, files
from azjax.envs.core import Game, GameState, PositionError, seen_as, without_past
from azjax.positions import sets
from azjax.positions.files import action_of, describe_game, moves_of, read_positions, stack

KIND = "azjax labelled positions"


class Labelled(NamedTuple):
    """Positions and what is to be learned about them; what nothing is known about is None."""

    states: GameState  # [positions, ...] of the game without a past, see `azjax.envs.core.without_past`
    value: np.ndarray | None = None  # [positions] float32 in -1..1, for the player to move
    policy: np.ndarray | None = (
        None  # [positions, actions] the good moves (bool), or how good each is (float)
    )

    @property
    def size(self) -> int:
        """How many positions there are."""
        return sets.size_of(self.states)


Label = Callable[[GameState], Labelled]
"""(positions [n, ...]) -> those of them that something is known about, and what."""


def rows(labelled: Labelled, which: np.ndarray | slice) -> Labelled:
    """Some of them, by number or by mask."""
    value, policy = (None if column is None else column[which] for column in labelled[1:])
    return Labelled(sets.rows(labelled.states, which), value, policy)


def concatenate(batches: Sequence[Labelled]) -> Labelled:
    """Batches behind each other, all with values or none, and likewise with policies."""

    def column(name: str) -> np.ndarray | None:
        parts = [getattr(batch, name) for batch in batches]
        return None if parts[0] is None else np.concatenate(parts)

    return Labelled(sets.concatenate([batch.states for batch in batches]), column("value"), column("policy"))


def is_held_out(game: Game, states: GameState, share: float) -> np.ndarray:
    """[positions] bool: which are kept for judging and never learned from, about this share of them.

    A position is always among them or never, whatever batch it comes in, and so are its symmetric views.
    """
    digests = (hashlib.blake2b(view, digest_size=4).digest() for view in sets.views_of(game, states).tolist())
    numbers = np.frombuffer(b"".join(digests), "<u4")
    return numbers < share * 2**32


def write(
    path: str | os.PathLike, game: Game, labelled: Labelled, made: Mapping[str, Any] | None = None
) -> None:
    """Writes a file, whole or not at all; positions lose their past.

    Args:
      path: the file.
      game: the rules.
      labelled: what is written.
      made: how it came about, as plain data, for whoever opens the file.
    """
    states = forget(labelled.states)
    arrays = {_name(key): leaf for key, leaf in jax.tree_util.tree_leaves_with_path(states)}
    arrays |= {name: getattr(labelled, name) for name in ("value", "policy")}
    arrays = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    about = {"kind": KIND, "game": _rules(game)} | ({} if made is None else {"made": dict(made)})
    with atomic.writing(path, "wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read(path: str | os.PathLike, game: Game) -> Labelled:
    """Reads a file of labelled positions, or a position file whose lines have "value" or "optimal".

    Raises:
      PositionError: it is damaged or about another game, or nothing is known in it.
    """
    if pathlib.Path(path).suffix == ".npz":
        return _read_arrays(path, game)
    return _read_lines(path, game)


def forget(states: GameState) -> GameState:
    """The positions without their past, of games that keep one in a field `history`."""
    return states._replace(history=None) if hasattr(states, "history") else states


def _read_arrays(path: str | os.PathLike, game: Game) -> Labelled:
    name = os.fspath(path)
    try:
        arrays = files.read_arrays(path, "file of labelled positions")
        about = files.parse_object(str(arrays.pop("about")))
    except (files.FileError, KeyError) as error:
        raise PositionError(f"{name} is damaged or no file of labelled positions ({error})") from error
    about.pop("made", None)
    if about != {"kind": KIND, "game": _rules(game)}:
        raise PositionError(f"{name} is about {about.get('game')}, not {_rules(game)}; name another file")
    like = forget(jax.eval_shape(without_past(game).init, jax.random.key(0)))
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    number = len(next(iter(arrays.values()), ()))
    expected = {_name(key): ((number, *leaf.shape), (leaf.dtype,)) for key, leaf in leaves}
    expected["value"] = (number,), (np.float32,)
    expected["policy"] = (number, game.num_actions), (np.float32, np.bool_)
    missing = expected.keys() - arrays.keys() - {"value", "policy"}
    wrong = [key for key, array in arrays.items() if not _is_as(array, *expected.get(key, ((), ())))]
    if missing or wrong or not number:
        listed = ", ".join(sorted(missing | set(wrong))) or "no positions"
        raise PositionError(f"{name} does not hold what its header describes: {listed}")
    states = jax.tree.unflatten(structure, [arrays[_name(key)] for key, _ in leaves])
    return _checked(name, Labelled(states, arrays.get("value"), arrays.get("policy")))


def _read_lines(path: str | os.PathLike, game: Game) -> Labelled:
    lines = read_positions(path, without_past(game))
    foreign = next((line.game for line in lines if _rules(line.game) != _rules(game)), None)
    if foreign is not None:
        raise PositionError(f"{os.fspath(path)} has positions of {foreign}, not {game}")
    known = {name for name in ("value", "optimal") if all(name in line.fields for line in lines)}
    value = policy = None
    if "value" in known:
        value = np.array([_number(line.fields["value"]) for line in lines], np.float32)
    if "optimal" in known:
        policy = np.zeros((len(lines), game.num_actions), bool)
        for row, line in enumerate(lines):
            moves = moves_of(line.fields, "optimal")
            policy[row, [action_of(line.game, line.state, move) for move in moves]] = True
    return _checked(os.fspath(path), Labelled(stack(line.state for line in lines), value, policy))


def _checked(name: str, labelled: Labelled) -> Labelled:
    if labelled.value is None and labelled.policy is None:
        raise PositionError(f"{name} has neither values nor policies of all its positions: nothing to learn")
    if labelled.value is not None and not np.all(np.abs(labelled.value) <= 1):
        raise PositionError(f"{name} has values that are no numbers from -1 to 1")
    if labelled.policy is not None and not np.all((labelled.policy >= 0) & np.isfinite(labelled.policy)):
        raise PositionError(f"{name} has policies with numbers below 0, or none at all")
    return labelled


def _rules(game: Game) -> dict:
    """What the positions and their values depend on, as JSON has it; what networks see does not count."""
    return json.loads(json.dumps(describe_game(seen_as(without_past(game)))))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _name(key: tuple) -> str:
    return f"state{jax.tree_util.keystr(key)}"


def _is_as(array: np.ndarray, shape: tuple[int, ...], kinds: tuple) -> bool:
    return array.shape == shape and array.dtype in [np.dtype(kind) for kind in kinds]
