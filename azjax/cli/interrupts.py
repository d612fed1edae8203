"""Ctrl-C ends a command with one line and exit code 130, wherever it comes: in an import, a search or a prompt."""

import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

from azjax.common.interrupted import EXIT_CODE, say

PATIENCE = 2.0  # seconds that a command has to close what it opened


class Watch:
    """While it lasts, Ctrl-C raises KeyboardInterrupt in the main thread.

    Compiled code (XLA, a callback of numba) hears no exception: if the command goes on all the same, the process is
    ended after `PATIENCE` seconds. Whoever handles the signal himself meanwhile, as a training that saves first, is
    left alone.
    """

    def __init__(self) -> None:
        self.interrupted = False

    def __enter__(self) -> "Watch":
        self._over = threading.Event()
        self._before = None
        try:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:  # not in the main thread, where no signal arrives
            return self
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        # Written to by C, also while the main thread runs no Python.
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._over.set()
        if self._before is not None:
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._writer)  # which ends the thread
            if sys.unraisablehook == self._unraisable:  # else another has come, for the whole process
                sys.unraisablehook = self._hook
            signal.signal(signal.SIGINT, self._before)

    def report(self, message: str = "", code: int = EXIT_CODE) -> int:
        """Says the one line; returns the exit code."""
        self._over.set()
        _end_children()
        sys.stderr.flush()
        say(message or "interrupted")
        return code

    def _interrupt(self, number: int, frame: Any) -> None:
        if not self._over.is_set():  # nobody wants a traceback of the clearing up
            self.interrupted = True
            raise KeyboardInterrupt

    def _unraisable(self, unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._hook(unraisable)

    def _wait(self) -> None:
        while received := os.read(self._reader, 16):
            if signal.SIGINT not in received:
                continue
            if not self._over.wait(PATIENCE) and signal.getsignal(signal.SIGINT) == self._interrupt:
                _end_children()
                say("interrupted")
                os._exit(EXIT_CODE)
        os.close(self._reader)


def leave_at_once(code: int) -> None:
    """Ends the process, which otherwise would wait for a judgement that goes on beside, and is not wanted any more."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()
