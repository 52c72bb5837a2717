"""The transform E[e^{s D}] of one difference at the nodes of a line, by a path in the plane: in balls.

theorems/proofs/line_integrals.md derives the error. Balls carry all rounding.
"""

import math
from functools import cached_property, lru_cache
from typing import TypeVar

from flint import acb, acb_mat, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.plan import ELLIPSE, LinePlan, Panel

KEPT_RULES = 512
Point = TypeVar("Point", arb, acb)


@lru_cache(maxsize=KEPT_RULES)
def _rule(points: int, precision: int) -> tuple[tuple[arb, arb], ...]:
    """Gauss and Legendre's points and weights on [-1, 1], at the working precision."""
    return tuple(arb.legendre_p_root(points, i, weight=True) for i in range(points))


def larger(*balls: arb) -> arb:
    """A ball that holds the largest."""
    found = balls[0]
    for other in balls[1:]:
        found = found.max(other)
    return found


def list_powers(bases: list[acb], most: int) -> list[list[acb]]:
    """Of each base the powers 0, ..., most, each a product of two halves: a product for each widens balls."""
    found = [[acb(1)] * len(bases), bases]
    for m in range(2, most + 1):
        found.append([x * y for x, y in zip(found[m // 2], found[m - m // 2], strict=True)])
    return found[: most + 1]


def _halve(panel: Panel) -> tuple[arb, arb]:
    """Its middle and its half: the ends are floats, which two panels share exactly."""
    return (arb(panel.start) + arb(panel.end)) / 2, (arb(panel.end) - arb(panel.start)) / 2


class TurnedPath:
    """z from left to right by way of a shift into the plane, at the working precision."""

    def __init__(self, separation: arb, order: arb, plan: LinePlan) -> None:
        self.a, self.t, self.plan = separation, order, plan
        self.left, self.right, self.shift = arb(plan.left), arb(plan.right), arb(plan.shift)
        self.tilt = arb(plan.tilt)
        self.step = 2 * arb.pi() / arb(plan.period)
        self.height = plan.nodes * self.step
        self.root = (2 * arb.pi()).sqrt()

    def _pair(self, z: Point) -> tuple[Point, Point]:
        """X and t X' there."""
        up = (self.a * z - self.a * self.a / 2).exp()
        return up, self.t * (-self.a * self.a).exp() / up

    def at(self, z: arb) -> arb:
        """D there, on the line."""
        up, down = self._pair(z)
        return up - down

    @cached_property
    def _points(self) -> list[tuple[acb, acb]]:
        """Of every point D and its weight, density included: along the shift, then down the side."""
        found = []
        for panel in self.plan.panels:
            middle, half = _halve(panel)
            for x, weight in _rule(panel.points, ctx.prec):
                along = middle + half * x
                z = acb(self.right, along) if panel.is_side else acb(along, self.shift)
                up, down = self._pair(z)
                turned = acb(0, -weight * half) if panel.is_side else weight * half
                found.append((up - down, turned * (-z * z / 2).exp() / self.root))
        return found

    def _end(self, z: arb, tilt: arb) -> arb:
        """What the integrand is at most straight above an end of the path, but for e^{u^2 / 2}."""
        return (-z * z / 2).exp() / self.root * larger(arb(1), (tilt * self.at(z)).exp())

    def abs_error(self, tilt: arb) -> arb:
        """Of E[e^{s D}; left <= z <= right], Re s = tilt, 0 <= Im s <= height: panels, and the left side."""
        rho = arb(ELLIPSE)
        errors = [
            self._most(panel, tilt) * _halve(panel)[1] / rho ** (2 * (panel.points - 1))
            for panel in self.plan.panels
        ]
        left = self.shift * (self.shift * self.shift / 2).exp() * self._end(self.left, tilt)
        return sum(errors, arb(0)) * 64 / (15 * (1 - rho**-2)) + left

    def _most(self, panel: Panel, tilt: arb) -> arb:
        """What the integrand is at most in the ellipse around a panel, 0 <= Im s <= height."""
        rho, (middle, half) = arb(ELLIPSE), _halve(panel)
        wide, thin = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
        low, high = (
            (self.right - thin, self.right + thin) if panel.is_side else (middle - wide, middle + wide)
        )
        centre, reach = (middle, wide) if panel.is_side else (self.shift, thin)
        top, bottom = centre + reach, centre - reach
        if not (self.a * top <= arb.pi() / 2 and -self.a * bottom <= arb.pi() / 2):
            raise EngineDeclines("a path that leaves where its integrand is bounded")
        near = larger(low, -high, arb(0))
        ends = [self._pair(z) for z in (low, high)]
        rises = self.height * (self.a * (-bottom).max(0)).sin() * larger(*(up + down for up, down in ends))
        exponent = larger(arb(0), *(tilt * (up - down) for up, down in ends))
        return ((top * top - near * near) / 2 + rises + exponent).exp() / self.root

    def bound_moment(self, tilt: arb) -> arb:
        """Not below E[e^{tilt D}; left <= z <= right]."""
        found = sum((weight * (tilt * difference).exp() for difference, weight in self._points), acb(0))
        return found.real + self.abs_error(tilt)

    @cached_property
    def transforms(self) -> list[acb]:
        """E[e^{s D}] at all nodes: for each point the powers of one number, by a product of matrices."""
        count = self.plan.nodes + 1
        columns = math.isqrt(count)
        weights = [weight * (self.tilt * difference).exp() for difference, weight in self._points]
        *near, leap = list_powers(
            [(acb(0, 1) * self.step * difference).exp() for difference, _ in self._points], columns
        )
        far = [
            [weight * turn for weight, turn in zip(weights, turns, strict=True)]
            for turns in list_powers(leap, (count - 1) // columns)
        ]
        return (acb_mat(far) * acb_mat(near).transpose()).entries()[:count]

    @cached_property
    def most_beyond(self) -> arb:
        """What the transform is at most in size above the last node."""
        turn = arb(self.plan.turn)
        sine, cosine = (self.a * turn).sin(), (self.a * turn).cos()
        if not self.a * turn <= arb.pi() / 2:
            raise EngineDeclines("a path that turns too far")
        total = arb(0)
        for panel in self.plan.panels:
            if not panel.is_side:
                middle, half = _halve(panel)
                for x, weight in _rule(panel.points, ctx.prec):
                    z = middle + half * x
                    up, down = self._pair(z)
                    logs = self.tilt * cosine * (up - down) - self.height * sine * (up + down) - z * z / 2
                    total += weight * half * logs.exp()
        total = total / self.root + self.abs_error(self.tilt)
        total += turn * (self._end(self.left, self.tilt) + self._end(self.right, self.tilt))
        return (turn * turn / 2).exp() * total
