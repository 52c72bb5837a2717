"""A pass with an exchanged record: finite pairs on both sides of it, and the curve of a single pass."""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tightrope.engines.composition import find_crossing
from tightrope.engines.face import ABOVE, BELOW, LogBounds, Side
from tightrope.engines.passes.cells import as_pair, collect, order_cells
from tightrope.engines.passes.exchanged import bound_divergence, label_outputs
from tightrope.numerics.balls import ceil_float, floor_float
from tightrope.numerics.floats import log_ends
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair

KEPT_PASSES = 32
COARSE, MEDIUM, FINE = 30, 60, 120  # steps of the lattice in the mean deviation of a sum
APART = 0.12  # of neighbouring dots, in mean losses of a pass, up to
NEAR, GROWS = 4, 1.12  # so many of them; from there on each is so many times further from the last
LEAST_DELTA = 1e-20  # where dots end
MOST_DOTS = 120


@lru_cache(maxsize=KEPT_PASSES)
def bound_exchanged_pass(pair: Allocation, side: Side) -> FinitePair:
    """A finite pair that dominates the pass, or that it dominates."""
    return _connect_dots(pair) if side is ABOVE else _merge_labels(pair)


def _merge_labels(pair: Allocation) -> FinitePair:
    """The outputs with the label sum (X - X'): its masses under P and under Q."""
    laws = label_outputs(pair, Fraction(1), FINE)
    unseen, bits = pair.batches - pair.released, laws.plain.bits
    plain, by_x, by_other = (collect(law.atoms()) for law in (laws.plain, *laws.weighted))
    places = sorted({*by_x, *by_other})
    p, q = ([law.get(at, 0) + unseen * plain.get(at, 0) for at in places] for law in (by_x, by_other))
    whole = pair.batches << bits
    merged = order_cells(p, q, whole, whole)
    return as_pair([Fraction(p, whole) for p, _ in merged], [Fraction(q, whole) for _, q in merged])


def _connect_dots(pair: Allocation) -> FinitePair:
    """Chords of t -> H_t between orders t, and their mirror images; flat after the last."""
    below = bound_exchanged_pass(pair, BELOW)
    scale = sum(float(p) * abs(loss) for (p, _), loss in zip(below.levels, below.losses, strict=True))
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
    """The curve of a single pass on one side, each order by itself."""

    def __init__(self, pair: Allocation, side: Side) -> None:
        self.pair, self.side = pair, side

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Normal noise hides everything a little."""
        return -math.inf, -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """One end is that of this side, the other says nothing."""
        return self._log_bounds(epsilon, FINE)

    def _log_bounds(self, epsilon: float, fine: int) -> LogBounds:
        # H falls with the order: e^epsilon is rounded to the side
        slack = 2 * math.ulp(1.0) * (1 if self.side is ABOVE else -1)
        order = Fraction(math.exp(epsilon)) * (1 - Fraction(slack) * 4)
        value = bound_divergence(self.pair, max(order, Fraction(1)), self.side, fine)
        if self.side is ABOVE:
            return LogBounds(-math.inf, min(log_ends(ceil_float(value))[1], 0.0))
        low = floor_float(value)
        return LogBounds(log_ends(low)[0] if low > 0 else -math.inf, 0.0)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Where this side crosses delta; roughly first."""
        least, most = log_ends(delta)

        def excess(fine: int, epsilon: float) -> float:
            found = self._log_bounds(epsilon, fine)
            return found.upper - least if self.side is ABOVE else found.lower - most

        start = 3 * float(self.pair.step.gaussian_separation or 0) / math.sqrt(self.pair.batches)
        _, rough = find_crossing(
            lambda epsilon: excess(COARSE, epsilon),
            start=start,
            slope=-5 / start,
            resolution=0.002 * start,
            highest=math.inf,
        )
        slope = -max(abs(math.log(delta)), 1.0) / max(rough, 1e-300)
        low, high = find_crossing(
            lambda epsilon: excess(FINE, epsilon),
            start=rough,
            slope=slope,
            resolution=accuracy / 10 / -slope,
            highest=math.inf,
        )
        return (0.0, high) if self.side is ABOVE else (low, math.inf)
