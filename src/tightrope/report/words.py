"""Settings in the words a reader types and reads."""

from fractions import Fraction
from typing import assert_never

from tightrope.setting.given import as_given
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.plain import spell as spell  # readers of words find it here too
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement


def mechanism_in_words(mechanism: Mechanism) -> str:
    """Say what noise one step adds, with its parameter.

    >>> mechanism_in_words(Gaussian(noise_multiplier=0.8))
    'gaussian, noise multiplier 0.8 (noise scale / C, where C bounds the norm of a record)'
    """
    match mechanism:
        case Gaussian() | Laplace():
            bounds = "the norm" if isinstance(mechanism, Gaussian) else "the size"
            noise = write_given(mechanism, "noise_multiplier")
            scale = f"(noise scale / C, where C bounds {bounds} of a record)"
            return f"{spell(type(mechanism))}, noise multiplier {noise} {scale}"
        case RandomizedResponse():
            truth = write_given(mechanism, "truth_probability")
            return f"randomized-response, the true bit is reported with probability {truth}"
        case Finite():
            return f"finite, {len(mechanism.observed)} outputs with given probabilities"
    assert_never(mechanism)


def sampling_in_words(sampling: Sampling) -> str:
    """Say how the batch of one step is assumed to be drawn.

    >>> sampling_in_words(Poisson(rate=0.001))
    'poisson, each record joins each batch independently with probability 0.001'
    """
    match sampling:
        case EveryRecord():
            return "every-record, all records take part in every step"
        case Poisson():
            rate = write_given(sampling, "rate")
            return f"poisson, each record joins each batch independently with probability {rate}"
        case WithoutReplacement():
            size = f"exactly {sampling.batch} of {sampling.population} records"
            counted = "(under add and remove the larger neighbour is counted)"
            return f"without-replacement, each batch is {size}, drawn afresh {counted}"
    assert_never(sampling)


def relation_in_words(relation: Relation) -> str:
    """Say who counts as a neighbour.

    >>> from tightrope import REMOVE
    >>> relation_in_words(REMOVE)
    "remove, D' has one record fewer than D"
    """
    return f"{spell(relation)}, {relation.meaning}"


def run_in_short(run: Run) -> str:
    """Name steps and noise on one line, for titles.

    >>> from tightrope import Step
    >>> run_in_short(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10_000)
    '10,000 steps of Gaussian noise, multiplier 0.8'
    """
    return (
        " and ".join(
            f"{times:,} step{'s' * (times != 1)} of {_mechanism_in_short(step.mechanism)}"
            for step, times in run
        )
        or "no steps"
    )


def assumed_in_short(run: Run, relation: Relation) -> str:
    """Name sampling and relation on one line, for titles.

    >>> from tightrope import REMOVE, Step
    >>> assumed_in_short(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10_000, REMOVE)
    'sampling: Poisson, rate 0.001;  relation: remove'
    """
    samplings = dict.fromkeys(_sampling_in_short(step.sampling) for step, _ in run)
    return f"sampling: {' and '.join(samplings) or 'none'};  relation: {spell(relation)}"


def write_given(setting: Mechanism | Sampling, name: str) -> str:
    """A number of a setting as it was given, with all its digits.

    >>> write_given(Poisson(rate=0.1), "rate")
    '0.1'
    """
    given = as_given(setting, name)
    return str(given) if isinstance(given, Fraction) else repr(given)


def _mechanism_in_short(mechanism: Mechanism) -> str:
    match mechanism:
        case Gaussian() | Laplace():
            noise = write_given(mechanism, "noise_multiplier").removesuffix(".0")
            return f"{type(mechanism).__name__} noise, multiplier {noise}"
        case RandomizedResponse():
            return f"randomized response, truth {write_given(mechanism, 'truth_probability')}"
        case Finite():
            return f"a mechanism with {len(mechanism.observed)} outputs"
    assert_never(mechanism)


def _sampling_in_short(sampling: Sampling) -> str:
    match sampling:
        case EveryRecord():
            return "every record"
        case Poisson():
            return f"Poisson, rate {write_given(sampling, 'rate')}"
        case WithoutReplacement():
            return f"without replacement, {sampling.batch:,} of {sampling.population:,}"
    assert_never(sampling)
