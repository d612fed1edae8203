"""What one game knows stays with that game: nobody else asks for its class, and one module alone knows pgx."""

import ast
import pathlib

import pytest

from azjax.envs import registry

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("azjax", "envs", "experiments")
    for path in (ROOT / folder).rglob("*.py")
    if path.relative_to(ROOT).parts[:2] != ("azjax", "envs")  # where envs is installed
)
KINDS = {kind.__name__ for kind in registry._games.values()} | {"PgxGame"}
# The rooms of a game: its rules, its solver, and the agents that play nothing else.
OWN_ROOMS = (
    "envs/",
    "azjax/solvers/hex/",
    "azjax/solvers/checkers/",
    "azjax/solvers/dots/",
    "azjax/agents/gtp.py",
    "azjax/agents/alphabeta.py",
    "azjax/agents/dots_rules.py",
)


def kinds_asked_for(tree: ast.AST) -> list[str]:
    """Games in `isinstance(x, Hex)`, `type(x) is Hex`, and in `case Hex():`, each with its line."""
    found = []
    for node in ast.walk(tree):
        asked = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "issubclass"):
            asked = node.args[1:]
        elif isinstance(node, ast.Compare) and any(
            isinstance(side, ast.Call) and getattr(side.func, "id", None) == "type"
            for side in (node.left, *node.comparators)
        ):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        names = {
            getattr(part, "attr", getattr(part, "id", None)) for root in asked for part in ast.walk(root)
        }
        found += [f"line {node.lineno}: {name}" for name in names & KINDS]
    return found


def imports_pgx(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "pgx" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module.split(".")[0] == "pgx":
            return True
    return False


def parsed(file: str) -> ast.AST:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def test_nobody_outside_its_own_rooms_asks_for_the_class_of_a_game():
    outside = [file for file in FILES if not file.startswith(OWN_ROOMS)]
    assert len(outside) > 50
    assert {file: found for file in outside if (found := kinds_asked_for(parsed(file)))} == {}


def test_pgx_is_imported_by_its_bridge_alone():
    measured = "experiments/benchmarks/"  # which compare with pgx itself
    files = [file for file in FILES if not file.startswith(measured)]
    assert [file for file in files if imports_pgx(parsed(file))] == ["envs/pgx_bridge.py"]


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(game, Hex)",
        "isinstance(context.config.game, (int, envs.Hex | DotsAndBoxes))",
        "type(game) is ChineseCheckers",
        "issubclass(kind, PgxGame)",
        "match game:\n    case Hex(size=3): pass",
    ],
)
def test_the_search_finds_what_it_looks_for(line):
    assert kinds_asked_for(ast.parse(line))
