"""`azjax play GAME AGENT`: play against an agent in the terminal."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.text import Text

from azjax.agents.human import board_text
from azjax.cli import options, players, screen
from azjax.common import atomic, files
from azjax.common.agent import RESIGN, Agent
from azjax.common.checked import Seed
from azjax.envs.core import Game, GameState, MoveError
from azjax.evaluation import records
from azjax.evaluation.arena import make_mover

G = TypeVar("G")
HELP = """Type a move, or
  hint    what the agent would play for you
  moves   all legal moves
  undo    take back your last move and the answer to it
  board   show the board again
  resign  give up
  quit    stop here"""


@dataclasses.dataclass(frozen=True)
class PlayCommand(Generic[G]):
    """Play against an agent in the terminal."""

    EXAMPLES: ClassVar = (
        "azjax play hex uct:1000 --size 5",
        "azjax play runs/hex5 --side second",
        "azjax play hex az:runs/hex5?sims=400 --hints perfect",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    agent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")] = tyro.MISSING
    """Your opponent, such as random, uct:200 or az:runs/hex5?sims=64."""
    side: Literal["first", "second"] = "first"  # the player you are
    hints: str | None = None  # the agent that gives hints; default your opponent
    record: pathlib.Path | None = None  # add the game to this file: .sgf for Hex, else the plain notation
    draw: pathlib.Path | None = None  # write the final board to this file, as SVG
    seed: Seed = 0  # for agents that draw
    json: bool = False  # print the game as one JSON object at the end; the board goes to stderr


def run(arguments: list[str]) -> None:
    """Plays a game between a person and an agent."""
    command = options.of_game(PlayCommand, arguments, "azjax play", plays=True)
    console = screen.console(stderr=command.json)
    if command.record is not None:
        records.check_path(command.record, command.game)
    if command.draw is not None:
        files.writable_path(command.draw, command.record)
    names = [command.agent] if command.hints is None else [command.agent, command.hints]
    with players.seated(command.game, names, bar=False) as (agents, _):
        human = 0 if command.side == "first" else 1
        session = Session(command.game, agents[0], agents[-1], human, console, seed=command.seed)
        record = session.play(console.input)
    if command.record is not None:
        records.write_records(command.record, [record], append=True)
        console.print(f"The game is in {command.record}.")
    if command.draw is not None:
        with atomic.replacing(command.draw) as partial:
            records.draw(record).save(partial)
        console.print(f"The board is in {command.draw}.")
    if command.json:
        moves = [command.game.action_to_text(action) for action in record.moves]
        print(json.dumps({"players": record.players, "moves": moves, "result": record.result_text}))


class Session:
    """One game between a person and an agent."""

    def __init__(
        self, game: Game, opponent: Agent, adviser: Agent, human: int, console: Console, seed: int = 0
    ):
        """Sets up the board.

        Args:
          game: what is played.
          opponent: the agent.
          adviser: the agent that gives hints.
          human: the player that the person is, 0 or 1.
          console: where everything appears.
          seed: of the agents' random choices.
        """
        self.game, self.human, self.console = game, human, console
        self.names = ("you", opponent.name) if human == 0 else (opponent.name, "you")
        self._answer = make_mover(opponent)
        self._advise = self._answer if adviser is opponent else make_mover(adviser)
        self._key = jax.random.key(seed)
        self._step = jax.jit(game.step)
        self.states: list[GameState] = [game.init(jax.random.key(0))]
        self.moves: list[int] = []
        self._gave_up: int | None = None  # a player
        self._stopped = False

    def play(self, read: Callable[[str], str]) -> records.GameRecord:
        """Plays until the game is over, somebody gives up, or the person stops.

        Args:
          read: (prompt) -> a line; raises EOFError when there are no more.
        """
        self.console.print(f"You are the {'first' if self.human == 0 else 'second'} player. 'help' explains.")
        self._show()
        while not self._over:
            if int(self.states[-1].current_player) == self.human:
                self._ask(read)
            else:
                self._let_the_agent_move()
        record = self._record()
        self.console.print(self._verdict(record.result), style="bold")
        return record

    @property
    def _over(self) -> bool:
        return self._stopped or self._gave_up is not None or bool(self.game.is_terminal(self.states[-1]))

    def _ask(self, read: Callable[[str], str]) -> None:
        try:
            line = read("your move: ").strip()
        except EOFError:
            line = "quit"
        word = line.lower()
        if word == "quit":
            self._stopped = True
        elif word == "resign":
            self._gave_up = self.human
        elif word == "undo":
            self._undo()
        elif word == "hint":
            action = self._advise(self._next_key(), self.states[-1])
            self._say(
                "no hint: it would resign" if action < 0 else f"hint: {self.game.action_to_text(action)}"
            )
        elif word == "moves":
            legal = np.flatnonzero(self.game.legal_action_mask(self.states[-1]))
            self._say(" ".join(self.game.action_to_text(action) for action in legal))
        elif word == "board":
            self._show()
        elif word in ("help", "?", ""):
            self._say(HELP)
        else:
            try:
                self._move(self.game.text_to_action(line, self.states[-1]))
            except MoveError as error:
                self._say(f"{error}; 'moves' lists what is legal")

    def _let_the_agent_move(self) -> None:
        player = 1 - self.human
        with self.console.status(Text(f"{self.names[player]} is thinking")):
            action = self._answer(self._next_key(), self.states[-1])
        if action < 0:
            self._gave_up = player
            self._say(f"{self.names[player]} {'resigns' if action == RESIGN else 'has failed and forfeits'}")
            return
        self._say(f"{self.names[player]} plays {self.game.action_to_text(action)}")
        self._move(action)

    def _move(self, action: int) -> None:
        self.states.append(self._step(self.states[-1], action))
        self.moves.append(action)
        self._show()

    def _undo(self) -> None:
        turns = [ply for ply, x in enumerate(self.states[:-1]) if int(x.current_player) == self.human]
        if not turns:
            self._say("there is no move of yours to take back")
            return
        del self.states[turns[-1] + 1 :], self.moves[turns[-1] :]
        self._show()

    def _show(self) -> None:
        before = self.states[-2] if len(self.states) > 1 else None
        self.console.print()
        self.console.print(board_text(self.game, self.states[-1], before))

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False)

    def _next_key(self) -> jax.Array:
        self._key, key = jax.random.split(self._key)
        return key

    def _record(self) -> records.GameRecord:
        result, ending = None, ""
        if self._gave_up is not None:
            result, ending = (-1 if self._gave_up == 0 else 1), "resignation"
        elif bool(self.game.is_terminal(self.states[-1])):
            result = int(np.sign(np.asarray(self.game.rewards(self.states[-1]))[0]))
        return records.GameRecord(self.game, tuple(self.moves), self.names, result, ending)

    def _verdict(self, result: int | None) -> str:
        if result is None:
            return "Stopped before the end."
        mine = result if self.human == 0 else -result
        return {1: "You have won.", 0: "A draw.", -1: "You have lost."}[mine]
