"""The privacy curve bounded from above by Rényi divergences."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, overload

from numpy.typing import ArrayLike

from tightrope.curve.answer import AnyAnswer
from tightrope.curve.curve import Answers, Curve, Numbers, check_delta, elementwise, log_delta_from_reverse
from tightrope.curve.formats import NumberFormat
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.numerics.text import Flat, round_outwards
from tightrope.theorems.evidence import Evidence

if TYPE_CHECKING:  # it loads flint, which only an answer needs
    from tightrope.engines.moments.renyi import RenyiBound


@dataclass(frozen=True, repr=False)
class UpperBound(AnyAnswer):
    """truth <= `upper`; how far below it the truth lies is not known.

    `order` is the Rényi order that gave it (infinity where it is the largest loss, 1 where it is the relative
    entropy), and `because` lists the theorems. A format rounds it up.

    >>> bound = UpperBound(1.25, order=8.0)
    >>> bound.upper, bound <= 1.3, f"{bound:.1f}"
    (1.25, True, 'at most 1.3')
    """

    _to_compare: ClassVar[str] = (
        "Compare .upper, the safe end, to show that it is small; nothing here shows that it is large."
    )

    upper: float
    order: float
    because: tuple[Evidence, ...] = field(default=(), repr=False, compare=False)

    def __float__(self) -> float:
        raise TypeError("an UpperBound is one-sided: use .upper")

    def __str__(self) -> str:
        return f"at most {self._number}"

    def to_dict(self) -> Flat:
        """The bound and the order that gave it, as one flat row."""
        names = "; ".join(theorem.name for theorem in self.because)
        return {"upper": self.upper, "order": self.order, "because": names}

    @property
    def _number(self) -> str:
        return round_outwards(self.upper, 9, up=True)

    def _format(self, spec: NumberFormat) -> str:
        return f"at most {spec.write(self.upper, up=True)}"

    def _certain_ends(self) -> tuple[float, float]:
        return -math.inf, self.upper

    def _tell(self) -> tuple[str, str]:
        return f"{self}, and nobody knows how far below", self._number

    def _list_reasons(self) -> Iterator[str]:
        yield from (theorem.in_full for theorem in self.because)


@dataclass(frozen=True)
class RenyiBranch:
    """One direction of a relation: each cover bounds it, for the reasons beside it."""

    name: str
    covers: "tuple[tuple[RenyiBound, tuple[Evidence, ...]], ...]"


@dataclass(frozen=True, kw_only=True)
class RenyiCurve(Curve[UpperBound]):
    """Upper bounds on delta and epsilon by Rényi divergences: quick and valid, but not tight.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.Renyi())
    >>> print(curve.epsilon(1e-6))
    at most 1.70...
    """

    drawn_as: ClassVar[str] = "--"

    branches: tuple[RenyiBranch, ...]
    reverse: Callable[[], "RenyiCurve"] = field(repr=False)

    @overload
    def divergence(self, order: float) -> UpperBound: ...
    @overload
    def divergence(self, order: Numbers) -> Answers: ...
    def divergence(self, order: ArrayLike) -> UpperBound | Answers:
        """An upper bound on the Rényi divergence of each order above 1; infinity is an order too."""
        return elementwise(lambda at: self._divergence(_check_order(order=at)), order, "order")

    def zero_concentrated(self, largest_order: float = math.inf) -> UpperBound:
        """A rho of zero-concentrated privacy: divergence(order) <= rho order for all orders above 1.

        With a finite `largest_order` it is the rho of truncated concentrated privacy, for orders up to that
        one. Sampling helps only there: at very high orders a sampled Gaussian step diverges like an unsampled
        one.
        """
        order = _check_order(largest_order=largest_order)
        return self._worst(lambda bound: (bound.zero_concentrated(order), order))

    def bounds(self, delta: float) -> tuple[tuple[UpperBound, ...], ...]:
        """Epsilon at `delta` by each theorem alone, in each branch; `epsilon` takes the best."""
        at = check_delta(delta)
        return tuple(
            tuple(UpperBound(*bound.epsilon(at), why) for bound, why in branch.covers)
            for branch in self.branches
        )

    def _deltas(self, epsilons: list[float]) -> list[UpperBound]:
        return [_exponential(log_delta) for log_delta in self._log_deltas(epsilons)]

    def _log_deltas(self, epsilons: list[float]) -> list[UpperBound]:
        return [self._log_delta(epsilon) for epsilon in epsilons]

    def _epsilons(self, deltas: list[float]) -> list[UpperBound]:
        return [self._epsilon(delta) for delta in deltas]

    def _log_delta(self, epsilon: float) -> UpperBound:
        if epsilon < 0:
            opposite = self.reverse()._log_delta(-epsilon)
            _, log_delta = log_delta_from_reverse(epsilon, opposite.upper)
            return UpperBound(log_delta, opposite.order, opposite.because)
        return self._worst(lambda bound: bound.log_delta(epsilon))

    def _epsilon(self, delta: float) -> UpperBound:
        return self._worst(lambda bound: bound.epsilon(delta))

    def _divergence(self, order: float) -> UpperBound:
        return self._worst(lambda bound: (bound.divergence(order), order))

    def _worst(self, ask: "Callable[[RenyiBound], tuple[float, float]]") -> UpperBound:
        """The best cover of the worst branch; a cover answers with a value and the order that gives it."""
        best = [
            min((UpperBound(*ask(bound), why) for bound, why in branch.covers), key=lambda found: found.upper)
            for branch in self.branches
        ]
        return max(best, key=lambda found: found.upper)


def _exponential(logarithm: UpperBound) -> UpperBound:
    """The number itself, rounded up; never 0 unless it is."""
    from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

    upper = 0.0
    if logarithm.upper > -math.inf:
        upper = ceil_float(enclose(lambda: ball(logarithm.upper).exp()))
    return UpperBound(min(upper, 1.0), logarithm.order, logarithm.because)


def _check_order(**named: float) -> float:
    """The one named argument as an order above 1; infinity is one."""
    ((name, value),) = named.items()
    if value == math.inf:
        return math.inf
    order = check.exact_float(remedy="Pass a number above 1, or math.inf.", **named)
    if order <= 1:
        remedy = "Rényi divergences of order 1 + c bound the moments E[e^(c loss)]."
        raise InvalidSetting(name, value, "be above 1", remedy)
    return order
