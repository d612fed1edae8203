"""Functions that are made once: what JAX has compiled for one serves whoever makes it again.

JAX finds a compiled program by the functions it was made of, and a function made anew is another one, however alike.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

Maker = TypeVar("Maker", bound=Callable)

MOST = 32  # answers of one maker, of which the one that was not asked for longest is forgotten


def remembered(make: Maker) -> Maker:
    """Has a maker of pure functions give the same one for the same arguments.

    It must read nothing but its arguments, and keep no array: made within a trace, that would belong to the trace.
    Arguments that cannot be hashed have a function made anew every time.
    """
    kept = functools.lru_cache(maxsize=MOST, typed=True)(make)

    @functools.wraps(make)
    def remember(*arguments, **options):
        try:
            hash((arguments, *options.values()))
        except TypeError:
            return make(*arguments, **options)
        return kept(*arguments, **options)

    return remember
