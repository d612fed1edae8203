"""The ends of the window of supported versions: an environment for each, and the quick suite in it.

    python tests/window.py                   # oldest and newest
    python tests/window.py tests/nn -x       # what follows goes to pytest
    python tests/window.py --only oldest

The oldest versions are those that Colab's image had in August 2026; the newest are what pip finds today. Environments
are kept in build/window, and made anew where this file has changed. They have the Python that this is called with.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "build" / "window"
WINDOW = {
    "oldest": ("jax==0.7.2", "jaxlib==0.7.2", "flax==0.11.2"),
    "newest": ("jax", "jaxlib", "flax"),
}
# What the tests need beside azjax: those that read a page in a browser or export a network leave themselves out.
EXTRAS = "evosax,plots,serve,tensorboard"
TESTS = (
    *("pytest>=8", "hypothesis>=6.100", "choix>=0.3.5", "open_spiel>=1.6", "build>=1.2"),
    *("ipykernel>=6", "nbclient>=0.10"),
)
NOT_ASKED = (  # of tools, or of versions that are developed with, rather than of azjax
    "not slow",
    "tests/whole/test_docs.py",
    "tests/whole/test_layers.py",
    "tests/whole/test_faults.py",
    "tests/training/test_digests.py",
)


def make(end: str) -> pathlib.Path:
    """The Python of an environment with the versions of one end, made if it is not there."""
    folder = FOLDER / end
    python = folder / "bin" / "python"
    stamp = folder / "made-by"
    asked = pathlib.Path(__file__).read_text(encoding="utf-8")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != asked:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        upgrade = ["--upgrade", "--upgrade-strategy", "eager"] if end == "newest" else []
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *upgrade]
        subprocess.run([*install, *WINDOW[end], *TESTS, "--editable", f"{ROOT}[{EXTRAS}]"], check=True)
        stamp.write_text(asked, encoding="utf-8")
    return python


def versions(python: pathlib.Path) -> str:
    """What is installed, in a line."""
    program = (
        "import platform, importlib.metadata as m;"
        "names = ('jax', 'jaxlib', 'flax', 'optax', 'mctx', 'pgx', 'orbax-checkpoint', 'numpy');"
        "print('Python', platform.python_version(), *(f', {name} {m.version(name)}' for name in names))"
    )
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Runs the tests at each end; ends with the number of ends at which some failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=WINDOW, help="one end alone")
    chosen, arguments = parser.parse_known_args()
    failed = []
    for end in [chosen.only] if chosen.only else WINDOW:
        python = make(end)
        print(f"{end}: {versions(python)}", flush=True)
        mark, *ignored = NOT_ASKED
        ignore = [f"--ignore={ROOT / path}" for path in ignored]
        # The compiled programs of one version are of no use to another.
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(FOLDER / end / "jax_cache")}
        command = [python, "-m", "pytest", "-q", "-m", mark, *ignore, *arguments]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(end)
    sys.exit(f"tests failed with the {' and the '.join(failed)} versions" if failed else 0)


if __name__ == "__main__":
    main()
