"""The curve of a single pass in which a record is exchanged."""

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

from tightrope.engines.composition import Composition
from tightrope.engines.crossing import find_crossing
from tightrope.engines.face import ABOVE, EngineDeclines, LogBounds, Side
from tightrope.engines.passes.exchanged import bound_divergence
from tightrope.engines.passes.exchanged_pair import COARSE, FINE, merge_labels
from tightrope.engines.passes.refusal import LOST, refusing
from tightrope.engines.passes.walked import can_walk, walk_divergence
from tightrope.numerics.balls import ball, ceil_float, enclose, floor_float
from tightrope.numerics.floats import log_ends
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule

ROUGH, FURTHER, TINY, SLOW = 0.1, 1.01, 1e-12, 1e-3  # where and how steep the curve is, to place a search
FARTHEST = 200.0  # a larger epsilon needs no more than what is known without any sampling


class OneExchangedPass:
    """The curve of a single pass on one side, each order by itself; the other end says nothing.

    `compose` makes the curve of a schedule without passes: what labels tell.
    """

    def __init__(self, pair: Allocation, side: Side, compose: Callable[[Schedule], Composition]) -> None:
        self.pair, self.side, self._compose = pair, side, compose

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Normal noise hides everything a little."""
        return -math.inf, -math.inf

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """From above at this order; from below by the labels for it; far out nothing but delta <= 1."""
        what = f"delta at {{epsilon={epsilon:g}}} could not be certified"
        with refusing(what, "Ask for another {epsilon}."):
            return self._log_bounds(epsilon, accuracy)

    def _log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        if epsilon > FARTHEST:
            return LogBounds(-math.inf, 0.0)
        if self.side is not ABOVE:
            return LogBounds(self._labels(epsilon, FINE).log_bounds(epsilon, accuracy / 8).lower, 0.0)
        order = Fraction(floor_float(enclose(lambda: ball(epsilon).exp())))
        order = max(order, Fraction(1))  # H falls with it
        value = ceil_float(bound_divergence(self.pair, order, ABOVE, FINE))
        return LogBounds(-math.inf, min(log_ends(value)[1], 0.0))

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Where this side crosses delta; rough labels tell about where, and how steep the curve is there."""
        what = f"epsilon at {{delta={delta:g}}} could not be certified"
        with refusing(what, "Ask for another {delta}."):
            return self._epsilon_bounds(delta, accuracy)

    def _epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        about, slope = self._search_roughly(delta, accuracy)
        if self.side is not ABOVE:
            return self._labels(about, FINE).epsilon_bounds(delta, accuracy / 8)[0], math.inf
        least, _ = log_ends(delta)
        _, high = find_crossing(
            lambda epsilon: self.log_bounds(epsilon, accuracy).upper - least,
            start=about,
            slope=min(slope, -SLOW),
            resolution=accuracy / 4 / max(-slope, SLOW),
            highest=math.inf,
        )
        return 0.0, high

    def _search_roughly(self, delta: float, accuracy: float) -> tuple[float, float]:
        """About where the curve crosses delta, and how steep ln delta is there."""
        with suppress(*LOST):
            return self._walk(delta)
        about = self._labels(0.0, COARSE).epsilon_bounds(delta, accuracy)[0]
        labels = self._labels(about, COARSE)
        about = labels.epsilon_bounds(delta, accuracy)[0]
        here, there = (labels.log_bounds(at, ROUGH).upper for at in (about, about * FURTHER + TINY))
        return about, (there - here) / (about * (FURTHER - 1) + TINY) if there > -math.inf else -1 / TINY

    def _walk(self, delta: float) -> tuple[float, float]:
        if not can_walk(self.pair):
            raise EngineDeclines("differences that one lattice does not hold")

        def height(epsilon: float) -> float:
            return log_ends(walk_divergence(self.pair, max(Fraction(math.exp(epsilon)), Fraction(1))))[1]

        scale, goal = 2 * walk_divergence(self.pair, Fraction(1)), log_ends(delta)[0]
        _, about = find_crossing(
            lambda epsilon: height(epsilon) - goal,
            start=4 * scale,
            slope=-4 / scale,
            resolution=scale / 1000,
            highest=FARTHEST,
        )
        if not 0 < about <= FARTHEST:
            return 0.0 if about == 0 else FARTHEST, -1 / scale
        here, there = height(about), height(about * FURTHER + TINY)
        return about, (there - here) / (about * (FURTHER - 1) + TINY) if there > -math.inf else -1 / TINY

    def _labels(self, epsilon: float, fine: int) -> Composition:
        return self._compose(Schedule([(merge_labels(self.pair, math.exp(epsilon), fine), 1)]))
