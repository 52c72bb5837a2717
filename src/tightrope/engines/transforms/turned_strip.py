"""What a rule in x = ln r may miss of the curve of a pass: the integrand on two lines beside it.

theorems/proofs/turned_curve.md, numbers 4 and 5.
"""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.numerics.balls import ball, ceil_float
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

STRIP_WIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0)  # of a line from the axis: which are tried
X_CELL, ROUGH_X_CELL = 0.02, 0.2  # of x, in which a bound is the same; where it only plans
FURTHEST_POINTS = 10.0  # of the rule in z, in deviations; what is beyond is charged
POINTS_APART = 0.1  # of that rule, times the separation
LAPLACE_CELLS = tuple(0.1 * i for i in range(-90, 91))  # cells of z
LOG_SPARE = 2.0  # below what may be wrong, of each part of the error
PER_STRIP = 4  # epsilons that are tried
TERM_ROUNDINGS = 32  # of each term of a sum of floats: fewer (proofs/turned_curve.md, The rule)
LAPLACE_ROOM = 1 + 1e-12  # for roundings: proofs/turned_curve.md, 5
HALF_CELL, STRIP_ROOM = 0.500001, 1.001  # likewise
HIGHEST_X = 12.0  # x, where every line ends
MEAN_BITS = 80  # of balls, for means that are rounded up

Complexes = NDArray[np.complex128]


@lru_cache(maxsize=4)
def _masses() -> tuple[Floats, Floats]:
    """Left ends of cells of z, and not less than their masses; the last is all beyond."""
    with ctx.workprec(MEAN_BITS):
        root = arb(2).sqrt()
        tails = [(ball(z) / root).erfc() / 2 for z in LAPLACE_CELLS]
        masses = [ceil_float(high - low) for high, low in zip(tails, [*tails[1:], arb(0)], strict=True)]
        return np.array([-math.inf, *LAPLACE_CELLS]), np.array([ceil_float(1 - tails[0]), *masses])


def bound_laplace(law: PairLaw, rate: float) -> float:
    """Not below E e^{-rate e^{a z}}: each cell of z with what it has at its left end."""
    places, masses = _masses()
    values = np.exp(-rate * np.exp(float(law.separation) * places))
    return min(float(values @ masses) * LAPLACE_ROOM + 1e-300, 1.0)


class Strip:
    """Bounds on the integral of the integrand along both lines, at multiples of a spacing of epsilon."""

    def __init__(self, law: PairLaw, width: float, spacing: float, count: int, cells: float = X_CELL) -> None:
        self.law, self.width, self.spacing = law, width, spacing
        self.a, self.n = float(law.separation), law.batches
        self.per = math.ceil(spacing / cells)
        self.cell = spacing / self.per
        self.enlarged = math.exp((math.pi / (2 * self.a)) ** 2 / 2)
        if not math.cos(width) >= math.exp(-1) + 1e-9:
            raise EngineDeclines("a strip that is too wide")
        self.end = self._find_end()
        self.first = math.floor(min(self._start(spacing * i) for i in (0, count)) / self.cell)
        self.x = self.cell * np.arange(self.first, math.ceil(self.end / self.cell) + 4)

    def _start(self, epsilon: float) -> float:
        """From where on cells are looked at."""
        a = self.a
        return min(-1.5 * a * a - epsilon, -a * a / 2 - math.log(2 * self.n) - epsilon)

    def _find_end(self) -> float:
        """From which x + epsilon on no power exceeds 1."""
        a, d = self.a, self.width
        turns = [d + (math.pi / 2 - d) * part / 8 for part in range(1, 8)]
        x = -a * a / 2
        while x < HIGHEST_X:
            rate = math.exp(x)
            for psi in turns:
                laplace = bound_laplace(self.law, rate * math.sin(psi - d))
                if psi**2 / (2 * a * a) + math.log(laplace) <= -1e-9:
                    return x
            x += 0.1
        raise EngineDeclines("a strip without an end")

    @cached_property
    def _losses(self) -> tuple[Complexes, Complexes]:
        """About 1 - E e^{-e^{x + i width} e^{a z}} over the turned normal, and for - width."""
        a, theta = self.a, math.pi / (2 * self.a)
        unit = POINTS_APART / a
        z = unit * np.arange(math.floor(-FURTHEST_POINTS / unit), math.ceil((FURTHEST_POINTS + a) / unit) + 1)
        weights = unit * np.exp(-((z + 1j * theta) ** 2) / 2) / math.sqrt(2 * math.pi)
        sizes = np.exp(np.add.outer(self.x, a * z))
        turn = complex(math.cos(self.width), math.sin(self.width))
        return -(np.expm1(-turn * sizes) @ weights), -(np.expm1(-turn.conjugate() * sizes) @ weights)

    @cached_property
    def _losses_abs_error(self) -> float:
        """Of each: between points of z, beyond them, and rounding."""
        a, theta = self.a, math.pi / (2 * self.a)
        unit = POINTS_APART / a
        shift = theta - self.width / a
        between = 2 * math.exp((theta + shift) ** 2 / 2) + 2 * math.exp((theta - shift) ** 2 / 2)
        between /= math.expm1(2 * math.pi * shift / unit)
        beyond = 4 * self.enlarged * math.erfc(FURTHEST_POINTS / math.sqrt(2))
        points = (2 * FURTHEST_POINTS + a) / unit + TERM_ROUNDINGS
        return (between + beyond + 4 * points * UNIT_ROUNDOFF * self.enlarged) * (1 + 1e-9)

    @cached_property
    def _means(self) -> Floats:
        """Not below E min(1, e^x e^{a z}) in each cell."""
        with ctx.workprec(MEAN_BITS):
            a, root = ball(self.law.separation), arb(2).sqrt()
            found = []
            for x in self.x.tolist():
                top = arb(x) + arb(self.cell) * HALF_CELL
                z = -top / a
                mean = (top + a * a / 2).exp() * ((a - z) / root).erfc() / 2 + (z / root).erfc() / 2
                found.append(ceil_float(mean))
        return np.array(found)

    def bound(self, i: int) -> float:
        """At epsilon = i spacing: of both lines together."""
        epsilon, n = self.spacing * i, self.n
        t, a = math.exp(epsilon), self.a
        shift = i * self.per
        begin = math.floor(self._start(epsilon) / self.cell) - self.first
        end = math.ceil(self.end / self.cell) - shift - self.first + 1
        own, others = slice(begin, end + 1), slice(begin + shift, end + shift + 1)
        x, means = self.x[own], self._means[own] + self._means[others]
        least = np.minimum(self._means[own], self._means[others])
        products = np.minimum(np.exp(2 * x + self.cell + epsilon) * (1 + 1e-9), least)
        error = self.enlarged * (self.cell / 2 * means + 4 * products) + 2 * self._losses_abs_error
        weights = self.cell * np.exp(-(x - self.cell / 2) - a * a / 2)
        most = n * 2 * self.enlarged * means  # of 1 - power, where that does not exceed 1
        total = 0.0
        for one, other in (self._losses, self._losses[::-1]):
            sizes = np.abs(1 - one[own] - np.conj(other[others])) + error
            log_powers = n * np.log(sizes)
            if not float(log_powers.max()) < 600:
                return math.inf
            powers = np.exp(log_powers)
            total += float(np.minimum(1 + powers, most * np.maximum(powers, 1)) @ weights)
        r = math.exp(self.cell * (begin + self.first + 0.5) + a * a / 2)
        square = math.exp(2 * a * a) * (1 + t * t) + 2 * t
        linear = n * self.enlarged * r * (1 + t)
        below = n * self.enlarged * r * math.exp(-a * a) * square / 2 + linear**2 * math.exp(linear) / 2 / r
        last = math.exp(self.cell * (end + self.first - 0.5) + a * a / 2)
        mean = n * (t - 1) / math.sin(2 * self.width)
        return (total + 2 * (below + 2 / last + mean)) * STRIP_ROOM


def choose_strip(law: PairLaw, epsilons: Sequence[float], log_errors: Sequence[float]) -> tuple[float, float]:
    """The strip with the widest step of x, and that step."""
    count = len(epsilons) - 1
    chosen = sorted({count * part // (PER_STRIP - 1) for part in range(PER_STRIP)})
    found = []
    for width in STRIP_WIDTHS:
        strip = Strip(law, width, max(epsilons[-1], ROUGH_X_CELL) / max(count, 1), count, ROUGH_X_CELL)
        needed = 0.0
        for i in chosen:
            bound = strip.bound(i) / (math.pi * law.batches)
            if bound == math.inf:
                break
            needed = max(needed, math.log(bound) - log_errors[i] + LOG_SPARE)
        else:
            found.append((2 * math.pi * width / needed, width))
    if not found:
        raise EngineDeclines("a curve without a strip")
    widest, width = max(found)
    return width, widest
