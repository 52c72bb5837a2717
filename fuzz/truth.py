"""From a run, as plain data, and a relation to the curves that its true curve lies between."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

from flint import arb

from fuzz.balls import exact
from fuzz.references import (
    ADD,
    ENVELOPE,
    LAPLACE,
    NORMAL,
    OPPOSITE,
    REMOVE,
    Curve,
    FiniteRun,
    FiniteStep,
    NormalRun,
    SampledStep,
)
from fuzz.two_steps import TwoSteps

Part = Mapping[str, Any]  # as `tightrope.setting.plain.plain_run` writes one
BRANCHES = {
    "ADD": ("ADD",),
    "REMOVE": ("REMOVE",),
    "ADD_OR_REMOVE": ("ADD", "REMOVE"),
    "SUBSTITUTE": ("SUBSTITUTE",),
}
MOST_BEFORE_TWO = 6  # outcomes of finite steps, each of which needs an integral of its own


class NoReference(Exception):
    """No curve in balls is known for this question, or it would take too long."""


@dataclass(frozen=True)
class Truth:
    """delta lies between the largest of `lower` and the largest of `upper`; usually they are the same."""

    lower: tuple[Curve, ...]
    upper: tuple[Curve, ...]

    @property
    def takes_an_integral(self) -> bool:
        """Whether a value takes a tenth of a second instead of a millisecond."""
        return any(isinstance(curve, TwoSteps) for curve in self.upper)

    def at_least(self, epsilon: float) -> arb:
        """A ball of what delta is at least, at this precision."""
        return _worst(self.lower, epsilon)

    def at_most(self, epsilon: float) -> arb:
        """A ball of what delta is at most, at this precision."""
        return self.at_least(epsilon) if self.lower == self.upper else _worst(self.upper, epsilon)

    def infinite_mass(self) -> arb:
        """A ball of delta(infinity)."""
        return reduce(arb.max, (curve.infinite_mass() for curve in self.upper))


def _worst(curves: Sequence[Curve], epsilon: float) -> arb:
    odds = exact(epsilon).exp()
    return reduce(arb.max, (curve.delta(odds) for curve in curves))


def find_truth(run: Sequence[Part], relation: str) -> Truth:
    """The curves of the worst branch, or NoReference."""
    lower: list[Curve] = []
    upper: list[Curve] = []
    for branch in BRANCHES[relation]:
        factors = [_Factor.of(part, branch) for part in run if rate_of(part)]
        lower += [_compose(chosen) for chosen in product(*(tuple(f.attained()) for f in factors))]
        upper.append(_compose(tuple(f.dominating() for f in factors)))
    return Truth(tuple(lower), tuple(upper))


def rate_of(part: Part) -> Fraction:
    """The probability that one record takes part, exactly."""
    match part["sampling"]:
        case "poisson":
            return Fraction(part["rate"])
        case "without-replacement":
            return Fraction(part["batch"], part["population"])
    return Fraction(1)


Chosen = tuple[tuple[SampledStep | FiniteStep | Fraction, int], ...]  # a Fraction is the mu^2 of normals


@dataclass(frozen=True)
class _Factor:
    """One part of a run under one branch: how it can go, and how often."""

    part: Part
    branch: str

    @staticmethod
    def of(part: Part, branch: str) -> "_Factor":
        sampled = branch == "SUBSTITUTE" and part["sampling"] == "poisson" and rate_of(part) < 1
        if sampled and part["mechanism"] != "gaussian":
            raise NoReference("no theorem")
        return _Factor(part, branch)

    @property
    def _exchanges(self) -> bool:
        """Whether a record can be exchanged either way, so that one direction is not the worst case."""
        fixed = self.part["sampling"] == "without-replacement" and rate_of(self.part) < 1
        return fixed and self.branch == "SUBSTITUTE"

    def dominating(self) -> Chosen:
        """What dominates every neighbouring pair."""
        steps = self.part["steps"]
        return ((self._step(ENVELOPE if self._exchanges else self._direction), steps),)

    def attained(self) -> Iterator[Chosen]:
        """What neighbours attain: for an exchange every step one way, the other way, or half of each."""
        steps = self.part["steps"]
        if not self._exchanges:
            yield self.dominating()
            return
        remove, add = self._step(REMOVE), self._step(ADD)
        for removing in sorted({steps, steps - steps // 2, 0}):
            pairs = (remove, removing), (add, steps - removing)
            yield tuple((step, times) for step, times in pairs if times)

    @property
    def _direction(self) -> str:
        if self.branch != "SUBSTITUTE":
            return ADD if self.branch == "ADD" else REMOVE
        return OPPOSITE if self.part["sampling"] == "poisson" and rate_of(self.part) < 1 else REMOVE

    def _step(self, direction: str) -> SampledStep | FiniteStep | Fraction:
        part, rate = self.part, rate_of(self.part)
        pushes = self.branch == "SUBSTITUTE" or part["sampling"] == "without-replacement"
        distance = 2 if pushes and direction != OPPOSITE else 1
        match part["mechanism"]:
            case "gaussian":
                shift = distance / Fraction(part["noise_multiplier"])
                return shift**2 if rate == 1 else SampledStep(NORMAL, direction, rate, shift)
            case "laplace":
                return SampledStep(LAPLACE, direction, rate, distance / Fraction(part["noise_multiplier"]))
        return _finite_step(part, rate, direction)


def _finite_step(part: Part, rate: Fraction, direction: str) -> FiniteStep:
    if part["mechanism"] == "randomized-response":
        truth = Fraction(part["truth_probability"])
        absent, present = [truth, 1 - truth], [1 - truth, truth]
    else:
        absent, present = ([Fraction(mass) for mass in part[key]] for key in ("observed", "alternative"))
    declared = FiniteStep.of(absent, present).masses
    remove = FiniteStep(tuple(((1 - rate) * a + rate * b, a) for a, b in declared))
    return {REMOVE: remove, ADD: remove.reverse, ENVELOPE: remove.envelope}[direction]


def _compose(factors: Sequence[Chosen]) -> Curve:
    """The curve of all factors together, if it has a closed form or takes a single integral."""
    mu_squared = Fraction(0)
    sampled: list[Curve] = []
    finite: list[tuple[FiniteStep, int]] = []
    for step, times in (pair for factor in factors for pair in factor):
        if isinstance(step, Fraction):
            mu_squared += step * times
        elif isinstance(step, FiniteStep):
            finite.append((step, times))
        else:
            if times + len(sampled) > 2:
                raise NoReference("more than two sampled steps")
            sampled += [step] * times
    continuous = _continuous(mu_squared, sampled)
    if continuous is not None and not finite:
        return continuous
    found = FiniteRun(tuple(finite), continuous)
    many = found.count_outcomes() > MOST_BEFORE_TWO and isinstance(continuous, TwoSteps)
    if many or not found.is_feasible:
        raise NoReference("too many outcomes")
    return found


def _continuous(mu_squared: Fraction, sampled: Sequence[Curve]) -> Curve | None:
    curves = [*sampled, *([NormalRun(mu_squared)] if mu_squared else [])]
    match curves:
        case []:
            return None
        case [one]:
            return one
        case [SampledStep() as first, second]:
            return TwoSteps(first, second)
    raise NoReference("more than two continuous factors")
