"""Faults in the trees, the searches and the exploration."""

from tests.faults.core import Fault

TREE, SEARCH, GUMBEL, PUCT, UCT, EXPLORATION, CONFIG = (
    f"azjax/search/{name}.py"
    for name in ("tree", "core", "gumbel_search", "puct_search", "uct_search", "exploration", "config")
)
JACOBSEN, CHECKERS = "azjax/theses/jacobsen2019.py", "envs/chinese_checkers.py"

_PUCT_TREE = "search/test_tree.py::test_a_puct_tree_worked_out_by_hand"
_PUCT_ANSWER = "search/test_tree.py::test_the_answer_of_the_puct_tree_worked_out_by_hand"
_UCB1_TREE = "search/test_tree.py::test_a_ucb1_tree_worked_out_by_hand"
_MUZERO = "search/test_tree.py::test_puct_grows_the_trees_of_muzero_bit_for_bit"
_MUZERO_DEPTH = f"{_MUZERO}[tic-tac-toe, two moves deep]"
_GUMBEL = "search/test_tree.py::test_gumbel_grows_the_trees_of_mctx_bit_for_bit_and_answers_the_same[hex 5x5]"
_DEPTH = "search/test_tree.py::test_a_leaf_at_the_depth_limit_averages_what_the_evaluator_says_each_time"
_KEPT = "search/test_tree.py::test_a_kept_subtree_has_the_statistics_it_had"
_NO_ROOM = "search/test_tree.py::test_a_subtree_that_does_not_fit_loses_its_newest_nodes"
_ANEW = "search/test_tree.py::test_a_lane_whose_game_began_anew_has_a_fresh_tree"
_GOES_ON = "search/test_tree.py::test_a_kept_tree_goes_on_growing_and_stays_sound[puct]"
_ARGMAX = "search/test_tree.py::test_the_first_of_equal_maxima_is_taken_as_argmax_does"
_ANY_ORDER = (
    "search/test_search.py::"
    "test_the_result_of_any_small_game_is_proven_in_whatever_order_the_players_move[puct]"
)
_PROVEN_LOSS = (
    "search/test_search.py::test_a_proven_loss_is_searched_once_and_not_played_even_if_nothing_is_proven"
)
_PROVEN_WIN = "search/test_search.py::test_a_proven_win_is_played_and_said_though_seldom_visited"
_OVER = "search/test_search.py::test_games_that_are_over_come_back_clean_among_others"
_NOISE_OUT = "search/test_search.py::test_noise_stays_out_of_the_tree_and_off_illegal_moves"
_NOT_RANDOM = "search/test_search.py::test_nothing_is_random_unless_asked_for"
_CAPPED = "search/test_search.py::test_a_capped_search_is_full_as_often_as_asked_and_says_so"
_DISTANCE = "search/test_search.py::test_the_distance_evaluation_of_chinese_checkers"
_PLAYOUTS = "search/test_search.py::test_a_leaf_is_worth_the_mean_of_its_random_playouts"
_SEEN_BY_MOVER = "search/test_search.py::test_a_playout_is_seen_by_the_player_to_move"
_MOMENTS = "search/test_exploration.py::test_dirichlet_noise_has_the_moments_of_its_concentration"
_NOISE_SHARE = (
    "search/test_exploration.py::test_dirichlet_noise_never_reaches_illegal_actions_and_keeps_its_share"
)
_BY_TEMPERATURE = (
    "search/test_exploration.py::test_moves_are_drawn_by_visits_to_the_power_of_one_over_the_temperature"
)
_FLAT = "search/test_exploration.py::test_the_opening_moves_of_jacobsen_2019_are_drawn_from_a_flat_curve"

FAULTS = [
    Fault(
        "tree-root-not-counted",
        TREE,
        "node_visits=nodes(0, jnp.int32, 1)",
        "node_visits=nodes(0, jnp.int32, 0)",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-players-always-alternate",
        TREE,
        "sign = jnp.where(states.current_player == mover, 1.0, -1.0).astype(value.dtype)",
        "sign = -jnp.ones_like(value)",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-reward-of-the-next-player",
        TREE,
        "result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), mover)",
        "result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), states.current_player)",
        (_PUCT_TREE, _UCB1_TREE),
    ),
    Fault(
        "tree-end-not-discounted",
        TREE,
        "discount = jnp.where(over, 0.0, sign)",
        "discount = sign",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-network-heard-at-the-end",
        TREE,
        "        value = jnp.where(over, 0.0, value)\n",
        "",
        (_PUCT_TREE, _UCB1_TREE),
    ),
    Fault(
        "tree-leaf-mean-over-too-many",
        TREE,
        "mean = mean + (value - mean) / (visits + 1.0)",
        "mean = mean + (value - mean) / (visits + 2.0)",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-leaf-mean-of-the-wrong-player",
        TREE,
        "mean = discount * qvalue\n",
        "mean = qvalue\n",
        (_DEPTH,),
    ),
    Fault(
        "tree-backup-mean-one-short",
        TREE,
        "mean = (_at(node_values, parent) * count + value) / (count + 1.0)",
        "mean = (_at(node_values, parent) * (count - 1) + value) / count",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-edge-holds-the-last-value",
        TREE,
        "qvalue = reward + discount * mean",
        "qvalue = reward + discount * value",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-backup-forgets-the-reward",
        TREE,
        "        value = reward + discount * value\n",
        "        value = discount * value\n",
        (_PUCT_TREE,),
    ),
    Fault(
        "tree-one-move-too-deep",
        TREE,
        "~_at(tree.terminal, child) & (depth < max_depth)",
        "~_at(tree.terminal, child) & (depth <= max_depth)",
        (_DEPTH, _MUZERO_DEPTH),
    ),
    Fault(
        "tree-descends-beyond-the-end",
        TREE,
        "(leaf.child != NONE) & ~_at(tree.terminal, child) & (depth",
        "(leaf.child != NONE) & (depth",
        (_PUCT_TREE, _ANY_ORDER),
    ),
    Fault(
        "tree-lanes-that-are-done-go-on",
        TREE,
        "is_new = live & (leaf.child == NONE)",
        "is_new = leaf.child == NONE",
        (_PROVEN_WIN, _OVER),
    ),
    Fault(
        "tree-children-overwritten-on-revisits",
        TREE,
        "tree.children, jnp.where(is_new, leaf.parent, _beyond(tree)), leaf.action, slot",
        "tree.children, leaf.parent, leaf.action, slot",
        (_PUCT_TREE, _DEPTH),
    ),
    Fault(
        "tree-visits-of-dropped-nodes-forgotten",
        TREE,
        "node_visits=put(tree.node_visits, jnp.where(is_new, visits + 1, 0)),",
        "node_visits=put(tree.node_visits, jnp.where(is_new, 1, 0)),",
        (_GOES_ON,),
    ),
    Fault(
        "tree-losses-never-proven",
        TREE,
        "decided = (best >= max_reward) | ~jnp.any(jnp.isnan(siblings), -1)",
        "decided = best >= max_reward",
        (_ANY_ORDER,),
    ),
    Fault(
        "tree-proven-by-any-known-move",
        TREE,
        "decided = (best >= max_reward) | ~jnp.any(jnp.isnan(siblings), -1)",
        "decided = (best >= max_reward) | ~jnp.all(jnp.isnan(siblings), -1)",
        (_ANY_ORDER,),
    ),
    Fault(
        "tree-proof-without-the-sign",
        TREE,
        "result = _at(tree.rewards, node) + _at(tree.discounts, node) * result",
        "result = _at(tree.rewards, node) - result",
        (_ANY_ORDER,),
    ),
    Fault(
        "tree-proof-leaves-the-mean",
        TREE,
        "        qvalues = _put_edge(qvalues, target, action, result)\n        siblings",
        "        siblings",
        ("search/test_search.py::test_a_proven_loss_is_not_played_though_it_was_visited_most",),
    ),
    Fault(
        "tree-illegal-moves-are-draws",
        TREE,
        "return jnp.where(legal, jnp.nan, -jnp.inf)",
        "return jnp.where(legal, jnp.nan, 0.0)",
        (_ANY_ORDER,),
    ),
    Fault(
        "tree-root-proven-by-one-loss",
        TREE,
        "return (best >= max_reward) | ~jnp.any(jnp.isnan(outcomes), -1), best",
        "return (best >= max_reward) | jnp.any(~jnp.isnan(outcomes) & jnp.isfinite(outcomes), -1), best",
        (_PROVEN_LOSS,),
    ),
    Fault(
        "tree-subtree-of-four-levels",
        TREE,
        "for _ in range(max(1, (slots - 1).bit_length())):",
        "for _ in range(1):",
        (_KEPT,),
    ),
    Fault(
        "tree-subtree-one-node-beyond-its-room",
        TREE,
        "place = jnp.where(place < kept, place, slots)",
        "place = jnp.where(place <= kept, place, slots)",
        (_NO_ROOM,),
    ),
    Fault(
        "tree-subtree-keeps-old-numbers-of-children",
        TREE,
        "children=renumber(compact(tree.children, NONE)),",
        "children=compact(tree.children, NONE),",
        (_KEPT,),
    ),
    Fault(
        "tree-keys-of-the-level-below",
        TREE,
        "jax.lax.fori_loop(0, self.depth, next_level, self.base)",
        "jax.lax.fori_loop(0, self.depth + 1, next_level, self.base)",
        (_MUZERO_DEPTH,),
    ),
    Fault(
        "tree-words-alike-at-every-depth",
        TREE,
        "return scramble(words + jnp.asarray(self.depth, jnp.uint32))",
        "return scramble(words)",
        (
            "search/test_tree.py::test_the_words_of_a_descent_differ_from_lane_to_lane_and_from_level_to_level",
        ),
    ),
    Fault(
        "tree-last-of-equal-maxima",
        TREE,
        "return -max_of_row(jnp.where(is_best, -number, 1 - scores.shape[-1]))",
        "return max_of_row(jnp.where(is_best, number, 0))",
        (_ARGMAX,),
    ),
    Fault(
        "tree-maximum-without-the-last-columns",
        TREE,
        "for start in range(0, columns, width))",
        "for start in range(0, columns - width, width))",
        (_ARGMAX,),
    ),
    Fault(
        "search-gumbel-noise-always-on",
        GUMBEL,
        "noise = gumbel_scale * draw(jax.random.gumbel, gumbel_key, prior.shape)",
        "noise = draw(jax.random.gumbel, gumbel_key, prior.shape)",
        (f"{_NOT_RANDOM}[gumbel]",),
    ),
    Fault(
        "search-gumbel-share-of-visits-without-one-more",
        GUMBEL,
        "rows.visits / (1 + jnp.sum(rows.visits, -1, keepdims=True))",
        "rows.visits / jnp.maximum(1, jnp.sum(rows.visits, -1, keepdims=True))",
        (_GUMBEL,),
    ),
    Fault(
        "search-gumbel-plays-moves-seldom-visited",
        GUMBEL,
        "action = first_max(jnp.where(visited_most & legal, score, -jnp.inf))",
        "action = first_max(jnp.where(legal, score, -jnp.inf))",
        (_GUMBEL,),
    ),
    Fault(
        "search-gumbel-policy-without-values",
        GUMBEL,
        "        improved = prior + completed\n",
        "        improved = prior\n",
        (_GUMBEL,),
    ),
    Fault(
        "search-constant-grows-by-another-logarithm",
        PUCT,
        "c = c + jnp.log((parent_visits + c_base + 1.0) / c_base)",
        "c = c + jnp.log10((parent_visits + c_base + 1.0) / c_base)",
        ("search/test_exploration.py::test_the_growing_constant_of_alphazero",),
    ),
    Fault(
        "search-exploration-without-the-square-root",
        PUCT,
        "exploration = jnp.sqrt(parent_visits) * c * rows.prior / (rows.visits + 1)",
        "exploration = parent_visits * c * rows.prior / (rows.visits + 1)",
        ("search/test_exploration.py::test_puct_as_alphazero_has_it",),
    ),
    Fault(
        "search-printed-formula-is-alphazeros",
        PUCT,
        "exploration = c * rows.prior * jnp.sqrt(parent_visits / (rows.visits + 1))",
        "exploration = c * rows.prior * jnp.sqrt(parent_visits) / (rows.visits + 1)",
        ("search/test_exploration.py::test_puct_as_jacobsen_2019_prints_it",),
    ),
    Fault(
        "search-ucb1-with-another-logarithm",
        UCT,
        "bonus = c * jnp.sqrt(jnp.log(rows.node_visits",
        "bonus = c * jnp.sqrt(jnp.log2(rows.node_visits",
        ("search/test_exploration.py::test_ucb1",),
    ),
    Fault(
        "search-ucb1-in-a-fixed-order",
        UCT,
        "order = scramble(words + (action + 1) * jnp.uint32(0x9E3779B9)) >> 8",
        "order = jnp.broadcast_to(scramble((action + 1) * jnp.uint32(0x9E3779B9)) >> 8, rows.visits.shape)",
        ("search/test_exploration.py::test_ucb1_visits_every_move_once_in_a_random_order_first",),
    ),
    Fault(
        "search-playout-of-the-first-player",
        UCT,
        "return legal, jax.vmap(indexing.take)(rewards, states.current_player), legal",
        "return legal, rewards[:, 0], legal",
        (_SEEN_BY_MOVER,),
    ),
    Fault(
        "search-playouts-of-several-lanes-mixed",
        UCT,
        "jnp.repeat(s, playouts, axis=0)",
        "jnp.concatenate([s] * playouts)",
        ("search/test_search.py::test_several_playouts_of_a_leaf_are_all_its_own",),
    ),
    Fault(
        "search-proven-moves-searched-on",
        SEARCH,
        "_legal(rows) if rows.outcomes is None else _legal(rows) & jnp.isnan(rows.outcomes)",
        "_legal(rows)",
        (_PROVEN_LOSS,),
    ),
    Fault(
        "search-unknown-as-good-as-lost",
        SEARCH,
        "known = jnp.where(jnp.isnan(rows.outcomes), 0.0, rows.outcomes)",
        "known = jnp.where(jnp.isnan(rows.outcomes), -1.0, rows.outcomes)",
        ("search/test_search.py::test_a_proven_loss_is_not_played_though_it_was_visited_most",),
    ),
    Fault(
        "search-proof-ignored-in-the-choice",
        SEARCH,
        "        candidates = _keep_best(candidates, known)\n",
        "        del known\n",
        (_PROVEN_WIN, _PROVEN_LOSS),
    ),
    Fault(
        "search-policy-counts-the-root",
        SEARCH,
        "policy = rows.visits / jnp.maximum(total, 1)",
        "policy = rows.visits / jnp.maximum(rows.node_visits[:, None], 1)",
        (_PUCT_ANSWER,),
    ),
    Fault(
        "search-ties-of-visits-by-the-worse-value",
        SEARCH,
        "action = first_max(jnp.where(candidates, rows.qvalues, -jnp.inf))",
        "action = first_max(jnp.where(candidates, -rows.qvalues, -jnp.inf))",
        (_UCB1_TREE,),
    ),
    Fault(
        "search-proven-value-not-said",
        SEARCH,
        "value=jnp.where(proven & ~over, result, output.value)",
        "value=output.value",
        (_PROVEN_WIN,),
    ),
    Fault(
        "search-proven-policy-by-visits",
        SEARCH,
        "policy=jnp.where((proven & ~over)[:, None], decided, output.policy)",
        "policy=output.policy",
        (_PROVEN_WIN,),
    ),
    Fault(
        "search-finished-game-seen-by-the-first-player",
        SEARCH,
        "result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), states.current_player)",
        "result = jax.vmap(game.rewards)(states)[:, 0]",
        (f"{_OVER}[puct]",),
    ),
    Fault(
        "search-finished-game-with-a-policy",
        SEARCH,
        "policy=jnp.where(over[:, None], 0.0, policy)",
        "policy=policy",
        (f"{_OVER}[gumbel]",),
    ),
    Fault(
        "search-noise-lost-to-illegal-moves",
        PUCT,
        "noisy = dirichlet_mix(noise_key, clean, clean != ILLEGAL_PRIOR, dirichlet_alpha, dirichlet_fraction)",
        "noisy = dirichlet_mix(noise_key, clean, clean == clean, dirichlet_alpha, dirichlet_fraction)",
        (_NOISE_OUT, "search/test_search.py::test_noise_on_the_root_changes_the_search_with_every_key"),
    ),
    Fault(
        "search-noise-below-the-root-too",
        PUCT,
        "        tree, rows = simulate(\n            tree,\n            params,\n            key,\n            game,\n"
        "            evaluate_node,\n            root_rule,\n            rule,\n",
        "        tree, rows = simulate(\n            tree._replace(prior=tree.prior.at[:, trees.ROOT].set(noisy)),\n"
        "            params,\n            key,\n            game,\n"
        "            evaluate_node,\n            root_rule,\n            rule,\n",
        (_NOISE_OUT,),
    ),
    Fault(
        "search-goes-on-in-proven-roots",
        SEARCH,
        "return playable & ~proven",
        "return playable",
        (_PROVEN_WIN, _ANY_ORDER),
    ),
    Fault(
        "search-tree-of-another-game-kept",
        SEARCH,
        "            found &= same.reshape(same.shape[0], -1).all(-1)\n",
        "            del same\n",
        (f"{_ANEW}[puct]",),
    ),
    Fault(
        "search-tree-of-another-game-kept-if-anything-agrees",
        SEARCH,
        "found &= same.reshape(same.shape[0], -1).all(-1)",
        "found &= same.reshape(same.shape[0], -1).any(-1)",
        (f"{_ANEW}[puct]",),
    ),
    Fault(
        "search-quick-searches-called-complete",
        SEARCH,
        "complete=output.complete & is_full",
        "complete=output.complete",
        (f"{_CAPPED}[0.25]",),
    ),
    Fault(
        "search-full-and-quick-exchanged",
        SEARCH,
        "output = jax.lax.cond(is_full, full, quick, params, key, states)",
        "output = jax.lax.cond(is_full, quick, full, params, key, states)",
        (f"{_CAPPED}[0.25]",),
    ),
    Fault(
        "search-distance-without-the-move",
        CHECKERS,
        "jnp.where(x.current_player == 0, difference, -difference) + 1) / most",
        "jnp.where(x.current_player == 0, difference, -difference)) / most",
        (_DISTANCE,),
    ),
    Fault(
        "search-distance-by-one-row-too-many",
        CHECKERS,
        "own_rows = self.pieces * 2 * (self.size - 1)",
        "own_rows = self.pieces * (2 * self.size - 1)",
        (_DISTANCE,),
    ),
    Fault(
        "search-ties-never-broken",
        PUCT,
        "close = top - runner_up <= 1.1e-7 + 2.4e-7 * jnp.abs(top)",
        "close = top < runner_up",
        (_MUZERO_DEPTH,),
    ),
    Fault(
        "search-prior-shared-with-illegal-moves",
        SEARCH,
        "        logits = mask_logits(logits, legal)\n",
        "        logits = logits.astype(jnp.float32)\n",
        (_PUCT_TREE,),
    ),
    Fault(
        "search-one-key-for-all-lanes",
        PUCT,
        "noise = jax.vmap(lambda key: jax.random.uniform(key, scores.shape[-1:]))(draws.keys())",
        "noise = jax.vmap(lambda key: jax.random.uniform(draws.keys()[0], scores.shape[-1:]))(draws.keys())",
        (f"{_MUZERO}[dots and boxes 2x2]",),
    ),
    Fault(
        "search-for-play-with-quick-searches",
        CONFIG,
        "if not explore or config.full_share == 1:",
        "if config.full_share == 1:",
        ("search/test_config.py::test_a_search_for_play_has_no_noise_and_no_quick_searches",),
    ),
    Fault(
        "search-own-constant-forgotten",
        CONFIG,
        '"c": config.c if c is None else c,',
        '"c": config.c,',
        ("search/test_config.py::test_what_is_given_replaces_what_the_configuration_says",),
    ),
    Fault(
        "exploration-shares-of-noise-and-prior-exchanged",
        EXPLORATION,
        "return (1.0 - fraction) * prior + fraction * jnp.where(legal, noise, 0.0)",
        "return fraction * prior + (1.0 - fraction) * jnp.where(legal, noise, 0.0)",
        (_NOISE_SHARE, _MOMENTS),
    ),
    Fault(
        "exploration-concentration-by-all-actions",
        EXPLORATION,
        "count = jnp.maximum(jnp.sum(legal, -1, keepdims=True), 1)",
        "count = jnp.full((*legal.shape[:-1], 1), legal.shape[-1])",
        (_MOMENTS,),
    ),
    Fault(
        "exploration-noise-masked-afterwards",
        EXPLORATION,
        "noise = jax.nn.softmax(mask_logits(log_gamma, legal))",
        "noise = jax.nn.softmax(log_gamma)",
        (_NOISE_SHARE,),
    ),
    Fault(
        "exploration-temperature-upside-down",
        EXPLORATION,
        "logits / jnp.where(temperature > 0, temperature, 1.0)",
        "logits * jnp.where(temperature > 0, temperature, 1.0)",
        (_BY_TEMPERATURE,),
    ),
    Fault(
        "exploration-cold-moves-drawn",
        EXPLORATION,
        "return jnp.where(temperature[:, 0] > 0, sampled, jnp.argmax(visits, -1)).astype(jnp.int32)",
        "return jnp.where(temperature[:, 0] >= 0, sampled, jnp.argmax(visits, -1)).astype(jnp.int32)",
        (_BY_TEMPERATURE, "search/test_exploration.py::test_every_lane_may_have_its_own_temperature"),
    ),
    Fault(
        "exploration-temperature-drops-one-move-late",
        EXPLORATION,
        "return jnp.where(ply < drop, temperature, 0.0)",
        "return jnp.where(ply <= drop, temperature, 0.0)",
        ("search/test_exploration.py::test_the_temperature_drops_to_zero_after_its_moves",),
    ),
    Fault(
        "exploration-flattened-by-the-most-visited",
        EXPLORATION,
        "share = visits / jnp.maximum(jnp.sum(visits, -1, keepdims=True), 1)",
        "share = visits / jnp.maximum(jnp.max(visits, -1, keepdims=True), 1)",
        ("search/test_exploration.py::test_opening_moves_are_drawn_from_that_curve_and_are_legal",),
    ),
    Fault(
        "exploration-flattened-over-illegal-moves",
        EXPLORATION,
        "return mask_logits(multiplier * share, legal)",
        "return multiplier * share",
        ("search/test_exploration.py::test_opening_moves_are_drawn_from_that_curve_and_are_legal",),
    ),
    Fault(
        "exploration-opening-rounded-down",
        JACOBSEN,
        "return math.ceil(size * size / 10)",
        "return size * size // 10",
        ("theses/test_rules.py::test_the_opening_length_and_the_noise_of_jacobsen_2019",),
    ),
    Fault(
        "exploration-alpha-of-all-cells",
        JACOBSEN,
        "return 10 / (0.7 * size * size)",
        "return 10 / (size * size)",
        ("theses/test_rules.py::test_the_opening_length_and_the_noise_of_jacobsen_2019",),
    ),
]
