"""The one form of texts that name things: what is read from them, and what is refused with which sentence."""

import pytest

from azjax.common import texts
from azjax.training import openings

FORMS = {
    "plain": texts.PlainForm(),
    "count": texts.PlainForm("N", {"c": texts.number_from_0, "solve": texts.flag, "kind": texts.one_of("a", "b")}),
    "command": texts.PlainForm("COMMAND", {"timeout": texts.seconds}, separator="?"),
    "nested": texts.PlainForm("AGENT", {"c": texts.real_number, "sizes": texts.several(texts.count)}, separator="??"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("plain", "", {})),
        ("count:20", ("count", "20", {})),
        ("count:20?c=2&solve=1", ("count", "20", {"c": 2.0, "solve": True})),
        ("count:a:b?kind=a", ("count", "a:b", {"kind": "a"})),
        # Whatever a command line holds is the command's, but for what looks like one of the options.
        ("command:what? --x=1?y", ("command", "what? --x=1?y", {})),
        ("command:a?b?timeout=3", ("command", "a?b", {"timeout": 3.0})),
        # One question mark belongs to the agent, two to whoever holds it.
        ("nested:uct:9?c=1", ("nested", "uct:9?c=1", {})),
        ("nested:uct:9?c=1??c=-2.5&sizes=3,4", ("nested", "uct:9?c=1", {"c": -2.5, "sizes": (3, 4)})),
        ("nested:uct:9??c=3", ("nested", "uct:9", {"c": 3.0})),
    ],
)
def test_a_text_has_a_name_an_argument_and_options(text, expected):
    assert texts.parse(text, FORMS, "thing") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plane", r"^'plane' names no thing \(did you mean plain\?\)\. There are plain, count:N, command:COMMAND"),
        ("", "^'' names no thing"),
        ("x" * 1000, r"\.\.\. \(1,002 characters\) names no thing"),
        ("plain:3", "'plain:3' is incomplete or has too much: write plain"),
        ("plain:", "write plain"),
        ("count", "write count:N"),
        ("count:?c=1", "write count:N"),
        ("plain?c=1", "plain has no option 'c'; it has none"),
        ("count:1?sovle=1", r"count has no option 'sovle' \(did you mean solve\?\); its options are c, solve, kind"),
        ("count:1?c=1&c=2", "c of count is given twice"),
        ("count:1?c=-1", "c of count must be a number from 0 to 1e9, got '-1'"),
        ("count:1?solve=yes", "solve of count must be 0 or 1, got 'yes'"),
        ("count:1?kind=c", "kind of count must be one of a, b, got 'c'"),
        ("command:x?timeout=0", "timeout of command must be above 0"),
        ("nested:x??c=nan", "c of nested must be a number, got 'nan'"),
        ("nested:x??sizes=3,0", "separated by commas, and each must be a whole number from 1, got '3,0'"),
    ],
)  # fmt: skip
def test_a_wrong_text_is_told_what_would_be_right(text, message):
    with pytest.raises(texts.TextError, match=message):
        texts.parse(text, FORMS, "thing")


def test_python_types_are_read_with_sentences_too():
    for kind, good, value, bad in (
        (int, "-3", -3, "3.5"),
        (float, "1e2", 100.0, "inf"),
        (bool, "0", False, "no"),
    ):
        reader = texts.reader_of(kind)
        assert reader(good) == value
        with pytest.raises(ValueError, match=r"^must be "):
            reader(bad)
    assert texts.reader_of(str) is str


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a?b", "ä", 3])
def test_names_that_cannot_stand_in_a_text_are_not_registered(name):
    with pytest.raises(ValueError, match=r"names of things consist of letters, digits, - and _"):
        texts.register({}, name, texts.PlainForm(), "thing")


def test_a_name_is_registered_once():
    forms = {}
    texts.register(forms, "mine", texts.PlainForm(), "thing")
    with pytest.raises(ValueError, match="the name mine is taken among things; choose another"):
        texts.register(forms, "mine", texts.PlainForm(), "thing")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", ("none", "")),
        ("A123", ("A123", "")),
        ("U", ("U", "")),
        ("R8", ("R", "8")),
        ("R:8", ("R", "8")),
        ("R8.jsonl", ("file", "R8.jsonl")),
        ("a folder/who? me?x=1.jsonl", ("file", "a folder/who? me?x=1.jsonl")),
        ("file:openings.jsonl", ("file", "openings.jsonl")),
    ],
)
def test_openings_are_read_in_the_same_place(kind, expected):
    assert openings.parse_kind(kind)[:2] == expected
    assert openings.is_kind(kind)


@pytest.mark.parametrize(
    "kind", ["", "A4", "R", "R0", "R-1", "R123456789", "R8?c=1", "none:1", "file:x", "U8"]
)
def test_other_openings_are_refused(kind):
    assert not openings.is_kind(kind)
