"""Searches with a clock, with a tree that is kept, over whole turns, and with playouts by rules."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.agents import AgentError, dots_rules, make_agent, thinking
from azjax.common.agent import NOT_FINITE
from azjax.envs.dots_and_boxes import DotsAndBoxes
from azjax.envs.hex import Hex
from azjax.evaluation.arena import make_mover
from azjax.search import reusing_puct, uct
from azjax.solvers.dots import turns
from azjax.solvers.dots.solver import make_solver

GAME = DotsAndBoxes(2, 2)
KEY = jax.random.key(0)


def batch(*states):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def even(params, key, states):
    """An evaluator without opinions; its value is the parameters."""
    return jnp.zeros(states.lines.shape), jnp.full(len(states.lines), params)


@functools.cache
def quick_search(simulations, kept):
    return reusing_puct(GAME, even, simulations=simulations, kept=kept)


def noted_thinker(notes, **limits):
    """An agent that searches, and notes the visits of the root after each part of a search."""

    def make(simulations, kept):
        search = quick_search(simulations, kept)

        def search_on(params, key, tree, slot):
            found, tree = search.search_on(params, key, tree, slot)
            jax.debug.callback(lambda visits: notes.append(int(visits)), found.visits.sum())
            return found, tree

        return search._replace(search_on=search_on)

    return thinking.thinking_agent(GAME, make, "noted", 0.0, **limits)


@pytest.fixture
def a_second_per_look(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(thinking.time, "perf_counter", lambda: float(next(clock)))


def test_a_search_ends_with_the_last_part_that_there_is_time_for(a_second_per_look):
    notes = []
    agent = noted_thinker(notes, seconds=10.0)
    agent.act(agent.params, KEY, batch(GAME.init()))
    jax.effects_barrier()
    # The deadline is 10 s after the first look. A part begins at the looks 1, 3,
    # 5, 7 and 9 and takes 1 s; the next would begin at 11. The first note is of the search that is only compiled.
    assert notes == [thinking.SLICE * parts for parts in (1, 1, 2, 3, 4, 5)]


def test_the_number_of_simulations_limits_a_search_as_well(a_second_per_look):
    notes = []
    agent = noted_thinker(notes, seconds=1000.0, simulations=40)
    agent.act(agent.params, KEY, batch(GAME.init()))
    jax.effects_barrier()
    assert notes[1:] == [32, 64]  # in steps of 32


def test_a_kept_tree_goes_on_with_what_it_knew_of_the_position():
    notes = []
    agent = noted_thinker(notes, simulations=50, reuse=True)
    start = GAME.init()
    line = int(agent.act(agent.params, KEY, batch(start))[0])
    jax.effects_barrier()
    assert notes[1:] == [50]
    reply = GAME.step(GAME.step(start, line), (line + 1) % GAME.num_actions)
    agent.act(agent.params, KEY, batch(reply))
    jax.effects_barrier()
    # Two moves later the root has the visits of then, besides 50 new ones.
    tree = quick_search(50, 50).start(0.0, KEY, batch(start))
    lane_key = jax.random.split(jax.random.fold_in(KEY, 0))[1]
    _, tree = jax.jit(quick_search(50, 50).search_on)(0.0, jax.random.split(lane_key)[1], tree, 1)
    child = int(tree.children[0, 0, line])
    inherited = int(tree.visits[0, child, (line + 1) % GAME.num_actions])
    node = int(tree.children[0, child, (line + 1) % GAME.num_actions])
    known = 0 if node < 0 else int(tree.visits[0, node].sum())
    assert inherited >= 1 and notes[-1] == 50 + known


def test_a_position_that_is_asked_again_is_thought_about_anew_where_its_tree_is_full():
    notes = []
    agent = noted_thinker(notes, simulations=50, reuse=True)
    for _ in range(3):  # a tree has 100 nodes, of which 51 are used
        agent.act(agent.params, KEY, batch(GAME.init()))
    jax.effects_barrier()
    assert notes[1:] == [50, 50, 50]


def test_a_forced_move_and_a_finished_game_need_no_thought():
    notes = []
    agent = noted_thinker(notes, simulations=5)
    one_left = GAME.from_lines([GAME.action_to_text(line) for line in range(11)], owners={0: 0, 1: 0, 2: 0})
    answers = agent.act(agent.params, KEY, batch(one_left, GAME.step(one_left, 11)))
    assert answers[0] == 11 and not notes


def test_values_that_are_no_numbers_are_said_to_be():
    agent = noted_thinker([], simulations=5)
    assert agent.act(float("nan"), KEY, batch(GAME.init()))[0] == NOT_FINITE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uct:any", "whole number from 1, or any where seconds= is given"),
        ("uct:5?seconds=0", "must be above 0"),
        ("uct:5?by=perfect", "must be one of easy, medium, hard"),
    ],
)
def test_what_makes_no_sense_is_refused(text, words):
    with pytest.raises(AgentError, match=words):
        make_agent(text, GAME)


def test_turns_are_for_dots_and_boxes():
    with pytest.raises(AgentError, match="turns=1 is for dots_and_boxes"):
        make_agent("uct:5?turns=1", Hex(3))


def test_a_search_over_turns_finds_the_same_value_as_one_over_lines():
    game = DotsAndBoxes(2, 2, reward="margin")
    late = []
    for seed in range(8):
        lines = np.random.default_rng(seed).permutation(12)
        x = game.init()
        for line in lines[:7]:
            x = game.step(x, int(line))
        late.append(x)
    states = batch(*late)
    exact = make_solver(game, method="table")
    options = {"simulations": 600, "solve": True, "max_reward": 1.0}
    by_line = jax.jit(uct(game, **options))((), KEY, states)
    by_turn = jax.jit(turns.by_lines(game, uct(turns.Turns(game), playout=game.random_playout, **options)))(
        (), KEY, states
    )
    assert by_line.proven.all() and by_turn.proven.all()
    np.testing.assert_allclose(by_turn.value, by_line.value, atol=1e-6)
    np.testing.assert_allclose(by_turn.value, exact.value(states) / game.num_boxes, atol=1e-6)
    optimal = np.asarray(exact.optimal_actions(states))
    assert optimal[np.arange(8), by_turn.action].all()
    assert ((np.asarray(by_turn.policy) > 0) <= ~np.asarray(states.lines)).all()


def test_playouts_by_rules_end_as_the_rules_have_it():
    # One row of three boxes, opened at its left end: whoever captures takes all three.
    game = DotsAndBoxes(1, 3, reward="margin")
    state = game.from_lines([*map(game.action_to_text, [*range(6), 6])])
    rewards = dots_rules.make_playout(game, "hard")(batch(state, state), KEY)
    mover = int(state.current_player)
    np.testing.assert_array_equal(np.asarray(rewards)[:, mover], [1.0, 1.0])


@pytest.mark.parametrize("text", ["uct:8?turns=1&by=easy", "uct:any?seconds=0.01&turns=1&reuse=1"])
def test_agents_over_turns_play_whole_games(text):
    game = DotsAndBoxes(1, 2)
    move, step = make_mover(make_agent(text, game)), jax.jit(game.step)
    x = jax.device_get(game.init())
    while not x.lines.all():
        action = move(KEY, x)
        assert not x.lines[action]
        x = jax.device_get(step(x, action))
