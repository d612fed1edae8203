"""Settings for the whole suite: compiled programs are kept between runs, and the long files begin."""

import os
import pathlib
import platform

import pytest

_CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
if platform.machine() in ("x86_64", "AMD64"):
    # XLA joins products and sums as suits the machine, which changes last bits; with AVX alone it cannot, so that trees
    # equal mctx's to the bit, and trainings end alike, on every such machine.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX"

# From the longest on. Begun last, one of them would keep a single core busy at the end.
LONGEST = ("training", "behaviour", "tree", "search", "checkpoint", "package", "td", "es")


@pytest.fixture
def quickly_compiled(monkeypatch):
    """Leaves the compiler's optimiser out, for programs that run for less time than it takes."""
    import jax  # not above: it reads the settings when it is imported

    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # for processes that the test starts
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def pytest_collection_modifyitems(items):
    """Puts the files that take longest first, and leaves the others and all tests within a file in order."""

    def rank(item):
        name = item.path.stem.removeprefix("test_")
        return LONGEST.index(name) if name in LONGEST else len(LONGEST)

    items.sort(key=rank)
