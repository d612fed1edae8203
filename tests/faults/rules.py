"""Faults in the rules of the games."""

from tests.faults.core import Fault

HEX, CHECKERS, DOTS, CORE = (
    f"envs/{name}.py" for name in ("hex", "chinese_checkers", "dots_and_boxes", "core")
)

_HEX_GAMES = "envs/test_hex.py::test_every_ply_of_random_games_agrees_with_the_reference[3-500]"
_HEX_1X1 = "envs/test_hex.py::test_every_ply_of_random_games_with_swaps_agrees_with_the_reference[1-2]"
_HEX_SWAPS = "envs/test_hex.py::test_every_ply_of_random_games_with_swaps_agrees_with_the_reference[3-300]"
_HEX_FRAMES = "envs/test_hex.py::test_action_frames_lead_from_what_the_mover_sees_to_the_board"
_HEX_TURN = "envs/test_hex.py::test_a_half_turn_turns_observations_and_masks_as_the_tables_say"
_HEX_FILLINGS = "envs/test_hex.py::test_playouts_win_as_often_as_all_fillings_of_the_position"
_HEX_SWAP_COUNTS = (
    "envs/test_hex.py::test_stone_counts_that_even_a_swap_does_not_explain_are_refused",
    "envs/test_hex.py::test_stone_counts_after_a_swap_are_those_of_the_swap_rule_alone",
)

_CHECKERS_GAMES = "envs/test_chinese_checkers.py::test_random_games_agree_with_the_reference_move_by_move"
_CHECKERS_FREE = f"{_CHECKERS_GAMES}[3-3-False-6-60-150]"
_CHECKERS_FORWARD = f"{_CHECKERS_GAMES}[4-3-True-6-100-300]"
_CHECKERS_SIX = f"{_CHECKERS_GAMES}[4-6-False-6-50-100]"
_CHECKERS_TIP = "envs/test_chinese_checkers.py::test_six_pieces_must_not_close_the_empty_tip_of_their_home"
_CHECKERS_TURNED = "envs/test_chinese_checkers.py::test_the_observation_is_turned_for_the_second_player"
_CHECKERS_CROWDED = (
    "envs/test_chinese_checkers.py::test_whether_there_is_a_move_agrees_with_the_reference_on_crowded_boards"
)
_CHECKERS_SHUFFLING = (
    "envs/test_chinese_checkers.py::test_shuffling_is_drawn_when_the_board_comes_back_once_too_often"
)

_DOTS_GAMES = "envs/test_dots_and_boxes.py::test_every_move_of_random_games_agrees_with_the_reference"
_DOTS_ORDER = "envs/test_dots_and_boxes.py::test_play_in_a_given_order_ends_as_the_same_game_move_by_move"
_DOTS_COMPACT = "envs/test_dots_and_boxes.py::test_the_compact_observation_of_a_small_board"
_DOTS_SYMMETRIES = "envs/test_dots_and_boxes.py::test_symmetries_are_exact_permutations_of_observations"

FAULTS = [
    Fault(
        "hex-neighbours-along-the-other-diagonal",
        HEX,
        "_RING = ((0, 1), (1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1))",
        "_RING = ((0, 1), (1, 1), (1, 0), (0, -1), (-1, -1), (-1, 0))",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-neighbours-wrap-around-the-row",
        HEX,
        "inside = (0 <= r) & (r < self.size) & (0 <= c) & (c < self.size)",
        "inside = (0 <= r * self.size + c) & (r * self.size + c < self._cells)",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-white-labels-not-transposed",
        HEX,
        "mover_cell = jnp.where(x.current_player == 0, action, transposed)",
        "mover_cell = action",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-first-row-one-short",
        HEX,
        "wins = (first <= self.size) & reaches_bottom",
        "wins = (first < self.size) & reaches_bottom",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-last-row-one-too-long",
        HEX,
        "reaches_bottom = last > self._cells - self.size\n        wins",
        "reaches_bottom = last >= self._cells - self.size\n        wins",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-two-of-three-pairs-of-neighbours",
        HEX,
        "around[i + 1]) for i in (0, 2, 4)]",
        "around[i + 1]) for i in (0, 2)]",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-label-of-the-first-cell-at-the-bottom",
        HEX,
        "label = jnp.where(wins, dtype(self._cells + 1), jnp.where(reaches_bottom, last, first))",
        "label = jnp.where(wins, dtype(self._cells + 1), first)",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-groups-relabelled-after-the-end",
        HEX,
        "board = jnp.where(joined & ~x.over, label * sign, x.board)",
        "board = jnp.where(joined, label * sign, x.board)",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-swap-on-the-same-cell",
        HEX,
        "mirrored = HexState(-self._transposed(x.board), jnp.int32(0)",
        "mirrored = HexState(-x.board, jnp.int32(0)",
        (_HEX_SWAPS,),
    ),
    Fault(
        "hex-swapper-moves-again",
        HEX,
        "mirrored = HexState(-self._transposed(x.board), jnp.int32(0)",
        "mirrored = HexState(-self._transposed(x.board), jnp.int32(1)",
        (_HEX_SWAPS,),
    ),
    Fault(
        "hex-swap-at-any-time",
        HEX,
        "first_reply = (x.current_player == 1) & (jnp.sum(x.board != 0) == 1) & ~x.over",
        "first_reply = (x.current_player == 1) & (jnp.sum(x.board != 0) >= 1) & ~x.over",
        (_HEX_SWAPS,),
    ),
    Fault(
        "hex-swap-after-a-swap",
        HEX,
        "first_reply = (x.current_player == 1) & (jnp.sum(x.board != 0) == 1) & ~x.over",
        "first_reply = (jnp.sum(x.board != 0) == 1) & ~x.over",
        (_HEX_SWAPS,),
    ),
    Fault(
        "hex-swap-after-the-end",
        HEX,
        "(jnp.sum(x.board != 0) == 1) & ~x.over",
        "(jnp.sum(x.board != 0) == 1)",
        (_HEX_1X1,),
    ),
    Fault(
        "hex-observation-of-white-not-transposed",
        HEX,
        "board = jnp.where(player == 0, board, -board.T)",
        "board = jnp.where(player == 0, board, -board)",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-frame-of-white-not-transposed",
        HEX,
        "return np.stack([action, transposed]).astype(np.int32)",
        "return np.stack([action, action]).astype(np.int32)",
        (_HEX_FRAMES,),
    ),
    Fault(
        "hex-rewards-of-the-other-player",
        HEX,
        "lost = jnp.arange(2) == x.current_player",
        "lost = jnp.arange(2) != x.current_player",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-joined-chain-not-at-the-top",
        HEX,
        "(labels > 0) & (labels <= self.size) | (labels == self._cells + 1)",
        "(labels > 0) & (labels <= self.size)",
        (_HEX_GAMES,),
    ),
    Fault(
        "hex-half-turn-keeps-the-planes-of-the-sides",
        HEX,
        "[0, 1, 3, 2, 5, 4])",
        "[0, 1, 2, 3, 4, 5])",
        (_HEX_TURN,),
    ),
    Fault(
        "hex-swap-action-turned-to-the-first-cell",
        HEX,
        "turned_action = np.concatenate([cell[::-1], action[self._cells :]])",
        "turned_action = action[::-1]",
        (_HEX_TURN,),
    ),
    Fault(
        "hex-playout-gives-the-odd-cell-to-the-wrong-player",
        HEX,
        "black_gets = (_count(empty) + 1 - x.current_player) // 2",
        "black_gets = (_count(empty) + x.current_player) // 2",
        (_HEX_FILLINGS,),
    ),
    Fault(
        "hex-playout-forgets-a-finished-game",
        HEX,
        "winner = jnp.where(x.over, 1 - x.current_player, jnp.where(black_wins, 0, 1))",
        "winner = jnp.where(x.over, x.current_player, jnp.where(black_wins, 0, 1))",
        ("envs/test_hex.py::test_a_playout_of_a_finished_game_is_its_result",),
    ),
    Fault(
        "hex-majority-one-round-short",
        HEX,
        "jax.lax.fori_loop(0, 2 * size - 2, majority,",
        "jax.lax.fori_loop(0, 2 * size - 3, majority,",
        ("envs/test_hex.py::test_the_majority_reduction_finds_the_winner_of_full_boards",),
    ),
    Fault(
        "hex-subset-keeps-what-it-took",
        HEX,
        "jnp.where(take, candidates & ~heads, heads),",
        "jnp.where(take, candidates, heads),",
        ("envs/test_hex.py::test_every_subset_is_drawn_equally_often",),
    ),
    Fault(
        "hex-labels-overflow-from-12x12",
        HEX,
        "return np.int8 if self._cells + 1 <= np.iinfo(np.int8).max else np.int16",
        "return np.int8 if self._cells <= np.iinfo(np.uint8).max else np.int16",
        ("envs/test_hex.py::test_every_ply_of_random_games_agrees_with_the_reference[12-4]",),
    ),
    Fault(
        "hex-text-with-row-and-column-exchanged",
        HEX,
        "        action = row * self.size + column\n",
        "        action = column * self.size + row\n",
        ("envs/test_hex.py::test_every_action_is_read_back_from_its_text",),
    ),
    Fault(
        "hex-notation-with-a-swap-of-nothing",
        HEX,
        "lead == player - 1 and white > 0)",
        "lead == player - 1)",
        _HEX_SWAP_COUNTS,
    ),
    Fault(
        "checkers-neighbours-along-the-other-diagonal",
        CHECKERS,
        "_DIRECTIONS = ((1, 0), (0, 1), (1, -1), (-1, 1), (0, -1), (-1, 0))",
        "_DIRECTIONS = ((1, 0), (0, 1), (1, 1), (-1, -1), (0, -1), (-1, 0))",
        (_CHECKERS_FREE,),
    ),
    Fault(
        "checkers-sideways-is-behind",
        CHECKERS,
        "ahead=([where(row >= r) for r in row_numbers]",
        "ahead=([where(row > r) for r in row_numbers]",
        (_CHECKERS_FORWARD,),
    ),
    Fault(
        "checkers-no-backward-move-for-the-stuck",
        CHECKERS,
        "return [_select(possible, *pair) for pair in zip(forward, destinations)]",
        "return forward",
        (
            _CHECKERS_FORWARD,
            "envs/test_chinese_checkers.py::test_as_many_positions_without_a_forward_move_exist_as_known",
        ),
    ),
    Fault(
        "checkers-backward-for-each-stuck-piece",
        CHECKERS,
        "        possible = _union(forward).any()\n"
        "        return [_select(possible, *pair) for pair in zip(forward, destinations)]",
        "        return [_select(pair[0].any(), *pair) for pair in zip(forward, destinations)]",
        (_CHECKERS_FORWARD,),
    ),
    Fault(
        "checkers-chains-of-two-hops",
        CHECKERS,
        "return min(math.ceil(self.size / 2) ** 2 - 1, 2 * self.pieces - 1)",
        "return min(self.size // 2, 2 * self.pieces - 1)",
        (
            _CHECKERS_FREE,
            f"{_CHECKERS_GAMES}[4-4-False-None-40-100]",
            f"{_CHECKERS_GAMES}[5-6-False-2-40-60]",
        ),
    ),
    Fault(
        "checkers-hops-wrap-around-the-row",
        CHECKERS,
        "occupied.shifted(-d.offset) & empty.shifted(-2 * d.offset) & d.hop_from for d",
        "occupied.shifted(-d.offset) & empty.shifted(-2 * d.offset) & d.step_from for d",
        (
            _CHECKERS_FREE,
            f"{_CHECKERS_GAMES}[4-3-False-1-50-150]",
            f"{_CHECKERS_GAMES}[5-6-False-2-40-60]",
        ),
    ),
    Fault(
        "checkers-steps-wrap-around-the-row",
        CHECKERS,
        "return _union((cells & d.step_from).shifted(d.offset) for d in self.directions)",
        "return _union(cells.shifted(d.offset) for d in self.directions)",
        (_CHECKERS_FREE,),
    ),
    Fault(
        "checkers-bits-lost-between-words",
        CHECKERS,
        "tuple(w << by if b is None else w << by | b >> 32 - by for",
        "tuple(w << by for",
        (f"{_CHECKERS_GAMES}[6-6-True-6-100-20]",),
    ),
    Fault(
        "checkers-goal-full-of-its-owners-pieces-wins",
        CHECKERS,
        "return ~(goal & ~(own | other)).any() & (goal & own).any()",
        "return ~(goal & ~(own | other)).any()",
        ("envs/test_chinese_checkers.py::test_a_goal_full_of_its_owners_pieces_is_no_win",),
    ),
    Fault(
        "checkers-goal-needs-all-own-pieces",
        CHECKERS,
        "return ~(goal & ~(own | other)).any() & (goal & own).any()",
        "return ~(goal & ~own).any()",
        (_CHECKERS_FREE, "envs/test_chinese_checkers.py::test_only_the_player_who_has_just_moved_wins"),
    ),
    Fault(
        "checkers-no-move-is-no-loss",
        CHECKERS,
        "lost = self._has_won(theirs, mine, ~first) | ~self._can_move(mine, theirs, first)",
        "lost = self._has_won(theirs, mine, ~first)",
        ("envs/test_chinese_checkers.py::test_a_player_who_cannot_move_has_lost",),
    ),
    Fault(
        "checkers-one-repetition-too-few",
        CHECKERS,
        "dtype=jnp.int32) > self.repetitions",
        "dtype=jnp.int32) >= self.repetitions",
        (_CHECKERS_SHUFFLING,),
    ),
    Fault(
        "checkers-repetition-only-with-the-same-mover",
        CHECKERS,
        "return jnp.sum(same[1:] & same[:-1], dtype=jnp.int32) > self.repetitions",
        "return jnp.sum((same[1:] & same[:-1])[::2], dtype=jnp.int32) > self.repetitions",
        (
            "envs/test_chinese_checkers.py::test_a_board_of_the_second_player_repeats_too_with_the_other_player_to_move",
        ),
    ),
    Fault(
        "checkers-history-of-the-wrong-player",
        CHECKERS,
        "x.history, jnp.where(player == 0, bits[0], bits[1]), jnp",
        "x.history, jnp.where(player == 0, bits[1], bits[0]), jnp",
        (_CHECKERS_SHUFFLING,),
    ),
    Fault(
        "checkers-one-ply-too-many",
        CHECKERS,
        "drawn = repeated | (ply >= self.max_plies)",
        "drawn = repeated | (ply > self.max_plies)",
        (
            _CHECKERS_FREE,
            "envs/test_chinese_checkers.py::test_without_the_repetition_rule_shuffling_goes_on_to_the_last_ply",
        ),
    ),
    Fault(
        "checkers-draw-before-win",
        CHECKERS,
        "return jnp.where(lost, jnp.where(first, SECOND_WON, FIRST_WON), undecided).astype(jnp.int8)",
        "return jnp.where(lost & ~drawn, jnp.where(first, SECOND_WON, FIRST_WON), undecided).astype(jnp.int8)",
        ("envs/test_chinese_checkers.py::test_the_last_ply_can_still_win",),
    ),
    Fault(
        "checkers-home-never-to-be-filled",
        CHECKERS,
        "fills_home = (gap.number() == 1) & (theirs & home).any()",
        "fills_home = gap.number() == 1",
        ("envs/test_chinese_checkers.py::test_a_player_may_fill_the_own_home_alone",),
    ),
    Fault(
        "checkers-moves-within-the-home-forbidden",
        CHECKERS,
        "target, origins = gap.only_if(fills_home), (~home).only_if(fills_home)",
        "target, origins = gap.only_if(fills_home), self._masks.board.only_if(fills_home)",
        (
            _CHECKERS_FREE,
            "envs/test_chinese_checkers.py::test_as_many_moves_into_illegal_positions_are_dropped_as_known",
        ),
    ),
    Fault(
        "checkers-tip-closed-by-its-own-piece",
        CHECKERS,
        "others = _select((tip & mine).any(), tip, ~edges)",
        "others = ~edges",
        (
            _CHECKERS_TIP,
            "envs/test_chinese_checkers.py::test_six_pieces_may_take_the_edges_around_their_own_piece_on_the_tip",
        ),
    ),
    Fault(
        "checkers-closed-tip-of-the-first-player-alone",
        CHECKERS,
        "return closed[0] | closed[1]",
        "return closed[0]",
        ("envs/test_chinese_checkers.py::test_a_position_with_a_closed_tip_is_refused_whoever_is_to_move",),
    ),
    Fault(
        "checkers-any-move-is-a-way-out",
        CHECKERS,
        "return (ends_of(mine) & ~target | ends_of(mine & ~origins)).any()",
        "return ends_of(mine).any()",
        (
            _CHECKERS_CROWDED,
            f"{_CHECKERS_GAMES}[4-6-False-6-50-100]",
            "envs/test_chinese_checkers.py::test_as_many_boards_are_illegal_and_terminal_as_known[4-6-1681680-202710-192637]",
        ),
    ),
    Fault(
        "checkers-observation-not-turned",
        CHECKERS,
        "index = jnp.where(first, index, self.num_cells - 1 - index)",
        "index = jnp.where(first, index, index.T)",
        (_CHECKERS_TURNED,),
    ),
    Fault(
        "checkers-lopsided-homes-mirrored",
        CHECKERS,
        "if {int(mirror[cell]) for cell in self.homes[0]} != set(self.homes[0]):",
        "if self.pieces < 2:",
        ("envs/test_chinese_checkers.py::test_two_pieces_have_no_mirror_symmetry",),
    ),
    Fault(
        "dots-turn-over-after-a-capture",
        DOTS,
        "turn_over = jnp.any(new_line) & ~jnp.any(captured)",
        "turn_over = jnp.any(new_line)",
        (f"{_DOTS_GAMES}[shape1]",),
    ),
    Fault(
        "dots-turn-over-after-an-illegal-line",
        DOTS,
        "turn_over = jnp.any(new_line) & ~jnp.any(captured)",
        "turn_over = ~jnp.any(captured)",
        ("envs/test_dots_and_boxes.py::test_drawing_a_line_twice_changes_nothing",),
    ),
    Fault(
        "dots-boxes-captured-again",
        DOTS,
        "captured = self._is_complete(lines) & (x.owners == 0)",
        "captured = self._is_complete(lines)",
        (f"{_DOTS_GAMES}[shape1]",),
    ),
    Fault(
        "dots-margin-always-of-the-first-player",
        DOTS,
        "return jnp.sum(x.owners, dtype=jnp.int32) * _sign(player)",
        "return jnp.sum(x.owners, dtype=jnp.int32)",
        (f"{_DOTS_GAMES}[shape1]",),
    ),
    Fault(
        "dots-margin-as-a-share-of-lines",
        DOTS,
        "margins / self.num_boxes",
        "margins / self.num_actions",
        ("envs/test_dots_and_boxes.py::test_margin_rewards_are_the_share_of_boxes",),
    ),
    Fault(
        "dots-playout-counts-drawn-lines-as-turns",
        DOTS,
        "turn_end = jnp.where(drawn | self._ends_a_box(number, completion), never, number)",
        "turn_end = jnp.where(self._ends_a_box(number, completion), never, number)",
        (_DOTS_ORDER,),
    ),
    Fault(
        "dots-playout-completes-only-boxes-below",
        DOTS,
        "horizontal = (horizontal == rows[:-1]) | (horizontal == rows[1:])",
        "horizontal = horizontal == rows[1:]",
        (_DOTS_ORDER,),
    ),
    Fault(
        "dots-playout-takes-boxes-from-their-owners",
        DOTS,
        "owners = jnp.where(x.owners.T == 0, _sign(mover), x.owners.T)",
        "owners = _sign(mover)",
        (_DOTS_ORDER, "envs/test_dots_and_boxes.py::test_playouts_of_finished_games_return_their_result"),
    ),
    Fault(
        "dots-open-and-drawn-planes-exchanged",
        DOTS,
        "planes = (*self._grids(x.lines), *self._grids(~x.lines),",
        "planes = (*self._grids(~x.lines), *self._grids(x.lines),",
        (_DOTS_COMPACT,),
    ),
    Fault(
        "dots-open-lines-stay-under-symmetries",
        DOTS,
        "for state in (0, 2):  # drawn, open",
        "for state in (0,):  # drawn, open",
        (_DOTS_SYMMETRIES,),
    ),
    Fault(
        "dots-boxes-of-the-opponent-stay-under-symmetries",
        DOTS,
        "for plane in (4, 5):",
        "for plane in (4,):",
        (_DOTS_SYMMETRIES,),
    ),
    Fault(
        "dots-bottom-side-one-to-the-right",
        DOTS,
        "return np.stack([top, left, left + 1, top + columns], axis=1)",
        "return np.stack([top, left, left + 1, top + columns + 1], axis=1)",
        ("envs/test_dots_and_boxes.py::test_sides_of_boxes_agree_with_the_reference",),
    ),
    Fault(
        "dots-strings-of-rows-and-columns-exchanged",
        DOTS,
        "np.stack([coins[row + vertical, column + 1 - vertical], coins[row + 1, column + 1]], axis=1)",
        "np.stack([coins[row + 1 - vertical, column + vertical], coins[row + 1, column + 1]], axis=1)",
        ("envs/test_dots_and_boxes.py::test_the_dual_of_a_domino",),
    ),
    Fault(
        "dots-ownership-of-the-other-player",
        DOTS,
        "boxes = own.astype(jnp.float32) - other",
        "boxes = other.astype(jnp.float32) - own",
        ("training/test_loss.py::test_ownership_is_seen_by_the_player_asked",),
    ),
    Fault(
        "dots-final-margin-of-the-player-to-move",
        DOTS,
        "return self.margin(x, player) / self.num_boxes",
        "return self.margin(x) / self.num_boxes",
        (
            "envs/test_dots_and_boxes.py::test_the_final_margin_is_that_of_the_player_asked_about_whoever_is_to_move",
        ),
    ),
    Fault(
        "dots-vertical-lines-end-to-the-right",
        DOTS,
        "ends = [row, column, row + vertical, column + 1 - vertical]",
        "ends = [row, column, row + vertical, column + 1]",
        ("envs/test_dots_and_boxes.py::test_the_cells_of_a_line_are_its_two_dots",),
    ),
    Fault(
        "core-random-action-with-mixed-low-bits",
        CORE,
        "keyed = ((hashed >> index_bits) << index_bits) | action",
        "keyed = hashed | action",
        ("envs/test_envs.py::test_random_playouts_of_a_game_without_a_shortcut_reach_the_end", _HEX_GAMES),
    ),
    Fault(
        "core-playout-with-the-same-key-at-each-ply",
        CORE,
        "        key, subkey = jax.random.split(key)\n        action = random_action(subkey,",
        "        action = random_action(key,",
        ("envs/test_envs.py::test_every_ply_of_a_random_playout_is_drawn_anew",),
    ),
    Fault(
        "core-renewed-where-it-goes-on",
        CORE,
        "return jax.tree.map(lambda new, old: jnp.where(over, new, old), game.init(key), x)",
        "return jax.tree.map(lambda new, old: jnp.where(over, old, new), game.init(key), x)",
        (
            "envs/test_envs.py::test_renewing_leaves_a_game_under_way_alone",
            "envs/test_envs.py::test_a_renewed_game_can_be_searched_at_once",
        ),
    ),
]
