"""Runs on disk: a run that was killed goes on to the same bits, and nothing is ever erased."""

import dataclasses
import functools
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from azjax import cli, training
from azjax.evaluation.live import make_judge
from azjax.theses import preset, preset_names
from azjax.training import alphazero, checkpoint
from azjax.training.checkpoint import RunError
from azjax.training.config import config_from_dict, config_to_dict
from tests import processes
from tests.training_cases import SMALL, create_run, digest, timeless

ROOT = pathlib.Path(__file__).parents[2]
QUIET = {"judge": make_judge, "watch": lambda progress: None, "say": lambda line: None}


def start_process(folder, iterations, *more):
    command = [sys.executable, "-m", "tests.training_cases", "train", str(folder), str(iterations), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@functools.cache
def new_state():
    """The places, shapes and types that a checkpoint of the small run is read into."""
    return training.make_trainer(SMALL, training.make_mesh(1)).init(jax.random.key(0))


def saved_state(folder):
    return checkpoint.open_run(folder).restore(new_state())


def without_times(rows):
    return [timeless(row) for row in rows]


def metrics_of(folder):
    return without_times(checkpoint.open_run(folder).read_metrics())


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A run of 12 iterations that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "untouched"
    alphazero.train(SMALL, folder, **QUIET)
    return folder


@pytest.mark.slow
def test_runs_killed_at_random_moments_resume_to_the_same_bits(untouched, tmp_path):
    """SIGKILL after a random time, again and again, also while a save is under way."""
    rng = random.Random(5)
    folder = tmp_path / "killed"
    kills = 0
    while True:
        more = ["--resume"] if (folder / "config.json").exists() else []
        process = start_process(folder, 12, *more)
        for _ in range(rng.randint(1, 3)):
            if process.stdout.readline() == "":
                break
        time.sleep(rng.random() * 0.2)
        if process.poll() is None and kills < 4:
            process.send_signal(signal.SIGKILL)
            kills += 1
            process.communicate()
            continue
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        break
    assert kills >= 2
    assert digest(saved_state(folder)) == digest(saved_state(untouched))
    assert metrics_of(folder) == metrics_of(untouched)


def test_a_run_continued_in_two_parts_equals_one_in_a_single_go(untouched, tmp_path):
    folder = tmp_path / "parts"
    alphazero.train(dataclasses.replace(SMALL, iterations=5), folder, **QUIET)
    alphazero.train(SMALL, folder, resume=True, **QUIET)
    assert digest(saved_state(folder)) == digest(saved_state(untouched))
    rows = metrics_of(folder)
    del rows[4]["evaluation"]  # the first part was judged when it ended
    assert rows == metrics_of(untouched)


def test_resuming_from_an_earlier_checkpoint_takes_the_same_way_again(untouched, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(untouched, folder)
    alphazero.train(SMALL, folder, resume_from=8, **QUIET)
    assert digest(saved_state(folder)) == digest(saved_state(untouched))
    assert metrics_of(folder) == metrics_of(untouched)


def test_a_folder_with_a_run_is_refused_and_left_as_it_is(untouched):
    """A peer's trainer erased the checkpoints in its folder when it was constructed."""
    before = sorted((path.name, path.stat().st_mtime_ns) for path in untouched.rglob("*") if path.is_file())
    with pytest.raises(RunError, match="already holds a run; add --resume"):
        alphazero.train(SMALL, untouched, **QUIET)
    after = sorted((path.name, path.stat().st_mtime_ns) for path in untouched.rglob("*") if path.is_file())
    assert after == before


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        create_run(tmp_path, SMALL)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_changed_configuration_names_the_fields_that_differ(untouched):
    changed = dataclasses.replace(
        SMALL, seed=7, search=dataclasses.replace(SMALL.search, simulations=9), iterations=99
    )
    with pytest.raises(RunError, match=r"search\.simulations: 4 there, 9 asked; seed: 0 there, 7 asked"):
        checkpoint.open_run(untouched, changed)


def test_a_damaged_checkpoint_is_passed_over(untouched, tmp_path):
    """What happens to it is for tests/training/test_loop.py; here the newest whole one of a real run is read."""
    folder = tmp_path / "damaged"
    shutil.copytree(untouched, folder)
    data = [path for path in (folder / "checkpoints" / "12").rglob("*") if path.is_file()]
    for path in sorted(data, key=lambda path: path.stat().st_size)[-4:]:
        path.write_bytes(b"\0" * 10)
    assert int(saved_state(folder).iteration) == 10


def test_a_half_written_save_is_not_seen(untouched, tmp_path):
    folder = tmp_path / "half"
    shutil.copytree(untouched, folder)
    half = folder / "checkpoints" / "14.partial"
    half.mkdir()
    (half / "rubbish").write_text("x")
    assert checkpoint.open_run(folder).iterations[-1] == 12


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(RunError, match=r"holds no run: there is no config\.json"):
        checkpoint.open_run(tmp_path)


def test_a_run_restores_onto_another_number_of_devices(untouched):
    code = f"""
import jax
from azjax import training
from azjax.training import checkpoint
from tests.training_cases import digest
opened = checkpoint.open_run({str(untouched)!r})
for devices in (1, 4):
    trainer = training.make_trainer(opened.config, training.make_mesh(devices))
    state = opened.restore(trainer.init(jax.random.key(0)))
    assert len(state.lanes.ply.sharding.device_set) == devices
    print(digest(state))
trainer.iteration(state)  # on one device, the tests above go on from a checkpoint
"""
    environment = processes.environment(devices=4)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert set(result.stdout.split()) == {digest(saved_state(untouched))}


def test_a_run_of_one_board_saves_what_was_saved_before_there_could_be_several(untouched):
    """Else the runs of then could not be resumed."""
    run = checkpoint.open_run(untouched)
    about = json.loads((run.path / "checkpoints" / "12" / "state" / "_METADATA").read_text())
    saved = {leaf["key_metadata"][0]["key"] for leaf in about["tree_metadata"].values()}
    assert saved == set(training.TrainState._fields) - {"others"}


def test_the_exported_agent_holds_the_averaged_weights(untouched):
    config, params = checkpoint.load_agent(untouched)
    assert config == SMALL
    assert digest(params) == digest(saved_state(untouched).average)


def test_an_agent_file_that_is_none_says_so(tmp_path):
    path = tmp_path / "agent.npz"
    with pytest.raises(RunError, match="there is no agent at"):
        checkpoint.load_agent(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(RunError, match="is not an agent of azjax, or damaged"):
        checkpoint.load_agent(path)


def test_an_agent_of_another_format_says_what_to_do(untouched, tmp_path):
    with np.load(untouched / "agent.npz") as file:
        content = dict(file)
    content["about"] = np.array(json.dumps(json.loads(str(content["about"])) | {"format": 1}))
    np.savez(tmp_path / "agent.npz", **content)
    with pytest.raises(RunError, match="has format 1, this azjax reads 3: use the azjax that wrote it"):
        checkpoint.load_agent(tmp_path)


def test_every_preset_survives_its_json():
    for name in preset_names():
        config = preset(name)
        assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config


def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    folder = tmp_path / "interrupted"
    process = start_process(folder, 100_000)
    while process.stdout.readline().strip() != "x":  # until the first iteration is done
        pass
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert f"continue with: azjax resume {folder}" in output
    assert checkpoint.open_run(folder).iterations


def test_the_command_line_names_what_is_wrong(tmp_path, capsys):
    assert cli.main(["train", "hexx"]) == 2
    assert "unknown preset 'hexx'; there are tic-tac-toe, hex3" in capsys.readouterr().err
    assert cli.main(["fly"]) == 2
    assert "unknown command 'fly'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["train", "hex3", "--out", str(tmp_path), "--search.simulations", "0"])
    assert "search.simulations must be at least 1" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_metrics_on_disk_are_plain_numbers(untouched):
    row = checkpoint.open_run(untouched).read_metrics()[-1]
    assert row["iteration"] == 12 and row["games"] > 0
    assert np.isfinite(row["loss"]["total"])
