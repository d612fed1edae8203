"""A run's report: curves, a sample game, the opening heat map, as one page that opens anywhere."""

import base64
import html
import io
import pathlib
from collections.abc import Callable

import jax
import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from azjax.agents.trained import load_weights
from azjax.common import atomic
from azjax.common.agent import AgentError
from azjax.evaluation.arena import SCALE
from azjax.evaluation.curve import number_in, spread_out
from azjax.evaluation.parts import own_evaluator, player_of
from azjax.nn import Params
from azjax.training import checkpoint
from azjax.training.config import TrainConfig


def write(run: checkpoint.Run) -> pathlib.Path:
    """Writes report.html and curves.png into the run's folder; returns the page."""
    rows = run.read_metrics()
    parts = [f"<h1>{html.escape(str(run.config.game))}</h1>", _facts(rows)]
    curves = _curves(rows)
    if curves is not None:
        atomic.write_bytes(run.path / "curves.png", curves)
        encoded = base64.b64encode(curves).decode()
        parts.append(f"<h2>Learning</h2><img alt='curves' src='data:image/png;base64,{encoded}'>")
    if (run.path / "agent.npz").exists():
        parts.extend(_pictures(run.path))
    page = run.path / "report.html"
    style = "<style>body{font-family:sans-serif;margin:2em} svg{margin:.3em}</style>"
    title = f"<title>{html.escape(run.path.name)}</title>"
    atomic.write_text(page, f"<!doctype html><meta charset='utf-8'>{title}{style}" + "\n".join(parts))
    return page


def _pictures(path: pathlib.Path) -> list[str]:
    try:
        config, params = load_weights(path)
    except AgentError as error:  # weights that are not finite move nowhere, so that a game would never end
        return [f"<p>There are no pictures of its play: {html.escape(str(error))}.</p>"]
    return [
        "<h2>What it thinks of the first move</h2>" + opening_picture(config, params),
        "<h2>A game against itself</h2>" + game_pictures(config, params),
    ]


def summarise(run: checkpoint.Run, console: Console) -> None:
    """Prints how strong the agent became."""
    rows = run.read_metrics()
    judged = [row for row in rows if "evaluation" in row]
    if not judged:
        return
    console.print(fitting(console, lambda most: _strength(spread_out(judged, most)), 8))
    console.print(SCALE)


def fitting(console: Console, make: Callable[[int], Table], most: int) -> Table:
    """The table with most columns that fits the console.

    Args:
      console: where it is to stand.
      make: (columns) -> the table with so many columns of numbers.
      most: to begin with; at least 2 are kept.
    """
    options = console.options.update(max_width=10_000)  # what it would like to have
    for columns in range(most, 2, -1):
        table = make(columns)
        if Measurement.get(console, options, table).maximum <= console.width:
            return table
    return make(2)


def _strength(judged: list[dict]) -> Table:
    """A row a judgement, a column an iteration."""
    table = Table("after iteration", *(str(row["iteration"]) for row in judged), title="strength")
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    table.add_row("minutes", *(f"{row['seconds'] / 60:.1f}" for row in judged))
    table.add_row("positions", *(_short(row["positions"]) for row in judged))
    for opponent in judged[-1]["evaluation"]:
        results = [row["evaluation"].get(opponent, {}) for row in judged]
        table.add_row(f"% against {opponent}", *(_percent(result.get("score")) for result in results))
        if all("distinct_games" in result for result in results):
            games = results[-1]["games"]
            table.add_row(
                f"  different of {games} games", *(str(result["distinct_games"]) for result in results)
            )
    for name in judged[-1].get("truth", {}):
        shares = (row.get("truth", {}).get(name) for row in judged)
        table.add_row(f"% {name.replace('_', ' ')}", *map(_percent, shares))
    return table


def _percent(share: float | None) -> str:
    return "" if share is None or not np.isfinite(share) else f"{100 * share:.0f}"


def _short(number: int) -> str:
    return (
        f"{number:,}"
        if number < 10**4
        else f"{number / 1e3:,.0f}k"
        if number < 10**7
        else f"{number / 1e6:,.0f}M"
    )


def opening_picture(config: TrainConfig, params: Params) -> str:
    """The starting position with the network's policy as heat."""
    game = config.game
    evaluate = jax.jit(own_evaluator(config))
    x = game.init(jax.random.key(0))
    logits, value = evaluate(params, jax.random.key(0), jax.tree.map(lambda s: s[None], x))
    policy = np.asarray(jax.nn.softmax(logits[0]))
    return game.draw(x, heat=policy) + f"<p>Value for the first player: {float(value[0]):+.2f}</p>"


def game_pictures(config: TrainConfig, params: Params, pictures: int = 8) -> str:
    """Boards of a game that the agent plays against itself, without noise."""
    game = config.game
    act, step = jax.jit(player_of(config, config.evaluation.simulations)), jax.jit(game.step)
    x, last, boards = game.init(jax.random.key(0)), None, []
    while not game.is_terminal(x):
        last = int(act(params, jax.random.key(len(boards)), jax.tree.map(lambda s: s[None], x))[0])
        x = step(x, last)
        boards.append(game.draw(x, last_action=last, scale=0.5))
    keep = np.unique(np.linspace(0, len(boards) - 1, pictures).astype(int))
    return "".join(boards[number] for number in keep)


def _facts(rows: list[dict]) -> str:
    if not rows:
        return "<p>Nothing has been played yet.</p>"
    last = rows[-1]
    return (
        f"<p>{last['iteration']} iterations, {last['games']:,} games, {last['positions']:,} positions,"
        f" {last['updates']:,} updates, {last['seconds'] / 60:.1f} minutes.</p>"
    )


def _curves(rows: list[dict]) -> bytes | None:
    """The curves as PNG; None where matplotlib is not installed (it comes with the extra `plots`)."""
    try:
        import matplotlib.figure
    except ImportError:
        return None
    learned = [row for row in rows if number_in(row, "loss.total") != 0]  # 0 while the replay fills
    judged = [row for row in rows if "evaluation" in row]
    figure = matplotlib.figure.Figure(figsize=(12, 3.4), layout="constrained")
    losses, games, strength = figure.subplots(1, 3)
    for name in ("policy", "value"):
        losses.plot(_column(learned, "positions"), _column(learned, f"loss.{name}"), label=name)
    losses.set(title="losses", xlabel="positions")
    games.plot(_column(rows, "positions"), _column(rows, "first_player_score"), label="first player")
    games.set(title="score in self-play", xlabel="positions", ylim=(0, 1))
    minutes = _column(judged, "seconds") / 60
    for opponent in judged[-1]["evaluation"] if judged else ():
        scores = _column(judged, f"evaluation.{opponent}.score")
        spread = np.array([r["evaluation"][opponent]["interval"] for r in judged]).T
        strength.plot(minutes, scores, marker="o", markersize=3, label=f"against {opponent}")
        strength.fill_between(minutes, *spread, alpha=0.2)
    for name in judged[-1].get("truth", {}) if judged else ():
        shares = _column(judged, f"truth.{name}")
        strength.plot(minutes, shares, linestyle="--", label=name.replace("_", " "))
    strength.set(title="strength", xlabel="minutes", ylim=(0, 1.02))
    for axes in (losses, games, strength):
        if axes.lines:  # a run that was stopped early may not have been judged yet
            axes.legend()
        axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()


def _column(rows: list[dict], name: str) -> np.ndarray:
    return np.array([number_in(row, name) for row in rows], float)
