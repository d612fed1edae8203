"""Ready networks: they play by name, their cards say what judges find, and a run becomes one."""

import json
import shutil

import jax
import numpy as np
import pytest

import azjax
from azjax import cli, training
from azjax.agents import ready
from azjax.agents.trained import load_weights
from azjax.common.agent import AgentError
from azjax.common.rows import number_in
from azjax.envs import Hex
from azjax.evaluation import cards
from azjax.evaluation.curve import numbers_in
from azjax.training import checkpoint
from tests.training_cases import SMALL, create_run

NAMES = sorted(ready.ready_networks())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has a checkpoint and one row of metrics, but has not learned anything."""
    made = create_run(tmp_path_factory.mktemp("runs") / "hex3", SMALL)
    params = training.make_trainer(SMALL, training.make_mesh(1)).init(jax.random.key(0)).average
    made.save_agent(2, params)
    row = {"iteration": 2, "games": 30, "positions": 192, "updates": 6, "seconds": 1.0}
    (made.path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_ready_network_is_as_strong_as_its_card_says(name):
    card = cards.read_card(name)
    judge, written = next(iter(card.measured.items()))
    found = cards.measure(name, judge)
    assert numbers_in(found) == numbers_in(written)
    for number in numbers_in(found):
        # The last bits of a network differ from one processor to the next, and may turn a move that is as good as
        # another: one position in a hundred.
        assert number_in(found, number) == pytest.approx(number_in(written, number), abs=0.01)


def test_ready_networks_have_cards_and_two_megabytes_at_most():
    files = sorted(ready.folder().iterdir())
    assert [path.name for path in files] == [f"{name}.{end}" for name in NAMES for end in ("json", "npz")]
    assert sum(path.stat().st_size for path in files if path.suffix == ".npz") <= 2 * 2**20
    assert [card.name for card in cards.cards()] == NAMES


@pytest.mark.parametrize("text", ["hex3", "az:hex3", "az:hex3?sims=16", "net:hex3"])
def test_a_ready_network_is_an_agent_by_name(text):
    name, game = azjax.agents.trained_agent(text)
    assert game == Hex(size=3) and name.partition(":")[2].startswith("hex3")


def test_a_ready_network_plays_its_game(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no folder of its name is near
    agent = azjax.make_agent("net:hex3", Hex(size=3))
    start = jax.tree.map(lambda leaf: leaf[None], Hex(size=3).init(jax.random.key(0)))
    # Black's winning first moves on 3x3, as everybody knows who has played it: all but a1, b1, b3 and c3.
    winning = {Hex(size=3).text_to_action(cell) for cell in ("c1", "a2", "b2", "c2", "a3")}
    assert int(agent.act(agent.params, jax.random.key(0), start)[0]) in winning


def test_a_run_of_the_same_name_comes_first(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hex3").mkdir()  # no run yet
    assert ready.find("hex3") == ready.ready_networks()["hex3"]
    shutil.copy(run.path / "agent.npz", tmp_path / "hex3")
    assert load_weights("hex3")[0] == SMALL


def test_a_name_that_is_no_network_is_refused_with_the_names_there_are(capsys):
    assert cli.main(["models", "hex33"]) == 2
    assert "no ready network 'hex33'; there are" in capsys.readouterr().err


def test_models_are_listed_and_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["models"]) == 0
    assert "hex3" in capsys.readouterr().out
    assert cli.main(["models", "hex3"]) == 0
    said = capsys.readouterr().out
    assert cards.read_card("hex3").limits.split()[0] in said and max(map(len, said.splitlines())) <= 80
    assert cli.main(["models", "--json"]) == 0
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == NAMES


def test_a_run_is_packed_in_half_precision_with_what_judges_find(run, tmp_path):
    card = cards.pack(run.path, "mine", ["truth"], limits="Knows nothing.", out=tmp_path)
    written = json.loads((tmp_path / "mine.json").read_text())
    assert written["trained"]["positions"] == 192 and written["limits"] == "Knows nothing."
    assert written["measured"] == card.measured == {"truth": cards.measure(tmp_path / "mine.npz", "truth")}
    with np.load(tmp_path / "mine.npz") as kept:
        assert {kept[name].dtype.name for name in kept.files if name != "about"} == {"float16"}
    packed, whole = load_weights(tmp_path / "mine.npz")[1], load_weights(run.path)[1]
    for half, single in zip(jax.tree.leaves(packed), jax.tree.leaves(whole)):
        assert half.dtype == np.float32
        np.testing.assert_allclose(half, single, rtol=2**-10, atol=2**-24)  # of half precision


def test_a_network_too_large_for_the_wheel_is_refused_and_not_kept(run, tmp_path):
    (tmp_path / "other.npz").write_bytes(bytes(2 * 2**20))
    with pytest.raises(ValueError, match="leave another one out"):
        cards.pack(run.path, "mine", ["truth"], limits="", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.npz"]


def test_weights_that_half_precision_cannot_hold_are_refused(run, tmp_path):
    huge = jax.tree.map(lambda leaf: np.full_like(leaf, 1e6), load_weights(run.path)[1])
    with pytest.raises(checkpoint.RunError, match="too large for half precision"):
        checkpoint.export_agent(tmp_path / "huge.npz", SMALL, huge, half_precision=True)


def test_a_judge_that_needs_a_replay_cannot_measure_a_network(run):
    with pytest.raises(ValueError, match="a network alone has none"):
        cards.measure(run.path, "labels")


def test_a_ready_network_has_no_checkpoints():
    with pytest.raises(AgentError, match="is a file"):
        azjax.make_agent("net:hex3?step=3", Hex(size=3))
