"""Upper bounds by Rényi divergences: quick, valid and looser than the curve itself."""

from dataclasses import dataclass
from typing import ClassVar

from tightrope.accountants.accountant import Accountant
from tightrope.curve.renyi_curve import RenyiBranch, RenyiCurve, UpperBound
from tightrope.engines.face import Progress
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.renyi import RenyiAnalysis, analyse_renyi


@dataclass(frozen=True, kw_only=True)
class Renyi(Accountant[RenyiCurve, UpperBound]):
    """Upper bounds by every theorem on moments that applies, the best of them for each question.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE, by=tr.Renyi()))  # truly 0.9472
    at most 1.703...
    """

    name: ClassVar[str] = "renyi"
    promise: ClassVar[str] = "a certified upper bound, and no lower one"

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> RenyiCurve:
        """Bounds take milliseconds, so `progress` is never called."""
        analyses = analyse_renyi(run, relation)
        opposite = relation.opposite
        curve = RenyiCurve(
            question=f"{run!r} under {relation.name}",
            branches=tuple(map(_branch, analyses)),
            because=tuple(dict.fromkeys(e for a in analyses for cover in a.covers for e in cover.because)),
            reverse=lambda: curve if opposite is relation else self.curve(run, opposite),
        )
        return curve


def _branch(analysis: RenyiAnalysis) -> RenyiBranch:
    from tightrope.engines.moments.renyi import RenyiBound  # it loads flint, which only an answer needs

    covers = tuple((RenyiBound(cover.parts), cover.because) for cover in analysis.covers)
    return RenyiBranch(analysis.branch.name, covers)
