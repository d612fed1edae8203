"""Matches: who moves when, what is counted, and that nothing is searched in vain."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.common.agent import FORFEIT, RESIGN, Agent
from azjax.envs import DotsAndBoxes, Hex
from azjax.envs.core import random_action
from azjax.evaluation import arena
from azjax.positions import parse_position
from tests.reference import dots_and_boxes as reference_dots
from tests.reference import hex as reference_hex

HEX = Hex(size=3)
DOTS = DotsAndBoxes(1, 2)
PAIRS = 6  # the same throughout: programs are compiled for a number of games


@functools.cache
def lowest(game) -> Agent:
    """Always plays the legal action with the lowest number."""
    return Agent("lowest", lambda params, key, x: jnp.argmax(jax.vmap(game.legal_action_mask)(x), -1))


@functools.cache
def highest(game) -> Agent:
    def act(params, key, x):
        legal = jax.vmap(game.legal_action_mask)(x)
        return game.num_actions - 1 - jnp.argmax(legal[:, ::-1], -1)

    return Agent("highest", act)


@functools.cache
def uniform(game) -> Agent:
    def act(params, key, x):
        return random_action(key, jax.vmap(game.legal_action_mask)(x))

    return Agent("uniform", act)


def on_host(agent: Agent) -> Agent:
    def act(params, key, states):
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(states))
        return np.asarray(agent.act(params, key, states))

    return agent._replace(act=act, on_host=True)


def play(game, agent, opponent, *, pairs=PAIRS, key=0, **options) -> arena.MatchResult:
    return arena.make_match(game, agent, opponent, pairs=pairs, **options)(None, None, jax.random.key(key))


def moves_of(played: arena.Played, row: int) -> list[int]:
    return [int(action) for action in played.record[row] if action >= 0]


def test_every_game_of_hex_ends_as_the_reference_says():
    result = play(HEX, uniform(HEX), uniform(HEX))
    for row in range(2 * PAIRS):
        game = reference_hex.HexGame(3)
        for action in moves_of(result.played, row):
            assert game.winner() is None
            game.play(divmod(action, 3))
        assert game.winner() == (0 if result.played.result[row] > 0 else 1)


def test_games_with_repeated_turns_and_draws_end_as_the_reference_says():
    result = play(DOTS, uniform(DOTS), uniform(DOTS))
    outcomes = []
    for row in range(2 * PAIRS):
        game = reference_dots.DotsAndBoxes(1, 2)
        for action in moves_of(result.played, row):
            first, second = DOTS.action_to_text(action).split("-")
            dots = [(int(dot[1]) - 1, ord(dot[0]) - ord("a")) for dot in (first, second)]
            game.draw(reference_dots.line(*dots))
        assert game.is_over()
        outcomes.append(np.sign(game.score(0) - game.score(1)))
    assert result.played.result.tolist() == outcomes
    seen_by_agent = np.where(result.played.agent_first, outcomes, -np.array(outcomes))
    expected = [int((seen_by_agent == outcome).sum()) for outcome in (1, 0, -1)]
    assert list(result.total) == expected and result.total.draws > 0


def test_each_agent_is_first_in_half_of_the_games_and_moves_for_its_own_side():
    result = play(HEX, lowest(HEX), highest(HEX))
    # The lowest as Black: a1, c3, b1, b3 ...; as White it is asked second.
    assert moves_of(result.played, 0)[:4] == [0, 8, 1, 7]
    assert moves_of(result.played, PAIRS)[:4] == [8, 0, 7, 1]
    assert result.played.agent_first.tolist() == [True] * PAIRS + [False] * PAIRS


def test_a_match_seen_from_the_other_side_is_mirrored():
    ours = play(HEX, lowest(HEX), highest(HEX))
    theirs = play(HEX, highest(HEX), lowest(HEX))
    assert tuple(ours.first) == tuple(theirs.second)[::-1]
    assert ours.score == 1 - theirs.score


def test_repeated_games_are_reported():
    result = play(HEX, lowest(HEX), highest(HEX))
    assert (result.games, result.distinct_games) == (2 * PAIRS, 2)


def test_the_same_moves_with_exchanged_sides_are_another_game():
    result = play(HEX, lowest(HEX), lowest(HEX))
    assert len(np.unique(result.played.record, axis=0)) == 1
    assert (result.games, result.distinct_games) == (2 * PAIRS, 2)


def test_the_mean_length_leaves_the_opening_out():
    result = play(HEX, uniform(HEX), uniform(HEX), random_plies=2)
    lengths = [len(moves_of(result.played, row)) for row in range(2 * PAIRS)]
    assert result.mean_plies == pytest.approx(np.mean(lengths) - 2)


def test_an_agent_is_given_another_key_at_every_turn():
    keys = []

    def act(params, key, states):
        keys.append(tuple(jax.random.key_data(key).tolist()))
        return np.argmax(states.board == 0, 1)

    host = Agent("host", act, on_host=True)
    play(HEX, host, host)
    assert len(keys) >= 8 and len(set(keys)) == len(keys)


def test_a_pair_of_games_shares_its_random_opening():
    result = play(HEX, uniform(HEX), uniform(HEX), random_plies=2)
    opening = result.played.record[:, :2]
    np.testing.assert_array_equal(opening[:PAIRS], opening[PAIRS:])
    assert (opening >= 0).all() and len(np.unique(opening, axis=0)) > 3
    assert (result.played.opening_plies == 2).all()


def test_a_random_opening_never_ends_the_game():
    game = Hex(size=1)
    result = play(game, lowest(game), lowest(game), random_plies=3)
    assert (result.played.opening_plies == 0).all() and (result.played.plies == 1).all()
    assert result.first.wins == PAIRS and result.second.losses == PAIRS


def test_given_openings_are_played_in_turn_by_both_sides():
    by_moves = parse_position({"moves": ["b2", "a1"]}, HEX)
    by_notation = parse_position({"position": "3/1b1/3 w"}, HEX)
    result = play(HEX, lowest(HEX), highest(HEX), openings=[by_moves, by_notation])
    assert result.played.starts == [None, "3/1b1/3 w"] * PAIRS
    assert [moves_of(result.played, row)[:3] for row in (0, 2)] == [[4, 0, 1]] * 2
    # White is to move with the black stone on b2: White is the opponent, then the agent.
    assert (moves_of(result.played, 1)[0], moves_of(result.played, PAIRS + 1)[0]) == (8, 0)
    assert result.distinct_games == 4


def test_the_same_moves_from_another_position_are_another_game():
    quitter = Agent("quitter", lambda params, key, x: np.full(len(x.over), RESIGN), on_host=True)
    openings = [parse_position({"position": f"3/{row}/3 w"}, HEX) for row in ("1b1", "2b")]
    result = play(HEX, quitter, lowest(HEX), openings=openings)
    # White has no move, or a1 alone, from either position.
    assert {tuple(moves_of(result.played, row)) for row in range(2 * PAIRS)} == {(), (0,)}
    assert result.distinct_games == 4


def test_openings_of_another_game_or_already_over_are_refused():
    with pytest.raises(ValueError, match="size=4"):
        arena.make_match(HEX, lowest(HEX), lowest(HEX), pairs=1, openings=[parse_position({}, Hex(size=4))])
    over = parse_position({"moves": ["a1", "b1", "a2", "b2", "a3"]}, HEX)
    with pytest.raises(ValueError, match="over already"):
        arena.make_match(HEX, lowest(HEX), lowest(HEX), pairs=1, openings=[over])


def test_a_host_agent_plays_the_same_games_as_on_the_device():
    device = play(HEX, lowest(HEX), highest(HEX), random_plies=2)
    mixed = play(HEX, on_host(lowest(HEX)), highest(HEX), random_plies=2)
    np.testing.assert_array_equal(device.played.record, mixed.played.record)
    assert device.total == mixed.total


def test_a_host_agent_is_only_shown_games_that_wait_for_it():
    def act(params, key, states):
        # The agent of the other side has moved last: Black sees even numbers of stones, White odd ones.
        stones = (states.board != 0).sum(1)
        np.testing.assert_array_equal(stones % 2, states.current_player)
        assert not states.over.any()
        return np.argmax(states.board == 0, 1)

    play(HEX, Agent("host", act, on_host=True), uniform(HEX))


@pytest.mark.parametrize(
    "answer, forfeits", [(RESIGN, 0), (FORFEIT, 2 * PAIRS), (99, 2 * PAIRS), (-7, 2 * PAIRS)]
)
def test_who_gives_up_or_plays_no_legal_move_has_lost(answer, forfeits):
    quitter = Agent("quitter", lambda params, key, x: np.full(len(x.over), answer), on_host=True)
    result = play(HEX, quitter, lowest(HEX))
    assert tuple(result.total) == (0, 0, 2 * PAIRS)
    assert (result.forfeits, result.opponent_forfeits) == (forfeits, 0)
    assert (result.played.given_up == (RESIGN if answer == RESIGN else FORFEIT)).all()


def test_an_illegal_move_on_the_device_loses_that_game_alone():
    # b2 every time: legal once, unless the opponent has it.
    stubborn = Agent("stubborn", lambda params, key, x: jnp.full(x.over.shape, 4, jnp.int32))
    result = play(HEX, highest(HEX), stubborn)
    assert tuple(result.total) == (2 * PAIRS, 0, 0) and result.opponent_forfeits == 2 * PAIRS


def test_parameters_reach_the_agent():
    by_params = Agent("cell", lambda params, key, x: jnp.full(x.over.shape, params, jnp.int32), params=5)
    match = arena.make_match(HEX, by_params, lowest(HEX), pairs=PAIRS)
    assert match(None, None, jax.random.key(0)).played.record[0, 0] == 5
    assert match(7, None, jax.random.key(0)).played.record[0, 0] == 7


def test_no_lane_is_searched_in_vain_while_chunks_can_be_filled():
    calls = []

    def act(params, key, states):
        jax.debug.callback(lambda: calls.append(1))
        return random_action(key, jax.vmap(HEX.legal_action_mask)(states))

    result = play(HEX, Agent("counting", act), uniform(HEX), pairs=64, width=16)
    jax.effects_barrier()
    first_moves = (result.played.plies[:64] + 1) // 2
    second_moves = result.played.plies[64:] // 2
    needed = (first_moves.sum() + second_moves.sum()) / 16
    # Less than a chunk a ply is lost, and only when the last two chunks of games are at their end.
    assert needed <= len(calls) <= needed + 5


def test_an_agent_is_traced_once_whomever_it_meets():
    @chex.assert_max_traces(n=1)
    def act(params, key, states):
        return random_action(key, jax.vmap(HEX.legal_action_mask)(states))

    counted = Agent("counted", act)
    for opponent in (lowest(HEX), highest(HEX)):
        play(HEX, counted, opponent)
        play(HEX, opponent, counted)


def test_progress_ends_with_all_games_done():
    seen = []
    match = arena.make_match(HEX, lowest(HEX), highest(HEX), pairs=PAIRS)
    match(None, None, jax.random.key(0), progress=lambda done, games: seen.append((done, games)))
    assert seen[0] == (0, 2 * PAIRS) and seen[-1] == (2 * PAIRS, 2 * PAIRS) and seen == sorted(seen)


def test_a_single_move_can_be_asked_for():
    move = arena.make_mover(highest(HEX))
    assert move(jax.random.key(0), HEX.init(jax.random.key(0))) == 8


@pytest.mark.parametrize("successes, trials", [(8, 10), (0, 10), (50, 100), (3.5, 4)])
def test_wilsons_interval_ends_where_the_share_seen_is_just_within_two_deviations(successes, trials):
    # Its definition: the ends p solve (share - p)^2 = z^2 p (1 - p) / trials.
    for end in arena.wilson_interval(successes, trials):
        deviation = 1.959964 * (end * (1 - end) / trials) ** 0.5
        assert abs(successes / trials - end) == pytest.approx(deviation, abs=1e-7)


def test_rates_and_scores_count_draws_as_half():
    counts = arena.Outcomes(3, 2, 5)
    assert (counts.games, counts.score) == (10, 0.4)
    assert counts.rate(counts.draws) == (0.2, *arena.wilson_interval(2, 10))
    assert arena.Outcomes(0, 0, 0).interval == (0, 1)


def test_the_interval_of_a_score_is_around_it():
    # Three wins and two draws of ten are four points.
    assert arena.Outcomes(3, 2, 5).interval == arena.wilson_interval(4, 10)


def test_a_match_of_no_games_is_refused():
    with pytest.raises(ValueError, match="at least 1 pair"):
        arena.make_match(HEX, lowest(HEX), lowest(HEX), pairs=0)
