"""The log of all that a run has played: every position once, whatever the replay does, killed or not."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from azjax.envs import ChineseCheckers, Hex
from azjax.positions import sets
from azjax.training import alphazero, checkpoint, replay, seen
from azjax.training.config import ReplayConfig, SelfplayConfig
from tests.training_cases import SMALL, digest

pytestmark = pytest.mark.usefixtures("quickly_compiled")

# A replay much smaller than an iteration, half of which new positions do not enter.
CONFIG = dataclasses.replace(
    SMALL,
    selfplay=SelfplayConfig(lanes=8, plies=20, log=True),
    replay=ReplayConfig(
        capacity=36, groups=2, batch_size=16, reuse=1.0, warm_up=16, overwrite=0.5, distinct=True
    ),
    iterations=4,
    save_every=2,
)
SILENT = {"say": lambda line: None}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of four iterations."""
    out = tmp_path_factory.mktemp("seen") / "run"
    return alphazero.train(CONFIG, out, devices=1, **SILENT)


def test_every_position_of_every_finished_game_is_written_down(finished):
    log = seen.read(finished.path, CONFIG.game)
    rows = finished.read_metrics()
    # A position is searched once; those of unfinished games are still in the lanes: at most 9 in each.
    games = sum(row["games_finished"] for row in rows)
    plies = sum(round(row["mean_plies"] * row["games_finished"]) for row in rows)
    assert len(log.outcome) == plies > 4 * CONFIG.replay.capacity
    assert [int((log.iteration == row["iteration"]).sum()) for row in rows] == [
        round(row["mean_plies"] * row["games_finished"]) for row in rows
    ]
    # Stones grow by one from an empty board, game after game, and the winner is the same all along.
    stones = (np.asarray(log.states.board) != 0).sum(axis=1)
    begins = np.flatnonzero(stones == 0)
    assert len(begins) == games
    winner = np.where(np.asarray(log.states.current_player) == 0, log.outcome, -log.outcome)
    for begin, end in zip(begins, [*begins[1:], len(stones)]):
        assert stones[begin:end].tolist() == list(range(end - begin))
        assert len(set(winner[begin:end].tolist())) == 1 and abs(winner[begin]) == 1
    assert seen.read(finished.path, CONFIG.game, until=2).iteration.max() == 2


def test_a_run_that_goes_back_writes_the_same_log(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    for iteration in (4, None):  # whether or not its last iterations were saved
        if iteration:
            shutil.rmtree(tmp_path / "run" / "checkpoints" / str(iteration))
        with open(tmp_path / "run" / "seen" / "positions.bin", "ab") as file:
            file.write(b"cut")  # as a kill leaves it
        alphazero.train(CONFIG, tmp_path / "run", resume=True, devices=1, **SILENT)
        assert digest(seen.read(tmp_path / "run", CONFIG.game)) == digest(
            seen.read(finished.path, CONFIG.game)
        )


def test_a_damaged_log_is_a_sentence(finished, tmp_path):
    shutil.copytree(finished.path / "seen", tmp_path / "seen")
    with pytest.raises(checkpoint.RunError, match="holds positions of"):
        seen.read(tmp_path, Hex(4))
    data = tmp_path / "seen" / "positions.bin"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(checkpoint.RunError, match="too short"):
        seen.read(tmp_path, CONFIG.game)
    with pytest.raises(checkpoint.RunError, match="keeps no log"):
        seen.read(tmp_path / "elsewhere", CONFIG.game)


def test_positions_lose_their_past(tmp_path):
    game = ChineseCheckers(3, 1)
    x = jax.tree.map(lambda leaf: np.asarray(leaf)[None, None], game.init(jax.random.key(0)))
    ended = replay.Ended(x._replace(history=None), np.ones((1, 1), np.float32), np.array([1], np.int32))
    seen.Log(tmp_path, game).append(1, ended)
    found = seen.read(tmp_path, game)
    assert found.states.history is None
    assert sets.keys_of(found.states).tolist() == sets.keys_of(sets.start_of(game)).tolist()
    assert (tmp_path / "seen" / "positions.bin").stat().st_size == 21  # 17 of the state, 4 of the outcome


def test_drawing_without_replacement_takes_every_position_before_any_comes_again():
    row = replay.StoredPosition(*np.zeros(5, np.float32), None)
    ring = replay.empty(row, groups=2, capacity=7, games=1)
    ring = ring._replace(written=np.array([5, 40], np.int32))  # one with room, one long full
    places = np.asarray(replay.shuffled(ring, jax.random.split(jax.random.key(0), 2), 15))
    for filled, found in zip((5, 7), places):
        for begin in range(0, 15 - filled, filled):
            assert sorted(found[begin : begin + filled].tolist()) == list(range(filled))
    assert places[1, :7].tolist() != sorted(places[1, :7].tolist())
