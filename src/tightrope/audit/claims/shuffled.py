"""A plan whose batches are shuffled and cut, as most loaders do, instead of drawn as it says."""

import math
from dataclasses import replace
from functools import partial

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.audit.claims.prove import ProvedBound, prove_bound
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.training import Training

REMEDY = "Write for example Training(records=60_000, batch=256, epochs=30, sampling=Poisson)."


def epsilon_if_shuffled(
    plan: Training,
    mechanism: Mechanism | None = None,
    *,
    delta: float,
    relation: Relation | str,
    noise_multiplier: float | None = None,
    by: Certified = BY_DEFAULT,
) -> ProvedBound:
    """What is proved about epsilon if the batches of `plan` are shuffled and cut.

    An epoch is a fresh secret order of all records, cut into ceil(records / batch) batches; only the last may
    be smaller. Both ends are certified, and far apart: from above nothing is gained by the shuffle, from
    below the largest sum of each whole epoch tells real neighbours apart.

    >>> import tightrope as tr
    >>> plan = tr.Training(records=50_000, batch=50, epochs=10, sampling=tr.Poisson)
    >>> print(tr.epsilon(plan.run(noise_multiplier=0.8), delta=1e-6, relation=tr.SUBSTITUTE))
    [1.3250..., 1.3250...]
    >>> print(tr.epsilon_if_shuffled(plan, noise_multiplier=0.8, delta=1e-6, relation=tr.SUBSTITUTE).epsilon)
    [14.0, 68.1]
    """
    if not isinstance(plan, Training):
        raise InvalidSetting("plan", plan, "be a Training", REMEDY)
    step, finding = plan.step(mechanism, noise_multiplier=noise_multiplier), declare_shuffle(plan)
    begun, whole = math.ceil(plan.exact_epochs), math.floor(plan.exact_epochs)
    prove = partial(prove_bound, finding=finding, delta=delta, relation=relation, by=by)
    bound = prove(step * count_shuffled_steps(plan), epochs=begun)
    if not whole or begun == whole:
        return bound
    # an epoch that is broken off adds to what its whole epochs tell
    reached = prove(step * (whole * batches_of(plan)), epochs=whole)
    lower = max(bound.epsilon.lower, reached.epsilon.lower)
    because = tuple(dict.fromkeys((*reached.because, *bound.because)))
    return replace(bound, epsilon=Bracket(lower, bound.epsilon.upper), because=because)


def declare_shuffle(plan: Training) -> Finding:
    """What a loader that shuffles and cuts runs, nobody having looked at it."""
    records, batch, epoch = plan.records, plan.batch, batches_of(plan)
    cut = f"cut into {epoch:,} batches of {batch:,}"
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
