"""The study of scaling laws from its first run to its last table, on 2x2 and 3x3; its laws against ones made up."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest

from azjax.envs import Hex
from azjax.training import machine
from experiments import jones2021_scaling as study

SETTINGS = study.Settings(
    sizes=(2, 3),
    networks=((16, 1),),  # one, for every network is compiled for itself
    iterations=8,
    snapshots=3,
    lanes=16,
    plies=6,
    simulations=4,
    capacity=512,
    batch_size=32,
    pairs=3,
    solved_positions=20,
    resamples=5,
    test_size=3,
    test_simulations=(1, 4),
    test_pairs=2,
    test_levels=(-2000, -300),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of results of the whole study with tiny settings, its programs, and how to run it again."""
    folder = tmp_path_factory.mktemp("jones2021")
    programs, train = [], study.train_many

    def note(config, seeds, **options):
        programs.append((config.game.size, config.network.channels, tuple(seeds)))
        return train(config, seeds, **options)

    def again():
        study.STUDY.run(SETTINGS, out=folder / "runs", results=folder / "results")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "train_many", note)
        again()
    return folder / "results", programs, again


def table(results, name):
    """The rows of a table of the study."""
    return json.loads((results[0] / f"{name}.json").read_text())["rows"]


def scores(results, name):
    """The games of a file: by (player, opponent), wins and games of the first."""
    lines = [json.loads(line) for line in (results[0] / f"{name}.jsonl").read_text().splitlines()[1:]]
    return {
        (line["player"], line["opponent"]): (
            line["first"]["wins"] + line["second"]["wins"],
            sum(line["first"].values()) + sum(line["second"].values()),
        )
        for line in lines
    }


def grid_of(law, sizes, computes, noise=0.0):
    """Runs on each board, whose ratings are those of a law: three short ones, one after the other."""
    draw = np.random.default_rng(0)
    curves = []
    for size in sizes:
        for part in np.array_split(computes, 3):
            elo = law(part, np.full(len(part), size)) + noise * draw.normal(size=len(part))
            curves.append(study.Curve(size, 10**part, elo))
    return curves


def test_the_law_of_made_up_runs_is_found():
    curves = grid_of(study.THEIRS, range(3, 10), np.linspace(8, 17, 60), noise=30.0)
    law = study.fit_law(study.frontier(curves))
    assert law.slope == pytest.approx(510, rel=0.03)
    assert law.perfect_factor == pytest.approx(10 ** (430 / 510), rel=0.04)
    assert law.takeoff_factor == pytest.approx(10 ** (160 / 510), rel=0.1)
    assert law.plateau_size == pytest.approx(-270, abs=15)
    # 50 Elo short of perfect: 510 x - 430 * 5 - 4400 = -50
    assert law.perfect_at(5) == pytest.approx((430 * 5 + 4400 - 50) / 510, abs=0.1)


def test_the_law_is_found_where_the_slope_is_another():
    law = study.Law(slope=180.0, slope_size=-90.0, offset=-1500.0, plateau_size=-200.0, plateau_offset=0.0)
    found = study.fit_law(study.frontier(grid_of(law, (3, 4, 5), np.linspace(4, 12, 40))))
    # What is interpolated between the runs cuts off the corners of the law, and nothing else.
    assert found == pytest.approx(law, rel=0.02, abs=5)


def test_of_one_board_the_law_has_a_slope_and_nothing_per_board():
    law = study.fit_law(study.frontier(grid_of(study.THEIRS, (5,), np.linspace(9, 15, 40))))
    assert law.slope == pytest.approx(510, rel=0.02)
    assert law.slope_size == law.plateau_size == 0


def test_other_draws_of_equal_runs_have_the_same_law():
    curve = study.Curve(3, 10.0 ** np.arange(5, 12), study.THEIRS(np.arange(5.0, 12.0), np.full(7, 3.0)))
    law = study.fit_law(study.frontier([curve]))
    others = study.resampled_laws([curve, curve, curve], law, 4)
    assert len(others) == 4
    for other in others:
        assert other == pytest.approx(law, rel=1e-3, abs=1e-6)


def test_the_frontier_is_the_best_run_at_each_compute_and_no_run_goes_on_after_its_end():
    weak = study.Curve(3, np.array([1e2, 1e4]), np.array([-900.0, -700.0]))
    strong = study.Curve(3, np.array([1e3, 1e5]), np.array([-1000.0, -200.0]))
    found = study.frontier([weak, strong], points=4)  # at 10^2, 10^3, 10^4, 10^5
    np.testing.assert_allclose(found.log_compute, [2, 3, 4, 5])
    np.testing.assert_allclose(found.elo, [-900, -800, -600, -200])


def test_where_no_run_is_there_is_no_frontier():
    early = study.Curve(3, np.array([1e1, 1e2]), np.array([-9.0, -8.0]))
    late = study.Curve(3, np.array([1e4, 1e5]), np.array([-2.0, -1.0]))
    np.testing.assert_allclose(study.frontier([early, late], points=5).log_compute, [1, 2, 4, 5])


def test_lines_of_equal_strength_bend_where_less_search_is_enough():
    players = [(1, 5, -100), (2, 3, -100), (2, 4, 0), (3, 3, 0), (3, 1, -200), (4, 4, 0)]
    found = study.corners(*np.array(players, float).T, levels=(-100, 0, 100))
    # -100: training 1 needs 5, training 2 needs 3. 0: training 2 needs 4, 3 needs 3, and 4 with 4 saves nothing.
    assert [tuple(corner) for corner in found] == [(-100, 1, 5), (-100, 2, 3), (0, 2, 4), (0, 3, 3)]


def test_the_exchange_of_made_up_players_is_found():
    train, test = (axis.ravel() for axis in np.meshgrid(np.linspace(8, 14, 61), np.linspace(3, 7, 41)))
    elo = 300 * train + 250 * test - 5500  # log10(test) = -1.2 log10(train) + 0.004 Elo + 22
    plane = study.exchange(study.corners(train, test, elo, (-1500, -1200, -900)))
    assert plane[0] == pytest.approx(-1.2, abs=0.05)
    assert plane[1] == pytest.approx(0.004, rel=0.05)
    assert study.exchange(study.corners(train, test, elo, (-1500,))) is None  # of one line alone nobody knows


def test_what_the_table_says_of_jones_follows_from_his_parameters():
    assert study.THEIRS.perfect_factor == pytest.approx(7, abs=0.05)  # as his text says
    assert study.THEIRS(np.array([0.0, 30.0]), np.array([9.0, 9.0])).tolist() == [570 - 270 * 9, 0]


def test_everybody_meets_few_and_is_few_steps_from_everybody():
    names = [str(number) for number in range(40)]
    found = study.pairings(names)
    assert len(found) == len(set(map(frozenset, found)))
    met = {name: sum(name in pair for pair in found) for name in names}
    # steps of 1, 2, 4, 8, 16 and 32 both ways, and one player that does not learn
    assert max(met.values()) <= 2 * 6 + 1
    assert {names.index(one) for one, other in found if other == study.RANDOM} == set(range(20))
    assert {names.index(one) for one, other in found[:-1] if other == study.PERFECT} == set(range(20, 40))


def test_runs_of_a_network_are_one_program_and_are_trained_once(results):
    programs = results[1]
    assert all(len(seeds) == len(set(seeds)) for *_, seeds in programs)
    trained = [(size, units, seed) for size, units, seeds in programs for seed in seeds]
    assert sorted(trained) == [(size, 16, seed) for size in (2, 3) for seed in (0, 1)]


def test_seeds_share_programs_as_the_settings_say():
    seeds = (5, 6, 7, 8, 9)
    assert study.seeds_beside(study.Settings(seeds=seeds), 7) == seeds
    by_two = study.Settings(seeds=seeds, together=2)
    assert [study.seeds_beside(by_two, seed) for seed in (5, 8, 9)] == [(5, 6), (7, 8), (9,)]


def test_every_run_has_the_snapshots_and_the_compute_that_are_told(results):
    assert study.snapshots_of(SETTINGS, 3) == [0, 2, 4, 8] and study.snapshots_of(SETTINGS, 2) == [0, 1, 2, 4]
    config = study.config_of(SETTINGS, 3, (16, 1))
    row = table(results, "runs")["3x3, 16 units x 1 layer"]
    assert row["iterations"] == 8 and row["positions"] == 8 * 16 * 6 and row["runs"] == 2
    assert float(row["operations of training"]) == pytest.approx(
        8 * machine.iteration_operations(config), rel=0.01
    )
    # 9 cells times the planes and a bias into 16 units, these and a bias into 9 moves and a value
    planes = math.prod(Hex(3).observation_shape)
    assert row["parameters"] == (planes + 1) * 16 + 17 * 9 + 17


def test_ratings_are_from_the_games_that_are_kept(results):
    played = scores(results, "games-3x3")
    names = [player.name for player in study.players_of(SETTINGS, 3)]
    assert len(names) == 2 * 4 and set(played) == set(study.pairings(names))
    assert all(games == 6 for _, games in played.values())
    wins, games = played[study.RANDOM, study.PERFECT]
    assert wins / games <= 0.5  # of each opening one colour is lost against perfect play
    rows = table(results, "strength-3x3")
    assert rows["random play"]["Elo at the end"] < 0
    assert 0 <= rows["16 units x 1 layer"]["solved positions right %"]["mean"] <= 100


def test_the_law_stands_beside_his(results):
    rows = table(results, "law")
    slope = rows["Elo per tenfold of compute"]
    assert slope["Jones, text"] == 500 and slope["Jones, table III"] == 510
    found = slope["ours"]
    note = json.loads((results[0] / "law.json").read_text())["notes"][-1]
    assert f"max({found:.0f} log10(compute)" in note
    assert set(table(results, "boards")) == {"2x2", "3x3"}


def test_training_against_search_has_every_player_with_every_search(results):
    played = scores(results, "test-time-3x3")
    players = {name for pair in played for name in pair} - {study.RANDOM, study.PERFECT}
    assert (
        len(players) == 2 * 2
    )  # the snapshots after 2 and 8 iterations, of one seed, with 1 and 4 simulations
    assert {name.rsplit(", ")[1] for name in players} == {"1 simulations", "4 simulations"}
    rows = table(results, "test-time")
    assert rows["log10 of a move's compute per tenfold of training"]["Jones, figure 9"] == -1.2
    for name in ("frontier", "test-time"):
        assert (results[0] / f"{name}.png").stat().st_size > 1000


def test_the_study_goes_on_where_it_was_stopped_even_if_its_runs_are_gone(results, monkeypatch):
    shutil.rmtree(results[0].parent / "runs")
    monkeypatch.setattr(study, "train_many", None)
    monkeypatch.setattr(study, "make_match", None)
    before = (results[0] / "law.json").read_text()
    results[2]()
    assert (results[0] / "law.json").read_text() == before


def test_players_stand_in_the_order_of_their_compute():
    settings = dataclasses.replace(SETTINGS, networks=((64, 2), (4, 1)), snapshots=2, seeds=(0,))
    players = study.players_of(settings, 3)
    # a network of 64 units in 4 iterations takes more than one of 4 units in 8; without training all take nothing
    assert [(player.network[0], player.iteration) for player in players] == [
        *((4, 0), (64, 0), (4, 4), (4, 8), (64, 4), (64, 8)),
    ]


def test_what_it_costs_counts_every_network_on_every_board():
    settings = dataclasses.replace(study.QUICK, sizes=(3, 7))
    found = study.costs(settings)
    assert len(found) == 2 * (4 + 1) + 1
    three, seven = (next(cost for cost in found if cost.config.game == Hex(size)) for size in (3, 7))
    assert three.config.iterations == 512 and seven.config.iterations == 512 * 2**4
    assert seven.evaluations == 2**4 * three.evaluations > 0
