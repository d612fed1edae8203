"""Curves over checkpoints: smoothing, differences, files that go on, pictures, and the command around them."""

import json
import sys

import jax
import numpy as np
import pytest

from azjax import cli, training
from azjax.evaluation import curve as curve_files
from azjax.evaluation import judges
from azjax.plots import curves, style
from tests.training_cases import SMALL, create_run

# Speeds and stopping distances of cars (Ezekiel 1930), and what R's `lowess(cars)` gives for them, with its
# defaults: a fraction of 2/3, three robust rounds.
CARS = np.array(
    "4 2 4 10 7 4 7 22 8 16 9 10 10 18 10 26 10 34 11 17 11 28 12 14 12 20 12 24 12 28 13 26 13 34 13 34 13 46 14 26"
    " 14 36 14 60 14 80 15 20 15 26 15 54 16 32 16 40 17 32 17 40 17 50 18 42 18 56 18 76 18 84 19 36 19 46 19 68"
    " 20 32 20 48 20 52 20 56 20 64 22 66 23 54 24 70 24 92 24 93 24 120 25 85".split(),
    float,
).reshape(-1, 2)
SMOOTH_CARS = {
    4: 4.965459,
    7: 13.124495,
    8: 15.858633,
    9: 18.579691,
    10: 21.280313,
    11: 24.129277,
    12: 27.119549,
    13: 30.027276,
    14: 32.962506,
    15: 36.757728,
    16: 40.435075,
    17: 43.463492,
    18: 46.885479,
    19: 50.793152,
    20: 56.491224,
    22: 67.585824,
    23: 73.079695,
    24: 78.643164,
    25: 84.328698,
}


def test_lowess_agrees_with_r():
    speed, distance = CARS.T
    expected = [SMOOTH_CARS[int(x)] for x in speed]
    np.testing.assert_allclose(curves.lowess(speed, distance, 2 / 3), expected, atol=1e-6)


def test_lowess_keeps_straight_lines():
    x = np.arange(40.0)
    np.testing.assert_allclose(curves.lowess(x, 3 - 0.5 * x, 0.2), 3 - 0.5 * x, atol=1e-9)
    np.testing.assert_allclose(curves.lowess(x, np.full(40, 7.0)), 7)


def test_lowess_ignores_an_outlier():
    x = np.arange(40.0)
    y = x + np.where(x % 2, 1, -1)
    y[20] = 60
    assert abs(curves.lowess(x, y, 0.5)[20] - 20) < 0.2
    assert abs(curves.lowess(x, y, 0.5, rounds=0)[20] - 20) > 3


def test_lowess_refuses_curves_of_different_lengths():
    with pytest.raises(ValueError, match="equally long"):
        curves.lowess([1, 2], [1])


def test_the_average_of_differences_favours_the_better_curve():
    a, b = [0.1, 0.2, 0.4], [0.2, 0.5, 0.4]
    assert curves.aod(a, b) == pytest.approx((0.1 + 0.3 + 0) / 3)
    assert curves.aod(b, a) == -curves.aod(a, b)


def test_differences_add_up():
    a, b, c = np.random.default_rng(0).random((3, 20))
    assert curves.aod(a, b) + curves.aod(b, c) == pytest.approx(curves.aod(a, c))


def test_101_checkpoints_are_halved_into_50_and_51():
    # As the values in the tables of Daliri 2022 show, which are multiples of 1/50 and 1/51.
    zero, step = np.zeros(101), np.arange(101) >= 50
    assert curves.aod_by_half(zero, step) == (0, 1)


def test_the_table_holds_row_minus_column():
    table = curves.aod_table({"base": [0.1, 0.2], "forced": [0.3, 0.6]})
    assert table["forced"]["base"] == pytest.approx(0.3)
    assert table["base"]["forced"] == pytest.approx(-0.3)
    assert table["base"]["base"] == 0


def test_the_first_of_several_maxima_counts():
    assert curves.first_maximum([0, 10, 20, 30], [0.1, 0.9, 0.3, 0.9]) == (10, 0.9)


def test_only_missing_checkpoints_are_measured(tmp_path):
    curve, asked = curve_files.Curve(tmp_path / "curve.jsonl"), []

    def judge(iteration):
        asked.append(iteration)
        return {"share": iteration / 10}

    curve.measure([2, 4], judge)
    rows = curve.measure([2, 4, 6], judge)
    assert asked == [2, 4, 6]
    assert rows == [{"iteration": i, "share": i / 10} for i in (2, 4, 6)]


def test_a_line_cut_short_by_a_crash_is_measured_again(tmp_path):
    path = tmp_path / "curve.jsonl"
    path.write_text('{"iteration": 2, "share": 0.5}\n{"iteration": 4, "sha')
    rows = curve_files.Curve(path).measure([2, 4], lambda iteration: {"share": 1.0})
    assert [row["share"] for row in rows] == [0.5, 1.0]
    assert len(path.read_text().splitlines()) == 2


def test_numbers_are_found_by_their_path():
    row = {"iteration": 3, "loss": 0.5, "all": {"share": 0.25, "of": 8, "interval": [0, 1]}, "games": [1]}
    assert curve_files.numbers_in(row) == ["loss", "all.share"]
    x, y = curve_files.series([row, {"iteration": 6, "all": {"share": None}}], "all.share")
    assert (x.tolist(), y.tolist()) == ([3], [0.25])


@pytest.mark.parametrize("number", [1, 60])  # matplotlib warns if a legend leaves no room for the curves
def test_a_picture_is_drawn(number, tmp_path):
    x = np.arange(20)
    many = {f"a rather long name of curve number {i}": (x, x / (20 + i)) for i in range(number)}
    curves.plot(tmp_path / "curve.png", many | {"none": ([], [])}, title="a curve")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_a_clear_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"pip install 'azjax\[plots\]'"):
        style.require_matplotlib()


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run that has two checkpoints but has not learned anything."""
    folder = tmp_path_factory.mktemp("runs") / "hex3"
    run = create_run(folder, SMALL)
    state = training.make_trainer(SMALL, training.make_mesh(1)).init(jax.random.key(0))
    for iteration in (2, 4):
        run.save(state._replace(iteration=jax.numpy.int32(iteration)))
        run.save_agent(iteration, state.average)
    (folder.parent / "suite.jsonl").write_text(
        '{"game": "hex", "size": 3, "moves": [], "optimal": ["c1", "a2", "b2", "c2", "a3"]}\n'
        '{"game": "hex", "size": 3, "moves": ["b2", "a1", "b1", "b3"], "optimal": ["a3"]}\n'
    )
    return folder


def test_the_command_measures_every_checkpoint_once(run_folder, capsys, monkeypatch):
    suite = f"suite:{run_folder.parent / 'suite.jsonl'}"
    arguments = ["evaluate", str(run_folder), "--judge", suite, "--simulations", "0", "--no-plot", "--json"]
    assert cli.main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert [row["iteration"] for row in first[suite]] == [2, 4]
    # The run opens half of its games at the start, the first of the two positions.
    assert first[suite][0]["all"]["positions"] == 1
    assert first[suite][0]["left_out"] == 1
    monkeypatch.setattr(judges, "make_judge", None)  # nothing is left to be judged
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_a_sweep_draws_beside_those_of_other_runs(run_folder, tmp_path, capsys, monkeypatch):
    suite = f"suite:{run_folder.parent / 'suite.jsonl'}"
    arguments = ["evaluate", str(run_folder), "--judge", suite, "--simulations", "0"]
    create_run(tmp_path / "other", SMALL)
    assert cli.main([*arguments, "--beside", str(tmp_path / "other")]) == 2
    assert "has no results of suite" in " ".join(capsys.readouterr().err.split())
    name = judges.file_name(suite, judges.JudgeOptions(simulations=0), 4)
    (tmp_path / "other" / "judges").mkdir()
    (tmp_path / "other" / "judges" / f"{name}.jsonl").write_text('{"iteration": 3, "all": {"share": 0.25}}\n')
    drawn = {}
    monkeypatch.setattr(curves, "plot", lambda path, lines, title: drawn.update(lines))
    assert cli.main([*arguments, "--beside", str(tmp_path / "other")]) == 0
    assert [numbers.tolist() for numbers in drawn["other: all.share"]] == [[3], [0.25]]
    assert drawn["all.share"][0].tolist() == [2, 4]


def test_curves_side_by_side_and_histograms_are_drawn(tmp_path):
    x = np.arange(12)
    panels = {"Black": {"A1": (x, x**2), "B": (x, 3 + x % 3)}, "White": {"A1": (x, x)}}
    for name, smooth in (("raw", False), ("smooth", True)):
        figure = curves.compare(panels, smooth=smooth)
        legends = [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]
        assert legends == [
            "A1 (121.0 at 11)",
            "B (5.0 at 2)",
            "A1 (11.0 at 11)",
        ]  # the first maxima, of the raw curves
        style.save(figure, tmp_path / f"{name}.png")
    figure = curves.histograms({"stones": {"Black": [4, 4, 6], "White": [5]}})
    heights = [[bar.get_height() for bar in group] for group in figure.axes[0].containers]
    assert heights == [[2, 0, 1], [0, 1, 0]]


def test_the_command_asks_the_agent_about_the_whole_game(run_folder, capsys):
    asked = ["--judge", "whole", "exploitability", "--simulations", "0", "--no-plot", "--json"]
    assert cli.main(["evaluate", str(run_folder), *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    whole, exploited = found["whole"][0], found["exploitability"][0]
    # 5514 positions, of which 994 are over, and 10 openings of the run: the start and all first moves.
    assert whole["every_position"] and whole["kept"]["all"]["of"] == 4520 - 10
    assert whole["left_out"] == 10
    # Who has learned nothing errs somewhere, and loses as White to whoever opens in the middle.
    assert 0 < whole["kept_where_it_matters"]["all"]["share"] < 1
    assert (exploited["game_value"], exploited["as_second"]) == (1, -1)
    assert exploited["total"] == (1 - exploited["as_first"]) / 2


def test_the_command_says_what_seen_and_labels_do_not_cover(run_folder, capsys, monkeypatch):
    kinds = {
        name: judges.JUDGES[name]._replace(make=lambda context, argument: lambda point: {"share": 0.5})
        for name in ("accuracy", "labels", "mistakes")
    }
    monkeypatch.setattr(judges, "JUDGES", kinds)
    arguments = ["evaluate", str(run_folder), "--judge", *kinds, "--no-plot"]
    assert cli.main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("seen: in the replay of the newest checkpoint") == 2
    assert printed.count("the newest three at most") == 1
    assert cli.main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(rows[name][0]["covers"] == kinds[name].covers for name in kinds)
    described = " ".join(judges.describe().split())
    assert all(kind.covers in described for kind in kinds.values())


def test_an_unknown_judge_is_refused_with_all_there_are(run_folder, capsys):
    assert cli.main(["evaluate", str(run_folder), "--judge", "oracle", "--no-plot"]) == 2
    printed = capsys.readouterr().err
    assert "'oracle' names no judge" in printed
    assert "exploitability" in printed


def test_other_settings_have_other_files():
    few, many = judges.JudgeOptions(simulations=8), judges.JudgeOptions(simulations=800)
    assert judges.file_name("suite:hex5", few, 4) != judges.file_name("suite:hex5", many, 4)
    assert judges.file_name("labels", few, 4) == judges.file_name("labels", many, 9)
    assert judges.file_name("accuracy", few, 4) != judges.file_name("accuracy", few, 9)


def test_a_figure_shows_itself_in_a_notebook():
    figure, _ = style.panels(size=(1, 1))
    assert figure._repr_png_().startswith(b"\x89PNG")
