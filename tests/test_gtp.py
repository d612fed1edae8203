"""Hex GTP: the server driven over a pipe, command by command, and engines as agents."""

import io
import os
import re
import shlex
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azjax import gtp
from azjax.agents import gtp as engines
from azjax.agents.core import FORFEIT, RESIGN, Agent, AgentError
from azjax.envs import DotsAndBoxes, Hex
from azjax.evaluation import arena, records

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
def pipe():
    with subprocess.Popen(shlex.split(SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Pipe(process)
        process.kill()


def test_a_session_over_a_pipe(pipe):
    assert pipe.ask("boardsize 3") == "=\n\n"
    assert pipe.ask("play black b2") == "=\n\n"
    assert re.fullmatch(r"= [abc][123]\n\n", pipe.ask("genmove white"))
    moves = pipe.ask("7 all_legal_moves")
    assert moves.startswith("=7 resign ") and len(moves.split()) == 9 and "b2" not in moves
    assert pipe.ask("undo") == "=\n\n"
    assert pipe.ask("protocol_version") == "= 2\n\n"
    assert pipe.ask("name") == "= azjax random\n\n"


def test_malformed_input_over_a_pipe_is_answered_and_survived(pipe):
    pipe.ask("clear_board")
    assert pipe.ask("no_such_command").startswith("? unknown command")
    assert pipe.ask("12 play black").startswith("?12 syntax error")
    assert pipe.ask(b"\xff\xfe\x80 black").startswith("? unknown command")
    # Empty lines and comments have no answer: the next one is that of the next command.
    assert pipe.ask("\n   \n# a comment\n3 known_command play # really") == "=3 true\n\n"
    assert pipe.ask("x" * 100_000).startswith("? unknown command")
    assert pipe.ask("play black b2") == "=\n\n"


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
        "=\n\n",
        "=\n\n",
        "? cannot undo: no move has been played\n\n",
    ]
    assert len(server.answer("all_legal_moves").split()) == 11


def test_after_the_end_nothing_can_be_played_until_undo(server):
    answers(server, "play b a1", "play b a2", "play b a3")
    assert server.answer("play white b1").startswith("? illegal move: the game is over")
    assert server.answer("genmove white").startswith("? cannot generate")
    assert server.answer("all_legal_moves") == "=\n\n"
    answers(server, "undo")
    assert server.answer("play white a3") == "=\n\n"


def test_a_resignation_ends_the_game(server):
    answers(server, "play black a1", "play white resign")
    assert answers(server, "final_score", "dfpn-solve-state") == ["= B+\n\n", "= black\n\n"]


def test_boardsize_empties_the_board_and_may_be_refused(server):
    answers(server, "play black b2")
    assert server.answer("boardsize 4") == "=\n\n"
    assert len(server.answer("all_legal_moves").split()) == 2 + 16
    assert server.answer("boardsize 5 5") == "=\n\n"
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
    assert server.answer("play white swap-pieces") == "=\n\n"
    assert server.answer("showboard").startswith("= 1w1/3/3 b")


def test_the_solver_knows_who_wins_and_how(server):
    # Daliri 2022's board: the winning first moves on 3x3.
    assert server.answer("dfpn-solve-state") == "= black\n\n"
    assert server.answer("dfpn-solver-find-winning black") == "= c1 a2 b2 c2 a3\n\n"
    answers(server, "play black b2")
    assert server.answer("dfpn-solver-find-winning white") == "=\n\n"
    assert server.answer("dfpn-solver-find-winning black").startswith("? cannot solve")


def test_with_the_solver_on_a_proven_move_is_played(server):
    assert answers(server, "param_mohex use_parallel_solver 1", "genmove black") == ["=\n\n", "= c1\n\n"]


def test_parameters_are_checked(server):
    assert answers(server, "param_dfpn threads 2", "param_dfpn timelimit 0.5") == ["=\n\n"] * 2
    for line, complaint in {
        "param_dfpn threads many": "syntax error",
        "param_dfpn threads 0": "syntax error",
        "param_dfpn colour 1": "unknown parameter",
        "param_mohex use_parallel_solver yes": "syntax error",
        "param_mohex playouts 3": "unknown parameter",
        "param_game allow_passing 1": "unknown parameter",
    }.items():
        assert server.answer(line).startswith(f"? {complaint}"), line


def test_a_failing_agent_does_not_end_the_session(capsys):
    def act(params, key, states):
        raise RuntimeError("out of luck")

    server = gtp.Server(lambda game: Agent("broken", act, on_host=True), HEX)
    assert server.answer("5 genmove black") == "?5 internal error: out of luck\n\n"
    assert server.answer("6 play black a1") == "=6\n\n"
    assert "out of luck" in capsys.readouterr().err


def test_a_device_agent_that_resigns_says_so():
    quitter = Agent("quitter", lambda params, key, x: jnp.full(x.over.shape, RESIGN))
    server = gtp.Server(lambda game: quitter, HEX)
    assert answers(server, "genmove black", "final_score") == ["= resign\n\n", "= W+\n\n"]


WORDS = [
    "play",
    "genmove",
    "undo",
    "black",
    "w",
    "a1",
    "c3",
    "resign",
    "boardsize",
    "2",
    "-1",
    "#",
    "\t",
    "showboard",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=5).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_every_line_has_a_well_formed_answer(line):
    answer = _SHARED.answer(line.replace("\n", " "))
    assert answer == "" or re.fullmatch(r"[=?]\d*( [^\n]+(\n[^\n]+)*)?\n\n", answer)
    assert "internal error" not in answer


_SHARED = gtp.Server(lowest, HEX)


def test_quit_ends_the_session_and_so_does_the_end_of_input(server):
    out = io.StringIO()
    gtp.serve(server, io.StringIO("name\nquit\nname\n"), out)
    assert out.getvalue() == "= azjax lowest\n\n=\n\n"
    out = io.StringIO()
    gtp.serve(gtp.Server(lowest, HEX), io.StringIO("version"), out)
    assert out.getvalue().startswith("= ")


def engine(tmp_path, body: str) -> str:
    """The command of a small engine: answers everything with `=`, and to `genmove` does what `body` says."""
    script = tmp_path / "engine.py"
    script.write_text(
        textwrap.dedent("""
        import sys, os, time
        print("a banner that is no answer", flush=True)
        stones = []
        for line in sys.stdin:
            words, answer = line.split(), "="
            if words[0] == "clear_board":
                stones = []
            elif words[0] == "play":
                stones.append(words[2])
            elif words[0] == "genmove":
                cells = [c + r for r in "123" for c in "abc" if c + r not in stones]
                answer = "= " + cells[0]
        """)
        + textwrap.indent(textwrap.dedent(body), " " * 8)
        + '\n        stones.append(answer[2:])\n    print(answer + "\\n", flush=True)\n'
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


def test_an_engine_that_hangs_is_given_up_after_its_time(tmp_path):
    hanging = engines.Engine(HEX, engine(tmp_path, "time.sleep(1000)"), timeout=600)
    hanging.start()
    hanging.timeout = 0.5
    with pytest.raises(engines.EngineError, match=r"did not answer 'genmove black' within 0.5 seconds"):
        hanging.move(HEX.init(jax.random.key(0)))
    hanging.stop()


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


def test_positions_in_any_order_are_set_up_stone_by_stone(tmp_path):
    # The engine writes down what it is told; two games in turn need a clear board each time.
    log = tmp_path / "log"
    agent = engines.make(HEX, engine(tmp_path, f"open({str(log)!r}, 'a').write(' '.join(stones) + ';')"))
    empty = HEX.init(jax.random.key(0))
    one = HEX.step(HEX.step(empty, 8), 7)
    other = HEX.step(HEX.step(empty, 5), 6)
    agent.act((), None, jax.tree.map(lambda *leaves: np.stack(leaves), one, other, other))
    agent.close()
    # The third is the second again, without the engine's own answer a1: a new board.
    assert log.read_text().split(";")[:3] == ["c3 b3", "c2 a3", "c2 a3"]


def test_an_engine_that_does_not_start_is_refused_at_once():
    for command in ("/no/such/engine", f"{shlex.quote(sys.executable)} -c pass", "", "'"):
        with pytest.raises(AgentError, match="cannot play"):
            engines.make(HEX, command)


def test_engines_play_hex_alone():
    with pytest.raises(AgentError, match="Hex alone"):
        engines.make(DotsAndBoxes(2, 2), "mohex")
