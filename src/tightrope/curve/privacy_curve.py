"""The privacy curve of a run between a certified upper and lower bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.curve.bracket import Bracket
from tightrope.curve.log_bounds import Errors, LogBounds
from tightrope.errors import InvalidSetting, NotPreciseEnough
from tightrope.numerics import check

if TYPE_CHECKING:
    from tightrope.curve.trade_off import TradeOff

Brackets = NDArray[np.object_]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Composed(Protocol):
    """The curve of one composed schedule, for epsilon >= 0."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""


@dataclass(frozen=True)
class Branch:
    """One direction of a relation: covers bound its curve from above (each by its worst schedule), witnesses from below."""

    name: str
    covers: tuple[tuple[Composed, ...], ...]
    witnesses: tuple[Composed, ...]


@dataclass(frozen=True)
class PrivacyCurve:
    """delta as a function of epsilon and back, as brackets. Scalars give a Bracket, arrays an array of Brackets.

    `leaves_a_gap` says whether theory, and not only arithmetic, may keep the two ends apart.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)
    >>> print(curve.epsilon(1e-6))
    [0.94719..., 0.94719...]
    >>> curve.delta([0.5, 1.0]).shape
    (2,)
    """

    question: str
    branches: tuple[Branch, ...]
    because: tuple[object, ...]
    witnessed_by: tuple[str, ...]
    accuracy: float
    reverse: Callable[[], "PrivacyCurve"] = field(repr=False)
    leaves_a_gap: bool = False

    @overload
    def delta(self, epsilon: float) -> Bracket: ...
    @overload
    def delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Brackets: ...
    def delta(self, epsilon: ArrayLike) -> Bracket | Brackets:
        """The smallest delta at each epsilon.

        Below about 1e-308 the lower end is 0 and the upper end the smallest float: use log_delta there.
        """
        return self._map(self._delta, epsilon, "epsilon")

    @overload
    def log_delta(self, epsilon: float) -> Bracket: ...
    @overload
    def log_delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Brackets: ...
    def log_delta(self, epsilon: ArrayLike) -> Bracket | Brackets:
        """The natural logarithm of delta(epsilon), usable however small delta is; -inf where delta is 0."""
        return self._map(lambda e: Bracket(*self._log_ends(e)), epsilon, "epsilon")

    @overload
    def epsilon(self, delta: float) -> Bracket: ...
    @overload
    def epsilon(self, delta: Sequence[float] | NDArray[np.float64]) -> Brackets: ...
    def epsilon(self, delta: ArrayLike) -> Bracket | Brackets:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; 0 and infinity where those are the truth."""
        return self._map(self._epsilon, delta, "delta")

    def error(self, epsilon: float) -> Errors:
        """How much each approximation (cells, tails, aliasing, cut-off, rounding) can have moved delta, relative to delta."""
        epsilon = abs(check.real(epsilon=epsilon))
        found = [self._cover_bounds(branch, epsilon) for branch in self.branches]
        return max(found, key=lambda bounds: bounds.upper).errors

    def trade_off(self) -> "TradeOff":
        """What the best attack achieves: true against false positive rates, success, posteriors; the f of f-DP.

        >>> import tightrope as tr
        >>> step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
        >>> print(tr.privacy_curve(step, relation=tr.REMOVE).trade_off().true_positive_rate(0.05))
        [0.259511..., 0.259511...]
        """
        from tightrope.curve.trade_off import TradeOff  # which is made of curves

        return TradeOff(self)

    def _map(self, one: Callable[[float], Bracket], values: ArrayLike, name: str) -> Bracket | Brackets:
        try:
            array = np.asarray(values)
        except ValueError:  # ragged
            array = np.array(["ragged"])
        if array.ndim == 0:
            return one(values)  # type: ignore[arg-type]
        if array.size and not np.issubdtype(array.dtype, np.number):
            raise InvalidSetting(f"{name} must be a number or an array of numbers, got {values!r}. Pass floats.")
        result = np.empty(array.shape, dtype=object)
        for index in np.ndindex(array.shape):
            result[index] = one(array[index].item())
        return result

    def _delta(self, epsilon: float) -> Bracket:
        lower, upper = self._log_ends(epsilon)
        # exp rounds to within a unit in the last place: step outwards, and never down to 0 unless delta is 0
        high = 0.0 if upper == -math.inf else min(math.nextafter(math.exp(upper), 1.0), 1.0)
        low = math.nextafter(math.exp(lower), 0.0) if lower > -700 else 0.0
        return Bracket(min(low, high), high)

    def _log_ends(self, epsilon: float) -> tuple[float, float]:
        epsilon = check.real(remedy="Pass a finite epsilon; delta(infinity) is the chance of an infinite loss.", epsilon=epsilon)
        if epsilon < 0:
            return self._negative(epsilon)
        upper = min(max(self._cover_bounds(branch, epsilon).upper for branch in self.branches), 0.0)  # delta is at most 1
        enough = upper + math.log1p(-min(self.accuracy, 0.5))
        lower = self._attained(lambda w: w.log_bounds(epsilon, self.accuracy).lower, enough, -math.inf)
        return min(lower, upper), upper

    def _negative(self, epsilon: float) -> tuple[float, float]:
        """delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps): what the exchanged pair loses at the opposite epsilon."""
        lower, upper = self.reverse()._log_ends(-epsilon)
        base = -math.expm1(epsilon)
        return math.log(base + math.exp(lower + epsilon)) - 1e-15, min(math.log(base + math.exp(upper + epsilon)) + 1e-15, 0.0)

    def _cover_bounds(self, branch: Branch, epsilon: float) -> LogBounds:
        """The best cover's worst schedule."""

        def worst(cover: tuple[Composed, ...]) -> LogBounds:
            return max((schedule.log_bounds(epsilon, self.accuracy) for schedule in cover), key=lambda b: b.upper)

        return min(_answered(worst, branch.covers), key=lambda b: b.upper)

    def _attained(self, lower_end: Callable[[Composed], float], enough: float, least: float) -> float:
        """What the best witness attains; a branch's later witnesses are not asked where an earlier one attains enough."""
        best = [max(_answered(lower_end, branch.witnesses, enough), default=least) for branch in self.branches]
        return max(best, default=least)

    def _epsilon(self, delta: float) -> Bracket:
        delta = check.open_probability(
            remedy="Pass the probability of failure you accept, strictly between 0 and 1; it is usually below 1 / population.",
            delta=delta,
        )

        def worst(cover: tuple[Composed, ...]) -> float:
            return max(schedule.epsilon_bounds(delta, self.accuracy)[1] for schedule in cover)

        upper = max(min(_answered(worst, branch.covers)) for branch in self.branches)
        enough = upper * (1 - self.accuracy / 10)
        lower = self._attained(lambda w: w.epsilon_bounds(delta, self.accuracy)[0], enough, 0.0)
        return Bracket(min(lower, upper), upper)


def _answered(ask: Callable[[Asked], Answer], asked: Sequence[Asked], enough: float | None = None) -> list[Answer]:
    """The answers of those that can answer, up to the first that is `enough`; a refusal only if none can.

    One cover fewer leaves the upper end higher, one witness fewer the lower end lower: the bracket stays certain.
    """
    answers: list[Answer] = []
    refusal: NotPreciseEnough | None = None
    for one in asked:
        try:
            answers.append(ask(one))
            if enough is not None and isinstance(answers[-1], float) and answers[-1] >= enough:
                break
        except NotPreciseEnough as refused:
            refusal = refusal or refused
    if refusal is not None and not answers:
        raise refusal
    return answers
