"""How results look: the numbers of a table counted by hand, in text of at most 80 columns and in HTML."""

import json
import re

import numpy as np
import pytest

from azjax.common.agent import Agent
from azjax.envs import Hex
from azjax.evaluation import suites, tournament
from azjax.evaluation.arena import MatchResult, Outcomes
from azjax.evaluation.evaluate import Evaluation, evaluate
from azjax.evaluation.judges import JudgeOptions, file_name, options_of
from azjax.evaluation.ratings import Score, maximum_likelihood
from azjax.solvers.core import Solution
from tests.training_cases import SMALL, create_run


def cells(page):
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", page)]


def words(result):
    lines = repr(result).splitlines()
    assert all(len(line) <= 80 for line in lines)
    return [re.split(r" {2,}", line.strip()) for line in lines]


def test_a_match_shows_what_it_counted():
    result = MatchResult(
        first=Outcomes(3, 1, 0),
        second=Outcomes(2, 0, 2),
        distinct=Outcomes(4, 1, 2),
        mean_plies=7.5,
        forfeits=0,
        opponent_forfeits=0,
        played=None,
        players=("uct:8", "<random>"),
    )
    title, head, everything, first, second, different = words(result)
    assert title == ["uct:8 against <random>"]
    assert head == ["games", "wins", "draws", "losses", "score", "95 % interval"]
    # Wilson's interval of 5.5 of 8: (0.6875 + 0.2401 -+ 1.96 sqrt(0.0269 + 0.0150)) / 1.4802.
    assert everything == ["all", "8", "5", "1", "2", "68.8 %", "35.6 to 89.8 %"]
    assert [row[0] for row in (first, second, different)] == ["as first", "as second", "different"]
    page = result._repr_html_()
    assert cells(page)[1] == everything
    assert "uct:8 against &lt;random&gt;" in page


def test_a_suites_result_shows_the_scores_of_each_player():
    answers = [suites.Answer(0, 4, "b2", True, 0.25), suites.Answer(0, 0, "a1", False, 0.75)]
    result = suites.SuiteResult(answers, suites.score(answers), (suites.score(answers), None))
    head, everything, first = words(result)
    assert head == ["positions", "right", "of", "share", "95 % interval", "random mover"]
    assert everything[:4] == ["all", "1", "2", "50.0 %"] and everything[5] == "50.0 %"
    assert first[0] == "player 0 to move"
    assert cells(result._repr_html_())[1] == everything


def test_ratings_and_the_cross_table_show_the_best_first():
    ratings = maximum_likelihood([Score("weak", "strong", 5, 0, 15), Score("strong", "weak", 15, 0, 5)])
    title, _, best, worst = words(ratings)
    assert title == ["Ratings, 95 % intervals"]
    # 3 to 1 is 400 log10(3) = 191 points apart.
    assert (best[:2], worst[:2]) == (["strong", "95"], ["weak", "-95"])
    assert best[4:7] == ["40", "75.0 %", "0.0 %"]
    assert [row[0] for row in cells(ratings._repr_html_())] == ["player", "strong", "weak"]
    met = tournament.Match("strong", "weak", Outcomes(15, 0, 5), Outcomes(15, 0, 5), 40)
    table = tournament.CrossTable(["strong", "weak"], [[None, met], [met.turned(), None]], [0.75, 0.25])
    assert words(table)[1] == ["1", "strong", "-", "30/40", "75.0 %", "40"]
    assert table._repr_html_().startswith("<svg")


def test_a_solution_shows_values_and_moves_of_the_first_positions():
    number = 12
    optimal = np.zeros((number, 9), bool)
    optimal[0, [3, 4]] = True
    proven = np.arange(number) != 1
    solution = Solution(
        np.where(proven, 1.0, np.nan).astype(np.float32),
        optimal,
        proven,
        np.full(number, 0.5, np.float32),
        np.full(number, 1234, np.int64),
    )
    head, first, second, *_, last = words(solution)
    assert head == ["position", "optimal moves", "value", "seconds", "nodes"]
    assert first == ["0", "3 4", "+1", "0.5", "1,234"]
    assert second == ["1", "unknown", "0.5", "1,234"]
    assert last == ["... and 2 more positions"]
    assert "a2 b2" in solution.grid(Hex(3)).text()
    assert cells(solution._repr_html_())[1] == first


def test_a_run_shows_how_it_went(tmp_path):
    run = create_run(tmp_path / "run", SMALL)
    assert "0 of 12 iterations" in repr(run) and "<table>" in run._repr_html_()
    lines = [
        {"iteration": n, "positions": 100 * n, "loss": {"total": 3 / n, "policy": 2 / n, "value": 1 / n}}
        for n in range(1, 12)
    ]
    lines[4]["loss"]["policy"] = None  # what was no number
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = words(run)
    assert "11 of 12 iterations" in " ".join(" ".join(line) for line in shown[:-7])
    assert shown[-7] == ["iteration", "positions", "policy loss", "value loss"]
    assert shown[-6] == ["1", "100", "2.000", "1.000"]
    assert shown[-1] == ["11", "1,100", "0.182", "0.091"]
    assert [line[0] for line in shown[-6:]] == ["1", "3", "5", "7", "9", "11"] and len(shown[-4]) == 3
    assert run._repr_html_().count("<svg") == 1


def test_a_run_shows_no_loss_while_the_replay_fills(tmp_path):
    run = create_run(tmp_path / "run", SMALL)
    losses = ({"total": 0.0, "policy": 0.0, "value": 0.0}, {"total": 3, "policy": 2, "value": 1})
    lines = [{"iteration": n + 1, "positions": 100, "loss": loss} for n, loss in enumerate(losses)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert words(run)[-2:] == [["1", "100"], ["2", "100", "2.000", "1.000"]]


def test_an_agent_shows_its_name_and_not_its_weights():
    assert repr(Agent("uct:8", print, np.zeros(10_000))) == "Agent('uct:8')"


@pytest.fixture
def judged(tmp_path):
    """A run with results of a judge on disk, so that nothing is compiled."""
    run = create_run(tmp_path / "run", SMALL)
    for iteration in (2, 4, 6):
        run.save_agent(iteration, {"weights": np.zeros(1, np.float32)})
    folder = run.path / "judges"
    folder.mkdir()
    rows = [
        {"iteration": 2 * number, "score": number / 4, "all": {"share": number / 8}} for number in (1, 2, 3)
    ]
    options = JudgeOptions(pairs=20, simulations=8)
    name = f"{file_name('match:random', options, 6)}.jsonl"
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run, rows


def test_an_evaluation_shows_its_numbers_over_the_checkpoints(judged):
    run, rows = judged
    text = "match:random??pairs=20&simulations=8"
    found = evaluate(run.path, text)[text]
    assert isinstance(found, Evaluation) and found.rows == rows and found.path.exists()
    assert words(found) == [
        [text, "2", "4", "6"],
        ["score", "0.25", "0.5", "0.75"],
        ["all", "0.125", "0.25", "0.375"],
    ]
    page = cells(found._repr_html_())
    assert page[1][:4] == ["score", "0.25", "0.5", "0.75"]
    assert page[1][4].startswith("<svg")
    assert len(found.grid(most=2).columns) == 3


def test_evaluate_refuses_texts_before_any_work(judged):
    run, _ = judged
    with pytest.raises(ValueError, match="'oracle' names no judge"):
        evaluate(run, "match:random??pairs=20&simulations=8", "oracle")
    with pytest.raises(ValueError, match=r"uct has no option 'pairs'.*follow two question marks"):
        evaluate(run, "match:uct:20?pairs=3")


def test_options_in_a_text_win_and_name_the_same_file():
    given = JudgeOptions(simulations=8, seed=3)
    assert options_of("suite:hex6?simulations=1000&c=2&solve=1", given) == JudgeOptions(
        simulations=1000, c=2.0, solve=True, seed=3
    )
    assert options_of("accuracy?policy_simulations=2,4", given).policy_simulations == (2, 4)
    same = file_name("whole", JudgeOptions(simulations=128), 4)
    assert file_name("whole?simulations=128", JudgeOptions(), 4) == same
    assert "c=" not in same and "solve" not in same  # so were they named before there was a choice
    assert "c=2.0_solve=True" in file_name("whole?c=2&solve=1", JudgeOptions(), 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite:hex6?simulations=-1", "simulations must be at least 0, got -1"),
        ("suite:hex6?simulations=many", "simulations of suite must be a whole number, got 'many'"),
        (
            "suite:hex6?pairs=3",
            "suite has no option 'pairs'; its options are simulations, c, solve, unopened, seed",
        ),
        ("suite:hex6?c=-1", "c must be at least 0"),
        ("truth?simulations=3", "truth has no option 'simulations'; its options are board"),
        ("suite", "write suite:NAME"),
        ("truth:3", "write truth"),
        ("match", "write match:AGENT"),
        ("match:nobody", "'nobody' names no agent"),
        ("boards:easy??sizes=3,x", "sizes of boards must be one or several, separated by commas"),
        ("suite:nothing-like-it", "there is no suite nothing-like-it"),
    ],
)
def test_a_wrong_text_of_a_judge_is_told_what_would_be_right(text, message):
    from azjax.evaluation.judges import check_text

    with pytest.raises(ValueError, match=message):
        check_text(text)
