"""The smallest noise for a target at each sampling rate, where its regimes meet, and what mistakes cost."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import tightrope as tr

RELATION, STEPS, DELTA = tr.ADD_OR_REMOVE, 10_000, 1e-6
POPULATION = 1_000_000
# ratio of the rates at the ends of a chord: narrower ones drown in what a calibration leaves open, about 2e-5
CHORD = 1.02
HALF = 0.5  # the slope at which one regime ends: of proportional noise it is 1, of constant noise 0

Sampling = tr.Poisson | tr.WithoutReplacement


def poisson(batch: int) -> Sampling:
    """The expected batch, at the very rate of a fixed one: the two can be compared to the last bit."""
    return tr.Poisson(rate=batch / POPULATION)


def fixed_size(batch: int) -> Sampling:
    """Always so many records."""
    return tr.WithoutReplacement(batch=batch, population=POPULATION)


@dataclass(frozen=True)
class Line:
    """One line of the figure: a sampling and a target."""

    sampling: str
    draw: Callable[[int], Sampling]
    epsilon: float

    @property
    def name(self) -> str:
        """How it is called in words."""
        return f"{self.sampling}, ε = {self.epsilon:g}"

    def calibrate(self, batch: int) -> "NoisePoint":
        """The smallest noise at one batch."""
        sampling, target = self.draw(batch), self.epsilon
        found = tr.smallest_noise(sampling, steps=STEPS, epsilon=target, delta=DELTA, relation=RELATION)
        return NoisePoint(self, batch, found)


POISSON_1, POISSON_2, POISSON_5, POISSON_10 = (
    Line("Poisson", poisson, epsilon) for epsilon in (1.0, 2.0, 5.0, 10.0)
)
FIXED_10 = Line("without replacement", fixed_size, 10.0)
LINES = (POISSON_1, POISSON_2, POISSON_5, POISSON_10, FIXED_10)


@dataclass(frozen=True)
class NoisePoint:
    """The smallest noise on one line at one batch."""

    line: Line
    batch: int
    found: tr.Calibration[float]

    @property
    def rate(self) -> float:
        """The sampling rate."""
        return self.batch / POPULATION

    @property
    def noise(self) -> tr.Bracket:
        """Where the smallest noise lies: the upper end meets the target, less than the lower misses it."""
        if self.found.beyond is None:
            raise ArithmeticError(f"nothing below noise {self.found.value!r} is known to miss the target")
        return tr.Bracket(self.found.beyond, self.found.value)


def choose_batches(count: int) -> list[int]:
    """Batches whose rates run geometrically from 1e-4 to 1; the last leaves out a record, as it must."""
    return [min(round(float(rate) * POPULATION), POPULATION - 1) for rate in np.geomspace(1e-4, 1, count)]


def spend(draw: Callable[[int], Sampling], batch: int, noise: float) -> tr.Bracket:
    """The epsilon of the whole run."""
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), draw(batch)) * STEPS
    return tr.epsilon(run, delta=DELTA, relation=RELATION)


@dataclass(frozen=True)
class Doubling:
    """At how many rates fixed batches need twice Poisson's noise, and spend its epsilon, to the last bit."""

    noise: int
    epsilon: int
    rates: int
    certainly_other: int  # rates at which the two are certainly not the same


def compare_lines(plain: Iterable[NoisePoint], fixed: Iterable[NoisePoint]) -> Doubling:
    """Compare Poisson sampling with fixed batches, point by point."""
    noise = epsilon = rates = other = 0
    for one, two in zip(plain, fixed, strict=True):
        value = one.found.value
        rates += 1
        noise += two.found.value == 2 * value
        epsilon += spend(fixed_size, one.batch, 2 * value) == spend(poisson, one.batch, value)
        other += two.noise.lower > 2 * one.noise.upper or two.noise.upper < 2 * one.noise.lower
    return Doubling(noise, epsilon, rates, other)


@dataclass(frozen=True)
class MistakenRun:
    """A run without replacement whose noise was meant for Poisson sampling, and what it really spends."""

    meant: NoisePoint
    epsilon: tr.Bracket


def run_by_mistake(meant: NoisePoint) -> MistakenRun:
    """Draw batches without replacement with the noise of this point."""
    return MistakenRun(meant, spend(fixed_size, meant.batch, meant.found.value))


def slope(left: NoisePoint, right: NoisePoint) -> tr.Bracket:
    """d ln noise / d ln rate of the chord between two points: the local slope somewhere in between."""
    run = math.log(right.batch / left.batch)
    least = math.log(right.noise.lower / left.noise.upper) / run
    most = math.log(right.noise.upper / left.noise.lower) / run
    # rounding of two logarithms, each a few units in the last place of numbers below 10
    slope_abs_error = 1e-14 / run
    return tr.Bracket(least - slope_abs_error, most + slope_abs_error)


@dataclass(frozen=True)
class Transition:
    """Two points between which the local slope of a line passes HALF."""

    left: NoisePoint
    right: NoisePoint

    @property
    def rate(self) -> tr.Bracket:
        """Where."""
        return tr.Bracket(self.left.rate, self.right.rate)

    @property
    def noise(self) -> tr.Bracket:
        """At which noise: it grows with the rate."""
        return tr.Bracket(self.left.noise.lower, self.right.noise.upper)

    @property
    def middle(self) -> tuple[float, float]:
        """A rate and a noise to draw."""
        return math.sqrt(self.rate.lower * self.rate.upper), math.sqrt(self.noise.lower * self.noise.upper)


def find_transition(points: Sequence[NoisePoint]) -> Transition:
    """Bisect between the last chord that is certainly flatter than HALF and the first certainly steeper one.

    A chord has its slope somewhere inside, and a derivative takes every value between two of its own: HALF is
    passed.
    """
    line, chords = points[0].line, list(pairwise(points))
    flat = max((each for each in chords if slope(*each).upper < HALF), key=_batch, default=None)
    steep = min((each for each in chords if slope(*each).lower > HALF), key=_batch, default=None)
    if flat is None or steep is None or flat[0].batch >= steep[1].batch:
        raise tr.NotPreciseEnough(
            f"{line.name}: the slope does not certainly pass {HALF:g} once", "Take more rates."
        )
    low, high = flat[0].batch, steep[1].batch
    while high > low * CHORD:
        middle = round(math.sqrt(low * high))
        chord = line.calibrate(middle), line.calibrate(math.ceil(middle * CHORD))
        found = slope(*chord)
        if found.upper < HALF:
            low, flat = middle, chord
        elif found.lower > HALF:
            high, steep = middle, chord
        else:
            break  # too close to tell
    return Transition(flat[0], steep[1])


def _batch(chord: tuple[NoisePoint, NoisePoint]) -> int:
    return chord[0].batch
