"""Work that goes on beside the main thread, in order, one piece at a time."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

_NAME = "azjax-beside"


class Beside:
    """One thread for what need not be waited for; what goes wrong there is raised by `result()` of its future."""

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=_NAME)

    def begin(self, function: Callable[..., Any], *arguments: Any) -> concurrent.futures.Future:
        """Calls the function there, after what was begun before."""
        return self._executor.submit(function, *arguments)

    def end(self, patience: float | None = None) -> None:
        """Waits for what was begun; with `patience`, so many seconds, and what has not begun by now never will.

        A thread cannot be stopped: what is still at work then goes on, see `is_busy`.
        """
        self._executor.shutdown(wait=patience is None, cancel_futures=patience is not None)
        if patience is not None:
            for thread in _threads():
                thread.join(patience)


def is_busy() -> bool:
    """Whether something goes on in such a thread; Python would wait for it before it ends."""
    return bool(_threads())


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(_NAME)]
