"""Numbers as people type them: 0.001, 1e-6, 1/1000, 10_000, 60,000, 1e-7,1e-6, 0:2:21."""

import math
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Protocol

MOST_POINTS = 100_000
_MOST_DIGITS = 18
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")  # 60,000
_POINT = re.compile(r"[^eE]*\.[^eE]*")  # 10.000 is ten to some and ten thousand to others


class Word(Protocol):
    """One word of the command line."""

    value: str


def read_number(_: Any, words: Sequence[Word]) -> float:
    """Read one number; a fraction is rounded once, to the nearest float."""
    return _parse_number(words[0].value)


def read_exactly(_: Any, words: Sequence[Word]) -> float | Fraction:
    """Read one number; a fraction stays what it is."""
    text = words[0].value
    number = _parse_number(text)
    return Fraction(text) if "/" in text else number


def read_whole(_: Any, words: Sequence[Word]) -> int:
    """Read one whole number; 1e4 is whole, 1.5 is refused instead of rounded."""
    text = words[0].value
    try:
        value = Decimal(text.replace(",", "_") if _THOUSANDS.fullmatch(text) else text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise ValueError(f"{text!r} is not a whole number; pass for example 10000.")
    if value.adjusted() >= _MOST_DIGITS:  # before it is written out: 1e999999999
        raise ValueError(f"{text!r} is too large; pass a whole number of at most {_MOST_DIGITS} digits.")
    if value != value.to_integral_value():
        up = f"; rounded up it is {math.ceil(value)}." if value > 1 else "; pass for example 10000."
        raise ValueError(f"{text!r} is not a whole number{up}")
    if _POINT.fullmatch(text):
        raise ValueError(f"{text!r} may be {int(value)} or a number of thousands; leave out the point.")
    return int(value)


def read_numbers(_: Any, words: Sequence[Word]) -> list[float]:
    """Read numbers separated by spaces or commas; at least one."""
    found = [_parse_number(part) for word in words for part in word.value.split(",") if part.strip()]
    if not found:
        raise ValueError("it has no value; pass at least one number.")
    return found


def read_points(_: Any, words: Sequence[Word]) -> list[float]:
    """Read start:stop:count, evenly spaced with both ends, or numbers separated by spaces or commas."""
    if not any(":" in word.value for word in words):
        return read_numbers(_, words)
    text = " ".join(word.value for word in words)
    parts = text.split(":")
    if len(parts) != 3 or len(words) != 1:
        raise ValueError(f"{text!r} is not start:stop:count; pass for example 0:2:21.")
    start, stop, count = (_parse_number(part) for part in parts)
    if count % 1 != 0 or not 2 <= count <= MOST_POINTS:
        raise ValueError(f"{text!r} asks for {count:g} points; pass a whole count from 2 to {MOST_POINTS}.")
    if not -math.inf < start < stop < math.inf:
        raise ValueError(f"{text!r} does not go upwards; pass start below stop, for example 0:2:21.")
    # in exact arithmetic on what was typed: 0:1:11 holds 0.3 and not 0.30000000000000004
    first, last = Fraction(repr(start)), Fraction(repr(stop))
    return [float(first + (last - first) * i / (int(count) - 1)) for i in range(int(count))]


def _parse_number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{text!r} is not a number; pass for example 0.5, 1e-6 or 1/1000.") from None
