"""Networks that come with azjax, by name: `az:hex3` and `net:hex3` play without training.

Each is a file of weights in half precision, data/networks/NAME.npz, beside its card, NAME.json, which says how it was
trained and how strong it is; `azjax.evaluation.cards` reads, makes and checks cards.
"""

import importlib.resources
import os
import pathlib


def folder() -> pathlib.Path:
    """Where the ready networks lie."""
    return pathlib.Path(str(importlib.resources.files("azjax") / "data" / "networks"))


def ready_networks() -> dict[str, pathlib.Path]:
    """The files of the networks that come with azjax, by name."""
    return {path.stem: path for path in sorted(folder().glob("*.npz"))}


def find(run: str | os.PathLike) -> pathlib.Path:
    """Where the weights of a run are: in a folder, in a file, or in the ready network of this name.

    What is there comes first: whoever trained into a folder `hex3` means that one.
    """
    path = pathlib.Path(run)
    if path.is_file() or (path / "agent.npz").exists():
        return path
    return ready_networks().get(os.fspath(run), path)
