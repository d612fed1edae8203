"""Games by name: what can be registered, and that nothing is imported or started for it."""

import dataclasses
import subprocess
import sys
from typing import ClassVar

import pytest

from azjax.envs import GameError, Hex, available_games, game_class, make_game, register_game, registry
from azjax.envs.core import is_game, unwrapped


@dataclasses.dataclass(frozen=True)
class Own(Hex):
    """Hex by another name, with one more option."""

    colours: tuple[str, ...] = ("black", "white")

    name: ClassVar[str] = "own"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_games", dict(registry._games))


def test_games_are_made_without_pgx_and_without_a_backend():
    program = """
import sys
import azjax.envs
from jax._src import xla_bridge
assert azjax.envs.make_game("hex", size=3) == azjax.envs.Hex(3)
assert "connect_four" in azjax.envs.available_games()
assert "Env" in dir(azjax.envs)
assert "pgx" not in sys.modules and not xla_bridge.backends_are_initialized()
from azjax.training import presets
presets.preset("hex3")
assert "pgx" not in sys.modules
assert azjax.envs.Env(azjax.envs.Hex(3)).num_actions == 9 and "pgx" in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_registered_game_is_made_by_name():
    assert register_game("own", Own) is Own
    assert "own" in available_games() and game_class("own") is Own
    assert make_game("own", size=4) == Own(size=4)


def test_lists_in_files_become_the_tuples_they_were():
    register_game("own", Own)
    assert make_game("own", colours=["red", "blue"]) == Own(colours=("red", "blue"))


def test_a_class_defined_anew_takes_the_place_of_the_one_before():
    register_game("own", Own)
    again = dataclasses.make_dataclass("Own", [], bases=(Own,), frozen=True)
    again.__module__, again.__qualname__ = Own.__module__, Own.__qualname__
    assert register_game("own", again) is game_class("own") is again


def changed(*, annotations=(), **body):
    """Hex called own, with other members; those with an annotation are fields."""
    members = {"name": "own", "__annotations__": dict(annotations), **body}
    return dataclasses.dataclass(frozen=True)(type("Changed", (Hex,), members))


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("hex", Own, "there is a game called hex already"),
        ("connect_four", Own, "there is a game called connect_four already"),
        ("Own", Own, "small letters, digits and underscores, got 'Own'"),
        ("own game", Own, "small letters, digits and underscores"),
        (3, Own, "small letters, digits and underscores, got 3"),
        ("own", Own(), r"takes the class of own, got Own\("),
        ("other", Own, "the attribute name of Own is 'own'; it must be 'other'"),
        ("own", type("Own", (), {}), "Own is no frozen dataclass"),
        ("own", dataclasses.make_dataclass("Own", []), "Own is no frozen dataclass"),
        ("own", dataclasses.make_dataclass("Own", [], frozen=True), "Own lacks name, version, num_actions"),
        (
            "own",
            changed(moves=3, annotations={"moves": int}),
            "a field of Changed is called moves, which means something else in files",
        ),
        (
            "own",
            changed(height=frozenset(), annotations={"height": frozenset}),
            "the field height of Changed needs a default that is a number",
        ),
    ],
)
def test_what_cannot_be_registered_is_refused_with_a_reason(name, kind, message):
    before = available_games()
    with pytest.raises(GameError, match=message):
        register_game(name, kind)
    assert available_games() == before


def test_another_class_cannot_take_a_registered_name():
    register_game("own", Own)
    with pytest.raises(GameError, match="there is a game called own already; take another name"):
        register_game("own", changed())


def test_what_a_game_refuses_is_an_error_about_the_game():
    def refuse(self):
        raise TypeError("height must be even")

    register_game("own", changed(__post_init__=refuse))
    with pytest.raises(GameError, match=r"own refuses \{'size': 3\}: height must be even"):
        make_game("own", size=3)


def test_a_game_is_told_from_its_name_its_class_and_its_environment():
    env = registry.make("hex", size=3)
    assert is_game(Hex(3)) and is_game(make_game("tic_tac_toe")) and is_game(Own())
    assert not any(map(is_game, ("hex", Hex, env, None)))
    assert unwrapped(env) == unwrapped(Hex(3)) == Hex(3)
