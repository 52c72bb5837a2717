"""From a mechanism to the two output laws of one step: with and without the differing record."""

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.relation import SUBSTITUTE, Relation
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


def sum_moves_by(sampling: Sampling, relation: Relation) -> int:
    """How far, in units of C, a neighbour can move the sum of a batch that holds every differing record.

    Only this function decides it. A record that joins or leaves moves the sum by at most 1. One that takes
    another's place, because one was exchanged or a batch of fixed size was full, moves it by 2. A group moves
    it as far as all of its records together.
    """
    if relation.single is SUBSTITUTE:
        return 2 * relation.group
    match sampling:
        case WithoutReplacement() | TruncatedPoisson() | Shuffled():
            return 2 * relation.group
        case EveryRecord() | Poisson() | BallsInBins() | RandomAllocation():
            return relation.group
    assert_never(sampling)  # a new sampling must say here what a neighbour does to its batches


@dataclass(frozen=True)
class StepLaws:
    """The output of one step: without the differing record, and with it at `rate`."""

    mechanism: Mechanism
    distance: int
    rate: Fraction

    def remove(self) -> ShiftPair | FinitePair:
        """P has the record and Q has not: (mix, plain)."""
        if isinstance(self.mechanism, Gaussian | Laplace):
            plain, mixed = self._noise_laws(self.mechanism)
            return ShiftPair(mixed, plain)
        absent, mixed_masses = self._finite_laws()
        return FinitePair(mixed_masses, absent)

    def add(self) -> Pair:
        """Q has the record and P has not: (plain, mix)."""
        return self.remove().reverse

    def exchange(self) -> Pair:
        """P holds the record at +distance/2 and Q at -distance/2: (mix, mirrored mix)."""
        if not isinstance(self.mechanism, Gaussian | Laplace):
            raise TypeError("only additive noise has opposite records")
        shift = Fraction(self.distance, 2) / self.mechanism.exact_noise_multiplier
        law = Mixture(_noise(self.mechanism), self.rate, shift)
        return ShiftPair(law, law.mirrored)

    def _noise_laws(self, mechanism: Gaussian | Laplace) -> tuple[Mixture, Mixture]:
        noise = _noise(mechanism)
        return Mixture(noise), Mixture(noise, self.rate, self.distance / mechanism.exact_noise_multiplier)

    def _finite_laws(self) -> tuple[FiniteSupport, FiniteSupport]:
        if isinstance(self.mechanism, RandomizedResponse):
            truth = self.mechanism.exact_truth_probability
            absent, present = FiniteSupport((truth, 1 - truth)), FiniteSupport((1 - truth, truth))
        else:
            assert isinstance(self.mechanism, Finite)
            absent = FiniteSupport(self.mechanism.exact_observed)
            present = FiniteSupport(self.mechanism.exact_alternative)
        return absent, absent.mixed_with(present, self.rate)


def _noise(mechanism: Gaussian | Laplace) -> Noise:
    return Noise.NORMAL if isinstance(mechanism, Gaussian) else Noise.LAPLACE


def step_laws(mechanism: Mechanism, sampling: Sampling, relation: Relation) -> StepLaws:
    """The laws of one step, with the distance that `sum_moves_by` decides."""
    return StepLaws(mechanism, sum_moves_by(sampling, relation), sampling.exact_rate)


def needs_mirror(mechanism: Mechanism) -> str | None:
    """What a declared pair lacks to be the worst exchange of two records; None if it goes both ways."""
    if not isinstance(mechanism, Finite):
        return None
    pair = StepLaws(mechanism, 0, Fraction(1)).remove()
    assert isinstance(pair, FinitePair)
    if pair.is_symmetric:
        return None
    return (
        "a record that is exchanged, or pushed out of a full batch, can go either way, so the declared pair "
        "must lose as much in both orders (give {observed} and {alternative} that mirror each other)"
    )
