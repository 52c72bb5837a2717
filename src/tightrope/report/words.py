"""Settings in the words a reader types and reads."""

from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from tightrope.numerics.text import write_number
from tightrope.setting.given import as_given
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.plain import spell as spell  # readers of words find it here too
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.setting.trials import FixedTrials, NegativeBinomialTrials, PoissonTrials, TrialLaw

_KINDS: dict[type[Sampling], str] = {
    EveryRecord: "full batches",
    Poisson: "Poisson sampling",
    WithoutReplacement: "sampling without replacement",
    TruncatedPoisson: "truncated Poisson sampling",
    BallsInBins: "balls in bins",
    RandomAllocation: "random allocation",
    Shuffled: "shuffled batches",
}
_CHANGES = {
    ADD: ("add one record", "add up to {} records"),
    REMOVE: ("remove one record", "remove up to {} records"),
    ADD_OR_REMOVE: ("add or remove one record", "add or remove up to {} records"),
    SUBSTITUTE: ("exchange one record for another", "exchange up to {} records for others"),
}


def trials_in_words(trials: TrialLaw) -> str:
    """What is published of how many runs.

    >>> from tightrope import GeometricTrials, NegativeBinomialTrials
    >>> trials_in_words(GeometricTrials(mean=20))
    'the best of a geometric number of runs, 20 on average'
    >>> trials_in_words(NegativeBinomialTrials(eta=0.5, mean=20))
    'the best of a negative binomial number of runs (eta 0.5), 20 on average'
    """
    if isinstance(trials, FixedTrials):
        return f"the best of {trials.number:,} runs, all of which count" if trials.number > 1 else "one run"
    kind = "Poisson" if isinstance(trials, PoissonTrials) else trials.spelling.replace("-", " ")
    spread = f" (eta {trials.eta:g})" if isinstance(trials, NegativeBinomialTrials) else ""
    return f"the best of a {kind} number of runs{spread}, {trials.expected:.6g} on average"


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


def sampling_in_words(sampling: Sampling, relation: Relation | None = None) -> str:
    """Say how the batch of one step is assumed to be drawn, to one who knows the relation or does not.

    >>> sampling_in_words(Poisson(rate=0.001))
    'poisson, each record joins each batch independently with probability 0.001'
    """
    return f"{spell(type(sampling))}, {batches_in_words(sampling, relation)}"


def batches_in_words(sampling: Sampling, relation: Relation | None = None) -> str:
    """Say which records are in a batch, to one who knows the relation or to one who does not.

    >>> batches_in_words(EveryRecord())
    'all records take part in every step'
    """
    is_exchange = relation is not None and relation.single is SUBSTITUTE
    match sampling:
        case EveryRecord():
            return "all records take part in every step"
        case Poisson():
            rate = write_given(sampling, "rate")
            return f"each record joins each batch independently with probability {rate}"
        case WithoutReplacement():
            size = f"exactly {sampling.batch:,} of {sampling.population:,} records"
            counted = " (under add and remove the larger neighbour is counted)"
            return f"each batch is {size}, drawn afresh{counted * (not is_exchange)}"
        case TruncatedPoisson():
            joins = f"each of {sampling.population:,} records joins each batch"
            drawn = f"independently with probability {write_given(sampling, 'rate')}"
            return f"{joins} {drawn}, and a batch keeps at most {sampling.at_most:,}"
        case BallsInBins():
            return f"in each pass each record takes one of {sampling.batches:,} batches at random"
        case RandomAllocation():
            taken = f"{sampling.chosen:,} of {sampling.batches:,} batches"
            return f"in each pass each record takes {taken} at random"
        case Shuffled():
            size = f" of {sampling.batch:,}" if sampling.batch else " of one size"
            last = f" (the last has {sampling.last:,})" if sampling.last != sampling.batch else ""
            left, batches = sampling.left_over, sampling.batches
            rest = f", {left:,} record{'s' * (left != 1)} in none of them" * bool(left)
            cut = f"{batches:,} batch{'es' * (batches != 1)}{size}{last}{rest}"
            counted = "; under add and remove the larger neighbour is counted, both have as many batches"
            counted += ", and no sum is divided by the size of a smaller last batch"
            shuffled = f"in each epoch all records are shuffled and cut into {cut}"
            return f"{shuffled}{counted * (not is_exchange)}"
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
        " and ".join(f"{write_steps(times)} of {mechanism_in_short(step.mechanism)}" for step, times in run)
        or "no steps"
    )


def run_in_words(run: Run, relation: Relation | None = None) -> str:
    """Say in one sentence what is run, with every number.

    >>> from tightrope import Step
    >>> run_in_words(Step(Gaussian(noise_multiplier=0.8), EveryRecord()) * 2)
    '2 steps of Gaussian noise, multiplier 0.8; all records take part in every step'
    """
    batches = dict.fromkeys(batches_in_words(step.sampling, relation) for step, _ in run)
    return "; ".join([run_in_short(run), *batches])


def assumed_in_short(run: Run, relation: Relation) -> str:
    """Name sampling and relation on one line, for titles.

    >>> from tightrope import REMOVE, Step
    >>> assumed_in_short(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10_000, REMOVE)
    'sampling: Poisson, rate 0.001;  relation: remove'
    """
    samplings = dict.fromkeys(_sampling_in_short(step.sampling) for step, _ in run)
    return f"sampling: {' and '.join(samplings) or 'none'};  relation: {spell(relation)}"


def assumed_in_words(samplings: Iterable[Sampling], relation: Relation) -> str:
    """Say in a few words how batches are drawn and what neighbours differ in: an answer ends with them.

    >>> from tightrope import ADD_OR_REMOVE
    >>> assumed_in_words([Poisson(rate=0.001)], ADD_OR_REMOVE)
    'Poisson sampling, add or remove one record'
    """
    kinds = dict.fromkeys(type(sampling) for sampling in samplings)
    drawn = " and ".join(_KINDS.get(kind, spell(kind).replace("-", " ")) for kind in kinds)
    one, many = _CHANGES[relation.single]
    changed = one if relation.group == 1 else many.format(f"{relation.group:,}")
    return ", ".join(filter(None, (drawn, changed)))


def write_steps(steps: int) -> str:
    """So many steps.

    >>> write_steps(1), write_steps(10_000)
    ('1 step', '10,000 steps')
    """
    return f"{steps:,} step{'s' * (steps != 1)}"


def write_epochs(epochs: float | Fraction) -> str:
    """So many epochs.

    >>> write_epochs(1), write_epochs(2.5)
    ('1 epoch', '2.5 epochs')
    """
    return f"{write_number(epochs)} epoch{'s' * (epochs != 1)}"


def write_given(setting: Mechanism | Sampling, name: str) -> str:
    """A number of a setting as it was given, with all its digits.

    >>> write_given(Poisson(rate=0.1), "rate")
    '0.1'
    """
    given = as_given(setting, name)
    return str(given) if isinstance(given, Fraction) else repr(given)


def mechanism_in_short(mechanism: Mechanism) -> str:
    """Name the noise of one step, for titles.

    >>> mechanism_in_short(Laplace(noise_multiplier=2))
    'Laplace noise, multiplier 2'
    """
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
        case TruncatedPoisson():
            return f"Poisson, rate {write_given(sampling, 'rate')}, at most {sampling.at_most:,}"
        case BallsInBins():
            return f"balls in bins, {sampling.batches:,} batches"
        case RandomAllocation():
            return f"random allocation, {sampling.chosen:,} of {sampling.batches:,} batches"
        case Shuffled():
            size = f" of {sampling.batch:,}" if sampling.batch else ""
            return f"shuffled, {sampling.batches:,} batches{size}"
    assert_never(sampling)
