"""E[A^{1 + z} B^-z] of the two ratios A, B of a pass in which a record is exchanged, z complex: in balls.

Gamma(n - 1 - z) Gamma(z) E[A^{1 + z} B^-z] is the integral over x and y of
e^{(n - 1 - z) x + z y} E[A^n e^{-e^x A - e^y B}], and the trapezoidal rule on a lattice misses less
than any power of its step. theorems/proofs/exchanged_moments.md derives every term of the error.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from flint import acb, arb, arb_mat, arb_poly, ctx
from scipy.special import digamma, gammaln, loggamma, polygamma

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.pair_moments import (
    LINE_PARTS,
    LOG_RUN_DECAY,
    Area,
    PairLaw,
    bound_beyond,
    choose_area,
)
from tightrope.engines.transforms.ratio_moments import (
    LARGEST_ARGUMENT,
    LEAST_EXPONENTIAL,
    MOST_NORMAL_SHIFT,
    SPARE_BITS,
    raise_poly,
    turn_terms,
)
from tightrope.engines.transforms.transform import keep_refusals
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats, short

SUM_TURNS = tuple(0.05 * i for i in range(10, 31))  # of x and y into the plane, below pi / 2
PER_NODE, PER_PRODUCT = 40e-6, 16e-9  # seconds, about: of a point, and of each of its powers in each place
KEPT_TABLES = 24
CHARGED, CHARGED_POINTS = 8.0, 400  # deviations, and points in them: where products of normals are largest
COLUMNS_TOGETHER = 12  # columns whose products are taken together

Ends = tuple[int, int]
Tilts = tuple[float, float]


def _log_kernel(power: int, c: float, height: float) -> float:
    """ln of the size of Gamma(n - 1 - z) Gamma(z), z = c + i height."""
    return float(loggamma(complex(power - 1 - c, height)).real + loggamma(complex(c, height)).real)


@dataclass(frozen=True)
class PairLattice:
    """Where E[A^n e^{-e^x A - e^y B}] is tabulated: at whole numbers of steps x and y.

    `turn` and `shift` are by how much x and y, and z, are moved into the plane to bound what sums miss,
    `finer` is how many points of V there are between those of x, `far` how many deviations they reach. All
    of it is a plan: a table charges what it misses on any lattice.
    """

    step: float
    area: Area
    turn: float
    shift: float
    finer: int
    far: float
    bits: int

    def find_normal_ends(self, law: PairLaw, power: int) -> Ends:
        """Of the points of V."""
        a, fine = float(law.separation), self.step / self.finer
        return math.floor(-self.far * a / fine), math.ceil((self.far + power * a) * a / fine)


def plan_pair_lattice(
    law: PairLaw, power: int, tilts: Tilts, height: float, log_error: float, patience: float = math.inf
) -> PairLattice:
    """One that tells moments to about e^log_error, for tilts between two and heights up to one."""
    # what Gamma(n - 1 - z) Gamma(z) is smaller by, and the rest
    parts = (height * part / LINE_PARTS for part in range(LINE_PARTS + 1))
    wanted = max(_find_loss(law, power, tilts, part, height, log_error) for part in parts)
    a = float(law.separation)
    turn, rate = _choose_turn(power, wanted, height)
    shift = min(math.pi / (3 * a), MOST_NORMAL_SHIFT)  # of z
    step = short(2 * math.pi / rate)
    bits = SPARE_BITS + math.ceil(wanted / math.log(2)) + 2 * law.seen.bit_length()
    with ctx.workprec(bits):
        area = choose_area(law, power, tilts, step, wanted)
    charged = wanted + _find_charge(law, power, step * area.x_ends[0])
    shifted = 2 * math.pi * shift * a / (charged + shift**2 / 2 + math.log(law.seen))
    finer = max(math.ceil(2 * math.pi / rate / shifted), 1)
    lattice = PairLattice(step, area, turn, shift, finer, math.sqrt(2 * wanted) + 2, bits)
    low, high = lattice.find_normal_ends(law, power)
    if area.size * (PER_NODE + PER_PRODUCT * (high - low) * (power + 1)) > patience:
        raise EngineDeclines("moments of a pass that take too long")
    return lattice


def _find_loss(law: PairLaw, power: int, tilts: Tilts, height: float, most: float, log_error: float) -> float:
    """How many natural logarithms are lost down to what may be wrong at one height of a line."""
    fall = max(_log_kernel(power, c, 0.0) - _log_kernel(power, c, height) for c in tilts)
    if not height:
        return fall - log_error + 3
    # where moments have decayed, much less than at height 0 is asked of those of so many passes together
    passes = max(2 * LOG_RUN_DECAY / (law.normal_variance * most**2), 2.0)
    decay = LOG_RUN_DECAY * (height / most) ** 2
    return fall + decay / passes + math.log(passes) + max(-log_error - decay, 0.0) + 3


def _find_charge(law: PairLaw, power: int, x: float) -> float:
    """By how many natural logarithms E[V^k e^{-e^x V / T}] is below E[V^k], which bounds first columns."""
    a, k = float(law.separation), np.arange(power + 1)[:, None]
    z = np.linspace(-CHARGED, CHARGED + power * a, CHARGED_POINTS)
    log_ratio = a * z - a * a / 2
    logs = k * log_ratio - np.exp(np.minimum(log_ratio + x, 600.0)) / law.batches - z * z / 2
    return max(float((a * a * k[:, 0] * (k[:, 0] - 1) / 2 - logs.max(axis=1)).max()), 0.0)


def _choose_turn(power: int, wanted: float, height: float) -> tuple[float, float]:
    """The turn whose lattice is coarsest, and its 2 pi / step."""
    sizes = ((turn, wanted - (power - 1) * math.log(math.cos(turn)) + 2) for turn in SUM_TURNS)
    rates = [(max(size / turn, size / turn / 2 + height), turn) for turn, size in sizes]
    rate, turn = min(rates)
    return turn, rate


class ExchangedTable:
    """Sums over diagonals y - x = e h of a lattice, in balls."""

    def __init__(self, law: PairLaw, power: int, lattice: PairLattice) -> None:
        self.law, self.power, self.lattice = law, power, lattice
        self.step, self.area, self.bits = lattice.step, lattice.area, lattice.bits
        self.normal_ends = lattice.find_normal_ends(law, power)
        with ctx.workprec(self.bits):
            self.first, self.values = self._tabulate()

    def _tabulate(self) -> tuple[int, list[arb]]:
        """The sum over each diagonal of h^2 e^{(n - 1) x} F(x, y)."""
        n, step = self.power, arb(self.step)
        x0, x1 = self.area.x_ends
        first, last = self.area.first - x1, self.area.last - x0
        found = [arb(0)] * (last - first + 1)
        weights = [step * step * ((n - 1) * step * i).exp() for i in range(x0, x1 + 1)]
        for i, j, value in self._list_means():
            found[j - i - first] += weights[i - x0] * value
        return first, found

    def _list_means(self) -> Iterator[tuple[int, int, arb]]:
        """F = n! [t^n] e^{(t - u - s) unseen / T} (sum_k (t / T)^k phi_k / k!)^seen, u = e^x, s = e^y."""
        law, n = self.law, self.power
        unseen = ball(Fraction(law.batches - law.seen, law.batches))
        scales = [1 / (arb(math.factorial(k)) * arb(law.batches) ** k) for k in range(n + 1)]
        rest = arb_poly([unseen**k / math.factorial(k) for k in range(n + 1)])
        top = arb(math.factorial(n))
        for i, j, row in self.list_ratios():
            whole = raise_poly(arb_poly([p * q for p, q in zip(row, scales, strict=True)]), law.seen, n + 1)
            if law.batches > law.seen:
                both = (arb(self.step) * i).exp() + (arb(self.step) * j).exp()
                whole = whole * rest * (-both * unseen).exp()
            yield i, j, whole[n] * top

    def _list_decays(self) -> tuple[int, list[arb]]:
        """e^-w for w = e^x V / T on the lattice, from which point on."""
        area, fine, (low, high) = self.area, self.lattice.finer, self.normal_ends
        step, a = arb(self.step) / fine, ball(self.law.separation)
        start = min(fine * area.x_ends[0] + low, fine * area.first - high)
        end = max(fine * area.x_ends[1] + high, fine * area.last - low)
        sizes = ((step * i - a * a / 2).exp() / self.law.batches for i in range(start, end + 1))
        return start, [
            arb(0, LEAST_EXPONENTIAL) if size > LARGEST_ARGUMENT else (-size).exp() for size in sizes
        ]

    def _list_weights(self) -> tuple[list[arb], list[list[arb]]]:
        """The points of the rule in z, and their weights times V^k for each k."""
        low, high = self.normal_ends
        step, a = arb(self.step) / self.lattice.finer, ball(self.law.separation)
        places = [step * i / a for i in range(low, high + 1)]
        weights = [[(-z * z / 2).exp() * step / (a * (2 * arb.pi()).sqrt()) for z in places]]
        ratios = [(a * z - a * a / 2).exp() for z in places]
        for _ in range(self.power):
            weights.append([w * v for w, v in zip(weights[-1], ratios, strict=True)])
        return places, weights

    def list_ratios(self) -> Iterator[tuple[int, int, list[arb]]]:
        """phi_k = E[V^k e^{-(u V + s V') / T}] at every point: the rule in z makes u V and s V' lattices."""
        area, n, fine = self.area, self.power, self.lattice.finer
        (low, high), (x0, x1) = self.normal_ends, area.x_ends
        places, weights = self._list_weights()
        start, decays = self._list_decays()
        charges = _Charges(self, places[0], places[-1])
        self._charge_first(charges, start, decays, weights)
        for begin in range(x0, x1 + 1, COLUMNS_TOGETHER):
            block = range(begin, min(begin + COLUMNS_TOGETHER, x1 + 1))
            rows = range(min(area.starts[i] for i in block), area.last + 1)
            left = [decays[fine * j - high - start : fine * j - low - start + 1][::-1] for j in rows]
            left.append([arb(1)] * len(places))  # s = 0
            moved = [decays[fine * i + low - start : fine * i + high - start + 1] for i in block]
            right = [[one[at] * each[at] for one in moved for each in weights] for at in range(len(places))]
            table = (arb_mat(left) * arb_mat(right)).tolist()
            for at, i in enumerate(block):
                own = slice(at * (n + 1), (at + 1) * (n + 1))
                charges.add(i, None, table[-1][own])
                for j, row in zip(rows, table[:-1], strict=True):
                    if j >= area.starts[i]:
                        yield i, j, charges.add(i, j, row[own])

    def _charge_first(
        self, charges: "_Charges", start: int, decays: list[arb], weights: list[list[arb]]
    ) -> None:
        """Where u = 0, which bounds what first columns miss."""
        area, fine, (low, high) = self.area, self.lattice.finer, self.normal_ends
        rows = range(area.first, area.last + 1)
        left = [decays[fine * j - high - start : fine * j - low - start + 1][::-1] for j in rows]
        for j, row in zip(rows, (arb_mat(left) * arb_mat(weights).transpose()).tolist(), strict=True):
            charges.add(None, j, row)

    @cached_property
    def _logs(self) -> tuple[Floats, Floats]:
        """The diagonals, and about ln of what is there."""
        with ctx.workprec(self.bits):
            logs = [float(value.mid().log()) if value.mid() > 0 else -math.inf for value in self.values]
        points = self.first + np.arange(len(logs), dtype=float)
        return np.asarray(self.step * points, dtype=float), np.array(logs)

    def guess_cumulants(self, c: float) -> tuple[float, float, float]:
        """About ln E[A^{1 + c} B^-c], and its first two derivatives."""
        x, logs = self._logs
        terms = logs + c * x
        top = float(terms.max())
        weights = np.exp(terms - top)
        total = float(weights.sum())
        mean = float(weights @ x) / total
        spread = float(weights @ (x - mean) ** 2) / total
        gap = self.power - 1 - c
        log_moment = top + math.log(total) - float(gammaln(gap) + gammaln(c))
        slope = mean + float(digamma(gap) - digamma(c))
        return log_moment, slope, spread - float(polygamma(1, gap) + polygamma(1, c))

    def moments(self, c: arb, heights: Sequence[arb]) -> list[acb]:
        """E[A^{1 + z} B^-z] for z = c + i height."""
        step, gap = arb(self.step), self.power - 1 - c
        if not (c > 0 and gap > 0):
            raise EngineDeclines("a tilt at which moments are not told")
        decay = (c * step).exp()
        factor, terms = (c * step * self.first).exp(), []
        for value in self.values:
            terms.append(value * factor)
            factor *= decay
        beyond = bound_beyond(self.law, self.power, c, self.step, self.area)
        turn = arb(self.lattice.turn)
        ratio = (-turn * 2 * arb.pi() / step).exp()
        periods = ratio / (1 - ratio)
        # of all periods but one, relative to Gamma(gap) Gamma(c) E[A^{1 + c} B^-c]
        once, twice = (4 * turn.cos() ** (1 - self.power) * times for times in (periods, periods * periods))
        if not 2 * (once + twice) < 1:
            raise EngineDeclines("moments of a pass that are not told")
        whole = (sum(terms, arb(0)) + beyond) / (1 - once - twice)
        found = []
        turned = turn_terms(terms, self.first, self.step, [-height for height in heights])
        for height, total in zip(heights, turned, strict=True):
            if not abs(height) * step < 2 * arb.pi():
                raise EngineDeclines("moments of a pass that are not told")
            alias = once + twice * (2 * turn * abs(height)).exp()
            error = arb(0, 1) * (beyond + alias * whole).upper()
            kernel = acb(gap, -height).gamma() * acb(c, height).gamma()
            found.append((total + acb(error, error)) / kernel)
        return found


class _Charges:
    """What the rule in z may miss: between its points, and beyond them."""

    def __init__(self, table: ExchangedTable, least: arb, most: arb) -> None:
        a, n = ball(table.law.separation), table.power
        step = arb(table.step)
        self.table, self.kept = table, dict[tuple[int | None, int | None], list[arb]]()
        theta = arb(table.lattice.shift)
        alias = (2 * arb.pi() * theta * a * table.lattice.finer / step).exp() - 1
        self.lower = math.ceil(math.log(2) / table.step)  # points, to where u and s are at most half as large
        if not ((a * theta).cos() >= (-step * self.lower).exp() and alias > 0 and least < 0 and n * a < most):
            raise EngineDeclines("moments of a pass that are not told")
        self.rule = (2 * (theta * theta / 2).exp() / alias).upper()
        self.moments = [(a * a * k * (k - 1) / 2).exp().upper() for k in range(n + 1)]
        root = arb(2).sqrt()
        self.below = [m * ((k * a - least) / root).erfc() / 2 for k, m in enumerate(self.moments)]
        self.above = [m * ((most - k * a) / root).erfc() / 2 for k, m in enumerate(self.moments)]
        # u V is at least so many u beyond the last point, and s V' so many s before the first
        self.last, self.first = ((a * size - a * a / 2).exp() / table.law.batches for size in (most, -least))
        self.step = step
        self._cut_before = lru_cache(maxsize=None)(partial(self._cut, self.below, self.first))
        self._cut_after = lru_cache(maxsize=2)(partial(self._cut, self.above, self.last))

    def _cut(self, masses: list[arb], times: arb, at: int | None) -> list[arb]:
        """Beyond an end of the points of z, at most."""
        cut = arb(1) if at is None else (-(self.step * at).exp() * times).exp()
        return [(mass * cut).upper() for mass in masses]

    def add(self, i: int | None, j: int | None, values: list[arb]) -> list[arb]:
        """The values there with their errors, those of smaller i before.

        None is u = 0, before all others, or s = 0, before all j: phi falls with u and with s.
        """
        lower_i, lower_j = (None if at is None else at - self.lower for at in (i, j))
        turned = self.kept.get((lower_i, lower_j))
        if turned is None:
            either = [self.kept.get(at, self.moments) for at in ((lower_i, None), (None, lower_j))]
            turned = [min(both, key=_log) for both in zip(*either, strict=True)]
        before, after = self._cut_before(j), self._cut_after(i)
        found = [
            value + arb(0, 1) * (self.rule * most + low + high)
            for value, most, low, high in zip(values, turned, before, after, strict=True)
        ]
        self.kept[i, j] = [value.upper() for value in found]
        return found


def _log(value: arb) -> float:
    return float(value.log()) if value > 0 else -math.inf


@keep_refusals(maxsize=KEPT_TABLES)
def tabulate_exchanged(
    law: PairLaw, power: int, tilts: Tilts, height: float, log_error: float, patience: float
) -> ExchangedTable:
    """A table, kept."""
    return ExchangedTable(law, power, plan_pair_lattice(law, power, tilts, height, log_error, patience))
