"""From a privacy curve to attacks: how often a test is right, for how many false alarms."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Protocol, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import Answers, elementwise
from tightrope.errors import NotPreciseEnough
from tightrope.numerics import check
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.numerics.text import align

SMALLEST = 1e-307  # below this the rounding of floats is not relative
SMALLEST_RATE = 1e-280  # above this no slope that matters comes near SMALLEST
FARTHEST = 700.0  # e^700 and e^-700 are floats
MOST_LOOKS = 100  # 10 to 60 are usual
FINE_ENOUGH = 1e-5  # of the accuracy: what the search may leave open where the curve is known exactly
PRINTED_RATES = (1e-4, 1e-3, 0.01, 0.05, 0.1)


class BracketedCurve(Protocol):
    """The curve that a trade-off is made of."""

    @property
    def accuracy(self) -> float:
        """The relative width in delta that a bracket may have."""

    @property
    def leaves_a_gap(self) -> bool:
        """Whether theory, and not only arithmetic, may keep the two ends apart."""

    @property
    def infinite_mass(self) -> Bracket:
        """delta(infinity): the chance of an output that one neighbour produces and the other cannot."""

    @property
    def reverse(self) -> "Callable[[], BracketedCurve]":
        """Makes the curve of reversed neighbours."""

    def delta(self, epsilon: float, /) -> Bracket:
        """The smallest delta at epsilon."""

    def to_accuracy(self, accuracy: float) -> "BracketedCurve":
        """The same curve at another accuracy."""


@dataclass(frozen=True)
class TradeOff:
    """What the best attack on a run achieves: the trade-off function f of f-DP, as brackets.

    An attack looks at the output and says D or D'. Its false positive rate is how often it says D when D' was
    used, its true positive rate how often it says D when D was used. Under REMOVE, D has the record; under
    ADD, D' has it; under symmetric relations either reading holds. Upper ends of true positive rates,
    advantages, successes and posteriors are guarantees against every attack. So is the lower end of a false
    negative rate.

    With D(t) = delta(ln t) for odds t > 0, a test of false positive rate a has a true positive rate of at
    most T(a) = inf over t of D(t) + t a. f(a) = 1 - T(a) is the largest convex function that says as much as
    the curve. The best test on one pair of neighbours reaches T, except where two pairs (say one record added
    and one removed) touch T at different rates. On the line between those, T is reached on average over the
    pairs.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> attack = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).trade_off()
    >>> print(attack.true_positive_rate(0.01))
    [0.016848..., 0.016848...]
    >>> print(attack.attack_success())
    [0.53838..., 0.53838...]
    """

    curve: BracketedCurve
    _seen: "dict[float, _Values]" = field(default_factory=dict, init=False, repr=False, compare=False)

    @overload
    def true_positive_rate(self, false_positive_rate: float) -> Bracket: ...
    @overload
    def true_positive_rate(self, false_positive_rate: list[float] | Floats) -> Answers: ...
    def true_positive_rate(self, false_positive_rate: ArrayLike) -> Bracket | Answers:
        """The largest chance to say D when it is D, for tests that say D wrongly at the given rate."""
        return elementwise(lambda rate: self._rates(rate)[0], false_positive_rate, "false_positive_rate")

    @overload
    def false_negative_rate(self, false_positive_rate: float) -> Bracket: ...
    @overload
    def false_negative_rate(self, false_positive_rate: list[float] | Floats) -> Answers: ...
    def false_negative_rate(self, false_positive_rate: ArrayLike) -> Bracket | Answers:
        """f: the smallest chance to miss D. The lower end is the guarantee; attacks reach the upper end."""
        return elementwise(lambda rate: self._rates(rate)[1], false_positive_rate, "false_positive_rate")

    @property
    def advantage(self) -> Bracket:
        """The largest true minus false positive rate of any test: delta(0), the total variation."""
        return self.curve.delta(0.0)

    def attack_success(self, prior: float = 0.5) -> Bracket:
        """The largest chance that a guess is right if D was used with probability `prior` and D' otherwise.

        It is (1 - p) + p delta(ln((1 - p) / p)); for even odds that is 1/2 + advantage / 2. A blind guess is
        right with probability max(p, 1 - p).
        """
        p = Fraction(_check_prior(prior))
        # guess the likelier dataset; a look at the output adds the rarer one's delta at the odds against it
        likelier, rarer, curve = (1 - p, p, self.curve) if p <= 1 - p else (p, 1 - p, self._reverse)
        delta = curve.delta(math.log(likelier) - math.log(rarer))
        # the logarithm is rounded unless it is 0; success changes by at most the rarer prior times its error
        rounding = 0 if likelier == rarer else Fraction(32 * UNIT_ROUNDOFF)
        lower, upper = (likelier + rarer * Fraction(end) for end in (delta.lower, delta.upper))
        return Bracket(_down(max(lower - rounding, likelier)), _up(min(upper + rounding, Fraction(1))))

    def posterior(self, prior: float, false_positive_rate: float) -> Bracket:
        """The largest chance that it is D, after a test of that false positive rate has said so.

        `prior` is the chance p before the test. The chance after it is p T / (p T + (1 - p) a), with the true
        positive rate T of the false positive rate a.
        """
        p = Fraction(_check_prior(prior))
        remedy = "Pass how often the test may be wrong; one that is never wrong may never say anything."
        rate = check.positive(remedy=remedy, false_positive_rate=false_positive_rate)
        found = self.true_positive_rate(rate)
        true_alarms, false_alarms = (
            (p * Fraction(found.lower), p * Fraction(found.upper)),
            (1 - p) * Fraction(rate),
        )
        lower, upper = (alarms / (alarms + false_alarms) for alarms in true_alarms)
        return Bracket(_down(lower), _up(upper))

    def points(self, count: int = 33) -> tuple[Floats, Answers]:
        """False positive rates from 0 to 1, densest at both ends, and the false negative rates there."""
        check.whole(least=2, count=count)
        rates = np.sin(np.linspace(0, np.pi / 2, count)) ** 2
        return rates, self.false_negative_rate(rates)

    def __str__(self) -> str:
        """A short table of the rates attacks are usually judged by."""
        rows = [[f"{rate:g}", str(self.true_positive_rate(rate))] for rate in PRINTED_RATES]
        return align([["false positive rate", "true positive rate"], *rows])

    def _rates(self, false_positive_rate: float) -> tuple[Bracket, Bracket]:
        """True positive and false negative rate: complements, each computed where it can be small."""
        remedy = "Pass the share of false alarms, from 0 to 1, for example 0.01."
        rate = check.probability(remedy=remedy, false_positive_rate=false_positive_rate)
        if 0 < rate < SMALLEST_RATE:
            what = f"{{false_positive_rate={rate:g}}} is beyond what floats resolve"
            raise NotPreciseEnough(what, f"Ask for 0, or for at least {SMALLEST_RATE:g}.")
        if rate == 0:  # the infimum is the limit at large odds
            hits, misses = self._infinite, Bracket(0.0, 1.0)
        elif rate == 1:
            hits, misses = Bracket(1.0, 1.0), Bracket(0.0, 0.0)
        else:
            hits, misses = self._search(rate)
        hits = _common(hits, Bracket(rate, 1.0), _complement(misses))
        if hits.relative_width > 4 * self.curve.accuracy and not self.curve.leaves_a_gap:
            raise NotPreciseEnough(
                f"the true positive rate at {{false_positive_rate={rate:g}}} could not be certified to "
                f"{{accuracy={self.curve.accuracy:g}}}, only to {hits.relative_width:.1e}",
                "Ask for a coarser {accuracy} or another rate.",
            )
        return hits, _common(misses, Bracket(0.0, _complement(Bracket(rate, rate)).upper), _complement(hits))

    def _search(self, rate: float) -> tuple[Bracket, Bracket]:
        """T(a) = inf D(t) + a t, and f(a) = sup (1 - a) t - X(t) with the excess X(t) = D(t) - (1 - t).

        D has slopes in [-1, 0] and X in [0, 1]: minus, and one minus, the false positive rates of likelihood
        tests.
        """
        self._look(0.0)
        # where the infimum would be if the loss were normal
        self._look(float(self._scale * -special.ndtri(rate) - self._scale**2 / 2))
        enough = FINE_ENOUGH * self.curve.accuracy
        flattest = self._reverse.infinite_mass.lower
        for _ in range(MOST_LOOKS):
            known = [self._seen[epsilon] for epsilon in sorted(self._seen)]
            epsilons = np.array([-math.inf, *sorted(self._seen)])
            delta = np.array([(1.0, 1.0), *(values.delta for values in known)])
            excess = np.array([(0.0, 0.0), *(values.excess for values in known)])
            stride = max(float(epsilons[-1] - epsilons[1]), self._scale)  # doubles the range that is known
            # farther out D is at least D(infinity), and X is t - 1 more
            beyond = rate * math.exp(epsilons[-1]) * (1 - 8 * UNIT_ROUNDOFF) + self._infinite.lower
            farther = beyond - 1 - 4 * UNIT_ROUNDOFF
            least = partial(_bound_least, epsilons, stride=stride)
            hits = least(delta, slope=rate, slopes=(flattest - 1, 0.0), beyond=beyond)
            misses = least(excess, slope=rate - 1, slopes=(flattest, 1.0), beyond=farther)
            coarse = next((found for found in (hits, misses) if not found.is_fine(enough)), None)
            if coarse is None or not self._look(coarse.look_at):
                break
        return (
            Bracket(max(hits.lower, 0.0), max(hits.upper, 0.0)),
            Bracket(max(-misses.upper, 0.0), max(-misses.lower, 0.0)),
        )

    def _look(self, epsilon: float) -> bool:
        """Ask the curve about one more epsilon; False if it is known already."""
        epsilon = min(max(epsilon, -FARTHEST), FARTHEST)
        if epsilon in self._seen:
            return False
        curve = self.curve if epsilon >= 0 else self._reverse
        self._seen[epsilon] = _Values.of(epsilon, _best_known(curve, abs(epsilon)))
        return True

    @cached_property
    def _scale(self) -> float:
        """The mu of the Gaussian mechanism with this advantage, and above 0."""
        return max(2 * float(special.ndtri((1 + min(self.advantage.upper, 1 - 1e-15)) / 2)), 1e-12)

    @cached_property
    def _reverse(self) -> BracketedCurve:
        return self.curve.reverse()

    @cached_property
    def _infinite(self) -> Bracket:
        return self.curve.infinite_mass


@dataclass(frozen=True)
class _Values:
    """Bounds on D(t) and on X(t) = D(t) - (1 - t) at t = e^epsilon, neither by subtracting the other."""

    delta: tuple[float, float]
    excess: tuple[float, float]

    @classmethod
    def of(cls, epsilon: float, found: Bracket) -> "_Values":
        """From delta(epsilon); below 0 from the reversed pair, by X(t) = t delta_reversed(-epsilon)."""
        odds, gain = math.exp(epsilon), math.expm1(epsilon)
        if epsilon >= 0:
            return cls((found.lower, found.upper), _outwards(gain + found.lower, gain + found.upper))
        low, high = _outwards(odds * found.lower, odds * found.upper)
        return cls(_outwards(low - gain, high - gain), (low, high))


def _best_known(curve: BracketedCurve, epsilon: float) -> Bracket:
    """delta(epsilon) as accurately as possible; close to the largest loss relative accuracy is lost."""
    for asked in (curve, curve.to_accuracy(1.0)):
        with suppress(NotPreciseEnough):
            return asked.delta(epsilon)
    return Bracket(0.0, 1.0)


@dataclass(frozen=True)
class _Least:
    """Bounds on a least value, and the epsilon at which one more look improves them most."""

    lower: float
    upper: float
    certain_to: float
    look_at: float

    def is_fine(self, enough: float) -> bool:
        """Whether the ends differ by little more than the curve's own: another look would not help."""
        return self.upper - self.lower <= 1.25 * self.certain_to + enough * abs(self.upper)


def _bound_least(
    epsilons: Floats,
    values: Floats,
    *,
    slope: float,
    slopes: tuple[float, float],
    beyond: float,
    stride: float,
) -> _Least:
    """Bounds on the infimum over t >= 0 of V(t) + slope t, from bounds on V at t = e^epsilon and at 0.

    V is any convex function between the bounds, with derivatives in `slopes`. The true D(t) is one: for each
    pair of neighbours P(S) - t Q(S) is affine in t, and D is the supremum over tests S and neighbours.
    Nothing else is used, so the bounds may come from different pairs (upper ones from a cover, lower from a
    witness).

    Above: any t will do. Below: right of t_i, V stays above the continued chord from t_j < t_i, whose slope
    is at least (low_i - high_j) / (t_i - t_j); mirrored, left of t_i it stays above the chord from t_k > t_i.
    Between two known places that confines V(t) + slope t to a triangle: from a down with slope -A and up to b
    with slope B > 0, it is nowhere below (B at_a + A at_b) / (A + B) - (b - a) A B / (A + B). The last term
    shrinks with b - a however uncertain the values, so the result becomes as certain as they are.
    """
    low, high = values.T
    odds = np.exp(epsilons)
    rounding = 8 * UNIT_ROUNDOFF * (np.abs(high) + abs(slope) * odds) + SMALLEST
    rounding[0] = 0.0  # at t = 0 everything is exact
    at_least, at_most = low + slope * odds - rounding, high + slope * odds + rounding

    descent, ascent = (np.full(len(odds), slope) for slope in slopes)  # right of t_i, left of t_i
    # near chords bend least and far ones are the most certain: one of those 1, 2, 4, ... places away is good
    for apart in (1 << power for power in range((len(odds) - 1).bit_length())):
        run = _distances(epsilons, odds, apart)
        for side, chord, bounded, away in (
            (np.s_[apart:], (low[apart:] - high[:-apart]) / run, descent, -1),
            (np.s_[:-apart], (high[apart:] - low[:-apart]) / run, ascent, 1),
        ):
            chord += away * 32 * UNIT_ROUNDOFF * np.abs(chord)
            bounded[side] = np.maximum(bounded[side], chord) if away < 0 else np.minimum(bounded[side], chord)
    descent, ascent = np.clip(descent, *slopes) + slope, np.clip(ascent, *slopes) + slope
    descent -= 8 * UNIT_ROUNDOFF * (np.abs(descent) + abs(slope))
    ascent += 8 * UNIT_ROUNDOFF * (np.abs(ascent) + abs(slope))

    down, up, start, end = -descent[:-1], ascent[1:], at_least[:-1], at_least[1:]
    width = _distances(epsilons, odds, 1)
    bowl = (down > 0) & (up > 0)
    turn = np.where(bowl, down + up, 1.0)
    weight = up / turn
    mean = weight * start + (1 - weight) * end - weight * down * width
    mean -= 32 * UNIT_ROUNDOFF * (np.abs(start) + np.abs(end) + width * turn)
    at_an_end = np.maximum(np.where(down <= 0, start, -np.inf), np.where(up <= 0, end, -np.inf))
    within = np.where(bowl, mean, at_an_end)
    last = at_least[-1] if descent[-1] >= 0 else beyond
    bounds = np.append(within, last)

    where = int(np.argmin(bounds))
    left, right = float(epsilons[where]), float(epsilons[where + 1]) if where + 1 < len(odds) else math.inf
    if math.isinf(left):
        look_at = right - stride
    elif math.isinf(right):
        look_at = left + stride
    else:  # the bottom of the triangle, kept away from what is known
        bottom = (start[where] - end[where] + up[where] * width[where]) / turn[where]
        bottom = np.clip(bottom, 0.0, width[where])
        margin = 0.1 * (right - left)
        look_at = min(max(left + math.log1p(float(bottom / odds[where])), left + margin), right - margin)
    certain_to = np.min((at_most - at_least)[where : where + 2])
    return _Least(float(bounds[where]), float(at_most.min()), float(certain_to), look_at)


def _distances(epsilons: Floats, odds: Floats, apart: int) -> Floats:
    """e^later - e^earlier for epsilons so many places apart, accurate even if they nearly agree."""
    difference = epsilons[apart:] - epsilons[:-apart]
    close = odds[:-apart] * np.expm1(np.minimum(difference, 1.0))
    return np.where(difference < 1, close, odds[apart:] - odds[:-apart])


def _check_prior(prior: float) -> float:
    remedy = "Pass the chance of D before anything is seen, strictly between 0 and 1; 0.5 is a fair coin."
    return check.open_probability(remedy=remedy, prior=prior)


def _complement(bracket: Bracket) -> Bracket:
    """1 - bracket, rounded outwards."""
    return Bracket(_down(1 - Fraction(bracket.upper)), _up(1 - Fraction(bracket.lower)))


def _down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, -math.inf)


def _up(exact: Fraction) -> float:
    return -_down(-exact) + 0.0  # no -0.0


def _common(*brackets: Bracket) -> Bracket:
    """What all brackets allow."""
    lower, upper = max(bracket.lower for bracket in brackets), min(bracket.upper for bracket in brackets)
    return Bracket(lower + 0.0, upper + 0.0)  # no -0.0


def _outwards(lower: float, upper: float) -> tuple[float, float]:
    """Two bounds from a few operations on positive numbers, with their rounding charged."""
    return lower * (1 - 8 * UNIT_ROUNDOFF), upper * (1 + 8 * UNIT_ROUNDOFF)
