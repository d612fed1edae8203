"""Several processes: they find each other or say why not, stop together, and judge alone."""

import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from azjax import cli
from azjax.training import checkpoint, distributed, lines
from tests import processes
from tests.process_cases import solved_values
from tests.training_cases import timeless

ROOT = pathlib.Path(__file__).parents[2]
TIME_LIMIT = 600  # seconds, for whatever a test waits for: nothing may hang, even on a busy machine

TINY = [
    *("--selfplay.lanes", "8", "--selfplay.plies", "2", "--search.simulations", "2", "--network.blocks", "1"),
    *(
        "--network.channels",
        "8",
        "--replay.capacity",
        "128",
        "--replay.warm-up",
        "16",
        "--replay.batch-size",
        "8",
    ),
    *("--evaluation.every", "100000", "--evaluation.pairs", "1", "--evaluation.simulations", "2"),
    *("--evaluation.uct-simulations", "2", "--save-every", "100000"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def start():
    """Starts a process of Python; none outlives the test."""
    yield from starting()


def starting():
    """Gives the function that starts processes, and ends them."""
    started = []

    def start_one(*arguments, devices=1, environment=None):
        worker = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            cwd=ROOT,
            env=processes.environment(devices) | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(worker)
        return worker

    yield start_one
    for worker in started:
        worker.kill()
        worker.communicate()


@pytest.fixture
def start_walks(start):
    """Starts two processes of a run that hardly computes anything, each with a folder of its own or both with one."""

    def start_both(folders, save_every=10**9, *options, devices=1):
        place = f"127.0.0.1:{free_port()},2"
        given = (save_every, *options)
        return [
            start("tests.process_cases", folders[n], f"{place},{n}", *given, devices=devices)
            for n in range(2)
        ]

    return start_both


def ends(workers):
    """The exit codes of processes, and what they said; fails if they do not end in time."""
    said = [worker.communicate(timeout=TIME_LIMIT) for worker in workers]
    return [(worker.returncode, out, err) for worker, (out, err) in zip(workers, said)]


def wait_for_iteration(worker, iteration):
    """Reads what the first process prints until it has made so many iterations."""
    guard = threading.Timer(TIME_LIMIT, worker.kill)
    guard.start()
    for line in worker.stdout:
        if line.startswith("{") and json.loads(line)["iteration"] >= iteration:  # Gloo prints there too
            guard.cancel()
            return
    pytest.fail(f"ended before iteration {iteration}: {worker.stderr.read()}")


def sentences(text):
    """What azjax itself said at the end."""
    assert "Traceback" not in text and "Check failure" not in text, text
    return [line for line in text.splitlines() if line.startswith("azjax: ")]


@pytest.mark.parametrize("option", [["--distributed=PLACE"], ["--distributed", "PLACE"]])
def test_the_place_of_a_process_can_be_written_with_an_equals_sign(option, monkeypatch, capsys):
    asked = []

    def refuse(text):
        asked.append(text)
        raise ValueError("no such place")

    monkeypatch.setattr(distributed, "join_processes", refuse)
    assert cli.main(["train", "hex3", *option]) == 2
    assert asked == ["PLACE"]
    assert capsys.readouterr().err == "azjax: no such place\n"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nonsense", "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER"),
        ("", "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER"),
        ("127.0.0.1,2,0", "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER"),
        ("127.0.0.1:99999,2,0", "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER"),
        ("127.0.0.1:9911,2,0,nan", "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER"),
        ("127.0.0.1:9911,2,2", "the NUMBER of a process must be between 0 and 1 for 2 processes, got 2"),
        ("127.0.0.1:9911,2,-1", "the NUMBER of a process must be between 0 and 1 for 2 processes, got -1"),
        ("127.0.0.1:9911,0,0", "the number of PROCESSES must be at least 1, got 0"),
        ("auto", "--distributed auto found nothing that tells how many processes there are"),
        ("auto,soon", "--distributed auto may be followed by seconds to wait for the others"),
    ],
)
def test_a_place_that_makes_no_sense_is_one_sentence(place, sentence, capsys):
    assert cli.main(["train", "hex3", f"--distributed={place}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"azjax: {sentence}") and said.count("\n") == 1


def test_a_process_that_finds_no_first_one_says_so_in_time(capsys):
    began = time.monotonic()
    assert cli.main(["train", "hex3", f"--distributed=127.0.0.1:{free_port()},2,1,0.5"]) == 2
    assert time.monotonic() - began < 10
    assert "process 1 could not reach process 0 at 127.0.0.1:" in capsys.readouterr().err


def surroundings_of_mpi(number, processes, job=7):
    """What Open MPI tells a process; the port of the first follows from the number of the job."""
    return {
        "OMPI_MCA_orte_hnp_uri": f"{job}.0;tcp://127.0.0.1:34911",
        "OMPI_COMM_WORLD_SIZE": str(processes),
        "OMPI_COMM_WORLD_RANK": str(number),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(number),
    }


def devices_given_to_jax(surroundings: dict[str, str], monkeypatch) -> list[int] | None:
    """The devices that a process in these surroundings asks jax for when all have come; None for all there are."""
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    told = {}
    roll = lines.RollCall({}, ("127.0.0.1", 1))
    monkeypatch.setattr(lines, "call_roll", lambda *arguments: roll)
    monkeypatch.setattr(lines, "relay", lambda service: 1)
    monkeypatch.setattr(lines, "Watch", lambda *arguments: None)
    monkeypatch.setattr(distributed, "_joined", None)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *arguments, **options: told.update(options))
    distributed.join_processes()
    assert told["cluster_detection_method"] == "deactivate"  # else jax would choose one after all
    return told["local_device_ids"]


@pytest.mark.parametrize(
    ("tasks", "machine", "devices"),
    [("1(x2)", 1, None), ("8(x2)", 0, [3]), ("1,4(x2)", 0, None), ("1,4(x2)", 2, [3]), ("", 0, [3])],
)
def test_a_process_of_slurm_has_all_devices_where_it_is_alone_and_else_its_own(
    tasks, machine, devices, monkeypatch
):
    told = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "gpu[1-3]", "SLURM_NTASKS": "9", "SLURM_PROCID": "3"}
    told |= {"SLURM_LOCALID": "3", "SLURM_NODEID": str(machine), "SLURM_STEP_TASKS_PER_NODE": tasks}
    assert devices_given_to_jax(told, monkeypatch) == devices


@pytest.mark.parametrize(("here", "devices"), [("1", None), ("4", [1])])
def test_a_process_of_open_mpi_has_all_devices_where_it_is_alone_and_else_its_own(here, devices, monkeypatch):
    told = surroundings_of_mpi(1, 4) | {"OMPI_COMM_WORLD_LOCAL_SIZE": here}
    assert devices_given_to_jax(told, monkeypatch) == devices


def test_a_process_of_open_mpi_whose_peer_is_missing_says_so_in_time(capsys, monkeypatch):
    for name, value in surroundings_of_mpi(0, 2, job=free_port()).items():
        monkeypatch.setenv(name, value)
    assert cli.main(["train", "hex3", "--distributed", "auto,0.5"]) == 2
    said = capsys.readouterr().err
    assert "of 2 processes number 1 did not come to 127.0.0.1:" in said and "within 0.5 s" in said


@pytest.mark.slow
def test_four_processes_of_open_mpi_are_preempted_and_two_go_on(start, tmp_path):
    folder = tmp_path / "run"
    workers = [
        start("tests.process_cases", folder, "auto", 5, environment=surroundings_of_mpi(number, 4))
        for number in range(4)
    ]
    wait_for_iteration(workers[0], 3)
    workers[2].send_signal(signal.SIGTERM)
    for code, _, said in ends(workers):
        assert code == 75, said
    stopped = checkpoint.open_run(folder).iterations[-1]
    assert stopped == checkpoint.open_run(folder).read_metrics()[-1]["iteration"] >= 3
    place = f"127.0.0.1:{free_port()},2"
    workers = [start("tests.process_cases", folder, f"{place},{n}", 5, "resume") for n in range(2)]
    wait_for_iteration(workers[0], stopped + 6)
    workers[1].kill()
    code, _, said = ends(workers)[0]
    assert code == 1 and "process 1 of 2 was lost" in said
    assert checkpoint.open_run(folder).iterations[-1] > stopped


def test_a_first_process_whose_port_is_taken_says_so(capsys):
    with socket.create_server(("", 0)) as taken:
        assert cli.main(["train", "hex3", f"--distributed=127.0.0.1:{taken.getsockname()[1]},2,0"]) == 2
    assert "process 0 cannot listen on port" in capsys.readouterr().err


@pytest.fixture
def roll_of():
    """Calls the roll in threads, and hangs up in the end."""
    called = []
    yield lambda *who, seconds=5.0: call_roll(called, who, seconds)
    for roll in called:
        for line in roll.lines.values():
            line.close()


def call_roll(called, who, seconds):
    """What each process, given as (processes, number), got or was refused with."""
    address = ("127.0.0.1", free_port())
    got = {}

    def call(place, claims):
        try:
            got[place] = lines.call_roll(address, *claims, seconds)
            called.append(got[place])
        except ValueError as error:
            got[place] = str(error)

    callers = [threading.Thread(target=call, args=one, daemon=True) for one in enumerate(who)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(TIME_LIMIT)
    return [got[place] for place in range(len(who))]


def test_processes_that_do_not_fit_together_all_get_the_same_sentence(roll_of):
    both = roll_of((2, 0), (3, 1))
    assert both[0].startswith("process 1 was started as one of 3, process 0 as one of 2")
    assert both[1] == both[0]
    three = roll_of((3, 0), (3, 1), (3, 1))
    assert three[0].startswith("two processes were started as number 1")
    assert three[1:] == [three[0]] * 2
    missing = roll_of((4, 0), (4, 2), seconds=1.0)
    assert missing[0].startswith("of 4 processes number 1 and 3 did not come to 127.0.0.1:")
    assert missing[1] == missing[0]


def test_strangers_at_the_port_are_passed_over():
    address = ("127.0.0.1", free_port())
    got = []
    first = threading.Thread(target=lambda: got.append(lines.call_roll(address, 2, 0, 20.0)), daemon=True)
    first.start()
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b"\xff" * 20_000):
        stranger = connect(address)
        stranger.sendall(greeting)
        stranger.close()
    second = lines.call_roll(address, 2, 1, 20.0)
    first.join(TIME_LIMIT)
    assert set(got[0].lines) == {1} and set(second.lines) == {0}
    assert second.service == got[0].service
    got[0].lines[1].close()
    second.lines[0].close()


def connect(address):
    while True:
        try:
            return socket.create_connection(address, 5)
        except ConnectionRefusedError:
            time.sleep(0.01)


def watched(rolls):
    """Watches the lines of processes; returns the watches, and lists that fill with what stops each process."""
    stops = [[] for _ in rolls]
    return [lines.Watch(roll.lines, stop.append) for roll, stop in zip(rolls, stops)], stops


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_hear_which_process_was_lost(roll_of):
    rolls = roll_of((3, 0), (3, 1), (3, 2))
    _, stops = watched(rolls[:2])
    rolls[2].lines[0].finish()  # as the kernel does for a process that was killed
    wait_until(lambda: all(stops))
    assert stops == [[{"lost": 2}], [{"lost": 2}]]


def test_all_hear_what_stopped_one_and_only_the_first_reason_counts(roll_of):
    rolls = roll_of((3, 0), (3, 1), (3, 2))
    watches, stops = watched(rolls)
    watches[1].fail(error="the disk is full", code=2)
    wait_until(lambda: all(stops))
    watches[2].fail(error="something else", code=3)
    assert stops == [[{"error": "the disk is full", "code": 2}]] * 3


def test_a_process_that_has_said_goodbye_is_not_missed(roll_of):
    rolls = roll_of((2, 0), (2, 1))
    watches, stops = watched(rolls)
    watches[1].say_goodbye()
    rolls[1].lines[0].finish()
    watches[0].say_goodbye()
    rolls[0].lines[1].finish()
    wait_until(lambda: not any(thread.name.startswith("line to") for thread in threading.enumerate()))
    assert stops == [[], []]


def test_a_process_that_is_silent_for_too_long_is_lost(roll_of):
    rolls = roll_of((2, 0), (2, 1))
    rolls[0].lines[1].wait_for(0.3)  # instead of half a minute
    _, stops = watched(rolls[:1])
    wait_until(lambda: all(stops))
    assert stops == [[{"lost": 1}]]


def test_a_relay_stays_open_when_the_other_end_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(("127.0.0.1", lines.relay(server.getsockname())), 5)
        far, _ = server.accept()
    with near:
        with far:
            near.sendall(b"question")
            assert far.recv(100) == b"question"
            far.sendall(b"answer")
            assert near.recv(100) == b"answer"
        near.settimeout(0.5)
        with pytest.raises(TimeoutError):  # an end of the connection would be b"" or an error
            near.recv(100)


@pytest.mark.parametrize(("number", "sent"), [(0, signal.SIGINT), (1, signal.SIGTERM)])
def test_one_interrupted_process_stops_all_after_the_same_iteration(number, sent, start_walks, tmp_path):
    workers = start_walks([tmp_path / "run"] * 2)
    wait_for_iteration(workers[0], 3)
    workers[number].send_signal(sent)
    for code, _, said in ends(workers):
        assert code == (75 if sent == signal.SIGTERM else 130), said
        assert "interrupted and saved" in said
    run = checkpoint.open_run(tmp_path / "run")
    assert run.iterations == [run.read_metrics()[-1]["iteration"]]
    assert run.iterations[-1] >= 3


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: checkpoint.RunError("not written")])
@pytest.mark.parametrize("kind", [jax.errors.JaxRuntimeError, ValueError])
def test_what_a_lost_process_causes_in_the_others_is_told_from_their_own_errors(kind, wrap):
    """Both kinds were seen with two processes: one of a collective, the other where its result is read."""
    cause = kind("UNKNOWN: Gloo AllGather failed: Read error: Connection reset by peer")
    error = wrap(cause)
    error.__cause__ = None if error is cause else cause
    assert distributed._comes_from_jax(error)
    assert not distributed._comes_from_jax(checkpoint.RunError("the folder already holds a run"))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_killed_process_stops_the_other_with_a_sentence(lost, start_walks, tmp_path):
    workers = start_walks([tmp_path / "run"] * 2, 2)
    wait_for_iteration(workers[0], 5)
    workers[lost].kill()
    killed = time.monotonic()
    code, _, said = ends(workers)[1 - lost]
    assert time.monotonic() - killed < 60
    assert code == 1, said
    saved = checkpoint.open_run(tmp_path / "run").iterations[-1]
    (sentence,) = sentences(said)
    expected = f"process {lost} of 2 was lost, so that all stop; iteration {saved} is saved; continue with:"
    assert sentence == f"azjax: {expected} azjax resume {tmp_path / 'run'}"


def test_a_process_killed_before_anything_was_saved_leaves_nothing(start_walks, tmp_path):
    workers = start_walks([tmp_path / "run"] * 2)
    wait_for_iteration(workers[0], 1)
    workers[1].kill()
    code, _, said = ends(workers)[0]
    assert code == 1, said
    assert sentences(said) == [
        "azjax: process 1 of 2 was lost, so that all stop; nothing had been saved yet: start again"
    ]
    assert not (tmp_path / "run" / "config.json").exists()


def test_what_the_first_process_refuses_all_refuse(start_walks, tmp_path):
    """The folder is that of the first process alone, as where the others see another disk."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "config.json").write_text("{}")
    workers = start_walks([tmp_path / "0", tmp_path / "1"])
    workers[0].wait(TIME_LIMIT)
    refused = time.monotonic()
    for code, _, said in ends(workers):
        assert code == 2, said
        (sentence,) = sentences(said)
        assert sentence.startswith(f"azjax: {tmp_path / '0'} already holds a run")
    assert time.monotonic() - refused < 60
    assert not (tmp_path / "1").exists()


def test_processes_that_do_not_share_a_folder_are_refused(start_walks, tmp_path):
    for code, _, said in ends(start_walks([tmp_path / "0", tmp_path / "1"])):
        assert code == 2, said
        (sentence,) = sentences(said)
        assert "is not the same folder for all processes" in sentence
    assert not list(tmp_path.iterdir())


def test_the_first_process_solves_games_on_its_own_devices_while_the_others_wait(start_walks, tmp_path):
    workers = start_walks([tmp_path / "run"] * 2, 1, "solve", devices=2)
    wait_for_iteration(workers[0], 1)
    workers[1].send_signal(signal.SIGTERM)
    assert [code for code, _, _ in ends(workers)] == [75, 75]
    assert checkpoint.open_run(tmp_path / "run").read_metrics()[0]["values"] == solved_values()


SIX = [*TINY, "--iterations", "6", "--save-every", "2"]
SIX += ["--selfplay.openings", "none"]  # or no first move could be judged


@pytest.fixture(scope="module")
def start_for_all():
    """Starts a process of Python; none outlives the file."""
    yield from starting()


@pytest.fixture(scope="module")
def run_of_two(start_for_all, tmp_path_factory):
    """A run of two processes that Slurm has started, each with two devices, and the folder of what was solved."""
    folder = tmp_path_factory.mktemp("slurm")
    surroundings = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": "2"}
    surroundings |= {"JAX_COORDINATOR_PORT": str(free_port())}
    surroundings |= {"AZJAX_CACHE": str(folder / "solved")}  # empty, so that the solver has to work
    workers = [
        start_for_all(
            *("azjax.cli", "train", "hex3", "--out", folder / "run", *SIX, "--distributed=auto", "--json"),
            devices=2,
            environment=surroundings | {"SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)},
        )
        for number in range(2)
    ]
    for code, _, said in ends(workers):
        assert code == 0, said
    return folder / "run", folder / "solved"


@pytest.mark.slow
def test_the_first_of_the_processes_of_slurm_judges_by_the_truth_on_its_own_devices(run_of_two):
    rows = checkpoint.open_run(run_of_two[0]).read_metrics()
    assert [row["iteration"] for row in rows] == list(range(1, 7))  # of one process, not of both
    assert set(rows[-1]["truth"]) >= {"value_sign_accuracy", "search_accuracy", "opening_sign_accuracy"}


@pytest.mark.slow
def test_two_processes_train_as_one_does_and_leave_a_run_that_one_can_continue(
    run_of_two, start, tmp_path, monkeypatch
):
    shutil.copytree(run_of_two[0], tmp_path / "two")
    train = ["train", "hex3", *SIX, "--out"]
    code, _, said = ends([start("azjax.cli", *train, tmp_path / "one", "--evaluation.no-truth", devices=4)])[
        0
    ]
    assert code == 0, said

    two, one = (checkpoint.open_run(tmp_path / name) for name in ("two", "one"))
    assert len(two.read_metrics()) == 6  # one process writes, not both
    exact = ("iteration", "positions", "games", "updates", "mean_plies", "first_player_score", "stored")
    for row, expected in zip(two.read_metrics()[:4], one.read_metrics()):  # later games see the rounding
        assert {field: row[field] for field in exact} == {field: expected[field] for field in exact}
    assert two.iterations == one.iterations
    monkeypatch.setenv("AZJAX_CACHE", str(run_of_two[1]))
    more = ["--iterations", "8", "--resume"]
    assert cli.main([*train, str(tmp_path / "two"), *more]) == 0  # here, on one device
    assert [row["iteration"] for row in two.read_metrics()] == list(range(1, 9))


@pytest.mark.slow
def test_a_run_that_was_preempted_twice_ends_as_one_that_was_not(start, tmp_path):
    """To the bit: a sum over two devices is the same in any order, wherever they are."""

    def train(name):
        # What two processes tell each other costs more than all else: two updates an iteration, not eight.
        options = [
            *TINY,
            "--replay.reuse",
            1,
            "--evaluation.no-truth",
            "--save-every",
            20,
            "--iterations",
            160,
        ]
        return ["azjax.cli", "train", "hex3", "--out", tmp_path / name, "--json", *options]

    def start_two(*command):
        address = f"127.0.0.1:{free_port()}"
        return [start(*command, f"--distributed={address},2,{number}") for number in range(2)]

    code, _, said = ends([start(*train("calm"), devices=2)])[0]
    assert code == 0, said

    folder = tmp_path / "preempted"
    resume = ["azjax.cli", "resume", folder, "--json"]
    workers = start_two(*train("preempted"))
    wait_for_iteration(workers[0], 3)
    workers[1].send_signal(signal.SIGTERM)
    assert [code for code, _, _ in ends(workers)] == [75, 75]
    stopped = checkpoint.open_run(folder).iterations[-1]
    assert 3 <= stopped < 160

    workers = start_two(*resume)
    wait_for_iteration(workers[0], stopped + 25)
    workers[1].kill()
    assert ends(workers)[0][0] == 1
    assert stopped < checkpoint.open_run(folder).iterations[-1] < 160

    code, _, said = ends([start(*resume, devices=2)])[0]
    assert code == 0, said
    calm, preempted = checkpoint.open_run(tmp_path / "calm"), checkpoint.open_run(folder)
    assert [timeless(row) for row in preempted.read_metrics()] == [
        timeless(row) for row in calm.read_metrics()
    ]
    assert len(preempted.read_metrics()) == 160
    weights = [jax.tree.leaves(one.load_agent(160)) for one in (calm, preempted)]
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))
