"""What runs compute, to the bit: fingerprints of small runs of every kind; also a script, for a process of its own.

python -m tests.digest_cases            # a JSON line for each run: its name and its fingerprint
python -m tests.digest_cases --write    # takes them down in tests/digests.json

Whoever changes what is computed writes them anew, and says why in the commit.
"""

import dataclasses
import json
import pathlib
import platform
import sys
from collections.abc import Callable, Iterator

import jax

from azjax import theses, training
from azjax.common import keys
from azjax.envs import Hex
from azjax.learners.es import ESConfig
from azjax.learners.session import make_sessions
from azjax.learners.td import TDConfig
from azjax.training.config import TrainConfig
from tests.preset_cases import shrunk
from tests.training_cases import SMALL, digest

RECORD = pathlib.Path(__file__).with_name("digests.json")
PRESETS = (
    "hex6",
    "chinese-checkers-4x4",
    "dots-3x3",
    "connect-four",
    "daliri2022/hex6-A3",
    "jacobsen2019/A2",
    "jacobsen2019/D2",
    "karki2024/4x4",
    "peters2018/new-strategies",
)
# What the suite looks at every time. The bits of the larger networks differ from one kind of x86 processor to another,
# so that `make soak` looks at them where they were taken down.
QUICK = ("gumbel, 2 devices", "td", "es")
ITERATIONS = 3


def cases() -> dict[str, Callable[[], str]]:
    """Functions that make a run and return its fingerprint, by name."""
    tiny = {"hidden": (6, 4), "sessions": 2, "iterations": 2, "every": 2, "evaluation_games": 6}
    found = {
        "td": lambda: of_sessions(TDConfig(Hex(3), games=4, **tiny)),
        "es": lambda: of_sessions(ESConfig(Hex(3), games=1, population=6, **tiny)),
    }
    for devices in (1, 2):
        found[f"gumbel, {devices} devices"] = lambda devices=devices: of_run(SMALL, devices)
        for name in PRESETS:
            if devices == 1 or theses.preset(name).replay.groups > 1:
                found[f"{name}, {devices} devices"] = lambda name=name, devices=devices: of_run(
                    in_single_precision(theses.preset(name)), devices
                )
    return found


def in_single_precision(config: TrainConfig) -> TrainConfig:
    """The preset, shrunk; the bits of half precision differ from one kind of x86 machine to another."""
    return dataclasses.replace(shrunk(config), selfplay_dtype="float32")


def of_run(config: TrainConfig, devices: int) -> str:
    """Of everything that a run holds after some iterations."""
    trainer = training.make_trainer(config, training.make_mesh(devices))
    state = trainer.init(keys.root(config.seed, "training"))
    for _ in range(ITERATIONS):
        state, _ = trainer.iteration(state)
    assert int(state.updates) > 0
    return digest(state)


def of_sessions(config: TDConfig | ESConfig) -> str:
    """Of everything that some sessions hold after some points."""
    sessions = make_sessions(config)
    state = sessions.init(keys.root(config.seed, "training"))
    for _ in range(config.iterations):
        state, _ = sessions.iteration(state)
    return digest(state)


def surroundings() -> dict[str, str]:
    """What the bits depend on beside the code."""
    return {"jax": jax.__version__, "machine": platform.machine()}


def processor() -> str:
    """Its name, for the bits that differ between kinds of one machine."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def fingerprints(names: list[str]) -> Iterator[tuple[str, str]]:
    """Name and fingerprint of the cases named, or of all."""
    for name, make in cases().items():
        if not names or name in names:
            yield name, make()


def main(arguments: list[str]) -> None:
    """Prints the fingerprints, or writes them."""
    names = [argument for argument in arguments if argument != "--write"]
    found = {}
    for name, value in fingerprints(names):
        found[name] = value
        print(json.dumps([name, value]), flush=True)
    if "--write" in arguments:
        about = surroundings() | {"processor": processor()}
        RECORD.write_text(json.dumps(about | {"digests": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
