"""Rooms import only what stands below them: the contracts of pyproject.toml, held against the code.

The linter reads folders, and envs/ becomes `azjax.envs` only when installed; so it reads a copy laid out as
the installed package is.
"""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def copied(folder: pathlib.Path) -> pathlib.Path:
    """The folder, with the package in it, laid out as installed."""
    sources = shutil.ignore_patterns("__pycache__", "data", "envs")
    shutil.copytree(ROOT / "azjax", folder / "azjax", ignore=sources)
    shutil.copytree(ROOT / "envs", folder / "azjax" / "envs", ignore=sources)
    return folder


def lint(tree: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = (
        "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    )
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [sys.executable, "-c", command, *options], cwd=tree, capture_output=True, text=True, check=False
    )


def test_every_room_imports_only_what_stands_below_it(tmp_path):
    ran = lint(copied(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr


WRONG = [
    ("envs/hex.py", "import azjax.common.files", "azjax.envs is not allowed to import azjax.common"),
    ("search/core.py", "from azjax import agents", "azjax.search is not allowed to import azjax.agents"),
    ("solvers/core.py", "import azjax.nn", "azjax.solvers is not allowed to import azjax.nn"),
    ("envs/chinese_checkers.py", "import pgx.hex", "azjax is not allowed to import pgx"),
    ("nn/layers.py", "def late():\n    import azjax.nn.networks", "No cycles are allowed in azjax.nn."),
    ("attic.py", "", "attic"),  # a room without a place
]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory) -> str:
    """What is said of a package in which all of these are wrong."""
    tree = copied(tmp_path_factory.mktemp("wrong"))
    for module, line, _ in WRONG:
        with open(tree / "azjax" / module, "a") as file:
            file.write(f"\n{line}\n")
    ran = lint(tree)
    assert ran.returncode == 1
    return ran.stdout


@pytest.mark.parametrize("complaint", [complaint for _, _, complaint in WRONG])
def test_an_import_the_wrong_way_is_found(complaint, complaints):
    assert complaint in complaints, complaints


def test_the_root_may_import_every_room(tmp_path):
    tree = copied(tmp_path)
    rooms = ", ".join(path.parent.name for path in sorted((tree / "azjax").glob("*/__init__.py")))
    with open(tree / "azjax" / "__init__.py", "a") as file:
        file.write(f"\nfrom azjax import {rooms}\n")
    ran = lint(tree)
    assert ran.returncode == 0, ran.stdout + ran.stderr
