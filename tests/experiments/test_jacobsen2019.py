"""The study of training targets from its first run to its last table, on 3x3; what it says is counted again."""

import dataclasses
import json
import shutil

import pytest

from azjax import theses
from azjax.envs import Hex
from azjax.evaluation import pgn, records
from azjax.theses import jacobsen2019
from experiments import jacobsen2019_training_targets as study

TINY = {"updates": 20, "save_every": 1, "simulations": 2, "blocks": 1, "channels": 4, "batch_size": 8}
SETTINGS = study.Settings(
    small=study.Board(3, ("A2", "D2"), 2, 1, repeated=("D2",), **TINY),
    large=study.Board(3, ("G1", "H1"), 2, 2, **TINY),
    compared_positions=20,
    compared_pairs=1,
    rated_every=10,
    hexy="hexy?depth=1",
    stronger=3,
    target_pairs=1,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of results of the whole study with tiny settings, and how to run it again.

    The runs' folder is lost after every stage; no run is made twice.
    """
    folder = tmp_path_factory.mktemp("jacobsen2019")
    places = {"out": folder / "runs", "results": folder / "results"}
    trained, train = [], study.study.api.train

    def note(config, path, **options):
        trained.append(path.name)
        return train(config, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.study.api, "train", note)
        for stage in study.STUDY.stages:
            study.STUDY.run(SETTINGS, only=(stage,), **places)
            shutil.rmtree(folder / "runs", ignore_errors=True)  # as if the machine had ended here
    # Single precision is what D2 has anyway.
    assert trained == [f"3x3-{run}" for run in "A2-0 D2-0 G1-0 H1-0 D2-1 D2-mixed D2-half".split()]
    return folder / "results", lambda only: study.STUDY.run(SETTINGS, only=only, **places)


def table(results, name):
    return json.loads((results[0] / f"{name}.json").read_text())["rows"]


def test_the_theses_tables_come_from_its_own_results(results):
    first, second = table(results, "thesis-c1"), table(results, "thesis-c2")
    # Tables C.1 and C.2 of the thesis.
    assert (round(first["Hexy (expert)"]["Elo"]), first["Hexy (expert)"]["games"]) == (888, 30)
    assert (round(second["H2 2400"]["Elo"]), second["H2 2400"]["games"]) == (843, 2)
    assert len(first) == 16 and len(second) == 17
    assert (results[0] / "thesis-elo.png").stat().st_size > 1000


def test_every_run_has_its_budget_and_a_point_at_every_save_and_at_the_start(results):
    rows = table(results, "categories-3x3")
    assert {name: (row["runs"], row["games"], row["updates"]) for name, row in rows.items()} == {
        "A2": (1, 100, 20),
        "D2": (2, 100, 20),
    }  # 50 games for 10 updates; the second seed on the small board came last
    path = next((results[0] / "points").glob("3x3-D2-1-match*"))
    assert [row["iteration"] for row in json.loads(path.read_text())["found"]] == [0, 1, 2]


def test_what_a_step_brings_is_counted_from_the_points(results):
    wins = []
    for name in ("G1", "H1"):
        path = next((results[0] / "points").glob(f"3x3-{name}-0-match*"))
        found = json.loads(path.read_text())["found"]
        wins.append(
            sum(row["as_first"]["wins"] + row["as_second"]["wins"] for row in found)
            / sum(row["games"] for row in found)
        )
    (label,) = table(results, "steps-3x3")
    assert label == "G1 to H1: pre-activation"
    assert table(results, "steps-3x3")[label]["all"] == pytest.approx(100 * (wins[1] - wins[0]))


def test_only_experiments_that_differ_in_one_thing_are_compared():
    found = study.steps_of(study.FULL.small.names)
    assert [(one, other) for one, other, _ in found] == [
        *(("A1", "B1"), ("A2", "B2"), ("B1", "C1"), ("B2", "C2"), ("C1", "D1"), ("C2", "D2")),
    ]
    assert [what for *_, what in study.steps_of(study.FULL.large.names)] == [
        "utility",
        "mean value",
        "pre-activation",
    ]


def test_newcombes_interval_is_that_of_his_paper():
    # Newcombe 1998, table II, example (a): 56/70 - 48/80 is 0.2, by method 10 from 0.0524 to 0.3339.
    gain, (low, high) = study.difference((48, 80), (56, 70))
    assert (gain, low, high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_the_tournament_has_the_games_of_its_scheme_and_its_files_agree(results):
    # Two agents after 0, 10 and 20 updates: 15 matches of two; each four games with the baseline; Hexy two with each.
    games = pgn.read((results[0] / "tournament.pgn").read_text())
    assert len(games) == 15 * 2 + 6 * 4 + 7 * 2
    kept = records.read_records(results[0] / "tournament-games.txt")
    assert sorted((g.white, g.black, g.result) for g in games) == sorted(
        (*record.players, record.result_text) for record in kept
    )
    assert sum(row["games"] for row in table(results, "tournament").values()) == 2 * len(games)


def test_eight_games_with_the_hexy_like_player_are_drawn_with_their_numbers(results):
    drawings = sorted(results[0].glob("game-*.svg"))
    assert [path.name[:6] for path in drawings] == [f"game-{number}" for number in range(1, 9)]
    assert all(">1<" in path.read_text() and ">4<" in path.read_text() for path in drawings)


def test_all_three_precisions_are_compared(results):
    rows = table(results, "precision")
    assert list(rows) == ["single", "mixed", "half"] and all(row["loss"] > 0 for row in rows.values())
    answers = table(results, "precision-answers")
    assert 0 < answers["float16"]["value, mean difference"] < answers["bfloat16"]["value, largest"] < 0.1


def test_the_best_agent_meets_the_baseline_a_stronger_one_and_hexy(results):
    rows = table(results, "targets")
    assert [label.split(" against ")[1] for label in rows] == ["hexy?depth=1", "uct:2", "uct:3"]
    assert all(row["seconds per move of the opponent"] > 0 for row in rows.values())


def test_what_is_kept_of_the_runs_suffices_to_play(results):
    kept = {path.stem for path in (results[0] / "agents").iterdir()}
    players = {f"3x3-{run}-0-{step}" for run in ("G1", "H1") for step in (0, 1, 2)}
    assert kept == players | {f"3x3-{run}-2" for run in ("A2-0", "D2-0", "D2-1", "D2-mixed", "D2-half")}


def test_the_study_goes_on_where_it_was_stopped(results, monkeypatch):
    monkeypatch.setattr(study.study.api, "train", None)
    monkeypatch.setattr(study, "make_match", None)
    before = (results[0] / "tournament.json").read_text()
    results[1](())
    assert (results[0] / "tournament.json").read_text() == before


def test_the_settings_of_both_sizes_are_the_theses(monkeypatch):
    for name in study.FULL.small.names:
        assert study.config_of(study.FULL, study.FULL.small, name) == theses.preset(f"jacobsen2019/{name}")
    for name in study.QUICK.large.names:
        config = study.config_of(study.QUICK, study.QUICK.large, name)
        thesis = theses.preset(f"jacobsen2019/{name}")
        changed = {"network", "selfplay_dtype", "seed"}
        for field in dataclasses.fields(config):
            if field.name not in changed:
                assert getattr(config, field.name) == getattr(thesis, field.name), field.name
    assert jacobsen2019.GAMES * study.config_of(study.QUICK, study.QUICK.small, "A2").iterations == 6000
    assert Hex(size=9) == study.config_of(study.QUICK, study.QUICK.large, "H1").game
    assert len(study.costs(study.FULL)) == 15 + 2 + 1  # half and single precision, the tournament


def test_what_it_costs_can_be_said_of_a_loop_of_whole_games():
    board = dataclasses.replace(SETTINGS.small, size=2)
    config = study.config_of(SETTINGS, board, "D2")
    assert config.selfplay.plies is None and config.selfplay.lanes == 50
    assert 0 < study.study.seconds_per_evaluation(config) < 1
