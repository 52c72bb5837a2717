"""The least value of D(t) + slope t over all odds t, certified from brackets of D(t) = delta(ln t)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.curve.bracket import Bracket
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

if TYPE_CHECKING:
    from flint import arb

Chords = tuple[NDArray[np.intp], NDArray[np.intp]]
NO_CHORD = -1
KEPT_ODDS = 1024
BITS = 192  # a chord between places one float apart loses 53 of them
BITS_PER_EPSILON = 1.45  # above 1 / ln 2: e^epsilon has so many digits before the point


@dataclass(frozen=True)
class Known:
    """Brackets of delta at rising epsilons, below 0 of the reversed neighbours' delta(-epsilon).

    `floor` is at most D(infinity), and D falls nowhere faster than with the slope `flattest` - 1.
    """

    epsilons: tuple[float, ...]
    found: tuple[Bracket, ...]
    floor: float
    flattest: float


@dataclass(frozen=True)
class Objective:
    """D(t) + slope t, or with `excess` X(t) + (slope - 1) t: the same minus 1, for X(t) = D(t) - (1 - t).

    D has derivatives in [flattest - 1, 0] and X in [flattest, 1]: minus, and one minus, the false positive
    rates of likelihood tests.
    """

    rate: Fraction
    excess: bool

    @property
    def slope(self) -> Fraction:
        """Of the linear part."""
        return self.rate - self.excess

    def values(self, epsilon: float, odds: Any, gain: Any, found: Bracket) -> tuple[Any, Any]:
        """Both bounds on D or X at t = `odds` = 1 + `gain`: floats, or balls if those are.

        Below 0 the reversed pair says X(t) = t delta_reversed(-epsilon). Either is a sum of positive terms:
        nothing cancels.
        """
        if epsilon >= 0:
            shift = gain if self.excess else 0
            return shift + found.lower, shift + found.upper
        shift = 0 if self.excess else -gain
        return odds * found.lower + shift, odds * found.upper + shift


@dataclass(frozen=True)
class Guess:
    """About where the least value lies, where one more look helps most, and which chords bound it best."""

    lower: float
    upper: float
    certain_to: float
    look_at: float
    chords: Chords

    def is_fine(self, enough: float) -> bool:
        """Whether the ends differ by little more than the curve's own: another look would not help."""
        return self.upper - self.lower <= 1.25 * self.certain_to + enough * abs(self.upper)


def certify(known: Known, objective: Objective, chords: Chords) -> tuple[float, float]:
    """Bounds on the infimum over t >= 0, in ball arithmetic.

    V (D or X) is any convex function between the bounds. The true D(t) is one: for each pair of neighbours
    P(S) - t Q(S) is affine in t, and D is the supremum over tests S and neighbours. Nothing else is used, so
    the bounds may come from different pairs (upper ones from a cover, lower from a witness).

    Above: any t will do. Below: right of t_i, V stays above the continued chord from t_j < t_i, whose slope
    is at least (low_i - high_j) / (t_i - t_j); mirrored, left of t_i it stays above the chord from t_k > t_i.
    Any chord is valid: `chords` says which j and k, and so only how good the bound is. Between two known
    places that confines V(t) + slope t to a triangle: from a down with slope -A and up to b with slope B > 0,
    it is nowhere below (B at_a + A at_b - (b - a) A B) / (A + B). The last term shrinks with b - a however
    uncertain the values, so the result becomes as certain as they are. Right of every place D is also at
    least D(infinity).
    """
    from flint import ctx

    from tightrope.numerics.balls import ball, ceil_float, floor_float  # loads flint

    with ctx.workprec(BITS + math.ceil(BITS_PER_EPSILON * max(known.epsilons[-1], 0.0))):
        odds, low, high = _enclose(known, objective)
        slope, steepest = ball(objective.slope), ball(Fraction(known.flattest) - (not objective.excess))
        at_least = [bound + slope * t for bound, t in zip(low, odds, strict=True)]
        at_most = [bound + slope * t for bound, t in zip(high, odds, strict=True)]
        right_of, left_of = [steepest] * len(odds), [ball(float(objective.excess))] * len(odds)
        for i, (j, k) in enumerate(zip(*chords, strict=True)):
            if j != NO_CHORD:
                right_of[i] = (low[i] - high[j]) / (odds[i] - odds[j])
            if k != NO_CHORD:
                left_of[i] = (high[k] - low[i]) / (odds[k] - odds[i])
        down, up = [-(chord + slope) for chord in right_of], [chord + slope for chord in left_of]
        beyond = [ball(objective.rate) * t + known.floor - float(objective.excess) for t in odds]
        bounds = [
            _bound_between(at_least[i], at_least[i + 1], odds[i + 1] - odds[i], down[i], up[i + 1])
            for i in range(len(odds) - 1)
        ]
        bounds.append(at_least[-1] if down[-1] <= 0 else beyond[-1])
        highest = (max(ends, key=_lower) for ends in zip(bounds, beyond, strict=True))
        return floor_float(min(highest, key=_lower)), ceil_float(min(at_most, key=_upper))


def _lower(value: "arb") -> "arb":
    """The lower end of a ball, as a ball of one number: of two such it is certain which is less."""
    if value.is_nan():
        raise ArithmeticError("a ball that is not a number bounds nothing")
    return value.lower()


def _upper(value: "arb") -> "arb":
    """The upper end."""
    return -_lower(-value)


def _enclose(known: Known, objective: Objective) -> tuple[list["arb"], list["arb"], list["arb"]]:
    """The odds and both bounds there, from t = 0 on, where D is 1 and X is 0."""
    from flint import ctx

    from tightrope.numerics.balls import ball  # loads flint

    odds, low, high = [ball(0.0)], *([ball(float(not objective.excess))] for _ in range(2))
    for epsilon, found in zip(known.epsilons, known.found, strict=True):
        t, gain = _odds(epsilon, ctx.prec)
        bounds = objective.values(epsilon, t, gain, found)
        for numbers, number in zip((odds, low, high), (t, *bounds), strict=True):
            numbers.append(ball(number) if isinstance(number, float) else number)
    return odds, low, high


@lru_cache(maxsize=KEPT_ODDS)
def _odds(epsilon: float, bits: int) -> tuple["arb", "arb"]:
    """e^epsilon, and what it is more than 1: both rates of a place ask for it, and so do later questions."""
    from flint import ctx

    from tightrope.numerics.balls import ball  # loads flint

    with ctx.workprec(bits):
        return ball(epsilon).exp(), ball(epsilon).expm1()


def _bound_between(start: "arb", end: "arb", width: "arb", down: "arb", up: "arb") -> "arb":
    """A bound between two places, if nothing falls faster than `down` after one and rises so to the other."""
    if down <= 0:
        return start
    if up <= 0:
        return end
    if down > 0 and up > 0:
        return (up * start + down * end - down * up * width) / (down + up)
    return start - down.abs_upper() * width  # a slope that may be 0: then the other place says no more


def guess(known: Known, objective: Objective, stride: float) -> Guess:
    """The same in floats, to steer the search: what is certain does not rest on it."""
    epsilons = np.array([-math.inf, *known.epsilons])
    odds, gains = np.exp(epsilons), np.expm1(epsilons)
    places = zip(known.epsilons, odds[1:].tolist(), gains[1:].tolist(), known.found, strict=True)
    start = float(not objective.excess)
    low, high = np.array([(start, start), *(objective.values(*place) for place in places)]).T
    slope = float(objective.slope)
    at_least, at_most = low + slope * odds, high + slope * odds
    blur = 8 * UNIT_ROUNDOFF * (np.abs(high) + abs(slope) * odds)  # about what floats cannot tell
    right_of, left_of, chords = _find_chords(known, objective, low, high)
    descent, ascent = right_of + slope, left_of + slope

    down, up, left, right = -descent[:-1], ascent[1:], at_least[:-1], at_least[1:]
    width = _distances(epsilons, odds, 1)
    bowl = (down > 0) & (up > 0)
    turn = np.where(bowl, down + up, 1.0)
    bottom = up / turn * left + down / turn * right - up / turn * down * width
    at_an_end = np.maximum(np.where(down <= 0, left, -np.inf), np.where(up <= 0, right, -np.inf))
    beyond = float(objective.rate) * odds + known.floor - objective.excess
    between = np.maximum(np.where(bowl, bottom, at_an_end), beyond[:-1])
    bounds = np.append(between, at_least[-1] if descent[-1] >= 0 else beyond[-1])

    where = int(np.argmin(bounds))
    here, there = float(epsilons[where]), float(epsilons[where + 1]) if where + 1 < len(odds) else math.inf
    if math.isinf(here):
        look_at = there - stride
    elif math.isinf(there):
        look_at = here + stride
    else:  # the bottom of the triangle, kept away from what is known
        past = (left[where] - right[where] + up[where] * width[where]) / turn[where] / odds[where]
        margin = 0.1 * (there - here)
        look_at = min(max(here + math.log1p(max(float(past), 0.0)), here + margin), there - margin)
    certain_to = np.min((at_most - at_least + 2 * blur)[where : where + 2])
    return Guess(float(bounds[where]), float(at_most.min()), float(certain_to), look_at, chords)


def _find_chords(
    known: Known, objective: Objective, low: Floats, high: Floats
) -> tuple[Floats, Floats, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Bounds on the slopes right and left of each place, and the other ends of the chords that tell them."""
    epsilons = np.array([-math.inf, *known.epsilons])
    odds = np.exp(epsilons)
    steepest = known.flattest - (not objective.excess)
    right_of, left_of = np.full(len(odds), steepest), np.full(len(odds), float(objective.excess))
    chords = np.full(len(odds), NO_CHORD), np.full(len(odds), NO_CHORD)
    # near chords bend least and far ones are the most certain: one of those 1, 2, 4, ... places away is good
    for apart in (1 << power for power in range((len(odds) - 1).bit_length())):
        run = _distances(epsilons, odds, apart)
        later, earlier = np.arange(apart, len(odds)), np.arange(len(odds) - apart)
        _improve(right_of, chords[0], later, earlier, (low[apart:] - high[:-apart]) / run, np.greater)
        _improve(left_of, chords[1], earlier, later, (high[apart:] - low[:-apart]) / run, np.less)
    return right_of, left_of, chords


def _improve(
    slopes: Floats,
    chords: NDArray[np.intp],
    places: NDArray[np.intp],
    partners: NDArray[np.intp],
    found: Floats,
    is_better: np.ufunc,
) -> None:
    """Take the chords that bound the slope better than those known."""
    better = is_better(found, slopes[places])
    slopes[places[better]], chords[places[better]] = found[better], partners[better]


def _distances(epsilons: Floats, odds: Floats, apart: int) -> Floats:
    """e^later - e^earlier for epsilons so many places apart, accurate even if they nearly agree."""
    difference = epsilons[apart:] - epsilons[:-apart]
    close = odds[:-apart] * np.expm1(np.minimum(difference, 1.0))
    return np.where(difference < 1, close, odds[apart:] - odds[:-apart])
