"""The theses' own rules for noise and temperatures: their published numbers."""

import pytest

from azjax.theses import daliri2022, jacobsen2019


@pytest.mark.parametrize("size, moves, alpha", [(7, 5, 0.2915452), (9, 9, 0.1763668), (11, 13, 0.11806)])
def test_the_opening_length_and_the_noise_of_jacobsen_2019(size, moves, alpha):
    assert jacobsen2019.opening_moves(size) == moves
    assert jacobsen2019.dirichlet_alpha(size) == pytest.approx(alpha, abs=5e-6)


# Daliri 2022, tables 5.2 and 5.3: 6x6 and 8x8 Hex, by n^2 / 2 and by the mean length of random games.
@pytest.mark.parametrize("size, alpha", [(6, 0.310), (8, 0.303)])
def test_the_noise_of_daliri_2022(size, alpha):
    assert daliri2022.dirichlet_alpha(size * size / 2) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("branching, alpha", [(35, 0.3), (92, 0.15), (250, 0.03)])
def test_the_noise_of_daliri_2022_meets_that_of_chess_shogi_and_go(branching, alpha):
    assert daliri2022.dirichlet_alpha(branching) == pytest.approx(alpha, abs=1e-9)


def test_the_noise_of_daliri_2022_is_the_polynomial_of_its_table():
    x = 18.0
    powers = (
        0.311850289 - 3.70998309e-11 * x - 4.28565127e-9 * x**2 - 3.18309443e-7 * x**3 + 1.20115267e-9 * x**4
    )
    assert daliri2022.dirichlet_alpha(x) == pytest.approx(powers, abs=1e-6)


@pytest.mark.parametrize("length, drop", [(31, 8), (56, 17), (150, 30), (36, 10), (9, 4)])
def test_the_temperature_drop_of_daliri_2022(length, drop):
    assert daliri2022.temperature_drop(length) == drop
