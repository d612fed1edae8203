"""`azjax solve GAME`: the exact value and all optimal moves of positions, of all openings, or of the start."""

import dataclasses
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from azjax.cli import options, progress, screen
from azjax.common import files
from azjax.common.checked import FromZero, Positive, between
from azjax.envs.core import Game, GameState
from azjax.envs.hex import Hex
from azjax.positions import PositionLine, read_positions, stack
from azjax.solvers import Solution, Solver, room_of
from azjax.solvers import files as solution_files
from azjax.solvers.core import Wishes

G = TypeVar("G")
_WORTH_SAYING = 60.0  # seconds


@dataclasses.dataclass(frozen=True)
class SolveCommand(Generic[G]):
    """Solve positions, all openings, or the start.

    Values are those of the player to move: 1 a win, 0 a draw, -1 a loss. In Dots and Boxes they are final margins in
    boxes, unless --reward outcome is given. What could not be proven within the limits is unknown.
    """

    EXAMPLES: ClassVar = (
        "azjax solve hex --size 4 --openings",
        "azjax solve dots-and-boxes --rows 2 --columns 3",
        "azjax solve hex --size 5 --positions positions.jsonl --json",
    )

    game: Annotated[G, tyro.conf.arg(name="")]
    positions: pathlib.Path | None = None  # solve the positions of this file, one JSON object a line
    openings: bool = False  # classify every first move
    method: Literal["auto", "table", "search"] = "auto"  # Dots and Boxes: a table of the board, or a search
    # give up on a position (Chinese Checkers: refuse a board) that takes longer
    seconds: FromZero | None = None
    gigabytes: Positive = 6.0  # refuse a table that needs more memory
    processes: Annotated[int, between(1, 1024)] = 1  # Hex: how many search side by side
    # Also how far the end is: Chinese Checkers, a byte for each position; Connect Four, which takes longer.
    distances: bool = True
    save: pathlib.Path | None = None  # keep what was found out; Chinese Checkers goes on from what is there
    load: pathlib.Path | None = None  # begin with what such a file knows
    json: bool = False  # print JSON, one object a line


def run(arguments: list[str]) -> None:
    """Solves, watched by a progress bar, and prints what was found."""
    command = options.of_game(SolveCommand, arguments, "azjax solve")
    worth = getattr(command.game, "worth_options", ())
    if not any(_names(arguments, f"--{option}") for option in worth):
        command = dataclasses.replace(command, game=room_of(command.game).finest(command.game))
    if command.positions is not None and command.openings:
        raise ValueError("either --positions or --openings can be asked for, not both")
    if command.save is not None:
        files.writable_path(command.save, command.positions)
        if command.save.exists() and not solution_files.may_be_written_over(command.save):
            raise ValueError(f"{command.save} is there already and no file of solutions; name another one")
    if command.positions is not None:
        solve_positions(command)
    else:
        solve_start(command)


def solve_positions(command: SolveCommand) -> None:
    """Prints the value and the optimal moves of every position of a file, in its order."""
    positions = read_positions(command.positions, default=command.game)
    games = list(dict.fromkeys(position.game for position in positions))
    if len(games) > 1 and (command.save or command.load):
        raise ValueError(f"--save and --load are for one board, but {command.positions} has {len(games)}")
    answers: dict[int, dict[str, Any]] = {}
    with progress.bar() as bar:
        for game in games:
            rows = [row for row, position in enumerate(positions) if position.game == game]
            solver = _solver(command, game, bar)
            states = stack(positions[row].state for row in rows)
            solution, plies = solver.solve(states), _plies(command, solver, states)
            answers |= {row: answer_of(game, solution, i, plies) for i, row in enumerate(rows)}
            _finish(command, solver)
    if command.json:
        for row in range(len(positions)):
            print(json.dumps(answers[row]))
        return
    table = screen.table("position", "value", "optimal moves", "seconds")
    for row, position in enumerate(positions):
        answer = answers[row]
        table.add_row(
            _name(position),
            _value_text(answer["value"]),
            _moves_text(answer),
            f"{answer['seconds']:.3g}",
        )
    screen.console().print(table)


def solve_start(command: SolveCommand) -> None:
    """Prints the value of the start, with --openings that of every first move, and what a table holds."""
    game = command.game
    start = stack([game.init(jax.random.key(0))])
    begin = time.perf_counter()
    with progress.bar() as bar:
        solver = _solver(command, game, bar)
        values = opening_values(solver, start) if command.openings else None
        answer = answer_of(game, solver.solve(start), 0, _plies(command, solver, start))
        _finish(command, solver)
    answer["seconds"] = time.perf_counter() - begin
    if hasattr(solver, "counts"):
        answer["counts"] = solver.counts()._asdict()
    if values is not None:
        answer["openings"] = [
            {"move": game.action_to_text(action), "action": action, "value": _number(values[action])}
            for action in np.flatnonzero(
                game.legal_action_mask(jax.tree.map(lambda leaf: leaf[0], start))
            ).tolist()
        ]
    if command.json:
        print(json.dumps(answer))
        return
    _show_start(screen.console(), game, answer)


def answer_of(game: Game, solution: Solution, row: int, plies: np.ndarray | None = None) -> dict[str, Any]:
    """One row of a solution, as it is printed: the value is None where it was not proven.

    Args:
      game: the rules.
      solution: of a batch.
      row: which of its positions.
      plies: [batch, actions] from before each move to the end, where the solver tells, see `HurryingSolver`.
    """
    actions = np.flatnonzero(solution.optimal[row]).tolist()
    speed = {} if plies is None else {"plies": [_number(plies[row, action]) for action in actions]}
    return speed | {
        "value": _number(solution.value[row]),
        "optimal": [game.action_to_text(action) for action in actions],
        "optimal_actions": actions,
        "seconds": round(float(solution.seconds[row]), 6),
        "proven": bool(solution.proven[row]),
    }


def opening_values(solver: Solver, start: GameState) -> np.ndarray:
    """[actions] float32: what each first move is worth for who makes it; NaN if unknown or not legal."""
    game, state = solver.game, jax.tree.map(lambda leaf: leaf[0], start)
    values = np.full(game.num_actions, np.nan, np.float32)
    if hasattr(solver, "winning_moves"):  # which decides many moves together
        found = solver.winning_moves(state).result
        values[found != 0] = found[found != 0]
        return values
    legal = np.flatnonzero(game.legal_action_mask(state))
    after = jax.jit(jax.vmap(game.step, (None, 0)))(state, legal)
    stays = np.asarray(after.current_player) == int(state.current_player)
    values[legal] = np.where(stays, 1, -1) * solver.value(after)
    return values


def _solver(command: SolveCommand, game: Game, bar: Callable[[str, int, int], None]) -> Solver:
    """The solver that the options ask for; says how long it will take if that is long."""
    show = functools.partial(bar, f"solving {game.name.replace('_', ' ')}")
    room = room_of(game)
    seconds = room.seconds_ahead(game)

    @functools.cache
    def say_how_long() -> None:  # once the work begins, and not where it is refused
        if command.positions is None and command.seconds is None and seconds > _WORTH_SAYING:
            about = f"this takes about {seconds / 60:.0f} minutes; --seconds limits it"
            print(about, file=sys.stderr)

    def watch(done: int, total: int) -> None:
        say_how_long()
        show(done, total)

    if command.method not in room.METHODS:
        raise ValueError("--method is for Dots and Boxes; the other games have one method for each board")
    wishes = Wishes(
        command.seconds,
        command.gigabytes * 1e9,
        command.method,
        command.processes,
        command.save,
        watch,
        command.distances,
    )
    if command.load is not None:
        return room.load_solver(command.load, game, **room.load_options(wishes))
    solver = room.make_solver(game, **room.options(wishes))
    if command.save is not None and not hasattr(solver, "save"):
        raise ValueError(
            "a search of Dots and Boxes keeps nothing to save; leave out --save or take --method table"
        )
    say_how_long()
    return solver


def _plies(command: SolveCommand, solver: Solver, states: GameState) -> np.ndarray | None:
    """How far the end is after each move, if the solver tells and that is wanted."""
    if not command.distances or not hasattr(solver, "move_plies"):
        return None
    return solver.move_plies(states)


def _finish(command: SolveCommand, solver: Solver) -> None:
    if command.save is not None:
        solver.save(command.save)
    if hasattr(solver, "close"):
        solver.close()


def _names(arguments: list[str], option: str) -> bool:
    return any(argument.split("=")[0] == option for argument in arguments)


def _number(value: float) -> int | None:
    return None if np.isnan(value) else int(value)


def _value_text(value: int | None) -> str:
    return "unknown" if value is None else f"{value:+d}" if value else "0"


def _moves_text(answer: dict[str, Any]) -> str:
    """The optimal moves, with the plies to the end where they are known."""
    plies = answer.get("plies", [None] * len(answer["optimal"]))
    return " ".join(
        move if number is None else f"{move} (in {number})" for move, number in zip(answer["optimal"], plies)
    )


def _name(position: PositionLine) -> str:
    """How a line of the file gave the position."""
    if "position" in position.fields:
        return str(position.fields["position"])
    return " ".join(map(str, position.fields.get("moves", []))) or "the start"


def _show_start(console: Console, game: Game, answer: dict[str, Any]) -> None:
    console.print(
        f"{_described(game)}: {_value_text(answer['value'])} for the first player, in {answer['seconds']:.3g} s"
    )
    if "openings" not in answer:
        console.print(f"optimal: {_moves_text(answer)}" if answer["proven"] else "not proven in time")
    else:
        console.print(_OPENINGS.get(game.name, _opening_table)(game, answer["openings"]))
    for name, count in answer.get("counts", {}).items():
        if isinstance(count, int):
            console.print(f"{name}: {count:,}")


def _described(game: Game) -> str:
    fields = [f"{field.name} {getattr(game, field.name)}" for field in dataclasses.fields(game)]
    return f"{game.name.replace('_', ' ')} ({', '.join(fields)})"


def _style(value: int | None) -> str:
    return "dim" if value is None else "bold green" if value > 0 else "red" if value < 0 else "yellow"


def _hex_board(game: Hex, openings: list[dict[str, Any]]) -> Text:
    """The board with the winning first moves as +, the losing ones as -, unknown ones as ?."""
    values = {opening["action"]: opening["value"] for opening in openings}
    board = Text("   " + " ".join(chr(ord("a") + column) for column in range(game.size)) + "\n")
    for row in range(game.size):
        board.append(f"{'':{row}}{row + 1:2} ")
        for column in range(game.size):
            value = values[row * game.size + column]
            board.append("? " if value is None else "+ " if value > 0 else "- ", _style(value))
        board.append("\n")
    board.append("+ wins, - loses" + (", ? unknown" if None in values.values() else ""))
    return board


def _opening_table(game: Game, openings: list[dict[str, Any]]) -> Table:
    """First moves by value, the best first."""
    del game
    table = screen.table("value", "first moves")
    for value in sorted(
        {o["value"] for o in openings}, key=lambda v: -np.inf if v is None else v, reverse=True
    ):
        moves = " ".join(opening["move"] for opening in openings if opening["value"] == value)
        table.add_row(Text(_value_text(value), _style(value)), moves)
    return table


_OPENINGS = {Hex.name: _hex_board}  # games whose first moves are shown on the board
