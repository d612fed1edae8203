"""Judges from end to end, on runs of two iterations; what they say is counted again, slowly."""

import dataclasses
import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import cli, training
from azjax.envs import ChineseCheckers, DotsAndBoxes
from azjax.envs.dots_and_boxes import box_sides
from azjax.evaluation import arena, dots_judges, judges, suites
from azjax.evaluation import truth as ground_truth
from azjax.nn import NetworkConfig, make_evaluator, make_network
from azjax.training import alphazero, checkpoint
from azjax.training.config import ReplayConfig, SelfplayConfig
from tests.reference.chinese_checkers import Rules
from tests.training_cases import SMALL

CHECKERS = ChineseCheckers(3, 2)
DOTS = DotsAndBoxes(2, 2)
ON_ANY_BOARD = NetworkConfig(tower="conv", blocks=1, channels=4, policy_channels=2, value_hidden=4)


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory):
    """No optimiser, for programs that run once; and a folder of their own for tables."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZJAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two iterations that learn, with one checkpoint each."""
    folders = {}
    for game, plies in ((CHECKERS, 16), (DOTS, 12)):
        config = dataclasses.replace(
            SMALL,
            game=game,
            network=ON_ANY_BOARD if game == DOTS else SMALL.network,
            selfplay=SelfplayConfig(lanes=8, plies=plies, log=game == CHECKERS),
            replay=ReplayConfig(capacity=1024, groups=1, batch_size=32, reuse=1.0, warm_up=32),
            iterations=2,
            save_every=2,
        )
        folder = folders[game.name] = tmp_path_factory.mktemp("runs") / game.name
        alphazero.train(config, folder, devices=1)
    return folders


@pytest.fixture
def matches(monkeypatch):
    """The results of all matches that judges play, noted as they are played."""
    played = []

    def make_match(*given, **options):
        match = arena.make_match(*given, **options)

        def noted(*given, **options):
            played.append(match(*given, **options))
            return played[-1]

        return noted

    for module in (judges, dots_judges):
        monkeypatch.setattr(module, "make_match", make_match)
    return played


def evaluate(capsys, folder, judge, *options):
    """What `azjax evaluate` says of the one checkpoint."""
    capsys.readouterr()
    assert cli.main(["evaluate", str(folder), "--judge", judge, "--no-plot", "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)[judge]
    assert row["iteration"] == 2
    return row


def replayed(game, played):
    """Each game of a match as (states before each move, moves, final state)."""
    step = jax.jit(game.step)
    for row, plies in zip(played.record, played.plies):
        states = [game.init(jax.random.key(0))]
        for action in row[:plies]:
            states.append(step(states[-1], action))
        yield states[:-1], row[:plies], states[-1]


def counted(game, result):
    """[2] wins, draws and losses of the agent as first and as second player, from the moves alone."""
    counts = {True: [0, 0, 0], False: [0, 0, 0]}
    for (_, _, final), first in zip(replayed(game, result.played), result.played.agent_first.tolist()):
        assert game.is_terminal(final)
        reward = float(game.rewards(final)[0 if first else 1])
        counts[first][1 - int(np.sign(reward))] += 1
    return [dict(zip(("wins", "draws", "losses"), counts[first])) for first in (True, False)]


def assert_score(row, game, result, games):
    first, second = counted(game, result)
    assert (row["as_first"], row["as_second"]) == (first, second)
    assert sum(first.values()) == sum(second.values()) == games / 2
    wins, draws = (first[name] + second[name] for name in ("wins", "draws"))
    assert row["score"] == (wins + draws / 2) / games
    low, high = row["interval"]
    assert 0 <= low <= row["score"] <= high <= 1
    games_apart = {
        (tuple(moves.tolist()), first)
        for (_, moves, _), first in zip(replayed(game, result.played), result.played.agent_first.tolist())
    }
    assert row["distinct_games"] == len(games_apart)


def test_the_judge_match_counts_the_games_that_were_played(runs, matches, capsys):
    options = ["--simulations", "2", "--pairs", "6"]
    row = evaluate(capsys, runs["dots_and_boxes"], "match:random", *options)
    (result,) = matches
    assert_score(row, DOTS, result, 12)
    assert (result.played.opening_plies == 2).all()


def slow_double_deals(states, moves, final):
    """[2] by the sides of boxes: all that can be captured after a move are pairs with a common last side."""
    boxes = [set(sides) for sides in box_sides(DOTS.rows, DOTS.columns).tolist()]
    counts = [0, 0]
    for before, after in zip(states, [*states[1:], final]):
        drawn = set(np.flatnonzero(after.lines).tolist())
        last_sides = [next(iter(box - drawn)) for box in boxes if len(box - drawn) == 1]
        pairs = [line for line in set(last_sides) if last_sides.count(line) == 2]
        changed = int(before.current_player) != int(after.current_player)
        counts[int(before.current_player)] += changed and 2 * len(pairs) == len(last_sides) > 0
    return counts


def test_the_judge_of_double_deals_counts_those_of_each_side(runs, matches, capsys):
    options = ["--simulations", "0", "--pairs", "40"]
    row = evaluate(capsys, runs["dots_and_boxes"], "double-deals:hard", *options)
    (result,) = matches
    assert_score(row, DOTS, result, 80)
    mine = theirs = 0
    games = zip(replayed(DOTS, result.played), result.played.opening_plies, result.played.agent_first)
    for (states, moves, final), opening, first in games:
        deals = slow_double_deals(states[opening:], moves[opening:], final)
        mine, theirs = mine + deals[0 if first else 1], theirs + deals[1 if first else 0]
    assert (row["double_deals"], row["opponents_double_deals"]) == (mine, theirs)


def test_the_judge_of_boards_plays_on_each(runs, matches, capsys):
    options = ["--simulations", "0", "--pairs", "5", "--sizes", "1", "3"]
    row = evaluate(capsys, runs["dots_and_boxes"], "boards:easy", *options)
    for size, result in zip((1, 3), matches, strict=True):
        game = DotsAndBoxes(size, size)
        assert result.played.record.shape == (10, game.max_plies)
        found = row[f"{size}x{size}"]
        first, second = counted(game, result)
        assert (found["as_first"], found["as_second"]) == (first, second)
        assert found["games"] == 10
        assert found["wins"] == (first["wins"] + second["wins"]) / 10  # draws are not wins
        assert found["draws"] == first["draws"] + second["draws"]


@functools.cache
def slow_game():
    """All positions (board, player) of the small Chinese Checkers: those after each move, and who wins for the mover.

    By trying everything; the game has no draws, but for repetitions and very long games.
    """
    rules = Rules(CHECKERS.size, CHECKERS.pieces, CHECKERS.forward_only)
    pieces = "a" * rules.pieces + "b" * rules.pieces + "." * (CHECKERS.num_cells - 2 * rules.pieces)
    children = {}
    for board, player in itertools.product(sorted(set(itertools.permutations(pieces))), "ab"):
        other = "b" if player == "a" else "a"
        if not rules.is_illegal(board, player):
            moves = [] if rules.has_won(board, other) else rules.legal_moves(board, player)
            children[board, player] = {move: (rules.moved(board, *move), other) for move in moves}
    values = {position: -1 for position, after in children.items() if not after}
    while len(values) < len(children):
        for position in children.keys() - values.keys():
            found = [values.get(child) for child in children[position].values()]
            if -1 in found or all(value == 1 for value in found):
                values[position] = 1 if -1 in found else -1
    return children, values


def keeps(position, move):
    children, values = slow_game()
    return values[children[position][move]] == -values[position]


def matters(position):
    return len({keeps(position, move) for move in slow_game()[0][position]}) == 2


def move_of(action):
    return tuple(CHECKERS.moves[action].tolist())


def names_of(states):
    """Positions [n, ...] as the slow rules name them."""
    boards = np.asarray(jax.jit(jax.vmap(CHECKERS.board))(states))
    players = np.asarray(states.current_player).tolist()
    return [(tuple(".ab"[piece] for piece in board), "ab"[player]) for board, player in zip(boards, players)]


@pytest.fixture(scope="module")
def seen(runs):
    """The positions of self-play in the ring, oldest first, and the results of their games for the mover."""
    run_there = checkpoint.open_run(runs["chinese_checkers"])
    like = training.make_trainer(run_there.config, training.make_mesh(1)).init(jax.random.key(0))
    ring = jax.device_get(run_there.restore(like, 2).ring)
    (written,) = ring.written.tolist()  # less than there is room for, so that the oldest is row 0
    assert 0 < written < ring.capacity
    states = jax.tree.map(lambda leaf: leaf[0, :written], ring.rows.state)
    return names_of(states), np.sign(ring.rows.outcome[0, :written]).tolist()


def assert_share(found, right):
    """A share is that of some answers, right or wrong."""
    right = list(right)
    assert found["of"] == len(right)
    assert found["share"] == (sum(right) / len(right) if right else None)


def assert_shares(found, right):
    """Shares of all and of each player are those of the answers in some positions, right or wrong."""
    assert_share(found["all"], right.values())
    for player, name in (("a", "first_player"), ("b", "second_player")):
        assert_share(found[name], (answer for (_, mover), answer in right.items() if mover == player))


def test_the_judge_of_labels_counts_the_outcomes_that_are_true(runs, seen, capsys):
    _, values = slow_game()
    names, outcomes = seen
    right = [values[name] == outcome for name, outcome in zip(names, outcomes)]
    row = evaluate(capsys, runs["chinese_checkers"], "labels")
    assert_share(row["all"], right)
    for player, part in (("a", "first_player"), ("b", "second_player")):
        assert_share(row[part], [one for one, (_, mover) in zip(right, names) if mover == player])
    ends = np.cumsum([len(part) for part in np.array_split(right, 10)]).tolist()
    for number, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
        assert_share(row["over_time"][number], right[begin:end])
        assert_share(row["so_far"][number], right[:end])
    assert 0 < sum(right) < len(right)
    assert "covers" not in row  # for the run keeps a log of all that it plays


def test_the_judge_of_accuracy_is_right_about_every_position_it_asks(runs, seen, capsys, monkeypatch):
    children, values = slow_game()
    config, params = checkpoint.load_agent(runs["chinese_checkers"])
    going = [name for name, after in children.items() if after]
    boards = jnp.array([[".ab".index(piece) for piece in board] for board, _ in going])
    states = jax.jit(jax.vmap(CHECKERS.from_board))(
        boards, jnp.array(["ab".index(player) for _, player in going])
    )
    network = make_evaluator(CHECKERS, make_network(config.network, CHECKERS))
    logits, opinions = (np.asarray(part) for part in jax.jit(network)(params, jax.random.key(0), states))
    sign = dict(zip(going, np.sign(opinions).tolist()))
    favourite = {
        name: max(
            children[name], key=lambda move, row=row: row[CHECKERS.text_to_action("{}-{}".format(*move))]
        )
        for name, row in zip(going, logits)
    }
    asked, ask = [], suites.ask

    def noted(agent, key, states):
        actions = ask(agent, key, states)
        asked.append({name: move_of(action) for name, action in zip(names_of(states), actions)})
        return actions

    monkeypatch.setattr(suites, "ask", noted)
    options = ["--policy-simulations", "2", "--positions", "2000"]
    row = evaluate(capsys, runs["chinese_checkers"], "accuracy", *options)

    # The run opened its games at the start, which looks the same to the second player.
    start = Rules(CHECKERS.size, CHECKERS.pieces).start()[0]
    near = set(seen[0])
    beside = {child for name in near for child in children[name].values() if children[child]} - near
    sets = {"seen": near, "neighbouring": beside, "random": set(going) - near - beside}
    moves = iter(asked)
    for name, everything in sets.items():
        everything = {position for position in everything if position[0] != start}
        hard = {position for position in everything if matters(position)}
        if name == "random":
            hard = {position for position in hard if values[position] == 1}
        found = row[name]
        assert_shares(found["value"], {one: sign[one] == values[one] for one in everything})
        assert_shares(found["value_where_it_matters"], {one: sign[one] == values[one] for one in hard})
        for player, part in (("a", "first_player"), ("b", "second_player")):
            either = [(board, player) for board, _ in hard if children.get((board, player))]
            assert_share(found[f"value_if_{part}_moves"], [sign[one] == values[one] for one in either])
        by_network, by_search = next(moves), next(moves)
        assert by_network == {one: favourite[one] for one in hard} and by_search.keys() == hard
        assert_shares(found["policy"], {one: keeps(one, move) for one, move in by_network.items()})
        assert_shares(found["policy_2"], {one: keeps(one, move) for one, move in by_search.items()})
        assert hard and found["left_out"] == 2 * len(sets[name] - everything)
    assert next(moves, None) is None


def test_the_judge_of_mistakes_finds_those_that_were_made(runs, matches, seen, capsys, monkeypatch):
    monkeypatch.setattr(ground_truth, "_SEEN_PER_PART", 16)  # so that there are several
    children, values = slow_game()
    row = evaluate(capsys, runs["chinese_checkers"], "mistakes", "--simulations", "0", "--pairs", "20")
    (result,) = matches
    assert_score(row, CHECKERS, result, 40)
    near = set(seen[0])
    beside = {child for name in near for child in children[name].values()}
    start = Rules(CHECKERS.size, CHECKERS.pieces).start()[0]
    choices = []
    games = zip(replayed(CHECKERS, result.played), result.played.opening_plies, result.played.agent_first)
    for (states, moves, _), opening, first in games:
        for state, action in list(zip(states, moves))[opening:]:
            choices += [(state, action)] if int(state.current_player) == (0 if first else 1) else []
    names = names_of(jax.tree.map(lambda *leaves: np.stack(leaves), *(state for state, _ in choices)))
    moved = {part: [] for part in ("all", "seen", "neighbouring", "other", "left_out")}
    for name, (_, action) in zip(names, choices):
        part = "seen" if name in near else "neighbouring" if name in beside else "other"
        for one in ("left_out",) if name[0] == start else ("all", part):
            moved[one].append((name, move_of(action)))
    for (player, side), part in itertools.product((("a", "first"), ("b", "second"), ("", "")), moved):
        own = [(name, move) for name, move in moved[part] if player in ("", name[1])]
        found = row[f"of_{side}_player"] if side else row
        slips = [(name, move) for name, move in own if values[name] == 1 and not keeps(name, move)]
        assert found[part] == {
            "states": len(own),
            "states_per_game": len(own) / (20 if side else 40),
            "distinct_states": len({name for name, _ in own}),
            "can_err": sum(values[name] == 1 and matters(name) for name, _ in own),
            "mistakes": len(slips),
            "distinct_mistakes": len({name for name, _ in slips}),
            "slips": 0,  # nothing is drawn
        }, part
    assert all(row[part]["mistakes"] for part in ("all", "seen"))
