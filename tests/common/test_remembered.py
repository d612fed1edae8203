"""Functions that are made once."""

from azjax.common import remembered as module
from azjax.common.remembered import remembered


@remembered
def adder(number, *, times=1):
    """Adds a number, and again."""
    return lambda x: x + number * times


def test_the_same_arguments_give_the_same_function_and_others_another():
    assert adder(2, times=3) is adder(2, times=3)
    assert adder(2, times=3)(1) == 7 and adder(3, times=3)(1) == 10 and adder(2)(1) == 3
    assert adder(2) is not adder(2.0)  # equal, but of another type, which a program may depend on
    assert adder.__doc__ == "Adds a number, and again."


def test_what_cannot_be_hashed_is_given_a_function_all_the_same():
    listed = remembered(lambda numbers: lambda x: x + sum(numbers))
    assert listed([1, 2])(3) == 6 and listed([1, 2]) is not listed([1, 2])


def test_only_so_many_are_kept():
    first = adder(-1)
    for number in range(module.MOST):
        adder(number, times=7)
    assert adder(-1) is not first
