"""From a target (epsilon, delta) to how large batches may be, or how few in a pass."""

import math
from dataclasses import replace
from fractions import Fraction

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.calibrate import Calibration, find_best, need_value
from tightrope.answers.target import NOTHING, Target
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, NoTheorem
from tightrope.numerics import check
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS, Run, Step, check_steps
from tightrope.setting.sampling import (
    MOST_BATCHES,
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.setting.training import Training, as_sampling_kind, as_typed, count_steps
from tightrope.setting.trials import TrialLaw
from tightrope.theorems.lookup import analyse


def largest_batch(
    mechanism: Mechanism,
    *,
    population: int,
    steps: int | None = None,
    epochs: float | Fraction | None = None,
    sampling: type[Poisson] | type[WithoutReplacement] | type[BallsInBins] | str = WithoutReplacement,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    trials: TrialLaw | str | int | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[int]:
    """The largest batch with which a run and `besides` are (epsilon, delta)-private.

    The run takes `steps` steps, or those of `epochs` epochs: then a larger batch takes fewer, and as their
    number is rounded up, some batch beyond one that misses may still meet the target. Batches are drawn
    without replacement, or hold so many records on average: by Poisson sampling or by balls in bins, of which
    a pass has population / batch, rounded up. `trials` are those of `smallest_noise`.

    >>> import tightrope as tr
    >>> target = {"epsilon": 2, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    >>> noise = tr.Gaussian(noise_multiplier=2)
    >>> found = tr.largest_batch(noise, population=60_000, steps=10_000, **target)
    >>> found.value, found.beyond
    (197, 198)
    >>> found = tr.largest_batch(noise, population=60_000, epochs=30, sampling=tr.Poisson, **target)
    >>> found.value, found.run.steps
    (1334, 1350)
    """
    size, kind = check.whole(least=1, population=population), _check_batched(sampling)
    steps = _check_length(steps, epochs)
    target = Target.check(epsilon, delta, relation, besides, by, progress, trials)

    def run(batch: int) -> Run:
        plan = Training(records=size, batch=batch, epochs=1 if epochs is None else epochs, sampling=kind)
        return plan.step(mechanism) * (plan.steps if steps is None else steps)

    remedy = "Add noise, train for fewer steps, or accept a larger {epsilon} or {delta}."
    if kind is BallsInBins:
        bins = find_best(
            "batches",
            target,
            lambda bins: run(_largest_of(size, bins)),
            min(1000, size),
            safest=size,
            riskiest=1,
        )
        return _in_records(need_value(bins, target, f"a batch of 1 out of {size}", remedy, limit=0.0), size)
    largest = size
    try:
        analyse(run(size), target.relation, QUICK)
    except NoTheorem:  # a batch that holds everybody has no room for a neighbour's record
        largest = size - 1
        if not largest:
            raise
    found = find_best("batch", target, run, max(largest // 1000, 1), safest=1, riskiest=largest)
    return need_value(found, target, f"a batch of 1 out of {size}", remedy, limit=0.0)


def fewest_batches(
    mechanism: Mechanism,
    *,
    steps: int | None = None,
    epochs: float | Fraction | None = None,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    trials: TrialLaw | str | int | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[int]:
    """How few batches a pass of balls in bins may have, for a run and `besides` within (epsilon, delta).

    Fewer batches are larger ones. The run takes `epochs` passes, or `steps` steps. Where the steps of epochs
    are rounded up, fewer batches than some that miss may still meet the target. `trials` are those of
    `smallest_noise`.

    >>> import tightrope as tr
    >>> noise = tr.Gaussian(noise_multiplier=1)
    >>> found = tr.fewest_batches(noise, epochs=10, epsilon=2, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    >>> found.value, found.beyond, found.run.steps
    (76, 75, 760)
    """
    steps = _check_length(steps, epochs)
    target = Target.check(epsilon, delta, relation, besides, by, progress, trials)
    passes = None
    if epochs is not None:
        check.positive(remedy="Pass how often the training goes through the dataset.", epochs=epochs)
        passes = as_typed(epochs)

    def run(batches: int) -> Run:
        sampling = BallsInBins(batches=batches)
        if passes is None:
            assert steps is not None
            return Step(mechanism, sampling) * steps
        return Step(mechanism, sampling) * count_steps(passes, sampling)

    most = MOST_BATCHES if passes is None else min(MOST_BATCHES, int(MOST_STEPS / passes))
    if not most:
        raise InvalidSetting("epochs", epochs, f"take at most {MOST_STEPS:.0e} steps", "Pass fewer epochs.")
    found = find_best("batches", target, run, min(1000, most), safest=most, riskiest=1)
    remedy = "Add noise, train for fewer epochs, or accept a larger {epsilon} or {delta}."
    return need_value(found, target, f"a pass of {most:,} batch{'es' * (most > 1)}", remedy, limit=math.inf)


def _check_batched(sampling: object) -> type[Sampling]:
    """The kind of a sampling whose batches can be as large as one likes."""
    kind, must = as_sampling_kind(sampling), "be {Poisson}, {WithoutReplacement} or {BallsInBins}"
    if kind is EveryRecord:
        raise InvalidSetting("sampling", sampling, must, "A full batch is as large as the dataset.")
    if kind is Shuffled:
        remedy = "A shuffle of another size is cut anew: state {records} and {batch}, and ask for {epsilon}."
        raise InvalidSetting("sampling", sampling, must, remedy)
    if kind in (RandomAllocation, TruncatedPoisson):
        more = "batches a record takes" if kind is RandomAllocation else "records a batch keeps"
        remedy = f"How many {more} is a choice of its own: state both, and ask for {{epsilon}}."
        raise InvalidSetting("sampling", sampling, must, remedy)
    return kind


def _check_length(steps: int | None, epochs: float | Fraction | None) -> int | None:
    """The steps, or None where epochs are stated."""
    if (steps is None) == (epochs is None):
        remedy = "Pass how many steps are taken, or how many epochs."
        raise InvalidSetting("steps", steps, "be stated, or {epochs}, and not both", remedy)
    if steps is None:
        return None
    return check_steps(steps, least=1, remedy="Without steps every batch is fine.")


def _largest_of(records: int, batches: int) -> int:
    """The largest batch of which a pass over so many records has at least so many.

    >>> [_largest_of(10, batches) for batches in (1, 2, 3, 4, 5, 10)]
    [10, 9, 4, 3, 2, 1]
    """
    return records if batches == 1 else -(-records // (batches - 1)) - 1


def _in_records(found: Calibration[int], records: int) -> Calibration[int]:
    """The size of batches in place of their number; the smallest of all that are as many as those beyond."""
    beyond = found.beyond
    if beyond is not None:
        beyond = -(-records // -(-records // _largest_of(records, beyond)))
    return replace(found, parameter="batch", value=_largest_of(records, found.value), beyond=beyond)
