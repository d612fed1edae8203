"""Devices that are not there: what XLA is told to compile for. Imported before anything that imports jax.

TPU: libtpu carries the whole compiler, so any topology will do. CUDA: XLA compiles for a described GPU, and the
description below holds published figures of an H100 SXM.
"""

import importlib.util
import os
from typing import NamedTuple

# Before libtpu is loaded: there is no metadata server to ask, and no chip to wait for.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
# Any values: they only keep libtpu from complaining.
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("TPU_WORKER_ID", "0")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # else a lock file keeps a second process out
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax.experimental import topologies
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh

from azjax.training.step import DEVICES


class Chip(NamedTuple):
    """The published figures that an estimate needs."""

    clock: float  # cycles per second; of a TPU: peak / (matrix units * their size * 2)
    peak: float  # operations per second on bfloat16, multiplication and addition counted apart
    bandwidth: float  # bytes per second of the main memory
    memory: float  # bytes of it


CHIPS = {
    "v5e": Chip(1.5e9, 197e12, 819e9, 16 * 2**30),
    "v6e": Chip(1.75e9, 918e12, 1640e9, 32 * 2**30),
    "h100": Chip(1.98e9, 989e12, 3352e9, 80 * 2**30),
}

# Kind and chips -> topology and chips per host, by the names that libtpu knows.
_TPUS = {
    ("v5e", 1): ("v5e:1x1", (1, 1, 1)),
    ("v5e", 4): ("v5e:2x2", (2, 2, 1)),
    ("v5e", 8): ("v5e:2x4", (2, 4, 1)),
    ("v5e", 256): ("v5e:16x16", (2, 4, 1)),
    ("v6e", 1): ("v6e:1x1", (1, 1, 1)),
    ("v6e", 4): ("v6e:2x2", (2, 2, 1)),
    ("v6e", 8): ("v6e:2x4", (2, 4, 1)),
}

_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84929347584
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 12 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def can_compile_for(kind: str) -> bool:
    """Whether the compiler for such devices is installed."""
    if kind == "h100":
        return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    return importlib.util.find_spec("libtpu") is not None


def make_mesh(kind: str, chips: int) -> Mesh:
    """A mesh of devices that programs can be compiled for, and not run on.

    Args:
      kind: v5e, v6e or h100.
      chips: 1, 4 or 8, of v5e also 256; of an H100 any number.
    """
    # What is compiled for absent devices can be written to the cache and not be read again (jax 0.10.2). Not when this
    # file is imported, or whatever imports it, such as the tests, would compile everything anew.
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    if kind == "h100":
        described = topologies.get_topology_desc(
            platform="cuda", topology_name="h100", target_config=_H100, topology=f"1x1x{chips}"
        )
    else:
        name, bounds = _TPUS[kind, chips]
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=name, chips_per_host_bounds=bounds
        )
    return Mesh(np.array(described.devices).reshape(-1), (DEVICES,))
