"""A random generator that notes which of its keys are used, to find those that are used twice.

Its keys are ordinary ones of another type: whatever draws from them, in any loop or transformation, is noted when it
happens, and nothing else has to be changed. Programs are not kept on disk, for they call back into this process.
"""

import collections
import contextlib

import jax
import numpy as np
from jax.extend.random import define_prng_impl, threefry_prng_impl

_drawn: collections.Counter = collections.Counter()
_derived: set = set()


def _note_drawn(data):
    _drawn.update(map(tuple, np.asarray(data).reshape(-1, 2).tolist()))


def _note_derived(data):
    _derived.update(map(tuple, np.asarray(data).reshape(-1, 2).tolist()))


def _noted(note, function):
    @jax.custom_batching.custom_vmap
    def tell(data):
        jax.debug.callback(note, data)
        return data

    @tell.def_vmap
    def tell_of_all(size, batched, data):
        return tell(data), True

    def noted(data, *arguments):
        return function(tell(data), *arguments)

    return noted


RECORDED = define_prng_impl(
    key_shape=(2,),
    seed=threefry_prng_impl.seed,
    split=_noted(_note_derived, threefry_prng_impl.split),
    random_bits=_noted(_note_drawn, threefry_prng_impl.random_bits),
    fold_in=_noted(_note_derived, threefry_prng_impl.fold_in),
    name="recorded",
    tag="rec",
)


class Reuse:
    """What was found while `recorded` lasted."""

    draws: int  # from how many different keys
    twice: list  # keys that were drawn from more than once
    split_too: list  # keys that were drawn from and also split or folded


@contextlib.contextmanager
def recorded(monkeypatch):
    """Every key that `jax.random.key` makes meanwhile is noted; the result is filled in at the end."""
    plain = jax.random.key
    found = Reuse()
    _drawn.clear()
    _derived.clear()
    with monkeypatch.context() as patch:
        patch.setattr(jax.random, "key", lambda seed: plain(seed, impl=RECORDED))
        yield found
    jax.effects_barrier()
    found.draws = len(_drawn)
    found.twice = [key for key, times in _drawn.items() if times > 1]
    found.split_too = [key for key in _drawn if key in _derived]
