"""What is proved about epsilon for the batches that are really drawn."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.audit.claims.counted import LIKE_WATCHED, WHOLE_PASSES
from tightrope.audit.claims.drawn import DrawnClaim
from tightrope.audit.claims.epochs import (
    NOT_ITS_OWN_SIZE,
    AccountedEpochs,
    account_epochs,
    may_tell_more,
)
from tightrope.audit.claims.reach import ReachedEpsilon, reach_by_largest_sum, reach_shuffle
from tightrope.audit.claims.verdict import refuse_truth
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket, Gap
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.numerics import check
from tightrope.numerics.floats import ceil_fraction, floor_fraction
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation, as_relation, need_one_record
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, Shuffled, WithoutReplacement
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.groups import MOST_COUNTED
from tightrope.theorems.other_batchings import (
    REVEALED_BATCHES,
    SPLIT_NOISE,
    LargestSum,
    reveal_moves,
    reveal_repeated_draws,
    reveal_shuffle,
    reveal_visits,
    split_draws,
)
from tightrope.theorems.repeated_records import (
    COPIES_ONE_BY_ONE,
    COPIES_TOGETHER,
    bound_one_by_one,
    move_together,
    witness_copies,
)

MOST_DRAWS = 10**6  # in one batch: every number of them is weighed, which takes seconds and memory
NOTHING_REACHED = ReachedEpsilon()
RARELY = 1e-3  # the share of delta for records that are drawn more often than L allows


@dataclass(frozen=True, kw_only=True)
class ProvedBound:
    """epsilon at one delta for what really runs; `why_not` says why `upper` is infinite, where it is.

    `provided` is what the bound takes for granted without a check; it is empty where the bound rests on
    theorems and the finding alone.
    """

    epsilon: Bracket
    because: tuple[Evidence, ...] = ()
    provided: str = ""
    why_not: str = ""

    def __bool__(self) -> bool:
        refuse_truth("a proved bound", ".epsilon.upper, which is infinite where nothing is proved")


def prove_bound(
    run: Run,
    finding: Finding,
    *,
    delta: float,
    relation: Relation | str,
    by: Certified = BY_DEFAULT,
    epochs: int | None = None,
) -> ProvedBound:
    """What is proved about `run`'s epsilon if its batches are drawn as found, or why nothing is.

    Of the run only mechanisms and steps count; the sampling it states is not believed. `epochs` says in how
    many epochs steps were taken, where they were counted while training: then nothing is taken for granted
    about passes that were broken off.
    """
    claim = DrawnClaim(
        run=run,
        finding=finding,
        delta=check.open_probability(delta=delta),
        relation=as_relation(relation),
        by=check_certified(by),
        epochs=None if epochs is None else check.whole(least=1, epochs=epochs),
    )
    return prove_claim(claim)


def prove_claim(claim: DrawnClaim) -> ProvedBound:
    """What is proved about the run of a claim, whose numbers were checked, or why nothing is."""
    try:
        if claim.copies > 1:
            need_one_record(claim.relation, "bounds for datasets that hold a record several times")
            return _bound_copies(claim)
        if claim.finding.sampling is not None:
            return _bound_sampling(claim, claim.finding.sampling)
        need_one_record(claim.relation, "bounds for batches drawn in this way")
        return _BOUNDS.get(claim.finding.scheme, _bound_nothing)(claim)
    except (NoTheorem, NotPreciseEnough, InvalidSetting) as refusal:  # noise may be too small to be halved
        return _give_up(str(refusal))


def drop_lower_end(spent: Bracket, by: Certified) -> Bracket:
    """The upper end alone, where the accounted steps are worse than those that were run."""
    why = "the accounted steps only bound those that were run, so no datasets are known to reach a lower end"
    gap = Gap(1.0, by.accuracy, why) if 0 < spent.upper < math.inf else None
    return Bracket(0.0, spent.upper, gap=gap, conditions=spent.conditions)


def resample(run: Run, sampling: Sampling) -> Run:
    """The same mechanisms on batches drawn in another way."""
    return Run(tuple((Step(step.mechanism, sampling), times) for step, times in run))


def _bound_sampling(claim: DrawnClaim, sampling: Sampling) -> ProvedBound:
    provided = LIKE_WATCHED if claim.finding.how is How.WATCHED else ""
    if isinstance(sampling, Shuffled) and claim.relation is not SUBSTITUTE and not sampling.left_over:
        provided = NOT_ITS_OWN_SIZE
    ends = tuple(Poisson(rate=rate) for rate in claim.finding.rate_range or ()) or (sampling,)
    runs = [resample(claim.run, end) for end in ends]
    curves = [claim.by.curve(run, claim.relation) for run in runs]
    low, high = curves[0].epsilon(claim.delta).lower, curves[-1].epsilon(claim.delta).upper
    return ProvedBound(
        epsilon=Bracket(low, high),
        because=tuple(one for one in curves[-1].because if isinstance(one, Evidence)),
        provided=provided,
    )


def _bound_nothing(claim: DrawnClaim) -> ProvedBound:
    return _give_up("nothing is known of how its batches are drawn")


def _bound_shuffle(claim: DrawnClaim) -> ProvedBound:
    accounted = account_epochs(claim)
    if accounted is not None:
        return _conclude_epochs(claim, accounted)
    reached = reach_shuffle(claim)
    if claim.relation is SUBSTITUTE:
        return _conclude(claim, reached, claim.bound(reveal_visits(claim.run, visits=claim.visits)).upper)
    if not claim.finding.removal_changes_one_slot:
        return _give_up(_another_cut(claim), reached)
    return _conclude(claim, reached, claim.bound(reveal_shuffle(claim.run, visits=claim.visits)).upper)


def _conclude_epochs(claim: DrawnClaim, accounted: AccountedEpochs) -> ProvedBound:
    """What a theorem about shuffled epochs says, or what is told without one where that is better."""
    reveal = reveal_visits if claim.relation is SUBSTITUTE else reveal_shuffle
    reached, upper, because = accounted.epsilon.lower, accounted.epsilon.upper, accounted.because
    if len(claim.noises) > 1:
        revealed = claim.bound(reveal(claim.run, visits=claim.visits)).upper
        because, upper = (because, upper) if upper <= revealed else ((REVEALED_BATCHES,), revealed)
    found = ReachedEpsilon(reached)
    sampling = claim.finding.shuffled
    if claim.relation is SUBSTITUTE and sampling and may_tell_more(sampling, claim.largest_noise):
        found = max(found, reach_shuffle(claim), key=lambda one: one.epsilon)
    return _conclude(claim, found, upper, because)


def _bound_balls_in_bins(claim: DrawnClaim) -> ProvedBound:
    upper = claim.bound(reveal_visits(claim.run, visits=claim.visits)).upper
    if not (claim.largest_noise and claim.finding.epoch):
        return _conclude(claim, NOTHING_REACHED, upper)
    witness = LargestSum(
        epochs=claim.whole_epochs,
        batches=claim.finding.epoch,
        weight=1.0,
        with_record=1.0,
        without=-1.0 if claim.relation is SUBSTITUTE else 0.0,
        noise=claim.largest_noise,
    )
    return _conclude(claim, reach_by_largest_sum(claim, witness), upper)


def _bound_fixed_partition(claim: DrawnClaim) -> ProvedBound:
    finding, run = claim.finding, claim.run
    if claim.relation is not SUBSTITUTE:
        if not finding.removal_changes_one_slot:
            return _give_up(_another_cut(claim))
        return _conclude(claim, NOTHING_REACHED, claim.bound(reveal_moves(run)).upper)
    uncut = finding.times == 1 and not claim.is_cut
    # wherever the run begins, the records of one batch come in ceil(steps / epoch) steps, none in more
    visits = -(-run.steps // finding.epoch) if uncut and finding.epoch else claim.visits
    found = claim.bound(reveal_visits(run, visits=visits))
    reached = ReachedEpsilon(found.lower) if uncut and len(run.parts) == 1 else NOTHING_REACHED
    return _conclude(claim, reached, found.upper)


def _bound_single_draws(claim: DrawnClaim) -> ProvedBound:
    finding, run = claim.finding, claim.run
    if claim.relation is not SUBSTITUTE and not finding.removal_changes_one_slot:
        return _give_up(_another_cut(claim))
    if finding.share and finding.batch is not None:
        if finding.batch > MOST_DRAWS:
            return _give_up(f"batches of more than {MOST_DRAWS:,} single draws are not bounded here")
        beta = RARELY * claim.delta
        least = ceil_fraction(Fraction(1, finding.records)) if finding.records else 0.0
        share = max(finding.share, least)  # what was declared may be the float below 1 / records
        step = reveal_repeated_draws(run, batch=finding.batch, share=share, beta=beta)
        left = floor_fraction(Fraction(claim.delta) - Fraction(beta))
        bound = claim.by.curve(step * 1, ADD_OR_REMOVE).epsilon(left)
        return _conclude(claim, NOTHING_REACHED, bound.upper)
    if finding.scheme is Scheme.WITH_REPLACEMENT or not finding.epoch:
        return _give_up("the weights are not known")
    substitutes = claim.relation is SUBSTITUTE
    bounding = reveal_visits(run, visits=claim.visits) if substitutes else reveal_moves(run)
    return _conclude(claim, NOTHING_REACHED, claim.bound(bounding).upper)


def _bound_several_draws(claim: DrawnClaim) -> ProvedBound:
    draws, rate = claim.finding.draws, claim.finding.rate
    if not draws or rate is None:
        return _give_up("how many draws make one step is not known")
    upper = claim.bound(split_draws(claim.run, draws=draws, rate=rate)).upper
    return ProvedBound(epsilon=Bracket(0.0, upper), because=(SPLIT_NOISE,))


_BOUNDS: dict[Scheme, Callable[[DrawnClaim], ProvedBound]] = {
    Scheme.SHUFFLE: _bound_shuffle,
    Scheme.BALLS_IN_BINS: _bound_balls_in_bins,
    Scheme.FIXED_PARTITION: _bound_fixed_partition,
    Scheme.WITH_REPLACEMENT: _bound_single_draws,
    Scheme.WEIGHTED: _bound_single_draws,
    Scheme.SEVERAL_DRAWS: _bound_several_draws,
}


def _bound_copies(claim: DrawnClaim) -> ProvedBound:
    """What is proved where one record is in the dataset several times."""
    sampling = _list_samplings(claim.finding).get(claim.finding.scheme)
    if sampling is None:
        return _bound_copies_in_order(claim)
    with suppress(NoTheorem):  # without a theorem about them together, one by one
        curve = claim.by.curve(resample(claim.run, sampling), claim.relation.of(claim.copies))
        because = tuple(one for one in curve.because if isinstance(one, Evidence))
        return ProvedBound(epsilon=curve.epsilon(claim.delta), because=because)
    if not isinstance(sampling, Poisson | WithoutReplacement):
        return _give_up("no theorem is about copies of a record under this sampling")
    reached = _reach_copies(claim, sampling)
    if isinstance(sampling, WithoutReplacement) and claim.relation is not SUBSTITUTE:
        fewer = f"without the {claim.copies:,} copies of a record the rate of the others is another"
        return _give_up(f"{fewer}. For exchanged records there is a bound", reached)
    curve = claim.by.curve(resample(claim.run, sampling), claim.relation)
    try:
        upper = bound_one_by_one(
            lambda delta: curve.epsilon(delta).upper, copies=claim.copies, delta=claim.delta
        )
    except (NoTheorem, NotPreciseEnough) as refusal:
        return _give_up(str(refusal), reached)
    because = (*reached.because, COPIES_ONE_BY_ONE)
    return ProvedBound(epsilon=Bracket(reached.epsilon, upper), because=because)


def _list_samplings(finding: Finding) -> dict[Scheme, Sampling]:
    """What the accountant would take for the indices, as far as the numbers found allow it."""
    found: dict[Scheme, Sampling] = {Scheme.EVERY_RECORD: EveryRecord()}
    if finding.rate is not None:
        found[Scheme.POISSON] = Poisson(rate=finding.rate)
    if finding.batch is not None and finding.records is not None:
        fixed = WithoutReplacement(batch=finding.batch, population=finding.records)
        found[Scheme.WITHOUT_REPLACEMENT] = fixed
    return found


def _reach_copies(claim: DrawnClaim, sampling: Poisson | WithoutReplacement) -> ReachedEpsilon:
    """The epsilon that datasets with copies reach; 0 where that is known for no such noise."""
    fixed, substitutes = isinstance(sampling, WithoutReplacement), claim.relation is SUBSTITUTE
    if not claim.largest_noise or (fixed and not substitutes and not _leaves_a_batch(claim)):
        return NOTHING_REACHED
    relation, reached = ADD_OR_REMOVE if fixed and substitutes else claim.relation, [0.0]
    if claim.copies > MOST_COUNTED:  # more copies reach no less
        with suppress(NoTheorem, NotPreciseEnough):
            some = claim.by.curve(resample(claim.run, sampling), claim.relation.of(MOST_COUNTED))
            reached.append(some.epsilon(claim.delta).lower)
    for witness in witness_copies(claim.run, sampling, copies=claim.copies):
        try:
            reached.append(claim.by.curve(witness, relation).epsilon(claim.delta).lower)
        except NotPreciseEnough:
            continue  # then less is known; what is said stays true
    return ReachedEpsilon(max(reached), (COPIES_TOGETHER,) * any(reached))


def _leaves_a_batch(claim: DrawnClaim) -> bool:
    """Whether the records besides the copies are enough for a batch of the size found."""
    return (claim.finding.batch or 0) + claim.copies <= (claim.finding.records or 0)


def _bound_copies_in_order(claim: DrawnClaim) -> ProvedBound:
    """Copies of a record in batches that share an order: they may all come in one batch of each epoch."""
    scheme = claim.finding.scheme
    reached = reach_shuffle(claim) if scheme is Scheme.SHUFFLE else NOTHING_REACHED
    once_per_epoch = (Scheme.SHUFFLE, Scheme.FIXED_PARTITION, Scheme.BALLS_IN_BINS)
    if scheme not in once_per_epoch or (
        claim.relation is not SUBSTITUTE and scheme is not Scheme.BALLS_IN_BINS
    ):
        return _give_up(f"a record is there {claim.copies:,} times, which no theorem here covers", reached)
    together = reveal_visits(move_together(claim.run, copies=claim.copies), visits=claim.visits)
    return _conclude(claim, reached, claim.bound(together).upper)


def _conclude(
    claim: DrawnClaim,
    reached: ReachedEpsilon,
    upper: float,
    above: tuple[Evidence, ...] = (REVEALED_BATCHES,),
) -> ProvedBound:
    finding = claim.finding
    assumed = []
    if finding.epoch is not None and claim.epochs is None:
        assumed.append(WHOLE_PASSES)
    if finding.scheme is Scheme.WEIGHTED:
        assumed.append("the weights do not depend on the records")
    if finding.how is How.WATCHED:
        assumed.append("the order does not depend on what the records hold")
    if finding.scheme is Scheme.SHUFFLE and claim.relation is not SUBSTITUTE and _uses_every_record(finding):
        assumed.append(NOT_ITS_OWN_SIZE)
    because = (*reached.because, *above)
    return ProvedBound(
        epsilon=Bracket(reached.epsilon, upper), because=because, provided=" and ".join(assumed)
    )


def _uses_every_record(finding: Finding) -> bool:
    """Whether the last batch of an epoch would be smaller with a record fewer, as far as is known."""
    if finding.records is None or finding.batch is None or finding.epoch is None:
        return True
    return finding.batch * finding.epoch >= finding.records


def _give_up(why_not: str, reached: ReachedEpsilon = NOTHING_REACHED) -> ProvedBound:
    because, why_not = reached.because, why_not.removesuffix(".")
    return ProvedBound(epsilon=Bracket(reached.epsilon, math.inf), because=because, why_not=why_not)


def _another_cut(claim: DrawnClaim) -> str:
    if claim.finding.how is How.WATCHED:
        return (
            "batches do not tell how a dataset of one record fewer would be cut, so there is a bound for "
            "exchanged records only; inspecting the loader may tell more"
        )
    changes = "with one record fewer this loader would change more than one slot of an epoch"
    return f"{changes}. For exchanged records there is a bound"
