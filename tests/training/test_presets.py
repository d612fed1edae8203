"""Presets train: one of each family on two devices; in `make soak` all of them, on one device too."""

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
    """The presets that are tried, on how many devices, and a row for each training, all in one process."""
    wanted = [name for family in FAMILIES for name in members(family)[0 if soaking else -1 :]]
    # All else of the suite trains on one device.
    numbers = (1, 2) if soaking else (2,)
    folder, devices = tmp_path_factory.mktemp("presets"), ",".join(map(str, numbers))
    answer = subprocess.run(
        [sys.executable, "-m", "tests.preset_cases", str(folder), devices, *wanted],
        cwd=ROOT,
        env=processes.environment(devices=2) | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
        timeout=4 * 3600,
    )
    assert answer.returncode == 0, answer.stderr
    return wanted, numbers, [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_preset_trains_on_several_devices(family, trained):
    presets, numbers, rows = trained
    wanted = {name for name in presets if name in members(family)}
    assert wanted
    rows = [row for row in rows if wanted & set(row["presets"])]
    for devices in numbers:
        tried = [name for row in rows if row["devices"] == devices for name in row["presets"]]
        assert sorted(name for name in tried if name in wanted) == sorted(wanted)
    for row in rows:
        assert row["iterations"] == list(range(1, ITERATIONS + 1)), row
        assert row["updates"] > 0 and row["losses"][-1] > 0 and row["finite"], row
        uses_fewer = "it uses 1 of 2 devices, because replay.groups is 1" in row["said"]
        assert uses_fewer == (row["devices"] == 2 and row["groups"] == 1), row


def test_every_preset_belongs_to_a_family_that_is_tried():
    assert sorted(name for family in FAMILIES for name in members(family)) == sorted(theses.preset_names())
