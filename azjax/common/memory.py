"""Whether a thing fits into memory, found out before it is compiled.

Everything has static shapes, so what a search or a run will hold is known from its configuration. What comes out here
is the least it takes; whatever is larger than the memory there is, is refused with both numbers.
"""

import math
import os
import pathlib
from typing import Any

import jax


class TooMuchMemoryError(ValueError):
    """What was asked for does not fit; the message says what it takes, and what there is."""


class TooLargeError(ValueError):
    """A board that does not fit; the message estimates the memory and the time it would take."""


def available(devices: int = 1) -> tuple[int, str]:
    """The bytes there are for this many devices, and what to call them in a message."""
    stats = jax.local_devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and stats.get("bytes_limit"):
        return stats[
            "bytes_limit"
        ] * devices, "this device has" if devices == 1 else f"{devices} devices have"
    return (
        _machine() * jax.process_count(),
        "this machine has",
    )  # whose cores share it, also if each is a device


def check(needed: int, what: str, devices: int = 1) -> None:
    """Raises TooMuchMemoryError if something needs more bytes than there are.

    Args:
      needed: its bytes on all devices together.
      what: names it, as in `the search trees of 128 lanes`.
      devices: over how many it is spread.
    """
    there_is, owner = available(devices)
    if needed > there_is:
        raise TooMuchMemoryError(f"about {size_text(needed)} for {what}; {owner} {size_text(there_is)}")


def size_of(tree: Any) -> int:
    """The bytes of all arrays in a tree, which may be mere shapes."""
    return sum(math.prod(leaf.shape) * _item_size(leaf.dtype) for leaf in jax.tree.leaves(tree))


def size_text(size: float) -> str:
    """Bytes as people read them, such as `3.6 TiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.0f} EiB"


def _item_size(dtype: Any) -> int:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return 8
    return dtype.itemsize


def _machine() -> int:
    """Bytes of physical memory, or what a container may use of it."""
    limits = []
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2 and 1 of control groups
        path = pathlib.Path("/sys/fs/cgroup") / name
        if path.exists() and (limit := path.read_text().strip()).isdecimal():
            limits.append(int(limit))
    return min(limits, default=2**63)  # where nothing is known, nothing is refused
