"""Where the line integral of a sum of differences lies, how far it goes and how finely: in floats.

Nothing here is a bound: whatever comes out, `line` is right, and says how closely.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from flint import arb
from scipy.special import log_ndtr, ndtri_exp

from tightrope.engines.face import EngineDeclines
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats
from tightrope.pairs.allocation import Allocation

LAW_CELLS = 400  # of the law of one difference, to see where a line should lie
TILTS_COMPARED, TURNS_COMPARED = 160, 14
LEAST_SCALED_TILT, MOST_SCALED_TILT = 1e-5, 100.0  # times the deviation of a sum
TILT_ABOVE = 1.02  # times another, at least, is a tilt that bounds its line
LOG_SPARE = 2.0  # below what may be wrong, of each part of the error
LEAST_PLANNED = 1e-300  # mass, whose logarithm is taken
MOST_AWAY = 500.0  # an exponent of what lies a period away: more is less than nothing
FIRST_HEIGHT, HEIGHTS_GROW, MOST_HEIGHTS = 0.5, 1.2, 200  # over the deviation, and their growth
LEAST_NODES = 8
LEAST_CANCELLED = 20.0  # natural logarithms: below, what cancels costs little beside the length of a line
QUARTER_TURN = 0.78  # less than pi / 4: paths turn numbers by so much at most, circles around them by twice
MOST_PATH_SHIFT = 2.0  # of z into the plane, in deviations
ELLIPSE = 2.0  # the sum of the half axes of those around panels, in halves of a panel
FIRST_SIDE = 4.0  # the length of the lowest panel of the side, in units of what falls by e on the way
SPARE_BITS = 48  # of balls, beyond those that cancel
SHARED_BITS, SHARED_POINTS = 32, 4  # multiples of these, so that panels share their rules
MOST_LINE_WORK = 40_000_000  # nodes of the line times points of the path: about 30 ns each
LEAST_PATH_POINTS = 50  # of a path, about: so a line has no more nodes than that leaves
MOST_FLOAT_WORK = 200_000_000  # likewise in floats: about 1 ns each
MOST_RULE_POINTS = 200  # of a panel: rules with more take long to make
KEPT_PLANS = 8
LOG_ROOT = math.log(math.sqrt(2 * math.pi))


Real = TypeVar("Real", float, arb)


@dataclass(frozen=True)
class PassOrder:
    """A pass with normal noise and an order e^epsilon, at which its curve is an excess of a sum.

    S is the sum of `count` independent D = X - t X', X = exp(a z - a^2 / 2), X' = exp(-a z - a^2 / 2), z
    standard normal, a the separation. The curve is `scale` times E(S - k)_+, or, if the pass is reversed,
    E(k - S)_+ with t = 0.
    """

    allocation: Allocation
    epsilon: float
    exact_order: Fraction | None = None  # where that is not e^epsilon, but close to it

    @property
    def order(self) -> arb:
        """What the curve is asked at, at the working precision."""
        return arb(self.epsilon).exp() if self.exact_order is None else ball(self.exact_order)

    @property
    def is_put(self) -> bool:
        """Whether the sum falls short of k rather than exceed it."""
        return self.allocation.is_reversed

    @property
    def is_exchanged(self) -> bool:
        """Whether D can be negative."""
        return self.allocation.is_exchanged

    @property
    def separation(self) -> Fraction:
        """Of the two normals, in noise scales; of an exchanged record, from the middle."""
        found = self.allocation.step.exact_gaussian_separation
        assert found is not None
        return found

    @property
    def count(self) -> int:
        """Of the batches that are seen."""
        return self.allocation.released

    def at_order(self, order: Real) -> tuple[Real, Real, Real]:
        """t, k and the scale at this order."""
        batches, unseen = self.allocation.batches, self.allocation.batches - self.allocation.released
        if self.is_exchanged:
            return order, unseen * (order - 1), 1 / (batches + 0 * order)
        if self.is_put:
            return 0 * order, batches / order - unseen, order / batches
        return 0 * order, batches * order - unseen, 1 / (batches + 0 * order)


@dataclass(frozen=True)
class Panel:
    """Part of a path in the plane of z: along the shift, or up the side at the largest z. Ends are shared."""

    is_side: bool
    start: float
    end: float
    points: int


@dataclass(frozen=True, kw_only=True)
class LinePlan:
    """A line Re s = tilt with so many nodes, whose sum has a period; z from `left` to `right` on a path.

    `call_tilt` and `put_tilt` bound what lies a period away, `turn` what lies beyond the last node.
    """

    left: float
    right: float
    keeps_jumps: bool
    tilt: float
    call_tilt: float
    put_tilt: float
    period: float
    turn: float
    nodes: int
    shift: float
    panels: tuple[Panel, ...]
    cancelled: float  # bits of the largest terms, down to the error that is wanted
    bits: int

    @property
    def work(self) -> int:
        """Nodes of the line times points of the path."""
        return self.nodes * sum(panel.points for panel in self.panels)


class DifferenceLaw:
    """D on cells of z, and its moments: to plan with."""

    def __init__(self, a: float, t: float, left: float, right: float) -> None:
        self.a, self.t, self.left, self.right = a, t, left, right
        width = (right - left) / LAW_CELLS
        z = left + width * (np.arange(LAW_CELLS) + 0.5)
        self.log_masses = -z * z / 2 + math.log(width) - LOG_ROOT
        up, down = np.exp(a * z - a * a / 2), t * np.exp(-a * z - a * a / 2)
        self.differences, self.sums = up - down, up + down

    def log_moments(self, tilts: Floats) -> Floats:
        """ln E e^{tilt D}, rather more: where it grows fast, cells see too little of the ends."""
        inside = _log_sums(np.multiply.outer(tilts, self.differences) + self.log_masses)
        ends = [tilts * self.at(z)[0] - z * z / 2 - LOG_ROOT for z in (self.left, self.right)]
        return np.logaddexp(inside, np.logaddexp(ends[0], ends[1]))

    def log_moment(self, tilt: float) -> float:
        """That of one."""
        return float(self.log_moments(np.array([tilt]))[0])

    def at(self, z: float) -> tuple[float, float]:
        """X - t X' and X + t X' there."""
        up, down = (math.exp(side * self.a * z - self.a * self.a / 2) for side in (1, -1))
        return up - self.t * down, up + self.t * down


def _log_sums(logs: Floats) -> Floats:
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray((most + np.log(np.exp(logs - most).sum(axis=-1, keepdims=True)))[..., 0])


@lru_cache(maxsize=KEPT_PLANS)
def plan_line(of: PassOrder, log_error: float, most_cancelled: float = math.inf) -> LinePlan:
    """For an error of about e^log_error in the curve; declines where that takes too long.

    Where the sum is a call, not more than so many bits cancel, if there is such a line.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return _Planner(of, log_error, most_cancelled).plan()
    except (ArithmeticError, ValueError) as reason:
        raise EngineDeclines("a sum whose line integral is out of the reach of floats") from reason


class _Planner:
    def __init__(self, of: PassOrder, log_error: float, most_cancelled: float) -> None:
        self.t, self.k, scale = of.at_order(math.exp(of.epsilon))
        self.of, self.log_error = of, log_error - math.log(scale) - LOG_SPARE
        self.most_cancelled, self.shift = (
            most_cancelled,
            min(QUARTER_TURN / float(of.separation), MOST_PATH_SHIFT),
        )
        self.a, self.n = float(of.separation), of.count
        a, t = self.a, self.t
        variance = (1 + t * t) * math.expm1(a * a) - 2 * t * math.expm1(-a * a)
        self.deviation = math.sqrt(self.n * variance)
        self.distance = max(self.deviation, abs(self.k - self.n * (1 - t)))
        self.tilts = np.geomspace(
            LEAST_SCALED_TILT / self.distance, MOST_SCALED_TILT / self.deviation, TILTS_COMPARED
        )
        self.log_each = self.log_error - math.log(self.n)

    def plan(self) -> LinePlan:
        law, keeps_jumps = self._cut_law()
        tilt, call_tilt, put_tilt, period = self._tilt(law)
        step, first = 2 * math.pi / period, FIRST_HEIGHT / self.deviation
        allowed = self.log_error + tilt * self.k
        height, turn = find_height(
            law, tilt, self.n, allowed, first, MOST_LINE_WORK / LEAST_PATH_POINTS * step
        )
        nodes = max(math.ceil(height * period / (2 * math.pi)), LEAST_NODES)
        height = nodes * 2 * math.pi / period
        log_moment, log_size = law.log_moment(tilt), self._log_size(law, tilt)
        wanted = log_moment - math.log(self.n) - max(log_size - self.log_error, LOG_SPARE)
        others = () if self.of.is_put else (call_tilt, -put_tilt) if self.t else (call_tilt,)
        panels = tuple(
            make_panels(
                law, self.shift, PlannedTilts(tilt, wanted, others, -math.log(self.n) - LOG_SPARE), height
            )
        )
        points = [panel.points for panel in panels]
        most_work = MOST_LINE_WORK if self.most_cancelled == math.inf else MOST_FLOAT_WORK
        if nodes * sum(points) > most_work or max(points) > MOST_RULE_POINTS:
            raise EngineDeclines("a sum whose line integral would take too long")
        cancelled = self._find_cancelled(log_size, tilt, period)
        bits = SHARED_BITS * math.ceil((SPARE_BITS + cancelled + math.log2(nodes)) / SHARED_BITS)
        return LinePlan(
            left=law.left,
            right=law.right,
            keeps_jumps=keeps_jumps,
            tilt=tilt,
            call_tilt=call_tilt,
            put_tilt=put_tilt,
            period=period,
            turn=turn,
            nodes=nodes,
            shift=self.shift,
            panels=panels,
            cancelled=cancelled,
            bits=bits,
        )

    def _cut_law(self) -> tuple[DifferenceLaw, bool]:
        """The law of one difference between the ends of a path; whether jumps beyond are told apart."""
        right, keeps_jumps = self._cut()
        law = DifferenceLaw(self.a, self.t, self._find_left(0.0), right)
        first = self._tilt(law)[0]
        left = self._find_left(self._log_size(law, first) - law.log_moment(first))
        return DifferenceLaw(self.a, self.t, left, right if keeps_jumps else max(right, -left)), keeps_jumps

    def _find_cancelled(self, log_size: float, tilt: float, period: float) -> float:
        """Bits that cancel, about: of the integral itself, or of what is taken off it."""
        away = math.log1p(abs(self.k))
        if self.most_cancelled < math.inf:
            away = float(self._log_away(np.array(tilt), np.array(period)))
        return float(self._cancelled(np.array(max(log_size, away))))

    def _log_size(self, law: DifferenceLaw, tilt: float) -> float:
        """ln of what an integral of absolute values would be, about."""
        return self.n * law.log_moment(tilt) - tilt * self.k - math.log(2 * abs(tilt))

    def _log_away(self, tilts: Floats, periods: Floats) -> Floats:
        """ln of what lies a period away, about, which is told and taken off."""
        times = 1 / np.expm1(np.minimum(np.abs(tilts) * periods, MOST_AWAY))
        return np.asarray(np.log((abs(self.k) + periods * (1 + times)) * times))

    def _cancelled(self, log_sizes: Floats) -> Floats:
        """Bits of terms as large as that, down to the error that is wanted."""
        cancels = (log_sizes - self.log_error + self.shift * self.shift / 2) / math.log(2)
        return np.maximum(cancels, 0.0) + math.log2(self.n)

    def _find_left(self, log_size: float) -> float:
        """The least z: what lies below counts as 0, and what that changes, times e^log_size, is charged."""
        log_mass = min(self.log_error - log_size, 0.0) - math.log(self.n) - MOST_PATH_SHIFT**2 - 2 * LOG_SPARE
        found = float(ndtri_exp(log_mass))
        return found if self.t else min(found, self.a + float(ndtri_exp(self.log_each - LOG_SPARE)))

    def _cut(self) -> tuple[float, bool]:
        """The largest z, and whether sums with a larger one are told and not charged."""
        if self.of.is_put:
            return -self._find_left(0.0), False
        far = self.a - float(ndtri_exp(self.log_each - LOG_SPARE))  # where n E[X; beyond] may be charged
        if not self.t:
            near = (math.log(self.k) + self.a * self.a / 2) / self.a + 1e-9
            return min(near, far), near < far
        # from where on one z all but makes the sum exceed k: what falls short is variance / (4 distance)
        places = np.linspace(0.0, far, LAW_CELLS)
        jumps = np.exp(self.a * places - self.a**2 / 2) - self.t * np.exp(-self.a * places - self.a**2 / 2)
        beyond = jumps - self.k - (self.n - 1) * (self.t - 1)
        short = 2 * math.log(self.deviation) - np.log(4 * np.maximum(beyond, LEAST_PLANNED))
        good = (beyond > LEAST_PLANNED) & (log_ndtr(-places) + short <= self.log_each - LOG_SPARE)
        return (float(places[np.argmax(good)]), True) if good.any() else (far, False)

    def _tilt(self, law: DifferenceLaw) -> tuple[float, float, float, float]:
        """The tilt of the line, those that bound its alias above and below, and the period."""
        return self._tilt_put(law) if self.of.is_put else self._tilt_call(law)

    def _tilt_put(self, law: DifferenceLaw) -> tuple[float, float, float, float]:
        sizes = self.n * law.log_moments(-self.tilts) + self.tilts * self.k
        tilt = float(self.tilts[np.argmin(sizes - 2 * np.log(self.tilts))])
        period = max(self.k * (1 + 1e-9), (math.log(self.n) - self.log_error) / tilt)
        return -tilt, tilt, tilt, period

    def _tilt_call(self, law: DifferenceLaw) -> tuple[float, float, float, float]:
        """The tilt, of those up to the saddle, with the shortest period, and those that bound its alias."""
        tilts = self.tilts
        sizes = self.n * law.log_moments(tilts) - tilts * self.k
        saddle = int(np.argmin(sizes - 2 * np.log(tilts)))
        above = sizes - 1 - np.log(tilts) - self.log_error
        gaps = tilts[None, :] - tilts[: saddle + 1, None]
        far_enough = tilts[None, :] >= TILT_ABOVE * tilts[: saddle + 1, None]
        periods = np.where(far_enough, above[None, :] / np.where(far_enough, gaps, 1.0), np.inf)
        shortest = np.maximum(periods.min(axis=1), self.distance if self.t else self.k * (1 + 1e-9))
        others = np.zeros((saddle + 1, TILTS_COMPARED))
        if self.t:
            below = self.n * law.log_moments(-tilts) + tilts * self.k - 1 - np.log(tilts) - self.log_error
            others = below[None, :] / (tilts[None, :] + tilts[: saddle + 1, None])
            shortest = np.maximum(shortest, others.min(axis=1))
        # smaller tilts cancel more, which takes more bits and points
        log_sizes = sizes[: saddle + 1] - np.log(tilts[: saddle + 1])
        work = shortest * (LEAST_CANCELLED + np.maximum(log_sizes - self.log_error, 0.0))
        if self.most_cancelled < math.inf:
            away = self._log_away(tilts[: saddle + 1], shortest)
            cancelled = self._cancelled(np.maximum(log_sizes, away))
            # if it is more everywhere, the saddle has least
            work = np.where(cancelled <= max(self.most_cancelled, cancelled[-1]), work, np.inf)
        best = int(np.argmin(work))
        # of those that bound the alias the smallest: for larger ones the path needs more points
        call, put = (int(np.argmax(each[best] <= shortest[best])) for each in (periods, others))
        return float(tilts[best]), float(tilts[call]), float(tilts[put]), float(shortest[best])


def find_height(
    law: DifferenceLaw, tilt: float, count: int, log_allowed: float, first: float, most: float
) -> tuple[float, float]:
    """Where a line may end: from there on `count` transforms are about e^log_allowed; and the turn of z.

    That of the path which shows it. Heights are tried from the first to the last.
    """
    turns = np.geomspace(1e-4, 1.0, TURNS_COMPARED) * min(2 * QUARTER_TURN / law.a, 2 * MOST_PATH_SHIFT)
    tilted = np.multiply.outer(tilt * np.cos(law.a * turns), law.differences) + law.log_masses
    falls = np.multiply.outer(np.sin(law.a * turns), law.sums)
    ends = [max(tilt * law.at(z)[0], 0.0) - z * z / 2 - LOG_ROOT for z in (law.left, law.right)]
    sides = np.log(turns) + np.logaddexp(ends[0], ends[1])
    height = first
    for _ in range(MOST_HEIGHTS):
        logs = turns * turns / 2 + np.logaddexp(_log_sums(tilted - height * falls), sides)
        best = int(np.argmin(logs))
        if count * float(logs[best]) - math.log(math.pi * height) <= log_allowed:
            return height, float(turns[best])
        height *= HEIGHTS_GROW
        if height > most:
            break
    raise EngineDeclines("a sum whose line integral would take too long")


@dataclass(frozen=True)
class PlannedTilts:
    """That of the line and those of bounds, and ln of the errors that their moments may have."""

    tilt: float
    log_wanted: float
    others: tuple[float, ...]
    log_enough: float

    def needed(self, ends: tuple[float, ...]) -> float:
        """ln of how large the integrand gets between two values of D, relative to what may be wrong."""
        exponents = [(self.tilt, self.log_wanted), *((other, self.log_enough) for other in self.others)]
        return max(max(0.0, *(tilt * end for end in ends)) - wanted for tilt, wanted in exponents)


def make_panels(law: DifferenceLaw, shift: float, tilts: PlannedTilts, height: float) -> Iterator[Panel]:
    """Panels whose ellipses stay where the integrand is bounded, with points for the error that is wanted."""
    thin, wide = (ELLIPSE - 1 / ELLIPSE) / 2, (ELLIPSE + 1 / ELLIPSE) / 2
    count = math.ceil((law.right - law.left) * thin / (2 * shift) * (1 + 1e-9))
    along = [law.left + (law.right - law.left) * i / count for i in range(count)] + [law.right]
    slope = height * law.a * law.at(law.right)[1]
    side = [shift]
    while side[-1] * slope > FIRST_SIDE:
        side.append(side[-1] / 2)
    side = [0.0, *reversed(side)]
    each = math.log(count + len(side))

    def panel(is_side: bool, start: float, end: float) -> Panel:
        middle, half = (start + end) / 2, (end - start) / 2
        low, high = (law.right - half * thin, law.right + half * thin)
        top, rises = middle + half * wide, max(half * wide - middle, 0.0) * slope * math.exp(law.a * half)
        if not is_side:
            low, high, top, rises = middle - half * wide, middle + half * wide, shift + half * thin, 0.0
        near = max(low, -high, 0.0)
        log_most = math.log(64 / 15 * half / (1 - ELLIPSE**-2)) + (top * top - near * near) / 2 - LOG_ROOT
        needed = tilts.needed((law.at(low)[0], law.at(high)[0])) + log_most + rises + each
        points = math.ceil((1 + needed / (2 * math.log(ELLIPSE))) / SHARED_POINTS)
        return Panel(is_side, start, end, SHARED_POINTS * max(points, 1))

    for is_side, edges in ((False, along), (True, side)):
        for start, end in pairwise(edges):
            yield panel(is_side, start, end)
