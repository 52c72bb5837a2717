"""K steps of any pairs on a lattice of losses, tilted and wrapped: certified where the contour engine is too slow.

Losses are cut at multiples of a spacing h chosen for this question alone. Each side becomes a law on the lattice, is tilted
by e^{c loss} so that the rare losses that make delta are typical, wrapped around a period Lambda and raised to the k-th
power by one FFT. On a lattice the Fourier sum is finite: there is no integral to cut off. The gap between the sides is
about k c (c + 1) h^2 / 8, relative to delta.

ABOVE: atoms at lattice points (`spread`). Wrapping adds e^{c m Lambda} delta(eps + m Lambda) >= 0 for m != 0: still above.
BELOW: every merged cell is rounded to a lattice label, and the test "the labels sum to more than a threshold" is evaluated
under P^k and Q^k exactly. Any test is a lower bound, and an almost optimal one loses only to second order.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.atoms import LossAtoms, merge, spread
from tightrope.engines.cells import Cells, cut
from tightrope.engines.face import NO_HINT, Hint
from tightrope.engines.lattice.law import LatticeLaws, LatticeSide, LatticeStep, composed_log_moment
from tightrope.engines.planning import Outline, Plan
from tightrope.engines.saddle import Cumulants, Placement, log_delta_estimate, place, tilt_for_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope

LONGEST = 1 << 22  # lattice points in one period: about a second
MOST_CELLS = 1 << 21
FEW_CELLS = 20_000  # up to here it is not worth thinning the nodes


class LatticeEngine:
    """Certified bounds for compositions of any pairs."""

    def __init__(self, schedule: Schedule, longest: int = LONGEST) -> None:
        self.schedule, self.longest = schedule, longest
        self.plan = Plan(schedule)
        self.epsilon = 0.0
        self.spent = 0  # lattice points worked on for the current question

    @property
    def parts(self) -> list[tuple[Outline, int]]:
        """The outline of each distinct step, and how often it is played."""
        return self.plan.parts

    @property
    def cumulants(self) -> Cumulants:
        """ln of the composed moment at a tilt and its first two derivatives, for planning."""
        return self.plan

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> LatticeLaws:
        """Laws placed for `epsilon`, whose bounds should be about `tolerance` apart."""
        self.epsilon, self.spent = epsilon, 0
        log_delta = hint.log_delta
        if log_delta is None:
            saddle = tilt_for_epsilon(self.cumulants, epsilon)
            log_delta = min(log_delta_estimate(self.cumulants, saddle, epsilon), 0.0)
        aim, cap_slack, alias_slack, best = tolerance, 7.0, 2.0, math.inf
        for _ in range(9):
            self._cap(log_delta + math.log(tolerance) - cap_slack)
            laws = self._laws(epsilon, log_delta, aim, math.log(tolerance) - alias_slack)
            bounds = laws.bounds(epsilon)
            errors = bounds.errors
            self.spent += laws.size
            if self.spent > 3 * self.longest:
                break
            if bounds.width <= tolerance or (errors.rounding > tolerance and errors.rounding > 0.9 * best):
                break
            best = min(best, errors.rounding) if bounds.lower > -math.inf else best
            # The saddle-point estimate can be far off where few steps matter: plan again from what is now certified,
            # with more room for whichever error was too large.
            if errors.aliasing > tolerance / 4:
                alias_slack += 1 + math.log(errors.aliasing / tolerance)
            if errors.tails > tolerance / 4:
                cap_slack += 1 + math.log(errors.tails / tolerance)
            if errors.cells > tolerance / 2:
                aim *= max(0.4 * tolerance / errors.cells, 1e-3)
            if bounds.lower > -math.inf:
                log_delta = bounds.lower
            else:
                log_delta = min(bounds.upper, log_delta)
                alias_slack += 5
        return laws

    def _cap(self, log_cap: float) -> None:
        """Plan without losses so rare that they can count as infinite."""
        self.plan = Plan(self.schedule, log_cap)

    def _laws(self, epsilon: float, log_delta: float, tolerance: float, log_alias: float) -> LatticeLaws:
        saddle = tilt_for_epsilon(self.cumulants, epsilon)
        spot = place(self.cumulants, saddle, epsilon, log_delta + log_alias, self._log_mass())
        spacing = self._spacing(spot.tilt, tolerance / 2)
        length = max(spot.period / spacing, 256.0)
        if length > self.longest:
            raise NotPreciseEnough(f"It would take {length:.1e} lattice points.")
        size = fft.next_fast_len(math.ceil(length), real=True)
        spacing = spot.period / size
        above: list[LatticeStep] = []
        below: list[LatticeStep] = []
        log_finite, blur = [0.0, 0.0], 0.0  # ln of the probability that no loss is infinite, ABOVE and BELOW
        for index, (outline, times) in enumerate(self.parts):
            nodes = self._nodes(index, spot, spacing, log_delta, tolerance)
            calm, wild = self._cells(outline, nodes)
            for i, (discretise, on_lattice, steps) in enumerate(
                ((spread, LatticeStep.above, above), (merge, LatticeStep.below, below))
            ):
                atoms, jump = _joined(discretise(calm), None if wild is None else discretise(wild))
                steps.append(on_lattice(atoms, times, spacing, spot.tilt, jump))
                log_finite[i] += times * (
                    math.log1p(-math.exp(atoms.log_infinite)) if atoms.log_infinite < -1e-12 else -math.inf
                )
            blur += self._blur(index, spot.tilt, calm, wild)
        return LatticeLaws(
            spot=spot,
            spacing=spacing,
            size=size,
            above=LatticeSide.of(above, spot.tilt, size),
            below=LatticeSide.of(below, spot.tilt, size),
            below_dual=LatticeSide.of(below, spot.tilt, size, dual=True),
            log_infinite=_log_complement(log_finite[0]),
            below_infinite=_log_complement(log_finite[1]),
            log_mass=composed_log_moment(below, 0.0) + 1e-9,
            log_moment_beyond=composed_log_moment(below, spot.tilt_beyond) + 1e-9,
            log_moment_above=composed_log_moment(above, spot.tilt) + 1e-9,
            blur=blur,
        )

    # What follows is about all runs; big_jump overrides it for runs with and without a jump.

    def _log_mass(self) -> float:
        """About ln of the probability of the runs that are counted."""
        return 0.0

    def _profile(self, index: int, c: float) -> tuple[Floats, Floats]:
        """Losses of one part and how often each is expected in a tilted run, plus once where it makes delta by itself."""
        outline, times = self.parts[index]
        losses, weights, _ = outline.tilted(c)
        with np.errstate(divide="ignore"):
            return losses, times * weights + relevance(losses, np.log(weights) - c * losses, self.epsilon)

    def _cells(self, outline: Outline, nodes: Floats) -> tuple[Cells, Cells | None]:
        """The cells of one step; those of a jump apart."""
        return cut(outline.pair, nodes), None

    def _blur(self, index: int, c: float, calm: Cells, wild: Cells | None) -> float:
        """How far rounding in masses and losses can move delta, relative to it."""
        _, times = self.parts[index]
        return times * relative_blur(calm, c)

    def _range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        """The losses outside of which little of the tilted run lies."""
        return self.parts[index][0].losses_that_matter(c, log_share, log_mass)

    def _spacing(self, c: float, tolerance: float) -> float:
        """The lattice spacing at which the two sides are about `tolerance` apart."""
        profiles = [self._profile(index, c) for index in range(len(self.parts))]
        live = sum(float(counts.sum()) for _, counts in profiles)
        spacing = 0.0
        for _ in range(4):
            spacing = math.sqrt(8 * tolerance / (max(live, 0.1) * c * (1 + c)))
            live = sum(float(counts @ _live(losses, spacing)) for losses, counts in profiles)
        return spacing

    def _nodes(
        self, index: int, spot: Placement, spacing: float, log_delta: float, tolerance: float
    ) -> Floats:
        """Multiples of the spacing at which to cut one step, thinned out where little tilted mass lies."""
        outline, times = self.parts[index]
        if isinstance(outline.pair, FinitePair):
            below = np.floor(np.array(outline.pair.losses) / spacing)
            return np.unique(np.concatenate([below, below + 1])) * spacing
        log_share = math.log(tolerance) - math.log(times) - 7
        low, high = self._range(index, spot.tilt, log_share, log_share + log_delta)
        first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
        if isinstance(outline.pair, Envelope):  # its atom at loss 0 stays where it is
            first, last = min(first, -1), max(last, 1)
        if last - first <= FEW_CELLS:
            return np.arange(first, last + 1, dtype=float) * spacing
        losses, counts = self._profile(index, spot.tilt)
        order = np.argsort(losses)
        losses, counts = losses[order], (counts * _live(losses, spacing))[order]
        inside = (losses > low) & (losses < high)
        losses = np.concatenate([[first * spacing], losses[inside], [last * spacing]])
        gaps = np.gradient(losses)
        density = np.concatenate([[0.0], counts[inside] / counts.sum(), [0.0]]) / np.maximum(gaps, spacing)
        density = np.maximum(density, 1e-30 * density.max())
        # cells of width ~ density^(-1/3) lose least for their number; this scale at most doubles the loss
        scale = float(np.sum(np.cbrt(density) * gaps)) ** 1.5
        rate = np.minimum(1, np.cbrt(density * scale)) / spacing
        # ... as long as the tilt, and what is still missing to epsilon, change little across a cell
        finest = np.where(np.abs(losses) < 2 * self.epsilon, 500 / max(self.epsilon, 1e-300), 0.0)
        rate = np.minimum(np.maximum(np.maximum(rate, 4 * spot.tilt), finest), 1 / spacing)
        number = np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(losses))])
        if number[-1] > MOST_CELLS:
            raise NotPreciseEnough(f"One step would take {number[-1]:.1e} cells.")
        places = np.interp(np.arange(math.ceil(number[-1]) + 1), number, losses)
        kept = np.concatenate(
            [np.rint(places / spacing), [-1, 0, 1]]
        )  # next to loss 0 lies all that happens most of the time
        return np.unique(np.clip(kept, first, last)) * spacing


def relevance(losses: Floats, log_masses: Floats, epsilon: float) -> Floats:
    """The share of each loss in the divergence at epsilon of one step alone, epsilon's neighbourhood included.

    The tilted mass can lie below epsilon while delta is made above it: both deserve fine cells.
    """
    gain = np.maximum(
        -np.expm1(np.minimum(epsilon - losses, 0)),
        np.where(losses > 0.95 * epsilon, 0.02 * min(epsilon, 1.0), 0.0),
    )
    with np.errstate(divide="ignore"):
        exponents = np.log(gain) + log_masses
    top = float(exponents.max(initial=-np.inf))
    if top == -math.inf:
        return np.zeros(len(losses))
    shares = np.exp(exponents - top)
    return np.asarray(shares / shares.sum())


def _live(losses: Floats, spacing: float) -> Floats:
    """How much of a loss is really spread: one much smaller than the spacing sits next to the lattice point 0."""
    return np.minimum(1, 6 * np.abs(losses) / spacing)


def _joined(calm: LossAtoms, wild: LossAtoms | None) -> tuple[LossAtoms, NDArray[np.bool_] | None]:
    """All atoms, and which of them belong to a jump."""
    if wild is None:
        return calm, None
    both = replace(
        calm,
        losses=np.concatenate([calm.losses, wild.losses]),
        log_masses=np.concatenate([calm.log_masses, wild.log_masses]),
        log_infinite=float(np.logaddexp(calm.log_infinite, wild.log_infinite)),
    )
    return both, np.arange(len(both.losses)) >= len(calm.losses)


def relative_blur(cells: Cells, c: float) -> float:
    """The average over tilted cells of what rounding does to a mass and, through the tilt, to a loss."""
    if len(cells.log_masses) == 0:
        return 0.0
    exponents = cells.log_masses + c * cells.merged
    weights = np.exp(exponents - exponents.max())
    accuracy = 8 * UNIT_ROUNDOFF * (8 + np.abs(cells.log_masses)) + (1 + c) * cells.loss_abs_errors
    return float(weights @ accuracy / weights.sum())


def _log_complement(log_probability: float) -> float:
    """ln(1 - e^x)."""
    return math.log(-math.expm1(log_probability)) if log_probability < 0 else -math.inf
