"""Where azjax keeps what takes long to make: solved tables, and programs that JAX has compiled."""

import hashlib
import os
import pathlib
import platform
import warnings


def folder() -> pathlib.Path:
    """What the environment variable AZJAX_CACHE names, else `azjax` below XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("AZJAX_CACHE"):
        return pathlib.Path(named)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path("~/.cache").expanduser()) / "azjax"


def keep_compiled_programs() -> None:
    """Lets JAX keep what it compiles, so that a command starts quicker the second time.

    JAX_COMPILATION_CACHE_DIR names another folder, or none if it is empty. A folder that cannot be written costs time
    and nothing else.
    """
    import jax  # here, because it takes a while and `folder` needs none of it

    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.jax_compilation_cache_dir is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder() / "compiled" / _processor()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _processor() -> str:
    # A home that several machines share may hold programs with instructions which not all of them have.
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    except OSError:
        features = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
