"""The pages: they build, link to what there is, and their programs run."""

import dataclasses
import importlib
import importlib.util
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import azjax
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.training.config import config_to_dict
from tests.processes import environment

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")])
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All pages, built as `make docs` does, but without running any notebook; generated pages are there after it."""
    folder = tmp_path_factory.mktemp("site")
    run("-m", "sphinx", "-W", "-q", "-d", folder / "cache", "-b", "html", DOCS, folder, folder=ROOT)
    return folder


def test_pages_build_without_warnings(site):
    assert "Chomp" in (site / "own-game.html").read_text(encoding="utf-8")
    for notebook in NOTEBOOKS:
        assert (site / "generated" / "notebooks" / f"{notebook.stem}.html").exists()
    search = (site / "generated" / "notebooks" / "04-search.html").read_text(encoding="utf-8")
    assert 'href="../../searches.html"' in search  # in the notebook this leads to GitHub


def test_generated_pages_have_every_command_and_every_field(site):
    said = (DOCS / "generated" / "cli" / "azjax-train.md").read_text(encoding="utf-8")
    assert (
        "usage: azjax train" in said
        and "--search.simulations" in said
        and str(pathlib.Path.home()) not in said
    )
    fields = (DOCS / "generated" / "configuration.md").read_text(encoding="utf-8")
    flat = config_to_dict(azjax.preset("hex3"))
    for part, settings in flat.items():
        for name in settings if isinstance(settings, dict) and part != "game" else [part]:
            assert f"| `{name}` |" in fields
    assert "### plain_convolutions" in (DOCS / "generated" / "api" / "nn.md").read_text(encoding="utf-8")


def test_the_help_explains_every_option(site):
    for page in (DOCS / "generated" / "cli").glob("azjax-*.md"):
        lines = [line.strip("│ ") for line in page.read_text(encoding="utf-8").splitlines()]
        for line, following in itertools.pairwise(lines):
            if line.startswith("--"):  # what it says stands beside it or, where that is too long, below
                about = re.split(r" {2,}", line, maxsplit=1)[-1] if "  " in line else following
                assert not about.startswith("(default"), f"{page.name} does not explain {line}"


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])  # to ask all of them takes half a minute
def test_the_table_of_pgx_games_is_right(name):
    game = azjax.make_game(name)
    shape = " x ".join(map(str, game.observation_shape))
    symmetries = len(game.symmetries.action)
    row = f"| `{name}` | {shape} | {game.num_actions} | {game.max_plies} | {symmetries} | {game.version} |"
    assert row in (DOCS / "games-of-pgx.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page, site):
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


# Runs programs one after the other in one process, for it takes longest to start one; each is a script of its own all
# the same. Prints a JSON line for each: its name, what it printed, and the error that stopped it.
RUN_ALL = """
import contextlib, io, json, os, pathlib, runpy, sys, traceback

for program in sys.argv[1:]:
    path, error, said = pathlib.Path(program), None, io.StringIO()
    sys.argv = [program, os.path.abspath(path.stem)]  # the folder of its run
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(program, run_name="__main__")
    except Exception:
        error = traceback.format_exc()
    print(json.dumps({"program": path.stem, "printed": said.getvalue(), "error": error}), flush=True)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What the examples, the README's program and the programs of each page printed."""
    folder, own = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("written")
    (readme,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    written = {"readme": readme}
    written |= {f"page-{page.stem}": programs_of(page)[0] for page in sorted(DOCS.glob("*.md"))}
    for name, code in written.items():
        (own / f"{name}.py").write_text(code, encoding="utf-8")
    programs = [*EXAMPLES, *(own / f"{name}.py" for name, code in written.items() if code)]
    printed = run("-W", "error::SyntaxWarning", "-c", RUN_ALL, *programs, folder=folder)
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith('{"program"')]
    assert [row["program"] for row in rows] == [program.stem for program in programs]
    return {row["program"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(example, ran):
    assert ran[example.stem]["error"] is None, ran[example.stem]["error"]
    # Each plays a match; its title may be broken in lines.
    assert re.search(r"against\s+(random|central)", ran[example.stem]["printed"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_shown_on_a_page(example):
    assert any(
        f"{{literalinclude}} examples/{example.name}" in page.read_text(encoding="utf-8") for page in PAGES
    )


def programs_of(page: pathlib.Path) -> tuple[str, int]:
    """The Python on a page, block after block, without those marked as not run; and how many are marked."""
    found = re.findall(
        r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return "\n".join(code for mark, code in found if not mark), sum(bool(mark) for mark, _ in found)


DATA = ("json", "text")  # blocks of these are no programs
# Options that the help of a command need not name: of all commands, and those of the game that is named.
EVERYWHERE = {"--help", "--import", "--json"} | {
    f"--{no}{field.name.replace('_', '-')}"
    for game in (Hex, ChineseCheckers, DotsAndBoxes)
    for field in dataclasses.fields(game)
    for no in ("", "no-")
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_are_closed_and_python_data_or_marked(page):
    before, inside = "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = re.match(r"```(.*)$", line)
        if fence and inside:
            assert not fence[1], f"{page.name}: a block begins inside another: {line}"
            inside = False
        elif fence:
            inside = True
            known = fence[1] in ("python", *DATA) or fence[1].startswith("{")
            assert known or before.startswith("<!-- not run: "), f"{page.name}: say why {line} is not run"
        before = line
    assert not inside, f"{page.name}: a block is not closed"


def commands_on(page: pathlib.Path) -> list[str]:
    """The command lines of ours on a page: in indented or fenced blocks, and between backticks."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```(?:bash|text)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    lines = [
        *re.findall(r"^    (.*)$", text, re.MULTILINE),
        *blocks.splitlines(),
        *re.findall(r"`([^`\n]+)`", text),
    ]
    found = []
    for line in lines:
        for piece in re.split(r" && |; |\s#\s?", re.sub(r"^(nohup|srun(?: --\S+)*) ", "", line.strip())):
            found += (
                [piece]
                if re.match(r"(azjax [a-z]|(\.venv-tpu/bin/)?python -m (experiments|azjax)\b)", piece)
                else []
            )
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_the_pages_exist_and_have_their_options(page, site):
    for line in commands_on(page):
        program, name, *_ = line.split()
        if program != "azjax":
            module = line.split()[2]
            assert importlib.util.find_spec(module), f"{page.name}: there is no {module}"
            continue
        if name == "help":
            continue
        shown = DOCS / "generated" / "cli" / f"azjax-{name}.md"
        assert shown.exists(), f"{page.name}: there is no command {line}"
        said = shown.read_text(encoding="utf-8")
        for option in re.findall(r"(?<=\s)--[a-z][\w.-]*", line):
            known = option in said or option in EVERYWHERE
            assert known, f"{page.name}: {line} has no {option}"


@pytest.mark.slow
def test_programs_on_the_pages_run_or_are_marked(ran):
    assert sum(programs_of(page)[1] for page in DOCS.glob("*.md")) == 5
    pages = {name: row for name, row in ran.items() if name.startswith("page-")}
    assert len(pages) >= 2
    assert {name: row["error"] for name, row in pages.items() if row["error"]} == {}
    assert any("random" in row["printed"] for row in pages.values())


def test_readme_has_600_to_800_words():
    # Tables and code apart; the address of a link is no word.
    prose = re.sub(r"^\|.*$", "", without_code(README.read_text(encoding="utf-8")), flags=re.MULTILINE)
    assert 600 <= len(re.sub(r"\]\([^)]*\)", "]", prose).split()) <= 800


@pytest.mark.slow
def test_program_of_the_readme_runs(ran):
    assert ran["readme"]["error"] is None, ran["readme"]["error"]
    assert re.search(r"against\s+uct:20", ran["readme"]["printed"])
    assert "optimal moves" in ran["readme"]["printed"]


def test_api_page_lists_exactly_the_public_names():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`azjax\.(\w+)", page)) - {"testing"}
    # Board needs an extra, so that `from azjax import *` leaves it out.
    assert listed == set(azjax.__all__) | set(MODULES) | {"Board"}
    for name in MODULES:
        assert importlib.import_module(f"azjax.{name}") is getattr(azjax, name)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_as_others_expect_it(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    title, install, device = ("".join(cell["source"]) for cell in cells[:3])
    home = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"][
        "Repository"
    ]
    owner = home.removeprefix("https://github.com/")
    badge = f"https://colab.research.google.com/github/{owner}/blob/main/notebooks/{notebook.name}"
    assert title.startswith("# ") and f"({badge})" in title.split("\n")[2]
    assert f'git+{home}"' in install
    assert "two CPU cores" in title + "".join(cells[1]["source"]) and "T4" in title and "v5e" in title
    assert "pyplot" not in "".join("".join(cell["source"]) for cell in cells)  # figures have the house style
    # Colab's own jax and jaxlib stay: they fit its drivers.
    assert '"jax", "jaxlib"' in install and "--constraint" in install
    assert "jax.devices()" in device
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    (settings,) = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    tiny, usual = {}, {}
    exec(settings["metadata"]["tiny"], tiny)
    exec("".join(settings["source"]), usual)
    assert tiny.keys() == usual.keys()


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """What became of each notebook, all run in one process with their tiny settings."""
    ran = subprocess.run(
        [sys.executable, ROOT / "notebooks" / "execute.py", "--tiny"],
        cwd=tmp_path_factory.mktemp("notebooks"),
        env=environment(1),
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {row["notebook"]: row for row in rows} | {"stderr": ran.stderr}


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(notebook, executed):
    row = executed.get(notebook.name)
    assert row is not None, executed["stderr"]
    assert row["error"] is None and row["seconds"] <= 20


def test_every_match_of_the_results_tells_how_many_of_its_games_are_different():
    """As the runs that are kept have counted them; what version 0.1 did not count is said to be so."""
    rows = [line for line in (DOCS / "results.md").read_text().splitlines() if line.startswith("|")]
    matches = [row for row in rows if re.search("games won|averaged over the board|score with", row)]
    assert len(matches) == 7
    assert [row for row in matches if "different" not in row] == []
    for path in sorted((ROOT / "experiments" / "results" / "strength").glob("*/strength.json")):
        measured = json.loads(path.read_text())["measured"].values()
        for number in re.findall(r"(\d+) different games", " ".join(map(str, measured))):
            assert any(f"{int(number):,}" in row for row in matches), (path, number)
