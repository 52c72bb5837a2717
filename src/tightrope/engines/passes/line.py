"""E(S - k)_+ of a sum S of differences, between two numbers, by an integral along a line: in balls.

E(S - k)_+ is the integral of e^{-s k} E[e^{s S}] / s^2 / (2 pi i) along Re s = tilt > 0, and E(k - S)_+ that
for tilt < 0. theorems/proofs/line_integrals.md derives every term of the error; what is computed is a sum
over nodes of the line, of powers of sums over points of a path. Balls carry all rounding.
"""

import math
from functools import cached_property, lru_cache

from flint import acb, acb_mat, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.passes.line_plan import ELLIPSE, LinePlan, Panel, PassOrder, plan_line
from tightrope.numerics.balls import ball, ceil_float, floor_float

KEPT_RULES, KEPT_ENDS = 512, 4096


@lru_cache(maxsize=KEPT_ENDS)
def enclose_curve(of: PassOrder, log_error: float) -> tuple[float, float]:
    """Not above and not below the curve of the pass there, about e^log_error apart; or EngineDeclines."""
    plan = plan_line(of, log_error)
    with ctx.workprec(plan.bits):
        line = _Line(of, plan)
        lower, upper = (line.scale * end for end in line.enclose())
        if not (lower.is_finite() and upper.is_finite()):
            raise EngineDeclines("a line integral that has no bounds")
        return max(floor_float(lower), 0.0), min(ceil_float(upper), 1.0)


@lru_cache(maxsize=KEPT_RULES)
def _rule(points: int, precision: int) -> tuple[tuple[arb, arb], ...]:
    """Gauss and Legendre's points and weights on [-1, 1], at the working precision."""
    return tuple(arb.legendre_p_root(points, i, weight=True) for i in range(points))


def _larger(*balls: arb) -> arb:
    found = balls[0]
    for other in balls[1:]:
        found = found.max(other)
    return found


def _power(base: acb, exponent: int) -> acb:
    """By squaring: a ball around 0 stays one."""
    found = acb(1)
    for digit in bin(exponent)[2:]:
        found *= found
        if digit == "1":
            found *= base
    return found


def _powers(bases: list[acb], most: int) -> list[list[acb]]:
    """Of each base the powers 0, ..., most, each a product of two halves: a product for each widens balls."""
    found = [[acb(1)] * len(bases), bases]
    for m in range(2, most + 1):
        found.append([x * y for x, y in zip(found[m // 2], found[m - m // 2], strict=True)])
    return found[: most + 1]


def _below(z: arb) -> arb:
    """The standard normal distribution function."""
    return (-z / arb(2).sqrt()).erfc() / 2


def _geometric(ratio: arb) -> arb:
    """ratio + ratio^2 + ..."""
    if not ratio < 1:
        raise EngineDeclines("a period that is too short")
    return ratio / (1 - ratio)


def _halve(panel: Panel) -> tuple[arb, arb]:
    """Its middle and its half: the ends are floats, which two panels share exactly."""
    return (arb(panel.start) + arb(panel.end)) / 2, (arb(panel.end) - arb(panel.start)) / 2


class _Line:
    """One line and one path, at the working precision."""

    def __init__(self, of: PassOrder, plan: LinePlan) -> None:
        self.of, self.plan, self.n = of, plan, of.count
        self.a = ball(of.separation)
        self.t, self.k, self.scale = of.place(arb(of.epsilon).exp())
        self.left, self.right, self.shift = arb(plan.left), arb(plan.right), arb(plan.shift)
        self.tilt, self.period = arb(plan.tilt), arb(plan.period)
        self.step = 2 * arb.pi() / self.period
        self.height = plan.nodes * self.step
        self.root = (2 * arb.pi()).sqrt()
        self.weight_at = (-self.tilt * self.k).exp()

    # The path.

    def _pair(self, z: arb | acb) -> tuple[arb | acb, arb | acb]:
        """X and t X' there."""
        up = (self.a * z - self.a * self.a / 2).exp()
        return up, self.t * (-self.a * self.a).exp() / up

    def _at(self, z: arb) -> arb:
        up, down = self._pair(z)
        return up - down

    @cached_property
    def _path(self) -> list[tuple[acb, acb]]:
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
        return (-z * z / 2).exp() / self.root * _larger(arb(1), (tilt * self._at(z)).exp())

    def _path_abs_error(self, tilt: arb) -> arb:
        """Of E[e^{s D}; left <= z <= right], Re s = tilt, 0 <= Im s <= height: ellipses, and the left side."""
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
        low, high = (self.right - thin, self.right + thin) if panel.is_side else (middle - wide, middle + wide)
        centre, reach = (middle, wide) if panel.is_side else (self.shift, thin)
        top, bottom = centre + reach, centre - reach
        if not (self.a * top <= arb.pi() / 2 and -self.a * bottom <= arb.pi() / 2):
            raise EngineDeclines("a path that leaves where its integrand is bounded")
        near = _larger(low, -high, arb(0))
        ends = [self._pair(z) for z in (low, high)]
        rises = self.height * (self.a * (-bottom).max(0)).sin() * _larger(*(up + down for up, down in ends))
        exponent = _larger(arb(0), *(tilt * (up - down) for up, down in ends))
        return ((top * top - near * near) / 2 + rises + exponent).exp() / self.root

    def _moment(self, tilt: arb) -> arb:
        """Not below E[e^{tilt D}; left <= z <= right]."""
        found = sum((weight * (tilt * difference).exp() for difference, weight in self._path), acb(0))
        return found.real + self._path_abs_error(tilt)

    # The line.

    def _transforms(self) -> list[acb]:
        """E[e^{s D}] at all nodes: powers of one number for each point of the path, as a product of matrices."""
        count = self.plan.nodes + 1
        columns = math.isqrt(count)
        weights = [weight * (self.tilt * difference).exp() for difference, weight in self._path]
        *near, leap = _powers([(acb(0, 1) * self.step * difference).exp() for difference, _ in self._path], columns)
        far = [
            [weight * turn for weight, turn in zip(weights, turns, strict=True)]
            for turns in _powers(leap, (count - 1) // columns)
        ]
        return (acb_mat(far) * acb_mat(near).transpose()).entries()[:count]

    def _sum_nodes(self, transforms: list[acb]) -> arb:
        total, turns = arb(0), _powers([(acb(0, -1) * self.step * self.k).exp()], self.plan.nodes)
        for m, (transform, (turn,)) in enumerate(zip(transforms, turns, strict=True)):
            s = acb(self.tilt, m * self.step)
            term = (_power(transform, self.n) * turn / (s * s)).real
            total += 2 * term if m else term
        return total * self.weight_at / self.period

    def _beyond(self, missing: arb) -> arb:
        """What nodes above the last one have at most."""
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
        total = total / self.root + self._path_abs_error(self.tilt)
        total += turn * (self._end(self.left, self.tilt) + self._end(self.right, self.tilt))
        most = (turn * turn / 2).exp() * total + missing
        return self.weight_at * most**self.n / (arb.pi() * self.height)

    def enclose(self) -> tuple[arb, arb]:
        """Both ends."""
        missing = _below(self.left) if self.plan.keeps_jumps else _below(self.left) + _below(-self.right)
        transforms = self._transforms()
        path_error = self._path_abs_error(self.tilt)
        moment = transforms[0].real + path_error
        size = abs(self.tilt)
        reach = (1 / (self.period * size * size) + 1 / (2 * size)) * self.weight_at * self.n

        def error(each: arb) -> arb:
            return reach * each * (moment + each) ** (self.n - 1)

        found = self._sum_nodes(transforms)
        beyond = self._beyond(missing)
        explicit, alias = self._alias_put(missing) if self.of.is_put else self._alias_call(missing)
        lowest, highest = (arb(0), arb(0)) if self.of.is_put else self._jumps()
        lower = found - explicit - alias - error(path_error) - beyond + lowest
        return lower, found - explicit + error(path_error + missing) + beyond + highest

    # What lies a period away, and sums with a larger z.

    def _kept(self, missing: arb) -> tuple[arb, arb]:
        """Mass and mean of the sum of those z that are kept, with and without those that count as 0."""
        mass = _below(self.right) - _below(self.left)
        mean = _below(self.right - self.a) - _below(self.left - self.a)
        mean -= self.t * (_below(self.right + self.a) - _below(self.left + self.a))
        least, most = mass ** (self.n - 1), (mass + missing) ** (self.n - 1)
        both = least.union(most)
        return (least * mass).union(most * (mass + missing)), self.n * mean * both

    def _alias_put(self, missing: arb) -> tuple[arb, arb]:
        """Of a sum that is not negative."""
        if not self.k <= self.period:
            raise EngineDeclines("a period that is too short")
        mass, mean = self._kept(missing)
        ratio = (self.tilt * self.period).exp()
        times = _geometric(ratio)
        explicit = (self.k * mass - mean) * times + self.period * mass * ratio / (1 - ratio) ** 2
        return explicit, mean.upper() * times

    def _alias_call(self, missing: arb) -> tuple[arb, arb]:
        mass, mean = self._kept(missing)
        ratio = (-self.tilt * self.period).exp()
        explicit = (mean - self.k * mass) * _geometric(ratio) + self.period * mass * ratio / (1 - ratio) ** 2
        tilt = arb(self.plan.call_tilt)
        most = (self._moment(tilt) + missing) ** self.n * (-tilt * self.k).exp() / (arb(1).exp() * tilt)
        alias = most * _geometric((-(tilt - self.tilt) * self.period).exp())
        if not self.of.is_exchanged:  # no sum is negative
            if not self.k <= self.period:
                raise EngineDeclines("a period that is too short")
            return explicit, alias
        tilt = arb(self.plan.put_tilt)
        most = (self._moment(-tilt) + missing) ** self.n * (tilt * self.k).exp() / (arb(1).exp() * tilt)
        return explicit, alias + most * _geometric((-(tilt + self.tilt) * self.period).exp())

    def _jumps(self) -> tuple[arb, arb]:
        """What sums with z > right add at least and at most, and those with z < left at most."""
        n, k, a, t = self.n, self.k, self.a, self.t
        # where D is negative it counts as 0, which is more
        left = arb(0) if self._at(self.left) <= 0 else n * _below(self.left - a)
        if not self.plan.keeps_jumps:
            return arb(0), n * _below(a - self.right) + left
        jump, mass = self._at(self.right), _below(self.right)
        kept = _below(self.right - a) - t * _below(self.right + a)
        # E[S - k; some z > right] = E[S - k] - E[S - k; no z > right]
        exact = n * (1 - t - kept) + n * kept * (1 - mass ** (n - 1)) - k * (1 - mass**n)
        if not self.of.is_exchanged:
            if not jump >= k:
                raise EngineDeclines("a jump that does not suffice")
            return exact, exact + left
        beyond = jump - k - (n - 1) * (t - 1)
        if not beyond > 0:
            raise EngineDeclines("a jump that does not suffice")
        square = (a * a).exp()
        variance = (n - 1) * ((1 + t * t) * (square - 1) + 2 * t * (1 - 1 / square))
        return exact.max(0), exact + n * _below(-self.right) * variance / (4 * beyond) + left
