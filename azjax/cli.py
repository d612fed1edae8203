"""The command line. Each command is a module of `azjax.commands`, imported only when it is called."""

import importlib
import sys
from collections.abc import Sequence

from azjax import distributed

COMMANDS = {
    "presets": "                   what can be trained, by name",
    "train": "PRESET [options]     train from nothing, or go on with --resume",
    "td": "GAME [options]          learn a value by temporal differences, without search",
    "es": "GAME [options]          evolve a policy, without gradients",
    "profile": "PRESET [options]   where an iteration's time goes",
    "solve": "GAME [options]       exact values and all optimal moves of positions or openings",
    "report": "RUN                 draw a run's curves, a game and the opening heat map again",
    "evaluate": "RUN --judge ...   measure every checkpoint of a run, and draw the curves",
    "suite": "build|run ...        make a suite of solved positions, or ask an agent about one",
    "openings": "GAME [options]    all legal or winning openings, as a database or to train from",
    "match": "GAME A B [options]   many games between two agents, with intervals",
    "tournament": "GAME A B ...    a round robin or a ladder, with ratings; goes on where it stopped",
    "play": "GAME AGENT [options]  play against an agent in the terminal",
    "gtp": "AGENT [options]        serve an agent over Hex GTP, for HexGui",
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
        if name == "train":  # here, because importing the command starts JAX's backend
            distributed.make_cores_devices()
            if "--distributed" in rest[:-1]:
                distributed.join_processes(rest[rest.index("--distributed") + 1])
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
