"""Real neighbours told apart by the largest noisy sum of an epoch: lower bounds where each record comes once per epoch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from tightrope.answers.spend import epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.setting.mechanism import Finite
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord

CELLS = 64  # doubling them moves epsilon by less than one percent
TAIL = 6.0  # standard deviations above the larger shift at which the last cell begins
FURTHEST = 37.0  # standard deviations beyond which a normal tail is no float
ROUNDING = 1e-6  # relative, in epsilon: masses are good to 1e-9 or better


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Epochs in which the differing record comes once, in one of `batches` that are looked at with probability `weight`.

    There the sum lies at `with_record` on one side and at `without` on the other, instead of 0. Units are C.
    """

    epochs: int
    batches: int
    weight: float
    with_record: float
    without: float
    noise: float

    def edges(self) -> NDArray[np.float64]:
        """Where the cells of the largest sum meet."""
        lowest = self.noise * float(ndtri(0.25 ** (1 / self.batches)))
        highest = min(self.with_record + TAIL * self.noise, FURTHEST * self.noise)
        return np.linspace(lowest, highest, CELLS - 1)

    def masses(self) -> tuple[list[float], list[float]]:
        """How often the largest sum falls into each cell, with the record and without it."""
        edges = self.edges()
        plain = log_ndtr(edges / self.noise)
        both = []
        for shift in (self.with_record, self.without):
            moved = log_ndtr((edges - shift) / self.noise)
            # ln of (1 - w) Phi^F + w Phi^(F-1) Phi(. - shift)
            with np.errstate(divide="ignore"):  # ln 0 where the record is always seen and never so low
                log_below = self.batches * plain + np.log1p(self.weight * np.expm1(moved - plain))
            below = np.concatenate([[0.0], np.exp(log_below), [1.0]])
            above = np.concatenate([[1.0], -np.expm1(log_below), [0.0]])
            # each cell from the side on which the numbers are small: differences of numbers near 1 have no digits
            cells = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
            both.append((np.maximum(cells, 0.0) / cells.sum()).tolist())
        return both[0], both[1]

    def epsilon(self, delta: float, *, directions: Sequence[Relation]) -> float:
        """A lower bound on epsilon that these neighbours reach; REMOVE looks from the one with the record, ADD from the other."""
        if self.epochs == 0 or self.batches == 0:
            return 0.0
        observed, alternative = self.masses()
        step = Step(Finite(observed=observed, alternative=alternative), EveryRecord())
        return max(_reached(step * self.epochs, delta, direction) for direction in directions)


def _reached(run: Run, delta: float, direction: Relation) -> float:
    try:
        # Finite lists what is seen without the record first: here that is turned round
        lower = epsilon(run, delta=delta, relation=direction.opposite).lower
    except NotPreciseEnough:
        return 0.0  # less is known then; what is said stays true
    return lower * (1 - ROUNDING) if math.isfinite(lower) else 0.0
