"""What a calibration has to meet: epsilon at delta, together with whatever else is released."""

import contextlib
import math
from dataclasses import dataclass, field, replace

from tightrope.accountants.certified import Progress, checked_effort, leave_a_gap
from tightrope.answers.spend import privacy_curve
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.planning import log_delta_guess
from tightrope.errors import InvalidSetting, NoSuchValue, NotPreciseEnough
from tightrope.numerics import check
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK, Effort
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.evidence import Standing
from tightrope.theorems.lookup import analyse

NOTHING = Run()
ROUGH, ROUGHEST = 0.1, 0.9  # accuracies for trials far from the target
FAR = 1.0  # in ln delta


class OutOfReach(Exception):
    """No engine can tell anything."""


@dataclass(frozen=True)
class Target:
    """(epsilon, delta) under a relation, what else is released, and how the answer is to be certified."""

    epsilon: float
    delta: float
    relation: Relation
    besides: Run
    accuracy: float
    trusting: Standing
    effort: Effort = QUICK
    progress: Progress | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(
        epsilon: float,
        delta: float,
        relation: Relation,
        besides: Run | Step,
        accuracy: float,
        trusting: Standing,
        effort: Effort = QUICK,
        progress: Progress | None = None,
    ) -> "Target":
        """Check the target; refuse one that `besides` alone misses."""
        remedy = "Pass the privacy loss you accept, 0 or more."
        bound = check.real(remedy=remedy, epsilon=epsilon)
        if bound < 0:
            raise InvalidSetting(f"epsilon must be at least 0, got {epsilon!r}. {remedy}")
        if not isinstance(besides, Run | Step):
            raise InvalidSetting(
                f"besides must be a Run or a Step, got {besides!r}. Pass what else is released, or leave it out."
            )
        at, effort = check.open_probability(delta=delta), checked_effort(effort)
        target = Target(bound, at, relation, as_run(besides), accuracy, trusting, effort, progress)
        # asked at delta, not at epsilon: while little is spent, delta there is too small for anything
        spent = target.curve(NOTHING).epsilon(target.delta)
        if spent.upper > bound:
            raise NoSuchValue(
                f"{target} cannot be shown to be met: besides={target.besides!r} alone spends epsilon {spent}. "
                "Release less besides, or accept a larger epsilon or delta.",
                limit=0.0,
            )
        return target

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g} at delta {self.delta:g} under {self.relation.name}"

    def curve(self, run: Run, accuracy: float | None = None) -> PrivacyCurve:
        """The curve of `run` together with what is released besides."""
        return privacy_curve(
            run + self.besides,
            relation=self.relation,
            accuracy=accuracy or self.accuracy,
            trusting=self.trusting,
            effort=self.effort,
            progress=self.progress,
        )

    def leaves_a_gap(self, run: Run) -> bool:
        """Whether the theory itself keeps the two ends apart, so that a finer accuracy brings them no closer."""
        return leave_a_gap(analyse(run + self.besides, self.relation, trusting=self.trusting, effort=QUICK))

    def excess(self, run: Run, accuracy: float) -> Bracket:
        """ln delta - ln target; far from the target a rough bracket tells enough, and is often much cheaper."""
        curve = self.curve(run, accuracy)
        rough: Bracket | None = None
        for wanted in (max(accuracy, ROUGH), ROUGHEST):
            with contextlib.suppress(NotPreciseEnough):
                rough = self._excess(replace(curve, accuracy=wanted))
                break
        if rough is None:
            raise OutOfReach
        if rough.upper < -FAR or rough.lower > FAR:
            return rough
        try:
            return self._excess(curve)
        except NotPreciseEnough:
            if rough.lower <= 0 < rough.upper:
                raise
            return rough

    def _excess(self, curve: PrivacyCurve) -> Bracket:
        found, log_delta = curve.log_delta(self.epsilon), math.log(self.delta)
        slack = 4 * UNIT_ROUNDOFF * abs(log_delta)  # of that logarithm, and of the difference
        return Bracket(found.lower - log_delta - slack, found.upper - log_delta + slack)

    def guess(self, run: Run) -> Bracket:
        """The same, about."""
        log_delta = math.log(self.delta)
        schedules = [
            schedule
            for analysis in analyse(run + self.besides, self.relation, trusting=self.trusting, effort=QUICK)
            for schedule in analysis.covers[0].schedules
            if isinstance(schedule, Schedule)
        ]
        about = max(log_delta_guess(schedule, self.epsilon, log_delta) for schedule in schedules) - log_delta
        return Bracket(about, about)  # NaN is refused here

    def verified(self, run: Run, accuracy: float) -> PrivacyCurve | None:
        """The curve of the run if both its readings, each asked afresh, are certainly within the target."""
        curve = self.curve(run, accuracy)
        try:
            if curve.epsilon(self.delta).upper > self.epsilon:
                return None
        except NotPreciseEnough:
            return None
        # that is proof enough where delta at the target's epsilon is too small to be certified
        with contextlib.suppress(NotPreciseEnough):
            return curve if self.curve(run, accuracy).delta(self.epsilon).upper <= self.delta else None
        return curve
