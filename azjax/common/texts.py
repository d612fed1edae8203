"""Texts that name things: `NAME[:ARGUMENT][?OPTION=VALUE&...]`, as in `az:runs/hex6?sims=200&search=puct`.

Agents, judges and openings are named so. Each kind of thing has a table of forms, from a name to what may follow it,
which `register` adds to; `parse` reads a text by such a table. Nothing is imported or executed because of a text.

An argument may have question marks of its own, because it is a command line or names an agent in turn. Its form then
has a `separator`: only the last one that is followed by one of the form's own options begins them.
"""

import dataclasses
import math
import re
import string
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from azjax.common.checked import shown, similar

Reader = Callable[[str], Any]
"""Reads the value of an option; raises ValueError with what it must be, as in "must be 0 or 1"."""

_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-_")
_LONGEST_NUMBER = 18  # digits; Python refuses to read very long ones


class TextError(ValueError):
    """A text that names nothing; the message says what would."""


class Form(Protocol):
    """What may follow a name."""

    @property
    def argument(self) -> str:
        """What stands behind the colon, such as "N", for people; empty if nothing does."""

    @property
    def options(self) -> Mapping[str, Reader]:
        """How the value of each option is read."""

    @property
    def separator(self) -> str:
        """What begins the options behind an argument with question marks of its own; empty for the first of them."""


@dataclasses.dataclass(frozen=True)
class PlainForm:
    """A form that is nothing else."""

    argument: str = ""
    options: Mapping[str, Reader] = dataclasses.field(default_factory=dict)
    separator: str = ""


class Text(NamedTuple):
    """A text in its parts."""

    name: str
    argument: str  # empty if there is none
    options: dict[str, Any]  # as they were read


def parse(text: str, forms: Mapping[str, Form], what: str) -> Text:
    """Reads a text.

    Args:
      text: what somebody wrote.
      forms: those there are, by name.
      what: the text should name, such as "agent".

    Raises:
      TextError: there is no such name, the argument is missing or too much, or an option is wrong.
    """
    name = name_of(text)
    form = forms.get(name)
    if form is None:
        raise TextError(f"{shown(text)} names no {what}{similar(name, forms)}. {there_are(forms)}")
    whole, options = _split(text, form)
    _, colon, argument = whole.partition(":")
    if bool(form.argument) != bool(argument) or (colon and not argument):
        raise TextError(
            f"{shown(text)} is incomplete or has too much: write {_call(name, form)}. {there_are(forms)}"
        )
    return Text(name, argument, _read_options(name, form, options))


def name_of(text: str) -> str:
    """The name that a text begins with."""
    return re.split("[:?]", text, maxsplit=1)[0]


def there_are(forms: Mapping[str, Form]) -> str:
    """A sentence with all names."""
    return f"There are {', '.join(_call(name, form) for name, form in forms.items())}"


def manual(name: str, form: Form, about: str) -> str:
    """How a text of this form is written and what it stands for, in lines of at most 80 columns, for --help."""
    lines = [f"  {_call(name, form)}", *_indented(about)]
    if form.options:
        lines += _indented(f"options, behind {form.separator or '?'}: {', '.join(form.options)}")
    return "\n".join(lines)


def register(forms: dict[str, Any], name: str, form: Form, what: str) -> None:
    """Adds a form to a table; raises ValueError if the name is taken or cannot stand in a text."""
    if not isinstance(name, str) or not name or not set(name) <= _NAME_CHARACTERS:
        raise ValueError(
            f"names of {what}s consist of letters, digits, - and _, such as my-{what}, got {shown(name)}"
        )
    if name in forms:
        raise ValueError(f"the name {name} is taken among {what}s; choose another")
    forms[name] = form


def reader_of(kind: type | Reader) -> Reader:
    """A reader as it is, and for int, float and bool one whose errors are sentences."""
    return {int: whole_number, float: real_number, bool: flag}.get(kind, kind)


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER or int(text) < 1:
        raise ValueError("must be a whole number from 1")
    return int(text)


def whole_number(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"-?[0-9]+", text) or len(text) > _LONGEST_NUMBER:
        raise ValueError("must be a whole number")
    return int(text)


def real_number(text: str) -> float:
    """A finite number."""
    number = _float(text)
    if not math.isfinite(number):
        raise ValueError("must be a number")
    return number


def number_from_0(text: str) -> float:
    """A number from 0 to 1e9, which a float of 32 bits still multiplies with."""
    number = _float(text)
    if not 0 <= number <= 1e9:
        raise ValueError("must be a number from 0 to 1e9")
    return number


def seconds(text: str) -> float:
    """A time above 0."""
    if number_from_0(text) == 0:
        raise ValueError("must be above 0")
    return number_from_0(text)


def flag(text: str) -> bool:
    """0 or 1."""
    if text not in ("0", "1"):
        raise ValueError("must be 0 or 1")
    return text == "1"


def one_of(*choices: str) -> Reader:
    """One of some words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return read


def several(reader: Reader) -> Reader:
    """Values separated by commas, as a tuple."""

    def read(text: str) -> tuple:
        try:
            return tuple(reader(part) for part in text.split(","))
        except ValueError as error:
            raise ValueError(f"must be one or several, separated by commas, and each {error}") from error

    return read


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _call(name: str, form: Form) -> str:
    return f"{name}:{form.argument}" if form.argument else name


def _split(text: str, form: Form) -> tuple[str, str]:
    """Name and argument, and the options behind them."""
    if not form.separator:
        whole, _, options = text.partition("?")
        return whole, options
    if not form.options:
        return text, ""
    known = "|".join(map(re.escape, form.options))
    match = re.fullmatch(rf"(.*){re.escape(form.separator)}((?:{known})=.*)", text, re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def _read_options(name: str, form: Form, text: str) -> dict[str, Any]:
    options = {}
    for part in text.split("&") if text else ():
        option, _, value = part.partition("=")
        if option not in form.options:
            its = f"its options are {', '.join(form.options)}" if form.options else "it has none"
            raise TextError(f"{name} has no option {option!r}{similar(option, form.options)}; {its}")
        if option in options:
            raise TextError(f"{option} of {name} is given twice; give it once")
        try:
            options[option] = form.options[option](value)
        except ValueError as error:
            raise TextError(f"{option} of {name} {error}, got {value!r}") from error
    return options


def _indented(sentence: str) -> list[str]:
    return textwrap.wrap(
        sentence, 80, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
    )
