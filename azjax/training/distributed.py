"""What must be settled before JAX's backend starts (as importing pgx does): processes, and CPU devices.

Processes that have joined stop together: they agree on interruptions between two iterations (`ask`), and what ends
one before its time ends all of them, with one sentence (`azjax.training.lines`).
"""

import contextlib
import functools
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.clusters import ClusterEnv  # what jax.distributed.initialize asks; we must know it before
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from azjax.training import lines

_STATUS = re.compile(
    "(ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN): "
)
JOIN_SECONDS = 120.0  # for all processes to come
_joined: "_Joined | None" = None
_last_words: Callable[[], str] = str  # nothing, as long as nobody has any


def make_cores_devices(limit: int = 8) -> None:
    """Lets JAX see a CPU's cores as devices, as many as the largest power of two among them.

    A program divided among devices keeps two cores busier than one that shares out each operation: training Hex 5x5
    takes a third of the time. It computes the same. Other platforms have devices of their own; if XLA_FLAGS says how
    many CPU devices there are, that holds.

    Args:
      limit: no more than this many; the presets divide their games into eight groups.
    """
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with contextlib.suppress(RuntimeError):  # JAX has started already: its devices are what they are
            jax.config.update("jax_num_cpu_devices", 1 << (min(cores, limit).bit_length() - 1))


class _Joined(NamedTuple):
    """This process as one of several."""

    watch: lines.Watch
    number: int  # jax.process_index(), which cannot be asked before the backend starts


def join_processes(text: str = "auto") -> None:
    """Makes this process one of several; when one of them stops before its end, all stop, and say why.

    What follows belongs into a block of `stopping_together`, whose end tells the others that this process is done.

    Args:
      text: "auto" where the surroundings tell (a TPU pod, Slurm, Open MPI), or "HOST:PORT,PROCESSES,NUMBER" with the
        address of the first process, how many there are, and which one this is; ",SECONDS" may follow either, for
        how long to wait for the others.

    Raises:
      ValueError: that is not what the text says, or not all processes came.
    """
    is_auto = text.split(",")[0] == "auto"
    address, processes, number, devices, seconds = (_surroundings if is_auto else _parse)(text)
    with contextlib.suppress(AttributeError):  # JAX's answer to SIGTERM, which would take it from ours
        jax.config.update("jax_enable_preemption_service", False)
    roll = lines.call_roll(address, processes, number, seconds)
    host, port = roll.service if number == 0 else ("127.0.0.1", lines.relay(roll.service))
    global _joined
    _joined = _Joined(lines.Watch(roll.lines, functools.partial(_stop, processes)), number)
    # Whoever is done waits for the others at the end, for as long as that takes: the watch knows whether they live.
    jax.distributed.initialize(
        f"{host}:{port}",
        processes,
        number,
        local_device_ids=devices,
        cluster_detection_method="deactivate" if is_auto else None,  # it has been asked already
        shutdown_timeout_seconds=7 * 24 * 3600,
    )


def ask(number: Callable[[], int]) -> Callable[[], int]:
    """The greatest of the numbers that all processes have, at the time of the call or somewhat later.

    All of them must ask, and all get the same answer. It takes its turn on the devices, behind what was begun before;
    nobody waits until the function that is returned is called.
    """
    if jax.process_count() == 1:
        return number
    one_each, greatest = _greatest()
    answer = greatest(jax.make_array_from_process_local_data(one_each, np.array([number()], np.int32)))
    return lambda: int(answer)


@functools.cache
def _greatest() -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
    devices = [jax.local_devices(process)[0] for process in range(jax.process_count())]
    mesh = Mesh(devices, ("processes",))
    return NamedSharding(mesh, PartitionSpec("processes")), jax.jit(
        jnp.max, out_shardings=NamedSharding(mesh, PartitionSpec())
    )


def decided_by_first(decide: Callable[[], Any]) -> Any:
    """What the first process decides, on every process; what is wrong on the first is raised on all of them.

    Args:
      decide: called on the first process alone; returns something that JSON can hold, or raises a ValueError.
    """
    if jax.process_count() == 1:
        return decide()
    error, text = None, ""
    if jax.process_index() == 0:
        try:
            text = json.dumps({"decided": decide()})
        except ValueError as wrong:
            error, text = wrong, json.dumps({"wrong": str(wrong)})
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(text.encode()))))
    sent = np.frombuffer(text.encode().ljust(length), np.uint8) if text else np.zeros(length, np.uint8)
    answer = json.loads(bytes(np.asarray(multihost_utils.broadcast_one_to_all(sent))))
    if "wrong" in answer:
        raise error or ValueError(answer["wrong"])
    return answer["decided"]


@contextlib.contextmanager
def last_words(function: Callable[[], str]) -> Iterator[None]:
    """While the block runs, the function is called when this process is stopped because of another one.

    It runs in another thread while the block may hang, and tidies up what cannot wait; it returns what to say after
    that a process was lost: what is saved, and how to continue.
    """
    global _last_words
    before, _last_words = _last_words, function
    are_wanted = False
    try:
        yield
    except Exception as error:
        are_wanted = _comes_from_jax(error)  # the news of a lost process may be on their way
        raise
    finally:
        if not are_wanted:
            _last_words = before


@contextlib.contextmanager
def stopping_together() -> Iterator[None]:
    """What stops this process inside the block stops all, with the same sentence; alone it does nothing."""
    try:
        yield
    except BaseException as error:
        if _joined is None or (isinstance(error, SystemExit) and not error.code):
            raise
        _joined.watch.fail(**_message_of(error, _joined.number))
        threading.Event().wait()  # another end came first, and is about to happen here
    if _joined is not None:
        _joined.watch.say_goodbye()


def _message_of(error: BaseException, number: int) -> lines.Message:
    """What all processes are told about an error on one of them."""
    if isinstance(error, KeyboardInterrupt):
        return {"error": f"process {number} was interrupted", "code": getattr(error, "exit_code", 130)}
    if isinstance(error, SystemExit):  # it has said why
        return {"error": f"process {number} ended with {error.code}; see what it says", "code": 2}
    is_from_jax = _comes_from_jax(error)
    # If it came about because a process was lost, the news of that ends us here.
    time.sleep(lines.SILENCE + 2 * lines.BEAT if is_from_jax else lines.BEAT)
    if isinstance(error, (ValueError, OSError)) and not is_from_jax:
        return {"error": str(error), "code": 2}
    traceback.print_exception(error)
    return {"error": f"process {number} failed with {type(error).__name__}: {error}", "code": 1}


def _comes_from_jax(error: BaseException | None) -> bool:
    """Whether an error, or what it was made of, is one that a lost process causes in the others."""
    while error is not None:
        # As a JaxRuntimeError, or as a ValueError with the same text when an array is read.
        if isinstance(error, jax.errors.JaxRuntimeError) or _STATUS.match(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(processes: int, message: lines.Message) -> None:
    """Ends this process at once: its other threads may be waiting for what will never come."""
    try:
        about_loss = _sentence_about(message.get("lost"), processes)
        sentence = message.get("error", about_loss)
        for stream in (sys.stdout, sys.stderr):
            if stream.isatty():
                stream.write("\033[?25h")  # the cursor, which a progress bar has hidden
            stream.flush()
        print(f"azjax: {sentence}", file=sys.stderr, flush=True)
        time.sleep(0.2)  # so that what was sent on the lines is read before they break
    finally:  # nothing may keep it, such as an output that is closed
        os._exit(message.get("code", 1))


def _sentence_about(lost: int, processes: int) -> str:
    try:
        advice = _last_words()
    except Exception as error:  # a folder that has become unreadable, perhaps
        advice = f"what was saved could not be found out ({error})"
    return "; ".join(
        part for part in (f"process {lost} of {processes} was lost, so that all stop", advice) if part
    )


def _parse(text: str) -> tuple[lines.Address, int, int, None, float]:
    try:
        place, processes, number, *seconds = text.split(",")
        host, port = place.rsplit(":", 1)
        address = host.strip("[]"), int(port)
        count, which, patience = (
            int(processes),
            int(number),
            float(seconds.pop()) if seconds else JOIN_SECONDS,
        )
        valid = host and 0 < address[1] < 2**16 and 0 < patience < float("inf") and not seconds
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            "--distributed must be auto or HOST:PORT,PROCESSES,NUMBER, such as 127.0.0.1:9911,2,0, and perhaps"
            f" ,SECONDS to wait for the others; got {text!r}"
        )
    if not 0 <= which < count:
        raise ValueError(
            f"the NUMBER of a process must be between 0 and {count - 1} for {count} processes, got {which}"
            if count > 0
            else f"the number of PROCESSES must be at least 1, got {count}"
        )
    return address, count, which, None, patience


def _surroundings(text: str) -> tuple[lines.Address, int, int, Sequence[int] | None, float]:
    _, *given = text.split(",")
    try:
        (seconds,) = map(float, given or [JOIN_SECONDS])
        valid = 0 < seconds < float("inf")
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"--distributed auto may be followed by seconds to wait for the others, as in auto,600; got {text!r}"
        )
    try:
        address, processes, number, devices = ClusterEnv.auto_detect_unset_distributed_params(
            os.environ.get("JAX_COORDINATOR_ADDRESS"), None, None, None, None, int(JOIN_SECONDS)
        )
    except Exception as error:  # each kind of surroundings fails in its own way when half of it is there
        raise ValueError(
            f"--distributed auto could not find out about the other processes ({error})"
        ) from error
    if address is None or processes is None or number is None:
        raise ValueError(
            "--distributed auto found nothing that tells how many processes there are (as a TPU pod, Slurm or Open MPI"
            " do); give HOST:PORT,PROCESSES,NUMBER, such as 127.0.0.1:9911,2,0"
        )
    if _is_alone_on_its_machine():
        devices = None  # all: jax gives each process one GPU, whether there are others or not
    host, port = address.rsplit(":", 1)
    return (host.strip("[]"), int(port)), processes, number, devices, seconds


def _is_alone_on_its_machine() -> bool:
    """Whether Open MPI or Slurm says that it has started no other process here."""
    if "OMPI_COMM_WORLD_LOCAL_SIZE" in os.environ:
        return os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"] == "1"
    # In order of the machines, such as 2(x3),1: two on each of three, and one on a fourth.
    tasks = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    counts = [int(count) for count, times in tasks for _ in range(int(times or 1))]
    machine = int(os.environ.get("SLURM_NODEID", "0"))
    return machine < len(counts) and counts[machine] == 1
