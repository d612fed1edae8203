"""Every preset trains, on one device and on two: one of each family in the suite, all of them in `make soak`."""

import json
import pathlib
import subprocess
import sys

import pytest

from azjax import theses
from tests import processes
from tests.preset_cases import ITERATIONS

ROOT = pathlib.Path(__file__).parents[2]
FAMILIES = sorted({name.partition("/")[0] if "/" in name else "quick" for name in theses.preset_names()})


def members(family):
    names = theses.preset_names()
    return [
        name for name in names if name.startswith(f"{family}/") or (family == "quick" and "/" not in name)
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_preset_trains_on_one_device_and_on_two(family, tmp_path, soaking):
    wanted = members(family) if soaking else members(family)[-1:]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.preset_cases", str(tmp_path), *wanted],
        cwd=ROOT,
        env=processes.environment(devices=2),
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert answer.returncode == 0, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    for devices in (1, 2):
        tried = [name for row in rows if row["devices"] == devices for name in row["presets"]]
        assert sorted(tried) == sorted(wanted)
    for row in rows:
        assert row["iterations"] == list(range(1, ITERATIONS + 1)), row
        assert row["updates"] > 0 and row["losses"][-1] > 0 and row["finite"], row
        uses_fewer = "it uses 1 of 2 devices, because replay.groups is 1" in row["said"]
        assert uses_fewer == (row["devices"] == 2 and row["groups"] == 1), row


def test_every_preset_belongs_to_a_family_that_is_tried():
    assert sorted(name for family in FAMILIES for name in members(family)) == sorted(theses.preset_names())
