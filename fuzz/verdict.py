"""What a question is, and how its answer can fare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, Protocol

import tightrope as tr

Plain = dict[str, Any]

AGREES, REFUSED, UNDECIDED = "agrees", "refused", "undecided"
DISAGREES, CRASHED, TOO_SLOW = "disagrees", "crashed", "too slow"
STATUSES = (AGREES, UNDECIDED, REFUSED, TOO_SLOW, DISAGREES, CRASHED)


@dataclass(frozen=True)
class Verdict:
    """How an answer fared, what it was, and what it was measured by."""

    status: str
    answer: Plain = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of question: how to draw one, how to judge the answer, and about how many there are of 100,000.

    What takes a millisecond is asked most, what takes a second some hundred times: a core answers them all
    in about an hour.
    """

    draw: Callable[[Random], Plain]
    judge: Callable[[Plain], Verdict]
    weight: int


def judged(problems: list[str | None], answer: Plain, *, undecided: bool = False) -> Verdict:
    """The verdict of several checks: each is None or says what is wrong."""
    wrong = [problem for problem in problems if problem]
    if wrong:
        return Verdict(DISAGREES, answer, "; ".join(wrong))
    return Verdict(UNDECIDED if undecided else AGREES, answer)


class Interval(Protocol):
    """A bracket, or an estimate."""

    @property
    def lower(self) -> float:
        """The lower end."""

    @property
    def upper(self) -> float:
        """The upper end."""


def ends(found: Interval) -> list[float]:
    """Both ends as plain data."""
    return [found.lower, found.upper]


def given(value: float | str) -> Any:
    """A number as it is given to the library: a text is a fraction."""
    return Fraction(value) if isinstance(value, str) else value


MECHANISMS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "gaussian": lambda part: tr.Gaussian(noise_multiplier=given(part["noise_multiplier"])),
    "laplace": lambda part: tr.Laplace(noise_multiplier=given(part["noise_multiplier"])),
    "randomized-response": lambda part: tr.RandomizedResponse(truth_probability=part["truth_probability"]),
    "finite": lambda part: tr.Finite(observed=part["observed"], alternative=part["alternative"]),
}
SAMPLINGS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "every-record": lambda part: tr.EveryRecord(),
    "poisson": lambda part: tr.Poisson(rate=given(part["rate"])),
    "without-replacement": lambda part: tr.WithoutReplacement(
        batch=part["batch"], population=part["population"]
    ),
}


def step_of(part: Mapping[str, Any]) -> tr.Step:
    """The step that a part of a run repeats."""
    return tr.Step(MECHANISMS[part["mechanism"]](part), SAMPLINGS[part["sampling"]](part))


def run_of(parts: list[Plain]) -> tr.Run:
    """The run that plain data describe."""
    return sum((step_of(part) * part["steps"] for part in parts), tr.Run())


def accountant(question: Plain) -> tr.Certified:
    """Who answers: `accuracy` and `effort` of the question."""
    return tr.Certified(accuracy=question.get("accuracy", 1e-3), effort=question.get("effort", "quick"))


def exact_curve_of(question: Plain) -> Any:
    """The curve in exact integers, to the question's width in epsilon."""
    exact = getattr(tr, "Exact", None)
    if exact is None:
        raise tr.NoTheorem("this version has no Exact")
    return tr.privacy_curve(
        run_of(question["run"]), relation=question["relation"], by=exact(width=question["width"])
    )


def curve_of(question: Plain, **changed: Any) -> tr.PrivacyCurve:
    """The certified curve of the question's run, with some of its entries changed."""
    asked = {**question, **changed}
    return tr.privacy_curve(run_of(asked["run"]), relation=asked["relation"], by=accountant(asked))
