"""Rigorous numbers: flint's balls at rising precision, and the few formulas that need no library code."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

BITS = (128, 320, 1000, 3000)  # the precisions at which a comparison is tried


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def exact(value: Fraction | float | int) -> arb:
    """The ball of a number that is given exactly."""
    ratio = Fraction(value)
    return arb(fmpq(ratio.numerator, ratio.denominator))


def normal_below(x: Any) -> Any:
    """P(X < x), X standard normal, for a real or complex ball."""
    return (-x / arb(2).sqrt()).erfc() / 2


def is_at_most(value: arb, bound: arb) -> bool | None:
    """Whether value <= bound, or None where the balls do not tell."""
    if value <= bound:
        return True
    return False if value > bound else None
