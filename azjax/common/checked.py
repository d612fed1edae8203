"""Settings that check themselves: every field of a frozen dataclass against its type, when it is built.

    class SearchConfig(Checked, part="search"):
        kind: Literal["gumbel", "puct"] = "gumbel"
        simulations: Count = 16

`SearchConfig(kind="gumble")` and `SearchConfig(simulations=2.5)` raise a `ConfigError` that names the field. What a
type cannot say is a rule beside it, as in `Count = Annotated[int, at_least(1)]`, or `check` by hand.
"""

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

LARGEST = 2**31 - 1  # numbers go into arrays of 32 bits


class ConfigError(ValueError):
    """A setting that makes no sense; the message names the field and what is allowed."""


class Rule(NamedTuple):
    """What a number must be, beside its type."""

    allowed: str
    holds: Callable[[float], bool]

    def __repr__(self) -> str:
        return self.allowed  # tyro shows it to people


def at_least(least: float) -> Rule:
    """Numbers from `least`."""
    return Rule(f"at least {least:,}", lambda value: value >= least)


def at_most(most: float) -> Rule:
    """Numbers up to `most`."""
    return Rule(f"at most {most:,}", lambda value: value <= most)


def above(bound: float) -> Rule:
    """Numbers larger than `bound`."""
    return Rule(f"above {bound:,}", lambda value: value > bound)


def between(least: float, most: float) -> Rule:
    """Numbers from `least` to `most`."""
    return Rule(f"between {least:,} and {most:,}", lambda value: least <= value <= most)


Count = Annotated[int, at_least(1), at_most(LARGEST)]
Number = Annotated[int, at_least(0), at_most(LARGEST)]
Share = Annotated[float, between(0, 1)]
SomeShare = Annotated[float, Rule("above 0 and at most 1", lambda value: 0 < value <= 1)]
Positive = Annotated[float, above(0)]
FromZero = Annotated[float, at_least(0)]
Decay = Annotated[float, Rule("at least 0 and below 1", lambda value: 0 <= value < 1)]
# JAX takes the lowest 32 bits of a seed, so that larger ones would repeat smaller ones in silence.
Seed = Annotated[int, between(0, 2**32 - 1)]


class Checked:
    """The base of dataclasses whose fields are checked when they are built.

    A class with rules of its own calls `super().__post_init__()` first. `part` stands before the names of fields in
    messages, as in `search.simulations`.
    """

    _part: typing.ClassVar[str] = ""

    def __init_subclass__(cls, part: str = "", **options):
        super().__init_subclass__(**options)
        if part:
            cls._part = f"{part}."

    def __post_init__(self):
        check_fields(self, self._part)


def check(condition: bool, field: str, allowed: str, value: Any) -> None:
    """Raises ConfigError, which names the field, unless the condition holds."""
    if not condition:
        raise ConfigError(f"{field} must be {allowed}, got {shown(value)}")


def check_fields(settings: Any, prefix: str = "") -> None:
    """Raises ConfigError unless every field of a dataclass fits its type; `prefix` stands before names of fields."""
    for name, hint in _hints(type(settings)).items():
        check_value(prefix + name, hint, getattr(settings, name))


def check_value(field: str, hint: Any, value: Any) -> None:
    """Raises ConfigError, which names the field, unless the value fits a type.

    Whole numbers are no floats and no flags; a float may be given as a whole number but must be finite. Types that
    are none of numbers, flags, texts, choices, tuples, classes and unions of them are not checked.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        if arguments[0] is int:
            _check_whole(field, value)  # its rules say how large it may be
        else:
            check_value(field, arguments[0], value)
        for rule in arguments[1:]:
            if isinstance(rule, Rule):
                check(rule.holds(value), field, rule.allowed, value)
    elif origin is Literal:
        fits = any(type(value) is type(choice) and value == choice for choice in arguments)
        check(fits, field, f"one of {', '.join(map(repr, arguments))}{similar(value, arguments)}", value)
    elif origin in (typing.Union, types.UnionType):
        _check_union(field, arguments, value)
    elif hint is Any:
        pass  # its rules say all there is
    elif hint is bool:
        check(isinstance(value, bool), field, "True or False", value)
    elif hint is int:
        _check_whole(field, value)
        check(abs(value) <= LARGEST, field, f"between {-LARGEST:,} and {LARGEST:,}", value)
    elif hint is float:
        check(isinstance(value, int | float) and not isinstance(value, bool), field, "a number", value)
        check(is_finite(value), field, "a finite number", value)
    elif hint is str:
        check(isinstance(value, str), field, "a text", value)
    elif hint is dict:
        check(isinstance(value, dict), field, "an object with named fields", value)
    elif origin is tuple:
        check(isinstance(value, tuple), field, "a tuple", value)
        for number, part in enumerate(value):
            check_value(f"{field}[{number}]", arguments[0], part)
    elif isinstance(hint, type):
        check(isinstance(value, hint), field, f"a {hint.__name__}", value)


def build(
    kind: type, fields: Any, what: str, convert: Mapping[str, Callable[[Any], Any]] | None = None
) -> Any:
    """The dataclass `kind` of plain data, as JSON has it; parts that are dataclasses are built likewise.

    Args:
      kind: what to build.
      fields: the names and values of its fields, all of them that have no default.
      what: names the data in messages.
      convert: how to build fields that are of no one class.

    Raises:
      ConfigError: names what is unknown, missing or wrong.
    """
    check(isinstance(fields, dict), what, "an object with named fields", fields)
    known = {field.name: field for field in dataclasses.fields(kind)}
    for name in fields:
        if name not in known:
            raise ConfigError(
                f"{what} has an unknown field {shown(name)}{similar(name, known)}; there are {', '.join(known)}"
            )
    required = [name for name, field in known.items() if _has_no_default(field) and name not in fields]
    if required:
        raise ConfigError(f"{what} lacks the field {', '.join(required)}")
    hints, built = _hints(kind), {}
    for name, value in fields.items():
        if convert and name in convert:
            built[name] = convert[name](value)
        elif dataclasses.is_dataclass(hints[name]):
            built[name] = build(hints[name], value, name)
        else:
            built[name] = tuple(value) if isinstance(value, list) else value  # JSON knows no tuples
    return kind(**built)


def similar(name: Any, known: Iterable[str]) -> str:
    """` (did you mean X?)` if one of the known names is much like this one, else nothing."""
    texts = [choice for choice in known if isinstance(choice, str)]
    close = difflib.get_close_matches(name, texts, n=1) if isinstance(name, str) else ()
    return f" (did you mean {close[0]}?)" if close else ""


def shown(value: Any) -> str:
    """A value in a message: as Python writes it, cut short if that is long."""
    if isinstance(value, int) and abs(value) >= 10**60:
        return "a number of more than 60 digits"  # which Python may refuse to write
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"


def is_finite(value: float) -> bool:
    """Whether a number is neither NaN nor infinite, nor a whole number beyond all floats."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _check_whole(field: str, value: Any) -> None:
    check(isinstance(value, int) and not isinstance(value, bool), field, "a whole number", value)


def _check_union(field: str, kinds: tuple[Any, ...], value: Any) -> None:
    some = [kind for kind in kinds if kind is not types.NoneType]
    if value is None and len(some) < len(kinds):
        return
    if len(some) == 1:
        check_value(field, some[0], value)
        return
    names = ", ".join(kind.__name__ for kind in some)
    check(isinstance(value, tuple(some)), field, f"one of {names}", value)


def _has_no_default(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
