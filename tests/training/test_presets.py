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


@pytest.fixture(scope="module")
def trained(tmp_path_factory, soaking):
    """The presets that are tried, and a row for each of their trainings, all in one process."""
    wanted = [name for family in FAMILIES for name in members(family)[0 if soaking else -1 :]]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.preset_cases", str(tmp_path_factory.mktemp("presets")), *wanted],
        cwd=ROOT,
        env=processes.environment(devices=2) | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
        timeout=4 * 3600,
    )
    assert answer.returncode == 0, answer.stderr
    return wanted, [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_preset_trains_on_one_device_and_on_two(family, trained):
    wanted = {name for name in trained[0] if name in members(family)}
    assert wanted
    rows = [row for row in trained[1] if wanted & set(row["presets"])]
    for devices in (1, 2):
        tried = [name for row in rows if row["devices"] == devices for name in row["presets"]]
        assert sorted(name for name in tried if name in wanted) == sorted(wanted)
    for row in rows:
        assert row["iterations"] == list(range(1, ITERATIONS + 1)), row
        assert row["updates"] > 0 and row["losses"][-1] > 0 and row["finite"], row
        uses_fewer = "it uses 1 of 2 devices, because replay.groups is 1" in row["said"]
        assert uses_fewer == (row["devices"] == 2 and row["groups"] == 1), row


def test_every_preset_belongs_to_a_family_that_is_tried():
    assert sorted(name for family in FAMILIES for name in members(family)) == sorted(theses.preset_names())
