"""What all games have in common: how they are made, the pgx layer, auto-reset, playouts, conformance."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

import azjax
from azjax.envs import ChineseCheckers, DotsAndBoxes, Env, Hex, PgxGame
from azjax.envs.core import GameError, MoveError, PlainGame, random_action, random_playout, renew
from azjax.testing import ConformanceError, check_game

GAMES = {
    "hex": Hex(size=5),
    "hex with swap and six planes": Hex(size=4, swap=True, planes=6),
    "chinese checkers": ChineseCheckers(size=4, pieces=3),
    "chinese checkers, all moves": ChineseCheckers(size=3, pieces=3, forward_only=False),
    "dots and boxes": DotsAndBoxes(rows=2, columns=3),
    "dots and boxes, margin on an image": DotsAndBoxes(2, 2, reward="margin", observation="image"),
    "tic-tac-toe": PgxGame("tic_tac_toe"),
}


@pytest.mark.parametrize("name", GAMES)
def test_every_game_passes_the_conformance_check(name):
    check_game(GAMES[name])


@pytest.mark.parametrize("name", ["hex", "chinese checkers", "dots and boxes", "tic-tac-toe"])
def test_every_game_passes_the_test_of_pgx(name):
    pgx.api_test(Env(GAMES[name]), 2)


def test_make_builds_each_game_with_its_options():
    assert azjax.make("hex", size=6).game == Hex(size=6)
    assert azjax.make("chinese_checkers", size=4, pieces=3).game == ChineseCheckers(size=4, pieces=3)
    assert azjax.make("dots_and_boxes", rows=3, columns=3).game == DotsAndBoxes(rows=3, columns=3)
    assert azjax.make("connect_four").num_actions == 7


def test_make_lists_the_games_for_an_unknown_name():
    with pytest.raises(
        GameError, match=r"unknown game 'hexx'.*hex, chinese_checkers, dots_and_boxes.*connect_four"
    ):
        azjax.make("hexx")


def test_make_lists_the_options_for_an_unknown_option():
    with pytest.raises(GameError, match=r"hex has no option width.*size=11"):
        azjax.make("hex", width=6)


def test_make_says_that_pgx_games_take_no_options():
    with pytest.raises(GameError, match="connect_four comes from pgx and takes no options"):
        azjax.make("connect_four", size=6)


def test_make_refuses_games_of_pgx_with_chance_or_hidden_cards():
    for name in ("backgammon", "kuhn_poker", "2048", "minatar-asterix"):
        with pytest.raises(GameError, match="unknown game"):
            azjax.make(name)


def test_the_first_player_of_every_pgx_game_is_player_0():
    # pgx draws lots: over eight keys both of its players begin.
    game = PgxGame("connect_four")
    keys = jax.random.split(jax.random.key(0), 8)
    seats = jax.vmap(lambda key: game.env.init(key).current_player)(keys)
    assert set(np.asarray(seats).tolist()) == {0, 1}
    assert not jax.vmap(game.init)(keys).current_player.any()


def test_a_pgx_game_gives_the_rewards_of_pgx_to_the_right_player():
    game = PgxGame("connect_four")
    for seed in range(4):
        x, state = game.init(jax.random.key(seed)), game.env.init(jax.random.key(seed))
        first = int(state.current_player)
        for column in (3, 0, 3, 1, 3, 2, 3):  # four in a column for whoever began
            x, state = game.step(x, column), game.env.step(state, column)
        assert game.is_terminal(x)
        assert game.rewards(x).tolist() == [1.0, -1.0]
        assert state.rewards[first] == 1.0


@pytest.mark.parametrize("name", ["connect_four", "othello", "tic_tac_toe"])
def test_a_pgx_game_agrees_with_pgx_throughout_random_games(name):
    game = PgxGame(name)

    def ply(carry, key):
        x, state = carry
        action = random_action(key, state.legal_action_mask)
        agrees = (game.observe(x) == state.observation).all()
        agrees &= (game.legal_action_mask(x) == state.legal_action_mask).all() | state.terminated
        agrees &= game.is_terminal(x) == state.terminated
        return (game.step(x, action), game.env.step(state, action)), agrees

    def play(key):
        key, init_key = jax.random.split(key)
        start = (game.init(init_key), game.env.init(init_key))
        return jax.lax.scan(ply, start, jax.random.split(key, 30))[1]

    assert jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(1), 32)).all()


@pytest.mark.parametrize("name, views", [("tic_tac_toe", 8), ("connect_four", 2), ("othello", 4)])
def test_the_symmetries_of_pgx_games_keep_the_rules(name, views):
    check_game(PgxGame(name), games=4)  # plays random games and their images side by side
    assert len(PgxGame(name).symmetries.action) == views


def test_a_renewed_game_can_be_searched_at_once():
    """A peer's auto-reset leaves the new board flagged as terminal, and searches then see only zeros."""
    game = GAMES["hex"]
    x = game.init(jax.random.key(0))
    while not game.is_terminal(x):
        x = jax.jit(game.step)(x, random_action(jax.random.key(0), game.legal_action_mask(x)))
    fresh = renew(game, x, jax.random.key(1))
    assert not game.is_terminal(fresh)
    assert game.legal_action_mask(fresh).all()
    assert not game.rewards(fresh).any()
    for leaf, expected in zip(jax.tree.leaves(fresh), jax.tree.leaves(game.init(jax.random.key(1)))):
        np.testing.assert_array_equal(leaf, expected)


def test_renewing_leaves_a_game_under_way_alone():
    game = GAMES["hex"]
    x = game.step(game.init(jax.random.key(0)), 7)
    for leaf, expected in zip(jax.tree.leaves(renew(game, x, jax.random.key(1))), jax.tree.leaves(x)):
        np.testing.assert_array_equal(leaf, expected)


def test_random_playouts_of_a_game_without_a_shortcut_reach_the_end():
    # Random tic-tac-toe: 0.585 for the first player, 0.288 the second, 0.127 draws (full enumeration).
    game = PgxGame("tic_tac_toe")
    x = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 20_000))
    first = np.asarray(jax.jit(functools.partial(random_playout, game))(x, jax.random.key(1)))[:, 0]
    for result, share in ((1, 0.5850), (-1, 0.2881), (0, 0.1270)):
        assert abs((first == result).mean() - share) < 4 * (share * (1 - share) / 20_000) ** 0.5


def test_moves_of_a_plain_game_are_numbers_and_name_what_is_wrong():
    game = PgxGame("tic_tac_toe")
    x = game.step(game.init(jax.random.key(0)), 4)
    assert game.text_to_action("5", x) == 5
    with pytest.raises(MoveError, match="'4' is not legal in this position"):
        game.text_to_action("4", x)
    with pytest.raises(MoveError, match="give an action number from 0 to 8"):
        game.text_to_action("b2", x)


def test_a_batch_of_states_draws_its_first_board():
    env = Env(GAMES["hex"])
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 3))
    states = jax.vmap(env.step)(states, jnp.array([3, 4, 5]))
    assert "<svg" in states._repr_html_()


@dataclasses.dataclass(frozen=True)
class Broken(PlainGame):
    """Hex 3x3 with one promise broken, chosen by name."""

    fault: str

    def __getattr__(self, name):
        return getattr(Hex(size=3), name)

    @property
    def symmetries(self):
        mirrored = np.arange(9).reshape(3, 3)[::-1].ravel()
        good = Hex(size=3).symmetries
        if self.fault != "symmetry":
            return good
        doubled = np.stack([2 * mirrored, 2 * mirrored + 1], -1).ravel()
        return type(good)(np.stack([np.arange(18), doubled]), np.stack([np.arange(9), mirrored]))

    def step(self, x, action):
        after = Hex(size=3).step(x, action)
        if self.fault == "step after the end":
            return after._replace(current_player=1 - x.current_player)
        if self.fault == "fields":
            return tuple(after)
        if self.fault == "type":
            return after._replace(current_player=after.current_player.astype(jnp.int8))
        return after

    def rewards(self, x):
        good = Hex(size=3).rewards(x)
        return good + 1.0 if self.fault == "rewards" else good

    def legal_action_mask(self, x):
        good = Hex(size=3).legal_action_mask(x)
        return good | self.is_terminal(x) if self.fault == "mask" else good

    def observe(self, x, player=None):
        if self.fault == "view" and player is None:
            player = jnp.int32(0)
        good = Hex(size=3).observe(x, player)
        return good[..., :1] if self.fault == "observation" else good


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("symmetry", "symmetry 1 does not map"),
        ("step after the end", "a terminal position changed"),
        ("rewards", "rewards must sum to zero"),
        ("mask", "a terminal position has legal actions"),
        ("observation", "observation_shape is"),
        ("fields", "step must give a state with the same fields"),
        ("type", r"step must keep every shape and type of the state: .*int32.* became .*int8"),
        ("view", "observe without a player must show the view of the player to move"),
    ],
)
def test_the_conformance_check_finds_a_broken_promise(fault, message):
    with pytest.raises(ConformanceError, match=message):
        check_game(Broken(fault), games=4)


class TwoTosses(NamedTuple):
    current_player: jax.Array
    heads: jax.Array  # [] int32
    ply: jax.Array  # [] int32


class Tosses:
    """Two plies with two actions each; the first player wins if both are the same."""

    def legal_action_mask(self, x):
        return jnp.full(2, x.ply < 2)

    def step(self, x, action):
        return TwoTosses(1 - x.current_player, x.heads + action, x.ply + 1)

    def is_terminal(self, x):
        return x.ply == 2

    def rewards(self, x):
        result = jnp.where(x.heads == 1, -1.0, 1.0)
        return jnp.stack([result, -result])


def test_every_ply_of_a_random_playout_is_drawn_anew():
    nothing = jnp.zeros(4000, jnp.int32)
    results = random_playout(Tosses(), TwoTosses(nothing, nothing, nothing), jax.random.key(1))[:, 0]
    assert float(results.mean()) == pytest.approx(0, abs=4 / np.sqrt(4000))
