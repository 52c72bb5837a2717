"""The best of K runs from above: every output has the rank at which it loses most."""

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from tightrope.curve.curve import log_delta_from_reverse
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.ranks import RandomRanks, Ranks
from tightrope.engines.crossing import find_crossing
from tightrope.engines.face import LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import log_ends, next_down

if TYPE_CHECKING:
    from flint import arb

BITS = 128
FIRST_KINK, KINKS, GROWTH = 1e-3, 26, 1.4  # how far beyond the least ratio each output's bound bends
FAR = 16.0  # in ln delta: the sum of all kinks beyond is E[K] e^-16 of delta(epsilon - ln C)
SAFEST_EPSILON = 1e4  # beyond, no search is made: the upper end is infinite


@dataclass(frozen=True)
class Line:
    """w <= e^x u + d for sets of chances u under P and w under Q: d is delta(x) of (Q, P), from above."""

    x: float
    log_d: float

    @property
    def d(self) -> "arb":
        """As a ball."""
        from tightrope.numerics.balls import ball  # loads flint

        return ball(self.log_d).exp() if self.log_d > -math.inf else ball(0.0)


class WorstRanks:
    """The best of K runs from above, for epsilon >= 0: every output has the rank at which it loses most.

    `curve` bounds one run in the same direction, `reverse` in the other.
    """

    def __init__(self, ranks: RandomRanks, curve: PrivacyCurve, reverse: PrivacyCurve) -> None:
        self.ranks, self.curve, self.reverse = ranks, curve, reverse
        self._epsilons: dict[tuple[float, float], float] = {}  # a bracket may ask twice

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """The upper bound is what the best shows if it tells every infinite loss."""
        return -math.inf, log_gain(self.ranks, self.curve.infinite_mass.upper)[1]

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """An upper bound on ln delta(epsilon)."""
        return LogBounds(-math.inf, self._log_upper(epsilon))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """An upper bound on the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        if (delta, accuracy) not in self._epsilons:
            self._epsilons[delta, accuracy] = self._find_epsilon(delta, accuracy)
        return 0.0, self._epsilons[delta, accuracy]

    def _find_epsilon(self, delta: float, accuracy: float) -> float:
        least_log = log_ends(delta)[0]
        if self.log_infinite_mass[1] >= least_log:
            return math.inf
        share = max(delta / float(self.ranks.mean), 1e-300)
        start, slope = 1.0, -1.0
        with suppress(NotPreciseEnough):
            start = min(self.curve.epsilon(min(share, 0.5)).upper + self.log_ratio, SAFEST_EPSILON / 2)
        step = max(start * 1e-3, 1e-6)
        here, there = self._log_upper(start), self._log_upper(start + step)
        if math.isfinite(here) and math.isfinite(there):
            slope = min((there - here) / step, -1e-3)
        resolution = max(accuracy / 50 / -slope, 1e-14 * start)
        _, upper = find_crossing(
            lambda at: self._log_upper(at) - least_log,
            start=start,
            slope=slope,
            resolution=resolution,
            highest=SAFEST_EPSILON,
        )
        return upper

    @property
    def log_ratio(self) -> float:
        """ln C: how much likelier, at most, a rank makes an output under P than under Q."""
        return -self._pivot[0]

    def _log_upper(self, epsilon: float) -> float:
        """The smaller of two bounds, each valid: `by rank`, and g(delta(epsilon - ln C))."""
        from flint import ctx

        from tightrope.numerics.balls import ball, ceil_float  # loads flint

        log_deltas: list[float] = []
        for at, _ in self._kinks:
            # far out an engine works long for digits that do not matter, and delta only falls
            is_far = bool(log_deltas) and log_deltas[-1] < log_deltas[0] - FAR
            log_deltas.append(log_deltas[-1] if is_far else log_upper(self.curve, next_down(epsilon + at)))
        together = log_gain(self.ranks, math.exp(log_deltas[0]), log_deltas[0])[1]
        with ctx.workprec(BITS):
            terms = (
                bend * ball(log_delta).exp()
                for (_, bend), log_delta in zip(self._kinks, log_deltas, strict=True)
                if log_delta > -math.inf
            )
            by_rank = sum(terms, ball(0.0))
            if by_rank == 0:
                return -math.inf
            return min(together, ceil_float(by_rank.log()), 0.0)

    @cached_property
    def _pivot(self) -> tuple[float, Line]:
        """A float below -ln C, and the line that shows it."""
        from flint import ctx

        from tightrope.numerics.balls import floor_float  # loads flint

        low, high = 0.0, 0.0
        while self.ranks.surplus(high, math.exp(log_upper(self.reverse, high))) < 0:
            low, high = high, 2 * high or 1e-3
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            enough = self.ranks.surplus(middle, math.exp(log_upper(self.reverse, middle))) >= 0
            low, high = (low, middle) if enough else (middle, high)
        line = Line(high, log_upper(self.reverse, high))
        with ctx.workprec(BITS):
            return floor_float(-self.ranks.log_ratio(line.x, line.d)), line

    @cached_property
    def _kinks(self) -> list[tuple[float, "arb"]]:
        """(at, bend): the sum of bend (ratio - e^at)_+ is at least what any rank makes of an output.

        At rank u an output whose likelihood ratio is e^epsilon times `ratio` adds at most e^epsilon
        (g'(u) ratio - g'(w)) to delta: the supremum over u is convex in the ratio, 0 up to 1 / C, and has at
        most the slope E[K]. Chords between places where it is known from above are above it.
        """
        from flint import ctx

        from tightrope.numerics.balls import ball, ceil_float  # loads flint

        least, first = self._pivot
        steps = [FIRST_KINK * GROWTH**count for count in range(KINKS)]
        # a ratio e^step above the least is bounded best by a line that is about as much steeper
        lines = [first, *(Line(x, log_upper(self.reverse, x)) for x in (first.x + step for step in steps))]
        places = [least, *(least + step for step in steps)]
        with ctx.workprec(BITS):
            mean = self.ranks.mean
            ratios = [ball(at).exp() for at in places]
            found, slope, value = [], 0.0, ball(0.0)
            for here, there in pairwise(ratios):
                peaks = (self.ranks.peak(there, line.x, line.d) for line in lines)
                known = [ceil_float(peak) for peak in peaks if peak is not None]
                if not known:
                    break
                rise = ceil_float((ball(min(known)) - value) / (there - here))
                steeper = min(max(slope, rise), 1.0)
                found.append(ball(steeper) - ball(slope))
                slope, value = steeper, value + ball(steeper) * (there - here)
            found.append(ball(1.0) - ball(slope))  # beyond, as steep as E[K]
            bends = [bend * mean for bend in found]
        return [(at, bend) for at, bend in zip(places, bends, strict=False) if bend > 0 or at == least]


class WholeCurve:
    """What a curve knows from above: the bound of runs that are composed."""

    def __init__(self, curve: PrivacyCurve) -> None:
        self.curve = curve

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """The upper bound."""
        upper = self.curve.infinite_mass.upper
        return -math.inf, log_ends(upper)[1] if upper else -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """An upper bound on ln delta(epsilon)."""
        return LogBounds(-math.inf, self.curve.to_accuracy(accuracy).log_delta(epsilon).upper)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """An upper bound on the smallest epsilon."""
        return 0.0, self.curve.to_accuracy(accuracy).epsilon(delta).upper


def log_upper(curve: PrivacyCurve, epsilon: float) -> float:
    """ln delta(epsilon) from above, of a relation of one direction; 0 where nothing is known."""
    if epsilon < 0:
        return log_delta_from_reverse(epsilon, log_upper(curve.reverse(), -epsilon))[1]
    (branch,) = curve.branches
    least = 0.0
    for cover in branch.covers:
        for accuracy in (curve.accuracy, 1.0):
            with suppress(NotPreciseEnough):
                least = min(least, max(one.log_bounds(epsilon, accuracy).upper for one in cover.curves))
                break
    return least


def log_gain(ranks: Ranks, mass: float, log_mass: float | None = None) -> tuple[float, float]:
    """Bounds on ln g(mass)."""
    from flint import ctx

    from tightrope.numerics.balls import ball, float_ends  # loads flint

    if mass == 0 and log_mass in (None, -math.inf):
        return -math.inf, -math.inf
    with ctx.workprec(BITS):
        exact = ball(mass) if log_mass is None else ball(log_mass).exp()
        if exact >= 1:
            exact = ball(1.0)
        low, high = float_ends(ranks.gain(ball(0.0), exact).log())
        return low, min(high, 0.0)
