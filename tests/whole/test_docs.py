"""The pages: they build, link to what there is, and their programs run."""

import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

import azjax
from tests.processes import environment

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")])
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
MODULES = ("agents", "envs", "evaluation", "nn", "plots", "search", "solvers", "training")


def run(*arguments: str | os.PathLike, folder: pathlib.Path) -> str:
    """What a Python program prints; it must end well."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def without_code(text: str) -> str:
    """A page without its code blocks, fenced or indented."""
    fenced = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^    .*$", "", fenced, flags=re.MULTILINE)


def test_pages_build_without_warnings(tmp_path):
    run("-m", "sphinx", "-W", "-q", "-d", tmp_path / "cache", "-b", "html", DOCS, tmp_path, folder=ROOT)
    assert "Chomp" in (tmp_path / "own-game.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    # Sphinx sees the pages in docs/ alone, and warns of no file that is missing outside.
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        file = page if not path else page.parent / path
        assert file.exists(), f"{page.name} links to {target}, which is not there"
        if heading:
            text = file.read_text(encoding="utf-8")
            named = re.findall(r"^\((.*)\)=$", text, re.MULTILINE)
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings]
            assert heading in slugs + named, f"{page.name} links to {target}, which has no such heading"


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(example, tmp_path):
    printed = run("-W", "error::SyntaxWarning", example, tmp_path / "run", folder=tmp_path)
    assert re.search(
        r"against\s+(random|central)", printed
    )  # each plays a match; its title may be broken in lines


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_shown_on_a_page(example):
    assert any(
        f"{{literalinclude}} examples/{example.name}" in page.read_text(encoding="utf-8") for page in PAGES
    )


def test_readme_has_600_to_800_words():
    # Tables and code apart; the address of a link is no word.
    prose = re.sub(r"^\|.*$", "", without_code(README.read_text(encoding="utf-8")), flags=re.MULTILINE)
    assert 600 <= len(re.sub(r"\]\([^)]*\)", "]", prose).split()) <= 800


@pytest.mark.slow
def test_program_of_the_readme_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    printed = run(program, folder=tmp_path)
    assert re.search(r"against\s+random", printed)
    assert "optimal moves" in printed


def test_api_page_lists_exactly_the_public_names():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`azjax\.(\w+)", page)) - {"testing"}
    # Board needs an extra, so that `from azjax import *` leaves it out.
    assert listed == set(azjax.__all__) | set(MODULES) | {"Board"}
    for name in MODULES:
        assert importlib.import_module(f"azjax.{name}") is getattr(azjax, name)
