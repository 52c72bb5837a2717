"""Every bound of numerics/ulps.py, checked against balls at zeros, branches and ends of the range."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special

from tightrope.numerics import ulps
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma

MANY = 1500
UNDERFLOW = ulps.UNDERFLOW_ABS_ERROR


@pytest.fixture(autouse=True)
def _precise_balls() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 300
    yield
    ctx.prec = before


def sizes(low: float, high: float, seed: int = 0) -> Floats:
    """Positive numbers with exponents of 10 between two."""
    return 10 ** np.random.default_rng([seed, MANY]).uniform(low, high, MANY)


def both(x: Floats) -> Floats:
    return np.concatenate([x, -x])


def around(*points: float) -> Floats:
    """The points, their 24 neighbours among floats, and others at every distance."""
    near = []
    for point in points:
        steps = np.spacing(point) * np.arange(-12, 13)
        away = both(sizes(-17, 0.5)[::15] * max(abs(point), 1e-300))
        near.append(point + np.concatenate([steps, away]))
    return np.concatenate(near)


def evenly(low: float, high: float) -> Floats:
    return np.random.default_rng([1, MANY]).uniform(low, high, MANY)


def scalar(function: Callable[[float], float]) -> Callable[[Floats], Floats]:
    return lambda x: np.array([function(float(v)) for v in x])


WIDE = both(sizes(-320, 308))
EXPONENTS = np.concatenate([both(sizes(-320, 2.84)), evenly(-760, 709.7), around(0.0, 0.3465736, 1.0, 709.0)])
EXPONENTS = EXPONENTS[EXPONENTS < 709.78]
POSITIVE = np.concatenate(
    [sizes(-307, 308), sizes(-3, 3), around(1.0, 0.5, 2.0, math.sqrt(0.5), math.sqrt(2))]
)
POSITIVE = POSITIVE[POSITIVE > 0]
ABOVE_MINUS_ONE = np.concatenate(
    [WIDE, evenly(-1, 3), -1 + sizes(-15.9, 0), around(0.0, 1.0, -0.5, 0.41421356)]
)
ABOVE_MINUS_ONE = ABOVE_MINUS_ONE[ABOVE_MINUS_ONE > -1]
ANGLES = np.concatenate(
    [WIDE, both(sizes(0, 9)), around(*(k * math.pi / 4 for k in (1, 2, 3, 4, 7, 100, 12345, 10**7, 10**12)))]
)
NORMAL = np.concatenate(
    [
        evenly(-37.5, 38),
        both(sizes(-320, 1.5)),
        around(*both(np.array([0.7071, 1, 1.4142, 5, 8, 11.3, 14, 20]))),
    ]
)
NORMAL = NORMAL[(NORMAL > -37.5) & (NORMAL < 38)]
AT_LEAST_HALF = np.concatenate(
    [around(1.0, 2.0, 3.0, 13.0, 1000.0, 1e8), sizes(0, 305), np.arange(1.0, 400.0)]
)

ELEMENTARY: dict[str, tuple[Callable[[arb], arb], Floats]] = {
    "exp": (arb.exp, EXPONENTS),
    "expm1": (arb.expm1, EXPONENTS),
    "log": (arb.log, POSITIVE),
    "log1p": (arb.log1p, ABOVE_MINUS_ONE),
    "log2": (lambda x: x.log() / arb(2).log(), POSITIVE),
    "log10": (lambda x: x.log() / arb(10).log(), POSITIVE),
    "sin": (arb.sin, ANGLES),
    "cos": (arb.cos, ANGLES),
    "tan": (arb.tan, ANGLES),
    "cbrt": (lambda x: x.root(3), POSITIVE),
}


def log_normal_tail_far_out(x: arb) -> arb:
    """ln P(X < x) for x < -100: the asymptotic series, whose partial sums enclose the value."""
    term = total = arb(1)
    for n in range(1, 30):
        term = -term * (2 * n - 1) / (x * x)
        total += term
    return (total + arb(0, 1) * abs(term)).log() - x * x / 2 - (-x).log() - (2 * arb.pi()).log() / 2


def ndtr(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def log_ndtr(x: arb) -> arb:
    if x < -100:
        return log_normal_tail_far_out(x)
    return ndtr(x).log() if x < 0 else (-ndtr(-x)).log1p()


def assert_within(computed: Floats, truth: list[arb], abs_error: Callable[[int, arb], arb]) -> None:
    """Each computed value is within its bound of the truth, which itself is known far better."""
    assert len(computed) > MANY / 2
    for i, (value, true) in enumerate(zip(computed, truth, strict=True)):
        assert abs(arb(float(value)) - true) <= abs_error(i, true), (i, value, true)


def check(x: Floats, computed: Floats, reference: Callable[[arb], arb], rel_error: Floats | float) -> None:
    errors = np.broadcast_to(rel_error, x.shape)
    truth = [reference(arb(float(v))) for v in x]
    assert_within(computed, truth, lambda i, true: arb(float(errors[i])) * abs(true) + UNDERFLOW)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_of_numpy_and_math(name: str) -> None:
    reference, x = ELEMENTARY[name]
    x = x[np.isfinite(x)]
    check(x, getattr(np, name)(x), reference, ulps.ELEMENTARY_REL_ERROR)
    check(x, scalar(getattr(math, name))(x), reference, ulps.ELEMENTARY_REL_ERROR)


@pytest.mark.parametrize("name", ["exp", "log"])
def test_exponentials_and_logarithms_of_one_number_are_right_to_one_float(name: str) -> None:
    """What `log_ends` and the printed ends of delta step over."""
    reference, x = ELEMENTARY[name]
    for value in x[np.isfinite(x)].tolist():
        found, truth = getattr(math, name)(value), reference(arb(value))
        assert arb(math.nextafter(found, -math.inf)) <= truth <= arb(math.nextafter(found, math.inf)), value


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 1000, 12345, 10**9, 2**50, 2**51 - 1])
def test_gamma_is_rounded_up(count: int) -> None:
    unit = Fraction(1, 2**53)
    assert count * unit / (1 - count * unit) <= Fraction(gamma(count))


def test_functions_of_two_arguments() -> None:
    rng = np.random.default_rng(2)
    x, y = both(sizes(-150, 150)), rng.permutation(both(sizes(-150, 150, 1)))
    # and of about the same size, as transforms have, near the axes and the diagonals too
    x = np.concatenate([x, x[:MANY], np.cos(ANGLES[-MANY:])])
    y = np.concatenate([y, x[:MANY] * both(sizes(-17, 2))[: 2 * MANY : 2], np.sin(ANGLES[-MANY:])])
    balls = [(arb(float(v)), arb(float(w))) for v, w in zip(x, y, strict=True)]

    def relative(i: int, true: arb) -> arb:
        return arb(ulps.ELEMENTARY_REL_ERROR) * abs(true) + UNDERFLOW

    assert_within(np.hypot(x, y), [(v * v + w * w).sqrt() for v, w in balls], relative)
    assert_within(np.abs(x + 1j * y), [(v * v + w * w).sqrt() for v, w in balls], relative)
    assert_within(np.arctan2(y, x), [arb.atan2(w, v) for v, w in balls], relative)
    assert_within(np.angle(x + 1j * y), [arb.atan2(w, v) for v, w in balls], relative)


def test_logaddexp() -> None:
    a = np.concatenate([both(sizes(-20, 8)), evenly(-800, 800), evenly(-1, 1)])
    b = a + np.concatenate(
        [np.roll(both(sizes(-20, 3)), 777), evenly(-40, 40)[::-1], evenly(-1.5, 0.5)[::-1]]
    )
    truth = []
    for v, w in zip(a, b, strict=True):
        low, high = sorted((arb(float(v)), arb(float(w))), key=lambda ball: float(ball))
        truth.append(high + (low - high).exp().log1p())
    computed = np.logaddexp(a, b)
    errors = ulps.logaddexp_abs_error(computed)
    assert_within(computed, truth, lambda i, _: arb(float(errors[i])))


def test_square_roots_are_rounded_correctly() -> None:
    check(POSITIVE, np.sqrt(POSITIVE), arb.sqrt, UNIT_ROUNDOFF)


@pytest.mark.parametrize("x", [NORMAL, evenly(-45, -37)], ids=["normal", "underflow"])
def test_ndtr(x: Floats) -> None:
    check(x, special.ndtr(x), ndtr, ulps.ndtr_rel_error(x))


@pytest.mark.parametrize(
    "x",
    [NORMAL, np.concatenate([-sizes(0, 150), evenly(-1000, 0)]), evenly(35, 45)],
    ids=["normal", "low", "high"],
)
def test_log_ndtr(x: Floats) -> None:
    check(x, special.log_ndtr(x), log_ndtr, ulps.log_ndtr_rel_error(x))


def test_expit() -> None:
    x = np.concatenate([both(sizes(-320, 2.8)), evenly(-760, 760), around(-709.78, -37.0, 37.0)])
    check(x, special.expit(x), lambda v: 1 / (1 + (-v).exp()), ulps.EXPIT_REL_ERROR)


def test_logarithms_of_factorials() -> None:
    x = np.concatenate([sizes(-300, 0), AT_LEAST_HALF[AT_LEAST_HALF > 0]])
    computed = special.gammaln(x)
    errors = ulps.gammaln_abs_error(computed)
    assert_within(computed, [arb(float(v)).lgamma() for v in x], lambda i, _: arb(float(errors[i])))
    assert special.gammaln(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("count", [1, 7, 9, 127, 135, 1000, 4103, 100_001])
def test_sums_of_numpy_are_rounded_no_more_often_than_pairs(count: int) -> None:
    bound = (ulps.pairwise_roundings(count) + 1) * 2.0**-53  # math.fsum itself rounds once
    for seed in range(20):
        x = 1 + np.random.default_rng([seed, count]).random((2, count)) * 2.0 ** -(seed % 5)
        for row, total in zip(x, x.sum(axis=1), strict=True):
            exact = math.fsum(row)
            assert abs(total - exact) <= bound * exact
    stuck = np.full(count, 2.0**-53)
    stuck[::128] = 1.0  # a plain sum would lose every other term
    assert abs(stuck.sum() - math.fsum(stuck)) <= bound * math.fsum(stuck)
