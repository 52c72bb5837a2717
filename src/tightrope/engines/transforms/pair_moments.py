"""What lies beyond the lattice of `exchanged_moments`, by moments of the two ratios of a pass.

theorems/proofs/exchanged_moments.md, number 3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from flint import arb, arb_poly, ctx
from scipy.special import gammaln

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.ratio_moments import NEARER, raise_poly
from tightrope.numerics.balls import ball

LOG_RUN_DECAY = 32.0  # by how much the moments of a run decay along its line, about
LINE_PARTS = 16  # of a line, at which it is seen what it asks for
FURTHER_OFF = (8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0)  # likewise, further out
KEPT_MOMENTS = 64
MOST_COLUMNS = 2_000


@dataclass(frozen=True)
class PairLaw:
    """A = (batches - seen + V_1 + ... + V_seen) / batches, V = exp(a z - a^2 / 2); B the same of -z."""

    separation: Fraction
    batches: int
    seen: int

    @property
    def normal_variance(self) -> float:
        """Of the part of ln(A / B) that the mean of all outputs makes."""
        return 4 * float(self.separation) ** 2 * self.seen / self.batches**2

    def bound_mean(self, upper: arb, lower: arb) -> arb:
        """A bound on E[A^upper B^-lower], lower >= 0."""
        square = ball(self.separation) ** 2
        share = arb(self.seen) / self.batches
        if upper < 0:
            both, apart = lower - upper, lower + upper
            return (square * share * (both + apart * apart / self.batches) / 2).exp()
        first = square * share * lower / 2 * (1 + lower / self.batches)
        return (first + square * upper * lower / self.batches).exp() * self._interpolate(upper)

    def _interpolate(self, exponent: arb) -> arb:
        """A bound on E[A^exponent], whose logarithm is convex in the exponent."""
        below = math.floor(float(exponent.lower()))
        kept = list_moments(self, below + 2, ctx.prec)
        share = (exponent - below).max(0).min(1)
        return kept[below] ** (1 - share) * kept[below + 1] ** share


@lru_cache(maxsize=KEPT_MOMENTS)
def list_moments(law: PairLaw, last: int, bits: int) -> list[arb]:
    """E[A^k] for k = 0, 1, ..., last."""
    square, whole = ball(law.separation) ** 2, arb(law.batches)
    unseen = ball(Fraction(law.batches - law.seen, law.batches))
    factorials = [arb(math.factorial(k)) for k in range(last + 1)]
    seen = [(square * k * (k - 1) / 2).exp() / (each * whole**k) for k, each in enumerate(factorials)]
    rest = arb_poly([unseen**k / each for k, each in enumerate(factorials)])
    series = raise_poly(arb_poly(seen), law.seen, last + 1) * rest
    return [series[k] * each for k, each in enumerate(factorials)]


class _Cut(NamedTuple):
    """One side of the lattice: which coordinate is cut, and whether its small or its large values."""

    is_x: bool
    is_high: bool


CUTS = _Cut(True, False), _Cut(True, True), _Cut(False, True)


def _exponents(gap: float, *, is_high: bool) -> Iterator[float]:
    """Of a coordinate whose own is `gap`: those with which it decays."""
    if is_high:
        yield from (gap + further for further in (*NEARER, *FURTHER_OFF))
    else:
        yield from (gap - nearer for nearer in NEARER if nearer < gap)
        yield 0.0


def _peak(power: arb) -> arb:
    """The largest v^power e^-v."""
    return (power / arb(1).exp()) ** power if power > 0 else arb(1)


@dataclass(frozen=True)
class _Side:
    """Points beyond one side, with small and with large values of the other coordinate by themselves."""

    law: PairLaw
    power: int
    cut: _Cut
    tilt: arb
    step: arb

    @property
    def gaps(self) -> tuple[arb, arb]:
        """Of the coordinate that is cut and of the other, in the integrand."""
        both = self.power - 1 - self.tilt, self.tilt
        return both if self.cut.is_x else (both[1], both[0])

    def _half(self, own: float, other: float, *, is_high: bool) -> arb:
        """All points with this sign of the other coordinate, but for what the distance takes."""
        gap, other_gap = self.gaps
        x, y = (own, other) if self.cut.is_x else (other, own)
        mean = self.law.bound_mean(arb(self.power) - x, arb(y))
        decay = (-abs(arb(other) - other_gap) * self.step).exp()
        points = (decay if is_high else arb(1)) / (1 - decay)
        closest = 1 / (1 - (-abs(arb(own) - gap) * self.step).exp())
        return self.step**2 * mean * _peak(arb(own)) * _peak(arb(other)) * points * closest

    @property
    def choices(self) -> Iterator[tuple[float, arb]]:
        """By how much terms decay with the distance, and what all would be without it."""
        gap, other_gap = (float(each) for each in self.gaps)
        for own in _exponents(gap, is_high=self.cut.is_high):
            halves = [
                min((self._half(own, other, is_high=is_high) for other in _few(other_gap, is_high)), key=_log)
                for is_high in (False, True)
            ]
            yield own, halves[0] + halves[1]

    def bound(self, distance: arb) -> arb:
        """Of points at least so far from 0."""
        gap = self.gaps[0]
        found = (whole * (-abs(arb(own) - gap) * distance).exp() for own, whole in self.choices)
        return min(found, key=_log)

    def find_distance(self, log_error: float) -> float:
        """About from where on all is below e^log_error."""
        gap = float(self.gaps[0])
        return min((_log(whole) - log_error) / abs(own - gap) for own, whole in self.choices)


def _few(gap: float, is_high: bool) -> list[float]:
    return [gap + 0.5, gap + 1, gap + 2] if is_high else [max(gap - 1, 0.0), max(gap - 2, 0.0), 0.0]


def _log(value: arb) -> float:
    return float(value.upper().log()) if value > 0 else math.inf


@dataclass(frozen=True)
class Area:
    """Points of a lattice: x between two, y from where that column begins up to one for all."""

    x_ends: tuple[int, int]
    last: int
    starts: dict[int, int]

    def rows(self, column: int) -> range:
        """Of one column."""
        return range(self.starts[column], self.last + 1)

    @property
    def first(self) -> int:
        """Of all rows."""
        return min(self.starts.values())

    @property
    def size(self) -> int:
        """How many points there are."""
        return sum(len(self.rows(column)) for column in self.starts)


def choose_area(law: PairLaw, power: int, tilts: tuple[float, float], step: float, wanted: float) -> Area:
    """Beyond which all is e^-wanted, about."""
    log_goals = [float(gammaln(power - 1 - c) + gammaln(c)) - wanted for c in tilts]

    def find_end(cut: _Cut) -> int:
        sides = (_Side(law, power, cut, arb(c), arb(step)) for c in tilts)
        ends = (side.find_distance(goal) for side, goal in zip(sides, log_goals, strict=True))
        return max(math.ceil(max(ends) / step), 1)

    low, high, last = map(find_end, CUTS)
    if low + high > MOST_COLUMNS:
        raise EngineDeclines("moments of a pass that take too many points")
    room, starts = math.log(low + high), {}
    for column in range(-low, high + 1):
        log_most, x = _log(bound_column(law, power, arb(step) * column)), step * column
        heights = [
            (goal - room - log_most - (power - 1 - c) * x) / c / step
            for c, goal in zip(tilts, log_goals, strict=True)
        ]
        starts[column] = min(math.floor(min(heights)), last)
    return Area((-low, high), last, starts)


def bound_column(law: PairLaw, power: int, x: arb) -> arb:
    """Of E[A^n e^{-e^x A - e^y B}] for all y: by v^k e^-v, k a whole number."""
    means = list_moments(law, power, ctx.prec)
    return min((_peak(arb(k)) * (-k * x).exp() * means[power - k] for k in range(power + 1)), key=_log)


def bound_beyond(law: PairLaw, power: int, tilt: arb, step: float, area: Area) -> arb:
    """What all points that are left out would add at most."""
    total, spacing = arb(0), arb(step)
    ends = 1 - area.x_ends[0], area.x_ends[1] + 1, area.last + 1
    for cut, end in zip(CUTS, ends, strict=True):
        total += _Side(law, power, cut, tilt, spacing).bound(spacing * end)
    decay = (-tilt * spacing).exp()
    for column, start in area.starts.items():
        x, y = spacing * column, spacing * (start - 1)
        largest = bound_column(law, power, x) * ((power - 1 - tilt) * x + tilt * y).exp()
        total += spacing * spacing * largest / (1 - decay)
    return total
