"""Which board the commands sit down at: that of the run, unless the options say otherwise."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.agents import AgentError, make_agent, trained_agent
from azjax.cli import learner, options
from azjax.cli.match import MatchCommand
from azjax.cli.play import PlayCommand
from azjax.cli.solve import SolveCommand
from azjax.cli.tournament import TournamentCommand
from azjax.envs import DotsAndBoxes, Hex
from azjax.learners.td import TDConfig, value_network
from azjax.nn.networks import make_network
from azjax.training import checkpoint
from tests.training_cases import SMALL


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders with agents: of Hex 3x3 and 4x4 with dense heads, 3x3 with convolutional ones, and one of TD."""
    folder = tmp_path_factory.mktemp("runs")
    convolutional = dataclasses.replace(
        SMALL.network, tower="conv", heads="convolutional", channels=8, global_pooling=True
    )
    configs = {
        "dense3": dataclasses.replace(SMALL, game=Hex(3)),
        "dense4": dataclasses.replace(SMALL, game=Hex(4)),
        "conv3": dataclasses.replace(SMALL, game=Hex(3, planes=6), network=convolutional),
        "td3": TDConfig(game=Hex(3), network="dense"),
    }
    for name, config in configs.items():
        (folder / name).mkdir()
        network = value_network(config) if name == "td3" else make_network(config.network, config.game)
        shapes = jax.eval_shape(network.init, jax.random.key(0))
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        checkpoint.export_agent(folder / name / "agent.npz", config, zeros)
    return folder


def match(*arguments) -> MatchCommand:
    return options.of_game(MatchCommand, [str(argument) for argument in arguments], "azjax match", plays=True)


def test_a_run_in_the_place_of_the_game_gives_the_game_and_the_first_agent(runs):
    for given in (runs / "dense3", runs / "dense3" / "agent.npz"):
        command = match(given, "random")
        assert (command.game, command.agent, command.opponent) == (Hex(3), f"az:{given}", "random")
    command = match(f"net:{runs / 'dense3'}?sampled=1", "random", "--pairs", "3")
    assert (command.game, command.agent) == (Hex(3), f"net:{runs / 'dense3'}?sampled=1")
    assert match(runs / "td3", "random").agent == f"td:{runs / 'td3'}"
    play = options.of_game(PlayCommand, [str(runs / "dense3")], "azjax play", plays=True)
    assert (play.game, play.agent) == (Hex(3), f"az:{runs / 'dense3'}")
    arguments = [str(runs / "dense3"), "random", str(runs / "td3")]
    tournament = options.of_game(TournamentCommand, arguments, "azjax tournament", plays=True)
    assert tournament.game == Hex(3)
    assert tournament.players == (f"az:{runs / 'dense3'}", "random", str(runs / "td3"))


def test_commands_without_agents_take_the_game_of_a_run_alone(runs):
    command = options.of_game(SolveCommand, [str(runs / "conv3"), "--openings"], "azjax solve")
    assert command.game == Hex(3) and command.openings


@pytest.mark.parametrize("agent", ["az:{}", "net:{}?symmetries=1", "{}", "{}/agent.npz"])
def test_a_named_game_has_the_board_of_the_run_that_plays_it(runs, agent):
    assert match("hex", "random", agent.format(runs / "dense3")).game == Hex(3)
    assert match("hex", agent.format(runs / "conv3"), "random").game == Hex(3), (
        "what networks see is their affair"
    )


def test_options_go_before_the_board_of_the_run(runs):
    assert match(runs / "conv3", "random", "--size", "5").game == Hex(5)
    assert match("hex", f"az:{runs / 'conv3'}", "random", "--swap").game == Hex(3, swap=True)
    assert match("hex", "random", "uct:2").game == Hex()
    assert match("dots-and-boxes", "random", f"az:{runs / 'dense3'}").game == DotsAndBoxes()


def test_runs_of_different_boards_need_a_choice(runs, capsys):
    pair = f"az:{runs / 'conv3'}", f"az:{runs / 'dense4'}"
    assert cli.main(["match", "hex", *pair]) == 2
    error = capsys.readouterr().err
    assert "different boards" in error and "--size" in error and len(error.splitlines()) == 1
    assert match("hex", *pair, "--size", "4").game == Hex(4)


@pytest.mark.parametrize("first", [["hex", "{}"], ["{}"]])
def test_a_board_that_a_fixed_network_cannot_play_is_one_sentence(runs, capsys, first):
    first = [text.format(runs / "dense3") for text in first]
    for command in (["match", *first, "random"], ["play", *first]):
        assert cli.main([*command, "--size", "5"]) == 2
        error = capsys.readouterr().err
        assert "dense heads, made for one board" in error and len(error.splitlines()) == 1


def test_a_folder_is_an_agent_wherever_one_is_named(runs):
    assert make_agent(str(runs / "td3"), Hex(3, planes=6)).name == f"td:{runs / 'td3'}"
    assert make_agent(str(runs / "dense3"), Hex(3)).name == f"az:{runs / 'dense3'}"
    assert trained_agent("uct:200") == ("uct:200", None) and trained_agent("nothing/here") == (
        "nothing/here",
        None,
    )


def test_a_folder_without_an_agent_is_explained(tmp_path, capsys):
    with pytest.raises(AgentError, match="there is no agent at"):
        make_agent(str(tmp_path), Hex(3))
    assert cli.main(["play", str(tmp_path)]) == 2
    assert "there is no agent at" in capsys.readouterr().err
    assert cli.main(["play", str(tmp_path / "nowhere")]) == 2
    assert "is neither a game nor a run" in capsys.readouterr().err


@pytest.mark.usefixtures("quickly_compiled")
def test_a_match_of_a_run_is_played_on_its_board(runs, capsys):
    agent = f"net:{runs / 'dense3'}"
    assert cli.main(["match", "hex", agent, "random", "--pairs", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["size"], result["games"]) == (3, 4)


def test_the_commands_named_after_learning_without_search_are_understood(runs):
    folder = runs / "td3"
    shutil.copy(folder / "agent.npz", folder / "best.npz")
    kinds = {"play": PlayCommand, "match": MatchCommand}
    commands = learner.next_commands(folder)
    assert len(commands) == 3
    for name, *arguments in commands:
        command = options.of_game(kinds[name], arguments, f"azjax {name}", plays=True)
        assert (command.game, command.agent) == (Hex(3), f"td:{folder}")
        assert make_agent(getattr(command, "opponent", "random"), command.game)
