"""Both sides of a composition on one lattice, and what they say about delta."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tightrope.engines.face import Errors, LogBounds, Recountable
from tightrope.engines.lattice.law import (
    FARTHEST,
    SUMMED,
    LatticeSide,
    LatticeStep,
    log_moment_above,
    log_or_inf,
)
from tightrope.engines.one_step.enclosures import log_sum_above
from tightrope.engines.saddle import GeometricTail, Placement, log_chernoff_factor
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma, log_complement
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR, logaddexp_abs_error
from tightrope.pairs.schedule import Schedule

NEAR_LABELS = 0.5  # so much more than its label says a run may lose for its excess to be composed
STEEP = 30.0  # the tilt from which on that pays: P's masses and Q's agree to all but its inverse


@dataclass(frozen=True, kw_only=True)
class LatticeLaws(Recountable):
    """Both sides on one lattice: certified bounds at any epsilon, tight near the one they were made for."""

    spot: Placement
    spacing: float
    size: int
    above: LatticeSide
    below: LatticeSide
    below_dual: LatticeSide | None
    below_excess: LatticeSide | None  # instead, where all losses are tiny
    log_infinite: float  # ln of the probability of an infinite loss, ABOVE
    below_infinite: float  # the same BELOW
    log_mass: float  # ln of a bound on the probability, BELOW, of all runs that are counted
    log_moment_beyond: float
    log_moment_above: float
    cells_rel_error: float  # about what rounding in the cells does, which is in the masses already
    steps: tuple[list[LatticeStep], list[LatticeStep]]  # ABOVE and BELOW
    recount: "Callable[[Schedule], LatticeLaws] | None" = None  # where it is of use

    @staticmethod
    def of(
        above: list[LatticeStep],
        below: list[LatticeStep],
        spot: Placement,
        spacing: float,
        size: int,
        below_infinite: float,
        cells_rel_error: float,
    ) -> "LatticeLaws":
        """Both sides from their steps."""
        side = LatticeSide.of(below, spot.tilt, size)
        is_near = spot.tilt > STEEP and side.offset * spacing < NEAR_LABELS
        is_near = is_near and all(step.jump is None for step in below)
        return LatticeLaws(
            spot=spot,
            spacing=spacing,
            size=size,
            above=LatticeSide.of(above, spot.tilt, size),
            below=side,
            below_dual=None if is_near else LatticeSide.of(below, spot.tilt, size, dual=True),
            below_excess=side.excess(below, spot.tilt) if is_near else None,
            log_infinite=_compose_infinite([(step.log_infinite, step.times) for step in above]),
            below_infinite=below_infinite,
            log_mass=log_moment_above(below, 0.0),
            log_moment_beyond=log_moment_above(below, spot.tilt_beyond),
            log_moment_above=log_moment_above(above, spot.tilt),
            cells_rel_error=cells_rel_error,
            steps=(above, below),
        )

    def recounted(self, counts: Sequence[int], below_infinite: float) -> "LatticeLaws":
        """The same lattice with other counts of its steps, none of which has jumps to tell apart."""
        above, below = (
            [replace(step, times=times) for step, times in zip(side, counts, strict=True)]
            for side in self.steps
        )
        longer = max(times / step.times for step, times in zip(self.steps[0], counts, strict=True))
        error = self.cells_rel_error * max(longer, 1.0)
        return LatticeLaws.of(above, below, self.spot, self.spacing, self.size, below_infinite, error)

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        tilt = self.spot.tilt
        if abs(epsilon) > FARTHEST * self.spacing:
            terms = self.log_moment_above, -tilt * epsilon, log_chernoff_factor(tilt)
            far = sum(terms) + UNIT_ROUNDOFF * (64 + 32 * sum(map(abs, terms)))
            return LogBounds(-math.inf, min(_add_above(far, self.log_infinite), 0.0))
        finite, error_above = self.above.divergence_above(epsilon, tilt, self.spacing)
        upper = min(_add_above(finite, self.log_infinite), 0.0)  # delta is at most 1
        lower, aliasing, error_below = self._below(epsilon)
        lower = _add_below(lower, self.below_infinite)
        tails = math.exp(self.log_infinite - upper) - math.exp(self.below_infinite - upper)
        wrapped, *rounded = (math.exp(min(x - upper, 0.0)) for x in (aliasing, error_above, error_below))
        rounding = 2 * self.cells_rel_error + sum(rounded)
        cells = max(-math.expm1(lower - upper) - tails - wrapped - rounding, 0.0)
        return LogBounds(lower, upper, Errors(cells, max(tails, 0.0), wrapped, 0.0, rounding))

    @cached_property
    def _decays(self) -> tuple[Floats, Floats]:
        """What undoes the tilt, and the tilt of Q's masses, from the first place on."""
        c, places = self.spot.tilt, np.arange(self.size) * self.spacing
        return np.exp(-c * places), np.exp(-(1 + c) * places) + UNDERFLOW_ABS_ERROR

    def _below(self, epsilon: float) -> tuple[float, float, float]:
        """ln of the best test's advantage BELOW, of the aliasing and of the rounding charged in it."""
        c, p = self.spot.tilt, self.below
        lead = min(self.size // 8, math.ceil(0.5 / ((1 + c) * self.spacing)))
        start = math.floor(epsilon / self.spacing - p.offset) - lead
        if abs(start) + self.size > FARTHEST:
            return -math.inf, -math.inf, -math.inf
        first = start * self.spacing
        weigh = self._weigh_apart if self.below_dual is not None else self._weigh_excess
        worth, sizes, errors, rel_error = weigh(epsilon, start)
        # "reject above a threshold": any threshold will do, and this is about the best
        chosen = self.size - 1 - int(np.argmax(np.cumsum((worth - errors)[::-1])))
        gain, sized, error = (float(x[chosen:].sum()) for x in (worth, sizes, errors))
        beyond, period = self.spot.tilt_beyond, self.spot.period
        tilted = c * ((start - p.origin) * self.spacing)
        log_scale = p.log_scale - tilted
        scale_size = sum(
            map(abs, (p.log_scale, tilted, self.log_mass, self.log_moment_beyond, beyond * first))
        )
        rounding = p.scale_abs_error + UNIT_ROUNDOFF * (16 + 8 * scale_size + 8 * (c + beyond) * period)
        log_chernoff = self.log_moment_beyond - beyond * first
        aliasing = GeometricTail(-c * period).times(self.log_mass - log_scale + rounding)
        aliasing += GeometricTail(-(beyond - c) * period).times(log_chernoff - log_scale + rounding)
        # an exact mass is at most a computed one and its error
        error += rel_error * (sized + 8 * error)
        value = gain - error - aliasing * (1 + 64 * UNIT_ROUNDOFF)
        value -= UNIT_ROUNDOFF * 4 * sized
        total = log_scale + log_or_inf(value)
        if math.isfinite(total):
            total -= rounding + UNIT_ROUNDOFF * (8 * abs(log_or_inf(value)) + 2 * abs(total))
        return total, log_scale + log_or_inf(aliasing), log_scale + log_or_inf(error)

    def _weigh_excess(self, epsilon: float, start: int) -> tuple[Floats, Floats, Floats, float]:
        """What P' exceeds e^epsilon Q' by at each place, its size, its error, and what it loses relatively.

        At a place x above epsilon that is P' - e^-x (P' - excess) = P' (1 - e^-x) + e^-x excess: what is
        subtracted, where x < 0, is no larger than how far runs lie above their labels.
        """
        assert self.below_excess is not None
        c, p, more = self.spot.tilt, self.below, self.below_excess
        decay, _ = self._decays
        # places are exact, and so x loses one rounding of itself
        x = (start + np.arange(self.size)) * self.spacing - epsilon
        share, rest = -np.expm1(-x), np.exp(-x) + UNDERFLOW_ABS_ERROR
        own, excess = p.window(start) * decay * share, more.window(start) * decay * rest
        errors = decay * (p.mass_abs_error * np.abs(share) + more.mass_abs_error * rest)
        # functions, exponents on the places, and the sum
        rel_error = UNIT_ROUNDOFF * (40 + 4 * (1 + c) * self.size * self.spacing) + gamma(SUMMED)
        return own + excess, np.abs(own) + np.abs(excess), errors, rel_error

    def _weigh_apart(self, epsilon: float, start: int) -> tuple[Floats, Floats, Floats, float]:
        """The same from P's masses and Q's."""
        assert self.below_dual is not None
        c, p, q = self.spot.tilt, self.below, self.below_dual
        first, length = start * self.spacing, self.size * self.spacing
        decay, dual = self._decays
        terms = q.log_scale, -p.log_scale, epsilon, -first
        log_factor = math.fsum(terms)
        factor = math.exp(log_factor)
        # of e^exponents: functions, exponents on the places, and one rounding of the sum of exact terms
        rel_error = UNIT_ROUNDOFF * (40 + 4 * (1 + c) * length + 2 * abs(log_factor)) + gamma(SUMMED)
        rel_error += p.scale_abs_error + q.scale_abs_error
        gains, costs = p.window(start) * decay, factor * q.window(start) * dual
        errors = p.mass_abs_error * decay + factor * q.mass_abs_error * dual
        return gains - costs, np.abs(gains) + np.abs(costs), errors, rel_error


def _compose_infinite(parts: list[tuple[float, int]]) -> float:
    """An upper bound on ln of 1 - prod (1 - m)^k, from bounds on ln m; at most sum k m.

    ln(1 - m) is right to 30u relative (two functions), and |d ln(1 - e^x) / d ln x| <= 1.
    """
    parts = [(log_infinite, times) for log_infinite, times in parts if log_infinite > -math.inf]
    union = log_sum_above(np.array([log_infinite + math.log(times) for log_infinite, times in parts]))
    if union == -math.inf:
        return union
    union += 4 * UNIT_ROUNDOFF * max(abs(log_infinite) + math.log(times) + 1 for log_infinite, times in parts)
    if union < -30:  # so small, the two agree, and floats may underflow
        return union
    if any(log_infinite >= 0 for log_infinite, _ in parts):
        return 0.0
    log_finite = math.fsum(times * log_complement(log_infinite) for log_infinite, times in parts)
    log_any = log_complement(log_finite * (1 + 40 * UNIT_ROUNDOFF))
    return min(log_any + 40 * UNIT_ROUNDOFF * (1 + abs(log_any)), union, 0.0)


def _add_above(a: float, b: float) -> float:
    """An upper bound on ln(e^a + e^b)."""
    total = float(np.logaddexp(a, b))
    return total if total == -math.inf else total + 2 * float(logaddexp_abs_error(total))


def _add_below(a: float, b: float) -> float:
    """A lower bound on ln(e^a + e^b)."""
    total = float(np.logaddexp(a, b))
    return total if total == -math.inf else total - 2 * float(logaddexp_abs_error(total))
