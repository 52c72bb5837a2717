"""The privacy curve that many small steps tend to. It is an approximation, which can be too small."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tightrope.curve.answer import AnyAnswer
from tightrope.curve.curve import Curve, log_delta_from_reverse
from tightrope.curve.formats import NumberFormat
from tightrope.engines.face import ComposedCurve
from tightrope.errors import UncertainComparison
from tightrope.numerics.text import Flat

ACCURACY = 1e-3  # of the limit's own curve; nobody knows how far the limit is from the truth


@dataclass(frozen=True, repr=False)
class Approximation(AnyAnswer):
    """About the truth, without a guarantee: it can be too small as well as too large.

    It is rounded to the nearest number, and no comparison with it is certain.

    >>> print(Approximation(0.5), f"{Approximation(2 / 3):.3f}")
    about 0.5 about 0.667
    """

    value: float

    def __float__(self) -> float:
        raise TypeError("an Approximation guarantees nothing: use .value if that is what you want")

    def __str__(self) -> str:
        return f"about {self.value:.9g}"

    def to_dict(self) -> Flat:
        """The number, as one flat row."""
        return {"value": self.value}

    def _format(self, spec: NumberFormat) -> str:
        return f"about {spec.write(self.value, up=None)}"

    def _certain_ends(self) -> tuple[float, float]:
        raise UncertainComparison(
            f"nothing about an approximation is certain: {self} may be too small as well as too large",
            "Compare .value if that is what you want, or ask {Certified}, whose brackets hold.",
        )

    def _tell(self) -> tuple[str, str]:
        return f"{self}, without a guarantee", f"{self.value:.9g}"

    def _list_reasons(self) -> Iterator[str]:
        yield "It is what many small steps tend to. It can be too small."


@dataclass(frozen=True, kw_only=True)
class GaussianLimitCurve(Curve[Approximation]):
    """The curve of two unit normals `mu` apart, in place of that of the run.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.GaussianLimit())
    >>> print(curve.epsilon(1e-6))  # the truth is 0.947
    about 0.80...
    >>> round(curve.mu, 4)
    0.1942
    """

    drawn_as: ClassVar[str] = ":"

    mu: float
    limit: ComposedCurve | None = field(repr=False)  # None where it says nothing: mu is infinite

    def _deltas(self, epsilons: list[float]) -> list[Approximation]:
        return [Approximation(math.exp(self._log_delta(epsilon))) for epsilon in epsilons]

    def _log_deltas(self, epsilons: list[float]) -> list[Approximation]:
        return [Approximation(self._log_delta(epsilon)) for epsilon in epsilons]

    def _epsilons(self, deltas: list[float]) -> list[Approximation]:
        return [Approximation(self._epsilon(delta)) for delta in deltas]

    def _log_delta(self, epsilon: float) -> float:
        if self.limit is None:
            return 0.0
        if epsilon < 0:  # the pair is its own reverse
            return log_delta_from_reverse(epsilon, self._log_delta(-epsilon))[0]
        return min(self.limit.log_bounds(epsilon, ACCURACY).upper, 0.0)

    def _epsilon(self, delta: float) -> float:
        return math.inf if self.limit is None else self.limit.epsilon_bounds(delta, ACCURACY)[1]
