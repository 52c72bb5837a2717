"""A rate that Opacus states and a finding about the loader, as the sampling to account."""

from fractions import Fraction

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.samplers import float32_rate, rate_torch_runs
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

Kind = type[Poisson] | type[WithoutReplacement]
# Relative: a rate below the one Opacus takes is on the safe side, and worth a word only from here on.
UNACCOUNTED_RATE = 0.01


def assume_sampling(kind: Kind, rate: float) -> Sampling:
    """How batches are drawn where no loader was seen."""
    if kind is Poisson:
        drawn = rate_torch_runs(rate)
        # never below the rate that was given, should torch round it down
        return Poisson(rate=max(rate, float32_rate(rate) if drawn is None else drawn))
    exact = Fraction(repr(rate))  # what was meant: 0.001 is 1/1000, not the nearest binary fraction
    return WithoutReplacement(batch=exact.numerator, population=exact.denominator)


def find_sampling(kind: Kind, rate: float, finding: Finding | None) -> Sampling | None:
    """How the steps of an entry were drawn; None where that is no sampling that can be accounted."""
    if finding is None:
        return assume_sampling(kind, rate)
    if finding.sampling is None or finding.sampling.rate == rate:
        return finding.sampling
    # recorded by hand at another rate than the loader's: the larger one is safe, if they are of one kind
    samplings = (assume_sampling(kind, rate), finding.sampling)
    return max(samplings, key=lambda s: s.exact_rate) if is_accounted(kind, finding) else None


def is_accounted(kind: Kind, finding: Finding) -> bool:
    """Whether a loader draws as an accountant of this kind takes it to draw."""
    return isinstance(finding.sampling, kind | EveryRecord)


def is_another_rate(kind: Kind, opacus_rate: float, found: float) -> bool:
    """Whether the rate that Opacus takes is not the one that was found, to a degree that matters."""
    stated = assume_sampling(kind, opacus_rate).rate
    return found > stated * (1 + 1e-9) or found < stated * (1 - UNACCOUNTED_RATE)
