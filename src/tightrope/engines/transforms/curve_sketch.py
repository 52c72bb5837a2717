"""About the curve of a pass in which a record is exchanged, and its moments: to plan with, never a bound."""

import math
from contextlib import suppress

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr, ndtri_exp

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.floats import FLOAT_CANCELLED, enclose_in_floats
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.transform import keep_refusals
from tightrope.engines.transforms.turned_curve import TurnedCurve, check_law, plan_curve
from tightrope.numerics.floats import Floats, short
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair

DOTS_APART = 0.5  # mean losses
NEAR_DOTS = 6  # that are so far apart
DOTS_GROW = 1.2  # times as far from each to the next, from there on
LOG_CLOSE = 6.0  # below what is expected of a dot: what it may be wrong by
NARROW_VALUE = 0.02  # of a value: how wide it may be
MOST_TRIES, MOST_SKETCHED, ENOUGH_SKETCHED = 5, 80, 6
LOG_LEAST_DELTA = -70.0  # of the last dot
LOG_EARLY = -8.0  # of the last dot that lines tell, above which they end too early
TURNED_DOTS, LOG_LEAST_TURNED = 28, -45.0  # told at once, by turned normals; and down to which ln delta
SKETCH_PATIENCE = 4.0  # seconds, about, for those
POINTS_PER_PIECE, PIECES_PER_OCTAVE = 8, 10  # of a sketch
FURTHER_PIECES = 60  # beyond the last dot, at least
LARGEST_TILT = 100.0  # up to which moments are sketched
MOST_DOT_WORK = 20_000_000  # of a line
KEPT_SKETCHES = 32
LOG_ALONE = 2.0  # natural logarithms, above what one batch alone makes: beyond that it does not decide


def _guess_alone(law: PairLaw, epsilons: Floats) -> Floats:
    """About, where one batch alone decides."""
    a = float(law.separation)
    return np.asarray(log_ndtr(a / 2 - (epsilons + math.log(law.batches)) / a))


def guess_without_lines(law: PairLaw, epsilons: Floats) -> Floats:
    """About, without any line: one batch alone decides, or all of them together make a normal loss."""
    square = float(law.separation) ** 2
    mean = math.sqrt(4 * max(math.sinh(min(square, 1.0)), square) / law.batches)  # of the sum of all, or more
    return np.maximum(_guess_alone(law, epsilons), log_ndtr(mean / 2 - epsilons / mean))


class CurveSketch:
    """Dots on the curve, and what lies between and beyond them."""

    def __init__(self, law: PairLaw) -> None:
        self.law = law
        step = ShiftPair.of_normals(law.separation)
        self._pass = Allocation(step, law.batches, law.seen, is_exchanged=True)
        places, logs = self._choose_dots()
        self._end, self._spline = places[-1], CubicSpline(places, logs)
        self._missing = logs[-1] - float(_guess_alone(law, np.array([places[-1]]))[0])
        # one batch alone makes moments explode far out, at the square of the separation times the tilt
        octaves = math.log2(max(LARGEST_TILT * float(law.separation) ** 2 / places[-1], 1.0))
        pieces = max(math.ceil(PIECES_PER_OCTAVE * octaves), FURTHER_PIECES)
        edges = [*places, *(places[-1] * 2.0 ** (i / PIECES_PER_OCTAVE) for i in range(1, pieces + 1))]
        nodes, weights = np.polynomial.legendre.leggauss(POINTS_PER_PIECE)
        middle, half = (np.add(edges[1:], edges[:-1]) / 2, np.subtract(edges[1:], edges[:-1]) / 2)
        self._x = np.add.outer(middle, 0.0 * nodes).ravel() + np.multiply.outer(half, nodes).ravel()
        self._log_weights = np.log(np.multiply.outer(half, weights).ravel())
        self._logs = self.log_curve(self._x)

    def _choose_dots(self) -> tuple[list[float], list[float]]:
        """By lines, or where those end early (few batches, little noise) by turned normals."""
        try:
            found = self._find_dots()
        except EngineDeclines:
            return self._turn_dots()
        if found[1][-1] > LOG_EARLY:
            with suppress(EngineDeclines):
                turned = self._turn_dots()
                return turned if turned[0][-1] > found[0][-1] else found
        return found

    def _find_dots(self) -> tuple[list[float], list[float]]:
        first = self._tell(0.0, -LOG_CLOSE)
        scale = 2 * math.exp(first)
        places, logs, step, slope = [0.0], [first], DOTS_APART * scale, -1 / scale
        while len(places) < MOST_SKETCHED and logs[-1] > LOG_LEAST_DELTA:
            step = step if len(places) <= NEAR_DOTS else step * DOTS_GROW
            place = places[-1] + step
            try:
                found = self._tell(place, logs[-1] + 1.5 * slope * step - LOG_CLOSE)
            except EngineDeclines:
                break
            slope = (found - logs[-1]) / step
            places.append(place)
            logs.append(found)
        if len(places) < ENOUGH_SKETCHED:
            raise EngineDeclines("a curve that lines do not sketch")
        return places, logs

    def _turn_dots(self) -> tuple[list[float], list[float]]:
        """All at once, by normals that are turned."""
        check_law(self.law)
        a = float(self.law.separation)
        spacing: float = short(
            max(a * (a / 2 - ndtri_exp(LOG_LEAST_TURNED)) - math.log(self.law.batches), 1.0) / TURNED_DOTS
        )
        epsilons = spacing * np.arange(TURNED_DOTS + 1, dtype=np.float64)
        log_errors = tuple((guess_without_lines(self.law, epsilons) - LOG_CLOSE).tolist())
        curve = TurnedCurve(self.law, plan_curve(self.law, spacing, log_errors), SKETCH_PATIENCE)
        found = [(float(value.mid()), float(value.rad())) for value in curve.values]
        told = [middle > 0 and radius <= NARROW_VALUE * middle for middle, radius in found]
        count = told.index(False) if False in told else len(told)
        if count < ENOUGH_SKETCHED:
            raise EngineDeclines("a curve that is not sketched")
        return epsilons[:count].tolist(), [math.log(middle) for middle, _ in found[:count]]

    def _tell(self, epsilon: float, log_error: float) -> float:
        of = PassOrder(self._pass, epsilon)
        for _ in range(MOST_TRIES):
            plan = plan_line(of, log_error, FLOAT_CANCELLED)
            if plan.work > MOST_DOT_WORK:
                break
            low, high = enclose_in_floats(of, plan)
            if high - low <= NARROW_VALUE * low:
                return math.log((low + high) / 2)
            log_error = min(log_error - LOG_CLOSE, math.log(high) - LOG_CLOSE)
        raise EngineDeclines("a curve that lines do not sketch")

    def log_curve(self, epsilons: Floats) -> Floats:
        """About ln delta there."""
        last, slope, bend = (float(self._spline(self._end, order)) for order in range(3))
        far = np.maximum(epsilons - self._end, 0.0)
        alone = _guess_alone(self.law, epsilons)
        if self._missing < LOG_ALONE:  # one batch decides already
            beyond = alone + self._missing
        else:
            beyond = np.logaddexp(last + min(slope, 0.0) * far + min(bend, 0.0) * far * far / 2, alone)
        return np.where(far == 0, self._spline(np.minimum(epsilons, self._end)), beyond)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """About ln M(c), and its first two derivatives.

        M(c) = 1 + c (c + 1) times the integral of (e^{c x} + e^{-(1 + c) x}) delta(x) over x > 0.
        """
        x, base = self._x, self._log_weights + self._logs
        top = max(float((base + c * x).max()), 0.0)
        up, down = np.exp(base + c * x - top), np.exp(base - (1 + c) * x - top)
        whole, first, second = (float(up @ x**k + (-1) ** k * (down @ x**k)) for k in range(3))
        factor, slope = c * (c + 1), 2 * c + 1
        one = math.exp(-top)
        value, rise = factor * whole, slope * whole + factor * first
        bend = 2 * whole + 2 * slope * first + factor * second
        mean, log_moment = rise / (one + value), top + math.log(one + value) if top else math.log1p(value)
        variance = bend / (one + value) - mean * mean
        if not variance > 0:
            raise EngineDeclines("a tilt at which a sketch tells nothing")
        return log_moment, mean, variance


@keep_refusals(maxsize=KEPT_SKETCHES)
def sketch_curve(law: PairLaw) -> CurveSketch:
    """A sketch, kept."""
    return CurveSketch(law)


def sketch_log_curve(law: PairLaw, epsilons: Floats) -> Floats:
    """About ln of the curve, by a sketch where there is one."""
    with suppress(EngineDeclines):
        return sketch_curve(law).log_curve(epsilons)
    return guess_without_lines(law, epsilons)
