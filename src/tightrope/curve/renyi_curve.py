"""The privacy curve bounded from above by Rényi divergences."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.curve.elementwise import elementwise
from tightrope.curve.other_answers import UpperBound
from tightrope.errors import InvalidSetting
from tightrope.numerics import check

UpperBounds = NDArray[np.object_]
Found = tuple[float, float]  # a value and the order that gives it


class Moments(Protocol):
    """What the moments of all steps say."""

    def divergence(self, order: float) -> float:
        """An upper bound of the Rényi divergence."""

    def log_delta(self, epsilon: float) -> Found:
        """An upper bound of ln delta, and its order."""

    def epsilon(self, delta: float) -> Found:
        """An upper bound of epsilon, and its order."""

    def zero_concentrated(self, largest_order: float) -> float:
        """A rho with divergence(order) <= rho order up to that order."""


@dataclass(frozen=True)
class RenyiBranch:
    """One direction of a relation: each cover bounds it, for the reasons beside it."""

    name: str
    covers: tuple[tuple[Moments, tuple[object, ...]], ...]


@dataclass(frozen=True)
class RenyiCurve:
    """Upper bounds on delta and epsilon by Rényi divergences: quick and valid, and looser than the certified curve.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.Renyi())
    >>> print(curve.epsilon(1e-6))
    at most 1.70...
    """

    question: str
    branches: tuple[RenyiBranch, ...]
    because: tuple[object, ...]
    reverse: Callable[[], "RenyiCurve"] = field(repr=False)

    @overload
    def delta(self, epsilon: float) -> UpperBound: ...
    @overload
    def delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> UpperBounds: ...
    def delta(self, epsilon: ArrayLike) -> UpperBound | UpperBounds:
        """No more than this delta at each epsilon."""
        return elementwise(lambda at: _exponential(self._log_delta(at)), epsilon, "epsilon")

    @overload
    def log_delta(self, epsilon: float) -> UpperBound: ...
    @overload
    def log_delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> UpperBounds: ...
    def log_delta(self, epsilon: ArrayLike) -> UpperBound | UpperBounds:
        """The natural logarithm of delta(epsilon), usable however small delta is."""
        return elementwise(self._log_delta, epsilon, "epsilon")

    @overload
    def epsilon(self, delta: float) -> UpperBound: ...
    @overload
    def epsilon(self, delta: Sequence[float] | NDArray[np.float64]) -> UpperBounds: ...
    def epsilon(self, delta: ArrayLike) -> UpperBound | UpperBounds:
        """No more than this epsilon at each delta."""
        return elementwise(self._epsilon, delta, "delta")

    @overload
    def divergence(self, order: float) -> UpperBound: ...
    @overload
    def divergence(self, order: Sequence[float] | NDArray[np.float64]) -> UpperBounds: ...
    def divergence(self, order: ArrayLike) -> UpperBound | UpperBounds:
        """No more than this Rényi divergence of each order above 1; infinity is an order too."""
        return elementwise(lambda at: self._divergence(_checked_order(order=at)), order, "order")

    def zero_concentrated(self, largest_order: float = math.inf) -> UpperBound:
        """No more than this rho of zero-concentrated privacy: divergence(order) <= rho order for all orders above 1.

        With a finite `largest_order` it is the rho of truncated concentrated privacy, for orders up to that one. Sampling
        helps there only: a sampled Gaussian step has, at very high orders, the divergence of an unsampled one.
        """
        order = _checked_order(largest_order=largest_order)

        def found(moments: Moments) -> Found:
            return moments.zero_concentrated(order), order

        return self._worst(found)

    def bounds(self, delta: float) -> tuple[tuple[UpperBound, ...], ...]:
        """Epsilon at `delta` by each theorem on its own, branch by branch; `epsilon` takes the best of each branch."""
        at = _checked_delta(delta)
        return tuple(
            tuple(UpperBound(*c.epsilon(at), why) for c, why in branch.covers) for branch in self.branches
        )

    def _log_delta(self, epsilon: float) -> UpperBound:
        at = check.real(
            remedy="Pass a finite epsilon; delta(infinity) is the chance of an infinite loss.",
            epsilon=epsilon,
        )
        if at < 0:  # delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps)
            other = self.reverse()._log_delta(-at)
            log_delta = math.log(-math.expm1(at) + math.exp(other.upper + at)) + 1e-15
            return UpperBound(min(log_delta, 0.0), other.order, other.because)
        return self._worst(lambda moments: moments.log_delta(at))

    def _epsilon(self, delta: float) -> UpperBound:
        at = _checked_delta(delta)
        return self._worst(lambda moments: moments.epsilon(at))

    def _divergence(self, order: float) -> UpperBound:
        return self._worst(lambda moments: (moments.divergence(order), order))

    def _worst(self, ask: Callable[[Moments], Found]) -> UpperBound:
        """The best cover of the worst branch."""
        best = [
            min((UpperBound(*ask(c), why) for c, why in b.covers), key=lambda found: found.upper)
            for b in self.branches
        ]
        return max(best, key=lambda found: found.upper)


def _exponential(logarithm: UpperBound) -> UpperBound:
    """The number itself, rounded up; never 0 unless it is."""
    upper = 0.0 if logarithm.upper == -math.inf else min(math.nextafter(math.exp(logarithm.upper), 1.0), 1.0)
    return UpperBound(upper, logarithm.order, logarithm.because)


def _checked_delta(delta: float) -> float:
    return check.open_probability(
        remedy="Pass the probability of failure you accept, strictly between 0 and 1; it is usually below 1 / population.",
        delta=delta,
    )


def _checked_order(**named: float) -> float:
    """The one named argument as an order above 1, infinity among them."""
    ((name, value),) = named.items()
    if value == math.inf:
        return math.inf
    order = check.real(remedy="Pass a number above 1, or math.inf.", **named)
    if order <= 1:
        raise InvalidSetting(
            f"{name} must be above 1, got {value!r}. Rényi divergences of order 1 + c bound the moments E[e^(c loss)]."
        )
    return order
