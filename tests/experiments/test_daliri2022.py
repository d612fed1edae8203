"""The study of forced openings from its openings to its last table, on 3x3; what the tables say is counted again."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from azjax import theses
from azjax.envs import Hex
from azjax.nn import NetworkConfig
from azjax.training.config import SearchConfig
from experiments import daliri2022_forced_openings as study
from tests.training_cases import SMALL

TINY = dataclasses.replace(
    SMALL,
    network=NetworkConfig(blocks=1, channels=4, heads="convolutional", global_pooling=False),
    search=SearchConfig(kind="gumbel", simulations=2),
)
SETTINGS = study.Settings(
    small=study.Board(
        3,
        agents=("baseline", "A3", "winning", "grown"),
        repeated=("baseline",),
        iterations=2,
        checkpoints=1,
        source_pairs=8,
        validity_pairs=2,
    ),
    large=study.Board(4, agents=()),
    between=study.Board(2, agents=(), source_pairs=4, per_colour=2),
    preset="tiny",
    source_simulations=2,
    simulations=5,
    uct=(2,),
    raw_simulations=(2,),
    match_pairs=4,
    validity_checkpoints=2,
    processes=1,
    ladder_pairs=1,
    ladder_levels=2,
    ladder_simulations=2,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of results of the whole study, run with tiny settings, and how to run it again.

    The runs' folder is lost after the trainings; they are not made again.
    """
    folder = tmp_path_factory.mktemp("daliri2022")
    places = {"out": folder / "runs", "results": folder / "results"}

    def run(only: tuple[str, ...] = (), **other_places: pathlib.Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(theses, "preset", {"tiny": TINY}.__getitem__)
            patch.setattr(theses, "preset_names", lambda: ("tiny",))
            study.STUDY.run(SETTINGS, only=only, **places | other_places)

    with pytest.MonkeyPatch.context() as patch:
        trained, train = [], study.study.api.train
        patch.setattr(
            study.study.api,
            "train",
            lambda *given, **options: trained.append(given) or train(*given, **options),
        )
        run(("openings", "agents"))
        (folder / "runs").rename(folder / "gone")  # as if the machine had ended here
        assert len(trained) == 5
        run()
        assert len(trained) == 5
    return folder / "results", run


def table(results, name):
    return json.loads((results[0] / f"{name}.json").read_text())["rows"]


def kept(results, name):
    return json.loads((results[0] / "points" / f"{name}.json").read_text())["found"]


def curve(results, run, colour):
    (path,) = (results[0] / "points").glob(f"hex3-{run}-wmsr*")
    return [100 * row[colour]["share"] for row in json.loads(path.read_text())["found"]]


def test_openings_are_those_that_brute_force_counts(results):
    rows = table(results, "openings")
    assert [row["3x3, legal"]["ours"] for row in rows.values()] == [9, 72, 504]
    # By enumeration of all positions; the last move wins, whatever came before.
    assert [row["winning"]["ours"] for row in rows.values()] == [5, 4, 224]


def test_every_agent_has_its_runs_and_every_checkpoint_is_judged(results):
    rows = table(results, "agents")
    assert {label: row["runs"] for label, row in rows.items()} == {
        "3x3 baseline": 2,
        "3x3 A3": 1,
        "3x3 winning": 1,
        "3x3 grown": 1,
    }
    assert len(curve(results, "A3-0", "first_player")) == 2  # the start and the end
    start = curve(results, "grown-0", "first_player")[0]
    assert start == curve(results, "A3-0", "first_player")[-1]  # where it began


def test_peaks_differences_and_gains_are_those_of_the_curves(results):
    base, again, a3 = (
        np.array(curve(results, name, "first_player")) for name in ("baseline-0", "baseline-1", "A3-0")
    )
    peaks = table(results, "hex3-black-peaks")
    assert peaks["baseline"]["peak %"]["ours"]["mean"] == pytest.approx((base.max() + again.max()) / 2)
    assert peaks["baseline"]["at the end %"]["ours"]["mean"] == pytest.approx((base[-1] + again[-1]) / 2)
    assert peaks["baseline"]["peak %"]["ours"]["count"] == 2 and peaks["A3"]["peak %"]["ours"]["count"] == 1
    first, second = (table(results, f"hex3-black-aod-{half}") for half in ("first", "second"))
    assert first["A3"]["baseline"]["ours"] == pytest.approx(a3[0] - base[0])
    assert second["A3"]["baseline"]["ours"] == pytest.approx(a3[1] - base[1])
    assert second["baseline"]["A3"]["ours"] == -second["A3"]["baseline"]["ours"]
    gains = table(results, "hex3-black-gains")
    assert gains["A3"]["second half"]["ours"]["mean"] == pytest.approx(a3[1] - base[1])
    whole = gains["all with forced moves"]["both"]["ours"]
    assert whole["mean"] == pytest.approx((a3 - base).mean()) and whole["count"] == 1


def test_the_suite_is_nobodys_opening_and_its_table_counts_what_was_proven(results):
    found, rows = kept(results, "hex3-suite"), table(results, "suites")
    counts = found["counts"]
    assert counts["games"] == rows["games of the source"]["3x3"]["ours"] == 16
    assert rows["winning"]["3x3"]["ours"] + rows["losing"]["3x3"]["ours"] == counts["moves"]
    assert rows["won for who is to move"]["3x3"]["ours"] + counts["lost"] == counts["solved_or_tried"]
    assert counts["looked_up"] > 0 and counts["not_proven"] == 0
    unopened = [line for line in found["lines"] if not line["opened_by"]]
    assert {len(line["moves"]) > 1 for line in unopened} == {True}  # `tiny` opens with no move or one
    players = table(results, "hex3-players")
    # A trained player is not asked about what its own run opened games with, which is no preset's opening here.
    own = {label for label in players if "simulations" in label}
    assert {row["positions"] for label, row in players.items() if label not in own} == {len(unopened)}
    assert all(row["positions"] <= len(unopened) for row in players.values())
    assert (results[0] / "hex3.jsonl").read_text().count("\n") == len(found["lines"])


def test_games_costs_and_the_ladder_are_counted(results):
    (match,) = table(results, "matches").values()
    assert match["games"] == 8 and match["different"] <= 8
    validity = table(results, "validity")["3x3"]
    found = kept(results, "hex3-validity")
    assert validity["checkpoints"] == len(found["scores"]) == 2
    assert validity["seconds a game"]["ours"] == found["seconds_per_game"] > 0
    ladder = table(results, "hex3-A3-ladder")
    assert list(ladder) == ["uct:2", "uct:6"]  # 2 * 10^(n / 2)
    assert {row["games"] for row in ladder.values()} == {2}  # one judgement of two games
    assert (results[0].parent / "gone" / "hex3" / "A3-0" / "report.html").exists()


def test_all_figures_and_drawings_are_there(results):
    names = {path.name for path in results[0].iterdir() if path.suffix in (".png", ".svg")}
    assert names >= {
        "hex3-raw.png",
        "hex3-smooth.png",
        "hex3-histograms.png",
        "tree-2x2.png",
        "hex3-validity.png",
    }
    assert names >= {"hex3-hardest-black.svg", "hex3-hardest-white.svg", "hex3-A3-ladder.png"}


def test_with_the_runs_gone_nothing_is_done_twice_and_later_stages_have_their_players(
    results, tmp_path, monkeypatch
):
    kept_results = tmp_path / "results"
    shutil.copytree(results[0], kept_results)
    names = ("hex3-black-peaks.json", "hex3-players.json", "gains.json", "suites.json", "hex3-A3-ladder.json")
    before = [(kept_results / name).read_bytes() for name in names]
    played = json.loads((kept_results / "matches.json").read_text())["rows"]
    for place, name in ((study.study.api, "train"), (study.study, "evaluate"), (study, "make_solver")):
        monkeypatch.setattr(place, name, None)
    for path in (kept_results / "points").glob("*against*"):
        path.unlink()
    results[1](out=tmp_path / "other runs", results=kept_results)
    assert [(kept_results / name).read_bytes() for name in names] == before
    again = json.loads((kept_results / "matches.json").read_text())["rows"]
    assert again.keys() == played.keys() and [row["games"] for row in again.values()] == [8]
    # Nothing that is kept says where the runs were.
    folder = str(results[0].parent)
    assert not [path for path in (kept_results / "points").iterdir() if folder in path.read_text()]


def test_who_needs_no_network_is_not_asked_again_when_another_agent_becomes_the_best(
    results, tmp_path, monkeypatch
):
    shutil.copytree(results[0], tmp_path / "results")
    best_run, asked = study.best_run, []

    def another(work, board):
        return next(
            run
            for runs in study.runs_of(work, board).values()
            for run in runs.values()
            if run.name != best_run(work, board).name
        )

    monkeypatch.setattr(study, "best_run", another)
    monkeypatch.setattr(study, "_asked", lambda path, text, best: asked.append(text) or {"all": 0.0})
    results[1](only=("players",), out=tmp_path / "other runs", results=tmp_path / "results")
    assert asked and all(text.startswith("az:") for text in asked)


@pytest.mark.parametrize("settings", [study.QUICK, study.FULL])
def test_agents_differ_in_their_openings_alone(settings):
    for board in settings.boards:
        configs = {agent: study.config_of(settings, board, agent, 0, "winning.db") for agent in board.agents}
        kinds = {agent: config.selfplay.openings for agent, config in configs.items()}
        expected = {"baseline": "none", "winning": "winning.db", "grown": "A3"}
        assert kinds == {agent: expected.get(agent, agent) for agent in board.agents}
        plain = {
            dataclasses.replace(config, selfplay=dataclasses.replace(config.selfplay, openings="none"))
            for config in configs.values()
        }
        assert len(plain) == 1
        (config,) = plain
        assert config.game == Hex(board.size) and config.iterations % config.save_every == 0


def test_full_is_table_5_1_and_its_costs_can_be_told():
    for board, steps in ((study.FULL.small, 100), (study.FULL.large, 200)):
        config = study.config_of(study.FULL, board, "A123", 0)
        preset = theses.preset(f"daliri2022/hex{board.size}-A123")
        assert dataclasses.replace(config, evaluation=preset.evaluation) == preset
        assert config.iterations // config.save_every == steps
    training = next(study.costs_of(study.FULL))
    # 18 runs of 100 steps of 65,536 positions, each searched with 150 evaluations and learned from twice.
    assert training.evaluations == 18 * 100 * 65_536 * (150 + 3 * 2)


@pytest.mark.parametrize(("size", "colour"), list(study.GAINS))
def test_the_thesiss_tables_of_differences_follow_from_the_gains(size, colour):
    # Cells of Tables 7.3 to 7.6 that do not name the baseline.
    printed = {
        (6, "Black to play"): [("A1", "A2", 0, 5.74), ("A3", "A123", 1, -0.49)],
        (6, "White to play"): [("A2", "A1", 0, 0.64), ("A3", "A2", 1, 6.176)],
        (8, "Black to play"): [("A123", "A2", 0, 6.64), ("A1", "A3", 1, -1.66)],
        (8, "White to play"): [("A3", "A1", 0, 0.24), ("A2", "A3", 1, -15.46)],
    }
    for row, column, half, points in printed[size, colour]:
        found = study._their_difference(study.GAINS[size, colour], row, column, half)
        assert found == pytest.approx(points, abs=0.011)


def test_the_mean_gain_is_over_agents_and_its_interval_over_the_seeds_that_all_of_them_have():
    gains = {
        "A1": np.array([[1.0, 3.0], [3.0, 5.0]]),
        "A2": np.array([[0.0, 0.0]]),
        "A3": np.array([[3.0, 5.0], [5.0, 9.0]]),
        "winning": np.array([[50.0, 50.0]]),  # whose openings are not all legal moves
    }
    rows = study._group_rows(gains, {})
    assert list(rows) == ["all with forced moves", "of them A1, A3"]
    everyone, repeated = (row["both"].ours for row in rows.values())
    assert (everyone.mean, everyone.count) == (2, 1)  # of 2, 0 and 4 with the first seed
    # 3 with the first seed, 5.5 with the second; t(0.975, 1) = 12.706 times a standard error of 1.25.
    assert (repeated.mean, repeated.count) == (4.25, 2)
    assert repeated.interval == pytest.approx((4.25 - 15.883, 4.25 + 15.883), abs=1e-3)


@pytest.mark.parametrize(("board", "mean"), [(study.FULL.small, 11.06), (study.FULL.large, 13.70)])
def test_the_thesiss_mean_gains_are_those_of_its_sixteen_cells(board, mean):
    gains = {agent: np.zeros((1, 2)) for agent in study.FORCED}
    rows = study._group_rows(gains, study._their_gains(board, study.COLOURS))
    assert rows["all with forced moves"]["both"].theirs == pytest.approx(mean, abs=0.005)
