"""A run's report, one page that opens anywhere: how strong, how fast, what was learned.

Numbers first, then curves, the opening map over time, a game with the solver's verdict on every move, and the
configuration folded away. The page follows the reader's light or dark setting.
"""

import contextlib
import dataclasses
import html
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from azjax.agents.trained import load_weights
from azjax.common import atomic, checked
from azjax.common.agent import AgentError
from azjax.common.checked import between
from azjax.common.rows import names_in, number_in, with_updates
from azjax.envs.core import Game
from azjax.evaluation import truth as ground_truth
from azjax.evaluation.arena import SCALE
from azjax.evaluation.curve import spread_out
from azjax.evaluation.parts import own_evaluator, player_of
from azjax.nn import Params
from azjax.plots import charts, style
from azjax.positions import stack
from azjax.training import checkpoint
from azjax.training.boards import title as title_of
from azjax.training.config import TrainConfig, config_to_dict

_STYLE = """
:root { --ground: #fff; --card: #f6f6f4; --ink: #222; --soft: #666; --line: #d8d8d4; --good: #0072B2; --bad: #D55E00; }
.dark { display: none; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #1c1b1a; --card: #262524; --ink: #eee; --soft: #aaa; --line: #444; }
  :root { --good: #56B4E9; --bad: #E69F00; }
  .dark { display: block; }
  .light { display: none; }
  .chart polyline, .chart polygon, .chart circle, .legend i { filter: brightness(1.35); }
}
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px; }
header p { margin: 2px 0; color: var(--soft); }
h1 { margin: 0; font-size: 30px; }
h2 { margin: 34px 0 2px; font-size: 20px; }
h2 + p { margin-top: 0; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 12px; margin: 22px 0; }
@media (max-width: 560px) { .tiles { grid-template-columns: 1fr 1fr; } }
.tile { background: var(--card); border-radius: 10px; padding: 12px 14px; display: flex; flex-direction: column; }
.tile b { font-size: 26px; line-height: 1.2; }
.tile small { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 18px; }
.charts figure { margin: 0; background: var(--card); border-radius: 10px; padding: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--soft); }
.legend i { display: inline-block; width: 18px; margin: 0 5px 4px 0; }
.boards { display: grid; grid-template-columns: repeat(auto-fill, minmax(165px, 1fr)); gap: 14px; }
.boards figure { margin: 0; border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.boards svg { display: block; width: 100%; height: 130px; margin: 8px 0 0; }
.boards figcaption { padding: 4px 10px 9px; font-size: 13px; }
em.right { color: var(--good); font-style: normal; }
em.wrong { color: var(--bad); font-style: normal; font-weight: 600; }
details { margin-top: 34px; }
summary { cursor: pointer; font-size: 20px; font-weight: 600; }
table { border-collapse: collapse; font-size: 13px; }
td { border-bottom: 1px solid var(--line); padding: 3px 18px 3px 0; }
"""


_Whole = Annotated[int, between(0, 2**63)]
# What must stand in a line of metrics.jsonl. Numbers that were not finite are null there.
_FIELDS: dict[str, Any] = dict.fromkeys(("games", "positions", "updates"), _Whole) | {
    "seconds": float,
    "loss?": dict,
    "evaluation?": dict,
    "truth?": dict,
    "boards?": dict,
}
_RESULT: dict[str, Any] = {
    "score": float | None,
    "interval": tuple[float, ...],
    "games": _Whole,
    "distinct_games?": _Whole,
}


def _rows(run: checkpoint.Run) -> list[dict]:
    """The lines of metrics.jsonl; raises RunError, which names the line and the field, where one cannot be shown."""
    return run.read_rows(_FIELDS, _check_judgements)


def _check_judgements(row: dict) -> None:
    for opponent, result in row.get("evaluation", {}).items():
        checked.check_value(f"evaluation.{opponent}", dict, result)
        checkpoint.check_row(result, _RESULT, f"evaluation.{opponent}.")
        interval = result["interval"]
        checked.check(len(interval) == 2, f"evaluation.{opponent}.interval", "two numbers", interval)
    for name, share in row.get("truth", {}).items():
        checked.check_value(f"truth.{name}", float | None, share)


def write(run: checkpoint.Run) -> pathlib.Path:
    """Writes report.html, and curves.png where matplotlib is there, into the run's folder; returns the page."""
    rows = _rows(run)
    if style.has_matplotlib():
        style.save(_curves(rows), run.path / "curves.png")
    judged = [row for row in rows if "evaluation" in row]
    parts = [
        _head(run, rows),
        _tiles(rows, judged),
        f'<section class="charts">{"".join(_charts(rows, judged))}</section>',
        *(_pictures(run) if (run.path / "agent.npz").exists() else []),
        _folded_configuration(run.config),
    ]
    page = run.path / "report.html"
    title = f"<title>{html.escape(run.path.name)}: {html.escape(run.config.game.name)}</title>"
    view = "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    look = f"<style>{_STYLE}{charts.STYLE}</style>"
    body = "\n".join(parts)
    atomic.write_text(
        page,
        f"<!doctype html><html lang='en'><meta charset='utf-8'>{view}{title}{look}<main>{body}</main></html>\n",
    )
    return page


def _head(run: checkpoint.Run, rows: list[dict]) -> str:
    facts = "Nothing has been played yet."
    if rows:
        last = rows[-1]
        facts = (
            f"{last['iteration']:,} of {run.config.iterations:,} iterations, {last['games']:,} games,"
            f" {last['positions']:,} positions, {last['updates']:,} updates, {last['seconds'] / 60:.1f} minutes,"
            f" seed {run.config.seed}"
        )
    name = html.escape(run.path.name)
    return f"<header><h1>{name}</h1><p>{html.escape(title_of(run.config))}</p><p>{facts}</p></header>"


_TRUTHS = {
    "policy_accuracy": "right moves of the network alone, in solved positions",
    "search_accuracy": "right moves of its search, in solved positions",
    "value_sign_accuracy": "values with the right sign, in solved positions",
}


def _tiles(rows: list[dict], judged: list[dict]) -> str:
    """How strong, how fast, what was learned: the newest numbers, large."""
    tiles = []
    last = judged[-1] if judged else {}
    for opponent, result in last.get("evaluation", {}).items():
        low, high = result["interval"]
        around = f"{100 * low:.0f} to {100 * high:.0f} % in {result['games']} games"
        tiles.append((_percent(result["score"]) + " %", f"against {opponent}", around))
    for name, share in last.get("truth", {}).items():
        what, _, _ = name.partition(",")  # of several boards the one stands behind it
        about = _TRUTHS.get(what, "in solved positions")
        tiles.append((_percent(share) + " %", name.replace("_", " "), about))
    speeds = [row["positions_per_second"] for row in rows if row.get("positions_per_second")]
    if speeds:
        about = "of self-play and learning, the median"
        tiles.append((charts.short(float(np.median(speeds))), "positions per second", about))
    learned = with_updates(rows)
    if len(learned) > 1:
        first, newest = (number_in(row, "loss.policy") for row in (learned[0], learned[-1]))
        tiles.append((f"{newest:.2f}", "policy loss", f"{first:.2f} at the beginning"))
    shown = "".join(
        f"<div class='tile'><b>{html.escape(number)}</b><span>{html.escape(name)}</span><small>"
        f"{html.escape(about)}</small></div>"
        for number, name, about in tiles
    )
    return f"<section class='tiles'>{shown}</section>"


def _charts(rows: list[dict], judged: list[dict]) -> list[str]:
    strength = [
        charts.Line(f"against {opponent}", *_scores(judged, opponent))
        for opponent in names_in(judged, "evaluation")
    ]
    for name in names_in(judged, "truth"):
        shares = _column(judged, ("truth", name))
        strength.append(charts.Line(name.replace("_", " "), _minutes(judged), shares, dashed=True))
    learned = with_updates(rows)
    losses = [
        charts.Line(name, _column(learned, "positions"), _column(learned, f"loss.{name}"))
        for name in ("policy", "value", "policy_entropy")
    ]
    losses[2] = losses[2]._replace(name="entropy of the policy", dashed=True)
    names = names_in(rows, "boards")
    of_boards = [
        charts.Line(
            f"board {name}", _column(told, "positions"), _column(told, ("boards", name, "loss", "policy"))
        )
        for name in names
        for told in [[row for row in learned if number_in(row, ("boards", name, "loss", "policy")) > 0]]
    ]
    mean = ", the mean of the boards" if names else ""
    positions = _column(rows, "positions")
    played = [
        charts.Line("first player's score", positions, _column(rows, "first_player_score")),
    ]
    return [
        charts.line_chart("How strong", strength, x_name="minutes", percent=True, from_zero=False),
        charts.line_chart(f"What was learned: losses{mean}", losses, x_name="positions"),
        charts.line_chart("Each board's policy loss", of_boards, x_name="positions"),
        charts.line_chart(
            f"The first player's score in self-play{mean}", played, x_name="positions", percent=True
        ),
        charts.line_chart(
            f"How long games are, in plies{mean}",
            [charts.Line("plies", positions, _column(rows, "mean_plies"))],
            x_name="positions",
        ),
    ]


def _pictures(run: checkpoint.Run) -> list[str]:
    try:
        config, params = load_weights(run.path)
    except AgentError as error:  # weights that are not finite move nowhere, so that a game would never end
        return [f"<p>There are no pictures of its play: {html.escape(str(error))}.</p>"]
    return [
        "<h2>What it thinks of the first move</h2><p>The network's policy, without any search, as heat.</p>"
        f'<section class="boards">{"".join(opening_pictures(run, config))}</section>',
        "<h2>A game against itself</h2>" + _game_section(config, params),
    ]


def _folded_configuration(config: TrainConfig) -> str:
    """All settings, those that differ from the classes' defaults in bold."""
    rows = []
    for part, value in config_to_dict(config).items():
        settings = value if isinstance(value, dict) else {"": value}
        default = _defaults(config, part)
        for name, setting in settings.items():
            usual = default.get(name, setting) if isinstance(default, dict) else default
            label = f"{part}.{name}" if name else part
            shown = html.escape(str(setting))
            rows.append(
                f"<tr><td>{html.escape(label)}</td><td>{shown if setting == usual else f'<b>{shown}</b>'}</td></tr>"
            )
    return (
        "<details><summary>Configuration</summary><p>Settings other than the defaults are bold.</p>"
        f"<table>{''.join(rows)}</table></details>"
    )


def _defaults(config: TrainConfig, part: str) -> Any:
    """What a part of a configuration would be if nobody said anything; an empty dictionary where there is no such."""
    if part == "game":
        return config_to_dict(TrainConfig(game=type(config.game)()))["game"] if _has_default(config) else {}
    value = getattr(config, part)
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(type(value)())
    return next(field.default for field in dataclasses.fields(config) if field.name == part)


def _has_default(config: TrainConfig) -> bool:
    return all(
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(config.game)
    )


def summarise(run: checkpoint.Run, console: Console) -> None:
    """Prints how strong the agent became."""
    rows = _rows(run)
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
    for opponent in names_in(judged, "evaluation"):
        results = [row["evaluation"].get(opponent, {}) for row in judged]
        table.add_row(f"% against {opponent}", *(_percent(result.get("score")) for result in results))
        told = [result for result in results if result]
        if all("distinct_games" in result for result in told):
            table.add_row(
                f"  different of {told[-1]['games']} games",
                *(str(result.get("distinct_games", "")) for result in results),
            )
    for name in names_in(judged, "truth"):
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


def opening_pictures(run: checkpoint.Run, config: TrainConfig, most: int = 6) -> list[str]:
    """The starting position with the network's policy as heat, over time: after some of the iterations kept."""
    game = config.game
    evaluate = jax.jit(own_evaluator(config))
    start = game.init(jax.random.key(0))
    kept = np.array(run.snapshots, int)
    boards = []
    for iteration in kept[np.unique(np.linspace(0, len(kept) - 1, most).astype(int))] if len(kept) else ():
        with contextlib.suppress(checkpoint.RunError):  # of a damaged file there is no picture
            params = run.load_agent(int(iteration))
            logits, value = evaluate(params, jax.random.key(0), jax.tree.map(lambda leaf: leaf[None], start))
            about = f"after {iteration} iterations<br>value {float(value[0]):+.2f}"
            boards.append(_board(game, start, about, heat=np.asarray(jax.nn.softmax(logits[0]))))
    return boards


class PlayedMove(NamedTuple):
    """A move of a game that the agent played against itself."""

    after: Any  # the position after it
    action: int
    value: float  # what the network said before it, for the player who moved
    verdict: str  # the solver's, in words; empty where nobody knows


def played_game(config: TrainConfig, params: Params) -> list[PlayedMove]:
    """A game that the agent plays against itself, without noise, with what network and solver say of every move."""
    game = config.game
    act, step = jax.jit(player_of(config, config.evaluation.simulations)), jax.jit(game.step)
    evaluate = jax.jit(own_evaluator(config))
    x, moves, before = game.init(jax.random.key(0)), [], []
    while not game.is_terminal(x):
        one = jax.tree.map(lambda leaf: leaf[None], x)
        key = jax.random.key(len(moves))
        action, value = int(act(params, key, one)[0]), float(evaluate(params, key, one)[1][0])
        before.append(x)
        x = step(x, action)
        moves.append(PlayedMove(x, action, value, ""))
    words = _verdicts(config, before, [move.action for move in moves])
    return [move._replace(verdict=word) for move, word in zip(moves, words)]


def _verdicts(config: TrainConfig, states: list, actions: list[int]) -> list[str]:
    """What the solver says of each move, where one fits and the run is compared with it."""
    solver = ground_truth.solver_for(config.game) if config.evaluation.truth else None
    if solver is None:
        return [""] * len(states)
    solution = solver.solve(stack(states))
    return [_verdict(*found) for found in zip(solution.proven, solution.value, solution.optimal, actions)]


def _verdict(proven: bool, value: float, optimal: np.ndarray, action: int) -> str:
    if not proven:
        return "not proven"
    state = "won" if value > 0 else "lost" if value < 0 else "drawn"
    if optimal[action]:
        return "any move loses" if value < 0 else f"keeps what is {state}"
    return f"mistake: was {state}"


def _game_section(config: TrainConfig, params: Params, most: int = 24) -> str:
    game = config.game
    moves = played_game(config, params)
    keep = set(np.unique(np.linspace(0, len(moves) - 1, most).astype(int)).tolist())
    boards = []
    for number, move in enumerate(moves):
        if number not in keep:
            continue
        wrong = move.verdict.startswith("mistake")
        verdict = (
            f"<br><em class='{'wrong' if wrong else 'right'}'>{move.verdict}</em>" if move.verdict else ""
        )
        text = html.escape(game.action_to_text(move.action))
        about = f"{number + 1}. <b>{text}</b>, value {move.value:+.2f}{verdict}"
        boards.append(_board(game, move.after, about, last_action=move.action))
    words = [move.verdict for move in moves]
    mistakes = sum(word.startswith("mistake") for word in words)
    intro = f"{len(moves)} moves, {config.evaluation.simulations} simulations each, without noise."
    if any(words):
        intro += f" By the solver, {mistakes or 'none'} {'are mistakes' if mistakes > 1 else 'is a mistake'}."
    return (
        f"<p>{intro} The value is what the network said before the move, for whoever made it.</p>"
        f'<section class="boards">{"".join(boards)}</section>'
    )


def _board(game: Game, x: Any, about: str, **drawn: Any) -> str:
    """A position for light pages and for dark ones, of which the style shows one, and what is to be said of it."""
    pictures = "".join(
        f'<div class="{theme}">{game.draw(x, theme=theme, scale=0.5, **drawn)}</div>'
        for theme in ("light", "dark")
    )
    return f"<figure>{pictures}<figcaption>{about}</figcaption></figure>"


def _curves(rows: list[dict]) -> Any:
    """A figure of losses, self-play and strength, for whoever wants a picture rather than a page."""
    learned = with_updates(rows)
    judged = [row for row in rows if "evaluation" in row]
    figure, (losses, games, strength) = style.panels(1, 3, size=(4.2, 3.4))
    for name in ("policy", "value"):
        losses.plot(_column(learned, "positions"), _column(learned, f"loss.{name}"), label=name)
    losses.set(title="losses", xlabel="positions")
    games.plot(_column(rows, "positions"), _column(rows, "first_player_score"), label="first player")
    games.set(title="score in self-play", xlabel="positions", ylim=(0, 1))
    for opponent in names_in(judged, "evaluation"):
        minutes, scores, low, high = _scores(judged, opponent)
        strength.plot(minutes, scores, marker="o", markersize=3, label=f"against {opponent}")
        strength.fill_between(minutes, low, high, alpha=0.2)
    for name in names_in(judged, "truth"):
        shares = _column(judged, ("truth", name))
        strength.plot(_minutes(judged), shares, linestyle="--", label=name.replace("_", " "))
    strength.set(title="strength", xlabel="minutes", ylim=(0, 1.02))
    for axes in (losses, games, strength):
        if axes.lines:  # a run that was stopped early may not have been judged yet
            axes.legend()
    return figure


class _Scores(NamedTuple):
    """Against one opponent, over time."""

    minutes: np.ndarray
    scores: np.ndarray
    low: np.ndarray  # the ends of their intervals
    high: np.ndarray


def _scores(judged: list[dict], opponent: str) -> _Scores:
    """From the lines that tell of this opponent: a run that goes on may meet others than before."""
    told = [row for row in judged if opponent in row["evaluation"]]
    low, high = np.array([row["evaluation"][opponent]["interval"] for row in told]).T
    return _Scores(_minutes(told), _column(told, ("evaluation", opponent, "score")), low, high)


def _minutes(rows: list[dict]) -> np.ndarray:
    return _column(rows, "seconds") / 60


def _column(rows: list[dict], name: str | tuple[str, ...]) -> np.ndarray:
    return np.array([number_in(row, name) for row in rows], float)
