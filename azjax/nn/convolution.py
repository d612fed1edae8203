"""The convolution under every tower, chosen by platform in this one place.

Accelerators run their own. XLA's convolution for CPUs is slow on boards this small, and its gradient collapses
inside a loop, so there a convolution becomes matrix products: the Cook-Toom algorithm (for images known as
Winograd's) reads board and kernel as polynomials, evaluates both at a few points, multiplies there, and
interpolates. A 7x7 board and a 3x3 kernel then need 81 products of channel vectors instead of 441, and the
gradient is matrix products too. By `experiments/benchmarks/convolution.py`, on one core, 32 or 64 channels and
batches of 64, it is 1.6 to 3.1 times as fast as XLA's; learning in a loop, 50 times.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LARGEST_KERNEL = 9
_PLAIN = contextvars.ContextVar("plain convolutions", default=False)


@contextlib.contextmanager
def plain_convolutions() -> Iterator[None]:
    """What is traced inside has one convolution for all platforms, batch first, as other programs know it."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Slides an odd, square kernel over a board with zeros around it; the board keeps its size.

    The batch stands behind the board's axes, so that on CPU nothing is ever transposed. There half precision
    is storage alone, and the rounding error is 1e-6 to 3e-5 of the result's size (root mean square).

    Args:
      x: [height, width, batch, channels].
      kernel: [size, size, channels, filters], of the same dtype.

    Returns:
      [height, width, batch, filters], of the same dtype.
    """
    if kernel.shape[0] == 1:
        return jnp.matmul(x, kernel[0, 0])
    if _PLAIN.get():
        return _convolve_plainly(x, kernel)
    return lax.platform_dependent(x, kernel, cpu=_convolve_on_cpu, default=_convolve_on_accelerator)


def _convolve_on_accelerator(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("HWNC", "HWIO", "HWNC"))


def _convolve_plainly(x: jax.Array, kernel: jax.Array) -> jax.Array:
    batch_first = jnp.transpose(x, (2, 0, 1, 3))
    answer = lax.conv_general_dilated(
        batch_first, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.transpose(answer, (1, 2, 0, 3))


def _convolve_on_cpu(x: jax.Array, kernel: jax.Array) -> jax.Array:
    rows, columns = (_axis_transforms(length, kernel.shape[0]) for length in x.shape[:2])
    board = _on_two_axes(rows.board, columns.board, x.astype(jnp.float32))  # [p, q, batch, channels]
    taps = _on_two_axes(rows.kernel, columns.kernel, kernel.astype(jnp.float32))  # [p, q, channels, filters]
    products = lax.dot_general(board, taps, (((3,), (2,)), ((0, 1), (0, 1))))  # [p, q, batch, filters]
    return _on_two_axes(rows.interpolate, columns.interpolate, products).astype(x.dtype)


def _on_two_axes(row_matrix: np.ndarray, column_matrix: np.ndarray, x: jax.Array) -> jax.Array:
    """Multiplies axis 0 by one matrix and axis 1 by another."""

    def multiply(rows, columns, x):
        x = lax.dot_general(rows, x, (((1,), (0,)), ((), ())))
        # One product a row, with the matrix repeated: contracting axis 1 in one product would transpose x.
        columns = jnp.broadcast_to(columns, (x.shape[0], *columns.shape))
        return lax.dot_general(columns, x, (((2,), (1,)), ((0,), (0,))))

    # The gradient that automatic differentiation would find, less the transpositions it would insert.
    @jax.custom_vjp
    def linear(x):
        return multiply(row_matrix, column_matrix, x)

    linear.defvjp(lambda x: (linear(x), None), lambda _, y: (multiply(row_matrix.T, column_matrix.T, y),))
    return linear(x)


class _AxisTransforms(NamedTuple):
    """One axis of the board: result = interpolate @ ((kernel @ taps) * (board @ cells))."""

    board: np.ndarray  # [points, length]
    kernel: np.ndarray  # [points, size]
    interpolate: np.ndarray  # [length, points]


# For each number of points (the last one is infinity, not listed) those of smallest rounding error in
# float32 among small fractions, found by trying them all. Eleven points would lose another digit.
_POINTS = {
    3: (0, 1),
    4: (0, 1, -1),
    5: (0, 3 / 4, -3 / 4, 2),
    6: (0, 2 / 3, -2 / 3, 3 / 2, -3 / 2),
    7: (0, 1, -1, 2, -2, 1 / 2),
    8: (0, 1 / 2, -1 / 2, 1, -1, 2, -2),
    9: (0, 3 / 4, -3 / 4, 4 / 3, -4 / 3, 2, -2, 1 / 4),
    10: (0, 1 / 2, -1 / 2, 3 / 4, -3 / 4, 4 / 3, -4 / 3, 2, -2),
}


@functools.cache
def _axis_transforms(length: int, size: int) -> _AxisTransforms:
    """The matrices for an axis of `length` cells, cut into as few tiles as the points at hand allow."""
    longest_tile = max(_POINTS) - size + 1
    tiles = np.array_split(np.arange(length), -(-length // longest_tile))
    parts = [_tile_transforms(tile, length, size) for tile in tiles]
    board, kernel, interpolate = (np.concatenate(matrices, dtype=np.float32) for matrices in zip(*parts))
    return _AxisTransforms(board, kernel, np.ascontiguousarray(interpolate.T))


def _tile_transforms(tile: np.ndarray, length: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(board, kernel, transposed interpolate) of the tile's own points, embedded in the whole axis.

    A product of two polynomials is known from its values at points: F^-1 ((V_m a) * (V_r b)), with F, V_m
    and V_r the powers of the points. The transpose of that map in `a` is the sliding product wanted here.
    """
    num_points = len(tile) + size - 1
    tile_powers, kernel_powers, all_powers = (_powers(num_points, n) for n in (len(tile), size, num_points))
    from_cells = np.linalg.inv(all_powers).T
    # Rows may be rescaled at will as long as the three factors cancel; rows of equal size round best.
    kernel_scale, tile_scale = (np.abs(m).sum(1, keepdims=True) for m in (kernel_powers, tile_powers))
    from_cells = from_cells * kernel_scale * tile_scale

    cells = (
        tile[0] - size // 2 + np.arange(num_points)
    )  # what the kernel reaches; outside the board are zeros
    inside = (cells >= 0) & (cells < length)
    board, interpolate = np.zeros((num_points, length)), np.zeros((num_points, length))
    board[:, cells[inside]] = from_cells[:, inside]
    interpolate[:, tile] = tile_powers / tile_scale
    return board, kernel_powers / kernel_scale, interpolate


def _powers(num_points: int, count: int) -> np.ndarray:
    """[num_points, count] powers 0, 1, ... of the points; at infinity only the highest counts."""
    finite = np.power(np.array(_POINTS[num_points], float)[:, None], np.arange(count))
    return np.concatenate([finite, np.eye(count)[-1:]])
