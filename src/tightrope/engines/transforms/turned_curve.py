"""The curve of a pass with little noise in which a record is exchanged, at the points of a lattice: in balls.

With S = sum (X_i - t X'_i), T delta = E S_+ = (E S + E|S|) / 2, and E|S| is an integral over frequencies r of
(1 - Re E e^{i r S}) / r^2. Ratios of little noise spread over many octaves, so the rule has its points at
equal steps of ln r. Normals that are turned by a quarter make all exponentials decay.
theorems/proofs/turned_curve.md derives every term of the error.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import acb, arb, arb_poly, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_products import SPARE_BITS, CloseProducts, count_bits
from tightrope.engines.transforms.turned_strip import (
    LOG_SPARE,
    TERM_ROUNDINGS,
    Strip,
    bound_laplace,
    choose_strip,
)
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

MOST_APART = 0.35  # the most between points of z, times the separation, for products of two small numbers
LOWEST_X = 600.0  # natural logarithms: rules in x do not begin below
END_TURNS = tuple(2.0**-i for i in range(1, 8))  # by how much normals are turned where a rule ends
LEAST_SEPARATION = Fraction(1)  # between normals and the middle: with less, turning them makes them large
MOST_TURNED_BATCHES = 10**8  # so that rounding, times their number, stays below what is added for it
PER_TERM, USUAL_BITS = 4e-6, 160  # seconds, about, of a term of the sums; with more bits it takes longer
LOG_LOW_ROOM = 1e-9  # for the roundings of a logarithm: proofs/turned_curve.md, 6
LOG_MOST_ROOM = 1e-6  # for those of another, times the batches: likewise
LEAST_SIZE = 1e-9  # added to what floats may call 0, to say how small its power is, about


@dataclass(frozen=True)
class TurnedPlan:
    """`count` points of epsilon, `spacing` apart, and where the rules in x = ln r and in z have theirs.

    The lattice of all has `finer` points from one epsilon to the next; those of x are `coarser` of its steps
    apart. `log_errors` are ln of what the curve may be off by at each epsilon, about.
    """

    spacing: float
    count: int
    finer: int
    coarser: int
    strip: float
    log_errors: tuple[float, ...]

    @property
    def base(self) -> float:
        """The step of the lattice."""
        return self.spacing / self.finer

    @property
    def step(self) -> float:
        """That of x."""
        return self.base * self.coarser


def plan_curve(law: PairLaw, spacing: float, log_errors: tuple[float, ...]) -> TurnedPlan:
    """The widest steps that should do."""
    count = len(log_errors) - 1
    strip, widest = choose_strip(law, [spacing * i for i in range(count + 1)], log_errors)
    finer = max(math.ceil(spacing / widest), 1)
    coarser = max(math.floor(widest / spacing), 1)
    return TurnedPlan(spacing, count, finer, coarser, strip, log_errors)


def check_law(law: PairLaw) -> None:
    """Declines what no plan tells: looking for one takes long."""
    if law.seen < law.batches or law.batches > MOST_TURNED_BATCHES:
        raise EngineDeclines("a pass that is only begun, or has too many batches")
    if law.separation < LEAST_SEPARATION:
        raise EngineDeclines("normals that would be turned too far")


class TurnedCurve:
    """Balls around the curve at epsilon = 0, spacing, 2 spacing, ..."""

    def __init__(self, law: PairLaw, plan: TurnedPlan, patience: float = math.inf) -> None:
        check_law(law)
        self.law, self.plan = law, plan
        self.a, self.n = float(law.separation), law.batches
        self.theta = math.pi / (2 * self.a)
        self.most = max(plan.spacing * i - each for i, each in enumerate(plan.log_errors))
        self.far = math.sqrt(2 * (self.most + math.log(self.n))) + 2
        starts = zip(self._ends, plan.log_errors, strict=True)
        lowest = min(first * plan.step + each for (first, _), each in starts)
        self.bits = SPARE_BITS + math.ceil((math.log(self.n) - lowest) / math.log(2))
        self.most_terms = patience / PER_TERM / max(self.bits / USUAL_BITS, 1.0)
        with ctx.workprec(self.bits):
            self.values = self._tabulate()

    # Where the rule in x begins and ends, for each epsilon.

    def _epsilon(self, i: int) -> float:
        return self.plan.spacing * i

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """Points of x: below the first and above the last all is charged."""
        plan, found = self.plan, []
        last = self._find_last(0.0, plan.log_errors[0])
        for i, log_error in enumerate(plan.log_errors):
            epsilon = self._epsilon(i)
            first = math.floor(self._find_first(epsilon, log_error) / plan.step)
            last = min(last, self._find_last(epsilon, log_error, last))
            if first > last + 1:  # points between would be charged twice, and told by neither
                raise EngineDeclines("a curve that ends before it begins")
            found.append((first, last))
        return found

    def _log_low(self, x: float, epsilon: float) -> float:
        """ln of a bound on what a square misses of points below x: 0 <= v^2 / 2 - 1 + cos v <= v^4 / 24."""
        a, n, t = self.a, self.n, math.exp(epsilon)
        square = math.log((1 + t * t) * math.exp(a * a))  # E D^2 is less
        logs = [
            math.log(16 * n * (1 + math.exp(-4 * epsilon))) + 4 * epsilon + 6 * a * a,
            math.log(3.0) + 2 * (math.log(n) + square),
        ]
        if epsilon:
            logs.append(4 * (math.log(n) + math.log(math.expm1(epsilon))))
        fourth = math.log(8) + float(np.logaddexp.reduce(logs))
        step = self.plan.step
        return (
            3 * (x + a * a / 2)
            + fourth
            + math.log(step / (24 * math.pi * n) / -math.expm1(-3 * step))
            + LOG_LOW_ROOM
        )

    def _find_first(self, epsilon: float, log_error: float) -> float:
        x = (log_error - LOG_SPARE - self._log_low(0.0, epsilon)) / 3
        if x < -LOWEST_X:
            raise EngineDeclines("a curve that begins too far out")
        return x

    def _log_most(self, x: float, epsilon: float) -> float:
        """ln of a bound on |E e^{i r S}| from x on."""
        rate = math.exp(x + epsilon)
        exponents = (
            psi**2 / (2 * self.a**2) + math.log(bound_laplace(self.law, rate * math.sin(psi)))
            for psi in END_TURNS
        )
        return self.n * min(exponents) + LOG_MOST_ROOM

    def _find_last(self, epsilon: float, log_error: float, last: int = 0) -> int:
        """The least point from which on all is e^log_error, about."""
        step = self.plan.step
        goal = log_error - LOG_SPARE

        def is_enough(k: int) -> bool:
            x = step * k
            return self._log_most(x, epsilon) - x - self.a**2 / 2 - math.log(self.n) <= goal

        low, high = last - math.ceil(60 / step), last
        if not is_enough(high):
            low, high = high, high + math.ceil(40 / step)
            if not is_enough(high):
                raise EngineDeclines("a transform that decays too slowly")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        return high

    # What one batch adds: tables over the lattice.

    @cached_property
    def _normal(self) -> tuple[int, int, int, int]:
        """Points of z in a step of the lattice, or steps between two, the first and the last of them."""
        widest = math.pi**2 / (self.most + math.log(self.n) + LOG_SPARE) / self.plan.base
        per, apart = max(math.ceil(1 / widest), 1), max(math.floor(widest), 1)
        unit = self.plan.base / per * apart / self.a
        return per, apart, -math.ceil(self.far / unit), math.ceil((self.far + self.a) / unit)

    def _list_losses(self, first: int, last: int) -> list[acb]:
        """E[1 - e^{i r X}] at all points of the lattice between two, with what the rule in z misses."""
        per, apart, low, high = self._normal
        base, a = arb(self.plan.spacing) / self.plan.finer, ball(self.law.separation)
        theta, unit = arb.pi() / (2 * a), base / per * apart / a
        places = [unit * j for j in range(low, high + 1)]
        scale = unit * (theta * theta / 2).exp() / (2 * arb.pi()).sqrt()
        masses = [scale * (-z * z / 2).exp() for z in places]
        turns = [(z * theta).sin_cos() for z in places]
        weights = [[mass * part for part in turn] for mass, turn in zip(masses, turns, strict=True)]
        steps = range(first * per + low * apart, last * per + high * apart + 1)
        kernel = [-(-(base / per * i).exp()).expm1() for i in steps]
        sums = _sum_all(kernel, weights, (per, apart), last - first + 1)
        root = arb(2).sqrt()
        ends = (places[-1] - a) / root, (a - places[0]) / root
        missed = (theta * theta / 2).exp() * sum((end.erfc() / 2 for end in ends), arb(0))
        missed += ((2 * theta * theta).exp() + 1) / ((2 * arb.pi() * theta / unit).exp() - 1)
        found = []
        for i, (sine, cosine) in enumerate(sums, start=first):
            error = arb(0, 1) * (missed * (base * i + a * a / 2).exp()).upper()
            found.append(acb(cosine + error, error - sine))
        return found

    @cached_property
    def _products(self) -> tuple[int, Floats, Floats, int, float]:
        """For products of two small numbers: steps between points of z, weights, 1 - e^-e^x, the error."""
        base, theta, a = self.plan.base, self.theta, self.a
        apart = max(math.floor(MOST_APART / base), 1)
        unit = apart * base / a
        low, high = -math.ceil(self.far / unit), math.ceil(self.far / unit)
        z = unit * np.arange(low, high + 1)
        masses = unit * np.exp(theta**2 / 2 - z * z / 2) / math.sqrt(2 * math.pi)
        weights = np.stack([masses * np.cos(z * theta), -masses * np.sin(z * theta)], axis=1)
        first = min(first for first, _ in self._ends) * self.plan.coarser + apart * low
        last = max(
            last * self.plan.coarser + i * self.plan.finer for i, (_, last) in enumerate(self._ends)
        ) + apart * (high + 1)
        kernel = -np.expm1(-np.exp(base * np.arange(first, last + 1)))
        missed = (math.exp(2 * theta**2) + 1) / math.expm1(2 * math.pi * theta / unit)
        missed += math.exp(theta**2 / 2) * math.erfc(self.far / math.sqrt(2))
        # exponents are rounded as well, relative to their size
        roundings = len(z) + TERM_ROUNDINGS + 4 * max(abs(first), abs(last)) * base + self.far**2
        missed += roundings * 2 * UNIT_ROUNDOFF * math.exp(theta**2 / 2) * (1 + unit)
        return apart, weights, kernel, first, missed * (1 + 1e-9)

    def _list_products(self, k: int, start: int, count: int) -> tuple[Floats, Floats]:
        """E[(1 - e^{i r X}) (1 - e^{-i r t X'})] at one r for several t, and what they are off by."""
        apart, weights, kernel, first, missed = self._products
        plan = self.plan
        points = len(weights)
        low = -(points // 2)
        own = k * plan.coarser
        ones = kernel[own + apart * low - first :: apart][:points]
        at = own + start * plan.finer - apart * low - first
        width = kernel.itemsize
        others = np.lib.stride_tricks.as_strided(
            kernel[at:], (count, points), (plan.finer * width, -apart * width), writeable=False
        )
        found = others @ (weights * ones[:, None])
        orders = self.plan.spacing * np.arange(start, start + count)
        errors = missed * np.exp(2 * plan.step * k + orders) * (1 + 1e-9)
        return found, errors

    @cached_property
    def _close_products(self) -> CloseProducts:
        """The same in balls, as closely as any epsilon asks for."""
        plan = self.plan
        tops = ((plan.step * last + self._epsilon(i), i) for i, (_, last) in enumerate(self._ends))
        needed = max(top - plan.log_errors[i] for top, i in tops) + math.log(self.n) + 2 * LOG_SPARE
        first = min(first for first, _ in self._ends) * plan.coarser
        last = max(last * plan.coarser + i * plan.finer for i, (_, last) in enumerate(self._ends))
        base = arb(plan.spacing) / plan.finer
        with ctx.workprec(count_bits(needed)):
            return CloseProducts(ball(self.law.separation), base, needed, first, last)

    # The sums.

    def _find_close(self, losses: list[acb]) -> list[tuple[int, list[int], list[int]]]:
        """At each point of x the epsilons that are summed there, and those for which floats do not do.

        What floats are off by at one point counts as often as the step is below 1: it falls with x.
        """
        plan, n, missed = self.plan, self.n, self._products[-1]
        low, high = min(first for first, _ in self._ends), max(last for _, last in self._ends)
        firsts, lasts = np.array(self._ends).T
        about = np.array([complex(loss) for loss in losses])
        epsilons = plan.spacing * np.arange(plan.count + 1)
        fixed = math.log(missed * plan.step / math.pi / -math.expm1(-plan.step)) - self.a**2 / 2 + LOG_SPARE
        room = fixed + epsilons - np.array(plan.log_errors)
        found = []
        for k in range(low, high + 1):
            wanted = np.flatnonzero((firsts <= k) & (k <= lasts))
            if len(wanted):
                own = (k - low) * plan.coarser
                sizes = np.abs(1 - about[own] - about[own + wanted * plan.finer].conj())
                logs = room[wanted] + plan.step * k + (n - 1) * np.log(np.minimum(sizes + LEAST_SIZE, 1.0))
                found.append((k, wanted.tolist(), wanted[logs > 0].tolist()))
        return found

    def _tabulate(self) -> list[arb]:
        plan, ends = self.plan, self._ends
        terms = sum(last - first + 1 for first, last in ends)
        if terms > self.most_terms:
            raise EngineDeclines("a curve that takes too many terms")
        low = min(first for first, _ in ends)
        high = max(last * plan.coarser + i * plan.finer for i, (_, last) in enumerate(ends))
        losses = self._list_losses(low * plan.coarser, high)
        places = self._find_close(losses)
        owns = ((k * plan.coarser, each) for k, _, each in places)
        pairs = [(own, own + i * plan.finer) for own, each in owns for i in each]
        if pairs and terms + len(pairs) * self._close_products.terms > self.most_terms:
            raise EngineDeclines("a curve that takes too many terms")
        told = self._close_products.tell(pairs) if pairs else {}
        totals = self._add_up(losses, low, places, told)
        return [self._finish(i, total) for i, total in enumerate(totals)]

    def _add_up(
        self,
        losses: list[acb],
        low: int,
        places: list[tuple[int, list[int], list[int]]],
        told: dict[tuple[int, int], acb],
    ) -> list[arb]:
        """The rule in x for each epsilon, with products that are told and others in floats."""
        plan, n = self.plan, self.n
        conjugates = [acb(loss.real, -loss.imag) for loss in losses]
        a, step = ball(self.law.separation), arb(plan.spacing) / plan.finer * plan.coarser
        totals = [arb(0)] * len(self._ends)
        for k, wanted, _ in places:
            products, errors = self._list_products(k, wanted[0], wanted[-1] - wanted[0] + 1)
            at, first = (k - low) * plan.coarser, k * plan.coarser
            weight = (-(step * k + a * a / 2)).exp()
            parts, radii = products.tolist(), errors.tolist()
            for i in wanted:
                product = told.get((first, first + i * plan.finer))
                if product is None:
                    (real, imag), radius = parts[i - wanted[0]], radii[i - wanted[0]]
                    product = acb(arb(real, radius), arb(imag, radius))
                one = 1 - losses[at] - conjugates[at + i * plan.finer] + product
                totals[i] += (1 - (one**n).real) * weight
        return totals

    @cached_property
    def _strip(self) -> Strip:
        return Strip(self.law, self.plan.strip, self.plan.spacing, self.plan.count)

    def _sum_low(self, i: int) -> arb:
        """Points before the first, by E S^2 = n E D^2 + n (n - 1) (t - 1)^2."""
        first, _ = self._ends[i]
        a, step = ball(self.law.separation), arb(self.plan.spacing) / self.plan.finer * self.plan.coarser
        t, square = (arb(self.plan.spacing) * i).exp(), (a * a).exp()
        each = square * (1 + t * t) - 2 * t / square
        r = (step * (first - 1) + a * a / 2).exp()
        return (each + (self.n - 1) * (t - 1) ** 2) * self.n / 2 * r / (1 - (-step).exp())

    def _finish(self, i: int, total: arb) -> arb:
        """The rule with what lies beyond its ends and what it may miss."""
        plan, n = self.plan, self.n
        first, last = self._ends[i]
        a, step = ball(self.law.separation), arb(plan.spacing) / plan.finer * plan.coarser
        epsilon = arb(plan.spacing) * i
        above = (-(step * (last + 1) + a * a / 2)).exp() / (1 - (-step).exp())
        found = (1 - epsilon.exp()) / 2 + (total + above + self._sum_low(i)) * step / (arb.pi() * n)
        at = self._epsilon(i)
        high = math.exp(self._log_most(plan.step * last, at)) * float(above.upper()) * plan.step / n
        low = math.exp(self._log_low(plan.step * first, at))
        between = self._strip.bound(i) / (math.pi * n) / math.expm1(2 * math.pi * plan.strip / plan.step)
        error = (low + high + between) * (1 + 1e-6)
        if not error < math.inf:
            raise EngineDeclines("a curve that its strip does not tell")
        return found + arb(0, error)


def _sum_all(
    kernel: list[arb], weights: list[list[arb]], moves: tuple[int, int], count: int
) -> list[list[arb]]:
    """The sums over j of kernel[i per + j apart] times each weight j, for i = 0, 1, ..., and (per, apart).

    All i together are the coefficients of products of polynomials.
    """
    per, apart = moves
    parts = [arb_poly(column[::-1]) for column in map(list, zip(*weights, strict=True))]
    products = [[arb_poly(kernel[i::apart]) * part for part in parts] for i in range(apart)]
    places = (divmod(i * per, apart) for i in range(count))
    return [[each[at + len(weights) - 1] for each in products[phase]] for at, phase in places]
