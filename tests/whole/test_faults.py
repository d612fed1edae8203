"""The list of seeded faults: each still fits the code it is about, and names tests that exist."""

import ast
import json
import re

import pytest

from tests.faults.__main__ import RESULTS, table
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


def test_the_readme_tells_what_became_of_the_faults():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    readme = RESULTS.with_name("README.md").read_text(encoding="utf-8")
    assert table(results) in readme, (
        f"put this into README.md, and see to what stands below it:\n{table(results)}"
    )
    names = {fault.name for fault in FAULTS}
    told = {name for name in names if f"`{name}`" in readme}
    missed = {name for name, row in results["faults"].items() if "survived" in (row["first"], row["outcome"])}
    assert missed & names <= told
