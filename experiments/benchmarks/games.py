"""How fast are the games? Random play and playouts against pgx and OpenSpiel, interleaved in one run.

    python -m experiments.benchmarks.games            # a few minutes; keeps its table
    python -m experiments.benchmarks.games --quick    # a smoke test; keeps nothing

Rates are per CPU-second of one core. Random play is 1024 games side by side with auto-reset; pgx plays
with its own sampler and wrapper (and once more with our sampler, to tell the two apart). OpenSpiel's C++
games are driven from Python, one move at a time, as its users drive them.
"""

import dataclasses
import functools
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pgx
import pgx.hex
import pyspiel
import tyro
from pgx._src.games.hex import GameState as PgxHexState
from pgx.experimental import act_randomly, auto_reset

from azjax.envs import ChineseCheckers, DotsAndBoxes, Game, Hex
from azjax.envs.core import random_action, random_playout, renew
from experiments.benchmarks.timing import compile_seconds, cpu_seconds, report


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    batch: int = 1024
    plies: int = 200
    rounds: int = 7
    playouts: int = 4096  # side by side


class PgxHexOfSize(pgx.hex.Hex):
    """pgx's Hex on another board than 11x11, which it accepts as an argument but does not start with."""

    def _init(self, key):
        return (
            super()
            ._init(key)
            .replace(
                observation=jnp.zeros((self.size, self.size, 4), bool),
                legal_action_mask=jnp.ones(self.size**2 + 1, bool).at[-1].set(False),
                _x=PgxHexState(board=jnp.zeros(self.size**2, jnp.int32)),
            )
        )


def azjax_random_play(game: Game, batch: int, plies: int) -> Callable[[], jax.Array]:
    """A run of `batch` games side by side for `plies` moves; counts the games that ended."""

    def ply(carry, _):
        x, key = carry
        key, action_key, new_key = jax.random.split(key, 3)
        action = random_action(action_key, jax.vmap(game.legal_action_mask)(x))
        x = jax.vmap(game.step)(x, action)
        ended = jnp.sum(jax.vmap(game.is_terminal)(x))
        return (jax.vmap(lambda x: renew(game, x, new_key))(x), key), ended

    def play(key):
        x = jax.vmap(game.init)(jax.random.split(key, batch))
        (x, _), ended = jax.lax.scan(ply, (x, key), None, plies)
        return x, jnp.sum(ended)

    return functools.partial(jax.jit(play), jax.random.key(0))


def pgx_random_play(env: pgx.Env, sampler: Callable, batch: int, plies: int) -> Callable[[], jax.Array]:
    """The same for a pgx environment, with its own auto-reset."""
    step = jax.vmap(auto_reset(env.step, env.init))

    def ply(carry, _):
        x, key = carry
        key, action_key, step_key = jax.random.split(key, 3)
        action = sampler(action_key, x.legal_action_mask)
        x = step(x, action, jax.random.split(step_key, batch))
        return (x, key), jnp.sum(x.terminated)

    def play(key):
        x = jax.vmap(env.init)(jax.random.split(key, batch))
        (x, _), ended = jax.lax.scan(ply, (x, key), None, plies)
        return x, jnp.sum(ended)

    return functools.partial(jax.jit(play), jax.random.key(0))


def openspiel_playouts(text: str, games: int) -> Callable[[], int]:
    """Random games of OpenSpiel, one after the other; returns the number of moves."""
    game, rng = pyspiel.load_game(text), random.Random(0)

    def play() -> int:
        moves = 0
        for _ in range(games):
            state = game.new_initial_state()
            while not state.is_terminal():
                state.apply_action(rng.choice(state.legal_actions()))
                moves += 1
        return moves

    return play


def azjax_playouts(game: Game, batch: int) -> Callable[[], jax.Array]:
    """Random games to the end from the starting position, `batch` at once."""
    x = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    return functools.partial(jax.jit(functools.partial(random_playout, game)), x, jax.random.key(1))


def random_play_rows(config: Config) -> list[dict]:
    """A row per board: steps per CPU-second, and the ratios to the peers."""
    boards = [
        ("hex 11x11", Hex(size=11), pgx.make("hex"), "hex(board_size=11)"),
        ("hex 5x5", Hex(size=5), PgxHexOfSize(size=5), "hex(board_size=5)"),
        ("hex 6x6", Hex(size=6), None, "hex(board_size=6)"),
        ("dots and boxes 2x2", DotsAndBoxes(2, 2), None, "dots_and_boxes(num_rows=2,num_cols=2)"),
        ("dots and boxes 3x3", DotsAndBoxes(3, 3), None, "dots_and_boxes(num_rows=3,num_cols=3)"),
        ("dots and boxes 5x5", DotsAndBoxes(5, 5), None, "dots_and_boxes(num_rows=5,num_cols=5)"),
        ("chinese checkers 4x4/3", ChineseCheckers(4, 3), None, None),
        ("chinese checkers 5x5/6", ChineseCheckers(5, 6), None, None),
    ]
    rows = []
    for name, game, env, openspiel in boards:
        runs = {"azjax": azjax_random_play(game, config.batch, config.plies)}
        if env is not None:
            runs["pgx"] = pgx_random_play(env, act_randomly, config.batch, config.plies)
            runs["pgx, our sampler"] = pgx_random_play(env, random_action, config.batch, config.plies)
        games, moves = (5 if config.quick else 100), 0
        if openspiel is not None:
            runs["openspiel"] = openspiel_playouts(openspiel, games)
            moves = openspiel_playouts(openspiel, games)()
        seconds = cpu_seconds(runs, config.rounds)
        steps = config.batch * config.plies
        rate = {k: (moves if k == "openspiel" else steps) / s for k, s in seconds.items()}
        x = jax.eval_shape(game.init, jax.random.key(0))
        batch_of_x = jax.eval_shape(jax.vmap(game.init), jax.random.split(jax.random.key(0), config.batch))
        actions = jax.ShapeDtypeStruct((config.batch,), jnp.int32)
        rows.append(
            {
                "board": name,
                "azjax steps/s": rate["azjax"],
                "pgx steps/s": rate.get("pgx", "-"),
                "openspiel steps/s": rate.get("openspiel", "-"),
                "times pgx": rate["azjax"] / rate["pgx"] if env is not None else "-",
                "times pgx, our sampler": rate["azjax"] / rate["pgx, our sampler"]
                if env is not None
                else "-",
                "times openspiel": rate["azjax"] / rate["openspiel"] if openspiel else "-",
                "bytes a state": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(x)),
                "compile s": compile_seconds(jax.vmap(game.step), batch_of_x, actions)[0],
            }
        )
    return rows


def playout_rows(config: Config) -> list[dict]:
    """A row per board: playouts to the end per CPU-second."""
    boards = [
        ("hex 6x6", Hex(size=6), "hex(board_size=6)"),
        ("hex 8x8", Hex(size=8), "hex(board_size=8)"),
        ("hex 11x11", Hex(size=11), "hex(board_size=11)"),
        ("dots and boxes 5x5", DotsAndBoxes(5, 5), "dots_and_boxes(num_rows=5,num_cols=5)"),
        ("chinese checkers 4x4/3", ChineseCheckers(4, 3), None),
    ]
    rows = []
    for name, game, openspiel in boards:
        games = 5 if config.quick else 200
        runs = {"azjax": azjax_playouts(game, config.playouts)}
        if openspiel is not None:
            runs["openspiel"] = openspiel_playouts(openspiel, games)
        seconds = cpu_seconds(runs, config.rounds)
        ours = config.playouts / seconds["azjax"]
        theirs = games / seconds["openspiel"] if openspiel else None
        rows.append(
            {
                "board": name,
                "azjax playouts/s": ours,
                "openspiel playouts/s": theirs or "-",
                "times openspiel": ours / theirs if theirs else "-",
            }
        )
    return rows


def main(config: Config) -> None:
    """Measures everything and prints two tables."""
    if config.quick:
        config = dataclasses.replace(config, batch=16, plies=8, rounds=1, playouts=16)
    report("games_random_play", "Random play", random_play_rows(config), keep=not config.quick)
    report("games_playouts", "Random playouts", playout_rows(config), keep=not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
