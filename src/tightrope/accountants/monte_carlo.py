"""Estimates with a confidence level, from random draws of the privacy loss and the same theorems."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tightrope.accountants.accountant import Accountant, Progress, check_progress
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.engines.draws.chunks import Spread, serially
from tightrope.engines.draws.estimates import Simulated
from tightrope.engines.draws.simulation import Simulation
from tightrope.pairs.schedule import Schedule
from tightrope.parallel import in_parallel
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.analysis import Analysis
from tightrope.theorems.lookup import analyse


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Simulation, Accountant[SimulatedCurve, Estimate]):
    """Estimates from random draws. The same values give the same answer, whatever the number of workers.

    `confidence` is that of all answers of one call together. `workers` are processes: None means all cores, or those of
    the joblib backend that is configured; more than one needs joblib (the extra `dist`).

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    >>> found = tr.delta(step, epsilon=0.5, relation=tr.REMOVE, by=MonteCarlo(draws=20_000))
    >>> tr.delta(step, epsilon=0.5, relation=tr.REMOVE).upper in found
    True
    """

    name: ClassVar[str] = "monte-carlo"
    promise: ClassVar[str] = "an interval that holds with the stated confidence"

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> SimulatedCurve:
        """From above by each branch's first cover, from below by its first witness: the cheapest and most promising.

        `progress(done, draws)` is called with the draws so far and those planned. An interrupt ends the simulation with
        what it has.
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
    spread: Spread = serially,
    progress: Progress | None = None,
    reverse: Callable[[], SimulatedCurve] | None = None,
) -> SimulatedCurve:
    """The curve of the worst branch. Only schedules can be drawn, not games: analyse with QUICK.

    `spread` says where pieces of work are done; the answer does not depend on it. Without `reverse`, negative epsilons
    are refused.
    """
    check_progress(progress)
    analyses = tuple(analyses)
    covers = dict.fromkeys(schedule for analysis in analyses for schedule in analysis.covers[0].schedules)
    witnesses = dict.fromkeys(w.schedule for analysis in analyses for w in analysis.witnesses[:1])
    above = tuple(schedule for schedule in covers if isinstance(schedule, Schedule))
    below = tuple(schedule for schedule in witnesses if isinstance(schedule, Schedule))
    if len(above) < len(covers):  # a cover left out would leave the upper end too low
        raise ValueError("a game has no fixed pairs to draw from")
    return SimulatedCurve(
        question=question,
        because=tuple(dict.fromkeys(e for analysis in analyses for e in analysis.covers[0].because)),
        confidence=by.confidence,
        simulated=Simulated(above, below, by, spread, progress),
        reverse=reverse,
    )
