"""A pass with an exchanged record: finite pairs on both sides of it, and the curve of a single pass."""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tightrope.engines.choose import compose
from tightrope.engines.composition import Composition, find_crossing
from tightrope.engines.face import ABOVE, LogBounds, Side
from tightrope.engines.passes.cells import as_pair, collect, order_cells
from tightrope.engines.passes.exchanged import bound_divergence, label_outputs
from tightrope.numerics.balls import ceil_float
from tightrope.numerics.floats import log_ends
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.schedule import Schedule

KEPT_PASSES = 32
COARSE, MEDIUM, FINE = 32, 64, 128  # steps of the lattice in the mean deviation of a sum
APART = 0.12  # of neighbouring dots, in mean losses of a pass, up to
NEAR, GROWS = 4, 1.12  # so many of them; from there on each is so many times further from the last
LEAST_DELTA = 1e-20  # where dots end
MOST_DOTS = 120
ROUNDED_DOWN = 1 - Fraction(1, 1 << 50)  # e^epsilon by math.exp is right to an ulp or two
ROUGH, FURTHER, TINY, SLOW = 0.1, 1.01, 1e-12, 1e-3  # where and how steep the curve is, to place a search


@lru_cache(maxsize=KEPT_PASSES)
def bound_exchanged_pass(pair: Allocation, side: Side) -> FinitePair:
    """A finite pair that dominates the pass, or that it dominates."""
    if side is ABOVE:
        return _connect_dots(pair)
    return _merge_labels(pair, math.exp(_mean_loss(pair)), FINE)


@lru_cache(maxsize=KEPT_PASSES)
def _merge_labels(pair: Allocation, order: float, fine: int) -> FinitePair:
    """The outputs with the label sum (X - order X'), which tells most about losses near ln order."""
    laws = label_outputs(pair, Fraction(order), fine)
    unseen, bits = pair.batches - pair.released, laws.plain.bits
    plain, by_x, by_other = (collect(law.atoms()) for law in (laws.plain, *laws.weighted))
    places = sorted({*by_x, *by_other})
    p, q = ([law.get(at, 0) + unseen * plain.get(at, 0) for at in places] for law in (by_x, by_other))
    whole = pair.batches << bits
    merged = order_cells(p, q, whole, whole)
    return as_pair([Fraction(p, whole) for p, _ in merged], [Fraction(q, whole) for _, q in merged])


def _mean_loss(pair: Allocation) -> float:
    """About E|loss|."""
    below = _merge_labels(pair, 1.0, COARSE)
    return sum(float(p) * abs(loss) for (p, _), loss in zip(below.levels, below.losses, strict=True))


def _connect_dots(pair: Allocation) -> FinitePair:
    """Chords of t -> H_t between orders t, and their mirror images; flat after the last."""
    scale = _mean_loss(pair)
    loss, step = 0.0, APART * scale
    dots: list[tuple[Fraction, Fraction]] = []
    while len(dots) < MOST_DOTS:
        order = Fraction(math.exp(loss))
        value = min(Fraction(ceil_float(bound_divergence(pair, order, ABOVE, MEDIUM))), Fraction(1))
        dots.append((order, value))
        if value < LEAST_DELTA:
            break
        step = step if loss < NEAR * scale else step * GROWS
        loss += step
    # H_{1/t} = 1 - 1/t + H_t / t
    mirrored = [(1 / t, 1 - 1 / t + h / t) for t, h in reversed(dots[1:])]
    return _hull([(Fraction(0), Fraction(1)), *mirrored, *dots])


def _hull(dots: list[tuple[Fraction, Fraction]]) -> FinitePair:
    """The pair whose curve is the largest convex one below the dots."""
    hull: list[tuple[Fraction, Fraction]] = []
    for t, h in dots:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (t, h)):
            hull.pop()
        hull.append((t, h))
    slopes = [Fraction(-1), *(_slope(a, b) for a, b in pairwise(hull)), Fraction(0)]
    q = [after - before for before, after in pairwise(slopes)]
    p = [mass * t for mass, (t, _) in zip(q, hull, strict=True)]
    return as_pair([*p, 1 - sum(p, Fraction(0))], [*q, Fraction(0)])


def _slope(one: tuple[Fraction, Fraction], other: tuple[Fraction, Fraction]) -> Fraction:
    return (other[1] - one[1]) / (other[0] - one[0])


class OneExchangedPass:
    """The curve of a single pass on one side, each order by itself; the other end says nothing."""

    def __init__(self, pair: Allocation, side: Side) -> None:
        self.pair, self.side = pair, side

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Normal noise hides everything a little."""
        return -math.inf, -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """From above at this order; from below by the labels for it."""
        if self.side is not ABOVE:
            return LogBounds(self._labels(epsilon, FINE).log_bounds(epsilon, accuracy / 8).lower, 0.0)
        order = max(Fraction(math.exp(epsilon)) * ROUNDED_DOWN, Fraction(1))  # H falls with it
        value = ceil_float(bound_divergence(self.pair, order, ABOVE, FINE))
        return LogBounds(-math.inf, min(log_ends(value)[1], 0.0))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Where this side crosses delta; rough labels tell about where, and how steep the curve is there."""
        about = self._labels(0.0, COARSE).epsilon_bounds(delta, accuracy)[0]
        labels = self._labels(about, COARSE)
        about = labels.epsilon_bounds(delta, accuracy)[0]
        if self.side is not ABOVE:
            return self._labels(about, FINE).epsilon_bounds(delta, accuracy / 8)[0], math.inf
        here, there = (labels.log_bounds(at, ROUGH).upper for at in (about, about * FURTHER + TINY))
        slope = (there - here) / (about * (FURTHER - 1) + TINY) if there > -math.inf else -1 / TINY
        least, _ = log_ends(delta)
        _, high = find_crossing(
            lambda epsilon: self.log_bounds(epsilon, accuracy).upper - least,
            start=about,
            slope=min(slope, -SLOW),
            resolution=accuracy / 4 / max(-slope, SLOW),
            highest=math.inf,
        )
        return 0.0, high

    def _labels(self, epsilon: float, fine: int) -> Composition:
        return compose(Schedule([(_merge_labels(self.pair, math.exp(epsilon), fine), 1)]))
