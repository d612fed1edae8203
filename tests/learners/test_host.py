"""The host-side modes of Karki 2024: the queue, the buffer, and that all four play and learn."""

import dataclasses
import threading
import time

import jax
import numpy as np
import pytest

from azjax.envs import Hex
from azjax.learners import host
from azjax.nn.networks import NetworkConfig
from azjax.training.config import ReplayConfig, SearchConfig, SelfplayConfig
from tests.training_cases import SMALL

pytestmark = pytest.mark.usefixtures("quickly_compiled")

CONFIG = dataclasses.replace(
    SMALL,
    game=Hex(2),
    network=NetworkConfig(tower="mlp", blocks=1, channels=8, heads="dense", global_pooling=False),
    search=SearchConfig(kind="puct", simulations=8, c=1.0, dirichlet_alpha=None),
    selfplay=SelfplayConfig(lanes=3, plies=5, temperature_drop=2),
    replay=ReplayConfig(capacity=24, groups=1, batch_size=4, reuse=1.0, warm_up=4, overwrite=0.9),
)


def echo(states):
    """A network that says of a position what it is; and how many it was asked about."""
    return np.array([[float(state)] * 2 for state in states]), np.array(states, float)


def test_the_queue_asks_when_all_games_wait_and_answers_each_its_own():
    answers = {}
    with host.InferenceQueue(echo, games=4, seconds=60) as queue:  # a minute would not pass unnoticed

        def game(number):
            for state in range(10 * number, 10 * number + 5):
                answers.setdefault(number, []).append(queue.ask(number, state)[1])
            queue.leave()

        threads = [threading.Thread(target=game, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    assert answers == {number: [10 * number + i for i in range(5)] for number in range(4)}
    assert sum(queue.sizes) == 20 and queue.sizes[0] == 4


def test_the_queue_waits_no_longer_than_its_limit():
    with host.InferenceQueue(echo, games=2, seconds=0.05) as queue:  # the second game never asks
        begin = time.monotonic()
        assert queue.ask(0, 7)[1] == 7
        assert time.monotonic() - begin >= 0.05
    assert queue.sizes == [1]


def test_a_game_that_has_left_is_not_waited_for():
    with host.InferenceQueue(echo, games=2, seconds=60) as queue:
        queue.leave()
        assert queue.ask(1, 3)[1] == 3


def test_a_network_that_fails_is_heard_of_by_the_game_that_asked():
    def broken(states):
        raise RuntimeError("no network")

    with host.InferenceQueue(broken, games=1) as queue, pytest.raises(RuntimeError, match="no network"):
        queue.ask(0, 1)


@pytest.mark.parametrize("overwrite, kept", [(1.0, [5, 6, 2, 3, 4]), (0.0, [0, 1, 2, 3, 4])])
def test_a_full_buffer_overwrites_its_oldest_place_or_keeps_it(overwrite, kept):
    buffer = host.Buffer(5, overwrite, np.random.default_rng(0))
    buffer.push(range(3))
    assert buffer.new == 3
    buffer.push(range(3, 7))
    assert buffer.new == 7
    assert sorted(buffer.sample(5)) == sorted(kept)
    assert buffer.new == 0
    assert len(set(buffer.sample(3))) == 3


def test_a_search_counts_its_simulations_and_finds_a_win_at_once():
    rules = host._rules(CONFIG.game)
    seen = rules.start()
    for action in (0, 1):  # Black a1, White b1: Black wins at a2
        seen = rules.after(seen, action)
    uniform = (np.zeros(4), 0.0)
    visits = host.search(rules, CONFIG, lambda state: uniform, seen, np.random.default_rng(0))
    assert visits.sum() == 8 and visits.argmax() == 2
    assert visits[[0, 1]].tolist() == [0, 0]  # taken cells


@pytest.mark.parametrize("mode", host.MODES)
def test_every_mode_plays_whole_games_and_learns(mode):
    run = host.Host(CONFIG, mode)
    before = jax.tree.map(np.asarray, run.params)
    found = run.iterate()
    assert found.positions >= 15 and found.games <= found.positions / 2  # a game of Hex 2x2 has 3 or 4 plies
    # All that was played, or what is asked for of the buffer; a batch that is not full is left out.
    assert found.updates == (found.positions // 4 if mode == "discard" else CONFIG.updates)
    changed = jax.tree.map(lambda old, new: bool(np.any(old != np.asarray(new))), before, run.params)
    assert any(jax.tree.leaves(changed))
    if mode == "queue":
        assert sum(found.batches) >= 8 * found.positions / 2 and max(found.batches) == 3
