"""TD learning: what it sees, how it chooses, what it learns from, and that it does learn."""

import dataclasses
import functools
import itertools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from azjax import cli
from azjax.agents import make_agent
from azjax.agents.learned import load_es, load_td
from azjax.common.agent import NOT_FINITE, Agent, AgentError, random_act
from azjax.envs import ChineseCheckers, Hex
from azjax.envs.hex import HexState
from azjax.learners import session, td
from azjax.learners.games import choose_action, make_view, match
from azjax.learners.td import (
    Games,
    TDConfig,
    make_td,
    move_chances,
    play_games,
    td_loss,
    td_targets,
    value_network,
)
from azjax.nn.layers import Params
from azjax.nn.networks import Network, NetworkConfig
from azjax.training import checkpoint
from tests.reference.hex import BLACK, HexGame

TINY = TDConfig(
    Hex(2), hidden=(6, 4), games=4, sessions=2, iterations=4, every=3, evaluation_games=10, save_every=2
)
SILENT = {"say": lambda line: None}


def position(rows):
    """A board from rows of B, R and dots; B is the player with the positive labels."""
    return HexState(
        jnp.array(["RB".find(cell) * 2 - 1 if cell != "." else 0 for row in rows for cell in row], jnp.int8),
        jnp.int32(1),
        jnp.bool_(False),
    )


def batch_of(x):
    return jax.tree.map(lambda leaf: leaf[None], x)


def test_the_quarter_turn_is_that_of_the_thesis():
    # Figure 6 of the thesis: the board before, and as the second player saw it.
    before = position([".R...", ".R.B.", "BBB..", "..R..", "....."])
    seen = np.asarray(make_view(Hex(5), "rotation").observe(before))
    text = ["".join("." if not cell.any() else "RB"[int(cell[1])] for cell in row) for row in seen]
    assert text == [".....", ".B...", "..BR.", "RRB..", "..B.."]


def test_moves_seen_in_the_quarter_turn_lead_back_to_the_board():
    frames = make_view(Hex(5), "rotation").action_frames
    back = {0: 4, 1: 9, 2: 14, 3: 19, 4: 24, 5: 3, 24: 20}  # seen -> board
    assert all(frames[1][board] == seen for seen, board in back.items())
    assert (frames[0] == np.arange(25)).all()


def joins_top_and_bottom(stones):
    game = HexGame(len(stones))
    game.stones = {(int(row), int(column)): BLACK for row, column in np.argwhere(stones)}
    return game.winner() == BLACK


@pytest.mark.parametrize("name, wrong", [("transpose", 0), ("rotation", 92)])
def test_only_the_transposed_view_tells_the_second_player_who_has_won(name, wrong):
    boards = np.array(list(itertools.product([-1, 1], repeat=9)), np.int8)  # all full boards, 1 is Black
    states = HexState(jnp.asarray(boards), jnp.ones(512, jnp.int32), jnp.zeros(512, bool))
    seen = np.asarray(jax.vmap(make_view(Hex(3), name).observe)(states))
    black_wins = [joins_top_and_bottom(board.reshape(3, 3) > 0) for board in boards]
    seen_to_win = [joins_top_and_bottom(own) for own in seen[..., 0]]
    assert sum(black == white for black, white in zip(black_wins, seen_to_win)) == wrong


def test_a_view_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="view='rotation' is for Hex with two planes"):
        make_view(ChineseCheckers(), "rotation")
    with pytest.raises(ValueError, match="'transpose' or 'rotation'"):
        make_view(Hex(3), "mirror")


def drawn(scores, legal, temperature, epsilon, count=40_000):
    """How often each action is chosen."""
    scores, legal = (jnp.broadcast_to(jnp.array(row), (count, len(row))) for row in (scores, legal))
    actions = choose_action(jax.random.key(0), scores, legal, temperature, epsilon)
    return np.bincount(actions, minlength=scores.shape[1]) / count


LEGAL = [True, True, False, True]


def test_temperature_zero_takes_the_best_legal_move():
    assert drawn([0.2, 0.7, 0.9, 0.1], LEGAL, 0.0, 0.0, 10).tolist() == [0, 1, 0, 0]


def test_moves_are_drawn_from_the_softmax_of_legal_scores():
    weights = np.exp(np.array([0.5, -1.0, -np.inf, 1.0]) / 0.5)
    frequencies = drawn([0.5, -1.0, 3.0, 1.0], LEGAL, 0.5, 0.0)
    np.testing.assert_allclose(
        frequencies, weights / weights.sum(), atol=4 * 0.5 / 200
    )  # four standard errors
    assert frequencies[2] == 0


@pytest.mark.parametrize("temperature, epsilon", [(0, 0), (0, 0.5), (1, 0)])
def test_scores_that_are_no_numbers_choose_no_move(temperature, epsilon):
    scores = jnp.array([[1.0, 2.0, 3.0], [1.0, jnp.nan, 3.0], [1.0, jnp.inf, 0.0], [jnp.nan, 1.0, 2.0]])
    legal = jnp.array([[True] * 3] * 3 + [[False, True, True]])
    actions = choose_action(jax.random.key(0), scores, legal, temperature, epsilon)
    assert (actions == NOT_FINITE).tolist() == [False, True, True, False]


def test_exploring_moves_are_uniform_over_the_legal_ones():
    # A tenth of the moves goes in equal parts to three legal ones.
    frequencies = drawn([0.2, 0.7, 0.9, 0.1], LEGAL, 0.0, 0.1)
    np.testing.assert_allclose(frequencies, [1 / 30, 0.9 + 1 / 30, 0, 1 / 30], atol=4 * 0.3 / 200)


@functools.cache
def five():
    """A dense network for 5x5 with weights large enough to have opinions."""
    config = TDConfig(Hex(5))
    network = value_network(config)
    params = network.init(jax.random.key(3))
    return config, network, params._replace(weights=jax.tree.map(lambda leaf: 20 * leaf, params.weights))


@pytest.mark.parametrize("values", ["state", "afterstate"])
def test_a_move_is_worth_what_the_network_says_of_the_position_after_it(values):
    config, network, params = five()
    game = config.game
    x = game.init(jax.random.key(0))
    for move in ("c3", "b2", "d4"):
        x = game.step(x, game.text_to_action(move))
    chances = jax.jit(move_chances(game, network, make_view(game), values))(params, batch_of(x))[0]
    for action in np.flatnonzero(game.legal_action_mask(x))[::5]:
        after = game.step(x, action)
        seen_by = after.current_player if values == "state" else x.current_player
        _, value = network.apply(params, game.observe(after, seen_by)[None])
        own = (1 + value[0]) / 2 if values == "afterstate" else (1 - value[0]) / 2
        np.testing.assert_allclose(chances[action], own, rtol=1e-5)


def test_a_winning_move_is_taken_at_once():
    config, _, params = five()
    game = config.game
    x = game.init(jax.random.key(0))
    for move in ("c1", "a1", "c2", "a2", "c3", "a3", "c4", "a4"):  # Black wins with c5 or b5
        x = game.step(x, game.text_to_action(move))
    for seed in range(3):
        action = jax.jit(make_td(config).act)(params, jax.random.key(seed), batch_of(x))[0]
        assert game.action_to_text(int(action)) in ("c5", "b5")


def spoken(values):
    """A network that says of a position what stands in it, and games of such positions."""

    def apply(params, observation):
        return None, 2 * observation[:, 0] - 1

    values = np.array(values, np.float32)
    plies = len(values)
    players = np.arange(plies)[:, None] % 2
    winner = players[-1]
    games = Games(
        observations=jnp.asarray(values)[:, None, None],
        players=jnp.asarray(players),
        going=jnp.ones((plies, 1), bool),
        outcomes=jnp.where(players == winner, 1.0, -1.0),
    )
    return Network(None, apply, None), games


def test_td_0_learns_from_the_next_position_and_the_winner_at_the_end():
    network, games = spoken([0.5, 0.3, 0.8])
    # The next position belongs to the opponent: 1 - 0.3, 1 - 0.8; the last mover has won.
    np.testing.assert_allclose(td_targets(network, None, games, 0.0)[:, 0], [0.7, 0.2, 1.0], rtol=1e-6)


def test_td_1_learns_from_the_result_alone():
    network, games = spoken([0.5, 0.3, 0.8, 0.6])
    np.testing.assert_allclose(td_targets(network, None, games, 1.0)[:, 0], [0, 1, 0, 1], atol=1e-6)


def linear_game(trace):
    """A game of six positions with v = w s, of which two players see every other one."""
    rng = np.random.default_rng(0)
    s, w = rng.normal(size=(6, 3)), 0.3 * rng.normal(size=3)

    def train(params, observation):
        return type("Outputs", (), {"value": 2 * (observation @ params.weights) - 1}), {}

    network = Network(None, lambda params, observation: (None, train(params, observation)[0].value), train)
    _, games = spoken([0.0] * 6)
    games = games._replace(observations=jnp.asarray(s, jnp.float32)[:, None])
    params = Params(jnp.asarray(w, jnp.float32), {})
    goals = td_targets(network, params, games, trace)
    update = -jax.grad(td_loss, has_aux=True)(params.weights, network, {}, games, goals)[0]
    return s, w, update


@pytest.mark.parametrize("trace", [0.0, 0.6, 1.0])
def test_the_update_is_the_sum_over_eligibility_traces(trace):
    # Sutton's rule with u = v for the first player and 1 - v for the second, whose gradient is -s: the sum over t of
    # (u_(t+1) - u_t) times the sum over k <= t of lambda^(t - k) grad u_k. The last mover, the second player, wins.
    s, w, update = linear_game(trace)
    sign = np.array([1, -1] * 3)
    u = np.where(sign > 0, s @ w, 1 - s @ w)
    following = np.append(u[1:], 0.0)
    eligible, expected = np.zeros(3), np.zeros(3)
    for t in range(6):
        eligible = trace * eligible + sign[t] * s[t]
        expected += (following[t] - u[t]) * eligible
    np.testing.assert_allclose(update, expected, rtol=1e-4, atol=1e-6)


def test_one_game_moves_the_weights_by_the_sum_of_its_errors_times_gradients():
    config = dataclasses.replace(TINY, games=1, optimiser="sgd", learning_rate=0.1)
    learner, network = make_td(config), value_network(config)
    state, key = learner.init(jax.random.key(1)), jax.random.key(2)
    after, _ = jax.jit(learner.step)(state, state.params, key)
    chances_of = move_chances(config.game, network, make_view(config.game), config.values)

    def act(key, states):
        legal = jax.vmap(config.game.legal_action_mask)(states)
        return choose_action(key, chances_of(state.params, states), legal, 0.0, config.epsilon)

    view = make_view(config.game)
    games = jax.jit(lambda key: play_games(config.game, view, config.values, act, key, 1))(key)
    length = int(games.going.sum())
    assert 3 <= length <= 4  # of 2x2 Hex

    def chance(weights, ply):
        return (1 + network.apply(Params(weights, {}), games.observations[ply])[1][0]) / 2

    v = [float(chance(state.params.weights, ply)) for ply in range(length)]
    expected = state.params.weights
    for ply in range(length):
        error = (1 - v[ply + 1] if ply + 1 < length else 1.0) - v[ply]
        gradient = jax.grad(chance)(state.params.weights, ply)
        expected = jax.tree.map(lambda w, g, error=error: w + 0.1 * error * g, expected, gradient)
    for name, leaf in after.params.weights.items():
        np.testing.assert_allclose(leaf, expected[name], rtol=1e-4, atol=1e-6)


def test_afterstates_are_seen_by_the_player_who_made_them():
    game = Hex(2)
    act = functools.partial(random_act(game), None)
    play = jax.jit(lambda key: play_games(game, make_view(game), "afterstate", act, key, 50))
    games = play(jax.random.key(0))
    own, other = (np.asarray(games.observations[..., plane]).sum((-1, -2)) for plane in (0, 1))
    ply = np.arange(4)[:, None]
    going = np.asarray(games.going)
    assert (own[going] == np.broadcast_to(ply // 2 + 1, own.shape)[going]).all()
    assert (other[going] == np.broadcast_to((ply + 1) // 2, own.shape)[going]).all()


@pytest.fixture(scope="module")
def three():
    """A session on 3x3 that has learned for a few seconds."""
    config = TDConfig(Hex(3), games=64, bias=True, trace=0.7, every=100, evaluation_games=500)
    sessions = session.make_sessions(config)
    state, measured = sessions.iteration(sessions.init(jax.random.key(0)))
    return config, sessions.learner, state, measured


def test_td_beats_random_nine_times_in_ten_on_3x3(three):
    *_, measured = three
    assert measured.scores[0, 0] >= 0.9


def test_the_end_of_its_own_game_is_worth_much_to_the_winner_and_little_to_the_loser(three):
    config, _, state, measured = three
    game, network = config.game, value_network(config)
    line = [game.init(jax.random.key(0))]
    for action in np.asarray(measured.example[0]):
        line.append(game.step(line[-1], action))
    over = [bool(x.over) for x in line].index(True)
    params = jax.tree.map(lambda leaf: leaf[0], state.previous)
    loser, winner = (
        (1 + network.apply(params, game.observe(line[over - n])[None])[1][0]) / 2 for n in (2, 1)
    )
    # Both began at 1/2 and are on their way to 1 and 0.
    assert winner > 0.8
    assert loser < 0.4


class _Enough(Exception):
    """All that a test wants to know is known."""


def seats_of_the_learner(monkeypatch, games, keys):
    """[keys, games] the learner's player in a step of training against an opponent."""
    config = dataclasses.replace(TINY, games=games, opponent="random")
    asked = []

    def ask_only(game, view, values, act, key, games):
        # The opponent says -9 wherever it is asked, so that its games can be told from the learner's.
        start = jax.vmap(game.init)(jax.random.split(key, games))
        asked.append(jnp.where(act(key, start) == -9, 1, 0))
        raise _Enough

    stranger = Agent("stranger", lambda params, key, x: jnp.full(len(x.over), -9))
    monkeypatch.setattr(td, "play_games", ask_only)
    learner = make_td(config, lambda text, game: stranger)
    state = learner.init(jax.random.key(0))

    def step(key):
        with pytest.raises(_Enough):
            learner.step(state, state.params, key)
        return asked.pop()

    return np.asarray(jax.vmap(step)(jax.random.split(jax.random.key(1), keys)))


def test_a_learner_with_one_game_a_step_moves_first_in_half_of_them(monkeypatch):
    first = int((seats_of_the_learner(monkeypatch, games=1, keys=1000) == 0).sum())
    assert first in fair_counts(1000)


def test_a_learner_with_several_games_a_step_moves_first_in_half_of_each(monkeypatch):
    seats = seats_of_the_learner(monkeypatch, games=4, keys=200)
    assert (seats.sum(axis=1) == 2).all()
    assert int((seats[:, 0] == 0).sum()) in fair_counts(200)  # and in none of them always


def fair_counts(tosses):
    """How often a fair coin may fall on one side: exact bounds that it leaves once in 100,000 times."""
    low, high = scipy.stats.binom.interval(1 - 1e-5, tosses, 0.5)
    return range(int(low), int(high) + 1)


def test_a_fair_coin_decides_who_moves_first_in_a_match():
    # On one cell whoever moves first wins.
    game = Hex(1)
    random = random_act(game)
    results = match(game, random, random, (), (), jax.random.key(3), 10_000)
    assert int(results.sum()) in fair_counts(10_000)


def test_a_network_whose_answers_are_not_finite_has_no_result_in_a_match():
    # With 1e38 all weights are finite, but not their products. On one cell whoever is second is never asked.
    game = Hex(1)

    def broken(params, key, states):
        scores = jnp.full((len(states.current_player), 1), 1e38) * params - jnp.inf
        return choose_action(key, scores, jax.vmap(game.legal_action_mask)(states), 0.0)

    results = np.asarray(match(game, broken, random_act(game), 1e38, (), jax.random.key(3), 100))
    assert np.isnan(results).sum() in fair_counts(100)
    assert (results[~np.isnan(results)] == 0).all()


def test_two_deterministic_agents_only_win_all_half_or_none(three):
    config, learner, state, _ = three
    agents = [jax.tree.map(lambda leaf: leaf[0], params) for params in (state.previous, state.best)]
    agents.append(learner.params(learner.init(jax.random.key(9))))
    play = jax.jit(lambda a, b, key: match(config.game, learner.act, learner.act, a, b, key, 400).mean())
    for one, other in itertools.combinations(agents, 2):
        score = play(one, other, jax.random.key(0))
        assert min(abs(score - 0), abs(score - 0.5), abs(score - 1)) < 4 * 0.5 / 20


@pytest.mark.parametrize("opponent", ["random", "previous", "uct:2"])
def test_training_may_meet_other_opponents(opponent):
    config = dataclasses.replace(TINY, opponent=opponent)
    learner = make_td(config, make_agent)
    state = learner.init(jax.random.key(0))
    after, report = jax.jit(learner.step)(state, state.params, jax.random.key(1))
    assert 3 <= report["plies"] <= 4
    assert not np.array_equal(after.params.weights["layer_0"], state.params.weights["layer_0"])


def test_any_tower_learns_too():
    tower = NetworkConfig(tower="mlp", blocks=1, channels=8, heads="dense", normalisation="batch")
    config = dataclasses.replace(TINY, network="tower", tower=tower)
    learner = make_td(config)
    state = learner.init(jax.random.key(0))
    after, _ = jax.jit(learner.step)(state, state.params, jax.random.key(1))
    for old, new in zip(jax.tree.leaves(state.params.statistics), jax.tree.leaves(after.params.statistics)):
        assert not np.array_equal(old, new)


@pytest.mark.parametrize(
    "settings, complaint",
    [
        ({"trace": 1.5}, "trace must be between 0 and 1, got 1.5"),
        ({"games": 0}, "games must be at least 1, got 0"),
        ({"sessions": 0}, "sessions must be at least 1, got 0"),
        ({"hidden": ()}, "hidden must be positive numbers of units"),
        (
            {"game": ChineseCheckers()},
            "network must be 'tower' for chinese_checkers, which has no planes of stones",
        ),
    ],
)
def test_senseless_settings_are_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        TDConfig(**({"game": Hex(3)} | settings))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("td") / "whole"
    return session.train(TINY, folder, **SILENT)


def without_times(run):
    return [
        {k: v for k, v in row.items() if k not in ("seconds", "games_per_second")}
        for row in run.read_metrics()
    ]


def state_of(run):
    return run.restore(session.make_sessions(run.config).init(jax.random.key(0)))


def assert_same_bits(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = (jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in (a, b))
        np.testing.assert_array_equal(a, b)


def test_a_run_in_two_parts_is_the_same_as_in_one(whole, tmp_path):
    session.train(dataclasses.replace(TINY, iterations=2), tmp_path / "parts", **SILENT)
    parts = session.train(TINY, tmp_path / "parts", resume=True, **SILENT)
    assert_same_bits(state_of(parts), state_of(whole))
    assert without_times(parts) == without_times(whole)


def test_a_row_a_point_with_both_rates_against_both_opponents(whole):
    rows = whole.read_metrics()
    assert [row["steps"] for row in rows] == [3, 6, 9, 12]
    assert rows[-1]["games"] == 12 * 4
    for opponent in ("random", "previous"):
        points = np.array([row[opponent] for row in rows])
        assert points.shape == (4, 2)
        totals = np.cumsum(points, 0) / np.arange(1, 5)[:, None]
        np.testing.assert_allclose([row[f"{opponent}_total"] for row in rows], totals, rtol=1e-6)


def test_an_example_game_is_noted_with_every_checkpoint(whole):
    rows = whole.read_metrics()
    assert ["example" in row for row in rows] == [False, True, False, True]
    reference = HexGame(2)
    for move in rows[-1]["example"]:
        assert reference.winner() is None
        reference.play(divmod(TINY.game.text_to_action(move), 2))
    assert reference.winner() is not None


def test_sessions_start_apart(whole):
    first = state_of(whole).previous.weights["layer_0"]
    assert not np.array_equal(first[0], first[1])


def test_the_saved_agent_plays_as_the_session_that_won_most(whole):
    state = state_of(whole)
    strongest = int(np.argmax(state.points[:, 0]))
    agent = load_td(whole.path, TINY.game)
    params = jax.tree.map(lambda leaf: leaf[strongest], state.previous)
    assert_same_bits(jax.tree.map(jnp.asarray, agent.params), params)
    x = jax.vmap(TINY.game.init)(jax.random.split(jax.random.key(0), 2))
    np.testing.assert_array_equal(
        agent.act(agent.params, jax.random.key(0), x), make_td(TINY).act(params, jax.random.key(0), x)
    )


def test_the_best_point_is_saved_too(whole):
    rows, state = whole.read_metrics(), state_of(whole)
    points = np.array([row["random"] for row in rows])
    np.testing.assert_allclose(state.best_score, points.max(0), rtol=1e-6)
    assert load_td(whole.path / "best.npz", TINY.game).params is not None


def test_an_agent_of_another_board_or_method_is_refused(whole):
    with pytest.raises(AgentError, match=r"has learned Hex\(size=2.*cannot play Hex\(size=3"):
        load_td(whole.path, Hex(3))
    with pytest.raises(AgentError, match="with a 'TDConfig', expected one with a ESConfig"):
        load_es(whole.path, Hex(2))
    with pytest.raises(AgentError, match="there is no agent at"):
        load_td(whole.path / "nowhere.npz", Hex(2))


def test_other_settings_cannot_continue_a_run(whole):
    with pytest.raises(checkpoint.RunError, match=r"epsilon: 0\.1 there, 0\.2 asked"):
        session.train(dataclasses.replace(TINY, epsilon=0.2), whole.path, resume=True, **SILENT)


def test_the_command_prints_a_line_of_json_a_point(tmp_path, capsys):
    options = (
        "--size 2 --hidden 6 4 --games 4 --sessions 2 --iterations 2 --every 3 --evaluation-games 10".split()
    )
    assert cli.main(["td", "hex", *options, "--out", str(tmp_path / "run"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2]
    assert cli.main(["td", "hex", *options, "--out", str(tmp_path / "run")]) == 2
    assert "already holds a run" in capsys.readouterr().err


@pytest.mark.usefixtures("quickly_compiled")
def test_resume_takes_everything_from_the_run(whole, tmp_path, capsys):
    folder = shutil.copytree(whole.path, tmp_path / "run")
    assert cli.main(["resume", str(folder), "--devices", "2"]) == 2
    assert "--devices is for runs of azjax train" in capsys.readouterr().err
    assert cli.main(["resume", str(folder), "--iterations", "5", "--json"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert row["iteration"] == 5 and row["seconds"] > whole.read_metrics()[-1]["seconds"]
    assert checkpoint.open_run(folder, kind=TDConfig).config.epsilon == TINY.epsilon
