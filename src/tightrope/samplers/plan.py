"""From a plan in records, batch and epochs to the sampler that draws it."""

from tightrope.errors import Described, InvalidSetting
from tightrope.samplers.allocations import BallsInBinsSampler
from tightrope.samplers.schemes import PoissonSampler, TruncatedPoissonSampler, WithoutReplacementSampler
from tightrope.setting.sampling import BallsInBins, Poisson, Shuffled, TruncatedPoisson, WithoutReplacement
from tightrope.setting.training import Training, check_plan

PlannedSampler = PoissonSampler | WithoutReplacementSampler | TruncatedPoissonSampler | BallsInBinsSampler


def sampler_of(plan: Training, *, seed: int | None = None) -> PlannedSampler:
    """The sampler whose one pass is the whole of `plan`: its records, its sampling, all of its steps.

    A pass is the plan and not an epoch, because an epoch is rarely a whole number of batches: 30 passes of
    235 batches are 7,050 steps, where noise was calibrated for 7,032. So iterate once. Every further pass
    takes as many steps again. `seed` is that of the samplers: leave it out for a release.

    >>> from tightrope import Poisson
    >>> plan = Training(records=60_000, batch=256, epochs=30, sampling=Poisson)
    >>> sampler = sampler_of(plan)
    >>> len(sampler), sampler.sampling == plan.sampling, sampler.expected_batch
    (7032, True, 256.0)
    """
    match check_plan(plan).sampling:
        case Poisson(exact_rate=rate):
            return PoissonSampler(records=plan.records, rate=rate, steps=plan.steps, seed=seed)
        case WithoutReplacement():
            return WithoutReplacementSampler(
                records=plan.records, batch=plan.batch, steps=plan.steps, seed=seed
            )
        case TruncatedPoisson(exact_rate=rate, at_most=most):
            return TruncatedPoissonSampler(
                records=plan.records, rate=rate, at_most=most, steps=plan.steps, seed=seed
            )
        case BallsInBins(batches=batches):
            return BallsInBinsSampler(records=plan.records, batches=batches, steps=plan.steps, seed=seed)
    drawn, remedy = Described(str(plan).removesuffix(".")), "Nothing is drawn at random: take every record."
    if isinstance(plan.sampling, Shuffled):
        remedy = (
            "Shuffle by torch's RandomSampler without a generator, or plan {BallsInBins}, which costs less."
        )
    raise InvalidSetting("plan", drawn, "draw its batches", remedy)
