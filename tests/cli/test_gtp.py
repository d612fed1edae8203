"""Hex GTP: the server driven over a pipe, command by command, and engines as agents."""

import contextlib
import dataclasses
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
import time
import tracemalloc
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azjax.agents import gtp as engines
from azjax.agents import make_agent
from azjax.cli import gtp as gtp_command
from azjax.cli import gtp_server as gtp
from azjax.common.agent import FORFEIT, RESIGN, Agent, AgentError
from azjax.envs import DotsAndBoxes, Hex
from azjax.evaluation import arena, records
from azjax.nn.networks import make_network
from azjax.training import checkpoint
from azjax.training.config import TrainConfig
from tests.reference import hex as reference
from tests.training_cases import SMALL

HEX = Hex(size=3)
SERVER = f"{shlex.quote(sys.executable)} -m azjax.cli gtp random --size 3"
# The commands of both tables of Daliri 2022.
TABLE_COMMANDS = """boardsize clear_board showboard play genmove undo all_legal_moves name version protocol_version
list_commands quit param_mohex param_dfpn dfpn-solve-state dfpn-solver-find-winning""".split()


def lowest(game: Hex) -> Agent:
    """Plays the first empty cell; does not like large boards."""
    if game.size > 5:
        raise AgentError("this agent plays up to 5x5")

    def act(params, key, states):
        return np.argmax(np.asarray(states.board) == 0, 1)

    return Agent("lowest", act, on_host=True)


@pytest.fixture
def server() -> gtp.Server:
    return gtp.Server(lowest, HEX)


def answers(server: gtp.Server, *lines: str) -> list[str]:
    return [server.answer(line) for line in lines]


class Pipe:
    """A client as HexGui is one: writes a line, reads until the empty line."""

    def __init__(self, process: subprocess.Popen):
        self.process = process

    def ask(self, line: str | bytes) -> str:
        line = line.encode() if isinstance(line, str) else line
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n\n"):
            read = self.process.stdout.readline()
            assert read, "the server has gone"
            answer += read
        return answer.decode()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Two servers, and the file that tells the engine behind the second how to play."""
    folder = tmp_path_factory.mktemp("programs")
    manner = folder / "manner"
    manner.write_text("")
    body = f"""
    manner = open({str(manner)!r}).read()
    if manner == "resign" and len(stones) > 2:
        answer = "= resign"
    if manner == "swap" and len(stones) == 1:
        answer = "= swap-pieces"
    """
    served = shlex.join(["gtp:" + engine(folder, body)])
    hostile = os.environ | {"PYTHONIOENCODING": "ascii"}  # what is echoed may be no ASCII
    with contextlib.ExitStack() as stack:
        pipes = []
        for agent in ("random", served):
            command = shlex.split(f"{shlex.quote(sys.executable)} -m azjax.cli gtp {agent} --size 3")
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=hostile
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            pipes.append(Pipe(process))
        yield *pipes, manner


@pytest.fixture
def pipe(programs) -> Pipe:
    return programs[0]


def test_a_session_over_a_pipe(pipe):
    assert pipe.ask("boardsize 3") == "= \n\n"
    assert pipe.ask("play black b2") == "= \n\n"
    assert re.fullmatch(r"= [abc][123]\n\n", pipe.ask("genmove white"))
    moves = pipe.ask("7 all_legal_moves")
    assert moves.startswith("=7 resign ") and len(moves.split()) == 9 and "b2" not in moves
    assert pipe.ask("undo") == "= \n\n"
    assert pipe.ask("protocol_version") == "= 2\n\n"
    assert pipe.ask("name") == "= azjax random\n\n"


def test_malformed_input_over_a_pipe_is_answered_and_survived(pipe):
    pipe.ask("clear_board")
    assert pipe.ask("no_such_command").startswith("? unknown command")
    assert pipe.ask("12 play black").startswith("?12 syntax error")
    assert pipe.ask(b"\xff\xfe\x80 black").startswith("? unknown command: \ufffd")
    assert pipe.ask("play\tb\ta1\r") == pipe.ask("undo\r") == "= \n\n"
    assert pipe.ask("4\rname") == "? unknown command: 4name\n\n", "a lone carriage return is nothing"
    # Empty lines and comments have no answer: the next one is that of the next command.
    assert pipe.ask("\n   \n# a comment\n3 known_command play # really") == "=3 true\n\n"
    assert pipe.ask("x" * 100_000).startswith("? unknown command")
    assert pipe.ask("play black b2") == "= \n\n"


def referee(black: Pipe, white: Pipe) -> tuple[list[str], str]:
    """Plays a game as benzene's twogtp does; returns its moves, and who has won: the black or the white program."""
    programs, colour, moves = [black, white], 0, []
    for program in programs:
        program.ask("boardsize 3 3")
        assert program.ask("name").startswith("= azjax")
    while "resign" not in moves:
        answer = programs[colour].ask(f"genmove {'bw'[colour]}")
        assert answer.startswith("= "), answer
        moves.append(answer[2:].strip())
        assert programs[1 - colour].ask(f"play {'bw'[colour]} {moves[-1]}") == "= \n\n"
        if moves[-1] == "swap-pieces":
            programs.reverse()  # the programs change sides, and the same colour moves again
        else:
            colour = 1 - colour
        assert len({program.ask("showboard") for program in programs}) == 1
    scores = {program.ask("final_score") for program in programs}
    assert scores <= {"= B+\n\n", "= W+\n\n"} and len(scores) == 1
    winner = programs["BW".index(scores.pop()[2])]
    return moves, "black" if winner is black else "white"


def test_a_match_of_two_programs_ends_by_wins(programs):
    random, first, _ = programs
    for black, white in ((random, first), (first, random)) * 2:
        moves, winner = referee(black, white)
        assert moves.index("resign") == len(moves) - 1 >= 5
        # The loser resigns when the winner has joined its sides.
        assert winner == ("white", "black")[len(moves) % 2 == 0]
        game = reference.HexGame(3)
        game.stones = {(int(m[1]) - 1, ord(m[0]) - ord("a")): ply % 2 for ply, m in enumerate(moves[:-1])}
        sides = ("top", "bottom") if winner == "black" else ("left", "right")
        assert game.connected_to(sides[0]) & set(game.side(sides[1]))


def test_a_match_of_two_programs_ends_by_resignations(programs):
    random, resigning, manner = programs
    manner.write_text("resign")
    for black, white, winner in ((random, resigning, "black"), (resigning, random, "white")):
        moves, won_by = referee(black, white)
        assert (won_by, moves[-1]) == (winner, "resign") and len(moves) <= 5
    manner.write_text("")


def test_a_match_of_two_programs_goes_on_after_a_swap(programs):
    random, swapping, manner = programs
    manner.write_text("swap")
    for program in programs[:2]:
        program.ask("clear_board")
        assert program.ask("param_game allow_swap 1") == "= \n\n"
    moves, winner = referee(random, swapping)
    assert moves[1] == "swap-pieces"
    stones = {m: colour for m, colour in zip([moves[0], *moves[2:-1]], "bwbwbwbwb")}
    game = reference.HexGame(3)
    game.stones = {(int(m[1]) - 1, ord(m[0]) - ord("a")): "bw".index(c) for m, c in stones.items()}
    black_wins = bool(game.connected_to("top") & set(game.side("bottom")))
    assert winner == ("white" if black_wins else "black"), "the program that swapped plays Black's stones"
    manner.write_text("")
    for program in programs[:2]:
        program.ask("clear_board")
        assert program.ask("param_game allow_swap 0") == "= \n\n"


def test_every_command_of_the_tables_is_listed(server):
    assert set(TABLE_COMMANDS) <= set(server.answer("list_commands")[2:].split())


def test_genmove_plays_its_move(server):
    assert answers(server, "genmove black", "genmove white", "play white a1") == [
        "= a1\n\n",
        "= b1\n\n",
        "? illegal move: 'a1' is occupied: Black has a stone there\n\n",
    ]


def test_reg_genmove_does_not(server):
    assert answers(server, "reg_genmove black", "genmove black") == ["= a1\n\n", "= a1\n\n"]


def test_stones_may_be_put_down_out_of_turn(server):
    answers(server, "play b a1", "play BLACK a2", "play b a3")
    assert server.answer("final_score") == "= B+\n\n"


def test_showboard_draws_the_board(server):
    answers(server, "play black b2", "play white c1")
    assert server.answer("showboard").splitlines() == [
        "= 2w/1b1/3 b",
        "  a  b  c",
        "1\\.  .  W\\1",
        " 2\\.  B  .\\2",
        "  3\\.  .  .\\3",
        "     a  b  c",
        "",
    ]


def test_undo_takes_back_move_by_move_and_then_fails(server):
    answers(server, "play black b2", "genmove white")
    assert answers(server, "undo", "undo", "undo") == [
        "= \n\n",
        "= \n\n",
        "? cannot undo: no move has been played\n\n",
    ]
    assert len(server.answer("all_legal_moves").split()) == 11


def test_after_the_end_only_a_resignation_is_played_until_undo(server):
    answers(server, "play b a1", "play b a2", "play b a3")
    assert server.answer("play white b1").startswith("? illegal move: the game is over")
    # What referees of matches ask for: the loser resigns, and the winner is told so.
    assert answers(server, "genmove white", "reg_genmove white", "play w resign") == [
        "= resign\n\n",
        "= resign\n\n",
        "= \n\n",
    ]
    assert answers(server, "final_score", "all_legal_moves") == ["= B+\n\n", "= \n\n"]
    answers(server, "undo")
    assert server.answer("play white a3") == "= \n\n"


def test_during_a_game_there_is_no_score(server):
    assert answers(server, "play b a1", "final_score") == ["= \n\n", "= cannot score\n\n"]


def test_a_resignation_ends_the_game(server):
    answers(server, "play black a1", "play white resign")
    assert answers(server, "final_score", "dfpn-solve-state") == ["= B+\n\n", "= black\n\n"]


def test_a_resignation_is_no_move(server):
    # HexGui does not keep it, and goes on or takes back the move before it.
    answers(server, "play black a1", "play white resign", "undo")
    assert answers(server, "final_score", "undo")[0] == "= cannot score\n\n"
    answers(server, "play black a1", "play white resign", "play white b1")
    assert server.answer("showboard").startswith("= bw1/3/3 b")
    assert server.answer("final_score") == "= cannot score\n\n"


def test_boardsize_empties_the_board_and_may_be_refused(server):
    answers(server, "play black b2")
    assert server.answer("boardsize 4") == "= \n\n"
    assert len(server.answer("all_legal_moves").split()) == 2 + 16
    assert server.answer("boardsize 5 5") == "= \n\n"
    assert server.answer("boardsize 9").startswith("? unacceptable size: this agent plays up to 5x5")
    assert server.answer("boardsize 99").startswith("? unacceptable size")
    assert server.answer("boardsize 5 4").startswith("? syntax error")
    assert server.answer("boardsize").startswith("? syntax error: usage is boardsize n")
    assert len(server.answer("all_legal_moves").split()) == 2 + 25, "a refused size changes nothing"


def test_the_swap_is_there_only_if_allowed(server):
    answers(server, "play black a2")
    assert server.answer("play white swap-pieces").startswith("? illegal move")
    assert server.answer("param_game allow_swap 1").startswith("? cannot change the rules during a game")
    answers(server, "clear_board", "param_game allow_swap 1", "play black a2")
    assert server.answer("all_legal_moves").startswith("= resign swap-pieces a1")
    assert server.answer("play white swap-pieces") == "= \n\n"


@pytest.fixture
def swapped(server) -> gtp.Server:
    answers(server, "param_game allow_swap 1", "play black a2", "play white swap-pieces")
    return server


def test_after_a_swap_the_stone_stays_and_white_moves_again(swapped):
    # As MoHex, HexGui and the referees of their matches have it: the players change sides.
    assert swapped.answer("showboard").splitlines()[:4] == [
        "= 3/b2/3 w",
        "  a  b  c",
        "1\\.  .  .\\1",
        " 2\\B  .  .\\2",
    ]
    assert swapped.answer("play white swap-pieces") == "? illegal move: White has swapped already\n\n"
    assert swapped.answer("play white a2") == "? illegal move: 'a2' is occupied: Black has a stone there\n\n"
    assert swapped.answer("all_legal_moves") == "= resign a1 b1 c1 b2 c2 a3 b3 c3\n\n"
    assert answers(
        swapped, "play white c1", "play black b2", "play white c2", "play black a1", "play white c3"
    )
    assert swapped.answer("showboard").startswith("= b1w/bbw/2w b"), (
        "cells and colours are those of the commands"
    )
    assert answers(swapped, "final_score", "play black a3", "final_score") == [
        "= cannot score\n\n",
        "= \n\n",
        "= B+\n\n",
    ]
    answers(swapped, "undo", "undo", "undo", "undo", "undo", "undo", "undo")
    assert swapped.answer("all_legal_moves").startswith("= resign swap-pieces a1 b1 c1 b2"), (
        "the swap is taken back"
    )


def test_after_a_swap_the_agent_sees_what_its_game_knows(swapped):
    # It plays the first empty cell of its own board, on which the stone is a white one on b1.
    assert swapped.answer("genmove white") == "= a1\n\n"
    answers(swapped, "play black c3")
    # There it has a1 and the other b1 and c3; its next cell, c1, is a3 here.
    assert swapped.answer("genmove white") == "= a3\n\n"
    assert swapped.answer("showboard").startswith("= w2/b2/w1b b")


def test_after_a_swap_the_solver_knows_who_wins_and_how(swapped):
    # A stone on a2 wins for Black, whoever plays Black now.
    assert answers(swapped, "dfpn-solve-state", "dfpn-solve-state white") == ["= black\n\n"] * 2
    assert swapped.answer("dfpn-solver-find-winning white") == "= \n\n"
    answers(swapped, "play white c3")
    # The same stones without a swap have the same winning moves.
    plain = gtp.Server(lowest, HEX)
    answers(plain, "play black a2", "play white c3")
    expected = plain.answer("dfpn-solver-find-winning black")
    assert swapped.answer("dfpn-solver-find-winning black") == expected != "= \n\n"


def test_the_solver_knows_who_wins_and_how(server):
    # Daliri 2022's board: the winning first moves on 3x3.
    assert answers(server, "dfpn-solve-state", "dfpn-solve-state b") == ["= black\n\n"] * 2
    assert server.answer("dfpn-solve-state w").startswith("? cannot solve: ")
    assert server.answer("dfpn-solver-find-winning black") == "= c1 a2 b2 c2 a3\n\n"
    answers(server, "play black b2")
    assert server.answer("dfpn-solver-find-winning white") == "= \n\n"
    assert server.answer("dfpn-solver-find-winning black").startswith("? cannot solve")


def test_with_the_solver_on_a_proven_move_is_played(server):
    assert answers(server, "param_mohex use_parallel_solver 1", "genmove black") == ["= \n\n", "= c1\n\n"]


def test_parameters_are_checked(server):
    assert answers(server, "param_dfpn threads 2", "param_dfpn timelimit 0.5") == ["= \n\n"] * 2
    for line, complaint in {
        "param_dfpn threads many": "syntax error",
        "param_dfpn threads 0": "syntax error",
        "param_dfpn threads 99999": "syntax error: threads must be at most 1,024",
        "time_left b 10 many": "syntax error: the number of stones",
        "param_dfpn colour 1": "unknown parameter",
        "param_mohex use_parallel_solver yes": "syntax error",
        "param_mohex playouts 3": "unknown parameter",
        "param_game allow_passing 1": "unknown parameter",
    }.items():
        assert server.answer(line).startswith(f"? {complaint}"), line


def test_parameters_are_shown_as_hexgui_edits_them(server):
    assert answers(server, "param_game", "param_mohex", "param_dfpn") == [
        "= \n[bool] allow_swap 0\n[string] game_time 1800\n\n",
        "= \n[bool] use_parallel_solver 0\n\n",
        "= \n[string] threads 1\n[string] timelimit 300\n\n",
    ]
    answers(server, "param_game allow_swap 1", "param_game game_time 60", "param_mohex use_parallel_solver 1")
    assert answers(server, "param_game", "param_mohex") == [
        "= \n[bool] allow_swap 1\n[string] game_time 60\n\n",
        "= \n[bool] use_parallel_solver 1\n\n",
    ]
    assert server.answer("param_game allow_swap").startswith(
        "? syntax error: usage is param_game [key value]"
    )


def test_clocks_are_shown_set_and_run_during_genmove(server, monkeypatch):
    now = iter([100.0, 107.5])
    monkeypatch.setattr(gtp, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    assert server.answer("time_left") == "= Black: 1800, White: 1800\n\n"
    assert answers(server, "time_left w 90", "time_left w", "time_left black 60 0") == [
        "= \n\n",
        "= 90\n\n",
        "= \n\n",
    ]
    answers(server, "genmove w")
    assert server.answer("time_left") == "= Black: 60, White: 82.5\n\n"
    answers(server, "clear_board", "param_game game_time 45")
    assert server.answer("time_left") == "= Black: 45, White: 45\n\n"
    for wrong in (
        "time_left w soon",
        "time_left w -1",
        "time_left w nan",
        "time_left red",
        "time_left w 1 2 3",
    ):
        assert server.answer(wrong).startswith("? syntax error"), wrong


def test_a_game_is_played_at_once(server):
    assert server.answer("play-game b2 a3 c1") == "= \n\n"
    assert server.answer("showboard").startswith("= 2b/1b1/w2 w")
    assert answers(server, "undo", "play-game", "showboard")[2].startswith("= 3/3/3 b")
    answers(server, "param_game allow_swap 1", "play-game a2 swap-pieces b2 c1")
    assert server.answer("showboard").startswith("= 2b/bw1/3 w")
    before = server.answer("showboard")
    assert server.answer("play-game a1 a1").startswith("? illegal move: 'a1' is occupied")
    assert server.answer("play-game b1 a1 b2 c1 b3 c3") == "? illegal move: the game is over before c3\n\n"
    assert server.answer("showboard") == before, "a refused game changes nothing"


def test_a_game_is_loaded_from_a_file(server, tmp_path):
    path = tmp_path / "a game.sgf"
    path.write_text("(;FF[4]GM[11]SZ[4]RE[B+T];B[b2];W[c3];B[d4](;W[a1])(;W[a2]))")
    assert server.answer(f'loadsgf "{path}"') == "= \n\n"
    assert server.answer("showboard").startswith("= w3/1b2/2w1/3b b")
    assert answers(server, "undo", "showboard")[1].startswith("= 4/1b2/2w1/3b w")
    assert answers(server, f'loadsgf "{path}" 2', "showboard")[1].startswith("= 4/1b2/2w1/4 b")
    path.write_text("(;GM[11]SZ[3];B[a2];W[swap-pieces];W[c1])")
    assert server.answer(f'loadsgf "{path}"').startswith("? illegal move: the record has a swap")
    assert server.answer(f'loadsgf "{path}" 1') == "= \n\n"
    answers(server, "clear_board", "param_game allow_swap 1")
    assert answers(server, f'loadsgf "{path}"', "showboard")[1].startswith("= 2w/b2/3 b")
    path.write_text("(;GM[11]SZ[3]AB[b2]AW[a1]PL[B])")
    answers(server, f'loadsgf "{path}"')
    assert server.answer("param_game game_time 60").startswith("? cannot change the rules during a game")
    assert server.answer("showboard").startswith("= w2/1b1/3 b")


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "there is no file"),
        ("", "there is no game"),
        ("(;GM[1]SZ[19])", "another game"),
        ("(;GM[11]SZ[3];B[a9])", "outside the board"),
        ("(;GM[11]SZ[3];B[a1];W[a1])", "move 2 cannot be replayed"),
        ("(;GM[11]SZ[9])", "unacceptable size: this agent plays up to 5x5"),
        ("(;GM[11]SZ[" + "9" * 5000 + "])", "cannot load"),
        (b"\xff\xfe\x00(;", "no SGF"),
    ],
)
def test_what_cannot_be_loaded_changes_nothing(server, tmp_path, content, complaint):
    path = tmp_path / "game.sgf"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    answers(server, "play b b2")
    answer = server.answer(f"loadsgf {path}")
    assert answer.startswith("? ") and complaint in answer and "internal error" not in answer
    assert server.answer("showboard").startswith("= 3/1b1/3 w")


def test_only_files_of_a_sane_size_are_loaded(server, tmp_path, monkeypatch):
    monkeypatch.setattr(gtp, "LARGEST_FILE", 10)
    path = tmp_path / "game.sgf"
    path.write_text("(;GM[11]SZ[3];B[a1])")
    assert "has more than 10 bytes" in server.answer(f"loadsgf {path}")
    for special in ("/dev/zero", os.fspath(tmp_path)):
        assert "there is no file" in server.answer(f"loadsgf {special}")


def test_without_a_solver_for_the_board_genmove_still_moves(server):
    answers(server, "param_mohex use_parallel_solver 1", "play white a1")
    assert server.answer("genmove white") == "= b1\n\n", (
        "turns do not alternate: nothing that the solver knows"
    )


def test_a_failing_agent_does_not_end_the_session(capsys):
    def act(params, key, states):
        raise RuntimeError("out of luck")

    server = gtp.Server(lambda game: Agent("broken", act, on_host=True), HEX)
    assert server.answer("5 genmove black") == "?5 internal error: out of luck\n\n"
    assert server.answer("6 play black a1") == "=6 \n\n"
    assert "out of luck" in capsys.readouterr().err


def export(folder: pathlib.Path, config: TrainConfig) -> None:
    """Writes an agent whose weights are all nought, which takes no time."""
    shapes = jax.eval_shape(make_network(config.network, config.game).init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    checkpoint.export_agent(folder / "agent.npz", config, zeros)


def test_the_board_is_that_of_the_run(tmp_path):
    dense = dataclasses.replace(SMALL, game=Hex(4))
    export(tmp_path, dense)
    for agent in (f"az:{tmp_path}?sims=2", f"net:{tmp_path}", str(tmp_path), str(tmp_path / "agent.npz")):
        server = gtp_command.make_server([agent])
        assert server.game == Hex(4)
        answer = server.answer("boardsize 5")
        assert answer.startswith("? unacceptable size: the run was trained on Hex(size=4"), answer
        assert "dense heads" in answer and "/4 b" in server.answer("showboard")
    with pytest.raises(AgentError, match="dense heads"):
        gtp_command.make_server([f"az:{tmp_path}", "--size", "5"])
    export(tmp_path, dataclasses.replace(dense, game=Hex(3, swap=True)))
    assert gtp_command.make_server(["--seed", "1", f"az:{tmp_path}"]).game == Hex(3, swap=True)
    assert gtp_command.make_server(["random"]).game == Hex(11)
    assert gtp_command.make_server(["random", "--size", "5", "--swap"]).game == Hex(5, swap=True)
    export(tmp_path, dataclasses.replace(dense, game=DotsAndBoxes(2, 2)))
    with pytest.raises(AgentError, match="trained on dots_and_boxes and cannot play hex"):
        gtp_command.make_server([f"az:{tmp_path}"])


def test_a_run_says_why_it_cannot_swap(tmp_path):
    # With convolutional heads it plays on any board, but has an output for the swap only if it was trained with it.
    heads = dict(tower="conv", heads="convolutional", channels=8, global_pooling=True)
    config = dataclasses.replace(SMALL, game=HEX, network=dataclasses.replace(SMALL.network, **heads))
    for swap, words in ((False, "without the swap rule"), (True, "with the swap rule")):
        config = dataclasses.replace(config, game=Hex(3, swap=swap))
        export(tmp_path, config)
        server = gtp.Server(lambda game: make_agent(f"net:{tmp_path}", game), config.game)
        answer = server.answer(f"param_game allow_swap {int(not swap)}")
        assert answer.startswith(f"? unacceptable rules: the run was trained {words}"), answer
        assert server.answer("boardsize 4") == "= \n\n", "convolutional heads play on any board"


def test_a_device_agent_that_resigns_says_so():
    quitter = Agent("quitter", lambda params, key, x: jnp.full(x.over.shape, RESIGN))
    server = gtp.Server(lambda game: quitter, HEX)
    assert answers(server, "genmove black", "final_score") == ["= resign\n\n", "= W+\n\n"]


class Referee:
    """What must stand on the board, kept with the slow rules."""

    def __init__(self):
        self.swap_allowed, self.swapped, self.history = False, [False], [{}]

    def allows(self, words: list[str]) -> bool:
        """Whether a command must succeed; and takes it over."""
        if words[0] == "clear_board":
            self.swapped, self.history = [False], [{}]
        elif words[0] == "undo":
            if len(self.history) == 1:
                return False
            self.history.pop(), self.swapped.pop()
        elif words[2] != "resign":
            stones, swapped = self.history[-1], self.swapped[-1]
            colour, move = "bw".index(words[1][0].lower()), words[2].lower()
            if self.winner() is not None:
                return False
            if move == "swap-pieces":
                if not (self.swap_allowed and colour == 1 and len(stones) == 1 and not swapped):
                    return False
                swapped = True
            else:
                cell = (int(move[1]) - 1, ord(move[0]) - ord("a"))
                if max(cell) > 2 or cell in stones:
                    return False
                stones = stones | {cell: colour}
            self.history.append(stones), self.swapped.append(swapped)
        return True

    def winner(self) -> int | None:
        game = reference.HexGame(3)
        game.stones = self.history[-1]
        for colour, first, last in ((0, "top", "bottom"), (1, "left", "right")):
            if game.connected_to(first) & set(game.side(last)):
                return colour
        return None

    def board(self) -> list[str]:
        stones = self.history[-1]
        rows = ["  ".join(".BW"[1 + stones.get((r, c), -1)] for c in range(3)) for r in range(3)]
        return [f"{' ' * r}{r + 1}\\{row}\\{r + 1}" for r, row in enumerate(rows)]


COLOUR = st.sampled_from(["b", "W", "black", "white"])
MOVE = st.sampled_from([c + r for c in "abC" for r in "123"] + ["d1", "swap-pieces", "resign"])
PLAYED = st.one_of(
    st.builds("play {} {}".format, COLOUR, MOVE),
    st.builds("play {} {}".format, COLOUR, MOVE),
    st.sampled_from(["undo", "clear_board"]),
)
WORD = st.sampled_from([*gtp.COMMANDS, "b", "w", "a1", "2", "-1", "#", "\t", '"', "9" * 5000, "allow_swap"])
GARBAGE = st.lists(WORD | st.text(max_size=5), max_size=5).map(" ".join)
HARMLESS = GARBAGE.filter(
    lambda line: not re.search("play|genmove|undo|board|swap|loadsgf|game|solve|quit", line)
)


@given(st.booleans(), st.lists(PLAYED | HARMLESS, max_size=15))
@settings(max_examples=100, deadline=None)
def test_the_board_is_what_the_accepted_moves_make_it(swap, lines):
    referee = Referee()
    answers(_SHARED, "boardsize 3", f"param_game allow_swap {int(swap)}")
    referee.swap_allowed = swap
    for line in lines:
        answer = _SHARED.answer(line.replace("\n", " "))
        if line.startswith(("play", "undo", "clear_board")):
            assert answer.startswith("= ") == referee.allows(line.split()), (line, answer)
    assert _SHARED.answer("showboard").splitlines()[2:5] == referee.board()
    winner = referee.winner()
    assert _SHARED.answer("genmove w").startswith("= resign") == (winner is not None)
    if winner is not None:
        assert _SHARED.answer("final_score") == f"= {'BW'[winner]}+\n\n"


@given(GARBAGE)
@settings(max_examples=300, deadline=None)
def test_every_line_has_exactly_one_well_formed_answer(line):
    out = io.StringIO()
    _SHARED.finished = False
    gtp.serve(_SHARED, io.StringIO(line.replace("\n", " ") + "\n17 known_command play\n", newline="\n"), out)
    own, last = out.getvalue().removesuffix("=17 true\n\n"), "=17 true\n\n"
    assert out.getvalue() == own + last or _SHARED.finished
    assert own == "" or re.fullmatch(r"[=?]\d*( [^\n]*(\n[^\n]+)*)\n\n", own)
    assert "internal error" not in own


_SHARED = gtp.Server(lowest, HEX)


def test_a_line_without_end_is_one_error_and_is_not_kept(monkeypatch):
    monkeypatch.setattr(gtp, "LONGEST_LINE", 100)
    out = io.StringIO()
    lines = "4 play b " + "a" * 1000 + "\nname\n" + "#" * 1000 + "\n" + "x" * 100 + "\n" + "y" * 1000
    gtp.serve(gtp.Server(lowest, HEX), io.StringIO(lines), out)
    assert re.fullmatch(
        r"\?4 syntax error: a line has fewer than 100 characters\n\n= azjax lowest\n\n(\? syntax error.*\n\n){2}",
        out.getvalue(),
    )


def test_quit_ends_the_session_and_so_does_the_end_of_input(server):
    out = io.StringIO()
    gtp.serve(server, io.StringIO("name\nquit\nname\n"), out)
    assert out.getvalue() == "= azjax lowest\n\n= \n\n"
    out = io.StringIO()
    gtp.serve(gtp.Server(lowest, HEX), io.StringIO("version"), out)
    assert out.getvalue().startswith("= ")


ENGINE = """
import sys, os, time
print("=== a banner that is no answer ===", flush=True)
stones = []
for line in sys.stdin:
    words, answer = line.split(), "="
    if words[0] == "clear_board":
        stones = []
    elif words[0] == "play":
        stones.append(words[2])
    elif words[0] == "list_commands":
        answer = "= \\n \\nparam_game\\n   "  # lines of blanks, as MoHex writes them, do not end an answer
    elif words[0] == "genmove":
        cells = [c + r for r in "123" for c in "abc" if c + r not in stones]
        answer = "= " + cells[0]
        BODY
        stones.append(answer[2:])
    print(answer + "\\n", flush=True)
"""


def engine(tmp_path, body: str = "pass", always: str = "pass") -> str:
    """The command of a small engine that plays the first empty cell.

    Args:
      body: what it does besides when it is asked for a move.
      always: what it does with each line.
    """
    script = tmp_path / "engine.py"
    code = ENGINE.replace(
        "        BODY\n", textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", " " * 8)
    )
    script.write_text(
        code.replace('answer = line.split(), "="\n', 'answer = line.split(), "="\n    ' + always + "\n")
    )
    return f"{shlex.quote(sys.executable)} -S {shlex.quote(os.fspath(script))}"


@pytest.fixture
def said() -> list[str]:
    return []


def play(agent: Agent, pairs: int = 2) -> arena.MatchResult:
    try:
        match = arena.make_match(HEX, agent, lowest(HEX), pairs=pairs)
        return match(None, None, jax.random.key(0))
    finally:
        agent.close()


def test_an_engine_plays_whole_games(tmp_path, said):
    agent = engines.make(HEX, engine(tmp_path, "pass"), say=said.append)
    result = play(agent)
    # Both sides take the first empty cell; with the seventh stone Black has joined c1, b2 and a3.
    assert {tuple(row[row >= 0]) for row in result.played.record} == {tuple(range(7))}
    assert result.forfeits == 0 and said == []


def test_our_own_server_plays_legal_games_as_an_engine(said):
    agent = engines.make(HEX, SERVER, say=said.append)
    result = play(agent)
    assert result.forfeits == 0 and said == []
    for record in records.of_match(HEX, "server", "lowest", result):
        records.replay(record)


def test_a_crashed_engine_forfeits_its_game_and_the_match_goes_on(tmp_path, said):
    # Dies in its first two games whenever two stones are down; a file counts.
    counter = tmp_path / "deaths"
    body = f"""
    deaths = open({str(counter)!r}).read() if os.path.exists({str(counter)!r}) else ""
    if len(stones) >= 2 and len(deaths) < 2:
        open({str(counter)!r}, "a").write("x")
        print("segmentation fault", file=sys.stderr)
        os._exit(3)
    """
    result = play(engines.make(HEX, engine(tmp_path, body), say=said.append), pairs=2)
    assert (result.games, result.forfeits) == (4, 2)
    assert (result.played.given_up == FORFEIT).sum() == 2
    assert len(said) == 2
    assert re.search(r"forfeits its game: .*exit code 3 at 'genmove .*segmentation fault", said[0])


@pytest.mark.parametrize(
    "body, reason",
    [
        ('answer = "= a1"', "illegal move: 'a1' is occupied"),
        ('answer = "= zebra"', "not a cell"),
        ('answer = "? no idea"', "refused 'genmove white': no idea"),
    ],
)
def test_an_engine_without_a_legal_move_forfeits(tmp_path, said, body, reason):
    agent = engines.make(HEX, engine(tmp_path, body), say=said.append)
    x = HEX.step(HEX.init(jax.random.key(0)), 0)
    action = agent.act((), None, jax.tree.map(lambda leaf: np.asarray(leaf)[None], x))
    agent.close()
    assert action == [FORFEIT] and reason in said[0]


def test_an_engine_may_resign(tmp_path, said):
    result = play(engines.make(HEX, engine(tmp_path, 'answer = "= resign"'), say=said.append), pairs=1)
    assert result.total == (0, 0, 2) and result.forfeits == 0 and said == []


def batch(*states):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def test_moves_are_told_in_the_order_in_which_they_were_played(tmp_path):
    # The engine writes down what it is told; two games in turn need a clear board each time.
    log = tmp_path / "log"
    agent = engines.make(HEX, engine(tmp_path, f"open({str(log)!r}, 'a').write(' '.join(stones) + ';')"))
    empty = HEX.init(jax.random.key(0))
    one, other = HEX.step(empty, 8), HEX.step(empty, 5)  # c3, c2
    assert list(agent.act((), None, batch(one, other))) == [0, 0]
    one, other = HEX.step(HEX.step(one, 0), 7), HEX.step(HEX.step(other, 0), 3)  # b3, a2
    assert list(agent.act((), None, batch(one, other))) == [1, 1]
    unseen = HEX.step(HEX.step(HEX.step(empty, 2), 4), 1)
    agent.act((), None, batch(HEX.step(HEX.step(one, 1), 6), unseen, unseen))
    agent.close()
    told = log.read_text().split(";")[:-1]
    assert told[:5] == ["c3", "c2", "c3 a1 b3", "c2 a1 a2", "c3 a1 b3 b1 a3"]
    # In a game that it has not seen, the stones come in turn. The second time its own answer must go again.
    assert told[5] == told[6] and sorted(told[5].split()) == ["b1", "b2", "c1"] and told[5].split()[1] == "b2"


def test_after_a_swap_the_engine_is_shown_where_the_stone_is_now(tmp_path):
    # In a game without an end the engine plays White: it swaps at once, and Black's b2 becomes White's.
    log = tmp_path / "log"
    always = f"open({str(log)!r}, 'a').write(line)"
    for word in ("swap-pieces", "swap-sides", "swap"):
        game = Hex(size=3, swap=True)
        body = f'answer = "= {word}" if len(stones) == 1 else answer'
        agent = engines.make(game, engine(tmp_path, body, always))
        x = game.step(game.init(jax.random.key(0)), 3)  # a2
        assert list(agent.act((), None, batch(x))) == [9]
        x = game.step(game.step(x, 9), 0)
        assert list(agent.act((), None, batch(x))) == [2], "a1 and b1 are taken"
        agent.close()
    told = log.read_text().splitlines()
    assert "param_game allow_swap 1" in told
    assert told[-5:] == ["clear_board", "play white b1", "play black a1", "genmove white", "quit"]


def test_the_text_of_an_agent_can_hold_a_time_limit_and_commands(tmp_path):
    log = tmp_path / "log"
    folder = tmp_path / "what?commands"
    folder.mkdir()
    command = engine(folder, always=f"open({str(log)!r}, 'a').write(line)")
    for options in ("", "?timeout=20&commands=param_mohex max_time 5; param_dfpn threads 2"):
        agent = make_agent(f"gtp:{command}{options}", HEX)
        assert agent.name == f"gtp:{command}{options}"
        agent.close()
    start = ["list_commands", "param_game allow_swap 0", "boardsize 3", "quit"]
    own = ["param_mohex max_time 5", "param_dfpn threads 2"]
    assert log.read_text().splitlines() == [*start, start[0], *own, *start[1:]]


@pytest.mark.parametrize(
    "options, complaint",
    [
        ("timeout=0", "timeout of gtp must be above 0, got '0'"),
        ("timeout=soon", "timeout of gtp must be a number from 0 to 1e9, got 'soon'"),
        ("timeout=nan", "must be a number from 0"),
        ("commands=", "must be commands, separated by semicolons"),
        ("commands=a\nb", "must be commands, separated by semicolons"),
        ("timeout=3&threads=2", "gtp has no option 'threads'; its options are timeout, commands"),
    ],
)
def test_wrong_options_of_an_engine_are_told(options, complaint):
    with pytest.raises(AgentError, match=complaint):
        make_agent(f"gtp:mohex?{options}", HEX)


def test_options_of_an_agent_that_an_engine_serves_are_not_its_own():
    # Without a name of its own options behind it, a question mark is part of the command.
    with pytest.raises(AgentError, match=r"No such file or directory: '/no/azjax'") as error:
        make_agent("gtp:/no/azjax gtp perfect?seconds=5?timeout=7", HEX)
    assert "gtp:/no/azjax gtp perfect?seconds=5 cannot play" in str(error.value)


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"])
open({pids!r}, "a").write(f"{{os.getpid()}} {{child.pid}} ")
"""


@pytest.mark.parametrize(
    "seconds, body, reason",
    [
        (2, "time.sleep(1000)", r"it did not answer 'list_commands' within 2 seconds"),
        (
            2,
            "while True: print('= x', flush=True); time.sleep(0.1)",
            r"it did not answer .* within 2 seconds",
        ),
        (2, "while True: os.write(2, b'x' * 9999); time.sleep(0.001)", r"it did not answer .* within 2 sec"),
        (60, "while True: print('x' * 99, flush=True)", r"it printed 262,144 bytes without an answer"),
        (60, "while True: print('x' * 9999, end='')", r"it printed 262,144 bytes without an answer"),
        (60, "print('= ')\nwhile True: print('x' * 99)", r"it printed 262,144 bytes without an answer"),
        (60, "sys.exit('no licence')", r"it ended with exit code 1 at 'list_commands', saying: no licence"),
        (60, "os.kill(os.getpid(), 9)", r"it ended with signal 9 at 'list_commands'"),
        (
            60,
            "child.kill(); os.close(1); time.sleep(1000)",
            r"it closed its output at 'list_commands' without an answer",
        ),
        (60, "print('half a line', end=''); sys.exit(4)", r"it ended with exit code 4"),
        (60, "sys.stdout.buffer.write(bytes(range(256)) * 9); sys.exit(5)", r"it ended with exit code 5"),
        (
            60,
            "print('?7 no board\\n\\n' * 9, flush=True); time.sleep(1000)",
            r"it refused 'boardsize 3': no board",
        ),
    ],
)
def test_an_engine_that_misbehaves_is_one_sentence_and_ended_with_its_children(
    tmp_path, monkeypatch, seconds, body, reason
):
    monkeypatch.setattr(engines, "MOST_BYTES", 1 << 18)
    pids, script = tmp_path / "pids", tmp_path / "engine.py"
    # The child keeps the engine's output open, whatever becomes of the engine.
    script.write_text(CHILD.format(pids=str(pids)) + body)
    tracemalloc.start()
    with pytest.raises(AgentError, match=rf"^gtp:.* cannot play: {reason}") as error:
        make_agent(f"gtp:{shlex.quote(sys.executable)} -S {script}?timeout={seconds}", HEX)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 23, "what it prints is not kept"
    assert "\n" not in str(error.value)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    deadline = time.monotonic() + 20
    while any(map(is_running, started)):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.01)


def test_an_engine_that_nobody_closes_is_ended_at_exit(tmp_path, monkeypatch):
    registered = []
    monkeypatch.setattr(engines.atexit, "register", registered.append)
    monkeypatch.setattr(engines.atexit, "unregister", registered.remove)
    pids = tmp_path / "pids"
    command = engine(tmp_path, always=f"open({str(pids)!r}, 'w').write(str(os.getpid()))")
    engines.make(HEX, command).close()
    assert registered == []
    engines.make(HEX, command)
    (stop,) = registered
    pid = int(pids.read_text())
    assert is_running(pid)
    stop()
    assert not is_running(pid) and registered == []


def test_an_engine_that_fails_in_every_game_is_given_up(tmp_path, said):
    agent = engines.make(HEX, engine(tmp_path, "time.sleep(1000)"), timeout=0.5, say=said.append)
    result = play(agent, pairs=3)
    assert (result.games, result.forfeits) == (6, 6)
    assert len(said) == 3 and "it did not answer 'genmove black' within 0.5 seconds" in said[0]
    assert said[2].endswith("After 3 failures in a row it is given up and forfeits all games.")


def test_an_engine_that_does_not_start_is_refused_at_once():
    for command in ("/no/such/engine", f"{shlex.quote(sys.executable)} -c pass", "", "'"):
        with pytest.raises(AgentError, match="cannot play"):
            engines.make(HEX, command)


def test_a_server_ends_quietly_with_its_reader_or_by_a_signal(programs):
    first, second, _ = programs
    first.process.stdout.close()
    first.process.stdin.write(b"name\nname\n")
    first.process.stdin.flush()
    assert (first.process.wait(timeout=60), first.process.stderr.read()) == (128 + 13, b"")
    second.process.terminate()
    assert (second.process.wait(timeout=60), second.process.stderr.read()) == (128 + 15, b"")


def test_engines_play_hex_alone():
    with pytest.raises(AgentError, match="Hex alone"):
        engines.make(DotsAndBoxes(2, 2), "mohex")
