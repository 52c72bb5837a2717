"""Line integrals in floats, with all that rounding can do charged: of passes with an exchanged record.

The same line and the same bounds as in `line`, some ten times as fast. What are bounds by themselves is
computed with room for their roundings; theorems/proofs/line_integrals.md, number 7, counts those of the sums.
"""

import math
from contextlib import suppress
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.line import PassLine
from tightrope.engines.lines.path import TurnedPath
from tightrope.engines.lines.plan import ELLIPSE, LinePlan, PassOrder, plan_line
from tightrope.numerics.balls import ball, ceil_float, floor_float
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.ulps import LARGEST_ERROR

KEPT_RULES, RULE_BITS = 512, 64
CLOSED_FORM_BITS = 256  # of what is in closed form, however much of it cancels
FLOAT_CANCELLED = 44.0  # bits, of plans for floats: more are lost to rounding
POINTS_AT_ONCE = 64  # points whose products are added in one row
LEAST_LOG = -700.0  # of a transform: smaller ones are as good as this
LOG_WIDER_SHARED = 1.0  # how much wider than planned lines may be that share a plan
SURE_DECAY = 1024.0  # times what it is off by: a decay that is surely one
EXPONENT_ROOM, MOST_ROUNDINGS = 1e-9, 1e6  # of bounds whose exponents have fewer roundings: 10^6 u < 1.2e-10

Complexes = NDArray[np.complex128]


@lru_cache(maxsize=KEPT_RULES)
def _rule(points: int) -> tuple[Floats, Floats]:
    """Gauss and Legendre's points and weights on [-1, 1], to the nearest float."""
    with ctx.workprec(RULE_BITS):
        found = [arb.legendre_p_root(points, i, weight=True) for i in range(points)]
        return np.array([float(x) for x, _ in found]), np.array([float(weight) for _, weight in found])


def _exp(z: Complexes) -> Complexes:
    """By functions of real numbers, whose errors are known."""
    return np.asarray(np.exp(z.real) * (np.cos(z.imag) + 1j * np.sin(z.imag)))


class FloatPath(TurnedPath):
    """The path of a plan, in floats: what they miss is part of `abs_error`."""

    def __init__(self, of: PassOrder, plan: LinePlan) -> None:
        super().__init__(ball(of.separation), of.order, plan)
        self.float_a = float(of.separation)
        self.float_t = math.exp(of.epsilon) if of.exact_order is None else float(of.exact_order)
        panels = plan.panels
        start, end = np.array([panel.start for panel in panels]), np.array([panel.end for panel in panels])
        self.middle, self.half = (start + end) / 2, (end - start) / 2
        self.count = np.array([panel.points for panel in panels])
        self.is_side = np.array([panel.is_side for panel in panels])
        self.top = 2 * math.pi / plan.period * plan.nodes  # the highest node

    @cached_property
    def _places(self) -> tuple[Floats, Complexes, Complexes, Floats, Floats, Complexes]:
        """Of each point: where along its panel, z, its weight, half its panel, |X| + |t X'|, and D."""
        rules = [_rule(points) for points in self.count.tolist()]
        half, is_side = np.repeat(self.half, self.count), np.repeat(self.is_side, self.count)
        along = np.repeat(self.middle, self.count) + half * np.concatenate([x for x, _ in rules])
        weight = half * np.concatenate([each for _, each in rules]) / math.sqrt(2 * math.pi)
        z = np.where(is_side, self.plan.right + 1j * along, along + 1j * self.plan.shift)
        up, down = self._float_pair(z)
        return along, z, np.where(is_side, -1j, 1.0) * weight, half, np.abs(up) + np.abs(down), up - down

    def _float_pair(self, z: Complexes) -> tuple[Complexes, Complexes]:
        a = self.float_a
        return _exp(a * z - a * a / 2), self.float_t * _exp(-a * z - a * a / 2)

    def _mass(self, tilt: float, height: float) -> tuple[Complexes, float]:
        """The weights at a tilt, and what sums of them, turned up to a height, are off by: number 7."""
        _, z, weight, half, size, difference = self._places
        a, u, distance = self.float_a, UNIT_ROUNDOFF, np.abs(z)
        mass = weight * _exp(tilt * difference - z * z / 2)
        ratio = u * (8 * a * (distance + half) + 2 * a * a + 40)
        # y e^{-y v} <= 1 / (e v), where v is much more than it is off by
        falls = difference.imag >= SURE_DECAY * size * ratio
        turned = np.where(falls, size / (math.e * np.where(falls, difference.imag, 1.0)), math.inf)
        turned = np.minimum(height * size, turned * (1 + 4 / SURE_DECAY))
        error = (abs(tilt) * size + turned) * ratio + u * (7 * distance**2 + 4 * distance * half + 72)
        if not float(error.max()) < LARGEST_ERROR:
            raise EngineDeclines("a line integral that floats do not tell")
        rows = gamma(2 * POINTS_AT_ONCE + len(z) // POINTS_AT_ONCE + 8)
        total = float(np.abs(mass) @ (error + 2 * rows))
        return mass, total * (1 + EXPONENT_ROOM + 2 * LARGEST_ERROR) + len(z) * math.exp(LEAST_LOG)

    @cached_property
    def _line_mass(self) -> tuple[Complexes, float]:
        return self._mass(self.plan.tilt, self.top)

    @property
    def rounding(self) -> float:
        """What any transform is off by."""
        return self._line_mass[1]

    @cached_property
    def values(self) -> Complexes:
        """E[e^{s D}] at all nodes: powers of one number for each point, by products of matrices."""
        mass, difference = self._line_mass[0], self._places[-1]
        step, count = 2 * math.pi / self.plan.period, self.plan.nodes + 1
        columns = math.isqrt(count)
        rows = -(-count // columns)
        near = _exp(1j * np.multiply.outer(step * np.arange(columns), difference))
        far = mass * _exp(1j * np.multiply.outer(step * columns * np.arange(rows), difference))
        total = np.zeros((rows, 2 * columns))
        for i in range(0, len(mass), POINTS_AT_ONCE):
            left, right = far[:, i : i + POINTS_AT_ONCE], near[:, i : i + POINTS_AT_ONCE]
            # real and imaginary parts are sums of real products, whose roundings are known
            real = np.hstack([right.real, -right.imag])
            imaginary = np.hstack([right.imag, right.real])
            total += np.hstack([left.real, left.imag]) @ np.vstack([real, imaginary]).T
        return (total[:, :columns] + 1j * total[:, columns:]).reshape(-1)[:count]

    # Bounds, with room for their roundings.

    def _float_ends(self, z: Floats) -> tuple[Floats, Floats]:
        """D and X + t X' on the line."""
        a = self.float_a
        up, down = np.exp(a * z - a * a / 2), self.float_t * np.exp(-a * z - a * a / 2)
        return up - down, up + down

    def _sum_bounds(self, logs: Floats, sizes: Floats) -> float:
        """The sum of e^log, each log a sum of numbers of that size in all."""
        a = self.float_a
        far = max(-self.plan.left, self.plan.right) + self.plan.shift + float(self.half.max()) * ELLIPSE
        if not 8 * a * far + 2 * a * a + 64 < MOST_ROUNDINGS:
            raise EngineDeclines("a line integral that floats do not bound")
        return float(np.exp(logs + EXPONENT_ROOM * (1 + sizes)).sum()) * (1 + EXPONENT_ROOM)

    def _bound_ends(self, ends: Floats, tilt: float) -> Floats:
        """Straight above an end of the path the integrand is at most that, but for e^{u^2 / 2}."""
        difference, size = self._float_ends(ends)
        tilted, sizes = tilt * difference, abs(tilt) * size + ends * ends / 2 + 1
        logs = np.maximum(tilted, 0.0) - ends * ends / 2 - math.log(math.sqrt(2 * math.pi))
        return np.array([self._sum_bounds(logs[i : i + 1], sizes[i : i + 1]) for i in range(len(ends))])

    def _bound_panels(self, tilt: float) -> float:
        """What panels may miss, and the left side of the path."""
        plan, a, rho = self.plan, self.float_a, ELLIPSE
        wide, thin = self.half * (rho + 1 / rho) / 2, self.half * (rho - 1 / rho) / 2
        low = np.where(self.is_side, plan.right - thin, self.middle - wide)
        high = np.where(self.is_side, plan.right + thin, self.middle + wide)
        centre = np.where(self.is_side, self.middle, plan.shift)
        reach = np.where(self.is_side, wide, thin)
        top, bottom = centre + reach, centre - reach
        if not a * max(float(top.max()), -float(bottom.min())) <= 1.57:  # below pi / 2
            raise EngineDeclines("a path that leaves where its integrand is bounded")
        near = np.maximum(np.maximum(low, -high), 0.0)
        ends = [self._float_ends(each) for each in (low, high)]
        most = np.maximum(ends[0][1], ends[1][1])
        # what cancels in the bottom is off by as much as its parts are
        below = np.maximum(-bottom, 0.0) + 4 * UNIT_ROUNDOFF * (centre + reach)
        rises = self.top * np.sin(a * below) * most
        tilted = np.maximum(np.maximum(tilt * ends[0][0], tilt * ends[1][0]), 0.0)
        decay = 2 * (self.count - 1) * math.log(rho)
        logs = (top * top - near * near) / 2 + rises + tilted + np.log(self.half) - decay
        sizes = top * top + near * near + rises + abs(tilt) * most + np.abs(np.log(self.half)) + decay
        total = self._sum_bounds(logs, sizes) * 64 / (15 * (1 - rho**-2)) / math.sqrt(2 * math.pi)
        left = plan.shift * math.exp(plan.shift**2 / 2) * self._bound_ends(np.array([plan.left]), tilt)[0]
        return float(total + left) * (1 + EXPONENT_ROOM)

    def abs_error(self, tilt: arb) -> arb:
        """With what rounding takes; at the tilt of the line at any of its nodes."""
        at = float(tilt)
        rounding = self.rounding if at == self.plan.tilt else self._mass(at, 0.0)[1]
        return arb(self._bound_panels(at)) + arb(rounding)

    def bound_moment(self, tilt: arb) -> arb:
        """Not below E[e^{tilt D}; left <= z <= right]."""
        mass, rounding = self._mass(float(tilt), 0.0)
        return arb(float(mass.real.sum())) + arb(self._bound_panels(float(tilt))) + arb(rounding)

    @cached_property
    def most_beyond(self) -> arb:
        """What the transform is at most in size above the last node."""
        plan, a = self.plan, self.float_a
        if not a * plan.turn <= 1.57:
            raise EngineDeclines("a path that turns too far")
        along, _, _, _, _, _ = self._places
        is_along = ~np.repeat(self.is_side, self.count)
        z, weight = along[is_along], np.abs(self._places[2][is_along])
        difference, size = self._float_ends(z)
        tilted, falls = (
            plan.tilt * math.cos(a * plan.turn) * difference,
            self.top * math.sin(a * plan.turn) * size,
        )
        logs = tilted - falls - z * z / 2 + np.log(weight)
        sizes = abs(plan.tilt) * size + falls + z * z + np.abs(np.log(weight))
        total = self._sum_bounds(logs, sizes) + self._bound_panels(plan.tilt)
        total += plan.turn * float(self._bound_ends(np.array([plan.left, plan.right]), plan.tilt).sum())
        return arb(math.exp(plan.turn**2 / 2) * total * (1 + EXPONENT_ROOM))


class FloatLine(PassLine):
    """The sum over nodes in floats."""

    path: FloatPath

    def _make_path(self) -> FloatPath:
        return FloatPath(self.of, self.plan)

    def _first_moment(self) -> arb:
        return arb(float(self.path.values[0].real))

    def _sum_nodes(self) -> arb:
        """Terms relative to the first, each off by its size times what its logarithm and its angle are."""
        n, u, tilt, k = self.n, UNIT_ROUNDOFF, self.plan.tilt, float(self.k.mid())
        values = self.path.values
        y = 2 * math.pi / self.plan.period * np.arange(len(values))
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.abs(values)), LEAST_LOG)
        angles, top = np.angle(values), n * float(logs[0])
        exponents = n * logs - top
        sizes = np.exp(exponents) / (tilt * tilt + y * y)
        sizes[1:] *= 2
        found = float((sizes * np.cos(n * angles - k * y - 2 * np.arctan2(y, tilt))).sum())
        roundings = n * (8 + 10 * np.abs(logs) + 10 * np.abs(angles)) + np.abs(exponents) + abs(top) + 96
        roundings += 8 * abs(k) * y
        charge = float(sizes @ (u * roundings)) + gamma(len(values)) * float(sizes.sum())
        if not charge < math.inf:
            raise EngineDeclines("a line integral that floats do not tell")
        return arb(found, charge * (1 + EXPONENT_ROOM)) * arb(top).exp() * self.weight_at / self.period


def enclose_in_floats(of: PassOrder, plan: LinePlan) -> tuple[float, float]:
    """Not above and not below the curve of a pass there, by a plan for an epsilon that is close."""
    if not of.is_exchanged:
        raise EngineDeclines("a pass whose line integrals floats do not tell")
    with ctx.workprec(CLOSED_FORM_BITS), np.errstate(over="raise", invalid="raise"):
        try:
            line = FloatLine(of, plan)
            lower, upper = (line.scale * end for end in line.enclose())
        except (ArithmeticError, ValueError) as reason:
            raise EngineDeclines("a line integral out of the reach of floats") from reason
        if not (lower.is_finite() and upper.is_finite()):
            raise EngineDeclines("a line integral that has no bounds")
        return max(floor_float(lower), 0.0), min(ceil_float(upper), 1.0)


class FloatLines:
    """Curves one after the other, by the plan for the last as long as that is good."""

    def __init__(self) -> None:
        self.plan: LinePlan | None = None

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
                plan = self.plan = plan_line(of, log_error, FLOAT_CANCELLED)
            with suppress(EngineDeclines):
                low, high = enclose_in_floats(of, plan)
                if high - low <= math.exp(log_error + log_wider):
                    return low, high
        self.plan = None
        raise EngineDeclines("a curve that floats do not tell")
