"""Ctrl-C is one line and exit code 130, also while a command is being imported, which takes seconds.

`import azjax` imports this first, and that alone does it. It changes nothing in other programs: they handle Ctrl-C as
they like. Once a command runs, `azjax.cli.interrupts` takes over.
"""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

EXIT_CODE = 130  # 128 + SIGINT, as shells count


def say(line: str) -> None:
    """Writes a line to stderr, whatever the main thread is doing."""
    # Not by sys.stderr: the main thread may hold its lock. A bar may have hidden the cursor, and ^C begun the line.
    before = "\x1b[?25h\n" if os.isatty(2) else ""
    os.write(2, f"{before}azjax: {line}\n".encode())


def is_command(script: str, words: Sequence[str]) -> bool:
    """Whether Python was started as `azjax` or `python -m azjax.cli`, and not as a worker of one that was.

    Args:
      script: `sys.argv[0]`, which workers inherit.
      words: `sys.orig_argv`.
    """
    if "--multiprocessing-fork" in words:
        return False
    name = os.path.basename(script).removesuffix(".exe").removesuffix("-script.py")
    return name == "azjax" or ("-m", "azjax.cli") in itertools.pairwise(words)


def _leave(number: int, frame: Any) -> None:
    # An exception would come up in whatever is being imported, which makes a traceback or another error of it.
    say("interrupted")
    os._exit(EXIT_CODE)


_script = sys.argv[0] if getattr(sys, "argv", None) else ""  # there is none in an embedded Python
# Only where nobody else handles it, and it is not ignored, as of a command in the background.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler and is_command(_script, sys.orig_argv):
    with contextlib.suppress(ValueError):  # not in the main thread, where no signal arrives
        signal.signal(signal.SIGINT, _leave)
