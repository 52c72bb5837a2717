"""The theorem on SciPy's FFTs, checked against sums in balls at lengths of every kind of pass."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy import fft

from tightrope.numerics.floats import Floats, gamma
from tightrope.numerics.fourier import convolution_rel_error, fast_size, fft_rel_error, two_norm

SIZES = [2, 3, 4, 5, 30, 64, 81, 125, 360, 2**10, 3**6, 5**4, 2**4 * 3**2 * 5]


@pytest.fixture(autouse=True)
def _precise_balls() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 120
    yield
    ctx.prec = before


def transform(values: Floats, place: int) -> acb:
    """One coefficient of the transform, exactly."""
    angles = (arb(2 * (i * place % len(values))) / len(values) for i in range(len(values)))
    terms = (arb(float(v)) * acb.exp_pi_i(-acb(angle)) for v, angle in zip(values, angles, strict=True))
    return sum(terms, acb(0))


@pytest.mark.parametrize("size", SIZES)
def test_every_coefficient_is_as_good_as_the_theorem_says(size: int) -> None:
    rng = np.random.default_rng(size)
    impulse = np.zeros(size)
    impulse[rng.integers(size)] = 1.0  # tells the twiddle factors themselves
    for values in (impulse, rng.standard_normal(size), np.exp(rng.uniform(-30, 3, size))):
        spectrum = fft.rfft(values)
        allowed = fft_rel_error(size) * math.fsum(np.abs(values))
        for place in np.unique(rng.integers(len(spectrum), size=6)).tolist():
            truth = transform(values, place)
            assert abs(acb(complex(spectrum[place])) - truth) <= allowed


@pytest.mark.parametrize("size", [64, 81, 125, 360, 5**4])
def test_convolutions_are_as_good_as_the_theorem_says(size: int) -> None:
    rng = np.random.default_rng(size)
    kernel, values = np.exp(rng.uniform(-20, 0, size)), np.exp(rng.uniform(-40, 0, size))
    found = fft.irfft(fft.rfft(kernel) * fft.rfft(values), size)
    allowed = convolution_rel_error(size) * math.fsum(kernel) * math.sqrt(math.fsum(values**2)) * (1 + 1e-12)
    for i in rng.integers(size, size=20).tolist():
        truth = sum((arb(float(kernel[j])) * arb(float(values[i - j])) for j in range(size)), arb(0))
        assert abs(arb(float(found[i])) - truth) <= allowed


def test_sizes_have_no_other_prime_factors() -> None:
    for least in (7, 11, 1001, 123_457, 10**6 + 3):
        size = rest = fast_size(least)
        assert size >= least
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        assert rest == 1
    with pytest.raises(ArithmeticError, match="no theorem"):
        fft_rel_error(7 * 1024)


@pytest.mark.parametrize("size", [1, 2, 1000, 20_000])
def test_the_two_norm_is_as_good_as_a_sum_of_so_many_terms(size: int) -> None:
    values = np.exp(np.random.default_rng(size).uniform(-30, 30, size))
    truth = sum((arb(float(v)) ** 2 for v in values), arb(0)).sqrt()
    assert abs(arb(two_norm(values)) - truth) <= truth * gamma(size)
    assert two_norm(np.full(size, 1e200)) == math.inf
