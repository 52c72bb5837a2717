"""The privacy curve that many small steps tend to. An approximation, which can be too small."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.curve.elementwise import elementwise
from tightrope.curve.other_answers import Approximation
from tightrope.curve.privacy_curve import ComposedCurve
from tightrope.numerics import check

Approximations = NDArray[np.object_]
ACCURACY = 1e-3  # at least, of the limit's own curve; how far the limit is off is not known


@dataclass(frozen=True)
class GaussianLimitCurve:
    """The curve of two unit normals `mu` apart, in place of that of the run.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.GaussianLimit())
    >>> print(curve.epsilon(1e-6))  # the truth is 0.947
    about 0.80...
    >>> round(curve.mu, 4)
    0.1942
    """

    question: str
    mu: float
    because: tuple[object, ...]
    limit: ComposedCurve = field(repr=False)

    @overload
    def delta(self, epsilon: float) -> Approximation: ...
    @overload
    def delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Approximations: ...
    def delta(self, epsilon: ArrayLike) -> Approximation | Approximations:
        """About this delta at each epsilon."""
        return elementwise(lambda at: Approximation(math.exp(self._log_delta(at))), epsilon, "epsilon")

    @overload
    def log_delta(self, epsilon: float) -> Approximation: ...
    @overload
    def log_delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Approximations: ...
    def log_delta(self, epsilon: ArrayLike) -> Approximation | Approximations:
        """About the natural logarithm of delta(epsilon)."""
        return elementwise(lambda at: Approximation(self._log_delta(at)), epsilon, "epsilon")

    @overload
    def epsilon(self, delta: float) -> Approximation: ...
    @overload
    def epsilon(self, delta: Sequence[float] | NDArray[np.float64]) -> Approximations: ...
    def epsilon(self, delta: ArrayLike) -> Approximation | Approximations:
        """About this epsilon at each delta."""
        return elementwise(self._epsilon, delta, "delta")

    def _log_delta(self, epsilon: float) -> float:
        at = check.real(
            remedy="Pass a finite epsilon; delta(infinity) is the chance of an infinite loss.",
            epsilon=epsilon,
        )
        if self.mu == math.inf:
            return 0.0
        if at < 0:  # the pair is its own reverse
            return math.log(-math.expm1(at) + math.exp(at + self._log_delta(-at)))
        return min(self.limit.log_bounds(at, ACCURACY).upper, 0.0)

    def _epsilon(self, delta: float) -> Approximation:
        at = check.open_probability(
            remedy="Pass the probability of failure you accept, strictly between 0 and 1.", delta=delta
        )
        return Approximation(math.inf if self.mu == math.inf else self.limit.epsilon_bounds(at, ACCURACY)[1])
