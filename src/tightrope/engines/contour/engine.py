"""K steps without convolving: one certified integral over a vertical line in the complex plane.

With M_s(z) = E_P[e^{z loss}] for each distinct step and any c > 0,

    delta(eps) = 1/(2 pi i) * integral over Re z = c of  prod_s M_s(z)^{k_s} e^{-z eps} / (z (z + 1)) dz.

The trapezoidal rule with step h returns the sum over integers m of e^{c m Lambda} delta(eps + m Lambda),
Lambda = 2 pi / h: every term is positive, so aliasing errs upwards by itself and only the lower end is
charged for it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.contour.line_sum import LineScale, Real, check_sum, log_or_nothing, turning_abs_error
from tightrope.engines.face import (
    NO_HINT,
    BoundsOfMany,
    EngineDeclines,
    Errors,
    Hint,
    LogBounds,
    Recountable,
)
from tightrope.engines.neighbours import MANY_KINDS, dominate, represent
from tightrope.engines.saddle import Placement, log_delta_estimate, place_contour, tilt_for_epsilon
from tightrope.engines.transforms.make import kept_transform
from tightrope.engines.transforms.rooms import LOG_ROOM, ROOM, exp_or_inf
from tightrope.engines.transforms.transform import (
    ANGLE,
    COLUMNS,
    KEPT_LINES,
    LOG_LARGEST,
    LOG_MODULUS,
    LOG_ROUNDINGS,
    LONGEST_KEPT,
    REL_ERRORS,
    SIZES,
    Transform,
)
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, short
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, logaddexp_abs_error
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule

LEAST_NODES = 20  # of a transform, to tell early that a line takes too many evaluations
AT_ONCE = 1 << 18  # terms of rows that are added together: two megabytes
BLOCK = 128  # terms that are added in floats, in any order; sums of blocks are added exactly
CLOSER, MOST_FURTHER = 0.1, 1.7  # than the tolerance, if the integral reaches at most so many times further
PERIODS, REACHES = 1.1, 1.25  # ratios of the grids for period and cut-off, shared by runs of similar length


class ContourEngine:
    """Certified bounds for compositions of any pairs; distinct steps only multiply their transforms."""

    def __init__(
        self,
        schedule: Schedule,
        most_evaluations: int = 5_000_000,
        *,
        capped: list[tuple[Transform, int]] | None = None,
        log_beyond: float = -math.inf,
    ) -> None:
        """`capped` transforms may leave out runs, of probability at most e^log_beyond, that count as lost."""
        self.most_evaluations = most_evaluations  # nodes times heights; a million takes about 1 ms
        self.gaussian_square = schedule.gaussian_square  # of all full batches of Gaussian noise together
        self.schedule, self.capped = schedule, capped
        self.parts = [(pair, times) for pair, times in schedule if pair.gaussian_separation is None]
        infinite_below, infinite_above = schedule.log_infinite_mass
        if log_beyond > -math.inf:
            infinite_above = _add(infinite_above, log_beyond, 1)
        self.log_infinite, self.log_beyond = (infinite_below, infinite_above), log_beyond
        # of any sum over the steps: products with counts, additions, and the squares of full batches
        self.roundings = 9 + 3 * len(schedule.parts)

    @cached_property
    def guide(self) -> list[tuple[Transform, int]]:
        """What plans are made with."""
        return self.capped or _transforms(represent(self.schedule))

    def _steps(self) -> Iterator[tuple[Transform, int]]:
        """The transforms, each made when it is its turn: of many kinds not all are kept."""
        yield from self.capped or ((kept_transform(pair), times) for pair, times in self.parts)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """ln of the composed moment at c and its first two derivatives; declined where the transforms end."""
        square = self.gaussian_square
        log_moment, mean, variance = square * (c * (1 + c) / 2), square * (c + 0.5), square
        for transform, times in self.guide:
            one = transform.cumulants(c)
            log_moment += times * one[0]
            mean += times * one[1]
            variance += times * one[2]
        return log_moment, mean, variance

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "ContourLine":
        """A contour placed for `epsilon`, each of whose errors should stay below `tolerance`.

        They stay CLOSER where that costs next to nothing: then more epsilons and runs are told from there.
        """
        saddle = tilt_for_epsilon(self.cumulants, epsilon, hint.tilt)
        log_goal = min(log_delta_estimate(self.cumulants, saddle, epsilon), 0.0) + math.log(tolerance)
        spot = place_contour(self.cumulants, saddle, epsilon, log_goal)
        longest = self.most_evaluations / LEAST_NODES * 2 * math.pi / spot.period
        reach = self._reach(spot.tilt, epsilon, log_goal, longest)
        with suppress(EngineDeclines):
            closer = place_contour(self.cumulants, saddle, epsilon, log_goal + math.log(CLOSER))
            if closer.tilt == spot.tilt:  # for which the reach was found
                return self.line_at(closer, reach, CLOSER * tolerance)
        return self.line_at(spot, reach, tolerance)

    def _reach(self, c: float, epsilon: float, log_goal: float, longest: float) -> float:
        """Where to cut the integral, at most at `longest`."""
        log_moment, _, variance = self.cumulants(c)
        reach = on_grid(2 / math.sqrt(variance) if variance > 0 else 1 / c, REACHES)
        for transform, _ in self.guide:
            if transform.bounds_by_nodes:
                transform.nodes(c)  # or it declines
        found = math.inf
        while reach < min(1e12 * (1 + c), longest, MOST_FURTHER * found):
            log_modulus = -self.gaussian_square * reach**2 / 2
            for transform, times in self.guide:
                log_modulus += times * math.log(min(transform.modulus_from(c, reach), 1.0))
            excess = log_modulus + log_moment - c * epsilon - math.log(math.pi * reach) - log_goal
            if excess < math.log(CLOSER):
                return reach
            if excess < 0:
                found = min(found, reach)
            reach = on_grid(1.01 * reach, REACHES)
        if found < math.inf:
            return found
        raise EngineDeclines("the integrand decays too slowly")

    def line_at(self, spot: Placement, reach: float, tolerance: float) -> "ContourLine":
        """The integrand up to `reach` on the contour that is placed there."""
        c = spot.tilt
        step = short(2 * math.pi / on_grid(spot.period, PERIODS))
        count = math.ceil(reach / step) + 1  # the quotient is rounded; the last height is beyond `reach`
        if LEAST_NODES * count > min(self.most_evaluations, LEAST_NODES * 2**23):
            raise EngineDeclines("the integrand decays too slowly")
        kernel = kernel_on(c, step, count)
        t = kernel.heights
        log_moments = [self.gaussian_square * c * (1 + c) / 2]
        log_moment_error = missed = 0.0
        log_cut, many = -self.gaussian_square * reach**2 / 2, len(self.parts) > MANY_KINDS
        columns = self._full_batch_columns(c, kernel)
        for transform, times in self._steps():
            target = choose_target(tolerance, times)
            line = transform.line(c, step, count, target, self.most_evaluations)
            nodes = line.nodes
            # of many kinds nothing is kept, so that nothing is gained by what others could share
            modulus = transform.modulus_by(nodes, c, reach) if many else transform.modulus_from(c, reach)
            log_cut += times * math.log(min(modulus, 1.0))  # off by 10 u of itself
            log_moments.append(times * nodes.log_moment)
            log_moment_error += times * nodes.log_moment_abs_error
            missed += times * nodes.missing_rel_error
            columns += times * line.columns
        # of each ln|m| and arg m, their products with k, and their sum
        roundings = UNIT_ROUNDOFF * (LOG_ROUNDINGS + self.roundings)
        scale = LineScale(
            tilt=c,
            log_moment=math.fsum(log_moments),
            log_moment_abs_error=log_moment_error + roundings * math.fsum(map(abs, log_moments)),
            period=2 * math.pi / float(t[1]),
            tilt_beyond=spot.tilt_beyond,
            log_moment_beyond=self.log_moment_above(spot.tilt_beyond),
        )

        def recount(schedule: Schedule) -> ContourLine:
            if self.capped:
                raise EngineDeclines("what caps leave out depends on the counts")
            return ContourEngine(schedule, self.most_evaluations).line_at(spot, reach, tolerance)

        return ContourLine(
            scale=scale,
            kernel=kernel,
            columns=columns,
            phase_roundings=roundings,
            # relative to e^log_moment, not to the moment itself
            log_cut=log_cut * (1 - LOG_ROOM) - math.log(math.pi * float(t[-1])) + missed + LOG_ROOM,
            log_infinite=self.log_infinite,
            log_beyond=self.log_beyond,
            recount=recount,
        )

    def _full_batch_columns(self, c: float, kernel: "LineKernel") -> Floats:
        """The columns of a `StepLine` for all full batches of Gaussian noise together."""
        columns = np.zeros((COLUMNS, len(kernel.heights)))
        # Moduli, z + 1, their product and angles lose less than 4 * roundings; the logarithm 8 u of itself.
        columns[SIZES] = kernel.sizes
        if self.gaussian_square:
            log_modulus = -self.gaussian_square * kernel.heights**2 / 2
            angle = self.gaussian_square * kernel.heights * (c + 0.5)
            columns[LOG_MODULUS] = columns[LOG_LARGEST] = log_modulus
            columns[ANGLE] = angle
            columns[SIZES] += np.abs(log_modulus) + np.abs(angle)
        return columns

    def log_moment_above(self, c: float) -> float:
        """A certified upper bound of ln of the composed moment; of many kinds, those of larger neighbours."""
        logs = [self.gaussian_square * c * (1 + c) / 2]
        parts = self.capped or _transforms(dominate(self.schedule))
        logs += [times * transform.log_moment_above(c) for transform, times in parts]
        return math.fsum(logs) + UNIT_ROUNDOFF * self.roundings * math.fsum(map(abs, logs))


def _transforms(parts: Iterable[tuple[Pair, int]]) -> list[tuple[Transform, int]]:
    return [(kept_transform(pair), times) for pair, times in parts if pair.gaussian_separation is None]


@dataclass(frozen=True)
class LineKernel:
    """The heights 0, h, 2h, ..., which are exact, and 1 / (z (z + 1)) there: ln of its modulus, its angle.

    `sizes` is |ln modulus| + 4, and `weights` are those of the trapezoidal rule. Terms are added in `blocks`.
    """

    heights: Floats
    log_modulus: Floats
    angle: Floats
    sizes: Floats
    weights: Floats
    blocks: NDArray[np.intp]

    def add_up(self, size: Floats, angle: Floats, epsilons: Floats) -> list[float]:
        """The sum over the contour at each epsilon, of the same terms or of a row for each."""
        terms = size * np.cos(angle - self.heights * epsilons[:, None])
        return list(map(math.fsum, np.add.reduceat(terms, self.blocks, axis=1).tolist()))


def _make_kernel(c: float, step: float, count: int) -> LineKernel:
    t = np.arange(count + 1, dtype=float) * step
    z = c + 1j * t
    log_modulus = -np.log(np.abs(z) * np.abs(z + 1))
    weights = np.full_like(t, step / math.pi)
    weights[0] = step / math.pi / 2
    columns = t, log_modulus, -(np.angle(z) + np.angle(z + 1)), np.abs(log_modulus) + 4, weights
    blocks = np.arange(0, len(t), BLOCK)
    for column in (*columns, blocks):
        column.setflags(write=False)  # shared by all who ask
    return LineKernel(*columns, blocks)


_kept_kernel = lru_cache(maxsize=KEPT_LINES)(_make_kernel)


def kernel_on(c: float, step: float, count: int) -> LineKernel:
    """The kernel at the heights 0 to count * step, kept unless it is long."""
    return (_kept_kernel if count <= LONGEST_KEPT else _make_kernel)(c, step, count)


def choose_target(tolerance: float, times: int) -> float:
    """What nodes may miss of a step that is taken so often: a power of ten, so that similar counts share."""
    return 10.0 ** math.floor(math.log10(min(1e-15, 1e-5 * tolerance / (1 << times.bit_length()))))


def on_grid(x: float, ratio: float) -> float:
    """The smallest power of `ratio` that is at least x."""
    return ratio ** math.ceil(math.log(x) / math.log(ratio))


@dataclass(frozen=True)
class ContourLine(BoundsOfMany, Recountable):
    """The integrand on one contour: certified bounds at any epsilon, tight near the one it was placed for."""

    scale: LineScale
    kernel: LineKernel
    columns: Floats  # of all steps together, as in a `StepLine`
    phase_roundings: float  # times the column of sizes: the errors of ln of the integrand and of its angle
    log_cut: float
    log_infinite: tuple[float, float]
    log_beyond: float  # of runs that were left out, which `log_infinite` counts from above
    recount: Callable[[Schedule], "ContourLine"]

    @property
    def heights(self) -> Floats:
        """Where the integrand is known."""
        return self.kernel.heights

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, float, Errors]:
        """The terms' sizes and angles, the sum of sizes times heights, and what can be wrong at any epsilon.

        All of it is a sum of positive numbers, for which ROOM is enough. A term e^x cos(angle) is off by its
        size times the errors of x and of the angle.
        """
        kernel, columns = self.kernel, self.columns
        angle = columns[ANGLE] + kernel.angle
        size = np.exp(columns[LOG_MODULUS] + kernel.log_modulus) * kernel.weights
        # prod (|m| + error)^k, by which errors are multiplied
        enlarged = exp_or_inf(columns[LOG_LARGEST] + kernel.log_modulus) * kernel.weights
        discretisation, tails, rounding = (columns[REL_ERRORS] @ enlarged).tolist()
        own = size @ (self.phase_roundings * columns[SIZES] + UNIT_ROUNDOFF * np.abs(angle))
        # exp and cos, three products and a quotient, pi, the sum of each block and that of all
        functions = (2 * ELEMENTARY_REL_ERROR + (7 + BLOCK) * UNIT_ROUNDOFF) * float(size.sum())
        fixed = Errors(
            discretisation=discretisation * (1 + ROOM),
            tails=tails * (1 + ROOM),
            cut_off=exp_or_inf(self.log_cut),
            rounding=(rounding + float(own) + functions) * (1 + ROOM),
        )
        return size, angle, float(size @ kernel.heights), fixed

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        size, angle, _, fixed = self._sums
        terms = size * np.cos(angle - self.kernel.heights * epsilon)
        value = math.fsum(np.add.reduceat(terms, self.kernel.blocks).tolist())
        turned, charge = self._charge(epsilon)
        aliasing = self.scale.aliasing(epsilon)
        upper, lower = value + charge, value - charge - aliasing
        check_sum(value, upper, charge)
        logs = log_or_nothing(lower), math.log(upper)
        log_lower, log_upper, log_error = self.scale.log_bounds(epsilon, *logs)
        infinite_below, infinite_above = self.log_infinite
        if infinite_above > -math.inf:
            log_upper = _add(log_upper, infinite_above, 1)
            log_lower = _add(log_lower, infinite_below, -1)
        rounding = fixed.rounding + turned + 2 * upper * log_error
        tails = fixed.tails + upper * math.exp(self.log_beyond - log_upper)
        errors = Errors(
            fixed.discretisation / upper,
            tails / upper,
            aliasing / upper,
            fixed.cut_off / upper,
            rounding / upper,
        )
        return LogBounds(log_lower, log_upper, errors)

    def bound_all(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Bounds on ln delta at each epsilon, to the last bit those of `bounds`."""
        if self.log_infinite[1] > -math.inf:  # infinite losses are added one by one
            found = [self.bounds(epsilon) for epsilon in epsilons.tolist()]
            return np.array([each.lower for each in found]), np.array([each.upper for each in found])
        at_once = max(AT_ONCE // len(self.heights), 1)
        pieces = range(0, len(epsilons), at_once)
        value = np.array([each for i in pieces for each in self._add_up(epsilons[i : i + at_once])])
        _, charge = self._charge(epsilons)
        return self.scale.bound_all(epsilons, value, charge)

    def _add_up(self, epsilons: Floats) -> list[float]:
        size, angle, _, _ = self._sums
        return self.kernel.add_up(size, angle, epsilons)

    @property
    def terms(self) -> tuple[Floats, Floats, float, float]:
        """Sizes and angles at epsilon 0, the sum of sizes times heights, and the charge at any epsilon."""
        size, angle, size_by_height, _ = self._sums
        return size, angle, size_by_height, self._fixed_total

    def _charge(self, epsilon: Real) -> tuple[Real, Real]:
        """What turning the angles costs; and all."""
        turned = turning_abs_error(epsilon, self._sums[2])
        return turned, (self._fixed_total + turned) * (1 + ROOM)

    @cached_property
    def _fixed_total(self) -> float:
        return self._sums[3].total


def _add(log_x: float, log_y: float, side: int) -> float:
    """ln(x + y), rounded to a side."""
    total = float(np.logaddexp(log_x, log_y))
    return total + side * (float(logaddexp_abs_error(total)) + UNIT_ROUNDOFF)
