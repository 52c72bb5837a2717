"""The same question, put to another accountant: Rényi divergences, the Gaussian limit, simulation."""

from functools import partial

from tightrope.accountants import monte_carlo as simulate
from tightrope.accountants.certified import Progress
from tightrope.curve.limit_curve import GaussianLimitCurve
from tightrope.curve.renyi_curve import RenyiBranch, RenyiCurve
from tightrope.curve.simulated_curve import SimulatedCurve
from tightrope.engines.choose import Composition
from tightrope.engines.draws.simulation import Simulation
from tightrope.engines.gaussian_limit import limiting_mu, limiting_schedule
from tightrope.engines.moments.renyi import RenyiBound
from tightrope.errors import InvalidSetting
from tightrope.pairs.schedule import Schedule
from tightrope.parallel import in_parallel
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.approximations import CENTRAL_LIMIT
from tightrope.theorems.evidence import Standing
from tightrope.theorems.lookup import analyse
from tightrope.theorems.renyi import RenyiAnalysis, analyse_renyi


def renyi_curve(run: Run, relation: Relation, trusting: Standing) -> RenyiCurve:
    """Upper bounds by every theorem on moments that applies, the best of them for each question."""
    analyses = analyse_renyi(run, relation, trusting=trusting)
    opposite = relation.opposite
    curve = RenyiCurve(
        question=f"{run!r} under {relation.name}",
        branches=tuple(map(_branch, analyses)),
        because=tuple(
            dict.fromkeys(e for analysis in analyses for cover in analysis.covers for e in cover.because)
        ),
        reverse=lambda: curve if opposite is relation else renyi_curve(run, opposite, trusting),
    )
    return curve


def _branch(analysis: RenyiAnalysis) -> RenyiBranch:
    return RenyiBranch(
        analysis.branch.name, tuple((RenyiBound(cover.parts), cover.because) for cover in analysis.covers)
    )


def gaussian_limit_curve(run: Run, relation: Relation, trusting: Standing) -> GaussianLimitCurve:
    """The limit of the worst branch."""
    analyses = analyse(run, relation, trusting=trusting, effort=QUICK)
    schedules = [
        s
        for analysis in analyses
        for cover in analysis.covers
        for s in cover.schedules
        if isinstance(s, Schedule)
    ]
    mu = max(map(limiting_mu, schedules))
    return GaussianLimitCurve(
        question=f"{run!r} under {relation.name}",
        mu=mu,
        because=(CENTRAL_LIMIT,),
        limit=Composition(limiting_schedule(mu)),
    )


def simulated_curve(
    run: Run, relation: Relation, trusting: Standing, simulation: Simulation, progress: Progress | None
) -> SimulatedCurve:
    """Estimates from draws, in as many processes as `simulation` says."""
    if not isinstance(simulation, Simulation):
        raise InvalidSetting(
            f"simulation must be a Simulation, got {simulation!r}. Pass for example Simulation(draws=200_000)."
        )
    spread = partial(in_parallel, workers=simulation.workers)
    return simulate.simulated_curve(
        run, relation=relation, simulation=simulation, trusting=trusting, spread=spread, progress=progress
    )
