"""The text form of agents, and the agents that know the truth or a trained network."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import training
from azjax.agents import AgentError, agent_forms, make_agent, trained
from azjax.agents.solved import _by_solver as by_solver
from azjax.common.agent import NOT_FINITE
from azjax.common.cache import folder as cache_folder
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex, make
from azjax.envs.core import random_action
from azjax.envs.dots_and_boxes import DotsAndBoxesState
from azjax.evaluation import arena, suites
from azjax.nn import make_evaluator, make_network
from azjax.solvers.core import MoveOutcomes, Solution
from azjax.solvers.dots import search as dots_search
from azjax.solvers.dots import solver as dots_and_boxes
from azjax.solvers.hex import tables as hex_tables
from azjax.training import checkpoint
from tests.reference import exhaustive
from tests.reference.chinese_checkers import Rules
from tests.training_cases import SMALL, create_run

CHECKERS = ChineseCheckers(3, 3)
HEX = Hex(3)
DOTS = DotsAndBoxes(2, 2)
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Tables are kept in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@functools.cache
def agent(text, game):
    made = make_agent(text, game)
    return made._replace(act=made.act if made.on_host else jax.jit(made.act))


@functools.cache
def stepper(game):
    return jax.jit(jax.vmap(game.step)), jax.jit(jax.vmap(game.is_terminal)), jax.jit(jax.vmap(game.rewards))


def starts(game, number):
    return jax.vmap(game.init)(jax.random.split(KEY, number))


def play(game, first, second, number=32, seed=0):
    """[number] rewards of the first player, and how many plies each game took."""
    step, is_over, rewards = stepper(game)
    states = starts(game, number)
    plies = np.zeros(number, int)
    while not np.all(over := np.asarray(is_over(states))):
        plies += ~over
        key = jax.random.key(1000 * seed + int(plies.max()))
        ours, theirs = (player.act(player.params, key, states) for player in (first, second))
        states = step(states, jnp.where(states.current_player == 0, ours, theirs))
    return np.asarray(rewards(states))[:, 0], plies


def random_positions(game, number, plies):
    """Unfinished positions [number, ...] after up to so many random moves."""
    step, is_over, _ = stepper(game)
    states = starts(game, number)
    for ply in range(plies):
        legal = jax.vmap(game.legal_action_mask)(states)
        after = step(states, random_action(jax.random.key(ply), legal))
        stay = np.asarray(is_over(after)) | (np.arange(number) % plies < ply)
        states = jax.tree.map(
            lambda old, new, stay=stay: np.where(stay.reshape(-1, *(1,) * (np.ndim(old) - 1)), old, new),
            states,
            after,
        )
    return states


@pytest.mark.parametrize(
    ("game", "texts"),
    [
        (CHECKERS, ["random", "uct-distance:4?c=1", "perfect?all_moves=1", "adversary?by=share"]),
        (HEX, ["random", "uct:4?playouts=2", "adversary"]),
        (DOTS, ["perfect", "adversary", "easy"]),
    ],
    ids=["chinese_checkers", "hex", "dots_and_boxes"],
)
def test_every_device_agent_answers_with_legal_moves_and_bears_its_text(game, texts):
    states = random_positions(game, 16, 4)
    legal = np.asarray(jax.vmap(game.legal_action_mask)(states))
    for text in texts:
        player = agent(text, game)
        actions = np.asarray(player.act(player.params, KEY, states))
        assert player.name == text
        assert not player.on_host
        assert legal[np.arange(16), actions].all(), text


def test_perfect_against_perfect_gives_the_value_of_the_game():
    # Hex and Chinese Checkers on 3x3 are won by the first player. 2 x 2 boxes are won by 3 to 1, 1 x 2 are drawn.
    boxes = DotsAndBoxes(2, 2, reward="margin")
    for game, value in ((HEX, 1), (CHECKERS, 1), (boxes, 0.5), (DotsAndBoxes(1, 2), 0)):
        player = agent("perfect", game)
        rewards, _ = play(game, player, player)
        assert (rewards == value).all(), game


def test_perfect_draws_among_all_moves_that_keep_the_value():
    # On 2 x 2 boxes exactly the eight border lines win, and an inner line draws.
    player = agent("perfect", DOTS)
    actions = np.asarray(player.act(player.params, KEY, starts(DOTS, 300)))
    inner = {DOTS.text_to_action(text) for text in ("a2-b2", "b2-c2", "b1-b2", "b2-b3")}
    assert set(actions.tolist()) == set(range(12)) - inner


def test_optimal_wins_in_the_fewest_plies():
    # The start of Chinese Checkers 3x3 with three pieces is a win in 7 plies.
    player = agent("optimal", CHECKERS)
    rewards, plies = play(CHECKERS, player, player)
    assert (rewards == 1).all()
    assert (plies == 7).all()


def test_optimal_takes_the_best_margin_though_only_the_outcome_counts():
    # By 3 to 1; perfect is content with any win.
    player = agent("optimal", DOTS)
    margin_game = DotsAndBoxes(2, 2, reward="margin")
    rewards, _ = play(margin_game, player, player)
    assert (rewards == 0.5).all()


def test_after_the_first_stone_perfect_swaps_exactly_if_that_wins():
    # On 3x3 a first stone in the centre wins, and one in the acute corner a1 loses.
    game = Hex(3, swap=True)
    player = agent("perfect", game)
    swap = game.num_actions - 1
    for opening, is_swapped in (("b2", True), ("a1", False)):
        states = stepper(game)[0](starts(game, 20), np.full(20, game.text_to_action(opening)))
        actions = np.asarray(player.act(player.params, KEY, states))
        assert ((actions == swap) == is_swapped).all()
    rewards, _ = play(game, player, player)
    assert (rewards == -1).all()


def test_the_adversary_never_wins_a_lost_game():
    perfect, adversary = agent("perfect", CHECKERS), agent("adversary", CHECKERS)
    rewards, _ = play(CHECKERS, perfect, adversary, 64)
    assert (rewards == 1).all()
    rewards, _ = play(CHECKERS, agent("random", CHECKERS), adversary, 64)
    assert (rewards == -1).mean() > 0.9


@functools.cache
def slow_checkers():
    """Children, values and plies to the end of all positions (board, player), found by trying everything."""
    rules = Rules(CHECKERS.size, CHECKERS.pieces, CHECKERS.forward_only)
    children, waiting = {}, [rules.start()]
    while waiting:
        board, player = position = waiting.pop()
        if position in children:
            continue
        other = "b" if player == "a" else "a"
        moves = [] if rules.has_won(board, other) else rules.legal_moves(board, player)
        children[position] = {move: (rules.moved(board, *move), other) for move in moves}
        waiting.extend(children[position].values())
    values = {position: -1 for position, after in children.items() if not after}
    plies = dict.fromkeys(values, 0)
    for ply in itertools.count(1):
        new = {}
        for position in children.keys() - values.keys():
            found = [values.get(child) for child in children[position].values()]
            if -1 in found:
                new[position] = 1
            elif all(value == 1 for value in found):
                new[position] = -1
        if not new:
            return children, values, plies
        values |= new
        plies |= dict.fromkeys(new, ply)


def traps(position) -> set[tuple[int, int]]:
    """What Karki's rules allow the adversary in a position; on this board there are no draws."""
    children, values, _ = slow_checkers()
    if values[position] == 1:
        return {move for move, child in children[position].items() if values[child] == -1}
    replies = {move: list(children[child].values()) for move, child in children[position].items()}
    loses_at_once = {move for move, after in replies.items() if any(not children[reply] for reply in after)}
    candidates = set(replies) - loses_at_once or set(replies)
    hopes = {move: sum(values[reply] == 1 for reply in replies[move]) for move in candidates}
    return {move for move in candidates if hopes[move] == max(hopes.values())}


def test_the_adversary_keeps_to_its_rules():
    states = random_positions(CHECKERS, 64, 8)
    boards = np.asarray(jax.vmap(CHECKERS.board)(states))
    player = agent("adversary?epsilon=0", CHECKERS)
    answers = np.stack([player.act(player.params, jax.random.key(seed), states) for seed in range(4)])
    kinds = set()
    for lane in range(64):
        position = tuple(".ab"[piece] for piece in boards[lane]), "ab"[int(states.current_player[lane])]
        allowed = traps(position)
        assert {tuple(CHECKERS.moves[action].tolist()) for action in answers[:, lane]} <= allowed
        children, values, _ = slow_checkers()
        kinds.add((values[position], len(allowed) < len(children[position])))
    assert (-1, True) in kinds  # there were traps to choose


def test_tables_are_solved_once_and_again_if_the_file_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "new folder"))
    solved = []
    solve = hex_tables.solve_tables
    monkeypatch.setattr(hex_tables, "solve_tables", lambda *given: solved.append(given) or solve(*given))
    first = make_agent("perfect", Hex(2))
    again = make_agent("perfect", Hex(2))
    assert len(solved) == 1
    [file] = (tmp_path / "new folder").iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    mended = make_agent("perfect", Hex(2))
    assert len(solved) == 2
    make_agent("perfect", Hex(2))
    assert len(solved) == 2
    for other in (again, mended):
        np.testing.assert_array_equal(first.params["scores"], other.params["scores"])


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "file" / "folder"))
    assert make_agent("perfect", Hex(2)).params["scores"].shape == (hex_tables.table_size(2),)


def test_the_cache_stands_where_xdg_says(monkeypatch):
    monkeypatch.delenv("AZJAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/azjax"


class Hurried:
    """A game whose winner wants to win soon, and whose loser late: results shrink with every ply."""

    def __init__(self, game, plies):
        self._game, self._plies = game, plies

    def __getattr__(self, name):
        return getattr(self._game, name)

    def rewards(self, x):
        return self._game.rewards(x) * (100 - self._plies(x))


def hex_plies(x):
    stones = jnp.sum(x.board != 0)
    return stones + (stones % 2 != x.current_player)  # a swap is a ply without a stone


def assert_resists(player, states, action_values, keys=range(4)):
    """A winning move where there is one, a drawing one where there is none, and else what is best for the loser."""
    best = np.nanmax(action_values, axis=1, keepdims=True)
    sensible = np.where(best > 0, action_values > 0, action_values == best)
    for seed in keys:
        actions = np.asarray(player.act(player.params, jax.random.key(seed), states))
        assert sensible[np.arange(len(sensible)), actions].all()
    lost = (best[:, 0] < 0) & np.any((action_values < best) & (action_values < 0), axis=1)
    assert lost.any()  # there was something to choose


@pytest.mark.parametrize("swap", [False, True])
def test_perfect_delays_its_loss_in_every_position_of_hex_3x3(swap):
    game = Hex(3, swap=swap)
    solved = exhaustive.solve(Hurried(game, hex_plies), starts(game, 1))
    going = ~solved.over
    states, values = exhaustive.at((solved.states, solved.action_values), going)
    assert_resists(agent("perfect", game), states, values)
    optimal = agent("optimal", game)
    actions = np.asarray(optimal.act(optimal.params, KEY, states))
    assert (values[np.arange(len(values)), actions] == np.nanmax(values, axis=1)).all()


def test_perfect_loses_dots_and_boxes_by_as_little_as_can_be():
    game = DotsAndBoxes(2, 2)
    solved = exhaustive.solve(DotsAndBoxes(2, 2, reward="margin"), starts(game, 1))
    states, values = exhaustive.at((solved.states, solved.action_values), ~solved.over)
    assert_resists(agent("perfect", game), states, values, keys=range(2))


def test_perfect_delays_its_loss_in_chinese_checkers():
    states = random_positions(CHECKERS, 256, 8)
    boards = np.asarray(jax.vmap(CHECKERS.board)(states))
    children, values, plies = slow_checkers()
    action_values = np.full((256, CHECKERS.num_actions), np.nan)
    for lane in range(256):
        position = tuple(".ab"[piece] for piece in boards[lane]), "ab"[int(states.current_player[lane])]
        after = children[position]
        for action, move in enumerate(map(tuple, CHECKERS.moves.tolist())):
            if move in after:
                action_values[lane, action] = -values[after[move]] * (100 - plies[after[move]])
    assert_resists(agent("perfect", CHECKERS), states, action_values)


class _PartlyKnown:
    """A solver of Hex 5x5 that has classified some moves of each position, and not the others."""

    game = Hex(5)

    def __init__(self, wins=(), losses=()):
        self.wins, self.losses = list(wins), list(losses)

    def move_outcomes(self, states):
        legal = np.asarray(states.board) == 0
        low, high = np.where(legal, -1.0, np.nan), np.where(legal, 1.0, np.nan)
        low[:, self.wins], high[:, self.losses] = 1, -1
        return MoveOutcomes(np.where(legal, low, np.nan), np.where(legal, high, np.nan))


def moves_with(monkeypatch, solver, states):
    monkeypatch.setattr("azjax.solvers.hex.room.make_solver", lambda game, **options: solver)
    player = make_agent("perfect?seconds=2", solver.game)
    return np.asarray(player.act(player.params, KEY, states))


def test_a_proven_win_is_played_though_other_moves_are_unknown(monkeypatch):
    actions = moves_with(monkeypatch, _PartlyKnown(wins=(3, 17), losses=(0, 1, 2)), starts(Hex(5), 40))
    assert set(actions.tolist()) == {3, 17}


def test_where_no_win_is_proven_no_move_is_played_that_is_proven_to_lose(monkeypatch):
    unknown = {4, 20}
    solver = _PartlyKnown(losses=sorted(set(range(25)) - unknown))
    assert set(moves_with(monkeypatch, solver, starts(Hex(5), 40)).tolist()) <= unknown


def test_where_everything_loses_the_opponent_is_kept_from_joining_the_sides(monkeypatch):
    # White is about to join the sides along the third row, and b3 alone is in the way.
    state = Hex(5).from_notation("5/bb3/w1www/5/bb3 b")
    states = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], 20, axis=0), state)
    actions = moves_with(monkeypatch, _PartlyKnown(losses=range(25)), states)
    assert {Hex(5).action_to_text(action) for action in actions} == {"b3"}


def test_the_same_key_gives_the_same_moves(monkeypatch):
    states = random_positions(Hex(5), 16, 8)
    first, again = (moves_with(monkeypatch, _PartlyKnown(), states) for _ in range(2))
    np.testing.assert_array_equal(first, again)


class _FewDots:
    """A solver of Dots and Boxes that knows outcomes as told, and no margin."""

    game = DotsAndBoxes(4, 4)

    def __init__(self, low, high):
        self.bounds = low, high

    def move_outcomes(self, states):
        legal = ~np.asarray(states.lines)
        return MoveOutcomes(*(np.where(legal, bound, np.nan) for bound in self.bounds))

    def solve(self, states, reward=None):
        number = len(states.lines)
        nothing = np.zeros(number)
        return Solution(nothing * np.nan, np.zeros_like(states.lines), nothing > 0, nothing, nothing)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({0: (0, 0), 1: (-1, -1), 2: (-1, 0)}, {0}),  # a draw in hand, the others open
        ({0: (0, 0), 1: (0, 1)}, {1}),  # no worse, and may win
        ({0: (1, 1), 1: (0, 1)}, {0}),
    ],
)
def test_a_proven_draw_is_kept_and_a_chance_on_top_of_it_taken(monkeypatch, known, expected):
    game = DotsAndBoxes(4, 4)
    low, high = -np.ones(40), np.ones(40)
    for line, (worst, best) in known.items():
        low[line], high[line] = worst, best
    monkeypatch.setattr("azjax.solvers.dots.room.make_solver", lambda game, **options: _FewDots(low, high))
    player = make_agent("perfect?seconds=1", game)
    actions = np.asarray(player.act(player.params, KEY, starts(game, 20)))
    assert set(actions.tolist()) == expected


def test_without_a_table_dots_and_boxes_is_lost_by_as_little_as_can_be():
    # The search instead of the table, on a board small enough for brute force.
    game = DotsAndBoxes(1, 3)
    solved = exhaustive.solve(DotsAndBoxes(1, 3, reward="margin"), starts(game, 1))
    states, values = exhaustive.at((solved.states, solved.action_values), ~solved.over)
    solver = dots_and_boxes.make_solver(game, method="search")
    assert_resists(by_solver(game, solver, "perfect"), states, values, keys=(0,))
    margins = dataclasses.replace(game, reward="margin")
    actions = by_solver(margins, solver, "optimal").act((), KEY, states)
    assert (values[np.arange(len(values)), actions] == np.nanmax(values, axis=1)).all()


def test_out_of_time_the_solvers_still_tell_what_they_have_proven():
    game = DotsAndBoxes(2, 2)
    solver = dots_and_boxes.make_solver(game, method="search", seconds=60.0)
    search = solver._whole_board
    reached, move_reaches = [], search.move_reaches

    def slow(position, string, bound):
        if len(reached) == 5:
            raise dots_search._OutOfTimeError
        reached.append(move_reaches(position, string, bound))
        return reached[-1]

    search.move_reaches = slow
    found = solver.move_outcomes(starts(game, 1))
    truth = np.asarray(dots_and_boxes.make_solver(game, method="table").optimal_actions(starts(game, 1)))[0]
    np.testing.assert_array_equal(found.low[0, :5] == 1, truth[:5])
    np.testing.assert_array_equal(found.high[0, :5], np.where(truth[:5], 1, 0))
    assert (found.low[0, 5:] == -1).all() and (found.high[0, 5:] == 1).all()
    assert truth[:5].any() and not truth[:5].all()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with one checkpoint, of iteration 4, whose weights are not those of its agent.npz."""
    path = tmp_path_factory.mktemp("runs") / "small"
    opened = create_run(path, SMALL)
    trainer = training.make_trainer(SMALL, training.make_mesh(1))
    state = trainer.init(jax.random.key(1))._replace(iteration=jnp.int32(4))
    opened.save_agent(4, state.average)
    network = make_network(SMALL.network, SMALL.game)
    checkpoint.export_agent(path / "agent.npz", SMALL, network.init(jax.random.key(2)))
    return path


def best_moves(params, states):
    evaluate = make_evaluator(HEX, make_network(SMALL.network, HEX))
    return np.asarray(evaluate(params, KEY, states)[0].argmax(axis=1))


def test_the_network_alone_plays_its_best_move(run):
    states = random_positions(HEX, 32, 5)
    for text, seed in ((f"net:{run}", 2), (f"net:{run / 'agent.npz'}", 2), (f"net:{run}?step=4", None)):
        player = make_agent(text, HEX)
        if seed is None:
            weights = training.make_trainer(SMALL, training.make_mesh(1)).init(jax.random.key(1)).average
        else:
            weights = make_network(SMALL.network, HEX).init(jax.random.key(seed))
        actions = player.act(player.params, KEY, states)
        np.testing.assert_array_equal(actions, best_moves(weights, states))


def test_the_network_can_be_sampled(run):
    player = make_agent(f"net:{run}?sampled=1", HEX)
    states = starts(HEX, 4000)
    logits, _ = make_evaluator(HEX, make_network(SMALL.network, HEX))(player.params, KEY, starts(HEX, 1))
    expected = np.asarray(jax.nn.softmax(logits[0]))
    shares = np.bincount(player.act(player.params, KEY, states), minlength=9) / 4000
    np.testing.assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / 4000))


def test_searches_on_a_network_differ_by_their_options(run):
    # Black holds a1 and a2, so that a3 wins at once.
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], _one_move_from_winning())
    winning = HEX.text_to_action("a3")
    solving = make_agent(f"az:{run}?sims=30&search=puct&solve=1&c=2", HEX)
    assert int(jax.jit(solving.act)(solving.params, KEY, states)[0]) == winning
    warm = make_agent(f"az:{run}?sims=8&search=puct&temperature=1&symmetries=1", HEX)
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 200, 0), HEX.init(KEY))
    assert len(set(np.asarray(jax.jit(warm.act)(warm.params, KEY, many)).tolist())) > 3


def _one_move_from_winning():
    state = HEX.init(KEY)
    for move in ("a1", "c1", "a2", "c2"):
        state = HEX.step(state, HEX.text_to_action(move))
    return state


def test_a_convolutional_network_plays_on_other_boards_and_a_dense_one_does_not(run, tmp_path):
    config = dataclasses.replace(
        SMALL,
        game=Hex(3, planes=6),
        network=dataclasses.replace(
            SMALL.network, tower="conv", heads="convolutional", channels=8, global_pooling=True
        ),
    )
    params = make_network(config.network, config.game).init(KEY)
    checkpoint.export_agent(tmp_path / "agent.npz", config, params)
    large = Hex(5)
    player = make_agent(f"net:{tmp_path}", large)
    states = random_positions(large, 4, 4)
    legal = np.asarray(jax.vmap(large.legal_action_mask)(states))
    assert legal[np.arange(4), np.asarray(player.act(player.params, KEY, states))].all()
    with pytest.raises(AgentError, match="dense heads, made for one board"):
        make_agent(f"net:{run}", large)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    params = make_network(SMALL.network, SMALL.game).init(KEY)
    checkpoint.export_agent(tmp_path / "agent.npz", SMALL, jax.tree.map(lambda leaf: leaf * np.nan, params))
    with pytest.raises(AgentError, match=r"policy.*has numbers that are not finite, so that it cannot play"):
        make_agent(f"az:{tmp_path}", HEX)


def test_a_network_whose_answers_are_no_numbers_is_stopped_with_a_sentence(tmp_path, quickly_compiled):
    # All weights are finite, but their products are not.
    params = make_network(SMALL.network, SMALL.game).init(KEY)
    huge = jax.tree.map(lambda leaf: np.full(leaf.shape, 1e30, leaf.dtype), params)
    checkpoint.export_agent(tmp_path / "agent.npz", SMALL, huge)
    texts = ("net:{}", "net:{}?sampled=1", "az:{}?sims=4", "az:{}?sims=4&search=puct&temperature=1")
    for text in texts:
        player = make_agent(text.format(tmp_path), HEX)
        with pytest.raises(AgentError, match=r"^the network of (az|net):.* not finite"):
            arena.make_mover(player)(KEY, HEX.init(KEY))
    broken = make_agent(f"net:{tmp_path}", HEX)
    with pytest.raises(AgentError, match="numbers that are not finite, so that it cannot choose a move"):
        suites.ask(broken, KEY, starts(HEX, 3))
    for players in ((broken, make_agent("random", HEX)), (make_agent("random", HEX), broken)):
        with pytest.raises(AgentError, match=r"the network of net:.*not finite"):
            arena.make_match(HEX, *players, pairs=2)(None, None, KEY)


@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_a_search_that_meets_one_answer_that_is_no_number_says_so(kind, quickly_compiled):
    # Only positions with two stones have such an answer, so that the root itself looks sound.
    def evaluate(params, key, states):
        stones = jnp.sum(states.board != 0, axis=-1)
        logits = jnp.where((stones == 2)[:, None], jnp.nan, jnp.zeros((len(stones), 9)))
        return logits, jnp.zeros(len(stones))

    def answer(simulations):
        search = trained.make_search(SMALL, HEX, evaluate, simulations=simulations, kind=kind)
        return np.asarray(jax.jit(trained.search_act(search))((), KEY, starts(HEX, 2)))

    assert (answer(4) >= 0).all()  # one ply deep
    assert (answer(32) == NOT_FINITE).all()


@pytest.mark.parametrize(("trained_on", "worth"), [("margin", 1 / 3), ("outcome", 1.0)])
def test_a_search_counts_the_end_of_a_game_as_training_did(trained_on, worth, quickly_compiled):
    # Each player has a box, and the last line takes the third: a margin of 1 of 3 boxes, or a win.
    lines = np.ones(10, bool)
    lines[9] = False
    state = DotsAndBoxesState(lines, np.array([1, -1, 0], np.int8), np.int32(0))
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
    config = dataclasses.replace(SMALL, game=DotsAndBoxes(1, 3, reward=trained_on))
    for played in ("margin", "outcome"):
        game = DotsAndBoxes(1, 3, reward=played)
        search = trained.make_search(
            config,
            game,
            lambda params, key, x: (jnp.zeros((len(x.lines), 10)), jnp.zeros(len(x.lines))),
            simulations=2,
        )
        found = jax.jit(search)((), KEY, states)
        assert found.qvalues[0, 9] == pytest.approx(worth), played
        # Who has won is the match's affair.
        assert game.rewards(game.step(state, 9))[0] == pytest.approx({"margin": 1 / 3, "outcome": 1}[played])


@pytest.mark.parametrize(
    ("text", "game", "message"),
    [
        ("perfekt", HEX, r"'perfekt' names no agent \(did you mean perfect\?\)\. There are random, uct:N"),
        ("", HEX, "names no agent"),
        ("uct", HEX, "write uct:N"),
        ("uct:", HEX, "write uct:N"),
        ("uct:many", HEX, "must be a whole number from 1, or any where seconds= is given, got 'many'"),
        ("uct:0", HEX, "must be a whole number from 1"),
        ("random:3", HEX, "write random"),
        ("uct:10?temprature=1", HEX, "no option 'temprature'; its options are c, playouts, solve"),
        ("random?c=1", HEX, "it has none"),
        ("uct:10?c=-1", HEX, "c of uct must be a number from 0 to 1e9, got '-1'"),
        ("uct:10?solve=yes", HEX, "must be 0 or 1"),
        ("az:runs?search=alpha", HEX, "must be one of gumbel, puct"),
        ("uct-distance:10", HEX, "plays chinese_checkers alone, not hex"),
        ("hard", HEX, "plays dots_and_boxes alone"),
        ("gtp:mohex", DOTS, "plays hex alone"),
        ("az:/no/such/run", HEX, "there is no agent at /no/such/run"),
        ("net:/no/such/run?step=3", HEX, "holds no run"),
        ("td:/no/such/run", HEX, "there is no run at /no/such/run"),
        ("adversary?epsilon=2", HEX, "between 0 and 1"),
        ("adversary", Hex(5), "Hex up to 4x4"),
        ("perfect", Hex(11), "too large for a perfect player"),
        ("perfect", ChineseCheckers(5, 6), "too large for a perfect player"),
        ("perfect", make("tic_tac_toe").game, "no solver for tic_tac_toe"),
    ],
)
def test_a_wrong_text_is_told_what_would_be_right(text, game, message):
    with pytest.raises(AgentError, match=message):
        make_agent(text, game)


def test_options_of_another_search_and_runs_of_another_game_are_refused(run):
    with pytest.raises(AgentError, match="belong to search=puct"):
        make_agent(f"az:{run}?search=gumbel&solve=1", HEX)
    with pytest.raises(AgentError, match="trained on hex and cannot play dots_and_boxes"):
        make_agent(f"az:{run}", DOTS)
    with pytest.raises(AgentError, match="no weights of iteration 3; there are"):
        make_agent(f"az:{run}?step=3", HEX)
    with pytest.raises(AgentError, match="give the folder of the run"):
        make_agent(f"az:{run / 'agent.npz'}?step=4", HEX)


def test_the_help_lists_every_form():
    headings = [line for line in agent_forms().splitlines() if not line.startswith("   ")]
    names = {line.split(":")[0].strip() for line in headings}
    assert names == {
        *("random", "uct", "uct-distance", "az", "net", "perfect", "optimal", "adversary", "easy", "medium"),
        *("hard", "alphabeta", "gtp", "td", "es", "human", "hexy"),
    }
