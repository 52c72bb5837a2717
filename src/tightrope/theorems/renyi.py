"""From a run and a relation to what bounds its Rényi divergences."""

from dataclasses import dataclass
from fractions import Fraction

from tightrope.errors import NoTheorem
from tightrope.pairs.amplified import ANY_NOISE, GAUSSIAN_NOISE, Amplification, Amplified
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import Allocated, Shuffled
from tightrope.theorems.composition import (
    ANY_NOISE_EXCHANGED,
    CONVERSION,
    DOMINATES,
    GAUSSIAN_EXCHANGED,
    REMOVE_HAS_MORE,
    REMOVE_SUFFICES,
    TOTAL_VARIATION,
)
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.lookup import analyse, find_parts
from tightrope.theorems.substitution import DominatedStep
from tightrope.theorems.table import Analysis, Cover
from tightrope.theorems.worst_pairs import StepLaws, sum_moves_by


@dataclass(frozen=True)
class RenyiCover:
    """A theorem: the product of these steps' moments bounds that of every neighbouring pair of datasets."""

    parts: tuple[tuple[Pair | Amplified, int], ...]
    because: tuple[Evidence, ...]


@dataclass(frozen=True)
class RenyiAnalysis:
    """The covers of one branch of a relation, the tightest first."""

    branch: Relation
    covers: tuple[RenyiCover, ...]


def analyse_renyi(run: Run, relation: Relation) -> tuple[RenyiAnalysis, ...]:
    """One analysis per branch that the curve for epsilon >= 0 needs."""
    if any(isinstance(step.sampling, Allocated) for step, _ in run):
        raise NoTheorem(
            "Rényi divergences of passes in which records choose their batches are not bounded here",
            "Ask {Certified}, which knows the curve itself, from above and from below.",
        )
    if any(isinstance(step.sampling, Shuffled) for step, _ in run):
        raise NoTheorem(
            "Rényi divergences of shuffled batches are not bounded here",
            "Ask {Certified}, which knows the curve itself, from above and from below.",
        )
    return tuple(_cover(run, relation, analysis) for analysis in analyse(run, relation, QUICK))


def _cover(run: Run, relation: Relation, analysis: Analysis) -> RenyiAnalysis:
    covers = [_by_pairs(cover, relation) for cover in analysis.covers]
    if analysis.branch is SUBSTITUTE:
        parts = find_parts(run, SUBSTITUTE)
        kinds = [part for part in parts if part.exchanges]
        if kinds and all(isinstance(part.step.mechanism, Gaussian) for part in kinds):
            covers.append(_amplify(parts, GAUSSIAN_NOISE))
        if kinds:
            covers.append(_amplify(parts, ANY_NOISE))
    return RenyiAnalysis(analysis.branch, tuple(covers))


def _by_pairs(cover: Cover, relation: Relation) -> RenyiCover:
    """The moments of the dominating pairs themselves."""
    (schedule,) = cover.schedules
    assert isinstance(schedule, Schedule)  # quick effort plays no game
    because = dict.fromkeys((*cover.because, DOMINATES))
    if relation.single is ADD_OR_REMOVE and REMOVE_SUFFICES in because:
        because[REMOVE_HAS_MORE] = None
    return RenyiCover(schedule.parts, (*because, CONVERSION, TOTAL_VARIATION))


def _amplify(parts: list[DominatedStep], by: Amplification) -> RenyiCover:
    """Sampled batches of fixed size by their unsampled steps, other steps by their dominating pairs."""
    because: dict[Evidence, None] = {ANY_NOISE_EXCHANGED: None}
    if by is GAUSSIAN_NOISE:
        because[GAUSSIAN_EXCHANGED] = None
    bounded: list[tuple[Pair | Amplified, int]] = []
    for part in parts:
        if part.exchanges:
            distance = sum_moves_by(part.step.sampling, SUBSTITUTE)
            base = StepLaws(part.step.mechanism, distance, Fraction(1)).remove()
            bounded.append((Amplified(base, part.step.sampling.exact_rate, by), part.times))
        else:
            because[part.evidence] = None
            because[DOMINATES] = None
            bounded.append((part.dominating, part.times))
    return RenyiCover(tuple(bounded), (*because, CONVERSION, TOTAL_VARIATION))
