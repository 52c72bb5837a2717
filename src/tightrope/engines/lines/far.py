"""The curve of a pass with an exchanged record far out, where one difference alone makes the sum positive.

Of S = D_1 + ... + D_n let one D_i have z > b, and all others z <= b: then E(S - k)_+ is n times the integral
of C(D(z) - k) over z > b, C(x) = E(S' + x)_+ the curve of the n - 1 others. What other sums add is charged.
S' has no large differences, so that few nodes tell C at all x, in floats, with all errors charged:
theorems/proofs/line_integrals.md, number 8.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, ctx
from scipy.special import ndtr

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.far_plan import FarPlan, plan_far
from tightrope.engines.lines.floats import (
    CLOSED_FORM_BITS,
    EXPONENT_ROOM,
    LEAST_LOG,
    LOG_WIDER_SHARED,
    Complexes,
    FloatPath,
)
from tightrope.engines.lines.plan import PassOrder
from tightrope.numerics.balls import ball, ceil_float, floor_float
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR, ndtr_rel_error

LEAST_EXPONENT = -600.0  # of what sums are scaled by: products with smaller ones may be 0 in floats
SUM_ROOM = 1e-9  # of sums of up to 10^5 terms that are not negative, and of products of few of them
MOST_STEPS = 1e6  # of one cell to its place: a step is off by 10^6 u of itself at most, which is in SUM_ROOM


def _beyond(z: arb) -> arb:
    """P(Z > z), Z standard normal."""
    return (z / arb(2).sqrt()).erfc() / 2


class LatticeTurns:
    """e^{i y x} at all nodes y and all x of a lattice: products of one for its row and one for its column."""

    def __init__(self, y: Floats, x: Floats) -> None:
        self.first, self.count = y * x[0], len(x)
        columns = math.isqrt(self.count - 1) + 1
        rows = -(-self.count // columns)
        step = (x[-1] - x[0]) / max(self.count - 1, 1)
        near = np.multiply.outer(y, step * np.arange(columns))
        far = np.multiply.outer(step * columns * np.arange(rows), y)
        self.near = np.cos(near), np.sin(near)
        self.far: Complexes = np.cos(far) + 1j * np.sin(far)

    def add_up(self, sizes: Floats, phases: Floats) -> Floats:
        """The sum of sizes times cos(phase + y x), for each x."""
        angles = phases + self.first
        left = self.far * (sizes * (np.cos(angles) + 1j * np.sin(angles)))
        found = left.real @ self.near[0] - left.imag @ self.near[1]
        return np.asarray(found.reshape(-1)[: self.count])


class SmallSums:
    """C(x) = E(S' + x)_+ of the small differences, at all x of some lattices, which are places less k."""

    def __init__(self, path: FloatPath, count: int, lattices: Sequence[Floats], k: float = 0.0) -> None:
        self.path, self.n, self.lattices = path, count, lattices
        self.x: Floats = np.concatenate(lattices)
        self.span = float(np.abs(self.x).max()) + k  # not below any x or x + k
        self.plan = path.plan
        self.tilt, self.period = arb(path.plan.tilt), arb(path.plan.period)
        self.path_error = path.abs_error(self.tilt)

    def enclose(self, missing: arb) -> tuple[Floats, Floats]:
        """Between two numbers at each place; so much of the law of each difference is added as zeros."""
        added = float(missing.mid())
        values = self.path.values + added
        # and one rounding of the sum
        off = self.path_error + abs(missing - added).upper() + 2 * UNIT_ROUNDOFF * float(np.abs(values).max())
        top, sums, charge = self._sum_nodes(values)
        moment = arb(float(values[0].real)) + off
        charge += self._charge(moment, off, missing, top)
        # e^{tilt x + top} is in floats already, with its roundings
        exponents = self.plan.tilt * self.x + top
        if not float(exponents.min()) > LEAST_EXPONENT:
            raise EngineDeclines("small differences that floats do not tell")
        scale = np.exp(exponents)
        high = (sums + charge) * scale * (1 + SUM_ROOM)
        low = (sums - charge) * scale * (1 - SUM_ROOM) - self._bound_left() - self._bound_right(missing)
        low = low * floor_float(1 - self._ratio)  # what lies periods to the left is C(x) too
        low = np.maximum.accumulate(np.maximum(low, 0.0) * (1 - SUM_ROOM))  # C rises
        high = np.minimum.accumulate((np.maximum(high, 0.0) * (1 + SUM_ROOM))[::-1])[::-1]
        if not (np.isfinite(high).all() and np.isfinite(low).all()):
            raise EngineDeclines("small differences that floats do not tell")
        return low, high

    def _sum_nodes(self, values: Complexes) -> tuple[float, Floats, float]:
        """The sum over nodes relative to e^{tilt x + top}, and what rounding may have done to it."""
        n, u, tilt = self.n, UNIT_ROUNDOFF, self.plan.tilt
        y: Floats = 2 * math.pi / self.plan.period * np.arange(len(values), dtype=np.float64)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.abs(values)), LEAST_LOG)
        angles, top = np.angle(values), n * float(logs[0])
        exponents = n * logs - top
        sizes: Floats = np.exp(exponents) / (tilt * tilt + y * y) / self.plan.period
        sizes[1:] *= 2
        phases: Floats = n * angles - 2 * np.arctan2(y, tilt)
        found = np.concatenate([turns.add_up(sizes, phases) for turns in self._turns])
        roundings = n * (10 + 10 * np.abs(logs) + 10 * np.abs(angles)) + np.abs(exponents)
        roundings += 4 * (abs(top) + tilt * self.span) + 30 * y * self.span + 160
        charge = u * float(sizes @ roundings) + gamma(2 * len(y) + 16) * float(sizes.sum())
        return top, found, charge * (1 + EXPONENT_ROOM)

    @cached_property
    def _turns(self) -> list["LatticeTurns"]:
        y: Floats = 2 * math.pi / self.plan.period * np.arange(self.plan.nodes + 1, dtype=np.float64)
        return [LatticeTurns(y, lattice) for lattice in self.lattices]

    def _charge(self, moment: arb, off: arb, missing: arb, top: float) -> float:
        """What errors of the transform do, and nodes beyond the last, relative to e^{tilt x + top}."""
        n, tilt = self.n, self.tilt
        reach = 1 / (self.period * tilt * tilt) + 1 / (2 * tilt)
        wrong = reach * n * off * (moment + off) ** (n - 1)
        most = self.path.most_beyond + missing
        beyond = most**n / (arb.pi() * self.path.height)
        return ceil_float((wrong + beyond) * (-arb(top)).exp())

    @property
    def _ratio(self) -> arb:
        """By how much less a period further to the left counts."""
        return (-self.tilt * self.period).exp()

    def _bound_left(self) -> float:
        """What lies periods to the left, at most, beside C(x) itself."""
        return ceil_float(self.period * self._ratio / (1 - self._ratio) ** 2)

    def _bound_right(self, missing: arb) -> Floats:
        """What lies periods to the right, at most."""
        tilt = arb(self.plan.call_tilt)
        ratio = (-(tilt - self.tilt) * self.period).exp()
        if not ratio < 1:
            raise EngineDeclines("a period that is too short")
        moment = (self.path.bound_moment(tilt) + missing) ** self.n
        most = moment / (arb(1).exp() * tilt) * ratio / (1 - ratio)
        tilted, log_most = self.plan.call_tilt * self.x, ceil_float(most.log())
        return np.exp(tilted + log_most + EXPONENT_ROOM * (1 + np.abs(tilted) + abs(log_most)))


class FarCurve:
    """Both ends of the curve at one order, by a plan for an epsilon that is close."""

    def __init__(self, of: PassOrder, plan: FarPlan) -> None:
        self.of, self.plan, self.n = of, plan, of.count
        self.path = FloatPath(of, plan.line)
        self.a, self.t = self.path.float_a, self.path.float_t
        self.unseen = of.allocation.batches - self.n
        up, down = (math.exp(side * self.a * plan.line.right - self.a**2 / 2) for side in (1, -1))
        # places of large differences, on lattices of wider and wider steps; they begin at the first
        lattices = list(plan.list_lattices(up - self.t * down))
        self.places: Floats = np.concatenate(lattices)
        # and what they add to small differences, less k
        self.k = self.unseen * (self.t - 1)
        self.x_lattices = [lattice - self.k for lattice in lattices]
        self.steps: Floats = np.diff(self.places)
        if not self.places[0] > 0:
            raise EngineDeclines("large differences that are negative")
        if not float((self.places[1:] / self.steps).max()) < MOST_STEPS:
            raise EngineDeclines("large differences in steps that floats do not tell")

    def enclose(self) -> tuple[arb, arb]:
        """Not above and not below E(S - k)_+."""
        if not self.path.at(arb(self.plan.line.left)) <= 0:
            raise EngineDeclines("a path that does not reach far enough")
        below, beyond = _beyond(-arb(self.plan.line.left)), _beyond(arb(self.plan.line.right))
        small = SmallSums(self.path, self.n - 1, self.x_lattices, self.k)
        low, above = small.enclose(arb(0))
        lower = np.maximum(low, self._lowest(small.x)), above
        least, most = self._integrate(lower, small.enclose(below + beyond)[1])
        return self.n * arb(least), self.n * arb(most) + self._bound_second(beyond) + self._bound_calm(below)

    def _bound_second(self, beyond: arb) -> arb:
        """What a second large difference and all further ones add, whatever the others do."""
        start = arb(self.plan.line.right) - ball(self.of.separation)
        return self.n * (self.n - 1) * beyond * _beyond(start) / 2

    def _bound_calm(self, below: arb) -> arb:
        """Sums without a large difference, as e t x <= e^{t x}."""
        tilt = arb(self.plan.calm_tilt)
        k = self.unseen * (self.of.order - 1)
        return (self.path.bound_moment(tilt) + below) ** self.n * (-tilt * k).exp() / (arb(1).exp() * tilt)

    @cached_property
    def _kept(self) -> tuple[float, float]:
        """Not above the mass of all small sums on the path, and not above their mean."""
        a, t, n = ball(self.of.separation), self.of.order, self.n
        left, right = arb(self.plan.line.left), arb(self.plan.line.right)
        mass, mean = _beyond(left) - _beyond(right), _beyond(left - a) - _beyond(right - a)
        mean -= t * (_beyond(left + a) - _beyond(right + a))
        return floor_float(mass ** (n - 1)), floor_float((n - 1) * mean * mass ** (n - 2))

    def _lowest(self, x: Floats) -> Floats:
        """C(x) is not below E(S' + x)."""
        mass, mean = self._kept
        line = mean + mass * x
        return np.asarray(line - 4 * UNIT_ROUNDOFF * (abs(mean) + np.abs(x)))

    def _list_cells(self) -> "JumpCells":
        a, t, d, u = self.a, self.t, self.places, UNIT_ROUNDOFF
        root = np.sqrt(d * d + 4 * t * math.exp(-a * a))
        logs = np.log((d + root) / 2)
        z = logs / a + a / 2
        z[0] = self.plan.line.right
        arguments = np.array([-z, a - z, -a - z])
        tails = ndtr(arguments)
        relative = ndtr_rel_error(arguments) + u * (np.abs(arguments) + 2 * a) * (np.abs(arguments) + 1)
        errors = tails * relative + UNDERFLOW_ABS_ERROR
        tails, errors = (np.append(each, np.zeros((3, 1)), axis=1) for each in (tails, errors))
        mass, by_x, by_other = tails[:, :-1] - tails[:, 1:]
        off, off_x, off_other = (errors[:, :-1] + errors[:, 1:]) * (1 + 4 * u)
        off = off + u * mass
        sizes = by_x + t * by_other + mass * d
        further = np.append(root[1:], 2 * root[-1])
        away = u * (64 + 8 * a * a + 16 * float((np.abs(logs) + a * np.abs(z)).max())) * further
        return JumpCells(
            steps=self.steps,
            mass=mass,
            mass_abs_error=off,
            excess=by_x - t * by_other - mass * d,
            excess_abs_error=off_x + t * off_other + off * d + 24 * u * sizes,
            place_abs_error=4 * (away + 16 * u * self.unseen * t),
        )

    def _integrate(self, lower: tuple[Floats, Floats], high: Floats) -> tuple[float, float]:
        """The integral of C over large differences, at least and at most, from its ends at all places."""
        cells = self._list_cells()
        last, slope = float(self._lowest(self.x_lattices[-1][-1:])[0]), self._kept[0]
        return cells.integrate_below(*lower, last, slope), cells.integrate_above(high)


@dataclass(frozen=True)
class JumpCells:
    """Large differences between neighbouring places, and in the last cell all beyond the last place.

    Their mass and E[D - place], what each may be off by, and how far places are from where cells of z end.
    """

    steps: Floats
    mass: Floats
    mass_abs_error: Floats
    excess: Floats
    excess_abs_error: Floats
    place_abs_error: Floats

    @cached_property
    def _most(self) -> tuple[Floats, Floats]:
        return self.mass + self.mass_abs_error, np.maximum(self.excess + self.excess_abs_error, 0.0)

    @cached_property
    def _least(self) -> tuple[Floats, Floats]:
        least = self.mass - self.mass_abs_error, self.excess - self.excess_abs_error
        return np.maximum(least[0], 0.0), np.maximum(least[1], 0.0)

    @property
    def _moved(self) -> float:
        """What the integral moves by with its places, at most."""
        return float(self._most[0] @ self.place_abs_error)

    def integrate_above(self, high: Floats) -> float:
        """A convex function is below its chords; after the last place it grows by one at most."""
        mass, excess = self._most
        share = np.minimum(excess[:-1] / self.steps, mass[:-1])
        most = float(mass @ high) + float(share @ (high[1:] - high[:-1]))
        return (most + float(excess[-1]) + self._moved) * (1 + SUM_ROOM)

    def integrate_below(self, low: Floats, above: Floats, last: float, slope: float) -> float:
        """It is above the chords before and after, continued; and after the last place above a line."""
        most_mass, (mass, excess) = self._most[0], self._least
        rise = np.maximum(low[1:] - above[:-1], 0.0)  # at least, from the place before
        before = np.append(low[0] * mass[0], low[1:] * mass[1:] + excess[1:] * rise / self.steps)
        rest = np.maximum(most_mass[:-2] - excess[:-2] / self.steps[:-1], 0.0)
        wider = self.steps[:-1] / self.steps[1:]
        after = low[1:-1] * mass[:-2] - rest * (above[2:] - low[1:-1]) * wider
        # a difference of two numbers, either of which may be far larger
        after -= SUM_ROOM * (low[1:-1] * mass[:-2] + rest * np.abs(above[2:] - low[1:-1]) * wider)
        before[:-2] = np.maximum(before[:-2], after)
        line = min(last * mass[-1], last * most_mass[-1]) + slope * float(excess[-1])
        before[-1] = max(before[-1], line)
        return max(float(before.sum()) * (1 - SUM_ROOM) - self._moved, 0.0)


def enclose_far(of: PassOrder, plan: FarPlan) -> tuple[float, float]:
    """Not above and not below the curve of the pass there."""
    with ctx.workprec(CLOSED_FORM_BITS), np.errstate(over="raise", invalid="raise"):
        try:
            batches = of.allocation.batches
            lower, upper = (end / batches for end in FarCurve(of, plan).enclose())
        except (ArithmeticError, ValueError) as reason:
            raise EngineDeclines("large differences out of the reach of floats") from reason
        if not (lower.is_finite() and upper.is_finite()):
            raise EngineDeclines("large differences that have no bounds")
        return max(floor_float(lower), 0.0), min(ceil_float(upper), 1.0)


class FarLines:
    """Curves one after the other, by the plan for the last as long as that is good."""

    def __init__(self) -> None:
        self.plan: FarPlan | None = None

    @property
    def work(self) -> int:
        """Of the last."""
        return self.plan.work if self.plan else 0

    def enclose(
        self, of: PassOrder, log_error: float, log_wider: float = LOG_WIDER_SHARED
    ) -> tuple[float, float]:
        """Ends about e^log_error apart, e^(log_error + log_wider) at most; or EngineDeclines."""
        for plan in (self.plan, None):
            if plan is None:
                plan = self.plan = plan_far(of, log_error)
            with suppress(EngineDeclines):
                low, high = enclose_far(of, plan)
                if high - low <= math.exp(log_error + log_wider):
                    return low, high
        self.plan = None
        raise EngineDeclines("a curve that one large difference does not tell")
