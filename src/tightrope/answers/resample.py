"""The same rate under another sampling."""

import math
from fractions import Fraction

from tightrope.errors import NoTheorem
from tightrope.numerics.text import write_number
from tightrope.setting.given import as_given
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import (
    MOST_BATCHES,
    MOST_RECORDS,
    BallsInBins,
    EveryRecord,
    Poisson,
    Sampling,
    WithoutReplacement,
)

AT_ANY_RATE: tuple[type[Sampling], ...] = (Poisson, WithoutReplacement, BallsInBins, EveryRecord)


def resample_run(run: Run, kind: type[Sampling]) -> Run:
    """The same noise and as many steps, each on a batch of this kind at the rate it had."""
    drawn = tuple((Step(step.mechanism, resample(step.sampling, kind)), times) for step, times in run)
    return type(run)(drawn)


def resample(sampling: Sampling, kind: type[Sampling]) -> Sampling:
    """A sampling of this kind at the rate of another; NoTheorem where a rate does not say all about it.

    >>> resample(Poisson(rate=0.003), WithoutReplacement), resample(Poisson(rate=0.003), BallsInBins)
    (WithoutReplacement(batch=3, population=1000), BallsInBins(batches=334))
    """
    if isinstance(sampling, kind):
        return sampling
    if kind is EveryRecord:
        return EveryRecord()
    if kind is Poisson:
        return Poisson(rate=sampling.exact_rate)
    exact, rate = rate_meant(sampling), write_number(sampling.rate)
    if kind is WithoutReplacement:
        if exact.denominator > MOST_RECORDS:
            raise NoTheorem(f"a batch at the rate {rate} is one of too many records", "")
        return WithoutReplacement(batch=exact.numerator, population=exact.denominator)
    if kind is BallsInBins:
        if exact * MOST_BATCHES < 1:
            raise NoTheorem(f"a pass at the rate {rate} has too many batches", "")
        return BallsInBins(batches=math.ceil(1 / exact))
    raise NoTheorem(f"{kind.spelling} says more about its batches than the rate {rate}", "")


def tell_rounded_batches(run: Run) -> list[str]:
    """How many bins a pass has, where no whole number of them has the rate of a step."""
    return [
        f"In balls in bins each record takes one of {math.ceil(1 / exact):,} batches: "
        f"1 / {write_number(float(exact))}, rounded up."
        for exact in dict.fromkeys(rate_meant(step.sampling) for step, _ in run)
        if exact.numerator > 1 and exact * MOST_BATCHES >= 1
    ]


def rate_meant(sampling: Sampling) -> Fraction:
    """The fraction the user meant: 0.001 is 1/1000, not the nearest binary fraction."""
    given = as_given(sampling, "rate")
    return given if isinstance(given, Fraction) else Fraction(repr(given))
