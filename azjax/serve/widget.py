"""The board in a notebook: `azjax.Board(state, agent="uct:200")`, with the same module that draws the page's board."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from azjax import agents
from azjax.common.agent import RESIGN, Agent
from azjax.envs.core import Game, GameState, unwrapped
from azjax.evaluation.arena import make_mover
from azjax.serve.app import static_text
from azjax.serve.boards import describe_state, look
from azjax.serve.layouts import layout_of

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError("azjax.Board needs anywidget: pip install 'azjax[serve]'") from error


class Board(anywidget.AnyWidget):
    """A board that can be clicked, in Jupyter, Colab and their like.

    board = azjax.Board(azjax.make("hex", size=5).init(jax.random.key(0)), agent="uct:200")
    board.moves, board.state  # as far as it has come
    """

    _esm = static_text("board.js")
    _css = static_text("board.css")
    view = traitlets.Dict().tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        state: Any = None,
        *,
        game: Game | Any = None,
        agent: Agent | str | None = None,
        side: int | None = None,
        seed: int = 0,
    ):
        """Shows a position.

        Args:
          state: of an environment (`azjax.make`), which knows its game, or of `game`; None for the start of `game`.
          game: the game, or an environment around it; needed where the state does not tell.
          agent: who answers, an agent or its text; None to play both sides.
          side: who the person is, 0 or 1; None for who is to move now.
          seed: of the agent's draws.
        """
        super().__init__()
        if game is None:
            if not hasattr(state, "_game"):
                raise ValueError(
                    "Board needs a state of azjax.make(...), or game=...: a bare position does not tell its game"
                )
            game = state._game
        self.game = unwrapped(game)
        state = getattr(state, "_x", state)
        state = self.game.init(jax.random.key(0)) if state is None else state
        self._states: list[GameState] = [jax.device_get(state)]
        self.moves: list[int] = []
        made = agents.make_agent(agent, self.game) if isinstance(agent, str) else agent
        self._mover = None if made is None else make_mover(made)
        self._name = "" if made is None else made.name
        self._ended = ""  # how the agent has given up; from there on the person plays for both
        self.side = int(self.state.current_player) if side is None else side
        self._key = jax.random.key(seed)
        self._step = jax.jit(self.game.step)
        self.on_msg(lambda _, content, buffers: self._hear(content))
        self._answer()
        self._show()

    @property
    def state(self) -> GameState:
        """The position that is shown."""
        return self._states[-1]

    def play(self, action: int) -> None:
        """Makes a legal move, and the agent's answer to it; raises ValueError for another."""
        legal = look(self.game, self.state).legal
        if (
            isinstance(action, bool)
            or not isinstance(action, int)
            or not 0 <= action < len(legal)
            or not legal[action]
        ):
            raise ValueError(f"{action!r} is no legal action here")
        self._move(action)
        self._show()  # before the agent thinks
        self._answer()
        self._show()

    def undo(self) -> None:
        """Takes back the person's last move, and the answer to it."""
        turns = [ply for ply, x in enumerate(self._states[:-1]) if self._is_person(int(x.current_player))]
        if turns:
            self._ended = ""
            del self._states[turns[-1] + 1 :], self.moves[turns[-1] :]
            self._show()

    def _is_person(self, player: int) -> bool:
        return self._mover is None or player == self.side

    def _move(self, action: int) -> None:
        self._states.append(jax.device_get(self._step(self.state, action)))
        self.moves.append(action)

    def _answer(self) -> None:
        while not self._ended and not self._is_person(int(self.state.current_player)):
            if bool(look(self.game, self.state).over):
                return
            self._key, key = jax.random.split(self._key)
            action = self._mover(key, self.state)
            if action < 0:
                self._ended = f"{self._name} {'resigns' if action == RESIGN else 'cannot go on'}."
                return
            self._move(action)

    def _show(self) -> None:
        layout = layout_of(self.game)
        before = self._states[-2] if len(self._states) > 1 else None
        told = describe_state(self.game, self.state, self.moves[-1] if self.moves else None, before)
        self.view = {"layout": None if layout is None else layout.as_dict(), "position": told, "open": True}
        self.message = self._sentence(told, ("First", "Second") if layout is None else layout.names)

    def _sentence(self, told: dict[str, Any], names: Sequence[str]) -> str:
        if self._ended:
            return self._ended
        if told["over"]:
            result = np.sign(told["rewards"][0])
            return "A draw." if result == 0 else f"{names[0 if result > 0 else 1]} has won."
        return f"{names[told['player']]} to move."

    def _hear(self, content: Any) -> None:
        # What a page sends may be anything.
        if isinstance(content, dict) and content.get("undo") is True:
            self.undo()
        elif isinstance(content, dict) and "play" in content:
            try:
                self.play(content["play"])
            except ValueError as error:
                self.message = str(error)
