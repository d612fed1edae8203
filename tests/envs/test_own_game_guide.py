"""The guide to writing a game: its example is executed, plays Nim as Bouton (1901) says it must, and is as good as
a built-in game: it trains, is saved, resumed, reported and played, from nothing but its registration."""

import dataclasses
import functools
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import types

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

from azjax import cli, positions
from azjax.envs import Env, make, registry
from azjax.envs.core import PositionError, random_action
from azjax.training import alphazero, checkpoint
from experiments import gallery
from tests.training_cases import SMALL

GUIDE = pathlib.Path(__file__).parents[2] / "envs" / "README.md"
CHECK = "check_game(Nim(heaps=3, largest=4))\n"


def import_guide(*, check: bool) -> types.ModuleType:
    """Imports the example as the module that a user would write; its last line registers the game."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    assert CHECK in code
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "own_game.py"
        path.write_text(code if check else code.replace(CHECK, ""), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("own_game", path)
        module = sys.modules["own_game"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@functools.cache
def guide() -> types.ModuleType:
    return import_guide(check=True)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry._games, "nim", guide().Nim)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> pathlib.Path:
    """A run of two iterations, made by one registration and continued by two more under a fresh one."""
    folder = tmp_path_factory.mktemp("runs") / "nim"
    nim = guide().Nim(heaps=2, largest=3)
    selfplay = dataclasses.replace(SMALL.selfplay, openings="U")
    config = dataclasses.replace(SMALL, game=nim, selfplay=selfplay, iterations=2)
    alphazero.train(config, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(registry._games, "nim")
        fresh = import_guide(check=False).Nim
        run = checkpoint.open_run(folder)
        assert type(run.config.game) is fresh and run.config.game == fresh(heaps=2, largest=3)
        longer = dataclasses.replace(run.config, iterations=4)
        assert alphazero.train(longer, folder, resume=True).config == longer
    return folder


def test_the_example_of_the_guide_passes_its_own_check():
    assert guide().Nim.name == "nim"


def test_the_example_passes_the_test_of_pgx():
    pgx.api_test(Env(guide().Nim()), 2)


def test_the_example_is_lost_exactly_when_the_heaps_sum_to_zero_without_carries():
    nim = guide().Nim(heaps=3, largest=4)
    state = guide().NimState

    @functools.cache
    def mover_wins(heaps: tuple[int, ...]) -> bool:
        x = state(jnp.array(heaps, jnp.int32), jnp.int32(0))
        legal = np.flatnonzero(legal_action_mask(x))
        return any(not mover_wins(tuple(np.asarray(step(x, a).heaps).tolist())) for a in legal)

    legal_action_mask, step = jax.jit(nim.legal_action_mask), jax.jit(nim.step)
    for heaps in np.ndindex(4, 4, 4):
        assert mover_wins(heaps) == bool(heaps[0] ^ heaps[1] ^ heaps[2])


def test_the_example_is_made_by_name_and_read_from_position_files(tmp_path):
    nim = guide().Nim(heaps=2)
    assert make("nim", heaps=2).game == nim
    assert positions.describe_game(nim) == {"game": "nim", "heaps": 2}
    positions.write_positions(tmp_path / "nim.jsonl", [positions.describe_game(nim) | {"moves": [1, "4"]}])
    (line,) = positions.read_positions(tmp_path / "nim.jsonl")
    assert line.game == nim and int(line.state.current_player) == 0


def test_a_run_of_the_example_is_saved_and_resumed(run_folder):
    rows = checkpoint.open_run(run_folder).read_metrics()
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]


def test_a_run_of_the_example_is_reported(run_folder, capsys):
    assert cli.main(["report", str(run_folder)]) == 0, capsys.readouterr().err
    assert "nim" in (run_folder / "report.html").read_text(encoding="utf-8").lower()


def test_a_run_of_the_example_plays_matches(run_folder, capsys):
    agent = f"az:{run_folder}?sims=4"
    assert cli.main(["match", "nim", agent, "random", "--pairs", "4", "--json"]) == 0, capsys.readouterr().err
    result = json.loads(capsys.readouterr().out)
    assert result["games"] == 8  # on the run's own board, not on the default one


def test_a_run_of_the_example_plays_people(run_folder, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt="": "quit")
    assert cli.main(["play", str(run_folder)]) == 0, capsys.readouterr().err


def test_the_example_is_in_the_gallery(tmp_path, monkeypatch):
    monkeypatch.delitem(registry._games, "nim")
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    (tmp_path / "games_of_mine.py").write_text(code.replace(CHECK, ""), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    games = gallery.games_with(["games_of_mine"])
    assert games.keys() - gallery.GAMES.keys() == {"nim"}
    gallery.main(gallery.Config(games=4, drawn=2, out=tmp_path), {"nim": games["nim"]})
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<h2>nim</h2>" in page and page.count("<svg") == 2


def test_the_command_line_trains_the_example_by_its_name(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "nim", "--help"])
    assert "--game.heaps INT" in capsys.readouterr().out


def test_without_its_registration_a_run_says_what_to_do(run_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(registry._games, "nim")
    what_to_do = r"unknown game 'nim'.*azjax\.register_game in Python, or with --import MODULE"
    with pytest.raises(checkpoint.RunError, match=what_to_do):
        checkpoint.open_run(run_folder)
    positions.write_positions(tmp_path / "nim.jsonl", [{"game": "nim"}])
    with pytest.raises(PositionError, match=what_to_do):
        positions.read_positions(tmp_path / "nim.jsonl")
    for line in (
        ["resume", str(run_folder)],
        ["match", str(run_folder), "random"],
        ["report", str(run_folder)],
    ):
        assert cli.main(line) == 2
        error = capsys.readouterr().err.strip()
        assert re.search(what_to_do, error) and "\n" not in error


def test_random_action_is_uniform_over_the_mask():
    # Chi-square with 3 degrees of freedom: 16.3 is the 99.9 % point.
    mask = jnp.arange(12) % 3 == 0
    draws = random_action(jax.random.key(1), jnp.tile(mask, (40_000, 1)))
    counts = np.bincount(np.asarray(draws), minlength=12)
    assert counts[~np.asarray(mask)].sum() == 0
    assert (((counts[::3] - 10_000) ** 2) / 10_000).sum() < 16.3
