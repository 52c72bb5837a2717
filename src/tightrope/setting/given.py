"""Settings keep a number twice: as a float to look at, and as the rational given, to account with."""

import dataclasses
import numbers
from fractions import Fraction
from typing import Any


def exactly(value: float | Fraction) -> Fraction:
    """A checked number as the rational it is: a float, also numpy's, is a whole number times a power of 2.

    >>> exactly(0.5), exactly(Fraction(1, 3))
    (Fraction(1, 2), Fraction(1, 3))
    """
    if isinstance(value, float):
        return Fraction(value)
    if isinstance(value, numbers.Rational):  # of plain ints: numpy's overflow
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(*value.as_integer_ratio())


class GivenExactly:
    """A frozen setting whose field `exact_x` is the rational that was given as `x`; it prints as given."""

    def _keep(self, name: str, given: Any, checked: Any) -> None:
        """Store a checked float or tuple of floats, and exactly what was given beside it."""
        exact = tuple(map(exactly, given)) if isinstance(checked, tuple) else exactly(given)
        object.__setattr__(self, name, checked)
        object.__setattr__(self, f"exact_{name}", exact)

    def __repr__(self) -> str:
        given = (f"{name}={as_given(self, name)!r}" for name in given_names(type(self)))
        return f"{type(self).__name__}({', '.join(given)})"


_NAMES: dict[type[Any], tuple[str, ...]] = {}  # asked for every step of a file


def given_names(kind: type[Any]) -> tuple[str, ...]:
    """What a kind of setting is given by."""
    if kind not in _NAMES:
        names = (field.name for field in dataclasses.fields(kind))
        _NAMES[kind] = tuple(name for name in names if not name.startswith("exact_"))
    return _NAMES[kind]


def as_given(setting: object, name: str) -> Any:
    """A number as a float where that is what was given, else as a fraction; a tuple likewise."""
    value, exact = getattr(setting, name), getattr(setting, f"exact_{name}", None)
    if exact is None:
        return value
    if isinstance(value, tuple):
        return tuple(map(_float_if_exact, value, exact))
    return _float_if_exact(value, exact)


def _float_if_exact(value: float, exact: Fraction) -> float | Fraction:
    return value if value.as_integer_ratio() == exact.as_integer_ratio() else exact
