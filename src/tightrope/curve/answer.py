"""What every kind of answer can do: be formatted, compared with certainty, put into a table and shown."""

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from tightrope.curve.formats import NumberFormat
from tightrope.errors import InvalidSetting, UncertainComparison
from tightrope.numerics import html
from tightrope.numerics.text import Flat, write_call
from tightrope.setting.given import exactly

_IN_WORDS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


class AnyAnswer(ABC):
    """What is known of one number.

    Answers compare with numbers and with each other as long as every value that is left for the truth says
    the same; otherwise `UncertainComparison` says which end to compare. They equal only answers of the same
    kind with the same numbers, and never a number.
    """

    _to_compare: ClassVar[str] = ""  # what to compare where the answer itself does not decide

    @abstractmethod
    def _certain_ends(self) -> tuple[float, float]:
        """What certainly holds the truth; refused where nothing is certain."""

    @abstractmethod
    def _format(self, spec: NumberFormat) -> str:
        """The answer with its numbers written so, each rounded to its safe side."""

    @abstractmethod
    def _tell(self) -> tuple[str, str]:
        """The answer in words that go on from "it is", and the number in them that people look for."""

    @abstractmethod
    def _list_reasons(self) -> Iterable[str]:
        """Why it holds, one sentence a line."""

    @abstractmethod
    def to_dict(self) -> Flat:
        """The answer as one flat row of a table."""

    def __lt__(self, other: object) -> bool:
        return self._compare("<", other)

    def __le__(self, other: object) -> bool:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> bool:
        return self._compare(">", other)

    def __ge__(self, other: object) -> bool:
        return self._compare(">=", other)

    def _compare(self, sign: str, other: object) -> bool:
        others = other._certain_ends() if isinstance(other, AnyAnswer) else _read_number(other)
        if others is None:
            return NotImplemented  # type: ignore[no-any-return]  # so Python asks the other side
        (lower, upper), (least, most) = self._certain_ends(), others
        always, never = {
            "<": (upper < least, lower >= most),
            "<=": (upper <= least, lower > most),
            ">": (lower > most, upper <= least),
            ">=": (lower >= most, upper < least),
        }[sign]
        if not always and not never:
            raise UncertainComparison(self._tell_doubt(_IN_WORDS[sign], other), self._to_compare)
        return always

    def _tell_doubt(self, than: str, other: object) -> str:
        known, _ = self._tell()
        if isinstance(other, AnyAnswer):
            others, _ = other._tell()
            return (
                f"whether one answer is {than} the other is not certain: it is {known}; the other, {others}"
            )
        return f"whether the answer is {than} {other} is not certain: it is {known}"

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return str(self)
        spec = NumberFormat.read(format_spec)
        return spec.pad(str(self) if spec.only_pads else self._format(spec))

    def __repr__(self) -> str:
        return write_call(self)

    def _repr_html_(self) -> str:
        text, strong = self._tell()
        return html.join(html.write_text(text, strong=strong), html.fold("why", self._list_reasons()))


def is_between(lower: float, value: float, upper: float) -> bool:
    """Whether a value lies between two ends."""
    exact = float(value) if hasattr(value, "dtype") else value  # numpy would round the ends to its own kind
    return lower <= exact <= upper


def _read_number(value: object) -> tuple[float | Fraction, float | Fraction] | None:
    """A number as exactly what it is, twice; None for what is none. Comparing with NaN is refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    if value != value:  # numpy's, Decimal's and Python's NaN alike
        remedy = "Find out where it comes from: nothing is below, above or equal to it."
        raise InvalidSetting("value", value, "be a number to compare with", remedy)
    is_infinite = value == math.inf or value == -math.inf
    # as a fraction: numpy rounds a float to float32 before it compares the two
    number = float(value) if is_infinite else exactly(value)  # type: ignore[arg-type]
    return number, number
