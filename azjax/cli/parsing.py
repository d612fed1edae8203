"""What all command lines share: how they are read, and what their help says first."""

import contextlib
import inspect
import io
import os
import re
import sys
from typing import Any

import tyro

from azjax.cli.screen import wrapped
from azjax.common.checked import check_fields

AGENTS_HELP = "`azjax help agents` lists all agents."


def parse(command: Any, arguments: list[str], program: str, *, about: str, default: Any = None) -> Any:
    """Parses the options of a command and checks their ranges.

    Args:
      command: a dataclass, or what tyro makes of one.
      arguments: what follows the name of the command.
      program: what the help calls the command.
      about: what the help says first; see `explained`.
      default: an instance.
    """
    given = {} if default is None else {"default": default}
    shown = _Shown()
    try:
        with contextlib.redirect_stdout(shown):
            parsed = tyro.cli(command, args=arguments, prog=program, description=_ABOUT, **given)
    finally:
        sys.stdout.write(shown.getvalue().replace(_ABOUT, wrapped(about)))
    check_fields(parsed)
    return parsed


class _Shown(io.StringIO):
    """What tyro prints: it would join our lines to longer ones than the terminal has, and knows no NO_COLOR."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty() and not os.environ.get("NO_COLOR")


_ABOUT = "(what the command is about)"


def explained(command: type, *notes: str) -> str:
    """What the help of a command says first: its docstring, notes, and its field `EXAMPLES`."""
    examples = "\n".join(f"  {example}" for example in command.EXAMPLES)
    # Its lines are as long as those of the source; the terminal's are made of whole paragraphs.
    docstring = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(command))
    return "\n\n".join([docstring, *notes, f"Examples:\n{examples}"])
