"""Sets as the bits of a uint64, for compiled searches: one instruction of the processor each.

Only numpy and numba are imported, so that a worker process starts quickly.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_ONE = np.uint64(1)


@numba.njit(cache=True)
def bit_of(place):
    """The set of one place, 0 to 63."""
    return _ONE << np.uint64(place)


@intrinsic
def count_bits(typing_context, word):
    """The number of ones in a uint64."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def lowest_bit(typing_context, word):
    """The place of the lowest one in a uint64 that has any."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def highest_bit(typing_context, word):
    """The place of the highest one in a uint64 that has any."""

    def generate(context, builder, signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), generate
