"""The privacy curve of a run between a certified upper and lower bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import elementwise
from tightrope.engines.face import Errors, LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.numerics import check

if TYPE_CHECKING:
    from tightrope.curve.trade_off import TradeOff

Brackets = NDArray[np.object_]
Answer = TypeVar("Answer")


End = Callable[["Composed"], float]


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
        return elementwise(self._delta, epsilon, "epsilon")

    @overload
    def log_delta(self, epsilon: float) -> Bracket: ...
    @overload
    def log_delta(self, epsilon: Sequence[float] | NDArray[np.float64]) -> Brackets: ...
    def log_delta(self, epsilon: ArrayLike) -> Bracket | Brackets:
        """The natural logarithm of delta(epsilon), usable however small delta is; -inf where delta is 0."""
        return elementwise(lambda e: Bracket(*self._log_ends(e)), epsilon, "epsilon")

    @overload
    def epsilon(self, delta: float) -> Bracket: ...
    @overload
    def epsilon(self, delta: Sequence[float] | NDArray[np.float64]) -> Brackets: ...
    def epsilon(self, delta: ArrayLike) -> Bracket | Brackets:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; 0 and infinity where those are the truth."""
        return elementwise(self._epsilon, delta, "delta")

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

    def _delta(self, epsilon: float) -> Bracket:
        lower, upper = self._log_ends(epsilon)
        # exp rounds to within a unit in the last place: step outwards, and never down to 0 unless delta is 0
        high = 0.0 if upper == -math.inf else min(math.nextafter(math.exp(upper), 1.0), 1.0)
        low = math.nextafter(math.exp(lower), 0.0) if lower > -700 else 0.0
        return Bracket(min(low, high), high)

    def _log_ends(self, epsilon: float) -> tuple[float, float]:
        epsilon = check.real(
            remedy="Pass a finite epsilon; delta(infinity) is the chance of an infinite loss.",
            epsilon=epsilon,
        )
        if epsilon < 0:
            return self._negative(epsilon)
        lower, upper = self._ends(
            lambda composed: composed.log_bounds(epsilon, self.accuracy).upper,
            lambda composed: composed.log_bounds(epsilon, self.accuracy).lower,
            lambda upper: upper + math.log1p(-min(self.accuracy, 0.5)),
            -math.inf,
        )
        upper = min(upper, 0.0)  # delta is at most 1
        return min(lower, upper), upper

    def _negative(self, epsilon: float) -> tuple[float, float]:
        """delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps): what the exchanged pair loses at the opposite epsilon."""
        lower, upper = self.reverse()._log_ends(-epsilon)
        base = -math.expm1(epsilon)
        return math.log(base + math.exp(lower + epsilon)) - 1e-15, min(
            math.log(base + math.exp(upper + epsilon)) + 1e-15, 0.0
        )

    def _cover_bounds(self, branch: Branch, epsilon: float) -> LogBounds:
        """The best cover's worst schedule."""

        def worst(cover: tuple[Composed, ...]) -> LogBounds:
            return max(
                (schedule.log_bounds(epsilon, self.accuracy) for schedule in cover), key=lambda b: b.upper
            )

        found = _answered([partial(worst, cover) for cover in branch.covers], needed=True)
        return min(found, key=lambda b: b.upper)

    def _ends(
        self, above: End, below: End, enough: Callable[[float], float], least: float
    ) -> tuple[float, float]:
        """What the best witness attains and the best cover allows, in the worst branch.

        Covers and witnesses come cheapest first: where the first of each meet to within `enough`, no other is asked.
        """
        ends = []
        for branch in self.branches:
            covers = [partial(_worst, above, cover) for cover in branch.covers]
            witnesses = [partial(below, witness) for witness in branch.witnesses]
            uppers, lowers = _answered(covers[:1]), _answered(witnesses[:1])
            if not (uppers and lowers and lowers[0] >= enough(uppers[0])):
                uppers = _answered(covers, needed=True)
                lowers = _answered(witnesses, enough(min(uppers)), needed=True)
            ends.append((max(lowers, default=least), min(uppers)))
        return max((lower for lower, _ in ends), default=least), max(upper for _, upper in ends)

    def _epsilon(self, delta: float) -> Bracket:
        delta = check.open_probability(
            remedy="Pass the probability of failure you accept, strictly between 0 and 1; it is usually below 1 / population.",
            delta=delta,
        )

        lower, upper = self._ends(
            lambda composed: composed.epsilon_bounds(delta, self.accuracy)[1],
            lambda composed: composed.epsilon_bounds(delta, self.accuracy)[0],
            lambda upper: upper * (1 - self.accuracy / 10),
            0.0,
        )
        return Bracket(min(lower, upper), upper)


def _worst(above: End, cover: tuple[Composed, ...]) -> float:
    return max(above(composed) for composed in cover)


def _answered(
    questions: Sequence[Callable[[], Answer]], enough: float = math.inf, *, needed: bool = False
) -> list[Answer]:
    """The answers of those that can answer, up to the first that is `enough`; where one is needed, a refusal if none can.

    One cover fewer leaves the upper end higher, one witness fewer the lower end lower: the bracket stays certain.
    """
    answers: list[Answer] = []
    refusal: NotPreciseEnough | None = None
    for ask in questions:
        try:
            answers.append(ask())
        except NotPreciseEnough as refused:
            refusal = refusal or refused
            continue
        if isinstance(answers[-1], float) and answers[-1] >= enough:
            break
    if needed and refusal is not None and not answers:
        raise refusal
    return answers
