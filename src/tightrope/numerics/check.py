"""Argument checks whose messages name the argument, the value and the remedy."""

import math
import numbers

from tightrope.errors import InvalidSetting


def _refuse(name: str, value: object, must: str, remedy: str) -> InvalidSetting:
    return InvalidSetting(name, value, f"be {must}", remedy)


def real(*, remedy: str = "Pass a finite number.", **named: object) -> float:
    """The one named argument as a finite float."""
    ((name, value),) = named.items()
    # nearly always, and asked of every step that is loaded
    if type(value) is float and math.isfinite(value):
        return value
    # every number here has an exact value; mpmath's, for example, do not say theirs
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not _says_exactly(value):
        raise _refuse(name, value, "a real number", remedy)
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise _refuse(name, value, "finite", remedy)
    return result


def _says_exactly(value: numbers.Real) -> bool:
    return isinstance(value, numbers.Rational) or hasattr(value, "as_integer_ratio")


def exact_float(*, remedy: str, **named: object) -> float:
    """The one named argument as a float; a number between two floats is refused, not rounded."""
    ((name, value),) = named.items()
    result = real(remedy=remedy, **named)
    if result != value:
        remedy = f"It lies between two floats: pass the one that is safe for you, for example {result!r}."
        raise _refuse(name, value, "a float", remedy)
    return result


def positive(*, remedy: str = "Pass a number above 0.", **named: object) -> float:
    """The one named argument as a finite float above 0."""
    ((name, value),) = named.items()
    result = real(remedy=remedy, **named)
    if result <= 0:
        raise _refuse(name, value, "above 0", remedy)
    return result


def probability(*, remedy: str = "Pass a number from 0 to 1.", **named: object) -> float:
    """The one named argument as a float in [0, 1]."""
    ((name, value),) = named.items()
    result = real(remedy=remedy, **named)
    if not 0 <= value <= 1:  # type: ignore[operator]  # itself: rounded to a float it may look smaller
        raise _refuse(name, value, "in [0, 1]", remedy)
    return result


def open_probability(*, remedy: str = "Pass a number strictly between 0 and 1.", **named: object) -> float:
    """The one named argument as a float in (0, 1)."""
    ((name, value),) = named.items()
    result = real(remedy=remedy, **named)
    if not 0 < result < 1:
        raise _refuse(name, value, "in (0, 1)", remedy)
    return result


def whole(*, least: int = 0, remedy: str = "", **named: object) -> int:
    """The one named argument as an int of at least `least`; whole-valued floats are refused too."""
    ((name, value),) = named.items()
    remedy = remedy or f"Pass a whole number of at least {least}."
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _refuse(name, value, "a whole number", remedy)
    if value < least:
        raise _refuse(name, value, f"at least {least}", remedy)
    return int(value)


def distribution(
    *, remedy: str = "Give non-negative probabilities that sum to 1.", **named: object
) -> tuple[float, ...]:
    """The one named argument as a tuple of probabilities that sum to 1 (to rounding)."""
    ((name, value),) = named.items()
    try:
        entries: tuple[object, ...] = tuple(value)  # type: ignore[arg-type]
    except TypeError:
        raise _refuse(name, value, "a sequence of probabilities", remedy) from None
    if not entries:
        raise _refuse(name, value, "a non-empty sequence of probabilities", remedy)
    masses = tuple(probability(remedy=remedy, **{f"{name}[{i}]": entry}) for i, entry in enumerate(entries))
    # Decimal fractions such as three times 1/3 miss 1 by a few units in the last place, no more.
    if abs(math.fsum(masses) - 1) > 4e-15 * len(masses):
        raise _refuse(name, value, f"of total 1 (they sum to {math.fsum(masses)!r})", remedy)
    return masses
