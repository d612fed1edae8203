"""The common harness: what was found is kept, a stopped study goes on, other settings are refused, tables show both."""

import dataclasses
import json
import math
import shutil

import jax
import numpy as np
import pytest

from azjax.agents.trained import load_weights
from azjax.evaluation import statistics
from azjax.plots import style
from azjax.positions import write_positions
from experiments import study
from tests.training_cases import SMALL

TINY = dataclasses.replace(SMALL, iterations=2, save_every=1)


@dataclasses.dataclass(frozen=True)
class Settings:
    iterations: int = 2
    theirs: float = 50.0


def make_study(stages):
    return study.Study("tiny", "A study.", Settings(), Settings(iterations=3), stages, costs_of)


def costs_of(settings):
    config = dataclasses.replace(TINY, iterations=settings.iterations)
    return [study.training_cost("training", config), study.Cost("solving", hours=0.5)]


def work_in(folder, stage, settings=Settings()):
    make_study({"only": stage}).run(settings, out=folder / "runs", results=folder / "results")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The folder of a study that trained a run and swept a suite over its checkpoints; and what the sweep gave."""
    folder = tmp_path_factory.mktemp("study")
    lines = [
        {"game": "hex", "size": 3, "moves": moves.split(), "optimal": optimal.split()}
        for moves, optimal in (("a1 b2", "c2"), ("b2 a1", "a3 c1"))
    ]
    write_positions(folder / "suite.jsonl", lines)
    swept = []

    def stage(work):
        run = work.run("agents/first", TINY)
        swept.append(work.sweep(run, f"suite:{folder / 'suite.jsonl'}?simulations=0"))
        work.cost_of(run)

    work_in(folder, stage)
    return folder, stage, swept


def test_a_run_is_trained_and_every_checkpoint_judged_once(judged, monkeypatch):
    folder, stage, swept = judged
    rows = swept[0]
    assert [row["iteration"] for row in rows] == [0, 1, 2] and rows[0]["all"]["positions"] == 2
    monkeypatch.setattr(study.api, "train", None)
    monkeypatch.setattr(study, "evaluate", None)
    work_in(folder, stage)
    assert swept[-1] == rows
    manifest = json.loads((folder / "results" / "manifest.json").read_text())
    assert manifest["costs"]["run agents/first"]["seconds"] > 0
    assert manifest["commands"][0]["settings"] == {"iterations": 2, "theirs": 50.0}
    assert "jax" in manifest["commands"][0]["versions"]


def test_a_run_that_was_stopped_goes_on_and_a_finished_one_is_left_alone(tmp_path, monkeypatch):
    asked = []

    def train(config, folder, *, resume, **options):
        asked.append(resume)
        return real(config, folder, resume=resume, **(options if resume else options | {"watch": stop}))

    def stop(report):
        if report.row["iteration"] == 3:  # by then the first checkpoint is written
            raise KeyboardInterrupt

    longer = dataclasses.replace(TINY, iterations=3)

    real = study.api.train
    monkeypatch.setattr(study.api, "train", train)
    with pytest.raises(KeyboardInterrupt):
        work_in(tmp_path, lambda work: work.run("one", longer).path)
    rows = []
    work_in(tmp_path, lambda work: rows.append(work.run("one", longer).metrics()))
    work_in(tmp_path, lambda work: rows.append(work.run("one", longer).metrics()))
    assert asked == [False, True]
    assert [row["iteration"] for row in rows[0]] == [1, 2, 3] and rows[0] == rows[1]


def test_where_the_runs_are_gone_kept_weights_play_and_are_judged_and_nothing_is_trained(
    judged, tmp_path, monkeypatch
):
    folder = judged[0]
    suite = f"suite:{folder / 'suite.jsonl'}?simulations=0"
    found = {}

    def keep(work):
        run = work.run("agents/first", TINY)
        run.keep()
        found["own"] = load_weights(run.agent())

    def play(work):
        run = work.run("agents/first", TINY)
        found["kept"] = load_weights(run.agent())

    def judge(work):
        run = work.run("agents/first", TINY)
        run.keep(*run.checkpoints)
        found["rows"] = work.sweep(run, suite, name="once more")

    work_in(folder, keep)
    shutil.copytree(folder / "results", tmp_path / "results")
    monkeypatch.setattr(study.api, "train", None)
    work_in(tmp_path, play)
    (config, params), (own_config, own) = found["kept"], found["own"]
    assert config == own_config == TINY
    for leaf, whole in zip(jax.tree.leaves(params), jax.tree.leaves(own)):
        np.testing.assert_array_equal(leaf, whole.astype(np.float16).astype(np.float32))
    with pytest.raises(TypeError):  # of the other checkpoints nothing is kept: it would be trained again
        work_in(tmp_path, lambda work: work.run("agents/first", TINY).agent(1))
    work_in(folder, lambda work: work.run("agents/first", TINY).keep(0, 1, 2))
    shutil.copytree(folder / "results" / "agents", tmp_path / "results" / "agents", dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "runs")
    work_in(tmp_path, judge)
    assert [row["iteration"] for row in found["rows"]] == [0, 1, 2]
    assert [row["all"]["positions"] for row in found["rows"]] == [2, 2, 2]


def test_a_run_that_is_asked_for_whole_is_trained_again_where_weights_alone_are_left(
    judged, tmp_path, monkeypatch
):
    folder = judged[0]
    work_in(folder, lambda work: work.run("agents/first", TINY).keep(0, 1, 2))
    shutil.copytree(folder / "results" / "agents", tmp_path / "results" / "agents")
    asked = []

    def train(config, out, **options):
        asked.append((out.exists(), options["resume"]))
        return shutil.copytree(folder / "runs" / "agents" / "first", out) and study.checkpoint.open_run(out)

    monkeypatch.setattr(study.api, "train", train)
    work_in(tmp_path, lambda work: work.run("agents/first", TINY).path)
    assert asked == []  # its weights are enough
    metrics = []
    work_in(tmp_path, lambda work: metrics.append(work.run("agents/first", TINY, whole=True).metrics()))
    work_in(tmp_path, lambda work: metrics.append(work.run("agents/first", TINY, whole=True).metrics()))
    assert asked == [(False, False)] and [len(rows) for rows in metrics] == [2, 2]


def test_kept_weights_of_other_settings_are_refused(judged, tmp_path):
    folder = judged[0]
    work_in(folder, lambda work: work.run("agents/first", TINY).keep())
    shutil.copytree(folder / "results" / "agents", tmp_path / "results" / "agents")
    other = dataclasses.replace(TINY, search=dataclasses.replace(TINY.search, simulations=5))
    with pytest.raises(ValueError, match=r"config\.search\.simulations: 4 then, 5 now"):
        work_in(tmp_path, lambda work: work.run("agents/first", other).agent())


def test_what_is_kept_does_not_say_where_a_file_of_openings_lies(tmp_path):
    found = []

    def stage(work, folder):
        openings = str(tmp_path / folder / "winning.db")
        config = dataclasses.replace(TINY, selfplay=dataclasses.replace(TINY.selfplay, openings=openings))
        found.append(work.once("points", lambda: folder, config=config))

    work_in(tmp_path, lambda work: stage(work, "here"))
    work_in(tmp_path, lambda work: stage(work, "there"))
    assert found == ["here", "here"]
    kept = json.loads((tmp_path / "results" / "points" / "points.json").read_text())
    assert kept["of"]["config"]["selfplay"]["openings"] == "winning.db"


def test_whether_a_result_is_kept_can_be_asked(tmp_path):
    found = []

    def stage(work):
        found.append(work.has("run/one: the answer"))
        work.once("run/one: the answer", lambda: 1)
        found.append(work.has("run/one: the answer"))

    work_in(tmp_path, stage)
    work_in(tmp_path, stage)
    assert found == [False, True, True, True]


def test_results_of_other_settings_are_refused_and_stay(tmp_path):
    found = []

    def stage(work, **what):
        found.append(work.once("answer", lambda: {"share": 0.5, "interval": (0, math.inf)}, **what))

    work_in(tmp_path, lambda work: stage(work, games=3))
    work_in(tmp_path, lambda work: stage(work, games=3))
    assert found == [{"share": 0.5, "interval": [0, None]}] * 2
    kept = (tmp_path / "results" / "points" / "answer.json").read_text()
    with pytest.raises(ValueError, match="games: 3 then, 4 now"):
        work_in(tmp_path, lambda work: stage(work, games=4))
    assert (tmp_path / "results" / "points" / "answer.json").read_text() == kept


def test_a_kept_result_of_before_a_field_was_added_is_still_good(tmp_path):
    work_in(tmp_path, lambda work: work.once("points", lambda: 1, config=TINY))
    path = tmp_path / "results" / "points" / "points.json"
    kept = json.loads(path.read_text())
    del kept["of"]["config"]["search"]["c"]  # which has its default in TINY
    path.write_text(json.dumps(kept))
    work_in(tmp_path, lambda work: work.once("points", lambda: 2, config=TINY))
    other = dataclasses.replace(TINY, search=dataclasses.replace(TINY.search, simulations=5))
    with pytest.raises(ValueError, match=r"config\.search\.simulations: 4 then, 5 now"):
        work_in(tmp_path, lambda work: work.once("points", lambda: 2, config=other))


def test_a_table_has_theirs_beside_ours(tmp_path):
    rows = {
        "A1": {"peak": study.Beside(96.0, statistics.mean([97.0, 99.0])), "step": 27, "note": "a|b"},
        "B": {"peak": study.Beside(None, statistics.mean([85.5])), "step": None},
    }
    work_in(tmp_path, lambda work: work.table("peaks", "Peaks", rows, notes=("One seed of B.",)))
    lines = (tmp_path / "results" / "peaks.md").read_text().splitlines()
    assert lines[2:6] == [
        "|  | peak, thesis | ours | step | note |",
        "|---|---:|---:|---:|---:|",
        # t(0.975, 1) = 12.706; the standard error of 97 and 99 is 1.
        "| A1 | 96.0 | 98.0 (85.3 to 110.7, 2 runs) | 27 | a\\|b |",
        "| B |  | 85.5 |  |  |",
    ]
    kept = json.loads((tmp_path / "results" / "peaks.json").read_text())
    assert kept["rows"]["A1"]["peak"]["ours"]["mean"] == 98
    assert kept["rows"]["A1"]["peak"]["theirs"] == 96


def test_a_figure_is_kept(tmp_path):
    def stage(work):
        figure, (left, right) = style.panels(1, 2, title="both")
        left.plot([1, 2], [3, 4])
        right.hist([1, 1, 2])
        work.figure("both", figure)

    work_in(tmp_path, stage)
    assert (tmp_path / "results" / "both.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_says_what_it_costs_and_which_stages_there_are(tmp_path, capsys, monkeypatch):
    ran = []

    def first(work):
        """Is first."""
        ran.append(("first", work.settings))

    def second(work):
        """Is second."""
        ran.append(("second", work.settings))

    monkeypatch.setattr(study, "seconds_per_evaluation", lambda config: 3.6)
    tiny = make_study({"first": first, "second": second})
    tiny.main(["--full", "--plan"])
    assert not ran
    printed = " ".join(capsys.readouterr().out.split())
    # 16 lanes of 6 plies, 3 iterations: 288 positions; each 5 evaluations to play it and 2 * 3 to learn from it.
    assert "training 3,168 3.17" in printed and "solving 0 0.50" in printed and "all 3,168 3.67" in printed
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    tiny.main(["--only", "second", "--iterations", "7", *places])
    assert ran == [("second", Settings(iterations=7))]
    with pytest.raises(SystemExit, match="there is no stage third; there are first, second"):
        tiny.main(["--only", "third", *places])
