"""About how large delta is: where a search should start, never what it answers."""

import math

from tightrope.engines.face import EngineDeclines
from tightrope.engines.planning import Plan
from tightrope.engines.saddle import log_delta_estimate, tilt_for_epsilon
from tightrope.pairs.schedule import Schedule

NEGLIGIBLE = -7.0  # ln of the share of delta that losses too rare to plan for may have


def log_delta_guess(schedule: Schedule, epsilon: float, log_delta: float) -> float:
    """The saddle-point approximation of ln delta(epsilon), good where it is near `log_delta`; NaN where there is none."""
    if not schedule:
        return -math.inf
    plan = Plan(schedule, log_delta + NEGLIGIBLE)
    try:
        tilt = tilt_for_epsilon(plan, epsilon)
        return min(log_delta_estimate(plan, tilt, epsilon), 0.0)
    except (EngineDeclines, ArithmeticError, ValueError):
        return math.nan
