"""Runs told apart by whether any step loses more than a threshold: what their own bounds say together."""

import math
from dataclasses import dataclass

import numpy as np

from tightrope.engines.face import Errors, LocalBounds, LogBounds
from tightrope.engines.one_step.enclosures import log_sum_above
from tightrope.numerics.ulps import logaddexp_abs_error


@dataclass(frozen=True)
class SplitRuns:
    """Runs with a jump and runs without: their bounds add up.

    `valid_from` is the epsilon from which on runs that were left out lose nothing.
    """

    parts: tuple[LocalBounds, ...]
    valid_from: float = -math.inf

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        if epsilon < self.valid_from:
            return LogBounds(-math.inf, 0.0)
        each = [part.bounds(epsilon) for part in self.parts]
        upper = min(log_sum_above(np.array([b.upper for b in each])), 0.0)  # delta is at most 1
        lower = float(np.logaddexp.reduce([b.lower for b in each]))
        if lower > -math.inf:
            lower -= 2 * float(logaddexp_abs_error(lower))
        shares = [math.exp(b.upper - upper) if upper > -math.inf else 0.0 for b in each]
        errors = {
            term: sum(share * getattr(b.errors, term) for share, b in zip(shares, each, strict=True))
            for term in Errors._fields
        }
        return LogBounds(lower, upper, Errors(**errors))
