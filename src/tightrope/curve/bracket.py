"""A certified interval around a number nobody knows exactly, with what decided it."""

import math
from dataclasses import dataclass, field

from tightrope.errors import PYTHON, Words
from tightrope.numerics.text import round_outwards, write_duration, write_number
from tightrope.theorems.evidence import Evidence


@dataclass(frozen=True)
class Decision:
    """What decided a bracket: the theorems its upper end rests on, and the datasets that reach its lower end.

    `branch` is the direction of the relation that costs most. Covers and witnesses that did not decide are
    not listed.
    """

    because: tuple[Evidence, ...]
    reached_by: str
    branch: str


@dataclass(frozen=True)
class Gap:
    """Why the ends of a bracket are further apart than the accuracy asked for, and what narrows them.

    `seconds` is about how long the remedy takes, or None. Texts name settings in braces, as refusals do.
    """

    relative_width: float
    accuracy: float
    why: str
    remedy: str = ""
    seconds: float | None = None

    def in_words(self, words: Words) -> str:
        """The gap as a front end says it."""
        said = f"The ends are {_percent(self.relative_width)} apart: {words.fill(self.why)}."
        if not self.remedy:
            return said
        takes = "" if self.seconds is None else f", in about {write_duration(self.seconds)}"
        return f"{said} {words.fill(self.remedy)}{takes}."

    def __str__(self) -> str:
        return self.in_words(PYTHON)


@dataclass(frozen=True)
class Bracket:
    """`lower` <= truth <= `upper`. The upper end is the guarantee; the lower end is reached by real datasets.

    `decided_by` says what decided each end. `gap` says why the ends are further apart than the accuracy asked
    for; it is None if they are not. `conditions` must hold for the bracket to hold, and are printed with it;
    mostly there are none. It is `interrupted` if work that could have narrowed it was stopped. A bracket
    never turns itself into a float: say which end you mean.

    >>> b = Bracket(0.5, 0.75)
    >>> 0.6 in b, b.width
    (True, 0.25)
    >>> print(Bracket(0.5, 0.5, conditions=("it does not rain",)))
    0.5 if it does not rain
    """

    lower: float
    upper: float
    decided_by: Decision | None = field(default=None, repr=False, compare=False, kw_only=True)
    gap: Gap | None = field(default=None, repr=False, compare=False, kw_only=True)
    conditions: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    interrupted: bool = field(default=False, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ArithmeticError(f"a bracket needs lower <= upper, got {self.lower!r} and {self.upper!r}")

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    @property
    def width(self) -> float:
        """upper - lower; 0 where both are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """(upper - lower) / |upper|; 0 where the ends agree, 1 where only the upper end is infinite."""
        if not self.width:
            return 0.0
        if math.isinf(self.upper):
            return 1.0
        return self.width / abs(self.upper) if self.upper else math.inf

    def __float__(self) -> float:
        raise TypeError("a Bracket is two numbers: use .upper (the guarantee) or .lower (what is attained)")

    def __repr__(self) -> str:
        more = f", conditions={self.conditions!r}" * bool(self.conditions)
        return f"Bracket(lower={self.lower!r}, upper={self.upper!r}{more})"

    def __str__(self) -> str:
        """Both ends, rounded outwards, with enough digits to tell them apart; one that is exact, in full."""
        ends = self._write_ends()
        return f"{ends} if {' and '.join(self.conditions)}" if self.conditions else ends

    def _write_ends(self) -> str:
        if self.lower == self.upper:
            return write_number(self.lower)
        width = self.relative_width
        digits = 6 if width in (1.0, math.inf) else min(max(3, 2 - math.floor(math.log10(width))), 15)
        lower, upper = (
            round_outwards(self.lower, digits, up=False),
            round_outwards(self.upper, digits, up=True),
        )
        return f"[{lower}, {upper}]".replace("infinity", "inf")


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"
