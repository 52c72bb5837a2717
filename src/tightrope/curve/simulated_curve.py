"""The privacy curve of a run as simulation sees it: estimates with a confidence level, never brackets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.curve.elementwise import elementwise
from tightrope.curve.other_answers import Estimate
from tightrope.errors import InvalidSetting
from tightrope.numerics import check

Estimates = NDArray[np.object_]


class Simulator(Protocol):
    """Answers for epsilon >= 0 and for delta in (0, 1)."""

    def deltas(self, epsilons: Sequence[float], points: int) -> list[Estimate]:
        """delta at each epsilon, all of them together being some of the `points` answers of one call."""

    def epsilons(self, deltas: Sequence[float]) -> list[Estimate]:
        """The smallest epsilon >= 0 at each delta."""


@dataclass(frozen=True)
class SimulatedCurve:
    """delta as a function of epsilon and back, estimated. Scalars give an Estimate, arrays an array of Estimates.

    All answers of one call hold together with the confidence of `simulation`; two calls draw anew from the same seed, so the
    same question has the same answer. The theorems in `because` are what makes the upper end bound every neighbouring pair.
    """

    question: str
    because: tuple[object, ...]
    simulation: object
    simulator: Simulator = field(repr=False)
    reverse: Callable[[], "SimulatedCurve"] | None = field(default=None, repr=False)

    @overload
    def delta(self, epsilon: float) -> Estimate: ...
    @overload
    def delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Estimates: ...
    def delta(self, epsilon: ArrayLike) -> Estimate | Estimates:
        """The smallest delta at each epsilon."""
        return _answered(elementwise(_real, epsilon, "epsilon"), self._deltas)

    @overload
    def epsilon(self, delta: float) -> Estimate: ...
    @overload
    def epsilon(self, delta: Sequence[float] | NDArray[np.float64]) -> Estimates: ...
    def epsilon(self, delta: ArrayLike) -> Estimate | Estimates:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; 0 and infinity where those are the truth."""
        return _answered(elementwise(_open_probability, delta, "delta"), self.simulator.epsilons)

    def _deltas(self, epsilons: list[float]) -> list[Estimate]:
        ahead = [epsilon for epsilon in epsilons if epsilon >= 0]
        found = dict(zip(ahead, self.simulator.deltas(ahead, len(epsilons)), strict=True)) if ahead else {}
        found |= self._negative([epsilon for epsilon in epsilons if epsilon < 0], len(epsilons))
        return [found[epsilon] for epsilon in epsilons]

    def _negative(self, epsilons: list[float], points: int) -> dict[float, Estimate]:
        """delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps): what the exchanged pair loses at the opposite epsilon."""
        if not epsilons:
            return {}
        if self.reverse is None:
            raise InvalidSetting(
                f"epsilon must be at least 0, got {epsilons[0]!r}. The reversed run is needed below 0."
            )
        opposite = self.reverse().simulator.deltas([-epsilon for epsilon in epsilons], points)
        return {epsilon: _reversed(epsilon, found) for epsilon, found in zip(epsilons, opposite, strict=True)}


def _real(value: object) -> float:
    return check.real(
        remedy="Pass a finite epsilon; delta(infinity) is the chance of an infinite loss.", epsilon=value
    )


def _open_probability(value: object) -> float:
    remedy = "Pass the probability of failure you accept, strictly between 0 and 1; it is usually below 1 / population."
    return check.open_probability(remedy=remedy, delta=value)


def _reversed(epsilon: float, found: Estimate) -> Estimate:
    value, lower, upper = (
        min(-math.expm1(epsilon) + math.exp(epsilon) * delta, 1.0)
        for delta in (found.value, found.lower, found.upper)
    )
    return Estimate(value, lower, upper, found.confidence, found.draws, found.interrupted)


def _answered(
    asked: float | NDArray[np.object_], answer: Callable[[list[float]], list[Estimate]]
) -> Estimate | Estimates:
    """The answers to all questions of a call, in the shape in which they were asked."""
    if not isinstance(asked, np.ndarray):
        return answer([asked])[0]
    result = np.empty(asked.shape, dtype=object)
    for place, estimate in enumerate(answer(asked.ravel().tolist())):
        result.flat[place] = estimate
    return result
