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


@pytest.fixture
def tree(tmp_path) -> pathlib.Path:
    """A folder with the package in it, laid out as installed."""
    sources = shutil.ignore_patterns("__pycache__", "data", "envs")
    shutil.copytree(ROOT / "azjax", tmp_path / "azjax", ignore=sources)
    shutil.copytree(ROOT / "envs", tmp_path / "azjax" / "envs", ignore=sources)
    return tmp_path


def lint(tree: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = (
        "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    )
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [sys.executable, "-c", command, *options], cwd=tree, capture_output=True, text=True, check=False
    )


def test_every_room_imports_only_what_stands_below_it(tree):
    ran = lint(tree)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("module", "line", "complaint"),
    [
        ("envs/hex.py", "import azjax.common.files", "azjax.envs is not allowed to import azjax.common"),
        ("search/core.py", "from azjax import agents", "azjax.search is not allowed to import azjax.agents"),
        ("solvers/core.py", "import azjax.nn", "azjax.solvers is not allowed to import azjax.nn"),
        ("envs/hex.py", "import pgx.hex", "azjax is not allowed to import pgx"),
        ("nn/layers.py", "def late():\n    import azjax.nn.networks", "however far away BROKEN"),
        ("attic.py", "", "attic"),  # a room without a place
    ],
)
def test_an_import_the_wrong_way_is_found(tree, module, line, complaint):
    with open(tree / "azjax" / module, "a") as file:
        file.write(f"\n{line}\n")
    ran = lint(tree)
    assert ran.returncode == 1
    assert complaint in ran.stdout, ran.stdout


def test_the_root_may_import_every_room(tree):
    rooms = ", ".join(path.parent.name for path in sorted((tree / "azjax").glob("*/__init__.py")))
    with open(tree / "azjax" / "__init__.py", "a") as file:
        file.write(f"\nfrom azjax import {rooms}\n")
    ran = lint(tree)
    assert ran.returncode == 0, ran.stdout + ran.stderr
