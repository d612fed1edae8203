"""Plays a batch of random games of each kind, says how they ended, and draws some of them.

    python -m experiments.gallery --games 4096
    python -m experiments.gallery --import my_games     # and games that a module of your own registers

Writes `runs/gallery/index.html`, a page of final boards.
"""

import dataclasses
import html
import pathlib
import sys
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

import azjax
from azjax.cli import imports
from azjax.common import atomic
from azjax.envs.core import Game, random_action


@dataclasses.dataclass(frozen=True)
class Config:
    """What to play."""

    games: int = 4096  # of each kind, side by side
    drawn: int = 6  # boards of each kind on the page
    out: pathlib.Path = pathlib.Path("runs/gallery")
    seed: int = 0


GAMES = {
    "Hex 6x6": ("hex", {"size": 6}),
    "Hex 11x11": ("hex", {"size": 11}),
    "Chinese Checkers 4x4, 3 pieces": ("chinese_checkers", {"size": 4, "pieces": 3}),
    "Chinese Checkers 5x5, 6 pieces": ("chinese_checkers", {"size": 5, "pieces": 6}),
    "Dots and Boxes 3x3": ("dots_and_boxes", {"rows": 3, "columns": 3}),
    "Dots and Boxes 4x5": ("dots_and_boxes", {"rows": 4, "columns": 5}),
}


def games_with(modules: Sequence[str]) -> dict[str, tuple[str, dict[str, int]]]:
    """The games of the page, and those that own modules register."""
    known = azjax.available_games()
    imports.run(modules)
    return GAMES | {name: (name, {}) for name in azjax.available_games() if name not in known}


def play(game: Game, key: jax.Array, games: int):
    """Random games to the end: final states, last actions [games], plies [games], rewards [games, 2]."""

    def unfinished(carry):
        x, *_ = carry
        return ~jnp.all(jax.vmap(game.is_terminal)(x))

    def ply(carry):
        x, last, plies, key = carry
        key, subkey = jax.random.split(key)
        going = ~jax.vmap(game.is_terminal)(x)
        action = random_action(subkey, jax.vmap(game.legal_action_mask)(x))
        return jax.vmap(game.step)(x, action), jnp.where(going, action, last), plies + going, key

    init_key, key = jax.random.split(key)
    x = jax.vmap(game.init)(jax.random.split(init_key, games))
    zeros = jnp.zeros(games, jnp.int32)
    x, last, plies, _ = jax.lax.while_loop(unfinished, ply, (x, zeros, zeros, key))
    return x, last, plies, jax.vmap(game.rewards)(x)


def main(config: Config, games: dict[str, tuple[str, dict[str, int]]] = GAMES) -> None:
    """Plays each game, given as its title -> its name and options; prints a table, writes the page."""
    table = Table(title=f"{config.games:,} random games of each kind")
    for column in ("game", "first player wins", "draws", "mean length", "games/s"):
        table.add_column(column, justify="left" if column == "game" else "right")
    page = ["<!doctype html><meta charset='utf-8'><title>azjax gallery</title><h1>Random games</h1>"]
    for title, (name, options) in track(games.items(), description="playing", transient=True):
        game = azjax.make(name, **options).game
        compiled = jax.jit(lambda key, game=game: play(game, key, config.games))
        jax.block_until_ready(compiled(jax.random.key(config.seed + 1)))
        start = time.perf_counter()
        states, last, plies, rewards = jax.block_until_ready(compiled(jax.random.key(config.seed)))
        seconds = time.perf_counter() - start
        wins, draws = np.mean(rewards[:, 0] > 0), np.mean(rewards[:, 0] == 0)
        spread = 1.96 * np.sqrt(wins * (1 - wins) / config.games)
        table.add_row(
            title,
            f"{100 * wins:.1f} % ± {100 * spread:.1f}",
            f"{100 * draws:.1f} %",
            f"{np.mean(plies):.1f}",
            f"{config.games / seconds:,.0f}",
        )
        page.append(f"<h2>{html.escape(title)}</h2>")
        for lane in range(config.drawn):
            final = jax.tree.map(lambda s, lane=lane: s[lane], states)
            page.append(game.draw(final, last_action=int(last[lane]), scale=0.6))
    config.out.mkdir(parents=True, exist_ok=True)
    target = config.out / "index.html"
    atomic.write_text(target, "\n".join(page))
    console = Console()
    console.print(table)
    console.print(f"Open {target} to see them.")


if __name__ == "__main__":
    try:
        modules, others = imports.taken_out(sys.argv[1:])
        settings = tyro.cli(Config, args=others, description=__doc__)
        games = games_with(modules)
    except ValueError as error:
        sys.exit(f"gallery: {error}")
    main(settings, games)
