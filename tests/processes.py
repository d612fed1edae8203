"""Processes that a test starts."""

import os


def environment(devices: int) -> dict[str, str]:
    """The surroundings of this process, with so many CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
