"""What the scripts for TPU VMs and Slurm would run; there is neither here, so stand-ins note how they are called."""

import os
import pathlib
import shlex
import subprocess
import tomllib

import pytest

from experiments.tpu import vm

ROOT = pathlib.Path(__file__).parents[2]
WHERE = {"name": "az", "zone": "us-central1-a"}


def stand_in(folder, name, body):
    """A program of that name."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_vm_is_asked_for_with_the_system_of_its_kind():
    asked, state = vm.commands(vm.Config("create", **WHERE, accelerator="v6e-16", spot=True))
    assert shlex.join(asked) == (
        "gcloud compute tpus queued-resources create az --node-id az --zone us-central1-a"
        " --accelerator-type v6e-16 --runtime-version v2-alpha-tpuv6e --spot"
    )
    assert "describe" in state
    with pytest.raises(ValueError, match="accelerator must be of v5litepod"):
        vm.commands(vm.Config("create", **WHERE, accelerator="h100"))


def test_a_dry_run_prints_every_step_and_runs_none(capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: pytest.fail("something was run"))
    for step in ("create", "install", "run", "follow", "fetch", "delete"):
        vm.main(vm.Config(step, **WHERE, command="azjax train hex3", dry_run=True))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all(line.startswith(("gcloud compute tpus ", "git archive ")) for line in lines)
    assert [shlex.split(line)[4] for line in lines if "queued-resources" in line] == [
        "create",
        "describe",
        "delete",
    ]


def test_a_worker_whose_own_python_is_too_old_gets_another(tmp_path, monkeypatch):
    """The command as a worker's shell gets it, with a Python that has no venv and only notes what uv shall do."""
    monkeypatch.setattr(vm, "PACKED", str(tmp_path / "packed.tar.gz"))
    pack, _, step = vm.commands(vm.Config("install", **WHERE))
    (tmp_path / "constraints.txt").touch()
    subprocess.run(["tar", "-czf", pack[-2], "constraints.txt"], cwd=tmp_path, check=True)
    made = "mkdir -p .venv/bin; ln -s /bin/true .venv/bin/azjax"
    stand_in(tmp_path, "python3", f'echo "$@" >> calls; [ "$2 $3" != "uv venv" ] || {{ {made}; }}')
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", step[-1]], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    calls = (tmp_path / vm.HOME / "calls").read_text().splitlines()
    assert [call.split()[:4] for call in calls] == [
        ["-m", "pip", "install", "--quiet"],
        ["-m", "uv", "venv", "--quiet"],
        ["-m", "uv", "pip", "install"],
    ]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    asked = calls[1].split()[calls[1].split().index("--python") + 1]
    assert tuple(map(int, asked.split("."))) >= tuple(map(int, needed.removeprefix(">=").split(".")))
    assert "--constraint constraints.txt .[plots,gcs] jax[tpu]" in calls[2]


def test_what_runs_on_a_worker_goes_on_after_sigterm_and_stops_at_an_error(tmp_path):
    """The command as a worker's shell gets it, with an azjax that is preempted twice."""
    (tmp_path / vm.HOME / ".venv" / "bin").mkdir(parents=True)
    body = 'echo "$@" >> calls; [ $(wc -l < calls) = {times} ] && exit {last}; exit 75'
    (step,) = vm.commands(vm.Config("run", **WHERE, command="azjax train hex3 --out 'runs/a b'"))
    assert step[-4:-1] == ["--worker", "all", "--command"]
    for times, last in ((3, 0), (2, 2)):
        stand_in(tmp_path / vm.HOME / ".venv" / "bin", "azjax", body.format(times=times, last=last))
        calls = tmp_path / vm.HOME / "calls"
        calls.unlink(missing_ok=True)
        subprocess.run(["sh", "-c", f"{step[-1]}\nwait"], cwd=tmp_path, check=True, timeout=60)
        assert (
            calls.read_text().splitlines()
            == ["train hex3 --out runs/a b --resume auto --distributed auto,600"] * times
        )


@pytest.mark.parametrize(("code", "queued_again"), [(0, False), (75, True), (2, False)])
def test_a_job_of_slurm_is_queued_again_only_where_it_was_preempted(tmp_path, code, queued_again):
    stand_in(tmp_path, "srun", f'echo "$@" > srun.called; exit {code}')
    stand_in(tmp_path, "scontrol", 'echo "$@" > scontrol.called')
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [ROOT / "experiments" / "tpu" / "slurm.sh", "hex6", "--out", "/shared/runs/a b"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "SLURM_JOB_ID": "17"},
        check=False,
    )
    assert done.returncode == code
    assert (
        (tmp_path / "srun.called")
        .read_text()
        .endswith("--out /shared/runs/a b --resume auto --distributed auto,600\n")
    )
    assert (tmp_path / "scontrol.called").exists() is queued_again
    if queued_again:
        assert (tmp_path / "scontrol.called").read_text() == "requeue 17\n"
