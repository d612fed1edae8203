"""The page about a run: what it says of moves, its charts, and that it shows what the run has."""

import dataclasses
import io
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import jax
import numpy as np
import pytest
from rich.console import Console

from azjax import training
from azjax.envs import Hex
from azjax.plots import charts, report
from azjax.plots.trees import draw_tree
from azjax.search import reusing_uct
from tests.training_cases import HEXES, SMALL, create_run

JUDGED = dataclasses.replace(SMALL, evaluation=dataclasses.replace(SMALL.evaluation, truth=True))


def row(iteration, **more):
    """A line of metrics.jsonl."""
    counted = {
        "iteration": iteration,
        "games": iteration * 10,
        "positions": iteration * 96,
        "updates": iteration,
    }
    loss = {"total": 3 / iteration, "policy": 2 / iteration, "value": 1 / iteration, "policy_entropy": 1.5}
    played = {"first_player_score": 0.6, "mean_plies": 7.5, "positions_per_second": 1500.0}
    return counted | played | {"seconds": 60.0 * iteration, "loss": loss} | more


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with two kept iterations that has not learned anything, and was judged once."""
    made = create_run(tmp_path_factory.mktemp("runs") / "my <run>", JUDGED)
    params = training.make_trainer(JUDGED, training.make_mesh(1)).init(jax.random.key(0)).average
    for iteration in (2, 4):
        made.save_agent(iteration, params)
    score = {"score": 0.75, "interval": [0.6, 0.86], "games": 32, "distinct_games": 30}
    judged = {"evaluation": {"random": score}, "truth": {"policy_accuracy": 0.5}}
    rows = [row(1), row(2), row(3), row(4, **judged)]
    (made.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    return made


@pytest.fixture(scope="module")
def page(run):
    return report.write(run).read_text(encoding="utf-8")


def test_the_newest_numbers_stand_large_at_the_top(page):
    tiles = re.findall(r"<div class='tile'><b>(.*?)</b><span>(.*?)</span><small>(.*?)</small>", page)
    assert ("75 %", "against random", "60 to 86 % in 32 games") in tiles
    assert ("50 %", "policy accuracy", "right moves of the network alone, in solved positions") in tiles
    assert ("1.5k", "positions per second", "of self-play and learning, the median") in tiles
    assert ("0.50", "policy loss", "2.00 at the beginning") in tiles
    assert page.index("class='tiles'") < page.index('class="charts"') < page.index("first move")


def test_what_people_named_cannot_break_the_page(page):
    assert "my &lt;run&gt;" in page and "<run>" not in page


def test_every_opponent_is_drawn_by_the_lines_that_tell_of_it(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(
        report.charts, "line_chart", lambda title, lines, **named: drawn.append((title, lines)) or ""
    )
    monkeypatch.setattr(report.style, "has_matplotlib", lambda: False)
    run = create_run(tmp_path / "run", JUDGED)
    result = {"interval": [0.4, 0.6], "games": 32, "distinct_games": 30}
    judged = [
        row(2, evaluation={"random": result | {"score": 0.5}}),
        row(4, evaluation={name: result | {"score": 0.25} for name in ("random", "uct:20?c=1.5")}),
        row(6, evaluation={"uct:20?c=1.5": result | {"score": 0.75}}, truth={"value.sign": 0.9}),
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in judged))
    report.write(run)
    strength = {line.name: line for line in dict(drawn)["How strong"]}
    assert list(strength) == ["against random", "against uct:20?c=1.5", "value.sign"]
    assert strength["against random"].x.tolist() == [2, 4] and strength["against random"].y.tolist() == [
        0.5,
        0.25,
    ]
    assert strength["against uct:20?c=1.5"].y.tolist() == [0.25, 0.75], "a dot in its text is no path"
    np.testing.assert_array_equal(strength["value.sign"].y, [np.nan, np.nan, 0.9])
    console = Console(file=io.StringIO(), width=80)
    report.summarise(run, console)
    table = console.file.getvalue()
    for cells in (
        ("% against random", 50, 25, ""),
        ("different of 32 games", 30, 30, ""),
        ("% against uct:20?c=1.5", "", 25, 75),
    ):
        assert re.search(" *│ *".join(re.escape(str(cell)) for cell in cells) + " *│", table), cells


def test_of_several_boards_each_has_its_curve_and_the_page_says_which_they_are(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(
        report.charts, "line_chart", lambda title, lines, **named: drawn.append((title, lines)) or ""
    )
    monkeypatch.setattr(report.style, "has_matplotlib", lambda: False)
    run = create_run(tmp_path / "run", HEXES)

    def of_board(loss):
        return {"loss": {"policy": loss}}

    score = {"score": 0.75, "interval": [0.6, 0.86], "games": 32, "distinct_games": 30}
    judged = {"evaluation": {"random, board 2": score}, "truth": {"policy_accuracy, board 2": 0.5}}
    rows = [
        row(1, boards={"3": of_board(2.0), "2": of_board(1.0)}),
        row(2, boards={"3": of_board(1.5), "2": of_board(0.5), "4": of_board(0.0)}, **judged),
        row(3, boards={"3": of_board(1.0), "2": of_board(0.25), "4": of_board(2.5)}),
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    page = report.write(run).read_text(encoding="utf-8")
    assert "planes=2), boards 2@2</p>" in page
    assert "against random, board 2" in page
    assert "right moves of the network alone, in solved positions" in page
    charts_drawn = dict(drawn)
    curves = {line.name: line.y.tolist() for line in charts_drawn["Each board's policy loss"]}
    assert curves == {"board 3": [2.0, 1.5, 1.0], "board 2": [1.0, 0.5, 0.25], "board 4": [2.5]}
    assert "What was learned: losses, the mean of the boards" in charts_drawn


def test_the_opening_map_is_drawn_over_time_for_light_and_dark_pages(page):
    openings = page[page.index("first move") : page.index("A game against itself")]
    assert re.findall(r"after (\d+) iterations", openings) == ["2", "4"]
    assert openings.count('<div class="light"><svg') == openings.count('<div class="dark"><svg') == 2


def test_every_move_of_the_game_has_the_solvers_verdict(page):
    game = page[page.index("A game against itself") : page.index("<details>")]
    moves = re.findall(
        r"(\d+)\. <b>[abc][123]</b>, value [+-]\d\.\d\d<br><em class='(right|wrong)'>([^<]+)<", game
    )
    assert [int(number) for number, _, _ in moves] == list(range(1, len(moves) + 1)) and len(moves) >= 5
    assert all(("mistake" in word) == (kind == "wrong") for _, kind, word in moves)
    # Whoever wins: of two moves one after the other, both cannot keep what is won.
    kept = [word == "keeps what is won" for _, _, word in moves]
    assert not any(a and b for a, b in itertools.pairwise(kept))


@pytest.mark.parametrize(
    "proven, value, optimal, said",
    [
        (True, 1.0, True, "keeps what is won"),
        (True, 1.0, False, "mistake: was won"),
        (True, 0.0, False, "mistake: was drawn"),
        (True, -1.0, True, "any move loses"),
        (False, float("nan"), False, "not proven"),
    ],
)
def test_verdicts_say_what_a_move_did(proven, value, optimal, said):
    assert report._verdict(proven, value, np.array([optimal]), 0) == said


def test_settings_that_differ_from_the_defaults_are_bold(page):
    assert "<td>selfplay.lanes</td><td><b>16</b></td>" in page
    assert "<td>optimiser.learning_rate</td><td>0.002</td>" in page
    assert "<td>game.size</td><td><b>3</b></td>" in page


def test_a_run_that_has_done_nothing_yet_has_a_page(tmp_path):
    made = create_run(tmp_path / "new", SMALL)
    (made.path / "metrics.jsonl").write_text("")
    assert "Nothing has been played yet." in report.write(made).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "low, high, expected",
    [(0, 9, [0, 5, 10]), (0, 4, [0, 1, 2, 3, 4]), (0, 0, [0, 0.5, 1]), (12, 58, [0, 20, 40, 60])],
)
def test_axes_have_round_numbers_that_span_the_data(low, high, expected):
    assert charts.ticks(low, high)[0] <= low and charts.ticks(low, high)[-1] >= high
    steps = np.diff(charts.ticks(low, high))
    assert np.allclose(steps, steps[0])
    if (low, high) != (0, 0):
        assert charts.ticks(low, high) == expected


def test_a_chart_leaves_out_what_is_no_number_and_needs_something_to_draw():
    curve = charts.Line("a < b", [0, 1, 2], [0.5, float("nan"), 1.0])
    chart = charts.line_chart("title", [curve, curve._replace(name="c")], x_name="x", percent=True)
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", chart)[0])
    lines = [node for node in svg.iter() if node.tag.endswith("polyline")]
    assert [len(line.get("points").split()) for line in lines] == [2, 2]
    assert "a &lt; b" in chart
    assert charts.line_chart("title", [charts.Line("none", [], [])], x_name="x") == ""


def test_a_tree_is_drawn_with_a_disc_per_position_and_its_best_line():
    game = Hex(size=2)
    search = reusing_uct(game, simulations=12)
    one = jax.tree.map(lambda leaf: leaf[None], game.init(jax.random.key(0)))
    found, tree = search.search(None, jax.random.key(1), search.start(None, jax.random.key(0), one))
    svg = draw_tree(tree, game)
    nodes = int((tree.node_visits[0] > 0).sum())
    discs = [node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("circle")]
    assert len(discs) == nodes
    most_visited = game.action_to_text(int(found.visits[0].argmax()))
    assert f">{most_visited}</text>" in svg
