"""Bounds for batches that have no pair in the table: shuffled, fixed, weighted, drawn several times.

From above, each function returns the run that bounds the one it is given. From below, `LargestSum` and
`AllocatedExchange` are neighbours that tell most.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri

from tightrope.errors import NoTheorem
from tightrope.numerics.floats import UNIT_ROUNDOFF, floor_fraction, gamma, next_down
from tightrope.pairs.allocation import MOST_SEPARATION, Allocation
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace
from tightrope.setting.relation import REMOVE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson
from tightrope.theorems.evidence import PROVED, Evidence

ROUNDED_DOWN = 1 - 2**-50  # root, quotient and products each round by at most 2^-53
CELLS = 64  # doubling them moves epsilon by less than one percent
TAIL = 6.0  # standard deviations above the larger shift at which the last cell begins
FURTHEST = 37.0  # standard deviations beyond which a normal tail is no float
LEAST_WITNESS_NOISE = Fraction(1, 20)
CELL_BITS = 128  # carried for the mass of a cell, besides those that cancel

_PROOF = "proofs/other_batchings.md"

REVEALED_BATCHES = Evidence(
    "revealed_batches",
    "If the indices of the batches do not depend on what the records hold, telling which batches hold the "
    "differing record can only help an adversary: those batches, composed as full ones, bound the run. "
    "No amplification.",
    PROVED,
    "proof note",
    _PROOF,
)
SPLIT_NOISE = Evidence(
    "split_noise",
    "A sum over m draws with Gaussian noise s is a function of the m sums with noise s / sqrt(m) each: "
    "m steps at that noise bound it.",
    PROVED,
    "proof note",
    _PROOF,
)
LARGEST_SUM = Evidence(
    "largest_sum",
    "Records that come once per epoch in a random batch: the largest of the epoch's noisy sums tells real "
    "neighbours apart.",
    PROVED,
    "proof note; the test is that of Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024",
    _PROOF,
)
ALLOCATION_AT_HALF_NOISE = Evidence(
    "allocation_at_half_noise",
    "Shuffled batches with Gaussian noise under {SUBSTITUTE}: where all other records are alike, an epoch "
    "tells a record like them from its opposite as balls in bins do under {REMOVE} at half the noise.",
    PROVED,
    "proof note",
    _PROOF,
)
BATCHING_THEOREMS = (REVEALED_BATCHES, SPLIT_NOISE, LARGEST_SUM, ALLOCATION_AT_HALF_NOISE)


def reveal_visits(run: Run, *, visits: int) -> Run:
    """A record that comes in at most `visits` steps: the steps of smallest noise, as full batches.

    SUBSTITUTE for any batches drawn without looking at the records; ADD and REMOVE for balls in bins.
    """
    parts, left = [], visits
    for mechanism, times in sorted(_additive(run), key=lambda part: part[0].noise_multiplier):
        parts.append((Step(mechanism, EveryRecord()), min(times, left)))
        left -= min(times, left)
    return Run(tuple(parts))


def reveal_moves(run: Run) -> Run:
    """ADD and REMOVE in a fixed order, or weighted without replacement: full batches that move by 2."""
    parts = _additive(run)
    halved = [
        (type(noise)(noise_multiplier=noise.exact_noise_multiplier / 2), times) for noise, times in parts
    ]
    return Run(tuple((Step(mechanism, EveryRecord()), times) for mechanism, times in halved))


def reveal_shuffle(run: Run, *, visits: int) -> Run:
    """ADD and REMOVE of shuffled batches: a visit is one full batch that moves by 2 and one by 1."""
    visited = reveal_visits(run, visits=visits)
    return reveal_moves(visited) + visited


def reveal_repeated_draws(run: Run, *, batch: int, share: float, beta: float) -> Step:
    """Every batch is `batch` independent draws, each the differing record with probability at most `share`.

    The step bounds the run with `beta` added to delta. Its full batch moves by 1 at noise s / (2 sqrt(L)),
    which is the pair of normals 2 sqrt(L) / s apart, whatever the relation of the run is.
    """
    if not is_gaussian(run):
        raise NoTheorem("for records that come several times in a batch only Gaussian noise has a theorem")
    smallest = min(mechanism.noise_multiplier for mechanism, _ in _additive(run))
    most = most_squares(batch=batch, share=share, steps=run.steps, beta=beta)
    return Step(Gaussian(noise_multiplier=smallest / (2 * math.sqrt(most)) * ROUNDED_DOWN), EveryRecord())


def most_squares(*, batch: int, share: float, steps: int, beta: float) -> int:
    """L such that P(sum of c^2 > L) <= beta for `steps` independent counts c ~ Binomial(batch, share).

    Chernoff: P(sum > L) <= E[e^{theta c^2}]^steps e^{-theta L} for every theta > 0.
    """
    counts = np.arange(batch + 1, dtype=float)
    if share >= 1:
        return batch * batch * steps
    whole, some, others = gammaln(batch + 1), gammaln(counts + 1), gammaln(batch - counts + 1)
    log_masses = whole - some - others + counts * math.log(share) + (batch - counts) * math.log1p(-share)
    # each term is off by 16 units of itself or of 1, each of the five sums by one of the sizes before it
    sizes = 4 + whole + some + others - counts * math.log(share) - (batch - counts) * math.log1p(-share)
    best = batch * batch * steps
    for theta in np.geomspace(1e-6, 30, 300).tolist():
        squares = theta * counts**2
        exponents = log_masses + squares + 24 * UNIT_ROUNDOFF * (sizes + squares)
        top = float(exponents.max())
        # e^-t is off by (8 + t) u relative, less than 9 u of 1; the sum is at least 1
        total = math.log(float(np.exp(exponents - top).sum())) + gamma(10 * batch + 32)
        log_moment = top + total + 10 * UNIT_ROUNDOFF * (abs(top) + abs(total))
        # what is divided is positive: a mean of e^{theta c^2} is at least 1
        needed = (steps * log_moment - math.log(beta)) / theta * (1 + 16 * UNIT_ROUNDOFF)
        best = min(best, max(math.floor(needed), 1))
    return best


def split_noise(noise_multiplier: float, draws: int) -> float:
    """The noise of each of `draws` steps that together bound one step over as many draws, rounded down.

    >>> split_noise(1.5, 1), split_noise(2.0, 4) <= 1.0
    (1.5, True)
    """
    return noise_multiplier if draws == 1 else noise_multiplier / math.sqrt(draws) * ROUNDED_DOWN


def split_draws(run: Run, *, draws: int, rate: float) -> Run:
    """Steps that each sum `draws` Poisson draws: a step for each draw, at its part of the noise."""
    if not is_gaussian(run):
        raise NoTheorem("noise that is shared between several draws has a theorem for Gaussian noise only")
    noises = [
        (floor_fraction(mechanism.exact_noise_multiplier), times) for mechanism, times in _additive(run)
    ]
    split = [(split_noise(noise, draws), times) for noise, times in noises]
    one_draw = Poisson(rate=rate)
    return Run(tuple((Step(Gaussian(noise_multiplier=s), one_draw), times * draws) for s, times in split))


@dataclass(frozen=True, kw_only=True)
class LargestSum:
    """Neighbours told apart by the largest noisy sum of each epoch, for Gaussian noise.

    The differing record comes once per epoch, with probability `weight` in one of the `batches` that are
    looked at. There the sum lies at `with_record` on one side and at `without` on the other, instead of 0.
    Units are C.
    """

    epochs: int
    batches: int
    weight: Fraction | float
    with_record: float
    without: float
    noise: Fraction | float

    def __post_init__(self) -> None:
        # noise that is added to the outputs tells no more; with less, masses take so many bits that they take
        # minutes
        object.__setattr__(self, "noise", max(self.noise, LEAST_WITNESS_NOISE))

    def edges(self) -> NDArray[np.float64]:
        """Where the cells of the largest sum meet: anywhere is true, and this tells most."""
        noise = float(self.noise)
        lowest = noise * float(ndtri(0.25 ** (1 / self.batches)))
        highest = min(self.with_record + TAIL * noise, FURTHEST * noise)
        return np.linspace(lowest, highest, CELLS - 1)

    def masses(self, shift: float) -> list[tuple[float, float]]:
        """Bounds on how often the largest sum falls into each cell, if the record's sum lies at `shift`."""
        from flint import arb, ctx

        from tightrope.numerics.balls import ball, float_ends  # loads flint

        def below(x: arb) -> arb:
            return (-x / arb(2).sqrt()).erfc() / 2

        edges = self.edges().tolist()
        furthest = max(abs(edge) + abs(shift) for edge in edges) / float(self.noise)
        # the last cells hold about e^{-furthest^2 / 2}, and their masses are differences of numbers near 1
        with ctx.workprec(CELL_BITS + math.ceil(furthest**2)):
            noise, weight, ends = ball(self.noise), ball(Fraction(self.weight)), [arb(0)]
            for edge in edges:
                plain, moved = below(ball(edge) / noise), below((ball(edge) - ball(shift)) / noise)
                # (1 - w) Phi^F + w Phi^(F-1) Phi(. - shift)
                ends.append(plain ** (self.batches - 1) * ((1 - weight) * plain + weight * moved))
            cells = [high - low for low, high in pairwise([*ends, arb(1)])]
            return [(max(low, 0.0), high) for low, high in map(float_ends, cells)]  # no mass is negative

    def rounded(self, direction: Relation) -> "RoundedWitness":
        """The cells as a run in this direction: observed masses rounded down, those of the other side up."""
        with_record, without = self.masses(self.with_record), self.masses(self.without)
        removes = direction is REMOVE  # then what is observed has the record
        down, up = (with_record, without) if removes else (without, with_record)
        observed, other = [Fraction(low) for low, _ in down], [Fraction(high) for _, high in up]
        kept, grown = sum(observed, Fraction(0)), sum(other, Fraction(0))
        observed, other = [mass / kept for mass in observed], [mass / grown for mass in other]
        absent, present = (other, observed) if removes else (observed, other)
        step = Step(Finite(observed=absent, alternative=present), EveryRecord())
        return RoundedWitness(run=step * self.epochs, kept=kept, grown=grown)


@dataclass(frozen=True, kw_only=True)
class RoundedWitness:
    """A run whose epsilon, less what rounding its masses can have added, real neighbours reach.

    Let p' <= p and q' >= q be the rounded masses, K and G their sums, and n the steps. For every epsilon
    delta >= sum (prod p' - e^epsilon prod q')_+ = K^n delta'(epsilon + n ln(G / K)), delta' that of the run,
    whose masses are p' / K and q' / G. So epsilon(delta) >= epsilon'(delta / K^n) - n ln(G / K).
    """

    run: Run
    kept: Fraction
    grown: Fraction

    def delta_above(self, delta: float) -> float:
        """delta / K^n, rounded up."""
        from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

        return ceil_float(enclose(lambda: ball(delta) / ball(self.kept) ** self.run.steps))

    def epsilon_below(self, epsilon: float) -> float:
        """epsilon - n ln(G / K), rounded down; at least 0."""
        from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

        moved = 0.0
        if self.grown != self.kept:
            moved = ceil_float(enclose(lambda: self.run.steps * ball(self.grown / self.kept).log()))
        return max(next_down(epsilon - moved), 0.0)


@dataclass(frozen=True, kw_only=True)
class AllocatedExchange:
    """Neighbours under SUBSTITUTE told apart by all batches of each epoch, for Gaussian noise.

    All other records are alike; the differing one is their opposite on one side, and like them on the other.
    It comes once per epoch, with probability `weight` in one of the `batches` that are looked at, and moves
    the sum by 2 there. Units are C. An epoch is `visit` if the batch that holds the record is told.
    """

    epochs: int
    batches: int
    weight: Fraction
    noise: Fraction

    @property
    def visit(self) -> ShiftPair:
        """A batch that holds the record, observed where the record is the opposite of the others."""
        separation = 2 / self.noise
        # noise that is added to the outputs tells no more; with less, no lattice holds the likelihood ratios
        return ShiftPair.of_normals(separation if self.batches == 1 else min(separation, MOST_SEPARATION))

    @property
    def one_pass(self) -> Pair:
        """An epoch in which the record is surely in one of the batches."""
        return self.visit if self.batches == 1 else Allocation(self.visit, self.batches, self.batches)

    def dilute(self, below: Pair) -> Pair:
        """What an epoch reaches, if a pass reaches `below`: P is mixed with Q where the record stays away."""
        if self.weight == 1:
            return below
        if isinstance(below, ShiftPair):
            moved = below.observed
            return ShiftPair(Mixture(moved.noise, self.weight, moved.exact_shift), below.alternative)
        assert isinstance(below, FinitePair)
        observed = below.alternative.mixed_with(below.observed, self.weight)
        return FinitePair(observed, below.alternative)


def is_gaussian(run: Run) -> bool:
    """Whether every step adds Gaussian noise."""
    return all(isinstance(step.mechanism, Gaussian) for step, _ in run)


def _additive(run: Run) -> list[tuple[Gaussian | Laplace, int]]:
    parts = [(step.mechanism, times) for step, times in run if isinstance(step.mechanism, Gaussian | Laplace)]
    if len(parts) < len(run.parts) or len({type(mechanism) for mechanism, _ in parts}) > 1:
        raise NoTheorem(
            "batches of this kind are bounded for Gaussian or for Laplace noise, and not for both"
        )
    return parts
