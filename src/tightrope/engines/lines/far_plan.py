"""Where the curve of the small differences of a sum is told, and how finely: in floats, and never a bound.

Whatever comes out, `far` is right, and says how closely.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.plan import (
    FIRST_HEIGHT,
    LEAST_NODES,
    MOST_FLOAT_WORK,
    MOST_PATH_SHIFT,
    MOST_RULE_POINTS,
    QUARTER_TURN,
    DifferenceLaw,
    LinePlan,
    PassOrder,
    PlannedTilts,
    find_height,
    make_panels,
)
from tightrope.numerics.floats import Floats, short

PLACES = np.arange(2.0, 38.0, 1 / 64)  # of z, from where on a difference may count as large
LEAST_START, LARGEST_START = 0.2, 0.8  # of what sums fall short by, where large differences begin
LOG_SPARE = 2.0  # below what may be wrong
LOG_HALF = 0.7  # of what may be wrong: a second large difference takes that
MOST_SPREAD, TILTS_COMPARED = 4.0, 80  # deviations of small sums that a tilt may span, and tilts
USUAL_SPREAD = 0.5  # tilts of the line: with little of it sums are told far to the right
FAR_RIGHT = 8.0  # e-folds of the tilt that lie right of the middle of sums
LOG_ALIAS = 25.0  # by how much aliases are below sums
LOG_BEYOND = -18.0  # of the nodes beyond the last, over the deviation
LOG_TRANSFORM_ERROR = -32.0  # ln of what floats tell: also how often z is left of the path
CALM_TILTS = (0.5, 300.0)  # of the bound on sums without large differences, over what they fall short by
CHORDS = 8.0  # in the deviation of a sum, at least
EDGE, EDGES_GROW, STEPS_GROW = 1.5, 1.5, 2.0  # where steps widen, over what sums fall short by; and how
MOST_PLACES = 30_000  # of a lattice of sums
LOG_LARGEST_SHARE = -2.0  # of a curve, ln of what may be wrong: more is of no use
WORK_OF_TURN = 90  # of one row or column of a lattice, in points of a path
KEPT_PLANS = 8


@dataclass(frozen=True)
class FarPlan:
    """The line of small differences, z up to its right end, and the lattices on which large ones are spread.

    Of each the step, and how many places it has. `line.call_tilt` bounds aliases of the line, `calm_tilt`
    sums that have no large difference.
    """

    line: LinePlan
    calm_tilt: float
    lattices: tuple[tuple[float, int], ...]

    @property
    def work(self) -> int:
        """In nodes of a line times points of its path, about."""
        turns = sum(2 * math.isqrt(count) for _, count in self.lattices)
        return self.line.work + self.line.nodes * turns * WORK_OF_TURN

    def list_lattices(self, first: float) -> Iterator[Floats]:
        """Places from the first on: each lattice begins one of its steps after the last."""
        place = first
        for i, (step, count) in enumerate(self.lattices):
            lattice = place + step * np.arange(i > 0, count + (i > 0), dtype=np.float64)
            place = float(lattice[-1])
            yield lattice


@lru_cache(maxsize=KEPT_PLANS)
def plan_far(of: PassOrder, log_error: float) -> FarPlan:
    """For an error of about e^log_error in the curve; declines where one large difference does not decide."""
    if not of.is_exchanged or of.count < 2:
        raise EngineDeclines("a pass whose large differences are not told")
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return _FarPlanner(of, log_error).plan()
    except (ArithmeticError, ValueError) as reason:
        raise EngineDeclines("large differences out of the reach of floats") from reason


class _FarPlanner:
    def __init__(self, of: PassOrder, log_error: float) -> None:
        self.t, k, scale = of.at_order(math.exp(of.epsilon))
        self.a, self.n = float(of.separation), of.count
        self.short_by = self.n * (self.t - 1) + k  # of 0, in the mean
        self.log_error, self.k = log_error - math.log(scale), k
        if not self.short_by > 0:
            raise EngineDeclines("a sum that is positive without a large difference")
        left = short(float(ndtri_exp(LOG_TRANSFORM_ERROR - LOG_SPARE)))
        self.law = DifferenceLaw(self.a, self.t, left, self._find_start())
        masses = np.exp(self.law.log_masses)
        mean = float(masses @ self.law.differences)
        self.deviation = math.sqrt(self.n * float(masses @ (self.law.differences - mean) ** 2))
        self.away = self.n * mean

    def _find_start(self) -> float:
        """The least z from where on a second large difference is rare enough."""
        pairs = math.log(self.n * (self.n - 1) / 2) + log_ndtr(-PLACES) + log_ndtr(self.a - PLACES)
        up = np.exp(self.a * PLACES - self.a**2 / 2)
        share = (up - self.t * math.exp(-(self.a**2)) / up) / self.short_by
        is_start = (pairs <= self.log_error - LOG_HALF) & (share >= LEAST_START) & (share < LARGEST_START)
        if not is_start.any():
            raise EngineDeclines("large differences that are not rare")
        return float(PLACES[np.argmax(is_start)])

    def _find_step(self) -> float:
        """How far apart places may lie, so that chords are off by less than what may be wrong."""
        z = math.log(self.short_by) / self.a + self.a / 2
        log_one = math.log(self.n) + float(log_ndtr(self.a - z))  # about what one difference makes, or more
        share = math.exp(min(self.log_error - log_one, LOG_LARGEST_SHARE))
        steepness = 1 + max(z / self.a, 1.0)
        return min(self.deviation / CHORDS, self.short_by * math.sqrt(share) / steepness)

    def plan(self) -> FarPlan:
        law, n = self.law, self.n
        tilts = np.geomspace(0.02, MOST_SPREAD, TILTS_COMPARED) / self.deviation
        spreads = n * law.log_moments(tilts) - tilts * self.away
        if not spreads[0] <= MOST_SPREAD:
            raise EngineDeclines("small differences that are not small")
        call_tilt = float(tilts[np.flatnonzero(spreads <= MOST_SPREAD)[-1]])
        tilt = min(call_tilt / 2, USUAL_SPREAD / self.deviation)
        call_tilt = 2 * tilt
        period = (2 * FAR_RIGHT + LOG_ALIAS) / tilt
        end = self.short_by + FAR_RIGHT / tilt
        calm = np.geomspace(*CALM_TILTS, TILTS_COMPARED) / self.short_by
        calm_tilt = float(calm[np.argmin(n * law.log_moments(calm) - calm * self.k - np.log(calm))])
        step, first = 2 * math.pi / period, FIRST_HEIGHT / self.deviation
        allowed = LOG_BEYOND + math.log(self.deviation) - tilt * (end - self.k)
        height, turn = find_height(law, tilt, n - 1, allowed, first, MOST_PLACES * step)
        nodes = max(math.ceil(height / step), LEAST_NODES)
        shift = min(QUARTER_TURN / self.a, MOST_PATH_SHIFT)
        wanted = PlannedTilts(tilt, LOG_TRANSFORM_ERROR, (call_tilt, calm_tilt), -math.log(n) - LOG_SPARE)
        panels = tuple(make_panels(law, shift, wanted, nodes * step))
        points = [panel.points for panel in panels]
        if nodes * sum(points) > MOST_FLOAT_WORK or max(points) > MOST_RULE_POINTS:
            raise EngineDeclines("small differences that take too long")
        lattices = tuple(self._list_lattices(law.at(law.right)[0], end))
        if not 2 < sum(count for _, count in lattices) <= MOST_PLACES:
            raise EngineDeclines("large differences that take too many places")
        line = LinePlan(
            left=law.left,
            right=law.right,
            keeps_jumps=True,
            tilt=tilt,
            call_tilt=call_tilt,
            put_tilt=tilt,
            period=period,
            turn=turn,
            nodes=nodes,
            shift=shift,
            panels=panels,
            cancelled=0.0,
            bits=0,
        )
        return FarPlan(line, calm_tilt, lattices)

    def _list_lattices(self, first: float, end: float) -> Iterator[tuple[float, int]]:
        """The step and the places of each: beyond what sums fall short by, steps may grow with the place."""
        apart, place, edge = self._find_step(), first, EDGE * self.short_by
        while True:
            step: float = short(apart)
            count = max(math.ceil((min(edge, end) - place) / step), 0) + (place == first)
            if count:
                yield step, count
            place += step * count
            if place >= end:
                return
            apart, edge = apart * STEPS_GROW, edge * EDGES_GROW
