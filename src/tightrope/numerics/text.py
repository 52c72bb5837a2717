"""Numbers, values, tables and paragraphs as plain text."""

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

Flat = dict[str, str | int | float | None]  # one row of a table, as data frames take it


def round_outwards(value: float | Decimal, digits: int, *, up: bool) -> str:
    """Write a number to at most so many significant digits, rounded up or down.

    Read back as a float, the text is certainly on that side of `value`, or `value` itself.

    >>> round_outwards(2 / 3, 4, up=True), round_outwards(2 / 3, 4, up=False), round_outwards(0.1, 9, up=True)
    ('0.6667', '0.6666', '0.1')
    >>> round_outwards(123456, 2, up=False), round_outwards(float("inf"), 2, up=True)
    ('1.2e+05', 'infinity')
    """
    # repr has the fewest digits that read back as the same float: 0.1 stays 0.1, not 0.1000...0055 rounded up
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if exact.is_infinite():
        return "infinity" if exact > 0 else "-infinity"
    if exact == 0:
        return "0"
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    rounded = Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN).plus(exact)
    if -4 <= rounded.adjusted() < digits:
        return f"{rounded:f}"
    mantissa, exponent = f"{rounded:e}".split("e")
    return f"{mantissa}e{int(exponent):+03d}"


def write_number(value: float | Fraction) -> str:
    """A number with all its digits, so that reading it gives the same number.

    >>> write_number(50.0), write_number(0.1 + 0.2), write_number(1e-6), write_number(Fraction(1, 3))
    ('50', '0.30000000000000004', '1e-06', '1/3')
    """
    return str(value) if isinstance(value, Fraction) else repr(value).removesuffix(".0")


def write_call(value: Any) -> str:
    """The call that makes an equal value: a dataclass with its fields by name, those that are usual left out.

    >>> from tightrope.curve.limit_curve import Approximation
    >>> write_call(Approximation(math.inf))
    "Approximation(value=float('inf'))"
    """
    told = (
        (field.name, getattr(value, field.name), field.default)
        for field in dataclasses.fields(value)
        if field.repr
    )
    arguments = (f"{name}={_write_argument(given)}" for name, given, usual in told if given != usual)
    return f"{type(value).__name__}({', '.join(arguments)})"


def _write_argument(given: object) -> str:
    if not isinstance(given, float):
        return repr(given)
    number = repr(float(given))  # without the type of a numpy float
    return number if math.isfinite(given) else f"float({number!r})"


def write_duration(seconds: float) -> str:
    """About how long something takes.

    >>> [write_duration(t) for t in (0.2, 80, 200, 9000, 300_000, 1e9)]
    ['1 s', '80 s', '3 min', '2 h', '3 days', '32 years']
    """
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    for unit, most, name in ((60, 90, "min"), (3600, 48, "h"), (86_400, 700, "days")):
        if seconds < most * unit:
            return f"{round(seconds / unit)} {name}"
    return f"{round(seconds / 31_557_600):,} years"


def align(rows: Sequence[Sequence[str]]) -> str:
    """Write rows in left-aligned columns, the first row underlined as a heading.

    >>> print(align([["a", "b"], ["long", "x"]]))
    a     b
    ----  -
    long  x
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *body = rows
    lines = [heading, ["-" * width for width in widths], *body]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def stack(rows: Sequence[Sequence[str]], width: int) -> str:
    """Write each row below the heading as a block of "name: value" lines, for where a table is too wide.

    >>> print(stack([["", "a", "b"], ["one", "1", ""], ["two", "2", "x"]], 20))
    one
      a: 1
    <BLANKLINE>
    two
      a: 2
      b: x
    """
    heading, *body = rows
    titled = not heading[0]  # then the first cell is the title of its block
    margin, blocks = 2 * titled, []
    for row in body:
        named = [(name, cell) for name, cell in zip(heading[titled:], row[titled:], strict=True) if cell]
        lines = [wrap(f"{name}: {cell}", width, first=margin, rest=margin + 2) for name, cell in named]
        blocks.append("\n".join([row[0], *lines] if titled else lines))
    return "\n\n".join(blocks)


def wrap(text: str, width: int | None, *, first: int = 0, rest: int = 0) -> str:
    """Break a paragraph between words; the first line and the rest have margins of their own.

    A word that is too long stands alone. Without a width nothing is broken.

    >>> print(wrap("break-neck speed is unbreakable", 12, rest=2))
    break-neck
      speed is
      unbreakable
    """
    if width is None:
        return " " * first + text
    return textwrap.fill(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
