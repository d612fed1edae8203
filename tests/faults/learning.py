"""Faults in self-play, the replay ring, the targets, the loss and the training step."""

from tests.faults.core import Fault

SELFPLAY, REPLAY, TARGETS, LEARNER, TRAINING = (
    f"azjax/training/{name}.py" for name in ("selfplay", "replay", "targets", "loss", "step")
)
SEARCH_CONFIG = "azjax/search/config.py"

_STORED = "training/test_selfplay.py::test_positions_stored_are_exactly_the_positions_of_finished_games"
_REPLAYED = "training/test_selfplay.py::test_stored_games_replay_move_by_move_to_their_stored_outcome"
_FORCED = "training/test_selfplay.py::test_forced_openings_begin_every_game_and_leave_no_training_data"
_UNIFORM = "training/test_selfplay.py::test_openings_are_drawn_uniformly"
_OVERWRITES = "training/test_selfplay.py::test_self_play_overwrites_with_the_chance_it_is_given"
_SELFPLAY = (f"{_STORED}[DotsAndBoxes(rows=1, columns=2, reward='outcome', observation='compact')]", _FORCED)
_OF_ITS_SEARCH = (
    "training/test_selfplay.py::test_the_value_and_the_weight_of_a_position_are_those_of_its_search"
)
_COUNTED = "training/test_selfplay.py::test_games_are_counted_with_their_results"
_OLDEST_FIRST = "training/test_selfplay.py::test_the_ring_overwrites_the_oldest_positions_first"
_LEFT_IN_PLACE = "training/test_selfplay.py::test_new_positions_may_leave_old_ones_in_their_place"
_WINDOW = "training/test_selfplay.py::test_a_window_in_games_leaves_out_older_games"
_BY_GAME = "training/test_selfplay.py::test_drawing_by_game_weighs_short_and_long_games_alike"
_NO_TRACE = "training/test_selfplay.py::test_a_game_without_positions_leaves_no_trace"
_RING = (_OLDEST_FIRST, _LEFT_IN_PLACE, _WINDOW, _BY_GAME, _NO_TRACE)
_BY_HAND = "training/test_selfplay.py::test_value_targets_by_hand"
_BEHIND = "training/test_selfplay.py::test_td_lambda_ignores_what_lies_behind_the_end"

_UNIFORM_LOGITS = "training/test_loss.py::test_uniform_logits_cost_the_logarithm_of_the_number_of_legal_moves"
_SQUARED = "training/test_loss.py::test_the_value_loss_is_the_squared_error"
_WIN_DRAW_LOSS = "training/test_loss.py::test_win_draw_loss_is_learned_by_cross_entropy"
_FRAME = "training/test_loss.py::test_policies_of_the_second_player_are_compared_in_the_boards_frame"
_QUICK = "training/test_loss.py::test_positions_of_quick_searches_teach_no_policy"
_ENTROPY = "training/test_loss.py::test_the_entropy_of_the_targets_is_reported"
_SGD = "training/test_loss.py::test_sgd_with_momentum_and_weight_decay_follows_its_formula"
_BIASES = "training/test_loss.py::test_weight_decay_leaves_biases_alone"
_NOT_FINITE = "training/test_loss.py::test_gradients_that_are_not_finite_are_skipped_and_counted"
_HEADS = "training/test_loss.py::test_heads_that_see_the_end_have_no_loss_under_any_symmetry"

FAULTS = [
    Fault(
        "selfplay-first-opening-twice-as-often",
        SELFPLAY,
        "more = openings.first_weight - 1",
        "more = openings.first_weight",
        (_UNIFORM,),
    ),
    Fault(
        "selfplay-moments-of-the-last-game-kept",
        SELFPLAY,
        "length=jnp.zeros_like(lanes.length)), lanes)",
        "length=lanes.length), lanes)",
        _SELFPLAY,
    ),
    Fault(
        "selfplay-moves-of-the-opening-not-counted",
        SELFPLAY,
        "lanes._replace(state=state, ply=ply,",
        "lanes._replace(state=state, ply=0 * ply,",
        (_OF_ITS_SEARCH,),
    ),
    Fault(
        "selfplay-finished-games-go-on",
        SELFPLAY,
        "state=jax.tree.map(choose, these.state, others.state),",
        "state=others.state,",
        _SELFPLAY,
    ),
    Fault(
        "selfplay-outcome-of-the-first-player",
        SELFPLAY,
        "outcomes = jnp.where(players == 0, rewards[0], rewards[1])",
        "outcomes = jnp.where(players == players, rewards[0], rewards[1])",
        (_REPLAYED,),
    ),
    Fault(
        "selfplay-outcome-of-the-last-mover",
        SELFPLAY,
        "outcomes = jnp.where(players == 0, rewards[0], rewards[1])",
        "outcomes = jnp.broadcast_to(rewards[final.current_player], players.shape)",
        (_REPLAYED,),
    ),
    Fault(
        "selfplay-quick-searches-teach-too",
        SELFPLAY,
        "output.complete.astype(jnp.float32), output.value)",
        "jnp.ones_like(output.value), output.value)",
        (_OF_ITS_SEARCH,),
    ),
    Fault(
        "selfplay-root-value-of-the-opponent",
        SELFPLAY,
        "output.complete.astype(jnp.float32), output.value)",
        "output.complete.astype(jnp.float32), -output.value)",
        (_OF_ITS_SEARCH,),
    ),
    Fault(
        "selfplay-lanes-dealt-to-the-groups",
        REPLAY,
        "group = jnp.arange(lanes) // (lanes // groups)",
        "group = jnp.arange(lanes) % groups",
        ("training/test_selfplay.py::test_a_group_stores_the_games_of_its_own_lanes",),
    ),
    Fault(
        "selfplay-loss-counts-minus-one",
        SELFPLAY,
        "(jnp.sign(result) + 1) / 2",
        "jnp.sign(result)",
        (_COUNTED,),
    ),
    Fault(
        "selfplay-games-under-way-are-draws",
        SELFPLAY,
        "draws=counts.draws + jnp.sum(over & (result == 0))",
        "draws=counts.draws + jnp.sum(result == 0)",
        (_COUNTED,),
    ),
    Fault(
        "selfplay-lengths-of-games-under-way",
        SELFPLAY,
        "jnp.sum(jnp.where(over, lanes.ply, 0))",
        "jnp.sum(lanes.ply)",
        _SELFPLAY,
    ),
    Fault(
        "selfplay-one-coin-for-a-whole-game",
        SELFPLAY,
        "overwrite, plies)",
        "overwrite, ())",
        ("training/test_selfplay.py::test_every_position_of_a_game_has_a_chance_of_its_own",),
    ),
    Fault(
        "selfplay-overwrites-with-the-other-chance",
        SELFPLAY,
        "overwrite, plies)",
        "1 - overwrite, plies)",
        (_OVERWRITES,),
    ),
    Fault(
        "replay-last-row-never-used",
        REPLAY,
        "place % ring.capacity, ring.capacity)",
        "place % (ring.capacity - 1), ring.capacity)",
        _RING,
    ),
    Fault(
        "replay-oldest-position-never-drawn",
        REPLAY,
        "oldest = jnp.maximum(0, written - ring.capacity)",
        "oldest = jnp.maximum(0, written - ring.capacity + 1)",
        _RING,
    ),
    Fault(
        "replay-newest-position-never-drawn",
        REPLAY,
        "            return jax.random.randint(key, (count,), oldest, written)\n",
        "            return jax.random.randint(key, (count,), oldest, written - 1)\n",
        _RING,
    ),
    Fault(
        "replay-one-game-too-few-in-the-window",
        REPLAY,
        "first_game = jnp.maximum(0, games - window_games)",
        "first_game = jnp.maximum(0, games - window_games + 1)",
        _RING,
    ),
    Fault(
        "replay-window-reaches-behind-the-ring",
        REPLAY,
        "first = jnp.maximum(oldest, starts[first_game % starts.shape[0]])",
        "first = starts[first_game % starts.shape[0]]",
        ("training/test_selfplay.py::test_a_window_that_is_longer_than_the_ring_weighs_all_positions_alike",),
    ),
    Fault(
        "replay-game-reaches-behind-the-ring",
        REPLAY,
        "begin = jnp.clip(starts[game % starts.shape[0]], oldest, end - 1)",
        "begin = starts[game % starts.shape[0]]",
        ("training/test_selfplay.py::test_of_a_game_half_overwritten_only_the_rest_is_drawn",),
    ),
    Fault(
        "replay-newest-game-ends-where-the-oldest-began",
        REPLAY,
        "end = jnp.where(game + 1 == games, written, starts[(game + 1) % starts.shape[0]])",
        "end = starts[(game + 1) % starts.shape[0]]",
        _RING,
    ),
    Fault(
        "replay-empty-room-left-empty",
        REPLAY,
        "(order < end[-1]) & (replaces[lane, row] | (place < ring.capacity))",
        "(order < end[-1]) & replaces[lane, row]",
        ("training/test_selfplay.py::test_rows_that_replace_nothing_still_fill_an_empty_ring",),
    ),
    Fault(
        "replay-one-row-too-many",
        REPLAY,
        "is_written = (order < end[-1]) &",
        "is_written = (order <= end[-1]) &",
        _RING,
    ),
    Fault(
        "replay-games-without-rows-counted",
        REPLAY,
        "_behind_each_other(ring.games, (length > 0).astype(jnp.int32))",
        "_behind_each_other(ring.games, jnp.ones_like(length))",
        _RING,
    ),
    Fault(
        "replay-all-rows-of-the-first-group",
        REPLAY,
        "group = jnp.arange(places.shape[0])[:, None]",
        "group = 0 * jnp.arange(places.shape[0])[:, None]",
        ("training/test_selfplay.py::test_each_group_is_drawn_from_by_itself",),
    ),
    Fault(
        "targets-shares-of-the-mixture-exchanged",
        TARGETS,
        "return share * root_values + (1 - share) * outcomes",
        "return (1 - share) * root_values + share * outcomes",
        (_BY_HAND,),
    ),
    Fault(
        "targets-lambda-upside-down",
        TARGETS,
        "((1 - lambda_) * next_value + lambda_ * next_return)",
        "(lambda_ * next_value + (1 - lambda_) * next_return)",
        (_BY_HAND,),
    ),
    Fault(
        "targets-players-always-alternate",
        TARGETS,
        "sign = jnp.where(player == next_player, 1.0, -1.0)",
        "sign = -1.0",
        (_BY_HAND,),
    ),
    Fault(
        "targets-last-position-bootstrapped",
        TARGETS,
        "result = jnp.where(ply >= length - 1, z, bootstrapped)",
        "result = jnp.where(ply >= length, z, bootstrapped)",
        (_BY_HAND, _BEHIND),
    ),
    Fault(
        "targets-return-is-the-value",
        TARGETS,
        "return (result, value, player), result",
        "return (value, value, player), result",
        (_BY_HAND, _BEHIND),
    ),
    Fault(
        "learner-symmetries-not-undone",
        LEARNER,
        "back_tables = np.argsort(game.symmetries.action, axis=1)[:drawn]",
        "back_tables = np.asarray(game.symmetries.action)[:drawn]",
        (
            "training/test_loss.py::test_a_network_that_turns_with_the_board_has_the_same_policy_loss_under_every_symmetry",
        ),
    ),
    Fault(
        "learner-policies-in-the-movers-frame",
        LEARNER,
        "frames, states.current_player)",
        "frames, 0 * states.current_player)",
        ("training/test_loss.py::test_positions_stay_in_their_place_without_symmetries",),
    ),
    Fault(
        "learner-illegal-moves-in-the-softmax",
        LEARNER,
        "jax.nn.log_softmax(mask_logits(logits, legal))",
        "jax.nn.log_softmax(logits)",
        (_UNIFORM_LOGITS,),
    ),
    Fault(
        "learner-policy-not-weighted",
        LEARNER,
        "return jnp.mean(weight * cross_entropy), jnp.mean(weight * entropy)",
        "return jnp.mean(cross_entropy), jnp.mean(weight * entropy)",
        (_QUICK,),
    ),
    Fault(
        "learner-policy-not-divided-by-the-weights",
        LEARNER,
        "weight = batch.policy_weight / jnp.maximum(mean_weight, 1e-6)",
        "weight = batch.policy_weight",
        (_QUICK,),
    ),
    Fault(
        "learner-entropy-of-quick-searches-too",
        LEARNER,
        "return jnp.mean(weight * cross_entropy), jnp.mean(weight * entropy)",
        "return jnp.mean(weight * cross_entropy), jnp.mean(entropy)",
        ("training/test_loss.py::test_the_entropy_of_quick_searches_is_left_out",),
    ),
    Fault(
        "learner-half-the-squared-error",
        LEARNER,
        "return jnp.mean((outputs.value - target) ** 2)",
        "return jnp.mean((outputs.value - target) ** 2) / 2",
        (_SQUARED,),
    ),
    Fault(
        "learner-win-and-loss-exchanged",
        LEARNER,
        "chances = jnp.stack([win, 1.0 - win - loss, loss], -1)",
        "chances = jnp.stack([loss, 1.0 - win - loss, win], -1)",
        (_WIN_DRAW_LOSS,),
    ),
    Fault(
        "learner-lost-games-half-drawn",
        LEARNER,
        "chances = jnp.stack([win, 1.0 - win - loss, loss], -1)",
        "chances = jnp.stack([win, 1.0 - win, loss], -1)",
        ("training/test_loss.py::test_a_lost_game_is_learned_as_lost",),
    ),
    Fault(
        "learner-value-not-weighted",
        LEARNER,
        "            + config.value_weight * value\n",
        "            + value\n",
        ("training/test_loss.py::test_the_total_is_the_weighted_sum_of_all_losses",),
    ),
    Fault(
        "learner-ownership-not-learned",
        LEARNER,
        "            + config.ownership_weight * ownership\n",
        "",
        ("training/test_loss.py::test_the_total_is_the_weighted_sum_of_all_losses",),
    ),
    Fault(
        "learner-ownership-turned-like-the-lines",
        LEARNER,
        "tables.reshape(len(tables), -1, planes)[..., -1] // planes",
        "tables.reshape(len(tables), -1, planes)[..., 0] // planes",
        (_HEADS,),
    ),
    Fault(
        "learner-biases-decay",
        LEARNER,
        "lambda w: w.ndim > 1, tree)",
        "lambda w: w.ndim > 0, tree)",
        (_BIASES,),
    ),
    Fault(
        "learner-adam-with-decoupled-decay",
        LEARNER,
        "steps = [kernels, optax.scale_by_adam(b1=config.momentum, b2=config.second_momentum), descent]",
        "steps = [optax.scale_by_adam(b1=config.momentum, b2=config.second_momentum), kernels, descent]",
        ("training/test_loss.py::test_adam_and_adamw_follow_their_formulas",),
    ),
    Fault(
        "learner-second-momentum-ignored",
        LEARNER,
        "steps = [optax.scale_by_adam(b1=config.momentum, b2=config.second_momentum), kernels, descent]",
        "steps = [optax.scale_by_adam(b1=config.momentum), kernels, descent]",
        ("training/test_loss.py::test_adam_and_adamw_follow_their_formulas",),
    ),
    Fault(
        "learner-momentum-of-nesterov",
        LEARNER,
        "optax.trace(config.momentum)",
        "optax.trace(config.momentum, nesterov=True)",
        (_SGD,),
    ),
    Fault(
        "learner-gradients-not-clipped",
        LEARNER,
        "steps = [optax.clip_by_global_norm(config.clip_norm), *steps]",
        "steps = list(steps)",
        ("training/test_loss.py::test_long_gradients_are_shortened",),
    ),
    Fault(
        "learner-statistics-of-skipped-steps",
        LEARNER,
        "statistics = jax.tree.map(lambda new, old: jnp.where(finite, new, old), statistics, params.statistics)",
        "del finite",
        ("training/test_loss.py::test_a_skipped_step_leaves_weights_and_statistics_alone",),
    ),
    Fault(
        "training-mean-of-the-newest-weights",
        TRAINING,
        "1.0 - config.optimiser.ema)",
        "config.optimiser.ema)",
        ("training/test_step.py::test_the_weights_for_evaluation_follow_the_newest_by_the_decay",),
    ),
    Fault(
        "training-learns-while-warming-up",
        TRAINING,
        "is_ready = (stored[-1] >= config.replay.warm_up) & ",
        "is_ready = ",
        (
            "training/test_step.py::test_nothing_is_learned_before_enough_is_stored_though_every_group_has_some",
        ),
    ),
    Fault(
        "training-plays-with-the-averaged-weights",
        TRAINING,
        "playing_copy(config, state.params)",
        "playing_copy(config, state.average)",
        ("training/test_step.py::test_self_play_uses_the_newest_weights",),
    ),
    Fault(
        "training-quick-searches-explore",
        SEARCH_CONFIG,
        "of(config.quick_simulations, explore=False)",
        "of(config.quick_simulations, explore=True)",
        ("training/test_step.py::test_only_full_searches_explore",),
    ),
    Fault(
        "training-gumbel-without-noise",
        SEARCH_CONFIG,
        "gumbel_scale=1.0 if explore else 0.0,",
        "gumbel_scale=0.0,",
        ("training/test_step.py::test_only_full_searches_explore",),
    ),
    Fault(
        "training-flattened-after-the-opening",
        TRAINING,
        "            return jnp.where(early, sampled, output.action)\n",
        "            return jnp.where(early, output.action, sampled)\n",
        ("training/test_step.py::test_only_the_first_moves_are_drawn_from_the_flattened_visits",),
    ),
]
