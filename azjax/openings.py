"""Forced openings: where self-play games start (Daliri 2022).

A1, A2 and A3 are all sequences of one, two or three legal moves, A123 all of them together; each game draws
one uniformly. R8 are random positions after at most eight moves: games from them visit what strong players avoid,
so that the network learns to punish mistakes too. U are positions drawn uniformly from all there are. A position file
gives any other set, such as winning openings only. Some of the games may start as usual. Only positions that have been
searched are learned from: forced moves leave no training data.
"""

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.core import Game, GameError, GameState, random_action
from azjax.evaluation import position_sets
from azjax.evaluation.drawn_positions import random_positions
from azjax.positions import read_positions, stack
from azjax.selfplay import Openings, standard_opening

LENGTHS = {"none": (0,), "A1": (1,), "A2": (2,), "A3": (3,), "A123": (1, 2, 3)}
KINDS = f"one of {', '.join(LENGTHS)}, U, R and a number of random moves, or a position file, NAME.jsonl"
MOST_ROWS = 2_000_000


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
    if kind.endswith(".jsonl"):
        return openings_of_file(game, kind)
    if is_random(kind):
        return random_openings(game, int(kind[1:]))
    if kind == "U":
        return uniform_openings(game)
    parts = [opening_positions(game, length) for length in LENGTHS[kind]]
    states = jax.tree.map(lambda *columns: jnp.concatenate(columns), *(part.states for part in parts))
    return Openings(states, jnp.concatenate([part.plies for part in parts]))


def is_kind(kind: str) -> bool:
    """Whether a text is one of `KINDS`; the file it may name need not exist."""
    return kind in LENGTHS or kind == "U" or is_random(kind) or kind.endswith(".jsonl")


def is_random(kind: str) -> bool:
    """Whether a kind is `R` and a number of moves."""
    return kind[:1] == "R" and kind[1:].isdecimal() and int(kind[1:]) > 0


def random_openings(game: Game, most: int, number: int = 2**15, seed: int = 0) -> Openings:
    """Positions after random moves, 0 to `most` of them equally often; a game that would end stays where it is."""

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

    return Openings(*jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(seed), number)))


def uniform_openings(game: Game, number: int = 2**17, seed: int = 0) -> Openings:
    """Positions drawn from all there are, see `random_positions`; nobody knows how many moves led there."""
    drawn = random_positions(game, jax.random.key(seed), number)
    return Openings(jax.tree.map(jnp.asarray, drawn), jnp.zeros(position_sets.size_of(drawn), jnp.int32))


def openings_of_file(game: Game, path: str) -> Openings:
    """The positions of a file; see `azjax.positions`. All must be of this game, and unfinished."""
    lines = read_positions(path, game)
    if not lines:
        raise GameError(f"{path} holds no positions to open games with")
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
    legal_of, step_of = jax.jit(jax.vmap(game.legal_action_mask)), jax.jit(jax.vmap(game.step))
    states = standard_opening(game).states
    for _ in range(length):
        lane, action = np.nonzero(np.asarray(legal_of(states)))
        if len(lane) > MOST_ROWS:
            raise GameError(
                f"{len(lane):,} openings of {length} moves are too many; {MOST_ROWS:,} is the limit"
            )
        states = step_of(jax.tree.map(lambda s, lane=lane: s[lane], states), jnp.asarray(action, jnp.int32))
    over = np.asarray(jax.jit(jax.vmap(game.is_terminal))(states))
    states = jax.tree.map(lambda s: s[~over], states)
    return Openings(states, jnp.full(int((~over).sum()), length, jnp.int32))
