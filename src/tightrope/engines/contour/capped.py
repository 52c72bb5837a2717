"""A contour without the rarest losses, for runs whose moments explode at the tilt that delta needs.

Runs with a step beyond its cap are counted as if their loss were infinite from above, and left out from below
(docs/certificates.md, section 5). The rest has a transform that is gentle at every tilt.
"""

import math
from dataclasses import dataclass

from tightrope.engines.contour.engine import ContourEngine, ContourLine
from tightrope.engines.face import NO_HINT, EngineDeclines, Hint
from tightrope.engines.one_step.enclosures import log_union_above
from tightrope.engines.saddle import log_delta_estimate, tilt_for_epsilon
from tightrope.engines.transforms.capped import capped_transform, find_cap, has_rare_losses
from tightrope.engines.transforms.make import kept_transform
from tightrope.engines.transforms.transform import Transform
from tightrope.pairs.schedule import Schedule

MOST_GUESSES, MOST_ATTEMPTS = 5, 4
SHARE_BEYOND = -3.0  # ln of which part of the tolerance runs beyond a cap may take
FIRST_GUESS = -12.0  # ln delta
SETTLED = 0.5  # a guess of ln delta that moves by less is not worth another cap


@dataclass(frozen=True)
class CappedContourEngine:
    """Certified bounds for compositions in which some loss is ever larger, ever more rarely."""

    schedule: Schedule
    most_evaluations: int = 10_000_000

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> ContourLine:
        """A contour placed for `epsilon`, the best of a few attempts."""
        log_tolerance = math.log(tolerance)
        log_delta = hint.log_delta if hint.log_delta is not None else self._guess(epsilon, log_tolerance)
        best: tuple[float, ContourLine] | None = None
        asked = tolerance / 10
        for _ in range(MOST_ATTEMPTS):
            engine, log_beyond = self._cap(log_delta + log_tolerance + SHARE_BEYOND)
            line = engine.near(epsilon, asked, hint)
            bounds = line.bounds(epsilon)
            if best is None or bounds.width < best[0]:
                best = bounds.width, line
            if bounds.width <= tolerance or bounds.errors.rounding > tolerance:
                break
            others = bounds.errors.aliasing + bounds.errors.cut_off
            if others > tolerance / 4:
                asked *= max(tolerance / others / 10, 1e-3)
            is_known = bounds.lower > -math.inf
            if not is_known and log_beyond - bounds.upper < log_tolerance:
                continue
            log_delta = bounds.lower if is_known else min(bounds.upper, log_delta - 5)
        assert best is not None
        return best[1]

    def _guess(self, epsilon: float, log_tolerance: float) -> float:
        """About ln delta(epsilon): a cap for one guess tells the next one."""
        log_delta, saddle = FIRST_GUESS, 1.0
        for _ in range(MOST_GUESSES):
            engine, _ = self._cap(log_delta + log_tolerance + SHARE_BEYOND)
            saddle = tilt_for_epsilon(engine.cumulants, epsilon, saddle)
            found = max(min(log_delta_estimate(engine.cumulants, saddle, epsilon), 0.0), 2 * log_delta - 10)
            if abs(found - log_delta) < SETTLED:
                return found
            log_delta = found
        return log_delta

    def _cap(self, log_mass: float) -> tuple[ContourEngine, float]:
        """The engine without losses of about e^log_mass in all, and ln of a bound on their probability."""
        parts: list[tuple[Transform, int]] = []
        beyond = []
        rare = sum(times for pair, times in self.schedule if has_rare_losses(pair))
        if not rare:
            raise EngineDeclines("no cap is known for these losses")
        for pair, times in self.schedule:
            if pair.gaussian_separation is not None:
                continue
            if not has_rare_losses(pair):
                parts.append((kept_transform(pair), times))
                continue
            transform = capped_transform(pair, find_cap(pair, log_mass - math.log(rare)))
            parts.append((transform, times))
            beyond.append((transform.log_mass_beyond, times))
        log_beyond = log_union_above(beyond)
        if log_beyond > -1:
            raise EngineDeclines("nothing can be left out")
        engine = ContourEngine(self.schedule, self.most_evaluations, capped=parts, log_beyond=log_beyond)
        return engine, log_beyond
