"""The curve that many small steps tend to: an approximation, which can be too small."""

import math
from dataclasses import dataclass
from typing import ClassVar

from tightrope.accountants.accountant import Accountant
from tightrope.curve.limit_curve import Approximation, GaussianLimitCurve
from tightrope.engines.choose import compose
from tightrope.engines.face import Progress
from tightrope.engines.gaussian_limit import limiting_mu, limiting_schedule
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.composition import CENTRAL_LIMIT
from tightrope.theorems.lookup import analyse


@dataclass(frozen=True, kw_only=True)
class GaussianLimit(Accountant[GaussianLimitCurve, Approximation]):
    """The limit of the worst branch. Nobody knows how far it is off.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE, by=tr.GaussianLimit()))  # truly 0.9472
    about 0.808...
    """

    name: ClassVar[str] = "gaussian-limit"
    promise: ClassVar[str] = "an approximation: it can be too small"

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> GaussianLimitCurve:
        """The limit is one formula, so `progress` is never called."""
        analyses = analyse(run, relation, QUICK)
        schedules = [
            s for a in analyses for c in a.covers[:1] for s in c.schedules if isinstance(s, Schedule)
        ]
        mu = max(map(limiting_mu, schedules))
        return GaussianLimitCurve(
            question=f"{run!r} under {relation.name}",
            mu=mu,
            because=(CENTRAL_LIMIT,),
            limit=compose(limiting_schedule(mu)) if math.isfinite(mu) else None,
        )
