"""From the audit of one run to that of a search that published the best of several."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tightrope.answers.spend import epsilon
from tightrope.audit.claims.verdict import Verdict
from tightrope.curve.bracket import Bracket
from tightrope.setting.trials import TrialLaw
from tightrope.setting.tuned import Tuned

if TYPE_CHECKING:
    from tightrope.audit.claims.judge import Audit

AS_ACCOUNTED = (Verdict.MATCHES, Verdict.DECLARED)
NOT_AS_ACCOUNTED = "a search is bounded for what was accounted, and batches are not drawn quite so"


def search_runs(found: "Audit", trials: TrialLaw | None) -> "Audit":
    """The same audit with the epsilons of the best of several runs; unchanged where nothing was searched.

    What runs has a bound only if its batches are drawn as accounted.
    """
    if trials is None:
        return found
    best = epsilon(Tuned(run=found.run, trials=trials), delta=found.delta, relation=found.relation)
    if not _runs_as_accounted(found):
        verdict = Verdict.NOT_PROVEN if found.verdict in (*AS_ACCOUNTED, Verdict.COVERED) else found.verdict
        unknown = Bracket(0.0, math.inf)
        return replace(
            found, claimed=best, proved=unknown, verdict=verdict, because=(), why_not=NOT_AS_ACCOUNTED
        )
    provided = "; ".join(filter(None, [found.provided, *best.conditions]))
    because = best.decided_by.because if best.decided_by is not None else ()
    return replace(found, claimed=best, proved=best, because=because, provided=provided)


def _runs_as_accounted(found: "Audit") -> bool:
    """Whether every batch is drawn as accounted, to the last digit of its rate."""
    samplings = {step.sampling for step, _ in found.run}
    alike = (found.proved.lower, found.proved.upper) == (found.claimed.lower, found.claimed.upper)
    return found.verdict in AS_ACCOUNTED and samplings == {found.finding.sampling} and alike
