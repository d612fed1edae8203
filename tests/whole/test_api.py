"""The public names: there in a fresh interpreter, documented, and doing what the commands do."""

import functools
import inspect
import json
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

import azjax
from azjax import positions, training
from azjax.envs import Hex
from azjax.evaluation import arena, records, suites
from tests.training_cases import SMALL

FRESH = """
import json, os, time
import jax, jax.numpy, flax.linen, flax.nnx, optax, numpy
start = time.process_time()
import azjax
seconds = time.process_time() - start
from jax._src import xla_bridge
started = bool(xla_bridge._backends)
found = {}
for name in azjax.__all__:  # each in a process of its own, in which nobody has asked for another name
    answer, told = os.pipe()
    if os.fork() == 0:
        try:
            os.write(told, type(getattr(azjax, name)).__name__.encode())
        finally:
            os._exit(0)
    os.wait()
    os.close(told)
    found[name] = os.read(answer, 100).decode()
print(json.dumps({"seconds": seconds, "started": started, "found": found, "names": dir(azjax)}))
"""


@pytest.fixture(scope="module")
def fresh():
    ran = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_importing_starts_no_backend_and_takes_under_a_second_beyond_jax(fresh):
    assert not fresh["started"]
    assert fresh["seconds"] < 1.0


def test_every_name_is_there_in_a_fresh_interpreter(fresh):
    assert [name for name, kind in fresh["found"].items() if not kind] == []
    assert set(fresh["found"]) == set(azjax.__all__)
    assert set(azjax.__all__) <= set(fresh["names"])


@pytest.mark.parametrize(
    "name", ["search", "envs", "nn", "training", "solvers", "agents", "evaluation", "plots"]
)
def test_modules_are_attributes_without_another_import(name, fresh):
    assert fresh["found"][name] == "module"


@pytest.mark.parametrize("name", sorted(azjax.__all__))
def test_every_public_name_is_documented_and_typed(name):
    thing = getattr(azjax, name)
    assert inspect.getdoc(thing)
    if isinstance(thing, types.FunctionType):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, parameter


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'serach'"):
        _ = azjax.serach


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return azjax.train(SMALL, tmp_path_factory.mktemp("run") / "hex3", judge=None, say=lambda line: None)


def test_train_gives_the_run_back_and_resume_goes_on(run):
    assert isinstance(run, azjax.Run)
    assert [row["iteration"] for row in run.read_metrics()] == list(range(1, 13))
    longer = azjax.resume(run.path, iterations=14, judge=None, say=lambda line: None)
    assert longer.config.iterations == 14
    assert len(longer.read_metrics()) == 14


def test_train_takes_a_presets_name(tmp_path):
    with pytest.raises(azjax.ConfigError, match="hex33"):
        azjax.train("hex33", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_match_takes_folders_texts_and_agents(run):
    by_folder = azjax.match(run.path, "random", pairs=4)
    assert isinstance(by_folder, arena.MatchResult)
    assert by_folder.games == 8
    agent = azjax.load_agent(run.path)
    by_agent = azjax.match(agent, azjax.make_agent("random", SMALL.game), SMALL.game, pairs=4)
    assert by_agent.total == by_folder.total
    assert "random" in repr(by_folder) and "<table" in by_folder._repr_html_()
    assert azjax.match("uct:4", "random", "tic_tac_toe", pairs=2, random_plies=2).games == 4
    with pytest.raises(ValueError, match="say what is played"):
        azjax.match("uct:4", "random")


def test_load_agent_takes_a_number_of_simulations(run):
    assert "sims=8" in azjax.load_agent(run.path, simulations=8).name
    with pytest.raises(azjax.RunError):
        azjax.load_agent(run.path / "nowhere")


def test_tournament_keeps_its_matches_and_goes_on(tmp_path):
    play = functools.partial(azjax.tournament, game=Hex(size=3), pairs=4, out=tmp_path / "results.jsonl")
    first = play(["random", "uct:8"])
    kept = (tmp_path / "results.jsonl").read_text()
    more = play(["random", "uct:8", "uct:2"])
    assert (tmp_path / "results.jsonl").read_text().startswith(kept)
    assert {rating.name for rating in more.ratings} == {"random", "uct:8", "uct:2"}
    assert first.ratings[0].name == "uct:8"
    assert "uct:8" in repr(more) and "<table" in more._repr_html_()
    with pytest.raises(ValueError, match="two or more different players"):
        azjax.tournament(["random", "random"], Hex(size=3))


def test_solve_takes_names_texts_states_and_files(tmp_path):
    start = azjax.solve("hex", size=3)
    assert start.value.tolist() == [1.0]
    assert start.optimal[0] and "b2" in start.optimal[0]
    assert "<svg" in start._repr_html_()
    game = Hex(size=3)
    after = game.step(game.init(jax.random.key(0)), game.text_to_action("b2", game.init(jax.random.key(0))))
    states = positions.stack([after])
    by_states = azjax.solve(game, states)
    by_text = azjax.solve(game, [game.to_notation(after)])
    assert by_states.value.tolist() == by_text.value.tolist() == [-1.0]
    file = tmp_path / "positions.jsonl"
    positions.write_positions(file, [positions.describe_game(game) | {"position": game.to_notation(after)}])
    assert azjax.solve(game, file).value.tolist() == [-1.0]
    with pytest.raises(ValueError, match=r"positions of Hex\(size=3"):
        azjax.solve(Hex(size=4), file)
    with pytest.raises(ValueError, match="solve"):
        azjax.solve("tic_tac_toe")


def test_suite_asks_any_agent():
    result = azjax.suite("uct:4", "hex5")
    assert isinstance(result, suites.SuiteResult)
    assert "<table" in result._repr_html_()


def test_play_reads_moves_and_gives_the_game_back(capsys):
    lines = iter(["b2", "nonsense", "quit"])
    game = azjax.play("random", Hex(size=3), read=lambda prompt: next(lines))
    assert isinstance(game, records.GameRecord)
    assert game.moves[0] == 4 and len(game.moves) == 2
    assert "<svg" in game._repr_html_()
    assert "nonsense" in capsys.readouterr().out


def test_configuration_goes_into_make_trainer():
    trainer = azjax.make_trainer(SMALL)
    assert isinstance(trainer, training.Trainer)
    state, _ = jax.jit(trainer.iteration)(trainer.init(jax.random.key(0)))
    assert int(state.iteration) == 1
    assert np.all(np.isfinite(jax.tree.leaves(state.params)[0]))
