"""Poisson sampling with a cap: where more others were drawn than fit, a record that joins pushes one out."""

from fractions import Fraction

from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import LEAST_RATE, EveryRecord, Poisson, TruncatedPoisson
from tightrope.theorems.table import theorem
from tightrope.theorems.worst_pairs import StepLaws, step_laws, sum_moves_by

REFERENCE = "proof note; the label is that of Ganesh 2025"
PROOF = "proofs/truncated_poisson.md"


def chance_of_truncation(sampling: TruncatedPoisson) -> tuple[Fraction, Fraction]:
    """Bounds on the probability that `at_most` or more of the other records are drawn.

    Otherwise the batch is not truncated, with the differing record or without it.
    """
    from tightrope.theorems.binomials import enclose_upper_tail  # and balls: other questions need neither

    return enclose_upper_tail(sampling.population - 1, sampling.exact_rate, sampling.at_most)


def participation_rate(sampling: TruncatedPoisson) -> Fraction:
    """At most the probability that a record is drawn and kept; 0 where that is next to nothing.

    With m - 1 others it is kept with probability min(1, B / m), and rate / m times the chance of m - 1 others
    is that of m records in all over the population n: g P(C < B) + (B / n) P(Bin(n, g) > B).
    """
    from tightrope.theorems.binomials import enclose_upper_tail  # loads flint

    most, population, rate = sampling.at_most, sampling.population, sampling.exact_rate
    fits = rate * (1 - chance_of_truncation(sampling)[1])
    is_kept = Fraction(most, population) * enclose_upper_tail(population, rate, most + 1)[0]
    found = Fraction(float(fits + is_kept) * (1 - 2.0**-50))  # short fractions are quick to work with
    return found if found > 2 * LEAST_RATE else Fraction(0)


def _label(sampling: TruncatedPoisson, fits: Pair, is_full: Pair) -> Pair:
    """`fits` where the batch had room, `is_full` where it need not have had."""
    chance = chance_of_truncation(sampling)[1]
    return LabelledPair(((1 - chance, fits), (chance, is_full))) if chance < 1 else is_full


def _untruncated(step: Step, relation: Relation) -> StepLaws:
    return step_laws(step.mechanism, Poisson(rate=step.sampling.exact_rate), relation)


def _without_others(step: Step, relation: Relation) -> StepLaws:
    """The laws of a step in which the other records are 0, so that only taking part counts."""
    assert isinstance(step.sampling, TruncatedPoisson)
    distance = sum_moves_by(EveryRecord(), relation)
    return StepLaws(step.mechanism, distance, participation_rate(step.sampling))


@theorem(
    mechanisms=(Gaussian,),
    sampling=TruncatedPoisson,
    relation=REMOVE,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
    reached=lambda step: _without_others(step, REMOVE).remove(),
)
def truncated_poisson_remove(step: Step) -> Pair:
    """While a batch has room for all, the pair is that of {Poisson} sampling, else ((1-g)N(0)+gN(2), N(0)).

    The output may tell which: a record that joins a full batch pushes another out.
    """
    assert isinstance(step.sampling, TruncatedPoisson)
    full = step_laws(step.mechanism, step.sampling, REMOVE)
    return _label(step.sampling, _untruncated(step, REMOVE).remove(), full.remove())


@theorem(
    mechanisms=(Gaussian,),
    sampling=TruncatedPoisson,
    relation=ADD,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
    reached=lambda step: _without_others(step, ADD).add(),
)
def truncated_poisson_add(step: Step) -> Pair:
    """While a batch has room for all, the pair is that of {Poisson} sampling, else (N(0), (1-g)N(0)+gN(2)).

    The output may tell which: a record that joins a full batch pushes another out.
    """
    assert isinstance(step.sampling, TruncatedPoisson)
    full = step_laws(step.mechanism, step.sampling, ADD)
    return _label(step.sampling, _untruncated(step, ADD).add(), full.add())


@theorem(
    mechanisms=(Gaussian,),
    sampling=TruncatedPoisson,
    relation=SUBSTITUTE,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0, -1)",
    reached=lambda step: _without_others(step, SUBSTITUTE).exchange(),
)
def truncated_poisson_substitute(step: Step) -> Pair:
    """While a batch has room for all, the pair is that of {Poisson} sampling, else the envelope.

    The output may tell which: in a full batch the exchanged record may have pushed another out.
    """
    assert isinstance(step.sampling, TruncatedPoisson)
    full = step_laws(step.mechanism, step.sampling, SUBSTITUTE).remove()
    if step.sampling.exact_rate == 1:  # a mixture of one
        return full
    return _label(step.sampling, _untruncated(step, SUBSTITUTE).exchange(), full.envelope)
