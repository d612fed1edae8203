"""The command line. Each command is a module of `azjax.cli`, imported only when it is called."""

import difflib
import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Sequence

from azjax.cli import imports, interrupts
from azjax.common import beside

# What stands behind the command's name, and what the command does.
COMMANDS = {
    "presets": ("", "what can be trained, by name"),
    "train": ("PRESET", "train from nothing"),
    "resume": ("RUN", "go on with a run of train, supervised, td or es as it was begun"),
    "supervised": ("GAME", "teach a network what a solver or a file knows"),
    "td": ("GAME", "learn a value by temporal differences, without search"),
    "es": ("GAME", "evolve a policy, without gradients"),
    "profile": ("PRESET", "where an iteration's time goes"),
    "doctor": ("[PRESET]", "whether a training fits this machine, how fast it may be, and what to change"),
    "solve": ("GAME", "exact values and all optimal moves of positions or openings"),
    "report": ("RUN", "draw a run's curves, a game and the opening heat map again"),
    "models": ("[NAME]", "the networks that come with azjax, and how strong each is"),
    "export": ("RUN", "a run's network as ONNX, its weights as safetensors"),
    "evaluate": ("RUN --judge JUDGE", "measure every checkpoint of a run, and draw the curves"),
    "suite": ("build|run ...", "make a suite of solved positions, or ask an agent about one"),
    "openings": ("GAME", "all legal or winning openings, as a database or to train from"),
    "data": ("GAME", "positions out of a teacher's games of Dots and Boxes, to learn from"),
    "match": ("GAME A B", "many games between two agents, with intervals"),
    "tournament": ("GAME A B ...", "a round robin or a ladder, with ratings; goes on where it stopped"),
    "ratings": ("FILE ...", "rate the players of PGN files"),
    "play": ("GAME AGENT [AGENT]", "play against an agent in the terminal, or watch two play"),
    "gtp": ("AGENT", "serve an agent over Hex GTP, for HexGui"),
    "serve": ("[RUN ...]", "the board in the browser: play, analyse, watch runs"),
    "analyse": ("[AGENT]", "answer questions about positions, in JSON on standard input"),
}
_BROKEN_PIPE = 141  # 128 + SIGPIPE, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code. What a user got wrong is one line, not a traceback.

    Args:
      arguments: the words behind `azjax`; None for those of this process, which then may be ended before what goes on
        beside is done.
    """
    _open_what_is_closed()
    code = _watched(arguments)
    if arguments is None and code and beside.is_busy():
        interrupts.leave_at_once(code)
    return code


def _open_what_is_closed() -> None:
    """A program that was started without input or output reads nothing and writes nowhere.

    Else the next files that it opens would take their places, and be written to by whoever prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def _watched(arguments: Sequence[str] | None) -> int:
    with interrupts.Watch() as watch:
        try:
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
            sys.stdout.flush()  # here, where a reader that has gone is no traceback
            return code
        except KeyboardInterrupt as interrupt:
            return watch.report(str(interrupt), getattr(interrupt, "exit_code", interrupts.EXIT_CODE))
        except BrokenPipeError:  # whoever was reading has seen enough
            _drop_output()
            return _BROKEN_PIPE
        except Exception as error:
            if watch.interrupted:  # compiled code makes errors of its own of an interruption
                return watch.report()
            sentence = _sentence_of(error)
            if sentence is None:
                raise
            print(f"azjax: {sentence}", file=sys.stderr)
            return 2


def _sentence_of(error: Exception) -> str | None:
    """What to tell whoever gave the command; None of an error that is ours, and is told with its traceback."""
    if isinstance(error, ValueError | OSError):  # all our errors about what a user gave are ValueErrors
        return str(error)
    if isinstance(error, RuntimeError) and str(error).startswith("Unable to initialize backend"):
        reason = str(error).splitlines()[0].partition(" (")[0]
        return f"JAX has none of the devices that it is to use ({reason}); see the variable JAX_PLATFORMS"
    return None


def _run(arguments: list[str]) -> int:
    modules, arguments = imports.taken_out(arguments)
    if arguments[:1] == ["help"]:
        if arguments[1:] == ["agents"]:
            imports.run(modules)
            print(_agents())
            return 0
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(_version())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(f"unknown command {name!r}{hint}; there are {', '.join(COMMANDS)}")
    if name == "presets":  # a list, for which nothing need be imported
        imports.run(modules)
        return importlib.import_module("azjax.cli.presets").run(rest) or 0
    from azjax.common import cache
    from azjax.training import distributed  # not above: JAX takes a second, and Ctrl-C may come in it

    cache.keep_compiled_programs()
    # Here, because importing a command starts JAX's backend.
    if name in ("train", "resume", "doctor", "solve"):
        distributed.make_cores_devices()
    if name in ("train", "resume", "doctor"):
        place = _value_of("--distributed", rest)
        if place is not None:
            distributed.join_processes(place)
    imports.run(modules)  # here, because a module may start JAX's backend
    with distributed.stopping_together():
        return importlib.import_module(f"azjax.cli.{name}").run(rest) or 0


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """What `option VALUE` or `option=VALUE` says, the last of them as usual; None if there is none."""
    value = None
    for argument, following in zip(arguments, [*arguments[1:], None]):
        if argument == option:
            value = following
        elif argument.startswith(f"{option}="):
            value = argument.removeprefix(f"{option}=")
    return value


def _usage() -> str:
    width = min(shutil.get_terminal_size().columns, 100)
    lines = ["azjax: an AlphaZero laboratory in JAX", ""]
    for name, (behind, about) in COMMANDS.items():
        call = f"  azjax {name} {behind}".rstrip()
        if width >= 72:
            lines += textwrap.wrap(about, width, initial_indent=f"{call:32}  ", subsequent_indent=" " * 34)
        else:
            lines += [call, *textwrap.wrap(about, width, initial_indent="      ", subsequent_indent="      ")]
    notes = (
        "`azjax help COMMAND` or `azjax COMMAND --help` explains a command, with examples; `azjax help agents` lists"
        " who can play; `azjax --version` names versions and devices.",
        "`--import MODULE`, with any command, runs a module of your own first, from this folder too: what it registers"
        " (games, networks, agents, judges) can then be named.",
        "Exit codes: 0 done, 2 what was asked for cannot be done (one line on stderr says why), 130 interrupted, 75"
        " stopped by SIGTERM: resume with the same command and --resume auto.",
    )
    for note in notes:
        lines += ["", *textwrap.wrap(note, width)]
    return "\n".join(lines)


def _agents() -> str:
    from azjax.agents import agent_forms
    from azjax.cli.screen import wrapped

    return wrapped(
        "Whatever plays is named by one text, NAME[:ARGUMENT][?OPTION=VALUE&...], such as az:runs/hex5?sims=200. The"
        f" folder of a run, or an agent.npz in it, names its agent too.\n\n{agent_forms()}"
    )


def _version() -> str:
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("jax", "jaxlib")]
    lines = [f"azjax {importlib.metadata.version('azjax')}"]
    lines.append(", ".join([*versions, f"Python {platform.python_version()}"]))
    from azjax.training import distributed

    distributed.make_cores_devices()  # as training sees them
    import jax

    try:
        kinds = [device.device_kind for device in jax.devices()]
        lines.append(
            "devices: " + ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
        )
    except RuntimeError as error:  # such as a TPU that another process holds
        lines.append(f"devices: cannot be used ({str(error).splitlines()[0]})")
    return "\n".join(lines)


def _drop_output() -> None:
    # What is still buffered would be written when Python ends, and fail once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
