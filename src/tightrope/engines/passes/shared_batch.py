"""The likelihood ratio of a batch that holds one record of a group, or more."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from flint import arb, ctx
from scipy.special import ndtr, ndtri

from tightrope.engines.passes.ratios import TRY_ANOTHER, StepRatio, Tails
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.balls import ball
from tightrope.pairs.group_pass import SharedBatch

RAREST_RATIOS = 1e-23  # of P: ratios beyond are cut, and charged
OUTPUT_HALVINGS = 60  # of an interval of outputs, to begin with
OUTPUT_ROOM_BITS = 16  # of the precision, by which an output may be missed
MOST_NEWTON, MOST_WIDENINGS = 12, 64  # steps towards an output, and doublings of the ball that holds it


@dataclass(frozen=True)
class SharedRatio(StepRatio):
    """W = sum_k w_k e^{k a z - k^2 a^2 / 2}, z standard normal: it grows with z."""

    step: SharedBatch

    @cached_property
    def _counts(self) -> list[tuple[int, float]]:
        return [(k, float(weight)) for k, weight in self.step.counts]

    def _about(self, z: float) -> float:
        a = float(self.step.exact_shift)
        return sum(weight * math.exp(k * a * z - (k * a) ** 2 / 2) for k, weight in self._counts)

    @property
    def largest(self) -> float:
        """Where P has next to nothing beyond."""
        a = float(self.step.exact_shift)
        rare = [(k, weight) for k, weight in self._counts if weight > RAREST_RATIOS]
        return self._about(max(k * a - float(ndtri(RAREST_RATIOS / weight)) for k, weight in rare))

    @property
    def deviation(self) -> float:
        """About that of one record."""
        return 2 * math.erf(float(self.step.exact_shift) / math.sqrt(8))

    def quantile(self, mass: float) -> float:
        """W grows with z."""
        return self._about(float(ndtri(mass)))

    def weighted_quantile(self, mass: float) -> float:
        """About: that of one record, or where P has no more than the rest beyond."""
        a = float(self.step.exact_shift)
        if mass < 0.5:
            return self._about(float(ndtri(mass)) + a)

        def below(z: float) -> float:
            return sum(weight * float(ndtr(z - k * a)) for k, weight in self._counts)

        return self._about(bisect_root(lambda z: below(z) - mass, 0.0, self._counts[-1][0] * a + 40))

    def tails(self, place: arb) -> Tails:
        """E[W^i; W >= place], i = 0, 1, 2, by P(z >= d - j a), where W is `place` at d."""
        a, d = ball(self.step.exact_shift), self._find_output(place)
        counts = [(k, ball(weight)) for k, weight in self.step.counts]
        beyond = [((d - j * a) / arb(2).sqrt()).erfc() / 2 for j in range(2 * counts[-1][0] + 1)]
        one = sum((weight * beyond[k] for k, weight in counts), arb(0))
        return (beyond[0], one), (one, self._squares(lambda j: beyond[j]))

    @property
    def totals(self) -> Tails:
        """What there is in all."""
        one = sum((ball(weight) for _, weight in self.step.counts), arb(0))
        return (arb(1), one), (one, self._squares(lambda _: arb(1)))

    def _squares(self, beyond: Callable[[int], arb]) -> arb:
        """The sum over k and l of w_k w_l e^{k l a^2} P(z >= d - (k + l) a)."""
        a, found = ball(self.step.exact_shift), arb(0)
        for k, weight in self.step.counts:
            for other, its in self.step.counts:
                found += ball(weight) * ball(its) * (k * other * a * a).exp() * beyond(k + other)
        return found

    def _find_output(self, place: arb) -> arb:
        """A ball that certainly holds the d at which W is `place`."""
        a = ball(self.step.exact_shift)
        terms = [(k, ball(weight).log() - (k * a) ** 2 / 2) for k, weight in self.step.counts]

        def log_ratio(z: arb) -> tuple[arb, arb]:
            """ln W - ln place, and its slope."""
            powers = [(k, (k * a * z + log).exp()) for k, log in terms]
            total = sum((power for _, power in powers), arb(0))
            mean = sum((k * power for k, power in powers), arb(0)) / total
            return (total / place).log(), a * mean

        # ln W is convex: from the right Newton's steps come down to d, each as exact as balls are
        d = arb(self._start(float(place)))
        room = arb(2) ** (OUTPUT_ROOM_BITS - ctx.prec)
        for _ in range(MOST_NEWTON):
            excess, slope = log_ratio(d)
            move = excess / slope
            d = (d - move).mid()
            if abs(move) < arb(2) ** (-ctx.prec // 2):
                break
        for _ in range(MOST_WIDENINGS):
            if log_ratio(d - room)[0] < 0 < log_ratio(d + room)[0]:
                return d + room * arb(0, 1)
            room = 2 * room
        raise NotPreciseEnough("the output at which a ratio of a shared batch is reached", TRY_ANOTHER)

    def _start(self, place: float) -> float:
        """About d: where the largest of the terms is `place`."""
        a, log = float(self.step.exact_shift), math.log(place)
        return min((log - math.log(w)) / (k * a) + k * a / 2 for k, w in self._counts)


def bisect_root(rises: Callable[[float], float], low: float, high: float) -> float:
    """About where a function that rises is 0, between two places."""
    for _ in range(OUTPUT_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < 0 else (low, middle)
    return high
