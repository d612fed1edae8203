"""The list of seeded faults: each still fits the code it is about, and names tests that exist."""

import ast
import re

import pytest

from tests.faults.core import ROOT, changed, load

FAULTS = load()


def test_no_two_faults_share_a_name():
    names = [fault.name for fault in FAULTS]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_every_fault_fits_its_file_once_and_leaves_it_readable(file):
    original = (ROOT / file).read_text(encoding="utf-8")
    for fault in FAULTS:
        if fault.file == file:
            assert changed(fault) != original, fault.name
            ast.parse(changed(fault))


def test_every_test_that_should_notice_a_fault_exists():
    for fault in FAULTS:
        assert fault.tests, fault.name
        for test in fault.tests:
            file, _, rest = test.partition("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            name = rest.split("[")[0]
            assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), (fault.name, test)
