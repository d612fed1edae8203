"""Judges of Dots and Boxes: double deals, Berlekamp's problems, the confusion board, boards of other sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import positions
from azjax.agents import dots_games
from azjax.common.agent import Agent
from azjax.envs import DotsAndBoxes, Hex
from azjax.envs.core import random_action
from azjax.evaluation import dots_judges, match_openings, suites
from azjax.solvers.dots import chains
from azjax.solvers.dots.solver import make_solver

# 1x3 boxes: lines 0 to 2 above, 3 to 5 below, 6 to 9 upright. With all lying ones drawn, the boxes are a chain.
CHAIN = [0, 1, 2, 3, 4, 5]
# 2x2 boxes: 0 1 above, 2 3 in the middle, 4 5 below; upright 6 7 8 and 9 10 11. Around the border lies a loop.
LOOP = [0, 1, 4, 5, 6, 8, 9, 11]


def deals(game, moves, **where):
    record = np.full((1, game.num_actions), -1, np.int32)
    record[0, : len(moves)] = moves
    return dots_judges.count_double_deals(game, record, **where).by_player[0].tolist()


def solver_agent(game):
    solver = make_solver(game, method="search")
    return Agent("solver", lambda params, key, x: np.argmax(solver.optimal_actions(x), 1), on_host=True)


def test_leaving_the_last_two_boxes_of_a_chain_is_a_double_deal():
    # The first player opens with 6; the second takes a box with 7 and declines the others with 9; 8 takes both.
    assert deals(DotsAndBoxes(1, 3), [*CHAIN, 6, 7, 9, 8]) == [0, 1]


def test_taking_all_boxes_of_a_chain_is_none():
    assert deals(DotsAndBoxes(1, 3), [*CHAIN, 6, 7, 8, 9]) == [0, 0]


def test_leaving_the_whole_chain_is_none():
    # Without taking the first box, 9 leaves a chain of three with a capture at each end.
    assert deals(DotsAndBoxes(1, 3), [*CHAIN, 6, 9]) == [0, 0]


def test_leaving_two_pairs_of_a_loop_is_a_double_deal():
    # Eight lines, then the first player opens the loop with 7, and the second draws the opposite line, 10.
    assert deals(DotsAndBoxes(2, 2), [*LOOP, 7, 10]) == [0, 1]


def test_games_are_replayed_from_where_they_began():
    # The chain's lying lines are drawn already, and White has opened it: the same end of the game as above.
    game = DotsAndBoxes(1, 3)
    state = game.init(jax.random.key(0))
    for line in (*CHAIN, 6):
        state = game.step(state, line)
    start = game.to_notation(state)
    assert deals(game, [7, 9, 8], starts=[start]) == [0, 1]
    assert deals(game, [7, 9, 8]) == [0, 0]


def test_double_deals_that_nobody_chose_do_not_count():
    moves = [*CHAIN, 6, 7, 9, 8]
    assert deals(DotsAndBoxes(1, 3), moves, skip=8) == [0, 1]  # 9 is the first move of a player
    assert deals(DotsAndBoxes(1, 3), moves, skip=np.array([9])) == [0, 0]


@pytest.mark.parametrize("level", ["medium", "hard"])
def test_hard_double_deals_and_medium_never_does(level):
    game = DotsAndBoxes(4, 4)
    openings = match_openings.safe_openings(game, 40)
    starts = np.array([opening.state.lines for opening in openings])
    records = dots_games.play(game, level, starts, np.arange(40))
    texts = [opening.fields["position"] for opening in openings]
    total = dots_judges.count_double_deals(game, records, texts).total
    assert total > 0 if level == "hard" else total == 0


def test_matches_begin_at_safe_fills_and_count_their_games_by_them():
    game = DotsAndBoxes(2, 2, reward="margin")
    openings = match_openings.make("safe", game, 6, seed=3)
    assert [opening.game for opening in openings] == [game] * 6
    assert [int(opening.state.lines.sum()) for opening in openings] == [
        int(filled.sum())
        for filled in dots_games.safe_fills(
            game, 4, np.random.default_rng(3).integers(2**64, size=6, dtype=np.uint64)
        )
    ]  # 0.35 of 12 lines are 4

    def agent(game):
        return Agent("random", lambda params, key, x: random_action(key, ~x.lines))

    results = dots_judges.over_board_sizes(
        agent,
        agent,
        (2,),
        pairs=6,
        key=jax.random.key(0),
        random_plies=0,
        openings=lambda board: match_openings.make("safe", board, 6),
    )
    played = results[2].played
    assert played.starts[:6] == played.starts[6:] and None not in played.starts
    for start, record in zip(played.starts, played.record):
        drawn = np.flatnonzero(game.from_notation(start).lines)
        assert sorted([*drawn, *record[record >= 0]]) == list(range(game.num_actions))


def test_openings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="openings of a match are none, safe"):
        match_openings.make("sage", DotsAndBoxes(2, 2), 1)
    with pytest.raises(
        ValueError, match=r"safe openings are for dots_and_boxes \(give a position file\), not hex"
    ):
        match_openings.make("safe", Hex(3), 1)


def test_opening_a_loop_is_none():
    assert deals(DotsAndBoxes(2, 2), [*LOOP, 7]) == [0, 0]


@pytest.mark.slow
def test_the_solver_finds_exactly_the_solutions_of_all_thirteen_problems():
    for position in suites.read_suite("berlekamp"):
        game = position.game
        optimal = make_solver(game, method="search").optimal_actions(positions.stack([position.state]))
        named = {game.action_to_text(action) for action in np.flatnonzero(optimal[0])}
        assert named == set(position.fields["optimal"]), position.fields["problem"]


def test_there_are_thirteen_problems_with_the_solutions_of_the_book():
    suite = suites.read_suite("berlekamp")
    boards = [(position.game.rows, position.game.columns) for position in suite]
    assert boards == [(3, 3)] * 7 + [(3, 5)] * 3 + [(5, 5)] * 3
    # Two moves win in problem 2, three in 4 and 11, four in 6, and one in all others.
    assert [len(position.fields["optimal"]) for position in suite] == [1, 2, 1, 3, 1, 4, 1, 1, 1, 1, 3, 1, 1]


def test_an_agent_that_draws_the_first_open_line_solves_the_problems_whose_solution_that_is():
    def first(game):
        return Agent("first", lambda params, key, x: jnp.argmax(~x.lines, -1))

    result = dots_judges.berlekamp(first, jax.random.key(0))
    expected = []
    for position in suites.read_suite("berlekamp"):
        first_open = int(np.argmin(position.state.lines))
        expected.append(position.game.action_to_text(first_open) in position.fields["optimal"])
    assert [answer.correct for answer in result.answers] == expected
    assert result.all.correct >= 1  # problems 8 and 9 are solved by line 0


def test_the_solver_is_not_confused_and_a_player_who_declines_is():
    assert dots_judges.confusion(solver_agent, jax.random.key(0))

    def last(game):
        return Agent("last", lambda params, key, x: jnp.argmax(~x.lines * jnp.arange(game.num_actions), -1))

    assert not dots_judges.confusion(last, jax.random.key(0))


def test_taking_two_boxes_and_then_opening_a_short_chain_is_confused():
    # As one of the thesis's networks does: c4-d4 opens the box in the corner.
    def takes_two(game):
        solver = make_solver(game, method="search")

        def act(params, key, x):
            captured = np.sum(np.asarray(x.owners) != 0, axis=1)
            return np.where(
                captured < 2, np.argmax(solver.optimal_actions(x), 1), game.text_to_action("c4-d4")
            )

        return Agent("takes two", act, on_host=True)

    assert not dots_judges.confusion(takes_two, jax.random.key(0))


def test_the_confusion_board_is_asked_about_for_the_whole_turn():
    suite = suites.read_suite("confusion")
    game = DotsAndBoxes(3, 3, reward="margin")
    states = positions.stack([position.state for position in suite])
    margins = make_solver(game, method="search").move_margins(states)
    for number, position in enumerate(suite):
        assert position.game == game
        (best,) = map(game.text_to_action, position.fields["optimal"])
        # Taking on wins by seven; at first all else loses by five, and with every box taken it is less of a mistake.
        assert margins[number, best] == 7
        assert np.nanmax(np.delete(margins[number], best)) == (-5, -3, -1, 1, 5)[number]
        after = game.step(position.state, best)
        assert int(after.current_player) == int(position.state.current_player) == 0  # still the same turn
        if number + 1 < len(suite):
            assert game.to_notation(after) == position_text(suite[number + 1])
    assert not len(chains.analyse(game, after.lines).capturing.nonzero()[0])  # the whole chain has been taken


def position_text(position):
    return position.fields["position"]


def test_matches_are_played_on_every_board():
    def agent(game):
        return Agent("random", lambda params, key, x: random_action(key, ~x.lines))

    results = dots_judges.over_board_sizes(agent, agent, (1, 2), pairs=3, key=jax.random.key(0))
    assert {size: result.games for size, result in results.items()} == {1: 6, 2: 6}
    assert results[1].total.draws == 0  # a single box cannot be shared
    row = dots_judges.as_row(results[1])
    assert row["wins"] == pytest.approx(results[1].total.wins / 6)
