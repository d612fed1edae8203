"""Lines between the processes of a run: plain connections on which each hears at once that another has stopped.

JAX's own runtime aborts a process with a C++ stack trace when it misses another one, at the start and later. So the
processes call the roll before JAX begins, and keep a line to process 0, which passes on what happens to one of them.
Messages are JSON objects, one per line of text.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

BEAT = 2.0  # seconds between two signs of life
SILENCE = 30.0  # seconds without one after which a process counts as lost: its machine is gone, or cut off
_HELLO_SECONDS = 5.0  # for whoever connects to say who it is
_LONGEST_MESSAGE = 10_000

Message = dict[str, Any]
Address = tuple[str, int]


class RollCall(NamedTuple):
    """What a process knows once all are there."""

    lines: dict[
        int, "Line"
    ]  # by the number of the process at the other end: process 0 has one to each, others to it
    service: Address  # where the service of JAX is to be found


class Line:
    """A connection for messages."""

    def __init__(self, connection: socket.socket, seconds: float = SILENCE):
        self._connection = connection
        self._connection.settimeout(seconds)
        self._file = connection.makefile("rb")
        self._sending = threading.Lock()

    def wait_for(self, seconds: float) -> None:
        """From now on a silence of so many seconds is the end."""
        self._connection.settimeout(seconds)

    def send(self, **message: Any) -> bool:
        """Sends a message; False if this end cannot: whether the other end is gone, `receive` finds out."""
        try:
            with self._sending:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self) -> Message | None:
        """The next message; None if the other end is gone, silent for too long, or not one of ours."""
        try:
            message = json.loads(self._file.readline(_LONGEST_MESSAGE))
        except (OSError, ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    def finish(self) -> None:
        """Sends nothing more; what was sent still arrives."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends the connection, also for a thread that waits for a message."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()


def call_roll(address: Address, processes: int, number: int, seconds: float) -> RollCall:
    """Waits until all processes are there.

    Args:
      address: where process 0 listens.
      processes: how many there are.
      number: which one this is, from 0.
      seconds: how long to wait for the others.

    Raises:
      ValueError: some did not come, or they do not agree on who they are; all that came get the same sentence.
    """
    if number == 0:
        return _receive_all(address, processes, seconds)
    return _report_to_first(address, processes, number, seconds)


def _receive_all(address: Address, processes: int, seconds: float) -> RollCall:
    deadline = time.monotonic() + seconds
    lines: dict[int, Line] = {}

    def refuse(sentence: str, *others: Line) -> ValueError:
        for line in (*lines.values(), *others):
            line.send(error=sentence)
            line.close()
        return ValueError(sentence)

    try:
        server = _listen(address[1])
    except OSError as error:
        raise ValueError(
            f"process 0 cannot listen on port {address[1]} ({error}); choose another port for all processes"
        ) from None
    with server:
        while len(lines) < processes - 1:
            server.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = sorted(set(range(1, processes)) - set(lines))
                raise refuse(
                    f"of {processes} processes number {_listed(missing)} did not come to {_text(address)}"
                    f" within {seconds:g} s; start them all with the same address"
                ) from None
            line = Line(connection, _HELLO_SECONDS)
            hello = line.receive()
            if hello is None or not {"processes", "number"} <= hello.keys():
                line.close()  # a stranger
                continue
            claimed, theirs = hello["number"], hello["processes"]
            if theirs != processes:
                raise refuse(
                    f"process {claimed} was started as one of {theirs}, process 0 as one of {processes};"
                    " start all of them with the same number of processes",
                    line,
                )
            if claimed in lines:
                raise refuse(
                    f"two processes were started as number {claimed}; give each its own NUMBER", line
                )
            lines[claimed] = line
        # A port for JAX's service, told to all. That it is still free in a moment is very likely, not certain.
        with _listen(0) as free:
            port = free.getsockname()[1]
    for line in lines.values():
        line.wait_for(SILENCE)
        line.send(service=port)
    return RollCall(lines, (address[0], port))


def _report_to_first(address: Address, processes: int, number: int, seconds: float) -> RollCall:
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = socket.create_connection(address, max(0.1, min(5.0, deadline - time.monotonic())))
            if (
                connection.getsockname() != connection.getpeername()
            ):  # else TCP has connected a port to itself
                break
            connection.close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"process {number} could not reach process 0 at {_text(address)} within {seconds:g} s ({error});"
                    " start process 0, or correct the address"
                ) from None
        time.sleep(0.1)
    line = Line(connection, seconds + _HELLO_SECONDS)
    line.send(processes=processes, number=number)
    answer = line.receive()
    if answer is None or "service" not in answer:
        line.close()
    if answer is None or not answer.keys() & {"error", "service"}:
        raise ValueError(
            f"what listens at {_text(address)} ended or gave no answer that process {number} understands; see what"
            " process 0 says, and whether the port is its own"
        )
    if "error" in answer:
        raise ValueError(answer["error"])
    line.wait_for(SILENCE)
    return RollCall({0: line}, (address[0], int(answer["service"])))


class Watch:
    """Listens on all lines of a process until it ends.

    The first stop of any process is passed on to all and given to `stop`, with the message: `{"lost": NUMBER}`, or
    what a process said with `fail`.
    """

    def __init__(self, lines: dict[int, Line], stop: Callable[[Message], None]):
        self._lines = lines
        self._stop = stop
        self._decided = threading.Lock()
        for number, line in lines.items():
            name = f"line to process {number}"
            threading.Thread(target=self._listen, args=(number, line), name=name, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def fail(self, **message: Any) -> None:
        """Stops all processes, this one too."""
        if self._decided.acquire(blocking=False):  # and never released: there is one end
            for line in self._lines.values():
                line.send(stop=message)
                line.finish()
            self._stop(message)

    def say_goodbye(self) -> None:
        """From now on the end of this process is no loss."""
        for line in self._lines.values():
            line.send(goodbye=True)

    def _listen(self, number: int, line: Line) -> None:
        has_left = False
        while (message := line.receive()) is not None:
            if "stop" in message:
                self.fail(**message["stop"])
            has_left = has_left or "goodbye" in message
        if not has_left:
            self.fail(lost=number)

    def _beat(self) -> None:
        while any([line.send() for line in self._lines.values()]):
            time.sleep(BEAT)


def relay(address: Address) -> int:
    """A port of this machine that leads to an address, and stays open when the other end is gone.

    The client of JAX aborts its process as soon as the connection to its service breaks. Behind a relay it only
    hears nothing more, and the line has time to say who was lost.
    """
    server = socket.create_server(("127.0.0.1", 0))
    kept = []  # a socket that nobody holds is closed

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)

    def serve() -> None:
        while True:
            near, _ = server.accept()
            kept.append(near)
            with contextlib.suppress(OSError):
                far = socket.create_connection(address)
                kept.append(far)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _listed(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers)) if len(numbers) < 3 else ", ".join(map(str, numbers))
