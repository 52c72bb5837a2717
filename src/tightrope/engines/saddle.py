"""Where to put the contour: the tilt c at which the integrand on the real axis is smallest."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.rooms import LOG_ROOM, ROOM, exp_or_inf
from tightrope.numerics.floats import Floats

Cumulants = Callable[[float], tuple[float, float, float]]

LOWEST_TILT, HIGHEST_TILT = -2763, 3453  # 1e-12 and 1e15 on the grid
LARGEST_STEP = 200  # on the grid
MOST_LOST = 9.0  # natural logarithms: an integrand may be so much larger than what it tells
STEEP = 50.0  # a slope over ln c at which the next tilt on the grid is half an e-fold away


@lru_cache(maxsize=HIGHEST_TILT - LOWEST_TILT)
def tilt_at(index: int) -> float:
    """A tilt on a grid of 1 % steps, which lets runs of different length share transforms."""
    return math.exp(index / 100)


def grid_index(tilt: float) -> int:
    """The index of the grid's tilt that is nearest to a tilt."""
    return min(max(round(100 * math.log(tilt)), LOWEST_TILT), HIGHEST_TILT)


def tilt_for_epsilon(cumulants: Cumulants, epsilon: float, start: float = 1.0) -> float:
    """The c > 0 that minimises the convex K(c) - c epsilon - ln c - ln(1 + c), where K = ln E[e^{c loss}].

    Newton in ln c inside a shrinking bracket: Newton alone runs away where K explodes (small noise).
    """
    low, high = LOWEST_TILT, HIGHEST_TILT
    x = grid_index(start)
    while high - low > 1:
        c = tilt_at(x)
        try:
            _, mean, variance = cumulants(c)
            slope, curvature = mean - epsilon - 1 / c - 1 / (1 + c), variance + 1 / c**2 + 1 / (1 + c) ** 2
        except EngineDeclines:  # so far out that the tilted mass spans too much: beyond the minimum
            slope, curvature = math.inf, math.inf
        if slope > 0:
            high = x
        else:
            low = x
        is_usable = math.isfinite(slope) and curvature > 0
        new = x + _whole_step(-slope / (c * curvature) if is_usable else -math.inf)
        if new == x:
            if slope * c < STEEP:
                break
            new = x - 1  # where the moments explode, half a step to the right of the minimum is far too far
        x = new if low < new < high else (low + high) // 2
    return tilt_at(x)


def _whole_step(step: float) -> int:
    """A step in ln c as steps on the grid, of limited size."""
    return round(min(max(100 * step, -LARGEST_STEP), LARGEST_STEP))


def log_delta_estimate(cumulants: Cumulants, c: float, epsilon: float) -> float:
    """The saddle-point approximation of ln delta(epsilon) at tilt c: for planning only."""
    log_moment, _, variance = cumulants(c)
    curvature = variance + 1 / c**2 + 1 / (1 + c) ** 2
    return log_moment - c * epsilon - math.log(c) - math.log1p(c) - 0.5 * math.log(2 * math.pi * curvature)


def epsilon_estimate(
    cumulants: Cumulants, log_delta: float, start: float | None = None
) -> tuple[float, float]:
    """An epsilon whose saddle-point ln delta is about `log_delta`, and its tilt: for planning only.

    Each tilt c is the saddle of epsilon(c) = K'(c) - 1/c - 1/(1+c), so one search over c does for both.
    """
    low, high = LOWEST_TILT, HIGHEST_TILT
    above = below = math.nan  # what is left of ln delta at both ends
    if start is None:  # as if the loss were normal
        _, _, variance = cumulants(1.0)
        start = math.sqrt((1 - 2 * log_delta) / variance) if 0 < variance < math.inf else 1.0
    x = grid_index(start)
    while True:
        c = tilt_at(x)
        try:
            _, mean, variance = cumulants(c)
            epsilon, curvature = mean - 1 / c - 1 / (1 + c), variance + 1 / c**2 + 1 / (1 + c) ** 2
        except EngineDeclines:  # a tilt too large to plan with
            epsilon, curvature = math.inf, math.inf
        excess = -math.inf
        if math.isfinite(epsilon):
            excess = log_delta_estimate(cumulants, c, epsilon) - log_delta
        if excess > 0:
            low, above = x, excess
        else:
            high, below = x, excess
        step = excess / (c * c * curvature) if math.isfinite(excess) else -math.inf
        new = x + _whole_step(step)
        if new == x:
            return max(epsilon + step * c * curvature, 0.0), c
        if high - low <= 1:
            return max(epsilon, 0.0) if math.isfinite(epsilon) else 1.0, c
        if math.isfinite(above - below):
            # where moments explode Newton stays on one side, by short steps, and a chord on the other
            chord = low + (high - low) * above / (above - below)
            new = round((new + chord) / 2)
        x = new if low < new < high else (low + high) // 2


def explodes_early(cumulants: Cumulants, log_delta: float) -> bool:
    """Whether moments explode at a tilt that tells only a much larger delta: no contour tells this one then.

    What one tilt tells lies far above, and what the next one of the grid tells lies below.
    """
    tilt = epsilon_estimate(cumulants, log_delta)[1]
    told = []
    for index in range(grid_index(tilt) - 1, grid_index(tilt) + 2):
        c = tilt_at(index)
        try:
            _, mean, _ = cumulants(c)
            told.append(log_delta_estimate(cumulants, c, mean - 1 / c - 1 / (1 + c)))
        except EngineDeclines:
            told.append(-math.inf)
    return any(here - MOST_LOST > log_delta > after for here, after in pairwise(told))


SHIFTS_BELOW, SHIFTS_ABOVE = (-36, -16, -7, 0), (3, 10, 26, 69, 139)  # on the grid: 0.7 to 4 times the saddle


@dataclass(frozen=True)
class Placement:
    """A tilt, the period after which the rule repeats itself, and a second tilt to bound the repetitions."""

    tilt: float
    tilt_beyond: float
    period: float


def place_contour(
    cumulants: Cumulants, saddle: float, epsilon: float, log_goal: float, log_mass: float = 0.0
) -> Placement:
    """A placement whose aliases sum to about e^log_goal at most; e^log_mass is the mass of all that counts.

    The saddle is the natural tilt. Where the moments explode just beyond it (a rare record seen at a huge
    loss), a tilt a little below leaves room for the second one and shortens the period.
    """
    middle = grid_index(saddle)
    chernoff = {}
    for shift in SHIFTS_BELOW + SHIFTS_ABOVE:
        c = tilt_at(middle + shift)
        try:
            log_moment = cumulants(c)[0]
        except EngineDeclines:
            log_moment = math.inf
        chernoff[shift] = log_moment - c * epsilon + log_chernoff_factor(c) - log_goal + 0.7
    options = []
    for shift in SHIFTS_BELOW:
        if not chernoff[shift] - chernoff[0] <= 6:
            continue  # so far from the saddle delta would drown in rounding
        tilt = tilt_at(middle + shift)
        below = (0.7 - log_goal + log_mass) / tilt
        for further, log_bound in chernoff.items():
            if further > shift and math.isfinite(log_bound):
                beyond = tilt_at(middle + further)
                period = max(below, log_bound / (beyond - tilt))
                # away from the saddle the integrand is larger: as if the integral had to reach further
                options.append((period * (5 + chernoff[shift] - chernoff[0]), tilt, beyond, period))
    if not options:
        raise EngineDeclines("no tilt bounds the aliases")
    _, tilt, tilt_beyond, period = min(options)
    if period <= 0:
        raise EngineDeclines("the estimate of delta is too far off to place anything")
    return Placement(tilt, tilt_beyond, period)


@lru_cache(maxsize=1024)
def log_chernoff_factor(c: float) -> float:
    """ln of sup_x (1 - e^{-x}) e^{-cx} = c^c / (1+c)^{1+c}: delta(eps) <= this E[e^{c loss}] e^{-c eps}.

    It is the sum of two numbers of one sign, each off by 10 units of roundoff at most, relative.
    """
    return -c * math.log1p(1 / c) - math.log1p(c)


class GeometricTail:
    """r + r^2 + ..., r = e^log_ratio, the ratio right to 2^-30 of itself; infinite where it diverges."""

    def __init__(self, log_ratio: float) -> None:
        self._diverges = log_ratio >= 0
        if not self._diverges:
            self._log_first = log_ratio * (1 - LOG_ROOM)
            self._log_rest = math.log(-math.expm1(log_ratio))  # of 1 - r

    def times(self, log_scale: float) -> float:
        """At least e^log_scale times the sum; infinite where that is beyond floats."""
        if self._diverges:
            return math.inf
        return exp_or_inf(log_scale + self._log_first - self._log_rest + ROOM)

    def times_all(self, log_scales: Floats) -> Floats:
        """The same for each, to the last bit: exponentials are taken one by one, NumPy's may differ."""
        if self._diverges:
            return np.full_like(log_scales, math.inf)
        exponents = (log_scales + self._log_first - self._log_rest + ROOM).tolist()
        try:
            return np.array(list(map(math.exp, exponents)))
        except OverflowError:
            return np.array(list(map(exp_or_inf, exponents)))
