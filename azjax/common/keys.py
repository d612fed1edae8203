"""Random keys by purpose: streams that cannot meet, from one seed.

On today's JAX `fold_in(key, i)` is `split(key, n)[i]`. So folding a small number into a key that is split as well gives
one of its parts a second time, and what was drawn for one thing comes back for another. Where a key is to serve a
second purpose, `stream` derives a key that no split reaches.

At the root every use of a seed has a stream of its own, see `root`: what a run draws in training, the openings of its
games and the positions it is judged by have nothing in common, though all of them begin with seed 0.
"""

import zlib

import jax
import numpy as np

_BEYOND_SPLITS = 2**31  # no key is split into so many parts


def stream(key: jax.Array, purpose: str) -> jax.Array:
    """The key of a purpose: another one for every text, and never a part of `split(key, n)`.

    The text's checksum is folded in, with its highest bit set: the same on every machine and in every version.

    Args:
      key: one, or a batch of any shape. It may be split as well, but nothing may be drawn from it.
      purpose: such as "openings"; two purposes of one key need different texts.
    """
    tag = np.uint32(zlib.crc32(purpose.encode()) | _BEYOND_SPLITS)
    fold = jax.random.fold_in
    for _ in range(key.ndim):
        fold = jax.vmap(fold, (0, None))
    return fold(key, tag)


def root(seed: int, purpose: str) -> jax.Array:
    """Where a purpose begins: "training", "openings", "evaluation" (while training goes on) or "judge"."""
    return stream(jax.random.key(seed), purpose)
