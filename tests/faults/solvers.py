"""Faults in the exact solvers."""

from tests.faults.core import Fault

TABLES, INFERIOR, CONNECTIONS, HEX_SEARCH = (
    f"azjax/solvers/hex/{name}.py" for name in ("tables", "inferior", "connections", "search")
)
CHECKERS, RETROGRADE = (f"azjax/solvers/checkers/{name}.py" for name in ("solver", "retrograde"))
RANKING = "envs/checkers_ranking.py"
DOTS, DOTS_SEARCH, CHAINS = (f"azjax/solvers/dots/{name}.py" for name in ("solver", "search", "chains"))

_BRUTE_FORCE = "solvers/test_hex.py::test_values_and_optimal_moves_are_those_of_brute_force"
_COUNTS_3X3 = "solvers/test_hex.py::test_the_table_holds_every_reachable_position_and_its_winner[3-5514-3410]"
_OPENINGS_5X5 = "solvers/test_hex.py::test_winning_openings_are_the_known_ones[5]"
_OPENINGS_6X6 = "solvers/test_hex.py::test_winning_openings_are_the_known_ones[6]"
_CARRIER = "solvers/test_hex.py::test_the_winner_needs_no_cell_outside_the_carrier_of_the_proof"
_TABLE_4X4 = "solvers/test_hex.py::test_search_finds_the_moves_of_the_table_on_4x4"
_CARRIER_3X3 = "solvers/test_hex.py::test_every_3x3_board_is_proven_with_a_carrier_that_suffices"
_FILLED = "solvers/test_hex.py::test_filling_in_changes_no_winner_of_any_3x3_board"
_DOMINATED = "solvers/test_hex.py::test_of_the_winning_moves_on_any_3x3_board_one_is_not_dominated"
_SYMMETRIC_5X5 = "solvers/test_hex.py::test_symmetric_positions_have_symmetric_moves[5-stones0]"
_NODE_LIMIT = "solvers/test_hex.py::test_beyond_a_limit_of_nodes_nothing_is_claimed"

_ROUND_TRIP = "solvers/test_checkers.py::test_ranking_undoes_unranking_over_the_whole_range"
_CHECKERS_FORCE = "solvers/test_checkers.py::test_every_value_and_distance_on_3x3_is_that_of_brute_force"
_CHECKERS_MIRROR = (
    "solvers/test_checkers.py::"
    "test_a_mirrored_position_is_stored_at_the_same_place_if_the_homes_are_symmetric"
)
_CHECKERS_FOLLOW = "solvers/test_checkers.py::test_values_follow_from_the_values_after_each_move"
_CHECKERS_DRAWN = "solvers/test_checkers.py::test_a_game_that_is_drawn_by_the_rules_is_a_draw"

_EMPTY_BOARDS = "solvers/test_dots.py::test_tables_give_the_known_values_and_first_lines_of_empty_boards"
_CAPTURED = "solvers/test_dots.py::test_captured_boxes_count_for_who_captured_them"
_OUTCOMES = "solvers/test_dots.py::test_under_outcomes_every_move_that_keeps_the_outcome_is_optimal"
_REDUCTIONS = (
    "solvers/test_dots.py::test_the_reductions_of_the_search_hold_in_every_position_of_small_boards[(2, 4)]"
)
_AGREE = "solvers/test_dots.py::test_search_and_table_agree_on_values_and_optimal_lines[shape1-1000]"
_AGREE_3X3 = "solvers/test_dots.py::test_search_and_table_agree_on_values_and_optimal_lines[shape3-2000]"
_LOONY = "solvers/test_dots.py::test_loony_endgames_have_the_known_values"
_CONTROLLED = "solvers/test_dots.py::test_the_controlled_value_is_the_value_if_it_is_at_least_two"
_SAFE = "solvers/test_dots.py::test_safe_and_capturing_lines_and_captures_agree_with_their_definitions"
_CHAIN_LENGTHS = "solvers/test_dots.py::test_chains_of_a_loony_endgame_are_found_with_their_lengths"
_LONG_AND_SHORT = (
    "solvers/test_dots.py::test_berlekamps_third_problem_has_a_long_and_a_short_chain_and_no_capture"
)

FAULTS = [
    Fault(
        "hex-table-swap-not-recognised",
        TABLES,
        "swapped = jnp.sum(board, axis=-1) != player",
        "swapped = jnp.sum(board, axis=-1) > player",
        (f"{_BRUTE_FORCE}[3-True]",),
    ),
    Fault(
        "hex-table-moves-after-a-swap-not-mirrored",
        TABLES,
        "    scores = jnp.where(swapped[:, None], mirrored, scores)\n",
        "    del mirrored\n",
        (f"{_BRUTE_FORCE}[3-True]",),
    ),
    Fault(
        "hex-table-no-move-is-optimal-when-lost",
        TABLES,
        "legal & (jnp.sign(scores) == value[:, None])",
        "legal & (jnp.sign(scores) == 1)",
        ("solvers/test_hex.py::test_a_look_up_tells_the_optimal_moves_of_lost_positions_too",),
    ),
    Fault(
        "hex-table-games-go-on-after-their-end",
        TABLES,
        "lost = sets.ends[1 - mover, last_mover_stones]",
        "lost = sets.joins[1 - mover, last_mover_stones]",
        (
            _COUNTS_3X3,
            "solvers/test_hex.py::test_the_table_has_the_right_number_of_positions_in_every_layer_of_4x4",
        ),
    ),
    Fault(
        "hex-table-new-stone-of-the-other-colour",
        TABLES,
        "(first_above if mover == 0 else 0)",
        "(first_above if mover == 1 else 0)",
        (f"{_BRUTE_FORCE}[3-False]",),
    ),
    Fault(
        "hex-inferior-wrong-side-of-the-neighbour",
        INFERIOR,
        "_stone(player, (place + 3) % 6)",
        "_stone(player, (place + 2) % 6)",
        ("solvers/test_hex.py::test_who_captures_a_pair_is_found_by_laying_the_stones",),
    ),
    Fault(
        "hex-inferior-corners-belong-to-white",
        INFERIOR,
        "[0 * row, row == size - 1, row == size - 1, 0 * row, row == 0, row == 0], 1",
        "[0 * row, row == size - 1, 0 * row, 0 * row, row == 0, 0 * row], 1",
        ("solvers/test_hex.py::test_beyond_each_side_lie_stones_of_its_owner",),
    ),
    Fault(
        "hex-inferior-moves-dominate-each-other",
        INFERIOR,
        "if other >= 0 and standing & bit_of(other) and work.is_dead",
        "if other >= 0 and work.is_dead",
        (_DOMINATED,),
    ),
    Fault(
        "hex-inferior-captured-cells-not-told",
        INFERIOR,
        "                    captured_white |= both\n",
        "",
        (_CARRIER, _OPENINGS_5X5),
    ),
    Fault(
        "hex-connections-without-their-key",
        CONNECTIONS,
        "key = _NONE if owned else bit_of(middle)",
        "key = _NONE",
        (_CARRIER, _OPENINGS_5X5),
    ),
    Fault(
        "hex-connections-over-empty-cells-are-full",
        CONNECTIONS,
        "kind = FULL if owned else HALF",
        "kind = FULL",
        (_CARRIER, _OPENINGS_5X5),
    ),
    Fault(
        "hex-connections-survive-the-opponents-stones",
        CONNECTIONS,
        "                    if carrier & lost == 0:\n",
        "                    if carrier != lost:\n",
        (_CARRIER, _OPENINGS_5X5),
    ),
    Fault(
        "hex-connections-or-of-three-leaves-one-out",
        CONNECTIONS,
        "_add(work, slot, FULL, x, y, half[i] | half[j] | half[k])\n",
        "_add(work, slot, FULL, x, y, half[i] | half[j])\n",
        (_CARRIER, _OPENINGS_5X5, _OPENINGS_6X6),
    ),
    Fault(
        "hex-connections-overlap",
        CONNECTIONS,
        "            if onward & blocked == 0:\n",
        "            if onward & blocked != blocked:\n",
        (
            "solvers/test_hex.py::test_search_finds_the_winner_of_the_table_on_4x4",
            "solvers/test_hex.py::test_winning_openings_are_the_known_ones[6]",
        ),
    ),
    Fault(
        "hex-search-refutation-without-captured-cells",
        HEX_SEARCH,
        "_refute(work, depth, carrier | captured_theirs)",
        "_refute(work, depth, carrier)",
        (
            "solvers/test_hex.py::test_search_finds_the_moves_of_the_table_on_4x4",
            "solvers/test_hex.py::test_winning_openings_are_the_known_ones[6]",
        ),
    ),
    Fault(
        "hex-search-table-read-for-the-mover",
        HEX_SEARCH,
        "    if result == LOSS:\n        work.proof[depth] = bit | carrier | captured_mine\n",
        "    if result == WIN:\n        work.proof[depth] = bit | carrier | captured_mine\n",
        (
            "solvers/test_hex.py::test_search_finds_the_moves_of_the_table_on_4x4",
            "solvers/test_hex.py::test_winning_openings_are_the_known_ones[5]",
        ),
    ),
    Fault(
        "hex-search-proof-without-captured-cells",
        HEX_SEARCH,
        'carrier = int(work["proof"][0] | captured[winner]) if finished else 0',
        'carrier = int(work["proof"][0]) if finished else 0',
        (_CARRIER, _TABLE_4X4),
    ),
    Fault(
        "hex-search-symmetric-if-one-colour-is",
        HEX_SEARCH,
        "is_symmetric = all(half_turn(stones, cells) == stones for stones in position[:2])",
        "is_symmetric = all(half_turn(stones, cells) == stones for stones in position[:1])",
        (_SYMMETRIC_5X5, _TABLE_4X4),
    ),
    Fault(
        "hex-search-claims-beyond-its-limit",
        HEX_SEARCH,
        'result = int(work["result"]) if finished else UNKNOWN',
        'result = int(work["result"]) or LOSS',
        (_NODE_LIMIT,),
    ),
    Fault(
        "hex-search-must-play-of-the-mover",
        HEX_SEARCH,
        "hex_connections.connect(work, opponent, opponent, other, own)",
        "hex_connections.connect(work, opponent, player, own, other)",
        (_OPENINGS_5X5, _TABLE_4X4),
    ),
    Fault(
        "checkers-ranking-own-mirror-images-not-stored",
        RANKING,
        "is_stored = own <= image",
        "is_stored = own < image",
        (_CHECKERS_MIRROR,),
    ),
    Fault(
        "checkers-ranking-own-mirror-images-counted-twice",
        RANKING,
        "weight=np.where(own < image, 2, 1)[is_stored]",
        "weight=np.where(own <= image, 2, 1)[is_stored]",
        (
            "solvers/test_checkers.py::test_there_are_as_many_positions_as_known",
            "solvers/test_checkers.py::test_the_illegal_positions_are_as_many_as_the_closed_form_says",
        ),
    ),
    Fault(
        "checkers-ranking-opponent-not-turned",
        RANKING,
        "return _rank_set(ranking, theirs[..., ::-1]), _rank_set(ranking, mine, place)",
        "return _rank_set(ranking, theirs), _rank_set(ranking, mine, place)",
        (f"{_ROUND_TRIP}[board0]",),
    ),
    Fault(
        "checkers-retrograde-losses-before-wins",
        RETROGRADE,
        "wins = layer % 2 == 1",
        "wins = layer % 2 == 0",
        (f"{_CHECKERS_FORCE}[False]",),
    ),
    Fault(
        "checkers-retrograde-draws-lost",
        RETROGRADE,
        "is_wanted = (codes == LOSS) | (codes == OPEN) & ~wins",
        "is_wanted = codes == LOSS",
        (f"{_CHECKERS_FORCE}[False]",),
    ),
    Fault(
        "checkers-retrograde-sideways-is-behind",
        RETROGRADE,
        "goals = [c for c in goals if lattice.row[c] >= lattice.row[cell]]",
        "goals = [c for c in goals if lattice.row[c] > lattice.row[cell]]",
        (f"{_CHECKERS_FORCE}[True]",),
    ),
    Fault(
        "checkers-retrograde-stuck-has-lost",
        RETROGRADE,
        "if game.forward_only and not stuck_loses:",
        "if game.forward_only and stuck_loses:",
        (f"{_CHECKERS_FORCE}[True]",),
    ),
    Fault(
        "checkers-retrograde-chains-of-hops-cut-short",
        RETROGRADE,
        "                if start != middle:\n",
        "                if start < middle:\n",
        ("solvers/test_checkers.py::test_the_counts_of_a_solved_board_are_the_known_ones[board4]",),
    ),
    Fault(
        "checkers-solver-opponents-wins-taken-for-own",
        CHECKERS,
        "_OUTCOMES = np.array([2, 3, 1, -1])",
        "_OUTCOMES = np.array([2, 1, 3, -1])",
        ("solvers/test_checkers.py::test_values_follow_from_the_values_after_each_move",),
    ),
    Fault(
        "checkers-solver-moves-of-the-second-player-not-turned",
        CHECKERS,
        "moved = mine ^ jnp.where(x.current_player == 0, flips, flips[:, ::-1])",
        "moved = mine ^ flips",
        (f"{_CHECKERS_FORCE}[False]", f"{_CHECKERS_FOLLOW}[False]"),
    ),
    Fault(
        "checkers-solver-drawn-games-looked-up",
        CHECKERS,
        "return jnp.where(states.outcome == DRAWN, OPEN, codes_at(codes, *place)), place",
        "return codes_at(codes, *place), place",
        (_CHECKERS_DRAWN,),
    ),
    Fault(
        "dots-table-turn-passes-after-a-capture",
        DOTS,
        "value = jnp.where(completed > 0, completed + after, -after)",
        "value = completed - after",
        (f"{_EMPTY_BOARDS}[shape0]", _EMPTY_BOARDS),
    ),
    Fault(
        "dots-table-one-box-a-line",
        DOTS,
        "completed = sum(((drawn & other_sides) == other_sides).astype(jnp.int8) for other_sides in sets)",
        "completed = jnp.minimum(1, sum(((drawn & other) == other).astype(jnp.int8) for other in sets))",
        ("solvers/test_dots.py::test_the_whole_table_agrees_with_plain_recursion",),
    ),
    Fault(
        "dots-solver-captured-boxes-of-the-first-player",
        DOTS_SEARCH,
        "sign = 1 - 2 * np.asarray(states.current_player, np.int32)",
        "sign = np.ones_like(states.current_player, np.int32)",
        (_CAPTURED,),
    ),
    Fault(
        "dots-search-outcome-without-captured-boxes",
        DOTS_SEARCH,
        "enough = outcome - now  # what",
        "enough = outcome  # what",
        (_OUTCOMES,),
    ),
    Fault(
        "dots-search-pairs-given-like-loops",
        DOTS_SEARCH,
        "closed = closed or heap >= 4",
        "closed = closed or heap >= 2",
        (_REDUCTIONS, _AGREE),
    ),
    Fault(
        "dots-search-loops-given-like-chains",
        DOTS_SEARCH,
        "return position, taken, 2 if has_exit else 4 if closed else 0",
        "return position, taken, 2 if has_exit or closed else 0",
        (_REDUCTIONS, _AGREE),
    ),
    Fault(
        "dots-search-single-boxes-given-back",
        DOTS_SEARCH,
        "            elif heap >= 2:\n",
        "            elif heap >= 1:\n",
        (_REDUCTIONS, _AGREE),
    ),
    Fault(
        "dots-search-upper-bound-kept-as-lower",
        DOTS_SEARCH,
        "    if best >= bound:\n        lower = max(lower, best)\n",
        "    if best >= bound:\n        lower = upper = best\n",
        (_AGREE, _AGREE_3X3),
    ),
    Fault(
        "dots-search-half-of-the-choice-asked",
        DOTS_SEARCH,
        "            or not self._quiet_reaches(rest, 1 - distance - give)\n",
        "",
        (_AGREE, _AGREE_3X3),
    ),
    Fault(
        "dots-chains-a-loop-leaves-two",
        CHAINS,
        "options.append(n - 4 + abs(_loony_value(chains, loops[:i] + loops[i + 1 :]) - 4))",
        "options.append(n - 2 + abs(_loony_value(chains, loops[:i] + loops[i + 1 :]) - 2))",
        (_LOONY,),
    ),
    Fault(
        "dots-chains-control-of-threes-without-loops",
        CHAINS,
        "elif loops and max(chains) == 3:",
        "elif max(chains) == 3:",
        (_CONTROLLED,),
    ),
    Fault(
        "dots-chains-boxes-to-capture-are-unsafe",
        CHAINS,
        "return ~lines & ~_beside(game, degrees(game, lines) == 2)",
        "return ~lines & ~_beside(game, degrees(game, lines) <= 2)",
        (_SAFE,),
    ),
    Fault(
        "dots-chains-two-boxes-are-long",
        CHAINS,
        "        jnp.sum(path & (chains.size <= 2), dtype=jnp.int32),\n"
        "        jnp.sum(path & (chains.size >= 3), dtype=jnp.int32),\n",
        "        jnp.sum(path & (chains.size < 2), dtype=jnp.int32),\n"
        "        jnp.sum(path & (chains.size >= 2), dtype=jnp.int32),\n",
        (_LONG_AND_SHORT, _CHAIN_LENGTHS),
    ),
]
