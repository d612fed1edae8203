"""Runs on disk: a folder that holds a run whole, so that it can go on where it stopped.

    runs/NAME/config.json     the configuration and the versions it began with
              metrics.jsonl   one line an iteration
              checkpoints/N/  everything after iteration N (orbax; a save appears whole or not at all)
              agent.npz       the newest averaged weights and the configuration: all that play needs

A folder that holds a run is continued or refused, never erased.
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from azjax.config import TrainConfig, config_from_dict, config_to_dict
from azjax.networks import Network, Params, make_network

FORMAT = 2  # changes whenever a field of the configurations changes its name or its meaning
_PACKAGES = ("azjax", "jax", "flax", "optax", "mctx", "pgx", "orbax-checkpoint", "numpy")


class RunError(ValueError):
    """A run folder that cannot be used as asked; the message says what to do."""


class Run:
    """One run's folder; its configuration is a TrainConfig or, of other learners, another with `iterations`."""

    def __init__(self, path: pathlib.Path, config: Any):
        self.path = path
        self.config = config
        options = ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=False)
        self._manager = ocp.CheckpointManager(path.absolute() / "checkpoints", options=options)

    @property
    def iterations(self) -> list[int]:
        """The iterations of which there is a whole checkpoint, oldest first."""
        return sorted(self._manager.all_steps())

    @property
    def snapshots(self) -> list[int]:
        """The iterations of which the weights are kept, oldest first: all that were ever saved."""
        return sorted(int(path.stem) for path in (self.path / "agents").glob("*.npz") if path.stem.isdigit())

    def save_agent(self, iteration: int, params: Params) -> None:
        """Keeps the weights of an iteration, also as the run's newest in agent.npz."""
        (self.path / "agents").mkdir(exist_ok=True)
        for name in (f"agents/{iteration}.npz", "agent.npz"):
            export_agent(self.path / name, self.config, params)

    def load_agent(self, iteration: int) -> Params:
        """The weights of an iteration."""
        if iteration not in self.snapshots:
            raise RunError(f"{self.path} has no weights of iteration {iteration}; there are {self.snapshots}")
        return load_agent(self.path / "agents" / f"{iteration}.npz")[1]

    def save(self, state: Any) -> None:
        """Writes everything; returns when it is safely there."""
        step = int(state.iteration)
        if step not in self.iterations:
            self._manager.save(step, args=ocp.args.StandardSave(state))
            self._manager.wait_until_finished()

    def restore(self, like: Any, iteration: int | None = None) -> Any:
        """Reads a checkpoint.

        Args:
          like: a state, or its shapes with shardings: where the arrays shall go. The mesh need not be the one
            that saved.
          iteration: which; None for the newest.
        """
        known = self.iterations
        if not known:
            raise RunError(f"{self.path} has no checkpoint yet; start it without resuming")
        iteration = known[-1] if iteration is None else iteration
        if iteration not in known:
            raise RunError(f"{self.path} has no checkpoint {iteration}; there are {known}")
        try:
            return self._manager.restore(iteration, args=ocp.args.StandardRestore(like))
        except Exception as error:  # orbax and tensorstore raise many kinds for damaged files
            earlier = [step for step in known if step < iteration]
            offer = (
                f"the previous one is {earlier[-1]}: continue from it with --resume-from {earlier[-1]}"
                if earlier
                else "there is no earlier one: start anew in another folder"
            )
            raise RunError(f"checkpoint {iteration} of {self.path} is damaged ({error}); {offer}") from error

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Adds a line to metrics.jsonl."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a last line cut short by a crash is left out."""
        rows = []
        path = self.path / "metrics.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows

    def forget_metrics_after(self, iteration: int) -> None:
        """Drops the lines of iterations that will be made again."""
        rows = [row for row in self.read_metrics() if row["iteration"] <= iteration]
        _write_whole(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def close(self) -> None:
        """Lets go of the folder."""
        self._manager.close()


def create_run(path: str | os.PathLike, config: Any) -> Run:
    """Makes a folder for a new run; refuses one that is in use."""
    path = pathlib.Path(path)
    if (path / "config.json").exists():
        raise RunError(f"{path} already holds a run; add --resume to continue it, or choose another --out")
    if path.exists() and any(path.iterdir()):
        raise RunError(f"{path} is not empty and holds no run; choose another --out")
    multihost_utils.sync_global_devices("all processes have looked before the first one writes")
    if jax.process_index() == 0:
        _write_about(path, config)
    return Run(path, config)


def _write_about(path: pathlib.Path, config: Any) -> None:
    path.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    about = _about(config) | {"versions": versions}
    _write_whole(path / "config.json", json.dumps(about, indent=1) + "\n")


def open_run(path: str | os.PathLike, config: Any = None, kind: type = TrainConfig) -> Run:
    """Opens the folder of a run.

    Args:
      path: the folder.
      kind: the class of its configuration, where `config` does not tell.
      config: what it is to be continued with. May differ from the run's own in how long it goes on; anything
        else is refused, and the message lists the fields. None takes the run's own.
    """
    path = pathlib.Path(path)
    own = read_config(path, kind if config is None else type(config))
    if config is None:
        return Run(path, own)
    differences = _differences(config_to_dict(own), config_to_dict(config))
    differences.pop("iterations", None)
    if differences:
        listed = "; ".join(
            f"{field}: {old!r} there, {new!r} asked" for field, (old, new) in differences.items()
        )
        raise RunError(
            f"{path} was begun with another configuration ({listed}); use its own, or another --out"
        )
    return Run(path, dataclasses.replace(own, iterations=config.iterations))


def read_config(path: str | os.PathLike, kind: type = TrainConfig) -> Any:
    """The configuration of a run, which must be of class `kind`."""
    path = pathlib.Path(path)
    try:
        about = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} holds no run: there is no config.json in it") from None
    except json.JSONDecodeError as error:
        raise RunError(f"config.json of {path} is damaged ({error}); the run cannot be continued") from None
    return _config_about(path, about, kind)


def export_agent(path: str | os.PathLike, config: Any, params: Params) -> None:
    """Writes weights and configuration alone: all that play needs, loaded in a moment."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    arrays = {f"array:{jax.tree_util.keystr(key)}": np.asarray(leaf) for key, leaf in leaves}
    about = json.dumps(_about(config))
    path = pathlib.Path(path)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, about=np.array(about), **arrays)
    os.replace(partial, path)


def _tower(config: TrainConfig) -> Network:
    return make_network(config.network, config.game)


def load_agent(
    path: str | os.PathLike, kind: type = TrainConfig, network_of: Callable[[Any], Network] = _tower
) -> tuple[Any, Params]:
    """Reads what `export_agent` wrote, or the agent.npz of a run's folder.

    Args:
      path: the file or the folder.
      kind: the class of its configuration.
      network_of: makes the network of a configuration.
    """
    path = pathlib.Path(path)
    path = path / "agent.npz" if path.is_dir() else path
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            arrays = {name: file[name] for name in file.files if name.startswith("array:")}
    except FileNotFoundError:
        raise RunError(f"there is no agent at {path}; a run writes it with its first checkpoint") from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise RunError(f"{path} is not an agent of azjax, or damaged ({error})") from error
    config = _config_about(path, about, kind)
    expected, structure = jax.tree_util.tree_flatten_with_path(
        jax.eval_shape(network_of(config).init, jax.random.key(0))
    )
    names = [f"array:{jax.tree_util.keystr(key)}" for key, _ in expected]
    if set(names) != set(arrays):
        raise RunError(f"{path} holds the weights of another network than its configuration says")
    return config, jax.tree_util.tree_unflatten(structure, [arrays[name] for name in names])


def _about(config: Any) -> dict[str, Any]:
    return {"format": FORMAT, "kind": type(config).__name__, "config": config_to_dict(config)}


def _config_about(path: pathlib.Path, about: dict[str, Any], kind: type) -> Any:
    if about.get("format") != FORMAT:
        raise RunError(
            f"{path} has format {about.get('format')}, this azjax reads {FORMAT}: use the azjax that"
            " wrote it (the run's config.json names its version), or train anew"
        )
    written = about.get("kind", TrainConfig.__name__)
    if written != kind.__name__:
        raise RunError(f"{path} belongs to a run with a {written}, expected one with a {kind.__name__}")
    return config_from_dict(about["config"], kind)


def _write_whole(path: pathlib.Path, content: str) -> None:
    # A crash leaves the old file or the new one, never half of one.
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _differences(old: dict, new: dict, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    found = {}
    for field in sorted(old.keys() | new.keys()):
        a, b = old.get(field), new.get(field)
        if isinstance(a, dict) and isinstance(b, dict):
            found |= _differences(a, b, f"{prefix}{field}.")
        elif a != b:
            found[prefix + field] = (a, b)
    return found
