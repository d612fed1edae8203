"""Writes the pages that are not written by hand into docs/generated: conf.py calls it whenever the pages are built.

- every command's help, as the command line prints it;
- every module's public functions and classes, with signatures and docstrings, read without being run;
- every field of the configuration, with its default and what is written beside it;
- the ready networks, with what their cards say;
- boards of the games, and copies of the notebooks.

Files are written only where they differ, so that Sphinx builds anew only what has changed.
"""

import ast
import contextlib
import inspect
import io
import os
import pathlib
import re
import shutil
import textwrap
import tokenize
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
# Rooms of the package, in the order of their layers, and where their files lie.
ROOMS = {
    "envs": ROOT / "envs",
    **{
        name: ROOT / "azjax" / name
        for name in (
            "positions search nn training theses learners solvers agents evaluation plots serve common".split()
        )
    },
}
SUBCOMMANDS = {"suite": ("build", "run"), "models": ("pack",)}
CONFIGURATIONS = (
    "TrainConfig",
    "NetworkConfig",
    "SearchConfig",
    "SelfplayConfig",
    "ReplayConfig",
    "OptimiserConfig",
    "EvaluationConfig",
)


def write_all(folder: pathlib.Path) -> None:
    """Writes every page into a folder, and removes those that an earlier version wrote."""
    pages = dict(_all_pages())
    for name, content in pages.items():
        _write(folder / name, content)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in pages:
            path.unlink()


def _all_pages() -> Iterator[tuple[str, str]]:
    yield from commands()
    yield from modules()
    yield "configuration.md", configuration()
    yield "networks.md", networks()
    yield from boards()
    yield from notebooks()


def _write(path: pathlib.Path, content: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def commands() -> Iterator[tuple[str, str]]:
    """One page per command."""
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    from azjax import cli

    rows = "\n".join(
        f"| [`{_call(name, behind)}`](generated/cli/azjax-{name}.md) | {about} |"
        for name, (behind, about) in cli.COMMANDS.items()
    )
    yield "cli/commands.md", f"| command | what it does |\n|---|---|\n{rows}\n"
    for name, (behind, about) in cli.COMMANDS.items():
        parts = [f"# azjax {name}", f"`{_call(name, behind)}`: {about}."]
        for call in (name, *(f"{name} {part}" for part in SUBCOMMANDS.get(name, ()))):
            parts.append(f"## azjax {call} --help" if call != name else "")
            parts.append(f"```text\n{_help(cli, call)}\n```")
        yield f"cli/azjax-{name}.md", "\n\n".join(filter(None, parts)) + "\n"
    yield "cli/agents.md", f"# azjax help agents\n\n```text\n{_printed(cli, ['help', 'agents'])}\n```\n"


def _call(name: str, behind: str) -> str:
    return f"azjax {name} {behind}".rstrip().replace("|", " or ")


def _help(cli, call: str) -> str:
    return _printed(cli, [*call.split(), "--help"])


def _printed(cli, arguments: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main(arguments)
    home = os.path.expanduser("~")  # a default may name a folder of whoever builds the pages
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).replace(home, "~").rstrip()


def modules() -> Iterator[tuple[str, str]]:
    """One page per room, one section per module; and one for the functions of `azjax` itself."""
    yield "api/azjax.md", _page("azjax", [("azjax", ROOT / "azjax" / "api.py")])
    for room, folder in ROOMS.items():
        if not folder.exists():
            continue
        files = [path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts]
        yield (
            f"api/{room}.md",
            _page(f"azjax.{room}", [(_module(room, folder, path), path) for path in files]),
        )


def _module(room: str, folder: pathlib.Path, path: pathlib.Path) -> str:
    parts = [part for part in path.relative_to(folder).with_suffix("").parts if part != "__init__"]
    return ".".join(["azjax", room, *parts])


def _page(title: str, files: list[tuple[str, pathlib.Path]]) -> str:
    parts = [f"# {title}"]
    for module, path in files:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        found = [node for node in tree.body if _is_public(node)]
        about = ast.get_docstring(tree)
        if not found and module != title:
            continue
        if module != title:
            parts.append(f"## {module}")
        parts.append(to_markdown(about or ""))
        for node in found:
            parts += _entry(node, source.splitlines(), "###" if module != title else "##")
    return "\n\n".join(filter(None, parts)) + "\n"


def _is_public(node: ast.AST) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(node, kinds) and not node.name.startswith("_") and bool(ast.get_docstring(node))


def _entry(
    node: ast.FunctionDef | ast.ClassDef, source: list[str], level: str, within: str = ""
) -> list[str]:
    """Signature and docstring; of a class its fields and public methods too."""
    heading = f"{level} {node.name}" if not within else f"**{within}.{node.name}**"
    parts = [heading, f"```python\n{_signature(node, source)}\n```", to_markdown(ast.get_docstring(node))]
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and _is_public(part):
                parts += _entry(part, source, level, node.name)
    return parts


def _signature(node: ast.FunctionDef | ast.ClassDef, source: list[str]) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        lines = [f"class {node.name}({bases})" if bases else f"class {node.name}"]
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and not part.target.id.startswith("_"):
                lines += source[part.lineno - 1 : part.end_lineno]  # with what stands beside them: shapes
        return "\n".join(lines)
    decorators = [ast.unparse(mark) for mark in node.decorator_list]
    if any("property" in mark for mark in decorators):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}{returns}"
    bare = ast.FunctionDef(
        node.name, node.args, [ast.Pass()], [], node.returns, type_params=[], lineno=0, col_offset=0
    )
    line = ast.unparse(bare).removesuffix("\n    pass").removesuffix(":")
    if len(line) <= 88:
        return line
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    lines = (f"    {piece}," for piece in _one_per_line(node.args))
    return "\n".join([f"def {node.name}(", *lines, f"){returns}"])


def _one_per_line(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    pieces = [_argument(*pair) for pair in zip(plain, defaults)]
    if arguments.vararg:
        pieces.append("*" + _argument(arguments.vararg, None))
    elif arguments.kwonlyargs:
        pieces.append("*")
    pieces += [_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        pieces.append("**" + _argument(arguments.kwarg, None))
    return pieces


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def to_markdown(docstring: str) -> str:
    """A docstring of this project as Markdown: sections become lists, indented blocks become code."""
    parts, section = [], ""
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        head, _, rest = block.partition("\n")
        named = re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):", head.strip())
        if named:
            section = named[1]
            parts.append(f"*{section}:*\n\n" + _listed(textwrap.dedent(rest), section))
        elif all(line.startswith("    ") for line in block.splitlines()):
            parts.append(f"```text\n{textwrap.dedent(block)}\n```")
        elif ">>>" in head:
            parts.append(f"```python\n{textwrap.dedent(block)}\n```")
        elif any(line.startswith("    ") for line in block.splitlines()) or block.startswith(" "):
            parts.append(f"```text\n{block}\n```")
        else:
            parts.append(_escaped(block))
    return "\n\n".join(parts)


def _listed(text: str, section: str) -> str:
    if section in ("Returns", "Yields"):
        return _escaped(text)
    items = re.sub(r"\n\s+", " ", text).splitlines()
    return "\n".join(
        re.sub(
            r"^(\*{0,2})([\w, *]+?): ", lambda found: f"- `{found[1]}{found[2]}`: ", _escaped(item, code=True)
        )
        if ": " in item
        else f"- {_escaped(item)}"
        for item in items
    )


def _escaped(text: str, code: bool = False) -> str:
    """Characters that Markdown would read as its own, outside of backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    special = r"([<>\[\]$|])" if code else r"([*_<>\[\]$|])"
    return "".join(piece if piece.startswith("`") else re.sub(special, r"\\\1", piece) for piece in pieces)


def configuration() -> str:
    """Every field, by class."""
    import azjax

    parts = [
        "# Every field of the configuration",
        "A run is a `TrainConfig`. On the command line the fields are options, `--search.simulations 32`; in Python,"
        " `dataclasses.replace`. Defaults are those of the classes; a preset has its own, which `azjax train PRESET"
        " --help` shows.",
    ]
    for name in CONFIGURATIONS:
        kind = getattr(azjax, name)
        about = inspect.getdoc(kind).split("\n")[0]
        lines = [f"## {name}", about, "| field | type | default | what it says |\n|---|---|---|---|"]
        rows = [
            f"| `{field}` | {_cell(kind_text)} | {_cell(default)} | {_what(about)} |"
            for field, kind_text, default, about in fields(kind)
        ]
        parts += [*lines[:2], lines[2] + "\n" + "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def fields(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and the comment of every field of a dataclass, as its source has them."""
    source = textwrap.dedent(inspect.getsource(kind))
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.strip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for node in ast.parse(source).body[0].body:
        if not isinstance(node, ast.AnnAssign) or node.target.id.startswith("_"):
            continue
        beside = [comments[line][0] for line in range(node.lineno, node.end_lineno + 1) if line in comments]
        above, line = [], node.lineno - 1
        while line in comments and comments[line][1]:
            above.insert(0, comments[line][0])
            line -= 1
        default = "" if node.value is None else ast.unparse(node.value)
        default = re.sub(r"dataclasses.field\(default_factory=(\w+)\)", r"\1()", default)
        yield node.target.id, _type_text(node.annotation), default, " ".join(above + beside)


def _type_text(node: ast.expr) -> str:
    """An annotation for people: the choices of a Literal, the limits of a number."""
    if isinstance(node, ast.BinOp):  # X | None
        return f"{_type_text(node.left)} or None"
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        return ", ".join(map(ast.unparse, node.slice.elts))
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        first, *rules = node.slice.elts
        return ", ".join([_type_text(first), *map(_rule_text, rules)])
    words = {
        "Count": "whole number from 1",
        "Number": "whole number from 0",
        "Units": "whole number from 0",
        "Share": "0 to 1",
        "SomeShare": "above 0, at most 1",
        "Positive": "above 0",
        "FromZero": "from 0",
        "Decay": "from 0, below 1",
        "Seed": "whole number",
        "AnyGame": "a game",
        "int": "whole number",
        "float": "number",
        "bool": "flag",
        "str": "text",
    }
    return words.get(ast.unparse(node), ast.unparse(node))


def _rule_text(rule: ast.expr) -> str:
    """A limit for people: `at_most(2**16)` is "at most 65,536"."""
    if not isinstance(rule, ast.Call):
        return ast.unparse(rule)
    limits = " and ".join(map(ast.unparse, rule.args))
    limits = re.sub(r"(\d+) \*\* (\d+)", lambda power: str(int(power[1]) ** int(power[2])), limits)
    limits = re.sub(r"(?<![.\d])\d{4,}\b", lambda number: f"{int(number[0]):,}", limits)
    return f"{ast.unparse(rule.func).replace('_', ' ')} {limits}"


def _cell(text: str) -> str:
    return f"`{text}`" if re.search(r"[A-Z'(_]", text.removesuffix(" or None")) else text


def _what(text: str) -> str:
    return _escaped(text) or " "


def networks() -> str:
    """The ready networks: how large, how strong by which judge, and what they cannot do."""
    from azjax.agents.ready import ready_networks
    from azjax.common.tables import percent
    from azjax.evaluation.cards import cards

    rows, limits = [], []
    for card in cards():
        judge, score = card.headline
        size = ready_networks()[card.name].stat().st_size / 1000
        rows.append(
            f"| `{card.name}` | {size:.0f} | {card.parameters:,} | {card.trained['games']:,} |"
            f" `{judge.partition(': ')[0]}`: {percent(score)} |"
        )
        limits.append(f"- **{card.name}**, `{card.game}`. {_escaped(card.limits)}")
    head = "| name | kB | weights | games of self-play | strength |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n\nWhat each cannot do:\n\n" + "\n".join(limits) + "\n"


def boards() -> Iterator[tuple[str, str]]:
    """A position of each game of ours, drawn by itself."""
    from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex

    shown = {
        "hex": (Hex(size=6), "c4 d3 b5 c2 d2 c3".split()),
        "chinese-checkers": (ChineseCheckers(size=4, pieces=3), []),
        "dots-and-boxes": (DotsAndBoxes(3, 3), "a1-b1 a2-b2 a1-a2 c3-c4 b1-b2 b2-b3".split()),
    }
    import jax

    for name, (game, moves) in shown.items():
        x, last = game.init(jax.random.key(0)), None
        for move in moves:
            last = game.text_to_action(move, x)
            x = game.step(x, last)
        yield f"boards/{name}.svg", str(game.draw(x, last_action=last))


def notebooks() -> Iterator[tuple[str, str]]:
    """The notebooks, so that Sphinx finds them below its own folder; what they link to on GitHub are pages here."""
    home = "https://github.com/azjax/azjax"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        content = path.read_text(encoding="utf-8").replace(f"{home}/tree/main/notebooks", "../../learn.md")
        yield f"notebooks/{path.name}", content.replace(f"{home}/blob/main/docs/", "../../")


if __name__ == "__main__":
    target = pathlib.Path(__file__).parent / "generated"
    shutil.rmtree(target, ignore_errors=True)
    write_all(target)
