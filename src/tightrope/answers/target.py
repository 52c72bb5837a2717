"""What a calibration has to meet: epsilon at delta, together with what else is released."""

import contextlib
import math
from dataclasses import dataclass, field, replace

from tightrope.accountants.certified import Certified, check_certified
from tightrope.accountants.gaps import leaves_a_gap
from tightrope.answers.frontier import OutOfReach
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.engines.planning import log_delta_guess
from tightrope.errors import PYTHON, Infeasible, InvalidSetting, NotPreciseEnough, StopWork
from tightrope.numerics import check
from tightrope.numerics.floats import floor_fraction
from tightrope.numerics.text import write_number
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.given import exactly
from tightrope.setting.relation import SUBSTITUTE, Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import Allocated, EveryRecord, Poisson, Shuffled
from tightrope.setting.trials import TrialLaw, as_trials
from tightrope.setting.tuned import Tuned
from tightrope.theorems.lookup import analyse

NOTHING = Run()
ROUGH, ROUGHEST = 0.1, 0.9  # accuracies for trials far from the target
FAR = 1.0  # in ln delta
LEFT_TO_ONE_RUN = 0.6  # of the epsilon of a search, about: a start that the search corrects


@dataclass(frozen=True)
class Target:
    """(epsilon, delta) under a relation, what else is released, and who certifies it."""

    epsilon: float
    delta: float
    relation: Relation
    besides: Run
    by: Certified
    progress: Progress | None = field(default=None, repr=False, compare=False)
    trials: TrialLaw | None = None  # the best of so many runs is published

    @staticmethod
    def check(
        epsilon: float,
        delta: float,
        relation: Relation | str,
        besides: Run | Step,
        by: Certified,
        progress: Progress | None,
        trials: TrialLaw | str | int | None = None,
    ) -> "Target":
        """The target, unless it is malformed or `besides` alone misses it."""
        remedy = "Pass the privacy loss you accept, 0 or more."
        if check.real(remedy=remedy, epsilon=epsilon) < 0:
            raise InvalidSetting("epsilon", epsilon, "be at least 0", remedy)
        bound = floor_fraction(exactly(epsilon))  # of what is no float, the float below is the safe one
        if not isinstance(besides, Run | Step):
            remedy = "Pass what else is released, or leave it out."
            raise InvalidSetting("besides", besides, "be a Run or a Step", remedy)
        check_certified(by)
        check.open_probability(delta=delta)
        at = check.open_probability(delta=floor_fraction(exactly(delta)))
        law = None if trials is None else as_trials(trials)
        if law is not None and as_run(besides):
            remedy = "No theorem here composes a search with other releases: leave one of them out."
            raise InvalidSetting("besides", besides, "be left out beside {trials}", remedy)
        target = Target(bound, at, as_relation(relation), as_run(besides), by, progress, law)
        # ask at delta, not at epsilon: while little is spent, delta at epsilon is too small to certify
        spent = target.curve(NOTHING).epsilon(target.delta)
        if spent.upper > bound:
            raise Infeasible(
                f"{target.named} cannot be shown to be met: what is released besides, {target.besides!r}, "
                f"alone spends epsilon {spent}",
                "Release less besides, or accept a larger {epsilon} or {delta}.",
                limit=0.0,
            )
        return target

    def __str__(self) -> str:
        return PYTHON.fill(self.named)

    @property
    def named(self) -> str:
        """The target with its names in braces, for refusals."""
        epsilon, delta = write_number(self.epsilon), write_number(self.delta)
        searched = "" if self.trials is None else f" for the best of {self.trials} runs"
        return f"{{epsilon}} {epsilon} at {{delta}} {delta} under {self.relation.text}{searched}"

    def curve(self, run: Run, accuracy: float | None = None) -> PrivacyCurve:
        """The curve of `run` together with what is released besides, or of the best of several."""
        by = self.by if accuracy is None else replace(self.by, accuracy=accuracy)
        if self.trials is not None:
            from tightrope.answers.tuning import tuned_curve  # only where there is a search

            return tuned_curve(Tuned(run=run, trials=self.trials), self.relation, by, self.progress)
        return by.curve(run + self.besides, self.relation, self.progress)

    def leaves_a_gap(self, run: Run) -> bool:
        """Whether theory keeps the two ends apart, so that a finer accuracy brings them no closer."""
        if self.trials is not None:
            return True
        return leaves_a_gap(analyse(run + self.besides, self.relation, QUICK))

    @property
    def quick(self) -> "Target":
        """The same target, judged without a game."""
        return replace(self, by=replace(self.by, effort=QUICK))

    @property
    def nothing_known(self) -> Bracket:
        """The excess if nothing is known but that delta is at most 1."""
        return Bracket(-math.inf, -math.log(self.delta))

    def excess(self, run: Run, accuracy: float) -> Bracket:
        """ln delta - ln target. Far from the target a rough bracket says enough and is often much cheaper."""
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
        error = 2 * ELEMENTARY_REL_ERROR * abs(log_delta)  # twice: rounding error and sums changes no sign
        lower, upper = found.lower - (log_delta + error), found.upper - (log_delta - error)
        return Bracket(lower, upper, interrupted=found.interrupted)

    def estimate(self, run: Run) -> Bracket:
        """About the same, by the saddle-point approximation; passes as Poisson samples, which are quicker."""
        log_delta = math.log(self.delta)
        schedules = [
            schedule
            for analysis in analyse(self._without_passes(run + self.besides), self.relation, QUICK)
            for schedule in analysis.covers[0].schedules
            if isinstance(schedule, Schedule)
        ]
        epsilon = self.epsilon if self.trials is None else self.epsilon * LEFT_TO_ONE_RUN
        about = max(log_delta_guess(schedule, epsilon, log_delta) for schedule in schedules) - log_delta
        return Bracket(about, about)  # NaN is refused here

    def _without_passes(self, run: Run) -> Run:
        """The run with steps of the same rate in place of passes, whose pairs take as long as an answer.

        Where a record comes or goes and none is left over, a shuffle hides less than that: the last batch
        always moves, and an epoch is one full batch here.
        """
        return Run(tuple(self._without_pass(step, times) for step, times in run))

    def _without_pass(self, step: Step, times: int) -> tuple[Step, int]:
        sampling = step.sampling
        if not isinstance(sampling, Shuffled | Allocated):
            return step, times
        is_open = isinstance(sampling, Shuffled) and not sampling.left_over
        if is_open and self.relation is not SUBSTITUTE:
            return Step(step.mechanism, EveryRecord()), -(-times // sampling.batches)
        return Step(step.mechanism, Poisson(rate=sampling.exact_rate)), times

    def verify(self, run: Run, accuracy: float) -> PrivacyCurve | None:
        """The curve of the run if its epsilon and its delta, asked separately, are within the target.

        None if they are not; StopWork if the work that might have shown it was stopped.
        """
        curve = self.curve(run, accuracy)
        try:
            if not _is_within(curve.epsilon(self.delta), self.epsilon):
                return None
        except StopWork:
            raise
        except NotPreciseEnough:
            return None
        # the epsilon is proof enough where delta at the target's epsilon is too small to be certified
        try:
            asked_anew = self.curve(run, accuracy)
            return curve if _is_within(asked_anew.delta(self.epsilon), self.delta) else None
        except StopWork:
            raise
        except NotPreciseEnough:
            return curve


def _is_within(found: Bracket, most: float) -> bool:
    """Whether the upper end is within the target; StopWork if it is not, but might have been."""
    if found.upper > most and found.interrupted:
        raise StopWork
    return found.upper <= most
