"""From a sum over a contour to bounds on ln delta: what both contours scale it by and charge it for."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from tightrope.engines.face import check_order
from tightrope.engines.saddle import GeometricTail, log_chernoff_factor
from tightrope.engines.transforms.rooms import ROOM
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

Real = TypeVar("Real", float, Floats)


@dataclass(frozen=True, kw_only=True)
class LineScale:
    """What turns the trapezoidal sum S over Re z = tilt into delta: e^{log_moment - tilt epsilon} S.

    The sum holds e^{tilt m period} delta(epsilon + m period) for every integer m. All but m = 0 are aliases,
    bounded by the mass of the runs that are summed where m < 0, and by Chernoff's bound where m > 0.
    """

    tilt: float
    log_moment: float
    log_moment_abs_error: float
    period: float
    tilt_beyond: float  # of Chernoff's bound
    log_moment_beyond: float  # there, from above
    log_mass: float = 0.0  # of the runs that are summed, from above
    roundings: int = 1  # of S and of the sum of logarithms, beyond those of its parts

    def log_at(self, epsilon: Real) -> Real:
        """ln of the factor at each epsilon."""
        return self.log_moment - self.tilt * epsilon

    def log_bounds(self, epsilon: Real, log_least: Real, log_most: Real) -> tuple[Real, Real, Real]:
        """Bounds on ln delta from those on ln S, and what they were moved outwards by; -inf says nothing.

        The moment and the tilt are rounded twice, and a logarithm loses 10 u of itself.
        """
        sizes = abs(self.log_moment) + abs(self.tilt * epsilon)
        roundings = 2 * sizes + 10 * abs(log_most) + self.roundings
        log_error = self.log_moment_abs_error + UNIT_ROUNDOFF * roundings
        log_scale = self.log_at(epsilon)
        lower = log_scale + log_least - log_error - 10 * UNIT_ROUNDOFF * abs(log_least)
        return lower, log_scale + log_most + log_error, log_error

    @cached_property
    def _aliases(self) -> tuple[GeometricTail, GeometricTail, float, float]:
        """The periods below and above, ln of Chernoff's bound at 0, and the sizes of all that is rounded."""
        below = GeometricTail(-self.tilt * self.period)
        above = GeometricTail(-(self.tilt_beyond - self.tilt) * self.period)
        log_chernoff = log_chernoff_factor(self.tilt_beyond) + self.log_moment_beyond
        sizes = abs(self.log_moment) + abs(self.log_moment_beyond) + 2 * self.tilt_beyond * self.period + 64
        return below, above, log_chernoff, sizes + abs(self.log_mass)

    def _log_aliases(self, epsilon: Real) -> tuple[Real, Real]:
        """ln of what the periods below and above are multiplied by."""
        _, _, log_chernoff, fixed = self._aliases
        log_scale = self.log_at(epsilon)
        sizes = fixed + 2 * self.tilt_beyond * abs(epsilon)
        log_error = self.log_moment_abs_error + 16 * UNIT_ROUNDOFF * sizes
        log_factor = log_chernoff - self.tilt_beyond * epsilon
        return self.log_mass - log_scale + log_error, log_factor - log_scale + log_error

    def aliasing(self, epsilon: float) -> float:
        """A bound on the aliases in S."""
        below, above = self._log_aliases(epsilon)
        return self._aliases[0].times(below) + self._aliases[1].times(above)

    def aliasing_of_all(self, epsilons: Floats) -> Floats:
        """The same at each epsilon, to the last bit."""
        below, above = self._log_aliases(epsilons)
        return self._aliases[0].times_all(below) + self._aliases[1].times_all(above)

    def bound_all(self, epsilons: Floats, value: Floats, charge: Floats) -> tuple[Floats, Floats]:
        """Bounds on ln delta at each epsilon, from sums that may be off by a charge.

        Products and sums of rows are those of single numbers; logarithms are taken one by one, since NumPy's
        may differ in the last bit.
        """
        aliasing = self.aliasing_of_all(epsilons)
        upper, lower = value + charge, value - charge - aliasing
        if not ((upper > 0) & (upper < math.inf)).all():
            raise ArithmeticError("sums over the contour that are no bounds")
        log_most = np.array(list(map(math.log, upper.tolist())))
        log_least = np.array(list(map(log_or_nothing, lower.tolist())))
        found = self.log_bounds(epsilons, log_least, log_most)[:2]
        if not (found[0] <= found[1]).all():  # the first one that is wrong says how
            for lowest, highest in zip(*(end.tolist() for end in found), strict=True):
                check_order(lowest, highest)
        return found


def turning_abs_error(epsilon: Real, size_by_height: Real | float) -> Real:
    """What turning angles by t epsilon costs a sum, where the product and the difference are rounded.

    `size_by_height` is the sum of the terms' sizes times their heights t.
    """
    return 2 * UNIT_ROUNDOFF * abs(epsilon) * size_by_height * (1 + ROOM)


def check_sum(value: float, upper: float, charge: float) -> None:
    """The upper bound on a sum is a positive number, or an engine's arithmetic failed."""
    if not 0 < upper < math.inf:
        raise ArithmeticError(f"the sum over the contour is {value} within {charge}")


def log_or_nothing(x: float) -> float:
    """Ln x, or -inf where a lower bound is no bound."""
    if math.isnan(x):
        raise ArithmeticError("a lower bound that is no number")
    return math.log(x) if x > 0 else -math.inf
