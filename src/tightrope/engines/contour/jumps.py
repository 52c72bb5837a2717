"""Runs with a jump on a contour of their own, for rare records of which one or two large losses make delta.

No tilt makes one rare, large loss typical of a run: at the saddle of all runs the integrand is thousands of
times delta, which drowns in its rounding. So the runs in which some output exceeds a threshold, whose
transform is prod (C + W)^k - prod C^k, are told apart from the calm rest, prod C^k. Each kind gets its own
tilt, and rounding relative to how rare it is (docs/certificates.md, lemmas 9b, 9c and 14).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.contour.engine import PERIODS, REACHES, ContourEngine, LineKernel, kernel_on, on_grid
from tightrope.engines.contour.line_sum import LineScale, check_sum, log_or_nothing, turning_abs_error
from tightrope.engines.face import NO_HINT, EngineDeclines, Errors, Hint, LogBounds
from tightrope.engines.one_step.enclosures import log_sum_above, log_union_above
from tightrope.engines.powers import Complexes, JumpPower, Spectrum
from tightrope.engines.saddle import (
    Cumulants,
    Placement,
    log_chernoff_factor,
    place_contour,
    tilt_for_epsilon,
)
from tightrope.engines.split import SplitRuns
from tightrope.engines.transforms.capped import (
    CAPS,
    CappedEnvelope,
    capped_transform,
    find_cap,
    has_rare_losses,
)
from tightrope.engines.transforms.jumps import JumpNormal, jump_transform
from tightrope.engines.transforms.make import kept_transform
from tightrope.engines.transforms.rooms import LOG_ROOM, ROOM
from tightrope.engines.transforms.transform import LOG_ROUNDINGS, StepLine, Transform
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, short
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope

THRESHOLDS = (0.7, 0.5, 0.35, 0.2, 0.1)  # of epsilon
MOST_ATTEMPTS = 4
MOST_KINDS = 4  # of steps: each threshold takes two searches for every kind
SHARE_BEYOND = -3.0  # ln of which part of the tolerance runs beyond a cap may take
NEGLIGIBLE = 1 / 64  # of the tolerance: calm runs that make less need no contour
MOST_EXCESS = 8.0  # ln of how much Chernoff's bound on runs with a jump may exceed delta
MANY_STEPS = 500  # fewer hardly decay without their jumps
RAREST = -600.0  # ln of the moment of a jump over that of the calm rest: rarer ones might underflow
FASTEST_DECAY = 1e-9  # of one step, so that its logarithm is a number


@dataclass(frozen=True)
class SplitStep:
    """One kind of steps: outputs up to the threshold, and the jumps beyond; None where there are none."""

    calm: Transform
    wild: JumpNormal | None
    times: int


@dataclass(frozen=True)
class JumpRuns:
    """The runs in which some output lies between its threshold and its cap, none beyond a cap."""

    steps: tuple[SplitStep, ...]
    log_beyond: float  # ln of a bound on the probability that some output lies beyond its cap

    @property
    def log_mass(self) -> float:
        """ln of a bound on the probability of these runs: a union bound, rounded."""
        wild = ((step.wild, step.times) for step in self.steps)
        return log_union_above((jumps.log_mass, times) for jumps, times in wild if jumps is not None)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """About ln of the moment at c and its first two derivatives: for planning."""
        log_moment = mean = variance = total = jumped = leaped = spread = 0.0
        for step in self.steps:
            log_calm, calm_mean, calm_variance = step.calm.cumulants(c)
            log_moment += step.times * log_calm
            mean += step.times * calm_mean
            variance += step.times * calm_variance
            if step.wild is None:
                continue
            log_wild, wild_mean, wild_variance = step.wild.cumulants(c)
            more = float(np.logaddexp(0.0, log_wild - log_calm))
            total += step.times * more
            count, leap = step.times * -math.expm1(-more), wild_mean - calm_mean
            jumped += count
            leaped += count * leap
            spread += count * (wild_variance + leap**2)
        at_least_one = -math.expm1(-total)
        if not at_least_one > 0:
            raise EngineDeclines("jumps are too rare for floats")
        jumped, leaped, spread = jumped / at_least_one, leaped / at_least_one, spread / at_least_one
        log_moment += total + math.log(at_least_one)
        return log_moment, mean + leaped, max(variance + spread - leaped**2 / max(jumped, 1.0), 0.0)

    def log_moment_above(self, c: float) -> float:
        """An upper bound on ln of the moment at c, which grows with that of every calm and wild step."""
        logs, growths, size = [], [], 0.0
        for step in self.steps:
            log_calm = step.calm.log_moment_above(c)
            logs.append(step.times * log_calm)
            if step.wild is not None:
                log_wild = step.wild.log_moment_above(c)
                # ln(1 + x), to 12 u of itself; x loses what the logarithms do
                growths.append(step.times * math.log1p(math.exp(log_wild - log_calm)))
                size = max(size, abs(log_wild) + abs(log_calm))
        growth = math.fsum(growths) * (1 + UNIT_ROUNDOFF * (32 + 2 * size))
        more = growth if growth > 30 else math.log(math.expm1(growth))
        return math.fsum(logs) + more + UNIT_ROUNDOFF * (16 + 10 * abs(more) + 2 * math.fsum(map(abs, logs)))

    def near(self, epsilon: float, log_goal: float, most_evaluations: int) -> "JumpLine":
        """A contour placed for `epsilon`, each of whose errors should stay below e^log_goal."""
        saddle = tilt_for_epsilon(self.cumulants, epsilon)
        spot = place_contour(self.cumulants, saddle, epsilon, log_goal, self.log_mass)
        step = short(2 * math.pi / on_grid(spot.period, PERIODS))
        reach = self._reach(spot.tilt, epsilon, log_goal, most_evaluations / 100 * step)
        return self._line(spot, step, math.ceil(reach / step) + 1, most_evaluations)

    def _reach(self, c: float, epsilon: float, log_goal: float, longest: float) -> float:
        """Where to cut the integral, at most at `longest`."""
        log_calm = sum(step.times * step.calm.nodes(c).log_moment for step in self.steps)
        reach = on_grid(c, REACHES)
        while reach < longest:
            if log_calm + self.log_cut(c, reach) - c * epsilon < log_goal:
                return reach
            reach = on_grid(1.01 * reach, REACHES)
        raise EngineDeclines("the integrand decays too slowly")

    def log_cut(self, c: float, reach: float) -> float:
        """ln of a bound on the integral from `reach` on, over prod C(c)^k e^{-c epsilon} (lemma 9c)."""
        growth = jumps = slack = least = charge = 0.0
        for step in self.steps:
            nodes = step.calm.nodes(c)
            decay = min(step.calm.modulus_from(c, reach), 1.0)
            if step.wild is not None:
                wild = step.wild.nodes(c)
                log_ratio, error = wild.log_moment - nodes.log_moment, wild.moment_rel_error
                ratio, least_ratio = (
                    math.exp(log_ratio + error),
                    math.exp(log_ratio - error - nodes.moment_rel_error),
                )
                turned = step.wild.modulus_from(c, reach)
                growth += step.times * math.log1p(ratio)
                jumps += step.times * turned * ratio
                decay = (decay + turned * ratio) / (1 + least_ratio)
            log_decay = math.log(min(max(decay, FASTEST_DECAY), 1.0))
            slack += step.times * log_decay
            least = min(least, log_decay)
            # decay, ratio and logarithms lose some roundings, and C(c) is not quite e^log_moment
            charge += step.times * (2 * nodes.moment_rel_error + 32 * UNIT_ROUNDOFF)
        log_jumps = math.log(jumps) if jumps > 0 else -math.inf
        log_cut = growth + log_jumps + slack - least - math.log(math.pi * reach)
        return log_cut + charge + LOG_ROOM * (2 + growth)

    def _line(self, spot: Placement, step: float, count: int, most_evaluations: int) -> "JumpLine":
        c = spot.tilt
        power = JumpPower(count + 1, 0.0)
        logs, log_error = [], 0.0
        for each in self.steps:
            target = 10.0 ** math.floor(math.log10(min(1e-15, 1e-10 / each.times)))
            line = each.calm.line(c, step, count, target, most_evaluations)
            wild = None if each.wild is None else each.wild.line(c, step, count, 1e-14, most_evaluations)
            calm = _spectrum(line, 0.0, 0.0)
            jump = None
            if wild is not None:
                log_ratio = wild.nodes.log_moment - line.nodes.log_moment
                if log_ratio < RAREST:
                    raise EngineDeclines("jumps are too rare for floats")
                # the difference is rounded; where both moments can be off
                error = wild.nodes.log_moment_abs_error + line.nodes.log_moment_abs_error
                jump = _spectrum(wild, log_ratio, error + UNIT_ROUNDOFF * abs(log_ratio))
            power.multiply(calm, jump, each.times)
            logs.append(each.times * line.nodes.log_moment)
            log_error += each.times * line.nodes.log_moment_abs_error
        values, errors = power.result()
        scale = LineScale(
            tilt=c,
            log_moment=math.fsum(logs),
            log_moment_abs_error=log_error + 4 * UNIT_ROUNDOFF * math.fsum(map(abs, logs)),
            period=2 * math.pi / step,
            tilt_beyond=spot.tilt_beyond,
            log_moment_beyond=self.log_moment_above(spot.tilt_beyond),
            log_mass=self.log_mass,
            roundings=4,
        )
        return JumpLine(
            scale=scale,
            kernel=kernel_on(c, step, count),
            values=values,
            abs_errors=errors,
            cut_off=math.exp(self.log_cut(c, count * step)),
            log_beyond=self.log_beyond,
        )


def _spectrum(line: StepLine, log_ratio: float, log_ratio_abs_error: float) -> Spectrum:
    """e^log_ratio m at all heights, and how far it can be off.

    ln|m| and its angle lose LOG_ROUNDINGS of themselves, two functions and two products their own.
    """
    moduli, ratio = np.exp(line.log_modulus), math.exp(log_ratio)
    values = ratio * moduli * (np.cos(line.angle) + 1j * np.sin(line.angle))
    sizes = UNIT_ROUNDOFF * LOG_ROUNDINGS * (np.abs(line.log_modulus) + np.abs(line.angle))
    sizes += 3 * ELEMENTARY_REL_ERROR + 4 * UNIT_ROUNDOFF + log_ratio_abs_error
    errors = line.nodes.missing_rel_error + line.abs_errors + moduli * sizes
    return Spectrum(values, ratio * errors * (1 + ROOM))


@dataclass(frozen=True, kw_only=True)
class JumpLine:
    """Runs with a jump on one contour: bounds at any epsilon, tight near the one it was placed for.

    `values` are the integrand's factor prod (C + W)^k - prod C^k, over the moment prod C^k of the scale.
    """

    scale: LineScale
    kernel: LineKernel
    values: Complexes
    abs_errors: Floats
    cut_off: float
    log_beyond: float

    @cached_property
    def _terms(self) -> tuple[Complexes, float, float]:
        """The terms at epsilon 0, the sum of their sizes and heights, and what can be wrong at any epsilon.

        The kernel is charged as on a `ContourLine`. Three functions and a complex product follow, and a sum.
        """
        kernel = self.kernel
        weights = np.exp(kernel.log_modulus) * kernel.weights
        terms = self.values * (np.cos(kernel.angle) + 1j * np.sin(kernel.angle)) * weights
        sizes = np.abs(terms)
        own = UNIT_ROUNDOFF * (2 * LOG_ROUNDINGS * kernel.sizes + np.abs(kernel.angle))
        own += 5 * ELEMENTARY_REL_ERROR + 16 * UNIT_ROUNDOFF
        charge = float(weights @ self.abs_errors + sizes @ own)
        return terms, float(sizes @ kernel.heights), charge * (1 + ROOM)

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln of what runs with a jump make of delta(epsilon), those beyond a cap from above."""
        terms, size_by_height, charge = self._terms
        angle = self.kernel.heights * epsilon
        value = math.fsum((terms.real * np.cos(angle) + terms.imag * np.sin(angle)).tolist())
        rounding = charge + turning_abs_error(epsilon, size_by_height)
        aliasing, cut_off = self.scale.aliasing(epsilon), self.cut_off
        upper, lower = value + rounding + cut_off, value - rounding - cut_off - aliasing
        check_sum(value, upper, rounding)
        logs = log_or_nothing(lower), math.log(upper)
        log_lower, log_finite, log_error = self.scale.log_bounds(epsilon, *logs)
        log_upper = log_sum_above(np.array([log_finite, self.log_beyond]))
        scale = math.exp(min(self.scale.log_at(epsilon) - log_upper, 700.0))
        errors = Errors(
            tails=math.exp(self.log_beyond - log_upper),
            aliasing=aliasing * scale,
            cut_off=cut_off * scale,
            rounding=rounding * scale + 2 * log_error,
        )
        return LogBounds(log_lower, log_upper, errors)


@dataclass(frozen=True)
class FewCalmRuns:
    """Runs that make next to nothing of delta: Chernoff's bound at one tilt."""

    tilt: float
    log_moment: float  # from above

    def bounds(self, epsilon: float) -> LogBounds:
        """Zero from below, Chernoff's bound from above."""
        terms = self.log_moment, -self.tilt * epsilon, log_chernoff_factor(self.tilt)
        return LogBounds(-math.inf, sum(terms) + UNIT_ROUNDOFF * (64 + 32 * sum(map(abs, terms))))


@dataclass(frozen=True)
class JumpContourEngine:
    """Certified bounds for compositions of which one or two rare, large losses make delta."""

    schedule: Schedule
    most_evaluations: int = 60_000_000

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> SplitRuns:
        """Contours placed for `epsilon`, the best of a few attempts."""
        schedule = self.schedule
        if not self._rare or len(schedule.parts) > MOST_KINDS:
            raise EngineDeclines("no jumps are known, or of too many kinds")
        if schedule.gaussian_square or schedule.has_infinite_losses:
            raise EngineDeclines("full batches and infinite losses are not told apart")
        log_delta = hint.log_delta if hint.log_delta is not None else self._guess(epsilon)
        best: tuple[float, SplitRuns] | None = None
        for _ in range(MOST_ATTEMPTS):
            split = self._split(epsilon, log_delta, tolerance)
            bounds = split.bounds(epsilon)
            if best is None or bounds.width < best[0]:
                best = bounds.width, split
            if bounds.width <= tolerance or bounds.errors.rounding > tolerance:
                break
            log_delta = bounds.lower if bounds.lower > -math.inf else min(bounds.upper, log_delta) - 5
        assert best is not None
        return best[1]

    @cached_property
    def _rare(self) -> int:
        """How many steps have jumps."""
        return sum(times for pair, times in self.schedule if has_rare_losses(pair))

    def _guess(self, epsilon: float) -> float:
        """About ln delta(epsilon), or less: the probability that one step alone loses as much."""
        logs = []
        for pair, times in self.schedule:
            if has_rare_losses(pair):
                own = pair.remove if isinstance(pair, Envelope) else pair
                output = max(float(own.output_at(np.array([epsilon]))[0]), 0.0)
                log_mass = float(own.cells(np.array([output]))[0][-1])
                logs.append(math.log(times) + log_mass)
        return min(float(np.logaddexp.reduce(logs)), 0.0) - 3.0

    def _split(self, epsilon: float, log_delta: float, tolerance: float) -> SplitRuns:
        """Runs told apart where both kinds drown least in rounding."""
        log_goal = log_delta + math.log(tolerance)
        log_little = log_goal + math.log(NEGLIGIBLE)
        best: tuple[float, ContourEngine, JumpRuns, float] | None = None
        for share in THRESHOLDS:
            try:
                calm, jumps = self._tell_apart(share * epsilon, log_goal + SHARE_BEYOND)
                tilt, of_calm = _find_saddle(calm.cumulants, epsilon)
                _, of_jumps = _find_saddle(jumps.cumulants, epsilon)
            except EngineDeclines:
                continue
            is_enough = of_calm < log_little and of_jumps < log_delta + MOST_EXCESS
            size = -math.inf if is_enough else float(np.logaddexp(of_calm, of_jumps))
            if best is None or size < best[0]:
                best = size, calm, jumps, tilt
            if is_enough:
                break
        if best is None:
            raise EngineDeclines("no threshold tells jumps apart")
        _, calm, jumps, tilt = best
        few = FewCalmRuns(tilt, calm.log_moment_above(tilt))
        is_little = few.bounds(epsilon).upper <= log_little
        if not is_little and self.schedule.steps < MANY_STEPS:
            raise EngineDeclines("calm runs decay too slowly")
        line = jumps.near(epsilon, log_goal - 3, self.most_evaluations)
        return SplitRuns((line, few if is_little else calm.near(epsilon, tolerance / 8)))

    def _tell_apart(self, loss: float, log_mass: float) -> tuple[ContourEngine, JumpRuns]:
        """Calm runs and runs with a jump, which loses about `loss` or more.

        Caps leave out about e^log_mass of all runs.
        """
        steps, beyond = [], []
        for pair, times in self.schedule:
            if not has_rare_losses(pair):
                steps.append(SplitStep(kept_transform(pair), None, times))
                continue
            own = pair.remove if isinstance(pair, Envelope) else pair
            threshold = math.ceil(CAPS * float(own.output_at(np.array([loss]))[0])) / CAPS
            calm = capped_transform(pair, threshold)
            start = calm.middle + calm.reach if isinstance(calm, CappedEnvelope) else calm.cap
            wild = jump_transform(own, start, find_cap(pair, log_mass - math.log(self._rare)))
            steps.append(SplitStep(calm, wild, times))
            beyond.append((wild.log_mass_beyond, times))
        calm_parts = [(step.calm, step.times) for step in steps]
        engine = ContourEngine(self.schedule, self.most_evaluations, capped=calm_parts)
        return engine, JumpRuns(tuple(steps), log_union_above(beyond))


def _find_saddle(cumulants: Cumulants, epsilon: float) -> tuple[float, float]:
    """The best tilt, and ln of Chernoff's bound there, about."""
    tilt = tilt_for_epsilon(cumulants, epsilon)
    return tilt, cumulants(tilt)[0] - tilt * epsilon + log_chernoff_factor(tilt)
