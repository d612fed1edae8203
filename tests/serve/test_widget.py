"""The board in a notebook: clicks go in, views go out."""

import jax
import nbformat
import pytest
from nbclient import NotebookClient

import azjax
from azjax.common.agent import RESIGN, Agent
from azjax.envs import Hex

NOTEBOOK = """
import jax
import azjax
board = azjax.Board(azjax.make("hex", size=3).init(jax.random.key(0)))
board.play(4)
board
"""


@pytest.fixture
def first_free():
    """Plays the first cell that is free."""
    return Agent("first-free", lambda params, key, states: jax.numpy.argmax(states.board == 0, axis=-1))


def test_a_click_is_a_move_and_the_agent_answers(first_free):
    board = azjax.Board(game=Hex(size=3), agent=first_free)
    board._hear({"play": 4})
    assert board.moves == [4, 0] and board.view["position"]["pieces"] == [(0, 1), (4, 0)]
    assert board.message == "Black to move."
    board._hear({"undo": True})
    assert board.moves == [] and board.view["position"]["pieces"] == []


def test_whoever_is_second_waits_for_the_agent_and_sees_the_end(first_free):
    board = azjax.Board(game=Hex(size=2), agent=first_free, side=1)
    assert board.moves == [0]
    board.play(3)  # a1 b2; then b1 with a1 reaches the top, a2 would join top and bottom
    board.play(2)
    assert board.moves == [0, 3, 1, 2] and board.message == "White has won."


def test_an_agent_that_gives_up_says_so_and_goes_on_after_an_undo():
    def act(params, key, states):
        stones = jax.numpy.sum(states.board != 0, axis=-1)
        return jax.numpy.where(stones >= 3, RESIGN, jax.numpy.argmax(states.board == 0, axis=-1))

    board = azjax.Board(game=Hex(size=3), agent=Agent("faint-hearted", act))
    board.play(4)
    board.play(8)
    assert board.moves == [4, 0, 8] and board.message == "faint-hearted resigns."
    board.undo()
    assert board.moves == [4, 0] and board.message == "Black to move."
    board.play(7)
    assert board.message == "faint-hearted resigns."


@pytest.mark.parametrize(
    "content", [{"play": 99}, {"play": "a1"}, {"play": None}, {"play": True}, {"undo": 1}, [], "x"]
)
def test_what_a_page_should_not_send_changes_nothing(content):
    board = azjax.Board(game=Hex(size=3))
    board._hear(content)
    assert board.moves == []


def test_a_position_that_does_not_tell_its_game_is_refused():
    with pytest.raises(ValueError, match="does not tell its game"):
        azjax.Board(Hex(size=3).init(jax.random.key(0)))


def test_a_notebook_shows_it():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (output,) = [
        one for one in notebook.cells[0].outputs if one.output_type in ("display_data", "execute_result")
    ]
    assert "application/vnd.jupyter.widget-view+json" in output.data
    (state,) = [
        one["state"]
        for one in notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        if "view" in one["state"]
    ]
    assert state["view"]["position"]["pieces"] == [[4, 0]] and "export default" in state["_esm"]
