"""Where azjax keeps what takes long to make: solved tables, and programs that JAX has compiled."""

import contextlib
import hashlib
import os
import pathlib
import platform
import re
import warnings
from collections.abc import Callable
from typing import Any

_UNREADABLE = re.compile("Error reading persistent compilation cache entry for '([^']*)'")


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
    _heal_damaged_programs()
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.jax_compilation_cache_dir is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder() / "compiled" / _processor()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _heal_damaged_programs() -> None:
    """Lets a program that cannot be read be compiled and kept anew, without a word.

    A process that is killed may leave half of an entry. JAX warns of it, compiles, and keeps what is there; so the
    damaged entry is removed at the warning, which comes in between.
    """
    warnings.filterwarnings("always", message=_UNREADABLE.pattern)
    others = warnings.showwarning
    if isinstance(others, _Healing):
        return
    warnings.showwarning = _Healing(others)


class _Healing:
    """Removes the entries that a warning of JAX is about; shows all other warnings as before."""

    def __init__(self, others: Callable[..., None]):
        self._others = others

    def __call__(self, message: Any, category: type, *where: Any, **more: Any) -> None:
        import jax

        found = _UNREADABLE.match(str(message))
        if found is None or jax.config.jax_compilation_cache_dir is None:
            self._others(message, category, *where, **more)
            return
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time and nothing else
            for path in pathlib.Path(jax.config.jax_compilation_cache_dir).glob(f"{found[1]}-*-cache"):
                if not _can_be_unpacked(path.read_bytes()):
                    path.unlink(missing_ok=True)


def _can_be_unpacked(entry: bytes) -> bool:
    from jax._src import compilation_cache  # which knows how entries are packed

    try:
        compilation_cache.decompress_executable(entry)
    except Exception:  # zlib and zstd each have their own
        return False
    return True


def _processor() -> str:
    # A home that several machines share may hold programs with instructions which not all of them have.
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    except OSError:
        features = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
