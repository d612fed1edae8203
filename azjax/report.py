"""A run's report: curves, a sample game, the opening heat map, as one page that opens anywhere."""

import base64
import html
import io
import pathlib

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from azjax import checkpoint
from azjax.config import TrainConfig
from azjax.evaluation.curves import spread_out
from azjax.networks import Params, make_evaluator, make_network
from azjax.run import player_of


def write(run: checkpoint.Run) -> pathlib.Path:
    """Writes report.html and curves.png into the run's folder; returns the page."""
    rows = run.read_metrics()
    parts = [f"<h1>{html.escape(str(run.config.game))}</h1>", _facts(rows)]
    curves = _curves(rows)
    if curves is not None:
        (run.path / "curves.png").write_bytes(curves)
        encoded = base64.b64encode(curves).decode()
        parts.append(f"<h2>Learning</h2><img alt='curves' src='data:image/png;base64,{encoded}'>")
    if (run.path / "agent.npz").exists():
        config, params = checkpoint.load_agent(run.path)
        parts.append("<h2>What it thinks of the first move</h2>" + opening_picture(config, params))
        parts.append("<h2>A game against itself</h2>" + game_pictures(config, params))
    page = run.path / "report.html"
    style = "<style>body{font-family:sans-serif;margin:2em} svg{margin:.3em}</style>"
    title = f"<title>{html.escape(run.path.name)}</title>"
    page.write_text(
        f"<!doctype html><meta charset='utf-8'>{title}{style}" + "\n".join(parts), encoding="utf-8"
    )
    return page


def summarise(run: checkpoint.Run, console: Console) -> None:
    """Prints how strong the agent became."""
    rows = run.read_metrics()
    judged = [row for row in rows if "evaluation" in row]
    if not judged:
        return
    truths = [name.replace("_", " ") for name in judged[-1].get("truth", {})]
    opponents = judged[-1]["evaluation"]
    table = Table("iteration", "minutes", "positions", *opponents, *truths, title="strength")
    for row in spread_out(judged, 8):
        shares = [result["score"] for result in row["evaluation"].values()] + [*row.get("truth", {}).values()]
        scores = (f"{100 * share:.0f} %" for share in shares)
        table.add_row(str(row["iteration"]), f"{row['seconds'] / 60:.1f}", f"{row['positions']:,}", *scores)
    console.print(table)


def opening_picture(config: TrainConfig, params: Params) -> str:
    """The starting position with the network's policy as heat."""
    game = config.game
    evaluate = jax.jit(make_evaluator(game, make_network(config.network, game)))
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
    learned = [row for row in rows if row["loss"]["total"]]
    judged = [row for row in rows if "evaluation" in row]
    figure = matplotlib.figure.Figure(figsize=(12, 3.4), layout="constrained")
    losses, games, strength = figure.subplots(1, 3)
    for name in ("policy", "value"):
        losses.plot([r["positions"] for r in learned], [r["loss"][name] for r in learned], label=name)
    losses.set(title="losses", xlabel="positions")
    games.plot([r["positions"] for r in rows], [r["first_player_score"] for r in rows], label="first player")
    games.set(title="score in self-play", xlabel="positions", ylim=(0, 1))
    minutes = [r["seconds"] / 60 for r in judged]
    for opponent in judged[-1]["evaluation"] if judged else ():
        scores = [r["evaluation"][opponent]["score"] for r in judged]
        spread = np.array([r["evaluation"][opponent]["interval"] for r in judged]).T
        strength.plot(minutes, scores, marker="o", markersize=3, label=f"against {opponent}")
        strength.fill_between(minutes, *spread, alpha=0.2)
    for name in judged[-1].get("truth", {}) if judged else ():
        shares = [r["truth"][name] for r in judged]
        strength.plot(minutes, shares, linestyle="--", label=name.replace("_", " "))
    strength.set(title="strength", xlabel="minutes", ylim=(0, 1.02))
    for axes in (losses, games, strength):
        axes.legend()
        axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()
