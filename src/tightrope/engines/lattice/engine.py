"""K steps of any pairs on a lattice of losses, tilted and wrapped: for where the contour engine is too slow.

Losses are cut at multiples of a spacing h chosen for this question alone. Each side becomes a law on the
lattice, is tilted by e^{c loss} so that the rare losses that make delta are typical, wrapped around a period
Lambda and raised to the k-th power by one FFT. On a lattice the Fourier sum is finite: there is no integral
to cut off. The gap between the sides is about k c (c + 1) h^2 / 8, relative to delta.

ABOVE: atoms at lattice points (`spread`). Wrapped mass counts at least as much as it is worth, if places just
above epsilon count as much as one a period away. BELOW: every merged cell is rounded to a lattice label, and
the test "the labels sum to more than a threshold" is evaluated under P^k and Q^k exactly. Any test is a lower
bound, and an almost optimal one loses only to second order.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.face import NO_HINT, Hint, LogBounds
from tightrope.engines.lattice.law import (
    FARTHEST,
    SPACING_BITS,
    LatticeStep,
    few_bits,
)
from tightrope.engines.lattice.laws import LatticeLaws
from tightrope.engines.one_step.atoms import LossAtoms, merge, spread
from tightrope.engines.one_step.cells import Cells, cut
from tightrope.engines.one_step.enclosures import log_sum_above
from tightrope.engines.planning import Plan
from tightrope.engines.saddle import Placement, log_delta_estimate, place_contour, tilt_for_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats
from tightrope.numerics.fourier import fast_size
from tightrope.pairs.schedule import Schedule

LONGEST = 1 << 22  # lattice points in one period: about a second
MOST_CELLS = 1 << 21
FEW_CELLS = 20_000  # up to here it is not worth thinning the nodes
MOST_ATTEMPTS = 9
NEAR_ZERO = 0.005  # how far apart nodes are at most where they are thinned, relative to the loss


class Runs(ABC):
    """Which runs of a schedule to compose, and where their losses lie; all but `cut` is for planning."""

    schedule: Schedule
    log_mass: float  # about ln of the probability of these runs
    log_infinite: float  # ln of a lower bound on the probability that one of these runs has an infinite loss

    @abstractmethod
    def cumulants(self, c: float) -> tuple[float, float, float]:
        """About ln of the composed moment at tilt c, and its first two derivatives in c."""

    @abstractmethod
    def profile(self, index: int, c: float, epsilon: float) -> tuple[Floats, Floats]:
        """Losses of one part, and how often each is expected in a tilted run or makes delta by itself."""

    @abstractmethod
    def loss_range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        """The losses of one part outside of which little of the tilted run lies."""

    @abstractmethod
    def cut(self, index: int, nodes: Floats) -> tuple[Cells, Cells | None]:
        """The cells of one part; those of a jump apart."""

    def expect_jumps(self, index: int, c: float) -> float:
        """How many jumps of one part to expect in a tilted run."""
        return 0.0

    def cap(self, log_cap: float) -> "Runs":
        """The same runs, planned without losses so rare that they can count as infinite."""
        return self


class _AllRuns(Runs):
    """All runs of a schedule."""

    def __init__(self, schedule: Schedule, log_cap: float = -math.inf) -> None:
        self.schedule, self.plan = schedule, Plan(schedule, log_cap)
        self.log_mass, self.log_infinite = 0.0, schedule.log_infinite_mass[0]

    def cumulants(self, c: float) -> tuple[float, float, float]:
        return self.plan(c)

    def profile(self, index: int, c: float, epsilon: float) -> tuple[Floats, Floats]:
        outline, times = self.plan.parts[index]
        losses, weights, _ = outline.tilted(c)
        with np.errstate(divide="ignore"):
            log_masses = np.log(weights) - c * losses
        return losses, times * weights + relevance(losses, log_masses, epsilon)

    def loss_range(self, index: int, c: float, log_share: float, log_mass: float) -> tuple[float, float]:
        return self.plan.parts[index][0].losses_that_matter(c, log_share, log_mass)

    def cut(self, index: int, nodes: Floats) -> tuple[Cells, Cells | None]:
        return cut(self.schedule.parts[index][0], nodes), None

    def cap(self, log_cap: float) -> "_AllRuns":
        return _AllRuns(self.schedule, log_cap)


@dataclass(frozen=True)
class LatticeEngine:
    """Certified bounds for compositions of any pairs."""

    schedule: Schedule
    longest: int = LONGEST

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> LatticeLaws:
        """Laws placed for `epsilon`, whose bounds should be about `tolerance` apart."""
        laws, _ = find_laws(_AllRuns(self.schedule), epsilon, tolerance, self.longest, hint.log_delta)

        def recount(schedule: Schedule) -> LatticeLaws:
            return laws.recounted([times for _, times in schedule], schedule.log_infinite_mass[0])

        return replace(laws, recount=recount)


@dataclass(frozen=True)
class Aim:
    """What a lattice is made for: the question, about its answer, and how large each error may get."""

    epsilon: float
    log_delta: float
    cells: float  # relative to delta
    log_alias: float  # ln of the share of delta that repetitions may have
    log_tail: float  # ln of the share of delta whose losses may count as infinite


def find_laws(
    runs: Runs, epsilon: float, tolerance: float, longest: int, log_delta: float | None = None
) -> tuple[LatticeLaws, int]:
    """Laws for `epsilon`, the best of a few attempts, and how many lattice points were worked on in all."""
    if log_delta is None:
        saddle = tilt_for_epsilon(runs.cumulants, epsilon)
        log_delta = min(log_delta_estimate(runs.cumulants, saddle, epsilon), 0.0)
    log_tolerance = math.log(tolerance)
    aim = Aim(epsilon, log_delta, tolerance, log_tolerance - 2, log_tolerance - 7)
    spent, least_rounding = 0, math.inf
    best: tuple[float, LatticeLaws] | None = None
    for _ in range(MOST_ATTEMPTS):
        try:
            laws = _make_laws(runs.cap(aim.log_delta + aim.log_tail), aim, longest)
        except NotPreciseEnough:
            if best is None:
                raise
            break
        bounds = laws.bounds(epsilon)
        if best is None or bounds.width <= best[0]:
            best = bounds.width, laws
        rounding = bounds.errors.rounding
        spent += laws.size
        is_drowned = rounding > tolerance and rounding > 0.9 * least_rounding
        if bounds.width <= tolerance or is_drowned or spent > 3 * longest:
            break
        if bounds.lower > -math.inf:
            least_rounding = min(least_rounding, rounding)
        aim = _correct(aim, bounds, tolerance)
    assert best is not None
    return best[1], spent


def _correct(aim: Aim, bounds: LogBounds, tolerance: float) -> Aim:
    """The next aim: what is now certified about delta, and more room for whichever error was too large.

    The saddle-point estimate of delta can be far off where few steps matter.
    """
    errors, log_alias, log_tail, cells = bounds.errors, aim.log_alias, aim.log_tail, aim.cells
    if errors.aliasing > tolerance / 4:
        log_alias -= 1 + math.log(errors.aliasing / tolerance)
    if errors.tails > tolerance / 4:
        log_tail -= 1 + math.log(errors.tails / tolerance)
    if errors.discretisation > tolerance / 2:
        cells *= max(0.4 * tolerance / errors.discretisation, 1e-3)
    if bounds.lower > -math.inf:
        return Aim(aim.epsilon, bounds.lower, cells, log_alias, log_tail)
    # nothing is certain below: the aliases, or cells too coarse for any test
    return Aim(aim.epsilon, min(bounds.upper, aim.log_delta), 0.1 * cells, log_alias - 5, log_tail)


def _make_laws(runs: Runs, aim: Aim, longest: int) -> LatticeLaws:
    saddle = tilt_for_epsilon(runs.cumulants, aim.epsilon)
    spot = place_contour(runs.cumulants, saddle, aim.epsilon, aim.log_delta + aim.log_alias, runs.log_mass)
    length = max(spot.period / _choose_spacing(runs, spot.tilt, aim), 256.0)
    if length > longest:
        raise NotPreciseEnough(f"It would take {length:.1e} lattice points.")
    size = fast_size(math.ceil(length * (1 + 2.0 ** (1 - SPACING_BITS))))
    spacing = few_bits(spot.period / size * (1 + 2.0 ** (1 - SPACING_BITS)))
    spot = replace(spot, period=size * spacing)
    above: list[LatticeStep] = []
    below: list[LatticeStep] = []
    cells_rel_errors: list[float] = []
    for index, (_, times) in enumerate(runs.schedule):
        calm, wild = runs.cut(index, _choose_nodes(runs, index, spot, spacing, aim))
        cells_rel_errors.append(times * calm.average_rel_error(spot.tilt))
        if wild is not None:
            jumps = max(runs.expect_jumps(index, spot.tilt), 1.0)
            cells_rel_errors.append(jumps * wild.average_rel_error(spot.tilt))
        atoms, jump = _join(spread(calm), None if wild is None else spread(wild))
        above.append(LatticeStep.above(atoms, times, spacing, jump))
        atoms, jump = _join(merge(calm), None if wild is None else merge(wild))
        below.append(LatticeStep.below(atoms, times, spacing, spot.tilt, jump))
    return LatticeLaws.of(above, below, spot, spacing, size, runs.log_infinite, sum(cells_rel_errors))


def _join(calm: LossAtoms, wild: LossAtoms | None) -> tuple[LossAtoms, NDArray[np.bool_] | None]:
    """All atoms, and which of them belong to a jump."""
    if wild is None:
        return calm, None
    both = replace(
        calm,
        losses=np.concatenate([calm.losses, wild.losses]),
        log_masses=np.concatenate([calm.log_masses, wild.log_masses]),
        log_infinite=log_sum_above(np.array([calm.log_infinite, wild.log_infinite])),
    )
    return both, np.arange(len(both.losses)) >= len(calm.losses)


def _choose_spacing(runs: Runs, c: float, aim: Aim) -> float:
    """The lattice spacing at which the two sides are about half of `aim.cells` apart."""
    profiles = [runs.profile(index, c, aim.epsilon) for index in range(len(runs.schedule.parts))]
    count = sum(float(counts.sum()) for _, counts in profiles)
    spacing = 0.0
    for _ in range(4):
        spacing = math.sqrt(4 * aim.cells / (max(count, 0.1) * c * (1 + c)))
        count = sum(float(counts @ _spread_share(losses, spacing)) for losses, counts in profiles)
    return spacing


def _choose_nodes(runs: Runs, index: int, spot: Placement, spacing: float, aim: Aim) -> Floats:
    """Multiples of the spacing at which to cut one step, thinned out where little tilted mass lies."""
    pair, times = runs.schedule.parts[index]
    if pair.is_finite:
        # a level's loss, up to rounding, lies between the first two or the last two of these
        below = np.floor(np.array(pair.losses) / spacing)
        return np.unique(np.concatenate([below - 1, below, below + 1, below + 2])) * spacing
    log_share = math.log(aim.cells) - math.log(times) - 7
    low, high = runs.loss_range(index, spot.tilt, log_share, log_share + aim.log_delta)
    first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
    if max(-first, last) > FARTHEST:
        raise NotPreciseEnough(f"One step's losses would span {last - first:.1e} lattice points.")
    if pair.has_atom_at_zero:
        first, last = min(first, -1), max(last, 1)
    if last - first <= FEW_CELLS:
        return np.arange(first, last + 1, dtype=float) * spacing
    losses, counts = runs.profile(index, spot.tilt, aim.epsilon)
    order = np.argsort(losses)
    losses, counts = losses[order], (counts * _spread_share(losses, spacing))[order]
    inside = (losses > low) & (losses < high)
    losses = np.concatenate([[first * spacing], losses[inside], [last * spacing]])
    shares = np.concatenate([[0.0], counts[inside] / counts.sum(), [0.0]])
    rates = _thin(losses, shares, spacing, aim.epsilon, 4 * spot.tilt)
    number = np.concatenate([[0], np.cumsum((rates[1:] + rates[:-1]) / 2 * np.diff(losses))])
    if number[-1] > MOST_CELLS:
        raise NotPreciseEnough(f"One step would take {number[-1]:.1e} cells.")
    places = np.interp(np.arange(math.ceil(number[-1]) + 1), number, losses)
    # next to loss 0 lies all that happens most of the time, on a scale that the profile may not resolve
    reach = max(-first, last, 2)
    near = np.rint(np.geomspace(1, reach, math.ceil(math.log(reach) / NEAR_ZERO)))
    labels = np.concatenate([np.rint(places / spacing), -near, [0], near])
    return np.unique(np.clip(labels, first, last)) * spacing


def _thin(losses: Floats, shares: Floats, spacing: float, epsilon: float, least_rate: float) -> Floats:
    """How many nodes per loss to use at each loss, at most one per lattice point."""
    gaps = np.gradient(losses)
    density = shares / np.maximum(gaps, spacing)
    density = np.maximum(density, 1e-30 * density.max())
    # cells of width ~ density^(-1/3) lose least for their number; this scale at most doubles the loss
    scale = float(np.sum(np.cbrt(density) * gaps)) ** 1.5
    rates = np.minimum(1, np.cbrt(density * scale)) / spacing
    # ... as long as the tilt, and what is still missing to epsilon, change little across a cell
    finest = np.where(np.abs(losses) < 2 * epsilon, 500 / max(epsilon, 1e-300), 0.0)
    return np.asarray(np.minimum(np.maximum(np.maximum(rates, least_rate), finest), 1 / spacing))


def _spread_share(losses: Floats, spacing: float) -> Floats:
    """How much of a loss is really spread: one much smaller than the spacing stays next to the point 0."""
    return np.minimum(1, 6 * np.abs(losses) / spacing)


def relevance(losses: Floats, log_masses: Floats, epsilon: float) -> Floats:
    """The share of each loss in the divergence at epsilon of one step alone, and some near epsilon.

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
