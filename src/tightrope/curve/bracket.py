"""A certified interval around a number nobody knows exactly, with what decided it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tightrope.curve.answer import AnyAnswer, is_between
from tightrope.curve.formats import NumberFormat
from tightrope.errors import PYTHON, Words
from tightrope.numerics.text import Flat, round_outwards, write_call, write_duration, write_number
from tightrope.theorems.evidence import Evidence


@dataclass(frozen=True)
class Decision:
    """What decided a bracket: the theorems its upper end rests on, and the datasets that reach its lower end.

    `branch` is the direction of the relation that costs most. Covers and witnesses that did not decide are
    not listed.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    >>> decided = tr.epsilon(step, delta=1e-6, relation=tr.REMOVE).decided_by
    >>> decided.because[0].name, decided.reached_by
    ('full_batch_remove', "D = (0, ..., 0, 1) and D' = (0, ..., 0)")
    """

    because: tuple[Evidence, ...]
    reached_by: str
    branch: str


@dataclass(frozen=True, repr=False)
class Gap:
    """Why the ends of a bracket are further apart than the accuracy asked for, and what narrows them.

    `seconds` is about how long the remedy takes, or None. Texts name settings in braces, as refusals do.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000))
    >>> tr.epsilon(step * 1000, delta=1e-6, relation=tr.SUBSTITUTE).gap.why
    'the envelope above and the fixed directions below do not meet'
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

    def __repr__(self) -> str:
        return write_call(self)


@dataclass(frozen=True, repr=False)
class Bracket(AnyAnswer):
    """`lower` <= truth <= `upper`. The upper end is the guarantee; the lower end is reached by real datasets.

    `decided_by` says what decided each end. `gap` says why the ends are further apart than the accuracy asked
    for; it is None if they are not. `conditions` must hold for the bracket to hold, and are printed with it;
    mostly there are none. It is `interrupted` if work that could have narrowed it was stopped. A bracket
    never turns itself into a float: say which end you mean.

    A format is that of both ends, rounded outwards. Comparisons are certain or raise; they take the
    conditions for granted.

    >>> b = Bracket(0.5, 0.75)
    >>> 0.6 in b, b.width, b < 1, b > 0.75, f"{b:.1f}"
    (True, 0.25, True, False, '[0.5, 0.8]')
    >>> b < 0.6
    Traceback (most recent call last):
        ...
    tightrope.errors.UncertainComparison: whether the answer is below 0.6 is not certain: it is at most 0.75
    and at least 0.5. Compare .upper, the safe end, to show that it is small, or .lower to show that it is
    large.
    >>> print(Bracket(0.5, 0.5, conditions=("it does not rain",)))
    0.5 if it does not rain
    """

    _to_compare: ClassVar[str] = (
        "Compare .upper, the safe end, to show that it is small, or .lower to show that it is large."
    )

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
        return is_between(self.lower, value, self.upper)

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
        raise TypeError("a Bracket is two numbers: use .upper (the guarantee) or .lower (what is reached)")

    def __str__(self) -> str:
        """Both ends, rounded outwards, with enough digits to tell them apart; one that is exact, in full."""
        return self._state(*self._write_ends())

    def to_dict(self) -> Flat:
        """Both ends, what decided them and what they depend on, as one flat row.

        >>> Bracket(0.5, 0.75).to_dict()
        {'lower': 0.5, 'upper': 0.75, 'branch': '', 'because': '', 'reached_by': '', 'conditions': ''}
        """
        decided = self.decided_by or Decision((), "", "")
        return {
            "lower": self.lower,
            "upper": self.upper,
            "branch": decided.branch,
            "because": "; ".join(evidence.name for evidence in decided.because),
            "reached_by": decided.reached_by,
            "conditions": "; ".join(self.conditions),
        }

    def _write_ends(self) -> tuple[str, str]:
        if self.lower == self.upper:
            exact = write_number(self.lower)
            return exact, exact
        width = self.relative_width
        digits = 6 if width in (1.0, math.inf) else min(max(3, 2 - math.floor(math.log10(width))), 15)
        lower, upper = (
            round_outwards(self.lower, digits, up=False),
            round_outwards(self.upper, digits, up=True),
        )
        return lower.replace("infinity", "inf"), upper.replace("infinity", "inf")

    def _format(self, spec: NumberFormat) -> str:
        return self._state(spec.write(self.lower, up=False), spec.write(self.upper, up=True))

    def _state(self, lower: str, upper: str) -> str:
        """The two ends, as one where they read the same, with the conditions."""
        ends = lower if lower == upper else f"[{lower}, {upper}]"
        return f"{ends}{self._provided}"

    @property
    def _provided(self) -> str:
        return f" if {' and '.join(self.conditions)}" if self.conditions else ""

    def _certain_ends(self) -> tuple[float, float]:
        return self.lower, self.upper

    def _tell(self) -> tuple[str, str]:
        lower, upper = self._write_ends()
        if self.lower == self.upper:
            return f"exactly {upper}{self._provided}", upper
        if math.isinf(self.upper):
            return f"at least {lower}, and no upper end is known{self._provided}", lower
        return f"at most {upper} and at least {lower}{self._provided}", upper

    def _list_reasons(self) -> Iterator[str]:
        if self.decided_by is not None:
            yield from (theorem.in_full for theorem in self.decided_by.because)
            yield f"The lower end is reached by {self.decided_by.reached_by}."
            yield f"Of the relation, {self.decided_by.branch} costs most."
        if self.gap is not None:
            yield str(self.gap)


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"
