"""A plan whose batches are shuffled and cut, as most loaders do, instead of drawn as it says."""

from dataclasses import replace

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.audit.claims.drawn import DrawnClaim
from tightrope.audit.claims.epochs import may_tell_more
from tightrope.audit.claims.prove import prove_claim
from tightrope.audit.claims.reach import ReachedEpsilon, reach_shuffle
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.errors import NoTheorem
from tightrope.numerics import check
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import SUBSTITUTE, Relation, as_relation, need_one_record
from tightrope.setting.run import Step
from tightrope.setting.sampling import Shuffled
from tightrope.setting.training import Training, check_plan, count_steps
from tightrope.theorems.other_batchings import ALLOCATION_AT_HALF_NOISE, LARGEST_SUM

UNAMPLIFIED = "above, nothing is proved to be gained by the shuffle; below, neighbours are told apart by {}"
LOOKED_AT = {
    LARGEST_SUM: "the largest sum of each whole epoch",
    ALLOCATION_AT_HALF_NOISE: "all batches, where the other records are alike and no query is adaptive",
}
REACHED_BY = {
    LARGEST_SUM: "D = (-1, ..., -1, 1) and a neighbour whose records are all -1, told apart by the largest "
    "sum of each epoch (largest_sum)",
    ALLOCATION_AT_HALF_NOISE: "D = (-1, ..., -1, 1) and D' = (-1, ..., -1), told apart by all batches of "
    "each epoch (allocation_at_half_noise)",
}


def epsilon_if_shuffled(
    plan: Training,
    mechanism: Mechanism | None = None,
    *,
    delta: float,
    relation: Relation | str,
    noise_multiplier: float | None = None,
    by: Certified = BY_DEFAULT,
) -> Bracket:
    """What is proved about epsilon if the batches of `plan` are shuffled and cut.

    An epoch is a fresh secret order of all records, cut into ceil(records / batch) batches; only the last may
    be smaller. The upper end is what `epsilon` says of a run with `Shuffled` sampling; with little noise the
    lower end may be larger under SUBSTITUTE, by the largest sum of each epoch. Under ADD and REMOVE the
    records are those of the larger neighbour, and no sum is divided by the size of a smaller last batch.
    Where no theorem is about such batches, for noise other than Gaussian, nothing is gained by the shuffle.

    >>> import tightrope as tr
    >>> plan = tr.Training(records=100_000, batch=1000, epochs=1, sampling=tr.Poisson)
    >>> print(tr.epsilon(plan.run(noise_multiplier=4), delta=1e-6, relation=tr.SUBSTITUTE))
    [0.1895107..., 0.1895107...]
    >>> print(tr.epsilon_if_shuffled(plan, noise_multiplier=4, delta=1e-6, relation=tr.SUBSTITUTE))
    [0.204, 0.277]
    """
    step = check_plan(plan).step(mechanism, noise_multiplier=noise_multiplier)
    run = Step(step.mechanism, shuffle(plan)) * count_shuffled_steps(plan)
    asked = check.open_probability(delta=delta)
    neighbours = need_one_record(as_relation(relation), "bounds for shuffled batches")
    certifies = check_certified(by)
    claim = DrawnClaim(
        run=run,
        finding=declare_shuffle(plan),
        delta=asked,
        relation=neighbours,
        by=certifies,
        epochs=-(-run.steps // shuffle(plan).batches),
        planned=True,
    )
    try:
        found = certifies.curve(run, neighbours).epsilon(asked)
    except NoTheorem:
        return _bound_unamplified(claim)
    if neighbours is not SUBSTITUTE or not may_tell_more(shuffle(plan), claim.largest_noise):
        return found
    return _raise_lower_end(found, reach_shuffle(claim), certifies.accuracy)


def shuffle(plan: Training) -> Shuffled:
    """The batches of a plan, cut from a shuffle; its own where that is its sampling.

    >>> from tightrope import Poisson
    >>> shuffle(Training(records=1000, batch=30, epochs=2, sampling=Poisson))
    Shuffled(batches=34, batch=30, last=10, left_over=0)
    """
    if isinstance(plan.sampling, Shuffled):
        return plan.sampling
    return Shuffled.cut(records=plan.records, batch=plan.batch)


def _raise_lower_end(found: Bracket, reached: ReachedEpsilon, accuracy: float) -> Bracket:
    """The bracket with the lower end that fixed datasets reach, where that is larger."""
    if not found.lower < reached.epsilon <= found.upper:
        return found
    raised = replace(found, lower=reached.epsilon)
    decision, gap = found.decided_by, found.gap
    if decision is not None:
        decision = replace(decision, reached_by=REACHED_BY[reached.because[0]])
    if gap is not None:
        apart = raised.relative_width
        gap = replace(gap, relative_width=apart) if apart > accuracy else None
    return replace(raised, decided_by=decision, gap=gap)


def _bound_unamplified(claim: DrawnClaim) -> Bracket:
    """What is proved if nothing is gained by the shuffle."""
    bound, by = prove_claim(claim), claim.by
    below = [theorem for theorem in bound.because if theorem in REACHED_BY]
    because = tuple(theorem for theorem in bound.because if theorem not in REACHED_BY)
    apart = bound.epsilon.relative_width
    looked_at = LOOKED_AT[below[0]] if below else "nothing that is known"
    why = bound.why_not or UNAMPLIFIED.format(looked_at)
    return replace(
        bound.epsilon,
        decided_by=Decision(because, REACHED_BY[below[0]] if below else "", claim.relation.name),
        gap=Gap(apart, by.accuracy, why) if apart > by.accuracy else None,
    )


def declare_shuffle(plan: Training) -> Finding:
    """What a loader that shuffles and cuts runs, as its user says."""
    sampling, records, batch = shuffle(plan), plan.records, plan.batch
    epoch, last, dropped = sampling.batches, sampling.last or batch, sampling.left_over
    smaller = f" (the last has {last:,})" if last < batch else ""
    left_out = f", which leaves {dropped:,} out" if dropped else ""
    cut = f"cut into {epoch:,} batch{'es' * (epoch != 1)} of {batch:,}{smaller}{left_out}"
    return Finding(
        scheme=Scheme.SHUFFLE,
        how=How.DECLARED,
        sentence=f"The {records:,} records are shuffled in every epoch and {cut}.",
        records=records,
        batch=batch,
        epoch=epoch,
        full=records // batch,
        removal_changes_one_slot=dropped > 0 or -(-(records - 1) // batch) == epoch,
        reshuffles=True,
    )


def count_shuffled_steps(plan: Training) -> int:
    """The steps of the epochs of a shuffle, rounded up."""
    return count_steps(plan.exact_epochs, shuffle(plan))
