"""Where to put the contour: the tilt c at which the integrand on the real axis is smallest."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tightrope.loss.transform import TooSlow

Cumulants = Callable[[float], tuple[float, float, float]]

LOWEST_TILT, HIGHEST_TILT = 1e-12, 1e15


def tilt_for_epsilon(cumulants: Cumulants, epsilon: float, start: float = 1.0) -> float:
    """The c > 0 that minimises K(c) - c epsilon - ln c - ln(1 + c), K = ln E[e^{c loss}]; the function is convex.

    Newton in ln c inside a shrinking bracket: Newton alone runs away where K explodes (small noise).
    """
    low, high = math.log(LOWEST_TILT), math.log(HIGHEST_TILT)
    x = min(max(math.log(start), low), high)
    for _ in range(200):
        c = math.exp(x)
        slope, curvature = _slope(cumulants, c, epsilon)
        if slope > 0:
            high = x
        else:
            low = x
        finite = math.isfinite(slope) and curvature > 0
        step = max(-2.0, min(2.0, -slope / (c * curvature))) if finite else -2.0
        new = x + step
        if not low < new < high:
            new = (low + high) / 2
        # close enough in c, and the function cannot fall much further (it is steep where K explodes)
        if (abs(new - x) < 1e-3 and abs(slope) * c * abs(new - x) < 0.01) or high - low < 1e-12:
            break
        x = new
    return math.exp(round(x, 2))  # the same from every start


def _slope(cumulants: Cumulants, c: float, epsilon: float) -> tuple[float, float]:
    try:
        _, mean, variance = cumulants(c)
    except TooSlow:  # so far out that the tilted mass spans too much: certainly beyond the minimum
        return math.inf, math.inf
    return mean - epsilon - 1 / c - 1 / (1 + c), variance + 1 / c**2 + 1 / (1 + c) ** 2


def log_delta_estimate(cumulants: Cumulants, c: float, epsilon: float) -> float:
    """The saddle-point approximation of ln delta(epsilon) at tilt c: for planning only."""
    log_moment, _, variance = cumulants(c)
    curvature = variance + 1 / c**2 + 1 / (1 + c) ** 2
    return log_moment - c * epsilon - math.log(c) - math.log1p(c) - 0.5 * math.log(2 * math.pi * curvature)


def epsilon_estimate(cumulants: Cumulants, log_delta: float) -> tuple[float, float]:
    """An epsilon whose saddle-point ln delta is about `log_delta`, and its tilt: for planning only.

    Each tilt c is the saddle of epsilon(c) = K'(c) - 1/c - 1/(1+c), so one search over c does for both.
    """
    low, high = math.log(LOWEST_TILT), math.log(HIGHEST_TILT)
    _, _, variance = cumulants(1.0)
    start = math.sqrt((1 - 2 * log_delta) / variance) if 0 < variance < math.inf else 1.0  # as if the loss were normal
    x = min(max(math.log(start), low), high)
    c, epsilon = start, 0.0
    for _ in range(100):
        c = math.exp(x)
        slope, curvature = _slope(cumulants, c, 0.0)
        epsilon = slope
        value = log_delta_estimate(cumulants, c, epsilon) if math.isfinite(slope) else -math.inf
        if value > log_delta:
            low = x
        else:
            high = x
        step = (value - log_delta) / (c * c * curvature) if math.isfinite(value) else -2.0
        new = x + max(-2.0, min(2.0, step))
        if not low < new < high:
            new = (low + high) / 2
        if abs(new - x) < 3e-3:
            break
        x = new
    return max(epsilon, 0.0), c


@dataclass(frozen=True)
class Placement:
    """A tilt, the period after which the rule repeats itself, and a second tilt that bounds what repeats from above."""

    tilt: float
    tilt_beyond: float
    period: float


def place(cumulants: Cumulants, saddle: float, epsilon: float, log_goal: float, log_mass: float = 0.0) -> Placement:
    """A placement whose aliases sum to at most about e^log_goal; e^log_mass is the probability of all that is counted.

    The saddle is the natural tilt. Where the moments explode just beyond it (a rare record seen at a huge loss), a tilt
    a little below leaves room for the second one and shortens the period.
    """
    chernoff = {}
    for x in (0.7, 0.85, 0.93, 1.0, 1.03, 1.1, 1.3, 2.0, 4.0):
        try:
            log_moment = cumulants(x * saddle)[0]
        except TooSlow:
            log_moment = math.inf
        chernoff[x] = log_moment - x * saddle * epsilon + log_chernoff_factor(x * saddle) - log_goal + 0.7
    options = []
    for x in (0.7, 0.85, 0.93, 1.0):
        if not chernoff[x] - chernoff[1.0] <= 6:
            continue  # so far from the saddle delta would drown in rounding
        below = (0.7 - log_goal + log_mass) / (x * saddle)
        for y, log_bound in chernoff.items():
            if y > x and math.isfinite(log_bound):
                period = max(below, log_bound / ((y - x) * saddle))
                # away from the saddle the integrand is larger: as if the integral had to reach further
                options.append((period * (5 + chernoff[x] - chernoff[1.0]), x * saddle, y * saddle, period))
    if not options:
        raise TooSlow("no tilt bounds the aliases")
    _, tilt, tilt_beyond, period = min(options)
    return Placement(tilt, tilt_beyond, period)


def log_chernoff_factor(c: float) -> float:
    """ln of sup_x (1 - e^{-x})_+ e^{-c x} = c^c / (1 + c)^{1 + c}, so that delta(eps) <= factor E[e^{c loss}] e^{-c eps}."""
    return -c * math.log1p(1 / c) - math.log1p(c)


def geometric_tail(log_ratio: float, log_scale: float) -> float:
    """e^log_scale * (r + r^2 + ...) with r = e^log_ratio; infinite where the series diverges."""
    if log_ratio >= 0:
        return math.inf
    return math.exp(min(log_scale + log_ratio - math.log(-math.expm1(log_ratio)), 700.0))
