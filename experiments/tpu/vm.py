"""A study on a TPU VM of Google Cloud, from the request to the last file; each step is one command.

    python -m experiments.tpu.vm create --name az --zone us-central1-a --spot     # waits in the queue, then starts
    python -m experiments.tpu.vm install --name az --zone us-central1-a           # this checkout, on all workers
    python -m experiments.tpu.vm run --name az --zone us-central1-a --command "azjax train hex6 --out runs/hex6"
    python -m experiments.tpu.vm follow --name az --zone us-central1-a            # the log, until Ctrl-C
    python -m experiments.tpu.vm fetch --name az --zone us-central1-a --folder runs/hex6
    python -m experiments.tpu.vm delete --name az --zone us-central1-a            # from now on it costs nothing

`--dry-run` prints what would be run, and runs nothing. It needs `gcloud`, logged in, with a project chosen.
"""

import dataclasses
import shlex
import subprocess
from typing import Annotated, Literal

import tyro

RUNTIMES = {  # what Google calls the system on each kind of TPU
    "v5litepod": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
    "v4": "tpu-ubuntu2204-base",
}
PYTHON = "3.12"  # uv fetches it: the systems' own is 3.10, which neither JAX nor azjax supports
HOME = "azjax-study"  # the folder on every worker
PACKED = "/tmp/azjax-study.tar.gz"
RESUME_ME = 75  # the exit code of a run that SIGTERM has stopped and saved

Command = list[str]


@dataclasses.dataclass(frozen=True)
class Config:
    """What to do, and where."""

    step: Annotated[Literal["create", "install", "run", "follow", "fetch", "delete"], tyro.conf.Positional]
    name: str  # of the VM
    zone: str
    accelerator: str = "v5litepod-8"  # kind and number of chips, as Google names them
    spot: bool = False  # cheaper, and taken away when others need it: a run then is resumed
    command: str = ""  # run: what is run on all workers at once, such as "azjax train hex6 --out runs/hex6"
    folder: str = "runs"  # fetch: what to bring back, from the first worker
    dry_run: bool = False  # print the commands, and run none


def commands(config: Config) -> list[Command]:
    """What a step runs, in order; each must end well before the next begins."""
    return {
        "create": create,
        "install": install,
        "run": run,
        "follow": follow,
        "fetch": fetch,
        "delete": delete,
    }[config.step](config)


def create(config: Config) -> list[Command]:
    """Asks for the VM, which comes when its turn has come: `gcloud` then says ACTIVE."""
    kind = config.accelerator.rpartition("-")[0]
    if kind not in RUNTIMES:
        raise ValueError(
            f"accelerator must be of {', '.join(RUNTIMES)}, as in v5litepod-8; got {config.accelerator}"
        )
    asked = [
        *("gcloud", "compute", "tpus", "queued-resources", "create", config.name),
        *("--node-id", config.name, "--zone", config.zone),
        *("--accelerator-type", config.accelerator, "--runtime-version", RUNTIMES[kind]),
    ]
    state = ["gcloud", "compute", "tpus", "queued-resources", "describe", config.name]
    state += ["--zone", config.zone, "--format", "value(state.state)"]
    return [asked + (["--spot"] if config.spot else []), state]


def install(config: Config) -> list[Command]:
    """Packs what is committed here, and installs it with JAX for TPUs on all workers."""
    steps = (
        f"mkdir -p {HOME}",
        f"tar -xzf {PACKED} -C {HOME}",
        f"cd {HOME}",
        "python3 -m pip install --quiet --user uv",
        f"python3 -m uv venv --quiet --clear --python {PYTHON} .venv",
        "python3 -m uv pip install --quiet --python .venv --constraint constraints.txt '.[plots,gcs]' 'jax[tpu]'",
        ".venv/bin/azjax --version",
    )
    return [
        ["git", "archive", "--format", "tar.gz", "--output", PACKED, "HEAD"],
        _copy(config, PACKED, f"{config.name}:{PACKED}", worker="all"),
        _remote(config, " && ".join(steps), worker="all"),
    ]


def run(config: Config) -> list[Command]:
    """Starts the command on all workers at once, and leaves it running; it is begun again where SIGTERM stopped it.

    A training is told to find the other workers, and to go on with what there is.
    """
    words = shlex.split(config.command)
    if not words:
        raise ValueError("say what to run, as in --command 'azjax train hex6 --out runs/hex6'")
    if words[:2] == ["azjax", "train"]:
        words += ["--resume", "auto", "--distributed", "auto,600"]
    program = f"export PATH=$PWD/.venv/bin:$PATH; until {shlex.join(words)}; do [ $? = {RESUME_ME} ] || exit 1; done"
    detached = f"nohup sh -c {shlex.quote(program)} > study.log 2>&1 < /dev/null &"
    return [_remote(config, f"cd {HOME} && {{ {detached} }}", worker="all")]


def follow(config: Config) -> list[Command]:
    """Shows the log of the first worker as it grows."""
    return [_remote(config, f"tail -n 100 -F {HOME}/study.log", worker="0")]


def fetch(config: Config) -> list[Command]:
    """Brings a folder back from the first worker, which alone writes."""
    return [_copy(config, f"{config.name}:{HOME}/{config.folder}", ".", worker="0")]


def delete(config: Config) -> list[Command]:
    """Gives the VM back, with its disk."""
    gone = ["gcloud", "compute", "tpus", "queued-resources", "delete", config.name]
    return [[*gone, "--zone", config.zone, "--force", "--quiet"]]


def _remote(config: Config, command: str, worker: str) -> Command:
    where = ["gcloud", "compute", "tpus", "tpu-vm", "ssh", config.name, "--zone", config.zone]
    return [*where, "--worker", worker, "--command", command]


def _copy(config: Config, source: str, target: str, worker: str) -> Command:
    where = ["gcloud", "compute", "tpus", "tpu-vm", "scp", "--recurse", source, target]
    return [*where, "--zone", config.zone, "--worker", worker]


def main(config: Config) -> None:
    """Runs the commands of a step, or prints them."""
    for command in commands(config):
        print(shlex.join(command), flush=True)
        if not config.dry_run:
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
