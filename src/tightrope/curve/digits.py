"""Brackets as text: both ends rounded outwards, however small, or one number rounded up."""

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from tightrope.curve.bracket import Bracket
from tightrope.numerics.text import round_outwards

ONE_NUMBER = 5e-3  # relative width up to which a bracket is written as one number

_WIDE = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LONG = Context(prec=400)  # 309 digits before the point
_FEWEST, _EXACT, _MOST = 6, 9, 15
_USUAL_DECIMALS = 2
# more decimals tell close numbers apart, fewer suit wide brackets
_DECIMALS = (*range(_USUAL_DECIMALS, 16), *reversed(range(_USUAL_DECIMALS)))


def ends(bracket: Bracket, digits: int | None = None) -> tuple[str, str]:
    """Write the lower end rounded down and the upper end rounded up, to two digits more than they share.

    >>> ends(Bracket(0.94719428, 0.94719668))
    ('0.94719428', '0.94719668')
    >>> ends(Bracket(2 / 3, math.inf))
    ('0.666666', 'infinity')
    """
    digits = digits or _digits(bracket.relative_width)
    return round_outwards(bracket.lower, digits, up=False), round_outwards(bracket.upper, digits, up=True)


def ends_from_logs(logs: Bracket, digits: int | None = None) -> tuple[str, str]:
    """Write the two ends of delta from the bracket of ln delta, also where delta is no float.

    >>> ends_from_logs(Bracket(-888.5, -888.4999))
    ('1.346954e-386', '1.347089e-386')
    >>> ends_from_logs(Bracket(-math.inf, -1e20))
    ('0', 'exp(-1e+20)')
    """
    digits = digits or _digits(-math.expm1(-logs.width))
    return _exponential(logs.lower, digits, up=False), _exponential(logs.upper, digits, up=True)


def _digits(relative_width: float) -> int:
    if not 0 < relative_width < 1:
        return _FEWEST if relative_width else _EXACT
    return min(max(_FEWEST, 2 - math.floor(math.log10(relative_width))), _MOST)


def _exponential(log: float, digits: int, *, up: bool) -> str:
    nearest = Decimal(log).exp(_WIDE)
    # beyond the range of Decimal nothing but the logarithm itself can be written
    if nearest == 0 and log > -math.inf:
        return f"exp({log!r})"
    exact = log == 0 or math.isinf(log)  # e^log of no other float is a decimal number
    outer = nearest.next_plus(_WIDE) if up else nearest.next_minus(_WIDE)
    return round_outwards(nearest if exact else outer, digits, up=up)


def write_brackets(brackets: Sequence[Bracket]) -> list[str]:
    """Each bracket as its upper end rounded up, or as both ends where it is wide; no two alike.

    >>> write_brackets([Bracket(0.9471, 0.9472), Bracket(0.9481, 0.9482)]), write_brackets([Bracket(1, 2)])
    (['0.948', '0.949'], ['between 1.00 and 2.00'])
    """
    for decimals in _DECIMALS:
        texts = [_write_range(b) if is_wide(b) else _round(b, decimals) for b in brackets]
        if all(texts) and len(set(texts)) == len(texts):
            return texts
    return [_write_range(bracket) for bracket in brackets]


def is_wide(bracket: Bracket) -> bool:
    """Whether one number would say more than is known."""
    is_one_number = any(_round(bracket, decimals) for decimals in _DECIMALS)
    return bracket.relative_width > ONE_NUMBER or not is_one_number


def _round(bracket: Bracket, decimals: int) -> str:
    """The upper end, rounded up to so many decimals; empty if that says more than is known, or too little.

    It is then at most two units of its last digit above the lower end, and has at least two digits.
    """
    if bracket.lower == bracket.upper and (bracket.upper == 0 or math.isinf(bracket.upper)):
        return "infinity" if bracket.upper else "0"
    if math.isinf(bracket.upper):
        return ""
    text = _quantize(bracket.upper, decimals, ROUND_CEILING)
    unit = 10.0**-decimals
    return text if float(text) - bracket.lower <= 2 * unit and float(text) >= 10 * unit else ""


def _write_range(bracket: Bracket) -> str:
    """Both ends, rounded outwards to as many decimals as their distance is worth."""
    if math.isinf(bracket.upper):
        return f"at least {_quantize(bracket.lower, _USUAL_DECIMALS, ROUND_FLOOR)}"
    decimals = min(max(_USUAL_DECIMALS - round(math.log10(bracket.width)), 0), 15) if bracket.width else 15
    lower = _quantize(bracket.lower, decimals, ROUND_FLOOR)
    return f"between {lower} and {_quantize(bracket.upper, decimals, ROUND_CEILING)}"


def round_up(value: float, decimals: int) -> str:
    """A number with so many decimals, rounded up.

    >>> round_up(2 / 3, 4), round_up(math.inf, 4)
    ('0.6667', 'infinite')
    """
    return "infinite" if math.isinf(value) else _quantize(value, decimals, ROUND_CEILING)


def _quantize(value: float, decimals: int, rounding: str) -> str:
    exact = Decimal(repr(float(value)))
    return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding=rounding, context=_LONG):f}"
