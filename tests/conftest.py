"""Settings for the whole suite: compiled programs are kept between runs, and the long files begin."""

import os
import pathlib
import platform

import hypothesis
import pytest

_CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = (
    "0"  # small programs too: many processes need the same
)
# Most programs run for less time than it takes to optimise them. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test` does
# optimise, as in use; a file of tests that compute for long asks for it with the fixture `optimised`.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] != "0":
    # The older way to write loops takes half the time to compile, and one thread a sixth less than many do; the bits
    # are the same.
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"
        " --xla_cpu_parallel_codegen_split_count=1"
    )
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
LONGEST = (
    *("docs", "processes", "karki2024", "presets", "checkers", "peters2018", "jacobsen2019", "step"),
    *("boards", "own_parts", "daliri2022", "td", "tricks", "agents", "jones2021", "checkpoint", "envs"),
    *("behaviour", "many", "loss", "chinese_checkers"),
)


def pytest_addoption(parser):
    """Adds --soak, which `make soak` gives, and --long, which `make test-long` gives."""
    parser.addoption("--soak", action="store_true", help="many more generated inputs, damages and kills")
    parser.addoption("--long", action="store_true", help="also what a smaller test stands for otherwise")


@pytest.fixture(scope="session")
def soaking(request) -> bool:
    """Whether this is `make soak`."""
    return request.config.getoption("--soak")


def _optimising(wanted: bool):
    """Lets the compiler optimise or not, here and in processes that the test starts."""
    import jax  # not above: it reads the settings when it is imported

    before = jax.config.read("jax_disable_most_optimizations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "0" if wanted else "1")
        jax.config.update("jax_disable_most_optimizations", not wanted)
        yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def optimised():
    """Has programs optimised, for files whose tests compute for longer than that takes."""
    yield from _optimising(True)


@pytest.fixture
def quickly_compiled():
    """Leaves the compiler's optimiser out, also where the suite runs with it."""
    yield from _optimising(False)


_resident = 0  # bytes, when programs were last forgotten


@pytest.fixture(scope="module", autouse=True)
def _forgotten_programs():
    """Forgets what was compiled whenever that has grown by 3 GB: the suite compiles more than 10 GB of programs."""
    global _resident
    yield
    import jax

    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    if resident > _resident + 3 * 2**30:
        jax.clear_caches()
        _resident = resident


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """An empty bucket, and an empty cache here."""
    import fsspec
    from etils import epath

    from tests.buckets import Bucket

    monkeypatch.setenv("AZJAX_CACHE", str(tmp_path / "cache"))
    for name in ("gs", "gcs"):
        fsspec.register_implementation(name, Bucket, clobber=True)
    Bucket.store.clear()
    Bucket.pseudo_dirs[:] = [""]
    return epath.Path("gs://bucket")


def pytest_collection_modifyitems(config, items):
    """Leaves out what --long asks for, and puts the files that take longest first; the rest stays in order."""
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]

    def rank(item):
        name = item.path.stem.removeprefix("test_")
        return LONGEST.index(name) if name in LONGEST else len(LONGEST)

    items.sort(key=rank)
