"""What must be settled before JAX's backend starts (as importing pgx does): processes, and CPU devices."""

import contextlib
import os

import jax


def make_cores_devices(limit: int = 8) -> None:
    """Lets JAX see a CPU's cores as devices, as many as the largest power of two among them.

    A program divided among devices keeps two cores busier than one that shares out each operation: training Hex 5x5
    takes a third of the time. It computes the same. Other platforms have devices of their own; if XLA_FLAGS says how
    many CPU devices there are, that holds.

    Args:
      limit: no more than this many; the presets divide their games into eight groups.
    """
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with contextlib.suppress(RuntimeError):  # JAX has started already: its devices are what they are
            jax.config.update("jax_num_cpu_devices", 1 << (min(cores, limit).bit_length() - 1))


def join_processes(text: str) -> None:
    """Makes this process one of several.

    Args:
      text: "auto" where the surroundings tell (a TPU pod, Slurm), or "HOST:PORT,PROCESSES,NUMBER" with the address
        of the first process, how many there are, and which one this is.
    """
    if text == "auto":
        jax.distributed.initialize()
        return
    try:
        address, processes, number = text.split(",")
        place = int(processes), int(number)
    except ValueError:
        raise ValueError(
            f"--distributed must be auto or HOST:PORT,PROCESSES,NUMBER, such as 127.0.0.1:9911,2,0; got {text!r}"
        ) from None
    jax.distributed.initialize(address, *place)
