"""Single numbers read and written by their place: by index or by mask, chosen by platform in this one place.

A CPU reads and writes single elements as cheaply as anything. A TPU has no such instruction: XLA makes a loop over
the batch of them, 10 to 100 cycles per number, where comparing all places with the wanted one costs a fraction of a
cycle per number. A GPU can do either, and fuses the masks into what comes before and after. All forms give the same
bits. Whole rows, which every platform reads well, are indexed everywhere.

Everything here takes one position; use `jax.vmap` for many.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_forced: bool | None = None


def by_platform(*operands: Any, cpu: Callable, accelerator: Callable) -> Any:
    """One of two functions of the operands that compute the same, for the platform that is compiled for."""
    if _forced is not None:
        return (accelerator if _forced else cpu)(*operands)
    return lax.platform_dependent(*operands, cpu=cpu, default=accelerator)


@contextlib.contextmanager
def forced(*, accelerator: bool) -> Iterator[None]:
    """What is traced inside uses one form on every platform, so that the two can be compared."""
    global _forced
    before, _forced = _forced, accelerator
    try:
        yield
    finally:
        _forced = before


def take(x: jax.Array, index: jax.Array) -> jax.Array:
    """`x[index]` for x [n] and an index [] from 0."""
    return by_platform(x, index, cpu=lambda x, index: x[index], accelerator=take_by_mask)


def put(x: jax.Array, index: jax.Array, value: jax.Array) -> jax.Array:
    """`x.at[index].set(value)` for x [n] and an index []; nothing is written if there is no such place."""
    return by_platform(
        x,
        index,
        jnp.asarray(value, x.dtype),
        cpu=lambda x, index, value: x.at[index].set(value, mode="drop"),
        accelerator=put_by_mask,
    )


def permuted(x: jax.Array, tables: np.ndarray, row: jax.Array) -> jax.Array:
    """`x[tables[row]]` for x [n], tables [rows, m] known when compiling, and a row []."""

    def each_by_itself(x, row):
        # A permutation that is known when compiling is a few moves of whole registers.
        return lax.select_n(row, *(_permuted_by(x, table) for table in tables))

    if len(tables) == 1:
        return _permuted_by(x, tables[0])
    return by_platform(
        x,
        row.astype(jnp.int32),
        cpu=lambda x, row: x[jnp.asarray(tables)[row]],
        accelerator=each_by_itself,
    )


def take_by_mask(x: jax.Array, index: jax.Array) -> jax.Array:
    """`take` on accelerators: the sum of a row with one number in it, as a whole number, which is exact."""
    here = jnp.arange(x.shape[0]) == index
    if x.dtype == bool:
        return jnp.any(x & here)
    return from_words(jnp.sum(jnp.where(here, to_words(x), 0), 0, to_words(x).dtype), x.dtype)


def put_by_mask(x: jax.Array, index: jax.Array, value: jax.Array) -> jax.Array:
    """`put` on accelerators."""
    return jnp.where(jnp.arange(x.shape[0]) == index, value, x)


def to_words(x: jax.Array) -> jax.Array:
    """Numbers as whole ones of the same bits, so that adding zeros changes nothing, not even the sign of a zero."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return lax.bitcast_convert_type(x, jnp.dtype(f"int{x.dtype.itemsize * 8}"))


def from_words(x: jax.Array, dtype: Any) -> jax.Array:
    """The numbers whose `to_words` these are."""
    return lax.bitcast_convert_type(x, dtype) if jnp.issubdtype(dtype, jnp.floating) else x


def _permuted_by(x: jax.Array, table: np.ndarray) -> jax.Array:
    table, number = np.asarray(table), np.arange(x.shape[0])
    if np.array_equal(table, number):
        return x
    if not np.array_equal(np.sort(table), number):  # some are left out, or come twice
        return x[table]
    back = np.argsort(table)

    # The gradient of a permutation is the one back; jax would write a scatter.
    @jax.custom_vjp
    def moved(x):
        return x[table]

    moved.defvjp(lambda x: (x[table], None), lambda _, change: (change[back],))
    return moved(x)
