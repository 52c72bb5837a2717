"""E(S - k)_+ of a sum S of differences, between two numbers, by an integral along a line: in balls.

E(S - k)_+ is the integral of e^{-s k} E[e^{s S}] / s^2 / (2 pi i) along Re s = tilt > 0, and E(k - S)_+ that
for tilt < 0. theorems/proofs/line_integrals.md derives every term of the error; what is computed is a sum
over nodes of the line, of powers of sums over points of a path. Balls carry all rounding.
"""

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from flint import acb, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.path import TurnedPath, list_powers
from tightrope.engines.lines.plan import LinePlan, PassOrder, plan_line
from tightrope.numerics.balls import ball, ceil_float, floor_float

KEPT_ENDS, KEPT_PATHS = 4096, 2


@lru_cache(maxsize=KEPT_ENDS)
def enclose_curve(of: PassOrder, log_error: float, near: float | None = None) -> tuple[float, float]:
    """Not above and not below the curve of the pass there, about e^log_error apart; or EngineDeclines.

    Several epsilons share the line for one that is `near`, and the path too unless the record is exchanged.
    """
    if of.is_put:
        _, least, _ = of.at_order(of.order)
        if least <= 0:  # no ratio is below that of the batches that are not seen
            return 0.0, 0.0
        if not least > 0:
            raise EngineDeclines("a threshold too close to 0")
    planned = of if near is None else replace(of, epsilon=near, exact_order=None)
    plan = plan_line(planned, log_error)
    with ctx.workprec(plan.bits):
        line = PassLine(of, plan)
        lower, upper = (line.scale * end for end in line.enclose())
        if not (lower.is_finite() and upper.is_finite()):
            raise EngineDeclines("a line integral that has no bounds")
        return max(floor_float(lower), 0.0), min(ceil_float(upper), 1.0)


def _power(base: acb, exponent: int) -> acb:
    """By squaring: a ball around 0 stays one."""
    found = acb(1)
    for digit in bin(exponent)[2:]:
        found *= found
        if digit == "1":
            found *= base
    return found


def _below(z: arb) -> arb:
    """The standard normal distribution function."""
    return (-z / arb(2).sqrt()).erfc() / 2


def _geometric(ratio: arb) -> arb:
    """ratio + ratio^2 + ..."""
    if not ratio < 1:
        raise EngineDeclines("a period that is too short")
    return ratio / (1 - ratio)


@lru_cache(maxsize=KEPT_PATHS)
def _ratio_path(separation: Fraction, plan: LinePlan) -> TurnedPath:
    """Of ratios that are not exchanged, whatever the order is."""
    return TurnedPath(ball(separation), arb(0), plan)


class PassLine:
    """The sum over nodes for one order, at the working precision."""

    def __init__(self, of: PassOrder, plan: LinePlan) -> None:
        self.of, self.plan, self.n, self.a = of, plan, of.count, ball(of.separation)
        self.t, self.k, self.scale = of.at_order(of.order)
        self.path = self._make_path()
        self.left, self.right = arb(plan.left), arb(plan.right)
        self.tilt, self.period = arb(plan.tilt), arb(plan.period)
        self.weight_at = (-self.tilt * self.k).exp()

    def _make_path(self) -> TurnedPath:
        of, plan = self.of, self.plan
        return TurnedPath(self.a, self.t, plan) if of.is_exchanged else _ratio_path(of.separation, plan)

    def _first_moment(self) -> arb:
        """E[e^{tilt D}; left <= z <= right], but for what the path misses."""
        return self.path.transforms[0].real

    def _sum_nodes(self) -> arb:
        transforms = self.path.transforms
        total, turns = arb(0), list_powers([(acb(0, -1) * self.path.step * self.k).exp()], self.plan.nodes)
        for m, (transform, (turn,)) in enumerate(zip(transforms, turns, strict=True)):
            s = acb(self.tilt, m * self.path.step)
            term = (_power(transform, self.n) * turn / (s * s)).real
            total += 2 * term if m else term
        return total * self.weight_at / self.period

    def _beyond(self, missing: arb) -> arb:
        """What nodes above the last one have at most."""
        most = self.path.most_beyond + missing
        return self.weight_at * most**self.n / (arb.pi() * self.path.height)

    def enclose(self) -> tuple[arb, arb]:
        """Both ends."""
        missing = _below(self.left) if self.plan.keeps_jumps else _below(self.left) + _below(-self.right)
        path_error = self.path.abs_error(self.tilt)
        moment = self._first_moment() + path_error
        size = abs(self.tilt)
        reach = (1 / (self.period * size * size) + 1 / (2 * size)) * self.weight_at * self.n

        def error(each: arb) -> arb:
            return reach * each * (moment + each) ** (self.n - 1)

        found = self._sum_nodes()
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
        most = self._chernoff(tilt, missing)
        alias = most * _geometric((-(tilt - self.tilt) * self.period).exp())
        if not self.of.is_exchanged:  # no sum is negative
            if not self.k <= self.period:
                raise EngineDeclines("a period that is too short")
            return explicit, alias
        tilt = arb(self.plan.put_tilt)
        most = self._chernoff(-tilt, missing)
        return explicit, alias + most * _geometric((-(tilt + self.tilt) * self.period).exp())

    def _chernoff(self, tilt: arb, missing: arb) -> arb:
        """A bound on E(S - k)_+, or for a negative tilt on E(k - S)_+, as e t x <= e^{tx} for t > 0."""
        moment = (self.path.bound_moment(tilt) + missing) ** self.n
        return moment * (-tilt * self.k).exp() / (arb(1).exp() * abs(tilt))

    def _jumps(self) -> tuple[arb, arb]:
        """What sums with z > right add at least and at most, and those with z < left at most."""
        n, k, a, t = self.n, self.k, self.a, self.t
        # where D is negative it counts as 0, which is more
        left = arb(0) if self.path.at(self.left) <= 0 else n * _below(self.left - a)
        if not self.plan.keeps_jumps:
            return arb(0), n * _below(a - self.right) + left
        jump, mass = self.path.at(self.right), _below(self.right)
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
