"""Batches without replacement under SUBSTITUTE: REMOVE, the certified bracket and the envelope."""

import math
from dataclasses import dataclass

import tightrope as tr

AT_DELTA = "1e-5"
DELTA = float(AT_DELTA)
POPULATION = 1000
Place = tuple[float, float, int]  # rate, noise, steps


@dataclass(frozen=True)
class MapCell:
    """Epsilons at DELTA: `remove` as conjectured, `substitute` the truth, `envelope` the paper's bound."""

    rate: float
    noise: float
    steps: int
    remove: tr.Bracket
    substitute: tr.Bracket
    envelope: tr.Bracket

    @property
    def gain(self) -> float:
        """By how much, at least, an adaptive adversary beats REMOVE, relative to it; not certain below 0."""
        return self.substitute.lower / self.remove.upper - 1

    @property
    def is_certain(self) -> bool:
        """Whether the conjecture is certainly wrong here."""
        return self.substitute.lower > self.remove.upper

    @property
    def gap(self) -> float:
        """By how much the envelope exceeds the certified upper end, relative to it."""
        return self.envelope.upper / self.substitute.upper - 1

    def __str__(self) -> str:
        return f"rate {self.rate:g}, noise {self.noise:g}, {self.steps:,} steps"


def solve(place: Place) -> MapCell:
    """The cell at (rate, noise, steps), batches out of POPULATION records."""
    rate, noise, steps = place
    sampling = tr.WithoutReplacement(batch=round(rate * POPULATION), population=POPULATION)
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * steps
    remove = tr.epsilon(run, delta=DELTA, relation=tr.REMOVE)
    envelope, substitute = (
        tr.epsilon(run, delta=DELTA, relation=tr.SUBSTITUTE, by=tr.Certified(effort=effort))
        for effort in (tr.QUICK, tr.TIGHT)
    )
    return MapCell(*place, remove, substitute, envelope)


def percent(share: float) -> str:
    """A share in percent, rounded down to two digits or three decimals: what it certainly is at least.

    >>> percent(0.00838), percent(0.21969), percent(0.0000318)
    ('0.83 %', '21 %', '0.003 %')
    """
    decimals = 3 if share < 1e-4 else 2 if share < 0.01 else 1 if share < 0.1 else 0
    return f"{math.floor(share * 10 ** (2 + decimals)) / 10**decimals:.{decimals}f} %"
