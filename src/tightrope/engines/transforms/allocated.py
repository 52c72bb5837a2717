"""The transform of a pass with normal noise, by moments of its ratio."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from flint import acb, arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.ratio_moments import RatioLaw, tabulate_ratio
from tightrope.engines.transforms.rooms import ROOM
from tightrope.engines.transforms.transform import PlannedNodes, StepLine, TiltedNodes, Transform
from tightrope.numerics.balls import ball, ceil_float
from tightrope.pairs.allocation import Allocation

MOST_RATIO_TILT = 20.0  # beyond, powers of ratios take long
LEAST_HEIGHT, MOST_HEIGHT = 2.0, 64.0  # of tables: the next power of two is shared
LOG_ROUGH_ERROR = -14.0  # of a table, about, that is only planned with, or bounds what is tiny
LOG_SPARE = 4.0  # below what a line may miss
MOST_DECAY = 600.0  # natural logarithms, that a bound needs
NO_NODES = np.zeros(0)


class MomentTable(Protocol):
    """What a table tells, in balls of `bits`."""

    bits: int

    def guess_cumulants(self, exponent: float) -> tuple[float, float, float]:
        """About ln of the moment, and its first two derivatives."""
        ...

    def moments(self, exponent: arb, heights: Sequence[arb]) -> list[acb]:
        """At exponent + i height."""
        ...


class AllocationTransform(Transform):
    """M(z) = E_Q[R^{1 + z}], R = dP/dQ; of a pass that is reversed E_Q[R^-z]."""

    bounds_by_nodes = False
    log_rough_error = LOG_ROUGH_ERROR
    normal_part = 1  # the variance of what the mean of all outputs adds to a loss, in squared separations / T

    def __init__(self, pair: Allocation) -> None:
        super().__init__()
        separation = pair.step.exact_gaussian_separation
        if separation is None or pair.chosen > 1:
            raise EngineDeclines("a pass whose transform is not told")
        self.law = RatioLaw(separation, pair.batches, pair.released)
        self.sign = -1 if pair.is_reversed else 1

    @property
    def most_height(self) -> float:
        """Of lines."""
        return MOST_HEIGHT

    def _table(self, c: float, height: float, log_error: float) -> MomentTable:
        """One that serves all tilts between two whole numbers."""
        if c > MOST_RATIO_TILT or height > MOST_HEIGHT:
            raise EngineDeclines("a transform that moments do not tell")
        whole = math.ceil(c)
        if self.sign > 0:
            power, exponents = whole + 3, (float(whole), whole + 1.0)
        else:
            power, exponents = 2, (-float(whole), 1.0 - whole)
        return tabulate_ratio(self.law, power, exponents, share_height(height), log_error)

    def _exponent(self, c: float) -> float:
        return 1 + c if self.sign > 0 else -c

    def _moments(self, table: MomentTable, c: float, spacing: float, count: int) -> list[acb]:
        """M at c and at so many heights, at the working precision."""
        exponent = 1 + arb(c) if self.sign > 0 else -arb(c)
        return table.moments(exponent, [self.sign * arb(spacing) * i for i in range(count + 1)])

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        """No nodes, but ln of the moment, and how closely that is told: roughly is enough for bounds."""
        table = self._table(c, 0.0, self.log_rough_error)
        with ctx.workprec(table.bits):
            return _tell(self._moments(table, c, 0.0, 0)[0].real)

    def _cumulants(self, c: float, log_cap: float = -math.inf) -> tuple[float, float, float]:
        table = self._table(c, 0.0, self.log_rough_error)
        log_moment, mean, variance = table.guess_cumulants(self._exponent(c))
        return log_moment, self.sign * mean, variance

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """Not told: a pass is planned by its cumulants."""
        raise EngineDeclines("a pass has no nodes")

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """Of a whole pass: the mean of its outputs is normal and independent of all else in the loss."""
        if self.law.seen < self.law.batches:
            return lambda t: 1.0
        variance = self.normal_part * float(self.law.separation**2 / self.law.batches) * (1 - ROOM)
        return lambda t: math.exp(-min(variance * t * t / 2, MOST_DECAY)) * (1 + ROOM)

    def line(self, c: float, spacing: float, count: int, target: float, most_evaluations: int) -> StepLine:
        """m at the heights 0 to count * spacing."""
        if count * spacing > self.most_height or 100 * count > most_evaluations:
            raise EngineDeclines("the integrand decays too slowly")
        return self._kept_line(c, spacing, count, target)

    def _make_line(self, c: float, spacing: float, count: int, target: float) -> StepLine:
        table = self._table(c, count * spacing, math.floor(math.log(target) - LOG_SPARE))
        with ctx.workprec(table.bits):
            moments = self._moments(table, c, spacing, count)
            nodes = _tell(moments[0].real)
            scale = (-arb(nodes.log_moment)).exp()
            log_modulus, angle, errors = [], [], []
            for moment in moments:
                found = moment * scale
                middle = acb(found.real.mid(), found.imag.mid())
                error = abs(found - middle).upper()
                size = abs(middle)
                if not size > 0:
                    raise EngineDeclines("a transform too small to be told")
                log_modulus.append(float(size.log()))
                angle.append(float(middle.arg()))
                errors.append(ceil_float(error))
        return StepLine(nodes, np.array(log_modulus), np.array(angle), np.array(errors))


def share_height(height: float) -> float:
    """That of a table which serves this one."""
    return LEAST_HEIGHT * 2.0 ** max(math.ceil(math.log2(height / LEAST_HEIGHT)), 0) if height else 0.0


def _tell(moment: arb) -> TiltedNodes:
    """ln of a moment, to the nearest float, and what that is off by: all else is told relative to it."""
    if not moment > 0:
        raise EngineDeclines("a moment that is not told")
    log_moment = float(moment.log())
    off = ceil_float(abs(moment.log() - ball(log_moment)).upper()) * (1 + ROOM)
    return TiltedNodes(
        losses=NO_NODES,
        weights=NO_NODES,
        log_moment=log_moment,
        quadrature_rel_error=0.0,
        tail_rel_error=math.expm1(off) if off < 1 else math.inf,
        weight_rel_errors=NO_NODES,
        loss_abs_error=0.0,
        log_moment_abs_error=0.0,
    )
