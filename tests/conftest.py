"""Settings for the whole suite: compiled programs are kept between runs, and the long files begin."""

import os
import pathlib
import platform

import hypothesis
import pytest

_CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
if platform.machine() in ("x86_64", "AMD64"):
    # XLA joins products and sums as suits the machine, which changes last bits; with AVX alone it cannot, so that trees
    # equal mctx's to the bit, and trainings end alike, on every such machine.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX"

# Generated inputs are the same every time; `make soak` (--hypothesis-profile soak) draws many more, and new ones.
hypothesis.settings.register_profile(
    "suite",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.register_profile(
    "soak", hypothesis.settings.get_profile("suite"), max_examples=1000, derandomize=False, print_blob=True
)
hypothesis.settings.load_profile("suite")

# From the longest on. Begun last, one of them would keep a single core busy at the end.
LONGEST = ("step", "behaviour", "tree", "search", "checkpoint", "package", "td", "es")


def pytest_addoption(parser):
    """Adds --soak, which `make soak` gives."""
    parser.addoption("--soak", action="store_true", help="many more generated inputs, damages and kills")


@pytest.fixture(scope="session")
def soaking(request) -> bool:
    """Whether this is `make soak`."""
    return request.config.getoption("--soak")


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
