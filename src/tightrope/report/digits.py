"""Certified numbers as text, rounded outwards, however small."""

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from tightrope.curve.bracket import Bracket

_WIDE = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
_FEWEST, _EXACT, _MOST = 6, 9, 15


def ends(bracket: Bracket, digits: int | None = None) -> tuple[str, str]:
    """Write the lower end rounded down and the upper end rounded up, to two digits more than they share.

    >>> ends(Bracket(0.94719428, 0.94719668))
    ('0.94719428', '0.94719668')
    >>> ends(Bracket(2 / 3, math.inf))
    ('0.666666', 'infinity')
    """
    digits = digits or _digits(bracket.relative_width)
    # repr has the fewest digits that read back as the same float: 0.1 stays 0.1, not 0.1000...0055 rounded up
    lower, upper = Decimal(repr(bracket.lower)), Decimal(repr(bracket.upper))
    return _written(lower, digits, ROUND_FLOOR), _written(upper, digits, ROUND_CEILING)


def ends_from_logs(logs: Bracket) -> tuple[str, str]:
    """Write the two ends of delta from the bracket of ln delta, also where delta is no float.

    >>> ends_from_logs(Bracket(-888.5, -888.4999))
    ('1.346954e-386', '1.347089e-386')
    >>> ends_from_logs(Bracket(-math.inf, -1e20))
    ('0', 'exp(-1e+20)')
    """
    digits = _digits(-math.expm1(-logs.width))
    return _exponential(logs.lower, digits, ROUND_FLOOR), _exponential(logs.upper, digits, ROUND_CEILING)


def _digits(relative_width: float) -> int:
    if not 0 < relative_width < 1:
        return _FEWEST if relative_width else _EXACT
    return min(max(_FEWEST, 2 - math.floor(math.log10(relative_width))), _MOST)


def _exponential(log: float, digits: int, rounding: str) -> str:
    value = Decimal(log).exp(_WIDE)
    # beyond the range of Decimal nothing but the logarithm itself can be written
    return f"exp({log!r})" if value == 0 and log > -math.inf else _written(value, digits, rounding)


def _written(value: Decimal, digits: int, rounding: str) -> str:
    if value.is_infinite():
        return "infinity"
    if value == 0:
        return "0"
    rounded = Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN).plus(value)
    if -4 <= rounded.adjusted() < digits:
        return f"{rounded:f}"
    mantissa, exponent = f"{rounded:e}".split("e")
    return f"{mantissa}e{int(exponent):+03d}"
