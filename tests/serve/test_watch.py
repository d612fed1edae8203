"""Runs as they are watched, the ladder of opponents, and what the command refuses."""

import json
import time

import pytest

from azjax import cli
from azjax.envs import Hex
from azjax.evaluation.arena import Outcomes
from azjax.evaluation.tournament import Match, Results
from azjax.serve import ladder as ladders
from azjax.serve.runs import Folders, curves


def test_a_run_tells_its_progress_and_its_curves(run_folder):
    folders = Folders([run_folder])
    (told,) = folders.listed()
    assert told["name"] == "tiny" and told["game"] == {"game": "hex", "size": 3}
    assert (told["iteration"], told["iterations"], told["seconds"]) == (3, 5, 30.0)
    assert told["left"] == pytest.approx(20.0)  # two iterations of ten seconds
    assert [one["step"] for one in told["snapshots"]] == [1, 3]
    found = curves(folders.folder("tiny"))
    assert found["loss/policy"] == [[10.0, 100, 1.5], [20.0, 200, 0.75], [30.0, 300, 0.5]]
    assert found["strength/score against random"][0] == [10.0, 100, 0.5, 0.4, 0.6]
    assert found["truth/policy accuracy"] == [[10.0, 100, 0.25], [30.0, 300, 0.75]]


def test_a_run_plays_against_itself_to_the_end(ask):
    status, told = ask("selfplay", {"run": "tiny", "seed": 3})
    assert status == 200
    _, position = ask("position", told["line"])
    assert position["over"]


def test_a_ladder_is_sorted_by_what_its_games_tell(tmp_path, monkeypatch):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    ladder = ladders.Ladder(Hex(size=5), [], lambda text: text)
    assert [rung["agent"] for rung in ladder.told()["rungs"]] == [
        "random",
        "uct:4",
        "uct:16",
        "uct:64",
        "uct:256",
    ]
    assert not list(tmp_path.iterdir())  # looking at it writes nothing
    path = ladder._path()
    path.parent.mkdir()
    results = Results(path, ladder.game, ladder._settings)
    results.add(Match("uct:4", "random", Outcomes(1, 0, 7), Outcomes(0, 0, 8), 16))
    rungs = ladder.told()["rungs"]
    assert [rung["agent"] for rung in rungs[:2]] == ["uct:4", "random"]  # here random was the stronger
    assert rungs[0]["elo"] == 0 and rungs[1]["elo"] > 100 and rungs[1]["games"] == 16
    assert "elo" not in rungs[2]


def test_a_calibration_plays_what_is_missing_aside(tmp_path, monkeypatch):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path))
    monkeypatch.setattr(ladders, "PAIRS", 2)
    ladder = ladders.Ladder(Hex(size=2), [], lambda text: text)
    ladder.rungs = ["random", "perfect"]
    ladder.calibrate()
    while (told := ladder.told())["calibrating"]:
        time.sleep(0.05)
    assert told["trouble"] == "" and [rung["games"] for rung in told["rungs"]] == [4, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["--token", "correct-horse-battery"], "go with --host"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16 characters"),
        (["--game", "chequers"], "--game must be one of"),
        (["--agents", "nobody"], "names no agent"),
        (["--suites", "nowhere.jsonl"], "there is no suite"),
        (["--port", "70000"], "port"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["serve", "--no-browser", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_suite_is_asked_aside_and_tells_its_wrong_answers(server, ask, tmp_path):
    path = tmp_path / "won.jsonl"
    line = {"game": "hex", "size": 2, "moves": [], "optimal": ["b1", "a2"], "value": 1}
    path.write_text("".join(json.dumps(line) + "\n" for _ in range(3)))
    server.suites = (str(path),)
    fields = {"suite": str(path), "agent": "easy"}
    assert ask("suite", fields | {"agent": "gtp:x"})[0] == 400
    while (told := ask("suite", fields | {"agent": "perfect"})[1])["status"] == "asking":
        time.sleep(0.05)
    assert told["status"] == "done" and told["correct"] == 3
    assert [answer["move"] in ("b1", "a2") for answer in told["answers"]] == [True] * 3
    while (told := ask("suite", fields)[1])["status"] == "asking":
        time.sleep(0.05)
    assert told["status"] == "failed" and "dots_and_boxes" in told["why"]
