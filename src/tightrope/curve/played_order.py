"""The best of K runs from below: neighbours, and a score that shows them."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.ranks import Ranks
from tightrope.curve.trade_off import TradeOff
from tightrope.curve.worst_ranks import BITS, log_gain, log_upper
from tightrope.engines.face import LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats, log_ends, next_down, next_up

if TYPE_CHECKING:
    from flint import arb

SLOPES = 48  # of lines that touch the trade-off, to choose sets of low losses from
THRESHOLDS = 48  # of the loss, that a test is chosen from
NEGLIGIBLE = 1e-3  # of the chance that a loss has: sets beyond are not looked at
# parts of a set of extreme losses, to choose from; two that are nearly whole certainly do not overlap
PARTS = np.array([1 - 1e-6, *10.0 ** (np.arange(-1, -61, -1) / 10)])
FARTHEST, WIDEST = 600.0, 60.0  # e^epsilon stays a float; wider, thresholds are too few to choose from


class PlayedOrder:
    """The best of K runs from below: outputs of a low loss score best, next those of a high loss.

    `curve` is that of one pair of neighbours, known from both sides; `reverse` of the same pair reversed, or
    None if that is not known: then outputs of a high loss score best. A test says D if the published output
    has a high loss. Every choice of the two sets is valid; the best of some is taken.
    """

    def __init__(self, ranks: Ranks, curve: PrivacyCurve, reverse: PrivacyCurve | None) -> None:
        self.ranks, self.curve, self.reverse = ranks, curve, reverse
        self._epsilons: dict[float, float] = {}  # a bracket may ask twice

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """The lower bound: outputs of an infinite loss score best."""
        return log_gain(self.ranks, self.curve.infinite_mass.lower)[0], 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """A lower bound on ln delta(epsilon)."""
        from flint import ctx

        from tightrope.numerics.balls import ball, floor_float  # loads flint

        odds = math.exp(min(epsilon, FARTHEST))
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
        if delta not in self._epsilons:
            self._epsilons[delta] = self._find_epsilon(delta)
        return self._epsilons[delta], math.inf

    def _find_epsilon(self, delta: float) -> float:
        from flint import ctx

        from tightrope.numerics.balls import ball, floor_float  # loads flint

        if self.log_infinite_mass[0] > log_ends(delta)[1]:
            return math.inf

        def exceed(hits: Floats, alarms: Floats) -> Floats:
            return np.where(hits > delta, (hits - delta) / np.maximum(alarms, 1e-300), -np.inf)

        lower = 0.0
        with ctx.workprec(BITS):
            for hits, alarms in self._play(self._find_thresholds(delta), exceed):
                odds = (hits - ball(delta)) / alarms  # delta(epsilon) is above delta while e^epsilon is below
                if odds > 1:
                    lower = max(lower, floor_float(odds.log()))
        return lower

    def _play(
        self, thresholds: list[float], worth: Callable[[Floats, Floats], Floats]
    ) -> "Iterator[tuple[arb, arb]]":
        """Chances from below that the test is right on D, and from above that it is wrong on D'."""
        from tightrope.numerics.balls import ball  # loads flint

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
        from tightrope.numerics.balls import ball  # loads flint

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
        return log_gain(self.ranks, 1.0)[0]


def spread(curve: PrivacyCurve, start: float) -> list[float]:
    """Places beyond `start`, up to where little is left of delta(start) but infinite losses."""
    infinite = curve.infinite_mass.upper
    enough = infinite + NEGLIGIBLE * (math.exp(log_upper(curve, start)) - infinite)
    width = 1e-3
    while width < WIDEST and math.exp(log_upper(curve, start + width)) > enough:
        width *= 1.5
    return [start + width * count / SLOPES for count in range(1, SLOPES + 1)]


def _vertices(curve: PrivacyCurve, epsilons: Floats) -> Floats:
    """About (Q, P) of the sets of losses above thresholds: where neighbouring lines P = delta + t Q meet."""
    if len(epsilons) < 2:
        return np.zeros((0, 2))
    odds = np.exp(np.minimum(epsilons, FARTHEST + np.arange(len(epsilons))))  # which rise anyhow
    deltas = np.exp([log_upper(curve, float(epsilon)) for epsilon in epsilons])
    rare = -np.diff(deltas) / np.diff(odds)
    common = deltas[:-1] + odds[:-1] * rare
    usable = (rare > 0) & (rare < 1) & (common < 1) & (common > rare)
    usable &= deltas[1:] > (1 + 1e-9) * curve.infinite_mass.upper  # beyond the largest loss no set ends
    found = np.stack([rare[usable], common[usable]], axis=1)
    # parts of the last set, drawn at random, are sets too, and smaller ones where one output is most of it
    return np.concatenate([found, *(found[-1:] * part for part in PARTS)])
