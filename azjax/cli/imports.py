"""`--import MODULE`, for every command: runs a user's own module, whose registrations then count.

A module is named on the command line alone. Nothing that is read from a file is ever imported.
"""

import importlib
import os
import pathlib
import sys
import traceback
from collections.abc import Sequence

OPTION = "--import"


def taken_out(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The modules that the arguments ask for, in order, and the other arguments."""
    modules, others, waiting = [], [], iter(arguments)
    for argument in waiting:
        if argument == OPTION:
            module = next(waiting, None)
            if module is None:
                raise ValueError(f"{OPTION} needs the name of a module, as in {OPTION} my_agents")
            modules.append(module)
        elif argument.startswith(f"{OPTION}="):
            modules.append(argument.removeprefix(f"{OPTION}="))
        else:
            others.append(argument)
    return modules, others


def run(modules: Sequence[str]) -> None:
    """Imports modules, from the current folder first; raises ValueError with what is wrong with one of them."""
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    for module in modules:
        if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(
                f"{OPTION} takes a module as Python imports it, such as my_agents for the file my_agents.py,"
                f" got {module!r}"
            )
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                raise ValueError(
                    f"{OPTION} {module}: there is no module {error.name} in this folder or among the installed packages"
                ) from error
            raise ValueError(f"{OPTION} {module}: {_what(error)}") from error
        except (Exception, SystemExit) as error:  # whatever a stranger's code may do
            raise ValueError(f"{OPTION} {module}: {_what(error)}") from error


def _what(error: BaseException) -> str:
    """An error and where it was raised, in one line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split()) or "without a message"
    return f"{type(error).__name__} in {pathlib.Path(place.filename).name}, line {place.lineno}: {said}"
