"""From the curve of one run to that of the best of K: proofs/tuning.md."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.ranks import RandomRanks, Ranks
from tightrope.curve.trade_off import TradeOff
from tightrope.engines.composition import find_crossing
from tightrope.engines.face import LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats, log_ends, next_down, next_up

if TYPE_CHECKING:
    from flint import arb

BITS = 128
SLOPES = 48  # of lines that touch the trade-off, to choose sets of low losses from
FIRST_KINK, KINKS, GROWTH = 1e-3, 26, 1.4  # how far beyond the least ratio each output's bound bends
NEGLIGIBLE = 1e-3  # of the chance that a low loss has: lines and sets beyond are not looked at
THRESHOLDS = 48  # of the loss, that a test is chosen from
PARTS = 10.0 ** np.arange(-0.5, -6.5, -0.5)  # of a set of extreme losses, to choose from
SAFEST_EPSILON = 1e4  # beyond, no search is made: the upper end is infinite


@dataclass(frozen=True)
class Line:
    """w <= e^x u + d for sets of chances u under P and w under Q: d is delta(x) of (Q, P), from above."""

    x: float
    log_d: float

    @property
    def d(self) -> "arb":
        """As a ball."""
        from tightrope.numerics.balls import ball

        return ball(self.log_d).exp() if self.log_d > -math.inf else ball(0.0)


class WorstRanks:
    """The best of K runs from above, for epsilon >= 0: every output has the rank at which it loses most.

    `curve` bounds one run in the same direction, `reverse` in the other.
    """

    def __init__(self, ranks: RandomRanks, curve: PrivacyCurve, reverse: PrivacyCurve) -> None:
        self.ranks, self.curve, self.reverse = ranks, curve, reverse

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """The upper bound is what the best shows if it tells every infinite loss."""
        return -math.inf, _log_gain(self.ranks, self.curve.infinite_mass.upper)[1]

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """An upper bound on ln delta(epsilon)."""
        return LogBounds(-math.inf, self._log_upper(epsilon))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """An upper bound on the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        least_log = log_ends(delta)[0]
        if self.log_infinite_mass[1] >= least_log:
            return 0.0, math.inf
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
        return 0.0, upper

    @property
    def log_ratio(self) -> float:
        """ln C: how much likelier, at most, a rank makes an output under P than under Q."""
        return -self._pivot[0]

    def _log_upper(self, epsilon: float) -> float:
        """The smaller of two bounds, each valid: `by rank`, and g(delta(epsilon - ln C))."""
        from flint import ctx

        from tightrope.numerics.balls import ball, ceil_float

        log_deltas = [log_upper(self.curve, next_down(epsilon + at)) for at, _ in self._kinks]
        together = _log_gain(self.ranks, math.exp(log_deltas[0]), log_deltas[0])[1]
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

        from tightrope.numerics.balls import floor_float

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

        from tightrope.numerics.balls import ball, ceil_float

        least, first = self._pivot
        steps = [FIRST_KINK * GROWTH**count for count in range(KINKS)]
        # a ratio e^step above the least is bounded best by a line that is about as much steeper
        lines = [first, *(Line(x, log_upper(self.reverse, x)) for x in (first.x + step for step in steps))]
        places = [least, *(least + step for step in steps)]
        with ctx.workprec(BITS):
            mean = self.ranks.mean
            ratios = [ball(at).exp() for at in places]
            found, slope, value = [], 0.0, ball(0.0)
            for here, there in zip(ratios, ratios[1:], strict=False):
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


class PlayedOrder:
    """The best of K runs from below: outputs of a low loss score best, next those of a high loss.

    `curve` is that of one pair of neighbours, known from both sides; `reverse` of the same pair reversed, or
    None if that is not known: then outputs of a high loss score best. A test says D if the published output
    has a high loss. Every choice of the two sets is valid; the best of some is taken.
    """

    def __init__(self, ranks: Ranks, curve: PrivacyCurve, reverse: PrivacyCurve | None) -> None:
        self.ranks, self.curve, self.reverse = ranks, curve, reverse

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """The lower bound: outputs of an infinite loss score best."""
        return _log_gain(self.ranks, self.curve.infinite_mass.lower)[0], 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """A lower bound on ln delta(epsilon)."""
        from flint import ctx

        from tightrope.numerics.balls import ball, floor_float

        odds = math.exp(min(epsilon, 700.0))
        least = epsilon - self._log_ratio
        chances = self._play([least, *spread(self.curve, least)], lambda hits, alarms: hits - odds * alarms)
        with ctx.workprec(BITS):
            best = ball(0.0)
            for hits, alarms in chances:
                found = hits - ball(epsilon).exp() * alarms
                best = found if found > best else best
            lower = floor_float(best.log()) if best > 0 else -math.inf
        return LogBounds(max(lower, self.log_infinite_mass[0]), 0.0)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """A lower bound on the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        from flint import ctx

        from tightrope.numerics.balls import ball, floor_float

        if self.log_infinite_mass[0] > log_ends(delta)[1]:
            return math.inf, math.inf

        def exceed(hits: Floats, alarms: Floats) -> Floats:
            return np.where(hits > delta, (hits - delta) / np.maximum(alarms, 1e-300), -np.inf)

        lower = 0.0
        with ctx.workprec(BITS):
            for hits, alarms in self._play(self._find_thresholds(delta), exceed):
                odds = (hits - ball(delta)) / alarms  # delta(epsilon) is above delta while e^epsilon is below
                if odds > 1:
                    lower = max(lower, floor_float(odds.log()))
        return lower, math.inf

    def _play(
        self, thresholds: list[float], worth: Callable[[Floats, Floats], Floats]
    ) -> "Iterator[tuple[arb, arb]]":
        """Chances from below that the test is right on D, and from above that it is wrong on D'."""
        from tightrope.numerics.balls import ball

        lows, highs = self._low_sets, _vertices(self.curve, np.array(thresholds))
        if not len(highs):
            return
        (u, w), (b, a) = lows.T[:, :, None], highs.T[:, None, :]
        apart = (u + a < 1) & (w + b < 1)
        hits, alarms = self.ranks.gains(u, a), self.ranks.gains(w, b)
        scores = np.where(apart, worth(hits, alarms), -np.inf)
        first, second = np.unravel_index(int(np.argmax(scores)), scores.shape)
        for low in {float(lows[first, 0]), 0.0}:
            with suppress(NotPreciseEnough):
                share, rare = self._certify(low, float(highs[second, 0]))
                yield self.ranks.gain(ball(low), share[0]), self.ranks.gain(ball(share[1]), ball(rare))

    def _certify(self, low: float, rare: float) -> tuple[tuple["arb", float], float]:
        """What the two sets have at least: P(high) and Q(low), for P(low) and Q(high) that are chosen."""
        from tightrope.numerics.balls import ball

        under_q = self._reverse_trade_off.true_positive_rate(low).lower if low else 0.0
        under_p = self._trade_off.true_positive_rate(rare)
        if Fraction(low) + Fraction(under_p.upper) > 1 or Fraction(under_q) + Fraction(rare) > 1:
            raise NotPreciseEnough("the two sets may overlap")
        return (ball(under_p.lower), under_q), rare

    @cached_property
    def _trade_off(self) -> TradeOff:
        return TradeOff(self.curve)

    @cached_property
    def _reverse_trade_off(self) -> TradeOff:
        assert self.reverse is not None
        return TradeOff(self.reverse)

    @cached_property
    def _low_sets(self) -> Floats:
        """About (P, Q) of some sets of the lowest losses; the first is empty."""
        nothing = np.zeros((1, 2))
        if self.reverse is None:
            return nothing
        slopes = np.array([0.0, *spread(self.reverse, 0.0)])
        return np.concatenate([nothing, _vertices(self.reverse, slopes)])

    @property
    def _log_ratio(self) -> float:
        """About how much likelier, at most, a rank below these sets makes an output under P than under Q."""
        u, w = self._low_sets.T
        rare = np.full(len(u), 1e-9)
        return float(np.log(self.ranks.gains(u, rare) / np.maximum(self.ranks.gains(w, rare), 1e-300)).max())

    def _find_thresholds(self, delta: float) -> list[float]:
        """Losses that are exceeded with a chance of about that delta, or so much less as K runs need."""
        runs = float(self.ranks.mean)
        ends = []
        for share in (min(10 * delta, 0.5), max(delta / runs / 30, 1e-300)):
            with suppress(NotPreciseEnough):
                ends.append(self.curve.epsilon(share).upper)
        if not ends or not math.isfinite(ends[0]):
            return []
        low, high = ends[0], ends[-1] if math.isfinite(ends[-1]) else ends[0] + 20.0
        return [float(at) for at in np.linspace(low, max(high, low * (1 + 1e-6) + 1e-6), THRESHOLDS)]


class AnyOrder:
    """The best of K runs from below, whatever is known of one: at equal scores it is one of them."""

    def __init__(self, ranks: Ranks, curve: PrivacyCurve) -> None:
        self.ranks, self.curve = ranks, curve

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Nothing is claimed."""
        return -math.inf, 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """P(K > 0) delta(epsilon), from below."""
        lower = self.curve.log_delta(epsilon).lower
        return LogBounds(next_down(lower + self._log_some) if lower > -math.inf else lower, 0.0)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """That of one run at delta / P(K > 0)."""
        share = next_up(delta * next_up(math.exp(-self._log_some)))
        return (self.curve.epsilon(share).lower if share < 1 else 0.0), math.inf

    @cached_property
    def _log_some(self) -> float:
        """ln P(K > 0), from below."""
        return _log_gain(self.ranks, 1.0)[0]


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
    """ln delta(epsilon) from above; 0 where nothing is known."""
    for asked in (curve, curve.to_accuracy(1.0)):
        with suppress(NotPreciseEnough):
            return asked.log_delta(epsilon).upper
    return 0.0


def spread(curve: PrivacyCurve, start: float) -> list[float]:
    """Places beyond `start`, up to where little of delta(start) is left."""
    floor = log_upper(curve, start) + math.log(NEGLIGIBLE)
    width = 1e-3
    while width < 700 and log_upper(curve, start + width) > floor:
        width *= 1.5
    return [start + width * count / SLOPES for count in range(1, SLOPES + 1)]


def _vertices(curve: PrivacyCurve, epsilons: Floats) -> Floats:
    """About (Q, P) of the sets of losses above thresholds: where neighbouring lines P = delta + t Q meet."""
    if len(epsilons) < 2:
        return np.zeros((0, 2))
    odds = np.exp(np.minimum(epsilons, 700.0))
    deltas = np.exp([log_upper(curve, float(epsilon)) for epsilon in epsilons])
    rare = -np.diff(deltas) / np.diff(odds)
    common = deltas[:-1] + odds[:-1] * rare
    usable = (rare > 0) & (rare < 1) & (common < 1) & (common > rare)
    found = np.stack([rare[usable], common[usable]], axis=1)
    # parts of the last set, drawn at random, are sets too, and smaller ones where one output is most of it
    return np.concatenate([found, *(found[-1:] * part for part in PARTS)])


def _log_gain(ranks: Ranks, mass: float, log_mass: float | None = None) -> tuple[float, float]:
    """Bounds on ln g(mass)."""
    from flint import ctx

    from tightrope.numerics.balls import ball, float_ends

    if mass == 0 and log_mass in (None, -math.inf):
        return -math.inf, -math.inf
    with ctx.workprec(BITS):
        exact = ball(mass) if log_mass is None else ball(log_mass).exp()
        if exact >= 1:
            exact = ball(1.0)
        low, high = float_ends(ranks.gain(ball(0.0), exact).log())
        return low, min(high, 0.0)
