"""A plan whose batches are shuffled and cut, as most loaders do, instead of drawn as it says."""

import math
from dataclasses import replace

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.audit.claims.drawn import DrawnClaim
from tightrope.audit.claims.prove import prove_claim
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.numerics import check
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.training import Training, check_plan
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
    be smaller. Under ADD and REMOVE the records are those of the larger neighbour. Both ends are certified,
    and far apart, which `gap` explains: from above nothing is gained by the shuffle, from below the largest
    sum of each whole epoch tells real neighbours apart, and under SUBSTITUTE all batches of each epoch do.

    >>> import tightrope as tr
    >>> plan = tr.Training(records=50_000, batch=50, epochs=10, sampling=tr.Poisson)
    >>> print(tr.epsilon(plan.run(noise_multiplier=0.8), delta=1e-6, relation=tr.SUBSTITUTE))
    [1.3250..., 1.3250...]
    >>> print(tr.epsilon_if_shuffled(plan, noise_multiplier=0.8, delta=1e-6, relation=tr.SUBSTITUTE))
    [14.1, 68.1]
    """
    step, finding = check_plan(plan).step(mechanism, noise_multiplier=noise_multiplier), declare_shuffle(plan)
    claim = DrawnClaim(
        run=step * count_shuffled_steps(plan),
        finding=finding,
        delta=check.open_probability(delta=delta),
        relation=as_relation(relation),
        by=check_certified(by),
        epochs=math.ceil(plan.exact_epochs),
        planned=True,
    )
    bound = prove_claim(claim)
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
    records, batch, epoch = plan.records, plan.batch, batches_of(plan)
    last = records - (epoch - 1) * batch
    smaller = f" (the last has {last:,})" if last < batch else ""
    cut = f"cut into {epoch:,} batch{'es' * (epoch != 1)} of {batch:,}{smaller}"
    return Finding(
        scheme=Scheme.SHUFFLE,
        how=How.DECLARED,
        sentence=f"The {records:,} records are shuffled in every epoch and {cut}.",
        records=records,
        batch=batch,
        epoch=epoch,
        full=records // batch,
        removal_changes_one_slot=-(-(records - 1) // batch) == epoch,
        reshuffles=True,
    )


def batches_of(plan: Training) -> int:
    """How many batches a shuffled epoch has: the last one may be smaller."""
    return -(-plan.records // plan.batch)


def count_shuffled_steps(plan: Training) -> int:
    """The steps of the epochs of a shuffle, rounded up."""
    return math.ceil(plan.exact_epochs * batches_of(plan))
