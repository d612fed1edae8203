"""Runs the notebooks, each in a fresh namespace of one process, so that what one has compiled serves the next.

    python notebooks/execute.py                        # all of them, as people run them
    python notebooks/execute.py --tiny 03-truth.ipynb  # with the tiny setting in the metadata of its settings

Prints a JSON line per notebook: its name, the seconds of processor it took, and the error that stopped it, if any.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def sources(path: pathlib.Path, tiny: bool) -> list[str]:
    """The cells of code; of the settings what stands in `tiny` of their metadata, if that is wanted."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        cell["metadata"]["tiny"] if tiny and "tiny" in cell["metadata"] else "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def execute(path: pathlib.Path, tiny: bool) -> str | None:
    """Runs a notebook as IPython does, results shown and all; returns what went wrong, or None."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    shell.reset()
    for number, source in enumerate(sources(path, tiny)):
        with capture_output() as captured:
            ran = shell.run_cell(source)
        if not tiny:
            captured.show()
        if not ran.success:
            return f"cell {number}: {ran.error_before_exec or ran.error_in_exec!r}\n{captured.stdout}{captured.stderr}"
    return None


def main() -> None:
    """Runs those that are asked for, in a folder of their own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="files in notebooks/; default all")
    parser.add_argument(
        "--tiny", action="store_true", help="with their tiny settings, and without their pictures"
    )
    asked = parser.parse_args()
    paths = [HERE / name for name in asked.names] or sorted(HERE.glob("*.ipynb"))
    os.environ.setdefault("MPLBACKEND", "agg")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in paths:
            begin = time.process_time()
            error = execute(path, asked.tiny)
            row = {"notebook": path.name, "seconds": round(time.process_time() - begin, 1), "error": error}
            print(json.dumps(row), flush=True)
            failed += error is not None
        os.chdir(HERE)
    raise SystemExit(failed and 1)


if __name__ == "__main__":
    main()
