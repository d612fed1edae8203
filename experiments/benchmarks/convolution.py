"""Which convolution is fastest on a CPU core? Ours against XLA's and two simple ones, interleaved in one run.

    python -m experiments.benchmarks.convolution            # about three minutes; keeps its tables
    python -m experiments.benchmarks.convolution --quick    # a smoke test; keeps nothing

Eight 3x3 convolutions with rectifiers, in a loop as a search has them. Times are CPU milliseconds a pass of the
whole batch, speeds are relative to XLA's convolution. Learning takes three steps of gradient descent in a loop;
there XLA's is also measured outside of one, where it does not collapse.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import tyro

from azjax.nn.convolution import convolve
from experiments.benchmarks.timing import cpu_seconds, report

LAYERS = 8
PASSES = 4  # in a loop, a measurement
STEPS = 3


@dataclasses.dataclass(frozen=True)
class Config:
    """What to measure."""

    quick: bool = False  # small numbers, nothing kept
    sizes: tuple[int, ...] = (5, 7, 9, 11)
    channels: tuple[int, ...] = (32, 64)
    batches: tuple[int, ...] = (16, 64)
    rounds: int = 5


def xla(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """XLA's convolution, in the layout it is fastest in: [batch, height, width, channels]."""
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def shifted(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """One matrix product for each of the kernel's taps."""
    return sum(part @ tap for part, tap in zip(_shifts(x), kernel.reshape(9, *kernel.shape[2:])))


def patches(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """One matrix product with what every cell's kernel covers, side by side."""
    return jnp.concatenate(_shifts(x), -1) @ kernel.reshape(-1, kernel.shape[-1])


def _shifts(x: jax.Array) -> list[jax.Array]:
    _, height, width, _ = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]


def tower(convolution: Callable, x: jax.Array, kernels: Sequence[jax.Array]) -> jax.Array:
    """What is measured: convolution and rectifier, eight times."""
    for kernel in kernels:
        x = jax.nn.relu(convolution(x, kernel))
    return x


def forward(convolution: Callable, x: jax.Array, kernels: Sequence[jax.Array]) -> Callable[[], jax.Array]:
    """Passes in a loop, each on the last one's result."""
    run = jax.jit(
        lambda x, kernels: jax.lax.fori_loop(0, PASSES, lambda _, x: tower(convolution, x, kernels), x)
    )
    return lambda: run(x, kernels)


def learning(convolution: Callable, steps: int, x: jax.Array, kernels: Sequence[jax.Array]) -> Callable:
    """Steps of gradient descent in a loop; a single one outside of any."""

    def step(kernels):
        gradients = jax.grad(lambda kernels: jnp.mean(tower(convolution, x, kernels) ** 2))(kernels)
        return jax.tree.map(lambda kernel, gradient: kernel - 1e-3 * gradient, kernels, gradients)

    if steps == 1:
        run = jax.jit(step)
    else:
        run = jax.jit(lambda kernels: jax.lax.fori_loop(0, steps, lambda _, kernels: step(kernels), kernels))
    return lambda: run(kernels)


def example(batch: int, size: int, channels: int) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
    """The same board in both layouts, and kernels that keep its variance."""
    x = jax.random.normal(jax.random.key(0), (batch, size, size, channels))
    keys = jax.random.split(jax.random.key(1), LAYERS)
    scale = (2 / 9 / channels) ** 0.5
    kernels = [scale * jax.random.normal(key, (3, 3, channels, channels)) for key in keys]
    return x, jnp.transpose(x, (1, 2, 0, 3)), kernels


def forward_row(batch: int, size: int, channels: int, rounds: int) -> dict[str, object]:
    """One line of the table of forward passes."""
    x, ours, kernels = example(batch, size, channels)
    runs = {convolution.__name__: forward(convolution, x, kernels) for convolution in (xla, shifted, patches)}
    runs["convolve"] = forward(convolve, ours, kernels)
    seconds = cpu_seconds(runs, rounds)
    row = {"board": f"{size}x{size}", "channels": channels, "batch": batch}
    row["xla, ms a pass"] = 1000 * seconds["xla"] / PASSES
    return row | {f"{name}, speed": seconds["xla"] / seconds[name] for name in list(runs)[1:]}


def learning_row(batch: int, size: int, channels: int, rounds: int) -> dict[str, object]:
    """One line of the table of learning."""
    x, ours, kernels = example(batch, size, channels)
    runs = {
        "xla outside": learning(xla, 1, x, kernels),
        "xla in the loop": learning(xla, STEPS, x, kernels),
        "convolve outside": learning(convolve, 1, ours, kernels),
        "convolve in the loop": learning(convolve, STEPS, ours, kernels),
    }
    seconds = cpu_seconds(runs, rounds)
    row = {"board": f"{size}x{size}", "channels": channels, "batch": batch}
    return row | {
        f"{name}, ms a step": 1000 * seconds[name] / (STEPS if name.endswith("loop") else 1) for name in runs
    }


def main(config: Config) -> None:
    """Measures and prints both tables."""
    if config.quick:
        config = dataclasses.replace(config, sizes=(3,), channels=(8,), batches=(4,), rounds=1)
    cases = [(b, s, c) for b in config.batches for s in config.sizes for c in config.channels]
    rows = [forward_row(*case, config.rounds) for case in cases]
    report("convolution_forward", "Forward: speed relative to XLA's convolution", rows, keep=not config.quick)
    learning_cases = [(4 * max(config.batches), size, config.channels[0]) for size in config.sizes[:2]]
    rows = [learning_row(*case, min(2, config.rounds)) for case in learning_cases]
    report("convolution_learning", "Learning, in and out of a loop", rows, keep=not config.quick)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
