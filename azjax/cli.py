"""The command line. Each command is a module of `azjax.commands`, imported only when it is called."""

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "presets": "                   what can be trained, by name",
    "train": "PRESET [options]     train from nothing, or go on with --resume",
    "profile": "PRESET [options]   where an iteration's time goes",
    "report": "RUN                 draw a run's curves, a game and the opening heat map again",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code. What a user got wrong is one line, not a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            raise ValueError(f"unknown command {name!r}; there are {', '.join(COMMANDS)}")
        importlib.import_module(f"azjax.commands.{name}").run(rest)
    except (ValueError, OSError) as error:  # all our errors about what a user gave are ValueErrors
        print(f"azjax: {error}", file=sys.stderr)
        return 2
    return 0


def _usage() -> str:
    lines = [f"  azjax {name} {what}" for name, what in COMMANDS.items()]
    title = "azjax: an AlphaZero laboratory in JAX"
    return "\n".join([title, "", *lines, "", "Add --help to a command for its options."])


if __name__ == "__main__":
    sys.exit(main())
