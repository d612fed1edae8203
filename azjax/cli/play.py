"""`azjax play GAME AGENT`: play against an agent in the terminal, or watch two agents play."""

import dataclasses
import functools
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
from azjax.common.checked import Count, Seed
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
    """Play against an agent in the terminal, or let two agents play, who take turns at moving first."""

    EXAMPLES: ClassVar = (
        "azjax play hex5",
        "azjax play hex uct:1000 --size 5",
        "azjax play runs/hex5 --side second",
        "azjax play hex az:runs/hex5?sims=400 --hints perfect",
        "azjax play hex az:runs/hex7 uct:2000 --size 7 --games 2 --vis",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    agent: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")] = tyro.MISSING
    """Your opponent, such as random, uct:200 or az:runs/hex5?sims=64."""
    other: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="AGENT")] = None
    """Whoever plays in your place; then the two play --games."""
    games: Count = 1  # of two agents; the first-named moves first in the first, third, ... of them
    vis: bool = False  # show the board after every move of two agents, not only at the end
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
    if command.other is not None:
        run_two(command, console)
        return
    if command.games > 1 or command.vis:
        raise ValueError("--games and --vis are for two agents; name a second one")
    names = [command.agent] if command.hints is None else [command.agent, command.hints]
    with players.seated(command.game, names, bar=False) as (agents, _):
        human = 0 if command.side == "first" else 1
        session = Session(command.game, agents[0], agents[-1], human, console, seed=command.seed)
        record = session.play(console.input)
    if command.record is not None:
        records.write_records(command.record, [record], append=True)
        console.print(f"The game is in {command.record}.")
    if command.draw is not None:
        _draw(record, command.draw)
        console.print(f"The board is in {command.draw}.")
    if command.json:
        print(json.dumps(_as_json(command.game, record)))


def run_two(command: PlayCommand, console: Console) -> None:
    """Plays the games of two agents."""
    if command.hints is not None or command.side != "first":
        raise ValueError("--hints and --side are for a person who plays; leave them out where two agents do")
    points = [0.0, 0.0]
    with players.seated(command.game, [command.agent, command.other], bar=False) as (agents, _):
        movers = [make_mover(agent) for agent in agents]
        for number in range(command.games):
            first = number % 2
            names = agents[first].name, agents[1 - first].name
            key = jax.random.fold_in(jax.random.key(command.seed), number)
            show = (
                functools.partial(_show_move, command.game, console, names) if command.vis else _show_nothing
            )
            record = play_two(command.game, names, (movers[first], movers[1 - first]), key, show)
            console.print(
                f"game {number + 1}: {names[0]} against {names[1]}: {record.result_text}", markup=False
            )
            points[first] += ((record.result or 0) + 1) / 2
            points[1 - first] += (1 - (record.result or 0)) / 2
            if command.record is not None:
                records.write_records(command.record, [record], append=True)
            if command.draw is not None:  # the last one stays
                _draw(record, command.draw)
            if command.json:
                print(json.dumps(_as_json(command.game, record)))
    console.print(f"{agents[0].name} {points[0]:g}, {agents[1].name} {points[1]:g}", markup=False)


def play_two(
    game: Game,
    names: tuple[str, str],
    movers: tuple[Callable[[jax.Array, GameState], int], Callable[[jax.Array, GameState], int]],
    key: jax.Array,
    show: Callable[[GameState, GameState, int], None],
) -> records.GameRecord:
    """One game of two agents.

    Args:
      game: the rules.
      names: who moves first, and who second.
      movers: theirs, see `make_mover`.
      key: of their draws.
      show: called with the positions before and after each move, and the move.
    """
    step, moves = jax.jit(game.step), []
    x = game.init(jax.random.key(0))
    while not bool(game.is_terminal(x)):
        player = int(x.current_player)
        action = movers[player](jax.random.fold_in(key, len(moves)), x)
        if not (0 <= action < game.num_actions and bool(game.legal_action_mask(x)[action])):
            ending = "resignation" if action == RESIGN else "forfeit"
            return records.GameRecord(game, tuple(moves), names, 2 * player - 1, ending)
        before, x = x, step(x, action)
        moves.append(action)
        show(before, x, action)
    return records.GameRecord(game, tuple(moves), names, int(np.sign(np.asarray(game.rewards(x))[0])))


def _show_move(
    game: Game, console: Console, names: tuple[str, str], before: GameState, after: GameState, action: int
) -> None:
    mover = names[int(before.current_player)]
    console.print(f"{mover} plays {game.action_to_text(action)}", markup=False, highlight=False)
    console.print(board_text(game, after, before))


def _show_nothing(before: GameState, after: GameState, action: int) -> None:
    del before, after, action


def _draw(record: records.GameRecord, path: pathlib.Path) -> None:
    with atomic.replacing(path) as partial:
        records.draw(record).save(partial)


def _as_json(game: Game, record: records.GameRecord) -> dict:
    moves = [game.action_to_text(action) for action in record.moves]
    return {"players": record.players, "moves": moves, "result": record.result_text}


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
