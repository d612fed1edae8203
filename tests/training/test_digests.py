"""Runs compute what they computed before, to the bit, however the code around them is arranged."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import processes
from tests.digest_cases import QUICK, RECORD, processor, surroundings

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
def test_runs_of_every_kind_compute_the_same_bits_as_ever(soaking):
    record = json.loads(RECORD.read_text())
    known, there = record.pop("digests"), record.pop("processor")
    if record != surroundings():
        pytest.skip(f"the bits were taken down with {record}, this is {surroundings()}")
    names = list(known) if soaking and there == processor() else list(QUICK)
    answer = subprocess.run(
        [sys.executable, "-m", "tests.digest_cases", *names],
        cwd=ROOT,
        env=processes.environment(devices=2),
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert answer.returncode == 0, answer.stderr
    found = dict(json.loads(line) for line in answer.stdout.splitlines())
    assert found == {name: known[name] for name in names}
