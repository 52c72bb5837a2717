"""Estimates with a confidence level, from random draws of the privacy loss and the same theorems."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tightrope.accountants.accountant import Accountant, check_progress
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.engines.draws.chunks import IN_THIS_PROCESS, Spread
from tightrope.engines.draws.estimates import DrawPlan, Simulator
from tightrope.engines.draws.tilts import TILTED, Drawing
from tightrope.engines.face import ABOVE, BELOW, Progress
from tightrope.engines.resolve import resolve
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.numerics.confidence import BETTING, Interval
from tightrope.pairs.schedule import Schedule
from tightrope.parallel import in_parallel
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.lookup import analyse
from tightrope.theorems.table import Analysis, refuse_counts

MOST_DRAWS = 10**12  # a year of work; more is a slip of the pen


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Accountant[SimulatedCurve, Estimate]):
    """Estimates from random draws. The same values give the same answer, whatever the number of workers.

    `confidence` is that of all answers of one call together. `workers` are processes: None means all cores,
    or those of the joblib backend that is configured; more than one needs joblib (the extra `dist`).

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    >>> found = tr.delta(step, epsilon=0.5, relation=tr.REMOVE, by=MonteCarlo(draws=20_000))
    >>> tr.delta(step, epsilon=0.5, relation=tr.REMOVE).upper in found
    True
    """

    name: ClassVar[str] = "monte-carlo"
    promise: ClassVar[str] = "an interval that holds with the stated confidence"

    draws: int = 200_000
    confidence: float = 0.99
    seed: int = 0
    drawing: Drawing = TILTED
    interval: Interval = BETTING
    workers: int | None = 1

    def __post_init__(self) -> None:
        remedy = "It is how many sums of losses are drawn, for example 200_000."
        if check.whole(least=1, remedy=remedy, draws=self.draws) > MOST_DRAWS:
            must = f"be at most {MOST_DRAWS:.0e}"
            raise InvalidSetting("draws", self.draws, must, "Tilted draws need far fewer.")
        confidence = check.open_probability(remedy="Pass for example 0.99.", confidence=self.confidence)
        object.__setattr__(self, "confidence", confidence)
        check.whole(remedy="A seed is a whole number, 0 or more.", seed=self.seed)
        if self.workers is not None:
            remedy = "Pass a number of processes, 1 or more."
            check.whole(least=1, remedy=remedy, workers=self.workers)
        if not isinstance(self.drawing, Drawing):
            remedy = "Pass for example {drawing=TILTED}."
            raise InvalidSetting("drawing", self.drawing, "be PLAIN or TILTED", remedy)
        if not isinstance(self.interval, Interval):
            remedy = "Pass for example {interval=BETTING}."
            raise InvalidSetting("interval", self.interval, "be HOEFFDING, CHERNOFF or BETTING", remedy)

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> SimulatedCurve:
        """From above by each branch's first cover, from below by its first witness.

        The first is the cheapest and most promising. `progress(done, draws)` is called with the draws so far
        and those planned. An interrupt ends the simulation with what it has.
        """
        opposite = relation.opposite
        curve = simulate(
            analyse(run, relation, QUICK),
            f"{run!r} under {relation.name}",
            self,
            partial(in_parallel, workers=self.workers),
            progress,
            reverse=lambda: curve if opposite is relation else self.curve(run, opposite, progress),
        )
        return curve


def simulate(
    analyses: Iterable[Analysis],
    question: str,
    by: MonteCarlo,
    spread: Spread = IN_THIS_PROCESS,
    progress: Progress | None = None,
    reverse: Callable[[], SimulatedCurve] | None = None,
) -> SimulatedCurve:
    """The curve of the worst branch. Only schedules can be drawn, not games: analyse with QUICK.

    `spread` says where chunks are drawn; the answer does not depend on it. Without `reverse`, negative
    epsilons are refused.
    """
    check_progress(progress)
    analyses = tuple(analyses)
    refuse_counts(analyses, "Random draws of losses")
    covers = dict.fromkeys(schedule for analysis in analyses for schedule in analysis.covers[0].schedules)
    witnesses = dict.fromkeys(w.schedule for analysis in analyses for w in analysis.witnesses[:1])
    above = tuple(resolve(schedule, ABOVE) for schedule in covers if isinstance(schedule, Schedule))
    below = tuple(resolve(schedule, BELOW) for schedule in witnesses if isinstance(schedule, Schedule))
    if len(above) < len(covers):  # a cover left out would leave the upper end too low
        raise ValueError("a game has no fixed pairs to draw from")
    beta = math.nextafter(1 - by.confidence, 0.0)  # rounded down: the confidence is at least what is said
    plan = DrawPlan(draws=by.draws, beta=beta, seed=by.seed, drawing=by.drawing, interval=by.interval)
    return SimulatedCurve(
        question=question,
        because=tuple(dict.fromkeys(e for analysis in analyses for e in analysis.covers[0].because)),
        confidence=by.confidence,
        simulator=Simulator(above, below, plan, spread, progress),
        reverse=reverse,
    )
