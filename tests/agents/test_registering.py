"""One's own agents and judges: registered in a module, and named in texts of every command that imports it."""

import json
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax import agents, cli, training
from azjax.agents import AgentError, make_agent, register_agent
from azjax.common.agent import Agent
from azjax.envs import DotsAndBoxes, Hex
from azjax.evaluation import judges
from azjax.learners.session import make_learner
from azjax.learners.td import TDConfig
from tests.training_cases import SMALL, create_run

HEX = Hex(3)


@pytest.fixture(autouse=True)
def tables_of_their_own(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(agents, "_FORMS", dict(agents._FORMS))
    monkeypatch.setattr(judges, "JUDGES", dict(judges.JUDGES))
    monkeypatch.setattr(sys, "path", list(sys.path))


def first_legal(game, shift=0):
    """Plays the first legal move, or one a few places on."""

    def act(params, key, states):
        legal = jnp.roll(jax.vmap(game.legal_action_mask)(states), -shift, axis=1)
        return ((jnp.argmax(legal, axis=1) + shift) % game.num_actions).astype(jnp.int32)

    return Agent("first", act)


def moves(text):
    player = make_agent(text, HEX)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], HEX.init(jax.random.key(0)))
    return player, int(player.act(player.params, jax.random.key(0), start)[0])


def test_a_registered_agent_is_made_by_its_text_with_its_options():
    register_agent("first", first_legal, about="plays the first legal move", options={"shift": int})
    player, move = moves("first")
    assert (player.name, move) == ("first", 0)
    assert moves("first?shift=4")[1] == 4
    assert "  first\n      plays the first legal move\n      options, behind ?: shift" in agents.agent_forms()
    with pytest.raises(AgentError, match="shift of first must be a whole number, got 'x'"):
        make_agent("first?shift=x", HEX)


def test_an_argument_is_handed_to_the_maker_and_its_errors_are_the_agents():
    def make(game, path, depth=1):
        if path == "nowhere":
            raise ValueError("there is nothing at nowhere")
        return first_legal(game)._replace(params=(path, depth))

    register_agent("mine", make, about="reads a file", argument="FILE", options={"depth": int})
    assert make_agent("mine:a:b?depth=3", HEX).params == ("a:b", 3)
    with pytest.raises(AgentError, match="write mine:FILE"):
        make_agent("mine", HEX)
    with pytest.raises(AgentError, match="there is nothing at nowhere"):
        make_agent("mine:nowhere", HEX)


def test_an_agent_for_some_games_is_refused_elsewhere():
    register_agent("first", first_legal, about="of Hex", games=("hex",))
    assert moves("first")[1] == 0
    with pytest.raises(AgentError, match="first plays hex alone, not dots_and_boxes"):
        make_agent("first", DotsAndBoxes(2, 2))
    assert "of Hex (hex)" in agents.agent_forms() + "\n"


def test_what_is_no_agent_and_names_that_are_taken_are_refused():
    with pytest.raises(ValueError, match="the name uct is taken among agents"):
        register_agent("uct", first_legal, about="another")
    register_agent("nobody", lambda game: None, about="returns nothing")
    with pytest.raises(AgentError, match="what makes nobody must return an Agent, it returned NoneType"):
        make_agent("nobody", HEX)


def test_a_learner_trains_against_a_registered_agent():
    register_agent("first", first_legal, about="plays the first legal move")
    config = TDConfig(HEX, games=2, hidden=(4,), opponent="first")
    learner = make_learner(config, make_agent)
    state = learner.init(jax.random.key(0))
    state, report = jax.jit(learner.step)(state, state.params, jax.random.key(1))
    assert np.isfinite(report["loss"])
    with pytest.raises(ValueError, match="opponent first is an agent, and nothing was given to make it with"):
        make_learner(config)


def constant(context, argument):
    """A judge that returns what it was given."""
    return lambda point: {"seed": context.options.seed, "argument": argument, "share": 0.5}


def test_a_judges_settings_and_name_are_checked_when_it_is_registered():
    with pytest.raises(ValueError, match=r"the settings of a judge are some of simulations, .* got 'depth'"):
        judges.register_judge("mine", judges.JudgeKind("about", constant, ("depth",)))
    with pytest.raises(ValueError, match="the name truth is taken among judges"):
        judges.register_judge("truth", judges.JudgeKind("about", constant, ()))
    judges.register_judge("mine", judges.JudgeKind("what it is about", constant, ("seed",), "WORD"))
    assert "  mine:WORD\n      what it is about\n      options, behind ?: seed" in judges.describe()
    with pytest.raises(ValueError, match="write mine:WORD"):
        judges.check_text("mine")


MODULE = """
import jax
import jax.numpy as jnp

from azjax.agents import register_agent
from azjax.common.agent import Agent
from azjax.evaluation.judges import JudgeKind, register_judge


def first(game):
    def act(params, key, states):
        return jnp.argmax(jax.vmap(game.legal_action_mask)(states), axis=1).astype(jnp.int32)

    return Agent("first", act)


def size(context, factor):
    def judge(point):
        leaves = jax.tree.leaves(point.params)
        return {"numbers": int(factor) * sum(leaf.size for leaf in leaves), "seed": context.options.seed}

    return judge


register_agent("first", first, about="plays the first legal move")
register_judge("size", JudgeKind("how many numbers the weights are", size, ("seed",), "FACTOR"))
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """A module of a user's own in the folder that one is in; its name."""
    name = f"mine_{request.node.name.split('[')[0]}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.usefixtures("quickly_compiled")
def test_a_module_that_is_imported_brings_its_agents_to_a_match(module, capsys):
    arguments = ["match", "hex", "first", "random", "--size", "2", "--pairs", "3", "--json"]
    assert cli.main(arguments) == 2
    assert "'first' names no agent" in capsys.readouterr().err
    assert cli.main([*arguments, "--import", module]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agent"], found["games"]) == ("first", 6)


@pytest.mark.usefixtures("quickly_compiled")
def test_a_module_that_is_imported_brings_its_judges_to_evaluate(module, tmp_path, capsys):
    run = create_run(tmp_path / "run", SMALL)
    params = training.make_trainer(SMALL, training.make_mesh(1)).init(jax.random.key(0)).average
    run.save_agent(4, params)
    arguments = ["evaluate", "run", "--no-plot", "--json", "--seed", "5"]
    texts = ["size:1", "size:2?seed=7"]
    assert cli.main([f"--import={module}", *arguments, "--judge", *texts]) == 0
    found = json.loads(capsys.readouterr().out)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    # What stands in the text wins over what the command says.
    assert found["size:1"] == [{"iteration": 4, "numbers": numbers, "seed": 5}]
    assert found["size:2?seed=7"] == [{"iteration": 4, "numbers": 2 * numbers, "seed": 7}]


def test_the_help_lists_imported_agents_and_mentions_the_option(module, capsys):
    assert cli.main(["help", "agents", "--import", module]) == 0
    assert "plays the first legal move" in capsys.readouterr().out
    assert cli.main(["help"]) == 0
    assert "--import MODULE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "given", "message"),
    [
        (
            None,
            "absent_module",
            "there is no module absent_module in this folder or among the installed packages",
        ),
        ("", "some_module.py", "takes a module as Python imports it"),
        ("", "../some_module", "takes a module as Python imports it"),
        (
            "import absent_package",
            "needs_more",
            "ModuleNotFoundError in needs_more.py, line 1: No module named",
        ),
        ("1 / 0", "divides", "--import divides: ZeroDivisionError in divides.py, line 1: division by zero"),
        ("raise SystemExit(0)", "leaves", "SystemExit in leaves.py, line 1: 0"),
        ("def", "no_python", "SyntaxError"),
        (
            "from azjax.agents import register_agent\nregister_agent('uct', None, about='')",
            "takes_a_name",
            "uct is taken",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_sentence(
    content, given, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    if content is not None and "/" not in given:
        (tmp_path / f"{given.removesuffix('.py')}.py").write_text(content)
    assert cli.main(["presets", "--import", given]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_import_without_a_name_is_refused(capsys):
    assert cli.main(["presets", "--import"]) == 2
    assert "--import needs the name of a module" in capsys.readouterr().err
