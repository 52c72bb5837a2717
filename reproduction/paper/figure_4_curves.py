"""Gaussian noise, fixed batches, one record exchanged: one step both ways, a thousand by every accountant."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tightrope as tr
from reproduction.paper.item import Making
from reproduction.paper.numbers import overlap

# the envelope's own curve, from both sides, is no answer of the public interface
from tightrope.engines.choose import compose
from tightrope.engines.moments.renyi import RenyiBound
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair
from tightrope.theorems.composition import ANY_NOISE_EXCHANGED, GAUSSIAN_EXCHANGED
from tightrope.theorems.worst_pairs import step_laws

NOISE, BATCH, POPULATION, STEPS, DELTA = 4.0, 50, 1000, 1000, 1e-5
RATE = BATCH / POPULATION
ACCURACY = 1e-6  # of REMOVE's bracket and the envelope's, relative to delta


def step_of(batch: int) -> tr.Step:
    """One step with batches of this size."""
    return tr.Step(
        tr.Gaussian(noise_multiplier=NOISE), tr.WithoutReplacement(batch=batch, population=POPULATION)
    )


STEP = step_of(BATCH)
RUN = STEP * STEPS


@dataclass(frozen=True)
class OneStep:
    """The divergences of one step at order e^epsilon; `envelope`, the larger one, bounds every exchange."""

    epsilon: float
    remove: tr.Bracket
    add: tr.Bracket
    envelope: tr.Bracket

    @property
    def is_as_printed(self) -> bool:
        """Whether REMOVE is certainly larger above 0 and ADD below, and the envelope is the larger one."""
        larger, smaller = (self.remove, self.add) if self.epsilon >= 0 else (self.add, self.remove)
        ordered = larger.lower > smaller.upper if self.epsilon else overlap(larger, smaller)
        return ordered and overlap(self.envelope, larger)

    @property
    def trivial(self) -> float:
        """What every pair of distributions has: (1 - e^epsilon)_+."""
        return max(-math.expm1(self.epsilon), 0.0)


def take_one_step(epsilons: Sequence[float]) -> list[OneStep]:
    """Both directions and the envelope."""
    remove, add, envelope = (
        tr.privacy_curve(STEP, relation=relation) for relation in (tr.REMOVE, tr.ADD, tr.SUBSTITUTE)
    )
    return [OneStep(at, remove.delta(at), add.delta(at), envelope.delta(at)) for at in epsilons]


@dataclass(frozen=True)
class AccountantLine:
    """One accountant's delta at the figure's epsilons, and its epsilon at DELTA; bounds have lower end 0."""

    name: str
    epsilons: tuple[float, ...]
    deltas: tuple[tr.Bracket, ...]
    epsilon: tr.Bracket


def compose_remove(epsilons: Sequence[float]) -> AccountantLine:
    """A lower bound under SUBSTITUTE: its datasets exchange a record too."""
    curve = tr.privacy_curve(RUN, relation=tr.REMOVE, by=tr.Certified(accuracy=ACCURACY))
    return AccountantLine(
        "REMOVE", tuple(epsilons), tuple(curve.delta(at) for at in epsilons), curve.epsilon(DELTA)
    )


def compose_envelope(epsilons: Sequence[float]) -> AccountantLine:
    """The paper's upper bound: the pointwise maximum of one step, composed with itself."""
    remove = step_laws(tr.Gaussian(noise_multiplier=NOISE), STEP.sampling, tr.SUBSTITUTE).remove()
    assert isinstance(remove, ShiftPair)
    composed = compose(Schedule([(Envelope(remove), STEPS)]))
    bounds = [composed.log_bounds(at, ACCURACY) for at in epsilons]
    deltas = tuple(
        tr.Bracket(_exponential(found.lower, 0.0), _exponential(found.upper, 1.0)) for found in bounds
    )
    return AccountantLine(
        "envelope", tuple(epsilons), deltas, tr.Bracket(*composed.epsilon_bounds(DELTA, ACCURACY))
    )


def _exponential(logarithm: float, towards: float) -> float:
    """exp is off by less than a unit in the last place: one step outwards."""
    return math.nextafter(math.exp(logarithm), towards)


def bound_by_moments(epsilons: Sequence[float]) -> list[AccountantLine]:
    """Rényi bounds from REMOVE's moments (the paper's reference), the envelope's, and Wang et al.'s."""
    (removing,) = tr.privacy_curve(RUN, relation=tr.REMOVE, by=tr.Renyi()).branches
    (exchanging,) = tr.privacy_curve(RUN, relation=tr.SUBSTITUTE, by=tr.Renyi()).branches
    found = [_by_moments("Rényi, REMOVE", removing.covers[0][0], epsilons)]
    for moments, because in exchanging.covers:
        theorem = "Wang et al. Thm 27" if GAUSSIAN_EXCHANGED in because else "Wang et al. Thm 9"
        name = f"Rényi, {theorem if ANY_NOISE_EXCHANGED in because else 'envelope'}"
        found.append(_by_moments(name, moments, epsilons))
    return found


def _by_moments(name: str, moments: RenyiBound, epsilons: Sequence[float]) -> AccountantLine:
    deltas = tuple(tr.Bracket(0.0, _exponential(moments.log_delta(at)[0], 1.0)) for at in epsilons)
    return AccountantLine(name, tuple(epsilons), deltas, tr.Bracket(0.0, moments.epsilon(DELTA)[0]))


def play(epsilons: Sequence[float], effort: tr.Effort, making: Making) -> AccountantLine:
    """Every adaptive adversary, from both sides: seconds for each epsilon with effort=TIGHT."""
    curve = tr.privacy_curve(RUN, relation=tr.SUBSTITUTE, by=tr.Certified(effort=effort))
    deltas = tuple(curve.delta(at) for at in making.each("substitution game", epsilons))
    return AccountantLine("certified", tuple(epsilons), deltas, curve.epsilon(DELTA))


@dataclass(frozen=True)
class Misprint:
    """Theorem 15 for e^epsilon >= 1 with one of its two laws exchanged, at one epsilon and one step.

    The printed pair, ((1-g)Q + gP, P), is the right one, ((1-g)Q + gP, Q), at rate 1 - g: P and Q are mirror
    images.
    """

    epsilon: float
    right: tr.Bracket
    printed: tr.Bracket
    composed_right: tr.Bracket
    composed_printed: tr.Bracket


def read_both_ways(epsilon: float) -> Misprint:
    """Both readings at RATE, and composed."""
    right, printed = (
        tr.privacy_curve(step_of(batch), relation=tr.REMOVE) for batch in (BATCH, POPULATION - BATCH)
    )
    composed = [
        tr.epsilon(step_of(batch) * STEPS, delta=DELTA, relation=tr.REMOVE)
        for batch in (BATCH, POPULATION - BATCH)
    ]
    return Misprint(epsilon, right.delta(epsilon), printed.delta(epsilon), composed[0], composed[1])


def ask_poisson_twin() -> tr.Bracket:
    """Epsilon of Poisson sampling at half the noise under add or remove, which has REMOVE's pair."""
    step = tr.Step(tr.Gaussian(noise_multiplier=NOISE / 2), tr.Poisson(rate=RATE))
    return tr.epsilon(step * STEPS, delta=DELTA, relation=tr.ADD_OR_REMOVE)


def space_evenly(first: float, last: float, count: int) -> list[float]:
    """So many epsilons; one that should be 0 is 0."""
    return [round(float(at), 12) for at in np.linspace(first, last, count)]
