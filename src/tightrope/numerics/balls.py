"""Ball arithmetic (python-flint's arb): numbers that carry their own error, so no constant stands for it.

A ball is a midpoint and a radius, and holds the exact result of everything it was computed from. Comparisons
are certain: `a < b` is true only if it holds for all numbers of both balls. Loading flint takes some 70 ms:
whoever needs balls for rare questions only imports this module inside the function that does.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx, fmpq

from tightrope.errors import NotPreciseEnough

FIRST_BITS, MOST_BITS = 128, 1 << 16
FLOAT_BITS = 64  # more than a float holds: rounding a ball outwards then costs at most one float


def ball(x: float | Fraction) -> arb:
    """A float or an infinity exactly, a fraction up to the working precision."""
    if isinstance(x, float):
        return arb(x)
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction) else arb(x)


def enclose(compute: Callable[[], arb], *, bits: int = FLOAT_BITS, first: int = FIRST_BITS) -> arb:
    """The value of `compute()` to `bits` bits relative to itself, worked out ever more precisely until it is.

    NotPreciseEnough is raised where all digits cancel, however many are carried; a ball that is exactly 0 is
    an answer.
    """
    working = first
    while working <= MOST_BITS:
        with ctx.workprec(working):
            value = compute()
            if value.is_exact() or value.rel_accuracy_bits() >= bits:
                return value
        working *= 2
    raise NotPreciseEnough(
        f"a number could not be told from 0 with {MOST_BITS} bits",
        "Ask for a slightly different {epsilon} or {delta}.",
    )


def floor_float(value: arb) -> float:
    """A float that is certainly at most each of the ball's numbers, the largest or the one before it."""
    with ctx.workprec(FIRST_BITS):
        found = _nearest(value.lower())
        return found if ball(found) <= value else math.nextafter(found, -math.inf)


def ceil_float(value: arb) -> float:
    """A float that is certainly at least each of the ball's numbers, the smallest or the one after it."""
    with ctx.workprec(FIRST_BITS):
        found = _nearest(value.upper())
        return found if ball(found) >= value else math.nextafter(found, math.inf)


def float_ends(value: arb) -> tuple[float, float]:
    """Both."""
    return floor_float(value), ceil_float(value)


def log_ends_of_ball(value: arb) -> tuple[float, float]:
    """Floats around the logarithm of a positive ball; near 0 it is known absolutely only."""
    with ctx.workprec(FIRST_BITS):
        return float_ends(value.log())


def _nearest(value: arb) -> float:
    if value.is_nan():
        raise ArithmeticError("a ball that is not a number bounds nothing")
    return float(value)
