"""Faults in the ratings, and in what a match counts."""

from tests.faults.core import Fault

RATINGS, ARENA = "azjax/evaluation/ratings.py", "azjax/evaluation/arena.py"

_RATINGS = ("evaluation/test_ratings.py",)
_DOTS_MATCH = "evaluation/test_arena.py::test_games_with_repeated_turns_and_draws_end_as_the_reference_says"
_SIDES = "evaluation/test_arena.py::test_each_agent_is_first_in_half_of_the_games_and_moves_for_its_own_side"
_MIRRORED = "evaluation/test_arena.py::test_a_match_seen_from_the_other_side_is_mirrored"
_GIVES_UP = "evaluation/test_arena.py::test_who_gives_up_or_plays_no_legal_move_has_lost"
_ILLEGAL = "evaluation/test_arena.py::test_an_illegal_move_on_the_device_loses_that_game_alone"
_WILSON = (
    "evaluation/test_arena.py::test_wilsons_interval_ends_where_the_share_seen_is_just_within_two_deviations"
)
_HALF = "evaluation/test_arena.py::test_rates_and_scores_count_draws_as_half"
_OPENING = "evaluation/test_arena.py::test_a_pair_of_games_shares_its_random_opening"
_OPENING_END = "evaluation/test_arena.py::test_a_random_opening_never_ends_the_game"
_IN_TURN = "evaluation/test_arena.py::test_given_openings_are_played_in_turn_by_both_sides"
_REPEATED = "evaluation/test_arena.py::test_repeated_games_are_reported"
_EXCHANGED = "evaluation/test_arena.py::test_the_same_moves_with_exchanged_sides_are_another_game"
_OTHER_START = "evaluation/test_arena.py::test_the_same_moves_from_another_position_are_another_game"

FAULTS = [
    Fault(
        "ratings-prior-counted-twice",
        RATINGS,
        "share = prior * 0.25 * played",
        "share = prior * 0.5 * played",
        _RATINGS,
    ),
    Fault(
        "ratings-prior-heard-from-one-player-alone",
        RATINGS,
        "    virtual = share + share.T\n    with_prior = table._replace(draws=",
        "    virtual = share\n    with_prior = table._replace(draws=",
        _RATINGS,
    ),
    Fault(
        "ratings-advantage-of-moving-second",
        RATINGS,
        "first, draw = 10 ** (advantage / 400), 10 ** (draw_elo / 400)",
        "first, draw = 10 ** (-advantage / 400), 10 ** (draw_elo / 400)",
        _RATINGS,
    ),
    Fault(
        "ratings-advantage-ignored",
        RATINGS,
        "first, draw = 10 ** (advantage / 400), 10 ** (draw_elo / 400)",
        "first, draw = 1.0, 10 ** (draw_elo / 400)",
        _RATINGS,
    ),
    Fault(
        "ratings-not-scaled",
        RATINGS,
        "scale = 4 / draw / (1 + 1 / draw) ** 2",
        "scale = 1.0",
        _RATINGS,
    ),
    Fault(
        "ratings-by-the-natural-logarithm",
        RATINGS,
        "elo = 400 * np.log10(gamma)",
        "elo = 400 * np.log(gamma)",
        _RATINGS,
    ),
    Fault(
        "ratings-draw-counted-as-lost",
        RATINGS,
        "won = table.wins + table.draws  # a draw",
        "won = table.wins  # a draw",
        _RATINGS,
    ),
    Fault(
        "ratings-draw-counted-as-lost-in-the-score",
        RATINGS,
        "points = (table.wins + table.draws / 2).sum(1) + (table.losses + table.draws / 2).sum(0)",
        "points = table.wins.sum(1) + table.losses.sum(0)",
        _RATINGS,
    ),
    Fault(
        "ratings-interval-of-ninety-per-cent",
        RATINGS,
        "np.interp([0.025, 0.975], mass / mass[-1], grid)",
        "np.interp([0.05, 0.95], mass / mass[-1], grid)",
        _RATINGS,
    ),
    Fault(
        "ratings-others-stand-still-in-the-profile",
        RATINGS,
        "moved = elo - (grid[:, None] - elo[player]) / max(count - 1, 1)",
        "moved = elo - 0 * grid[:, None]",
        _RATINGS,
    ),
    Fault(
        "ratings-likelihood-prior-counted-twice",
        RATINGS,
        "share = prior / 4 * played",
        "share = prior / 2 * played",
        _RATINGS,
    ),
    Fault(
        "ratings-wald-interval-of-ninety-per-cent",
        RATINGS,
        "spread = 1.959964 * ELO",
        "spread = 1.644854 * ELO",
        _RATINGS,
    ),
    Fault(
        "ratings-draws-as-likely-as-wins-together",
        RATINGS,
        "rows[1] = (rows[0] + rows[2]) / 2",
        "rows[1] = rows[0] + rows[2]",
        _RATINGS,
    ),
    Fault(
        "ratings-draws-join-nobody",
        RATINGS,
        "beats = (table.wins + table.draws + table.losses.T + table.draws.T) > 0",
        "beats = (table.wins + table.losses.T) > 0",
        _RATINGS,
    ),
    Fault(
        "ratings-losses-moving-second-forgotten",
        RATINGS,
        "beats = (table.wins + table.draws + table.losses.T + table.draws.T) > 0",
        "beats = (table.wins + table.draws + table.draws.T) > 0",
        _RATINGS,
    ),
    Fault(
        "ratings-opponents-not-weighted-by-games",
        RATINGS,
        "opponents = played @ elo / games",
        "opponents = (played > 0) @ elo / (played > 0).sum(1)",
        _RATINGS,
    ),
    Fault(
        "ratings-last-result-of-a-pair-alone",
        RATINGS,
        "wins[place] += score.wins",
        "wins[place] = score.wins",
        _RATINGS,
    ),
    Fault(
        "ratings-worst-first",
        RATINGS,
        "return Ratings(sorted(ratings, key=lambda rating: -rating.elo))",
        "return Ratings(sorted(ratings, key=lambda rating: rating.elo))",
        _RATINGS,
    ),
    Fault(
        "arena-wilson-centre-without-the-square",
        ARENA,
        "centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)",
        "centre = (share + z / (2 * trials)) / (1 + z * z / trials)",
        (_WILSON,),
    ),
    Fault(
        "arena-nothing-is-possible-of-no-games",
        ARENA,
        "        return 0.0, 1.0\n",
        "        return 0.0, 0.0\n",
        (_HALF,),
    ),
    Fault(
        "arena-draw-counted-as-lost",
        ARENA,
        "return (self.wins + self.draws / 2) / self.games if self.games else math.nan",
        "return self.wins / self.games if self.games else math.nan",
        (_HALF,),
    ),
    Fault(
        "arena-interval-without-draws",
        ARENA,
        "return wilson_interval(self.wins + self.draws / 2, self.games)",
        "return wilson_interval(self.wins, self.games)",
        ("evaluation/test_arena.py::test_the_interval_of_a_score_is_around_it",),
    ),
    Fault(
        "arena-both-games-of-a-pair-with-one-colour",
        ARENA,
        "agent_is = np.arange(games, dtype=np.int32) // pairs",
        "agent_is = np.arange(games, dtype=np.int32) % 2",
        (_SIDES,),
    ),
    Fault(
        "arena-results-of-the-first-player",
        ARENA,
        "reward = np.where(agent_first, result, -result)",
        "reward = result",
        (_MIRRORED, _DOTS_MATCH),
    ),
    Fault(
        "arena-who-gives-up-wins",
        ARENA,
        "np.where(given_up != 0, np.where(loser == 0, -1, 1), np.sign(result))",
        "np.where(given_up != 0, np.where(loser == 0, 1, -1), np.sign(result))",
        (_GIVES_UP,),
    ),
    Fault(
        "arena-resigning-is-a-forfeit",
        ARENA,
        "forfeited_by_first = (given_up == FORFEIT) & (loser == 0)",
        "forfeited_by_first = (given_up != 0) & (loser == 0)",
        (_GIVES_UP,),
    ),
    Fault(
        "arena-forfeits-of-the-other",
        ARENA,
        "forfeits=int(np.where(agent_first, forfeited_by_first, forfeited_by_second).sum()),\n",
        "forfeits=int(np.where(agent_first, forfeited_by_second, forfeited_by_first).sum()),\n",
        (_GIVES_UP, _ILLEGAL),
    ),
    Fault(
        "arena-illegal-moves-played",
        ARENA,
        "legal = inside & jax.vmap(game.legal_action_mask)(states)[jnp.arange(len(lanes)), known]",
        "legal = inside",
        (_ILLEGAL,),
    ),
    Fault(
        "arena-same-moves-of-exchanged-sides-are-one-game",
        ARENA,
        "sides = np.stack([agent_first, given_up, [number",
        "sides = np.stack([0 * agent_first, given_up, [number",
        (_EXCHANGED,),
    ),
    Fault(
        "arena-same-moves-of-other-starts-are-one-game",
        ARENA,
        "[number[start] for start in starts]], axis=1)",
        "[0 for start in starts]], axis=1)",
        (_OTHER_START,),
    ),
    Fault(
        "arena-mean-length-with-the-opening",
        ARENA,
        "mean_plies=float((plies - opening_plies).mean())",
        "mean_plies=float(plies.mean())",
        ("evaluation/test_arena.py::test_the_mean_length_leaves_the_opening_out",),
    ),
    Fault(
        "arena-opening-ends-the-game",
        ARENA,
        "goes_on = ~jax.vmap(game.is_terminal)(after)",
        "goes_on = ~jax.vmap(game.is_terminal)(table.states)",
        (_OPENING_END,),
    ),
    Fault(
        "arena-one-opening-for-all-pairs",
        ARENA,
        "states = positions.stack([openings[pair % len(openings)].state for pair in range(pairs)])",
        "states = positions.stack([openings[0].state for pair in range(pairs)])",
        (_IN_TURN,),
    ),
    Fault(
        "arena-same-key-at-every-turn",
        ARENA,
        "jax.random.fold_in(key, turn)",
        "key",
        ("evaluation/test_arena.py::test_an_agent_is_given_another_key_at_every_turn",),
    ),
]
