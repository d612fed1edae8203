"""The analysis protocol, over HTTP and standard input, and the search and the truth that it tells."""

import io
import itertools
import json
import time

import jax
import numpy as np
import pytest

from azjax.agents import ready_networks
from azjax.agents.trained import load_weights, make_evaluation
from azjax.cli import analyse
from azjax.envs import DotsAndBoxes, Hex
from azjax.positions import stack
from azjax.search import puct
from azjax.serve import desks, truth
from azjax.serve.boards import read_line, state_of
from azjax.serve.thinking import Thinker

HEX3 = {"game": "hex", "size": 3}
MOVES = ["b2", "a1"]


@pytest.fixture(scope="module")
def told(ask):
    """The analysis of one position by the run's network."""
    fields = {
        "id": "one",
        "agent": "az:tiny",
        "maxVisits": 20,
        "includePolicy": True,
        "includeAllMoves": True,
    }
    status, answer = ask("analyse", HEX3 | {"moves": MOVES} | fields)
    assert status == 200, answer
    return answer


@pytest.fixture(scope="module")
def searched(run_folder):
    """The same search by the library's own function, which knows nothing of this folder."""
    config, params = load_weights(run_folder / "tiny")
    x = stack([state_of(read_line(HEX3 | {"moves": MOVES}))])
    evaluate = make_evaluation(config, params, config.game)
    search = puct(config.game, evaluate, simulations=20, c=config.search.c)
    output = jax.jit(search)(params, jax.random.key(0), x)
    logits, value = jax.jit(evaluate)(params, jax.random.key(0), x)
    return output, jax.nn.softmax(logits[0]), float(value[0])


def test_moves_have_the_visits_and_values_of_the_search(told, searched):
    output, policy, value = searched
    infos = {info["action"]: info for info in told["moveInfos"]}
    legal = [action for action in range(9) if action not in (4, 0)]
    assert sorted(infos) == legal
    for action in legal:
        visits = int(output.visits[0, action])
        assert infos[action]["visits"] == visits
        assert infos[action]["prior"] == pytest.approx(float(policy[action]), abs=1e-5)
        if visits:
            assert infos[action]["utility"] == pytest.approx(float(output.qvalues[0, action]), abs=1e-5)
            assert infos[action]["winrate"] == pytest.approx((infos[action]["utility"] + 1) / 2)
    assert told["rootInfo"]["rawUtility"] == pytest.approx(value, abs=1e-5)
    assert told["rootInfo"]["utility"] == pytest.approx(float(output.value[0]), abs=1e-5)
    assert told["moveInfos"][0]["action"] == int(output.action[0])
    assert sum(infos[action]["visits"] for action in legal) == 20


def test_answers_have_the_form_that_katago_users_know(told):
    assert told["id"] == "one" and told["turnNumber"] == 2 and told["isDuringSearch"] is False
    assert told["rootInfo"]["currentPlayer"] == "B" and told["rootInfo"]["visits"] == 20
    assert [info["order"] for info in told["moveInfos"]] == list(range(7))
    assert len(told["policy"]) == 9 and told["policy"][0] == told["policy"][4] == -1
    assert sum(share for share in told["policy"] if share >= 0) == pytest.approx(1, abs=1e-5)


def test_variations_are_legal_and_begin_with_their_move(told):
    for info in told["moveInfos"]:
        assert info["pv"][0] == info["move"]
        read_line(HEX3 | {"moves": MOVES + info["pv"]})


def test_several_turns_are_answered_in_order_and_checkpoints_differ(ask):
    fields = HEX3 | {"agent": "az:tiny", "moves": ["b2", "a1", "c1"], "maxVisits": 4, "analyzeTurns": [2, 0]}
    _, answers = ask("analyse", fields)
    assert [answer["turnNumber"] for answer in answers] == [2, 0]
    fields = HEX3 | {"agent": "az:tiny", "moves": MOVES, "maxVisits": 4}
    values = [ask("analyse", fields | {"step": step})[1]["rootInfo"]["rawUtility"] for step in (1, 3)]
    assert values[0] != values[1]
    status, refused = ask("analyse", HEX3 | {"agent": "az:tiny", "step": 2})
    assert status == 400 and "no weights of iteration 2" in refused["error"]


def test_a_tree_grows_by_what_a_simulation_passed(ask):
    sizes = []
    for simulations in (1, 2, 7):
        _, tree = ask("tree", HEX3 | {"agent": "az:tiny", "simulations": simulations})
        nodes, passed = tree["nodes"], tree["passed"]
        assert nodes[0]["parent"] == -1 and nodes[0]["visits"] == simulations + 1
        assert passed[0] == 0 and all(nodes[b]["parent"] == a for a, b in itertools.pairwise(passed))
        assert nodes[passed[-1]]["visits"] == 1  # the new one
        sizes.append(len(nodes))
    assert sizes == [2, 3, 8]


def test_an_agent_without_a_search_says_so(ask):
    status, told = ask("analyse", HEX3 | {"agent": "random"})
    assert status == 400 and "no search tree" in told["error"]


def test_networks_that_come_with_azjax_are_asked_by_name_and_no_other_folder_is(ask, monkeypatch, run_folder):
    monkeypatch.chdir(run_folder)  # where a folder of that name would be another one
    (run_folder / "hex3").symlink_to(run_folder / "tiny")
    try:
        told = ask("analyse", HEX3 | {"agent": "az:hex3", "maxVisits": 4})[1]
    finally:
        (run_folder / "hex3").unlink()
    config, params = load_weights(ready_networks()["hex3"])
    evaluate = make_evaluation(config, params, config.game)
    _, value = jax.jit(evaluate)(params, jax.random.key(0), stack([state_of(read_line(HEX3))]))
    assert told["rootInfo"]["rawUtility"] == pytest.approx(float(value[0]), abs=1e-5)
    assert ask("layout", HEX3)[1]["runs"] == ["tiny", "hex3"]
    assert ask("layout", HEX3 | {"size": 4})[1]["runs"] == []


def test_the_same_position_and_length_is_searched_once(server, ask):
    fields = HEX3 | {"agent": "az:tiny", "moves": ["c3"], "maxVisits": 9}
    first, second = ask("analyse", fields)[1], ask("analyse", fields)[1]
    assert first == second


def test_moves_are_the_agents_own_or_after_so_many_simulations(ask):
    # Black's b2 and a3 reach the bottom: b1 and c1 join them to the top at once.
    for extra in ({}, {"simulations": 60}, {"seconds": 0.02}):
        fields = HEX3 | {"moves": ["a3", "a1", "b2", "c3"], "agent": "uct:3"}
        status, told = ask("move", fields | extra)
        assert status == 200 and told["move"] in {"b1", "c1", "a2", "c2", "b3"}
        if extra.get("simulations"):
            assert told["move"] in {"b1", "c1"}


def wait_for_verdict(oracle, line):
    for _ in range(600):
        verdict = oracle.ask(line)
        if verdict["status"] != "pending":
            return verdict
        time.sleep(0.05)
    raise AssertionError("no verdict")


def test_the_truth_is_unknown_until_it_is_known_and_then_that_of_the_solver():
    oracle = truth.Oracle(Hex(size=2))
    line = read_line({"game": "hex", "size": 2})
    assert oracle.ask(line)["status"] == "pending"
    verdict = wait_for_verdict(oracle, line)
    # On 2x2 the short diagonal, b1 and a2, wins at once (two plies later); a1 and b2 lose to the other diagonal.
    assert verdict["value"] == 1 and verdict["status"] == "known"
    assert {action for action, move in verdict["moves"].items() if move["low"] == 1} == {1, 2}
    assert verdict["moves"][1]["plies"] == 3
    oracle.close()


def test_plies_to_the_end_are_those_that_can_be_counted_on_the_board():
    # A piece each on 3x3: a's is next to its goal, the bottom tip 8, and b's two steps from its own.
    fields = {"game": "chinese_checkers", "size": 3, "pieces": 1, "start": "1/2/b2/a1/1 a"}
    line = read_line(fields)
    oracle = truth.Oracle(line.game)
    verdict = wait_for_verdict(oracle, line)
    oracle.close()
    wins = {
        line.game.action_to_text(action): move
        for action, move in verdict["moves"].items()
        if move["low"] == 1
    }
    assert wins["6-8"] == {"low": 1.0, "high": 1.0, "plies": 1}
    assert all(move["plies"] > 1 for text, move in wins.items() if text != "6-8")


def test_table_and_search_agree():
    game = DotsAndBoxes(2, 2)
    line = read_line(
        {"game": "dots_and_boxes", "rows": 2, "columns": 2, "moves": ["a1-b1", "b1-b2", "a2-b2"]}
    )
    searched = truth._by_search(game, state_of(line), 5.0)
    oracle = truth.Oracle(game)
    verdict = wait_for_verdict(oracle, line)
    oracle.close()
    assert verdict["value"] == searched["value"] == 0  # by plain recursion over all ways to play on
    for action, move in searched["moves"].items():
        assert move["low"] <= np.sign(verdict["moves"][action]["low"]) <= move["high"]


def test_a_solver_that_knows_how_soon_games_end_tells_the_plies():
    line = read_line({"game": "connect_four", "start": "43745416472735"})
    verdict = truth._by_search(line.game, state_of(line), 60.0)
    assert verdict["status"] == "known" and verdict["value"] == -1
    # Score -13, so that the opponent wins with his ninth stone and still needs two; the only move that holds so long.
    slowest = [action for action, move in verdict["moves"].items() if move["plies"] == 4]
    assert [line.game.action_to_text(action) for action in slowest] == ["6"]


def test_games_that_nobody_can_solve_have_no_truth():
    assert "no solver" in truth.Oracle(read_line({"game": "othello"}).game).why
    assert "8x8" in truth.Oracle(Hex(size=11)).why


def test_standard_input_is_answered_line_by_line(run_folder):
    questions = [
        {"id": "a", "moves": ["b2"], "maxVisits": 8, "analyzeTurns": [0, 1]},
        {"id": "v", "action": "query_version"},
        {"id": "bad", "moves": ["z9"]},
        {
            "id": "c",
            "game": "hex",
            "size": 2,
            "moves": [],
            "agent": "uct:4",
            "maxVisits": 8,
            "includeTruth": True,
        },
    ]
    text = "\n".join(json.dumps(question) for question in questions) + "\nnonsense\n"
    out = io.StringIO()
    analyse.serve(io.StringIO(text), out, {"agent": f"az:{run_folder / 'tiny'}", "game": "hex", "size": 3})
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(answers) == 6
    by_id = {}
    for answer in answers:
        by_id.setdefault(answer.get("id"), []).append(answer)
    assert [answer["turnNumber"] for answer in by_id["a"]] == [0, 1]
    assert by_id["v"][0]["engine"] == "azjax"
    assert by_id["bad"][0]["field"] == "moves" and "JSON" in by_id[None][0]["error"]
    assert by_id["c"][0]["truth"] == {"status": "known", "utility": 1.0}
    assert {info["move"]: info["proven"]["low"] for info in by_id["c"][0]["moveInfos"]}["a1"] == -1


def test_a_long_file_of_questions_is_answered_whole_and_bytes_that_are_no_text_spoil_one_line(monkeypatch):
    monkeypatch.setattr(desks, "MOST_WAITING", 20)
    cells = [f"{column}{row}" for column in "ab" for row in "12"]
    # A search and a glance at the network each: far more than may wait. No two are equally long, so that the program
    # for a single position is the only one that is compiled.
    questions = [{"id": str(i), "moves": [cells[i % 4]], "maxVisits": 1 + i} for i in range(40)]
    lines = [json.dumps(question).encode() for question in questions]
    lines.insert(1, b"\xff\xfe")
    out = io.StringIO()
    stream = io.TextIOWrapper(io.BytesIO(b"\n".join(lines)), encoding="utf-8")
    analyse.serve(stream, out, {"agent": "uct:4", "game": "hex", "size": 2})
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    (refused,) = [answer for answer in answers if "error" in answer]
    assert "JSON" in refused["error"]
    answered = {answer["id"]: answer["rootInfo"]["visits"] for answer in answers if answer is not refused}
    assert answered == {question["id"]: question["maxVisits"] for question in questions}


def test_ownership_is_told_place_by_place_where_the_network_has_it(tmp_path):
    from azjax.nn import NetworkConfig, make_network
    from azjax.serve import analysis
    from azjax.training import TrainConfig
    from azjax.training.checkpoint import export_agent

    game = Hex(size=2)
    config = TrainConfig(game=game, network=NetworkConfig(channels=4, blocks=1, ownership=True))
    network = make_network(config.network, game)
    params = network.init(jax.random.key(0))
    export_agent(tmp_path / "agent.npz", config, params)
    thinker = Thinker(game, f"net:{tmp_path / 'agent.npz'}")
    line = read_line({"game": "hex", "size": 2, "moves": ["a1"]})
    x = state_of(line)
    opinion = thinker.opinion(x)
    seen = network.outputs(params, game.observe(x)[None]).ownership[0]
    np.testing.assert_allclose(opinion.ownership, seen, atol=1e-5)
    # White sees the board transposed: b1 (row 0, column 1) stands at row 1, column 0 of what it sees.
    assert analysis.ownership(line, np.asarray(seen))[1] == pytest.approx(float(seen[1, 0]), abs=1e-3)
