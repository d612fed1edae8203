"""Several processes that train together, each with its own devices."""

import jax


def join_processes(text: str) -> None:
    """Makes this process one of several; must come before anything starts JAX's backend, as importing pgx does.

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
