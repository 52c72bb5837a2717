"""How private is a search? The curve of the best of several runs."""

from dataclasses import dataclass, field, replace

from tightrope.accountants.certified import Certified
from tightrope.curve.bracket import Gap
from tightrope.curve.branches import Branch, ComposedCover, ComposedWitness
from tightrope.curve.played_order import AnyOrder, PlayedOrder
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.ranks import RandomRanks, Ranks, ranks_of
from tightrope.curve.worst_ranks import WholeCurve, WorstRanks
from tightrope.engines.face import ComposedCurve, Progress
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import InPasses
from tightrope.setting.trials import FixedTrials
from tightrope.setting.tuned import SEARCHED, Tuned
from tightrope.theorems.lookup import analyse
from tightrope.theorems.table import Witness
from tightrope.theorems.tuning import FIXED_TRIALS, WORST_RANKS

WHY_APART = (
    "from above every output has its worst rank, from below outputs of low and of high loss score best"
)
ALL_PUBLISHED = "from above all runs count as published, from below only the best one is"
LOW_THEN_HIGH = "outputs of low loss score best, then those of high loss"
HIGH = "outputs of high loss score best"
ALIKE = "all outputs score alike"


def tuned_curve(
    search: Tuned, relation: Relation, by: Certified, progress: Progress | None = None
) -> PrivacyCurve:
    """The curve of the best of several runs, each direction of the relation from its own curve of one run.

    It asks for one run at hundreds of epsilons, so no games are played whatever the effort.
    """
    by = replace(by, effort=QUICK)
    made = _Searched(search, by, progress)
    is_fixed = isinstance(search.trials, FixedTrials)
    why_apart = ALL_PUBLISHED if is_fixed else WHY_APART

    def curve_under(asked: Relation) -> PrivacyCurve:
        def reverse() -> PrivacyCurve:
            return found if asked.opposite is asked else curve_under(asked.opposite)

        branches = tuple(map(made.branch, asked.branches))
        found = PrivacyCurve(
            question=f"{search!r} under {asked.name}",
            because=tuple(dict.fromkeys(e for branch in branches for c in branch.covers for e in c.because)),
            branches=branches,
            accuracy=by.accuracy,
            reverse=reverse,
            explain_gap=lambda width, delta: Gap(width, by.accuracy, why_apart),
            conditions=() if is_fixed else (SEARCHED,),
        )
        return found

    return curve_under(relation)


@dataclass(frozen=True)
class _Searched:
    """What the branches of a search are made of."""

    search: Tuned
    by: Certified
    progress: Progress | None
    _curves: dict[Relation, PrivacyCurve] = field(default_factory=dict)

    def branch(self, branch: Relation) -> Branch[ComposedCurve]:
        """One direction: a cover from the curves of one run, and witnesses that choose the score."""
        ranks, one = ranks_of(self.search.trials), self._curve(branch)
        cover = self._cover(ranks, one, branch)
        witnesses = [*self._play(ranks, one, branch)]
        alike = AnyOrder(ranks, one)
        reached = "; ".join(dict.fromkeys(witness.datasets for witness in one.branches[0].witnesses))
        witnesses.append(ComposedWitness((alike,), f"{reached}; {ALIKE}"))
        return Branch(branch.name, (cover,), tuple(witnesses))

    def _curve(self, branch: Relation) -> PrivacyCurve:
        """That of one run, composed once."""
        if branch not in self._curves:
            self._curves[branch] = self.by.curve(self.search.run, branch, self.progress)
        return self._curves[branch]

    def _cover(self, ranks: Ranks, one: PrivacyCurve, branch: Relation) -> ComposedCover[ComposedCurve]:
        trials = self.search.trials
        if isinstance(trials, FixedTrials):
            whole = self.by.curve(_repeat(self.search.run, trials.number), branch, self.progress)
            return ComposedCover((WholeCurve(whole),), (*whole.because, FIXED_TRIALS))
        assert isinstance(ranks, RandomRanks)
        back = self._curve(branch.opposite)
        because = dict.fromkeys((*one.because, *back.because, WORST_RANKS))
        return ComposedCover((WorstRanks(ranks, one, back),), tuple(because))

    def _play(
        self, ranks: Ranks, one: PrivacyCurve, branch: Relation
    ) -> list[ComposedWitness[ComposedCurve]]:
        """Each pair of neighbours that is not chosen on the way, with a score that depends on its loss."""
        back = self._curve(branch.opposite)
        there, here = self._witnesses(branch), self._witnesses(branch.opposite)
        played = []
        for place, witness in enumerate(there):
            if not isinstance(witness.schedule, Schedule):
                continue
            match = _find_reversed(witness.schedule, here)
            curve, reverse = _link(_only(one, place), _only(back, match))
            order = PlayedOrder(ranks, curve, None if match is None else reverse)
            said = HIGH if match is None else LOW_THEN_HIGH
            played.append(ComposedWitness[ComposedCurve]((order,), f"{witness.datasets}; {said}"))
        return played

    def _witnesses(self, branch: Relation) -> tuple[Witness, ...]:
        (analysis,) = analyse(self.search.run, branch, self.by.effort)
        return analysis.witnesses


def _repeat(run: Run, number: int) -> Run:
    """So many runs, each with passes of its own.

    A pass that one run only began is not finished by the next: of several runs it counts as a whole one,
    since what its first batches release is a part of what all of them would.
    """
    if number == 1:
        return run
    passes = [
        (step, -(-times // step.sampling.batches) * step.sampling.batches)
        if isinstance(step.sampling, InPasses)
        else (step, times)
        for step, times in run
    ]
    return Run(tuple(passes)) * number


def _find_reversed(schedule: Schedule, among: tuple[Witness, ...]) -> int | None:
    """Which witness of the opposite direction plays the same pairs reversed."""
    back = schedule.reverse
    return next((place for place, witness in enumerate(among) if witness.schedule == back), None)


def _link(one: PrivacyCurve, back: PrivacyCurve) -> tuple[PrivacyCurve, PrivacyCurve]:
    """Both curves, each the other's reverse."""
    curve = replace(one, reverse=lambda: reverse)
    reverse = replace(back, reverse=lambda: curve)
    return curve, reverse


def _only(curve: PrivacyCurve, place: int | None) -> PrivacyCurve:
    """The curve between its covers and one of its witnesses, or none: then a single pair is bounded."""
    (branch,) = curve.branches
    witnesses = () if place is None else (branch.witnesses[place],)
    return replace(curve, branches=(replace(branch, witnesses=witnesses),))
