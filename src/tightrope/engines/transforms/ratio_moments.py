"""E[R^w] of the ratio R = dP/dQ of a pass with normal noise, w complex: in balls.

Gamma(n - w) E[R^w] is the integral over x of e^{(n - w) x} E[R^n e^{-e^x R}], and the trapezoidal rule for it
misses less than any power of its step. theorems/proofs/ratio_moments.md derives every term of the error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import acb, arb, arb_mat, arb_poly, ctx
from scipy.special import digamma, gammaln, polygamma

from tightrope.engines.face import EngineDeclines
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats, short

CUT_NORMALS = 16.0  # deviations at which normals are cut, at the least; what is beyond is charged
MOST_NORMAL_SHIFT = 3.0  # of z into the plane
TURN = 1.45  # of x into the plane, below pi / 2
SPARE_BITS = 64  # of balls, beyond those that cancel
MOST_RULE_NODES = 20_000
NEARER = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # by how much exponents differ that bound what is cut off
LARGEST_ARGUMENT, LEAST_EXPONENTIAL = 597.0, 2.0**-860  # e^-x of a larger x is from 0 to that: 860 ln 2 < 597
KEPT_TABLES = 16


@dataclass(frozen=True)
class RatioLaw:
    """R = (batches - seen + V_1 + ... + V_seen) / batches, V = exp(a z - a^2 / 2), z standard normal."""

    separation: Fraction
    batches: int
    seen: int

    def log_moment_above(self, exponent: float) -> float:
        """About ln of a bound on E[R^exponent]; `RatioTable` has the bound itself."""
        a = float(self.separation)
        return max(a * a * exponent * (exponent - 1) / 2, 0.0)


def _log_peak(gap: float) -> float:
    """ln of the largest y^gap e^-y."""
    return gap * math.log(gap) - gap if gap > 0 else 0.0


@dataclass(frozen=True)
class RatioLattice:
    """Where E[R^n e^{-e^x R}] is tabulated: at whole numbers of steps x.

    `shift` is by how much z is moved into the plane to bound what sums over z miss, `far` how many deviations
    these reach. All of it is a plan: a table charges what it misses on any lattice.
    """

    step: float
    first: int
    last: int
    shift: float
    far: float
    bits: int


def plan_lattice(
    law: RatioLaw, power: int, exponents: tuple[float, float], height: float, log_error: float
) -> RatioLattice:
    """One that tells moments to about e^log_error, for exponents between two and heights up to one."""
    wanted = (1 + math.pi / 2) * height - log_error + 8  # what Gamma(n - w) is smaller by, and the rest
    a = float(law.separation)
    shift = min(math.pi / (3 * a), MOST_NORMAL_SHIFT)
    turned = TURN * 2 * math.pi / (wanted + TURN * height)
    shifted = 2 * math.pi * shift * a / (wanted + shift**2 / 2 + math.log(law.seen))
    step = short(min(turned, shifted))
    low = min(_find_end(law, power, b, wanted, 1) for b in exponents)
    high = max(_find_end(law, power, b, wanted, -1) for b in exponents)
    first, last = math.floor(low / step), math.ceil(high / step)
    if last - first > MOST_RULE_NODES:
        raise EngineDeclines("moments of a pass that take too many points")
    bits = SPARE_BITS + math.ceil(wanted / math.log(2)) + 2 * law.seen.bit_length()
    return RatioLattice(step, first, last, shift, CUT_NORMALS, bits)


def _find_end(law: RatioLaw, power: int, exponent: float, wanted: float, side: int) -> float:
    """Where the lattice may end: beyond, the sum is below e^-wanted."""
    ends = []
    for further in NEARER:
        other = exponent + side * further
        if other <= power:
            log_most = _log_peak(power - other) + law.log_moment_above(other)
            ends.append((wanted + log_most - float(gammaln(power - exponent))) / further)
    return -side * max(min(ends), 1.0)


class RatioTable:
    """E[R^n e^{-e^x R}] at the points x of a lattice, in balls."""

    def __init__(self, law: RatioLaw, power: int, lattice: RatioLattice) -> None:
        self.law, self.power, self.lattice = law, power, lattice
        self.step, self.first, self.last = lattice.step, lattice.first, lattice.last
        self.bits = lattice.bits
        with ctx.workprec(self.bits):
            self.values = self._tabulate()

    def _tabulate(self) -> list[arb]:
        """n! times the coefficient of y^n in e^{(y - s) unseen / T} (sum_k (y / T)^k phi_k / k!)^seen.

        phi_k = E[V^k e^{-s V / T}], s = e^x, T batches. All numbers are positive.
        """
        law, n = self.law, self.power
        sums = self._sum_ratios()
        unseen = ball(Fraction(law.batches - law.seen, law.batches))
        scales = [math.factorial(k) * arb(law.batches) ** k for k in range(n + 1)]
        found = []
        for i, row in enumerate(zip(*sums, strict=True), start=self.first):
            terms = [phi / scale for phi, scale in zip(row, scales, strict=True)]
            whole = raise_poly(arb_poly(terms), law.seen, n + 1)
            if law.batches > law.seen:
                decay = (-(arb(self.step) * i).exp() * unseen).exp()
                whole *= arb_poly([decay * unseen**k / math.factorial(k) for k in range(n + 1)])
            found.append(whole[n] * math.factorial(n))
        return found

    def _sum_ratios(self) -> list[list[arb]]:
        """phi_k at every point, by the trapezoidal rule in z, whose step makes s V a lattice as well."""
        law, n, step = self.law, self.power, arb(self.step)
        a = ball(law.separation)
        far = self.lattice.far
        low = math.floor(-far * float(a) / self.step)
        high = math.ceil((far + n * float(a)) * float(a) / self.step)
        sizes = (
            (step * i - a * a / 2).exp() / law.batches for i in range(self.first + low, self.last + high + 1)
        )
        decays = [arb(0, LEAST_EXPONENTIAL) if size > LARGEST_ARGUMENT else (-size).exp() for size in sizes]
        places = [step * j / a for j in range(high, low - 1, -1)]
        weights = [(-z * z / 2).exp() * step / (a * (2 * arb.pi()).sqrt()) for z in places]
        ratios = [(a * z - a * a / 2).exp() for z in places]
        largest = (a * places[0] - a * a / 2).exp() / law.batches
        decays_beyond = [(-(step * i).exp() * largest).exp() for i in range(self.first, self.last + 1)]
        all_decays, found = arb_poly(decays), []
        for k in range(n + 1):
            products = arb_poly(weights) * all_decays
            row = [products[high - low + i] for i in range(self.last - self.first + 1)]
            found.append(self._charge(row, k, (places[-1], places[0]), decays_beyond))
            weights = [weight * ratio for weight, ratio in zip(weights, ratios, strict=True)]
        return found

    def _charge(self, row: list[arb], k: int, ends: tuple[arb, arb], decays_beyond: list[arb]) -> list[arb]:
        """Each with what the rule may miss of it: between its points, and beyond both ends of them.

        `decays_beyond` are e^{-s V / T} at the upper end, which no larger V exceeds.
        """
        least, most = ends
        a, step = ball(self.law.separation), arb(self.step)
        moment = (a * a * k * (k - 1) / 2).exp()
        theta = arb(self.lattice.shift)
        alias = (2 * arb.pi() * theta * a / step).exp() - 1
        lower = math.ceil(math.log(2) / self.step)  # points, to one whose s is at most half as large
        if not ((a * theta).cos() >= (-step * lower).exp() and alias > 0 and least < k * a < most):
            raise EngineDeclines("moments of a pass that are not told")
        rule = 2 * (theta * theta / 2).exp() / alias
        root = arb(2).sqrt()
        below = moment * ((k * a - least) / root).erfc() / 2
        above = moment * ((most - k * a) / root).erfc() / 2
        unit = arb(0, 1)
        found: list[arb] = []
        for i, (value, decay) in enumerate(zip(row, decays_beyond, strict=True)):
            turned = found[i - lower].upper() if i >= lower else moment
            missed = rule * turned + below + above * decay
            found.append(value + unit * missed.upper())
        return found

    @cached_property
    def _logs(self) -> tuple[Floats, Floats]:
        """The points, and about ln of what is there."""
        with ctx.workprec(self.bits):
            logs = [float(value.mid().log()) if value.mid() > 0 else -math.inf for value in self.values]
        points = np.arange(self.first, self.last + 1, dtype=float)
        return np.asarray(self.step * points, dtype=float), np.array(logs)

    def guess_cumulants(self, exponent: float) -> tuple[float, float, float]:
        """About ln E[R^exponent], and its first two derivatives."""
        x, logs = self._logs
        terms = logs + (self.power - exponent) * x
        top = float(terms.max())
        weights = np.exp(terms - top)
        total = float(weights.sum())
        mean = float(weights @ x) / total
        spread = float(weights @ (x - mean) ** 2) / total
        gap = self.power - exponent
        log_moment = top + math.log(total * self.step) - float(gammaln(gap))
        return log_moment, float(digamma(gap)) - mean, spread - float(polygamma(1, gap))

    def moments(self, exponent: arb, heights: Sequence[arb]) -> list[acb]:
        """E[R^w] for w = exponent + i height."""
        step, n, start = arb(self.step), self.power, self.first
        gap = n - exponent
        decay = (gap * step).exp()
        factor, terms = (gap * step * start).exp() * step, []
        for value in self.values:
            terms.append(value * factor)
            factor *= decay
        beyond = self._bound_end(exponent, 1) + self._bound_end(exponent, -1)
        theta = arb(TURN)
        ratio = (-theta * 2 * arb.pi() / step).exp()
        # of all periods but one, relative to Gamma(gap) E[R^exponent], but for e^{theta height}
        alias = 2 * theta.cos() ** (-gap) * ratio / (1 - ratio)
        if not 2 * alias < 1:
            raise EngineDeclines("moments of a pass that are not told")
        whole = (sum(terms, arb(0)) + beyond) / (1 - alias)
        found = []
        for height, turned in zip(heights, turn_terms(terms, self.first, self.step, heights), strict=True):
            error = arb(0, 1) * (beyond + alias * (theta * abs(height)).exp() * whole).upper()
            found.append((turned + acb(error, error)) / acb(gap, -height).gamma())
        return found

    def _bound_end(self, exponent: arb, side: int) -> arb:
        """What the points beyond one end of the lattice would add at most."""
        a, n, step = ball(self.law.separation), self.power, arb(self.step)
        distance = step * (1 - self.first if side > 0 else self.last + 1)
        found = []
        for further in NEARER:
            other = exponent + side * arb(further)
            gap = n - other
            if not gap > 0:
                continue
            moment = (a * a * other * (other - 1) / 2).exp().max(1)
            peak = (gap / arb(1).exp()) ** gap
            found.append(step * moment * peak * (-further * distance).exp() / (1 - (-further * step).exp()))
        return min(found, key=lambda each: float(each.upper().log()) if each > 0 else math.inf)


def turn_terms(terms: list[arb], first: int, step: float, heights: Sequence[arb]) -> list[acb]:
    """The sum of the terms times e^{-i height x}, x = step * (first + 0, 1, ...).

    In rows, since powers of a ball that turns it grow.
    """
    width = math.isqrt(len(terms)) + 1
    rows = [terms[i : i + width] for i in range(0, len(terms), width)]
    rows[-1] += [arb(0)] * (width - len(rows[-1]))
    angles = [-height * step for height in heights]
    turned = [[(angle * i).sin_cos() for angle in angles] for i in range(width)]
    matrix = arb_mat(rows)
    imag, real = (matrix * arb_mat([[both[part] for both in row] for row in turned]) for part in (0, 1))
    found = []
    for k, angle in enumerate(angles):
        far = (acb(0, angle * (first + i * width)).exp() for i in range(len(rows)))
        found.append(sum((acb(real[i, k], imag[i, k]) * turn for i, turn in enumerate(far)), acb(0)))
    return found


def raise_poly(base: arb_poly, exponent: int, length: int) -> arb_poly:
    """So many coefficients of a power."""
    found = base
    for digit in bin(exponent)[3:]:
        found = (found * found).truncate(length)
        if digit == "1":
            found = (found * base).truncate(length)
    return found


@lru_cache(maxsize=KEPT_TABLES)
def tabulate_ratio(
    law: RatioLaw, power: int, exponents: tuple[float, float], height: float, log_error: float
) -> RatioTable:
    """A table, kept."""
    return RatioTable(law, power, plan_lattice(law, power, exponents, height, log_error))
