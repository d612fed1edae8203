"""A random generator that notes which of its keys are used, to find those that are used twice.

Its keys are ordinary ones of another type: whatever draws from them, in any loop or transformation, is noted when it
happens, and nothing else has to be changed. Programs are not kept on disk, for they call back into this process.
"""

import collections
import contextlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl, threefry_prng_impl

_drawn: collections.Counter = collections.Counter()
_split: set = set()
_folded: set = set()  # with any number
_folded_as_a_part: set = set()  # with one that a split might have made
_BEYOND_SPLITS = 2**31  # see azjax.common.keys


def _note_drawn(data):
    _drawn.update(_rows(data))


def _note_split(data):
    _split.update(_rows(data))


def _note_folded(data, number):
    _folded.update(_rows(data))
    small = np.asarray(number).ravel() < _BEYOND_SPLITS
    _folded_as_a_part.update(_rows(np.asarray(data).reshape(-1, 2)[small]))


def _rows(data):
    return map(tuple, np.asarray(data).reshape(-1, 2).tolist())


def _noted(note, function, with_number=False):
    @jax.custom_batching.custom_vmap
    def tell(data, *number):
        jax.debug.callback(note, data, *number)
        return data

    @tell.def_vmap
    def tell_of_all(size, batched, *given):
        given = [
            part if is_batched else jnp.broadcast_to(part, (size, *part.shape))
            for part, is_batched in zip(given, batched)
        ]
        return tell(*given), True

    def noted(data, *arguments):
        return function(tell(data, *arguments[: int(with_number)]), *arguments)

    return noted


RECORDED = define_prng_impl(
    key_shape=(2,),
    seed=threefry_prng_impl.seed,
    split=_noted(_note_split, threefry_prng_impl.split),
    random_bits=_noted(_note_drawn, threefry_prng_impl.random_bits),
    fold_in=_noted(_note_folded, threefry_prng_impl.fold_in, with_number=True),
    name="recorded",
    tag="rec",
)


class Reuse:
    """What was found while `recorded` lasted."""

    draws: int  # from how many different keys
    twice: list  # keys that were drawn from more than once
    split_too: list  # keys that were drawn from and also split or folded
    parts_again: list  # keys that were split and also folded, of which a part may have come back


@contextlib.contextmanager
def recorded(monkeypatch):
    """Every key that `jax.random.key` makes meanwhile is noted; the result is filled in at the end."""
    plain = jax.random.key
    found = Reuse()
    for noted in (_drawn, _split, _folded, _folded_as_a_part):
        noted.clear()
    with monkeypatch.context() as patch:
        patch.setattr(jax.random, "key", lambda seed: plain(seed, impl=RECORDED))
        yield found
    jax.effects_barrier()
    found.draws = len(_drawn)
    found.twice = [key for key, times in _drawn.items() if times > 1]
    found.split_too = [key for key in _drawn if key in _split | _folded]
    found.parts_again = sorted(_split & _folded_as_a_part)
