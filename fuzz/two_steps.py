"""The curve of a sampled step and one more curve, by rigorous integration.

delta(w) = E_P[delta_besides(w dQ/dP)] over the first step's output x. The likelihood ratio is monotone in x
and delta falls with the odds, so on any cell delta_besides lies between its values at the ends: that bounds
the tails and the small cells around places where a formula changes. Everywhere else the integrand is
analytic, and flint's `acb.integral` encloses it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import acb, arb

from fuzz.balls import exact, normal_below
from fuzz.references import (
    ADD,
    ENVELOPE,
    NORMAL,
    OPPOSITE,
    REMOVE,
    Curve,
    Formula,
    Piece,
    SampledStep,
    nothing,
    plain_log,
)

FARTHEST = 42  # noise scales from the outermost centre: beyond lies a probability of e^-880
COARSE = 0.25  # noise scales between the nodes of the first look
NEGLIGIBLE = arb(2) ** -100  # of the answer, for each tail
AROUND = arb(2) ** -50  # half the width of a cell around a change of formula, in noise scales
GOAL = arb(2) ** -70  # relative, for each piece of the integral


@dataclass(frozen=True)
class Stretch:
    """Outputs from `low` to `high`: their likelihood ratio P/Q, P-density and P-mass between two of them.

    `tails` are the P-masses below and above, whose ratios lie beyond those of the ends.
    """

    low: Fraction
    high: Fraction
    ratio: Formula
    density: Formula
    mass: Callable[[arb, arb], arb]
    tails: tuple[arb, arb]


@dataclass(frozen=True)
class Atom:
    """A P-mass at one likelihood ratio."""

    mass: arb
    ratio: arb


def lay_out(step: SampledStep) -> tuple[list[Stretch], list[Atom]]:
    """The law of the step's likelihood ratio."""
    return _lay_out_normal(step) if step.noise == NORMAL else _lay_out_laplace(step)


def _lay_out_normal(step: SampledStep) -> tuple[list[Stretch], list[Atom]]:
    g, rest, a = step.numbers
    low, high = Fraction(-FARTHEST) - step.shift, Fraction(FARTHEST) + step.shift

    def plain(x: Any) -> Any:
        return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()

    def mixed(x: Any) -> Any:
        return rest + g * (a * x - a * a / 2).exp()

    def plain_mass(x: arb, y: arb) -> arb:
        low, high = (x, y) if y < 0 else (-y, -x)
        mass: arb = normal_below(high) - normal_below(low)
        return mass

    def observed_mixed(ratio: Formula, start: Fraction) -> Stretch:
        def mass(x: arb, y: arb) -> arb:
            return rest * plain_mass(x, y) + g * plain_mass(x - a, y - a)

        below = rest * normal_below(exact(low)) + g * normal_below(exact(low) - a)
        above = rest * normal_below(-exact(high)) + g * normal_below(a - exact(high))
        tails = below if start == low else arb(0), above
        return Stretch(start, high, ratio, lambda x: plain(x) * mixed(x), mass, tails)

    def observed_plain(start: Fraction) -> Stretch:
        tails = normal_below(exact(low)) if start == low else arb(0), normal_below(-exact(high))
        return Stretch(start, high, lambda x: 1 / mixed(x), plain, plain_mass, tails)

    if step.direction == REMOVE:
        return [observed_mixed(mixed, low)], []
    if step.direction == ADD:
        return [observed_plain(low)], []
    if step.direction == OPPOSITE:
        return [observed_mixed(lambda x: mixed(x) / mixed(-x), low)], []
    middle = step.shift / 2
    atom = Atom(rest * (1 - 2 * normal_below(-exact(middle))), arb(1))
    return [observed_mixed(mixed, middle), observed_plain(middle)], [atom]


def _lay_out_laplace(step: SampledStep) -> tuple[list[Stretch], list[Atom]]:
    g, rest, a = step.numbers

    def mixed(x: Any) -> Any:
        return rest + g * (2 * x - a).exp()

    def plain(x: Any) -> Any:
        return (-x).exp() / 2

    def plain_mass(x: arb, y: arb) -> arb:
        mass: arb = plain(x) - plain(y)
        return mass

    def mixed_mass(x: arb, y: arb) -> arb:
        return rest * plain_mass(x, y) + g * plain_mass(a - y, a - x)

    bottom, top = mixed(arb(0)), mixed(a)
    far = (-a).exp() / 2  # the tail of the noise beyond the other centre
    lower = step.shift / 2 if step.direction == ENVELOPE else Fraction(0)
    none = arb(0), arb(0)
    remove = Stretch(lower, step.shift, mixed, lambda x: plain(x) * mixed(x), mixed_mass, none)
    add = Stretch(lower, step.shift, lambda x: 1 / mixed(x), plain, plain_mass, none)
    high_remove, high_add = Atom(rest * far + g / 2, top), Atom(far, 1 / top)
    if step.direction == REMOVE:
        return [remove], [Atom(rest / 2 + g * far, bottom), high_remove]
    if step.direction == ADD:
        return [add], [Atom(arb(1) / 2, 1 / bottom), high_add]
    atom = Atom(rest * (1 - (-a / 2).exp()), arb(1))
    return [remove, add], [high_remove, high_add, atom]


@dataclass(frozen=True)
class TwoSteps(Curve):
    """A sampled step and one more curve."""

    step: SampledStep
    besides: Curve

    def pieces(self, log: Formula = plain_log, sqrt: Formula = arb.sqrt) -> list[Piece]:
        """Where formulas change is not worked out: this curve is not integrated again."""
        raise NotImplementedError

    def delta(self, odds: arb) -> arb:
        """The ball of delta; wide where the integral does not converge."""
        stretches, atoms = lay_out(self.step)
        total = sum((atom.mass * self.besides.delta(odds / atom.ratio) for atom in atoms), arb(0))
        looks = [self._look(stretch, odds) for stretch in stretches]
        least = total.lower() + sum((part for cells in looks for _, _, part, _ in cells), arb(0))
        for stretch, cells in zip(stretches, looks, strict=True):
            total += self._integrate(stretch, odds, cells, least * NEGLIGIBLE)
        return total

    def _value(self, stretch: Stretch, odds: arb, x: arb) -> arb:
        return self.besides.delta(odds / stretch.ratio(x))

    def _cell(self, stretch: Stretch, odds: arb, low: arb, high: arb) -> arb:
        """The integral over a cell, between its ends' values."""
        ends = self._value(stretch, odds, low).union(self._value(stretch, odds, high))
        return stretch.mass(low, high) * ends

    def _nodes(self, stretch: Stretch) -> list[arb]:
        count = max(int((stretch.high - stretch.low) / Fraction(COARSE)), 8)
        count = min(count, 600)
        width = (stretch.high - stretch.low) / count
        return [exact(stretch.low + width * place) for place in range(count + 1)]

    def _look(self, stretch: Stretch, odds: arb) -> list[tuple[arb, arb, arb, arb]]:
        """Each coarse cell with bounds on its part of the integral."""
        nodes = self._nodes(stretch)
        values = [self._value(stretch, odds, x) for x in nodes]
        cells = []
        for (x, y), (u, v) in zip(pairwise(nodes), pairwise(values), strict=True):
            mass = stretch.mass(x, y)
            least, most = (mass * u.min(v)).lower(), (mass * u.max(v)).upper()
            cells.append((x, y, least.max(arb(0)), most))
        return cells

    def _integrate(
        self, stretch: Stretch, odds: arb, cells: list[tuple[arb, arb, arb, arb]], negligible: arb
    ) -> arb:
        """The integral over one stretch: bounds for tails and negligible cells, analytic pieces elsewhere."""
        low_tail, high_tail = stretch.tails
        first, last = self._value(stretch, odds, cells[0][0]), self._value(stretch, odds, cells[-1][1])
        total = _tail(low_tail, first, last) + _tail(high_tail, last, first)
        inside: list[tuple[arb, arb]] = []
        for x, y, least, most in cells:
            if most < negligible / len(cells):
                total += least.union(most)
            else:
                inside.append((x, y))
        for x, y in _join(inside):
            total += self._integrate_between(stretch, odds, x, y)
        return total

    def _integrate_between(self, stretch: Stretch, odds: arb, low: arb, high: arb) -> arb:
        """Split where a formula changes, with a small cell around each such place."""
        starts = [piece.start for piece in self.besides.pieces()]
        changes = [x for start in starts[1:] for x in _find(stretch, odds / start, low, high)]
        total, here = arb(0), low
        for x in sorted(changes, key=float):
            before, after = (x - AROUND).mid().max(low).mid(), (x + AROUND).mid().min(high).mid()
            if here < before:
                total += self._integrate_piece(stretch, odds, here, before)
            total += self._cell(stretch, odds, here.max(before).mid(), after)
            here = after
        return total + (self._integrate_piece(stretch, odds, here, high) if here < high else 0)

    def _integrate_piece(self, stretch: Stretch, odds: arb, low: arb, high: arb) -> arb:
        middle = odds / stretch.ratio((low + high).mid() / 2)
        starts = [piece.start for piece in self.besides.pieces()]
        place = max(i for i, start in enumerate(starts) if start <= middle)

        if self.besides.pieces()[place].formula is nothing:
            return arb(0)
        formulas = [self.besides.pieces(*_branches(analytic))[place].formula for analytic in (False, True)]

        def integrand(x: acb, analytic: bool) -> acb:
            value: acb = stretch.density(x) * formulas[analytic](odds / stretch.ratio(x))
            return value

        found = acb.integral(integrand, low, high, rel_tol=GOAL, abs_tol=arb(0), eval_limit=20_000)
        bound = self._cell(stretch, odds, low, high)
        return found.real if found.real.is_finite() else bound


def _branches(analytic: bool) -> tuple[Formula, Formula]:
    """Logarithm and root of complex balls, which are not finite where they are not analytic but should be."""
    return lambda y: acb(y).log(analytic=analytic), lambda y: acb(y).sqrt(analytic=analytic)


def _tail(mass: arb, near: arb, far: arb) -> arb:
    """What a tail contributes: its values lie between that of its end and the limit, 0 or 1."""
    if near <= far:
        return mass * near.union(arb(0))
    return mass * near.union(arb(1))


def _join(cells: list[tuple[arb, arb]]) -> list[tuple[arb, arb]]:
    """Neighbouring cells as one."""
    joined: list[tuple[arb, arb]] = []
    for x, y in cells:
        if joined and joined[-1][1] == x:
            joined[-1] = joined[-1][0], y
        else:
            joined.append((x, y))
    return joined


def _find(stretch: Stretch, ratio: arb, low: arb, high: arb) -> list[arb]:
    """About where the likelihood ratio has this value; nowhere if not between the two outputs."""
    rises = stretch.ratio(high) > stretch.ratio(low)
    at_low, at_high = stretch.ratio(low) - ratio, stretch.ratio(high) - ratio
    if not at_low * at_high < 0:
        return []
    for _ in range(150):
        middle = ((low + high) / 2).mid()
        if (stretch.ratio(middle) < ratio) == rises:
            low = middle
        else:
            high = middle
    return [middle]
