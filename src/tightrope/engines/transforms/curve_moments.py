"""E[A^{1 + z} B^-z] of a pass in which a record is exchanged, by its curve at many points: in balls.

M(z) = z (z + 1) times the integral of e^{z epsilon} delta(epsilon) over all epsilon, and a sum over a lattice
misses less than any power of its step. theorems/proofs/turned_curve.md derives every term of the error.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import acb, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.floats import FLOAT_CANCELLED
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.lines.quick import QuickLines
from tightrope.engines.transforms.curve_sketch import sketch_log_curve
from tightrope.engines.transforms.pair_moments import LINE_PARTS, LOG_RUN_DECAY, PairLaw, list_moments
from tightrope.engines.transforms.ratio_moments import turn_terms
from tightrope.engines.transforms.transform import keep_refusals
from tightrope.engines.transforms.turned_curve import TurnedCurve, check_law, plan_curve
from tightrope.engines.transforms.turned_strip import bound_laplace
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, short
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair

WIDEST_SPACING = 2.0  # of the points of a curve
PERIODS_GROW = 1.03  # from one that is tried to the next
TILTS_ABOVE = (1, 2, 3, 4, 6, 8, 11, 16, 24, 36, 54, 80, 120)  # by how much: they bound what lies beyond
S_CELLS_GROW, S_CELLS, POWERS_ABOVE = 1.125, 160, 32  # and by how much a power is higher beyond them
BOUND_BITS, KEPT_BOUNDS = 64, 256
POINT_REL_ERROR = 4 * UNIT_ROUNDOFF
LESS_OF_RATE = 1 - 1e-12  # of a rate, which has fewer than 100 roundings
POWER_ROOM = 1 + 1e-6  # for one power of a float
LEAST_NORMAL = 2.0**-1000  # from here on its relative error is that of one
POWERS_TOGETHER = 64  # powers whose means are told at once
MOST_CURVE_POINTS = 6_000
LOG_SPARE = 3.0  # below what may be wrong
PLANNED_ERROR = 3e-5  # what all moments of a run together may be off by, where they are planned
KEPT_TABLES = 8
LINE_BITS = 64
PER_LINE, PER_WORK = 0.03, 150e-9  # seconds, about: of a line, and of each node times each point of its path
PER_FLOAT_LINE, PER_FLOAT_WORK = 0.006, 3e-9  # the same in floats
MOST_LOST = 48.0  # bits that cancel: beyond, floats are off by more than is wanted
TILT_NUDGE = 1e-2  # of a tilt, to see how moments grow

Tilts = tuple[float, float]


@dataclass(frozen=True)
class CurveLattice:
    """The points of epsilon, and ln of what the curve may be off by there."""

    spacing: float
    log_errors: tuple[float, ...]


def _guess_passes(law: PairLaw, height: float) -> float:
    """Of a run whose line ends at this height."""
    rate = 2 * float(law.separation) ** 2 / law.batches
    return max(LOG_RUN_DECAY / (rate * height**2), 2.0) if height else 1.0


def _choose_period(law: PairLaw, tilt: float, height: float, log_error: float) -> float:
    """2 pi over the spacing: what lies that far up the line has decayed."""
    rate, passes = 2 * float(law.separation) ** 2 / law.batches, _guess_passes(law, height)
    period = max(2 * math.pi / WIDEST_SPACING, 1.05 * height)
    while True:
        for part in range(LINE_PARTS + 1):
            y = height * part / LINE_PARTS
            decay = LOG_RUN_DECAY * (part / LINE_PARTS) ** 2 if height else 0.0
            # of one pass, whose moments have decayed by so much; of the run where that is closer
            allowed = min(log_error + decay, 0.0) - decay / passes - math.log(passes)
            gap = period - y
            size = math.log(math.hypot(tilt, y) * math.hypot(tilt + 1, y) * 4 / gap**2) - rate * gap * gap
            if size > allowed:
                break
        else:
            return period
        period *= PERIODS_GROW


def plan_moments(law: PairLaw, tilts: Tilts, height: float, log_error: float) -> CurveLattice:
    """One that tells moments to about e^log_error, for tilts between two and heights up to one."""
    log_error = max(log_error, math.log(PLANNED_ERROR / _guess_passes(law, height)))
    spacing: float = short(2 * math.pi / _choose_period(law, tilts[1], height, log_error))
    epsilons = spacing * np.arange(MOST_CURVE_POINTS + 1, dtype=np.float64)
    logs = sketch_log_curve(law, epsilons)
    tilted = [logs + tilt * epsilons for tilt in tilts]
    tops = [float(each.max()) for each in tilted]
    with ctx.workprec(64):
        log_bound = min(
            (float(_bound_curve(law, whole).upper().log()) - tops[1] - log_error + LOG_SPARE)
            / (whole - tilts[1])
            for whole in _list_whole(tilts[1])
        )
    count = math.ceil(max(log_bound, spacing) / spacing)
    if count > MOST_CURVE_POINTS:
        raise EngineDeclines("a curve of too many points")
    goals = np.minimum(*(top - tilt * epsilons for top, tilt in zip(tops, tilts, strict=True)))
    share = log_error - math.log1p(count * spacing) - 1
    return CurveLattice(spacing, tuple((np.maximum(goals, logs)[: count + 1] + share).tolist()))


def _list_whole(tilt: float) -> list[int]:
    """Tilts above this one that bound what lies beyond."""
    return [math.floor(tilt) + further for further in TILTS_ABOVE]


@lru_cache(maxsize=KEPT_BOUNDS)
def _bound_curve(law: PairLaw, tilt: int) -> arb:
    """Not below delta(epsilon) e^{tilt epsilon}: Chernoff's bound."""
    with ctx.workprec(BOUND_BITS):
        factor = arb(tilt) ** tilt / arb(1 + tilt) ** (1 + tilt)
        bounds = [law.bound_mean(arb(1 + tilt), arb(tilt))]
        if 2 * (1 + tilt) <= law.batches:
            last = math.ceil((1 + tilt) / POWERS_TOGETHER) * POWERS_TOGETHER
            bounds.append(list_moments(law, last, BOUND_BITS)[1 + tilt] * _bound_inverse(law, tilt))
        return factor * min(bounds, key=lambda each: float(each.upper().log()))


@lru_cache(maxsize=KEPT_BOUNDS)
def _log_bounds(law: PairLaw) -> tuple[Floats, Floats]:
    """Tilts, and ln of their bounds from above."""
    wholes = _list_whole(0.0)
    return np.array(wholes, dtype=float), np.array(
        [float(_bound_curve(law, w).log().upper()) for w in wholes]
    )


def bound_log_curve(law: PairLaw, epsilon: float) -> float:
    """Not below ln delta(epsilon): 0, or Chernoff's bound, with room for three roundings.

    Of the float that is given: a spacing has 30 bits (`short`), so its multiples, MOST_CURVE_POINTS at most,
    are exact.
    """
    tilts, logs = _log_bounds(law)
    return min(
        0.0, float((logs - tilts * epsilon + POINT_REL_ERROR * (np.abs(logs) + tilts * epsilon)).min())
    )


def _bound_inverse(law: PairLaw, power: int) -> arb:
    """Not below E B^-power with power + 1 batches less, by E e^{-s B} on cells of s, which falls with s."""
    rate, count = math.exp(-(float(law.separation) ** 2) / 2) / law.batches, law.batches - power - 1
    total = arb(S_CELLS_GROW) ** (-S_CELLS * power)
    for i in range(-S_CELLS, S_CELLS):
        low = arb(S_CELLS_GROW) ** i
        each = bound_laplace(law, rate * float(low) * LESS_OF_RATE)
        size: float | arb = each**count
        if size < LEAST_NORMAL:  # what floats call 0 may still decide, times a power of s
            size = arb(each) ** count
        total += size * POWER_ROOM * ((arb(S_CELLS_GROW) * low) ** power - low**power)
    # beyond: v^q e^-v <= (q / e)^q, and B is not below its geometric mean
    q, share = arb(power + POWERS_ABOVE), arb(law.batches) / count
    square = ball(law.separation) ** 2
    mean = (share * q / arb(1).exp() * (square / 2 * (1 + q / count)).exp()) ** q
    total += power * mean * arb(S_CELLS_GROW) ** (-S_CELLS * POWERS_ABOVE) / POWERS_ABOVE
    return total / math.factorial(power)


Told = tuple[int, list[arb]]
Teller = Callable[[PairLaw, float, tuple[float, ...], float], Told]


def tell_curve(law: PairLaw, spacing: float, log_errors: tuple[float, ...], patience: float) -> Told:
    """The curve at multiples of a spacing, in balls of so many bits, if that takes only so many seconds."""
    with suppress(EngineDeclines):
        return follow_lines(law, spacing, log_errors, patience)
    check_law(law)
    curve = TurnedCurve(law, plan_curve(law, spacing, log_errors), patience)
    return curve.bits, curve.values


def follow_lines(law: PairLaw, spacing: float, log_errors: tuple[float, ...], patience: float) -> Told:
    """Each by a line integral of its own: with much noise those are short."""
    step = ShiftPair.of_normals(law.separation)
    allocation = Allocation(step, law.batches, law.seen, is_exchanged=True)
    orders = [PassOrder(allocation, spacing * i) for i in range(len(log_errors))]
    asked = [i for i, of in enumerate(orders) if bound_log_curve(law, of.epsilon) > log_errors[i]]
    chosen = sorted({asked[(len(asked) - 1) * part // 3] for part in range(4)}) if asked else []
    costs = [_guess_seconds(orders[i], log_errors[i]) for i in chosen]
    if len(asked) * sum(costs) > patience * len(costs):
        raise EngineDeclines("a curve whose lines take too long")
    lines = _PatientLines(law, patience)
    both = zip(orders, log_errors, strict=True)
    return LINE_BITS, [lines.enclose(order, log_error) for order, log_error in both]


def _guess_seconds(of: PassOrder, log_error: float) -> float:
    """Of one line. Far out nothing but the point itself tells whether it is told there in floats."""
    plan = plan_line(of, log_error, FLOAT_CANCELLED)
    if plan.cancelled <= MOST_LOST:
        return plan.work * PER_FLOAT_WORK + PER_FLOAT_LINE
    quick = QuickLines()
    with suppress(EngineDeclines):
        quick.enclose(of, log_error)
        return quick.work * PER_FLOAT_WORK + PER_FLOAT_LINE
    return plan_line(of, log_error).work * PER_WORK + PER_LINE


class _PatientLines:
    """One after the other in floats, or in balls where those do not do, for so many seconds, about."""

    def __init__(self, law: PairLaw, patience: float) -> None:
        self.law, self.seconds_left = law, patience
        self.quick = QuickLines()

    def enclose(self, of: PassOrder, log_error: float) -> arb:
        """Nothing is asked where Chernoff's bound is less than what may be wrong."""
        log_most = bound_log_curve(self.law, of.epsilon)
        if not log_most > log_error:
            return arb(0).union(arb(log_most).exp())
        try:
            low, high = self.quick.enclose(of, log_error)
        except EngineDeclines:
            self.seconds_left -= plan_line(of, log_error).work * PER_WORK + PER_LINE
            if self.seconds_left < 0:
                raise
            low, high = enclose_curve(of, log_error)
        return arb(low).union(arb(high))


class CurveTable:
    """The curve at the points of a lattice, in balls."""

    def __init__(
        self, law: PairLaw, lattice: CurveLattice, patience: float = math.inf, tell: Teller = tell_curve
    ) -> None:
        self.law, self.lattice, self.spacing = law, lattice, lattice.spacing
        self.bits, values = tell(law, lattice.spacing, lattice.log_errors, patience)
        with ctx.workprec(self.bits):
            self.values = [self._cut(i, value) for i, value in enumerate(values)]
        self._points = self.spacing * np.arange(len(self.values))
        self._heights = np.array([max(float(value.mid()), 0.0) for value in self.values])

    def _cut(self, i: int, value: arb) -> arb:
        """No curve is negative, or above Chernoff's bound: far out that is closer than floats."""
        most = arb(bound_log_curve(self.law, self.spacing * i)).exp().upper()
        if not value.upper() >= 0:
            raise EngineDeclines("a curve that is negative")
        return value.lower().max(0).min(most).union(value.upper().min(most))

    def _guess_log(self, c: float) -> float:
        x, delta, h = self._points[1:], self._heights[1:], self.spacing
        total = float(delta @ (np.exp(c * x) + np.exp(-(1 + c) * x))) + float(self._heights[0])
        total += 1 / math.expm1(c * h) - 1 / math.expm1((c + 1) * h)
        return math.log(c * (c + 1) * h * total)

    def guess_cumulants(self, c: float) -> tuple[float, float, float]:
        """About ln E[A^{1 + c} B^-c], and its first two derivatives."""
        step = TILT_NUDGE * c
        low, middle, high = (self._guess_log(each) for each in (c - step, c, c + step))
        return middle, (high - low) / (2 * step), (high - 2 * middle + low) / step**2

    def _list_terms(self, rate: arb) -> list[arb]:
        decay = (rate * self.spacing).exp()
        factor, terms = decay, []
        for value in self.values[1:]:
            terms.append(value * factor)
            factor *= decay
        return terms

    def _bound_beyond(self, c: arb) -> arb:
        """Of points after the last: e^{c x} + e^{-(1 + c) x} <= 2 e^{c x}."""
        end, h = arb(self.spacing) * len(self.values), arb(self.spacing)
        found = []
        for whole in _list_whole(float(c.upper())):
            gap = whole - c
            if gap > 0:
                found.append(2 * _bound_curve(self.law, whole) * (-gap * end).exp() / (1 - (-gap * h).exp()))
        return min(found, key=lambda each: float(each.upper().log()))

    def _bound_alias(self, z: acb) -> arb:
        """Of all periods but one, relative to M(c)."""
        period = 2 * arb.pi() / self.spacing
        gap = period - abs(z.imag)
        if not gap > 0:
            raise EngineDeclines("a height beyond the period of a curve")
        rate = 2 * ball(self.law.separation) ** 2 / self.law.batches
        return abs(z) * abs(z + 1) * 2 * (-rate * gap * gap).exp() * (1 / gap + 1 / period) / gap

    def moments(self, exponent: arb, heights: Sequence[arb]) -> list[acb]:
        """E[A^{1 + z} B^-z] for z = exponent + i height."""
        c, h = exponent, arb(self.spacing)
        if not c > 0:
            raise EngineDeclines("a tilt at which moments are not told")
        beyond = self._bound_beyond(c)
        above, below = self._list_terms(c), self._list_terms(-1 - c)
        sums = zip(
            turn_terms(above, 1, self.spacing, [-height for height in heights]),
            turn_terms(below, 1, self.spacing, heights),
            strict=True,
        )
        largest = self._find_largest(c, sum(above, arb(0)) + sum(below, arb(0)), beyond)
        found = []
        for height, (up, down) in zip(heights, sums, strict=True):
            z = acb(c, height)
            rest = 1 / ((z * h).exp() - 1) - 1 / (((z + 1) * h).exp() - 1)
            total = z * (z + 1) * h * (up + down + self.values[0] + rest)
            error = arb(0, 1) * (abs(z) * abs(z + 1) * h * beyond + self._bound_alias(z) * largest).upper()
            found.append(total + acb(error, error))
        return found

    def _find_largest(self, c: arb, total: arb, beyond: arb) -> arb:
        """Not below M(c)."""
        h, alias = arb(self.spacing), self._bound_alias(acb(c, 0))
        if not alias < 1:
            raise EngineDeclines("moments of a pass that are not told")
        rest = 1 / ((c * h).exp() - 1) - 1 / (((c + 1) * h).exp() - 1)
        return c * (c + 1) * h * (total + self.values[0] + rest + beyond) / (1 - alias)


@keep_refusals(maxsize=KEPT_TABLES)
def tabulate_curve(
    law: PairLaw, tilts: Tilts, height: float, log_error: float, patience: float
) -> CurveTable:
    """A table, kept."""
    return CurveTable(law, plan_moments(law, tilts, height, log_error), patience)


@keep_refusals(maxsize=KEPT_TABLES)
def tabulate_lines(
    law: PairLaw, tilts: Tilts, height: float, log_error: float, patience: float
) -> CurveTable:
    """The same by line integrals alone."""
    return CurveTable(law, plan_moments(law, tilts, height, log_error), patience, follow_lines)
