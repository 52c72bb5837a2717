"""Settings keep a number twice: as a float to look at, and as the rational given, to account with."""

import dataclasses
import numbers
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar


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

    unrounded: ClassVar[Mapping[str, Any]] = {}  # by name, what was given where no float says it

    def _keep(self, name: str, given: Any, checked: Any) -> None:
        """Store a checked float or tuple of floats, and what was given where that is something else."""
        if checked is given:  # a float, as most of what a ledger keeps; it is stored already
            return
        object.__setattr__(self, name, checked)
        is_list = isinstance(checked, tuple)
        told = tuple(map(_as_told, checked, given)) if is_list else _as_told(checked, given)
        if told != checked:
            object.__setattr__(self, "unrounded", {**self.unrounded, name: told})

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
    value = getattr(setting, name)
    return setting.unrounded.get(name, value) if isinstance(setting, GivenExactly) else value


def _as_told(checked: float, given: Any) -> float | Fraction:
    exact = exactly(given)
    return checked if checked.as_integer_ratio() == exact.as_integer_ratio() else exact


class _Exact:
    """`exact_x` of a setting, from what was given as x."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name, self.of = name, name.removeprefix("exact_")

    def __get__(self, setting: object, owner: type[Any]) -> Any:
        if setting is None:
            return self
        given = as_given(setting, self.of)
        exact = tuple(map(exactly, given)) if isinstance(given, tuple) else exactly(given)
        object.__setattr__(setting, self.name, exact)  # from now on
        return exact


def when_asked() -> Any:
    """The default of a field `exact_x`: made when it is first asked for, which steps in a file never are."""
    return _Exact()
