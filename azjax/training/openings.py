"""Forced openings: where self-play games start (Daliri 2022).

A1, A2 and A3 are all sequences of one, two or three legal moves, A123 all of them together; each game draws
one uniformly. R8 are random positions after at most eight moves: games from them visit what strong players avoid,
so that the network learns to punish mistakes too. U are positions drawn uniformly from all there are. A position file
or an openings database gives any other set, such as winning openings only. Some of the games may start as usual. Only
positions that have been searched are learned from: forced moves leave no training data.

The random kinds are the same in every run, whatever its seed: a run that is continued opens as before, runs that
differ in their seed alone can be compared, and all of them can be judged by the same positions. Nobody is judged by
what it opened games with; see `azjax.evaluation.opened`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from azjax.common import texts
from azjax.common.keys import root
from azjax.common.remembered import remembered
from azjax.envs.core import Game, GameError, GameState, random_action
from azjax.positions import openings_database, read_positions, stack
from azjax.positions import sets as position_sets
from azjax.positions.drawn import random_positions
from azjax.training.selfplay import Openings, standard_opening

LENGTHS = {"none": (0,), "A1": (1,), "A2": (2,), "A3": (3,), "A123": (1, 2, 3)}
KINDS = (
    f"one of {', '.join(LENGTHS)}, U, R and a number of random moves, a position file, NAME.jsonl,"
    " or an openings database, NAME.db"
)
MOST_ROWS = 2_000_000
_FORMS = {name: texts.PlainForm() for name in (*LENGTHS, "U")} | {
    "R": texts.PlainForm(argument="N"),
    "file": texts.PlainForm(argument="NAME.jsonl", separator="?"),  # whose name may hold question marks
}
_ENDINGS = (".jsonl", ".db")


def make_openings(game: Game, kind: str = "none", share: float = 1.0) -> Openings:
    """The openings of a kind of agent in Daliri 2022, or the starting position.

    Args:
      game: the rules.
      kind: one of `KINDS`.
      share: of the games that begin with one of these openings, above 0; the others begin as usual. The weight of the
        usual start is a whole number, so that few openings meet it roughly.
    """
    if not is_kind(kind):
        raise GameError(f"openings must be {KINDS}, got {kind!r}")
    openings = _openings_of_kind(game, kind)
    if share == 1:
        return openings
    start = standard_opening(game)
    states = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), start.states, openings.states)
    count = openings.plies.shape[0]
    return Openings(
        states, jnp.concatenate([start.plies, openings.plies]), round(count * (1 - share) / share)
    )


def _openings_of_kind(game: Game, kind: str) -> Openings:
    name, argument, _ = parse_kind(kind)
    if name == "file":
        return openings_of_file(game, argument)
    if name == "R":
        most = int(argument)
        if most > game.max_plies:
            raise GameError(
                f"a game of {game.name} has at most {game.max_plies} moves, openings {kind} ask for more"
            )
        return random_openings(game, most)
    if name == "U":
        return uniform_openings(game)
    parts = [opening_positions(game, length) for length in LENGTHS[name]]
    states = jax.tree.map(lambda *columns: jnp.concatenate(columns), *(part.states for part in parts))
    return Openings(states, jnp.concatenate([part.plies for part in parts]))


def parse_kind(kind: str) -> texts.Text:
    """A kind in its parts: `R8` is short for `R:8`, and `NAME.jsonl` for `file:NAME.jsonl`, `NAME.db` likewise.

    Raises:
      TextError: it is none of `KINDS`; the file it may name need not exist.
    """
    if kind.endswith(_ENDINGS) and not kind.startswith("file:"):
        kind = f"file:{kind}"
    elif kind[:1] == "R" and kind[1:].isdecimal():
        kind = f"R:{kind[1:]}"
    text = texts.parse(kind, _FORMS, "openings")
    if text.name == "R":
        if len(text.argument) > 8 or not text.argument.isdecimal() or int(text.argument) == 0:
            raise texts.TextError(f"the number of random moves must be from 1, got {text.argument!r}")
    elif text.name == "file" and not text.argument.endswith(_ENDINGS):
        raise texts.TextError(
            f"a position file is called NAME.jsonl, an openings database NAME.db, got {text.argument!r}"
        )
    return text


def is_kind(kind: str) -> bool:
    """Whether a text is one of `KINDS`; the file it may name need not exist."""
    try:
        parse_kind(kind)
    except texts.TextError:
        return False
    return True


def random_openings(game: Game, most: int, number: int = 2**15) -> Openings:
    """Positions after random moves, 0 to `most` of them equally often; a game that would end stays where it is."""
    return Openings(*_random_walks(game, most)(jax.random.split(root(0, "openings"), number)))


@remembered
def _random_walks(game: Game, most: int) -> Callable[[jax.Array], tuple[GameState, jax.Array]]:
    """keys [n] -> the positions [n, ...] after random moves, and how many [n] those were."""

    def walk(key: jax.Array) -> tuple[GameState, jax.Array]:
        length_key, init_key, key = jax.random.split(key, 3)
        length = jax.random.randint(length_key, (), 0, most + 1)

        def ply(carry, drawn):
            state, plies = carry
            number, key = drawn
            after = game.step(state, random_action(key, game.legal_action_mask(state)))
            moves = (number < length) & ~game.is_terminal(after)
            return (
                jax.tree.map(lambda old, new: jnp.where(moves, new, old), state, after),
                plies + moves,
            ), None

        start = (game.init(init_key), jnp.int32(0))
        drawn = (jnp.arange(most), jax.random.split(key, most))
        return jax.lax.scan(ply, start, drawn)[0]

    return jax.jit(jax.vmap(walk))


def uniform_openings(game: Game, number: int = 2**17) -> Openings:
    """Positions drawn from all there are, see `random_positions`; nobody knows how many moves led there."""
    drawn = random_positions(game, root(0, "openings"), number)
    return Openings(jax.tree.map(jnp.asarray, drawn), jnp.zeros(position_sets.size_of(drawn), jnp.int32))


def openings_of_file(game: Game, path: str) -> Openings:
    """The positions of a file, all of this game and unfinished; or the openings of a database that go on.

    Args:
      game: the rules.
      path: a position file, see `azjax.positions`, or NAME.db, see `azjax.positions.openings_database`.
    """
    if path.endswith(".db"):
        openings = openings_database.unfinished(game, openings_database.read(path, game))
        if not openings:
            raise GameError(f"{path} has no opening after which the game goes on")
        states = jax.tree.map(jnp.asarray, openings_database.after_moves(game, openings))
        return Openings(states, jnp.asarray([len(moves) for moves in openings], jnp.int32))
    lines = read_positions(path, game)
    for number, line in enumerate(lines, start=1):
        if line.game != game:
            raise GameError(f"position {number} of {path} is of {line.game}, but the run is of {game}")
        if bool(game.is_terminal(line.state)):
            raise GameError(
                f"position {number} of {path} is the end of a game; nothing can be played from it"
            )
    plies = [len(line.fields.get("moves", ())) for line in lines]
    return Openings(stack(line.state for line in lines), jnp.asarray(plies, jnp.int32))


def opening_positions(game: Game, length: int) -> Openings:
    """All ordered sequences of `length` legal moves, as positions; finished games are left out."""
    states = jax.device_get(standard_opening(game).states)
    for _ in range(length):
        legal = position_sets.legal_moves(game, states)
        count = int(legal.sum())
        if count > MOST_ROWS:
            raise GameError(f"{count:,} openings of {length} moves are too many; {MOST_ROWS:,} is the limit")
        states = position_sets.successors(game, states, legal).states
    states = position_sets.rows(states, ~position_sets.is_over(game, states))
    plies = np.full(position_sets.size_of(states), length, np.int32)
    return Openings(jax.tree.map(jnp.asarray, states), jnp.asarray(plies))
