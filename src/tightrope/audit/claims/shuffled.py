"""A plan whose batches are shuffled and cut, as most loaders do, instead of drawn as it says."""

import math
from functools import partial

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.audit.claims.prove import prove_bound
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.training import Training, check_plan
from tightrope.theorems.other_batchings import LARGEST_SUM

UNAMPLIFIED = (
    "above, nothing is proved to be gained by the shuffle; below, neighbours are told apart by the largest "
    "sum of each whole epoch"
)
REACHED_BY = (
    "D = (-1, ..., -1, 1) and a neighbour whose records are all -1, told apart by the largest sum of each "
    "epoch (largest_sum)"
)


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
    sum of each whole epoch tells real neighbours apart.

    >>> import tightrope as tr
    >>> plan = tr.Training(records=50_000, batch=50, epochs=10, sampling=tr.Poisson)
    >>> print(tr.epsilon(plan.run(noise_multiplier=0.8), delta=1e-6, relation=tr.SUBSTITUTE))
    [1.3250..., 1.3250...]
    >>> print(tr.epsilon_if_shuffled(plan, noise_multiplier=0.8, delta=1e-6, relation=tr.SUBSTITUTE))
    [14.0, 68.1]
    """
    step, finding = check_plan(plan).step(mechanism, noise_multiplier=noise_multiplier), declare_shuffle(plan)
    begun, whole = math.ceil(plan.exact_epochs), math.floor(plan.exact_epochs)
    prove = partial(prove_bound, finding=finding, delta=delta, relation=relation, by=by)
    bound = prove(step * count_shuffled_steps(plan), epochs=begun)
    # an epoch that is broken off adds to what the whole epochs before it tell
    told = prove(step * (whole * batches_of(plan)), epochs=whole) if 0 < whole < begun else bound
    lower, upper = max(bound.epsilon.lower, told.epsilon.lower), bound.epsilon.upper
    because = tuple(theorem for theorem in bound.because if theorem is not LARGEST_SUM)
    apart = Bracket(lower, upper).relative_width
    return Bracket(
        lower,
        upper,
        decided_by=Decision(because, REACHED_BY if lower else "", as_relation(relation).name),
        gap=Gap(apart, by.accuracy, bound.why_not or UNAMPLIFIED) if apart > by.accuracy else None,
        conditions=(bound.provided,) if bound.provided else (),
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
