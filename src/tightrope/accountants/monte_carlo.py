"""How private is this run, by simulation? Estimates with a confidence level, from the same theorems."""

from collections.abc import Callable, Iterable

from tightrope.curve.simulated_curve import SimulatedCurve
from tightrope.engines.draws.chunks import Progress, Spread, serially
from tightrope.engines.draws.estimates import Simulated
from tightrope.engines.draws.simulation import Simulation
from tightrope.errors import InvalidSetting
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.analysis import Analysis
from tightrope.theorems.evidence import PROVED, Standing
from tightrope.theorems.lookup import analyse


def simulated_curve(
    run: Run | Step,
    *,
    relation: Relation,
    simulation: Simulation,
    trusting: Standing = PROVED,
    spread: Spread = serially,
    progress: Progress | None = None,
) -> SimulatedCurve:
    """The privacy curve of `run` under `relation`, estimated from random draws of its privacy loss.

    `spread` says where pieces of work are done; the answer does not depend on it. `progress(done, draws)` is called after each
    piece with the draws so far and those planned. An interrupt ends the simulation with what it has.

    >>> import tightrope as tr
    >>> from tightrope.engines.draws.simulation import Simulation
    >>> step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    >>> curve = simulated_curve(step, relation=tr.REMOVE, simulation=Simulation(draws=20_000))
    >>> tr.privacy_curve(step, relation=tr.REMOVE).delta(0.5).upper in curve.delta(0.5)
    True
    """
    run = as_run(run)

    def reverse() -> SimulatedCurve:
        opposite = relation.opposite
        if opposite is relation:
            return curve
        return simulated_curve(
            run, relation=opposite, simulation=simulation, trusting=trusting, spread=spread, progress=progress
        )

    analyses = analyse(run, relation, trusting=trusting, effort=QUICK)
    curve = simulated(analyses, f"{run!r} under {relation.name}", simulation, spread, progress, reverse)
    return curve


def simulated(
    analyses: Iterable[Analysis],
    question: str,
    simulation: Simulation,
    spread: Spread = serially,
    progress: Progress | None = None,
    reverse: Callable[[], SimulatedCurve] | None = None,
) -> SimulatedCurve:
    """The curve of the worst branch: from above by each branch's first cover, from below by its first witness.

    First is cheapest and most promising. Only schedules can be drawn, not games: analyse with QUICK. Without `reverse`,
    negative epsilons are refused.
    """
    if not isinstance(simulation, Simulation):
        raise InvalidSetting(
            f"simulation must be a Simulation, got {simulation!r}. Pass for example Simulation(draws=200_000)."
        )
    if progress is not None and not callable(progress):
        raise InvalidSetting(
            f"progress must be callable, got {progress!r}. Pass a function of two counts, done and draws."
        )
    analyses = tuple(analyses)
    covers = dict.fromkeys(schedule for analysis in analyses for schedule in analysis.covers[0].schedules)
    witnesses = dict.fromkeys(witness.schedule for analysis in analyses for witness in analysis.witnesses[:1])
    played = tuple(schedule for schedule in covers if isinstance(schedule, Schedule))
    if len(played) < len(covers):  # a cover left out would leave the upper end too low
        raise ValueError("a game has no fixed pairs to draw from")
    return SimulatedCurve(
        question=question,
        because=tuple(
            dict.fromkeys(evidence for analysis in analyses for evidence in analysis.covers[0].because)
        ),
        confidence=simulation.confidence,
        simulated=Simulated(
            played, tuple(w for w in witnesses if isinstance(w, Schedule)), simulation, spread, progress
        ),
        reverse=reverse,
    )
