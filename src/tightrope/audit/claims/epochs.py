"""Shuffled epochs of a claim, accounted as the sampling that they are."""

from dataclasses import dataclass
from fractions import Fraction

from tightrope.audit.claims.drawn import DrawnClaim
from tightrope.audit.finding import Finding, How
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import NoTheorem
from tightrope.pairs.allocation import MOST_SEPARATION
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Shuffled
from tightrope.theorems.evidence import Evidence

NOT_ITS_OWN_SIZE = "no sum is divided by the size of a last batch that a record fewer makes smaller"


@dataclass(frozen=True)
class AccountedEpochs:
    """epsilon of the epochs from above and from below, and the theorems that say so."""

    epsilon: Bracket
    because: tuple[Evidence, ...]


def account_epochs(claim: DrawnClaim) -> AccountedEpochs | None:
    """Both ends for epochs that are shuffled as found; None where no theorem is about them.

    From above all epochs count that the run may hold a part of, with the smallest noise. From below those
    count that it surely holds, with the largest.
    """
    sampling, noises = claim.finding.shuffled, claim.noises
    if sampling is None or not noises:
        return None
    if claim.relation is not SUBSTITUTE and not claim.finding.removal_changes_one_slot:
        return None
    above = Step(Gaussian(noise_multiplier=min(noises)), sampling) * claim.steps_begun
    below = Step(Gaussian(noise_multiplier=max(noises)), sampling) * claim.steps_held
    try:
        curve = claim.by.curve(above, claim.relation)
        found = curve.epsilon(claim.delta)
        lower = found.lower if below == above else _reach(claim, below)
    except NoTheorem:
        return None
    because = () if found.decided_by is None else found.decided_by.because
    return AccountedEpochs(Bracket(min(lower, found.upper), found.upper), because)


def _reach(claim: DrawnClaim, run: Run) -> float:
    curve: PrivacyCurve = claim.by.curve(run, claim.relation)
    return curve.epsilon(claim.delta).lower


def may_tell_more(sampling: Shuffled, noise: Fraction) -> bool:
    """Whether fixed datasets may tell more under SUBSTITUTE than the sampling's own lower end.

    That looks at full batches of a whole number of them, and at no less noise than its lattices hold.
    """
    return sampling.last != sampling.batch or sampling.left_over > 0 or noise * MOST_SEPARATION < 2


def is_shuffled_so(claimed: Shuffled, finding: Finding, relation: Relation) -> bool:
    """Whether batches are cut as accounted, from new orders, and likewise for a neighbour.

    A recording may begin within an epoch, and does not tell how a neighbour would be cut.
    """
    if isinstance(finding.sampling, Shuffled):
        return _is_cut_alike(claimed, finding.sampling)
    cut = None if finding.how is How.WATCHED else finding.shuffled
    if cut is None or not (relation is SUBSTITUTE or finding.removal_changes_one_slot):
        return False
    return _is_cut_alike(claimed, cut)


def _is_cut_alike(claimed: Shuffled, found: Shuffled) -> bool:
    """Whether batches are those that were accounted; where their size was not stated, all must be full."""
    if claimed.batch is None:
        is_whole = found.last == found.batch and not found.left_over
        return claimed.batches == found.batches and is_whole
    return claimed == found
