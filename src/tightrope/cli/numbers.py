"""Numbers as people type them: 0.001, 1e-6, 1/1000, 10_000, 1e-7,1e-6, 0:2:21."""

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Protocol

MOST_POINTS = 100_000
_MOST_DIGITS = 18


class Word(Protocol):
    """One word of the command line."""

    value: str


def number(_: Any, words: Sequence[Word]) -> float:
    """One number; a fraction is rounded once, to the nearest float."""
    return _number(words[0].value)


def whole(_: Any, words: Sequence[Word]) -> int:
    """One whole number; 1e4 is whole, 1.5 is refused instead of rounded."""
    text = words[0].value
    not_whole = ValueError(f"{text!r} is not a whole number; pass for example 10000.")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise not_whole from None
    if (
        value.is_finite() and value.adjusted() >= _MOST_DIGITS
    ):  # also keeps 1e999999999 from being written out
        raise ValueError(f"{text!r} is too large; pass a whole number of at most {_MOST_DIGITS} digits.")
    if not value.is_finite() or value != value.to_integral_value():
        raise not_whole
    return int(value)


def numbers(_: Any, words: Sequence[Word]) -> list[float]:
    """Numbers separated by spaces or commas; at least one."""
    found = [_number(part) for word in words for part in word.value.split(",") if part.strip()]
    if not found:
        raise ValueError("it has no value; pass at least one number.")
    return found


def points(_: Any, words: Sequence[Word]) -> list[float]:
    """start:stop:count, evenly spaced with both ends, or numbers separated by spaces or commas."""
    if not any(":" in word.value for word in words):
        return numbers(_, words)
    text = " ".join(word.value for word in words)
    parts = text.split(":")
    if len(parts) != 3 or len(words) != 1:
        raise ValueError(f"{text!r} is not start:stop:count; pass for example 0:2:21.")
    start, stop, count = (_number(part) for part in parts)
    if count % 1 != 0 or not 2 <= count <= MOST_POINTS:
        raise ValueError(f"{text!r} asks for {count:g} points; pass a whole count from 2 to {MOST_POINTS}.")
    if not -math.inf < start < stop < math.inf:
        raise ValueError(f"{text!r} does not go upwards; pass start below stop, for example 0:2:21.")
    # in exact arithmetic on what was typed, so that 0:1:11 holds 0.3 and not 0.30000000000000004
    first, last = Fraction(repr(start)), Fraction(repr(stop))
    return [float(first + (last - first) * i / (int(count) - 1)) for i in range(int(count))]


def _number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{text!r} is not a number; pass for example 0.5, 1e-6 or 1/1000.") from None
