"""Claims held against a truth in balls: contradicted for certain, confirmed for certain, or undecided."""

import math
from collections.abc import Callable, Sequence

from flint import arb

from fuzz.balls import BITS, exact, is_at_most, precision
from fuzz.references import Curve
from fuzz.truth import Truth
from fuzz.verdict import Interval, Plain, Verdict, judged

INTEGRAL_BITS = (128, 256)  # where each value takes an integral


class Claims:
    """What was claimed about one truth: what is wrong with it, and whether something could not be decided."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.bits = INTEGRAL_BITS if truth.takes_an_integral else BITS
        self.wrong: list[str | None] = []
        self.undecided = False

    def delta(self, epsilon: float, found: Interval, *, log: bool = False) -> None:
        """Between the ends lies delta at this epsilon, or its logarithm."""
        largest = 0.0 if log else 1.0
        for bits in self.bits:
            with precision(bits):
                least, most = self.truth.at_least(epsilon), self.truth.at_most(epsilon)
                if log:
                    least, most = log_of(least), log_of(most)
                above = found.upper >= largest or is_at_most(least, number(found.upper))
                below = is_at_most(number(found.lower), most)
                if above is False:
                    self.wrong.append(f"upper end {found.upper!r}, but the truth is at least {least.str(25)}")
                if below is False:
                    self.wrong.append(f"lower end {found.lower!r}, but the truth is at most {most.str(25)}")
            if self.wrong or (above is not None and below is not None):
                return
        self.undecided = True

    def epsilon(self, delta: float, found: Interval) -> None:
        """Between the ends lies the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        if math.isfinite(found.upper):
            self.at_most(found.upper, delta)
        if math.isinf(found.lower):
            self.exceeds(self.truth.infinite_mass, delta, "the mass at infinity")
        elif found.lower > 0:
            self.at_least(found.lower, delta)

    def at_most(self, epsilon: float, delta: float) -> None:
        """delta(epsilon) <= delta."""
        ask = self._compare(lambda: is_at_most(self.truth.at_least(epsilon), exact(delta)))
        self.wrong += [f"delta({epsilon!r}) exceeds {delta!r}"] * (ask is False)

    def at_least(self, epsilon: float, delta: float) -> None:
        """delta(epsilon) >= delta."""
        ask = self._compare(lambda: is_at_most(exact(delta), self.truth.at_most(epsilon)))
        self.wrong += [f"delta({epsilon!r}) is below {delta!r}"] * (ask is False)

    def exceeds(self, value: Callable[[], arb], bound: float, what: str) -> None:
        """value > bound."""
        ask = self._compare(lambda: is_at_most(value(), number(bound)))
        self.wrong += [f"{what} does not exceed {bound!r}"] * (ask is True)

    def between(self, lower: float, value: Callable[[], arb], upper: float, what: str) -> None:
        """lower <= value <= upper."""
        for claim in (
            lambda: is_at_most(number(lower), value()),
            lambda: is_at_most(value(), number(upper)),
        ):
            self.wrong += [f"{what} is not between {lower!r} and {upper!r}"] * (self._compare(claim) is False)

    def _compare(self, ask: Callable[[], bool | None]) -> bool | None:
        for bits in self.bits:
            with precision(bits):
                found = ask()
            if found is not None:
                return found
        self.undecided = True
        return None

    def verdict(self, answer: Plain) -> Verdict:
        """What became of all claims."""
        return judged(self.wrong, answer, undecided=self.undecided)


def log_of(value: arb) -> arb:
    """The logarithm; -inf of exactly 0."""
    return arb.neg_inf() if value == 0 else value.log()


def number(value: float) -> arb:
    """The ball of a float, which may be infinite."""
    return arb(value) if math.isinf(value) else exact(value)


def largest_at(curves: Sequence[Curve], odds: arb) -> arb:
    """The largest of some curves at these odds."""
    found = arb(0)
    for curve in curves:
        found = found.max(curve.delta(odds))
    return found
